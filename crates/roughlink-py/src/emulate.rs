//! Emulations in this process, for flows whose algorithms are Python classes. The program `roughlink` runs all other
//! emulations.

use crate::cc::{ExceptionObserver, bind};
use crate::error::{FailureReason, guarded};
use crate::run::PyRun;
use crate::scenario::{PyScenario, limits_of};
use pyo3::prelude::*;
use roughlink_core::scenario::Scenario;
use roughlink_core::units::Time;
use roughlink_host::{EmulatedHost, Emulation, EmulationSettings, HostError, NodeLocation, Running, is_allowed};
use roughlink_lab::error::LabError;
use std::sync::{Mutex, PoisonError};

/// Emulation in progress, in a separate thread.
#[pyclass(frozen, name = "Running", module = "roughlink._native")]
pub(crate) struct PyRunning(Mutex<Option<Running<ExceptionObserver>>>);

#[pymethods]
impl PyRunning {
    /// Starts an emulation of the kernel nodes of a scenario. `cc` has the Python algorithms by name.
    #[new]
    fn new(py: Python<'_>, scenario: &PyScenario, replica: u32, cc: Vec<(String, Py<PyAny>)>) -> PyResult<Self> {
        guarded(|| {
            if !is_allowed() {
                return Err(LabError::Machine {
                    message: "an emulation with a Python algorithm needs root".into(),
                    help: Some("run the command with sudo"),
                }
                .into());
            }
            let mut scenario = Scenario::clone(&scenario.scenario);
            let ends = bind(&mut scenario, cc);
            py.detach(|| {
                let host = |node| EmulatedHost { node, place: NodeLocation::Own };
                let hosts: Vec<EmulatedHost> = scenario.kernels().map(host).collect();
                let settings = EmulationSettings { replica, limits: limits_of(None), ..EmulationSettings::default() };
                let emulation = Emulation::open(scenario, &hosts, &settings).map_err(failed)?;
                Ok(PyRunning(Mutex::new(Some(emulation.start(ends)))))
            })
        })
    }

    /// Returns true if the emulation has ended, even without a call of `finish`.
    fn is_over(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_none_or(Running::is_over)
    }

    /// Returns the number of TCP bytes from ended programs that are not acknowledged yet.
    fn undelivered(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, Running::undelivered)
    }

    /// Ends the emulation. Returns the results, and messages about lateness of more than `most_late` s.
    fn finish(&self, py: Python<'_>, most_late: f64) -> PyResult<(PyRun, Vec<String>)> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let running = running.expect("an emulation ends once");
        py.detach(|| {
            guarded(|| {
                let (outcome, ends) = running.finish();
                if let Some(e) = ends.raised() {
                    return Err(FailureReason::Python(e));
                }
                let faults = outcome.faults(Time::from_secs_f64(most_late));
                Ok((PyRun::from_result(outcome.result), faults))
            })
        })
    }
}

fn failed(e: HostError) -> FailureReason {
    match e {
        HostError::Network(e) => e.into(),
        e => LabError::Machine { message: e.with_cause(), help: e.help() }.into(),
    }
}
