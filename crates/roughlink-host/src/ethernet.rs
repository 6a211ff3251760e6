//! The Ethernet of a network: what frames of hosts with layer `ethernet` do between device and port.
//!
//! All these hosts are on one Ethernet, as far as links join them, and this is its switch. It learns behind which port an address is;
//! a frame for an address that it knows goes through the network to the port there, byte for byte, and any other frame, broadcast
//! and multicast among them, to all other ports of the Ethernet: in their order, one copy for each. The nodes between are no stations on it,
//! and nothing is answered, filtered or held back: a cable carries what it is given, link-local control frames included.
//!
//! Nodes that are simulated, or joined by IP, have an address too ([`node_mac`]). For a frame that has one of these the Ethernet ends
//! here: its IP datagram goes on by its destination address, and one that comes back gets a header here. An attached host is sent such a datagram at
//! the address from which it has sent something with that IP address, until then to all.

use roughlink_core::net::{Network, Observer, Outgoing};
use roughlink_core::scenario::{Interface, Scenario};
use roughlink_core::units::Time;
use roughlink_core::wire::{self, IpPair, ethernet};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// An address of Ethernet.
pub(crate) type Mac = [u8; 6];

/// The address of a node: locally administered (IEEE 802 section 8.2.2), its number counted from 1 in the last three bytes.
pub(crate) fn node_mac(node: usize) -> Mac {
    let [_, high, middle, low] = (node as u32 + 1).to_be_bytes();
    [2, 0, 0, high, middle, low]
}

/// As `ip` writes it.
pub(crate) fn text(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// The switch, and what it knows of hosts.
pub(crate) struct Switch {
    /// Where the host of each port is sent what has no header, if it is on the Ethernet.
    ports: Vec<Option<Station>>,
    /// The addresses of nodes that are not on the Ethernet.
    others: BTreeSet<Mac>,
    /// The port behind which an address was last seen.
    learned: BTreeMap<Mac, usize>,
    /// A datagram with its header.
    frame: Vec<u8>,
}

/// A host, or several behind an interface.
enum Station {
    /// It has a device of ours, with this address.
    Ours(Mac),
    /// The addresses of those behind the interface, by their IP addresses.
    Behind(BTreeMap<IpAddr, Mac>),
}

impl Switch {
    /// For ports at these nodes of a scenario.
    pub(crate) fn new(scenario: &Scenario, nodes: &[usize]) -> Self {
        let station = |node: &usize| match scenario.interfaces.get(node) {
            None | Some(Interface::Ip) => None,
            Some(Interface::Ethernet) => Some(Station::Ours(node_mac(*node))),
            Some(Interface::Attached(_)) => Some(Station::Behind(BTreeMap::new())),
        };
        let ports: Vec<_> = nodes.iter().map(station).collect();
        let port_of = |node: usize| nodes.iter().position(|n| *n == node).filter(|&port| ports[port].is_some());
        let others = (0..scenario.nodes.len()).filter(|&node| port_of(node).is_none());
        let others = others.map(node_mac).collect();
        let ours = |(port, station): (usize, &Option<Station>)| match station {
            Some(Station::Ours(mac)) => Some((*mac, port)),
            _ => None,
        };
        let learned = ports.iter().enumerate().filter_map(ours).collect();
        Switch { ports, others, learned, frame: Vec::new() }
    }

    /// The host of `port` has sent `bytes`, a datagram or a frame. Returns the datagram; nothing if a frame has none.
    pub(crate) fn receive<'b, O: Observer>(
        &mut self,
        network: &mut Network,
        (now, port): (Time, usize),
        bytes: &'b [u8],
        observer: &mut O,
    ) -> &'b [u8] {
        let Some(station) = &mut self.ports[port] else {
            network.receive_observed(now, port, bytes, observer);
            return bytes;
        };
        let datagram = datagram(bytes);
        let Some((to, from)) = addresses(bytes) else {
            network.receive_observed(now, port, bytes, observer);
            return datagram;
        };
        if from[0] & GROUP == 0 {
            note(&mut self.learned, from, port);
            if let (Station::Behind(known), Ok(envelope)) = (station, wire::envelope(datagram)) {
                note(known, ends(&envelope.pair)[0], from);
            }
        }
        if self.others.contains(&to) {
            network.receive_observed(now, port, datagram, observer);
            return datagram;
        }
        match self.learned.get(&to) {
            Some(&there) if there == port => {} // it has been there
            Some(&there) => network.forward_observed(now, [port, there], bytes, observer),
            None => {
                let all = (0..self.ports.len()).filter(|&there| there != port && self.ports[there].is_some());
                all.for_each(|there| network.forward_observed(now, [port, there], bytes, observer));
            }
        }
        datagram
    }

    /// What has left the network, as the host at its port takes it.
    pub(crate) fn transmit<'b>(&'b mut self, out: &'b Outgoing) -> &'b [u8] {
        let (Some(station), false) = (&self.ports[out.port], out.is_frame) else { return &out.datagram };
        let Ok(envelope) = wire::envelope(&out.datagram) else { return &out.datagram };
        let [from, to] = ends(&envelope.pair);
        let mac = match station {
            Station::Ours(mac) => *mac,
            Station::Behind(known) => known.get(&to).copied().unwrap_or(BROADCAST),
        };
        let kind: [u8; 2] = if from.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] };
        self.frame.clear();
        [&mac[..], &NETWORK, &kind, &out.datagram[..]].into_iter().for_each(|part| self.frame.extend_from_slice(part));
        &self.frame
    }
}

/// The IP datagram in a frame; nothing if there is none.
pub(crate) fn datagram(frame: &[u8]) -> &[u8] {
    ethernet::envelope(frame).map_or(&[][..], |(at, envelope)| &frame[at..at + envelope.end])
}

