//! Charger's side: responses, in order and in time.

use super::evcc::expire;
use super::message::{Document, Response, SDP_RESPONSE, V2gMessage};
use super::record::{EndCause, SessionOutcome, SideRecord};
use super::v2gtp::{OutgoingMessages, V2gtpReader};
use super::{LimitPolicy, SessionConfig};
use crate::app::dialogue::Action;
use crate::link::jitter::jittered;
use crate::rng::RandomStream;
use crate::units::Time;

/// Supply equipment communication controller.
#[derive(Clone, Debug)]
pub(super) struct Secc {
    /// Last allowed request, and the time at which the vehicle first sent it; repetitions do not change this time.
    last: Option<V2gMessage>,
    since: Time,
    found_at: Time,
    /// Current response and the time at which it is ready.
    answer: Option<(Time, Response)>,
    setup_by: Time,
    stream: RandomStream,
    /// Time after which the next request is late.
    request_by: Time,
    end: StreamEnd,
    pub written: OutgoingMessages,
    /// Reader of the stream of a vehicle outside the network.
    pub reader: V2gtpReader,
    pub record: SideRecord,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamEnd {
    Open,
    Closing,
    Closed,
}

impl Secc {
    pub(super) fn new(cfg: &SessionConfig, start: Time, stream: RandomStream) -> Self {
        Secc {
            stream,
            last: None,
            since: start,
            found_at: Time::MAX,
            answer: None,
            setup_by: start.saturating_add(cfg.limits.secc_communication_setup),
            request_by: Time::MAX,
            end: StreamEnd::Open,
            written: OutgoingMessages::default(),
            reader: V2gtpReader::default(),
            record: SideRecord::default(),
        }
    }

    pub(super) fn next_wake(&self) -> Time {
        if self.end != StreamEnd::Open {
            return Time::MAX;
        }
        let answer = self.answer.map_or(Time::MAX, |a| a.0);
        answer.min(self.found_at).min(self.setup_by).min(self.request_by)
    }

    pub(super) fn wake(&mut self, now: Time, cfg: &SessionConfig) {
        if expire(&mut self.setup_by, now) {
            self.violate(now, EndCause::SeccCommunicationSetup, cfg);
        }
        if expire(&mut self.request_by, now) {
            self.violate(now, EndCause::Sequence, cfg);
        }
    }

    pub(super) fn on_datagram(&mut self, now: Time, cfg: &SessionConfig) {
        self.record.discovery_tries += 1;
        self.found_at = self.found_at.min(now + cfg.turnaround);
    }

    pub(super) fn on_request(&mut self, now: Time, m: V2gMessage, cfg: &SessionConfig) {
        self.wake(now, cfg);
        if self.end != StreamEnd::Open {
            return;
        }
        self.request_by = Time::MAX;
        self.record.request(m);
        if self.answer.is_some() {
            return self.fail(now, EndCause::Protocol); // a vehicle must wait for the response before the next request
        }
        let in_sequence = m.may_follow(self.last);
        if in_sequence {
            if self.last != Some(m) {
                self.since = now;
            }
            self.last = Some(m);
        } else {
            self.record.sequence_errors += 1;
        }
        let due = self.turnaround(now, m, cfg);
        if due - now > cfg.message(m).performance {
            self.record.slow_responses += 1;
        }
        let finished = now - self.since >= cfg.processing(m);
        self.answer = Some((due, Response { message: m, finished, in_sequence }));
    }

    /// Returns when the response to a request that arrives at `now` is due.
    fn turnaround(&mut self, now: Time, m: V2gMessage, cfg: &SessionConfig) -> Time {
        let (delay, jitter, distribution) = cfg.turnaround(m);
        let due = now.saturating_add(delay);
        if jitter.is_zero() { due } else { jittered(&mut self.stream, (due, delay), jitter, distribution).max(now) }
    }

    pub(super) fn transmit(&mut self, now: Time, cfg: &SessionConfig) -> Option<Action> {
        if self.end == StreamEnd::Closing {
            self.end = StreamEnd::Closed;
            return Some(Action::Close);
        }
        if self.end == StreamEnd::Closed {
            return None;
        }
        if expire(&mut self.found_at, now) {
            return Some(Action::Datagram(SDP_RESPONSE));
        }
        let (_, response) = self.answer.take_if(|a| a.0 <= now)?;
        let m = response.message;
        if m == V2gMessage::SessionSetup {
            self.setup_by = Time::MAX;
            self.record.setup = Some(now);
        }
        if m != V2gMessage::SessionStop {
            self.request_by = now.saturating_add(cfg.limits.sequence);
        }
        if !response.in_sequence {
            self.fail(now, EndCause::SequenceError); // closes after sending this
        }
        self.record.response(m, None);
        self.written.write(cfg.message(m).response, Document::Response(response));
        Some(Action::Write(u64::from(cfg.message(m).response)))
    }

    /// Processes the close by the vehicle, the normal end of a session after SessionStop.
    pub(super) fn on_closed(&mut self, now: Time) {
        if self.end == StreamEnd::Open && self.last == Some(V2gMessage::SessionStop) && self.answer.is_none() {
            self.end = StreamEnd::Closing;
            self.record.end(now, SessionOutcome::Completed, None);
        } else {
            self.fail(now, EndCause::Connection);
        }
    }

    /// Ends the session because it cannot continue: the connection was lost, or the vehicle's data is not a message.
    pub(super) fn fail(&mut self, now: Time, cause: EndCause) {
        if self.end == StreamEnd::Open {
            self.end = StreamEnd::Closing;
            self.record.end(now, SessionOutcome::Failed, Some(cause));
        }
    }

    fn violate(&mut self, now: Time, cause: EndCause, cfg: &SessionConfig) {
        if self.end != StreamEnd::Open {
            return;
        }
        self.record.violation(now, cause, None);
        if cfg.policy == LimitPolicy::Abort {
            self.end = StreamEnd::Closing;
            self.record.end(now, SessionOutcome::Aborted, Some(cause));
        }
    }
}
