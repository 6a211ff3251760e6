//! One link, between this machine and a program.

use super::failure;
use super::plan::Plan;
use super::running::run;
use crate::args::Link;
use crate::failure::{Failure, print};
use roughlink_core::net::Limits;
use roughlink_core::scenario::Given;
use roughlink_host::Claim;
use roughlink_lab::library::Source;
use std::fmt::Write as _;

/// Emulates one link.
pub(crate) fn link(args: &Link) -> Result<(), Failure> {
    if args.generate {
        return print(&one_link(args, [Given::default(); 2]));
    }
    let claim = Claim::new().map_err(failure)?;
    let text = one_link(args, claim.block.ends());
    run(Plan {
        source: Source { name: "the link".into(), text, folder: None },
        overrides: args.set.overrides()?,
        kernels: Vec::new(),
        here: Some("host"),
        carrier: false,
        claim: Some(claim),
        programs: vec![("inside".into(), args.command.clone())],
        until: None,
        capture: None,
        output: None,
        captures: false,
        real: &args.real,
        limits: Limits::default(),
        nested: true,
        json: false,
        quiet: args.quiet,
    })
}

/// The scenario of one link, whose nodes have these addresses.
fn one_link(args: &Link, given: [Given; 2]) -> String {
    let text = |value: &str| toml::Value::from(value).to_string();
    let mut out = format!(
        "# roughlink emulate FILE --here host --exec inside -- COMMAND\nname = \"One link\"\nduration = {}\n",
        text(LONGEST_LINK)
    );
    for (name, given) in ["host", "inside"].iter().zip(given) {
        let _ = write!(out, "\n[[node]]\nname = \"{name}\"\nkernel = true\n");
        let v4 = given.v4.map(|address| format!("ipv4 = \"{address}\"\n"));
        let v6 = given.v6.map(|address| format!("ipv6 = \"{address}\"\n"));
        out.extend(v4.into_iter().chain(v6));
    }
    // Forward is down, from the host to the program.
    let (up, down) = args.rates();
    let _ = write!(
        out,
        "\n[[link]]\nname = \"link\"\nbetween = [\"host\", \"inside\"]\nrate = {}\ndelay = {}\n",
        text(down),
        text(&args.delay)
    );
    if up != down {
        let _ = writeln!(out, "asymmetric = {{ rate = {} }}", text(up));
    }
    if let Some(queue) = &args.queue {
        let _ = writeln!(out, "queue = {}", text(queue));
    }
    if let Some(loss) = &args.loss {
        let _ = writeln!(out, "noise = {{ kind = \"random\", loss = {} }}", text(loss));
    }
    out
}

impl Link {
    /// Rates from the program to this machine and back; the parser demands `--rate` unless both have one of their own.
    fn rates(&self) -> (&str, &str) {
        let both = self.rate.as_deref().unwrap_or_default();
        (self.rate_up.as_deref().unwrap_or(both), self.rate_down.as_deref().unwrap_or(both))
    }
}

/// A link lasts as long as its program, at most.
const LONGEST_LINK: &str = "1000000 s";
