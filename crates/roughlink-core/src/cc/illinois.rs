//! Illinois: additive increase alpha and multiplicative decrease beta that follow the queueing delay (Liu, Basar,
//! Srikant, "TCP-Illinois: A Loss and Delay-Based Congestion Control Algorithm for High-Speed Networks", VALUETOOLS
//! 2006 / Performance Evaluation 65, 2008; the curves of the V2G paper's figures 9 and 10).
//!
//! Defaults are Linux's `tcp_illinois`, with real numbers instead of the kernel's fixed point (alpha in 1/128, beta in
//! 1/64, so its alpha_min is 0.297). `illinois-aa` (V2G paper) is the same with alpha 11 to 1 and beta .025 to .5.
//! `ns3` has delays in whole milliseconds and a window threshold that is always exceeded (it compares bytes with
//! segments). Credit counts whole segments: below alpha = 0.5 an ACK for two segments adds nothing. A loss reduces the
//! bytes in flight. Rounds of low delay also count while alpha is at its maximum.

use super::entry::BuildAlgorithm;
use super::window::{Halve, Window};
use super::{Ack, AlgorithmTrace, Congestion, CongestionControl, CongestionState, Flow, Permit};
use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Parameters of [`Illinois`]. Delays `d1`, `d2`, `d3` are parts of the largest queueing delay seen.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Increase in segments per round at no queueing delay.
    pub alpha_max: f64,
    /// Increase at the largest queueing delay.
    pub alpha_min: f64,
    /// Increase below `win_thresh` and after a time-out.
    pub alpha_base: f64,
    /// Part of the window that a loss removes at a low queueing delay.
    pub beta_min: f64,
    /// Part of the window that a loss removes at a high queueing delay.
    pub beta_max: f64,
    /// Part of the window that a loss removes below `win_thresh` and after a time-out.
    pub beta_base: f64,
    /// Delay up to which alpha is `alpha_max`, as a share of the largest queueing delay.
    pub d1: f64,
    /// Delay up to which beta is `beta_min`, as a share of the largest queueing delay.
    pub d2: f64,
    /// Delay from which beta is `beta_max`, as a share of the largest queueing delay.
    pub d3: f64,
    /// Window in segments from which alpha and beta adapt.
    pub win_thresh: u32,
    /// Rounds of low delay before alpha returns to `alpha_max`.
    pub theta: u32,
    /// Upper limit of RTT samples (Linux: 2^32 / 1280 us); 0 = no limit.
    pub rtt_limit_ms: f64,
    /// Truncate queueing delays to milliseconds (ns-3).
    pub whole_milliseconds: bool,
    /// Truncate the credit toward the next increase to whole segments at every ACK (ns-3).
    pub whole_credit: bool,
    /// Count rounds of low delay even if the delay has not exceeded `d1` since alpha returned to `alpha_max` (ns-3).
    pub count_always: bool,
    /// Slow start counts acknowledged segments (Linux) instead of ACKs (ns-3).
    pub abc: bool,
    /// With `abc`, maximum number of segments that one ACK adds in slow start: L of RFC 3465, 1 in RFC 5681; 0 = all
    /// acknowledged segments (Linux).
    pub slow_start_limit: u64,
    /// Quantity that a loss reduces.
    pub halve: Halve,
    /// End a round with the ACK that reaches its right edge (ns-3) instead of the ACK that passes it (Linux).
    pub round_at_edge: bool,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            alpha_max: 10.0,
            alpha_min: 0.3,
            alpha_base: 1.0,
            beta_min: 0.125,
            beta_max: 0.5,
            beta_base: 0.5,
            d1: 0.01,
            d2: 0.1,
            d3: 0.8,
            win_thresh: 15,
            theta: 5,
            rtt_limit_ms: 3355.443,
            whole_milliseconds: false,
            whole_credit: false,
            count_always: false,
            abc: true,
            slow_start_limit: 0,
            halve: Halve::Cwnd,
            round_at_edge: false,
        }
    }
}

