//! Verdict, counters and status of a proxy.

use crate::gateway::Heading;
use crate::tcp::TcpEndpoint;
use crate::wire::Addresses;
use serde::{Deserialize, Serialize};

/// Decision of a proxy about a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum ProxyVerdict {
    /// Forward the datagram unchanged.
    Forward,
    /// Do not forward it: the proxy has processed or dropped it.
    Consumed,
}

/// Counters of a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProxyCounters {
    /// Connections opened at both sides.
    pub opened: u64,
    /// Connections that the server refused with a reset or that a router reported as unreachable.
    pub refused: u64,
    /// Attempts to connect without an answer.
    pub timed_out: u64,
    /// Connections that pass unchanged because they are signed or use Multipath TCP.
    pub unsplittable: u64,
    /// Connections that pass unchanged because of [`ProxyParams::connections`](super::ProxyParams::connections).
    pub overflowed: u64,
    /// Attempts to connect evicted by later ones.
    pub half_open_evicted: u64,
    /// Segments that belong to no connection and do not open one.
    pub unknown: u64,
    /// Resets sent, for unknown segments and for connections that have ended.
    pub resets_sent: u64,
    /// Answers to unknown segments not sent because of [`ANSWER_LIMIT`](crate::tcp::ANSWER_LIMIT).
    pub answers_suppressed: u64,
    /// TCP segments dropped for a wrong checksum.
    pub bad_checksums: u64,
    /// TCP fragments dropped because they are invalid or contradict others.
    pub fragments_dropped: u64,
    /// Datagrams dropped before all their fragments had arrived.
    pub reassemblies_failed: u64,
    /// Connections in TIME-WAIT evicted by later ones.
    pub time_waits_evicted: u64,
    /// ICMP errors that lowered a path MTU or ended an attempt to connect.
    pub icmp_errors: u64,
    /// ICMP errors about segments of the proxy without effect: forged, late, or about an open connection.
    pub icmp_ignored: u64,
}

/// Connection of a proxy, for inspection.
#[derive(Clone, Copy)]
pub struct ProxyConnection<'a> {
    /// Addresses from the client to the server.
    pub addresses: Addresses,
    /// Direction from the client to the server.
    pub heading: Heading,
    /// Endpoint toward the client; `None` until the server has accepted.
    pub client: Option<&'a TcpEndpoint>,
    /// Endpoint toward the server.
    pub server: &'a TcpEndpoint,
    /// Memory of all buffers with data, bytes.
    pub buffer_bytes: usize,
}
