//! BBR version 1: a model of the path, bandwidth and smallest RTT, instead of a reaction to losses (Cardwell et al.,
//! "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00,
//! source of the section numbers below).
//!
//! Defaults follow Linux's `tcp_bbr`, including gains in multiples of 1/256, packet conservation in the first round of
//! recovery, and restoration of the window afterwards. The minimum window is four segments. BBR compensates for ACK
//! aggregation, detects policers, and handles restarts from idle. BBR returns its own window in every state and never
//! calls [`Flow::window`]. The returned rate counts payload bytes.
//!
//! Deviations:
//! - Linux draws the first phase of the gain cycle at random. Here the phase is SipHash-2-4 of `phase_seed`, the time,
//!   `snd_nxt` and the bytes delivered: no phase is preferred, and the same run gives the same phases.
//! - Linux counts packets. This implementation counts bytes and rounds targets up to whole segments.
//! - Linux subtracts data held back by its pacing layer from the data in flight; this endpoint holds no data back.
//!
//! `ns3` is ns-3's TcpBbr. Gains are 2.89 and 1/2.89, and the quantum is one segment. Targets are in bytes, windows are
//! not rounded to even numbers, and a window has 32 bits. Policers are not detected. ACK aggregation uses a clock of
//! whole seconds and restarts after 4096 bytes. A time-out does not change the window. The end of a fast recovery sets
//! it to ssthresh, which is unlimited during startup, and packet conservation lasts only for the rest of a round. An
//! ACK without an RTT sample reuses the last sample. An RTT equal to the smallest one renews its age. Rate samples
//! taken in ProbeRtt count like others. A rate sample may reuse the interval of an earlier ACK, which overestimates the
//! bandwidth. The handshake initializes the model, the initial rate has no margin, and the initial window is not paced.

use super::entry::BuildAlgorithm;
use super::max_filter::MaxFilter;
use super::{
    Ack, AlgorithmTrace, Congestion, CongestionControl, CongestionState, Flow, OptionalEvents, Permit, RateSample, Sent,
};
use crate::units::{Rate, Time};
use aggregation::Aggregation;
pub(super) use aggregation::carried;
pub use params::{NS3, Params};
use policer::{ConnectionProgress, Policer, PolicerUpdate};
use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::sync::Arc;

mod aggregation;
mod params;
mod policer;
#[cfg(test)]
mod tests;
mod window;

/// The state of BBR (section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BbrMode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// The algorithm.
#[derive(Clone, Debug)]
pub struct Bbr {
    params: Arc<Params>,
    mode: BbrMode,
    cwnd: u64,
    ssthresh: u64,
    /// Pacing rate in bytes per second.
    rate: u64,
    /// Largest recent delivery rate, bytes per second.
    bandwidth: MaxFilter,
    rounds: u32,
    round_start: bool,
    next_round_delivered: u64,
    /// [`Time::MAX`] before the first sample.
    min_rtt: Time,
    min_rtt_at: Time,
    has_rtt: bool,
    probe_rtt_until: Option<Time>,
    probe_rtt_round_done: bool,
    /// Range of `prior_delivered` of the samples that ProbeRtt limited.
    held_back: (u64, u64),
    pacing_gain: f64,
    cwnd_gain: f64,
    phase: usize,
    phase_at: Time,
    full_pipe: bool,
    full_bandwidth: u64,
    full_rounds: u32,
    /// State at the last ACK.
    state: CongestionState,
    prior_cwnd: u64,
    conservation: bool,
    idle_restart: bool,
    /// Bytes lost so far.
    lost: u64,
    policer: Policer,
    aggregation: Aggregation,
    min_rtt_window: Time,
}

impl BuildAlgorithm for Bbr {
    type Params = Params;
    fn check(params: &Params) -> Result<(), String> {
        params.check()
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        let mut bbr = Bbr {
            params: Arc::clone(params),
            mode: BbrMode::Startup,
            cwnd: flow.initial_window,
            ssthresh: u64::MAX,
            rate: 0,
            bandwidth: MaxFilter::starting_with(0, params.filter_by_value),
            rounds: 0,
            round_start: false,
            next_round_delivered: 0,
            min_rtt: if flow.min_rtt.is_zero() { Time::MAX } else { flow.min_rtt },
            min_rtt_at: flow.now,
            has_rtt: false,
            probe_rtt_until: None,
            probe_rtt_round_done: false,
            held_back: (u64::MAX, 0),
            pacing_gain: params.high_gain,
            cwnd_gain: params.high_gain,
            phase: 0,
            phase_at: Time::ZERO,
            full_pipe: false,
            full_bandwidth: 0,
            full_rounds: 0,
            state: CongestionState::Open,
            prior_cwnd: 0,
            conservation: false,
            idle_restart: false,
            lost: 0,
            policer: Policer::default(),
            aggregation: Aggregation::new(params, flow.now),
            min_rtt_window: milliseconds(params.min_rtt_window_ms),
        };
        bbr.rate = bbr.initial_rate(flow);
        bbr.has_rtt = !flow.srtt.is_zero();
        bbr
    }
}

