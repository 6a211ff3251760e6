//! Vegas: the window follows the number of queued segments, estimated from the RTT once per round (Brakmo, O'Malley,
//! Peterson, "TCP Vegas: New Techniques for Congestion Detection and Avoidance", SIGCOMM 1994, sections 3.2 and 3.3;
//! Brakmo and Peterson, IEEE JSAC 13(8), 1995).
//!
//! Defaults are Linux's `tcp_vegas`. The stack detects losses. Slow start doubles every round (in the paper every other
//! round). The RTT of a round is its smallest sample out of at least three. The backlog is `W (RTT - base RTT) / base
//! RTT`. A loss halves the window. `ns3` computes the backlog as in the paper, rounded up, and a loss only removes one
//! segment from the window. Outside the Open state, both grow like NewReno.

use super::entry::BuildAlgorithm;
use super::samples::Samples;
use super::window::{AdditiveCounter, Window};
use super::{Ack, AlgorithmTrace, Congestion, CongestionControl, CongestionState, Flow, Permit, Sent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Parameters of [`Vegas`]. Thresholds are segments of backlog.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Backlog below which the window grows (the paper: 1 to 3).
    pub alpha: u32,
    /// Backlog above which the window shrinks (the paper: 3 or more).
    pub beta: u32,
    /// Backlog above which slow start ends.
    pub gamma: u32,
    /// RTT samples that a round needs. With fewer, all may come from delayed ACKs, and the window grows as in Reno.
    pub min_samples: u32,
    /// How the backlog is computed.
    pub backlog: BacklogFormula,
    /// Growth counts acknowledged segments (Linux) instead of ACKs (ns-3).
    pub abc: bool,
    /// With `abc`, maximum number of segments that one ACK adds in slow start: L of RFC 3465, 1 in RFC 5681; 0 = all
    /// acknowledged segments (Linux).
    pub slow_start_limit: u64,
    /// Halve the window at a loss (Linux), otherwise remove one segment (ns-3).
    pub halve: bool,
    /// The base RTT is reset when a connection restarts from idle (Linux).
    pub forget_when_idle: bool,
    /// A round ends with the ACK that reaches its right edge (ns-3) instead of the one that passes it (Linux).
    pub round_at_edge: bool,
}

/// How the backlog is computed from the window W, the RTT of the round and the base RTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BacklogFormula {
    /// W (RTT - base) / base, rounded down (Linux).
    Base,
    /// W (RTT - base) / RTT, rounded up (ns-3): the paper's (Expected - Actual) times the base RTT.
    Rtt,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            alpha: 2,
            beta: 4,
            gamma: 1,
            min_samples: 3,
            backlog: BacklogFormula::Base,
            abc: true,
            slow_start_limit: 0,
            halve: true,
            forget_when_idle: true,
            round_at_edge: false,
        }
    }
}

/// The `ns3` preset.
pub const NS3: &str = "backlog = \"rtt\"\nabc = false\nhalve = false\nforget_when_idle = false\nround_at_edge = true";
/// The `ns2` preset.
pub const PER_ACK: &str = "abc = false";

/// The algorithm.
#[derive(Clone, Debug)]
pub struct Vegas {
    window: Window,
    counter: AdditiveCounter,
    params: Arc<Params>,
    /// Samples; `rtt` and `count` cover this round.
    samples: Samples,
    round_end: u64,
}

impl BuildAlgorithm for Vegas {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if p.alpha > p.beta { Err("`alpha` must not exceed `beta`".into()) } else { Ok(()) }
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        Vegas {
            window: Window::with_slow_start_limit(flow, params.slow_start_limit),
            counter: AdditiveCounter::default(),
            params: Arc::clone(params),
            samples: Samples::default(),
            round_end: flow.snd_nxt,
        }
    }
}

impl CongestionControl for Vegas {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        if self.samples.take(flow.state, ack) {
            self.begin(flow.snd_nxt);
        }
        let progress = ack.may_grow || (flow.state == CongestionState::Open && ack.acked > 0);
        if !progress || ack.segments == 0 {
            return;
        }
        if !self.samples.govern {
            self.reno(flow, ack);
        } else if flow.snd_una > self.round_end || (self.params.round_at_edge && flow.snd_una == self.round_end) {
            if self.samples.count < self.params.min_samples {
                self.reno(flow, ack);
            } else {
                self.adjust(flow.mss, ack.segments);
            }
            self.begin(flow.snd_nxt);
        } else if self.window.in_slow_start() {
            self.slow_start(flow.mss, ack.segments);
        }
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        let mss = u64::from(flow.mss);
        let least = if self.params.halve {
            self.window.segments(flow.mss) / 2 * mss
        } else {
            self.window.ssthresh.min(self.window.cwnd.saturating_sub(mss))
        };
        self.window.reduce(flow, cause, least.max(2 * mss));
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
        let phase = match (self.window.in_slow_start(), self.samples.govern) {
            (true, _) => "slow start",
            (false, true) => "vegas",
            (false, false) => "reno",
        };
        AlgorithmTrace { cwnd: self.window.cwnd, ssthresh: self.window.ssthresh, rate: None, phase }
    }

    fn on_sent(&mut self, flow: &Flow, sent: &Sent) {
        if sent.tx_start && self.params.forget_when_idle {
            self.samples.restart();
            self.begin(if sent.retransmission { flow.snd_nxt } else { sent.seq });
        }
    }

    fn on_undo(&mut self, _flow: &Flow) {
        self.window.undo();
    }
}

