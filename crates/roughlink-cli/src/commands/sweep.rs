//! `roughlink sweep`

use crate::args::Sweep;
use crate::failure::{Failure, print, print_json};
use crate::show;
use roughlink_core::text::slug;
use roughlink_core::units::Time;
use roughlink_lab::error::LabError;
use roughlink_lab::experiment::file::windows;
use roughlink_lab::experiment::result::{Figure, FigureKind};
use roughlink_lab::experiment::{Axis, Experiment, Plan, Point, StackChoice, assignment, quantity, split};
use roughlink_lab::library::Source;
use roughlink_lab::metric::Metric;
use roughlink_lab::watch::Watch;

/// Runs a scenario over a grid.
pub fn sweep(args: &Sweep) -> Result<(), Failure> {
    let experiment = experiment(args)?;
    let name = slug(&experiment.id, "results");
    let mut plan = Plan::with_limit(experiment, args.grid.max_runs)?;
    if args.metric.is_empty() {
        plan.measure_usual(&["throughput_mbps"]);
    }
    if plan.experiment.metrics.len() > 1 {
        plan.experiment.figure.panels = "metric".into();
    }
    let result = super::grid(&plan, &args.grid, &name)?;
    if args.grid.form.json { print_json(&result) } else { print(&show::experiment(&result)) }
}

fn experiment(args: &Sweep) -> Result<Experiment, LabError> {
    let source = Source::scenario(&args.scenario)?.allow_outside(args.reading.allow_outside);
    let mut set = Vec::new();
    let mut axes: Vec<Axis> = Vec::new();
    for text in &args.set {
        let (key, value) = assignment(text)?;
        match split(&value).as_slice() {
            [] | [_] => set.push((key, value)),
            values => {
                if axes.iter().any(|a| a.name == key) {
                    return Err(LabError::Usage {
                        message: format!("`{key}` is varied twice"),
                        help: "put all values into one --set".into(),
                    });
                }
                let point = |v: &String| Point { value: v.clone(), label: v.clone(), scenario: None, set: Vec::new() };
                let points = values.iter().map(point).collect();
                axes.push(Axis { name: key.clone(), label: key.clone(), keys: vec![key], points, narrowed: false });
            }
        }
    }
    set.extend(args.grid.seed.map(|n| ("seed".to_owned(), n.to_string())));
    let metrics = metrics(&args.metric)?;
    // The longest axis of numbers is x, the first other one the series.
    let numeric = |a: &&Axis| a.points.iter().all(|p| quantity(&p.value).is_some());
    let x = axes.iter().filter(numeric).max_by_key(|a| a.points.len());
    let kind = if x.is_some() { FigureKind::Line } else { FigureKind::Bar };
    let x = x.or(axes.first()).map(|a| a.name.clone()).unwrap_or_default();
    let series = axes.iter().map(|a| a.name.clone()).find(|name| *name != x).unwrap_or_default();
    Ok(Experiment {
        id: format!("sweep-{}", source.stem()),
        title: format!("Sweep of {}", source.stem()),
        place: String::new(),
        about: String::new(),
        command: super::command_line(),
        scenario: Some(source),
        set,
        stacks: vec![StackChoice { name: String::new(), set: Vec::new() }],
        axes,
        replicas: replicas(args.replicas)?,
        watch: watch(&metrics),
        metrics,
        published: Vec::new(),
        rank: None,
        figure: Figure { kind, x, series, ..Figure::default() },
        single: false,
        span: (Time::ZERO, Time::MAX),
        function: None,
        quick: false,
    })
}

/// The metrics of these names.
pub fn metrics(names: &[String]) -> Result<Vec<Metric>, LabError> {
    names.iter().flat_map(|n| split(n)).map(|name| Metric::new(&name)).collect()
}

/// The watch that these metrics need, if any.
pub fn watch(metrics: &[Metric]) -> Option<Watch> {
    let needed = metrics.iter().any(Metric::needs_watching);
    needed.then(|| Watch { windows: windows(metrics), ..Watch::means() })
}

/// Checks that there is at least one replica.
pub fn replicas(n: u32) -> Result<u32, LabError> {
    if n > 0 {
        return Ok(n);
    }
    Err(LabError::Usage { message: "no replicas, no result".into(), help: "--replicas 1 or more".into() })
}
