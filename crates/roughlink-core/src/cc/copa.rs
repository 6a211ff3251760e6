//! Copa: the window follows a target rate that is inversely proportional to the queueing delay (Arun and Balakrishnan,
//! "Copa: Practical Delay-Based Congestion Control for the Internet", NSDI 2018). Section numbers refer to the authors'
//! version, which corrects sections 5.1 and 5.6.
//!
//! The target is `1 / (delta * dq)` packets per second (equation 1), where the queueing delay `dq` is `RTTstanding -
//! RTTmin` (equation 2). Every ACK compares the target with `cwnd / RTTstanding`, and adds or subtracts `v / (delta *
//! cwnd)` packets. The velocity v doubles once per window of data while the direction stays the same. Slow start lasts
//! until the rate exceeds the target, and the sender paces at `2 cwnd / RTTstanding` (section 2.1). Among Copa flows
//! with similar RTTs, the queue oscillates between 0 and 2.5/delta packets per flow, with a period of five RTTs
//! (section 3). Therefore a queue that was not nearly empty for five RTTs reveals a flow that fills buffers. In this
//! competitive mode, `1 / delta` follows AIMD (section 2.2).
//!
//! In the default mode, Copa ignores losses (section 5.4); in the competitive mode, they change only delta. The window
//! also follows the target during recovery, because random losses can make recovery permanent. For this reason, Copa
//! returns its own window in every state and never calls [`Flow::window`], whose limit is a reaction to the loss.
//!
//! Deviations. In each case, the literal rule contradicts a result of the paper. The parameter in parentheses restores
//! that rule:
//! - **Rate** (`sent_window`). Section 2.1 divides the current window by `RTTstanding`. This delay is a round trip
//!   old, and section 3 infers the queue from the window of that time. While v is 1, the rate is this older window
//!   over `RTTstanding`. Otherwise the window turns too early, and the queue keeps about `1 / (delta^2 cwnd)` packets.
//!   At 12 Mbit/s and 20 ms, a single flow then becomes competitive, and lowers delta until the buffer overflows. At
//!   larger velocities the rate is the literal one, because turning early compensates for the larger steps.
//! - **Reversal** (`reset_on_reversal`). Section 2.1 checks the direction once per window of data. A large v then
//!   lasts up to a round trip beyond the target, while section 3 finds that v is 1 most of the time. After a step from
//!   10 to 100 Mbit/s, the window oscillates between an idle link and a long queue. Here, a step against the direction
//!   resets v at once.
//! - **End of slow start** (`slow_start_exit`). The first sign of a queue is a round trip old, and the window then is
//!   up to twice the bandwidth-delay product. Here, it returns to half. On the satellite path of section 5.6, the queue
//!   of the whole window would outlive `RTTmin` and never drain, while the paper measures a delay of 1 ms.
//! - **Nearly empty** (`empty_packets`). A tenth of the oscillation of section 3 is half a packet per flow. Here, a
//!   queue with at most one packet of this flow (`dq * cwnd / RTTstanding`) is nearly empty, too. Otherwise the flows
//!   of section 5.1 are competitive for up to half of the time. A delay equal to the threshold also counts as nearly
//!   empty. Otherwise a path without any queue would not.
//!
//! Points that the paper leaves open:
//! - Each delivered packet counts as an ACK, even if delayed ACKs, SACKs or lost ACKs combine packets. Otherwise the
//!   window would change by less than v/delta packets per RTT (section 2.1).
//! - RTTs come from delivery-rate samples; retransmitted packets give none. The stack's clock limits their resolution
//!   (1 ms under `ns3`). Windows in RTTs are multiples of the smoothed RTT.
//! - A window of data ends with the delivery of a packet sent after the end of the last window. If it left `cwnd`
//!   unchanged, it has no direction. After three windows of the same direction, each further one doubles v. A steady
//!   half-period of 2.5 RTTs thus never doubles v, however it aligns with windows of data.
//! - The window grows only if it was used, and shrinks in any case.
//! - In the competitive mode, `1 / delta` grows by one per RTT outside recovery, and halves once per loss episode, as
//!   RFC 5681 treats the window. An ECN mark counts as a loss.
//! - A loss does not end slow start. After a time-out no ACK clock is left: the window falls to `min_cwnd`, and slow
//!   start begins again.
//! - Before the first sample, pacing uses the RTT of the handshake. The filters ignore this RTT, because packets of
//!   the handshake are smaller.

