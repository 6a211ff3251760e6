//! Addresses and ports. A node's addresses are given in the scenario or follow from its number: node 0 has 10.0.0.1 and
//! fd00::1, node 254 has 10.0.1.1 and fd00::ff. Ports follow from the flow's number: flow 0 goes from port 50000 to
//! port 42000, which no Wireshark dissector claims. A charging session over IPv6 uses link-local addresses (fe80::1 for
//! node 0), as ISO 15118-2 requires. The charger's port is always 15118.

use crate::app::{Traffic, request};
use crate::scenario::Scenario;
use crate::wire::{Addresses, IpPair, is_unicast};
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the IPv4 address of node `index`.
pub fn node_address(scenario: &Scenario, index: usize) -> Ipv4Addr {
    scenario.nodes[index].addresses.v4.unwrap_or_else(|| assigned(index))
}

/// Returns the IPv6 address of node `index` in the scenario's network.
pub fn node_address_v6(scenario: &Scenario, index: usize) -> Ipv6Addr {
    scenario.nodes[index].addresses.v6.unwrap_or_else(|| assigned_v6(index))
}

/// Returns the link-local IPv6 address of node `index`.
pub fn link_local(index: usize) -> Ipv6Addr {
    v6(0xfe80, index)
}

/// Returns the default IPv4 address of node `index`.
pub fn assigned(index: usize) -> Ipv4Addr {
    let [low, middle, high] = [index % 254 + 1, index / 254 % 256, index / (254 * 256) % 256].map(|x| x as u8);
    Ipv4Addr::new(10, high, middle, low)
}

/// Returns the default IPv6 address of node `index`.
pub fn assigned_v6(index: usize) -> Ipv6Addr {
    v6(0xfd00, index)
}

fn v6(first: u16, index: usize) -> Ipv6Addr {
    let [above, below] = [(index + 1) >> 16, index + 1].map(|x| x as u16);
    Ipv6Addr::new(first, 0, 0, 0, 0, 0, above, below)
}

/// An address prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Any address with this prefix.
    pub address: IpAddr,
    /// Length, bits.
    pub length: u8,
}

impl Prefix {
    /// Returns true if an address has this prefix.
    ///
    /// ```
    /// use roughlink_core::net::addresses::{Prefix, assigned};
    ///
    /// let network = Prefix { address: assigned(0).into(), length: 24 };
    /// assert_eq!(network.to_string(), "10.0.0.1/24");
    /// assert!(network.contains(assigned(253).into()));
    /// assert!(!network.contains(assigned(254).into())); // 10.0.1.1
    /// ```
    pub fn contains(&self, address: IpAddr) -> bool {
        let rest = |bits: u8| u32::from(bits.saturating_sub(self.length));
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).checked_shr(rest(32)).unwrap_or(0) == 0,
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).checked_shr(rest(128)).unwrap_or(0) == 0,
            _ => false,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// Returns true if an address identifies one host: not reserved, unspecified, loopback, multicast or link-local.
pub fn is_of_a_host(address: IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
    };
    is_unicast(address) && !link_local
}

/// Returns all addresses that the flows of each node use, by node.
pub fn node_addresses(scenario: &Scenario) -> Vec<BTreeSet<IpAddr>> {
    let mut all = vec![BTreeSet::new(); scenario.nodes.len()];
    for (i, f) in scenario.flows.iter().enumerate() {
        let own = addresses(scenario, i).ip.addresses();
        all[f.from].insert(own[0]);
        all[f.to].insert(own[1]);
    }
    all
}

/// Returns the addresses of flow `index`, from its source to its destination.
pub fn addresses(scenario: &Scenario, index: usize) -> Addresses {
    let f = &scenario.flows[index];
    let session = matches!(f.traffic, Traffic::Request { .. });
    Addresses {
        ip: if f.ipv6 {
            let of = |node| if session { link_local(node) } else { node_address_v6(scenario, node) };
            IpPair::V6 { src: of(f.from), dst: of(f.to) }
        } else {
            IpPair::V4 { src: node_address(scenario, f.from), dst: node_address(scenario, f.to) }
        },
        src_port: FIRST_SOURCE_PORT + (index % SOURCE_PORTS) as u16,
        dst_port: if session { request::PORT } else { FIRST_DESTINATION_PORT + (index / SOURCE_PORTS) as u16 },
    }
}

// Port ranges that no dissector of Wireshark 4 claims.
const FIRST_SOURCE_PORT: u16 = 50_000;
const SOURCE_PORTS: usize = 4096;
const FIRST_DESTINATION_PORT: u16 = 42_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_distinct_addresses() {
        assert_eq!(assigned(0), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(assigned(253), Ipv4Addr::new(10, 0, 0, 254));
        assert_eq!(assigned(254), Ipv4Addr::new(10, 0, 1, 1));
        assert_eq!(assigned(254 * 256), Ipv4Addr::new(10, 1, 0, 1));
        assert_eq!(link_local(0).to_string(), "fe80::1");
        assert_eq!(assigned_v6(254).to_string(), "fd00::ff");
        assert_eq!(assigned_v6(0xffff).to_string(), "fd00::1:0");
    }

    #[test]
    fn prefixes_contain_their_addresses() {
        let prefix = |text: &str, length| Prefix { address: text.parse().unwrap(), length };
        let contains = |p: Prefix, text: &str| p.contains(text.parse().unwrap());
        let network = prefix("10.0.16.0", 20);
        assert!(contains(network, "10.0.31.255") && !contains(network, "10.0.32.0") && !contains(network, "fd00::1"));
        assert!(contains(prefix("0.0.0.0", 0), "203.0.113.9") && !contains(prefix("0.0.0.0", 0), "::"));
        assert!(
            contains(prefix("fd00::4000", 116), "fd00::4fff") && !contains(prefix("fd00::4000", 116), "fd00::5000")
        );
        assert!(contains(prefix("10.0.0.1", 32), "10.0.0.1") && !contains(prefix("10.0.0.1", 32), "10.0.0.0"));
    }

    #[test]
    fn host_addresses_are_recognized() {
        for host in ["10.0.0.1", "192.168.7.2", "203.0.113.9", "fd12::2", "2001:db8::1"] {
            assert!(is_of_a_host(host.parse().unwrap()), "{host}");
        }
        let others = "0.0.0.0 0.1.2.3 127.0.0.1 169.254.1.1 224.0.0.251 240.0.0.1 255.255.255.255 \
                      :: ::1 ff02::1 fe80::1 ::ffff:10.0.0.1";
        for other in others.split(' ') {
            assert!(!is_of_a_host(other.parse().unwrap()), "{other}");
        }
    }
}
