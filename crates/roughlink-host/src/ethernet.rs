//! Ethernet switch between the devices of hosts with layer `ethernet` and the ports of the network.
//!
//! All hosts with this layer share one Ethernet, as far as links connect them. The switch learns the port of each
//! address. A frame with a known destination goes byte for byte to that port. The switch floods all other frames,
//! including broadcast and multicast, to all other ports of the Ethernet: one copy per port, in the order of the ports.
//! Nodes between the hosts are not stations of this Ethernet. Between the hosts the switch answers no requests and
//! forwards all frames, even link-local control frames, with one exception: a kernel node receives IGMP and MLD
//! membership reports only if it has sent a query ([`crate::snooping`]). An attached device receives all reports.
//!
//! A host at a charging cable with an attenuation has a modem ([`Modems`]). The modem handles some frames of the host,
//! and passes others only to modems of the same network.
//!
//! Simulated nodes and nodes with layer `ip` also have an Ethernet address each ([`node_mac`]) and share another one
//! ([`NETWORK`]). The Ethernet ends here for frames to these addresses: the switch takes out the IP datagram, and the
//! network routes it by its destination address. Datagrams in the opposite direction get an Ethernet header here.
//!
//! The destination address of this header is known if the attached host has announced it by ARP, neighbor discovery or
//! a datagram. Otherwise the switch sends a request, and the datagram waits for up to [`MAX_WAIT`]. The switch also
//! answers requests from the host for the address of a node. An answer requires that this node has sent something to
//! the host, or that the request is addressed to one of the network's Ethernet addresses. The switch ignores all other
//! requests: an address that the scenario gives to a simulated node may belong to a host outside the scenario.

use crate::mac::{Mac, NETWORK, node_mac};
use crate::neighbors::{self, NeighborMessage};
use crate::snooping::Membership;
use roughlink_core::net::avln::{ModemReport, Modems};
use roughlink_core::net::{Network, NetworkOutput, Observer};
use roughlink_core::scenario::{HostInterface, Scenario};
use roughlink_core::units::Time;
use roughlink_core::wire::Datagram;
use roughlink_core::wire::ethernet::is_group;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

pub(crate) struct Switch {
    /// Stations at the ports; `None` for ports that are not on the Ethernet.
    ports: Vec<Option<PortHosts>>,
    /// Addresses of nodes that are not on the Ethernet.
    others: BTreeSet<Mac>,
    /// Port behind which an address was last seen.
    learned: BTreeMap<Mac, usize>,
    /// Ports behind which a multicast router may be.
    routers: Vec<bool>,
    /// Ethernet header of the last datagram.
    header: [u8; HEADER_LEN],
    ready: VecDeque<OutgoingFrame>,
    unanswered: u64,
    /// Modems between hosts and charging cables.
    modems: Modems,
}

/// Frame that the switch itself sends, apart from forwarding.
pub(crate) struct OutgoingFrame {
    pub(crate) port: usize,
    pub(crate) frame: Vec<u8>,
    /// Datagram inside the frame that waited for an address; `None` for requests and answers.
    pub(crate) waited: Option<NetworkOutput>,
}

enum PortHosts {
    /// Host with a device of this emulation, and its address.
    Ours(Mac),
    Attached(AttachedHosts),
}

/// Hosts behind an attached device.
#[derive(Default)]
struct AttachedHosts {
    known: BTreeMap<IpAddr, Mac>,
    /// IP addresses that have sent something to these hosts.
    senders: BTreeSet<IpAddr>,
    /// Datagrams for hosts whose address is unknown.
    waiting: BTreeMap<IpAddr, Resolution>,
}

struct Resolution {
    /// Time of the last request.
    asked: Time,
    /// Datagrams and the times when they left the network, oldest first.
    datagrams: VecDeque<(Time, NetworkOutput)>,
}

