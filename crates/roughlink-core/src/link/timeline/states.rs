//! States that result from the steps of a timeline, one after the other.

use super::{DirectionState, Step, Timeline};
use crate::units::{Rate, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// States with their start times, ascending; a state differs from the previous one, unless the timeline is open. Steps
/// that have not begun wait in the order of their times. A heap holds the ends of steps in force and the next starts of
/// recurring steps, so its size depends only on these.
#[derive(Debug)]
pub struct DirectionStates {
    timeline: Arc<Timeline>,
    base: DirectionState,
    begun: usize,
    due: BinaryHeap<Reverse<StepBoundary>>,
    properties: Properties,
    last: Option<DirectionState>,
    /// Number of changes from outside.
    changed: u32,
}

/// Start or end of a step: its time, the start of this occurrence, the index of the step, and true for an end. Earlier
/// starts sort first, so at equal times ends precede starts.
type StepBoundary = (Time, Time, u32, bool);

impl DirectionStates {
    /// Creates the states of a direction whose state is `base` where no step sets anything.
    pub fn new(timeline: Arc<Timeline>, base: DirectionState) -> Self {
        let (due, properties) = (BinaryHeap::new(), Properties::default());
        DirectionStates { timeline, base, begun: 0, due, properties, last: None, changed: 0 }
    }

    /// Applies a change from outside at `now`, in force until a later step sets the same property. If the last state
    /// yielded begins after `now`, it is passed as `next` and updated.
    pub(super) fn change(&mut self, now: Time, change: &Step, next: Option<&mut DirectionState>) {
        self.changed += 1;
        self.properties.set((now, FROM_OUTSIDE + self.changed), change);
        if let Some(next) = next {
            *next = self.properties.over(&self.base);
            self.last = Some(*next);
        }
    }

    fn next_mark(&self) -> Option<StepBoundary> {
        let first = self.timeline.steps.get(self.begun).map(|step| (step.at, step.at, self.begun as u32, false));
        let due = self.due.peek().map(|Reverse(mark)| *mark);
        first.into_iter().chain(due).min().filter(|mark| mark.0 <= self.timeline.end)
    }

    fn take(&mut self, mark: StepBoundary) {
        let (now, began, i, ceases) = mark;
        if self.due.peek() == Some(&Reverse(mark)) {
            self.due.pop();
        } else {
            self.begun += 1;
        }
        if ceases {
            return self.properties.end((began, i));
        }
        let step = &self.timeline.steps[i as usize];
        self.properties.begin((began, i), step);
        if let Some(until) = step.until {
            self.due.push(Reverse((now.saturating_add(until - step.at), began, i, true)));
        }
        if let Some(every) = step.every {
            let again = now.saturating_add(every);
            self.due.push(Reverse((again, again, i, false)));
        }
    }
}

impl Iterator for DirectionStates {
    type Item = (Time, DirectionState);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (now, ..) = self.next_mark()?;
            while let Some(mark) = self.next_mark().filter(|mark| mark.0 == now) {
                self.take(mark);
            }
            let state = self.properties.over(&self.base);
            if self.last != Some(state) || self.timeline.open {
                self.last = Some(state);
                return Some((now, state));
            }
        }
    }
}

/// Start of an occurrence of a step, and the index of the step; later occurrences compare greater. Changes from outside
/// are numbered from [`FROM_OUTSIDE`] on.
type Occurrence = (Time, u32);

const FROM_OUTSIDE: u32 = 1 << 31;

/// Values of one property from the steps in force; the one that began last applies.
#[derive(Debug)]
struct Property<T>(BTreeMap<Occurrence, T>);

impl<T: Copy> Property<T> {
    /// Starts a step that sets the property to `value`, if any; `ends` is true if the step ends later.
    fn begin(&mut self, began: Occurrence, value: Option<T>, ends: bool) {
        let Some(value) = value else { return };
        if !ends {
            self.0.clear(); // earlier values cannot apply again
        }
        self.0.insert(began, value);
    }

    /// Sets the property to `value`, if any, from outside and permanently: earlier values cannot apply again.
    fn set(&mut self, at: Occurrence, value: Option<T>) {
        let Some(value) = value else { return };
        self.0 = self.0.split_off(&at);
        self.0.insert(at, value);
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

#[derive(Debug, Default)]
struct Properties {
    up: Property<bool>,
    rate: Property<Rate>,
    delay: Property<Time>,
    signal: Property<f64>,
    noise: Property<u32>,
}

impl Properties {
    fn begin(&mut self, began: Occurrence, step: &Step) {
        let ends = step.until.is_some();
        self.up.begin(began, step.up, ends);
        self.rate.begin(began, step.rate, ends);
        self.delay.begin(began, step.delay, ends);
        self.signal.begin(began, step.signal, ends);
        self.noise.begin(began, step.noise, ends);
    }

    fn set(&mut self, at: Occurrence, change: &Step) {
        self.up.set(at, change.up);
        self.rate.set(at, change.rate);
        self.delay.set(at, change.delay);
        self.signal.set(at, change.signal);
        self.noise.set(at, change.noise);
    }

    fn end(&mut self, began: Occurrence) {
        self.up.0.remove(&began);
        self.rate.0.remove(&began);
        self.delay.0.remove(&began);
        self.signal.0.remove(&began);
        self.noise.0.remove(&began);
    }

    fn over(&self, base: &DirectionState) -> DirectionState {
        DirectionState {
            up: self.up.value().unwrap_or(base.up),
            rate: self.rate.value().unwrap_or(base.rate),
            delay: self.delay.value().unwrap_or(base.delay),
            signal: self.signal.value().or(base.signal),
            noise: self.noise.value().or(base.noise),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(steps: Vec<Step>) -> DirectionStates {
        let base = DirectionState { up: true, rate: Rate::from_mbps(1), delay: Time::ZERO, signal: None, noise: None };
        DirectionStates::new(Arc::new(Timeline::new(steps, Vec::new(), Time::from_secs(100))), base)
    }

    /// Returns the memory of the heap and of all properties, through which a change must search.
    fn size(states: &DirectionStates) -> usize {
        let Properties { up, rate, delay, signal, noise } = &states.properties;
        states.due.len() + up.0.len() + rate.0.len() + delay.0.len() + signal.0.len() + noise.0.len()
    }

    /// The work for a change depends on how many steps are in force or recur, not on how many there were.
    #[test]
    fn past_and_future_steps_cost_no_work() {
        let ms = Time::from_millis;
        let rate = |n| Some(Rate::from_mbps(2 + n % 7));
        // A table in which the delay is given once.
        let table = |n: u64| Step { at: ms(n), rate: rate(n), delay: (n == 0).then(|| ms(9)), ..Step::default() };
        let outage = |n: u64| Step { at: ms(n), until: Some(ms(n + 3)), up: Some(false), ..Step::default() };
        let mut recurring = outage(5);
        recurring.every = Some(ms(7));
        for (steps, most) in [
            ((0..50_000).map(table).collect::<Vec<_>>(), 2),
            ((0..50_000).map(|n| if n % 2 == 0 { table(n) } else { outage(n) }).collect(), 2 + 2 * 2),
            (vec![table(0), recurring], 2 + 3),
        ] {
            let mut states = states(steps);
            let mut changes = 0;
            while states.next().is_some() {
                changes += 1;
                assert!(size(&states) <= most, "{} after {changes} changes", size(&states));
            }
            assert!(changes > 25_000, "{changes}");
        }
    }
}
