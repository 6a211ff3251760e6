//! A result folder as the input of a report: what a grid left (`results.json`), or what `run -o` left (`summary.json` and
//! the series of its flows).

use crate::error::LabError;
use crate::experiment::result::{
    AxisResult, AxisValue, Cell, Curve, ExperimentResult, Figure, FigureKind, MetricResult, ReportInput,
};
use crate::output::Manifest;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use roughlink_core::metrics::{FlowResult, RunResult};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

/// The statistics of a grid of runs.
pub const RESULTS: &str = "results.json";
/// The result of a single run.
const SUMMARY: &str = "summary.json";

/// What the folder holds.
pub fn read(folder: &Path) -> Result<ReportInput, LabError> {
    if folder.join(RESULTS).is_file() {
        return json(&folder.join(RESULTS));
    }
    if folder.join(SUMMARY).is_file() {
        return single(folder);
    }
    Err(LabError::NotFound {
        what: "result folder",
        name: folder.display().to_string(),
        help: format!("a folder that `run -o`, `sweep`, `compare` or `reproduce` left has {SUMMARY} or {RESULTS}"),
    })
}

fn json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, LabError> {
    let failed = |source| LabError::Read { path: path.to_path_buf(), source };
    let text = std::fs::read(path).map_err(failed)?;
    serde_json::from_slice(&text).map_err(|e| failed(io::Error::other(e)))
}

/// The report of one run: its flows side by side, and what they did over time.
fn single(folder: &Path) -> Result<ReportInput, LabError> {
    let result: RunResult = json(&folder.join(SUMMARY))?;
    let mut facts = vec![
        ("Seed".to_owned(), result.seed.to_string()),
        ("Replica".to_owned(), result.replica.to_string()),
        ("Simulated".to_owned(), format!("{:.3} s", result.sim_s)),
    ];
    let mut command = String::new();
    if let Ok(manifest) = Manifest::read(folder) {
        facts.push(("Version".into(), format!("roughlink {}", manifest.roughlink)));
        facts.extend(manifest.revision.map(|revision| ("Revision".into(), revision)));
        command = manifest.command.join(" ");
    }
    let names = result.flows.iter().map(|f| AxisValue { value: f.name.clone(), label: f.name.clone(), number: None });
    let axis = AxisResult { name: "flow".into(), label: "Flow".into(), values: names.collect(), narrowed: false };
    let flows = ExperimentResult {
        experiment: "flows".into(),
        title: "What each flow got".into(),
        command: command.clone(),
        stacks: vec![String::new()],
        axes: vec![axis.clone()],
        metrics: FLOW.iter().map(|(name, label, unit, _)| metric(name, label, unit)).collect(),
        figure: Figure { kind: FigureKind::Bar, x: "flow".into(), panels: "metric".into(), ..Figure::default() },
        cells: result.flows.iter().flat_map(cells).collect(),
        ..ExperimentResult::default()
    };
    let mut experiments = vec![flows];
    let series = folder.join("flows.parquet");
    if series.is_file() {
        experiments.push(ExperimentResult {
            experiment: "over-time".into(),
            title: "What the senders did".into(),
            command: command.clone(),
            stacks: vec![String::new()],
            axes: vec![axis],
            metrics: SERIES.iter().map(|(_, name, label, unit, _)| metric(name, label, unit)).collect(),
            figure: Figure {
                kind: FigureKind::Time,
                series: "flow".into(),
                panels: "metric".into(),
                x_label: "Time, s".into(),
                ..Figure::default()
            },
            curves: curves(&series)?,
            ..ExperimentResult::default()
        });
    }
    Ok(ReportInput { title: result.name, command, facts, experiments, ..ReportInput::default() })
}

fn metric(name: &str, label: &str, unit: &str) -> MetricResult {
    MetricResult { name: name.into(), label: label.into(), unit: unit.into() }
}

