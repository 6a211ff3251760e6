//! Watching an emulation, and changing its links, while it runs. The loop has real-time priority and must never wait
//! for a thread without it. All data between the loop and other threads is therefore behind one lock, which the loop
//! only tries. Requests take effect at the loop's next turn, at most some 20 ms later. If the lock is not free, a
//! sample is taken a turn later. The latest samples are kept for any number of threads, and each fetches them at its
//! own pace. A slow thread misses the oldest ones. Counts are totals, so only the lateness of these intervals is lost.

use crate::conversations::{ConversationResults, Conversations};
use crate::ethernet::Switch;
use crate::event_loop::{Lateness, LatenessHistogram};
use roughlink_core::net::{ChangeError, LinkChange, LinkReading, Network, Observer};
use roughlink_core::scenario::Scenario;
use roughlink_core::units::Time;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// State of a running emulation at an instant.
#[derive(Clone, Debug)]
pub struct EmulationSample {
    /// Time of the sample.
    pub at: Time,
    /// Both directions of each link, forward first.
    pub links: Vec<[LinkReading; 2]>,
    /// Results so far of the largest conversations.
    pub achieved: ConversationResults,
    /// Lateness of datagrams since the previous sample; `None` if no datagram left.
    pub lateness: Option<Lateness>,
}

/// Request to change a link.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeRequest {
    /// Index of the link in the scenario.
    pub link: usize,
    /// Forward, reverse or both.
    pub directions: [bool; 2],
    /// New values.
    pub change: LinkChange,
    /// Duration of an outage after which the link comes up again.
    pub outage: Option<Time>,
}

/// Applied change of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct AppliedChange {
    /// Time of the change.
    pub at: Time,
    /// Index of the link in the scenario.
    pub link: usize,
    /// Forward, reverse or both.
    pub directions: [bool; 2],
    /// New values.
    pub change: LinkChange,
}

/// Error of a request to change a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeRequestError {
    /// Change that the link does not support.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// Too many requests that the loop has not applied yet.
    #[error("too many changes are pending")]
    Busy,
    /// Too many changes in total: the result contains all of them.
    #[error("an emulation accepts at most {MAX_CHANGES} changes")]
    TooMany,
    /// End of the emulation.
    #[error("the emulation has ended")]
    Over,
}

/// Handle of a running emulation for other threads.
#[derive(Debug)]
pub struct Live {
    scenario: Arc<Scenario>,
    shared: Mutex<LiveState>,
    /// True if there are requests: the loop checks only this flag.
    asked: AtomicBool,
    over: AtomicBool,
}

#[derive(Debug, Default)]
struct LiveState {
    asked: Vec<ChangeRequest>,
    accepted: usize,
    /// Latest samples, and the number of all samples taken.
    samples: VecDeque<Arc<EmulationSample>>,
    taken: u64,
}

impl Live {
    /// Creates the handle of an emulation of this scenario that has not started.
    pub fn new(scenario: Arc<Scenario>) -> Arc<Self> {
        let (shared, asked, over) = Default::default();
        Arc::new(Live { scenario, shared, asked, over })
    }

    /// Locks the shared data, for threads of ordinary priority.
    fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Requests a change, which the loop applies soon.
    ///
    /// # Errors
    /// Returns an error if the change is impossible.
    ///
    /// # Panics
    /// Panics if the scenario has no such link.
    pub fn request(&self, asked: ChangeRequest) -> Result<(), ChangeRequestError> {
        asked.change.check(&self.scenario.links[asked.link].model, asked.directions)?;
        let mut shared = self.lock();
        if self.is_over() {
            return Err(ChangeRequestError::Over);
        }
        if shared.asked.len() >= MAX_ASKED {
            return Err(ChangeRequestError::Busy);
        }
        // The end of an outage counts as a change, too.
        let changes = 1 + usize::from(asked.outage.is_some());
        if shared.accepted + changes > MAX_CHANGES {
            return Err(ChangeRequestError::TooMany);
        }
        shared.accepted += changes;
        shared.asked.push(asked);
        self.asked.store(true, Ordering::Release);
        Ok(())
    }

    /// Returns the latest samples after the first `seen`, up to [`MAX_SAMPLES`], and sets `seen` to the total number.
    pub fn samples(&self, seen: &mut u64) -> Vec<Arc<EmulationSample>> {
        let shared = self.lock();
        let new = shared.taken - std::mem::replace(seen, shared.taken);
        let from = shared.samples.len().saturating_sub(new as usize);
        shared.samples.range(from..).cloned().collect()
    }

