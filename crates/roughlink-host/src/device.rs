//! A TUN device: IP datagrams between a kernel and this process. It vanishes with its descriptor.

use crate::error::HostError;
use crate::ip::{ip, ip_prints};
use crate::namespace::Namespace;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// A device in a namespace.
pub(crate) struct Device {
    device: SyncDevice,
    pub(crate) name: String,
}

/// How a device is set up.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) name: String,
    /// Largest IP packet, bytes.
    pub(crate) mtu: u16,
    /// Its own addresses.
    pub(crate) addresses: Vec<IpAddr>,
    /// The one that is of use at this device only.
    pub(crate) link_local: Option<IpAddr>,
    /// Who is reached through it.
    pub(crate) others: Vec<IpAddr>,
    /// The namespace has other devices, whose addresses must not be taken from them.
    pub(crate) shared: bool,
}

impl Device {
    /// Makes it in a namespace, with addresses and routes, and up.
    pub(crate) fn new(namespace: &Namespace, setup: &Setup) -> Result<Self, HostError> {
        namespace.within(|| {
            let mut has_ipv6 = has_ipv6();
            if setup.shared {
                if let Some((address, by)) = taken(setup, "-4")? {
                    return Err(HostError::Taken { address, by });
                }
                // Without it a node is still a node.
                has_ipv6 &= taken(setup, "-6")?.is_none();
            }
            let name = setup.name.clone();
            // Without offloads a datagram is one packet: a large one of several segments would be lost whole.
            let device = DeviceBuilder::new().name(&name).layer(Layer::L3).offload(false).enable(false);
            let device = device.build_sync().map_err(HostError::of(format!("make the TUN device {name}")))?;
            device.set_nonblocking(true).map_err(HostError::of(format!("prepare the TUN device {name}")))?;
            if has_ipv6 {
                // Nobody routes here; a kernel without IPv6 at this device has no such file.
                let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/router_solicitations"), "0");
            }
            ip(&commands(setup, has_ipv6))?;
            Ok(Device { device, name })
        })?
    }

