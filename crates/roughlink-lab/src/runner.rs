//! Execution of runs on all cores: one thread per run, longest runs first. Finished runs go into the store.

use crate::error::LabError;
use crate::store::{RUNS, RunLine, RunRecord, Store, key_hash};
use crate::watch::{Watch, Watcher};
use roughlink_core::metrics::RunResult;
use roughlink_core::net::{Exceeded, Network, RunLimits, RunOptions};
use roughlink_core::scenario::Scenario;
use roughlink_core::units::{Rate, Time};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// A run to execute.
#[derive(Clone, Debug)]
pub struct Job {
    /// Key of the result: scenario, replica, recorded quantities and engine.
    pub key: String,
    /// Scenario of the run.
    pub scenario: Arc<Scenario>,
    /// Number of the replica.
    pub replica: u32,
    /// Quantities to record.
    pub watch: Option<Watch>,
    /// Title for messages.
    pub title: String,
    /// Resource limits, which do not change the result.
    pub limits: RunLimits,
    /// True if the run takes the time that it represents.
    pub real_time: bool,
}

impl Job {
    /// Creates a job. `fingerprint` identifies the scenario ([`crate::library::Parsed`]).
    pub fn new(scenario: Arc<Scenario>, fingerprint: u128, replica: u32, watch: Option<Watch>, title: String) -> Self {
        let key = key(fingerprint, replica, watch.as_ref());
        Job { key, scenario, replica, watch, title, limits: RunLimits::default(), real_time: false }
    }

    /// Estimates the cost: bytes carried by all flows, or, in real time, the largest number of bytes of one flow.
    pub fn cost(&self) -> u64 {
        let s = &self.scenario;
        let fastest = Rate(s.links.iter().map(|l| l.model.rate().0).min().unwrap_or(0));
        let costs = s.flows.iter().map(|f| f.traffic.estimate_bytes(s.duration, fastest));
        (if self.real_time { costs.fold(0.0, f64::max) } else { costs.sum() }) as u64 + 1
    }

    /// Simulates the run.
    ///
    /// # Errors
    /// Returns an error if the run exceeds its limits or `stop` was set.
    pub fn simulate(&self, stop: Option<Arc<AtomicBool>>) -> Result<RunRecord, Exceeded> {
        let options = RunOptions { replica: self.replica, limits: self.limits, stop, ..RunOptions::default() };
        let mut network = Network::new(Arc::clone(&self.scenario), options).expect("it was routed before");
        let (result, watched) = match &self.watch {
            None => (timed(|| network.run())?, None),
            Some(watch) => {
                let mut watcher = Watcher::new(watch, &self.scenario);
                let result = timed(|| network.observed_by(&mut watcher).run())?;
                let watched = watcher.finish(watch, &result);
                (result, Some(watched))
            }
        };
        Ok(RunRecord { key: self.key.clone(), result, deterministic: !self.scenario.is_random(), watched })
    }

    /// Returns the error of a run that was stopped before its start.
    pub(crate) fn stopped(&self) -> Failed {
        Exceeded::Stopped { at: Time::ZERO, duration: self.scenario.duration }.into()
    }
}

/// A run that has its key. The scenario is read just before the run is executed.
pub struct PlannedJob<'p> {
    /// As in [`Job::key`].
    pub key: String,
    limits: RunLimits,
    check: Option<JobCheck<'p>>,
    read: Box<dyn FnOnce() -> Result<Job, LabError> + Send + 'p>,
}

/// Check of a run before it is executed.
pub type JobCheck<'p> = &'p (dyn Fn(&Job) -> Result<(), LabError> + Sync);

impl<'p> PlannedJob<'p> {
    /// Creates a run whose scenario `read` reads.
    pub(crate) fn new(key: String, read: impl FnOnce() -> Result<Job, LabError> + Send + 'p) -> Self {
        PlannedJob { key, limits: RunLimits::default(), check: None, read: Box::new(read) }
    }

    /// Sets the resource limits ([`Job::limits`]).
    #[must_use]
    pub fn within(self, limits: RunLimits) -> Self {
        PlannedJob { limits, ..self }
    }

