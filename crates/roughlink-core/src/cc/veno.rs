//! Veno: Reno that uses the backlog N of Vegas to decide whether a loss is congestion (Fu and Liew, "TCP Veno: TCP
//! Enhancement for Transmission over Wireless Access Networks", IEEE JSAC 21(2), 2003).
//!
//! N = W (1 - base RTT / RTT). Below `beta` segments the path is not congested: the window grows by one segment per
//! round, and a loss removes a fifth. Otherwise it grows every other round, and a loss halves it (section II).
//!
//! Defaults are Linux's `tcp_veno`: every ACK computes N from its RTT, in half segments; an ACK without an RTT sample
//! counts as congested. `ns3` forgets its samples at every increase, so it nearly always grows like NewReno. The loss
//! rule still works, but on the bytes in flight.

use super::entry::BuildAlgorithm;
use super::samples::Samples;
use super::window::{AdditiveCounter, Halve, Window};
use super::{Ack, AlgorithmTrace, Congestion, CongestionControl, Flow, Permit, Sent};
use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Parameters of [`Veno`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Backlog in segments from which the path counts as congested.
    pub beta: u32,
    /// Part of the window that remains after a loss on a path without congestion.
    pub random_loss: f64,
    /// Units of N per segment (Linux: 2, so N counts half segments); N is rounded up.
    pub resolution: u32,
    /// RTT samples needed before N is used.
    pub min_samples: u32,
    /// Restart the count of samples after every increase (ns-3).
    pub forget_samples: bool,
    /// Count acknowledged segments for growth (Linux) instead of ACKs (ns-3).
    pub abc: bool,
    /// With `abc`, maximum number of segments that one ACK adds in slow start: L of RFC 3465, 1 in RFC 5681; 0 = all
    /// acknowledged segments (Linux).
    pub slow_start_limit: u64,
    /// Quantity that a loss reduces.
    pub halve: Halve,
    /// Reset the base RTT when a connection restarts from idle (Linux).
    pub forget_when_idle: bool,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            beta: 3,
            random_loss: 0.8,
            resolution: 2,
            min_samples: 3,
            forget_samples: false,
            abc: true,
            slow_start_limit: 0,
            halve: Halve::Cwnd,
            forget_when_idle: true,
        }
    }
}

/// The `ns3` preset.
pub const NS3: &str =
    "resolution = 1\nforget_samples = true\nabc = false\nhalve = \"flight\"\nforget_when_idle = false";

/// The algorithm.
#[derive(Clone, Debug)]
pub struct Veno {
    window: Window,
    counter: AdditiveCounter,
    params: Arc<Params>,
    /// Samples; `rtt` is the smallest since the last increase.
    samples: Samples,
    /// N in parts of a segment.
    backlog: u64,
    /// True if the window may grow in the next round on a congested path.
    increase: bool,
}

impl BuildAlgorithm for Veno {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if p.resolution == 0 {
            Err("`resolution` must be at least 1".into())
        } else if !(0.0..=1.0).contains(&p.random_loss) {
            Err("`random_loss` must be between 0 and 1".into())
        } else {
            Ok(())
        }
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        Veno {
            window: Window::with_slow_start_limit(flow, params.slow_start_limit),
            counter: AdditiveCounter::default(),
            params: Arc::clone(params),
            samples: Samples::default(),
            backlog: 0,
            increase: true,
        }
    }
}

impl CongestionControl for Veno {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        self.samples.take(flow.state, ack);
        if !ack.may_grow || ack.segments == 0 {
            return;
        }

