//! The content of a figure: its panels with series and points. The page's script determines the appearance.

use super::curve::draw_curves;
use super::html::{exact, number, rounded, with_interval};
use super::panel::{Drawing, Panel, share_scales, widen, y_scale};
use super::slots::{SeriesStyle, Slots};
use super::view::{METRIC, STACK, ViewDimension, cell_value, dimensions, metric_caption, stack_heading};
use crate::experiment::result::{AxisValue, Cell, ExperimentResult, FigureKind};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Maximum number of panels; the table has all values.
const MAX_PANELS: usize = 12;

/// Maximum number of series in a figure.
const MAX_SERIES: usize = 50;

/// Maximum number of bars in half the width of a page.
const WIDE_BARS: usize = 36;

/// Name of a figure's only series, if nothing distinguishes series.
pub(super) const MEASURED: &str = "Measured";

/// Returns the figures of an experiment: at most one of its cells and one of its curves.
pub(super) fn drawings(experiment: &ExperimentResult, slots: &Slots) -> Vec<Drawing> {
    let mut out = Vec::new();
    if !matches!(experiment.figure.kind, FigureKind::Time | FigureKind::Function) && !experiment.cells.is_empty() {
        out.push(draw_cells(experiment, slots));
    }
    if !experiment.curves.is_empty() {
        out.push(draw_curves(experiment, slots));
    }
    for drawing in &mut out {
        share_scales(drawing);
    }
    out
}

/// Mapping of dimensions to parts of the figure.
struct FigureLayout {
    x: usize,
    series: Option<usize>,
    panels: Vec<usize>,
    /// The only metric, unless the figure shows several.
    metric: Option<String>,
    bars: bool,
}

impl FigureLayout {
    fn new(experiment: &ExperimentResult, all: &[ViewDimension]) -> Self {
        let figure = &experiment.figure;
        let find = |name: &str| all.iter().position(|d| d.name == name);
        let varied = |i: usize| all[i].values.len() > 1;
        let is_axis = |i: usize| all[i].name != METRIC && all[i].name != STACK;
        let axes = || (0..all.len()).filter(|&i| is_axis(i));
        let x = find(&figure.x)
            .or_else(|| axes().find(|&i| varied(i) && all[i].numbers().is_some()))
            .or_else(|| axes().find(|&i| varied(i)))
            .or_else(|| axes().next())
            .unwrap_or(0);
        let mut panels: Vec<usize> = figure
            .panels
            .split([',', ' '])
            .filter_map(|name| find(name.trim()))
            .filter(|&i| i != x && all[i].name != STACK)
            .collect();
        let series = find(&figure.series)
            .filter(|&i| i != x)
            .or_else(|| axes().find(|&i| i != x && varied(i) && is_algorithm(&all[i].name)))
            .or_else(|| axes().find(|&i| i != x && varied(i) && !panels.contains(&i)));
        panels.retain(|&i| Some(i) != series);
        for i in axes() {
            if varied(i) && i != x && Some(i) != series && !panels.contains(&i) {
                panels.push(i);
            }
        }
        let used = |name: &str| find(name).is_some_and(|i| i == x || Some(i) == series || panels.contains(&i));
        let metric = if used(METRIC) { None } else { experiment.metrics.first().map(|m| m.name.clone()) };
        let metric = metric.filter(|m| experiment.cells.iter().any(|c| &c.metric == m));
        if let Some(stack) = find(STACK)
            && !used(STACK)
            && varied(stack)
        {
            panels.push(stack);
        }
        let bars = figure.kind != FigureKind::Line || all[x].numbers().is_none();
        Self { x, series, panels, metric, bars }
    }
}

/// Returns true for the default series axis: the congestion control of all flows or of one.
fn is_algorithm(axis: &str) -> bool {
    axis.rsplit('.').next() == Some("cc")
}

