//! Execution of a grid, and its progress.

use crate::args::GridArgs;
use crate::failure::{Failure, print_stderr};
use crate::signals::on_stop;
use indicatif::{ProgressBar, ProgressStyle};
use roughlink_lab::error::LabError;
use roughlink_lab::runner::{self, Executor, GridEnd, GridProgress, PlannedJob};
use roughlink_lab::store::Store;
use std::io::{IsTerminal as _, stderr};
use std::time::{Duration, Instant};

/// Executes the jobs that the store lacks, and shows the progress.
pub(crate) fn work<'p>(
    jobs: impl Iterator<Item = Result<PlannedJob<'p>, LabError>>,
    store: &mut Store,
    grid: &GridArgs,
) -> Result<(), Failure> {
    work_by(&runner::simulate, jobs, store, grid)
}

/// Like [`work`], with `executor` for the runs.
pub(crate) fn work_by<'p>(
    executor: Executor<'_>,
    jobs: impl Iterator<Item = Result<PlannedJob<'p>, LabError>>,
    store: &mut Store,
    grid: &GridArgs,
) -> Result<(), Failure> {
    let threads = grid.jobs.unwrap_or_else(runner::cores);
    let folder = store.folder().display().to_string();
    // Reported even with `--quiet`: a disk that changes data is serious.
    if let Some(damage) = store.damage() {
        print_stderr(&damage.to_string());
    }
    let mut show = Display::new(grid.form.quiet);
    let limits = grid.memory.limits();
    let jobs = jobs.map(|job| Ok(job?.within(limits)));
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
        if !self.quiet && p.repeated > 0 {
            print_stderr(&format!("{} runs repeated: the emulated link fell behind real time", p.repeated));
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
