//! Links: two-port elements that queue, serialise, lose and delay packets.

use crate::units::{QueueLimit, Rate, Time};

pub mod noise;
pub mod pipe;

pub use noise::Noise;

/// One direction of a pipe.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// Serialisation rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Time,
    /// What may wait before the serialiser; drop-tail.
    pub queue: QueueLimit,
    /// Losses, judged when a packet arrives at the far end.
    pub noise: Noise,
    /// Extra delay, uniform in 0..=jitter, drawn per packet.
    pub jitter: Time,
    /// Let jitter change the order of packets.
    pub reorder: bool,
}

/// A pipe: two independent directions, one MTU.
#[derive(Clone, Debug, PartialEq)]
pub struct PipeConfig {
    /// From the first node of `between` to the second.
    pub forward: Direction,
    /// Back.
    pub reverse: Direction,
    /// Largest IP packet; larger datagrams are sent as fragments (RFC 791).
    pub mtu: u16,
    /// Bytes that framing adds to each packet on the wire (PPP in ns-3: 2; Ethernet with gaps: 38).
    pub overhead: u16,
}
