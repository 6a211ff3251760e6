//! The charger's side: responses, in order and in time.

use super::evcc::expire;
use super::message::{Message, SDP_RESPONSE};
use super::record::{Cause, Outcome, Record};
use super::{Action, Policy, SessionConfig};
use crate::units::Time;

/// The content of a response, as far as the session depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Response {
    /// The message that it answers.
    pub message: Message,
    /// The charger's processing is finished; else the vehicle repeats its request.
    pub finished: bool,
    /// The request was allowed; else the code is FAILED_SequenceError.
    pub in_sequence: bool,
}

/// The supply equipment communication controller.
#[derive(Clone, Debug)]
pub(super) struct Secc {
    /// The last request allowed, and since when that kind is requested.
    last: Option<Message>,
    since: Time,
    /// When an SDP response is due.
    found_at: Time,
    /// The response under way and when it is ready.
    answer: Option<(Time, Response)>,
    setup_by: Time,
    /// When the next request is too late.
    request_by: Time,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Closing,
    Closed,
}

impl Secc {
    pub(super) fn new(cfg: &SessionConfig, start: Time) -> Self {
        Secc {
            last: None,
            since: start,
            found_at: Time::MAX,
            answer: None,
            setup_by: start.saturating_add(cfg.limits.secc_communication_setup),
            request_by: Time::MAX,
            end: End::Open,
        }
    }

    pub(super) fn next_wake(&self) -> Time {
        if self.end != End::Open {
            return Time::MAX;
        }
        let answer = self.answer.map_or(Time::MAX, |a| a.0);
        answer.min(self.found_at).min(self.setup_by).min(self.request_by)
    }

    pub(super) fn wake(&mut self, now: Time, cfg: &SessionConfig, record: &mut Record) {
        if expire(&mut self.setup_by, now) {
            self.violate(now, Cause::SeccCommunicationSetup, cfg, record);
        }
        if expire(&mut self.request_by, now) {
            self.violate(now, Cause::Sequence, cfg, record);
        }
    }

    pub(super) fn on_datagram(&mut self, now: Time, cfg: &SessionConfig) {
        self.found_at = self.found_at.min(now + cfg.turnaround);
    }

    pub(super) fn on_request(&mut self, now: Time, m: Message, cfg: &SessionConfig, record: &mut Record) {
        self.wake(now, cfg, record);
        if self.end != End::Open {
            return;
        }
        self.request_by = Time::MAX;
        let in_sequence = m.may_follow(self.last);
        if in_sequence {
            if self.last != Some(m) {
                self.since = now;
            }
            self.last = Some(m);
        } else {
            record.sequence_errors += 1;
        }
        if cfg.turnaround > cfg.message(m).performance {
            record.slow_responses += 1;
        }
        let finished = now - self.since >= cfg.processing(m);
        self.answer = Some((now + cfg.turnaround, Response { message: m, finished, in_sequence }));
    }

    /// What leaves now, and the response that a `Write` carries.
    pub(super) fn transmit(&mut self, now: Time, cfg: &SessionConfig) -> Option<(Action, Option<Response>)> {
        if self.end == End::Closing {
            self.end = End::Closed;
            return Some((Action::Close, None));
        }
        if self.end == End::Closed {
            return None;
        }
        if expire(&mut self.found_at, now) {
            return Some((Action::Datagram(SDP_RESPONSE), None));
        }
        let (_, response) = self.answer.take_if(|a| a.0 <= now)?;
        let m = response.message;
        if m == Message::SessionSetup {
            self.setup_by = Time::MAX;
        }
        if m != Message::SessionStop {
            self.request_by = now.saturating_add(cfg.limits.sequence);
        }
        Some((Action::Write(cfg.message(m).response), Some(response)))
    }

    /// The vehicle closed the connection, or it was lost.
    pub(super) fn on_closed(&mut self, now: Time, record: &mut Record) {
        if self.end == End::Open {
            self.end = End::Closing;
            record.end(now, Outcome::Failed, Some(Cause::Connection));
        }
    }

    fn violate(&mut self, now: Time, cause: Cause, cfg: &SessionConfig, record: &mut Record) {
        if self.end != End::Open {
            return;
        }
        record.violation(now, cause, None);
        if cfg.policy == Policy::Abort {
            self.end = End::Closing;
            record.end(now, Outcome::Aborted, Some(cause));
        }
    }
}
