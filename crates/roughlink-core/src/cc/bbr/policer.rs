//! Detection of policers (Linux `bbr_lt_bw_sampling`; Flach et al., "An Internet-Wide Analysis of Traffic Policing",
//! SIGCOMM 2016): two intervals in a row with much loss and the same delivery rate reveal a token bucket. BBR then
//! paces at that rate and does not probe.

use super::{Params, RateSample};
use crate::units::{Rate, Time};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConnectionProgress {
    pub now: Time,
    /// Bytes delivered and lost so far.
    pub delivered: u64,
    pub lost: u64,
    /// Set if this ACK began a round.
    pub round_start: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolicerUpdate {
    Nothing,
    Policed,
    /// The policer's rate has been in use long enough: probe again.
    Released,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    /// Rate of the last suspicious interval, bytes per second; 0 = none.
    rate: u64,
    policed: bool,
    sampling: bool,
    /// Rounds in this interval, or since the policer was found.
    rounds: u32,
    start: ConnectionProgress,
}

impl Policer {
    /// Returns the policer's rate in bytes per second, if one was found.
    pub(super) fn rate(&self) -> Option<u64> {
        self.policed.then_some(self.rate)
    }

    pub(super) fn reset(&mut self, at: &ConnectionProgress) {
        *self = Policer { start: *at, ..Policer::default() };
    }

    pub(super) fn update(
        &mut self,
        p: &Params,
        at: &ConnectionProgress,
        sample: &RateSample,
        probing: bool,
    ) -> PolicerUpdate {
        if self.policed {
            if probing && at.round_start {
                self.rounds += 1;
                if self.rounds >= p.policer_hold_rounds {
                    self.reset(at);
                    return PolicerUpdate::Released;
                }
            }
            return PolicerUpdate::Nothing;
        }
        // Start sampling at the first loss, when the bucket is empty: earlier, its tokens would count as bandwidth.
        if !self.sampling {
            if sample.losses == 0 {
                return PolicerUpdate::Nothing;
            }
            self.begin(at);
            self.sampling = true;
        }
        if sample.app_limited {
            self.reset(at);
            return PolicerUpdate::Nothing;
        }
        self.rounds += u32::from(at.round_start);
        if self.rounds > 4 * p.policer_rounds {
            self.reset(at);
            return PolicerUpdate::Nothing;
        }
        // An interval must also end with an empty bucket.
        if self.rounds < p.policer_rounds || sample.losses == 0 {
            return PolicerUpdate::Nothing;
        }
        let lost = at.lost - self.start.lost;
        let delivered = at.delivered - self.start.delivered;
        let time = Time::from_millis(at.now.as_millis() - self.start.now.as_millis());
        if delivered == 0 || (lost as f64) < p.policer_loss * delivered as f64 || time.is_zero() {
            return PolicerUpdate::Nothing;
        }
        self.end(p, at, Rate::from_bytes_per(delivered, time).bytes_per_sec())
    }

    fn begin(&mut self, at: &ConnectionProgress) {
        self.start = *at;
        self.rounds = 0;
    }

    fn end(&mut self, p: &Params, at: &ConnectionProgress, rate: u64) -> PolicerUpdate {
        let difference = rate.abs_diff(self.rate);
        let alike = difference as f64 <= p.policer_ratio * self.rate as f64 || difference <= p.policer_difference / 8;
        if self.rate > 0 && alike {
            self.rate = rate.midpoint(self.rate);
            self.policed = true;
            self.rounds = 0;
            return PolicerUpdate::Policed;
        }
        self.rate = rate;
        self.begin(at);
        PolicerUpdate::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs rounds of 40 ms with `delivered` and `lost` bytes each, until the verdict changes.
    fn rounds(
        policer: &mut Policer,
        at: &mut ConnectionProgress,
        n: u32,
        delivered: u64,
        lost: u64,
    ) -> Option<(u32, PolicerUpdate)> {
        let p = Params::default();
        for i in 1..=n {
            at.now += Time::from_millis(40);
            at.delivered += delivered;
            at.lost += lost;
            at.round_start = true;
            let v = policer.update(&p, at, &RateSample { losses: lost, ..RateSample::default() }, true);
            if v != PolicerUpdate::Nothing {
                return Some((i, v));
            }
        }
        None
    }

    #[test]
    fn two_similar_lossy_intervals_reveal_a_policer() {
        let (mut policer, mut at) = (Policer::default(), ConnectionProgress::default());
        // 10 000 B per 40 ms = 250 kB/s; 19.5 % is the threshold.
        assert_eq!(rounds(&mut policer, &mut at, 12, 10_000, 1900), None);
        let (mut policer, mut at) = (Policer::default(), ConnectionProgress::default());
        let (n, v) = rounds(&mut policer, &mut at, 40, 10_000, 2000).unwrap();
        assert_eq!((n, v), (8, PolicerUpdate::Policed));
        let rate = policer.rate().unwrap();
        assert!((245_000..=340_000).contains(&rate), "{rate}");
        assert_eq!(rounds(&mut policer, &mut at, 100, 10_000, 0), Some((48, PolicerUpdate::Released)));
        assert_eq!(policer.rate(), None);
    }

    #[test]
    fn changing_rates_reveal_no_policer() {
        let (mut policer, mut at) = (Policer::default(), ConnectionProgress::default());
        for delivered in [10_000, 20_000, 10_000, 20_000, 10_000] {
            assert_eq!(rounds(&mut policer, &mut at, 4, delivered, delivered / 4), None);
        }
    }
}
