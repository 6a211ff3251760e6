//! Open ports: datagrams enter the network from outside and leave it again.
//!
//! A port stands at a node and takes the place of its host. A datagram that enters is routed by its destination address
//! to the node that has the address or leads to it ([`RunOptions::beyond`]). A datagram that reaches the node leaves
//! through the port at its arrival time. Links and queues only see its length. The bytes leave unchanged, except for a
//! window reduced by a gateway and an ECN field marked by a queue. A fragment is treated like any other datagram: if a
//! link fragments it further, its parts are reassembled before it leaves.
//!
//! Each conversation of two addresses, two ports and a protocol is a flow, so that gateways and media can distinguish
//! it. After [`MAX_FLOWS`] flows, new conversations share a flow for each pair of a port and a destination. A frame is
//! sent to a port, not to an address. The bytes before its IP datagram are ignored. Frames without a datagram between
//! the same two ports share one flow.
//!
//! An SCTP packet from outside may have several chunks (RFC 9260 section 6.10) and crosses the network as one datagram.
//! An end inside receives it as several packets of the engine, one per chunk, in order and at the same instant.
//!
//! A scenario's flow may have one end outside. Either end may open the connection; the inside end is found by its
//! address and port. Its packets leave with the bytes of the flow's application, or else with [`Implied`] bytes.

use super::{Component, NetworkFlow, Observer, VARIES, append};
use crate::net::addresses::{Prefix, addresses, assigned, is_of_a_host, link_local, node_address, node_address_v6};
use crate::net::routing::Routes;
use crate::net::{Crossing, InterfaceDirection, NetworkOutput, PortStats, RunOptions};
use crate::packet::{Ecn, FlowId, Fragment, Packet, Protocol, SideContent, flags};
use crate::scenario::Scenario;
use crate::units::Time;
use crate::wire::{self, Addresses, Decoded, Implied, IpPair, UdpStamp, ethernet};
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
    /// Flows by addresses, protocol, and the nodes at which they enter and leave.
    known: BTreeMap<ConversationKey, FlowId>,
    /// Flows of the scenario with a listening end inside the network, by address, port and protocol.
    listening: BTreeMap<(IpAddr, u16, ProtocolNumber), Vec<u32>>,
    /// Flows of `listening` that have a peer.
    claimed: BTreeSet<(u32, ProtocolNumber)>,
    /// Addresses of every flow of the component, from source to destination.
    addresses: Vec<Addresses>,
    /// Addresses of discovery datagrams of each session whose vehicle is outside, once some have been seen.
    discovery: BTreeMap<u32, Addresses>,
    out: VecDeque<NetworkOutput>,
    ident: u16,
    stats: PortStats,
}

/// Transport protocol; 0 for an unknown one.
type ProtocolNumber = u8;
const UDP: ProtocolNumber = 17;
/// Any protocol, for conversations that share a flow; no protocol has this number.
const SHARED: ProtocolNumber = 255;
type ConversationKey = (Addresses, ProtocolNumber, [usize; 2]);

