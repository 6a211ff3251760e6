//! Trains of noise impulses in time: synchronous with the mains, at random, in clusters, at stated times.
//!
//! All trains give impulses in the order of their starts, each with the probability that it corrupts a block it
//! overlaps. Where the literature only gives amplitudes (Middleton), states stand for error probabilities.

use crate::rng::RandomStream;
use crate::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;

/// A train of impulses on a medium.
#[derive(Clone, Debug, PartialEq)]
pub struct Impulses {
    /// Times and lengths of the impulses.
    pub source: TrainForm,
    /// Probability that an impulse corrupts a block it overlaps, 0..=1.
    pub hit: f64,
    /// Time span of impulse starts, such as while current flows. Default: from 0 to the end.
    pub during: (Time, Time),
}

/// The form of a train.
#[derive(Clone, Debug, PartialEq)]
pub enum TrainForm {
    /// Two bursts per period of the mains. Centers are evenly spaced with a random phase and normal jitter (cut at a
    /// quarter of the spacing); lengths are lognormal (cut at half the spacing).
    Mains {
        /// Frequency of the mains, Hz.
        mains_hz: f64,
        /// Mean length.
        length: Time,
        /// Standard deviation of the length over its mean.
        variation: f64,
        /// Standard deviation of the centers.
        jitter: Time,
    },
    /// Independent impulses.
    Poisson {
        /// Impulses per second.
        rate: f64,
        /// Lengths of the impulses.
        length: LengthDistribution,
        /// Length below which impulses have no effect.
        harmless: Time,
    },
    /// The partitioned Markov chain of Zimmermann and Dostert (IEEE Trans. EMC 2002) in continuous time: gaps and
    /// widths alternate, each a mixture of exponentials given as (weight, mean).
    Partitioned {
        /// Time without noise.
        gap: Vec<(f64, Time)>,
        /// Time with noise.
        width: Vec<(f64, Time)>,
    },
    /// Markov-Middleton (Ndo, Labeau and Kassouf 2013). At every sample the state stays with probability `memory`.
    /// Otherwise a new state m is drawn with the class A probability `exp(-A) A^m / m!`. State 0 is the background.
    /// Class A fits narrow-band records poorly, so this is one option among others.
    MarkovMiddleton {
        /// Impulsive index A (0.01-0.3 in the literature).
        index: f64,
        /// The paper's x, 0..1.
        memory: f64,
        /// Time between samples.
        sample: Time,
        /// Probability that state 1 and a higher state corrupt a block, as shares of `hit` (assumed: 0.1, 0.9).
        harm: [f64; 2],
    },
    /// Known events, such as a contactor's switching: (start, length), ascending and not overlapping.
    Events(Vec<(Time, Time)>),
}

/// The distribution of a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthDistribution {
    /// Exponential with this mean.
    Exponential(Time),
    /// Uniform between the two.
    Uniform(Time, Time),
}

impl Impulses {
    /// Creates a train without a time limit.
    pub fn new(source: TrainForm, hit: f64) -> Self {
        Impulses { source, hit, during: ALWAYS }
    }

    /// Returns asynchronous impulses, `rate` per second: lengths exponential with mean 100 us, harmless below 300 us
    /// (Hrasnica et al.: 5 /s, disturbed 25 /s). The assumption is that longer impulses always hit.
    pub fn asynchronous(rate: f64) -> Self {
        let length = LengthDistribution::Exponential(Time::from_micros(100));
        Impulses::new(TrainForm::Poisson { rate, length, harmless: Time::from_micros(300) }, 1.0)
    }

    /// Returns the noise of a mains supply at a charging cable (AC charging): bursts of 0.3 ms, hit 0.3. Relative
    /// spread and jitter are the same as in [`super::AirNoise::inverter45`]. Values are assumptions.
    pub fn charging_mains(mains_hz: f64) -> Self {
        let (length, jitter) = (Time::from_micros(300), Time::from_micros(100));
        Impulses::new(TrainForm::Mains { mains_hz, length, variation: 0.3, jitter }, 0.3)
    }

    /// Returns a DC charger's noise while current flows: `rate` per second (50-500), 20-100 us, hit 0.2 (all assumed).
    pub fn charger_switching(rate: f64, current: (Time, Time)) -> Self {
        let length = LengthDistribution::Uniform(Time::from_micros(20), Time::from_micros(100));
        let source = TrainForm::Poisson { rate, length, harmless: Time::ZERO };
        Impulses { source, hit: 0.2, during: current }
    }

