//! Open ports: datagrams enter the network from outside and leave it again.
//!
//! A port stands at a node and takes the place of its host. A datagram that enters is routed by its destination address
//! to the node that has the address or leads to it ([`RunOptions::beyond`]). A datagram that reaches the node leaves
//! through the port at its arrival time. Links and queues only see its length. The bytes leave unchanged, except for a
//! window reduced by a gateway and an ECN field marked by a queue. A fragment is treated like any other datagram: if a
//! link fragments it further, its parts are reassembled before it leaves.
//!
//! Each conversation of two addresses, two ports and a protocol is a flow, so that gateways and media can distinguish
//! it. The table of conversations forgets; a later conversation between the same nodes gets the flow of a forgotten
//! one, because packets of the old conversation may still be queued on its path. A frame is sent to a port, not to an
//! address. The bytes before its IP datagram are ignored. Frames without a datagram between the same two ports share
//! one flow.
//!
//! An SCTP packet from outside may have several chunks (RFC 9260 section 6.10) and crosses the network as one datagram.
//! An end inside receives it as several packets of the engine, one per chunk, in order and at the same instant.
//!
//! A scenario's flow may have one end outside. Either end may open the connection; the inside end is found by its
//! address and port. Its packets leave with the bytes of the flow's application, or else with [`Implied`] bytes.

use super::{Component, NetworkEvent, NetworkFlow, Observer, VARIES, append};
use crate::conversations::{ConversationId, ConversationKey, ConversationTable, MAX_CONVERSATIONS};
use crate::gateway::FlowKey;
use crate::net::addresses::{Prefix, addresses, assigned, is_of_a_host, link_local, node_address, node_address_v6};
use crate::net::routing::Routes;
use crate::net::{Crossing, InterfaceDirection, NetworkOutput, PortStats, RunOptions};
use crate::packet::{Ecn, FlowId, Packet, Protocol, SideContent, Sides, flags};
use crate::scenario::Scenario;
use crate::units::Time;
use crate::wire::{self, Addresses, Datagram, Decoded, Headers, Implied, IpPair, UdpStamp, protocol};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// Open ports of a component.
pub(super) struct Ports {
    /// Node of each port.
    nodes: Vec<usize>,
    /// Node of each address.
    hosts: BTreeMap<IpAddr, usize>,
    /// Prefixes of addresses behind nodes.
    beyond: Vec<(Prefix, usize)>,
    routes: Routes,
    /// Place of each hop.
    places: Vec<u32>,
    conversations: ConversationTable,
    /// Flow of each place in the table of conversations.
    flow_at: Vec<u32>,
    /// Flows without a conversation, by the nodes between which they pass.
    spare: BTreeMap<[usize; 2], Vec<u32>>,
    /// Paths between nodes that flows from outside use.
    ways: BTreeMap<[usize; 2], [u32; 3]>,
    /// Flows of the scenario with a listening end inside the network, by address, port and protocol.
    listening: BTreeMap<(IpAddr, u16, ProtocolNumber), Vec<u32>>,
    /// Flows of `listening` that have a peer.
    claimed: BTreeSet<(u32, ProtocolNumber)>,
    /// Every flow of the component.
    flows: Vec<PortFlow>,
    /// Headers of the bytes from outside, by their number.
    headers: Vec<Headers>,
    /// Addresses of discovery datagrams of each session whose vehicle is outside, once some have been seen.
    discovery: BTreeMap<u32, Addresses>,
    out: VecDeque<NetworkOutput>,
    ident: u16,
    stats: PortStats,
}

/// Data of a flow that only ports need.
struct PortFlow {
    /// Addresses from source to destination.
    addresses: Addresses,
    /// Number of conversations that had the flow before.
    generation: u32,
}

type ProtocolNumber = u8;

const fn number(protocol: Protocol) -> ProtocolNumber {
    match protocol {
        Protocol::Tcp => protocol::TCP,
        Protocol::Udp => protocol::UDP,
        Protocol::Sctp => protocol::SCTP,
    }
}

/// Returns the key of the datagrams of a whole protocol.
fn key(addresses: Addresses, protocol: ProtocolNumber, nodes: [usize; 2]) -> ConversationKey {
    ConversationKey { addresses, protocol, fragments: false, nodes: nodes.map(|node| node as u32) }
}

