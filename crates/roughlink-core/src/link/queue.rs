//! Queue disciplines: choose the packet that leaves next, and mark or drop packets.
//!
//! Without a discipline, a pipe is first in, first out, and computes departures when packets enter ([`super::pipe`]).
//! With one, packets wait here, and the pipe fetches the next when its serializer becomes free. Decisions at dequeue
//! time (CoDel) thus happen at the right time, and later packets can go first. In every discipline, a packet that is
//! not ECN-capable is dropped where another would be marked with CE (RFC 3168 section 5). The link's `queue` is the
//! limit, with `prio` of each band; one packet may always wait. Packets count by IP length.

mod bucket;
mod codel;
mod fq_codel;

use super::timeline::Changes;
use crate::packet::Packet;
use crate::quantiles::Histogram;
use crate::rng::Seed;
use crate::units::{QueueLimit, Time};
use bucket::Bucket;
pub use bucket::BucketConfig;
use codel::Codel;
use fq_codel::FqCodel;
use std::collections::VecDeque;
use std::sync::Arc;

/// A queue discipline.
#[derive(Clone, Debug, PartialEq)]
pub enum Discipline {
    /// First in, first out, with a marking threshold, as for DCTCP (RFC 8257 section 3.1).
    Threshold {
        /// Number of waiting packets or bytes at which a new packet is marked; the new packet does not count.
        at: QueueLimit,
    },
    /// Controlled Delay (RFC 8289).
    Codel(CodelConfig),
    /// CoDel per flow, with deficit round robin among flows (RFC 8290).
    FqCodel {
        /// CoDel parameters of each flow's queue.
        codel: CodelConfig,
        /// Queues over which flows are spread.
        flows: u32,
        /// Bytes that a flow sends per turn.
        quantum: u32,
    },
    /// First in, first out, shaped by a token bucket (`tbf`).
    Tbf(BucketConfig),
    /// Policer: first in, first out; a packet is dropped on arrival if the token bucket lacks its tokens.
    Police(BucketConfig),
    /// Strict priority among bands, each first in, first out.
    Prio {
        /// Number of bands, 1 to 16; the first has the highest priority.
        bands: u8,
        /// DSCPs (bit by number) that belong to the first band, overriding Linux's table.
        first: u64,
    },
}

/// The parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelConfig {
    /// Acceptable standing delay in the queue (TARGET).
    pub target: Time,
    /// Time after which a delay counts as persistent: about a round-trip time (INTERVAL).
    pub interval: Time,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

impl Discipline {
    /// Returns true if the discipline uses random numbers, which it does to hash flows.
    pub fn is_random(&self) -> bool {
        matches!(self, Discipline::FqCodel { flows, .. } if *flows > 1)
    }
}

/// Counters of a discipline.
#[derive(Clone, Debug, Default)]
pub struct QueueStats {
    /// Packets marked with CE.
    pub marked: u64,
    /// Packets dropped despite free space.
    pub dropped: u64,
    /// Queueing delays of packets served, ns.
    pub delay: Histogram,
}

/// A discipline in operation.
#[derive(Debug)]
pub(super) struct ActiveQueue {
    kind: QueueKind,
    limit: QueueLimit,
    tally: QueueTally,
    /// Time when the next packet goes into service; [`Time::MAX`] while none waits.
    next: Time,
}

#[derive(Debug)]
enum QueueKind {
    Threshold(QueueLimit, Fifo),
    Codel(CodelConfig, Codel, Fifo),
    FqCodel(Box<FqCodel>),
    Prio(Vec<Fifo>, u64),
    Tbf(Bucket, Fifo),
    Police(Bucket, Fifo),
}

/// Totals over all queues of a discipline.
#[derive(Debug, Default)]
struct QueueTally {
    packets: usize,
    bytes: u64,
    /// Sum of the enqueue times of waiting packets, ns.
    since: u128,
    /// Total waiting time of packets served or dropped, ns.
    waited: u128,
    /// When the last packet that waited was served or dropped.
    waited_until: Time,
    /// Largest packet so far, bytes: MAXPACKET of CoDel.
    largest: u16,
    stats: QueueStats,
}

