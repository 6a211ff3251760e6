//! Result folders under attack: planted links, deleted locks, kills at any moment, failing writes, flipped bits.

#![cfg(unix)]

mod common;

use common::{code, json, roughlink, roughlink_in, stderr};
use roughlink_core::rng::Seed;
use roughlink_lab::output::Manifest;
use roughlink_lab::store::RUNS;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A user's folder with files whose names the program uses too.
struct Docs(PathBuf);

impl Docs {
    fn new(root: &Path) -> Docs {
        let docs = root.join("docs");
        fs::create_dir(&docs).unwrap();
        for name in ["thesis.tex", "config.toml", "manifest.part", ".lock", "runs.jsonl"] {
            fs::write(docs.join(name), "years of work").unwrap();
        }
        Docs(docs)
    }

    fn check(&self, what: &str) {
        assert_eq!(names(&self.0), [".lock", "config.toml", "manifest.part", "runs.jsonl", "thesis.tex"], "{what}");
        for name in names(&self.0) {
            assert_eq!(fs::read_to_string(self.0.join(&name)).unwrap(), "years of work", "{what}: {name}");
        }
    }
}

#[test]
fn planted_links_are_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let docs = Docs::new(root.path());
    let run = &["run", "hello", "--quiet", "-o"][..];
    let sweep = &["sweep", "hello", "--set", "flow.*.bytes=10 kB", "--replicas", "1", "--quiet", "-o"][..];
    let mut number = 0;
    for command in [run, sweep] {
        let links =
            [".unfinished", "runs.jsonl", "runs.lock", ".runs.jsonl.roughlink-new", "experiment.id", "manifest.json"];
        for name in links {
            for target in [&docs.0, &docs.0.join("thesis.tex"), &docs.0.join("absent")] {
                for force in [false, true] {
                    number += 1;
                    let dir = root.path().join(number.to_string());
                    fs::create_dir(&dir).unwrap();
                    symlink(target, dir.join(name)).unwrap();
                    let force = if force && command == run { &["--force"][..] } else { &[] };
                    let what = [command, &[dir.to_str().unwrap()], force].concat();
                    let out = roughlink(&what);
                    let said = stderr(&out);
                    // A link with the name of a leftover is removed, but its target is not.
                    let leftover = name.ends_with(".roughlink-new");
                    assert!(code(&out) == 2 || (leftover && code(&out) == 0), "{what:?} {name}: {} {said}", code(&out));
                    assert!(!said.contains("panicked") && (leftover || dir.join(name).is_symlink()), "{said}");
                    docs.check(name);
                }
            }
        }
    }
    // A report in a folder with planted links.
    let dir = root.path().join("results");
    let dir = dir.to_str().unwrap();
    assert_eq!(code(&roughlink(&[run, &[dir]].concat())), 0);
    for name in ["report.html", ".report.html.roughlink-new"] {
        symlink(docs.0.join("thesis.tex"), Path::new(dir).join(name)).unwrap();
        let out = roughlink(&["report", dir]);
        assert_eq!(code(&out), 0, "{}", stderr(&out));
        docs.check(name);
        fs::remove_file(Path::new(dir).join("report.html")).unwrap();
    }
    fs::remove_file(Path::new(dir).join("summary.json")).unwrap();
    symlink("/dev/zero", Path::new(dir).join("summary.json")).unwrap();
    let out = roughlink(&["report", dir]);
    assert_eq!(code(&out), 2, "{}", stderr(&out));
    assert!(stderr(&out).contains("summary.json") && stderr(&out).contains("link"), "{}", stderr(&out));
}

/// Deleting the lock file of a running sweep does not let a second one in.
#[test]
fn the_lock_survives_its_file() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("out");
    let args = ["sweep", "v2g-one-car", "--set", "flow.*.bytes=30 MB", "--replicas", "200", "--jobs", "1", "--quiet"];
    let args = [&args[..], &["-o", dir.to_str().unwrap()]].concat();
    let mut first = Command::new(env!("CARGO_BIN_EXE_roughlink"))
        .args(&args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !dir.join("runs.jsonl").exists() || !dir.join("runs.lock").exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let second = |what: &str| {
        let out = roughlink(&args);
        assert_eq!(code(&out), 3, "{what}: {}", stderr(&out));
        assert!(stderr(&out).contains("in use by another"), "{}", stderr(&out));
    };
    second("as it is");
    fs::remove_file(dir.join("runs.lock")).unwrap();
    second("without runs.lock");
    assert!(first.try_wait().unwrap().is_none(), "the sweep is longer than this test");
    first.kill().unwrap();
    first.wait().unwrap();
}

