//! YeAH: Scalable TCP while the queue is short, Reno with decongestion while it is long (A. Baiocchi, A. Castellani, F.
//! Vacirca, "YeAH-TCP: yet another highspeed TCP", PFLDnet 2007, section 2).
//!
//! Once per RTT the queue is estimated from the smallest RTT of the round and of the connection:
//! `queue = (RTT - RTTbase) w / RTT`. *Fast* mode (`queue <= alpha` and `RTT - RTTbase <= RTTbase / phi`) grows like
//! Scalable TCP. *Slow* mode grows like Reno. With more than `alpha` queued, it reduces the window by `queue / gamma`,
//! by at most `w / 2^epsilon` and not below the estimated window of competing Reno flows. A loss removes the queue, at
//! least `w / 2^delta` and at most half; after `rho` rounds of slow mode (Reno flows compete) it removes half.
//!
//! Defaults follow Linux's `tcp_yeah`. The base RTT is reset when sending restarts with nothing in flight. `arithmetic
//! = "ns3"` is ns-3 3.44's TcpYeah. Slow start and Reno's growth count ACKs, and slow start uses the whole ACK.
//! Scalable's growth is TcpScalable's. A round ends when its last segment is acknowledged, not the one after. The
//! decrease starts from the bytes in flight. With fewer than two segments in flight the 32-bit subtraction may wrap
//! around, which sets ssthresh to nearly 4 GiB and leaves slow start unbounded. The preset also sets `phi = 0`: ns-3
//! divides 1 by phi in integers, so any queueing delay means slow mode.

use super::entry::BuildAlgorithm;
use super::scalable::{ns3_increase, segments_per_increment};
use super::window::{AdditiveCounter, Arithmetic, Window};
use super::{Ack, AlgorithmTrace, Congestion, CongestionControl, Flow, Permit, Sent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Parameters of [`Yeah`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Segments that may queue (Q_max).
    pub alpha: u64,
    /// Decongestion removes `queue / gamma`.
    pub gamma: u64,
    /// A loss removes at least `w / 2^delta`.
    pub delta: u32,
    /// Decongestion removes at most `w / 2^epsilon`.
    pub epsilon: u32,
    /// Divisor of the base RTT: slow mode begins when the RTT exceeds its base by `base / phi`; 0 = by any amount.
    pub phi: u64,
    /// Rounds of slow mode after which competing Reno flows are assumed.
    pub rho: u64,
    /// Rounds of fast mode after which the Reno flows' window is discarded.
    pub zeta: u64,
    /// Increase of fast mode, segments per acknowledged segment (Scalable TCP's a).
    pub a: f64,
    /// Implementation whose arithmetic applies.
    pub arithmetic: Arithmetic,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            alpha: 80,
            gamma: 1,
            delta: 3,
            epsilon: 1,
            phi: 8,
            rho: 16,
            zeta: 50,
            a: 0.01,
            arithmetic: Arithmetic::Linux,
        }
    }
}

/// The `ns3` preset.
pub const NS3: &str = "arithmetic = \"ns3\"\nphi = 0";

/// The algorithm.
#[derive(Clone, Debug)]
pub struct Yeah {
    window: Window,
    counter: AdditiveCounter,
    /// Segments acknowledged since the last increase of fast mode (ns-3).
    count: u64,
    per_increment: u64,
    /// Smallest RTT of the connection and of the round, nanoseconds.
    base: u64,
    round_rtt: u64,
    samples: u32,
    /// The round ends when more than this offset is acknowledged.
    round_end: u64,
    /// True if the state is Open again: the next ACK starts a round after its RTT is used.
    restart: bool,
    /// Segments in the queue, from the last round.
    queue: u64,
    /// Consecutive rounds of slow mode, and rounds of fast mode since the last loss.
    slow_rounds: u64,
    fast_rounds: u64,
    /// Estimated window of a competing Reno flow, segments.
    reno_window: u64,
    params: Arc<Params>,
}

