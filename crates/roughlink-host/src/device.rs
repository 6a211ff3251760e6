//! Devices of the loop: TUN for IP datagrams, TAP for Ethernet frames, an attached existing device, or a netfilter
//! queue.

use crate::attached::Attached;
use crate::error::{HostError, Operation};
use crate::ip::ip;
use crate::mac::Mac;
use crate::namespace::Namespace;
use crate::nfqueue::NfQueue;
use crate::offload::{DeviceLayer, HEADER, PendingOffloads};
use crate::routes::{PROTOCOL, full, taken};
use crate::verdict::PacketVerdict;
use roughlink_core::net::addresses::Prefix;
use roughlink_core::wire::Datagram;
use roughlink_core::wire::ethernet::address_text;
use std::cell::Cell;
use std::fs;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use tun_rs::{DeviceBuilder, SyncDevice};

/// Packet device of a [`Loop`](crate::Loop).
pub struct Device {
    kind: DeviceKind,
    pub(crate) name: String,
}

enum DeviceKind {
    Ours(TunDevice),
    Attached(Attached),
    Queue(NfQueue),
}

/// TUN or TAP device. The kernel leaves checksums and the division of long segments and datagrams to this side.
struct TunDevice {
    device: SyncDevice,
    layer: DeviceLayer,
    /// Size of the largest packet that passes, bytes.
    longest: usize,
    oversized: Cell<u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    /// Name. The kernel replaces `%d` by the lowest free number.
    pub(crate) name: String,
    /// Size of the largest IP packet, bytes.
    pub(crate) mtu: u16,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) link_local: Option<IpAddr>,
    /// Destinations on the link.
    pub(crate) others: Vec<Prefix>,
    /// Destinations behind forwarding nodes, with the addresses of these nodes.
    pub(crate) beyond: Vec<(Prefix, IpAddr)>,
    /// Destinations that are unreachable until further devices have routes to them.
    pub(crate) behind: Vec<Prefix>,
    /// Ethernet address of a device on an Ethernet, and the known addresses of other stations, which may have more.
    pub(crate) ethernet: Option<(Mac, Vec<(IpAddr, Mac)>)>,
    /// True if the namespace has other devices, whose addresses must not be used again.
    pub(crate) shared: bool,
}

impl Device {
    /// Creates the device in a namespace, with addresses and routes, and brings it up.
    pub(crate) fn new(namespace: &Namespace, setup: &Setup) -> Result<Self, HostError> {
        namespace.within(|| {
            let mut has_ipv6 = has_ipv6();
            if setup.shared {
                let own = setup.addresses.iter().map(|a| Prefix { address: *a, length: full(a) });
                let others = setup.others.iter().chain(setup.beyond.iter().map(|(prefix, _)| prefix));
                let (v4, v6): (Vec<_>, Vec<_>) = own.chain(others.copied()).partition(|p| p.address.is_ipv4());
                if let Some((address, by)) = taken(&v4)? {
                    return Err(HostError::Taken { address, by });
                }
                // A node works without IPv6, too.
                has_ipv6 &= taken(&v6)?.is_none();
            }
            let name = setup.name.clone();
            let (layer, number) = match setup.ethernet {
                Some(_) => (DeviceLayer::Ethernet, tun_rs::Layer::L2),
                None => (DeviceLayer::Ip, tun_rs::Layer::L3),
            };
            // One read gets many segments of a TCP connection; `receive` divides them as the kernel would.
            let device = DeviceBuilder::new().name(&name).layer(number).offload(true).enable(false);
            let device = device
                .build_sync()
                .map_err(HostError::io(Operation::Tun(format!("create the TUN device `{name}`"))))?;
            let name = device
                .name()
                .map_err(HostError::io(Operation::Tun(format!("read the name of the TUN device `{name}`"))))?;
            device
                .set_nonblocking(true)
                .map_err(HostError::io(Operation::Tun(format!("configure the TUN device `{name}`"))))?;
            // There is no router here. If the device has no IPv6, the kernel must not probe its own address, either.
            // Ignore the error: a kernel without IPv6 has no such files.
            let (key, value) = if has_ipv6 { ("router_solicitations", "0") } else { ("disable_ipv6", "1") };
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/{key}"), value);
            ip(&commands(&name, setup, has_ipv6))?;
            let longest = setup.mtu.into();
            Ok(Device { kind: DeviceKind::Ours(TunDevice { device, layer, longest, oversized: Cell::new(0) }), name })
        })?
    }

