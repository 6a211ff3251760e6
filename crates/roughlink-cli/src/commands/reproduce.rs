//! `roughlink reproduce`

use super::{pretty, warn_of};
use crate::args::{Reproduce, StackArg};
use crate::command_line::{command_line, quote};
use crate::failure::{Failure, print, print_json, print_stderr};
use crate::progress::work_by;
use crate::show;
use roughlink_lab::error::LabError;
use roughlink_lab::experiment::paper::Paper;
use roughlink_lab::experiment::result::{Cell, ClaimOutcome, ClaimResult, ExperimentResult, Origin, ReportInput};
use roughlink_lab::experiment::{Experiment, ExperimentPlan, KERNEL, assignment, grid, paper, split};
use roughlink_lab::folder::{self, FolderContent};
use roughlink_lab::kernel;
use roughlink_lab::nearest;
use roughlink_lab::report::index::{self, PaperEntry};
use roughlink_lab::report::verdict;
use roughlink_lab::store::{self, Store, identity_of};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(crate) fn reproduce(args: &Reproduce) -> Result<(), Failure> {
    match args.paper.as_deref() {
        None => list(args.grid.form.json),
        Some(ALL) => all(args),
        Some(name) => one(args, &Paper::named(name)?),
    }
}

fn one(args: &Reproduce, paper: &Paper) -> Result<(), Failure> {
    let mut used = BTreeSet::new();
    let plans = plans(args, paper, &args.experiments, &mut used)?;
    all_used(args, &used)?;
    if args.stack == StackArg::Kernel && plans.iter().all(|p| p.on_kernel.is_none()) {
        return Err(no_kernel(paper.short()).into());
    }
    let folder = args.grid.output.clone().unwrap_or_else(|| PathBuf::from(RESULTS).join(paper.short()));
    let input = recompute(args, paper, &plans, &folder)?;
    if args.grid.form.json {
        // A single experiment is printed as an object; several are printed with the claims that are based on them.
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
    judge(args, &[&input])
}

/// Recomputes all papers, the quickest first, and after each rewrites the page that links to their reports.
fn all(args: &Reproduce) -> Result<(), Failure> {
    let mut papers: Vec<Paper> = paper::all()?;
    papers.sort_by_key(|p| p.cpu_s);
    for name in &args.experiments {
        if !papers.iter().any(|p| p.has(name)) {
            let known: BTreeSet<&str> = papers.iter().flat_map(|p| p.order.iter().map(String::as_str)).collect();
            let help = nearest::suggest(name, "expected", known);
            return Err(LabError::NotFound { what: "experiment", name: name.clone(), help }.into());
        }
    }
    let mut used = BTreeSet::new();
    let mut grids: Vec<(Paper, Vec<Plans>)> = Vec::new();
    for paper in papers {
        let chosen: Vec<String> = args.experiments.iter().filter(|e| paper.has(e)).cloned().collect();
        if args.experiments.is_empty() || !chosen.is_empty() {
            let plans = plans(args, &paper, &chosen, &mut used)?;
            grids.push((paper, plans));
        }
    }
    all_used(args, &used)?;

    let root = args.grid.output.clone().unwrap_or_else(|| PathBuf::from(RESULTS));
    grids.iter().try_for_each(|(paper, _)| no_sweep(&root.join(paper.short())))?;
    let path = root.join(INDEX);
    let failed = |source| LabError::Write { path: path.clone(), source };
    std::fs::create_dir_all(&root).map_err(failed)?;
    let entry = |(paper, _): &(Paper, Vec<Plans>)| PaperEntry {
        title: paper.title.clone(),
        link: format!("{}/{}", paper.short(), store::REPORT),
        // Earlier results are shown until they are recomputed.
        input: match folder::read(&root.join(paper.short())) {
            Ok(FolderContent::Grid(input)) => Some(*input),
            _ => None,
        },
    };
    let mut entries: Vec<PaperEntry> = grids.iter().map(entry).collect();
    let command = command_line();
    index::write(&path, &entries, &command).map_err(failed)?;
    for (i, (paper, plans)) in grids.iter().enumerate() {
        if !args.grid.form.quiet {
            print_stderr(&format!("{} of {}: {}", i + 1, grids.len(), paper.title));
        }
        let input = recompute(args, paper, plans, &root.join(paper.short()))?;
        if !args.grid.form.json {
            print(&format!("{}: {}\n", paper.short(), verdict(&input)))?;
        }
        entries[i].input = Some(input);
        index::write(&path, &entries, &command).map_err(failed)?;
    }
    let inputs: Vec<&ReportInput> = entries.iter().filter_map(|e| e.input.as_ref()).collect();
    if args.grid.form.json {
        print(&pretty(&inputs))?;
    } else {
        print(&format!("index: {}\n", path.display()))?;
    }
    judge(args, &inputs)
}

/// Rejects the folder of a sweep or comparison: its identity, plan and table would remain beside a paper's results.
fn no_sweep(folder: &Path) -> Result<(), LabError> {
    match identity_of(folder) {
        None => Ok(()),
        Some(_) => Err(LabError::Usage {
            message: format!("cannot write to {}: it has the results of a sweep or comparison", folder.display()),
            help: "name another folder with -o, or remove this folder".into(),
        }),
    }
}

/// Executes the runs of a paper that the folder lacks, and writes results and report into it.
fn recompute(args: &Reproduce, paper: &Paper, plans: &[Plans], folder: &Path) -> Result<ReportInput, Failure> {
    no_sweep(folder)?;
    let mut store = Store::open(folder)?;
    let on_kernel: Vec<&ExperimentPlan> = plans.iter().filter_map(|p| p.on_kernel.as_ref()).collect();
    // Check the kernel before anything is simulated.
    let executor = kernel::executor(&on_kernel, &store)?;
    work_by(&*executor, plans.iter().flat_map(|p| p.simulated.planned_jobs()), &mut store, &args.grid)?;
    if !on_kernel.is_empty() {
        work_by(&*executor, on_kernel.iter().flat_map(|p| p.planned_jobs()), &mut store, &args.grid)?;
    }
    drop(executor); // unregisters its algorithms
    let experiments: Vec<ExperimentResult> = plans.iter().map(|p| p.result(&store)).collect::<Result<_, LabError>>()?;
    let claims = paper.claims(&experiments)?;
    let mut summary = paper.summary.clone();
    if !args.set.is_empty() {
        let set = args.set.join(", ");
        summary.conclusion = format!("These runs change the paper's scenario ({set}), so its conclusion is omitted.");
        summary.linux.iter_mut().for_each(|choice| choice.note.clear());
    }
    let input = ReportInput {
        title: paper.title.clone(),
        intro: paper.about.clone(),
        command: command_line(),
        facts: folder::facts(&experiments, super::REVISION),
        experiments,
        claims,
        summary: Some(summary),
    };
    super::reported(&folder::keep(&store, &input)?, args.grid.form.quiet);
    Ok(input)
}

/// Fails under `--strict` if anything differs from the published results; undecided claims are only reported.
fn judge(args: &Reproduce, inputs: &[&ReportInput]) -> Result<(), Failure> {
    if !args.strict {
        return Ok(());
    }
    let counted = |input: &&ReportInput| input.claims.iter().filter(|c| c.origin != Origin::Construction).count();
    let claims: usize = inputs.iter().map(counted).sum();
    let undecided = match inputs.iter().map(|input| on_first_stack(input, ClaimOutcome::Undecided).count()).sum() {
        0_usize => None,
        n => Some(format!("{n} of {claims} claims are undecided, which is not a failure")),
    };
    let missed: Vec<String> = inputs.iter().flat_map(|input| missed(input)).collect();
    if missed.is_empty() {
        undecided.iter().for_each(|text| print_stderr(text));
        return Ok(());
    }
    let undecided = undecided.map_or(String::new(), |text| format!("\n{text}"));
    Err(Failure::Expectation(format!("results differ from the paper:\n  {}{undecided}", missed.join("\n  "))))
}

struct Plans {
    simulated: ExperimentPlan,
    /// Runs on the kernel, under `--stack kernel`.
    on_kernel: Option<ExperimentPlan>,
}

impl Plans {
    fn result(&self, store: &Store) -> Result<ExperimentResult, LabError> {
        match &self.on_kernel {
            None => self.simulated.result(store),
            Some(kernel) => self.simulated.result_beside(kernel, store),
        }
    }
}

/// Returns the grids of a paper's `chosen` experiments, or of all, with the `--only` options that apply to `used`.
fn plans<'a>(
    args: &'a Reproduce,
    paper: &Paper,
    chosen: &[String],
    used: &mut BTreeSet<&'a str>,
) -> Result<Vec<Plans>, LabError> {
    let is_stack = |text: &String| text.split('=').next().is_some_and(|key| key.trim() == "tcp.stack");
    if args.stack == StackArg::Kernel && args.set.iter().any(is_stack) {
        return Err(LabError::Usage {
            message: format!("--set tcp.stack: conflicts with --stack {KERNEL}"),
            help: "remove one of the two options".into(),
        });
    }
    let mut all = Vec::new();
    for mut experiment in paper.experiments(chosen, args.quick)? {
        match args.stack {
            StackArg::Ns3 => experiment.only_stacks(&["ns3", "ns3-3.27"]),
            StackArg::Ns2 => experiment.only_stacks(&["ns2"]),
            StackArg::Linux => experiment.only_stacks(&["linux"]),
            StackArg::Both | StackArg::Kernel => {}
        }
        let on_kernel = experiment.on_kernel.take().filter(|_| args.stack == StackArg::Kernel);
        select(args, &mut experiment, chosen, used)?;
        let simulated = ExperimentPlan::with_limit(experiment, args.grid.max_runs)?;
        // Warnings matter only if the user sets keys; the paper's own files explain their settings.
        warn_of(&simulated, args.grid.form.quiet || args.set.is_empty());
        let on_kernel = match on_kernel {
            None => None,
            Some(mut own) => match select(args, &mut own, &[], used)? {
                true => Some(ExperimentPlan::with_limit(*own, args.grid.max_runs)?),
                false => {
                    if !args.grid.form.quiet {
                        print_stderr(&format!("{}: these values are not measured on the kernel", own.id));
                    }
                    None
                }
            },
        };
        all.push(Plans { simulated, on_kernel });
    }
    Ok(all)
}

