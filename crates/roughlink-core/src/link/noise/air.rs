//! Noise in air time: a block is bad if noise corrupts it while it is on air.
//!
//! ```text
//! P(block on air from t0 to t1 is bad) = 1 - (1 - p_s) * product over impulses overlapping [t0, t1] of (1 - hit)
//! ```
//!
//! with the stationary error p_s, which may fade between two values, and trains of impulses ([`super::impulses`]).
//! Indoor power-line noise is background plus impulses, most of them synchronous with the mains (Cortes et al., IEEE
//! Trans. EMC 2010). Short blocks meet fewer impulses than long ones, which an error ratio per packet cannot express.
//!
//! All noise is a function of seed and time. Impulses and fading are generated in time order, each from its own stream,
//! regardless of the number of blocks tested. The random number of a block depends on its position in time
//! ([`crate::rng::RandomField`]). Two systems on the same line thus encounter the same noise.

use super::impulses::{Impulses, PulseTrain, TrainForm};
use crate::rng::{RandomField, RandomStream, Seed};
use crate::units::Time;

/// The noise of a medium.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct AirNoise {
    /// p_s: probability that a block is bad without fading and impulses, 0..=1. Default 0.
    pub stationary: f64,
    /// Slow changes of the stationary error. Default none.
    pub fading: Option<Fading>,
    /// Trains of impulses. Default none.
    pub impulses: Vec<Impulses>,
    /// Recorded noise: (start, error probability of a block), ascending; the first also covers the time before it.
    /// Replaces all other noise unless empty. Default empty.
    pub recorded: Vec<(Time, f64)>,
}

/// Two-state chain (Gilbert 1960) for the stationary error, with exponential dwell times; begins in the good state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fading {
    /// Mean time in the good state.
    pub good: Time,
    /// Mean time in the bad state.
    pub bad: Time,
    /// Stationary error in the bad state, 0..=1.
    pub stationary: f64,
}

impl AirNoise {
    /// Returns a quiet line: only a stationary error of 1e-4 (an assumption).
    pub fn clean() -> Self {
        AirNoise { stationary: 1e-4, ..Default::default() }
    }

    /// Returns a substitute for the error pattern "inverter light, 45 dB" (PLC paper, section 4.1; the measurement is
    /// not published). Stationary error 0.005; at each peak of the 60 Hz mains, where electronic ballasts conduct, a
    /// burst of 0.5 ms (lognormal, coefficient of variation 0.3) with jitter 0.1 ms that corrupts a block with
    /// probability 0.5. About 7 % of SDUs of 1500 bytes are bad at 18.62 Mbit/s. All values are assumptions.
    pub fn inverter45() -> Self {
        AirNoise::inverter45_at(60.0)
    }

    /// Returns [`AirNoise::inverter45`] on a mains of `mains_hz`: at 50 Hz 6.2 % of those SDUs are bad.
    pub fn inverter45_at(mains_hz: f64) -> Self {
        let source = TrainForm::Mains {
            mains_hz,
            length: Time::from_micros(500),
            variation: 0.3,
            jitter: Time::from_micros(100),
        };
        AirNoise { stationary: 0.005, impulses: vec![Impulses::new(source, 0.5)], ..Default::default() }
    }

    /// Returns a worse line: stationary error 0.02, bursts of 1 ms (coefficient of variation 0.5), jitter 0.3 ms, hit
    /// 0.9. Fading raises the stationary error to 0.3 for 0.3 s after 5 s, both on average. All values are assumptions.
    pub fn stress() -> Self {
        AirNoise::stress_at(60.0)
    }

    /// Returns [`AirNoise::stress`] on a mains of `mains_hz`.
    pub fn stress_at(mains_hz: f64) -> Self {
        let source =
            TrainForm::Mains { mains_hz, length: Time::from_millis(1), variation: 0.5, jitter: Time::from_micros(300) };
        AirNoise {
            stationary: 0.02,
            fading: Some(Fading { good: Time::from_secs(5), bad: Time::from_millis(300), stationary: 0.3 }),
            impulses: vec![Impulses::new(source, 0.9)],
            recorded: Vec::new(),
        }
    }

    /// Returns the noise of a charging cable: stationary error 1e-4, and five random impulses per second, 100 us long
    /// on average, harmless below 300 us (Hrasnica et al., the on-off model). All but rate and lengths are assumptions.
    pub fn cable() -> Self {
        AirNoise { stationary: 1e-4, impulses: vec![Impulses::asynchronous(5.0)], ..Default::default() }
    }

