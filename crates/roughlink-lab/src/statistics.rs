//! Means, medians, shares, confidence intervals, rank correlation.

use statrs::distribution::{Binomial, ContinuousCDF as _, DiscreteCDF as _, Normal, StudentsT};

/// A sample of a metric over the replicas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Sample standard deviation; `None` for a single value.
    pub deviation: Option<f64>,
    /// Half width of the 95 % confidence interval of the mean; `None` for a single value. Equal values have no spread that
    /// Student's interval could be made of: as for a median it is the sign test that counts, and `None` says that they are
    /// too few for it.
    pub ci95: Option<f64>,
}

impl Summary {
    /// Of what is not random: the one value there is, known for certain.
    pub fn exact(value: f64) -> Summary {
        Summary { n: 1, mean: value, deviation: Some(0.0), ci95: Some(0.0) }
    }
}

/// Mean and confidence interval of a random sample; `None` without values.
pub fn summary(values: &[f64]) -> Option<Summary> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    // Equal values must not look scattered by rounding.
    let mean = if all_equal(values) { values[0] } else { values.iter().sum::<f64>() / n as f64 };
    let deviation = (n > 1).then(|| {
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        libm::sqrt(squares / (n - 1) as f64)
    });
    let ci95 = deviation.filter(|s| *s > 0.0 || sign_test(n).is_some());
    let ci95 = ci95.map(|s| student95((n - 1) as f64) * s / libm::sqrt(n as f64));
    Some(Summary { n, mean, deviation, ci95 })
}

/// Whether there are several values, none of which differs from another.
pub fn all_equal(values: &[f64]) -> bool {
    values.len() > 1 && values.iter().all(|v| *v == values[0])
}

/// Two-sided 95 % quantile of Student's t with `freedom` degrees.
pub fn student95(freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::NAN, |t| t.inverse_cdf(0.975))
}

/// The difference of two means, `b - a`, with half its 95 % confidence interval (Welch, unequal variances); no interval
/// if a sample has none.
pub fn difference(a: &Summary, b: &Summary) -> (f64, Option<f64>) {
    let known = a.ci95.and(b.ci95).and(a.deviation.zip(b.deviation));
    let ci = known.map(|(sa, sb)| {
        let (va, vb) = (sa * sa / a.n as f64, sb * sb / b.n as f64);
        // A sample without variance, of whatever size, adds none.
        let term = |v: f64, n: usize| if v == 0.0 { 0.0 } else { v * v / (n as f64 - 1.0) };
        match term(va, a.n) + term(vb, b.n) {
            0.0 => 0.0,
            terms => student95((va + vb) * (va + vb) / terms) * libm::sqrt(va + vb),
        }
    });
    (b.mean - a.mean, ci)
}

/// The ratio of two means, `a / b`, with half its 95 % confidence interval by the delta method; no interval if a sample has
/// none. Divided by zero it is infinite and has none either, or is no number.
pub fn ratio(a: &Summary, b: &Summary) -> (f64, Option<f64>) {
    let r = a.mean / b.mean;
    let ends = a.ci95.zip(b.ci95).filter(|_| b.mean != 0.0);
    (r, ends.map(|(x, y)| libm::hypot(x, r * y) / b.mean.abs()))
}

/// Ends of an interval.
pub type Interval = [f64; 2];

/// The median of values each of which is known to lie between two bounds, and the narrowest interval between two of the
/// values, as far from either end, that holds the median of what they were drawn from with at least 95 % (the sign test
/// turned around); none with fewer than six values.
pub fn median(values: &[Interval]) -> Option<(Interval, Option<Interval>)> {
    let sorted = |end: usize| {
        let mut ends: Vec<f64> = values.iter().map(|v| v[end]).collect();
        ends.sort_by(f64::total_cmp);
        ends
    };
    let (low, high, n) = (sorted(0), sorted(1), values.len());
    let before = n.checked_sub(1)? / 2;
    let middle = |ends: &[f64]| (ends[before] + ends[n / 2]) / 2.0;
    Some(([middle(&low), middle(&high)], sign_test(n).map(|k| [low[k], high[n - 1 - k]])))
}

