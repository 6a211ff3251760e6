//! Estimate of the modem's state for real interfaces, where no modem reports it. A kernel has no counters of the queue
//! in a modem behind its interface, nor of the packets of each flow. The paper has no such estimate.
//!
//! - **Backlog of a flow.** n inward SDUs have passed the gateway and are not acknowledged. The inward RTT is the time
//!   from a segment to its acknowledgment, both at the gateway; `base` is the smallest of all flows. By Little's law,
//!   n (1 - base/RTT) of these SDUs wait. A modem delivers all SDUs of a PDU at once, but their acknowledgments follow
//!   one by one. So n is the smallest number within a cycle. The estimate includes SDUs that wait beyond the modem, and
//!   those that wait because other traffic uses the medium.
//! - **Rate of the link.** The largest rate of acknowledged SDUs in an interval of [`BIN`], of the latest [`BINS`]
//!   intervals with traffic. Flows may exceed it by [`PROBE`], so that the estimate can grow. Until the first interval
//!   has passed nothing is known, and no window changes.
//! - **PDUs.** The number of SDUs and the overhead of a PDU are parameters.

use crate::gateway::{FlowKey, Modem, Segment, before};
use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Source of the modem's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BacklogSource {
    /// The modem, if it reports its state, as in scenarios; otherwise the estimate.
    Modem,
    /// The estimate, as on a real interface.
    Estimate,
}

/// Parameters of the estimate.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EstimateParams {
    /// Rate of the link without overhead, Mbit/s; 0 = measured.
    pub rate_mbps: f64,
    /// Largest number of SDUs in a PDU: L. 31 in the PLC paper; 1 for a modem that sends packets one by one.
    pub max_sdus: u32,
    /// Time that a PDU takes in addition to its SDUs, microseconds.
    pub overhead_us: u64,
}

impl Default for EstimateParams {
    fn default() -> Self {
        EstimateParams { rate_mbps: 0.0, max_sdus: 31, overhead_us: 750 }
    }
}

impl EstimateParams {
    pub(super) fn check(&self) -> Result<(), String> {
        if !(0.0..=1e6).contains(&self.rate_mbps) {
            Err("`estimate.rate_mbps` must be between 0 and 1000000".into())
        } else if !(1..=1_000).contains(&self.max_sdus) {
            Err("`estimate.max_sdus` must be between 1 and 1000".into())
        } else if self.overhead_us > 1_000_000 {
            Err("`estimate.overhead_us` must be at most 1000000".into())
        } else {
            Ok(())
        }
    }
}

/// The inward path of a flow, as its segments and acknowledgments show it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InwardPath {
    /// Sequence number after the data sent, and highest acknowledgment number.
    next: Option<u32>,
    acked: Option<u32>,
    /// Segment whose acknowledgment is awaited: sequence number after it, and its time.
    timed: Option<(u32, Time)>,
    /// Fewest outstanding SDUs in the present cycle, which began at `since`, and in the one before.
    lows: [f64; 2],
    since: Time,
    /// Smoothed time from a segment to its acknowledgment, ns.
    rtt: f64,
    /// Estimated backlog, SDUs.
    pub(super) backlog: f64,
}

/// State of the link, estimated from all flows.
#[derive(Clone, Debug)]
pub(super) struct ModemEstimate {
    params: EstimateParams,
    base: Time,
    /// SDUs acknowledged since the start of the present interval.
    acknowledged: f64,
    since: Option<Time>,
    /// Rates of the latest intervals, SDU/s.
    rates: VecDeque<f64>,
    /// Backlog of the flow in question, and of all flows, SDUs.
    pub(super) current: f64,
    pub(super) total: f64,
}

impl ModemEstimate {
    pub(super) fn new(params: EstimateParams) -> Self {
        let (rates, base) = (VecDeque::new(), Time::MAX);
        ModemEstimate { params, base, acknowledged: 0.0, since: None, rates, current: 0.0, total: 0.0 }
    }

