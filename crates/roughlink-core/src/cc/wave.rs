//! TCP Wave: bursts at timed intervals instead of a window that ACKs open (Wave paper: Abdelsalam, Luglio, Roseti,
//! Zampognaro, ICETE 2016).
//!
//! Every TxTime a burst of BURST segments leaves, retransmissions first, regardless of ACKs. A train of ACKs answers
//! each burst. The train's delay shows queues, its duration shows the rate of the bottleneck, and both determine
//! TxTime. A fast retransmission takes its packet from the next burst. The paper describes error repair and refers to
//! Abdelsalam et al. 2015 for the rate. Where both leave a point open, this implementation behaves like the authors'
//! public Linux sender but does not copy it.
//!
//! Assumptions:
//! - BURST stays BURST0, as in the Linux sender. The paper calls it dynamic and gives no rule.
//! - A time-out discards the smallest RTT (`timeout_forgets_min_rtt`). The paper treats the network as unknown then,
//!   and its sender reaches the new link's rate with the first whole train. The smallest RTT of a shorter link would
//!   prevent this.
//! - A train is scaled to a whole burst (`scale_dispersion`): n ACKs have n - 1 gaps, and a fast retransmission or the
//!   application may have left the burst short.
//! - A duplicate ACK shows that a segment has arrived, and is part of a train like other ACKs (`duplicates`). Otherwise
//!   trains would last as long as repairs. After a time-out, duplicate ACKs answer needless copies, and count again
//!   only once data sent after the repair is acknowledged.
//! - An ACK of more than two segments is not a delayed ACK (`max_ack_segments`): it ends a loss and covers data that
//!   arrived earlier. Such an ACK completes the current train (section 2.1) but does not show its pace.
//! - The clock stops when there is no data to send. The next burst leaves with the next data.
//!
//! Each name sets the keys of `[tcp]` that it needs. `wave` sets one fast retransmit per three duplicate ACKs, no SACK,
//! and an RTO of at least 1 s. Wave has no window, so the other effects of `recovery = "reno"` do not apply. `wave-fr`
//! measures deliveries instead of acknowledgments, and repairs all holes that SACKs show, as part of its scheduled
//! bursts. This handles a case that the paper leaves open: an outage shorter than the RTO.

use super::entry::BuildAlgorithm;
use super::{Ack, AlgorithmTrace, Congestion, CongestionControl, CongestionState, Flow, Permit, Sent};
use crate::units::{Rate, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;
mod trains;
use std::sync::Arc;
use trains::{AckReport, Advance, TrainMeasurement, Trains};

/// Parameters of [`Wave`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// BURST0: segments of a burst (Wave paper, section 3.1: 10).
    pub burst0: u32,
    /// TxTime0: interval between bursts at the start and after a time-out, which is also the longest interval (section
    /// 3.1: 0.5 s).
    pub txtime0_ms: f64,
    /// Shortest interval between bursts.
    pub min_txtime_ms: f64,
    /// Queueing delay that ends tracking (section 3.1: 0.35 s; the Linux sender has 0.15 s).
    pub beta_ms: f64,
    /// Share of the queueing delay that is added to the interval while tracking (Linux sender: 1/2).
    pub queueing_share: f64,
    /// Largest weight of a train that is longer than earlier ones. Up to this limit, the weight is the queueing delay
    /// divided by `beta_ms`.
    pub max_alpha: f64,
    /// Factor by which each train multiplies the interval until a pace has been measured.
    pub blind_factor: f64,
    /// Minimum number of segments in a train that gives a measurement.
    pub min_train: u32,
    /// Correct the duration of a train, because n ACKs have only n - 1 gaps and a train may cover only a part of its
    /// burst. Without correction, a train of ten segments acknowledged in pairs appears 20 % too short.
    pub scale_dispersion: bool,
    /// Discard the smallest RTT at a time-out.
    pub timeout_forgets_min_rtt: bool,
    /// Rule that assigns ACKs to trains.
    pub trains: Attribution,
    /// With `trains = "acknowledged"`: treatment of duplicate ACKs in trains.
    pub duplicates: Duplicates,
    /// With `trains = "acknowledged"`: maximum number of segments that one ACK of the receiver covers (RFC 5681 section
    /// 4.2: 2). An ACK of more segments counts as the end of a repair.
    pub max_ack_segments: u32,
}

