//! The gateways of a component: they observe the traffic between their node and their link and may send packets.

use super::{Component, Hop, Local, Media, NetworkEvent, NetworkFlow, Observer};
use crate::gateway::{self, FlowKey, FlowStats, Gateway, Heading, Modem, SegmentVerdict, bytes, packets};
use crate::link::Medium;
use crate::packet::{FlowId, Packet};
use crate::scenario::Scenario;
use crate::units::Time;

pub(super) struct PlacedGateway {
    /// Number in the scenario.
    pub global: usize,
    pub node: usize,
    /// First place of the rough link.
    pub link: u32,
    /// Heading of packets that leave over the link.
    over: Heading,
    /// Port of the modem, counted from the first after the pipes, if the link is a medium.
    modem: Option<usize>,
    pub gateway: Box<dyn Gateway>,
}

impl PlacedGateway {
    /// Returns the gateway's counters, with the scenario's flow numbers.
    pub(super) fn stats(&self, now: Time, media: &Media, flows: &[NetworkFlow]) -> gateway::Stats {
        let port = self.port(now, media);
        let mut stats = self.gateway.stats(port.as_ref().map(|p| p as &dyn Modem));
        rename(&mut stats.flows, flows);
        stats
    }

    /// Returns the gateway's counters of flows that have ended, in the same form.
    pub(super) fn ended(&self, flows: &[NetworkFlow]) -> Vec<FlowStats> {
        let mut ended = self.gateway.ended();
        rename(&mut ended, flows);
        ended
    }

    fn port<'m>(&self, now: Time, media: &'m Media) -> Option<ModemPort<'m>> {
        self.modem.map(|place| media.port(place)).map(|(medium, port)| ModemPort { now, medium, port })
    }
}

/// Replaces the component's flow numbers with the scenario's.
fn rename(stats: &mut [FlowStats], flows: &[NetworkFlow]) {
    for f in stats {
        f.key.flow = FlowId::new(flows[f.key.flow.index()].global as u32, f.key.flow.reverse());
    }
}

/// Creates the gateways of a component.
pub(super) fn gates(
    s: &Scenario,
    gateways: &[usize],
    local: &Local<'_>,
    media: &Media,
    pipes: usize,
) -> Vec<PlacedGateway> {
    let gate = |&global: &usize| {
        let spec = &s.gateways[global];
        let link = local.place(2 * spec.link as Hop);
        let forward = s.links[spec.link].between.0 == spec.node;
        let port = link as usize + usize::from(!forward);
        PlacedGateway {
            global,
            node: spec.node,
            link,
            over: spec.kind.over,
            modem: port.checked_sub(pipes).filter(|_| media.len() > 0),
            gateway: spec.kind.build(&spec.params).expect("checked when the scenario was read"),
        }
    };
    gateways.iter().map(gate).collect()
}

/// The modem at a port, as visible to gateways at `now`.
struct ModemPort<'m> {
    now: Time,
    medium: &'m dyn Medium,
    port: usize,
}

impl ModemPort<'_> {
    fn flow_backlog(&self, key: &FlowKey) -> crate::link::Backlog {
        self.medium.backlog(self.port, key.flow)
    }
}

impl Modem for ModemPort<'_> {
    fn waiting(&self, key: &FlowKey) -> u32 {
        self.flow_backlog(key).waiting
    }
    fn backlog(&self, key: &FlowKey) -> u32 {
        let b = self.flow_backlog(key);
        b.waiting + b.unacknowledged
    }
    fn total_backlog(&self) -> u32 {
        self.medium.waiting(self.port) as u32
    }
    fn cycle_time(&self, sdus: u32) -> Time {
        self.medium.cycle_time(self.now, self.port, sdus)
    }
    fn max_sdus(&self) -> u32 {
        self.medium.limit(self.now, self.port)
    }
    fn rejected(&self) -> f64 {
        self.medium.rejected(self.port)
    }
}