    /// Processes an inward segment with data.
    pub(super) fn sent(&mut self, now: Time, path: &mut InwardPath, s: &Segment) {
        let next = *path.next.get_or_insert(s.seq);
        path.acked.get_or_insert(s.seq);
        if before(s.seq, next) {
            // The acknowledgment of a repeated segment is ambiguous (Karn's algorithm, RFC 6298 section 3).
            path.timed = None;
        } else if path.timed.is_none() {
            path.timed = Some((s.end(), now));
        }
        if before(next, s.end()) {
            path.next = Some(s.end());
        }
    }

    /// Processes an acknowledgment up to `ack`, in SDUs of `mss`. Returns true if it acknowledges new data.
    pub(super) fn acknowledged(&mut self, now: Time, path: &mut InwardPath, ack: u32, mss: u32) -> bool {
        self.current = path.backlog;
        let (Some(next), Some(earlier)) = (path.next, path.acked) else { return false };
        if before(next, ack) || !before(earlier, ack) {
            return false;
        }
        path.acked = Some(ack);
        let mss = f64::from(mss.max(1));
        if let Some((_, at)) = path.timed.filter(|(end, _)| !before(ack, *end)) {
            path.timed = None;
            let rtt = now.saturating_sub(at);
            self.base = self.base.min(rtt);
            let first = path.rtt == 0.0;
            path.rtt = if first { rtt.0 as f64 } else { path.rtt + (rtt.0 as f64 - path.rtt) / SMOOTHING };
        }
        self.count(now, f64::from(ack.wrapping_sub(earlier)) / mss);
        let waiting = if path.rtt > 0.0 { (1.0 - self.base.0 as f64 / path.rtt).max(0.0) } else { 0.0 };
        let outstanding = f64::from(next.wrapping_sub(ack)) / mss;
        if self.is_known() && now.saturating_sub(path.since) >= self.cycle_time(self.params.max_sdus) {
            (path.lows, path.since) = ([outstanding, path.lows[0]], now);
        }
        path.lows[0] = path.lows[0].min(outstanding);
        let backlog = path.lows[0].min(path.lows[1]) * waiting;
        self.total = (self.total + backlog - path.backlog).max(0.0);
        path.backlog = backlog;
        self.current = backlog;
        true
    }

    fn count(&mut self, now: Time, sdus: f64) {
        let since = *self.since.get_or_insert(now);
        let passed = now.saturating_sub(since);
        if passed >= BIN {
            // After silence, the interval is longer, and its rate says nothing about the link.
            if passed < BIN + BIN {
                if self.rates.len() >= BINS {
                    self.rates.pop_front();
                }
                self.rates.push_back(self.acknowledged / passed.as_secs_f64());
            }
            (self.acknowledged, self.since) = (0.0, Some(now));
        }
        self.acknowledged += sdus;
    }

    /// Rate of the link, SDU/s; 0 until it is known.
    fn rate(&self) -> f64 {
        match self.params.rate_mbps {
            stated if stated > 0.0 => stated * 1e6 / (8.0 * SDU_BYTES),
            _ => PROBE * self.rates.iter().copied().fold(0.0, f64::max),
        }
    }

    /// Returns true if windows can be computed.
    pub(super) fn is_known(&self) -> bool {
        self.rate() > 0.0
    }
}

impl Modem for ModemEstimate {
    fn waiting(&self, _: &FlowKey) -> u32 {
        self.current.round() as u32
    }
    fn backlog(&self, _: &FlowKey) -> u32 {
        self.current.round() as u32
    }
    fn total_backlog(&self) -> u32 {
        self.total.round() as u32
    }
    fn cycle_time(&self, sdus: u32) -> Time {
        let limit = f64::from(self.params.max_sdus);
        let overhead = self.params.overhead_us as f64 * 1e3;
        // A measured rate includes the overhead of full PDUs.
        let included = if self.params.rate_mbps > 0.0 { 0.0 } else { overhead / limit };
        let sdu = (1e9 / self.rate() - included).max(0.0);
        Time((overhead + f64::from(sdus) * sdu) as u64)
    }
    fn max_sdus(&self) -> u32 {
        self.params.max_sdus
    }
}