impl Ports {
    /// Creates ports where `options` has them; `places` has the place of each hop, `flows` the flows of the scenario.
    pub(super) fn new(s: &Scenario, options: &RunOptions, places: Vec<u32>, flows: &[NetworkFlow]) -> Self {
        let mut ports = Ports {
            nodes: options.ports.clone(),
            hosts: BTreeMap::new(),
            beyond: options.beyond.clone(),
            // The number of flows limits the searches.
            routes: Routes::from_scenario(s).without_limit(),
            places,
            conversations: ConversationTable::default(),
            flow_at: Vec::new(),
            spare: BTreeMap::new(),
            ways: BTreeMap::new(),
            listening: BTreeMap::new(),
            claimed: BTreeSet::new(),
            flows: flows.iter().map(|f| PortFlow { addresses: addresses(s, f.global), generation: 0 }).collect(),
            headers: Vec::new(),
            discovery: BTreeMap::new(),
            out: VecDeque::new(),
            ident: 0,
            stats: PortStats::default(),
        };
        for node in 0..s.nodes.len() {
            let v6 = [node_address_v6(s, node), link_local(node)].map(IpAddr::V6);
            ports
                .hosts
                .extend(v6.into_iter().chain([IpAddr::V4(node_address(s, node))]).map(|address| (address, node)));
        }
        for (i, f) in flows.iter().enumerate() {
            let a = ports.flows[i].addresses;
            for protocol in f.protocols().iter().copied().map(number) {
                if f.open == [true, false] {
                    let at = (a.ip.addresses()[1], a.dst_port, protocol);
                    ports.listening.entry(at).or_default().push(i as u32);
                }
                if f.open != [false, false] {
                    ports.pin(key(a, protocol, f.nodes), i as u32);
                }
            }
        }
        ports
    }

    /// Returns the node that has an address or leads to it.
    fn node_of(&self, address: IpAddr) -> Option<usize> {
        let beyond = || {
            let ways = self.beyond.iter().filter(|(prefix, _)| is_of_a_host(address) && prefix.contains(address));
            ways.max_by_key(|(prefix, _)| prefix.length).map(|(_, node)| *node)
        };
        self.hosts.get(&address).copied().or_else(beyond)
    }

    /// Returns the addresses of a flow in its direction.
    pub(super) fn addresses(&self, flow: FlowId) -> Addresses {
        let a = self.flows[flow.index()].addresses;
        if flow.reverse() { a.reversed() } else { a }
    }

    /// Returns the addresses of a packet from an end inside the network, in its direction.
    fn addresses_of(&self, p: &Packet) -> Addresses {
        let discovery = self.discovery.get(&(p.flow.index() as u32)).filter(|_| p.protocol() == Protocol::Udp);
        match discovery {
            Some(a) if p.flow.reverse() => a.reversed(),
            Some(a) => *a,
            None => self.addresses(p.flow),
        }
    }

    /// Returns the key by which gateways know a flow.
    pub(super) fn flow_key(&self, flow: FlowId) -> FlowKey {
        FlowKey { flow, generation: self.flows[flow.index()].generation }
    }

    /// Makes the source of `a` the outside end of `flow` for this protocol.
    fn claim(&mut self, a: Addresses, protocol: ProtocolNumber, (index, flow): (u32, &NetworkFlow)) -> FlowId {
        self.claimed.insert((index, protocol));
        let discovery = protocol == protocol::UDP && flow.protocols()[0] != Protocol::Udp;
        let own = &mut self.flows[index as usize].addresses;
        let known = if discovery { self.discovery.insert(index, a).unwrap_or(*own) } else { std::mem::replace(own, a) };
        self.conversations.remove(&key(known, protocol, flow.nodes));
        self.pin(key(a, protocol, flow.nodes), index);
        FlowId::new(index, false)
    }

    /// Returns the bytes of waiting datagrams and frames.
    pub(super) fn bytes(&self) -> usize {
        self.out.iter().map(|out| out.datagram.bytes().len()).sum()
    }

    /// Assigns a conversation to a flow of the scenario.
    fn pin(&mut self, key: ConversationKey, flow: u32) {
        let id = self.conversations.pin(&key);
        self.assign(id, flow);
    }

