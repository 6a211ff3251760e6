//! Keys of a TCP stack, and named presets. Measurements in papers depend as much on the stack as on the algorithm.
//!
//! The structs define the file format. The doc comment of a field is the help text of its key, the attributes are its
//! bounds, and `preset` gives its default. To add a key, add a field here and read it where it applies. A value that
//! follows from keys alone is a method of [`TcpConfig`].

mod amount;

pub use amount::{Amount, Buffer, InitialSsthresh, threshold};

use super::paws::Paws;
use crate::sender::{Patience, RttEstimator};
pub use crate::sender::{RtoFloor, RttVar};
use crate::units::{self, Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A named set of values of all keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    /// Linux 6.x, the stack in common use.
    #[default]
    Linux,
    /// ns-3 3.44, with its own version of each algorithm.
    Ns3,
    /// ns-3 3.27 of 2017: SACK recovery with two retransmissions of the first loss, go-back-N after a time-out, and an
    /// initial window of one segment.
    #[serde(rename = "ns3-3.27")]
    Ns3R27,
    /// ns-3 3.29 of 2018: SACK recovery by RFC 6675, and an initial window of one segment.
    #[serde(rename = "ns3-3.29")]
    Ns3R29,
    /// ns-2.35's one-way agents (`Agent/TCP` with the defaults of tcl/lib/ns-default.tcl).
    Ns2,
    /// The RFCs without extensions of any implementation.
    Rfc,
}

impl Stack {
    /// All stacks, the default first.
    pub const ALL: [Stack; 6] = [Stack::Linux, Stack::Ns3, Stack::Ns3R27, Stack::Ns3R29, Stack::Ns2, Stack::Rfc];

    /// Returns the name in scenario files.
    pub const fn name(self) -> &'static str {
        crate::cc::STACKS[self as usize]
    }
}

/// Detection and repair of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LossRecovery {
    /// Fast retransmit, then slow start from one segment; no fast recovery (BSD 4.3 Tahoe).
    Tahoe,
    /// Fast recovery that ends with the first new ACK (RFC 2581).
    Reno,
    /// Fast recovery through partial ACKs (RFC 6582).
    NewReno,
    /// SACK scoreboard (RFC 6675); NewReno when the peer has no SACK.
    Sack,
    /// RFC 6675 with Proportional Rate Reduction (RFC 6937), as in ns-3; also without SACK.
    Prr,
    /// RACK-TLP (RFC 8985) with PRR and undo, as in Linux; also without SACK.
    Rack,
}

impl LossRecovery {
    /// Returns true if PRR sets the window of a fast recovery by counting, without RACK.
    pub(super) const fn is_proportional(self) -> bool {
        matches!(self, LossRecovery::Prr)
    }
    /// Returns true if the scoreboard selects the next segment of a fast recovery (RFC 6675 NextSeg).
    pub(super) const fn selects_by_sack(self) -> bool {
        matches!(self, LossRecovery::Sack | LossRecovery::Prr)
    }
}

/// Condition under which the congestion window counts as fully used and may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CwndLimited {
    /// Full at some time within the last window of data (Linux `tcp_cwnd_validate`); in slow start, half is enough.
    Round,
    /// Full at the last segment that left (ns-3).
    LastSegment,
}

/// Retransmission at a partial ACK of a SACK recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResendHead {
    /// The first outstanding segment, unless it was retransmitted before.
    #[default]
    Once,
    /// The first outstanding segment if it is lost, also if it was retransmitted before; otherwise the next lost one
    /// (ns-3.28 to 3.31).
    IfLost,
    /// The first outstanding segment, whatever is known of it (ns-3.27).
    Always,
}

/// Growth of the window at the ACK that ends a fast recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryGrowth {
    /// By the repaired data (`count_repaired`).
    Repaired,
    /// By the data that was sent in the recovery (ns-3.27).
    NewData,
    /// None; the algorithm counts the data that was sent in the recovery (ns-3.28 to 3.31).
    None,
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

