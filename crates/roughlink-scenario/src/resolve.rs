//! From the file to the [`Scenario`]: resolves names, fills in defaults, and checks values that depend on each other.

use super::addresses::check_addresses;
use super::cable::cables;
use super::context::Context;
use super::coverage::coverage;
use super::file::ScenarioFile;
use super::gateway::{ResolvedGateway, TomlGateway, check_proxies, conflicting, gateway, idle};
use super::leaf::{At, span};
use super::link::TomlLink;
use super::names::ElementNames;
use super::problem::{Problem, Problems};
use super::table::FileLoader;
use super::tcp::{Common, TomlTcp, check_hystart};
use roughlink_core::net::routing::{Edge, Routes};
use roughlink_core::scenario::{FlowSpec, LinkSpec, NodeSpec, Scenario};
use roughlink_core::units::Time;
use std::collections::BTreeMap;

/// Resolves the file `name`. Reports faults; the result is usable only if there are none. Drops each list of the file
/// as soon as it is resolved, because a large scenario takes much memory in both forms.
pub(super) fn resolve(file: ScenarioFile, name: &str, load: FileLoader<'_>, report: &mut Problems) -> Scenario {
    let duration = report.read(&file.duration).unwrap_or(Time::from_secs(1));
    if duration.is_zero() {
        let problem = Problem::new("`duration` must be greater than zero").at(span(&file.duration), "");
        report.error(problem.help("write a time such as \"60 s\""));
    }
    let none = TomlTcp::default();
    let tcp = file.tcp.as_ref().map_or(&none, |t| &t.value);
    let nodes = ElementNames::read("node", file.node.iter().map(|n| &n.value.name), report);
    let link_names = ElementNames::read("link", file.link.iter().map(|l| &l.value.name), report);
    let flow_names = ElementNames::read("flow", file.flow.iter().map(|f| &f.value.name), report);
    let gateway_names = ElementNames::read("gateway", file.gateway.iter().map(|g| &g.value.name), report);

    let before = report.problems.len();
    let written = file.link;
    let mut links: Vec<LinkSpec> = written
        .iter()
        .zip(&link_names.all)
        .map(|(link, name)| {
            let (model, notices) = link.value.model(duration, load, report);
            if model.draws() * duration.as_secs_f64() > MAX_IMPULSES {
                let problem = Problem::new(format!("noise of link `{name}` has more than {MAX_IMPULSES:.0} impulses"));
                let problem = problem.at(span(&link.value.name), "");
                report.error(problem.help("space the impulses further apart, or shorten `duration`"));
            }
            let cable = link.value.medium().and_then(|medium| report.read(&medium.cable)).map(|cable| cable.0);
            LinkSpec {
                name: name.clone(),
                between: between(link, &nodes, report),
                model,
                cable,
                notices,
                stays: Vec::new(),
            }
        })
        .collect();
    cables(&written, &mut links, report);
    ElementNames::read("coverage", file.coverage.iter().map(|c| &c.value.name), report);
    let loads = coverage(&file.coverage, (&link_names, &written, &mut links), duration, load, report);
    drop(written);
    let mut links_at = vec![Vec::new(); nodes.all.len().max(1)]; // links without nodes point at 0
    for (i, link) in links.iter().enumerate() {
        let (a, b) = link.between;
        links_at[a].push(i);
        if a != b {
            links_at[b].push(i);
        }
    }
    for (i, node) in file.node.iter().enumerate() {
        if nodes.all.len() > 1 && links_at[i].is_empty() {
            let place = node.value.name.as_ref().map_or(node.span.clone(), |n| n.span.clone());
            report.warn(
                Problem::new(format!("node `{}` has no link", nodes.all[i]))
                    .at(place, "unused")
                    .help("add a [[link]] to it, or remove it"),
            );
        }
    }
    let stands = |(g, name): (&At<TomlGateway>, &String)| {
        let here = nodes.find(&g.value.node, report);
        Some((g.span.clone(), gateway(g, name, here, &nodes.all, (&link_names, &links, &links_at), report)?))
    };
    let (mut gateways, mut proxies) = (Vec::new(), Vec::new());
    for (place, resolved) in file.gateway.iter().zip(&gateway_names.all).filter_map(stands) {
        match resolved {
            ResolvedGateway::Rewriter(gateway) => gateways.push((place, gateway)),
            ResolvedGateway::Proxy(proxy) => proxies.push((place, proxy)),
        }
    }
    conflicting(&gateways, report);
    let hosts: Vec<NodeSpec> =
        file.node.iter().zip(&nodes.all).map(|(n, name)| n.value.resolve(name, report)).collect();
    check_addresses(&file.node, &hosts, report);
    drop(file.node);
    if file.flow.is_empty() && !hosts.iter().any(|host| host.kernel) {
        report.warn(Problem::new("the scenario has no flow: nothing will happen").help("add a [[flow]]"));
    }
    let sound = report.problems.len() == before && nodes.complete;
    let edges: Vec<Edge> = links.iter().map(|l| Edge { between: l.between, delay: l.model.delay() }).collect();
    let mut context = Context {
        tcp,
        common: Common::new(),
        sctp: file.sctp.as_ref().map(|s| &s.value),
        nodes: &nodes,
        links: &links,
        routes: Routes::new(nodes.all.len().max(1), edges),
        sound,
        duration,
        notices: MAX_NOTICES,
        used: Vec::new(),
        fragmented: BTreeMap::new(),
    };
    let mut flows: Vec<FlowSpec> = file
        .flow
        .into_iter()
        .zip(flow_names.all)
        .map(|(flow, name)| flow.value.resolve(&flow.span, name, &mut context, report))
        .collect();
    flows.extend(loads);
    flows.shrink_to_fit(); // the list read from the file has room for more
    if report.problems.is_empty() && !(gateways.is_empty() && proxies.is_empty()) {
        let paths = context.tcp_paths(&flows);
        idle(&gateways, &paths, &nodes.all, &links, report);
        check_proxies(&proxies, (&paths, hosts.iter().any(|host| host.kernel)), &nodes.all, &links, report);
    }
    let gateways = gateways.into_iter().map(|g| g.1).collect();
    let proxies = proxies.into_iter().map(|p| p.1).collect();
    check_hystart(tcp, &context.used, report);
    context.warn_of_fragments(report);
    let name = report.read(&file.name).unwrap_or_else(|| stem(name).to_owned());
    let seed = report.read(&file.seed).unwrap_or(1);
    Scenario { name, seed, duration, nodes: hosts, links, flows, gateways, proxies, source: String::new() }
}

