//! Grids in parts: the runs of each part, and merging.

use roughlink_lab::error::LabError;
use roughlink_lab::experiment::ExperimentPlan;
use roughlink_lab::experiment::grid::{Grid, compare, sweep};
use roughlink_lab::experiment::order::MAX_RUNS;
use roughlink_lab::folder;
use roughlink_lab::library::ScenarioText;
use roughlink_lab::part::{self, DESCRIPTION, GridPart, merge};
use roughlink_lab::runner::{self, ENGINE, GridEnd};
use roughlink_lab::store::{self, IDENTITY, RUNS, Store};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// A link with random noise, whose rate comes from the file `rates.csv`.
const TRACED: &str = r#"
duration = "1 s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "l"
between = ["a", "b"]
rate = "2 Mbit/s"
delay = "5 ms"
noise = { kind = "random", loss = "2 %" }
timeline = { file = "rates.csv" }
[[flow]]
name = "f"
kind = "bulk"
from = "a"
to = "b"
"#;

fn grid_part(text: &str) -> GridPart {
    text.parse().unwrap()
}

fn plan(replicas: u32) -> ExperimentPlan {
    let vary: [(String, Vec<String>); 2] = [
        ("tcp.cc".into(), vec!["newreno".into(), "cubic".into(), "bbr".into()]),
        ("flow.*.bytes".into(), vec!["100 kB".into()]),
    ];
    sweep(ScenarioText::scenario("v2g-one-car").unwrap(), &vary, &Grid { replicas, ..Grid::default() }).unwrap()
}

/// Describes a part in a folder and executes its runs.
fn work(plan: &ExperimentPlan, part: &str, folder: &Path) {
    let mut store = part::open(plan, folder).unwrap();
    grid_part(part).describe(plan, &store).unwrap();
    let jobs = plan.jobs_at(grid_part(part).numbers(plan.runs()));
    let ending = runner::run(jobs, &mut store, 1, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!(ending, GridEnd::Complete);
}

fn run_all(plan: &ExperimentPlan, folder: &Path) -> Store {
    let mut store = part::open(plan, folder).unwrap();
    runner::run(plan.jobs(), &mut store, 2, &AtomicBool::new(false), &mut |_| {}).unwrap();
    store
}

fn refused(folders: &[PathBuf], output: &Path) -> String {
    let e = merge(folders, output, MAX_RUNS).unwrap_err();
    format!("{e}; {}", e.help().unwrap_or_default())
}

#[test]
fn parts_divide_the_runs_evenly() {
    for (runs, parts) in [(0, 1), (1, 3), (7, 3), (20, 20), (61, 20)] {
        let mut all = BTreeSet::new();
        let mut sizes = BTreeSet::new();
        for number in 1..=parts {
            let numbers: Vec<usize> = grid_part(&format!("{number}/{parts}")).numbers(runs).collect();
            sizes.insert(numbers.len());
            numbers.iter().for_each(|n| assert!(all.insert(*n), "run {n} is in two parts"));
        }
        assert_eq!(all, (0..runs).collect(), "{runs} runs in {parts} parts");
        assert!(sizes.last().unwrap() - sizes.first().unwrap() <= 1, "{sizes:?}");
    }
    for (text, says) in [
        ("0/20", "unknown part `0/20`"),
        ("21/20", "unknown part `21/20`"),
        ("1/0", "no parts"),
        ("3", "`3` is not a part"),
        ("a/b", "`a/b` is not a part"),
        ("-1/2", "`-1/2` is not a part"),
    ] {
        let e = text.parse::<GridPart>().unwrap_err();
        assert!(e.to_string().contains(says), "{e}");
    }
}

#[test]
fn merged_parts_equal_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(3);
    let alone = run_all(&plan, &dir.path().join("whole"));
    let parts: Vec<PathBuf> = (1..=4).map(|n| dir.path().join(n.to_string())).collect();
    for (n, folder) in parts.iter().enumerate() {
        work(&plan, &format!("{}/4", n + 1), folder);
    }
    // A run that two parts have is merged once.
    work(&plan, "1/2", &parts[3]);
    let merged = merge(&parts, &dir.path().join("merged"), MAX_RUNS).unwrap();
    merged.complete().unwrap();
    assert_eq!(merged.store.len(), 9);
    assert_eq!(merged.plan.result(&merged.store).unwrap(), plan.result(&alone).unwrap());
    for job in plan.jobs() {
        let key = job.unwrap().key;
        assert!(roughlink_lab::part::equal(
            &alone.get(&key).unwrap().unwrap(),
            &merged.store.get(&key).unwrap().unwrap()
        ));
    }
}

