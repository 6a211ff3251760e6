//! From the file to the [`Scenario`]: names become indices, defaults are filled in, and what belongs together is
//! checked against each other.

use super::file::{File, Flow, FlowKind, Link, Tcp};
use super::leaf::{At, Leaf, Name};
use super::link::{Load, pipe};
use super::problem::{Problem, Report, list, suggest};
use super::tcp::{Sources, check_hystart};
use super::{FlowSpec, LinkSpec, Scenario};
use crate::app::Traffic;
use crate::net::routing::{self, Edge, Hop};
use crate::tcp::{Stack, TcpConfig};
use crate::units::{Bytes, Rate, Time};
use std::collections::BTreeMap;
use std::ops::Range;

/// Resolves a file. What is wrong is reported; the result is of use only if nothing is.
pub(super) fn resolve(file: &File, default_name: &str, load: Load<'_>, report: &mut Report) -> Scenario {
    let duration = report.read(&file.duration).unwrap_or(Time::from_secs(1));
    if duration.is_zero() {
        report.error(Problem::new("a scenario of no duration").at(span(&file.duration), "must be more than zero"));
    }
    let none = Tcp::default();
    let tcp = file.tcp.as_ref().map_or(&none, |t| &t.value);
    tcp.faults(report);
    let nodes = names("node", file.node.iter().map(|n| (&n.value.name, &n.span)), report);
    let link_names = names("link", file.link.iter().map(|l| (&l.value.name, &l.span)), report);
    let flow_names = names("flow", file.flow.iter().map(|f| (&f.value.name, &f.span)), report);

    let before = report.problems.len();
    let links: Vec<LinkSpec> = file
        .link
        .iter()
        .zip(link_names)
        .map(|(link, name)| LinkSpec {
            name,
            between: between(link, &nodes, report),
            pipe: pipe(&link.value, load, report),
        })
        .collect();
    for (i, node) in file.node.iter().enumerate() {
        if nodes.len() > 1 && !links.iter().any(|l| l.between.0 == i || l.between.1 == i) {
            let place = node.value.name.as_ref().map_or(node.span.clone(), |n| n.span.clone());
            report.warn(Problem::new(format!("node `{}` has no link", nodes[i])).at(place, "unused"));
        }
    }
    if file.flow.is_empty() {
        report.warn(Problem::new("there is no flow: nothing will happen").help("add a [[flow]]"));
    }
    let sound = report.problems.len() == before && nodes.iter().all(|n| !n.is_empty());
    let edges: Vec<Edge> = links
        .iter()
        .map(|l| Edge { between: l.between, delay: (l.pipe.forward.delay, l.pipe.reverse.delay) })
        .collect();
    let mut context = Context {
        tcp,
        nodes: &nodes,
        links: &links,
        adjacency: routing::adjacency(nodes.len().max(1), &edges), // links without nodes point at 0
        edges,
        sound,
        duration,
        used: Vec::new(),
        torn: BTreeMap::new(),
    };
    let flows = file.flow.iter().zip(flow_names).map(|(flow, name)| context.flow(flow, name, report)).collect();
    check_hystart(tcp, &context.used, report);
    context.warn_of_fragments(report);
    let name = report.read(&file.name).unwrap_or_else(|| default_name.to_owned());
    let seed = report.read(&file.seed).unwrap_or(1);
    Scenario { name, seed, duration, nodes, links, flows, source: String::new() }
}

/// What the flows are resolved against.
struct Context<'f> {
    tcp: &'f Tcp,
    nodes: &'f [String],
    links: &'f [LinkSpec],
    edges: Vec<Edge>,
    adjacency: Vec<Vec<Hop>>,
    /// Nothing is wrong with these, so that what follows from them is not a consequence of another fault.
    sound: bool,
    duration: Time,
    /// The algorithms in use.
    used: Vec<(Stack, &'static crate::cc::Algorithm)>,
    /// Full packets that do not fit, by length and whether they are TCP's: the key that decides about them, and the
    /// links on which they travel as fragments.
    torn: BTreeMap<(u64, bool), (Range<usize>, Vec<usize>)>,
}

