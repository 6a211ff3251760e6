//! `rough`: our own algorithm for links with random loss, changing paths and outages. Delay controls the window. All
//! arithmetic uses integers.
//!
//! - **Delay.** The flow keeps `queue` bytes (`queue_quarters`) in the queue, as in Copa (Arun and Balakrishnan, NSDI
//!   2018). The window approaches `queue * RTT / (queueing delay)`, by `queue` bytes per round trip. At this target,
//!   all `rough` flows at a bottleneck have the same rate. After `probe_rounds` below it, the path has changed, and the
//!   increase doubles each round.
//! - **Startup** doubles the window each round trip until the window exceeds the target, and the rate stops growing or
//!   the delay is long. High loss in a round also ends startup.
//! - **Noise.** If the RTT jumps by more than the time of a few packets, the path has jitter. The average jump is
//!   subtracted from the delay; otherwise jitter would look like a full queue.
//! - **Loss** is not congestion up to a share that a rough link may lose. Above it, a short queue overflows or a
//!   policer drops, and the window is reduced.
//! - **Competition.** If the queue does not drain over `patience` rounds, other flows may fill it. The flow then lowers
//!   its window to the bandwidth-delay product for two rounds, so its own data leaves the queue. If the queue still
//!   does not drain, the flow follows a CUBIC window, which starts at the flow's largest recent window. Time-outs, ECN
//!   marks and losses at a nearly full queue reduce it. After a mark or such a loss, the flow tries again if it has
//!   competed for `patience` rounds. Queues may last for seconds, so the flow keeps the smallest RTT for 60 round
//!   trips, at least `rtt_window_ms` and at most a minute.
//! - **ECN marks** reduce the window in every phase, at most once per window of data (RFC 3168).
//! - **Silence.** The first delivery after a time-out restores the former window, up to what fits the path. After
//!   several time-outs and `silence_ms`, the path may be another one. The flow then discards its measurements and sends
//!   a train: ten segments back to back. The spacing of their acknowledgments gives the rate.
//!
//! The window applies unchanged in every state of loss recovery, and retransmissions are paced like new data.

use super::bbr::carried;
use super::entry::BuildAlgorithm;
use super::{Ack, AlgorithmTrace, Congestion, CongestionControl, Flow, OptionalEvents, Permit, RateSample};
use crate::units::{Rate, Time};
use curve::CubicWindow;
pub use params::Params;
use round::Rounds;
use std::cmp::Reverse;
use std::mem::take;
use std::sync::Arc;
use train::Train;
use window::SlidingMin;

mod curve;
mod params;
mod round;
#[cfg(test)]
mod tests;
mod train;
mod window;

/// Rule that sets the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Startup,
    Delay,
    /// Delay from a window that fits the path without a queue, to find out whether others fill the queue.
    Attempt,
    Compete,
}

/// The algorithm.
#[derive(Clone, Debug)]
pub struct Rough {
    params: Arc<Params>,
    phase: Phase,
    /// Round in which the phase began.
    since: u64,
    cwnd: u64,
    /// Change of the window that is less than a byte, in 1/256 bytes.
    fraction: i64,
    rounds: Rounds,
    min_rtt: SlidingMin<Time>,
    max_rtt: SlidingMin<Reverse<Time>>,
    /// Smallest RTT of the last half round trip.
    standing: SlidingMin<Time>,
    /// Largest delivery rate of the last four round trips, bytes per second.
    rate: SlidingMin<Reverse<u64>>,
    /// Last round in which the flow had enough bytes in the queue, or the average loss was high.
    queued_at: u64,
    /// `rate` at the start of the round, in startup.
    rate_before: u64,
    /// Set if the last round of startup raised `rate` by a quarter.
    grows: bool,
    /// Delay that is not caused by a queue.
    noise: Time,
    /// Average share of lost bytes per round, in 1/1024.
    loss: u64,
    /// Window while competing.
    curve: CubicWindow,
    /// Largest window of the last rounds.
    peak: SlidingMin<Reverse<u64>>,
    /// Largest number of bytes in flight in this round and the last.
    in_use: SlidingMin<Reverse<u64>>,
    /// Set from the beginning of an episode of loss or marks to the next acknowledgment, whose ECE shows a mark.
    is_alerted: bool,
    /// Bytes delivered at the last mark, until data that left after it is acknowledged.
    marked_at: Option<u64>,
    delivered_at: Time,
    /// Number of time-outs since the last delivery, and the window before the first.
    timeouts: u32,
    before_timeouts: u64,
    train: Option<Train>,
}

