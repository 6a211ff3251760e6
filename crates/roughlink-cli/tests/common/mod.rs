//! Helpers to run the command.

#[cfg(target_os = "linux")]
#[allow(dead_code, reason = "few tests emulate")]
pub mod emulated;
#[cfg(target_os = "linux")]
#[allow(dead_code, reason = "few tests run programs on a path")]
pub mod path;

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Returns a command that runs `program` with default signal handling. Tests under `nohup` or in the background inherit
/// ignored signals. The process ID stays the same.
#[allow(dead_code, reason = "few tests send signals")]
pub fn with_default_signals(program: &str) -> Command {
    if cfg!(target_os = "linux") {
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP,INT,QUIT", program]);
        command
    } else {
        Command::new(program)
    }
}

/// Runs `roughlink` in a new temporary folder.
pub fn roughlink(args: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    roughlink_in(args, folder.path())
}

pub fn roughlink_in(args: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roughlink"));
    command.args(args).current_dir(folder).env("NO_COLOR", "1").stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    output(child.expect("the command was built"))
}

/// Returns the output of a process after it ends, or kills it after `LONGEST`, so that a hang fails only one test.
pub fn output(child: Child) -> Output {
    let process = child.id().to_string();
    let (ended, end) = channel::<()>();
    let watch = thread::spawn(move || {
        if end.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout) {
            let killed = Command::new("kill").args(["-9", &process]).status();
            eprintln!("killed after {LONGEST:?}: {killed:?}");
        }
    });
    let output = child.wait_with_output();
    drop(ended);
    watch.join().expect("it ends");
    output.expect("it can be waited for")
}

/// Time after which a process counts as hung. No run of a test takes this long, even on a busy machine.
const LONGEST: Duration = Duration::from_secs(300);

pub fn code(out: &Output) -> i32 {
    out.status.code().expect("it ended by itself")
}

pub fn stdout(out: &Output) -> String {
    String::from_utf8(out.stdout.clone()).expect("UTF-8")
}

pub fn stderr(out: &Output) -> String {
    String::from_utf8(out.stderr.clone()).expect("UTF-8")
}

#[allow(dead_code, reason = "not every test reads JSON")]
pub fn json(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", stdout(out)))
}
