//! Input of the engine: plain values, created in code or read from a file by the crate `roughlink-scenario`.

mod notices;
mod randomness;

pub use notices::Notices;

use crate::app::Traffic;
use crate::cc;
use crate::gateway::RegisteredGateway;
use crate::link::Model;
use crate::link::greenphy::PriorityClass;
use crate::packet::Protocol;
use crate::pep;
use crate::sctp::SctpConfig;
use crate::tcp::TcpConfig;
use crate::units::Time;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// A validated scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Title.
    pub name: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// End of the run.
    pub duration: Time,
    /// Hosts and routers.
    pub nodes: Vec<NodeSpec>,
    /// Links.
    pub links: Vec<LinkSpec>,
    /// Flows.
    pub flows: Vec<FlowSpec>,
    /// Gateways.
    pub gateways: Vec<GatewaySpec>,
    /// Split-TCP proxies.
    pub proxies: Vec<ProxySpec>,
    /// Text of the scenario file with overrides; empty for a scenario without a file.
    pub source: String,
}

impl Scenario {
    /// Returns the indices of the kernel nodes, ascending.
    pub fn kernels(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|&node| self.nodes[node].kernel)
    }
}

/// A host or router of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSpec {
    /// Name.
    pub name: String,
    /// Set for a kernel node in emulations. Simulations ignore this flag.
    pub kernel: bool,
    /// Interface as a kernel node.
    pub interface: HostInterface,
    /// Explicit addresses, different from all other addresses, including assigned ones ([`crate::net::addresses`]).
    /// Visible only in captures and to hosts outside the network.
    pub addresses: NodeAddresses,
}

impl NodeSpec {
    /// Creates a simulated node with assigned addresses.
    pub fn new(name: impl Into<String>) -> Self {
        NodeSpec { name: name.into(), ..NodeSpec::default() }
    }
}

/// Interface between a host and an emulated network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HostInterface {
    /// A separate device for IP datagrams.
    #[default]
    Ip,
    /// A separate device for Ethernet frames.
    Ethernet,
    /// An existing device with this name; the hosts behind it take the place of the node.
    Attached(String),
}

/// Addresses of a node in place of the assigned ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeAddresses {
    /// IPv4.
    pub v4: Option<Ipv4Addr>,
    /// IPv6; not link-local.
    pub v6: Option<Ipv6Addr>,
}

/// A link of a scenario.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// Name.
    pub name: String,
    /// Indices of the two nodes; `forward` is from the first to the second.
    pub between: (usize, usize),
    /// Model of the link.
    pub model: Model,
    /// Links of the same cable share one medium; the first link's model applies.
    pub cable: Option<String>,
    /// Notifications for gateways and hosts whose flows use the link, with their times.
    pub notices: Notices,
    /// Stays in coverage during which packets pass; empty if the link has no `[[coverage]]`.
    pub stays: Vec<CoverageStay>,
}

/// A stay in coverage, such as a train's in a station.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoverageStay {
    /// Name of the station.
    pub name: String,
    /// Name of the class; empty for none.
    pub class: String,
    /// Start of connectivity: layer 3 is configured.
    pub from: Time,
    /// End of coverage.
    pub until: Time,
    /// Time at which hosts and gateways are first notified that coverage ends: that of the warning, if there is one.
    pub end_known: Time,
}

/// A gateway of a scenario: an element at a node on the path of TCP over a rough link.
#[derive(Clone, Debug)]
pub struct GatewaySpec {
    /// Name.
    pub name: String,
    /// Index of the gateway's node.
    pub node: usize,
    /// Index of the rough link, which ends at the node.
    pub link: usize,
    /// Entry in the registry.
    pub kind: &'static RegisteredGateway,
    /// Parameters that override the kind's defaults.
    pub params: toml::Table,
}

