//! `roughlink cc check`, `load`, `unload`, `stat` and `list --kernel`: algorithms in the running kernel.

use crate::args::ListArgs;
use crate::args::cc::{CcList, CoverageArgs, LoadArgs, OnOffArg, Stat, Unload};
use crate::failure::{Failure, print, print_json, print_stderr};
use crate::show;
use crate::signals::on_stop;
use crate::table::TextTable;
use crate::unit::{command_line, joined};
use roughlink_bpf::KernelError;
use roughlink_bpf::catalogue::ENTRIES;
use roughlink_bpf::check::needs;
use roughlink_bpf::defaults::{NamedNamespace, holders, registered, set_default};
use roughlink_bpf::event::{EventKind, EventRecord};
use roughlink_bpf::load::LoadRequest;
use roughlink_bpf::pinned::{self, Pinned};
use roughlink_host::{Namespace, is_allowed};
use roughlink_lab::error::LabError;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) fn check(args: &ListArgs) -> Result<(), Failure> {
    let all = needs();
    let loadable = match all.iter().any(|n| n.name == "load" && n.fix.is_some()) {
        true => Err(Failure::Machine("algorithms cannot be loaded on this machine".into(), None)),
        false => Ok(()),
    };
    if args.json {
        let all: Vec<_> = all.iter().map(|n| json!({ "name": n.name, "found": n.found, "fix": n.fix })).collect();
        print_json(&all)?;
        return loadable;
    }
    let mut table = show::table(&["requirement", "on this machine", "fix"]);
    for need in &all {
        table.add_row([need.name, &need.found, need.fix.unwrap_or("")]);
    }
    print(&format!("{table}\n"))?;
    loadable
}

pub(crate) fn list(args: &CcList) -> Result<(), Failure> {
    let loaded = Pinned::all()?;
    let uses = |name: &str| holders(name).unwrap_or_default();
    if args.json {
        let of = |p: &Pinned| {
            json!({ "name": p.name, "algorithm": p.record.algorithm, "version": p.record.version,
                "process": p.record.process, "parameters": p.record.parameters, "persists": p.persists,
                "registered": p.registered, "counters": p.counters().ok(),
                "default_of": is_allowed().then(|| uses(&p.name)) })
        };
        let can: Vec<_> = ENTRIES
            .iter()
            .map(|e| {
                let parameters = LoadRequest::new(e.name)?.all_parameters()?;
                Ok(json!({ "name": e.name, "name_in_kernel": e.name_in_kernel(), "parameters": parameters }))
            })
            .collect::<Result<_, KernelError>>()?;
        return print_json(&json!({ "loaded": loaded.iter().map(of).collect::<Vec<_>>(), "available": can }));
    }
    if !loaded.is_empty() {
        let mut table = show::table(&["in the kernel", "algorithm", "until", "open", "default of"]);
        for p in &loaded {
            let counters = p.counters().ok();
            let until = match (p.registered, p.persists) {
                (false, _) => "loader was killed: run `roughlink cc unload` to clean up".to_owned(),
                (true, true) => "`roughlink cc unload`".to_owned(),
                (true, false) => format!("process {} ends", p.record.process),
            };
            let open = counters.map_or("?".into(), |c| c.opened.saturating_sub(c.closed).to_string());
            table.add_row([&p.name, &p.record.algorithm, &until, &open, &uses(&p.name).join(", ")]);
        }
        print(&format!("{table}\n"))?;
        if !is_allowed() {
            print_stderr("connections and defaults are shown only to root");
        }
    }
    let mut table = show::table(&["name", "summary", "source", "parameters"]);
    for e in ENTRIES {
        let parameters: Vec<String> =
            LoadRequest::new(e.name)?.all_parameters()?.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        let algorithm = e.algorithm();
        table.add_row([e.name, algorithm.summary, algorithm.source, &parameters.join("\n")]);
    }
    print(&format!("{table}\n"))
}

