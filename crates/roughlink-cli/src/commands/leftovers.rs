//! Leftovers of emulations and gateways that have ended.

#[cfg(target_os = "linux")]
use super::emulate::INSIDE;
#[cfg(target_os = "linux")]
use roughlink_host::{Directory, LeftoverRules, directories, leftover_rules, leftovers};
use serde::Serialize;
use std::collections::BTreeMap;
#[cfg(target_os = "linux")]
use std::ffi::OsStr;

/// Remains of ended emulations and gateways, and the outcome of removing them.
#[derive(Debug, Default, Serialize)]
pub(crate) struct CleanupResult {
    pub(crate) found: Vec<LeftProcess>,
    /// Rules for netfilter queues that no program reads, by queue, with the error that prevented their removal.
    pub(crate) rules: BTreeMap<u16, Option<String>>,
    /// Running emulations, by process, with their nodes. The cleanup does not touch them.
    pub(crate) running: BTreeMap<u32, Vec<String>>,
}

#[derive(Debug, Serialize)]
pub(crate) struct LeftProcess {
    pub(crate) process: u32,
    pub(crate) command: String,
    /// Network namespace that the process keeps alive.
    pub(crate) namespace: String,
    /// Error that prevented its removal.
    pub(crate) error: Option<String>,
}

/// Removes leftovers of ended emulations and gateways. Returns them, with the errors of those that remain, and running
/// emulations.
#[cfg(target_os = "linux")]
pub(crate) fn clean() -> CleanupResult {
    let mut cleaned = CleanupResult::default();
    for left in leftovers(OsStr::new(INSIDE)) {
        let found = LeftProcess {
            process: left.process,
            command: left.command.clone(),
            namespace: left.namespace.clone(),
            error: left.end().err().map(|e| e.with_cause()),
        };
        cleaned.found.push(found);
    }
    let removed = |left: LeftoverRules| (left.queue, left.remove().err().map(|e| e.with_cause()));
    cleaned.rules = leftover_rules().into_iter().map(removed).collect();
    let real = |d: Directory| d.nodes.into_iter().filter(|node| node.is_real()).map(|node| node.name).collect();
    let running = |d: Directory| (d.process, real(d));
    cleaned.running = directories().into_iter().map(running).collect();
    cleaned
}

/// Returns nothing: other systems have no emulations.
#[cfg(not(target_os = "linux"))]
pub(crate) fn clean() -> CleanupResult {
    CleanupResult::default()
}
