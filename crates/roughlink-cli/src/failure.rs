//! How commands fail: messages and exit codes.

use miette::{Diagnostic, LabeledSpan, NamedSource, Report, SourceCode};
use roughlink_core::scenario::{Problem, ScenarioError};
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
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
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
    let _ = writeln!(io::stderr().lock(), "{message}");
}

/// Prints a warning about a scenario.
pub fn warn(name: &str, text: &str, warning: &Problem) {
    say(&format!("{:?}", Report::new(Fault::new(name, text, warning, miette::Severity::Warning))));
}

fn tell(e: &LabError) {
    match e {
        LabError::File(e) => {
            let ScenarioError { name, text, problems } = &**e;
            for problem in problems {
                say(&format!("{:?}", Report::new(Fault::new(name, text, problem, miette::Severity::Error))));
            }
        }
        other => show(&Plain::new(other, other.help())),
    }
}

fn show(problem: &Plain) {
    say(&format!("{:?}", Report::new(problem.clone())));
}

/// A problem of a file, as miette draws it.
#[derive(Debug)]
struct Fault {
    problem: Problem,
    source: NamedSource<String>,
    severity: miette::Severity,
}

impl Fault {
    fn new(name: &str, text: &str, problem: &Problem, severity: miette::Severity) -> Self {
        let source = NamedSource::new(name, text.to_owned()).with_language("TOML");
        Fault { problem: problem.clone(), source, severity }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.problem.labels.is_empty() {
            write!(f, "{}: ", self.source.name())?; // without an excerpt nothing else names the file
        }
        f.write_str(&self.problem.message)
    }
}

impl std::error::Error for Fault {}

impl Diagnostic for Fault {
    fn severity(&self) -> Option<miette::Severity> {
        Some(self.severity)
    }
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.problem.help.as_ref().filter(|h| !h.is_empty()).map(|h| Box::new(h) as Box<dyn fmt::Display>)
    }
    fn source_code(&self) -> Option<&dyn SourceCode> {
        (!self.problem.labels.is_empty()).then_some(&self.source)
    }
    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.problem.labels.iter().map(|label| {
            let text = (!label.text.is_empty()).then(|| label.text.clone());
            LabeledSpan::new_with_span(text, label.span.clone())
        })))
    }
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
        Plain { message, help }
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
