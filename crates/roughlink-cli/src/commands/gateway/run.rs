//! `roughlink gateway run`, `check` and `stat`: gateways on real packets.

use super::kinds;
use super::status::{AgentState, GatewayStatus, HEADING, InstanceFacts};
use crate::args::ListArgs;
use crate::args::gateway::{GatewayRun, GatewayStat};
use crate::commands::emulate::{INSIDE, failure};
use crate::failure::{Failure, print, print_json, print_stderr};
use crate::service::{self, BoundService, Watchdog};
use crate::show;
use crate::signals::on_stop;
use crate::unit::{command_line, joined};
use roughlink_core::gateway::{Gateway, GatewayError, Heading, RegisteredGateway, kind};
use roughlink_core::pep::{self, PepError, Proxy, ProxyConfig};
use roughlink_core::units::Time;
use roughlink_core::wire::Datagram;
use roughlink_host::{
    Cleanup, CoverageSource, GatewayOnPath, KeptRight, Launcher, Middlebox, Namespace, PacketPath, Passage,
    PathDevices, QueueRules, abilities, confine,
};
use roughlink_lab::error::LabError;
use roughlink_lab::nearest;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KIND: &str = "gateway";

pub(crate) fn run(args: &GatewayRun) -> Result<(), Failure> {
    let name = args.rename.as_deref().unwrap_or(&args.gateway);
    let kind = CheckedGateway::new(args)?;
    kind.check(args)?;
    if args.unit {
        return print(&unit(args, name)?);
    }
    let stop = on_stop(|| ());
    let here = Namespace::here().map_err(failure)?;
    let is_proxy = matches!(kind, CheckedGateway::Proxy(_));
    let rules = args.queue.map(|queue| QueueRules { queue, inside: args.inside.clone(), icmp: is_proxy });
    let place = match (&rules, &args.between[..]) {
        (Some(rules), _) => PathDevices::queues(&here, rules.queues()),
        (None, [inner, outer]) => PathDevices::between(&here, [inner, outer]),
        (None, _) => unreachable!("clap requires a place"),
    };
    let place = place.map_err(failure)?;
    let coverage = args.coverage.as_deref().map(|socket| {
        CoverageSource::follow(socket).map_err(|e| {
            let message = format!("cannot reach an agent at {}: {e}", socket.display());
            Failure::Machine(message, Some("start it first: `roughlink agent`"))
        })
    });
    let coverage = coverage.transpose()?;
    let service = BoundService::open(KIND, name, args.metrics.as_deref())?;
    let mut plan = match rules.as_ref().filter(|_| args.install) {
        Some(rules) => rules.install(&here).map_err(failure)?,
        None => Default::default(),
    };
    plan.files.push(service.path().to_owned());
    let _cleanup = Cleanup::start(&Launcher::new(INSIDE), &plan).map_err(failure)?;
    let about = kind.about(args, name);
    let mut element = kind.element(&place, args.dry_run)?;
    let kept = if args.queue.is_some() { KeptRight::NetworkAdministration } else { KeptRight::Nothing };
    for missing in confine(&args.user, kept).map_err(failure)? {
        print_stderr(&format!("warning: this machine does not restrict the program by {missing}"));
    }
    print_stderr(&format!("`{name}` runs {}; press Ctrl-C to end", about.place));
    let requests = service.serve()?;
    let mut path = PacketPath::start(place);
    let mut watchdog = Watchdog::ready();
    while !stop.load(Ordering::Relaxed) {
        let now = path.turn(&mut element).map_err(|e| failure(e.into()))?;
        if let RunningElement::Gateway(gateway) = &mut element {
            coverage.iter().flat_map(CoverageSource::events).for_each(|event| gateway.gateway.on_link(now, &event));
        }
        path.send(now, &mut element);
        requests.answer(|| status(&about, &path, &here, &element, coverage.as_ref()));
        watchdog.alive(now);
    }
    if let RunningElement::Proxy(proxy) = &mut element {
        let now = path.packets().now();
        proxy.reset_all(now);
        path.send(now, &mut element);
    }
    Err(Failure::Interrupted(format!("`{name}` ended after {}", element.summary())))
}

