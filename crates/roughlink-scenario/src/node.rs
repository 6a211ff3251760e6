//! `[[node]]`: the hosts and routers.

use super::leaf::{Leaf, Name, words};
use super::problem::{Problem, Problems};
use roughlink_core::scenario::{HostInterface, NodeAddresses, NodeSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::{Ipv4Addr, Ipv6Addr};

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

words!(Layer);

impl TomlNode {
    pub(crate) fn resolve(&self, name: &str, report: &mut Problems) -> NodeSpec {
        let layer = report.read(&self.layer);
        let attached = report.read(&self.interface);
        if let (Some(Layer::Ip), Some(leaf), Some(device)) = (layer, &self.layer, &attached) {
            let problem =
                Problem::new("layer = \"ip\" does not fit an attached interface, which carries Ethernet frames")
                    .at(leaf.span.clone(), "");
            report.error(problem.help(format!("write layer = \"ethernet\", or remove interface = \"{device}\"")));
        }
        NodeSpec {
            name: name.to_owned(),
            kernel: report.read(&self.kernel) == Some(true) || attached.is_some(),
            interface: match (attached, layer) {
                (Some(device), _) => HostInterface::Attached(device),
                (None, Some(Layer::Ethernet)) => HostInterface::Ethernet,
                (None, _) => HostInterface::Ip,
            },
            addresses: NodeAddresses { v4: report.read(&self.ipv4), v6: report.read(&self.ipv6) },
        }
    }
}
