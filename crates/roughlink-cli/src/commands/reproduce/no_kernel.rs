//! `--stack kernel`, in a program that was built without the algorithms for the kernel.

use crate::args::GridArgs;
use crate::commands::kernel::refused;
use crate::failure::Failure;
use roughlink_lab::experiment::ExperimentPlan;
use roughlink_lab::store::Store;

/// Never created: there are no kernel algorithms.
pub(super) enum KernelRunner {}

impl KernelRunner {
    pub(super) fn new(_: &[&ExperimentPlan], _: &Store) -> Result<Self, Failure> {
        refused().map(|()| unreachable!("it is an error"))
    }

    pub(super) fn work(&self, _: &[&ExperimentPlan], _: &mut Store, _: &GridArgs) -> Result<(), Failure> {
        match *self {}
    }
}