/// Packets in order of arrival, with their arrival times.
#[derive(Debug, Default)]
struct Fifo {
    packets: VecDeque<(Time, Packet)>,
    bytes: u64,
}

impl Fifo {
    fn push(&mut self, now: Time, p: Packet, tally: &mut QueueTally) {
        self.bytes += u64::from(p.size);
        tally.packets += 1;
        tally.bytes += u64::from(p.size);
        tally.since += u128::from(now.0);
        tally.largest = tally.largest.max(p.size);
        self.packets.push_back((now, p));
    }

    fn pop(&mut self, now: Time, tally: &mut QueueTally) -> Option<(Time, Packet)> {
        let (since, p) = self.packets.pop_front()?;
        self.bytes -= u64::from(p.size);
        tally.packets -= 1;
        tally.bytes -= u64::from(p.size);
        tally.since -= u128::from(since.0);
        tally.waited += u128::from((now - since).0);
        if now > since {
            tally.waited_until = now;
        }
        Some((since, p))
    }

    fn is_full(&self, limit: QueueLimit, size: u16) -> bool {
        !self.packets.is_empty() && reaches(self.packets.len(), self.bytes + u64::from(size) - 1, limit)
    }
}

fn reaches(packets: usize, bytes: u64, limit: QueueLimit) -> bool {
    match limit {
        QueueLimit::Packets(n) => packets >= n as usize,
        QueueLimit::Bytes(b) => bytes >= b,
    }
}

impl QueueTally {
    /// Marks `p` if it can be marked; otherwise passes it to `dropped`.
    fn mark_or_drop(&mut self, ecn: bool, mut p: Packet, dropped: &mut dyn FnMut(Packet)) -> Option<Packet> {
        if ecn && p.mark() {
            self.stats.marked += 1;
            return Some(p);
        }
        self.drop_early(p, dropped);
        None
    }

    fn drop_early(&mut self, p: Packet, dropped: &mut dyn FnMut(Packet)) {
        self.stats.dropped += 1;
        dropped(p);
    }
}

impl ActiveQueue {
    pub(super) fn new(discipline: &Discipline, limit: QueueLimit, name: &str, seed: &Seed) -> Self {
        let kind = match *discipline {
            Discipline::Threshold { at } => QueueKind::Threshold(at, Fifo::default()),
            Discipline::Codel(config) => QueueKind::Codel(config, Codel::default(), Fifo::default()),
            Discipline::FqCodel { codel, flows, quantum } => {
                QueueKind::FqCodel(Box::new(FqCodel::new(codel, flows, quantum, seed.field(name, "hash"))))
            }
            Discipline::Tbf(config) => QueueKind::Tbf(Bucket::new(config), Fifo::default()),
            Discipline::Police(config) => QueueKind::Police(Bucket::new(config), Fifo::default()),
            Discipline::Prio { bands, first } => {
                QueueKind::Prio((0..bands.max(1)).map(|_| Fifo::default()).collect(), first)
            }
        };
        ActiveQueue { kind, limit, tally: QueueTally::default(), next: Time::MAX }
    }

    /// Sets the hash keys of flows, if the discipline hashes them.
    pub(super) fn identify(&mut self, keys: &Arc<[u64]>) {
        if let QueueKind::FqCodel(fq) = &mut self.kind {
            fq.identify(keys);
        }
    }

