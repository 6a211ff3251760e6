//! Quantiles of a flow's round-trip times within 1 %, in about 1 kB. No bucket is wider than 2 % of its lower end, so
//! its middle is within 1 % of all its values. Memory is allocated per octave with values: RTTs that span a factor of
//! 16 take five octaves, 380 bytes. `hdrhistogram` at this precision allocates all octaves at once, 5 kB or more.

use std::collections::BTreeMap;

/// Histogram of values in nanoseconds from 1 us to 137 s. Values out of range count in the first or last bucket. Zeros,
/// frequent in queues, have a separate count. Minimum, maximum and mean are exact.
///
/// ```
/// use roughlink_core::quantiles::Histogram;
///
/// let mut rtts = Histogram::default();
/// (1..=10_000_u64).for_each(|i| rtts.record(i * 10_000)); // 10 us to 100 ms
/// assert_eq!((rtts.min(), rtts.mean(), rtts.max()), (Some(10_000), Some(50_005_000.0), Some(100_000_000)));
///
/// let median = rtts.quantile(0.5).unwrap();
/// assert!((median / 50_010_000.0 - 1.0).abs() < 0.01);
/// ```
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Start of each octave in `counts`, in units of [`PER_OCTAVE`]; [`ABSENT`] until it contains a value.
    octaves: [u8; OCTAVES],
    /// Counts of the allocated octaves, each modulo 2^16.
    counts: Vec<u16>,
    /// Overflows of each count past 2^16, by index into `counts`; few histograms have any.
    #[expect(clippy::box_collection, reason = "a pointer takes less memory than an empty map")]
    carries: Option<Box<BTreeMap<u16, u32>>>,
    zeros: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            octaves: [ABSENT; OCTAVES],
            counts: Vec::new(),
            carries: None,
            zeros: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Histogram {
    /// Counts a value.
    #[inline(always)]
    pub fn record(&mut self, ns: u64) {
        if ns == 0 {
            self.zeros += 1;
            return;
        }
        self.sum += u128::from(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        let exponent = (ns | LEAST).ilog2();
        if let Some(&place) = self.octaves.get((exponent - LEAST.ilog2()) as usize)
            && let Some(count) = self.counts.get_mut(at(place, bucket(ns.max(LEAST), exponent)))
            && *count < u16::MAX
        {
            *count += 1;
        } else {
            self.count_rare(ns);
        }
    }

    /// Counts a value that is out of range, that needs memory for its octave, or whose count overflows.
    #[cold]
    #[inline(never)]
    fn count_rare(&mut self, ns: u64) {
        let i = self.add(ns);
        let count = &mut self.counts[i];
        *count = count.wrapping_add(1);
        if *count == 0 {
            *self.carries.get_or_insert_default().entry(i as u16).or_default() += 1;
        }
    }

    /// Returns the index of the count for a value. Allocates memory for its octave if necessary.
    fn add(&mut self, ns: u64) -> usize {
        let ns = ns.clamp(LEAST, MOST);
        let place = &mut self.octaves[(ns.ilog2() - LEAST.ilog2()) as usize];
        if *place == ABSENT {
            *place = (self.counts.len() / PER_OCTAVE) as u8;
            self.counts.reserve_exact(PER_OCTAVE);
            self.counts.resize(self.counts.len() + PER_OCTAVE, 0);
        }
        at(*place, bucket(ns, ns.ilog2()))
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.zeros == 0 && self.counts.is_empty()
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.zeros + (0..self.counts.len()).map(|i| self.counted(i)).sum::<u64>()
    }

    fn counted(&self, i: usize) -> u64 {
        let carried = self.carries.as_ref().and_then(|carries| carries.get(&(i as u16))).copied().unwrap_or(0);
        u64::from(self.counts[i]) + (u64::from(carried) << 16)
    }

    /// Returns the smallest value.
    pub fn min(&self) -> Option<u64> {
        (!self.is_empty()).then_some(if self.zeros > 0 { 0 } else { self.min })
    }

    /// Returns the largest value.
    pub fn max(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max)
    }

    /// Returns the mean.
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum as f64 / self.count() as f64)
    }

    /// Returns the value below which the share `q` of all values lies: the middle of its bucket.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        if self.is_empty() {
            return None;
        }
        let rank = (q * self.count() as f64) as u64;
        let mut seen = self.zeros;
        if seen > rank {
            return Some(0.0);
        }
        for (octave, &place) in self.octaves.iter().enumerate().filter(|(_, place)| **place != ABSENT) {
            for bucket in 0..PER_OCTAVE {
                seen += self.counted(at(place, bucket));
                if seen > rank {
                    return Some(middle(octave, bucket).clamp(self.min as f64, self.max as f64));
                }
            }
        }
        Some(self.max as f64)
    }
}

fn at(place: u8, bucket: usize) -> usize {
    usize::from(place) * PER_OCTAVE + bucket
}

/// Returns the bucket, within its octave, of a value of at least [`LEAST`].
fn bucket(ns: u64, exponent: u32) -> usize {
    usize::from(BUCKETS[(ns >> (exponent - CELLS.ilog2())) as usize % CELLS])
}

/// Returns the middle of a bucket, ns.
fn middle(octave: usize, bucket: usize) -> f64 {
    let first = BUCKETS.partition_point(|b| usize::from(*b) < bucket);
    let end = BUCKETS.partition_point(|b| usize::from(*b) <= bucket);
    let at = |cell: usize| (LEAST << octave) as f64 * (1.0 + cell as f64 / CELLS as f64);
    (at(first) + at(end)) / 2.0
}