    /// Returns the mean error ratio of blocks `air` long by the formula above. The probabilities of impulses and
    /// recorded noise are multiplied by `share`. The number of overlapping impulses not synchronous with the mains is
    /// assumed to be Poisson-distributed: exact for Poisson trains, and a good approximation if gaps are long compared
    /// with `air`. Impulses at stated times vanish in the average over an endless run and are ignored.
    ///
    /// ```
    /// use roughlink_core::link::noise::AirNoise;
    /// use roughlink_core::units::Rate;
    ///
    /// // 120 bursts per second of 0.5 ms, each of which corrupts a block with probability 0.5.
    /// let air = Rate::from_bps(18_620_000).time_for(1518);
    /// let overlaps = 120.0 * (air.as_secs_f64() + 0.5e-3);
    /// let expected = 1.0 - (1.0 - 0.005) * (1.0 - 0.5 * overlaps);
    ///
    /// let error = AirNoise::inverter45().expected_error(air, 1.0);
    /// assert!((error - expected).abs() < 0.0005);
    /// ```
    pub fn expected_error(&self, air: Time, share: f64) -> f64 {
        if let [first, .., last] = &self.recorded[..] {
            let area: f64 = self.recorded.windows(2).map(|w| w[0].1 * (w[1].0 - w[0].0).as_secs_f64()).sum();
            return share * area / (last.0 - first.0).as_secs_f64();
        }
        if let [only] = &self.recorded[..] {
            return share * only.1;
        }
        let stationary = self.fading.map_or(self.stationary, |f| {
            let bad = f.bad.as_secs_f64() / (f.good + f.bad).as_secs_f64();
            (1.0 - bad) * self.stationary + bad * f.stationary
        });
        let spared: f64 = self.impulses.iter().map(|i| i.pass_probability(air, share)).product();
        1.0 - (1.0 - stationary) * spared
    }

    /// Returns the mean number of random draws per second for impulses and fading, independent of the number of blocks.
    pub fn draws(&self) -> f64 {
        let fading = self.fading.map_or(0.0, |f| 2.0 / (f.good + f.bad).as_secs_f64());
        fading + self.impulses.iter().map(Impulses::rate).sum::<f64>()
    }

    /// Returns the same noise with all probabilities multiplied by `factor` (at most 1 each).
    pub fn scaled(&self, factor: f64) -> Self {
        let scale = |p: &mut f64| *p = (*p * factor).clamp(0.0, 1.0);
        let mut n = self.clone();
        scale(&mut n.stationary);
        n.fading.iter_mut().for_each(|f| scale(&mut f.stationary));
        n.impulses.iter_mut().for_each(|i| scale(&mut i.hit));
        n.recorded.iter_mut().for_each(|r| scale(&mut r.1));
        n
    }

    /// Returns the noise scaled to the mean error ratio `target` for blocks `air` long, or as near below as possible.
    ///
    /// ```
    /// use roughlink_core::link::noise::AirNoise;
    /// use roughlink_core::units::Time;
    ///
    /// let air = Time::from_micros(652);
    /// let noise = AirNoise::inverter45().with_error(0.14, air);
    /// assert!((noise.expected_error(air, 1.0) - 0.14).abs() < 1e-6);
    /// ```
    pub fn with_error(&self, target: f64, air: Time) -> Self {
        let reaches = |factor| self.scaled(factor).expected_error(air, 1.0) >= target;
        let (mut low, mut high) = (0.0, 1.0);
        while !reaches(high) && high < 1e9 {
            high *= 2.0;
        }
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if reaches(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        self.scaled(high)
    }
}

/// The noise of a medium in operation.
#[derive(Debug)]
pub struct NoiseProcess {
    stationary: f64,
    fading: Option<Fade>,
    trains: Vec<PulseTrain>,
    recorded: Vec<(Time, f64)>,
    /// Current step of `recorded`.
    at: usize,
    /// Time before which only the stationary error corrupts blocks.
    calm_until: Time,
    draws: RandomField,
}

#[derive(Debug)]
struct Fade {
    config: Fading,
    stream: RandomStream,
    bad: bool,
    until: Time,
}

impl NoiseProcess {
    /// Creates the noise of medium `name`.
    pub fn new(noise: &AirNoise, name: &str, seed: &Seed) -> Self {
        NoiseProcess {
            stationary: noise.stationary,
            fading: noise.fading.map(|config| Fade::new(config, seed.stream(name, "fading"))),
            trains: (noise.impulses.iter().enumerate())
                .map(|(i, impulses)| PulseTrain::new(impulses, seed.stream(name, &format!("impulses {i}"))))
                .collect(),
            recorded: noise.recorded.clone(),
            at: 0,
            calm_until: Time::ZERO,
            draws: seed.field(name, "noise"),
        }
    }

