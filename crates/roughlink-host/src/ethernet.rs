//! The Ethernet of a network: what frames of hosts with layer `ethernet` do between device and port.
//!
//! All these hosts are on one Ethernet, as far as links join them, and this is its switch. It learns behind which port an address is;
//! a frame for an address that it knows goes through the network to the port there, byte for byte, and any other frame, broadcast
//! and multicast among them, to all other ports of the Ethernet: in their order, one copy for each. The nodes between are no stations on it.
//! Nothing between these hosts is answered or held back, link-local control frames included, and only one kind of frame is filtered: a kernel node
//! receives membership reports of IGMP and MLD only if it has sent a query ([`crate::snooping`]). An attached device receives all of them.
//!
//! Nodes that are simulated, or joined by IP, have an address too ([`node_mac`]), and one that they share, [`NETWORK`]. For a frame that has one of these
//! the Ethernet ends here: its IP datagram goes on by its destination address, and one that comes back gets a header here. An attached host is sent such a
//! datagram at the address that it has given for that IP address, by ARP, neighbour discovery or a datagram of its own. As long as there is none it is asked for,
//! and the datagram waits, for a while. The host may ask back, where the sender is: it is answered for whoever has sent it something, and at these addresses.
//! Others are not answered for: an address that the scenario gives to a simulated node may be that of a host which the scenario does not know.

use crate::neighbours::{self, Heard};
use crate::snooping::Membership;
use roughlink_core::net::{Network, Observer, Outgoing};
use roughlink_core::scenario::{Interface, Scenario};
use roughlink_core::units::Time;
use roughlink_core::wire::{self, IpPair, ethernet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
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
    /// Ports behind which a multicast router may be.
    routers: Vec<bool>,
    /// A datagram with its header.
    frame: Vec<u8>,
    ready: VecDeque<Ready>,
    unanswered: u64,
}

/// What the switch itself has to send.
pub(crate) struct Ready {
    pub(crate) port: usize,
    pub(crate) frame: Vec<u8>,
    /// What has waited in it; nothing if it is a question or an answer.
    pub(crate) waited: Option<Outgoing>,
}

/// A host, or several behind an interface.
enum Station {
    /// It has a device of ours, with this address.
    Ours(Mac),
    /// Who is behind an interface.
    Behind(Behind),
}

/// Those behind an interface.
#[derive(Default)]
struct Behind {
    /// Their addresses.
    known: BTreeMap<IpAddr, Mac>,
    /// Who has sent them something.
    senders: BTreeSet<IpAddr>,
    /// What is for those whose address is not known.
    waiting: BTreeMap<IpAddr, Waiting>,
}

struct Waiting {
    /// When the address was last asked for.
    asked: Time,
    /// With when they left the network, the oldest first.
    datagrams: VecDeque<(Time, Outgoing)>,
}

impl Switch {
    /// For ports at these nodes of a scenario.
    pub(crate) fn new(scenario: &Scenario, nodes: &[usize]) -> Self {
        let station = |node: &usize| match scenario.interfaces.get(node) {
            None | Some(Interface::Ip) => None,
            Some(Interface::Ethernet) => Some(Station::Ours(node_mac(*node))),
            Some(Interface::Attached(_)) => Some(Station::Behind(Behind::default())),
        };
        let ports: Vec<_> = nodes.iter().map(station).collect();
        let port_of = |node: usize| nodes.iter().position(|n| *n == node).filter(|&port| ports[port].is_some());
        let others = (0..scenario.nodes.len()).filter(|&node| port_of(node).is_none());
        let others = others.map(node_mac).chain([NETWORK]).collect();
        let ours = |(port, station): (usize, &Option<Station>)| match station {
            Some(Station::Ours(mac)) => Some((*mac, port)),
            _ => None,
        };
        let learned = ports.iter().enumerate().filter_map(ours).collect();
        // Nothing is known of the network behind an attached device.
        let routers = ports.iter().map(|station| matches!(station, Some(Station::Behind(_)))).collect();
        Switch { ports, others, learned, routers, frame: Vec::new(), ready: VecDeque::new(), unanswered: 0 }
    }