/// Applies the command line to an experiment. Returns true if the experiment has at least one requested value of each
/// axis. If experiments are `chosen` by name, all requested values must exist.
fn select<'a>(
    args: &'a Reproduce,
    experiment: &mut Experiment,
    chosen: &[String],
    used: &mut BTreeSet<&'a str>,
) -> Result<bool, LabError> {
    if let Some(n) = args.replicas {
        experiment.replicas = grid::replicas(n)?;
    }
    experiment.command += &rest(args);
    let mut has_all = true;
    for text in &args.only {
        let (name, values) = assignment(text)?;
        let Some(axis) = experiment.axes.iter().find(|a| a.name == name) else { continue };
        let values = split(&values);
        // An experiment that has only some of the requested values keeps these.
        let has = |v: &&String| axis.points.iter().any(|p| p.value == **v || p.label == **v);
        let known: Vec<String> = values.iter().filter(has).cloned().collect();
        if chosen.is_empty() && known.is_empty() {
            has_all = false;
            continue;
        }
        experiment.only(&name, if chosen.is_empty() { &known } else { &values })?;
        used.insert(text);
    }
    let seed = args.grid.seed.map(|n| format!("seed={n}"));
    let is_function = experiment.function.is_some();
    for text in args.set.iter().chain(&seed).filter(|_| !is_function) {
        let (key, value) = assignment(text)?;
        experiment.set(&key, &value)?;
    }
    Ok(has_all)
}

