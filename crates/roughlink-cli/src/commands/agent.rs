//! `roughlink agent`: reports coverage to gateways and to `avoca` in the kernel.
//!
//! Each source has a thread, which sends its observations to one loop. The loop keeps the state of the link, publishes
//! events at a socket and switches the algorithms. A program that connects first gets the present state. Coverage
//! begins and ends by the same rules as in a scenario ([`roughlink_core::cc::coverage`]).

mod sources;
mod state;

use super::emulate::{failure, time};
use super::kernel::CoverageSwitch;
use super::run::source;
use crate::args::agent::AgentArgs;
use crate::failure::{Failure, print, print_stderr};
use crate::service::bind;
use crate::signals::on_stop;
use crate::unit::{command_line, joined};
use roughlink_core::cc::LinkEvent;
use roughlink_core::scenario::Notices;
use roughlink_host::{CoverageMessage, LinkWatch, share_with_group};
use roughlink_lab::error::LabError;
use roughlink_lab::nearest;
use sources::Observed;
use state::KnownLink;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) fn agent(args: &AgentArgs) -> Result<(), Failure> {
    if args.threshold.is_some_and(|dbm| !dbm.is_finite()) || !(0.0..=100.0).contains(&args.hysteresis) {
        return Err(LabError::Usage {
            message: "invalid --threshold or --hysteresis".into(),
            help: "write a level in dBm, such as -110, and a margin of 0 to 100 dB".into(),
        }
        .into());
    }
    if args.unit {
        return print(&unit(args)?);
    }
    let every = time("--every", &args.every)?;
    let notices = args.replay.as_deref().map(|scenario| notices(args, scenario)).transpose()?;
    let watch = args.interface.as_deref().map(LinkWatch::open).transpose().map_err(failure)?;
    let switches = args.avoca.iter().map(|name| CoverageSwitch::new(name)).collect::<Result<Vec<_>, _>>()?;
    let socket = Socket::bind(args)?;
    let stop = on_stop(|| ());
    let (to, observed) = sync_channel(64);
    socket.accept(to.clone())?;
    print_stderr(&format!("reporting coverage at {}; press Ctrl-C to end", args.socket.display()));
    if let Some(watch) = watch {
        sources::watch(watch, args.carrier_only, to.clone());
    }
    if let Some(command) = &args.signal_command {
        sources::ask(command.clone(), every, to.clone());
    }
    if let Some(notices) = notices {
        sources::replay(notices, to);
    }
    let threshold = args.threshold.map(|dbm| (dbm, args.hysteresis));
    let mut reporter = Reporter { state: KnownLink::new(threshold), readers: Vec::new(), switches, json: args.json };
    let ended = reporter.run(&observed, || stop.load(Ordering::SeqCst));
    // Without an agent, programs assume coverage.
    let switched = reporter.switch(true);
    ended?;
    switched?;
    match stop.load(Ordering::SeqCst) {
        true => Err(Failure::Interrupted("the agent ended".into())),
        false => Ok(()),
    }
}

struct Reporter {
    state: KnownLink,
    readers: Vec<UnixStream>,
    switches: Vec<CoverageSwitch>,
    json: bool,
}

