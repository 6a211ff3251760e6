//! The lab: experiments, sweeps, run stores, comparison with published numbers, reports, result folders.

pub mod experiment;
pub mod output;
pub mod report;
