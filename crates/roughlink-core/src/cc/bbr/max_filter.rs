//! The largest of recent values: Kathleen Nichols' estimator (Linux `win_minmax`), which keeps three candidates
//! instead of the whole window.

/// A value and the round in which it was measured.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    round: u32,
    value: u64,
}

/// The largest value of the last rounds, the largest since then, and the largest since the second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxFilter([Entry; 3]);

impl MaxFilter {
    /// The largest value.
    pub(super) fn max(&self) -> u64 {
        self.0[0].value
    }

    /// Takes `value` of `round` in; values older than `window` rounds are forgotten.
    pub(super) fn update(&mut self, window: u32, round: u32, value: u64) {
        let new = Entry { round, value };
        let c = &mut self.0;
        if value >= c[0].value || round - c[2].round > window {
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
        } else if c[1].round == c[0].round && age > window / 4 {
            // Keep candidates from different parts of the window in reserve.
            c[1..].fill(new);
        } else if c[2].round == c[1].round && age > window / 2 {
            c[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_above_and_seldom_below_the_true_maximum() {
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
    fn forgets_after_its_window() {
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
}
