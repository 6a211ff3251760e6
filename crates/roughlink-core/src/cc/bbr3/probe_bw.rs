//! The cycle of ProbeBW ("ProbeBW Algorithm Details"): DOWN drains the queue, CRUISE holds the rate, REFILL fills the
//! pipe, and UP probes for more bandwidth.

use super::{AckPhase, Bbr3, BbrState, DeliverySample};
use crate::cc::Flow;
use crate::cc::bbr::milliseconds;
use crate::units::Time;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// State of probing for bandwidth ("ProbeBW State").
#[derive(Clone, Debug)]
pub(super) struct BandwidthProbe {
    pub is_sample: bool,
    pub prev_too_high: bool,
    pub prev_precautionary: bool,
    /// Bytes acknowledged since `inflight_longterm` last grew.
    pub up_acked: u64,
    /// Bytes to acknowledge until `inflight_longterm` grows by a segment.
    pub up_acked_per_inc: u64,
    pub up_rounds: u32,
    pub rounds_since_up: u32,
    /// Longest time until the next probe.
    pub wait: Time,
    /// Start of the current cycle.
    pub cycle_stamp: Time,
}

impl Default for BandwidthProbe {
    fn default() -> Self {
        BandwidthProbe {
            is_sample: false,
            prev_too_high: false,
            prev_precautionary: false,
            up_acked: 0,
            up_acked_per_inc: u64::MAX,
            up_rounds: 0,
            rounds_since_up: 0,
            wait: Time::ZERO,
            cycle_stamp: Time::ZERO,
        }
    }
}

impl Bbr3 {
    pub(super) fn start_probe_bw_down(&mut self, flow: &Flow) {
        self.reset_congestion_signals();
        self.probe.up_acked_per_inc = u64::MAX;
        self.pick_probe_wait(flow);
        self.probe.cycle_stamp = flow.now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round(flow);
        self.state = BbrState::ProbeBwDown;
    }

    pub(super) fn start_probe_bw_refill(&mut self, flow: &Flow) {
        self.reset_short_term_model();
        self.probe.up_rounds = 0;
        self.probe.up_acked = 0;
        self.probe.prev_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round(flow);
        self.state = BbrState::ProbeBwRefill;
    }

