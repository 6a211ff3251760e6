//! Results of grids: folders, schema, random and exact values, and tables that fit the terminal.

mod common;

use common::{code, json, roughlink, roughlink_in, stderr, stdout};
use serde_json::Value;
use std::path::Path;

fn schema() -> Value {
    let out = roughlink(&["schema", "results"]);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    json(&out)
}

fn ok(args: &[&str], folder: &Path) -> String {
    let out = roughlink_in(args, folder);
    assert_eq!(code(&out), 0, "{args:?}: {}", stderr(&out));
    stdout(&out)
}

#[test]
fn results_schema_is_pinned() {
    insta::assert_json_snapshot!(schema());
    assert_eq!(roughlink(&["schema"]).stdout, roughlink(&["schema", "scenario"]).stdout);
}

#[test]
fn results_match_their_schema() {
    let folder = tempfile::tempdir().unwrap();
    let schema = jsonschema::validator_for(&schema()).unwrap();
    let commands: [&[&str]; 4] = [
        &["sweep", "hello", "--set", "tcp.cc=newreno,cubic", "--set", "flow.*.bytes=10 kB"],
        &["compare", "charging-session", "--set", "flow.session.charge=1 s", "--cc", "reno,cubic", "--replicas", "2"],
        // A recovery that does not happen within the run.
        &["sweep", "satellite-handover", "--set", "duration=34 s", "--metric", "recovery_s", "--replicas", "1"],
        // Cells, published values, claims, curves and functions.
        &[
            "reproduce",
            "v2g",
            "fig7",
            "fig9-10",
            "table2",
            "--quick",
            "--stack",
            "ns3",
            "--replicas",
            "1",
            "--only",
            "bytes=10 MB",
            "--only",
            "cc=newreno,illinois",
        ],
    ];
    for command in commands {
        ok(&[command, &["-o", "out", "--quiet"]].concat(), folder.path());
        let text = std::fs::read(folder.path().join("out/results.json")).unwrap();
        let results: Value = serde_json::from_slice(&text).unwrap();
        let faults: Vec<String> = schema.iter_errors(&results).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert_eq!(faults, [""; 0], "{command:?}");
        std::fs::remove_dir_all(folder.path().join("out")).unwrap();
    }
    assert!(!schema.is_valid(&serde_json::json!({ "title": 7 })));
}

#[test]
fn second_experiment_does_not_overwrite_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = |bytes: &str, more: &[&str]| {
        let set = format!("flow.*.bytes={bytes}");
        let args = ["sweep", "hello", "--set", "tcp.cc=newreno,cubic", "--replicas", "1", "--set", &set];
        let out = roughlink_in(&[&args, more].concat(), folder.path());
        assert_eq!(code(&out), 0, "{}", stderr(&out));
        stderr(&out)
    };
    let results = folder.path().join("results");
    let runs = |name: &str| std::fs::read_to_string(results.join(name).join("runs.jsonl")).unwrap();
    assert!(sweep("10 kB", &[]).contains("results: results/sweep-hello;"));
    let first = runs("sweep-hello");
    let said = sweep("20 kB", &[]);
    assert!(
        said.contains("results: results/sweep-hello-2; results/sweep-hello has results of another experiment"),
        "{said}"
    );
    assert!(said.contains("-o DIR"), "{said}");
    let second = runs("sweep-hello-2");
    assert_ne!(first, second);
    // Each sweep finds its folder again and computes nothing, whatever its options for output and parallelism.
    assert!(sweep("10 kB", &["--jobs", "1"]).contains("results: results/sweep-hello;"));
    assert!(sweep("20 kB", &["--json"]).contains("results: results/sweep-hello-2;"));
    assert_eq!((runs("sweep-hello"), runs("sweep-hello-2")), (first, second));
    assert!(sweep("10 kB", &["--metric", "timeouts"]).contains("results: results/sweep-hello-3;"));
    assert_eq!(std::fs::read_dir(&results).unwrap().count(), 3);
}

#[test]
fn a_folder_of_another_experiment_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = |bytes: &str| {
        let set = format!("flow.*.bytes={bytes}");
        roughlink_in(&["sweep", "hello", "--set", &set, "--replicas", "1", "--quiet", "-o", "out"], folder.path())
    };
    assert_eq!(code(&sweep("10 kB")), 0);
    let kept = std::fs::read(folder.path().join("out/results.json")).unwrap();
    let out = sweep("20 kB");
    assert_eq!(code(&out), 2);
    assert!(stderr(&out).contains("out` has the results of another experiment"), "{}", stderr(&out));
    assert_eq!(std::fs::read(folder.path().join("out/results.json")).unwrap(), kept);
    assert_eq!(code(&sweep("10 kB")), 0, "its own experiment is resumed");
}

