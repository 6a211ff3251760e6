//! The keys of a TCP stack and the named presets: what a paper measured depends on the stack beneath the
//! algorithm as much as on the algorithm.

use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A named set of values of all keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    /// Linux 6.x: what is deployed.
    #[default]
    Linux,
    /// ns-3 3.44, algorithm by algorithm.
    Ns3,
    /// ns-2 as the Wave and AVOCA papers state it.
    Ns2,
    /// The RFCs, no more.
    Rfc,
}

impl Stack {
    /// All of them, the default first.
    pub const ALL: [Stack; 4] = [Stack::Linux, Stack::Ns3, Stack::Ns2, Stack::Rfc];

    /// Its name in scenario files.
    pub const fn name(self) -> &'static str {
        crate::cc::STACKS[self as usize]
    }
}

/// How losses are detected and repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Recovery {
    /// Fast retransmit, then slow start from one segment; no fast recovery (BSD 4.3 Tahoe).
    Tahoe,
    /// Fast recovery that ends with the first new ACK (RFC 2581).
    Reno,
    /// Fast recovery through partial ACKs (RFC 6582).
    NewReno,
    /// SACK scoreboard (RFC 6675); NewReno when the peer has no SACK.
    Sack,
    /// RFC 6675 with Proportional Rate Reduction (RFC 6937), as ns-3 does it; also without SACK.
    Prr,
    /// RACK-TLP (RFC 8985) with PRR and undo, as Linux does it; also without SACK.
    Rack,
}

/// The size of a socket buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Grows with the connection as in Linux (`tcp_rmem` 131072 to 6 MiB, `tcp_wmem` to 4 MiB).
    Auto,
    /// This many bytes.
    Bytes(u64),
}

/// An amount of data given in bytes or in full segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Full segments.
    Segments(u64),
}

impl Amount {
    /// In bytes, for segments of `mss` bytes.
    pub const fn bytes(self, mss: u32) -> u64 {
        match self {
            Amount::Bytes(b) => b,
            Amount::Segments(n) => n * mss as u64,
        }
    }
}

/// Where `min_rto` applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RtoFloor {
    /// `RTO = max(SRTT + 4 RTTVAR, min_rto)` (RFC 6298 rule 2.4).
    Total,
    /// `RTO = SRTT + max(4 RTTVAR, min_rto)` (Linux).
    Variance,
}

/// What must be acknowledged after a time-out before duplicate ACKs cause a fast retransmit again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FrOffUntil {
    /// Everything sent before the time-out (RFC 6582 section 3.2).
    LastSent,
    /// More than what was acknowledged before the time-out (Wave paper, section 2.1, taken literally).
    LastAcked,
}