/// What to run, checked.
enum CheckedGateway {
    Registered(&'static RegisteredGateway, Box<dyn Gateway>, toml::Table),
    Proxy(pep::ProxyParams),
}

/// Element on the path.
enum RunningElement {
    Gateway(Box<GatewayOnPath>),
    Proxy(Box<Proxy>),
}

impl CheckedGateway {
    /// Builds the gateway, or reads the parameters of the proxy.
    fn new(args: &GatewayRun) -> Result<Self, Failure> {
        let given = parameters(args)?;
        let refused = |message: String, unknown: Option<(&str, &[String])>| {
            let help = match unknown {
                Some((key, known)) => nearest::suggest(key, "expected", known.iter().map(String::as_str)),
                None => "`roughlink gateway list` explains the parameters".into(),
            };
            Failure::from(LabError::Usage { message, help })
        };
        if args.gateway == pep::NAME {
            return pep::ProxyParams::from_table(&given).map(CheckedGateway::Proxy).map_err(|e| {
                let unknown = match &e {
                    PepError::UnknownParameter { key, known } => Some((key.as_str(), &known[..])),
                    _ => None,
                };
                refused(e.to_string(), unknown)
            });
        }
        let entry = kind(&args.gateway).map_err(|_| LabError::NotFound {
            what: "gateway",
            name: args.gateway.clone(),
            help: nearest::suggest(&args.gateway, "expected", kinds().map(|kind| kind.name).collect::<Vec<_>>()),
        })?;
        let gateway = entry.build(&given).map_err(|e| {
            let unknown = match &e {
                GatewayError::UnknownParameter { key, known, .. } => Some((key.as_str(), &known[..])),
                _ => None,
            };
            refused(e.to_string(), unknown)
        })?;
        let mut parameters = entry.parameters();
        parameters.extend(given);
        Ok(CheckedGateway::Registered(entry, gateway, parameters))
    }

    /// Checks that the options suit the gateway.
    fn check(&self, args: &GatewayRun) -> Result<(), LabError> {
        let usage = |message: String, help: &str| Err(LabError::Usage { message, help: help.into() });
        match self {
            CheckedGateway::Registered(entry, ..) if entry.needs_coverage && args.coverage.is_none() => usage(
                format!("`{}` needs reports of coverage: without them it changes nothing", entry.name),
                "name the socket of the agent, such as --coverage /run/roughlink/coverage.sock",
            ),
            CheckedGateway::Proxy(_) if args.dry_run => usage(
                format!("--dry-run: `{}` ends connections, so it cannot only watch", pep::NAME),
                "estimate its effect in a simulation: `roughlink run satellite-pep`",
            ),
            CheckedGateway::Proxy(_) if args.queue.is_some() && args.install && args.inside.is_none() => usage(
                format!("`{}` serves other hosts", pep::NAME),
                "name the device before these hosts, such as --inside eth1",
            ),
            _ => Ok(()),
        }
    }

    fn about(&self, args: &GatewayRun, name: &str) -> InstanceFacts {
        let (parameters, estimates) = match self {
            CheckedGateway::Registered(entry, _, parameters) => (parameters.clone(), entry.needs_modem),
            CheckedGateway::Proxy(params) => (params.to_table(), false),
        };
        InstanceFacts {
            name: name.to_owned(),
            gateway: args.gateway.clone(),
            parameters,
            place: described(args),
            process: std::process::id(),
            dry_run: args.dry_run,
            backlog: estimates.then(|| "estimated from forwarded and acknowledged bytes".to_owned()),
        }
    }

