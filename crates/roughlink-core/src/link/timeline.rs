//! Links that change under their packets: rate, delay, noise and up or down, piecewise in time.
//!
//! A [`Timeline`] is a list of [`Step`]s; [`States`] yields the states that they make of a direction one after the other, so
//! that a step that recurs takes no more memory than another. [`Changes`] is a timeline at work on the packets of a direction.
//!
//! A change applies to what is not yet serialised: a packet half out goes on at the new rate with the bits it has left,
//! what is on air arrives when it would have, and order is kept. While the link is down, [`Policy::Drop`] lets the
//! serialiser go on and loses what arrives; [`Policy::Keep`] stops the serialiser and loses nothing.

mod changes;
mod opportunities;
mod states;

pub use changes::Changes;
pub use opportunities::Opportunities;
pub use states::States;

use super::Direction;
use super::noise::Noise;
use crate::units::{Rate, Time};

/// What changes in one direction of a link, and when.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Timeline {
    /// Ascending by [`Step::at`].
    steps: Vec<Step>,
    /// What [`Step::noise`] counts.
    pub noises: Vec<Noise>,
    /// What being down does to packets.
    pub policy: Policy,
    /// Recorded departures, in place of a rate.
    pub opportunities: Option<Opportunities>,
    end: Time,
    /// Changes come from outside, too, so that a step may matter that sets what is set already.
    open: bool,
}

/// Sets some properties of a direction from one time to another, or from then on. Of the steps that set a property at some
/// time, the one that began last counts; without any the property is what the [`Direction`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// When it begins.
    pub at: Time,
    /// When it ceases, later than `at`; never if `None`.
    pub until: Option<Time>,
    /// It begins again each time this has passed; more than zero.
    pub every: Option<Time>,
    /// Packets get through.
    pub up: Option<bool>,
    /// Serialisation rate.
    pub rate: Option<Rate>,
    /// Propagation delay.
    pub delay: Option<Time>,
    /// Signal strength, dBm: packets do not depend on it, but hosts are notified of it.
    pub signal: Option<f64>,
    /// Index into the noises of the timeline.
    pub noise: Option<u32>,
}

/// The state of a link direction for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Packets get through.
    pub up: bool,
    /// Serialisation rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Time,
    /// Signal strength, dBm.
    pub signal: Option<f64>,
    /// Index into the noises of the timeline; `None` = the noise of the [`Direction`].
    pub noise: Option<u32>,
}

impl State {
    /// What `direction` is like before the first step.
    pub const fn of(direction: &Direction) -> Self {
        State { up: true, rate: direction.rate, delay: direction.delay, signal: None, noise: None }
    }
}

/// What being down does to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The serialiser goes on; a packet that arrives while the link is down is lost.
    #[default]
    Drop,
    /// The serialiser stops; what waits and what is on air is kept.
    Keep,
}

impl Timeline {
    /// The timeline of `steps`, ascending by [`Step::at`], whose noises are `noises`; nothing changes after `end`.
    pub fn new(steps: Vec<Step>, noises: Vec<Noise>, end: Time) -> Self {
        debug_assert!(steps.is_sorted_by_key(|step| step.at));
        Timeline { steps, noises, policy: Policy::default(), opportunities: None, end, open: false }
    }

    /// The same with another `policy`, and with recorded departures in place of a rate if there are any.
    pub fn with(self, policy: Policy, opportunities: Option<Opportunities>) -> Self {
        Timeline { policy, opportunities, ..self }
    }

    /// The same for a link that is changed from outside, too.
    pub fn opened(self) -> Self {
        Timeline { open: true, ..self }
    }

    /// At most how often something begins or ceases until the end.
    pub fn changes(&self) -> u64 {
        let of = |step: &Step| {
            let left = self.end.0.checked_sub(step.at.0)?;
            let times = step.every.map_or(1, |every| left / every.0.max(1) + 1);
            Some(times.saturating_mul(1 + u64::from(step.until.is_some())))
        };
        self.steps.iter().filter_map(of).fold(0, u64::saturating_add)
    }
}
