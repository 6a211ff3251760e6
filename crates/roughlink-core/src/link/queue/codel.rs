//! Controlled Delay (RFC 8289). Once the delay of packets has exceeded a target for an interval, packets are dropped or
//! marked. The rate of drops grows with the square root of their number. Dropping ends when a packet has waited less
//! than the target. Follows the pseudo-code of sections 5.3 to 5.6, with marks where Linux sets them (`codel_dequeue`):
//! a marked packet is dequeued, and no other packet is considered.

use super::{CodelConfig, Fifo, QueueTally};
use crate::packet::Packet;
use crate::units::Time;

#[derive(Clone, Debug, Default)]
pub(super) struct Codel {
    /// Time at which the delay will have exceeded the target for an interval (`first_above_time`).
    first_above: Option<Time>,
    dropping: bool,
    /// Time of the next drop, and the number of drops since dropping began.
    drop_next: Time,
    count: u32,
    /// `count` when dropping began the last time.
    last_count: u32,
}

impl Codel {
    /// Returns the next packet of `fifo` that is not dropped.
    pub(super) fn take(
        &mut self,
        now: Time,
        fifo: &mut Fifo,
        config: &CodelConfig,
        tally: &mut QueueTally,
        dropped: &mut dyn FnMut(Packet),
    ) -> Option<(Time, Packet)> {
        let (mut next, mut late) = self.pop(now, fifo, config, tally);
        if self.dropping {
            self.dropping = late;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                let (since, p) = next?; // there is one, because `late` is true
                if let Some(marked) = tally.mark_or_drop(config.ecn, p, dropped) {
                    self.drop_next = control_law(self.drop_next, config.interval, self.count);
                    return Some((since, marked));
                }
                (next, late) = self.pop(now, fifo, config, tally);
                self.dropping = late;
                if late {
                    self.drop_next = control_law(self.drop_next, config.interval, self.count);
                }
            }
        } else if late {
            let (since, p) = next?;
            next = match tally.mark_or_drop(config.ecn, p, dropped) {
                Some(marked) => Some((since, marked)),
                None => self.pop(now, fifo, config, tally).0,
            };
            self.dropping = true;
            // Start from the last drop rate if it was used recently.
            let delta = self.count.saturating_sub(self.last_count);
            let recent = now < self.drop_next + config.interval * 16;
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = control_law(now, config.interval, self.count);
            self.last_count = self.count;
        }
        next
    }

    /// Returns the next packet, and true if it may be dropped: the delay has exceeded the target for an interval.
    fn pop(
        &mut self,
        now: Time,
        fifo: &mut Fifo,
        config: &CodelConfig,
        tally: &mut QueueTally,
    ) -> (Option<(Time, Packet)>, bool) {
        let next = fifo.pop(now, tally);
        let above = next.is_some_and(|(since, _)| now - since >= config.target) && fifo.bytes > tally.largest.into();
        let late = match self.first_above {
            _ if !above => {
                self.first_above = None;
                false
            }
            None => {
                self.first_above = Some(now + config.interval);
                false
            }
            Some(at) => now >= at,
        };
        (next, late)
    }
}

