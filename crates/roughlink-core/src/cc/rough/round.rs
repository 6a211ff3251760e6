//! Measurements per round trip. A round ends when data sent after its start is acknowledged.

use super::window::SlidingMin;
use crate::units::Time;
use std::cmp::Reverse;

#[derive(Clone, Debug)]
pub(super) struct Rounds {
    pub(super) count: u64,
    /// Bytes delivered at the start of the round.
    start: u64,
    lost: u64,
    delivered: u64,
    last_rtt: Time,
    /// Largest increase from one RTT sample of the round to the next.
    jump: Time,
    /// Average of the rounds' largest increases of the RTT.
    pub(super) mean_jump: Time,
    /// Largest RTTs of this round and of the last.
    max_rtts: [Time; 2],
    /// Smallest and largest RTT of the last rounds.
    pub(super) least: SlidingMin<Time>,
    pub(super) largest: SlidingMin<Reverse<Time>>,
}

impl Rounds {
    /// Begins with round 0, which ends when data is acknowledged that left after `delivered` bytes had been delivered.
    pub(super) fn new(delivered: u64) -> Self {
        Rounds {
            count: 0,
            start: delivered,
            lost: 0,
            delivered: 0,
            last_rtt: Time::ZERO,
            jump: Time::ZERO,
            mean_jump: Time::ZERO,
            max_rtts: [Time::ZERO; 2],
            least: SlidingMin::new(Time::MAX),
            largest: SlidingMin::new(Reverse(Time::ZERO)),
        }
    }

    /// Counts an acknowledgment of data that left after `prior_delivered` bytes had been delivered. Returns the share
    /// of lost bytes, in 1/1024, if a round ends.
    pub(super) fn count(&mut self, lost: u64, newly: u64, prior_delivered: u64, delivered: u64) -> Option<u64> {
        self.lost += lost;
        self.delivered += newly;
        if prior_delivered < self.start {
            return None;
        }
        let share = self.lost * 1024 / (self.lost + self.delivered).max(1);
        (self.lost, self.delivered) = (0, 0);
        self.start = delivered;
        self.count += 1;
        // One late packet must not look like noise. In the first two rounds, the average is not known yet.
        let most = if self.count <= 2 { Time::MAX } else { self.mean_jump.max(MIN_JUMP) * 8 };
        let jump = self.jump.min(most);
        self.mean_jump = (self.mean_jump * 7 + jump) / 8;
        self.jump = Time::ZERO;
        self.max_rtts = [Time::ZERO, self.max_rtts[0]];
        Some(share)
    }

    /// Adds an RTT sample. `memory` is the number of rounds that `least` and `largest` cover.
    pub(super) fn add_rtt(&mut self, rtt: Time, memory: u64) {
        if !self.last_rtt.is_zero() {
            self.jump = self.jump.max(rtt.saturating_sub(self.last_rtt));
        }
        self.last_rtt = rtt;
        self.max_rtts[0] = self.max_rtts[0].max(rtt);
        self.least.update(Time(self.count), Time(memory), rtt);
        self.largest.update(Time(self.count), Time(memory), Reverse(rtt));
    }

    /// Returns the largest RTT of this round and the last.
    pub(super) fn recent_max_rtt(&self) -> Time {
        self.max_rtts[0].max(self.max_rtts[1])
    }
}

/// Lower bound of the average that limits a jump.
const MIN_JUMP: Time = Time::from_millis(1);
