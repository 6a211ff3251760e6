//! Runs the command.

#[cfg(target_os = "linux")]
#[allow(dead_code, reason = "few tests emulate")]
pub mod emulated;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Runs it in a folder of its own.
pub fn roughlink(args: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    roughlink_in(args, folder.path())
}

/// Runs it in `folder`.
pub fn roughlink_in(args: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roughlink"))
        .args(args)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .expect("the command was built")
}

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
