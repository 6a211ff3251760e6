//! Congestion control: the trait of all algorithms, and their registry.
//!
//! An algorithm is notified of events (`on_*`) and returns a [`Permit`]: a window, a window with a pacing rate, or
//! [`Permit::Hold`]. Each call computes it from the current state of the connection. The endpoint detects losses and
//! paces retransmissions during recovery (`tcp::recovery`). An algorithm that leaves the window to recovery returns
//! [`Flow::window`]; BBR, Copa, Wave and `rough` return their own window even then.
//!
//! To add an algorithm, write one file `cc/<name>.rs` with its parameters, its arithmetic and its tests, and add its
//! module and an entry of [`REGISTRY`] here. All windows are bytes of payload; [`Flow::mss`] is the payload of a full
//! segment.
//!
//! NewReno halves its window on a loss (RFC 5681 equation 4):
//!
//! ```
//! use roughlink_core::cc::{Congestion, Flow, Permit, build};
//!
//! let flow = Flow::new(1000, 10_000);
//! let mut newreno = build("newreno", "linux", "", &flow)?;
//! assert_eq!(newreno.permit(&flow), Permit::window(10_000));
//!
//! newreno.on_congestion(&flow, Congestion::Loss);
//! assert_eq!(newreno.trace().ssthresh, 5_000);
//! assert_eq!(newreno.permit(&flow), Permit::window(5_000));
//! # Ok::<(), roughlink_core::cc::AlgorithmError>(())
//! ```

use crate::registry::Registry;
use crate::units::{Rate, Time};
use std::fmt::Debug;

pub mod avoca;
pub mod bbr;
pub mod bbr3;
pub mod bic;
pub mod copa;
pub mod coverage;
pub mod cubic;
pub mod dctcp;
pub mod highspeed;
pub mod htcp;
pub mod hybla;
pub mod hystart;
pub mod illinois;
pub mod newreno;
pub mod rough;
pub mod samples;
pub mod scalable;
pub mod sctp;
pub mod vegas;
pub mod veno;
pub mod wave;
pub mod westwood;
pub mod window;
pub mod yeah;

mod entry;
mod history;
mod max_filter;
pub use entry::{Algorithm, AlgorithmError, BuildAlgorithm, Factory};
pub use history::LinkHistory;

