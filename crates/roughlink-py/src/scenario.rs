//! Scenarios.

use crate::error::{FailureReason, guarded, usage};
use crate::run::{PyRun, Wanted};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use roughlink_core::app::Traffic;
use roughlink_core::net::RunLimits;
use roughlink_core::scenario::Scenario;
use roughlink_core::units::{Bytes, Packets, Rate, Share, Time};
use roughlink_lab::drawing::{self, MessageStyle};
use roughlink_lab::library::{self, Overrides, Parsed, ScenarioFolder, ScenarioText, Texts};
use roughlink_lab::output::{CaptureSettings, OutputSettings};
use roughlink_lab::runner::ENGINE;
use roughlink_scenario::Warning;
use std::path::PathBuf;
use std::sync::Arc;

/// A scenario that was read and is valid.
#[pyclass(frozen, name = "Scenario", module = "roughlink._native")]
#[derive(Clone)]
pub(crate) struct PyScenario {
    pub(crate) source: ScenarioText,
    pub(crate) overrides: Overrides,
    pub(crate) scenario: Arc<Scenario>,
    warnings: Vec<Warning>,
    /// Files that the scenario reads.
    files: Texts,
}

impl PyScenario {
    /// Wraps a scenario that was read before. `files` has the texts of the files that it reads.
    pub(crate) fn stored(scenario: Arc<Scenario>, files: Texts) -> Self {
        let folder = ScenarioFolder { given: files.clone(), ..ScenarioFolder::default() };
        let (name, text) = (scenario.name.clone(), scenario.source.clone());
        let source = ScenarioText { name, text, folder: Some(folder) };
        PyScenario { source, overrides: Vec::new(), scenario, warnings: Vec::new(), files }
    }

    fn new(source: ScenarioText, overrides: Overrides) -> Result<Self, FailureReason> {
        let Parsed { scenario, warnings, files, .. } = source.parse(&overrides)?;
        Ok(PyScenario { source, overrides, scenario: Arc::new(scenario), warnings, files })
    }
}

#[pymethods]
impl PyScenario {
    /// Reads a file or a built-in scenario.
    #[staticmethod]
    fn read(name: &str, allow_outside: bool) -> PyResult<Self> {
        guarded(|| PyScenario::new(ScenarioText::scenario(name)?.allow_outside(allow_outside), Vec::new()))
    }

    /// Reads a scenario from text, which may refer to files in `folder`. Texts in `given` replace files of that folder.
    #[staticmethod]
    #[pyo3(signature = (text, name, folder, allow_outside, overrides, given=None))]
    fn from_text(
        text: String,
        name: String,
        folder: Option<PathBuf>,
        allow_outside: bool,
        overrides: Overrides,
        given: Option<Texts>,
    ) -> PyResult<Self> {
        let given = given.unwrap_or_default();
        let folder = match folder {
            Some(path) => Some(ScenarioFolder { given, ..ScenarioFolder::new(path) }),
            None if given.is_empty() => None,
            None => Some(ScenarioFolder { given, ..ScenarioFolder::default() }),
        };
        guarded(|| PyScenario::new(ScenarioText { name, text, folder }.allow_outside(allow_outside), overrides))
    }

    /// Reads a scenario from a JSON object of its keys.
    #[staticmethod]
    fn from_json(json: &str, name: String, folder: Option<PathBuf>) -> PyResult<Self> {
        guarded(|| {
            let table: serde_json::Value = serde_json::from_str(json).map_err(|e| usage(&e, "pass JSON"))?;
            let text = toml::to_string(&table).map_err(|e| usage(&e, "leave out keys whose value is None"))?;
            PyScenario::new(ScenarioText { name, text, folder: folder.map(ScenarioFolder::new) }, Vec::new())
        })
    }

    /// Returns a copy with some keys changed, as by `--set KEY=VALUE`.
    fn set(&self, pairs: Overrides) -> PyResult<Self> {
        let overrides = self.overrides.iter().cloned().chain(pairs).collect();
        guarded(|| PyScenario::new(self.source.clone(), overrides))
    }

    /// Returns the value of a key as JSON: the written value, or else the value in effect; `None` if there is neither.
    fn get(&self, key: &str) -> PyResult<Option<String>> {
        let found = roughlink_scenario::value(&self.scenario, key).map_err(|problem| {
            let help = problem.help.map_or_else(String::new, |help| format!(": {help}"));
            PyKeyError::new_err(format!("{}{help}", problem.message))
        })?;
        Ok(found.map(|value| serde_json::to_string(&value).expect("a value has a JSON form")))
    }

    /// Returns the arguments of `from_text` that recreate this scenario, even without its folder.
    fn parts(&self) -> (String, String, Option<PathBuf>, bool, Overrides, Texts) {
        let ScenarioText { name, text, folder } = self.source.clone();
        let outside = folder.as_ref().is_some_and(|folder| folder.allow_outside);
        let files = if folder.is_some() { self.files.clone() } else { Texts::new() };
        (text, name, folder.and_then(|folder| folder.path), outside, self.overrides.clone(), files)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.scenario.name
    }

    /// Returns the scenario as TOML with all overrides applied.
    #[getter]
    fn text(&self) -> &str {
        &self.scenario.source
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.scenario.seed
    }

    #[getter]
    fn duration_s(&self) -> f64 {
        self.scenario.duration.as_secs_f64()
    }