#[test]
fn missing_runs_are_reported_with_their_parts() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(2);
    let parts = [dir.path().join("1"), dir.path().join("3")];
    work(&plan, "1/4", &parts[0]);
    work(&plan, "3/4", &parts[1]);
    let merged = merge(&parts, &dir.path().join("merged"), MAX_RUNS).unwrap();
    let said = merged.complete().unwrap_err().to_string();
    assert!(said.contains("3 of 6 runs are missing, in parts 2,4 of 4:\n"), "{said}");
    assert!(said.contains("\n  sweep-v2g-one-car newreno replica 1"), "{said}");
    // A sweep of the scenario continues with the merged runs.
    drop(merged);
    let again = run_all(&plan, &dir.path().join("merged"));
    assert_eq!(again.len(), 6);
}

/// An unfinished folder can be read even while another process uses it.
#[test]
fn unfinished_folders_can_be_read() {
    let root = tempfile::tempdir().unwrap();
    let (plan, path) = (plan(2), root.path().join("part"));
    work(&plan, "2/2", &path);
    let busy = Store::open(&path).unwrap();
    assert_eq!(folder::kind(&path).unwrap(), folder::FolderKind::Unfinished);
    let (read, records) = folder::unfinished(&path, MAX_RUNS).unwrap();
    assert_eq!((read.identity().to_string(), read.runs(), records.len()), (plan.identity().to_string(), 6, 3));
    let (result, again) = (plan.result(&busy).unwrap(), read.result(&records).unwrap());
    assert_eq!(again, result);
    assert_eq!(again.cells.iter().map(|cell| cell.replicas).collect::<Vec<_>>(), [1, 1, 1]);
    assert!(folder::read(&path).is_err(), "there is nothing to report yet");
}

/// Statistics of fewer replicas are removed first; the folder is unfinished until all runs are done.
#[test]
fn sweep_continued_with_more_replicas_is_unfinished() {
    let root = tempfile::tempdir().unwrap();
    let (few, many, path) = (plan(1), plan(2), root.path().join("out"));
    folder::finish(&few, &run_all(&few, &path), "test", drop).unwrap();
    assert_eq!(folder::kind(&path).unwrap(), folder::FolderKind::Grid);
    // Repeating the sweep with the same replicas loses nothing.
    drop(run_all(&few, &path));
    assert!(matches!(folder::read(&path), Ok(folder::FolderContent::Grid(_))) && path.join(store::RUNS_TABLE).exists());
    work(&many, "2/3", &path);
    for name in [store::RESULTS, store::RUNS_TABLE, store::REPORT] {
        assert!(!path.join(name).exists(), "{name} is of fewer replicas");
    }
    assert!(matches!(folder::read(&path), Err(LabError::NotFound { .. })), "there is nothing to report yet");
    assert_eq!(folder::kind(&path).unwrap(), folder::FolderKind::Unfinished);
    let (read, records) = folder::unfinished(&path, MAX_RUNS).unwrap();
    assert_eq!((read.runs(), records.len()), (6, 4));
    assert_eq!(read.result(&records).unwrap().cells.iter().map(|cell| cell.replicas).collect::<Vec<_>>(), [2, 1, 1]);
    // A folder with results of a paper does not change.
    let paper = root.path().join("paper");
    drop(Store::open(&paper).unwrap());
    fs::write(paper.join(store::RESULTS), "{}").unwrap();
    assert!(matches!(part::open(&few, &paper), Err(LabError::Usage { .. })));
    assert!(paper.join(store::RESULTS).exists());
}