impl BuildAlgorithm for Yeah {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if p.gamma == 0 {
            Err("`gamma` must be at least 1".into())
        } else if p.delta > 63 || p.epsilon > 63 {
            Err("`delta` and `epsilon` must be less than 64: they are exponents of two".into())
        } else if !(p.a > 0.0 && p.a <= 1.0) {
            Err("`a` must be greater than 0 and at most 1".into())
        } else {
            Ok(())
        }
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        Yeah {
            window: Window::new(flow),
            counter: AdditiveCounter::default(),
            count: 0,
            per_increment: segments_per_increment(params.a),
            base: u64::MAX,
            round_rtt: u64::MAX,
            samples: 0,
            round_end: flow.snd_nxt,
            restart: false,
            queue: 0,
            slow_rounds: 0,
            fast_rounds: 0,
            reno_window: 2,
            params: Arc::clone(params),
        }
    }
}

impl CongestionControl for Yeah {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        let linux = self.params.arithmetic == Arithmetic::Linux;
        if let Some(rtt) = ack.rtt
            && (linux || !rtt.is_zero())
        {
            let rtt = if linux { rtt.0 / 1000 * 1000 + 1000 } else { rtt.0 }; // never zero
            self.base = self.base.min(rtt);
            self.round_rtt = self.round_rtt.min(rtt);
            self.samples += 1;
        }
        if self.restart {
            self.restart = false;
            self.start_round(flow.snd_nxt);
        }
        if !ack.may_grow {
            return;
        }
        if linux {
            self.grow_linux(flow.mss, u64::from(ack.segments));
        } else if self.window.in_slow_start() {
            self.window.slow_start_per_ack(flow.mss, ack.segments);
        } else if self.slow_rounds == 0 {
            ns3_increase(&mut self.window, flow.mss, &mut self.count, self.per_increment, ack.segments);
        } else {
            self.window.grow_per_ack(flow.mss, ack.segments);
        }
        let over = if linux { flow.snd_una > self.round_end } else { flow.snd_una >= self.round_end };
        if over {
            if self.samples > 2 {
                self.end_round(flow.mss);
            }
            self.start_round(flow.snd_nxt);
        }
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        let mss = u64::from(flow.mss);
        let w = match self.params.arithmetic {
            Arithmetic::Linux => self.window.segments(flow.mss),
            Arithmetic::Ns3 => flow.in_flight / mss,
        };
        let half = (w / 2).max(2);
        let least = w >> self.params.delta;
        let reduction = match self.params.arithmetic {
            _ if self.slow_rounds >= self.params.rho => half,
            Arithmetic::Linux => self.queue.min(half).max(least),
            Arithmetic::Ns3 => self.queue.max(least).min(half),
        };
        let ssthresh = match self.params.arithmetic {
            Arithmetic::Linux => w.saturating_sub(reduction).max(2) * mss,
            Arithmetic::Ns3 => {
                let left = (flow.in_flight as u32).wrapping_sub((reduction * mss) as u32);
                u64::from(left).max(2 * mss)
            }
        };
        if cause != Congestion::TimeoutAgain {
            self.fast_rounds = 0;
            self.reno_window = (self.reno_window / 2).max(2);
        }
        self.window.reduce(flow, cause, ssthresh);
        self.counter = AdditiveCounter::default();
    }

    fn permit(&self, flow: &Flow) -> Permit {
        Permit::window(flow.window(self.window.cwnd))
    }

    fn lower_window(&mut self, _flow: &Flow, cwnd: u64, ssthresh: u64) {
        self.window.lower(cwnd, ssthresh);
    }

    fn trace(&self) -> AlgorithmTrace {
        let phase = match self.slow_rounds {
            _ if self.window.in_slow_start() => "slow start",
            0 => "fast mode",
            _ => "slow mode",
        };
        AlgorithmTrace { cwnd: self.window.cwnd, ssthresh: self.window.ssthresh, rate: None, phase }
    }

    fn on_sent(&mut self, flow: &Flow, sent: &Sent) {
        if sent.tx_start && self.params.arithmetic == Arithmetic::Linux {
            self.base = u64::MAX;
            self.start_round(flow.snd_nxt);
        }
    }

    fn on_recovered(&mut self, _flow: &Flow) {
        self.restart = true;
    }

    fn on_undo(&mut self, _flow: &Flow) {
        self.window.undo();
    }
}

impl Yeah {
    fn start_round(&mut self, snd_nxt: u64) {
        self.round_end = snd_nxt;
        self.samples = 0;
        self.round_rtt = u64::MAX;
    }

