//! Arithmetic shared by the window algorithms: slow start, additive increase, reduction, undo.

use super::{Congestion, CongestionState, Flow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Congestion window with its slow-start threshold and the state for undoing a reduction.
///
/// ```
/// use roughlink_core::cc::Flow;
/// use roughlink_core::cc::window::Window;
///
/// let mut flow = Flow::new(1000, 10_000);
/// flow.initial_ssthresh = 11_500;
/// let mut window = Window::new(&flow);
/// assert_eq!(window.slow_start(1000), 0);
/// assert_eq!(window.slow_start(1000), 500); // bytes left for congestion avoidance
/// assert_eq!((window.cwnd, window.in_slow_start()), (11_500, false));
/// ```
#[derive(Clone, Debug)]
pub struct Window {
    /// Congestion window.
    pub cwnd: u64,
    /// Slow-start threshold; `u64::MAX` = unlimited.
    pub ssthresh: u64,
    /// Maximum number of bytes that one ACK adds in slow start.
    slow_start_limit: u64,
    prior_cwnd: u64,
    prior_ssthresh: u64,
}

impl Window {
    /// Creates the window at the start of a connection.
    pub fn new(flow: &Flow) -> Self {
        Window {
            cwnd: flow.initial_window,
            ssthresh: flow.initial_ssthresh,
            slow_start_limit: u64::MAX,
            prior_cwnd: 0,
            prior_ssthresh: u64::MAX,
        }
    }

    /// Creates the window at the start of a connection. One ACK adds at most `segments` in slow start: L of RFC 3465, 1
    /// in RFC 5681 section 3.1; 0 = all acknowledged segments (Linux).
    pub fn with_slow_start_limit(flow: &Flow, segments: u64) -> Self {
        let slow_start_limit = if segments == 0 { u64::MAX } else { segments.saturating_mul(u64::from(flow.mss)) };
        Window { slow_start_limit, ..Window::new(flow) }
    }

    /// Returns true if slow start governs growth (RFC 5681 section 3.1).
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows by `acked` bytes, up to ssthresh; returns those left for congestion avoidance (Linux `tcp_slow_start`).
    #[inline]
    pub fn slow_start(&mut self, acked: u64) -> u64 {
        let acked = acked.min(self.slow_start_limit);
        let cwnd = (self.cwnd + acked).min(self.ssthresh);
        let used = cwnd - self.cwnd;
        self.cwnd = cwnd;
        acked - used
    }

    /// Grows by `mss * acked / cwnd` bytes: a segment per acknowledged window (RFC 5681 equation 3, counting bytes).
    #[inline]
    pub fn additive_increase(&mut self, mss: u32, acked: u64) {
        self.cwnd += (u64::from(mss) * acked / self.cwnd.max(1)).max(u64::from(acked > 0));
    }

    /// Grows like Linux's `tcp_reno_cong_avoid`: slow start, then the rest of `segments` in congestion avoidance.
    #[inline]
    pub fn reno(&mut self, counter: &mut AdditiveCounter, mss: u32, segments: u32) {
        let mut left = u64::from(segments);
        if self.in_slow_start() {
            left = self.slow_start(left * u64::from(mss)) / u64::from(mss);
        }
        if left > 0 {
            let w = self.segments(mss);
            counter.advance(&mut self.cwnd, mss, w, left);
        }
    }

    /// Grows per ACK like ns-3's TcpNewReno. Slow start adds a segment per ACK; beyond ssthresh, an ACK adds
    /// `mss^2 / cwnd` bytes, truncated, at least one. An ACK that ends slow start with segments to spare does both.
    pub fn grow_per_ack(&mut self, mss: u32, segments: u32) {
        let segments = if self.in_slow_start() { self.slow_start_per_ack(mss, segments) } else { segments };
        if !self.in_slow_start() && segments > 0 {
            self.cwnd += (u64::from(mss) * u64::from(mss) / self.cwnd).max(1);
        }
    }

    /// Runs slow start like ns-3's TcpNewReno and the algorithms derived from it: one segment per ACK, also beyond
    /// ssthresh. Returns the segments that this ACK has left for congestion avoidance.
    pub fn slow_start_per_ack(&mut self, mss: u32, segments: u32) -> u32 {
        if segments == 0 {
            return 0;
        }
        self.cwnd += u64::from(mss);
        segments - 1
    }

    /// Sets ssthresh and reduces the window to it, or to one segment on a time-out (RFC 5681 section 3.1). Keeps the
    /// values before the episode for [`Window::undo`], like Linux. A time-out begins a new episode.
    pub fn reduce(&mut self, flow: &Flow, cause: Congestion, ssthresh: u64) {
        if cause == Congestion::TimeoutAgain {
            self.cwnd = u64::from(flow.mss);
            return;
        }
        if matches!(flow.state, CongestionState::Open | CongestionState::Disorder) || cause == Congestion::Timeout {
            self.prior_cwnd = self.cwnd;
            self.prior_ssthresh = self.ssthresh;
        }
        self.ssthresh = ssthresh;
        self.cwnd = match cause {
            Congestion::Timeout | Congestion::TimeoutAgain => u64::from(flow.mss),
            Congestion::Loss | Congestion::Ecn => ssthresh,
        };
    }

    /// Lowers the window because the application did not use it.
    pub fn lower(&mut self, cwnd: u64, ssthresh: u64) {
        (self.cwnd, self.ssthresh) = (cwnd, ssthresh);
    }

    /// Undoes the last reduction (Linux `tcp_undo_cwnd_reduction`).
    pub fn undo(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.ssthresh = self.ssthresh.max(self.prior_ssthresh);
    }

    /// Returns the window in whole segments, at least 1.
    #[inline]
    pub fn segments(&self, mss: u32) -> u64 {
        (self.cwnd / u64::from(mss)).max(1)
    }
}

/// Linux's `tcp_cong_avoid_ai` in bytes: adds `mss` to the window for every `w` segments acknowledged.
#[derive(Clone, Debug, Default)]
pub struct AdditiveCounter {
    /// Segments acknowledged since the last increase (Linux `snd_cwnd_cnt`).
    pub count: u64,
}

impl AdditiveCounter {
    /// Counts `segments` newly acknowledged segments; the window grows by one segment for every `w`.
    #[inline]
    pub fn advance(&mut self, cwnd: &mut u64, mss: u32, w: u64, segments: u64) {
        let w = w.max(1);
        if self.count >= w {
            self.count = 0;
            *cwnd += u64::from(mss);
        }
        self.count += segments;
        if self.count >= w {
            let k = self.count / w;
            self.count -= k * w;
            *cwnd += k * u64::from(mss);
        }
    }
}

/// Quantity that a reduction halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Halve {
    /// Congestion window (Linux): whole segments if growth counts segments (`abc`), otherwise bytes.
    Cwnd,
    /// Bytes in flight, without SACKed and lost ones (ns-3).
    Flight,
    /// Bytes sent and not acknowledged, without those that limited transmit sent beyond the window: FlightSize (RFC
    /// 5681 section 3.2).
    Outstanding,
    /// All bytes sent and not acknowledged, also if fast retransmits have reduced the window below them (ns-3.23).
    Unacknowledged,
}