fn cells(flow: &FlowResult) -> Vec<Cell> {
    let cell = |name: &str, measured: Option<f64>| Cell {
        axes: [("flow".to_owned(), flow.name.clone())].into(),
        metric: name.into(),
        measured,
        replicas: u32::from(measured.is_some()),
        samples: measured.into_iter().collect(),
        ..Cell::default()
    };
    FLOW.iter().map(|(name, _, _, value)| cell(name, value(flow))).collect()
}

/// The columns of [`SERIES`] for each flow.
fn curves(path: &Path) -> Result<Vec<Curve>, LabError> {
    let failed = |source| LabError::Read { path: path.to_path_buf(), source };
    let broken = |e: parquet::errors::ParquetError| failed(io::Error::other(e));
    let file = File::open(path).map_err(failed)?;
    let reader = SerializedFileReader::new(file).map_err(broken)?;
    // One row in so many, so that a long run does not make a heavy page.
    let rows = reader.metadata().file_metadata().num_rows().max(1) as usize;
    let step = rows.div_ceil(MOST_POINTS);
    let mut curves: BTreeMap<(usize, String), Curve> = BTreeMap::new();
    for row in reader.get_row_iter(None).map_err(broken)?.step_by(step) {
        let row = row.map_err(broken)?;
        let column = |name: &str| row.get_column_iter().find(|(n, _)| *n == name).map(|(_, field)| field);
        let (Some(time), Some(Field::Str(flow))) = (column("time_ns").and_then(number), column("flow")) else {
            continue;
        };
        for (i, (from, name, _, _, scale)) in SERIES.iter().enumerate() {
            let curve = curves.entry((i, flow.clone())).or_insert_with(|| Curve {
                axes: [("flow".to_owned(), flow.clone())].into(),
                label: flow.clone(),
                metric: (*name).into(),
                ..Curve::default()
            });
            curve.x.push(time * 1e-9);
            curve.y.push(column(from).and_then(number).map(|v| v * scale));
        }
    }
    Ok(curves.into_values().collect())
}

fn number(field: &Field) -> Option<f64> {
    match field {
        Field::Long(v) => Some(*v as f64),
        Field::ULong(v) => Some(*v as f64),
        Field::Int(v) => Some(f64::from(*v)),
        Field::UInt(v) => Some(f64::from(*v)),
        Field::Double(v) => Some(*v),
        _ => None,
    }
}

/// Name, label, unit and value of a flow's metrics.
type FlowMetric = (&'static str, &'static str, &'static str, fn(&FlowResult) -> Option<f64>);
const FLOW: &[FlowMetric] = &[
    ("throughput_mbps", "Throughput", "Mbit/s", |f| f.throughput_mbps),
    ("retransmits", "Retransmissions", "", |f| Some(f.retransmits as f64)),
    ("fast_recoveries", "Fast recoveries", "", |f| Some(f.fast_recoveries as f64)),
    ("timeouts", "Time-outs", "", |f| Some(f.timeouts as f64)),
    ("rtt_mean_ms", "Mean RTT", "ms", |f| f.rtt_ms.map(|r| r.mean)),
    ("rtt_p95_ms", "RTT, 95th percentile", "ms", |f| f.rtt_ms.map(|r| r.p95)),
];

/// Column of the series, name, label, unit, factor.
const SERIES: &[(&str, &str, &str, &str, f64)] = &[
    ("cwnd_bytes", "cwnd_kb", "Congestion window", "kB", 1e-3),
    ("ssthresh_bytes", "ssthresh_kb", "Slow-start threshold", "kB", 1e-3),
    ("in_flight_bytes", "in_flight_kb", "In flight", "kB", 1e-3),
    ("srtt_ms", "srtt_ms", "Smoothed RTT", "ms", 1.0),
    ("delivered_bytes", "sequence_mb", "Delivered", "MB", 1e-6),
];
const MOST_POINTS: usize = 20_000;
