//! The proxies of a component, which split TCP connections between their node and their link. A connection of two ends
//! inside the network has counted data, a connection of two ends outside has the bytes of their datagrams.

use super::{Component, Hop, Local, NetworkFlow, Observer};
use crate::gateway::Heading;
use crate::net::reassembly::Reassembly;
use crate::packet::{Ecn, FlowId, Fragment, Packet, Protocol, Sides};
use crate::pep::{EndConfig, FlowSplit, Proxy, ProxyConfig, ProxyVerdict};
use crate::rng::Seed;
use crate::scenario::Scenario;
use crate::tcp::{Schedule, ScheduleEntry, TcpConfig};
use crate::units::Time;
use crate::wire::{self, Addresses, Datagram};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A proxy at its node.
pub(super) struct PlacedProxy {
    pub(super) node: usize,
    /// First place of the rough link.
    pub(super) link: u32,
    /// Configurations toward the rough link, and toward the other side.
    configs: [EndConfig; 2],
    /// Keys of TCP flows, by flow.
    tcp: BTreeMap<u32, Arc<TcpConfig>>,
    /// Connections of flows inside the network, by flow, and their timers.
    splits: BTreeMap<u32, (FlowSplit, ScheduleEntry)>,
    schedule: Schedule<u32>,
    /// Incomplete datagrams, by flow and direction.
    reassembly: BTreeMap<(u32, bool), Reassembly>,
    /// Proxy of connections between hosts outside the network. The rough link lies outward.
    bytes: Proxy,
    /// Flows of datagrams from outside, by the addresses of the datagrams.
    outside: BTreeMap<Addresses, FlowId>,
}

/// Creates the proxies of a component.
pub(super) fn proxies(
    s: &Scenario,
    seed: &Seed,
    proxies: &[usize],
    local: &Local<'_>,
    flows: &[NetworkFlow],
) -> Vec<PlacedProxy> {
    let place = |&global: &usize| {
        let spec = &s.proxies[global];
        let link = local.place(2 * spec.link as Hop);
        let mtu = s.links[spec.link].model.as_pipe().map_or(MTU, |pipe| pipe.mtu.clamp(MIN_MTU, MTU));
        let mut random = seed.stream(&spec.name, "secret");
        let secret = u128::from(random.bits()) << 64 | u128::from(random.bits());
        let params = spec.params.clone();
        let config = ProxyConfig { params, over: Heading::Outward, mtu, secret };
        PlacedProxy {
            node: spec.node,
            link,
            configs: spec.params.resolve().expect("checked when the scenario was read"),
            tcp: flows.iter().zip(0..).filter_map(|(f, i)| Some((i, Arc::clone(s.flows[f.global].tcp()?)))).collect(),
            splits: BTreeMap::new(),
            schedule: Schedule::new(),
            reassembly: BTreeMap::new(),
            bytes: Proxy::new(config).expect("checked when the scenario was read"),
            outside: BTreeMap::new(),
        }
    };
    proxies.iter().map(place).collect()
}

impl PlacedProxy {
    /// Returns the memory of its connections, bytes.
    pub(super) fn bytes(&self) -> usize {
        let counted: usize = self.splits.values().map(|(split, _)| split.bytes()).sum();
        counted + self.bytes.connections().map(|connection| connection.buffer_bytes).sum::<usize>()
    }

    /// Returns the heads of incomplete datagrams.
    pub(super) fn heads(&self) -> impl Iterator<Item = &Packet> {
        self.reassembly.values().flat_map(Reassembly::heads)
    }

    /// Returns the heading of a packet between two places; `None` if it does not pass between the link and another.
    fn heading(&self, [from, to]: [Option<u32>; 2]) -> Option<Heading> {
        let over = |place: u32| place & !1 == self.link;
        match (over(from?), over(to?)) {
            (false, true) => Some(Heading::Outward),
            (true, false) => Some(Heading::Inward),
            _ => None,
        }
    }

    /// Returns the split of the connection of a flow whose packets have this heading; `None` for a flow without TCP.
    fn split(&mut self, flow: FlowId, heading: Heading) -> Option<&mut FlowSplit> {
        let index = flow.index() as u32;
        let tcp = self.tcp.get(&index)?;
        let [rough, lan] = &self.configs;
        // A packet goes to end 1 of its flow, or to end 0 if it is reverse.
        let rough_end = usize::from(flow.reverse() == (heading == Heading::Inward));
        let configs = if rough_end == 0 { [rough, lan] } else { [lan, rough] };
        let create = || (FlowSplit::new(index, configs, tcp), ScheduleEntry::new());
        Some(&mut self.splits.entry(index).or_insert_with(create).0)
    }

    /// Returns the whole datagram that a packet is or completes.
    fn reassemble(&mut self, now: Time, p: Packet, sides: &mut Sides) -> Option<Packet> {
        if p.fragment() == Fragment::Whole {
            return Some(p);
        }
        let reassembly = self.reassembly.entry((p.flow.index() as u32, p.flow.reverse())).or_default();
        reassembly.receive(now, p, &mut |dropped| sides.free(&dropped))
    }
}

