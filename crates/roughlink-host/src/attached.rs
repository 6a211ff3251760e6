//! Existing network devices attached to nodes: a packet socket, packet(7), receives and sends their frames. The socket
//! holds all state, including promiscuous mode, until it is closed. The device keeps its addresses, and the machine's
//! own network stack still receives incoming frames; [`Attached::answers`] lists the addresses at which it would
//! answer. Incoming frames get the form that they had on the cable: this module restores a VLAN tag that the kernel has
//! removed, and [`offload`](crate::offload) does the rest.

use crate::error::{HostError, Operation, UnfitReason};
use crate::ip::ip_json;
use crate::namespace::Namespace;
use crate::offload::{DeviceLayer, HEADER, PendingOffloads};
use crate::socket_option::{be_promiscuous, enable_auxdata, enable_vnet_header, ignore_outgoing};
use crate::verdict::PacketVerdict;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::libc::{ARPHRD_ETHER, TP_STATUS_VLAN_VALID};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::sockopt::{RcvBufForce, RxqOvfl};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, bind, recvmsg, setsockopt, socket,
};
use roughlink_core::wire::Datagram;
use serde::Deserialize;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

pub(crate) struct Attached {
    socket: File,
    /// Size of the largest packet that passes, bytes.
    longest: usize,
    dropped: Cell<u64>,
    oversized: Cell<u64>,
    /// Addresses of this machine at the device.
    pub(crate) answers: Vec<IpAddr>,
    /// Bridge, bond or VRF that the device belongs to.
    pub(crate) master: Option<String>,
}

impl Attached {
    /// Attaches the device `name` of a namespace, for packets of at most `mtu` bytes.
    pub(crate) fn open(namespace: &Namespace, name: &str, mtu: u16) -> Result<Self, HostError> {
        namespace.within(|| {
            let all: Vec<InterfaceAddress> =
                getifaddrs().map_err(HostError::errno("list the network devices"))?.collect();
            let own = || all.iter().filter(|entry| entry.interface_name == name);
            let unfit = |why, help| HostError::Unfit { name: name.to_owned(), reason: UnfitReason(why, help) };
            let (flags, link) = own()
                .find_map(|entry| Some((entry.flags, *entry.address.as_ref()?.as_link_addr()?)))
                .ok_or_else(|| {
                let there: BTreeSet<_> = all.iter().map(|entry| entry.interface_name.clone()).collect();
                HostError::NoInterface { name: name.to_owned(), there: there.into_iter().collect() }
            })?;
            if link.hatype() != ARPHRD_ETHER {
                return Err(unfit("is not an Ethernet device", "attach a device with Ethernet frames"));
            }
            if !flags.contains(InterfaceFlags::IFF_UP) {
                return Err(unfit("is down", "run `ip link set up dev DEVICE`"));
            }
            let refused = || HostError::errno(Operation::PacketSocket(name.to_owned()));
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll).map_err(refused())?;
            let set = || {
                ignore_outgoing(socket.as_fd())?;
                enable_auxdata(socket.as_fd())?;
                enable_vnet_header(socket.as_fd())?;
                setsockopt(&socket, RxqOvfl, &1)?;
                // Without the capability for it the socket keeps the usual buffer size.
                let _ = setsockopt(&socket, RcvBufForce, &WAITING);
                // The address names no protocol, so the socket keeps the one that it was created with.
                bind(socket.as_raw_fd(), &link)?;
                be_promiscuous(socket.as_fd(), link.ifindex())
            };
            set().map_err(refused())?;
            let attached = Attached {
                socket: File::from(socket),
                longest: mtu.into(),
                dropped: Cell::new(0),
                oversized: Cell::new(0),
                answers: own().filter_map(address).collect(),
                master: master(name),
            };
            // Frames received before the socket was bound are from other devices.
            let mut buffer = vec![0; usize::from(u16::MAX)];
            while attached
                .receive(&mut buffer, &mut |_| PacketVerdict::Drop)
                .map_err(HostError::io(format!("read from `{name}`")))?
            {}
            attached.oversized.set(0);
            Ok(attached)
        })?
    }

    /// Passes the frames of the next read to `each`. Returns false if there was nothing to read.
    pub(crate) fn receive(
        &self,
        buffer: &mut [u8],
        each: &mut dyn FnMut(&mut Datagram<&mut [u8]>) -> PacketVerdict,
    ) -> io::Result<bool> {
        let mut header = [0; HEADER];
        // Leave room for a tag before the frame.
        let (length, tag) = {
            let mut control = cmsg_space!([u8; AUXDATA], u32);
            let (_, room) = buffer.split_at_mut(TAG);
            let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(room)];
            let message =
                recvmsg::<()>(self.socket.as_raw_fd(), &mut parts, Some(&mut control[..]), MsgFlags::MSG_DONTWAIT);
            let message = match message {
                Ok(message) => message,
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok(false),
                // The kernel dropped a frame whose offload the header lacks: SCTP's, and UDP's before Linux 6.2.
                Err(Errno::EINVAL) => {
                    self.oversized.set(self.oversized.get() + 1);
                    return Ok(true);
                }
                Err(e) => return Err(e.into()),
            };
            let mut tag = None;
            for part in message.cmsgs().into_iter().flatten() {
                match part {
                    ControlMessageOwned::RxqOvfl(dropped) => self.dropped.set(dropped.into()),
                    ControlMessageOwned::Unknown(auxiliary) => tag = tag_of(&auxiliary.data_bytes),
                    _ => {}
                }
            }
            (message.bytes.saturating_sub(HEADER), tag)
        };
        let undone = PendingOffloads::read(&header);
        let (frame, undone) = match tag.filter(|_| length >= ADDRESSES) {
            Some(tag) => {
                buffer.copy_within(TAG..TAG + ADDRESSES, 0);
                buffer[ADDRESSES..ADDRESSES + TAG].copy_from_slice(&tag);
                (&mut buffer[..TAG + length], undone.tagged())
            }
            None => (&mut buffer[TAG..TAG + length], undone),
        };
        self.oversized.set(self.oversized.get() + undone.finish((frame, DeviceLayer::Ethernet), self.longest, each));
        Ok(true)
    }

    /// Sends a frame in parts, offloads first.
    pub(crate) fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        (&self.socket).write_vectored(parts).map(drop)
    }

    /// Returns how many frames were dropped because the socket's buffer was full, as of the last received frame.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    pub(crate) fn oversized(&self) -> u64 {
        self.oversized.get()
    }
}

