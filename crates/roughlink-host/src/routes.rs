//! Routes in the namespace of the calling thread.

use crate::error::HostError;
use crate::ip::ip_json;
use roughlink_core::net::addresses::Prefix;
use serde::Deserialize;
use std::fmt;
use std::net::IpAddr;

/// Route as `ip -j route` prints it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Route {
    #[serde(rename = "type")]
    kind: Option<String>,
    dst: String,
    gateway: Option<String>,
    dev: Option<String>,
    table: Option<String>,
    protocol: Option<String>,
    scope: Option<String>,
    prefsrc: Option<String>,
    metric: Option<u32>,
    pref: Option<String>,
}

impl Route {
    /// Returns true if a link may use addresses of the route: a default route, or an unreachable one for nested links.
    fn leaves_free(&self) -> bool {
        let is_unreachable = self.kind.as_deref() == Some("unreachable");
        match &*self.dst {
            "default" => is_unreachable || self.kind.is_none(),
            _ => is_unreachable && self.protocol.as_deref() == Some(PROTOCOL),
        }
    }
}

/// Formats the route as `ip route` prints it.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(kind) = &self.kind {
            write!(f, "{kind} ")?;
        }
        f.write_str(&self.dst)?;
        let metric = self.metric.map(|metric| metric.to_string());
        for (word, value) in [
            ("via", &self.gateway),
            ("dev", &self.dev),
            ("table", &self.table),
            ("proto", &self.protocol),
            ("scope", &self.scope),
            ("src", &self.prefsrc),
            ("metric", &metric),
            ("pref", &self.pref),
        ] {
            if let Some(value) = value {
                write!(f, " {word} {value}")?;
            }
        }
        Ok(())
    }
}

/// Returns the first of `prefixes` with a route into it or across it, and that route. The default route does not count.
/// Unreachable routes for nested links do not count.
pub(crate) fn taken(prefixes: &[Prefix]) -> Result<Option<(String, String)>, HostError> {
    for prefix in prefixes.iter().filter(|prefix| prefix.length > 0) {
        let version = if prefix.address.is_ipv4() { "-4" } else { "-6" };
        let text = prefix.to_string();
        // Search routes that contain the prefix, and routes inside it.
        for relation in ["match", "root"] {
            let routes: Vec<Route> = ip_json(&[version, "route", "show", "table", "all", relation, &text])?;
            if let Some(by) = routes.iter().find(|route| !route.leaves_free()) {
                let name = if prefix.length == full(&prefix.address) { prefix.address.to_string() } else { text };
                return Ok(Some((name, by.to_string())));
            }
        }
    }
    Ok(None)
}

/// Returns the IPv4 destinations of unreachable routes for nested links.
pub(crate) fn delegated() -> Result<Vec<String>, HostError> {
    let routes: Vec<Route> = ip_json(&["-4", "route", "show", "type", "unreachable", "proto", PROTOCOL])?;
    Ok(routes.into_iter().map(|route| route.dst).collect())
}

/// Returns the length of an address in bits.
pub(crate) fn full(address: &IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Routing protocol number of the unreachable routes of blocks; iproute2 does not use it.
pub(crate) const PROTOCOL: &str = "82";

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of iproute2 6.1.
    #[test]
    fn routes_are_read_and_printed() {
        let routes: Vec<Route> = serde_json::from_str(
            r#"[{"dst":"default","gateway":"10.0.0.9","dev":"eth0","flags":[]},
                {"dst":"10.0.0.0/24","dev":"eth0","protocol":"kernel","scope":"link","prefsrc":"10.0.0.1","flags":[]},
                {"type":"unreachable","dst":"10.0.16.0/20","protocol":"82","flags":[]},
                {"type":"unreachable","dst":"10.1.0.0/16","protocol":"static","flags":[]},
                {"dst":"10.5.0.0/16","gateway":"10.0.0.7","dev":"eth0","flags":[],"metrics":[{"advmss":1400}]},
                {"type":"local","dst":"10.0.0.1","dev":"eth0","table":"local","protocol":"kernel","scope":"host",
                 "prefsrc":"10.0.0.1","flags":[]},
                {"type":"unreachable","dst":"default","dev":"lo","metric":4294967295,"flags":[],"error":-101},
                {"dst":"fd00::/64","dev":"eth0","metric":5,"flags":[],"pref":"medium"}]"#,
        )
        .unwrap();
        let shown: Vec<String> = routes.iter().filter(|route| !route.leaves_free()).map(Route::to_string).collect();
        assert_eq!(
            shown,
            [
                "10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.1",
                "unreachable 10.1.0.0/16 proto static",
                "10.5.0.0/16 via 10.0.0.7 dev eth0",
                "local 10.0.0.1 dev eth0 table local proto kernel scope host src 10.0.0.1",
                "fd00::/64 dev eth0 metric 5 pref medium",
            ]
        );
    }
}
