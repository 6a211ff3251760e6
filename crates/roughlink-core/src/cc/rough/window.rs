//! Extremes over a sliding window of time, in two halves: cheap enough for every acknowledgment. The window that counts
//! is between half as long and as long as asked.

use crate::units::Time;

/// Start of the newer half of a window, and what to do with the halves at a new value.
#[derive(Clone, Copy, Debug)]
struct Halves {
    since: Time,
}

/// Smallest time of a sliding window; [`Time::MAX`] without values.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlidingMin {
    newer: Time,
    older: Time,
    halves: Halves,
}

/// Largest value of a sliding window; 0 without values.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlidingMax {
    newer: u64,
    older: u64,
    halves: Halves,
}

impl Halves {
    const NEW: Halves = Halves { since: Time::ZERO };

    /// Returns true if a new half begins at `now`, and whether the newer half is old enough to be forgotten, too.
    fn turn(&mut self, now: Time, window: Time) -> Option<bool> {
        let age = now.saturating_sub(self.since);
        if age < window / 2 {
            return None;
        }
        self.since = now;
        Some(age >= window)
    }
}

impl SlidingMin {
    pub(super) const NEW: SlidingMin = SlidingMin { newer: Time::MAX, older: Time::MAX, halves: Halves::NEW };

    pub(super) fn get(&self) -> Time {
        self.newer.min(self.older)
    }

    pub(super) fn update(&mut self, now: Time, window: Time, value: Time) {
        if let Some(both) = self.halves.turn(now, window) {
            self.older = if both { Time::MAX } else { self.newer };
            self.newer = Time::MAX;
        }
        self.newer = self.newer.min(value);
    }
}

impl SlidingMax {
    pub(super) const NEW: SlidingMax = SlidingMax { newer: 0, older: 0, halves: Halves::NEW };

    pub(super) fn get(&self) -> u64 {
        self.newer.max(self.older)
    }

    pub(super) fn update(&mut self, now: Time, window: Time, value: u64) {
        if let Some(both) = self.halves.turn(now, window) {
            self.older = if both { 0 } else { self.newer };
            self.newer = 0;
        }
        self.newer = self.newer.max(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_leave_the_window_after_half_of_it_to_all_of_it() {
        let ms = Time::from_millis;
        let (mut min, mut max) = (SlidingMin::NEW, SlidingMax::NEW);
        assert_eq!((min.get(), max.get()), (Time::MAX, 0));
        for (now, min_after, max_after) in [(100, 5, 5), (130, 5, 30), (160, 5, 60), (220, 60, 120), (290, 120, 190)] {
            let value = if now == 100 { 5 } else { now - 100 };
            min.update(ms(now), ms(100), ms(value));
            max.update(ms(now), ms(100), value);
            assert_eq!((min.get(), max.get()), (ms(min_after), max_after), "{now}");
        }
        min.update(ms(500), ms(100), ms(7));
        max.update(ms(500), ms(100), 7);
        assert_eq!((min.get(), max.get()), (ms(7), 7), "both halves are too old");
    }
}
