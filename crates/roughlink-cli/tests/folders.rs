//! Result folders that exist or are on a full disk, and commands that are interrupted or killed.

mod common;

use common::{code, roughlink, stderr, with_default_signals};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Returns the arguments of a sweep that takes a few seconds on one thread.
fn grid(folder: &Path) -> Vec<String> {
    let words = [
        "sweep",
        "v2g-one-car",
        "--set",
        "flow.*.bytes=30 MB",
        "--set",
        "tcp.cc=newreno,cubic,hybla",
        "--set",
        "link.plc.noise.mean=1 %,2 %,5 %",
        "--replicas",
        "8",
        "--jobs",
        "1",
        "--quiet",
        "--json",
        "-o",
    ];
    words.iter().map(|w| (*w).to_owned()).chain([folder.display().to_string()]).collect()
}

fn start(args: &[String]) -> std::process::Child {
    with_default_signals(env!("CARGO_BIN_EXE_roughlink"))
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn lines(folder: &Path) -> usize {
    let lines = fs::read(folder.join("runs.jsonl")).map_or(0, |text| text.iter().filter(|b| **b == b'\n').count());
    lines.saturating_sub(1) // the header
}

/// Waits until `n` runs are in the store; returns false if the command ends before.
fn wait_for_runs(child: &mut std::process::Child, folder: &Path, n: usize) -> bool {
    loop {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        if lines(folder) >= n {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn cells(folder: &Path) -> Value {
    let results: Value = serde_json::from_slice(&fs::read(folder.join("results.json")).unwrap()).unwrap();
    results["experiments"][0]["cells"].clone()
}

#[test]
fn a_killed_sweep_resumes_to_the_same_result() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, killed) = (folder.path().join("whole"), folder.path().join("killed"));
    let args = grid(&whole);
    let out = roughlink(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert_eq!(lines(&whole), 72);

    let args = grid(&killed);
    let mut kept = 0;
    for wanted in [5, 20, 40] {
        let mut child = start(&args);
        let caught = wait_for_runs(&mut child, &killed, wanted);
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        assert!(lines(&killed) >= kept, "nothing that was finished is lost");
        kept = lines(&killed);
        if !caught {
            break;
        }
        assert!(!killed.join("results.json").exists(), "it was not done");
    }
    assert!(kept > 0);
    let out = roughlink(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert_eq!(lines(&killed), 72, "each run once");
    assert_eq!(cells(&killed), cells(&whole));
}

#[test]
fn a_second_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("out");
    let args = grid(&dir);
    let mut child = start(&args);
    if wait_for_runs(&mut child, &dir, 1) {
        let out = roughlink(&args.iter().map(String::as_str).collect::<Vec<_>>());
        if child.try_wait().unwrap().is_none() {
            assert_eq!(code(&out), 3, "{}", stderr(&out));
            let said = stderr(&out);
            assert!(said.contains(&format!("process {}", child.id())), "{said}");
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("out");
    let child = start(&grid(&dir));
    let mut child = child;
    if !wait_for_runs(&mut child, &dir, 3) {
        eprintln!("skipped: the machine is too fast for this grid");
        return;
    }
    let done = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    if !done.is_ok_and(|s| s.success()) {
        eprintln!("skipped: there is no `kill`");
        child.kill().unwrap();
        child.wait().unwrap();
        return;
    }
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    // The command ends by the signal, so that a script around it ends too.
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&out.status), Some(2), "{said}");
    assert!(said.contains("run the same command again to resume"), "{said}");
    let text = fs::read(dir.join("runs.jsonl")).unwrap();
    assert_eq!(text.last(), Some(&b'\n'), "no incomplete line");
}

#[test]
fn foreign_and_finished_folders_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    fs::write(folder.path().join("thesis.tex"), "years of work").unwrap();
    for args in [
        &["sweep", "hello", "-o", dir][..],
        &["reproduce", "v2g", "table2", "--quick", "-o", dir],
        &["compare", "hello", "--cc", "newreno,cubic", "-o", dir],
        &["run", "hello", "-o", dir],
        &["run", "hello", "-o", dir, "--force"],
    ] {
        let out = roughlink(args);
        assert_eq!(code(&out), 2, "{args:?}: {}", stderr(&out));
    }
    assert_eq!(fs::read_dir(dir).unwrap().count(), 1);

    let results = tempfile::tempdir().unwrap();
    let dir = results.path().join("run");
    let dir = dir.to_str().unwrap();
    assert_eq!(code(&roughlink(&["run", "hello", "-o", dir])), 0);
    assert_eq!(code(&roughlink(&["run", "hello", "-o", dir])), 2, "it exists");
    assert_eq!(code(&roughlink(&["report", dir])), 0);
    assert_eq!(code(&roughlink(&["run", "hello", "-o", dir, "--force"])), 0);
}

/// A sweep and a paper cannot share a folder: each would treat the other's results as its own.
#[test]
fn papers_and_sweeps_do_not_share_folders() {
    let root = tempfile::tempdir().unwrap();
    let folder = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    let (swept, paper) = (folder("swept"), folder("paper"));
    let sweep =
        |dir: &str| roughlink(&["sweep", "hello", "--set", "duration=1 s", "--replicas", "1", "--quiet", "-o", dir]);
    let reproduce = |dir: &str| {
        roughlink(&["reproduce", "wave", "start-on-l2", "--quick", "--replicas", "1", "--quiet", "-o", dir])
    };
    assert_eq!((code(&sweep(&swept)), code(&reproduce(&paper))), (0, 0));
    for (name, out) in [("swept", reproduce(&swept)), ("paper", sweep(&paper))] {
        let dir = root.path().join(name);
        let said = stderr(&out);
        assert_eq!(code(&out), 2, "{said}");
        assert!(said.contains(name) && said.contains("has the results of") && said.contains("-o"), "{said}");
        let results: Value = serde_json::from_slice(&fs::read(dir.join("results.json")).unwrap()).unwrap();
        assert_eq!(results["summary"].is_object(), name == "paper", "{name} is as it was");
    }
    assert_eq!((code(&sweep(&swept)), code(&reproduce(&paper))), (0, 0));
}

#[test]
fn file_in_place_of_a_folder_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let inside = file.join("inside");
    for args in [["sweep", "hello", "--quiet", "-o"], ["run", "hello", "--quiet", "-o"]] {
        for (path, expected) in [(&file, 2..=3), (&inside, 3..=3)] {
            let mut args = args.to_vec();
            args.push(path.to_str().unwrap());
            let out = roughlink(&args);
            assert!(expected.contains(&code(&out)), "{args:?}: {} {}", code(&out), stderr(&out));
            assert!(!stderr(&out).contains("panicked"), "{}", stderr(&out));
        }
    }
}

/// A tmpfs of the given size, unmounted when dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn new(size: &str) -> Option<Small> {
        let folder = tempfile::tempdir().ok()?;
        let path = folder.path().to_str()?;
        let size = format!("size={size}");
        let mut mount = Command::new("mount");
        let done = mount.args(["-t", "tmpfs", "-o", &size, "tmpfs", path]).stderr(Stdio::null()).status();
        done.is_ok_and(|s| s.success()).then_some(Small(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn full_disk_keeps_finished_runs() {
    let Some(small) = Small::new("16k") else {
        eprintln!("skipped: mounting a small file system needs root");
        return;
    };
    let dir = small.0.path().join("out");
    let args: Vec<String> = grid(&dir).into_iter().map(|w| w.replace("30 MB", "1 MB")).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let out = roughlink(&args);
    let said = stderr(&out);
    assert_eq!(code(&out), 3, "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    let kept = lines(&dir);
    assert!(kept > 0, "something was finished");
    let text = fs::read(dir.join("runs.jsonl")).unwrap();
    assert_eq!(text.last(), Some(&b'\n'), "no incomplete line");

    // With more space the command continues.
    let remount = Command::new("mount").args(["-o", "remount,size=32m", small.0.path().to_str().unwrap()]).status();
    assert!(remount.unwrap().success());
    let out = roughlink(&args);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert_eq!(lines(&dir), 72);

    let full = Small::new("16k").unwrap();
    let dir = full.0.path().join("run");
    let out = roughlink(&["run", "hello", "--quiet", "-o", dir.to_str().unwrap()]);
    assert_eq!(code(&out), 3, "{}", stderr(&out));
    assert!(stderr(&out).contains("disk is full"), "{}", stderr(&out));
}
