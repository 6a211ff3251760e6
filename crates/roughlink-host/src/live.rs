//! Watching an emulation, and changing its links, while it runs.
//!
//! The loop has real-time priority and must never wait for a thread without it. All data between the loop and other
//! threads is therefore behind one lock, which the loop only tries. Requests take effect at the loop's next turn, at
//! most some 20 ms later. If the lock is not free, a sample is taken a turn later. The latest samples are kept for any
//! number of threads, and each fetches them at its own pace. A thread that is too slow misses the oldest samples.
//! Counts are totals, so only the lateness of these intervals is lost.

use crate::conversations::{Achieved, Conversations};
use crate::ethernet::Switch;
use crate::relay::{Late, Lateness};
use roughlink_core::net::{Change, ChangeError, Network, Observer, Reading};
use roughlink_core::scenario::Scenario;
use roughlink_core::units::Time;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is seen of an emulation at an instant.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When.
    pub at: Time,
    /// Both directions of each link, forward first.
    pub links: Vec<[Reading; 2]>,
    /// What the largest conversations achieved so far.
    pub achieved: Achieved,
    /// How late datagrams left since the sample before; nothing if none did.
    pub lateness: Option<Lateness>,
}

/// A link is to change.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The link, by its number in the scenario.
    pub link: usize,
    /// Forward, reverse or both.
    pub directions: [bool; 2],
    /// What changes.
    pub change: Change,
    /// How long the link is down, if it goes down and comes up by itself.
    pub outage: Option<Time>,
}

/// A link has changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// When.
    pub at: Time,
    /// The link, by its number in the scenario.
    pub link: usize,
    /// Forward, reverse or both.
    pub directions: [bool; 2],
    /// What changed.
    pub change: Change,
}

/// A link cannot be changed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The link is not one that can.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The loop has not yet taken in what was asked for before.
    #[error("too many changes at once")]
    Busy,
    /// All of them are kept for the result.
    #[error("no more than {MOST_CHANGES} changes in one emulation")]
    TooMany,
    /// It has ended.
    #[error("the emulation has ended")]
    Over,
}

/// An emulation at work, as other threads see it.
#[derive(Debug)]
pub struct Live {
    scenario: Arc<Scenario>,
    shared: Mutex<Shared>,
    /// Something was asked for: the loop looks at nothing else.
    asked: AtomicBool,
    over: AtomicBool,
}

#[derive(Debug, Default)]
struct Shared {
    asked: Vec<Asked>,
    accepted: usize,
    /// The latest, and how many there have been.
    samples: VecDeque<Arc<Sample>>,
    taken: u64,
}

impl Live {
    /// As an emulation of this scenario has it before it begins.
    pub fn new(scenario: Arc<Scenario>) -> Arc<Self> {
        let (shared, asked, over) = Default::default();
        Arc::new(Live { scenario, shared, asked, over })
    }

    /// The lock, for threads of ordinary priority.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Asks for a change, which takes place soon.
    ///
    /// # Errors
    /// It cannot take place.
    ///
    /// # Panics
    /// The scenario has no such link.
    pub fn ask(&self, asked: Asked) -> Result<(), AskError> {
        asked.change.check(&self.scenario.links[asked.link].model, asked.directions)?;
        let mut shared = self.lock();
        if self.is_over() {
            return Err(AskError::Over);
        }
        if shared.asked.len() >= MOST_ASKED {
            return Err(AskError::Busy);
        }
        // The end of an outage is a change, too.
        let changes = 1 + usize::from(asked.outage.is_some());
        if shared.accepted + changes > MOST_CHANGES {
            return Err(AskError::TooMany);
        }
        shared.accepted += changes;
        shared.asked.push(asked);
        self.asked.store(true, Ordering::Release);
        Ok(())
    }

    /// The samples after the first `seen`, at most the latest [`MOST_SAMPLES`]; `seen` counts them, too, then.
    pub fn samples(&self, seen: &mut u64) -> Vec<Arc<Sample>> {
        let shared = self.lock();
        let new = shared.taken - std::mem::replace(seen, shared.taken);
        let from = shared.samples.len().saturating_sub(new as usize);
        shared.samples.range(from..).cloned().collect()
    }

