//! The window of BBR: its target, and its changes during recovery.

use super::aggregation::carried;
use super::{Bbr, BbrMode};
use crate::cc::{CongestionState, Flow, RateSample};
use crate::units::Time;

impl Bbr {
    /// Sets the window for a delivery (section 4.2.3.6).
    pub(super) fn set_cwnd(&mut self, flow: &Flow, sample: &RateSample) {
        let least = u64::from(self.params.min_cwnd) * u64::from(flow.mss);
        let acked = sample.acked_sacked;
        if acked > 0 && !self.conserve_or_restore(flow, sample) {
            let target = self.budget(flow, self.bdp(flow, self.bandwidth(), self.cwnd_gain) + self.extra_acked());
            if self.full_pipe {
                self.cwnd = self.grown(acked).min(target);
            } else if self.cwnd < target || flow.delivered < flow.initial_window {
                self.cwnd = self.grown(acked);
            }
            self.cwnd = self.cwnd.max(least);
        }
        if self.mode == BbrMode::ProbeRtt {
            self.cwnd = self.cwnd.min(least);
        }
    }

    /// Lets one segment leave per delivered one in the first round of recovery, then two, and restores the window after
    /// recovery (section 4.2.3.4). Returns true while packet conservation alone sets the window.
    pub(super) fn conserve_or_restore(&mut self, flow: &Flow, sample: &RateSample) -> bool {
        use CongestionState::{Loss, Recovery};
        let conserved = flow.in_flight + sample.acked_sacked;
        let before = std::mem::replace(&mut self.state, flow.state);
        let repairing = |s| s == Recovery || s == Loss;
        if self.params.full_conservation || flow.state == Recovery {
            self.cwnd = self.cwnd.saturating_sub(sample.losses).max(u64::from(flow.mss));
        }
        if flow.state == Recovery && before != Recovery && self.params.full_conservation {
            self.conservation = true;
            self.next_round_delivered = flow.delivered;
            self.cwnd = conserved;
        } else if repairing(before) && !repairing(flow.state) {
            if before == Recovery && !self.params.exit_to_ssthresh
                || before == Loss && self.params.restore_after_timeout
            {
                self.cwnd = self.cwnd.max(self.prior_cwnd);
            }
            self.conservation = false;
        }
        if self.conservation && (self.params.full_conservation || flow.state == Recovery) {
            self.cwnd = self.cwnd.max(conserved);
            return true;
        }
        false
    }

    pub(super) fn grown(&self, acked: u64) -> u64 {
        let sum = self.cwnd.saturating_add(acked);
        if self.params.wrap_window { sum & u64::from(u32::MAX) } else { sum }
    }

    /// Begins fast recovery as ns-3 does, before the first acknowledgment of the recovery changes the model. Packet
    /// conservation then lasts only for the rest of the round.
    pub(super) fn begin_recovery(&mut self, flow: &Flow, sample: &RateSample) {
        let begins = flow.state == CongestionState::Recovery && self.state != CongestionState::Recovery;
        if begins && !self.params.full_conservation {
            self.conservation = true;
            self.cwnd = flow.in_flight + sample.acked_sacked.max(u64::from(flow.mss));
        }
    }

    /// Saves the window, or the larger of it and the saved one if recovery or ProbeRtt has reduced it.
    pub(super) fn save_cwnd(&mut self) {
        let in_loss = self.params.full_conservation && self.state == CongestionState::Loss;
        let cut = in_loss || self.state == CongestionState::Recovery || self.mode == BbrMode::ProbeRtt;
        self.prior_cwnd = if cut { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    /// Returns bandwidth x smallest RTT x `gain`, bytes, or the initial window if no RTT is known.
    pub(super) fn bdp(&self, flow: &Flow, bandwidth: u64, gain: f64) -> u64 {
        if self.min_rtt == Time::MAX {
            return flow.initial_window;
        }
        let bytes = bandwidth as f64 * self.min_rtt.as_secs_f64() * gain;
        if !self.params.whole_segments {
            return bytes.min(1e18) as u64;
        }
        let mss = f64::from(flow.mss);
        ((bytes / mss).ceil() * mss).min(1e18) as u64
    }

    /// Returns `window` plus the data that the two hosts hold (section 4.2.3.2).
    pub(super) fn budget(&self, flow: &Flow, window: u64) -> u64 {
        let mss = u64::from(flow.mss);
        let mut window = window + 3 * self.quantum(flow);
        if self.params.even_window {
            window = window.div_ceil(2 * mss) * 2 * mss;
        }
        if self.mode == BbrMode::ProbeBw && self.phase == 0 {
            window += 2 * mss; // probing must exceed even a small bandwidth-delay product
        }
        window
    }

    /// Returns the target for data in flight at `gain`, including the budget.
    pub(super) fn target(&self, flow: &Flow, gain: f64) -> u64 {
        self.budget(flow, self.bdp(flow, self.bandwidth.max(), gain))
    }

    /// Returns the data in flight at the next departure, bytes (Linux `bbr_packets_in_net_at_edt`). Until then the path
    /// delivers at the estimated bandwidth. While the gain is above 1, the departing burst counts, too.
    pub(super) fn in_flight(&self, flow: &Flow, in_flight: u64) -> u64 {
        if self.params.quantum != 0 {
            return in_flight;
        }
        let wait = flow.next_departure.saturating_sub(flow.now);
        let mss = u64::from(flow.mss);
        let delivered = carried(self.bandwidth(), wait) / mss * mss;
        let departing = if self.pacing_gain > 1.0 { self.quantum(flow) } else { 0 };
        (in_flight + departing).saturating_sub(delivered)
    }

    /// Returns the size of a burst, bytes.
    pub(super) fn quantum(&self, flow: &Flow) -> u64 {
        let mss = u64::from(flow.mss);
        let segments = match self.params.quantum {
            0 => ((self.rate >> PACING_SHIFT).min(GSO_MAX) / mss).max(self.least_quantum()).min(TSO_MAX),
            n => u64::from(n),
        };
        segments * mss
    }

    /// Returns the minimum number of segments in a burst (Linux `bbr_min_tso_segs`).
    pub(super) fn least_quantum(&self) -> u64 {
        if self.rate < self.params.quantum_rate / 8 { 1 } else { 2 }
    }

    pub(super) fn extra_acked(&self) -> u64 {
        if !self.full_pipe {
            return 0;
        }
        let limit = self.bandwidth() as f64 * self.params.aggregation_limit_ms / 1e3;
        (self.aggregation.max() as f64 * self.params.aggregation_gain).min(limit) as u64
    }
}

/// Linux's `sk_pacing_shift`: a TSO packet lasts 2^-10 s.
const PACING_SHIFT: u32 = 10;
/// Payload that fits a GSO packet: 64 KiB less headers.
const GSO_MAX: u64 = 65_536 - 1 - 320;
/// Linux counts the segments of a TSO packet in seven bits.
const TSO_MAX: u64 = 127;
