//! A run and its results.

use crate::cc::{ExceptionObserver, bind, bind_to};
use crate::error::{FailureReason, guarded, usage};
use crate::table::{PyColumn, PyTable, SeriesBuffer, TooLong, flags, integers, reals, words};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use roughlink_core::metrics::{DirectionResult, FlowResult, RttResult, RunResult};
use roughlink_core::net::{Network, RunLimits, RunOptions};
use roughlink_core::scenario::Scenario;
use roughlink_core::trace::columns::{Recorder, Series};
use roughlink_core::units::Time;
use roughlink_lab::folder;
use roughlink_lab::output::{OutputError, OutputSettings, run_to_folder};
use roughlink_lab::quantity::QUANTITIES;
use roughlink_lab::runner::{cores, run_on_threads, timed};
use std::collections::HashMap;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Options of a run.
pub(crate) struct Wanted {
    pub(crate) replica: u32,
    /// Minimum time between rows of a series, and the maximum memory of all series in bytes; `None` keeps no series.
    pub(crate) series: Option<(Time, u64)>,
    pub(crate) limits: RunLimits,
    /// Number of threads; `None` = one per core.
    pub(crate) threads: Option<usize>,
    /// Algorithms that are Python classes.
    pub(crate) cc: Vec<(String, Py<PyAny>)>,
}

/// Result of a run.
#[pyclass(frozen, name = "Run", module = "roughlink._native")]
pub(crate) struct PyRun {
    result: RunResult,
    /// JSON from which the result was read; an emulation's JSON has more fields than `result`.
    text: Option<String>,
    series: SeriesLocation,
}

enum SeriesLocation {
    Nowhere,
    Here(HashMap<Series, PyTable>),
    /// Result folder, and the maximum memory of a series in bytes.
    There(PathBuf, u64),
}

impl PyRun {
    /// Reads the result of a folder; its series are read on first use.
    pub(crate) fn read(folder: &Path, most: u64) -> Result<Self, FailureReason> {
        let (result, text) = folder::summary(folder)?;
        // The program may change its working directory before it reads the series.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        Ok(PyRun { result, text: Some(text), series: SeriesLocation::There(folder, most) })
    }

    /// Creates a run without series.
    #[cfg(target_os = "linux")]
    pub(crate) fn from_result(result: RunResult) -> Self {
        PyRun { result, text: None, series: SeriesLocation::Nowhere }
    }

    fn table(&self, series: Series) -> Result<Option<PyTable>, FailureReason> {
        match &self.series {
            SeriesLocation::Nowhere => Ok(None),
            SeriesLocation::Here(tables) => Ok(tables.get(&series).cloned()),
            SeriesLocation::There(folder, most) => {
                let table = self.stored(folder, *most, series);
                // Check after reading, because the folder may have been replaced in the meantime.
                self.still_in(folder)?;
                table
            }
        }
    }

    fn stored(&self, folder: &Path, most: u64, series: Series) -> Result<Option<PyTable>, FailureReason> {
        match folder::series(folder, series)? {
            Some(file) => PyTable::stored(&file, most).map(Some),
            // A run without gateways has no file for them. The file of flows shows that the run kept series.
            None if series == Series::Gateways && self.result.gateways.is_empty() => {
                Ok(folder::series(folder, Series::Flows)?.map(|_| PyTable::empty(series)))
            }
            None => Ok(None),
        }
    }

    /// Returns an error unless the folder still has this run, and thus its series.
    fn still_in(&self, folder: &Path) -> Result<(), FailureReason> {
        let why = match folder::summary(folder) {
            Ok((_, text)) if self.text.as_ref() == Some(&text) => return Ok(()),
            Ok(_) => "it now has another run".to_owned(),
            Err(e) => e.to_string(),
        };
        let message = format!("`{}` no longer has the run that was read from it: {why}", folder.display());
        Err(usage(&message, "keep the folder, since series are read on first use, or read it again").into())
    }

    pub(crate) fn new(py: Python<'_>, scenario: &Arc<Scenario>, wanted: Wanted) -> Result<Self, FailureReason> {
        let Wanted { replica, series, limits, threads, cc } = wanted;
        let mut own = None;
        let ends = (!cc.is_empty()).then(|| bind(own.insert(Scenario::clone(scenario)), cc));
        let scenario = &own.map_or_else(|| Arc::clone(scenario), Arc::new);
        let stop = Arc::new(AtomicBool::new(false));
        let options = RunOptions { replica, limits, stop: Some(Arc::clone(&stop)), ..RunOptions::default() };
        let mut network = Network::new(Arc::clone(scenario), options)?;
        let theirs = ends.clone();
        let work = move || {
            let most = series.map_or(0, |(_, most)| most);
            let recorder = series.map(|(sample, most)| Recorder::new(scenario, sample, SeriesBuffer::new(most)));
            let mut observers = (recorder, theirs);
            let result = timed(|| match &observers {
                (None, None) => run_on_threads(&mut network, threads.unwrap_or_else(cores)),
                _ => network.observed_by(&mut observers).run(),
            })?;
            let kept = observers.0.map(Recorder::finish).transpose().map_err(|TooLong| FailureReason::Series(most))?;
            Ok(PyRun {
                result,
                text: None,
                series: kept.map_or(SeriesLocation::Nowhere, |kept| SeriesLocation::Here(kept.tables())),
            })
        };
        match ends {
            None => py.detach(|| watched(&stop, work))?,
            // This thread calls the Python classes, where Python raises KeyboardInterrupt on Ctrl-C.
            Some(ends) => {
                let run = py.detach(work);
                ends.raised().map_or(run, |e| Err(e.into()))
            }
        }
    }
}

