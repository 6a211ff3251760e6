//! `roughlink scenario`

use super::run::source;
use crate::args::{CheckScenarios, CopyScenario, ListArgs, ShowScenario};
use crate::failure::{Failure, print, print_json, warn};
use crate::show;
use roughlink_core::link::noise::Noise;
use roughlink_core::link::{Direction, Model, SharedConfig};
use roughlink_core::net::{Network, RunOptions};
use roughlink_core::pep;
use roughlink_core::scenario::{FlowSpec, FlowTransport, Scenario};
use roughlink_lab::error::LabError;
use roughlink_lab::library::{Overrides, ScenarioText, names, write_text};
use serde_json::json;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

pub(crate) fn list(args: &ListArgs) -> Result<(), Failure> {
    let scenarios = names("scenarios").into_iter().map(|name| Ok((ScenarioText::scenario(&name)?, name)));
    let scenarios: Vec<(ScenarioText, String)> = scenarios.collect::<Result<_, LabError>>()?;
    if args.json {
        let all: Vec<_> = scenarios
            .iter()
            .map(|(source, name)| json!({ "name": name, "title": title(source), "about": description(&source.text) }))
            .collect();
        return print_json(&all);
    }
    let mut table = show::table(&["name", "title"]);
    for (source, name) in &scenarios {
        table.add_row([name, &title(source)]);
    }
    print(&format!("{table}\n"))
}

pub(crate) fn show(args: &ShowScenario) -> Result<(), Failure> {
    print(&ScenarioText::scenario(&args.name)?.text)
}

pub(crate) fn check(args: &CheckScenarios) -> Result<(), Failure> {
    let overrides = args.set.overrides()?;
    let (mut built, mut failed) = (Vec::new(), None);
    for name in &args.scenarios {
        match plan(name, args.reading.allow_outside, &overrides, args.json) {
            Ok(scenario) if args.json => built.push(scenario_json(name, &scenario)),
            Ok(scenario) => print(&described(name, &scenario))?,
            Err(failure) => {
                if args.json {
                    built.push(json!({ "file": name, "valid": false }));
                }
                // Print the errors of each file; the last one sets the exit code.
                if let Some(earlier) = failed.replace(failure) {
                    earlier.exit();
                }
            }
        }
    }
    if args.json {
        print_json(&built)?;
    }
    failed.map_or(Ok(()), Err)
}

/// Reads the scenario and prints its warnings. Fails if no network can be built from it.
fn plan(name: &str, outside: bool, overrides: &Overrides, quiet: bool) -> Result<Arc<Scenario>, Failure> {
    let source = source(name)?.allow_outside(outside);
    let parsed = source.parse(overrides)?;
    if !quiet {
        warn(&source.name, &parsed.scenario.source, &parsed.warnings);
    }
    let scenario = Arc::new(parsed.scenario);
    Network::new(Arc::clone(&scenario), RunOptions::default())?;
    Ok(scenario)
}

fn described(name: &str, scenario: &Scenario) -> String {
    let node = |i: usize| scenario.nodes[i].name.as_str();
    let mut links = show::table(&["link", "between", "model", "forward", "reverse"]);
    for link in &scenario.links {
        let between = format!("{}, {}", node(link.between.0), node(link.between.1));
        let (model, directions) = match &link.model {
            Model::Pipe(pipe) => ("pipe", [&pipe.forward, &pipe.reverse].map(direction)),
            Model::Shared(SharedConfig::Hdplc(_)) => ("hdplc", Default::default()),
            Model::Shared(SharedConfig::GreenPhy(_)) => ("greenphy", Default::default()),
        };
        links.add_row([link.name.as_str(), &between, model, &directions[0], &directions[1]]);
    }
    let mut flows = show::table(&["flow", "kind", "from", "to", "transport"]);
    for flow in &scenario.flows {
        flows.add_row([flow.name.as_str(), flow.traffic.name(), node(flow.from), node(flow.to), &transport(flow)]);
    }
    let gateways: String = (scenario.gateways.iter())
        .map(|g| (&g.name, g.kind.name, g.node))
        .chain(scenario.proxies.iter().map(|p| (&p.name, pep::NAME, p.node)))
        .map(|(name, kind, at)| format!("gateway {name}: {kind} at {}\n", node(at)))
        .collect();
    let (nodes, duration) = (scenario.nodes.len(), scenario.duration);
    format!("{name} is valid: {duration}, {nodes} nodes\n{links}\n{flows}\n{gateways}")
}

