//! Scenario file as written. Each table is a struct in the module that resolves it: to add a key, add a field there and
//! document it. The doc comments become the descriptions of the JSON Schema, which the checks for unknown and missing
//! keys use. Keys of one kind of a table, and keys shared by several tables, are in separate structs: see
//! [`super::kinds`].

use super::coverage::TomlCoverage;
use super::flow::TomlFlow;
use super::gateway::TomlGateway;
use super::leaf::{At, Leaf};
use super::link::TomlLink;
use super::node::TomlNode;
use super::sctp::TomlSctp;
use super::tcp::TomlTcp;
use roughlink_core::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;

/// A network, its traffic, and the seed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioFile {
    /// Title; the name of the file if absent.
    pub name: Option<Leaf<String>>,
    /// Seed of all random streams.
    #[schemars(extend("default" = 1))]
    pub seed: Option<Leaf<u64>>,
    /// End of the run; it ends earlier when every flow has a size and is complete.
    #[schemars(with = "Leaf<Time>", example = "60 s")] // required, by its definition
    pub duration: Option<Leaf<Time>>,
    /// Defaults for every TCP flow.
    pub tcp: Option<Box<At<TomlTcp>>>,
    /// Defaults for every SCTP flow.
    pub sctp: Option<Box<At<TomlSctp>>>,
    /// The hosts and routers.
    #[serde(default)]
    pub node: Vec<At<TomlNode>>,
    /// The links between the nodes.
    #[serde(default)]
    pub link: Vec<At<TomlLink>>,
    /// Gateways that watch links and rewrite windows.
    #[serde(default)]
    pub gateway: Vec<At<TomlGateway>>,
    /// The flows.
    #[serde(default)]
    pub flow: Vec<At<TomlFlow>>,
    /// Coverage of trains and cars.
    #[serde(default)]
    pub coverage: Vec<At<TomlCoverage>>,
}

impl ScenarioFile {
    /// Appends the lists of a further part of the file, and takes its tables.
    pub(super) fn append(&mut self, part: ScenarioFile) {
        let ScenarioFile { name, seed, duration, tcp, sctp, node, link, gateway, flow, coverage } = part;
        self.name = self.name.take().or(name);
        self.seed = self.seed.take().or(seed);
        self.duration = self.duration.take().or(duration);
        self.tcp = self.tcp.take().or(tcp);
        self.sctp = self.sctp.take().or(sctp);
        self.node.extend(node);
        self.link.extend(link);
        self.gateway.extend(gateway);
        self.flow.extend(flow);
        self.coverage.extend(coverage);
    }
}
