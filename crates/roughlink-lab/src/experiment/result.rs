//! The results of an experiment: cells with their statistics, curves, and the verdicts on a paper's claims.
//!
//! These types are the `--json` of `roughlink reproduce` and `sweep`, the `results.json` of a result folder, and the
//! input of a report.

use crate::statistics::{self, Interval, all_equal, correlation, difference_of_shares, interval, median};
use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The results of one experiment on every stack it ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentResult {
    /// `v2g/table2`.
    pub experiment: String,
    /// Title, in one line.
    pub title: String,
    /// Its place in the paper: `Table 2`. Empty for a user's sweep.
    pub place: String,
    /// Remarks for the reader: plain text, paragraphs separated by an empty line.
    pub about: String,
    /// The command that recomputes it.
    pub command: String,
    /// The scenario that it is based on.
    pub scenario: String,
    /// Fewer and smaller cells than in the paper.
    pub quick: bool,
    /// The stacks it ran on; the first is compared with the published values.
    pub stacks: Vec<String>,
    /// The TCP stacks of a user's scenarios, whose `stacks` is one without a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scenario_stacks: Vec<String>,
    /// What was varied, in the order of the loops.
    pub axes: Vec<AxisResult>,
    /// What was measured, the main one first.
    pub metrics: Vec<MetricResult>,
    /// How to draw it.
    pub figure: Figure,
    /// One per stack, combination of axis values and metric; the stack varies slowest, the metric fastest.
    pub cells: Vec<Cell>,
    /// Curves: time series of runs, or functions.
    pub curves: Vec<Curve>,
    /// Rank correlations with the published order.
    pub ranks: Vec<Rank>,
    /// Of a comparison: each cell beside the first of its metric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<Compared>,
}

impl ExperimentResult {
    /// Adds the results of the same experiment on another stack, with remarks on the method.
    pub fn add(&mut self, other: ExperimentResult, remarks: &str) {
        self.about = format!("{}\n\n{remarks}", self.about).trim_start().to_owned();
        self.stacks.extend(other.stacks);
        self.cells.extend(other.cells);
        self.curves.extend(other.curves);
        self.ranks.extend(other.ranks);
    }
}

/// An axis of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AxisResult {
    /// Its name in cells: `cc`.
    pub name: String,
    /// For people: `Congestion control`.
    pub label: String,
    /// Its values in order.
    pub values: Vec<AxisValue>,
    /// Only some of the experiment's values were run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub narrowed: bool,
}

/// A value of an axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AxisValue {
    /// Its name in cells: `0.25 %`, `newreno-sc`.
    pub value: String,
    /// For people: `NewReno SC`.
    pub label: String,
    /// Its number without the unit, for a numeric scale (`0.25`); only on axes whose values are quantities of one unit.
    pub number: Option<f64>,
}

/// A metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricResult {
    /// `throughput_mbps`.
    pub name: String,
    /// For people: `Throughput per flow`.
    pub label: String,
    /// `Mbit/s`; empty if it is a plain number.
    pub unit: String,
}

