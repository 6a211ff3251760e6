//! Result folders with failing writes, with kills, and with planted files.

use super::emulation::ABOUT;
use super::*;
use crate::disk::faults;
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;

const SCENARIO: &str = r#"
name = "Short"
duration = "10 s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "wire"
between = ["a", "b"]
rate = "10 Mbit/s"
delay = "5 ms"
[[flow]]
name = "download"
kind = "bulk"
from = "a"
to = "b"
bytes = "20 kB"
"#;

fn run(dir: &Path, seed: u64, force: bool) -> Result<RunResult, OutputError> {
    let overrides = [("seed".to_owned(), seed.to_string())];
    let scenario =
        roughlink_scenario::parse(SCENARIO, "test.toml", &overrides, &|name| Err(format!("{name} is not there")));
    let scenario = scenario.unwrap_or_else(|e| panic!("{e}")).0;
    run_to_folder(
        &Arc::new(scenario),
        RunOptions::default(),
        dir,
        &OutputSettings { force, ..OutputSettings::default() },
    )
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns the seed of the results in `dir`, if they are complete.
fn seed(dir: &Path) -> Option<u64> {
    let manifest = Manifest::read(dir).ok()?;
    manifest.verify(dir).unwrap_or_else(|e| panic!("{e}"));
    Some(manifest.seed)
}

/// Makes each change on disk fail in turn while writing the results of seed 2, and calls `check` with the outcome. With
/// `replace` they replace the results of seed 1.
fn each_fault(root: &Path, replace: bool, mut check: impl FnMut(u32, bool, Result<RunResult, OutputError>)) {
    let dir = root.join("results");
    for killed in [false, true] {
        let mut n = 1;
        loop {
            if dir.exists() {
                fs::remove_dir_all(&dir).unwrap();
            }
            if replace {
                run(&dir, 1, false).unwrap();
            }
            faults::at(n, killed);
            let outcome = run(&dir, 2, replace);
            let all = faults::end() < n;
            check(n, killed, outcome);
            if all {
                break;
            }
            run(&dir, 3, true).unwrap();
            assert_eq!(seed(&dir), Some(3), "{n}");
            assert!(!names(&dir).iter().any(|n| n.starts_with('.')), "{n}: {:?}", names(&dir));
            n += 1;
        }
        assert!(n > 30, "{n}");
    }
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
#[test]
fn results_are_replaced_in_one_step() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("results");
    let mut found = std::collections::BTreeSet::new();
    each_fault(root.path(), true, |n, killed, outcome| {
        let seed = seed(&dir).unwrap_or_else(|| panic!("neither the old nor the new at {n}: {:?}", names(&dir)));
        assert!(seed == 2 || (seed == 1 && outcome.is_err()), "{n}: {seed}");
        assert!(killed || outcome.is_ok() || matches!(outcome, Err(OutputError::Write { .. })), "{n}: {outcome:?}");
        found.insert((killed, seed));
    });
    assert_eq!(found.len(), 4);
    assert_eq!(names(root.path()), ["results"]);
}

/// Without an exchange (a foreign folder occupies the name), the next command completes the replacement.
#[test]
fn results_are_replaced_file_by_file() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("results");
    fs::create_dir(root.path().join(".results.replaced")).unwrap();
    fs::write(root.path().join(".results.replaced/thesis.tex"), "years of work").unwrap();
    let mut moving = 0;
    each_fault(root.path(), true, |n, _, outcome| {
        moving += usize::from(Manifest::read(&dir).is_err());
        recover(&dir);
        let seed = seed(&dir).unwrap_or_else(|| panic!("neither the old nor the new at {n}: {:?}", names(&dir)));
        assert!(seed == 2 || (seed == 1 && outcome.is_err()), "{n}: {seed}");
    });
    assert!(moving > 10, "{moving}");
    assert_eq!(names(&root.path().join(".results.replaced")), ["thesis.tex"]);
}

#[test]
fn new_folder_is_complete_or_marked_unfinished() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("results");
    each_fault(root.path(), false, |n, killed, outcome| {
        let looks_finished = dir.exists() && Manifest::read(&dir).is_ok();
        recover(&dir);
        let seed = if dir.exists() { seed(&dir) } else { None };
        assert!(seed == Some(2) || (seed.is_none() && outcome.is_err()), "{n}");
        assert!(!looks_finished || seed == Some(2));
        assert!(killed || outcome.is_ok() || seed.is_some() || !dir.exists() || names(&dir).is_empty(), "{n}");
    });
}