impl Params {
    /// Returns the increase at average queueing delay `da` with largest delay `dm` (figure 9): kappa1 / (kappa2 + da)
    /// beyond `d1`, continuous at `d1`.
    ///
    /// ```
    /// use roughlink_core::cc::illinois::Params;
    ///
    /// let params = Params::default();
    /// assert_eq!(params.alpha(0.0, 100.0), 10.0); // empty queue
    /// assert!((params.alpha(100.0, 100.0) - 0.3).abs() < 1e-9); // full queue
    /// assert_eq!((params.beta(0.0, 100.0), params.beta(100.0, 100.0)), (0.125, 0.5));
    /// ```
    pub fn alpha(&self, da: f64, dm: f64) -> f64 {
        let d1 = self.d1 * dm;
        if da <= d1 || self.alpha_max <= self.alpha_min {
            return self.alpha_max;
        }
        // kappa1 = (dm - d1) amin amax / (amax - amin), kappa2 = (dm - d1) amin / (amax - amin) - d1; both multiplied
        // by (amax - amin) / amin.
        let (dm, da) = (dm - d1, da - d1);
        dm * self.alpha_max / (dm + da * (self.alpha_max - self.alpha_min) / self.alpha_min)
    }

    /// Returns the part of the window that a loss removes at average queueing delay `da` (figure 9): kappa3 + kappa4 da
    /// between `d2` and `d3`.
    pub fn beta(&self, da: f64, dm: f64) -> f64 {
        let (d2, d3) = (self.d2 * dm, self.d3 * dm);
        if da <= d2 {
            self.beta_min
        } else if da >= d3 {
            self.beta_max
        } else {
            (self.beta_min * d3 - self.beta_max * d2 + (self.beta_max - self.beta_min) * da) / (d3 - d2)
        }
    }
}

/// Parameters of `illinois-aa` (V2G paper, figure 10). Beta is low up to d2, as in the figures; the text says "d < d1".
pub const ADDED_AGGRESSIVENESS: &str = "alpha_max = 11.0\nalpha_min = 1.0\nbeta_min = 0.025\nbeta_max = 0.5";

/// The `ns3` preset.
pub const NS3: &str = "win_thresh = 0\nrtt_limit_ms = 0.0\nwhole_milliseconds = true\nwhole_credit = true\n\
                       count_always = true\nabc = false\nhalve = \"flight\"\nround_at_edge = true";

/// The algorithm.
#[derive(Clone, Debug)]
pub struct Illinois {
    window: Window,
    params: Arc<Params>,
    rtt_limit: Time,
    alpha: f64,
    beta: f64,
    base_rtt: Time,
    max_rtt: Time,
    sum_rtt: u128,
    samples: u32,
    round_end: u64,
    /// True if the delay has left the low zone since alpha was last at its maximum.
    above: bool,
    /// Number of rounds in the low zone.
    low: u32,
    /// Segments (Linux) or credit in segments (ns-3) since the last increase.
    credit: u64,
}

impl BuildAlgorithm for Illinois {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        let all = [p.alpha_max, p.alpha_min, p.alpha_base, p.beta_min, p.beta_max, p.beta_base, p.d1, p.d2, p.d3];
        if all.iter().chain([&p.rtt_limit_ms]).any(|x| !x.is_finite() || *x < 0.0) {
            Err("all numbers must be finite and at least 0".into())
        } else if p.alpha_min == 0.0 || p.alpha_max < p.alpha_min {
            Err("0 < alpha_min <= alpha_max is required".into())
        } else if p.beta_max < p.beta_min || p.beta_max > 1.0 || p.beta_base > 1.0 {
            Err("beta_min <= beta_max <= 1 and beta_base <= 1 are required".into())
        } else if p.d1 >= 1.0 || p.d2 > p.d3 {
            Err("d1 < 1 and d2 <= d3 are required".into())
        } else {
            Ok(())
        }
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        Illinois {
            window: Window::with_slow_start_limit(flow, params.slow_start_limit),
            params: Arc::clone(params),
            rtt_limit: if params.rtt_limit_ms > 0.0 {
                Time::from_secs_f64(params.rtt_limit_ms / 1e3)
            } else {
                Time::MAX
            },
            alpha: params.alpha_max,
            beta: params.beta_base,
            base_rtt: Time::MAX,
            max_rtt: Time::ZERO,
            sum_rtt: 0,
            samples: 0,
            round_end: flow.snd_nxt,
            above: false,
            low: 0,
            credit: 0,
        }
    }
}

