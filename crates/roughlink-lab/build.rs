//! Embeds `scenarios/` and `experiments/`, packs the chart library of reports, and gives the engine a fingerprint. The
//! fingerprint keeps the results of different engines apart.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets it"));
    let mut files = BTreeMap::new();
    for folder in ["scenarios", "experiments"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
        collect(&root.join(folder), folder, &["toml", "csv"], &mut files);
    }
    let mut code =
        String::from("/// Path and text of every embedded file, sorted.\npub static FILES: &[(&str, &str)] = &[\n");
    for (name, path) in &files {
        writeln!(code, "    ({name:?}, include_str!({:?})),", path.display().to_string()).expect("a string");
    }
    code.push_str("];\n");
    fs::write(out.join("embedded.rs"), code).expect("the build folder is writable");

    println!("cargo:rerun-if-changed={LIBRARY}");
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&fs::read(LIBRARY).expect("it is vendored")).expect("memory takes everything");
    let packed = BASE64_STANDARD.encode(packed.finish().expect("memory takes everything"));
    fs::write(out.join("library.txt"), packed).expect("the build folder is writable");

    let crates = root.join("crates");
    // The defaults of keys are in the crate scenario.
    let engine = [("roughlink-core/src", "core", &["rs"][..]), ("roughlink-scenario/src", "scenario", &["rs"])];
    println!("cargo:rustc-env=ROUGHLINK_ENGINE={}", hash(&crates, &engine));
    let carriers = [
        ("roughlink-host/src", "host", &["rs"][..]),
        ("roughlink-bpf/bpf", "bpf", &["c", "h"]),
        ("roughlink-bpf/src", "loader", &["rs"]),
        ("roughlink-lab/src/kernel", "runs", &["rs"]),
    ];
    println!("cargo:rustc-env=ROUGHLINK_CARRIER={}", hash(&crates, &carriers));
}

/// Hashes the sources in folders. Each entry has a folder, its name in the hash, and the extensions of its files.
fn hash(crates: &Path, folders: &[(&str, &str, &[&str])]) -> String {
    let mut sources = BTreeMap::new();
    for (folder, name, extensions) in folders {
        let folder = crates.join(folder);
        println!("cargo:rerun-if-changed={}", folder.display());
        collect(&folder, name, extensions, &mut sources);
    }
    let mut hash = 0xcbf2_9ce4_8422_2325_u64; // FNV-1a
    for (name, path) in &sources {
        for byte in name.bytes().chain(fs::read(path).unwrap_or_default()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

/// Basic bundle of plotly.js, with the trace types scatter, bar and pie. Reports use the first two.
const LIBRARY: &str = "vendor/plotly.js-basic-dist-min/plotly-basic.min.js";

/// Collects files below `folder` with one of the extensions, keyed by their path with `/`, which starts with `name`.
fn collect(folder: &Path, name: &str, extensions: &[&str], files: &mut BTreeMap<String, PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = format!("{name}/{}", entry.file_name().to_string_lossy());
        if path.is_dir() {
            collect(&path, &name, extensions, files);
        } else if path.extension().is_some_and(|e| extensions.iter().any(|x| e == *x)) {
            files.insert(name, path);
        }
    }
}
