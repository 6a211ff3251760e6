//! H-TCP: the increase grows with the time since the last congestion event, and the decrease adapts to the queue (R.
//! Shorten, D. Leith, "H-TCP: TCP for high-speed and long-distance networks", PFLDnet 2004; D. Leith, R. Shorten,
//! draft-leith-tcp-htcp, sections 3 and 4).
//!
//! Delta is the time in seconds since the last congestion event. The increase alpha is 1 up to Delta_L = 1 s, then `1 +
//! 10 (Delta - Delta_L) + ((Delta - Delta_L) / 2)^2`, scaled by `2 (1 - beta)`. The decrease beta is RTTmin / RTTmax
//! within [0.5, 0.8], but 0.5 if the throughput changed by more than 20 % between the last two events.
//!
//! Defaults follow Linux's `tcp_htcp`: 128ths for alpha and beta, time in jiffies (1 ms), alpha also scaled by the RTT,
//! and a clock that restarts when recovery ends. `arithmetic = "ns3"` is ns-3 3.44's TcpHtcp. An ACK adds one segment
//! in slow start, and `mss^2 / cwnd` + alpha *bytes* beyond it. Because alpha lacks its unit of segments, H-TCP is
//! close to NewReno there. The decrease adapts if the throughput rose without doubling (integer division). RTTmin and
//! RTTmax cover the time since the last event. The decrease starts from the bytes in flight. There is no RTT scaling.

use super::entry::BuildAlgorithm;
use super::window::{Arithmetic, Window};
use super::{Ack, AlgorithmTrace, Congestion, CongestionControl, CongestionState, Flow, Permit, Sent};
use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Parameters of [`Htcp`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Delta_L: time after an event during which the increase is NewReno's, milliseconds.
    pub delta_l_ms: u64,
    /// Smallest part of the window that remains after an event, also used while beta does not adapt.
    pub beta_min: f64,
    /// Largest part of the window that remains after an event (Linux only).
    pub beta_max: f64,
    /// Change of throughput between two events beyond which beta does not adapt (Delta_B).
    pub throughput_ratio: f64,
    /// RTTmin above which beta adapts, milliseconds (Linux only).
    pub adaptive_above_ms: u64,
    /// Largest growth of RTTmax per sample, milliseconds (Linux only).
    pub rtt_step_ms: u64,
    /// Scale alpha by the RTT (Linux only).
    pub rtt_scaling: bool,
    /// Use `beta_min` when the throughput changes (Linux only; ns-3 always applies its own rule).
    pub bandwidth_switch: bool,
    /// Implementation whose arithmetic applies.
    pub arithmetic: Arithmetic,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            delta_l_ms: 1000,
            beta_min: 0.5,
            beta_max: 0.8,
            throughput_ratio: 0.2,
            adaptive_above_ms: 10,
            rtt_step_ms: 20,
            rtt_scaling: true,
            bandwidth_switch: true,
            arithmetic: Arithmetic::Linux,
        }
    }
}

/// The `ns3` preset.
pub const NS3: &str = "arithmetic = \"ns3\"";

/// The algorithm.
#[derive(Clone, Debug)]
pub struct Htcp {
    window: Window,
    state: CongestionRound,
    /// Recovery state before this ACK: both implementations measure before it changes.
    recovery: CongestionState,
    /// True after the first segment was sent; Linux starts Delta at this time.
    started: bool,
    params: Arc<Params>,
}

#[derive(Clone, Debug)]
enum CongestionRound {
    Linux(LinuxHtcp),
    Ns3(Ns3),
}

impl BuildAlgorithm for Htcp {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if !(p.beta_min > 0.0 && p.beta_min <= p.beta_max && p.beta_max < 1.0) {
            Err("0 < beta_min <= beta_max < 1 is required".into())
        } else if !(p.throughput_ratio >= 0.0 && p.throughput_ratio <= 1.0) {
            Err("`throughput_ratio` must be between 0 and 1".into())
        } else {
            Ok(())
        }
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        let state = match params.arithmetic {
            Arithmetic::Linux => CongestionRound::Linux(LinuxHtcp::new(params)),
            Arithmetic::Ns3 => CongestionRound::Ns3(Ns3::default()),
        };
        Htcp { window: Window::new(flow), state, recovery: flow.state, started: false, params: Arc::clone(params) }
    }
}