/// All algorithms. To add one to roughlink, add its module and a line here. To add one in your own program, call
/// [`Registry::add`].
///
/// ```
/// use roughlink_core::cc::REGISTRY;
///
/// let names: Vec<_> = REGISTRY.iter().map(|algorithm| algorithm.name).collect();
/// assert!(names.contains(&"bbr") && names.contains(&"illinois"));
/// assert_eq!(REGISTRY.find("cubic").unwrap().source, "RFC 9438, RFC 9406");
/// assert!(REGISTRY.find("cubik").is_none());
/// ```
pub static REGISTRY: Registry<Algorithm> = Registry::new(&[
    Algorithm::new::<newreno::NewReno>("newreno", "adds 1 segment per RTT, halves at a loss", "RFC 5681, RFC 6582")
        .preset("ns3", newreno::NS3)
        .preset("ns2", newreno::NS2)
        .preset("rfc", newreno::RFC),
    Algorithm::new::<newreno::NewReno>(
        "newreno-sc",
        "NewReno, ssthresh at least 10 segments",
        "V2G paper, Algorithm 1",
    )
    .defaults("min_ssthresh = 10")
    .preset("ns3", newreno::NS3)
    .preset("ns2", newreno::NS2)
    .preset("rfc", newreno::RFC),
    Algorithm::new::<newreno::NewReno>("reno", "adds 1 segment per RTT, halves like Linux", "Linux tcp_reno; RFC 5681")
        .preset("ns3", newreno::NS3_RENO)
        .preset("ns2", newreno::NS2)
        .preset("rfc", newreno::RFC),
    Algorithm::new::<newreno::NewReno>("tahoe", "adds 1 segment per RTT, losses restart slow start", "Jacobson 1988")
        .defaults("restart = true")
        .tcp("recovery = \"tahoe\"\ndsack = false")
        .preset("ns3", newreno::PER_ACK)
        .preset("ns2", newreno::PER_ACK)
        .preset("rfc", newreno::RFC_GROWTH),
    Algorithm::new::<newreno::NewReno>("newreno-nd", "NewReno without delayed ACKs", "V2G paper, section 5")
        .tcp("delayed_ack = 1")
        .preset("ns3", newreno::NS3)
        .preset("ns2", newreno::NS2)
        .preset("rfc", newreno::RFC),
    Algorithm::new::<hybla::Hybla>("hybla", "window growth independent of the RTT", "Caini and Firrincieli 2004")
        .preset("ns3", hybla::NS3),
    Algorithm::new::<highspeed::HighSpeed>("highspeed", "AIMD whose factors follow the window", "RFC 3649")
        .preset("ns3", highspeed::NS3),
    Algorithm::new::<htcp::Htcp>("htcp", "increase that grows with time, adaptive decrease", "Shorten and Leith 2004")
        .preset("ns3", htcp::NS3),
    Algorithm::new::<scalable::Scalable>("scalable", "adds 1 % of ACKed data, removes 1/8 at a loss", "Kelly 2003")
        .preset("ns3", scalable::NS3),
    Algorithm::new::<bic::Bic>("bic", "binary search for the last maximum", "Xu, Harfoush, Rhee 2004")
        .preset("ns3", bic::NS3),
    Algorithm::new::<cubic::Cubic>(
        "cubic",
        "window as a cubic function of the time since a loss",
        "RFC 9438, RFC 9406",
    )
    .preset("ns3", cubic::NS3)
    .preset("rfc", cubic::RFC),
    Algorithm::new::<dctcp::Dctcp>("dctcp", "reduces the window by the share of marked bytes", "RFC 8257")
        .tcp(dctcp::TCP)
        .preset("ns3", dctcp::NS3)
        .preset("ns2", dctcp::RFC)
        .preset("rfc", dctcp::RFC),
    Algorithm::new::<yeah::Yeah>("yeah", "Scalable while the queue is short, else Reno", "Baiocchi et al. 2007")
        .preset("ns3", yeah::NS3),
    Algorithm::new::<vegas::Vegas>("vegas", "window follows the backlog in the network", "Brakmo et al. 1994")
        .preset("ns3", vegas::NS3)
        .preset("ns2", vegas::PER_ACK)
        .preset("rfc", newreno::RFC_GROWTH),
    Algorithm::new::<copa::Copa>(
        "copa",
        "window follows a target rate that falls with the queueing delay",
        "Arun, Balakrishnan 2018",
    ),
    Algorithm::new::<veno::Veno>("veno", "NewReno with a smaller decrease at a small backlog", "Fu, Liew 2003")
        .preset("ns3", veno::NS3)
        .preset("ns2", newreno::NS2)
        .preset("rfc", newreno::RFC),
    Algorithm::new::<illinois::Illinois>("illinois", "AIMD whose factors follow the queueing delay", "Liu et al. 2008")
        .preset("ns3", illinois::NS3)
        .preset("ns2", newreno::NS2)
        .preset("rfc", newreno::RFC),
    Algorithm::new::<illinois::Illinois>("illinois-aa", "Illinois with added aggressiveness", "V2G paper, figure 10")
        .defaults(illinois::ADDED_AGGRESSIVENESS)
        .preset("ns3", illinois::NS3)
        .preset("ns2", newreno::NS2)
        .preset("rfc", newreno::RFC),
    Algorithm::new::<westwood::Westwood>(
        "westwood",
        "Westwood+: bandwidth per RTT sets the window after a loss",
        "Grieco, Mascolo 2004",
    )
    .preset("ns3", westwood::NS3)
    .preset("ns2", westwood::PAPER)
    .preset("rfc", westwood::RFC),
    Algorithm::new::<westwood::Westwood>(
        "westwood-classic",
        "Westwood: bandwidth per ACK sets the window after a loss",
        "Mascolo et al. 2001",
    )
    .defaults(westwood::CLASSIC)
    .preset("ns3", westwood::CLASSIC_NS3)
    .preset("ns2", westwood::PER_ACK)
    .preset("rfc", newreno::RFC_GROWTH),
    Algorithm::new::<bbr::Bbr>("bbr", "BBR version 1: paced by a model of the path", "Cardwell et al. 2016")
        .preset("ns3", bbr::NS3),
    Algorithm::new::<bbr3::Bbr3>("bbr3", "BBR version 3: a model of the path that losses bound", "draft-ietf-ccwg-bbr"),
    Algorithm::new::<wave::Wave>("wave", "timed bursts at an interval derived from ACK trains", "Wave paper")
        .tcp(wave::TCP),
    Algorithm::new::<wave::Wave>(
        "wave-fr",
        "Wave that retransmits every hole within its bursts",
        "Wave paper, with our own extension",
    )
    .defaults(wave::FR)
    .tcp(wave::FR_TCP),
    Algorithm::new::<sctp::SctpAlgorithm>("sctp", "SCTP's own: AIMD in bytes, up to a packet per SACK", "RFC 9260"),
    Algorithm::new::<rough::Rough>("rough", "queueing delay as target, random loss ignored", "our own")
        .tcp("max_rto = \"1 s\"\ndata_retries = 255"),
    Algorithm::new::<avoca::Avoca>("avoca", "another algorithm, paused outside coverage", "AVOCA paper, section IV")
        .preset("ns3", avoca::NS3)
        .preset("ns2", avoca::NS2)
        .preset("rfc", avoca::RFC),
]);