/// A folder takes other values of the same keys, other metrics and other replicas, and reuses its runs.
#[test]
fn sweep_is_extended_in_its_folder() {
    let planned = |scenario: &str, key: &str, values: &[&str], replicas, metric: &str| {
        let vary = [(key.to_owned(), values.iter().map(|v| (*v).to_owned()).collect())];
        let set = vec![("flow.*.bytes".to_owned(), "100 kB".to_owned())];
        let grid = Grid { set, replicas, metrics: vec![metric.to_owned()], ..Grid::default() };
        sweep(ScenarioText::scenario(scenario).unwrap(), &vary, &grid).unwrap()
    };
    let run = |plan: &ExperimentPlan, folder: &Path| {
        let mut store = part::open(plan, folder)?;
        part::describe(plan, &store)?;
        let mut kept = 0;
        runner::run(plan.jobs(), &mut store, 1, &AtomicBool::new(false), &mut |p| kept = p.kept)?;
        Ok::<_, LabError>((kept, folder::finish(plan, &store, "test", drop)?.0))
    };
    let root = tempfile::tempdir().unwrap();
    let (path, fresh) = (root.path().join("out"), root.path().join("fresh"));
    let key = "link.wire.rate";
    run(&planned("hello", key, &["5 Mbit/s", "10 Mbit/s"], 3, "throughput_mbps"), &path).unwrap();
    let more = planned("hello", key, &["5 Mbit/s", "10 Mbit/s", "20 Mbit/s"], 2, "timeouts");
    let (kept, result) = run(&more, &path).unwrap();
    assert_eq!((kept, result.cells.len()), (4, 3));
    assert_eq!(result.cells, run(&more, &fresh).unwrap().1.cells);
    assert_eq!(folder::grid(&path).unwrap().experiments[0].cells, result.cells);
    // The first sweep has all its runs still.
    let first = planned("hello", key, &["5 Mbit/s", "10 Mbit/s"], 3, "throughput_mbps");
    assert_eq!(run(&first, &path).unwrap().0, 6);
    for other in [
        planned("hello", "link.wire.delay", &["5 ms", "10 ms"], 3, "throughput_mbps"),
        planned("v2g-one-car", "link.plc.rate", &["5 Mbit/s", "10 Mbit/s"], 3, "throughput_mbps"),
    ] {
        let said = run(&other, &path).unwrap_err().to_string();
        assert!(said.ends_with("has the results of another experiment"), "{said}");
    }
}

#[test]
fn parts_of_different_sweeps_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let folder = |name: &str| dir.path().join(name);
    work(&plan(2), "1/2", &folder("1"));
    work(&plan(2), "2/2", &folder("2"));
    work(&plan(3), "2/2", &folder("other"));
    let out = folder("out");
    let said = refused(&[folder("1"), folder("other")], &out);
    assert!(said.contains("have runs of different experiments"), "{said}");
    let said = refused(&[folder("1"), folder("nowhere")], &out);
    assert!(said.contains("unknown part of a sweep `"), "{said}");
    assert!(!folder("nowhere").exists(), "it was only looked for");
    let said = refused(&[folder("1"), folder("2")], &folder("2"));
    assert!(said.contains("is one of the parts"), "{said}");

    let busy = Store::open(&folder("2")).unwrap();
    assert!(matches!(merge(&[folder("1"), folder("2")], &out, MAX_RUNS), Err(LabError::InUse { .. })));
    drop(busy);

    // A part of another engine.
    let path = folder("2").join(DESCRIPTION);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(ENGINE, "0.0.9+0123")).unwrap();
    let said = refused(&[folder("1"), folder("2")], &out);
    assert!(said.contains("was made by roughlink 0.0.9+0123, but this is"), "{said}");
    // A part without a description uses the description of another part.
    fs::remove_file(&path).unwrap();
    merge(&[folder("1"), folder("2"), folder("1")], &out, MAX_RUNS).unwrap().complete().unwrap();
    fs::remove_file(folder("1").join(DESCRIPTION)).unwrap();
    let said = refused(&[folder("1"), folder("2")], &out);
    assert!(said.contains("none of the folders has plan.json"), "{said}");
}

