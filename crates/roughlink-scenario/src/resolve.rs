//! From the file to the [`Scenario`]: names become indices, defaults are filled in, and values that depend on each
//! other are checked.

use super::cable::cables;
use super::coverage::coverage;
use super::file::{File, Flow, FlowKind, Gateway, Link, LinkKind, Sctp, Tcp, Transport};
use super::gateway::{conflicting, gateway, idle};
use super::greenphy::greenphy;
use super::hdplc::hdplc;
use super::leaf::At;
use super::link::{Load, pipe, span};
use super::names::Names;
use super::problem::{Problem, Report, list};
use super::request::session;
use super::silence::warn_of_silence;
use super::tcp::{Common, Sources, check_hystart, headers};
use super::timeline::timelines;
use roughlink_core::app::Traffic;
use roughlink_core::app::voip::{Codec, VoipConfig, emodel};
use roughlink_core::link::greenphy::Class;
use roughlink_core::link::{Model, SharedConfig};
use roughlink_core::net::routing::{Edge, Hop, Routes};
use roughlink_core::scenario::Notices;
use roughlink_core::scenario::{FlowSpec, LinkSpec, Scenario};
use roughlink_core::tcp::{Stack, TcpConfig};
use roughlink_core::units::{Rate, Time};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Resolves a file. Faults are reported; the result is of use only without any.
pub(super) fn resolve(file: &File, default_name: &str, load: Load<'_>, report: &mut Report) -> Scenario {
    let duration = report.read(&file.duration).unwrap_or(Time::from_secs(1));
    if duration.is_zero() {
        let problem = Problem::new("a scenario of no duration").at(span(&file.duration), "must be more than zero");
        report.error(problem.help("write a time such as \"60 s\""));
    }
    let none = Tcp::default();
    let tcp = file.tcp.as_ref().map_or(&none, |t| &t.value);
    let nodes = Names::read("node", file.node.iter().map(|n| &n.value.name), report);
    let link_names = Names::read("link", file.link.iter().map(|l| &l.value.name), report);
    let flow_names = Names::read("flow", file.flow.iter().map(|f| &f.value.name), report);
    let gateway_names = Names::read("gateway", file.gateway.iter().map(|g| &g.value.name), report);

    let before = report.problems.len();
    let mut links: Vec<LinkSpec> = file
        .link
        .iter()
        .zip(&link_names.all)
        .map(|(link, name)| {
            let (model, notices) = model(&link.value, duration, load, report);
            if model.draws() * duration.as_secs_f64() > MOST_IMPULSES {
                let problem = Problem::new(format!("link `{name}` has more than {MOST_IMPULSES:.0} impulses of noise"));
                let problem = problem.at(span(&link.value.name), "");
                report.error(
                    problem.help("impulses that are farther apart, or a shorter `duration`, are simulated in time"),
                );
            }
            let cable = report.read(&link.value.cable).map(|cable| cable.0);
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
    cables(&file.link, &mut links, report);
    let plain = Arc::new(TcpConfig::preset(Stack::default()));
    Names::read("coverage", file.coverage.iter().map(|c| &c.value.name), report);
    let loads = coverage(&file.coverage, (&link_names, &mut links), duration, load, &plain, report);
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
                    .help("add a [[link]] to it, or leave it out"),
            );
        }
    }
    let stands = |(g, name): (&At<Gateway>, &String)| {
        let here = nodes.find(&g.value.node, report);
        Some((g.span.clone(), gateway(g, name, here, &nodes.all, (&link_names, &links, &links_at), report)?))
    };
    let gateways: Vec<_> = file.gateway.iter().zip(&gateway_names.all).filter_map(stands).collect();
    conflicting(&gateways, report);
    if file.flow.is_empty() {
        report.warn(Problem::new("there is no flow: nothing will happen").help("add a [[flow]]"));
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
        notices: MOST_NOTICES,
        configs: vec![plain],
        used: Vec::new(),
        fragmented: BTreeMap::new(),
    };
    let mut flows: Vec<FlowSpec> =
        file.flow.iter().zip(flow_names.all).map(|(flow, name)| context.flow(flow, name, report)).collect();
    flows.extend(loads);
    if report.problems.is_empty() && !gateways.is_empty() {
        idle(&gateways, &context.tcp_paths(&flows), &nodes.all, &links, report);
    }
    let gateways = gateways.into_iter().map(|g| g.1).collect();
    check_hystart(tcp, &context.used, report);
    context.warn_of_fragments(report);
    let name = report.read(&file.name).unwrap_or_else(|| default_name.to_owned());
    let seed = report.read(&file.seed).unwrap_or(1);
    Scenario { name, seed, duration, nodes: nodes.all, links, flows, gateways, source: String::new() }
}

