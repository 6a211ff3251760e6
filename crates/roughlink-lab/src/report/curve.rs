//! Figures of curves: time series of runs, and functions.

use super::html::rounded;
use super::panel::{Drawing, Panel, widen, y_scale};
use super::slots::{SeriesStyle, Slots};
use super::thin::{MOST, thinned};
use super::view::{curve_value, stack_heading};
use crate::experiment::result::{Curve, ExperimentResult, FigureKind};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Creates one panel per metric and stack. A function has no stack and appears in the panel of every stack.
pub(super) fn draw_curves(experiment: &ExperimentResult, slots: &Slots) -> Drawing {
    let curves = &experiment.curves;
    let distinct = |of: fn(&Curve) -> &String| {
        let mut seen: Vec<&String> = Vec::new();
        for value in curves.iter().map(of) {
            if !seen.contains(&value) {
                seen.push(value);
            }
        }
        seen
    };
    let mut metrics = distinct(|c| &c.metric);
    metrics.sort_by_key(|m| experiment.metrics.iter().position(|known| known.name == **m));
    let mut stacks = distinct(|c| &c.stack);
    if stacks.len() > 1 {
        stacks.retain(|s| !s.is_empty());
    }
    stacks.sort_by_key(|s| experiment.stacks.iter().position(|known| known == *s));

    // A series is a value of the figure's series axis if that distinguishes the curves of a panel, otherwise a label.
    let axis = &experiment.figure.series;
    let apart = {
        let mut seen = BTreeSet::new();
        curves.iter().all(|c| seen.insert((&c.metric, &c.stack, curve_value(c, axis), c.replica)))
    };
    let key = |c: &Curve| match curve_value(c, axis) {
        value if apart && !value.is_empty() => value.to_string(),
        _ => c.label.clone(),
    };
    let mut series: Vec<(String, String)> = Vec::new();
    for curve in curves {
        if !series.iter().any(|(k, _)| *k == key(curve)) {
            let name = if curve.label.is_empty() { key(curve) } else { curve.label.clone() };
            series.push((key(curve), name));
        }
    }
    if let Some(order) = experiment.axes.iter().find(|a| a.name == *axis) {
        series.sort_by_key(|(k, _)| order.values.iter().position(|v| v.value == *k).unwrap_or(usize::MAX));
    }
    let keys: Vec<String> = series.iter().map(|(k, _)| k.clone()).collect();
    let colors = slots.assign(axis, &keys);

    let mut panels = Vec::new();
    for metric in &metrics {
        for stack in &stacks {
            let shown: Vec<&Curve> =
                curves.iter().filter(|c| c.metric == **metric && (c.stack.is_empty() || c.stack == **stack)).collect();
            if !shown.is_empty() {
                let slot = |c: &Curve| keys.iter().position(|k| *k == key(c)).map_or(0, |i| colors[i]);
                panels.push(panel(experiment, metric, stack, &shown, slot));
            }
        }
    }
    for panel in &mut panels {
        let metric = std::mem::take(&mut panel.caption);
        let name = experiment.metrics.iter().find(|m| m.name == panel.group && !m.label.is_empty());
        let name = name.map_or(panel.group.clone(), |m| m.label.clone());
        let parts = [if metrics.len() > 1 { name } else { String::new() }, metric];
        panel.caption = parts.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join(", ");
    }
    let long = curves.iter().any(|c| c.x.len() > MOST);
    Drawing {
        series: series.into_iter().map(|(_, name)| name).zip(colors).collect(),
        form: if dashes(experiment) { SeriesStyle::Line } else { SeriesStyle::Thin },
        panels,
        published: false,
        intervals: false,
        wide: false,
        note: if long {
            format!(
                "Long curves are thinned to at most {MOST} points each, in the chart and in its CSV; extremes are kept."
            )
        } else {
            String::new()
        },
    }
}

/// Returns true if all curves are functions, which are smooth enough for visible dashes.
fn dashes(experiment: &ExperimentResult) -> bool {
    experiment.figure.kind == FigureKind::Function
}

fn panel(
    experiment: &ExperimentResult,
    metric: &str,
    stack: &str,
    curves: &[&Curve],
    slot: impl Fn(&Curve) -> usize,
) -> Panel {
    let figure = &experiment.figure;
    let mut span = None;
    let mut traces: Vec<(usize, Value)> = Vec::new();
    for curve in curves {
        let points = thinned(&curve.x, &curve.y);
        span = points.iter().filter_map(|p| p.1).fold(span, |s, v| widen(s, v, figure.log_y));
        let (x, y): (Vec<Value>, Vec<Value>) =
            points.into_iter().map(|(x, y)| (rounded(x), y.map_or(Value::Null, rounded))).unzip();
        let replica = curve.replica.map(|r| format!(", replica {r}")).unwrap_or_default();
        let trace = json!({
            "role": "curve", "slot": slot(curve), "name": curve.label, "x": x, "y": y,
            "text": format!("{}{replica}", curve.label),
        });
        traces.push((slot(curve), trace));
    }
    let title = match (figure.x_label.as_str(), figure.kind) {
        ("", FigureKind::Function) => "x",
        ("", _) => "Time (s)",
        (given, _) => given,
    };
    Panel {
        caption: if stack.is_empty() { String::new() } else { stack_heading(experiment, stack) },
        group: metric.into(),
        chart: json!({
            "kind": "curve", "dashes": dashes(experiment),
            "x": {"title": title, "type": if figure.log_x { "log" } else { "linear" }},
            "y": y_scale(experiment, metric),
            "traces": traces.into_iter().map(|(_, t)| t).collect::<Vec<_>>(),
        }),
        span,
        log_span: None,
    }
}
