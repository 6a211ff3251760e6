//! `roughlink emulate`, `link`, `shell`, `agent`, and `gateway` on real packets, on systems other than Linux.

use crate::args::agent::AgentArgs;
use crate::args::gateway::{GatewayRun, GatewayStat};
use crate::args::link::LinkArgs;
use crate::args::{Emulate, ListArgs, ShellAt};
use crate::failure::Failure;
use roughlink_lab::error::LabError;
use std::process::ExitCode;

pub(crate) fn inside() -> Option<ExitCode> {
    None
}

pub(crate) fn abilities() -> Vec<(&'static str, Option<String>, String)> {
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

pub(crate) fn run_gateway(_: &GatewayRun) -> Result<(), Failure> {
    refused()
}

pub(crate) fn agent(_: &AgentArgs) -> Result<(), Failure> {
    refused()
}

pub(crate) fn check_gateway(_: &ListArgs) -> Result<(), Failure> {
    refused()
}

pub(crate) fn stat_gateway(_: &GatewayStat) -> Result<(), Failure> {
    refused()
}

fn refused() -> Result<(), Failure> {
    Err(LabError::Usage {
        message: "this needs the network namespaces, devices and queues of Linux".into(),
        help: "simulate the scenario with `roughlink run`".into(),
    }
    .into())
}
