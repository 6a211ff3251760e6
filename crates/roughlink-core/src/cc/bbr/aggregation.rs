//! ACK aggregation (Linux `bbr_update_ack_aggregation`): the recent excess of acknowledged bytes over bandwidth x time.
//! The window includes this excess, so that sending continues between bunches of ACKs.

use super::Params;
use crate::units::Time;

/// Largest excess of the last rounds, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregation {
    /// Largest excess in this and in the previous window of rounds.
    excess: [u64; 2],
    rounds: u32,
    epoch: Time,
    /// Bytes acknowledged in this epoch.
    acked: u64,
    /// Resolution of the clock; zero if it counts nanoseconds.
    tick: Time,
}

impl Aggregation {
    pub(super) fn new(p: &Params, now: Time) -> Self {
        let tick = Time::from_secs_f64(p.aggregation_tick_ms / 1e3);
        Aggregation { excess: [0; 2], rounds: 0, epoch: now, acked: 0, tick }
    }

    pub(super) fn restart(&mut self, now: Time) {
        self.epoch = now;
        self.acked = 0;
    }

    /// Returns the largest recent excess, in bytes.
    pub(super) fn max(&self) -> u64 {
        self.excess[0].max(self.excess[1])
    }

    /// Adds `acked` bytes acknowledged at `now`; `bandwidth` is in bytes per second. The excess is at most `cwnd`.
    pub(super) fn update(&mut self, p: &Params, now: Time, round_start: bool, bandwidth: u64, acked: u64, cwnd: u64) {
        if round_start {
            self.rounds += 1;
            if self.rounds >= p.aggregation_rounds {
                self.rounds = 0;
                self.excess = [0, self.excess[0]];
            }
        }
        let mut elapsed = now.saturating_sub(self.epoch);
        if !self.tick.is_zero() {
            elapsed.0 -= elapsed.0 % self.tick.0;
        }
        let mut expected = carried(bandwidth, elapsed);
        // Begin a new epoch if ACKs arrive no faster than the path delivers, or if the epoch is too long.
        if self.acked <= expected || self.acked + acked >= p.aggregation_reset {
            self.restart(now);
            expected = 0;
        }
        self.acked += acked;
        self.excess[0] = self.excess[0].max((self.acked - expected).min(cwnd));
    }
}

/// Returns the bytes that `bandwidth` (bytes per second) carries in `time`.
pub(in crate::cc) fn carried(bandwidth: u64, time: Time) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    match bandwidth.checked_mul(time.0) {
        Some(product) => product / SECOND, // nearly always
        None => u64::try_from(u128::from(bandwidth) * u128::from(time.0) / u128::from(SECOND)).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rate;

    #[test]
    fn bunched_acks_give_their_excess() {
        let p = Params::default();
        let bandwidth = Rate::from_mbps(8).bytes_per_sec(); // 1 kB per ms
        let mut a = Aggregation::new(&p, Time::ZERO);
        // Evenly spaced ACKs: each begins an epoch, so the excess is a single ACK.
        for ms in 1..=20 {
            a.update(&p, Time::from_millis(ms), false, bandwidth, 1000, 1_000_000);
        }
        assert_eq!(a.max(), 1000);
        // Ten milliseconds without ACKs, then ten ACKs at once.
        for _ in 0..10 {
            a.update(&p, Time::from_millis(30), false, bandwidth, 1000, 1_000_000);
        }
        assert_eq!(a.max(), 10_000);
        // The excess is at most the window, and is forgotten after two windows of rounds.
        for _ in 0..10 {
            a.update(&p, Time::from_millis(30), true, bandwidth, 1000, 12_000);
        }
        assert_eq!(a.max(), 12_000);
        for ms in 100..120 {
            a.update(&p, Time::from_millis(ms), true, bandwidth, 1000, 12_000);
        }
        assert_eq!(a.max(), 1000);
    }

    /// ns-3.44 `TcpBbr::UpdateAckAggregation` holds the length of an epoch in a `uint32_t` of seconds. Within the first
    /// second the expected amount is zero, and an epoch ends before it reaches 4096 bytes.
    #[test]
    fn ns3_expects_no_bytes_within_the_first_second() {
        let p = Params { aggregation_tick_ms: 1000.0, aggregation_reset: 4096, ..Params::default() };
        let bandwidth = Rate::from_mbps(8).bytes_per_sec();
        let mut a = Aggregation::new(&p, Time::ZERO);
        for ms in 1..=20 {
            a.update(&p, Time::from_millis(ms), false, bandwidth, 1072, 1_000_000);
        }
        assert_eq!(a.max(), 3 * 1072);
    }
}
