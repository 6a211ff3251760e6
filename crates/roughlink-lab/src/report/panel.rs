//! Panels of figures, and their scales.

use super::html::rounded;
use super::slots::SeriesStyle;
use super::view::metric_caption;
use crate::experiment::result::ExperimentResult;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A figure: small charts with one legend.
pub(super) struct Drawing {
    /// Series in order: name and slot.
    pub series: Vec<(String, usize)>,
    pub form: SeriesStyle,
    pub panels: Vec<Panel>,
    /// True if some points are published values.
    pub published: bool,
    /// True if some points have a confidence interval.
    pub intervals: bool,
    /// True if each panel needs the full width of the page.
    pub wide: bool,
    /// Note on values that are not drawn; may be empty.
    pub note: String,
}

pub(super) struct Panel {
    /// Caption, such as `ns3 stack`; may be empty.
    pub caption: String,
    /// Panels of the same group have the same scales.
    pub group: String,
    /// Points and scales for the script.
    pub chart: Value,
    /// Lowest (above zero on a logarithmic scale) and highest ordinate.
    pub span: Option<(f64, f64)>,
    /// The same for values above zero, if the chart can be switched to a logarithmic scale.
    pub log_span: Option<(f64, f64)>,
}

pub(super) fn y_scale(experiment: &ExperimentResult, metric: &str) -> Value {
    let figure = &experiment.figure;
    let own = figure.y_label.is_empty() || experiment.metrics.first().is_some_and(|m| m.name != metric);
    let title = if own { metric_caption(experiment, metric) } else { figure.y_label.clone() };
    json!({"title": title, "type": if figure.log_y { "log" } else { "linear" }})
}

/// Extends a span to another value; a logarithmic span cannot include zero.
pub(super) fn widen(span: Option<(f64, f64)>, value: f64, log: bool) -> Option<(f64, f64)> {
    if !value.is_finite() || (log && value <= 0.0) {
        return span;
    }
    Some(span.map_or((value, value), |(a, b)| (a.min(value), b.max(value))))
}

/// Gives all panels of a group the same linear and logarithmic y range, so that stacks can be compared visually.
pub(super) fn share_scales(drawing: &mut Drawing) {
    let shared = |of: fn(&Panel) -> Option<(f64, f64)>| {
        let mut spans: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for panel in &drawing.panels {
            let Some((low, high)) = of(panel) else { continue };
            let span = spans.entry(panel.group.clone()).or_insert((low, high));
            *span = (span.0.min(low), span.1.max(high));
        }
        spans
    };
    let (spans, log_spans) = (shared(|p| p.span), shared(|p| p.log_span));
    let log_range = |(low, high): (f64, f64)| (libm::log10(low) - 0.06, libm::log10(high) + 0.06);
    for panel in &mut drawing.panels {
        let logarithmic = panel.chart["y"]["type"] == "log";
        let range = spans.get(&panel.group).map(|&(low, high)| {
            let room = 0.06 * (high.max(0.0) - low.min(0.0));
            let flat = (if low < 0.0 { low - room } else { 0.0 }, if high > 0.0 { high + room } else { 0.0 });
            if logarithmic { log_range((low, high)) } else { flat }
        });
        // If all values are zero, there is no span: use a scale from 0 to 1.
        let range = range.map(|r| if r == (0.0, 0.0) { (0.0, 1.0) } else { r });
        if let Some((low, high)) = range.filter(|r| r.0 < r.1) {
            panel.chart["y"]["range"] = json!([rounded(low), rounded(high)]);
        }
        if let Some(&span) = log_spans.get(&panel.group).filter(|_| panel.log_span.is_some()) {
            let (low, high) = log_range(span);
            panel.chart["y"]["log_range"] = json!([rounded(low), rounded(high)]);
        }
    }
}
