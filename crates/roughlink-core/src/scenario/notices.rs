//! Notifications about a link for hosts and gateways, and their times.

use crate::cc::LinkEvent;
use crate::link::PipeConfig;
use crate::link::timeline::{DirectionState, DirectionStates, Timeline};
use crate::units::Time;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;

/// Notifications about a link in order of time.
#[derive(Clone, Debug, PartialEq)]
pub enum Notices {
    /// Explicit notifications, from coverage.
    Listed(Arc<[(Time, LinkEvent)]>),
    /// Notifications from the timelines of the two directions; at least one direction has a timeline. A link is up if
    /// both directions are; rate, delay and signal come from the forward direction.
    Derived {
        /// Forward direction before its first change, and its timeline.
        forward: (DirectionState, Option<Arc<Timeline>>),
        /// Reverse direction before its first change, and its timeline.
        reverse: (DirectionState, Option<Arc<Timeline>>),
        /// Delay of a notification after the change. Hosts are notified of the initial state without delay.
        notice: Time,
        /// Time before the link goes down at which hosts are warned.
        warning: Option<Time>,
    },
}

impl Notices {
    /// Creates the notifications about a link that changes like `pipe`.
    pub fn new(pipe: &PipeConfig, notice: Time, warning: Option<Time>) -> Self {
        let [forward, reverse] =
            [&pipe.forward, &pipe.reverse].map(|d| (DirectionState::from_direction(d), d.timeline.clone()));
        Notices::Derived { forward, reverse, notice, warning }
    }

    /// Returns true if there are no notifications.
    pub fn is_empty(&self) -> bool {
        matches!(self, Notices::Listed(all) if all.is_empty())
    }

    /// Returns the notifications until the end of the run.
    pub fn iter(&self) -> Box<dyn Iterator<Item = (Time, LinkEvent)> + Send> {
        match self {
            Notices::Listed(all) => {
                let all = Arc::clone(all);
                Box::new((0..all.len()).map(move |i| all[i]))
            }
            Notices::Derived { forward, reverse, notice, warning } => {
                let states = |(base, timeline): &(DirectionState, Option<Arc<Timeline>>)| {
                    timeline.clone().map(|t| DirectionStates::new(t, *base).peekable())
                };
                Box::new(NoticeQueue {
                    states: [states(forward), states(reverse)],
                    up: [true; 2],
                    forward_state: forward.1.is_some().then_some(forward.0),
                    notified: None,
                    notified_up: None,
                    notice: *notice,
                    warning: warning.unwrap_or_default(),
                    warns: warning.is_some(),
                    waiting: BTreeMap::new(),
                    count: 0,
                })
            }
        }
    }
}

impl Default for Notices {
    fn default() -> Self {
        Notices::Listed(Arc::default())
    }
}

/// Derives the notifications from the states of both directions. A warning precedes its event, so a notification is
/// held back until no later change can produce an earlier notification.
struct NoticeQueue {
    states: [Option<Peekable<DirectionStates>>; 2],
    up: [bool; 2],
    forward_state: Option<DirectionState>,
    notified: Option<DirectionState>,
    /// `None` before the start of the run.
    notified_up: Option<bool>,
    notice: Time,
    warning: Time,
    warns: bool,
    waiting: BTreeMap<(Time, u64), LinkEvent>,
    count: u64,
}

impl Iterator for NoticeQueue {
    type Item = (Time, LinkEvent);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let change = match self.notified_up {
                None => Some(Time::ZERO),
                Some(_) => self.states.iter_mut().flatten().filter_map(|s| Some(s.peek()?.0)).min(),
            };
            let earliest = change.map_or(Time::MAX, |at| at.saturating_sub(self.warning));
            if let Some(first) = self.waiting.first_entry().filter(|e| e.key().0 <= earliest) {
                let ((at, _), event) = first.remove_entry();
                return Some((at, event));
            }
            self.change(change?);
        }
    }
}

impl NoticeQueue {
    fn change(&mut self, now: Time) {
        for (direction, states) in self.states.iter_mut().enumerate() {
            if let Some((_, state)) = states.as_mut().and_then(|s| s.next_if(|s| s.0 == now)) {
                self.up[direction] = state.up;
                if direction == 0 {
                    self.forward_state = Some(state);
                }
            }
        }
        let known = if now.is_zero() { now } else { now.saturating_add(self.notice) };
        let up = self.up == [true; 2];
        if let Some(state) = self.forward_state {
            let before = self.notified.replace(state);
            if before.is_some_and(|b| b.rate != state.rate) {
                self.push(known, LinkEvent::Rate(state.rate));
            }
            if before.is_some_and(|b| b.delay != state.delay) {
                self.push(known, LinkEvent::Delay(state.delay));
            }
            // The signal is unknown after the link goes down, so report it again when the link is up.
            let anew = before.and_then(|b| b.signal) != state.signal || (up && self.notified_up == Some(false));
            if let Some(signal) = state.signal.filter(|_| anew) {
                self.push(known, LinkEvent::Signal(signal));
            }
        }
        if self.notified_up.replace(up) != Some(up) {
            if up {
                self.push(known, LinkEvent::Up);
                self.push(known, LinkEvent::Configured);
            } else {
                // The warning may precede the notice of an earlier outage's end: repeat it when the link goes down.
                if self.warns {
                    self.push(now.saturating_sub(self.warning), LinkEvent::Down);
                }
                self.push(known, LinkEvent::Down);
            }
        }
    }

    fn push(&mut self, at: Time, event: LinkEvent) {
        self.waiting.insert((at, self.count), event);
        self.count += 1;
    }
}
