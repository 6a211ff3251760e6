//! `roughlink compare`

use super::sweep::{metrics, replicas, watch};
use crate::args::Compare;
use crate::failure::{Failure, print, print_json};
use crate::show;
use roughlink_core::units::Time;
use roughlink_lab::error::LabError;
use roughlink_lab::experiment::result::{Figure, FigureKind};
use roughlink_lab::experiment::{Axis, Experiment, Plan, Point, StackChoice, assignment, split};
use roughlink_lab::library::{Overrides, Source};

/// Runs scenarios or algorithms side by side.
pub fn compare(args: &Compare) -> Result<(), Failure> {
    let mut plan = Plan::with_limit(experiment(args)?, args.grid.max_runs)?;
    if args.metric.is_empty() {
        plan.measure_usual(&["throughput_mbps", "timeouts", "rtt_mean_ms"]);
    }
    let result = super::grid(&plan, &args.grid, "compare")?;
    if args.grid.form.json { print_json(&result) } else { print(&show::comparison(&result)) }
}

fn experiment(args: &Compare) -> Result<Experiment, LabError> {
    let sources: Vec<Source> = (args.scenarios.iter())
        .map(|s| Ok(Source::scenario(s)?.allow_outside(args.reading.allow_outside)))
        .collect::<Result<_, LabError>>()?;
    let algorithms = args.cc.as_deref().map(split).unwrap_or_default();
    if sources.len().max(1) * algorithms.len().max(1) < 2 {
        return Err(LabError::Usage {
            message: "there is nothing to compare with".into(),
            help: "name two scenarios, or algorithms: --cc newreno,cubic".into(),
        });
    }
    let mut set: Overrides = args.set.set.iter().map(|s| assignment(s)).collect::<Result<_, _>>()?;
    set.extend(args.grid.seed.map(|n| ("seed".to_owned(), n.to_string())));
    let mut axes = Vec::new();
    if sources.len() > 1 {
        let point = |source: &Source| {
            let value = source.name.clone();
            Point { label: source.stem().to_owned(), value, scenario: Some(source.clone()), set: Vec::new() }
        };
        let points = sources.iter().map(point).collect();
        axes.push(Axis {
            name: "scenario".into(),
            label: "Scenario".into(),
            keys: Vec::new(),
            points,
            narrowed: false,
        });
    }
    if !algorithms.is_empty() {
        let point = |v: &String| Point { value: v.clone(), label: v.clone(), scenario: None, set: Vec::new() };
        let points = algorithms.iter().map(point).collect();
        let label = "Congestion control".into();
        axes.push(Axis { name: "cc".into(), label, keys: vec!["tcp.cc".into()], points, narrowed: false });
    }
    let metrics = metrics(&args.metric)?;
    Ok(Experiment {
        id: "compare".into(),
        title: "Comparison".into(),
        place: String::new(),
        about: String::new(),
        command: super::command_line(),
        scenario: sources.into_iter().next(),
        set,
        stacks: vec![StackChoice { name: String::new(), set: Vec::new() }],
        replicas: replicas(args.replicas)?,
        watch: watch(&metrics),
        metrics,
        published: Vec::new(),
        rank: None,
        figure: Figure {
            kind: FigureKind::Bar,
            x: axes.last().map(|a: &Axis| a.name.clone()).unwrap_or_default(),
            series: axes.iter().rev().nth(1).map(|a| a.name.clone()).unwrap_or_default(),
            panels: "metric".into(),
            ..Figure::default()
        },
        axes,
        single: false,
        span: (Time::ZERO, Time::MAX),
        function: None,
        quick: false,
    })
}
