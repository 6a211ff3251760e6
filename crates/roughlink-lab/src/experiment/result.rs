//! What an experiment gave: cells with their statistics, curves, and the verdicts on a paper's claims.
//!
//! These types are the `--json` of `roughlink reproduce` and `sweep`, the `results.json` of a result folder, and what
//! a report is drawn from.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The results of one experiment on every stack it ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExperimentResult {
    /// `v2g/table2`.
    pub experiment: String,
    /// What it is, in a line.
    pub title: String,
    /// Where in the paper it stands: `Table 2`. Empty for a sweep of one's own.
    pub place: String,
    /// Remarks for the reader: plain text, paragraphs separated by an empty line.
    pub about: String,
    /// The command that makes it again.
    pub command: String,
    /// The scenario it started from.
    pub scenario: String,
    /// Fewer and smaller cells than in the paper.
    pub quick: bool,
    /// The stacks it ran on, the one to compare with the published values first.
    pub stacks: Vec<String>,
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
}

/// An axis of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AxisResult {
    /// The name that cells use: `cc`.
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AxisValue {
    /// As cells have it: `0.25 %`, `newreno-sc`.
    pub value: String,
    /// For people: `NewReno SC`.
    pub label: String,
    /// Its number without the unit, on axes whose values are quantities of one unit (`0.25`); to place it on a scale.
    pub number: Option<f64>,
}

/// A metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricResult {
    /// `throughput_mbps`.
    pub name: String,
    /// For people: `Throughput per flow`.
    pub label: String,
    /// `Mbit/s`; empty if it is a plain number.
    pub unit: String,
}

/// One number of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The stack it was measured on.
    pub stack: String,
    /// Axis name to value.
    pub axes: BTreeMap<String, String>,
    /// Which metric.
    pub metric: String,
    /// What the paper has; null if it quotes nothing.
    pub published: Option<f64>,
    /// Where the published value stands, if not at the experiment's place.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub published_at: String,
    /// Mean over the replicas; null if no run gave a value.
    pub measured: Option<f64>,
    /// Half width of the 95 % confidence interval (Student); null with fewer than two replicas.
    pub ci95: Option<f64>,
    /// Replicas that gave a value.
    pub replicas: u32,
    /// Their values, in the order of the replicas.
    pub samples: Vec<f64>,
}

impl Cell {
    /// Measured over published.
    pub fn ratio(&self) -> Option<f64> {
        match (self.measured, self.published) {
            (Some(m), Some(p)) if p != 0.0 => Some(m / p),
            _ => None,
        }
    }
}

/// A curve: y over x.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The stack it was measured on; empty if it is a function and not a measurement.
    pub stack: String,
    /// Axis name to value; a function has what tells it from its siblings.
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Further axes or `metric` or `stack`, one small chart for each value.
    pub panels: String,
}

/// Forms of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

/// A claim of a paper and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// When it counts as confirmed, for people.
    pub criterion: String,
    /// Experiments it rests on: `v2g/fig4`.
    pub experiments: Vec<String>,
    /// One per stack.
    pub verdicts: Vec<Verdict>,
}

/// Whose claim it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The paper's text or figures say so; a bound that it leaves open may be ours.
    #[default]
    Paper,
    /// Not said, but it follows from what the paper says.
    Derived,
    /// Ours: the paper says nothing about it.
    Ours,
}

impl Origin {
    /// For tables: nothing for what is the paper's.
    pub const fn mark(self) -> &'static str {
        match self {
            Origin::Paper => "",
            Origin::Derived => "derived",
            Origin::Ours => "ours",
        }
    }
}

/// What became of a claim on one stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The stack.
    pub stack: String,
    /// Null if the cells it needs were not run.
    pub confirmed: Option<bool>,
    /// Our figure beside the published one.
    pub measured: Option<f64>,
    /// Half width of its 95 % confidence interval, where one can be given.
    pub ci95: Option<f64>,
    /// The numbers it rests on, for people: `NewReno 0.46, Illinois 1.9 Mbit/s at 5 %`.
    pub evidence: String,
    /// Why it comes out as it does; empty if nothing is to be said.
    pub reason: String,
}

/// All that a report shows, and the `results.json` of a result folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportInput {
    /// Heading.
    pub title: String,
    /// What the reader sees; plain text, paragraphs separated by an empty line.
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
}