fn draw_cells(experiment: &ExperimentResult, slots: &Slots) -> Drawing {
    let all = dimensions(experiment);
    let plan = FigureLayout::new(experiment, &all);
    let kept: Vec<&Cell> =
        experiment.cells.iter().filter(|c| plan.metric.as_ref().is_none_or(|m| *m == c.metric)).collect();
    let mut series_values: Vec<AxisValue> = match plan.series {
        Some(i) => all[i].values.clone(),
        None => vec![AxisValue { label: MEASURED.into(), ..AxisValue::default() }],
    };
    let series_left_out = series_values.len().saturating_sub(MAX_SERIES);
    series_values.truncate(MAX_SERIES);
    let names: Vec<String> = series_values.iter().map(|v| v.value.clone()).collect();
    let colors = slots.assign(plan.series.map_or("", |i| &all[i].name), &names);

    let place = |c: &Cell, i: usize| all[i].position(cell_value(c, &all[i].name));
    let mut by_panel: BTreeMap<Vec<usize>, Vec<&Cell>> = BTreeMap::new();
    for cell in kept {
        let key: Option<Vec<usize>> = plan.panels.iter().map(|&i| place(cell, i)).collect();
        if let Some(key) = key {
            by_panel.entry(key).or_default().push(cell);
        }
    }
    let left_out = by_panel.len().saturating_sub(MAX_PANELS);
    let mut panels = Vec::new();
    for (key, cells) in by_panel.into_iter().take(MAX_PANELS) {
        let metric = plan.metric.clone().unwrap_or_else(|| cells[0].metric.clone());
        let mut traces = Vec::new();
        let (mut span, mut log_span, mut ends) = (None, None, None);
        for (s, value) in series_values.iter().enumerate() {
            let mut points: Vec<(usize, &Cell)> = cells
                .iter()
                .filter(|c| plan.series.is_none_or(|i| cell_value(c, &all[i].name) == value.value))
                .filter_map(|c| place(c, plan.x).map(|p| (p, *c)))
                .collect();
            points.sort_by_key(|(p, _)| *p);
            let trace = Trace { slot: colors[s], name: &value.label, x: &all[plan.x], numeric: !plan.bars };
            traces.extend(trace.measured(&points, experiment));
            traces.extend(trace.published(&points, experiment));
            for (_, c) in points {
                let shown = [height(c), c.published].into_iter().flatten();
                span = shown.fold(span, |s, v| widen(s, v, experiment.figure.log_y));
                ends = c
                    .measured
                    .zip(c.ci95)
                    .into_iter()
                    .flat_map(|(m, half)| [m - half, m + half])
                    .fold(ends, |s, v| widen(s, v, false));
                log_span = [height(c), c.published].into_iter().flatten().fold(log_span, |s, v| widen(s, v, true));
            }
        }
        let mut parts = Vec::new();
        let mut group = String::new();
        for (&i, &p) in plan.panels.iter().zip(&key) {
            let value = &all[i].values[p];
            if all[i].name == STACK {
                parts.push(stack_heading(experiment, &value.value));
            } else {
                group += &format!("{}\u{0}{}\u{0}", all[i].name, value.value);
                let plain = all[i].name == METRIC || value.label != value.value;
                parts.push(if plain { value.label.clone() } else { format!("{} {}", all[i].label, value.label) });
            }
        }
        if plan.panels.iter().all(|&i| all[i].name != STACK) {
            parts.extend(experiment.stacks.first().filter(|s| !s.is_empty()).map(|s| stack_heading(experiment, s)));
        }
        panels.push(Panel {
            caption: parts.join(", "),
            group,
            chart: json!({
                "kind": if plan.bars { "bar" } else { "line" }, "dashes": true,
                "x": x_scale(experiment, &all[plan.x], !plan.bars),
                "y": y_scale(experiment, &metric),
                "traces": traces,
            }),
            span: span.map(|s| with_intervals(s, ends)),
            log_span: log_span.filter(|_| !plan.bars && !experiment.figure.log_y),
        });
    }
    let metric_note = match (&plan.metric, experiment.metrics.len()) {
        (Some(m), n) if n > 1 => {
            format!("The chart shows {}; the table also has the other metrics. ", metric_caption(experiment, m))
        }
        _ => String::new(),
    };
    let in_table = |n: usize, what: &str| match n {
        0 => String::new(),
        n => format!("{n} more {what} are in the table only. "),
    };
    let other_notes = in_table(left_out, "combinations") + &in_table(series_left_out, "series");
    Drawing {
        series: series_values.iter().map(|v| v.label.clone()).zip(colors).collect(),
        form: if plan.bars { SeriesStyle::Bar } else { SeriesStyle::Marked },
        panels,
        wide: plan.bars && all[plan.x].values.len() * names.len() > WIDE_BARS,
        published: experiment.cells.iter().any(|c| c.published.is_some()),
        intervals: experiment.cells.iter().any(|c| c.ci95.is_some()),
        note: (metric_note + &other_notes).trim().into(),
    }
}

