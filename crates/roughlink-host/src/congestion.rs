//! Congestion control of kernel nodes: the default of a namespace, and algorithms for which the kernel paces senders. A
//! new namespace has the machine's default. With BBR, each socket starts paced: `bbr_init` sets `SK_PACING_NEEDED`
//! (net/ipv4/tcp_bbr.c, Linux 6.18), and a later change of the algorithm, by `TCP_CONGESTION` after `connect` or
//! `accept`, leaves it set. A separate namespace therefore gets the scenario's default before any program starts there.

use crate::error::HostError;
use crate::namespace::Namespace;
use serde::Serialize;
use std::fs;
use std::io;

/// Default congestion control of a node's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DefaultCongestionControl {
    /// Name in the kernel.
    pub name: String,
    /// True if the kernel paces senders that begin with it, even after a change of their algorithm.
    pub paced: bool,
    /// Requested algorithm that the kernel did not allow.
    pub refused: Option<String>,
}

impl DefaultCongestionControl {
    pub(crate) fn read(namespace: &Namespace) -> Result<Self, HostError> {
        let name =
            namespace.within(|| fs::read_to_string(DEFAULT))?.map_err(HostError::io(format!("read {DEFAULT}")))?;
        let name = name.trim().to_owned();
        Ok(DefaultCongestionControl { paced: paces(&name), name, refused: None })
    }

    /// Sets the default of a namespace to `wanted`, or to Reno, which every kernel has, if the kernel refuses.
    pub(crate) fn set(namespace: &Namespace, wanted: &str) -> Result<Self, HostError> {
        let write = |name: &str| -> Result<io::Result<()>, HostError> { namespace.within(|| fs::write(DEFAULT, name)) };
        let refused = write(wanted)?.is_err();
        if refused {
            write(RENO)?.map_err(HostError::io(format!("write {DEFAULT}")))?;
        }
        Ok(DefaultCongestionControl { refused: refused.then(|| wanted.to_owned()), ..Self::read(namespace)? })
    }
}

/// Returns the kernel's name for an algorithm of roughlink; the kernel's names have no hyphens.
///
/// ```
/// use roughlink_host::{name_in_kernel, paces};
///
/// assert_eq!(name_in_kernel("newreno"), "reno");
/// assert_eq!(name_in_kernel("illinois-aa"), "illinois_aa");
/// assert!(paces("bbr3") && !paces("cubic"));
/// ```
pub fn name_in_kernel(algorithm: &str) -> String {
    match algorithm {
        "newreno" => RENO.into(),
        other => other.replace('-', "_"),
    }
}

/// Returns true if the kernel paces an algorithm's senders: any BBR, and `wave` of `roughlink cc load` with any suffix.
pub fn paces(name: &str) -> bool {
    ["bbr", "wave"].iter().any(|prefix| name.starts_with(prefix))
}

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// Algorithm of nodes without a named one. Reno is part of every kernel and needs no module.
pub const RENO: &str = "reno";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_map_to_kernel_names() {
        assert_eq!(["newreno", "illinois-aa", "cubic"].map(name_in_kernel), ["reno", "illinois_aa", "cubic"]);
        assert_eq!(["bbr", "bbr3", "wave_fr", "reno"].map(paces), [true, true, true, false]);
    }

    /// A namespace inherits the machine's default (`tcp_sk_init`, net/ipv4/tcp_ipv4.c), which can be any algorithm.
    #[test]
    fn default_that_the_kernel_refuses_becomes_reno() {
        let Ok(namespace) = Namespace::new() else {
            eprintln!("skipped: no namespaces here");
            return;
        };
        let set = |name| DefaultCongestionControl::set(&namespace, name).unwrap();
        let reno = |refused| DefaultCongestionControl { name: RENO.into(), paced: false, refused };
        assert_eq!(set("reno"), reno(None));
        assert_eq!(set("none_such"), reno(Some("none_such".into())));
        assert_eq!(DefaultCongestionControl::read(&namespace).unwrap(), reno(None));
    }
}
