//! The states that the steps of a timeline make of a direction, and what hosts are notified of.

use super::{Source, Step};
use crate::cc::LinkEvent;
use crate::link::Direction;
use crate::link::timeline::{State, Timeline};
use crate::scenario::file::Heading;
use crate::scenario::problem::{Problem, Report};
use crate::units::{Rate, Time};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A property over time: the value set by the step that began last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Resolved {
    up: bool,
    rate: Rate,
    delay: Time,
    signal: Option<f64>,
    noise: Option<u32>,
}

impl Resolved {
    pub(super) fn of(link: &Direction) -> Self {
        Resolved { up: true, rate: link.rate, delay: link.delay, signal: None, noise: None }
    }
}

/// The states of one direction.
pub(super) fn states(
    source: &Source,
    link: &Direction,
    forward: bool,
    duration: Time,
    place: Range<usize>,
    report: &mut Report,
) -> Vec<(Time, Resolved)> {
    let other = if forward { Heading::Reverse } else { Heading::Forward };
    let steps: Vec<(u32, &Step)> = (0..).zip(&source.steps).filter(|(_, s)| s.heading != Some(other)).collect();
    // When something begins or ends: time, which step, when that occurrence began, whether it ends.
    let mut marks: Vec<(Time, usize, Time, bool)> = Vec::new();
    for (i, (_, step)) in steps.iter().enumerate() {
        let mut shift = Time::ZERO;
        while step.at + shift <= duration {
            let at = step.at + shift;
            marks.push((at, i, at, false));
            marks.extend(step.until.map(|until| (until + shift, i, at, true)).filter(|m| m.0 <= duration));
            if marks.len() > MOST_CHANGES {
                let problem = Problem::new(format!("the link changes more than {MOST_CHANGES} times")).at(place, "");
                report.error(problem.help("make `repeat` or `interval` longer, or `duration` shorter"));
                return Vec::new();
            }
            match step.every {
                Some(every) => shift += every,
                None => break,
            }
        }
    }
    marks.sort_by_key(|m| (m.0, m.2, m.1));
    let base = Resolved::of(link);
    let mut now_is = Properties::default();
    let mut out: Vec<(Time, Resolved)> = Vec::new();
    let mut marks = marks.into_iter().peekable();
    while let Some((now, i, began, ceases)) = marks.next() {
        if ceases {
            now_is.end((began, i));
        } else {
            now_is.begin((began, i), steps[i].1, steps[i].0);
        }
        if marks.peek().is_some_and(|m| m.0 == now) {
            continue;
        }
        let resolved = Resolved {
            up: now_is.up.value().unwrap_or(base.up),
            rate: now_is.rate.value().unwrap_or(base.rate),
            delay: now_is.delay.value().unwrap_or(base.delay),
            signal: now_is.signal.value(),
            noise: now_is.noise.value(),
        };
        if out.last().is_none_or(|(_, last)| *last != resolved) {
            out.push((now, resolved));
        }
    }
    out
}

/// When an occurrence of a step began, and which step it is: later ones are greater.
type Occurrence = (Time, usize);

/// The values that the steps in force set for one property; of several the one that began last counts.
struct Property<T>(BTreeMap<Occurrence, T>);

impl<T: Copy> Property<T> {
    /// A step begins that sets the property to `value`, if it sets it at all; it is temporary if it `ends`.
    fn begin(&mut self, began: Occurrence, value: Option<T>, ends: bool) {
        let Some(value) = value else { return };
        if !ends {
            self.0.clear(); // what began before cannot count again
        }
        self.0.insert(began, value);
    }

    fn value(&self) -> Option<T> {
        self.0.last_key_value().map(|(_, value)| *value)
    }
}

impl<T> Default for Property<T> {
    fn default() -> Self {
        Property(BTreeMap::new())
    }
}

/// All properties of a link, noise by the number of its step.
#[derive(Default)]
struct Properties {
    up: Property<bool>,
    rate: Property<Rate>,
    delay: Property<Time>,
    signal: Property<f64>,
    noise: Property<u32>,
}

impl Properties {
    fn begin(&mut self, began: Occurrence, step: &Step, number: u32) {
        let ends = step.until.is_some();
        self.up.begin(began, step.up, ends);
        self.rate.begin(began, step.rate, ends);
        self.delay.begin(began, step.delay, ends);
        self.signal.begin(began, step.signal, ends);
        self.noise.begin(began, step.noise.as_ref().map(|_| number), ends);
    }

