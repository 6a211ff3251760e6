//! CUBIC (RFC 9438): the window is a cubic function of the time since the last congestion event, with its plateau at
//! the window of that event.
//!
//! `arithmetic` selects one of three implementations:
//!
//! - `linux` (default): `tcp_cubic` of Linux 6.x. Whole segments; time in jiffies (1 ms). The curve becomes a *count*
//!   of acknowledged segments per segment of growth, renewed when the window changes or every 1/32 s. The Reno-friendly
//!   window grows by 8/15 segments per window, because Linux truncates 8 / alpha_cubic (alpha_cubic = 9/17) to 15.
//!   alpha_cubic never becomes 1. Classic HyStart.
//! - `ns3`: ns-3 3.44's TcpCubic, an older copy of Linux's code. The count is renewed on every ACK; beta and C are not
//!   rounded. Delay samples are ignored for 10 ms after an epoch begins, not 1 s (`settle_ms`). A time-out keeps the
//!   last maximum. The window grows only while it limits the sender, and slow start may overshoot ssthresh. HyStart
//!   ends slow start only after a train as long as the minimum RTT or at twice that RTT, and samples the *smoothed*
//!   RTT.
//! - `rfc`: RFC 9438 as written, in real numbers, from FlightSize, with HyStart++ (preset). An ACK counts once for each
//!   segment that it covers.

use super::entry::BuildAlgorithm;
use super::hystart::{self, HyStart, HystartVariant};
use super::window::{self, Window};
use super::{Ack, AlgorithmTrace, Congestion, CongestionControl, Flow, OptionalEvents, Permit, Sent};
use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod counted;
mod real;

use counted::Counted;
use real::Real;
use std::sync::Arc;

/// Parameters of [`Cubic`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// C of the curve, segments / s^3 (RFC 9438 section 5).
    pub c: f64,
    /// Part of the window that remains after a loss (section 4.6).
    pub beta: f64,
    /// A loss below the last maximum lowers the new maximum further (section 4.7).
    pub fast_convergence: bool,
    /// Grow at least as Reno would (section 4.3).
    pub reno_friendly: bool,
    /// Before the first loss, maximum number of acknowledged segments per segment of growth: 20 = at least 5 % per RTT
    /// (not `rfc`).
    pub first_count: u64,
    /// Time after the start of an epoch during which RTT samples are ignored, milliseconds (not `rfc`).
    pub settle_ms: u64,
    /// Implementation whose arithmetic applies.
    pub arithmetic: CubicArithmetic,
    /// Method to end slow start before a loss.
    pub hystart: HystartVariant,
    /// Classic HyStart: smallest window at which it acts, segments.
    pub hystart_low_window: u64,
    /// Classic HyStart: largest distance between the ACKs of a train, microseconds.
    pub hystart_ack_delta_us: u64,
    /// Classic HyStart: divisor of the minimum RTT that gives the length of the train that ends slow start.
    pub hystart_train_divisor: u64,
    /// Smallest threshold for an increase of delay, microseconds (RFC 9406 MIN_RTT_THRESH).
    pub hystart_delay_min_us: u64,
    /// Largest threshold for an increase of delay, microseconds (MAX_RTT_THRESH).
    pub hystart_delay_max_us: u64,
    /// Divisor of the RTT that gives the threshold between `hystart_delay_min_us` and `hystart_delay_max_us`
    /// (MIN_RTT_DIVISOR).
    pub hystart_delay_divisor: u64,
    /// RTT samples needed per round (N_RTT_SAMPLE).
    pub hystart_samples: u32,
    /// HyStart++: maximum number of segments that one ACK adds (L).
    pub hystart_limit: u64,
    /// HyStart++: growth in conservative slow start is divided by this (CSS_GROWTH_DIVISOR).
    pub hystart_css_growth_divisor: u64,
    /// HyStart++: rounds of conservative slow start (CSS_ROUNDS).
    pub hystart_css_rounds: u32,
}

/// Implementation of CUBIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CubicArithmetic {
    /// Linux 6.x.
    #[default]
    Linux,
    /// ns-3 3.44.
    Ns3,
    /// RFC 9438.
    Rfc,
}

