//! `roughlink reproduce`

use super::{pretty, warn_of};
use crate::args::{Reproduce, StackArg};
use crate::failure::{Failure, print, print_json};
use crate::progress::work;
use crate::show;
use roughlink_lab::error::LabError;
use roughlink_lab::experiment::paper::Paper;
use roughlink_lab::experiment::result::{ExperimentResult, ReportInput};
use roughlink_lab::experiment::{Experiment, Plan, assignment, paper, split};
use roughlink_lab::store::Store;
use std::path::PathBuf;

/// Recomputes a paper, or lists what there is.
pub fn reproduce(args: &Reproduce) -> Result<(), Failure> {
    let Some(name) = &args.paper else { return list(args.grid.form.json) };
    let paper = Paper::named(name)?;
    let plans: Vec<Plan> = experiments(args, &paper)?.into_iter().map(Plan::new).collect::<Result<_, _>>()?;
    for plan in &plans {
        // Whoever sets keys of his own wants to know; the paper's own reading is explained in its files.
        warn_of(plan, args.grid.form.quiet || args.set.is_empty());
    }
    let folder = args.grid.output.clone().unwrap_or_else(|| PathBuf::from("results").join(paper.short()));
    let mut store = Store::open(&folder)?;
    let jobs = plans.iter().flat_map(Plan::jobs).collect();
    work(jobs, &mut store, args.grid.jobs, args.grid.form.quiet)?;
    let experiments: Vec<ExperimentResult> = plans.iter().map(|p| p.result(&store)).collect();
    let claims = paper.claims(&experiments)?;
    let input = ReportInput {
        title: paper.title.clone(),
        intro: paper.about.clone(),
        command: super::command_line(),
        facts: super::facts(&experiments),
        experiments,
        claims,
    };
    super::keep(&store, &input, args.grid.form.quiet)?;
    if args.grid.form.json {
        // One experiment is an object of its own; several come together with the claims that rest on them.
        print(&match input.experiments.as_slice() {
            [only] => pretty(only),
            _ => pretty(&input),
        })?;
    } else {
        for experiment in &input.experiments {
            print(&show::experiment(experiment))?;
        }
        if !input.claims.is_empty() {
            print(&show::claims(&input.claims))?;
        }
    }
    let missed = missed(&input);
    if args.strict && !missed.is_empty() {
        return Err(Failure::Expectation(format!("not as published:\n  {}", missed.join("\n  "))));
    }
    Ok(())
}

fn experiments(args: &Reproduce, paper: &Paper) -> Result<Vec<Experiment>, LabError> {
    let mut experiments = paper.experiments(&args.experiments, args.quick)?;
    for experiment in &mut experiments {
        match args.stack {
            StackArg::Ns3 => experiment.only_stacks(&["ns3"]),
            StackArg::Ns2 => experiment.only_stacks(&["ns2"]),
            StackArg::Linux => experiment.only_stacks(&["linux"]),
            StackArg::Both => {}
        }
        if let Some(n) = args.replicas {
            experiment.replicas = super::sweep::replicas(n)?;
        }
        experiment.command += &super::rest(args);
    }
    for text in &args.only {
        let (axis, values) = assignment(text)?;
        let mut used = false;
        for experiment in experiments.iter_mut().filter(|e| e.axes.iter().any(|a| a.name == axis)) {
            // An experiment that varies fewer values keeps those that it has.
            let values = split(&values);
            let has = |v: &String| {
                experiment
                    .axes
                    .iter()
                    .any(|a| a.name == axis && a.points.iter().any(|p| p.value == *v || p.label == *v))
            };
            let known: Vec<String> = values.iter().filter(|v| has(v)).cloned().collect();
            if args.experiments.is_empty() && known.is_empty() {
                continue;
            }
            experiment.only(&axis, if args.experiments.is_empty() { &known } else { &values })?;
            used = true;
        }
        if !used {
            return Err(LabError::Usage {
                message: format!("`--only {text}` fits no experiment"),
                help: "it takes an axis and some of its values".into(),
            });
        }
    }
    let seed = args.grid.seed.map(|n| format!("seed={n}"));
    for text in args.set.iter().chain(&seed) {
        let (key, value) = assignment(text)?;
        for experiment in experiments.iter_mut().filter(|e| e.function.is_none()) {
            experiment.set(&key, &value)?;
        }
    }
    Ok(experiments)
}

/// Cells further from the published value than a factor, orders that are too different, claims not confirmed: on the
/// first stack, the one that published values compare with.
fn missed(input: &ReportInput) -> Vec<String> {
    let mut missed = Vec::new();
    for e in &input.experiments {
        let Some(stack) = e.stacks.first() else { continue };
        for cell in e.cells.iter().filter(|c| c.stack == *stack) {
            if let Some(ratio) = cell.ratio().filter(|r| !(1.0 / FACTOR..=FACTOR).contains(r)) {
                let at: Vec<&str> = cell.axes.values().map(String::as_str).collect();
                missed.push(format!("{} {}: {ratio:.2} times the published value", e.experiment, at.join(", ")));
            }
        }
        for rank in e.ranks.iter().filter(|r| r.stack == *stack && r.spearman < SPEARMAN) {
            let at: Vec<&str> = rank.at.values().map(String::as_str).collect();
            missed.push(format!("{} {}: Spearman {:.2}", e.experiment, at.join(", "), rank.spearman));
        }
    }
    let first = input.experiments.first().and_then(|e| e.stacks.first());
    for claim in &input.claims {
        let verdict = claim.verdicts.iter().find(|v| Some(&v.stack) == first);
        if verdict.is_some_and(|v| v.confirmed == Some(false)) {
            missed.push(format!("{}: {}", claim.claim, claim.text));
        }
    }
    missed
}

/// How far a cell may be from the published value under `--strict`.
const FACTOR: f64 = 1.5;
/// The least agreement of orders under `--strict`.
const SPEARMAN: f64 = 0.9;

fn list(json: bool) -> Result<(), Failure> {
    let all: Vec<Paper> = paper::all()?;
    if json {
        let mut papers = Vec::new();
        for paper in &all {
            let experiments: Vec<_> = paper
                .experiments(&[], false)?
                .iter()
                .map(|e| serde_json::json!({ "experiment": e.id, "title": e.title, "place": e.place }))
                .collect();
            papers.push(serde_json::json!({ "paper": paper.name, "title": paper.title, "experiments": experiments }));
        }
        return print_json(&papers);
    }
    let mut out = String::new();
    for paper in &all {
        out += &format!("{}: {}\n", paper.name, paper.title);
        let rows: Vec<(String, String)> = paper
            .experiments(&[], false)?
            .iter()
            .map(|e| {
                let name = e.id.rsplit('/').next().unwrap_or(&e.id).to_owned();
                (name, format!("{} ({})", e.title, e.place))
            })
            .collect();
        out += &show::listing(&rows);
    }
    out += "\nroughlink reproduce PAPER [EXPERIMENT]... [--quick]\n";
    print(&out)
}
