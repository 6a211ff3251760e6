//! Description of an emulation in its result folder, and messages for files that cannot be written.

use crate::command_line::command_line;
use crate::commands::REVISION;
use crate::failure::Failure;
use roughlink_core::scenario::Scenario;
use roughlink_host::Emulation;
use roughlink_lab::error::LabError;
use roughlink_lab::output::OutputError;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the content of `emulation.json` as known before the start.
pub(super) fn about(scenario: &Scenario, emulation: &Emulation, replica: u32) -> Value {
    let node = |(name, device, addresses): (&str, &str, &[_])| {
        json!({ "node": name, "device": device,
            "addresses": addresses })
    };
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    json!({
        "command": command_line(),
        "version": env!("CARGO_PKG_VERSION"),
        "revision": REVISION,
        "kernel": kernel.trim(),
        "started_unix_s": now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        "scenario": scenario.name,
        "seed": scenario.seed,
        "replica": replica,
        "congestion_control": emulation.congestion_controls().collect::<BTreeMap<_, _>>(),
        "hosts": emulation.hosts().map(node).collect::<Vec<_>>(),
    })
}

/// Converts an error from writing a file of the emulation.
pub(super) fn unwritten(e: OutputError) -> Failure {
    let (path, e) = match e {
        OutputError::Write { path, source } => (path, source),
        OutputError::Exists(path) => {
            return Failure::Lab(LabError::Usage {
                message: format!("cannot write results to `{}`: the folder is not empty", path.display()),
                help: "name a new or empty folder; an emulation never replaces results".into(),
            });
        }
        e => return Failure::Folder(e),
    };
    let help = match e.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some disk space; data written so far is kept",
        ErrorKind::AlreadyExists => "name another path; existing files are not replaced",
        _ => "name a path that can be written to",
    };
    Failure::Machine(format!("cannot write {}: {e}", path.display()), Some(help))
}

#[expect(clippy::disallowed_methods, reason = "the folder says when the emulation was started")]
fn now() -> SystemTime {
    SystemTime::now()
}