impl Default for Params {
    fn default() -> Self {
        let h = hystart::Params::default();
        Params {
            c: 0.4,
            beta: 0.7,
            fast_convergence: true,
            reno_friendly: true,
            first_count: 20,
            settle_ms: 1000,
            arithmetic: CubicArithmetic::Linux,
            hystart: h.mode,
            hystart_low_window: h.low_window,
            hystart_ack_delta_us: h.ack_delta.as_micros(),
            hystart_train_divisor: h.train_divisor,
            hystart_delay_min_us: h.delay_min.as_micros(),
            hystart_delay_max_us: h.delay_max.as_micros(),
            hystart_delay_divisor: h.delay_divisor,
            hystart_samples: h.samples,
            hystart_limit: h.limit,
            hystart_css_growth_divisor: h.css_growth_divisor,
            hystart_css_rounds: h.css_rounds,
        }
    }
}

/// The `ns3` preset.
pub const NS3: &str = "arithmetic = \"ns3\"\nsettle_ms = 10\nhystart_train_divisor = 1\nhystart_delay_divisor = 1\n\
                       hystart_delay_max_us = 1000000";
/// The `rfc` preset.
pub const RFC: &str = "arithmetic = \"rfc\"\nhystart = \"plusplus\"";

/// The algorithm.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: Window,
    hystart: HyStart,
    curve: CubicCurve,
    phase: &'static str,
    params: Arc<Params>,
}

#[derive(Clone, Debug)]
enum CubicCurve {
    Counted(Counted),
    Real { now: Real, before: Real },
}

impl BuildAlgorithm for Cubic {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if !(p.beta > 0.0 && p.beta < 1.0) {
            Err("`beta` must be greater than 0 and less than 1".into())
        } else if !(p.c > 0.0 && p.c.is_finite()) {
            Err("`c` must be greater than zero".into())
        } else if p.arithmetic == CubicArithmetic::Linux && p.beta > 1023.0 / 1024.0 {
            Err("`beta` must be at most 1023/1024: Linux counts in 1024ths".into())
        } else if p.first_count == 0 {
            Err("`first_count` must be at least 1".into())
        } else {
            p.hystart_params().check()
        }
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        Cubic {
            window: Window::new(flow),
            hystart: HyStart::new(params.hystart_params(), flow),
            curve: match params.arithmetic {
                CubicArithmetic::Rfc => CubicCurve::Real { now: Real::default(), before: Real::default() },
                _ => CubicCurve::Counted(Counted::new(params)),
            },
            phase: CONCAVE,
            params: Arc::clone(params),
        }
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        let min_rtt = match &mut self.curve {
            CubicCurve::Counted(c) => c.measure(&self.params, flow, ack),
            CubicCurve::Real { .. } => Some(flow.min_rtt),
        };
        // ns-3 runs HyStart until the window exceeds ssthresh.
        let at_limit = self.params.arithmetic == CubicArithmetic::Ns3 && self.window.cwnd == self.window.ssthresh;
        if (self.window.in_slow_start() || at_limit)
            && (min_rtt.is_some() || self.params.hystart == HystartVariant::PlusPlus)
        {
            self.hystart.on_ack(flow, ack, &mut self.window, min_rtt.unwrap_or(flow.min_rtt));
        }
        if !ack.may_grow || ack.segments == 0 || (self.params.arithmetic == CubicArithmetic::Ns3 && !flow.cwnd_limited)
        {
            return;
        }
        let mut segments = u64::from(ack.segments);
        if self.window.in_slow_start() {
            segments = self.hystart.slow_start(flow, &mut self.window, segments);
        }
        if segments == 0 {
            return;
        }
        self.phase = match &mut self.curve {
            CubicCurve::Counted(c) => c.grow(&self.params, &mut self.window, flow, segments),
            CubicCurve::Real { now, .. } => now.grow(&self.params, &mut self.window, flow, segments),
        };
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        let mss = u64::from(flow.mss);
        let ssthresh = match &mut self.curve {
            CubicCurve::Counted(c) => c.reduce(&self.params, self.window.segments(flow.mss), cause) * mss,
            CubicCurve::Real { now, before } => {
                if cause != Congestion::TimeoutAgain {
                    *before = *now;
                }
                now.reduce(&self.params, window::in_segments(self.window.cwnd, flow.mss), cause);
                // Section 4.6, Figure 5. FlightSize excludes segments beyond the window (RFC 5681 section 3.2).
                let flight = flow.outstanding.min(self.window.cwnd);
                ((flight as f64 * self.params.beta) as u64).max(2 * mss)
            }
        };
        self.window.reduce(flow, cause, ssthresh);
        self.hystart.on_congestion(flow, cause);
    }

    fn optional_events(&self) -> OptionalEvents {
        OptionalEvents { sent: true, ..OptionalEvents::ACKS }
    }

    fn permit(&self, flow: &Flow) -> Permit {
        Permit::window(flow.window(self.window.cwnd))
    }

    fn lower_window(&mut self, _flow: &Flow, cwnd: u64, ssthresh: u64) {
        self.window.lower(cwnd, ssthresh);
    }

    fn trace(&self) -> AlgorithmTrace {
        let phase = match self.window.in_slow_start() {
            true if self.hystart.in_css() => "conservative slow start",
            true => "slow start",
            false => self.phase,
        };
        AlgorithmTrace { cwnd: self.window.cwnd, ssthresh: self.window.ssthresh, rate: None, phase }
    }

    fn on_undo(&mut self, _flow: &Flow) {
        self.window.undo();
        if let CubicCurve::Real { now, before } = &mut self.curve {
            *now = *before; // section 4.9
        }
    }

    fn on_sent(&mut self, flow: &Flow, sent: &Sent) {
        if let CubicCurve::Counted(c) = &mut self.curve {
            if sent.tx_start && self.params.arithmetic == CubicArithmetic::Linux {
                c.idle_until(flow.now);
            }
            c.last_sent = flow.now;
        }
    }
}

