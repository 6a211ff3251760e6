//! The grid of an experiment: its cells and their runs.
//!
//! The scenarios of a small grid are all read before the first run, so that an error is reported at once. In a large
//! grid only the first cells are read, and each value of each axis once. The other cells are read just before they run
//! ([`ExperimentPlan::planned_jobs`]), so neither time nor memory before the first run grows with the number of cells.
//! An error in such a cell ends the sweep and keeps finished runs.

use super::identity::Identity;
use super::order::{MAX_RUNS, Order};
use super::{Axis, Experiment, KERNEL, Point};
use crate::error::LabError;
use crate::library::{CellTemplate, Overrides, Parsed, ScenarioText};
use crate::metric::{self, Metric, known};
use crate::runner::{Job, PlannedJob, carrier, key};
use crate::watch::TOTAL;
use roughlink_core::net::{RunLimits, routing};
use roughlink_core::scenario::Scenario;
use roughlink_scenario::Warning;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An experiment and its grid.
#[derive(Debug)]
pub struct ExperimentPlan {
    /// The experiment.
    pub experiment: Experiment,
    /// Warnings about the scenarios, each once, with the scenario text that their positions refer to.
    pub warnings: Vec<(String, Arc<str>, Warning)>,
    /// Messages of these warnings.
    warned: BTreeSet<String>,
    /// Inputs of a sweep or comparison; None for other experiments.
    pub order: Option<Order>,
    /// The first cells, read before any run.
    first: Vec<Arc<PlannedCell>>,
    /// Flow kinds in the scenarios that were read before any run.
    kinds: BTreeSet<&'static str>,
    /// TCP stacks of these flows.
    pub(super) stacks: BTreeSet<&'static str>,
    /// Texts of the files that the scenarios have read, by scenario name and file name.
    pub(super) files: Mutex<BTreeMap<(String, String), String>>,
    templates: Mutex<HashMap<TemplateKey, Option<Arc<CellTemplate>>>>,
    /// Fingerprints of cells without a template that have been parsed.
    parsed: Mutex<HashMap<usize, u128>>,
}

/// Cells with the same template: the number of their stack, the axis and value that choose their scenario, and the keys
/// that the axes set.
type TemplateKey = (usize, Option<(usize, usize)>, Vec<String>);

/// Cells of a grid, and values of an axis, that are read before the first run.
const READ_FIRST: usize = 1000;

/// A combination of axis values on a stack.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) stack: String,
    pub(super) ran_on: String,
    pub(super) at: Vec<String>,
    fingerprint: u128,
}

/// A cell with its scenario, which is read when it is needed.
#[derive(Debug)]
struct PlannedCell {
    number: usize,
    planned: Planned,
    scenario: Mutex<Option<Arc<Scenario>>>,
}

/// The scenario of a cell and its changes.
struct CellSource<'p> {
    source: &'p ScenarioText,
    overrides: Overrides,
    /// Number of overrides that all cells on the stack have.
    fixed: usize,
    chosen_by: Option<(usize, usize)>,
}

impl ExperimentPlan {
    /// Plans a grid of at most [`MAX_RUNS`].
    pub fn new(experiment: Experiment) -> Result<ExperimentPlan, LabError> {
        ExperimentPlan::with_limit(experiment, MAX_RUNS)
    }

    /// Like [`ExperimentPlan::new`], with a limit of `most` runs.
    pub fn with_limit(experiment: Experiment, most: u64) -> Result<ExperimentPlan, LabError> {
        let mut plan = ExperimentPlan::unread(experiment, most)?;
        for i in 0..plan.cells().min(READ_FIRST) {
            let (planned, scenario) = plan.examine(i)?;
            let scenario = Mutex::new(Some(Arc::new(scenario)));
            plan.first.push(Arc::new(PlannedCell { number: i, planned, scenario }));
        }
        if plan.cells() > READ_FIRST {
            plan.each_value().into_iter().try_for_each(|i| plan.examine(i).map(|_| ()))?;
        }
        Ok(plan)
    }

