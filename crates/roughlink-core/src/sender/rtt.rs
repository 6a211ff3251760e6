//! Round-trip time and retransmission time-out: RFC 6298, and Linux's variant of it.

use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Estimate of the round-trip time and its variation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RttVar {
    /// Smoothed deviation of all samples (RFC 6298 rules 2.2 and 2.3).
    Rfc,
    /// Like Linux `tcp_rtt_estimator`: the largest mean deviation of the last window of data, which decays once per
    /// window. A falling RTT has an eighth of the weight.
    Linux,
}

/// Where `min_rto` applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RtoFloor {
    /// `RTO = max(SRTT + 4 RTTVAR, min_rto)` (RFC 6298 rule 2.4).
    Total,
    /// `RTO = SRTT + max(4 RTTVAR, min_rto)` (Linux).
    Variance,
}

#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    srtt: i64,
    var: i64,
    /// Linux: mean deviation.
    mdev: i64,
    /// Linux: the largest mean deviation of the present window of data, and where that window ends.
    var_max: i64,
    window_end: u64,
    sampled: bool,
    /// RTO without back-off.
    base: Time,
    rto: Time,
    min: Time,
    max: Time,
    granularity: Time,
    floor: RtoFloor,
    rule: RttVar,
}

impl RttEstimator {
    pub(crate) fn new(base: Time, (min, max): (Time, Time), granularity: Time, floor: RtoFloor, rule: RttVar) -> Self {
        RttEstimator {
            srtt: 0,
            var: 0,
            mdev: 0,
            var_max: 0,
            window_end: 0,
            sampled: false,
            base,
            rto: base,
            min,
            max,
            granularity,
            floor,
            rule,
        }
    }
    /// Returns the smoothed RTT, zero before the first sample.
    #[inline]
    pub(crate) fn srtt(&self) -> Time {
        Time(self.srtt as u64)
    }
    #[inline]
    pub(crate) fn rto(&self) -> Time {
        self.rto
    }

    /// Returns the time after which an answer is overdue: the RTO without its lower bound and without back-off.
    pub(crate) fn answer_timeout(&self) -> Time {
        if self.sampled { self.srtt() + self.spread() } else { self.base }
    }

    /// Adds a sample `m` and ends back-off (RFC 6298 section 5). `una` and `nxt` delimit Linux's variance window.
    #[inline]
    pub(crate) fn sample(&mut self, m: Time, una: u64, nxt: u64) {
        let m = m.0 as i64;
        match self.rule {
            RttVar::Rfc => self.smooth(m),
            RttVar::Linux => self.follow_largest(m, una, nxt),
        }
        self.sampled = true;
        self.update();
    }

    /// Applies RFC 6298 rules 2.2 and 2.3, in integers as in Jacobson's appendix.
    #[inline]
    fn smooth(&mut self, m: i64) {
        if !self.sampled {
            self.srtt = m;
            self.var = m / 2;
            return;
        }
        let err = m - self.srtt;
        self.srtt = (8 * self.srtt + err) >> 3;
        self.var = (4 * self.var + (err.abs() - self.var)) >> 2;
    }

    /// Applies Linux `tcp_rtt_estimator`: the variance follows its largest value of the last window of data and decays
    /// once per window. A falling RTT raises it with an eighth of the weight. The floor of the variance decays with it.
    #[inline]
    fn follow_largest(&mut self, m: i64, una: u64, nxt: u64) {
        let floor = if self.floor == RtoFloor::Variance { self.min.0 as i64 / 4 } else { 0 };
        if !self.sampled {
            self.srtt = m;
            self.var = (m / 2).max(floor); // 4 var = max(2 m, min_rto)
            self.var_max = self.var;
            self.mdev = m / 2;
            self.window_end = nxt;
            return;
        }
        let err = m - self.srtt;
        self.srtt += err / 8;
        if err < 0 {
            let e = -err - self.mdev;
            self.mdev += if e > 0 { e / 32 } else { e / 4 };
        } else {
            self.mdev += (err - self.mdev) / 4;
        }
        if self.mdev > self.var_max {
            self.var_max = self.mdev;
            self.var = self.var.max(self.var_max);
        }
        if una > self.window_end {
            if self.var_max < self.var {
                self.var -= (self.var - self.var_max) / 4;
            }
            self.window_end = nxt;
            self.var_max = floor;
        }
    }

    #[inline]
    fn spread(&self) -> Time {
        self.granularity.max(Time(4 * self.var as u64))
    }

    #[inline]
    fn update(&mut self) {
        let spread = self.spread();
        let rto = match self.floor {
            RtoFloor::Total => (self.srtt() + spread).max(self.min),
            RtoFloor::Variance => self.srtt() + spread.max(self.min),
        };
        self.base = rto.min(self.max);
        self.rto = self.base;
    }

    /// Doubles the RTO after a time-out (rule 5.5).
    pub(crate) fn back_off(&mut self) {
        self.rto = Time(self.rto.0.saturating_mul(2)).min(self.max);
    }

    /// Raises the RTO to `least` until the first sample, after a handshake without one (RFC 6298 rule 5.7).
    pub(crate) fn fall_back(&mut self, least: Time) {
        self.base = self.base.max(least).min(self.max);
        self.rto = self.base;
    }

    #[inline]
    pub(crate) fn reset_back_off(&mut self) {
        self.rto = self.base;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimator(min_ms: u64, floor: RtoFloor, rule: RttVar) -> RttEstimator {
        let bounds = (Time::from_millis(min_ms), Time::from_secs(60));
        RttEstimator::new(Time::from_secs(1), bounds, Time::from_millis(1), floor, rule)
    }

    #[test]
    fn rto_follows_rfc6298() {
        let mut e = estimator(1, RtoFloor::Total, RttVar::Rfc);
        assert_eq!(e.rto(), Time::from_secs(1));
        e.sample(Time::from_millis(100), 0, 0);
        assert_eq!((e.srtt(), e.rto()), (Time::from_millis(100), Time::from_millis(300)));
        e.sample(Time::from_millis(180), 0, 0);
        // SRTT = 7/8 100 + 1/8 180 = 110, RTTVAR = 3/4 50 + 1/4 80 = 57.5
        assert_eq!((e.srtt(), e.rto()), (Time::from_millis(110), Time::from_millis(340)));
        e.back_off();
        assert_eq!(e.rto(), Time::from_millis(680));
        e.reset_back_off();
        assert_eq!(e.rto(), Time::from_millis(340));
    }

    #[test]
    fn linux_keeps_at_least_200_ms_above_srtt() {
        let mut e = estimator(200, RtoFloor::Variance, RttVar::Linux);
        for i in 0..200 {
            e.sample(Time::from_millis(25), i, i + 1);
        }
        assert_eq!(e.srtt(), Time::from_millis(25));
        assert_eq!(e.rto(), Time::from_millis(225));
    }

    #[test]
    fn backoff_is_bounded() {
        let mut e = estimator(1000, RtoFloor::Total, RttVar::Rfc);
        for _ in 0..100 {
            e.back_off();
        }
        assert_eq!(e.rto(), Time::from_secs(60));
    }
}