#[test]
fn the_results_of_an_earlier_version_are_replaced() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("results");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("trace.pcapng"), "a capture").unwrap();
    fs::write(dir.join("summary.json"), "{}").unwrap();
    fs::write(
        dir.join("manifest.json"),
        r#"{"roughlink":"0.0.1","files":[{"name":"trace.pcapng","bytes":9,"sha256":""},{"name":"summary.json"}]}"#,
    )
    .unwrap();
    assert!(matches!(run(&dir, 1, false), Err(OutputError::Exists(_))));
    fs::write(dir.join("notes.txt"), "mine").unwrap();
    let refused = run(&dir, 1, true);
    assert!(matches!(&refused, Err(OutputError::Foreign { found, .. }) if found == "notes.txt"), "{refused:?}");
    fs::remove_file(dir.join("notes.txt")).unwrap();
    run(&dir, 1, true).unwrap();
    assert_eq!(seed(&dir), Some(1));
    assert!(!dir.join("trace.pcapng").exists());
}

/// A file that only has the name of a result, or is in a folder that only has the name of a draft, is not replaced.
#[test]
fn ownership_is_checked_first() {
    let root = tempfile::tempdir().unwrap();
    let (names_only, webapp, draft) =
        (root.path().join("names"), root.path().join("webapp"), root.path().join("draft"));
    for (dir, files) in [
        (&names_only, &[("config.toml", "mine"), ("report.html", "mine")][..]),
        (&webapp, &[("manifest.json", "{\"name\":\"webapp\"}"), ("report.html", "mine")]),
        (&draft.join(".unfinished"), &[("config.toml", "mine"), ("manifest.part", "mine")]),
    ] {
        fs::create_dir_all(dir).unwrap();
        for (name, text) in files {
            fs::write(dir.join(name), text).unwrap();
        }
    }
    for dir in [&names_only, &webapp, &draft] {
        let before = names(dir);
        let refused = run(dir, 1, true);
        assert!(matches!(&refused, Err(OutputError::Foreign { .. })), "{refused:?}");
        assert_eq!(names(dir), before);
    }
    assert_eq!(names(&draft.join(".unfinished")), ["config.toml", "manifest.part"]);
    // A foreign file in a draft of roughlink's.
    let left = root.path().join("left");
    fs::create_dir_all(left.join(".unfinished")).unwrap();
    fs::write(left.join(".unfinished/.lock"), "roughlink process 1\n").unwrap();
    fs::write(left.join(".unfinished/config.toml"), "ours").unwrap();
    fs::write(left.join(".unfinished/thesis.tex"), "mine").unwrap();
    let refused = run(&left, 1, false);
    assert!(matches!(&refused, Err(OutputError::Foreign { found, .. }) if found == "thesis.tex"), "{refused:?}");
    fs::remove_file(left.join(".unfinished/thesis.tex")).unwrap();
    run(&left, 1, false).unwrap();
    assert_eq!(seed(&left), Some(1));
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    use std::os::unix::fs::symlink;
    let root = tempfile::tempdir().unwrap();
    let docs = root.path().join("docs");
    fs::create_dir(&docs).unwrap();
    for name in ["config.toml", "manifest.part", ".lock", "thesis.tex"] {
        fs::write(docs.join(name), "years of work").unwrap();
    }
    let untouched = || names(&docs).iter().all(|n| fs::read(docs.join(n)).unwrap() == b"years of work");
    for force in [false, true] {
        for (inside, name, target) in [
            ("", ".unfinished", docs.clone()),
            (".unfinished", ".lock", docs.join(".lock")),
            ("", "config.toml", docs.join("config.toml")),
        ] {
            let dir = root.path().join(format!("planted{force}{name}"));
            fs::create_dir_all(dir.join(inside)).unwrap();
            symlink(target, dir.join(inside).join(name)).unwrap();
            let refused = run(&dir, 1, force);
            let foreign = matches!(&refused, Err(OutputError::Foreign { .. }));
            assert!(foreign || (!force && matches!(&refused, Err(OutputError::Exists(_)))), "{refused:?}");
            assert!(untouched() && names(&docs).len() == 4, "{name}");
            assert!(dir.join(inside).join(name).is_symlink());
        }
    }
    // A link with a name that the manifest lists.
    let dir = root.path().join("results");
    run(&dir, 1, false).unwrap();
    fs::remove_file(dir.join("config.toml")).unwrap();
    symlink(docs.join("config.toml"), dir.join("config.toml")).unwrap();
    let manifest = Manifest::read(&dir).unwrap();
    assert!(matches!(manifest.verify(&dir), Err(OutputError::Read { .. })));
    assert!(matches!(run(&dir, 1, true), Err(OutputError::Foreign { .. })));
    assert!(untouched());
}

