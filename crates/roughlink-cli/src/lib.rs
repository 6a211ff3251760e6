//! The command line of roughlink, as a library. A program with custom algorithms or gateways adds them to the
//! registries ([`roughlink_core::cc::REGISTRY`], [`roughlink_core::gateway::REGISTRY`]) and calls [`main`]. All
//! commands are then available, with the new names in scenarios, sweeps, lists and the schema.

#![warn(unreachable_pub)]

mod advice;
mod args;
mod command_line;
mod commands;
#[cfg(target_os = "linux")]
mod connections;
mod failure;
#[cfg(target_os = "linux")]
mod live;
mod progress;
#[cfg(test)]
mod reference;
#[cfg(target_os = "linux")]
mod service;
mod show;
mod signals;
mod table;
#[cfg(target_os = "linux")]
mod unit;

use args::cc::CcCommand;
use args::gateway::GatewayCommand;
use args::{Command, MetricCommand, Roughlink, ScenarioCommand};
use clap::Parser as _;
use failure::Failure;
use std::process::ExitCode;

/// Runs the command given by the process's arguments.
pub fn main() -> ExitCode {
    std::panic::set_hook(Box::new(failure::on_panic));
    if let Some(code) = commands::emulate::inside() {
        return code;
    }
    match failure::guarded(|| run(parse().command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.exit(),
    }
}

/// Parses the command line. Prints an error with advice and exits if that fails.
fn parse() -> Roughlink {
    let words = || std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>();
    Roughlink::try_parse().unwrap_or_else(|error| advice::advise(error, &words()).exit())
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) => commands::run::run(&args),
        Command::Emulate(args) => commands::emulate::emulate(&args),
        Command::Link(args) => commands::emulate::link(&args),
        Command::Shell(args) => commands::emulate::shell(&args),
        Command::Reproduce(args) => commands::reproduce::reproduce(&args),
        Command::Sweep(args) => commands::sweep::sweep(&args),
        Command::Compare(args) => commands::compare::compare(&args),
        Command::Merge(args) => commands::merge::merge(&args),
        Command::Report(args) => commands::report(&args),
        Command::Cc(CcCommand::List(args)) if args.kernel => commands::kernel::list(&args),
        Command::Cc(CcCommand::List(args)) => commands::cc::list(&args),
        Command::Cc(CcCommand::Check(args)) => commands::kernel::check(&args),
        Command::Cc(CcCommand::Load(args)) => commands::kernel::load(&args),
        Command::Cc(CcCommand::Unload(args)) => commands::kernel::unload(&args),
        Command::Cc(CcCommand::Coverage(args)) => commands::kernel::coverage(&args),
        Command::Cc(CcCommand::Stat(args)) => commands::kernel::stat(&args),
        #[cfg(target_os = "linux")]
        Command::Agent(args) => commands::agent::agent(&args),
        #[cfg(not(target_os = "linux"))]
        Command::Agent(args) => commands::emulate::agent(&args),
        Command::Gateway(GatewayCommand::List(args)) => commands::gateway::list(&args),
        Command::Gateway(GatewayCommand::Run(args)) => commands::gateway::run(&args),
        Command::Gateway(GatewayCommand::Check(args)) => commands::gateway::check(&args),
        Command::Gateway(GatewayCommand::Stat(args)) => commands::gateway::stat(&args),
        Command::Scenario(ScenarioCommand::List(args)) => commands::scenario::list(&args),
        Command::Scenario(ScenarioCommand::Show(args)) => commands::scenario::show(&args),
        Command::Scenario(ScenarioCommand::Check(args)) => commands::scenario::check(&args),
        Command::Scenario(ScenarioCommand::Copy(args)) => commands::scenario::copy(&args),
        Command::Metric(MetricCommand::List(args)) => commands::metric::list(&args),
        Command::Schema(args) => commands::schema(&args),
        Command::Doctor(args) => commands::doctor::doctor(&args),
        Command::Completions(args) => commands::completions::completions(&args),
        Command::Man(args) => commands::man::man(&args),
    }
}
