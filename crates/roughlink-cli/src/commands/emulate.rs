//! `roughlink emulate`, `link` and `shell`: real programs behind the links of a scenario.
//!
//! | module | contents |
//! |---|---|
//! | `plan` | arguments of an emulation: real nodes, programs, warnings and notes for users |
//! | `link` | scenario of one link |
//! | `running` | execution of a plan |
//! | `folder`, `recorder`, `series` | content of the files written during the emulation |
//! | `result` | result: JSON, text for users, exit code |

mod folder;
mod link;
mod plan;
mod recorder;
mod result;
mod running;
mod series;

use super::run::source;
use crate::args::{Emulate, ShellAt};
use crate::failure::Failure;
use crate::signals::on_stop;
use plan::{EmulationPlan, programs, quoted};
use roughlink_host::{HostError, Launcher, Output, Program, directories};
use roughlink_lab::error::LabError;
use roughlink_lab::nearest;
use running::run;
pub(crate) use running::time;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

pub(crate) use link::link;

/// Internal command by which this program calls itself between an emulation and its programs.
pub(crate) const INSIDE: &str = "__inside";

/// Executes the internal command [`INSIDE`] if the command line has it.
pub(crate) fn inside() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let hidden = words.next().filter(|word| word == INSIDE)?;
    Some(roughlink_host::inside::main(&hidden, &words.collect::<Vec<_>>()))
}

/// Returns name, reason for absence and purpose of each feature that emulations and gateways need.
pub(crate) fn abilities() -> Vec<(&'static str, Option<String>, String)> {
    let all = roughlink_host::abilities(&Launcher::new(INSIDE));
    all.into_iter().map(|a| (a.name, a.missing, format!("{}: {}", a.commands.join(", "), a.what_for))).collect()
}

pub(crate) fn emulate(args: &Emulate) -> Result<(), Failure> {
    let source = source(&args.scenario)?.allow_outside(args.reading.allow_outside);
    let mut overrides = args.set.overrides()?;
    overrides.extend(args.lasts.iter().map(|time| ("duration".into(), time.clone())));
    overrides.extend(args.layer.iter().map(|layer| ("node.*.layer".into(), layer.clone())));
    for joined in &args.interface {
        let (node, device) = joined.split_once('=').ok_or_else(|| LabError::Usage {
            message: format!("--interface {joined}: expected a node and a device"),
            help: "write NODE=DEVICE, such as --interface car=eth1".into(),
        })?;
        overrides.push((format!("node.{}.interface", quoted(node)), device.to_owned()));
    }
    let programs = args.exec.as_ref().map_or(Ok(Vec::new()), |node| programs(node, &args.command))?;
    if let Some(until) = args.until.as_deref().filter(|until| programs.iter().all(|(node, _)| node != until)) {
        let nodes = programs.iter().map(|(node, _)| node.as_str());
        return Err(LabError::Usage {
            message: format!("--until {until}: no program was given for this node"),
            help: nearest::suggest(until, "expected", nodes),
        }
        .into());
    }
    run(EmulationPlan {
        source,
        overrides,
        kernels: args.kernel.clone(),
        here: args.here.as_deref(),
        carrier: args.carrier,
        claim: None,
        programs,
        until: args.until.as_deref(),
        capture: args.capture.as_deref(),
        output: args.output.as_deref(),
        captures: !args.no_capture,
        real: &args.real,
        limits: args.memory.limits(),
        nested: false,
        json: args.form.json,
        quiet: args.form.quiet,
        prints_result: true,
    })
}

pub(crate) fn shell(args: &ShellAt) -> Result<(), Failure> {
    let all = directories();
    let chosen = |process: u32| args.process.is_none_or(|p| p == process);
    let places: Vec<_> = all
        .iter()
        .filter(|d| chosen(d.process))
        .flat_map(|d| d.nodes.iter().filter(|node| node.is_real()).map(move |node| (d, &*node.name)))
        .collect();
    let found: Vec<_> = places.iter().filter(|(_, node)| *node == args.node).collect();
    let [(directory, _)] = found[..] else {
        if let Some((directory, _)) = found.first() {
            return Err(LabError::Usage {
                message: format!("several emulations have a node `{}`", args.node),
                help: format!("choose one of them, such as --process {}", directory.process),
            }
            .into());
        }
        let help = if places.is_empty() {
            "start an emulation; to enter that of another user, run sudo -u USER roughlink shell".into()
        } else {
            nearest::suggest(&args.node, "expected", places.iter().map(|(_, node)| *node))
        };
        return Err(LabError::NotFound { what: "kernel node", name: args.node.clone(), help }.into());
    };
    let words = if args.command.is_empty() {
        vec![std::env::var_os("SHELL").unwrap_or_else(|| "sh".into())]
    } else {
        args.command.clone()
    };
    let told = on_stop(|| {});
    let place = (args.node.as_str(), directory.file.as_path());
    let mut program =
        Program::start(&Launcher::new(INSIDE), place, &words, Output::Ours, [None, None]).map_err(failure)?;
    match program.wait(told) {
        0 => Ok(()),
        _ if told.load(Ordering::Relaxed) => Err(Failure::Interrupted("interrupted".into())),
        code => Err(Failure::Program(format!("the command failed: exit code {code}"), code)),
    }
}

pub(crate) fn failure(e: HostError) -> Failure {
    match e {
        HostError::Network(e) => e.into(),
        HostError::NoInterface { name, there } => {
            let help = nearest::suggest(&name, "expected", there.iter().map(String::as_str));
            LabError::NotFound { what: "network device", name, help }.into()
        }
        e => Failure::Machine(e.with_cause(), e.help()),
    }
}
