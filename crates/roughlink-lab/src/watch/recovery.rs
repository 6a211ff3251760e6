//! Time that a flow needs to return to its steady state after an outage.
//!
//! A flow has recovered at the start of the first five consecutive seconds that each deliver at least 95 % of the
//! link's current capacity. A single second is not sufficient: the repair of one loss can release the data of many
//! seconds at once. The definition is the same for every algorithm; times are multiples of 0.1 s.
//!
//! The sender has recovered at the start of the first second that fits the link: in both halves the segments sent,
//! retransmissions included, are within 10 % of that capacity. Later the rate may be too high or too low again.

use roughlink_core::link::Model;
use roughlink_core::packet::Protocol;
use roughlink_core::scenario::Scenario;
use roughlink_core::tcp::TcpConfig;
use roughlink_core::units::{Rate, Time};
use std::ops::RangeBounds;

/// Deliveries of a flow after the last outage of a link.
#[derive(Clone, Debug)]
pub(super) struct OutageRecovery {
    /// Time at which the link is up again.
    from: Time,
    /// Bytes of payload that fit the link per second, and bytes of payload of a segment.
    capacity: f64,
    payload: f64,
    /// Bytes delivered, and segments sent.
    delivered: Counter,
    sent: Counter,
    /// Time of the first segment after `from`.
    resumed: Option<Time>,
}

/// Values of a counter at the end of the outage and every `STEP` after it.
#[derive(Clone, Debug, Default)]
struct Counter {
    steps: Vec<u64>,
    last: u64,
}

impl Counter {
    /// Records that the counter has this value at `now`.
    fn count(&mut self, from: Time, now: Time, value: u64) {
        while now > from + STEP * self.steps.len() as u64 {
            self.steps.push(self.last);
        }
        self.last = value;
    }

    /// Returns the time at which the first `n` consecutive periods begin that each have an increase in this range.
    fn first(&self, n: usize, period: Time, range: impl RangeBounds<f64>) -> Option<Time> {
        let period = (period.0 / STEP.0) as usize;
        let steady = |w: &[u64]| {
            let mut periods = w.iter().step_by(period).zip(w[period..].iter().step_by(period));
            periods.all(|(a, b)| range.contains(&((b - a) as f64)))
        };
        Some(STEP * self.steps.windows(n * period + 1).position(steady)? as u64)
    }
}

/// Time that a flow waited for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The event happened after this time.
    Took(Time),
    /// The event did not happen within the observed time; the wait is longer than this.
    Longer(Time),
}

impl Wait {
    /// Returns the duration or its lower bound.
    pub(super) fn time(self) -> Time {
        match self {
            Wait::Took(time) | Wait::Longer(time) => time,
        }
    }
}

impl OutageRecovery {
    /// Starts to observe flow `index` if a link goes down and comes back; the slowest link at that time counts. Returns
    /// `None` for datagram flows, which have no back-off and may have stopped before.
    pub(super) fn after_outage(scenario: &Scenario, index: usize) -> Option<OutageRecovery> {
        if scenario.flows[index].protocol() == Protocol::Udp {
            return None;
        }
        let back = |model: &Model| {
            let mut up = true;
            let returns = model.as_pipe()?.forward.states().filter(|(_, s)| !std::mem::replace(&mut up, s.up) && s.up);
            returns.last().map(|(at, _)| at)
        };
        let from = scenario.links.iter().filter_map(|l| back(&l.model)).max()?;
        let capacity = |model: &Model| {
            let states = model.as_pipe().into_iter().flat_map(|pipe| pipe.forward.states());
            let now = states.take_while(|s| s.0 <= from).last().map(|(_, state)| state.rate);
            now.unwrap_or(model.rate())
        };
        let slowest = scenario.links.iter().map(|l| capacity(&l.model)).min_by_key(|r| r.0)?;
        let (capacity, payload) =
            payload(slowest, scenario.flows[index].tcp().map_or(&TcpConfig::default(), |tcp| tcp));
        let (delivered, sent) = (Counter::default(), Counter::default());
        Some(OutageRecovery { from, capacity, payload, delivered, sent, resumed: None })
    }