impl Reporter {
    /// Reports until a replay ends, a source is lost or `stop` returns true.
    fn run(&mut self, observed: &Receiver<Observed>, stop: impl Fn() -> bool) -> Result<(), Failure> {
        #[expect(clippy::disallowed_methods, reason = "an agent runs in real time")]
        let start = Instant::now();
        self.switch(self.state.has_coverage())?;
        while !stop() {
            match observed.recv_timeout(TICK) {
                Ok(Observed::Device(device)) => {
                    for event in self.state.events_to(device) {
                        self.report(start, &event)?;
                    }
                }
                Ok(Observed::Event(event)) => self.report(start, &event)?,
                Ok(Observed::Reader(reader)) => self.greet(reader),
                Ok(Observed::End) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(Observed::Lost(reason)) => return Err(Failure::Machine(reason, None)),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        Ok(())
    }

    fn greet(&mut self, mut reader: UnixStream) {
        let text: String = self.state.greeting().iter().map(line).collect();
        if reader.set_nonblocking(true).and_then(|()| reader.write_all(text.as_bytes())).is_ok() {
            self.readers.push(reader);
        }
    }

    fn report(&mut self, start: Instant, event: &LinkEvent) -> Result<(), Failure> {
        let before = self.state.has_coverage();
        let Some(message) = self.state.apply(event) else { return Ok(()) };
        let text = line(&message);
        // A reader that is gone, or too slow to take a line, is dropped; gateways connect again.
        self.readers.retain_mut(|reader| reader.write_all(text.as_bytes()).is_ok());
        let now = self.state.has_coverage();
        if now != before {
            self.switch(now)?;
        }
        let change = match (before, now) {
            (false, true) => ": coverage begins",
            (true, false) => ": coverage ends",
            _ => "",
        };
        match self.json {
            true => print(&text),
            false => print(&format!("{:>9.3} s  {}{change}\n", start.elapsed().as_secs_f64(), described(&message))),
        }
    }

    fn switch(&self, covered: bool) -> Result<(), Failure> {
        self.switches.iter().try_for_each(|switch| switch.set(covered))
    }
}

fn line(message: &CoverageMessage) -> String {
    serde_json::to_string(message).expect("plain data") + "\n"
}

fn described(message: &CoverageMessage) -> String {
    match message {
        CoverageMessage::Down => "down".into(),
        CoverageMessage::Up => "up".into(),
        CoverageMessage::Configured => "configured".into(),
        CoverageMessage::Signal { dbm } => format!("signal {dbm} dBm"),
        CoverageMessage::Threshold { dbm, hysteresis_db } => {
            format!("threshold {dbm} dBm, hysteresis {hysteresis_db} dB")
        }
    }
}

/// Socket for readers; its file is removed on drop.
struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    fn bind(args: &AgentArgs) -> Result<Self, Failure> {
        let path = args.socket.clone();
        let bound = bind(&path).and_then(|listener| {
            args.group.iter().try_for_each(|group| share_with_group(&path, group))?;
            Ok(listener)
        });
        match bound {
            Ok(listener) => Ok(Socket { listener, path }),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                let message = format!("another agent reports at {}", path.display());
                Err(Failure::Machine(message, Some("name another socket with --socket")))
            }
            Err(e) => {
                let message = format!("cannot report at {}: {e}", path.display());
                Err(Failure::Machine(message, Some("run the command with sudo, or name another socket with --socket")))
            }
        }
    }

    /// Passes programs that connect to the loop.
    fn accept(&self, to: SyncSender<Observed>) -> Result<(), Failure> {
        let listener = self.listener.try_clone().map_err(|e| Failure::Machine(e.to_string(), None))?;
        thread::spawn(move || {
            for reader in listener.incoming().flatten() {
                if to.send(Observed::Reader(reader)).is_err() {
                    return;
                }
            }
        });
        Ok(())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the events of the link to replay.
fn notices(args: &AgentArgs, scenario: &str) -> Result<Notices, Failure> {
    let parsed = source(scenario)?.parse(&args.set.overrides()?)?;
    let links = &parsed.scenario.links;
    let eventful = || links.iter().filter(|link| !link.notices.is_empty());
    let names = || eventful().map(|link| link.name.as_str()).collect::<Vec<_>>();
    let chosen = match &args.link {
        Some(name) => eventful().find(|link| link.name == *name).ok_or_else(|| LabError::NotFound {
            what: "link with events",
            name: name.clone(),
            help: nearest::suggest(name, "expected", names()),
        })?,
        None => match &eventful().collect::<Vec<_>>()[..] {
            [link] => link,
            found => {
                let message = match found.len() {
                    0 => "the scenario has no link with coverage or a timeline".to_owned(),
                    n => format!("the scenario has {n} links with events"),
                };
                let help = match found.len() {
                    0 => "add [[coverage]] to a link, or replay another scenario, such as circle-line".to_owned(),
                    _ => format!("choose one with --link: {}", names().join(", ")),
                };
                return Err(LabError::Usage { message, help }.into());
            }
        },
    };
    Ok(chosen.notices.clone())
}

/// Returns a systemd unit that runs the agent with these options.
fn unit(args: &AgentArgs) -> Result<String, Failure> {
    let (program, words) = command_line(&["--replay", "--socket"])?;
    // Only algorithms in the kernel need root.
    let rights = match args.avoca.is_empty() {
        true => "DynamicUser=yes\nCapabilityBoundingSet=\n",
        false => "CapabilityBoundingSet=CAP_BPF CAP_NET_ADMIN CAP_SYS_ADMIN\n",
    };
    let group = args.group.iter().map(|group| format!("SupplementaryGroups={group}\n")).collect::<String>();
    Ok(format!(
        "# /etc/systemd/system/roughlink-agent.service; then: systemctl enable --now roughlink-agent
[Unit]
Description=Coverage agent (roughlink)
Before=network-pre.target
Wants=network-pre.target

[Service]
Restart=always
RestartSec=1
ExecStart={program} agent {}
RuntimeDirectory=roughlink
RuntimeDirectoryPreserve=yes
{rights}{group}RestrictAddressFamilies=AF_UNIX AF_NETLINK
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
",
        joined(&words[1..])
    ))
}

/// Longest time until a signal to stop counts.
const TICK: Duration = Duration::from_millis(50);
