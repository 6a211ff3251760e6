//! Links that change under their packets: rate, delay, noise and up or down, piecewise in time.
//!
//! A change applies to what is not yet serialised: a packet in the serialiser goes on at the new rate with the bits it
//! has left, what is on air arrives when it would have, and order is kept. While the link is down, [`Policy::Drop`]
//! lets the serialiser go on and loses what arrives; [`Policy::Keep`] stops the serialiser and loses nothing.
//!
//! A link without a timeline computes arrivals when packets are enqueued ([`super::pipe`]). One with a timeline does the
//! same, and computes again at each change; if nothing changes the results are the same to the nanosecond.

use super::Direction;
use super::noise::{Judge, Noise};
use crate::packet::Packet;
use crate::rng::Seed;
use crate::units::{Rate, Serializer, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// The states of one direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// From when on which state holds, ascending; of several at one time the last counts. Before the first the values
    /// of the [`Direction`] hold.
    pub states: Vec<(Time, State)>,
    /// The noises that states refer to.
    pub noises: Vec<Noise>,
    /// What happens to packets while the link is down.
    pub policy: Policy,
    /// Departures as recorded, instead of a rate.
    pub opportunities: Option<Opportunities>,
}

/// The state of a link direction for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Packets get through.
    pub up: bool,
    /// Serialisation rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Time,
    /// Index into [`Timeline::noises`]; `None` = the noise of the [`Direction`].
    pub noise: Option<u32>,
}

/// What happens to packets while the link is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The serialiser goes on; a packet that arrives while the link is down is lost.
    #[default]
    Drop,
    /// The serialiser stops; what waits and what is on air is kept.
    Keep,
}

/// A trace of delivery opportunities as Mahimahi's `mm-link` has it: at each, up to 1500 bytes leave; what is not used is
/// lost. The trace repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opportunities {
    /// Ascending within a period, at most `period`; several may fall together.
    pub times: Vec<Time>,
    /// When the trace starts again: the time of its last line.
    pub period: Time,
}

impl Opportunities {
    /// Bytes per opportunity.
    pub const BYTES: u32 = 1500;

    /// When opportunity `i` comes, counted from the start of the first period.
    fn time(&self, i: u64) -> Time {
        let n = self.times.len() as u64;
        self.period * (i / n) + self.times[(i % n) as usize]
    }

    /// The first opportunity that does not come before `from`.
    fn first(&self, from: Time) -> u64 {
        // The last line of a period falls on the start of the next: an instant belongs to the period that ends with it.
        let period = from.0.saturating_sub(1) / self.period.0;
        let within = from - self.period * period;
        period * self.times.len() as u64 + self.times.partition_point(|t| *t < within) as u64
    }

    /// Mean rate.
    pub fn rate(&self) -> Rate {
        Rate::from_bytes_per(self.times.len() as u64 * u64::from(Self::BYTES), self.period)
    }
}

/// A timeline at work on one direction: what waits, what is being serialised, and the state.
#[derive(Debug)]
pub struct Changes {
    timeline: Arc<Timeline>,
    /// Which state comes next.
    next: usize,
    state: State,
    clock: Clock,
    overhead: u32,
    /// What has not been serialised; at most the first is in service.
    service: VecDeque<Service>,
    judges: Vec<Judge>,
}

/// How long serialising takes.
#[derive(Debug)]
enum Clock {
    Rate(Serializer),
    /// The opportunity in use and the bytes it has given.
    Opportunities(u64, u32),
}

#[derive(Debug)]
struct Service {
    packet: Packet,
    /// When it came.
    asked: Time,
    /// Start and end of service; "never" while the serialiser stands still.
    start: Time,
    end: Time,
    /// The serialiser's remainder at the end, bit ns.
    remainder: u64,
    /// Bit ns still to be served, of the packet in service when the serialiser was interrupted.
    left: Option<u64>,
}

