//! Command `ip` of iproute2, run in the namespace of the calling thread.

use crate::error::{HostError, Operation};
use serde::de::DeserializeOwned;
use std::io::{self, Write as _};
use std::process::{Command, Output, Stdio};

/// Executes commands line by line, up to the first that fails.
pub(crate) fn ip(lines: &[String]) -> Result<(), HostError> {
    let text = lines.join("\n") + "\n";
    let out = feed(Command::new("ip").args(["-batch", "-"]), &text).map_err(HostError::io(Operation::RunIp))?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let line = said.split("-:").nth(1).and_then(|rest| rest.trim().parse::<usize>().ok());
    let line = line.and_then(|n| lines.get(n.checked_sub(1)?)).map_or("", String::as_str);
    let first = said.lines().next().unwrap_or("no reason given");
    Err(HostError::Ip { said: format!("{first} (`{line}`)") })
}

/// Runs a command with `text` as its input.
pub(crate) fn feed(command: &mut Command, text: &str) -> io::Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    // Ignore the error: if the command stops reading, its output contains the reason.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(text.as_bytes()));
    child.wait_with_output()
}

/// Returns the objects that `ip -j` prints; none if it fails.
pub(crate) fn ip_json<T: DeserializeOwned>(args: &[&str]) -> Result<Vec<T>, HostError> {
    let text = ip_prints(&[&["-j"], args].concat())?;
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(&text).map_err(|e| HostError::io(Operation::RunIp)(e.into()))
}

pub(crate) fn ip_prints(args: &[&str]) -> Result<String, HostError> {
    let out = Command::new("ip").args(args).stdin(Stdio::null()).output().map_err(HostError::io(Operation::RunIp))?;
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
