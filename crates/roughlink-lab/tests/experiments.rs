//! Experiment files: the shipped ones, and faulty ones.

use roughlink_lab::experiment::paper::{self, Paper};
use roughlink_lab::experiment::{ExperimentPlan, file};
use roughlink_lab::library::ScenarioText;
use roughlink_lab::store::Store;
use std::collections::BTreeSet;

#[test]
fn all_shipped_experiments_have_a_plan() {
    for paper in paper::all().unwrap() {
        for quick in [false, true] {
            for experiment in paper.experiments(&[], quick).unwrap() {
                let id = experiment.id.clone();
                let runs = experiment.function.is_none();
                let plan = ExperimentPlan::new(experiment).unwrap_or_else(|e| panic!("{id}: {e}"));
                assert_eq!(plan.jobs().next().is_some(), runs, "{id}");
            }
        }
    }
}

#[test]
fn kernel_runs_are_planned_separately() {
    let fig4 = |quick| {
        let fig4 = Paper::named("v2g").unwrap().experiments(&["fig4".into()], quick).unwrap().remove(0);
        let kernel = *fig4.on_kernel.clone().expect("it has a table");
        (ExperimentPlan::new(fig4).unwrap(), ExperimentPlan::new(kernel).unwrap())
    };
    let values = |plan: &ExperimentPlan, axis: usize| plan.experiment.axes[axis].points.len();
    let (simulated, kernel) = fig4(false);
    assert_eq!((values(&simulated, 0), values(&simulated, 1)), (9, 10));
    assert_eq!((values(&kernel, 0), values(&kernel, 1), kernel.experiment.replicas), (9, 9, 5));
    // Runs on the kernel are different from simulated runs, and their keys contain the kernel release.
    let keys = |plan: &ExperimentPlan| plan.jobs().map(|job| job.unwrap().key).collect::<BTreeSet<String>>();
    assert!(keys(&simulated).is_disjoint(&keys(&kernel)));
    let release = roughlink_lab::runner::kernel_release();
    assert!(keys(&kernel).iter().all(|key| key.ends_with(&format!("-{release}"))), "{release}");
    let folder = tempfile::tempdir().unwrap();
    let result = simulated.result_beside(&kernel, &Store::open(folder.path()).unwrap()).unwrap();
    assert_eq!(result.stacks, ["ns3-3.27", "linux", "kernel"]);
    assert_eq!(result.cells.iter().filter(|c| c.stack == "kernel").count(), 81);
    assert!(result.cells.iter().filter(|c| c.stack == "kernel").all(|c| !c.deterministic), "also without losses");
    let remark = result.about.lines().last().unwrap();
    assert!(
        remark.contains("5 runs of each cell; flow.download.bytes = 10 MB; 9 of 10 values of `Congestion control`"),
        "{remark}"
    );
    // `--quick` reduces it further.
    let (_, quick) = fig4(true);
    assert_eq!((values(&quick, 0), values(&quick, 1)), (4, 9));
}

#[test]
fn table_2_is_complete() {
    let paper = Paper::named("v2g").unwrap();
    let table2 = paper.experiments(&["table2".into()], false).unwrap().remove(0);
    assert_eq!(table2.published.len(), 70);
    assert_eq!(table2.replicas, 24);
    let value = |bytes: &str, cc: &str| table2.published.iter().find(|p| p.at == [bytes, cc]).unwrap().value;
    assert_eq!(value("10 MB", "newreno"), 0.418);
    assert_eq!(value("100 MB", "illinois"), 2.266);
    assert_eq!(value("800 MB", "westwood-classic"), 0.426);
}

#[test]
fn experiments_share_runs() {
    let paper = Paper::named("v2g").unwrap();
    let plans: Vec<ExperimentPlan> =
        paper.experiments(&[], false).unwrap().into_iter().map(|e| ExperimentPlan::new(e).unwrap()).collect();
    let all: Vec<String> = plans.iter().flat_map(ExperimentPlan::jobs).map(|j| j.unwrap().key).collect();
    let distinct: BTreeSet<&String> = all.iter().collect();
    // Table 2 at 100 MB equals figure 4 at 5 %; figure 8a is part of figure 4, and so is part of figure 11a.
    let (cells, both) = (6 * 2, 2);
    assert!(all.len() - distinct.len() >= cells * 10 + both * 6 * 8 * (2 + 2), "{} of {}", distinct.len(), all.len());
}

