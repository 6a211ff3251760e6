//! Errors of the interface to Linux.

use nix::errno::Errno;
use roughlink_core::net::NetworkError;
use std::error::Error as _;
use std::io;
use std::time::Duration;

/// Error of a function of this crate.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Scenario that makes no network with these nodes outside of it.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Refused system call or file operation.
    #[error("cannot {what}")]
    System {
        /// Operation that failed.
        what: String,
        /// Reason of the failure.
        source: io::Error,
    },
    /// Failed command of `ip`.
    #[error("`ip` failed: {said}")]
    Ip {
        /// Message of `ip`, with the rejected line.
        said: String,
    },
    /// Missing device to attach.
    #[error("there is no network device {name}")]
    NoInterface {
        /// Name of the device.
        name: String,
        /// Names of the existing devices.
        there: Vec<String>,
    },
    /// Device that cannot be attached.
    #[error("cannot attach the network device {name}: it {}", .reason.0)]
    Unfit {
        /// Name of the device.
        name: String,
        /// Reason, with advice.
        reason: Unfit,
    },
    /// Scenario that the kernels' TCP cannot carry.
    #[error("{}{reason}", flow.iter().map(|flow| format!("flow {flow}: ")).collect::<String>())]
    Transfer {
        /// Name of the flow that causes the error, if it is one flow.
        flow: Option<String>,
        /// Reason of the refusal.
        reason: String,
    },
    /// Too deeply nested links.
    #[error("there are no addresses for one more link within a link")]
    Nested,
    /// Network namespace that another process keeps locked while a link chooses its addresses.
    #[error("cannot choose addresses for the link: {by} has had this network namespace locked (flock on /proc/PID/ns/net) for {} s", .waited.as_secs())]
    Locked {
        /// Process that holds the lock.
        by: String,
        /// Duration of the wait for the lock.
        waited: Duration,
    },
    /// Address of the scenario that is already in use in the namespace of its node.
    #[error("{address} is in use on this machine: {by}")]
    Taken {
        /// Address that is in use.
        address: String,
        /// Route to the address.
        by: String,
    },
}

/// Reason why a device cannot be attached, and advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit(pub(crate) &'static str, pub(crate) &'static str);

impl HostError {
    /// Returns a function that adds the failed operation to a system error.
    pub(crate) fn of(what: impl Into<String>) -> impl FnOnce(io::Error) -> HostError {
        let what = what.into();
        |source| HostError::System { what, source }
    }

    /// Returns a function that adds the failed operation to an error of nix.
    pub(crate) fn errno(what: impl Into<String>) -> impl FnOnce(Errno) -> HostError {
        let what = what.into();
        |e| HostError::System { what, source: e.into() }
    }

    /// Formats the error with its cause.
    pub fn whole(&self) -> String {
        self.source().map_or_else(|| self.to_string(), |source| format!("{self}: {source}"))
    }

    /// Returns short advice, if there is any.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            HostError::System { source, what } => match source.kind() {
                io::ErrorKind::NotFound if what.contains("`ip`") => Some("install iproute2"),
                io::ErrorKind::NotFound if what.contains("TUN") => Some("load the module `tun`: modprobe tun"),
                io::ErrorKind::NotFound if what.contains("open the network namespace") => {
                    Some("list the names of network namespaces with `ip netns`")
                }
                io::ErrorKind::PermissionDenied if what.contains("packet socket") => {
                    Some("to attach a device of this machine needs root, or CAP_NET_RAW and CAP_NET_ADMIN")
                }
                io::ErrorKind::PermissionDenied if what.contains("uid_map") => Some(
                    "user namespaces are restricted here: run it as root, or allow them (Ubuntu: sysctl kernel.apparmor_restrict_unprivileged_userns=0)",
                ),
                // The number of user namespaces may be limited to zero: ENOSPC, user_namespaces(7).
                kind if kind == io::ErrorKind::PermissionDenied || what.contains("user namespace") => Some(
                    "emulation needs root, or user namespaces and a /dev/net/tun that is open to all; `roughlink doctor` says what is here; a container needs --cap-add NET_ADMIN,SYS_ADMIN --device /dev/net/tun",
                ),
                _ => None,
            },
            HostError::Taken { .. } => Some(
                "give the nodes of the scenario other addresses (ipv4 = \"192.168.7.2\"), or the node a namespace of its own",
            ),
            HostError::Nested => Some("six links can be nested, and three begin at the same place"),
            HostError::Locked { .. } => Some(
                "a link that starts has it locked for a moment, nothing else needs it; `roughlink link --generate` prints a scenario for `emulate --here host`, which chooses no addresses",
            ),
            HostError::Unfit { reason, .. } => Some(reason.1),
            HostError::NoInterface { .. }
            | HostError::Network(_)
            | HostError::Ip { .. }
            | HostError::Transfer { .. } => None,
        }
    }
}
