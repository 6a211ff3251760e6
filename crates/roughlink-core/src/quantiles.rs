//! Quantiles of times: exact ones of a sorted sample, and estimates from a histogram.

mod histogram;

pub use histogram::Histogram;

use crate::units::Time;
use serde::{Deserialize, Serialize};

/// Delays, ms. Each is a value of the sample, so quantiles are exact.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DelayResult {
    /// Median, ms.
    pub p50: f64,
    /// 95th percentile, ms.
    pub p95: f64,
    /// 99th percentile, ms.
    pub p99: f64,
    /// Maximum, ms.
    pub max: f64,
}

impl DelayResult {
    /// Computes the quantiles of a sample in ascending order; `None` if it is empty.
    ///
    /// ```
    /// use roughlink_core::quantiles::DelayResult;
    /// use roughlink_core::units::Time;
    ///
    /// let sample: Vec<Time> = (1..=1000).map(Time::from_millis).collect();
    /// let delay = DelayResult::from_sorted(&sample).unwrap();
    /// assert_eq!((delay.p50, delay.p99, delay.max), (501.0, 991.0, 1000.0));
    /// assert_eq!(DelayResult::from_sorted(&[]), None);
    /// ```
    pub fn from_sorted(sorted: &[Time]) -> Option<Self> {
        let at = |q| quantile(sorted, q).map(Time::as_millis_f64);
        Some(DelayResult { p50: at(0.5)?, p95: at(0.95)?, p99: at(0.99)?, max: at(1.0)? })
    }
}

/// Returns the value of an ascending sample below which the share `q` lies, ranked as in [`Histogram::quantile`].
pub fn quantile(sorted: &[Time], q: f64) -> Option<Time> {
    let rank = (q * sorted.len() as f64) as usize;
    sorted.get(rank.min(sorted.len().checked_sub(1)?)).copied()
}

/// Summary of times, ms. Minimum, mean and maximum are exact, quantiles within 1 % ([`Histogram`]).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RttResult {
    /// Minimum, ms.
    pub min: f64,
    /// Mean, ms.
    pub mean: f64,
    /// Median, ms.
    pub p50: f64,
    /// 95th percentile, ms.
    pub p95: f64,
    /// 99th percentile, ms.
    pub p99: f64,
    /// Maximum, ms.
    pub max: f64,
}

impl RttResult {
    /// Summarizes a histogram of nanoseconds; `None` if it is empty.
    pub fn from_histogram(samples: &Histogram) -> Option<Self> {
        let ms = |ns: f64| ns / 1e6;
        Some(RttResult {
            min: ms(samples.min()? as f64),
            mean: ms(samples.mean()?),
            p50: ms(samples.quantile(0.5)?),
            p95: ms(samples.quantile(0.95)?),
            p99: ms(samples.quantile(0.99)?),
            max: ms(samples.max()? as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_sample_are_its_values() {
        let sample: Vec<Time> = (1..=1000).map(Time::from_millis).collect();
        let d = DelayResult::from_sorted(&sample).unwrap();
        assert_eq!((d.p50, d.p95, d.p99, d.max), (501.0, 951.0, 991.0, 1000.0));
        assert_eq!(quantile(&sample, 0.999), Some(Time::from_millis(1000)));
        assert_eq!(DelayResult::from_sorted(&[]), None);
    }
}