    fn assign(&mut self, id: ConversationId, flow: u32) {
        let place = id.place as usize;
        self.flow_at.resize(self.flow_at.len().max(place + 1), u32::MAX);
        self.flow_at[place] = flow;
    }

    /// Inserts the conversation of a datagram, and keeps the flows of those that are forgotten.
    fn insert(&mut self, now: Time, key: &ConversationKey, tcp_flags: Option<u8>, flow: u32, nodes: &[NetworkFlow]) {
        let id = self.conversations.insert(now, key, tcp_flags);
        self.assign(id, flow);
        let conversations = &mut self.conversations;
        let forgotten = || conversations.expire(now).or_else(|| conversations.evict(MAX_CONVERSATIONS));
        for id in std::iter::from_fn(forgotten) {
            let flow = self.flow_at[id.place as usize];
            self.spare.entry(nodes[flow as usize].nodes).or_default().push(flow);
        }
    }

    /// Stores the headers of a packet's bytes.
    fn store(&mut self, sides: &Sides, p: &Packet, headers: &Headers) {
        let Some(number) = sides.outside_number(p) else { return };
        match self.headers.get_mut(number) {
            Some(place) => place.clone_from(headers),
            // Bytes that belong to the simulation, such as cookies, have numbers, too.
            None => self.headers.resize(number + 1, headers.clone()),
        }
    }

    /// Creates the packet of `flow` for a datagram or frame, whose bytes are stored in `sides`.
    pub(super) fn packet<B: AsRef<[u8]>>(
        &mut self,
        sides: &mut Sides,
        now: Time,
        flow: FlowId,
        datagram: &Datagram<B>,
    ) -> Packet {
        let envelope = datagram.envelope().ok();
        let ipv6 = envelope.is_some_and(|envelope| matches!(envelope.pair, IpPair::V6 { .. }));
        // Without padding of the link.
        let kept = if datagram.is_frame() { datagram.bytes() } else { datagram.ip().unwrap_or_default() };
        let side = sides.store_outside(kept, datagram.ip_range());
        let mut p = Packet::opaque(flow, datagram.length() as u16, ipv6, side, now);
        self.store(sides, &p, datagram.headers());
        p.set_traffic_class(envelope.map_or(0, |envelope| envelope.traffic_class));
        // Fragments of two datagrams must not mix, even if their senders chose the same identification.
        self.ident = self.ident.wrapping_add(1);
        p.ident = self.ident;
        p
    }

    /// Returns the bytes of a packet from outside for a gateway, with their headers.
    pub(super) fn outside<'a>(
        &'a mut self,
        sides: &'a mut Sides,
        p: &Packet,
    ) -> Option<(&'a mut Headers, &'a mut [u8])> {
        let number = sides.outside_number(p)?;
        Some((self.headers.get_mut(number)?, sides.outside_mut(p)?))
    }

    fn headers_of(&self, sides: &Sides, p: &Packet) -> Option<&Headers> {
        self.headers.get(sides.outside_number(p)?)
    }
}

impl Component {
    pub(super) fn open(&mut self, s: &Scenario, options: &RunOptions) {
        let mut places = vec![u32::MAX; 2 * s.links.len()];
        for (place, (hop, _)) in self.places.iter().enumerate() {
            places[*hop as usize] = place as u32;
        }
        self.cascade = Vec::new(); // datagrams enter anywhere, at any time
        self.onward.fill(VARIES);
        self.ports = Some(Box::new(Ports::new(s, options, places, &self.flows)));
    }

    /// Accepts a datagram at `port`. All events due by `now` must have been processed.
    pub(in crate::net) fn receive<B: AsRef<[u8]>, O: Observer>(
        &mut self,
        now: Time,
        port: usize,
        datagram: &Datagram<B>,
        observer: &mut O,
    ) {
        let Some(ports) = &mut self.ports else { return };
        let (Ok(envelope), false) = (datagram.envelope(), datagram.is_frame()) else {
            ports.stats.unreadable += 1;
            return;
        };
        let node = ports.nodes[port];
        let Some(to) = ports.node_of(envelope.pair.addresses()[1]) else {
            ports.stats.unreachable += 1;
            return;
        };
        self.enter(now, [node, to], datagram, observer);
    }