    /// Whether the emulation has ended; what is to be had of its samples is there then.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// The loop's side of [`Live`]. Without one it costs nothing.
pub(crate) struct Watch {
    live: Option<Arc<Live>>,
    late: Late,
    /// When the next sample is taken.
    next: Time,
    /// When outages end.
    ends: Vec<(Time, Asked)>,
    changed: Vec<Changed>,
}

impl Watch {
    pub(crate) fn new(live: Option<Arc<Live>>) -> Self {
        let next = if live.is_some() { Time::ZERO } else { Time::MAX };
        Watch { live, late: Late::default(), next, ends: Vec::new(), changed: Vec::new() }
    }

    /// When it has something to do at the latest.
    pub(crate) fn next_wake(&self) -> Time {
        self.ends.iter().fold(self.next, |next, (at, _)| next.min(*at))
    }

    /// A datagram left so late.
    #[inline]
    pub(crate) fn late(&mut self, late: Time) {
        if self.live.is_some() {
            self.late.record(late);
        }
    }

    /// Does what is due: changes, and a sample. The network was woken for `now`.
    pub(crate) fn wake<O: Observer>(
        &mut self,
        now: Time,
        (network, switch, conversations): (&mut Network, &Switch, &Conversations),
        observer: &mut O,
    ) {
        let is_due = |live: &&Arc<Live>| live.asked.load(Ordering::Acquire) || now >= self.next_wake();
        let Some(live) = self.live.as_ref().filter(is_due).cloned() else { return };
        while let Some(i) = self.ends.iter().position(|(at, _)| *at <= now) {
            let (_, end) = self.ends.swap_remove(i);
            self.change(now, end, network, observer);
        }
        if live.asked.load(Ordering::Acquire)
            && let Ok(mut shared) = live.shared.try_lock()
        {
            live.asked.store(false, Ordering::Relaxed);
            let all = std::mem::take(&mut shared.asked);
            drop(shared);
            for asked in all {
                self.change(now, asked, network, observer);
            }
        }
        if now >= self.next {
            let achieved = conversations.so_far(MOST_SAMPLED, network.in_flight().chain(switch.waiting()));
            let lateness = self.late.lateness();
            let sample = Arc::new(Sample { at: now, links: network.readings(), achieved, lateness });
            if let Ok(mut shared) = live.shared.try_lock() {
                if shared.samples.len() >= MOST_SAMPLES {
                    shared.samples.pop_front();
                }
                shared.samples.push_back(sample);
                shared.taken += 1;
                drop(shared);
                self.late = Late::default();
                self.next = Time((now.0 / INTERVAL.0 + 1) * INTERVAL.0);
            } else {
                // Whoever has the lock may be waiting for this processor.
                self.next = now + RETRY;
            }
        }
    }

    fn change<O: Observer>(&mut self, now: Time, asked: Asked, network: &mut Network, observer: &mut O) {
        let Asked { link, directions, change, outage } = asked;
        if network.change_observed(now, link, directions, &change, observer).is_err() {
            return; // it was checked when it was asked for
        }
        if change.up.is_some() {
            // An outage ends where something else is said about the same directions before its end.
            for (_, end) in self.ends.iter_mut().filter(|(_, end)| end.link == link) {
                end.directions = [0, 1].map(|way| end.directions[way] && !directions[way]);
            }
            self.ends.retain(|(_, end)| end.directions.contains(&true));
        }
        if let Some(outage) = outage {
            let up = Change { up: Some(true), ..Change::default() };
            self.ends.push((now + outage, Asked { link, directions, change: up, outage: None }));
        }
        self.changed.push(Changed { at: now, link, directions, change });
    }

    /// What was changed.
    pub(crate) fn changed(&mut self) -> Vec<Changed> {
        std::mem::take(&mut self.changed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(live) = &self.live {
            live.over.store(true, Ordering::Release);
        }
    }
}

/// Time from one sample to the next.
pub const INTERVAL: Time = Time::from_millis(100);
/// Samples that are kept for whoever fetches them: some seconds.
pub const MOST_SAMPLES: usize = 32;
/// Conversations in a sample.
const MOST_SAMPLED: usize = 8;
/// When a sample is tried again for which the lock was not free.
const RETRY: Time = Time::from_millis(1);
/// Changes that wait for the loop.
const MOST_ASKED: usize = 64;
/// Changes in one emulation.
const MOST_CHANGES: usize = 100_000;