impl CongestionControl for Bbr {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        let mut sample = ack.rate.unwrap_or_default();
        if ack.rate.is_none() {
            sample.prior_in_flight = ack.prior_in_flight;
        }
        if sample.rtt.is_zero() && self.params.repeat_rtt {
            sample.rtt = flow.latest_rtt;
        }
        // Data sent during ProbeRtt shows the limit of ProbeRtt, not of the path: Linux marks it application-limited.
        sample.app_limited |=
            self.params.mark_probe_rtt && (self.held_back.0..=self.held_back.1).contains(&sample.prior_delivered);
        self.lost += sample.losses;

        self.begin_recovery(flow, &sample);
        self.update_bandwidth(flow, &sample);
        self.update_aggregation(flow, &sample);
        self.update_phase(flow, &sample);
        self.check_full_pipe(&sample);
        self.check_drain(flow);
        self.update_min_rtt(flow, &sample);
        self.update_gains();
        self.set_rate(flow, self.pacing_gain);
        self.set_cwnd(flow, &sample);
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        self.save_cwnd();
        if cause.is_timeout() {
            self.state = CongestionState::Loss;
            if self.params.forget_full_pipe {
                self.full_bandwidth = 0;
            }
            self.round_start = true; // a time-out ends the round
            self.look_for_policer(flow, &RateSample { losses: 1, ..RateSample::default() });
            self.cwnd = u64::from(flow.mss);
        }
    }

    fn optional_events(&self) -> OptionalEvents {
        OptionalEvents { sent: true, rate: true, kept_rate: self.params.keep_rate_sample, ..OptionalEvents::ACKS }
    }

    fn permit(&self, flow: &Flow) -> Permit {
        let rate = if self.has_rtt || flow.srtt.is_zero() { self.rate } else { self.initial_rate(flow) };
        // An estimate of zero does not stop sending, as in Linux.
        let paced = rate > 0 && (self.params.pace_initial_window || flow.snd_nxt > flow.initial_window);
        Permit::Send { window: self.cwnd, rate: paced.then(|| Rate(rate.saturating_mul(8))) }
    }

    fn least_burst(&self) -> u32 {
        self.least_quantum() as u32
    }

    fn trace(&self) -> AlgorithmTrace {
        let phase = match self.mode {
            BbrMode::Startup => "startup",
            BbrMode::Drain => "drain",
            BbrMode::ProbeBw => "probe bandwidth",
            BbrMode::ProbeRtt => "probe rtt",
        };
        AlgorithmTrace {
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            rate: Some(Rate(self.rate.saturating_mul(8))),
            phase,
        }
    }

    fn on_sent(&mut self, flow: &Flow, sent: &Sent) {
        if self.params.initial_bandwidth && self.min_rtt == Time::MAX && !flow.srtt.is_zero() {
            self.start_from_handshake(flow);
        }
        if !sent.tx_start || !flow.app_limited {
            return;
        }
        // Section 4.3.4.4.
        self.idle_restart = true;
        self.aggregation.restart(flow.now);
        match self.mode {
            BbrMode::ProbeBw => self.set_rate(flow, 1.0),
            BbrMode::ProbeRtt => self.check_probe_rtt_done(flow),
            BbrMode::Startup | BbrMode::Drain => {}
        }
    }

    fn on_recovered(&mut self, _flow: &Flow) {
        if self.params.exit_to_ssthresh && self.state == CongestionState::Recovery {
            self.cwnd = self.ssthresh.min(if self.params.wrap_window { u64::from(u32::MAX) } else { u64::MAX });
        }
    }

    fn on_undo(&mut self, flow: &Flow) {
        self.full_bandwidth = 0;
        self.full_rounds = 0;
        self.policer.reset(&self.progress(flow));
    }
}

impl Bbr {
    /// Returns the bandwidth estimate in use: the policer's rate if one was found, otherwise the largest recent rate.
    fn bandwidth(&self) -> u64 {
        self.policer.rate().unwrap_or(self.bandwidth.max())
    }

