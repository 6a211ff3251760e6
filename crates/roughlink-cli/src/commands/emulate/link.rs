//! One link, between this machine and a program or between two of its network devices.

use super::failure;
use super::plan::EmulationPlan;
use super::running::run;
use crate::args::link::LinkArgs;
use crate::failure::{Failure, print};
use roughlink_core::net::RunLimits;
use roughlink_core::scenario::NodeAddresses;
use roughlink_host::BlockReservation;
use roughlink_lab::error::LabError;
use roughlink_lab::library::ScenarioText;
use std::fmt::Write as _;

enum LinkEnds<'a> {
    /// This machine and a program, with their addresses.
    Program([NodeAddresses; 2]),
    /// The hosts behind two network devices of this machine.
    Devices([&'a str; 2]),
}

pub(crate) fn link(args: &LinkArgs) -> Result<(), Failure> {
    let mut overrides = args.set.overrides()?;
    overrides.extend(args.lasts.iter().map(|time| ("duration".into(), time.clone())));
    let (ends, claim) = match &args.between {
        Some(pair) => (LinkEnds::Devices(devices(pair, args)?), None),
        None if args.generate => (LinkEnds::Program([NodeAddresses::default(); 2]), None),
        None => {
            let claim = BlockReservation::new().map_err(failure)?;
            (LinkEnds::Program(claim.block.ends()), Some(claim))
        }
    };
    let source = ScenarioText { name: "the link".into(), text: one_link(args, &ends), folder: None };
    if args.generate {
        overrides.extend(args.real.seed.map(|seed| ("seed".into(), seed.to_string())));
        return print(&source.parse(&overrides)?.scenario.source);
    }
    let has_program = matches!(ends, LinkEnds::Program(_));
    run(EmulationPlan {
        source,
        overrides,
        kernels: Vec::new(),
        here: has_program.then_some("host"),
        carrier: false,
        claim,
        programs: if has_program { vec![("inside".into(), args.command.clone())] } else { Vec::new() },
        until: None,
        capture: None,
        output: None,
        captures: false,
        real: &args.real,
        limits: RunLimits::default(),
        nested: has_program,
        json: false,
        quiet: args.quiet,
        prints_result: !args.quiet,
    })
}

fn devices<'a>(pair: &'a str, args: &LinkArgs) -> Result<[&'a str; 2], LabError> {
    let wrong = |message: &str, help: &str| LabError::Usage { message: message.into(), help: help.into() };
    if !args.command.is_empty() {
        let help = "run the program at a host behind one of the devices; end the link after a time with --for 60s";
        return Err(wrong(&format!("--between {pair}: a link between devices runs no program"), help));
    }
    let example = "name two devices, such as --between eth1,eth2";
    match pair.split(',').map(str::trim).collect::<Vec<_>>()[..] {
        [a, b] if a == b && !a.is_empty() => {
            Err(wrong(&format!("--between {pair}: both ends are the same device"), example))
        }
        [a, b] if !a.is_empty() && !b.is_empty() => Ok([a, b]),
        _ => Err(wrong(&format!("--between {pair}: expected two devices"), example)),
    }
}

fn one_link(args: &LinkArgs, ends: &LinkEnds<'_>) -> String {
    let text = |value: &str| toml::Value::from(value).to_string();
    let (up, down) = args.rates();
    // Down is from this machine to the program.
    let (options, names, [forward, reverse]) = match ends {
        LinkEnds::Program(_) => (" --here host --exec inside -- COMMAND", ["host", "inside"], [down, up]),
        LinkEnds::Devices(devices) => ("", *devices, [up, down]),
    };
    let mut out =
        format!("# roughlink emulate FILE{options}\nname = \"One link\"\nduration = {}\n", text(MAX_LINK_LEN));
    for (i, name) in names.iter().enumerate() {
        let _ = write!(out, "\n[[node]]\nname = {}\n", text(name));
        match ends {
            LinkEnds::Program(given) => {
                out.push_str("kernel = true\n");
                let v4 = given[i].v4.map(|address| format!("ipv4 = \"{address}\"\n"));
                let v6 = given[i].v6.map(|address| format!("ipv6 = \"{address}\"\n"));
                out.extend(v4.into_iter().chain(v6));
            }
            LinkEnds::Devices(_) => drop(writeln!(out, "interface = {}", text(name))),
        }
    }
    let _ = write!(
        out,
        "\n[[link]]\nname = \"link\"\nbetween = [{}]\nrate = {}\ndelay = {}\n",
        names.map(text).join(", "),
        text(forward),
        text(&args.delay)
    );
    if forward != reverse {
        let _ = writeln!(out, "asymmetric = {{ rate = {} }}", text(reverse));
    }
    if let Some(queue) = &args.queue {
        let _ = writeln!(out, "queue = {}", text(queue));
    }
    if let Some(loss) = &args.loss {
        let _ = writeln!(out, "noise = {{ kind = \"random\", loss = {} }}", text(loss));
    }
    out
}

impl LinkArgs {
    /// Returns the rates up and down. The parser requires `--rate` unless both are given.
    fn rates(&self) -> (&str, &str) {
        let both = self.rate.as_deref().unwrap_or_default();
        (self.rate_up.as_deref().unwrap_or(both), self.rate_down.as_deref().unwrap_or(both))
    }
}

/// Duration of a link that neither its program nor `--for` ends.
const MAX_LINK_LEN: &str = "1000000 s";