/// Returns the registry's entry for `name`.
pub fn algorithm(name: &str) -> Result<&'static Algorithm, AlgorithmError> {
    REGISTRY.find(name).ok_or_else(|| AlgorithmError::UnknownAlgorithm(name.to_owned()))
}

/// Returns a factory of the default algorithm of TCP, CUBIC, with its parameters under `linux`.
///
/// ```
/// use roughlink_core::cc::{Flow, Permit, default_factory};
///
/// let flow = Flow::new(1448, 14_480);
/// assert_eq!(default_factory()(&flow).permit(&flow), Permit::window(14_480));
/// ```
pub fn default_factory() -> Factory {
    algorithm(DEFAULT).expect("a built-in algorithm").default_factory(STACKS[0])
}

/// Creates the algorithm `name` with `params` under `stack`, for one connection; for tests.
///
/// ```
/// use roughlink_core::cc::{Flow, build};
///
/// let error = build("newreno", "linux", "min_sthresh = 3", &Flow::default()).unwrap_err();
/// assert_eq!(error.to_string(), "unknown parameter `min_sthresh` of `newreno`");
/// assert!(build("newreno", "linux", "min_ssthresh = 3", &Flow::default()).is_ok());
/// ```
pub fn build(name: &str, stack: &str, params: &str, flow: &Flow) -> Result<Box<dyn CongestionControl>, AlgorithmError> {
    let entry = algorithm(name)?;
    let params = params.parse().map_err(|e: toml::de::Error| AlgorithmError::Parameter {
        algorithm: entry.name,
        reason: e.message().to_owned(),
    })?;
    Ok(entry.factory(stack, &params)?(flow))
}

/// Names of the TCP stacks, in the order of [`Stack`](crate::tcp::Stack). A preset of an
/// algorithm for a simulator applies to all releases of the simulator.
pub const STACKS: [&str; 6] = ["linux", "ns3", "ns3-3.27", "ns3-3.29", "ns2", "rfc"];

/// Name of the default algorithm of TCP.
pub const DEFAULT: &str = "cubic";

/// The state of loss recovery, with Linux's names (`tcp_ca_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CongestionState {
    /// No sign of congestion.
    #[default]
    Open,
    /// Duplicate ACKs or SACKs have arrived, no loss declared.
    Disorder,
    /// Fast recovery.
    Recovery,
    /// From a retransmission time-out until all data outstanding at that time is acknowledged.
    Loss,
    /// From the first reported mark (RFC 3168) until data sent after it is acknowledged; with `rack` only.
    Cwr,
}

impl CongestionState {
    /// Returns true while the window falls step by step (RFC 6937).
    #[inline]
    pub const fn is_reducing(self) -> bool {
        matches!(self, CongestionState::Recovery | CongestionState::Cwr)
    }
}

