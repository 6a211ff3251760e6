//! The first sentences of a comparison's report: the main metric, the stack, and how each cell differs from the first.

use super::html::{number, paragraphs};
use crate::experiment::place::CellPlace;
use crate::experiment::result::{Cell, Compared, ExperimentResult, MetricResult, ReportInput};
use crate::store::RESULTS;

/// Returns the answer if the report has a single comparison, else an empty text.
pub(super) fn answer(input: &ReportInput) -> String {
    match input.experiments.as_slice() {
        [only] => paragraphs(&sentences(only), "lead answer"),
        _ => String::new(),
    }
}

fn sentences(e: &ExperimentResult) -> String {
    let Some(metric) = e.metrics.first() else { return String::new() };
    let Some(first) = e.cells.iter().find(|c| c.metric == metric.name) else { return String::new() };
    let compared: Vec<&Compared> = e.compared.iter().filter(|c| c.metric == metric.name).collect();
    if compared.is_empty() {
        return String::new();
    }
    let stack = match e.scenario_stacks.as_slice() {
        [] => String::new(),
        [one] => format!(" on the {one} stack"),
        more => format!(" on the stacks {}", more.join(", ")),
    };
    let runs = if first.replicas == 1 { "one run each".to_owned() } else { format!("{} runs each", first.replicas) };
    let mut parts: Vec<String> = compared.iter().take(MAX_COMPARED).map(|c| sentence(e, c, first, metric)).collect();
    if compared.len() > MAX_COMPARED {
        parts.push(format!("{} more comparisons are in `{RESULTS}`", compared.len() - MAX_COMPARED));
    }
    format!("{}{stack}, {runs}: {}.", metric.label, parts.join("; "))
}

fn sentence(e: &ExperimentResult, compared: &Compared, first: &Cell, metric: &MetricResult) -> String {
    let (name, other) = (label(e, &compared.axes), label(e, &first.axes));
    let with_unit = |x: f64| format!("{} {}", number(x.abs()), metric.unit).trim_end().to_owned();
    let percent = |d: f64| {
        let base = first.measured.filter(|m| *m != 0.0);
        base.map_or(String::new(), |m| format!("{:+.1} %", 100.0 * d / m))
    };
    let interval = compared.interval.filter(|[from, to]| from < to && from.is_finite() && to.is_finite());
    let interval = interval.map(|[from, to]| format!("95 % interval {} to {}", number(from), number(to)));
    let details = |first: String| {
        let all: Vec<String> = [first].into_iter().chain(interval.clone()).filter(|part| !part.is_empty()).collect();
        if all.is_empty() { String::new() } else { format!(" ({})", all.join("; ")) }
    };
    match (compared.difference, compared.is_significant()) {
        (Some(d), Some(true)) => {
            let word = if d > 0.0 { "more" } else { "less" };
            format!("{name} {} {word} than {other}{}", with_unit(d), details(percent(d)))
        }
        (Some(0.0), Some(false)) if compared.interval == Some([0.0; 2]) => format!("{name} equal to {other}"),
        (_, Some(true)) => format!("{name} differs from {other}"),
        (_, Some(false)) => format!("no significant difference between {name} and {other}{}", details(String::new())),
        (_, None) if compared.pairs == 1 => format!("one run cannot tell {name} from {other}"),
        (_, None) => format!("these runs cannot tell {name} from {other}"),
    }
}

/// Maximum number of comparisons in the first sentences.
const MAX_COMPARED: usize = 50;

fn label(e: &ExperimentResult, at: &CellPlace) -> String {
    let label = |axis: &crate::experiment::result::AxisResult| {
        let value = at.get(&axis.name)?;
        let known = axis.values.iter().find(|v| v.value == value);
        Some(known.map_or(value, |v| v.label.as_str()).to_owned())
    };
    e.axes.iter().filter_map(label).collect::<Vec<_>>().join(", ")
}
