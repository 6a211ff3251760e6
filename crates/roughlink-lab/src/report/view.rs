//! An experiment along its dimensions: axes, metrics and stacks are treated alike.

use crate::experiment::place::CellPlace;
use crate::experiment::result::{AxisValue, Cell, Curve, ExperimentResult, MetricResult, ReportInput};
use std::collections::{BTreeSet, HashMap};

pub(super) const METRIC: &str = "metric";
pub(super) const STACK: &str = "stack";

pub(super) struct ViewDimension {
    pub name: String,
    pub label: String,
    pub values: Vec<AxisValue>,
    /// Position of each value in `values`.
    positions: HashMap<String, usize>,
}

/// Returns the axes, then `metric`, then `stack` with the stacks that ran. Values found only in cells come last.
pub(super) fn dimensions(experiment: &ExperimentResult) -> Vec<ViewDimension> {
    let named = |value: &str, label: &str| AxisValue {
        value: value.into(),
        label: if label.is_empty() { value.into() } else { label.into() },
        number: None,
    };
    let dimension = |name: &str, label: &str, values| ViewDimension {
        name: name.into(),
        label: if label.is_empty() { name.into() } else { label.into() },
        values,
        positions: HashMap::new(),
    };
    let value = |v: &AxisValue| AxisValue { number: v.number, ..named(&v.value, &v.label) };
    let axes = experiment.axes.iter();
    let mut all: Vec<ViewDimension> =
        axes.map(|axis| dimension(&axis.name, &axis.label, axis.values.iter().map(value).collect())).collect();
    let metrics = experiment.metrics.iter().map(|m| named(&m.name, &m.label)).collect();
    all.push(dimension(METRIC, "Metric", metrics));
    let ran = |stack: &String| {
        experiment.cells.iter().any(|c| c.stack == *stack) || experiment.curves.iter().any(|c| c.stack == *stack)
    };
    let stacks = experiment.stacks.iter().filter(|s| ran(s)).map(|s| named(s, "")).collect();
    all.push(dimension(STACK, "Stack", stacks));
    for dimension in &mut all {
        for (i, known) in dimension.values.iter().enumerate() {
            dimension.positions.entry(known.value.clone()).or_insert(i);
        }
        for cell in &experiment.cells {
            let value = cell_value(cell, &dimension.name);
            if !value.is_empty() && !dimension.positions.contains_key(value) {
                dimension.positions.insert(value.into(), dimension.values.len());
                dimension.values.push(named(value, ""));
            }
        }
    }
    all
}

/// Returns the value of a cell on a dimension; empty without a value.
pub(super) fn cell_value<'a>(cell: &'a Cell, dimension: &str) -> &'a str {
    coordinate(&cell.axes, &cell.metric, &cell.stack, dimension)
}

pub(super) fn curve_value<'a>(curve: &'a Curve, dimension: &str) -> &'a str {
    coordinate(&curve.axes, &curve.metric, &curve.stack, dimension)
}

fn coordinate<'a>(axes: &'a CellPlace, metric: &'a str, stack: &'a str, dimension: &str) -> &'a str {
    match (axes.get(dimension), dimension) {
        (Some(value), _) => value,
        (None, METRIC) => metric,
        (None, STACK) => stack,
        _ => "",
    }
}

impl ViewDimension {
    pub(crate) fn position(&self, value: &str) -> Option<usize> {
        self.positions.get(value).copied()
    }

    pub(crate) fn label_of<'a>(&'a self, value: &'a str) -> &'a str {
        self.position(value).map_or(value, |i| &self.values[i].label)
    }

    /// Returns the values as numbers, if all are numbers and there is more than one.
    pub(crate) fn numbers(&self) -> Option<Vec<f64>> {
        let numbers: Option<Vec<f64>> = self.values.iter().map(|v| v.number.filter(|n| n.is_finite())).collect();
        numbers.filter(|n| n.len() > 1)
    }

    /// Returns the unit that follows all values: `%` of `0.25 %`.
    pub(crate) fn unit(&self) -> &str {
        let after = |v: &AxisValue| -> usize {
            v.value.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | ' '))).unwrap_or(v.value.len())
        };
        let mut units = self.values.iter().map(|v| v.value[after(v)..].trim());
        let first = units.next().unwrap_or("");
        if units.all(|u| u == first) { first } else { "" }
    }
}

pub(super) fn metric_caption(experiment: &ExperimentResult, name: &str) -> String {
    let plain = MetricResult { name: name.into(), ..MetricResult::default() };
    let metric = experiment.metrics.iter().find(|m| m.name == name).unwrap_or(&plain);
    let label = if metric.label.is_empty() { &metric.name } else { &metric.label };
    if metric.unit.is_empty() { label.clone() } else { format!("{label} ({})", metric.unit) }
}

pub(super) fn stack_caption(stack: &str) -> String {
    if stack.is_empty() { "Measured".into() } else { format!("{stack} stack") }
}

/// Formats a stack as a heading, which says so if values below ran on another stack; those values name it.
pub(super) fn stack_heading(experiment: &ExperimentResult, stack: &str) -> String {
    let cells = experiment.cells.iter().map(|c| (&c.stack, &c.ran_on));
    let all = cells.chain(experiment.curves.iter().map(|c| (&c.stack, &c.ran_on)));
    let others: BTreeSet<&str> =
        all.filter(|(on, really)| *on == stack && !really.is_empty()).map(|(_, really)| really.as_str()).collect();
    let mut caption = stack_caption(stack);
    if !others.is_empty() {
        let others: Vec<&str> = others.into_iter().collect();
        caption += &format!(", {} where named", others.join(" or "));
    }
    caption
}

/// Returns the stacks of all experiments and verdicts with measurements, in order of appearance.
pub(super) fn stacks(input: &ReportInput) -> Vec<&str> {
    let cells = input.experiments.iter().flat_map(|e| &e.cells).filter(|c| c.measured.is_some());
    let verdicts = input.claims.iter().flat_map(|c| c.verdicts.iter().map(|v| &v.stack));
    let mut out: Vec<&str> = Vec::new();
    for stack in cells.map(|c| &c.stack).chain(verdicts) {
        if !out.contains(&stack.as_str()) {
            out.push(stack);
        }
    }
    out
}
