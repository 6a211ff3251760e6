//! How commands fail: messages and exit codes.

use crate::drawing::drawn;
use miette::{Diagnostic, Report};
use roughlink_core::scenario::{Problem, ScenarioError};
use roughlink_core::text::visible;
use roughlink_lab::error::LabError;
use roughlink_lab::output::OutputError;
use serde::Serialize;
use std::fmt;
use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// An error of the lab.
    Lab(LabError),
    /// A run could not write its result folder.
    Folder(OutputError),
    /// An expectation failed under `--strict`.
    Expectation(String),
    /// Ctrl-C.
    Interrupted(String),
    /// The reader of standard output has gone.
    Closed,
    /// Standard output cannot be written.
    Output(io::Error),
}

impl<E: Into<LabError>> From<E> for Failure {
    fn from(e: E) -> Self {
        Failure::Lab(e.into())
    }
}

impl Failure {
    /// Prints the message and returns the exit code.
    pub fn exit(self) -> ExitCode {
        match self {
            Failure::Lab(e) => {
                tell(&e);
                ExitCode::from(code(&e))
            }
            Failure::Folder(e) => {
                let full =
                    matches!(&e, OutputError::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull);
                let help = match &e {
                    OutputError::Exists(_) => "--force replaces results, and nothing else",
                    _ if full => "the disk is full; --no-capture and --sample '10 ms' need less space",
                    OutputError::Write { .. } => "name a folder that can be written to with -o",
                    _ => "",
                };
                let help = (!help.is_empty()).then(|| help.to_owned());
                show(&Plain::new(&e, help));
                let lacks = matches!(e, OutputError::Write { .. } | OutputError::Busy(_));
                ExitCode::from(if lacks { 3 } else { 2 })
            }
            Failure::Expectation(message) => {
                say(&message);
                ExitCode::from(5)
            }
            Failure::Interrupted(message) => {
                say(&message);
                ExitCode::from(130)
            }
            Failure::Closed => ExitCode::SUCCESS,
            Failure::Output(e) => {
                say(&format!("cannot write to standard output: {e}"));
                ExitCode::from(3)
            }
        }
    }
}

fn code(e: &LabError) -> u8 {
    match e {
        LabError::Write { .. } | LabError::InUse { .. } => 3,
        LabError::Read { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => 3,
        LabError::Broken { .. } => 1,
        _ => 2,
    }
}

/// Prints to standard output; a reader that went away is not an error.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    printed(out.write_all(visible(text).as_bytes()).and_then(|()| out.flush()))
}

/// Prints JSON to standard output piece by piece: for a thousand flows the whole text would take a megabyte.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let written = serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from);
    printed(written.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()))
}

fn printed(outcome: io::Result<()>) -> Result<(), Failure> {
    match outcome {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(Failure::Closed),
        Err(e) => Err(Failure::Output(e)),
    }
}

/// A line on standard error.
pub fn say(message: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", visible(message));
}

/// Prints the warnings about a scenario.
pub fn warn(name: &str, text: &str, warnings: &[Problem]) {
    show_problems(name, text, warnings, miette::Severity::Warning);
}

fn tell(e: &LabError) {
    match e {
        LabError::File(e) => {
            let ScenarioError { name, text, problems } = &**e;
            show_problems(name, text, problems, miette::Severity::Error);
        }
        other => show(&Plain::new(other, other.help())),
    }
}

fn show_problems(name: &str, text: &str, problems: &[Problem], severity: miette::Severity) {
    let _ = io::stderr().lock().write_all(drawn(name, text, problems, severity).as_bytes());
}

/// Draws what has no hidden characters in colour if standard error is a terminal.
fn show(problem: &Plain) {
    let _ = writeln!(io::stderr().lock(), "{:?}", Report::new(problem.clone()));
}

/// Anything else.
#[derive(Clone, Debug)]
struct Plain {
    message: String,
    help: Option<String>,
}

impl Plain {
    fn new(e: &dyn std::error::Error, help: Option<String>) -> Self {
        let mut message = e.to_string();
        let mut source = e.source();
        while let Some(cause) = source {
            message += &format!(": {cause}");
            source = cause.source();
        }
        Plain { message: visible(&message).into_owned(), help: help.map(|h| visible(&h).into_owned()) }
    }
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Plain {}

impl Diagnostic for Plain {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|h| Box::new(h) as Box<dyn fmt::Display>)
    }
}