/// The state of the connection, read-only for algorithms. An `srtt` or `latest_rtt` of zero means "not yet measured".
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Flow {
    /// Current time.
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
    /// Latest RTT sample.
    pub latest_rtt: Time,
    /// Smallest RTT of the connection; [`Time::MAX`] before the first sample.
    pub min_rtt: Time,
    /// Retransmission time-out, back-off included.
    pub rto: Time,
    /// Initial window in bytes.
    pub initial_window: u64,
    /// Initial slow-start threshold in bytes (`u64::MAX` = unlimited).
    pub initial_ssthresh: u64,
    /// Window that the peer advertises, bytes.
    pub send_window: u64,
    /// Limit of data in flight while recovery controls it (PRR, NewReno inflation), otherwise `None`.
    pub recovery_window: Option<u64>,
    /// Set if the sender has used its whole congestion window since the last ACK (Linux `tcp_is_cwnd_limited`).
    pub cwnd_limited: bool,
    /// Set if the peer reports data received out of order (SACK).
    pub sack: bool,
    /// Set when the application runs out of data, until all data then in flight is delivered (Linux `tp->app_limited`).
    pub app_limited: bool,
    /// Earliest departure that pacing allows (Linux `tcp_wstamp_ns`); zero without `internal_pacing`.
    pub next_departure: Time,
    /// Maximum number of outstanding bytes in the last window of data (Linux `max_packets_out`, there in packets).
    pub max_outstanding: u64,
}

impl Flow {
    /// Creates the state at the start of a connection with segments of `mss` bytes and an initial window of
    /// `initial_window` bytes, without a slow-start threshold and RTT samples. The other fields are zero.
    pub fn new(mss: u32, initial_window: u64) -> Self {
        Flow { mss, initial_window, initial_ssthresh: u64::MAX, min_rtt: Time::MAX, ..Flow::default() }
    }
    pub(crate) fn forget_rtt(&mut self) {
        (self.srtt, self.latest_rtt, self.min_rtt) = (Time::ZERO, Time::ZERO, Time::MAX);
    }
    /// Returns the window of an algorithm that lets recovery control retransmissions: `cwnd`, or recovery's limit.
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
    /// Send time of the segment, of the last copy if it was retransmitted.
    pub sent_at: Time,
    /// Bytes that this ACK showed to be lost.
    pub losses: u64,
    /// Bytes newly acknowledged or SACKed by this ACK.
    pub acked_sacked: u64,
    /// `in_flight` before this ACK.
    pub prior_in_flight: u64,
    /// Bytes in flight when the segment left, itself included.
    pub tx_in_flight: u64,
    /// Bytes marked lost since the segment left.
    pub lost: u64,
    /// Set if the sender had no more data when the segment left.
    pub app_limited: bool,
    /// Set if the segment had been retransmitted.
    pub retransmitted: bool,
}

/// An acknowledgment, after the scoreboard was updated.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Ack {
    /// Bytes newly acknowledged cumulatively.
    pub acked: u64,
    /// Bytes newly delivered: cumulatively acknowledged or SACKed for the first time.
    pub delivered: u64,
    /// Whole segments that this ACK credits to window growth (ns-3 `segmentsAcked`, Linux `acked`). For a duplicate
    /// ACK, 0 or the newly SACKed segments.
    pub segments: u32,
    /// RTT sample of this ACK, if any. Under `ns3` this is the argument of `PktsAcked`.
    pub rtt: Option<Time>,
    /// Set if the window may grow on this ACK: not in recovery, not application-limited. On `linux` this includes
    /// duplicate ACKs after the network has reordered by more than three segments (`tcp_may_raise_cwnd`).
    pub may_grow: bool,
    /// `Flow::snd_una` before this ACK.
    pub prior_una: u64,
    /// `Flow::in_flight` before this ACK.
    pub prior_in_flight: u64,
    /// Delivery-rate sample, if the ACK delivered anything.
    pub rate: Option<RateSample>,
    /// Set if the ACK carries ECE and ECN was negotiated. With RFC 3168 some earlier data was marked, with RFC 8257
    /// exactly the data that this ACK delivers.
    pub ecn_echo: bool,
}

impl Ack {
    /// Creates an acknowledgment of `acked` bytes cumulatively, with `delivered` bytes newly delivered in `segments`
    /// whole segments. The other fields are zero, `None` and false.
    pub fn new(acked: u64, delivered: u64, segments: u32) -> Self {
        Ack { acked, delivered, segments, ..Ack::default() }
    }
}

/// Cause of a window reduction. Reported once per episode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
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
    /// Returns true for a retransmission time-out, the first of its episode or a later one.
    #[inline]
    pub const fn is_timeout(self) -> bool {
        matches!(self, Congestion::Timeout | Congestion::TimeoutAgain)
    }
}