#[test]
fn every_claim_names_an_existing_experiment() {
    for paper in paper::all().unwrap() {
        let source = ScenarioText { folder: None, ..claims(&paper.name) };
        for name in file_experiments(&source) {
            assert!(paper.order.contains(&name), "{}: there is no {name}", paper.name);
        }
    }
}

fn claims(paper: &str) -> ScenarioText {
    let name = format!("experiments/{paper}/claims.toml");
    let (_, text) = roughlink_lab::library::FILES.iter().find(|(n, _)| *n == name).unwrap();
    ScenarioText { name, text: (*text).to_owned(), folder: None }
}

fn file_experiments(source: &ScenarioText) -> Vec<String> {
    roughlink_lab::experiment::claims::experiments_needed(source).unwrap()
}

const GOOD: &str = r#"title = "t"
place = "p"
scenario = "hello"
replicas = 2
metrics = ["throughput_mbps"]
rank = "cc"

[[axis]]
name = "bytes"
key = "flow.*.bytes"
values = ["1 MB", "2 MB"]

[[axis]]
name = "cc"
key = "tcp.cc"
values = ["newreno", "cubic"]

[[published]]
columns = ["newreno", "cubic"]
[published.rows]
"1 MB" = [1.0, 2.0]

[figure]
kind = "line"
"#;

/// Columns: text, replacement, message, help.
const BAD: &[(&str, &str, &str, &str)] = &[
    ("replicas = 2", "replica = 2", "unknown key `replica`", "did you mean `replicas`?"),
    ("values = [\"1 MB\"", "value = [\"1 MB\"", "unknown key `value`", "did you mean `values`?"),
    ("kind = \"line\"", "kind = \"lime\"", "unknown value `lime`", "did you mean `line`?"),
    ("scenario = \"hello\"", "scenario = \"helo\"", "unknown scenario `helo`", "did you mean `hello`?"),
    ("scenario = \"hello\"\n", "", "missing key `scenario`", "name a scenario in scenarios/"),
    ("replicas = 2", "replicas = 0", "`replicas` must be at least 1", "write 1 or more"),
    ("\"throughput_mbps\"", "\"througput_mbps\"", "unknown metric `througput_mbps`", "did you mean `throughput_mbps`?"),
    ("\"throughput_mbps\"", "\"jain:min\"", "unknown metric `jain:min`", "`jain` is one number for the whole run"),
    (
        "metrics = [\"throughput_mbps\"]",
        "metrics = [\"throughput_mbps[1..2]\"]\nkernel = {}",
        "`throughput_mbps[1..2]` is not measured on a kernel",
        "leave out the metric or `[kernel]`",
    ),
    (
        "rank = \"cc\"",
        "rank = \"cc\"\nkernel = { only = { cc = [\"bbr\"] } }",
        "unknown axis value `bbr`",
        "expected `newreno`, `cubic`",
    ),
    ("rank = \"cc\"", "rank = \"cs\"", "unknown axis `cs`", "did you mean `cc`?"),
    ("[1.0, 2.0]", "[1.0]", "1 values for 2 columns", "write one value per column"),
    ("\"1 MB\" = [", "\"3 MB\" = [", "unknown value `3 MB` of axis `bytes`", "did you mean `1 MB`?"),
    ("columns = [\"newreno\", \"cubic\"]", "columns = [\"reno\", \"cubic\"]", "no axis has all these values", ""),
    ("values = [\"newreno\", \"cubic\"]", "values = []", "axis `cc` needs a `key` and `values`", ""),
    (
        "[[published]]",
        "[axis.set.cubi]\n\"tcp.sack\" = \"false\"\n\n[[published]]",
        "unknown value `cubi` of axis `cc`",
        "did you mean `cubic`?",
    ),
    ("key = \"tcp.cc\"", "", "axis `cc` needs a `key` and `values`", ""),
    ("title = \"t\"", "title = 7", "invalid type", ""),
    ("title = \"t\"", "title = \"t", "invalid", ""),
];

