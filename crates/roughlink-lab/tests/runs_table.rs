//! The runs of an experiment as one table.

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use roughlink_lab::experiment::table::write;
use roughlink_lab::experiment::{ExperimentPlan, file};
use roughlink_lab::library::ScenarioText;
use roughlink_lab::metric::Metric;
use roughlink_lab::runner;
use roughlink_lab::store::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

const EXPERIMENT: &str = r#"title = "t"
place = "p"
scenario = "hello"
replicas = 2
metrics = ["rtt_mean_ms@download", "throughput_mbps", "recovery_s"]
[set]
seed = "7"
duration = "40 s"
"link.wire.timeline" = '[{ at = "1 s", for = "2 s", up = false }]'
[stack.ns3]
[[axis]]
name = "size"
label = "Size"
key = "flow.*.bytes"
values = ["10 kB", "unlimited"]
[[axis]]
name = "loss"
key = "link.wire.noise"
values = ['{ kind = "list", drop = [50] }']
[[axis]]
name = "delay"
key = "link.wire.delay"
values = ["1 ms", "2.5 ms"]
"#;

/// Returns the table of the runs of experiment `text`, its plan and the runs.
fn table(text: String) -> (SerializedFileReader<std::fs::File>, ExperimentPlan, Store) {
    let source = ScenarioText { name: "test.toml".into(), text, folder: None };
    let plan = ExperimentPlan::new(file::experiment(&source, "test/test", false).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    runner::run(plan.jobs(), &mut store, 1, &AtomicBool::new(false), &mut |_| ()).unwrap();
    let path = folder.path().join("runs.parquet");
    write(&plan.columns(&store).unwrap(), std::fs::File::create(&path).unwrap()).unwrap();
    let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    (reader, plan, store)
}

#[test]
fn column_names_are_unique() {
    let text = EXPERIMENT
        .replace("seed = \"7\"\n", "")
        .replace(
            "name = \"delay\"\nkey = \"link.wire.delay\"\nvalues = [\"1 ms\", \"2.5 ms\"]",
            "name = \"seed\"\nkey = \"seed\"\nvalues = [\"1\", \"2\"]",
        )
        .replace("name = \"size\"", "name = \"retransmits\"")
        .replace("\"recovery_s\"]", "\"throughput_mbps\"]")
        .replace("replicas = 2", "replicas = 1")
        .replace("\"unlimited\"]", "\"20 kB\"]");
    let (reader, ..) = table(text);
    let schema = reader.metadata().file_metadata().schema_descr();
    let names: Vec<String> = schema.columns().iter().map(|c| c.name().to_owned()).collect();
    let different: BTreeSet<&String> = names.iter().collect();
    assert_eq!(different.len(), names.len(), "{names:?}");
    for name in ["stack", "axis.seed", "axis.seed.number", "seed", "axis.retransmits", "retransmits"] {
        assert!(different.contains(&name.to_owned()), "{name}: {names:?}");
    }
    let row: BTreeMap<String, Field> =
        reader.get_row_iter(None).unwrap().last().unwrap().unwrap().into_columns().into_iter().collect();
    assert_eq!((&row["axis.seed"], &row["seed"]), (&Field::Str("2".into()), &Field::Long(2)));
}

#[test]
fn rows_are_runs_and_columns_are_keys_and_metrics() {
    let (reader, plan, store) = table(EXPERIMENT.into());
    let rows: Vec<BTreeMap<String, Field>> =
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().into_columns().into_iter().collect()).collect();
    assert_eq!(rows.len(), 8, "two sizes, one loss, two delays, two replicas");
    let text = |s: &str| Field::Str(s.into());
    let last = &rows[7];
    assert_eq!((&last["stack"], &last["size"], &last["delay"]), (&text("ns3"), &text("unlimited"), &text("2.5 ms")));
    assert_eq!(
        (&last["delay.number"], &last["replica"], &last["seed"]),
        (&Field::Double(2.5), &Field::Long(1), &Field::Long(7))
    );
    assert!(!last.contains_key("size.number"), "not all of its values are numbers");
    // All metrics that have values, requested or not, agree with the cells.
    let result = plan.result(&store).unwrap();
    let cell = result.cells.iter().rfind(|c| c.metric == "throughput_mbps").unwrap();
    assert_eq!(last["throughput_mbps"], Field::Double(cell.samples[1]));
    assert!(last.contains_key("rtt_mean_ms@download") && last.contains_key("retransmits"));
    assert!(last.contains_key("cwnd_mean_pkt") && !last.contains_key("voice_mos"), "{:?}", last.keys());
    // A transfer of 10 kB ends before the outage.
    assert_eq!(rows[0]["recovery_s"], Field::Null);
    let either = |row: &BTreeMap<String, Field>| {
        ["recovery_s", "recovery_s.at_least"].map(|c| row.get(c).is_some_and(|v| *v != Field::Null))
    };
    assert!(rows[4..].iter().all(|row| either(row).iter().filter(|has| **has).count() == 1), "{rows:?}");
    let notes = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let note = |key: &str| notes.iter().find(|n| n.key == key).and_then(|n| n.value.clone());
    assert_eq!(note("throughput_mbps.unit").as_deref(), Some("Mbit/s"));
    assert_eq!(note("throughput_mbps.meaning"), Some(Metric::new("throughput_mbps").unwrap().describe().label));
    assert_eq!((note("delay.number.unit").as_deref(), note("size.meaning").as_deref()), (Some("ms"), Some("Size")));
}
