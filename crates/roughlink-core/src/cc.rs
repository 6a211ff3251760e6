//! Congestion control: the trait every algorithm implements, and the registry of algorithms.
//!
//! An algorithm is notified of events (`on_*`) and returns what may be sent ([`CongestionControl::permit`]).
//! `permit` is a function, not a stored number: a window algorithm returns its window, a paced one adds a
//! rate, one that must not send returns [`Permit::Hold`]. Loss detection and the pacing of retransmissions
//! during recovery are the endpoint's (`tcp::recovery`); an algorithm that follows them returns
//! [`Flow::window`], one that does not (BBR, Wave) does not call it.
//!
//! To add an algorithm: one file `cc/<name>.rs` with its parameters, its arithmetic and its tests, one line
//! in [`REGISTRY`]. All windows are bytes of payload; [`Flow::mss`] is the payload of a full segment.

use crate::units::{Rate, Time};
use std::fmt::Debug;
use window::Window;

pub mod avoca;
pub mod bbr;
pub mod bic;
pub mod coverage;
pub mod cubic;
pub mod highspeed;
pub mod htcp;
pub mod hybla;
pub mod hystart;
pub mod illinois;
pub mod newreno;
pub mod samples;
pub mod scalable;
pub mod sctp;
pub mod vegas;
pub mod veno;
pub mod wave;
pub mod westwood;
pub mod window;
pub mod yeah;

mod history;
mod registry;
pub use history::LinkHistory;
pub use registry::{Algorithm, BuildError, Construct, Factory, REGISTRY, algorithm, build};

/// Names of the TCP stacks, in the order of [`Stack`](crate::tcp::Stack): an algorithm may have a preset of its parameters for each.
pub const STACKS: [&str; 4] = ["linux", "ns3", "ns2", "rfc"];

/// The state of loss recovery, with Linux's names (`tcp_ca_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CongestionState {
    /// Nothing suspicious.
    #[default]
    Open,
    /// Duplicate ACKs or SACKs have arrived, no loss declared.
    Disorder,
    /// Fast recovery.
    Recovery,
    /// After a retransmission time-out, until what was outstanding then is acknowledged.
    Loss,
    /// After packets were marked (RFC 3168), until more than what was outstanding then is acknowledged; with `rack` only.
    Cwr,
}

impl CongestionState {
    /// The window falls step by step (RFC 6937).
    #[inline]
    pub const fn is_reducing(self) -> bool {
        matches!(self, CongestionState::Recovery | CongestionState::Cwr)
    }
}

/// The state of the connection, read-only for algorithms. Intervals of zero mean "not yet measured".
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// The present.
    pub now: Time,
    /// Payload bytes of a full segment (SMSS).
    pub mss: u32,
    /// State of loss recovery.
    pub state: CongestionState,
    /// Bytes believed to be in the network: "pipe" of RFC 6675, `tcp_packets_in_flight` of Linux.
    pub in_flight: u64,
    /// Bytes sent and not cumulatively acknowledged: FlightSize of RFC 5681.
    pub outstanding: u64,
    /// Bytes delivered so far, cumulatively or selectively acknowledged, each counted once.
    pub delivered: u64,
    /// Stream offset of the first unacknowledged byte.
    pub snd_una: u64,
    /// Stream offset of the next new byte.
    pub snd_nxt: u64,
    /// Smoothed RTT (RFC 6298).
    pub srtt: Time,
    /// The RTT measured last.
    pub latest_rtt: Time,
    /// The smallest RTT of the connection.
    pub min_rtt: Time,
    /// Retransmission time-out, back-off included.
    pub rto: Time,
    /// Initial window in bytes.
    pub initial_window: u64,
    /// Initial slow-start threshold in bytes (`u64::MAX` = unlimited).
    pub initial_ssthresh: u64,
    /// The window that the peer advertises, bytes.
    pub send_window: u64,
    /// What recovery allows to be in flight while it is in charge (PRR, NewReno inflation), else `None`.
    pub recovery_window: Option<u64>,
    /// The sender used its whole congestion window since the last ACK (Linux `tcp_is_cwnd_limited`).
    pub cwnd_limited: bool,
    /// The application had nothing to send, and what was in flight then has not all been delivered (Linux
    /// `tp->app_limited`).
    pub app_limited: bool,
    /// Segments in the network when the last window of data began: `max_packets_out` of Linux, in bytes.
    pub max_outstanding: u64,
}

