//! Scalable TCP: multiplicative increase, so recovery takes the same number of RTTs at any rate (T. Kelly, "Scalable
//! TCP: improving performance in highspeed wide area networks", CCR 33(2), 2003, section 3).
//!
//! Each acknowledged segment adds `a`, and a loss removes `b` of the window. Below `1 / a` segments the increase is
//! NewReno's. Defaults follow Linux's `tcp_scalable`. `arithmetic = "ns3"` is ns-3 3.44's TcpScalable. Slow start adds
//! one segment per ACK, and each increase discards the rest of the count. The decrease starts from the bytes in flight.
//! The preset also sets `a = 0.02` (ns-3's AIFactor of 50, to compensate for delayed ACKs, but it counts segments).

use super::entry::BuildAlgorithm;
use super::window::{AdditiveCounter, Arithmetic, Window};
use super::{Ack, AlgorithmTrace, Congestion, CongestionControl, Flow, Permit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Parameters of [`Scalable`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Segments added per acknowledged segment.
    pub a: f64,
    /// Part of the window that a loss removes.
    pub b: f64,
    /// Implementation whose arithmetic applies.
    pub arithmetic: Arithmetic,
}

impl Default for Params {
    fn default() -> Self {
        Params { a: 0.01, b: 0.125, arithmetic: Arithmetic::Linux }
    }
}

/// The `ns3` preset.
pub const NS3: &str = "arithmetic = \"ns3\"\na = 0.02";

/// The algorithm.
#[derive(Clone, Debug)]
pub struct Scalable {
    window: Window,
    counter: AdditiveCounter,
    count: u64,
    per_increment: u64,
    params: Arc<Params>,
}

impl BuildAlgorithm for Scalable {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if !(p.a > 0.0 && p.a <= 1.0) {
            Err("`a` must be greater than 0 and at most 1".into())
        } else if !(p.b >= 0.0 && p.b < 1.0) {
            Err("`b` must be at least 0 and less than 1".into())
        } else {
            Ok(())
        }
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        Scalable {
            window: Window::new(flow),
            counter: AdditiveCounter::default(),
            count: 0,
            per_increment: segments_per_increment(params.a),
            params: Arc::clone(params),
        }
    }
}

impl CongestionControl for Scalable {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        if !ack.may_grow {
            return;
        }
        match self.params.arithmetic {
            Arithmetic::Linux => {
                let mss = u64::from(flow.mss);
                let mut segments = u64::from(ack.segments);
                if self.window.in_slow_start() {
                    segments = self.window.slow_start(segments * mss) / mss;
                }
                if segments > 0 {
                    let w = self.window.segments(flow.mss).min(self.per_increment);
                    self.counter.advance(&mut self.window.cwnd, flow.mss, w, segments);
                }
            }
            Arithmetic::Ns3 => {
                let mut segments = ack.segments;
                if self.window.in_slow_start() {
                    segments = self.window.slow_start_per_ack(flow.mss, segments);
                }
                if !self.window.in_slow_start() {
                    ns3_increase(&mut self.window, flow.mss, &mut self.count, self.per_increment, segments);
                }
            }
        }
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        let mss = u64::from(flow.mss);
        let left = match self.params.arithmetic {
            Arithmetic::Linux => {
                let w = self.window.segments(flow.mss);
                w - (w as f64 * self.params.b) as u64
            }
            Arithmetic::Ns3 => ((flow.in_flight / mss) as f64 * (1.0 - self.params.b)) as u64,
        };
        self.window.reduce(flow, cause, left.max(2) * mss);
        self.counter = AdditiveCounter::default();
    }

    fn permit(&self, flow: &Flow) -> Permit {
        Permit::window(flow.window(self.window.cwnd))
    }

    fn lower_window(&mut self, _flow: &Flow, cwnd: u64, ssthresh: u64) {
        self.window.lower(cwnd, ssthresh);
    }

    fn trace(&self) -> AlgorithmTrace {
        let phase = if self.window.in_slow_start() { "slow start" } else { "scalable increase" };
        AlgorithmTrace { cwnd: self.window.cwnd, ssthresh: self.window.ssthresh, rate: None, phase }
    }

    fn on_undo(&mut self, _flow: &Flow) {
        self.window.undo();
    }
}