    /// Like [`ExperimentPlan::with_limit`], but reads no cell before its run. For processes that run parts of a plan
    /// that has already been read elsewhere.
    pub(super) fn unread(experiment: Experiment, most: u64) -> Result<ExperimentPlan, LabError> {
        let runs = (experiment.axes.iter().map(|a| a.points.len() as u128))
            .chain([experiment.stacks.len() as u128, u128::from(experiment.replicas)])
            .fold(1, u128::saturating_mul);
        // Counts below cannot overflow if this check passes.
        let most = most.min(usize::MAX as u64);
        if runs > u128::from(most) && experiment.function.is_none() {
            return Err(LabError::Usage {
                message: format!("the grid has {runs} runs, more than {most}"),
                help: format!("vary fewer values, or allow all with --max-runs {runs}"),
            });
        }
        Ok(ExperimentPlan {
            experiment,
            warnings: Vec::new(),
            warned: BTreeSet::new(),
            first: Vec::new(),
            order: None,
            kinds: BTreeSet::new(),
            stacks: BTreeSet::new(),
            files: Mutex::default(),
            templates: Mutex::default(),
            parsed: Mutex::default(),
        })
    }

    pub(super) fn cells(&self) -> usize {
        let e = &self.experiment;
        if e.function.is_some() { 0 } else { e.stacks.len().saturating_mul(self.combinations()) }
    }

    /// Returns the number of cells on each stack.
    fn combinations(&self) -> usize {
        // An axis without values makes the product zero, so the others may have any size.
        self.experiment.axes.iter().map(|a| a.points.len()).fold(1, usize::saturating_mul)
    }

    /// Returns true if some runs have transfers that this machine's kernel carries ([`crate::kernel`]).
    pub fn is_on_kernel(&self) -> bool {
        self.experiment.stacks.iter().any(|stack| stack.name == KERNEL)
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        self.cells().saturating_mul(self.experiment.replicas as usize)
    }

    /// Returns a minimal list of cells with each value of each axis; the other axes are at their first value.
    fn each_value(&self) -> Vec<usize> {
        let mut cells = Vec::new();
        for stack in 0..self.experiment.stacks.len() {
            let mut stride = self.combinations();
            for axis in &self.experiment.axes {
                stride /= axis.points.len();
                let values = 0..axis.points.len().min(READ_FIRST);
                cells.extend(values.map(|value| stack * self.combinations() + value * stride));
            }
        }
        cells
    }

    /// Returns the axis values of cell `i` on its stack.
    fn points(&self, i: usize) -> Vec<(&Axis, &Point)> {
        let e = &self.experiment;
        e.axes.iter().zip(self.places(i)).map(|(axis, i)| (axis, &axis.points[i])).collect()
    }

    /// Returns the numbers of the axis values of cell `i`.
    fn places(&self, i: usize) -> Vec<usize> {
        let counts: Vec<usize> = self.experiment.axes.iter().map(|a| a.points.len()).collect();
        unravel(i % self.combinations(), &counts)
    }

    /// Describes cell `i`, given the fingerprint of its scenario.
    fn described(&self, i: usize, fingerprint: u128) -> Planned {
        let (points, stack) = (self.points(i), &self.experiment.stacks[i / self.combinations()]);
        let at = points.iter().map(|(_, p)| p.value.clone()).collect();
        let ran_on = Some(self.stack_of(i)).filter(|own| *own != stack.name).unwrap_or_default().to_owned();
        Planned { stack: stack.name.clone(), ran_on, at, fingerprint }
    }

    /// Returns the labels of the axis values of cell `i`.
    pub(super) fn labels(&self, i: usize) -> Vec<String> {
        self.points(i).iter().map(|(_, point)| label(point)).collect()
    }

    /// Returns the stack on which cell `i` actually runs.
    pub(super) fn stack_of(&self, i: usize) -> &str {
        let own = self.points(i).into_iter().rev().find_map(|(_, point)| own_stack(point));
        own.unwrap_or(&self.experiment.stacks[i / self.combinations()].name)
    }