    /// Accepts a frame at the first of two ports, for the second. All events due by `now` must have been processed.
    pub(in crate::net) fn forward_frame<B: AsRef<[u8]>, O: Observer>(
        &mut self,
        now: Time,
        between: [usize; 2],
        frame: &Datagram<B>,
        observer: &mut O,
    ) {
        let Some(ports) = &mut self.ports else { return };
        let nodes = between.map(|port| ports.nodes[port]);
        self.enter(now, nodes, frame, observer);
    }

    /// Sends a datagram or frame from one node into the network, for another node.
    fn enter<B: AsRef<[u8]>, O: Observer>(
        &mut self,
        now: Time,
        nodes: [usize; 2],
        datagram: &Datagram<B>,
        observer: &mut O,
    ) {
        let Some(ports) = &mut self.ports else { return };
        let length = datagram.length();
        if !(1..=LONGEST).contains(&length) {
            ports.stats.unreadable += 1;
            return;
        }
        let Some(flow) = self.flow_of(now, datagram, nodes) else {
            self.ports.iter_mut().for_each(|p| p.stats.unreachable += 1);
            return;
        };
        let Some(ports) = &mut self.ports else { return };
        ports.stats.received += 1;
        let mut p = ports.packet(&mut self.sides, now, flow, datagram);
        let end = usize::from(flow.reverse());
        if let Some((decoded, ip)) = datagram.whole().zip(datagram.ip()) {
            p.seq = self.flows[flow.index()].application_mut().enter(now, end, decoded, ip);
        }
        let leaf = self.paths[self.flows[flow.index()].path[end] as usize] as usize;
        if O::ACTIVE {
            let hop = self.places[leaf].0;
            let at = Crossing {
                node: nodes[0],
                hop,
                direction: InterfaceDirection::Out,
                flow: self.flows[flow.index()].global,
            };
            match datagram.ip() {
                Some(ip) => observer.observe(now, NetworkEvent::Datagram { at, bytes: ip }),
                None => observer.observe(now, NetworkEvent::Frame { at, peer: nodes[1], bytes: datagram.bytes() }),
            }
        }
        if !self.gated {
            self.send(now, leaf, &p, observer);
        } else {
            self.send_gated(now, (flow.index(), end), leaf, p, observer);
        }
    }

    pub(in crate::net) fn port_stats(&self) -> PortStats {
        self.ports.as_ref().map_or_else(PortStats::default, |ports| ports.stats)
    }

    /// Returns the next datagram or frame that reached a port, in order of arrival.
    pub(in crate::net) fn transmit(&mut self) -> Option<NetworkOutput> {
        self.ports.as_mut()?.out.pop_front()
    }

    /// IP datagrams that came from outside and are still in the component: on links, in reassembly, or at a port.
    pub(in crate::net) fn in_flight(&self) -> impl Iterator<Item = &[u8]> {
        let out = self.ports.iter().flat_map(|ports| &ports.out).filter(|out| out.since.is_some());
        self.sides.datagrams().chain(out.filter_map(|out| out.datagram.ip()))
    }

    /// Returns the flow of traffic from one node to another; `None` if there is no path.
    fn flow_of<B: AsRef<[u8]>>(&mut self, now: Time, datagram: &Datagram<B>, nodes: [usize; 2]) -> Option<FlowId> {
        let ports = self.ports.as_mut()?;
        if nodes[0] == nodes[1] {
            return None;
        }
        let key = ConversationKey::new(datagram, nodes.map(|node| node as u32));
        let key = key.unwrap_or_else(|| key_of_frames(nodes));
        let ConversationKey { addresses, protocol, .. } = key;
        let tcp_flags = datagram.tcp_flags();
        let begins = datagram.whole().is_some_and(begins);
        if let Some(id) = ports.conversations.find(now, &key, tcp_flags) {
            let flow = FlowId::new(ports.flow_at[id.place as usize], id.reverse);
            // The flow is in use between its own addresses: no other peer may claim it.
            if begins && !self.flows[flow.index()].is_passing() {
                ports.claimed.insert((flow.index() as u32, protocol));
            }
            return Some(flow);
        }
        // A listening flow takes the first connection that begins, and a later one while it is still listening.
        if begins {
            let at = (addresses.ip.addresses()[1], addresses.dst_port, protocol);
            let waiting = ports.listening.get(&at).map_or(&[][..], |flows| flows);
            let here = |index: &u32| self.flows[*index as usize].nodes == nodes;
            let unclaimed = |index: &u32| here(index) && !ports.claimed.contains(&(*index, protocol));
            let listens = |index: &u32| here(index) && self.flows[*index as usize].application().is_listening();
            let mut waiting = waiting.iter().copied();
            if let Some(index) = waiting.clone().find(unclaimed).or_else(|| waiting.find(listens)) {
                return Some(ports.claim(addresses, protocol, (index, &self.flows[index as usize])));
            }
        }
        let index = match ports.spare.get_mut(&nodes).and_then(Vec::pop) {
            Some(index) => {
                let flow = &mut ports.flows[index as usize];
                *flow = PortFlow { addresses, generation: flow.generation.wrapping_add(1) };
                index
            }
            None => self.add_flow(nodes, addresses)?,
        };
        let ports = self.ports.as_mut()?;
        self.flows[index as usize].set_ipv6(matches!(addresses.ip, IpPair::V6 { .. }));
        ports.insert(now, &key, tcp_flags, index, &self.flows);
        Some(FlowId::new(index, false))
    }

