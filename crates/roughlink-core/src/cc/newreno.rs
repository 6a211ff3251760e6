//! NewReno: additive increase, multiplicative decrease (RFC 5681), with the endpoint's fast recovery of RFC 6582.
//!
//! Defaults are Linux's `tcp_reno`: growth counts acknowledged segments, ssthresh is half the *window*. `ns3` grows
//! once per ACK of any number of segments (RFC 5681 allows both) and halves the bytes in flight. NewReno SC of the V2G
//! paper is `min_ssthresh = 10`. The paper's Algorithm 1 covers the fast retransmit only; its text (section 4.2) says
//! "the ssthresh value that is used throughout the entire TCP connection lifetime". The bound therefore holds after
//! time-outs too, unless `on_timeout = false`.
//!
//! Two more names share this arithmetic. `reno` is Linux's `tcp_reno` on every stack; under `ns3` it stands for
//! TcpLinuxReno (`ns3_linux_reno`). `tahoe` restarts from one segment after every loss (`restart`; Jacobson 1988), and
//! retransmits like a stack without fast recovery.

use super::entry::BuildAlgorithm;
use super::window::{AdditiveCounter, Halve, Window};
use super::{Ack, AlgorithmTrace, Congestion, CongestionControl, Flow, OptionalEvents, Permit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Parameters of [`NewReno`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Count acknowledged segments (RFC 3465, Linux) instead of ACKs (ns-3).
    pub abc: bool,
    /// With `abc`, maximum number of segments that one ACK adds in slow start: L of RFC 3465, 1 in RFC 5681; 0 = all
    /// acknowledged segments (Linux).
    pub slow_start_limit: u64,
    /// Lower bound of ssthresh, segments (RFC 5681 equation 4: 2).
    pub min_ssthresh: u32,
    /// Apply the lower bound after a time-out, too; otherwise the bound is 2 segments there.
    pub on_timeout: bool,
    /// Quantity that a loss halves.
    pub halve: Halve,
    /// Follow ns-3's TcpLinuxReno, which differs from Linux. Growth beyond ssthresh requires that the window was the
    /// limit when the last segment left. An ACK that ends slow start does not count for congestion avoidance. A loss
    /// halves bytes instead of segments, and keeps the count toward the next segment.
    pub ns3_linux_reno: bool,
    /// Reduce the window to one segment on a loss, too (Tahoe).
    pub restart: bool,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            abc: true,
            slow_start_limit: 0,
            min_ssthresh: 2,
            on_timeout: true,
            halve: Halve::Cwnd,
            ns3_linux_reno: false,
            restart: false,
        }
    }
}

/// The `ns3` preset.
pub const NS3: &str = "abc = false\nhalve = \"flight\"";
/// The `rfc` preset: RFC 5681 section 3.1 counts acknowledged bytes, and in slow start an ACK adds at most a segment.
pub const RFC: &str = "slow_start_limit = 1\nhalve = \"outstanding\"";
/// The `ns2` preset: ns-2.35 grows per ACK (tcp.cc, `TcpAgent::opencwnd`).
pub const NS2: &str = "abc = false\nhalve = \"outstanding\"";
/// The `ns3` and `ns2` presets of `tahoe`: RFC 2001 has no FlightSize and halves the current window.
pub const PER_ACK: &str = "abc = false";
/// The `rfc` preset of algorithms that grow as Reno and do not halve FlightSize.
pub const RFC_GROWTH: &str = "slow_start_limit = 1";
/// The `ns3` preset of `reno`: TcpLinuxReno.
pub const NS3_RENO: &str = "ns3_linux_reno = true";

/// The algorithm.
#[derive(Clone, Debug)]
pub struct NewReno {
    window: Window,
    counter: AdditiveCounter,
    params: Arc<Params>,
}

impl BuildAlgorithm for NewReno {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if p.min_ssthresh == 0 { Err("`min_ssthresh` must be at least 1 segment".into()) } else { Ok(()) }
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        NewReno {
            window: Window::with_slow_start_limit(flow, params.slow_start_limit),
            counter: AdditiveCounter::default(),
            params: Arc::clone(params),
        }
    }
}

