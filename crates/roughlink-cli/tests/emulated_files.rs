//! Files of an emulation, and its end after errors: full disk, missing rights, removed file or device, killed process.

#![cfg(target_os = "linux")]

mod common;

use common::emulated::{assert_gone, emulate, folder, marked};
use common::{code, json, roughlink, roughlink_in, stderr, stdout, with_default_signals};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Program that sends datagrams until it is stopped.
const TALKS: &str = "exec 3<>/dev/udp/10.0.0.1/9; while :; do printf %01000d 0 >&3; done 2>/dev/null";

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn result_folder_is_complete_after_the_run() {
    let Some(folder) = folder() else { return };
    let script = "echo said by $ROUGHLINK_NODE; echo complaint >&2; \
                  for i in 1 2 3; do echo > /dev/udp/10.0.0.1/9; sleep 0.1; done 2>/dev/null";
    let args = [
        "--json",
        "--seed",
        "7",
        "--set",
        "link.plc.delay=2 ms",
        "-o",
        "out",
        "--kernel",
        "server",
        "--exec",
        "car",
        "--",
        "bash",
        "-c",
        script,
    ];
    let out = emulate(&args, folder.path());
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    let dir = folder.path().join("out");
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let series = ["conversations.csv", "lateness.csv", "links.csv"];
    for name in
        ["capture.pcapng", "config.toml", "emulation.json", "output-car.txt", "summary.json"].iter().chain(&series)
    {
        assert!(names(&dir).iter().any(|n| n == name), "{name}: {:?}", names(&dir));
    }
    assert_eq!(serde_json::from_str::<serde_json::Value>(&read("summary.json")).unwrap(), json(&out));
    assert!(read("output-car.txt").contains("said by car\n") && read("output-car.txt").contains("complaint\n"));
    let about: serde_json::Value = serde_json::from_str(&read("emulation.json")).unwrap();
    assert_eq!(
        (&about["seed"], &about["hosts"][1]["node"], &about["version"]),
        (&7.into(), &"car".into(), &env!("CARGO_PKG_VERSION").into())
    );
    assert!(!about["kernel"].as_str().unwrap().is_empty() && about["command"].as_str().unwrap().contains("--seed 7"));
    // The default of the node does not depend on the machine's default.
    let reno = serde_json::json!({ "name": "reno", "paced": false, "refused": null });
    assert_eq!(about["congestion_control"]["car"], reno);
    assert!(stderr(&out).contains("car: default congestion control reno\n"), "{}", stderr(&out));
    // The scenario includes its overrides and can be simulated.
    assert!(
        read("config.toml").contains("2 ms") && read("config.toml").contains("kernel = true"),
        "{}",
        read("config.toml")
    );
    let again = roughlink_in(&["run", "out/config.toml", "--quiet", "--json"], folder.path());
    assert_eq!((code(&again), &json(&again)["seed"]), (0, &7.into()));
    let report = roughlink_in(&["report", "out"], folder.path());
    assert_eq!(code(&report), 0, "{}", stderr(&report));
    let html = read("report.html");
    for wanted in [
        "s emulated in real time",
        "UDP from 10.0.0.2:",
        "On time: 99 % of the packets left the network at most",
        "<h3>Conversations</h3>",
        "<h3>Timing</h3>",
        "<section id=\"conversations\">",
        "<section id=\"sent\">",
        "<section id=\"lateness\">",
        "--seed 7",
    ] {
        assert!(html.contains(wanted), "{wanted}: {}", html.find("<main").map_or("", |at| &html[at..]));
    }
    assert!(!html.contains("s simulated"));
    // Existing results are not replaced.
    let out = emulate(&["-o", "out", "--kernel", "*", "--for", "10 ms"], folder.path());
    assert_eq!(code(&out), 2, "{}", stderr(&out));
    assert!(stderr(&out).contains("cannot write results to `out`: the folder is not empty"), "{}", stderr(&out));
    let out = emulate(&["-o", "more", "--no-capture", "--kernel", "*", "--for", "10 ms"], folder.path());
    assert_eq!((code(&out), fs::exists(folder.path().join("more/capture.pcapng")).unwrap()), (0, false));
}