/// Data that must be acknowledged after a time-out before duplicate ACKs can trigger a fast retransmit again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FrOffUntil {
    /// All data sent before the time-out (RFC 6582 section 3.2).
    LastSent,
    /// Any data not acknowledged before the time-out (Wave paper, section 2.1, taken literally).
    LastAcked,
}

/// Keys of a TCP connection, except the keys of its congestion control. An absent key defaults to the value that the
/// algorithm requires, or else to the stack's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TcpConfig {
    /// Preset of all keys, and of the parameters of each algorithm.
    pub stack: Stack,
    /// Loss detection and repair.
    pub recovery: LossRecovery,
    /// Offer and accept selective acknowledgments (RFC 2018).
    pub sack: bool,
    /// Report duplicate segments (D-SACK, RFC 2883), which `undo` at the peer needs.
    pub dsack: bool,
    /// Compress SACKs while a gap remains (Linux `tcp_comp_sack_nr`): acknowledgments after the third are held back
    /// until 44 have accumulated, or for the shorter of a millisecond and a twentieth of the RTT.
    pub compress_sacks: bool,
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
    /// Segments per ACK; 1 disables delayed ACKs.
    #[schemars(extend("minimum" = 1))]
    pub delayed_ack: u32,
    /// Longest delay of an ACK.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub delayed_ack_timeout: Time,
    /// Delay ACKs like Linux. Segments are acknowledged at once while the connection starts and after a duplicate, a
    /// mark or a long silence. Otherwise the delay adapts to the gaps between segments.
    pub quick_ack: bool,
    /// Lower bound of the retransmission time-out; not above `max_rto`.
    pub min_rto: Time,
    /// Quantity to which `min_rto` applies.
    pub rto_floor: RtoFloor,
    /// Estimate of the RTT and its variation.
    pub rttvar: RttVar,
    /// Retransmission time-out before the first RTT sample.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub initial_rto: Time,
    /// Upper bound of the retransmission time-out.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub max_rto: Time,
    /// Retransmission time-out of the SYN.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub syn_rto: Time,
    /// Retransmissions of the SYN without back-off, before those with back-off (Linux `tcp_syn_linear_timeouts`).
    pub syn_linear_timeouts: u32,
    /// Begin with one segment if the SYN was sent more than twice, unless a timestamp shows that the first copy was
    /// answered (RFC 5681 section 3.1, Linux `tcp_init_transfer`).
    pub cautious_start: bool,
    /// Lower bound of the RTO after a repeated SYN whose answer gave no RTT sample, until the first sample (RFC 6298
    /// rule 5.7). Zero for none.
    pub fallback_rto: Time,
    /// End the back-off of the RTO whenever the timer restarts (ns-3), otherwise with the next RTT sample (RFC 6298
    /// section 5).
    pub reset_back_off: bool,
    /// Clock granularity G of RFC 6298. Timestamps always tick in milliseconds.
    pub clock_granularity: Time,
    /// Consecutive time-outs, or window probes without an answer, before the connection fails; the result then has
    /// `failed`.
    pub data_retries: u32,
    /// Convert `data_retries` to the time that so many time-outs take if they start at 200 ms and double up to
    /// `max_rto` (Linux `tcp_retries2`). Window probes are still counted.
    pub retries_as_time: bool,
    /// Probe a closed window without end (ns-3), otherwise at most `data_retries` times without an answer.
    pub endless_probes: bool,
    /// TCP_USER_TIMEOUT: time without an answer after which the connection fails, from the first retransmission or
    /// window probe on. Replaces `data_retries`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time", extend("x-exclusiveMinimum" = "0 s"))]
    pub user_timeout: Option<Time>,
    /// SO_KEEPALIVE: probe a silent connection, at both ends.
    pub keepalive: bool,
    /// Time without a segment before the first keep-alive probe (RFC 9293 section 3.8.4: at least 2 h by default).
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub keepalive_time: Time,
    /// Time between keep-alive probes.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub keepalive_interval: Time,
    /// Keep-alive probes without an answer before the connection fails.
    #[schemars(extend("minimum" = 1))]
    pub keepalive_probes: u32,
    /// Send new data on the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: bool,
    /// Restart the retransmission timer only at the first partial ACK of a fast recovery; otherwise at each
    /// ("slow-but-steady", RFC 6582 section 4). No effect with `reno`, `tahoe` and `rack`.
    pub impatient: bool,
    /// Data that must be acknowledged after a time-out before three duplicate ACKs can trigger a fast retransmit again.
    /// No effect with `rack`.
    pub fr_off_until: FrOffUntil,
    /// Retransmit the highest outstanding segment once per fast recovery if nothing else may leave (RFC 6675 NextSeg
    /// rule 4); with `sack` and `prr` only.
    pub rescue: bool,
    /// Retransmission at a partial ACK. Another one repairs a lost retransmission without a time-out. With `sack` and
    /// `prr` only.
    pub resend_head: ResendHead,
    /// Retransmit the first outstanding segment as soon as SACKs show its loss. A fast recovery begins with the third
    /// duplicate ACK, or once the second segment is lost, and retransmits the first again (ns-3.27). Otherwise a fast
    /// recovery begins when the loss is known. With `sack` and `prr` only.
    pub repair_before_recovery: bool,
    /// Let an ACK that advances end the count of duplicate ACKs even if it SACKs new data (ns-3.27). With `sack` and
    /// `prr` only.
    pub restart_duplicates: bool,
    /// Count every ACK with SACKs of outstanding data as a duplicate ACK, also if the same data was SACKed before (ns-3
    /// up to 3.31). Otherwise an ACK must SACK new data. With `sack` and `prr` only.
    pub count_repeated_sacks: bool,
    /// After a time-out, send all outstanding data again in order and forget the SACKs; data that was not sent again
    /// cannot be SACKed (ns-3.27). Otherwise SACKed data is not sent again. With `sack` and `prr` only.
    pub go_back_n: bool,
    /// Retransmit only lost segments below the highest SACKed one (RFC 6675 NextSeg rule 1.b). So after a time-out new
    /// data follows until that segment is acknowledged, as in ns-3. With `sack` and `prr` only.
    pub repair_below_sack: bool,
    /// Tail loss probes (RFC 8985); with `rack` only.
    pub tlp: bool,
    /// Detect and undo spurious reductions (F-RTO, Eifel, D-SACK); with `rack` only.
    pub undo: bool,
    /// Hold back small segments while data is outstanding (RFC 896, Minshall's variant).
    pub nagle: bool,
    /// Fill the peer's window even with less than a full segment (ns-3).
    pub fill_window: bool,
    /// Fill up a short segment that leaves again from the next one, which is split if necessary (ns-3). Otherwise only
    /// a next one that fits as a whole is added.
    pub fill_retransmissions: bool,
    /// Take RTT samples from the millisecond timestamps, and only of segments sent once (ns-3). Otherwise samples come
    /// from the send times of segments, and those of repeated segments from the timestamps.
    pub timestamp_rtt: bool,
    /// Take the minimum of the smoothed RTT (ns-3) instead of the samples as the smallest RTT.
    pub smoothed_min_rtt: bool,
    /// Report the smoothed RTT to the congestion control (ns-3) instead of the latest sample. No effect with `rack`.
    pub report_srtt: bool,
    /// Grow the window and restart the retransmission timer also at an ACK that advances and SACKs new data, before a
    /// fast recovery begins (ns-3 up to 3.31). Otherwise such an ACK only counts as a duplicate. With `sack` and `prr`
    /// only.
    pub grow_on_duplicates: bool,
    /// Growth of the window at the ACK that ends a fast recovery. No effect with `rack`.
    pub recovery_growth: RecoveryGrowth,
    /// Report all segments that an ACK covers to the algorithm (ns-3 up to 3.31), otherwise only those that were not
    /// SACKed before. No effect with `rack`.
    pub count_sacked_again: bool,
    /// Let the data in flight, without data that is SACKed or lost, fill the peer's window (ns-3 up to 3.31). New data
    /// may then exceed the window, and the peer drops it. Otherwise all outstanding data counts (RFC 9293 section 3.4).
    pub window_in_flight: bool,
    /// Grow the window even while the application or the peer limits sending (ns-3, ns-2).
    pub grow_when_limited: bool,
    /// Reduce the window to at most the initial window after an idle time above the RTO (RFC 5681 section 4.1). No
    /// effect with `bbr` and `wave`.
    pub slow_start_after_idle: bool,
    /// With `slow_start_after_idle`: validate the window as in RFC 2861 and Linux. The window is halved for each RTO of
    /// idle time, and a window that the application does not fill shrinks.
    pub window_validation: bool,
    /// Condition under which the congestion window counts as fully used. Without `grow_when_limited`, only such a
    /// window grows.
    pub cwnd_limited: CwndLimited,
    /// Reduce ssthresh at every time-out (ns-3), otherwise only at the first time-out of a segment (RFC 5681 section
    /// 3.1). No effect with `tahoe` and `rack`.
    pub reduce_every_timeout: bool,
    /// Without SACK, data reported by duplicate ACKs still counts as received after an ACK of new data (ns-3). No
    /// effect with `rack`.
    pub keep_duplicates: bool,
    /// Without SACK, let three duplicate ACKs trigger a fast retransmit even if they acknowledge exactly the data sent
    /// before the last loss (ns-3; the "less careful" variant of RFC 2582). Such ACKs may answer needless
    /// retransmissions. Otherwise they must acknowledge more than this data (RFC 6582 section 3.2). No effect with
    /// `reno` and `rack`.
    pub less_careful: bool,
    /// At the end of a repair, grow the window like ns-3. The ACK that ends a fast recovery counts all data that it
    /// acknowledges, instead of one segment. The ACK that ends the repair after a time-out counts only data sent since
    /// the time-out, instead of all data that it acknowledges. No effect with `rack`.
    pub count_repaired: bool,
    /// Count a SACKed retransmission as in flight until it is acknowledged (ns-3).
    pub sacked_in_flight: bool,
    /// Let the application write only when an ACK restarts the retransmission timer and when a segment is about to
    /// leave (ns-3), otherwise as soon as there is room.
    pub write_on_ack: bool,
    /// Count 40 bytes of headers per segment in pacing (draft-cardwell-iccrg-bbr-congestion-control-00 section 4.2.1),
    /// otherwise only payload (ns-3 `TcpSocketBase::SendDataPacket`, Linux).
    pub pace_headers: bool,
    /// Pace every algorithm: at 2 times the window per RTT in slow start, later at 1.2 times (Linux
    /// `tcp_update_pacing_rate`, as with the qdisc `fq`). Algorithms that set a rate keep it.
    pub pacing: bool,
    /// Pace like Linux without `fq`. The first ten segments leave at once. A late segment shortens the next pause by
    /// its lateness, but by at most half.
    pub internal_pacing: bool,
    /// Send segments in bursts of at least two, as many as the pacing rate sends in a millisecond, and more over short
    /// round trips (Linux `tcp_tso_autosize`). If the window has no room for a whole burst, the sender waits for the
    /// next acknowledgment (`tcp_tso_should_defer`).
    pub tso_autosizing: bool,
    /// Compute proportional rate reduction in 32 bits without sign, like ns-3 3.44: products wrap around, and a
    /// difference below zero becomes a large number. With `prr` only.
    pub prr_wraps: bool,
    /// Count a segment for each duplicate ACK in proportional rate reduction, in addition to the data that it reports,
    /// until as much is delivered as was in flight when recovery began (ns-3). With `prr` only.
    pub prr_counts_duplicates: bool,
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
    /// Announced maximum segment size. The upper limit is 40 B lower without `mss_includes_options`, and 20 B lower
    /// over IPv6.
    #[serde(with = "units::bytes")]
    #[schemars(with = "Bytes", extend("x-minimum" = "64 B", "x-maximum" = "65495 B"))]
    pub mss: u32,
    /// Announce `mss` in the SYN. Without it, as in ns-3, both ends use their own value.
    pub mss_option: bool,
    /// Subtract option bytes from `mss` in a full segment (RFC 6691). Otherwise 1460 B with timestamps make an IP
    /// packet of 1512 B, or two fragments over an MTU of 1500 B, which causes a warning.
    pub mss_includes_options: bool,
}

