//! Portable description of a plan, from which another process or machine creates the same plan: scenario texts, the
//! files that they read, and all settings of the grid.

use super::grid::{Grid, Make, compare_by, sweep_by};
use super::plan::ExperimentPlan;
use crate::error::LabError;
use crate::library::{ScenarioFolder, ScenarioText};
use crate::runner::ENGINE;
use crate::store::Records;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Description of a sweep or a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Engine of the results ([`ENGINE`]); other engines may give other results.
    pub engine: String,
    /// Kind of the grid.
    pub kind: GridKind,
    /// Scenarios to run.
    #[serde(with = "given")]
    pub scenarios: Vec<ScenarioText>,
    /// Settings of the grid.
    pub grid: Grid,
}

/// A kind of grid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GridKind {
    /// [`sweep`](super::grid::sweep).
    Sweep {
        /// Keys with their values.
        vary: Vec<(String, Vec<String>)>,
    },
    /// [`compare`](super::grid::compare).
    Compare {
        /// Algorithms; empty to compare scenarios only.
        algorithms: Vec<String>,
        /// Keys and their values.
        #[serde(default)]
        vary: Vec<(String, Vec<String>)>,
    },
}

impl Order {
    pub(super) fn new(kind: GridKind, scenarios: Vec<ScenarioText>, grid: &Grid) -> Order {
        Order { engine: ENGINE.into(), kind, scenarios, grid: grid.clone() }
    }

    /// Creates the plan.
    ///
    /// # Errors
    /// Returns the errors of [`sweep`](super::grid::sweep) and [`compare`](super::grid::compare).
    pub fn plan(&self) -> Result<ExperimentPlan, LabError> {
        self.made_by(ExperimentPlan::with_limit, self.grid.most_runs)
    }

    /// Creates the plan of an untrusted order, with at most `most` runs regardless of the order's limit.
    ///
    /// # Errors
    /// Returns the errors of [`Order::plan`].
    pub fn plan_within(&self, most: u64) -> Result<ExperimentPlan, LabError> {
        self.made_by(ExperimentPlan::with_limit, most)
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> u128 {
        let counts: Vec<usize> = match &self.kind {
            GridKind::Sweep { vary } => vary.iter().map(|(_, values)| values.len()).collect(),
            GridKind::Compare { algorithms, vary } => {
                let counts = vary.iter().map(|(_, values)| values.len());
                [self.scenarios.len(), algorithms.len()].into_iter().chain(counts).collect()
            }
        };
        // A key without values is not an axis.
        let cells = counts.into_iter().fold(1, |product: u128, n| product.saturating_mul(n.max(1) as u128));
        cells.saturating_mul(u128::from(self.grid.replicas))
    }

    /// Creates the plan for a worker that executes some runs. Reads cells when needed; default metrics are unknown.
    ///
    /// # Errors
    /// Returns the errors of [`Order::plan`] that can be found without reading a scenario.
    pub fn plan_unread(&self) -> Result<ExperimentPlan, LabError> {
        self.made_by(ExperimentPlan::unread, self.grid.most_runs)
    }

    fn made_by(&self, make: Make, most_runs: u64) -> Result<ExperimentPlan, LabError> {
        let mut scenarios = self.scenarios.clone();
        let grid = &Grid { most_runs, ..self.grid.clone() };
        let mut plan = match &self.kind {
            GridKind::Sweep { vary } if scenarios.len() == 1 => sweep_by(make, scenarios.remove(0), vary, grid)?,
            GridKind::Sweep { .. } => {
                return Err(LabError::Usage {
                    message: format!("a sweep needs one scenario, not {}", scenarios.len()),
                    help: "name one scenario".into(),
                });
            }
            GridKind::Compare { algorithms, vary } => compare_by(make, scenarios, algorithms, vary, grid)?,
        };
        plan.order = Some(self.clone());
        Ok(plan)
    }

    /// Provides files, each as scenario name, file name and text; the scenarios then read no files from disk.
    pub fn give<'a>(&mut self, files: impl Iterator<Item = (&'a str, &'a str, &'a str)>) {
        let folders = self.scenarios.iter_mut().filter_map(|s| Some((&*s.name, s.folder.as_mut()?)));
        let mut folders: Vec<(&str, &mut ScenarioFolder)> = folders.collect();
        folders.iter_mut().for_each(|(_, folder)| folder.path = None);
        for (of, name, text) in files {
            for (_, folder) in folders.iter_mut().filter(|(scenario, _)| *scenario == of) {
                if folder.given.iter().all(|(given, _)| given != name) {
                    folder.given.push((name.to_owned(), text.to_owned()));
                }
            }
        }
    }

    /// Adds the files that another order of the same runs has and this one lacks.
    pub fn complete(&mut self, other: &Order) {
        let of = |s: &'_ ScenarioText| s.folder.iter().flat_map(|f| f.given.clone()).collect::<Vec<_>>();
        let files: Vec<_> = other.scenarios.iter().map(|s| (s.name.clone(), of(s))).collect();
        let files =
            files.iter().flat_map(|(of, files)| files.iter().map(move |(name, text)| (&**of, &**name, &**text)));
        self.give(files);
    }
}

impl ExperimentPlan {
    /// Returns the order with the texts of all files read so far; `None` unless the plan is a sweep or comparison.
    pub fn portable(&self) -> Option<Order> {
        let mut order = self.order.clone()?;
        let files = self.files.borrow();
        order.give(files.iter().map(|((of, name), text)| (&**of, &**name, &**text)));
        Some(order)
    }

    /// Returns the number of files that its scenarios have read so far.
    pub fn files(&self) -> usize {
        self.files.borrow().len()
    }

    /// Returns the number of `runs` in cells of this plan that cannot be read because files are missing. Runs of other
    /// engines belong to no cell and are not counted.
    pub(crate) fn unknown(&self, runs: &Records) -> usize {
        let mut own: HashSet<&str> = runs.keys().filter(|key| key.ends_with(ENGINE)).collect();
        let mut cells = 0;
        for cell in self.all() {
            cells += 1;
            for replica in 0..self.experiment.replicas {
                own.remove(&*self.key(&cell, replica));
            }
        }
        if cells < self.cells() { own.len() } else { 0 }
    }
}

/// Serialization of scenarios with the texts of their files and without paths.
mod given {
    use super::{ScenarioFolder, ScenarioText};
    use crate::library::Texts;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct SourceText {
        name: String,
        text: String,
        /// `None` for a built-in scenario, whose files are built in too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        files: Option<Texts>,
    }

    pub(super) fn serialize<S: Serializer>(sources: &[ScenarioText], to: S) -> Result<S::Ok, S::Error> {
        let given = |s: &ScenarioText| SourceText {
            name: s.name.clone(),
            text: s.text.clone(),
            files: s.folder.as_ref().map(|folder| folder.given.clone()),
        };
        sources.iter().map(given).collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ScenarioText>, D::Error> {
        let source = |SourceText { name, text, files }: SourceText| {
            let folder = files.map(|given| ScenarioFolder { given, ..ScenarioFolder::default() });
            ScenarioText { name, text, folder }
        };
        Ok(Vec::<SourceText>::deserialize(from)?.into_iter().map(source).collect())
    }
}
