//! Run delay: time that programs at the nodes were runnable and waited for a processor.
//!
//! The emulated link may be on time while programs without a processor send and acknowledge late, and throughput falls.
//! The kernel counts for each thread its waiting time and its time slices (`/proc/PID/task/TID/schedstat`,
//! Documentation/scheduler/sched-stats.rst). A thread of ordinary priority samples both for this process's descendants.
//! The result is the mean wait before a time slice, within each interval, weighted by slices.
//!
//! The kernel does its own part of TCP mostly within the system calls of programs and of the loop, so it waits with
//! them. Pressure stall information (`/proc/pressure/cpu`) has the share of time in which any task waited.

use crate::event_loop::{Lateness, LatenessHistogram};
use crate::realtime::MonotonicClock;
use roughlink_core::units::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Thread that samples run delays until it is stopped.
pub(crate) struct RunDelayMonitor {
    stop: Sender<()>,
    thread: JoinHandle<LatenessHistogram>,
    clock: MonotonicClock,
    began: Time,
    pressure: Option<u64>,
}

/// Waiting times of programs for processors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunDelay {
    /// Mean wait of a program's thread before a time slice; absent if none ran long enough or the kernel has no count.
    pub per_slice: Option<Lateness>,
    /// Share of time in which any task of this machine waited for a processor; absent if the kernel has no count.
    pub pressure: Option<f64>,
}

impl RunDelayMonitor {
    /// Starts the thread. Threads inherit priorities, so the caller must not have a real-time one yet.
    pub(crate) fn start(clock: MonotonicClock) -> Self {
        let (stop, stopped) = channel();
        let thread = thread::spawn(move || {
            let (mut late, mut known) = (LatenessHistogram::default(), BTreeMap::new());
            let mut processes = BTreeSet::new();
            for round in 0_u64.. {
                if round % SEARCH_EVERY == 0 {
                    processes = descendants(std::process::id());
                }
                sample(&processes, &mut known, &mut late);
                if stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            late
        });
        RunDelayMonitor { stop, thread, clock, began: clock.now(), pressure: pressure() }
    }

    pub(crate) fn finish(self) -> RunDelay {
        let elapsed = self.clock.now().saturating_sub(self.began).0 as f64 / 1e3;
        let stalled = pressure().zip(self.pressure).map(|(now, before)| now.saturating_sub(before) as f64);
        let _ = self.stop.send(());
        RunDelay {
            per_slice: self.thread.join().ok().and_then(|late| late.lateness()),
            pressure: stalled.map(|us| us / elapsed.max(1.0)),
        }
    }
}

/// Adds the waits of the processes' threads since their last sample. The time before the first sample of a thread
/// counts as well: the thread began after the monitor.
fn sample(processes: &BTreeSet<u32>, known: &mut BTreeMap<String, [u64; 2]>, late: &mut LatenessHistogram) {
    for process in processes {
        for entry in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
            let Some(now) = fs::read_to_string(entry.path().join("schedstat")).ok().and_then(|text| statistics(&text))
            else {
                continue;
            };
            let before = known.insert(entry.path().to_string_lossy().into_owned(), now).unwrap_or_default();
            let [waited, slices] = [0, 1].map(|i| now[i].saturating_sub(before[i]));
            let mean = Time(waited.checked_div(slices).unwrap_or(0));
            (0..slices.min(MAX_SLICES)).for_each(|_| late.record(mean));
        }
    }
}

/// Parses the waiting time, ns, and the number of time slices in a file of scheduling statistics.
fn statistics(text: &str) -> Option<[u64; 2]> {
    let mut numbers = text.split_whitespace().skip(1).map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??])
}

fn descendants(root: u32) -> BTreeSet<u32> {
    let process = |name: &str| {
        let process = name.parse::<u32>().ok()?;
        Some((process, parent(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)?))
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let parents: BTreeMap<u32, u32> = entries.filter_map(|entry| process(entry.file_name().to_str()?)).collect();
    let ancestors =
        |process: &u32| std::iter::successors(parents.get(process).copied(), |parent| parents.get(parent).copied());
    parents
        .keys()
        .copied()
        .filter(|process| ancestors(process).take(parents.len()).any(|parent| parent == root))
        .collect()
}

/// Parses the parent in `/proc/PID/stat`, the second field after the parenthesized name of any characters.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the total time in which any task waited for a processor, us.
fn pressure() -> Option<u64> {
    total(&fs::read_to_string("/proc/pressure/cpu").ok()?)
}

fn total(text: &str) -> Option<u64> {
    text.lines().find(|line| line.starts_with("some "))?.rsplit_once("total=")?.1.trim().parse().ok()
}

const INTERVAL: Duration = Duration::from_millis(100);
/// Number of samples between two searches for new processes.
const SEARCH_EVERY: u64 = 2;
/// Maximum number of a thread's time slices that count in one interval: one per 0.1 ms.
const MAX_SLICES: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn scheduling_files_of_the_kernel_are_read() {
        assert_eq!(statistics("123 98886 7\n"), Some([98886, 7]));
        assert_eq!(statistics(""), None);
        assert_eq!(parent("42 (a ) b) S 7 42 42 0"), Some(7));
        let text =
            "some avg10=95.19 avg60=98.21 avg300=99.27 total=2706\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n";
        assert_eq!(total(text), Some(2706));
    }

    #[test]
    fn waits_of_a_descendant_are_sampled() {
        let mut child = Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let grandchild = loop {
            let found = descendants(child.id());
            if let Some(process) = found.first() {
                break *process;
            }
        };
        let all = descendants(std::process::id());
        assert!(all.contains(&child.id()) && all.contains(&grandchild) && !all.contains(&std::process::id()));
        let (mut late, mut known) = (LatenessHistogram::default(), BTreeMap::new());
        sample(&BTreeSet::from([child.id()]), &mut known, &mut late);
        let slices = known.values().next().map_or(0, |[_, slices]| *slices);
        assert_eq!(late.lateness().is_some(), slices > 0, "a kernel without the counters has no figure");
        // Send SIGTERM through a shell: the grandchild ends first, and then its parent.
        let _ = Command::new("kill").arg(grandchild.to_string()).status();
        child.wait().unwrap();
    }
}