/// Keys of [`TcpConfig`] that concern recovery with SACK only.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SackRules {
    pub resend_head: ResendHead,
    pub repair_before_recovery: bool,
    pub restart_duplicates: bool,
    pub count_repeated_sacks: bool,
    pub grow_on_duplicates: bool,
    pub go_back_n: bool,
    pub repair_below_sack: bool,
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig::preset(Stack::default())
    }
}

impl TcpConfig {
    pub(super) fn rtt_estimator(&self) -> RttEstimator {
        let bounds = (self.min_rto, self.max_rto);
        RttEstimator::new(self.initial_rto, bounds, self.clock_granularity, self.rto_floor, self.rttvar)
    }
    /// Returns the rules of SACK recovery, which apply if both ends have `sack` and the recovery selects by it.
    pub(super) fn sack_rules(&self, sack: bool) -> SackRules {
        if !sack || !self.recovery.selects_by_sack() {
            return SackRules::default();
        }
        SackRules {
            resend_head: self.resend_head,
            repair_before_recovery: self.repair_before_recovery,
            restart_duplicates: self.restart_duplicates,
            count_repeated_sacks: self.count_repeated_sacks,
            grow_on_duplicates: self.grow_on_duplicates,
            go_back_n: self.go_back_n,
            repair_below_sack: self.repair_below_sack,
        }
    }
    /// Returns the initial window for segments of `mss` bytes, bytes.
    pub(super) fn initial_window_bytes(&self, mss: u32) -> u64 {
        u64::from(self.initial_window) * u64::from(mss)
    }
    /// Returns the size of the send buffer, bytes.
    pub(super) fn send_buffer(&self) -> u64 {
        match self.snd_buf {
            Buffer::Bytes(bytes) => bytes,
            Buffer::Auto => AUTO_SEND_BUFFER,
        }
    }
    /// Returns the limit on retransmissions without an answer.
    pub(super) fn patience(&self) -> Patience {
        match self.user_timeout {
            Some(most) => Patience::Time(most),
            None if self.retries_as_time => Patience::Time(self.retries2_timeout()),
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
    /// Returns the preset of `stack`.
    ///
    /// ```
    /// use roughlink_core::tcp::{LossRecovery, Stack, TcpConfig};
    /// use roughlink_core::units::Time;
    ///
    /// let (linux, rfc) = (TcpConfig::preset(Stack::Linux), TcpConfig::preset(Stack::Rfc));
    /// assert_eq!((linux.recovery, rfc.recovery), (LossRecovery::Rack, LossRecovery::Sack));
    /// assert_eq!(linux.min_rto, Time::from_millis(200));
    /// assert_eq!(rfc.min_rto, Time::from_secs(1)); // RFC 6298 rule 2.4
    /// assert_eq!(rfc.initial_window, 10); // RFC 6928
    /// ```
    pub fn preset(stack: Stack) -> Self {
        let rfc = TcpConfig {
            stack,
            recovery: LossRecovery::Sack,
            sack: true,
            dsack: false,
            compress_sacks: false,
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
            rttvar: RttVar::Rfc,
            initial_rto: Time::from_secs(1),
            max_rto: Time::from_secs(60),
            syn_rto: Time::from_secs(1),
            syn_linear_timeouts: 0,
            cautious_start: false,
            fallback_rto: Time::from_secs(3),
            reset_back_off: false,
            clock_granularity: Time::from_millis(1),
            data_retries: 15,
            retries_as_time: false,
            endless_probes: false,
            user_timeout: None,
            keepalive: false,
            keepalive_time: Time::from_secs(7_200),
            keepalive_interval: Time::from_secs(75),
            keepalive_probes: 9,
            limited_transmit: true,
            impatient: true,
            fr_off_until: FrOffUntil::LastSent,
            rescue: true,
            resend_head: ResendHead::Once,
            repair_before_recovery: false,
            restart_duplicates: false,
            count_repeated_sacks: false,
            go_back_n: false,
            repair_below_sack: false,
            tlp: false,
            undo: false,
            nagle: false,
            fill_window: false,
            fill_retransmissions: false,
            timestamp_rtt: false,
            smoothed_min_rtt: false,
            report_srtt: false,
            grow_on_duplicates: false,
            recovery_growth: RecoveryGrowth::Repaired,
            count_sacked_again: false,
            window_in_flight: false,
            grow_when_limited: false,
            slow_start_after_idle: true,
            window_validation: false,
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
            prr_counts_duplicates: false,
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
                recovery: LossRecovery::Rack,
                dsack: true,
                compress_sacks: true,
                delayed_ack_timeout: Time::from_millis(40),
                quick_ack: true,
                paws: Paws::Linux,
                min_rto: Time::from_millis(200),
                rto_floor: RtoFloor::Variance,
                rttvar: RttVar::Linux,
                max_rto: Time::from_secs(120),
                syn_linear_timeouts: 4,
                cautious_start: true,
                retries_as_time: true,
                window_validation: true,
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
                recovery: LossRecovery::Prr,
                paws: Paws::None,
                syn_rto: Time::from_secs(3),
                fallback_rto: Time::ZERO,
                reset_back_off: true,
                data_retries: 6,
                endless_probes: true,
                rescue: false,
                repair_below_sack: true,
                fill_window: true,
                fill_retransmissions: true,
                timestamp_rtt: true,
                smoothed_min_rtt: true,
                report_srtt: true,
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
                prr_counts_duplicates: true,
                write_size: 512,
                mss_option: false,
                mss_includes_options: false,
                ..rfc
            },
            Stack::Ns3R27 => TcpConfig {
                stack,
                resend_head: ResendHead::Always,
                repair_before_recovery: true,
                restart_duplicates: true,
                go_back_n: true,
                recovery_growth: RecoveryGrowth::NewData,
                sacked_in_flight: false,
                ..TcpConfig::preset(Stack::Ns3R29)
            },
            Stack::Ns3R29 => TcpConfig {
                stack,
                recovery: LossRecovery::Sack,
                initial_window: 1,
                resend_head: ResendHead::IfLost,
                repair_below_sack: false,
                count_repeated_sacks: true,
                grow_on_duplicates: true,
                recovery_growth: RecoveryGrowth::None,
                count_sacked_again: true,
                window_in_flight: true,
                ..TcpConfig::preset(Stack::Ns3)
            },
            // Values of tcl/lib/ns-default.tcl in ns-2.35; the comment after each value names its key there.
            Stack::Ns2 => TcpConfig {
                recovery: LossRecovery::NewReno,
                sack: false,
                paws: Paws::None,
                timestamps: false,                           // timestamps_
                window_scaling: true,                        // window_ counts packets and has no upper limit
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

/// Auto-tuned send buffer, bytes of memory: the maximum of Linux `tcp_wmem`. Growth up to this size is not modeled: in
/// Linux, the buffer grows several times as fast as the window (`tcp_sndbuf_expand`).
pub(super) const AUTO_SEND_BUFFER: u64 = 4 << 20;
/// TCP_RTO_MIN of Linux.
const LINUX_RTO_MIN: Time = Time::from_millis(200);