const fn transport(protocol: Protocol) -> ProtocolNumber {
    match protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => UDP,
        Protocol::Sctp => 132,
    }
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
            known: BTreeMap::new(),
            listening: BTreeMap::new(),
            claimed: BTreeSet::new(),
            addresses: flows.iter().map(|f| addresses(s, f.global)).collect(),
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
            let a = ports.addresses[i];
            for transport in f.protocols().map(transport) {
                if f.open == [true, false] {
                    let at = (destination(&a.ip), a.dst_port, transport);
                    ports.listening.entry(at).or_default().push(i as u32);
                }
                if f.open != [false, false] {
                    ports.remember(a, transport, FlowId::new(i as u32, false), f.nodes);
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
        let a = self.addresses[flow.index()];
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

    /// Makes the source of `a` the outside end of `flow` for this transport.
    fn claim(&mut self, a: Addresses, transport: ProtocolNumber, (index, flow): (u32, &NetworkFlow)) -> FlowId {
        self.claimed.insert((index, transport));
        let discovery = transport == UDP && flow.session().is_some();
        let known = if discovery {
            self.discovery.insert(index, a).unwrap_or(self.addresses[index as usize])
        } else {
            std::mem::replace(&mut self.addresses[index as usize], a)
        };
        self.forget(known, transport, flow.nodes);
        self.remember(a, transport, FlowId::new(index, false), flow.nodes);
        FlowId::new(index, false)
    }

    /// Returns the bytes of waiting datagrams and frames.
    pub(super) fn bytes(&self) -> usize {
        self.out.iter().map(|out| out.datagram.len()).sum()
    }

    fn remember(&mut self, a: Addresses, transport: ProtocolNumber, flow: FlowId, nodes: [usize; 2]) {
        self.known.insert((a, transport, nodes), flow);
        self.known.insert((a.reversed(), transport, [nodes[1], nodes[0]]), flow.flipped());
    }

    fn forget(&mut self, a: Addresses, transport: ProtocolNumber, nodes: [usize; 2]) {
        self.known.remove(&(a, transport, nodes));
        self.known.remove(&(a.reversed(), transport, [nodes[1], nodes[0]]));
    }
}

fn destination(pair: &IpPair) -> IpAddr {
    match pair {
        IpPair::V4 { dst, .. } => IpAddr::V4(*dst),
        IpPair::V6 { dst, .. } => IpAddr::V6(*dst),
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

    /// Accepts the bytes of a datagram at `port`. All events due by `now` must have been processed.
    pub(in crate::net) fn receive<O: Observer>(&mut self, now: Time, port: usize, bytes: &[u8], observer: &mut O) {
        let Some(ports) = &mut self.ports else { return };
        let Ok(envelope) = wire::envelope(bytes) else {
            ports.stats.unreadable += 1;
            return;
        };
        let node = ports.nodes[port];
        let Some(to) = ports.node_of(destination(&envelope.pair)) else {
            ports.stats.unreachable += 1;
            return;
        };
        let content = DatagramContent { length: envelope.end, datagram: Some((0, envelope)) };
        self.enter(now, [node, to], &bytes[..envelope.end], content, observer);
    }

    /// Accepts a frame at the first of two ports, for the second. All events due by `now` must have been processed.
    pub(in crate::net) fn forward_frame<O: Observer>(
        &mut self,
        now: Time,
        between: [usize; 2],
        frame: &[u8],
        observer: &mut O,
    ) {
        let Some(ports) = &mut self.ports else { return };
        let Ok(payload) = ethernet::payload_offset(frame) else {
            ports.stats.unreadable += 1;
            return;
        };
        let datagram = ethernet::envelope(frame).ok();
        let length = datagram.map_or(frame.len() - payload, |(_, envelope)| envelope.end);
        let nodes = between.map(|port| ports.nodes[port]);
        self.enter(now, nodes, frame, DatagramContent { length, datagram }, observer);
    }

    /// Sends a datagram or frame from one node into the network, for another node.
    fn enter<O: Observer>(
        &mut self,
        now: Time,
        nodes: [usize; 2],
        bytes: &[u8],
        content: DatagramContent,
        observer: &mut O,
    ) {
        let Some(ports) = &mut self.ports else { return };
        let DatagramContent { length, datagram } = content;
        if !(1..=LONGEST).contains(&length) {
            ports.stats.unreadable += 1;
            return;
        }
        let within = datagram.map_or(0..0, |(at, envelope)| at..at + envelope.end);
        let inner = &bytes[within.clone()];
        let whole = wire::parse(inner).ok().filter(|d| d.packet.fragment() == Fragment::Whole);
        let pair = datagram.map_or_else(|| between(nodes), |(_, envelope)| envelope.pair);
        let Some(flow) = self.flow_of(pair, whole.as_ref(), nodes) else {
            self.ports.iter_mut().for_each(|p| p.stats.unreachable += 1);
            return;
        };
        let Some(ports) = &mut self.ports else { return };
        ports.stats.received += 1;
        let ipv6 = matches!(pair, IpPair::V6 { .. });
        let mut p = Packet::opaque(flow, length as u16, ipv6, self.sides.store_outside(bytes, within), now);
        p.set_traffic_class(datagram.map_or(0, |(_, envelope)| envelope.traffic_class));
        // Fragments of two datagrams must not mix, even if their senders chose the same identification.
        ports.ident = ports.ident.wrapping_add(1);
        p.ident = ports.ident;
        let end = usize::from(flow.reverse());
        if let Some(decoded) = &whole {
            p.seq = self.flows[flow.index()].enter(now, end, decoded, inner);
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
            match datagram {
                Some(_) => observer.datagram(now, at, inner),
                None => observer.frame(now, at, nodes[1], bytes),
            }
        }
        if self.gates.is_empty() {
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
        self.sides.datagrams().chain(out.filter_map(NetworkOutput::ip_datagram))
    }

    /// Returns the flow of traffic from one node to another; `None` if there is no path.
    fn flow_of(&mut self, ip: IpPair, whole: Option<&Decoded>, nodes: [usize; 2]) -> Option<FlowId> {
        let ports = self.ports.as_mut()?;
        if nodes[0] == nodes[1] {
            return None;
        }
        let (mut addresses, mut transport) = match whole {
            Some(d) => (d.addresses, transport(d.packet.protocol())),
            None => (Addresses { ip, src_port: 0, dst_port: 0 }, 0),
        };
        if let Some(&flow) = ports.known.get(&(addresses, transport, nodes)) {
            // The flow is in use between its own addresses: no other peer may claim it.
            if whole.is_some_and(begins) && !self.flows[flow.index()].is_passing() {
                ports.claimed.insert((flow.index() as u32, transport));
            }
            return Some(flow);
        }
        // A listening flow takes the first connection that begins, and a later one while it is still listening.
        if whole.is_some_and(begins) {
            let at = (destination(&ip), addresses.dst_port, transport);
            let waiting = ports.listening.get(&at).map_or(&[][..], |flows| flows);
            let here = |index: &u32| self.flows[*index as usize].nodes == nodes;
            let unclaimed = |index: &u32| here(index) && !ports.claimed.contains(&(*index, transport));
            let listens = |index: &u32| here(index) && self.flows[*index as usize].is_listening();
            let mut waiting = waiting.iter().copied();
            if let Some(index) = waiting.clone().find(unclaimed).or_else(|| waiting.find(listens)) {
                return Some(ports.claim(addresses, transport, (index, &self.flows[index as usize])));
            }
        }
        if self.flows.len() >= MAX_FLOWS {
            (addresses, transport) = (Addresses { ip: between(nodes), src_port: 0, dst_port: 0 }, SHARED);
            if let Some(flow) = ports.known.get(&(addresses, transport, nodes)) {
                return Some(*flow);
            }
        }
        let hops = [ports.routes.path(nodes[0], nodes[1])?, ports.routes.path(nodes[1], nodes[0])?];
        let path = append(&mut self.paths, &hops, &ports.places);
        let open = nodes.map(|node| ports.nodes.contains(&node));
        let index = self.flows.len() as u32;
        let ipv6 = matches!(addresses.ip, IpPair::V6 { .. });
        let global = self.flows.last().map_or(0, |last| last.global + 1);
        self.flows.push(NetworkFlow::passing((index, global), path, nodes, open, ipv6));
        ports.addresses.push(addresses);
        ports.remember(addresses, transport, FlowId::new(index, false), nodes);
        Some(FlowId::new(index, false))
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
            let mut datagram = Vec::new();
            let since = self.sides.outside(&p).map(|_| p.udp_sent_at());
            let mut is_frame = false;
            match self.sides.outside(&p) {
                Some(bytes) => {
                    datagram.extend_from_slice(bytes);
                    let inner = self.sides.datagram(&p);
                    is_frame = inner.is_none_or(|inner| inner.len() < bytes.len());
                    if O::ACTIVE {
                        match inner {
                            Some(inner) => observer.datagram(now, at, inner),
                            None => observer.frame(now, at, flow.nodes[1 - end], bytes),
                        }
                    }
                }
                None => {
                    let (side, addresses) = (self.sides.get(&p), ports.addresses_of(&p));
                    // A packet from an end inside the network always has a wire form.
                    let carried = || self.sides.carried(&p).map(<[u8]>::to_vec);
                    let written = match flow.payload(&p, &addresses).or_else(carried) {
                        Some(payload) => wire::encode(&p, side, &addresses, &payload, &mut datagram),
                        None => wire::encode(&p, side, &addresses, &Implied::from_packet(&p), &mut datagram),
                    };
                    debug_assert_eq!(written, Ok(()));
                    if O::ACTIVE {
                        observer.datagram(now, at, &datagram);
                    }
                }
            }
            flow.on_exit(now, &p);
            self.sides.free(&p);
            let port = ports.nodes.iter().position(|node| *node == flow.nodes[end])?;
            ports.stats.sent += 1;
            ports.out.push_back(NetworkOutput { due: now, since, port, datagram, is_frame });
            return None;
        }
        let bytes = self.sides.datagram(&p);
        if let (None, false) = (bytes, flow.is_passing()) {
            return Some(p);
        }
        if let (true, Some(bytes)) = (O::ACTIVE, bytes) {
            observer.datagram(now, at, bytes);
        }
        let whole = |d: &Decoded| d.packet.fragment() == Fragment::Whole;
        let decoded = bytes.and_then(|bytes| wire::decode(bytes).ok()).filter(whole);
        let Some((bytes, mut decoded)) = bytes.zip(decoded).filter(|_| !flow.is_passing()) else {
            self.sides.free(&p);
            ports.stats.unreachable += 1;
            return None;
        };
        if decoded.packet.protocol() == Protocol::Udp {
            UdpStamp { number: p.seq, sent: p.udp_sent_at() }.apply(&mut decoded.packet);
        }
        if decoded.packet.protocol() == Protocol::Sctp {
            let bytes = bytes.to_vec();
            self.sides.free(&p);
            return self.unbundle(now, (p.flow, end), decoded, &bytes);
        }
        let understood = flow.read(now, end, &decoded.packet, &bytes[decoded.payload.clone()]);
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

/// Content of a datagram or frame that enters the network.
struct DatagramContent {
    /// Length for links.
    length: usize,
    /// Offset of the IP datagram, and its envelope.
    datagram: Option<(usize, wire::Envelope)>,
}

/// Returns the addresses of two nodes, for traffic without addresses.
fn between(nodes: [usize; 2]) -> IpPair {
    IpPair::V4 { src: assigned(nodes[0]), dst: assigned(nodes[1]) }
}

/// Returns true if a datagram may begin a conversation: for TCP a SYN, for SCTP an INIT.
fn begins(d: &Decoded) -> bool {
    match d.packet.protocol() {
        Protocol::Tcp => d.packet.flags & (flags::SYN | flags::ACK | flags::RST) == flags::SYN,
        Protocol::Sctp => matches!(d.side, Some(SideContent::Init(_))),
        Protocol::Udp => true,
    }
}

/// Number of flows of a component, including the scenario's, up to which each conversation gets a separate flow.
pub(super) const MAX_FLOWS: usize = 1 << 16;
/// Longest datagram that a packet can stand for, bytes.
const LONGEST: usize = u16::MAX as usize;
