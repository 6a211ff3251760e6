//! BIC: binary search for the window of the last loss (L. Xu, K. Harfoush, I. Rhee, "Binary increase congestion control
//! for fast, long distance networks", INFOCOM 2004, section 3).
//!
//! Below the last maximum, the window jumps part of the way toward it in each RTT, by at most `max_increment` segments
//! (Smax). Near it, the steps are small. Beyond the maximum, growth starts slowly and accelerates ("max probing"). Up
//! to `low_window` segments BIC is NewReno. Defaults follow Linux's `tcp_bic`: a jump of 1/4 of the distance and `beta`
//! in 1024ths. The *count* of acknowledged segments per segment of growth is divided by the mean number of segments per
//! ACK (initially 2). A change of the window, or 1/32 s, leads to a new count. A timeout resets everything.
//!
//! `arithmetic = "ns3"` is ns-3 3.44's TcpBic. Slow start adds one segment per ACK. Strictly below `low_window` it is
//! NewReno and halves the bytes in flight. The count is renewed on every ACK and ignores delayed ACKs. The window grows
//! only when more segments than the count are acknowledged, and the excess is dropped. Fast convergence sets the
//! maximum to `beta` of the window. `beta` is not rounded. A timeout discards nothing. The preset also sets
//! `smooth_part = 5` (ns-3's default; Linux has 20).

use super::entry::BuildAlgorithm;
use super::window::{AdditiveCounter, Arithmetic, Window};
use super::{Ack, AlgorithmTrace, Congestion, CongestionControl, CongestionState, Flow, Permit};
use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Parameters of [`Bic`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Part of the window that remains after a loss.
    pub beta: f64,
    /// Maximum number of segments added per RTT (Smax).
    pub max_increment: u64,
    /// Window up to which BIC is NewReno, segments.
    pub low_window: u64,
    /// A jump takes the window 1 / `search` of the way to the maximum (B).
    pub search: u64,
    /// Number of RTTs in which the window grows from `search` segments below the maximum to the maximum.
    pub smooth_part: u64,
    /// A loss below the last maximum lowers the new maximum further.
    pub fast_convergence: bool,
    /// Before the first loss, maximum number of acknowledged segments per segment of growth: 20 = at least 5 % per RTT.
    pub first_count: u64,
    /// Implementation whose arithmetic applies.
    pub arithmetic: Arithmetic,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            beta: 0.8,
            max_increment: 16,
            low_window: 14,
            search: 4,
            smooth_part: 20,
            fast_convergence: true,
            first_count: 20,
            arithmetic: Arithmetic::Linux,
        }
    }
}

/// The `ns3` preset.
pub const NS3: &str = "arithmetic = \"ns3\"\nsmooth_part = 5";

/// The algorithm.
#[derive(Clone, Debug)]
pub struct Bic {
    window: Window,
    counter: AdditiveCounter,
    /// Window at the last loss, segments; 0 = none yet.
    last_max: u64,
    /// Segments acknowledged per increment, computed at `last_time` for window `last_window`.
    count: u64,
    last_window: u64,
    last_time: Option<Time>,
    /// Mean number of segments per ACK, 16ths.
    delayed_ack: u64,
    /// Recovery state before this ACK, which Linux uses for the mean.
    recovery: CongestionState,
    /// Segments acknowledged since the last increment (ns-3).
    acknowledged: u32,
    beta: f64,
    params: Arc<Params>,
}

impl BuildAlgorithm for Bic {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if !(p.beta > 0.0 && p.beta < 1.0) {
            Err("`beta` must be greater than 0 and less than 1".into())
        } else if p.max_increment == 0 || p.smooth_part == 0 || p.first_count == 0 {
            Err("`max_increment`, `smooth_part` and `first_count` must be at least 1".into())
        } else if p.search < 2 {
            Err("`search` must be at least 2".into())
        } else {
            Ok(())
        }
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        let beta = match params.arithmetic {
            Arithmetic::Linux => libm::round(params.beta * 1024.0) / 1024.0,
            Arithmetic::Ns3 => params.beta,
        };
        Bic {
            window: Window::new(flow),
            counter: AdditiveCounter::default(),
            last_max: 0,
            count: 0,
            last_window: 0,
            last_time: None,
            delayed_ack: INITIAL_DELAYED_ACK,
            recovery: flow.state,
            acknowledged: 0,
            beta,
            params: Arc::clone(params),
        }
    }
}

