//! Routes in the namespace of the calling thread.

use crate::error::HostError;
use crate::ip::ip_prints;
use roughlink_core::net::addresses::Prefix;
use std::net::IpAddr;

/// Returns the first of `prefixes` with a route into it or across it, and that route. The default route does not count.
/// Unreachable routes for nested links do not count.
pub(crate) fn taken(prefixes: &[Prefix]) -> Result<Option<(String, String)>, HostError> {
    let ours = format!("proto {PROTOCOL}");
    let other = |line: &&str| {
        let nowhere = line.starts_with("unreachable") && (line.contains(&ours) || line.contains("unreachable default"));
        !line.is_empty() && !line.starts_with("default") && !nowhere
    };
    for prefix in prefixes.iter().filter(|prefix| prefix.length > 0) {
        let version = if prefix.address.is_ipv4() { "-4" } else { "-6" };
        let text = prefix.to_string();
        // Search routes that contain the prefix, and routes inside it.
        for relation in ["match", "root"] {
            let routes = ip_prints(&[version, "-o", "route", "show", "table", "all", relation, &text])?;
            if let Some(by) = routes.lines().find(other) {
                let name = if prefix.length == full(&prefix.address) { prefix.address.to_string() } else { text };
                return Ok(Some((name, by.trim().to_owned())));
            }
        }
    }
    Ok(None)
}

/// Returns the length of an address in bits.
pub(crate) fn full(address: &IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Routing protocol number of the unreachable routes of blocks; iproute2 does not use it.
pub(crate) const PROTOCOL: &str = "82";