fn columns(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let rows: Vec<_> = lines.inspect(|row| assert_eq!(row.len(), names.len(), "{row:?}")).collect();
    names.into_iter().enumerate().map(|(i, name)| (name, rows.iter().map(|row| row[i]).collect())).collect()
}

/// A live view takes the same samples at the same time.
#[test]
fn time_series_are_written_during_the_run() {
    let Some(folder) = folder() else { return };
    let marker = format!("roughlink-series-{}", std::process::id());
    let args = ["--serve", "127.0.0.1:0", "-o", "out", "--no-capture", "--kernel", "server", "--exec", "car", "--"];
    let mut child = start(&[&args[..], &["bash", "-c", TALKS]].concat(), folder.path(), &marker);
    let read = |name: &str| fs::read_to_string(folder.path().join("out").join(name)).unwrap_or_default();
    let rows = |name: &str| read(name).lines().count();
    until(|| rows("links.csv") > 8 && rows("conversations.csv") > 8 && rows("lateness.csv") > 4);
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();
    assert_gone(&marker);
    let text = read("links.csv");
    let links = columns(&text);
    let numbers = |column: &[&str]| column.iter().map(|n| n.parse::<f64>().unwrap()).collect::<Vec<_>>();
    assert_eq!((&links["link"][..2], &links["direction"][..2]), (&["plc"; 2][..], &["forward", "reverse"][..]));
    assert!(links["rate_mbps"].iter().all(|rate| *rate == "20") && links["loss"].iter().all(|loss| *loss == "0.01"));
    let times = numbers(&links["time_ns"]);
    assert!(times.is_sorted() && times.iter().step_by(2).is_sorted_by(|a, b| a < b), "each sample once: {times:?}");
    // The car sends in the reverse direction of the link.
    let sent = numbers(&links["sent_bytes"]);
    assert!(sent.iter().skip(1).step_by(2).is_sorted() && sent.iter().skip(1).step_by(2).next_back() > Some(&0.0));
    assert!(numbers(&links["queue_pkt"]).iter().any(|waiting| *waiting > 0.0), "it sends as fast as it can");
    let text = read("conversations.csv");
    let talk = columns(&text);
    let is_udp = |i: &usize| talk["protocol"][*i] == "UDP" && talk["to"][*i] == "10.0.0.1:9";
    let last = (0..talk["to"].len()).rfind(is_udp).expect("it talks");
    assert!(talk["from"][last].starts_with("10.0.0.2:") && talk["srtt_ms"][last].is_empty());
    assert!(talk["delivered_bytes"][last].parse::<u64>().unwrap() > 0);
    let text = read("lateness.csv");
    assert!(numbers(&columns(&text)["p99_us"]).iter().all(|us| *us >= 0.0));
}