        let believed = self.samples.govern && self.samples.count >= self.params.min_samples;
        if believed || self.params.forget_samples {
            self.measure(flow.mss);
        }
        if believed {
            self.grow(flow.mss, ack.segments);
        } else if self.params.abc {
            self.window.reno(&mut self.counter, flow.mss, ack.segments);
        } else {
            self.window.grow_per_ack(flow.mss, ack.segments);
        }
        if self.samples.govern {
            self.samples.rtt = Time::MAX;
            if self.params.forget_samples {
                self.samples.count = 0;
            }
        }
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        let mss = u64::from(flow.mss);
        let left = if self.congested() { 0.5 } else { self.params.random_loss };
        let left = match self.params.halve {
            Halve::Cwnd => (self.window.segments(flow.mss) as f64 * left) as u64 * mss,
            Halve::Flight => (flow.in_flight as f64 * left) as u64,
            Halve::Outstanding => (flow.outstanding.min(self.window.cwnd) as f64 * left) as u64,
            Halve::Unacknowledged => (flow.outstanding as f64 * left) as u64,
        };
        self.window.reduce(flow, cause, left.max(2 * mss));
        self.counter = AdditiveCounter::default();
        self.samples.suspend(cause);
    }

    fn permit(&self, flow: &Flow) -> Permit {
        Permit::window(flow.window(self.window.cwnd))
    }

    fn lower_window(&mut self, _flow: &Flow, cwnd: u64, ssthresh: u64) {
        self.window.lower(cwnd, ssthresh);
    }

    fn trace(&self) -> AlgorithmTrace {
        let phase = match (self.window.in_slow_start(), self.congested()) {
            (true, _) => "slow start",
            (false, true) => "congested",
            (false, false) => "not congested",
        };
        AlgorithmTrace { cwnd: self.window.cwnd, ssthresh: self.window.ssthresh, rate: None, phase }
    }

    fn on_sent(&mut self, _flow: &Flow, sent: &Sent) {
        if sent.tx_start && self.params.forget_when_idle {
            self.samples.restart();
            self.increase = true;
        }
    }

    fn on_undo(&mut self, _flow: &Flow) {
        self.window.undo();
    }
}

impl Veno {
    fn congested(&self) -> bool {
        self.backlog >= u64::from(self.params.beta) * u64::from(self.params.resolution)
    }

    /// Computes N from the window and the last RTT (section II), rounded up to the next part of a segment. Without an
    /// RTT sample, nearly the whole window counts.
    fn measure(&mut self, mss: u32) {
        let parts = u128::from(self.window.segments(mss)) * u128::from(self.params.resolution);
        let target = parts * u128::from(self.samples.base.0) / u128::from(self.samples.rtt.0);
        self.backlog = (parts - target) as u64;
    }

    fn grow(&mut self, mss: u32, segments: u32) {
        if !self.params.abc {
            let ss = self.window.in_slow_start();
            if ss {
                self.window.cwnd += u64::from(mss);
            } else if !self.congested() || self.increase {
                self.window.grow_per_ack(mss, segments);
            }
            if !ss && self.congested() {
                self.increase = !self.increase; // every other ACK, in the paper every other round
            }
            return;
        }
        let mut left = u64::from(segments);
        if self.window.in_slow_start() {
            left = self.window.slow_start(left * u64::from(mss)) / u64::from(mss);
        }
        if left > 0 && self.congested() {
            self.every_other_round(mss, left);
        } else if left > 0 {
            let w = self.window.segments(mss);
            self.counter.advance(&mut self.window.cwnd, mss, w, left);
        }
        self.window.cwnd = self.window.cwnd.max(2 * u64::from(mss));
    }