impl BuildAlgorithm for Rough {
    type Params = Params;
    fn check(params: &Params) -> Result<(), String> {
        params.check()
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        Rough {
            params: Arc::clone(params),
            phase: Phase::Startup,
            since: 0,
            cwnd: flow.initial_window,
            fraction: 0,
            rounds: Rounds::new(flow.delivered),
            min_rtt: SlidingMin::new(Time::MAX),
            max_rtt: SlidingMin::new(Reverse(Time::ZERO)),
            standing: SlidingMin::new(Time::MAX),
            rate: SlidingMin::new(Reverse(0)),
            queued_at: 0,
            rate_before: 0,
            grows: true,
            noise: Time::ZERO,
            loss: 0,
            curve: CubicWindow::new(flow.initial_window),
            peak: SlidingMin::new(Reverse(0)),
            in_use: SlidingMin::new(Reverse(0)),
            is_alerted: false,
            marked_at: None,
            delivered_at: flow.now,
            timeouts: 0,
            before_timeouts: 0,
            train: None,
        }
    }
}

impl CongestionControl for Rough {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        let mss = u64::from(flow.mss);
        let Some(sample) = ack.rate else { return };
        let timeouts = take(&mut self.timeouts);
        if timeouts > 0 && self.resume_or_restart(flow, timeouts) {
            return;
        }
        // One response per window of data (RFC 3168 section 6.1.2).
        self.marked_at = self.marked_at.filter(|&at| sample.prior_delivered < at);
        let is_mark = ack.ecn_echo && self.marked_at.is_none();
        if is_mark {
            self.marked_at = Some(flow.delivered);
        }
        if take(&mut self.is_alerted) && !ack.ecn_echo || is_mark {
            self.respond(is_mark, mss);
        }
        self.delivered_at = flow.now;
        let loss = self.rounds.count(sample.losses, ack.delivered, sample.prior_delivered, flow.delivered);
        if let Some(loss) = loss {
            self.learn(flow, loss);
        }
        let new_round = loss.is_some();
        if self.rounds.count == 0 {
            return; // this data left before the flow started
        }
        self.measure(flow, ack, &sample);
        if self.min_rtt.get() == Time::MAX {
            self.cwnd += ack.delivered;
            return;
        }
        self.peak.update(Time(self.rounds.count), Time(self.params.patience * PEAK_MEMORY), Reverse(self.cwnd));
        // A window of which less than half is in use is no evidence for a larger one (as in Linux's slow start).
        self.in_use.update(Time(self.rounds.count), Time(2), Reverse(flow.in_flight + ack.delivered));
        let in_use = self.in_use.get().0;
        let credited = if 2 * in_use < self.cwnd { 0 } else { ack.delivered };
        match self.phase {
            Phase::Startup => self.start_up(flow, ack, new_round, credited),
            Phase::Delay | Phase::Attempt => self.follow_delay(flow, ack, new_round, credited),
            Phase::Compete => {
                self.curve.grow(flow.now, flow.srtt, mss, credited);
                self.cwnd = self.curve.window;
                if new_round && self.is_settled() && !self.is_filled(self.params.empty_percent, Time::ZERO) {
                    self.begin_delay();
                }
            }
        }
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        if !cause.is_timeout() {
            self.is_alerted = true;
            return;
        }
        self.is_alerted = false;
        let mss = u64::from(flow.mss);
        if self.timeouts == 0 {
            self.before_timeouts = self.cwnd;
            self.curve.reduce(mss);
        }
        self.timeouts += 1;
        self.cwnd = mss;
    }

    fn optional_events(&self) -> OptionalEvents {
        OptionalEvents { rate: true, ..OptionalEvents::ACKS }
    }

    fn permit(&self, flow: &Flow) -> Permit {
        let window = self.cwnd.max(2 * u64::from(flow.mss));
        let rtt = match self.min_rtt.get() {
            Time::MAX => flow.srtt,
            min => self.standing.get().min(flow.srtt.max(min)),
        };
        if rtt.is_zero() || self.train.is_some() {
            return Permit::window(window);
        }
        let percent = if self.phase == Phase::Startup { 200 } else { self.params.pacing_percent };
        let rate = u128::from(window) * u128::from(percent) * 80_000_000 / u128::from(rtt.0);
        Permit::Send { window, rate: Some(Rate(u64::try_from(rate).unwrap_or(u64::MAX))) }
    }

    fn trace(&self) -> AlgorithmTrace {
        let phase = match self.phase {
            Phase::Startup => "startup",
            Phase::Delay => "delay",
            Phase::Attempt => "attempt",
            Phase::Compete => "compete",
        };
        AlgorithmTrace { cwnd: self.cwnd, ssthresh: u64::MAX, rate: None, phase }
    }
}