    pub(super) fn delivered(&mut self, now: Time, bytes: u64) {
        self.delivered.count(self.from, now, bytes);
    }

    /// Records that `segments` have been sent by `now`, retransmissions included.
    pub(super) fn sent(&mut self, now: Time, segments: u64) {
        if now >= self.from && segments > self.sent.last && self.resumed.is_none() {
            self.resumed = Some(now);
        }
        self.sent.count(self.from, now, segments);
    }

    /// Returns the time from the end of the outage to the next transmission; `None` if flow or run ended before.
    pub(super) fn resumed(&self, end: Time) -> Option<Wait> {
        let took = self.resumed.map(|at| Wait::Took(at.saturating_sub(self.from)));
        took.or((end > self.from).then(|| Wait::Longer(end - self.from)))
    }

    /// Returns the time from the end of the outage to recovery, for a flow that ended at `end`. Without recovery it is
    /// a lower bound: the time to five seconds before `end`, after which no recovery can be detected.
    pub(super) fn time(&self, end: Time) -> Option<Wait> {
        self.wait(self.delivered.first(SECONDS, Time::from_secs(1), ENOUGH * self.capacity..), SECONDS, end)
    }

    /// Returns the time from the end of the outage to the recovery of the sender, or a lower bound as [`Self::time`].
    pub(super) fn sender_time(&self, end: Time) -> Option<Wait> {
        let half = self.capacity / self.payload / 2.0;
        self.wait(self.sent.first(2, Time::from_millis(500), (1.0 - SENDER) * half..=(1.0 + SENDER) * half), 1, end)
    }

    fn wait(&self, found: Option<Time>, seconds: usize, end: Time) -> Option<Wait> {
        let longer = || end.saturating_sub(self.from).saturating_sub(Time::from_secs(seconds as u64));
        found.map(Wait::Took).or_else(|| (end > self.from).then(|| Wait::Longer(longer())))
    }
}

/// Returns the bytes of payload per second that fit a link of this rate in full segments, and the payload of a segment.
fn payload(rate: Rate, tcp: &TcpConfig) -> (f64, f64) {
    let options = if tcp.timestamps { 12 } else { 0 };
    let payload = f64::from(tcp.mss) - if tcp.mss_includes_options { f64::from(options) } else { 0.0 };
    (rate.0 as f64 / 8.0 * payload / (payload + f64::from(40 + options)), payload)
}

