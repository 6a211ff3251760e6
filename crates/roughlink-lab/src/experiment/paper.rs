//! A paper: its experiments in order, and its claims.

use super::claims;
use super::file::{self, experiment, read};
use super::result::{ClaimResult, ExperimentResult};
use super::{Experiment, papers};
use crate::error::LabError;
use crate::library::{Source, names};
use crate::nearest;
use serde::Deserialize;
use toml::Spanned;

/// A paper that is reproduced.
#[derive(Clone, Debug)]
pub struct Paper {
    /// `v2g`, or a folder.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Authors, journal, what was found.
    pub about: String,
    /// Names of its experiments, in order.
    pub order: Vec<String>,
}

/// `experiments/<paper>/paper.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Its title.
    title: String,
    /// For the head of the report: paragraphs separated by an empty line.
    about: String,
    /// Names of its experiments, in the order of the report.
    experiments: Spanned<Vec<String>>,
}

/// All papers.
pub fn all() -> Result<Vec<Paper>, LabError> {
    papers().into_iter().map(|(name, _)| Paper::named(&name)).collect()
}

impl Paper {
    /// The paper called `name`, built in or in a folder.
    pub fn named(name: &str) -> Result<Paper, LabError> {
        let known: Vec<String> = papers().into_iter().map(|(name, _)| name).collect();
        let built_in = known.iter().any(|k| k == name);
        if !built_in && !std::path::Path::new(name).join("paper.toml").is_file() {
            let help = nearest::suggest(name, "there are", known.iter().map(String::as_str));
            return Err(LabError::NotFound { what: "paper", name: name.into(), help });
        }
        let name = name.trim_end_matches('/');
        let source = find(name, "paper")?;
        let file: File = read(&source)?;
        let there = names("experiments");
        for experiment in file.experiments.get_ref() {
            if built_in && !there.contains(&format!("{name}/{experiment}")) {
                let problem = roughlink_core::scenario::Problem::new(format!("there is no experiment `{experiment}`"));
                return Err(file::fault(&source, vec![problem.at(file.experiments.span(), "")]));
            }
        }
        Ok(Paper {
            name: name.into(),
            title: file.title,
            about: file.about.trim().into(),
            order: file.experiments.into_inner(),
        })
    }

    /// Its name without the folders that lead to it.
    pub fn short(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    /// The experiments that `chosen` names, all of them if it names none; `fig8` means `fig8a` and `fig8b`.
    pub fn experiments(&self, chosen: &[String], quick: bool) -> Result<Vec<Experiment>, LabError> {
        let means = |chosen: &str, name: &str| {
            name == chosen
                || name.strip_prefix(chosen).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        for name in chosen {
            if !self.order.iter().any(|known| means(name, known)) {
                let help = nearest::suggest(name, "there are", self.order.iter().map(String::as_str));
                return Err(LabError::NotFound { what: "experiment", name: name.clone(), help });
            }
        }
        let wanted = |name: &&String| chosen.is_empty() || chosen.iter().any(|c| means(c, name));
        let paper = self.short();
        self.order
            .iter()
            .filter(wanted)
            .map(|name| experiment(&find(&self.name, name)?, &format!("{paper}/{name}"), quick))
            .collect()
    }

    /// What became of its claims. Those for which nothing was run are left out.
    pub fn claims(&self, experiments: &[ExperimentResult]) -> Result<Vec<ClaimResult>, LabError> {
        match find(&self.name, "claims") {
            Ok(source) => claims::judge(&source, &self.name, experiments),
            Err(LabError::NotFound { .. }) => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }
}

fn find(paper: &str, name: &str) -> Result<Source, LabError> {
    let path = format!("{paper}/{name}.toml");
    if std::path::Path::new(&path).is_file() {
        return Source::find(&path, "experiments", "experiment");
    }
    Source::find(&format!("{paper}/{name}"), "experiments", "experiment")
}
