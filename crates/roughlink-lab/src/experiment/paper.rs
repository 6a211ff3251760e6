//! Papers: their experiments in order, and their claims.

use super::claims;
use super::file::{self, experiment, read};
use super::result::{Choice, ClaimResult, ExperimentResult, PaperSummary};
use super::{Experiment, papers};
use crate::error::LabError;
use crate::library::{MAX_EXPERIMENT_SIZE, ScenarioText, names};
use crate::nearest;
use roughlink_core::text::one_line;
use roughlink_scenario::Problem;
use serde::Deserialize;
use toml::Spanned;

/// Paper to reproduce.
#[derive(Clone, Debug)]
pub struct Paper {
    /// `v2g`, or a folder.
    pub name: String,
    /// Title of the paper.
    pub title: String,
    /// Authors, journal, main results.
    pub about: String,
    /// Names of the experiments, in order.
    pub order: Vec<String>,
    /// Measured CPU time of all experiments, in seconds; the fastest paper comes first.
    pub cpu_s: u32,
    /// Content of the first screen of the report.
    pub summary: PaperSummary,
}

/// `experiments/<paper>/paper.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PaperFile {
    title: String,
    /// Head of the report: paragraphs separated by an empty line.
    about: String,
    /// Names of the experiments, in the order of the report.
    experiments: Spanned<Vec<String>>,
    /// Measured CPU time of all experiments at full size, in seconds.
    #[serde(default)]
    cpu_s: u32,
    /// Main conclusion: a sentence for the first screen, without figures of a run.
    #[serde(default)]
    conclusion: String,
    /// Experiment whose figure is shown first; the first of `experiments` if absent.
    picture: Option<Spanned<String>>,
    /// Cells that determine the recommendation for Linux.
    linux: Option<LinuxTable>,
}

/// `[linux]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinuxTable {
    experiment: Spanned<String>,
    /// Axis of the candidates.
    #[serde(default = "claims::cc")]
    axis: String,
    /// Deciding metric; the experiment's first if absent.
    #[serde(default)]
    metric: String,
    best: BestDirection,
    /// Candidates that come with Linux; all if absent.
    #[serde(default)]
    shipped: Vec<String>,
    /// Sentence of advice, without figures of a run.
    #[serde(default)]
    note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum BestDirection {
    /// Largest, e.g. for a throughput.
    Highest,
    /// Smallest, e.g. for a delay.
    Lowest,
}

/// Returns all papers.
pub fn all() -> Result<Vec<Paper>, LabError> {
    papers().into_iter().map(|(name, _)| Paper::named(&name)).collect()
}

impl Paper {
    /// Returns the paper `name`, built in or in a folder.
    pub fn named(name: &str) -> Result<Paper, LabError> {
        let known: Vec<String> = papers().into_iter().map(|(name, _)| name).collect();
        let built_in = known.iter().any(|k| k == name);
        if !built_in && !std::path::Path::new(name).join("paper.toml").is_file() {
            let help = nearest::suggest(name, "expected", known.iter().map(String::as_str));
            return Err(LabError::NotFound { what: "paper", name: name.into(), help });
        }
        let name = name.trim_end_matches('/');
        let source = find(name, "paper")?;
        let file: PaperFile = read(&source)?;
        let there = names("experiments");
        for experiment in file.experiments.get_ref() {
            if built_in && !there.contains(&format!("{name}/{experiment}")) {
                let problem = Problem::new(format!("unknown experiment `{experiment}`"));
                return Err(file::fault(&source, vec![problem.at(file.experiments.span(), "")]));
            }
        }
        let order = file.experiments.into_inner();
        let shown = file.picture.iter().chain(file.linux.as_ref().map(|l| &l.experiment));
        if let Some(wrong) = shown.into_iter().find(|e| !order.contains(e.get_ref())) {
            let help = nearest::suggest(wrong.get_ref(), "expected", order.iter().map(String::as_str));
            let problem = Problem::new(format!("unknown experiment `{}` of this paper", wrong.get_ref()));
            return Err(file::fault(&source, vec![problem.at(wrong.span(), "").help(help)]));
        }
        let short = short(name);
        let id = |experiment: &str| format!("{short}/{experiment}");
        let first = order.first().cloned().unwrap_or_default();
        let summary = PaperSummary {
            conclusion: one_line(&file.conclusion),
            picture: id(&file.picture.map_or(first, Spanned::into_inner)),
            linux: file.linux.map(|l| Choice {
                experiment: id(l.experiment.get_ref()),
                axis: l.axis,
                metric: l.metric,
                lowest: l.best == BestDirection::Lowest,
                shipped: l.shipped,
                note: one_line(&l.note),
            }),
        };
        Ok(Paper {
            name: name.into(),
            title: file.title,
            about: file.about.trim().into(),
            order,
            cpu_s: file.cpu_s,
            summary,
        })
    }

