//! `roughlink cc` for the kernel, in a program that was built without its algorithms.

use crate::args::ListArgs;
use crate::args::cc::{CcList, CoverageArgs, LoadArgs, Stat, Unload};
use crate::failure::Failure;
use roughlink_lab::kernel::unsupported;

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

/// Coverage state of an algorithm in the kernel. No value exists without these algorithms.
#[derive(Debug)]
pub(crate) enum NoCoverageSwitch {}

pub(crate) use NoCoverageSwitch as CoverageSwitch;

impl NoCoverageSwitch {
    pub(crate) fn new(_: &str) -> Result<Self, Failure> {
        Err(unsupported().into())
    }

    pub(crate) fn set(&self, _: bool) -> Result<(), Failure> {
        match *self {}
    }
}

fn refused() -> Result<(), Failure> {
    Err(unsupported().into())
}