/// The points of one series in one panel.
struct Trace<'a> {
    slot: usize,
    name: &'a str,
    x: &'a ViewDimension,
    numeric: bool,
}

impl Trace<'_> {
    fn abscissa(&self, position: usize) -> Value {
        let value = &self.x.values[position];
        match value.number {
            Some(n) if self.numeric => rounded(n),
            _ => Value::from(value.label.as_str()),
        }
    }

    fn hover(&self, position: usize, cell: &Cell, experiment: &ExperimentResult) -> String {
        let at = format!("{}: {}", self.x.label, self.x.values[position].label);
        let unit = experiment.metrics.iter().find(|m| m.name == cell.metric).map_or("", |m| m.unit.as_str());
        let mut lines = vec![self.name.to_string(), at];
        let runs = match (cell.values(), cell.replicas) {
            (n, all) if n < all as usize && !cell.deterministic => format!("{n} of {all} runs have a value"),
            (_, 1) => "1 run".into(),
            (_, all) => format!("{all} runs"),
        };
        if let Some(mean) = cell.measured {
            let (mean, ci) = with_interval(mean, cell.ci95);
            let ci = ci.map(|c| format!(" ± {c}")).unwrap_or_default();
            let what = if cell.is_censored() { "median" } else { "measured" };
            lines.push(format!("{what} {mean}{ci} {unit} ({runs})"));
        } else if let Some(bound) = cell.bound {
            lines.push(format!("> {} {unit} ({runs})", number(bound)));
        }
        if let Some(published) = cell.published {
            let ratio = cell.ratio().map(|r| format!(", ratio {r:.2}")).unwrap_or_default();
            lines.push(format!("published {}{ratio}", exact(published)));
        }
        lines.join("\n")
    }

    fn measured(&self, points: &[(usize, &Cell)], experiment: &ExperimentResult) -> Option<Value> {
        let points: Vec<_> = points.iter().filter(|(_, c)| height(c).is_some()).collect();
        let bounds: Vec<Value> = points.iter().map(|(_, c)| bound_label(c)).collect();
        let ci: Vec<Value> = points.iter().map(|(_, c)| c.ci95.map_or(Value::Null, rounded)).collect();
        (!points.is_empty()).then(|| {
            json!({
                "role": "mean", "slot": self.slot, "name": self.name,
                "x": points.iter().map(|(p, _)| self.abscissa(*p)).collect::<Vec<_>>(),
                "y": points.iter().map(|(_, c)| rounded(height(c).unwrap_or_default())).collect::<Vec<_>>(),
                "bounds": if bounds.iter().all(Value::is_null) { Value::Null } else { Value::from(bounds) },
                "ci": if ci.iter().all(Value::is_null) { Value::Null } else { Value::from(ci) },
                "text": points.iter().map(|(p, c)| self.hover(*p, c, experiment)).collect::<Vec<_>>(),
            })
        })
    }

    fn published(&self, points: &[(usize, &Cell)], experiment: &ExperimentResult) -> Option<Value> {
        let points: Vec<_> = points.iter().filter(|(_, c)| c.published.is_some()).collect();
        (!points.is_empty()).then(|| {
            json!({
                "role": "paper", "slot": self.slot, "name": self.name,
                "x": points.iter().map(|(p, _)| self.abscissa(*p)).collect::<Vec<_>>(),
                "y": points.iter().map(|(_, c)| rounded(c.published.unwrap_or_default())).collect::<Vec<_>>(),
                "text": points.iter().map(|(p, c)| self.hover(*p, c, experiment)).collect::<Vec<_>>(),
            })
        })
    }
}

