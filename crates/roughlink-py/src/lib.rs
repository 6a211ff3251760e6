//! The Python module `roughlink._native`: scenarios, runs and sweeps, and their tables as Arrow.
//!
//! It has what needs Rust and nothing else; `python/roughlink` makes of it what people use, with its documentation. Text comes
//! in as it stands in files and on the command line, results go out as the JSON of the command line and as Arrow tables
//! (the Arrow PyCapsule interface), which other libraries take without copying them.
//!
//! | module | contents |
//! |---|---|
//! | `cc`, `view` | congestion controls that are Python classes, and what they are shown |
//! | `env` | networks that stop for decisions from outside |
//! | `error` | exceptions with the text of the command line; a fault of ours is one, too, and no panic |
//! | `scenario` | a scenario: read, changed, described |
//! | `run` | one run, which Ctrl-C ends |
//! | `grid` | sweeps with the run store of the command line |
//! | `part` | sweeps that other processes do, perhaps on other machines |
//! | `table` | columns with units |

mod cc;
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
    use crate::cc::register;
    #[pymodule_export]
    use crate::env::{Batch, exp2};
    #[pymodule_export]
    use crate::error::{Fault, LimitError, RoughlinkError, ScenarioError};
    #[pymodule_export]
    use crate::grid::{Plan, choices, difference, interval, read, student95, sweep};
    #[pymodule_export]
    use crate::part::{Share, Work};
    #[pymodule_export]
    use crate::run::Run;
    #[pymodule_export]
    use crate::scenario::{Scenario, names, schema};
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::view::{AckView, Cause, FlowView, LinkEventView, RateView, SentView};

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("engine", roughlink_lab::runner::ENGINE)
    }
}
