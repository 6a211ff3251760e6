//! Limit on packets that answer unexpected ones, whose senders may be attackers.

use crate::units::Time;

/// Counter of answers in the current period.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateLimit {
    since: Time,
    used: u32,
}

impl RateLimit {
    /// Returns true, and counts an answer, if fewer than `most` were admitted in the current period.
    pub(crate) fn admits(&mut self, now: Time, (most, period): (u32, Time)) -> bool {
        if now >= self.since + period {
            *self = RateLimit { since: now, used: 0 };
        }
        let admitted = self.used < most;
        self.used += u32::from(admitted);
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_period_admits_its_number() {
        let mut limit = RateLimit::default();
        let mut admitted = |ms| (0..9).filter(|_| limit.admits(Time::from_millis(ms), (3, Time::from_secs(1)))).count();
        assert_eq!([500, 999, 1_000, 1_999, 60_000].map(&mut admitted), [3, 0, 3, 0, 3]);
    }
}