#[test]
fn more_replicas_continue_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = |replicas: &str, output: &[&str]| {
        let noise = "link.wire.noise={ kind = \"random\", loss = \"1 %\" }";
        let args = ["sweep", "hello", "--set", "flow.*.bytes=100 kB", "--set", noise, "--replicas", replicas, "--json"];
        roughlink_in(&[&args, output].concat(), folder.path())
    };
    let lines = |name: &str| {
        let runs = std::fs::read_to_string(folder.path().join(name).join("runs.jsonl")).unwrap();
        runs.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let samples = |out: &std::process::Output| {
        let found: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        found["cells"][0]["samples"].as_array().unwrap().clone()
    };
    let few = samples(&sweep("2", &["-o", "out"]));
    let before = lines("out");
    let more = sweep("5", &["-o", "out"]);
    assert_eq!(code(&more), 0, "{}", stderr(&more));
    let (many, after) = (samples(&more), lines("out"));
    assert_eq!((few.len(), many.len(), &many[..2]), (2, 5, &few[..]));
    assert_eq!((after.len(), &after[..before.len()]), (before.len() + 3, &before[..]), "no run is repeated");
    assert_eq!(many, samples(&sweep("5", &["-o", "new"])));
    // Fewer replicas reuse the runs of more.
    assert_eq!(samples(&sweep("2", &["-o", "out"])), few);
    assert_eq!(lines("out"), after);
    for (replicas, name) in [("2", "sweep-hello"), ("5", "sweep-hello"), ("2", "sweep-hello-2")] {
        let said = stderr(&sweep(replicas, &[]));
        assert!(said.contains(&format!("results: results/{name};")), "{said}");
    }
}

#[test]
fn deterministic_results_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    let compare = |set: &[&str], metric: &str| {
        let args = ["compare", "hello", "--cc", "newreno,bbr,newreno", "--quiet", "--metric", metric];
        ok(&[&args[..], set].concat(), folder.path())
    };
    let noise = ["--set", "link.wire.noise={ kind = \"random\", loss = \"1 %\" }"];
    let exact = compare(&[], "rtt_mean_ms");
    assert!(exact.contains("deterministic") && exact.contains("The scenario uses no random numbers"), "{exact}");
    let table: Vec<&str> = exact.lines().take_while(|l| !l.starts_with("Nothing")).skip(3).collect();
    assert!(table.iter().all(|l| !l.contains('±') && !l.contains("yes")), "{exact}");
    let random = compare(&noise, "throughput_mbps");
    assert!(random.contains('±') && !random.contains("deterministic"), "{random}");
    // All six runs complete; the share has a Wilson interval.
    let share = compare(&noise, "completed");
    assert!(share.contains("1.000 (0.610 to 1.000)") && share.contains("+0 (-0.390 to +0.390)"), "{share}");
}

#[test]
fn default_metrics_fit_the_flows() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = |scenario: &str, set: &[&str]| {
        let args =
            [&["compare", scenario, "--cc", "newreno,cubic", "--replicas", "1", "--quiet", "--json"][..], set].concat();
        let result: Value = serde_json::from_str(&ok(&args, folder.path())).unwrap();
        result["metrics"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let transfers = ["throughput_mbps", "timeouts", "rtt_mean_ms"];
    let session = ["loop_p50_ms", "loop_p99_ms", "loop_late", "survived"];
    assert_eq!(metrics("hello", &["--set", "flow.*.bytes=10 kB"]), transfers);
    assert_eq!(metrics("charging-session", &["--set", "flow.session.charge=1 s"]), session);
    let both = [&transfers[..], &["voice_mos"]].concat();
    assert_eq!(metrics("hdplc-home", &["--set", "duration=2 s"]), both);
}

#[test]
fn throughput_counts_only_transfers() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["sweep", "hdplc-home", "--set", "duration=12 s", "--replicas", "1", "--quiet", "--json", "--metric"];
    let names = "throughput_mbps,throughput_mbps@flow1,throughput_mbps@flow2,throughput_mbps@flow3,\
                 throughput_mbps:min,voice_mos";
    let result: Value = serde_json::from_str(&ok(&[&args[..], &[names]].concat(), folder.path())).unwrap();
    let value: Vec<f64> = (0..6).map(|i| result["cells"][i]["measured"].as_f64().unwrap()).collect();
    let flows = &value[1..4];
    assert!((value[0] - flows.iter().sum::<f64>() / 3.0).abs() < 1e-9, "{value:?}");
    assert_eq!(value[4], flows.iter().copied().fold(f64::INFINITY, f64::min));
    assert!(value[5] >= 1.0, "{value:?}");
}

