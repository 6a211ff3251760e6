//! One component at work: its links, its flows, its calendar.

use super::budget::Budget;
use super::calendar::Calendar;
use super::flow::Flow;
use super::routing::Hop;
use super::{Crossing, LinkState, Observer, Way};
use crate::cc::LinkEvent;
use crate::gateway;
use crate::link::Model;
use crate::link::pipe::Pipe;
use crate::metrics::{FlowOutcome, LinkOutcome};
use crate::packet::{Fragment, NO_SIDE, Packet, Sides};
use crate::rng::Seed;
use crate::scenario::Scenario;
use crate::units::Time;
use std::iter::Peekable;

mod gates;
mod media;

use gates::Gate;
use media::Media;

/// A component under way. Flow and link numbers are local; `global` has the scenario's.
pub(super) struct Component<'a, O> {
    pipes: Vec<Pipe>,
    media: Media,
    gates: Vec<Gate>,
    flows: Vec<Flow>,
    /// Places, the link directions of the component: first the pipes, then the ports of the media, two by two for each
    /// link. The global hop of each, and the node at its far end.
    places: Vec<(Hop, usize)>,
    /// Places of all paths, one after the other; flows hold ranges.
    paths: Vec<u32>,
    leaves: Leaves,
    calendar: Calendar,
    sides: Sides,
    observer: &'a mut O,
    /// The pipe that all packets of a pipe go on to, if it has no other feeder and loses none: such a pair needs no
    /// event between. Empty while there is an observer.
    cascade: Vec<u32>,
    /// The links about which hosts are notified.
    notices: Vec<Notified>,
    end: Time,
    events: u64,
    pub budget: Budget,
}

/// What hosts are still to be notified of about a link, whose first place is `place`.
struct Notified {
    place: u32,
    events: Peekable<Box<dyn Iterator<Item = (Time, LinkEvent)> + Send>>,
}

impl Notified {
    fn next(&mut self) -> Time {
        self.events.peek().map_or(Time::MAX, |event| event.0)
    }
}

/// Whose events the leaves of the calendar hold, by the first of each kind: pipes, media, links with notifications, flows,
/// gateways. Notifications come before flows, so that a flow that begins at an instant has those of that instant.
struct Leaves {
    media: usize,
    notices: usize,
    flows: usize,
    gates: usize,
}

impl Leaves {
    fn new([pipes, media, notices, flows]: [usize; 4]) -> Self {
        let first = pipes + media;
        Leaves { media: pipes, notices: first, flows: first + notices, gates: first + notices + flows }
    }
}

impl<'a, O: Observer> Component<'a, O> {
    pub(super) fn new(
        s: &Scenario,
        seed: &Seed,
        all_paths: &[[Vec<Hop>; 2]],
        (flows, links): (&[usize], &[usize]),
        budget: Budget,
        observer: &'a mut O,
    ) -> Self {
        let mut pipes = Vec::with_capacity(2 * links.len());
        let mut places = Vec::with_capacity(2 * links.len());
        let mut local = vec![u32::MAX; 2 * s.links.len()];
        for &l in links {
            let spec = &s.links[l];
            let Model::Pipe(config) = &spec.model else { continue };
            for (reverse, direction, to) in [(0, &config.forward, spec.between.1), (1, &config.reverse, spec.between.0)]
            {
                let name = format!("{}.{}", spec.name, ["forward", "reverse"][reverse]);
                local[2 * l + reverse] = pipes.len() as u32;
                places.push((2 * l as Hop + reverse as Hop, to));
                pipes.push(Pipe::new(direction, (config.mtu, config.overhead), &name, seed));
            }
        }
        let media = Media::new(s, seed, (flows, links), &mut places, &mut local);
        let mut paths = Vec::new();
        let mut built = Vec::with_capacity(flows.len());
        for &global in flows {
            let spec = &s.flows[global];
            let index = built.len() as u32;
            let mut path = [paths.len() as u32; 3];
            for (i, p) in all_paths[global].iter().enumerate() {
                paths.extend(p.iter().map(|&h| local[h as usize]));
                path[i + 1] = paths.len() as u32;
            }
            built.push(Flow::new(spec, (index, global), path, s.duration, seed));
        }
        let notified = links.iter().filter(|&&l| !s.links[l].notices.is_empty());
        let mut notices: Vec<Notified> =
            notified.map(|&l| Notified { place: local[2 * l], events: s.links[l].notices.iter().peekable() }).collect();
        let gates = gates::gates(s, &local, &media, pipes.len());
        let leaves = Leaves::new([pipes.len(), media.len(), notices.len(), built.len()]);
        let mut calendar = Calendar::new(leaves.gates + gates.len());
        for (i, f) in built.iter().enumerate() {
            calendar.set(leaves.flows + i, f.start());
        }
        for (i, pipe) in pipes.iter().enumerate().filter(|(_, p)| p.has_timeline()) {
            calendar.set(i, pipe.next_wake());
        }
        for (i, link) in notices.iter_mut().enumerate() {
            calendar.set(leaves.notices + i, link.next());
        }
        let cascade = if O::ACTIVE {
            Vec::new()
        } else {
            cascades(&pipes, &built, &paths, |place| gates.iter().any(|g| g.node == places[place].1))
        };
        Component {
            pipes,
            media,
            gates,
            places,
            leaves,
            flows: built,
            paths,
            calendar,
            sides: Sides::default(),
            observer,
            cascade,
            notices,
            end: s.duration,
            events: 0,
            budget,
        }
    }

