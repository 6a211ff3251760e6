//! Sweeps: many runs on all cores, kept in the run store of the command line.

use crate::cc::{ExceptionObserver, execute, in_python};
use crate::error::{FailureReason, guarded, usage};
use crate::run::PyRun;
use crate::scenario::{PyScenario, limits_of};
use crate::table::{PyColumn, PyTable, reals, words};
use arrow_array::Int64Array;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use roughlink_lab::drawing::{self, MessageStyle};
use roughlink_lab::error::LabError;
use roughlink_lab::experiment::ExperimentPlan;
use roughlink_lab::experiment::grid::{
    Grid, choices as choices_of, rows as rows_of, sweep as plan_of, values as values_of,
};
use roughlink_lab::experiment::result::{Cell, ReportInput};
use roughlink_lab::experiment::table::{CellValues, TableColumn};
use roughlink_lab::folder;
use roughlink_lab::kernel;
use roughlink_lab::library::ScenarioText;
use roughlink_lab::metric;
use roughlink_lab::part::{self, Description, GridPart};
use roughlink_lab::runner::{self, GridEnd, Job, Stop};
use roughlink_lab::statistics::{self, ConfidenceInterval};
use roughlink_lab::store::{Store, folder_of, identity_of};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Planned runs.
#[pyclass(frozen, name = "Plan", module = "roughlink._native")]
pub(crate) struct PyPlan(Mutex<ExperimentPlan>);

/// Progress passed to the callback: all runs, finished runs, and runs found in the folder. Then the cost of the runs
/// not found there, and of the finished ones among them. Last, the repeated runs.
type ProgressCounts = (usize, usize, usize, u64, u64, usize);

/// Results of a plan after its runs: the folder, the statistics as JSON, the table of runs.
pub(crate) type GridResults = (PathBuf, String, PyTable);

#[pymethods]
impl PyPlan {
    /// Returns the number of runs.
    fn __len__(&self) -> usize {
        self.plan().runs()
    }

    /// Returns warnings about input that is valid but probably a mistake.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        let of = |(name, text, warning): &(String, Arc<str>, _)| {
            drawing::warnings((name, text), std::slice::from_ref(warning), MessageStyle::Plain).trim_end().to_owned()
        };
        self.plan().warnings.iter().map(of).collect()
    }

    /// Returns the first of the folders `base`, `base-2`, `base-3`, ... that has results of this sweep or is unused.
    fn folder(&self, base: PathBuf) -> PathBuf {
        folder_of(&base, &self.plan().identity())
    }

    /// Executes the missing runs of the plan, or of a `part` such as `3/20`. Calls `report` about once a second. Ctrl-C
    /// raises KeyboardInterrupt, and an exception from `report` is passed on. In both cases finished runs stay in the
    /// folder. `cc` has the Python algorithms by name.
    #[expect(clippy::too_many_arguments, reason = "the arguments of a Python method")]
    fn work(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        threads: usize,
        max_memory: Option<u64>,
        report: Py<PyAny>,
        part: Option<&str>,
        cc: Vec<(String, Py<PyAny>)>,
    ) -> PyResult<GridResults> {
        let limits = limits_of(max_memory);
        py.detach(|| {
            guarded(|| {
                let plan = self.plan();
                let part = part.map(str::parse::<GridPart>).transpose()?;
                let (mut store, mut description) = opened(&plan, &folder, part)?;
                let asked = Arc::new(AtomicBool::new(false));
                let ends = ExceptionObserver::of_sweep(Arc::clone(&asked));
                let usual = kernel::executor(&[&plan], &store)?;
                let executor = |job: &Job, stop: Stop<'_>| match in_python(&job.scenario).next() {
                    None => usual(job, stop),
                    Some(_) => execute(job, stop.within(), &cc, &ends),
                };
                let mut raised: Option<PyErr> = None;
                let mut tell = |told: ProgressCounts| {
                    let done = Python::attach(|py| {
                        py.check_signals()?;
                        report.call1(py, told).map(drop)
                    });
                    if let Err(e) = done {
                        asked.store(true, Ordering::Relaxed);
                        raised.get_or_insert(e);
                    }
                };
                let all = plan.runs();
                let numbers: Box<dyn ExactSizeIterator<Item = usize>> = match part {
                    None => Box::new(0..all),
                    Some(part) => Box::new(part.numbers(all)),
                };
                let check = |job: &Job| check_versions(job, &cc);
                let jobs = plan.planned_jobs_at(numbers);
                let jobs = jobs.map(|job| Ok(job?.within(limits).checked(&check)));
                let ending = runner::run_by(&executor, jobs, &mut store, threads, Stop::AtOnce(&asked), &mut |p| {
                    tell((p.runs, p.done, p.kept, p.cost, p.spent, p.repeated));
                });
                let described = description.renew(&plan, &store);
                if let Some(e) = raised.or_else(|| ends.raised()) {
                    return Err(FailureReason::Python(e));
                }
                match ending? {
                    GridEnd::Complete => {}
                    GridEnd::Stopped => unreachable!("only an exception stops it"),
                }
                described?;
                match part {
                    None => outcome(&plan, &store),
                    Some(_) => {
                        let (result, columns) = plan.result_and_columns(&store)?;
                        Ok((folder.clone(), json(&result), table(columns)))
                    }
                }
            })
        })
    }
}

