//! Abilities of the machine that tests need.

#![allow(dead_code, reason = "a test uses some of these functions")]

use roughlink_host::{HostError, Namespace};
use std::io::ErrorKind;
use std::process::Command;

/// Returns the value. Returns `None` and prints the reason to standard error if this machine cannot provide it.
pub fn possible<T>(made: Result<T, HostError>) -> Option<T> {
    match made {
        Ok(made) => Some(made),
        Err(HostError::System { operation, source })
            if matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::NotFound | ErrorKind::Unsupported) =>
        {
            eprintln!("skipped: this machine cannot {operation}: {source}");
            None
        }
        Err(e) => panic!("{}", e.with_cause()),
    }
}

/// Runs a command in a namespace and returns its output; the error has its message.
pub fn run(at: &Namespace, line: &str) -> Result<String, String> {
    let words: Vec<&str> = line.split(' ').collect();
    let out = at.within(|| Command::new(words[0]).args(&words[1..]).output()).unwrap();
    let out = out.map_err(|e| format!("{line}: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if out.status.success() { Ok(text(&out.stdout)) } else { Err(format!("{line}: {}", text(&out.stderr))) }
}