/// In a large grid, most scenarios and their files are read just before their runs.
#[test]
fn files_read_during_the_sweep_are_described_at_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let (home, path) = (dir.path().join("home"), dir.path().join("part"));
    fs::create_dir(&home).unwrap();
    fs::write(home.join("s.toml"), TRACED.replace("1 s", "10 ms")).unwrap();
    let names: Vec<String> = (0..1002).map(|n| format!("{n}.csv")).collect();
    for (n, name) in names.iter().enumerate().chain([(0, &"rates.csv".to_owned())]) {
        fs::write(home.join(name), format!("time_s,rate_mbps\n0,{}\n", 2 + n)).unwrap();
    }
    let source = ScenarioText::scenario(home.join("s.toml").to_str().unwrap()).unwrap();
    let vary = [("link.l.timeline.file".to_owned(), names)];
    let plan = sweep(source, &vary, &Grid { replicas: 1, ..Grid::default() }).unwrap();
    let mut store = part::open(&plan, &path).unwrap();
    let mut description = grid_part("1002/1002").describe(&plan, &store).unwrap();
    let jobs = plan.jobs_at([0, 1001].into_iter());
    runner::run(jobs, &mut store, 1, &AtomicBool::new(false), &mut |_| {}).unwrap();
    fs::remove_dir_all(&home).unwrap(); // as on another machine
    let said = folder::unfinished(&path, MAX_RUNS).unwrap_err().to_string();
    assert!(said.contains("1 of 2 finished runs") && said.contains("use files that plan.json"), "{said}");
    // `sweep` calls `renew` at its end, even if it was stopped. Cell 1000 has no run, so its file was never read.
    description.renew(&plan, &store).unwrap();
    let (read, records) = folder::unfinished(&path, MAX_RUNS).unwrap();
    assert_eq!((read.runs(), records.len()), (1002, 2));
    assert_eq!(read.result(&records).unwrap().cells.iter().map(|cell| cell.replicas).sum::<u32>(), 2);
}

/// The key of a run beyond the first cells is known before its files are read.
#[test]
fn a_run_does_not_get_the_key_of_a_file_that_has_changed() {
    let home = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(home.path().join(name), text).unwrap();
    write("s.toml", TRACED);
    write("rates.csv", "time_s,rate_mbps\n0,2\n");
    let source = ScenarioText::scenario(home.path().join("s.toml").to_str().unwrap()).unwrap();
    let seeds = [("seed".to_owned(), (0..1002).map(|n| n.to_string()).collect::<Vec<_>>())];
    let plan = sweep(source, &seeds, &Grid { replicas: 2, ..Grid::default() }).unwrap();
    let mut jobs = plan.planned_jobs_at(2002..2004).map(Result::unwrap);
    assert!(jobs.next().unwrap().read().is_ok());
    write("rates.csv", "time_s,rate_mbps\n0,3\n");
    let other = plan.planned_jobs_at(2000..2001).map(Result::unwrap).next().unwrap();
    let said = other.read().unwrap_err().to_string();
    assert!(said.contains("s.toml` reads has changed during the sweep"), "{said}");
}

