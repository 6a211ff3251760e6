//! Means, quantiles, shares, their confidence intervals, differences within pairs, and correlation.

use statrs::distribution::{Binomial, ContinuousCDF as _, DiscreteCDF as _, Normal, StudentsT};

/// Confidence level of all stored and drawn intervals. Functions with a parameter `level` accept others.
pub const LEVEL: f64 = 0.95;

/// A sample of a metric over the replicas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricSummary {
    /// Number of values.
    pub n: usize,
    /// Mean of the values.
    pub mean: f64,
    /// Sample standard deviation; `None` for a single value.
    pub deviation: Option<f64>,
    /// Half width of the 95 % confidence interval of the mean; `None` for a single value. Student's interval needs a
    /// spread. For equal values the sign test decides, as for a median: 0, or `None` if there are too few values.
    pub ci95: Option<f64>,
}

impl MetricSummary {
    /// Summarizes a value that is not random and therefore exact.
    pub fn exact(value: f64) -> MetricSummary {
        MetricSummary { n: 1, mean: value, deviation: Some(0.0), ci95: Some(0.0) }
    }
}

/// Computes mean and confidence interval of a random sample; `None` without values.
///
/// ```
/// use roughlink_lab::statistics::summary;
///
/// // Mean 5, s = sqrt(32 / 7), t = 2.365 with 7 degrees of freedom.
/// let sample = summary(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
/// assert_eq!((sample.n, sample.mean), (8, 5.0));
/// assert!((sample.ci95.unwrap() - 1.787).abs() < 0.001);
/// assert_eq!(summary(&[3.0]).unwrap().ci95, None);
/// ```
pub fn summary(values: &[f64]) -> Option<MetricSummary> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    // Rounding must not add spread to equal values.
    let mean = if all_equal(values) { values[0] } else { values.iter().sum::<f64>() / n as f64 };
    let deviation = (n > 1).then(|| {
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        libm::sqrt(squares / (n - 1) as f64)
    });
    let ci95 = deviation.filter(|_| has_spread(values, LEVEL));
    let ci95 = ci95.map(|s| student((n - 1) as f64, LEVEL) * s / libm::sqrt(n as f64));
    Some(MetricSummary { n, mean, deviation, ci95 })
}

/// Returns false if the values do not show their spread: a single one, or so few equal ones that the sign test does not
/// reach `level`.
pub fn has_spread(values: &[f64], level: f64) -> bool {
    values.len() > 1 && (!all_equal(values) || sign_test(values.len(), level).is_some())
}

/// Returns true if there are several values and all are equal.
pub fn all_equal(values: &[f64]) -> bool {
    values.len() > 1 && values.iter().all(|v| *v == values[0])
}

/// Returns the two-sided quantile of Student's t with `freedom` degrees of freedom.
pub fn student(freedom: f64, level: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::NAN, |t| t.inverse_cdf(upper(level)))
}

/// Returns the probability below the upper end of a two-sided interval.
fn upper(level: f64) -> f64 {
    0.5 + level / 2.0
}

/// Returns the interval of the mean of a sample: Student's, corrected for skewness by Hall's transformation (1992, *On
/// the removal of skewness by transformation*, J. R. Statist. Soc. B 54, equation 3). None as in [`summary`].
pub fn interval(values: &[f64], level: f64) -> Option<ConfidenceInterval> {
    let MetricSummary { n, mean, deviation, .. } = summary(values)?;
    let s = deviation.filter(|_| has_spread(values, level))?;
    let n = n as f64;
    if s == 0.0 {
        return Some([mean; 2]);
    }
    let cubes = values.iter().map(|v| (v - mean) / s).map(|z| z * z * z);
    let (skewness, root, t) = (cubes.sum::<f64>() / n, libm::sqrt(n), student(n - 1.0, level));
    let a = skewness / 3.0;
    // Returns the t statistic whose transformed value is `q`.
    let inverse = |q: f64| {
        let y = q / root - skewness / (6.0 * n);
        if a.abs() < 1e-6 { root * y } else { root / a * (libm::cbrt(1.0 + 3.0 * a * y) - 1.0) }
    };
    Some([t, -t].map(|q| mean - inverse(q) * s / root))
}

