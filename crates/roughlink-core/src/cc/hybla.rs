//! TCP Hybla: a connection with a long RTT grows its window as fast as one with the reference RTT (C. Caini, R.
//! Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous networks", International Journal of Satellite
//! Communications and Networking 22, 2004, section 3).
//!
//! With the normalized RTT rho = max(RTT / RTT0, 1), an ACK adds `2^rho - 1` segments in slow start and `rho^2 / w`
//! beyond it. Both implementations use the smallest smoothed RTT as RTT. The paper's further proposals (SACK,
//! timestamps, packet spacing) belong to the stack.
//!
//! Defaults are Linux's `tcp_hybla`: RTT0 of 25 ms, rho in eighths, and increments in 128ths of a segment, one per ACK.
//! The initial window is rho segments, and growth in any state except Open is NewReno's.
//!
//! `arithmetic = "ns3"` is ns-3 3.44's TcpHybla: real numbers, one increment per acknowledged segment in congestion
//! avoidance, and half the bytes in flight on a loss. The preset also sets RTT0 to 50 ms. There, rho is 1 until the
//! smoothed RTT equals its minimum *including the handshake's*. Data segments take longer to serialize than a SYN, so
//! on a clean path rho stays 1 and the only effect of Hybla is that growth counts segments.

use super::entry::BuildAlgorithm;
use super::window::{AdditiveCounter, Arithmetic, Window};
use super::{Ack, AlgorithmTrace, Congestion, CongestionControl, CongestionState, Flow, Permit, Sent};
use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Parameters of [`Hybla`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Reference RTT, milliseconds (RTT0).
    pub rrtt_ms: u64,
    /// Start with a window of rho segments instead of the stack's initial window, if the handshake gave an RTT.
    pub start_at_rho: bool,
    /// Largest window, segments.
    pub max_window: u64,
    /// Implementation whose arithmetic applies.
    pub arithmetic: Arithmetic,
}

impl Default for Params {
    fn default() -> Self {
        Params { rrtt_ms: 25, start_at_rho: true, max_window: 65_535, arithmetic: Arithmetic::Linux }
    }
}

/// The `ns3` preset.
pub const NS3: &str = "arithmetic = \"ns3\"\nrrtt_ms = 50\nstart_at_rho = false\nmax_window = 4294967295";

/// The algorithm.
#[derive(Clone, Debug)]
pub struct Hybla {
    window: Window,
    reno: AdditiveCounter,
    /// True if the RTT of the handshake is known.
    started: bool,
    min_srtt: Option<Time>,
    /// rho in eighths, at least 8.
    eighths: u64,
    /// `2^rho - 1` in 128ths.
    slow_start: u64,
    /// Fractions of a segment not yet added, 128ths.
    parts: u64,
    /// Number of ACKs whose increment was less than a 128th.
    unrewarded: u64,
    rho: f64,
    credit: f64,
    params: Arc<Params>,
}

impl BuildAlgorithm for Hybla {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if p.rrtt_ms == 0 {
            Err("`rrtt_ms` must be at least 1".into())
        } else if p.max_window == 0 {
            Err("`max_window` must be at least 1 segment".into())
        } else {
            Ok(())
        }
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        let mut cc = Hybla {
            window: Window::new(flow),
            reno: AdditiveCounter::default(),
            started: false,
            min_srtt: None,
            eighths: 8,
            slow_start: 128,
            parts: 0,
            unrewarded: 0,
            rho: 1.0,
            credit: 0.0,
            params: Arc::clone(params),
        };
        cc.start(flow);
        cc
    }
}

impl CongestionControl for Hybla {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        self.measure(flow);
        if !ack.may_grow || ack.segments == 0 {
            return;
        }
        match self.params.arithmetic {
            Arithmetic::Linux if flow.state == CongestionState::Open => self.grow_linux(flow.mss),
            Arithmetic::Linux => {
                let mss = u64::from(flow.mss);
                let mut segments = u64::from(ack.segments);
                if self.window.in_slow_start() {
                    segments = self.window.slow_start(segments * mss) / mss;
                }
                if segments > 0 {
                    let w = self.window.segments(flow.mss);
                    self.reno.advance(&mut self.window.cwnd, flow.mss, w, segments);
                }
            }
            Arithmetic::Ns3 => self.grow_ns3(flow.mss, ack.segments),
        }
        let most = self.params.max_window.saturating_mul(u64::from(flow.mss));
        self.window.cwnd = self.window.cwnd.min(most);
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        let mss = u64::from(flow.mss);
        let half = match self.params.arithmetic {
            Arithmetic::Linux => self.window.segments(flow.mss) / 2 * mss,
            Arithmetic::Ns3 => flow.in_flight / 2,
        };
        self.window.reduce(flow, cause, half.max(2 * mss));
        self.reno = AdditiveCounter::default();
        self.unrewarded = 0;
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
            self.start(flow);
            self.started = true;
        }
    }

    fn on_undo(&mut self, _flow: &Flow) {
        self.window.undo();
    }
}

