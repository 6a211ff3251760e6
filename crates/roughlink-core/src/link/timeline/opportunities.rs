//! Recorded departures, in place of a rate.

use crate::units::{Rate, Time};

/// Trace of delivery opportunities in the format of Mahimahi's `mm-link`: each allows up to 1500 bytes to leave; unused
/// bytes are lost. The trace repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opportunities {
    /// Ascending within a period, at most `period`; several may coincide.
    pub times: Vec<Time>,
    /// Period of the trace: the time of its last line.
    pub period: Time,
}

impl Opportunities {
    /// Bytes per opportunity.
    pub const BYTES: u32 = 1500;

    /// Returns the time of opportunity `i`, from the start of the first period.
    pub(super) fn time(&self, i: u64) -> Time {
        let n = self.times.len() as u64;
        self.period * (i / n) + self.times[(i % n) as usize]
    }

    /// Returns the first opportunity at or after `from`.
    pub(super) fn first(&self, from: Time) -> u64 {
        // The last line of a period falls on the start of the next: an instant belongs to the period that ends with it.
        let period = from.0.saturating_sub(1) / self.period.0;
        let within = from - self.period * period;
        period * self.times.len() as u64 + self.times.partition_point(|t| *t < within) as u64
    }

    /// Returns the opportunity for a packet enqueued at `from` if `used` bytes of opportunity `i` are used.
    pub(super) fn next(&self, i: u64, used: u32, from: Time) -> u64 {
        if self.time(i) < from { self.first(from) } else { i + u64::from(used == Opportunities::BYTES) }
    }

    /// Returns the mean rate.
    pub fn rate(&self) -> Rate {
        Rate::from_bytes_per(self.times.len() as u64 * u64::from(Self::BYTES), self.period)
    }
}

/// Takes `bytes` from the trace. Returns the times of the first and the last opportunity used.
pub(super) fn use_opportunities(trace: &Opportunities, index: &mut u64, used: &mut u32, bytes: u32) -> (Time, Time) {
    let mut start = None;
    let mut left = bytes;
    while left > 0 {
        if *used == Opportunities::BYTES {
            (*index, *used) = (*index + 1, 0);
        }
        start = start.or_else(|| Some(trace.time(*index)));
        let now = left.min(Opportunities::BYTES - *used);
        *used += now;
        left -= now;
    }
    let end = trace.time(*index);
    (start.unwrap_or(end), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_opportunity_matches_a_linear_search() {
        for times in [&[1, 2, 2, 5][..], &[0, 0, 3], &[7], &[2, 4, 4, 4]] {
            let trace =
                Opportunities { times: times.iter().map(|t| Time(*t)).collect(), period: Time(times[times.len() - 1]) };
            for from in (0..40).map(Time) {
                let scanned = (0..).find(|i| trace.time(*i) >= from);
                assert_eq!(Some(trace.first(from)), scanned, "{times:?} from {from}");
            }
        }
    }

    /// With an empty queue, each packet searches for its opportunity; a linear scan would take 10^11 steps.
    #[test]
    fn a_long_trace_is_not_scanned() {
        let n = 1_000_000;
        let trace = Opportunities { times: (1..=n).map(Time::from_millis).collect(), period: Time::from_millis(n) };
        for i in (0..3 * n).step_by(15) {
            assert_eq!(trace.first(Time::from_millis(i + 1)), i);
        }
    }
}
