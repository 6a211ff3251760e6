//! AVOCA for servers that cannot be changed: an agent on the train. (In the AVOCA paper the sender observes the radio.)
//!
//! The idea is Freeze-TCP's (T. Goff, J. Moronski, D. Phatak, V. Gupta, INFOCOM 2000), moved from the receiver into a
//! gateway. When coverage is about to end, the gateway closes the windows: every outgoing acknowledgment advertises 0,
//! and one more is sent at once for each flow. The sender stops and persists (RFC 9293 section 3.8.6.1) without losses
//! or back-off. When coverage returns, three acknowledgments with the receiver's last window make the sender resume
//! before its next probe. To a sender that never received the closed window they are duplicate ACKs, so it repairs its
//! losses.
//!
//! Closing moves the right edge back, which a receiver should not do and a sender must survive (RFC 9293 section 3.8.6:
//! the usable window may become negative). Otherwise, the gateway never advertises or acknowledges more than the
//! receiver did, and its own segments repeat earlier ones except for the window.
//!
//! A warning is a signal at or below the threshold, or `Down`; [`crate::cc::coverage`] defines coverage. If data
//! arrives from outside more than `lead_ms` after a warning, the warning was wrong, and the gateway opens the windows;
//! this costs `lead_ms` and the wait for the sender's next probe. A late warning has no effect while the link is down,
//! because no packet leaves. Without warnings the gateway changes nothing. Flows whose SYN was not seen are served too:
//! their windows open with the field value they had when they closed.

use super::entry::BuildGateway;
use super::flows::{self, FlowPhase, Flows, WatchedFlow};
use super::{FlowKey, FlowStats, Gateway, Heading, Modem, Segment, SegmentVerdict, Stats, before};
use crate::cc::LinkEvent;
use crate::cc::coverage::{Coverage, Level, Rules};
use crate::packet::flags;
use crate::units::Time;
use crate::wire::Addresses;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Parameters of [`AvocaRx`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Signal at or below which coverage is about to end, dBm. `"coverage"` takes the `threshold` of the link's
    /// `[[coverage]]`, -80 without one; the paper gives no value.
    pub rss_threshold_dbm: Level,
    /// Margin above the threshold at which coverage begins, dB. `"coverage"` takes the `hysteresis` of the link's
    /// `[[coverage]]`.
    pub hysteresis_db: Level,
    /// Wait for layer 3 to be configured after each Up, as in the paper; otherwise Up implies it.
    pub needs_l3: bool,
    /// Longest time from a warning to the end of coverage, milliseconds. Data that arrives later proves the warning
    /// wrong.
    pub lead_ms: u64,
    /// Number of acknowledgments that open a window.
    pub opening_acks: u32,
    /// The flow table.
    pub table: flows::Params,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            rss_threshold_dbm: Level::ANNOUNCED,
            hysteresis_db: Level::ANNOUNCED,
            needs_l3: true,
            lead_ms: 5_000,
            opening_acks: 3,
            // Outside coverage every flow is idle. The timeout is the one required of NATs (RFC 5382, REQ-5).
            table: flows::Params { idle_ms: 7_440_000, ..Default::default() },
        }
    }
}

impl Params {
    fn rules(&self) -> Rules {
        Rules { threshold: self.rss_threshold_dbm, hysteresis: self.hysteresis_db, needs_l3: self.needs_l3 }
    }
}

/// The gateway.
#[derive(Debug)]
pub struct AvocaRx {
    params: Params,
    flows: Flows<FrozenWindow>,
    coverage: Coverage,
    /// Time since which the windows are closed.
    closed: Option<Time>,
    pending: VecDeque<FlowKey>,
    originated: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct FrozenWindow {
    /// True if the sender may have received the closed window.
    closed: bool,
}

impl BuildGateway for AvocaRx {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        p.rules().check()?;
        if !(1..=10).contains(&p.opening_acks) {
            Err("`opening_acks` must be between 1 and 10".into())
        } else {
            p.table.check()
        }
    }
    fn new(params: &Params) -> Self {
        AvocaRx {
            params: params.clone(),
            flows: Flows::new(params.table.clone()),
            coverage: Coverage::new(params.rules()),
            closed: None,
            pending: VecDeque::new(),
            originated: 0,
        }
    }
}