    /// Creates a TUN device in a namespace whose kernel has the addresses `own` there and routes to `others` over it.
    /// The kernel replaces `%d` in the name by the lowest free number.
    ///
    /// # Errors
    /// Returns an error if the permission or `ip` is missing, or if an address is in use.
    pub fn tun(
        namespace: &Namespace,
        name: &str,
        mtu: u16,
        own: &[IpAddr],
        others: &[Prefix],
    ) -> Result<Self, HostError> {
        let (addresses, others) = (own.to_vec(), others.to_vec());
        Device::new(namespace, &Setup { name: name.into(), mtu, addresses, others, shared: true, ..Setup::default() })
    }

    /// Opens a netfilter queue of a namespace. Packets of the queue are IP datagrams.
    ///
    /// # Errors
    /// Returns an error if another program reads the queue, or if the permission is missing.
    pub fn queue(namespace: &Namespace, number: u16) -> Result<Self, HostError> {
        let queue = NfQueue::open(namespace, number)?;
        Ok(Device { kind: DeviceKind::Queue(queue), name: format!("queue {number}") })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Attaches a packet socket to an existing Ethernet device of a namespace, for frames with at most `mtu` bytes of
    /// payload. The machine itself should have no address there.
    ///
    /// # Errors
    /// Returns an error if the device is missing or unfit, or if the permission is missing.
    pub fn attach(namespace: &Namespace, name: &str, mtu: u16) -> Result<Self, HostError> {
        let attached = Attached::open(namespace, name, mtu)?;
        Ok(Device { kind: DeviceKind::Attached(attached), name: name.to_owned() })
    }

    /// Returns warnings about a device whose frames this machine also uses elsewhere.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let (answers, master) = match &self.kind {
            DeviceKind::Attached(attached) => (&attached.answers[..], attached.master.as_ref()),
            DeviceKind::Ours(_) | DeviceKind::Queue(_) => (&[][..], None),
        };
        let (name, addresses) = (&self.name, answers.iter().map(ToString::to_string).collect::<Vec<_>>());
        let answers = (!addresses.is_empty()).then(|| {
            let addresses = addresses.join(", ");
            format!(
                "`{name}` has the address {addresses}: this machine also answers there, past the emulated links; run \
                 `ip address flush dev {name}`"
            )
        });
        let belongs = master.map(|master| {
            format!(
                "`{name}` belongs to `{master}`, which also receives its frames, past the emulated links; run \
                 `ip link set dev {name} nomaster`"
            )
        });
        answers.into_iter().chain(belongs)
    }

    /// Passes the host's next datagram or frame to `each`, or all parts of joined ones. Returns false if there was
    /// nothing to read.
    pub(crate) fn receive(
        &self,
        buffer: &mut [u8],
        each: &mut dyn FnMut(&mut Datagram<&mut [u8]>) -> PacketVerdict,
    ) -> io::Result<bool> {
        match &self.kind {
            DeviceKind::Ours(tun) => tun.receive(buffer, each),
            DeviceKind::Attached(attached) => attached.receive(buffer, each),
            DeviceKind::Queue(queue) => queue.receive(buffer, each),
        }
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match &self.kind {
            DeviceKind::Queue(queue) => queue.send(bytes),
            _ => self.send_parts(&[IoSlice::new(&[0; HEADER]), IoSlice::new(bytes)]),
        }
    }

    /// Sends a datagram or frame in parts. The first part is its offloads, which only the kernel of a TUN or TAP device
    /// completes.
    pub(crate) fn send_parts(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        match &self.kind {
            DeviceKind::Ours(tun) => tun.device.send_vectored(parts).map(drop),
            DeviceKind::Attached(attached) => attached.send(parts),
            DeviceKind::Queue(queue) => {
                queue.send(&parts[1..].iter().flat_map(|part| part.iter().copied()).collect::<Vec<_>>())
            }
        }
    }

    /// Returns true if the device accepts joined segments.
    pub(crate) fn joins(&self) -> bool {
        matches!(self.kind, DeviceKind::Ours(_))
    }

    /// Returns the number of packets that the kernel dropped because the device's queue was full.
    pub(crate) fn dropped(&self, namespace: &Namespace) -> Option<u64> {
        match &self.kind {
            DeviceKind::Attached(attached) => return Some(attached.dropped()),
            DeviceKind::Queue(queue) => return Some(queue.overruns()),
            DeviceKind::Ours(_) => {}
        }
        let name = &self.name;
        namespace.within(|| transmit_drops(&fs::read_to_string("/proc/thread-self/net/dev").ok()?, name)).ok()?
    }

    pub(crate) fn oversized(&self) -> u64 {
        match &self.kind {
            DeviceKind::Ours(tun) => tun.oversized.get(),
            DeviceKind::Queue(_) => 0,
            DeviceKind::Attached(attached) => attached.oversized(),
        }
    }
}

