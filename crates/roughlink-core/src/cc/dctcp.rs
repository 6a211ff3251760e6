//! DCTCP (RFC 8257): reduces the window in proportion to the share of marked bytes. If the queue marks at a low
//! threshold, it stays short while the link stays full.
//!
//! The window grows like Reno's. `alpha` estimates the share of marked bytes and is updated once per window of data
//! (section 3.3). A mark reduces the window by the fraction `alpha / 2`, at most once per window of data; a loss halves
//! it (section 3.5). The receiver must echo each mark exactly (`ecn_echo = "each"` in `[tcp]`). Without ECN, or with a
//! peer that offers none, `alpha` falls to zero, and only losses reduce the window.
//!
//! The defaults follow Linux's `tcp_dctcp`, with `alpha` in units of 1/1024. `fixed_point = false` computes with real
//! numbers, as the RFC and ns-3 3.44 do. With `halve_on_loss = false`, a loss also reduces the window by `alpha / 2`,
//! as in ns-3's TcpDctcp. An acknowledgment that reports the first mark of a round reduces the window before it updates
//! `alpha`; Linux 6.18 updates `alpha` first.

use super::entry::BuildAlgorithm;
use super::window::{AdditiveCounter, Window};
use super::{Ack, AlgorithmTrace, Congestion, CongestionControl, Flow, OptionalEvents, Permit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Parameters of [`Dctcp`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Weight of the newest window in `alpha`, as a shift: g = 2^-shift_g (RFC 8257 section 4.2: 4).
    pub shift_g: u32,
    /// `alpha` before the first window (RFC 8257 section 3.3: 1).
    pub initial_alpha: f64,
    /// Compute `alpha` in multiples of 1/1024 (Linux), otherwise as a real number.
    pub fixed_point: bool,
    /// Halve the window after a loss (RFC 8257 section 3.5), otherwise reduce it as for a mark (ns-3).
    pub halve_on_loss: bool,
}

impl Default for Params {
    fn default() -> Self {
        Params { shift_g: 4, initial_alpha: 1.0, fixed_point: true, halve_on_loss: true }
    }
}

/// The `ns3` preset.
pub const NS3: &str = "fixed_point = false\nhalve_on_loss = false";
/// The `ns2` and `rfc` presets.
pub const RFC: &str = "fixed_point = false";
/// `[tcp]` keys that the algorithm needs.
pub const TCP: &str = "ecn = true\necn_echo = \"each\"";

/// Units of `alpha` in fixed point (Linux `DCTCP_MAX_ALPHA`).
const ONE: f64 = 1024.0;

/// The algorithm.
#[derive(Clone, Debug)]
pub struct Dctcp {
    window: Window,
    counter: AdditiveCounter,
    params: Arc<Params>,
    /// Estimated share of marked bytes, in [0, 1].
    alpha: f64,
    /// Bytes delivered in this window of data, and how many of them were reported with ECE.
    delivered: u64,
    marked: u64,
    /// Offset at which the window of data ends.
    round_end: u64,
}

impl Dctcp {
    /// Updates `alpha` at the end of a window of data (RFC 8257 section 3.3, Linux `dctcp_update_alpha`).
    fn end_round(&mut self) {
        let share = self.marked as f64 / self.delivered.max(1) as f64;
        let g = 1.0 / f64::from(1u32 << self.params.shift_g);
        self.alpha = if self.params.fixed_point {
            let alpha = self.alpha * ONE;
            let decay = libm::floor(alpha * g);
            let decay = if decay > 0.0 { decay } else { alpha };
            (alpha - decay + libm::floor(share * ONE * g)).min(ONE) / ONE
        } else {
            (1.0 - g) * self.alpha + g * share
        };
        (self.delivered, self.marked) = (0, 0);
    }
}

impl BuildAlgorithm for Dctcp {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if p.shift_g > 10 {
            Err("`shift_g` must be at most 10".into())
        } else if !(0.0..=1.0).contains(&p.initial_alpha) {
            Err("`initial_alpha` must be between 0 and 1".into())
        } else {
            Ok(())
        }
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        Dctcp {
            window: Window::new(flow),
            counter: AdditiveCounter::default(),
            alpha: params.initial_alpha,
            params: Arc::clone(params),
            delivered: 0,
            marked: 0,
            round_end: 0,
        }
    }
}

