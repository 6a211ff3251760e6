//! One direction of a pipe: queue, serializer, noise, delay.
//!
//! The departure of a packet is computed when it is enqueued, so only its arrival is an event. The number of waiting
//! packets follows from the start times of service. With a queue discipline ([`super::queue`]) a packet enters service
//! only when the serializer is free, which is another event.

use super::Direction;
use super::fragments::Fragments;
use super::jitter::{Jitter, Reordered};
use super::noise::{LossProcess, Noise};
use super::queue::{ActiveQueue, QueueStats};
use super::timeline::{Changes, DirectionState, Serialized, Step, Timeline};
use crate::packet::{FlowId, Packet};
use crate::quantiles::Histogram;
use crate::ring::Ring;
use crate::rng::Seed;
use crate::units::{QueueLimit, Serializer, Time};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One direction of a pipe. `receive` enqueues packets, `transmit` returns packets that arrive at the far end.
///
/// ```
/// # use roughlink_core::link::jitter::JitterShape;
/// # use roughlink_core::link::pipe::Pipe;
/// # use roughlink_core::link::{Direction, Noise};
/// # use roughlink_core::packet::{FlowId, Packet};
/// # use roughlink_core::rng::Seed;
/// # use roughlink_core::units::{QueueLimit, Rate, Time};
/// let direction = Direction {
///     rate: Rate::from_mbps(12), // 1500 B take 1 ms
///     delay: Time::from_millis(2),
///     queue: QueueLimit::Packets(1),
/// #     noise: Noise::None,
/// #     jitter: Time::ZERO,
/// #     jitter_shape: JitterShape::default(),
/// #     reorder: false,
/// #     discipline: None,
/// #     timeline: None,
///     // no noise, jitter, discipline or timeline
/// };
/// let mut pipe = Pipe::new(&direction, (1500, 0), "cable", &Seed { seed: 1, replica: 0 });
///
/// let packet = Packet::udp(FlowId::new(0, false), 0, 1472, Time::ZERO);
/// let mut dropped = 0;
/// for _ in 0..3 {
///     pipe.receive(Time::ZERO, packet, &mut |_| dropped += 1);
/// }
/// assert_eq!((pipe.next_wake(), dropped), (Time::from_millis(3), 1));
/// ```
#[derive(Debug)]
pub struct Pipe {
    serializer: Serializer,
    delay: Time,
    limit: QueueLimit,
    mtu: u16,
    /// The MTU if the pipe is plain, otherwise 0.
    plain_mtu: u16,
    overhead: u16,
    judge: LossProcess,
    jitter: Option<Jitter>,
    busy_until: Time,
    /// Packets in transit, by arrival.
    ring: Ring<(Time, Packet)>,
    /// Packets in transit if they may overtake each other; `ring` then stays empty.
    reordered: Option<Box<Reordered>>,
    waiting: Ring<WaitingPacket>,
    waiting_bytes: u64,
    /// Timeline of a changing link, with the waiting packets and the one in service; `ring` has only packets on air.
    changes: Option<Box<Changes>>,
    /// Set without jitter, changes and discipline: packets then arrive in order, at times known on enqueueing.
    plain: bool,
    /// Packets waiting under a discipline; `changes` is then set too and holds only the packet in service.
    queue: Option<Box<ActiveQueue>>,
    /// Counters.
    pub stats: PipeStats,
}

#[derive(Clone, Copy, Debug)]
struct WaitingPacket {
    entered: Time,
    start: Time,
    size: u16,
}

/// Counters of one link direction.
#[derive(Clone, Debug, Default)]
pub struct PipeStats {
    /// IP packets serialized, each fragment counted.
    pub packets: u64,
    /// Bytes serialized.
    pub bytes: u64,
    /// Packets dropped by a full queue or by its discipline.
    pub dropped: u64,
    /// Packets lost to noise.
    pub lost: u64,
    /// Counters of the queue discipline, if any; only set by [`Pipe::stats_at`].
    pub queue: Option<Box<QueueStats>>,
    /// Sum of the times that packets waited, ns: the time integral of the queue's length.
    pub waited_ns: u128,
    /// Time at which the last packet that waited stopped waiting; zero if none waited.
    pub waited_until: Time,
    /// Waiting times in a queue without discipline; 0 for packets served at once.
    pub delay: Histogram,
    /// Largest number of packets that waited at once.
    pub queue_max: u32,
    /// Counters of framing and repetition, if the link has them.
    pub arq: ArqStats,
}