impl TunDevice {
    fn receive(
        &self,
        buffer: &mut [u8],
        each: &mut dyn FnMut(&mut Datagram<&mut [u8]>) -> PacketVerdict,
    ) -> io::Result<bool> {
        let length = match self.device.recv(buffer) {
            Ok(length) => length,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e),
        };
        let Some((header, packet)) = buffer[..length].split_first_chunk_mut() else { return Ok(true) };
        let lost = PendingOffloads::read(header).finish((packet, self.layer), self.longest, each);
        self.oversized.set(self.oversized.get() + lost);
        Ok(true)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            DeviceKind::Ours(tun) => tun.device.as_fd(),
            DeviceKind::Attached(attached) => attached.as_fd(),
            DeviceKind::Queue(queue) => queue.as_fd(),
        }
    }
}

/// Returns the commands for `ip`, which suppress packets that no program requested: router solicitations, neighbor
/// requests for nodes, and multicast reports (except on an Ethernet, which carries multicast).
fn commands(name: &str, setup: &Setup, has_ipv6: bool) -> Vec<String> {
    let Setup { mtu, addresses, link_local, others, beyond, behind, ethernet, .. } = setup;
    let has_ipv6 = has_ipv6 && *mtu >= MIN_MTU_V6;
    let speaks = |a: &&IpAddr| a.is_ipv4() || has_ipv6;
    let speak = |p: &&Prefix| speaks(&&p.address);
    let own = match ethernet {
        Some((mac, _)) => format!("address {}", address_text(*mac)),
        None => "multicast off".into(),
    };
    let mut all = vec![format!("link set dev {name} mtu {mtu} txqueuelen {QUEUE} {own}")];
    if has_ipv6 {
        all.push(format!("link set dev {name} addrgenmode none"));
    }
    for a in addresses.iter().filter(speaks) {
        let no_detection = if a.is_ipv6() { " nodad" } else { "" };
        all.push(format!("address add {a}/{} dev {name}{no_detection}", full(a)));
    }
    for a in link_local.iter().filter(speaks) {
        all.push(format!("address add {a}/64 dev {name} nodad"));
    }
    all.push(format!("link set dev {name} up"));
    let others = others.iter().map(|other| (other, None));
    let beyond = beyond.iter().map(|(other, through)| (other, Some(through).filter(|_| ethernet.is_some())));
    for (other, through) in others.chain(beyond).filter(|(other, _)| speak(other)) {
        let own = addresses.iter().find(|own| own.is_ipv4() == other.address.is_ipv4());
        let source = own.map_or_else(String::new, |own| format!(" src {own}"));
        // On an Ethernet, hosts behind a node have no Ethernet address; use the address of the node, which forwards.
        let through = through.map_or_else(String::new, |node| format!(" via {node} onlink"));
        all.push(format!("route add {other}{through} dev {name}{source}"));
    }
    for nobody in behind.iter().filter(speak) {
        all.push(format!("route add unreachable {nobody} proto {PROTOCOL}"));
    }
    let neighbors = ethernet.iter().flat_map(|(_, neighbors)| neighbors).filter(|(a, _)| speaks(&a));
    all.extend(
        neighbors.map(|(a, mac)| format!("neigh add {a} lladdr {} dev {name} nud permanent", address_text(*mac))),
    );
    all
}

/// Returns true if new devices in this thread's namespace get IPv6.
fn has_ipv6() -> bool {
    fs::read_to_string("/proc/sys/net/ipv6/conf/default/disable_ipv6").is_ok_and(|disabled| disabled.trim() == "0")
}

/// Returns the number of packets that a device in /proc/net/dev dropped on transmission. The column follows the eight
/// columns of the receiving direction and three others.
fn transmit_drops(table: &str, name: &str) -> Option<u64> {
    let columns = table.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'))?;
    columns.split_whitespace().nth(11)?.parse().ok()
}