use super::entry::BuildAlgorithm;
use super::{Ack, AlgorithmTrace, Congestion, CongestionControl, CongestionState, Flow, OptionalEvents, Permit};
use crate::units::{Rate, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;
use window_min::WindowMin;

#[cfg(test)]
mod tests;
mod window_min;

/// Parameters of [`Copa`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Delta of the default mode, 1/packets: the queue should hold `1 / delta` packets of the sender (section 2.2:
    /// 0.5).
    pub delta: f64,
    /// Window of `RTTstanding`, in smoothed RTTs (section 2.1: 0.5).
    pub standing_rtts: f64,
    /// Window of `RTTmin`, ms (section 2.1: 10 s).
    pub min_rtt_window_ms: f64,
    /// Windows of data in the same direction after which each further one doubles the velocity (section 2.1: 3).
    pub velocity_rtts: u32,
    /// Pacing rate as a multiple of `cwnd / RTTstanding` (section 2.1: 2).
    pub pacing_gain: f64,
    /// Switch to the competitive mode beside flows that fill buffers (section 2.2). Otherwise the mode is always the
    /// default one ("Copa D" in figure 6).
    pub mode_switch: bool,
    /// Time without a nearly empty queue after which the mode is competitive, in smoothed RTTs (section 2.2: 5).
    pub empty_rtts: f64,
    /// Share of `RTTmax - RTTmin` up to which a queueing delay counts as nearly empty (section 2.2: 0.1).
    pub empty_share: f64,
    /// Window of `RTTmax`, in smoothed RTTs (section 2.2: 4).
    pub max_rtt_rtts: f64,
    /// Competitive mode: growth of `1 / delta`, packets per RTT.
    pub increase: f64,
    /// Competitive mode: factor of `1 / delta` at a loss.
    pub decrease: f64,
    /// Smallest window in segments.
    pub min_cwnd: u32,
    /// While the velocity is 1, compute the rate from the window of the time when the latest acknowledged packet left
    /// (section 3), otherwise from the current window (section 2.1).
    pub sent_window: bool,
    /// A step against the direction resets the velocity at once, otherwise at the end of the window of data (section
    /// 2.1).
    pub reset_on_reversal: bool,
    /// Share of the window that remains at the end of slow start; 1 = all.
    pub slow_start_exit: f64,
    /// Number of the flow's packets in the queue up to which it counts as nearly empty, in addition to `empty_share`.
    pub empty_packets: f64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            delta: 0.5,
            standing_rtts: 0.5,
            min_rtt_window_ms: 10_000.0,
            velocity_rtts: 3,
            pacing_gain: 2.0,
            mode_switch: true,
            empty_rtts: 5.0,
            empty_share: 0.1,
            max_rtt_rtts: 4.0,
            increase: 1.0,
            decrease: 0.5,
            min_cwnd: 2,
            sent_window: true,
            reset_on_reversal: true,
            slow_start_exit: 0.5,
            empty_packets: 1.0,
        }
    }
}

/// The algorithm.
#[derive(Clone, Debug)]
pub struct Copa {
    params: Arc<Params>,
    /// Congestion window, bytes.
    cwnd: f64,
    slow_start: bool,
    /// 1/delta, packets.
    inverse_delta: f64,
    competitive: bool,
    /// `RTTstanding`.
    standing: WindowMin<Time>,
    /// `RTTmin`.
    min_rtt: WindowMin<Time>,
    /// `RTTmax`.
    max_rtt: WindowMin<Reverse<Time>>,
    /// Time of the last nearly empty queue.
    empty_at: Time,
    velocity: Velocity,
    /// Bytes delivered and window at each ACK since the latest acknowledged packet left.
    windows: VecDeque<(u64, f64)>,
    /// Window before the last time-out.
    prior_cwnd: f64,
    /// 1/delta before the last episode.
    prior_inverse_delta: f64,
}

/// The velocity parameter, and the window of data after which it changes.
#[derive(Clone, Debug)]
struct Velocity {
    value: f64,
    /// The window of data ends when a packet arrives that left after this many bytes had been delivered.
    end: u64,
    /// Set if the last window of data increased `cwnd`; `None` without a direction.
    up: Option<bool>,
    /// Successive windows of data in this direction.
    same: u32,
}

impl Velocity {
    /// Creates a velocity of 1 without direction. A window of data begins after `delivered` bytes.
    fn new(delivered: u64) -> Self {
        Velocity { value: 1.0, end: delivered, up: None, same: 0 }
    }