/// Loads an algorithm. Unless it is pinned, waits for a signal and unloads it.
pub(crate) fn load(args: &LoadArgs) -> Result<(), Failure> {
    let mut request = LoadRequest::new(&args.name)?;
    for (key, value) in &args.parameters {
        let parsed: toml::Table = format!("value = {value}").parse().map_err(|_| LabError::Usage {
            message: format!("invalid value `{value}` of `{key}`"),
            help: "write a number, true or false".into(),
        })?;
        request.parameters.insert(key.clone(), parsed["value"].clone());
    }
    if let Some(name) = &args.rename {
        request.name.clone_from(name);
    }
    request.check()?;
    if args.unit {
        if registered()?.contains(&request.name) && Pinned::find(&request.name).is_err() {
            let message = format!("the kernel already has an algorithm `{}`", request.name);
            return Err(Failure::Machine(message, Some("choose another name with --as")));
        }
        return print(&unit(&request.name)?);
    }
    // Fail for a missing namespace before anything is loaded.
    let places = places(args)?;
    if !is_allowed() {
        return Err(Failure::Machine("loading needs root".into(), Some("run the command with sudo")));
    }
    request.previous_defaults = pinned::current_defaults(&places)?;
    // From here on, a signal no longer ends the process with half of the work done.
    let stop = on_stop(|| ());
    let mut loaded = request.load()?;
    loaded.pin(&request.name, args.pin)?;
    let named = if request.name == request.entry.name { String::new() } else { format!(" as `{}`", request.name) };
    if let Some(e) = places.iter().find_map(|place| set_default(place, &request.name).err()) {
        drop(loaded); // it holds the link
        pinned::unload(&request.name)?;
        return Err(e.into());
    }
    let whose: Vec<&str> = places.iter().map(|p| p.0.as_str()).collect();
    let whose = if whose.is_empty() { String::new() } else { format!(", the default of {}", whose.join(", ")) };
    print_stderr(&format!("loaded `{}`{named}{whose}", request.entry.name));
    if args.pin && !stop.load(Ordering::SeqCst) {
        return Ok(());
    }
    if !args.pin {
        print_stderr("press Ctrl-C to unload");
    }
    while !stop.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let counters = Pinned::find(&request.name).and_then(|p| p.counters()).unwrap_or_default();
    drop(loaded);
    pinned::unload(&request.name)?;
    Err(Failure::Interrupted(format!(
        "unloaded `{}` after {} connections with {} losses, {} of them time-outs",
        request.name, counters.opened, counters.congestions, counters.timeouts
    )))
}

pub(crate) fn unload(args: &Unload) -> Result<(), Failure> {
    if !is_allowed() {
        return Err(Failure::Machine("unloading needs root".into(), Some("run the command with sudo")));
    }
    let names = match args.all {
        true => Pinned::all()?.into_iter().map(|p| p.name).collect(),
        false => args.names.clone(),
    };
    let mut failed = None;
    for name in &names {
        match pinned::unload(name) {
            Ok(done) => {
                let mut message = format!("unloaded `{name}`");
                for (namespace, default) in &done.namespaces {
                    let _ = write!(message, "; the default of {namespace} is now `{default}`");
                }
                if done.connections > 0 {
                    let _ = write!(message, "; {} connections keep it until they end", done.connections);
                }
                print_stderr(&message);
            }
            Err(e) if failed.is_some() => print_stderr(&e.to_string()),
            Err(e) => failed = Some(e),
        }
    }
    failed.map_or(Ok(()), |e| Err(e.into()))
}

pub(crate) fn coverage(args: &CoverageArgs) -> Result<(), Failure> {
    let pinned = Pinned::find(&args.name)?;
    Ok(pinned.set_coverage(args.coverage == OnOffArg::On)?)
}

/// Coverage state of an algorithm in the kernel.
#[derive(Debug)]
pub(crate) struct CoverageSwitch(Pinned);

