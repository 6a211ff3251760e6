//! Runs whose transfers are carried by this machine's kernel: `--stack kernel`. The required algorithms are loaded
//! once, under unused names, and unregistered when the last run or this process ends, however it ends. After a kill,
//! the kernel keeps their code until it gives up the connections of the runs, which takes minutes. Algorithms that this
//! program does not provide for the kernel (`cubic`, `reno`, `bbr`) are the kernel's own. Runs execute in parallel as
//! long as the processors keep up with all of them ([`Room`]). A run with a late link is repeated.

use crate::args::GridArgs;
use crate::commands::emulate::faults;
use crate::commands::kernel::failure;
use crate::failure::{Failure, print_stderr};
use crate::progress::work_by;
use crate::signals::STOP;
use roughlink_bpf::catalogue::CatalogueEntry;
use roughlink_bpf::defaults::registered;
use roughlink_bpf::load::LoadRequest;
use roughlink_bpf::pinned::LoadedAlgorithm;
use roughlink_core::app::Traffic;
use roughlink_core::net::Exceeded;
use roughlink_core::net::routing::Routes;
use roughlink_core::scenario::{CongestionSpec, FlowSpec, Scenario};
use roughlink_core::units::Time;
use roughlink_host::{EmulationResults, LoopEnd, Transferred, Transfers, is_allowed, raise_descriptor_limit};
use roughlink_lab::experiment::ExperimentPlan;
use roughlink_lab::runner::{Failed, Job};
use roughlink_lab::store::{RunRecord, Store};
use roughlink_lab::watch::{SenderSample, Watch, Watcher};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

pub(super) struct KernelRunner {
    algorithms: Algorithms,
}

impl KernelRunner {
    /// Checks that this machine can execute the runs that the store lacks, and loads their algorithms.
    pub(super) fn new(plans: &[&ExperimentPlan], store: &Store) -> Result<Self, Failure> {
        let mut lacked = Vec::new();
        for job in plans.iter().flat_map(|p| p.jobs()) {
            let job = job?;
            if store.get(&job.key).is_none() {
                lacked.push(job.scenario);
            }
        }
        if !lacked.is_empty() && !is_allowed() {
            let help = "run the command with sudo; `roughlink cc check` lists the other requirements";
            return Err(Failure::Machine("measuring the kernel's TCP needs root".into(), Some(help)));
        }
        raise_descriptor_limit();
        lacked.iter().try_for_each(|s| Transfers::check(s)).map_err(|e| Failure::Machine(e.with_cause(), e.help()))?;
        Ok(KernelRunner { algorithms: Algorithms::load(&lacked)? })
    }

    pub(super) fn work(&self, plans: &[&ExperimentPlan], store: &mut Store, grid: &GridArgs) -> Result<(), Failure> {
        let (room, repeated) = (Room::default(), AtomicUsize::new(0));
        let carry = |job: &Job, stop: Option<Arc<AtomicBool>>| {
            let mut late = String::new();
            let stopped = Exceeded::Stopped { at: Time::ZERO, duration: job.scenario.duration };
            for _ in 0..TRIES {
                // No run starts after Ctrl-C, even if it was waiting or would be repeated.
                let tried = room.within(load(&job.scenario), || self.algorithms.carry(job, stop.clone()));
                let done = tried.ok_or(stopped)??;
                match disturbed(&done.outcome) {
                    faults if faults.is_empty() => return Ok(record(job, done)),
                    faults => late = faults.join("; "),
                }
                repeated.fetch_add(1, Ordering::Relaxed);
            }
            Err(Failed::Machine(format!("all {TRIES} attempts failed: {late}")))
        };
        let done = work_by(&carry, plans.iter().flat_map(|p| p.jobs()), store, grid);
        let repeated = repeated.into_inner();
        if repeated > 0 && !grid.form.quiet {
            print_stderr(&format!("{repeated} runs repeated: the emulated link fell behind real time"));
        }
        done
    }
}

/// Returns the reasons why a measurement is not representative of the algorithm.
fn disturbed(outcome: &EmulationResults) -> Vec<String> {
    let mut all = faults(outcome, MAX_LATE);
    if outcome.refused > 0 {
        all.push(format!("{} packets were refused by the receiver's device", outcome.refused));
    }
    all
}

/// Returns the largest load of a scenario's transfers, bit/s: the sum of their slowest links' rates, each link once.
fn load(scenario: &Scenario) -> u64 {
    let mut routes = Routes::from_scenario(scenario);
    let mut slowest = |flow: &FlowSpec| {
        let links = routes.path(flow.from, flow.to)?.into_iter().map(|hop| hop as usize / 2);
        links.min_by_key(|&l| scenario.links[l].model.rate())
    };
    let transfers = scenario.flows.iter().filter(|f| matches!(f.traffic, Traffic::Bulk { .. }));
    let links: BTreeSet<usize> = transfers.filter_map(&mut slowest).collect();
    links.into_iter().map(|l| scenario.links[l].model.rate().0).sum()
}

/// Limit for the total load of parallel runs; a larger run executes alone.
#[derive(Default)]
struct Room {
    /// Current load, bit/s.
    used: Mutex<u64>,
    left: Condvar,
}

/// A share of the room, released when dropped, also by a panic.
struct RoomShare<'r>(&'r Room, u64);

