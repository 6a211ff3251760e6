//! AVOCA: wraps another algorithm and sends nothing while there is no coverage (AVOCA paper, sections I and IV).
//!
//! Transmit mode requires coverage ([`super::coverage`]); in this mode `inner` controls the window (section IV). In
//! hold mode nothing is sent ([`Permit::Hold`]) and every parameter keeps its value (section I). When transmit mode
//! begins, `inner` restarts, RTO and back-off return to their initial values, and the endpoint immediately sends the
//! earliest outstanding data (section IV, [`CongestionControl::starts_anew`]).

use super::coverage::{Coverage, Level, Rules};
use super::entry::{AlgorithmError, BuildAlgorithm};
use super::{
    Ack, AlgorithmTrace, Congestion, CongestionControl, Flow, LinkEvent, LostSegment, Permit, STACKS, Sent, algorithm,
};
use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Parameters of [`Avoca`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Algorithm in transmit mode: any name of the registry except `avoca`. Keys of `[tcp]` that this algorithm sets
    /// when used as `cc` are not set here.
    pub inner: String,
    /// Parameters of `inner`.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub params: toml::Table,
    /// Stack whose preset applies to `inner` before `params`; the connection's stack if not set.
    pub stack: String,
    /// Signal strength, dBm, at or below which coverage ends. `"coverage"` takes the `threshold` of the link's
    /// `[[coverage]]`, -80 without one; the paper gives no value.
    pub rss_threshold: Level,
    /// Margin above the threshold at which coverage begins, dB. `"coverage"` takes the `hysteresis` of the link's
    /// `[[coverage]]`; the paper has no hysteresis.
    pub hysteresis: Level,
    /// Wait for layer 3 to be configured after each Up (the paper); otherwise Up implies it.
    pub needs_l3: bool,
    /// Reset window, RTT and back-off when coverage begins (the paper); otherwise continue with the frozen values.
    pub reset: bool,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            inner: "newreno".into(),
            params: toml::Table::new(),
            stack: "linux".into(),
            rss_threshold: Level::ANNOUNCED,
            hysteresis: Level::ANNOUNCED,
            needs_l3: true,
            reset: true,
        }
    }
}

impl Params {
    fn rules(&self) -> Rules {
        Rules { threshold: self.rss_threshold, hysteresis: self.hysteresis, needs_l3: self.needs_l3 }
    }
}

/// The `ns3` preset.
pub const NS3: &str = "stack = \"ns3\"";
/// The `ns2` preset.
pub const NS2: &str = "stack = \"ns2\"";
/// The `rfc` preset.
pub const RFC: &str = "stack = \"rfc\"";

/// The algorithm.
#[derive(Debug)]
pub struct Avoca {
    inner: Box<dyn CongestionControl>,
    coverage: Coverage,
    transmitting: bool,
    params: Arc<Params>,
}

impl BuildAlgorithm for Avoca {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        p.rules().check()?;
        if p.inner == NAME {
            return Err("`inner` cannot be `avoca` itself".into());
        }
        if !STACKS.contains(&p.stack.as_str()) {
            let near = nearest(&p.stack, STACKS.into_iter()).map(|n| format!("; the nearest is `{n}`"));
            let others = || format!("; expected one of `{}`", STACKS.join("`, `"));
            return Err(format!("unknown stack `{}`{}", p.stack, near.unwrap_or_else(others)));
        }
        build(p).map(drop)
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        Avoca {
            inner: fresh(params, flow),
            coverage: Coverage::new(params.rules()),
            transmitting: true,
            params: Arc::clone(params),
        }
    }
}

impl CongestionControl for Avoca {
    fn on_link(&mut self, flow: &Flow, event: &LinkEvent) {
        let before = self.transmitting;
        self.coverage.on_link(event);
        self.transmitting = self.coverage.has_coverage();
        if self.transmitting && !before && self.params.reset {
            let unmeasured = Flow { srtt: Time::ZERO, latest_rtt: Time::ZERO, min_rtt: Time::MAX, ..flow.clone() };
            self.inner = fresh(&self.params, &unmeasured);
        }
        if self.transmitting && before {
            self.inner.on_link(flow, event);
        }
    }

    fn permit(&self, flow: &Flow) -> Permit {
        if self.transmitting { self.inner.permit(flow) } else { Permit::Hold }
    }

    fn starts_anew(&self) -> bool {
        self.params.reset || self.inner.starts_anew()
    }

    fn on_loss_after_mark(&mut self, flow: &Flow) {
        self.inner.on_loss_after_mark(flow);
    }

    fn least_burst(&self) -> u32 {
        self.inner.least_burst()
    }

    fn is_ack_clocked(&self) -> bool {
        self.inner.is_ack_clocked()
    }

