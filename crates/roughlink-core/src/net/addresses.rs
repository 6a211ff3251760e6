//! Addresses and ports, which follow from the numbers of nodes and flows in the scenario.
//!
//! Node 0 is 10.0.0.1, node 254 10.0.1.1, or with IPv6 fd00::1 and fd00::ff; flow 0 goes from port 50000 to port 42000. No
//! dissector of Wireshark's claims these ports. A charging session has the addresses and ports that ISO 15118-2 demands:
//! fe80::1, port 15118 at the charger.

use crate::app::{Traffic, request};
use crate::scenario::Scenario;
use crate::wire::{Addresses, IpPair};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The IPv4 address of node `index`.
pub fn node_address(index: usize) -> Ipv4Addr {
    let [low, middle, high] = [index % 254 + 1, index / 254 % 256, index / (254 * 256) % 256].map(|x| x as u8);
    Ipv4Addr::new(10, high, middle, low)
}

/// The IPv6 address of node `index`, in the link's own network or in that of the scenario.
pub fn node_address_v6(index: usize, link_local: bool) -> Ipv6Addr {
    let [above, below] = [(index + 1) >> 16, index + 1].map(|x| x as u16);
    Ipv6Addr::new(if link_local { 0xfe80 } else { 0xfd00 }, 0, 0, 0, 0, 0, above, below)
}

/// All addresses that the flows of each node use, by node.
pub fn node_addresses(scenario: &Scenario) -> Vec<BTreeSet<IpAddr>> {
    let mut all = vec![BTreeSet::new(); scenario.nodes.len()];
    for (i, f) in scenario.flows.iter().enumerate() {
        let own = match addresses(scenario, i).ip {
            IpPair::V4 { src, dst } => [src, dst].map(IpAddr::from),
            IpPair::V6 { src, dst } => [src, dst].map(IpAddr::from),
        };
        all[f.from].insert(own[0]);
        all[f.to].insert(own[1]);
    }
    all
}

/// The addresses of flow `index`, from its source to its destination.
pub fn addresses(scenario: &Scenario, index: usize) -> Addresses {
    let f = &scenario.flows[index];
    let session = matches!(f.traffic, Traffic::Request { .. });
    Addresses {
        ip: if f.ipv6 {
            IpPair::V6 { src: node_address_v6(f.from, session), dst: node_address_v6(f.to, session) }
        } else {
            IpPair::V4 { src: node_address(f.from), dst: node_address(f.to) }
        },
        src_port: FIRST_SOURCE_PORT + (index % SOURCE_PORTS) as u16,
        dst_port: if session { request::PORT } else { FIRST_DESTINATION_PORT + (index / SOURCE_PORTS) as u16 },
    }
}

// Ranges of which no port is registered with a dissector of Wireshark 4.
const FIRST_SOURCE_PORT: u16 = 50_000;
const SOURCE_PORTS: usize = 4096;
const FIRST_DESTINATION_PORT: u16 = 42_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_addresses_of_their_own() {
        assert_eq!(node_address(0), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(node_address(253), Ipv4Addr::new(10, 0, 0, 254));
        assert_eq!(node_address(254), Ipv4Addr::new(10, 0, 1, 1));
        assert_eq!(node_address(254 * 256), Ipv4Addr::new(10, 1, 0, 1));
        assert_eq!(node_address_v6(0, true).to_string(), "fe80::1");
        assert_eq!(node_address_v6(254, false).to_string(), "fd00::ff");
        assert_eq!(node_address_v6(0xffff, false).to_string(), "fd00::1:0");
    }
}
