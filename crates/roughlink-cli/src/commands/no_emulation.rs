//! `roughlink emulate`, `link` and `shell` on systems other than Linux.

use crate::args::link::LinkArgs;
use crate::args::{Emulate, ShellAt};
use crate::failure::Failure;
use roughlink_lab::error::LabError;
use std::process::ExitCode;

pub(crate) fn inside() -> Option<ExitCode> {
    None
}

pub(crate) fn abilities() -> Vec<(&'static str, Option<String>, &'static str)> {
    Vec::new()
}

pub(crate) fn emulate(_: &Emulate) -> Result<(), Failure> {
    refused()
}

pub(crate) fn link(_: &LinkArgs) -> Result<(), Failure> {
    refused()
}

pub(crate) fn shell(_: &ShellAt) -> Result<(), Failure> {
    refused()
}

fn refused() -> Result<(), Failure> {
    Err(LabError::Usage {
        message: "emulation needs the network namespaces and TUN devices of Linux".into(),
        help: "simulate the scenario with `roughlink run`".into(),
    }
    .into())
}
