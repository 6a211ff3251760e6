//! `roughlink emulate`, `link` and `shell`: real programs behind the links of a scenario.

use super::run::source;
use crate::args::{Emulate, Link, RealTime, ShellAt};
use crate::failure::{Failure, print, print_json, say, warn};
use crate::progress::on_ctrl_c;
use crate::show;
use roughlink_core::metrics::RunResult;
use roughlink_core::net::addresses::{addresses, node_address};
use roughlink_core::net::{Limits, NoObserver, Observer};
use roughlink_core::packet::Protocol;
use roughlink_core::scenario::{FlowSpec, Scenario};
use roughlink_core::trace::capture::Capture;
use roughlink_core::units::{Time, UnitError};
use roughlink_host::{
    Attended, Emulation, Ended, Ending, Host, HostError, Lateness, Launcher, Outcome, Output, Place, Program, Settings,
    attend, become_root, directories, is_allowed,
};
use roughlink_lab::error::{LabError, exceeded_help};
use roughlink_lab::library::{Overrides, Source};
use roughlink_lab::nearest;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// The command by which this program calls itself between an emulation and its programs. It is none for people.
const INSIDE: &str = "__inside";

/// Does what this program was called for by itself, if it was.
pub(crate) fn inside() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let hidden = words.next().filter(|word| word == INSIDE)?;
    Some(roughlink_host::inside::main(&hidden, &words.collect::<Vec<_>>()))
}

/// What emulation needs: name, why it is missing, what for.
pub(crate) fn abilities() -> Vec<(&'static str, Option<String>, &'static str)> {
    let all = roughlink_host::abilities(&Launcher::new(INSIDE));
    all.into_iter().map(|a| (a.name, a.missing, a.what_for)).collect()
}

/// What to emulate, however it was said.
struct Plan<'a> {
    source: Source,
    overrides: Overrides,
    /// Nodes that are real beside those of the scenario.
    kernels: Vec<String>,
    /// The node that is this machine.
    here: Option<&'a str>,
    programs: Vec<(String, Vec<OsString>)>,
    until: Option<&'a str>,
    capture: Option<&'a Path>,
    real: &'a RealTime,
    limits: Limits,
    /// The programs' input and output are ours, and the result goes to standard error.
    nested: bool,
    json: bool,
    quiet: bool,
}

/// Emulates a scenario.
pub(crate) fn emulate(args: &Emulate) -> Result<(), Failure> {
    let source = source(&args.scenario)?.allow_outside(args.reading.allow_outside);
    let mut overrides = args.set.overrides()?;
    overrides.extend(args.lasts.iter().map(|time| ("duration".into(), time.clone())));
    let programs = args.exec.as_ref().map_or_else(Vec::new, |node| programs(node, &args.command));
    if let Some(until) = args.until.as_deref().filter(|until| programs.iter().all(|(node, _)| node != until)) {
        let nodes = programs.iter().map(|(node, _)| node.as_str());
        return Err(LabError::NotFound {
            what: "program at node",
            name: until.into(),
            help: nearest::suggest(until, "there are programs at", nodes),
        }
        .into());
    }
    run(Plan {
        source,
        overrides,
        kernels: args.kernel.clone(),
        here: args.here.as_deref(),
        programs,
        until: args.until.as_deref(),
        capture: args.capture.as_deref(),
        real: &args.real,
        limits: args.memory.limits(),
        nested: false,
        json: args.form.json,
        quiet: args.form.quiet,
    })
}

/// Emulates one link.
pub(crate) fn link(args: &Link) -> Result<(), Failure> {
    let text = one_link(args);
    if args.generate {
        return print(&text);
    }
    run(Plan {
        source: Source { name: "the link".into(), text, folder: None },
        overrides: args.set.overrides()?,
        kernels: Vec::new(),
        here: Some("host"),
        programs: vec![("inside".into(), args.command.clone())],
        until: None,
        capture: None,
        real: &args.real,
        limits: Limits::default(),
        nested: true,
        json: false,
        quiet: args.quiet,
    })
}

