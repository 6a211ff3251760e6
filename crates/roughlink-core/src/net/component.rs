//! A running component: links, flows and calendar.

use super::budget::Budget;
use super::calendar::{self, Calendar};
use super::flow::NetworkFlow;
use super::partition::ComponentPlan;
use super::routing::{FlowPath, Hop};
use super::{Crossing, InterfaceDirection, LinkChange, LinkState, NetworkEvent, NoObserver, Observer, RunOptions};
use crate::cc::LinkEvent;
use crate::link::Model;
use crate::link::fragments::Fragments;
use crate::link::pipe::Pipe;
use crate::link::timeline::Step;
use crate::metrics::ComponentReports;
use crate::packet::{FlowId, Fragment, NO_SIDE, Packet, Sides};
use crate::rng::Seed;
use crate::scenario::Scenario;
use crate::tcp::TransmittedRun;
use crate::units::Time;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;

mod gates;
mod media;
mod places;
mod ports;
mod reading;
mod splits;

use gates::PlacedGateway;
use media::Media;
use places::{HOST, Local, Neighbors, VARIES, append};
use ports::Ports;
use splits::PlacedProxy;

/// A running component. Flow and link numbers are local; `global` has the scenario's.
pub(super) struct Component {
    pipes: Vec<Pipe>,
    media: Media,
    gates: Vec<PlacedGateway>,
    proxies: Vec<PlacedProxy>,
    /// Set if there are gateways or proxies.
    gated: bool,
    flows: Vec<NetworkFlow>,
    /// Places are the link directions of the component: first the pipes, then the ports of the media, two for each
    /// link. Each entry has the place's global hop and the node at its far end.
    places: Vec<(Hop, usize)>,
    /// Places of all paths, concatenated; flows hold ranges.
    paths: Vec<u32>,
    leaves: Leaves,
    calendar: Calendar,
    sides: Sides,
    /// Destination of the packets from each place: another place, [`HOST`], or [`VARIES`].
    onward: Vec<u32>,
    /// For each pipe, the next one to which all its packets continue, if that has no other source and this one loses
    /// none: no event is then needed between the two. Empty with an observer, with open ports and in stepped runs.
    cascade: Vec<u32>,
    notices: Vec<PendingNotices>,
    ports: Option<Box<Ports>>,
    end: Time,
    events: u64,
    /// Use of the run's limits; swapped with the network's own while the component runs.
    budget: Budget,
}

/// Pending notifications of a link, whose first place is `place`.
struct PendingNotices {
    place: u32,
    events: Peekable<Box<dyn Iterator<Item = (Time, LinkEvent)> + Send>>,
}

impl PendingNotices {
    fn next(&mut self) -> Time {
        self.events.peek().map_or(Time::MAX, |event| event.0)
    }
}

/// First calendar leaf of each kind: pipes, media, links with notifications, flows, gateways, proxies. Notifications
/// come before flows, so that a flow that begins at an instant receives the notifications of that instant.
struct Leaves {
    media: usize,
    notices: usize,
    flows: usize,
    gates: usize,
    proxies: usize,
}

impl Leaves {
    fn new([pipes, media, notices, flows, gates]: [usize; 5]) -> Self {
        let notices_at = pipes + media;
        let flows_at = notices_at + notices;
        let gates_at = flows_at + flows;
        Leaves { media: pipes, notices: notices_at, flows: flows_at, gates: gates_at, proxies: gates_at + gates }
    }

    /// Returns the number of the scenario's flows; later flows only pass from port to port.
    fn own_flows(&self) -> usize {
        self.gates - self.flows
    }
}

