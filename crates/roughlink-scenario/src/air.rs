//! `noise` of a medium that divides its air time into blocks: additive layers, each of which may hit a block. A layer
//! is named noise (`cable`, `inverter45`) or a single source with its parameters. Without `noise` the medium has the
//! noise of its profile. A list replaces that noise as a whole, so `{ kind = "none" }` is a line without noise.

use super::leaf::{At, Hertz, Leaf, span};
use super::problem::{Problem, Problems};
use roughlink_core::link::noise::AirNoise;
use roughlink_core::link::noise::air::Fading;
use roughlink_core::link::noise::impulses::{Impulses, LengthDistribution, MeasuredClass, TrainForm};
use roughlink_core::units::{Share, Time};
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::Range;

/// Named noise.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedNoise {
    /// Mean share of bad blocks; all probabilities of the noise are scaled to reach it. On HD-PLC a block here is a
    /// packet of `mtu` size.
    pub mean: Option<Leaf<Share>>,
}

/// Named noise that follows the mains.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedWithMains {
    /// Mean share of bad blocks; all probabilities of the noise are scaled to reach it. On HD-PLC a block here is a
    /// packet of `mtu` size.
    pub mean: Option<Leaf<Share>>,
    /// Frequency of the mains.
    #[schemars(extend("default" = "60 Hz"))]
    pub mains: Option<Leaf<Hertz>>,
}

/// Independent errors.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Stationary {
    /// Probability that a block is bad.
    #[schemars(with = "Leaf<Share>")] // required, by its definition
    pub loss: Option<Leaf<Share>>,
}

/// Good and bad times.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlFading {
    /// Mean time in the good state.
    #[schemars(with = "Leaf<Time>", example = "5 s")] // required, by its definition
    pub good: Option<Leaf<Time>>,
    /// Mean time in the bad state.
    #[schemars(with = "Leaf<Time>", example = "300 ms")] // required, by its definition
    pub bad: Option<Leaf<Time>>,
    /// Probability that a block is bad in the bad state.
    #[schemars(with = "Leaf<Share>")] // required, by its definition
    pub loss_bad: Option<Leaf<Share>>,
}

/// Time span in which the impulses of a train begin.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct During {
    /// Impulses begin only from this time on.
    #[schemars(extend("default" = "0 s"))]
    pub from: Option<Leaf<Time>>,
    /// Impulses begin only before this time; unlimited if absent.
    pub until: Option<Leaf<Time>>,
}

/// Impulses at random times.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Asynchronous {
    /// Mean time from one impulse to the next.
    #[schemars(extend("default" = "200 ms", "x-minimum" = "10 us"))]
    pub every: Option<Leaf<Time>>,
    /// Length of an impulse: the mean of an exponential distribution, or `["20 us", "100 us"]` uniform between the two.
    #[schemars(extend("default" = "100 us"))]
    pub width: Option<Leaf<LengthDistribution>>,
    /// Impulses shorter than this have no effect.
    #[schemars(extend("default" = "300 us"))]
    pub harmless: Option<Leaf<Time>>,
    /// Probability that an impulse spoils a block it overlaps.
    #[schemars(extend("default" = "100 %"))]
    pub hit: Option<Leaf<Share>>,
    /// Time span in which impulses begin.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub during: During,
}

/// Measured impulses.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Measured {
    /// Class of the measurements, `heavy`, `medium` or `weak`, by mean gap and width of the impulses.
    #[schemars(with = "Leaf<MeasuredClass>")] // required, by its definition
    pub class: Option<Leaf<MeasuredClass>>,
    /// Probability that an impulse spoils a block it overlaps.
    #[schemars(extend("default" = "100 %"))]
    pub hit: Option<Leaf<Share>>,
    /// Time span in which impulses begin.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub during: During,
}

