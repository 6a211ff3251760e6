//! BBR version 3: a model of the path, as in version 1, with bounds that losses set. Follows draft-ietf-ccwg-bbr in the
//! working group's text of August 2026. Comments name its sections, and the code has the names of its pseudocode.
//!
//! A long-term bound on the data in flight records how much a probe for bandwidth could place in the network before
//! more than 2 % were lost. Short-term bounds on bandwidth and data in flight follow losses between probes. BBR returns
//! its own window in every state and never calls [`Flow::window`]. Rates and windows count payload bytes.
//!
//! Deviations, and choices that the draft leaves open:
//! - The pseudocode saves the state for an undo at the first loss of each round. A loss that ends ProbeBW_UP also
//!   clears the record of losses in the round, so the second lost segment would overwrite the saved state. Here the
//!   state is saved once per episode, as the draft's text says.
//! - The random wait is SipHash-2-4 of `probe_wait_seed`, the time, `snd_nxt` and the bytes delivered, so that the same
//!   run gives the same waits.
//! - The endpoint sets the size of bursts. The send quantum only enlarges the window.
//! - A reported mark (ECN) counts as a loss in the round.
//! - Losses end Startup only during fast recovery and, with SACK, at the end of a round. `full_bw_now` is then set,
//!   too, as in the draft's test case.
//! - Segments that are marked lost in succession form one range if their sequence numbers are contiguous.
//! - Acknowledgments that deliver nothing change neither rounds nor the largest deliveries of a round.

use super::entry::BuildAlgorithm;
use super::max_filter::MaxFilter;
use super::{
    Ack, AlgorithmTrace, Congestion, CongestionControl, Flow, LostSegment, OptionalEvents, Permit, RateSample, Sent,
};
use crate::units::{Rate, Time};
pub use params::Params;
use probe_bw::BandwidthProbe;
use probe_rtt::MinRtt;
use std::sync::Arc;

mod model;
mod params;
mod probe_bw;
mod probe_rtt;
#[cfg(test)]
mod tests;
mod window;

/// The state of BBR ("State Machine").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BbrState {
    Startup,
    Drain,
    ProbeBwDown,
    ProbeBwCruise,
    ProbeBwRefill,
    ProbeBwUp,
    ProbeRtt,
}

impl BbrState {
    fn is_probe_bw(self) -> bool {
        matches!(self, BbrState::ProbeBwDown | BbrState::ProbeBwCruise | BbrState::ProbeBwRefill | BbrState::ProbeBwUp)
    }
}

/// Stage of a probe for bandwidth to which acknowledgments belong ("ProbeBW State").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// A delivery-rate sample (RS), all zero for an acknowledgment that delivers nothing.
#[derive(Clone, Copy, Debug, Default)]
struct DeliverySample {
    has_data: bool,
    /// Bytes per second, 0 without a reliable interval.
    delivery_rate: u64,
    delivered: u64,
    prior_delivered: u64,
    newly_acked: u64,
    tx_in_flight: u64,
    lost: u64,
    /// Zero if there is no sample.
    rtt: Time,
    is_app_limited: bool,
}

/// State saved at the start of an episode ("Undo State").
#[derive(Clone, Debug, Default)]
struct SavedState {
    /// Set until the losses of the episode are repaired.
    is_saved: bool,
    state: Option<BbrState>,
    bw_shortterm: u64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
}

/// The algorithm.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    params: Arc<Params>,
    state: BbrState,
    cwnd: u64,
    prior_cwnd: u64,
    /// Bytes per second, like all rates here.
    pacing_rate: u64,
    /// Set once the first RTT sample was used for the pacing rate.
    has_rtt: bool,
    idle_restart: bool,
    round_count: u32,
    round_start: bool,
    next_round_delivered: u64,
    drain_start_round: u32,
    max_bw_filter: MaxFilter,
    cycle_count: u32,
    bw: u64,
    /// Bounds of the model; `u64::MAX` = none.
    bw_shortterm: u64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
    /// Largest deliveries of the current round.
    bw_latest: u64,
    inflight_latest: u64,
    is_loss_in_round: bool,
    loss_round_start: bool,
    loss_round_delivered: u64,
    /// Separate ranges of data lost in the round, and the end of the last one.
    lost_ranges_in_round: u32,
    lost_end: u64,
    extra_acked_filter: MaxFilter,
    extra_acked_interval_start: Time,
    extra_acked_delivered: u64,
    full_bw_reached: bool,
    full_bw_now: bool,
    full_bw: u64,
    full_bw_count: u32,
    ack_phase: AckPhase,
    probe: BandwidthProbe,
    rtt: MinRtt,
    undo: SavedState,
}

