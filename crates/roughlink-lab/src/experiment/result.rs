//! The results of an experiment: cells with their statistics, curves, and the verdicts on a paper's claims.
//!
//! These types are the `--json` of `reproduce` and `sweep`, the `results.json` of a folder, and the input of a report.

use super::place::CellPlace;
use crate::statistics::{
    self, ConfidenceInterval, LEVEL, MetricSummary, all_equal, bounds, correlation, difference_of_shares, interval,
    median, quantile, wilson,
};
use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Results of one experiment on all its stacks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentResult {
    /// Identifier: `v2g/table2`.
    pub experiment: String,
    /// Title, in one line.
    pub title: String,
    /// Place in the paper: `Table 2`. Empty for a user's sweep.
    pub place: String,
    /// Remarks for the reader: plain text, paragraphs separated by an empty line.
    pub about: String,
    /// Command that repeats the experiment.
    pub command: String,
    /// Scenario on which the experiment is based.
    pub scenario: String,
    /// True if there are fewer and smaller cells than in the paper.
    pub quick: bool,
    /// Stacks of the runs; the first is compared with the published values.
    pub stacks: Vec<String>,
    /// TCP stacks of a user's scenarios; `stacks` then has a single empty name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scenario_stacks: Vec<String>,
    /// Varied quantities, in the order of the loops.
    pub axes: Vec<AxisResult>,
    /// Measured quantities, the main one first.
    pub metrics: Vec<MetricResult>,
    /// How to draw the results.
    pub figure: Figure,
    /// Cells, one per stack, combination of axis values and metric; the stack varies slowest, the metric fastest.
    pub cells: Vec<Cell>,
    /// Curves: time series of runs, or functions.
    pub curves: Vec<Curve>,
    /// Rank correlations with the published order.
    pub ranks: Vec<Rank>,
    /// For a comparison: differences of the cells from the first cell of their metric.
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
    /// Name in cells: `cc`.
    pub name: String,
    /// Label for users: `Congestion control`.
    pub label: String,
    /// Values in order.
    pub values: Vec<AxisValue>,
    /// True if only some of the experiment's values were run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub narrowed: bool,
}

/// A value of an axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AxisValue {
    /// Name in cells: `0.25 %`, `newreno-sc`.
    pub value: String,
    /// Label for users: `NewReno SC`.
    pub label: String,
    /// Number without the unit, for a numeric scale (`0.25`); only on axes whose values are quantities of one unit.
    pub number: Option<f64>,
}

/// A metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricResult {
    /// Name: `throughput_mbps`.
    pub name: String,
    /// Label for users: `Throughput per flow`.
    pub label: String,
    /// Unit: `Mbit/s`; empty for a plain number.
    pub unit: String,
}

/// Values of one metric on one stack, for one combination of axis values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Stack on which the cell was measured.
    pub stack: String,
    /// Stack that actually ran, if an axis value sets another one (`tcp.stack`); otherwise empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ran_on: String,
    /// Axis name to value.
    pub axes: CellPlace,
    /// Metric.
    pub metric: String,
    /// Published value; null if nothing was published.
    pub published: Option<f64>,
    /// Place of the published value in the paper, if not the experiment's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub published_at: String,
    /// True if another experiment has the same published value and counts it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub published_again: bool,
    /// Mean over the replicas, or their `quantile`; null if no run gave a value, and if only `bound` is known.
    pub measured: Option<f64>,
    /// Quantile over the replicas whose value is `measured`; absent if `measured` is the mean. A metric such as
    /// `duration_s:p90` sets it. The quantile is 0.5, the median, if some replica ended before its value was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantile: Option<f64>,
    /// Lower bound of the quantile, if too many replicas ended before their value was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
    /// Half width of the 95 % confidence interval of a mean (Student). Null for a share of runs and for a quantile,
    /// which may have an `interval`. Also null with fewer than two values, and for equal or exact values.
    pub ci95: Option<f64>,
    /// 95 % interval of a share of runs (Wilson) or of a quantile (order statistics); the upper end is null if it lies
    /// beyond the end of the runs.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "open_interval")]
    #[schemars(with = "Option<[Option<f64>; 2]>")]
    pub interval: Option<[f64; 2]>,
    /// Number of runs, with or without a value.
    pub replicas: u32,
    /// Number of runs whose time window ended early, with a flow or with the run; absent if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: u32,
    /// Values of the replicas that gave one, in order of the replicas.
    pub samples: Vec<f64>,
    /// Lower bounds from the replicas that ended before their value was reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_least: Vec<f64>,
    /// Numbers of the replicas of `samples` and then of `at_least`; empty if they are 0, 1, 2 and so on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<u32>,
    /// True if nothing in the scenario of the finished runs is random: they are equal, and the value is exact.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deterministic: bool,
}