/// Impulses of the mains.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Mains {
    /// Frequency of the mains.
    #[schemars(extend("default" = "50 Hz"))]
    pub mains: Option<Leaf<Hertz>>,
    /// Length of an impulse: the mean of a lognormal distribution.
    #[schemars(extend("default" = "0.3 ms"))]
    pub width: Option<Leaf<LengthDistribution>>,
    /// Standard deviation of the impulses' length, as a share of the mean length.
    #[schemars(extend("default" = "30 %"))]
    pub variation: Option<Leaf<Share>>,
    /// Standard deviation of the impulses' centers.
    #[schemars(extend("default" = "0.1 ms"))]
    pub jitter: Option<Leaf<Time>>,
    /// Probability that an impulse spoils a block it overlaps.
    #[schemars(extend("default" = "30 %"))]
    pub hit: Option<Leaf<Share>>,
    /// Time span in which impulses begin.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub during: During,
}

/// Impulses of a power stage.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Switching {
    /// Mean time from one impulse to the next.
    #[schemars(extend("default" = "10 ms", "x-minimum" = "10 us"))]
    pub every: Option<Leaf<Time>>,
    /// Length of an impulse: the mean of an exponential distribution, or `["20 us", "100 us"]` uniform between the two.
    #[schemars(extend("default" = ["20 us", "100 us"]))]
    pub width: Option<Leaf<LengthDistribution>>,
    /// Probability that an impulse spoils a block it overlaps.
    #[schemars(extend("default" = "20 %"))]
    pub hit: Option<Leaf<Share>>,
    /// Time span in which impulses begin.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub during: During,
}

/// A partitioned Markov chain.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Partitioned {
    /// Distribution of the times without noise, a mixture of exponential distributions: `[{ share, mean }]`.
    pub gaps: Option<At<Vec<At<Exponential>>>>,
    /// Distribution of the times with noise, in the same form.
    pub widths: Option<At<Vec<At<Exponential>>>>,
    /// Probability that an impulse spoils a block it overlaps.
    #[schemars(extend("default" = "100 %"))]
    pub hit: Option<Leaf<Share>>,
    /// Time span in which impulses begin.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub during: During,
}

/// Middleton's class A.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MarkovMiddleton {
    /// Impulsive index A of Middleton's class A.
    #[schemars(required, extend("exclusiveMinimum" = 0, "maximum" = 10))]
    pub index: Option<Leaf<f64>>,
    /// Probability that a sample keeps the state of the previous one without a draw.
    #[schemars(required, extend("minimum" = 0, "exclusiveMaximum" = 1))]
    pub memory: Option<Leaf<f64>>,
    /// Time between samples.
    #[schemars(with = "Leaf<Time>", example = "1 us")] // required, by its definition
    pub sample: Option<Leaf<Time>>,
    /// Probability that state 1 spoils a block, and probability that a higher state does.
    #[schemars(extend("default" = ["10 %", "90 %"]))]
    pub harm: Option<Leaf<[Share; 2]>>,
    /// Probability that an impulse spoils a block it overlaps.
    #[schemars(extend("default" = "100 %"))]
    pub hit: Option<Leaf<Share>>,
    /// Time span in which impulses begin.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub during: During,
}

/// Noise at stated times.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlEvents {
    /// Times of noise as `[{ at, for }]`, in order and without overlap.
    #[schemars(required)]
    pub events: Option<At<Vec<At<NoisePeriod>>>>,
    /// Probability that an impulse spoils a block it overlaps.
    #[schemars(extend("default" = "100 %"))]
    pub hit: Option<Leaf<Share>>,
}

/// A component of a mixture of exponential distributions.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Exponential {
    /// Share of the component; all shares add up to 100 %.
    #[schemars(with = "Leaf<Share>")] // required, by its definition
    pub share: Option<Leaf<Share>>,
    /// Mean of the component.
    #[schemars(with = "Leaf<Time>")] // required, by its definition
    pub mean: Option<Leaf<Time>>,
}

/// A period of noise.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoisePeriod {
    /// Start time.
    #[schemars(with = "Leaf<Time>")] // required, by its definition
    pub at: Option<Leaf<Time>>,
    /// Duration.
    #[serde(rename = "for")]
    #[schemars(with = "Leaf<Time>")] // required, by its definition
    pub lasts: Option<Leaf<Time>>,
}