    fn start_probe_bw_up(&mut self, flow: &Flow, rs: &DeliverySample) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round(flow);
        self.reset_full_bw();
        self.full_bw = rs.delivery_rate;
        self.state = BbrState::ProbeBwUp;
        self.raise_inflight_longterm_slope(flow);
    }

    /// Advances the cycle (UpdateProbeBWCyclePhase).
    pub(super) fn update_probe_bw_cycle_phase(&mut self, flow: &Flow, rs: &DeliverySample) {
        if !self.full_bw_reached || self.adapt_long_term_model(flow, rs) {
            return;
        }
        match self.state {
            BbrState::ProbeBwDown => {
                if !self.begin_probe_if_due(flow) && self.is_time_to_cruise(flow) {
                    self.state = BbrState::ProbeBwCruise;
                }
            }
            BbrState::ProbeBwCruise => {
                self.begin_probe_if_due(flow);
            }
            BbrState::ProbeBwRefill => {
                if self.round_start {
                    self.probe.is_sample = true;
                    self.start_probe_bw_up(flow, rs);
                }
            }
            BbrState::ProbeBwUp => {
                if self.is_time_to_go_down(flow, rs) {
                    self.probe.prev_too_high = false;
                    self.start_probe_bw_down(flow);
                }
            }
            BbrState::Startup | BbrState::Drain | BbrState::ProbeRtt => {}
        }
    }

    fn is_time_to_cruise(&self, flow: &Flow) -> bool {
        flow.in_flight <= self.inflight_with_headroom(flow) && flow.in_flight <= self.inflight(flow, self.max_bw(), 1.0)
    }

    fn is_time_to_go_down(&mut self, flow: &Flow, rs: &DeliverySample) -> bool {
        if self.probe.prev_too_high && flow.in_flight >= self.inflight_longterm {
            self.probe.prev_precautionary = true;
            return true;
        }
        if self.uses_longterm_limit(flow) {
            self.reset_full_bw(); // the limit, not the path, sets the rate
            self.full_bw = rs.delivery_rate;
            return false;
        }
        self.full_bw_now
    }

    /// Returns true if the window was used and is not below `inflight_longterm`.
    fn uses_longterm_limit(&self, flow: &Flow) -> bool {
        flow.cwnd_limited && self.cwnd >= self.inflight_longterm
    }

    /// Begins a probe for bandwidth if it is due ("Time Scale for Bandwidth Probing", IsTimeToProbeBW).
    fn begin_probe_if_due(&mut self, flow: &Flow) -> bool {
        let elapsed = flow.now > self.probe.cycle_stamp.saturating_add(self.probe.wait);
        let due = elapsed || self.is_reno_coexistence_probe_time(flow);
        if due {
            self.start_probe_bw_refill(flow);
        }
        due
    }

    fn is_reno_coexistence_probe_time(&self, flow: &Flow) -> bool {
        let reno_rounds = self.target_inflight(flow) / u64::from(flow.mss.max(1));
        u64::from(self.probe.rounds_since_up) >= reno_rounds.min(self.params.probe_rounds.into())
    }

    /// Draws the time until the next probe. The same seed and state give the same time.
    fn pick_probe_wait(&mut self, flow: &Flow) {
        let mut hash = SipHasher24::new();
        for x in [self.params.probe_wait_seed, flow.now.0, flow.snd_nxt, flow.delivered] {
            hash.write(&x.to_le_bytes());
        }
        let draw = hash.finish();
        self.probe.rounds_since_up = (draw & 1) as u32;
        let fraction = (draw >> 11) as f64 / (1_u64 << 53) as f64;
        self.probe.wait = milliseconds(self.params.probe_wait_ms + fraction * self.params.probe_wait_random_ms);
    }

    fn raise_inflight_longterm_slope(&mut self, flow: &Flow) {
        let growth_this_round = 1 << self.probe.up_rounds;
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(30);
        self.probe.up_acked_per_inc = (self.cwnd / growth_this_round).max(flow.mss.max(1).into());
    }

    fn probe_inflight_longterm_upward(&mut self, flow: &Flow, rs: &DeliverySample) {
        if !self.uses_longterm_limit(flow) {
            return;
        }
        self.probe.up_acked += rs.newly_acked;
        if self.probe.up_acked >= self.probe.up_acked_per_inc {
            let delta = self.probe.up_acked / self.probe.up_acked_per_inc;
            self.probe.up_acked -= delta * self.probe.up_acked_per_inc;
            self.inflight_longterm = self.inflight_longterm.saturating_add(delta * u64::from(flow.mss));
        }
        if self.round_start {
            self.raise_inflight_longterm_slope(flow);
        }
    }

    /// Follows the feedback of a probe, and raises `inflight_longterm` while few losses occur (AdaptLongTermModel).
    /// Returns true if the state has changed.
    fn adapt_long_term_model(&mut self, flow: &Flow, rs: &DeliverySample) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.probe.is_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !rs.is_app_limited {
                self.cycle_count += 1; // AdvanceMaxBwFilter
            }
            if self.state.is_probe_bw() && self.probe.prev_precautionary && !self.probe.prev_too_high {
                self.start_probe_bw_refill(flow);
                return true;
            }
        }
        if !self.is_inflight_too_high(flow, rs.tx_in_flight, rs.lost) && self.inflight_longterm != u64::MAX {
            self.inflight_longterm = self.inflight_longterm.max(rs.tx_in_flight);
            if self.state == BbrState::ProbeBwUp {
                self.probe_inflight_longterm_upward(flow, rs);
            }
        }
        false
    }
}
