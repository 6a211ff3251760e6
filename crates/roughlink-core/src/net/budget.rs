//! Limits of a run. A scenario of a few lines can need 10^12 packets: memory is limited by default, the number of
//! events only on request. Work is counted in steps: each event of the loop, and each packet that a host sends, because
//! one event may make a host send without end. Every 4096 steps, the run looks for a request
//! to stop.
//!
//! Memory is counted for data that grows during a run: packets on links, segments at senders, recorded delays. The sum
//! over N elements needs the state of each, so it is computed once per N to 16 N steps. Near the limit, sums come more
//! often.

use super::RunOptions;
use crate::units::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Events, and packets sent by hosts.
    pub events: u64,
    /// Bytes in memory of packets and records.
    pub bytes: u64,
}

impl RunLimits {
    /// No limits.
    pub const NONE: RunLimits = RunLimits { events: u64::MAX, bytes: u64::MAX };
}

/// No limit on events; [`MAX_BYTES`] of memory.
impl Default for RunLimits {
    fn default() -> Self {
        RunLimits { bytes: MAX_BYTES, ..RunLimits::NONE }
    }
}

/// Reasons why a run ended early: a limit, or [`RunOptions::stop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Exceeded {
    /// [`RunOptions::stop`] was set.
    #[error("the run was stopped at {at} of {duration}")]
    Stopped {
        /// Time reached.
        at: Time,
        /// Duration of the scenario.
        duration: Time,
    },
    /// Too many events.
    #[error("the run has more than {most} events; it ended at {at} of {duration}")]
    Events {
        /// Limit.
        most: u64,
        /// Time reached.
        at: Time,
        /// Duration of the scenario.
        duration: Time,
    },
    /// Too much memory.
    #[error(
        "the run has more than {} MB of packets and records in memory at {at} of {duration}",
        most.div_ceil(1_000_000)
    )]
    Bytes {
        /// Limit.
        most: u64,
        /// Time reached.
        at: Time,
        /// Duration of the scenario.
        duration: Time,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Budget {
    limits: RunLimits,
    stop: Option<Arc<AtomicBool>>,
    steps: u64,
    /// Numbers of steps at which limits are checked next, and at which memory is added up next.
    next: u64,
    next_sum: u64,
    exceeded: Option<Exceeded>,
}

impl Budget {
    pub(super) fn new(options: &RunOptions) -> Self {
        let RunOptions { limits, stop, .. } = options;
        Budget { limits: *limits, stop: stop.clone(), steps: 0, next: 0, next_sum: 0, exceeded: None }
    }

    /// Starts the steps of a component. Checks then come at the same steps of it wherever it runs.
    pub(super) fn begin_component(&mut self) {
        self.next_sum = self.steps + EVERY;
        self.next = self.next_sum.min(self.limits.events);
    }

    /// Counts a step. Returns true if [`Budget::check`] is due.
    #[inline(always)]
    pub(super) fn step(&mut self) -> bool {
        self.steps += 1;
        self.steps > self.next
    }

    /// Returns true if [`Budget::check`] needs the bytes of memory.
    pub(super) fn needs_sum(&self) -> bool {
        self.steps > self.next_sum
    }

    /// Checks the limits at `now`. `sum` has the bytes of memory, and the number of elements summed. Returns true if a
    /// limit is exceeded.
    #[cold]
    pub(super) fn check(&mut self, sum: Option<(usize, usize)>, (now, end): (Time, Time)) -> bool {
        // Once a limit is exceeded, every later step calls `check`, which reports the same limit again.
        if self.exceeded.is_some() {
            return true;
        }
        let RunLimits { events, bytes: most } = self.limits;
        if let Some((bytes, elements)) = sum {
            let least = EVERY.max(elements as u64);
            let until_limit = most.saturating_sub(bytes as u64) / STEP_BYTES;
            self.next_sum = self.steps + until_limit.clamp(least, EVERY.max(16 * elements as u64));
        }
        if self.steps > events {
            self.exceeded = Some(Exceeded::Events { most: events, at: now, duration: end });
        } else if sum.is_some_and(|(bytes, _)| bytes as u64 > most) {
            self.exceeded = Some(Exceeded::Bytes { most, at: now, duration: end });
        } else if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            self.exceeded = Some(Exceeded::Stopped { at: now, duration: end });
        }
        let over = self.exceeded.is_some();
        self.next = if over { 0 } else { (self.steps + EVERY).min(events) };
        over
    }

    pub(super) fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded
    }
}

/// Default limit of packets and records in memory, bytes: four million packets in transit.
pub const MAX_BYTES: u64 = 256_000_000;
/// Bytes that one step may add: the fragments of a datagram of 64 kB.
const STEP_BYTES: u64 = 4096;
/// Steps between two checks.
const EVERY: u64 = 4096;