impl Rough {
    /// Returns the bandwidth-delay product: the bytes that the path carries in its smallest RTT.
    fn bdp(&self) -> u64 {
        carried(self.rate.get().0, self.min_rtt.get())
    }

    /// Returns the bandwidth-delay product plus the bytes that the flow keeps in the queue.
    fn fitting_window(&self, mss: u64) -> u64 {
        self.bdp() + self.target_queue(mss)
    }

    /// Returns the bytes that the flow keeps in the queue.
    fn target_queue(&self, mss: u64) -> u64 {
        self.params.queue_quarters * mss / 4
    }

    /// Returns the queueing delay without noise, and the window that keeps `target_queue` bytes in the queue.
    fn target(&self, mss: u64) -> (Time, u64) {
        let min = self.min_rtt.get();
        let standing = self.standing.get().max(min);
        let queued = (standing - min).saturating_sub(self.noise);
        let window = match queued.0 {
            0 => u64::MAX,
            ns => u64::try_from(u128::from(self.target_queue(mss)) * u128::from(standing.0) / u128::from(ns))
                .unwrap_or(u64::MAX),
        };
        (queued, window)
    }

    fn measure(&mut self, flow: &Flow, ack: &Ack, sample: &RateSample) {
        let memory = Time::from_millis(self.params.rtt_window_ms).max((flow.srtt * MEMORY).min(MAX_MEMORY));
        let rtt = if sample.rtt.is_zero() { ack.rtt.unwrap_or_default() } else { sample.rtt };
        if !rtt.is_zero() {
            self.rounds.add_rtt(rtt, self.params.patience);
            self.min_rtt.update(flow.now, memory, rtt);
            self.max_rtt.update(flow.now, memory, Reverse(rtt));
            self.standing.update(flow.now, flow.srtt / 2, rtt);
        }
        if self.min_rtt.get() < Time::MAX && !sample.interval.is_zero() && sample.delivered > 0 {
            let rate = Rate::from_bytes_per(sample.delivered, sample.interval).bytes_per_sec();
            if !sample.app_limited || rate > self.rate.get().0 {
                self.rate.update(flow.now, flow.srtt * 4, Reverse(rate));
            }
        }
    }