    /// Returns true if a block on air from `from` to `to` is bad. The probabilities of impulses and of recorded noise
    /// are multiplied by `share`, so that robust modes suffer less. `from` must not decrease from call to call.
    #[inline]
    pub fn corrupts(&mut self, from: Time, to: Time, share: f64) -> bool {
        let spared = if to < self.calm_until { 1.0 - self.stationary } else { self.pass_probability(from, to, share) };
        self.draws.unit(from.0, to.0) >= spared
    }

    /// Returns the probability that a block passes, and finds the time until which it stays the stationary one.
    #[inline(never)]
    fn pass_probability(&mut self, from: Time, to: Time, share: f64) -> f64 {
        if !self.recorded.is_empty() {
            while self.recorded.get(self.at + 1).is_some_and(|s| s.0 <= from) {
                self.at += 1;
            }
            return 1.0 - self.recorded[self.at].1 * share;
        }
        let stationary = self.fading.as_mut().and_then(|f| f.error(from)).unwrap_or(self.stationary);
        let mut spared = 1.0 - stationary;
        self.calm_until = self.fading.as_ref().map_or(Time::MAX, Fade::good_until);
        for train in &mut self.trains {
            if !train.is_clear(to) {
                spared = train.overlapping(from, to).fold(spared, |spared, p| spared * (1.0 - p.hit * share));
            }
            self.calm_until = self.calm_until.min(train.clear_until());
        }
        spared
    }
}

impl Fade {
    fn new(config: Fading, mut stream: RandomStream) -> Self {
        let until = stream.exponential_time(config.good);
        Fade { config, stream, bad: false, until }
    }

    /// Returns the stationary error of the bad state while in that state.
    fn error(&mut self, at: Time) -> Option<f64> {
        while self.until <= at {
            self.bad = !self.bad;
            let mean = if self.bad { self.config.bad } else { self.config.good };
            self.until += self.stream.exponential_time(mean).max(Time(1));
        }
        self.bad.then_some(self.config.stationary)
    }

    /// Returns the end of the good state; zero in the bad state.
    fn good_until(&self) -> Time {
        if self.bad { Time::ZERO } else { self.until }
    }
}

#[cfg(test)]
mod tests {
    use super::super::impulses::MeasuredClass;
    use super::*;

    const SEED: Seed = Seed { seed: 3, replica: 0 };
    const SDU: Time = Time(652_202); // 1518 bytes at 18.62 Mbit/s

    /// Returns the error ratio of `n` blocks, about one every 0.7 ms.
    fn measured(noise: &AirNoise, air: Time, n: u64) -> f64 {
        let mut judge = NoiseProcess::new(noise, "x", &SEED);
        let step = air + Time::from_micros(47);
        (0..n).filter(|&i| judge.corrupts(step * i, step * i + air, 1.0)).count() as f64 / n as f64
    }

    #[test]
    fn the_overlap_formula_gives_the_documented_error_ratios() {
        let close = |noise: AirNoise, air, p: f64| {
            let e = noise.expected_error(air, 1.0);
            assert!((e - p).abs() < 0.0005, "{e} for {p}");
        };
        close(AirNoise::clean(), SDU, 1e-4);
        // overlap (652 us + 0.5 ms) * 120 Hz = 0.1383, half of it hits
        close(AirNoise::inverter45(), SDU, 1.0 - 0.995 * (1.0 - 0.1383 / 2.0));
        // At 50 Hz there are 100 bursts per second, and the overlap is 0.1152.
        close(AirNoise::inverter45_at(50.0), SDU, 1.0 - 0.995 * (1.0 - 0.1152 / 2.0));
        assert!(((SDU.as_secs_f64() + 0.5e-3) * 2.0 * 50.0 - 0.115).abs() < 0.0005);
        let mut no_fading = AirNoise::stress();
        no_fading.fading = None;
        close(no_fading, SDU, 1.0 - 0.98 * (1.0 - 0.1983 * 0.9));
        // A voice packet of 218 bytes on the wire meets fewer bursts.
        close(AirNoise::inverter45(), Time(93_663), 1.0 - 0.995 * (1.0 - 0.0712 / 2.0));
    }