impl CoverageSwitch {
    /// Finds the algorithm `name`.
    pub(crate) fn new(name: &str) -> Result<Self, Failure> {
        let pinned = Pinned::find(name)?;
        // Fails for algorithms without such a state.
        pinned.set_coverage(true)?;
        Ok(CoverageSwitch(pinned))
    }

    pub(crate) fn set(&self, is_on: bool) -> Result<(), Failure> {
        Ok(self.0.set_coverage(is_on)?)
    }
}

pub(crate) fn stat(args: &Stat) -> Result<(), Failure> {
    let pinned = Pinned::find(&args.name)?;
    if !args.follow {
        let counters = pinned.counters()?;
        let connections = pinned.connections()?;
        let coverage = pinned.coverage()?;
        if args.json {
            let connections: Vec<_> = connections.iter().map(as_json).collect();
            return print_json(&json!({ "name": pinned.name, "what": pinned.record, "coverage": coverage,
                "counters": counters, "connections": connections }));
        }
        let c = counters;
        let parameters: Vec<String> = pinned.record.parameters.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        let parameters = if parameters.is_empty() { "no parameters".into() } else { parameters.join(", ") };
        let coverage = coverage.map_or("", |is_on| if is_on { "coverage: on\n" } else { "coverage: off\n" });
        print(&format!(
            "{}{coverage}connections: {} opened, {} open\nepisodes: {} congestion, {} time-outs, {} undone{}\n",
            show::wrapped(&format!("{} ({}): {parameters}", pinned.name, pinned.record.algorithm), "", "  "),
            c.opened,
            c.opened.saturating_sub(c.closed),
            c.congestions,
            c.timeouts,
            c.undone,
            if c.not_asked > 0 {
                format!("; {} begun by the kernel without calling `ssthresh`", c.not_asked)
            } else {
                String::new()
            }
        ))?;
        return if connections.is_empty() { Ok(()) } else { print(&format!("{}\n", table_of(&connections))) };
    }
    let stop = on_stop(|| ());
    let mut outcome = Ok(());
    if !args.json {
        print("      time  connection  event               cwnd  ssthresh  in flight    srtt ms\n")?;
    }
    let before = pinned.counters()?.not_recorded;
    pinned.follow(args.acks, |events| {
        let text: String = events.iter().map(|e| if args.json { json_line(e) } else { line(e) }).collect();
        outcome = if text.is_empty() { Ok(()) } else { print(&text) };
        outcome.is_ok() && !stop.load(Ordering::SeqCst)
    })?;
    let lost = pinned.counters()?.not_recorded.saturating_sub(before);
    if lost > 0 {
        print_stderr(&format!("{lost} events were lost: they arrived faster than they were printed"));
    }
    outcome?;
    Err(Failure::Interrupted("stopped following".into()))
}

/// Opens the namespaces whose default will change.
fn places(args: &LoadArgs) -> Result<Vec<NamedNamespace>, Failure> {
    let open = |name: &String| match Namespace::named(name) {
        Ok(namespace) => Ok((name.clone(), namespace)),
        Err(e) => Err(Failure::Machine(e.to_string(), Some("list the names of network namespaces with `ip netns`"))),
    };
    if args.default && args.netns.is_empty() {
        let here = Namespace::here().map_err(|e| Failure::Machine(e.to_string(), None))?;
        return Ok(vec![("this namespace".to_owned(), here)]);
    }
    args.netns.iter().map(open).collect()
}

/// Returns a systemd unit that repeats this command line, without --unit, at each boot.
fn unit(name: &str) -> Result<String, Failure> {
    let (program, mut words) = command_line(&["--netns"])?;
    if !words.iter().any(|w| w == "--pin") {
        words.push("--pin".into());
    }
    Ok(format!(
        "# /etc/systemd/system/roughlink-cc-{name}.service; then: systemctl enable --now roughlink-cc-{name}
[Unit]
Description=TCP congestion control {name} in the kernel (roughlink)
# Start early. Do not order by sysinit.target: cloud-init places that after the network.
DefaultDependencies=no
After=local-fs.target systemd-sysctl.service
Before=network-pre.target shutdown.target
Wants=network-pre.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={program} {}
ExecStop={program} cc unload {name}

[Install]
WantedBy=multi-user.target
",
        joined(&words)
    ))
}

