//! ProbeRTT, which measures the smallest RTT again with a small window, and the restart after an idle period.

use super::{AckPhase, Bbr3, BbrState, DeliverySample};
use crate::cc::Flow;
use crate::cc::bbr::milliseconds;
use crate::units::Time;

/// The smallest RTT and the schedule of ProbeRTT.
#[derive(Clone, Debug)]
pub(super) struct MinRtt {
    /// [`Time::MAX`] before the first sample.
    pub min_rtt: Time,
    pub min_rtt_stamp: Time,
    /// Smallest RTT of the last interval between two ProbeRTTs.
    probe_rtt_min_delay: Time,
    probe_rtt_min_stamp: Time,
    probe_rtt_expired: bool,
    probe_rtt_done_stamp: Option<Time>,
    probe_rtt_round_done: bool,
    /// Range of [`Flow::delivered`] in which ProbeRTT, not the path, limits the data that leaves.
    held_back: (u64, u64),
}

impl MinRtt {
    pub(super) fn new(flow: &Flow) -> Self {
        MinRtt {
            min_rtt: Time::MAX,
            min_rtt_stamp: flow.now,
            probe_rtt_min_delay: Time::MAX,
            probe_rtt_min_stamp: flow.now,
            probe_rtt_expired: false,
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
            held_back: (u64::MAX, 0),
        }
    }

    /// Returns true if ProbeRTT limited data that left when `delivered` bytes were delivered.
    pub(super) fn held_back(&self, delivered: u64) -> bool {
        (self.held_back.0..=self.held_back.1).contains(&delivered)
    }
}

impl Bbr3 {
    /// Updates the smallest RTT and the schedule of ProbeRTT ("ProbeRTT Logic", UpdateMinRTT).
    pub(super) fn update_min_rtt(&mut self, flow: &Flow, rs: &DeliverySample) {
        let interval = milliseconds(self.params.probe_rtt_interval_ms);
        let filter_len = milliseconds(self.params.min_rtt_filter_len_ms);
        let m = &mut self.rtt;
        m.probe_rtt_expired = flow.now > m.probe_rtt_min_stamp.saturating_add(interval);
        if !rs.rtt.is_zero() && (rs.rtt < m.probe_rtt_min_delay || m.probe_rtt_expired) {
            (m.probe_rtt_min_delay, m.probe_rtt_min_stamp) = (rs.rtt, flow.now);
        }
        let min_rtt_expired = flow.now > m.min_rtt_stamp.saturating_add(filter_len);
        if m.probe_rtt_min_delay < m.min_rtt || min_rtt_expired {
            (m.min_rtt, m.min_rtt_stamp) = (m.probe_rtt_min_delay, m.probe_rtt_min_stamp);
        }
    }

    /// Enters ProbeRTT when it is due, and advances it ("ProbeRTT Logic", CheckProbeRTT).
    pub(super) fn check_probe_rtt(&mut self, flow: &Flow, rs: &DeliverySample) {
        if self.state != BbrState::ProbeRtt && self.rtt.probe_rtt_expired && !self.idle_restart {
            self.state = BbrState::ProbeRtt;
            self.save_cwnd(flow);
            self.rtt.probe_rtt_done_stamp = None;
            self.rtt.held_back.0 = flow.delivered;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round(flow);
        }
        if self.state == BbrState::ProbeRtt {
            self.handle_probe_rtt(flow);
        }
        if rs.delivered > 0 {
            self.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, flow: &Flow) {
        self.rtt.held_back.1 = flow.delivered + flow.in_flight; // MarkConnectionAppLimited
        if self.rtt.probe_rtt_done_stamp.is_some() {
            self.rtt.probe_rtt_round_done |= self.round_start;
            if self.rtt.probe_rtt_round_done {
                self.check_probe_rtt_done(flow);
            }
        } else if flow.in_flight <= self.probe_rtt_cwnd(flow) {
            let duration = milliseconds(self.params.probe_rtt_duration_ms);
            self.rtt.probe_rtt_done_stamp = Some(flow.now.saturating_add(duration));
            self.rtt.probe_rtt_round_done = false;
            self.start_round(flow);
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, flow: &Flow) {
        if self.rtt.probe_rtt_done_stamp.is_some_and(|done| flow.now > done) {
            self.rtt.probe_rtt_min_stamp = flow.now;
            self.restore_cwnd();
            self.exit_probe_rtt(flow);
        }
    }

    /// Returns to ProbeBW, or to Startup if the pipe was never full ("Exiting ProbeRTT").
    fn exit_probe_rtt(&mut self, flow: &Flow) {
        self.reset_short_term_model();
        if self.full_bw_reached {
            self.start_probe_bw_down(flow);
            self.state = BbrState::ProbeBwCruise;
        } else {
            self.state = BbrState::Startup;
        }
    }

    /// Returns the window of ProbeRTT, bytes ("Modulating cwnd in ProbeRTT").
    pub(super) fn probe_rtt_cwnd(&self, flow: &Flow) -> u64 {
        self.bdp_multiple(flow, self.bw, self.params.probe_rtt_cwnd_gain).max(self.min_pipe_cwnd(flow))
    }

    /// Prepares for data after an idle period ("Actions when Restarting from Idle").
    pub(super) fn handle_restart_from_idle(&mut self, flow: &Flow) {
        self.idle_restart = true;
        self.extra_acked_interval_start = flow.now;
        if self.state.is_probe_bw() {
            self.set_pacing_rate(1.0);
        } else if self.state == BbrState::ProbeRtt {
            self.check_probe_rtt_done(flow);
        }
    }
}
