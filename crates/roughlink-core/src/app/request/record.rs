//! What each side of a session counts, and the result that both give together.

use super::message::Message;
use crate::quantiles::DelayResult;
use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A limit that was passed, or what else ended a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The vehicle waited too long for a response (V2G_EVCC_Msg_Timeout).
    Message,
    /// No SessionSetupRes in time (V2G_EVCC_CommunicationSetup_Timeout).
    CommunicationSetup,
    /// The charger sent no SessionSetupRes in time (V2G_SECC_CommunicationSetup_Timeout).
    SeccCommunicationSetup,
    /// The charger's processing took too long (V2G_EVCC_Ongoing_Timeout).
    Ongoing,
    /// Likewise, its insulation test (V2G_EVCC_CableCheck_Timeout).
    CableCheck,
    /// Likewise, its matching of the voltage (V2G_EVCC_PreCharge_Timeout).
    #[serde(rename = "precharge")]
    PreCharge,
    /// The charger waited too long for a request (V2G_SECC_Sequence_Timeout).
    Sequence,
    /// The charger got a request that is not allowed now.
    SequenceError,
    /// The discovery datagrams were not answered.
    Discovery,
    /// TCP gave up, was reset, or was closed by the peer before its time.
    Connection,
    /// What a peer outside the network sent is no message, or not the answer to the last request.
    Protocol,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was under way when the scenario ended.
    #[default]
    Running,
    /// SessionStop was answered.
    Completed,
    /// A side ended it because a limit was passed.
    Aborted,
    /// It could not go on: no charger found, wrong order, no connection.
    Failed,
}

/// When, how and why.
type End = (Time, Outcome, Option<Cause>);

/// What one side records.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// How and why the session ended for it.
    end: Option<End>,
    /// SessionSetupRes arrived, or left.
    pub setup: Option<Time>,
    /// SDP requests that it sent, or got.
    pub discovery_tries: u32,
    pub sequence_errors: u64,
    pub slow_responses: u64,
    violations: Vec<(Time, Cause, Option<Message>)>,
    /// In the order of [`Message::ALL`].
    messages: [MessageRecord; Message::ALL.len()],
}

#[derive(Clone, Debug, Default)]
struct MessageRecord {
    requests: u64,
    responses: u64,
    latencies: Vec<Time>,
}

impl Record {
    pub(super) fn request(&mut self, m: Message) {
        self.messages[m as usize].requests += 1;
    }
    /// A response arrived, or left; the vehicle knows how long it took.
    pub(super) fn response(&mut self, m: Message, latency: Option<Time>) {
        let message = &mut self.messages[m as usize];
        message.responses += 1;
        message.latencies.extend(latency);
    }
    /// A limit was passed; `m` is the message concerned, if there is one. Violations after the end are ignored.
    pub(super) fn violation(&mut self, now: Time, cause: Cause, m: Option<Message>) {
        if self.end.is_none() {
            self.violations.push((now, cause, m));
        }
    }
    /// The session ends; only its first end counts.
    pub(super) fn end(&mut self, now: Time, outcome: Outcome, cause: Option<Cause>) {
        self.end.get_or_insert((now, outcome, cause));
    }
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Memory of latencies and violations.
    pub(super) fn bytes(&self) -> usize {
        let latencies = self.messages.iter().map(|m| m.latencies.capacity() * size_of::<Time>()).sum::<usize>();
        latencies + self.violations.capacity() * size_of::<(Time, Cause, Option<Message>)>()
    }
}

