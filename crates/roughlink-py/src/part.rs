//! Distributed sweeps. The driver has the plan and the run store ([`Work`]) and gives chunks of runs to workers
//! ([`WorkerShare`]), which may be processes on other machines. Driver and workers exchange bytes: the plan with all
//! files of its scenarios, numbers of runs, and the lines of the run store with their checksums.

use crate::error::{FailureReason, drawn, guarded, usage};
use crate::grid::{GridResults, PyPlan, opened, outcome};
use crate::run::watched;
use crate::scenario::limits_of;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use roughlink_core::net::{Exceeded, RunLimits};
use roughlink_lab::error::LabError;
use roughlink_lab::experiment::ExperimentPlan;
use roughlink_lab::experiment::order::Order;
use roughlink_lab::part::Description;
use roughlink_lab::runner::{ENGINE, Job, one};
use roughlink_lab::store::{RunLine, Store, line, records};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Description of a plan for a worker: what to run, and the maximum memory of a run in bytes.
type WorkerPlan = (Order, Option<u64>);

/// Missing runs of a plan's folder.
#[pyclass(frozen, module = "roughlink._native")]
pub(crate) struct Work {
    plan: Py<PyPlan>,
    max_memory: Option<u64>,
    state: Mutex<WorkerState>,
}

struct WorkerState {
    /// `None` after closing.
    store: Option<Store>,
    description: Description,
    /// First run that was not examined yet.
    next: usize,
    /// Runs that were examined.
    seen: HashSet<String>,
    /// Cost of the runs given to workers.
    given: HashMap<String, u64>,
    kept: usize,
    done: usize,
    planned: u64,
    spent: u64,
}

impl WorkerState {
    fn store(&mut self) -> Result<&mut Store, FailureReason> {
        let closed = || FailureReason::Python(PyRuntimeError::new_err("the sweep is closed"));
        self.store.as_mut().ok_or_else(closed)
    }
}

#[pymethods]
impl Work {
    /// Opens the folder.
    #[new]
    fn new(py: Python<'_>, plan: Py<PyPlan>, folder: PathBuf, max_memory: Option<u64>) -> PyResult<Self> {
        let (store, description) = py.detach(|| guarded(|| Ok(opened(&plan.get().plan(), &folder, None)?)))?;
        let state = WorkerState {
            store: Some(store),
            description,
            next: 0,
            seen: HashSet::new(),
            given: HashMap::new(),
            kept: 0,
            done: 0,
            planned: 0,
            spent: 0,
        };
        Ok(Work { plan, max_memory, state: Mutex::new(state) })
    }

    /// Returns the numbers of the next missing runs, and their total cost. There are at most `most` runs, with a total
    /// cost of about `cost`. Returns `None` if no run is left.
    fn chunk(&self, py: Python<'_>, cost: u64, most: usize) -> PyResult<Option<(Vec<usize>, u64)>> {
        py.detach(|| {
            guarded(|| {
                let plan = self.plan.get().plan();
                let mut guard = self.state();
                let state = &mut *guard;
                let (mut numbers, mut sum) = (Vec::new(), 0);
                for (number, job) in (state.next..).zip(plan.planned_jobs_at(state.next..plan.runs())) {
                    let job = job?;
                    let key = job.key.clone();
                    let known = state.seen.contains(&key);
                    let kept = !known && state.store()?.contains(&key);
                    // Read before the state changes: after an error, the run is still the next.
                    let own = if known || kept { 0 } else { job.read()?.cost() };
                    state.next = number + 1;
                    if known {
                        continue;
                    }
                    state.seen.insert(key.clone());
                    if kept {
                        state.kept += 1;
                        state.done += 1;
                        continue;
                    }
                    state.planned += own;
                    state.given.insert(key, own);
                    numbers.push(number);
                    sum += own;
                    if sum >= cost || numbers.len() >= most {
                        break;
                    }
                }
                Ok((!numbers.is_empty()).then_some((numbers, sum)))
            })
        })
    }

    /// Returns the number of files that the scenarios have read so far. If it grows, workers need a new description.
    #[getter]
    fn files(&self) -> usize {
        self.plan.get().plan().files()
    }