    fn every_other_round(&mut self, mss: u32, segments: u64) {
        if self.counter.count >= self.window.segments(mss) {
            if self.increase {
                self.window.cwnd += u64::from(mss);
            }
            self.increase = !self.increase;
            self.counter.count = 0;
        } else {
            self.counter.count += segments;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CongestionControl, build};
    use super::*;

    const MSS: u64 = 1000;

    fn flow() -> Flow {
        Flow { mss: MSS as u32, initial_window: 20 * MSS, initial_ssthresh: 10 * MSS, ..Flow::default() }
    }
    fn ack(ms: u64) -> Ack {
        Ack { acked: MSS, segments: 1, rtt: Some(Time::from_millis(ms)), may_grow: true, ..Ack::default() }
    }
    /// Returns a Veno of 20 segments and base RTT 100 ms after `n` ACKs with an RTT of `ms`.
    fn after(params: &str, n: u32, ms: u64) -> Box<dyn CongestionControl> {
        let f = flow();
        let mut cc = build("veno", "linux", params, &f).unwrap();
        for _ in 0..3 {
            cc.on_ack(&f, &ack(100));
        }
        for _ in 0..n {
            cc.on_ack(&f, &ack(ms));
        }
        cc
    }

    #[test]
    fn loss_reduces_by_a_fifth_below_beta_and_by_half_above() {
        // N = 20 (1 - 100 / RTT), rounded up to half segments: 117 ms gives 2.906, so 3; 114 ms gives 2.456, so 2.5.
        for (ms, ssthresh) in [(100, 16), (114, 16), (117, 10), (118, 10), (200, 10)] {
            let mut cc = after("", 1, ms);
            cc.on_congestion(&flow(), Congestion::Loss);
            assert_eq!(cc.trace().ssthresh, ssthresh * MSS, "{ms} ms");
        }
        let mut cc = after("beta = 4", 1, 120);
        cc.on_congestion(&flow(), Congestion::Loss);
        assert_eq!(cc.trace().ssthresh, 16 * MSS);
        let mut cc = after("random_loss = 0.9", 1, 100);
        cc.on_congestion(&flow(), Congestion::Loss);
        assert_eq!(cc.trace().ssthresh, 18 * MSS);
        // A timeout does the same (Linux calls the same function), but with a window of one segment.
        let mut cc = after("", 1, 100);
        cc.on_congestion(&flow(), Congestion::Timeout);
        assert_eq!((cc.trace().cwnd, cc.trace().ssthresh), (MSS, 16 * MSS));
    }

    #[test]
    fn window_grows_each_round_below_beta_and_every_other_above() {
        assert_eq!(after("", 60, 100).trace().cwnd, 23 * MSS); // 20 + 21 + 22 ACKs
        let grown = |n| after("", n, 200).trace().cwnd / MSS;
        // 21 ACKs (the kernel compares before it counts) make a round.
        assert_eq!((grown(15), grown(19), grown(40), grown(64)), (20, 21, 21, 22));
    }

    #[test]
    fn an_ack_without_rtt_counts_as_congestion() {
        let f = flow();
        let mut cc = after("", 0, 100);
        assert_eq!(cc.trace().phase, "not congested");
        cc.on_ack(&f, &Ack { rtt: None, ..ack(0) });
        assert_eq!(cc.trace().phase, "congested");
    }

    #[test]
    fn ns3_reduces_the_bytes_in_flight() {
        let mut f = flow();
        f.in_flight = 12_345;
        let mut cc = build("veno", "ns3", "", &f).unwrap();
        cc.on_ack(&f, &ack(100));
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.trace().ssthresh, 9876);
        let mut cc = build("veno", "ns3", "", &f).unwrap();
        cc.on_ack(&f, &ack(100));
        cc.on_ack(&f, &ack(112)); // 20 - floor(17.86) = 3
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.trace().ssthresh, 6172);
    }

    #[test]
    fn extreme_inputs_do_not_panic() {
        for stack in ["linux", "ns3", "ns2"] {
            for window in [1, 1 << 50] {
                let mut f = Flow { mss: 1, initial_window: window, initial_ssthresh: 1, ..flow() };
                let mut cc = build("veno", stack, "min_samples = 0", &f).unwrap();
                for i in 0..1000u64 {
                    f.now = Time::from_secs(i * 1000);
                    let rtt = [None, Some(Time::ZERO), Some(Time(1)), Some(Time::MAX)][i as usize % 4];
                    cc.on_ack(&f, &Ack { rtt, ..ack(0) });
                    f.in_flight = i % 3;
                    if i % 100 == 0 {
                        cc.on_congestion(&f, Congestion::Loss);
                        cc.on_sent(&f, &Sent { seq: 0, len: 1, retransmission: false, tx_start: true });
                    }
                    assert!(cc.trace().cwnd >= 1);
                }
            }
        }
        assert!(build("veno", "linux", "resolution = 0", &flow()).is_err());
        assert!(build("veno", "linux", "random_loss = 1.5", &flow()).is_err());
    }
}