impl PipeStats {
    /// Counts a packet that waited for service.
    pub(super) fn waited(&mut self, from: Time, until: Time) {
        self.waited_ns += u128::from((until - from).0);
        self.served(from, until);
    }

    /// Like [`PipeStats::waited`], for a packet whose time is in the sum already.
    fn served(&mut self, from: Time, until: Time) {
        self.delay.record((until - from).0);
        if until > from {
            self.waited_until = until;
        }
    }
}

/// Counters of framing and automatic repeat request (ARQ) on a shared medium, as seen by the sender of one direction. A
/// block is the unit that the receiver acknowledges bit by bit: an SDU of HD-PLC, a PHY block of Green PHY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArqStats {
    /// Frames on the medium, collided ones included.
    pub frames: u64,
    /// Frames that collided.
    pub collisions: u64,
    /// Frames not acknowledged because noise corrupted their header or their acknowledgment.
    pub unacknowledged: u64,
    /// Blocks in all frames, repeats included.
    pub blocks: u64,
    /// Blocks that noise corrupted although their header was received.
    pub errors: u64,
    /// Blocks sent for a second or later time.
    pub repeats: u64,
    /// Blocks that the receiver already had.
    pub duplicates: u64,
}

impl Pipe {
    /// Creates direction `name` (e.g. `plc.forward`) of a link with this `mtu` and framing `overhead`.
    pub fn new(direction: &Direction, (mtu, overhead): (u16, u16), name: &str, seed: &Seed) -> Self {
        let plain = direction.jitter.is_zero() && direction.timeline.is_none() && direction.discipline.is_none();
        Pipe {
            serializer: Serializer::new(direction.rate),
            delay: direction.delay,
            limit: direction.queue,
            mtu,
            plain_mtu: if plain { mtu } else { 0 },
            overhead,
            judge: LossProcess::new(&direction.noise, name, seed),
            jitter: Jitter::new(direction, name, seed),
            busy_until: Time::ZERO,
            ring: Ring::default(),
            reordered: (direction.reorder && !direction.jitter.is_zero()).then(Box::default),
            waiting: Ring::default(),
            waiting_bytes: 0,
            changes: match (&direction.timeline, &direction.discipline) {
                (None, None) => None,
                (timeline, _) => {
                    let timeline = timeline.clone().unwrap_or_else(|| Arc::new(Timeline::default()));
                    Some(Box::new(Changes::new(&timeline, direction, overhead, name, seed)))
                }
            },
            queue: direction.discipline.as_ref().map(|d| Box::new(ActiveQueue::new(d, direction.queue, name, seed))),
            plain,
            stats: PipeStats::default(),
        }
    }

    /// Returns true if packets wait under a queue discipline.
    pub fn has_discipline(&self) -> bool {
        self.queue.is_some()
    }

    /// Sets the hash keys of flows in the queue discipline, by the flow's number in packets.
    pub fn identify(&mut self, keys: &Arc<[u64]>) {
        if let Some(queue) = &mut self.queue {
            queue.identify(keys);
        }
    }

    /// Returns when the next packet arrives at the far end or the link changes.
    #[inline(always)]
    pub fn next_wake(&self) -> Time {
        let arrival = self.ring.front().map_or(Time::MAX, |e| e.0);
        if self.plain { arrival } else { self.next_beside(arrival) }
    }

    /// Returns the earlier of the next arrival and the next event of changes or discipline.
    fn next_beside(&self, arrival: Time) -> Time {
        let arrival = self.reordered.as_ref().map_or(arrival, |packets| packets.next_arrival());
        let service = self.queue.as_ref().map_or(Time::MAX, |q| q.next());
        let early = self.jitter.as_ref().is_some_and(Jitter::can_be_early);
        self.changes.as_ref().map_or(arrival, |changes| arrival.min(changes.next_wake(early))).min(service)
    }