    /// Ends a window of data that changed `cwnd` from `start` (section 2.1, step 4), and begins the next.
    fn advance(&mut self, delivered: u64, start: f64, cwnd: f64, velocity_rtts: u32) {
        let up = if cwnd == start { None } else { Some(cwnd > start) };
        if up.is_none() || up != self.up {
            *self = Velocity { up, ..Velocity::new(delivered) };
        }
        self.end = delivered;
        self.same = self.same.saturating_add(1);
        if self.same > velocity_rtts {
            self.value *= 2.0;
        }
    }
}

impl BuildAlgorithm for Copa {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if !(1e-6..=1e6).contains(&p.delta) {
            Err("`delta` must be between 1e-6 and 1e6".into())
        } else if [p.standing_rtts, p.empty_rtts, p.max_rtt_rtts].iter().any(|x| !(0.0..=1e6).contains(x)) {
            Err("`standing_rtts`, `empty_rtts` and `max_rtt_rtts` must be between 0 and 1e6".into())
        } else if !(1.0..=1e9).contains(&p.min_rtt_window_ms) {
            Err("`min_rtt_window_ms` must be between 1 and 1e9".into())
        } else if !(1e-6..=1e6).contains(&p.pacing_gain) {
            Err("`pacing_gain` must be between 1e-6 and 1e6".into())
        } else if [p.empty_share, p.decrease, p.slow_start_exit].iter().any(|x| !(0.0..=1.0).contains(x)) {
            Err("`empty_share`, `decrease` and `slow_start_exit` must be between 0 and 1".into())
        } else if [p.increase, p.empty_packets].iter().any(|x| !(0.0..=1e6).contains(x)) {
            Err("`increase` and `empty_packets` must be between 0 and 1e6".into())
        } else if p.min_cwnd == 0 {
            Err("`min_cwnd` must be at least 1 segment".into())
        } else {
            Ok(())
        }
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        let inverse_delta = 1.0 / params.delta;
        Copa {
            params: Arc::clone(params),
            cwnd: flow.initial_window as f64,
            slow_start: true,
            inverse_delta,
            competitive: false,
            standing: WindowMin::default(),
            min_rtt: WindowMin::default(),
            max_rtt: WindowMin::default(),
            empty_at: flow.now,
            velocity: Velocity::new(0),
            windows: VecDeque::new(),
            prior_cwnd: 0.0,
            prior_inverse_delta: inverse_delta,
        }
    }
}

impl CongestionControl for Copa {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        let Some(sample) = ack.rate else { return };
        if !sample.retransmitted && !sample.rtt.is_zero() {
            self.measure(flow, sample.rtt);
        }
        let Some(delays) = self.delays() else { return };
        self.choose_mode(flow, &delays);
        if self.competitive && ack.may_grow {
            self.inverse_delta += self.params.increase * ack.delivered as f64 / self.cwnd;
        }
        let sent_window = self.sent_window(flow.delivered, sample.prior_delivered);
        if !self.slow_start && sample.prior_delivered >= self.velocity.end {
            self.velocity.advance(flow.delivered, sent_window, self.cwnd, self.params.velocity_rtts);
        }
        self.move_window(flow, ack.delivered as f64, sent_window, &delays);
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        let is_new = matches!(flow.state, CongestionState::Open | CongestionState::Disorder);
        if is_new || cause == Congestion::Timeout {
            (self.prior_cwnd, self.prior_inverse_delta) = (0.0, self.inverse_delta);
        }
        if self.competitive && cause != Congestion::TimeoutAgain {
            self.inverse_delta = (self.inverse_delta * self.params.decrease).max(1.0 / self.params.delta);
        }
        if cause.is_timeout() {
            if cause == Congestion::Timeout {
                self.prior_cwnd = self.cwnd;
            }
            self.cwnd = self.least(flow);
            self.slow_start = true;
        }
    }

    fn permit(&self, flow: &Flow) -> Permit {
        Permit::Send { window: self.cwnd as u64, rate: self.rate(flow.srtt) }
    }

    fn trace(&self) -> AlgorithmTrace {
        let phase = match (self.slow_start, self.competitive) {
            (true, _) => "slow start",
            (false, false) => "default",
            (false, true) => "competitive",
        };
        AlgorithmTrace { cwnd: self.cwnd as u64, ssthresh: u64::MAX, rate: self.rate(Time::ZERO), phase }
    }

    fn optional_events(&self) -> OptionalEvents {
        OptionalEvents { rate: true, ..OptionalEvents::ACKS }
    }

    fn on_undo(&mut self, _flow: &Flow) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        if self.competitive {
            self.inverse_delta = self.inverse_delta.max(self.prior_inverse_delta);
        }
    }

    /// Pacing avoids bursts (section 2.1).
    fn least_burst(&self) -> u32 {
        1
    }
}

