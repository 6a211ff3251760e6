//! Grids from the command line: axes, fixed keys, errors.

use roughlink_lab::error::LabError;
use roughlink_lab::experiment::ExperimentPlan;
use roughlink_lab::experiment::grid::{COMPARE_REPLICAS, Grid, SWEEP_REPLICAS, choices, compare, sweep};
use roughlink_lab::experiment::order::Order;
use roughlink_lab::experiment::result::FigureKind;
use roughlink_lab::library::ScenarioText;
use roughlink_lab::metric::Metric;
use roughlink_lab::runner::Job;

fn hello() -> ScenarioText {
    ScenarioText::scenario("hello").unwrap()
}

fn axes(plan: &ExperimentPlan) -> Vec<(&str, Vec<&str>)> {
    let axes = plan.experiment.axes.iter();
    axes.map(|a| (a.name.as_str(), a.points.iter().map(|p| p.value.as_str()).collect())).collect()
}

#[test]
fn keys_with_several_values_are_axes_and_the_seed_is_last() {
    let vary = ["tcp.cc=newreno,cubic", "flow.*.bytes=1 MB", "link.wire.delay=1 ms,5 ms,20 ms"].map(choices);
    let vary: Vec<_> = vary.into_iter().collect::<Result<_, _>>().unwrap();
    let set = vec![("duration".to_owned(), "20 s".to_owned())];
    let grid = Grid { set, seed: Some(7), ..Grid::default() };
    let plan = sweep(hello(), &vary, &grid).unwrap();
    let delays = vec!["1 ms", "5 ms", "20 ms"];
    assert_eq!(axes(&plan), [("tcp.cc", vec!["newreno", "cubic"]), ("link.wire.delay", delays)]);
    let set: Vec<_> = plan.experiment.set.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(set, [("duration", "20 s"), ("flow.*.bytes", "1 MB"), ("seed", "7")]);
    let figure = &plan.experiment.figure;
    assert_eq!((figure.kind, &*figure.x, &*figure.series), (FigureKind::Line, "link.wire.delay", "tcp.cc"));
    assert_eq!(plan.runs(), 2 * 3 * SWEEP_REPLICAS as usize);
}

#[test]
fn keys_separated_by_commas_vary_together() {
    let vary = |text: &str| sweep(hello(), &[choices(text).unwrap()], &Grid::default());
    let plan = vary(r#"link.wire.rate, link.wire.queue=["5 Mbit/s", "50 pkt"],["8 Mbit/s", "80 pkt"]"#).unwrap();
    assert_eq!(axes(&plan), [("link.wire.rate, link.wire.queue", vec!["5 Mbit/s, 50 pkt", "8 Mbit/s, 80 pkt"])]);
    let sets: Vec<_> = plan.experiment.axes[0].points.iter().map(|point| point.set.clone()).collect();
    let pairs = [["5 Mbit/s", "50 pkt"], ["8 Mbit/s", "80 pkt"]].map(|[rate, queue]| {
        vec![("link.wire.rate".to_owned(), rate.to_owned()), ("link.wire.queue".to_owned(), queue.to_owned())]
    });
    assert_eq!(sets, pairs);
    let line = vary(r#"link.wire.rate,tcp.cc=["5 Mbit/s", "cubic"],["5 Mbit/s", "bbr"]"#).unwrap();
    assert_eq!(line.experiment.figure.kind, FigureKind::Bar, "they are not numbers");
    assert!(vary("tcp.cc=bbr,bbr").unwrap_err().to_string().contains("has the value `bbr` twice"));
    // One list is fixed.
    let fixed = vary(r#"link.wire.rate,link.wire.queue=["5 Mbit/s", "50 pkt"]"#).unwrap();
    assert_eq!((axes(&fixed).len(), fixed.experiment.set.len()), (0, 2));
    for wrong in ["link.wire.rate,link.wire.queue=5 Mbit/s,50 pkt", r#"link.wire.rate,link.wire.queue=["5 Mbit/s"]"#] {
        assert!(vary(wrong).unwrap_err().to_string().contains("does not have a value for each"), "{wrong}");
    }
}

#[test]
fn algorithms_are_compared_on_each_scenario() {
    let algorithms = ["newreno".to_owned(), "illinois{alpha_max=5}".to_owned()];
    let grid = Grid { replicas: COMPARE_REPLICAS, ..Grid::default() };
    let plan = compare(vec![hello(), ScenarioText::scenario("v2g-one-car").unwrap()], &algorithms, &[], &grid).unwrap();
    let scenarios = vec!["scenarios/hello.toml", "scenarios/v2g-one-car.toml"];
    assert_eq!(axes(&plan), [("scenario", scenarios), ("cc", vec!["newreno", "illinois{alpha_max=5}"])]);
    assert_eq!((&*plan.experiment.figure.x, &*plan.experiment.figure.series), ("cc", "scenario"));
    let measured: Vec<_> = plan.experiment.metrics.iter().map(Metric::name).collect();
    assert_eq!(measured, ["throughput_mbps", "timeouts", "rtt_mean_ms"]);
}

#[test]
fn kernel_runs_are_planned_apart_from_simulated_runs() {
    let vary = [("tcp.cc".to_owned(), vec!["newreno".to_owned(), "cubic".to_owned()])];
    let grid = Grid { replicas: 1, ..Grid::default() };
    let simulated = sweep(hello(), &vary, &grid).unwrap();
    let carried = sweep(hello(), &vary, &Grid { on_kernel: true, ..grid }).unwrap();
    assert!(carried.is_on_kernel() && !simulated.is_on_kernel());
    let jobs = |plan: &ExperimentPlan| plan.jobs().collect::<Result<Vec<Job>, _>>().unwrap();
    assert!(jobs(&carried).iter().all(|job| job.real_time) && jobs(&simulated).iter().all(|job| !job.real_time));
    assert!(jobs(&carried).iter().all(|job| jobs(&simulated).iter().all(|other| other.key != job.key)));
    // A process that reads the order from a folder creates the same plan.
    let [with, without] = [&carried, &simulated].map(|plan| serde_json::to_string(&plan.portable()).unwrap());
    let again: Order = serde_json::from_str(&with).unwrap();
    assert_eq!(again.plan().unwrap().identity().to_string(), carried.identity().to_string());
    assert_ne!(carried.identity().to_string(), simulated.identity().to_string());
    assert!(!without.contains("on_kernel"), "folders of simulated runs keep their form: {without}");
}

#[test]
fn invalid_grids_are_refused() {
    let said = |plan: Result<ExperimentPlan, LabError>| plan.unwrap_err().to_string();
    let both = ("tcp.cc".to_owned(), vec!["newreno".to_owned(), "cubic".to_owned()]);
    assert!(said(sweep(hello(), &[both.clone(), both.clone()], &Grid::default())).contains("varied twice"));
    assert!(said(sweep(hello(), &[], &Grid { replicas: 0, ..Grid::default() })).contains("no replicas"));
    let most = Grid { most_runs: 5, ..Grid::default() };
    assert!(said(sweep(hello(), &[both], &most)).contains("the grid has 6 runs, more than 5"));
    let windows = Grid { metrics: vec!["throughput_mbps[1..2]".into()], on_kernel: true, ..Grid::default() };
    assert!(said(sweep(hello(), &[], &windows)).contains("is not measured on a kernel"));
    assert!(said(compare(Vec::new(), &["cubic".into(), "bbr".into()], &[], &Grid::default())).contains("nothing"));
    assert!(said(compare(vec![hello()], &["cubic".into()], &[], &Grid::default())).contains("nothing"));
}