impl Component {
    pub(super) fn new(
        s: &Scenario,
        seed: &Seed,
        all_paths: &[FlowPath],
        plan: &ComponentPlan,
        options: &RunOptions,
    ) -> Self {
        let ComponentPlan { flows, links, gateways, proxies } = plan;
        let mut pipes = Vec::with_capacity(2 * links.len());
        let mut places = Vec::with_capacity(2 * links.len());
        let mut local = Local::new(links);
        for &l in links {
            let spec = &s.links[l];
            let Model::Pipe(config) = &spec.model else { continue };
            for (reverse, direction, to) in [(0, &config.forward, spec.between.1), (1, &config.reverse, spec.between.0)]
            {
                let mut direction = Cow::Borrowed(direction);
                if options.changes {
                    let timeline = direction.timeline.as_deref().cloned().unwrap_or_default();
                    direction.to_mut().timeline = Some(Arc::new(timeline.opened()));
                }
                let name = format!("{}.{}", spec.name, ["forward", "reverse"][reverse]);
                let hop = 2 * l as Hop + reverse as Hop;
                local.set(hop, pipes.len());
                places.push((hop, to));
                pipes.push(Pipe::new(&direction, (config.mtu, config.overhead), &name, seed));
            }
        }
        let media = Media::new(s, seed, (flows, links), &mut places, &mut local);
        let mut paths = Vec::new();
        // Flows between the same nodes share a path.
        let mut known: BTreeMap<(usize, usize), [u32; 3]> = BTreeMap::new();
        let mut built = Vec::with_capacity(flows.len());
        for &global in flows {
            let spec = &s.flows[global];
            let index = built.len() as u32;
            let path = *known
                .entry((spec.from, spec.to))
                .or_insert_with(|| append(&mut paths, &all_paths[global], |hop| local.place(hop)));
            let stays = options.inside.contains(&global);
            let ends = [spec.from, spec.to].map(|node| !stays && options.ports.contains(&node));
            built.push(NetworkFlow::new(spec, (index, global), path, ends, s.duration, seed));
        }
        if pipes.iter().any(Pipe::has_discipline) {
            let keys: Arc<[u64]> = flows.iter().map(|&f| seed.stream(&s.flows[f].name, "queue").bits()).collect();
            pipes.iter_mut().for_each(|pipe| pipe.identify(&keys));
        }
        let notified = links.iter().filter(|&&l| !s.links[l].notices.is_empty());
        let mut notices: Vec<PendingNotices> = notified
            .map(|&l| PendingNotices { place: local.place(2 * l as Hop), events: s.links[l].notices.iter().peekable() })
            .collect();
        let gates = gates::gates(s, gateways, &local, &media, pipes.len());
        let proxies = splits::proxies(s, seed, proxies, &local, &built);
        let leaves = Leaves::new([pipes.len(), media.len(), notices.len(), built.len(), gates.len()]);
        let mut calendar = Calendar::new(leaves.proxies + proxies.len());
        for (i, f) in built.iter().enumerate() {
            calendar.set(leaves.flows + i, f.start());
        }
        for (i, pipe) in pipes.iter().enumerate().filter(|(_, p)| p.has_timeline()) {
            calendar.set(i, pipe.next_wake());
        }
        for (i, link) in notices.iter_mut().enumerate() {
            calendar.set(leaves.notices + i, link.next());
        }
        let neighbors = Neighbors::new(&built, &paths, places.len());
        let observed = |node: usize| gates.iter().any(|g| g.node == node) || proxies.iter().any(|p| p.node == node);
        let cascade = neighbors.cascades(&pipes, |place| observed(places[place].1));
        let mut component = Component {
            pipes,
            media,
            gated: !gates.is_empty() || !proxies.is_empty(),
            gates,
            proxies,
            places,
            leaves,
            flows: built,
            paths,
            calendar,
            sides: Sides::default(),
            onward: neighbors.next,
            cascade,
            notices,
            ports: None,
            end: s.duration,
            events: 0,
            budget: Budget::new(options),
        };
        if !options.ports.is_empty() {
            component.open(s, options);
        }
        component
    }

    /// Returns the time of the next event; [`Time::MAX`] = not before the scenario's end.
    pub(super) fn next_wake(&self) -> Time {
        let next = self.calendar.next().0;
        if next > self.end || next == calendar::NEVER { Time::MAX } else { next }
    }

    /// Processes every event due by `until` or the scenario's end. Returns true if the observer ended the run.
    pub(super) fn run<O: Observer>(&mut self, until: Time, budget: &mut Budget, observer: &mut O) -> bool {
        std::mem::swap(&mut self.budget, budget);
        if O::ACTIVE {
            self.run_within(until, observer);
        } else {
            self.run_unobserved(until);
        }
        std::mem::swap(&mut self.budget, budget);
        O::ACTIVE && observer.stop()
    }

    /// Runs without an observer. This function is not generic, so it is compiled in this crate, together with all that
    /// it calls.
    fn run_unobserved(&mut self, until: Time) {
        self.run_within(until, &mut NoObserver);
    }