    /// Packets waiting at `now`.
    #[inline]
    pub fn waiting(&mut self, now: Time) -> usize {
        if let Some(changes) = &self.changes {
            return changes.waiting(now).0 + self.queue.as_ref().map_or(0, |q| q.len());
        }
        self.waiting_for_service(now)
    }

    /// Like [`Pipe::waiting`], for a link that does not change.
    #[inline(always)]
    fn waiting_for_service(&mut self, now: Time) -> usize {
        while let Some(&WaitingPacket { entered, start, size }) = self.waiting.front() {
            if start > now {
                break;
            }
            self.waiting_bytes -= u64::from(size);
            self.stats.delay.record((start - entered).0);
            self.waiting.drop_front(1);
        }
        self.waiting.len()
    }

    /// Accepts a packet at the near end and fragments it if it is larger than the MTU. Packets that do not fit into the
    /// queue go to `dropped`. Returns true if the next wake-up is now earlier.
    #[inline(always)]
    pub fn receive(&mut self, now: Time, p: Packet, dropped: &mut impl FnMut(Packet)) -> bool {
        if p.size > self.plain_mtu {
            return self.receive_in_parts(now, p, dropped);
        }
        let Some(arrival) = self.admit(now, p.size) else {
            dropped(p);
            return false;
        };
        self.ring.push_back((arrival, p));
        self.ring.len() == 1
    }

    /// Like [`Pipe::receive`], for packets that need fragmentation and for pipes that are not plain.
    #[cold]
    #[inline(never)]
    fn receive_in_parts(&mut self, now: Time, p: Packet, dropped: &mut impl FnMut(Packet)) -> bool {
        let before = self.next_wake();
        if p.size > self.mtu {
            let mut fragments = Fragments::new(p, self.mtu);
            while let Some(f) = fragments.next() {
                self.enqueue(now, f, dropped);
            }
        } else {
            self.enqueue(now, p, dropped);
        }
        self.next_wake() < before
    }

    fn enqueue(&mut self, now: Time, p: Packet, dropped: &mut impl FnMut(Packet)) {
        if self.changes.is_some() {
            return self.enqueue_changing(now, p, dropped);
        }
        let Some(arrival) = self.admit(now, p.size) else {
            dropped(p);
            return;
        };
        if self.jitter.is_some() {
            self.launch(arrival, self.delay, p);
        } else {
            self.ring.push_back((arrival, p));
        }
    }

    /// Puts a packet on air that arrives at `arrival`, `delay` after its last bit, plus jitter. Only jitter reorders.
    fn launch(&mut self, arrival: Time, delay: Time, p: Packet) {
        let arrival = self.jitter.as_mut().map_or(arrival, |j| j.apply(arrival, delay));
        match &mut self.reordered {
            Some(packets) => packets.insert(arrival, p),
            None => {
                let last = self.ring.back().map_or(Time::ZERO, |e| e.0);
                self.ring.push_back((arrival.max(last), p));
            }
        }
    }

    #[cold]
    fn enqueue_changing(&mut self, now: Time, p: Packet, dropped: &mut impl FnMut(Packet)) {
        self.serve(now, dropped);
        if let Some(queue) = &mut self.queue {
            let stats = &mut self.stats;
            queue.put(now, p, &mut |p| {
                stats.dropped += 1;
                dropped(p);
            });
            self.serve(now, dropped); // it may go into service at once
            let waiting = self.waiting(now) as u32;
            self.stats.queue_max = self.stats.queue_max.max(waiting);
            return;
        }
        let Some(changes) = &mut self.changes else { unreachable!("asked for by the caller") };
        let (waiting, bytes) = changes.waiting(now);
        let full = match self.limit {
            QueueLimit::Packets(n) => waiting >= n as usize,
            QueueLimit::Bytes(b) => bytes + u64::from(p.size) > b,
        };
        if full && !changes.is_idle() {
            self.stats.dropped += 1;
            dropped(p);
            return;
        }
        let start = changes.push(now, p, &mut self.stats.waited_ns);
        if start > now {
            self.stats.queue_max = self.stats.queue_max.max(waiting as u32 + 1);
        }
        self.stats.packets += 1;
        self.stats.bytes += u64::from(p.size);
    }

