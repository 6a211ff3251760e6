//! Arguments of Python algorithms: copies of the Rust arguments. Sizes are in bytes, times in seconds.

use pyo3::prelude::*;
use roughlink_core::cc::{Ack, Congestion, CongestionState, Flow, LinkEvent, RateSample, Sent};
use roughlink_core::units::Time;

/// State of a connection at the time of a method call. Sizes are bytes of payload, times are seconds.
#[pyclass(frozen, name = "Flow", module = "roughlink")]
pub(crate) struct FlowView(Flow);

impl FlowView {
    pub(crate) fn new(flow: &Flow) -> Self {
        FlowView(flow.clone())
    }
}

/// Converts a time; `None` if it was not measured.
fn measured(time: Time) -> Option<f64> {
    (!time.is_zero() && !time.is_max()).then(|| time.as_secs_f64())
}

#[pymethods]
impl FlowView {
    /// Current time, s since the start of the scenario.
    #[getter]
    fn now(&self) -> f64 {
        self.0.now.as_secs_f64()
    }
    /// Payload of a full segment, bytes.
    #[getter]
    fn mss(&self) -> u32 {
        self.0.mss
    }
    /// State of loss recovery, with Linux's names: "open", "disorder", "recovery", "loss" or "cwr".
    #[getter]
    fn state(&self) -> &'static str {
        match self.0.state {
            CongestionState::Open => "open",
            CongestionState::Disorder => "disorder",
            CongestionState::Recovery => "recovery",
            CongestionState::Loss => "loss",
            CongestionState::Cwr => "cwr",
        }
    }
    /// Bytes believed to be in the network ("pipe" of RFC 6675).
    #[getter]
    fn in_flight(&self) -> u64 {
        self.0.in_flight
    }
    /// Bytes sent and not cumulatively acknowledged (FlightSize of RFC 5681).
    #[getter]
    fn outstanding(&self) -> u64 {
        self.0.outstanding
    }
    /// Bytes delivered so far: cumulatively or selectively acknowledged, each counted once.
    #[getter]
    fn delivered(&self) -> u64 {
        self.0.delivered
    }
    /// Offset of the first unacknowledged byte in the stream.
    #[getter]
    fn snd_una(&self) -> u64 {
        self.0.snd_una
    }
    /// Offset of the next new byte in the stream.
    #[getter]
    fn snd_nxt(&self) -> u64 {
        self.0.snd_nxt
    }
    /// Smoothed round-trip time (RFC 6298), s; None if not measured yet.
    #[getter]
    fn srtt(&self) -> Option<f64> {
        measured(self.0.srtt)
    }
    /// Last round-trip time sample, s; None if not measured yet.
    #[getter]
    fn latest_rtt(&self) -> Option<f64> {
        measured(self.0.latest_rtt)
    }
    /// Smallest round-trip time of the connection, s; None if not measured yet.
    #[getter]
    fn min_rtt(&self) -> Option<f64> {
        measured(self.0.min_rtt)
    }
    /// Retransmission timeout, s, including back-off.
    #[getter]
    fn rto(&self) -> f64 {
        self.0.rto.as_secs_f64()
    }
    /// Initial window, bytes.
    #[getter]
    fn initial_window(&self) -> u64 {
        self.0.initial_window
    }
    /// Initial slow-start threshold, bytes; UNLIMITED if not set.
    #[getter]
    fn initial_ssthresh(&self) -> u64 {
        self.0.initial_ssthresh
    }
    /// Window advertised by the peer, bytes.
    #[getter]
    fn send_window(&self) -> u64 {
        self.0.send_window
    }
    /// Bytes that recovery allows in flight while it is active; else None.
    #[getter]
    fn recovery_window(&self) -> Option<u64> {
        self.0.recovery_window
    }
    /// True if the sender has used its whole congestion window since the last acknowledgment.
    #[getter]
    fn cwnd_limited(&self) -> bool {
        self.0.cwnd_limited
    }
    /// True from when the application runs out of data until all data then in flight has been delivered.
    #[getter]
    fn app_limited(&self) -> bool {
        self.0.app_limited
    }
    /// Largest number of outstanding bytes during the last window of data.
    #[getter]
    fn max_outstanding(&self) -> u64 {
        self.0.max_outstanding
    }
    /// Returns `cwnd`, or the limit of recovery while it is active; bytes.
    fn window(&self, cwnd: u64) -> u64 {
        self.0.window(cwnd)
    }
    fn __repr__(&self) -> String {
        format!("<roughlink.Flow at {} s, {} B in flight>", self.now(), self.0.in_flight)
    }
}

/// An acknowledgment, after it was processed.
#[pyclass(frozen, name = "Ack", module = "roughlink")]
pub(crate) struct AckView(pub(crate) Ack);

#[pymethods]
impl AckView {
    /// Bytes newly acknowledged cumulatively.
    #[getter]
    fn acked(&self) -> u64 {
        self.0.acked
    }
    /// Bytes newly delivered: acknowledged cumulatively or selectively for the first time.
    #[getter]
    fn delivered(&self) -> u64 {
        self.0.delivered
    }
    /// Whole segments credited to window growth. For a duplicate: 0, or the segments that it newly acknowledges
    /// selectively.
    #[getter]
    fn segments(&self) -> u32 {
        self.0.segments
    }
    /// Round-trip time sample, s; None if there is no sample.
    #[getter]
    fn rtt(&self) -> Option<f64> {
        self.0.rtt.map(Time::as_secs_f64)
    }
    /// True if the window may grow: not in recovery, not limited by the application.
    #[getter]
    fn may_grow(&self) -> bool {
        self.0.may_grow
    }
    /// Flow.snd_una before this acknowledgment.
    #[getter]
    fn prior_una(&self) -> u64 {
        self.0.prior_una
    }
    /// Flow.in_flight before this acknowledgment, bytes.
    #[getter]
    fn prior_in_flight(&self) -> u64 {
        self.0.prior_in_flight
    }
    /// Delivery rate sample; None if nothing was delivered.
    #[getter]
    fn rate(&self) -> Option<RateView> {
        self.0.rate.map(RateView)
    }
    /// True if the acknowledgment carries ECE and ECN was negotiated: the network marked packets.
    #[getter]
    fn ecn_echo(&self) -> bool {
        self.0.ecn_echo
    }
}

