//! Runs whose transfers the kernel of this machine carries: `--stack kernel`.
//!
//! The algorithms that the runs need are loaded once, under names that nobody else has, and are out of the kernel when the last run has ended or this process has,
//! however it ends. What the kernel has of its own (`cubic`, `reno`, `bbr`) is used as it is. A run whose link was late says nothing of a link that is
//! not, and is repeated.

use crate::args::Grid;
use crate::commands::emulate::faults;
use crate::commands::kernel::failure;
use crate::failure::Failure;
use crate::progress::work_by;
use roughlink_bpf::catalogue::Entry;
use roughlink_bpf::defaults::registered;
use roughlink_bpf::load::{Loaded, Wish};
use roughlink_core::app::Traffic;
use roughlink_core::net::Exceeded;
use roughlink_core::scenario::{FlowSpec, Scenario};
use roughlink_core::units::Time;
use roughlink_host::{HostError, Transferred, Transfers, is_allowed};
use roughlink_lab::experiment::Plan;
use roughlink_lab::runner::{Failed, Job};
use roughlink_lab::store::{Record, Store};
use roughlink_lab::watch::{Look, Watch, Watcher};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Does the runs of the plans that the store lacks.
pub(super) fn work(plans: &[&Plan], store: &mut Store, grid: &Grid) -> Result<(), Failure> {
    let mut lacked = Vec::new();
    for job in plans.iter().flat_map(|p| p.jobs()) {
        let job = job?;
        if store.get(&job.key).is_none() {
            lacked.push(job.scenario);
        }
    }
    if lacked.is_empty() {
        return work_by(&|_, _| unreachable!("the store has all"), plans.iter().flat_map(|p| p.jobs()), store, grid);
    }
    if !is_allowed() {
        let help = "run it as root; `roughlink cc check` says what else is missing";
        return Err(Failure::Machine("TCP of the kernel is measured as root".into(), Some(help)));
    }
    lacked.iter().try_for_each(|s| Transfers::check(s)).map_err(|e| Failure::Machine(e.whole(), e.help()))?;
    let algorithms = Algorithms::load(&lacked)?;
    let carry = |job: &Job, stop: Option<Arc<AtomicBool>>| algorithms.carry(job, stop);
    work_by(&carry, plans.iter().flat_map(|p| p.jobs()), store, grid)
}

/// An algorithm with its parameters, in the words of a scenario.
type Asked = (String, String);

/// The kernel's names of algorithms.
struct Algorithms {
    names: BTreeMap<Asked, String>,
    /// What keeps them in the kernel.
    #[expect(dead_code, reason = "they are in the kernel as long as it lives")]
    loaded: Vec<Loaded>,
}

impl Algorithms {
    /// Those of the transfers of these scenarios.
    fn load(scenarios: &[Arc<Scenario>]) -> Result<Self, Failure> {
        let (mut names, mut loaded) = (BTreeMap::new(), Vec::new());
        let has = registered().map_err(failure)?;
        for flow in scenarios.iter().flat_map(|s| &s.flows).filter(|f| matches!(f.traffic, Traffic::Bulk { .. })) {
            if names.contains_key(&asked(flow)) {
                continue;
            }
            let name = if Entry::find(program(flow)).is_some() {
                let mut wish = Wish::new(program(flow)).map_err(failure)?;
                wish.name = format!("r{}_{}", std::process::id(), names.len());
                wish.parameters = flow.cc_params.clone();
                loaded.push(wish.load().map_err(failure)?);
                wish.name
            } else if flow.cc_params.is_empty() && has.contains(&flow.cc) {
                flow.cc.clone()
            } else {
                let message = format!("there is no `{}` for the kernel, and it has none of its own", flow.cc);
                let help = "`roughlink cc list --kernel` lists what there is; one of the kernel's own may be a module: modprobe tcp_NAME";
                return Err(Failure::Machine(message, Some(help)));
            };
            names.insert(asked(flow), name);
        }
        Ok(Algorithms { names, loaded })
    }

    /// Does a run.
    fn carry(&self, job: &Job, stop: Option<Arc<AtomicBool>>) -> Result<Record, Failed> {
        let names: Vec<String> =
            job.scenario.flows.iter().map(|f| self.names.get(&asked(f)).cloned().unwrap_or_default()).collect();
        let every = job.watch.as_ref().map(|w| Time(w.every_ns)).filter(|t| !t.is_zero()).unwrap_or(EVERY).min(EVERY);
        let transfers = Transfers {
            scenario: Arc::clone(&job.scenario),
            replica: job.replica,
            limits: job.limits,
            names: &names,
            every,
        };
        let stop = stop.unwrap_or_default();
        let mut late = String::new();
        for _ in 0..TRIES {
            match transfers.carry(&stop).map_err(|e: HostError| Failed::Machine(e.whole()))? {
                None => return Err(Exceeded::Stopped { at: Time::ZERO, duration: job.scenario.duration }.into()),
                Some(done) => match faults(&done.outcome, MOST_LATE) {
                    faults if faults.is_empty() => return Ok(record(job, done)),
                    faults => late = faults.join("; "),
                },
            }
        }
        Err(Failed::Machine(format!("{TRIES} times {late}")))
    }
}

/// Which algorithm a flow needs.
fn asked(flow: &FlowSpec) -> Asked {
    (program(flow).to_owned(), flow.cc_params.to_string())
}

/// The sender's algorithm.
fn program(flow: &FlowSpec) -> &str {
    // The receiver makes the difference, `delayed_ack = 1`.
    if flow.cc == "newreno-nd" { "newreno" } else { &flow.cc }
}

fn record(job: &Job, done: Transferred) -> Record {
    let result = done.outcome.result;
    let watched = |watch: &Watch| {
        let mut watcher = Watcher::new(watch, &job.scenario);
        for v in &done.vitals {
            let bytes = |segments: u32| u64::from(segments) * u64::from(v.mss);
            watcher.look(&Look {
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
    Record { key: job.key.clone(), watched: job.watch.as_ref().map(watched), result }
}

/// How often a run is repeated whose link was late.
const TRIES: u32 = 4;
/// How late one packet in a hundred may be; as `emulate` has it.
const MOST_LATE: Time = Time(1_000_000);
/// How often connections are looked at, unless curves are finer.
const EVERY: Time = Time(10_000_000);
