//! List of the congestion controls.

use roughlink_core::cc::{REGISTRY, STACKS};
use serde::Serialize;
use std::collections::BTreeMap;

/// A congestion control in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlgorithmDescription {
    /// Name, the value of `tcp.cc`.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Source: a paper, an RFC or a program.
    pub source: &'static str,
    /// Keys of `[tcp]` that the algorithm sets.
    pub tcp: toml::Table,
    /// Parameters (`tcp.cc_params`) with their defaults, by stack.
    pub parameters: BTreeMap<&'static str, toml::Table>,
}

/// Lists all algorithms.
///
/// ```
/// let all = roughlink_lab::algorithms::list();
/// let cubic = all.iter().find(|a| a.name == "cubic").unwrap();
/// assert!(cubic.parameters["linux"].contains_key("beta"));
/// ```
pub fn list() -> Vec<AlgorithmDescription> {
    let described = |a: &roughlink_core::cc::Algorithm| AlgorithmDescription {
        name: a.name,
        summary: a.summary,
        source: a.source,
        tcp: a.tcp.parse().expect("the registry's own TOML"),
        parameters: STACKS.iter().map(|stack| (*stack, a.parameters(stack))).collect(),
    };
    REGISTRY.iter().map(described).collect()
}
