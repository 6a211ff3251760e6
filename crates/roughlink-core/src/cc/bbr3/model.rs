//! The model of the path: bandwidth, aggregation, and the response to losses. Implements the draft's chapter "Updating
//! Network Path Model Parameters".

use super::{Bbr3, BbrState, DeliverySample, SavedState};
use crate::cc::{CongestionState, Flow, LostSegment};

impl Bbr3 {
    pub(super) fn max_bw(&self) -> u64 {
        self.max_bw_filter.max()
    }

    pub(super) fn start_round(&mut self, flow: &Flow) {
        self.next_round_delivered = flow.delivered;
    }

    /// Returns true while losses are repaired (InLossRecovery).
    fn in_loss_recovery(flow: &Flow) -> bool {
        matches!(flow.state, CongestionState::Recovery | CongestionState::Loss)
    }

    /// Updates the largest deliveries of this round ("When not Probing for Bandwidth", UpdateLatestDeliverySignals).
    pub(super) fn update_latest_delivery_signals(&mut self, flow: &Flow, rs: &DeliverySample) {
        self.loss_round_start = false;
        if !rs.has_data {
            return;
        }
        self.bw_latest = self.bw_latest.max(rs.delivery_rate);
        self.inflight_latest = self.inflight_latest.max(rs.delivered);
        if rs.prior_delivered >= self.loss_round_delivered {
            self.loss_round_delivered = flow.delivered;
            self.loss_round_start = true;
        }
    }

