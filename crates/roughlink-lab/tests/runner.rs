//! The runner and its store: finished runs are kept, missing runs are executed, and results do not change.

use roughlink_lab::experiment::{Experiment, ExperimentPlan, file};
use roughlink_lab::library::ScenarioText;
use roughlink_lab::runner::{self, Failed, GridEnd, GridProgress, Job, Stop};
use roughlink_lab::store::{RUNS, Store};
use std::collections::BTreeMap;
use std::sync::Mutex;
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
    let whole = plan.result(&store).unwrap();
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
        assert_eq!(plan.result(&store).unwrap(), whole, "{kept} bytes kept");
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

#[test]
fn late_runs_are_repeated() {
    let plan = plan(1);
    let (folder, late) = (tempfile::tempdir().unwrap(), Mutex::new(BTreeMap::new()));
    // Each run is late the first `n` times.
    let executor = |n: u32| {
        let late = &late;
        move |job: &Job, stop: Stop<'_>| {
            let mut late = late.lock().unwrap();
            let times: &mut u32 = late.entry(job.key.clone()).or_default();
            *times += 1;
            if *times > n { runner::simulate(job, stop) } else { Err(Failed::Late("a packet was late".into())) }
        }
    };
    let runs = plan.runs();
    let mut store = Store::open(folder.path()).unwrap();
    let mut repeated = 0;
    let stop = AtomicBool::new(false);
    let mut by = |n, store: &mut Store| {
        let mut report = |p: GridProgress| repeated = p.repeated;
        let ended = runner::run_by(&executor(n), plan.jobs(), store, 2, &stop, &mut report);
        late.lock().unwrap().clear();
        (ended, repeated)
    };
    let (ended, repeated) = by(4, &mut store);
    let message = ended.unwrap_err().to_string();
    assert!(
        message.contains("replica 0: all 4 attempts failed: a packet was late; 7 other runs failed, too"),
        "{message}"
    );
    assert_eq!((store.len(), repeated), (0, runs));
    let (ended, repeated) = by(3, &mut store);
    assert_eq!((ended.unwrap(), store.len(), repeated), (GridEnd::Complete, runs, runs));
}
