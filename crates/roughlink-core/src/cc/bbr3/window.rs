//! Pacing rate, send quantum and window ("Updating Control Parameters").

use super::{Bbr3, BbrState, DeliverySample};
use crate::cc::Flow;
use crate::cc::bbr::milliseconds;
use crate::units::{Rate, Time};

impl Bbr3 {
    /// Sets the pacing rate for `gain` ("Pacing Rate"). The rate never falls until the pipe has been full once.
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let rate = (gain * self.bw as f64 * (100.0 - self.params.pacing_margin_percent) / 100.0) as u64;
        if self.full_bw_reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Returns the initial window over the RTT, times the gain of Startup (InitPacingRate).
    #[cold]
    pub(super) fn initial_pacing_rate(&self, flow: &Flow) -> u64 {
        let rtt = if flow.srtt.is_zero() { milliseconds(self.params.initial_rtt_ms) } else { flow.srtt };
        let nominal_bandwidth = Rate::from_bytes_per(flow.initial_window, rtt.max(Time::from_micros(1)));
        (nominal_bandwidth.bytes_per_sec() as f64 * self.params.startup_pacing_gain) as u64
    }

    /// Returns the size of a burst, bytes ("Send Quantum").
    fn send_quantum(&self, flow: &Flow) -> u64 {
        let bytes = (self.pacing_rate as f64 * self.params.send_quantum_ms / 1e3) as u64;
        bytes.min(self.params.max_send_quantum).max(u64::from(self.params.min_send_quantum) * u64::from(flow.mss))
    }

    pub(super) fn min_pipe_cwnd(&self, flow: &Flow) -> u64 {
        u64::from(self.params.min_pipe_cwnd) * u64::from(flow.mss)
    }

    /// Returns `bw` x smallest RTT x `gain`, bytes, or the initial window if no RTT is known.
    pub(super) fn bdp_multiple(&self, flow: &Flow, bw: u64, gain: f64) -> u64 {
        if self.rtt.min_rtt == Time::MAX {
            return flow.initial_window;
        }
        (gain * (bw as f64 * self.rtt.min_rtt.as_secs_f64())).min(1e18) as u64
    }

    fn quantization_budget(&self, flow: &Flow, inflight_cap: u64) -> u64 {
        let offload_budget = u64::from(self.params.offload_quanta) * self.send_quantum(flow);
        let probing = if self.state == BbrState::ProbeBwUp { 2 * u64::from(flow.mss) } else { 0 };
        inflight_cap.max(offload_budget).max(self.min_pipe_cwnd(flow)) + probing
    }

    /// Returns `bdp_multiple`, raised to what bursts need (Inflight).
    pub(super) fn inflight(&self, flow: &Flow, bw: u64, gain: f64) -> u64 {
        self.quantization_budget(flow, self.bdp_multiple(flow, bw, gain))
    }

    /// Returns the bandwidth-delay product, or the window if this is smaller (TargetInflight).
    pub(super) fn target_inflight(&self, flow: &Flow) -> u64 {
        self.bdp_multiple(flow, self.bw, 1.0).min(self.cwnd)
    }

    /// Returns `inflight_longterm` less the share left to other flows ("ProbeBW Algorithm Details").
    pub(super) fn inflight_with_headroom(&self, flow: &Flow) -> u64 {
        if self.inflight_longterm == u64::MAX {
            return u64::MAX;
        }
        let headroom = (self.params.headroom * self.inflight_longterm as f64) as u64;
        self.inflight_longterm.saturating_sub(headroom.max(flow.mss.into())).max(self.min_pipe_cwnd(flow))
    }

    /// Sets the window ("cwnd Adjustment Mechanism").
    pub(super) fn set_cwnd(&mut self, flow: &Flow, rs: &DeliverySample) {
        let cap = self.bdp_multiple(flow, self.bw, self.cwnd_gain()) + self.extra_acked_filter.max();
        let max_inflight = self.quantization_budget(flow, cap);
        if self.full_bw_reached {
            self.cwnd = (self.cwnd + rs.newly_acked).min(max_inflight);
        } else if self.cwnd < max_inflight || flow.delivered < flow.initial_window {
            self.cwnd += rs.newly_acked;
        }
        self.cwnd = self.cwnd.max(self.min_pipe_cwnd(flow));
        if self.state == BbrState::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd(flow));
        }
        self.bound_cwnd_for_model(flow);
    }

    /// Bounds the window by recent congestion ("Bounding cwnd Based on Recent Congestion").
    fn bound_cwnd_for_model(&mut self, flow: &Flow) {
        let cap = match self.state {
            BbrState::ProbeBwCruise | BbrState::ProbeRtt => self.inflight_with_headroom(flow),
            BbrState::ProbeBwDown | BbrState::ProbeBwRefill | BbrState::ProbeBwUp => self.inflight_longterm,
            BbrState::Startup | BbrState::Drain => u64::MAX,
        };
        self.cwnd = self.cwnd.min(cap.min(self.inflight_shortterm).max(self.min_pipe_cwnd(flow)));
    }
}