impl NamedNoise {
    pub(crate) fn resolve(&self, named: AirNoise, block: Time, report: &mut Problems) -> AirNoise {
        scaled(named, &self.mean, block, report)
    }
}

impl TomlFading {
    pub(crate) fn resolve(&self, report: &mut Problems) -> Option<Fading> {
        let [good, bad] = [&self.good, &self.bad].map(|dwell| not_zero(dwell, report));
        Some(Fading { good: good?, bad: bad?, stationary: report.read(&self.loss_bad)?.0 })
    }
}

impl Measured {
    pub(crate) fn resolve(&self, report: &mut Problems) -> Option<Impulses> {
        Some(with_common_keys(Impulses::measured(report.read(&self.class)?), &self.hit, &self.during, report))
    }
}

/// Scales named noise to `mean`. All named noise has a stationary error, so scaling reaches any mean.
fn scaled(named: AirNoise, mean: &Option<Leaf<Share>>, block: Time, report: &mut Problems) -> AirNoise {
    match report.read(mean) {
        Some(Share(mean)) => named.with_error(mean, block),
        None => named,
    }
}

impl NamedWithMains {
    pub(crate) fn resolve(&self, make: fn(f64) -> AirNoise, block: Time, report: &mut Problems) -> AirNoise {
        let named = make(report.read(&self.mains).map_or(60.0, |hz| hz.0));
        if let Some(TrainForm::Mains { mains_hz, length, .. }) = named.impulses.first().map(|i| &i.source) {
            fit_mains(*length, *mains_hz, span(&self.mains), report);
        }
        scaled(named, &self.mean, block, report)
    }
}

fn with_common_keys(
    mut train: Impulses,
    hit: &Option<Leaf<Share>>,
    during: &During,
    report: &mut Problems,
) -> Impulses {
    train.hit = report.read(hit).map_or(train.hit, |hit| hit.0);
    train.during = (report.read(&during.from).unwrap_or(ALWAYS.0), report.read(&during.until).unwrap_or(ALWAYS.1));
    if train.during.0 >= train.during.1 {
        let problem = Problem::new("`until` must be after `from`").at(span(&during.until), "");
        report.error(problem.help("write a later `until` or an earlier `from`"));
    }
    train
}

impl Asynchronous {
    pub(crate) fn resolve(&self, report: &mut Problems) -> Option<Impulses> {
        let mut train = Impulses::asynchronous(rate(&self.every, report)?.unwrap_or(USUAL_IMPULSES));
        if let TrainForm::Poisson { length, harmless, .. } = &mut train.source {
            *length = report.read(&self.width).unwrap_or(*length);
            *harmless = report.read(&self.harmless).unwrap_or(*harmless);
            check_width(*length, &self.width, (*harmless, &self.harmless), report);
        }
        Some(with_common_keys(train, &self.hit, &self.during, report))
    }
}

impl Switching {
    pub(crate) fn resolve(&self, report: &mut Problems) -> Option<Impulses> {
        let mut train = Impulses::charger_switching(rate(&self.every, report)?.unwrap_or(USUAL_SWITCHING), ALWAYS);
        if let TrainForm::Poisson { length, harmless, .. } = &mut train.source {
            *length = report.read(&self.width).unwrap_or(*length);
            check_width(*length, &self.width, (*harmless, &None), report);
        }
        Some(with_common_keys(train, &self.hit, &self.during, report))
    }
}

