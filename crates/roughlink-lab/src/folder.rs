//! A result folder: the `results.json` of a grid, which is written here, or the `summary.json` and the flow series of `run -o`, as the
//! input of a report.

pub mod run;
mod table;

use crate::disk::{self, Folder};
use crate::error::LabError;
use crate::experiment::Plan;
use crate::experiment::result::{ExperimentResult, ReportInput};
use crate::experiment::table::RUNS_TABLE;
use crate::store::Store;
use crate::{output, report};
use run::Run;
use std::io;
use std::path::{Path, PathBuf};

/// The statistics of a grid of runs.
pub const RESULTS: &str = "results.json";
/// The result of a single run.
const SUMMARY: &str = "summary.json";

/// The report.
pub const REPORT: &str = "report.html";

/// Writes the results of a plan whose runs the store has: the table of runs, the statistics, the report. Returns where the report is.
///
/// # Errors
/// One of them cannot be written.
pub fn finish(plan: &Plan, store: &Store, revision: &str) -> Result<(ExperimentResult, PathBuf), LabError> {
    let result = plan.result(store);
    store.write(RUNS_TABLE, &plan.table(store)?)?;
    let input = ReportInput {
        title: result.title.clone(),
        intro: result.about.clone(),
        command: result.command.clone(),
        facts: facts(std::slice::from_ref(&result), revision),
        experiments: vec![result.clone()],
        ..ReportInput::default()
    };
    Ok((result, keep(store, &input)?))
}

/// Writes statistics and report. Returns where the report is.
///
/// # Errors
/// One of them cannot be written.
pub fn keep(store: &Store, input: &ReportInput) -> Result<PathBuf, LabError> {
    let text = serde_json::to_string_pretty(input).expect("results have a JSON form") + "\n";
    store.write(RESULTS, text.as_bytes())?;
    store.write(REPORT, report::render(input).as_bytes())
}

/// How the results were made, for the heading of a report: by which revision of the program, with how many replicas.
pub fn facts(experiments: &[ExperimentResult], revision: &str) -> Vec<(String, String)> {
    let cells = experiments.iter().flat_map(|e| &e.cells);
    let replicas = cells.map(|c| c.replicas).filter(|&n| n > 0);
    let (few, many) = replicas.fold((u32::MAX, 0), |(few, many), n| (few.min(n), many.max(n)));
    let mut facts = vec![
        ("Version".into(), format!("roughlink {}", env!("CARGO_PKG_VERSION"))),
        ("Revision".into(), revision.into()),
    ];
    if many > 0 {
        let replicas = if few == many { many.to_string() } else { format!("{few} to {many}") };
        facts.push(("Replicas".into(), replicas));
    }
    facts
}

/// What a folder holds.
#[derive(Debug)]
pub enum Content {
    /// The results of a sweep, a comparison or a paper.
    Grid(Box<ReportInput>),
    /// The results of `run -o`.
    Run(Box<Run>),
}

/// Reads a result folder.
pub fn read(folder: &Path) -> Result<Content, LabError> {
    output::recover(folder);
    let holds = |name: &str| Folder::open(folder).is_ok_and(|f| matches!(f.kind(name), Ok(Some(_))));
    if holds(RESULTS) {
        return json(&folder.join(RESULTS)).map(|input| Content::Grid(Box::new(input)));
    }
    if holds(SUMMARY) {
        return run::read(folder).map(|run| Content::Run(Box::new(run)));
    }
    Err(LabError::NotFound {
        what: "result folder",
        name: folder.display().to_string(),
        help: format!("a folder that `run -o`, `sweep`, `compare` or `reproduce` left has {SUMMARY} or {RESULTS}"),
    })
}

fn json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, LabError> {
    let failed = |source| LabError::Read { path: path.to_path_buf(), source };
    let text = disk::read(path).map_err(failed)?;
    serde_json::from_slice(&text).map_err(|e| failed(io::Error::other(e)))
}
