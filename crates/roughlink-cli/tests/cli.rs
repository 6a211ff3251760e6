//! Command line: exit codes, fields of `--json`, responses to wrong input.

mod common;

use common::{code, json, roughlink, stderr, stdout};
use serde_json::Value;
use std::path::Path;

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn has(value: &Value, wanted: &[&str]) {
    for key in wanted {
        assert!(value.get(key).is_some(), "no `{key}` in {:?}", keys(value));
    }
}

#[test]
fn json_of_a_run_has_the_documented_fields() {
    let out = roughlink(&["run", "three-cars", "--json", "--seed", "7", "--replica", "2"]);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    let run = json(&out);
    has(&run, &["name", "seed", "replica", "sim_s", "wall_s", "events", "flows", "links", "jain"]);
    assert_eq!((&run["seed"], &run["replica"]), (&7.into(), &2.into()));
    assert!(run["wall_s"].as_f64().unwrap() > 0.0);
    let flow = &run["flows"][0];
    has(
        flow,
        &[
            "name",
            "kind",
            "cc",
            "start_s",
            "end_s",
            "completed",
            "delivered_bytes",
            "throughput_mbps",
            "retransmits",
            "fast_recoveries",
            "timeouts",
            "rtt_ms",
        ],
    );
    has(&flow["rtt_ms"], &["min", "mean", "p50", "p95", "p99"]);
    let link = &run["links"][0];
    has(link, &["name", "forward", "reverse"]);
    let direction = ["packets", "bytes", "dropped", "lost", "queue_mean_pkt", "queue_max_pkt"];
    has(&link["forward"], &direction);
    has(&link["reverse"], &direction);
}

#[test]
fn a_charging_session_is_shown_message_by_message() {
    let out = roughlink(&["run", "charging-session", "--set", "flow.session.charge=2 s"]);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    let text = stdout(&out);
    let line =
        |start: &str| text.lines().find(|l| l.trim_start().starts_with(start)).unwrap_or_else(|| panic!("{text}"));
    let session = line("session session: completed at ");
    assert!(session.ends_with("survived: yes"), "{session}");
    line("limits exceeded: message 1");
    // 2 s with a request every 100 ms, one of which a contactor delays. The table has two parts.
    let parts = text.lines().filter(|l| l.trim_start().starts_with("current demand"));
    let demand: Vec<&str> = parts.flat_map(str::split_whitespace).collect();
    let requests: u32 = demand[2].parse().unwrap();
    assert!((18..=20).contains(&requests) && demand[3] == demand[2] && demand.last() == Some(&"1"), "{demand:?}");
    let set = ["--set", "flow.session.charge=2 s", "--set", "flow.session.policy=abort"];
    let out = roughlink(&[&["run", "charging-session"][..], &set].concat());
    assert!(stdout(&out).contains("because of message"), "{}", stdout(&out));
    let set =
        ["--replicas", "1", "--metric", "loop_late", "--metric", "loop_messages", "--metric", "survived", "--json"];
    let folder = tempfile::tempdir().unwrap();
    let folder = ["-o", folder.path().to_str().unwrap()];
    let out =
        roughlink(&[&["sweep", "charging-session", "--set", "flow.session.charge=2 s"][..], &set, &folder].concat());
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    let cells = json(&out)["cells"].clone();
    let value = |i: usize| cells[i]["measured"].as_f64();
    assert_eq!([value(0), value(1), value(2)], [Some(1.0), Some(f64::from(requests)), Some(1.0)]);
}

#[test]
fn the_same_run_gives_the_same_result() {
    let run = |seed: &str| {
        let out = roughlink(&["run", "v2g-one-car", "--set", "flow.*.bytes=1 MB", "--json", "--quiet", "--seed", seed]);
        let mut result = json(&out);
        result["wall_s"] = 0.into();
        result
    };
    assert_eq!(run("3"), run("3"));
    assert_ne!(run("3"), run("4"));
}

#[test]
fn json_of_an_experiment_has_the_documented_fields() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("out");
    let out = roughlink(&[
        "reproduce",
        "v2g",
        "table2",
        "--quick",
        "--json",
        "--quiet",
        "--only",
        "cc=newreno,hybla",
        "--only",
        "bytes=10 MB",
        "-o",
        dir.to_str().unwrap(),
    ]);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert_eq!(stderr(&out), "");
    let result = json(&out);
    assert_eq!(result["experiment"], "v2g/table2");
    let cells = result["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4, "two algorithms on two stacks");
    for cell in cells {
        has(cell, &["axes", "metric", "published", "measured", "ci95", "replicas"]);
        assert_eq!(keys(&cell["axes"]), ["bytes", "cc"]);
        assert_eq!((&cell["metric"], &cell["replicas"]), (&"throughput_mbps".into(), &3.into()));
    }
    assert_eq!(cells[0]["published"], 0.418);
    assert_eq!((&cells[0]["stack"], &cells[2]["stack"]), (&"ns3-3.27".into(), &"linux".into()));
    for file in ["runs.jsonl", "results.json", "report.html"] {
        assert!(dir.join(file).is_file(), "{file}");
    }
}

#[test]
fn errors_in_scenarios_are_explained() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 30, "{}", files.len());
    for file in files {
        let out = roughlink(&["run", file.to_str().unwrap()]);
        let said = stderr(&out);
        assert_eq!(code(&out), 2, "{}: {said}", file.display());
        assert_eq!(stdout(&out), "", "{}", file.display());
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(said.contains(name) && !said.contains("panicked"), "{name} is not named:\n{said}");
        assert!(said.contains('×'), "{name}:\n{said}");
        // Every error except a missing key has a position.
        assert!(name == "no-duration.toml" || said.contains(&format!("{name}:")), "{name} has no place:\n{said}");
    }
}

