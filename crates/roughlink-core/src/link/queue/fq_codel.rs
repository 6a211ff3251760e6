//! Flow queue CoDel (RFC 8290): a hash spreads flows over queues, CoDel controls each queue, and deficit round robin
//! serves them. New and sparse flows have priority over flows with a backlog. CoDel does not drop from a queue of at
//! most one maximum packet. This check counts the bytes of the flow's own queue, as in RFC 8289 (Linux counts all
//! queues). The maximum packet is the largest in any queue, as in Linux. The hash covers the name and direction of a
//! flow, so its queue does not depend on other flows.

use super::codel::Codel;
use super::{CodelConfig, Fifo, QueueTally, reaches};
use crate::packet::{FlowId, Packet};
use crate::rng::RandomField;
use crate::units::{QueueLimit, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct FqCodel {
    codel: CodelConfig,
    quantum: i64,
    hash: RandomField,
    /// Hash key of each flow, by its number.
    keys: Arc<[u64]>,
    /// Number of queues, and those that have been used.
    number: u32,
    flows: BTreeMap<u32, FlowQueue>,
    /// Numbers of the new queues and of the old queues, each list in order of service.
    new: VecDeque<u32>,
    old: VecDeque<u32>,
}

#[derive(Debug, Default)]
struct FlowQueue {
    fifo: Fifo,
    codel: Codel,
    /// Bytes that it may still send in its turn.
    credit: i64,
    listed: bool,
}

impl FqCodel {
    pub(super) fn new(codel: CodelConfig, flows: u32, quantum: u32, hash: RandomField) -> Self {
        FqCodel {
            codel,
            quantum: i64::from(quantum.max(1)),
            hash,
            keys: Arc::default(),
            number: flows.max(1),
            flows: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
        }
    }

    pub(super) fn identify(&mut self, keys: &Arc<[u64]>) {
        self.keys = Arc::clone(keys);
    }

    /// Returns the queue of a flow (section 4.1.1). Flows that only pass from port to port use their number as key.
    fn queue_of(&self, flow: FlowId) -> u32 {
        let key = self.keys.get(flow.index()).copied().unwrap_or(flow.index() as u64);
        (self.hash.unit(key, u64::from(flow.reverse())) * f64::from(self.number)) as u32
    }

    /// Enqueues a packet, and drops packets if the limit is exceeded (sections 4.1.2 and 4.1.3).
    pub(super) fn put(
        &mut self,
        now: Time,
        p: Packet,
        limit: QueueLimit,
        tally: &mut QueueTally,
        dropped: &mut dyn FnMut(Packet),
    ) {
        let index = self.queue_of(p.flow);
        let flow = self.flows.entry(index).or_default();
        flow.fifo.push(now, p, tally);
        if !flow.listed {
            (flow.listed, flow.credit) = (true, self.quantum);
            self.new.push_back(index);
        }
        let over = match limit {
            QueueLimit::Packets(n) => QueueLimit::Packets(n.saturating_add(1)),
            QueueLimit::Bytes(b) => QueueLimit::Bytes(b.saturating_add(1)),
        };
        while tally.packets > 1 && reaches(tally.packets, tally.bytes, over) {
            self.drop_from_longest(now, tally, dropped);
        }
    }

    /// Drops half of the bytes, but at most [`BATCH`] packets, from the head of the queue with the most bytes.
    fn drop_from_longest(&mut self, now: Time, tally: &mut QueueTally, dropped: &mut dyn FnMut(Packet)) {
        let Some(fattest) = self.flows.values_mut().rev().max_by_key(|f| f.fifo.bytes) else { return };
        let half = fattest.fifo.bytes / 2;
        for _ in 0..BATCH {
            let Some((_, p)) = fattest.fifo.pop(now, tally) else { return };
            dropped(p);
            if fattest.fifo.bytes <= half {
                return;
            }
        }
    }

    /// Dequeues the next packet (section 4.2).
    pub(super) fn take(
        &mut self,
        now: Time,
        tally: &mut QueueTally,
        dropped: &mut dyn FnMut(Packet),
    ) -> Option<(Time, Packet)> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let flow = self.flows.entry(index).or_default();
            if flow.credit <= 0 {
                flow.credit += self.quantum;
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            if let Some((since, p)) = flow.codel.take(now, &mut flow.fifo, &self.codel, tally, dropped) {
                flow.credit -= i64::from(p.size);
                return Some((since, p));
            }
            list.pop_front();
            // A new queue that became empty moves to the end of the old ones, so that pausing gains no priority.
            if is_new && !self.old.is_empty() {
                self.old.push_back(index);
            } else {
                flow.listed = false;
            }
        }
    }

    pub(super) fn fifos(&self) -> impl Iterator<Item = &Fifo> {
        self.flows.values().map(|f| &f.fifo)
    }

    /// Returns the memory of the queues, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.flows.len() * size_of::<FlowQueue>()
    }
}