    /// Enqueues a packet. Passes to `dropped` all packets that do not fit or that the discipline drops.
    pub(super) fn put(&mut self, now: Time, p: Packet, dropped: &mut dyn FnMut(Packet)) {
        let tally = &mut self.tally;
        match &mut self.kind {
            QueueKind::FqCodel(fq) => fq.put(now, p, self.limit, tally, dropped),
            QueueKind::Threshold(at, fifo) => {
                let crossed = reaches(fifo.packets.len(), fifo.bytes, *at);
                if fifo.is_full(self.limit, p.size) {
                    dropped(p);
                } else if let Some(p) = if crossed { tally.mark_or_drop(true, p, dropped) } else { Some(p) } {
                    fifo.push(now, p, tally);
                }
            }
            QueueKind::Codel(_, _, fifo) => fifo.put(now, p, self.limit, tally, dropped),
            QueueKind::Tbf(bucket, fifo) => match bucket.can_ever_pass(p.size) {
                true => fifo.put(now, p, self.limit, tally, dropped),
                false => tally.drop_early(p, dropped),
            },
            QueueKind::Police(bucket, fifo) => match bucket.pass(now, p.size) {
                true => fifo.put(now, p, self.limit, tally, dropped),
                false => tally.drop_early(p, dropped),
            },
            QueueKind::Prio(bands, first) => {
                let band = band(p.dscp(), *first).min(bands.len() - 1);
                bands[band].put(now, p, self.limit, tally, dropped);
            }
        }
    }

    /// Returns the packet that goes into service now, if any. Packets to drop go to `dropped` first.
    pub(super) fn take(&mut self, now: Time, dropped: &mut dyn FnMut(Packet)) -> Option<Packet> {
        let tally = &mut self.tally;
        let (since, p) = match &mut self.kind {
            QueueKind::Threshold(_, fifo) | QueueKind::Police(_, fifo) => fifo.pop(now, tally),
            QueueKind::Tbf(bucket, fifo) => {
                let next = fifo.pop(now, tally);
                if let Some((_, p)) = &next {
                    bucket.pass(now, p.size); // `schedule` waited for its tokens
                }
                next
            }
            QueueKind::Codel(config, codel, fifo) => codel.take(now, fifo, config, tally, dropped),
            QueueKind::FqCodel(fq) => fq.take(now, tally, dropped),
            QueueKind::Prio(bands, _) => bands.iter_mut().find_map(|band| band.pop(now, tally)),
        }?;
        tally.stats.delay.record((now - since).0);
        Some(p)
    }

    pub(super) fn len(&self) -> usize {
        self.tally.packets
    }

    /// Returns when the next packet goes into service; [`Time::MAX`] while no packet waits.
    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// Updates the time of the next service after a change of the serializer of `changes`.
    pub(super) fn schedule(&mut self, now: Time, changes: &Changes) {
        self.next = if self.len() == 0 { Time::MAX } else { changes.free_at(now) };
        if let QueueKind::Tbf(bucket, fifo) = &mut self.kind
            && let Some((_, first)) = fifo.packets.front()
        {
            self.next = self.next.max(bucket.ready_at(now, first.size));
        }
    }

    /// Returns the total waiting time of packets by `now`, ns, and when the last one stopped waiting.
    pub(super) fn waited(&self, now: Time) -> (u128, Time) {
        let waited = self.tally.waited + self.len() as u128 * u128::from(now.0) - self.tally.since;
        (waited, if self.len() > 0 { now } else { self.tally.waited_until })
    }

    pub(super) fn stats(&self) -> &QueueStats {
        &self.tally.stats
    }

    pub(super) fn packets(&self) -> impl Iterator<Item = &Packet> {
        let fifos: Vec<&Fifo> = match &self.kind {
            QueueKind::Threshold(_, fifo) | QueueKind::Codel(_, _, fifo) => vec![fifo],
            QueueKind::Tbf(_, fifo) | QueueKind::Police(_, fifo) => vec![fifo],
            QueueKind::FqCodel(fq) => fq.fifos().collect(),
            QueueKind::Prio(bands, _) => bands.iter().collect(),
        };
        fifos.into_iter().flat_map(|fifo| &fifo.packets).map(|(_, p)| p)
    }

    /// Returns the memory of waiting packets, bytes.
    pub(super) fn bytes(&self) -> usize {
        let queues = if let QueueKind::FqCodel(fq) = &self.kind { fq.bytes() } else { 0 };
        self.len() * size_of::<(Time, Packet)>() + queues
    }
}