/// A sample of the delivery rate (Linux's rate_sample).
#[pyclass(frozen, name = "RateSample", module = "roughlink")]
pub(crate) struct RateView(RateSample);

#[pymethods]
impl RateView {
    /// Bytes delivered over `interval`.
    #[getter]
    fn delivered(&self) -> u64 {
        self.0.delivered
    }
    /// Flow.delivered when the acknowledged segment was sent.
    #[getter]
    fn prior_delivered(&self) -> u64 {
        self.0.prior_delivered
    }
    /// The longer of the send and the acknowledgment interval, s.
    #[getter]
    fn interval(&self) -> f64 {
        self.0.interval.as_secs_f64()
    }
    /// Round-trip time of the segment, s; None if the segment was retransmitted.
    #[getter]
    fn rtt(&self) -> Option<f64> {
        measured(self.0.rtt)
    }
    /// Time at which the segment was sent last, s.
    #[getter]
    fn sent_at(&self) -> f64 {
        self.0.sent_at.as_secs_f64()
    }
    /// Bytes detected as lost since the previous sample.
    #[getter]
    fn losses(&self) -> u64 {
        self.0.losses
    }
    /// Bytes that this acknowledgment delivered.
    #[getter]
    fn acked_sacked(&self) -> u64 {
        self.0.acked_sacked
    }
    /// Flow.in_flight before this acknowledgment, bytes.
    #[getter]
    fn prior_in_flight(&self) -> u64 {
        self.0.prior_in_flight
    }
    /// Flow.app_limited when the segment was sent.
    #[getter]
    fn app_limited(&self) -> bool {
        self.0.app_limited
    }
    /// True if the segment was retransmitted.
    #[getter]
    fn retransmitted(&self) -> bool {
        self.0.retransmitted
    }
}

/// A segment that has just been sent.
#[pyclass(frozen, name = "Sent", module = "roughlink")]
pub(crate) struct SentView(pub(crate) Sent);

#[pymethods]
impl SentView {
    /// Stream offset of the first byte.
    #[getter]
    fn seq(&self) -> u64 {
        self.0.seq
    }
    /// Payload, bytes.
    #[getter]
    fn len(&self) -> u32 {
        self.0.len
    }
    /// True for a retransmission.
    #[getter]
    fn retransmission(&self) -> bool {
        self.0.retransmission
    }
    /// True if nothing was in flight before.
    #[getter]
    fn tx_start(&self) -> bool {
        self.0.tx_start
    }
}

/// An event of a link on the flow's path, as reported to the host.
#[pyclass(frozen, name = "LinkEvent", module = "roughlink")]
pub(crate) struct LinkEventView(pub(crate) LinkEvent);

#[pymethods]
impl LinkEventView {
    /// "down", "up", "configured", "signal", "rate", "delay" or "threshold".
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0 {
            LinkEvent::Down => "down",
            LinkEvent::Up => "up",
            LinkEvent::Configured => "configured",
            LinkEvent::Signal(_) => "signal",
            LinkEvent::Rate(_) => "rate",
            LinkEvent::Delay(_) => "delay",
            LinkEvent::Threshold { .. } => "threshold",
            _ => "other",
        }
    }
    /// Value in dBm for "signal" and "threshold", bit/s for "rate", s (one way) for "delay"; else None.
    #[getter]
    fn value(&self) -> Option<f64> {
        match self.0 {
            LinkEvent::Signal(dbm) | LinkEvent::Threshold { dbm, .. } => Some(dbm),
            LinkEvent::Rate(rate) => Some(rate.0 as f64),
            LinkEvent::Delay(delay) => Some(delay.as_secs_f64()),
            _ => None,
        }
    }
    /// For "threshold": coverage ends at `value` and begins this many dB above it; else None.
    #[getter]
    fn hysteresis(&self) -> Option<f64> {
        match self.0 {
            LinkEvent::Threshold { hysteresis, .. } => Some(hysteresis),
            _ => None,
        }
    }
}

/// Reason why the window must shrink. An episode is reported once, apart from repeated timeouts (TIMEOUT_AGAIN).
#[pyclass(frozen, eq, hash, name = "Congestion", module = "roughlink", rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CongestionCause {
    /// Fast retransmit.
    Loss,
    /// Retransmission timeout.
    Timeout,
    /// Another timeout in the same episode. Keep ssthresh and reduce the window to one segment.
    TimeoutAgain,
    /// ECN-Echo.
    Ecn,
}

impl From<Congestion> for CongestionCause {
    fn from(cause: Congestion) -> Self {
        match cause {
            Congestion::Timeout => CongestionCause::Timeout,
            Congestion::TimeoutAgain => CongestionCause::TimeoutAgain,
            Congestion::Ecn => CongestionCause::Ecn,
            _ => CongestionCause::Loss,
        }
    }
}

#[pymethods]
impl CongestionCause {
    /// True for a retransmission timeout, whether the first of its episode or not.
    #[getter]
    fn is_timeout(&self) -> bool {
        matches!(self, CongestionCause::Timeout | CongestionCause::TimeoutAgain)
    }
}
