//! Experiments as data: variables, metrics, published values and results.
//!
//! An experiment is read from a file (`experiments/<paper>/<figure>.toml`, see [`mod@file`]) or built from a command
//! line ([`grid`]). The [`ExperimentPlan`] of an experiment is the grid of cells and their runs. [`crate::runner`]
//! executes the runs, and [`ExperimentPlan::result`] reads the store and computes the statistics.

pub mod claims;
pub mod file;
pub mod functions;
pub mod grid;
pub mod identity;
mod measure;
pub mod order;
pub mod paper;
pub mod plan;
pub mod result;
pub mod table;

pub use identity::Identity;
pub use plan::ExperimentPlan;

use crate::library::{Overrides, ScenarioText};
use crate::metric::Metric;
use crate::nearest;
use crate::watch::Watch;
use crate::{error::LabError, library};
use result::Figure;
use roughlink_core::units::Time;
use roughlink_scenario::split_list;

/// An experiment: variables and metrics.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// `v2g/table2`; the name of the scenario for a sweep.
    pub id: String,
    /// Title, in one line.
    pub title: String,
    /// Place in the paper.
    pub place: String,
    /// Remarks for the reader.
    pub about: String,
    /// The command that repeats the experiment.
    pub command: String,
    /// The scenario on which the experiment is based.
    pub scenario: Option<ScenarioText>,
    /// Fixed overrides.
    pub set: Overrides,
    /// Stacks to run on.
    pub stacks: Vec<StackChoice>,
    /// Axes: the variables.
    pub axes: Vec<Axis>,
    /// Runs of each cell.
    pub replicas: u32,
    /// Metrics.
    pub metrics: Vec<Metric>,
    /// The paper's values.
    pub published: Vec<Published>,
    /// The axis whose order is compared with the published one.
    pub rank: Option<String>,
    /// How to draw the results.
    pub figure: Figure,
    /// Quantities recorded during a run.
    pub watch: Option<Watch>,
    /// Draw the curves of replica 0, not the mean over the replicas.
    pub single: bool,
    /// Time span of the curves.
    pub span: (Time, Time),
    /// A function to draw, instead of runs.
    pub function: Option<functions::Function>,
    /// Use fewer and smaller cells.
    pub quick: bool,
    /// The same experiment with transfers on this machine's kernel, in real time and usually in fewer, smaller cells.
    pub on_kernel: Option<Box<Experiment>>,
}

/// Name of the stack that is not simulated: the TCP of the running kernel.
pub const KERNEL: &str = "kernel";

/// A stack and its overrides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackChoice {
    /// `ns3`; empty if the scenario decides.
    pub name: String,
    /// Overrides.
    pub set: Overrides,
}

/// A varied quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Name in cells.
    pub name: String,
    /// Label for users.
    pub label: String,
    /// Keys that receive the axis values.
    pub keys: Vec<String>,
    /// The values.
    pub points: Vec<Point>,
    /// True if some of the experiment's values have been left out.
    pub narrowed: bool,
}

/// A value of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Value written to the keys; also the name in cells.
    pub value: String,
    /// Label for users.
    pub label: String,
    /// Scenario for this value, instead of the experiment's.
    pub scenario: Option<ScenarioText>,
    /// Additional overrides for this value.
    pub set: Overrides,
}

/// A published value.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Values of all axes, in axis order.
    pub at: Vec<String>,
    /// The metric.
    pub metric: String,
    /// The value.
    pub value: f64,
    /// Place in the paper, if not the experiment's.
    pub place: String,
    /// True if another experiment has the same number and counts it.
    pub again: bool,
}

impl Experiment {
    /// Keeps only `values` of the axis `name`.
    pub fn only(&mut self, name: &str, values: &[String]) -> Result<(), LabError> {
        let known: Vec<&str> = self.axes.iter().map(|a| a.name.as_str()).collect();
        let help = nearest::suggest(name, "expected", known);
        let Some(axis) = self.axes.iter_mut().find(|a| a.name == name) else {
            return Err(LabError::NotFound { what: "axis", name: name.into(), help });
        };
        let mut kept = Vec::new();
        for value in values {
            match axis.points.iter().find(|p| p.value == *value || p.label == *value) {
                Some(point) => kept.push(point.clone()),
                None => {
                    let known = axis.points.iter().map(|p| p.value.as_str());
                    let help = nearest::suggest(value, "expected", known);
                    return Err(LabError::NotFound { what: "axis value", name: value.clone(), help });
                }
            }
        }
        axis.narrowed |= axis.points.iter().any(|p| !kept.contains(p));
        axis.points = kept;
        Ok(())
    }

