//! Errors of the interface to Linux.

use nix::errno::Errno;
use roughlink_core::net::NetworkError;
use std::error::Error as _;
use std::io;
use std::time::Duration;

/// Error of a function of this crate.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Scenario whose network cannot be built with these nodes as its ports.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Refused system call or file operation.
    #[error("cannot {operation}")]
    System {
        /// Operation that failed.
        operation: Operation,
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
    #[error("unknown network device `{name}`")]
    NoInterface {
        /// Name of the device.
        name: String,
        /// Names of the existing devices.
        there: Vec<String>,
    },
    /// Device that cannot be attached.
    #[error("cannot attach the network device `{name}`: it {}", .reason.0)]
    Unfit {
        /// Name of the device.
        name: String,
        /// Reason, with advice.
        reason: UnfitReason,
    },
    /// Scenario that the kernels' TCP cannot carry.
    #[error("{}{reason}", flow.iter().map(|flow| format!("flow `{flow}`: ")).collect::<String>())]
    Transfer {
        /// Name of the flow that causes the error, if it is one flow.
        flow: Option<String>,
        /// Reason of the refusal.
        reason: String,
    },
    /// Lost device.
    #[error(transparent)]
    Lost(#[from] LostDevice),
    /// Too deeply nested links.
    #[error("cannot nest another link: no addresses are left")]
    Nested,
    /// Network namespace that another process keeps locked while a link chooses its addresses.
    #[error(
        "cannot choose addresses for the link: {by} kept this network namespace locked (flock on /proc/PID/ns/net) for \
         {} s", .waited.as_secs()
    )]
    Locked {
        /// Process that holds the lock.
        by: String,
        /// Duration of the wait for the lock.
        waited: Duration,
    },
    /// Address of the scenario that is already in use in the namespace of its node.
    #[error("address {address} is in use on this machine: {by}")]
    Taken {
        /// Address that is in use.
        address: String,
        /// Route to the address.
        by: String,
    },
}

/// Operation that Linux refused; the advice depends on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Operation {
    /// Start of `ip`.
    #[error("run `ip`")]
    RunIp,
    /// Use of the driver of TUN devices.
    #[error("{0}")]
    Tun(String),
    /// Opening of a network namespace, by path.
    #[error("open the network namespace {0}")]
    OpenNamespace(String),
    /// Creation of a packet socket at a device.
    #[error("attach a packet socket to {0}")]
    PacketSocket(String),
    /// Opening of a netfilter queue, by number.
    #[error("open the netfilter queue {0}")]
    NetfilterQueue(u16),
    /// Installation or removal of rules for netfilter queues.
    #[error("change the rules for netfilter queues")]
    QueueRules,
    /// Creation of a user namespace.
    #[error("create a user namespace")]
    MakeUserNamespace,
    /// Mapping of users into a user namespace, by file.
    #[error("write {0}")]
    MapUsers(String),
    /// Any other operation.
    #[error("{0}")]
    Other(String),
}

impl<T: Into<String>> From<T> for Operation {
    fn from(text: T) -> Self {
        Operation::Other(text.into())
    }
}

/// Reason why a device cannot be attached, and advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfitReason(pub(crate) &'static str, pub(crate) &'static str);

/// Device that no longer exists or cannot be read, or all devices of a loop if waiting for them fails.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("lost device `{device}`: {reason}")]
pub struct LostDevice {
    /// Name of the device, or the names of all devices, separated by commas.
    pub device: String,
    /// Error from the kernel.
    pub reason: String,
}

impl HostError {
    /// Returns a function that adds the failed operation to a system error.
    pub(crate) fn io(operation: impl Into<Operation>) -> impl FnOnce(io::Error) -> HostError {
        let operation = operation.into();
        |source| HostError::System { operation, source }
    }

    pub(crate) fn errno(operation: impl Into<Operation>) -> impl FnOnce(Errno) -> HostError {
        let operation = operation.into();
        |e| HostError::System { operation, source: e.into() }
    }