impl Room {
    /// Executes `work` as soon as there is room. Returns None if the command is interrupted before.
    fn within<T>(&self, load: u64, work: impl FnOnce() -> T) -> Option<T> {
        let most = PER_PROCESSOR * std::thread::available_parallelism().map_or(1, NonZeroUsize::get) as u64;
        let mut used = self.used.lock().expect("nobody panics with it");
        while *used > 0 && *used + load > most && !STOP.load(Ordering::SeqCst) {
            used = self.left.wait_timeout(used, LOOK).expect("nobody panics with it").0;
        }
        if STOP.load(Ordering::SeqCst) {
            return None;
        }
        *used += load;
        drop(used);
        let _share = RoomShare(self, load);
        Some(work())
    }
}

impl Drop for RoomShare<'_> {
    fn drop(&mut self) {
        let RoomShare(room, load) = self;
        *room.used.lock().expect("nobody panics with it") -= *load;
        room.left.notify_all();
    }
}

/// An algorithm with its parameters, in scenario syntax.
type Variant = (String, String);

/// Algorithms and their names in the kernel.
struct Algorithms {
    names: BTreeMap<Variant, String>,
    #[expect(dead_code, reason = "they are in the kernel as long as it lives")]
    loaded: Vec<LoadedAlgorithm>,
}

impl Algorithms {
    fn load(scenarios: &[Arc<Scenario>]) -> Result<Self, Failure> {
        let (mut names, mut loaded) = (BTreeMap::new(), Vec::new());
        let has = registered().map_err(failure)?;
        let transfers = scenarios.iter().flat_map(|s| &s.flows).filter(|f| matches!(f.traffic, Traffic::Bulk { .. }));
        for cc in transfers.filter_map(FlowSpec::cc) {
            if names.contains_key(&variant(cc)) {
                continue;
            }
            let name = if CatalogueEntry::find(program(cc)).is_some() {
                let mut request = LoadRequest::new(program(cc)).map_err(failure)?;
                request.name = free_name()?;
                request.parameters = cc.params.clone();
                loaded.push(request.load().map_err(failure)?);
                request.name
            } else if cc.params.is_empty() && has.contains(&cc.name) {
                cc.name.clone()
            } else {
                let message = format!("neither roughlink nor this kernel provides `{}`", cc.name);
                let help = "choose one of `roughlink cc list --kernel`, or load a kernel module with modprobe tcp_NAME";
                return Err(Failure::Machine(message, Some(help)));
            };
            names.insert(variant(cc), name);
        }
        Ok(Algorithms { names, loaded })
    }

    fn carry(&self, job: &Job, stop: Option<Arc<AtomicBool>>) -> Result<Transferred, Failed> {
        let name = |f: &FlowSpec| self.names.get(&variant(f.cc()?)).cloned();
        let names: Vec<String> = job.scenario.flows.iter().map(|f| name(f).unwrap_or_default()).collect();
        let every = job.watch.as_ref().map(|w| Time(w.every_ns)).filter(|t| !t.is_zero()).unwrap_or(EVERY).min(EVERY);
        let transfers = Transfers {
            scenario: Arc::clone(&job.scenario),
            replica: job.replica,
            limits: job.limits,
            names: &names,
            every,
        };
        let done = transfers.carry(&stop.unwrap_or_default()).map_err(|e| Failed::Machine(e.with_cause()))?;
        let stopped = || Exceeded::Stopped { at: Time::ZERO, duration: job.scenario.duration };
        let done = done.ok_or_else(stopped)?;
        match &done.outcome.ending {
            LoopEnd::Exceeded(limit) => Err((*limit).into()),
            LoopEnd::Vanished { device, reason } => Err(Failed::Machine(format!("lost device `{device}`: {reason}"))),
            LoopEnd::Over | LoopEnd::Stopped => Ok(done),
        }
    }
}

/// Returns a name that is not registered in the kernel. Process IDs may be equal in several containers.
fn free_name() -> Result<String, Failure> {
    let taken = registered().map_err(failure)?;
    let mut names = (0..).map(|n| format!("r{}_{n}", std::process::id()));
    Ok(names.find(|name| !taken.contains(name)).expect("there is always another number"))
}

fn variant(cc: &CongestionSpec) -> Variant {
    (program(cc).to_owned(), cc.params.to_string())
}

/// Returns the sender's algorithm.
fn program(cc: &CongestionSpec) -> &str {
    // The variant differs only at the receiver: `delayed_ack = 1`.
    if cc.name == "newreno-nd" { "newreno" } else { &cc.name }
}

fn record(job: &Job, done: Transferred) -> RunRecord {
    let result = done.outcome.result;
    let watched = |watch: &Watch| {
        let mut watcher = Watcher::new(watch, &job.scenario);
        for v in &done.vitals {
            let bytes = |segments: u32| u64::from(segments) * u64::from(v.mss);
            watcher.record(&SenderSample {
                flow: v.flow,
                at: v.at,
                cwnd: bytes(v.cwnd),
                mss: v.mss,
                in_flight: bytes(v.in_flight),
                srtt: v.srtt,
                segments: v.segments,
                delivered: v.delivered,
            });
        }
        watcher.finish(watch, &result)
    };
    RunRecord { key: job.key.clone(), watched: job.watch.as_ref().map(watched), result }
}

/// Interval at which interruption is checked.
const LOOK: Duration = Duration::from_millis(100);
/// Maximum number of attempts for a run with a late link.
const TRIES: u32 = 4;
/// Load that a processor can carry without delay, bit/s. Four processors carried eight runs of 70 Mbit/s, but most of
/// them only at the second attempt.
const PER_PROCESSOR: u64 = 70_000_000;
/// Largest lateness of one packet in a hundred, as in `emulate`.
const MAX_LATE: Time = Time(1_000_000);
/// Sampling interval of connections, unless curves are finer.
const EVERY: Time = Time(10_000_000);