impl Params {
    fn hystart_params(&self) -> hystart::Params {
        hystart::Params {
            mode: self.hystart,
            low_window: self.hystart_low_window,
            ack_delta: Time::from_micros(self.hystart_ack_delta_us),
            train_divisor: self.hystart_train_divisor,
            delay_min: Time::from_micros(self.hystart_delay_min_us),
            delay_max: Time::from_micros(self.hystart_delay_max_us),
            delay_divisor: self.hystart_delay_divisor,
            samples: self.hystart_samples,
            limit: self.hystart_limit,
            css_growth_divisor: self.hystart_css_growth_divisor,
            css_rounds: self.hystart_css_rounds,
            arithmetic: match self.arithmetic {
                CubicArithmetic::Ns3 => window::Arithmetic::Ns3,
                _ => window::Arithmetic::Linux,
            },
        }
    }
}

const CONCAVE: &str = "concave";
const CONVEX: &str = "convex";
const FRIENDLY: &str = "Reno-friendly";

#[cfg(test)]
mod tests {
    use super::super::{CongestionState, build};
    use super::*;

    fn flow(segments: u64) -> Flow {
        Flow {
            mss: 1000,
            initial_window: segments * 1000,
            initial_ssthresh: segments * 1000,
            srtt: Time::from_millis(100),
            min_rtt: Time::from_millis(100),
            cwnd_limited: true,
            ..Flow::default()
        }
    }
    fn ack(segments: u32) -> Ack {
        Ack {
            acked: u64::from(segments) * 1000,
            segments,
            may_grow: true,
            rtt: Some(Time::from_millis(100)),
            ..Ack::default()
        }
    }
    fn at(f: &Flow, seconds: f64) -> Flow {
        Flow { now: Time::from_secs_f64(seconds), ..f.clone() }
    }
    fn params(stack: &str) -> Params {
        toml::from_str(match stack {
            "ns3" => NS3,
            "rfc" => RFC,
            _ => "",
        })
        .unwrap()
    }
    const STACKS: [&str; 3] = ["linux", "ns3", "rfc"];

    /// Acknowledges a window per RTT of 100 ms, segment by segment, for `seconds`.
    fn run(cc: &mut dyn CongestionControl, f: &mut Flow, seconds: f64) -> u64 {
        let end = f.now + Time::from_secs_f64(seconds);
        while f.now < end {
            f.now += Time(100_000_000 * 1000 / cc.trace().cwnd);
            f.outstanding = cc.trace().cwnd;
            cc.on_ack(f, &ack(1));
        }
        cc.trace().cwnd / 1000
    }

