//! The runner and its store: finished runs are kept, missing runs are executed, and results do not change.

use roughlink_lab::experiment::{Experiment, ExperimentPlan, file};
use roughlink_lab::library::ScenarioText;
use roughlink_lab::runner::{self, GridEnd};
use roughlink_lab::store::{RUNS, Store};
use std::sync::atomic::{AtomicBool, Ordering};

const GRID: &str = r#"
title = "t"
place = "p"
scenario = "v2g-one-car"
replicas = 3
metrics = ["throughput_mbps", "timeouts", "loss", "cwnd_mean_pkt"]

[set]
"flow.download.bytes" = "200 kB"

[[axis]]
name = "loss"
key = "link.plc.noise.mean"
values = ["1 %", "5 %"]

[[axis]]
name = "cc"
key = "tcp.cc"
values = ["newreno", "cubic"]

[curves]
values = ["sequence_mb"]
every = "0.1 s"
"#;

fn plan(replicas: u32) -> ExperimentPlan {
    let source = ScenarioText { name: "test.toml".into(), text: GRID.into(), folder: None };
    ExperimentPlan::new(Experiment { replicas, ..file::experiment(&source, "test/grid", false).unwrap() }).unwrap()
}

fn run(plan: &ExperimentPlan, store: &mut Store, threads: usize) -> GridEnd {
    runner::run(plan.jobs(), store, threads, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// Number of runs with three replicas: stacks, losses, algorithms, replicas.
const RUNS_OF_THREE: usize = 2 * 2 * 2 * 3;

#[test]
fn threads_and_interruptions_change_nothing() {
    let plan = plan(3);
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    assert_eq!(run(&plan, &mut store, 1), GridEnd::Complete);
    let whole = plan.result(&store);
    assert_eq!(store.len(), RUNS_OF_THREE);
    assert!(whole.cells.iter().all(|c| c.replicas == 3), "{whole:?}");
    for curve in &whole.curves {
        let end = curve.y.last().copied().flatten().unwrap();
        assert!((end - 0.2).abs() < 1e-9, "all arrives in the end: {end}");
        assert!(curve.y.is_sorted(), "{curve:?}");
    }

    // Truncate the file, as a kill could.
    let text = std::fs::read(folder.path().join(RUNS)).unwrap();
    for kept in [0, 1, text.len() / 3, text.len() / 2, text.len() - 1] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(RUNS), &text[..kept]).unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let had = store.len();
        let mut begun = None;
        let mut report = |p: runner::GridProgress| {
            begun.get_or_insert((p.runs, p.kept));
        };
        runner::run(plan.jobs(), &mut store, 2, &AtomicBool::new(false), &mut report).unwrap();
        assert_eq!(begun, Some((RUNS_OF_THREE, had)));
        assert_eq!(plan.result(&store), whole, "{kept} bytes kept");
    }
}

#[test]
fn stop_keeps_finished_runs() {
    let plan = plan(200);
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let stop = AtomicBool::new(false);
    let mut report = |p: runner::GridProgress| stop.store(p.done >= 5, Ordering::Relaxed);
    assert_eq!(runner::run(plan.jobs(), &mut store, 2, &stop, &mut report).unwrap(), GridEnd::Stopped);
    assert!((5..1600).contains(&store.len()), "{}", store.len());
    drop(store);
    let mut store = Store::open(folder.path()).unwrap();
    assert_eq!(run(&plan, &mut store, 2), GridEnd::Complete);
    assert_eq!(store.len(), 1600);
}
