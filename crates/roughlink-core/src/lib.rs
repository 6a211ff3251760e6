//! The deterministic core of roughlink: transport endpoints, links and the network that joins them.
//!
//! No operating system, no wall clock, no threads, no unsafe code. Every element has the same four methods, the verbs:
//! `receive` takes a packet in, `transmit` returns one, `wake` processes due events, and `next_wake` returns the time
//! of the next. The caller passes the time: a simulation jumps to the next wake-up, a real-time program waits for it.
//!
//! # A scenario, simulated
//!
//! A [`Scenario`](scenario::Scenario) is read from text and creates a [`Network`](net::Network). The same scenario,
//! seed and replica give the same result, bit for bit.
//!
//! ```
//! use roughlink_core::net::{Network, RunOptions};
//! use roughlink_core::scenario::Scenario;
//!
//! let text = r#"
//!     duration = "10 s"
//!     node = [{ name = "station" }, { name = "car" }]
//!     [[link]]
//!     name = "cable"
//!     between = ["station", "car"]
//!     rate = "10 Mbit/s"
//!     delay = "2 ms"
//!     noise = { kind = "burst", start = "2 %", length = [1, 4] }
//!     [[flow]]
//!     name = "firmware"
//!     kind = "bulk"
//!     from = "station"
//!     to = "car"
//! "#;
//! let (scenario, warnings) = roughlink_scenario::parse(text, "cable.toml", &[], &|name| Err(format!("no {name}")))?;
//! assert!(warnings.is_empty());
//! let result = Network::new(scenario, RunOptions::default())?.run()?;
//! assert!(result.links[0].forward.lost > 0);
//! assert!(result.flows[0].throughput_mbps > Some(1.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The same network in real time
//!
//! [`Network::wake`](net::Network::wake) processes all events due, each at its own time. At any time, results are
//! available and links can be changed from outside. A host may be outside the network. Its node then has a port, where
//! datagrams enter and leave, each with its due time, as in `examples/open_port.rs`.
//!
//! ```
//! # use roughlink_core::net::{LinkChange, Network, RunOptions};
//! # use roughlink_core::scenario::Scenario;
//! # use roughlink_core::units::Time;
//! # let text = "duration = '10 s'\nnode = [{ name = 'a' }, { name = 'b' }]\n[[link]]\nname = 'l'\n\
//! #     between = ['a', 'b']\nrate = '10 Mbit/s'\ndelay = '2 ms'\n\
//! #     [[flow]]\nname = 'f'\nkind = 'bulk'\nfrom = 'a'\nto = 'b'";
//! # let scenario = roughlink_scenario::parse(text, "l", &[], &|_| Err(String::new()))?.0;
//! let mut network = Network::new(scenario, RunOptions { changes: true, ..RunOptions::default() })?;
//! network.wake(Time::from_secs(3));
//! let before = network.result().flows[0].delivered_bytes;
//! network.change(Time::from_secs(3), 0, [true; 2], &LinkChange { up: Some(false), ..LinkChange::default() })?;
//! network.wake(Time::from_secs(5));
//! assert!(network.result().flows[0].delivered_bytes < before + 100_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Parts
//!
//! - [`tcp::TcpEndpoint`] is one end of a connection whose payload is only counted, [`tcp::Stream`] one with real
//!   bytes, and [`tcp::Host`] an IP host with listeners. [`sctp::SctpEndpoint`] and [`sctp::Association`] are
//!   counterparts of the first two. See `examples/two_endpoints.rs`.
//! - [`cc`] holds the congestion controls; new ones need no changes in this crate (`examples/own_algorithm.rs`).
//! - [`link`] has pipes, noise, timelines and power-line media; [`gateway`] has elements that rewrite windows.
//! - [`wire`] converts packets to bytes and back; [`net::Observer`] observes a network, and [`trace`] records it.

#![warn(unreachable_pub)]
// With the lists in `clippy.toml`, these keep the promises of the first paragraph; `tests/lints.rs` checks them.
#![deny(clippy::disallowed_types, clippy::iter_over_hash_type)]
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

pub mod app;
pub mod cc;
#[cfg(test)]
mod channel;
pub mod conversations;
pub mod event;
pub mod gateway;
pub mod link;
pub mod metrics;
pub mod net;
pub mod packet;
pub mod pep;
pub mod quantiles;
pub mod registry;
mod ring;
pub mod rng;
pub mod scenario;
pub mod sctp;
pub mod sender;
pub mod tcp;
pub mod text;
pub mod trace;
pub mod units;
pub mod wire;
