//! Result folders as input of a report and as tables: `results.json` of a grid, `summary.json` and series of `run -o`.

pub mod curves;
pub mod emulation;
pub mod run;
mod table;

pub use table::{ColumnValues, FolderTable, TableHeading};

use crate::disk::{self, OpenFolder};
use crate::error::LabError;
use crate::experiment::ExperimentPlan;
use crate::experiment::result::{ExperimentResult, ReportInput};
use crate::experiment::table::{TableColumn, write as write_table};
use crate::output::SUMMARY;
use crate::store::{REPORT, RESULTS, RUNS, RUNS_TABLE, Records, Store};
use crate::{output, part, report};
use roughlink_core::metrics::RunResult;
use roughlink_core::trace::columns::Series;
use run::SingleRun;
use std::collections::BTreeSet;
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};

/// Writes the table of runs, the statistics and the report of a plan that has run. Passes the columns of the table to
/// `take`. Returns the statistics, the path of the report, and what `take` returns.
///
/// # Errors
/// Returns an error if a run cannot be read or a file cannot be written.
pub fn finish<T>(
    plan: &ExperimentPlan,
    store: &Store,
    revision: &str,
    take: impl FnOnce(Vec<TableColumn>) -> T,
) -> Result<(ExperimentResult, PathBuf, T), LabError> {
    let (result, columns) = plan.result_and_columns(store)?;
    store.write_with(RUNS_TABLE, |file| write_table(&columns, BufWriter::new(file)))?;
    let taken = take(columns);
    let facts = facts(std::slice::from_ref(&result), revision);
    let mut input = ReportInput {
        title: result.title.clone(),
        intro: result.about.clone(),
        command: result.command.clone(),
        facts,
        experiments: vec![result],
        ..ReportInput::default()
    };
    let report = keep(store, &input)?;
    Ok((input.experiments.remove(0), report, taken))
}

/// Writes statistics and report. Returns the path of the report.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn keep(store: &Store, input: &ReportInput) -> Result<PathBuf, LabError> {
    std::thread::scope(|scope| {
        let report = scope.spawn(|| report::render(input));
        let written = store.write_with(RESULTS, |file| {
            let mut file = BufWriter::with_capacity(1 << 16, file);
            serde_json::to_writer_pretty(&mut file, input)?;
            file.write_all(b"\n")?;
            file.flush()
        });
        let report = report.join().unwrap_or_else(|panic| resume_unwind(panic));
        written.and_then(|_| store.write(REPORT, report.as_bytes()))
    })
}

/// Returns facts for the heading of a report, such as revision and number of replicas.
pub fn facts(experiments: &[ExperimentResult], revision: &str) -> Vec<(String, String)> {
    let cells = experiments.iter().flat_map(|e| &e.cells);
    let replicas = cells.map(|c| c.replicas).filter(|&n| n > 0);
    let (few, many) = replicas.fold((u32::MAX, 0), |(few, many), n| (few.min(n), many.max(n)));
    let mut facts = vec![
        ("Version".into(), format!("roughlink {}", env!("CARGO_PKG_VERSION"))),
        ("Revision".into(), revision.into()),
    ];
    let stacks: BTreeSet<&str> = experiments.iter().flat_map(|e| &e.scenario_stacks).map(String::as_str).collect();
    if !stacks.is_empty() {
        facts.push(("TCP stack".into(), stacks.into_iter().collect::<Vec<_>>().join(", ")));
    }
    if many > 0 {
        let replicas = if few == many { many.to_string() } else { format!("{few} to {many}") };
        facts.push(("Replicas".into(), replicas));
    }
    facts
}

/// Contents of a result folder.
#[derive(Debug)]
pub enum FolderContent {
    /// Results of a sweep, a comparison or a paper.
    Grid(Box<ReportInput>),
    /// Results of `run -o`.
    Run(Box<SingleRun>),
}

/// Kind of a result folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderKind {
    /// The results of a sweep, a comparison or a paper: [`grid`], [`tabled`].
    Grid,
    /// The result of a run: [`summary`], [`series`].
    Run,
    /// Runs without statistics, because the sweep is unfinished or a part: [`unfinished`].
    Unfinished,
}

/// Reads a result folder.
pub fn read(folder: &Path) -> Result<FolderContent, LabError> {
    match kind(folder)? {
        FolderKind::Grid => Ok(FolderContent::Grid(Box::new(grid(folder)?))),
        FolderKind::Run => run::read(folder).map(|run| FolderContent::Run(Box::new(run))),
        FolderKind::Unfinished => Err(not_found(folder)),
    }
}

/// Returns the kind of a folder.
pub fn kind(folder: &Path) -> Result<FolderKind, LabError> {
    output::recover(folder);
    let holds = |name: &str| OpenFolder::open(folder).is_ok_and(|f| matches!(f.kind(name), Ok(Some(_))));
    let kinds = [(RESULTS, FolderKind::Grid), (SUMMARY, FolderKind::Run), (RUNS, FolderKind::Unfinished)];
    kinds.into_iter().find(|(name, _)| holds(name)).map(|(_, kind)| kind).ok_or_else(|| not_found(folder))
}