    /// Returns the name without leading folders.
    pub fn short(&self) -> &str {
        short(&self.name)
    }

    /// Returns true if `chosen` names any of its experiments.
    pub fn has(&self, chosen: &str) -> bool {
        self.order.iter().any(|known| self.means(chosen, known))
    }

    /// Returns true if a typed name selects the experiment `name`. An exact name selects only that experiment.
    /// Otherwise it selects by prefix: `fig8` selects `fig8a`, but not `fig81`.
    fn means(&self, chosen: &str, name: &str) -> bool {
        if self.order.iter().any(|known| known == chosen) {
            return name == chosen;
        }
        name.strip_prefix(chosen).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Returns the experiments named by `chosen`, or all if `chosen` is empty; `fig8` means `fig8a` and `fig8b`.
    pub fn experiments(&self, chosen: &[String], quick: bool) -> Result<Vec<Experiment>, LabError> {
        for name in chosen {
            if !self.has(name) {
                let help = nearest::suggest(name, "expected", self.order.iter().map(String::as_str));
                return Err(LabError::NotFound { what: "experiment", name: name.clone(), help });
            }
        }
        let wanted = |name: &&String| chosen.is_empty() || chosen.iter().any(|c| self.means(c, name));
        let paper = self.short();
        let read = |name: &String| experiment(&find(&self.name, name)?, &format!("{paper}/{name}"), quick);
        let experiments: Vec<Experiment> = self.order.iter().filter(wanted).map(read).collect::<Result<_, _>>()?;
        if let Some(choice) = &self.summary.linux
            && let Some(experiment) = experiments.iter().find(|e| e.id == choice.experiment)
        {
            check(choice, experiment)?;
        }
        Ok(experiments)
    }

    /// Returns the verdicts on the claims. Claims without runs are omitted.
    pub fn claims(&self, experiments: &[ExperimentResult]) -> Result<Vec<ClaimResult>, LabError> {
        match find(&self.name, "claims") {
            Ok(source) => claims::judge(&source, &self.name, experiments),
            Err(LabError::NotFound { .. }) => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }
}

/// Checks that the names in `[linux]` exist.
fn check(choice: &Choice, experiment: &Experiment) -> Result<(), LabError> {
    let missing = |what, name: &str, known: Vec<&str>| {
        let help = nearest::suggest(name, &format!("`[linux]` uses {}: expected", experiment.id), known);
        Err(LabError::NotFound { what, name: name.into(), help })
    };
    let Some(axis) = experiment.axes.iter().find(|a| a.name == choice.axis) else {
        return missing("axis", &choice.axis, experiment.axes.iter().map(|a| a.name.as_str()).collect());
    };
    let metrics: Vec<&str> = experiment.metrics.iter().map(|m| m.name()).collect();
    if !choice.metric.is_empty() && !metrics.contains(&choice.metric.as_str()) {
        return missing("metric", &choice.metric, metrics);
    }
    let values: Vec<&str> = axis.points.iter().map(|p| p.value.as_str()).collect();
    match choice.shipped.iter().find(|s| !values.contains(&s.as_str())) {
        Some(wrong) => missing("axis value", wrong, values),
        None => Ok(()),
    }
}

fn short(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn find(paper: &str, name: &str) -> Result<ScenarioText, LabError> {
    let path = format!("{paper}/{name}.toml");
    if std::path::Path::new(&path).is_file() {
        return ScenarioText::find(&path, "experiments", "experiment", MAX_EXPERIMENT_SIZE);
    }
    ScenarioText::find(&format!("{paper}/{name}"), "experiments", "experiment", MAX_EXPERIMENT_SIZE)
}
