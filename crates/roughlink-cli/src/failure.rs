//! Failures of commands: messages and exit codes.

use crate::command_line::command_line;
use crate::signals::end_by_signal;
use roughlink_core::text::visible;
use roughlink_lab::drawing::{self, MessageStyle, Plain};
use roughlink_lab::error::{LabError, exceeded_help};
use roughlink_lab::output::OutputError;
use roughlink_lab::runner::message;
use roughlink_scenario::Problem;
use serde::Serialize;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, BufWriter, Write as _};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::process::ExitCode;

#[derive(Debug)]
pub(crate) enum Failure {
    Lab(LabError),
    /// A run could not write its result folder.
    Folder(OutputError),
    /// An expectation failed under `--strict`.
    Expectation(String),
    /// Ctrl-C, SIGTERM or SIGHUP.
    Interrupted(String),
    /// This machine cannot execute the command: the reason and the advice.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only emulation fails so"))]
    Machine(String, Option<&'static str>),
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only emulation fails so"))]
    Late(String),
    /// A program at an emulated link failed with this code.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only emulation fails so"))]
    Program(String, u8),
    /// The reader of standard output has closed it.
    Closed,
    /// Standard output cannot be written.
    Output(io::Error),
    /// The program panicked.
    Fault(String),
}

impl<E: Into<LabError>> From<E> for Failure {
    fn from(e: E) -> Self {
        Failure::Lab(e.into())
    }
}

impl Failure {
    /// Prints the message and returns the exit code. After an interruption, ends the process by the same signal.
    pub(crate) fn exit(self) -> ExitCode {
        match &self {
            Failure::Lab(e) => show(&e.drawn(MessageStyle::Terminal)),
            Failure::Folder(e) => {
                let full =
                    matches!(e, OutputError::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull);
                let help = match e {
                    OutputError::Exists(_) => "replace the results with --force, or name another folder with -o",
                    OutputError::Exceeded(limit) => exceeded_help(limit),
                    _ if full => {
                        "the disk is full: free some space, or write less with --no-capture and --sample '10 ms'"
                    }
                    OutputError::Write { .. } => "name a folder that can be written to with -o",
                    _ => "",
                };
                let help = (!help.is_empty()).then(|| help.to_owned());
                show(&drawing::plain(&Plain::new(e, help), MessageStyle::Terminal));
            }
            Failure::Expectation(message)
            | Failure::Interrupted(message)
            | Failure::Late(message)
            | Failure::Program(message, _) => print_stderr(message),
            Failure::Machine(message, help) => {
                let plain = Plain { message: message.clone(), help: help.map(str::to_owned) };
                show(&drawing::plain(&plain, MessageStyle::Terminal));
            }
            Failure::Closed => {}
            Failure::Output(e) => print_stderr(&format!("cannot write to standard output: {e}")),
            Failure::Fault(message) => print_stderr(&format!("roughlink failed: {message}")),
        }
        if self.code() == FAULT {
            print_stderr(&format!(
                "This is a bug in roughlink. A report needs the input files and this command line:\n  {}\n\
                Please report it at {}/issues. If someone else gave you the files, follow SECURITY.md instead.",
                command_line(),
                env!("CARGO_PKG_REPOSITORY")
            ));
        }
        if let Failure::Interrupted(_) = self {
            end_by_signal();
        }
        ExitCode::from(self.code())
    }

    /// Returns the exit code, as listed in the help.
    fn code(&self) -> u8 {
        match self {
            Failure::Closed => 0,
            Failure::Lab(LabError::Broken { .. }) | Failure::Fault(_) => FAULT,
            Failure::Lab(
                LabError::Write { .. } | LabError::InUse { .. } | LabError::NotDone { .. } | LabError::Machine { .. },
            )
            | Failure::Folder(OutputError::Write { .. } | OutputError::Busy(_))
            | Failure::Output(_)
            | Failure::Machine(..) => 3,
            Failure::Lab(LabError::Read { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => 3,
            Failure::Lab(_) | Failure::Folder(_) => 2,
            Failure::Late(_) => 4,
            Failure::Expectation(_) => 5,
            Failure::Program(_, code) => *code,
            Failure::Interrupted(_) => 130,
        }
    }
}

/// Exit code for a fault of the program, as in sysexits.h.
const FAULT: u8 = 70;

/// Runs a command. A panic is a fault of the program and becomes a failure like any other.
pub(crate) fn guarded(command: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|panic| Err(Failure::Fault(message(panic.as_ref()))))
}

/// Prints the place of a panic in one line, and the backtrace if RUST_BACKTRACE is set; the final message explains it.
pub(crate) fn on_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
    print_stderr(&format!("fault{place}: {}", message(panic.payload())));
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        print_stderr(&trace.to_string());
    }
}

/// Prints to standard output; a closed pipe is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    printed(out.write_all(visible(text).as_bytes()).and_then(|()| out.flush()))
}

/// Prints JSON to standard output piece by piece: for a thousand flows the whole text would take a megabyte.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
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

pub(crate) fn print_stderr(message: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", visible(message));
}

pub(crate) fn warn(name: &str, text: &str, warnings: &[Problem]) {
    show(&drawing::warnings((name, text), warnings, MessageStyle::Terminal));
}

fn show(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_has_its_own_exit_code() {
        let failed = guarded(|| panic!("out of {}", "order")).unwrap_err();
        assert!(matches!(&failed, Failure::Fault(m) if m == "out of order"), "{failed:?}");
        assert_eq!(failed.code(), FAULT);
        let broken = LabError::Broken { count: 1, message: "out of order".into() };
        assert_eq!(Failure::Lab(broken).code(), FAULT);
    }

    #[test]
    fn other_failures_keep_their_exit_codes() {
        let failed = guarded(|| Err(Failure::Expectation("missed".into()))).unwrap_err();
        assert_eq!(failed.code(), 5);
        assert!(guarded(|| Ok(())).is_ok());
        let usage = LabError::Usage { message: String::new(), help: String::new() };
        assert_eq!(Failure::Lab(usage).code(), 2);
    }
}