impl AsFd for Attached {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns an address at which the machine answers, except link-local ones.
fn address(entry: &InterfaceAddress) -> Option<IpAddr> {
    let address = entry.address.as_ref()?;
    match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(v4), _) => Some(v4.ip().into()),
        (None, Some(v6)) => Some(v6.ip()).filter(|ip| !ip.is_unicast_link_local()).map(IpAddr::V6),
        (None, None) => None,
    }
}

fn master(name: &str) -> Option<String> {
    listed(name)?.master
}

/// Returns the MTU of a device in the namespace of the calling thread, bytes.
pub(crate) fn mtu(name: &str) -> Option<u16> {
    listed(name)?.mtu.try_into().ok()
}

/// Device as `ip` lists it.
#[derive(Deserialize)]
struct ListedDevice {
    master: Option<String>,
    mtu: u32,
}

fn listed(name: &str) -> Option<ListedDevice> {
    ip_json(&["link", "show", "dev", name]).ok()?.pop()
}

/// Returns the VLAN tag of a `tpacket_auxdata` (linux/if_packet.h) in its form on the wire.
fn tag_of(auxiliary: &[u8]) -> Option<[u8; TAG]> {
    let status = u32::from_ne_bytes(*auxiliary.first_chunk()?);
    let word = |at: usize| Some(u16::from_ne_bytes(*auxiliary.get(at..)?.first_chunk()?).to_be_bytes());
    let ([a, b], [c, d]) = (word(18)?, word(16)?);
    (status & TP_STATUS_VLAN_VALID != 0).then_some([a, b, c, d])
}

/// Size of `tpacket_auxdata`, bytes.
const AUXDATA: usize = 20;
/// Sizes of a VLAN tag and of the addresses before it, bytes.
const TAG: usize = 4;
const ADDRESSES: usize = 12;
/// Size of the socket's receive buffer, bytes: 60 ms of traffic at 1 Gbit/s, with the kernel's overhead.
const WAITING: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vlan_tags_are_found() {
        let mut auxiliary = [0; AUXDATA];
        auxiliary[16..18].copy_from_slice(&0x2005_u16.to_ne_bytes());
        auxiliary[18..20].copy_from_slice(&0x8100_u16.to_ne_bytes());
        assert_eq!(tag_of(&auxiliary), None);
        auxiliary[..4].copy_from_slice(&TP_STATUS_VLAN_VALID.to_ne_bytes());
        assert_eq!(tag_of(&auxiliary), Some([0x81, 0, 0x20, 5]));
        assert_eq!(tag_of(&auxiliary[..10]), None);
    }
}
