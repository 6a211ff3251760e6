//! Runs whose transfers this machine's kernel carries. Such runs need the feature `kernel`, Linux and root.

#[cfg(all(feature = "kernel", target_os = "linux"))]
mod carrier;
#[cfg(all(feature = "kernel", target_os = "linux"))]
mod error;

use crate::error::LabError;
use crate::experiment::ExperimentPlan;
use crate::runner::{Failed, Job, Stop, simulate};
use crate::store::{RunRecord, Store};

/// Boxed [`runner::Executor`](crate::runner::Executor) that owns its state.
pub type OwnedExecutor = Box<dyn Fn(&Job, Stop<'_>) -> Result<RunRecord, Failed> + Sync>;

/// Returns an executor for simulated runs and for the kernel runs of `plans` that the store lacks. Kernel runs
/// ([`ExperimentPlan::is_on_kernel`]) are in real time: execute all simulated runs first.
///
/// # Errors
/// Returns an error if runs are planned for the kernel and this build or this machine cannot execute them.
pub fn executor(plans: &[&ExperimentPlan], store: &Store) -> Result<OwnedExecutor, LabError> {
    let on_kernel: Vec<&ExperimentPlan> = plans.iter().copied().filter(|plan| plan.is_on_kernel()).collect();
    match on_kernel.is_empty() {
        true => Ok(Box::new(simulate)),
        false => carrying(&on_kernel, store),
    }
}

#[cfg(all(feature = "kernel", target_os = "linux"))]
fn carrying(plans: &[&ExperimentPlan], store: &Store) -> Result<OwnedExecutor, LabError> {
    let carrier = carrier::KernelCarrier::new(plans, store)?;
    Ok(Box::new(move |job, stop| if job.real_time { carrier.carry(job, stop) } else { simulate(job, stop) }))
}

#[cfg(not(all(feature = "kernel", target_os = "linux")))]
fn carrying(_: &[&ExperimentPlan], _: &Store) -> Result<OwnedExecutor, LabError> {
    Err(unsupported())
}

/// Returns the error of a build without the feature `kernel`.
pub fn unsupported() -> LabError {
    LabError::Machine {
        message: "this build lacks the algorithms for the Linux kernel (feature `kernel`)".into(),
        help: Some("build roughlink with `make kernel`, which needs clang, libelf-dev and zlib1g-dev"),
    }
}