fn description(e: &EventRecord) -> String {
    match e.kind {
        EventKind::Opened => format!("opened to {}", peer(e)),
        EventKind::Closed => "closed".into(),
        EventKind::Congestion => "congestion".into(),
        EventKind::Timeout | EventKind::TimeoutAgain => "time-out".into(),
        EventKind::Recovered => "recovered".into(),
        EventKind::Undone => "undone".into(),
        EventKind::Started => "starts again".into(),
        EventKind::Ack => format!("ack of {}", e.segments),
        EventKind::Sample => format!("rtt {} us", e.rtt_us),
        EventKind::State => format!("state {}", state(e.state)),
    }
}

fn line(e: &EventRecord) -> String {
    let ssthresh = ssthresh(e);
    let (seconds, srtt) = (e.now_us as f64 / 1e6, f64::from(e.srtt_us) / 1e3);
    format!(
        "{seconds:>10.3}  {:>10}  {:<18}  {:>4}  {ssthresh:>8}  {:>9}  {srtt:>9.3}\n",
        e.connection,
        description(e),
        e.cwnd,
        e.in_flight
    )
}

fn table_of(connections: &[(String, EventRecord)]) -> TextTable {
    let mut table = show::table(&["connection", "to", "state", "cwnd", "ssthresh", "in flight", "srtt ms", "in"]);
    for (namespace, e) in connections {
        table.add_row([
            e.connection.to_string(),
            peer(e),
            state(e.state).into(),
            e.cwnd.to_string(),
            ssthresh(e),
            e.in_flight.to_string(),
            format!("{:.3}", f64::from(e.srtt_us) / 1e3),
            namespace.clone(),
        ]);
    }
    table
}

fn as_json((namespace, e): &(String, EventRecord)) -> Value {
    json!({ "connection": e.connection, "namespace": namespace, "peer": peer(e), "local_port": e.local_port,
        "state": state(e.state), "cwnd": e.cwnd, "ssthresh": limited(e), "in_flight": e.in_flight, "mss": e.mss,
        "srtt_us": e.srtt_us })
}

/// Slow-start threshold, or `None` if it is unlimited.
fn limited(e: &EventRecord) -> Option<u32> {
    (e.ssthresh != u32::MAX).then_some(e.ssthresh)
}

fn ssthresh(e: &EventRecord) -> String {
    limited(e).map_or("-".into(), |n| n.to_string())
}

fn json_line(e: &EventRecord) -> String {
    let kind = format!("{:?}", e.kind).to_lowercase();
    let peer = (e.kind == EventKind::Opened).then(|| peer(e));
    let rtt = (e.rtt_us >= 0).then_some(e.rtt_us);
    let line = json!({ "time_us": e.now_us, "connection": e.connection, "event": kind, "peer": peer,
        "local_port": peer.is_some().then_some(e.local_port), "state": state(e.state), "cwnd": e.cwnd,
        "ssthresh": limited(e), "in_flight": e.in_flight, "srtt_us": e.srtt_us, "rtt_us": rtt,
        "segments": e.segments });
    format!("{line}\n")
}

fn peer(e: &EventRecord) -> String {
    let address = match e.family {
        10 => IpAddr::V6(Ipv6Addr::from(e.remote)),
        _ => IpAddr::V4(Ipv4Addr::new(e.remote[0], e.remote[1], e.remote[2], e.remote[3])),
    };
    std::net::SocketAddr::new(address.to_canonical(), e.remote_port).to_string()
}

fn state(number: u8) -> &'static str {
    ["open", "disorder", "cwr", "recovery", "loss"].get(usize::from(number)).copied().unwrap_or("unknown")
}