impl CongestionControl for Htcp {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        let before = std::mem::replace(&mut self.recovery, flow.state);
        match &mut self.state {
            CongestionRound::Linux(s) => {
                s.measure(&self.params, flow, ack, before, self.window.segments(flow.mss));
                if !ack.may_grow || ack.segments == 0 {
                    return;
                }
                if self.window.in_slow_start() {
                    self.window.slow_start(u64::from(ack.segments) * u64::from(flow.mss));
                } else {
                    s.grow(&self.params, &mut self.window, flow);
                }
            }
            CongestionRound::Ns3(s) => {
                let open = before == CongestionState::Open && flow.state == CongestionState::Open;
                s.measure(&self.params, flow, ack, open);
                if !ack.may_grow {
                    return;
                }
                let mut segments = ack.segments;
                if self.window.in_slow_start() {
                    segments = self.window.slow_start_per_ack(flow.mss, segments);
                }
                if !self.window.in_slow_start() && segments > 0 {
                    let mss = f64::from(flow.mss);
                    self.window.cwnd += (mss * mss / self.window.cwnd as f64 + s.alpha).max(1.0) as u64;
                }
            }
        }
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        let mss = u64::from(flow.mss);
        let ssthresh = match (&mut self.state, cause) {
            (CongestionRound::Linux(s), Congestion::TimeoutAgain) => {
                s.start_episode(flow);
                0
            }
            (CongestionRound::Ns3(_), Congestion::TimeoutAgain) => 0,
            (CongestionRound::Linux(s), _) => s.reduce(&self.params, flow, self.window.segments(flow.mss)) * mss,
            (CongestionRound::Ns3(s), _) => s.reduce(&self.params, flow).max(2 * mss),
        };
        self.window.reduce(flow, cause, ssthresh);
        self.recovery = match cause {
            Congestion::Timeout | Congestion::TimeoutAgain => CongestionState::Loss,
            Congestion::Loss | Congestion::Ecn => CongestionState::Recovery,
        };
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

    fn on_sent(&mut self, flow: &Flow, _sent: &Sent) {
        if !self.started {
            self.started = true;
            if let CongestionRound::Linux(s) = &mut self.state {
                s.last_event = flow.now.as_millis();
            }
        }
    }

    fn on_recovered(&mut self, flow: &Flow) {
        if let CongestionRound::Linux(s) = &mut self.state {
            // Delta counts from the end of the episode, unless it was undone.
            if s.before.take().is_some() {
                s.last_event = flow.now.as_millis();
            }
        }
    }

    fn on_undo(&mut self, _flow: &Flow) {
        self.window.undo();
        if let CongestionRound::Linux(s) = &mut self.state
            && let Some(before) = s.before.take()
        {
            (s.last_event, s.max_rtt, s.old_max_rate) = before;
        }
    }
}

/// State of `tcp_htcp`. Times in jiffies of 1 ms, rates in segments per second, alpha and beta in 128ths.
#[derive(Clone, Debug)]
struct LinuxHtcp {
    alpha: u64,
    beta: u64,
    /// True if beta may adapt: the throughput was steady at the last event.
    adaptive: bool,
    /// Segments acknowledged by the last ACK, and since `rate_start`.
    last_acked: u64,
    acked: u64,
    rate_start: u64,
    /// Segments acknowledged since the window last grew.
    count: u64,
    min_rtt: u64,
    max_rtt: u64,
    last_event: u64,
    /// `last_event`, `max_rtt` and `old_max_rate` before the current episode.
    before: Option<(u64, u64, u64)>,
    rate: u64,
    max_rate: u64,
    old_max_rate: u64,
}

impl LinuxHtcp {
    fn new(params: &Params) -> Self {
        LinuxHtcp {
            alpha: ONE,
            beta: (params.beta_min * ONE as f64) as u64,
            adaptive: false,
            last_acked: 1,
            acked: 0,
            rate_start: 0,
            count: 0,
            min_rtt: 0,
            max_rtt: 0,
            last_event: 0,
            before: None,
            rate: 0,
            max_rate: 0,
            old_max_rate: 0,
        }
    }