/// Returns the ratio of the means of pairs, `a / b`, and its 95 % interval: the [`interval`] of each pair's deviation
/// from the ratio. If the mean of `b` is zero, the ratio is infinite or NaN and has no interval.
pub fn ratio(pairs: &[(f64, f64)]) -> (f64, Option<ConfidenceInterval>) {
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / pairs.len() as f64;
    let (a, b) = (mean(|p| p.0), mean(|p| p.1));
    let r = a / b;
    if b == 0.0 || pairs.is_empty() {
        return (r, None);
    }
    // Rounding must not add deviation to equal pairs.
    let equal = pairs.iter().all(|p| *p == pairs[0]);
    let deviations: Vec<f64> = pairs.iter().map(|(x, y)| if equal { 0.0 } else { (x - r * y) / b }).collect();
    (r, interval(&deviations, LEVEL).map(|[from, to]| [r + from, r + to]))
}

/// Ends of an interval.
pub type ConfidenceInterval = [f64; 2];

/// Returns the bounds of known values, and then of values that have only a lower bound.
pub fn bounds(known: &[f64], at_least: &[f64]) -> impl Iterator<Item = ConfidenceInterval> {
    known.iter().map(|v| [*v, *v]).chain(at_least.iter().map(|v| [*v, f64::INFINITY]))
}

/// Returns the median of values that are each given by two bounds, and its interval by the inverted sign test. The ends
/// of the interval are sorted values, equally many places from the first and the last. The interval is the narrowest
/// such one that contains the population median with a probability of at least `level`. The interval is None if there
/// are too few values: fewer than six for 95 %.
///
/// ```
/// use roughlink_lab::statistics::{LEVEL, median};
///
/// let exact: Vec<[f64; 2]> = (1..=9).map(|i| [f64::from(i); 2]).collect();
/// assert_eq!(median(&exact, LEVEL), Some(([5.0, 5.0], Some([2.0, 8.0]))));
/// assert_eq!(median(&exact[..5], LEVEL), Some(([3.0, 3.0], None))); // too few values for an interval
/// ```
pub fn median(values: &[ConfidenceInterval], level: f64) -> Option<(ConfidenceInterval, Option<ConfidenceInterval>)> {
    quantile(values, 0.5, level)
}

/// Returns the quantile `q` and its interval, as [`median`] does for one half. Between two values, the quantile is
/// interpolated linearly (Hyndman and Fan 1996, definition 7). Each end of the interval is wrong with a probability of
/// at most half of `1 - level`, such as 2.5 % for 95 %.
pub fn quantile(
    values: &[ConfidenceInterval],
    q: f64,
    level: f64,
) -> Option<(ConfidenceInterval, Option<ConfidenceInterval>)> {
    let sorted = |end: usize| {
        let mut ends: Vec<f64> = values.iter().map(|v| v[end]).collect();
        ends.sort_by(f64::total_cmp);
        ends
    };
    let (low, high, n) = (sorted(0), sorted(1), values.len());
    let position = q * n.checked_sub(1)? as f64;
    let (before, part) = (position as usize, position.fract());
    let at = |ends: &[f64]| match ends.get(before + 1) {
        Some(next) if part > 0.0 => (1.0 - part) * ends[before] + part * next,
        _ => ends[before],
    };
    // The number of values below the quantile is binomial.
    let below = Binomial::new(q, n as u64).ok()?;
    let first = (0..n as u64).take_while(|k| below.cdf(*k) <= 1.0 - upper(level)).count().checked_sub(1);
    let last = (0..n).find(|k| below.cdf(*k as u64) >= upper(level));
    Some(([at(&low), at(&high)], first.zip(last).map(|(first, last)| [low[first], high[last]])))
}

