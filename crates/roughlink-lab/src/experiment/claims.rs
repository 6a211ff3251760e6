//! A paper's claims as data, and what becomes of them.

use super::result::{ClaimResult, ExperimentResult};
use crate::error::LabError;
use crate::library::Source;

/// Judges the claims in `source` by `results`.
pub fn judge(_source: &Source, _paper: &str, _results: &[ExperimentResult]) -> Result<Vec<ClaimResult>, LabError> {
    Ok(Vec::new())
}
