//! Statistics over the replicas of a cell: differences within replicas, medians if runs end too early, percentiles,
//! windows that end with the run.

use roughlink_lab::experiment::ExperimentPlan;
use roughlink_lab::experiment::grid::{Grid, compare, sweep};
use roughlink_lab::experiment::result::{Cell, ExperimentResult};
use roughlink_lab::experiment::table::CellValues;
use roughlink_lab::library::ScenarioText;
use roughlink_lab::{part, runner};
use std::sync::atomic::AtomicBool;

const NOISE: &str = r#"{ kind = "burst", start = "0.5 %", length = [1, 4] }"#;

fn grid(replicas: u32, duration: &str, metrics: &[&str]) -> Grid {
    let set = [("link.wire.noise", NOISE), ("flow.*.bytes", "2 MB"), ("duration", duration)];
    Grid {
        set: set.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        replicas,
        metrics: metrics.iter().map(|m| (*m).to_owned()).collect(),
        ..Grid::default()
    }
}

fn hello() -> ScenarioText {
    ScenarioText::scenario("hello").unwrap()
}

fn done(plan: &ExperimentPlan) -> (ExperimentResult, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let mut store = part::open(plan, folder.path()).unwrap();
    runner::run(plan.jobs(), &mut store, 2, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let columns = plan.columns(&store).unwrap();
    assert!(columns.iter().all(|c| !matches!(&c.values, CellValues::Real(v) if v.iter().all(|x| x.is_nan()))));
    (plan.result(&store).unwrap(), columns.into_iter().map(|c| c.name).collect())
}

fn cell(duration: &str, metric: &str) -> Cell {
    let mut result = done(&sweep(hello(), &[], &grid(10, duration, &[metric])).unwrap()).0;
    result.cells.remove(0)
}

#[test]
fn key_without_effect_has_zero_difference() {
    let names = [("name".to_owned(), vec!["one".to_owned(), "two".to_owned()])];
    let plan = compare(vec![hello()], &[], &names, &grid(6, "60 s", &["throughput_mbps"])).unwrap();
    let result = done(&plan).0;
    let [only] = result.compared.as_slice() else { panic!("{:?}", result.compared) };
    assert!(result.cells[0].ci95 > Some(0.0), "the runs differ: {:?}", result.cells[0]);
    assert_eq!((only.difference, only.interval, only.pairs), (Some(0.0), Some([0.0; 2]), 6));
    assert_eq!((only.axes["name"].as_str(), only.is_significant()), ("two", Some(false)));
    assert_eq!(result.scenario_stacks, ["linux"]);
}

#[test]
fn unfinished_transfers_give_a_median_or_its_bound() {
    let all = cell("60 s", "duration_s");
    let mut sorted = all.samples.clone();
    sorted.sort_by(f64::total_cmp);
    assert_eq!((sorted.len(), all.quantile, all.measured.is_some()), (10, None, true));
    let between = |n: usize| format!("{} s", (((sorted[n - 1] + sorted[n]) / 2.0) * 1e6).round() / 1e6);
    // Three of ten runs finish: the only known bound of the median is the end of the run.
    let few = cell(&between(3), "duration_s");
    let end = few.at_least[0];
    assert_eq!((few.samples.len(), few.at_least.len(), few.measured, few.ci95), (3, 7, None, None));
    assert_eq!((few.quantile, few.bound), (Some(0.5), Some(end)));
    assert!(sorted[2] < end && end < sorted[3], "{few:?} {sorted:?}");
    // Eight of ten runs finish: the median of all ten is known, but not the upper end of its interval.
    let most = cell(&between(8), "duration_s");
    assert_eq!((most.samples.len(), most.bound, most.ci95), (8, None, None));
    assert_eq!(most.measured, Some((sorted[4] + sorted[5]) / 2.0));
    assert_eq!(most.interval, Some([sorted[1], f64::INFINITY]));
    let json = serde_json::to_value(&most).unwrap();
    assert_eq!(json["interval"], serde_json::json!([sorted[1], null]));
    assert_eq!(serde_json::from_value::<Cell>(json).unwrap(), most);
}

#[test]
fn percentiles_of_the_runs_are_metrics() {
    let metrics = ["duration_s", "duration_s:p50", "duration_s:p90", "throughput_mbps[0..1]:p50"];
    let (result, columns) = done(&sweep(hello(), &[], &grid(10, "60 s", &metrics)).unwrap());
    let mut sorted = result.cells[0].samples.clone();
    sorted.sort_by(f64::total_cmp);
    let [_, p50, p90, window] = result.cells.as_slice() else { panic!("{:?}", result.cells) };
    assert_eq!((p50.quantile, p50.measured), (Some(0.5), Some((sorted[4] + sorted[5]) / 2.0)));
    assert_eq!(p50.interval, Some([sorted[1], sorted[8]]), "the second to the ninth of ten (sign test)");
    assert!((p90.measured.unwrap() - (0.9 * sorted[8] + 0.1 * sorted[9])).abs() < 1e-12 && p90.interval.is_none());
    assert_eq!(window.samples.len(), 10);
    assert_eq!(result.metrics[1].label, "Duration, median of the runs");
    assert_eq!(columns.iter().filter(|name| name.starts_with("duration_s")).count(), 1, "{columns:?}");
    let refused = |name: &str| sweep(hello(), &[], &grid(1, "60 s", &[name])).unwrap_err().to_string();
    assert!(refused("duration_s:p0").contains("duration_s:p0") && refused("duration_s:p50:p50").contains("p50"));
}

#[test]
fn windows_end_with_the_run_and_the_flow() {
    let plan = |metric: &str| sweep(hello(), &[], &Grid { metrics: vec![metric.into()], ..Grid::default() });
    let of = |metric: &str| done(&plan(metric).unwrap()).0.cells.remove(0);
    // The transfer of 10 MB at 10 Mbit/s takes 8.3 s.
    for late in
        ["throughput_mbps[10..30]", "cwnd_mean_pkt[10..60]", "retransmits[10..30]", "queue_mean_pkt[10..30]@wire"]
    {
        assert_eq!((of(late).samples.len(), of(late).measured), (0, None), "{late}");
    }
    let across = of("throughput_mbps[5..20]");
    let mbps = across.measured.unwrap();
    assert!((9.0..10.0).contains(&mbps), "until the flow's end: {mbps}");
    assert_eq!((across.cut, of("throughput_mbps[2..5]").cut, of("throughput_mbps").cut), (across.replicas, 0, 0));
    let refused = plan("throughput_mbps[10..61]").unwrap_err().to_string();
    assert!(refused.contains("ends at 61 s, but the scenario lasts 60 s"), "{refused}");
}
