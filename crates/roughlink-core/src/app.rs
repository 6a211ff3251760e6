//! What drives a flow.

use crate::units::{Rate, Time};

/// The traffic of a flow.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// A transfer over TCP, as fast as it goes; `None` = until the scenario ends.
    Bulk {
        /// Bytes to transfer.
        bytes: Option<u64>,
    },
    /// Datagrams of `packet` bytes (IP length) at a constant rate.
    Cbr {
        /// IP bit rate.
        rate: Rate,
        /// IP length of each datagram, bytes.
        packet: u16,
        /// Payload bytes after which the flow ends; `None` = until `stop`.
        bytes: Option<u64>,
        /// When the flow ends; `None` = with the scenario.
        stop: Option<Time>,
    },
}