/// Returns the error for a paper without runs on the kernel.
fn no_kernel(paper: &str) -> LabError {
    LabError::Usage {
        message: format!("--stack {KERNEL}: the selection from `{paper}` is not measured on the kernel"),
        help: "select experiments and values of a `[kernel]` table, as in: roughlink reproduce v2g --stack kernel"
            .into(),
    }
}

/// Checks that every `--only` applies to some experiment.
fn all_used(args: &Reproduce, used: &BTreeSet<&str>) -> Result<(), LabError> {
    match args.only.iter().find(|text| !used.contains(text.as_str())) {
        None => Ok(()),
        Some(text) => Err(LabError::Usage {
            message: format!("--only {text}: no experiment has this axis with these values"),
            help: "name an axis and some of its values, such as --only cc=newreno,cubic".into(),
        }),
    }
}

/// Returns cells, orders and claims beyond the tolerance, on the first stack only: the published values apply to it.
fn missed(input: &ReportInput) -> Vec<String> {
    let mut missed = Vec::new();
    for e in &input.experiments {
        let Some(stack) = e.stacks.first() else { continue };
        for cell in e.cells.iter().filter(|c| c.stack == *stack && c.as_published() == Some(false)) {
            let at: Vec<&str> = cell.axes.values().map(String::as_str).collect();
            missed.push(format!("{} {}: {}", e.experiment, at.join(", "), beside_published(cell)));
        }
        for rank in e.ranks.iter().filter(|r| r.stack == *stack && r.spearman < SPEARMAN) {
            let at: Vec<&str> = rank.at.values().map(String::as_str).collect();
            missed.push(format!("{} {}: Spearman {:.2}", e.experiment, at.join(", "), rank.spearman));
        }
    }
    for claim in on_first_stack(input, ClaimOutcome::NotConfirmed) {
        missed.push(format!("{}: {}", claim.claim, claim.text));
    }
    missed
}