    /// Updates noise and average loss after a round that lost `loss` / 1024 of its bytes. Reduces the window if the
    /// average is congestion, and may end startup.
    fn learn(&mut self, flow: &Flow, loss: u64) {
        let p = &self.params;
        let mss = u64::from(flow.mss);
        let packets = self.transmission_time(mss * p.jump_packets);
        let jump = self.rounds.mean_jump;
        self.noise = if jump > packets { jump * p.noise_percent / 100 } else { Time::ZERO };

        if self.min_rtt.get() == Time::MAX {
            return;
        }
        self.loss = (self.loss * 5 + loss) / 6;
        if self.loss >= MAX_PROBE_LOSS {
            self.queued_at = self.rounds.count;
        }
        let is_congestion = self.loss * 1000 > self.params.max_loss_permille * 1024;
        if self.phase == Phase::Startup && (is_congestion || loss > MAX_STARTUP_LOSS) {
            self.cwnd /= 2;
            self.begin_delay();
        }
        if is_congestion {
            self.loss = self.loss * 3 / 4;
            self.reduce(mss);
        }
        self.cwnd = self.cwnd.max(2 * mss);
    }

    /// Reduces the window after a sign of congestion other than delay, and ends startup.
    fn reduce(&mut self, mss: u64) {
        self.cwnd = (self.cwnd * 7 / 10).max(2 * mss);
        self.peak = SlidingMin::new(Reverse(0));
        self.curve.reduce(mss);
        if self.phase == Phase::Startup {
            self.begin_delay();
        }
    }

    /// Responds to a mark, or to the first loss of an episode.
    fn respond(&mut self, is_mark: bool, mss: u64) {
        let min = self.min_rtt.get();
        let range = self.max_rtt.get().0.saturating_sub(min);
        let delay = self.rounds.recent_max_rtt().saturating_sub(min);
        let is_late = min < Time::MAX && delay >= range * self.params.loss_percent / 100;
        if self.phase == Phase::Compete && (is_late || is_mark) {
            self.curve.reduce(mss);
            self.cwnd = self.curve.window;
            if self.params.attempt && self.is_settled() {
                self.begin_attempt();
            }
        } else if is_mark {
            self.reduce(mss);
        }
    }

    fn start_up(&mut self, flow: &Flow, ack: &Ack, new_round: bool, credited: u64) {
        let mss = u64::from(flow.mss);
        if new_round {
            let most = self.rate.get().0;
            (self.grows, self.rate_before) = (most * 4 >= self.rate_before * 5, most);
            self.train = self.train.map(|_| Train::default());
        }
        if let Some(train) = &mut self.train {
            train.add(flow.now, ack.delivered);
            if train.bytes >= self.params.train_segments * mss {
                let fitting = train.in_time(self.min_rtt.get()) * self.params.train_percent / 100;
                self.train = None;
                if fitting > self.cwnd {
                    self.cwnd = fitting.min(MAX_JUMP * self.cwnd);
                    self.begin_delay();
                    return;
                }
            }
        }
        let (queued, target) = self.target(mss);
        let is_long = queued * 100 > self.min_rtt.get() * self.params.startup_percent;
        if self.cwnd > target && (!self.grows || is_long) {
            self.cwnd = self.fitting_window(mss);
            self.begin_delay();
        } else {
            self.cwnd += credited;
        }
    }

    fn follow_delay(&mut self, flow: &Flow, ack: &Ack, new_round: bool, credited: u64) {
        let mss = u64::from(flow.mss);
        let up = self.cwnd < self.target(mss).1;
        if !up {
            self.queued_at = self.rounds.count;
        }
        // Rounds since the flow last had enough bytes in the queue.
        let below = self.rounds.count - self.queued_at.max(self.since);
        let doublings = below.saturating_sub(self.params.probe_rounds).min(16);
        // `target_queue`, doubled `doublings` times, per window acknowledged; at most the bytes acknowledged.
        let acked = match (up, self.phase) {
            (false, _) => ack.delivered,
            (true, Phase::Attempt) => 0,
            (true, _) => credited,
        };
        let window = self.cwnd.max(1);
        let step = (256 * acked).saturating_mul((self.target_queue(mss) << doublings).min(window)) / window;
        let step = i64::try_from(step).unwrap_or(i64::MAX / 2);
        self.fraction += if up { step } else { -step };
        self.cwnd = self.cwnd.saturating_add_signed(self.fraction / 256).max(2 * mss);
        self.fraction %= 256;
        if self.phase == Phase::Attempt {
            self.curve.grow(flow.now, flow.srtt, mss, credited);
        }
        if !(self.params.compete && new_round && self.is_settled()) {
            return;
        }
        if self.phase == Phase::Delay {
            if self.is_filled(self.params.filled_percent, Time::ZERO) {
                self.curve = CubicWindow::new(self.peak.get().0.max(4 * mss));
                self.begin_attempt();
            }
        } else if self.is_filled(self.params.empty_percent, self.transmission_time(mss)) {
            // Packets leave in pairs, so one packet of the flow itself may be in the queue.
            (self.phase, self.since) = (Phase::Compete, self.rounds.count);
        } else {
            self.begin_delay();
        }
    }