    /// The host of `port` has sent `bytes`, a datagram or a frame. Returns the datagram; nothing if a frame has none, or was for the switch.
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
        let is_here = self.others.contains(&to);
        let heard = neighbours::read(bytes);
        if !is_group(from) {
            note(&mut self.learned, from, port);
        }
        if let Station::Behind(behind) = station {
            let sender = wire::envelope(datagram).ok().map(|envelope| (ends(&envelope.pair)[0], from));
            for (address, mac) in sender.into_iter().chain(heard.and_then(|heard| heard.has)) {
                self.unanswered += behind.learn((now, port), address, mac, &mut self.ready);
            }
            if let Some(Heard { has: Some(asker), asked: Some(asked) }) = heard
                && (is_here || behind.senders.contains(&asked))
            {
                let frame = neighbours::answer(bytes, asked, asker);
                self.ready.extend(frame.map(|frame| Ready { port, frame, waited: None }));
            }
        }
        if is_here && heard.is_some() {
            return &[];
        }
        if is_here {
            network.receive_observed(now, port, datagram, observer);
            return datagram;
        }
        let membership = Membership::read(datagram);
        self.routers[port] |= membership == Some(Membership::Query);
        if membership == Some(Membership::Report) {
            let routers: Vec<usize> =
                (0..self.ports.len()).filter(|&there| there != port && self.routers[there]).collect();
            routers.iter().for_each(|&there| network.forward_observed(now, [port, there], bytes, observer));
            return if routers.is_empty() { &[] } else { datagram };
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

    /// What has left the network by `now`, as the host at its port takes it; nothing if it waits for the host's address.
    pub(crate) fn transmit<'b>(&'b mut self, now: Time, out: &'b Outgoing) -> Option<&'b [u8]> {
        let (Some(station), false) = (&mut self.ports[out.port], out.is_frame) else { return Some(&out.datagram) };
        let Ok(envelope) = wire::envelope(&out.datagram) else { return Some(&out.datagram) };
        let [from, to] = ends(&envelope.pair);
        let mac = match station {
            Station::Ours(mac) => *mac,
            Station::Behind(behind) => {
                if behind.senders.len() < MOST_LEARNED {
                    behind.senders.insert(from);
                }
                if let Some(mac) = behind.known.get(&to) {
                    *mac
                } else {
                    self.unanswered += behind.ask(now, [from, to], out, &mut self.ready);
                    return None;
                }
            }
        };
        framed(mac, &out.datagram, &mut self.frame);
        Some(&self.frame)
    }

    /// What the switch itself has to send next.
    pub(crate) fn next(&mut self) -> Option<Ready> {
        self.ready.pop_front()
    }

    /// Datagrams from kernels that wait for the address of their destination, or to be sent by [`Switch::next`].
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &[u8]> {
        let behind = self.ports.iter().flatten().filter_map(|station| match station {
            Station::Ours(_) => None,
            Station::Behind(behind) => Some(&behind.waiting),
        });
        let waiting = behind.flat_map(BTreeMap::values).flat_map(|waiting| &waiting.datagrams).map(|(_, out)| out);
        let ready = self.ready.iter().filter_map(|ready| ready.waited.as_ref());
        waiting.chain(ready).filter(|out| out.since.is_some()).filter_map(Outgoing::ip_datagram)
    }

    /// Datagrams that were not sent because nobody said that the address is theirs, those that still wait among them.
    pub(crate) fn unanswered(&self) -> u64 {
        let waiting = |station: &Station| match station {
            Station::Ours(_) => 0,
            Station::Behind(behind) => behind.waiting.values().map(|waiting| waiting.datagrams.len() as u64).sum(),
        };
        self.unanswered + self.ports.iter().flatten().map(waiting).sum::<u64>()
    }
}

impl Behind {
    /// Somebody has an address: what waited for it is ready. Returns how much has waited too long.
    fn learn(&mut self, (now, port): (Time, usize), address: IpAddr, mac: Mac, ready: &mut VecDeque<Ready>) -> u64 {
        if address.is_unspecified() || address.is_multicast() || is_group(mac) {
            return 0;
        }
        note(&mut self.known, address, mac);
        let Some(Waiting { datagrams, .. }) = self.waiting.remove(&address) else { return 0 };
        let count = datagrams.len();
        let fresh = datagrams.into_iter().filter(|(since, _)| now.saturating_sub(*since) <= LONGEST_WAIT);
        let before = ready.len();
        ready.extend(fresh.map(|(_, out)| {
            let mut frame = Vec::new();
            framed(mac, &out.datagram, &mut frame);
            Ready { port, frame, waited: Some(out) }
        }));
        (count + before - ready.len()) as u64
    }