    fn lower_window(&mut self, flow: &Flow, cwnd: u64, ssthresh: u64) {
        self.inner.lower_window(flow, cwnd, ssthresh);
    }

    fn trace(&self) -> AlgorithmTrace {
        let inner = self.inner.trace();
        AlgorithmTrace { phase: if self.transmitting { inner.phase } else { "no coverage" }, ..inner }
    }

    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        if self.transmitting {
            self.inner.on_ack(flow, ack);
        }
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        if self.transmitting {
            self.inner.on_congestion(flow, cause);
        }
    }

    fn on_sent(&mut self, flow: &Flow, sent: &Sent) {
        self.inner.on_sent(flow, sent);
    }

    fn on_lost(&mut self, flow: &Flow, lost: &LostSegment) {
        if self.transmitting {
            self.inner.on_lost(flow, lost);
        }
    }

    fn on_recovered(&mut self, flow: &Flow) {
        if self.transmitting {
            self.inner.on_recovered(flow);
        }
    }

    fn on_undo(&mut self, flow: &Flow) {
        if self.transmitting {
            self.inner.on_undo(flow);
        }
    }

    fn on_timer(&mut self, flow: &Flow) {
        self.inner.on_timer(flow);
    }

    fn timer(&self) -> Option<Time> {
        self.inner.timer().filter(|_| self.transmitting)
    }

    fn rto_sample(&self, flow: &Flow, ack: u64, measured: Option<Time>) -> Option<Time> {
        self.inner.rto_sample(flow, ack, measured)
    }
}

/// Returns the factory of the inner algorithm; the error for an unknown name suggests the nearest known one.
fn build(p: &Params) -> Result<super::Factory, String> {
    algorithm(&p.inner).and_then(|a| a.factory(&p.stack, &p.params)).map_err(|e| {
        let near = match &e {
            AlgorithmError::UnknownAlgorithm(name) => {
                nearest(name, super::REGISTRY.iter().map(|a| a.name).filter(|n| *n != NAME))
            }
            AlgorithmError::UnknownParameter { key, known, .. } => nearest(key, known.iter().map(String::as_str)),
            AlgorithmError::Parameter { .. } => None,
        };
        near.map_or_else(|| e.to_string(), |n| format!("{e}; the nearest is `{n}`"))
    })
}

fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let far = 1 + word.chars().count() / 3;
    let near = known.map(|k| (strsim::damerau_levenshtein(word, k), k)).filter(|(distance, _)| *distance <= far);
    near.min().map(|(_, k)| k)
}

fn fresh(params: &Params, flow: &Flow) -> Box<dyn CongestionControl> {
    build(params).expect("checked when the factory was made")(flow)
}

const NAME: &str = "avoca";

#[cfg(test)]
mod tests {
    use super::super::{CongestionState, RateSample, build};
    use super::*;
    use crate::units::Rate;

    fn flow() -> Flow {
        Flow {
            mss: 1000,
            initial_window: 4_000,
            initial_ssthresh: u64::MAX,
            min_rtt: Time::MAX,
            state: CongestionState::Open,
            ..Flow::default()
        }
    }

    fn avoca(params: &str) -> Box<dyn CongestionControl> {
        build("avoca", "rfc", params, &flow()).unwrap()
    }

    #[test]
    fn state_is_frozen_outside_and_reset_on_entering_coverage() {
        let f = flow();
        let ack = Ack { acked: 1000, delivered: 1000, segments: 1, may_grow: true, ..Ack::default() };
        for (params, after) in [("", 4_000), ("reset = false", 6_000)] {
            let mut cc = avoca(params);
            cc.on_ack(&f, &ack);
            cc.on_ack(&f, &ack);
            cc.on_link(&f, &LinkEvent::Down);
            cc.on_ack(&f, &ack);
            cc.on_congestion(&f, Congestion::Timeout);
            assert_eq!((cc.trace().cwnd, cc.trace().phase), (6_000, "no coverage"));
            cc.on_link(&f, &LinkEvent::Up);
            assert_eq!((cc.trace().cwnd, cc.permit(&f)), (6_000, Permit::Hold), "layer 3 is not configured");
            cc.on_link(&f, &LinkEvent::Configured);
            assert_eq!(cc.trace().cwnd, after);
            cc.on_ack(&f, &ack);
            for again in [LinkEvent::Up, LinkEvent::Configured] {
                cc.on_link(&f, &again); // already in coverage: no second start
            }
            assert_eq!(cc.trace().cwnd, after + 1_000);
            assert_eq!(cc.starts_anew(), after == 4_000);
        }
    }