impl Changes {
    /// The timeline of direction `name`, whose framing adds `overhead` bytes to a packet.
    pub fn new(timeline: &Arc<Timeline>, direction: &Direction, overhead: u16, name: &str, seed: &Seed) -> Self {
        let judge = |(i, noise)| Judge::new(noise, &format!("{name}#{i}"), seed);
        Changes {
            next: 0,
            state: State { up: true, rate: direction.rate, delay: direction.delay, noise: None },
            clock: match timeline.opportunities {
                Some(_) => Clock::Opportunities(0, 0),
                None => Clock::Rate(Serializer::new(direction.rate)),
            },
            overhead: u32::from(overhead),
            service: VecDeque::new(),
            judges: timeline.noises.iter().enumerate().map(judge).collect(),
            timeline: timeline.clone(),
        }
    }

    /// When the next packet can arrive, or the next change comes.
    pub fn next_wake(&self) -> Time {
        let arrival = self.service.front().map_or(Time::MAX, |s| s.end.saturating_add(self.state.delay));
        arrival.min(self.change_at())
    }

    /// How many packets wait at `now`, and their bytes.
    pub fn waiting(&self, now: Time) -> (usize, u64) {
        let waiting = self.service.iter().skip_while(|s| s.start <= now);
        waiting.fold((0, 0), |(n, bytes), s| (n + 1, bytes + u64::from(s.packet.size)))
    }

    /// How many packets wait when the run stops at `end`, and their bytes; they waited until then and no longer.
    pub fn stop(&self, end: Time, waited_ns: &mut u64) -> (usize, u64) {
        for s in self.service.iter().filter(|s| s.start > end) {
            *waited_ns = *waited_ns - s.waited() + (end - s.asked).0;
        }
        self.waiting(end)
    }

    /// Whether a packet that comes now would be served at once.
    pub fn is_idle(&self) -> bool {
        self.service.is_empty() && self.runs()
    }

    /// Whether packets get through now.
    pub fn is_up(&self) -> bool {
        self.state.up
    }