/// Rule that selects the ACKs that answer a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Attribution {
    /// ACKs that acknowledge the burst's data, no matter which copy of the data arrived. During the repair of a loss,
    /// RTTs grow with the repair (Wave paper, section 2.1). These RTTs also determine the RTO, without Karn's rule
    /// (section 2.2).
    Acknowledged,
    /// ACKs, including SACKs, that deliver the burst's segments; each copy counts for the burst in which it left.
    Delivered,
}

/// Treatment of duplicate ACKs in trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Duplicates {
    /// Duplicate ACKs do not count: a train continues with the repair (Wave paper, section 2.1, taken literally).
    Ignored,
    /// Each duplicate ACK counts as one more segment. Each cumulative ACK restarts the count, like the count of
    /// duplicates for a fast retransmit (RFC 5681 section 3.2).
    Anew,
    /// Each duplicate ACK counts as one more segment until the end of the repair, like delivered segments of the Linux
    /// sender without SACK (`sacked_out`).
    Counted,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            burst0: 10,
            txtime0_ms: 500.0,
            min_txtime_ms: 1.0,
            beta_ms: 350.0,
            queueing_share: 0.5,
            max_alpha: 1.0,
            blind_factor: 0.5,
            min_train: 4,
            scale_dispersion: true,
            timeout_forgets_min_rtt: true,
            trains: Attribution::Acknowledged,
            duplicates: Duplicates::Anew,
            max_ack_segments: 2,
        }
    }
}

/// Keys of `[tcp]` that `wave` sets.
pub const TCP: &str = "recovery = \"reno\"\nsack = false\nfr_off_until = \"last_sent\"\nmin_rto = \"1 s\"\n\
                       rto_floor = \"total\"\nrttvar = \"rfc\"";
/// Parameters that `wave-fr` sets.
pub const FR: &str = "trains = \"delivered\"";
/// Keys of `[tcp]` that `wave-fr` sets. Every segment sent restarts the timer of tail loss probes. Bursts continue
/// during an outage, so neither this timer nor the RTO would expire with `tlp`.
pub const FR_TCP: &str = "recovery = \"rack\"\nsack = true\ndsack = true\ntlp = false\nundo = false\n\
                          min_rto = \"1 s\"\nrto_floor = \"total\"\nrttvar = \"rfc\"";

/// The algorithm.
#[derive(Clone, Debug)]
pub struct Wave {
    params: Arc<Params>,
    /// BURST, bytes.
    burst: u64,
    /// TxTime.
    interval: Time,
    /// Bytes of this burst that have not left.
    left: u64,
    /// Bytes sent outside of bursts, subtracted from the next one.
    debt: u64,
    /// Time of the next burst; `None` until this one begins.
    next_at: Option<Time>,
    /// True until `trains` has a segment of this burst.
    unrecorded: bool,
    trains: Trains,
    /// Bytes above the acknowledged ones that duplicate ACKs reported (`sacked_out` of Linux without SACK).
    guessed: u64,
    /// `snd_nxt` at the detection of the loss. Once it is acknowledged, `guessed` is 0.
    recover: u64,
    /// Duplicate ACKs count above this offset; `u64::MAX` from a time-out until the end of its repair.
    duplicates_off_until: u64,
    /// True if the last ACK was a duplicate that did not count. The next ACK then ends a loss.
    duplicate: bool,
    /// Filtered duration of a whole burst's train.
    dispersion: Option<Time>,
    /// Smallest RTT since the last adjustment, and the largest of the connection.
    min_rtt: Option<Time>,
    max_rtt: Time,
    avg_rtt: Option<Time>,
    /// Trains to skip before the next update (`stab`).
    skip: u64,
    phase: &'static str,
}