    /// Sets a check that the run must pass after its scenario has been read.
    #[must_use]
    pub fn checked(self, check: JobCheck<'p>) -> Self {
        PlannedJob { check: Some(check), ..self }
    }

    /// Reads the scenario.
    ///
    /// # Errors
    /// Returns an error if the scenario is invalid or cannot be read, and the error of the check.
    pub fn read(self) -> Result<Job, LabError> {
        let job = Job { limits: self.limits, ..(self.read)()? };
        self.check.map_or(Ok(()), |check| check(&job))?;
        Ok(job)
    }
}

impl From<Job> for PlannedJob<'_> {
    fn from(job: Job) -> Self {
        let limits = job.limits;
        PlannedJob::new(job.key.clone(), || Ok(job)).within(limits)
    }
}

/// Function that executes a run in the calling thread. Returns early with an error if [`Stop`] requires it.
pub type Executor<'a> = &'a (dyn Fn(&Job, Stop<'_>) -> Result<RunRecord, Failed> + Sync);

/// Executor that simulates each run.
///
/// # Errors
/// Returns the errors of [`Job::simulate`].
pub fn simulate(job: &Job, stop: Stop<'_>) -> Result<RunRecord, Failed> {
    Ok(job.simulate(stop.within())?)
}

/// Reason why a run has no result.
#[derive(Debug)]
pub enum Failed {
    /// The run exceeded its limits or was stopped.
    Exceeded(Exceeded),
    /// The machine could not execute the run, with the reason.
    Machine(String),
    /// The machine executed the run too slowly, with the reason. The run is repeated.
    Late(String),
}

impl From<Exceeded> for Failed {
    fn from(limit: Exceeded) -> Self {
        Failed::Exceeded(limit)
    }
}

pub(crate) fn key(fingerprint: u128, replica: u32, watch: Option<&Watch>) -> String {
    let watched = watch.map_or_else(String::new, |w| {
        let flow = w.flow.as_deref().unwrap_or_default();
        format!("-{}-{}-{flow}{}", w.every_ns, w.curves.join("+"), w.windows_key())
    });
    format!("{fingerprint:032x}-{replica}{watched}-{ENGINE}")
}

/// Executes `run` and sets its wall-clock time.
#[allow(clippy::disallowed_methods, reason = "wall_s is a wall-clock time; nothing simulated depends on it")]
pub fn timed(run: impl FnOnce() -> Result<RunResult, Exceeded>) -> Result<RunResult, Exceeded> {
    let start = std::time::Instant::now();
    let mut result = run()?;
    result.wall_s = start.elapsed().as_secs_f64();
    Ok(result)
}

/// Returns the number of cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

/// Runs a network to its end with its components on up to `threads` threads, this one included. Results do not depend
/// on the number.
///
/// # Errors
/// Returns the errors of [`Network::run_on`].
pub fn run_on_threads(network: &mut Network, threads: usize) -> Result<RunResult, Exceeded> {
    network.run_on(|work| {
        std::thread::scope(|scope| {
            let start = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
            // Without a further thread, those that started do the work.
            (1..threads).map_while(start).for_each(drop);
            work();
        });
    })
}

/// Progress of a grid of runs, in units of [`Job::cost`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GridProgress {
    /// Runs of this grid.
    pub runs: usize,
    /// Finished runs, including those from the store.
    pub done: usize,
    /// Runs that the store already had.
    pub kept: usize,
    /// Cost of the runs that the store lacked, estimated for runs not planned yet.
    pub cost: u64,
    /// Cost of the planned runs among them.
    pub planned: u64,
    /// Cost of the finished runs among them.
    pub spent: u64,
    /// Runs that were repeated because they were too slow.
    pub repeated: usize,
}

/// Flag that ends a grid of runs early. Once it is set, no run begins.
#[derive(Clone, Copy, Debug)]
pub enum Stop<'a> {
    /// Finishes the runs in progress.
    AfterRuns(&'a AtomicBool),
    /// Abandons the runs in progress.
    AtOnce(&'a Arc<AtomicBool>),
}

impl Stop<'_> {
    /// Returns true once no run may begin.
    pub fn is_requested(&self) -> bool {
        match self {
            Stop::AfterRuns(flag) => flag.load(Ordering::Relaxed),
            Stop::AtOnce(flag) => flag.load(Ordering::Relaxed),
        }
    }

    /// Returns the flag that runs in progress must check.
    pub fn within(&self) -> Option<Arc<AtomicBool>> {
        match self {
            Stop::AfterRuns(_) => None,
            Stop::AtOnce(flag) => Some(Arc::clone(flag)),
        }
    }
}

impl<'a> From<&'a AtomicBool> for Stop<'a> {
    fn from(flag: &'a AtomicBool) -> Self {
        Stop::AfterRuns(flag)
    }
}