    #[getter]
    fn nodes(&self) -> Vec<String> {
        self.scenario.nodes.iter().map(|node| node.name.clone()).collect()
    }

    #[getter]
    fn flows(&self) -> Vec<String> {
        self.scenario.flows.iter().map(|flow| flow.name.clone()).collect()
    }

    /// Returns the names of the flows that are transfers.
    #[getter]
    fn transfers(&self) -> Vec<String> {
        let transfers = self.scenario.flows.iter().filter(|flow| matches!(flow.traffic, Traffic::Bulk { .. }));
        transfers.map(|flow| flow.name.clone()).collect()
    }

    #[getter]
    fn links(&self) -> Vec<String> {
        self.scenario.links.iter().map(|link| link.name.clone()).collect()
    }

    /// Returns the congestion control of each flow; empty for datagram flows.
    #[getter]
    fn algorithms(&self) -> Vec<String> {
        self.scenario.flows.iter().map(|flow| flow.cc().map_or_else(String::new, |cc| cc.name.clone())).collect()
    }

    /// Returns warnings about input that is valid but probably a mistake, with its position.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        let of = |warning| {
            let file = (&*self.source.name, &*self.scenario.source);
            drawing::warnings(file, std::slice::from_ref(warning), MessageStyle::Plain).trim_end().to_owned()
        };
        self.warnings.iter().map(of).collect()
    }

    /// Runs the scenario. `series` has the minimum time between rows of the same flow or link direction, and the
    /// maximum memory of all series in bytes; `None` keeps no series. Changes of state always get a row. `limits` has
    /// the maximum memory in bytes and the maximum number of events. `threads` is one per core by default.
    #[pyo3(signature = (replica, series, limits, threads, cc))]
    fn run(
        &self,
        py: Python<'_>,
        replica: u32,
        series: Option<(String, u64)>,
        limits: (Option<u64>, Option<u64>),
        threads: Option<usize>,
        cc: Vec<(String, Py<PyAny>)>,
    ) -> PyResult<PyRun> {
        guarded(|| {
            let sampled = |(sample, most): (String, u64)| Ok::<_, FailureReason>((interval(&sample)?, most));
            let series = series.map(sampled).transpose()?;
            let wanted = Wanted { replica, series, limits: run_limits(limits), threads, cc };
            PyRun::new(py, &self.scenario, wanted)
        })
    }

    /// Runs the scenario and writes its results into a folder, as `roughlink run -o` does. `series` is as for `run`.
    #[expect(clippy::too_many_arguments, reason = "the arguments of a Python method")]
    fn save(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        replica: u32,
        series: (String, u64),
        limits: (Option<u64>, Option<u64>),
        cc: Vec<(String, Py<PyAny>)>,
        captures: bool,
        force: bool,
    ) -> PyResult<PyRun> {
        guarded(|| {
            let settings = OutputSettings {
                sample: interval(&series.0)?,
                capture: captures.then(CaptureSettings::default),
                force,
                revision: Some(ENGINE.into()),
                ..OutputSettings::default()
            };
            PyRun::save(py, &self.scenario, (replica, run_limits(limits), cc), (&folder, series.1), &settings)
        })
    }
}

/// Reads the minimum time between rows of a series.
fn interval(sample: &str) -> Result<Time, FailureReason> {
    sample
        .parse()
        .map_err(|e| usage(&format!("sample = {sample}: {e}"), "write a time with its unit, such as '10 ms'").into())
}

/// Returns the limits with a maximum memory in bytes and a maximum number of events.
fn run_limits((bytes, events): (Option<u64>, Option<u64>)) -> RunLimits {
    let usual = limits_of(bytes);
    RunLimits { events: events.unwrap_or(usual.events), ..usual }
}

/// Returns the limits of a run with at most this much memory in bytes.
pub(crate) fn limits_of(max_memory: Option<u64>) -> RunLimits {
    max_memory.map_or_else(RunLimits::default, |bytes| RunLimits { bytes, ..RunLimits::default() })
}

/// Returns the names of the built-in scenarios.
#[pyfunction]
pub(crate) fn names() -> Vec<String> {
    library::names("scenarios")
}

/// Returns the number of a quantity in s, bit/s, B or packets, or as a share.
#[pyfunction]
pub(crate) fn quantity(text: &str) -> PyResult<f64> {
    let plain = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
    let time = || text.parse().map(Time::as_secs_f64).ok();
    let rate = || text.parse().map(|Rate(bits)| bits as f64).ok();
    let bytes = || text.parse().map(|Bytes(bytes)| bytes as f64).ok();
    let packets = || text.parse().map(|Packets(packets)| packets as f64).ok();
    let share = || text.parse().map(|Share(share)| share).ok();
    plain.or_else(time).or_else(rate).or_else(bytes).or_else(packets).or_else(share).ok_or_else(|| {
        let help = "write a time, rate, size or percentage with its unit, such as '10 ms'";
        PyValueError::new_err(format!("`{text}` is not a quantity: {help}"))
    })
}

/// Splits a text at the commas outside brackets and quotes.
#[pyfunction]
pub(crate) fn split_list(text: &str) -> Vec<String> {
    roughlink_scenario::split_list(text).0.into_iter().map(str::to_owned).collect()
}

/// Returns the JSON Schema of scenario files.
#[pyfunction]
pub(crate) fn schema() -> String {
    roughlink_scenario::schema().to_string()
}
