//! Interface to Linux: turns nodes of a network into hosts with their own kernel and runs the network in real time.
//!
//! This is the only crate that calls the operating system. A real node has a network namespace with a TUN or TAP
//! device, or is behind an attached existing device. Packets from the device enter
//! [`Network`](roughlink_core::net::Network) at the node's port, and packets that leave at the port go to the kernel.
//! The network is the same as in a simulation, and its clock is the only difference.
//!
//! | module | contents |
//! |---|---|
//! | `namespace` | unnamed network namespaces, the user namespace of an emulation without root |
//! | `block` | addresses for links without configured ones, also nested links |
//! | `routes` | routes into an address block |
//! | `device` | TUN and TAP devices with their addresses and routes; common interface for these and attached devices |
//! | `ethernet`, `neighbors`, `mac` | Ethernet switch; ARP and neighbor discovery; addresses |
//! | `attached`, `offload` | attached existing devices |
//! | `nfqueue`, `netlink` | netfilter queues; messages to and from the kernel |
//! | `rules` | rules that send packets to netfilter queues |
//! | `coverage`, `link_watch` | link events from an agent; the state of a device, for agents |
//! | `confine`, `cleanup` | least rights of a program, and cleanup after it |
//! | `socket_option` | socket options that no library offers: the only unsafe code |
//! | `snooping` | membership reports, which the switch forwards only to multicast routers |
//! | `congestion` | the default congestion control of a namespace |
//! | `frames` | counts of frames without an IP datagram |
//! | `carrier` | carrier of devices, which follows the state of their links |
//! | `conversations` | conversations of real programs, and their results |
//! | `event_loop` | real-time loop over devices, and its counters |
//! | `middlebox` | elements on the path of real packets: gateways |
//! | `relay` | loop of an emulation: carries datagrams between devices and the network |
//! | `scheduling` | run delay: time that programs waited for a processor |
//! | `senders` | TCP senders in the kernel: their algorithms, and whether they are paced |
//! | `live` | samples of a running emulation, and changes of its links from outside |
//! | `emulation` | a scenario with real nodes: opened, started, finished |
//! | `transfers` | flows of a scenario that the kernels of its nodes carry |
//! | `program` | programs at the nodes, and how they end |
//! | `undelivered` | data that programs left unsent when they ended |
//! | `inside` | processes between this program and programs at the nodes |
//! | `leftovers` | leftover processes of emulations that have ended |
//! | `abilities` | features of this machine |
//!
//! **Nothing stays behind, even after `kill -9`.** The kernel releases everything when a process ends. An unnamed
//! namespace and a device that is not persistent live as long as their descriptors. Programs run in a PID namespace
//! whose first process dies with this one ([`inside`]).

#![cfg(target_os = "linux")]
#![warn(unreachable_pub)]

mod abilities;
mod attached;
mod block;
mod carrier;
mod cleanup;
mod confine;
mod congestion;
pub mod conversations;
mod coverage;
mod device;
mod emulation;
mod error;
mod ethernet;
mod event_loop;
mod frames;
pub mod inside;
mod ip;
mod joining;
mod leftovers;
mod link_watch;
mod live;
mod mac;
mod middlebox;
mod namespace;
mod neighbors;
mod netlink;
mod nfqueue;
mod nodes;
mod offload;
mod program;
mod realtime;
mod relay;
mod routes;
mod rules;
mod scheduling;
mod senders;
mod snooping;
mod socket_option;
mod transfers;
mod undelivered;
mod verdict;

pub use abilities::{Ability, abilities};
pub use block::{AddressBlock, BlockReservation};
pub use cleanup::{Cleanup, CleanupPlan};
pub use confine::{KeptRight, confine, share_with_group};
pub use congestion::{DefaultCongestionControl, RENO, name_in_kernel, paces};
pub use coverage::{CoverageMessage, CoverageSource};
pub use device::Device;
pub use emulation::{EmulatedHost, Emulation, EmulationResults, EmulationSettings, NodeLocation, Running};
pub use error::{HostError, LostDevice, Operation, UnfitReason};
pub use event_loop::{Lateness, Loop, LoopCounters};
pub use leftovers::{Leftover, leftovers};
pub use link_watch::{DeviceState, LinkWatch};
pub use live::{AppliedChange, ChangeRequest, ChangeRequestError, EmulationSample, INTERVAL, Live, MAX_SAMPLES};
pub use middlebox::{GatewayOnPath, Middlebox, PacketPath, Passage, PathDevices};
pub use namespace::{Namespace, become_root, is_allowed};
pub use nodes::{Directory, ListedNode, OWN_NODE, directories, variable};
pub use program::{EndReason, Ended, Launcher, Output, OutputSink, Program, attend};
pub use realtime::{Effort, use_ordinary_priority};
pub use relay::LoopEnd;
pub use rules::{LeftoverRules, QueueRules, leftover_rules};
pub use scheduling::RunDelay;
pub use transfers::{TcpInfo, Transferred, Transfers, raise_descriptor_limit};
pub use verdict::PacketVerdict;