/// A segment that has just left.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Stream offset of the segment's first byte.
    pub seq: u64,
    /// Payload bytes.
    pub len: u32,
    /// Set for a retransmission.
    pub retransmission: bool,
    /// Set if `Flow::in_flight` was 0 before the segment left (Linux `CA_EVENT_TX_START`).
    pub tx_start: bool,
}

/// A segment that has just been marked lost, again if the lost copy was a retransmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostSegment {
    /// Stream offset of the segment's first byte.
    pub seq: u64,
    /// Payload bytes.
    pub len: u32,
    /// `Flow::delivered` when the segment left.
    pub delivered: u64,
    /// Bytes in flight when the segment left, itself included.
    pub tx_in_flight: u64,
    /// Bytes marked lost since the segment left, itself included.
    pub lost: u64,
    /// Set if the sender had no more data when the segment left.
    pub app_limited: bool,
}

/// Event of a link, as notified to a host. The scenario's `notice` delays the notification.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum LinkEvent {
    /// The link went down.
    Down,
    /// The link came up.
    Up,
    /// The network layer above the link is configured: addresses are valid here, and Mobile IP has registered them.
    Configured,
    /// Signal strength in dBm.
    Signal(f64),
    /// New rate.
    Rate(Rate),
    /// New one-way delay.
    Delay(Time),
    /// Signal level of coverage on this link: coverage ends at or below `dbm`, and begins `hysteresis` dB above it.
    Threshold {
        /// Signal level at which coverage ends, dBm.
        dbm: f64,
        /// Margin at which coverage begins, dB.
        hysteresis: f64,
    },
}

/// Permission to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
#[non_exhaustive]
pub enum Permit {
    /// Nothing may leave, and the connection is frozen: the RTO neither fires nor backs off. The permit may change to
    /// or from `Hold` only in [`CongestionControl::on_link`] and [`CongestionControl::on_timer`]. Until the handshake
    /// completes, a temporary instance receives only link events; while it returns `Hold`, no SYN or INIT leaves.
    Hold,
    /// Up to `window` bytes in flight, paced at `rate` if given, otherwise clocked by ACKs.
    Send {
        /// Bytes that may be in flight.
        window: u64,
        /// Pacing rate.
        rate: Option<Rate>,
    },
}

impl Permit {
    /// Creates an ACK-clocked window.
    #[inline]
    pub const fn window(window: u64) -> Self {
        Permit::Send { window, rate: None }
    }
}

/// State of an algorithm for traces.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AlgorithmTrace {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `u64::MAX` when unlimited or without meaning.
    pub ssthresh: u64,
    /// Pacing rate, if any.
    pub rate: Option<Rate>,
    /// The algorithm's name for its current phase.
    pub phase: &'static str,
}

/// Optional events that an algorithm needs; the endpoint skips the others. Begin with [`OptionalEvents::ALL`] or
/// [`OptionalEvents::ACKS`], and change fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OptionalEvents {
    /// Set if [`CongestionControl::on_sent`] has an effect.
    pub sent: bool,
    /// Set if [`CongestionControl::on_lost`] has an effect.
    pub lost: bool,
    /// Set if the algorithm uses [`Ack::rate`]; otherwise it may be `None`.
    pub rate: bool,
    /// Set if [`Ack::rate`] must be computed as in ns-3 3.44 (`TcpRateLinux`), where every ACK has a sample that may
    /// reuse the interval of an earlier ACK. No effect with `recovery = "rack"` and in SCTP.
    pub kept_rate: bool,
    /// Set if [`CongestionControl::timer`] may return a time.
    pub timer: bool,
    /// Set if [`CongestionControl::rto_sample`] may return another sample than the endpoint's.
    pub rto_sample: bool,
}

impl OptionalEvents {
    /// All events, with ordinary rate samples; suits every algorithm that does not need `kept_rate`.
    pub const ALL: OptionalEvents =
        OptionalEvents { sent: true, lost: true, rate: true, kept_rate: false, timer: true, rto_sample: true };
    /// Acknowledgments and congestion, without delivery rates.
    pub const ACKS: OptionalEvents =
        OptionalEvents { sent: false, lost: false, rate: false, kept_rate: false, timer: false, rto_sample: false };
}