impl PyRun {
    /// Runs the scenario and writes its results into a folder; series are read from there, with at most `most` bytes.
    pub(crate) fn save(
        py: Python<'_>,
        scenario: &Arc<Scenario>,
        (replica, limits, cc): (u32, RunLimits, Vec<(String, Py<PyAny>)>),
        (folder, most): (&Path, u64),
        settings: &OutputSettings,
    ) -> Result<Self, FailureReason> {
        let stop = Arc::new(AtomicBool::new(false));
        // An exception stops the run, which then leaves no results.
        let ends = ExceptionObserver::of_sweep(Arc::clone(&stop));
        let in_python = !cc.is_empty();
        let mut scenario = Scenario::clone(scenario);
        bind_to(&mut scenario, cc, &ends);
        let scenario = Arc::new(scenario);
        let options = RunOptions { replica, limits, stop: Some(Arc::clone(&stop)), ..RunOptions::default() };
        let work = || run_to_folder(&scenario, options, folder, settings);
        let done = if in_python { py.detach(work) } else { py.detach(|| watched(&stop, work))? };
        if let Some(e) = ends.raised() {
            return Err(e.into());
        }
        done.map_err(|e| match e {
            OutputError::Network(e) => e.into(),
            OutputError::Exceeded(e) => e.into(),
            e => FailureReason::from(e),
        })?;
        PyRun::read(folder, most)
    }
}

/// Runs `work` in another thread while this thread polls for Ctrl-C. Python handles signals only in its main thread.
pub(crate) fn watched<T: Send>(stop: &AtomicBool, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    thread::scope(|scope| {
        let (ended, end) = mpsc::channel::<()>();
        let worker = scope.spawn(move || {
            let _ended = ended; // dropped at the end, also after a panic
            work()
        });
        while end.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if let Err(e) = Python::attach(|py| py.check_signals()) {
                stop.store(true, Ordering::Relaxed);
                let _ = worker.join();
                return Err(e);
            }
        }
        worker.join().map_or_else(|panic| resume_unwind(panic), Ok)
    })
}

const LOOK: Duration = Duration::from_millis(100);

#[pymethods]
impl PyRun {
    /// Creates a run from the output of `json` and its series.
    #[staticmethod]
    fn from_json(json: String, series: Option<Vec<(String, PyRef<'_, PyTable>)>>) -> PyResult<Self> {
        let result =
            serde_json::from_str(&json).map_err(|e| PyValueError::new_err(format!("invalid result of a run: {e}")))?;
        let series = series.map_or(SeriesLocation::Nowhere, |tables| {
            let named = |(name, table): (String, PyRef<'_, PyTable>)| Some((named(&name)?, table.clone()));
            SeriesLocation::Here(tables.into_iter().filter_map(named).collect())
        });
        Ok(PyRun { result, text: Some(json), series })
    }

    /// Returns the object that `roughlink run --json` prints.
    fn json(&self) -> String {
        let made = || serde_json::to_string(&self.result).expect("results have a JSON form");
        self.text.clone().unwrap_or_else(made)
    }

    /// Returns the table of flows.
    fn flows(&self) -> PyTable {
        flows(&self.result.flows)
    }

    /// Returns the table of link directions with their counters.
    fn links(&self) -> PyTable {
        let both = self.result.links.iter().flat_map(|link| [(link, "forward"), (link, "reverse")]);
        let each: Vec<(&str, &str, &DirectionResult)> = both
            .map(|(link, way)| (&*link.name, way, if way == "forward" { &link.forward } else { &link.reverse }))
            .collect();
        let count = |name: &'static str, get: fn(&DirectionResult) -> u64| {
            measured(name, integers(each.iter().map(|(_, _, d)| get(d))))
        };
        let delay = |name: &'static str, get: fn(&RttResult) -> f64| {
            measured(name, reals(each.iter().map(|l| l.2.queue_delay_ms.as_ref().map(get))))
        };
        PyTable::from_columns(vec![
            PyColumn {
                name: "link",
                unit: "",
                meaning: "name of the link",
                values: words(each.iter().map(|l| Some(l.0))),
            },
            PyColumn {
                name: "direction",
                unit: "",
                meaning: "forward, from the first node of `between` to the second, or reverse",
                values: words(each.iter().map(|l| Some(l.1))),
            },
            count("packets", |d| d.packets),
            PyColumn { unit: "B", meaning: "bytes of the packets", ..count("bytes", |d| d.bytes) },
            count("dropped", |d| d.dropped),
            count("lost", |d| d.lost),
            measured("loss", reals(each.iter().map(|l| l.2.loss))),
            measured("queue_mean_pkt", reals(each.iter().map(|l| Some(l.2.queue_mean_pkt)))),
            count("queue_max_pkt", |d| u64::from(d.queue_max_pkt)),
            delay("queue_delay_p50_ms", |d| d.p50),
            delay("queue_delay_p95_ms", |d| d.p95),
            delay("queue_delay_p99_ms", |d| d.p99),
        ])
    }