impl PyPlan {
    pub(crate) fn plan(&self) -> MutexGuard<'_, ExperimentPlan> {
        // A panic was reported; the plan is unchanged.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the store for the runs of a plan or of one of its parts. Returns the store and the description of the plan.
pub(crate) fn opened(
    plan: &ExperimentPlan,
    folder: &Path,
    part: Option<GridPart>,
) -> Result<(Store, Description), LabError> {
    let store = part::open(plan, folder)?;
    let description = match part {
        None => part::describe(plan, &store)?,
        Some(part) => part.describe(plan, &store)?,
    };
    Ok((store, description))
}

/// Checks that a run store can keep the result of a job. A store reuses results, and the code of a Python class may
/// have changed since. Therefore, every Python algorithm of the job must be in `versioned`, where names have a version.
fn check_versions(job: &Job, versioned: &[(String, Py<PyAny>)]) -> Result<(), LabError> {
    let unversioned = |used: &&str| versioned.iter().all(|(name, _)| name != used);
    match in_python(&job.scenario).find(unversioned) {
        None => Ok(()),
        Some(name) => Err(usage(
            &format!("the algorithm `{name}` is a Python class, which may change while a sweep reuses stored results"),
            "give the class with a version to `sweep(cc=...)`, or run its scenarios in a loop",
        )),
    }
}

/// Writes and returns the results of a plan whose runs are all in the store.
pub(crate) fn outcome(plan: &ExperimentPlan, store: &Store) -> Result<GridResults, FailureReason> {
    let (result, _, table) = folder::finish(plan, store, runner::ENGINE, table)?;
    Ok((store.folder().to_path_buf(), json(&result), table))
}

fn table(columns: Vec<TableColumn>) -> PyTable {
    PyTable::from_columns(
        columns
            .iter()
            .map(|column| PyColumn {
                name: &column.name,
                unit: &column.unit,
                meaning: &column.meaning,
                values: match &column.values {
                    CellValues::Words(v) => words(v.iter().map(|word| Some(&**word))),
                    CellValues::Whole(v) => Arc::new(Int64Array::from(v.clone())),
                    CellValues::Real(v) => reals(v.iter().map(|x| Some(*x).filter(|x| !x.is_nan()))),
                },
            })
            .collect(),
    )
}

fn json(result: &impl Serialize) -> String {
    serde_json::to_string(result).expect("results have a JSON form")
}

/// Plans a sweep over all combinations of the values of keys.
#[pyfunction]
#[pyo3(signature = (scenario, vary, replicas, seed, metrics, max_runs, on_kernel=false))]
#[expect(clippy::too_many_arguments, reason = "the arguments of a Python function")]
pub(crate) fn sweep(
    py: Python<'_>,
    scenario: &PyScenario,
    vary: Vec<(String, Vec<String>)>,
    replicas: u32,
    seed: Option<u64>,
    metrics: Vec<String>,
    max_runs: u64,
    on_kernel: bool,
) -> PyResult<PyPlan> {
    let set = scenario.overrides.clone();
    let grid = Grid { set, seed, replicas, metrics, most_runs: max_runs, on_kernel, ..Grid::default() };
    let source = scenario.source.clone();
    let plan = py.detach(|| guarded(|| Ok(plan_of(source, &vary, &grid)?)))?;
    Ok(PyPlan(Mutex::new(plan)))
}

/// Merges the folders of the parts of a sweep or comparison.
#[pyfunction]
pub(crate) fn merge(py: Python<'_>, folders: Vec<PathBuf>, output: PathBuf, max_runs: u64) -> PyResult<GridResults> {
    py.detach(|| {
        guarded(|| {
            let merged = part::merge(&folders, &output, max_runs)?;
            merged.complete()?;
            outcome(&merged.plan, &merged.store)
        })
    })
}

/// Returns the metrics as JSON.
#[pyfunction]
pub(crate) fn metrics() -> String {
    json(&metric::list())
}

/// Returns the two-sided quantile of Student's distribution.
#[pyfunction]
pub(crate) fn student(freedom: f64, level: f64) -> f64 {
    statistics::student(freedom, level)
}

/// Returns the interval of the mean of differences.
#[pyfunction]
pub(crate) fn interval(values: Vec<f64>, level: f64) -> Option<(f64, f64)> {
    statistics::interval(&values, level).map(|[low, high]| (low, high))
}

/// Returns the quantile `q` of `values` and of values with the lower bounds `at_least`. `None` if the quantile is only
/// a bound, or without values.
#[pyfunction]
pub(crate) fn quantile(values: Vec<f64>, at_least: Vec<f64>, q: f64) -> Option<f64> {
    let each: Vec<ConfidenceInterval> = statistics::bounds(&values, &at_least).collect();
    let ([low, high], _) = statistics::quantile(&each, q, statistics::LEVEL)?;
    (low == high).then_some(low)
}

type OptionalInterval = (Option<f64>, Option<f64>);

/// Returns the interval of a cell given as JSON. Unknown ends are `None`.
#[pyfunction]
pub(crate) fn cell_interval(cell: &str, level: f64) -> PyResult<OptionalInterval> {
    Ok(ends(cell_of(cell)?.interval_at(level)))
}

/// Returns the difference of two cells given as JSON, and the ends of its interval. Unknown values are `None`. Both
/// ends are `None` if neither cell is random.
#[pyfunction]
pub(crate) fn difference(cell: &str, other: &str, level: f64) -> PyResult<(Option<f64>, OptionalInterval)> {
    let (cell, other) = (cell_of(cell)?, cell_of(other)?);
    let Some(difference) = cell.difference(&other, level) else { return Ok((None, (None, None))) };
    let random = !(cell.deterministic && other.deterministic);
    Ok((difference.known(), ends(difference.interval.filter(|_| random))))
}

/// Returns the scenario of a run of a sweep's folder, by the values of the axes.
#[pyfunction]
pub(crate) fn stored_run(
    py: Python<'_>,
    folder: PathBuf,
    identity: Option<&str>,
    at: BTreeMap<String, String>,
    replica: u32,
    max_runs: u64,
) -> PyResult<Option<PyScenario>> {
    py.detach(|| {
        guarded(|| {
            still_in(&folder, identity)?;
            let Some(plan) = part::described(&folder, max_runs)? else { return Ok(None) };
            let Some(number) = plan.number(&at, replica) else { return Ok(None) };
            let job = plan.jobs_at(number..number + 1).next().transpose()?;
            let order = plan.portable();
            let is = |source: &&ScenarioText| at.get("scenario").is_none_or(|name| source.name == *name);
            let source = order.as_ref().and_then(|order| order.scenarios.iter().find(is));
            let files = source.and_then(|source| source.folder.clone()).unwrap_or_default().given;
            Ok(job.map(|job| PyScenario::stored(job.scenario, files)))
        })
    })
}

/// Returns the identity of the sweep in a folder, if it has one.
#[pyfunction]
pub(crate) fn identity(folder: PathBuf) -> Option<String> {
    identity_of(&folder)
}

/// Returns an error unless the folder still has the sweep with this identity.
fn still_in(folder: &Path, identity: Option<&str>) -> Result<(), LabError> {
    if identity.is_some() && identity_of(folder).as_deref() == identity {
        return Ok(());
    }
    let message = format!("`{}` no longer has the sweep that was read from it", folder.display());
    Err(usage(&message, "read the folder again, or give each sweep a folder of its own"))
}

fn cell_of(text: &str) -> PyResult<Cell> {
    serde_json::from_str(text).map_err(|e| PyValueError::new_err(e.to_string()))
}

fn ends(interval: Option<ConfidenceInterval>) -> OptionalInterval {
    let [low, high] = interval.map_or([None; 2], |ends| ends.map(|end| Some(end).filter(|end| end.is_finite())));
    (low, high)
}

/// Returns the statistics of a metric over the runs in a sweep's folder as JSON. The sweep need not have the metric.
#[pyfunction]
pub(crate) fn measure(
    py: Python<'_>,
    folder: PathBuf,
    identity: Option<&str>,
    metric: &str,
    max_runs: u64,
) -> PyResult<String> {
    py.detach(|| {
        guarded(|| {
            still_in(&folder, identity)?;
            let (mut plan, records) = folder::unfinished(&folder, max_runs)?;
            plan.measure_only(metric).map_err(|e| {
                let help = e.help().map_or_else(String::new, |help| format!("; {help}"));
                PyKeyError::new_err(format!("{metric} was not measured: {e}{help}"))
            })?;
            Ok(json(&plan.result(&records)?))
        })
    })
}

/// Splits `KEY=A,B,...`, as given to `--set`, into the key and its values.
#[pyfunction]
pub(crate) fn choices(text: &str) -> PyResult<(String, Vec<String>)> {
    guarded(|| Ok(choices_of(text)?))
}

/// Splits the text of a list into the values of keys that vary together.
#[pyfunction]
pub(crate) fn values(key: &str, text: &str) -> PyResult<Vec<String>> {
    guarded(|| Ok(values_of(key, text)?))
}

/// Reads keys that vary together, and their values, from a CSV file.
#[pyfunction]
pub(crate) fn rows(path: PathBuf) -> PyResult<(String, Vec<String>)> {
    guarded(|| Ok(rows_of(&path)?))
}

/// Content of a result folder.
#[derive(IntoPyObject)]
pub(crate) enum PyFolder {
    Run(PyRun),
    /// Statistics of experiments as JSON; the runs, or `None` for a paper; the planned number of runs if the folder is
    /// not finished.
    Grid((String, Option<PyTable>, Option<usize>)),
}

/// Reads a result folder. `most` is the maximum size of a table in bytes, and `max_runs` the maximum number of planned
/// runs of an unfinished sweep.
#[pyfunction]
pub(crate) fn read(py: Python<'_>, folder: PathBuf, most: u64, max_runs: u64) -> PyResult<PyFolder> {
    let read = || match folder::kind(&folder)? {
        folder::FolderKind::Run => PyRun::read(&folder, most).map(PyFolder::Run),
        folder::FolderKind::Grid => {
            let (input, runs) = folder::tabled(&folder)?;
            let runs = runs.map(|file| PyTable::stored(&file, most)).transpose()?;
            Ok(PyFolder::Grid((json(&input), runs, None)))
        }
        folder::FolderKind::Unfinished => {
            let (plan, records) = folder::unfinished(&folder, max_runs)?;
            let (result, columns) = plan.result_and_columns(&records)?;
            let input = ReportInput { experiments: vec![result], ..ReportInput::default() };
            Ok(PyFolder::Grid((json(&input), Some(table(columns)), Some(plan.runs()))))
        }
    };
    py.detach(|| guarded(read))
}