#[test]
fn errors_in_experiments_are_explained() {
    let read = |text: String| {
        let source = ScenarioText { name: "test.toml".into(), text, folder: None };
        file::experiment(&source, "test/test", false)
    };
    read(GOOD.to_owned()).unwrap_or_else(|e| panic!("{e}"));
    for (from, to, message, help) in BAD {
        assert!(GOOD.contains(from), "{from}");
        let error = read(GOOD.replacen(from, to, 1)).map(|_| ()).expect_err(to).to_string();
        assert!(error.contains(message) && error.contains(help), "{from} -> {to}:\n{error}");
        assert!(error.starts_with("test.toml"), "{error}");
    }
}

#[test]
fn error_of_a_cell_names_the_key() {
    let text = GOOD.replace("key = \"tcp.cc\"", "key = \"tcp.ccc\"");
    let source = ScenarioText { name: "test.toml".into(), text, folder: None };
    let experiment = file::experiment(&source, "test/test", false).unwrap();
    let error = ExperimentPlan::new(experiment).map(|_| ()).expect_err("no such key").to_string();
    assert!(error.contains("override `tcp.ccc`"), "{error}");
}

/// A value can set several keys; the axis then needs no key.
#[test]
fn axis_values_can_set_other_keys() {
    let plan = |set: &str| {
        let text = GOOD.replacen("key = \"tcp.cc\"", "", 1);
        let text = text.replacen("[[published]]", &format!("[axis.set.cubic]\n{set}\n\n[[published]]"), 1);
        let source = ScenarioText { name: "test.toml".into(), text, folder: None };
        ExperimentPlan::new(file::experiment(&source, "test/test", false).unwrap())
    };
    let plan_of_both = plan("\"tcp.cc\" = \"cubic\"\n\"tcp.sack\" = \"false\"").unwrap();
    let jobs: Vec<_> = plan_of_both.jobs().map(Result::unwrap).collect();
    let keys: BTreeSet<&String> = jobs.iter().map(|j| &j.key).collect();
    assert_eq!((jobs.len(), keys.len()), (2 * 2 * 2 * 2, 2 * 2 * 2 * 2), "both values are runs of their own");
    let error = plan("\"tcp.ccc\" = \"cubic\"").map(|_| ()).expect_err("no such key").to_string();
    assert!(error.contains("override `tcp.ccc`"), "{error}");
}

#[test]
fn volumes_name_existing_classes() {
    let plan = |metric: &str| {
        let text = GOOD.replacen("throughput_mbps", metric, 1).replacen("\"hello\"", "\"train-tunnels\"", 1);
        let text = text.replacen("flow.*.bytes", "flow.download.bytes", 1);
        let source = ScenarioText { name: "test.toml".into(), text, folder: None };
        ExperimentPlan::new(file::experiment(&source, "test/test", false).unwrap()).map(|_| ())
    };
    plan("covered_mb").unwrap();
    plan("covered_mb@busy").unwrap();
    let error = plan("covered_mb@bsy").expect_err("no such class");
    assert_eq!(error.to_string(), "unknown station class `bsy`");
    assert!(error.help().unwrap_or_default().contains("`busy`"));
}

#[test]
fn metrics_and_curves_name_existing_elements() {
    let plan = |from: &str, to: &str| {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD);
        let source = ScenarioText { name: "test.toml".into(), text, folder: None };
        ExperimentPlan::new(file::experiment(&source, "test/test", false).unwrap()).map(|_| ())
    };
    let metric = |name: &str| plan("throughput_mbps", name);
    let hello = ScenarioText::scenario("hello").unwrap().parse(&[]).unwrap().scenario;
    let (flow, link) = (&hello.flows[0].name, &hello.links[0].name);
    metric(&format!("throughput_mbps@{flow}")).unwrap();
    for direction in ["", ".forward", ".reverse"] {
        metric(&format!("loss@{link}{direction}")).unwrap();
    }
    let refused = |plan: Result<(), _>, message: &str, name: &str| {
        let error: roughlink_lab::error::LabError = plan.expect_err(name);
        let (shown, help) = (error.to_string(), error.help().unwrap_or_default());
        assert!(shown == message && help.contains(name), "{shown}\n{help}");
    };
    refused(metric("throughput_mbps@nobody"), "unknown flow `nobody`", flow);
    refused(metric(&format!("loss@{link}.sideways")), &format!("unknown link `{link}.sideways`"), link);
    refused(metric("loss@nowhere.reverse"), "unknown link `nowhere`", link);
    let curves = "[curves]\nvalues = [\"cwnd_kb\"]\nevery = \"0.5 s\"\nflow = \"nobody\"\n\n[figure]";
    refused(plan("[figure]", curves), "unknown flow `nobody`", flow);
}

