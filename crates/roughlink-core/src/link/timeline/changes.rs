//! Applies a timeline to the packets of one direction. As without one ([`crate::link::pipe`]), arrivals are computed
//! when packets are enqueued; each change recomputes them. Without changes, results are the same to the nanosecond.

use super::opportunities::use_opportunities;
use super::{DirectionState, DirectionStates, OutagePolicy, Step, Timeline};
use crate::link::Direction;
use crate::link::noise::{LossProcess, Noise};
use crate::packet::Packet;
use crate::rng::Seed;
use crate::units::{Serializer, Time};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Timeline of one direction in operation: waiting packets, the packet in service, and the state.
#[derive(Debug)]
pub struct Changes {
    timeline: Arc<Timeline>,
    states: DirectionStates,
    next: Option<(Time, DirectionState)>,
    state: DirectionState,
    clock: ServiceClock,
    overhead: u32,
    /// Packets not yet serialized; at most the first is in service.
    service: VecDeque<Service>,
    service_bytes: u64,
    /// Noises that have been in force, by index; each is created when first needed.
    judges: BTreeMap<u32, LossProcess>,
    /// Last noise set from outside and its number; the timeline's noises have lower numbers.
    added: Option<(u32, Noise)>,
    name: String,
    seed: Seed,
}

#[derive(Debug)]
enum ServiceClock {
    Rate(Serializer),
    /// Index of the opportunity in use and the bytes used of it.
    Opportunities(u64, u32),
}

#[derive(Debug)]
struct Service {
    packet: Packet,
    /// Enqueue time.
    asked: Time,
    /// Start and end of service; [`Time::MAX`] while the serializer is stopped.
    start: Time,
    end: Time,
    /// Remainder of the serializer at the end, in units of 1e-9 bit.
    remainder: u64,
    /// Bits left of the packet in service when the serializer was interrupted, in units of 1e-9 bit.
    left: Option<u64>,
}

/// A packet that has left the serializer.
#[derive(Clone, Debug)]
pub struct Serialized {
    /// Arrival at the far end.
    pub arrival: Time,
    /// Time between enqueueing and service.
    pub waited: Range<Time>,
    /// The packet.
    pub packet: Packet,
}

impl Changes {
    /// Creates the timeline of direction `name`, whose framing adds `overhead` bytes to a packet.
    pub fn new(timeline: &Arc<Timeline>, direction: &Direction, overhead: u16, name: &str, seed: &Seed) -> Self {
        let state = DirectionState::from_direction(direction);
        let mut states = DirectionStates::new(Arc::clone(timeline), state);
        Changes {
            next: states.next(),
            states,
            state,
            clock: match timeline.opportunities {
                Some(_) => ServiceClock::Opportunities(0, 0),
                None => ServiceClock::Rate(Serializer::new(direction.rate)),
            },
            overhead: u32::from(overhead),
            service: VecDeque::new(),
            service_bytes: 0,
            judges: BTreeMap::new(),
            added: None,
            name: name.to_owned(),
            seed: *seed,
            timeline: Arc::clone(timeline),
        }
    }

    /// Changes the direction from outside at `now`, up to which [`Changes::advance`] was called. Properties keep the
    /// new value until the timeline sets them. `noise` replaces the current noise.
    pub fn change_now(&mut self, now: Time, mut to: Step, noise: Option<Noise>, waited_ns: &mut u128) {
        to.noise = noise.map(|noise| {
            let first = self.timeline.noises.len() as u32;
            let number = self.added.as_ref().map_or(first, |(last, _)| last + 1);
            self.judges.retain(|i, _| *i < first); // the one before cannot be in force again
            self.added = Some((number, noise));
            number
        });
        self.states.change(now, &to, self.next.as_mut().map(|(_, state)| state));
        let state = DirectionState {
            up: to.up.unwrap_or(self.state.up),
            rate: to.rate.unwrap_or(self.state.rate),
            delay: to.delay.unwrap_or(self.state.delay),
            signal: to.signal.or(self.state.signal),
            noise: to.noise.or(self.state.noise),
        };
        self.change(now, state, waited_ns);
    }

    /// Returns the current state.
    pub fn state(&self) -> &DirectionState {
        &self.state
    }

    /// Returns the current noise, if it differs from the link's own.
    pub fn noise(&self) -> Option<&Noise> {
        self.state.noise.map(|i| numbered(&self.added, &self.timeline, i))
    }

    /// Returns when the next packet can arrive (if `early`, as soon as it is serialized) or the next change happens.
    pub fn next_wake(&self, early: bool) -> Time {
        let delay = if early { Time::ZERO } else { self.state.delay };
        let arrival = self.service.front().map_or(Time::MAX, |s| s.end.saturating_add(delay));
        arrival.min(self.change_at())
    }

    /// Returns the number of packets waiting at `now`, and their bytes.
    pub fn waiting(&self, now: Time) -> (usize, u64) {
        // Only packets in service have started.
        let started = self.service.iter().take_while(|s| s.start <= now);
        let left = (self.service.len(), self.service_bytes);
        started.fold(left, |(n, bytes), s| (n - 1, bytes - u64::from(s.packet.size)))
    }