/// One number of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The stack it was measured on.
    pub stack: String,
    /// The stack it actually ran on, where the value of an axis sets another (`tcp.stack`); else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ran_on: String,
    /// Axis name to value.
    pub axes: BTreeMap<String, String>,
    /// The metric.
    pub metric: String,
    /// The published value; null if there is none.
    pub published: Option<f64>,
    /// The published value's place in the paper, if not the experiment's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub published_at: String,
    /// Another experiment has the same published value, which is counted there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub published_again: bool,
    /// Mean over the replicas, or their `quantile`; null if no run gave a value, and if only `bound` is known.
    pub measured: Option<f64>,
    /// Quantile over the replicas, of which `measured` is the value; absent if `measured` is the mean. A metric such as
    /// `duration_s:p90` sets it. It is 0.5, the median, if some replica ended before its value was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantile: Option<f64>,
    /// Lower bound of the quantile, if too many replicas ended before their value was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
    /// Half width of the 95 % confidence interval (Student); null with fewer than two values, where all are equal, where the
    /// value is exact, and where there is `interval`.
    pub ci95: Option<f64>,
    /// The 95 % interval of a share of runs (Wilson) or of a quantile (order statistics); its upper end is null if it
    /// lies beyond the end of the runs.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "open_interval")]
    #[schemars(with = "Option<[Option<f64>; 2]>")]
    pub interval: Option<[f64; 2]>,
    /// Runs, whether or not they gave a value.
    pub replicas: u32,
    /// The values, in the order of the replicas that gave one.
    pub samples: Vec<f64>,
    /// Lower bounds from the replicas in which the value was not reached within the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_least: Vec<f64>,
    /// Numbers of the replicas of `samples` and then of `at_least`; empty if they are 0, 1, 2 and so on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<u32>,
    /// Nothing in the scenario is random: all replicas are the same run and the value is exact.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deterministic: bool,
}

/// Largest ratio between measured and published value, in either direction, that counts as agreement.
pub const FACTOR: f64 = 1.5;

/// Returns the distance of a ratio from one as a factor of at least one; infinite for zero.
pub fn factor(ratio: f64) -> f64 {
    if ratio >= 1.0 { ratio } else { 1.0 / ratio.max(0.0) }
}

impl Cell {
    /// Returns the stack on which the cell actually ran.
    pub fn real_stack(&self) -> &str {
        real_stack(&self.stack, &self.ran_on)
    }

    /// Replicas with a value.
    pub fn values(&self) -> usize {
        self.samples.len()
    }

    /// Returns true for the value of a single run of a random scenario.
    pub fn is_single(&self) -> bool {
        !self.deterministic && self.samples.len() == 1
    }

    /// Returns true if some replica ended before its value was reached.
    pub fn is_censored(&self) -> bool {
        !self.at_least.is_empty()
    }

    /// Returns the values of all replicas, or lower bounds for replicas that ended too early.
    pub fn known(&self) -> Vec<f64> {
        self.samples.iter().chain(&self.at_least).copied().collect()
    }

    /// Returns the bounds of each replica's value, by replica number.
    pub fn by_replica(&self) -> BTreeMap<u32, Interval> {
        let bounds = self.samples.iter().map(|v| [*v, *v]).chain(self.at_least.iter().map(|v| [*v, f64::INFINITY]));
        let number = |i: usize| self.numbers.get(i).copied().unwrap_or(i as u32);
        bounds.enumerate().map(|(i, bounds)| (number(i), bounds)).collect()
    }

    /// Returns mean and interval of the known values.
    pub fn summary(&self) -> Option<statistics::Summary> {
        let known = self.known();
        match self.deterministic {
            true => known.first().copied().map(statistics::Summary::exact),
            false => statistics::summary(&known),
        }
    }

    /// Returns false if the variation is unknown: for a single random run and for fewer than six equal runs.
    pub fn has_spread(&self) -> bool {
        self.summary().is_some_and(|s| s.ci95.is_some())
    }

    /// Returns true if several random runs gave the same value, so that their spread is unknown.
    pub fn all_equal(&self) -> bool {
        !self.deterministic && self.at_least.is_empty() && all_equal(&self.samples)
    }