/// A value may set the stack in addition to its keys; the results then name that stack.
#[test]
fn results_name_a_stack_set_by_a_value() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let read = |name: &str| Paper::named("avoca").unwrap().experiments(&[name.into()], false).unwrap().remove(0);
    let result = ExperimentPlan::new(read("others")).unwrap().result(&store).unwrap();
    let on = |cc: &str| result.cells.iter().find(|c| c.axes["variant"] == cc).unwrap().real_stack();
    assert_eq!([on("sctp"), on("cubic"), on("bbr")], ["ns2", "linux", "linux"]);
    let labels: Vec<&str> = result.axes[0].values.iter().map(|v| v.label.as_str()).collect();
    assert!(labels.contains(&"SCTP, the paper's TCP") && labels.contains(&"CUBIC (linux)"), "{labels:?}");

    // If an override sets the stack of all runs, the results have its name.
    let mut experiment = read("table2");
    experiment.set("tcp.stack", "linux").unwrap();
    let result = ExperimentPlan::new(experiment).unwrap().result(&store).unwrap();
    assert_eq!(result.stacks, ["linux"]);
    assert!(result.cells.iter().all(|c| c.stack == "linux" && c.ran_on.is_empty()));
}

const PAPER: &str = r#"title = "t"
about = "a"
experiments = ["one"]
picture = "one"

[linux]
experiment = "one"
metric = "throughput_mbps"
best = "highest"
shipped = ["cubic"]
"#;

#[test]
fn errors_in_papers_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("one.toml"), GOOD).unwrap();
    let read = |text: &str| {
        std::fs::write(folder.path().join("paper.toml"), text).unwrap();
        let paper = Paper::named(folder.path().to_str().unwrap())?;
        paper.experiments(&[], false).map(|_| paper.summary)
    };
    let summary = read(PAPER).unwrap();
    assert!(summary.picture.ends_with("/one") && !summary.linux.unwrap().lowest);
    for (from, to, message, help) in [
        ("picture = \"one\"", "picture = \"oen\"", "unknown experiment `oen` of this paper", "did you mean `one`?"),
        ("experiment = \"one\"", "experiment = \"two\"", "unknown experiment `two` of this paper", "`one`"),
        ("[linux]", "[linux]\naxis = \"cs\"", "unknown axis `cs`", "did you mean `cc`?"),
        ("metric = \"t", "metric = \"tt", "unknown metric `tthroughput_mbps`", "did you mean `throughput_mbps`?"),
        ("shipped = [\"cubic\"]", "shipped = [\"cubik\"]", "`cubik`", "did you mean `cubic`?"),
        ("\"highest\"", "\"high\"", "unknown value `high`", "did you mean `highest`?"),
    ] {
        assert!(PAPER.contains(from), "{from}");
        let error = read(&PAPER.replacen(from, to, 1)).map(|_| ()).expect_err(to);
        let said = format!("{error} {}", error.help().unwrap_or_default());
        assert!(said.contains(message) && said.contains(help), "{from} -> {to}: {said}");
    }
}

/// Table 2 has 70 values, figure 4 two others, and figure 6 four; figures 11a and 11b and other readings repeat them.
#[test]
fn each_published_value_of_v2g_is_counted_once() {
    let experiments = Paper::named("v2g").unwrap().experiments(&[], false).unwrap();
    let counted: Vec<(&str, usize)> =
        experiments.iter().map(|e| (e.id.as_str(), e.published.iter().filter(|p| !p.again).count())).collect();
    assert_eq!(counted.iter().map(|c| c.1).sum::<usize>(), 76, "{counted:?}");
}