    /// Formats the error with its cause.
    pub fn with_cause(&self) -> String {
        self.source().map_or_else(|| self.to_string(), |source| format!("{self}: {source}"))
    }

    /// Returns short advice, if there is any.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            HostError::System { source, operation } => match (source.kind(), operation) {
                (io::ErrorKind::NotFound, Operation::RunIp) => Some("install iproute2"),
                (io::ErrorKind::NotFound, Operation::Tun(_)) => Some("load the kernel module: `modprobe tun`"),
                (io::ErrorKind::NotFound, Operation::OpenNamespace(_)) => {
                    Some("list the network namespaces with `ip netns`")
                }
                (io::ErrorKind::ResourceBusy, Operation::NetfilterQueue(_)) => {
                    Some("end the other program that reads this queue, or choose another number")
                }
                (io::ErrorKind::PermissionDenied, Operation::PacketSocket(_) | Operation::NetfilterQueue(_)) => {
                    Some("run it as root, or with CAP_NET_RAW and CAP_NET_ADMIN")
                }
                (_, Operation::QueueRules) => Some(
                    "run it as root, with nftables or iptables installed; or without --install, with rules of your \
                     own",
                ),
                (io::ErrorKind::PermissionDenied, Operation::MapUsers(_)) => Some(
                    "run it as root, or allow user namespaces, which are restricted here (Ubuntu: `sysctl \
                     kernel.apparmor_restrict_unprivileged_userns=0`)",
                ),
                // The number of user namespaces may be limited to zero: ENOSPC, user_namespaces(7).
                (io::ErrorKind::PermissionDenied, _) | (_, Operation::MakeUserNamespace) => Some(
                    "run it as root, or allow user namespaces and open /dev/net/tun to all users; `roughlink doctor` \
                     shows what is missing; start a container with --cap-add NET_ADMIN,SYS_ADMIN --device \
                     /dev/net/tun",
                ),
                _ => None,
            },
            HostError::Taken { .. } => Some(
                "give the nodes of the scenario other addresses (ipv4 = \"192.168.7.2\"), or give the node its own \
                 network namespace",
            ),
            HostError::Nested => Some("nest at most six links, and start at most three inside the same link"),
            HostError::Locked { .. } => Some(
                "end that process if it hangs, since a starting link holds the lock only for a moment; or print a \
                 scenario with `roughlink link --generate` and run it with `roughlink emulate --here host`, which \
                 chooses no addresses",
            ),
            HostError::Unfit { reason, .. } => Some(reason.1),
            HostError::NoInterface { .. }
            | HostError::Lost(_)
            | HostError::Network(_)
            | HostError::Ip { .. }
            | HostError::Transfer { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::ErrorKind::{NotFound, PermissionDenied, StorageFull};

    #[test]
    fn help_depends_on_operation_and_error_kind() {
        let help = |operation: Operation, kind: io::ErrorKind| HostError::io(operation)(kind.into()).help();
        let advice = |operation, kind| help(operation, kind).unwrap_or_default();
        assert!(advice(Operation::RunIp, NotFound).contains("iproute2"));
        assert!(advice(Operation::Tun("reach the driver".into()), NotFound).contains("modprobe tun"));
        assert!(advice(Operation::OpenNamespace("/run/netns/car".into()), NotFound).contains("`ip netns`"));
        assert!(advice(Operation::PacketSocket("eth0".into()), PermissionDenied).contains("CAP_NET_RAW"));
        assert!(advice(Operation::MapUsers("/proc/self/gid_map".into()), PermissionDenied).contains("restricted"));
        assert!(advice(Operation::MakeUserNamespace, StorageFull).contains("doctor"));
        assert!(advice("join a network namespace".into(), PermissionDenied).contains("doctor"));
        assert_eq!(help("read the TUN documentation of `ip`".into(), NotFound), None);
    }
}