    /// Measures RTTmin, RTTmax and the achieved throughput (`measure_achieved_throughput`).
    fn measure(&mut self, params: &Params, flow: &Flow, ack: &Ack, state: CongestionState, window: u64) {
        let now = flow.now.as_millis();
        let acked = ack.acked.div_ceil(u64::from(flow.mss));
        let open = state == CongestionState::Open;
        if open {
            self.last_acked = acked;
        }
        if let Some(rtt) = ack.rtt.filter(|rtt| rtt.as_micros() > 0) {
            let rtt = rtt.as_micros().div_ceil(1000);
            if self.min_rtt > rtt || self.min_rtt == 0 {
                self.min_rtt = rtt;
            }
            if open {
                self.max_rtt = self.max_rtt.max(self.min_rtt);
                if self.max_rtt < rtt && rtt <= self.max_rtt + params.rtt_step_ms {
                    self.max_rtt = rtt;
                }
            }
        }
        if !params.bandwidth_switch {
            return;
        }
        if !open && state != CongestionState::Disorder {
            self.acked = 0;
            self.rate_start = now;
            return;
        }
        self.acked += acked;
        let elapsed = now.saturating_sub(self.rate_start);
        // Linux subtracts unsigned: with alpha above the window the result wraps, and the count is never reached.
        let enough = window.checked_sub((self.alpha / ONE).max(1)).is_some_and(|n| self.acked >= n);
        if enough && self.min_rtt > 0 && elapsed >= self.min_rtt {
            let rate = self.acked * 1000 / elapsed;
            if now.saturating_sub(self.last_event) / self.min_rtt <= 3 {
                self.rate = rate; // just after an event
                self.max_rate = rate;
            } else {
                self.rate = (3 * self.rate + rate) / 4;
                self.max_rate = self.max_rate.max(self.rate);
            }
            self.acked = 0;
            self.rate_start = now;
        }
    }

    /// Adds a segment for every `window / alpha` acknowledged.
    fn grow(&mut self, params: &Params, window: &mut Window, flow: &Flow) {
        if self.count.saturating_mul(self.alpha) / ONE >= window.segments(flow.mss) {
            window.cwnd += u64::from(flow.mss);
            self.count = 0;
            self.update_alpha(params, flow.now.as_millis());
        } else {
            self.count += self.last_acked;
        }
        self.last_acked = 1;
    }

    /// Section 3.1: computes alpha from the time since the last event.
    fn update_alpha(&mut self, params: &Params, now: u64) {
        let since = now.saturating_sub(self.last_event).saturating_sub(params.delta_l_ms);
        let mut factor = 1;
        if since > 0 {
            factor = 1 + (10 * since + (since / 2) * (since / 2) / 1000) / 1000;
        }
        if params.rtt_scaling && self.min_rtt > 0 {
            let scale = (8 * 1000 / (10 * self.min_rtt)).clamp(8 / 2, 8 * 10);
            factor = (8 * factor / scale).max(1);
        }
        self.alpha = 2 * factor * (ONE - self.beta);
        if self.alpha == 0 {
            self.alpha = ONE;
        }
    }

    /// Section 3.2: computes beta from the RTTs if the throughput is steady.
    fn update_beta(&mut self, params: &Params) {
        let least = (params.beta_min * ONE as f64) as u64;
        if params.bandwidth_switch {
            let (old, new) = (self.old_max_rate, self.max_rate);
            self.old_max_rate = new;
            let ratio = libm::round(params.throughput_ratio * 1000.0) as u64;
            if !((1000 - ratio) * old..=(1000 + ratio) * old).contains(&(1000 * new)) {
                self.beta = least;
                self.adaptive = false;
                return;
            }
        }
        if self.adaptive && self.min_rtt > params.adaptive_above_ms && self.max_rtt > 0 {
            let most = (params.beta_max * ONE as f64) as u64;
            self.beta = (self.min_rtt * ONE / self.max_rtt).clamp(least, most);
        } else {
            self.beta = least;
            self.adaptive = true;
        }
    }

    /// Returns the window after an event, segments.
    fn reduce(&mut self, params: &Params, flow: &Flow, window: u64) -> u64 {
        let now = flow.now.as_millis();
        self.update_beta(params);
        self.update_alpha(params, now);
        if self.min_rtt > 0 && self.max_rtt > self.min_rtt {
            // RTTmax decays, because routes change.
            self.max_rtt = self.min_rtt + (self.max_rtt - self.min_rtt) * 95 / 100;
        }
        self.start_episode(flow);
        (window * self.beta / ONE).max(2)
    }

    fn start_episode(&mut self, flow: &Flow) {
        self.before = Some((self.last_event, self.max_rtt, self.old_max_rate));
        self.last_event = flow.now.as_millis();
        self.count = 0;
    }
}