/// Explanation of the mark behind values with [`Cell::cut`].
pub const CUT_NOTE: &str = "* marks a value whose time window ended early, with a flow or with the run.";

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
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

    /// Returns the number of replicas with a value.
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
    pub fn by_replica(&self) -> BTreeMap<u32, ConfidenceInterval> {
        let number = |i: usize| self.numbers.get(i).copied().unwrap_or(i as u32);
        bounds(&self.samples, &self.at_least).enumerate().map(|(i, bounds)| (number(i), bounds)).collect()
    }

    /// Returns mean and interval of the known values.
    pub fn summary(&self) -> Option<MetricSummary> {
        let known = self.known();
        match self.deterministic {
            true => known.first().copied().map(MetricSummary::exact),
            false => statistics::summary(&known),
        }
    }

    /// Returns false if the variation is unknown: for a single random run, and for too few equal runs
    /// ([`statistics::has_spread`]).
    pub fn has_spread(&self, level: f64) -> bool {
        let known = self.known();
        if self.deterministic { !known.is_empty() } else { statistics::has_spread(&known, level) }
    }

    /// Returns true if several random runs gave the same value, so that their spread is unknown.
    pub fn all_equal(&self) -> bool {
        !self.deterministic && self.at_least.is_empty() && all_equal(&self.samples)
    }

    /// Returns the confidence interval of a quantile or a share of runs at another level than the stored one. None for
    /// means, and if the runs are not random.
    pub fn interval_at(&self, level: f64) -> Option<ConfidenceInterval> {
        if self.deterministic {
            return None;
        }
        if let Some(q) = self.quantile {
            let bounds: Vec<ConfidenceInterval> = self.by_replica().into_values().collect();
            return quantile(&bounds, q, level)?.1;
        }
        self.interval.and(self.measured).map(|share| wilson(share, self.samples.len(), level))
    }

    /// Returns the difference `self - other` with its interval, computed within replicas, which share their random
    /// numbers. None if no replica has both values. The result is the mean of the differences, or their median if
    /// either cell is a median or has bounds. For shares of runs, the result is the difference of the shares. For other
    /// quantiles, the result has no interval.
    pub fn difference(&self, other: &Cell, level: f64) -> Option<Difference> {
        let pairs = self.pairs(other);
        let exact = self.deterministic && other.deterministic;
        let of = |value, interval: Option<ConfidenceInterval>, median| {
            let interval = if exact { Some(value) } else { interval };
            Some(Difference { value, interval, median, pairs: pairs.len() as u32 })
        };
        let censored = self.is_censored() || other.is_censored();
        if let Some(q) = self.quantile.or(other.quantile).or(censored.then_some(0.5)) {
            if q != 0.5 && !censored {
                return of([self.measured? - other.measured?; 2], None, false);
            }
            let each: Vec<ConfidenceInterval> = pairs.iter().map(|(a, b)| [a[0] - b[1], a[1] - b[0]]).collect();
            let (value, interval) = median(&each, level)?;
            return of(value, interval, true);
        }
        let pairs: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (a[0], b[0])).collect();
        let share =
            |c: &Cell| Some((c.measured?, c.interval_at(level).or(c.deterministic.then_some([c.measured?; 2]))?));
        if self.interval.or(other.interval).is_some()
            && let (Some(a), Some(b)) = (share(self), share(other))
        {
            let (d, interval) = difference_of_shares(b, a, correlation(&pairs).unwrap_or(0.0));
            return of([d; 2], Some(interval), false);
        }
        let each: Vec<f64> = pairs.iter().map(|(a, b)| a - b).collect();
        let mean = statistics::summary(&each)?.mean;
        of([mean; 2], interval(&each, level).filter(|_| self.has_spread(level) && other.has_spread(level)), false)
    }

    /// Returns the values of replicas that both cells have. The value of a cell that is not random is in every pair.
    pub fn pairs(&self, other: &Cell) -> Vec<(ConfidenceInterval, ConfidenceInterval)> {
        let (own, others) = (self.by_replica(), other.by_replica());
        let numbers = if self.deterministic { others.keys() } else { own.keys() };
        let at = |cell: &Cell, all: &BTreeMap<u32, ConfidenceInterval>, number: &u32| {
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

/// Difference of two cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Bounds of the difference; they are equal if it is known.
    pub value: ConfidenceInterval,
    /// Confidence interval, if there are enough replicas; an end is infinite if it depends on runs that ended too
    /// early.
    pub interval: Option<ConfidenceInterval>,
    /// True for the median of the differences within replicas, false for their mean.
    pub median: bool,
    /// Number of replicas with both values.
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

/// Cell of a comparison, compared with the first cell of its metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// Axis name to value.
    pub axes: CellPlace,
    /// Metric.
    pub metric: String,
    /// Mean of the differences from the first cell within replicas, which share their random numbers; null if only
    /// bounds are known.
    pub difference: Option<f64>,
    /// True if `difference` is the median of the differences: the metric is a median, or some run ended before its
    /// value was reached.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub median: bool,
    /// 95 % interval of the difference (docs/reference/statistics.md); an end is null if it lies beyond the end of the
    /// runs.
    #[serde(with = "open_interval")]
    #[schemars(with = "Option<[Option<f64>; 2]>")]
    pub interval: Option<[f64; 2]>,
    /// Number of replicas with both values.
    pub pairs: u32,
}

impl Compared {
    /// Compares a cell with the first; None if no replica has both values.
    pub fn new(cell: &Cell, first: &Cell) -> Option<Compared> {
        let d = cell.difference(first, LEVEL)?;
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
    /// Stack on which the curve was measured; empty for a function.
    pub stack: String,
    /// As in [`Cell::ran_on`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ran_on: String,
    /// Axis name to value; for a function, the names that distinguish it from the others.
    pub axes: CellPlace,
    /// Label for users: `Illinois AA`.
    pub label: String,
    /// Quantity of y: a name in `metrics`.
    pub metric: String,
    /// Replica of a single run; null for a mean over replicas or a function.
    pub replica: Option<u32>,
    /// Abscissae, in the unit of the figure's x label.
    pub x: Vec<f64>,
    /// Ordinates, one for each abscissa; null for a missing value.
    pub y: Vec<Option<f64>>,
}

/// How to draw an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Form of the figure.
    pub kind: FigureKind,
    /// Axis along x; empty for curves, which have their own abscissae.
    pub x: String,
    /// Axis whose values are the lines or the colors.
    pub series: String,
    /// True for a logarithmic x scale.
    pub log_x: bool,
    /// True for a logarithmic y scale.
    pub log_y: bool,
    /// Caption of x.
    pub x_label: String,
    /// Caption of y; if empty, the metric's label and unit.
    pub y_label: String,
    /// Further axes, or `metric`: each value has a small chart.
    pub panels: String,
}

/// Forms of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FigureKind {
    /// One line per series over x, with confidence intervals.
    #[default]
    Line,
    /// One bar per value of x.
    Bar,
    /// Bars side by side: a group per value of x, a color per series.
    Grouped,
    /// The curves over time.
    Time,
    /// The curves of functions.
    Function,
}

