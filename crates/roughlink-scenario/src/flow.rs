//! `[[flow]]`: keys common to all flows, the kinds of flows, and the context of their resolution.

use super::bulk::TomlBulk;
use super::cbr::TomlCbr;
use super::file::Params;
use super::leaf::{At, CcName, Dscp, Leaf, Name, TransferSize};
use super::link::span;
use super::messages::TomlMessages;
use super::names::ElementNames;
use super::onoff::TomlOnOff;
use super::problem::{Problem, Problems, list};
use super::request::TomlRequest;
use super::sctp::{self, TomlSctp};
use super::silence::warn_of_silence;
use super::tcp::{Common, Sources, TomlTcp, headers};
use super::voip::TomlVoip;
use super::web::TomlWeb;
use roughlink_core::app::Traffic;
use roughlink_core::link::greenphy::PriorityClass;
use roughlink_core::link::{Model, SharedConfig};
use roughlink_core::net::routing::{Hop, MAX_SEARCHED, Routes};
use roughlink_core::scenario::{FlowSpec, LinkSpec};
use roughlink_core::tcp::{Stack, TcpConfig};
use roughlink_core::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Traffic between two nodes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlFlow {
    /// Name of the flow.
    #[schemars(with = "Leaf<Name>")] // required, by its definition
    pub name: Option<Leaf<Name>>,
    /// `bulk`: a transfer; `onoff`: writes at a rate, with pauses; `web`: requests and responses with think time;
    /// `messages`: messages at an interval over SCTP; `cbr`: datagrams at a constant rate; `voip`: a voice call;
    /// `request`: a charging session.
    #[schemars(required, extend("x-flat" = true))]
    pub kind: Option<At<FlowKind>>,
    /// Sending node; the client of requests and responses, the vehicle of a charging session.
    #[schemars(required)]
    pub from: Option<Leaf<String>>,
    /// Receiving node; the server of requests and responses, the charger of a charging session.
    #[schemars(required)]
    pub to: Option<Leaf<String>>,
    /// Start time.
    #[schemars(extend("default" = "0 s"))]
    pub start: Option<Leaf<Time>>,
    /// Priority class of the flow's packets on Green PHY cables, both ways; the `class` of the link if absent. Requires
    /// such a cable on the path.
    pub priority: Option<Leaf<PriorityClass>>,
    /// Differentiated services codepoint of the flow's packets, both ways. The queue discipline `prio` selects the band
    /// by it.
    #[schemars(extend("default" = "cs0"))]
    pub dscp: Option<Leaf<Dscp>>,
}

/// Kind of traffic.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum FlowKind {
    /// A transfer over TCP or SCTP at the highest rate that the path allows.
    Bulk(Box<TomlBulk>),
    /// Writes over TCP at a rate, with pauses: traffic limited by the application.
    OnOff(Box<TomlOnOff>),
    /// Requests and responses with think time over TCP, as in HTTP.
    Web(Box<TomlWeb>),
    /// Messages at an interval over SCTP.
    Messages(Box<TomlMessages>),
    /// Datagrams at a constant rate.
    Cbr(Box<TomlCbr>),
    /// A voice call, both ways.
    Voip(Box<TomlVoip>),
    /// A charging session of ISO 15118-2: requests and responses over TCP.
    Request(Box<TomlRequest>),
}

/// The keys of a flow with a connection.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlConnection {
    /// Congestion control; overrides `cc` in `[tcp]` or, over SCTP, in `[sctp]`.
    pub cc: Option<Leaf<CcName>>,
    /// Parameters of the algorithm.
    pub cc_params: Option<At<Params>>,
    /// Any other `[tcp]` key, for this flow.
    pub tcp: Option<Box<At<TomlTcp>>>,
    /// IP version of a flow over TCP; 6 for a charging session and 4 for other flows if absent. An IPv6 header is 20 B
    /// longer, and the default `mss` is 20 B smaller. Links fragment packets above their `mtu` as with IPv4, although
    /// in IPv6 only the source may.
    #[schemars(extend("enum" = [4, 6]))]
    pub ip: Option<Leaf<u32>>,
}