    /// Returns the difference `self - other`, computed within replicas, which share their random numbers. None if no
    /// replica has both.
    ///
    /// The result is the mean of the differences, or their median where either cell is a median or has bounds. For
    /// shares of runs it is the difference of shares, and for other quantiles the difference without an interval.
    pub fn difference(&self, other: &Cell) -> Option<Difference> {
        let pairs = self.pairs(other);
        let exact = self.deterministic && other.deterministic;
        let of = |value, interval: Option<Interval>, median| {
            let interval = if exact { Some(value) } else { interval };
            Some(Difference { value, interval, median, pairs: pairs.len() as u32 })
        };
        let censored = self.is_censored() || other.is_censored();
        if let Some(q) = self.quantile.or(other.quantile).or(censored.then_some(0.5)) {
            if q != 0.5 && !censored {
                return of([self.measured? - other.measured?; 2], None, false);
            }
            let each: Vec<Interval> = pairs.iter().map(|(a, b)| [a[0] - b[1], a[1] - b[0]]).collect();
            let (value, interval) = median(&each)?;
            return of(value, interval, true);
        }
        let pairs: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (a[0], b[0])).collect();
        let share = |c: &Cell| Some((c.measured?, c.interval.or(c.deterministic.then_some([c.measured?; 2]))?));
        if self.interval.or(other.interval).is_some()
            && let (Some(a), Some(b)) = (share(self), share(other))
        {
            let (d, interval) = difference_of_shares(b, a, correlation(&pairs).unwrap_or(0.0));
            return of([d; 2], Some(interval), false);
        }
        let each: Vec<f64> = pairs.iter().map(|(a, b)| a - b).collect();
        let mean = statistics::summary(&each)?.mean;
        of([mean; 2], interval(&each).filter(|_| self.has_spread() && other.has_spread()), false)
    }

    /// Returns the values of the replicas that both cells have. A cell that is not random pairs with each replica of
    /// the other.
    pub fn pairs(&self, other: &Cell) -> Vec<(Interval, Interval)> {
        let (own, others) = (self.by_replica(), other.by_replica());
        let numbers = if self.deterministic { others.keys() } else { own.keys() };
        let at = |cell: &Cell, all: &BTreeMap<u32, Interval>, number: &u32| {
            if cell.deterministic { all.values().next().copied() } else { all.get(number).copied() }
        };
        numbers.filter_map(|n| Some((at(self, &own, n)?, at(other, &others, n)?))).collect()
    }

    /// Returns measured / published.
    pub fn ratio(&self) -> Option<f64> {
        match (self.measured, self.published) {
            (Some(m), Some(p)) if p != 0.0 => Some(m / p),
            _ => None,
        }
    }

    /// Returns true if the measured value is within [`FACTOR`] of the published one, and false if it is missing or only
    /// a bound is known. None if nothing was published, or if another experiment counts it.
    pub fn as_published(&self) -> Option<bool> {
        let published = self.published.filter(|_| !self.published_again)?;
        let close = |m: f64| m == published || self.ratio().is_some_and(|r| factor(r) <= FACTOR);
        Some(self.measured.is_some_and(close))
    }
}

/// The difference of two cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Bounds of the difference; they are equal if it is known.
    pub value: Interval,
    /// 95 % interval, if there are enough replicas; an end is infinite if it depends on runs that ended too early.
    pub interval: Option<Interval>,
    /// The median of the differences within replicas, not their mean.
    pub median: bool,
    /// Replicas that have both.
    pub pairs: u32,
}

impl Difference {
    /// Returns the difference if it is exactly known.
    pub fn known(&self) -> Option<f64> {
        (self.value[0] == self.value[1]).then_some(self.value[0])
    }

    /// Returns true if the interval excludes zero; None without an interval.
    pub fn is_significant(&self) -> Option<bool> {
        self.interval.map(|[from, to]| from > 0.0 || to < 0.0)
    }
}

/// A cell of a comparison beside the first of its metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// Axis name to value.
    pub axes: BTreeMap<String, String>,
    /// The metric.
    pub metric: String,
    /// Mean of the differences from the first cell within replicas, which share their random numbers; null if only
    /// bounds are known.
    pub difference: Option<f64>,
    /// `difference` is the median of the differences: the metric is a median, or some run ended before its value was
    /// reached.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub median: bool,
    /// The 95 % interval of the difference (docs/reference/statistics.md); an end is null if it lies beyond the end
    /// of the runs.
    #[serde(with = "open_interval")]
    #[schemars(with = "Option<[Option<f64>; 2]>")]
    pub interval: Option<[f64; 2]>,
    /// Replicas that have both values.
    pub pairs: u32,
}