impl Hybla {
    /// Uses the RTT of the handshake, if there is one.
    fn start(&mut self, flow: &Flow) {
        if flow.srtt.is_zero() {
            return;
        }
        self.started = true;
        self.min_srtt = Some(flow.srtt);
        if self.params.arithmetic == Arithmetic::Linux {
            self.update_rho(flow.srtt);
            if self.params.start_at_rho {
                self.window.cwnd = self.eighths / 8 * u64::from(flow.mss);
            }
        }
    }

    /// Tracks the smallest smoothed RTT. Recomputes rho when this minimum falls (Linux) or is reached (ns-3).
    #[inline]
    fn measure(&mut self, flow: &Flow) {
        if flow.srtt.is_zero() {
            return;
        }
        let least = self.min_srtt.unwrap_or(Time::MAX);
        let met = match self.params.arithmetic {
            Arithmetic::Linux => flow.srtt < least,
            Arithmetic::Ns3 => flow.srtt <= least,
        };
        self.min_srtt = Some(least.min(flow.srtt));
        if met {
            self.update_rho(flow.srtt);
        }
    }

    /// Computes rho = max(RTT / RTT0, 1) and the values that depend on it.
    #[cold]
    fn update_rho(&mut self, srtt: Time) {
        match self.params.arithmetic {
            Arithmetic::Linux => {
                self.eighths = (srtt.as_micros() * 8 / (self.params.rrtt_ms * 1000)).max(8);
                let whole = (self.eighths / 8).min(16);
                // 2^(k/8) for the fraction, truncated to 128ths as in Linux's table.
                let fraction = libm::floor(128.0 * libm::exp2((self.eighths % 8) as f64 / 8.0)) as u64;
                self.slow_start = (fraction << whole) - 128;
            }
            Arithmetic::Ns3 => self.rho = (srtt.as_millis() as f64 / self.params.rrtt_ms as f64).max(1.0),
        }
    }

    fn grow_linux(&mut self, mss: u32) {
        let w = self.window.segments(mss);
        let slow_start = self.window.in_slow_start();
        let increment = if slow_start {
            self.slow_start // 2^rho - 1
        } else {
            let increment = 2 * self.eighths * self.eighths / w; // rho^2 / w
            if increment < 128 {
                self.unrewarded += 1;
            }
            increment
        };
        self.parts += increment % 128;
        let mut segments = increment / 128;
        if self.parts >= 128 {
            segments += self.parts / 128;
            self.parts %= 128;
            self.unrewarded = 0;
        }
        if increment == 0 && self.unrewarded >= w {
            segments += 1;
            self.unrewarded = 0;
        }
        self.window.cwnd += segments * u64::from(mss);
        if slow_start {
            self.window.cwnd = self.window.cwnd.min(self.window.ssthresh);
        }
    }

