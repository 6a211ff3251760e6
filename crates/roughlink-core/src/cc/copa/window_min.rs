//! Smallest sample in a sliding window of time.

use crate::units::Time;
use std::collections::VecDeque;

/// Samples that are or may become the smallest of the window, from the oldest and smallest to the newest and largest.
#[derive(Clone, Debug)]
pub(super) struct WindowMin<T> {
    candidates: VecDeque<(Time, T)>,
}

impl<T> Default for WindowMin<T> {
    fn default() -> Self {
        WindowMin { candidates: VecDeque::new() }
    }
}

impl<T: Copy + Ord> WindowMin<T> {
    /// Adds a sample taken at `now`, and discards samples older than `window`.
    pub(super) fn add(&mut self, now: Time, sample: T, window: Time) {
        while self.candidates.back().is_some_and(|c| c.1 >= sample) {
            self.candidates.pop_back();
        }
        self.candidates.push_back((now, sample));
        while self.candidates.front().is_some_and(|c| c.0.saturating_add(window) < now) {
            self.candidates.pop_front();
        }
    }

    /// Returns the smallest sample of the window that ended with the last sample; `None` before the first.
    pub(super) fn get(&self) -> Option<T> {
        self.candidates.front().map(|c| c.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_is_that_of_the_window() {
        let (mut min, mut all) = (WindowMin::default(), Vec::new());
        let mut x = 12345u64;
        for i in 0..5_000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (now, value, window) = (Time(i * 3), (x >> 40) % 1000, 30 + i % 2);
            all.push((now, value));
            min.add(now, value, Time(window));
            let truth = all.iter().rev().take_while(|s| s.0 + Time(30) >= now).map(|s| s.1).min();
            assert_eq!(min.get(), truth);
        }
        min.add(Time::MAX, 7, Time::ZERO);
        assert_eq!(min.get(), Some(7));
    }
}