impl Compared {
    /// Compares a cell with the first; None if no replica has both values.
    pub fn new(cell: &Cell, first: &Cell) -> Option<Compared> {
        let d = cell.difference(first)?;
        Some(Compared {
            axes: cell.axes.clone(),
            metric: cell.metric.clone(),
            difference: d.known(),
            median: d.median,
            interval: d.interval,
            pairs: d.pairs,
        })
    }

    /// Returns true if the interval excludes zero; None without an interval.
    pub fn is_significant(&self) -> Option<bool> {
        self.interval.map(|[from, to]| from > 0.0 || to < 0.0)
    }
}

/// Intervals in JSON: an infinite end is null.
mod open_interval {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(interval: &Option<[f64; 2]>, to: S) -> Result<S::Ok, S::Error> {
        interval.map(|ends| ends.map(|end| end.is_finite().then_some(end))).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<[f64; 2]>, D::Error> {
        let ends = Option::<[Option<f64>; 2]>::deserialize(from)?;
        Ok(ends.map(|[low, high]| [low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY)]))
    }
}

/// Returns `ran_on` if a value of an axis sets the stack, else `stack`.
pub(super) fn real_stack<'a>(stack: &'a str, ran_on: &'a str) -> &'a str {
    if ran_on.is_empty() { stack } else { ran_on }
}

/// A curve: y over x.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// The stack it was measured on; empty if it is a function and not a measurement.
    pub stack: String,
    /// As in [`Cell::ran_on`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ran_on: String,
    /// Axis name to value; of a function, what distinguishes it from the others.
    pub axes: BTreeMap<String, String>,
    /// For people: `Illinois AA`.
    pub label: String,
    /// What y is, a name of `metrics`.
    pub metric: String,
    /// Replica of a single run; null for a mean over replicas or a function.
    pub replica: Option<u32>,
    /// Abscissae, in the unit that the figure's x label names.
    pub x: Vec<f64>,
    /// Ordinates, as many; null where there is none.
    pub y: Vec<Option<f64>>,
}

/// How to draw an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// The form.
    pub kind: FigureKind,
    /// The axis along x; empty for curves, which bring their own.
    pub x: String,
    /// The axis whose values are the lines or the colours.
    pub series: String,
    /// A logarithmic x scale.
    pub log_x: bool,
    /// A logarithmic y scale.
    pub log_y: bool,
    /// Caption of x.
    pub x_label: String,
    /// Caption of y; a metric's label and unit if empty.
    pub y_label: String,
    /// Further axes, `metric` or `stack`: one small chart for each value.
    pub panels: String,
}

/// Forms of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FigureKind {
    /// A line per series over x, with confidence intervals.
    #[default]
    Line,
    /// A bar per value of x.
    Bar,
    /// Bars side by side: a group per value of x, a colour per series.
    Grouped,
    /// The curves over time.
    Time,
    /// The curves of functions.
    Function,
}

/// How well the order of the measured values agrees with the published one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rank {
    /// The stack.
    pub stack: String,
    /// What is held fixed: `bytes = 100 MB`.
    pub at: BTreeMap<String, String>,
    /// The axis that is ranked.
    pub over: String,
    /// The metric.
    pub metric: String,
    /// Spearman's rho.
    pub spearman: f64,
    /// Values that were ranked.
    pub n: u32,
}

/// A claim of a paper and the verdicts on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimResult {
    /// `v2g/illinois-gain-single`.
    pub claim: String,
    /// What the paper says, in our words.
    pub text: String,
    /// Where.
    pub place: String,
    /// Whose claim it is.
    #[serde(default)]
    pub origin: Origin,
    /// The paper's figure, if it has one.
    pub published: Option<f64>,
    /// What the figures are: `ratio`, `%`, `events`.
    pub unit: String,
    /// The criterion for being confirmed, for people.
    pub criterion: String,
    /// Experiments it is based on: `v2g/fig4`.
    pub experiments: Vec<String>,
    /// One per stack.
    pub verdicts: Vec<Verdict>,
}