impl TomlFlow {
    fn connection(&self) -> Option<&TomlConnection> {
        match &self.kind.as_ref()?.value {
            FlowKind::Bulk(own) => Some(&own.connection),
            FlowKind::OnOff(own) => Some(&own.connection),
            FlowKind::Web(own) => Some(&own.connection),
            FlowKind::Messages(own) => Some(&own.connection),
            FlowKind::Request(own) => Some(&own.connection),
            FlowKind::Cbr(_) | FlowKind::Voip(_) => None,
        }
    }
}

pub(super) struct FlowPosition<'p> {
    pub table: Range<usize>,
    /// Text to underline when a fault has no key.
    pub name: Range<usize>,
    /// Links on the path of the flow's packets.
    pub path: &'p [usize],
}

pub(super) struct Context<'f> {
    pub tcp: &'f TomlTcp,
    pub common: Common,
    pub sctp: Option<&'f TomlSctp>,
    pub nodes: &'f ElementNames,
    pub links: &'f [LinkSpec],
    pub routes: Routes,
    /// Set if nodes and links have no faults, so later faults are not consequences of earlier ones.
    pub sound: bool,
    pub duration: Time,
    /// Remaining number of notifications to examine in the search for flows that their algorithm keeps silent.
    pub notices: usize,
    /// Configurations in use: a thousand flows usually share a few.
    pub configs: Vec<Arc<TcpConfig>>,
    /// Algorithms in use.
    pub used: Vec<(Stack, &'static roughlink_core::cc::Algorithm)>,
    /// Full packets above the `mtu`, by length and whether they carry TCP: the key that sets their length, and the
    /// links that fragment them.
    pub fragmented: BTreeMap<(u64, bool), (Range<usize>, Vec<usize>)>,
}

