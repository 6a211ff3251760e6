//! Transfers of runs, carried by this machine's kernel. The required algorithms are loaded once, under unused names,
//! and unregistered after the last run, or when this process ends for any reason. After a kill, their code stays in the
//! kernel until the connections of the runs time out, which takes minutes. Algorithms that this program does not
//! provide for the kernel (`cubic`, `reno`, `bbr`) are the kernel's own. Runs execute in parallel as long as the
//! processors keep up with all of them ([`Room`]).

use super::error::ND;
use crate::error::LabError;
use crate::experiment::ExperimentPlan;
use crate::runner::{Failed, Job, Stop};
use crate::store::{RunRecord, Store};
use crate::watch::{SenderSample, Watch, Watcher};
use roughlink_bpf::catalogue::CatalogueEntry;
use roughlink_bpf::defaults::registered;
use roughlink_bpf::load::LoadRequest;
use roughlink_bpf::pinned::LoadedAlgorithm;
use roughlink_core::app::Traffic;
use roughlink_core::net::routing::Routes;
use roughlink_core::scenario::{CongestionSpec, FlowSpec, Scenario};
use roughlink_core::units::Time;
use roughlink_host::{
    EmulationResults, HostError, LoopEnd, Transferred, Transfers, is_allowed, raise_descriptor_limit,
};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Executor of runs on the kernel.
pub(super) struct KernelCarrier {
    algorithms: Algorithms,
    room: Room,
}

impl KernelCarrier {
    /// Checks that this machine can execute the runs that the store lacks, and loads their algorithms.
    pub(super) fn new(plans: &[&ExperimentPlan], store: &Store) -> Result<Self, LabError> {
        let mut lacked = Vec::new();
        for job in plans.iter().flat_map(|p| p.planned_jobs()) {
            let job = job?;
            if !store.contains(&job.key) {
                lacked.push(job.read()?.scenario);
            }
        }
        if !lacked.is_empty() && !is_allowed() {
            let help = "run the command with sudo; `roughlink cc check` lists the other requirements";
            return Err(LabError::Machine {
                message: "measuring the kernel's TCP needs root".into(),
                help: Some(help),
            });
        }
        raise_descriptor_limit();
        let refused = |e: HostError| LabError::Machine { message: e.with_cause(), help: e.help() };
        lacked.iter().try_for_each(|s| Transfers::check(s)).map_err(refused)?;
        Ok(KernelCarrier { algorithms: Algorithms::load(&lacked)?, room: Room::default() })
    }

    /// Executes a run as soon as there is room for it.
    pub(super) fn carry(&self, job: &Job, stop: Stop<'_>) -> Result<RunRecord, Failed> {
        let tried = self.room.within(load(&job.scenario), stop, || self.algorithms.carry(job, stop));
        let done = tried.ok_or_else(|| job.stopped())??;
        match disturbed(&done.outcome) {
            faults if faults.is_empty() => Ok(record(job, done)),
            faults => Err(Failed::Late(faults.join("; "))),
        }
    }
}

/// Returns the reasons why a measurement is not representative of the algorithm.
fn disturbed(outcome: &EmulationResults) -> Vec<String> {
    let mut all = outcome.faults(MAX_LATE);
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
    /// Executes `work` as soon as there is room. Returns `None` if a stop is requested first.
    fn within<T>(&self, load: u64, stop: Stop<'_>, work: impl FnOnce() -> T) -> Option<T> {
        let most = PER_PROCESSOR * std::thread::available_parallelism().map_or(1, NonZeroUsize::get) as u64;
        let mut used = self.used.lock().expect("nobody panics with it");
        while *used > 0 && *used + load > most && !stop.is_requested() {
            used = self.left.wait_timeout(used, LOOK).expect("nobody panics with it").0;
        }
        if stop.is_requested() {
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
    fn load(scenarios: &[Arc<Scenario>]) -> Result<Self, LabError> {
        let (mut names, mut loaded) = (BTreeMap::new(), Vec::new());
        let has = registered()?;
        let transfers = scenarios.iter().flat_map(|s| &s.flows).filter(|f| matches!(f.traffic, Traffic::Bulk { .. }));
        for cc in transfers.filter_map(FlowSpec::cc) {
            if names.contains_key(&variant(cc)) {
                continue;
            }
            let name = if CatalogueEntry::find(program(cc)).is_some() {
                let mut request = LoadRequest::new(program(cc))?;
                request.name = free_name()?;
                request.parameters = cc.params.clone();
                loaded.push(request.load()?);
                request.name
            } else if cc.params.is_empty() && has.contains(&cc.name) {
                cc.name.clone()
            } else {
                let message = format!("neither roughlink nor this kernel provides `{}`", cc.name);
                let help = "choose one of `roughlink cc list --kernel`, or load a kernel module with modprobe tcp_NAME";
                return Err(LabError::Machine { message, help: Some(help) });
            };
            names.insert(variant(cc), name);
        }
        Ok(Algorithms { names, loaded })
    }

    fn carry(&self, job: &Job, stop: Stop<'_>) -> Result<Transferred, Failed> {
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
        let done = transfers.carry(&stop.within().unwrap_or_default()).map_err(|e| Failed::Machine(e.with_cause()))?;
        let done = done.ok_or_else(|| job.stopped())?;
        match &done.outcome.ending {
            LoopEnd::Exceeded(limit) => Err((*limit).into()),
            LoopEnd::Lost(device) => Err(Failed::Machine(device.to_string())),
            LoopEnd::Over | LoopEnd::Stopped => Ok(done),
        }
    }
}

/// Returns a name that is not registered in the kernel. Process IDs may be equal in several containers.
fn free_name() -> Result<String, LabError> {
    let taken = registered()?;
    let mut names = (0..).map(|n| format!("r{}_{n}", std::process::id()));
    Ok(names.find(|name| !taken.contains(name)).expect("there is always another number"))
}

fn variant(cc: &CongestionSpec) -> Variant {
    (program(cc).to_owned(), cc.params.to_string())
}

/// Returns the sender's algorithm.
fn program(cc: &CongestionSpec) -> &str {
    // The variant differs only at the receiver: `delayed_ack = 1`.
    if cc.name == ND { "newreno" } else { &cc.name }
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
    RunRecord { key: job.key.clone(), watched: job.watch.as_ref().map(watched), deterministic: false, result }
}

/// Interval at which interruption is checked.
const LOOK: Duration = Duration::from_millis(100);
/// Load that a processor can carry without delay, bit/s. Four processors carried eight runs of 70 Mbit/s, but most of
/// them only at the second attempt.
const PER_PROCESSOR: u64 = 70_000_000;
/// Largest lateness of one packet in a hundred, as in `emulate`.
const MAX_LATE: Time = Time(1_000_000);
/// Sampling interval of connections, unless curves are finer.
const EVERY: Time = Time(10_000_000);