impl Flow {
    /// Discards all RTT measurements.
    pub(crate) fn forget_rtt(&mut self) {
        (self.srtt, self.latest_rtt, self.min_rtt) = (Time::ZERO, Time::ZERO, Time::MAX);
    }
    /// The window of an algorithm that lets recovery govern retransmissions: `cwnd`, or what recovery allows.
    #[inline]
    pub fn window(&self, cwnd: u64) -> u64 {
        match self.recovery_window {
            None => cwnd,
            Some(w) => w,
        }
    }
}

/// A delivery-rate sample (Linux `struct rate_sample`; draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateSample {
    /// Bytes delivered over `interval`.
    pub delivered: u64,
    /// `Flow::delivered` when the acknowledged segment was sent.
    pub prior_delivered: u64,
    /// The longer of the send and the ACK interval.
    pub interval: Time,
    /// RTT of the segment, zero if it was retransmitted.
    pub rtt: Time,
    /// When the segment left, for the last time if it was retransmitted.
    pub sent_at: Time,
    /// Bytes marked lost since the previous sample.
    pub losses: u64,
    /// Bytes newly acknowledged or SACKed by this ACK.
    pub acked_sacked: u64,
    /// `in_flight` before this ACK.
    pub prior_in_flight: u64,
    /// The sender had nothing to send when the segment left.
    pub app_limited: bool,
    /// The segment had been retransmitted.
    pub retransmitted: bool,
}

/// One acknowledgement, after the scoreboard took it in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ack {
    /// Bytes newly acknowledged cumulatively.
    pub acked: u64,
    /// Bytes newly delivered: cumulatively acknowledged or SACKed for the first time.
    pub delivered: u64,
    /// Whole segments that this ACK credits to window growth (ns-3 `segmentsAcked`, Linux `acked`); of a duplicate ACK, 0 or
    /// those newly SACKed.
    pub segments: u32,
    /// RTT sample of this ACK, if it gave one. Under `ns3` this is what `PktsAcked` passes on.
    pub rtt: Option<Time>,
    /// The window may grow on this ACK: not in recovery, not application-limited. On `linux` this may be a duplicate ACK
    /// where the network was seen to reorder by more than three segments (`tcp_may_raise_cwnd`).
    pub may_grow: bool,
    /// `Flow::snd_una` before this ACK.
    pub prior_una: u64,
    /// `Flow::in_flight` before this ACK.
    pub prior_in_flight: u64,
    /// Delivery-rate sample, if the ACK delivered anything.
    pub rate: Option<RateSample>,
}

/// Why the window must shrink. Reported once per episode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Congestion {
    /// Fast retransmit.
    Loss,
    /// Retransmission time-out.
    Timeout,
    /// A time-out within an episode already reported: ssthresh stays, the window falls to one segment.
    TimeoutAgain,
    /// ECN-Echo.
    Ecn,
}

impl Congestion {
    /// Whether this is a retransmission time-out, the first of its episode or not.
    #[inline]
    pub const fn is_timeout(self) -> bool {
        matches!(self, Congestion::Timeout | Congestion::TimeoutAgain)
    }
}

/// A segment that has just left.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Stream offset of its first byte.
    pub seq: u64,
    /// Payload bytes.
    pub len: u32,
    /// It is a retransmission.
    pub retransmission: bool,
    /// `Flow::in_flight` was 0 before it left (Linux `CA_EVENT_TX_START`).
    pub tx_start: bool,
}

/// What a host is notified of, `notice` after it happened.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LinkEvent {
    /// The link went down.
    Down,
    /// The link came up.
    Up,
    /// The network layer above the link is configured: addresses are valid here, Mobile IP has registered them.
    Configured,
    /// Signal strength in dBm.
    Signal(f64),
    /// New rate.
    Rate(Rate),
    /// New one-way delay.
    Delay(Time),
    /// The signal that counts as coverage on this link: above `dbm`, and for coverage to begin, `hysteresis` dB more.
    Threshold {
        /// dBm.
        dbm: f64,
        /// dB.
        hysteresis: f64,
    },
}