impl Mains {
    pub(crate) fn resolve(&self, report: &mut Problems) -> Impulses {
        let mut train = Impulses::charging_mains(report.read(&self.mains).map_or(50.0, |hz| hz.0));
        if let TrainForm::Mains { mains_hz, length, variation, jitter } = &mut train.source {
            match report.read(&self.width) {
                Some(LengthDistribution::Exponential(mean)) => *length = mean,
                Some(LengthDistribution::Uniform(..)) => {
                    let problem = Problem::new("`width` must be a mean: impulses of the mains have a lognormal width")
                        .at(span(&self.width), "");
                    report.error(problem.help("write the mean as `width`, and the spread as `variation`"));
                }
                None => {}
            }
            let place = if self.width.is_some() { span(&self.width) } else { span(&self.mains) };
            fit_mains(*length, *mains_hz, place, report);
            *variation = report.read(&self.variation).map_or(*variation, |share| share.0);
            *jitter = report.read(&self.jitter).unwrap_or(*jitter);
        }
        with_common_keys(train, &self.hit, &self.during, report)
    }
}

impl Partitioned {
    pub(crate) fn resolve(&self, here: &Range<usize>, report: &mut Problems) -> Option<Impulses> {
        let mut train = Impulses::partitioned();
        if let TrainForm::Partitioned { gap, width } = &mut train.source {
            for (mixture, own) in [(&mut *gap, &self.gaps), (&mut *width, &self.widths)] {
                if let Some(own) = own {
                    *mixture = mixed(own, report)?;
                }
            }
            too_often(mean(gap) + mean(width), here.clone(), report)?;
        }
        Some(with_common_keys(train, &self.hit, &self.during, report))
    }
}

/// Returns the impulses per second: `Some(None)` if the key is absent, `None` after a fault.
fn rate(every: &Option<Leaf<Time>>, report: &mut Problems) -> Option<Option<f64>> {
    let Some(gap) = not_zero(every, report) else { return Some(None) };
    too_often(gap, span(every), report)?;
    Some(Some(1.0 / gap.as_secs_f64()))
}

/// Reports mains impulses that are too long for their period.
fn fit_mains(length: Time, mains_hz: f64, place: Range<usize>, report: &mut Problems) {
    if length.is_zero() || length.as_secs_f64() >= 0.25 / mains_hz {
        let problem = Problem::new(format!("impulses of {length} do not fit into the period of {mains_hz} Hz"));
        report.error(
            problem.at(place, "").help("make `width` longer than zero and shorter than a quarter of the period"),
        );
    }
}

/// Reports widths that cannot be drawn, and impulses that are all harmless.
fn check_width(
    length: LengthDistribution,
    width: &Option<Leaf<LengthDistribution>>,
    (harmless, written): (Time, &Option<Leaf<Time>>),
    report: &mut Problems,
) {
    let longest = match length {
        LengthDistribution::Exponential(mean) => mean * MAX_IN_MEANS,
        LengthDistribution::Uniform(a, b) if a > b => {
            let problem = Problem::new("the first value of `width` is larger than the second").at(span(width), "");
            report.error(problem.help("write the shortest first: [\"20 us\", \"100 us\"]"));
            return;
        }
        LengthDistribution::Uniform(_, b) => b,
    };
    if longest.is_zero() {
        let problem = Problem::new("`width` must be greater than zero").at(span(width), "");
        report.error(problem.help("write a time such as \"100 us\""));
    } else if harmless >= longest {
        let place = if written.is_some() { span(written) } else { span(width) };
        let problem =
            Problem::new(format!("noise has no effect: all impulses are shorter than `harmless`, {harmless}"));
        report.error(problem.at(place, "").help("increase `width` or decrease `harmless`"));
    }
}

impl MarkovMiddleton {
    pub(crate) fn resolve(&self, here: &Range<usize>, report: &mut Problems) -> Option<Impulses> {
        let index = report.read(&self.index);
        if let Some(index) = index.filter(|index| !(1e-6..=10.0).contains(index)) {
            let problem =
                Problem::new(format!("`index` must be between 1e-6 and 10, found {index}")).at(span(&self.index), "");
            report.error(problem.help("write a value such as 0.1; the literature has 0.01 to 0.3"));
        }
        let memory = report.read(&self.memory);
        if let Some(memory) = memory.filter(|memory| !(0.0..1.0).contains(memory)) {
            let problem = Problem::new(format!("`memory` must be at least 0 and less than 1, found {memory}"))
                .at(span(&self.memory), "");
            report.error(problem.help("write a probability such as 0.9, or 0 for no memory"));
        }
        let sample = not_zero(&self.sample, report);
        if let (Some(index), Some(memory), Some(sample)) = (index, memory, sample) {
            // Duration of the background: 1 / ((1 - x) (1 - P_0)) samples.
            let background = sample.as_secs_f64() / ((1.0 - memory) * -libm::expm1(-index));
            too_often(Time::from_secs_f64(background), here.clone(), report)?;
        }
        let [first, higher] = report.read(&self.harm).unwrap_or([Share(0.1), Share(0.9)]);
        let source =
            TrainForm::MarkovMiddleton { index: index?, memory: memory?, sample: sample?, harm: [first.0, higher.0] };
        Some(with_common_keys(Impulses::new(source, 1.0), &self.hit, &self.during, report))
    }
}