/// Outcome of a grid of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridEnd {
    /// All runs are in the store.
    Complete,
    /// The grid was interrupted; the store has the finished runs.
    Stopped,
}

/// Executes the jobs that the store lacks on `threads` threads, until all are done or `stop` is set. Calls `report`
/// every second and whenever finished runs have been stored. Jobs are planned in batches, and the longest of a batch
/// start first.
///
/// # Errors
/// Returns an error at once if a job cannot be planned or the store cannot be written. Failed runs do not end the
/// others; their error is returned at the end.
pub fn run<'a, 'p>(
    jobs: impl Iterator<Item = Result<impl Into<PlannedJob<'p>>, LabError>>,
    store: &mut Store,
    threads: usize,
    stop: impl Into<Stop<'a>>,
    report: &mut dyn FnMut(GridProgress),
) -> Result<GridEnd, LabError> {
    run_by(&simulate, jobs, store, threads, stop, report)
}

/// Executes jobs like [`run`], with `executor` for each run. Repeats a run that was too slow, at most three times.
///
/// # Errors
/// Returns the errors of [`run`].
pub fn run_by<'a, 'p>(
    executor: Executor<'_>,
    mut jobs: impl Iterator<Item = Result<impl Into<PlannedJob<'p>>, LabError>>,
    store: &mut Store,
    threads: usize,
    stop: impl Into<Stop<'a>>,
    report: &mut dyn FnMut(GridProgress),
) -> Result<GridEnd, LabError> {
    let stop = stop.into();
    let mut seen = std::collections::HashSet::new();
    let mut progress = GridProgress::default();
    let mut faults = Faults::default();
    loop {
        let mut lacked: Vec<PlannedJob<'p>> = Vec::new();
        while lacked.len() < BATCH
            && let Some(job) = jobs.next()
        {
            let job = job?.into();
            if !seen.insert(key_hash(&job.key)) {
                continue;
            }
            if store.contains(&job.key) {
                progress.kept += 1;
                progress.done += 1;
            } else {
                lacked.push(job);
            }
        }
        let mut batch = read(lacked, threads)?;
        progress.planned += batch.iter().map(Job::cost).sum::<u64>();
        // Estimate the cost of later jobs by the mean so far.
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
        if stop.is_requested() {
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
    Ok(if progress.done < progress.runs { GridEnd::Stopped } else { GridEnd::Complete })
}

/// Reads the scenarios of jobs on `threads` threads.
fn read(jobs: Vec<PlannedJob<'_>>, threads: usize) -> Result<Vec<Job>, LabError> {
    let share = jobs.len().div_ceil(threads.max(1)).max(1);
    let mut jobs = jobs.into_iter();
    std::thread::scope(|scope| {
        let mut shares = Vec::new();
        while jobs.len() > 0 {
            let share: Vec<PlannedJob<'_>> = jobs.by_ref().take(share).collect();
            shares
                .push(scope.spawn(|| share.into_iter().map(PlannedJob::read).collect::<Result<Vec<Job>, LabError>>()));
        }
        let mut all = Vec::new();
        for share in shares {
            all.extend(share.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok(all)
    })
}

/// Executes one run until `stop` is set.
///
/// # Errors
/// Returns an error if the run exceeds its limits, is stopped, or breaks an invariant of the engine.
pub fn one(job: &Job, stop: &Arc<AtomicBool>) -> Result<RunRecord, LabError> {
    match catch_unwind(AssertUnwindSafe(|| job.simulate(Some(Arc::clone(stop))))) {
        Ok(done) => done.map_err(|limit| LabError::Exceeded { run: Some(job.title.clone()), limit, others: 0 }),
        Err(panic) => {
            let message = format!("{}: {}", job.title, message(panic.as_ref()));
            Err(LabError::Broken { count: 1, message })
        }
    }
}

#[derive(Default)]
struct Faults {
    broken: Vec<String>,
    /// Titles of runs that the machine could not execute, with the reasons.
    not_done: Vec<(String, String)>,
    exceeded: Vec<(String, Exceeded)>,
    /// First error of writing a result.
    store: Option<LabError>,
}

fn run_batch(
    (executor, jobs): (Executor<'_>, &[Job]),
    store: &mut Store,
    threads: usize,
    stop: Stop<'_>,
    progress: &mut GridProgress,
    faults: &mut Faults,
    report: &mut dyn FnMut(GridProgress),
) {
    let (next, repeated) = (AtomicUsize::new(0), AtomicUsize::new(progress.repeated));
    let give_up = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            let (sender, next, repeated, give_up) = (sender.clone(), &next, &repeated, &give_up);
            scope.spawn(move || {
                while !stop.is_requested() && !give_up.load(Ordering::Relaxed) {
                    let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                    let line = || attempt(executor, job, stop, repeated).map(|record| RunLine::new(&record));
                    let outcome = catch_unwind(AssertUnwindSafe(line));
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
            let received = results.recv_timeout(Duration::from_secs(1));
            progress.repeated = repeated.load(Ordering::Relaxed);
            match received {
                Ok(first) => {
                    let mut lines = Vec::new();
                    for (job, outcome) in std::iter::once(first).chain(results.try_iter()) {
                        progress.done += 1;
                        progress.spent += job.cost();
                        match outcome {
                            Ok(Ok(line)) => lines.push(line),
                            Ok(Err(Failed::Exceeded(limit))) => faults.exceeded.push((job.title.clone(), limit)),
                            Ok(Err(Failed::Machine(why) | Failed::Late(why))) => {
                                faults.not_done.push((job.title.clone(), why))
                            }
                            Err(panic) => faults.broken.push(format!("{}: {}", job.title, message(panic.as_ref()))),
                        }
                    }
                    let path = store.folder().join(RUNS);
                    let wrong = lines.extract_if(.., |line| line.is_err()).find_map(Result::err);
                    let wrong = wrong.map_or(Ok(()), |source| Err(LabError::Write { path, source }));
                    if let Err(e) = store.extend(lines.into_iter().flatten()).and(wrong) {
                        give_up.store(true, Ordering::Relaxed);
                        faults.store.get_or_insert(e);
                    }
                    report(*progress);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => report(*progress),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    report(*progress);
}

/// Executes a run, up to [`TRIES`] times while it is late, and counts it if it is repeated.
fn attempt(executor: Executor<'_>, job: &Job, stop: Stop<'_>, repeated: &AtomicUsize) -> Result<RunRecord, Failed> {
    let mut late = String::new();
    for n in 0..TRIES {
        if stop.is_requested() {
            return Err(job.stopped());
        }
        if n == 1 {
            repeated.fetch_add(1, Ordering::Relaxed);
        }
        match executor(job, stop) {
            Err(Failed::Late(why)) => late = why,
            outcome => return outcome,
        }
    }
    Err(Failed::Late(format!("all {TRIES} attempts failed: {late}")))
}

/// Returns the message of a panic.
pub fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("panicked without a message").to_owned()
}

/// Maximum number of attempts for a run that the machine executes too slowly.
const TRIES: u32 = 4;
/// Jobs that are planned at a time.
const BATCH: usize = 4096;

/// The engine that made a result: its version and the hash of its source code.
pub const ENGINE: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("ROUGHLINK_ENGINE"));

/// Hash of the source code that runs transfers on the kernel.
const CARRIER: &str = env!("ROUGHLINK_CARRIER");

/// Returns the release of the running kernel, as `uname -r` prints it.
pub fn kernel_release() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    read.map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}

/// Returns the carrier of runs on this machine's kernel: the source code that runs them, and the kernel.
pub fn carrier() -> String {
    format!("{CARRIER}-{}", kernel_release())
}