    /// Adds a flow for traffic from outside between two nodes; `None` if there is no path.
    fn add_flow(&mut self, nodes: [usize; 2], addresses: Addresses) -> Option<u32> {
        let ports = self.ports.as_mut()?;
        let path = match ports.ways.get(&nodes) {
            Some(path) => *path,
            None => {
                let hops = [ports.routes.path(nodes[0], nodes[1])?, ports.routes.path(nodes[1], nodes[0])?];
                *ports.ways.entry(nodes).or_insert(append(&mut self.paths, &hops, |hop| ports.places[hop as usize]))
            }
        };
        let open = nodes.map(|node| ports.nodes.contains(&node));
        let index = self.flows.len() as u32;
        let global = self.flows.last().map_or(0, |last| last.global + 1);
        self.flows.push(NetworkFlow::passing((index, global), path, nodes, open));
        ports.flows.push(PortFlow { addresses, generation: 0 });
        Some(index)
    }

    /// Returns true if a packet leaves the network or came from outside, so that it is observed as a datagram. Only the
    /// first fragment has the bytes.
    pub(super) fn concerns_port(&self, p: &Packet) -> bool {
        let flow = &self.flows[p.flow.index()];
        let leaves = || flow.open[usize::from(!p.flow.reverse())];
        self.ports.is_some() && (flow.is_passing() || leaves() || self.sides.outside(p).is_some())
    }

