//! The keys of TCP connections and SCTP associations as they are written.

use super::Params;
use crate::leaf::{At, Cc, Leaf};
use roughlink_core::tcp::{Amount, Buffer, FrOffUntil, Recovery, RtoFloor, Stack};
use roughlink_core::units::{Bytes, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// The keys of a TCP connection. A key that is absent takes the value that the algorithm asks for, otherwise that of the
/// stack.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tcp {
    /// The set of values to start from; it also selects the parameters of each algorithm.
    #[schemars(extend("default" = "linux"))]
    pub stack: Option<Leaf<Stack>>,
    /// Congestion control; `roughlink cc list` describes all.
    #[schemars(extend("default" = "cubic"))]
    pub cc: Option<Leaf<Cc>>,
    /// Parameters of `cc`; flows with another algorithm do not take them.
    pub cc_params: Option<At<Params>>,
    /// How slow start may end before a loss, for algorithms that have the choice; the algorithm's own if absent.
    pub hystart: Option<Leaf<Hystart>>,
    /// Loss detection and repair.
    pub recovery: Option<Leaf<Recovery>>,
    /// Offer and accept selective acknowledgements (RFC 2018).
    pub sack: Option<Leaf<bool>>,
    /// Offer and accept timestamps (RFC 7323).
    pub timestamps: Option<Leaf<bool>>,
    /// Offer and accept window scaling (RFC 7323); without it the largest window is 65535 B.
    pub window_scaling: Option<Leaf<bool>>,
    /// Initial window in segments.
    #[schemars(extend("minimum" = 1))]
    pub initial_window: Option<Leaf<u32>>,
    /// Initial slow-start threshold: `"unlimited"`, bytes, or full segments (`"20 pkt"`).
    pub initial_ssthresh: Option<Leaf<Option<Amount>>>,
    /// Segments per ACK; 1 turns delayed ACKs off.
    #[schemars(extend("minimum" = 1))]
    pub delayed_ack: Option<Leaf<u32>>,
    /// Longest delay of an ACK.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub delayed_ack_timeout: Option<Leaf<Time>>,
    /// Offer and accept ECN (RFC 3168): packets are marked instead of dropped where a link has a `qdisc` that marks. Linux
    /// offers none of itself, and accepts what is offered (`tcp_ecn` = 2).
    pub ecn: Option<Leaf<bool>>,
    /// Acknowledge every segment at once while the connection starts and after a duplicate segment (Linux).
    pub quick_ack: Option<Leaf<bool>>,
    /// Lower bound of the retransmission time-out; not above `max_rto`.
    pub min_rto: Option<Leaf<Time>>,
    /// Where `min_rto` applies.
    pub rto_floor: Option<Leaf<RtoFloor>>,
    /// Retransmission time-out before the first RTT sample.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub initial_rto: Option<Leaf<Time>>,
    /// Upper bound of the retransmission time-out.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub max_rto: Option<Leaf<Time>>,
    /// Retransmission time-out of the SYN.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub syn_rto: Option<Leaf<Time>>,
    /// Clock granularity G of RFC 6298. Timestamps tick in milliseconds whatever this is.
    pub clock_granularity: Option<Leaf<Time>>,
    /// Consecutive time-outs before the connection gives up; the result then says `failed`.
    pub data_retries: Option<Leaf<u32>>,
    /// Send new data on the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: Option<Leaf<bool>>,
    /// Only the first partial ACK of a fast recovery restarts the retransmission timer; otherwise each one does
    /// ("slow-but-steady", RFC 6582 section 4). No effect with `reno`, `tahoe` and `rack`.
    pub impatient: Option<Leaf<bool>>,
    /// What must be acknowledged after a time-out before three duplicate ACKs cause a fast retransmit again. No effect
    /// with `rack`.
    pub fr_off_until: Option<Leaf<FrOffUntil>>,
    /// Tail loss probes (RFC 8985); with `rack` only.
    pub tlp: Option<Leaf<bool>>,
    /// Detect spurious reductions (F-RTO, Eifel, D-SACK) and take them back; with `rack` only.
    pub undo: Option<Leaf<bool>>,
    /// Hold back small segments while data is outstanding (RFC 896, Minshall's variant).
    pub nagle: Option<Leaf<bool>>,
    /// Send what fits into the peer's window even if it is less than a segment (ns-3).
    pub fill_window: Option<Leaf<bool>>,
    /// Take RTT samples from the millisecond timestamps (ns-3), otherwise from the time the segment left.
    pub timestamp_rtt: Option<Leaf<bool>>,
    /// Grow the window also while the application or the peer limits sending (ns-3, ns-2).
    pub grow_when_limited: Option<Leaf<bool>>,
    /// Proportional rate reduction multiplies in 32 bits, as ns-3 3.44 does.
    pub prr_wraps: Option<Leaf<bool>>,
    /// Bytes that a bulk application writes at a time (ns-3: 512 B).
    #[schemars(extend("x-minimum" = "1 B"))]
    pub write_size: Option<Leaf<Bytes>>,
    /// Send buffer: bytes, at least one segment, or `"auto"`, which grows as in Linux up to 4 MiB.
    pub snd_buf: Option<Leaf<Buffer>>,
    /// Receive buffer: bytes, at least one segment, or `"auto"`, which grows as in Linux up to 6 MiB.
    pub rcv_buf: Option<Leaf<Buffer>>,
    /// Maximum segment size announced. The largest is 40 B less without `mss_includes_options`, and 20 B less over IPv6.
    #[schemars(extend("x-minimum" = "64 B", "x-maximum" = "65495 B"))]
    pub mss: Option<Leaf<Bytes>>,
    /// Announce `mss` in the SYN; ns-3 does not, and both ends then take their own.
    pub mss_option: Option<Leaf<bool>>,
    /// A full segment carries `mss` minus option bytes (RFC 6691), otherwise `mss` itself: 1460 B with timestamps then
    /// make an IP packet of 1512 B, two fragments over an MTU of 1500 B, and a warning says so.
    pub mss_includes_options: Option<Leaf<bool>>,
}

