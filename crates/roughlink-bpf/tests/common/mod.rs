//! A congestion control that records its events in the format of the kernel's programs.

use roughlink_bpf::event::{EventKind, EventRecord};
use roughlink_core::cc::{
    Ack, Algorithm, AlgorithmTrace, BuildAlgorithm, Congestion, CongestionControl, CongestionState, Flow, Permit,
    REGISTRY, Sent,
};
use roughlink_core::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Parameters of [`Recorded`].
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Name of the recorded algorithm.
    pub inner: String,
    /// Parameters of the recorded algorithm.
    #[schemars(with = "BTreeMap<String, String>")]
    pub params: toml::Table,
}

thread_local! {
    static STREAM: RefCell<Vec<EventRecord>> = const { RefCell::new(Vec::new()) };
    static CONNECTIONS: Cell<u32> = const { Cell::new(0) };
}

/// An algorithm that records the events of all connections of this thread.
#[derive(Debug)]
pub struct Recorded {
    inner: Box<dyn CongestionControl>,
    connection: u32,
}

impl Recorded {
    /// Registers the algorithm as `recorded`.
    pub fn register() {
        let entry = Algorithm::new::<Recorded>("recorded", "another algorithm, recorded", "a test");
        drop(REGISTRY.add(entry)); // Fails if another test was first.
    }

    /// Returns the events that this thread recorded since the last call.
    pub fn take() -> Vec<EventRecord> {
        STREAM.take()
    }

    fn note(&self, flow: &Flow, kind: EventKind, more: impl FnOnce(&mut EventRecord)) {
        let mss = u64::from(flow.mss);
        let mut e = EventRecord {
            now_us: flow.now.as_micros(),
            connection: self.connection,
            mss: flow.mss,
            cwnd: (flow.initial_window / mss) as u32,
            ssthresh: u32::try_from(flow.initial_ssthresh / mss).unwrap_or(u32::MAX),
            in_flight: (flow.in_flight / mss) as u32,
            snd_una: flow.snd_una as u32,
            snd_nxt: flow.snd_nxt as u32,
            srtt_us: flow.srtt.as_micros() as u32,
            total_delivered: (flow.delivered / mss) as u32,
            state: numbered(flow.state),
            ..EventRecord::new(kind)
        };
        more(&mut e);
        STREAM.with_borrow_mut(|stream| stream.push(e));
    }
}

/// Number of `state` in Linux (`enum tcp_ca_state`).
pub fn numbered(state: CongestionState) -> u8 {
    match state {
        CongestionState::Open => 0,
        CongestionState::Disorder => 1,
        CongestionState::Cwr => 2,
        CongestionState::Recovery => 3,
        CongestionState::Loss => 4,
    }
}

impl BuildAlgorithm for Recorded {
    type Params = Params;
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        let factory = REGISTRY.find(&params.inner).expect("a name").factory("linux", &params.params).expect("valid");
        CONNECTIONS.set(CONNECTIONS.get() + 1);
        let made = Recorded { inner: factory(flow), connection: CONNECTIONS.get() };
        made.note(flow, EventKind::Opened, |_| ());
        made
    }
}

impl CongestionControl for Recorded {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        self.note(flow, EventKind::Ack, |e| {
            e.rtt_us = ack.rtt.map_or(-1, |t| t.as_micros() as i32);
            e.acked = ack.acked as u32;
            e.segments = ack.segments;
            e.may_grow = ack.may_grow;
            e.ecn_echo = ack.ecn_echo;
            e.delivered = ack.delivered as u32;
            if let Some(rate) = ack.rate {
                // Whole segments and microseconds, as in the kernel.
                let segments = |bytes: u64| (bytes / u64::from(flow.mss)) as u32;
                e.sampled = (segments(flow.delivered) - segments(rate.prior_delivered)).cast_signed();
                e.interval_us = rate.interval.as_micros() as u32;
                e.losses = segments(rate.losses);
                e.app_limited = rate.app_limited;
            }
        });
        self.inner.on_ack(flow, ack);
        // The kernel samples the last delivered segment unless it was ever retransmitted.
        let sent = ack.rate.filter(|rate| !rate.retransmitted).map(|rate| rate.sent_at);
        let rate = self.inner.trace().rate.filter(|rate| rate.as_bps() > 0);
        STREAM.with_borrow_mut(|stream| {
            if let (Some(e), Some(rate)) = (stream.last_mut(), rate) {
                e.rtt_us = sent.map_or(-1, |t| (flow.now - t).as_micros() as i32);
                e.pacing_rate = rate.bytes_per_sec();
            }
        });
    }
    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        let kind = match cause {
            Congestion::Timeout => EventKind::Timeout,
            Congestion::TimeoutAgain => EventKind::TimeoutAgain,
            _ => EventKind::Congestion,
        };
        self.note(flow, kind, |_| ());
        self.inner.on_congestion(flow, cause);
    }
    fn permit(&self, flow: &Flow) -> Permit {
        self.inner.permit(flow)
    }
    fn trace(&self) -> AlgorithmTrace {
        self.inner.trace()
    }
    fn on_sent(&mut self, flow: &Flow, sent: &Sent) {
        if sent.tx_start {
            self.note(flow, EventKind::Started, |e| {
                if !sent.retransmission {
                    e.snd_nxt = sent.seq as u32;
                }
            });
        }
        self.inner.on_sent(flow, sent);
    }
    fn least_burst(&self) -> u32 {
        self.inner.least_burst()
    }
    fn is_ack_clocked(&self) -> bool {
        self.inner.is_ack_clocked()
    }
    fn on_recovered(&mut self, flow: &Flow) {
        self.note(flow, EventKind::Recovered, |_| ());
        self.inner.on_recovered(flow);
    }
    fn on_undo(&mut self, flow: &Flow) {
        self.note(flow, EventKind::Undone, |_| ());
        self.inner.on_undo(flow);
    }
    fn on_timer(&mut self, flow: &Flow) {
        self.inner.on_timer(flow);
    }
    fn timer(&self) -> Option<Time> {
        self.inner.timer()
    }
}