    /// Figures 1 and 2: after a loss at 1000 segments the window is 700; K = (300 / 0.4)^(1/3) = 9.09 s later it is
    /// 1000 again, concave before, convex after; at t it is 0.4 (t - K)^3 + 1000, one RTT ahead.
    #[test]
    fn window_follows_the_cubic_function() {
        for stack in STACKS {
            let mut f = flow(1000);
            f.outstanding = 1_000_000;
            let mut cc = build("cubic", stack, "", &f).unwrap();
            cc.on_congestion(&f, Congestion::Loss);
            assert_eq!(cc.trace().ssthresh, 700_000, "{stack}");
            let mut t = 0.0;
            for until in [2.0, 5.0, 9.0, 12.0, 15.0] {
                let w = run(cc.as_mut(), &mut f, until - t) as f64;
                let want = 0.4 * (until + 0.1 - 9.086) * (until + 0.1 - 9.086) * (until + 0.1 - 9.086) + 1000.0;
                assert!((w - want).abs() < 12.0, "{stack} at {until} s: {w}, not {want}");
                assert_eq!(cc.trace().phase, if until < 9.08 { CONCAVE } else { CONVEX }, "{stack}");
                t = until;
            }
        }
    }

    /// Section 4.3: in small windows CUBIC grows as Reno, 9/17 of a segment per RTT (Linux and ns-3: 8/15).
    #[test]
    fn small_window_grows_as_reno() {
        for stack in STACKS {
            let mut f = flow(20);
            f.outstanding = 20_000;
            let mut cc = build("cubic", stack, "", &f).unwrap();
            cc.on_congestion(&f, Congestion::Loss);
            f.srtt = Time::from_millis(10);
            let mut acked = 0;
            // 14 to 20 segments: Reno needs 6 / 0.53 = 11 rounds.
            while cc.trace().cwnd < 19_900 {
                f.now += Time(10_000_000 * 1000 / cc.trace().cwnd);
                cc.on_ack(&f, &Ack { rtt: Some(f.srtt), ..ack(1) });
                acked += 1;
            }
            let rounds = acked as f64 / 17.0;
            assert!((10.0..13.5).contains(&rounds), "{stack}: {rounds}");
            assert_eq!(cc.trace().phase, FRIENDLY, "{stack}");
            let mut alone = build("cubic", stack, "reno_friendly = false", &flow(20)).unwrap();
            alone.on_congestion(&f, Congestion::Loss);
            for _ in 0..acked {
                f.now += Time(10_000_000 / 17);
                alone.on_ack(&f, &Ack { rtt: Some(f.srtt), ..ack(1) });
            }
            assert!(alone.trace().cwnd < 17_000, "{stack}: {}", alone.trace().cwnd);
        }
    }

    /// Section 4.6: otherwise a time-out in recovery, with twice the window outstanding, would raise ssthresh.
    #[test]
    fn ssthresh_depends_on_the_window_not_on_outstanding_data() {
        for stack in STACKS {
            let mut f = flow(20);
            f.in_flight = 20_000;
            f.outstanding = 55_000;
            let mut cc = build("cubic", stack, "", &f).unwrap();
            cc.on_congestion(&f, Congestion::Loss);
            assert_eq!(cc.trace().ssthresh, 14_000, "{stack}");
            f.state = CongestionState::Recovery;
            cc.on_congestion(&f, Congestion::Timeout);
            assert!(cc.trace().ssthresh < 10_000, "{stack}: {}", cc.trace().ssthresh);
        }
    }

    /// Section 4.3: once W_est has reached cwnd_prior, alpha_cubic is 1.
    #[test]
    fn reno_friendly_growth_is_a_segment_per_round_beyond_the_prior_window() {
        let mut f = flow(20);
        f.outstanding = 20_000;
        let p = params("rfc");
        let mut cc = Cubic::new(&Arc::new(p.clone()), &f);
        cc.on_congestion(&f, Congestion::Loss);
        let mut real = |acked| {
            cc.on_ack(&f, &ack(acked));
            let CubicCurve::Real { now, .. } = &cc.curve else { unreachable!() };
            now.w_est
        };
        assert!((real(1) - 14.0 - 9.0 / 17.0 / 14.0).abs() < 1e-9);
        while real(1) < 20.0 {}
        let before = real(1);
        assert!((real(1) - before - 1.0 / before).abs() < 2e-3);
    }

