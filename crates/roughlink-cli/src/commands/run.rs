//! `roughlink run`

use super::pretty;
use crate::args::Run;
use crate::failure::{Failure, print, warn};
use crate::show;
use roughlink_core::net::{Network, Options};
use roughlink_lab::error::LabError;
use roughlink_lab::experiment::assignment;
use roughlink_lab::library::{Overrides, Source};
use roughlink_lab::runner::timed;
use std::io::Read as _;

/// Runs one scenario.
pub fn run(args: &Run) -> Result<(), Failure> {
    let source = source(&args.scenario)?;
    let mut overrides: Overrides = args.set.set.iter().map(|s| assignment(s)).collect::<Result<_, _>>()?;
    if let Some(seed) = args.seed {
        overrides.push(("seed".into(), seed.to_string()));
    }
    let parsed = source.parse(&overrides)?;
    if !args.form.quiet {
        for warning in &parsed.warnings {
            warn(&source.name, &parsed.scenario.source, warning);
        }
    }
    let network = Network::new(&parsed.scenario)?;
    let options = Options { replica: args.replica, ..Options::default() };
    let result = timed(|| network.run(options));
    print(&if args.form.json { pretty(&result) } else { show::run(&result) })
}

/// A scenario by path or name, or from standard input.
fn source(name: &str) -> Result<Source, LabError> {
    if name != "-" {
        return Source::scenario(name);
    }
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|source| LabError::Read { path: "standard input".into(), source })?;
    Ok(Source { name: "standard input".into(), text, folder: Some(".".into()) })
}
