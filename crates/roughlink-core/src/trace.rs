//! Output of a run beyond its summary: time series as columns, and captures. Both are
//! [`Observer`](crate::net::Observer)s and write to the sink or writer of the caller: nothing here depends on files.

pub mod capture;
pub mod columns;
pub mod pcapng;