/// Shortest interval in which the rate is measured: several PDUs.
const BIN: Time = Time::from_millis(250);
/// Number of intervals that count: ten seconds of traffic.
const BINS: usize = 40;
/// Margin above the measured rate, as in the probing phase of BBR.
const PROBE: f64 = 1.25;
/// Weight of a new RTT is the inverse of this.
const SMOOTHING: f64 = 4.0;
/// Size of a full SDU, bytes.
const SDU_BYTES: f64 = 1500.0;

#[cfg(test)]
mod tests {
    use super::*;

    use crate::gateway::tests::key_of;

    const MSS: u32 = 1000;

    fn data(n: u32) -> Segment {
        Segment { seq: n * MSS, payload: MSS, ..Segment::new(key_of(0)) }
    }

    /// A link that carries an SDU per millisecond after 10 ms: with 30 SDUs outstanding, 20 wait.
    #[test]
    fn backlog_and_rate_follow_from_acknowledgments() {
        let mut estimate =
            ModemEstimate::new(EstimateParams { max_sdus: 10, overhead_us: 1_000, ..Default::default() });
        let mut path = InwardPath::default();
        let at = |ms: u32| Time::from_millis(ms.into());
        // Two segments on the idle link show the base.
        for n in 0..2 {
            estimate.sent(at(20 * n), &mut path, &data(n));
            estimate.acknowledged(at(20 * n + 10), &mut path, (n + 1) * MSS, MSS);
        }
        assert_eq!((estimate.base, estimate.current), (at(10), 0.0));
        assert!(!estimate.is_known());
        for n in 2..700 {
            estimate.sent(at(30 + n), &mut path, &data(n));
            if n > 31 {
                estimate.acknowledged(at(30 + n), &mut path, (n - 29) * MSS, MSS);
            }
        }
        assert!((estimate.current - 20.0).abs() < 1.0, "{}", estimate.current);
        assert!((estimate.rate() / PROBE - 1000.0).abs() < 10.0, "{}", estimate.rate());
        assert_eq!((estimate.backlog(&key_of(0)), estimate.total_backlog()), (20, 20));
        // 1250 SDU/s in PDUs of 10 SDUs, whose overhead is included: 8 ms each.
        assert!((estimate.cycle_time(10).as_secs_f64() - 0.008).abs() < 1e-4, "{:?}", estimate.cycle_time(10));
    }

    #[test]
    fn repeated_segments_and_silence_do_not_count() {
        let mut estimate = ModemEstimate::new(EstimateParams::default());
        let mut path = InwardPath::default();
        let at = Time::from_millis;
        assert!(!estimate.acknowledged(at(0), &mut path, 5, MSS), "nothing was sent");
        [data(0), data(1), data(0)].iter().for_each(|s| estimate.sent(at(0), &mut path, s));
        assert!(!estimate.acknowledged(at(1), &mut path, 0, MSS), "no progress");
        assert!(estimate.acknowledged(at(51), &mut path, MSS, MSS));
        assert!(!estimate.acknowledged(at(52), &mut path, MSS, MSS));
        assert_eq!(estimate.base, Time::MAX, "the acknowledgment is ambiguous");
        assert!(!estimate.acknowledged(at(53), &mut path, 3 * MSS, MSS), "it acknowledges what was not sent");
        assert!(estimate.acknowledged(at(5_000), &mut path, 2 * MSS, MSS));
        assert!(estimate.rates.is_empty(), "the rate of a silence says nothing");
        let stated = ModemEstimate::new(EstimateParams { rate_mbps: 12.0, ..Default::default() });
        assert_eq!((stated.is_known(), stated.cycle_time(1)), (true, Time::from_micros(1_750)));
    }
}