/// Whose claim it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The paper's text or figures state it; a bound that they leave open may be ours.
    #[default]
    Paper,
    /// Not stated, but it follows from what the paper states.
    Derived,
    /// Ours: the paper says nothing about it.
    Ours,
}

impl Origin {
    /// Returns the mark in tables; empty for a claim of the paper.
    pub const fn mark(self) -> &'static str {
        match self {
            Origin::Paper => "",
            Origin::Derived => "derived",
            Origin::Ours => "ours",
        }
    }
}

/// The verdict on a claim on one stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The stack.
    pub stack: String,
    /// The outcome.
    pub verdict: Outcome,
    /// Our figure beside the published one; null if nothing is known of it.
    pub measured: Option<f64>,
    /// `measured` is only a lower bound: the event lies beyond the end of the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lower_bound: bool,
    /// `measured` is only an upper bound: what it is divided by or what is subtracted lies beyond the end of the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub upper_bound: bool,
    /// Half the width of its 95 % confidence interval; null where there is none, and where the figure is exact because
    /// nothing in the scenario is random.
    pub ci95: Option<f64>,
    /// The numbers it is based on, for people: `NewReno 0.46, Illinois 1.9 Mbit/s at 5 %`.
    pub evidence: String,
    /// Why it is not confirmed or undecided; empty if it is confirmed.
    pub reason: String,
}

/// The outcome of a claim: where the 95 % confidence interval of the figure lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The cells it needs were not run.
    #[default]
    #[serde(rename = "not run")]
    NotRun,
    /// The whole interval is outside the bounds.
    #[serde(rename = "not confirmed")]
    NotConfirmed,
    /// The interval contains a bound, or there is no interval: too few random runs, or a cell that ran has no value.
    Undecided,
    /// The whole interval is within the bounds.
    Confirmed,
}

impl Outcome {
    /// Returns the words for users.
    pub fn words(self) -> &'static str {
        match self {
            Outcome::NotRun => "not run",
            Outcome::NotConfirmed => "not confirmed",
            Outcome::Undecided => "undecided",
            Outcome::Confirmed => "confirmed",
        }
    }
}

/// The input of a report, and the `results.json` of a result folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportInput {
    /// Heading.
    pub title: String,
    /// Introduction; plain text, paragraphs separated by an empty line.
    pub intro: String,
    /// The command that made it.
    pub command: String,
    /// When, by which version, with which seed and how many replicas: label and value, shown under the heading.
    #[serde(default)]
    pub facts: Vec<(String, String)>,
    /// In the order of the paper.
    pub experiments: Vec<ExperimentResult>,
    /// The paper's claims.
    pub claims: Vec<ClaimResult>,
    /// What the first screen shows, if this is the report of a paper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
}

/// What the first screen of a paper's report says beyond the figures of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// The main conclusion: a sentence that does not depend on the figures of a run.
    pub conclusion: String,
    /// The experiment whose figure is shown first: `v2g/fig4`.
    pub picture: String,
    /// Which cells determine what to use on Linux.
    pub linux: Option<Choice>,
}

/// Where to find the best algorithm for deployed systems, for each combination of the other axes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Choice {
    /// The experiment: `v2g/linux`.
    pub experiment: String,
    /// The axis of the candidates.
    pub axis: String,
    /// The deciding metric; the experiment's first if empty.
    pub metric: String,
    /// The smallest value is the best, not the largest.
    pub lowest: bool,
    /// The candidates that come with Linux; all if empty.
    pub shipped: Vec<String>,
    /// A sentence of advice that does not depend on the figures of a run.
    pub note: String,
}

/// Returns the JSON Schema of [`ReportInput`], the type of `results.json` in a result folder.
pub fn schema() -> serde_json::Value {
    let mut schema = schema_for!(ReportInput);
    schema.insert("title".into(), "roughlink results".into());
    schema.into()
}