    /// The next datagram that the kernel sends, if there is one.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.device.recv(buffer) {
            Ok(n) => Ok(Some(n)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Hands a datagram to the kernel.
    pub(crate) fn send(&self, datagram: &[u8]) -> io::Result<()> {
        self.device.send(datagram).map(drop)
    }

    /// Datagrams that the kernel dropped because the device's queue was full.
    pub(crate) fn dropped(&self, namespace: &Namespace) -> Option<u64> {
        namespace.within(|| transmit_drops(&fs::read_to_string("/proc/thread-self/net/dev").ok()?, &self.name)).ok()?
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// What `ip` is to do. Nothing is sent that nobody asked for: no multicast reports, no router solicitations.
fn commands(setup: &Setup, has_ipv6: bool) -> Vec<String> {
    let Setup { name, mtu, addresses, link_local, others, .. } = setup;
    let speaks = |a: &&IpAddr| a.is_ipv4() || has_ipv6 && *mtu >= LEAST_MTU_V6;
    let length = |a: &IpAddr| if a.is_ipv4() { 32 } else { 128 };
    let mut all = vec![format!("link set dev {name} mtu {mtu} txqueuelen {QUEUE} multicast off")];
    if has_ipv6 {
        all.push(format!("link set dev {name} addrgenmode none"));
    }
    for a in addresses.iter().filter(speaks) {
        let no_detection = if a.is_ipv6() { " nodad" } else { "" };
        all.push(format!("address add {a}/{} dev {name}{no_detection}", length(a)));
    }
    for a in link_local.iter().filter(speaks) {
        all.push(format!("address add {a}/64 dev {name} nodad"));
    }
    all.push(format!("link set dev {name} up"));
    for a in others.iter().filter(speaks) {
        let own = addresses.iter().find(|own| own.is_ipv4() == a.is_ipv4());
        let source = own.map_or_else(String::new, |own| format!(" src {own}"));
        all.push(format!("route add {a}/{} dev {name}{source}", length(a)));
    }
    all
}

/// Whether devices of this thread's namespace get IPv6.
fn has_ipv6() -> bool {
    fs::read_to_string("/proc/sys/net/ipv6/conf/default/disable_ipv6").is_ok_and(|disabled| disabled.trim() == "0")
}

/// The first address of the set-up, of IP version `-4` or `-6`, that has a route other than the default, and that route.
fn taken(setup: &Setup, version: &str) -> Result<Option<(String, String)>, HostError> {
    let of = |a: &&IpAddr| a.is_ipv4() == (version == "-4");
    for address in setup.addresses.iter().chain(&setup.others).filter(of) {
        let address = address.to_string();
        let routes = ip_prints(&[version, "-o", "route", "show", "table", "all", "match", &address])?;
        let other = |line: &&str| !line.starts_with("default") && !line.contains("unreachable default");
        if let Some(by) = routes.lines().find(other) {
            return Ok(Some((address, by.trim().to_owned())));
        }
    }
    Ok(None)
}

/// The count of dropped packets in the sending direction of a device in /proc/net/dev: four of the receiving direction's eight
/// columns and four others come before it.
fn transmit_drops(table: &str, name: &str) -> Option<u64> {
    let columns = table.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'))?;
    columns.split_whitespace().nth(11)?.parse().ok()
}

/// The name of a device at a link, as Linux allows it.
pub(crate) fn name_at(link: &str) -> String {
    let plain: String = link.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = if plain.is_empty() { "link" } else { &plain };
    format!("{}0", &plain[..plain.len().min(LONGEST_NAME - 1)])
}

/// Packets that wait in a device until the loop takes them: as many as 1 Gbit/s brings in 60 ms.
const QUEUE: u32 = 5000;
/// RFC 8200 section 5: below, the kernel has no IPv6 at a device.
const LEAST_MTU_V6: u16 = 1280;
/// IFNAMSIZ without the zero at the end.
const LONGEST_NAME: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices() {
        assert_eq!(name_at("plc"), "plc0");
        assert_eq!(name_at("the very long link of a name"), "theverylonglin0");
        assert_eq!(name_at("Öl/.."), "l0");
        assert_eq!(name_at("—"), "link0");
    }

    #[test]
    fn drops_are_read_from_the_right_column() {
        let table = "Inter-|   Receive                  |  Transmit\n face |bytes packets errs drop fifo frame compressed \
                     multicast|bytes packets errs drop fifo colls carrier compressed\n   plc0:  1 2 3 4 5 6 7 8 9 10 11 \
                     12 13 14 15 16\n";
        assert_eq!(transmit_drops(table, "plc0"), Some(12));
        assert_eq!(transmit_drops(table, "plc"), None);
    }

    #[test]
    fn small_links_have_no_ipv6() {
        let addresses = ["10.0.0.1", "fd00::1"].map(|a| a.parse().unwrap()).to_vec();
        let others = ["10.0.0.2", "fd00::2"].map(|a| a.parse().unwrap()).to_vec();
        let link_local = "fe80::1".parse().ok();
        let setup = Setup { name: "plc0".into(), mtu: 1279, addresses, link_local, others, shared: false };
        assert!(commands(&setup, true).iter().all(|line| !line.contains("fd00") && !line.contains("fe80")));
        let all = commands(&Setup { mtu: 1280, ..setup.clone() }, true);
        assert!(all.contains(&"route add fd00::2/128 dev plc0 src fd00::1".into()), "{all:?}");
        assert!(all.contains(&"address add fd00::1/128 dev plc0 nodad".into()), "{all:?}");
        assert!(all.contains(&"address add fe80::1/64 dev plc0 nodad".into()), "{all:?}");
        assert!(commands(&Setup { mtu: 1500, ..setup }, false).iter().all(|line| !line.contains("fd00")));
    }
}
