//! Scenario file as written. Each table is a struct in the module that resolves it: to add a key, add a field there and
//! document it. The doc comments become the descriptions of the JSON Schema, which the checks for unknown and missing
//! keys use. Keys of one kind of a table, and keys shared by several tables, are in separate structs: see
//! [`super::kinds`].

use super::coverage::TomlCoverage;
use super::flow::TomlFlow;
use super::gateway::TomlGateway;
use super::leaf::{At, Leaf, Name};
use super::link::TomlLink;
use super::sctp::TomlSctp;
use super::tcp::TomlTcp;
use roughlink_core::units::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A network, its traffic, and the seed.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
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

/// A host or router.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlNode {
    /// Name by which links and flows refer to the node.
    #[schemars(with = "Leaf<Name>")] // required, by its definition
    pub name: Option<Leaf<Name>>,
    /// Makes the node a Linux host with its own network namespace in `emulate`; other commands ignore this key.
    #[schemars(extend("default" = false))]
    pub kernel: Option<Leaf<bool>>,
    /// Layer at which the host and the network exchange packets.
    #[schemars(extend("default" = "ip"))]
    pub layer: Option<Leaf<Layer>>,
    /// Network device that `emulate` attaches: `device` of the machine, or `netns/device` of a named network namespace.
    /// The hosts behind it take the place of the node. The device carries Ethernet frames.
    pub interface: Option<Leaf<String>>,
    /// IPv4 address in emulations and captures; 10.0.0.N if absent.
    pub ipv4: Option<Leaf<Ipv4Addr>>,
    /// IPv6 address in emulations and captures; fd00::N if absent. The node also has the link-local address fe80::N.
    pub ipv6: Option<Leaf<Ipv6Addr>>,
}

/// Layer at which a Linux host and the network exchange packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Layer {
    /// IP datagrams.
    Ip,
    /// Ethernet frames: multicast, ARP, neighbor discovery, and any other protocol.
    Ethernet,
}

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum LinkDirections {
    /// From the first node of `between` to the second.
    Forward,
    /// From the second to the first.
    Reverse,
    /// Both.
    Both,
}

/// Parameters of an algorithm, which defines their names.
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