impl Component {
    /// Sends a packet from `place` to `next` or to its host, through the gateways on the way.
    #[inline(never)]
    pub(super) fn forward_gated<O: Observer>(
        &mut self,
        now: Time,
        place: usize,
        next: Option<u32>,
        mut p: Packet,
        observer: &mut O,
    ) {
        let node = self.places[place].1;
        let places = [Some(place as u32), next];
        match (self.pass_gates(now, node, places, &mut p, observer), next) {
            (SegmentVerdict::Drop, _) => self.sides.free(&p),
            (SegmentVerdict::Accept, _) if self.split(now, node, places, &mut p, observer) => {}
            (SegmentVerdict::Accept, Some(next)) => self.send(now, next as usize, &p, observer),
            (SegmentVerdict::Accept, None) => self.deliver(now, place, &p, observer),
        }
        self.originate_at(now, node, observer);
    }

    /// Sends a packet from the `end` of a flow to `leaf`, through the gateways on the way.
    #[inline(never)]
    pub(super) fn send_gated<O: Observer>(
        &mut self,
        now: Time,
        (flow, end): (usize, usize),
        leaf: usize,
        mut p: Packet,
        observer: &mut O,
    ) {
        let node = self.flows[flow].nodes[end];
        match self.pass_gates(now, node, [None, Some(leaf as u32)], &mut p, observer) {
            SegmentVerdict::Drop => self.sides.free(&p),
            SegmentVerdict::Accept => self.send(now, leaf, &p, observer),
        }
        self.originate_at(now, node, observer);
    }

    /// Passes a packet through the gateways at `node`, from one place to another; `None` is the host itself.
    fn pass_gates<O: Observer>(
        &mut self,
        now: Time,
        node: usize,
        [from, to]: [Option<u32>; 2],
        p: &mut Packet,
        observer: &mut O,
    ) -> SegmentVerdict {
        for g in self.gates.iter_mut().filter(|g| g.node == node) {
            let over = |place: Option<u32>| place.is_some_and(|place| place & !1 == g.link);
            let heading = match (over(from), over(to)) {
                (_, true) => g.over,
                (true, false) => g.over.opposite(),
                (false, false) => continue,
            };
            let port = g.port(now, &self.media);
            let modem = port.as_ref().map(|p| p as &dyn Modem);
            let gateway = &mut *g.gateway;
            let key = self.ports.as_ref().map_or(FlowKey::new(p.flow), |ports| ports.flow_key(p.flow));
            let verdict = match self.ports.as_mut().and_then(|ports| ports.outside(&mut self.sides, p)) {
                Some(outside) => bytes::receive(gateway, now, heading, (key, None), outside, modem),
                None => packets::receive(gateway, now, heading, key, (p, &self.sides), modem),
            };
            if O::ACTIVE {
                let stats = || g.stats(now, &self.media, &self.flows);
                observer.observe(now, NetworkEvent::Gateway { gateway: g.global, stats: &stats });
            }
            if verdict == SegmentVerdict::Drop {
                return SegmentVerdict::Drop;
            }
        }
        SegmentVerdict::Accept
    }

    fn originate_at<O: Observer>(&mut self, now: Time, node: usize, observer: &mut O) {
        for g in 0..self.gates.len() {
            if self.gates[g].node == node {
                self.originate(now, g, observer);
            }
        }
    }

    /// Sends all packets that a gateway has ready, except those of conversations that have been forgotten.
    pub(super) fn originate<O: Observer>(&mut self, now: Time, g: usize, observer: &mut O) {
        while let Some((_, segment)) = self.gates[g].gateway.transmit(now) {
            let FlowKey { flow, generation } = segment.key;
            if self.ports.as_ref().is_some_and(|ports| ports.flow_key(flow).generation != generation) {
                continue;
            }
            let p = packets::packet(flow, &segment);
            let (node, r) = (self.gates[g].node, usize::from(p.flow.reverse()));
            let flow = &self.flows[p.flow.index()];
            let p = flow.with_ip_header(p);
            let path = &self.paths[flow.path[r] as usize..flow.path[r + 1] as usize];
            let next = if flow.nodes[r] == node {
                path.first()
            } else {
                path.iter().position(|&place| self.places[place as usize].1 == node).and_then(|i| path.get(i + 1))
            };
            if let Some(&next) = next {
                self.send(now, next as usize, &p, observer);
            } else if let Some(&last) = path.last() {
                self.deliver(now, last as usize, &p, observer);
            }
        }
        self.calendar.set(self.leaves.gates + g, self.gates[g].gateway.next_wake());
    }

    pub(super) fn wake_gate<O: Observer>(&mut self, now: Time, g: usize, observer: &mut O) {
        self.gates[g].gateway.wake(now);
        self.originate(now, g, observer);
    }
}