impl Context<'_> {
    fn flow(&mut self, flow: &At<Flow>, name: String, report: &mut Report) -> FlowSpec {
        let f = &flow.value;
        let here = f.name.as_ref().map_or(flow.span.clone(), |n| n.span.clone());
        let from = node(&f.from, self.nodes, report);
        let to = node(&f.to, self.nodes, report);
        let path = self.path(f, &name, from, to, report);
        let start = report.read(&f.start).unwrap_or_default();
        if start >= self.duration {
            let warning = Problem::new(format!("flow `{name}` starts when the scenario is over"));
            report.warn(warning.at(span(&f.start), format!("the duration is {}", self.duration)));
        }
        let bytes = report.read(&f.bytes).and_then(|t| t.0);
        if bytes == Some(0) {
            let problem = Problem::new(format!("flow `{name}` has nothing to carry")).at(span(&f.bytes), "");
            report.error(problem.help("leave `bytes` out for a flow without end"));
        }
        let mut spec = FlowSpec {
            name,
            from: from.unwrap_or(0),
            to: to.unwrap_or(0),
            start,
            traffic: Traffic::Bulk { bytes },
            tcp: TcpConfig::preset(Stack::default()),
            cc: String::new(),
            factory: None,
        };
        match report.read(&f.kind) {
            Some(FlowKind::Bulk) => {
                let sources = Sources { global: self.tcp, flow: f, span: here };
                if let Some(transport) = sources.resolve(report) {
                    let full = packet_length(&transport.config);
                    self.note_fragments((full, true), sources.span("mss"), &path);
                    self.used.push((transport.config.stack, transport.cc));
                    spec.tcp = transport.config;
                    spec.cc = transport.cc.name.to_owned();
                    spec.factory = Some(transport.factory);
                }
            }
            Some(FlowKind::Cbr) => spec.traffic = self.cbr(flow, start, bytes, &path, report),
            None => {}
        }
        spec
    }

    fn cbr(
        &mut self,
        flow: &At<Flow>,
        start: Time,
        bytes: Option<u64>,
        path: &[usize],
        report: &mut Report,
    ) -> Traffic {
        let f = &flow.value;
        let rate = report.read(&f.rate).unwrap_or(Rate::from_mbps(1));
        if rate == Rate(0) {
            report.error(Problem::new("a flow at rate zero sends nothing").at(span(&f.rate), ""));
        }
        let packet = report.read(&f.packet).unwrap_or(Bytes(1500)).0;
        let packet = u16::try_from(packet).ok().filter(|n| *n > 28).unwrap_or_else(|| {
            let problem = Problem::new(format!("a datagram of {packet} B is not possible")).at(span(&f.packet), "");
            report.error(problem.help("its length with 28 B of headers lies between 29 B and 65535 B"));
            1500
        });
        let origin = f.packet.as_ref().map_or(flow.span.clone(), |p| p.span.clone());
        self.note_fragments((u64::from(packet), false), origin, path);
        let stop = report.read(&f.stop);
        if let Some(stop) = stop.filter(|stop| *stop <= start) {
            let problem = Problem::new(format!("the flow stops at {stop}, before it starts at {start}"));
            report.error(problem.at(span(&f.stop), ""));
        }
        Traffic::Cbr { rate, packet, bytes, stop }
    }

    /// The links between two nodes, as packets will go.
    fn path(&self, flow: &Flow, name: &str, from: Option<usize>, to: Option<usize>, report: &mut Report) -> Vec<usize> {
        let (Some(from), Some(to)) = (from, to) else { return Vec::new() };
        if from == to {
            let problem = Problem::new(format!("flow `{name}` ends where it begins")).at(span(&flow.to), "");
            report.error(problem.help("`from` and `to` must be two nodes"));
            return Vec::new();
        }
        if let Some(hops) = routing::path(self.nodes.len(), &self.edges, &self.adjacency, from, to) {
            return hops.into_iter().map(|hop| hop as usize / 2).collect();
        }
        // After another fault this one may be its consequence.
        if self.sound {
            let reached = |n: &usize| routing::path(self.nodes.len(), &self.edges, &self.adjacency, from, *n).is_some();
            let reached: Vec<&str> = (0..self.nodes.len())
                .filter(reached)
                .map(|n| self.nodes[n].as_str())
                .filter(|n| **n != self.nodes[from])
                .collect();
            let (a, b) = (&self.nodes[from], &self.nodes[to]);
            let problem = Problem::new(format!("no links lead from `{a}` to `{b}`")).at(span(&flow.to), "");
            report.error(problem.help(if reached.is_empty() {
                format!("`{a}` has no link")
            } else {
                format!("from `{a}` one gets to {}", list(&reached))
            }));
        }
        Vec::new()
    }

    fn note_fragments(&mut self, packet: (u64, bool), origin: Range<usize>, path: &[usize]) {
        for &link in path {
            if packet.0 > u64::from(self.links[link].pipe.mtu) {
                let (_, links) = self.torn.entry(packet).or_insert_with(|| (origin.clone(), Vec::new()));
                if !links.contains(&link) {
                    links.push(link);
                }
            }
        }
    }

    /// One warning for each length of packet that does not fit.
    fn warn_of_fragments(&self, report: &mut Report) {
        for ((length, tcp), (place, links)) in &self.torn {
            let mut links = links.clone();
            links.sort_unstable();
            let mtu = links.iter().map(|i| self.links[*i].pipe.mtu).min().unwrap_or(1500);
            let names: Vec<&str> = links.iter().take(3).map(|i| self.links[*i].name.as_str()).collect();
            let more = if links.len() > 3 { format!(" and {} more links", links.len() - 3) } else { String::new() };
            let what = if *tcp { "full segments make packets" } else { "datagrams" };
            let warning = Problem::new(format!(
                "{what} of {length} B, above the mtu of {mtu} B: {} fragments each on {}{more}",
                fragments(*length, mtu),
                list(&names)
            ));
            let remedy = if *tcp { "mss_includes_options = true, a smaller mss" } else { "a smaller packet" };
            report.warn(warning.at(place.clone(), "").help(format!(
                "losing one fragment loses the whole packet; if that is not meant, {remedy} or a larger mtu avoids it"
            )));
        }
    }
}

