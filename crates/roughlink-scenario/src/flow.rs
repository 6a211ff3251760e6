//! `[[flow]]`: keys common to all flows, and the kinds of flows.

use super::bulk::TomlBulk;
use super::cbr::TomlCbr;
use super::context::{Context, FlowPosition};
use super::leaf::{At, Dscp, Leaf, Name, span};
use super::messages::TomlMessages;
use super::onoff::TomlOnOff;
use super::problem::{Problem, Problems, list};
use super::request::TomlRequest;
use super::silence::warn_of_silence;
use super::tcp::TomlConnection;
use super::voip::TomlVoip;
use super::web::TomlWeb;
use roughlink_core::app::Traffic;
use roughlink_core::link::greenphy::PriorityClass;
use roughlink_core::link::{Model, SharedConfig};
use roughlink_core::net::routing::MAX_SEARCHED;
use roughlink_core::scenario::{CongestionSpec, FlowSpec, FlowTransport, LinkSpec};
use roughlink_core::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::Range;

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

    /// Resolves the flow `name`, whose table is at `table`.
    pub(crate) fn resolve(
        &self,
        table: &Range<usize>,
        name: String,
        context: &mut Context<'_>,
        report: &mut Problems,
    ) -> FlowSpec {
        let here = self.name.as_ref().map_or(table.clone(), |n| n.span.clone());
        let from = context.nodes.find(&self.from, report);
        let to = context.nodes.find(&self.to, report);
        let path = self.path((&name, from, to), context, report);
        let start = report.read(&self.start).unwrap_or_default();
        if start >= context.duration {
            let warning = Problem::new(format!("flow `{name}` never starts: the scenario ends first"));
            let warning = warning.at(span(&self.start), format!("the duration is {}", context.duration));
            report.warn(warning.help("start it earlier, or make `duration` longer"));
        }
        let mut spec = FlowSpec {
            name,
            from: from.unwrap_or(0),
            to: to.unwrap_or(0),
            start,
            traffic: Traffic::Bulk { bytes: None },
            transport: FlowTransport::Udp,
            ipv6: false,
            dscp: report.read(&self.dscp).map_or(0, |dscp| dscp.0),
            priority: self.priority(&path, context.links, report),
        };
        let place = FlowPosition { table: table.clone(), name: here, path: &path };
        match self.kind.as_ref().map(|kind| &kind.value) {
            Some(FlowKind::Bulk(own)) => own.resolve(&mut spec, &place, context, report),
            Some(FlowKind::OnOff(own)) => own.resolve(&mut spec, &place, context, report),
            Some(FlowKind::Web(own)) => own.resolve(&mut spec, &place, context, report),
            Some(FlowKind::Messages(own)) => own.resolve(&mut spec, &place, context, report),
            Some(FlowKind::Cbr(own)) => own.resolve(&mut spec, &place, context, report),
            Some(FlowKind::Voip(own)) => own.resolve(&mut spec, &place, context, report),
            Some(FlowKind::Request(own)) => own.resolve(&mut spec, &place, context, report),
            None => {}
        }
        if let Some(CongestionSpec { name, factory, .. }) = spec.cc() {
            let cc = self.connection().and_then(|connection| connection.cc.as_ref());
            let place = cc.map_or(table.clone(), |cc| cc.span.clone());
            let (flow, links) = ((spec.name.as_str(), place), (&path[..], context.links));
            warn_of_silence(flow, (name, factory), links, context.duration, &mut context.notices, report);
        }
        spec
    }

    fn priority(&self, path: &[usize], links: &[LinkSpec], report: &mut Problems) -> Option<PriorityClass> {
        let priority = report.read(&self.priority)?;
        let cable = |link: &usize| matches!(links[*link].model, Model::Shared(SharedConfig::GreenPhy(_)));
        if !path.is_empty() && !path.iter().any(cable) {
            let problem = Problem::new("`priority` has no effect: no Green PHY cable is on the flow's path");
            report.error(
                problem.at(span(&self.priority), "").help("remove it, or use a [[link]] of kind = \"greenphy\""),
            );
        }
        Some(priority)
    }

    /// Returns the links on the path of the flow's packets; none after a fault.
    fn path(
        &self,
        (name, from, to): (&str, Option<usize>, Option<usize>),
        context: &mut Context<'_>,
        report: &mut Problems,
    ) -> Vec<usize> {
        let (Some(from), Some(to)) = (from, to) else { return Vec::new() };
        if from == to {
            let problem =
                Problem::new(format!("flow `{name}` begins and ends at the same node")).at(span(&self.to), "");
            report.error(problem.help("name two different nodes in `from` and `to`"));
            return Vec::new();
        }
        // A run needs both paths.
        if let (Some(hops), Some(_)) = (context.routes.path(from, to), context.routes.path(to, from)) {
            return hops.into_iter().map(|hop| hop as usize / 2).collect();
        }
        if context.routes.is_exhausted() {
            let problem = Problem::new(format!("the search for paths examines more than {MAX_SEARCHED} hops"));
            let problem = problem.at(span(&self.from), "this source needs another search");
            report.error(problem.help("use fewer sources with several neighbors, or a smaller network"));
            return Vec::new();
        }
        // Stay silent after an earlier fault, which may be the cause.
        if context.sound {
            let names = &context.nodes.all;
            let (a, b) = (&names[from], &names[to]);
            let problem = Problem::new(format!("no path leads from `{a}` to `{b}`")).at(span(&self.to), "");
            if report.is_crowded() {
                report.error(problem);
                return Vec::new();
            }
            let reached: Vec<&str> = context.routes.reachable(from).map(|n| names[n].as_str()).collect();
            report.error(problem.help(if reached.is_empty() {
                format!("add a [[link]] to `{a}`")
            } else {
                format!("add a [[link]]; `{a}` reaches only {}", list(&reached))
            }));
        }
        Vec::new()
    }
}
