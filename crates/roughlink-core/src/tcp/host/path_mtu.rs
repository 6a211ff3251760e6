//! Path MTUs learned from ICMP (RFC 1191, RFC 8201), per destination.

use crate::tcp::TcpConfig;
use crate::units::Time;
use crate::wire::IpFields;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// MTU of the path to a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PathMtu {
    pub(super) mtu: u16,
    /// Set if routers may fragment datagrams, because a link of the path has an MTU below [`MIN_V4`].
    pub(super) fragments: bool,
}

/// Path MTUs below the MTU of the interface.
#[derive(Debug)]
pub(crate) struct PathMtus {
    interface: u16,
    capacity: usize,
    known: BTreeMap<IpAddr, (PathMtu, Time)>,
    next_expiry: Time,
}

impl PathMtus {
    pub(crate) fn new(interface: u16, capacity: usize) -> Self {
        PathMtus { interface, capacity, known: BTreeMap::new(), next_expiry: Time::MAX }
    }

    pub(super) fn get(&self, destination: IpAddr) -> PathMtu {
        let whole = PathMtu { mtu: self.interface, fragments: false };
        self.known.get(&destination).map_or(whole, |known| known.0)
    }

    /// Returns the largest MSS of the path to `destination`, options included, and the IP header fields for it.
    pub(crate) fn segment_limits(&self, destination: IpAddr) -> (u32, IpFields) {
        let path = self.get(destination);
        let v4 = destination.is_ipv4();
        let fields = IpFields { dont_fragment: v4 && !path.fragments, ..IpFields::default() };
        (u32::from(path.mtu) - if v4 { V4_HEADERS } else { V6_HEADERS }, fields)
    }

    /// Lowers the path MTU to `reported`. Returns false if that is no change. An IPv4 path below [`MIN_V4`] gets that
    /// MTU without DF, as in Linux (`ip_rt_min_pmtu`). Smaller reports over IPv6 are invalid (RFC 8201 section 4).
    pub(crate) fn lower(&mut self, now: Time, destination: IpAddr, reported: u32) -> bool {
        let least = if destination.is_ipv4() { MIN_V4 } else { MIN_V6 };
        if destination.is_ipv6() && reported < u32::from(least) {
            return false;
        }
        let current = self.get(destination);
        let least = least.min(current.mtu);
        let mtu = reported.clamp(u32::from(least), u32::from(current.mtu)) as u16;
        let fragments = current.fragments || reported < u32::from(least);
        let lowered = PathMtu { mtu, fragments };
        if lowered == current {
            return false;
        }
        if self.known.len() >= self.capacity && !self.known.contains_key(&destination) {
            let first = self.known.iter().min_by_key(|(_, known)| known.1).map(|(address, _)| *address);
            if let Some(address) = first {
                self.known.remove(&address);
            }
        }
        self.known.insert(destination, (lowered, now + LIFETIME));
        self.set_next_expiry();
        true
    }

    pub(crate) fn next_wake(&self) -> Time {
        self.next_expiry
    }

    /// Forgets expired path MTUs and returns their destinations.
    pub(crate) fn expire(&mut self, now: Time) -> Vec<IpAddr> {
        if self.next_expiry > now {
            return Vec::new();
        }
        let expired: Vec<IpAddr> = self.known.extract_if(.., |_, known| known.1 <= now).map(|entry| entry.0).collect();
        self.set_next_expiry();
        expired
    }

    fn set_next_expiry(&mut self) {
        self.next_expiry = self.known.values().map(|known| known.1).min().unwrap_or(Time::MAX);
    }
}

/// Returns `tcp` for IPv4 and for IPv6, with an announced MSS that fits `mtu`, options included.
pub(crate) fn fit_to_mtu(tcp: &TcpConfig, mtu: u16) -> [Arc<TcpConfig>; 2] {
    [V4_HEADERS, V6_HEADERS].map(|headers| {
        let mss = tcp.mss.min(u32::from(mtu) - headers);
        Arc::new(TcpConfig { mss, mss_option: true, mss_includes_options: true, ..tcp.clone() })
    })
}

/// Least MTU of an interface, bytes: room for headers with all options, and data.
pub(super) const MIN_MTU: u16 = 128;
/// Lengths of IP and TCP headers without options.
const V4_HEADERS: u32 = 40;
const V6_HEADERS: u32 = 60;
/// Time after which a larger MTU is tried again (RFC 8201 section 4: at least 5, by default 10 minutes).
const LIFETIME: Time = Time::from_secs(600);
/// Least path MTU of IPv4 (Linux `min_pmtu`): forged messages cannot make segments tiny.
pub(super) const MIN_V4: u16 = 552;
/// Least MTU of IPv6 links (RFC 8200 section 5).
pub(crate) const MIN_V6: u16 = 1_280;
