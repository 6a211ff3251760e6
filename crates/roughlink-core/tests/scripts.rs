//! Timed packet scripts against one endpoint: see `common/script.rs` for the notation. A script with `[[off]]` tables
//! is played once unchanged and must match. With each of the tables it must not match: a mechanism that can be disabled
//! without a mismatch is not tested. `SCRIPT=part of a name` plays matching scripts and prints failed exchanges.

#![expect(clippy::disallowed_methods, reason = "the test reads its scripts")]

#[path = "common/play.rs"]
mod play;
#[path = "common/script.rs"]
mod script;

use script::Script;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn scripts_pass() {
    let only = std::env::var("SCRIPT").unwrap_or_default();
    let mut files = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts"), &mut files);
    files.sort();
    assert!(!files.is_empty());
    let mut failures = Vec::new();
    for file in files.iter().filter(|f| f.to_string_lossy().contains(&only)) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let text = fs::read_to_string(file).expect("a script can be read");
        match Script::parse(&text) {
            Err(e) => failures.push(format!("{name}: {e}")),
            Ok(s) => failures.extend(check(&s).into_iter().map(|e| format!("{name}: {e}"))),
        }
    }
    assert!(failures.is_empty(), "{} mismatches\n\n{}", failures.len(), failures.join("\n"));
}

fn check(script: &Script) -> Vec<String> {
    let mut failures: Vec<String> = play::play(script, &toml::Table::new()).err().into_iter().collect();
    for off in &script.off {
        match play::play(script, off) {
            Ok(()) => failures.push(format!("passes also with {off}")),
            Err(e) if e.starts_with("header") => failures.push(e),
            Err(_) => {}
        }
    }
    failures
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder of scripts") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "pkt") {
            files.push(path);
        }
    }
}

#[test]
fn script_runner_detects_differences() {
    // Each of these has one error, which the runner must detect.
    let wrong = [
        "0 connect\n+0 > S 0:0(0) <mss 1400>",
        "0 connect\n+.1 > S 0:0(0)",
        "0 connect\n+0 > S. 0:0(0) ack 1",
        "0 connect",
        "0 connect\n+0 > S 0:0(0)\n+.5 %{ conn == Established }%",
        "0 connect\n+0 > S 0:0(0)\n+1.5 < S. 0:0(0) ack 1",
    ];
    for body in wrong {
        let text = format!("[tcp]\nstack = \"rfc\"\n---\n{body}\n");
        let script = Script::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        assert!(play::play(&script, &toml::Table::new()).is_err(), "passes: {body}");
    }
}