/// Opens a shell at a node.
pub(crate) fn shell(args: &ShellAt) -> Result<(), Failure> {
    let all = directories();
    let chosen = |process: u32| args.process.is_none_or(|p| p == process);
    let places: Vec<_> =
        all.iter().filter(|d| chosen(d.process)).flat_map(|d| d.nodes.iter().map(|node| (d.process, node))).collect();
    let found: Vec<_> = places.iter().filter(|(_, node)| node.name == args.node).collect();
    let [(_, node)] = found[..] else {
        let help = if let Some((process, _)) = found.first() {
            format!("several emulations have it: --process {process}, for one")
        } else if places.is_empty() {
            "no emulation of yours is running".into()
        } else {
            nearest::suggest(&args.node, "there are", places.iter().map(|(_, node)| node.name.as_str()))
        };
        return Err(LabError::NotFound { what: "single real node", name: args.node.clone(), help }.into());
    };
    let words = if args.command.is_empty() {
        vec![std::env::var_os("SHELL").unwrap_or_else(|| "sh".into())]
    } else {
        args.command.clone()
    };
    // What Ctrl-C does is the business of the program.
    let _ = ctrlc::set_handler(|| {});
    let place = (args.node.as_str(), node.namespace.as_path());
    let mut program = Program::start(&Launcher::new(INSIDE), place, &words, &[], Output::Ours).map_err(failure)?;
    match program.wait() {
        0 => Ok(()),
        code => Err(Failure::Program(format!("exit code {code}"), code)),
    }
}

fn run(plan: Plan<'_>) -> Result<(), Failure> {
    let Plan { source, real, programs, .. } = &plan;
    let most_late = time("--max-lateness", &real.max_lateness)?;
    let named = plan.kernels.iter().map(String::as_str).chain(plan.here).chain(programs.iter().map(|p| p.0.as_str()));
    let mut overrides = plan.overrides.clone();
    overrides.extend(named.map(|node| (format!("node.{}.kernel", quoted(node)), "true".into())));
    overrides.extend(real.seed.map(|seed| ("seed".into(), seed.to_string())));
    let parsed = source.parse(&overrides)?;
    if !plan.quiet {
        warn(&source.name, &parsed.scenario.source, &parsed.warnings);
    }
    let scenario = parsed.scenario;
    let hosts = hosts(&scenario, plan.here)?;
    // Before there is a second thread.
    if !is_allowed() {
        become_root().map_err(failure)?;
    }
    let settings = Settings { replica: real.replica, limits: plan.limits };
    let scenario = Arc::new(scenario);
    let emulation = Emulation::open(Arc::clone(&scenario), &hosts, &settings).map_err(failure)?;
    if !plan.quiet && !plan.nested {
        for (node, device, addresses) in emulation.hosts() {
            let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            say(&format!("{node}: {} at {device}", addresses.join(", ")));
        }
        about(&scenario).iter().for_each(|line| say(line));
    }
    let Done { outcome, why, ended } = match plan.capture {
        None => {
            let (done, NoObserver) = carry_out(emulation, NoObserver, &plan, &scenario)?;
            done
        }
        Some(path) => {
            let unwritten = |source| LabError::Write { path: path.to_owned(), source };
            let file = File::create_new(path).map_err(unwritten)?;
            let files = vec![(BufWriter::new(file), scenario.kernels.clone())];
            let capture = Capture::new(&scenario, files, Some(WHOLE)).map_err(|(_, e)| unwritten(e))?;
            let (done, capture) = carry_out(emulation, capture, &plan, &scenario)?;
            capture.finish().map_err(|(_, e)| unwritten(e))?;
            done
        }
    };
    let result = Emulated::new(&outcome, why, &ended);
    if plan.json {
        print_json(&result)?;
    } else if !plan.nested {
        print(&(show::run(&outcome.result) + &timing(&outcome)))?;
    } else if !plan.quiet {
        say(timing(&outcome).trim_end());
    }
    verdict(&outcome, why, &ended, most_late)
}