#[cfg(unix)]
#[test]
fn lock_survives_deletion_of_its_marker() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("results");
    let draft = Draft::begin(&dir, false).unwrap();
    fs::remove_file(dir.join(".unfinished/.lock")).unwrap();
    assert!(matches!(run(&dir, 1, true), Err(OutputError::Busy(_))));
    drop(draft);
    run(&dir, 1, true).unwrap();
}

/// Writes the folder of an emulation with the output of a node.
fn emulate(dir: &Path, files: &Arc<GrowingFiles>) -> Result<(), OutputError> {
    let mut folder = EmulationFolder::begin(dir, files)?;
    folder.describe(SCENARIO, json!({ "seed": 1 }))?;
    let _ = folder.output("a/b")?.write_all(b"said\n"); // `files` keeps the error
    folder.finish(&json!({ "sim_s": 1 }), &["reno"])
}

#[test]
fn files_of_an_emulation_that_are_written_at_once_are_complete_or_absent() {
    let root = tempfile::tempdir().unwrap();
    for killed in [false, true] {
        for n in 1.. {
            let (dir, files) = (root.path().join(format!("{killed}-{n}")), Arc::default());
            faults::at(n, killed);
            let outcome = emulate(&dir, &files);
            let all = faults::end() < n;
            let content = |name: &str| fs::read(dir.join(name)).ok();
            let object = |name: &str| content(name).map(|text| serde_json::from_slice::<Value>(&text).unwrap());
            assert!(content(CONFIG).is_none_or(|text| text == SCENARIO.as_bytes()), "{n}");
            assert!(outcome.is_err() || object(SUMMARY).is_some(), "{n}");
            let about = object(ABOUT);
            if object(SUMMARY).is_some() {
                assert_eq!(about.unwrap()["senders"], json!(["reno"]), "{n}");
                assert!(content("output-a_b.txt").unwrap() == b"said\n" || files.have_failed(), "{n}");
            }
            if all {
                assert!(n > 15 && outcome.is_ok() && files.failure().is_none(), "{n}");
                break;
            }
        }
    }
}

#[test]
fn emulation_never_replaces_files() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("results");
    let files = Arc::default();
    let folder = EmulationFolder::begin(&dir, &files).unwrap();
    let busy = |outcome: Result<(), OutputError>| matches!(outcome, Err(OutputError::Busy(_)));
    assert!(!cfg!(unix) || busy(emulate(&dir, &Arc::default())) && busy(run(&dir, 1, false).map(drop)));
    // A folder in use that is not empty is refused for its files.
    let capture = folder.capture().unwrap();
    assert!(matches!(emulate(&dir, &Arc::default()), Err(OutputError::Exists(_))));
    assert!(matches!(files.create(capture.path()), Err(OutputError::Write { .. })));
    drop(folder);
    assert!(matches!(emulate(&dir, &Arc::default()), Err(OutputError::Exists(_))));
    assert_eq!(names(&dir), ["capture.pcapng"]);
}

#[cfg(unix)]
#[test]
fn removed_and_replaced_files_are_reported() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("capture.pcapng");
    let files = Arc::<GrowingFiles>::default();
    files.create(&path).unwrap();
    assert!(files.failure().is_none());
    let reason = || match files.failure() {
        Some(OutputError::Write { source, .. }) => source.to_string(),
        other => panic!("{other:?}"),
    };
    fs::remove_file(&path).unwrap();
    assert_eq!(reason(), "the file was removed");
    fs::write(&path, "").unwrap();
    assert_eq!(reason(), "another file has replaced it");
}