impl Gateway for AvocaRx {
    fn receive(
        &mut self,
        now: Time,
        heading: Heading,
        segment: &mut Segment,
        _modem: Option<&dyn Modem>,
    ) -> SegmentVerdict {
        let seen = self.flows.observe(now, heading, segment);
        let lead = Time(self.params.lead_ms.saturating_mul(1_000_000));
        if heading == Heading::Inward && self.closed.is_some_and(|at| now >= at.saturating_add(lead)) {
            // The receiver's answer opens the window; three more duplicates would trigger a needless retransmission.
            if let Some(flow) = seen.flow.and_then(|id| self.flows.get_mut(&id)) {
                let old = flow.end_of(heading).next.is_some_and(|next| before(segment.seq, next));
                flow.state.closed &= segment.payload == 0 && !old;
            }
            self.open();
        }
        if heading == Heading::Inward || self.closed.is_none() || !seen.credible || segment.is(flags::SYN) {
            return SegmentVerdict::Accept;
        }
        let Some(flow) = seen.flow.and_then(|id| self.flows.get_mut(&id)) else { return SegmentVerdict::Accept };
        if serves(flow) && segment.window > 0 {
            flow.state.closed = true;
            flow.rewritten += 1;
            segment.window = 0;
        }
        SegmentVerdict::Accept
    }

    fn transmit(&mut self, _now: Time) -> Option<(Heading, Segment)> {
        while let Some(key) = self.pending.pop_front() {
            let Some(flow) = self.flows.get(&key).filter(|f| serves(f)) else { continue };
            let end = flow.end_of(Heading::Outward);
            let (Some(seq), Some((ack, window))) = (end.next, end.ack) else { continue };
            let segment = Segment {
                seq,
                ack,
                flags: flags::ACK,
                window: if self.closed.is_some() { 0 } else { window },
                timestamps: end.timestamps,
                addresses: flow.addresses.map(Addresses::reversed),
                link: flow.link,
                ..Segment::new(key.reversed())
            };
            self.originated += 1;
            return Some((Heading::Outward, segment));
        }
        None
    }

    fn wake(&mut self, now: Time) {
        self.flows.expire(now);
    }

    fn next_wake(&self) -> Time {
        self.flows.next_expiry()
    }

    fn on_link(&mut self, now: Time, event: &LinkEvent) {
        let before = self.coverage.has_coverage();
        self.coverage.on_link(event);
        match (before, self.coverage.has_coverage()) {
            (true, false) => self.close(now),
            (false, true) => self.open(),
            // Data from outside had disproved the warning, but Down shows that coverage does end now.
            (false, false) if *event == LinkEvent::Down && self.closed.is_none() => self.close(now),
            _ => {}
        }
    }

    fn stats(&self, modem: Option<&dyn Modem>) -> Stats {
        Stats { originated: self.originated, ..self.flows.stats(modem, |_| None) }
    }

    fn ended(&self) -> Vec<FlowStats> {
        self.flows.ended(|_| None)
    }
}

impl AvocaRx {
    fn close(&mut self, now: Time) {
        self.closed = Some(now);
        self.pending.clear();
        for (&key, flow) in self.flows.iter_mut().filter(|(_, f)| serves(f)) {
            flow.state.closed = true;
            self.pending.push_back(key);
        }
    }

    /// Opens the windows because coverage is back or never ended.
    fn open(&mut self) {
        if self.closed.take().is_none() {
            return;
        }
        self.pending.clear();
        for (&key, flow) in self.flows.iter_mut() {
            // If the receiver has closed its window, only the receiver opens it.
            let open = flow.end_of(Heading::Outward).ack.is_some_and(|(_, window)| window > 0);
            if std::mem::take(&mut flow.state.closed) && open {
                self.pending.extend((0..self.params.opening_acks).map(|_| key));
            }
        }
    }
}

