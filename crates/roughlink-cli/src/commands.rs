//! The commands.

#[cfg(target_os = "linux")]
pub(crate) mod agent;
pub(crate) mod cc;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod doctor;
#[cfg(target_os = "linux")]
pub(crate) mod emulate;
#[cfg(not(target_os = "linux"))]
#[path = "commands/no_emulation.rs"]
pub(crate) mod emulate;
pub(crate) mod gateway;
#[cfg(all(feature = "kernel", target_os = "linux"))]
pub(crate) mod kernel;
#[cfg(not(all(feature = "kernel", target_os = "linux")))]
#[path = "commands/no_kernel.rs"]
pub(crate) mod kernel;
mod leftovers;
pub(crate) mod man;
pub(crate) mod merge;
pub(crate) mod metric;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod scenario;
pub(crate) mod sweep;

use crate::args::{self, SchemaOf};
use crate::command_line::{typed_words, whole_command};
use crate::failure::{Failure, print, print_json, print_stderr, warn};
use crate::progress::work;
use roughlink_lab::error::LabError;
use roughlink_lab::experiment::grid::Grid;
use roughlink_lab::experiment::result::{self, ExperimentResult};
use roughlink_lab::experiment::{ExperimentPlan, split};
use roughlink_lab::folder::{self, FolderContent};
use roughlink_lab::library::Overrides;
use roughlink_lab::part::{self, GridPart};
use roughlink_lab::report;
use roughlink_lab::store::{self, Store, folder_of};
use roughlink_scenario::{MAX_SHOWN, schema as scenario_schema};
use std::path::Path;

pub(crate) fn schema(args: &args::Schema) -> Result<(), Failure> {
    match args.of {
        SchemaOf::Scenario => print_json(&scenario_schema()),
        SchemaOf::Results => print_json(&result::schema()),
    }
}

fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("plain data") + "\n"
}

/// Runs a plan in the given folder, or in a default folder for this plan, and stores its results there.
fn grid(plan: &ExperimentPlan, grid: &args::GridArgs, name: &str) -> Result<ExperimentResult, Failure> {
    let quiet = grid.form.quiet;
    let base = Path::new("results").join(name);
    let mut store = opened(plan, grid, &base)?;
    let mut description = part::describe(plan, &store)?;
    let done = work(plan.planned_jobs(), &mut store, grid);
    let described = description.renew(plan, &store);
    done?;
    described?;
    let (result, report, ()) = folder::finish(plan, &store, REVISION, drop)?;
    reported(&report, quiet);
    if grid.output.is_none() && !quiet {
        let folder = store.folder();
        let others = if folder == base {
            String::new()
        } else {
            format!("; {} has results of another experiment", base.display())
        };
        print_stderr(&format!("results: {}{others}; choose another folder with -o DIR", folder.display()));
    }
    Ok(result)
}

/// Prints a plan's warnings, and opens the store for its runs in the given folder, or in a folder at `base`.
fn opened(plan: &ExperimentPlan, grid: &args::GridArgs, base: &Path) -> Result<Store, LabError> {
    warn_of(plan, grid.form.quiet);
    let identity = plan.identity();
    let folder = grid.output.clone().unwrap_or_else(|| folder_of(base, &identity));
    part::open(plan, &folder)
}

/// Executes the runs of a part of a plan in the given folder, or in a default folder for this part.
fn part(plan: &ExperimentPlan, part: GridPart, grid: &args::GridArgs, name: &str) -> Result<(), Failure> {
    let base = Path::new("results").join(format!("{name}-{}", part.suffix()));
    let mut store = opened(plan, grid, &base)?;
    let mut description = part.describe(plan, &store)?;
    let numbers = part.numbers(plan.runs());
    let runs = numbers.len();
    let done = work(plan.planned_jobs_at(numbers), &mut store, grid);
    let described = description.renew(plan, &store);
    done?;
    described?;
    let folder = store.folder();
    if grid.form.json {
        let folder = folder.display().to_string();
        return print_json(&serde_json::json!({ "folder": folder, "runs": runs, "runs_of_all": plan.runs() }));
    }
    let all = plan.runs();
    print(&format!("{runs} of {all} runs are in {}; merge the parts with `roughlink merge`\n", folder.display()))
}

fn reported(report: &Path, quiet: bool) {
    if !quiet {
        print_stderr(&format!("report: {}", report.display()));
    }
}

/// Returns the settings that `sweep` and `compare` share.
fn settings(grid: &args::GridArgs, set: Overrides, replicas: u32, metrics: &[String]) -> Grid {
    Grid {
        set,
        seed: grid.seed,
        replicas,
        metrics: metrics.iter().flat_map(|names| split(names)).collect(),
        command: whole_command(typed_words()),
        most_runs: grid.max_runs,
        on_kernel: false,
    }
}

fn warn_of(plan: &ExperimentPlan, quiet: bool) {
    for (name, text, warning) in plan.warnings.iter().filter(|_| !quiet).take(MAX_SHOWN) {
        warn(name, text, std::slice::from_ref(warning));
    }
    if plan.warnings.len() > MAX_SHOWN && !quiet {
        print_stderr(&format!("and {} more warnings", plan.warnings.len() - MAX_SHOWN));
    }
}

/// The revision of the source; see `build.rs`.
const REVISION: &str = env!("ROUGHLINK_REVISION");

pub(crate) fn report(args: &args::ReportArgs) -> Result<(), Failure> {
    let content = folder::read(&args.folder)?;
    let path = args.output.clone().unwrap_or_else(|| args.folder.join(store::REPORT));
    let written = match &content {
        FolderContent::Grid(input) => report::write(&path, input),
        FolderContent::Run(run) => report::write_run(&path, run),
    };
    written.map_err(|source| LabError::Write { path: path.clone(), source })?;
    print(&format!("{}\n", path.display()))
}
