//! Core uses no threads, files, processes, sockets, environment and clocks, no random order, and no floating-point
//! functions that differ between machines: clippy finds each violation.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the test writes a crate and runs clippy")]

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use toml::Table;

/// A module for each promise. Each path that starts with `std`, `f64` or `f32` is a violation.
const PLANTED: &[(&str, &str)] = &[
    (
        "clocks",
        "
        fn methods() -> bool { std::time::Instant::now().elapsed() == std::time::SystemTime::now().elapsed().unwrap() }
        fn types(_: std::time::Instant, _: std::time::SystemTime) {}
        ",
    ),
    (
        "floats",
        "
        fn double(x: f64) {
            (f64::sqrt(x), f64::cbrt(x), f64::hypot(x, x), f64::powi(x, 3), f64::powf(x, x), f64::exp(x), f64::exp2(x));
            (f64::exp_m1(x), f64::ln(x), f64::ln_1p(x), f64::log(x, x), f64::log2(x), f64::log10(x));
            (f64::sin(x), f64::cos(x), f64::tan(x), f64::sin_cos(x), f64::asin(x), f64::acos(x), f64::atan(x));
            (f64::atan2(x, x), f64::sinh(x), f64::cosh(x), f64::tanh(x), f64::asinh(x), f64::acosh(x), f64::atanh(x));
            f64::mul_add(x, x, x);
        }
        fn single(x: f32) {
            (f32::sqrt(x), f32::cbrt(x), f32::hypot(x, x), f32::powi(x, 3), f32::powf(x, x), f32::exp(x), f32::exp2(x));
            (f32::exp_m1(x), f32::ln(x), f32::ln_1p(x), f32::log(x, x), f32::log2(x), f32::log10(x));
            (f32::sin(x), f32::cos(x), f32::tan(x), f32::sin_cos(x), f32::asin(x), f32::acos(x), f32::atan(x));
            (f32::atan2(x, x), f32::sinh(x), f32::cosh(x), f32::tanh(x), f32::asinh(x), f32::acosh(x), f32::atanh(x));
            f32::mul_add(x, x, x);
        }
        ",
    ),
    (
        "threads",
        "
        fn methods(time: core::time::Duration) {
            std::thread::spawn(|| ());
            std::thread::scope(|_| ());
            (std::thread::sleep(time), std::thread::park(), std::thread::park_timeout(time), std::thread::yield_now());
            (std::thread::current(), std::thread::available_parallelism());
        }
        fn types(_: std::thread::Builder) {}
        ",
    ),
    (
        "files",
        "
        fn methods(a: &str) {
            (std::fs::read(a), std::fs::read_to_string(a), std::fs::write(a, a), std::fs::remove_file(a));
            (std::fs::metadata(a), std::fs::symlink_metadata(a), std::fs::rename(a, a), std::fs::copy(a, a));
            (std::fs::hard_link(a, a), std::fs::read_link(a), std::fs::canonicalize(a), std::fs::create_dir(a));
            (std::fs::create_dir_all(a), std::fs::remove_dir(a), std::fs::remove_dir_all(a), std::fs::read_dir(a));
            (std::fs::set_permissions(a, todo!()), std::fs::exists(a));
            #[cfg(unix)]
            std::os::unix::fs::symlink(a, a);
        }
        fn paths() {
            (std::path::Path::exists, std::path::Path::try_exists, std::path::Path::is_file, std::path::Path::is_dir);
            (std::path::Path::is_symlink, std::path::Path::metadata, std::path::Path::symlink_metadata);
            (std::path::Path::canonicalize, std::path::Path::read_dir, std::path::Path::read_link);
        }
        fn types(_: std::fs::File, _: std::fs::OpenOptions, _: std::fs::DirBuilder) {}
        ",
    ),
    (
        "processes",
        "
        fn methods() { (std::process::id(), std::process::abort(), std::process::exit(0)); }
        fn types(_: std::process::Command) {}
        ",
    ),
    (
        "environment",
        "
        fn methods() {
            (std::env::var(\"A\"), std::env::var_os(\"A\"), std::env::vars(), std::env::vars_os());
            (std::env::args(), std::env::args_os(), std::env::current_dir(), std::env::set_current_dir(\"a\"));
            (std::env::current_exe(), std::env::home_dir(), std::env::temp_dir());
        }
        ",
    ),
    (
        "streams",
        "
        fn methods() { (std::io::stdin(), std::io::stdout(), std::io::stderr(), std::io::pipe()); }
        fn macros() {
            println!();
            eprintln!();
            dbg!(1);
        }
        ",
    ),
    (
        "sockets",
        "
        fn types(_: std::net::TcpStream, _: std::net::TcpListener, _: std::net::UdpSocket) {}
        fn lookup(_: impl std::net::ToSocketAddrs) {}
        #[cfg(unix)]
        fn unix(_: std::os::unix::net::UnixStream, _: std::os::unix::net::UnixListener) {}
        #[cfg(unix)]
        fn datagrams(_: std::os::unix::net::UnixDatagram) {}
        #[cfg(unix)]
        fn descriptors(_: std::os::fd::OwnedFd, _: std::os::fd::BorrowedFd, _: std::os::fd::RawFd) {}
        ",
    ),
    (
        "order",
        "
        fn map(map: &std::collections::HashMap<u8, u8>) { for _ in map {} }
        fn types(_: std::collections::HashSet<u8>, _: std::hash::RandomState, _: std::hash::DefaultHasher) {}
        ",
    ),
];

/// Code like that of core, in which there is nothing to find.
const CONTROL: &str = "
    fn map(map: &std::collections::BTreeMap<u8, u8>) -> u8 { map.values().sum() }
    fn write(out: &mut impl std::io::Write, address: std::net::Ipv4Addr) { let _ = writeln!(out, \"{address}\"); }
    fn ratio(x: f64) -> std::time::Duration { std::time::Duration::from_secs_f64(x.abs().floor()) }
";

fn table(path: impl AsRef<Path>) -> Table {
    fs::read_to_string(&path).unwrap().parse().unwrap_or_else(|e| panic!("{}: {e}", path.as_ref().display()))
}

fn core() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the attributes at the start of core, without the comments.
fn attributes() -> String {
    let source = include_str!("../src/lib.rs");
    source.lines().filter(|line| line.starts_with("#![")).map(|line| format!("{line}\n")).collect()
}

/// Runs clippy as for core on a crate with these modules. Returns the errors: lint, and the name in the message.
fn errors(name: &str, modules: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("src")).unwrap();
    assert_eq!(table(core().join("Cargo.toml"))["lints"]["workspace"].as_bool(), Some(true));
    let workspace = table(core().join("../../Cargo.toml"));
    let manifest = toml::toml! {
        [package]
        name = "planted"
        edition = "2024"
        [workspace]
    };
    let manifest =
        format!("{manifest}{}", Table::from_iter([("lints".to_owned(), workspace["workspace"]["lints"].clone())]));
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    let mut source = format!("{}//! A crate\n#![allow(unused, missing_docs, reason = \"planted\")]\n", attributes());
    for (module, text) in modules {
        source += &format!("mod {module} {{ {text} }}\n");
    }
    fs::write(folder.join("src/lib.rs"), source).unwrap();
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["clippy", "--offline", "--quiet", "--message-format=json", "--target-dir"])
        .arg(folder.join("target"));
    let output = command.current_dir(&folder).env("CLIPPY_CONF_DIR", core()).output().unwrap();
    let messages = String::from_utf8(output.stdout).unwrap();
    let messages = messages.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let errors = messages.filter(|m| m["message"]["level"] == "error" && m["message"]["spans"][0].is_object());
    let found: BTreeSet<_> = errors
        .map(|m| {
            let text = m["message"]["message"].as_str().unwrap();
            let lint = m["message"]["code"]["code"].as_str().unwrap_or_else(|| panic!("no lint: {text}"));
            (lint.to_owned(), text.split('`').nth(1).unwrap_or_default().to_owned())
        })
        .collect();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), found.is_empty(), "{said}");
    found
}

/// Returns false, with a message, if clippy is not installed.
fn can_check() -> bool {
    let found = Command::new(env!("CARGO")).args(["clippy", "--version"]).output().is_ok_and(|o| o.status.success());
    if !found {
        eprintln!("skipped: cargo clippy is not installed");
    }
    found
}

/// Returns the paths of a list in a `clippy.toml`.
fn entries(file: &Path, list: &str) -> BTreeSet<String> {
    let file = table(file);
    let entries = file.get(list).and_then(|list| list.as_array()).into_iter().flatten();
    entries.map(|entry| entry.as_str().unwrap_or_else(|| entry["path"].as_str().unwrap()).to_owned()).collect()
}

#[test]
fn clippy_reports_each_planted_violation() {
    if !can_check() {
        return;
    }
    let found = errors("planted", PLANTED);
    let reported: BTreeSet<_> = found.iter().map(|(_, name)| name.clone()).filter(|name| name.contains("::")).collect();
    for (module, text) in PLANTED {
        let paths = text.split(|c: char| !c.is_alphanumeric() && c != ':' && c != '_');
        for path in paths.filter(|path| ["std::", "f64::", "f32::"].iter().any(|start| path.starts_with(start))) {
            assert!(reported.contains(path), "{module}: clippy does not report {path}");
        }
    }
    let config = core().join("clippy.toml");
    let listed = &entries(&config, "disallowed-methods") | &entries(&config, "disallowed-types");
    let unplanted: Vec<_> = listed.difference(&reported).collect();
    assert!(unplanted.is_empty(), "in clippy.toml but not planted here: {unplanted:?}");
    let lints: BTreeSet<_> = found.iter().map(|(lint, _)| lint.trim_start_matches("clippy::")).collect();
    let expected =
        ["dbg_macro", "disallowed_methods", "disallowed_types", "iter_over_hash_type", "print_stderr", "print_stdout"];
    assert_eq!(lints.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn clippy_accepts_code_without_violations() {
    if can_check() {
        assert_eq!(errors("control", &[("control", CONTROL)]), BTreeSet::new());
    }
}

/// Clippy reads the nearest `clippy.toml` only.
#[test]
fn core_forbids_what_the_workspace_forbids() {
    let [workspace, core] = ["../../clippy.toml", "clippy.toml"].map(|name| core().join(name));
    for list in ["disallowed-methods", "disallowed-types"] {
        let (all, own) = (entries(&workspace, list), entries(&core, list));
        let missing: Vec<_> = all.difference(&own).collect();
        assert!(missing.is_empty(), "{list}: missing in core: {missing:?}");
    }
}