impl CongestionControl for Illinois {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        if let Some(rtt) = ack.rtt.filter(|t| !t.is_zero()) {
            self.sample(rtt);
        }
        let progress = ack.may_grow || (flow.state == CongestionState::Open && ack.acked > 0);
        let edge = flow.snd_una == self.round_end && self.params.round_at_edge;
        if progress && (flow.snd_una > self.round_end || edge) {
            self.adapt(flow.mss);
            self.new_round(flow.snd_nxt);
        }
        if !ack.may_grow || ack.segments == 0 {
            return;
        }
        let mss = u64::from(flow.mss);
        if self.window.in_slow_start() {
            if self.params.abc {
                self.window.slow_start(u64::from(ack.segments) * mss);
            } else {
                self.window.cwnd += mss;
            }
        } else {
            self.increase(flow.mss, ack.segments);
        }
    }

    /// Applies `W <- W - beta W` (V2G paper, equation 2); after a timeout the window is one segment (equation 3).
    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        let mss = u64::from(flow.mss);
        let left = match self.params.halve {
            Halve::Cwnd => {
                let w = self.window.segments(flow.mss);
                w - ((w as f64 * self.beta) as u64).min(w)
            }
            Halve::Flight => ((1.0 - self.beta) * (flow.in_flight / mss) as f64) as u64,
            Halve::Outstanding => ((1.0 - self.beta) * (flow.outstanding.min(self.window.cwnd) / mss) as f64) as u64,
            Halve::Unacknowledged => ((1.0 - self.beta) * (flow.outstanding / mss) as f64) as u64,
        };
        self.window.reduce(flow, cause, left.max(2) * mss);
        if !self.params.whole_credit {
            self.credit = 0;
        }
        if cause.is_timeout() {
            self.alpha = self.params.alpha_base;
            self.beta = self.params.beta_base;
            self.low = 0;
            self.above = false;
            self.new_round(flow.snd_nxt);
        }
    }

    fn permit(&self, flow: &Flow) -> Permit {
        Permit::window(flow.window(self.window.cwnd))
    }

    fn lower_window(&mut self, _flow: &Flow, cwnd: u64, ssthresh: u64) {
        self.window.lower(cwnd, ssthresh);
    }

    fn trace(&self) -> AlgorithmTrace {
        let phase = if self.window.in_slow_start() { "slow start" } else { "congestion avoidance" };
        AlgorithmTrace { cwnd: self.window.cwnd, ssthresh: self.window.ssthresh, rate: None, phase }
    }

    fn on_undo(&mut self, _flow: &Flow) {
        self.window.undo();
    }
}

impl Illinois {
    fn sample(&mut self, rtt: Time) {
        let rtt = rtt.min(self.rtt_limit);
        self.base_rtt = self.base_rtt.min(rtt);
        self.max_rtt = self.max_rtt.max(rtt);
        self.sum_rtt += u128::from(rtt.0);
        self.samples += 1;
    }

    fn new_round(&mut self, edge: u64) {
        self.round_end = edge;
        self.samples = 0;
        self.sum_rtt = 0;
    }

    /// Computes alpha and beta from the delays of the past round.
    fn adapt(&mut self, mss: u32) {
        if self.window.cwnd < u64::from(self.params.win_thresh) * u64::from(mss) {
            self.alpha = self.params.alpha_base;
            self.beta = self.params.beta_base;
        } else if self.samples > 0 {
            let average = Time((self.sum_rtt / u128::from(self.samples)) as u64);
            let da = self.delay(average.saturating_sub(self.base_rtt));
            let dm = self.delay(self.max_rtt.saturating_sub(self.base_rtt));
            if da > self.params.d1 * dm {
                self.above = true;
                self.alpha = self.params.alpha(da, dm);
            } else {
                self.low_delay();
            }
            self.beta = self.params.beta(da, dm);
        }
    }

    /// Resets alpha to `alpha_max`, after `theta` rounds if the delay had been higher.
    fn low_delay(&mut self) {
        if !self.above {
            self.alpha = self.params.alpha_max;
            if !self.params.count_always {
                return;
            }
        }
        self.low += 1;
        if self.low >= self.params.theta {
            self.low = 0;
            self.above = false;
            self.alpha = self.params.alpha_max;
        }
    }

    /// Returns a delay in microseconds, or in whole milliseconds.
    fn delay(&self, d: Time) -> f64 {
        if self.params.whole_milliseconds { d.as_millis() as f64 } else { d.0 as f64 / 1e3 }
    }