    /// Advances a changing link to `now`: applies its changes and puts serialized packets on air.
    fn advance(&mut self, now: Time) {
        let Some(mut changes) = self.changes.take() else { return };
        while let Some(Serialized { arrival, waited, packet }) = changes.advance(now, &mut self.stats.waited_ns) {
            self.stats.served(waited.start, waited.end);
            self.launch(arrival, changes.state().delay, packet);
        }
        self.changes = Some(changes);
    }

    /// Like [`Pipe::advance`], and moves packets waiting under a discipline into service while the serializer is free.
    fn serve(&mut self, now: Time, dropped: &mut impl FnMut(Packet)) {
        loop {
            self.advance(now);
            let (Some(queue), Some(changes), stats) = (&mut self.queue, &mut self.changes, &mut self.stats) else {
                return;
            };
            queue.schedule(now, changes);
            if queue.next() > now {
                return;
            }
            let next = queue.take(now, &mut |p| {
                stats.dropped += 1;
                dropped(p);
            });
            if let Some(p) = next {
                stats.packets += 1;
                stats.bytes += u64::from(p.size);
                changes.push(now, p, &mut stats.waited_ns);
            }
        }
    }

    /// Queues and serializes `size` bytes at `now`. Returns the arrival at the far end; `None` if the queue is full.
    #[inline(always)]
    fn admit(&mut self, now: Time, size: u16) -> Option<Time> {
        let start = self.busy_until.max(now);
        if start > now {
            let waiting = self.waiting_for_service(now);
            let full = match self.limit {
                QueueLimit::Packets(n) => waiting >= n as usize,
                QueueLimit::Bytes(b) => self.waiting_bytes + u64::from(size) > b,
            };
            if full {
                self.stats.dropped += 1;
                return None;
            }
            self.waiting.push_back(WaitingPacket { entered: now, start, size });
            self.waiting_bytes += u64::from(size);
            self.stats.queue_max = self.stats.queue_max.max(waiting as u32 + 1);
            self.stats.waited_ns += u128::from((start - now).0);
            self.stats.waited_until = start;
        } else {
            self.stats.delay.record(0);
        }
        self.busy_until = start + self.serializer.time(u32::from(size) + u32::from(self.overhead));
        self.stats.packets += 1;
        self.stats.bytes += u64::from(size);
        Some(self.busy_until + self.delay)
    }

    /// Returns true if packets arrive in order, without loss: [`Pipe::pass`] can replace `receive` and `transmit`.
    pub fn is_transparent(&self) -> bool {
        matches!(self.judge, LossProcess::None) && self.plain
    }

    /// Changes the link from outside at `now`. Returns the states before and after.
    ///
    /// # Panics
    /// Panics if the link has no timeline.
    pub fn change(&mut self, now: Time, to: Step, noise: Option<Noise>) -> (DirectionState, DirectionState) {
        self.advance(now);
        let changes = self.changes.as_mut().expect("a link that may change");
        let before = *changes.state();
        changes.change_now(now, to, noise, &mut self.stats.waited_ns);
        if let Some(queue) = &mut self.queue {
            queue.schedule(now, changes);
        }
        (before, *changes.state())
    }

    /// Returns the state of a pipe made from `direction`, and its noise if that differs from the direction's.
    pub fn state(&self, direction: &Direction) -> (DirectionState, Option<&Noise>) {
        match &self.changes {
            Some(changes) => (*changes.state(), changes.noise()),
            None => (DirectionState::from_direction(direction), None),
        }
    }

    /// Returns true if the link may change: packets must then enter in time order with all other events.
    pub fn has_timeline(&self) -> bool {
        self.changes.is_some()
    }

    /// Returns true if packets get through now.
    pub fn is_up(&self) -> bool {
        self.changes.as_ref().is_none_or(|c| c.is_up())
    }