    /// Returns the description from which a worker creates its `Share`.
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let order = self.plan.get().plan().portable();
        let told: WorkerPlan = (order.expect("it is a sweep"), self.max_memory);
        Ok(PyBytes::new(py, &serde_json::to_vec(&told).expect("plain data")))
    }

    /// Adds a worker's results to the folder, except those it already has.
    fn keep(&self, py: Python<'_>, lines: &[u8]) -> PyResult<()> {
        let lines = lines.to_vec();
        py.detach(|| {
            guarded(|| {
                let damaged =
                    || usage(&"the results of a worker arrived damaged", "repeat the sweep: finished runs are kept");
                let plan = self.plan.get().plan();
                let mut guard = self.state();
                let state = &mut *guard;
                let mut new = Vec::new();
                for record in records(&lines).ok_or_else(damaged)? {
                    if state.store()?.contains(&record.key) {
                        continue;
                    }
                    let Some(cost) = state.given.remove(&record.key) else {
                        return Err(usage(
                            &format!("a worker executed a run that it was not given: {}", record.key),
                            "install the same version of roughlink on all workers",
                        )
                        .into());
                    };
                    state.spent += cost;
                    state.done += 1;
                    new.push(RunLine::new(&record).map_err(|e| usage(&e, "repeat the sweep"))?);
                }
                // Include the files that the scenarios of these runs have read.
                let WorkerState { store, description, .. } = state;
                store.as_ref().map_or(Ok(()), |store| description.renew(&plan, store))?;
                state.store()?.extend(new)?;
                Ok(())
            })
        })
    }

    /// Returns three numbers of runs and two costs. The runs: all, finished, and found in the folder at the start. The
    /// first cost is that of the runs not found there, partly estimated. The second is that of the runs finished since.
    fn progress(&self) -> (usize, usize, usize, u64, u64) {
        let left = |s: &WorkerState| self.plan.get().plan().runs() - s.next;
        let s = self.state();
        let left = left(&s);
        let lacked = (s.seen.len() - s.kept).max(1) as u128;
        let to_come = u128::from(s.planned) * left as u128 / lacked;
        (s.seen.len() + left, s.done, s.kept, s.planned + to_come as u64, s.spent)
    }

    /// Writes statistics, table and report. All runs must be finished.
    fn finish(&self, py: Python<'_>) -> PyResult<GridResults> {
        py.detach(|| {
            guarded(|| {
                let plan = self.plan.get().plan();
                let mut state = self.state();
                let store = state.store()?;
                store.sync()?;
                outcome(&plan, store)
            })
        })
    }

    /// Closes the folder.
    fn close(&self) {
        self.state().store = None;
    }
}

impl Work {
    fn state(&self) -> MutexGuard<'_, WorkerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker's copy of a plan. The worker executes some of its runs.
#[pyclass(frozen, name = "Share", module = "roughlink._native")]
pub(crate) struct WorkerShare {
    plan: Mutex<ExperimentPlan>,
    limits: RunLimits,
}

/// Lines of the run store, and a pair for each failed run: true if roughlink is at fault, and the message.
type WorkerResults<'py> = (Bound<'py, PyBytes>, Vec<(bool, String)>);

#[pymethods]
impl WorkerShare {
    #[new]
    fn new(py: Python<'_>, description: &[u8]) -> PyResult<Self> {
        let description = description.to_vec();
        py.detach(|| {
            guarded(|| {
                let wrong = |e: serde_json::Error| usage(&e, "install the same version of roughlink on all workers");
                let (order, max_memory): WorkerPlan = serde_json::from_slice(&description).map_err(wrong)?;
                if order.engine != ENGINE {
                    let message =
                        format!("a worker has roughlink {ENGINE}, but the sweep was begun by {}", order.engine);
                    return Err(usage(&message, "install the same version on all workers").into());
                }
                Ok(WorkerShare { plan: Mutex::new(order.plan_unread()?), limits: limits_of(max_memory) })
            })
        })
    }

    /// Executes these runs one after the other.
    fn work<'py>(&self, py: Python<'py>, numbers: Vec<usize>) -> PyResult<WorkerResults<'py>> {
        let stop = Arc::new(AtomicBool::new(false));
        let work = || {
            guarded(|| {
                let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
                let (mut lines, mut faults) = (Vec::new(), Vec::new());
                for job in plan.jobs_at(numbers.into_iter()) {
                    let job = Job { limits: self.limits, ..job? };
                    match one(&job, &stop) {
                        Ok(record) => {
                            let failed = |source| LabError::Write { path: PathBuf::from(&job.title), source };
                            lines.extend(line(&record).map_err(failed)?);
                        }
                        Err(LabError::Exceeded { limit: Exceeded::Stopped { .. }, .. }) => break,
                        Err(e) => {
                            let text = drawn(&e);
                            faults.push((matches!(e, LabError::Broken { .. }), text));
                        }
                    }
                }
                Ok((lines, faults))
            })
        };
        let (lines, faults) = py.detach(|| watched(&stop, work))??;
        Ok((PyBytes::new(py, &lines), faults))
    }
}
