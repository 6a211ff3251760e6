//! Order in which the connections of an element transmit and wake. Connections that may transmit take turns. The entry
//! of a connection among the wake-up times may be early: then the connection only computes a new one. So a later timer
//! costs nothing.

use crate::units::Time;
use std::collections::{BTreeSet, VecDeque};

/// Connections, by their ids, that may have something to send, and their wake-up times.
#[derive(Debug)]
pub(crate) struct Schedule<Id> {
    pub(super) ready: VecDeque<Id>,
    pub(super) timers: BTreeSet<(Time, Id)>,
}

/// Entries of one connection in a [`Schedule`].
#[derive(Debug)]
pub(crate) struct ScheduleEntry {
    /// Time among the wake-up times; [`Time::MAX`] = none.
    wake_at: Time,
    is_ready: bool,
}

impl ScheduleEntry {
    /// Creates the state of a connection without entries.
    pub(crate) const fn new() -> Self {
        ScheduleEntry { wake_at: Time::MAX, is_ready: false }
    }

    /// Notes that the connection had nothing to send.
    pub(crate) fn pause(&mut self) {
        self.is_ready = false;
    }

    /// Notes that the connection has left the wake-up times.
    pub(crate) fn wake(&mut self) {
        self.wake_at = Time::MAX;
    }
}

impl<Id: Copy + Ord> Schedule<Id> {
    pub(crate) const fn new() -> Self {
        Schedule { ready: VecDeque::new(), timers: BTreeSet::new() }
    }

    /// Adds a connection that may have something to send, unless it waits already.
    pub(crate) fn transmit_later(&mut self, id: Id, entry: &mut ScheduleEntry) {
        if !std::mem::replace(&mut entry.is_ready, true) {
            self.ready.push_back(id);
        }
    }

    /// Removes the next connection that may have something to send. Call [`Schedule::take_turn`] if it sends, and
    /// [`ScheduleEntry::pause`] if not.
    pub(crate) fn pop_ready(&mut self) -> Option<Id> {
        self.ready.pop_front()
    }

    /// Puts a connection that has sent behind all others.
    pub(crate) fn take_turn(&mut self, id: Id) {
        self.ready.push_back(id);
    }

    /// Wakes a connection at `at` or earlier, but after `now`.
    pub(crate) fn wake_by(&mut self, now: Time, at: Time, id: Id, entry: &mut ScheduleEntry) {
        let at = at.max(now + Time::from_nanos(1));
        if at < entry.wake_at {
            self.timers.remove(&(entry.wake_at, id));
            self.timers.insert((at, id));
            entry.wake_at = at;
        }
    }

    /// Removes the next connection to wake by `now`. Call [`ScheduleEntry::wake`] for it.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Id> {
        self.timers.first().filter(|first| first.0 <= now)?;
        self.timers.pop_first().map(|(_, id)| id)
    }

    /// Removes the wake-up time of a connection.
    pub(crate) fn cancel(&mut self, id: Id, entry: &mut ScheduleEntry) {
        self.timers.remove(&(entry.wake_at, id));
        entry.wake();
    }

    /// Returns the first wake-up time; [`Time::MAX`] = none.
    pub(crate) fn next_wake(&self) -> Time {
        self.timers.first().map_or(Time::MAX, |first| first.0)
    }
}