/// Lower end of the first bucket, ns: about 1 us, a power of two.
const LEAST: u64 = 1 << 10;
/// Upper end of the last bucket, ns: about 137 s.
const MOST: u64 = (1 << 37) - 1;
const OCTAVES: usize = (MOST.ilog2() - LEAST.ilog2()) as usize + 1;
const ABSENT: u8 = u8::MAX;
/// Number of equal cells of an octave. Buckets consist of cells, so a table can replace the logarithm.
const CELLS: usize = 256;
/// Bucket of each cell; a bucket joins as many cells as fit into 2 % of their lower end.
static BUCKETS: [u8; CELLS] = buckets();
const PER_OCTAVE: usize = BUCKETS_OF_LAST + 1;
const BUCKETS_OF_LAST: usize = buckets()[CELLS - 1] as usize;

const fn buckets() -> [u8; CELLS] {
    let mut all = [0; CELLS];
    let (mut cell, mut begin, mut bucket) = (0, 0, 0);
    while cell < CELLS {
        if (cell + 1 - begin) * 50 > CELLS + begin {
            begin = cell;
            bucket += 1;
        }
        all[cell] = bucket;
        cell += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Histogram {
        /// Bytes held; the map is estimated by its nodes of eleven entries.
        fn bytes(&self) -> usize {
            size_of::<Self>()
                + self.counts.capacity() * 2
                + self.carries.as_ref().map_or(0, |carries| carries.len()).div_ceil(6) * 11 * 6
        }
    }

    /// Largest error of quantiles, as a share of the exact value of the same rank.
    fn error(values: &mut [u64]) -> f64 {
        let mut h = Histogram::default();
        values.iter().for_each(|v| h.record(*v));
        values.sort_unstable();
        let at = |q: f64| {
            let exact = values[((q * values.len() as f64) as usize).min(values.len() - 1)] as f64;
            (h.quantile(q).unwrap() / exact - 1.0).abs()
        };
        (0..=1000).map(|i| at(f64::from(i) / 1000.0)).fold(0.0, f64::max)
    }

    #[test]
    fn quantiles_are_within_one_percent() {
        let mut even: Vec<u64> = (1..=10_000).map(|i| i * 10_000).collect(); // 10 us .. 100 ms
        assert!(error(&mut even) <= 0.01, "{}", error(&mut even));
        // 1.1 us .. 75 s in steps of 0.19 %, so values fall anywhere in their buckets.
        let mut wide: Vec<u64> =
            std::iter::successors(Some(1100.0_f64), |v| Some(v * 1.0019)).take(9500).map(|v| v as u64).collect();
        assert!(wide.last().is_some_and(|v| (60_000_000_000..137_000_000_000).contains(v)), "{:?}", wide.last());
        assert!(error(&mut wide) <= 0.01, "{}", error(&mut wide));
        // Distance between the 95th and the 99th percentile of a shallow queue.
        let mut h = Histogram::default();
        (0..10_000_u64).for_each(|i| h.record(15_000_000 + 250 * i));
        let (p95, p99) = (h.quantile(0.95).unwrap(), h.quantile(0.99).unwrap());
        assert!((p95 / 17_375_000.0 - 1.0).abs() < 0.01 && (p99 / 17_475_000.0 - 1.0).abs() < 0.01, "{p95} {p99}");
    }

    #[test]
    fn minimum_mean_and_maximum_are_exact() {
        let mut h = Histogram::default();
        (1..=10_000u64).for_each(|i| h.record(i * 10_000));
        assert_eq!((h.min(), h.max(), h.mean()), (Some(10_000), Some(100_000_000), Some(50_005_000.0)));
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn zeros_are_exact() {
        let mut h = Histogram::default();
        (0..60).for_each(|_| h.record(0));
        assert_eq!((h.min(), h.max(), h.mean(), h.quantile(0.99)), (Some(0), Some(0), Some(0.0), Some(0.0)));
        (0..40).for_each(|_| h.record(5_000_000));
        assert_eq!((h.count(), h.min(), h.max(), h.mean()), (100, Some(0), Some(5_000_000), Some(2_000_000.0)));
        assert_eq!((h.quantile(0.59), h.quantile(0.6)), (Some(0.0), Some(5_000_000.0)));
    }

    #[test]
    fn histogram_of_a_flow_takes_a_kilobyte() {
        let mut h = Histogram::default();
        assert!(h.bytes() < 150, "{}", h.bytes());
        // A factor of 2000 without a gap: 4 ms on an idle path to 8 s.
        for i in 0..400_000_u64 {
            h.record(4_000_000 + 19_990 * i);
        }
        assert!(h.bytes() <= 1040, "{}", h.bytes());
        (0..48).for_each(|bit| h.record(1 << bit));
        assert!(h.bytes() <= 2500, "{}", h.bytes());
    }

    #[test]
    fn a_bucket_counts_beyond_its_sixteen_bits() {
        let mut h = Histogram::default();
        (0..200_000).for_each(|_| h.record(10_000_000));
        (0..100_000).for_each(|_| h.record(20_000_000));
        let close = |q: f64, ns: f64| assert!((h.quantile(q).unwrap() / ns - 1.0).abs() <= 0.01, "{q}");
        close(0.66, 1e7);
        close(0.67, 2e7);
    }

    #[test]
    fn extremes_fall_into_the_outer_buckets() {
        let mut h = Histogram::default();
        h.record(1);
        h.record(u64::MAX >> 1);
        assert_eq!(h.quantile(0.0), Some(middle(0, 0)));
        assert_eq!(h.quantile(0.5), Some(middle(OCTAVES - 1, PER_OCTAVE - 1)));
    }
}