/// Implementation that an algorithm follows where implementations differ; each algorithm's file lists the differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Arithmetic {
    /// Linux 6.x.
    #[default]
    Linux,
    /// ns-3 3.44.
    Ns3,
}

/// Returns `cwnd` in segments as a real number.
#[inline]
pub fn in_segments(cwnd: u64, mss: u32) -> f64 {
    cwnd as f64 / f64::from(mss)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        Flow { mss: 1000, initial_window: 10_000, initial_ssthresh: u64::MAX, ..Flow::default() }
    }

    #[test]
    fn slow_start_stops_at_ssthresh() {
        let mut w = Window::new(&flow());
        w.ssthresh = 11_500;
        assert_eq!(w.slow_start(1000), 0);
        assert_eq!(w.slow_start(1000), 500);
        assert_eq!(w.cwnd, 11_500);
    }

    #[test]
    fn additive_increase_adds_one_segment_per_window() {
        let mut w = Window::new(&flow());
        for _ in 0..10 {
            w.additive_increase(1000, 1000);
        }
        assert!((10_900..11_000).contains(&w.cwnd), "{}", w.cwnd);
    }

    #[test]
    fn undo_restores_cwnd_and_ssthresh() {
        let f = flow();
        let mut w = Window::new(&f);
        w.reduce(&f, Congestion::Timeout, 5_000);
        assert_eq!((w.cwnd, w.ssthresh), (1000, 5000));
        w.undo();
        assert_eq!((w.cwnd, w.ssthresh), (10_000, u64::MAX));
    }

    #[test]
    fn counter_matches_linux() {
        let mut c = AdditiveCounter::default();
        let mut cwnd = 10_000;
        for _ in 0..9 {
            c.advance(&mut cwnd, 1000, 10, 1);
        }
        assert_eq!(cwnd, 10_000);
        c.advance(&mut cwnd, 1000, 10, 1);
        assert_eq!(cwnd, 11_000);
    }
}