impl CongestionControl for Bic {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        if self.params.arithmetic == Arithmetic::Ns3 {
            if ack.may_grow {
                self.grow_ns3(flow.mss, ack.segments);
            }
            return;
        }
        let mss = u64::from(flow.mss);
        if std::mem::replace(&mut self.recovery, flow.state) == CongestionState::Open {
            self.delayed_ack = self.delayed_ack - self.delayed_ack / 16 + ack.acked.div_ceil(mss);
        }
        if !ack.may_grow || ack.segments == 0 {
            return;
        }
        let mut segments = u64::from(ack.segments);
        if self.window.in_slow_start() {
            segments = self.window.slow_start(segments * mss) / mss;
        }
        if segments > 0 {
            self.renew_count(flow.now, self.window.segments(flow.mss));
            self.counter.advance(&mut self.window.cwnd, flow.mss, self.count, segments);
        }
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        let mss = u64::from(flow.mss);
        let w = self.window.segments(flow.mss);
        let linux = self.params.arithmetic == Arithmetic::Linux;
        if cause != Congestion::TimeoutAgain {
            // Section 3, fast convergence: a flow with a loss below its old maximum yields bandwidth to others.
            let keep = if linux { (1.0 + self.beta) / 2.0 } else { self.beta };
            let lower = self.params.fast_convergence && w < self.last_max;
            self.last_max = if lower { (w as f64 * keep) as u64 } else { w };
        }
        let ssthresh = match self.params.arithmetic {
            Arithmetic::Linux if w <= self.params.low_window => (w / 2).max(2) * mss,
            Arithmetic::Linux => ((w as f64 * self.beta) as u64).max(2) * mss,
            Arithmetic::Ns3 if w < self.params.low_window => (flow.in_flight / 2).max(2 * mss),
            Arithmetic::Ns3 => ((w as f64 * self.beta).max(2.0) * mss as f64) as u64,
        };
        self.window.reduce(flow, cause, ssthresh);
        self.counter = AdditiveCounter::default();
        self.recovery = CongestionState::Recovery; // stands for Loss, too: only Open matters
        if linux && cause.is_timeout() {
            self.last_max = 0;
            self.count = 0;
            self.last_window = 0;
            self.last_time = None;
            self.delayed_ack = INITIAL_DELAYED_ACK;
        }
    }

    fn permit(&self, flow: &Flow) -> Permit {
        Permit::window(flow.window(self.window.cwnd))
    }

    fn lower_window(&mut self, _flow: &Flow, cwnd: u64, ssthresh: u64) {
        self.window.lower(cwnd, ssthresh);
    }

    fn trace(&self) -> AlgorithmTrace {
        let phase = if self.window.in_slow_start() { "slow start" } else { "binary increase" };
        AlgorithmTrace { cwnd: self.window.cwnd, ssthresh: self.window.ssthresh, rate: None, phase }
    }

    fn on_undo(&mut self, _flow: &Flow) {
        self.window.undo();
    }
}

impl Bic {
    /// Linux recomputes the count when the window has changed or 1/32 s has passed.
    #[inline]
    fn renew_count(&mut self, now: Time, w: u64) {
        if self.last_window == w && self.last_time.is_some_and(|t| now.saturating_sub(t) <= RENEWAL) {
            return;
        }
        self.last_window = w;
        self.last_time = Some(now);
        self.count =
            if w <= self.params.low_window { w } else { (self.search_count(w) * 16 / self.delayed_ack.max(1)).max(1) };
    }

    /// Section 3: returns the number of segments that must be acknowledged per segment of growth.
    fn search_count(&self, w: u64) -> u64 {
        let Params { max_increment, search, smooth_part, first_count, .. } = *self.params;
        let count = if w < self.last_max {
            match (self.last_max - w) / search {
                far if far > max_increment => w / max_increment, // additive increase
                0 | 1 => w * smooth_part / search,
                distance => w / distance, // binary search increase
            }
        } else if w < self.last_max + search {
            w * smooth_part / search
        } else if w < self.last_max + max_increment * (search - 1) {
            w * (search - 1) / (w - self.last_max) // max probing
        } else {
            w / max_increment
        };
        if self.last_max == 0 { count.min(first_count) } else { count }
    }

    fn grow_ns3(&mut self, mss: u32, segments: u32) {
        let mut segments = segments;
        if self.window.in_slow_start() {
            self.window.cwnd += u64::from(mss);
            // ns-3 counts down in 32 bits, even from 0 for an ACK of less than a segment.
            segments = segments.wrapping_sub(1);
        }
        if self.window.in_slow_start() || segments == 0 {
            return;
        }
        self.acknowledged = self.acknowledged.wrapping_add(segments);
        let w = self.window.cwnd / u64::from(mss);
        let count = if w < self.params.low_window { w } else { self.search_count(w).max(1) };
        if u64::from(self.acknowledged) > count {
            self.window.cwnd += u64::from(mss);
            self.acknowledged = 0;
        }
    }
}