    /// Returns true if the emulation has ended; no samples follow.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// Loop's side of [`Live`], without cost if there is no handle.
pub(crate) struct LiveWatch {
    live: Option<Arc<Live>>,
    late: LatenessHistogram,
    /// Time of the next sample.
    next: Time,
    /// Ends of outages, with their times.
    ends: Vec<(Time, ChangeRequest)>,
    changed: Vec<AppliedChange>,
}

impl LiveWatch {
    pub(crate) fn new(live: Option<Arc<Live>>) -> Self {
        let next = if live.is_some() { Time::ZERO } else { Time::MAX };
        LiveWatch { live, late: LatenessHistogram::default(), next, ends: Vec::new(), changed: Vec::new() }
    }

    /// Returns the latest time at which [`LiveWatch::wake`] must run.
    pub(crate) fn next_wake(&self) -> Time {
        self.ends.iter().fold(self.next, |next, (at, _)| next.min(*at))
    }

    #[inline]
    pub(crate) fn record_lateness(&mut self, late: Time) {
        if self.live.is_some() {
            self.late.record(late);
        }
    }

    /// Applies due changes and takes a due sample. The network has run up to `now`.
    pub(crate) fn wake<O: Observer>(
        &mut self,
        now: Time,
        network: &mut Network<O>,
        switch: &Switch,
        conversations: &Conversations,
    ) {
        let is_due = |live: &&Arc<Live>| live.asked.load(Ordering::Acquire) || now >= self.next_wake();
        let Some(live) = self.live.as_ref().filter(is_due).cloned() else { return };
        while let Some(i) = self.ends.iter().position(|(at, _)| *at <= now) {
            let (_, end) = self.ends.swap_remove(i);
            self.change(now, end, network);
        }
        if live.asked.load(Ordering::Acquire)
            && let Ok(mut shared) = live.shared.try_lock()
        {
            live.asked.store(false, Ordering::Relaxed);
            let all = std::mem::take(&mut shared.asked);
            drop(shared);
            for asked in all {
                self.change(now, asked, network);
            }
        }
        if now >= self.next {
            let achieved = conversations.results(MAX_SAMPLED, network.in_flight().chain(switch.waiting()));
            let lateness = self.late.lateness();
            let sample = Arc::new(EmulationSample { at: now, links: network.readings(), achieved, lateness });
            if let Ok(mut shared) = live.shared.try_lock() {
                if shared.samples.len() >= MAX_SAMPLES {
                    shared.samples.pop_front();
                }
                shared.samples.push_back(sample);
                shared.taken += 1;
                drop(shared);
                self.late = LatenessHistogram::default();
                self.next = Time((now.0 / INTERVAL.0 + 1) * INTERVAL.0);
            } else {
                // The thread that holds the lock may be waiting for this processor.
                self.next = now + RETRY;
            }
        }
    }

    fn change<O: Observer>(&mut self, now: Time, asked: ChangeRequest, network: &mut Network<O>) {
        let ChangeRequest { link, directions, change, outage } = asked;
        if network.change(now, link, directions, &change).is_err() {
            return; // the request was checked
        }
        if change.up.is_some() {
            // A change of `up` replaces the pending end of an outage in the same directions.
            for (_, end) in self.ends.iter_mut().filter(|(_, end)| end.link == link) {
                end.directions = [0, 1].map(|way| end.directions[way] && !directions[way]);
            }
            self.ends.retain(|(_, end)| end.directions.contains(&true));
        }
        if let Some(outage) = outage {
            let up = LinkChange { up: Some(true), ..LinkChange::default() };
            self.ends.push((now + outage, ChangeRequest { link, directions, change: up, outage: None }));
        }
        self.changed.push(AppliedChange { at: now, link, directions, change });
    }

    pub(crate) fn changed(&mut self) -> Vec<AppliedChange> {
        std::mem::take(&mut self.changed)
    }
}

impl Drop for LiveWatch {
    fn drop(&mut self) {
        if let Some(live) = &self.live {
            live.over.store(true, Ordering::Release);
        }
    }
}

/// Interval between samples.
pub const INTERVAL: Time = Time::from_millis(100);
/// Number of samples kept for slow threads: some seconds.
pub const MAX_SAMPLES: usize = 32;
/// Maximum number of conversations in a sample.
const MAX_SAMPLED: usize = 8;
/// Delay before the next attempt if the lock was not free.
const RETRY: Time = Time::from_millis(1);
/// Maximum number of requests that wait for the loop.
const MAX_ASKED: usize = 64;
/// Maximum number of changes in one emulation.
const MAX_CHANGES: usize = 100_000;