    /// A datagram waits for the address of its destination, which is asked for at most once a second (RFC 1122 section 2.3.2.1), as long as there
    /// are datagrams. Returns how many there is no more room for.
    fn ask(&mut self, now: Time, [from, to]: [IpAddr; 2], out: &Outgoing, ready: &mut VecDeque<Ready>) -> u64 {
        let is_new = !self.waiting.contains_key(&to);
        if is_new && self.waiting.len() >= MOST_ASKED {
            return 1;
        }
        let waiting = self.waiting.entry(to).or_insert_with(|| Waiting { asked: now, datagrams: VecDeque::new() });
        if is_new || now.saturating_sub(waiting.asked) >= ASKED_AGAIN {
            waiting.asked = now;
            let question = neighbours::question(from, to);
            ready.extend(question.map(|frame| Ready { port: out.port, frame, waited: None }));
        }
        // The latest are kept (section 2.3.2.2).
        waiting.datagrams.push_back((now, out.clone()));
        if waiting.datagrams.len() > MOST_WAITING {
            waiting.datagrams.pop_front();
            return 1;
        }
        0
    }
}

/// A datagram from the network in a frame.
fn framed(to: Mac, datagram: &[u8], frame: &mut Vec<u8>) {
    let kind = if datagram[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
    frame.clear();
    [&to[..], &NETWORK, &kind, datagram].into_iter().for_each(|part| frame.extend_from_slice(part));
}

/// Whether an address is a group's.
pub(crate) fn is_group(mac: Mac) -> bool {
    mac[0] & 1 != 0
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

/// Where datagrams without a header come from; no node has it alone.
pub(crate) const NETWORK: Mac = [2, 0, 0, 0, 0, 0];
/// Addresses beyond these are not learned: their frames go everywhere.
const MOST_LEARNED: usize = 4096;
/// Addresses that are asked for at the same time, and datagrams that wait for each: as many as a window of TCP begins with, and more.
const MOST_ASKED: usize = 64;
const MOST_WAITING: usize = 64;
/// When an address is asked for again.
const ASKED_AGAIN: Time = Time::from_secs(1);
/// What has waited longer is of no use any more.
const LONGEST_WAIT: Time = Time::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snooping::tests::mld;
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

    /// RFC 4541 section 2.1.1 (1): reports go to ports with multicast routers only, where queries have come from.
    #[test]
    fn membership_reports_reach_queriers_and_attached_devices_only() {
        let (mut network, mut switch) = network();
        let mut now = Time::ZERO;
        let mut ports_of = |switch: &mut Switch, kind, port| {
            let frame = [&[0x33, 0x33, 0, 0, 0, 0x16][..], &node_mac(port + 1), &[0x86, 0xdd], &mld(kind)].concat();
            let before = network.port_stats().received;
            switch.receive(&mut network, (now, port), &frame, &mut NoObserver);
            let entered = network.port_stats().received - before;
            now += Time::from_millis(100);
            let ports: Vec<usize> = std::iter::from_fn(|| network.transmit(now)).map(|out| out.port).collect();
            assert_eq!(ports.len() as u64, entered, "a packet that no port gets takes no part in the noise");
            ports
        };
        assert!(ports_of(&mut switch, 143, 0).is_empty(), "no kernel asked for it");
        assert_eq!(ports_of(&mut switch, 130, 2), [0, 1], "a query goes to all");
        assert_eq!(ports_of(&mut switch, 143, 0), [2]);
        assert!(ports_of(&mut switch, 143, 2).is_empty(), "it asked the others");
        switch.routers[1] = true; // as an attached device has it
        assert_eq!(ports_of(&mut switch, 132, 0), [1, 2]);
    }

    #[test]
    fn datagrams_have_headers_on_the_ethernet_only() {
        let (_, mut switch) = network();
        let mut datagram = vec![0x60, 0, 0, 0, 0, 4, 59, 64];
        datagram.extend([0xfd; 36]);
        let out = Outgoing { due: Time::ZERO, port: 0, datagram: datagram.clone(), since: None, is_frame: false };
        let header = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0x86, 0xdd];
        assert_eq!(switch.transmit(Time::ZERO, &out).unwrap(), [&header[..], &datagram].concat());
        let framed = Outgoing { is_frame: true, ..out.clone() };
        assert_eq!(switch.transmit(Time::ZERO, &framed).unwrap(), datagram);
        switch.ports[0] = None;
        assert_eq!(switch.transmit(Time::ZERO, &out).unwrap(), datagram);
    }

    /// Somebody behind an interface at port 0, and a datagram for 10.0.0.2 from 10.0.0.5.
    fn behind() -> (Network, Switch, Outgoing) {
        let (network, mut switch) = network();
        switch.ports[0] = Some(Station::Behind(Behind::default()));
        let datagram = vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 5, 10, 0, 0, 2];
        (network, switch, Outgoing { due: Time::ZERO, port: 0, datagram, since: None, is_frame: false })
    }