/// Returns the number of values, of `n` sorted ones, beyond either end of an interval that contains the median with a
/// probability of at least `level`. None if even the interval from the first to the last value is too narrow.
fn sign_test(n: usize, level: f64) -> Option<usize> {
    let below = Binomial::new(0.5, n as u64).ok()?;
    (0..n as u64 / 2).take_while(|k| 2.0 * below.cdf(*k) <= 1.0 - level).count().checked_sub(1)
}

/// Returns the interval of a share, measured as `share` in `n` independent runs (Wilson 1927). The interval stays
/// within 0 and 1 and does not vanish if all runs agree.
///
/// ```
/// use roughlink_lab::statistics::{LEVEL, wilson};
///
/// // Newcombe 1998, table I: 0 of 20 and 81 of 263.
/// let [low, high] = wilson(0.0, 20, LEVEL);
/// assert!(low.abs() < 1e-4 && (high - 0.1611).abs() < 1e-4);
/// let [low, high] = wilson(81.0 / 263.0, 263, LEVEL);
/// assert!((low - 0.2553).abs() < 1e-4 && (high - 0.3662).abs() < 1e-4);
/// ```
pub fn wilson(share: f64, n: usize, level: f64) -> ConfidenceInterval {
    let z = Normal::standard().inverse_cdf(upper(level));
    let (n, z2) = (n as f64, z * z);
    let middle = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = z / (1.0 + z2 / n) * libm::sqrt(share * (1.0 - share) / n + z2 / (4.0 * n * n));
    [(middle - half).max(0.0), (middle + half).min(1.0)]
}

/// Returns the difference of two shares, `b - a`, and its interval computed from their intervals (Newcombe 1998:
/// method 10, and for paired shares with the correlation `phi` of the pairs).
pub fn difference_of_shares(
    (a, [a0, a1]): (f64, ConfidenceInterval),
    (b, [b0, b1]): (f64, ConfidenceInterval),
    phi: f64,
) -> (f64, ConfidenceInterval) {
    let d = b - a;
    let half = |x: f64, y: f64| libm::sqrt((x * x - 2.0 * phi * x * y + y * y).max(0.0));
    (d, [d - half(b - b0, a1 - a), d + half(b1 - b, a - a0)])
}

/// Returns Pearson's correlation of pairs. `None` if one side does not vary.
pub fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let (mx, my) = (pairs.iter().map(|p| p.0).sum::<f64>() / n, pairs.iter().map(|p| p.1).sum::<f64>() / n);
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (a, b) in pairs {
        xy += (a - mx) * (b - my);
        xx += (a - mx) * (a - mx);
        yy += (b - my) * (b - my);
    }
    (xx > 0.0 && yy > 0.0).then(|| xy / libm::sqrt(xx * yy))
}

/// Returns Spearman's rank correlation of pairs; equal values share their mean rank. `None` with fewer than two pairs
/// or if one side does not vary.
///
/// ```
/// use roughlink_lab::statistics::spearman;
///
/// let squares: Vec<_> = (0..5).map(|i| (f64::from(i), f64::from(i * i))).collect();
/// assert_eq!(spearman(&squares), Some(1.0)); // same order
/// assert_eq!(spearman(&[(1.0, 2.0), (1.0, 3.0)]), None);
/// ```
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let (x, y) = (ranks(pairs.iter().map(|p| p.0)), ranks(pairs.iter().map(|p| p.1)));
    correlation(&x.into_iter().zip(y).collect::<Vec<_>>())
}

