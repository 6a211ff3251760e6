//! Exceptions.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use roughlink_core::net::{Exceeded, NetworkError};
use roughlink_lab::drawing::{self, MessageStyle, Plain};
use roughlink_lab::error::LabError;
use roughlink_lab::output::OutputError;
use roughlink_lab::runner::message;
use roughlink_scenario::ScenarioError as Faults;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

create_exception!(
    roughlink,
    RoughlinkError,
    PyException,
    "Base class of roughlink's errors; the message has the reason and advice."
);
create_exception!(
    roughlink,
    ScenarioError,
    RoughlinkError,
    "A scenario is invalid; the message has the position. The attributes `key`, `line` (from 1) and `help` are those \
     of the first problem, or None."
);
create_exception!(roughlink, LimitError, RoughlinkError, "A run or a stored table exceeds a limit.");
create_exception!(roughlink, Fault, RoughlinkError, "A bug in roughlink; please report it.");

pub(crate) fn usage(message: &impl ToString, help: &str) -> LabError {
    LabError::Usage { message: message.to_string(), help: help.into() }
}

pub(crate) enum FailureReason {
    Lab(LabError),
    Folder(OutputError),
    /// Series need more than this number of bytes.
    Series(u64),
    Python(PyErr),
}

impl From<PyErr> for FailureReason {
    fn from(e: PyErr) -> Self {
        FailureReason::Python(e)
    }
}

impl From<LabError> for FailureReason {
    fn from(e: LabError) -> Self {
        FailureReason::Lab(e)
    }
}

impl From<Exceeded> for FailureReason {
    fn from(e: Exceeded) -> Self {
        FailureReason::Lab(e.into())
    }
}

impl From<NetworkError> for FailureReason {
    fn from(e: NetworkError) -> Self {
        FailureReason::Lab(e.into())
    }
}

impl From<Faults> for FailureReason {
    fn from(e: Faults) -> Self {
        FailureReason::Lab(e.into())
    }
}

impl From<OutputError> for FailureReason {
    fn from(e: OutputError) -> Self {
        FailureReason::Folder(e)
    }
}

impl From<FailureReason> for PyErr {
    fn from(failure: FailureReason) -> Self {
        let e = match failure {
            FailureReason::Python(e) => return e,
            FailureReason::Folder(e) => {
                let help = matches!(e, OutputError::Exists(_)).then(|| "replace them with force=True".to_owned());
                return RoughlinkError::new_err(
                    drawing::plain(&Plain::new(&e, help), MessageStyle::Plain).trim().to_owned(),
                );
            }
            FailureReason::Series(most) => {
                return LimitError::new_err(format!(
                    "the series take more than {} MB: keep fewer rows with sample=\"10 ms\", or allow more with \
                     max_series",
                    most / 1_000_000
                ));
            }
            FailureReason::Lab(e) => e,
        };
        let text = drawn(&e);
        // A drawing starts on a new line, below the name of the exception.
        let text = if matches!(e, LabError::File(_)) { format!("\n{text}") } else { text.trim_start().to_owned() };
        match e {
            LabError::File(faults) => with_place(ScenarioError::new_err(text), &faults),
            LabError::Network(_) => ScenarioError::new_err(text),
            LabError::Exceeded { .. } => LimitError::new_err(text),
            LabError::Broken { .. } => fault(&text),
            _ => RoughlinkError::new_err(text),
        }
    }
}

/// Adds the attributes `key`, `line` and `help` of the first problem.
fn with_place(error: PyErr, faults: &Faults) -> PyErr {
    let problem = &faults.problems[0];
    let span = problem.labels.first().map(|label| label.span.clone());
    let line = span.as_ref().map(|span| faults.text[..span.start].matches('\n').count() + 1);
    // An override that names nothing has no place in the text.
    let key = problem.key.clone().or_else(|| key_at(&faults.text, &span?).map(str::to_owned));
    Python::attach(|py| {
        let value = error.value(py);
        let help = problem.help.clone().map(renamed);
        let set = value.setattr("key", key).and_then(|()| value.setattr("line", line));
        set.and_then(|()| value.setattr("help", help)).map_or_else(|failed| failed, |()| error.clone_ref(py))
    })
}

/// Returns the key of TOML at a place: the word itself in front of `=`, or the one of a value.
fn key_at<'t>(text: &'t str, span: &Range<usize>) -> Option<&'t str> {
    let line = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let is_word = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if text[span.end..].trim_start_matches([' ', '"']).starts_with('=') {
        return Some(text[span.clone()].trim_matches(['"', ' ']));
    }
    let before = text[line..span.start].trim_end_matches(['"', '\'', '[', ' ']).strip_suffix('=')?;
    let before = before.trim_end_matches([' ', '"']);
    let word = before.rsplit(|c| !is_word(c)).next().unwrap_or(before);
    (!word.is_empty()).then_some(word)
}

/// Renders the text of the command line, with names of arguments instead of its options.
pub(crate) fn drawn(e: &LabError) -> String {
    let text = match e {
        LabError::File(_) => renamed(e.drawn(MessageStyle::Plain)),
        // Rename before lines are broken.
        other => drawing::plain(&Plain::new(other, other.help().map(renamed)), MessageStyle::Plain),
    };
    text.trim_end().to_owned()
}

fn renamed(text: String) -> String {
    ARGUMENTS.iter().fold(text, |text, (option, name)| text.replace(option, name))
}

/// Words of the command line in advice, and those for Python.
const ARGUMENTS: [(&str, &str); 9] = [
    ("--allow-outside", "allow_outside=True"),
    ("--max-events", "max_events=..."),
    ("--max-memory", "max_memory=..."),
    ("--max-runs ", "max_runs="),
    ("--replicas ", "replicas="),
    ("sweep --set flow.NAME.cc=...", "{\"flow.NAME.cc\": [...]}"),
    ("with -o", "with folder=..."),
    ("run the command with sudo", "run Python as root"),
    ("build roughlink with `make kernel`", "install roughlink with `pip install . -C build-args='--features kernel'`"),
];

/// Panic payload for misuse that only a run can detect.
pub(crate) struct Misuse(pub(crate) &'static str);

/// Runs `work` and converts a panic to an exception.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, FailureReason>) -> PyResult<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(PyErr::from),
        Err(panic) if panic.is::<Misuse>() => {
            let Misuse(text) = *panic.downcast().expect("it is one");
            Err(RoughlinkError::new_err(text))
        }
        Err(panic) => Err(fault(&message(panic.as_ref()))),
    }
}

fn fault(text: &str) -> PyErr {
    Fault::new_err(format!(
        "{text}\nThis is a bug in roughlink. Please report it, with the call that caused it, at {}/issues.",
        env!("CARGO_PKG_REPOSITORY")
    ))
}
