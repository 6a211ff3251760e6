//! Python module `roughlink._native`: scenarios, runs and sweeps, and their tables as Arrow.
//!
//! This module contains only the parts that need Rust; `python/roughlink` builds the documented user interface on it.
//! Input is text as in files and on the command line. Results are the JSON of the command line and Arrow tables (the
//! Arrow PyCapsule interface), which other libraries use without copying.
//!
//! | module | contents |
//! |---|---|
//! | `cc`, `view` | congestion controls that are Python classes, and their arguments |
//! | `env` | networks that stop for decisions from outside |
//! | `error` | exceptions with the text of the command line, also for panics |
//! | `scenario` | a scenario: read, changed, described |
//! | `run` | one run, which Ctrl-C ends |
//! | `grid` | sweeps with the run store of the command line |
//! | `part` | sweeps in other processes, perhaps on other machines |
//! | `table` | columns with units |

mod cc;
#[cfg(target_os = "linux")]
mod emulate;
mod env;
mod error;
mod grid;
mod part;
mod run;
mod scenario;
mod table;
mod view;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::cc::{algorithms, register};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::emulate::PyRunning;
    #[pymodule_export]
    use crate::env::{Batch, exp2};
    #[pymodule_export]
    use crate::error::{Fault, LimitError, RoughlinkError, ScenarioError};
    #[pymodule_export]
    use crate::grid::{
        PyPlan, cell_interval, choices, difference, identity, interval, measure, merge, metrics, quantile, read, rows,
        stored_run, student, sweep, values,
    };
    #[pymodule_export]
    use crate::part::{Work, WorkerShare};
    #[pymodule_export]
    use crate::run::PyRun;
    #[pymodule_export]
    use crate::scenario::{PyScenario, names, quantity, schema, split_list};
    #[pymodule_export]
    use crate::table::PyTable;
    #[pymodule_export]
    use crate::view::{AckView, CongestionCause, FlowView, LinkEventView, RateView, SentView};

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let invalid = module.py().get_type::<crate::error::ScenarioError>();
        for attribute in ["key", "line", "help"] {
            invalid.setattr(attribute, module.py().None())?;
        }
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("engine", roughlink_lab::runner::ENGINE)
    }
}
