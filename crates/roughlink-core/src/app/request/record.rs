//! Records of each side of a session, and the result formed from both.

use super::message::V2gMessage;
use crate::quantiles::DelayResult;
use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Violated limit or other cause that ended a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// The vehicle waited too long for a response (V2G_EVCC_Msg_Timeout).
    Message,
    /// SessionSetupRes did not arrive in time (V2G_EVCC_CommunicationSetup_Timeout).
    CommunicationSetup,
    /// The charger did not send SessionSetupRes in time (V2G_SECC_CommunicationSetup_Timeout).
    SeccCommunicationSetup,
    /// The charger's processing took too long (V2G_EVCC_Ongoing_Timeout).
    Ongoing,
    /// The charger's insulation test took too long (V2G_EVCC_CableCheck_Timeout).
    CableCheck,
    /// The charger's voltage matching took too long (V2G_EVCC_PreCharge_Timeout).
    #[serde(rename = "precharge")]
    PreCharge,
    /// The charger waited too long for a request (V2G_SECC_Sequence_Timeout).
    Sequence,
    /// The charger got a request that is not allowed at this point.
    SequenceError,
    /// Discovery datagrams were not answered.
    Discovery,
    /// TCP gave up, was reset, or was closed by the peer too early.
    Connection,
    /// A peer outside the network sent data that is not a message, or not the answer to the last request.
    Protocol,
}

/// Outcome of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionOutcome {
    /// Still running when the scenario ended.
    #[default]
    Running,
    /// SessionStop was answered.
    Completed,
    /// Ended by a side because a limit was violated.
    Aborted,
    /// Could not continue: no charger found, wrong order, no connection.
    Failed,
}

type SessionEnd = (Time, SessionOutcome, Option<EndCause>);

#[derive(Clone, Debug, Default)]
pub(super) struct SideRecord {
    end: Option<SessionEnd>,
    /// Time at which SessionSetupRes arrived or left.
    pub setup: Option<Time>,
    /// SDP requests sent or received.
    pub discovery_tries: u32,
    pub sequence_errors: u64,
    pub slow_responses: u64,
    violations: Vec<(Time, EndCause, Option<V2gMessage>)>,
    /// Records in the order of [`V2gMessage::ALL`].
    messages: [MessageRecord; V2gMessage::ALL.len()],
}

#[derive(Clone, Debug, Default)]
struct MessageRecord {
    requests: u64,
    responses: u64,
    latencies: Vec<Time>,
}

impl SideRecord {
    pub(super) fn request(&mut self, m: V2gMessage) {
        self.messages[m as usize].requests += 1;
    }
    /// Counts a response that arrived or left; only the vehicle has a latency.
    pub(super) fn response(&mut self, m: V2gMessage, latency: Option<Time>) {
        let message = &mut self.messages[m as usize];
        message.responses += 1;
        message.latencies.extend(latency);
    }
    /// Counts a violated limit; `m` is the message concerned, if any. Violations after the end are ignored.
    pub(super) fn violation(&mut self, now: Time, cause: EndCause, m: Option<V2gMessage>) {
        if self.end.is_none() {
            self.violations.push((now, cause, m));
        }
    }
    /// Ends the session; only the first end counts.
    pub(super) fn end(&mut self, now: Time, outcome: SessionOutcome, cause: Option<EndCause>) {
        self.end.get_or_insert((now, outcome, cause));
    }
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Returns the memory of latencies and violations.
    pub(super) fn bytes(&self) -> usize {
        let latencies = self.messages.iter().map(|m| m.latencies.capacity() * size_of::<Time>()).sum::<usize>();
        latencies + self.violations.capacity() * size_of::<(Time, EndCause, Option<V2gMessage>)>()
    }
}