/// An emulation that is over.
struct Done {
    outcome: Outcome,
    why: Attended,
    ended: Vec<Ended>,
}

/// Runs the programs while the emulation does.
fn carry_out<O: Observer + Send + 'static>(
    emulation: Emulation,
    observer: O,
    plan: &Plan<'_>,
    scenario: &Scenario,
) -> Result<(Done, O), Failure> {
    let output = match (plan.nested, plan.json) {
        (true, _) => Output::Ours,
        (false, true) => Output::PrefixedError,
        (false, false) => Output::Prefixed,
    };
    let (launcher, variables) = (Launcher::new(INSIDE), variables(scenario));
    let interrupted = on_ctrl_c(|| {});
    let places: Vec<_> = plan.programs.iter().map(|(node, _)| emulation.place_of(node)).collect();
    let running = emulation.start(observer);
    let mut started = Vec::new();
    for ((node, words), place) in plan.programs.iter().zip(places) {
        let place = place.expect("each node with a program is real");
        let program = Program::start(&launcher, (node, &place), words, &variables, output);
        started.push(program.map_err(failure)?);
    }
    let (why, ended) = attend(&running, started, plan.until.map(OsStr::new), interrupted);
    let (outcome, observer) = running.finish();
    Ok((Done { outcome, why, ended }, observer))
}

/// How it ended, as an exit code says it.
fn verdict(outcome: &Outcome, why: Attended, ended: &[Ended], most_late: Time) -> Result<(), Failure> {
    if why == Attended::Interrupted {
        return Err(Failure::Interrupted("interrupted".into()));
    }
    if let Ending::Vanished { device, reason } = &outcome.ending {
        return Err(Failure::Machine(format!("the device {device} vanished: {reason}"), None));
    }
    if let Ending::Exceeded(limit) = outcome.ending {
        return Err(Failure::Machine(limit.to_string(), Some(exceeded_help(&limit))));
    }
    if let Some(failed) = ended.iter().find(|p| p.code != 0 && !p.stopped) {
        let at_once = if ended.iter().any(|p| p.stopped) { "; the others were stopped" } else { "" };
        let message = format!("`{}` at `{}` failed: exit code {}{at_once}", failed.command, failed.node, failed.code);
        return Err(Failure::Program(message, failed.code));
    }
    let late = outcome.lateness.filter(|l| l.p99 > most_late.0 as f64 / 1e3);
    if late.is_some() || outcome.overruns > 0 {
        return Err(Failure::Late(cause(outcome, most_late)));
    }
    Ok(())
}

/// What is said when the link was late, with the likely cause.
fn cause(outcome: &Outcome, most_late: Time) -> String {
    let mut text = match outcome.lateness {
        Some(l) if l.p99 > most_late.0 as f64 / 1e3 => {
            format!("the link was late: 99 % of the packets left within {:.0} us, not {most_late}", l.p99)
        }
        _ => format!("{} packets were dropped before the link, which took them too slowly", outcome.overruns),
    };
    let spent = outcome.result.wall_s.max(1e-9);
    let (ran, waited) = (outcome.effort.ran.as_secs_f64() / spent, outcome.effort.waited.as_secs_f64() / spent);
    if let Some(reason) = &outcome.unhurried {
        let _ = write!(text, "; {reason}");
    }
    if ran > BUSY {
        let _ = write!(text, "; the rate is too high for this machine: the loop ran {:.0} % of the time", ran * 100.0);
    } else if waited > 0.01 {
        let _ =
            write!(text, "; others had the processors: the loop waited for one {:.0} % of the time", waited * 100.0);
    }
    text
}