/// Two segments per ACK, in 16ths.
const INITIAL_DELAYED_ACK: u64 = 2 * 16;
/// HZ / 32 in whole jiffies of 1 ms.
const RENEWAL: Time = Time::from_millis(31);

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
    fn bic(params: &str, segments: u64, last_max: u64) -> Bic {
        let mut cc = Bic::new(&Arc::new(toml::from_str(params).unwrap()), &flow(segments));
        cc.last_max = last_max;
        cc
    }
    /// Returns the segments added by `rounds` windows of single ACKs, 10 ms apart.
    fn grown(cc: &mut Bic, f: &mut Flow, rounds: u64, per_ack: u32) -> u64 {
        let before = cc.window.cwnd;
        for _ in 0..rounds {
            for _ in 0..cc.window.cwnd / 1000 / u64::from(per_ack) {
                f.now += Time::from_millis(10);
                cc.on_ack(f, &ack(per_ack));
            }
        }
        (cc.window.cwnd - before) / 1000
    }

    /// Segments per increment around a maximum of 400, from the rules of section 3 with B = 4, Smax = 16.
    #[test]
    fn search_count_depends_on_distance_to_the_maximum() {
        let cc = bic("", 100, 400);
        for (w, count) in [
            (100, 100 / 16), // 300 / 4 > 16: additive
            (336, 336 / 16), // 64 / 4 = 16: the search takes over at the same rate
            (380, 380 / 5),  // 20 / 4
            (393, 393 * 5),  // nearer than 8: smooth
            (400, 400 * 5),  // beyond: smooth
            (404, 404 * 3 / 4),
            (440, 440 * 3 / 40),
            (448, 448 / 16), // Smax
            (4000, 250),
        ] {
            assert_eq!(cc.search_count(w), count, "{w}");
        }
        assert_eq!(bic("", 100, 0).search_count(1000), 20);
        assert_eq!(bic(NS3, 100, 400).search_count(400), 500);
    }

    #[test]
    fn small_windows_behave_as_newreno() {
        let mut f = flow(10);
        let mut cc = bic("", 10, 20);
        assert_eq!(grown(&mut cc, &mut f, 1, 1), 1);
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.window.ssthresh, 5_000);
        let mut cc = bic(NS3, 14, 20);
        f.in_flight = 20_000;
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.window.ssthresh, 11_200); // 14 is not below 14
        let mut cc = bic(NS3, 13, 20);
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.window.ssthresh, 10_000);
    }

    /// The mean in 16ths starts at 2 segments per ACK and, as an integer, never falls below 31/16. The count is in
    /// acknowledged *segments*, so this doubles Smax: Linux adds 32 segments per RTT.
    #[test]
    fn additive_increase_is_twice_smax_per_round() {
        for per_ack in [1, 2] {
            let mut f = flow(320);
            let mut cc = bic("", 320, 4000);
            grown(&mut cc, &mut f, 1, per_ack);
            assert_eq!(cc.delayed_ack, 30 + u64::from(per_ack));
            let n = grown(&mut cc, &mut f, 1, per_ack);
            assert!((31..=36).contains(&n), "{n}");
        }
    }

    #[test]
    fn fast_convergence_lowers_the_maximum() {
        let f = flow(100);
        let mut cc = bic("", 100, 200);
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!((cc.last_max, cc.window.ssthresh), (89, 79_000)); // 1843/2048, 819/1024
        let mut cc = bic(NS3, 100, 200);
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!((cc.last_max, cc.window.ssthresh), (80, 80_000));
        let mut cc = bic("fast_convergence = false", 100, 200);
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.last_max, 100);
    }

    #[test]
    fn timeout_resets_the_maximum_only_in_linux() {
        for (stack, left) in [("linux", 0), ("ns3", 100)] {
            let params = if stack == "ns3" { NS3 } else { "" };
            let mut cc = bic(params, 100, 0);
            cc.on_congestion(&flow(100), Congestion::Timeout);
            assert_eq!((cc.last_max, cc.window.cwnd), (left, 1_000), "{stack}");
        }
    }

    #[test]
    fn ns3_must_exceed_the_count() {
        let mut cc = bic(NS3, 10, 20);
        let f = flow(10);
        for _ in 0..10 {
            cc.on_ack(&f, &ack(1));
        }
        assert_eq!(cc.window.cwnd, 10_000);
        cc.on_ack(&f, &ack(1));
        assert_eq!(cc.window.cwnd, 11_000);
    }

    #[test]
    fn window_stays_within_bounds() {
        for stack in ["linux", "ns3"] {
            for segments in [1u64, 15, 1 << 40] {
                let mut f = flow(segments);
                let mut cc = build("bic", stack, "", &f).unwrap();
                for cause in [Congestion::Loss, Congestion::Ecn, Congestion::Timeout] {
                    for n in [0, 1, 2, u32::MAX] {
                        f.now += Time::from_secs(500_000);
                        cc.on_ack(&f, &ack(n));
                    }
                    cc.on_congestion(&f, cause);
                    assert!(cc.trace().ssthresh >= 2_000, "{stack}");
                }
                cc.on_ack(&f, &ack(0));
                assert!(cc.trace().cwnd <= 3_000, "{stack}");
            }
        }
        assert!(build("bic", "linux", "search = 1", &flow(1)).is_err());
        assert!(build("bic", "linux", "beta = 1.0", &flow(1)).is_err());
    }
}
