//! One component at work: its links, its flows, its calendar.

use super::calendar::Calendar;
use super::reassembly::Reassembly;
use super::routing::Hop;
use super::{Crossing, Observer, Way};
use crate::app::Traffic;
use crate::link::pipe::Pipe;
use crate::metrics::{FlowOutcome, LinkOutcome};
use crate::packet::{FlowId, Fragment, NO_SIDE, Packet, Protocol, Sides};
use crate::rng::Seed;
use crate::scenario::Scenario;
use crate::tcp::Endpoint;
use crate::units::{Serializer, Time};
use std::sync::Arc;

/// A component under way. Flow and link numbers are local; `global` has the scenario's.
pub(super) struct Component<'a, O> {
    pipes: Vec<Pipe>,
    /// Global hop of each pipe, and the node at its far end.
    hops: Vec<(Hop, usize)>,
    flows: Vec<Flow>,
    /// Local pipes of all paths, one after the other; flows hold ranges.
    paths: Vec<u32>,
    calendar: Calendar,
    sides: Sides,
    observer: &'a mut O,
    /// The pipe that all packets of a pipe go on to, if it has no other feeder and loses none: such a pair needs no event
    /// between. Empty while someone watches.
    cascade: Vec<u32>,
    end: Time,
    events: u64,
}

struct Flow {
    global: usize,
    kind: Kind,
    start: Time,
    /// Where its two paths begin in `paths`: forward, reverse; and their end.
    path: [u32; 3],
    nodes: [usize; 2],
    reassembly: [Option<Box<Reassembly>>; 2],
    started: bool,
    end: Option<Time>,
    last_delivery: Time,
}

enum Kind {
    Bulk(Box<Bulk>),
    Cbr(Cbr),
}

struct Bulk {
    source: Endpoint,
    sink: Endpoint,
    bytes: Option<u64>,
    delivered: u64,
}

struct Cbr {
    clock: Serializer,
    payload: u16,
    size: u16,
    next: Time,
    stop: Time,
    left: u64,
    sent: u32,
    delivered: u64,
    bytes: Option<u64>,
}