    /// Returns the largest packet that passes unfragmented, bytes.
    #[inline(always)]
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Returns the arrival at the far end of a packet of `size` bytes, at most the MTU, that enters at `now`; `None` if
    /// the queue is full. For a pipe whose packets all continue to one place.
    #[inline(always)]
    pub fn pass(&mut self, now: Time, size: u16) -> Option<Time> {
        debug_assert!(self.is_transparent() && size <= self.mtu);
        self.admit(now, size)
    }

    /// Returns the packet due at the far end, and true if it was lost on the way; `None` if the wake-up at `now` had
    /// another reason. Packets that a discipline drops when their turn comes go to `dropped`.
    pub fn transmit(&mut self, now: Time, dropped: &mut impl FnMut(Packet)) -> Option<(Packet, bool)> {
        let mut p = Packet::tcp(FlowId::new(0, false));
        self.transmit_into(now, &mut p, dropped).map(|lost| (p, lost))
    }

    /// Like [`Pipe::transmit`], writes the packet to `p`, because copies of packets take time.
    #[inline(always)]
    pub(crate) fn transmit_into(
        &mut self,
        now: Time,
        p: &mut Packet,
        dropped: &mut impl FnMut(Packet),
    ) -> Option<bool> {
        if !self.plain {
            let (packet, lost) = self.transmit_beside(now, dropped)?;
            *p = packet;
            return Some(lost);
        }
        let (arrival, packet) = self.ring.front()?;
        *p = *packet;
        let lost = self.judge.loses(*arrival, packet.size, self.serializer.rate());
        self.ring.drop_front(1);
        self.stats.lost += u64::from(lost);
        Some(lost)
    }

    /// Returns the counters until `now`: waiting packets do not count as serialized, and their waiting time ends now.
    pub fn stats_at(&self, now: Time) -> PipeStats {
        let mut stats = self.stats.clone();
        let (packets, bytes) = match &self.changes {
            Some(changes) => {
                changes.in_service(now).for_each(|waited| stats.served(waited.start, waited.end));
                changes.unserved(now, &mut stats.waited_ns)
            }
            None => {
                let started = self.waiting.iter().filter(|w| w.start <= now);
                started.for_each(|w| stats.delay.record((w.start - w.entered).0));
                let late = self.waiting.iter().filter(|w| w.start > now);
                late.fold((0, 0), |(n, bytes), w| {
                    stats.waited_ns -= u128::from((w.start - now).0);
                    (n + 1, bytes + u64::from(w.size))
                })
            }
        };
        stats.packets -= packets as u64;
        stats.bytes -= bytes;
        stats.waited_until = if packets > 0 { now } else { stats.waited_until.min(now) };
        if let Some(queue) = &self.queue {
            let (waited, until) = queue.waited(now);
            stats.waited_ns += waited;
            stats.waited_until = stats.waited_until.max(until);
            stats.delay = queue.stats().delay.clone();
            stats.queue = Some(Box::new(queue.stats().clone()));
        }
        stats
    }

    /// Like [`Pipe::transmit`], for pipes that are not plain.
    #[cold]
    fn transmit_beside(&mut self, now: Time, dropped: &mut impl FnMut(Packet)) -> Option<(Packet, bool)> {
        self.serve(now, dropped);
        let (arrival, p) = match &mut self.reordered {
            Some(packets) => packets.pop_until(now)?,
            None => {
                let first = *self.ring.front().filter(|e| e.0 <= now)?;
                self.ring.drop_front(1);
                first
            }
        };
        let lost = match &mut self.changes {
            Some(changes) => changes.loses(arrival, p.size, &mut self.judge),
            None => self.judge.loses(arrival, p.size, self.serializer.rate()),
        };
        self.stats.lost += u64::from(lost);
        Some((p, lost))
    }

    /// Returns the memory of packets waiting or in transit, bytes.
    pub fn bytes(&self) -> usize {
        let changing = self.changes.as_ref().map_or(0, |c| c.bytes()) + self.queue.as_ref().map_or(0, |q| q.bytes());
        changing
            + self.reordered.as_ref().map_or(0, |packets| packets.bytes())
            + self.ring.capacity() * size_of::<(Time, Packet)>()
            + self.waiting.capacity() * size_of::<WaitingPacket>()
    }