    /// Section 5.1, RTT 0.1 s: mean windows for a loss every 1/p segments. The run starts at the plateau, 1/0.925 of
    /// the mean, because the window approaches its steady state only slowly.
    #[test]
    fn mean_windows_match_the_rfc() {
        for (stack, interval, mean, tolerance) in [
            ("rfc", 10_000u64, 187.0, 0.05),
            ("rfc", 100_000, 1054.0, 0.05),
            ("linux", 10_000, 187.0, 0.05),
            ("linux", 100_000, 1054.0, 0.05),
            ("ns3", 100_000, 1054.0, 0.05),
            ("rfc", 1_000, 38.0, 0.12),
            ("linux", 1_000, 38.0, 0.12),
        ] {
            let mut f = flow((mean / 0.925) as u64);
            f.outstanding = f.initial_window;
            let mut cc = build("cubic", stack, "fast_convergence = false", &f).unwrap();
            cc.on_congestion(&f, Congestion::Loss);
            let (mut seconds, mut segments) = (0.0, 0);
            for cycle in 0..24 {
                for _ in 0..interval {
                    let gap = Time(100_000_000 * 1000 / cc.trace().cwnd);
                    f.now += gap;
                    cc.on_ack(&f, &ack(1));
                    if cycle >= 12 {
                        seconds += gap.as_secs_f64();
                        segments += 1;
                    }
                }
                f.outstanding = cc.trace().cwnd;
                cc.on_congestion(&f, Congestion::Loss);
            }
            let w = f64::from(segments) * 0.1 / seconds;
            assert!((w / mean - 1.0).abs() < tolerance, "{stack}, {interval}: {w}, not {mean}");
        }
    }

    #[test]
    fn fast_convergence_lowers_the_plateau() {
        // Linux uses 717/1024. ns-3 uses 0.7, which is slightly less in floating point.
        for (stack, second) in [("linux", 490), ("ns3", 489)] {
            let p = params(stack);
            let mut c = Counted::new(&p);
            assert_eq!(c.reduce(&p, 1000, Congestion::Loss), 700);
            assert_eq!(c.last_max, 1000);
            assert_eq!(c.reduce(&p, 700, Congestion::Loss), second);
            assert_eq!(c.last_max, 595, "{stack}");
        }
        let mut r = Real::default();
        r.reduce(&params("rfc"), 1000.0, Congestion::Loss);
        r.reduce(&params("rfc"), 700.0, Congestion::Loss);
        assert!((r.w_max.unwrap() - 595.0).abs() < 1e-9);
    }

    /// Section 4.8: the plateau after a time-out is where slow start ends.
    #[test]
    fn timeout_starts_a_new_curve() {
        for stack in STACKS {
            let mut f = flow(1000);
            f.outstanding = 1_000_000;
            let mut cc = build("cubic", stack, "hystart = \"off\"", &f).unwrap();
            cc.on_congestion(&f, Congestion::Timeout);
            assert_eq!((cc.trace().cwnd, cc.trace().ssthresh), (1_000, 700_000), "{stack}");
            while cc.trace().cwnd < 700_000 {
                cc.on_ack(&f, &ack(10));
            }
            let w = run(cc.as_mut(), &mut f, 1.0);
            assert!((700..1200).contains(&w), "{stack}: {w}");
            // Only ns-3 keeps the old plateau.
            assert_eq!(cc.trace().phase == CONCAVE, stack == "ns3", "{stack}");
        }
    }

    #[test]
    fn window_grows_by_at_most_half_per_round() {
        for stack in STACKS {
            let mut f = flow(100);
            f.outstanding = 100_000;
            let mut cc = build("cubic", stack, "", &f).unwrap();
            cc.on_congestion(&f, Congestion::Loss);
            cc.on_ack(&f, &ack(1));
            let late = at(&f, 1e6);
            let before = cc.trace().cwnd;
            for _ in 0..before / 1000 {
                cc.on_ack(&late, &ack(1));
            }
            let ratio = cc.trace().cwnd as f64 / before as f64;
            assert!((1.3..=1.66).contains(&ratio), "{stack}: {ratio}");
        }
    }

