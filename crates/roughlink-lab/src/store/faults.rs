//! Sweeps with failing writes, with kills, and with flipped bits in their store.

use super::*;
use crate::disk::faults;
use crate::experiment::result::ExperimentResult;
use crate::experiment::{ExperimentPlan, file, table};
use crate::library::ScenarioText;
use crate::runner::{self, GridProgress};
use roughlink_core::rng::Seed;
use std::sync::atomic::AtomicBool;

const GRID: &str = r#"
title = "t"
place = "p"
scenario = "v2g-one-car"
replicas = 2
metrics = ["throughput_mbps", "timeouts", "cwnd_mean_pkt"]

[set]
"flow.download.bytes" = "50 kB"

[[axis]]
name = "cc"
key = "tcp.cc"
values = ["newreno", "cubic"]

[curves]
values = ["sequence_mb"]
every = "0.1 s"
"#;

fn plan() -> ExperimentPlan {
    let source = ScenarioText { name: "test.toml".into(), text: GRID.into(), folder: None };
    ExperimentPlan::new(file::experiment(&source, "test/grid", false).unwrap()).unwrap()
}

/// Performs the same steps as `roughlink sweep`. `last` is the progress before a kill, if there is one.
fn sweep(plan: &ExperimentPlan, folder: &Path, last: &mut GridProgress) -> Result<ExperimentResult, LabError> {
    let mut store = Store::open(folder)?;
    store.write(IDENTITY, b"identity\n")?;
    let mut report = |p| {
        if !faults::killed() {
            *last = p;
        }
    };
    runner::run(plan.jobs(), &mut store, 1, &AtomicBool::new(false), &mut report)?;
    let (result, columns) = plan.result_and_columns(&store)?;
    store.write_with(RUNS_TABLE, |file| table::write(&columns, file))?;
    store.write(RESULTS, &serde_json::to_vec(&result).unwrap())?;
    Ok(result)
}

#[test]
fn failed_write_of_a_sweep_loses_no_finished_run() {
    let plan = plan();
    let whole = {
        let folder = tempfile::tempdir().unwrap();
        sweep(&plan, folder.path(), &mut GridProgress::default()).unwrap()
    };
    for killed in [false, true] {
        let mut lines = 0;
        for n in 1.. {
            let folder = tempfile::tempdir().unwrap();
            let dir = folder.path().join("out");
            let mut before = GridProgress::default();
            faults::at(n, killed);
            let outcome = sweep(&plan, &dir, &mut before);
            if faults::end() < n {
                assert_eq!(outcome.unwrap(), whole);
                break;
            }
            match outcome {
                Err(LabError::Write { path, source }) => {
                    lines += usize::from(path.ends_with(RUNS));
                    assert!(path.starts_with(&dir) && source.to_string() == faults::FAULT, "{n}: {path:?} {source}");
                }
                other => panic!("{n}: {other:?}"),
            }
            let mut after = GridProgress::default();
            assert_eq!(sweep(&plan, &dir, &mut after).unwrap(), whole, "{n}");
            assert!(after.kept >= before.done, "no finished run is lost: {n}: {before:?} {after:?}");
            let store = Store::open(&dir).unwrap();
            assert_eq!((store.len(), store.damage()), (plan.runs(), None), "{n}");
        }
        assert!(lines >= plan.runs(), "the lines of runs were among the faults");
    }
}

#[test]
fn flipped_bits_change_no_statistics() {
    let plan = plan();
    let folder = tempfile::tempdir().unwrap();
    let whole = sweep(&plan, folder.path(), &mut GridProgress::default()).unwrap();
    let path = folder.path().join(RUNS);
    let text = fs::read(&path).unwrap();
    let mut random = Seed { seed: 13, replica: 0 }.stream("store", "flips");
    let mut repeated = 0;
    for _ in 0..300 {
        let mut flipped = text.clone();
        let at = random.range(0, text.len() as u64 - 1) as usize;
        flipped[at] ^= 1 << random.range(0, 7);
        fs::write(&path, &flipped).unwrap();
        let damage = Store::open(folder.path()).unwrap().damage().cloned();
        fs::write(&path, &flipped).unwrap();
        let mut progress = GridProgress::default();
        assert_eq!(sweep(&plan, folder.path(), &mut progress).unwrap(), whole, "byte {at}");
        let again = progress.runs - progress.kept;
        assert!(again <= 2, "byte {at}: one line, or two that were joined");
        // The damage is reported, unless only the last line feed is missing.
        assert!(damage.is_some() || at == text.len() - 1, "byte {at}");
        let store = Store::open(folder.path()).unwrap();
        assert_eq!((store.len(), store.damage()), (progress.runs, None), "byte {at}");
        repeated += again;
    }
    assert!(repeated >= 250, "{repeated}");
}