    /// Returns the waiting time of the packet in service at `now`, if any.
    pub fn in_service(&self, now: Time) -> impl Iterator<Item = Range<Time>> {
        self.service.iter().take_while(move |s| s.start <= now).map(|s| s.asked..s.start)
    }

    /// Returns the packets waiting at the end of the run, `end`, and their bytes; their waiting time ends there.
    pub fn unserved(&self, end: Time, waited_ns: &mut u128) -> (usize, u64) {
        for s in self.service.iter().filter(|s| s.start > end) {
            *waited_ns = *waited_ns - u128::from(s.waited()) + u128::from((end - s.asked).0);
        }
        self.waiting(end)
    }

    /// Returns true if a packet enqueued now would be served at once.
    pub fn is_idle(&self) -> bool {
        self.service.is_empty() && self.runs()
    }

    /// Returns when a packet enqueued at `now` would go into service; [`Time::MAX`] while the serializer is stopped.
    pub fn free_at(&self, now: Time) -> Time {
        if !self.runs() {
            return Time::MAX;
        }
        let from = self.service.back().map_or(now, |last| last.end);
        match (&self.clock, &self.timeline.opportunities) {
            (ServiceClock::Opportunities(index, used), Some(trace)) => trace.time(trace.next(*index, *used, from)),
            _ => from,
        }
    }

    /// Returns true if packets get through now.
    pub fn is_up(&self) -> bool {
        self.state.up
    }

    /// Returns the memory of packets not yet serialized, bytes.
    pub fn bytes(&self) -> usize {
        self.service.capacity() * size_of::<Service>()
    }

    /// Returns the packets not yet serialized.
    pub fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.service.iter().map(|s| &s.packet)
    }

    /// Enqueues a packet at `now`; returns when its service starts.
    pub fn push(&mut self, now: Time, packet: Packet, waited_ns: &mut u128) -> Time {
        let from = self.service.back().map_or(now, |last| last.end);
        let mut s = Service { packet, asked: now, start: Time::MAX, end: Time::MAX, remainder: 0, left: None };
        if self.runs() {
            self.serve(from, &mut s);
            *waited_ns += u128::from(s.waited());
        }
        let start = s.start;
        self.service_bytes += u64::from(s.packet.size);
        self.service.push_back(s);
        start
    }

    /// Returns the next packet serialized by `now`; applies changes on the way.
    pub fn advance(&mut self, now: Time, waited_ns: &mut u128) -> Option<Serialized> {
        loop {
            let change = self.change_at();
            if let Some(s) = self.service.pop_front_if(|s| s.end <= now.min(change)) {
                self.service_bytes -= u64::from(s.packet.size);
                return Some(Serialized {
                    arrival: s.end + self.state.delay,
                    waited: s.asked..s.start,
                    packet: s.packet,
                });
            }
            if change > now {
                return None;
            }
            let (_, state) = std::mem::replace(&mut self.next, self.states.next())?;
            self.change(change, state, waited_ns);
        }
    }

    /// Returns true if a packet that arrives at `now` is lost. `own` is the noise of the link itself.
    pub fn loses(&mut self, now: Time, size: u16, own: &mut LossProcess) -> bool {
        if !self.state.up && self.timeline.policy == OutagePolicy::Drop {
            return true;
        }
        let new = |i: u32| {
            let noise = numbered(&self.added, &self.timeline, i);
            LossProcess::new(noise, &format!("{}#{i}", self.name), &self.seed)
        };
        let judge = self.state.noise.map_or(own, |i| self.judges.entry(i).or_insert_with(|| new(i)));
        judge.loses(now, size, self.state.rate)
    }

    fn change_at(&self) -> Time {
        self.next.map_or(Time::MAX, |(at, _)| at)
    }

    fn runs(&self) -> bool {
        self.state.up || self.timeline.policy == OutagePolicy::Drop
    }

    fn change(&mut self, now: Time, to: DirectionState, waited_ns: &mut u128) {
        let (ran, rate) = (self.runs(), self.state.rate);
        self.state = to;
        let runs = self.runs();
        let clocked = matches!(self.clock, ServiceClock::Rate(_));
        if ran == runs && (rate == to.rate || !clocked) {
            return;
        }
        let mut waiting = std::mem::take(&mut self.service);
        if ran && let Some(first) = waiting.front_mut().filter(|s| s.start <= now) {
            first.left = Some((first.end - now).0 * rate.0 + first.remainder);
        }
        match &mut self.clock {
            ServiceClock::Rate(clock) => *clock = Serializer::resume(to.rate, clock.remainder()),
            // The opportunity is searched for again at the next packet.
            ServiceClock::Opportunities(index, used) if ran != runs => (*index, *used) = (0, 0),
            ServiceClock::Opportunities(..) => {}
        }
        let mut from = now;
        for s in &mut waiting {
            *waited_ns -= u128::from(s.waited());
            if runs {
                self.serve(from, s);
                from = s.end;
            } else {
                s.end = Time::MAX;
                if s.left.is_none() {
                    s.start = Time::MAX;
                }
            }
            *waited_ns += u128::from(s.waited());
        }
        self.service = waiting;
    }

    /// Computes the end of a packet's service, and its start unless service has already started.
    fn serve(&mut self, from: Time, s: &mut Service) {
        let bytes = u32::from(s.packet.size) + self.overhead;
        let left = s.left.take();
        let start;
        (start, s.end) = match (&mut self.clock, &self.timeline.opportunities) {
            (ServiceClock::Rate(clock), _) => match left {
                Some(left) => {
                    *clock = Serializer::resume(clock.rate(), left % clock.rate().0);
                    (from, from + Time(left / clock.rate().0))
                }
                None => (from, from + clock.time(bytes)),
            },
            (ServiceClock::Opportunities(index, used), Some(trace)) => {
                if trace.time(*index) < from {
                    (*index, *used) = (trace.first(from), 0);
                }
                use_opportunities(trace, index, used, bytes)
            }
            (ServiceClock::Opportunities(..), None) => unreachable!("made from a trace"),
        };
        if let ServiceClock::Rate(clock) = &self.clock {
            s.remainder = clock.remainder();
        }
        if left.is_none() {
            s.start = start;
        }
    }
}

