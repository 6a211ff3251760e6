//! Carrier, addresses and routes of a network device, for agents. A message of rtnetlink(7) only shows that something
//! has changed; the state then comes from `ip`.

use crate::error::HostError;
use crate::ip::ip_json;
use nix::errno::Errno;
use nix::libc::{RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_IFADDR, RTMGRP_IPV6_ROUTE, RTMGRP_LINK};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket};
use serde::Deserialize;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::Duration;

/// Layers 2 and 3 of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceState {
    /// True if the device exists, is up and has carrier.
    pub up: bool,
    /// True if, in addition, it has an address other than link-local ones, and a default route.
    pub configured: bool,
}

/// Watch of a device in the network namespace in which it was opened.
#[derive(Debug)]
pub struct LinkWatch {
    device: String,
    netlink: OwnedFd,
}

impl LinkWatch {
    /// Starts to watch a device, which need not exist yet.
    ///
    /// # Errors
    /// Returns an error if the kernel offers no rtnetlink socket.
    pub fn open(device: &str) -> Result<Self, HostError> {
        let groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
        let open = || {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let netlink = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
            bind(netlink.as_raw_fd(), &NetlinkAddr::new(0, groups as u32))?;
            Ok(netlink)
        };
        let netlink = open().map_err(HostError::errno("watch network devices"))?;
        Ok(LinkWatch { device: device.to_owned(), netlink })
    }

    /// Returns the present state.
    ///
    /// # Errors
    /// Returns an error if `ip` cannot be run.
    pub fn state(&self) -> Result<DeviceState, HostError> {
        let devices: Vec<ShownDevice> = ip_json(&["address", "show", "dev", &self.device])?;
        let Some(device) = devices.into_iter().next() else { return Ok(DeviceState::default()) };
        let up = ["UP", "LOWER_UP"].iter().all(|flag| device.flags.iter().any(|f| f == flag));
        let addressed = device.addr_info.iter().any(|a| a.scope.as_deref() == Some("global") && !a.tentative);
        let routed = || -> Result<bool, HostError> {
            for family in ["-4", "-6"] {
                if !ip_json::<serde_json::Value>(&[family, "route", "show", "default", "dev", &self.device])?.is_empty()
                {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        Ok(DeviceState { up, configured: up && addressed && routed()? })
    }

    /// Waits until something has changed, but not longer than `patience`. Returns true if something has.
    ///
    /// # Errors
    /// Returns an error if the socket fails.
    pub fn wait(&self, patience: Duration) -> Result<bool, HostError> {
        let failed = || HostError::errno("watch network devices");
        let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
        let mut polled = [PollFd::new(self.netlink.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, timeout) {
            Ok(0) | Err(Errno::EINTR) => return Ok(false),
            Ok(_) => {}
            Err(e) => return Err(failed()(e)),
        }
        let mut buffer = [0; 8192];
        loop {
            match recv(self.netlink.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(_) | Err(Errno::ENOBUFS | Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(true),
                Err(e) => return Err(failed()(e)),
            }
        }
    }
}

/// Device as `ip address` lists it.
#[derive(Deserialize)]
struct ShownDevice {
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    addr_info: Vec<ShownAddress>,
}

#[derive(Deserialize)]
struct ShownAddress {
    scope: Option<String>,
    /// True while duplicate address detection runs.
    #[serde(default)]
    tentative: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::ip;
    use crate::namespace::Namespace;

    #[test]
    fn state_follows_the_device() {
        let Ok(space) = Namespace::new() else { return eprintln!("skipped: no namespaces") };
        space
            .within(|| {
                let watch = LinkWatch::open("air").unwrap();
                let state = |up, configured| DeviceState { up, configured };
                assert_eq!(watch.state().unwrap(), state(false, false), "there is no device");
                for (lines, expected) in [
                    (
                        vec!["link add air type veth peer name peer", "link set peer up", "link set air up"],
                        (true, false),
                    ),
                    (vec!["address add 10.9.0.1/24 dev air"], (true, false)),
                    (vec!["route add default via 10.9.0.2"], (true, true)),
                    (vec!["link set peer down"], (false, false)),
                    (vec!["link set peer up"], (true, true)),
                    (vec!["address flush dev air"], (true, false)),
                    (vec!["link del air"], (false, false)),
                ] {
                    ip(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()).unwrap();
                    // Some changes follow later, such as the carrier.
                    let reached = (0..200).any(|_| {
                        let now = watch.state().unwrap();
                        now == state(expected.0, expected.1) || {
                            watch.wait(Duration::from_millis(100)).unwrap();
                            false
                        }
                    });
                    assert!(reached, "{lines:?}: {:?}", watch.state());
                }
                while watch.wait(Duration::from_millis(50)).unwrap() {}
                assert!(!watch.wait(Duration::from_millis(10)).unwrap(), "nothing changes");
            })
            .unwrap();
    }
}