/// What a link is, and the events that hosts are notified of.
fn model(link: &Link, duration: Time, load: Load<'_>, report: &mut Report) -> (Model, Notices) {
    match report.read(&link.kind) {
        None | Some(LinkKind::Pipe) => {
            let mut pipe = pipe(link, load, report);
            let notices = timelines(link, &mut pipe, duration, load, report);
            (Model::Pipe(Box::new(pipe)), notices)
        }
        Some(LinkKind::Hdplc) => {
            let config = hdplc(link, load, report);
            (Model::Shared(SharedConfig::Hdplc(Box::new(config))), Notices::default())
        }
        Some(LinkKind::GreenPhy) => {
            let config = greenphy(link, load, report);
            (Model::Shared(SharedConfig::GreenPhy(Box::new(config))), Notices::default())
        }
    }
}

/// What the flows are resolved against.
struct Context<'f> {
    tcp: &'f Tcp,
    common: Common,
    sctp: Option<&'f Sctp>,
    nodes: &'f Names,
    links: &'f [LinkSpec],
    routes: Routes,
    /// Nothing is wrong with these, so that what follows from them is not a consequence of another fault.
    sound: bool,
    duration: Time,
    /// How many more notifications may be examined for flows that their algorithm holds.
    notices: usize,
    /// The configurations in use: a thousand flows tend to have but a few.
    configs: Vec<Arc<TcpConfig>>,
    /// The algorithms in use.
    used: Vec<(Stack, &'static roughlink_core::cc::Algorithm)>,
    /// Full packets that do not fit, by length and whether they are TCP's: the key that decides about them, and the
    /// links on which they travel as fragments.
    fragmented: BTreeMap<(u64, bool), (Range<usize>, Vec<usize>)>,
}