    /// Starts like ns-3: the handshake gives the smallest RTT, and the initial window over this RTT is the bandwidth.
    fn start_from_handshake(&mut self, flow: &Flow) {
        (self.min_rtt, self.min_rtt_at) = (flow.srtt, flow.now);
        let rtt = Time::from_millis(flow.srtt.as_millis().max(1));
        let bandwidth = Rate::from_bytes_per(self.cwnd, rtt).bytes_per_sec();
        self.bandwidth = MaxFilter::starting_with(bandwidth, self.params.filter_by_value);
        self.rate = (bandwidth as f64 * self.pacing_gain) as u64;
        self.has_rtt = true;
    }

    /// Updates rounds and bandwidth (section 4.1.1).
    fn update_bandwidth(&mut self, flow: &Flow, sample: &RateSample) {
        if sample.interval.is_zero() {
            self.round_start &= self.params.keep_round_start;
            return;
        }
        self.round_start = false;
        if sample.prior_delivered >= self.next_round_delivered {
            self.next_round_delivered = flow.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.conservation = false;
        }
        self.look_for_policer(flow, sample);
        let rate = Rate::from_bytes_per(sample.delivered, sample.interval).bytes_per_sec();
        // An application-limited sample underestimates the path, so it counts only if it raises the estimate.
        if !sample.app_limited || rate >= self.bandwidth.max() {
            self.bandwidth.update(self.params.bandwidth_rounds, self.rounds, rate);
        }
    }

    fn look_for_policer(&mut self, flow: &Flow, sample: &RateSample) {
        if !self.params.policer {
            return;
        }
        let progress = self.progress(flow);
        match self.policer.update(&self.params, &progress, sample, self.mode == BbrMode::ProbeBw) {
            PolicerUpdate::Policed => self.pacing_gain = 1.0,
            PolicerUpdate::Released => self.enter_probe_bw(flow),
            PolicerUpdate::Nothing => {}
        }
    }

    fn progress(&self, flow: &Flow) -> ConnectionProgress {
        ConnectionProgress { now: flow.now, delivered: flow.delivered, lost: self.lost, round_start: self.round_start }
    }

    fn update_aggregation(&mut self, flow: &Flow, sample: &RateSample) {
        let counts = !sample.interval.is_zero() || self.params.keep_round_start && sample.delivered > 0;
        if self.params.aggregation_gain > 0.0 && sample.acked_sacked > 0 && counts {
            let bandwidth = self.bandwidth();
            self.aggregation.update(
                &self.params,
                flow.now,
                self.round_start,
                bandwidth,
                sample.acked_sacked,
                self.cwnd,
            );
        }
    }

    /// Advances the gain cycle if its current phase is over (section 4.3.4.3).
    fn update_phase(&mut self, flow: &Flow, sample: &RateSample) {
        if self.mode != BbrMode::ProbeBw {
            return;
        }
        let full_length = flow.now.saturating_sub(self.phase_at) > self.min_rtt;
        let in_flight = self.in_flight(flow, sample.prior_in_flight);
        let over = if self.pacing_gain > 1.0 {
            // The phase lasts until this gain has built its queue, or a loss shows that the queue does not fit.
            full_length && (sample.losses > 0 || in_flight >= self.target(flow, self.pacing_gain))
        } else if self.pacing_gain < 1.0 {
            full_length || in_flight <= self.target(flow, 1.0)
        } else {
            full_length
        };
        if over {
            self.next_phase(flow);
        }
    }

    fn next_phase(&mut self, flow: &Flow) {
        self.phase = (self.phase + 1) % self.params.pacing_gains.len();
        self.phase_at = flow.now;
    }

    /// Checks whether the pipe is full: for three rounds the bandwidth has grown by less than 25 % (section 4.3.2.2).
    fn check_full_pipe(&mut self, sample: &RateSample) {
        if self.full_pipe || !self.round_start || sample.app_limited {
            return;
        }
        let max = self.bandwidth.max();
        if max as f64 >= self.full_bandwidth as f64 * self.params.full_pipe_growth {
            self.full_bandwidth = max;
            self.full_rounds = 0;
        } else {
            self.full_rounds += 1;
            self.full_pipe = self.full_rounds >= self.params.full_pipe_rounds;
        }
    }

    /// Enters drain when the pipe is full, and leaves it when the queue is empty (section 4.3.3).
    fn check_drain(&mut self, flow: &Flow) {
        if self.mode == BbrMode::Startup && self.full_pipe {
            self.mode = BbrMode::Drain;
            self.ssthresh = self.target(flow, 1.0);
        }
        if self.mode == BbrMode::Drain && self.in_flight(flow, flow.in_flight) <= self.target(flow, 1.0) {
            self.enter_probe_bw(flow);
        }
    }

