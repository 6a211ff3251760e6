//! Measurements per round trip. A round ends when data sent after its start is acknowledged.

use crate::units::Time;

/// Number of rounds remembered.
pub(super) const ROUNDS: usize = 8;

/// Measurements of a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// Smallest RTT; [`Time::MAX`] without samples.
    pub(super) least: Time,
    pub(super) most: Time,
    /// Largest increase from one RTT sample to the next.
    jump: Time,
    pub(super) lost: u64,
    pub(super) delivered: u64,
}

impl Round {
    const NEW: Round = Round { least: Time::MAX, most: Time::ZERO, jump: Time::ZERO, lost: 0, delivered: 0 };
}

#[derive(Clone, Debug)]
pub(super) struct Rounds {
    pub(super) count: u64,
    /// Bytes delivered at the start of the round.
    start: u64,
    now: Round,
    /// Newest first.
    past: [Round; ROUNDS],
    last_rtt: Time,
    /// Average of the rounds' largest increases of the RTT.
    pub(super) jump: Time,
}

impl Rounds {
    /// Begins with round `count`, which ends when data sent after the first `delivered` bytes is acknowledged.
    pub(super) fn new(count: u64, delivered: u64) -> Self {
        Rounds {
            count,
            start: delivered,
            now: Round::NEW,
            past: [Round::NEW; ROUNDS],
            last_rtt: Time::ZERO,
            jump: Time::ZERO,
        }
    }

    /// Counts an acknowledgment of data that left after `prior_delivered` bytes had been delivered. Returns true if a
    /// round ends.
    pub(super) fn count(&mut self, lost: u64, newly: u64, prior_delivered: u64, delivered: u64) -> bool {
        self.now.lost += lost;
        self.now.delivered += newly;
        if prior_delivered < self.start {
            return false;
        }
        self.start = delivered;
        self.count += 1;
        self.jump = (self.jump * 7 + self.now.jump) / 8;
        self.past.rotate_right(1);
        self.past[0] = std::mem::replace(&mut self.now, Round::NEW);
        true
    }

    pub(super) fn add_rtt(&mut self, rtt: Time) {
        if !self.last_rtt.is_zero() {
            self.now.jump = self.now.jump.max(rtt.saturating_sub(self.last_rtt));
        }
        self.last_rtt = rtt;
        self.now.least = self.now.least.min(rtt);
        self.now.most = self.now.most.max(rtt);
    }

    /// Returns the round that ended last.
    pub(super) fn last(&self) -> &Round {
        &self.past[0]
    }

    /// Returns the largest RTT of this round and the last.
    pub(super) fn recent_most(&self) -> Time {
        self.now.most.max(self.past[0].most)
    }

    /// Returns the smallest and the largest RTT of the last `n` rounds, at most [`ROUNDS`].
    pub(super) fn extremes(&self, n: usize) -> (Time, Time) {
        let last = &self.past[..n];
        let least = last.iter().map(|round| round.least).min().unwrap_or(Time::MAX);
        let most = last.iter().map(|round| round.most).max().unwrap_or_default();
        (least, most)
    }
}
