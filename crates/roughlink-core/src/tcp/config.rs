//! Keys of a TCP stack, and named presets. Measurements in papers depend as much on the stack as on the algorithm above
//! it.
//!
//! The structs of keys define the file format: their comments are the help of each key, their attributes its bounds,
//! and `preset` its default. To add a key, add a field here and read it where it applies.

mod amount;

pub use amount::{Amount, Buffer, InitialSsthresh, threshold};

use super::paws::Paws;
pub use crate::sender::RtoFloor;
use crate::sender::{Patience, RttEstimator};
use crate::units::{self, Bytes, Time};
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
    /// ns-2.35's one-way agents (`Agent/TCP` with the defaults of tcl/lib/ns-default.tcl).
    Ns2,
    /// The RFCs, no more.
    Rfc,
}

impl Stack {
    /// All stacks, the default first.
    pub const ALL: [Stack; 4] = [Stack::Linux, Stack::Ns3, Stack::Ns2, Stack::Rfc];

    /// Returns the name in scenario files.
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

/// When the congestion window counts as fully used, so that it may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CwndLimited {
    /// Some time within the last window of data (Linux `tcp_cwnd_validate`); in slow start, half of it is enough.
    Round,
    /// At the last segment that left (ns-3).
    LastSegment,
}

/// Echo of ECN marks by the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EcnEcho {
    /// ECE on every segment until one with CWR arrives (RFC 3168 section 6.1.3).
    UntilCwr,
    /// ECE only on acknowledgments of marked packets. When marking begins or ends, an acknowledgment leaves at once
    /// (RFC 8257 section 3.2). All packets are then ECN-capable, as with Linux's `tcp_dctcp`.
    Each,
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

