//! Smallest value in a sliding window of time, stored as two halves so that an update is cheap. The window covers
//! between half of the requested time and all of it. With `Reverse`, the value is the largest.

use crate::units::Time;

#[derive(Clone, Copy, Debug)]
pub(super) struct SlidingMin<T> {
    newer: T,
    older: T,
    /// Value of an empty half; no sample is larger.
    empty: T,
    /// Start of the newer half.
    since: Time,
}

impl<T: Copy + Ord> SlidingMin<T> {
    /// Creates an empty window, for which `get` returns `empty`.
    pub(super) fn new(empty: T) -> Self {
        SlidingMin { newer: empty, older: empty, empty, since: Time::ZERO }
    }

    pub(super) fn get(&self) -> T {
        self.newer.min(self.older)
    }

    pub(super) fn update(&mut self, now: Time, window: Time, value: T) {
        let age = now.saturating_sub(self.since);
        if age >= window / 2 {
            self.older = if age >= window { self.empty } else { self.newer };
            self.newer = self.empty;
            self.since = now;
        }
        self.newer = self.newer.min(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Reverse;

    #[test]
    fn values_leave_the_window_after_half_of_it_to_all_of_it() {
        let ms = Time::from_millis;
        let (mut min, mut max) = (SlidingMin::new(Time::MAX), SlidingMin::new(Reverse(0)));
        assert_eq!((min.get(), max.get().0), (Time::MAX, 0));
        for (now, min_after, max_after) in [(100, 5, 5), (130, 5, 30), (160, 5, 60), (220, 60, 120), (290, 120, 190)] {
            let value = if now == 100 { 5 } else { now - 100 };
            min.update(ms(now), ms(100), ms(value));
            max.update(ms(now), ms(100), Reverse(value));
            assert_eq!((min.get(), max.get().0), (ms(min_after), max_after), "{now}");
        }
        min.update(ms(500), ms(100), ms(7));
        max.update(ms(500), ms(100), Reverse(7));
        assert_eq!((min.get(), max.get().0), (ms(7), 7), "both halves are too old");
    }
}