    /// Returns Zimmermann and Dostert's measurements as used by Ma, So and Gunawan, by mean gap and mean width; both
    /// are exponential. The assumption is that each impulse hits.
    pub fn measured(class: MeasuredClass) -> Self {
        let (gap, width) = match class {
            MeasuredClass::Heavy => (Time::from_micros(19_600), Time(64_100)),
            MeasuredClass::Medium => (Time::from_millis(960), Time(60_700)),
            MeasuredClass::Weak => (Time::from_millis(8_197), Time(110_700)),
        };
        Impulses::new(TrainForm::Partitioned { gap: vec![(1.0, gap)], width: vec![(1.0, width)] }, 1.0)
    }

    /// Returns a partitioned chain with short and long gaps (15 ms, 1 s) and widths (60 us, 300 us). The values are
    /// assumptions that preserve the measured tails: few widths above 500 us, most gaps below 200 ms.
    pub fn partitioned() -> Self {
        let gap = vec![(0.7, Time::from_millis(15)), (0.3, Time::from_secs(1))];
        let width = vec![(0.9, Time::from_micros(60)), (0.1, Time::from_micros(300))];
        Impulses::new(TrainForm::Partitioned { gap, width }, 1.0)
    }

    /// Returns the mean number of impulses, or of samples drawn for them, per second.
    pub(super) fn rate(&self) -> f64 {
        match &self.source {
            TrainForm::Mains { mains_hz, .. } => 2.0 * mains_hz,
            TrainForm::Poisson { rate, .. } => *rate,
            TrainForm::Partitioned { gap, width } => 1.0 / (mean(gap) + mean(width)),
            TrainForm::MarkovMiddleton { sample, .. } => 1.0 / sample.as_secs_f64(),
            TrainForm::Events(_) => 0.0,
        }
    }

    /// Returns the probability that the train spares a block of length `air` if impulses have `share` of their `hit`.
    pub(super) fn pass_probability(&self, air: Time, share: f64) -> f64 {
        if self.during != ALWAYS {
            return 1.0;
        }
        let air = air.as_secs_f64();
        let hit = self.hit * share;
        match &self.source {
            TrainForm::Mains { mains_hz, length, .. } => {
                // Impulses are evenly spaced, so a block overlaps floor(n) or floor(n) + 1 of them.
                let n = (air + length.as_secs_f64()) * 2.0 * mains_hz;
                let (whole, rest) = (libm::floor(n), n - libm::floor(n));
                libm::pow(1.0 - hit, whole) * (1.0 - rest * hit)
            }
            TrainForm::Poisson { rate, length, harmless } => {
                let (share_longer, mean_longer) = length.above(*harmless);
                libm::exp(-hit * rate * share_longer * (air + mean_longer))
            }
            TrainForm::Partitioned { gap, width } => {
                let (gap, width) = (mean(gap), mean(width));
                libm::exp(-hit * (width + air) / (gap + width))
            }
            TrainForm::MarkovMiddleton { index, memory, sample, harm } => {
                let overlaps = |p: f64| p + air / sample.as_secs_f64() * p * (1.0 - p) * (1.0 - memory);
                let first = libm::exp(-index) * index;
                let mut total = harm[0] * overlaps(first);
                let mut p = first;
                for m in 2..STATES {
                    p *= index / m as f64;
                    total += harm[1] * overlaps(p);
                }
                libm::exp(-hit * total)
            }
            TrainForm::Events(_) => 1.0,
        }
    }
}

/// A class of measured impulse noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MeasuredClass {
    /// Gap 19.6 ms, width 64.1 us.
    Heavy,
    /// Gap 0.96 s, width 60.7 us.
    Medium,
    /// Gap 8.197 s, width 110.7 us.
    Weak,
}