    fn source(&self, i: usize) -> Result<CellSource<'_>, LabError> {
        let e = &self.experiment;
        let points = self.points(i);
        let by = points.iter().position(|(_, point)| point.scenario.is_some());
        let own = by.and_then(|axis| points[axis].1.scenario.as_ref());
        let source = own.or(e.scenario.as_ref()).ok_or_else(|| LabError::Usage {
            message: format!("{} has no scenario", e.id),
            help: "name a scenario".into(),
        })?;
        let mut overrides: Overrides = e.stacks[i / self.combinations()].set.clone();
        overrides.extend(e.set.iter().cloned());
        let fixed = overrides.len();
        for (axis, point) in &points {
            overrides.extend(axis.keys.iter().map(|key| (key.clone(), point.value.clone())));
            overrides.extend(point.set.iter().cloned());
        }
        Ok(CellSource { source, overrides, fixed, chosen_by: by.map(|axis| (axis, self.places(i)[axis])) })
    }

    /// Returns the template of cell `i`, and creates it if this is its first cell.
    fn template(&self, i: usize, cell: &CellSource<'_>) -> Result<Option<Arc<CellTemplate>>, LabError> {
        let keys = cell.overrides[cell.fixed..].iter().map(|(key, _)| key.clone()).collect();
        let key = (i / self.combinations(), cell.chosen_by, keys);
        let known = locked(&self.templates).get(&key).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let new = match CellTemplate::text(cell.source, &cell.overrides, cell.fixed) {
            None => None,
            Some(text) => {
                let parsed = cell.source.parse(&cell.overrides)?;
                self.keep_files(cell.source, &parsed);
                Some(Arc::new(CellTemplate::new(text, &parsed)))
            }
        };
        locked(&self.templates).insert(key, new.clone());
        Ok(new)
    }

    fn keep_files(&self, source: &ScenarioText, parsed: &Parsed) {
        let mut files = locked(&self.files);
        for (name, text) in &parsed.files {
            files.entry((source.name.clone(), name.clone())).or_insert_with(|| text.clone());
        }
    }

    /// Reads the scenario of cell `i` and checks it.
    fn read(&self, i: usize) -> Result<(Planned, Parsed, &ScenarioText), LabError> {
        let e = &self.experiment;
        let cell = self.source(i)?;
        let CellSource { source, overrides, .. } = &cell;
        let parsed = match self.template(i, &cell)? {
            Some(template) => template.parse(source, overrides)?,
            None => source.parse(overrides)?,
        };
        self.keep_files(source, &parsed);
        let scenario = &parsed.scenario;
        routing::paths(scenario)?;
        e.metrics.iter().try_for_each(|m| m.check(scenario))?;
        for flow in e.watch.iter().flat_map(|w| w.flow.iter().chain(&w.flows)).filter(|flow| *flow != TOTAL) {
            known("flow", flow, scenario.flows.iter().map(|f| f.name.as_str()))?;
        }
        for (_, point) in self.points(i).iter().filter(|(axis, _)| axis.keys.iter().any(|key| key == "tcp.cc")) {
            let algorithm = point.value.split('{').next().unwrap_or_default().trim();
            if scenario.flows.iter().all(|f| f.cc().is_none_or(|cc| cc.name != algorithm)) {
                return Err(LabError::Usage {
                    message: format!("`tcp.cc = {algorithm}` has no effect: every flow has its own `cc`"),
                    help: "remove `cc` from the flows, or vary it there: sweep --set flow.NAME.cc=...".into(),
                });
            }
        }
        Ok((self.described(i, parsed.fingerprint), parsed, cell.source))
    }

    /// Reads cell `i` before any run, and collects its warnings, flow kinds and stacks.
    fn examine(&mut self, i: usize) -> Result<(Planned, Scenario), LabError> {
        let (planned, Parsed { scenario, warnings, .. }, source) = self.read(i)?;
        let file = source.name.clone();
        let new: Vec<Warning> = warnings.into_iter().filter(|w| self.warned.insert(w.message.clone())).collect();
        if !new.is_empty() {
            let text: Arc<str> = scenario.source.as_str().into();
            self.warnings.extend(new.into_iter().map(|warning| (file.clone(), Arc::clone(&text), warning)));
        }
        self.kinds.extend(scenario.flows.iter().map(|f| f.traffic.name()));
        self.stacks.extend(scenario.flows.iter().filter_map(|f| Some(f.tcp()?.stack.name())));
        Ok((planned, scenario))
    }

    /// Returns cell `i`. Reads its scenario now only if it must be parsed to be identified.
    fn cell(&self, i: usize) -> Result<Arc<PlannedCell>, LabError> {
        if let Some(kept) = self.first.get(i) {
            return Ok(Arc::clone(kept));
        }
        let cell = self.source(i)?;
        let fingerprint = self.template(i, &cell)?.and_then(|template| template.fingerprint(&cell.overrides));
        let known = locked(&self.parsed).get(&i).copied();
        let (planned, scenario) = match fingerprint.or(known) {
            Some(fingerprint) => (self.described(i, fingerprint), None),
            None => {
                let (planned, parsed, _) = self.read(i)?;
                locked(&self.parsed).insert(i, planned.fingerprint);
                (planned, Some(Arc::new(parsed.scenario)))
            }
        };
        Ok(Arc::new(PlannedCell { number: i, planned, scenario: Mutex::new(scenario) }))
    }

    /// Returns the scenario of a cell, read now if necessary.
    fn scenario(&self, cell: &PlannedCell) -> Result<Arc<Scenario>, LabError> {
        let mut known = locked(&cell.scenario);
        if let Some(known) = &*known {
            return Ok(Arc::clone(known));
        }
        let (planned, parsed, source) = self.read(cell.number)?;
        // The key of a run contains a hash of the files that the run reads.
        if planned.fingerprint != cell.planned.fingerprint {
            return Err(LabError::Usage {
                message: format!("a file that `{}` reads has changed during the sweep", source.name),
                help: "repeat the command: runs with the changed file are executed again".into(),
            });
        }
        Ok(Arc::clone(known.insert(Arc::new(parsed.scenario))))
    }

    /// Returns cell `i` for its results; `None` if it cannot be identified.
    pub(super) fn planned(&self, i: usize) -> Option<Planned> {
        Some(self.cell(i).ok()?.planned.clone())
    }

    /// Returns a run of a cell, whose scenario is read now if necessary. Runs of the same cell share it.
    fn job(&self, key: String, cell: &PlannedCell, replica: u32) -> Result<Job, LabError> {
        let (e, planned) = (&self.experiment, &cell.planned);
        let scenario = self.scenario(cell)?;
        let title = format!("{} {} replica {replica}", e.id, planned.at.join(" "));
        let (watch, limits, real_time) = (e.watch.clone(), RunLimits::default(), planned.stack == KERNEL);
        Ok(Job { key, scenario, replica, watch, title, limits, real_time })
    }

    /// Returns all cells, without those that cannot be identified.
    pub(super) fn all(&self) -> impl Iterator<Item = Planned> {
        (0..self.cells()).filter_map(|i| self.planned(i))
    }

    /// Returns the runs of the plan with their scenarios; each is planned when the iterator reaches it.
    pub fn jobs(&self) -> impl Iterator<Item = Result<Job, LabError>> {
        self.planned_jobs().map(|job| job?.read())
    }

    /// Returns the runs with these numbers, like [`ExperimentPlan::jobs`].
    pub fn jobs_at<I: ExactSizeIterator<Item = usize>>(
        &self,
        numbers: I,
    ) -> impl Iterator<Item = Result<Job, LabError>> {
        self.planned_jobs_at(numbers).map(|job| job?.read())
    }

    /// Returns the runs of the plan, identified when the iterator reaches them.
    pub fn planned_jobs(&self) -> PlannedJobs<'_> {
        self.planned_jobs_at(0..self.runs())
    }

    /// Returns the runs with these numbers, counted from zero. A number outside the plan ends the iterator.
    pub fn planned_jobs_at<I: ExactSizeIterator<Item = usize>>(&self, numbers: I) -> PlannedJobs<'_, I> {
        PlannedJobs { plan: self, numbers, cell: None }
    }

    /// Returns the number of the run with these values of the axes, by name. None if the plan has no such run.
    pub fn number(&self, at: &BTreeMap<String, String>, replica: u32) -> Option<usize> {
        let e = &self.experiment;
        let mut cell = 0;
        for axis in &e.axes {
            let value = at.get(&axis.name)?;
            cell = cell * axis.points.len() + axis.points.iter().position(|point| point.value == *value)?;
        }
        (replica < e.replicas && e.stacks.len() == 1).then(|| cell * e.replicas as usize + replica as usize)
    }

    /// Selects the usual metrics of its scenarios' flows ([`metric::default_metrics`]).
    pub fn measure_usual(&mut self, transfers: &[&'static str]) {
        let names = metric::default_metrics(&self.kinds, transfers);
        self.experiment.metrics = names.iter().map(|n| Metric::new(n).expect("a metric that there is")).collect();
    }

    /// Selects one metric. Stored runs have all quantities, so that other metrics than the planned ones can be read.
    ///
    /// # Errors
    /// Returns an error if the metric is unknown.
    pub fn measure_only(&mut self, metric: &str) -> Result<(), LabError> {
        self.experiment.metrics = vec![Metric::new(metric)?];
        Ok(())
    }

    /// Returns the experiment's identity. For a large grid it covers the cells that are read first and all axis values.
    pub fn identity(&self) -> Identity {
        let e = &self.experiment;
        let mut texts: Vec<String> = e.axes.iter().map(|a| a.name.clone()).collect();
        texts.extend(e.metrics.iter().map(|m| m.name().to_owned()));
        for cell in self.first.iter().map(|cell| &cell.planned) {
            texts.push(cell.stack.clone());
            texts.extend(cell.at.iter().cloned());
            texts.push(format!("{:032x}", cell.fingerprint));
        }
        if self.first.len() < self.cells() {
            texts.extend(e.stacks.iter().map(|s| format!("{s:?}")));
            texts.extend(e.axes.iter().map(|a| format!("{a:?}")));
        }
        Identity::new(texts, e.replicas)
    }

    pub(super) fn key(&self, cell: &Planned, replica: u32) -> String {
        let simulated = key(cell.fingerprint, replica, self.experiment.watch.as_ref());
        match cell.stack == KERNEL {
            true => format!("{simulated}-{}", carrier()),
            false => simulated,
        }
    }
}

