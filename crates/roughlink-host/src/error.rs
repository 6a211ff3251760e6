//! What can go wrong at the edge to Linux.

use nix::errno::Errno;
use roughlink_core::net::NetworkError;
use std::error::Error as _;
use std::io;
use std::time::Duration;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The scenario makes no network with these nodes outside.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The system refused something.
    #[error("cannot {what}")]
    System {
        /// What was to be done.
        what: String,
        /// Why not.
        source: io::Error,
    },
    /// `ip` refused something.
    #[error("`ip` failed: {said}")]
    Ip {
        /// What it said, and the line that it refused.
        said: String,
    },
    /// There is no device of this name to be attached.
    #[error("there is no network device {name}")]
    NoInterface {
        /// Its name.
        name: String,
        /// The devices that there are.
        there: Vec<String>,
    },
    /// A device cannot be attached.
    #[error("cannot attach the network device {name}: it {}", .reason.0)]
    Unfit {
        /// Its name.
        name: String,
        /// Why not.
        reason: Unfit,
    },
    /// Kernels cannot carry what a scenario has.
    #[error("{}{reason}", flow.iter().map(|flow| format!("flow {flow}: ")).collect::<String>())]
    Transfer {
        /// The flow, if it is one.
        flow: Option<String>,
        /// Why not.
        reason: String,
    },
    /// Links are nested too deeply.
    #[error("there are no addresses for one more link within a link")]
    Nested,
    /// The network namespace is locked while a link chooses its addresses, and somebody keeps it so.
    #[error("cannot choose addresses for the link: {by} has had this network namespace locked (flock on /proc/PID/ns/net) for {} s", .waited.as_secs())]
    Locked {
        /// Who.
        by: String,
        /// How long that was waited for.
        waited: Duration,
    },
    /// An address of the scenario is in use where its node is to be.
    #[error("{address} is in use on this machine: {by}")]
    Taken {
        /// The address.
        address: String,
        /// The route that has it.
        by: String,
    },
}

/// Why a device cannot be attached, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit(pub(crate) &'static str, pub(crate) &'static str);

impl HostError {
    /// What could not be done, with the reason that the system gave.
    pub(crate) fn of(what: impl Into<String>) -> impl FnOnce(io::Error) -> HostError {
        let what = what.into();
        |source| HostError::System { what, source }
    }

    /// The same, where nix gave it.
    pub(crate) fn errno(what: impl Into<String>) -> impl FnOnce(Errno) -> HostError {
        let what = what.into();
        |e| HostError::System { what, source: e.into() }
    }

    /// What could not be done, and why.
    pub fn whole(&self) -> String {
        self.source().map_or_else(|| self.to_string(), |source| format!("{self}: {source}"))
    }

    /// A short advice, if there is one.
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
                // Their number may be limited to none: ENOSPC, user_namespaces(7).
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