    fn grow_linux(&mut self, mss: u32, segments: u64) {
        let mut segments = segments;
        if self.window.in_slow_start() {
            segments = self.window.slow_start(segments * u64::from(mss)) / u64::from(mss);
        }
        if segments > 0 {
            let w = self.window.segments(mss);
            let per_increment = if self.slow_rounds == 0 { w.min(self.per_increment) } else { w };
            self.counter.advance(&mut self.window.cwnd, mss, per_increment, segments);
        }
    }

    /// Section 2: estimates the queue of the round, selects the mode, and applies precautionary decongestion.
    fn end_round(&mut self, mss: u32) {
        let mut w = self.window.segments(mss);
        let waited = self.round_rtt.saturating_sub(self.base);
        let queue = match self.params.arithmetic {
            Arithmetic::Linux => {
                let us = u128::from(self.round_rtt / 1000).max(1);
                (u128::from(w) * u128::from(waited / 1000) / us) as u64
            }
            Arithmetic::Ns3 => (w as f64 / (self.round_rtt as f64 / 1e9) * (waited as f64 / 1e9)) as u64,
        };
        let tolerated = match self.params.arithmetic {
            _ if self.params.phi == 0 => 0,
            Arithmetic::Linux => self.base / 1000 / self.params.phi * 1000,
            Arithmetic::Ns3 => self.base / self.params.phi,
        };
        if queue > self.params.alpha || waited > tolerated {
            if queue > self.params.alpha && w > self.reno_window {
                let reduction = (queue / self.params.gamma).min(w >> self.params.epsilon);
                w = (w - reduction).max(self.reno_window);
                self.window.cwnd = w * u64::from(mss);
                self.window.ssthresh = self.window.cwnd;
            }
            self.reno_window = if self.reno_window <= 2 { (w / 2).max(2) } else { self.reno_window + 1 };
            self.slow_rounds = self.slow_rounds.saturating_add(1);
        } else {
            self.fast_rounds += 1;
            if self.fast_rounds > self.params.zeta {
                self.reno_window = 2;
                self.fast_rounds = 0;
            }
            self.slow_rounds = 0;
        }
        self.queue = queue;
    }
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;
    use crate::units::Time;

    struct YeahBench {
        cc: Yeah,
        flow: Flow,
    }

    impl YeahBench {
        fn new(params: &str, segments: u64) -> Self {
            let flow = Flow {
                mss: 1000,
                initial_window: segments * 1000,
                initial_ssthresh: 2_000,
                snd_nxt: segments * 1000,
                in_flight: segments * 1000,
                ..Flow::default()
            };
            YeahBench { cc: Yeah::new(&Arc::new(toml::from_str(params).unwrap()), &flow), flow }
        }
        fn ack(&mut self, rtt_ms: u64) {
            self.flow.snd_una += 1000;
            self.flow.snd_nxt = self.flow.snd_nxt.max(self.flow.snd_una + self.cc.window.cwnd);
            let rtt = Some(Time::from_millis(rtt_ms));
            self.cc.on_ack(&self.flow, &Ack { acked: 1000, segments: 1, rtt, may_grow: true, ..Ack::default() });
        }
        /// Delivers ACKs until the round ends and returns their number.
        fn round(&mut self, rtt_ms: u64) -> u64 {
            let end = self.cc.round_end;
            while self.cc.round_end == end {
                self.ack(rtt_ms);
            }
            self.segments()
        }
        fn segments(&self) -> u64 {
            self.cc.window.cwnd / 1000
        }
    }

    #[test]
    fn fast_mode_grows_as_scalable() {
        let mut c = YeahBench::new("", 1000);
        c.round(100);
        let w = c.segments();
        assert!((1009..=1011).contains(&w), "{w}");
        assert_eq!(c.cc.trace().phase, "fast mode");
        // At a base RTT of 100 ms, a delay of 11 ms is within 1/8, and a queue of 70 segments is within alpha = 80.
        let mut c = YeahBench::new("", 700);
        c.round(100);
        c.round(111);
        assert_eq!((c.cc.queue, c.cc.trace().phase), (70, "fast mode"));
    }