/// Agreement of the order of the measured values with the published order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rank {
    /// Stack.
    pub stack: String,
    /// Fixed values: `bytes = 100 MB`.
    pub at: CellPlace,
    /// Axis that is ranked.
    pub over: String,
    /// Metric.
    pub metric: String,
    /// Spearman's rho.
    pub spearman: f64,
    /// Number of ranked values.
    pub n: u32,
}

/// A claim of a paper and the verdicts on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimResult {
    /// Identifier: `v2g/illinois-gain-single`.
    pub claim: String,
    /// Statement of the paper, in our words.
    pub text: String,
    /// Place in the paper.
    pub place: String,
    /// Origin of the claim.
    #[serde(default)]
    pub origin: Origin,
    /// The paper's figure, if it has one.
    pub published: Option<f64>,
    /// Unit of the figures: `ratio`, `%`, `events`.
    pub unit: String,
    /// Criterion of confirmation, for users.
    pub criterion: String,
    /// Experiments on which the claim is based: `v2g/fig4`.
    pub experiments: Vec<String>,
    /// Verdicts, one per stack.
    pub verdicts: Vec<Verdict>,
}

/// Origin of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Stated in the paper's text or figures; a bound that they leave open may be ours.
    #[default]
    Paper,
    /// Derived from statements of the paper.
    Derived,
    /// Ours: the paper does not mention it.
    Ours,
    /// A statement of the paper that holds by construction of the model. Not counted.
    Construction,
}