    /// Applies `W <- W + alpha / W` (V2G paper, equation 1) per segment, like Linux and ns-3, instead of per ACK.
    fn increase(&mut self, mss: u32, segments: u32) {
        let mut w = self.window.segments(mss);
        if self.params.whole_credit {
            self.credit = (self.credit as f64 + f64::from(segments) * self.alpha) as u64;
            let before = w;
            while self.credit >= w {
                self.credit -= w;
                w += 1;
            }
            if w != before {
                self.window.cwnd = w * u64::from(mss);
            }
        } else {
            self.credit += u64::from(segments);
            let earned = (self.credit as f64 * self.alpha) as u64;
            if earned >= w {
                self.window.cwnd += earned / w * u64::from(mss);
                self.credit = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;

    const MSS: u64 = 1000;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }
    fn aa() -> Params {
        super::super::algorithm("illinois-aa").unwrap().parameters("linux").try_into().unwrap()
    }

    #[test]
    fn curves_match_figure_9() {
        let p = Params::default();
        let dm = 1000.0;
        // alpha: 10 up to d1 = .01 dm, continuous there, 0.3 at dm, decreasing and convex in between.
        assert!(close(p.alpha(0.0, dm), 10.0) && close(p.alpha(10.0, dm), 10.0));
        assert!(p.alpha(10.001, dm) > 9.999 - 0.005);
        assert!(close(p.alpha(dm, dm), 0.3));
        let a: Vec<f64> = (1..=100).map(|i| p.alpha(f64::from(i) * 10.0, dm)).collect();
        assert!(a.windows(2).all(|w| w[1] < w[0]) && a.windows(3).all(|w| w[0] - w[1] > w[1] - w[2]));
        // "In most network conditions alpha > 1": up to 29 % of the largest delay.
        assert!(p.alpha(285.0, dm) > 1.0 && p.alpha(290.0, dm) < 1.0);
        // beta: .125 up to d2 = .1 dm, .5 from d3 = .8 dm on, linear between.
        assert!(close(p.beta(0.0, dm), 0.125) && close(p.beta(100.0, dm), 0.125));
        assert!(close(p.beta(450.0, dm), 0.3125));
        assert!(close(p.beta(800.0, dm), 0.5) && close(p.beta(dm, dm), 0.5));
        assert!(p.beta(799.999, dm) > 0.4999);
        // No delay so far: the low-delay values.
        assert!(close(p.alpha(0.0, 0.0), 10.0) && close(p.beta(0.0, 0.0), 0.125));
    }

    #[test]
    fn curves_match_figure_10() {
        let p = aa();
        let dm = 1000.0;
        assert!(close(p.alpha(10.0, dm), 11.0) && close(p.alpha(dm, dm), 1.0));
        assert!(close(p.beta(100.0, dm), 0.025) && close(p.beta(800.0, dm), 0.5));
        assert!((0..=100).all(|i| p.alpha(f64::from(i) * 10.0, dm) >= 1.0 - 1e-9)); // never below NewReno
    }

    #[test]
    fn window_ratios_match_equation_5() {
        let ratio = |p: &Params| libm::sqrt(p.alpha_max / (2.0 * p.beta_min));
        assert_eq!(format!("{:.1} {:.1}", ratio(&Params::default()), ratio(&aa())), "6.3 14.8");
    }

    fn flow() -> Flow {
        Flow { mss: MSS as u32, initial_window: 40 * MSS, initial_ssthresh: 10 * MSS, ..Flow::default() }
    }
    /// Delivers a round of `n` ACKs of one segment with an RTT of `ms`; alpha and beta adapt at its first ACK.
    fn round(cc: &mut Illinois, f: &mut Flow, n: u32, ms: u64) {
        f.snd_una = f.snd_nxt;
        f.snd_nxt += u64::from(n) * MSS;
        for _ in 0..n {
            f.snd_una += 1;
            let rtt = Some(Time::from_millis(ms));
            cc.on_ack(f, &Ack { acked: MSS, segments: 1, rtt, may_grow: true, ..Ack::default() });
        }
    }

    #[test]
    fn full_growth_returns_after_five_rounds_of_low_delay() {
        let (mut f, mut cc) = (flow(), Illinois::new(&Arc::new(Params::default()), &flow()));
        round(&mut cc, &mut f, 10, 100);
        assert!(close(cc.alpha, 10.0));
        round(&mut cc, &mut f, 10, 200);
        assert!(cc.alpha < 10.0); // delay of 10 ms: nine RTTs of 100 ms, one of 200 ms
        round(&mut cc, &mut f, 10, 100);
        let high = cc.alpha; // delay of 90 ms: nine RTTs of 200 ms, one of 100 ms
        assert!(high < 0.4 && close(cc.beta, 0.5), "{high} {}", cc.beta);
        for _ in 0..4 {
            round(&mut cc, &mut f, 10, 100);
            assert!(close(cc.alpha, high) && close(cc.beta, 0.125));
        }
        round(&mut cc, &mut f, 10, 100);
        assert!(close(cc.alpha, 10.0), "{}", cc.alpha);
    }

    #[test]
    fn window_grows_ten_segments_per_round_at_low_delay() {
        let (mut f, mut cc) = (flow(), Illinois::new(&Arc::new(Params::default()), &flow()));
        round(&mut cc, &mut f, 1, 100);
        round(&mut cc, &mut f, 39, 100);
        // As in Linux, each increase discards the remaining credit, so the window grows by 8 segments instead of 10.
        assert_eq!(cc.window.cwnd / MSS, 48);
        // A loss removes an eighth.
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.trace().ssthresh / MSS, 42);
    }

    #[test]
    fn small_windows_and_timeouts_use_base_values() {
        let small = Flow { initial_window: 14 * MSS, ..flow() };
        let (mut f, mut cc) = (small.clone(), Illinois::new(&Arc::new(Params::default()), &small));
        for _ in 0..3 {
            round(&mut cc, &mut f, 2, 100);
        }
        assert!(close(cc.alpha, 1.0) && close(cc.beta, 0.5));
        let (mut f, mut cc) = (flow(), Illinois::new(&Arc::new(Params::default()), &flow()));
        round(&mut cc, &mut f, 5, 100);
        round(&mut cc, &mut f, 5, 100);
        assert!(close(cc.beta, 0.125));
        cc.on_congestion(&f, Congestion::Timeout); // reduced with the previous beta
        assert_eq!((cc.trace().cwnd, cc.trace().ssthresh / MSS), (MSS, 37)); // 42 - 5
        assert!(close(cc.alpha, 1.0) && close(cc.beta, 0.5));
    }

    #[test]
    fn ns3_deviations_are_reproduced() {
        let ns3: Params = super::super::algorithm("illinois").unwrap().parameters("ns3").try_into().unwrap();
        // The threshold is always exceeded, so alpha and beta adapt even at a window of two segments.
        let small = Flow { initial_window: 2 * MSS, initial_ssthresh: 2 * MSS, ..flow() };
        let (mut f, mut cc) = (small.clone(), Illinois::new(&Arc::new(ns3.clone()), &small));
        round(&mut cc, &mut f, 2, 100);
        round(&mut cc, &mut f, 2, 100);
        assert!(close(cc.alpha, 10.0) && close(cc.beta, 0.125));
        // With alpha below 0.5, the credit of an ACK for two segments is truncated to zero.
        cc.alpha = 0.49;
        let before = cc.window.cwnd;
        for _ in 0..1000 {
            cc.increase(MSS as u32, 2);
        }
        assert_eq!(cc.window.cwnd, before);
        // The reduction starts from the bytes in flight: (1 - 1/8) 10 = 8.75.
        f.in_flight = 10_900;
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.trace().ssthresh, 8 * MSS);
        assert!(close(cc.delay(Time::from_micros(2999)), 2.0));
    }

