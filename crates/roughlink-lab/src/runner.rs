//! Does runs on all cores: one thread per run, the longest first; finished runs are kept in the store.

use crate::error::LabError;
use crate::store::{Record, Store};
use crate::watch::{Watch, Watcher};
use roughlink_core::app::Traffic;
use roughlink_core::metrics::RunResult;
use roughlink_core::net::{Exceeded, Limits, Network, Options};
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
    /// What it may use; this does not change its result.
    pub limits: Limits,
    /// It takes the time that it is about.
    pub real_time: bool,
}

impl Job {
    /// A job; `fingerprint` identifies the scenario ([`crate::library::Parsed`]).
    pub fn new(scenario: Arc<Scenario>, fingerprint: u128, replica: u32, watch: Option<Watch>, title: String) -> Self {
        let key = key(fingerprint, replica, watch.as_ref());
        Job { key, scenario, replica, watch, title, limits: Limits::default(), real_time: false }
    }

    /// Estimated cost: bytes to be carried, or in real time how many of them the slowest link carries meanwhile.
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
            Traffic::OnOff(c) => {
                let share = c.on.as_secs_f64() / (c.on + c.off).as_secs_f64().max(1e-9);
                seconds * (c.rate.0 as f64).min(fastest) / 8.0 * share
            }
            Traffic::Web(_) | Traffic::Request { .. } => 0.0, // they mostly wait
        };
        let costs = s.flows.iter().map(|f| flow(&f.traffic));
        (if self.real_time { costs.fold(0.0, f64::max) } else { costs.sum() }) as u64 + 1
    }

    /// Simulates it.
    ///
    /// # Errors
    /// It exceeds its limits, or `stop` was set.
    pub fn simulate(&self, stop: Option<Arc<AtomicBool>>) -> Result<Record, Exceeded> {
        let options = Options { replica: self.replica, limits: self.limits, stop, ..Options::default() };
        let mut network = Network::new(Arc::clone(&self.scenario), options).expect("it was routed before");
        let (result, watched) = match &self.watch {
            None => (timed(|| network.run())?, None),
            Some(watch) => {
                let mut watcher = Watcher::new(watch, &self.scenario);
                let result = timed(|| network.run_observed(&mut watcher))?;
                let watched = watcher.finish(watch, &result);
                (result, Some(watched))
            }
        };
        Ok(Record { key: self.key.clone(), result, watched })
    }
}

/// Who does runs, each in a thread of its own, until the flag is set.
pub type Executor<'a> = &'a (dyn Fn(&Job, Option<Arc<AtomicBool>>) -> Result<Record, Failed> + Sync);

/// Why a run was not done.
#[derive(Debug)]
pub enum Failed {
    /// It exceeds its limits, or was stopped.
    Exceeded(Exceeded),
    /// The machine could not do it: why.
    Machine(String),
}

impl From<Exceeded> for Failed {
    fn from(limit: Exceeded) -> Self {
        Failed::Exceeded(limit)
    }
}

/// What identifies the result of a run.
pub(crate) fn key(fingerprint: u128, replica: u32, watch: Option<&Watch>) -> String {
    let watched = watch.map_or_else(String::new, |w| {
        let flow = w.flow.as_deref().unwrap_or_default();
        format!("-{}-{}-{flow}{}", w.every_ns, w.curves.join("+"), w.windows_key())
    });
    format!("{fingerprint:032x}-{replica}{watched}-{ENGINE}")
}

/// Runs something and notes the wall-clock time that it took.
#[allow(clippy::disallowed_methods, reason = "wall_s is a wall-clock time; nothing simulated depends on it")]
pub fn timed(run: impl FnOnce() -> Result<RunResult, Exceeded>) -> Result<RunResult, Exceeded> {
    let start = std::time::Instant::now();
    let mut result = run()?;
    result.wall_s = start.elapsed().as_secs_f64();
    Ok(result)
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
    /// Cost of the runs that the store lacked; of those not planned yet, an estimate.
    pub cost: u64,
    /// Cost of those of them that have been planned.
    pub planned: u64,
    /// Cost of those that are done.
    pub spent: u64,
}

/// By what a grid of runs is ended before all are done: no run begins once it is set.
#[derive(Clone, Copy, Debug)]
pub enum Stop<'a> {
    /// Runs under way are finished.
    AfterRuns(&'a AtomicBool),
    /// Runs under way are given up.
    AtOnce(&'a Arc<AtomicBool>),
}

impl Stop<'_> {
    fn is_asked(&self) -> bool {
        match self {
            Stop::AfterRuns(asked) => asked.load(Ordering::Relaxed),
            Stop::AtOnce(asked) => asked.load(Ordering::Relaxed),
        }
    }

    /// What a run under way is to look at.
    fn within(&self) -> Option<Arc<AtomicBool>> {
        match self {
            Stop::AfterRuns(_) => None,
            Stop::AtOnce(asked) => Some(Arc::clone(asked)),
        }
    }
}

impl<'a> From<&'a AtomicBool> for Stop<'a> {
    fn from(asked: &'a AtomicBool) -> Self {
        Stop::AfterRuns(asked)
    }
}

/// How a grid of runs ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All runs are in the store.
    Complete,
    /// It was interrupted; what was finished is in the store.
    Stopped,
}