fn between(link: &At<TomlLink>, nodes: &ElementNames, report: &mut Problems) -> (usize, usize) {
    let Some(ends) = &link.value.between else { return (0, 0) };
    let [a, b] = ends.value.as_slice() else {
        let problem = Problem::new(format!("expected two nodes in `between`, found {}", ends.value.len()))
            .at(ends.span.clone(), "");
        report.error(problem.help("write between = [\"a\", \"b\"]"));
        return (0, 0);
    };
    let (from, to) = (nodes.find(&Some(a.clone()), report), nodes.find(&Some(b.clone()), report));
    if from.is_some() && from == to {
        let here = from.map_or("", |n| nodes.all[n].as_str());
        let there = nodes.all.iter().find(|n| *n != here && !n.is_empty()).map_or("b", String::as_str);
        let problem = Problem::new("both ends of the link are the same node").at(ends.span.clone(), "");
        report.error(problem.help(format!("name two different nodes, such as [\"{here}\", \"{there}\"]")));
    }
    (from.unwrap_or(0), to.unwrap_or(0))
}

/// Maximum number of notifications to examine; each takes some ten nanoseconds.
const MAX_NOTICES: usize = 1_000_000;
/// Maximum number of impulses of a link's noise in a run. All are drawn, even while the link has no packets.
const MAX_IMPULSES: f64 = 100e6;

/// Returns the name of a file without its folder and the extension `.toml`.
///
/// ```
/// assert_eq!(roughlink_scenario::stem("scenarios/hello.toml"), "hello");
/// ```
pub fn stem(name: &str) -> &str {
    let stem = name.rsplit(['/', '\\']).next().unwrap_or(name);
    stem.strip_suffix(".toml").unwrap_or(stem)
}