impl Service {
    /// Returns the waiting time as far as it is known.
    fn waited(&self) -> u64 {
        if self.start == Time::MAX { 0 } else { (self.start - self.asked).0 }
    }
}

fn numbered<'n>(added: &'n Option<(u32, Noise)>, timeline: &'n Timeline, i: u32) -> &'n Noise {
    let added = added.as_ref().filter(|(number, _)| *number == i).map(|(_, noise)| noise);
    added.unwrap_or_else(|| &timeline.noises[i as usize])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::jitter::JitterShape;
    use crate::link::noise::Noise;
    use crate::link::timeline::Step;
    use crate::packet::FlowId;
    use crate::units::{QueueLimit, Rate};
    use proptest::prelude::*;

    const DELAY: Time = Time::from_millis(7);

    /// Returns the arrival times of packets of (gap to the previous one, size). At each of `times` the link changes to
    /// another rate or stops, and changes back at the same instant.
    fn arrivals(sent: &[(u64, u16)], rate: u64, policy: OutagePolicy, times: &[(u64, u64, bool)]) -> (Vec<Time>, u128) {
        let direction = Direction {
            rate: Rate(rate),
            delay: DELAY,
            queue: QueueLimit::Packets(1000),
            noise: Noise::None,
            jitter: Time::ZERO,
            jitter_shape: JitterShape::default(),
            reorder: false,
            discipline: None,
            timeline: None,
        };
        let timeline = Arc::new(Timeline::new(Vec::<Step>::new(), Vec::new(), Time::MAX).with(policy, None));
        let mut link = Changes::new(&timeline, &direction, 0, "x", &Seed { seed: 1, replica: 0 });
        let same = DirectionState::from_direction(&direction);
        let (mut arrived, mut waited, mut now) = (Vec::new(), 0, 0);
        let mut sent: Vec<(Time, Option<u16>, DirectionState)> = sent
            .iter()
            .map(|(gap, size)| {
                now += gap;
                (Time(now), Some(*size), same)
            })
            .collect();
        let other = |&(at, rate, stop): &(u64, u64, bool)| {
            (Time(at), None, DirectionState { up: !stop, rate: Rate(rate), ..same })
        };
        sent.extend(times.iter().map(other));
        sent.sort_by_key(|s| s.0);
        for (now, size, state) in sent {
            arrived.extend(std::iter::from_fn(|| link.advance(now, &mut waited)).map(|s| s.arrival));
            if let Some(size) = size {
                let mut packet = Packet::tcp(FlowId::new(0, false));
                packet.size = size;
                link.push(now, packet, &mut waited);
            } else {
                link.change(now, state, &mut waited);
                link.change(now, same, &mut waited);
            }
        }
        arrived.extend(std::iter::from_fn(|| link.advance(Time::MAX, &mut waited)).map(|s| s.arrival));
        (arrived, waited)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        /// If the rate changes and changes back at the same instant, all departures are recomputed and stay the same.
        #[test]
        fn rate_change_undone_at_once_has_no_effect(
            sent in prop::collection::vec((0u64..3_000_000, 41u16..1500), 1..120),
            rate in 100_000u64..90_000_000,
            times in prop::collection::vec((0u64..200_000_000, 1_000u64..50_000_000, any::<bool>()), 0..20),
            keep in any::<bool>(),
        ) {
            let policy = if keep { OutagePolicy::Keep } else { OutagePolicy::Drop };
            prop_assert_eq!(arrivals(&sent, rate, policy, &times), arrivals(&sent, rate, policy, &[]));
        }
    }
}