/// A folder may come from another user, so its plan is checked.
#[test]
fn plan_is_checked_against_the_run_limit_and_the_stored_runs() {
    let root = tempfile::tempdir().unwrap();
    let (path, out) = (root.path().join("part"), root.path().join("out"));
    work(&plan(2), "1/2", &path);
    let written: serde_json::Value = serde_json::from_slice(&fs::read(path.join(DESCRIPTION)).unwrap()).unwrap();
    let keys = ["link.plc.rate", "link.plc.delay", "flow.*.bytes"];
    let varied: Vec<_> = keys.map(|key| (key, (0..1000).map(|n| n.to_string()).collect::<Vec<_>>())).into();
    let write = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut plan = written.clone();
        plan["grid"]["most_runs"] = u64::MAX.into();
        change(&mut plan);
        fs::write(path.join(DESCRIPTION), plan.to_string()).unwrap();
    };
    let both = |most: u64| {
        let read = folder::unfinished(&path, most).err().map(|e| format!("{e}; {}", e.help().unwrap()));
        let merged =
            merge(std::slice::from_ref(&path), &out, most).err().map(|e| format!("{e}; {}", e.help().unwrap()));
        assert_eq!(read, merged);
        read.unwrap_or_default()
    };
    write(&|plan| plan["kind"]["sweep"]["vary"] = serde_json::json!(varied));
    assert!(
        both(MAX_RUNS)
            .contains("plan.json` describes 2000000000 runs, more than 1000000; allow all with --max-runs 2000000000")
    );
    write(&|plan| plan["grid"]["replicas"] = u32::MAX.into());
    assert!(both(MAX_RUNS).contains("plan.json` describes 12884901885 runs, more than 1000000"));
    // More runs than fit in 128 bits.
    let huge: Vec<_> = (0..50).map(|n| (n.to_string(), &varied[0].1)).collect();
    write(&|plan| plan["kind"]["sweep"]["vary"] = serde_json::json!(huge));
    assert!(both(u64::MAX).contains("plan.json` describes 340282366920938463463374607431768211455 runs, more than"));
    // A plan of other runs than those in the folder.
    write(&|plan| plan["grid"]["seed"] = 7.into());
    assert!(both(MAX_RUNS).contains("plan.json` does not match the runs in its folder"));
    assert!(!out.exists(), "nothing was merged");
    write(&|_| {});
    assert!(both(5).contains("plan.json` describes 6 runs, more than 5; allow all with --max-runs 6"));
    let (read, records) = folder::unfinished(&path, 6).unwrap();
    assert_eq!((read.runs(), records.len()), (6, 3));
    fs::remove_file(path.join(IDENTITY)).unwrap();
    assert!(folder::unfinished(&path, 6).is_err(), "of what they are is not known");
}

#[test]
fn runs_that_differ_are_refused_and_damaged_ones_are_missing() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [dir.path().join("1"), dir.path().join("2")];
    let plan = plan(1);
    work(&plan, "1/1", &parts[0]);
    work(&plan, "1/1", &parts[1]);
    // Records with another wall-clock time are equal, those with another result differ; both have valid checksums.
    let mut store = Store::open(&parts[1]).unwrap();
    let key = plan.jobs().next().unwrap().unwrap().key;
    let mut record = store.get(&key).unwrap().unwrap();
    record.result.wall_s += 1.0;
    store.append(&record).unwrap();
    drop(store);
    merge(&parts, &dir.path().join("same"), MAX_RUNS).unwrap().complete().unwrap();
    let mut store = Store::open(&parts[1]).unwrap();
    record.result.events += 1;
    store.append(&record).unwrap();
    drop(store);
    let said = refused(&parts, &dir.path().join("merged"));
    assert!(said.contains("have different results of sweep-v2g-one-car newreno replica 0"), "{said}");

    let path = parts[0].join(RUNS);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"replica\":0", "\"replica\":7", 1)).unwrap();
    let merged = merge(&parts[..1], &dir.path().join("damaged"), MAX_RUNS).unwrap();
    assert_eq!((merged.damage.len(), merged.missing.len()), (1, 1));
}

#[test]
fn parts_carry_the_files_of_their_scenarios() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("s.toml"), TRACED).unwrap();
    fs::write(home.join("rates.csv"), "time_s,rate_mbps\n0,2\n0.4,1\n").unwrap();
    fs::write(home.join("t.toml"), TRACED.replace("5 ms", "9 ms")).unwrap();
    let source = |name: &str| ScenarioText::scenario(home.join(name).to_str().unwrap()).unwrap();
    let grid = Grid { replicas: 2, ..Grid::default() };
    let plan = compare(vec![source("s.toml"), source("t.toml")], &["cubic".into(), "bbr".into()], &[], &grid).unwrap();
    let parts = [dir.path().join("1"), dir.path().join("2")];
    work(&plan, "1/2", &parts[0]);
    work(&plan, "2/2", &parts[1]);
    let alone = run_all(&plan, &dir.path().join("whole"));
    fs::remove_dir_all(&home).unwrap(); // as on another machine
    let merged = merge(&parts, &dir.path().join("merged"), MAX_RUNS).unwrap();
    merged.complete().unwrap();
    assert_eq!(merged.plan.result(&merged.store).unwrap(), plan.result(&alone).unwrap());
    let text = fs::read_to_string(parts[0].join(DESCRIPTION)).unwrap();
    assert!(text.contains("0.4,1"), "{text}");
}