/// The keys of a TCP connection except its congestion control. A key that is absent takes the value that the algorithm
/// asks for, otherwise that of the stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TcpConfig {
    /// The set of values to start from; it also selects the parameters of each algorithm.
    pub stack: Stack,
    /// Loss detection and repair.
    pub recovery: Recovery,
    /// Offer and accept selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Offer and accept ECN (RFC 3168): packets are marked instead of dropped where a link has a `qdisc` that marks.
    /// Linux does not offer ECN by default, but accepts an offer (`tcp_ecn` = 2).
    pub ecn: bool,
    /// Echo of ECN marks by the receiver.
    pub ecn_echo: EcnEcho,
    /// Offer and accept timestamps (RFC 7323).
    pub timestamps: bool,
    /// Rejection of segments with an old timestamp.
    pub paws: Paws,
    /// Offer and accept window scaling (RFC 7323); without it the largest window is 65535 B.
    pub window_scaling: bool,
    /// Initial window in segments.
    #[schemars(extend("minimum" = 1))]
    pub initial_window: u32,
    /// Initial slow-start threshold: `"unlimited"`, `"window"` for `rcv_buf` (ns-2: `window_`), bytes, or full segments
    /// (`"20 pkt"`).
    pub initial_ssthresh: InitialSsthresh,
    /// Segments per ACK; 1 turns delayed ACKs off.
    #[schemars(extend("minimum" = 1))]
    pub delayed_ack: u32,
    /// Longest delay of an ACK.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub delayed_ack_timeout: Time,
    /// Acknowledge every segment at once while the connection starts and after a duplicate segment (Linux).
    pub quick_ack: bool,
    /// Lower bound of the retransmission time-out; not above `max_rto`.
    pub min_rto: Time,
    /// Where `min_rto` applies.
    pub rto_floor: RtoFloor,
    /// Retransmission time-out before the first RTT sample.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub initial_rto: Time,
    /// Upper bound of the retransmission time-out.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub max_rto: Time,
    /// Retransmission time-out of the SYN.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub syn_rto: Time,
    /// Clock granularity G of RFC 6298. Timestamps tick in milliseconds whatever this is.
    pub clock_granularity: Time,
    /// Consecutive time-outs before the connection gives up; the result then says `failed`. Linux makes a time of it
    /// (`tcp_retries2`): that of as many time-outs which begin with 200 ms and double up to `max_rto`.
    pub data_retries: u32,
    /// TCP_USER_TIMEOUT: time without an answer, from the first retransmission or window probe on, after which the
    /// connection gives up, instead of `data_retries`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time", extend("x-exclusiveMinimum" = "0 s"))]
    pub user_timeout: Option<Time>,
    /// SO_KEEPALIVE: probe a connection on which nothing arrives, at both ends.
    pub keepalive: bool,
    /// Time without a segment before the first keep-alive probe (RFC 9293 section 3.8.4: at least 2 h by default).
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub keepalive_time: Time,
    /// Time between keep-alive probes.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub keepalive_interval: Time,
    /// Keep-alive probes without an answer before the connection gives up.
    #[schemars(extend("minimum" = 1))]
    pub keepalive_probes: u32,
    /// Send new data on the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: bool,
    /// Only the first partial ACK of a fast recovery restarts the retransmission timer; otherwise each one does
    /// ("slow-but-steady", RFC 6582 section 4). No effect with `reno`, `tahoe` and `rack`.
    pub impatient: bool,
    /// What must be acknowledged after a time-out before three duplicate ACKs cause a fast retransmit again. No effect
    /// with `rack`.
    pub fr_off_until: FrOffUntil,
    /// Tail loss probes (RFC 8985); with `rack` only.
    pub tlp: bool,
    /// Detect spurious reductions (F-RTO, Eifel, D-SACK) and take them back; with `rack` only.
    pub undo: bool,
    /// Hold back small segments while data is outstanding (RFC 896, Minshall's variant).
    pub nagle: bool,
    /// Send what fits into the peer's window even if it is less than a segment (ns-3).
    pub fill_window: bool,
    /// Take RTT samples from the millisecond timestamps (ns-3), otherwise from the time the segment left.
    pub timestamp_rtt: bool,
    /// Grow the window also while the application or the peer limits sending (ns-3, ns-2).
    pub grow_when_limited: bool,
    /// Reduce the window after an idle time of more than the RTO, to no more than the initial window (RFC 5681 section 4.1). Linux
    /// (`tcp_slow_start_after_idle`) halves it for each RTO of idle time, and lets a window that the application does not
    /// fill shrink. Only window algorithms do so: `bbr` and `wave` do not.
    pub slow_start_after_idle: bool,
    /// When the congestion window counts as fully used, so that it may grow without `grow_when_limited`.
    pub cwnd_limited: CwndLimited,
    /// Every time-out reduces ssthresh (ns-3), otherwise only the first one of a segment (RFC 5681 section 3.1). No
    /// effect with `tahoe` and `rack`.
    pub reduce_every_timeout: bool,
    /// Without SACK, an ACK of new data does not take back what earlier duplicate ACKs counted as received (ns-3).
    /// No effect with `rack`.
    pub keep_duplicates: bool,
    /// Without SACK, three duplicate ACKs of exactly what had been sent at the last loss cause a fast retransmit, although they may
    /// answer retransmissions that were not needed (ns-3; the "less careful" variant of RFC 2582). Otherwise more must be
    /// acknowledged (RFC 6582 section 3.2). No effect with `reno` and `rack`.
    pub less_careful: bool,
    /// The ACK that ends a fast recovery lets the window grow by all that it acknowledges, and the ACK that ends the repair after a
    /// time-out by what was sent since (ns-3), otherwise by a segment and by what it acknowledges. No effect with `rack`.
    pub count_repaired: bool,
    /// A retransmission that is SACKed counts as in flight until it is acknowledged (ns-3).
    pub sacked_in_flight: bool,
    /// The application writes only when an ACK restarts the retransmission timer and when a segment is about to leave
    /// (ns-3), otherwise as soon as there is room.
    pub write_on_ack: bool,
    /// Pacing counts 40 bytes of headers per segment (draft-cardwell-iccrg-bbr-congestion-control-00 section 4.2.1),
    /// otherwise only payload (ns-3 `TcpSocketBase::SendDataPacket`, Linux).
    pub pace_headers: bool,
    /// Pace every algorithm: at 2 times the window per RTT in slow start, later at 1.2 times (Linux
    /// `tcp_update_pacing_rate`, as with the qdisc `fq`). An algorithm that sets a rate keeps its own.
    pub pacing: bool,
    /// Pace as Linux does without `fq`. The first ten segments leave at once. A late segment shortens the pause after
    /// it by its lateness, by at most half.
    pub internal_pacing: bool,
    /// Send segments in bursts of at least two, as many as the pacing rate sends in a millisecond, and more over short
    /// round trips (Linux `tcp_tso_autosize`). If the window has no room for a whole burst, the sender waits for the
    /// next acknowledgment (`tcp_tso_should_defer`).
    pub tso_autosizing: bool,
    /// Proportional rate reduction multiplies in 32 bits, as ns-3 3.44 does.
    pub prr_wraps: bool,
    /// Size of a bulk application's writes (ns-3: 512 B; `linux`: 1280 KiB, because iperf3 3.12 writes ten blocks of
    /// 128 KiB whenever the socket is writable).
    #[serde(with = "units::bytes")]
    #[schemars(with = "Bytes", extend("x-minimum" = "1 B"))]
    pub write_size: u32,
    /// Write as much as fits once a third of the send buffer is free (Linux `sk_stream_write_space`). Otherwise write
    /// only when a whole `write_size` fits (ns-3).
    pub partial_writes: bool,
    /// Send buffer: bytes, at least one segment, or `"auto"`, which grows as in Linux up to 4 MiB.
    pub snd_buf: Buffer,
    /// Receive buffer: bytes, at least one segment, or `"auto"`, which grows as in Linux up to 6 MiB.
    pub rcv_buf: Buffer,
    /// Maximum segment size announced. The largest is 40 B less without `mss_includes_options`, and 20 B less over IPv6.
    #[serde(with = "units::bytes")]
    #[schemars(with = "Bytes", extend("x-minimum" = "64 B", "x-maximum" = "65495 B"))]
    pub mss: u32,
    /// Announce `mss` in the SYN; ns-3 does not, and both ends then take their own.
    pub mss_option: bool,
    /// A full segment carries `mss` minus option bytes (RFC 6691), otherwise `mss` itself: 1460 B with timestamps then
    /// make an IP packet of 1512 B, two fragments over an MTU of 1500 B, and a warning says so.
    pub mss_includes_options: bool,
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig::preset(Stack::default())
    }
}