/// Returns the ordinate of a cell: its value or its lower bound.
fn height(cell: &Cell) -> Option<f64> {
    cell.measured.or(cell.bound)
}

/// Returns the label of a bar or point that is only a lower bound: `> 54`.
fn bound_label(cell: &Cell) -> Value {
    match cell.bound {
        Some(bound) if cell.measured.is_none() => Value::from(format!("> {}", number(bound))),
        _ => Value::Null,
    }
}

fn x_scale(experiment: &ExperimentResult, x: &ViewDimension, numeric: bool) -> Value {
    let figure = &experiment.figure;
    let numbers = x.numbers().filter(|_| numeric);
    let title = match (&figure.x_label, x.unit(), &numbers) {
        (given, _, _) if !given.is_empty() => given.clone(),
        (_, unit, Some(_)) if !unit.is_empty() => format!("{} ({unit})", x.label),
        _ => x.label.clone(),
    };
    let Some(numbers) = numbers else {
        let names: Vec<String> = x.values.iter().map(|v| v.label.clone()).collect();
        return json!({"title": title, "type": "category", "names": names});
    };
    let (low, high) = numbers.iter().fold(None, |s, &n| widen(s, n, false)).unwrap_or_default();
    // If the experiment's file sets no x axis, choose the scale here too.
    let log = low > 0.0 && (figure.log_x || (figure.x.is_empty() && high / low >= 30.0));
    let ticks = ticks(&numbers, log);
    let text: Vec<String> = ticks.iter().map(|&t| exact(t)).collect();
    let (low, high) = if log { (libm::log10(low), libm::log10(high)) } else { (low, high) };
    let room = 0.02 * (high - low);
    let range = (low < high).then(|| [rounded(low - room), rounded(high + room)]);
    json!({
        "title": title, "type": if log { "log" } else { "linear" },
        "ticks": ticks.iter().map(|&t| rounded(t)).collect::<Vec<_>>(), "names": text, "range": range,
    })
}

/// Returns the values that fit below a narrow chart without touching: the outermost, and as many others as possible.
fn ticks(numbers: &[f64], log: bool) -> Vec<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    let at = |x: f64| if log { libm::log(x) } else { x };
    let (Some(&low), Some(&high)) = (sorted.first(), sorted.last()) else { return sorted };
    let room = (at(high) - at(low)) * 0.085;
    let mut out = vec![low];
    for &x in &sorted[1..] {
        if at(x) - at(out[out.len() - 1]) >= room && (x == high || at(high) - at(x) >= room) {
            out.push(x);
        }
    }
    out
}

/// Extends a span to its confidence intervals, unless wide intervals (few runs) would compress the points too much.
fn with_intervals((low, high): (f64, f64), ends: Option<(f64, f64)>) -> (f64, f64) {
    let Some((bottom, top)) = ends else { return (low, high) };
    let room = 0.4 * (high.max(0.0) - low.min(0.0));
    (if low < 0.0 { bottom.clamp(low - room, low) } else { low }, top.clamp(high, high + room))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_do_not_overlap() {
        let loss = [0.0, 0.25, 0.5, 1.0, 1.25, 2.5, 3.75, 5.0];
        assert_eq!(ticks(&loss, false), [0.0, 0.5, 1.0, 2.5, 3.75, 5.0]);
        let sizes = [10.0, 50.0, 100.0, 200.0, 400.0, 600.0, 800.0];
        assert_eq!(ticks(&sizes, true), [10.0, 50.0, 100.0, 200.0, 400.0, 800.0]);
    }

    #[test]
    fn axis_span_grows_to_include_values() {
        let span = [3.0, -1.0, f64::NAN].into_iter().fold(None, |s, v| widen(s, v, false));
        assert_eq!(span, Some((-1.0, 3.0)));
        assert_eq!(widen(None, 0.0, true), None);
        assert_eq!(with_intervals((1.0, 10.0), Some((-90.0, 110.0))), (1.0, 14.0));
        assert_eq!(with_intervals((1.0, 10.0), Some((0.5, 11.0))), (1.0, 11.0));
    }
}
