//! Progress of a grid, and handling of Ctrl-C and other termination signals.

use crate::args::GridArgs;
use crate::commands::emulate::is_ignored;
use crate::failure::{Failure, print_stderr};
use indicatif::{ProgressBar, ProgressStyle};
use roughlink_lab::error::LabError;
use roughlink_lab::runner::{self, Executor, GridEnd, GridProgress, Job};
use roughlink_lab::store::Store;
#[cfg(unix)]
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
    iterator::Signals,
    low_level::emulate_default_handler,
};
use std::io::{IsTerminal as _, stderr};
#[cfg(unix)]
use std::sync::Once;
use std::sync::atomic::AtomicBool;
#[cfg(unix)]
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Set when a signal requests the end.
pub(crate) static STOP: AtomicBool = AtomicBool::new(false);
/// Number of the first signal.
#[cfg(unix)]
static SIGNAL: AtomicUsize = AtomicUsize::new(0);

/// Returns a flag that the first Ctrl-C, SIGTERM or SIGHUP sets. This signal also calls `first`. The second signal ends
/// the process. SIGHUP is handled unless it is ignored (`nohup`).
#[cfg(unix)]
pub(crate) fn on_stop(first: impl FnOnce() + Send + 'static) -> &'static AtomicBool {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| prepare(first));
    &STOP
}

#[cfg(unix)]
fn prepare(first: impl FnOnce() + Send + 'static) {
    let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    let all = || [SIGINT, SIGTERM].into_iter().chain(hang_up);
    // Without a handler, a signal just ends the process, and finished runs are not lost.
    if let Ok(mut signals) = Signals::new(all()) {
        for signal in all() {
            // This order matters: the conditional handler of the first signal must find the flag unset.
            let _ = match std::process::id() {
                1 => flag::register_conditional_shutdown(signal, 128 + signal, &STOP),
                _ => flag::register_conditional_default(signal, &STOP),
            };
            let _ = flag::register_usize(signal, &SIGNAL, signal as usize);
            let _ = flag::register(signal, &STOP);
        }
        std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                first();
            }
        });
    }
}

/// Ends the process by the signal that it received, if any: with an exit code alone, a shell would continue its script.
pub(crate) fn end_by_signal() {
    #[cfg(unix)]
    match SIGNAL.load(Ordering::SeqCst) {
        0 => {}
        // The first process of a container survives signals that have no handler.
        _ if std::process::id() == 1 => {}
        signal => drop(emulate_default_handler(signal as i32)),
    }
}

/// Returns a flag that is never set: a signal ends the process.
#[cfg(not(unix))]
pub(crate) fn on_stop(_: impl FnOnce() + Send + 'static) -> &'static AtomicBool {
    &STOP
}

/// Executes the jobs that the store lacks, and shows the progress.
pub(crate) fn work(
    jobs: impl Iterator<Item = Result<Job, LabError>>,
    store: &mut Store,
    grid: &GridArgs,
) -> Result<(), Failure> {
    work_by(&|job, stop| Ok(job.simulate(stop)?), jobs, store, grid)
}

/// Like [`work`], with `executor` for the runs.
pub(crate) fn work_by(
    executor: Executor<'_>,
    jobs: impl Iterator<Item = Result<Job, LabError>>,
    store: &mut Store,
    grid: &GridArgs,
) -> Result<(), Failure> {
    let threads =
        grid.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get));
    let folder = store.folder().display().to_string();
    // Reported even with `--quiet`: a disk that changes data is serious.
    if let Some(damage) = store.damage() {
        print_stderr(&damage.to_string());
    }
    let mut show = Display::new(grid.form.quiet);
    let limits = grid.memory.limits();
    let jobs = jobs.map(|job| Ok(Job { limits, ..job? }));
    let stop = on_stop(|| print_stderr("finishing the current runs; press Ctrl-C again to stop at once"));
    let ending = runner::run_by(executor, jobs, store, threads, stop, &mut |p| show.update(p));
    show.finish();
    match ending? {
        GridEnd::Complete => Ok(()),
        GridEnd::Stopped => Err(Failure::Interrupted(format!(
            "stopped: finished runs are in {folder}; run the same command again to resume"
        ))),
    }
}

struct Display {
    quiet: bool,
    bar: Option<ProgressBar>,
    start: Instant,
    last: Duration,
    state: GridProgress,
}

#[allow(clippy::disallowed_methods, reason = "time for people; nothing simulated depends on it")]
fn now() -> Instant {
    Instant::now()
}

impl Display {
    fn new(quiet: bool) -> Self {
        let bar = (!quiet && stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{bar:30} {msg}").expect("a template that works");
            ProgressBar::new(1).with_style(style)
        });
        Display { quiet, bar, start: now(), last: Duration::ZERO, state: GridProgress::default() }
    }

    fn update(&mut self, p: GridProgress) {
        let spent = now().duration_since(self.start);
        self.state = p;
        let left = (p.spent > 0).then(|| spent.mul_f64((p.cost - p.spent) as f64 / p.spent as f64));
        let left = left.map_or_else(String::new, |left| format!(", {} left", human(left)));
        let kept = if p.kept > 0 { format!(" ({} reused)", p.kept) } else { String::new() };
        let message = format!("{} of {} runs{kept}{left}", p.done, p.runs);
        if let Some(bar) = &self.bar {
            bar.set_length(p.cost.max(1));
            bar.set_position(p.spent);
            bar.set_message(message);
            bar.tick();
        } else if !self.quiet && p.done < p.runs && spent >= self.last + EVERY {
            self.last = spent;
            print_stderr(&message);
        }
    }

    fn finish(&self) {
        let p = self.state;
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if !self.quiet && p.done > p.kept {
            let spent = human(now().duration_since(self.start));
            print_stderr(&format!("{} runs in {spent}", p.done - p.kept));
        }
    }
}

fn human(time: Duration) -> String {
    let s = time.as_secs();
    match s {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..120 => format!("{s} s"),
        120..7200 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{:.1} h", s as f64 / 3600.0),
    }
}

/// Interval between progress lines without a terminal.
const EVERY: Duration = Duration::from_secs(10);

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// `reproduce all` calls `on_stop` like this, once per paper.
    #[test]
    fn first_signal_requests_a_stop_after_several_on_stop_calls() {
        on_stop(|| {});
        let stop = on_stop(|| {});
        assert!(!stop.load(Ordering::SeqCst));
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert!(stop.load(Ordering::SeqCst));
    }
}
