//! Scenario file as written. Each table is a struct in the module that resolves it: to add a key, add a field there,
//! with its meaning. The comments become the descriptions of the JSON Schema, which is used to find unknown and missing
//! keys. Keys of one kind of a table, and keys shared by several tables, are in separate structs: see [`super::kinds`].

use super::coverage::Coverage;
use super::flow::Flow;
use super::gateway::Gateway;
use super::leaf::{At, Leaf, Name};
use super::link::Link;
use super::sctp::Sctp;
use super::tcp::Tcp;
use roughlink_core::units::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A network, what flows through it, and the seed.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// Title; the name of the file if absent.
    pub name: Option<Leaf<String>>,
    /// Seed of all random streams.
    #[schemars(extend("default" = 1))]
    pub seed: Option<Leaf<u64>>,
    /// End of the run; it ends earlier when every flow has a size and is complete.
    #[schemars(with = "Leaf<Time>", example = "60 s")] // required, by its definition
    pub duration: Option<Leaf<Time>>,
    /// Defaults for every TCP flow.
    pub tcp: Option<Box<At<Tcp>>>,
    /// Defaults for every SCTP flow.
    pub sctp: Option<Box<At<Sctp>>>,
    /// The hosts and routers.
    #[serde(default)]
    pub node: Vec<At<Node>>,
    /// The links between the nodes.
    #[serde(default)]
    pub link: Vec<At<Link>>,
    /// Gateways that watch links and rewrite windows.
    #[serde(default)]
    pub gateway: Vec<At<Gateway>>,
    /// The flows.
    #[serde(default)]
    pub flow: Vec<At<Flow>>,
    /// Where a train or car has coverage.
    #[serde(default)]
    pub coverage: Vec<At<Coverage>>,
}

/// A host or router.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    /// How links and flows refer to it.
    #[schemars(with = "Leaf<Name>")] // required, by its definition
    pub name: Option<Leaf<Name>>,
    /// `emulate` makes it a Linux host in a network namespace of its own; other commands do not distinguish it.
    #[schemars(extend("default" = false))]
    pub kernel: Option<Leaf<bool>>,
    /// What such a host and the network exchange.
    #[schemars(extend("default" = "ip"))]
    pub layer: Option<Leaf<Layer>>,
    /// `emulate` attaches this network device of the machine, or `netns/device` of a named network namespace, and the node is whoever
    /// is behind it; Ethernet frames.
    pub interface: Option<Leaf<String>>,
    /// IPv4 address in emulations and captures; without it one is assigned, 10.0.0.N.
    pub ipv4: Option<Leaf<Ipv4Addr>>,
    /// IPv6 address in emulations and captures; without it one is assigned, fd00::N. It has a link-local one besides, fe80::N.
    pub ipv6: Option<Leaf<Ipv6Addr>>,
}

/// What a Linux host and the network exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Layer {
    /// IP datagrams.
    Ip,
    /// Ethernet frames: multicast, ARP and neighbour discovery, any other protocol.
    Ethernet,
}

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Heading {
    /// From the first node of `between` to the second.
    Forward,
    /// From the second to the first.
    Reverse,
    /// Both.
    Both,
}

/// Parameters of an algorithm: which there are is defined by the algorithm.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Params(pub BTreeMap<toml::Spanned<String>, toml::Spanned<toml::Value>>);

impl JsonSchema for Params {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Params".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}