/// Each run replaces the results of the previous seed and is killed at a random time, 30 times.
#[test]
fn kill_during_replacement_leaves_old_or_new_results() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("results");
    let command = |seed: u64| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roughlink"));
        command.args(["run", "hello", "--quiet", "--force", "--seed", &seed.to_string(), "-o"]).arg(&dir);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let seed = || {
        let manifest = Manifest::read(&dir).unwrap_or_else(|e| panic!("neither the old nor the new: {e}"));
        manifest.verify(&dir).unwrap_or_else(|e| panic!("{e}"));
        manifest.seed
    };
    assert!(command(1).status().unwrap().success());
    let start = now();
    assert!(command(1).status().unwrap().success());
    let takes = start.elapsed();
    let mut random = Seed { seed: 13, replica: 0 }.stream("folder", "kills");
    let mut killed = 0;
    for n in 0..30 {
        let old = seed();
        let mut child = command(old + 1).spawn().unwrap();
        std::thread::sleep(takes.mul_f64(1.1 * random.unit()));
        killed += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!([old, old + 1].contains(&seed()), "{n}");
    }
    assert!(killed > 0);
    assert!(command(100).status().unwrap().success());
    assert_eq!(seed(), 100);
    assert_eq!(names(root.path()), ["results"]);
    assert!(!names(&dir).iter().any(|n| n.starts_with('.')), "{:?}", names(&dir));
}

#[allow(clippy::disallowed_methods, reason = "how long the command takes, to kill it within")]
fn now() -> Instant {
    Instant::now()
}

/// Files of a sweep in the order in which they are written.
const WRITTEN: [&str; 7] =
    ["runs.lock", "experiment.id", "plan.json", RUNS, "runs.parquet", "results.json", "report.html"];

