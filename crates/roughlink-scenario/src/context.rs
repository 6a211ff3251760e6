//! Context in which flows are resolved: the network, the defaults of connections, and the findings that concern several
//! flows.

use super::leaf::{At, Leaf, TransferSize, span};
use super::names::ElementNames;
use super::problem::{Problem, Problems, list};
use super::sctp::{self, TomlSctp};
use super::tcp::{Common, Sources, TomlConnection, TomlTcp, headers};
use roughlink_core::net::routing::{Hop, Routes};
use roughlink_core::packet::Protocol;
use roughlink_core::scenario::{FlowSpec, FlowTransport, LinkSpec};
use roughlink_core::tcp::Stack;
use roughlink_core::units::Time;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Place of a flow in the file, and its path in the network.
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
    /// Algorithms in use, in the order of the flows.
    pub used: Vec<(Stack, &'static roughlink_core::cc::Algorithm)>,
    /// Full packets above the `mtu`, by length and whether they carry TCP: the key that sets their length, and the
    /// links that fragment them.
    pub fragmented: BTreeMap<(u64, bool), (Range<usize>, Vec<usize>)>,
}

impl Context<'_> {
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
            let used = (transport.config.stack, transport.cc);
            if self.used.last().is_none_or(|(stack, cc)| (*stack, cc.name) != (used.0, used.1.name)) {
                self.used.push(used);
            }
            spec.transport = FlowTransport::Tcp(transport.config, transport.congestion);
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
            spec.transport = FlowTransport::Sctp(Arc::new(sctp.config), sctp.congestion);
        }
    }

    pub(crate) fn tcp_paths(&mut self, flows: &[FlowSpec]) -> Vec<Vec<Hop>> {
        let mut hops = |from, to| self.routes.path(from, to);
        let of = |f: &FlowSpec| [hops(f.from, f.to), f.traffic.is_two_way().then(|| hops(f.to, f.from)).flatten()];
        flows.iter().filter(|f| f.protocol() == Protocol::Tcp).flat_map(of).flatten().collect()
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