    fn run_within<O: Observer>(&mut self, until: Time, observer: &mut O) {
        let until = until.min(self.end).min(calendar::NEVER - Time::from_nanos(1));
        if O::ACTIVE || until < self.end {
            self.cascade = Vec::new(); // schedule every arrival: one may be observed or lie beyond `until`
        }
        loop {
            let (now, leaf) = self.calendar.next();
            if now > until || (O::ACTIVE && observer.stop()) {
                return;
            }
            if self.budget.step() && self.exceeds(now) {
                return;
            }
            if leaf < self.leaves.media {
                self.arrive(now, leaf, observer);
            } else if leaf >= self.leaves.flows && leaf < self.leaves.gates {
                self.events += 1;
                self.wake(now, leaf - self.leaves.flows, observer);
            } else if leaf < self.leaves.notices {
                self.wake_medium(now, leaf - self.leaves.media, observer);
            } else if leaf < self.leaves.flows {
                self.notify(now, leaf - self.leaves.notices, observer);
            } else if leaf < self.leaves.proxies {
                self.wake_gate(now, leaf - self.leaves.gates, observer);
            } else {
                self.wake_proxy(now, leaf - self.leaves.proxies, observer);
            }
        }
    }

    #[cold]
    fn exceeds(&mut self, now: Time) -> bool {
        let sum = self.budget.needs_sum().then(|| self.memory());
        self.budget.check(sum, (now, self.end))
    }

    /// Returns the bytes that grow during a run, and the number of elements that have them.
    fn memory(&self) -> (usize, usize) {
        let outside = self.sides.outside_bytes() + self.ports.as_ref().map_or(0, |ports| ports.bytes());
        let links = self.pipes.iter().map(Pipe::bytes).sum::<usize>() + self.media.bytes() + outside;
        let proxies = self.proxies.iter().map(PlacedProxy::bytes).sum::<usize>();
        let bytes = links + proxies + self.flows.iter().map(NetworkFlow::bytes).sum::<usize>();
        (bytes, self.places.len() + self.flows.len() + self.media.in_transit().count() / 16)
    }

    fn notify<O: Observer>(&mut self, now: Time, link: usize, observer: &mut O) {
        let notified = &mut self.notices[link];
        let Some((_, event)) = notified.events.next() else { return };
        let (next, place) = (notified.next(), notified.place);
        self.calendar.set(self.leaves.notices + link, next);
        self.notify_hosts(now, place, &event, observer);
    }

    /// Notifies the hosts and gateways of the link whose first place is `link`.
    fn notify_hosts<O: Observer>(&mut self, now: Time, link: u32, event: &LinkEvent, observer: &mut O) {
        for index in 0..self.leaves.own_flows() {
            let flow = &mut self.flows[index];
            let mut path = self.paths[flow.path[0] as usize..flow.path[2] as usize].iter();
            if !path.any(|&place| place & !1 == link) {
                continue;
            }
            flow.application_mut().on_link(now, event);
            for end in [0, 1] {
                self.pump(now, index, end, observer);
                self.reschedule(now, index, end);
            }
        }
        for g in 0..self.gates.len() {
            if self.gates[g].link == link {
                self.gates[g].gateway.on_link(now, event);
                self.originate(now, g, observer);
            }
        }
    }

    /// Returns true if packets pass both directions of a link, or if the link is outside this component.
    pub(super) fn is_up(&self, link: usize) -> bool {
        let first = self.places.iter().position(|(hop, _)| *hop as usize == 2 * link);
        let pair = first.and_then(|first| self.pipes.get(first..first + 2));
        pair.is_none_or(|pair| pair.iter().all(Pipe::is_up))
    }

    /// Changes a link from outside and notifies hosts and gateways. Returns true if the link is in this component.
    pub(super) fn change<O: Observer>(
        &mut self,
        now: Time,
        link: usize,
        directions: [bool; 2],
        change: &LinkChange,
        observer: &mut O,
    ) -> bool {
        let Some(first) = self.places.iter().position(|(hop, _)| *hop as usize == 2 * link) else { return false };
        let Some(pair) = self.pipes.get_mut(first..first + 2) else { return false };
        let up = |pair: &[Pipe]| pair.iter().all(Pipe::is_up);
        let was_up = up(pair);
        let step =
            Step { up: change.up, rate: change.rate, delay: change.delay, signal: change.signal, ..Step::default() };
        let mut events = Vec::new();
        for (pipe, _) in pair.iter_mut().zip(directions).filter(|(_, d)| *d) {
            let (before, after) = pipe.change(now, step, change.noise.clone());
            // As with timelines, hosts are notified of the forward direction, or of the only one that changes.
            if events.is_empty() {
                events.extend((before.rate != after.rate).then_some(LinkEvent::Rate(after.rate)));
                events.extend((before.delay != after.delay).then_some(LinkEvent::Delay(after.delay)));
                events.extend(after.signal.filter(|s| before.signal != Some(*s)).map(LinkEvent::Signal));
            }
        }
        match (was_up, up(pair)) {
            (true, false) => events.push(LinkEvent::Down),
            (false, true) => events.extend([LinkEvent::Up, LinkEvent::Configured]),
            _ => {}
        }
        for leaf in [first, first + 1] {
            let pipe = &mut self.pipes[leaf];
            self.calendar.set(leaf, pipe.next_wake());
            if O::ACTIVE {
                let (hop, state) = (self.places[leaf].0, LinkState::new(pipe, now));
                observer.observe(now, NetworkEvent::Link { hop, state });
            }
        }
        for event in events {
            self.notify_hosts(now, first as u32, &event, observer);
        }
        true
    }