/// Runs the command with a limit for file sizes in bytes: a write beyond it fails, and one across it is truncated.
fn limited(args: &[&str], folder: &Path, limit: usize) -> Output {
    let limited = format!("trap '' XFSZ; exec prlimit --fsize={limit} \"$@\"");
    Command::new("sh")
        .args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_roughlink")])
        .args(args)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

/// Each write of a sweep fails once: each line of `runs.jsonl`, and every other file that a size limit can reach. Unit
/// tests of the lab make the other changes on disk fail.
#[test]
fn failing_write_is_reported_and_loses_nothing() {
    if Command::new("prlimit").arg("--version").output().is_err() {
        eprintln!("skipped: no prlimit on the path");
        return;
    }
    // Enough cells and metrics that `results.json` is the larger one of the two tables.
    let ccs = "tcp.cc=newreno,cubic,illinois,bic,htcp,vegas,veno,hybla,yeah";
    let set = ["--set", ccs, "--set", "flow.*.bytes=20 kB", "--replicas", "1", "--jobs", "1"];
    let metrics = ["throughput_mbps", "rtt_p95_ms", "timeouts", "retransmits"].map(|name| ["--metric", name]).concat();
    let args = [&["sweep", "hello", "--quiet", "-o", "out"], &set[..], &metrics].concat();
    let files = |folder: &Path| -> Vec<Vec<u8>> {
        WRITTEN[1..].iter().map(|name| fs::read(folder.join("out").join(name)).unwrap()).collect()
    };
    let undisturbed = tempfile::tempdir().unwrap();
    let out = roughlink_in(&args, undisturbed.path());
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    let whole = files(undisturbed.path());
    let mut there = WRITTEN;
    there.sort();
    assert_eq!(names(&undisturbed.path().join("out")), there);

    // Writes in order: file name, a size during the write, the size after it.
    let mut size = 0;
    let lines = whole[2].split_inclusive(|b| *b == b'\n').map(|line| {
        size += line.len();
        (RUNS, size - line.len() / 2, size)
    });
    let file = |i: usize| (WRITTEN[i], whole[i - 1].len() - 1, whole[i - 1].len());
    let mut writes = vec![("runs.lock", 1, 2)];
    writes.extend(lines);
    for i in [1, 2] {
        writes.insert(i + 1, file(i)); // after the heading of the runs
    }
    writes.extend((4..7).map(file));
    let mut failed = BTreeMap::new();
    // In a new folder, and in a folder where all runs exist and only the other files are written again.
    for limit in writes.iter().map(|(_, halfway, _)| *halfway) {
        for resumed in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            if resumed {
                fs::create_dir(folder.path().join("out")).unwrap();
                fs::write(folder.path().join("out").join(RUNS), &whole[2]).unwrap();
            }
            let first = writes.iter().position(|(name, _, size)| *size > limit && !(resumed && *name == RUNS));
            let out = limited(&args, folder.path(), limit);
            let Some(first) = first else {
                assert_eq!(code(&out), 0, "{limit}: {}", stderr(&out));
                continue;
            };
            let (name, ..) = writes[first];
            let said = stderr(&out).replace(['\n', '│'], " ").split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(code(&out), 3, "{limit} {resumed}: {said}");
            assert!(said.contains(&format!("`out/{name}`: File too large")), "{limit} {resumed}, {name}: {said}");
            *failed.entry(name).or_insert(0) += 1;
            // Finished runs stay and do not run again.
            let runs = || fs::read(folder.path().join("out").join(RUNS)).unwrap_or_default();
            let stored = runs();
            let finished = if resumed { &writes } else { &writes[..first] }.iter().filter(|(name, ..)| *name == RUNS);
            assert_eq!(stored.iter().filter(|b| **b == b'\n').count(), finished.count(), "{limit} {resumed}: {said}");
            let again = roughlink_in(&args, folder.path());
            assert_eq!((code(&again), stderr(&again).as_str()), (0, ""));
            assert!(runs().starts_with(&stored), "{limit} {resumed}");
            // Lines of runs contain wall-clock times. All other files must be as after an undisturbed sweep.
            let [id, plan, _, rest @ ..] = &files(folder.path())[..] else { panic!() };
            let equal = [id, plan] == [&whole[0], &whole[1]] && *rest == whole[3..];
            assert!(equal, "{limit} {resumed}: other bytes");
            assert_eq!(names(&folder.path().join("out")), there, "{limit} {resumed}");
        }
    }
    assert!(failed[RUNS] >= 6, "{failed:?}");
    assert_eq!(failed.len(), WRITTEN.len(), "{failed:?}");
}

/// A damaged line is reported by its number, and the results do not change.
#[test]
fn flipped_digit_is_detected() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("out");
    let set = ["--set", "tcp.cc=newreno,cubic", "--set", "flow.*.bytes=100 kB", "--replicas", "3"];
    let args = [&["sweep", "hello", "--json", "--quiet"], &set[..], &["-o", dir.to_str().unwrap()]].concat();
    let whole = json(&roughlink(&args));
    let path = dir.join("runs.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let line = text.lines().nth(3).unwrap();
    let digit = line.find("\"sim_s\":").unwrap() + "\"sim_s\":".len();
    let mut flipped = line.to_owned();
    let other = if &line[digit..=digit] == "7" { "3" } else { "7" };
    flipped.replace_range(digit..=digit, other);
    fs::write(&path, text.replace(line, &flipped)).unwrap();
    let out = roughlink(&args);
    assert_eq!((code(&out), json(&out)), (0, whole.clone()), "{}", stderr(&out));
    assert!(stderr(&out).contains("runs.jsonl: wrong checksum in line 4"), "{}", stderr(&out));
    assert_eq!(fs::read_to_string(dir.join("runs.damaged.jsonl")).unwrap(), format!("{flipped}\n"));
    let out = roughlink(&args);
    assert_eq!((stderr(&out).as_str(), json(&out)), ("", whole));
}
