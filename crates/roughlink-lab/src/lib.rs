//! The lab: experiments, sweeps, run stores, comparison with published numbers, reports, result folders.

#![warn(unreachable_pub)]

pub mod algorithms;
pub mod charging;
mod disk;
pub mod drawing;
pub mod error;
pub mod experiment;
pub mod folder;
pub mod kernel;
pub mod library;
pub mod metric;
pub mod nearest;
pub mod output;
pub mod part;
pub mod quantity;
pub mod report;
pub mod runner;
pub mod statistics;
pub mod store;
pub mod watch;
