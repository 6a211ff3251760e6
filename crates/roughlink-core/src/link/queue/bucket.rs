//! Token bucket, as in `tbf` (sch_tbf.c) and the policer (act_police.c) of Linux 6.18. Packets count with their IP
//! length; Linux also counts Ethernet headers.

use crate::units::{Rate, Time};

/// Mean rate, and the burst allowed above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketConfig {
    /// Rate at which the bucket fills.
    pub rate: Rate,
    /// Size of the bucket, bytes; it is full at the start.
    pub burst: u64,
}

/// Token bucket in operation. A token is 1e-9 bit to avoid rounding: a nanosecond adds as many as the rate in bit/s.
#[derive(Debug)]
pub(super) struct Bucket {
    config: BucketConfig,
    tokens: u128,
    /// Time up to which the bucket was filled.
    filled: Time,
}

impl Bucket {
    pub(super) fn new(config: BucketConfig) -> Self {
        Bucket { config, tokens: cost(config.burst), filled: Time::ZERO }
    }

    /// Returns true if a packet of `size` bytes fits into a full bucket.
    pub(super) fn can_ever_pass(&self, size: u16) -> bool {
        u64::from(size) <= self.config.burst
    }

    /// Returns the first time from `now` on at which the bucket holds the tokens of a packet of `size` bytes.
    pub(super) fn ready_at(&mut self, now: Time, size: u16) -> Time {
        self.fill(now);
        let missing = cost(u64::from(size)).saturating_sub(self.tokens);
        if missing == 0 {
            return now;
        }
        let ns = missing
            .checked_div(u128::from(self.config.rate.0))
            .map(|whole| whole + u128::from(!missing.is_multiple_of(u128::from(self.config.rate.0))));
        ns.and_then(|ns| u64::try_from(ns).ok()).map_or(Time::MAX, |ns| now.saturating_add(Time(ns)))
    }

    /// Takes the tokens of a packet of `size` bytes; returns false, and takes none, if there are too few.
    pub(super) fn pass(&mut self, now: Time, size: u16) -> bool {
        self.fill(now);
        let left = self.tokens.checked_sub(cost(u64::from(size)));
        self.tokens = left.unwrap_or(self.tokens);
        left.is_some()
    }

    fn fill(&mut self, now: Time) {
        let come = u128::from((now - self.filled).0) * u128::from(self.config.rate.0);
        self.tokens = (self.tokens + come).min(cost(self.config.burst));
        self.filled = now;
    }
}

fn cost(bytes: u64) -> u128 {
    u128::from(bytes) * 8_000_000_000
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SEED, packet};
    use super::super::{ActiveQueue, Discipline};
    use super::*;
    use crate::packet::Ecn;
    use crate::units::QueueLimit;

    const CONFIG: BucketConfig = BucketConfig { rate: Rate::from_mbps(8), burst: 3000 };

    #[test]
    fn policer_drops_above_rate_and_burst() {
        let mut q = ActiveQueue::new(&Discipline::Police(CONFIG), QueueLimit::Packets(100), "x", &SEED);
        let mut dropped = Vec::new();
        // 1000 B take 1 ms at 8 Mbit/s: three are the burst, then one per millisecond.
        for (seq, us) in [0, 0, 0, 0, 999, 1000, 1500, 2000, 9000, 9000, 9000, 9000].into_iter().enumerate() {
            q.put(Time::from_micros(us), packet(0, seq as u32, 1000, Ecn::Ect0), &mut |p| dropped.push(p.seq));
        }
        assert_eq!((dropped, q.stats().dropped, q.len()), (vec![3, 4, 6, 11], 4, 8));
    }

    #[test]
    fn a_bucket_passes_its_burst_and_then_its_rate() {
        let mut bucket = Bucket::new(CONFIG);
        let mut now = Time::ZERO;
        let mut left = Vec::new();
        for _ in 0..5 {
            now = bucket.ready_at(now, 1000);
            assert!(bucket.pass(now, 1000));
            left.push(now.as_micros());
        }
        assert_eq!(left, [0, 0, 0, 1000, 2000]);
        assert!(!bucket.can_ever_pass(3001));
        // No remainder is lost: 1500 B at 7 bit/s need 1,714,285,714,285.7 ns.
        let mut slow = Bucket::new(BucketConfig { rate: Rate(7), burst: 1500 });
        assert!(slow.pass(Time::ZERO, 1500));
        assert_eq!(slow.ready_at(Time::ZERO, 1500), Time(1_714_285_714_286));
    }
}