impl CongestionControl for NewReno {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        if !ack.may_grow || ack.segments == 0 {
            return;
        }
        if self.params.abc {
            let mss = u64::from(flow.mss);
            let mut segments = u64::from(ack.segments);
            if self.window.in_slow_start() {
                segments = self.window.slow_start(segments * mss) / mss;
                if self.params.ns3_linux_reno {
                    return;
                }
            }
            if segments > 0 && (flow.cwnd_limited || !self.params.ns3_linux_reno) {
                let w = self.window.segments(flow.mss);
                self.counter.advance(&mut self.window.cwnd, flow.mss, w, segments);
            }
        } else {
            self.window.grow_per_ack(flow.mss, ack.segments);
        }
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        let half = match self.params.halve {
            // Growth per ACK goes with a window in bytes.
            Halve::Cwnd if self.params.ns3_linux_reno || !self.params.abc => self.window.cwnd / 2,
            Halve::Cwnd => self.window.segments(flow.mss) / 2 * u64::from(flow.mss),
            Halve::Flight => flow.in_flight / 2,
            Halve::Outstanding => flow.outstanding.min(self.window.cwnd) / 2,
            Halve::Unacknowledged => flow.outstanding / 2,
        };
        let least = if cause == Congestion::Timeout && !self.params.on_timeout { 2 } else { self.params.min_ssthresh };
        let cause = match cause {
            Congestion::Loss | Congestion::Ecn if self.params.restart => Congestion::Timeout,
            _ => cause,
        };
        self.window.reduce(flow, cause, half.max(u64::from(least) * u64::from(flow.mss)));
        if !self.params.ns3_linux_reno {
            self.counter = AdditiveCounter::default();
        }
    }

    fn optional_events(&self) -> OptionalEvents {
        OptionalEvents::ACKS
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

#[cfg(test)]
mod tests {
    use super::super::{CongestionState, build};
    use super::*;

    fn flow() -> Flow {
        Flow { mss: 1000, initial_window: 10_000, initial_ssthresh: u64::MAX, ..Flow::default() }
    }
    fn ack(segments: u32) -> Ack {
        Ack { acked: u64::from(segments) * 1000, segments, may_grow: true, ..Ack::default() }
    }

    #[test]
    fn byte_counting_doubles_per_window() {
        let f = flow();
        let mut cc = build("newreno", "linux", "", &f).unwrap();
        for _ in 0..5 {
            cc.on_ack(&f, &ack(2));
        }
        assert_eq!(cc.trace().cwnd, 20_000);
        let mut cc = build("newreno", "ns3", "", &f).unwrap();
        for _ in 0..5 {
            cc.on_ack(&f, &ack(2));
        }
        assert_eq!(cc.trace().cwnd, 15_000);
    }

    #[test]
    fn ssthresh_is_half_but_not_below_its_floor() {
        let mut f = flow();
        f.in_flight = 8_000;
        let mut cc = build("newreno", "ns3", "", &f).unwrap();
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.trace().ssthresh, 4_000);
        f.in_flight = 3_000;
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.trace().ssthresh, 2_000);
        let mut sc = build("newreno-sc", "ns3", "", &f).unwrap();
        sc.on_congestion(&f, Congestion::Loss);
        assert_eq!(sc.trace().ssthresh, 10_000);
        sc.on_congestion(&f, Congestion::Timeout);
        assert_eq!((sc.trace().ssthresh, sc.trace().cwnd), (10_000, 1_000));
        let mut sc = build("newreno-sc", "ns3", "on_timeout = false", &f).unwrap();
        sc.on_congestion(&f, Congestion::Timeout);
        assert_eq!(sc.trace().ssthresh, 2_000);
    }

    #[test]
    fn reno_counts_segments_on_every_stack() {
        let mut f = flow();
        f.cwnd_limited = true;
        for stack in ["linux", "ns3"] {
            let mut cc = build("reno", stack, "", &f).unwrap();
            for _ in 0..5 {
                cc.on_ack(&f, &ack(2));
            }
            assert_eq!(cc.trace().cwnd, 20_000, "{stack}");
            cc.on_congestion(&f, Congestion::Loss);
            assert_eq!(cc.trace().ssthresh, 10_000, "{stack}");
        }
        let f = Flow { initial_ssthresh: 10_000, ..flow() };
        for (stack, cwnd) in [("linux", 11_000), ("ns3", 10_000)] {
            let mut idle = build("reno", stack, "", &f).unwrap();
            idle.on_ack(&f, &ack(10));
            assert_eq!(idle.trace().cwnd, cwnd, "{stack}");
        }
    }

    /// RFC 5681 section 3.1: slow start adds min(N, SMSS) per ACK. Congestion avoidance counts acknowledged bytes, so
    /// delayed ACKs do not halve its growth. ns-2.35 (`TcpAgent::opencwnd`) counts ACKs.
    #[test]
    fn growth_with_delayed_acks_depends_on_the_stack() {
        for (name, stack, slow_start, round) in [
            ("newreno", "linux", 2_000, 1_000),
            ("newreno", "rfc", 1_000, 1_000),
            ("reno", "rfc", 1_000, 1_000),
            ("newreno-sc", "rfc", 1_000, 1_000),
            ("tahoe", "rfc", 1_000, 1_000),
            ("vegas", "rfc", 1_000, 1_000),
            ("veno", "rfc", 1_000, 1_000),
            ("westwood", "rfc", 1_000, 1_000),
            ("westwood-classic", "rfc", 1_000, 1_000),
            ("newreno", "ns2", 1_000, 500),
            ("reno", "ns2", 1_000, 500),
            ("newreno", "ns3", 1_000, 500),
        ] {
            let mut cc = build(name, stack, "", &flow()).unwrap();
            cc.on_ack(&flow(), &ack(2));
            assert_eq!(cc.trace().cwnd, 10_000 + slow_start, "{name} on {stack}, slow start");
            let mut f = Flow { initial_window: 100_000, initial_ssthresh: 100_000, cwnd_limited: true, ..flow() };
            let mut cc = build(name, stack, "", &f).unwrap();
            for _ in 0..50 {
                f.snd_una += 2_000;
                cc.on_ack(&f, &ack(2));
            }
            let growth = cc.trace().cwnd - 100_000;
            assert!(growth.abs_diff(round) <= 50, "{name} on {stack}, a window in avoidance: {growth}");
        }
    }

    #[test]
    fn tahoe_restarts_from_one_segment() {
        let mut f = flow();
        f.in_flight = 8_000;
        f.outstanding = 8_000;
        for stack in ["linux", "ns3", "ns2", "rfc"] {
            let mut cc = build("tahoe", stack, "", &f).unwrap();
            cc.on_congestion(&f, Congestion::Loss);
            assert_eq!((cc.trace().cwnd, cc.trace().ssthresh), (1_000, 5_000), "{stack}");
            cc.on_undo(&f);
            assert_eq!(cc.trace().cwnd, 10_000, "{stack}");
        }
    }

    #[test]
    fn odd_windows_are_halved_in_bytes_where_acks_grow_them() {
        let f = Flow { initial_window: 9_000, ..flow() };
        for (stack, ssthresh) in [("linux", 4_000), ("ns3", 4_500), ("ns2", 4_500)] {
            let mut cc = build("tahoe", stack, "", &f).unwrap();
            cc.on_congestion(&f, Congestion::Loss);
            assert_eq!(cc.trace().ssthresh, ssthresh, "{stack}");
        }
    }

    #[test]
    fn flight_size_may_exceed_the_window_after_fast_retransmits() {
        let f = Flow { outstanding: 16_000, ..flow() }; // the window is 10 segments
        for (halve, ssthresh) in [("outstanding", 5_000), ("unacknowledged", 8_000)] {
            let mut cc = build("newreno", "ns2", &format!("halve = \"{halve}\""), &f).unwrap();
            cc.on_congestion(&f, Congestion::Loss);
            assert_eq!(cc.trace().ssthresh, ssthresh, "{halve}");
        }
    }

    #[test]
    fn reduction_clears_credit_towards_the_next_segment() {
        let f = Flow { initial_ssthresh: 10_000, ..flow() };
        let mut cc = build("reno", "linux", "", &f).unwrap();
        cc.on_ack(&f, &ack(9));
        cc.on_congestion(&f, Congestion::Loss);
        cc.on_ack(&f, &ack(4));
        assert_eq!(cc.trace().cwnd, 5_000);
        cc.on_ack(&f, &ack(1));
        assert_eq!(cc.trace().cwnd, 6_000);
    }

    #[test]
    fn recovery_window_limits_sending_during_recovery() {
        let mut f = flow();
        f.state = CongestionState::Recovery;
        f.recovery_window = Some(3_000);
        let cc = build("newreno", "linux", "", &f).unwrap();
        assert_eq!(cc.permit(&f), Permit::window(3_000));
    }
}
