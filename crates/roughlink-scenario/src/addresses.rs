//! Addresses given to nodes: each belongs to one node only, including the default addresses of other nodes.

use super::leaf::{At, span};
use super::node::TomlNode;
use super::problem::{Problem, Problems};
use roughlink_core::net::addresses::{assigned, assigned_v6};
use roughlink_core::scenario::NodeSpec;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;

pub(super) fn check_addresses(all: &[At<TomlNode>], nodes: &[NodeSpec], report: &mut Problems) {
    let mut places: BTreeMap<IpAddr, Range<usize>> = BTreeMap::new();
    for (node, NodeSpec { addresses: own, .. }) in all.iter().zip(nodes) {
        let v4 = own.v4.map(|a| (IpAddr::from(a), span(&node.value.ipv4)));
        let v6 = own.v6.map(|a| (IpAddr::from(a), span(&node.value.ipv6)));
        for (address, place) in [v4, v6].into_iter().flatten() {
            if let Some(first) = places.insert(address, place.clone()) {
                let problem = twice(address).at(place, "the second").at(first, "the first");
                report.error(problem.help("give one of the nodes another address"));
            }
        }
    }
    for (j, node) in all.iter().enumerate().filter(|_| !places.is_empty()) {
        let v4 = node.value.ipv4.is_none().then(|| IpAddr::from(assigned(j)));
        let v6 = node.value.ipv6.is_none().then(|| IpAddr::from(assigned_v6(j)));
        for address in [v4, v6].into_iter().flatten() {
            if let Some(place) = places.get(&address) {
                let help =
                    format!("give one of the nodes another address; `{}` has this one by default", nodes[j].name);
                report.error(twice(address).at(place.clone(), "").help(help));
            }
        }
    }
}

fn twice(address: IpAddr) -> Problem {
    Problem::new(format!("two nodes have the address {address}"))
}