impl Vegas {
    /// Starts a round that ends when everything sent up to `edge` is acknowledged.
    fn begin(&mut self, edge: u64) {
        self.samples.begin();
        self.samples.count = 0;
        self.round_end = edge;
    }

    fn reno(&mut self, flow: &Flow, ack: &Ack) {
        if !ack.may_grow {
            return;
        }
        if self.params.abc {
            self.window.reno(&mut self.counter, flow.mss, ack.segments);
        } else {
            self.window.grow_per_ack(flow.mss, ack.segments);
        }
    }

    fn slow_start(&mut self, mss: u32, segments: u32) {
        if self.params.abc {
            self.window.slow_start(u64::from(segments) * u64::from(mss));
        } else {
            self.window.cwnd += u64::from(mss);
        }
    }

    /// Decides at the end of a round (section 3.2, and 3.3 for slow start).
    fn adjust(&mut self, mss: u32, segments: u32) {
        let Params { alpha, beta, gamma, .. } = *self.params;
        let mss_bytes = u64::from(mss);
        let w = self.window.segments(mss);
        let (target, backlog) = self.backlog(w);
        if self.window.in_slow_start() {
            if backlog > u64::from(gamma) {
                // Set the window for the achieved rate; the added segment makes up for the truncated division.
                self.window.cwnd = w.min(target + 1) * mss_bytes;
                self.lower_ssthresh(mss_bytes);
            } else {
                self.slow_start(mss, segments);
            }
        } else if backlog > u64::from(beta) {
            self.window.cwnd = w.saturating_sub(1) * mss_bytes;
            self.lower_ssthresh(mss_bytes);
        } else if backlog < u64::from(alpha) {
            self.window.cwnd = (w + 1) * mss_bytes;
        }
        self.window.cwnd = self.window.cwnd.max(2 * mss_bytes);
        let w = self.window.segments(mss);
        let three_quarters = if self.params.abc { (w / 2 + w / 4) * mss_bytes } else { 3 * self.window.cwnd / 4 };
        self.window.ssthresh = self.window.ssthresh.max(three_quarters);
    }

    /// Returns the window that would leave no backlog, and the backlog of window `w`; in segments.
    fn backlog(&self, w: u64) -> (u64, u64) {
        let (base, rtt) = (u128::from(self.samples.base.0), u128::from(self.samples.rtt.0));
        let target = (u128::from(w) * base / rtt) as u64;
        let backlog = match self.params.backlog {
            BacklogFormula::Base => u64::try_from(u128::from(w) * (rtt - base) / base).unwrap_or(u64::MAX),
            BacklogFormula::Rtt => w - target,
        };
        (target, backlog)
    }