/// Forms the result of a session that began at `start`; a side outside the network has no record.
pub(super) fn join(start: Time, records: [Option<&SideRecord>; 2]) -> SessionResult {
    let [vehicle, charger] = records;
    // The session ends when the first side ends it; violations recorded before that count. If both sides end at the
    // same instant, a lost connection is the consequence of the other side's end; otherwise the vehicle's end counts.
    let ends = records.map(|r| r?.end);
    let follows = |cause| matches!(cause, Some(EndCause::Connection | EndCause::Discovery));
    let end = ends.into_iter().flatten().min_by_key(|end| (end.0, follows(end.2)));
    let violations = records.into_iter().enumerate().flat_map(|(side, r)| {
        // A failed discovery comes after the other events of the same instant.
        let last = |end: &SessionEnd| end.2 == Some(EndCause::Discovery);
        let before = move |at: Time| {
            ends[1 - side].is_none_or(|end| (at, side) < (end.0, 1 - side) || (at == end.0 && last(&end)))
        };
        r.into_iter().flat_map(|r| &r.violations).filter(move |v| before(v.0))
    });
    let mut counts = BTreeMap::<EndCause, u64>::new();
    let mut late = BTreeMap::<V2gMessage, u64>::new();
    let mut first = None;
    for &(at, cause, message) in violations {
        *counts.entry(cause).or_default() += 1;
        message.into_iter().for_each(|m| *late.entry(m).or_default() += 1);
        first = Some(first.map_or(at, |first: Time| first.min(at)));
    }
    let main = vehicle.or(charger).cloned().unwrap_or_default();
    let used = V2gMessage::ALL.into_iter().zip(main.messages).filter(|(_, r)| r.requests > 0);
    let messages = used.map(|(message, mut r)| {
        r.latencies.sort_unstable();
        MessageResult {
            message,
            requests: r.requests,
            count: r.responses,
            latency_ms: DelayResult::from_sorted(&r.latencies),
            violations: late.get(&message).copied().unwrap_or(0),
        }
    });
    let outcome = end.map_or(SessionOutcome::Running, |end| end.1);
    SessionResult {
        outcome,
        cause: end.and_then(|end| end.2),
        survived: match outcome {
            SessionOutcome::Completed => true,
            SessionOutcome::Running => main.setup.is_some(),
            SessionOutcome::Aborted | SessionOutcome::Failed => false,
        },
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

/// Result of a charging session, formed from the records of both sides. A field without samples is null. If a side is
/// outside the network, the result has only the record of the other side. With the vehicle outside, messages are those
/// that reached the charger, and latencies are unknown. With the charger outside, its limits are unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionResult {
    /// Outcome.
    pub outcome: SessionOutcome,
    /// Cause, unless it completed or still runs.
    pub cause: Option<EndCause>,
    /// True if it completed, or was set up and still runs.
    pub survived: bool,
    /// End, s since the start of the scenario.
    pub end_s: Option<f64>,
    /// Time from the session's start to SessionSetupRes at the vehicle, ms; with the vehicle outside, to the departure
    /// of SessionSetupRes.
    pub setup_ms: Option<f64>,
    /// SDP requests sent; with the vehicle outside, those received.
    pub discovery_tries: u32,
    /// Violations by limit.
    pub violations: BTreeMap<EndCause, u64>,
    /// Time of the first violation, s since the start of the scenario; `abort` would have ended the session then.
    pub first_violation_s: Option<f64>,
    /// Requests that the charger refused because of their order; with the charger outside, refusals received.
    pub sequence_errors: u64,
    /// Responses later than the charger's performance time; these never end a session.
    pub slow_responses: u64,
    /// Statistics of the messages used.
    pub messages: Vec<MessageResult>,
}

impl SessionResult {
    /// Returns the message of the charging loop, if the session reached it.
    pub fn charging_loop(&self) -> Option<&MessageResult> {
        self.messages.iter().find(|m| matches!(m.message, V2gMessage::CurrentDemand | V2gMessage::ChargingStatus))
    }
    /// Returns true if the session was not set up by the end of the run.
    pub fn never_began(&self) -> bool {
        self.outcome == SessionOutcome::Running && self.setup_ms.is_none()
    }
    /// Returns the number of violated limits.
    pub fn violations(&self) -> u64 {
        self.violations.values().sum()
    }
}

/// Statistics of one kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageResult {
    /// Message.
    pub message: V2gMessage,
    /// Requests sent.
    pub requests: u64,
    /// Requests answered.
    pub count: u64,
    /// Time from writing the request until the vehicle has read the response; exact quantiles.
    pub latency_ms: Option<DelayResult>,
    /// Responses later than the message's timeout.
    pub violations: u64,
}
