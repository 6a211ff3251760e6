//! Helpers that run scenarios into result folders.

#![allow(dead_code, reason = "each test file takes what it needs")]

use roughlink_core::metrics::RunResult;
use roughlink_core::net::RunOptions;
use roughlink_core::scenario::Scenario;
use roughlink_lab::output::{OutputError, OutputSettings, run_to_folder};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// A noisy charging cable.
pub const SCENARIO: &str = r#"
name = "A noisy charging cable"
duration = "100 s"
[tcp]
cc = "newreno"
mss = "1460 B"
[[node]]
name = "sa"
[[node]]
name = "secc"
[[node]]
name = "evcc"
[[link]]
name = "internet"
between = ["sa", "secc"]
rate = "500 Mbit/s"
delay = "5 ms"
[[link]]
name = "plc"
between = ["secc", "evcc"]
rate = "10 Mbit/s"
delay = "0.9 ms"
queue = "100 pkt"
noise = { kind = "burst", start = "2 %", length = [1, 4], direction = "forward" }
[[flow]]
name = "download"
kind = "bulk"
from = "sa"
to = "evcc"
bytes = "2 MB"
"#;

pub struct Run {
    pub dir: TempDir,
    pub result: RunResult,
}

pub fn scenario(text: &str, overrides: &[(&str, &str)]) -> Scenario {
    let overrides: Vec<_> = overrides.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let parsed = roughlink_scenario::parse(text, "test.toml", &overrides, &|name| Err(format!("{name} is not there")));
    parsed.unwrap_or_else(|e| panic!("{e}")).0
}

pub fn run_into(dir: &Path, scenario: &Scenario, settings: &OutputSettings) -> Result<RunResult, OutputError> {
    run_to_folder(&Arc::new(scenario.clone()), RunOptions::default(), dir, settings)
}

/// Runs `text` with settings changed by `change`.
pub fn run_text(text: &str, overrides: &[(&str, &str)], change: impl FnOnce(&mut OutputSettings)) -> Run {
    let mut settings = OutputSettings::default();
    change(&mut settings);
    let dir = TempDir::new().unwrap();
    let result = run_into(dir.path(), &scenario(text, overrides), &settings).unwrap();
    Run { dir, result }
}

pub fn run(overrides: &[(&str, &str)], change: impl FnOnce(&mut OutputSettings)) -> Run {
    run_text(SCENARIO, overrides, change)
}

/// Reports a skipped test on standard error. Bypasses the test harness, which would capture the message.
pub fn skip(why: &str) {
    let mut past_the_harness = std::io::stderr();
    writeln!(past_the_harness, "skipped: {why}").unwrap();
}