impl Context<'_> {
    pub(crate) fn flow(&mut self, flow: &At<TomlFlow>, name: String, report: &mut Problems) -> FlowSpec {
        let f = &flow.value;
        let here = f.name.as_ref().map_or(flow.span.clone(), |n| n.span.clone());
        let from = self.nodes.find(&f.from, report);
        let to = self.nodes.find(&f.to, report);
        let path = self.path(f, &name, from, to, report);
        let start = report.read(&f.start).unwrap_or_default();
        if start >= self.duration {
            let warning = Problem::new(format!("flow `{name}` never starts: the scenario ends first"));
            let warning = warning.at(span(&f.start), format!("the duration is {}", self.duration));
            report.warn(warning.help("start it earlier, or make `duration` longer"));
        }
        let mut spec = FlowSpec {
            name,
            from: from.unwrap_or(0),
            to: to.unwrap_or(0),
            start,
            traffic: Traffic::Bulk { bytes: None },
            tcp: self.share(TcpConfig::preset(Stack::default())),
            sctp: None,
            cc: String::new(),
            factory: None,
            cc_params: toml::Table::new(),
            ipv6: false,
            dscp: report.read(&f.dscp).map_or(0, |dscp| dscp.0),
            priority: self.priority(f, &path, report),
        };
        let place = FlowPosition { table: flow.span.clone(), name: here, path: &path };
        match f.kind.as_ref().map(|kind| &kind.value) {
            Some(FlowKind::Bulk(own)) => own.resolve(&mut spec, &place, self, report),
            Some(FlowKind::OnOff(own)) => own.resolve(&mut spec, &place, self, report),
            Some(FlowKind::Web(own)) => own.resolve(&mut spec, &place, self, report),
            Some(FlowKind::Messages(own)) => own.resolve(&mut spec, &place, self, report),
            Some(FlowKind::Cbr(own)) => own.resolve(&mut spec, &place, self, report),
            Some(FlowKind::Voip(own)) => own.resolve(&mut spec, &place, self, report),
            Some(FlowKind::Request(own)) => own.resolve(&mut spec, &place, self, report),
            None => {}
        }
        if let Some(factory) = &spec.factory {
            let cc = f.connection().and_then(|connection| connection.cc.as_ref());
            let place = cc.map_or(flow.span.clone(), |cc| cc.span.clone());
            let (flow, links) = ((spec.name.as_str(), place), (&path[..], self.links));
            warn_of_silence(flow, (&spec.cc, factory), links, self.duration, &mut self.notices, report);
        }
        spec
    }

    fn priority(&self, f: &TomlFlow, path: &[usize], report: &mut Problems) -> Option<PriorityClass> {
        let priority = report.read(&f.priority)?;
        let cable = |link: &usize| matches!(self.links[*link].model, Model::Shared(SharedConfig::GreenPhy(_)));
        if !path.is_empty() && !path.iter().any(cable) {
            let problem = Problem::new("`priority` has no effect: no Green PHY cable is on the flow's path");
            report.error(problem.at(span(&f.priority), "").help("remove it, or use a [[link]] of kind = \"greenphy\""));
        }
        Some(priority)
    }

    pub(crate) fn over_tcp(
        &mut self,
        spec: &mut FlowSpec,
        own: &TomlConnection,
        place: &FlowPosition<'_>,
        report: &mut Problems,
    ) {
        let sources = Sources { global: self.tcp, flow: own, ipv6: spec.ipv6, span: place.name.clone() };
        if let Some(transport) = sources.resolve(&mut self.common, report) {
            let full = u64::from(transport.config.mss) + u64::from(headers(&transport.config, spec.ipv6));
            self.note_fragments((full, true), sources.span("mss"), place.path);
            self.used.push((transport.config.stack, transport.cc));
            spec.tcp = self.share(transport.config);
            spec.cc = transport.cc.name.to_owned();
            (spec.factory, spec.cc_params) = (Some(transport.factory), transport.params);
        }
    }

    /// Resolves the flow's association from `own`, the flow's table `sctp`, and the keys of its connection.
    pub(crate) fn over_sctp(
        &mut self,
        spec: &mut FlowSpec,
        (own, connection): (Option<&At<TomlSctp>>, &TomlConnection),
        place: &FlowPosition<'_>,
        report: &mut Problems,
    ) {
        let own = own.map(|own| &own.value);
        if let Some(sctp) = sctp::resolve(self.sctp, own, connection, place.name.clone(), report) {
            self.note_fragments((u64::from(sctp.config.payload) + 48, false), sctp.place, place.path);
            spec.sctp = Some(Arc::new(sctp.config));
            spec.cc = sctp.cc.name.to_owned();
            (spec.factory, spec.cc_params) = (Some(sctp.factory), sctp.params);
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

    fn path(
        &mut self,
        flow: &TomlFlow,
        name: &str,
        from: Option<usize>,
        to: Option<usize>,
        report: &mut Problems,
    ) -> Vec<usize> {
        let (Some(from), Some(to)) = (from, to) else { return Vec::new() };
        if from == to {
            let problem =
                Problem::new(format!("flow `{name}` begins and ends at the same node")).at(span(&flow.to), "");
            report.error(problem.help("name two different nodes in `from` and `to`"));
            return Vec::new();
        }
        // A run needs both paths.
        if let (Some(hops), Some(_)) = (self.routes.path(from, to), self.routes.path(to, from)) {
            return hops.into_iter().map(|hop| hop as usize / 2).collect();
        }
        if self.routes.is_exhausted() {
            let problem = Problem::new(format!("the search for paths examines more than {MAX_SEARCHED} hops"));
            let problem = problem.at(span(&flow.from), "this source needs another search");
            report.error(problem.help("use fewer sources with several neighbors, or a smaller network"));
            return Vec::new();
        }
        // Stay silent after an earlier fault, which may be the cause.
        if self.sound {
            let names = &self.nodes.all;
            let (a, b) = (&names[from], &names[to]);
            let problem = Problem::new(format!("no path leads from `{a}` to `{b}`")).at(span(&flow.to), "");
            if report.is_crowded() {
                report.error(problem);
                return Vec::new();
            }
            let reached: Vec<&str> = self.routes.reachable(from).map(|n| names[n].as_str()).collect();
            report.error(problem.help(if reached.is_empty() {
                format!("add a [[link]] to `{a}`")
            } else {
                format!("add a [[link]]; `{a}` reaches only {}", list(&reached))
            }));
        }
        Vec::new()
    }

    pub(crate) fn tcp_paths(&mut self, flows: &[FlowSpec]) -> Vec<Vec<Hop>> {
        let mut hops = |from, to| self.routes.path(from, to);
        let mut of = |f: &FlowSpec| match f.traffic {
            Traffic::Bulk { .. } if f.sctp.is_none() => [hops(f.from, f.to), None],
            Traffic::OnOff(_) => [hops(f.from, f.to), None],
            Traffic::Web(_) | Traffic::Request { .. } => [hops(f.from, f.to), hops(f.to, f.from)],
            _ => [None, None],
        };
        flows.iter().flat_map(&mut of).flatten().collect()
    }

    /// Records the links that fragment packets of this length and kind (TCP or not).
    pub(crate) fn note_fragments(&mut self, packet: (u64, bool), origin: Range<usize>, path: &[usize]) {
        for &link in path {
            if packet.0 > u64::from(self.links[link].model.mtu()) {
                let (_, links) = self.fragmented.entry(packet).or_insert_with(|| (origin.clone(), Vec::new()));
                if !links.contains(&link) {
                    links.push(link);
                }
            }
        }
    }

    /// Adds one warning for each packet length above the `mtu`.
    pub(crate) fn warn_of_fragments(&self, report: &mut Problems) {
        for ((length, tcp), (place, links)) in &self.fragmented {
            let mut links = links.clone();
            links.sort_unstable();
            let mtu = links.iter().map(|i| self.links[*i].model.mtu()).min().unwrap_or(1500);
            let names: Vec<&str> = links.iter().take(3).map(|i| self.links[*i].name.as_str()).collect();
            let more = if links.len() > 3 { format!(" and {} more links", links.len() - 3) } else { String::new() };
            let what = if *tcp { "packets of full segments" } else { "datagrams" };
            let warning = Problem::new(format!(
                "{what} have {length} B and exceed the mtu of {mtu} B: {} fragments each on {}{more}",
                fragments(*length, mtu),
                list(&names)
            ));
            let remedy = if *tcp { "write mss_includes_options = true, lower `mss`" } else { "send smaller packets" };
            report.warn(
                warning
                    .at(place.clone(), "")
                    .help(format!("{remedy} or raise `mtu`; a packet is lost if one of its fragments is lost")),
            );
        }
    }
}

pub(super) fn ipv6(f: &TomlConnection, default: bool, report: &mut Problems) -> bool {
    match report.read(&f.ip) {
        None => default,
        Some(4) => false,
        Some(6) => true,
        Some(other) => {
            let problem = Problem::new(format!("`ip` must be 4 or 6, found {other}")).at(span(&f.ip), "");
            report.error(problem.help("write ip = 4 or ip = 6"));
            default
        }
    }
}

/// Returns the bytes that a flow carries; `None` = endless.
pub(super) fn bytes(leaf: &Option<Leaf<TransferSize>>, name: &str, report: &mut Problems) -> Option<u64> {
    let bytes = report.read(leaf).and_then(|t| t.0);
    if bytes == Some(0) {
        let problem =
            Problem::new(format!("flow `{name}` sends nothing: `bytes` must be greater than zero")).at(span(leaf), "");
        report.error(problem.help("remove `bytes` for a flow without end"));
    }
    bytes
}

pub(super) fn stop(leaf: &Option<Leaf<Time>>, start: Time, report: &mut Problems) -> Option<Time> {
    let stop = report.read(leaf)?;
    if stop <= start {
        let problem = Problem::new(format!("`stop` must be after the start at {start}, found {stop}"));
        report.error(problem.at(span(leaf), "").help("remove `stop` to send until the end of the scenario"));
    }
    Some(stop)
}

/// Counts the fragments of a packet of `length` bytes (RFC 791: all but the last carry a multiple of 8 bytes).
fn fragments(length: u64, mtu: u16) -> u64 {
    (length - 20).div_ceil(u64::from((mtu - 20) & !7))
}