impl BuildAlgorithm for Wave {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if p.burst0 == 0 || p.burst0 > 10_000 {
            Err("`burst0` must be between 1 and 10000 segments".into())
        } else if [p.txtime0_ms, p.min_txtime_ms, p.beta_ms].iter().any(|x| !(1e-3..=1e6).contains(x)) {
            Err("`txtime0_ms`, `min_txtime_ms` and `beta_ms` must be between 1e-3 and 1e6".into())
        } else if !(0.0..=100.0).contains(&p.queueing_share) {
            Err("`queueing_share` must be between 0 and 100".into())
        } else if [p.max_alpha, p.blind_factor].iter().any(|x| !(0.0..=1.0).contains(x)) {
            Err("`max_alpha` and `blind_factor` must be between 0 and 1".into())
        } else if p.max_ack_segments == 0 {
            Err("`max_ack_segments` must be at least 1".into())
        } else if p.min_txtime_ms > p.txtime0_ms {
            Err("`min_txtime_ms` must not exceed `txtime0_ms`".into())
        } else {
            Ok(())
        }
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        let burst = u64::from(params.burst0) * u64::from(flow.mss);
        Wave {
            burst,
            interval: milliseconds(params.txtime0_ms),
            left: burst,
            debt: 0,
            next_at: None,
            unrecorded: false,
            trains: Trains::new(params.trains, burst),
            guessed: 0,
            recover: 0,
            duplicates_off_until: if params.duplicates == Duplicates::Ignored { u64::MAX } else { 0 },
            duplicate: false,
            dispersion: None,
            min_rtt: None,
            max_rtt: Time::ZERO,
            avg_rtt: None,
            skip: 0,
            phase: START,
            params: Arc::clone(params),
        }
    }
}

impl CongestionControl for Wave {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        let report = match self.params.trains {
            Attribution::Acknowledged => {
                let advance = self.advance(flow, ack.prior_una, flow.snd_una);
                self.guessed = self.guessed(flow, ack.prior_una, flow.snd_una);
                self.duplicate = ack.acked == 0 && advance.is_none();
                let Some(advance) = advance else { return };
                self.trains.on_acknowledged(flow.now, advance)
            }
            Attribution::Delivered => {
                let Some(rate) = &ack.rate else { return };
                // An ACK too early for the copy answers the original (RFC 8985 section 6.2 step 2).
                let rtt = flow.now.saturating_sub(rate.sent_at);
                if rate.retransmitted && self.min_rtt.is_some_and(|min| rtt < min) {
                    return;
                }
                self.trains.on_delivered(flow.now, rate.sent_at, ack.delivered)
            }
        };
        self.take(report);
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        if !cause.is_timeout() {
            if flow.snd_una >= self.recover {
                self.recover = flow.snd_nxt;
            }
            return; // bursts continue
        }
        // Section 2.2.
        self.interval = milliseconds(self.params.txtime0_ms);
        (self.left, self.debt, self.next_at) = (self.burst, 0, None);
        self.trains.on_timeout(flow.snd_una);
        (self.guessed, self.duplicates_off_until) = (0, u64::MAX);
        if self.params.timeout_forgets_min_rtt {
            self.min_rtt = None;
        }
        self.phase = TIMEOUT;
    }

    fn on_recovered(&mut self, flow: &Flow) {
        if self.duplicates_off_until == u64::MAX && self.params.duplicates != Duplicates::Ignored {
            self.duplicates_off_until = flow.snd_nxt;
        }
    }

    /// The permit ignores data in flight, because ACKs release nothing.
    fn permit(&self, flow: &Flow) -> Permit {
        Permit::window(flow.in_flight + self.left)
    }

    fn trace(&self) -> AlgorithmTrace {
        let rate = Some(Rate::from_bytes_per(self.burst, self.interval));
        AlgorithmTrace { cwnd: self.burst, ssthresh: u64::MAX, rate, phase: self.phase }
    }

    fn on_sent(&mut self, flow: &Flow, sent: &Sent) {
        let len = u64::from(sent.len);
        if self.left == 0 {
            self.debt += len; // a fast retransmission (section 2.1)
            return;
        }
        self.left = self.left.saturating_sub(len);
        if self.next_at.is_none() {
            self.next_at = Some(flow.now + self.interval);
            self.unrecorded = true;
        }
        // Repairs count for the burst of the original, unless a time-out restarted all bursts.
        let repair = sent.retransmission && flow.state != CongestionState::Loss;
        if !repair || self.params.trains == Attribution::Delivered {
            let first = std::mem::take(&mut self.unrecorded);
            self.trains.on_sent(flow.now, sent, first);
        }
    }

    fn on_timer(&mut self, flow: &Flow) {
        let paid = self.debt.min(self.burst);
        self.debt -= paid;
        self.left = self.burst - paid;
        // The next interval starts with this burst's first segment, or now if the debt leaves no room for a segment.
        self.next_at = (self.left < u64::from(flow.mss)).then(|| flow.now + self.interval);
    }

    fn is_ack_clocked(&self) -> bool {
        false
    }

    fn timer(&self) -> Option<Time> {
        self.next_at
    }

    fn rto_sample(&self, flow: &Flow, ack: u64, measured: Option<Time>) -> Option<Time> {
        match self.params.trains {
            Attribution::Acknowledged => {
                let advance = self.advance(flow, flow.snd_una, ack)?;
                self.trains.answered(flow.now, advance)
            }
            Attribution::Delivered => measured,
        }
    }
}

