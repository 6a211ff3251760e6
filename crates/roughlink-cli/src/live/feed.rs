//! Events for viewers: a description of the emulation and the last minute's samples, then new samples, then the result.

use super::request::{DELAYS, RATES};
use axum::response::sse::Event;
use futures_util::stream::{Stream, unfold};
use roughlink_core::link::{Model, SharedConfig};
use roughlink_core::net::{LinkChange, LinkReading};
use roughlink_core::scenario::{LinkSpec, NodeSpec, Scenario};
use roughlink_core::units::{Rate, Time};
use roughlink_host::conversations::ConversationResult;
use roughlink_host::{EmulationSample, INTERVAL, Lateness, Live};
use serde::Serialize;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender, channel};
use tokio::time::{MissedTickBehavior, interval};

pub(super) struct Feed {
    live: Arc<Live>,
    /// Description of the emulation in JSON.
    start: String,
    past: Mutex<History>,
    news: Mutex<Option<Sender<News>>>,
    viewers: AtomicUsize,
}

/// Samples of the last minute, oldest first.
#[derive(Default)]
struct History {
    samples: VecDeque<Arc<str>>,
    bytes: usize,
    /// Number of the emulation's samples that were fetched.
    seen: u64,
}

#[derive(Clone, Debug)]
enum News {
    Sample(Arc<str>),
    End(Arc<str>),
}

impl Feed {
    pub(super) fn new(live: Arc<Live>) -> Self {
        let start = json(&StartMessage::new(live.scenario()));
        let news = Mutex::new(Some(channel(WAITING).0));
        Feed { live, start, past: Mutex::default(), news, viewers: AtomicUsize::new(0) }
    }

    pub(super) fn live(&self) -> &Live {
        &self.live
    }

    /// Fetches samples until this future is dropped.
    pub(super) async fn run(self: Arc<Self>) {
        let mut ticks = interval(Duration::from_nanos(INTERVAL.0 / 2));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.fetch();
        }
    }

    fn fetch(&self) {
        let new = self.live.samples(&mut lock(&self.past).seen);
        for sample in new {
            let text: Arc<str> = json(&SampleMessage::new(&sample)).into();
            lock(&self.past).add(Arc::clone(&text));
            self.send(News::Sample(text));
        }
    }

    fn send(&self, news: News) {
        if let Some(sender) = &*lock(&self.news) {
            let _ = sender.send(news); // fails if there are no viewers
        }
    }

    /// Sends the last samples, and the last event if there is one, and ends all streams.
    pub(super) fn finish(&self, last: Option<String>) {
        self.fetch();
        if let Some(last) = last {
            self.send(News::End(last.into()));
        }
        lock(&self.news).take();
    }

    /// Returns the events for a new viewer; `None` if there are too many viewers or the streams have ended.
    pub(super) fn view(self: &Arc<Self>) -> Option<impl Stream<Item = Result<Event, Infallible>> + use<>> {
        let viewer = Viewer::new(self)?;
        let news = lock(&self.news).as_ref()?.subscribe();
        let past = lock(&self.past).samples.iter().map(|s| &**s).collect::<Vec<_>>().join(",");
        let first = format!("{{\"scenario\":{},\"past\":[{past}]}}", self.start);
        let first = Event::default().event("start").data(first);
        Some(unfold((Some(first), news, viewer), |(first, mut news, viewer)| async move {
            let event = match first {
                Some(first) => first,
                None => next(&mut news).await?,
            };
            Some((Ok(event), (None, news, viewer)))
        }))
    }
}

/// Returns the next event for a viewer. Skips samples that the viewer was too slow to receive.
async fn next(news: &mut Receiver<News>) -> Option<Event> {
    loop {
        match news.recv().await {
            Ok(News::Sample(text)) => return Some(Event::default().event("sample").data(text)),
            Ok(News::End(text)) => return Some(Event::default().event("end").data(text)),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return None,
        }
    }
}

impl History {
    fn add(&mut self, sample: Arc<str>) {
        self.bytes += sample.len();
        self.samples.push_back(sample);
        while self.samples.len() > MAX_PAST || self.bytes > MAX_PAST_BYTES {
            let Some(oldest) = self.samples.pop_front() else { return };
            self.bytes -= oldest.len();
        }
    }
}

/// Viewer, which counts until it is dropped.
struct Viewer(Arc<Feed>);

impl Viewer {
    fn new(feed: &Arc<Feed>) -> Option<Self> {
        let viewer = Viewer(Arc::clone(feed));
        (feed.viewers.fetch_add(1, Ordering::Relaxed) < MAX_VIEWERS).then_some(viewer)
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.0.viewers.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain values")
}

/// Returns the last event: the result, and the changes in scenario syntax.
pub(super) fn last(result: &impl Serialize, timeline: &str) -> String {
    json(&serde_json::json!({ "result": result, "timeline": timeline }))
}

#[derive(Serialize)]
struct StartMessage<'s> {
    name: &'s str,
    interval_ms: f64,
    links: Vec<LinkDescription<'s>>,
    rate_bps: [u64; 2],
    delay_ms: [f64; 2],
}

