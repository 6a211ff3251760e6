//! Conversations between real programs: an emulation records them, and a report reads them.

use super::RttResult;
use serde::{Deserialize, Serialize};

/// Results of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConversationResult {
    /// `TCP`, `UDP`, `SCTP`, `ICMP`, `ICMPv6` or `IP protocol N`; `... fragments` if a kernel fragmented the datagrams.
    pub protocol: String,
    /// Sender of the first packet: address, and port if the protocol has ports.
    pub from: String,
    /// Receiver of the first packet.
    pub to: String,
    /// Time of the first packet, s.
    pub start_s: f64,
    /// Time of the last packet, s.
    pub end_s: f64,
    /// Results from `from` to `to`.
    pub forward: ConversationCounters,
    /// Results from `to` to `from`.
    pub reverse: ConversationCounters,
}

impl ConversationResult {
    /// Returns sender, receiver and results of each direction that carried bytes.
    pub fn directions(&self) -> impl Iterator<Item = ([&str; 2], &ConversationCounters)> + Clone {
        let both = [([&*self.from, &*self.to], &self.forward), ([&*self.to, &*self.from], &self.reverse)];
        both.into_iter().filter(|(_, direction)| direction.carried() > 0)
    }
}

/// Results of one direction of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConversationCounters {
    /// Packets that a kernel sent; null if the sender is simulated.
    pub sent: Option<PacketCount>,
    /// Packets that reached a kernel; null if the receiver is simulated.
    pub received: Option<PacketCount>,
    /// Packets sent that have neither arrived nor been lost. Null if either end is simulated.
    pub in_flight: Option<u64>,
    /// Packets lost, dropped, or not accepted by the receiving kernel; null if either end is simulated.
    pub lost: Option<u64>,
    /// Payload that arrived, bytes. TCP: each byte once. SCTP: user data of DATA chunks. Protocols other than TCP, UDP
    /// and SCTP: content of IP datagrams. Null if the receiver is simulated and does not acknowledge.
    pub delivered_bytes: Option<u64>,
    /// `delivered_bytes` x 8 / (arrival of the last byte - departure of the first), Mbit/s.
    pub throughput_mbps: Option<f64>,
    /// TCP: segments that the kernel retransmitted.
    pub retransmits: Option<u64>,
    /// TCP: times from departure to acknowledgment at the sending kernel, one for each segment sent once.
    pub rtt_ms: Option<RttResult>,
    /// TCP: latest RTT, smoothed as in RFC 6298 with one sample for each acknowledgment.
    pub srtt_ms: Option<f64>,
    /// One-way delays from kernel to kernel.
    pub delay_ms: Option<RttResult>,
    /// TCP: the kernel's name of the sender's congestion control, as last sampled. Null if it was not sampled.
    pub cc: Option<String>,
    /// TCP: true if the kernel paces the sender. Null if that is unknown.
    pub paced: Option<bool>,
}

impl ConversationCounters {
    /// Returns the bytes carried: payload if known, else packets with headers. Pure TCP acknowledgments count as 0.
    pub fn carried(&self) -> u64 {
        self.delivered_bytes.unwrap_or_else(|| self.sent.or(self.received).map_or(0, |count| count.bytes))
    }

    /// Returns the congestion control with its pacing, for tables; `None` if it is unknown.
    pub fn cc_and_pacing(&self) -> Option<String> {
        let cc = self.cc.as_ref()?;
        Some(match self.paced {
            Some(false) => cc.clone(),
            Some(true) => format!("{cc}, paced"),
            None => format!("{cc}, may be paced"),
        })
    }
}

/// Number of IP packets, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PacketCount {
    /// Number of IP packets.
    pub packets: u64,
    /// Bytes, headers included.
    pub bytes: u64,
}

impl PacketCount {
    /// Adds a packet of `bytes`.
    pub fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
    /// Adds the packets of another count.
    pub fn join(&mut self, other: PacketCount) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// Maximum number of separately counted conversations of an emulation.
pub const MAX_REPORTED_CONVERSATIONS: usize = 1000;
