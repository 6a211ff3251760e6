//! Random streams, one per component and purpose: a new flow or node never changes the random numbers of another. A
//! stream is PCG XSL-RR 128/64 (O'Neill 2014), set up from a SipHash-2-4-128 keyed with zeros. The hash covers the seed
//! (8 bytes, little-endian), the replica (4 bytes, little-endian), the name, a NUL and the purpose. Its two halves are
//! widened to 128 bits for state and increment (`wide` in [`Seed::stream`]). A test below fixes this composition.
//!
//! ```
//! use roughlink_core::rng::Seed;
//!
//! let seed = Seed { seed: 1, replica: 0 };
//! let mut noise = seed.stream("plc.forward", "noise");
//! let mut again = seed.stream("plc.forward", "noise");
//! assert_eq!(noise.bits(), again.bits());
//!
//! let mut jitter = seed.stream("plc.forward", "jitter");
//! assert_ne!(noise.bits(), jitter.bits());
//! ```

use crate::units::Time;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng as _;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

/// Source of all random streams of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// The scenario's seed.
    pub seed: u64,
    /// Replica: number of the run among those with the same seed.
    pub replica: u32,
}

impl Seed {
    /// Returns the stream of component `name` for `purpose`, e.g. `("plc.forward", "noise")`.
    pub fn stream(&self, name: &str, purpose: &str) -> RandomStream {
        let mut h = SipHasher24::new();
        h.write(&self.seed.to_le_bytes());
        h.write(&self.replica.to_le_bytes());
        h.write(name.as_bytes());
        h.write(&[0]);
        h.write(purpose.as_bytes());
        let key = h.finish128();
        let wide = |x: u64, tweak: u64| (u128::from(x) << 64) | u128::from(x ^ tweak);
        RandomStream(Pcg64::new(wide(key.h1, 0x9e37_79b9_7f4a_7c15), wide(key.h2, 0)))
    }

    /// Returns the field of component `name` for `purpose`.
    pub fn field(&self, name: &str, purpose: &str) -> RandomField {
        RandomField(self.stream(name, purpose).bits())
    }
}

/// Random numbers by position instead of by order: earlier calls have no effect.
#[derive(Clone, Copy, Debug)]
pub struct RandomField(u64);

impl RandomField {
    /// Returns a uniform number in [0, 1), 53 bits: always the same at the same position.
    #[inline]
    pub fn unit(&self, x: u64, y: u64) -> f64 {
        (mix(mix(self.0.wrapping_add(x)).wrapping_add(y)) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// Performs one step of SplitMix64 (Steele, Lea and Flood 2014).
#[inline]
fn mix(x: u64) -> u64 {
    let z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One random stream.
#[derive(Clone, Debug)]
pub struct RandomStream(Pcg64);

impl RandomStream {
    /// Returns a number uniform over all 64-bit values.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
    /// Returns a uniform number in [0, 1), 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
    /// Returns true with probability `p` if `threshold` is the result of [`threshold`] for `p`.
    #[inline]
    pub fn hit(&mut self, threshold: u64) -> bool {
        (self.bits() >> 11) < threshold
    }
    /// Returns a uniform number in `lo..=hi` (Lemire's multiply-shift; bias below 2^-32 for ranges under 2^32).
    #[inline]
    pub fn range(&mut self, lo: u64, hi: u64) -> u64 {
        let span = hi - lo + 1;
        lo + ((u128::from(self.bits()) * u128::from(span)) >> 64) as u64
    }
    /// Returns an exponential number with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }
    /// Returns an exponential time with the given mean, in whole nanoseconds.
    pub fn exponential_time(&mut self, mean: Time) -> Time {
        Time(self.exponential(mean.0 as f64) as u64)
    }
    /// Returns a standard normal number (Box-Muller, one of the pair).
    pub fn normal(&mut self) -> f64 {
        let r = libm::sqrt(-2.0 * libm::log(1.0 - self.unit()));
        r * libm::cos(2.0 * std::f64::consts::PI * self.unit())
    }
}

/// Returns the bound below which a 53-bit draw falls with probability `p` (clamped to [0, 1]).
///
/// ```
/// use roughlink_core::rng::{Seed, threshold};
///
/// let mut stream = Seed { seed: 7, replica: 0 }.stream("plc.forward", "noise");
/// let two_percent = threshold(0.02);
/// let hits = (0..100_000).filter(|_| stream.hit(two_percent)).count();
/// assert!((1_700..2_300).contains(&hits));
/// ```
pub fn threshold(p: f64) -> u64 {
    (p.clamp(0.0, 1.0) * (1u64 << 53) as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_pinned() {
        let mut s = Seed { seed: 1, replica: 0 }.stream("plc.forward", "noise");
        let first = [s.bits(), s.bits(), s.bits()];
        let mut again = Seed { seed: 1, replica: 0 }.stream("plc.forward", "noise");
        assert_eq!(first, [again.bits(), again.bits(), again.bits()]);
        insta::assert_debug_snapshot!(first);
    }

    #[test]
    fn streams_differ_by_seed_replica_and_name() {
        let base = Seed { seed: 1, replica: 0 };
        let draw = |s: Seed, n: &str, p: &str| s.stream(n, p).bits();
        let one = draw(base, "a", "b");
        assert_ne!(one, draw(Seed { seed: 2, ..base }, "a", "b"));
        assert_ne!(one, draw(Seed { replica: 1, ..base }, "a", "b"));
        assert_ne!(one, draw(base, "ab", ""));
        assert_ne!(one, draw(base, "", "ab"));
    }

    #[test]
    fn field_mix_matches_splitmix64() {
        // The published generator's first outputs for the seeds 0 and 1234567.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(1_234_567), 6_457_827_717_110_365_317);
    }

    #[test]
    fn a_field_is_uniform_and_uncorrelated() {
        let f = Seed { seed: 7, replica: 0 }.field("x", "y");
        let n = 200_000;
        let (mut sum, mut product) = (0.0, 0.0);
        for i in 0..n {
            let u = f.unit(i * 1000, i * 1000 + 652);
            sum += u;
            product += (u - 0.5) * (f.unit((i + 1) * 1000, (i + 1) * 1000 + 652) - 0.5);
        }
        // The bounds are 4 sigma. Sigma is 0.289 / sqrt(n) for the mean and 1/12 / sqrt(n) for the covariance.
        assert!((sum / n as f64 - 0.5).abs() < 0.0026, "{}", sum / n as f64);
        assert!((product / n as f64).abs() < 0.00075, "{}", product / n as f64);
    }

    #[test]
    fn hit_has_its_probability() {
        let mut s = Seed { seed: 7, replica: 0 }.stream("x", "y");
        let t = threshold(0.02);
        let n = (0..1_000_000).filter(|_| s.hit(t)).count();
        assert!((19_500..20_500).contains(&n), "{n}"); // +- 3.5 sigma
    }
}
