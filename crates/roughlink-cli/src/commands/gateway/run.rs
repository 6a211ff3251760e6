//! `roughlink gateway run`, `check` and `stat`: gateways on real packets.

use super::element::CheckedGateway;
use super::status::{AgentState, GatewayStatus, HEADING};
use crate::args::ListArgs;
use crate::args::gateway::{GatewayRun, GatewayStat};
use crate::commands::emulate::{INSIDE, failure};
use crate::failure::{Failure, print, print_json, print_stderr};
use crate::service::{self, BoundService, Watchdog};
use crate::show;
use crate::signals::on_stop;
use crate::unit::{command_line, joined};
use roughlink_host::{
    Cleanup, CoverageSource, KeptRight, Launcher, Namespace, PacketPath, PathDevices, QueueRules, abilities, confine,
};
use roughlink_lab::error::LabError;
use serde_json::json;
use std::io;
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
    let about = kind.about(args, name, described(args));
    let mut element = kind.element(&place, args.dry_run)?;
    // Raises the priority, which the confined program may not.
    let mut path = PacketPath::start(place);
    if let Some(reason) = path.packets().counters().unhurried {
        print_stderr(&format!("warning: other programs may delay packets: {reason}"));
    }
    let kept = if args.queue.is_some() { KeptRight::NetworkAdministration } else { KeptRight::Nothing };
    for missing in confine(&args.user, kept).map_err(failure)? {
        print_stderr(&format!("warning: this machine does not restrict the program by {missing}"));
    }
    print_stderr(&format!("`{name}` runs {}; press Ctrl-C to end", about.place));
    let requests = service.serve()?;
    let mut watchdog = Watchdog::ready();
    while !stop.load(Ordering::Relaxed) {
        let now = path.turn(&mut *element).map_err(|e| failure(e.into()))?;
        coverage.iter().flat_map(CoverageSource::events).for_each(|event| element.on_link(now, &event));
        path.send(now, &mut *element);
        requests.answer(|| {
            let agent = coverage.as_ref().map(AgentState::from);
            let mut status = GatewayStatus::new(&about, path.packets().counters(), path.missed(&here), agent);
            element.complete(&mut status);
            status
        });
        watchdog.alive(now);
    }
    let now = path.packets().now();
    element.end(now);
    path.send(now, &mut *element);
    Err(Failure::Interrupted(format!("`{name}` ended after {}", element.summary())))
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
CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW CAP_SETGID CAP_SETPCAP CAP_SETUID CAP_SYS_NICE
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
        if e.kind() == io::ErrorKind::ConnectionRefused {
            return Failure::Machine(format!("the gateway `{name}` has ended"), None);
        }
        let message = format!("cannot read the status of the gateway `{name}`: {e}");
        Failure::Machine(message, Some("`roughlink gateway stat` without a name shows all; other users' need sudo"))
    })?;
    serde_json::from_slice(&text).map_err(|e| Failure::Machine(format!("unreadable status of `{name}`: {e}"), None))
}