/// Describes a direction of a pipe: rate, delay, queue, discipline and noise.
fn direction(direction: &Direction) -> String {
    let mut out = format!("{}, {}, {}", direction.rate, direction.delay, direction.queue);
    for (is_there, what) in [
        (direction.noise != Noise::None, "noise"),
        (!direction.jitter.is_zero(), "jitter"),
        (direction.discipline.is_some(), "qdisc"),
        (direction.timeline.is_some(), "timeline"),
    ] {
        if is_there {
            out += ", ";
            out += what;
        }
    }
    out
}

/// Describes transport, stack and congestion control of a flow.
fn transport(flow: &FlowSpec) -> String {
    match &flow.transport {
        FlowTransport::Udp => "UDP".into(),
        FlowTransport::Sctp(_, cc) => format!("SCTP, {}", cc.name),
        FlowTransport::Tcp(tcp, cc) => format!("TCP, {} stack, {}", tcp.stack.name(), cc.name),
    }
}

fn scenario_json(name: &str, scenario: &Scenario) -> serde_json::Value {
    let node = |i: usize| &scenario.nodes[i].name;
    let links = scenario
        .links
        .iter()
        .map(|link| json!({ "name": link.name, "between": [node(link.between.0), node(link.between.1)] }));
    let flows = scenario.flows.iter().map(|flow| {
        json!({ "name": flow.name, "kind": flow.traffic.name(), "from": node(flow.from), "to": node(flow.to),
            "transport": transport(flow) })
    });
    json!({ "file": name, "valid": true, "duration_s": scenario.duration.as_secs_f64(),
        "nodes": scenario.nodes.iter().map(|node| &node.name).collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(), "flows": flows.collect::<Vec<_>>() })
}

/// Copies a scenario into a file, and the files that it reads into the same folder.
pub(crate) fn copy(args: &CopyScenario) -> Result<(), Failure> {
    let source = ScenarioText::scenario(&args.name)?;
    let own_name = format!("{}.toml", source.stem());
    let to = match &args.file {
        None => PathBuf::from(own_name),
        Some(folder) if folder.is_dir() => folder.join(own_name),
        Some(file) => file.clone(),
    };
    let folder = to.parent().unwrap_or(Path::new(""));
    let mut files = vec![(to.clone(), source.text.clone())];
    for (name, text) in source.parse(&[])?.files {
        let beside = Path::new(&name).components().all(|part| matches!(part, Component::Normal(_)));
        if !beside || folder.join(&name) == to {
            let message = if beside {
                format!("cannot write {}: the scenario reads a file of this name", to.display())
            } else {
                format!("cannot copy {name}: it is outside the folder of the scenario")
            };
            let help = if beside {
                "name another output file"
            } else {
                "copy the file by hand, and change its name in the scenario"
            };
            return Err(LabError::Usage { message, help: help.into() }.into());
        }
        files.push((folder.join(name), text));
    }
    if let Some((there, _)) = files.iter().find(|(path, _)| !args.force && path.exists()) {
        return Err(LabError::Usage {
            message: format!("cannot write {}: the file exists", there.display()),
            help: "replace it with --force, or name another file".into(),
        }
        .into());
    }
    for (path, text) in &files {
        // The folder of the scenario itself must already exist.
        if path.parent().is_some_and(|inner| inner != folder) {
            let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            made.map_err(|source| LabError::Write { path: path.clone(), source })?;
        }
        write_text(path, text, args.force).map_err(|source| LabError::Write { path: path.clone(), source })?;
    }
    print(&format!("{}\n", to.display()))
}

fn title(source: &ScenarioText) -> String {
    let table = source.text.parse::<toml::Table>().ok();
    let name = table.as_ref().and_then(|table| table.get("name")?.as_str());
    name.unwrap_or_default().to_owned()
}

/// Returns the first paragraph of a file's leading comment.
fn description(text: &str) -> String {
    let comment = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    comment.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}