impl Context<'_> {
    fn flow(&mut self, flow: &At<Flow>, name: String, report: &mut Report) -> FlowSpec {
        let f = &flow.value;
        let here = f.name.as_ref().map_or(flow.span.clone(), |n| n.span.clone());
        let from = self.nodes.find(&f.from, report);
        let to = self.nodes.find(&f.to, report);
        let path = self.path(f, &name, from, to, report);
        let start = report.read(&f.start).unwrap_or_default();
        if start >= self.duration {
            let warning = Problem::new(format!("flow `{name}` starts when the scenario is over"));
            let warning = warning.at(span(&f.start), format!("the duration is {}", self.duration));
            report.warn(warning.help("start it earlier, or make `duration` longer"));
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
            tcp: self.share(TcpConfig::preset(Stack::default())),
            sctp: None,
            cc: String::new(),
            factory: None,
            ipv6: false,
            dscp: report.read(&f.dscp).map_or(0, |dscp| dscp.0),
            priority: self.priority(f, &path, report),
        };
        match report.read(&f.kind) {
            Some(FlowKind::Bulk) if report.read(&f.transport) == Some(Transport::Sctp) => {
                if let Some(ip) = &f.ip {
                    let problem = Problem::new("`ip` has no effect on a flow over SCTP").at(ip.span.clone(), "");
                    report.error(problem.help("SCTP runs over IPv4 here: leave `ip` out"));
                }
                if let Some(sctp) = super::sctp::resolve(self.sctp, f, here, report) {
                    self.note_fragments((u64::from(sctp.config.payload) + 48, false), sctp.place, &path);
                    spec.sctp = Some(Arc::new(sctp.config));
                    spec.cc = sctp.cc.name.to_owned();
                    spec.factory = Some(sctp.factory);
                }
            }
            Some(FlowKind::Bulk) => {
                if let Some(sctp) = &f.sctp {
                    let problem = Problem::new("`sctp` has no effect on a flow over TCP").at(sctp.span.clone(), "");
                    report.error(problem.help("add transport = \"sctp\", or leave `sctp` out"));
                }
                spec.ipv6 = ipv6(f, false, report);
                self.over_tcp(&mut spec, f, here, &path, report);
            }
            Some(FlowKind::Request) => {
                spec.ipv6 = ipv6(f, true, report); // ISO 15118-2 section 7.6
                self.over_tcp(&mut spec, f, here, &path, report);
                spec.traffic = Traffic::Request { session: Box::new(session(f, report)) };
            }
            Some(FlowKind::Cbr) => spec.traffic = self.cbr(flow, start, bytes, &path, report),
            Some(FlowKind::Voip) => spec.traffic = self.voip(flow, start, &path, report),
            None => {}
        }
        if let Some(factory) = &spec.factory {
            let place = f.cc.as_ref().map_or(flow.span.clone(), |cc| cc.span.clone());
            let (flow, links) = ((spec.name.as_str(), place), (&path[..], self.links));
            warn_of_silence(flow, (&spec.cc, factory), links, self.duration, &mut self.notices, report);
        }
        spec
    }

    /// The flow's class on a charging cable.
    fn priority(&self, f: &Flow, path: &[usize], report: &mut Report) -> Option<Class> {
        let priority = report.read(&f.priority)?;
        let cable = |link: &usize| matches!(self.links[*link].model, Model::Shared(SharedConfig::GreenPhy(_)));
        if !path.is_empty() && !path.iter().any(cable) {
            let problem = Problem::new("`priority` has no effect: no Green PHY cable is on the flow's path");
            report.error(
                problem.at(span(&f.priority), "").help("leave it out, or use a [[link]] of kind = \"greenphy\""),
            );
        }
        Some(priority)
    }

    /// The flow's connection.
    fn over_tcp(&mut self, spec: &mut FlowSpec, f: &Flow, here: Range<usize>, path: &[usize], report: &mut Report) {
        let sources = Sources { global: self.tcp, flow: f, ipv6: spec.ipv6, span: here };
        if let Some(transport) = sources.resolve(&mut self.common, report) {
            let full = u64::from(transport.config.mss) + u64::from(headers(&transport.config, spec.ipv6));
            self.note_fragments((full, true), sources.span("mss"), path);
            self.used.push((transport.config.stack, transport.cc));
            spec.tcp = self.share(transport.config);
            spec.cc = transport.cc.name.to_owned();
            spec.factory = Some(transport.factory);
        }
    }

    fn share(&mut self, config: TcpConfig) -> Arc<TcpConfig> {
        if let Some(same) = self.configs.iter().find(|c| ***c == config) {
            return Arc::clone(same);
        }
        let config = Arc::new(config);
        self.configs.push(Arc::clone(&config));
        config
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
            let problem = Problem::new("a flow at rate zero sends nothing").at(span(&f.rate), "");
            report.error(problem.help("write a rate such as \"1 Mbit/s\", or leave the flow out"));
        }
        let packet = report.read(&f.packet).map_or(1500, |bytes| bytes.0 as u16);
        let origin = f.packet.as_ref().map_or(flow.span.clone(), |p| p.span.clone());
        self.note_fragments((u64::from(packet), false), origin, path);
        Traffic::Cbr { rate, packet, bytes, stop: stop(f, start, report) }
    }

    fn voip(&mut self, flow: &At<Flow>, start: Time, path: &[usize], report: &mut Report) -> Traffic {
        let f = &flow.value;
        let codec = report.read(&f.codec).unwrap_or_default();
        let mut config = VoipConfig { speech: codec.speech(), ..VoipConfig::default() };
        if let (Some(_), Some(bpl)) = (&f.concealment, &f.bpl) {
            let problem = Problem::new("`bpl` and `concealment` exclude each other").at(bpl.span.clone(), "");
            report.error(problem.help("keep one of them"));
        }
        if report.read(&f.concealment).unwrap_or(false) {
            config.speech.bpl = emodel::BPL_CONCEALED;
            if codec != Codec::G711 {
                let problem = Problem::new("only G.711 has a choice whether lost packets are concealed");
                report.error(
                    problem.at(span(&f.concealment), "").help("leave it out: the Bpl of other codecs counts it"),
                );
            }
        }
        config.speech.ie = report.read(&f.ie).unwrap_or(config.speech.ie);
        config.speech.bpl = report.read(&f.bpl).unwrap_or(config.speech.bpl);
        config.speech.payload = report.read(&f.payload).map_or(config.speech.payload, |bytes| bytes.0 as u16);
        config.speech.interval = report.read(&f.interval).unwrap_or(config.speech.interval);
        config.window = report.read(&f.window).unwrap_or(config.window);
        config.jitter_buffer = report.read(&f.jitter_buffer).unwrap_or(config.jitter_buffer);
        config.reference = report.read(&f.reference).unwrap_or(config.reference);
        config.emodel = report.read(&f.emodel).unwrap_or(config.emodel);
        let origin = f.payload.as_ref().map_or(flow.span.clone(), |p| p.span.clone());
        self.note_fragments((u64::from(config.datagram()) + 28, false), origin, path);
        Traffic::Voip { config, stop: stop(f, start, report) }
    }

    /// The links between two nodes, as packets will go.
    fn path(
        &mut self,
        flow: &Flow,
        name: &str,
        from: Option<usize>,
        to: Option<usize>,
        report: &mut Report,
    ) -> Vec<usize> {
        let (Some(from), Some(to)) = (from, to) else { return Vec::new() };
        if from == to {
            let problem = Problem::new(format!("flow `{name}` ends where it begins")).at(span(&flow.to), "");
            report.error(problem.help("`from` and `to` must be two nodes"));
            return Vec::new();
        }
        if let Some(hops) = self.routes.path(from, to) {
            return hops.into_iter().map(|hop| hop as usize / 2).collect();
        }
        // After another fault this one may be its consequence.
        if self.sound {
            let names = &self.nodes.all;
            let (a, b) = (&names[from], &names[to]);
            let problem = Problem::new(format!("no links lead from `{a}` to `{b}`")).at(span(&flow.to), "");
            if report.is_crowded() {
                report.error(problem);
                return Vec::new();
            }
            let reached: Vec<&str> = self.routes.reachable(from).map(|n| names[n].as_str()).collect();
            report.error(problem.help(if reached.is_empty() {
                format!("`{a}` has no link")
            } else {
                format!("from `{a}` one gets to {}", list(&reached))
            }));
        }
        Vec::new()
    }

    /// The hops that data of TCP flows take.
    fn tcp_paths(&mut self, flows: &[FlowSpec]) -> Vec<Vec<Hop>> {
        let mut hops = |from, to| self.routes.path(from, to);
        let mut of = |f: &FlowSpec| match f.traffic {
            Traffic::Bulk { .. } if f.sctp.is_none() => [hops(f.from, f.to), None],
            Traffic::Request { .. } => [hops(f.from, f.to), hops(f.to, f.from)],
            _ => [None, None],
        };
        flows.iter().flat_map(&mut of).flatten().collect()
    }

    fn note_fragments(&mut self, packet: (u64, bool), origin: Range<usize>, path: &[usize]) {
        for &link in path {
            if packet.0 > u64::from(self.links[link].model.mtu()) {
                let (_, links) = self.fragmented.entry(packet).or_insert_with(|| (origin.clone(), Vec::new()));
                if !links.contains(&link) {
                    links.push(link);
                }
            }
        }
    }

    /// One warning for each length of packet that does not fit.
    fn warn_of_fragments(&self, report: &mut Report) {
        for ((length, tcp), (place, links)) in &self.fragmented {
            let mut links = links.clone();
            links.sort_unstable();
            let mtu = links.iter().map(|i| self.links[*i].model.mtu()).min().unwrap_or(1500);
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

/// Whether the flow is over IPv6.
fn ipv6(f: &Flow, default: bool, report: &mut Report) -> bool {
    match report.read(&f.ip) {
        None => default,
        Some(4) => false,
        Some(6) => true,
        Some(other) => {
            let problem = Problem::new(format!("there is no IP version {other}")).at(span(&f.ip), "");
            report.error(problem.help("write ip = 4 or ip = 6"));
            default
        }
    }
}

/// When a flow of datagrams ends.
fn stop(flow: &Flow, start: Time, report: &mut Report) -> Option<Time> {
    let stop = report.read(&flow.stop)?;
    if stop <= start {
        let problem = Problem::new(format!("the flow stops at {stop}, before it starts at {start}"));
        report.error(problem.at(span(&flow.stop), "").help("leave `stop` out for a flow to the end of the scenario"));
    }
    Some(stop)
}

/// How many fragments a packet of `length` bytes makes (RFC 791: all but the last carry a multiple of 8 bytes).
fn fragments(length: u64, mtu: u16) -> u64 {
    (length - 20).div_ceil(u64::from((mtu - 20) & !7))
}

/// The two nodes of a link.
fn between(link: &At<Link>, nodes: &Names, report: &mut Report) -> (usize, usize) {
    let Some(ends) = &link.value.between else { return (0, 0) };
    let [a, b] = ends.value.as_slice() else {
        let problem = Problem::new(format!("a link has two ends, not {}", ends.value.len())).at(ends.span.clone(), "");
        report.error(problem.help("between = [\"a\", \"b\"]"));
        return (0, 0);
    };
    let (from, to) = (nodes.find(&Some(a.clone()), report), nodes.find(&Some(b.clone()), report));
    if from.is_some() && from == to {
        let here = from.map_or("", |n| nodes.all[n].as_str());
        let there = nodes.all.iter().find(|n| *n != here && !n.is_empty()).map_or("b", String::as_str);
        let problem = Problem::new("a link between a node and itself").at(ends.span.clone(), "");
        report.error(problem.help(format!("name two nodes, such as [\"{here}\", \"{there}\"]")));
    }
    (from.unwrap_or(0), to.unwrap_or(0))
}

/// Examining a notification costs some ten nanoseconds.
const MOST_NOTICES: usize = 1_000_000;
/// Impulses of a link's noise in a run: each is drawn, also where there is nothing to carry.
const MOST_IMPULSES: f64 = 100e6;