/// Returns ranks from 1; ties share their mean.
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
    fn student_quantiles_match_the_tables() {
        for (freedom, t) in [(1.0, 12.706), (2.0, 4.303), (5.0, 2.571), (11.0, 2.201), (30.0, 2.042), (1e6, 1.960)] {
            assert!((student(freedom, LEVEL) - t).abs() < 5e-4, "{freedom}: {}", student(freedom, LEVEL));
        }
        for (level, t) in [(0.9, 1.812), (0.99, 3.169)] {
            assert!((student(10.0, level) - t).abs() < 5e-4, "{level}: {}", student(10.0, level));
        }
    }

    #[test]
    fn mean_and_interval_match_a_known_sample() {
        // Mean 5, s = sqrt(32 / 7) = 2.138, t = 2.365, half width 1.787.
        let s = summary(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((s.n, s.mean), (8, 5.0));
        assert!((s.deviation.unwrap() - 2.138_09).abs() < 1e-5);
        assert!((s.ci95.unwrap() - 1.787_49).abs() < 1e-4, "{s:?}");
        assert_eq!(summary(&[3.0]).unwrap().ci95, None);
        assert_eq!(summary(&[]), None);
    }

    #[test]
    fn equal_values_have_an_interval_from_six_values_on() {
        let of = |n: usize| summary(&vec![3.0; n]).unwrap();
        for n in 1..10 {
            assert_eq!(of(n).ci95, (n >= 6).then_some(0.0), "{n}");
        }
    }

    #[test]
    fn skewed_samples_have_asymmetric_intervals() {
        // Symmetric values have no skewness: the result is Student's interval.
        let [from, to] = interval(&[1.0, 2.0, 3.0, 4.0, 5.0], LEVEL).unwrap();
        let half = summary(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap().ci95.unwrap();
        assert!((from - 3.0 + half).abs() < 1e-12 && (to - 3.0 - half).abs() < 1e-12, "{from} to {to}");
        // Hall 1992, equation 3, solved for the statistic and checked by insertion: T = (mean - end) / (s / sqrt n).
        let values = [0.0, 0.0, 0.1, 0.2, 0.2, 0.3, 0.4, 0.6, 1.0, 3.0];
        let MetricSummary { mean, deviation: Some(s), .. } = summary(&values).unwrap() else { unreachable!() };
        let (cube, root) = (|x: f64| x * x * x, libm::sqrt(10.0));
        let skewness = values.iter().map(|v| cube((v - mean) / s)).sum::<f64>() / 10.0;
        let transformed = |end: f64| {
            let t = (mean - end) / (s / root);
            let a = skewness / 3.0;
            t + a * t * t / root + a * a * cube(t) / 30.0 + skewness / (6.0 * root)
        };
        let ends = interval(&values, LEVEL).unwrap();
        assert!((transformed(ends[0]) - 2.262_157).abs() < 1e-5, "{ends:?}");
        assert!((transformed(ends[1]) + 2.262_157).abs() < 1e-5, "{ends:?}");
        assert!(ends[1] - mean > 1.5 * (mean - ends[0]), "the long tail is above: {ends:?}");
        for n in 1..10 {
            assert_eq!(interval(&vec![3.0; n], LEVEL), (n >= 6).then_some([3.0; 2]), "{n}");
            assert_eq!(interval(&vec![3.0; n], 0.99), (n >= 8).then_some([3.0; 2]), "{n}");
        }
    }

    #[test]
    fn paired_ratios_have_intervals() {
        let pairs: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 3.0, 7.0, 5.0].map(|x| (2.0 * x, x)).into();
        assert_eq!(ratio(&pairs), (2.0, Some([2.0; 2])), "each pair has the same ratio");
        assert_eq!(ratio(&[(3.0, 2.0); 5]), (1.5, None), "too few equal pairs");
        assert_eq!(ratio(&[(3.0, 2.0); 6]), (1.5, Some([1.5; 2])));
        assert_eq!(ratio(&[(1.0, 0.0), (2.0, 0.0)]), (f64::INFINITY, None));
        assert!(ratio(&[(0.0, 0.0)]).0.is_nan());
    }

    #[test]
    fn medians_have_sign_test_intervals() {
        let median = |values: &[f64]| super::median(&values.iter().map(|v| [*v, *v]).collect::<Vec<_>>(), LEVEL);
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0]), Some(([2.0, 2.0], None)));
        let up_to = |n: u32| (1..=n).rev().map(f64::from).collect::<Vec<_>>();
        assert_eq!(median(&up_to(5)), Some(([3.0, 3.0], None)));
        // Tables of the sign test. The interval of 6 to 8 values goes from the first to the last. With 9 to 11 values,
        // one value at either end is outside; with 12 to 14 values, two.
        for (n, k) in [(6, 1), (8, 1), (9, 2), (10, 2), (11, 2), (12, 3), (14, 3), (15, 4)] {
            let interval = [f64::from(k), f64::from(n + 1 - k)];
            let middle = f64::from(n + 1) / 2.0;
            assert_eq!(median(&up_to(n)), Some(([middle; 2], Some(interval))), "{n}");
        }
        // The interval need not be symmetric around the median.
        assert_eq!(median(&[1.0, 9.0, 9.0, 9.0, 9.0, 9.0]), Some(([9.0, 9.0], Some([1.0, 9.0]))));
    }

    #[test]
    fn quantiles_have_binomial_intervals() {
        let values: Vec<ConfidenceInterval> = (1..=100).map(|i| [f64::from(i); 2]).collect();
        // Order statistics of 100 values around the 90th percentile: the 84th and 96th (binomial, 2.5 % at each end).
        let ([low, high], interval) = quantile(&values, 0.9, LEVEL).unwrap();
        assert!((low - 90.1).abs() < 1e-9 && low == high && interval == Some([84.0, 96.0]), "{low} {interval:?}");
        assert_eq!(quantile(&values[..10], 0.9, LEVEL).unwrap().1, None, "ten values do not bound it from above");
        assert_eq!(quantile(&[[1.0, 1.0], [2.0, f64::INFINITY]], 0.25, LEVEL).unwrap().0, [1.25, f64::INFINITY]);
    }

    #[test]
    fn medians_of_bounded_values_have_bounds() {
        // The last four of ten values have only lower bounds: the median is known, and the upper end is not.
        let mut values: Vec<ConfidenceInterval> = (1..=10).map(|i| [f64::from(i); 2]).collect();
        values[6..].iter_mut().for_each(|v| v[1] = f64::INFINITY);
        assert_eq!(median(&values, LEVEL), Some(([5.5, 5.5], Some([2.0, f64::INFINITY]))));
        values[0] = [1.0, f64::INFINITY];
        values[1] = [2.0, f64::INFINITY];
        assert_eq!(median(&values, LEVEL), Some(([5.5, f64::INFINITY], Some([2.0, f64::INFINITY]))));
    }

    #[test]
    fn shares_have_wilson_intervals() {
        // Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
        for (hits, n, low, high) in [
            (81.0, 263, 0.2553, 0.3662),
            (15.0, 148, 0.0624, 0.1605),
            (0.0, 20, 0.0, 0.1611),
            (1.0, 29, 0.0061, 0.1718),
        ] {
            let [from, to] = wilson(hits / n as f64, n, LEVEL);
            assert!((from - low).abs() < 1e-4 && (to - high).abs() < 1e-4, "{hits} of {n}: {from} to {to}");
        }
        // Newcombe on differences, table II: 56 of 70 minus 48 of 80.
        let of = |hits: f64, n: usize| (hits / n as f64, wilson(hits / n as f64, n, LEVEL));
        let (d, [from, to]) = difference_of_shares(of(48.0, 80), of(56.0, 70), 0.0);
        assert!(
            (d - 0.2).abs() < 1e-12 && (from - 0.0524).abs() < 1e-4 && (to - 0.3339).abs() < 1e-4,
            "{from} to {to}"
        );
        // Equal shares that agree in each pair have a difference of zero without an interval.
        assert_eq!(difference_of_shares(of(10.0, 20), of(10.0, 20), 1.0).1.map(f64::abs), [0.0; 2]);
    }

    #[test]
    fn rank_correlation_matches_known_values() {
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