impl<'a, O: Observer> Component<'a, O> {
    pub(super) fn new(
        s: &Scenario,
        seed: &Seed,
        all_paths: &[[Vec<Hop>; 2]],
        flows: &[usize],
        links: &[usize],
        observer: &'a mut O,
    ) -> Self {
        let mut pipes = Vec::with_capacity(2 * links.len());
        let mut hops = Vec::with_capacity(2 * links.len());
        let mut local = vec![u32::MAX; 2 * s.links.len()];
        for &l in links {
            let spec = &s.links[l];
            for (reverse, direction, to) in
                [(0, &spec.pipe.forward, spec.between.1), (1, &spec.pipe.reverse, spec.between.0)]
            {
                let name = format!("{}.{}", spec.name, ["forward", "reverse"][reverse]);
                local[2 * l + reverse] = pipes.len() as u32;
                hops.push((2 * l as Hop + reverse as Hop, to));
                pipes.push(Pipe::new(direction, (spec.pipe.mtu, spec.pipe.overhead), &name, seed));
            }
        }
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
            let kind = match &spec.traffic {
                Traffic::Bulk { bytes } => {
                    let factory = spec.factory.as_ref().expect("a bulk flow has a congestion control");
                    let cfg = Arc::new(spec.tcp.clone());
                    let end = |reverse| Endpoint::new(FlowId::new(index, reverse), cfg.clone(), factory.clone(), 0);
                    Kind::Bulk(Box::new(Bulk { source: end(false), sink: end(true), bytes: *bytes, delivered: 0 }))
                }
                Traffic::Cbr { rate, packet, bytes, stop } => Kind::Cbr(Cbr {
                    clock: Serializer::new(*rate),
                    payload: packet - UDP_HEADERS,
                    size: *packet,
                    next: spec.start,
                    stop: stop.unwrap_or(s.duration).min(s.duration),
                    left: bytes.unwrap_or(u64::MAX),
                    sent: 0,
                    delivered: 0,
                    bytes: *bytes,
                }),
            };
            built.push(Flow {
                global,
                kind,
                start: spec.start,
                path,
                nodes: [spec.from, spec.to],
                reassembly: [None, None],
                started: false,
                end: None,
                last_delivery: spec.start,
            });
        }
        let mut calendar = Calendar::new(pipes.len() + built.len());
        for (i, f) in built.iter().enumerate() {
            calendar.set(pipes.len() + i, f.start);
        }
        let cascade = if O::ACTIVE { Vec::new() } else { cascades(&pipes, &built, &paths) };
        Component {
            pipes,
            hops,
            flows: built,
            paths,
            calendar,
            sides: Sides::default(),
            observer,
            cascade,
            end: s.duration,
            events: 0,
        }
    }

    /// Runs until the scenario's end, or until nothing is left to happen; returns the number of events.
    pub(super) fn run(&mut self) -> u64 {
        loop {
            let (now, leaf) = self.calendar.next();
            if now > self.end || now == Time::MAX || (O::ACTIVE && self.observer.stop()) {
                return self.events;
            }
            self.events += 1;
            if leaf < self.pipes.len() {
                self.arrive(now, leaf);
            } else {
                self.wake(now, leaf - self.pipes.len());
            }
        }
    }

    #[inline]
    fn arrive(&mut self, now: Time, leaf: usize) {
        let pipe = &mut self.pipes[leaf];
        let Some((p, lost)) = pipe.transmit() else { return };
        self.calendar.set(leaf, pipe.next_wake());
        if lost {
            self.sides.free(&p);
            return;
        }
        let flow = &self.flows[p.flow.index()];
        let r = usize::from(p.flow.reverse());
        let path = &self.paths[flow.path[r] as usize..flow.path[r + 1] as usize];
        let here = path.iter().position(|&hop| hop as usize == leaf);
        match here.and_then(|i| path.get(i + 1)) {
            Some(&next) => self.send(now, next as usize, p),
            None => self.deliver(now, leaf, p),
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
        let pipe = &mut self.pipes[leaf];
        let sides = &mut self.sides;
        let before = pipe.next_wake();
        pipe.receive(now, p, &mut |dropped| sides.free(&dropped));
        let after = pipe.next_wake();
        if after < before {
            self.calendar.set(leaf, after);
        }
        if O::ACTIVE {
            let drops = pipe.stats.dropped;
            self.observer.queue(now, self.hops[leaf].0, pipe.waiting(now), drops);
        }
    }

    /// Through a pipe and into the next one at once: the same as two events, since nothing else feeds the second.
    #[inline]
    fn send_through(&mut self, now: Time, leaf: usize, next: usize, p: Packet) {
        let (pipe, next_pipe) = two(&mut self.pipes, leaf, next);
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
    #[inline]
    fn deliver(&mut self, now: Time, leaf: usize, p: Packet) {
        if O::ACTIVE {
            let (hop, node) = self.hops[leaf];
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
        match &mut flow.kind {
            Kind::Bulk(b) => {
                let endpoint = if r == 0 { &mut b.sink } else { &mut b.source };
                endpoint.receive(now, &p, &self.sides);
                self.sides.free(&p);
                if r == 0 {
                    let delivered = b.sink.delivered();
                    if delivered > b.delivered {
                        b.delivered = delivered;
                        flow.last_delivery = now;
                        if b.bytes == Some(delivered) {
                            flow.end = Some(now);
                        }
                    }
                    if b.sink.peer_closed() {
                        b.sink.close();
                    }
                }
                if O::ACTIVE && r == 1 {
                    self.observer.flow(now, flow.global, &b.source, b.delivered);
                }
                if r == 1 || !b.sink.is_quiet() {
                    self.pump(now, index, r == 1);
                }
                self.reschedule(now, index, r == 1);
            }
            Kind::Cbr(c) => {
                debug_assert_eq!(p.protocol(), Protocol::Udp);
                c.delivered += u64::from(p.payload());
                flow.last_delivery = now;
                self.sides.free(&p);
            }
        }
    }

    /// Lets an endpoint send what it wants to.
    #[inline]
    fn pump(&mut self, now: Time, index: usize, source: bool) {
        loop {
            let flow = &mut self.flows[index];
            let Kind::Bulk(b) = &mut flow.kind else { return };
            let p =
                if source { b.source.transmit(now, &mut self.sides) } else { b.sink.transmit(now, &mut self.sides) };
            let Some(p) = p else { return };
            let r = usize::from(!source);
            let leaf = self.paths[flow.path[r] as usize] as usize;
            if O::ACTIVE {
                let at = Crossing { node: flow.nodes[r], hop: self.hops[leaf].0, way: Way::Out, flow: flow.global };
                self.observer.packet(now, at, &p, &self.sides);
                if source && let Kind::Bulk(b) = &self.flows[index].kind {
                    self.observer.flow(now, self.flows[index].global, &b.source, b.delivered);
                }
            }
            self.send(now, leaf, p);
        }
    }

    /// A flow's timer.
    fn wake(&mut self, now: Time, index: usize) {
        let flow = &mut self.flows[index];
        let leaf = self.pipes.len() + index;
        self.calendar.set(leaf, Time::MAX);
        match &mut flow.kind {
            Kind::Bulk(b) => {
                if !flow.started {
                    flow.started = true;
                    b.sink.listen();
                    b.source.offer(b.bytes.unwrap_or(u64::MAX), b.bytes.is_some());
                    b.source.connect();
                    self.pump(now, index, true);
                    self.reschedule(now, index, true);
                } else {
                    let just_before = Time(now.0 - 1);
                    for source in [true, false] {
                        let flow = &mut self.flows[index];
                        let Kind::Bulk(b) = &mut flow.kind else { unreachable!("a bulk flow stays one") };
                        let e = if source { &mut b.source } else { &mut b.sink };
                        if e.next_wake(just_before) <= now {
                            e.wake(now);
                            if O::ACTIVE && source {
                                self.observer.flow(now, flow.global, &b.source, b.delivered);
                            }
                            self.pump(now, index, source);
                        }
                        self.reschedule(now, index, source);
                    }
                }
            }
            Kind::Cbr(c) => {
                if now >= c.stop || c.left == 0 {
                    return;
                }
                let payload = u64::from(c.payload).min(c.left) as u16;
                c.left -= u64::from(payload);
                let mut p = Packet::udp(FlowId::new(index as u32, false), c.sent, payload, now);
                p.ident = c.sent as u16; // fragments of two datagrams must not mix
                c.sent = c.sent.wrapping_add(1);
                c.next += c.clock.time(u32::from(c.size));
                self.calendar.set(leaf, c.next);
                let first = self.paths[flow.path[0] as usize] as usize;
                if O::ACTIVE {
                    let at =
                        Crossing { node: flow.nodes[0], hop: self.hops[first].0, way: Way::Out, flow: flow.global };
                    self.observer.packet(now, at, &p, &self.sides);
                }
                self.send(now, first, p);
            }
        }
    }

    /// Brings a bulk flow's leaf forward if the endpoint that just acted must wake earlier.
    #[inline]
    fn reschedule(&mut self, now: Time, index: usize, source: bool) {
        let Kind::Bulk(b) = &self.flows[index].kind else { return };
        let e = if source { &b.source } else { &b.sink };
        let next = e.next_wake(now);
        let leaf = self.pipes.len() + index;
        if next < self.calendar.time(leaf) {
            self.calendar.set(leaf, next);
        }
    }

    /// Tells the observer what side slots are left.
    pub(super) fn report_end(&mut self) {
        let on_links = self.pipes.iter().flat_map(Pipe::in_transit);
        let partial = self.flows.iter().flat_map(|f| f.reassembly.iter().flatten()).flat_map(|r| r.heads());
        let held = on_links.chain(partial).filter(|p| p.side != NO_SIDE).count();
        self.observer.end(self.sides.in_use(), held);
    }

    /// Puts the outcomes where the scenario's flows and links have them.
    pub(super) fn collect(self, flows: &mut [Option<FlowOutcome>], links: &mut [LinkOutcome]) {
        for f in self.flows {
            let mut out =
                FlowOutcome { start: f.start, end: f.end, last_delivery: f.last_delivery, ..Default::default() };
            match f.kind {
                Kind::Bulk(b) => {
                    out.delivered = b.delivered;
                    out.sized = b.bytes.is_some();
                    out.failed = b.source.failed() || b.sink.failed();
                    if let Some(s) = b.source.sender() {
                        out.sender = s.stats.clone();
                    }
                }
                Kind::Cbr(c) => {
                    out.delivered = c.delivered;
                    out.sized = c.bytes.is_some();
                    if c.left == 0 {
                        out.end = Some(f.last_delivery);
                    }
                    out.datagrams = u64::from(c.sent);
                }
            }
            flows[f.global] = Some(out);
        }
        for (pipe, (hop, _)) in self.pipes.into_iter().zip(self.hops) {
            links[(hop / 2) as usize][(hop & 1) as usize] = pipe.stats;
        }
    }
}

/// Which pipes cascade into which: all flows that use the first go on to the second, and only they use it.
fn cascades(pipes: &[Pipe], flows: &[Flow], paths: &[u32]) -> Vec<u32> {
    const NONE: u32 = u32::MAX;
    const MANY: u32 = u32::MAX - 1;
    let note = |slot: &mut u32, value: u32| *slot = if *slot == NONE || *slot == value { value } else { MANY };
    let mut next = vec![NONE; pipes.len()];
    let mut feeder = vec![NONE; pipes.len()];
    for f in flows {
        for r in 0..2 {
            let path = &paths[f.path[r] as usize..f.path[r + 1] as usize];
            note(&mut feeder[path[0] as usize], MANY);
            note(&mut next[path[path.len() - 1] as usize], MANY);
            for pair in path.windows(2) {
                note(&mut next[pair[0] as usize], pair[1]);
                note(&mut feeder[pair[1] as usize], pair[0]);
            }
        }
    }
    (0..pipes.len())
        .map(|i| match next[i] {
            n if n < MANY && feeder[n as usize] == i as u32 && pipes[i].is_transparent() => n,
            _ => NONE,
        })
        .collect()
}

/// Two different elements at once.
#[inline]
fn two<T>(all: &mut [T], a: usize, b: usize) -> (&mut T, &mut T) {
    if a < b {
        let (left, right) = all.split_at_mut(b);
        (&mut left[a], &mut right[0])
    } else {
        let (left, right) = all.split_at_mut(a);
        (&mut right[0], &mut left[b])
    }
}

const UDP_HEADERS: u16 = 28;
