//! The edge to Linux: nodes of a network become hosts with a kernel of their own, and a wall clock drives the network.
//!
//! It is the one crate that calls the operating system. A node that is real has a network namespace and in it a TUN device;
//! what the kernel sends into the device goes into the port of [`Network`](roughlink_core::net::Network) at that node, and what
//! leaves by the port is handed to the kernel. The network is the one that is simulated elsewhere: it does not learn that the
//! clock is a real one.
//!
//! | module | contents |
//! |---|---|
//! | `namespace` | network namespaces without a name, the user namespace of an emulation without root |
//! | `device` | TUN devices with their addresses and routes |
//! | `relay` | the loop in real time, and what it counted |
//! | `emulation` | a scenario with real nodes: opened, started, finished |
//! | `program` | programs at the nodes, and how they end |
//! | `inside` | what runs between this program and theirs, in a process of its own |
//! | `abilities` | what this machine can do |
//!
//! **Nothing stays behind, also after `kill -9`.** Everything hangs on what the kernel takes back by itself when a process
//! ends: a namespace without a name lives as long as a descriptor of it, a device that is not persistent as long as its own, and
//! programs run in a process namespace whose first process dies with this one ([`inside`]).

#![cfg(target_os = "linux")]
#![warn(unreachable_pub)]

mod abilities;
mod device;
mod emulation;
mod error;
pub mod inside;
mod ip;
mod namespace;
mod nodes;
mod program;
mod realtime;
mod relay;

pub use abilities::{Ability, abilities};
pub use emulation::{Emulation, Host, Outcome, Place, Running, Settings};
pub use error::HostError;
pub use namespace::{Namespace, become_root, is_allowed};
pub use nodes::{Directory, directories};
pub use program::{Attended, Ended, Launcher, Output, Program, attend};
pub use realtime::Effort;
pub use relay::{Ending, Lateness};