#[test]
fn bad_input_exits_with_code_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["run", "helo"], "did you mean `hello`?"),
        (&["run", "hello", "--set", "link.wire.dealy=1 ms"], "did you mean `delay`?"),
        (&["run", "hello", "--set", "nonsense"], "write key=value"),
        (&["run", "hello", "--sede", "1"], "--seed"),
        (&["run", "hello", "--seed", "one"], "invalid value"),
        (&["reproduce", "v3g"], "did you mean `v2g`?"),
        (&["reproduce", "v2g", "tabel2"], "did you mean `table2`?"),
        (&["reproduce", "v2g", "table2", "--only", "cc=newrino"], "did you mean `newreno`?"),
        (&["reproduce", "v2g", "table2", "--only", "size=1"], "no experiment has this axis"),
        (&["reproduce", "v2g", "table2", "--set", "tcp.cc=newreno"], "--only cc="),
        (&["reproduce", "v2g", "--replicas", "0"], "--replicas 1"),
        (&["sweep", "hello", "--metric", "throughput"], "did you mean"),
        (&["sweep", "hello", "--metric", "throughput_mbps:avg"], "after `:`"),
        (&["sweep", "hello", "--metric", "throughput_mbps@nobody"], "unknown flow `nobody`"),
        (&["sweep", "hello", "--set", "tcp.cc=a,b", "--set", "tcp.cc=c,d"], "varied twice"),
        (&["sweep", "hello", "--set", "tcp.cc=newreno,newrino"], "newreno"),
        (&["compare", "hello"], "nothing to compare"),
        (&["compare", "hello", "--cc", "cubic,bbr", "--set", "flow.*.cc=newreno"], "every flow has its own `cc`"),
        (&["report", "/nowhere/at/all"], "result folder"),
        (&["frobnicate"], "unrecognized"),
    ];
    for (args, expected) in cases {
        let out = roughlink(args);
        assert_eq!(code(&out), 2, "{args:?}: {}", stderr(&out));
        let said = stderr(&out);
        assert!(said.contains(expected), "{args:?}: `{expected}` is not in:\n{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn strict_exits_with_code_5_on_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    let strict = |delay: &str, name: &str| {
        let dir = folder.path().join(name);
        let set = format!("link.internet.delay={delay}");
        let args = [
            "reproduce",
            "v2g",
            "table2",
            "--quick",
            "--strict",
            "--quiet",
            "--stack",
            "ns3",
            "--only",
            "cc=newreno,hybla,bic",
            "--only",
            "bytes=50 MB",
            "--set",
            &set,
            "-o",
            dir.to_str().unwrap(),
        ];
        roughlink(&args)
    };
    // A delay of a tenth of a second cannot give the paper's results.
    let out = strict("100 ms", "far");
    assert_eq!(code(&out), 5, "{}", stderr(&out));
    assert!(stderr(&out).contains("times the published value"), "{}", stderr(&out));
}

#[test]
fn other_commands_print_their_output() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["reproduce"], &["v2g", "table2", "fig12"]),
        (&["reproduce", "--json"], &["\"experiment\": \"v2g/fig11a\""]),
        (&["cc", "list"], &["newreno"]),
        (&["cc", "list", "newreno"], &["newreno", "min_ssthresh"]),
        (&["cc", "list", "--json"], &["\"parameters\"", "\"ns3\"", "\"newreno-nd\""]),
        (
            &["gateway", "list"],
            &["muniz", "avoca-rx", "join_shrinks", "allow_retract", "table.capacity", "milliseconds"],
        ),
        (&["gateway", "list", "--json"], &["\"parameters\"", "\"schema\"", "\"allow_retract\""]),
        (&["schema"], &["\"$schema\"", "roughlink scenario"]),
        (&["doctor"], &["cores"]),
        (&["doctor", "--json"], &["\"cores\"", "\"revision\"", "\"tshark\""]),
        (&["--help"], &["reproduce", "Exit codes"]),
        (&["run", "--help"], &["Examples:", "--set"]),
        (&["--version"], &["roughlink 0."]),
    ];
    for (args, expected) in cases {
        let out = roughlink(args);
        assert_eq!(code(&out), 0, "{args:?}: {}", stderr(&out));
        for text in *expected {
            assert!(stdout(&out).contains(text), "{args:?}: no `{text}`");
        }
        if args.contains(&"--json") {
            json(&out);
        }
    }
}

#[test]
fn comparison_shows_differences() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("out");
    let args = ["compare", "hello", "--cc", "newreno,newreno-sc,cubic", "--quiet", "-o", dir.to_str().unwrap()];
    let out = roughlink(&args);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(stdout(&out).contains("difference"), "{}", stdout(&out));
    let out = roughlink(&["report", dir.to_str().unwrap()]);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(stdout(&out).contains("report.html"));
}

#[test]
fn results_of_a_paper_folder_are_written_elsewhere() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/v2g");
    let out = roughlink(&["reproduce", folder.to_str().unwrap(), "fig9-10"]);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(stderr(&out).contains("report: results/v2g/report.html"), "{}", stderr(&out));
}

#[test]
fn a_closed_pipe_is_no_error() {
    use std::io::Read as _;
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_roughlink"))
        .arg("schema")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take()); // like `| head`, which closes the pipe early
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}