fn start(args: &[&str], folder: &Path, marker: &str) -> Child {
    with_default_signals(env!("CARGO_BIN_EXE_roughlink"))
        .args(["emulate", "pair.toml", "--max-lateness", "10 s"].iter().chain(args))
        .current_dir(folder)
        .env("MARKER", marker)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn until(what: impl Fn() -> bool) {
    for _ in 0..3000 {
        if what() {
            return;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("it does not come to it");
}

#[test]
fn written_files_survive_a_kill() {
    let Some(folder) = folder() else { return };
    let marker = format!("roughlink-kept-{}", std::process::id());
    let script = format!("echo begun; {TALKS}");
    let mut child = start(
        &["-o", "out", "--kernel", "server", "--exec", "car", "--", "bash", "-c", &script],
        folder.path(),
        &marker,
    );
    let dir = folder.path().join("out");
    let length = |name: &str| fs::metadata(dir.join(name)).map_or(0, |m| m.len());
    until(|| length("output-car.txt") > 0 && length("capture.pcapng") > 2000);
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();
    assert_gone(&marker);
    assert_eq!(fs::read_to_string(dir.join("output-car.txt")).unwrap(), "begun\n");
    assert!(serde_json::from_slice::<serde_json::Value>(&fs::read(dir.join("emulation.json")).unwrap()).is_ok());
    let again = roughlink_in(&["run", "out/config.toml", "--quiet", "--json"], folder.path());
    assert_eq!(code(&again), 0, "{}", stderr(&again));
    assert!(!dir.join("summary.json").exists());
}

/// Emulates with a small file system at `small`, in a separate mount namespace; `None`, with a message, if impossible.
fn with_little_space(args: &[&str], folder: &Path, marker: &str) -> Option<Output> {
    fs::create_dir_all(folder.join("small")).unwrap();
    let mount = "mount -t tmpfs -o size=200k none small || exit 99; exec \"$@\"";
    let out = Command::new("unshare")
        .args(["--mount", "sh", "-c", mount, "sh", env!("CARGO_BIN_EXE_roughlink"), "emulate", "pair.toml"])
        .args(["--max-lateness", "10 s"].iter().chain(args))
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .env("MARKER", marker)
        .output();
    match out {
        Ok(out) if out.status.code() != Some(99) && !stderr(&out).contains("unshare failed") => Some(out),
        other => {
            eprintln!("skipped: no file system can be mounted: {other:?}");
            None
        }
    }
}

#[test]
fn full_disk_error_names_the_file() {
    let Some(folder) = folder() else { return };
    let marker = format!("roughlink-full-{}", std::process::id());
    let loud = "while :; do echo 0123456789012345678901234567890123456789; done";
    let cases: [(&[&str], &str, &str); 3] = [
        (&["--capture", "small/x.pcapng"], TALKS, "small/x.pcapng"),
        (&["-o", "small/out"], TALKS, "small/out/capture.pcapng"),
        (&["-o", "small/out", "--no-capture"], loud, "small/out/output-car.txt"),
    ];
    for (args, script, file) in cases {
        let programs = ["--json", "--kernel", "server", "--exec", "car", "--", "bash", "-c", script];
        let Some(out) = with_little_space(&[args, &programs].concat(), folder.path(), &marker) else { return };
        let said = stderr(&out);
        let said = &said[said.len().saturating_sub(600)..];
        assert_eq!(code(&out), 3, "{said}");
        assert!(said.contains(file) && said.contains("No space left on device"), "{args:?}: {said}");
        let result = json(&out);
        assert_eq!((&result["ended"], &result["programs"][0]["stopped"]), (&"unwritten".into(), &true.into()));
        assert_gone(&marker);
        assert!(names(&folder.path().join("small")).is_empty());
    }
}

#[test]
fn removed_capture_is_reported() {
    let Some(folder) = folder() else { return };
    let args = ["--capture", "gone.pcapng", "--kernel", "server", "--exec", "car", "--", "rm", "gone.pcapng"];
    let out = emulate(&args, folder.path());
    assert_eq!(code(&out), 3, "{}", stderr(&out));
    assert!(stderr(&out).contains("cannot write gone.pcapng: the file was removed"), "{}", stderr(&out));
}

#[test]
fn unwritable_output_fails_before_the_start() {
    let Some(folder) = folder() else { return };
    for (option, place) in [
        ("--capture", "/proc/here.pcapng"),
        ("--capture", "nowhere/x.pcapng"),
        ("-o", "/proc/here"),
        ("-o", "pair.toml"),
    ] {
        let out = emulate(&[option, place, "--exec", "car", "--", "touch", "begun"], folder.path());
        assert_eq!(code(&out), 3, "{option} {place}: {}", stderr(&out));
        assert!(stderr(&out).contains(&format!("cannot write {place}")), "{}", stderr(&out));
    }
    assert_eq!(names(folder.path()), ["pair.toml"]);
}

#[test]
fn removed_interface_ends_the_emulation() {
    let Some(folder) = folder() else { return };
    let marker = format!("roughlink-vanished-{}", std::process::id());
    let script = format!("export MARKER={marker}; ip link delete plc0; sleep 1000");
    let out = emulate(&["--json", "--kernel", "server", "--exec", "car", "--", "sh", "-c", &script], folder.path());
    assert_eq!(code(&out), 3, "{}", stderr(&out));
    assert!(stderr(&out).contains("lost device `plc0`"), "{}", stderr(&out));
    let result = json(&out);
    assert_eq!((&result["ended"], &result["overruns"]), (&"vanished".into(), &serde_json::Value::Null));
    assert_gone(&marker);
    // The kernel's count of dropped packets is lost with the device; it is not reported as zero.
    let out = emulate(&["--exec", "car", "--", "ip", "link", "delete", "plc0"], folder.path());
    let said = stdout(&out);
    assert!(said.contains("read them too slowly: - (the kernel's counter cannot be read)"), "{said}");
}

/// Runs without rights, in a user namespace that permits no further user namespaces.
#[test]
fn missing_privilege_is_named() {
    let Some(folder) = folder() else { return };
    let script = "echo 0 > /proc/sys/user/max_user_namespaces || exit 99; \
                  exec setpriv --bounding-set -all --inh-caps -all \"$@\"";
    let out = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_roughlink")])
        .args(["emulate", "pair.toml", "--kernel", "*", "--for", "1 s"])
        .current_dir(folder.path())
        .env("NO_COLOR", "1")
        .output();
    match out {
        Ok(out) if out.status.code() == Some(3) => {
            assert!(stderr(&out).contains("cannot create a user namespace"), "{}", stderr(&out));
            assert!(stderr(&out).contains("roughlink doctor"), "{}", stderr(&out));
            assert_eq!(stdout(&out), "");
        }
        Ok(out) if out.status.code() == Some(0) => panic!("{}", stderr(&out)),
        other => eprintln!("skipped: rights cannot be taken away here: {other:?}"),
    }
}

/// A program of `roughlink shell` keeps the namespace of its node alive when the emulation is killed.
#[test]
fn leftover_namespaces_are_found_and_removed() {
    let Some(folder) = folder() else { return };
    let (own, other) = ["clean", "other"].map(|name| format!("roughlink-{name}-{}", std::process::id())).into();
    let mut child = start(&["--exec", "car", "--", "sleep", "1000"], folder.path(), &own);
    let process = child.id().to_string();
    until(|| marked(&own).len() >= 4);
    let mut shell = Command::new(env!("CARGO_BIN_EXE_roughlink"))
        .args(["shell", "car", "--process", &process, "--", "sleep", "1234"])
        .env("MARKER", &other)
        .spawn()
        .unwrap();
    until(|| marked(&other).len() >= 4);
    // Nothing is removed while the emulation runs.
    let found = |out: &Output| {
        let found = json(out)["found"].clone();
        let ours = |f: &&serde_json::Value| f["command"] == "sleep 1234";
        found.as_array().unwrap().iter().filter(ours).cloned().collect::<Vec<_>>()
    };
    let out = roughlink(&["doctor", "--clean", "--json"]);
    assert_eq!((code(&out), found(&out).len()), (0, 0), "{}", stdout(&out));
    assert_eq!(json(&out)["running"][&process], serde_json::json!(["car"]));
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();
    assert_gone(&own);
    assert!(marked(&other).len() >= 4);
    let out = roughlink(&["doctor", "--clean", "--json"]);
    let [left] = &found(&out)[..] else { panic!("{}", stdout(&out)) };
    assert!(left["namespace"].as_str().unwrap().starts_with("net:[") && left["error"].is_null(), "{left}");
    assert_eq!((code(&out), shell.wait().unwrap().code()), (0, Some(137)));
    assert_gone(&other);
    let out = roughlink(&["doctor", "--clean"]);
    assert!(code(&out) == 0 && !stdout(&out).contains("sleep 1234") && !stdout(&out).is_empty(), "{}", stdout(&out));
}