/// Returns true if the gateway controls the window of `flow`: the sender is outside, the header may be rewritten.
fn serves(flow: &WatchedFlow<FrozenWindow>) -> bool {
    let writable = !flow.excluded() && flow.phase() != FlowPhase::Handshake;
    writable && flow.has_data() && !flow.finished() && flow.end_of(Heading::Outward).ack.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::tests::{GatewayBench, key_of};

    /// Creates a connection without window scaling that last advertised 1234 bytes.
    fn bench(toml: &str) -> GatewayBench<AvocaRx> {
        let mut b = GatewayBench::new(AvocaRx::new(&toml::from_str(toml).unwrap()));
        b.open(0, 60);
        b.data(0, 3);
        b.ack(0, 1_234);
        b
    }
    fn sent(b: &mut GatewayBench<AvocaRx>) -> Vec<Segment> {
        let all = std::iter::from_fn(|| b.gateway.transmit(b.now));
        all.map(|(heading, s)| (heading == Heading::Outward).then_some(s).unwrap()).collect()
    }

    fn back(b: &mut GatewayBench<AvocaRx>) {
        [LinkEvent::Up, LinkEvent::Configured].iter().for_each(|e| b.gateway.on_link(b.now, e));
    }

    #[test]
    fn windows_close_and_open() {
        let mut b = bench("");
        b.gateway.on_link(b.now, &LinkEvent::Signal(-79.9));
        assert!(sent(&mut b).is_empty());
        b.gateway.on_link(b.now, &LinkEvent::Signal(-80.0));
        let last = b.segment(0, Heading::Outward);
        assert_eq!(sent(&mut b), [Segment { window: 0, ..last }]);
        b.data(0, 2);
        assert_eq!(b.ack(0, 1_200), 0, "what was on its way is acknowledged");
        b.gateway.on_link(b.now, &LinkEvent::Down);
        b.gateway.on_link(b.now, &LinkEvent::Signal(-50.0));
        assert!(sent(&mut b).is_empty(), "still down");
        b.gateway.on_link(b.now, &LinkEvent::Up);
        assert!(sent(&mut b).is_empty(), "layer 3 is not configured");
        b.gateway.on_link(b.now, &LinkEvent::Configured);
        let last = Segment { window: 1_200, ..b.segment(0, Heading::Outward) };
        assert_eq!(sent(&mut b), [last; 3], "as the receiver said last");
        assert_eq!(b.ack(0, 1_300), 1_300);
        let stats = b.gateway.stats(None);
        assert_eq!((stats.originated, stats.flows[0].rewritten), (4, 1));
        let mut b = bench("needs_l3 = false");
        b.gateway.on_link(b.now, &LinkEvent::Down);
        b.gateway.on_link(b.now, &LinkEvent::Up);
        assert_eq!(sent(&mut b).len(), 3);
    }

    #[test]
    fn gateway_segments_match_those_of_the_receiver() {
        let mut b = bench("");
        // The client sends data, acknowledges and echoes; then an older acknowledgment arrives late.
        let s = b.segment(0, Heading::Outward);
        b.pass(Heading::Outward, Segment { payload: 500, timestamps: Some((77, 66)), ..s });
        b.pass(Heading::Outward, Segment { ack: s.ack - 1460, window: 9_999, ..s });
        b.gateway.on_link(b.now, &LinkEvent::Down);
        let closing = Segment { seq: s.seq + 500, window: 0, timestamps: Some((77, 66)), ..s };
        assert_eq!(sent(&mut b), [closing]);
        back(&mut b);
        assert_eq!(sent(&mut b)[0], Segment { window: s.window, ..closing });
    }

    #[test]
    fn only_flows_that_expect_data_are_closed() {
        let mut b = bench("");
        b.open(1, 20); // no data has arrived
        b.open(2, 20);
        b.data(2, 1);
        b.ack(2, 500);
        b.fin(2, Heading::Inward); // no more data will arrive
        b.open(3, 20);
        b.data(3, 1);
        b.ack(3, 500);
        let signed = Segment { signed: true, ..b.segment(3, Heading::Inward) };
        b.pass(Heading::Inward, signed);
        // The SYN of this flow was not seen.
        let s = Segment { seq: 10, ack: 20, payload: 100, flags: flags::ACK, ..Segment::new(key_of(4)) };
        b.pass(Heading::Inward, s);
        b.pass(
            Heading::Outward,
            Segment { seq: 20, ack: 110, window: 5, flags: flags::ACK, ..Segment::new(key_of(4).reversed()) },
        );
        // The receiver of this flow has closed its window.
        b.open(5, 20);
        b.data(5, 1);
        b.ack(5, 0);
        b.gateway.on_link(b.now, &LinkEvent::Down);
        let keys = |s: Vec<Segment>| s.iter().map(|s| s.key.reversed()).collect::<Vec<_>>();
        assert_eq!(keys(sent(&mut b)), [0, 4, 5].map(key_of));
        assert_eq!(b.ack(3, 600), 600, "signed");
        back(&mut b);
        assert_eq!(keys(sent(&mut b)), [0, 0, 0, 4, 4, 4].map(key_of));
    }

    #[test]
    fn windows_reopen_after_a_long_outage() {
        let mut b = bench("");
        b.gateway.on_link(b.now, &LinkEvent::Down);
        assert_eq!(sent(&mut b).len(), 1);
        b.wait(3_600_000);
        b.gateway.wake(b.now);
        back(&mut b);
        assert_eq!(sent(&mut b).len(), 3);
    }

    #[test]
    fn traffic_from_outside_proves_coverage() {
        let mut b = bench("lead_ms = 2000\nopening_acks = 1");
        b.open(1, 20);
        b.data(1, 1);
        b.ack(1, 500);
        b.gateway.on_link(b.now, &LinkEvent::Down);
        assert_eq!(sent(&mut b).len(), 2);
        b.wait(1_999);
        b.data(0, 1);
        assert_eq!(b.ack(0, 700), 0);
        b.wait(1);
        b.data(0, 1);
        let opened = sent(&mut b);
        assert_eq!(opened.len(), 1, "flow 0 gets an acknowledgment of its own");
        assert_eq!((opened[0].key.reversed(), opened[0].window), (key_of(1), 500));
        assert_eq!(b.ack(0, 700), 700);
        // The client will not answer a pure acknowledgment from the server, so the gateway must open the window.
        let mut other = bench("lead_ms = 0\nopening_acks = 1");
        other.gateway.on_link(other.now, &LinkEvent::Down);
        sent(&mut other);
        let s = other.segment(0, Heading::Inward);
        other.pass(Heading::Inward, s);
        assert_eq!(sent(&mut other).len(), 1);
        // After a disproved warning, a weak signal alone changes nothing, but Down closes the windows again.
        b.gateway.on_link(b.now, &LinkEvent::Signal(-90.0));
        assert!(sent(&mut b).is_empty());
        b.gateway.on_link(b.now, &LinkEvent::Down);
        assert_eq!(sent(&mut b).len(), 2, "it comes true");
        back(&mut b);
        assert_eq!(sent(&mut b).len(), 2, "the signal is forgotten with layer 2");
        b.gateway.on_link(b.now, &LinkEvent::Signal(-60.0));
        assert!(sent(&mut b).is_empty());
        b.gateway.on_link(b.now, &LinkEvent::Signal(-90.0));
        assert_eq!(sent(&mut b).len(), 2);
    }

    #[test]
    fn signal_threshold_defaults_to_that_of_the_link() {
        for (params, closes) in [("", false), ("rss_threshold_dbm = -80", true), ("rss_threshold_dbm = -90.5", true)] {
            let mut b = bench(params);
            b.gateway.on_link(b.now, &LinkEvent::Threshold { dbm: -110.0, hysteresis: 0.0 });
            b.gateway.on_link(b.now, &LinkEvent::Signal(-95.0));
            assert_eq!(!sent(&mut b).is_empty(), closes, "{params}");
            b.gateway.on_link(b.now, &LinkEvent::Signal(-111.0));
            assert_eq!(!sent(&mut b).is_empty(), !closes, "{params}");
        }
    }
}
