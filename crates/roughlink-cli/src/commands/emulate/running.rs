//! Execution of a plan.

use super::folder::{about, unwritten};
use super::plan::{EmulationPlan, congestion_control, describe_flows, hosts, plan_warnings, quoted};
use super::recorder::QueuedWriter;
use super::result::{EmulationOutput, conversations, frames, modems, pacing_warnings, senders, timing, verdict};
use super::series::SeriesFiles;
use super::{INSIDE, failure};
use crate::failure::{Failure, print, print_json, print_stderr, warn};
use crate::live::{BoundServer, Server, timeline};
use crate::show;
use crate::signals::on_stop;
use roughlink_core::net::{NoObserver, Observer};
use roughlink_core::scenario::HostInterface;
use roughlink_core::trace::capture::Capture;
use roughlink_core::units::{Time, UnitError};
use roughlink_host::{
    BlockReservation, Emulation, EmulationResults, EmulationSettings, EndReason, Ended, Launcher, Output, OutputSink,
    Program, Running, attend, become_root, is_allowed,
};
use roughlink_lab::error::LabError;
use roughlink_lab::output::{EmulationFolder, GrowingFiles, OutputError};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub(super) fn run(plan: EmulationPlan<'_>) -> Result<(), Failure> {
    let EmulationPlan { source, real, programs, .. } = &plan;
    let most_late = time("--max-lateness", &real.max_lateness)?;
    let linger = time("--linger", &real.linger)?;
    let named = plan.kernels.iter().map(String::as_str).chain(plan.here).chain(programs.iter().map(|p| p.0.as_str()));
    let mut overrides = plan.overrides.clone();
    overrides.extend(named.map(|node| (format!("node.{}.kernel", quoted(node)), "true".into())));
    overrides.extend(real.seed.map(|seed| ("seed".into(), seed.to_string())));
    let parsed = source.parse(&overrides)?;
    if !plan.quiet {
        warn(&source.name, &parsed.scenario.source, &parsed.warnings);
    }
    let scenario = parsed.scenario;
    let hosts = hosts(&scenario, plan.here, programs.iter().map(|p| p.0.as_str()))?;
    if !plan.quiet {
        plan_warnings(&scenario, programs).iter().for_each(|doubt| print_stderr(&format!("warning: {doubt}")));
    }
    let door = real.serve.as_deref().map(BoundServer::open).transpose()?;
    // Do this before a second thread starts: only a process with one thread can enter a new user namespace.
    if !is_allowed() {
        if plan.here.is_some() {
            return Err(Failure::Machine(
                "cannot add a network device to this machine: this needs root".into(),
                Some(HERE_HELP),
            ));
        }
        if let Some(HostInterface::Attached(device)) =
            scenario.nodes.iter().map(|node| &node.interface).find(|i| matches!(i, HostInterface::Attached(_)))
        {
            let message = format!("cannot attach the network device {device}: this needs root");
            return Err(Failure::Machine(message, Some("run the command with sudo")));
        }
        become_root().map_err(failure)?;
    }
    let settings = EmulationSettings {
        replica: real.replica,
        limits: plan.limits,
        live: door.is_some() || plan.output.is_some(),
        carrier: plan.carrier,
        congestion_control: congestion_control(&scenario),
        inside: BTreeSet::new(),
        behind: plan.claim.as_ref().map(|claim| (1, claim.block)),
    };
    let scenario = Arc::new(scenario);
    let emulation = Emulation::open(Arc::clone(&scenario), &hosts, &settings).map_err(failure)?;
    plan.claim.iter().for_each(BlockReservation::release);
    if !plan.quiet && !plan.nested {
        for (node, device, addresses) in emulation.hosts() {
            let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            print_stderr(&match &addresses[..] {
                [] if node == device => format!("{device}: attached"),
                [] => format!("{node}: attached to {device}"),
                all => format!("{node}: {} at {device}", all.join(", ")),
            });
        }
        for (node, control) in emulation.congestion_controls() {
            let paced = if control.paced { ", paced" } else { "" };
            print_stderr(&format!("{node}: default congestion control {}{paced}", control.name));
        }
        emulation.warnings().iter().for_each(|warning| print_stderr(&format!("warning: {warning}")));
        describe_flows(&scenario).iter().for_each(|line| print_stderr(line));
    }
    if let Some(door) = &door {
        print_stderr(&format!("live view: {}", door.url()));
        if door.is_open() {
            print_stderr(
                "warning: other machines can reach the live view: anyone with this URL can watch and change links, \
                 and the connection is not encrypted",
            );
        }
    }
    let files = Arc::<GrowingFiles>::default();
    let mut folder = plan.output.map(|path| EmulationFolder::begin(path, &files)).transpose().map_err(unwritten)?;
    let in_folder = || folder.as_ref().filter(|_| plan.captures).map(EmulationFolder::capture);
    let capture = plan.capture.map(|path| files.create(path)).or_else(in_folder).transpose().map_err(unwritten)?;
    if let Some(folder) = &mut folder {
        folder.describe(&scenario.source, about(&scenario, &emulation, real.replica)).map_err(unwritten)?;
    }
    let samples = folder.as_ref().map(EmulationFolder::samples).transpose().map_err(unwritten)?;
    let series = samples.map(|files| SeriesFiles::new(files, &scenario));
    let kept = (folder.as_mut(), series, &*files);
    let left_out = Arc::<AtomicU64>::default();
    let EndedEmulation { outcome, why, ended, server } = match capture {
        None => carry_out(emulation, NoObserver, (&plan, linger), kept, door)?.0,
        Some(file) => {
            let path = file.path().to_owned();
            let kernels = vec![(QueuedWriter::new(file, Arc::clone(&left_out)), scenario.kernels().collect())];
            let capture = Capture::new(&scenario, kernels, Some(WHOLE))
                .map_err(|(_, source)| unwritten(OutputError::Write { path, source }))?;
            let (done, capture) = carry_out(emulation, capture, (&plan, linger), kept, door)?;
            // Write the packets still queued. `GrowingFiles` keeps an error of the write.
            let _ = capture.finish();
            done
        }
    };
    let steps = timeline::steps(&scenario, &outcome.changes);
    let uncaptured = left_out.load(Ordering::Relaxed);
    let result = EmulationOutput::new(&outcome, why, &ended, (&steps, uncaptured), most_late);
    let changes = timeline::text(&steps);
    if let Some(server) = server {
        server.finish(&result, &changes);
    }
    if !plan.quiet {
        pacing_warnings(&outcome.achieved).iter().for_each(|warning| print_stderr(&format!("warning: {warning}")));
    }
    let text = conversations(&outcome.achieved)
        + &frames(&outcome.frames)
        + &modems(&outcome.modems)
        + &timing(&outcome, uncaptured)
        + &changes;
    let printed = if plan.json {
        print_json(&result)
    } else if plan.prints_result && plan.nested {
        print_stderr(text.trim_end());
        Ok(())
    } else if plan.prints_result {
        print(&(show::run(&outcome.result) + &text))
    } else {
        Ok(())
    };
    let kept = folder.map_or(Ok(()), |folder| folder.finish(&result, &senders(&outcome.achieved)).map_err(unwritten));
    printed?;
    files.failure().map_or(kept, |e| Err(unwritten(e)))?;
    verdict(&outcome, why, &ended, most_late)?;
    match uncaptured {
        0 => Ok(()),
        n => Err(Failure::Machine(
            format!("the capture lacks {n} packets: the disk was too slow"),
            Some("write to a faster disk or to memory (/dev/shm), or write no capture (with -o: --no-capture)"),
        )),
    }
}

