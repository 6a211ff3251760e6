//! Names of the elements of a scenario, with their indices.

use super::leaf::{Leaf, Name, span};
use super::problem::{Problem, Problems, suggest};
use std::collections::BTreeMap;
use std::ops::Range;

pub(super) struct ElementNames {
    what: &'static str,
    /// One name for each element; empty for an element without a name, which cannot be referred to.
    pub all: Vec<String>,
    index: BTreeMap<String, usize>,
    /// Set if all names could be read.
    pub complete: bool,
}

impl ElementNames {
    /// Reads the names of elements called `what`; each must be present and unique.
    pub(crate) fn read<'f>(
        what: &'static str,
        elements: impl Iterator<Item = &'f Option<Leaf<Name>>>,
        report: &mut Problems,
    ) -> Self {
        let mut names = ElementNames { what, all: Vec::new(), index: BTreeMap::new(), complete: true };
        let mut places: Vec<Range<usize>> = Vec::new();
        for leaf in elements {
            let name = report.read(leaf).map(|n| n.0);
            places.push(span(leaf));
            names.complete &= name.is_some();
            if let Some(name) = &name {
                let number = names.all.len();
                let first = *names.index.entry(name.clone()).or_insert(number);
                if first != number {
                    let problem = Problem::new(format!("two {what}s have the name `{name}`"));
                    let problem = problem.at(span(leaf), "the second").at(places[first].clone(), "the first");
                    report.error(problem.help(format!("rename one of them, for example to \"{name} 2\"")));
                }
            }
            names.all.push(name.unwrap_or_default());
        }
        names
    }

    pub(crate) fn index(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// Returns the index of the element that `leaf` names; reports an unknown name.
    pub(crate) fn find(&self, leaf: &Option<Leaf<String>>, report: &mut Problems) -> Option<usize> {
        let name = report.read(leaf)?;
        let found = self.index(&name);
        // An element whose name cannot be read may be the one that is meant.
        if found.is_none() && self.complete {
            let what = self.what;
            let problem = Problem::new(format!("unknown {what} `{name}`")).at(span(leaf), "");
            report.error(if report.is_crowded() {
                problem
            } else if self.all.is_empty() {
                problem.help(format!("declare it: [[{what}]] name = \"{name}\""))
            } else {
                problem.help(suggest(&name, "use one of", self.all.iter().map(String::as_str)))
            });
        }
        found
    }
}