/// How many of `n` sorted values may lie beyond either end of an interval that holds the median with 95 %; none if even
/// that from the first to the last value is too narrow.
fn sign_test(n: usize) -> Option<usize> {
    let below = Binomial::new(0.5, n as u64).ok()?;
    (0..n as u64 / 2).take_while(|k| 2.0 * below.cdf(*k) <= 0.05).count().checked_sub(1)
}

/// The 95 % interval of a share that was measured as `share` in `n` independent runs (Wilson 1927): it stays within 0
/// and 1 and does not vanish where all runs agree.
pub fn wilson(share: f64, n: usize) -> Interval {
    let z = Normal::standard().inverse_cdf(0.975);
    let (n, z2) = (n as f64, z * z);
    let middle = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = z / (1.0 + z2 / n) * libm::sqrt(share * (1.0 - share) / n + z2 / (4.0 * n * n));
    [(middle - half).max(0.0), (middle + half).min(1.0)]
}

/// The 95 % interval of `b - a` of two shares with their own intervals (Newcombe 1998, method 10).
pub fn difference_of_shares((a, [a0, a1]): (f64, Interval), (b, [b0, b1]): (f64, Interval)) -> (f64, Interval) {
    let d = b - a;
    (d, [d - libm::hypot(b - b0, a1 - a), d + libm::hypot(b1 - b, a - a0)])
}

/// Spearman's rank correlation of pairs; equal values share their mean rank. `None` with fewer than two pairs or when
/// one side does not vary.
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let x = ranks(pairs.iter().map(|p| p.0));
    let y = ranks(pairs.iter().map(|p| p.1));
    let mean = (pairs.len() as f64 + 1.0) / 2.0;
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (a, b) in x.iter().zip(&y) {
        xy += (a - mean) * (b - mean);
        xx += (a - mean) * (a - mean);
        yy += (b - mean) * (b - mean);
    }
    (xx > 0.0 && yy > 0.0).then(|| xy / libm::sqrt(xx * yy))
}