impl TcpConfig {
    /// Returns the RTO estimator before the first sample.
    pub(super) fn rtt_estimator(&self) -> RttEstimator {
        RttEstimator::new(self.initial_rto, (self.min_rto, self.max_rto), self.clock_granularity, self.rto_floor)
    }
    /// Returns the limit on retransmissions without an answer.
    pub(super) fn patience(&self) -> Patience {
        match self.user_timeout {
            Some(most) => Patience::Time(most),
            None if self.stack == Stack::Linux => Patience::Time(self.retries2_timeout()),
            None => Patience::Retries(self.data_retries),
        }
    }
    /// Returns the time from the first retransmission after which Linux gives up: `tcp_retries2` time-outs that begin
    /// with TCP_RTO_MIN, regardless of the connection's RTO (Linux 6.18 `tcp_model_timeout`).
    pub(super) fn retries2_timeout(&self) -> Time {
        let doublings = (self.max_rto.0 / LINUX_RTO_MIN.0).max(1).ilog2().min(self.data_retries);
        let doubling = ((2 << doublings) - 1) * LINUX_RTO_MIN.0;
        let constant = u64::from(self.data_retries - doublings).saturating_mul(self.max_rto.0);
        Time(doubling.saturating_add(constant))
    }
    /// Returns the values of `stack` (design: table of stacks).
    pub fn preset(stack: Stack) -> Self {
        let rfc = TcpConfig {
            stack,
            recovery: Recovery::Sack,
            sack: true,
            ecn: false,
            ecn_echo: EcnEcho::UntilCwr,
            timestamps: true,
            paws: Paws::Rfc,
            window_scaling: true,
            initial_window: 10,
            initial_ssthresh: InitialSsthresh::Unlimited,
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
            user_timeout: None,
            keepalive: false,
            keepalive_time: Time::from_secs(7_200),
            keepalive_interval: Time::from_secs(75),
            keepalive_probes: 9,
            limited_transmit: true,
            impatient: true,
            fr_off_until: FrOffUntil::LastSent,
            tlp: false,
            undo: false,
            nagle: false,
            fill_window: false,
            timestamp_rtt: false,
            grow_when_limited: false,
            slow_start_after_idle: true,
            cwnd_limited: CwndLimited::Round,
            reduce_every_timeout: false,
            keep_duplicates: false,
            less_careful: false,
            count_repaired: false,
            sacked_in_flight: false,
            write_on_ack: false,
            pace_headers: true,
            pacing: false,
            internal_pacing: false,
            tso_autosizing: false,
            prr_wraps: false,
            write_size: 1,
            partial_writes: false,
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
                paws: Paws::Linux,
                min_rto: Time::from_millis(200),
                rto_floor: RtoFloor::Variance,
                max_rto: Time::from_secs(120),
                tlp: true,
                undo: true,
                nagle: true,
                pace_headers: false,
                internal_pacing: true,
                tso_autosizing: true,
                write_size: 1280 * 1024,
                partial_writes: true,
                snd_buf: Buffer::Auto,
                rcv_buf: Buffer::Auto,
                ..rfc
            },
            Stack::Ns3 => TcpConfig {
                recovery: Recovery::Prr,
                paws: Paws::None,
                syn_rto: Time::from_secs(3),
                data_retries: 6,
                fill_window: true,
                timestamp_rtt: true,
                grow_when_limited: true,
                slow_start_after_idle: false,
                cwnd_limited: CwndLimited::LastSegment,
                reduce_every_timeout: true,
                keep_duplicates: true,
                less_careful: true,
                count_repaired: true,
                sacked_in_flight: true,
                write_on_ack: true,
                pace_headers: false,
                prr_wraps: true,
                write_size: 512,
                mss_option: false,
                mss_includes_options: false,
                ..rfc
            },
            // tcl/lib/ns-default.tcl of ns-2.35; the key there behind each value.
            Stack::Ns2 => TcpConfig {
                recovery: Recovery::NewReno,
                sack: false,
                paws: Paws::None,
                timestamps: false,                           // timestamps_
                window_scaling: true,                        // window_ counts packets and has no largest value
                initial_window: 2,                           // windowInit_
                initial_ssthresh: InitialSsthresh::Window,   // TcpAgent::reset
                delayed_ack: 1,                              // Agent/TCPSink
                delayed_ack_timeout: Time::from_millis(100), // interval_ of Agent/TCPSink/DelAck
                min_rto: Time::from_millis(200),             // minrto_
                clock_granularity: Time::from_millis(10),    // tcpTick_
                initial_rto: Time::from_secs(3),             // rtxcur_init_
                syn_rto: Time::from_secs(3),
                grow_when_limited: true,
                slow_start_after_idle: false,
                mss_includes_options: false,
                ..rfc
            },
        }
    }
}

/// TCP_RTO_MIN of Linux.
const LINUX_RTO_MIN: Time = Time::from_millis(200);
