//! What can go wrong at the edge to Linux.

use nix::errno::Errno;
use roughlink_core::net::NetworkError;
use std::error::Error as _;
use std::io;

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
    /// An address of the scenario is in use where its node is to be.
    #[error("{address} is in use on this machine: {by}")]
    Taken {
        /// The address.
        address: String,
        /// The route that has it.
        by: String,
    },
}

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
                io::ErrorKind::PermissionDenied => Some(
                    "emulation needs root, or user namespaces and a /dev/net/tun that is open to all; `roughlink doctor` says what is here",
                ),
                _ => None,
            },
            HostError::Taken { .. } => {
                Some("give the node a namespace of its own, or run in another namespace: unshare -n")
            }
            HostError::Network(_) | HostError::Ip { .. } => None,
        }
    }
}