    /// Runs until the scenario's end, or until nothing is left to happen; returns the number of events.
    pub(super) fn run(&mut self) -> u64 {
        loop {
            let (now, leaf) = self.calendar.next();
            if now > self.end || now == Time::MAX || (O::ACTIVE && self.observer.stop()) {
                return self.events;
            }
            if self.budget.step() && self.exceeds(now) {
                return self.events;
            }
            if leaf < self.leaves.media {
                self.arrive(now, leaf);
            } else if leaf >= self.leaves.flows && leaf < self.leaves.gates {
                self.events += 1;
                self.wake(now, leaf - self.leaves.flows);
            } else if leaf < self.leaves.notices {
                self.wake_medium(now, leaf - self.leaves.media);
            } else if leaf < self.leaves.flows {
                self.notify(now, leaf - self.leaves.notices);
            } else {
                self.wake_gate(now, leaf - self.leaves.gates);
            }
        }
    }

    /// Whether the run exceeds its limits.
    #[cold]
    fn exceeds(&mut self, now: Time) -> bool {
        let links = self.pipes.iter().map(Pipe::bytes).sum::<usize>() + self.media.bytes();
        let bytes = links + self.flows.iter().map(Flow::bytes).sum::<usize>();
        let elements = self.places.len() + self.flows.len() + self.media.in_transit().count() / 16;
        self.budget.check(bytes as u64, elements as u64, (now, self.end))
    }

    /// Hosts are notified of what happened to a link that their flow uses.
    fn notify(&mut self, now: Time, link: usize) {
        let (leaf, link) = (self.leaves.notices + link, &mut self.notices[link]);
        let Some((_, event)) = link.events.next() else { return };
        self.calendar.set(leaf, link.next());
        let link = link.place;
        for index in 0..self.flows.len() {
            let flow = &mut self.flows[index];
            let mut path = self.paths[flow.path[0] as usize..flow.path[2] as usize].iter();
            if !path.any(|&place| place & !1 == link) {
                continue;
            }
            flow.on_link(now, &event);
            for end in [0, 1] {
                self.pump(now, index, end);
                self.reschedule(now, index, end);
            }
        }
        for g in 0..self.gates.len() {
            if self.gates[g].link == link {
                self.gates[g].gateway.on_link(now, &event);
                self.originate(now, g);
            }
        }
    }

    #[inline]
    fn arrive(&mut self, now: Time, leaf: usize) {
        let pipe = &mut self.pipes[leaf];
        let crossing = pipe.transmit(now);
        self.calendar.set(leaf, pipe.next_wake());
        if O::ACTIVE {
            self.observer.link(now, self.places[leaf].0, &mut || LinkState {
                up: pipe.is_up(),
                waiting: pipe.waiting(now),
                drops: pipe.stats.dropped,
            });
        }
        let Some((p, lost)) = crossing else { return };
        // A change of the link does not count, so that the number does not depend on whether a flow uses the link.
        self.events += 1;
        if lost {
            self.sides.free(&p);
            return;
        }
        self.forward(now, leaf, p);
    }

