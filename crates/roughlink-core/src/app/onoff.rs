//! On-off writes: an application that writes at a constant rate during on periods and nothing during off periods, like
//! ns-3's `OnOffApplication` with constant times.

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

/// The clock of an application's writes.
#[derive(Clone, Debug)]
pub struct OnOff {
    cfg: OnOffConfig,
    start: Time,
    written: u64,
}

impl OnOff {
    /// Creates an application that begins with an on period at `start`.
    pub fn new(cfg: OnOffConfig, start: Time) -> Self {
        OnOff { cfg, start, written: 0 }
    }
    /// Returns the time of the next write; [`Time::MAX`] after the end.
    pub fn next_wake(&self) -> Time {
        if self.is_done() {
            return Time::MAX;
        }
        let on = self.cfg.rate.time_for(self.written);
        let periods = on.0 / self.cfg.on.0.max(1);
        let at = self.start.saturating_add(on).saturating_add(Time(periods.saturating_mul(self.cfg.off.0)));
        if at >= self.cfg.stop { Time::MAX } else { at }
    }
    /// Returns the bytes of the writes that are due.
    pub fn take_due(&mut self, now: Time) -> u64 {
        if self.next_wake() > now {
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
    pub fn is_done(&self) -> bool {
        self.cfg.bytes.is_some_and(|all| self.written >= all)
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
        let mut writes = Vec::new();
        while app.next_wake() < Time::MAX {
            let now = app.next_wake();
            writes.push((now.as_millis(), app.take_due(now)));
        }
        let full = [100, 101, 102, 113, 114, 115, 126].map(|at| (at, 1_000));
        assert_eq!(writes, [&full[..], &[(127, 500)]].concat());
        assert!(app.is_done());
    }
}