/// Describes a cell next to its published value.
fn beside_published(cell: &Cell) -> String {
    let published = cell.published.map_or(String::new(), show::digits);
    match (cell.ratio(), cell.bound, cell.measured) {
        (Some(ratio), ..) => format!("{ratio:.2} times the published value"),
        (_, Some(bound), _) => format!("above {}, published: {published}", show::digits(bound)),
        (.., Some(measured)) => format!("{}, published: {published}", show::digits(measured)),
        (.., None) => format!("no value, published: {published}"),
    }
}

/// Returns the claims with this outcome on the first stack.
fn on_first_stack(input: &ReportInput, outcome: ClaimOutcome) -> impl Iterator<Item = &ClaimResult> {
    let first = input.experiments.first().and_then(|e| e.stacks.first());
    let ends = move |c: &&ClaimResult| c.verdicts.iter().any(|v| Some(&v.stack) == first && v.verdict == outcome);
    input.claims.iter().filter(|c| c.origin != Origin::Construction).filter(ends)
}

/// Lowest rank correlation accepted under `--strict`.
const SPEARMAN: f64 = 0.9;

/// The argument that selects all papers.
const ALL: &str = "all";
const RESULTS: &str = "results";
/// The page that links to the reports.
const INDEX: &str = "index.html";

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
    out += "\nroughlink reproduce PAPER [EXPERIMENT]... [--quick]\nroughlink reproduce all\n";
    print(&out)
}

/// Returns the arguments other than experiment and `--quick`.
fn rest(args: &Reproduce) -> String {
    let mut rest = String::new();
    for (option, values) in [("--set", &args.set), ("--only", &args.only)] {
        for value in values {
            rest += &format!(" {option} {}", quote(value));
        }
    }
    if let Some(n) = args.grid.seed {
        rest += &format!(" --seed {n}");
    }
    if let Some(n) = args.replicas {
        rest += &format!(" --replicas {n}");
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_value_without_measurement_counts_as_miss() {
        let cell = |published: f64, measured: Option<f64>, at_least: &[f64]| Cell {
            stack: "ns3".into(),
            axes: [("cc".to_owned(), "reno".to_owned())].into(),
            published: Some(published),
            measured,
            at_least: at_least.into(),
            bound: at_least.first().copied(),
            ..Cell::default()
        };
        let cells = vec![
            cell(3.0, Some(3.1), &[]),
            cell(3.0, Some(9.0), &[]),
            cell(3.0, None, &[18.0; 6]),
            cell(3.0, None, &[]),
            cell(0.0, Some(0.5), &[]),
            cell(0.0, Some(0.0), &[]),
        ];
        let experiment =
            ExperimentResult { experiment: "p/e".into(), stacks: vec!["ns3".into()], cells, ..Default::default() };
        let input = ReportInput { experiments: vec![experiment], ..ReportInput::default() };
        let expected = [
            "p/e reno: 3.00 times the published value",
            "p/e reno: above 18.00, published: 3.000",
            "p/e reno: no value, published: 3.000",
            "p/e reno: 0.500, published: 0",
        ];
        assert_eq!(missed(&input), expected);
    }
}