impl Fifo {
    /// Enqueues a packet, drop-tail.
    fn put(
        &mut self,
        now: Time,
        p: Packet,
        limit: QueueLimit,
        tally: &mut QueueTally,
        dropped: &mut dyn FnMut(Packet),
    ) {
        if self.is_full(limit, p.size) {
            dropped(p);
        } else {
            self.push(now, p, tally);
        }
    }
}

/// Returns the band of a packet. Linux maps the type of service, today the low three bits of the DSCP, to a priority
/// (`rt_tos2priority`). The default `priomap` of `prio` and `pfifo_fast` maps the priority to a band.
fn band(dscp: u8, first: u64) -> usize {
    if first >> dscp & 1 == 1 {
        return 0;
    }
    match dscp & 0b111 {
        0b000 | 0b001 => 1, // best effort
        0b010 | 0b011 => 2, // bulk
        0b100 | 0b101 => 0, // interactive
        _ => 1,             // interactive bulk
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Ecn, FlowId};

    pub(super) const SEED: Seed = Seed { seed: 1, replica: 0 };

    pub(super) fn packet(flow: u32, seq: u32, size: u16, ecn: Ecn) -> Packet {
        let mut p = Packet::tcp(FlowId::new(flow, false));
        (p.seq, p.size) = (seq, size);
        p.set_ecn(ecn);
        p
    }

    fn drain(q: &mut ActiveQueue, now: Time) -> Vec<Packet> {
        std::iter::from_fn(|| q.take(now, &mut |_| panic!("nothing is dropped"))).collect()
    }

    #[test]
    fn threshold_marks_or_drops_every_packet_above_it() {
        for (at, limit) in
            [(QueueLimit::Packets(3), QueueLimit::Packets(6)), (QueueLimit::Bytes(3000), QueueLimit::Bytes(6000))]
        {
            let mut q = ActiveQueue::new(&Discipline::Threshold { at }, limit, "x", &SEED);
            let mut dropped = Vec::new();
            for seq in 0..8 {
                let ecn = if seq == 4 { Ecn::NotEct } else { Ecn::Ect0 };
                q.put(Time(u64::from(seq)), packet(0, seq, 1000, ecn), &mut |p| dropped.push(p.seq));
            }
            // Number 4 cannot be marked; number 7 finds the queue full.
            assert_eq!((dropped, q.stats().marked, q.stats().dropped, q.len()), (vec![4, 7], 3, 1, 6));
            assert_eq!(q.waited(Time(10)), (10 + 9 + 8 + 7 + 5 + 4, Time(10)));
            let out = drain(&mut q, Time(10));
            let marked: Vec<u32> = out.iter().filter(|p| p.ecn() == Ecn::Ce).map(|p| p.seq).collect();
            assert_eq!((marked, out.len(), q.waited(Time(20))), (vec![3, 5, 6], 6, (43, Time(10))));
        }
    }

    #[test]
    fn bands_match_linux() {
        // tc's `prio` for the types of service 0x00, 0x08, 0x10, 0x18, and a DSCP of which these are the low bits.
        for (dscp, expected) in [(0, 1), (2, 2), (4, 0), (6, 1), (8, 1), (10, 2), (12, 0), (46, 1)] {
            assert_eq!(band(dscp, 0), expected, "{dscp}");
        }
        assert_eq!(band(46, 1 << 46), 0);
        let mut q =
            ActiveQueue::new(&Discipline::Prio { bands: 3, first: 1 << 46 }, QueueLimit::Packets(2), "x", &SEED);
        let mut dropped = Vec::new();
        for (seq, dscp) in [(0, 0), (1, 10), (2, 46), (3, 0), (4, 0), (5, 46), (6, 10)] {
            let mut p = packet(0, seq, 100, Ecn::NotEct);
            p.set_dscp(dscp);
            q.put(Time(0), p, &mut |p| dropped.push(p.seq));
        }
        assert_eq!(dropped, [4], "each band has the limit");
        assert_eq!(q.packets().count(), 6);
        let out: Vec<u32> = drain(&mut q, Time(0)).iter().map(|p| p.seq).collect();
        assert_eq!(out, [2, 5, 0, 3, 1, 6]);
    }
}