struct EndedEmulation {
    outcome: EmulationResults,
    why: EndReason,
    ended: Vec<Ended>,
    /// Live view, which still needs the result.
    server: Option<Server>,
}

fn carry_out<O: Observer + Send + 'static>(
    emulation: Emulation,
    observer: O,
    (plan, linger): (&EmulationPlan<'_>, Time),
    (mut folder, series, files): (Option<&mut EmulationFolder>, Option<SeriesFiles>, &GrowingFiles),
    door: Option<BoundServer>,
) -> Result<(EndedEmulation, O), Failure> {
    let output = match (plan.nested, plan.json) {
        (true, _) => Output::Ours,
        (false, true) => Output::PrefixedError,
        (false, false) => Output::Prefixed,
    };
    let launcher = Launcher::new(INSIDE);
    let interrupted = on_stop(|| {});
    let directory = emulation.directory();
    let mut sinks = Vec::new();
    for (node, _) in &plan.programs {
        let mut sink = || {
            let file = folder.as_mut().map(|folder| folder.output(node)).transpose().map_err(unwritten)?;
            Ok::<_, Failure>(file.map(|file| Box::new(file) as OutputSink))
        };
        sinks.push([sink()?, sink()?]);
    }
    let running = emulation.start(observer);
    let server = door.zip(running.live()).map(|(door, live)| door.serve(live)).transpose()?;
    let series = series.zip(running.live()).map(|(series, live)| series.follow(live));
    let mut started = Vec::new();
    for ((node, words), sinks) in plan.programs.iter().zip(sinks) {
        let program = Program::start(&launcher, (node, &directory), words, output, sinks);
        started.push(program.map_err(failure)?);
    }
    let stopped = || {
        if interrupted.load(Ordering::Relaxed) {
            Some(EndReason::Interrupted)
        } else {
            files.have_failed().then_some(EndReason::Unwritten)
        }
    };
    let (mut why, ended) = attend(&running, started, plan.until.map(OsStr::new), stopped);
    if why == EndReason::Ended {
        why = deliver(&running, linger, plan.quiet, stopped);
    }
    let (outcome, observer) = running.finish();
    let _ = series.map(JoinHandle::join);
    Ok((EndedEmulation { outcome, why, ended, server }, observer))
}

