//! Frames without an IP datagram, which an emulation counts and a report reads.

use serde::{Deserialize, Serialize};

/// Frames of one protocol that one node sent to another, each copy of a broadcast counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FrameCount {
    /// `ARP`, `HomePlug AV` (SLAC), `LLDP`, `EAPOL`, or an EtherType such as `0x88b5`. `LLC` for frames with a length
    /// instead of an EtherType, `other` in the row that sums all remaining frames.
    pub protocol: String,
    /// Sending node; null in the row that sums all remaining frames.
    pub from: Option<String>,
    /// Receiving node; null in the row that sums all remaining frames.
    pub to: Option<String>,
    /// Frames that entered the network.
    pub sent: u64,
    /// Frames that reached the receiving node.
    pub delivered: u64,
}