    /// Delivers a whole datagram in a network with ports. An end outside receives it through its port; for an end
    /// inside, its packet is returned.
    pub(super) fn deliver_open<O: Observer>(
        &mut self,
        now: Time,
        leaf: usize,
        p: Packet,
        observer: &mut O,
    ) -> Option<Packet> {
        let ports = self.ports.as_mut()?;
        if let (Ecn::Ce, Some(bytes)) = (p.ecn(), self.sides.datagram_mut(&p)) {
            wire::set_ecn(bytes, Ecn::Ce);
        }
        let flow = &mut self.flows[p.flow.index()];
        let end = usize::from(!p.flow.reverse());
        let (hop, node) = self.places[leaf];
        let at = Crossing { node, hop, direction: InterfaceDirection::In, flow: flow.global };
        if flow.open[end] {
            let since = self.sides.outside(&p).map(|_| p.udp_sent_at());
            let headers = ports.headers_of(&self.sides, &p).cloned();
            let datagram = match headers.and_then(|headers| Some((self.sides.take_outside(&p)?, headers))) {
                Some((bytes, headers)) => Datagram::with_headers(bytes, headers),
                None => {
                    let mut datagram = Vec::new();
                    let (side, addresses) = (self.sides.get(&p), ports.addresses_of(&p));
                    // A packet from an end inside the network always has a wire form.
                    let carried = || self.sides.carried(&p).map(<[u8]>::to_vec);
                    let written = match flow.application().payload(&p, &addresses).or_else(carried) {
                        Some(payload) => wire::encode(&p, side, &addresses, &payload, &mut datagram),
                        None => wire::encode(&p, side, &addresses, &Implied::from_packet(&p), &mut datagram),
                    };
                    debug_assert_eq!(written, Ok(()));
                    Datagram::from_ip(datagram)
                }
            };
            if O::ACTIVE {
                match datagram.ip() {
                    Some(ip) => observer.observe(now, NetworkEvent::Datagram { at, bytes: ip }),
                    None => observer
                        .observe(now, NetworkEvent::Frame { at, peer: flow.nodes[1 - end], bytes: datagram.bytes() }),
                }
            }
            flow.on_exit(now, &p);
            self.sides.free(&p);
            let port = ports.nodes.iter().position(|node| *node == flow.nodes[end])?;
            ports.stats.sent += 1;
            ports.out.push_back(NetworkOutput { due: now, since, port, datagram });
            return None;
        }
        let bytes = self.sides.datagram(&p);
        if let (None, false) = (bytes, flow.is_passing()) {
            return Some(p);
        }
        if let (true, Some(bytes)) = (O::ACTIVE, bytes) {
            observer.observe(now, NetworkEvent::Datagram { at, bytes });
        }
        let decoded = bytes.zip(ports.headers_of(&self.sides, &p).and_then(Headers::whole));
        let valid = |(bytes, decoded): &(&[u8], &Decoded)| !flow.is_passing() && decoded.verify(bytes).is_ok();
        let Some((bytes, decoded)) = decoded.filter(valid) else {
            self.sides.free(&p);
            ports.stats.unreachable += 1;
            return None;
        };
        let mut decoded = decoded.clone();
        decoded.packet.set_traffic_class(p.traffic_class()); // a queue may have marked it
        if decoded.packet.protocol() == Protocol::Udp {
            UdpStamp { number: p.seq, sent: p.udp_sent_at() }.apply(&mut decoded.packet);
        }
        if decoded.packet.protocol() == Protocol::Sctp {
            let bytes = bytes.to_vec();
            self.sides.free(&p);
            return self.unbundle(now, (p.flow, end), decoded, &bytes);
        }
        let understood = flow.application_mut().read(now, end, &decoded.packet, &bytes[decoded.payload.clone()]);
        self.sides.free(&p);
        if !understood {
            ports.stats.unreadable += 1;
            return None;
        }
        Some(decoded.into_packet(&[], p.flow, &mut self.sides)) // the bytes are needed only for SCTP chunks
    }

    /// Passes the chunks of an SCTP packet from outside to the end inside; returns the last chunk instead.
    fn unbundle(&mut self, now: Time, (flow, end): (FlowId, usize), first: Decoded, bytes: &[u8]) -> Option<Packet> {
        let (mut next, mut last) = (Some(first), None);
        while let Some(chunk) = next {
            next = chunk.following(bytes).unwrap_or_else(|_| {
                self.ports.iter_mut().for_each(|p| p.stats.unreadable += 1);
                None
            });
            let packet = chunk.into_packet(bytes, flow, &mut self.sides);
            if let Some(before) = last.replace(packet) {
                self.flows[flow.index()].receive(now, end, &before, &self.sides);
                self.sides.free(&before);
            }
        }
        last
    }
}

/// Returns the addresses of two nodes, for traffic without addresses.
fn addresses_between(nodes: [usize; 2]) -> Addresses {
    let ip = IpPair::V4 { src: assigned(nodes[0]), dst: assigned(nodes[1]) };
    Addresses { ip, src_port: 0, dst_port: 0 }
}

/// Returns the key of all frames without an IP datagram between two nodes.
fn key_of_frames(nodes: [usize; 2]) -> ConversationKey {
    key(addresses_between(nodes), NO_PROTOCOL, nodes)
}

/// Returns true if a datagram may begin a conversation: for TCP a SYN, for SCTP an INIT.
fn begins(d: &Decoded) -> bool {
    match d.packet.protocol() {
        Protocol::Tcp => d.packet.flags & (flags::SYN | flags::ACK | flags::RST) == flags::SYN,
        Protocol::Sctp => matches!(d.side, Some(SideContent::Init(_))),
        Protocol::Udp => true,
    }
}

/// Marks traffic without IP; no conversation has this number (IANA: reserved).
const NO_PROTOCOL: ProtocolNumber = 255;
/// Longest datagram that a packet can stand for, bytes.
const LONGEST: usize = u16::MAX as usize;

#[cfg(test)]
mod tests;