/// State of ns-3's TcpHtcp. Until the first event, Delta counts from the start of the simulation.
#[derive(Clone, Debug, Default)]
struct Ns3 {
    alpha: f64,
    beta: f64,
    last_event: Time,
    /// RTTmin and RTTmax since the last event.
    rtts: Option<(Time, Time)>,
    bytes: u64,
    /// Bytes per second, now and at the last event.
    throughput: u64,
    last_throughput: u64,
}

impl Ns3 {
    fn measure(&mut self, params: &Params, flow: &Flow, ack: &Ack, open: bool) {
        if open {
            self.bytes += u64::from(ack.segments) * u64::from(flow.mss);
        }
        let elapsed = flow.now.saturating_sub(self.last_event).as_secs_f64();
        self.throughput = if elapsed > 0.0 { (self.bytes as f64 / elapsed) as u64 } else { 0 };
        self.update_alpha(params, flow.now);
        if let Some(rtt) = ack.rtt {
            let (least, most) = self.rtts.unwrap_or((rtt, rtt));
            self.rtts = Some((least.min(rtt), most.max(rtt)));
        }
    }

    fn update_alpha(&mut self, params: &Params, now: Time) {
        let since = now.saturating_sub(self.last_event).saturating_sub(Time::from_millis(params.delta_l_ms));
        let s = since.as_secs_f64();
        self.alpha = (2.0 * (1.0 - self.beta) * (1.0 + 10.0 * s + 0.25 * (s * s))).max(1.0);
    }

    /// Returns the bytes left after an event.
    fn reduce(&mut self, params: &Params, flow: &Flow) -> u64 {
        self.last_event = flow.now;
        self.beta = params.beta_min;
        if let Some((least, most)) = self.rtts.take()
            && self.throughput > self.last_throughput
            && self.last_throughput > 0
        {
            let rise = (self.throughput - self.last_throughput) / self.last_throughput; // integer division
            if rise as f64 <= params.throughput_ratio && !most.is_zero() {
                self.beta = least.0 as f64 / most.0 as f64;
            }
        }
        self.update_alpha(params, flow.now);
        self.last_throughput = self.throughput;
        self.throughput = 0;
        self.bytes = 0;
        (flow.in_flight as f64 * self.beta) as u64
    }
}