/// A congestion control algorithm. No I/O, no clock, no simulator types.
pub trait CongestionControl: Debug + Send {
    /// Handles an acknowledgment that is not stale, even a duplicate, in every state. Grow only if [`Ack::may_grow`].
    fn on_ack(&mut self, flow: &Flow, ack: &Ack);
    /// Reduces the window at the start of a loss episode. [`Flow::in_flight`] and [`Flow::outstanding`] are the values
    /// at its detection. After [`Congestion::Loss`], `trace().ssthresh` is the target of recovery.
    fn on_congestion(&mut self, flow: &Flow, cause: Congestion);
    /// Handles a loss in a round in which an ECN mark has already reduced the window. While the window is still
    /// falling, [`Flow::window`] returns its current limit.
    fn on_loss_after_mark(&mut self, _flow: &Flow) {}
    /// Returns the current permission to send.
    fn permit(&self, flow: &Flow) -> Permit;
    /// Returns the numbers for traces and for recovery (`ssthresh`).
    fn trace(&self) -> AlgorithmTrace;
    /// Returns the events needed beyond acknowledgments and congestion; called once, when the connection begins.
    fn optional_events(&self) -> OptionalEvents {
        OptionalEvents::ALL
    }
    /// Handles a segment that left.
    fn on_sent(&mut self, _flow: &Flow, _sent: &Sent) {}
    /// Handles a segment that was marked lost. Called before `on_ack` of the acknowledgment that showed the loss, and
    /// before `on_congestion` of a time-out. `on_congestion` of a fast recovery may come before or after it.
    fn on_lost(&mut self, _flow: &Flow, _lost: &LostSegment) {}
    /// Handles the end of recovery or loss; the state is Open again. Called before `on_ack` of the same acknowledgment.
    fn on_recovered(&mut self, _flow: &Flow) {}
    /// Lowers window and ssthresh to these bytes after the application left the window unused. Algorithms with a model
    /// of the path ignore the call, since a pause does not change the path (Linux: `cong_control`).
    fn lower_window(&mut self, _flow: &Flow, _cwnd: u64, _ssthresh: u64) {}
    /// Undoes the reduction of the last episode, which was spurious.
    fn on_undo(&mut self, _flow: &Flow) {}
    /// Handles a link event at this host.
    fn on_link(&mut self, _flow: &Flow, _event: &LinkEvent) {}
    /// Returns true if the path has changed, so that the endpoint must also reset its RTT estimate and RTO at the end
    /// of a [`Permit::Hold`]. Back-off ends in any case.
    fn starts_anew(&self) -> bool {
        false
    }
    /// Handles the time requested by [`CongestionControl::timer`].
    fn on_timer(&mut self, _flow: &Flow) {}
    /// Returns the minimum number of segments in a full burst, for stacks that send bursts (Linux `min_tso_segs`).
    fn least_burst(&self) -> u32 {
        2
    }
    /// Returns true if segments leave on acknowledgments, not by a timer. A sender whose window has no room for a burst
    /// may then wait for the next acknowledgment (Linux `tcp_tso_should_defer`).
    fn is_ack_clocked(&self) -> bool {
        true
    }
    /// Returns when to call `on_timer`.
    fn timer(&self) -> Option<Time> {
        None
    }
    /// Returns the RTT sample that updates the RTO when data up to offset `ack` is acknowledged; called before
    /// `on_ack`. The default is `measured`, the endpoint's sample, which excludes retransmitted data (Karn's rule).
    fn rto_sample(&self, _flow: &Flow, _ack: u64, measured: Option<Time>) -> Option<Time> {
        measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_builds_under_every_stack() {
        let flow = Flow { mss: 1460, initial_window: 14_600, initial_ssthresh: u64::MAX, ..Flow::default() };
        for entry in REGISTRY.iter() {
            for stack in ["linux", "ns3", "ns2", "rfc"] {
                let cc =
                    entry.factory(stack, &toml::Table::new()).unwrap_or_else(|e| panic!("{}: {e}", entry.name))(&flow);
                assert!(!cc.trace().phase.is_empty());
            }
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = REGISTRY.iter().map(|a| a.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), REGISTRY.iter().count());
    }

    #[test]
    fn unknown_parameters_are_refused() {
        let flow = Flow::default();
        let e = build("newreno", "linux", "min_sthresh = 3", &flow).unwrap_err();
        assert!(matches!(e, AlgorithmError::UnknownParameter { ref key, .. } if key == "min_sthresh"), "{e}");
    }
}
