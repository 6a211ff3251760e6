//! Requests and responses with think time over one persistent connection, like HTTP/1.1 without pipelining.

use super::ApplicationResult;
use super::dialogue::{Action, Dialogue, DialogueState};
use crate::quantiles::{Histogram, RttResult};
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// The keys of a client and its server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WebConfig {
    /// Bytes of a request, headers included.
    pub request: u64,
    /// Bytes of a response, headers included.
    pub response: u64,
    /// Time from the end of a response to the next request.
    pub think: Time,
    /// Number of requests; `None` = until the scenario ends.
    pub requests: Option<u64>,
}

/// Requests and responses (`web`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebResult {
    /// Requests sent.
    pub requests: u64,
    /// Responses that have arrived.
    pub responses: u64,
    /// Time from a request to the end of its response; null without a response.
    pub response_ms: Option<RttResult>,
}

/// State of the client (end 0) and the server.
#[derive(Clone, Debug)]
pub struct Web {
    cfg: WebConfig,
    /// Time of the client's next action: opening the connection, or a request; [`Time::MAX`] while it waits.
    next: Time,
    state: DialogueState,
    asked_at: Time,
    asked: u64,
    /// Responses that reached the client, and how long each took.
    responses: u64,
    took: Histogram,
    /// Requests that reached the server, and those that it has answered.
    reached: u64,
    answered: u64,
    /// Set once the client has closed, until the server closes.
    closed: bool,
}

impl Web {
    /// Creates a client that connects at `start`.
    pub fn new(cfg: WebConfig, start: Time) -> Self {
        Web {
            cfg,
            next: start,
            state: DialogueState::Closed,
            asked_at: Time::ZERO,
            asked: 0,
            responses: 0,
            took: Histogram::default(),
            reached: 0,
            answered: 0,
            closed: false,
        }
    }

    fn is_done(&self) -> bool {
        self.cfg.requests.is_some_and(|all| self.responses >= all)
    }

    fn client(&mut self, now: Time) -> Option<Action> {
        if self.state == DialogueState::Connected && self.is_done() {
            self.state = DialogueState::Closing;
            return Some(Action::Close);
        }
        if self.next > now {
            return None;
        }
        self.next = Time::MAX;
        if self.state == DialogueState::Closed {
            self.state = DialogueState::Connecting;
            return Some(Action::Connect);
        }
        self.asked_at = now;
        self.asked += 1;
        Some(Action::Write(self.cfg.request))
    }

    fn server(&mut self) -> Option<Action> {
        let requests = self.reached - self.answered;
        if requests > 0 {
            self.answered = self.reached;
            return Some(Action::Write(requests.saturating_mul(self.cfg.response)));
        }
        std::mem::take(&mut self.closed).then_some(Action::Close)
    }
}

impl Dialogue for Web {
    fn next_wake(&self) -> Time {
        self.next
    }
    fn transmit(&mut self, now: Time, end: usize) -> Option<Action> {
        if end == 0 { self.client(now) } else { self.server() }
    }
    fn connected(&mut self, now: Time) {
        self.state = DialogueState::Connected;
        self.next = if self.is_done() { Time::MAX } else { now };
    }
    fn received(&mut self, now: Time, end: usize, bytes: u64) {
        if end == 1 {
            self.reached = bytes / self.cfg.request;
        } else if self.responses < self.asked && bytes >= self.asked * self.cfg.response {
            self.responses = self.asked;
            self.took.record((now - self.asked_at).0);
            self.next = if self.is_done() { Time::MAX } else { now + self.cfg.think };
        }
    }
    fn closed(&mut self, _: Time, end: usize, by_peer: bool) {
        self.closed |= end == 1 && by_peer;
    }
    fn sink(&self) -> Option<usize> {
        Some(0)
    }
    fn is_over(&self, _: u64) -> bool {
        self.is_done()
    }
    fn has_end(&self) -> bool {
        self.cfg.requests.is_some()
    }
    fn result(&self) -> Option<ApplicationResult> {
        let (requests, responses) = (self.asked, self.responses);
        let response_ms = RttResult::from_histogram(&self.took);
        Some(ApplicationResult::Web(Box::new(WebResult { requests, responses, response_ms })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_for_the_previous_response() {
        let s = Time::from_secs;
        let cfg = WebConfig { request: 400, response: 10_000, think: s(2), requests: Some(2) };
        let mut web = Web::new(cfg, s(9));
        assert_eq!((web.next_wake(), web.transmit(s(8), 0)), (s(9), None));
        assert_eq!((web.transmit(s(9), 0), web.transmit(s(9), 0)), (Some(Action::Connect), None));
        web.connected(s(10));
        assert_eq!((web.transmit(s(10), 0), web.transmit(s(10), 0)), (Some(Action::Write(400)), None));
        let mut answer = |bytes| {
            web.received(s(10), 1, bytes);
            web.transmit(s(10), 1)
        };
        assert_eq!([399, 400, 400].map(&mut answer), [None, Some(Action::Write(10_000)), None]);
        web.received(s(11), 0, 9_999);
        assert_eq!(web.next_wake(), Time::MAX);
        web.received(s(12), 0, 10_000);
        assert_eq!((web.next_wake(), web.is_over(0)), (s(14), false));
        assert_eq!(web.transmit(s(14), 0), Some(Action::Write(400)));
        web.received(s(14), 1, 800);
        web.closed(s(14), 1, true);
        assert_eq!([0; 3].map(|_| web.transmit(s(14), 1)), [Some(Action::Write(10_000)), Some(Action::Close), None]);
        web.received(s(15), 0, 20_000);
        assert_eq!((web.next_wake(), web.is_over(0)), (Time::MAX, true));
        assert_eq!((web.transmit(s(15), 0), web.transmit(s(15), 0)), (Some(Action::Close), None));
        let Some(ApplicationResult::Web(result)) = web.result() else { panic!("requests have a result") };
        let took = result.response_ms.unwrap();
        assert_eq!((result.requests, result.responses, took.min, took.max), (2, 2, 1e3, 2e3));
    }
}