/// A share of the time above which the loop has too much to do.
const BUSY: f64 = 0.8;

/// What `--json` prints: what a run has, and what only an emulation has.
#[derive(Serialize)]
struct Emulated<'o> {
    #[serde(flatten)]
    run: &'o RunResult,
    lateness_us: Option<Lateness>,
    overruns: u64,
    refused: u64,
    ports: Ports,
    real_time: bool,
    loop_ran_s: f64,
    loop_waited_s: f64,
    ended: &'static str,
    programs: Vec<ProgramResult<'o>>,
}

/// What came from the kernels and went to them.
#[derive(Serialize)]
struct Ports {
    received: u64,
    sent: u64,
    unreachable: u64,
    unreadable: u64,
}

#[derive(Serialize)]
struct ProgramResult<'o> {
    node: &'o str,
    command: &'o str,
    exit_code: u8,
    stopped: bool,
}

impl<'o> Emulated<'o> {
    fn new(outcome: &'o Outcome, why: Attended, ended: &'o [Ended]) -> Self {
        let program =
            |p: &'o Ended| ProgramResult { node: &p.node, command: &p.command, exit_code: p.code, stopped: p.stopped };
        let ports = outcome.ports;
        Emulated {
            run: &outcome.result,
            lateness_us: outcome.lateness,
            overruns: outcome.overruns,
            refused: outcome.refused,
            ports: Ports {
                received: ports.received,
                sent: ports.sent,
                unreachable: ports.unreachable,
                unreadable: ports.unreadable,
            },
            real_time: outcome.unhurried.is_none(),
            loop_ran_s: outcome.effort.ran.as_secs_f64(),
            loop_waited_s: outcome.effort.waited.as_secs_f64(),
            ended: match (why, &outcome.ending) {
                (_, Ending::Vanished { .. }) => "vanished",
                (_, Ending::Exceeded(_)) => "exceeded",
                (Attended::Interrupted, _) => "interrupted",
                (Attended::Failed, _) => "failed",
                (Attended::Ended, _) => "programs",
                (Attended::Over, _) => "duration",
            },
            programs: ended.iter().map(program).collect(),
        }
    }
}

/// What a person wants to know about time.
fn timing(outcome: &Outcome) -> String {
    let late = outcome.lateness.map_or_else(
        || "no packet reached a kernel".into(),
        |l| {
            format!(
                "lateness: median {:.0} us, p99 {:.0} us, longest {:.0} us; later than 1 ms: {:.2} %",
                l.p50,
                l.p99,
                l.max,
                l.over_1ms * 100.0
            )
        },
    );
    let ports = outcome.ports;
    let mut text = format!("{} packets from kernels, {} to them; {late}\n", ports.received, ports.sent);
    for (count, what) in [
        (outcome.overruns, "packets dropped before the link, which took them too slowly"),
        (outcome.refused, "packets not taken by a kernel, whose device was down"),
        (ports.unreachable, "packets for an address or end that does not exist"),
    ] {
        if count > 0 {
            let _ = writeln!(text, "{what}: {count}");
        }
    }
    if let Some(reason) = &outcome.unhurried {
        let _ = writeln!(text, "not in real time: {reason}");
    }
    text
}

/// The real nodes of a scenario.
fn hosts(scenario: &Scenario, here: Option<&str>) -> Result<Vec<Host>, LabError> {
    if scenario.kernels.is_empty() {
        return Err(LabError::Usage {
            message: "no node of the scenario is a Linux host".into(),
            help: "name one by --exec or --kernel, or write `kernel = true` at it".into(),
        });
    }
    let host = |&node: &usize| {
        let is_here = here == Some(&scenario.nodes[node]);
        Host { node, place: if is_here { Place::Here } else { Place::Own } }
    };
    Ok(scenario.kernels.iter().map(host).collect())
}