/// Largest number of packets dropped at once (Linux `drop_batch`; section 4.1.3).
const BATCH: usize = 64;

#[cfg(test)]
mod tests {
    use super::super::tests::{SEED, packet};
    use super::super::{ActiveQueue, Discipline};
    use super::*;
    use crate::packet::Ecn;

    fn fq(limit: QueueLimit) -> ActiveQueue {
        let codel = CodelConfig { target: Time::from_millis(5), interval: Time::from_millis(100), ecn: true };
        ActiveQueue::new(&Discipline::FqCodel { codel, flows: 1024, quantum: 1514 }, limit, "x", &SEED)
    }
    fn put(q: &mut ActiveQueue, flow: u32, seq: u32, size: u16) {
        q.put(Time::ZERO, packet(flow, seq, size, Ecn::NotEct), &mut |_| panic!("dropped"));
    }
    fn take(q: &mut ActiveQueue) -> Option<(usize, u32)> {
        q.take(Time::ZERO, &mut |_| panic!("dropped")).map(|p| (p.flow.index(), p.seq))
    }

    #[test]
    fn flows_share_bytes_equally_at_any_packet_size() {
        let mut q = fq(QueueLimit::Packets(10_000));
        for seq in 0..1500 {
            put(&mut q, 0, seq, 1500);
            put(&mut q, 1, seq, 300);
        }
        let mut bytes = [0_u32; 2];
        for _ in 0..600 {
            let (flow, _) = take(&mut q).unwrap();
            bytes[flow] += [1500, 300][flow];
        }
        assert!(bytes[0].abs_diff(bytes[1]) <= 2 * 1514, "{bytes:?}");
    }

    #[test]
    fn new_flow_goes_first_once() {
        let mut q = fq(QueueLimit::Packets(10_000));
        (0..20).for_each(|seq| put(&mut q, 0, seq, 1500));
        // The turn as a new flow ends when the quantum is spent.
        assert_eq!([take(&mut q), take(&mut q)], [Some((0, 0)), Some((0, 1))]);
        (0..3).for_each(|seq| put(&mut q, 1, seq, 1000));
        assert_eq!([take(&mut q), take(&mut q)], [Some((1, 0)), Some((1, 1))]);
        // The quantum is spent: both flows alternate.
        let next: Vec<_> = (0..4).filter_map(|_| take(&mut q)).collect();
        assert!(next.iter().any(|n| n.0 == 1) && next.iter().filter(|n| n.0 == 0).count() == 3, "{next:?}");
    }

    /// A flow that pauses cannot hold up the others: once its queue is empty, it takes a turn among the old queues.
    #[test]
    fn flow_that_pauses_is_not_new_again() {
        let mut q = fq(QueueLimit::Packets(10_000));
        (0..100).for_each(|seq| put(&mut q, 0, seq, 100));
        (0..16).for_each(|seq| assert_eq!(take(&mut q), Some((0, seq)))); // its quantum
        put(&mut q, 1, 0, 100);
        assert_eq!([take(&mut q), take(&mut q)], [Some((1, 0)), Some((0, 16))]);
        put(&mut q, 1, 1, 100);
        let served: Vec<usize> = (0..20).filter_map(|_| take(&mut q)).map(|t| t.0).collect();
        assert_eq!(served.iter().position(|f| *f == 1), Some(14), "{served:?}");
    }

    #[test]
    fn overflow_drops_from_head_of_longest_flow() {
        let mut q = fq(QueueLimit::Packets(100));
        for seq in 0..10 {
            put(&mut q, 1, seq, 1500);
        }
        let mut dropped = Vec::new();
        for seq in 0..91 {
            q.put(Time::ZERO, packet(0, seq, 1000, Ecn::Ect0), &mut |p| dropped.push((p.flow.index(), p.seq)));
        }
        let half: Vec<_> = (0..46).map(|seq| (0, seq)).collect();
        assert_eq!((dropped, q.len()), (half, 55));
        assert_eq!((q.stats().dropped, q.stats().marked), (0, 0), "there was no space: not a decision of CoDel");
        let mut q = fq(QueueLimit::Bytes(1));
        put(&mut q, 0, 0, 1500);
        assert_eq!(take(&mut q), Some((0, 0)), "one packet may always wait");
    }

    #[test]
    fn flows_spread_over_the_buckets() {
        let codel = CodelConfig { target: Time::ZERO, interval: Time::ZERO, ecn: false };
        let fq = FqCodel::new(codel, 1024, 1514, SEED.field("x", "hash"));
        let mut used: Vec<u32> = (0..300).map(|i| fq.queue_of(FlowId::new(i, i % 2 == 0))).collect();
        used.sort_unstable();
        used.dedup();
        // 300 balls in 1024 bins leave 1024 (1 - (1 - 1/1024)^300) = 260 bins in use, give or take 5.
        assert!((240..280).contains(&used.len()), "{}", used.len());
    }
}
