//! A result folder as the input of a report: the `results.json` of a grid, or the `summary.json` and the flow series of
//! `run -o`.

pub mod run;
mod table;

use crate::disk::{self, Folder};
use crate::error::LabError;
use crate::experiment::result::ReportInput;
use crate::output;
use run::Run;
use std::io;
use std::path::Path;

/// The statistics of a grid of runs.
pub const RESULTS: &str = "results.json";
/// The result of a single run.
const SUMMARY: &str = "summary.json";

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