#[test]
fn missing_recovery_gives_a_lower_bound() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "sweep",
        "satellite-handover",
        "--set",
        "tcp.cc=newreno,wave",
        "--replicas",
        "1",
        "--metric",
        "recovery_s",
        "--quiet",
    ];
    let text = ok(&args, folder.path());
    // The link is back at 32 s and the run ends at 60 s; a recovery cannot start in the last five seconds.
    assert!(text.lines().any(|l| l.contains("newreno") && l.contains("> 23.00")), "{text}");
    assert!(text.lines().any(|l| l.contains("wave") && !l.contains('>')), "{text}");
    assert!(text.contains("lower bound"), "{text}");
    let cells: Value = serde_json::from_str(&ok(&[&args[..], &["--json"]].concat(), folder.path())).unwrap();
    assert_eq!(
        (&cells["cells"][0]["measured"], &cells["cells"][0]["at_least"]),
        (&Value::Null, &serde_json::json!([23.0]))
    );
    assert_eq!(cells["cells"][0]["replicas"], 1, "it ran");
}

#[test]
fn algorithms_are_compared_with_inline_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let few = ["--set", "duration=20 s", "--replicas", "1", "--quiet", "--json", "--metric", "delivered_bytes"];
    let cc = ["compare", "train-tunnels", "--cc", "cubic,newreno{min_ssthresh=2},newreno{min_ssthresh=20}"];
    let result: Value = serde_json::from_str(&ok(&[&cc[..], &few].concat(), folder.path())).unwrap();
    let cells = result["cells"].as_array().unwrap();
    assert_eq!(cells[1]["axes"]["cc"], "newreno{min_ssthresh=2}");
    assert_ne!(cells[1]["measured"], cells[2]["measured"], "{cells:?}");
    let sweep = ["sweep", "train-tunnels", "--set", "flow.*.cc=cubic,newreno{min_ssthresh=20}"];
    let swept: Value = serde_json::from_str(&ok(&[&sweep[..], &few].concat(), folder.path())).unwrap();
    assert_eq!(swept["cells"][1]["measured"], cells[2]["measured"]);
    for (cc, said) in [
        ("cubic,avoca{rss_treshold=-110}", "did you mean `rss_threshold`?"),
        ("cubic,cubic{rss_threshold=-110}", "rss_threshold"),
        ("cubic,avoca{rss_threshold}", "name{key=value,...}"),
        ("cubic,avocado{a=1}", "did you mean `avoca`?"),
    ] {
        let out = roughlink_in(&["compare", "train-tunnels", "--cc", cc], folder.path());
        assert!(code(&out) == 2 && stderr(&out).contains(said), "{cc}: {}", stderr(&out));
    }
}

/// Two of five runs decide hardly anything, and an undecided claim does not count as a miss.
#[test]
fn undecided_claims_are_not_misses() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "reproduce",
        "v2g",
        "fig4",
        "--quick",
        "--stack",
        "ns3",
        "--replicas",
        "1",
        "--only",
        "loss=5 %",
        "--set",
        "axis.cc.values=newreno,illinois",
        "--set",
        "flow.*.bytes=1 MB",
        "--quiet",
        "--strict",
    ];
    let out = roughlink_in(&args, folder.path());
    // Lines break between words.
    let text = stdout(&out).split_whitespace().collect::<Vec<_>>().join(" ");
    let said = stderr(&out);
    assert!(
        text.contains("undecided") && text.contains("A single run of a random scenario has no confidence interval"),
        "{text}"
    );
    assert!(!text.contains("not confirmed"), "{text}");
    assert!(said.contains("claims are undecided") && !said.contains("times more throughput"), "{said}");
}

#[test]
fn tables_fit_80_columns() {
    let folder = tempfile::tempdir().unwrap();
    let fits = |args: &[&str]| {
        let text = ok(args, folder.path());
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{args:?}: {} columns:\n{line}\n{text}", line.chars().count());
        }
        text
    };
    let few = ["--quiet", "--replicas", "2"];
    for (scenario, set) in [
        ("hello", "flow.*.bytes=1 MB"),
        ("charging-session", "flow.session.charge=1 s"),
        ("hdplc-home", "duration=3 s"),
        ("train-tunnels", "duration=20 s"),
        ("satellite-handover", "duration=34 s"),
    ] {
        let set = ["--set", set];
        let run = fits(&[&["run", scenario][..], &set, &["--quiet"]].concat());
        // Values are not broken: the unit stays with its number.
        assert!(run.lines().all(|l| !matches!(l.trim(), "ms" | "s" | "MB" | "kB")), "{run}");
        let compared =
            fits(&[&["compare", scenario, "--cc", "newreno,cubic,avoca{rss_threshold=-110}"][..], &set, &few].concat());
        assert!(compared.contains("avoca{rss_threshold=-110}"), "{compared}");
        fits(
            &[&["sweep", scenario, "--set", "tcp.cc=newreno,cubic", "--set", "tcp.delayed_ack=1,2"][..], &set, &few]
                .concat(),
        );
    }
    fits(&[
        "reproduce",
        "v2g",
        "fig4",
        "fig8a",
        "--quick",
        "--only",
        "cc=newreno,illinois",
        "--set",
        "flow.*.bytes=1 MB",
        "--quiet",
    ]);
    fits(&["cc", "list"]);
    fits(&["gateway", "list"]);
}