    /// What has not been serialised.
    pub fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.service.iter().map(|s| &s.packet)
    }

    /// Takes in a packet at `now`; returns when its service starts.
    pub fn push(&mut self, now: Time, packet: Packet, waited_ns: &mut u64) -> Time {
        let from = self.service.back().map_or(now, |last| last.end);
        let mut s = Service { packet, asked: now, start: Time::MAX, end: Time::MAX, remainder: 0, left: None };
        if self.runs() {
            self.serve(from, &mut s);
            *waited_ns += s.waited();
        }
        let start = s.start;
        self.service.push_back(s);
        start
    }

    /// What has been serialised by `now` and when it arrives, one by one; changes take place on the way.
    pub fn advance(&mut self, now: Time, waited_ns: &mut u64) -> Option<(Time, Packet)> {
        loop {
            let change = self.change_at();
            if let Some(s) = self.service.pop_front_if(|s| s.end <= now.min(change)) {
                return Some((s.end + self.state.delay, s.packet));
            }
            if change > now {
                return None;
            }
            let state = self.timeline.states[self.next].1;
            self.next += 1;
            self.change(change, state, waited_ns);
        }
    }

    /// Whether a packet that arrives at `now` is lost. `own` is the noise of the link itself.
    pub fn takes(&mut self, now: Time, size: u16, own: &mut Judge) -> bool {
        if !self.state.up && self.timeline.policy == Policy::Drop {
            return true;
        }
        let judge = self.state.noise.map_or(own, |i| &mut self.judges[i as usize]);
        judge.takes(now, size, self.state.rate)
    }

    fn change_at(&self) -> Time {
        self.timeline.states.get(self.next).map_or(Time::MAX, |s| s.0)
    }

    /// Whether the serialiser runs.
    fn runs(&self) -> bool {
        self.state.up || self.timeline.policy == Policy::Drop
    }

    fn change(&mut self, now: Time, to: State, waited_ns: &mut u64) {
        let (ran, rate) = (self.runs(), self.state.rate);
        self.state = to;
        let runs = self.runs();
        let clocked = matches!(self.clock, Clock::Rate(_));
        if ran == runs && (rate == to.rate || !clocked) {
            return;
        }
        let mut waiting = std::mem::take(&mut self.service);
        if ran && let Some(first) = waiting.front_mut().filter(|s| s.start <= now) {
            first.left = Some((first.end - now).0 * rate.0 + first.remainder);
        }
        match &mut self.clock {
            Clock::Rate(clock) => *clock = Serializer::resume(to.rate, clock.remainder()),
            Clock::Opportunities(index, used) if ran != runs => (*index, *used) = (0, 0), // sought again when served
            Clock::Opportunities(..) => {}
        }
        let mut from = now;
        for s in &mut waiting {
            *waited_ns -= s.waited();
            if runs {
                self.serve(from, s);
                from = s.end;
            } else {
                s.end = Time::MAX;
                if s.left.is_none() {
                    s.start = Time::MAX;
                }
            }
            *waited_ns += s.waited();
        }
        self.service = waiting;
    }

    /// Computes when a packet's service starts, unless it has started, and ends.
    fn serve(&mut self, from: Time, s: &mut Service) {
        let bytes = u32::from(s.packet.size) + self.overhead;
        let left = s.left.take();
        let start;
        (start, s.end) = match (&mut self.clock, &self.timeline.opportunities) {
            (Clock::Rate(clock), _) => match left {
                Some(left) => {
                    *clock = Serializer::resume(clock.rate(), left % clock.rate().0);
                    (from, from + Time(left / clock.rate().0))
                }
                None => (from, from + clock.time(bytes)),
            },
            (Clock::Opportunities(index, used), Some(trace)) => {
                if trace.time(*index) < from {
                    (*index, *used) = (trace.first(from), 0);
                }
                use_opportunities(trace, index, used, bytes)
            }
            (Clock::Opportunities(..), None) => unreachable!("made from a trace"),
        };
        if let Clock::Rate(clock) = &self.clock {
            s.remainder = clock.remainder();
        }
        if left.is_none() {
            s.start = start;
        }
    }
}

impl Service {
    /// How long it waits, as far as that is known.
    fn waited(&self) -> u64 {
        if self.start == Time::MAX { 0 } else { (self.start - self.asked).0 }
    }
}

/// Takes `bytes` from the trace; the first and the last opportunity used.
fn use_opportunities(trace: &Opportunities, index: &mut u64, used: &mut u32, bytes: u32) -> (Time, Time) {
    let mut start = None;
    let mut left = bytes;
    while left > 0 {
        if *used == Opportunities::BYTES {
            (*index, *used) = (*index + 1, 0);
        }
        start = start.or_else(|| Some(trace.time(*index)));
        let now = left.min(Opportunities::BYTES - *used);
        *used += now;
        left -= now;
    }
    let end = trace.time(*index);
    (start.unwrap_or(end), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_opportunity_is_that_of_a_search_from_the_start() {
        for times in [&[1, 2, 2, 5][..], &[0, 0, 3], &[7], &[2, 4, 4, 4]] {
            let trace =
                Opportunities { times: times.iter().map(|t| Time(*t)).collect(), period: Time(times[times.len() - 1]) };
            for from in (0..40).map(Time) {
                let scanned = (0..).find(|i| trace.time(*i) >= from);
                assert_eq!(Some(trace.first(from)), scanned, "{times:?} from {from}");
            }
        }
    }

    /// Where the queue runs empty each packet looks for its opportunity: with a scan this would be 10^11 steps.
    #[test]
    fn a_long_trace_is_not_scanned() {
        let n = 1_000_000;
        let trace = Opportunities { times: (1..=n).map(Time::from_millis).collect(), period: Time::from_millis(n) };
        for i in (0..3 * n).step_by(15) {
            assert_eq!(trace.first(Time::from_millis(i + 1)), i);
        }
    }
}
