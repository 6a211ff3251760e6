//! The revision of the source, for `--version`, manifests and reports: `ROUGHLINK_REVISION` if a packager sets it, else
//! the commit, with `+dirty` if the program's sources differ from it. Without a repository it is "unknown". The script
//! runs again when HEAD moves or when the program's sources change, which rebuilds the program anyway.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=ROUGHLINK_REVISION");
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let given = std::env::var("ROUGHLINK_REVISION").ok().filter(|revision| !revision.is_empty());
    let revision = given.or_else(|| commit(&root)).unwrap_or_else(|| "unknown".into());
    println!("cargo:rustc-env=ROUGHLINK_REVISION={revision}");
}

fn commit(root: &Path) -> Option<String> {
    // An unpacked archive within another project's repository is not that project's commit.
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let hash = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    let mut status = vec!["status", "--porcelain", "--"];
    status.extend(SOURCES);
    let clean = git(root, &status)?.is_empty();
    for file in ["HEAD", "logs/HEAD"] {
        rerun_if_changed(&root.join(git(root, &["rev-parse", "--git-path", file])?));
    }
    for source in SOURCES {
        rerun_if_changed(&root.join(source));
    }
    Some(if clean { hash } else { format!("{hash}+dirty") })
}

/// Watches `path` if it exists. For a missing file, Cargo would run the script at every build.
fn rerun_if_changed(path: &Path) {
    if path.exists() {
        println!("cargo:rerun-if-changed={}", path.display());
    }
}

/// The output of git; `None` if git is missing or fails.
fn git(root: &Path, args: &[&str]) -> Option<String> {
    let out = Command::new("git").arg("-C").arg(root).args(args).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

const SOURCES: [&str; 20] = [
    "Cargo.lock",
    "crates/roughlink-scenario/src",
    "crates/roughlink-scenario/Cargo.toml",
    "crates/roughlink-bpf/bpf",
    "crates/roughlink-bpf/src",
    "crates/roughlink-bpf/Cargo.toml",
    "crates/roughlink-bpf/build.rs",
    "crates/roughlink-core/src",
    "crates/roughlink-lab/src",
    "crates/roughlink-host/src",
    "crates/roughlink-host/Cargo.toml",
    "crates/roughlink-core/Cargo.toml",
    "crates/roughlink-lab/Cargo.toml",
    "crates/roughlink-lab/build.rs",
    "crates/roughlink-lab/vendor",
    "crates/roughlink-cli/src",
    "crates/roughlink-cli/Cargo.toml",
    "crates/roughlink-cli/build.rs",
    "experiments",
    "scenarios",
];
