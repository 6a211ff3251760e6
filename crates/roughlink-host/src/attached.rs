//! A network device that is already there, attached to a node: its frames are taken and sent through a packet socket, packet(7).
//!
//! Everything hangs on the socket, promiscuous reception too, and ends with it. The device keeps its addresses, and the machine's own network stack
//! still sees what comes in: [`Attached::answers`] are the addresses with which it would answer.
//!
//! What comes in is made what it was on the cable: a VLAN tag that the kernel has taken out is put in again, and [`offload`](crate::offload) does the rest.

use crate::error::{HostError, Unfit};
use crate::ip::ip_prints;
use crate::namespace::Namespace;
use crate::offload::{HEADER, Undone};
use crate::socket_option::{be_promiscuous, ignore_outgoing, tell_of_offloads, tell_of_tags};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::libc::{ARPHRD_ETHER, TP_STATUS_VLAN_VALID};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::sockopt::{RcvBufForce, RxqOvfl};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, bind, recvmsg, setsockopt, socket,
};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

/// An attached device.
pub(crate) struct Attached {
    socket: File,
    /// Bytes of the longest packet that passes.
    longest: usize,
    dropped: Cell<u64>,
    oversized: Cell<u64>,
    /// Addresses of the machine at the device.
    pub(crate) answers: Vec<IpAddr>,
    /// Bridge, bond or VRF that the device belongs to.
    pub(crate) master: Option<String>,
}

impl Attached {
    /// Attaches the device `name` of a namespace, for packets of `mtu` bytes at most.
    pub(crate) fn open(namespace: &Namespace, name: &str, mtu: u16) -> Result<Self, HostError> {
        namespace.within(|| {
            let all: Vec<InterfaceAddress> =
                getifaddrs().map_err(HostError::errno("list the network devices"))?.collect();
            let own = || all.iter().filter(|entry| entry.interface_name == name);
            let unfit = |why, help| HostError::Unfit { name: name.to_owned(), reason: Unfit(why, help) };
            let (flags, link) = own()
                .find_map(|entry| Some((entry.flags, *entry.address.as_ref()?.as_link_addr()?)))
                .ok_or_else(|| {
                let there: BTreeSet<_> = all.iter().map(|entry| entry.interface_name.clone()).collect();
                HostError::NoInterface { name: name.to_owned(), there: there.into_iter().collect() }
            })?;
            if link.hatype() != ARPHRD_ETHER {
                return Err(unfit("is no Ethernet", "only devices with Ethernet frames can be attached"));
            }
            if !flags.contains(InterfaceFlags::IFF_UP) {
                return Err(unfit("is down", "ip link set up dev DEVICE"));
            }
            let refused = || HostError::errno(format!("attach a packet socket to {name}"));
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll).map_err(refused())?;
            let set = || {
                ignore_outgoing(socket.as_fd())?;
                tell_of_tags(socket.as_fd())?;
                tell_of_offloads(socket.as_fd())?;
                setsockopt(&socket, RxqOvfl, &1)?;
                // Without the right to it the socket has the usual space.
                let _ = setsockopt(&socket, RcvBufForce, &WAITING);
                // The address has no protocol: that of the socket remains.
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
            // What came before the socket was bound is from other devices.
            let mut buffer = vec![0; usize::from(u16::MAX)];
            while attached.receive(&mut buffer, &mut |_| ()).map_err(HostError::of(format!("read from {name}")))? {}
            attached.oversized.set(0);
            Ok(attached)
        })?
    }

    /// Gives `each` the frames of the next read; returns whether there was one.
    pub(crate) fn receive(&self, buffer: &mut [u8], each: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        let mut header = [0; HEADER];
        // The frame begins where there is room for a tag before it.
        let (length, tag) = {
            let mut control = cmsg_space!([u8; AUXDATA], u32);
            let (_, room) = buffer.split_at_mut(TAG);
            let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(room)];
            let message =
                recvmsg::<()>(self.socket.as_raw_fd(), &mut parts, Some(&mut control[..]), MsgFlags::MSG_DONTWAIT);
            let message = match message {
                Ok(message) => message,
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok(false),
                // An offload for which the header has no word: SCTP's, and UDP's before Linux 6.2. The kernel has dropped the frame.
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
        let undone = Undone::read(&header);
        let (frame, undone) = match tag.filter(|_| length >= ADDRESSES) {
            Some(tag) => {
                buffer.copy_within(TAG..TAG + ADDRESSES, 0);
                buffer[ADDRESSES..ADDRESSES + TAG].copy_from_slice(&tag);
                (&mut buffer[..TAG + length], undone.tagged())
            }
            None => (&mut buffer[TAG..TAG + length], undone),
        };
        self.oversized.set(self.oversized.get() + undone.finish(frame, self.longest, each));
        Ok(true)
    }

    /// Sends a frame by the device.
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        // Nothing is left to the card.
        let nothing = [0; HEADER];
        (&self.socket).write_vectored(&[IoSlice::new(&nothing), IoSlice::new(frame)]).map(drop)
    }

    /// Frames that the kernel dropped because the socket was full, as of the last that it did not.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    /// Frames that were longer than the MTU.
    pub(crate) fn oversized(&self) -> u64 {
        self.oversized.get()
    }
}

impl AsFd for Attached {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// An address at which the machine answers, other than that of the link alone.
fn address(entry: &InterfaceAddress) -> Option<IpAddr> {
    let address = entry.address.as_ref()?;
    match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(v4), _) => Some(v4.ip().into()),
        (None, Some(v6)) => Some(v6.ip()).filter(|ip| !ip.is_unicast_link_local()).map(IpAddr::V6),
        (None, None) => None,
    }
}

/// Returns the bridge, bond or VRF that a device belongs to.
fn master(name: &str) -> Option<String> {
    let text = ip_prints(&["-o", "link", "show", "dev", name]).ok()?;
    text.split_whitespace().skip_while(|word| *word != "master").nth(1).map(str::to_owned)
}

/// The VLAN tag that `tpacket_auxdata` (linux/if_packet.h) has, as it is in a frame.
fn tag_of(auxiliary: &[u8]) -> Option<[u8; TAG]> {
    let status = u32::from_ne_bytes(*auxiliary.first_chunk()?);
    let word = |at: usize| Some(u16::from_ne_bytes(*auxiliary.get(at..)?.first_chunk()?).to_be_bytes());
    let ([a, b], [c, d]) = (word(18)?, word(16)?);
    (status & TP_STATUS_VLAN_VALID != 0).then_some([a, b, c, d])
}

/// Bytes of `tpacket_auxdata`.
const AUXDATA: usize = 20;
/// Bytes of a VLAN tag, and of the addresses before it.
const TAG: usize = 4;
const ADDRESSES: usize = 12;
/// Bytes that may wait in the socket: as much as 1 Gbit/s brings in 60 ms, and what the kernel needs beside it.
const WAITING: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found() {
        let mut auxiliary = [0; AUXDATA];
        auxiliary[16..18].copy_from_slice(&0x2005_u16.to_ne_bytes());
        auxiliary[18..20].copy_from_slice(&0x8100_u16.to_ne_bytes());
        assert_eq!(tag_of(&auxiliary), None);
        auxiliary[..4].copy_from_slice(&TP_STATUS_VLAN_VALID.to_ne_bytes());
        assert_eq!(tag_of(&auxiliary), Some([0x81, 0, 0x20, 5]));
        assert_eq!(tag_of(&auxiliary[..10]), None);
    }
}
