//! The edge to Linux: nodes of a network become hosts with a kernel of their own, and a wall clock drives the network.
//!
//! It is the one crate that calls the operating system. A node that is real has a network namespace and in it a TUN or TAP device, or is
//! behind a device that was there before; what comes from the device goes into the port of [`Network`](roughlink_core::net::Network) at that node, and what
//! leaves by the port is handed to the kernel. The network is the one that is simulated elsewhere: it does not learn that the
//! clock is a real one.
//!
//! | module | contents |
//! |---|---|
//! | `namespace` | network namespaces without a name, the user namespace of an emulation without root |
//! | `block` | addresses for links that are told none, also nested ones |
//! | `device` | TUN and TAP devices with their addresses and routes; one face for these and attached ones |
//! | `ethernet`, `neighbours` | where frames go; ARP and neighbour discovery |
//! | `attached`, `offload` | devices that were there before |
//! | `socket_option` | options of sockets without a library: the only unsafe code |
//! | `snooping` | membership reports, which the switch keeps from kernels that need none |
//! | `congestion` | the default congestion control of a namespace |
//! | `frames` | counts of frames without an IP datagram |
//! | `carrier` | devices are told that their links are down |
//! | `conversations` | what real programs said to each other, and what came of it |
//! | `relay` | the loop in real time, and what it counted |
//! | `scheduling` | how long programs waited for a processor |
//! | `senders` | TCP senders in the kernel: their algorithms, and whether they are paced |
//! | `live` | samples of an emulation at work, and changes of its links from outside |
//! | `emulation` | a scenario with real nodes: opened, started, finished |
//! | `transfers` | flows of a scenario that the kernels of its nodes carry |
//! | `program` | programs at the nodes, and how they end |
//! | `undelivered` | what programs that have ended still had to send |
//! | `inside` | what runs between this program and theirs, in a process of its own |
//! | `leftovers` | what is there of emulations that are gone |
//! | `abilities` | what this machine can do |
//!
//! **Nothing stays behind, also after `kill -9`.** Everything hangs on what the kernel takes back by itself when a process
//! ends: a namespace without a name lives as long as a descriptor of it, a device that is not persistent as long as its own, and
//! programs run in a process namespace whose first process dies with this one ([`inside`]).

#![cfg(target_os = "linux")]
#![warn(unreachable_pub)]

mod abilities;
mod attached;
mod block;
mod carrier;
mod congestion;
pub mod conversations;
mod device;
mod emulation;
mod error;
mod ethernet;
mod frames;
pub mod inside;
mod ip;
mod leftovers;
mod live;
mod namespace;
mod neighbours;
mod nodes;
mod offload;
mod program;
mod realtime;
mod relay;
mod scheduling;
mod senders;
mod snooping;
mod socket_option;
mod transfers;
mod undelivered;

pub use abilities::{Ability, abilities};
pub use block::{Block, Claim};
pub use congestion::{DefaultCongestionControl, RENO, name_in_kernel, paces};
pub use emulation::{Emulation, Host, Outcome, Place, Running, Settings};
pub use error::{HostError, Unfit};
pub use leftovers::{Leftover, leftovers};
pub use live::{AskError, Asked, Changed, INTERVAL, Live, MOST_SAMPLES, Sample};
pub use namespace::{Namespace, become_root, is_allowed};
pub use nodes::{Directory, Listed, OWN_NODE, directories, variable};
pub use program::{Attended, Ended, Launcher, Output, Program, Sink, attend};
pub use realtime::Effort;
pub use relay::{Ending, Lateness};
pub use scheduling::RunDelay;
pub use transfers::{Transferred, Transfers, Vitals, raise_descriptor_limit};