impl Origin {
    /// Returns the mark in tables; empty for a claim of the paper.
    pub const fn mark(self) -> &'static str {
        match self {
            Origin::Paper => "",
            Origin::Derived => "derived",
            Origin::Ours => "ours",
            Origin::Construction => "by construction",
        }
    }
}

/// Verdict on a claim on one stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Stack.
    pub stack: String,
    /// Outcome.
    pub verdict: ClaimOutcome,
    /// Figure of this run, to compare with the published one; null if unknown.
    pub measured: Option<f64>,
    /// True if `measured` is only a lower bound: the event lies beyond the end of the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lower_bound: bool,
    /// True if `measured` is only an upper bound: the divisor or the subtrahend lies beyond the end of the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub upper_bound: bool,
    /// 95 % confidence interval; for a rank, the ranks that the intervals of the differences and near ties allow. An
    /// end that lies beyond the end of the runs is null. Absent without an interval, for an exact figure, and for a
    /// mere bound.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "open_interval")]
    #[schemars(with = "Option<[Option<f64>; 2]>")]
    pub interval: Option<[f64; 2]>,
    /// Numbers on which the verdict is based, for users: `NewReno 0.46, Illinois 1.9 Mbit/s at 5 %`.
    pub evidence: String,
    /// Reason why the claim is undecided or not confirmed; empty if it is confirmed.
    pub reason: String,
}

/// Outcome of a claim, from the position of the figure's 95 % confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClaimOutcome {
    /// The necessary cells were not run.
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

impl ClaimOutcome {
    /// Returns the words for users.
    pub fn words(self) -> &'static str {
        match self {
            ClaimOutcome::NotRun => "not run",
            ClaimOutcome::NotConfirmed => "not confirmed",
            ClaimOutcome::Undecided => "undecided",
            ClaimOutcome::Confirmed => "confirmed",
        }
    }
}

/// Input of a report, and the `results.json` of a result folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportInput {
    /// Heading.
    pub title: String,
    /// Introduction; plain text, paragraphs separated by an empty line.
    pub intro: String,
    /// Command that made the results.
    pub command: String,
    /// Facts such as version, revision and number of replicas: label and value, shown under the heading.
    #[serde(default)]
    pub facts: Vec<(String, String)>,
    /// Results of the experiments, in the order of the paper.
    pub experiments: Vec<ExperimentResult>,
    /// Claims of the paper.
    pub claims: Vec<ClaimResult>,
    /// Content of the first screen, for the report of a paper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<PaperSummary>,
}

/// Content of the first screen of a paper's report, apart from the figures of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaperSummary {
    /// Main conclusion: a sentence that does not depend on the figures of a run.
    pub conclusion: String,
    /// Experiment whose figure is shown first: `v2g/fig4`.
    pub picture: String,
    /// Cells that determine the recommendation for Linux.
    pub linux: Option<Choice>,
}

/// Cells that determine the best algorithm for deployed systems, for each combination of the other axes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Choice {
    /// Experiment: `v2g/linux`.
    pub experiment: String,
    /// Axis of the candidates.
    pub axis: String,
    /// Deciding metric; the experiment's first if empty.
    pub metric: String,
    /// True if the smallest value is the best, false for the largest.
    pub lowest: bool,
    /// Candidates that come with Linux; all if empty.
    pub shipped: Vec<String>,
    /// Sentence of advice that does not depend on the figures of a run.
    pub note: String,
}

/// Returns the JSON Schema of [`ReportInput`], the type of `results.json` in a result folder.
pub fn schema() -> serde_json::Value {
    let mut schema = schema_for!(ReportInput);
    schema.insert("title".into(), "roughlink results".into());
    schema.into()
}