    /// A packet came out of `place` and goes on, or has reached its host.
    #[inline(always)]
    fn forward(&mut self, now: Time, place: usize, p: Packet) {
        let flow = &self.flows[p.flow.index()];
        let r = usize::from(p.flow.reverse());
        let path = &self.paths[flow.path[r] as usize..flow.path[r + 1] as usize];
        let here = path.iter().position(|&hop| hop as usize == place);
        let next = here.and_then(|i| path.get(i + 1)).copied();
        if !self.gates.is_empty() {
            self.forward_gated(now, place, next, p);
        } else if let Some(next) = next {
            self.send(now, next as usize, p);
        } else {
            self.deliver(now, place, p);
        }
    }

    #[inline]
    fn send(&mut self, now: Time, leaf: usize, p: Packet) {
        if let Some(&next) = self.cascade.get(leaf)
            && next != u32::MAX
        {
            self.send_through(now, leaf, next as usize, p);
            return;
        }
        let Some(pipe) = self.pipes.get_mut(leaf) else {
            self.send_shared(now, leaf, p);
            return;
        };
        let sides = &mut self.sides;
        let before = pipe.next_wake();
        pipe.receive(now, p, &mut |dropped| sides.free(&dropped));
        let after = pipe.next_wake();
        if after < before {
            self.calendar.set(leaf, after);
        }
        if O::ACTIVE {
            let drops = pipe.stats.dropped;
            self.observer.queue(now, self.places[leaf].0, pipe.waiting(now), drops);
        }
    }

    /// Through a pipe and into the next one at once: the same as two events, since nothing else feeds the second.
    #[inline]
    fn send_through(&mut self, now: Time, leaf: usize, next: usize, p: Packet) {
        let [pipe, next_pipe] = self.pipes.get_disjoint_mut([leaf, next]).expect("no pipe feeds itself");
        let further = self.cascade[next] != u32::MAX;
        let (sides, events, end) = (&mut self.sides, &mut self.events, self.end);
        if further {
            // A chain of three or more is rare: keep what passed and go on from there.
            let mut passed = Vec::new();
            pipe.pass(now, p, |f, arrival| match arrival.filter(|t| *t <= end) {
                Some(t) => passed.push((t, f)),
                None => sides.free(&f),
            });
            for (t, f) in passed {
                self.events += 1;
                self.send(t, next, f);
            }
            return;
        }
        let before = next_pipe.next_wake();
        pipe.pass(now, p, |f, arrival| match arrival.filter(|t| *t <= end) {
            Some(t) => {
                *events += 1;
                next_pipe.receive(t, f, &mut |dropped| sides.free(&dropped));
            }
            None => sides.free(&f), // no room, or not before the end
        });
        let after = next_pipe.next_wake();
        if after < before {
            self.calendar.set(next, after);
        }
    }

    /// A packet reaches the host it is for.
    #[inline(always)]
    fn deliver(&mut self, now: Time, leaf: usize, p: Packet) {
        if O::ACTIVE {
            let (hop, node) = self.places[leaf];
            let at = Crossing { node, hop, way: Way::In, flow: self.flows[p.flow.index()].global };
            self.observer.packet(now, at, &p, &self.sides);
        }
        let index = p.flow.index();
        let flow = &mut self.flows[index];
        let r = usize::from(p.flow.reverse());
        let p = if p.fragment() == Fragment::Whole {
            p
        } else {
            let sides = &mut self.sides;
            let reassembly = flow.reassembly[r].get_or_insert_default();
            match reassembly.receive(now, p, &mut |dropped| sides.free(&dropped)) {
                Some(whole) => whole,
                None => return,
            }
        };
        let end = 1 - r;
        let pump = flow.receive(now, end, &p, &self.sides);
        self.sides.free(&p);
        if O::ACTIVE && end == 0 {
            self.report(now, index);
        }
        if pump {
            self.pump(now, index, end);
        }
        self.reschedule(now, index, end);
    }

    /// Sends what an end has to send.
    #[inline(never)]
    fn pump(&mut self, now: Time, index: usize, end: usize) {
        loop {
            let flow = &mut self.flows[index];
            let Some(p) = flow.transmit(now, end, &mut self.sides) else { return };
            if self.budget.step() && self.exceeds(now) {
                return;
            }
            let flow = &mut self.flows[index];
            let leaf = self.paths[flow.path[end] as usize] as usize;
            if O::ACTIVE {
                if let Some(session) = flow.session() {
                    self.observer.session(now, flow.global, session);
                }
                let at = Crossing { node: flow.nodes[end], hop: self.places[leaf].0, way: Way::Out, flow: flow.global };
                self.observer.packet(now, at, &p, &self.sides);
                if end == 0 {
                    self.report(now, index);
                }
            }
            if self.gates.is_empty() {
                self.send(now, leaf, p);
            } else {
                self.send_gated(now, (index, end), leaf, p);
            }
        }
    }

