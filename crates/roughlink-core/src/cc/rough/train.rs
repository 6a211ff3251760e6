//! A train: segments sent back to back, whose acknowledgments arrive at the rate of the bottleneck.

use crate::units::Time;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Train {
    first: Time,
    last: Time,
    /// Bytes acknowledged after the first acknowledgment.
    pub(super) bytes: u64,
}

impl Train {
    pub(super) fn add(&mut self, now: Time, delivered: u64) {
        if self.first.is_zero() {
            self.first = now;
        } else {
            self.bytes += delivered;
        }
        self.last = now;
    }

    /// Returns the bytes that the bottleneck carries in `time`.
    pub(super) fn in_time(&self, time: Time) -> u64 {
        let spacing = (self.last - self.first).0.max(1);
        u64::try_from(u128::from(self.bytes) * u128::from(time.0) / u128::from(spacing)).unwrap_or(u64::MAX)
    }
}