/// The keys of an SCTP association; defaults are the protocol parameters of RFC 9260.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sctp {
    /// Congestion control: that of RFC 9260, or any other algorithm, also `avoca` around one.
    #[schemars(extend("default" = "sctp"))]
    pub cc: Option<Leaf<Cc>>,
    /// Parameters of `cc`; flows with another algorithm do not take them.
    pub cc_params: Option<At<Params>>,
    /// User data in a full packet, and in a message; the packet has 48 B of headers more.
    #[schemars(extend("default" = "1452 B", "x-minimum" = "4 B", "x-maximum" = "65484 B"))]
    pub payload: Option<Leaf<Bytes>>,
    /// Streams that messages take in turn; order is kept within a stream.
    #[schemars(extend("default" = 1, "minimum" = 1, "maximum" = 65_535))]
    pub streams: Option<Leaf<u32>>,
    /// Receive buffer.
    #[schemars(extend("default" = "128 KiB", "x-minimum" = "1500 B"))]
    pub rcv_buf: Option<Leaf<Bytes>>,
    /// RTO.Initial: retransmission time-out before the first RTT sample; not above `max_rto`.
    #[schemars(extend("default" = "1 s", "x-exclusiveMinimum" = "0 s"))]
    pub initial_rto: Option<Leaf<Time>>,
    /// RTO.Min: lower bound of the retransmission time-out; not above `max_rto`.
    #[schemars(extend("default" = "1 s"))]
    pub min_rto: Option<Leaf<Time>>,
    /// RTO.Max: upper bound of the retransmission time-out.
    #[schemars(extend("default" = "60 s", "x-exclusiveMinimum" = "0 s"))]
    pub max_rto: Option<Leaf<Time>>,
    /// Clock granularity G of RFC 9260 section 6.3.1.
    #[schemars(extend("default" = "1 ms"))]
    pub clock_granularity: Option<Leaf<Time>>,
    /// Association.Max.Retrans: consecutive time-outs before the association fails.
    #[schemars(extend("default" = 10))]
    pub data_retries: Option<Leaf<u32>>,
    /// Max.Init.Retransmits: retransmissions of INIT and COOKIE ECHO before the association fails.
    #[schemars(extend("default" = 8))]
    pub init_retries: Option<Leaf<u32>>,
    /// Valid.Cookie.Life: lifetime of a state cookie.
    #[schemars(extend("default" = "60 s"))]
    pub cookie_life: Option<Leaf<Time>>,
    /// Max.Burst: packets that may leave on one SACK or timer.
    #[schemars(extend("default" = 4, "minimum" = 1))]
    pub max_burst: Option<Leaf<u32>>,
    /// Packets per SACK; 1 turns delayed SACKs off.
    #[schemars(extend("default" = 2, "minimum" = 1))]
    pub delayed_ack: Option<Leaf<u32>>,
    /// SACK.Delay, the longest delay of a SACK.
    #[schemars(extend("default" = "200 ms", "x-exclusiveMinimum" = "0 s", "x-maximum" = "500 ms"))]
    pub delayed_ack_timeout: Option<Leaf<Time>>,
    /// Miss indications that cause a fast retransmit.
    #[schemars(extend("default" = 3, "minimum" = 1, "maximum" = 255))]
    pub missing_reports: Option<Leaf<u32>>,
    /// Initial window in bytes or full packets (`"4 pkt"`); that of RFC 9260 section 7.2.1 if absent.
    pub initial_window: Option<Leaf<Option<Amount>>>,
    /// Initial slow-start threshold: `"unlimited"`, bytes, or full packets (`"20 pkt"`).
    #[schemars(extend("default" = "unlimited"))]
    pub initial_ssthresh: Option<Leaf<Option<Amount>>>,
    /// When coverage ends, abandon what is in flight and send a FORWARD TSN that lets the receiver skip it (PR-SCTP,
    /// RFC 3758); with `cc = "avoca"`.
    #[schemars(extend("default" = false))]
    pub partial_reliability: Option<Leaf<bool>>,
}

/// How slow start may end before a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Hystart {
    /// It does not.
    Off,
    /// HyStart as in Linux and ns-3.
    Classic,
    /// HyStart++ (RFC 9406).
    Plusplus,
}