/// What may be sent now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permit {
    /// Nothing, and the connection is frozen: the RTO neither fires nor backs off. The answer may turn to this and back
    /// only in [`CongestionControl::on_link`] and [`CongestionControl::on_timer`]. Before the handshake is over only link
    /// events are reported, to an algorithm created for this purpose: while it returns this, no SYN or INIT leaves.
    Hold,
    /// Up to `window` bytes in flight, paced at `rate` if given, else clocked by ACKs.
    Send {
        /// Bytes that may be in flight.
        window: u64,
        /// Pacing rate.
        rate: Option<Rate>,
    },
}

impl Permit {
    /// An ACK-clocked window.
    #[inline]
    pub const fn window(window: u64) -> Self {
        Permit::Send { window, rate: None }
    }
}

/// An algorithm's numbers for traces.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Vitals {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `u64::MAX` when unlimited or without meaning.
    pub ssthresh: u64,
    /// Pacing rate, if any.
    pub rate: Option<Rate>,
    /// The algorithm's name for its present phase.
    pub phase: &'static str,
}

/// What of an endpoint's events an algorithm uses: the endpoint does not prepare what nobody looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listens {
    /// [`CongestionControl::on_sent`] does something.
    pub sent: bool,
    /// [`Ack::rate`] is looked at; else it may be `None`.
    pub rate: bool,
    /// [`Ack::rate`] is a sample as ns-3 3.44 takes it (`TcpRateLinux`), which outlives its acknowledgement; not with
    /// `recovery = "rack"` and not in SCTP.
    pub kept_rate: bool,
    /// [`CongestionControl::timer`] may ask for a time.
    pub timer: bool,
    /// [`CongestionControl::rto_sample`] may answer with another sample than the endpoint's.
    pub rto_sample: bool,
}

impl Listens {
    /// Everything, with ordinary rate samples: always right.
    pub const ALL: Listens = Listens { sent: true, rate: true, kept_rate: false, timer: true, rto_sample: true };
    /// Acknowledgements and congestion, without delivery rates.
    pub const ACKS: Listens = Listens { sent: false, rate: false, kept_rate: false, timer: false, rto_sample: false };
}

/// A congestion control algorithm. No I/O, no clock, no simulator types.
pub trait CongestionControl: Debug + Send {
    /// An acknowledgement that was not stale arrived; called for every such ACK, in every state, duplicates
    /// included. Grow only if [`Ack::may_grow`].
    fn on_ack(&mut self, flow: &Flow, ack: &Ack);
    /// A loss episode begins: reduce. [`Flow::in_flight`] and [`Flow::outstanding`] are as they were when it was
    /// detected. After [`Congestion::Loss`], `vitals().ssthresh` is the target of recovery.
    fn on_congestion(&mut self, flow: &Flow, cause: Congestion);
    /// What may be sent now.
    fn permit(&self, flow: &Flow) -> Permit;
    /// Numbers for traces and for recovery (`ssthresh`).
    fn vitals(&self) -> Vitals;
    /// What it uses beyond acknowledgements and congestion; asked once, when the connection begins.
    fn listens(&self) -> Listens {
        Listens::ALL
    }
    /// A segment left.
    fn on_sent(&mut self, _flow: &Flow, _sent: &Sent) {}
    /// Recovery or loss ended; the state is Open again. Called before `on_ack` of the same acknowledgement.
    fn on_recovered(&mut self, _flow: &Flow) {}
    /// The window, which the endpoint lowers after idle times; `None` if the algorithm has no such window.
    fn window_mut(&mut self) -> Option<&mut Window> {
        None
    }
    /// The last episode was spurious: undo the reduction.
    fn on_undo(&mut self, _flow: &Flow) {}
    /// A link event reached this host.
    fn on_link(&mut self, _flow: &Flow, _event: &LinkEvent) {}
    /// Whether the endpoint also resets its RTT estimate and RTO when a [`Permit::Hold`] ends, because the path is
    /// another one. Back-off ends in any case.
    fn starts_anew(&self) -> bool {
        false
    }
    /// The time requested by [`CongestionControl::timer`] has come.
    fn on_timer(&mut self, _flow: &Flow) {}
    /// When `on_timer` is wanted.
    fn timer(&self) -> Option<Time> {
        None
    }
    /// The RTT sample for the RTO on an acknowledgement up to offset `ack`, before `on_ack` reports it: `measured`, the
    /// endpoint's sample, from which Karn's rule withholds retransmitted data, or one of the algorithm's own.
    fn rto_sample(&self, _flow: &Flow, _ack: u64, measured: Option<Time>) -> Option<Time> {
        measured
    }
}