/// Delays of the path, s.
struct Delays {
    /// `RTTstanding`.
    standing: f64,
    /// `dq`.
    queueing: f64,
    /// `RTTmax - RTTmin`.
    spread: f64,
}

impl Copa {
    /// Adds an RTT sample to the windowed extremes.
    fn measure(&mut self, flow: &Flow, rtt: Time) {
        let p = &self.params;
        self.standing.add(flow.now, rtt, times(flow.srtt, p.standing_rtts));
        self.min_rtt.add(flow.now, rtt, Time::from_secs_f64(p.min_rtt_window_ms / 1e3));
        self.max_rtt.add(flow.now, Reverse(rtt), times(flow.srtt, p.max_rtt_rtts));
    }

    /// Returns the delays; `None` before the first sample.
    fn delays(&self) -> Option<Delays> {
        let (standing, min, Reverse(max)) = (self.standing.get()?, self.min_rtt.get()?, self.max_rtt.get()?);
        Some(Delays {
            standing: standing.as_secs_f64(),
            queueing: standing.saturating_sub(min).as_secs_f64(),
            spread: max.saturating_sub(min).as_secs_f64(),
        })
    }

    /// Chooses the mode by the time since the last nearly empty queue (section 2.2).
    fn choose_mode(&mut self, flow: &Flow, d: &Delays) {
        let p = &self.params;
        let own_packets = d.queueing * self.cwnd / f64::from(flow.mss) / d.standing;
        if d.queueing <= p.empty_share * d.spread || own_packets <= p.empty_packets {
            self.empty_at = flow.now;
        }
        self.competitive = p.mode_switch && flow.now.saturating_sub(self.empty_at) > times(flow.srtt, p.empty_rtts);
        if !self.competitive {
            self.inverse_delta = 1.0 / p.delta;
        }
    }

    /// Records the current window, and returns the window at the time when `prior_delivered` bytes had been delivered.
    fn sent_window(&mut self, delivered: u64, prior_delivered: u64) -> f64 {
        self.windows.push_back((delivered, self.cwnd));
        while self.windows.get(1).is_some_and(|w| w.0 <= prior_delivered) {
            self.windows.pop_front();
        }
        self.windows[0].1
    }

    /// Moves the window towards the target rate for `delivered` bytes (section 2.1, steps 2 and 3, and slow start).
    fn move_window(&mut self, flow: &Flow, delivered: f64, sent_window: f64, d: &Delays) {
        let mss = f64::from(flow.mss);
        let lags = self.params.sent_window && !self.slow_start && self.velocity.value == 1.0;
        let window = if lags { sent_window } else { self.cwnd };
        // window / RTTstanding <= 1 / (delta * dq), without division by a delay of zero.
        let up = window / mss * d.queueing <= self.inverse_delta * d.standing;
        if self.slow_start && !up {
            self.slow_start = false;
            self.cwnd *= self.params.slow_start_exit;
            self.velocity = Velocity::new(flow.delivered);
        } else if self.params.reset_on_reversal && self.velocity.value > 1.0 && self.velocity.up != Some(up) {
            self.velocity = Velocity::new(flow.delivered);
        }
        // Section 2.1 limits v so that the window at most doubles per RTT: a packet per delivered packet.
        let step = (self.velocity.value * self.inverse_delta * mss / self.cwnd).min(1.0);
        let is_used = flow.cwnd_limited || self.slow_start && self.cwnd < 2.0 * flow.max_outstanding as f64;
        if !up {
            self.cwnd = (self.cwnd - step * delivered).max(self.least(flow));
        } else if is_used {
            self.cwnd += if self.slow_start { delivered } else { step * delivered };
        }
    }

    /// Returns the pacing rate, or `None` without an RTT. `initial` is the RTT to use before the first sample.
    fn rate(&self, initial: Time) -> Option<Rate> {
        let rtt = self.standing.get().unwrap_or(initial).as_secs_f64();
        (rtt > 0.0).then(|| Rate((self.params.pacing_gain * self.cwnd * 8.0 / rtt).max(1.0) as u64))
    }

    fn least(&self, flow: &Flow) -> f64 {
        f64::from(self.params.min_cwnd) * f64::from(flow.mss)
    }
}

fn times(time: Time, factor: f64) -> Time {
    Time::from_secs_f64(time.as_secs_f64() * factor)
}
