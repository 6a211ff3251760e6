//! What a run may use. A scenario of a few lines can ask for 10^12 packets: time is not limited unless asked for, memory
//! is.
//!
//! Work is counted in steps: each event of the loop and each packet that a host sends, so that an event which sends without
//! end is bounded too. Memory is what grows while a run lasts: packets on links, segments at senders, recorded delays. It is
//! added up every few thousand steps, and at least as many as there are elements, so that the loop does not notice.

use super::Options;
use crate::units::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a run may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Events, and packets sent by hosts.
    pub events: u64,
    /// Bytes in memory of packets and records.
    pub bytes: u64,
}

impl Limits {
    /// None.
    pub const NONE: Limits = Limits { events: u64::MAX, bytes: u64::MAX };
}

/// No limit of time; memory for [`MOST_BYTES`].
impl Default for Limits {
    fn default() -> Self {
        Limits { bytes: MOST_BYTES, ..Limits::NONE }
    }
}

/// A run needs more than its limits allow, or was told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// Somebody has set [`Options::stop`].
    #[error("the run was stopped at {at} of {duration}")]
    Stopped {
        /// How far it got.
        at: Time,
        /// How far it should have got.
        duration: Time,
    },
    /// More events.
    #[error("the run has more than {most} events; it ended at {at} of {duration}")]
    Events {
        /// The limit.
        most: u64,
        /// How far it got.
        at: Time,
        /// How far it should have got.
        duration: Time,
    },
    /// More memory.
    #[error("the run has more than {} MB of packets and records in memory at {at} of {duration}", most.div_ceil(1_000_000))]
    Bytes {
        /// The limit.
        most: u64,
        /// How far it got.
        at: Time,
        /// How far it should have got.
        duration: Time,
    },
}

/// The limits of a run, and what it has used of them.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    limits: Limits,
    stop: Option<Arc<AtomicBool>>,
    steps: u64,
    /// When to add up next.
    next: u64,
    exceeded: Option<Exceeded>,
}

impl Budget {
    pub(super) fn new(options: &Options) -> Self {
        let Options { limits, stop, .. } = options;
        Budget { limits: *limits, stop: stop.clone(), steps: 0, next: EVERY.min(limits.events), exceeded: None }
    }

    /// Another step; whether it is time for [`Budget::check`].
    #[inline(always)]
    pub(super) fn step(&mut self) -> bool {
        self.steps += 1;
        self.steps > self.next
    }

    /// Compares with the limits at `now`: `bytes` are in memory, added up over `elements`. Returns whether they are exceeded.
    #[cold]
    pub(super) fn check(&mut self, bytes: u64, elements: u64, (now, end): (Time, Time)) -> bool {
        let Limits { events, bytes: most } = self.limits;
        if self.steps > events {
            self.exceeded = Some(Exceeded::Events { most: events, at: now, duration: end });
        } else if bytes > most {
            self.exceeded = Some(Exceeded::Bytes { most, at: now, duration: end });
        } else if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            self.exceeded = Some(Exceeded::Stopped { at: now, duration: end });
        }
        // What has exceeded a limit once is over, wherever the loop asks next.
        let over = self.exceeded.is_some();
        self.next = if over { 0 } else { (self.steps + EVERY.max(elements)).min(events) };
        over
    }

    /// The limit that was exceeded, if any.
    pub(super) fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded
    }
}

/// Bytes of packets and records in memory, unless more are allowed: four million packets on their way.
pub const MOST_BYTES: u64 = 256_000_000;
/// Steps between two sums.
const EVERY: u64 = 4096;