const STEP: Time = Time::from_millis(100);
/// Number of consecutive seconds, and the share of the link's capacity that each must deliver.
const SECONDS: usize = 5;
const ENOUGH: f64 = 0.95;
/// Share by which the sender's rate may differ from the link's capacity.
const SENDER: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Recovery time in s; negative for a lower bound.
    fn recovery(rates: &[(u64, f64)]) -> Option<f64> {
        let mut r = recovery_from(10);
        let mut bytes = 0.0;
        let mut now = Time::ZERO;
        for &(seconds, rate) in rates {
            for _ in 0..seconds * 100 {
                now += Time::from_millis(10);
                bytes += rate / 100.0;
                r.delivered(now, bytes as u64);
            }
        }
        match r.time(now)? {
            Wait::Took(t) => Some(t.as_secs_f64()),
            Wait::Longer(t) => Some(-t.as_secs_f64()),
        }
    }

    fn recovery_from(s: u64) -> OutageRecovery {
        let (delivered, sent) = (Counter::default(), Counter::default());
        OutageRecovery { from: Time::from_secs(s), capacity: 1000.0, payload: 100.0, delivered, sent, resumed: None }
    }

    #[test]
    fn the_first_segment_after_the_outage_counts() {
        let mut r = recovery_from(10);
        for (at, segments) in [(3, 7), (9, 8), (10, 8), (11, 8)] {
            r.sent(Time::from_secs(at), segments);
            assert_eq!(r.resumed(Time::from_secs(40)), Some(Wait::Longer(Time::from_secs(30))));
            assert_eq!(r.resumed(Time::from_secs(9)), None, "it was over before");
        }
        r.sent(Time::from_secs(12), 9);
        r.sent(Time::from_secs(13), 10);
        assert_eq!(r.resumed(Time::from_secs(40)), Some(Wait::Took(Time::from_secs(2))));
    }

    #[test]
    fn recovery_needs_five_consecutive_good_seconds() {
        assert_eq!(recovery(&[(10, 500.0), (3, 0.0), (20, 1000.0)]), Some(3.0));
        assert_eq!(recovery(&[(20, 1000.0)]), Some(0.0));
        // Four seconds are not sufficient, and a second that delivers data that arrived earlier does not count.
        assert_eq!(recovery(&[(10, 500.0), (4, 1000.0), (1, 400.0), (20, 1000.0)]), Some(5.0));
        assert_eq!(recovery(&[(10, 500.0), (2, 0.0), (1, 9000.0), (3, 100.0), (20, 1000.0)]), Some(6.0));
        // The end of the run is not recovery: the result is a lower bound.
        assert_eq!(recovery(&[(13, 0.0), (4, 1000.0)]), Some(-2.0));
        assert_eq!(recovery(&[(43, 0.0)]), Some(-28.0));
        assert_eq!(recovery(&[(9, 1000.0)]), None, "there was no outage to recover from");
    }

    #[test]
    fn sender_recovers_in_the_first_second_near_the_rate_of_the_link() {
        let time = |rates: &[u64]| {
            let (mut r, mut sent, mut now) = (recovery_from(0), 0, Time::ZERO);
            for rate in rates {
                for _ in 0..10 {
                    r.sent(now, sent);
                    (now, sent) = (now + STEP, sent + rate);
                }
            }
            r.sent(now, sent);
            r.sender_time(now)
        };
        // The link carries 10 segments a second.
        assert_eq!(time(&[0, 3, 1, 1, 1]), Some(Wait::Took(Time::from_secs(2))), "30 segments a second are too many");
        assert_eq!(time(&[2, 0, 2]), Some(Wait::Longer(Time::from_secs(2))), "not on average over a second");
        assert_eq!(time(&[3, 3]), Some(Wait::Longer(Time::from_secs(1))));
    }

    #[test]
    fn recovery_is_measured_against_the_new_link() {
        let read = |more: &str, flow: &str| {
            let text = format!(
                "duration = \"60 s\"\nnode = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[link]]\nname = \"l\"\n\
                 between = [\"a\", \"b\"]\nrate = \"2 Mbit/s\"\ndelay = \"30 ms\"\n{more}\n[[flow]]\nname = \"f\"\n\
                 {flow}\n\
                 from = \"a\"\nto = \"b\""
            );
            let (s, _) = roughlink_scenario::parse(&text, "t", &[], &|_| Err("no files".into())).unwrap();
            OutageRecovery::after_outage(&s, 0).map(|r| (r.from, ENOUGH * r.capacity))
        };
        let bulk = "kind = \"bulk\"\ntcp = { stack = \"ns2\", mss = \"960 B\" }";
        assert_eq!(read("", bulk), None);
        let steps = "{ at = \"30 s\", for = \"2 s\", up = false }, { at = \"30 s\", rate = \"8 Mbit/s\" }";
        let outage = format!("timeline = [{steps}]");
        assert_eq!(read(&outage, bulk), Some((Time::from_secs(32), 0.95 * 960_000.0)));
        assert_eq!(read(&outage, "kind = \"cbr\"\nrate = \"1 Mbit/s\"\nstop = \"9 s\""), None);
    }
}