    /// Returns a series, or `None` if the run did not keep it.
    fn series(&self, py: Python<'_>, name: &str) -> PyResult<Option<PyTable>> {
        py.detach(|| guarded(|| named(name).map_or(Ok(None), |series| self.table(series))))
    }

    /// Returns the result folder that has the series; `None` if they are in memory or were not kept.
    #[getter]
    fn folder(&self) -> Option<PathBuf> {
        match &self.series {
            SeriesLocation::There(folder, _) => Some(folder.clone()),
            _ => None,
        }
    }

    /// Returns the name of each series with the names of its columns.
    #[staticmethod]
    fn series_columns() -> Vec<(&'static str, Vec<&'static str>)> {
        Series::ALL.map(|series| (series.name(), series.fields().iter().map(|f| f.name).collect())).to_vec()
    }
}

fn named(name: &str) -> Option<Series> {
    Series::ALL.into_iter().find(|series| series.name() == name)
}

fn flows(all: &[FlowResult]) -> PyTable {
    let count = |name: &'static str, get: fn(&FlowResult) -> u64| measured(name, integers(all.iter().map(get)));
    let rtt = |name: &'static str, get: fn(&RttResult) -> f64| {
        measured(name, reals(all.iter().map(|f| f.rtt_ms.as_ref().map(get))))
    };
    let delay = |name: &'static str, get: fn(&RttResult) -> f64| {
        measured(name, reals(all.iter().map(|f| f.delay_ms.as_ref().map(get))))
    };
    let word = |name, meaning, get: fn(&FlowResult) -> Option<&str>| PyColumn {
        name,
        unit: "",
        meaning,
        values: words(all.iter().map(get)),
    };
    let time = |name, meaning, get: fn(&FlowResult) -> Option<f64>| PyColumn {
        name,
        unit: "s",
        meaning,
        values: reals(all.iter().map(get)),
    };
    let flag = |name, meaning, get: fn(&FlowResult) -> bool| PyColumn {
        name,
        unit: "",
        meaning,
        values: flags(all.iter().map(get)),
    };
    PyTable::from_columns(vec![
        word("flow", "name of the flow", |f| Some(&f.name)),
        word("kind", "kind of traffic, as in scenario files", |f| Some(&f.kind)),
        word("cc", "congestion control; null for datagram flows", |f| f.cc.as_deref()),
        time("start_s", "start of the flow", |f| Some(f.start_s)),
        time("end_s", "arrival of the last byte; null if the flow did not complete", |f| f.end_s),
        flag("completed", "all bytes arrived (bulk) or left (cbr)", |f| f.completed),
        flag("failed", "the connection gave up after too long a time without an answer, or was reset", |f| f.failed),
        time("failed_s", "time of the failure; null if the flow did not fail", |f| f.failed_s),
        count("delivered_bytes", |f| f.delivered_bytes),
        measured("throughput_mbps", reals(all.iter().map(|f| f.throughput_mbps))),
        count("segments", |f| f.segments),
        count("retransmits", |f| f.retransmits),
        count("fast_recoveries", |f| f.fast_recoveries),
        count("timeouts", |f| f.timeouts),
        count("undos", |f| f.undos),
        rtt("rtt_min_ms", |r| r.min),
        rtt("rtt_mean_ms", |r| r.mean),
        rtt("rtt_p50_ms", |r| r.p50),
        rtt("rtt_p95_ms", |r| r.p95),
        rtt("rtt_p99_ms", |r| r.p99),
        PyColumn { unit: "ms", meaning: "largest RTT", ..rtt("rtt_max_ms", |r| r.max) },
        delay("delay_p50_ms", |d| d.p50),
        delay("delay_p95_ms", |d| d.p95),
        delay("delay_p99_ms", |d| d.p99),
    ])
}

/// Creates a column with the unit and meaning that the lab defines for a quantity.
fn measured(name: &'static str, values: arrow_array::ArrayRef) -> PyColumn<'static> {
    let (unit, meaning) = match QUANTITIES.iter().find(|quantity| quantity.name == name) {
        Some(quantity) => (quantity.unit, if quantity.help.is_empty() { quantity.label } else { quantity.help }),
        None => ("", ""),
    };
    PyColumn { name, unit, meaning, values }
}
