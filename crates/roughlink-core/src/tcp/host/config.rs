//! Parameters, counters and results of a host.

use crate::cc;
use crate::tcp::TcpConfig;
use crate::units::Time;
use std::net::IpAddr;
use std::sync::Arc;

/// Parameters of a [`Host`](super::Host).
#[derive(Clone)]
pub struct HostConfig {
    /// Addresses of the host, IPv4 or IPv6.
    pub addresses: Vec<IpAddr>,
    /// MTU of its interface in bytes: at least 128, and 1280 for IPv6.
    pub mtu: u16,
    /// Keys of its connections. The host lowers `mss` to fit the MTU, with options included. Each connection stores up
    /// to `snd_buf` and `rcv_buf` bytes.
    pub tcp: Arc<TcpConfig>,
    /// Congestion control of its connections.
    pub congestion_control: cc::Factory,
    /// Key of initial sequence numbers and ports; must be random and unknown to peers.
    pub secret: u128,
    /// Bounds of its tables.
    pub limits: HostLimits,
}

/// Bounds of a host's tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostLimits {
    /// Connections, without half-open ones and those in TIME-WAIT. Further ones are refused.
    pub connections: usize,
    /// Connections whose peer has sent only a SYN. A further one evicts the oldest (RFC 4987 section 3.3).
    pub half_open: usize,
    /// Connections in TIME-WAIT. A further one evicts the one that would expire first.
    pub time_waits: usize,
    /// Memory of incomplete datagrams, bytes. A further fragment evicts the oldest datagram.
    pub reassembly_bytes: usize,
    /// Destinations with a known path MTU. A further one evicts the one that would expire first.
    pub path_mtus: usize,
}

impl Default for HostLimits {
    fn default() -> Self {
        HostLimits {
            connections: 65_536,
            half_open: 1_024,
            time_waits: 16_384,
            reassembly_bytes: 1 << 20,
            path_mtus: 1_024,
        }
    }
}

/// Outcome of [`Host::receive`](super::Host::receive).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Received {
    /// The datagram was for this host, which has processed it.
    Consumed,
    /// The destination is another host, a multicast group or a broadcast address.
    Foreign,
    /// The datagram is invalid; [`HostCounters`] has the reason.
    Invalid,
}

/// Reason why a host cannot connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The host has no such source address.
    #[error("the source address belongs to another host")]
    Source,
    /// Source and destination are of different families; or the destination is this host, a multicast or broadcast
    /// address, unspecified, or port 0.
    #[error("invalid destination")]
    Destination,
    /// A connection with these addresses and ports exists or is in TIME-WAIT.
    #[error("the addresses and ports are in use")]
    InUse,
    /// All 16384 ephemeral ports to this destination are in use or in TIME-WAIT.
    #[error("no port is free")]
    Ports,
    /// The host has as many connections as its limit permits.
    #[error("too many connections")]
    Connections,
}

/// Counters of a host.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct HostCounters {
    /// Datagrams dropped because they cannot be parsed, or carry another protocol than TCP and ICMP.
    pub malformed: u64,
    /// Datagrams dropped for a wrong checksum.
    pub bad_checksums: u64,
    /// Datagrams dropped because their source is not the address of another host.
    pub invalid_sources: u64,
    /// Fragments dropped because they are invalid or contradict others.
    pub fragments_dropped: u64,
    /// Datagrams dropped before all their fragments had arrived.
    pub reassemblies_failed: u64,
    /// Segments to which no connection and no listener belongs.
    pub strangers: u64,
    /// Resets sent, to strangers and for aborted connections.
    pub resets_sent: u64,
    /// Resets and echo replies not sent because of [`ANSWER_LIMIT`].
    pub answers_suppressed: u64,
    /// Challenge ACKs (RFC 5961).
    pub challenge_acks: u64,
    /// SYNs dropped because a limit was reached.
    pub syns_dropped: u64,
    /// Half-open connections evicted by later SYNs.
    pub half_open_evicted: u64,
    /// Handshakes delayed because the queue of [`Host::accept`](super::Host::accept) was full.
    pub accepts_deferred: u64,
    /// Connections in TIME-WAIT evicted by later ones.
    pub time_waits_evicted: u64,
    /// Connections opened by a new SYN in TIME-WAIT.
    pub time_waits_reopened: u64,
    /// Released connections reset because data arrived, or because the peer made no progress.
    pub orphans_reset: u64,
    /// ICMP errors that lowered a path MTU or ended an attempt to connect.
    pub icmp_errors: u64,
    /// ICMP errors without effect: forged, late, or reported to a connection that tolerates them.
    pub icmp_ignored: u64,
}

/// Most resets and echo replies to unknown hosts, and the period: an attacker cannot use the host to flood others.
pub const ANSWER_LIMIT: (u32, Time) = (200, Time::from_secs(1));