/// Runs of a plan.
#[derive(Debug)]
pub struct PlannedJobs<'p, I = Range<usize>> {
    plan: &'p ExperimentPlan,
    numbers: I,
    cell: Option<Arc<PlannedCell>>,
}

impl<'p, I: ExactSizeIterator<Item = usize>> Iterator for PlannedJobs<'p, I> {
    type Item = Result<PlannedJob<'p>, LabError>;

    fn next(&mut self) -> Option<Self::Item> {
        let replicas = self.plan.experiment.replicas as usize;
        let number = self.numbers.next().filter(|&number| number < self.plan.runs())?;
        let (i, replica) = (number / replicas, (number % replicas) as u32);
        if self.cell.as_ref().is_none_or(|last| last.number != i) {
            match self.plan.cell(i) {
                Ok(cell) => self.cell = Some(cell),
                Err(e) => return Some(Err(e)),
            }
        }
        let cell = Arc::clone(self.cell.as_ref()?);
        let key = self.plan.key(&cell.planned, replica);
        let (plan, own) = (self.plan, key.clone());
        Some(Ok(PlannedJob::new(key, move || plan.job(own, &cell, replica))))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.numbers.size_hint()
    }
}

/// Locks a value that stays valid if another thread panics.
pub(super) fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the stack that an axis value sets in addition to its keys.
fn own_stack(point: &Point) -> Option<&str> {
    point.set.iter().rev().find(|(key, _)| key == "tcp.stack").map(|(_, stack)| stack.as_str())
}