/// Ranks from 1, ties shared.
fn ranks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let values: Vec<f64> = values.collect();
    let below = |v: f64| values.iter().filter(|w| **w < v).count() as f64;
    let equal = |v: f64| values.iter().filter(|w| **w == v).count() as f64;
    values.iter().map(|v| below(*v) + (equal(*v) + 1.0) / 2.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_as_in_the_tables() {
        for (freedom, t) in [(1.0, 12.706), (2.0, 4.303), (5.0, 2.571), (11.0, 2.201), (30.0, 2.042), (1e6, 1.960)] {
            assert!((student95(freedom) - t).abs() < 5e-4, "{freedom}: {}", student95(freedom));
        }
    }

    #[test]
    fn mean_and_interval() {
        // Mean 5, s = sqrt(32 / 7) = 2.138, t = 2.365, half width 1.787.
        let s = summary(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((s.n, s.mean), (8, 5.0));
        assert!((s.deviation.unwrap() - 2.138_09).abs() < 1e-5);
        assert!((s.ci95.unwrap() - 1.787_49).abs() < 1e-4, "{s:?}");
        assert_eq!(summary(&[3.0]).unwrap().ci95, None);
        assert_eq!(summary(&[]), None);
    }

    #[test]
    fn equal_values_have_an_interval_from_six_on() {
        let of = |n: usize| summary(&vec![3.0; n]).unwrap();
        for n in 1..10 {
            assert_eq!(of(n).ci95, (n >= 6).then_some(0.0), "{n}");
        }
        let spread = summary(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(difference(&of(5), &spread), (-1.0, None));
        assert_eq!(ratio(&spread, &of(5)), (2.0 / 3.0, None));
        // What is known adds no variance, be it by six values or because nothing in it is random.
        let half = spread.ci95.unwrap();
        for known in [of(6), Summary::exact(3.0)] {
            let (d, ci) = difference(&known, &spread);
            assert!(d == -1.0 && (ci.unwrap() - half).abs() < 1e-12, "{ci:?}");
        }
        assert_eq!(difference(&Summary::exact(1.0), &Summary::exact(3.0)), (2.0, Some(0.0)));
        assert_eq!(ratio(&spread, &Summary::exact(0.0)), (f64::INFINITY, None));
        assert!(ratio(&Summary::exact(0.0), &Summary::exact(0.0)).0.is_nan());
    }

    #[test]
    fn medians() {
        let median = |values: &[f64]| super::median(&values.iter().map(|v| [*v, *v]).collect::<Vec<_>>());
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0]), Some(([2.0, 2.0], None)));
        let up_to = |n: u32| (1..=n).rev().map(f64::from).collect::<Vec<_>>();
        assert_eq!(median(&up_to(5)), Some(([3.0, 3.0], None)));
        // Tables of the sign test: from the first to the last of 6 to 8 values, the second to the last but one of 9 to 11,
        // the third of 12 to 14.
        for (n, k) in [(6, 1), (8, 1), (9, 2), (10, 2), (11, 2), (12, 3), (14, 3), (15, 4)] {
            let interval = [f64::from(k), f64::from(n + 1 - k)];
            let middle = f64::from(n + 1) / 2.0;
            assert_eq!(median(&up_to(n)), Some(([middle; 2], Some(interval))), "{n}");
        }
        // The interval need not lie evenly around the median.
        assert_eq!(median(&[1.0, 9.0, 9.0, 9.0, 9.0, 9.0]), Some(([9.0, 9.0], Some([1.0, 9.0]))));
    }

    #[test]
    fn medians_of_values_with_bounds() {
        // Of ten values the last four are only known to be larger: the median is known, and the upper end is not.
        let mut values: Vec<Interval> = (1..=10).map(|i| [f64::from(i); 2]).collect();
        values[6..].iter_mut().for_each(|v| v[1] = f64::INFINITY);
        assert_eq!(median(&values), Some(([5.5, 5.5], Some([2.0, f64::INFINITY]))));
        values[0] = [1.0, f64::INFINITY];
        values[1] = [2.0, f64::INFINITY];
        assert_eq!(median(&values), Some(([5.5, f64::INFINITY], Some([2.0, f64::INFINITY]))));
    }

    #[test]
    fn shares() {
        // Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
        for (hits, n, low, high) in [
            (81.0, 263, 0.2553, 0.3662),
            (15.0, 148, 0.0624, 0.1605),
            (0.0, 20, 0.0, 0.1611),
            (1.0, 29, 0.0061, 0.1718),
        ] {
            let [from, to] = wilson(hits / n as f64, n);
            assert!((from - low).abs() < 1e-4 && (to - high).abs() < 1e-4, "{hits} of {n}: {from} to {to}");
        }
        // The same author on differences, table II: 56 of 70 less 48 of 80.
        let of = |hits: f64, n: usize| (hits / n as f64, wilson(hits / n as f64, n));
        let (d, [from, to]) = difference_of_shares(of(48.0, 80), of(56.0, 70));
        assert!(
            (d - 0.2).abs() < 1e-12 && (from - 0.0524).abs() < 1e-4 && (to - 0.3339).abs() < 1e-4,
            "{from} to {to}"
        );
    }

    #[test]
    fn welch() {
        // Equal variances and sizes: Welch is the pooled test. s2 = 2.5 each, half width 2.306 * sqrt(2 * 2.5 / 5).
        let of = |values: [f64; 5]| summary(&values).unwrap();
        let (d, ci) = difference(&of([1.0, 2.0, 3.0, 4.0, 5.0]), &of([3.0, 4.0, 5.0, 6.0, 7.0]));
        assert_eq!(d, 2.0);
        assert!((ci.unwrap() - 2.306).abs() < 1e-3, "{ci:?}");
    }

    #[test]
    fn rank_correlation() {
        let same: Vec<_> = (0..5).map(|i| (f64::from(i), f64::from(i * i))).collect();
        assert_eq!(spearman(&same), Some(1.0));
        let back: Vec<_> = (0..5).map(|i| (f64::from(i), f64::from(-i))).collect();
        assert_eq!(spearman(&back), Some(-1.0));
        // Textbook: IQ and hours of television, rho = -29 / 165.
        let iq = [106.0, 100.0, 86.0, 101.0, 99.0, 103.0, 97.0, 113.0, 112.0, 110.0];
        let tv = [7.0, 27.0, 2.0, 50.0, 28.0, 29.0, 20.0, 12.0, 6.0, 17.0];
        let pairs: Vec<_> = iq.into_iter().zip(tv).collect();
        assert!((spearman(&pairs).unwrap() + 29.0 / 165.0).abs() < 1e-12);
        assert_eq!(spearman(&[(1.0, 2.0), (1.0, 3.0)]), None);
    }
}