/// A split-TCP proxy of a scenario, at a node in the middle of the paths of flows over a rough link.
#[derive(Clone, Debug)]
pub struct ProxySpec {
    /// Name.
    pub name: String,
    /// Index of the proxy's node.
    pub node: usize,
    /// Index of the rough link, which ends at the node.
    pub link: usize,
    /// Valid parameters ([`pep::ProxyParams::check`]).
    pub params: pep::ProxyParams,
}

/// Transport of a flow.
#[derive(Clone, Debug)]
pub enum FlowTransport {
    /// UDP, without settings.
    Udp,
    /// A TCP connection. Flows with equal settings share them.
    Tcp(Arc<TcpConfig>, Arc<CongestionSpec>),
    /// An SCTP association.
    Sctp(Arc<SctpConfig>, Arc<CongestionSpec>),
}

/// Congestion control of a flow.
#[derive(Clone)]
pub struct CongestionSpec {
    /// Name.
    pub name: String,
    /// Parameters that override the algorithm's defaults for the stack.
    pub params: toml::Table,
    /// Factory with these parameters.
    pub factory: cc::Factory,
}

impl std::fmt::Debug for CongestionSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CongestionSpec").field("name", &self.name).field("params", &self.params).finish_non_exhaustive()
    }
}

/// A flow of a scenario.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// Name.
    pub name: String,
    /// Index of the sending node.
    pub from: usize,
    /// Index of the receiving node.
    pub to: usize,
    /// Start of the flow.
    pub start: Time,
    /// Traffic of the flow.
    pub traffic: Traffic,
    /// Transport of the flow, which must suit the traffic.
    pub transport: FlowTransport,
    /// Set for IPv6 headers, otherwise IPv4.
    pub ipv6: bool,
    /// Differentiated services codepoint of the flow's packets, both ways, 0 to 63.
    pub dscp: u8,
    /// Priority class on Green PHY cables, both ways; `None` = the link's class.
    pub priority: Option<PriorityClass>,
}

impl FlowSpec {
    /// Returns true if the transport can carry the traffic.
    pub fn is_consistent(&self) -> bool {
        match (&self.transport, &self.traffic) {
            (FlowTransport::Udp, traffic) => traffic.is_datagrams(),
            (FlowTransport::Sctp(..), traffic) => matches!(traffic, Traffic::Bulk { .. } | Traffic::Messages(_)),
            (FlowTransport::Tcp(..), traffic) => !traffic.is_datagrams() && !matches!(traffic, Traffic::Messages(_)),
        }
    }

    /// Returns the settings of the TCP stack, if the flow uses TCP.
    pub fn tcp(&self) -> Option<&Arc<TcpConfig>> {
        if let FlowTransport::Tcp(config, _) = &self.transport { Some(config) } else { None }
    }

    /// Returns the congestion control, if the transport has one.
    pub fn cc(&self) -> Option<&CongestionSpec> {
        match &self.transport {
            FlowTransport::Udp => None,
            FlowTransport::Tcp(_, cc) | FlowTransport::Sctp(_, cc) => Some(cc),
        }
    }

    /// Returns the congestion control, for changes.
    pub fn cc_mut(&mut self) -> Option<&mut CongestionSpec> {
        match &mut self.transport {
            FlowTransport::Udp => None,
            FlowTransport::Tcp(_, cc) | FlowTransport::Sctp(_, cc) => Some(Arc::make_mut(cc)),
        }
    }

    /// Returns the transport protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocols()[0]
    }

    /// Returns all transport protocols, the main one first: the discovery of a charging session uses UDP.
    pub fn protocols(&self) -> &'static [Protocol] {
        match (&self.transport, &self.traffic) {
            (FlowTransport::Tcp(..), Traffic::Request { .. }) => &[Protocol::Tcp, Protocol::Udp],
            (FlowTransport::Tcp(..), _) => &[Protocol::Tcp],
            (FlowTransport::Sctp(..), _) => &[Protocol::Sctp],
            (FlowTransport::Udp, _) => &[Protocol::Udp],
        }
    }
}