/// Returns the next drop time after `t` (section 5.3).
fn control_law(t: Time, interval: Time, count: u32) -> Time {
    t + Time((interval.0 as f64 / libm::sqrt(f64::from(count.max(1)))) as u64)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SEED, packet};
    use super::super::{ActiveQueue, Discipline};
    use super::*;
    use crate::packet::Ecn;
    use crate::units::QueueLimit;

    const MS: fn(u64) -> Time = Time::from_millis;
    const RFC: CodelConfig = CodelConfig { target: Time::from_millis(5), interval: Time::from_millis(100), ecn: true };

    /// Keeps `waiting` packets queued while one arrives and one leaves per ms. Returns the times of drops or marks.
    fn decisions(queue: &mut ActiveQueue, waiting: u64, ecn: Ecn, (from, to): (u64, u64)) -> Vec<u64> {
        let mut at = Vec::new();
        while (queue.len() as u64) < waiting {
            queue.put(MS(from), packet(0, 0, 1000, ecn), &mut |_| {});
        }
        for now in from + 1..to {
            let mut dropped = 0;
            let p = queue.take(MS(now), &mut |_| dropped += 1);
            let marked = u64::from(p.is_some_and(|p| p.ecn() == Ecn::Ce));
            at.extend((0..dropped + marked).map(|_| now));
            while (queue.len() as u64) < waiting {
                queue.put(MS(now), packet(0, 0, 1000, ecn), &mut |_| {});
            }
        }
        at
    }

    fn codel(ecn: bool) -> ActiveQueue {
        ActiveQueue::new(&Discipline::Codel(CodelConfig { ecn, ..RFC }), QueueLimit::Packets(1000), "x", &SEED)
    }

    /// Packets wait for 20 ms. The delay reaches the target of 5 ms at 5 ms; an interval later the first packet is
    /// dropped. The next drops follow after 100, 100 / sqrt(2), 100 / sqrt(3) ... ms (section 4.3: 100 ms at n = 1).
    #[test]
    fn drop_rate_follows_the_square_root() {
        for (ecn, mark) in [(Ecn::NotEct, true), (Ecn::Ect0, true), (Ecn::Ect0, false)] {
            let at = decisions(&mut codel(mark), 20, ecn, (0, 700));
            let mut expected = vec![105.0_f64];
            let mut next = 205.0;
            for n in 2..30 {
                expected.push(next);
                next += 100.0 / libm::sqrt(f64::from(n));
            }
            let expected: Vec<u64> = expected.into_iter().map(|t| t.ceil() as u64).filter(|t| *t < 700).collect();
            assert_eq!(at, expected);
        }
    }

    #[test]
    fn short_queue_or_burst_is_not_dropped() {
        assert!(decisions(&mut codel(true), 4, Ecn::Ect0, (0, 5000)).is_empty(), "less than the target");
        let mut q = codel(true);
        // 90 packets that arrive at once have left after 90 ms.
        (0..90).for_each(|n| q.put(Time::ZERO, packet(0, n, 1000, Ecn::Ect0), &mut |_| {}));
        for now in 1..=90 {
            assert!(q.take(MS(now), &mut |_| panic!("dropped")).is_some_and(|p| p.ecn() == Ecn::Ect0));
        }
        // One packet at a time, however long it waits: dropping it would leave the link idle.
        let mut q = codel(true);
        for n in 0..50 {
            q.put(MS(200 * n), packet(0, 0, 1000, Ecn::Ect0), &mut |_| {});
            assert!(q.take(MS(200 * n + 150), &mut |_| panic!("dropped")).is_some_and(|p| p.ecn() == Ecn::Ect0));
        }
    }

    /// Section 5.5: dropping that resumes soon continues at the rate reached, otherwise it starts over.
    #[test]
    fn drop_rate_is_remembered_for_a_while() {
        for (pause, expected) in [(300, 100.0 / libm::sqrt(13.0)), (2000, 100.0)] {
            let mut q = codel(false);
            let before = decisions(&mut q, 20, Ecn::NotEct, (0, 700));
            assert_eq!(before.len(), 14);
            while q.take(MS(700), &mut |_| {}).is_some() {}
            let from = 700 + pause;
            let again = decisions(&mut q, 20, Ecn::NotEct, (from, from + 400));
            let gap = again[1] - again[0];
            assert!((gap as f64 - expected).abs() <= 1.0, "{again:?}");
        }
    }

    #[test]
    fn marked_packets_stay_and_are_counted() {
        let mut q = codel(true);
        let at = decisions(&mut q, 20, Ecn::Ect0, (0, 700));
        assert_eq!((q.stats().marked, q.stats().dropped), (at.len() as u64, 0));
    }
}