impl TomlEvents {
    pub(crate) fn resolve(&self, report: &mut Problems) -> Option<Impulses> {
        let list = self.events.as_ref()?;
        let events: Vec<(Time, Time)> = (list.value.iter())
            .filter_map(|e| Some((report.read(&e.value.at)?, report.read(&e.value.lasts)?)))
            .collect();
        if events.windows(2).any(|pair| pair[0].0 + pair[0].1 >= pair[1].0) {
            let problem = Problem::new("an event begins before the previous one ends").at(list.span.clone(), "");
            report.error(problem.help("sort the events by time, or join the two"));
        }
        let train = Impulses::new(TrainForm::Events(events), 1.0);
        Some(with_common_keys(train, &self.hit, &During::default(), report))
    }
}

/// Rejects impulses so frequent that drawing them would dominate the run time.
fn too_often(every: Time, place: Range<usize>, report: &mut Problems) -> Option<()> {
    if every >= MIN_GAP {
        return Some(());
    }
    let problem = Problem::new(format!("impulses every {every} are too frequent"));
    report.error(
        problem
            .at(place, "")
            .help(format!("space them by at least {MIN_GAP} on average, or write kind = \"stationary\"")),
    );
    None
}

fn mean(mixture: &[(f64, Time)]) -> Time {
    Time::from_secs_f64(mixture.iter().map(|(share, mean)| share * mean.as_secs_f64()).sum())
}

/// Returns a mixture of exponential distributions, each with its share of the draws.
fn mixed(list: &At<Vec<At<Exponential>>>, report: &mut Problems) -> Option<Vec<(f64, Time)>> {
    let mut parts = Vec::new();
    for part in &list.value {
        parts.push((report.read(&part.value.share)?.0, not_zero(&part.value.mean, report)?));
    }
    let sum: f64 = parts.iter().map(|part| part.0).sum();
    if (sum - 1.0).abs() > 1e-6 {
        let problem = Problem::new(format!("the shares add up to {:.1} % instead of 100 %", 100.0 * sum))
            .at(list.span.clone(), "");
        report.error(
            problem.help("write [{ share = \"70 %\", mean = \"15 ms\" }, { share = \"30 %\", mean = \"1 s\" }]"),
        );
        return None;
    }
    Some(parts)
}

fn not_zero(leaf: &Option<Leaf<Time>>, report: &mut Problems) -> Option<Time> {
    let time = report.read(leaf)?;
    if time.is_zero() {
        let problem = Problem::new("this time must be greater than zero").at(span(leaf), "");
        report.error(problem.help("write a time such as \"10 ms\""));
        return None;
    }
    Some(time)
}

/// Impulses per second (Hrasnica et al.; 25 on a disturbed line).
const USUAL_IMPULSES: f64 = 5.0;
/// Impulses per second of a charger's power stage (assumption; 50 to 500).
const USUAL_SWITCHING: f64 = 100.0;
const ALWAYS: (Time, Time) = (Time::ZERO, Time::MAX);
pub(super) const MIN_GAP: Time = Time::from_micros(10);
/// Upper limit of `harmless`, in mean lengths: one impulse in 22 000 is longer, so finding one takes 22 000 draws.
const MAX_IN_MEANS: u64 = 10;