    fn lower_ssthresh(&mut self, mss: u64) {
        let cwnd = if self.params.halve { self.window.cwnd } else { self.window.cwnd.saturating_sub(mss).max(2 * mss) };
        self.window.ssthresh = self.window.ssthresh.min(cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CongestionControl, build};
    use super::*;
    use crate::units::Time;

    const MSS: u64 = 1000;

    fn flow() -> Flow {
        Flow {
            mss: MSS as u32,
            initial_window: 20 * MSS,
            initial_ssthresh: 10 * MSS,
            snd_una: 1,
            snd_nxt: 1,
            ..Flow::default()
        }
    }
    fn ack(ms: u64) -> Ack {
        Ack { acked: MSS, segments: 1, rtt: Some(Time::from_millis(ms)), may_grow: true, ..Ack::default() }
    }
    /// Delivers a round of `n` ACKs with the given RTT; the first may end the previous round.
    fn round(cc: &mut dyn CongestionControl, f: &mut Flow, n: u64, ms: u64) {
        for _ in 0..n {
            f.snd_una += MSS;
            f.snd_nxt += MSS;
            cc.on_ack(f, &ack(ms));
        }
    }
    /// Returns the windows before and after 12 ACKs with an RTT of `ms`, at a base RTT of 100 ms and a window of 20.
    fn decide(stack: &str, params: &str, ms: u64) -> (u64, u64) {
        let mut f = flow();
        let mut cc = build("vegas", stack, params, &f).unwrap();
        round(cc.as_mut(), &mut f, 1, 100); // sets the base RTT and begins a round
        f.snd_nxt = f.snd_una + 4 * MSS;
        let before = cc.trace().cwnd / MSS;
        round(cc.as_mut(), &mut f, 12, ms);
        (before, cc.trace().cwnd / MSS)
    }

    #[test]
    fn window_grows_below_alpha_and_shrinks_above_beta() {
        // W = 20, base 100 ms: backlog 20 (RTT - 100) / 100, so 110 ms is 2 and 124 ms is 4.8.
        assert_eq!(decide("linux", "", 100), (20, 22)); // two rounds: one segment each
        assert_eq!(decide("linux", "", 109), (20, 22));
        assert_eq!(decide("linux", "", 110), (20, 20));
        assert_eq!(decide("linux", "", 124), (20, 20));
        assert_eq!(decide("linux", "", 125), (20, 19)); // then 19 * 25 / 100 = 4: hold
        assert_eq!(decide("linux", "alpha = 3", 110), (20, 22)); // backlog 2, then 2.1: both below 3
    }

    #[test]
    fn slow_start_ends_above_gamma_at_the_achieved_rate() {
        let mut f = flow();
        f.initial_ssthresh = u64::MAX;
        let mut cc = build("vegas", "linux", "", &f).unwrap();
        round(cc.as_mut(), &mut f, 3, 100);
        let w = cc.trace().cwnd / MSS;
        f.snd_una = f.snd_nxt;
        f.snd_nxt += 10 * MSS;
        cc.on_ack(&f, &ack(200));
        cc.on_ack(&f, &ack(200));
        f.snd_una += 10 * MSS + 1;
        cc.on_ack(&f, &ack(200));
        assert!(w > 20);
        let v = cc.trace();
        assert!(v.ssthresh < u64::MAX);
        assert!(v.cwnd >= w / 2 * MSS && v.cwnd <= (w / 2 + 3) * MSS, "{w} -> {v:?}");
        assert_eq!(v.phase, "vegas");
    }

    #[test]
    fn ns3_measures_the_papers_backlog() {
        // 1 - 100/110 = 9.09 % of 20 = 1.8, rounded up to 2: hold; 104 ms: 0.77 -> 1: grow.
        assert_eq!(decide("ns3", "", 110).1, 20);
        assert!(decide("ns3", "", 104).1 > 20);
        // 125 ms: 4 of 20 wait: hold; 126 ms: 4.13 -> 5: shrink.
        assert_eq!(decide("ns3", "", 125).1, 20);
        assert_eq!(decide("ns3", "", 126).1, 19);
    }

    #[test]
    fn ssthresh_after_a_loss_depends_on_the_stack() {
        let f = flow();
        let mut cc = build("vegas", "linux", "", &f).unwrap();
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.trace().ssthresh, 10 * MSS);
        let mut cc = build("vegas", "ns3", "", &Flow { initial_ssthresh: u64::MAX, ..f.clone() }).unwrap();
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.trace().ssthresh, 19 * MSS);
        cc.on_congestion(&f, Congestion::Timeout);
        cc.on_congestion(&f, Congestion::Timeout);
        assert_eq!((cc.trace().cwnd, cc.trace().ssthresh), (MSS, 2 * MSS));
    }

    #[test]
    fn vegas_acts_as_reno_until_open_again() {
        let mut f = flow();
        let mut cc = build("vegas", "linux", "", &f).unwrap();
        cc.on_congestion(&f, Congestion::Timeout);
        f.state = CongestionState::Loss;
        round(cc.as_mut(), &mut f, 5, 900);
        assert_eq!(cc.trace().cwnd, 6 * MSS);
        f.state = CongestionState::Open;
        cc.on_recovered(&f);
        round(cc.as_mut(), &mut f, 1, 900);
        assert_eq!(cc.trace().cwnd, 7 * MSS); // active again, slow start continues within the round
    }

    #[test]
    fn extreme_inputs_do_not_panic() {
        for stack in ["linux", "ns3"] {
            let mut f = Flow { mss: 1, initial_window: 1, initial_ssthresh: 0, ..flow() };
            let mut cc = build("vegas", stack, "alpha = 0\nbeta = 0\nmin_samples = 0", &f).unwrap();
            for i in 0..1000u64 {
                f.now = Time::from_secs(i * 1000);
                f.snd_una += 1;
                f.snd_nxt += 1;
                let rtt = [None, Some(Time::ZERO), Some(Time(1)), Some(Time::MAX)][i as usize % 4];
                cc.on_ack(&f, &Ack { rtt, ..ack(0) });
                if i % 100 == 0 {
                    cc.on_congestion(&f, Congestion::Loss);
                    cc.on_sent(&f, &Sent { seq: f.snd_nxt, len: 1, retransmission: false, tx_start: true });
                }
                assert!(cc.trace().cwnd >= 1);
            }
            let f = Flow { initial_window: 1 << 50, initial_ssthresh: 1, ..flow() };
            let mut cc = build("vegas", stack, "", &f).unwrap();
            for _ in 0..10 {
                cc.on_ack(&Flow { snd_una: 1 << 60, ..f.clone() }, &ack(1_000_000));
            }
        }
        assert!(build("vegas", "linux", "alpha = 5", &flow()).is_err());
    }
}