/// Returns the label of a value for users, with the stack if the value sets one.
pub(super) fn label(point: &Point) -> String {
    own_stack(point).map_or_else(|| point.label.clone(), |stack| format!("{} ({stack})", point.label))
}

/// Returns the indices of the `i`-th combination; the last axis varies fastest.
fn unravel(mut i: usize, counts: &[usize]) -> Vec<usize> {
    let mut at = vec![0; counts.len()];
    for (slot, count) in at.iter_mut().zip(counts).rev() {
        *slot = i % count;
        i /= count;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::file;
    use crate::runner;
    use crate::store::Store;
    use std::sync::atomic::AtomicBool;

    fn grid(seeds: usize, windows: usize) -> Experiment {
        let text = "title = \"grid\"\nplace = \"here\"\nscenario = \"hello\"\nmetrics = [\"throughput_mbps\"]\n\
            replicas = 1\n[set]\nduration = \"10 ms\"\n\
            [[axis]]\nname = \"seed\"\nkey = \"seed\"\nvalues = [\"1\"]\n\
            [[axis]]\nname = \"window\"\nkey = \"tcp.initial_window\"\nvalues = [\"1\"]\n";
        let source = ScenarioText { name: "test.toml".into(), text: text.into(), folder: None };
        let mut experiment = file::experiment(&source, "test/grid", false).unwrap();
        experiment.stacks.truncate(1);
        for (axis, n) in experiment.axes.iter_mut().zip([seeds, windows]) {
            let point =
                |i: usize| Point { value: i.to_string(), label: i.to_string(), scenario: None, set: Vec::new() };
            axis.points = (1..=n).map(point).collect();
        }
        experiment
    }

    #[test]
    fn large_grid_is_read_lazily() {
        let plan = ExperimentPlan::new(grid(1000, 1000)).unwrap();
        assert_eq!((plan.runs(), plan.first.len()), (1_000_000, READ_FIRST));
        let mut jobs = plan.planned_jobs();
        assert_eq!(jobs.size_hint(), (1_000_000, Some(1_000_000)));
        let kept: BTreeSet<String> = jobs.by_ref().take(READ_FIRST + 3).map(|j| j.unwrap().key).collect();
        assert_eq!(kept.len(), READ_FIRST + 3, "each is another run");
        // The identity of a cell does not depend on when it was read.
        let again: Vec<String> = plan.all().take(READ_FIRST + 3).map(|cell| plan.key(&cell, 0)).collect();
        assert_eq!(again.into_iter().collect::<BTreeSet<_>>(), kept);
        assert!(!plan.identity().continues(&ExperimentPlan::new(grid(1000, 999)).unwrap().identity().to_string()));
    }

    #[test]
    fn small_grid_is_read_completely_at_first() {
        let plan = ExperimentPlan::new(grid(20, 50)).unwrap();
        assert_eq!((plan.runs(), plan.first.len()), (1000, 1000));
    }

    #[test]
    fn wrong_values_fail_before_the_first_run_and_wrong_cells_later() {
        let wrong = |seeds: usize, at: usize| {
            let mut experiment = grid(seeds, 3);
            experiment.axes[0].points[at].value = "many".into();
            ExperimentPlan::new(experiment)
        };
        assert!(matches!(wrong(1000, 999), Err(LabError::File(_))), "each value is tried once");
        let plan = wrong(5000, 4000).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let ended = runner::run(plan.jobs(), &mut store, 1, &AtomicBool::new(false), &mut |_| {});
        assert!(matches!(ended, Err(LabError::File(_))), "{ended:?}");
        assert!((1..12_000).contains(&store.len()), "what was finished is kept: {}", store.len());
    }
}
