//! `--stack kernel`, in a program that was built without the algorithms for the kernel.

use crate::args::Grid;
use crate::commands::kernel::refused;
use crate::failure::Failure;
use roughlink_lab::experiment::Plan;
use roughlink_lab::store::Store;

pub(super) fn work(_: &[&Plan], _: &mut Store, _: &Grid) -> Result<(), Failure> {
    refused()
}