    const BROADCAST: Mac = [0xff; 6];
    const NODE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 5));
    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    /// What the switch has to send, and whether it had waited.
    fn sent(switch: &mut Switch) -> Vec<(Vec<u8>, bool)> {
        std::iter::from_fn(|| switch.next()).map(|ready| (ready.frame, ready.waited.is_some())).collect()
    }

    /// An answer of the host, whose address is 04:04:..., to the network.
    fn host_answers(to: Mac) -> Vec<u8> {
        let mut answer = neighbours::answer(&neighbours::question(NODE, HOST).unwrap(), HOST, (NODE, to)).unwrap();
        answer[6..12].fill(4);
        answer[22..28].fill(4);
        answer
    }

    #[test]
    fn who_is_not_known_is_asked_for() {
        let (mut network, mut switch, out) = behind();
        let question = (neighbours::question(NODE, HOST).unwrap(), false);
        let at = Time::from_millis;
        assert_eq!(switch.transmit(at(0), &out), None);
        assert_eq!(switch.transmit(at(900), &out), None);
        assert_eq!(sent(&mut switch), std::slice::from_ref(&question), "once a second");
        assert_eq!(switch.transmit(at(1000), &out), None);
        assert_eq!((sent(&mut switch), switch.unanswered()), (vec![question], 3));
        // What has waited for more than 3 s is not sent, the others are.
        switch.receive(&mut network, (at(3500), 0), &host_answers(NETWORK), &mut NoObserver);
        let frame = [&[4; 6][..], &NETWORK, &[8, 0], &out.datagram].concat();
        assert_eq!(sent(&mut switch), vec![(frame.clone(), true); 2]);
        assert_eq!(switch.unanswered(), 1);
        assert_eq!(switch.transmit(at(3600), &out).unwrap(), frame);
        assert!(network.transmit(at(9000)).is_none(), "it was for the switch");
    }

    /// From datagrams of their own, from questions and announcements, behind tags as well.
    #[test]
    fn addresses_are_learned_from_all_that_has_them() {
        let datagram: [&[u8]; 3] =
            [&[2, 0, 0, 0, 0, 2], &[4; 6], &[8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 5]];
        let mut asks = neighbours::question(HOST, "10.0.0.77".parse().unwrap()).unwrap();
        asks[6..12].fill(4);
        asks[22..28].fill(4);
        let tagged = [&asks[..12], &[0x81, 0, 0, 5], &asks[12..]].concat();
        for frame in [datagram.concat(), asks, tagged, host_answers(BROADCAST)] {
            let (mut network, mut switch, out) = behind();
            switch.receive(&mut network, (Time::ZERO, 0), &frame, &mut NoObserver);
            let sent = switch.transmit(Time::ZERO, &out).expect("it is known");
            assert_eq!(sent[..6], [4; 6]);
        }
    }

    /// The host asks where the sender of a datagram is, or whether it is still there, and learns of nobody else.
    #[test]
    fn the_network_answers_for_whoever_has_sent_something() {
        let (mut network, mut switch, out) = behind();
        let ask = |to: Mac, mac: Mac| {
            let mut asks = neighbours::question(HOST, NODE).unwrap();
            for (at, address) in [(0, to), (6, mac), (22, mac)] {
                asks[at..at + 6].copy_from_slice(&address);
            }
            asks
        };
        let mut answers = |switch: &mut Switch, to| {
            switch.receive(&mut network, (Time::ZERO, 0), &ask(to, [4; 6]), &mut NoObserver);
            sent(switch).into_iter().map(|(frame, _)| frame).collect::<Vec<_>>()
        };
        assert!(answers(&mut switch, BROADCAST).is_empty(), "the address may be anybody's");
        let answer = neighbours::answer(&ask(BROADCAST, [4; 6]), NODE, (HOST, [4; 6])).unwrap();
        assert_eq!(answers(&mut switch, NETWORK), std::slice::from_ref(&answer));
        assert_eq!(answers(&mut switch, node_mac(4)), std::slice::from_ref(&answer));
        assert!(switch.transmit(Time::ZERO, &out).is_some());
        assert_eq!(answers(&mut switch, BROADCAST), [answer]);
    }

    #[test]
    fn what_waits_is_bounded() {
        let (_, mut switch, out) = behind();
        for _ in 0..2 * MOST_WAITING {
            assert_eq!(switch.transmit(Time::ZERO, &out), None);
        }
        for host in 0..2 * MOST_ASKED {
            let mut to = out.clone();
            to.datagram[19] = 100 + host as u8;
            assert_eq!(switch.transmit(Time::ZERO, &to), None);
        }
        let Some(Station::Behind(behind)) = &switch.ports[0] else { unreachable!() };
        assert_eq!((behind.waiting.len(), behind.waiting[&HOST].datagrams.len()), (MOST_ASKED, MOST_WAITING));
        assert_eq!(switch.unanswered(), 2 * (MOST_WAITING + MOST_ASKED) as u64, "none is forgotten");
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