/// 1 in Linux's fixed point.
const ONE: u64 = 128;

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;

    fn flow(segments: u64) -> Flow {
        Flow { mss: 1000, initial_window: segments * 1000, initial_ssthresh: 2_000, ..Flow::default() }
    }
    fn ack(segments: u32, rtt_ms: u64) -> Ack {
        Ack {
            acked: u64::from(segments) * 1000,
            segments,
            may_grow: true,
            rtt: Some(Time::from_millis(rtt_ms)),
            ..Ack::default()
        }
    }
    fn linux(params: &Params) -> LinuxHtcp {
        LinuxHtcp::new(params)
    }

    /// alpha = 2 (1 - beta) (1 + 10 (D - 1) + ((D - 1) / 2)^2) with beta = 0.5.
    #[test]
    fn increase_grows_with_time() {
        let params = Params { rtt_scaling: false, ..Params::default() };
        let mut s = linux(&params);
        for (ms, alpha) in [(0, 1), (1000, 1), (1099, 1), (1100, 2), (2000, 11), (3000, 22), (11_000, 126)] {
            s.update_alpha(&params, ms);
            assert_eq!(s.alpha, alpha * ONE, "{ms} ms");
        }
        let mut n = Ns3 { beta: 0.5, ..Ns3::default() };
        n.update_alpha(&params, Time::from_secs(3));
        assert!((n.alpha - 22.0).abs() < 1e-12);
    }

    /// RTT scaling: alpha is divided by 0.1 s / RTT, within [0.5, 10]: at most doubled, at least a tenth.
    #[test]
    fn increase_is_scaled_by_the_rtt() {
        let params = Params::default();
        for (rtt, alpha) in [(10, 2), (100, 22), (200, 44), (1000, 44)] {
            let mut s = linux(&params);
            s.min_rtt = rtt;
            s.update_alpha(&params, 3000);
            assert_eq!(s.alpha, alpha * ONE, "{rtt} ms");
        }
    }

    #[test]
    fn beta_adapts_to_the_queue_at_steady_throughput() {
        let params = Params::default();
        let f = flow(100);
        let mut s = linux(&params);
        (s.min_rtt, s.max_rtt, s.max_rate) = (60, 100, 1000);
        assert_eq!(s.reduce(&params, &f, 100), 50); // the throughput was 0 before
        assert_eq!(s.max_rtt, 98);
        s.max_rate = 1200;
        assert_eq!(s.reduce(&params, &f, 100), 50); // steady, now it may adapt
        (s.max_rate, s.max_rtt) = (960, 100);
        assert_eq!(s.reduce(&params, &f, 100), 59); // 76/128
        (s.min_rtt, s.max_rtt) = (98, 100);
        assert_eq!(s.reduce(&params, &f, 100), 79); // at most 102/128
        (s.min_rtt, s.max_rtt) = (20, 100);
        assert_eq!(s.reduce(&params, &f, 100), 50); // at least 1/2
        s.max_rate = 767;
        (s.min_rtt, s.max_rtt) = (98, 100);
        assert_eq!(s.reduce(&params, &f, 100), 50); // 20.1 % less throughput
    }

    #[test]
    fn clock_starts_when_the_episode_ends_and_undo_restores_it() {
        let mut f = flow(100);
        let mut cc = Htcp::new(&Arc::new(Params::default()), &f);
        let last_event = |cc: &Htcp| match &cc.state {
            CongestionRound::Linux(s) => s.last_event,
            CongestionRound::Ns3(_) => unreachable!(),
        };
        f.now = Time::from_secs(4);
        cc.on_sent(&f, &Sent { seq: 0, len: 1000, retransmission: false, tx_start: true });
        assert_eq!(last_event(&cc), 4000);
        f.now = Time::from_secs(5);
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(last_event(&cc), 5000);
        f.now = Time::from_secs(6);
        cc.on_recovered(&f);
        assert_eq!(last_event(&cc), 6000);
        f.now = Time::from_secs(9);
        cc.on_recovered(&f);
        assert_eq!(last_event(&cc), 6000);
        cc.on_congestion(&f, Congestion::Loss);
        cc.on_undo(&f);
        cc.on_recovered(&f);
        assert_eq!(last_event(&cc), 6000);
    }

    #[test]
    fn linux_adds_alpha_segments_per_window() {
        let mut f = flow(100);
        let params = "rtt_scaling = false";
        let mut cc = build("htcp", "linux", params, &f).unwrap();
        f.now = Time::from_secs(2);
        for _ in 0..1000 {
            cc.on_ack(&f, &ack(1, 50));
        }
        // The first increment takes a window and sets alpha to 11. Each later one takes w / 11 ACKs plus the ACK that
        // adds the segment: 10 + 1 at first, 15 + 1 at the end.
        let grown = cc.trace().cwnd / 1000 - 100;
        assert!((60..=75).contains(&grown), "{grown}");
    }

    #[test]
    fn ns3_adds_alpha_bytes_per_ack() {
        let mut f = flow(100);
        let mut cc = build("htcp", "ns3", "", &f).unwrap();
        f.now = Time::from_secs(2);
        cc.on_ack(&f, &ack(2, 50));
        assert_eq!(cc.trace().cwnd, 100_000 + 10 + 22); // beta is 0 before the first event
        f.in_flight = 50_000;
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.trace().ssthresh, 25_000);
        // 2 kB in 2 s, then 3 kB: the throughput rose without doubling. The ACK that ends recovery is not counted.
        cc.on_ack(&f, &ack(100, 80));
        f.now = Time::from_secs(4);
        cc.on_ack(&f, &ack(3, 80));
        cc.on_ack(&f, &ack(0, 100));
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.trace().ssthresh, 40_000);
    }

    #[test]
    fn window_stays_within_bounds() {
        for stack in ["linux", "ns3"] {
            for segments in [1u64, 1 << 30] {
                for rtt in [0, 1, 100_000] {
                    let mut f = flow(segments);
                    let mut cc = build("htcp", stack, "", &f).unwrap();
                    for cause in [Congestion::Loss, Congestion::Timeout, Congestion::TimeoutAgain] {
                        for n in [0, 1, 2, u32::MAX] {
                            cc.on_ack(&f, &ack(n, rtt));
                            f.now += Time::from_secs(1_000_000);
                        }
                        f.in_flight = 1_000;
                        cc.on_congestion(&f, cause);
                        cc.on_congestion(&f, cause);
                        assert!(cc.trace().ssthresh >= 2_000, "{stack}");
                        cc.on_undo(&f);
                        cc.on_recovered(&f);
                    }
                }
            }
        }
        assert!(build("htcp", "linux", "beta_min = 0.9", &flow(1)).is_err());
        assert!(build("htcp", "linux", "throughput_ratio = 2.0", &flow(1)).is_err());
    }
}
