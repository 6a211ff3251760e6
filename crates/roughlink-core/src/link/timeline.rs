//! Links that change during a run: rate, delay, noise and up or down, piecewise in time.
//!
//! A [`Timeline`] is a list of [`Step`]s. [`DirectionStates`] yields the resulting states of a direction one by one, so
//! a recurring step takes no more memory than others. [`Changes`] applies a timeline to packets.
//!
//! A change applies to data not yet serialized: the remaining bits of a partly sent packet are sent at the new rate.
//! Packets on air arrive as planned, and order is kept. While the link is down, [`OutagePolicy::Drop`] keeps the
//! serializer running and loses arrivals; [`OutagePolicy::Keep`] stops the serializer and loses nothing.

mod changes;
mod opportunities;
mod states;

pub use changes::{Changes, Serialized};
pub use opportunities::Opportunities;
pub use states::DirectionStates;

use super::Direction;
use super::noise::Noise;
use crate::units::{Rate, Time};

/// Changes of one direction of a link, with their times.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Timeline {
    /// Ascending by [`Step::at`].
    steps: Vec<Step>,
    /// Noises, by the index in [`Step::noise`].
    pub noises: Vec<Noise>,
    /// Treatment of packets while the link is down.
    pub policy: OutagePolicy,
    /// Recorded departures, in place of a rate.
    pub opportunities: Option<Opportunities>,
    end: Time,
    /// Set if changes also come from outside, so that a step to the current value may have an effect.
    open: bool,
}

/// Sets some properties of a direction for a time, or permanently. Of the steps in force that set a property, the one
/// that began last applies; without any, the [`Direction`] applies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Start.
    pub at: Time,
    /// End, later than `at`; never if `None`.
    pub until: Option<Time>,
    /// Period of repetition, more than zero.
    pub every: Option<Time>,
    /// Set if packets pass.
    pub up: Option<bool>,
    /// Serialization rate.
    pub rate: Option<Rate>,
    /// Propagation delay.
    pub delay: Option<Time>,
    /// Signal strength in dBm. Packets do not depend on it, but hosts are notified.
    pub signal: Option<f64>,
    /// Index into the noises of the timeline.
    pub noise: Option<u32>,
}

/// The state of a link direction for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DirectionState {
    /// Set if packets pass.
    pub up: bool,
    /// Serialization rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Time,
    /// Signal strength, dBm.
    pub signal: Option<f64>,
    /// Index into the noises of the timeline; `None` = the noise of the [`Direction`].
    pub noise: Option<u32>,
}

impl DirectionState {
    /// Returns the state of `direction` before the first step.
    pub const fn from_direction(direction: &Direction) -> Self {
        DirectionState { up: true, rate: direction.rate, delay: direction.delay, signal: None, noise: None }
    }
}

/// Treatment of packets while the link is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutagePolicy {
    /// The serializer continues; a packet that arrives while the link is down is lost.
    #[default]
    Drop,
    /// The serializer stops; packets waiting and on air are kept.
    Keep,
}

impl Timeline {
    /// Creates the timeline of `steps`, ascending by [`Step::at`], with `noises`; nothing changes after `end`.
    pub fn new(steps: Vec<Step>, noises: Vec<Noise>, end: Time) -> Self {
        debug_assert!(steps.is_sorted_by_key(|step| step.at));
        Timeline { steps, noises, policy: OutagePolicy::default(), opportunities: None, end, open: false }
    }

    /// Sets `policy`, and recorded departures in place of a rate if there are any.
    pub fn with(self, policy: OutagePolicy, opportunities: Option<Opportunities>) -> Self {
        Timeline { policy, opportunities, ..self }
    }

    /// Allows changes from outside.
    pub fn opened(self) -> Self {
        Timeline { open: true, ..self }
    }

    /// Returns an upper bound on the number of times that steps start or end before the end of the timeline.
    pub fn changes(&self) -> u64 {
        let of = |step: &Step| {
            let left = self.end.0.checked_sub(step.at.0)?;
            let times = step.every.map_or(1, |every| left / every.0.max(1) + 1);
            Some(times.saturating_mul(1 + u64::from(step.until.is_some())))
        };
        self.steps.iter().filter_map(of).fold(0, u64::saturating_add)
    }
}
