//! Windowed maximum: Kathleen Nichols' estimator (Linux `win_minmax`), which keeps three candidates, not all values.

#[derive(Clone, Copy, Debug, Default)]
struct MaxSample {
    round: u32,
    value: u64,
}

/// Candidates: the largest value in the window, the largest since the first one, and the largest since the second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxFilter {
    candidates: [MaxSample; 3],
    /// Initial value, replaced by the first measured one.
    initial: u64,
    /// Renew the second and third candidate by their values and ages (ns-3), otherwise by the age of the first one
    /// (Linux).
    by_value: bool,
}

impl MaxFilter {
    pub(super) fn starting_with(initial: u64, by_value: bool) -> Self {
        MaxFilter { candidates: [MaxSample { round: 0, value: initial }; 3], initial, by_value }
    }

    pub(super) fn max(&self) -> u64 {
        self.candidates[0].value
    }

    /// Adds `value` of `round`, and discards values more than `window` rounds old.
    pub(super) fn update(&mut self, window: u32, round: u32, value: u64) {
        let new = MaxSample { round, value };
        let c = &mut self.candidates;
        if value >= c[0].value || c[0].value == self.initial || round - c[2].round > window {
            *c = [new; 3];
            return;
        }
        // A value replaces every later candidate that it exceeds.
        for i in 1..3 {
            if value >= c[i].value {
                c[i..].fill(new);
                break;
            }
        }
        let age = round - c[0].round;
        if age > window {
            c.rotate_left(1);
            c[2] = new;
            if round - c[0].round > window {
                c.rotate_left(1);
                c[2] = new;
            }
            return;
        }
        // Keep candidates from different parts of the window in reserve.
        let (second, third) = if self.by_value {
            let (second, third) = (c[1].value == c[0].value, c[2].value == c[1].value);
            (second && round - c[1].round > window / 4, third && round - c[2].round > window / 2)
        } else {
            let (second, third) = (c[1].round == c[0].round, c[2].round == c[1].round);
            (second && age > window / 4, third && age > window / 2)
        };
        if second {
            c[1..].fill(new);
        } else if third {
            c[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_is_never_above_and_seldom_below_the_maximum() {
        let (mut filter, mut all) = (MaxFilter::default(), Vec::new());
        let (mut x, mut exact) = (12345u64, 0);
        for i in 0..20_000u32 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (round, value) = (i / 4, (x >> 40) % 1000);
            all.push((round, value));
            filter.update(10, round, value);
            let truth = all.iter().rev().take_while(|e| round - e.0 <= 10).map(|e| e.1).max().unwrap();
            assert!(filter.max() <= truth && filter.max() * 10 >= truth * 8, "{} of {truth}", filter.max());
            exact += u32::from(filter.max() == truth);
        }
        assert!(exact > 18_000, "{exact}");
    }

    #[test]
    fn filter_forgets_after_its_window() {
        let mut f = MaxFilter::default();
        f.update(10, 0, 100);
        for round in 1..=10 {
            f.update(10, round, 50);
            assert_eq!(f.max(), 100);
        }
        f.update(10, 11, 50);
        assert_eq!(f.max(), 50);
        f.update(10, 1000, 1);
        assert_eq!(f.max(), 1);
    }

    /// In round 6 the second and the third candidate are equal and three rounds old. Linux renews the third, because
    /// the first is older than half a window. ns-3 (`WindowedFilter`) waits until the third is this old.
    #[test]
    fn candidates_expire_by_age() {
        for (by_value, expected) in [(false, 50), (true, 40)] {
            let mut f = MaxFilter::starting_with(0, by_value);
            for (round, value) in [(0, 100), (3, 60), (6, 50), (9, 40), (11, 30), (14, 20)] {
                f.update(10, round, value);
            }
            assert_eq!(f.max(), expected);
        }
    }

    #[test]
    fn first_value_replaces_the_initial_value() {
        let mut f = MaxFilter::starting_with(500, false);
        assert_eq!(f.max(), 500);
        f.update(10, 1, 20);
        assert_eq!(f.max(), 20);
    }
}
