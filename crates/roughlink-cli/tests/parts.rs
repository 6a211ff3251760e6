//! Sweeps in parts, as in job arrays: `--part` and `merge`.

mod common;

use common::{code, json, roughlink_in, stderr, stdout, with_default_signals};
use std::fs;
use std::path::Path;
#[cfg(unix)]
use std::{
    process::{Command, Stdio},
    time::Duration,
};

const SET: [&str; 6] =
    ["--set", "tcp.cc=newreno,cubic", "--set", "flow.*.bytes=10 kB,20 kB", "--metric", "throughput_mbps,timeouts"];

fn sweep(folder: &Path, more: &[&str]) -> std::process::Output {
    roughlink_in(&[&["sweep", "hello", "--replicas", "3"], &SET[..], more].concat(), folder)
}

/// Returns `results.json` without the command line, in which merged parts and the undivided sweep differ.
fn results(folder: &Path) -> String {
    let text = fs::read_to_string(folder.join("results.json")).unwrap();
    text.lines().filter(|line| !line.contains("\"command\": ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn merged_parts_equal_the_undivided_sweep() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert_eq!(code(&sweep(dir, &["-o", "whole", "--quiet"])), 0);
    for n in 1..=5 {
        let out = sweep(dir, &["--part", &format!("{n}/5"), "-o", &format!("parts/{n}")]);
        assert_eq!(code(&out), 0, "{}", stderr(&out));
        let said = format!("{} of 12 runs are in parts/{n}; merge the parts", if n <= 2 { 3 } else { 2 });
        assert!(stdout(&out).contains(&said), "{}", stdout(&out));
        assert!(!dir.join(format!("parts/{n}/results.json")).exists(), "a part is no result");
    }
    // A finished part has nothing left to do, and each part has its own default folder.
    let before = fs::read(dir.join("parts/3/runs.jsonl")).unwrap();
    assert_eq!(code(&sweep(dir, &["--part=3/5", "-oparts/3", "--jobs", "1"])), 0);
    assert_eq!(fs::read(dir.join("parts/3/runs.jsonl")).unwrap(), before);
    let out = sweep(dir, &["--part", "3/5", "--json"]);
    assert_eq!(json(&out)["folder"], "results/sweep-hello-part-3-of-5");
    assert_eq!(json(&out)["runs"], 2);

    let out = roughlink_in(&["merge", "parts/1", "parts/2", "parts/4", "-o", "merged"], dir);
    assert_eq!(code(&out), 2);
    assert!(stderr(&out).contains("4 of 12 runs are missing, in parts 3,5 of 5:"), "{}", stderr(&out));
    assert!(!dir.join("merged/results.json").exists());

    let all = ["parts/1", "parts/2", "parts/3", "parts/4", "parts/5", "-o", "merged"];
    let out = roughlink_in(&[&["merge"], &all[..], &["--json", "--quiet"]].concat(), dir);
    assert_eq!((code(&out), stderr(&out).as_str()), (0, ""));
    assert_eq!(json(&out)["command"], format!("roughlink sweep hello --replicas 3 {}", quoted()));
    assert_eq!(results(&dir.join("merged")), results(&dir.join("whole")));
    assert!(dir.join("merged/runs.parquet").is_file() && dir.join("merged/report.html").is_file());
    // The runs are equal, apart from their wall-clock times and their order.
    let runs = |folder: &str| {
        let text = fs::read_to_string(dir.join(folder).join("runs.jsonl")).unwrap();
        let record = |line: &str| -> serde_json::Value {
            let mut record: serde_json::Value = serde_json::from_str(line).unwrap();
            record["result"]["wall_s"] = 0.into();
            record["check"] = 0.into();
            record
        };
        let mut records: Vec<_> = text.lines().skip(1).map(record).collect();
        records.sort_by_key(|r| r["key"].to_string());
        records
    };
    assert_eq!(runs("merged"), runs("whole"));
    let shown = roughlink_in(&["report", "merged", "-o", "again.html"], dir);
    assert_eq!(code(&shown), 0, "{}", stderr(&shown));
    // The sweep accepts the merged folder as its own.
    let out = sweep(dir, &["-o", "merged"]);
    assert!(!stderr(&out).contains(" runs in "), "nothing was left to do: {}", stderr(&out));
}

fn quoted() -> String {
    SET.map(|word| if word.contains(['*', ' ']) { format!("'{word}'") } else { word.to_owned() }).join(" ")
}

#[test]
fn merged_comparison_prints_like_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    let compare = |more: &[&str]| {
        let args = ["compare", "hello", "--cc", "newreno,cubic", "--replicas", "2", "--set", "flow.*.bytes=10 kB"];
        let out = roughlink_in(&[&args, more].concat(), dir.path());
        assert_eq!(code(&out), 0, "{}", stderr(&out));
        stdout(&out)
    };
    let whole = compare(&["-o", "whole"]);
    compare(&["--part", "1/2", "-o", "1"]);
    compare(&["--part", "2/2", "-o", "2"]);
    let out = roughlink_in(&["merge", "1", "2", "-o", "merged"], dir.path());
    assert_eq!(stdout(&out), whole);
}

/// Scenarios after the first thousand are read just before they run. Without the files that they read, the finished
/// runs could not be identified later.
#[cfg(unix)]
#[test]
fn stopped_large_sweep_keeps_the_files_of_its_scenarios() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let names: Vec<String> = (0..1200).map(|n| format!("{n}.csv")).collect();
    for name in &names {
        fs::write(dir.join(name), "time_s,rate_mbps\n0,10\n").unwrap();
    }
    let nodes = "duration = \"20 s\"\nnode = [{ name = \"a\" }, { name = \"b\" }]\n";
    let link = "[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"5 ms\"\n\
                timeline = { file = \"0.csv\" }\n";
    let flow = "[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n";
    fs::write(dir.join("s.toml"), [nodes, link, flow].concat()).unwrap();
    let vary = format!("link.l.timeline.file={}", names.join(","));
    for (folder, part) in [("whole", &[][..]), ("part", &["--part", "1/1"])] {
        let words = ["sweep", "s.toml", "--set", &vary, "--replicas", "2", "--jobs", "1", "--quiet", "-o", folder];
        let mut child = with_default_signals(env!("CARGO_BIN_EXE_roughlink"));
        let mut child = child.args(words).args(part).current_dir(dir).stderr(Stdio::null()).spawn().unwrap();
        let done =
            || fs::read(dir.join(folder).join("runs.jsonl")).map_or(0, |text| text.split(|b| *b == b'\n').count());
        while done() < 100 && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let signal = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        let ended = child.wait().unwrap();
        if ended.success() || !signal.is_ok_and(|s| s.success()) {
            eprintln!("skipped: the machine is too fast for this sweep, or there is no `kill`");
            return;
        }
        let plan = fs::read_to_string(dir.join(folder).join("plan.json")).unwrap();
        let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
        assert_eq!(plan["scenarios"][0]["files"].as_array().unwrap().len(), 1200, "{folder}: {ended}");
        assert_eq!(plan["parts"].is_null(), part.is_empty());
    }
}

#[test]
fn invalid_parts_are_refused_before_any_run() {
    let dir = tempfile::tempdir().unwrap();
    for (part, says) in [("0/20", "expected 1/20 to 20/20"), ("21/20", "unknown part `21/20`")] {
        let out = sweep(dir.path(), &["--part", part, "-o", "out"]);
        assert_eq!(code(&out), 2);
        assert!(stderr(&out).contains(says), "{}", stderr(&out));
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
