//! Cleanup after a program, however it ends: a small process waits for the end of its parent and then runs commands
//! and removes files. The program may give up its rights, because this process keeps them. If both are killed, the
//! rules of a netfilter queue remain and let packets pass; `doctor --clean` removes them.

use crate::error::HostError;
use crate::program::Launcher;
use nix::sys::signal::{SigSet, Signal};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Work at the end of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanupPlan {
    /// Commands, each with its arguments. Errors are ignored.
    pub(crate) commands: Vec<Vec<String>>,
    /// Files to remove.
    pub files: Vec<PathBuf>,
}

/// Running cleanup process. Dropping this does the work and waits for its end.
#[derive(Debug)]
pub struct Cleanup(Child);

impl Cleanup {
    /// Starts the process, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// Returns an error if this program cannot be executed again.
    pub fn start(launcher: &Launcher, plan: &CleanupPlan) -> Result<Self, HostError> {
        let start = || -> io::Result<Child> {
            let mut command = launcher.command();
            command.arg(CLEANUP).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
            let mut child = command.spawn()?;
            let mut line = serde_json::to_vec(plan)?;
            line.push(b'\n');
            child.stdin.as_mut().expect("it is piped").write_all(&line)?;
            Ok(child)
        };
        start().map(Cleanup).map_err(HostError::io("re-execute this program"))
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        // The end of the input starts the work.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Waits for the end of the parent and does the work: a stage of [`crate::inside::main`].
pub(crate) fn work() -> io::Result<u8> {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]).thread_block()?;
    let mut line = String::new();
    let mut input = io::stdin().lock();
    input.read_line(&mut line)?;
    let plan: CleanupPlan = serde_json::from_str(&line)?;
    io::copy(&mut input, &mut io::sink())?;
    plan.execute();
    Ok(0)
}

impl CleanupPlan {
    pub(crate) fn execute(&self) {
        for words in &self.commands {
            if let [program, arguments @ ..] = &words[..] {
                let _ = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).status();
            }
        }
        for file in &self.files {
            let _ = fs::remove_file(file);
        }
    }
}

/// Name of the stage.
pub(crate) const CLEANUP: &str = "cleanup";
