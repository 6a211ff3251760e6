//! Portable description of a plan, from which another process or machine creates the same plan: scenario texts, the
//! files that they read, and all settings of the grid.

use crate::library::{Overrides, ScenarioFolder, ScenarioText};
use crate::runner::{ENGINE, carrier};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Description of a sweep or a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Engine of the results, including the carrier and the kernel for runs on a kernel ([`engine_of`]). Results may
    /// differ between engines.
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

/// Settings of a grid apart from its axes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    /// Keys with a value for all runs.
    pub set: Overrides,
    /// Seed of all random streams, if not the scenario's.
    pub seed: Option<u64>,
    /// Runs of each cell.
    pub replicas: u32,
    /// Names of the [metrics](crate::metric); if empty, the default metrics of the kinds of flows.
    pub metrics: Vec<String>,
    /// Command that repeats the grid, for the report.
    pub command: String,
    /// Largest number of runs.
    pub most_runs: u64,
    /// True if this machine's kernel carries the transfers of all runs ([`crate::kernel`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_kernel: bool,
}

impl Default for Grid {
    fn default() -> Self {
        Grid {
            set: Vec::new(),
            seed: None,
            replicas: SWEEP_REPLICAS,
            metrics: Vec::new(),
            command: String::new(),
            most_runs: MAX_RUNS,
            on_kernel: false,
        }
    }
}

impl GridKind {
    /// Returns true if the two kinds are equal apart from the values of varied keys. A key with a single value in both
    /// is fixed.
    fn extends(&self, known: &GridKind) -> bool {
        let (own, others) = match (self, known) {
            (GridKind::Sweep { vary }, GridKind::Sweep { vary: other })
            | (GridKind::Compare { vary, .. }, GridKind::Compare { vary: other, .. }) => (vary, other),
            _ => return false,
        };
        let all = |vary: &[(String, Vec<String>)]| vary.iter().cloned().collect::<BTreeMap<_, _>>();
        let (own, others) = (all(own), all(others));
        let agrees = |(key, values): (&String, &Vec<String>)| match others.get(key) {
            Some(other) => values.len() > 1 || other.len() > 1 || values == other,
            None => false,
        };
        own.len() == others.len() && own.iter().all(agrees)
    }
}

impl Order {
    /// Returns true if this order and `known` differ at most in the values of their keys, the metrics and the replicas.
    pub(crate) fn extends(&self, known: &Order) -> bool {
        let texts = |order: &Order| order.scenarios.iter().map(|scenario| scenario.text.clone()).collect::<Vec<_>>();
        let fixed = |order: &Order| (order.grid.set.clone(), order.grid.seed, order.grid.on_kernel);
        texts(self) == texts(known) && fixed(self) == fixed(known) && self.kind.extends(&known.kind)
    }

    pub(super) fn new(kind: GridKind, scenarios: Vec<ScenarioText>, grid: &Grid) -> Order {
        Order { engine: engine_of(grid.on_kernel), kind, scenarios, grid: grid.clone() }
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

/// Returns the engine of simulated runs, or of runs on this machine's kernel.
pub fn engine_of(on_kernel: bool) -> String {
    if on_kernel { format!("{ENGINE}-{}", carrier()) } else { ENGINE.into() }
}

/// Default limit for the runs of a grid: each needs a record in memory.
pub const MAX_RUNS: u64 = 1_000_000;
/// Default number of runs of each cell of a sweep.
pub const SWEEP_REPLICAS: u32 = 3;

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
