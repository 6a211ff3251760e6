//! Charger's side: responses, in order and in time.

use super::evcc::expire;
use super::message::{Document, Message, Response, SDP_RESPONSE};
use super::record::{Cause, Outcome, Record};
use super::v2gtp::Reader;
use super::{Action, Policy, SessionConfig, Written};
use crate::link::jitter::jittered;
use crate::rng::Stream;
use crate::units::Time;

/// Supply equipment communication controller.
#[derive(Clone, Debug)]
pub(super) struct Secc {
    /// Last allowed request, and the time since which this kind is requested.
    last: Option<Message>,
    since: Time,
    /// Time of the SDP response.
    found_at: Time,
    /// Current response and the time at which it is ready.
    answer: Option<(Time, Response)>,
    setup_by: Time,
    /// Random numbers of the turnaround.
    stream: Stream,
    /// Time after which the next request is late.
    request_by: Time,
    end: End,
    pub written: Written,
    /// Reader of the stream of a vehicle outside the network.
    pub reader: Reader,
    pub record: Record,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Closing,
    Closed,
}

impl Secc {
    pub(super) fn new(cfg: &SessionConfig, start: Time, stream: Stream) -> Self {
        Secc {
            stream,
            last: None,
            since: start,
            found_at: Time::MAX,
            answer: None,
            setup_by: start.saturating_add(cfg.limits.secc_communication_setup),
            request_by: Time::MAX,
            end: End::Open,
            written: Written::default(),
            reader: Reader::default(),
            record: Record::default(),
        }
    }

    pub(super) fn next_wake(&self) -> Time {
        if self.end != End::Open {
            return Time::MAX;
        }
        let answer = self.answer.map_or(Time::MAX, |a| a.0);
        answer.min(self.found_at).min(self.setup_by).min(self.request_by)
    }

    pub(super) fn wake(&mut self, now: Time, cfg: &SessionConfig) {
        if expire(&mut self.setup_by, now) {
            self.violate(now, Cause::SeccCommunicationSetup, cfg);
        }
        if expire(&mut self.request_by, now) {
            self.violate(now, Cause::Sequence, cfg);
        }
    }

    pub(super) fn on_datagram(&mut self, now: Time, cfg: &SessionConfig) {
        self.record.discovery_tries += 1;
        self.found_at = self.found_at.min(now + cfg.turnaround);
    }

    pub(super) fn on_request(&mut self, now: Time, m: Message, cfg: &SessionConfig) {
        self.wake(now, cfg);
        if self.end != End::Open {
            return;
        }
        self.request_by = Time::MAX;
        self.record.request(m);
        if self.answer.is_some() {
            return self.fail(now, Cause::Protocol); // a vehicle waits for the answer to its request
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
    fn turnaround(&mut self, now: Time, m: Message, cfg: &SessionConfig) -> Time {
        let (delay, jitter, distribution) = cfg.turnaround(m);
        let due = now.saturating_add(delay);
        if jitter.is_zero() { due } else { jittered(&mut self.stream, (due, delay), jitter, distribution).max(now) }
    }

    pub(super) fn transmit(&mut self, now: Time, cfg: &SessionConfig) -> Option<Action> {
        if self.end == End::Closing {
            self.end = End::Closed;
            return Some(Action::Close);
        }
        if self.end == End::Closed {
            return None;
        }
        if expire(&mut self.found_at, now) {
            return Some(Action::Datagram(SDP_RESPONSE));
        }
        let (_, response) = self.answer.take_if(|a| a.0 <= now)?;
        let m = response.message;
        if m == Message::SessionSetup {
            self.setup_by = Time::MAX;
            self.record.setup = Some(now);
        }
        if m != Message::SessionStop {
            self.request_by = now.saturating_add(cfg.limits.sequence);
        }
        if !response.in_sequence {
            self.fail(now, Cause::SequenceError); // closes after sending this
        }
        self.record.response(m, None);
        self.written.write(cfg.message(m).response, Document::Response(response));
        Some(Action::Write(cfg.message(m).response))
    }

    /// Processes the close by the vehicle, the normal end of a session after SessionStop.
    pub(super) fn on_closed(&mut self, now: Time) {
        if self.end == End::Open && self.last == Some(Message::SessionStop) && self.answer.is_none() {
            self.end = End::Closing;
            self.record.end(now, Outcome::Completed, None);
        } else {
            self.fail(now, Cause::Connection);
        }
    }

    /// Ends the session because it cannot continue: the connection was lost, or its data is not a message.
    pub(super) fn fail(&mut self, now: Time, cause: Cause) {
        if self.end == End::Open {
            self.end = End::Closing;
            self.record.end(now, Outcome::Failed, Some(cause));
        }
    }

    fn violate(&mut self, now: Time, cause: Cause, cfg: &SessionConfig) {
        if self.end != End::Open {
            return;
        }
        self.record.violation(now, cause, None);
        if cfg.policy == Policy::Abort {
            self.end = End::Closing;
            self.record.end(now, Outcome::Aborted, Some(cause));
        }
    }
}