    /// queue = w (RTT - base) / RTT = 1020 * 50 / 150 = 340: removed from the window; the rest grows like Reno.
    #[test]
    fn slow_mode_drains_the_queue() {
        let mut c = YeahBench::new("", 1000);
        c.round(100);
        c.round(150);
        let queue = c.cc.queue;
        assert!((335..=345).contains(&queue), "{queue}");
        let w = c.segments();
        assert!((675..=685).contains(&w), "{w}");
        assert_eq!((c.cc.trace().phase, c.cc.window.ssthresh / 1000), ("slow mode", w));
        assert_eq!(c.cc.reno_window, w / 2);
        // High delay, at most 80 segments queued: slow mode, a segment per round. Low delay, short queue: fast mode.
        c.round(115);
        let after = c.segments();
        assert!(after < w + 3, "{after}");
        assert_eq!((c.cc.slow_rounds, c.cc.reno_window), (2, w / 2 + 1));
        c.round(101);
        assert_eq!(c.cc.trace().phase, "fast mode");
    }

    #[test]
    fn decongestion_takes_at_most_half_and_keeps_the_reno_window() {
        let mut c = YeahBench::new("", 1000);
        c.round(10);
        c.cc.reno_window = 700;
        c.round(1000);
        assert_eq!(c.segments(), 700);
        let mut c = YeahBench::new("", 1000);
        c.round(10);
        c.round(1000);
        assert!((500..=515).contains(&c.segments()), "{}", c.segments());
    }

    #[test]
    fn a_loss_removes_the_queue() {
        for (queue, slow, left) in [(0, 0, 875), (300, 0, 700), (900, 0, 500), (0, 16, 500)] {
            for params in ["", NS3] {
                let mut c = YeahBench::new(params, 1000);
                (c.cc.queue, c.cc.slow_rounds) = (queue, slow);
                c.cc.on_congestion(&c.flow, Congestion::Loss);
                assert_eq!(c.cc.window.ssthresh, left * 1000);
            }
        }
    }

    #[test]
    fn fifty_fast_rounds_reset_the_reno_window() {
        let mut c = YeahBench::new("", 10);
        c.cc.reno_window = 5;
        for _ in 0..50 {
            c.round(100);
        }
        assert_eq!(c.cc.reno_window, 5);
        c.round(100);
        assert_eq!(c.cc.reno_window, 2);
    }

    #[test]
    fn ns3_treats_any_delay_as_congestion_and_wraps() {
        let mut c = YeahBench::new(NS3, 100);
        c.round(100);
        c.round(100);
        assert_eq!(c.cc.trace().phase, "fast mode");
        c.round(101);
        assert_eq!(c.cc.trace().phase, "slow mode");
        (c.flow.in_flight, c.cc.queue) = (1000, 10);
        c.cc.on_congestion(&c.flow, Congestion::Timeout);
        assert_eq!(c.cc.window.ssthresh, u64::from(u32::MAX) + 1 - 1000);
    }

    #[test]
    fn a_restart_waits_for_a_fresh_round() {
        let mut c = YeahBench::new("", 100);
        c.round(100);
        c.ack(100);
        c.cc.on_recovered(&c.flow);
        c.ack(100);
        assert_eq!((c.cc.samples, c.cc.base), (0, 100_001_000));
        c.cc.on_sent(&c.flow, &Sent { seq: 0, len: 1000, retransmission: false, tx_start: true });
        assert_eq!(c.cc.base, u64::MAX);
    }

    #[test]
    fn window_stays_within_bounds() {
        for stack in ["linux", "ns3"] {
            for segments in [1u64, 1 << 40] {
                for rtt in [Time::ZERO, Time::from_secs(1_000_000)] {
                    let mut f = YeahBench::new("", segments).flow;
                    let mut cc = build("yeah", stack, "", &f).unwrap();
                    for cause in [Congestion::Loss, Congestion::Timeout, Congestion::TimeoutAgain] {
                        for n in [0, 1, 2, u32::MAX, 1, 1, 1] {
                            f.snd_una += 1_000_000;
                            cc.on_ack(&f, &Ack { segments: n, rtt: Some(rtt), may_grow: true, ..Ack::default() });
                        }
                        cc.on_congestion(&f, cause);
                        assert!(cc.trace().ssthresh >= 2_000, "{stack}");
                        cc.on_recovered(&f);
                    }
                }
            }
        }
        assert!(build("yeah", "linux", "gamma = 0", &YeahBench::new("", 1).flow).is_err());
        assert!(build("yeah", "linux", "delta = 64", &YeahBench::new("", 1).flow).is_err());
    }
}
