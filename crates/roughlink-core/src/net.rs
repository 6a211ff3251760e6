//! The network made from a scenario, as an element: owned, `Send`, with the four verbs and no clock of its own.
//!
//! [`Network::wake`] replays every event that is due, each at its own time, so a simulation ([`Network::run`]) is
//! one call with the end of the scenario, and a caller with a clock of its own may be late without changing what happens.
//!
//! A network is cut into components: groups of links joined by flows that use both. Components share nothing, so they run
//! one after the other, each in memory that stays in the cache, each built when it first has something to do. Ties are
//! broken by position (see [`calendar`]) and every random stream is named, so the partition cannot change a result.
//!
//! Within a component there is one event per link direction - its next arrival - and one per flow - its next timer.
//! Timers are lazy: a leaf may wake too early and check again, never too late. Where all packets of one link go on to
//! another that has no other feeder, the second link's queue and departure are computed at once and the arrival between is
//! no event (but counts as one): the results are the same.

pub mod calendar;
mod component;
mod end;
mod flow;
mod observer;
mod partition;
pub mod reassembly;
pub mod routing;

use crate::metrics::{Outcomes, RunResult};
use crate::rng::Seed;
use crate::scenario::Scenario;
use crate::units::Time;
use component::Component;
pub use end::Sending;
pub use observer::{Crossing, LinkState, NoObserver, Observer, Way};
use routing::Hop;
pub use routing::NoPath;
use std::sync::Arc;

/// How to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Replica number: the same scenario with other random numbers.
    pub replica: u32,
    /// Run everything in one event queue instead of component by component: slower, with the same result, and observers
    /// receive everything in order of time.
    pub one_component: bool,
}

/// A network at work.
pub struct Network {
    scenario: Arc<Scenario>,
    options: Options,
    /// The path of each flow: forward, reverse.
    paths: Vec<[Vec<Hop>; 2]>,
    parts: Vec<Part>,
    /// Until when everything has happened.
    now: Time,
    /// What the parts that are over achieved.
    outcomes: Outcomes,
}

/// A component: the flows and links of which it is made, as the scenario counts them, until it is built.
enum Part {
    Planned { flows: Vec<usize>, links: Vec<usize> },
    Running(Box<Component>),
    Over,
}

impl Network {
    /// Routes the flows of a scenario and finds its components. Nothing has happened yet.
    ///
    /// # Errors
    /// A flow has no path.
    pub fn new(scenario: impl Into<Arc<Scenario>>, options: Options) -> Result<Self, NoPath> {
        let scenario = scenario.into();
        let s = &*scenario;
        let paths = routing::paths(s)?;
        let components = if options.one_component {
            vec![((0..s.flows.len()).collect(), (0..s.links.len()).collect())]
        } else {
            partition::components(&paths, &s.links)
        };
        let parts = components.into_iter().map(|(flows, links)| Part::Planned { flows, links }).collect();
        let outcomes = Outcomes::new(s);
        Ok(Network { scenario, options, paths, parts, now: Time::ZERO, outcomes })
    }

    /// The links that packets of flow `flow` cross from its source to its destination, by number.
    pub fn links(&self, flow: usize) -> impl Iterator<Item = usize> {
        self.paths[flow][0].iter().map(|hop| *hop as usize / 2)
    }

    /// Runs the scenario to its end.
    pub fn run(&mut self) -> RunResult {
        self.run_observed(&mut NoObserver)
    }

    /// [`Network::run`] while `observer` watches.
    pub fn run_observed<O: Observer>(&mut self, observer: &mut O) -> RunResult {
        self.wake_observed(self.scenario.duration, observer);
        self.result()
    }

    /// When the network must be woken next; [`Time::MAX`] = never: nothing is left to happen before the scenario's end.
    pub fn next_wake(&self) -> Time {
        let of = |part: &Part| match part {
            Part::Planned { .. } => self.now,
            Part::Running(component) => component.next_wake(),
            Part::Over => Time::MAX,
        };
        self.parts.iter().map(of).min().unwrap_or(Time::MAX)
    }

    /// Processes everything that is due by `now`, each event at its own time, but nothing after the scenario's end.
    pub fn wake(&mut self, now: Time) {
        self.wake_observed(now, &mut NoObserver);
    }

    /// [`Network::wake`] while `observer` watches.
    pub fn wake_observed<O: Observer>(&mut self, now: Time, observer: &mut O) {
        let s = &self.scenario;
        let seed = Seed { seed: s.seed, replica: self.options.replica };
        for part in &mut self.parts {
            if let Part::Planned { flows, links } = part {
                *part = Part::Running(Box::new(Component::new(s, &seed, &self.paths, flows, links)));
            }
            let Part::Running(component) = part else { continue };
            component.run(now, observer);
            if now >= s.duration {
                component.collect(s.duration, &mut self.outcomes);
                if O::ACTIVE {
                    component.report_end(observer);
                }
                *part = Part::Over;
            }
        }
        self.now = self.now.max(now.min(s.duration));
    }

    /// What was achieved so far.
    pub fn result(&self) -> RunResult {
        let mut outcomes = self.outcomes.clone();
        for part in &self.parts {
            if let Part::Running(component) = part {
                component.collect(self.now, &mut outcomes);
            }
        }
        RunResult::new(&self.scenario, self.options.replica, self.now, outcomes)
    }
}