    /// Returns packets in transit, to count those left at the end.
    pub fn in_transit(&self) -> impl Iterator<Item = &Packet> {
        let waiting = self.queue.iter().flat_map(|q| q.packets());
        let reordered = self.reordered.iter().flat_map(|packets| packets.iter());
        let changing = self.changes.iter().flat_map(|c| c.packets());
        self.ring.iter().map(|e| &e.1).chain(reordered).chain(changing).chain(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Noise;
    use super::super::jitter::JitterShape;
    use super::*;
    use crate::packet::{FlowId, Fragment};
    use crate::units::Rate;

    fn direction(queue: QueueLimit) -> Direction {
        Direction {
            rate: Rate::from_mbps(10),
            delay: Time::from_micros(900),
            queue,
            noise: Noise::None,
            jitter: Time::ZERO,
            jitter_shape: JitterShape::default(),
            reorder: false,
            discipline: None,
            timeline: None,
        }
    }
    fn packet(size: u16) -> Packet {
        let mut p = Packet::tcp(FlowId::new(0, false));
        p.size = size;
        p
    }
    const SEED: Seed = Seed { seed: 1, replica: 0 };

    #[test]
    fn queue_limit_excludes_the_packet_in_service() {
        let mut pipe = Pipe::new(&direction(QueueLimit::Packets(3)), (1500, 0), "x", &SEED);
        let mut drops = 0;
        for _ in 0..6 {
            pipe.receive(Time::ZERO, packet(1500), &mut |_| drops += 1);
        }
        // One in service, three wait, two dropped.
        assert_eq!((drops, pipe.waiting(Time::ZERO), pipe.stats.queue_max), (2, 3, 3));
        assert_eq!(pipe.next_wake(), Time::from_micros(2100));
        assert_eq!(pipe.waiting(Time::from_micros(1200)), 2);
        // 0 + 1.2 + 2.4 + 3.6 ms of waiting
        assert_eq!(pipe.stats.waited_ns, 7_200_000);
    }

    #[test]
    fn long_queue_on_a_slow_link_saturates_the_clock() {
        let slow = Direction { rate: Rate::from_bps(1), ..direction(QueueLimit::Packets(u32::MAX)) };
        let mut pipe = Pipe::new(&slow, (65_535, 0), "x", &SEED);
        // Each takes six days: the last departure and the total waiting time are beyond the end of the clock.
        for _ in 0..40_000 {
            pipe.receive(Time::ZERO, packet(65_535), &mut |_| panic!("there is no limit"));
        }
        assert_eq!(pipe.ring.back().map(|last| last.0), Some(Time::MAX));
        assert_eq!(pipe.waiting(Time::ZERO), 39_999);
        assert!(pipe.stats.waited_ns > u128::from(u64::MAX));
        assert_eq!(pipe.stats_at(Time::from_secs(1)).packets, 1);
    }

    #[test]
    fn packets_queued_at_the_end_are_not_serialized() {
        use super::super::timeline::{OutagePolicy, Step, Timeline};
        use std::sync::Arc;
        let timeline = |steps: Vec<Step>| Timeline::new(steps, Vec::new(), Time::MAX).with(OutagePolicy::Keep, None);
        let down = vec![Step { at: Time::from_micros(1200), up: Some(false), ..Step::default() }];
        // Service starts at 0, 1.2, 2.4 and 3.6 ms, so at 3 ms the last packet has waited for 3 ms. If the link goes
        // down at 1.2 ms, the second packet is in service at that time, and two wait.
        for (changes, packets, waited) in
            [(None, 3, 6_600_000), (Some(vec![]), 3, 6_600_000), (Some(down), 2, 7_200_000)]
        {
            let timeline = changes.map(|steps| Arc::new(timeline(steps)));
            let direction = Direction { timeline, ..direction(QueueLimit::Packets(3)) };
            let mut pipe = Pipe::new(&direction, (1500, 0), "x", &SEED);
            for _ in 0..4 {
                pipe.receive(Time::ZERO, packet(1500), &mut |_| {});
            }
            while pipe.next_wake() <= Time::from_micros(3000) {
                pipe.transmit(pipe.next_wake(), &mut |_| {});
            }
            let stats = pipe.stats_at(Time::from_micros(3000));
            assert_eq!((stats.packets, stats.bytes, stats.waited_ns), (packets, packets * 1500, waited));
        }
    }

    #[test]
    fn a_byte_limit_counts_bytes() {
        let mut pipe = Pipe::new(&direction(QueueLimit::Bytes(1000)), (1500, 0), "x", &SEED);
        let mut drops = 0;
        for _ in 0..5 {
            pipe.receive(Time::ZERO, packet(400), &mut |_| drops += 1);
        }
        assert_eq!((drops, pipe.waiting(Time::ZERO)), (2, 2));
    }

    #[test]
    fn a_1512_byte_packet_becomes_1500_and_32() {
        let mut pipe = Pipe::new(&direction(QueueLimit::Packets(100)), (1500, 0), "x", &SEED);
        pipe.receive(Time::ZERO, packet(1512), &mut |_| {});
        let sizes: Vec<_> = pipe.in_transit().map(|p| (p.size, p.fragment(), p.ack)).collect();
        assert_eq!(sizes, [(1500, Fragment::First, 0), (32, Fragment::Last, 1480)]);
        // and again through a smaller MTU
        let first = *pipe.in_transit().next().unwrap();
        let mut small = Pipe::new(&direction(QueueLimit::Packets(100)), (576, 0), "y", &SEED);
        small.receive(Time::ZERO, first, &mut |_| {});
        let sizes: Vec<_> = small.in_transit().map(|p| (p.size, p.fragment(), p.ack)).collect();
        assert_eq!(sizes, [(572, Fragment::First, 0), (572, Fragment::Middle, 552), (396, Fragment::Middle, 1104)]);
    }

    #[test]
    fn jitter_keeps_order_by_default() {
        for reorder in [false, true] {
            let mut d = direction(QueueLimit::Packets(1000));
            d.jitter = Time::from_millis(20);
            d.reorder = reorder;
            let mut pipe = Pipe::new(&d, (1500, 0), "x", &SEED);
            for i in 0..200 {
                let mut p = packet(100);
                p.seq = i;
                pipe.receive(Time::ZERO, p, &mut |_| {});
            }
            let mut seqs = Vec::new();
            let mut last = Time::ZERO;
            while let Some((p, _)) = pipe.transmit(pipe.next_wake(), &mut |_| {}) {
                seqs.push(p.seq);
                assert!(pipe.next_wake() >= last);
                last = pipe.next_wake();
            }
            assert_eq!(seqs.is_sorted(), !reorder);
        }
    }

    /// Returns the processor time of this thread, ns, or `None` if this system does not report it.
    #[expect(clippy::disallowed_methods, reason = "a busy machine must not fail a test")]
    fn processor_time() -> Option<u64> {
        std::thread::yield_now(); // brings the count up to date
        std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
    }

    /// The cost of a packet hardly depends on how many are on air.
    #[test]
    fn reordering_many_packets_takes_near_linear_time() {
        let time = |packets: u32| {
            let jitter = Time::from_secs(100);
            let direction = Direction { jitter, reorder: true, ..direction(QueueLimit::Packets(u32::MAX)) };
            let mut pipe = Pipe::new(&direction, (1500, 0), "x", &SEED);
            let start = processor_time();
            for _ in 0..packets {
                pipe.receive(Time::ZERO, packet(100), &mut |_| {});
            }
            let arrived = std::iter::from_fn(|| pipe.transmit(pipe.next_wake(), &mut |_| {})).count();
            assert_eq!(arrived, packets as usize);
            Some(processor_time()? - start?)
        };
        let least = |packets| (0..3).filter_map(|_| time(packets)).min();
        let [Some(few), Some(many)] = [5_000, 80_000].map(least) else {
            eprintln!("skipped: this system does not report the processor time of a thread");
            return;
        };
        assert!(many < 100 * few, "16 times the packets take {many} ns instead of {few} ns");
    }
}