impl Switch {
    /// Creates the switch for ports at these nodes of a scenario.
    pub(crate) fn new(scenario: &Scenario, nodes: &[usize]) -> Self {
        let station = |node: &usize| match scenario.nodes[*node].interface {
            HostInterface::Ip => None,
            HostInterface::Ethernet => Some(PortHosts::Ours(node_mac(*node))),
            HostInterface::Attached(_) => Some(PortHosts::Attached(AttachedHosts::default())),
        };
        let ports: Vec<_> = nodes.iter().map(station).collect();
        let port_of = |node: usize| nodes.iter().position(|n| *n == node).filter(|&port| ports[port].is_some());
        let others = (0..scenario.nodes.len()).filter(|&node| port_of(node).is_none());
        let others = others.map(node_mac).chain([NETWORK]).collect();
        let ours = |(port, station): (usize, &Option<PortHosts>)| match station {
            Some(PortHosts::Ours(mac)) => Some((*mac, port)),
            _ => None,
        };
        let learned = ports.iter().enumerate().filter_map(ours).collect();
        // The network behind an attached device is unknown.
        let routers = ports.iter().map(|station| matches!(station, Some(PortHosts::Attached(_)))).collect();
        let modems = Modems::new(scenario, nodes);
        Switch {
            ports,
            others,
            learned,
            routers,
            header: [0; HEADER_LEN],
            ready: VecDeque::new(),
            unanswered: 0,
            modems,
        }
    }

    /// Receives a datagram or frame from the host at `port`. Returns false if the frame ends here. Such frames are
    /// for the switch or the host's modem, membership reports without a multicast router, or data that no modem passes.
    pub(crate) fn receive<B: AsRef<[u8]>, O: Observer>(
        &mut self,
        network: &mut Network<O>,
        (now, port): (Time, usize),
        datagram: &Datagram<B>,
    ) -> bool {
        let (Some(station), Some((to, from))) = (&mut self.ports[port], addresses(datagram)) else {
            network.receive(now, port, datagram);
            return true;
        };
        let is_here = self.others.contains(&to);
        let heard = neighbors::read(datagram);
        if !is_group(from) {
            note(&mut self.learned, from, port);
        }
        if let PortHosts::Attached(attached) = station {
            let sender = datagram.envelope().ok().map(|envelope| (envelope.pair.addresses()[0], from));
            for (address, mac) in sender.into_iter().chain(heard.and_then(|heard| heard.has)) {
                self.unanswered += attached.learn((now, port), address, mac, &mut self.ready);
            }
            if let Some(NeighborMessage { has: Some(asker), asked: Some(asked) }) = heard
                && (is_here || attached.senders.contains(&asked))
            {
                let frame = neighbors::answer(datagram.bytes(), asked, asker);
                self.ready.extend(frame.map(|frame| OutgoingFrame { port, frame, waited: None }));
            }
        }
        if self.modems.receive(now, port, datagram.bytes()) || is_here && heard.is_some() {
            return false;
        }
        if is_here {
            if !self.modems.is_open(now, port) {
                return false;
            }
            match datagram.unframed() {
                Some(datagram) => network.receive(now, port, &datagram),
                None => network.receive(now, port, datagram), // only counted
            }
            return true;
        }
        let membership = Membership::read(datagram);
        self.routers[port] |= membership == Some(Membership::Query);
        let Switch { ports, routers, learned, modems, .. } = self;
        let mut forward = |there: usize| {
            let passes = modems.pass(now, [port, there], datagram.bytes());
            if passes {
                network.forward(now, [port, there], datagram);
            }
            passes
        };
        let others = (0..ports.len()).filter(|&there| there != port);
        if membership == Some(Membership::Report) {
            return others.filter(|&there| routers[there]).fold(false, |any, there| forward(there) | any);
        }
        match learned.get(&to) {
            Some(&there) => there == port || forward(there), // if it is already there, it goes no further
            None => {
                let mut others = others.filter(|&there| ports[there].is_some()).peekable();
                others.peek().is_none() || others.fold(false, |any, there| forward(there) | any)
            }
        }
    }