    #[test]
    fn extreme_inputs_do_not_panic() {
        for stack in ["linux", "ns3", "ns2"] {
            for window in [1, 1 << 50] {
                let mut f = Flow { mss: 1, initial_window: window, initial_ssthresh: 1, ..flow() };
                let mut cc = build("illinois-aa", stack, "win_thresh = 0", &f).unwrap();
                for i in 0..1000u64 {
                    f.now = Time::from_secs(i * 1000);
                    f.snd_una += 1;
                    f.snd_nxt += 1;
                    f.in_flight = i % 3;
                    let rtt = [None, Some(Time::ZERO), Some(Time(1)), Some(Time::MAX)][i as usize % 4];
                    let segments = [0, 1, u32::MAX][i as usize % 3].min(if window == 1 { 3 } else { u32::MAX });
                    cc.on_ack(&f, &Ack { acked: 1, segments, rtt, may_grow: i % 5 > 0, ..Ack::default() });
                    if i % 100 == 0 {
                        cc.on_congestion(&f, Congestion::Loss);
                    }
                    assert!(cc.trace().cwnd >= 1);
                }
            }
        }
        for wrong in
            ["alpha_min = 0.0", "alpha_max = 0.1", "beta_max = 1.5", "d1 = 1.0", "d3 = 0.05", "alpha_max = inf"]
        {
            assert!(build("illinois", "linux", wrong, &flow()).is_err(), "{wrong}");
        }
        assert!(build("illinois", "linux", "alpha_min = 10.0", &flow()).is_ok());
    }
}