impl CongestionControl for Dctcp {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        self.delivered += ack.delivered;
        self.marked += if ack.ecn_echo { ack.delivered } else { 0 };
        if flow.snd_una >= self.round_end {
            self.end_round();
            self.round_end = flow.snd_nxt;
        }
        if ack.may_grow {
            self.window.reno(&mut self.counter, flow.mss, ack.segments);
        }
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        let part = if cause != Congestion::Ecn && self.params.halve_on_loss { 1.0 } else { self.alpha };
        let mss = u64::from(flow.mss);
        let cwnd = self.window.segments(flow.mss);
        let ssthresh = cwnd - (cwnd as f64 * part / 2.0) as u64;
        self.window.reduce(flow, cause, ssthresh.max(2) * mss);
        self.counter = AdditiveCounter::default();
    }

    fn on_loss_after_mark(&mut self, flow: &Flow) {
        if self.params.halve_on_loss {
            let mss = u64::from(flow.mss);
            let half = (flow.window(self.window.cwnd) / mss / 2).max(2) * mss;
            self.window.ssthresh = self.window.ssthresh.min(half);
            self.window.cwnd = self.window.cwnd.min(half);
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
    use super::*;

    const MSS: u64 = 1000;

    fn flow() -> Flow {
        Flow { mss: MSS as u32, initial_window: 100 * MSS, initial_ssthresh: MSS, ..Flow::default() }
    }

    /// Acknowledges `segments`, of which the first `marked` are reported with ECE, while 100 are outstanding.
    fn acknowledge(cc: &mut Dctcp, f: &mut Flow, segments: u64, marked: u64) {
        for i in 0..segments {
            f.snd_una += MSS;
            f.snd_nxt = f.snd_una + 100 * MSS;
            cc.on_ack(f, &Ack { acked: MSS, delivered: MSS, segments: 1, ecn_echo: i < marked, ..Ack::default() });
        }
    }

    /// RFC 8257 section 3.3: alpha = (1 - g) alpha + g M, once per window. Linux's `dctcp_update_alpha` counts
    /// in units of 1/1024.
    #[test]
    fn alpha_follows_the_share_of_marked_bytes() {
        let rounds = [100, 30, 30, 0, 7, 55, 0, 0, 1];
        for fixed_point in [false, true] {
            let (mut f, mut cc) = (flow(), Dctcp::new(&Arc::new(Params { fixed_point, ..Params::default() }), &flow()));
            acknowledge(&mut cc, &mut f, 1, 0); // ends the round of the handshake
            let (mut real, mut units) = (15.0 / 16.0, 1024 - 64);
            for marked in rounds {
                acknowledge(&mut cc, &mut f, 100, marked);
                real = real * 15.0 / 16.0 + marked as f64 / 100.0 / 16.0;
                units = (units - units / 16 + marked * MSS * 64 / (100 * MSS)).min(1024);
                let expected = if fixed_point { units as f64 / 1024.0 } else { real };
                assert!((cc.alpha - expected).abs() < 1e-12, "{fixed_point} {marked}: {} {expected}", cc.alpha);
            }
        }
    }

    /// In fixed point, a decrease that would round to zero removes all of alpha, so alpha reaches zero.
    #[test]
    fn alpha_reaches_zero_without_marks() {
        let (mut f, mut cc) = (flow(), Dctcp::new(&Arc::new(Params::default()), &flow()));
        acknowledge(&mut cc, &mut f, 20_001, 0);
        assert_eq!(cc.alpha, 0.0);
    }

    /// Linux `dctcp_state`: a loss found while the window falls after a mark halves the current window.
    #[test]
    fn a_loss_after_a_mark_halves_the_window() {
        for (halve_on_loss, ssthresh) in [(true, 40), (false, 75)] {
            let (mut f, params) = (flow(), Params { initial_alpha: 0.5, halve_on_loss, ..Params::default() });
            let mut cc = Dctcp::new(&Arc::new(params.clone()), &f);
            cc.on_congestion(&f, Congestion::Ecn);
            f.recovery_window = Some(80 * MSS); // PRR is on its way to 75
            cc.on_loss_after_mark(&f);
            assert_eq!(cc.window.ssthresh / MSS, ssthresh);
        }
    }

    /// RFC 8257: a mark reduces cwnd by alpha / 2 (section 3.3), a loss by half (section 3.5), in ns-3 like a mark.
    #[test]
    fn mark_reduces_by_half_of_alpha_and_loss_by_half() {
        let ssthresh = |keys: &Params, cause| {
            let mut cc = Dctcp::new(&Arc::new(Params { initial_alpha: 0.5, ..keys.clone() }), &flow());
            cc.on_congestion(&flow(), cause);
            (cc.window.cwnd / MSS, cc.window.ssthresh / MSS)
        };
        let linux = Params::default();
        assert_eq!(ssthresh(&linux, Congestion::Ecn), (75, 75));
        assert_eq!(ssthresh(&linux, Congestion::Loss), (50, 50));
        assert_eq!(ssthresh(&linux, Congestion::Timeout), (1, 50));
        assert_eq!(ssthresh(&Params { halve_on_loss: false, ..linux }, Congestion::Loss), (75, 75));
    }
}