    /// Asserts that both return the same for a few hundred round trips with losses and timeouts.
    fn same_trajectory(name: &str, mut inner: Box<dyn CongestionControl>, mut outer: Box<dyn CongestionControl>) {
        let mut f = flow();
        (f.send_window, f.cwnd_limited) = (u64::MAX, true);
        for round in 1..400_u64 {
            f.now += Time::from_millis(40);
            let rtt = Time::from_millis(40 + round % 7);
            (f.srtt, f.latest_rtt, f.min_rtt) = (rtt, rtt, Time::from_millis(40));
            let (seq, n) = (f.snd_nxt, 3 + round % 5);
            for cc in [&mut inner, &mut outer] {
                if cc.timer().is_some_and(|t| t <= f.now) {
                    cc.on_timer(&f);
                }
                for i in 0..n {
                    let sent =
                        Sent { seq: seq + 1000 * i, len: 1000, retransmission: round % 31 == 0, tx_start: i == 0 };
                    cc.on_sent(&f, &sent);
                }
            }
            f.snd_nxt += 1000 * n;
            (f.in_flight, f.outstanding, f.max_outstanding) = (1000 * n, 1000 * n, 1000 * n);
            f.now += rtt;
            let end = f.snd_nxt;
            assert_eq!(inner.rto_sample(&f, end, Some(rtt)), outer.rto_sample(&f, end, Some(rtt)), "{name}, {round}");
            f.delivered += 1000 * n;
            let rate = RateSample {
                delivered: 1000 * n,
                prior_delivered: f.delivered - 1000 * n,
                interval: rtt,
                rtt,
                sent_at: f.now - rtt,
                acked_sacked: 1000 * n,
                prior_in_flight: 1000 * n,
                ..RateSample::default()
            };
            let ack = Ack {
                acked: 1000 * n,
                delivered: 1000 * n,
                segments: n as u32,
                rtt: Some(rtt),
                may_grow: true,
                prior_una: f.snd_una,
                prior_in_flight: 1000 * n,
                rate: Some(rate),
                ecn_echo: false,
            };
            f.snd_una = end;
            for cc in [&mut inner, &mut outer] {
                match round % 60 {
                    20 => cc.on_congestion(&f, Congestion::Loss),
                    24 => cc.on_recovered(&f),
                    40 => cc.on_congestion(&f, Congestion::Timeout),
                    41 => cc.on_congestion(&f, Congestion::TimeoutAgain),
                    43 => cc.on_undo(&f),
                    50 => cc.on_link(&f, &LinkEvent::Rate(Rate(1_000_000))),
                    _ => {}
                }
                cc.on_ack(&f, &ack);
            }
            assert_eq!(inner.trace(), outer.trace(), "{name}, {round}");
            assert_eq!((inner.permit(&f), inner.timer()), (outer.permit(&f), outer.timer()), "{name}, {round}");
        }
    }

    #[test]
    fn any_algorithm_can_be_the_inner_one() {
        for a in super::super::REGISTRY.iter().filter(|a| a.name != NAME) {
            let inner = build(a.name, "ns3", "", &flow()).unwrap();
            let cc = build("avoca", "ns3", &format!("inner = \"{}\"", a.name), &flow()).unwrap();
            same_trajectory(a.name, inner, cc);
        }
        let cc = avoca("inner = \"newreno\"\nparams = { min_ssthresh = 7 }");
        let text = format!("{cc:?}");
        assert!(
            text.contains("min_ssthresh: 7") && text.contains("slow_start_limit: 1"),
            "the rfc preset below it: {text}"
        );
    }

    #[test]
    fn invalid_inner_algorithms_are_refused() {
        let refused = |params: &str| build("avoca", "linux", params, &flow()).unwrap_err().to_string();
        assert!(
            refused("inner = \"newrno\"").ends_with("unknown congestion control `newrno`; the nearest is `newreno`")
        );
        assert!(refused("params = { min_sthresh = 7 }").ends_with("the nearest is `min_ssthresh`"));
        assert!(refused("params = { min_ssthresh = 0 }").contains("at least 1 segment"));
        assert!(refused("inner = \"avoca\"").contains("itself"));
        assert!(refused("hysteresis = -1.0").contains("of at least 0"));
        assert!(refused("rss_threshold = nan").contains("number (dBm)"));
        assert!(refused("rss_threshold = \"strong\"").contains("write a number, or \"coverage\""));
        assert!(
            refused("stack = \"foo\"")
                .ends_with("unknown stack `foo`; expected one of `linux`, `ns3`, `ns3-3.27`, `ns3-3.29`, `ns2`, `rfc`")
        );
        assert!(refused("stack = \"linu\"").ends_with("the nearest is `linux`"));
        assert!(refused("inner = \"xyzzy\"").ends_with("unknown congestion control `xyzzy`"));
    }
}
