//! The counters of a session, and its result.

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

/// What both sides record.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub outcome: Outcome,
    pub cause: Option<Cause>,
    pub end: Option<Time>,
    pub setup: Option<Time>,
    pub discovery_tries: u32,
    pub sequence_errors: u64,
    pub slow_responses: u64,
    violations: BTreeMap<Cause, u64>,
    first_violation: Option<Time>,
    messages: BTreeMap<Message, MessageRecord>,
}

#[derive(Clone, Debug, Default)]
struct MessageRecord {
    requests: u64,
    latencies: Vec<Time>,
    violations: u64,
}

impl Record {
    pub(super) fn request(&mut self, m: Message) {
        self.messages.entry(m).or_default().requests += 1;
    }
    pub(super) fn response(&mut self, m: Message, latency: Time) {
        self.messages.entry(m).or_default().latencies.push(latency);
    }
    /// A limit was passed; `m` is the message concerned, if there is one. Violations after the end are ignored.
    pub(super) fn violation(&mut self, now: Time, cause: Cause, m: Option<Message>) {
        if self.end.is_some() {
            return;
        }
        *self.violations.entry(cause).or_default() += 1;
        self.first_violation.get_or_insert(now);
        if let Some(m) = m {
            self.messages.entry(m).or_default().violations += 1;
        }
    }
    /// The session ends; only its first end counts.
    pub(super) fn end(&mut self, now: Time, outcome: Outcome, cause: Option<Cause>) {
        if self.end.is_none() {
            (self.outcome, self.cause, self.end) = (outcome, cause, Some(now));
        }
    }

    /// Memory of the latencies.
    pub(super) fn bytes(&self) -> usize {
        self.messages.values().map(|m| m.latencies.capacity() * size_of::<Time>()).sum()
    }

    /// The result of a session that began at `start`.
    pub(super) fn result(&self, start: Time) -> SessionResult {
        let messages = self.messages.iter().map(|(&message, r)| {
            let mut sorted = r.latencies.clone();
            sorted.sort_unstable();
            MessageResult {
                message,
                requests: r.requests,
                count: sorted.len() as u64,
                latency_ms: DelayResult::of(&sorted),
                violations: r.violations,
            }
        });
        SessionResult {
            outcome: self.outcome,
            cause: self.cause,
            survived: matches!(self.outcome, Outcome::Running | Outcome::Completed),
            end_s: self.end.map(Time::as_secs_f64),
            setup_ms: self.setup.map(|t| (t - start).as_millis_f64()),
            discovery_tries: self.discovery_tries,
            violations: self.violations.clone(),
            first_violation_s: self.first_violation.map(Time::as_secs_f64),
            sequence_errors: self.sequence_errors,
            slow_responses: self.slow_responses,
            messages: messages.collect(),
        }
    }
}

/// The result of a charging session. A field without samples is null.
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
    /// From the session's start to SessionSetupRes, ms.
    pub setup_ms: Option<f64>,
    /// SDP requests sent.
    pub discovery_tries: u32,
    /// Limits passed, by limit.
    pub violations: BTreeMap<Cause, u64>,
    /// When the first was passed, s since the start of the scenario; `abort` would have ended the session then.
    pub first_violation_s: Option<f64>,
    /// Requests that the charger refused because of their order.
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