    /// Enters ProbeBw in any phase except the draining one.
    fn enter_probe_bw(&mut self, flow: &Flow) {
        self.mode = BbrMode::ProbeBw;
        let mut hash = SipHasher24::new();
        for x in [self.params.phase_seed, flow.now.0, flow.snd_nxt, flow.delivered] {
            hash.write(&x.to_le_bytes());
        }
        let phases = self.params.pacing_gains.len();
        let draw = (u128::from(hash.finish()) * (phases as u128 - 1)) >> 64;
        self.phase = phases - 1 - draw as usize;
        self.next_phase(flow);
    }

    /// Updates the smallest RTT and ProbeRtt (sections 4.1.2 and 4.3.5).
    fn update_min_rtt(&mut self, flow: &Flow, sample: &RateSample) {
        let expired = flow.now > self.min_rtt_at.saturating_add(self.min_rtt_window);
        let smaller = sample.rtt < self.min_rtt || self.params.refresh_min_rtt && sample.rtt == self.min_rtt;
        if !sample.rtt.is_zero() && (smaller || expired && !self.is_ack_delayed(flow, sample)) {
            self.min_rtt = sample.rtt;
            self.min_rtt_at = flow.now;
        }
        if expired && self.params.probe_rtt_ms > 0.0 && !self.idle_restart && self.mode != BbrMode::ProbeRtt {
            self.mode = BbrMode::ProbeRtt;
            self.save_cwnd();
            self.probe_rtt_until = None;
            self.held_back.0 = flow.delivered;
        }
        if self.mode == BbrMode::ProbeRtt {
            self.held_back.1 = flow.delivered + flow.in_flight;
            if self.probe_rtt_until.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(flow);
                }
            } else if flow.in_flight <= u64::from(self.params.min_cwnd) * u64::from(flow.mss) {
                self.probe_rtt_until = Some(flow.now.saturating_add(milliseconds(self.params.probe_rtt_ms)));
                self.probe_rtt_round_done = false;
                self.next_round_delivered = flow.delivered;
            }
        }
        if sample.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// Returns true if the ACK may be delayed: a lone segment shorter than the MSS (Linux `FLAG_ACK_MAYBE_DELAYED`).
    fn is_ack_delayed(&self, flow: &Flow, sample: &RateSample) -> bool {
        !self.params.refresh_min_rtt
            && flow.state == CongestionState::Open
            && sample.acked_sacked < u64::from(flow.mss)
            && sample.delivered == sample.acked_sacked
    }

    fn check_probe_rtt_done(&mut self, flow: &Flow) {
        if self.probe_rtt_until.is_none_or(|until| flow.now <= until) {
            return;
        }
        self.min_rtt_at = flow.now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        if self.full_pipe {
            self.enter_probe_bw(flow);
        } else {
            self.mode = BbrMode::Startup;
        }
    }

    fn update_gains(&mut self) {
        let p = &self.params;
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            BbrMode::Startup => (p.high_gain, p.high_gain),
            BbrMode::Drain => (p.drain_gain, p.high_gain),
            BbrMode::ProbeBw if self.policer.rate().is_some() => (1.0, p.cwnd_gain),
            BbrMode::ProbeBw => (p.pacing_gains[self.phase], p.cwnd_gain),
            BbrMode::ProbeRtt => (1.0, 1.0),
        };
    }

    /// Sets the pacing rate; startup never slows down (section 4.2.1).
    fn set_rate(&mut self, flow: &Flow, gain: f64) {
        let rate = self.bandwidth() as f64 * gain * (1.0 - self.params.pacing_margin);
        if !self.has_rtt && !flow.srtt.is_zero() {
            self.rate = self.initial_rate(flow);
            self.has_rtt = true;
        }
        if self.full_pipe || rate as u64 > self.rate {
            self.rate = rate as u64;
        }
    }

    /// Returns the window over the RTT, times the gain of startup.
    #[cold]
    fn initial_rate(&self, flow: &Flow) -> u64 {
        let rtt = if flow.srtt.is_zero() { milliseconds(self.params.initial_rtt_ms) } else { flow.srtt };
        let margin = if self.params.initial_margin { self.params.pacing_margin } else { 0.0 };
        let bandwidth = Rate::from_bytes_per(self.cwnd, rtt.max(Time::from_micros(1))).bytes_per_sec();
        (bandwidth as f64 * self.params.high_gain * (1.0 - margin)) as u64
    }
}

pub(super) fn milliseconds(ms: f64) -> Time {
    Time::from_secs_f64(ms / 1e3)
}