    /// Returns the Ethernet header for `out`, which has left the network by `now`; empty if it needs none. Returns
    /// `None` if `out` waits for the host's address, or if the host's modem does not pass it.
    pub(crate) fn transmit(&mut self, now: Time, out: &NetworkOutput) -> Option<&[u8]> {
        if !out.datagram.is_frame() && !self.modems.is_open(now, out.port) {
            return None;
        }
        if self.modems.has_modem(out.port)
            && let Some((_, from)) = addresses(&out.datagram)
            && let Some(&from) = self.learned.get(&from)
            && !self.modems.deliver(from, out.port, out.datagram.bytes())
        {
            return None;
        }
        let (Some(station), false) = (&mut self.ports[out.port], out.datagram.is_frame()) else { return Some(&[]) };
        let Ok(envelope) = out.datagram.envelope() else { return Some(&[]) };
        let [from, to] = envelope.pair.addresses();
        let mac = match station {
            PortHosts::Ours(mac) => *mac,
            PortHosts::Attached(attached) => {
                if attached.senders.len() < MAX_LEARNED {
                    attached.senders.insert(from);
                }
                if let Some(mac) = attached.known.get(&to) {
                    *mac
                } else {
                    self.unanswered += attached.request_address(now, [from, to], out, &mut self.ready);
                    return None;
                }
            }
        };
        self.header = header(mac, out.datagram.bytes());
        Some(&self.header)
    }

    pub(crate) fn next(&mut self) -> Option<OutgoingFrame> {
        let of_modem = |(port, frame)| OutgoingFrame { port, frame, waited: None };
        self.ready.pop_front().or_else(|| self.modems.transmit().map(of_modem))
    }

    /// Returns the results of the modems; `name` returns the name of the node at a port.
    pub(crate) fn modems(&self, now: Time, name: impl Fn(usize) -> String) -> Vec<ModemReport> {
        self.modems.reports(now, name)
    }

    /// Returns the datagrams from kernels that wait for the address of their destination or for [`Switch::next`].
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &[u8]> {
        let attached = self.ports.iter().flatten().filter_map(|station| match station {
            PortHosts::Ours(_) => None,
            PortHosts::Attached(attached) => Some(&attached.waiting),
        });
        let waiting = attached.flat_map(BTreeMap::values).flat_map(|waiting| &waiting.datagrams).map(|(_, out)| out);
        let ready = self.ready.iter().filter_map(|ready| ready.waited.as_ref());
        waiting.chain(ready).filter(|out| out.since.is_some()).filter_map(|out| out.datagram.ip())
    }

    /// Returns how many datagrams got no answer to the request for their address, including those that still wait.
    pub(crate) fn unanswered(&self) -> u64 {
        let waiting = |station: &PortHosts| match station {
            PortHosts::Ours(_) => 0,
            PortHosts::Attached(attached) => {
                attached.waiting.values().map(|waiting| waiting.datagrams.len() as u64).sum()
            }
        };
        self.unanswered + self.ports.iter().flatten().map(waiting).sum::<u64>()
    }
}

impl AttachedHosts {
    /// Learns an address and moves the datagrams that waited for it to `ready`. Returns how many had waited too long.
    fn learn(
        &mut self,
        (now, port): (Time, usize),
        address: IpAddr,
        mac: Mac,
        ready: &mut VecDeque<OutgoingFrame>,
    ) -> u64 {
        if address.is_unspecified() || address.is_multicast() || is_group(mac) {
            return 0;
        }
        note(&mut self.known, address, mac);
        let Some(Resolution { datagrams, .. }) = self.waiting.remove(&address) else { return 0 };
        let count = datagrams.len();
        let fresh = datagrams.into_iter().filter(|(since, _)| now.saturating_sub(*since) <= MAX_WAIT);
        let before = ready.len();
        ready.extend(fresh.map(|(_, out)| {
            let frame = [&header(mac, out.datagram.bytes())[..], out.datagram.bytes()].concat();
            OutgoingFrame { port, frame, waited: Some(out) }
        }));
        (count + before - ready.len()) as u64
    }

