//! Requests and responses with think time over one persistent connection, like HTTP/1.1 without pipelining.

use crate::quantiles::Histogram;
use crate::units::Time;

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

/// State of the client and the server. Each acts only on the number of bytes that have reached it.
#[derive(Clone, Debug)]
pub struct Web {
    cfg: WebConfig,
    /// Time of the client's next request; [`Time::MAX`] while it waits.
    next: Time,
    asked_at: Time,
    asked: u64,
    served: u64,
    /// Responses that reached the client, and how long each took.
    responses: u64,
    took: Histogram,
}

impl Web {
    /// Creates a client that is not connected.
    pub fn new(cfg: WebConfig) -> Self {
        let took = Histogram::default();
        Web { cfg, next: Time::MAX, asked_at: Time::ZERO, asked: 0, served: 0, responses: 0, took }
    }
    /// Handles the establishment of the client's connection.
    pub fn connected(&mut self, now: Time) {
        self.next = now;
    }
    /// Returns when the client must be woken; [`Time::MAX`] = never.
    pub fn next_wake(&self) -> Time {
        self.next
    }
    /// Returns the bytes that the client writes now.
    pub fn request(&mut self, now: Time) -> u64 {
        if self.next > now || self.is_done() {
            return 0;
        }
        (self.next, self.asked_at) = (Time::MAX, now);
        self.asked += 1;
        self.cfg.request
    }
    /// Returns the bytes that the server writes now, given that `bytes` in total have reached it.
    pub fn respond(&mut self, bytes: u64) -> u64 {
        let requests = bytes / self.cfg.request - self.served;
        self.served += requests;
        requests * self.cfg.response
    }
    /// Handles the arrival of `bytes` in total at the client.
    pub fn on_response(&mut self, now: Time, bytes: u64) {
        if self.responses < self.asked && bytes >= self.asked * self.cfg.response {
            self.responses = self.asked;
            self.took.record((now - self.asked_at).0);
            self.next = if self.is_done() { Time::MAX } else { now + self.cfg.think };
        }
    }
    /// Returns true if the client has received all its responses.
    pub fn is_done(&self) -> bool {
        self.cfg.requests.is_some_and(|all| self.responses >= all)
    }
    /// Returns true if the number of requests is limited.
    pub fn has_end(&self) -> bool {
        self.cfg.requests.is_some()
    }
    /// Requests sent, responses received, and their times.
    pub fn result(&self) -> (u64, u64, &Histogram) {
        (self.asked, self.responses, &self.took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_for_the_previous_response() {
        let s = Time::from_secs;
        let mut web = Web::new(WebConfig { request: 400, response: 10_000, think: s(2), requests: Some(2) });
        assert_eq!((web.next_wake(), web.request(s(9))), (Time::MAX, 0));
        web.connected(s(10));
        assert_eq!((web.request(s(10)), web.request(s(10))), (400, 0));
        assert_eq!((web.respond(399), web.respond(400), web.respond(400)), (0, 10_000, 0));
        web.on_response(s(11), 9_999);
        assert_eq!(web.next_wake(), Time::MAX);
        web.on_response(s(12), 10_000);
        assert_eq!((web.next_wake(), web.is_done()), (s(14), false));
        assert_eq!((web.request(s(14)), web.respond(800)), (400, 10_000));
        web.on_response(s(15), 20_000);
        assert_eq!((web.next_wake(), web.is_done()), (Time::MAX, true));
        let (asked, answered, took) = web.result();
        assert_eq!((asked, answered, took.min(), took.max()), (2, 2, Some(s(1).0), Some(s(2).0)));
    }
}
