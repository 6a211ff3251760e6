//! `roughlink cc` for the kernel, in a program that was built without its algorithms.

use crate::args::ListArgs;
use crate::args::cc::{CcList, CoverageArgs, LoadArgs, Stat, Unload};
use crate::failure::Failure;

pub(crate) fn list(_: &CcList) -> Result<(), Failure> {
    refused()
}

pub(crate) fn check(_: &ListArgs) -> Result<(), Failure> {
    refused()
}

pub(crate) fn load(_: &LoadArgs) -> Result<(), Failure> {
    refused()
}

pub(crate) fn unload(_: &Unload) -> Result<(), Failure> {
    refused()
}

pub(crate) fn coverage(_: &CoverageArgs) -> Result<(), Failure> {
    refused()
}

pub(crate) fn stat(_: &Stat) -> Result<(), Failure> {
    refused()
}

pub(crate) fn refused() -> Result<(), Failure> {
    let message = "this build lacks the algorithms for the Linux kernel (feature `kernel`)".to_owned();
    Err(Failure::Machine(
        message,
        Some("build roughlink with `make kernel`, which needs clang, libelf-dev and zlib1g-dev"),
    ))
}