/// Reads the statistics of a grid. Fails if a cell lacks a value of an axis.
pub fn grid(folder: &Path) -> Result<ReportInput, LabError> {
    let path = folder.join(RESULTS);
    let failed = |source| LabError::Read { path: path.clone(), source };
    let input: ReportInput = read_results(&path).map_err(failed)?;
    let mut axes = input.experiments.iter().flat_map(|e| e.axes.iter().map(move |axis| (e, &axis.name)));
    let lacking = axes.find(|(e, axis)| e.cells.iter().any(|cell| !cell.axes.contains_key(axis)));
    let lacking = lacking.map(|(_, axis)| io::Error::other(format!("a cell has no value of `{axis}`")));
    match lacking {
        None => Ok(input),
        Some(source) => Err(failed(source)),
    }
}

/// Reads statistics piece by piece. A large grid has more of them than any other file.
fn read_results(path: &Path) -> io::Result<ReportInput> {
    let file = disk::reader(path)?;
    if file.metadata()?.len() > MAX_RESULTS_SIZE {
        let reason = format!("it has more than {MAX_RESULTS_SIZE} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    // The parser limits the depth of lists and objects.
    Ok(serde_json::from_reader(BufReader::with_capacity(1 << 16, file.take(MAX_RESULTS_SIZE)))?)
}

/// Maximum size of `results.json` in bytes; two million cells have about half of it.
const MAX_RESULTS_SIZE: u64 = 2_000_000_000;

/// Reads the statistics of a grid and, for a sweep or comparison, the table of its runs.
///
/// # Errors
/// Returns an error if a file cannot be read, or if statistics and table do not match.
pub fn tabled(folder: &Path) -> Result<(ReportInput, Option<FolderTable>), LabError> {
    let input = grid(folder)?;
    if input.summary.is_some() {
        return Ok((input, None));
    }
    let wrong = |why: String| {
        let message = format!("`{}` is not a complete result of a sweep or comparison: {why}", folder.display());
        Err(LabError::Usage { message, help: "repeat the command that made it".into() })
    };
    match (input.experiments.len(), FolderTable::open(&folder.join(RUNS_TABLE))?) {
        (1, None) => wrong(format!("it has no {RUNS_TABLE}")),
        (1, table) => Ok((input, table)),
        (n, _) => wrong(format!("{RESULTS} has {n} experiments, not one")),
    }
}

/// Reads the result of a run, with the JSON text, which has more data for emulations.
pub fn summary(folder: &Path) -> Result<(RunResult, String), LabError> {
    let path = folder.join(SUMMARY);
    let read = || {
        let text = String::from_utf8(disk::read(&path)?).map_err(io::Error::other)?;
        check_depth(text.as_bytes())?;
        Ok((serde_json::from_str(&text)?, text))
    };
    read().map_err(|source| LabError::Read { path: path.clone(), source })
}

/// Reads a series of a run, if the folder has it.
pub fn series(folder: &Path, series: Series) -> Result<Option<FolderTable>, LabError> {
    FolderTable::open(&folder.join(output::table_name(series)))
}

/// Reads the plan of an unfinished sweep or comparison of at most `most` runs, with the finished runs.
///
/// # Errors
/// Returns an error if they cannot be read, or if the folder does not describe the sweep.
pub fn unfinished(folder: &Path, most: u64) -> Result<(ExperimentPlan, Records), LabError> {
    let records = Records::read(folder)?;
    Ok((part::plan_of(folder, &records, most)?, records))
}

fn not_found(folder: &Path) -> LabError {
    LabError::NotFound {
        what: "result folder",
        name: folder.display().to_string(),
        help: format!("name a folder of `run -o`, `sweep`, `compare` or `reproduce`, with {SUMMARY} or {RESULTS}"),
    }
}

fn json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, LabError> {
    let failed = |source| LabError::Read { path: path.to_path_buf(), source };
    let text = disk::read(path).map_err(failed)?;
    check_depth(&text).map_err(failed)?;
    serde_json::from_slice(&text).map_err(|e| failed(io::Error::other(e)))
}

/// Fails if lists and objects of a JSON text are nested more than [`MAX_DEPTH`] deep. roughlink writes no such text,
/// and other readers, such as Python's, are recursive.
fn check_depth(text: &[u8]) -> io::Result<()> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => depth += 1,
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(io::Error::other(format!("it has more than {MAX_DEPTH} levels of lists and objects")));
        }
    }
    Ok(())
}

/// Maximum number of levels in a JSON file, as in serde_json.
const MAX_DEPTH: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::Plain;
    use std::fs;

    #[test]
    fn deep_json_is_refused() {
        let nested = |n: usize| format!("{{\"x\": {}1{}, \"y\": \"[[[\\\"[[[\"}}", "[".repeat(n), "]".repeat(n));
        assert!(check_depth(nested(MAX_DEPTH - 1).as_bytes()).is_ok());
        assert!(check_depth(nested(MAX_DEPTH).as_bytes()).is_err());
        assert!(check_depth("[1, 2], ".repeat(1000).as_bytes()).is_ok());
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(SUMMARY), nested(100_000)).unwrap();
        let error = summary(folder.path()).unwrap_err();
        assert!(Plain::new(&error, None).to_string().ends_with("more than 128 levels of lists and objects"), "{error}");
    }
}
