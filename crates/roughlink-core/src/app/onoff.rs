//! On-off writes: an application that writes at a constant rate during on periods and nothing during off periods, like
//! ns-3's `OnOffApplication` with constant times.

use super::dialogue::{Action, Dialogue, DialogueState};
use crate::units::{Rate, Time};

/// The keys of an on-off application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnOffConfig {
    /// Rate of its writes during on periods.
    pub rate: Rate,
    /// Bytes of a write.
    pub write: u32,
    /// Length of an on period.
    pub on: Time,
    /// Length of an off period; zero = it never pauses.
    pub off: Time,
    /// Bytes after which it ends; `None` = until `stop`.
    pub bytes: Option<u64>,
    /// End.
    pub stop: Time,
}

/// State of the writing end (end 0) and the reading end.
#[derive(Clone, Debug)]
pub struct OnOff {
    cfg: OnOffConfig,
    start: Time,
    written: u64,
    state: DialogueState,
    /// Set once the writing end has closed, until the reading end closes.
    closed: bool,
}

impl OnOff {
    /// Creates an application that connects and begins with an on period at `start`.
    pub fn new(cfg: OnOffConfig, start: Time) -> Self {
        OnOff { cfg, start, written: 0, state: DialogueState::Closed, closed: false }
    }

    /// Returns the time of the next write; [`Time::MAX`] after the end.
    fn next_write(&self) -> Time {
        if self.is_written() {
            return Time::MAX;
        }
        let on = self.cfg.rate.time_for(self.written);
        let periods = on.0 / self.cfg.on.0.max(1);
        let at = self.start.saturating_add(on).saturating_add(Time(periods.saturating_mul(self.cfg.off.0)));
        if at >= self.cfg.stop { Time::MAX } else { at }
    }

    /// Returns the bytes of the writes that are due.
    fn take_due(&mut self, now: Time) -> u64 {
        if self.next_write() > now {
            return 0;
        }
        let elapsed = now.min(Time(self.cfg.stop.0.saturating_sub(1))) - self.start;
        let (on, period) = (self.cfg.on.0.max(1), self.cfg.on.0.max(1).saturating_add(self.cfg.off.0));
        let on = elapsed.0 / period * on + (elapsed.0 % period).min(on - 1);
        let write = u64::from(self.cfg.write.max(1));
        let bytes = (u128::from(on) * u128::from(self.cfg.rate.0) / 8_000_000_000).min(u128::from(u64::MAX / 2)) as u64;
        let mut due = (bytes / write + 1) * write;
        while self.cfg.rate.time_for(due) <= Time(on) {
            due += write; // this write is due, too: its time was rounded down
        }
        let due = due.min(self.cfg.bytes.unwrap_or(u64::MAX)).max(self.written);
        let more = due - self.written;
        self.written = due;
        more
    }
    /// Returns true if all bytes of a finite application are written.
    fn is_written(&self) -> bool {
        self.cfg.bytes.is_some_and(|all| self.written >= all)
    }
}

impl Dialogue for OnOff {
    fn next_wake(&self) -> Time {
        if self.state == DialogueState::Closed { self.start } else { self.next_write() }
    }
    fn transmit(&mut self, now: Time, end: usize) -> Option<Action> {
        if end == 1 {
            return std::mem::take(&mut self.closed).then_some(Action::Close);
        }
        if self.state == DialogueState::Closed {
            return (self.start <= now).then(|| {
                self.state = DialogueState::Connecting;
                Action::Connect
            });
        }
        let bytes = self.take_due(now);
        if bytes > 0 {
            return Some(Action::Write(bytes));
        }
        (self.state == DialogueState::Connected && self.is_written()).then(|| {
            self.state = DialogueState::Closing;
            Action::Close
        })
    }
    fn connected(&mut self, _: Time) {
        self.state = DialogueState::Connected;
    }
    fn closed(&mut self, _: Time, end: usize, by_peer: bool) {
        self.closed |= end == 1 && by_peer;
    }
    fn sink(&self) -> Option<usize> {
        Some(1)
    }
    fn is_over(&self, delivered: u64) -> bool {
        self.cfg.bytes == Some(delivered)
    }
    fn has_end(&self) -> bool {
        self.cfg.bytes.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_pause_between_on_periods() {
        let cfg = OnOffConfig {
            rate: Rate::from_mbps(8),
            write: 1_000,
            on: Time::from_millis(3),
            off: Time::from_millis(10),
            bytes: Some(7_500),
            stop: Time::from_secs(1),
        };
        let mut app = OnOff::new(cfg, Time::from_millis(100));
        let mut actions = Vec::new();
        while app.next_wake() < Time::MAX {
            let now = app.next_wake();
            actions.push((now.as_millis(), app.transmit(now, 0).unwrap()));
            if actions.len() == 1 {
                app.connected(now);
            }
        }
        let full = [100, 101, 102, 113, 114, 115, 126].map(|at| (at, Action::Write(1_000)));
        assert_eq!(actions, [&[(100, Action::Connect)], &full[..], &[(127, Action::Write(500))]].concat());
        let end = [app.transmit(Time::from_millis(127), 0), app.transmit(Time::from_millis(128), 0)];
        assert_eq!((end, app.is_over(7_499), app.is_over(7_500)), ([Some(Action::Close), None], false, true));
    }
}