/// Does the jobs that the store lacks, on `threads` threads, until all are done or `stop` says so. `report` is called
/// every second and whenever a run is done. Jobs are asked for a batch at a time, and the longest of a batch begin first.
///
/// # Errors
/// A job that cannot be had ends it, as does a store that cannot be written. Runs that fail do not end the others.
pub fn run<'a>(
    jobs: impl Iterator<Item = Result<Job, LabError>>,
    store: &mut Store,
    threads: usize,
    stop: impl Into<Stop<'a>>,
    report: &mut dyn FnMut(Progress),
) -> Result<Ending, LabError> {
    run_by(&|job, stop| Ok(job.simulate(stop)?), jobs, store, threads, stop, report)
}

/// As [`run`], where `executor` does the runs.
///
/// # Errors
/// As for [`run`].
pub fn run_by<'a>(
    executor: Executor<'_>,
    mut jobs: impl Iterator<Item = Result<Job, LabError>>,
    store: &mut Store,
    threads: usize,
    stop: impl Into<Stop<'a>>,
    report: &mut dyn FnMut(Progress),
) -> Result<Ending, LabError> {
    let stop = stop.into();
    let mut seen = std::collections::HashSet::new();
    let mut progress = Progress::default();
    let mut faults = Faults::default();
    loop {
        let mut batch: Vec<Job> = Vec::new();
        while batch.len() < BATCH
            && let Some(job) = jobs.next()
        {
            let job = job?;
            if !seen.insert(job.key.clone()) {
                continue;
            }
            if store.get(&job.key).is_some() {
                progress.kept += 1;
                progress.done += 1;
            } else {
                progress.planned += job.cost();
                batch.push(job);
            }
        }
        // Of those to come, the costs are taken to be those of the others.
        let left = jobs.size_hint().0;
        progress.runs = seen.len() + left;
        let lacked = (seen.len() - progress.kept).max(1);
        progress.cost = progress.planned + (progress.planned as u128 * left as u128 / lacked as u128) as u64;
        report(progress);
        if batch.is_empty() {
            break;
        }
        batch.sort_by_cached_key(|job| (std::cmp::Reverse(job.cost()), job.key.clone()));
        run_batch((executor, &batch), store, threads, stop, &mut progress, &mut faults, report);
        let written = store.sync(); // also repeats writes that failed
        faults.store.take().map_or(written, Err)?;
        if stop.is_asked() {
            break;
        }
    }
    if let Some(message) = faults.broken.first() {
        return Err(LabError::Broken { count: faults.broken.len(), message: message.clone() });
    }
    if let Some((run, why)) = faults.not_done.first() {
        return Err(LabError::NotDone { run: run.clone(), why: why.clone(), others: faults.not_done.len() - 1 });
    }
    if let Some((title, limit)) = faults.exceeded.first() {
        return Err(LabError::Exceeded { run: Some(title.clone()), limit: *limit, others: faults.exceeded.len() - 1 });
    }
    Ok(if progress.done < progress.runs { Ending::Stopped } else { Ending::Complete })
}

/// Does one run, until `stop` is set.
///
/// # Errors
/// It exceeds its limits, was stopped, or breaks an invariant of the engine.
pub fn one(job: &Job, stop: &Arc<AtomicBool>) -> Result<Record, LabError> {
    match catch_unwind(AssertUnwindSafe(|| job.simulate(Some(Arc::clone(stop))))) {
        Ok(done) => done.map_err(|limit| LabError::Exceeded { run: Some(job.title.clone()), limit, others: 0 }),
        Err(panic) => {
            let message = format!("{}: {}", job.title, message(panic.as_ref()));
            Err(LabError::Broken { count: 1, message })
        }
    }
}

/// What went wrong with runs.
#[derive(Default)]
struct Faults {
    /// Panics.
    broken: Vec<String>,
    /// Runs that the machine could not do.
    not_done: Vec<(String, String)>,
    /// Runs that exceeded their limits.
    exceeded: Vec<(String, Exceeded)>,
    /// A result could not be kept.
    store: Option<LabError>,
}

fn run_batch(
    (executor, jobs): (Executor<'_>, &[Job]),
    store: &mut Store,
    threads: usize,
    stop: Stop<'_>,
    progress: &mut Progress,
    faults: &mut Faults,
    report: &mut dyn FnMut(Progress),
) {
    let next = AtomicUsize::new(0);
    let give_up = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            let (sender, next, give_up) = (sender.clone(), &next, &give_up);
            scope.spawn(move || {
                while !stop.is_asked() && !give_up.load(Ordering::Relaxed) {
                    let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                    let outcome = catch_unwind(AssertUnwindSafe(|| executor(job, stop.within())));
                    if matches!(outcome, Ok(Err(Failed::Exceeded(Exceeded::Stopped { .. })))) {
                        return;
                    }
                    if sender.send((job, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        loop {
            match results.recv_timeout(Duration::from_secs(1)) {
                Ok((job, outcome)) => {
                    progress.done += 1;
                    progress.spent += job.cost();
                    match outcome {
                        Ok(Ok(record)) => {
                            if let Err(e) = store.append(record) {
                                give_up.store(true, Ordering::Relaxed);
                                faults.store.get_or_insert(e);
                            }
                        }
                        Ok(Err(Failed::Exceeded(limit))) => faults.exceeded.push((job.title.clone(), limit)),
                        Ok(Err(Failed::Machine(why))) => faults.not_done.push((job.title.clone(), why)),
                        Err(panic) => faults.broken.push(format!("{}: {}", job.title, message(panic.as_ref()))),
                    }
                    report(*progress);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => report(*progress),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
    });
}

/// What a panic says.
pub fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked").to_owned()
}

/// Jobs that are planned at a time.
const BATCH: usize = 4096;

/// The engine that made a result: its version and the hash of its source code.
pub const ENGINE: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("ROUGHLINK_ENGINE"));