impl LengthDistribution {
    fn draw(self, stream: &mut RandomStream) -> Time {
        match self {
            LengthDistribution::Exponential(mean) => stream.exponential_time(mean),
            LengthDistribution::Uniform(a, b) => Time(stream.range(a.0, b.0)),
        }
    }
    /// Returns the share of lengths of at least `least`, and the mean of these lengths in seconds.
    fn above(self, least: Time) -> (f64, f64) {
        match self {
            LengthDistribution::Exponential(mean) => {
                let (least, mean) = (least.as_secs_f64(), mean.as_secs_f64());
                (libm::exp(-least / mean), least + mean)
            }
            LengthDistribution::Uniform(_, b) if least > b => (0.0, b.as_secs_f64()),
            LengthDistribution::Uniform(a, b) if least > a => {
                let least = least.as_secs_f64();
                let (a, b) = (a.as_secs_f64(), b.as_secs_f64());
                ((b - least) / (b - a), (least + b) / 2.0)
            }
            LengthDistribution::Uniform(a, b) => (1.0, (a + b).as_secs_f64() / 2.0),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pulse {
    pub(super) start: Time,
    pub(super) end: Time,
    pub(super) hit: f64,
}

#[derive(Debug)]
pub(super) struct PulseTrain {
    config: Impulses,
    stream: RandomStream,
    /// Next impulse; `None` after the last.
    next: Option<Pulse>,
    /// Impulses that may still touch a block.
    recent: Vec<Pulse>,
    state: ImpulseState,
}

/// Progress of the generation of impulses.
#[derive(Debug)]
enum ImpulseState {
    /// Nominal center of the next burst, s; mu and sigma of the logarithm of lengths in s.
    Mains { center: f64, mu: f64, sigma: f64 },
    /// End of the generated part: the last start (Poisson) or the last end.
    Time(Time),
    /// End of the generated part, and the state there.
    Middleton(Time, usize),
    /// Number of events already generated.
    Count(usize),
}

impl PulseTrain {
    pub(super) fn new(config: &Impulses, mut stream: RandomStream) -> Self {
        let state = match &config.source {
            TrainForm::Mains { mains_hz, length, variation, .. } => {
                let sigma = libm::sqrt(libm::log(1.0 + variation * variation));
                let mu = libm::log(length.as_secs_f64()) - sigma * sigma / 2.0;
                ImpulseState::Mains { center: stream.unit() / (2.0 * mains_hz), mu, sigma }
            }
            TrainForm::Poisson { .. } | TrainForm::Partitioned { .. } => ImpulseState::Time(Time::ZERO),
            TrainForm::MarkovMiddleton { .. } => ImpulseState::Middleton(Time::ZERO, 0),
            TrainForm::Events(_) => ImpulseState::Count(0),
        };
        let mut train = PulseTrain { config: config.clone(), stream, next: None, recent: Vec::new(), state };
        train.next = train.pulse();
        train
    }

    /// Returns true if no generated impulse begins by `to`, so that none overlaps a block on air until then.
    pub(super) fn is_clear(&self, to: Time) -> bool {
        to < self.clear_until()
    }

    /// Returns the time before which no impulse touches a block.
    pub(super) fn clear_until(&self) -> Time {
        if self.recent.is_empty() { self.next.map_or(Time::MAX, |p| p.start) } else { Time::ZERO }
    }

    /// Returns the impulses that overlap `[from, to]`. `from` must never decrease.
    pub(super) fn overlapping(&mut self, from: Time, to: Time) -> impl Iterator<Item = Pulse> {
        while let Some(p) = self.next
            && p.start <= to
        {
            let within = self.config.during.0 <= p.start && p.start < self.config.during.1;
            if within && p.end >= from {
                self.recent.push(p);
            }
            self.next = self.pulse();
        }
        self.recent.retain(|p| p.end >= from);
        self.recent.iter().filter(move |p| p.start <= to).copied()
    }

    fn pulse(&mut self) -> Option<Pulse> {
        let PulseTrain { config, stream, state, .. } = self;
        let hit = config.hit;
        match (&config.source, state) {
            (TrainForm::Mains { mains_hz, jitter, .. }, ImpulseState::Mains { center, mu, sigma }) => {
                let spacing = 1.0 / (2.0 * mains_hz);
                let shift = (jitter.as_secs_f64() * stream.normal()).clamp(-spacing / 4.0, spacing / 4.0);
                let length = libm::exp(*mu + *sigma * stream.normal()).min(spacing / 2.0);
                let start = Time::from_secs_f64(*center + shift - length / 2.0);
                let end = Time::from_secs_f64(*center + shift + length / 2.0);
                *center += spacing;
                Some(Pulse { start, end, hit })
            }
            (TrainForm::Poisson { rate, length, harmless }, ImpulseState::Time(last)) => loop {
                if *rate <= 0.0 {
                    return None;
                }
                *last += stream.exponential_time(Time::from_secs_f64(1.0 / rate));
                let length = length.draw(stream);
                if length >= *harmless {
                    return Some(Pulse { start: *last, end: *last + length, hit });
                }
            },
            (TrainForm::Partitioned { gap, width }, ImpulseState::Time(last)) => {
                let start = *last + mixture(stream, gap);
                // At least a nanosecond, so that time advances.
                *last = start + mixture(stream, width).max(Time(1));
                Some(Pulse { start, end: *last, hit })
            }
            (TrainForm::MarkovMiddleton { index, memory, sample, harm }, ImpulseState::Middleton(last, m)) => loop {
                let stay = DwellTimes { index: *index, memory: *memory, sample: *sample };
                let start = *last;
                let left = *m;
                *last += stay.length(stream, left);
                *m = stay.next(stream, left);
                if left > 0 {
                    return Some(Pulse { start, end: *last, hit: hit * harm[usize::from(left > 1)] });
                }
            },
            (TrainForm::Events(events), ImpulseState::Count(n)) => {
                let &(start, length) = events.get(*n)?;
                *n += 1;
                Some(Pulse { start, end: start + length, hit })
            }
            _ => unreachable!("a train's state is its source's"),
        }
    }
}

/// Dwell times of a Markov-Middleton chain.
struct DwellTimes {
    index: f64,
    memory: f64,
    sample: Time,
}

impl DwellTimes {
    /// Returns the class A probability of state m.
    fn probability(&self, m: usize) -> f64 {
        (1..=m).fold(libm::exp(-self.index), |p, i| p * self.index / i as f64)
    }
    /// Draws the time in state `m`: at each sample the chain leaves it with probability (1 - x) (1 - P_m).
    fn length(&self, stream: &mut RandomStream, m: usize) -> Time {
        let leave = (1.0 - self.memory) * (1.0 - self.probability(m));
        let samples = 1.0 + libm::floor(libm::log(1.0 - stream.unit()) / libm::log1p(-leave));
        Time((samples * self.sample.0 as f64) as u64)
    }
    /// Draws a state other than `m`, by its probability.
    fn next(&self, stream: &mut RandomStream, m: usize) -> usize {
        let mut u = stream.unit() * (1.0 - self.probability(m));
        let found = (0..STATES).filter(|&k| k != m).find(|&k| {
            u -= self.probability(k);
            u < 0.0
        });
        // The likeliest other state takes the probability lost to rounding and to states beyond [`STATES`].
        found.unwrap_or(usize::from(m == 0))
    }
}

/// Draws from a mixture of exponentials.
fn mixture(stream: &mut RandomStream, parts: &[(f64, Time)]) -> Time {
    let total: f64 = parts.iter().map(|p| p.0).sum();
    let mut u = stream.unit() * total;
    let part = parts.iter().find(|p| {
        u -= p.0;
        u < 0.0
    });
    stream.exponential_time(part.or(parts.last()).map_or(Time::MAX, |p| p.1))
}

/// Returns the mean of a mixture, s.
fn mean(parts: &[(f64, Time)]) -> f64 {
    let total: f64 = parts.iter().map(|p| p.0).sum();
    parts.iter().map(|p| p.0 * p.1.as_secs_f64()).sum::<f64>() / total
}

const ALWAYS: (Time, Time) = (Time::ZERO, Time::MAX);

/// Number of distinct Markov-Middleton states; with A <= 0.3 the total probability of higher states is below 1e-9.
const STATES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    fn pulses(impulses: &Impulses, secs: u64) -> Vec<Pulse> {
        let stream = Seed { seed: 3, replica: 0 }.stream("x", "impulses");
        let mut train = PulseTrain::new(impulses, stream);
        train.overlapping(Time::ZERO, Time::from_secs(secs)).collect()
    }
    fn mean_length(pulses: &[Pulse]) -> f64 {
        pulses.iter().map(|p| (p.end - p.start).as_secs_f64()).sum::<f64>() / pulses.len() as f64
    }
    fn near(got: f64, expected: f64, tolerance: f64) {
        assert!((got / expected - 1.0).abs() < tolerance, "{got} for {expected}");
    }

    #[test]
    fn mains_bursts_have_the_configured_spacing_and_length() {
        let source = TrainForm::Mains {
            mains_hz: 50.0,
            length: Time::from_micros(500),
            variation: 0.3,
            jitter: Time::from_micros(100),
        };
        let p = pulses(&Impulses::new(source, 0.5), 1000);
        near(p.len() as f64, 100_000.0, 1e-4);
        assert!(p.is_sorted_by_key(|p| p.start));
        near(mean_length(&p), 500e-6, 0.005);
        let deviation = |x: &dyn Fn(&Pulse) -> f64| {
            let mean = p.iter().map(x).sum::<f64>() / p.len() as f64;
            libm::sqrt(p.iter().map(|p| (x(p) - mean) * (x(p) - mean)).sum::<f64>() / p.len() as f64)
        };
        near(deviation(&|p| (p.end - p.start).as_secs_f64()), 150e-6, 0.02);
        // All centers are at the same phase of the 10 ms, apart from the jitter.
        let first = p[0].start.0 + 5_000_000;
        near(
            deviation(&|p| ((p.start.0 + p.end.0) / 2 + 10_000_000 - first % 10_000_000) as f64 % 1e7 / 1e9),
            100e-6,
            0.02,
        );
    }

    #[test]
    fn poisson_impulses_have_the_configured_rate_and_length() {
        let p = pulses(&Impulses::asynchronous(5.0), 100_000);
        // 5 /s, of which exp(-3) are longer than 300 us, by another 100 us on average
        near(p.len() as f64, 500_000.0 * libm::exp(-3.0), 0.02);
        near(mean_length(&p), 400e-6, 0.02);
        let p = pulses(&Impulses::charger_switching(200.0, (Time::from_secs(10), Time::from_secs(30))), 100);
        near(p.len() as f64, 4000.0, 0.05);
        near(mean_length(&p), 60e-6, 0.02);
        assert!(p[0].start >= Time::from_secs(10) && p.iter().all(|p| p.start < Time::from_secs(30)));
    }

    #[test]
    fn partitioned_chains_have_the_configured_duty_cycle() {
        let p = pulses(&Impulses::measured(MeasuredClass::Heavy), 2000);
        near(p.len() as f64, 2000.0 / (19.6e-3 + 64.1e-6), 0.02);
        near(mean_length(&p), 64.1e-6, 0.02);
        let p = pulses(&Impulses::partitioned(), 10_000);
        // mean gap 310.5 ms, mean width 84 us
        near(p.len() as f64, 10_000.0 / (0.3105 + 84e-6), 0.03);
        near(mean_length(&p), 84e-6, 0.03);
        let long = p.iter().filter(|p| p.end - p.start > Time::from_micros(500)).count() as f64 / p.len() as f64;
        assert!((0.01..0.03).contains(&long), "{long}"); // 0.1 exp(-5/3) = 0.019
    }

    #[test]
    fn markov_middleton_has_the_configured_marginals_and_memory() {
        let (index, memory, sample) = (0.1, 0.98, Time::from_micros(1));
        let harm = [0.1, 0.9];
        let p = pulses(&Impulses::new(TrainForm::MarkovMiddleton { index, memory, sample, harm }, 1.0), 20);
        let stay = DwellTimes { index, memory, sample };
        let time_in =
            |harm: f64| p.iter().filter(|p| p.hit == harm).map(|p| (p.end - p.start).as_secs_f64()).sum::<f64>();
        near(time_in(0.1) / 20.0, stay.probability(1), 0.03);
        near(time_in(0.9) / 20.0, 1.0 - stay.probability(0) - stay.probability(1), 0.05);
        // Impulses without a gap are one stay in the impulsive states, of 1/((1-x) P_0) samples on average.
        let runs = p.windows(2).filter(|w| w[0].end < w[1].start).count() + 1;
        let total: f64 = p.iter().map(|p| (p.end - p.start).as_secs_f64()).sum();
        near(total / runs as f64, 1e-6 / (0.02 * stay.probability(0)), 0.03);
    }

    #[test]
    fn events_occur_at_their_times() {
        let outage = (Time::from_secs(2), Time::from_millis(20));
        let stream = Seed { seed: 3, replica: 0 }.stream("x", "impulses");
        let mut train = PulseTrain::new(&Impulses::new(TrainForm::Events(vec![outage]), 1.0), stream);
        let mut at = |ms| train.overlapping(Time::from_millis(ms), Time::from_millis(ms + 1)).count();
        assert_eq!([at(1990), at(1999), at(2015), at(2020), at(2021)], [0, 1, 1, 1, 0]);
    }
}