/// What flows with one end at a kernel need there.
fn about(scenario: &Scenario) -> Vec<String> {
    let is_kernel = |node: usize| scenario.kernels.contains(&node);
    let of = |(i, f): (usize, &FlowSpec)| {
        let [src, dst] = addresses(scenario, i).sockets();
        let over = match f.protocol() {
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
            Protocol::Tcp => "TCP",
        };
        match (is_kernel(f.from), is_kernel(f.to)) {
            (false, true) => Some(format!("flow {}: sends to {dst}/{over} from {src}, at {}", f.name, f.start)),
            (true, false) => Some(format!("flow {}: receives at {dst}/{over}", f.name)),
            _ => None,
        }
    };
    scenario.flows.iter().enumerate().filter_map(of).collect()
}

/// ROUGHLINK_ and the name of each node: its address.
fn variables(scenario: &Scenario) -> Vec<(String, String)> {
    let name = |node: &str| {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        format!("ROUGHLINK_{}", node.chars().map(plain).collect::<String>())
    };
    let nodes = scenario.nodes.iter().enumerate();
    nodes.map(|(i, node)| (name(node), node_address(i).to_string())).collect()
}

/// The programs of `--exec FIRST -- words`, among which `--exec NODE --` begins the next.
fn programs(first: &str, words: &[OsString]) -> Vec<(String, Vec<OsString>)> {
    let mut all = vec![(first.to_owned(), Vec::new())];
    let mut rest = words;
    loop {
        match rest {
            [] => return all,
            [exec, node, dashes, more @ ..] if exec == "--exec" && dashes == "--" => {
                all.push((node.to_string_lossy().into_owned(), Vec::new()));
                rest = more;
            }
            [word, more @ ..] => {
                all.last_mut().expect("it has the first").1.push(word.clone());
                rest = more;
            }
        }
    }
}

/// The scenario of one link.
fn one_link(args: &Link) -> String {
    let text = |value: &str| toml::Value::from(value).to_string();
    let mut out = format!(
        "# roughlink emulate FILE --here host --exec inside -- COMMAND\n\
         name = \"One link\"\nduration = {}\n\n[[node]]\nname = \"host\"\nkernel = true\n\n\
         [[node]]\nname = \"inside\"\nkernel = true\n\n\
         [[link]]\nname = \"link\"\nbetween = [\"host\", \"inside\"]\nrate = {}\ndelay = {}\n",
        text(LONGEST_LINK),
        text(&args.rate),
        text(&args.delay)
    );
    if let Some(queue) = &args.queue {
        let _ = writeln!(out, "queue = {}", text(queue));
    }
    if let Some(loss) = &args.loss {
        let _ = writeln!(out, "noise = {{ kind = \"random\", loss = {} }}", text(loss));
    }
    out
}

/// Bytes that a capture keeps of a packet: what real programs send is worth reading.
const WHOLE: u32 = 0;
/// A link lasts as long as its program, at most.
const LONGEST_LINK: &str = "1000000 s";

/// A name as a path of `--set` has it.
fn quoted(name: &str) -> String {
    if name.contains('.') { format!("\"{name}\"") } else { name.to_owned() }
}

fn time(option: &str, text: &str) -> Result<Time, LabError> {
    text.parse().map_err(|e: UnitError| LabError::Usage {
        message: format!("{option} {text}: {e}"),
        help: "write a time with its unit, such as '1 ms'".into(),
    })
}

fn failure(e: HostError) -> Failure {
    match e {
        HostError::Network(e) => e.into(),
        e => Failure::Machine(e.whole(), e.help()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn commands_are_divided_where_the_next_node_begins() {
        let all = programs("a", &words("iperf3 -s --exec b -- sh -c x -- y --exec c"));
        let expected =
            [("a", "iperf3 -s"), ("b", "sh -c x -- y --exec c")].map(|(node, line)| (node.to_owned(), words(line)));
        assert_eq!(all, expected);
    }
}