impl Component {
    /// Passes a packet from one place to another through the proxies between them. Returns true if one has consumed the
    /// packet; otherwise a fragment may have become a whole datagram.
    pub(super) fn split<O: Observer>(
        &mut self,
        now: Time,
        node: usize,
        places: [Option<u32>; 2],
        p: &mut Packet,
        observer: &mut O,
    ) -> bool {
        for i in 0..self.proxies.len() {
            let proxy = &mut self.proxies[i];
            let Some(heading) = proxy.heading(places).filter(|_| proxy.node == node) else { continue };
            let open = self.flows[p.flow.index()].open;
            let splits = open == [true; 2] || open == [false; 2] && p.protocol() == Protocol::Tcp;
            if !splits {
                continue;
            }
            let Some(whole) = proxy.reassemble(now, *p, &mut self.sides) else { return true };
            *p = whole;
            let consumed = match open[0] {
                true => self.split_outside(now, i, heading, p),
                false => self.split_inside(now, i, heading, p),
            };
            if consumed {
                self.sides.free(p);
            }
            self.originate_split(now, i, Some(p.flow), observer);
            if consumed {
                return true;
            }
        }
        false
    }

    /// Passes a packet between two ends inside to a proxy. Returns true if the proxy has consumed it.
    fn split_inside(&mut self, now: Time, i: usize, heading: Heading, p: &Packet) -> bool {
        let Some(split) = self.proxies[i].split(p.flow, heading) else { return false };
        split.receive(now, usize::from(p.flow.reverse()), p, &self.sides);
        true
    }

    /// Passes a datagram between two ends outside to a proxy. Returns true if the proxy has consumed it.
    fn split_outside(&mut self, now: Time, i: usize, heading: Heading, p: &Packet) -> bool {
        let PlacedProxy { bytes: proxy, outside, .. } = &mut self.proxies[i];
        let Some(ports) = &mut self.ports else { return false };
        let Some((headers, bytes)) = ports.outside(&mut self.sides, p) else { return false };
        let mut datagram = Datagram::with_headers(bytes.to_vec(), headers.clone());
        if p.ecn() == Ecn::Ce {
            let range = datagram.ip_range();
            wire::set_ecn(&mut datagram.parts_mut().1[range], Ecn::Ce);
        }
        if let Some(decoded) = datagram.decoded() {
            outside.insert(decoded.addresses, p.flow);
            outside.insert(decoded.addresses.reversed(), p.flow.flipped());
            if outside.len() > MAX_OUTSIDE {
                outside.retain(|addresses, flow| ports.addresses(*flow) == *addresses);
            }
        }
        proxy.receive(now, heading, &datagram) == ProxyVerdict::Consumed
    }

    /// Sends all packets that a proxy has ready. `cause` is the flow of the packet that it has received.
    fn originate_split<O: Observer>(&mut self, now: Time, i: usize, cause: Option<FlowId>, observer: &mut O) {
        if let Some(flow) = cause {
            self.originate_inside(now, i, flow.index() as u32, observer);
        }
        let mut bytes = Vec::new();
        while let Some((_, is_frame)) = self.proxies[i].bytes.transmit_from(now, &mut bytes) {
            let Some(ports) = &mut self.ports else { break };
            let datagram = if is_frame { Datagram::from_frame(&*bytes) } else { Datagram::from_ip(&*bytes) };
            let known = datagram.decoded().and_then(|decoded| self.proxies[i].outside.get(&decoded.addresses));
            let Some(flow) = known.copied().or(cause) else { continue };
            let p = ports.packet(&mut self.sides, now, flow, &datagram);
            self.send_from(now, self.proxies[i].node, p, observer);
        }
        let proxy = &self.proxies[i];
        let next = proxy.schedule.next_wake().min(proxy.bytes.next_wake()).max(now + Time::from_nanos(1));
        self.calendar.set(self.leaves.proxies + i, next);
    }

    /// Sends the packets that the connection of a flow has ready, and schedules its timers.
    fn originate_inside<O: Observer>(&mut self, now: Time, i: usize, flow: u32, observer: &mut O) {
        while let Some((split, _)) = self.proxies[i].splits.get_mut(&flow)
            && let Some(p) = split.transmit(now, &mut self.sides)
        {
            if self.budget.step() && self.exceeds(now) {
                self.sides.free(&p);
                return;
            }
            let p = self.flows[p.flow.index()].with_ip_header(p);
            self.send_from(now, self.proxies[i].node, p, observer);
        }
        let proxy = &mut self.proxies[i];
        if let Some((split, entry)) = proxy.splits.get_mut(&flow) {
            proxy.schedule.wake_by(now, split.next_wake(now), flow, entry);
        }
    }

    /// Sends a packet on its flow's path from a node in the middle of it.
    fn send_from<O: Observer>(&mut self, now: Time, node: usize, p: Packet, observer: &mut O) {
        let (flow, r) = (&self.flows[p.flow.index()], usize::from(p.flow.reverse()));
        let path = &self.paths[flow.path[r] as usize..flow.path[r + 1] as usize];
        let here = path.iter().position(|&place| self.places[place as usize].1 == node);
        match here.and_then(|i| path.get(i + 1)) {
            Some(&next) => self.send(now, next as usize, &p, observer),
            None => self.sides.free(&p),
        }
    }

    pub(super) fn wake_proxy<O: Observer>(&mut self, now: Time, i: usize, observer: &mut O) {
        while let Some(flow) = self.proxies[i].schedule.pop_due(now) {
            if let Some((split, entry)) = self.proxies[i].splits.get_mut(&flow) {
                entry.wake();
                split.wake(now);
            }
            self.originate_inside(now, i, flow, observer);
        }
        self.proxies[i].bytes.wake(now);
        self.originate_split(now, i, None, observer);
    }
}

/// Largest and smallest MTU of a proxy's segments, bytes.
const MTU: u16 = 1500;
const MIN_MTU: u16 = 1280;
/// Most addresses of datagrams from outside. At this number, forgotten conversations lose their entries.
const MAX_OUTSIDE: usize = 1 << 18;