    fn begin_delay(&mut self) {
        if self.phase == Phase::Startup {
            self.peak = SlidingMin::new(Reverse(0));
        }
        (self.phase, self.since) = (Phase::Delay, self.rounds.count);
        self.train = None;
    }

    fn begin_attempt(&mut self) {
        (self.phase, self.since) = (Phase::Attempt, self.rounds.count);
        self.cwnd = self.cwnd.min(self.bdp());
    }

    /// Returns true if the phase has lasted long enough to judge whether others fill the queue.
    fn is_settled(&self) -> bool {
        let rounds = if self.phase == Phase::Attempt { ATTEMPT } else { self.params.patience };
        self.rounds.count >= self.since + rounds
    }

    /// Returns true if the queueing delay of the last rounds, less `own`, stayed above `percent` of its largest value.
    fn is_filled(&self, percent: u64, own: Time) -> bool {
        let min = self.min_rtt.get();
        let (least, most) = (self.rounds.least.get(), self.rounds.largest.get().0);
        least.saturating_sub(min).saturating_sub(own) * 100 > most.saturating_sub(min) * percent
    }

    /// Returns the transmission time of `bytes` at the delivery rate.
    fn transmission_time(&self, bytes: u64) -> Time {
        Time(bytes.saturating_mul(1_000_000_000) / self.rate.get().0.max(1))
    }

    /// Handles the first delivery after time-outs. After several in a long silence, starts over with a train and
    /// returns true.
    fn resume_or_restart(&mut self, flow: &Flow, timeouts: u32) -> bool {
        let mss = u64::from(flow.mss);
        let silence = flow.now.saturating_sub(self.delivered_at);
        if !self.params.restart {
            return false;
        }
        if timeouts > 1 && silence > Time::from_millis(self.params.silence_ms) + flow.srtt * 2 {
            // The stack may still count old data as in flight that was lost before the silence.
            let cwnd = flow.in_flight + flow.initial_window.max(TRAIN * mss);
            *self = Rough { cwnd, train: Some(Train::default()), ..Rough::new(&self.params, flow) };
            return true;
        }
        let fitting = if self.min_rtt.get() == Time::MAX { u64::MAX } else { self.fitting_window(mss) };
        self.cwnd = self.cwnd.max(self.before_timeouts.min(fitting));
        false
    }
}

/// Largest loss of a round that does not end startup, in 1/1024.
const MAX_STARTUP_LOSS: u64 = 256;
/// Average loss from which on the increase no longer doubles, in 1/1024.
const MAX_PROBE_LOSS: u64 = 51;
/// Round trips in the window of the smallest and the largest RTT.
const MEMORY: u64 = 60;
/// Largest time that these round trips may take.
const MAX_MEMORY: Time = Time::from_secs(60);
/// Rounds of an attempt.
const ATTEMPT: u64 = 2;
/// Rounds that `peak` covers at most, in units of `patience`: more than one, because the window has fallen already when
/// the flow finds others in the queue.
const PEAK_MEMORY: u64 = 3;
/// Segments of a train.
const TRAIN: u64 = 10;
/// Largest factor by which a train enlarges the window.
const MAX_JUMP: u64 = 64;
