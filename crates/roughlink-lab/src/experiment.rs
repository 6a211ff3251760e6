//! Experiments as data: what to vary, what to measure, what was published, and what came out.

pub mod result;