/// IP length of a full segment.
fn packet_length(tcp: &TcpConfig) -> u64 {
    let options = if tcp.timestamps && !tcp.mss_includes_options { 12 } else { 0 };
    u64::from(tcp.mss) + 40 + options
}

/// How many fragments a packet of `length` bytes makes (RFC 791: all but the last carry a multiple of 8 bytes).
fn fragments(length: u64, mtu: u16) -> u64 {
    (length - 20).div_ceil(u64::from((mtu - 20) & !7))
}

/// The names of a kind of element; each must be there once. What has none gets one that nobody refers to.
fn names<'f>(
    what: &str,
    elements: impl Iterator<Item = (&'f Option<Leaf<Name>>, &'f Range<usize>)>,
    report: &mut Report,
) -> Vec<String> {
    let mut seen: BTreeMap<String, Range<usize>> = BTreeMap::new();
    let mut all = Vec::new();
    for (leaf, _) in elements {
        let name = report.read(leaf).map(|n| n.0);
        if let (Some(name), Some(leaf)) = (&name, leaf) {
            if let Some(first) = seen.get(name) {
                let problem = Problem::new(format!("there are two {what}s named `{name}`"));
                report.error(problem.at(leaf.span.clone(), "the second").at(first.clone(), "the first"));
            }
            seen.entry(name.clone()).or_insert_with(|| leaf.span.clone());
        }
        all.push(name.unwrap_or_default());
    }
    all
}

/// The index of the node that `leaf` names.
fn node(leaf: &Option<Leaf<String>>, nodes: &[String], report: &mut Report) -> Option<usize> {
    let name = report.read(leaf)?;
    let found = nodes.iter().position(|n| *n == name && !n.is_empty());
    // A node whose name cannot be read may be the one that is meant.
    if found.is_none() && nodes.iter().all(|n| !n.is_empty()) {
        let problem = Problem::new(format!("there is no node `{name}`")).at(span(leaf), "");
        report.error(problem.help(if nodes.is_empty() {
            format!("declare it: [[node]] name = \"{name}\"")
        } else {
            suggest(&name, "the nodes are", nodes.iter().map(String::as_str))
        }));
    }
    found
}

/// The two nodes of a link.
fn between(link: &At<Link>, nodes: &[String], report: &mut Report) -> (usize, usize) {
    let Some(ends) = &link.value.between else { return (0, 0) };
    let [a, b] = ends.value.as_slice() else {
        let problem = Problem::new(format!("a link has two ends, not {}", ends.value.len())).at(ends.span.clone(), "");
        report.error(problem.help("between = [\"a\", \"b\"]"));
        return (0, 0);
    };
    let (from, to) = (node(&Some(a.clone()), nodes, report), node(&Some(b.clone()), nodes, report));
    if from.is_some() && from == to {
        report.error(Problem::new("a link between a node and itself").at(ends.span.clone(), ""));
    }
    (from.unwrap_or(0), to.unwrap_or(0))
}

fn span<T>(leaf: &Option<Leaf<T>>) -> Range<usize> {
    leaf.as_ref().map_or(0..0, |leaf| leaf.span.clone())
}
