//! The deterministic core of roughlink: transport endpoints, links and the network that joins them.
//!
//! No operating system, no wall clock, no threads, no unsafe code. Every element has the same four methods, the verbs:
//! `receive` a packet, `transmit` one, `wake` to process what is due, and `next_wake` to return when that is.

pub mod app;
pub mod cc;
#[cfg(test)]
mod channel;
pub mod gateway;
pub mod link;
pub mod metrics;
pub mod net;
pub mod packet;
pub mod rng;
pub mod scenario;
pub mod sctp;
pub mod tcp;
pub mod text;
pub mod trace;
pub mod units;
pub mod wire;