/// Returns the number of acknowledged segments that adds one segment: `1 / a`, as an integer.
pub(super) fn segments_per_increment(a: f64) -> u64 {
    libm::round(1.0 / a).max(1.0) as u64
}

/// Runs congestion avoidance like ns-3's TcpScalable: adds a segment for every `min(w, per_increment)` acknowledged and
/// drops the rest of the count. Cuts the window to whole segments whenever it grows.
pub(super) fn ns3_increase(window: &mut Window, mss: u32, count: &mut u64, per_increment: u64, segments: u32) {
    let mss = u64::from(mss);
    let before = window.cwnd / mss;
    let w = before.min(per_increment).max(1);
    let mut after = before;
    if *count >= w {
        *count = 0;
        after += 1;
    }
    *count += u64::from(segments);
    if *count >= w {
        after += *count / w;
        *count = 0;
    }
    if after != before {
        window.cwnd = after * mss;
    }
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;

    fn flow(segments: u64) -> Flow {
        Flow { mss: 1000, initial_window: segments * 1000, initial_ssthresh: 2_000, ..Flow::default() }
    }
    fn ack(segments: u32) -> Ack {
        Ack { acked: u64::from(segments) * 1000, segments, may_grow: true, ..Ack::default() }
    }

    /// Section 3: the window grows by 1 % per RTT; recovery from a loss takes ln(8/7) / ln(1.01) = 13.4 RTTs.
    #[test]
    fn rounds_to_recover_do_not_depend_on_the_window() {
        for segments in [1_000u64, 10_000, 100_000] {
            let f = flow(segments);
            let mut cc = build("scalable", "linux", "", &f).unwrap();
            cc.on_congestion(&f, Congestion::Loss);
            assert_eq!(cc.trace().cwnd, segments * 875);
            let mut rounds = 0;
            while cc.trace().cwnd < segments * 1000 {
                for _ in 0..cc.trace().cwnd / 1000 {
                    cc.on_ack(&f, &ack(1));
                }
                rounds += 1;
            }
            assert_eq!(rounds, 14, "{segments}");
        }
    }

    #[test]
    fn window_below_a_hundred_segments_grows_as_newreno() {
        let f = flow(50);
        let mut cc = build("scalable", "linux", "", &f).unwrap();
        for _ in 0..49 {
            cc.on_ack(&f, &ack(1));
        }
        assert_eq!(cc.trace().cwnd, 50_000);
        cc.on_ack(&f, &ack(1));
        assert_eq!(cc.trace().cwnd, 51_000);
    }

    #[test]
    fn ns3_adds_a_segment_per_fifty_and_drops_the_rest() {
        let mut f = flow(200);
        let mut cc = build("scalable", "ns3", "", &f).unwrap();
        for _ in 0..16 {
            cc.on_ack(&f, &ack(3));
        }
        assert_eq!(cc.trace().cwnd, 200_000);
        cc.on_ack(&f, &ack(3));
        assert_eq!(cc.trace().cwnd, 201_000);
        for _ in 0..16 {
            cc.on_ack(&f, &ack(3));
        }
        assert_eq!(cc.trace().cwnd, 201_000);
        f.in_flight = 99_999;
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.trace().ssthresh, 86_000);
    }

    #[test]
    fn ssthresh_keeps_two_segments_and_does_not_overflow() {
        for stack in ["linux", "ns3"] {
            let mut f = flow(1);
            let mut cc = build("scalable", stack, "", &f).unwrap();
            cc.on_congestion(&f, Congestion::Timeout);
            assert_eq!((cc.trace().cwnd, cc.trace().ssthresh), (1_000, 2_000), "{stack}");
            cc.on_ack(&f, &ack(0));
            cc.on_ack(&f, &ack(1));
            cc.on_ack(&f, &ack(u32::MAX));
            f = flow(1 << 50);
            let mut cc = build("scalable", stack, "", &f).unwrap();
            cc.on_ack(&f, &ack(u32::MAX));
            cc.on_congestion(&f, Congestion::Loss);
            assert!(cc.trace().ssthresh >= 2_000);
        }
        assert!(build("scalable", "linux", "a = 0.0", &flow(1)).is_err());
        assert!(build("scalable", "linux", "b = 1.0", &flow(1)).is_err());
    }
}