    /// A flow's timer.
    fn wake(&mut self, now: Time, index: usize) {
        let leaf = self.leaves.flows + index;
        self.calendar.set(leaf, Time::MAX);
        for end in [0, 1] {
            if self.flows[index].wake(now, end) {
                if O::ACTIVE && end == 0 {
                    self.report(now, index);
                }
                self.pump(now, index, end);
            }
            self.reschedule(now, index, end);
        }
    }

    /// Brings a flow's leaf forward if the end that just acted must wake earlier.
    #[inline]
    fn reschedule(&mut self, now: Time, index: usize, end: usize) {
        let next = self.flows[index].next_wake(now, end);
        let leaf = self.leaves.flows + index;
        if next < self.calendar.time(leaf) {
            self.calendar.set(leaf, next);
        }
    }

    /// Reports the sending end of a flow to the observer.
    fn report(&mut self, now: Time, index: usize) {
        let flow = &self.flows[index];
        if let Some((sender, delivered)) = flow.sender() {
            self.observer.flow(now, flow.global, sender, delivered);
        }
    }

    /// Reports the remaining side slots to the observer.
    pub(super) fn report_end(&mut self) {
        let on_links = self.pipes.iter().flat_map(Pipe::in_transit);
        let partial = self.flows.iter().flat_map(|f| f.reassembly.iter().flatten()).flat_map(|r| r.heads());
        let held = on_links.chain(self.media.in_transit()).chain(partial).filter(|p| p.side != NO_SIDE).count();
        self.observer.end(self.sides.in_use(), held);
    }

    /// Puts the outcomes where the scenario's flows and links have them.
    pub(super) fn collect(
        self,
        flows: &mut [Option<FlowOutcome>],
        links: &mut [LinkOutcome],
        gateways: &mut [Option<gateway::Stats>],
    ) {
        for g in &self.gates {
            gateways[g.global] = Some(g.stats(self.end, &self.media, &self.flows));
        }
        for f in &self.flows {
            flows[f.global] = Some(f.outcome(self.end));
        }
        let stats = self.pipes.into_iter().map(|p| p.stop(self.end)).chain(self.media.stats());
        for (stats, (hop, _)) in stats.zip(self.places) {
            links[(hop / 2) as usize][(hop & 1) as usize] = stats;
        }
    }
}

/// Which pipes cascade into which: all flows that use the first go on to the second, and only they use it. `gated` marks
/// places at whose far end a gateway observes what passes.
fn cascades(pipes: &[Pipe], flows: &[Flow], paths: &[u32], gated: impl Fn(usize) -> bool) -> Vec<u32> {
    const NONE: u32 = u32::MAX;
    const MANY: u32 = u32::MAX - 1;
    let note = |slot: &mut u32, value: u32| *slot = if *slot == NONE || *slot == value { value } else { MANY };
    let mut next = vec![NONE; pipes.len()];
    let mut feeder = vec![NONE; pipes.len()];
    for f in flows {
        for r in 0..2 {
            let path = &paths[f.path[r] as usize..f.path[r + 1] as usize];
            let step =
                |from: Option<&u32>, to: Option<&u32>| (from.copied().unwrap_or(MANY), to.copied().unwrap_or(MANY));
            let first = step(None, path.first());
            let last = step(path.last(), None);
            for (from, to) in path.windows(2).map(|p| (p[0], p[1])).chain([first, last]) {
                if let Some(slot) = next.get_mut(from as usize) {
                    note(slot, to);
                }
                if let Some(slot) = feeder.get_mut(to as usize) {
                    note(slot, from);
                }
            }
        }
    }
    (0..pipes.len())
        .map(|i| match next[i] {
            n if (n as usize) < pipes.len()
                && feeder[n as usize] == i as u32
                && pipes[i].is_transparent()
                && !pipes[n as usize].has_timeline()
                && !gated(i) =>
            {
                n
            }
            _ => NONE,
        })
        .collect()
}