    fn end(&mut self, began: Occurrence) {
        self.up.0.remove(&began);
        self.rate.0.remove(&began);
        self.delay.0.remove(&began);
        self.signal.0.remove(&began);
        self.noise.0.remove(&began);
    }
}

pub(super) fn made(source: &Source, states: Vec<(Time, Resolved)>) -> Option<Arc<Timeline>> {
    // Only the noises in use, in the order of their first use.
    let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
    let mut noises = Vec::new();
    let mut state = |r: Resolved| State {
        up: r.up,
        rate: r.rate,
        delay: r.delay,
        noise: r.noise.map(|step| {
            *numbers.entry(step).or_insert_with(|| {
                noises.push(source.steps[step as usize].noise.clone().unwrap_or_default());
                noises.len() as u32 - 1
            })
        }),
    };
    let states = states.into_iter().map(|(t, r)| (t, state(r))).collect();
    Some(Arc::new(Timeline { states, noises, policy: source.policy, opportunities: source.opportunities.clone() }))
}

/// From when on forward and reverse are up, and what else the forward direction is; `None` = as before.
type Piece = (Time, Option<bool>, Option<bool>, Option<Resolved>);

/// What hosts are notified of: a link is up when both directions are; rate, delay and signal are the forward direction's.
#[derive(Default)]
pub(super) struct Notices {
    changes: Vec<Piece>,
    notice: Time,
    warning: Option<Time>,
}

impl Notices {
    pub(super) fn add(&mut self, states: &[(Time, Resolved)], source: &Source, link: &Direction) {
        self.notice_as(source);
        self.changes.push((Time::ZERO, None, None, Some(Resolved::of(link))));
        self.changes.extend(states.iter().map(|&(t, r)| (t, Some(r.up), None, Some(r))));
    }

    pub(super) fn add_reverse(&mut self, states: &[(Time, Resolved)], source: &Source) {
        if self.changes.is_empty() {
            self.notice_as(source);
            self.changes.push((Time::ZERO, None, None, None));
        }
        self.changes.extend(states.iter().map(|&(t, r)| (t, None, Some(r.up), None)));
    }

    fn notice_as(&mut self, source: &Source) {
        (self.notice, self.warning) = (source.notice, source.warning);
    }

    /// The events in the order of notification. The state of the link at the start is known then.
    pub(super) fn events(mut self) -> Vec<(Time, LinkEvent)> {
        self.changes.sort_by_key(|c| c.0);
        let mut events = Vec::new();
        let (mut forward, mut reverse, mut reported_up) = (true, true, None);
        let (mut last, mut reported): (Option<Resolved>, Option<Resolved>) = (None, None);
        let mut changes = self.changes.into_iter().peekable();
        while let Some((now, f, r, resolved)) = changes.next() {
            (forward, reverse) = (f.unwrap_or(forward), r.unwrap_or(reverse));
            last = resolved.or(last);
            if changes.peek().is_some_and(|next| next.0 == now) {
                continue;
            }
            let notified = if now.is_zero() { now } else { now + self.notice };
            let up = forward && reverse;
            if let Some(state) = last {
                if reported.is_some_and(|t| t.rate != state.rate) {
                    events.push((notified, LinkEvent::Rate(state.rate)));
                }
                if reported.is_some_and(|t| t.delay != state.delay) {
                    events.push((notified, LinkEvent::Delay(state.delay)));
                }
                // What was known of the signal is forgotten when the link goes down.
                let anew = reported.and_then(|t| t.signal) != state.signal || (up && reported_up == Some(false));
                if let Some(signal) = state.signal.filter(|_| anew) {
                    events.push((notified, LinkEvent::Signal(signal)));
                }
                reported = last;
            }
            if reported_up != Some(up) {
                reported_up = Some(up);
                if up {
                    events.extend([(notified, LinkEvent::Up), (notified, LinkEvent::Configured)]);
                } else {
                    // A warning may come before the notification that an earlier outage is over: it is repeated when it
                    // comes true.
                    events.extend(self.warning.map(|w| (now.saturating_sub(w), LinkEvent::Down)));
                    events.push((notified, LinkEvent::Down));
                }
            }
        }
        events.sort_by_key(|e| e.0);
        events
    }
}

/// More states of a link than this fill the memory.
const MOST_CHANGES: usize = 4_000_000;