impl BuildAlgorithm for Bbr3 {
    type Params = Params;
    fn check(params: &Params) -> Result<(), String> {
        params.check()
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        let mut bbr = Bbr3 {
            params: Arc::clone(params),
            state: BbrState::Startup,
            cwnd: flow.initial_window,
            prior_cwnd: 0,
            pacing_rate: 0,
            has_rtt: false,
            idle_restart: false,
            round_count: 0,
            round_start: false,
            next_round_delivered: 0,
            drain_start_round: 0,
            max_bw_filter: MaxFilter::default(),
            cycle_count: 0,
            bw: 0,
            bw_shortterm: u64::MAX,
            inflight_shortterm: u64::MAX,
            inflight_longterm: u64::MAX,
            bw_latest: 0,
            inflight_latest: 0,
            is_loss_in_round: false,
            loss_round_start: false,
            loss_round_delivered: 0,
            lost_ranges_in_round: 0,
            lost_end: u64::MAX,
            extra_acked_filter: MaxFilter::default(),
            extra_acked_interval_start: flow.now,
            extra_acked_delivered: 0,
            full_bw_reached: false,
            full_bw_now: false,
            full_bw: 0,
            full_bw_count: 0,
            ack_phase: AckPhase::Init,
            probe: BandwidthProbe::default(),
            rtt: MinRtt::new(flow),
            undo: SavedState::default(),
        };
        bbr.pacing_rate = bbr.initial_pacing_rate(flow);
        bbr.use_first_rtt(flow);
        bbr
    }
}

impl CongestionControl for Bbr3 {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        let rs = ack.rate.map_or_else(DeliverySample::default, |rate| self.sample(&rate));
        self.use_first_rtt(flow);
        self.update_latest_delivery_signals(flow, &rs);
        self.update_congestion_signals(flow, &rs);
        self.update_ack_aggregation(flow, &rs);
        self.check_full_bw_reached(&rs);
        self.check_startup_done(flow, &rs);
        self.check_drain_done(flow);
        if rs.has_data {
            self.update_probe_bw_cycle_phase(flow, &rs);
        }
        self.update_min_rtt(flow, &rs);
        self.check_probe_rtt(flow, &rs);
        self.advance_latest_delivery_signals(&rs);
        self.bw = self.max_bw().min(self.bw_shortterm);

