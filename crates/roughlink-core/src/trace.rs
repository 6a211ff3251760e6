//! The output of a run beside its summary: time series as columns, and captures.
//!
//! Both are [`Observer`](crate::net::Observer)s, and both write to what they are given: nothing here depends on files.

pub mod capture;
pub mod columns;
pub mod pcapng;
