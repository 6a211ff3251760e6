//! Figures that are drawn from an algorithm's own functions and need no run.

use super::result::{Curve, MetricResult};

/// A function to be drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Which one: a name of [`NAMES`].
    pub name: String,
    /// The algorithms whose parameters it takes.
    pub variants: Vec<String>,
}

/// The functions there are.
pub const NAMES: &[&str] = &["illinois"];

impl Function {
    /// Its curves and what they show.
    pub fn curves(&self) -> (Vec<Curve>, Vec<MetricResult>) {
        (Vec::new(), Vec::new())
    }
}
