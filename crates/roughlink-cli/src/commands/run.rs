//! `roughlink run`

use super::REVISION;
use crate::args::RunArgs;
use crate::command_line::typed_words;
use crate::failure::{Failure, print, print_json, warn};
use crate::show;
use roughlink_core::net::{Network, RunLimits, RunOptions};
use roughlink_core::units::{Time, UnitError};
use roughlink_lab::error::LabError;
use roughlink_lab::experiment::split;
use roughlink_lab::library::{MAX_SCENARIO_SIZE, ScenarioFolder, ScenarioText, text_of};
use roughlink_lab::output::{CaptureSettings, OutputError, OutputSettings, run_to_folder};
use roughlink_lab::runner::{cores, run_on_threads, timed};
use std::num::NonZeroUsize;
use std::sync::Arc;

pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let source = source(&args.scenario)?.allow_outside(args.reading.allow_outside);
    let mut overrides = args.set.overrides()?;
    if let Some(seed) = args.seed {
        overrides.push(("seed".into(), seed.to_string()));
    }
    let parsed = source.parse(&overrides)?;
    if !args.form.quiet {
        warn(&source.name, &parsed.scenario.source, &parsed.warnings);
    }
    drop(source); // the scenario has the text, too
    let limits = RunLimits { events: args.max_events.unwrap_or(u64::MAX), ..args.memory.limits() };
    let scenario = Arc::new(parsed.scenario);
    let options = RunOptions { replica: args.replica, limits, ..RunOptions::default() };
    let result = match &args.output {
        None => {
            let mut network = Network::new(scenario, options)?;
            let threads = args.threads.map_or_else(cores, NonZeroUsize::get);
            timed(|| run_on_threads(&mut network, threads))?
        }
        Some(folder) => {
            let settings = settings(args)?;
            let result = run_to_folder(&scenario, options, folder, &settings);
            result.map_err(|e| match e {
                OutputError::Network(e) => e.into(),
                e => Failure::Folder(e),
            })?
        }
    };
    if args.form.json { print_json(&result) } else { print(&show::run(&result)) }
}

fn settings(args: &RunArgs) -> Result<OutputSettings, LabError> {
    let sample = match &args.sample {
        None => Time::ZERO,
        Some(text) => text.parse().map_err(|e: UnitError| LabError::Usage {
            message: format!("--sample {text}: {e}"),
            help: "write a time with its unit, such as '10 ms'".into(),
        })?,
    };
    let hosts = args.capture_at.as_deref().map(split);
    let capture = CaptureSettings { hosts, snaplen: args.snaplen, one_file: args.one_capture };
    let capture = (!args.no_capture).then_some(capture);
    let command = typed_words();
    let revision = Some(REVISION.to_owned());
    Ok(OutputSettings { sample, capture, force: args.force, command, revision, ..OutputSettings::default() })
}

/// Returns a scenario by path or name, or from standard input.
pub(super) fn source(name: &str) -> Result<ScenarioText, LabError> {
    if name != "-" {
        return ScenarioText::scenario(name);
    }
    let text = text_of(std::io::stdin(), MAX_SCENARIO_SIZE);
    let text = text.map_err(|source| LabError::Read { path: "standard input".into(), source })?;
    Ok(ScenarioText { name: "standard input".into(), text, folder: Some(ScenarioFolder::new(".")) })
}
