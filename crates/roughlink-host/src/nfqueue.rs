//! Netfilter queue: packets that a rule sends to this program (`iptables -j NFQUEUE --queue-num N`), which decides
//! about each. The kernel completes checksums and divides joined packets before it queues them. The messages are those
//! of linux/netfilter/nfnetlink_queue.h; no well-kept library offers the descriptor of a queue, which the loop waits
//! for.
//!
//! The queue fails open: while it is full, the kernel forwards packets without asking. If the program ends, a rule with
//! `--queue-bypass` does the same. Packets that this device sends itself have the mark [`MARK`], so that a rule can
//! exclude them (`-m mark ! --mark 0x726c`).

use crate::error::{HostError, Operation};
use crate::namespace::Namespace;
use crate::netlink::{self, ATTRIBUTE_HEADER, MESSAGE_HEADER};
use crate::verdict::PacketVerdict;
use nix::errno::Errno;
use nix::sys::socket::sockopt::{Mark, RcvBufForce};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, SockaddrStorage, bind, recv, send, sendto,
    setsockopt, socket,
};
use roughlink_core::wire::Datagram;
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

pub(crate) struct NfQueue {
    netlink: OwnedFd,
    number: u16,
    /// Raw sockets for IPv4 and IPv6, which send whole datagrams (`IPPROTO_RAW`, raw(7)).
    raw: [OwnedFd; 2],
    /// Number of times that the kernel had more messages than the socket's buffer holds.
    overruns: Cell<u64>,
}

impl NfQueue {
    /// Opens queue `number` of a namespace.
    pub(crate) fn open(namespace: &Namespace, number: u16) -> Result<Self, HostError> {
        let refused = || HostError::errno(Operation::NetfilterQueue(number));
        let open = || -> Result<NfQueue, Errno> {
            let flags = SockFlag::SOCK_CLOEXEC;
            let netlink = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkNetFilter)?;
            bind(netlink.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
            // Without the capability for it the socket keeps the usual buffer size.
            let _ = setsockopt(&netlink, RcvBufForce, &BUFFER);
            let commands: [&[(u16, &[u8])]; 4] = [
                &[(CFG_CMD, &[CMD_BIND, 0, 0, 0])],
                &[(CFG_QUEUE_LENGTH, &LENGTH.to_be_bytes())],
                &[(CFG_PARAMS, &[0, 0, 0xff, 0xff, COPY_PACKET])],
                &[(CFG_MASK, &FAIL_OPEN.to_be_bytes()), (CFG_FLAGS, &FAIL_OPEN.to_be_bytes())],
            ];
            for attributes in commands {
                send(netlink.as_raw_fd(), &message(CONFIG, ACK, number, attributes), MsgFlags::empty())?;
                let mut answer = [0; 1024];
                let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
                acknowledged(&answer[..length])?;
            }
            let raw = |family| {
                let socket = socket(family, SockType::Raw, flags | SockFlag::SOCK_NONBLOCK, SockProtocol::Raw)?;
                setsockopt(&socket, Mark, &MARK)?;
                Ok(socket)
            };
            let raw = [raw(AddressFamily::Inet)?, raw(AddressFamily::Inet6)?];
            Ok(NfQueue { netlink, number, raw, overruns: Cell::new(0) })
        };
        namespace.within(open)?.map_err(refused())
    }

    /// Passes the next packet to `each` and tells the kernel the verdict. Returns false if there was no packet.
    pub(crate) fn receive(
        &self,
        buffer: &mut [u8],
        each: &mut dyn FnMut(&mut Datagram<&mut [u8]>) -> PacketVerdict,
    ) -> io::Result<bool> {
        let length = match recv(self.netlink.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
            Ok(length) => length,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(false),
            Err(Errno::ENOBUFS) => {
                self.overruns.set(self.overruns.get() + 1);
                return Ok(true);
            }
            Err(e) => return Err(e.into()),
        };
        let Some(packet) = QueuedPacket::read(&buffer[..length]) else { return Ok(true) };
        let mut datagram = Datagram::from_ip(&mut buffer[packet.payload]);
        let verdict = each(&mut datagram);
        let number =
            if matches!(verdict, PacketVerdict::Accept | PacketVerdict::Replaced) { NF_ACCEPT } else { NF_DROP };
        let header = [number.to_be_bytes(), packet.id.to_be_bytes()].concat();
        let replaced = (PAYLOAD, datagram.bytes());
        let attributes = [(VERDICT_HEADER, &header[..]), replaced];
        let attributes = if verdict == PacketVerdict::Replaced { &attributes[..] } else { &attributes[..1] };
        send(self.netlink.as_raw_fd(), &message(VERDICT, 0, self.number, attributes), MsgFlags::empty())?;
        Ok(true)
    }