    #[inline]
    fn arrive<O: Observer>(&mut self, now: Time, leaf: usize, observer: &mut O) {
        let (pipe, sides) = (&mut self.pipes[leaf], &mut self.sides);
        let mut p = BLANK;
        let crossing = pipe.transmit_into(now, &mut p, &mut |dropped| sides.free(&dropped));
        self.calendar.set(leaf, pipe.next_wake());
        if O::ACTIVE {
            let (hop, state) = (self.places[leaf].0, LinkState::new(pipe, now));
            observer.observe(now, NetworkEvent::Link { hop, state });
        }
        let Some(lost) = crossing else { return };
        // Do not count a change of the link, so that the number does not depend on whether a flow uses the link.
        self.events += 1;
        if lost {
            self.sides.free(&p);
            return;
        }
        self.forward(now, leaf, &p, observer);
    }

    /// Sends a packet from `place` to the next place, or delivers it to its host.
    #[inline(always)]
    fn forward<O: Observer>(&mut self, now: Time, place: usize, p: &Packet, observer: &mut O) {
        let next = match self.onward[place] {
            VARIES => self.next_of(place, p),
            next => next,
        };
        if self.gated {
            self.forward_gated(now, place, Some(next).filter(|&next| next != HOST), *p, observer);
        } else if next != HOST {
            self.send(now, next as usize, p, observer);
        } else {
            self.deliver(now, place, p, observer);
        }
    }

    /// Returns the place after `place` on the path of a packet, or [`HOST`].
    fn next_of(&self, place: usize, p: &Packet) -> u32 {
        let flow = &self.flows[p.flow.index()];
        let r = usize::from(p.flow.reverse());
        let path = &self.paths[flow.path[r] as usize..flow.path[r + 1] as usize];
        let here = path.iter().position(|&hop| hop as usize == place);
        here.and_then(|i| path.get(i + 1)).copied().unwrap_or(HOST)
    }

    #[inline(always)]
    fn send<O: Observer>(&mut self, now: Time, leaf: usize, p: &Packet, observer: &mut O) {
        if let Some(&next) = self.cascade.get(leaf)
            && next != u32::MAX
        {
            self.send_through(now, leaf, next as usize, p, observer);
            return;
        }
        let Some(pipe) = self.pipes.get_mut(leaf) else {
            self.send_shared(now, leaf, *p, observer);
            return;
        };
        let sides = &mut self.sides;
        if pipe.receive(now, *p, &mut |dropped| sides.free(&dropped)) {
            self.calendar.set(leaf, pipe.next_wake());
        }
        if O::ACTIVE {
            let (hop, drops) = (self.places[leaf].0, pipe.stats.dropped);
            observer.observe(now, NetworkEvent::Queue { hop, waiting: pipe.waiting(now), drops });
        }
    }

    /// Sends a packet through a pipe and at once into the next, which has no other feeder: equivalent to two events.
    #[inline(always)]
    fn send_through<O: Observer>(&mut self, now: Time, leaf: usize, next: usize, p: &Packet, observer: &mut O) {
        let pipe = &mut self.pipes[leaf];
        if p.size > pipe.mtu() || self.cascade[next] != u32::MAX {
            return self.send_in_parts(now, leaf, p, observer);
        }
        let sides = &mut self.sides;
        let Some(arrival) = pipe.pass(now, p.size).filter(|t| *t <= self.end) else {
            sides.free(p); // queue full, or arrival after the end
            return;
        };
        self.events += 1;
        let next_pipe = &mut self.pipes[next];
        if next_pipe.receive(arrival, *p, &mut |dropped| sides.free(&dropped)) {
            self.calendar.set(next, next_pipe.next_wake());
        }
    }