#[expect(clippy::disallowed_methods, reason = "how long it is waited, and nothing else, depends on it")]
fn now() -> Instant {
    Instant::now()
}

/// Waits at most for `longest` until the TCP data of ended programs is acknowledged. Returns the reason for the end.
fn deliver<O>(running: &Running<O>, longest: Time, quiet: bool, stopped: impl Fn() -> Option<EndReason>) -> EndReason {
    let begin = now();
    let mut told = quiet;
    loop {
        let (left, waited) = (running.undelivered(), now().duration_since(begin));
        if left == 0 {
            return EndReason::Ended;
        }
        let is_late = waited.as_nanos() >= u128::from(longest.0);
        let stopped = stopped();
        if is_late || running.is_over() || stopped.is_some() {
            let within = if is_late { format!(" within {longest} (see --linger)") } else { String::new() };
            print_stderr(&format!(
                "warning: {left} bytes of ended programs are lost: they were not acknowledged{within}"
            ));
            return stopped.unwrap_or(EndReason::Ended);
        }
        if !told && waited >= PATIENCE {
            print_stderr(&format!(
                "{left} bytes of ended programs are not acknowledged yet; press Ctrl-C to stop waiting"
            ));
            told = true;
        }
        thread::sleep(LOOK);
    }
}

pub(crate) fn time(option: &str, text: &str) -> Result<Time, LabError> {
    text.parse().map_err(|e: UnitError| LabError::Usage {
        message: format!("{option} {text}: {e}"),
        help: "write a time with its unit, such as '1 ms'".into(),
    })
}

/// Interval at which unacknowledged data is checked.
const LOOK: Duration = Duration::from_millis(20);
/// Time after which a message explains the wait.
const PATIENCE: Duration = Duration::from_secs(1);
/// Length limit of captured packets: 0 keeps whole packets, because the data of real programs is worth reading.
const WHOLE: u32 = 0;
const HERE_HELP: &str = "run the command with sudo; without root, print the scenario with `roughlink link --generate`, \
                         and run `roughlink emulate` with --exec for both ends";