    /// Queues a datagram until the address of its destination is known. Sends a request at most once a second (RFC 1122
    /// section 2.3.2.1) while datagrams arrive. Returns the number of dropped datagrams.
    fn request_address(
        &mut self,
        now: Time,
        [from, to]: [IpAddr; 2],
        out: &NetworkOutput,
        ready: &mut VecDeque<OutgoingFrame>,
    ) -> u64 {
        let is_new = !self.waiting.contains_key(&to);
        if is_new && self.waiting.len() >= MAX_ASKED {
            return 1;
        }
        let waiting = self.waiting.entry(to).or_insert_with(|| Resolution { asked: now, datagrams: VecDeque::new() });
        if is_new || now.saturating_sub(waiting.asked) >= ASKED_AGAIN {
            waiting.asked = now;
            let question = neighbors::question(from, to);
            ready.extend(question.map(|frame| OutgoingFrame { port: out.port, frame, waited: None }));
        }
        // Keep the latest datagrams (RFC 1122 section 2.3.2.2).
        waiting.datagrams.push_back((now, out.clone()));
        if waiting.datagrams.len() > MAX_WAITING {
            waiting.datagrams.pop_front();
            return 1;
        }
        0
    }
}

/// Returns the Ethernet header of a datagram from the network.
fn header(to: Mac, datagram: &[u8]) -> [u8; HEADER_LEN] {
    let kind = if datagram[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
    let mut header = [0; HEADER_LEN];
    header[..6].copy_from_slice(&to);
    header[6..12].copy_from_slice(&NETWORK);
    header[12..].copy_from_slice(&kind);
    header
}

/// Returns the destination and source addresses of a frame.
fn addresses<B: AsRef<[u8]>>(frame: &Datagram<B>) -> Option<(Mac, Mac)> {
    let (to, rest) = frame.bytes().split_first_chunk()?;
    Some((*to, *rest.first_chunk()?))
}

/// Inserts an entry unless the table is full.
fn note<K: Ord, V>(table: &mut BTreeMap<K, V>, key: K, value: V) {
    if table.len() < MAX_LEARNED || table.contains_key(&key) {
        table.insert(key, value);
    }
}

/// Length of an Ethernet header, bytes.
const HEADER_LEN: usize = 14;
/// Maximum number of learned addresses; the switch floods frames to further ones.
const MAX_LEARNED: usize = 4096;
/// Maximum number of addresses requested at a time, and of datagrams waiting for each: more than TCP's initial window.
const MAX_ASKED: usize = 64;
const MAX_WAITING: usize = 64;
/// Interval between two requests for an address.
const ASKED_AGAIN: Time = Time::from_secs(1);
/// Maximum waiting time of a datagram; older ones are dropped.
const MAX_WAIT: Time = Time::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snooping::tests::mld;
    use roughlink_core::net::RunOptions;
    use roughlink_core::wire::ethernet::address_text;

    /// Creates nodes a, b and c on the Ethernet and a simulated node d, all at a hub; addresses are counted from 1.
    fn network() -> (Network, Switch) {
        let mut text = "duration = \"9 s\"\nnode = [{ name = \"hub\" }".to_owned();
        text +=
            &["a", "b", "c"].map(|n| format!(", {{ name = \"{n}\", kernel = true, layer = \"ethernet\" }}")).concat();
        text += ", { name = \"d\" }]\n";
        for node in ["a", "b", "c", "d"] {
            text += &format!(
                "[[link]]\nname = \"to {node}\"\nbetween = [\"hub\", \"{node}\"]\nrate = \"100 Mbit/s\"\n\
                 delay = \"1 ms\"\n"
            );
        }
        let scenario = roughlink_scenario::parse(&text, "test", &[], &|_| Err(String::new())).unwrap().0;
        let nodes = vec![1, 2, 3];
        let switch = Switch::new(&scenario, &nodes);
        (Network::new(scenario, RunOptions { ports: nodes, ..RunOptions::default() }).unwrap(), switch)
    }

    fn frame(to: Mac, from: Mac) -> Vec<u8> {
        [&to[..], &from, &[0x88, 0xe1], &[7; 46]].concat()
    }

    #[test]
    fn frames_are_switched_by_learned_addresses() {
        let (mut network, mut switch) = network();
        let strange = [0x52, 0x54, 0, 1, 2, 3];
        let mut now = Time::ZERO;
        let mut ports_of = |to, from, port| {
            switch.receive(&mut network, (now, port), &Datagram::from_frame(frame(to, from)));
            now += Time::from_millis(100);
            let out = std::iter::from_fn(|| network.transmit(now));
            let ports: Vec<usize> =
                out.inspect(|o| assert_eq!(o.datagram.bytes(), frame(to, from))).map(|o| o.port).collect();
            ports
        };
        let [a, b, c] = [1, 2, 3].map(node_mac);
        assert_eq!(address_text(a), "02:00:00:00:00:02");
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

    /// RFC 4541 section 2.1.1 (1): reports go only to ports with multicast routers, which queries reveal.
    #[test]
    fn membership_reports_reach_queriers_and_attached_devices_only() {
        let (mut network, mut switch) = network();
        let mut now = Time::ZERO;
        let mut ports_of = |switch: &mut Switch, kind, port| {
            let frame = [&[0x33, 0x33, 0, 0, 0, 0x16][..], &node_mac(port + 1), &[0x86, 0xdd], &mld(kind)].concat();
            let before = network.port_stats().received;
            switch.receive(&mut network, (now, port), &Datagram::from_frame(frame));
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
        switch.routers[1] = true; // as for an attached device
        assert_eq!(ports_of(&mut switch, 132, 0), [1, 2]);
    }

    #[test]
    fn datagrams_have_headers_only_on_ethernet() {
        let (_, mut switch) = network();
        let mut datagram = vec![0x60, 0, 0, 0, 0, 4, 59, 64];
        datagram.extend([0xfd; 36]);
        let out =
            NetworkOutput { due: Time::ZERO, port: 0, datagram: Datagram::from_ip(datagram.clone()), since: None };
        let header = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0x86, 0xdd];
        assert_eq!(switch.transmit(Time::ZERO, &out).unwrap(), header);
        let framed = NetworkOutput { datagram: Datagram::from_frame(datagram.clone()), ..out.clone() };
        assert!(switch.transmit(Time::ZERO, &framed).unwrap().is_empty());
        switch.ports[0] = None;
        assert!(switch.transmit(Time::ZERO, &out).unwrap().is_empty());
    }

    /// Creates a network with a host behind an attached device at port 0, and a datagram for 10.0.0.2 from 10.0.0.5.
    fn attached() -> (Network, Switch, NetworkOutput) {
        let (network, mut switch) = network();
        switch.ports[0] = Some(PortHosts::Attached(AttachedHosts::default()));
        let datagram = vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 5, 10, 0, 0, 2];
        (
            network,
            switch,
            NetworkOutput { due: Time::ZERO, port: 0, datagram: Datagram::from_ip(datagram), since: None },
        )
    }

    const BROADCAST: Mac = [0xff; 6];
    const NODE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 5));
    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    /// Returns the frames that the switch sends, and whether each contains a datagram that waited.
    fn sent(switch: &mut Switch) -> Vec<(Vec<u8>, bool)> {
        std::iter::from_fn(|| switch.next()).map(|ready| (ready.frame, ready.waited.is_some())).collect()
    }

    /// Returns an answer from the host, whose address is 04:04:..., to the network.
    fn host_answers(to: Mac) -> Vec<u8> {
        let mut answer = neighbors::answer(&neighbors::question(NODE, HOST).unwrap(), HOST, (NODE, to)).unwrap();
        answer[6..12].fill(4);
        answer[22..28].fill(4);
        answer
    }

    #[test]
    fn unresolved_hosts_are_requested_once_a_second() {
        let (mut network, mut switch, out) = attached();
        let question = (neighbors::question(NODE, HOST).unwrap(), false);
        let at = Time::from_millis;
        assert_eq!(switch.transmit(at(0), &out), None);
        assert_eq!(switch.transmit(at(900), &out), None);
        assert_eq!(sent(&mut switch), std::slice::from_ref(&question), "once a second");
        assert_eq!(switch.transmit(at(1000), &out), None);
        assert_eq!((sent(&mut switch), switch.unanswered()), (vec![question], 3));
        // Datagrams that waited for more than 3 s are dropped.
        switch.receive(&mut network, (at(3500), 0), &Datagram::from_frame(host_answers(NETWORK)));
        let frame = [&[4; 6][..], &NETWORK, &[8, 0], out.datagram.bytes()].concat();
        assert_eq!(sent(&mut switch), vec![(frame.clone(), true); 2]);
        assert_eq!(switch.unanswered(), 1);
        assert_eq!(switch.transmit(at(3600), &out).unwrap(), &frame[..14]);
        assert!(network.transmit(at(9000)).is_none(), "it was for the switch");
    }

    /// Sources are datagrams, requests and announcements, also with VLAN tags.
    #[test]
    fn addresses_are_learned_from_datagrams_and_neighbor_messages() {
        let datagram: [&[u8]; 3] =
            [&[2, 0, 0, 0, 0, 2], &[4; 6], &[8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 5]];
        let mut asks = neighbors::question(HOST, "10.0.0.77".parse().unwrap()).unwrap();
        asks[6..12].fill(4);
        asks[22..28].fill(4);
        let tagged = [&asks[..12], &[0x81, 0, 0, 5], &asks[12..]].concat();
        for frame in [datagram.concat(), asks, tagged, host_answers(BROADCAST)] {
            let (mut network, mut switch, out) = attached();
            switch.receive(&mut network, (Time::ZERO, 0), &Datagram::from_frame(frame));
            let sent = switch.transmit(Time::ZERO, &out).expect("it is known");
            assert_eq!(sent[..6], [4; 6]);
        }
    }

    /// The switch answers a broadcast request only for an address that has sent something to the host. A request to an
    /// Ethernet address of the network is always answered: it probes whether a node is still reachable.
    #[test]
    fn broadcast_requests_are_answered_only_for_known_senders() {
        let (mut network, mut switch, out) = attached();
        let ask = |to: Mac, mac: Mac| {
            let mut asks = neighbors::question(HOST, NODE).unwrap();
            for (at, address) in [(0, to), (6, mac), (22, mac)] {
                asks[at..at + 6].copy_from_slice(&address);
            }
            asks
        };
        let mut answers = |switch: &mut Switch, to| {
            switch.receive(&mut network, (Time::ZERO, 0), &Datagram::from_frame(ask(to, [4; 6])));
            sent(switch).into_iter().map(|(frame, _)| frame).collect::<Vec<_>>()
        };
        assert!(answers(&mut switch, BROADCAST).is_empty(), "the address may be anybody's");
        let answer = neighbors::answer(&ask(BROADCAST, [4; 6]), NODE, (HOST, [4; 6])).unwrap();
        assert_eq!(answers(&mut switch, NETWORK), std::slice::from_ref(&answer));
        assert_eq!(answers(&mut switch, node_mac(4)), std::slice::from_ref(&answer));
        assert!(switch.transmit(Time::ZERO, &out).is_some());
        assert_eq!(answers(&mut switch, BROADCAST), [answer]);
    }

    #[test]
    fn waiting_datagrams_are_bounded() {
        let (_, mut switch, out) = attached();
        for _ in 0..2 * MAX_WAITING {
            assert_eq!(switch.transmit(Time::ZERO, &out), None);
        }
        for host in 0..2 * MAX_ASKED {
            let mut bytes = out.datagram.bytes().to_vec();
            bytes[19] = 100 + host as u8;
            let to = NetworkOutput { datagram: Datagram::from_ip(bytes), ..out.clone() };
            assert_eq!(switch.transmit(Time::ZERO, &to), None);
        }
        let Some(PortHosts::Attached(attached)) = &switch.ports[0] else { unreachable!() };
        assert_eq!((attached.waiting.len(), attached.waiting[&HOST].datagrams.len()), (MAX_ASKED, MAX_WAITING));
        assert_eq!(switch.unanswered(), 2 * (MAX_WAITING + MAX_ASKED) as u64, "none is forgotten");
    }

    #[test]
    fn learned_addresses_are_bounded() {
        let (mut network, mut switch) = network();
        for i in 0..2 * MAX_LEARNED as u32 {
            let [a, b, c, d] = i.to_be_bytes();
            let from = frame(node_mac(2), [4, 0, a, b, c, d]);
            switch.receive(&mut network, (Time::ZERO, 0), &Datagram::from_frame(from));
        }
        assert_eq!(switch.learned.len(), MAX_LEARNED);
    }
}