    #[test]
    fn blocks_fail_as_often_as_the_formula_says() {
        let often = AirNoise { impulses: vec![Impulses::asynchronous(500.0)], ..AirNoise::cable() };
        let with = |impulses| AirNoise { impulses: vec![impulses], ..Default::default() };
        let heavy = with(Impulses::measured(MeasuredClass::Heavy));
        let (index, memory, sample) = (0.05, 0.98, Time::from_micros(1));
        let middleton =
            with(Impulses::new(TrainForm::MarkovMiddleton { index, memory, sample, harm: [0.1, 0.9] }, 0.3));
        let clean = AirNoise::clean().scaled(50.0);
        for noise in [clean, AirNoise::inverter45(), AirNoise::stress(), often, heavy, middleton] {
            for air in [Time(93_663), SDU, Time::from_millis(2)] {
                let (got, expected) = (measured(&noise, air, 2_000_000), noise.expected_error(air, 1.0));
                assert!((got / expected - 1.0).abs() < 0.05, "{got} for {expected}: {noise:?}");
            }
        }
    }

    #[test]
    fn a_target_error_is_met_by_scaling() {
        for target in [0.01, 0.07, 0.14] {
            let noise = AirNoise::inverter45().with_error(target, SDU);
            assert!((noise.expected_error(SDU, 1.0) - target).abs() < 1e-6);
            let got = measured(&noise, SDU, 1_000_000);
            assert!((got / target - 1.0).abs() < 0.05, "{got} for {target}");
        }
    }

    #[test]
    fn noise_does_not_depend_on_how_often_it_is_sampled() {
        // One noise process tests every block, the other only every seventh.
        let noise = AirNoise::stress();
        let (mut all, mut some) = (NoiseProcess::new(&noise, "x", &SEED), NoiseProcess::new(&noise, "x", &SEED));
        let mut bad = 0;
        for i in 0..70_000 {
            let (from, to) = (SDU * i, SDU * (i + 1));
            let corrupted = all.corrupts(from, to, 1.0);
            bad += u64::from(corrupted);
            if i % 7 == 0 {
                assert_eq!(some.corrupts(from, to, 1.0), corrupted, "block {i}");
            }
        }
        assert!(bad > 1000);
        let mut other = NoiseProcess::new(&noise, "x", &Seed { replica: 1, ..SEED });
        let mut again = NoiseProcess::new(&noise, "x", &SEED);
        assert!(
            (0..1000)
                .any(|i| other.corrupts(SDU * i, SDU * (i + 1), 1.0) != again.corrupts(SDU * i, SDU * (i + 1), 1.0))
        );
    }

    #[test]
    fn robust_mode_suffers_its_share() {
        let noise = AirNoise::inverter45();
        let mut judge = NoiseProcess::new(&noise, "x", &SEED);
        let air = Time::from_micros(213);
        let n = 2_000_000;
        let got = (0..n).filter(|&i| judge.corrupts(SDU * i, SDU * i + air, 0.2)).count() as f64 / n as f64;
        let expected = noise.expected_error(air, 0.2);
        assert!((expected - (1.0 - 0.995 * (1.0 - 0.08556 * 0.1))).abs() < 1e-6);
        assert!((got / expected - 1.0).abs() < 0.03, "{got} for {expected}");
    }

    #[test]
    fn recorded_noise_overrides_the_model() {
        let mut noise = AirNoise::stress();
        noise.recorded = vec![(Time::from_secs(1), 0.0), (Time::from_secs(2), 1.0), (Time::from_secs(4), 0.0)];
        let mut judge = NoiseProcess::new(&noise, "x", &SEED);
        let bad: Vec<_> = [0, 1500, 2000, 3999, 4000]
            .map(|ms| judge.corrupts(Time::from_millis(ms), Time::from_millis(ms), 1.0))
            .into();
        assert_eq!(bad, [false, false, true, true, false]);
        let blocks = (4000..6000).filter(|&us| {
            let mut judge = NoiseProcess::new(&noise, "x", &SEED);
            judge.corrupts(Time::from_micros(us * 600), Time::from_micros(us * 600 + 300), 0.2)
        });
        let share = blocks.count() as f64 / 2000.0;
        assert!((share - 0.2).abs() < 0.03, "{share}"); // all blocks lie in the bad interval: 1 * 0.2
        assert!((noise.expected_error(SDU, 1.0) - 2.0 / 3.0).abs() < 1e-12);
    }
}
