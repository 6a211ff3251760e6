//! Two transport endpoints and the path between them, for tests: a delay, random impairments, and outages.

use crate::cc::LinkEvent;
use crate::packet::{Packet, SideContent, Sides};
use crate::rng::{RandomStream, threshold};
use crate::units::Time;
use std::collections::BTreeMap;

pub(crate) trait Peer {
    fn receive(&mut self, now: Time, p: &Packet, sides: &Sides);
    fn transmit(&mut self, now: Time, sides: &mut Sides) -> Option<Packet>;
    fn wake(&mut self, now: Time);
    fn next_wake(&self, now: Time) -> Time;
    fn on_link(&mut self, now: Time, event: &LinkEvent);
}

/// Impairments of a channel, the same both ways.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Impairments {
    pub loss: f64,
    pub repeat: f64,
    pub jitter: Time,
}

/// Decides from time, sender and packet whether a packet is lost.
type LossDecision = dyn FnMut(Time, usize, &Packet) -> bool;

/// Returns the additional delay of a packet from time, sender and packet.
type QueueingDelay = dyn FnMut(Time, usize, &Packet) -> Time;

pub(crate) struct EndpointPair<P> {
    pub ends: [P; 2],
    pub now: Time,
    pub sides: Sides,
    pub delay: Time,
    pub impairments: Impairments,
    /// State of the link; nothing arrives while this is false.
    pub up: bool,
    /// Decides which packets are lost, in addition to the lists below.
    pub lose: Box<LossDecision>,
    /// Delays packets that are not lost, as a queue does.
    pub wait: Box<QueueingDelay>,
    /// Numbers of data packets to lose. Data packets of both ends are counted together, from zero, in order of sending.
    pub lost: Vec<usize>,
    /// Numbers of data packets to mark with CE if they are ECN-capable.
    pub marked: Vec<usize>,
    /// Packets sent: time, sending end, packet.
    pub sent: Vec<(Time, usize, Packet)>,
    data: usize,
    air: BTreeMap<(Time, usize), (usize, Packet)>,
    stream: RandomStream,
}

impl<P: Peer> EndpointPair<P> {
    pub(crate) fn new(ends: [P; 2], delay: Time, stream: RandomStream) -> Self {
        EndpointPair {
            ends,
            now: Time::ZERO,
            sides: Sides::default(),
            delay,
            impairments: Impairments::default(),
            up: true,
            lose: Box::new(|_, _, _| false),
            wait: Box::new(|_, _, _| Time::ZERO),
            lost: Vec::new(),
            marked: Vec::new(),
            sent: Vec::new(),
            data: 0,
            air: BTreeMap::new(),
            stream,
        }
    }

    pub(crate) fn next(&self, now: Time) -> Time {
        let arrival = self.air.first_key_value().map_or(Time::MAX, |(k, _)| k.0);
        self.ends.iter().map(|e| e.next_wake(now)).fold(arrival, Time::min)
    }

    /// Processes arrivals and timers due at `now`, then sends everything that the endpoints have ready.
    pub(crate) fn step(&mut self, now: Time) {
        self.now = now;
        while self.air.first_key_value().is_some_and(|(k, _)| k.0 <= now) {
            self.arrive();
        }
        for i in 0..2 {
            if self.ends[i].next_wake(Time(now.0.saturating_sub(1))) <= now {
                self.ends[i].wake(now);
            }
            self.pump(i);
        }
    }

    pub(crate) fn run(&mut self, mut now: Time, until: Time) {
        for _ in 0..5_000_000 {
            self.step(now);
            let next = self.next(now);
            if next > until {
                return;
            }
            assert!(next >= now, "a timer in the past: {next:?} < {now:?}");
            now = next;
        }
        panic!("it does not come to an end");
    }

    pub(crate) fn data(&self) -> Vec<(Time, usize, Packet)> {
        self.sent.iter().filter(|s| s.2.payload() > 0).copied().collect()
    }

    pub(crate) fn run_until(&mut self, end: Time) {
        self.run(self.now, end);
        self.now = end;
    }

    pub(crate) fn notify(&mut self, i: usize, event: LinkEvent) {
        self.ends[i].on_link(self.now, &event);
        self.pump(i);
    }

    /// Sets the link up or down and notifies end `i` at once.
    pub(crate) fn set_link(&mut self, i: usize, up: bool) {
        self.up = up;
        self.notify_link(i, up);
    }

    /// Notifies end `i` that the link is up, with layer 3 configured, or down.
    pub(crate) fn notify_link(&mut self, i: usize, up: bool) {
        let events: &[LinkEvent] = if up { &[LinkEvent::Up, LinkEvent::Configured] } else { &[LinkEvent::Down] };
        events.iter().for_each(|e| self.notify(i, *e));
    }

    /// Returns the packets that left end `i` between the two instants, the second excluded.
    pub(crate) fn sent_between(&self, i: usize, from: Time, to: Time) -> impl Iterator<Item = &(Time, usize, Packet)> {
        self.sent.iter().filter(move |s| s.1 == i && s.0 >= from && s.0 < to)
    }

    pub(crate) fn pump(&mut self, i: usize) {
        for _ in 0..100_000 {
            let Some(mut p) = self.ends[i].transmit(self.now, &mut self.sides) else { return };
            self.sent.push((self.now, i, p));
            let number = (p.payload() > 0).then_some(self.data);
            self.data += usize::from(number.is_some());
            let among = |list: &[usize]| number.is_some_and(|n| list.contains(&n));
            if among(&self.marked) {
                p.mark();
            }
            let copies = 1 + usize::from(self.stream.hit(threshold(self.impairments.repeat)));
            let lost = among(&self.lost) || (self.lose)(self.now, i, &p);
            let (side, carried) = (self.sides.get(&p).copied(), self.sides.carried(&p).map(<[u8]>::to_vec));
            for copy in 0..copies {
                let mut p = p;
                if copy > 0
                    && let Some(mut side) = side
                {
                    if let (SideContent::Heartbeat(number), Some(bytes)) = (&mut side, &carried) {
                        *number = self.sides.store_bytes(bytes);
                    }
                    p.set_side(self.sides.store(side));
                }
                if lost || self.stream.hit(threshold(self.impairments.loss)) {
                    self.sides.free(&p);
                    continue;
                }
                let wait = (self.wait)(self.now, i, &p);
                let at = self.now + self.delay + wait + Time(self.stream.range(0, self.impairments.jitter.0));
                self.air.insert((at, 2 * self.sent.len() + copy), (1 - i, p));
            }
        }
        panic!("it never stops sending");
    }

    fn arrive(&mut self) {
        let (_, (to, p)) = self.air.pop_first().expect("something is on air");
        if self.up {
            self.ends[to].receive(self.now, &p, &self.sides);
        }
        self.sides.free(&p);
        self.pump(to);
    }
}