/// All keys of a TCP connection except its congestion control.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpConfig {
    /// The preset these values started from; it also selects the algorithms' presets.
    pub stack: Stack,
    /// Loss recovery.
    pub recovery: Recovery,
    /// Offer and accept SACK (RFC 2018).
    pub sack: bool,
    /// Offer and accept ECN (RFC 3168). Linux offers none of itself and accepts what is offered (`tcp_ecn` = 2).
    pub ecn: bool,
    /// Offer and accept timestamps (RFC 7323).
    pub timestamps: bool,
    /// Offer and accept window scaling (RFC 7323).
    pub window_scaling: bool,
    /// Initial window in segments (RFC 6928: 10).
    pub initial_window: u32,
    /// Initial slow-start threshold, `None` = unlimited.
    pub initial_ssthresh: Option<Amount>,
    /// Segments per ACK, 1 = no delaying (RFC 1122 section 4.2.3.2).
    pub delayed_ack: u32,
    /// How long an ACK may wait.
    pub delayed_ack_timeout: Time,
    /// Acknowledge at once while the connection starts and after a gap (Linux quick-ack).
    pub quick_ack: bool,
    /// Lower bound of the RTO.
    pub min_rto: Time,
    /// Where `min_rto` applies.
    pub rto_floor: RtoFloor,
    /// RTO before the first sample.
    pub initial_rto: Time,
    /// Upper bound of the RTO.
    pub max_rto: Time,
    /// RTO of the SYN.
    pub syn_rto: Time,
    /// G of RFC 6298; timestamps tick in milliseconds whatever this is.
    pub clock_granularity: Time,
    /// Time-outs in a row before the connection gives up.
    pub data_retries: u32,
    /// Send new data on the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: bool,
    /// Only the first partial ACK of a fast recovery restarts the retransmission timer, else each does ("impatient" or
    /// "slow-but-steady", RFC 6582 section 4); `newreno`, `sack` and `prr` only.
    pub impatient: bool,
    /// How long a time-out keeps fast retransmit off; without `rack` only.
    pub fr_off_until: FrOffUntil,
    /// Tail loss probes (RFC 8985 section 7); with `rack` only.
    pub tlp: bool,
    /// Detect spurious episodes and take the reduction back: F-RTO (RFC 5682), Eifel (RFC 3522), D-SACK; with
    /// `rack` only.
    pub undo: bool,
    /// Hold back small segments while data is outstanding (RFC 896, Minshall's variant).
    pub nagle: bool,
    /// Send what fits into the peer's window even if it is less than a segment (ns-3); else wait for room
    /// (RFC 1122 section 4.2.3.4).
    pub fill_window: bool,
    /// Take RTT samples from the millisecond timestamps (ns-3), else from the time the segment left.
    pub timestamp_rtt: bool,
    /// Grow the window also when the application or the peer, not the window, limits sending (ns-3, ns-2); else not
    /// (RFC 7661, Linux).
    pub grow_when_limited: bool,
    /// PRR multiplies in 32 bits (ns-3 3.44): windows of 128 KiB overflow and sending nearly stops for a while.
    pub prr_wraps: bool,
    /// Bytes that a bulk application hands over per write: it fills the send buffer in these steps (ns-3
    /// BulkSendApplication: 512).
    pub write_size: u32,
    /// Send buffer.
    pub snd_buf: Buffer,
    /// Receive buffer.
    pub rcv_buf: Buffer,
    /// Maximum segment size announced, bytes.
    pub mss: u32,
    /// Announce `mss` in the SYN; ns-3 does not, and both ends take their own.
    pub mss_option: bool,
    /// Payload per segment is `mss` minus option bytes (RFC 6691), else `mss` itself as simulators do.
    pub mss_includes_options: bool,
}

impl TcpConfig {
    /// The values of `stack` (design: table of stacks).
    pub fn preset(stack: Stack) -> Self {
        let rfc = TcpConfig {
            stack,
            recovery: Recovery::Sack,
            sack: true,
            ecn: false,
            timestamps: true,
            window_scaling: true,
            initial_window: 10,
            initial_ssthresh: None,
            delayed_ack: 2,
            delayed_ack_timeout: Time::from_millis(200),
            quick_ack: false,
            min_rto: Time::from_secs(1),
            rto_floor: RtoFloor::Total,
            initial_rto: Time::from_secs(1),
            max_rto: Time::from_secs(60),
            syn_rto: Time::from_secs(1),
            clock_granularity: Time::from_millis(1),
            data_retries: 15,
            limited_transmit: true,
            impatient: true,
            fr_off_until: FrOffUntil::LastSent,
            tlp: false,
            undo: false,
            nagle: false,
            fill_window: false,
            timestamp_rtt: false,
            grow_when_limited: false,
            prr_wraps: false,
            write_size: 1,
            snd_buf: Buffer::Bytes(128 * 1024),
            rcv_buf: Buffer::Bytes(128 * 1024),
            mss: 1460,
            mss_option: true,
            mss_includes_options: true,
        };
        match stack {
            Stack::Rfc => rfc,
            Stack::Linux => TcpConfig {
                recovery: Recovery::Rack,
                delayed_ack_timeout: Time::from_millis(40),
                quick_ack: true,
                min_rto: Time::from_millis(200),
                rto_floor: RtoFloor::Variance,
                max_rto: Time::from_secs(120),
                tlp: true,
                undo: true,
                nagle: true,
                snd_buf: Buffer::Auto,
                rcv_buf: Buffer::Auto,
                ..rfc
            },
            Stack::Ns3 => TcpConfig {
                recovery: Recovery::Prr,
                syn_rto: Time::from_secs(3),
                data_retries: 6,
                fill_window: true,
                timestamp_rtt: true,
                grow_when_limited: true,
                prr_wraps: true,
                write_size: 512,
                mss_option: false,
                mss_includes_options: false,
                ..rfc
            },
            Stack::Ns2 => TcpConfig {
                recovery: Recovery::NewReno,
                sack: false,
                timestamps: false,
                window_scaling: false,
                initial_window: 1,
                delayed_ack: 1,
                initial_rto: Time::from_secs(3),
                syn_rto: Time::from_secs(3),
                grow_when_limited: true,
                mss_includes_options: false,
                ..rfc
            },
        }
    }
}