    /// Keeps only the stacks of these names. An experiment that has none of them does not change.
    pub fn only_stacks(&mut self, names: &[&str]) {
        if self.stacks.iter().any(|s| names.contains(&s.name.as_str())) {
            self.stacks.retain(|s| names.contains(&s.name.as_str()));
        }
    }

    /// Adds a user's override, which takes precedence over fixed values, but not over the axes. `axis.<name>.key` and
    /// `axis.<name>.values` change an axis instead.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), LabError> {
        let usage = |message: String, help: String| Err(LabError::Usage { message, help });
        if let Some((name, what)) = key.strip_prefix("axis.").and_then(|rest| rest.rsplit_once('.')) {
            let known: Vec<&str> = self.axes.iter().map(|a| a.name.as_str()).collect();
            let help = nearest::suggest(name, "expected", known);
            let Some(axis) = self.axes.iter_mut().find(|a| a.name == name) else {
                return Err(LabError::NotFound { what: "axis", name: name.into(), help });
            };
            match what {
                "key" => axis.keys = vec![value.into()],
                "values" => {
                    let point = |v: String| Point { label: v.clone(), value: v, scenario: None, set: Vec::new() };
                    let points: Vec<Point> = split(value).into_iter().map(point).collect();
                    axis.narrowed |= axis.points.iter().any(|p| points.iter().all(|q| q.value != p.value));
                    axis.points = points;
                }
                _ => return usage(format!("unknown key `{what}` of an axis"), "expected `key` or `values`".into()),
            }
            return Ok(());
        }
        let writes = |a: &&Axis| {
            a.keys.iter().chain(a.points.iter().flat_map(|p| p.set.iter().map(|(k, _)| k))).any(|k| k == key)
        };
        if let Some(axis) = self.axes.iter().find(writes) {
            return usage(
                format!("cannot set `{key}`: {} varies it", self.id),
                format!(
                    "keep some values with --only {0}=..., or choose others with --set axis.{0}.values=...",
                    axis.name
                ),
            );
        }
        if key == "tcp.stack" {
            // Results are named after the stack on which they were measured.
            self.only_stacks(&[value]);
            self.stacks.iter_mut().filter(|s| !s.name.is_empty()).for_each(|s| s.name = value.into());
            self.stacks.dedup_by(|a, b| a.name == b.name);
        }
        self.set.push((key.into(), value.into()));
        Ok(())
    }
}

/// Parses `key=value` from a command line.
pub fn assignment(text: &str) -> Result<(String, String), LabError> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().into(), value.trim().into())),
        _ => Err(LabError::Usage {
            message: format!("`{text}` is not a setting"),
            help: "write key=value, such as link.plc.noise.mean=\"1 %\"".into(),
        }),
    }
}

/// Splits a list `a,b,c` from a command line; commas in brackets, braces and quotes do not separate.
pub fn split(text: &str) -> Vec<String> {
    let bare = |part: &str| part.trim().trim_matches(['"', '\'']).to_owned();
    split_list(text).0.into_iter().map(bare).filter(|part| !part.is_empty()).collect()
}

/// Splits a quantity into number and unit.
pub fn quantity(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E'))).unwrap_or(text.len());
    let unit = text[end..].trim();
    // Values of several keys are no quantity.
    if unit.contains(',') { None } else { Some((text[..end].parse().ok()?, unit)) }
}

/// Returns the papers that have experiments, with the experiments' names.
pub fn papers() -> Vec<(String, Vec<String>)> {
    let mut papers: Vec<(String, Vec<String>)> = Vec::new();
    for name in library::names("experiments") {
        if let Some((paper, experiment)) = name.split_once('/') {
            if papers.last().is_none_or(|(last, _)| last != paper) {
                papers.push((paper.into(), Vec::new()));
            }
            if !matches!(experiment, "paper" | "claims") {
                papers.last_mut().expect("just pushed").1.push(experiment.into());
            }
        }
    }
    papers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_split_at_commas_outside_brackets() {
        assert_eq!(split("a, b,c"), ["a", "b", "c"]);
        assert_eq!(split("[1, 4],[2, 2]"), ["[1, 4]", "[2, 2]"]);
        assert_eq!(split("{ a = 1, b = 2 }"), ["{ a = 1, b = 2 }"]);
        assert_eq!(split("\"1 %\",'2 %'"), ["1 %", "2 %"]);
    }

    #[test]
    fn quantities_split_into_number_and_unit() {
        assert_eq!(quantity("0.25 %"), Some((0.25, "%")));
        assert_eq!(quantity("100 MB"), Some((100.0, "MB")));
        assert_eq!(quantity("12"), Some((12.0, "")));
        assert_eq!(quantity("newreno"), None);
    }
}
