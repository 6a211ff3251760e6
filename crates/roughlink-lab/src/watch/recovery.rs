//! Time that a flow needs to return to its steady state after an outage.
//!
//! A flow has recovered at the start of the first five consecutive seconds that each deliver at least 95 % of the
//! link's current capacity. A single second is not sufficient: the repair of one loss can release the data of many
//! seconds at once. The definition is the same for every algorithm; times are multiples of 0.1 s.

use roughlink_core::link::Model;
use roughlink_core::packet::Protocol;
use roughlink_core::scenario::Scenario;
use roughlink_core::tcp::TcpConfig;
use roughlink_core::units::{Rate, Time};

/// Deliveries of a flow after the last outage of a link.
#[derive(Clone, Debug)]
pub(super) struct OutageRecovery {
    /// Time at which the link is up again.
    from: Time,
    /// Bytes per second at which the flow counts as recovered.
    enough: f64,
    /// Bytes delivered by `from` and every `STEP` after it.
    steps: Vec<u64>,
    last: u64,
    /// Segments sent before `from`, and the time of the next one.
    segments: u64,
    resumed: Option<Time>,
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
        Some(OutageRecovery {
            from,
            enough: ENOUGH * payload(slowest, scenario.flows[index].tcp().map_or(&TcpConfig::default(), |tcp| tcp)),
            steps: Vec::new(),
            last: 0,
            segments: 0,
            resumed: None,
        })
    }

    pub(super) fn delivered(&mut self, now: Time, bytes: u64) {
        while now > self.from + STEP * self.steps.len() as u64 {
            self.steps.push(self.last);
        }
        self.last = bytes;
    }

    /// Records that `segments` have been sent by `now`, retransmissions included.
    pub(super) fn sent(&mut self, now: Time, segments: u64) {
        if now < self.from {
            self.segments = segments;
        } else if segments > self.segments && self.resumed.is_none() {
            self.resumed = Some(now);
        }
    }

    /// Returns the time from the end of the outage to the next transmission; `None` if flow or run ended before.
    pub(super) fn resumed(&self, end: Time) -> Option<Wait> {
        let took = self.resumed.map(|at| Wait::Took(at.saturating_sub(self.from)));
        took.or((end > self.from).then(|| Wait::Longer(end - self.from)))
    }

    /// Returns the time from the end of the outage to recovery, for a flow that ended at `end`. Without recovery it is
    /// a lower bound: the time to five seconds before `end`, after which no recovery can be detected.
    pub(super) fn time(&self, end: Time) -> Option<Wait> {
        let second = (1_000_000_000 / STEP.0) as usize;
        let steady = |w: &[u64]| {
            w.iter().step_by(second).zip(w[second..].iter().step_by(second)).all(|(a, b)| (b - a) as f64 >= self.enough)
        };
        let found = self.steps.windows(SECONDS * second + 1).position(steady);
        let longer = || end.saturating_sub(self.from).saturating_sub(Time::from_secs(SECONDS as u64));
        match found {
            Some(k) => Some(Wait::Took(STEP * k as u64)),
            None => (end > self.from).then(|| Wait::Longer(longer())),
        }
    }
}

/// Returns the bytes of payload per second that fit a link of this rate, in full segments.
fn payload(rate: Rate, tcp: &TcpConfig) -> f64 {
    let options = if tcp.timestamps { 12 } else { 0 };
    let payload = f64::from(tcp.mss) - if tcp.mss_includes_options { f64::from(options) } else { 0.0 };
    rate.0 as f64 / 8.0 * payload / (payload + f64::from(40 + options))
}

const STEP: Time = Time::from_millis(100);
/// Number of consecutive seconds, and the share of the link's capacity that each must deliver.
const SECONDS: usize = 5;
const ENOUGH: f64 = 0.95;

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
        OutageRecovery {
            from: Time::from_secs(s),
            enough: 950.0,
            steps: Vec::new(),
            last: 0,
            segments: 0,
            resumed: None,
        }
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
    fn recovery_is_measured_against_the_new_link() {
        let read = |more: &str, flow: &str| {
            let text = format!(
                "duration = \"60 s\"\nnode = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[link]]\nname = \"l\"\n\
                 between = [\"a\", \"b\"]\nrate = \"2 Mbit/s\"\ndelay = \"30 ms\"\n{more}\n[[flow]]\nname = \"f\"\n\
                 {flow}\n\
                 from = \"a\"\nto = \"b\""
            );
            let (s, _) = roughlink_scenario::parse(&text, "t", &[], &|_| Err("no files".into())).unwrap();
            OutageRecovery::after_outage(&s, 0).map(|r| (r.from, r.enough))
        };
        let bulk = "kind = \"bulk\"\ntcp = { stack = \"ns2\", mss = \"960 B\" }";
        assert_eq!(read("", bulk), None);
        let steps = "{ at = \"30 s\", for = \"2 s\", up = false }, { at = \"30 s\", rate = \"8 Mbit/s\" }";
        let outage = format!("timeline = [{steps}]");
        assert_eq!(read(&outage, bulk), Some((Time::from_secs(32), 0.95 * 960_000.0)));
        assert_eq!(read(&outage, "kind = \"cbr\"\nrate = \"1 Mbit/s\"\nstop = \"9 s\""), None);
    }
}