/// Destination and source of a frame.
fn addresses(frame: &[u8]) -> Option<(Mac, Mac)> {
    let (to, rest) = frame.split_first_chunk()?;
    Some((*to, *rest.first_chunk()?))
}

fn ends(pair: &IpPair) -> [IpAddr; 2] {
    match *pair {
        IpPair::V4 { src, dst } => [src.into(), dst.into()],
        IpPair::V6 { src, dst } => [src.into(), dst.into()],
    }
}

/// Notes something unless there is too much.
fn note<K: Ord, V>(table: &mut BTreeMap<K, V>, key: K, value: V) {
    if table.len() < MOST_LEARNED || table.contains_key(&key) {
        table.insert(key, value);
    }
}

/// The bit of an address that is a group's, in its first byte.
const GROUP: u8 = 1;
const BROADCAST: Mac = [0xff; 6];
/// Where datagrams without a header come from; no node has it.
const NETWORK: Mac = [2, 0, 0, 0, 0, 0];
/// Addresses beyond these are not learned: their frames go everywhere.
const MOST_LEARNED: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use roughlink_core::net::{NoObserver, Options};

    /// Nodes a, b and c on the Ethernet, d simulated, all at a hub; addresses are counted from 1.
    fn network() -> (Network, Switch) {
        let mut text = "duration = \"9 s\"\nnode = [{ name = \"hub\" }".to_owned();
        text +=
            &["a", "b", "c"].map(|n| format!(", {{ name = \"{n}\", kernel = true, layer = \"ethernet\" }}")).concat();
        text += ", { name = \"d\" }]\n";
        for node in ["a", "b", "c", "d"] {
            text += &format!(
                "[[link]]\nname = \"to {node}\"\nbetween = [\"hub\", \"{node}\"]\nrate = \"100 Mbit/s\"\ndelay = \"1 ms\"\n"
            );
        }
        let scenario = roughlink_scenario::parse(&text, "test", &[], &|_| Err(String::new())).unwrap().0;
        let nodes = vec![1, 2, 3];
        let switch = Switch::new(&scenario, &nodes);
        (Network::new(scenario, Options { ports: nodes, ..Options::default() }).unwrap(), switch)
    }

    fn frame(to: Mac, from: Mac) -> Vec<u8> {
        [&to[..], &from, &[0x88, 0xe1], &[7; 46]].concat()
    }

    #[test]
    fn frames_go_where_their_addresses_are() {
        let (mut network, mut switch) = network();
        let strange = [0x52, 0x54, 0, 1, 2, 3];
        let mut now = Time::ZERO;
        let mut ports_of = |to, from, port| {
            switch.receive(&mut network, (now, port), &frame(to, from), &mut NoObserver);
            now += Time::from_millis(100);
            let out = std::iter::from_fn(|| network.transmit(now));
            let ports: Vec<usize> = out.inspect(|o| assert_eq!(o.datagram, frame(to, from))).map(|o| o.port).collect();
            ports
        };
        let [a, b, c] = [1, 2, 3].map(node_mac);
        assert_eq!(text(a), "02:00:00:00:00:02");
        assert_eq!(ports_of(b, a, 0), [1], "addresses of nodes are known");
        assert_eq!(ports_of(BROADCAST, a, 0), [1, 2]);
        assert_eq!(ports_of([0x33, 0x33, 0, 0, 0, 1], c, 2), [0, 1]);
        assert_eq!(ports_of(strange, a, 0), [1, 2], "it has not been seen");
        assert_eq!(ports_of(a, strange, 2), [0]);
        assert_eq!(ports_of(strange, a, 0), [2]);
        assert!(ports_of(strange, c, 2).is_empty(), "both are behind the same port");
        assert_eq!(ports_of(a, strange, 1), [0], "it has moved");
        assert_eq!(ports_of(strange, c, 2), [1]);
        assert!(ports_of(node_mac(4), a, 0).is_empty(), "a simulated node understands IP only");
    }

    #[test]
    fn datagrams_have_headers_on_the_ethernet_only() {
        let (_, mut switch) = network();
        let mut datagram = vec![0x60, 0, 0, 0, 0, 4, 59, 64];
        datagram.extend([0xfd; 36]);
        let out = Outgoing { due: Time::ZERO, port: 0, datagram: datagram.clone(), since: None, is_frame: false };
        let header = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0x86, 0xdd];
        assert_eq!(switch.transmit(&out), [&header[..], &datagram].concat());
        let framed = Outgoing { is_frame: true, ..out.clone() };
        assert_eq!(switch.transmit(&framed), datagram);
        // Behind an interface whoever has the address gets it, once that is known.
        switch.ports[0] = Some(Station::Behind(BTreeMap::new()));
        assert_eq!(switch.transmit(&out)[..6], BROADCAST);
        let to = "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd".parse().unwrap();
        switch.ports[0] = Some(Station::Behind([(to, [4; 6])].into()));
        assert_eq!(switch.transmit(&out)[..6], [4; 6]);
        switch.ports[0] = None;
        assert_eq!(switch.transmit(&out), datagram);
    }

    #[test]
    fn what_is_learned_is_bounded() {
        let (mut network, mut switch) = network();
        for i in 0..2 * MOST_LEARNED as u32 {
            let [a, b, c, d] = i.to_be_bytes();
            let from = frame(node_mac(2), [4, 0, a, b, c, d]);
            switch.receive(&mut network, (Time::ZERO, 0), &from, &mut NoObserver);
        }
        assert_eq!(switch.learned.len(), MOST_LEARNED);
    }
}