        self.set_pacing_rate(self.pacing_gain());
        self.set_cwnd(flow, &rs);
    }

    fn on_lost(&mut self, flow: &Flow, lost: &LostSegment) {
        self.handle_lost_packet(flow, lost);
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        if cause == Congestion::Ecn {
            self.note_loss(flow);
            return;
        }
        self.save_cwnd(flow);
        self.save_state_upon_loss(flow);
        if cause.is_timeout() {
            self.cwnd = flow.mss.into(); // all data counts as lost, and one segment may leave
        }
    }

    fn on_recovered(&mut self, _flow: &Flow) {
        self.restore_cwnd();
        self.undo.is_saved = false;
    }

    fn on_undo(&mut self, flow: &Flow) {
        self.handle_spurious_loss_detection(flow);
    }

    fn on_sent(&mut self, flow: &Flow, sent: &Sent) {
        self.use_first_rtt(flow);
        if sent.tx_start && (flow.app_limited || self.rtt.held_back(flow.delivered)) {
            self.handle_restart_from_idle(flow);
        }
    }

    fn optional_events(&self) -> OptionalEvents {
        OptionalEvents { sent: true, lost: true, rate: true, ..OptionalEvents::ACKS }
    }

    fn permit(&self, flow: &Flow) -> Permit {
        let has_first_rtt = !self.has_rtt && !flow.srtt.is_zero();
        let rate = if has_first_rtt { self.initial_pacing_rate(flow) } else { self.pacing_rate };
        // Do not let an estimate of zero stop the sender.
        Permit::Send { window: self.cwnd, rate: (rate > 0).then(|| Rate(rate.saturating_mul(8))) }
    }

    fn trace(&self) -> AlgorithmTrace {
        let phase = match self.state {
            BbrState::Startup => "startup",
            BbrState::Drain => "drain",
            BbrState::ProbeBwDown => "probe down",
            BbrState::ProbeBwCruise => "cruise",
            BbrState::ProbeBwRefill => "refill",
            BbrState::ProbeBwUp => "probe up",
            BbrState::ProbeRtt => "probe rtt",
        };
        AlgorithmTrace {
            cwnd: self.cwnd,
            ssthresh: u64::MAX,
            rate: Some(Rate(self.pacing_rate.saturating_mul(8))),
            phase,
        }
    }
}

impl Bbr3 {
    fn sample(&self, rate: &RateSample) -> DeliverySample {
        let is_reliable = !rate.interval.is_zero();
        DeliverySample {
            has_data: rate.acked_sacked > 0,
            delivery_rate: if is_reliable {
                Rate::from_bytes_per(rate.delivered, rate.interval).bytes_per_sec()
            } else {
                0
            },
            delivered: rate.delivered,
            prior_delivered: rate.prior_delivered,
            newly_acked: rate.acked_sacked,
            tx_in_flight: rate.tx_in_flight,
            lost: rate.lost,
            rtt: rate.rtt,
            is_app_limited: rate.app_limited || self.rtt.held_back(rate.prior_delivered),
        }
    }

    /// Uses the first RTT sample, usually from the handshake ("Initialization", InitPacingRate).
    #[inline]
    fn use_first_rtt(&mut self, flow: &Flow) {
        if !self.has_rtt && !flow.srtt.is_zero() {
            self.has_rtt = true;
            self.pacing_rate = self.initial_pacing_rate(flow);
            (self.rtt.min_rtt, self.rtt.min_rtt_stamp) = (flow.srtt, flow.now);
        }
    }

    /// Returns the pacing gain ("Summary of Control Behavior in the State Machine").
    fn pacing_gain(&self) -> f64 {
        match self.state {
            BbrState::Startup => self.params.startup_pacing_gain,
            BbrState::Drain => self.params.drain_pacing_gain,
            BbrState::ProbeBwDown => self.params.probe_down_pacing_gain,
            BbrState::ProbeBwUp => self.params.probe_up_pacing_gain,
            BbrState::ProbeBwCruise | BbrState::ProbeBwRefill | BbrState::ProbeRtt => 1.0,
        }
    }

    /// Returns the window gain, from the same table.
    fn cwnd_gain(&self) -> f64 {
        match self.state {
            BbrState::ProbeBwUp => self.params.probe_up_cwnd_gain,
            BbrState::ProbeRtt => self.params.probe_rtt_cwnd_gain,
            _ => self.params.default_cwnd_gain,
        }
    }

    /// Enters Drain if the pipe is full ("Startup Dynamics").
    fn check_startup_done(&mut self, flow: &Flow, rs: &DeliverySample) {
        self.check_startup_high_loss(flow, rs);
        if self.state == BbrState::Startup && self.full_bw_reached {
            self.state = BbrState::Drain;
            self.drain_start_round = self.round_count;
        }
    }

    /// Enters ProbeBW if the queue is empty, or after `drain_rounds` ("Drain").
    fn check_drain_done(&mut self, flow: &Flow) {
        if self.state == BbrState::Drain
            && (flow.in_flight <= self.inflight(flow, self.bw, 1.0)
                || self.round_count > self.drain_start_round + self.params.drain_rounds)
        {
            self.start_probe_bw_down(flow);
        }
    }
}