    /// Like [`Component::send_through`], for packets that need fragmentation and chains of three or more pipes. Carries
    /// each fragment to the end of the chain before the next one leaves. A loop, since the chain may be long.
    #[cold]
    fn send_in_parts<O: Observer>(&mut self, now: Time, leaf: usize, p: &Packet, observer: &mut O) {
        // Time, pipe and fragments not yet sent of each packet that was divided.
        let mut divided: Vec<(Time, usize, Fragments)> = Vec::new();
        let (mut now, mut leaf, mut p) = (now, leaf, *p);
        let mut fits = false;
        loop {
            let mtu = self.pipes[leaf].mtu();
            if p.size > mtu && !fits {
                divided.push((now, leaf, Fragments::new(p, mtu)));
            } else if let Some(arrival) = self.pipes[leaf].pass(now, p.size).filter(|t| *t <= self.end) {
                self.events += 1;
                (now, leaf, fits) = (arrival, self.cascade[leaf] as usize, false);
                if self.cascade[leaf] != u32::MAX {
                    continue;
                }
                self.send(now, leaf, &p, observer);
            } else {
                self.sides.free(&p);
            }
            let Some(fragment) = next_fragment(&mut divided) else { return };
            (now, leaf, p) = fragment;
            fits = true;
        }
    }

    #[inline(always)]
    fn deliver<O: Observer>(&mut self, now: Time, leaf: usize, p: &Packet, observer: &mut O) {
        let index = p.flow.index();
        if O::ACTIVE && !self.concerns_port(p) {
            let (hop, node) = self.places[leaf];
            let at = Crossing { node, hop, direction: InterfaceDirection::In, flow: self.flows[index].global };
            observer.observe(now, NetworkEvent::Packet { at, packet: p, sides: &self.sides });
        }
        let changed;
        let mut p = p;
        if p.fragment() != Fragment::Whole || self.ports.is_some() {
            match self.deliver_whole(now, leaf, *p, observer) {
                Some(packet) => changed = packet,
                None => return,
            }
            p = &changed;
        }
        let end = usize::from(!p.flow.reverse());
        let pump = self.flows[index].receive(now, end, p, &self.sides);
        self.sides.free(p);
        if O::ACTIVE && end == 0 {
            self.report(now, index, observer);
        }
        if pump {
            self.pump(now, index, end, observer);
        }
        self.reschedule(now, index, end);
    }

    /// Reassembles fragments and passes on packets for ports. Returns a whole packet for a host in the network.
    #[cold]
    fn deliver_whole<O: Observer>(&mut self, now: Time, leaf: usize, p: Packet, observer: &mut O) -> Option<Packet> {
        let mut p = p;
        if p.fragment() != Fragment::Whole {
            let flow = &mut self.flows[p.flow.index()];
            let sides = &mut self.sides;
            let reassembly = flow.reassembly[usize::from(p.flow.reverse())].get_or_insert_default();
            p = reassembly.receive(now, p, &mut |dropped| sides.free(&dropped))?;
        }
        if self.ports.is_some() { self.deliver_open(now, leaf, p, observer) } else { Some(p) }
    }

    /// Sends what an end has to send.
    #[inline(never)]
    fn pump<O: Observer>(&mut self, now: Time, index: usize, end: usize, observer: &mut O) {
        // An observer reads the sender's state at each packet.
        let most = if O::ACTIVE { 1 } else { u32::MAX };
        let mut p = BLANK;
        loop {
            let TransmittedRun { packets: mut left, is_last } =
                self.flows[index].transmit(now, end, &mut self.sides, most, &mut p);
            while left > 0 {
                if !self.send_out(now, index, end, &p, observer) {
                    return;
                }
                left -= 1;
                if left > 0 {
                    p.seq = p.seq.wrapping_add(p.payload());
                    p.ident = p.ident.wrapping_add(1);
                }
            }
            if is_last {
                return;
            }
        }
    }