    pub(super) fn advance_latest_delivery_signals(&mut self, rs: &DeliverySample) {
        if self.loss_round_start {
            (self.bw_latest, self.inflight_latest) = (rs.delivery_rate, rs.delivered);
        }
    }

    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        (self.bw_latest, self.inflight_latest) = (0, 0);
    }

    /// Updates the bandwidth and, once per round, the short-term bounds (UpdateCongestionSignals).
    pub(super) fn update_congestion_signals(&mut self, flow: &Flow, rs: &DeliverySample) {
        self.update_max_bw(flow, rs);
        if self.loss_round_start {
            self.adapt_lower_bounds_from_congestion();
            self.is_loss_in_round = false;
        }
    }

    /// Counts rounds, and updates the largest bandwidth ("BBR.round_count", "BBR.max_bw").
    fn update_max_bw(&mut self, flow: &Flow, rs: &DeliverySample) {
        self.round_start = rs.has_data && rs.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round(flow);
            self.round_count += 1;
            self.probe.rounds_since_up += 1;
        }
        if rs.delivery_rate > 0 && (rs.delivery_rate >= self.max_bw() || !rs.is_app_limited) {
            self.max_bw_filter.update(self.params.max_bw_filter_len - 1, self.cycle_count, rs.delivery_rate);
        }
    }

    fn adapt_lower_bounds_from_congestion(&mut self) {
        let is_probing = matches!(self.state, BbrState::Startup | BbrState::ProbeBwRefill | BbrState::ProbeBwUp);
        if is_probing || !self.is_loss_in_round {
            return;
        }
        if self.bw_shortterm == u64::MAX {
            self.bw_shortterm = self.max_bw();
        }
        if self.inflight_shortterm == u64::MAX {
            self.inflight_shortterm = self.cwnd;
        }
        let beta = |x: u64| (x as f64 * self.params.beta) as u64;
        self.bw_shortterm = self.bw_latest.max(beta(self.bw_shortterm));
        self.inflight_shortterm = self.inflight_latest.max(beta(self.inflight_shortterm));
    }

    pub(super) fn reset_short_term_model(&mut self) {
        (self.bw_shortterm, self.inflight_shortterm) = (u64::MAX, u64::MAX);
    }

    /// Updates the excess of acknowledged data over the expected amount ("BBR.extra_acked").
    pub(super) fn update_ack_aggregation(&mut self, flow: &Flow, rs: &DeliverySample) {
        let interval = flow.now.saturating_sub(self.extra_acked_interval_start);
        let mut expected = (self.bw as f64 * interval.as_secs_f64()) as u64;
        if self.extra_acked_delivered <= expected {
            self.extra_acked_delivered = 0;
            self.extra_acked_interval_start = flow.now;
            expected = 0;
        }
        self.extra_acked_delivered += rs.newly_acked;
        let extra = (self.extra_acked_delivered - expected).min(self.cwnd);
        let filter_len = if self.full_bw_reached { self.params.extra_acked_filter_len } else { 1 };
        self.extra_acked_filter.update(filter_len, self.round_count, extra);
    }

    /// Checks whether the pipe is full ("Exiting Acceleration Based on Bandwidth Plateau").
    pub(super) fn check_full_bw_reached(&mut self, rs: &DeliverySample) {
        if self.full_bw_now || !self.round_start || rs.is_app_limited {
            return;
        }
        if rs.delivery_rate as f64 >= self.full_bw as f64 * self.params.full_bw_growth {
            self.reset_full_bw();
            self.full_bw = rs.delivery_rate;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= self.params.full_bw_rounds;
        self.full_bw_reached |= self.full_bw_now;
    }

    pub(super) fn reset_full_bw(&mut self) {
        (self.full_bw, self.full_bw_count, self.full_bw_now) = (0, 0, false);
    }

    /// Returns true if losses suggest that too much was in flight ("Probing for Bandwidth In ProbeBW").
    pub(super) fn is_inflight_too_high(&self, flow: &Flow, tx_in_flight: u64, lost: u64) -> bool {
        lost as f64 > tx_in_flight as f64 * self.params.loss_thresh || (lost > 0 && !flow.sack)
    }

    /// Ends Startup if a round of fast recovery has lost too much ("Exiting Startup Based on Packet Loss").
    pub(super) fn check_startup_high_loss(&mut self, flow: &Flow, rs: &DeliverySample) {
        let ranges = self.lost_ranges_in_round;
        let enough =
            if flow.sack { self.loss_round_start && ranges >= self.params.startup_full_loss_count } else { ranges > 0 };
        if self.state == BbrState::Startup
            && !self.full_bw_reached
            && enough
            && flow.state == CongestionState::Recovery
            && self.is_inflight_too_high(flow, rs.tx_in_flight, rs.lost)
        {
            self.undo.state = Some(BbrState::Startup);
            (self.full_bw_now, self.full_bw_reached) = (true, true);
            self.inflight_longterm = self.bdp_multiple(flow, self.bw, 1.0).max(self.inflight_latest);
        }
        if self.loss_round_start {
            self.lost_ranges_in_round = 0;
        }
    }

    /// Records a loss, or a mark, in this round.
    pub(super) fn note_loss(&mut self, flow: &Flow) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = flow.delivered;
            self.save_state_upon_loss(flow);
        }
        self.is_loss_in_round = true;
    }

    pub(super) fn handle_lost_packet(&mut self, flow: &Flow, lost: &LostSegment) {
        self.note_loss(flow);
        self.lost_ranges_in_round += u32::from(lost.seq != self.lost_end);
        self.lost_end = lost.seq + u64::from(lost.len);
        if !self.probe.is_sample || !self.is_inflight_too_high(flow, lost.tx_in_flight, lost.lost) {
            return;
        }
        let is_app_limited = lost.app_limited || self.rtt.held_back(lost.delivered);
        self.handle_inflight_too_high(flow, self.inflight_at_loss(lost), is_app_limited);
    }

    fn handle_inflight_too_high(&mut self, flow: &Flow, tx_in_flight: u64, is_app_limited: bool) {
        self.probe.prev_too_high = true;
        self.probe.is_sample = false;
        if !is_app_limited {
            let least = (self.target_inflight(flow) as f64 * self.params.beta) as u64;
            self.inflight_longterm = tx_in_flight.max(least);
        }
        if self.state == BbrState::ProbeBwUp {
            self.undo.state = Some(BbrState::ProbeBwUp);
            self.start_probe_bw_down(flow);
        }
    }

    /// Returns the data in flight at which losses crossed the threshold, within the lost segment.
    pub(super) fn inflight_at_loss(&self, lost: &LostSegment) -> u64 {
        let threshold = self.params.loss_thresh;
        let size = u64::from(lost.len);
        let inflight_prev = lost.tx_in_flight.saturating_sub(size) as f64;
        let lost_prev = lost.lost.saturating_sub(size) as f64;
        let lost_prefix = (threshold * inflight_prev - lost_prev) / (1.0 - threshold);
        (inflight_prev + lost_prefix).max(0.0) as u64
    }

    /// Saves the state that an undo restores, once per episode ("Saving State Upon Loss Recovery").
    pub(super) fn save_state_upon_loss(&mut self, flow: &Flow) {
        if self.undo.is_saved {
            return;
        }
        self.save_cwnd(flow);
        self.undo = SavedState {
            is_saved: true,
            state: None,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        };
    }

    /// Restores the state from before a spurious episode ("Handling a Spurious Loss Recovery").
    pub(super) fn handle_spurious_loss_detection(&mut self, flow: &Flow) {
        self.restore_cwnd();
        self.is_loss_in_round = false;
        self.reset_full_bw();
        self.bw_shortterm = self.bw_shortterm.max(self.undo.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo.inflight_longterm);
        match self.undo.state.take() {
            Some(BbrState::Startup) if self.state != BbrState::Startup => {
                self.full_bw_reached = false;
                if self.state != BbrState::ProbeRtt {
                    self.state = BbrState::Startup;
                }
            }
            Some(BbrState::ProbeBwUp) if !matches!(self.state, BbrState::ProbeBwUp | BbrState::ProbeRtt) => {
                self.start_probe_bw_refill(flow);
            }
            _ => {}
        }
    }

    pub(super) fn save_cwnd(&mut self, flow: &Flow) {
        let is_cut = Self::in_loss_recovery(flow) || self.state == BbrState::ProbeRtt;
        self.prior_cwnd = if is_cut { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }
}
