//! A scenario: the network, its flows and the seed, as the engine takes it. Scenario files become this.

use crate::app::Traffic;
use crate::cc;
use crate::link::PipeConfig;
use crate::tcp::TcpConfig;
use crate::units::Time;

/// A validated scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Title.
    pub name: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// Hard stop.
    pub duration: Time,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Links.
    pub links: Vec<LinkSpec>,
    /// Flows.
    pub flows: Vec<FlowSpec>,
    /// The text it was read from, overrides applied.
    pub source: String,
}

/// A link of a scenario.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// Name.
    pub name: String,
    /// Indices of its two nodes; `forward` is from the first to the second.
    pub between: (usize, usize),
    /// Its model.
    pub pipe: PipeConfig,
}

/// A flow of a scenario.
#[derive(Clone)]
pub struct FlowSpec {
    /// Name.
    pub name: String,
    /// Index of the sending node.
    pub from: usize,
    /// Index of the receiving node.
    pub to: usize,
    /// When it starts.
    pub start: Time,
    /// What it carries.
    pub traffic: Traffic,
    /// Keys of its TCP stack; unused by datagram flows.
    pub tcp: TcpConfig,
    /// Name of its congestion control, empty for datagram flows.
    pub cc: String,
    /// Makes its congestion control.
    pub factory: Option<cc::Factory>,
}

impl std::fmt::Debug for FlowSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowSpec")
            .field("name", &self.name)
            .field("traffic", &self.traffic)
            .field("tcp", &self.tcp)
            .field("cc", &self.cc)
            .finish_non_exhaustive()
    }
}