    /// Sends a packet of an end. Returns false if a limit is exceeded.
    #[inline(always)]
    fn send_out<O: Observer>(&mut self, now: Time, index: usize, end: usize, p: &Packet, observer: &mut O) -> bool {
        if self.budget.step() && self.exceeds(now) {
            self.sides.free(p);
            return false;
        }
        let flow = &self.flows[index];
        let leaf = self.paths[flow.path[end] as usize] as usize;
        if O::ACTIVE {
            if let Some(written) = flow.application().messages() {
                observer.observe(now, NetworkEvent::Messages { flow: flow.global, written });
            }
            let at = Crossing {
                node: flow.nodes[end],
                hop: self.places[leaf].0,
                direction: InterfaceDirection::Out,
                flow: flow.global,
            };
            observer.observe(now, NetworkEvent::Packet { at, packet: p, sides: &self.sides });
            if end == 0 {
                self.report(now, index, observer);
            }
        }
        if !self.gated {
            self.send(now, leaf, p, observer);
        } else {
            self.send_gated(now, (index, end), leaf, *p, observer);
        }
        true
    }

    fn wake<O: Observer>(&mut self, now: Time, index: usize, observer: &mut O) {
        let leaf = self.leaves.flows + index;
        self.calendar.set(leaf, Time::MAX);
        for end in [0, 1] {
            match self.flows[index].wake(now, end) {
                Some(next) => self.bring_forward(index, next),
                None => {
                    if O::ACTIVE && end == 0 {
                        self.report(now, index, observer);
                    }
                    self.pump(now, index, end, observer);
                    self.reschedule(now, index, end);
                }
            }
        }
    }

    /// Moves a flow's leaf to an earlier time if the end that just acted needs it.
    #[inline(always)]
    fn reschedule(&mut self, now: Time, index: usize, end: usize) {
        self.bring_forward(index, self.flows[index].next_wake(now, end));
    }

    #[inline(always)]
    fn bring_forward(&mut self, index: usize, next: Time) {
        let leaf = self.leaves.flows + index;
        if next < self.calendar.time(leaf) {
            self.calendar.set(leaf, next);
        }
    }

    fn report<O: Observer>(&mut self, now: Time, index: usize, observer: &mut O) {
        let flow = &self.flows[index];
        if let Some((sender, delivered)) = flow.application().sender() {
            observer.observe(now, NetworkEvent::Sender { flow: flow.global, sender, delivered });
        }
    }

    /// Reports the remaining side slots to the observer.
    pub(super) fn report_end<O: Observer>(&self, now: Time, observer: &mut O) {
        let on_links = self.pipes.iter().flat_map(Pipe::in_transit);
        let partial = self.flows.iter().flat_map(|f| f.reassembly.iter().flatten()).flat_map(|r| r.heads());
        let partial = partial.chain(self.proxies.iter().flat_map(PlacedProxy::heads));
        let held = on_links.chain(self.media.in_transit()).chain(partial).filter(|p| p.side() != NO_SIDE).count();
        observer.observe(now, NetworkEvent::End { slots: self.sides.in_use(), held });
    }

    /// Returns the results until `now`.
    pub(super) fn reports(&self, now: Time) -> ComponentReports {
        let own = self.flows[..self.leaves.own_flows()].iter();
        ComponentReports { flows: own.map(|f| f.numbered_report(now)).collect(), ..self.reports_without_flows(now) }
    }

    /// Returns the results until `now`. Each flow is freed after its report, so that not all flows and all reports are
    /// in memory at once.
    pub(super) fn finish(mut self, now: Time) -> ComponentReports {
        let others = self.reports_without_flows(now);
        let own = self.leaves.own_flows();
        ComponentReports { flows: self.flows.drain(..own).map(|f| f.numbered_report(now)).collect(), ..others }
    }

    fn reports_without_flows(&self, now: Time) -> ComponentReports {
        let gateway = |g: &PlacedGateway| (g.global, (g.stats(now, &self.media, &self.flows), g.ended(&self.flows)));
        let stats = self.pipes.iter().map(|p| p.stats_at(now)).chain(self.media.stats());
        ComponentReports {
            flows: Vec::new(),
            links: self.places.iter().zip(stats).map(|((hop, _), stats)| (*hop, stats.into())).collect(),
            gateways: self.gates.iter().map(gateway).collect(),
            events: self.events,
        }
    }
}

/// Place for a packet that is about to be written: copies of packets take time.
static BLANK: Packet = Packet::tcp(FlowId::new(0, false));
/// Takes the next fragment of the packet that was divided last, with the time and the pipe at which it leaves.
fn next_fragment(divided: &mut Vec<(Time, usize, Fragments)>) -> Option<(Time, usize, Packet)> {
    while let Some((now, leaf, fragments)) = divided.last_mut() {
        if let Some(fragment) = fragments.next() {
            return Some((*now, *leaf, fragment));
        }
        divided.pop();
    }
    None
}