/// The result of a session that began at `start`, from what the vehicle and the charger recorded; one that is outside the
/// network recorded nothing.
pub(super) fn join(start: Time, records: [Option<&Record>; 2]) -> SessionResult {
    let [vehicle, charger] = records;
    // The first end of the two counts, and what either noticed before it. At the same instant the loss of the connection
    // follows from the other end; else the vehicle's counts.
    let ends = records.map(|r| r?.end);
    let follows = |cause| matches!(cause, Some(Cause::Connection | Cause::Discovery));
    let end = ends.into_iter().flatten().min_by_key(|end| (end.0, follows(end.2)));
    let violations = records.into_iter().enumerate().flat_map(|(side, r)| {
        // A discovery fails after what was due at that instant.
        let last = |end: &End| end.2 == Some(Cause::Discovery);
        let before = move |at: Time| {
            ends[1 - side].is_none_or(|end| (at, side) < (end.0, 1 - side) || (at == end.0 && last(&end)))
        };
        r.into_iter().flat_map(|r| &r.violations).filter(move |v| before(v.0))
    });
    let mut counts = BTreeMap::<Cause, u64>::new();
    let mut late = BTreeMap::<Message, u64>::new();
    let mut first = None;
    for &(at, cause, message) in violations {
        *counts.entry(cause).or_default() += 1;
        message.into_iter().for_each(|m| *late.entry(m).or_default() += 1);
        first = Some(first.map_or(at, |first: Time| first.min(at)));
    }
    let main = vehicle.or(charger).cloned().unwrap_or_default();
    let used = Message::ALL.into_iter().zip(main.messages).filter(|(_, r)| r.requests > 0);
    let messages = used.map(|(message, mut r)| {
        r.latencies.sort_unstable();
        MessageResult {
            message,
            requests: r.requests,
            count: r.responses,
            latency_ms: DelayResult::of(&r.latencies),
            violations: late.get(&message).copied().unwrap_or(0),
        }
    });
    let outcome = end.map_or(Outcome::Running, |end| end.1);
    SessionResult {
        outcome,
        cause: end.and_then(|end| end.2),
        survived: matches!(outcome, Outcome::Running | Outcome::Completed),
        end_s: end.map(|end| end.0.as_secs_f64()),
        setup_ms: main.setup.map(|t| (t - start).as_millis_f64()),
        discovery_tries: main.discovery_tries,
        violations: counts,
        first_violation_s: first.map(Time::as_secs_f64),
        sequence_errors: charger.or(vehicle).map_or(0, |r| r.sequence_errors),
        slow_responses: charger.map_or(0, |r| r.slow_responses),
        messages: messages.collect(),
    }
}

/// The result of a charging session, put together from what both sides recorded. A field without samples is null. Of a side
/// outside the network there is what the other one sees: with the vehicle outside, messages are those that reached the charger
/// and their latencies are not known; with the charger outside, nothing is known of its limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionResult {
    /// How it ended.
    pub outcome: Outcome,
    /// Why, unless it completed or still runs.
    pub cause: Option<Cause>,
    /// It completed or still runs.
    pub survived: bool,
    /// When it ended, s since the start of the scenario.
    pub end_s: Option<f64>,
    /// From the session's start to SessionSetupRes at the vehicle, ms; if that is outside, to its departure.
    pub setup_ms: Option<f64>,
    /// SDP requests sent; with the vehicle outside, those that arrived.
    pub discovery_tries: u32,
    /// Limits passed, by limit.
    pub violations: BTreeMap<Cause, u64>,
    /// When the first was passed, s since the start of the scenario; `abort` would have ended the session then.
    pub first_violation_s: Option<f64>,
    /// Requests that the charger refused because of their order; with the charger outside, refusals that arrived.
    pub sequence_errors: u64,
    /// Responses that the charger gave later than its performance time; this never ends a session.
    pub slow_responses: u64,
    /// By message, those that were used.
    pub messages: Vec<MessageResult>,
}

impl SessionResult {
    /// The message of the charging loop, if the session came that far.
    pub fn charging_loop(&self) -> Option<&MessageResult> {
        self.messages.iter().find(|m| matches!(m.message, Message::CurrentDemand | Message::ChargingStatus))
    }
    /// Limits passed, all together.
    pub fn violations(&self) -> u64 {
        self.violations.values().sum()
    }
}

/// Statistics of one kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageResult {
    /// The message.
    pub message: Message,
    /// Requests sent.
    pub requests: u64,
    /// Requests answered.
    pub count: u64,
    /// From writing the request to having read the response, at the vehicle; exact quantiles.
    pub latency_ms: Option<DelayResult>,
    /// Responses later than the message's time-out.
    pub violations: u64,
}