#[derive(Serialize)]
struct LinkDescription<'s> {
    name: &'s str,
    from: &'s str,
    to: &'s str,
    kind: &'static str,
    /// True for each direction whose rate can be changed.
    rate: [bool; 2],
    /// True if the other properties can be changed.
    other: bool,
}

impl<'s> StartMessage<'s> {
    fn new(scenario: &'s Scenario) -> Self {
        StartMessage {
            name: &scenario.name,
            interval_ms: INTERVAL.as_millis_f64(),
            links: scenario.links.iter().map(|link| LinkDescription::new(link, &scenario.nodes)).collect(),
            rate_bps: [RATES.start().0, RATES.end().0],
            delay_ms: [DELAYS.start().as_millis_f64(), DELAYS.end().as_millis_f64()],
        }
    }
}

impl<'s> LinkDescription<'s> {
    fn new(spec: &'s LinkSpec, nodes: &'s [NodeSpec]) -> Self {
        let can = |change: LinkChange, directions| change.check(&spec.model, directions).is_ok();
        let rate = |directions| can(LinkChange { rate: Some(Rate::from_mbps(1)), ..LinkChange::default() }, directions);
        LinkDescription {
            name: &spec.name,
            from: &nodes[spec.between.0].name,
            to: &nodes[spec.between.1].name,
            kind: match &spec.model {
                Model::Pipe(_) => "pipe",
                Model::Shared(SharedConfig::Hdplc(_)) => "hdplc",
                Model::Shared(SharedConfig::GreenPhy(_)) => "greenphy",
            },
            rate: [rate([true, false]), rate([false, true])],
            other: can(LinkChange { delay: Some(Time::ZERO), ..LinkChange::default() }, [true; 2]),
        }
    }
}

/// Sample of the emulation; counts are totals.
#[derive(Serialize)]
struct SampleMessage {
    t_s: f64,
    links: Vec<[DirectionReading; 2]>,
    conversations: Vec<ConversationMessage>,
    lateness_us: Option<Lateness>,
}

#[derive(Serialize)]
struct DirectionReading {
    up: bool,
    rate_bps: u64,
    delay_ms: f64,
    loss: Option<f64>,
    waiting: usize,
    packets: u64,
    bytes: u64,
    dropped: u64,
    lost: u64,
}

/// Conversation. Arrays have the value of the direction from `from` to `to` first, and then the reverse direction's.
#[derive(Serialize)]
struct ConversationMessage {
    protocol: String,
    from: String,
    to: String,
    delivered_bytes: [Option<u64>; 2],
    srtt_ms: [Option<f64>; 2],
    retransmits: [Option<u64>; 2],
    in_flight: [Option<u64>; 2],
    lost: [Option<u64>; 2],
}

impl ConversationMessage {
    fn new(conversation: &ConversationResult) -> Self {
        let ConversationResult { protocol, from, to, forward, reverse, .. } = conversation;
        let ways = [forward, reverse];
        ConversationMessage {
            protocol: protocol.clone(),
            from: from.clone(),
            to: to.clone(),
            delivered_bytes: ways.map(|way| way.delivered_bytes),
            srtt_ms: ways.map(|way| way.srtt_ms),
            retransmits: ways.map(|way| way.retransmits),
            in_flight: ways.map(|way| way.in_flight),
            lost: ways.map(|way| way.lost),
        }
    }
}

impl SampleMessage {
    fn new(sample: &EmulationSample) -> Self {
        SampleMessage {
            t_s: sample.at.as_secs_f64(),
            links: sample.links.iter().map(|both| both.map(DirectionReading::new)).collect(),
            conversations: sample.achieved.conversations.iter().map(ConversationMessage::new).collect(),
            lateness_us: sample.lateness,
        }
    }
}

impl DirectionReading {
    fn new(reading: LinkReading) -> Self {
        let LinkReading { up, rate, delay, loss, waiting, packets, bytes, dropped, lost } = reading;
        let (rate_bps, delay_ms) = (rate.0, delay.as_millis_f64());
        DirectionReading { up, rate_bps, delay_ms, loss, waiting, packets, bytes, dropped, lost }
    }
}

pub(super) const MAX_VIEWERS: usize = 16;
/// Number of events kept for a slow viewer.
const WAITING: usize = 32;
/// Number of samples for a new viewer: one minute.
const MAX_PAST: usize = (60_000_000_000 / INTERVAL.0) as usize;
/// Maximum size of these samples, bytes.
const MAX_PAST_BYTES: usize = 4 << 20;
