//! Does runs on all cores: one thread per run, the longest first; finished runs are kept in the store.

use crate::error::LabError;
use crate::store::{Record, Store};
use crate::watch::{Watch, Watcher};
use roughlink_core::app::Traffic;
use roughlink_core::metrics::RunResult;
use roughlink_core::net::{Network, Options};
use roughlink_core::scenario::Scenario;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// A run to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// What identifies its result: scenario, replica, what is watched, engine.
    pub key: String,
    /// What is run.
    pub scenario: Arc<Scenario>,
    /// Which replica.
    pub replica: u32,
    /// What is recorded.
    pub watch: Option<Watch>,
    /// Its title for people.
    pub title: String,
}

impl Job {
    /// A job; `fingerprint` identifies the scenario ([`crate::library::Parsed`]).
    pub fn new(scenario: Arc<Scenario>, fingerprint: u128, replica: u32, watch: Option<Watch>, title: String) -> Self {
        let watched = watch.as_ref().map_or_else(String::new, |w| {
            let flow = w.flow.as_deref().unwrap_or_default();
            format!("-{}-{}-{flow}{}", w.every_ns, w.curves.join("+"), w.windows_key())
        });
        let key = format!("{fingerprint:032x}-{replica}{watched}-{ENGINE}");
        Job { key, scenario, replica, watch, title }
    }

    /// Estimated cost: bytes to be carried.
    pub fn cost(&self) -> u64 {
        let s = &self.scenario;
        let seconds = s.duration.as_secs_f64();
        let fastest = s.links.iter().map(|l| l.model.rate().0).min().unwrap_or(0) as f64;
        let flow = |traffic: &Traffic| match traffic {
            Traffic::Bulk { bytes: Some(bytes) } => (*bytes as f64).min(seconds * fastest / 8.0),
            Traffic::Bulk { bytes: None } => seconds * fastest / 8.0,
            Traffic::Cbr { rate, .. } => seconds * rate.0 as f64 / 8.0,
            Traffic::Voip { config, .. } => {
                2.0 * seconds / config.speech.interval.as_secs_f64() * f64::from(config.datagram())
            }
            Traffic::Request { .. } => 0.0, // it mostly waits
        };
        s.flows.iter().map(|f| flow(&f.traffic)).sum::<f64>() as u64 + 1
    }

    fn run(&self) -> Record {
        let options = Options { replica: self.replica, ..Options::default() };
        let mut network = Network::new(Arc::clone(&self.scenario), options).expect("it was routed before");
        let (result, watched) = match &self.watch {
            None => (timed(|| network.run()), None),
            Some(watch) => {
                let mut watcher = Watcher::new(watch, &self.scenario);
                let result = timed(|| network.run_observed(&mut watcher));
                let watched = watcher.finish(watch, &result);
                (result, Some(watched))
            }
        };
        Record { key: self.key.clone(), result, watched }
    }
}

/// Runs something and notes the wall-clock time that it took.
#[allow(clippy::disallowed_methods, reason = "wall_s is a wall-clock time; nothing simulated depends on it")]
pub fn timed(run: impl FnOnce() -> RunResult) -> RunResult {
    let start = std::time::Instant::now();
    let mut result = run();
    result.wall_s = start.elapsed().as_secs_f64();
    result
}

/// The progress of a grid of runs, in units of [`Job::cost`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Runs of this grid.
    pub runs: usize,
    /// Runs done, those from the store included.
    pub done: usize,
    /// Runs that the store already had.
    pub kept: usize,
    /// Cost of the runs that the store lacked.
    pub cost: u64,
    /// Cost of those that are done.
    pub spent: u64,
}

/// How a grid of runs ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All runs are in the store.
    Complete,
    /// It was interrupted; the runs under way were finished.
    Stopped,
}

/// Does the jobs that the store lacks, on `threads` threads, until all are done or `stop` is set. `report` is called
/// every second and whenever a run is done.
pub fn run(
    mut jobs: Vec<Job>,
    store: &mut Store,
    threads: usize,
    stop: &AtomicBool,
    report: &mut dyn FnMut(Progress),
) -> Result<Ending, LabError> {
    let mut seen = std::collections::HashSet::new();
    jobs.retain(|job| seen.insert(job.key.clone()));
    let runs = jobs.len();
    jobs.retain(|job| store.get(&job.key).is_none());
    jobs.sort_by_key(|job| (std::cmp::Reverse(job.cost()), job.key.clone()));
    let kept = runs - jobs.len();
    let mut progress = Progress { runs, done: kept, kept, cost: jobs.iter().map(Job::cost).sum(), spent: 0 };
    report(progress);
    let next = AtomicUsize::new(0);
    let give_up = AtomicBool::new(false);
    let mut broken = Vec::new();
    let mut failure = None;
    std::thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            let (sender, jobs, next, give_up) = (sender.clone(), &jobs, &next, &give_up);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) && !give_up.load(Ordering::Relaxed) {
                    let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                    let outcome = catch_unwind(AssertUnwindSafe(|| job.run()))
                        .map_err(|panic| format!("{}: {}", job.title, message(panic.as_ref())));
                    if sender.send((job.cost(), outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        loop {
            match results.recv_timeout(Duration::from_secs(1)) {
                Ok((cost, outcome)) => {
                    progress.done += 1;
                    progress.spent += cost;
                    match outcome {
                        Ok(record) => {
                            if let Err(e) = store.append(record) {
                                give_up.store(true, Ordering::Relaxed);
                                failure.get_or_insert(e);
                            }
                        }
                        Err(message) => broken.push(message),
                    }
                    report(progress);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => report(progress),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    let written = store.sync(); // also repeats writes that failed
    failure.map_or(written, Err)?;
    if let Some(message) = broken.first() {
        return Err(LabError::Broken { count: broken.len(), message: message.clone() });
    }
    Ok(if progress.done < runs { Ending::Stopped } else { Ending::Complete })
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked").to_owned()
}

/// The engine that made a result: its version and the hash of its source code.
pub const ENGINE: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("ROUGHLINK_ENGINE"));
