//! Messages at a constant interval: the clock of a `messages` flow.

use crate::quantiles::RttResult;
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// The keys of an application that sends messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessagesConfig {
    /// Bytes of a message.
    pub size: u32,
    /// Time from one message to the next; not zero.
    pub interval: Time,
    /// Number of messages; `None` = until `stop`.
    pub count: Option<u64>,
    /// End.
    pub stop: Time,
}

/// Messages over SCTP (`messages`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessagesResult {
    /// Messages due by the end of the run; for an application outside the network, messages that arrived.
    pub sent: u64,
    /// Messages delivered to the application at `to`.
    pub delivered: u64,
    /// Messages abandoned by the sender (RFC 3758); one may have been delivered all the same, if its SACK was lost.
    pub abandoned: u64,
    /// Time from when a message was due to its delivery; null if no message was delivered, or an end is outside.
    pub latency_ms: Option<RttResult>,
}

/// The clock of an application's messages.
#[derive(Clone, Debug)]
pub struct MessageClock {
    cfg: MessagesConfig,
    start: Time,
    taken: u64,
}

impl MessageClock {
    /// Creates a clock whose first message is due at `start`.
    pub fn new(cfg: MessagesConfig, start: Time) -> Self {
        MessageClock { cfg, start, taken: 0 }
    }
    /// Returns when the next message is due; [`Time::MAX`] after the last.
    pub fn next_due(&self) -> Time {
        let at = self.start.saturating_add(Time(self.cfg.interval.0.saturating_mul(self.taken)));
        let over = self.cfg.count == Some(self.taken) || at >= self.cfg.stop;
        if over { Time::MAX } else { at }
    }
    /// Takes the next message if it is due: returns its number, from 0, and when it was due.
    pub fn take_due(&mut self, now: Time) -> Option<(u64, Time)> {
        let due = self.next_due();
        (due <= now).then(|| {
            self.taken += 1;
            (self.taken - 1, due)
        })
    }
    /// Returns true if the number of messages is limited and no message is left: all are taken, or the next would be
    /// due at `stop` or later.
    pub fn is_done(&self) -> bool {
        self.cfg.count.is_some() && self.next_due() == Time::MAX
    }
    /// Returns the number of messages that were due by `now`.
    pub fn due_by(&self, now: Time) -> u64 {
        let last = now.min(Time(self.cfg.stop.0.saturating_sub(1)));
        let due = last.0.checked_sub(self.start.0).map_or(0, |elapsed| elapsed / self.cfg.interval.0.max(1) + 1);
        due.min(self.cfg.count.unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(count: Option<u64>, stop: u64) -> MessageClock {
        let cfg = MessagesConfig { size: 100, interval: Time(10), count, stop: Time(stop) };
        MessageClock::new(cfg, Time(5))
    }

    #[test]
    fn messages_are_due_at_the_interval_until_the_end() {
        let mut c = clock(None, 25);
        assert_eq!(c.take_due(Time(4)), None);
        assert_eq!(
            [c.take_due(Time(99)), c.take_due(Time(99)), c.take_due(Time(99))],
            [Some((0, Time(5))), Some((1, Time(15))), None]
        );
        assert_eq!([4, 5, 14, 15, 99].map(|now| c.due_by(Time(now))), [0, 1, 1, 2, 2]);
        let mut c = clock(Some(1), 25);
        assert_eq!((c.due_by(Time(99)), c.take_due(Time(99)), c.next_due()), (1, Some((0, Time(5))), Time::MAX));
    }
}