    /// Sends an IP datagram by the routes of the namespace.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let envelope = *Datagram::from_ip(bytes).envelope().map_err(io::Error::other)?;
        let [_, to] = envelope.pair.addresses();
        let raw = &self.raw[usize::from(to.is_ipv6())];
        let to = SockaddrStorage::from(SocketAddr::new(to, 0));
        sendto(raw.as_raw_fd(), bytes, &to, MsgFlags::empty()).map(drop).map_err(io::Error::from)
    }

    /// Returns the number of times that packets were forwarded because the program read too late.
    pub(crate) fn overruns(&self) -> u64 {
        self.overruns.get()
    }
}

impl AsFd for NfQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }
}

struct QueuedPacket {
    id: u32,
    /// Range of the IP datagram in the message.
    payload: Range<usize>,
}

impl QueuedPacket {
    /// Reads a message of the kernel; `None` for messages of other types.
    fn read(message: &[u8]) -> Option<Self> {
        let (kind, body, _) = netlink::message(message)?;
        let end = MESSAGE_HEADER + body.len();
        let mut attributes = body.get(NFGEN_HEADER..).filter(|_| kind == SUBSYSTEM | PACKET)?;
        let (mut id, mut payload) = (None, None);
        while let Some((kind, value, next)) = netlink::attribute(attributes) {
            match kind {
                PACKET_HEADER => id = Some(u32::from_be_bytes(*value.first_chunk()?)),
                PAYLOAD => {
                    let start = end - attributes.len() + ATTRIBUTE_HEADER;
                    payload = Some(start..start + value.len());
                }
                _ => {}
            }
            attributes = next;
        }
        Some(QueuedPacket { id: id?, payload: payload? })
    }
}

/// Returns the message of a type for a queue, with these attributes.
fn message(kind: u16, flags: u16, queue: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend((SUBSYSTEM | kind).to_ne_bytes());
    out.extend((REQUEST | flags).to_ne_bytes());
    out.extend([0; 8 + 2]); // sequence number, port, family and version
    out.extend(queue.to_be_bytes());
    for (kind, body) in attributes {
        out.extend((4 + body.len() as u16).to_ne_bytes());
        out.extend(kind.to_ne_bytes());
        out.extend_from_slice(body);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    let length = (out.len() as u32).to_ne_bytes();
    out[..4].copy_from_slice(&length);
    out
}

/// Reads the kernel's answer to a command.
fn acknowledged(answer: &[u8]) -> Result<(), Errno> {
    let code = answer.get(MESSAGE_HEADER..).and_then(<[u8]>::first_chunk).map(|code| i32::from_ne_bytes(*code));
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(Errno::from_raw(-code)),
        None => Err(Errno::EBADMSG),
    }
}

/// Mark of packets that this device sends: "rl".
pub(crate) const MARK: u32 = 0x726c;

/// Largest number of packets in the kernel's queue, and size of the socket's buffer, bytes: 60 ms of traffic at 1
/// Gbit/s. Further packets pass unseen and overtake others.
const LENGTH: u32 = 5000;
const BUFFER: usize = 16 << 20;

const NFGEN_HEADER: usize = 4;
const REQUEST: u16 = 1;
const ACK: u16 = 4;
/// NFNL_SUBSYS_QUEUE in the high byte of a message's type.
const SUBSYSTEM: u16 = 3 << 8;
const PACKET: u16 = 0;
const VERDICT: u16 = 1;
const CONFIG: u16 = 2;
const CFG_CMD: u16 = 1;
const CFG_PARAMS: u16 = 2;
const CFG_QUEUE_LENGTH: u16 = 3;
const CFG_MASK: u16 = 4;
const CFG_FLAGS: u16 = 5;
const CMD_BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const FAIL_OPEN: u32 = 1;
const PACKET_HEADER: u16 = 1;
const VERDICT_HEADER: u16 = 2;
const PAYLOAD: u16 = 10;
const NF_DROP: u32 = 0;
const NF_ACCEPT: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_from_messages() {
        let attributes: [(u16, &[u8]); 3] =
            [(PACKET_HEADER, &[0, 0, 1, 2, 8, 0, 1]), (13, &[9; 4]), (PAYLOAD, &[0x45, 1, 2, 3, 4])];
        let whole = message(PACKET, 0, 7, &attributes);
        let packet = QueuedPacket::read(&whole).unwrap();
        assert_eq!((packet.id, &whole[packet.payload]), (0x102, &[0x45, 1, 2, 3, 4][..]));
        assert!(QueuedPacket::read(&message(VERDICT, 0, 7, &attributes)).is_none());
        for n in 0..whole.len() {
            assert!(QueuedPacket::read(&whole[..n]).is_none(), "{n}");
        }
        let mut short = whole;
        short[20..22].copy_from_slice(&0_u16.to_ne_bytes()); // an attribute without a length
        assert!(QueuedPacket::read(&short).is_none());
    }

    #[test]
    fn errors_of_the_kernel_are_reported() {
        let answer = |code: i32| [&[0; MESSAGE_HEADER][..], &code.to_ne_bytes()].concat();
        assert_eq!(acknowledged(&answer(0)), Ok(()));
        assert_eq!(acknowledged(&answer(-1)), Err(Errno::EPERM));
        assert_eq!(acknowledged(&[0; 10]), Err(Errno::EBADMSG));
    }
}