    fn element(self, place: &PathDevices, dry_run: bool) -> Result<RunningElement, Failure> {
        match self {
            CheckedGateway::Registered(_, gateway, _) => {
                Ok(RunningElement::Gateway(Box::new(GatewayOnPath::new(gateway, place.framing(), dry_run))))
            }
            CheckedGateway::Proxy(params) => {
                let mut secret = [0; 16];
                getrandom::fill(&mut secret)
                    .map_err(|e| Failure::Machine(format!("cannot get random numbers: {e}"), None))?;
                let secret = u128::from_ne_bytes(secret);
                let config = ProxyConfig { params, over: Heading::Outward, mtu: place.mtu(), secret };
                let proxy = Proxy::new(config).map_err(|e| LabError::Usage {
                    message: e.to_string(),
                    help: "`roughlink gateway list` explains the parameters".into(),
                })?;
                Ok(RunningElement::Proxy(Box::new(proxy)))
            }
        }
    }
}

impl RunningElement {
    fn middlebox(&mut self) -> &mut dyn Middlebox {
        match self {
            RunningElement::Gateway(gateway) => &mut **gateway,
            RunningElement::Proxy(proxy) => &mut **proxy,
        }
    }

    fn summary(&self) -> String {
        match self {
            RunningElement::Gateway(gateway) => {
                let counts = gateway.counters();
                format!("{} TCP segments, {} of them with a reduced window", counts.segments, counts.rewritten)
            }
            RunningElement::Proxy(proxy) => format!("{} connections", proxy.counters().opened),
        }
    }
}

impl Middlebox for RunningElement {
    fn receive(&mut self, now: Time, heading: Heading, datagram: &mut Datagram<&mut [u8]>) -> Passage {
        self.middlebox().receive(now, heading, datagram)
    }
    fn transmit(&mut self, now: Time, bytes: &mut Vec<u8>) -> Option<Heading> {
        self.middlebox().transmit(now, bytes)
    }
    fn wake(&mut self, now: Time) {
        self.middlebox().wake(now);
    }
    fn next_wake(&self) -> Time {
        match self {
            RunningElement::Gateway(gateway) => gateway.next_wake(),
            RunningElement::Proxy(proxy) => Middlebox::next_wake(&**proxy),
        }
    }
}

fn status(
    about: &InstanceFacts,
    path: &PacketPath,
    here: &Namespace,
    element: &RunningElement,
    coverage: Option<&CoverageSource>,
) -> GatewayStatus {
    let packets = &path.packets().counters();
    let missed = path.missed(here);
    match element {
        RunningElement::Gateway(gateway) => {
            let agent = coverage.map(|c| if c.is_connected() { AgentState::Connected } else { AgentState::Lost });
            let stats = gateway.gateway.stats(None);
            GatewayStatus::of_gateway(about, packets, agent, (gateway.counters(), missed), &stats)
        }
        RunningElement::Proxy(proxy) => GatewayStatus::of_proxy(about, packets, missed, proxy),
    }
}

/// Parses the parameters; words need no quotes.
fn parameters(args: &GatewayRun) -> Result<toml::Table, LabError> {
    let mut text = String::new();
    for (key, value) in &args.parameters {
        let line = [format!("{key} = {value}"), format!("{key} = {}", json!(value))];
        let line = line.into_iter().find(|line| line.parse::<toml::Table>().is_ok());
        text += &line.ok_or_else(|| LabError::Usage {
            message: format!("--set {key}={value}: not a parameter"),
            help: "write KEY=VALUE, such as floor=3".into(),
        })?;
        text.push('\n');
    }
    text.parse().map_err(|e: toml::de::Error| LabError::Usage {
        message: format!("invalid parameters: {}", e.message()),
        help: "set each parameter once".into(),
    })
}

fn described(args: &GatewayRun) -> String {
    match (args.queue, &args.between[..]) {
        (Some(queue), _) => {
            let whose = match (&args.inside, args.install) {
                (Some(device), _) => format!(" for the hosts behind {device}"),
                (None, true) => " for this machine".into(),
                (None, false) => String::new(),
            };
            format!("at the netfilter queues {queue} and {}{whose}", queue + 1)
        }
        (None, devices) => format!("between {}", devices.join(" and ")),
    }
}

/// Returns a systemd unit that runs the gateway with these options.
fn unit(args: &GatewayRun, name: &str) -> Result<String, Failure> {
    let (program, words) = command_line(&["--coverage"])?;
    // A bridge without this program passes nothing, so restart it at once.
    let families = if args.queue.is_some() { "AF_INET AF_INET6" } else { "AF_PACKET" };
    Ok(format!(
        "# /etc/systemd/system/roughlink-{name}.service; then: systemctl enable --now roughlink-{name}
[Unit]
Description=TCP gateway {} {} (roughlink)
Wants=network.target
After=network.target
StartLimitIntervalSec=0

[Service]
Type=notify
WatchdogSec=10
Restart=always
RestartSec=100ms
# The program changes to an unprivileged user itself, once it has opened devices and queues.
ExecStart={program} {}
KillMode=mixed
RuntimeDirectory=roughlink
RuntimeDirectoryPreserve=yes
LimitRTPRIO=1
CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW CAP_SETGID CAP_SETPCAP CAP_SETUID CAP_SYS_NICE CAP_SYS_RESOURCE
RestrictAddressFamilies=AF_UNIX AF_NETLINK {families}
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
",
        args.gateway,
        described(args),
        joined(&words)
    ))
}

pub(crate) fn check(args: &ListArgs) -> Result<(), Failure> {
    let all = abilities(&Launcher::new(INSIDE));
    let all: Vec<_> = all.into_iter().filter(|a| a.commands.contains(&KIND)).collect();
    if args.json {
        let all: Vec<_> =
            all.iter().map(|a| json!({ "name": a.name, "used_for": a.what_for, "missing": a.missing })).collect();
        return print_json(&all);
    }
    let mut table = show::table(&["feature", "on this machine", "used for"]);
    for a in &all {
        let found = a.missing.as_ref().map_or("yes".into(), |reason| format!("no: {reason}"));
        table.add_row([a.name, &found, a.what_for]);
    }
    print(&format!("{table}\n"))
}

pub(crate) fn stat(args: &GatewayStat) -> Result<(), Failure> {
    let running = |name: &String| service::read(KIND, name).is_ok();
    let names = match &args.name {
        Some(name) => vec![name.clone()],
        None => service::instances(KIND).into_iter().filter(running).collect(),
    };
    let [name] = &names[..] else {
        if names.is_empty() || args.follow {
            let message =
                if names.is_empty() { "no gateway runs that this user may inspect" } else { "several gateways run" };
            let help = if names.is_empty() {
                "start one with `roughlink gateway run`, or run the command with sudo".into()
            } else {
                format!("name one: {}", names.join(", "))
            };
            return Err(LabError::Usage { message: message.into(), help }.into());
        }
        let all = names.iter().map(|name| read(name)).collect::<Result<Vec<_>, _>>()?;
        if args.json {
            return print_json(&all);
        }
        return all.iter().enumerate().try_for_each(|(n, status)| {
            if n > 0 {
                print("\n")?;
            }
            status.show()
        });
    };
    let mut before = read(name)?;
    if !args.follow {
        return if args.json { before.print_json() } else { before.show() };
    }
    let stop = on_stop(|| ());
    if !args.json {
        print(HEADING)?;
    }
    while waited(stop) {
        let now = read(name)?;
        now.show_changes(&before, args.json)?;
        before = now;
    }
    Err(Failure::Interrupted("stopped following".into()))
}

/// Waits for a second. Returns false if the program shall stop.
fn waited(stop: &AtomicBool) -> bool {
    (0..20).all(|_| {
        std::thread::sleep(Duration::from_millis(50));
        !stop.load(Ordering::SeqCst)
    })
}

fn read(name: &str) -> Result<GatewayStatus, Failure> {
    let text = service::read(KIND, name).map_err(|e| {
        let message = format!("cannot read the status of the gateway `{name}`: {e}");
        Failure::Machine(message, Some("`roughlink gateway stat` without a name shows all; other users' need sudo"))
    })?;
    serde_json::from_slice(&text).map_err(|e| Failure::Machine(format!("unreadable status of `{name}`: {e}"), None))
}