    #[test]
    fn idle_time_does_not_move_the_curve() {
        let mut f = flow(1000);
        let mut cc = Cubic::new(&Arc::new(params("linux")), &f);
        let sent = |tx_start| Sent { seq: 0, len: 1000, retransmission: false, tx_start };
        cc.on_congestion(&f, Congestion::Loss);
        cc.on_ack(&f, &ack(1));
        cc.on_sent(&f, &sent(false));
        f.now = Time::from_secs(100);
        cc.on_sent(&f, &sent(true));
        run(&mut cc, &mut f, 2.0);
        assert!((820..860).contains(&(cc.window.cwnd / 1000)), "{}", cc.window.cwnd);
    }

    #[test]
    fn hystart_ends_the_first_slow_start() {
        for (params, phase) in [("", CONVEX), ("hystart = \"plusplus\"", "conservative slow start")] {
            let mut f = flow(20);
            f.initial_ssthresh = u64::MAX;
            let mut cc = build("cubic", "linux", params, &f).unwrap();
            for round in 0..3u64 {
                let rtt = Time::from_millis(100 + 20 * round);
                let n = cc.trace().cwnd / 1000;
                f.snd_nxt = f.snd_una + n * 1000;
                for _ in 0..n {
                    f.now += rtt / n;
                    f.snd_una += 1000;
                    f.snd_nxt = f.snd_una + cc.trace().cwnd;
                    cc.on_ack(&f, &Ack { rtt: Some(rtt), ..ack(1) });
                }
            }
            assert_eq!(cc.trace().phase, phase);
        }
        let mut off =
            build("cubic", "linux", "hystart = \"off\"", &Flow { initial_ssthresh: u64::MAX, ..flow(20) }).unwrap();
        run(off.as_mut(), &mut flow(20), 1.0);
        assert_eq!(off.trace().ssthresh, u64::MAX);
        assert!(build("cubic", "linux", "hystart = \"on\"", &flow(1)).is_err());
    }

    #[test]
    fn undo_restores_the_curve() {
        let mut f = flow(1000);
        f.outstanding = 1_000_000;
        let mut cc = Cubic::new(&Arc::new(params("rfc")), &f);
        cc.on_congestion(&f, Congestion::Loss);
        run(&mut cc, &mut f, 3.0);
        let before = cc.clone();
        f.outstanding = cc.window.cwnd;
        cc.on_congestion(&f, Congestion::Loss);
        cc.on_undo(&f);
        assert_eq!(cc.window.cwnd, before.window.cwnd);
        let (CubicCurve::Real { now: a, .. }, CubicCurve::Real { now: b, .. }) = (&cc.curve, &before.curve) else {
            panic!()
        };
        assert_eq!((a.epoch, a.w_max), (b.epoch, b.w_max));
    }

    #[test]
    fn window_stays_within_bounds() {
        for stack in STACKS {
            for segments in [1u64, 2, 1 << 40] {
                for rtt in [Time::ZERO, Time::from_secs(100_000)] {
                    let mut f = flow(segments);
                    f.initial_ssthresh = 2_000;
                    (f.srtt, f.min_rtt) = (rtt, rtt);
                    let mut cc = build("cubic", stack, "", &f).unwrap();
                    for cause in [Congestion::Loss, Congestion::Ecn, Congestion::Timeout, Congestion::TimeoutAgain] {
                        for n in [0, 1, 2, 1000] {
                            f.now += Time::from_secs(1_000_000);
                            cc.on_ack(&f, &Ack { rtt: Some(rtt), ..ack(n) });
                            cc.on_ack(&f, &Ack { rtt: None, ..ack(n) });
                        }
                        cc.on_congestion(&f, cause);
                        assert!(cc.trace().ssthresh >= 2_000, "{stack}");
                    }
                    assert_eq!(cc.trace().cwnd, 1_000);
                }
            }
        }
        for bad in ["beta = 1.0", "c = 0.0", "beta = 0.9999", "hystart_delay_divisor = 0", "first_count = 0"] {
            assert!(build("cubic", "linux", bad, &flow(1)).is_err(), "{bad}");
        }
    }
}