    fn grow_ns3(&mut self, mss: u32, segments: u32) {
        let mut segments = segments;
        if self.window.in_slow_start() {
            let bytes = ((libm::exp2(self.rho) - 1.0) * f64::from(mss)) as u64; // 2^rho - 1
            self.window.cwnd = self.window.cwnd.saturating_add(bytes).min(self.window.ssthresh);
            segments -= 1;
        }
        if self.window.in_slow_start() || segments == 0 {
            return;
        }
        let w = self.window.segments(mss) as f64;
        self.credit += f64::from(segments) * (self.rho * self.rho / w); // rho^2 / w
        if self.credit >= 1.0 {
            let whole = self.credit as u64;
            self.credit -= whole as f64;
            self.window.cwnd += whole * u64::from(mss);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;

    fn flow(srtt_ms: u64) -> Flow {
        let srtt = Time::from_millis(srtt_ms);
        Flow {
            mss: 1000,
            initial_window: 10_000,
            initial_ssthresh: u64::MAX,
            srtt,
            latest_rtt: srtt,
            min_rtt: srtt,
            ..Flow::default()
        }
    }
    fn ack(segments: u32) -> Ack {
        Ack { acked: u64::from(segments) * 1000, segments, may_grow: true, ..Ack::default() }
    }
    fn after_loss(stack: &str, params: &str, srtt_ms: u64, segments: u64) -> (Flow, Box<dyn CongestionControl>) {
        let f = Flow { initial_window: segments * 1000, initial_ssthresh: segments * 1000, ..flow(srtt_ms) };
        let cc = build("hybla", stack, params, &f).unwrap();
        (f, cc)
    }

    /// Section 3: with rho = 4 an ACK adds 15 segments in slow start, and a window of 160 segments grows by 16 per RTT.
    #[test]
    fn window_grows_by_two_to_rho_and_rho_squared() {
        let f = flow(100);
        let mut cc = build("hybla", "linux", "start_at_rho = false", &f).unwrap();
        cc.on_ack(&f, &ack(1));
        assert_eq!(cc.trace().cwnd, 25_000);
        let (f, mut cc) = after_loss("linux", "start_at_rho = false", 100, 160);
        for _ in 0..160 {
            cc.on_ack(&f, &ack(1));
        }
        assert!((174_000..=176_000).contains(&cc.trace().cwnd), "{}", cc.trace().cwnd);
    }

    #[test]
    fn hybla_is_newreno_up_to_the_reference_rtt() {
        for ms in [1, 10, 25, 27] {
            let (f, mut cc) = after_loss("linux", "start_at_rho = false", ms, 64);
            for _ in 0..64 {
                cc.on_ack(&f, &ack(1));
            }
            assert_eq!(cc.trace().cwnd, 65_000, "{ms} ms");
        }
    }

    /// The fractions of 2^rho in 128ths: 2^(k/8), truncated.
    #[test]
    fn fractional_rho_is_exact_in_eighths() {
        for (eighth, want) in [128, 139, 152, 165, 181, 197, 215, 234].into_iter().enumerate() {
            let mut f = flow(25);
            f.srtt = Time::from_micros(25_000 + 3_125 * eighth as u64);
            let cc = Hybla::new(&Arc::new(Params::default()), &f);
            assert_eq!((cc.eighths, cc.slow_start + 128), (8 + eighth as u64, 2 * want));
        }
    }

    #[test]
    fn linux_starts_with_rho_segments() {
        for (ms, segments) in [(10, 1), (25, 1), (60, 2), (600, 24)] {
            let cc = build("hybla", "linux", "", &flow(ms)).unwrap();
            assert_eq!(cc.trace().cwnd, segments * 1000, "{ms} ms");
        }
        let mut cc = build("hybla", "linux", "", &flow(0)).unwrap();
        assert_eq!(cc.trace().cwnd, 10_000);
        for _ in 0..2 {
            cc.on_sent(&flow(60), &Sent { seq: 1, len: 1000, retransmission: false, tx_start: true });
            assert_eq!(cc.trace().cwnd, 2_000);
            cc.on_ack(&flow(60), &Ack::default());
        }
        let cc = build("hybla", "ns3", "", &flow(600)).unwrap();
        assert_eq!(cc.trace().cwnd, 10_000);
    }

    #[test]
    fn rho_follows_the_smallest_smoothed_rtt() {
        let f = flow(100);
        let mut cc = Hybla::new(&Arc::new(Params::default()), &f);
        cc.on_ack(&flow(300), &ack(1));
        assert_eq!(cc.eighths, 32);
        cc.on_ack(&flow(50), &ack(1));
        assert_eq!(cc.eighths, 16);
    }

    #[test]
    fn ns3_keeps_rho_at_one_unless_the_minimum_is_met() {
        let params = build_params();
        let mut cc = Hybla::new(&Arc::new(params.clone()), &flow(500));
        cc.on_ack(&flow(501), &ack(1));
        assert_eq!((cc.rho, cc.window.cwnd), (1.0, 11_000));
        cc.on_ack(&flow(499), &ack(1));
        assert_eq!(cc.rho, 9.98);
        // An instance created before the handshake reads the RTT when the first segment leaves.
        let mut cc = Hybla::new(&Arc::new(params.clone()), &flow(0));
        cc.on_sent(&flow(500), &Sent { seq: 1, len: 1000, retransmission: false, tx_start: true });
        cc.on_ack(&flow(501), &ack(1));
        assert_eq!(cc.rho, 1.0);
    }

    #[test]
    fn ns3_counts_segments() {
        let (f, mut cc) = after_loss("ns3", "", 100, 100);
        for _ in 0..13 {
            cc.on_ack(&f, &ack(2)); // rho = 2: 2 * 4 / 100 each
        }
        assert_eq!(cc.trace().cwnd, 101_000);
    }

    #[test]
    fn growth_outside_open_is_newreno() {
        let (mut f, mut cc) = after_loss("linux", "start_at_rho = false", 500, 100);
        f.state = CongestionState::Disorder;
        for _ in 0..100 {
            cc.on_ack(&f, &ack(1));
        }
        assert_eq!(cc.trace().cwnd, 101_000);
    }

    #[test]
    fn window_stays_within_bounds() {
        for stack in ["linux", "ns3"] {
            for ms in [0, 1, 10_000, 1_000_000_000] {
                for segments in [1u64, 1 << 30] {
                    let (mut f, mut cc) = after_loss(stack, "", ms, segments);
                    for n in [0, 1, u32::MAX] {
                        cc.on_ack(&f, &ack(n));
                    }
                    f.in_flight = 500;
                    cc.on_congestion(&f, Congestion::Timeout);
                    assert_eq!(cc.trace().cwnd, 1_000);
                    assert!(cc.trace().ssthresh >= 2_000);
                    for _ in 0..100 {
                        cc.on_ack(&f, &ack(1));
                    }
                }
            }
        }
        // A window of more than 128 rho^2 segments still grows by a segment per window.
        let (f, mut cc) = after_loss("linux", "start_at_rho = false", 25, 1000);
        for _ in 0..1000 {
            cc.on_ack(&f, &ack(1));
        }
        assert_eq!(cc.trace().cwnd, 1_001_000);
        assert!(build("hybla", "linux", "rrtt_ms = 0", &f).is_err());
    }

    fn build_params() -> Params {
        toml::from_str(NS3).unwrap()
    }
}
