//! The results of gateways.

use crate::gateway::flows::{FlowPhase, FlowTableCounters};
use crate::gateway::{BacklogError, FlowStats, Stats};
use crate::scenario::{GatewaySpec, Scenario};
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// A gateway at the end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GatewayResult {
    /// Name.
    pub name: String,
    /// Name in the registry.
    pub kind: String,
    /// Node of the gateway.
    pub node: String,
    /// The flows in its table, in the scenario's order.
    pub flows: Vec<GatewayFlowResult>,
    /// The latest 1000 confirmed flows that have left its table, the most recent last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<GatewayFlowResult>,
    /// Counters of the flow table.
    pub counters: FlowTableCounters,
    /// Segments that it originated.
    pub originated: u64,
    /// Error of the backlog that it estimates, if it does although its modem reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog_error: Option<BacklogError>,
}

/// A gateway's view of a flow at the end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GatewayFlowResult {
    /// Name of the flow; for a flow between two ports, its addresses.
    pub flow: String,
    /// Phase in the flow table.
    pub phase: FlowPhase,
    /// Set if the flow shares the rough link now.
    pub active: bool,
    /// RTT of the handshake, ms.
    pub rtt_ms: Option<f64>,
    /// Set if the RTT is uncertain because a segment of the handshake was repeated.
    pub ambiguous: bool,
    /// Segments whose window was changed.
    pub rewritten: u64,
    /// Window allowed by the gateway, SDUs; null if the gateway does not control the flow.
    pub awnd_sdu: Option<f64>,
    /// Largest number of SDUs that the link can carry within the flow's RTT; null as for `awnd_sdu`.
    pub sample_sdu: Option<f64>,
    /// RTT over the smallest RTT.
    pub rho: Option<f64>,
}

impl GatewayResult {
    pub(crate) fn new(s: &Scenario, spec: &GatewaySpec, stats: Option<&(Stats, Vec<FlowStats>)>) -> Self {
        let ended = stats.map_or(&[][..], |(_, ended)| ended);
        let stats = stats.map(|(stats, _)| stats);
        let flows = stats.map_or(&[][..], |stats| &stats.flows);
        GatewayResult {
            name: spec.name.clone(),
            kind: spec.kind.name.into(),
            node: s.nodes[spec.node].name.clone(),
            flows: flows.iter().map(|f| GatewayFlowResult::new(s, f)).collect(),
            ended: ended.iter().map(|f| GatewayFlowResult::new(s, f)).collect(),
            counters: stats.map(|stats| stats.counters).unwrap_or_default(),
            originated: stats.map_or(0, |stats| stats.originated),
            backlog_error: stats.and_then(|stats| stats.backlog_error),
        }
    }
}

impl GatewayFlowResult {
    fn new(s: &Scenario, f: &FlowStats) -> Self {
        // Flows between two ports have later numbers than the scenario's.
        let named = s.flows.get(f.key.flow.index()).map(|flow| flow.name.clone());
        let flow = named.or_else(|| f.addresses.map(|a| a.to_string())).unwrap_or_default();
        GatewayFlowResult {
            flow,
            phase: f.phase,
            active: f.active,
            rtt_ms: f.rtt.map(Time::as_millis_f64),
            ambiguous: f.ambiguous,
            rewritten: f.rewritten,
            awnd_sdu: f.control.map(|c| c.awnd),
            sample_sdu: f.control.map(|c| c.sample),
            rho: f.control.map(|c| c.rho),
        }
    }
}
