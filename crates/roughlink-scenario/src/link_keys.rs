//! Keys and words that several tables of links have.

use super::leaf::{Leaf, Name, span, words};
use super::problem::{Problem, Problems};
use roughlink_core::units::Rate;
use schemars::JsonSchema;
use serde::Deserialize;

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum LinkDirections {
    /// From the first node of `between` to the second.
    Forward,
    /// From the second to the first.
    Reverse,
    /// Both.
    Both,
}

/// The keys of links that share a medium.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlMedium {
    /// Cable of the link. Links of the same cable share one medium, which the first link describes; not shared if
    /// absent.
    pub cable: Option<Leaf<Name>>,
}

words!(LinkDirections);

pub(super) fn rate(leaf: &Option<Leaf<Rate>>, report: &mut Problems) -> Option<Rate> {
    let rate = report.read(leaf)?;
    if rate == Rate(0) {
        let problem = Problem::new("`rate` must be greater than zero").at(span(leaf), "");
        report.error(problem.help("write a rate such as \"10 Mbit/s\"; use `noise` for losses"));
        return None;
    }
    Some(rate)
}
