//! The data behind a figure as CSV (RFC 4180, one header line, `\n` line ends).
//!
//! A spreadsheet interprets a cell that begins with `=` as a formula, and some also do so with `+`, `-`, `@`, a tab or
//! a line end. Names come from the authors of scenarios, so such a cell gets an apostrophe in front, unless it is a
//! number. The page's script does the same for the points as drawn; `tests/report_in_browser.rs` compares them.

use crate::experiment::result::ExperimentResult;
use std::borrow::Cow;

/// Returns one line per cell: stack, axes, metric, unit, published, measured, quantile, ci95, interval_low,
/// interval_high, at_least, values and replicas, with the meanings of [`Cell`](crate::experiment::result::Cell).
/// `at_least` is the `bound` of the cell, and `values` counts the replicas that have a value. An infinite end is
/// absent. Samples would double the size of the page; `results.json` has them. Parsing a number returns the same bits;
/// absent numbers are empty.
pub fn cells(experiment: &ExperimentResult) -> String {
    let axes = experiment.axes.iter().map(|a| a.name.as_str());
    let mut rows = vec![["stack"].into_iter().chain(axes).chain(COLUMNS).map(String::from).collect::<Vec<_>>()];
    for cell in &experiment.cells {
        let mut fields = vec![cell.real_stack().to_string()];
        fields.extend(experiment.axes.iter().map(|a| cell.axes.get(&a.name).unwrap_or_default().to_owned()));
        let unit = experiment.metrics.iter().find(|m| m.name == cell.metric).map_or("", |m| m.unit.as_str());
        fields.extend([cell.metric.clone(), unit.to_string()]);
        let [low, high] = cell.interval.map_or([None, None], |i| i.map(|end| Some(end).filter(|end| end.is_finite())));
        let numbers = [cell.published, cell.measured, cell.quantile, cell.ci95, low, high, cell.bound];
        fields.extend(numbers.map(|x| x.map(|x| x.to_string()).unwrap_or_default()));
        fields.extend([cell.values().to_string(), cell.replicas.to_string()]);
        rows.push(fields);
    }
    let mut out = csv::Writer::from_writer(Vec::new());
    for row in rows {
        out.write_record(row.iter().map(|cell| as_text(cell).into_owned()))
            .expect("each row has the fields of the heading");
    }
    String::from_utf8(out.into_inner().expect("memory takes everything")).expect("made of text")
}

/// Escapes `cell` so that a spreadsheet does not interpret it as a formula.
pub fn as_text(cell: &str) -> Cow<'_, str> {
    let number = || cell.parse().is_ok_and(f64::is_finite);
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) && !number() {
        return Cow::Owned(format!("'{cell}"));
    }
    Cow::Borrowed(cell)
}

/// Columns after the axes.
const COLUMNS: [&str; 11] = [
    "metric",
    "unit",
    "published",
    "measured",
    "quantile",
    "ci95",
    "interval_low",
    "interval_high",
    "at_least",
    "values",
    "replicas",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::result::{AxisResult, Cell, MetricResult};

    #[test]
    fn csv_escapes_formulas_and_keeps_numbers() {
        for formula in ["=1+1", "+49 30", "-3.5 dB", "@SUM(A1)", "\t=1", "\r", "-", "-0x10", "-1e999", "+inf"] {
            assert_eq!(as_text(formula), format!("'{formula}"));
        }
        for plain in ["", "-3.5", "+2", "-1e-300", "-.5", "0", "cubic", "5 %", "a=b", "'x"] {
            assert_eq!(as_text(plain), plain);
        }
    }

    #[test]
    fn cells_survive_a_round_trip() {
        let cell = |cc: &str, measured: Option<f64>| Cell {
            stack: "ns3".into(),
            axes: [("cc".to_string(), cc.to_string()), ("loss".into(), "5 %".into())].into(),
            metric: "throughput_mbps".into(),
            published: Some(0.1 + 0.2),
            measured,
            ci95: Some(1.0 / 3.0),
            replicas: 2,
            samples: vec![0.25, 1e-300],
            ..Cell::default()
        };
        let share = Cell { ci95: None, interval: Some([0.1, 0.9]), ..cell("plain", Some(0.5)) };
        let late = Cell { at_least: vec![28.0], quantile: Some(0.5), bound: Some(28.0), ..cell("late", None) };
        let experiment = ExperimentResult {
            axes: ["cc", "loss"].map(|n| AxisResult { name: n.into(), ..AxisResult::default() }).into(),
            metrics: vec![MetricResult { name: "throughput_mbps".into(), label: String::new(), unit: "Mbit/s".into() }],
            cells: vec![cell("a,\"b\"\nc", Some(2.5e-9)), share, late],
            ..ExperimentResult::default()
        };
        let text = cells(&experiment);
        let mut table = csv::Reader::from_reader(text.as_bytes());
        let heading = table.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 3);
        for (row, cell) in rows.iter().zip(&experiment.cells) {
            let field = |name: &str| &row[heading.iter().position(|h| h == name).unwrap()];
            assert_eq!(Some(field("cc")), cell.axes.get("cc"));
            assert_eq!(field("unit"), "Mbit/s");
            let number = |name: &str| field(name).parse::<f64>().ok();
            let numbers = ["published", "measured", "ci95", "interval_low", "interval_high"].map(number);
            let [low, high] = cell.interval.map_or([None; 2], |i| i.map(Some));
            assert_eq!(numbers, [cell.published, cell.measured, cell.ci95, low, high]);
            assert_eq!((number("at_least"), field("replicas"), field("values")), (cell.bound, "2", "2"));
        }
    }
}
