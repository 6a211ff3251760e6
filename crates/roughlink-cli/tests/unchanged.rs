//! `validation/unchanged.py` distinguishes programs by their results.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

const ROUGHLINK: &str = env!("CARGO_BIN_EXE_roughlink");

/// Compares this program with `new` on one scenario; `None` without Python.
fn unchanged(new: &Path) -> Option<Output> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../validation/unchanged.py");
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let out = Command::new(python).args([script, "--only", "hello", "--old", ROUGHLINK, "--new"]).arg(new).output();
    if out.is_err() {
        println!("skipped: Python is missing");
    }
    out.ok()
}

/// Creates a program that behaves like this one, except that `sed` changes its output.
fn altered(folder: &Path, sed: &str) -> std::path::PathBuf {
    let program = folder.join("altered");
    fs::write(&program, format!("#!/bin/sh\n'{ROUGHLINK}' \"$@\" | sed '{sed}'\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn only_results_count_as_changes() {
    let folder = tempfile::tempdir().unwrap();
    let wall = altered(folder.path(), r#"s/"wall_s": .*/"wall_s": 17.5,/"#);
    let Some(same) = unchanged(&wall) else { return };
    let said = String::from_utf8_lossy(&same.stdout);
    assert_eq!((same.status.code(), said.lines().next()), (Some(0), Some("run        hello                   same")));

    let program = altered(folder.path(), r#"s/"segments": .*/"segments": 7,/"#);
    let differs = unchanged(&program).unwrap();
    let said = String::from_utf8_lossy(&differs.stdout);
    assert_eq!(differs.status.code(), Some(1), "{said}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("1 field differs: flows[download].segments was 7034, is 7 (-99.9 %)"), "{said}");

    let silent = unchanged(&altered(folder.path(), "d")).unwrap();
    assert_eq!(silent.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&silent.stderr).contains("did not print JSON"));
}
