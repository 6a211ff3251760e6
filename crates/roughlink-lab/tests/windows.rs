//! Metrics of a window of time and curves of single flows, on a home power line.

use roughlink_core::metrics::RunResult;
use roughlink_lab::experiment::{ExperimentPlan, file};
use roughlink_lab::library::ScenarioText;
use roughlink_lab::metric::Metric;
use roughlink_lab::runner::{Job, run};
use roughlink_lab::store::{RunRecord, Store};
use std::sync::atomic::AtomicBool;

/// An experiment with two flows, of which the second starts at 5 s.
const TWO: &str = r#"title = "t"
place = "p"
scenario = "plc-2-flows"
metrics = [METRICS]

[set]
duration = "15 s"

[stack.ns2]

[curves]
values = ["throughput_mbps", "awnd_sdu", "delay_ms"]
every = "1 s"
flows = ["flow1", "flow2", "total"]
"#;

fn source(metrics: &[&str]) -> ScenarioText {
    let metrics: Vec<String> = metrics.iter().map(|m| format!("\"{m}\"")).collect();
    ScenarioText { name: "test.toml".into(), text: TWO.replace("METRICS", &metrics.join(", ")), folder: None }
}

fn measured(metrics: &[&str]) -> (ExperimentPlan, RunRecord) {
    let plan = ExperimentPlan::new(file::experiment(&source(metrics), "test/test", false).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let jobs: Vec<Job> = plan.jobs().map(Result::unwrap).collect();
    run(plan.jobs(), &mut store, 1, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let record = store.get(&jobs[0].key).unwrap().unwrap();
    let result = plan.result(&store).unwrap();
    // Each flow has a curve of its throughput, and the total is their sum. Without calls there are no delays.
    let curve = |flow: &str, metric: &str| {
        result.curves.iter().find(|c| c.axes["flow"] == flow && c.metric == metric).map(|c| c.y.clone())
    };
    let rate = |flow| curve(flow, "throughput_mbps").unwrap();
    let [one, two, total] = ["flow1", "flow2", "total"].map(rate);
    for k in 0..total.len() {
        let sum = one[k].unwrap() + two[k].unwrap();
        assert!((total[k].unwrap() - sum).abs() < 1e-9, "{k}");
    }
    assert!(one[4] > Some(5.0) && two[4] == Some(0.0) && two[12] > Some(1.0), "{one:?} {two:?}");
    assert_eq!((curve("flow1", "delay_ms"), curve("total", "awnd_sdu")), (None, None));
    (plan, record)
}

#[test]
fn windows_agree_with_the_whole_run() {
    let names = [
        "throughput_mbps[0..15]@flow1",
        "throughput_mbps[0..15]:sum",
        "throughput_mbps[0..5]@flow2",
        "queue_mean_pkt[0..15]@plc",
        "queue_max_pkt[0..15]@plc",
        "queue_p95_pkt[0..15]@plc",
        "dropped[0..15]@plc",
        "retransmits[0..15]:sum",
        "awnd_over_sample[6..15]:max",
        "awnd_cv[6..15]@flow1",
        "queue_share[1..4]@flow1",
        "jain[6..15]",
        "jain_min_10s[0..15]",
        "delay_p99_ms[0..15]",
        "segments[0..15]:sum",
    ];
    let (_, record) = measured(&names);
    let value = |name: &str| Metric::new(name).unwrap().value(&record);
    let number = |name: &str| value(name).unwrap_or_else(|| panic!("{name}"));
    let r: &RunResult = &record.result;
    let delivered = |i: usize| r.flows[i].delivered_bytes as f64 * 8e-6 / 15.0;
    // Deliveries are counted at events of the sender, so the count lags by the delay of an acknowledgment at the end.
    let lags = |got: f64, all: f64| (0.98 * all..=all).contains(&got);
    assert!(lags(number(names[0]), delivered(0)), "{} of {}", number(names[0]), delivered(0));
    assert!(lags(number(names[1]), delivered(0) + delivered(1)), "{}", number(names[1]));
    assert_eq!(value(names[2]), Some(0.0), "it starts at 5 s");
    let plc = &r.links.iter().find(|l| l.name == "plc").unwrap().forward;
    assert!((number(names[3]) - plc.queue_mean_pkt).abs() < 1.0, "{} for {}", number(names[3]), plc.queue_mean_pkt);
    assert!((number(names[4]) - f64::from(plc.queue_max_pkt)).abs() <= 1.0);
    assert!(number(names[3]) < number(names[5]) && number(names[5]) <= number(names[4]));
    assert_eq!(number(names[6]), plc.dropped as f64);
    assert_eq!(number(names[7]), r.flows.iter().map(|f| f.retransmits).sum::<u64>() as f64);
    assert!(number(names[8]) < 1.05 && number(names[9]) > 0.0, "the scheme bounds windows, and moves them");
    assert_eq!(value(names[10]), Some(1.0), "alone");
    assert!((0.5..=1.0).contains(&number(names[11])) && number(names[12]) <= 1.0);
    assert_eq!(value(names[13]), None, "nobody calls");
    assert_eq!(number(names[14]), r.flows.iter().map(|f| f.segments).sum::<u64>() as f64);
}

#[test]
fn errors_in_windows_are_explained() {
    for (name, help) in [
        ("queue_p95_pkt@plc", "add a window"),
        ("queue_p59_pkt[1..2]@plc", "did you mean `queue_p95_pkt`?"),
        ("jain[2..1]", "it ends before it begins"),
        ("jain[2]", "a window has two ends"),
        ("jain[1..2]:min", "`jain` is one number for the whole run"),
        ("queue_p95_pkt[1..2]:median", "did you mean `mean`?"),
    ] {
        let error = format!("{:?}", Metric::new(name).unwrap_err());
        assert!(error.contains(help), "{name}: {error}");
    }
    for (metric, what) in
        [("queue_p95_pkt[1..2]@plcc", "unknown link `plcc`"), ("awnd_cv[1..2]@flow3", "unknown flow `flow3`")]
    {
        let experiment = file::experiment(&source(&[metric]), "test/test", false).unwrap();
        let error = ExperimentPlan::new(experiment).map(|_| ()).expect_err(metric).to_string();
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn windows_are_part_of_a_runs_key() {
    let keys = |metrics: &[&str]| {
        let plan = ExperimentPlan::new(file::experiment(&source(metrics), "test/test", false).unwrap()).unwrap();
        plan.jobs().next().unwrap().unwrap().key
    };
    assert_ne!(keys(&["jain[1..2]"]), keys(&["jain[1..3]"]));
    assert_eq!(keys(&["jain[1..2]"]), keys(&["jain[1..2]", "sim_s"]));
}
