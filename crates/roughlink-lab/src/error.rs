//! Errors of the lab.

use crate::drawing::{self, MessageStyle, Plain};
use roughlink_core::net::{Exceeded, NetworkError};
use roughlink_scenario::ScenarioError;
use std::io;
use std::path::PathBuf;

/// Reason why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A scenario, experiment or claims file is invalid; with the place.
    #[error(transparent)]
    File(#[from] Box<ScenarioError>),
    /// A flow has no path.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Unknown scenario, experiment or metric.
    #[error("unknown {what} `{name}`")]
    NotFound {
        /// Kind of the name.
        what: &'static str,
        /// The unknown name.
        name: String,
        /// Known names.
        help: String,
    },
    /// A scenario file that cannot be used.
    #[error("cannot read `{name}`: {reason}")]
    NoFile {
        /// The name given.
        name: String,
        /// Why it cannot be used.
        reason: &'static str,
    },
    /// The command line is inconsistent.
    #[error("{message}")]
    Usage {
        /// Description of the inconsistency.
        message: String,
        /// Advice.
        help: String,
    },
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The disk is full, the folder is not writable, ...
    #[error("cannot write `{}`", path.display())]
    Write {
        /// Path of the file or folder.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The folder contains a file that is not one of roughlink's results.
    #[error("`{}` holds files that are not results of this command", path.display())]
    Foreign {
        /// Path of the folder.
        path: PathBuf,
        /// Name of one such file.
        example: String,
    },
    /// Another process writes to the folder.
    #[error("`{}` is in use by another roughlink (process {owner})", path.display())]
    InUse {
        /// Path of the folder.
        path: PathBuf,
        /// Number of the process, if known.
        owner: String,
    },
    /// A run needs more than its limits allow.
    #[error("{}{limit}{}", run.iter().map(|run| format!("{run}: ")).collect::<String>(),
        match others { 0 => String::new(), n => format!("; the same in {}", other_runs(*n)) })]
    Exceeded {
        /// Name of the run in a grid.
        run: Option<String>,
        /// Exceeded limit.
        limit: Exceeded,
        /// Number of other runs that exceed their limits.
        others: usize,
    },
    /// The machine could not complete a run.
    #[error("{run}: {why}{}",
        match others { 0 => String::new(), n => format!("; {} failed, too", other_runs(*n)) })]
    NotDone {
        /// Name of the run in a grid.
        run: String,
        /// Cause.
        why: String,
        /// Number of other runs that were not completed.
        others: usize,
    },
    /// This machine or this build lacks a requirement.
    #[error("{message}")]
    Machine {
        /// Missing requirement, or failure.
        message: String,
        /// Advice, if there is any.
        help: Option<&'static str>,
    },
    /// A run broke an invariant of the engine.
    #[error("{count} runs failed; the first: {message}")]
    Broken {
        /// Number of failed runs.
        count: usize,
        /// Message of the panic, and the run in which it happened.
        message: String,
    },
}

fn other_runs(n: usize) -> String {
    format!("{n} other run{}", if n == 1 { "" } else { "s" })
}

impl LabError {
    /// Renders the message with causes and advice.
    pub fn drawn(&self, form: MessageStyle) -> String {
        match self {
            LabError::File(e) => drawing::errors(e, form),
            other => drawing::plain(&Plain::new(other, other.help()), form),
        }
    }

    /// Returns a short advice, if there is one.
    pub fn help(&self) -> Option<String> {
        match self {
            LabError::NotFound { help, .. } | LabError::Usage { help, .. } => Some(help.clone()),
            LabError::Machine { help, .. } => help.map(str::to_owned),
            LabError::NoFile { .. } => Some("list the built-in scenarios with `roughlink scenario list`".into()),
            LabError::Foreign { example, .. } => {
                Some(format!("name a new or empty folder, or one to resume; this one has `{example}`"))
            }
            LabError::InUse { .. } => Some("wait for it, or name another folder with -o".into()),
            LabError::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some disk space and run the same command again: finished runs are kept".into())
            }
            LabError::Exceeded { limit, .. } => Some(exceeded_help(limit).into()),
            LabError::NotDone { .. } => {
                Some("run the same command again to continue; --jobs 1 executes one run at a time".into())
            }
            LabError::Write { .. } => Some("name a writable folder with -o".into()),
            _ => None,
        }
    }
}

/// Returns the advice for an exceeded limit.
pub fn exceeded_help(limit: &Exceeded) -> &'static str {
    match limit {
        Exceeded::Stopped { .. } => "run it again",
        Exceeded::Events { .. } => "allow more events with --max-events",
        Exceeded::Bytes { .. } => "use smaller queues, windows or delays, or allow more memory with --max-memory",
        _ => "raise the limit",
    }
}

impl From<Exceeded> for LabError {
    fn from(limit: Exceeded) -> Self {
        LabError::Exceeded { run: None, limit, others: 0 }
    }
}

impl From<ScenarioError> for LabError {
    fn from(e: ScenarioError) -> Self {
        LabError::File(Box::new(e))
    }
}