impl Wave {
    /// Returns the new arrivals that an ACK shows, if any; the ACK moves `snd_una` from `prior` to `una`.
    fn advance(&self, flow: &Flow, prior: u64, una: u64) -> Option<Advance> {
        let (from, to) = (prior + self.guessed, una + self.guessed(flow, prior, una));
        let jump = to > from + u64::from(self.params.max_ack_segments) * u64::from(flow.mss);
        (to > from).then(|| Advance { to, bytes: to - from, ends_loss: jump || self.duplicate })
    }

    fn guessed(&self, flow: &Flow, prior: u64, una: u64) -> u64 {
        let mss = u64::from(flow.mss);
        let guessed = match una - prior {
            0 if una > self.duplicates_off_until => self.guessed + mss,
            0 => self.guessed,
            _ if self.params.duplicates == Duplicates::Anew || una >= self.recover => 0,
            acked => self.guessed.saturating_sub(acked.saturating_sub(mss)), // one segment is the repair
        };
        guessed.min(flow.snd_nxt.saturating_sub(una))
    }

    fn take(&mut self, report: AckReport) {
        if let Some(rtt) = report.first_rtt {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
            self.max_rtt = self.max_rtt.max(rtt);
        }
        if let Some(train) = report.train.filter(|t| t.segments >= self.params.min_train) {
            if self.skip > 0 {
                self.skip -= 1;
            } else {
                self.update(&train);
            }
        }
    }

    /// Computes the interval of the next bursts from a complete train.
    fn update(&mut self, train: &TrainMeasurement) {
        let rtt = train.first_rtt;
        let min = self.min_rtt.map_or(rtt, |min| min.min(rtt));
        // Samples count less with a longer queue.
        let avg = self.avg_rtt.map_or(min, |avg| {
            let a = (rtt - min).as_secs_f64() / rtt.as_secs_f64();
            weighted(avg, a, rtt)
        });
        self.avg_rtt = Some(avg);
        let queueing = avg.saturating_sub(min);
        let beta = milliseconds(self.params.beta_ms);
        let sample = self.sample(train, avg);
        if let Some(sample) = sample {
            // Slow down only as far as a queue confirms the sample.
            self.dispersion = Some(match self.dispersion {
                Some(previous) if sample > previous => {
                    let alpha = (queueing.as_secs_f64() / beta.as_secs_f64()).min(self.params.max_alpha);
                    weighted(previous, 1.0 - alpha, sample)
                }
                _ => sample,
            });
        }
        if queueing > beta {
            self.skip = avg.0 / self.interval.0;
            self.min_rtt = None;
            self.avg_rtt = Some(self.max_rtt);
            self.interval = milliseconds(self.params.txtime0_ms);
            self.phase = ADJUSTMENT;
            return;
        }
        let interval = match self.dispersion {
            Some(dispersion) => dispersion + scaled(queueing, self.params.queueing_share),
            None => scaled(self.interval, self.params.blind_factor), // no measurement yet
        };
        self.interval = interval.max(milliseconds(self.params.min_txtime_ms)).min(milliseconds(self.params.txtime0_ms));
        self.phase = TRACKING;
    }

    /// Duration of a whole burst's train at the pace of `train`; `None` if `train` shows no pace.
    fn sample(&self, train: &TrainMeasurement, avg_rtt: Time) -> Option<Time> {
        let scale = if self.params.scale_dispersion { train.scale } else { 1.0 };
        let sample = scaled(train.spread, scale);
        // Section 3.2: the duration of a repair is not a pace.
        let repair = train.partial && sample > avg_rtt;
        (!sample.is_zero() && !repair).then_some(sample)
    }
}

fn weighted(a: Time, w: f64, b: Time) -> Time {
    Time::from_secs_f64(a.as_secs_f64() * w + b.as_secs_f64() * (1.0 - w))
}

fn scaled(t: Time, factor: f64) -> Time {
    Time::from_secs_f64(t.as_secs_f64() * factor)
}

fn milliseconds(ms: f64) -> Time {
    Time::from_secs_f64(ms / 1e3)
}

const START: &str = "start";
const TRACKING: &str = "tracking";
const ADJUSTMENT: &str = "adjustment";
const TIMEOUT: &str = "time-out";