/// Returns the name of a link's device, in a form that Linux allows. The kernel appends the lowest free number.
pub(crate) fn name_at(link: &str) -> String {
    let plain: String = link.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = if plain.is_empty() { "link" } else { &plain };
    format!("{}%d", &plain[..plain.len().min(MAX_NAME_LEN - 2)])
}

/// Queue length of a device, packets: 60 ms of traffic at 1 Gbit/s.
const QUEUE: u32 = 5000;
/// Smallest MTU with IPv6 (RFC 8200 section 5): below it, the kernel has no IPv6 at a device.
const MIN_MTU_V6: u16 = 1280;
/// Longest name of a device: IFNAMSIZ without the terminating zero.
const MAX_NAME_LEN: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_derive_from_link_names() {
        assert_eq!(name_at("plc"), "plc%d");
        assert_eq!(name_at("the very long link of a name"), "theverylongli%d");
        assert_eq!(name_at("Öl/.."), "l%d");
        assert_eq!(name_at("—"), "link%d");
    }

    #[test]
    fn drops_are_read_from_the_transmit_column() {
        let table = "Inter-|   Receive                  |  Transmit\n face |bytes packets errs drop fifo frame \
                     compressed multicast|bytes packets errs drop fifo colls carrier compressed\n   \
                     plc0:  1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        assert_eq!(transmit_drops(table, "plc0"), Some(12));
        assert_eq!(transmit_drops(table, "plc"), None);
    }

    /// An address that is in use leaves a device without IPv6; its kernel must send nothing over IPv6 then.
    #[test]
    fn device_without_ipv6_sends_no_ipv6() {
        let made = Namespace::new().and_then(|namespace| {
            namespace.within(|| ip(&["link set lo up".into(), "route add fd00::/64 dev lo".into()]))??;
            let addresses = ["10.0.0.1", "fd00::1"].map(|a| a.parse().unwrap()).to_vec();
            let setup = Setup { name: "quiet%d".into(), mtu: 1500, addresses, shared: true, ..Setup::default() };
            Device::new(&namespace, &setup).map(|device| (namespace, device))
        });
        let (namespace, device) = match made {
            Ok(made) => made,
            Err(e) => return eprintln!("skipped: {}", e.with_cause()),
        };
        let file = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", device.name);
        assert_eq!(namespace.within(|| fs::read_to_string(file)).unwrap().unwrap().trim(), "1");
    }

    #[test]
    fn small_links_have_no_ipv6() {
        let addresses = ["10.0.0.1", "fd00::1"].map(|a| a.parse().unwrap()).to_vec();
        let others = ["10.0.0.2", "fd00::2"].map(|a| a.parse().unwrap());
        let others = others.map(|a| Prefix { address: a, length: full(&a) }).to_vec();
        let link_local = "fe80::1".parse().ok();
        let setup = Setup { mtu: 1279, addresses, link_local, others, ..Setup::default() };
        let speaks_ipv6 = |line: &String| ["fd00", "fe80", "addrgenmode"].iter().any(|word| line.contains(word));
        assert!(!commands("plc0", &setup, true).iter().any(speaks_ipv6));
        let all = commands("plc0", &Setup { mtu: 1280, ..setup.clone() }, true);
        assert!(all.contains(&"route add fd00::2/128 dev plc0 src fd00::1".into()), "{all:?}");
        assert!(all.contains(&"address add fd00::1/128 dev plc0 nodad".into()), "{all:?}");
        assert!(all.contains(&"address add fe80::1/64 dev plc0 nodad".into()), "{all:?}");
        let beyond = vec![(Prefix { address: "::".parse().unwrap(), length: 0 }, "fd00::2".parse().unwrap())];
        let farther = Setup { mtu: 1280, beyond, ..setup.clone() };
        let all = commands("plc0", &farther, true);
        assert!(all.contains(&"route add ::/0 dev plc0 src fd00::1".into()), "{all:?}");
        let ethernet = Some(([2, 0, 0, 0, 0, 1], Vec::new()));
        let all = commands("plc0", &Setup { ethernet, ..farther }, true);
        assert!(all.contains(&"route add ::/0 via fd00::2 onlink dev plc0 src fd00::1".into()), "{all:?}");
        assert!(commands("plc0", &Setup { mtu: 1500, ..setup }, false).iter().all(|line| !line.contains("fd00")));
    }
}
