//! Codec between [`Packet`] and real bytes: IPv4 or IPv6; TCP, UDP or SCTP; with checksums. All bytes that enter or
//! leave the simulator pass here: captures, TUN devices, gateways.
//!
//! [`Packet::size`] counts headers as roughlink writes them, with an IPv4 header unless the packet is marked as IPv6
//! ([`Packet::is_ipv6`]). A decoded packet is never marked. Between IPv6 addresses, an unmarked packet is 20 bytes
//! longer on the wire than its size (28 as a fragment). If a received datagram lays out its options differently, the
//! size is set so that [`Packet::payload`] is correct. [`Decoded::end`] is the length on the wire.
//!
//! A round trip loses fields that the headers do not carry:
//! - the flow, which the receiver looks up by address
//! - the identification of an unfragmented IPv6 datagram (0 when decoded)
//! - number and time of a UDP datagram, which travel as a [`UdpStamp`] in the payload
//!
//! [`Decoded::fields`] holds hop limit, flow label and DF, which [`encode_with`] writes again; [`encode`] writes the
//! defaults of simulated packets. The urgent pointer is written as 0 and ignored when read.
//!
//! ```
//! use roughlink_core::packet::{FlowId, Packet};
//! use roughlink_core::wire::{Addresses, IpPair, WireError, decode, encode};
//!
//! let ip = IpPair::V4 { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
//! let addresses = Addresses { ip, src_port: 40_000, dst_port: 7 };
//! let mut packet = Packet::tcp(FlowId::new(0, false));
//! packet.set_payload(9);
//! let mut bytes = Vec::new();
//! encode(&packet, None, &addresses, &b"a charger"[..], &mut bytes).unwrap();
//!
//! let decoded = decode(&bytes).unwrap();
//! assert_eq!((decoded.addresses, decoded.payload), (addresses, 40..49));
//! bytes[45] ^= 1;
//! assert_eq!(decode(&bytes), Err(WireError::Checksum("TCP")));
//! ```

pub mod checksum;
pub mod crc32c;
mod datagram;
pub mod ethernet;
pub mod homeplug;
pub(crate) mod icmp;
mod ip;
mod payload;
pub mod protocol;
mod reassembly;
mod sctp;
mod tcp;
mod udp;

pub use datagram::Datagram;
pub(crate) use datagram::Headers;
#[cfg(test)]
pub(crate) use ip::PARSES;
pub use ip::{IpFields, IpPair, set_ecn};
pub(crate) use ip::{is_unicast, set_ident};
pub use payload::{Implied, Payload, UdpStamp, pattern};
pub use reassembly::IpReassembly;
pub use tcp::TcpHeaderMut;

use crate::packet::{
    Cookie, FlowId, Fragment, Init, Packet, Protocol, SackBlock, SideContent, Sides, SynOptions, flags,
};
use crate::units::Time;
use ip::{Head, Ip};
use std::net::SocketAddr;
use std::ops::Range;

/// Addresses and ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Addresses {
    /// IP addresses.
    pub ip: IpPair,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

impl Addresses {
    /// Returns the addresses in the opposite direction.
    pub const fn reversed(self) -> Self {
        Addresses { ip: self.ip.reversed(), src_port: self.dst_port, dst_port: self.src_port }
    }
    /// Returns source and destination as socket addresses.
    pub fn sockets(&self) -> [SocketAddr; 2] {
        let [src, dst] = self.ip.addresses();
        [(src, self.src_port), (dst, self.dst_port)].map(SocketAddr::from)
    }
}

impl std::fmt::Display for Addresses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [from, to] = self.sockets();
        write!(f, "{from} > {to}")
    }
}

/// Reason why roughlink cannot decode bytes from the network as a datagram. Count these errors; do not report them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end within this part.
    #[error("the {0} is truncated")]
    Truncated(&'static str),
    /// Neither IPv4 nor IPv6.
    #[error("unsupported IP version {0}")]
    Version(u8),
    /// A frame that carries no IP.
    #[error("unsupported EtherType {0:#06x}")]
    EtherType(u16),
    /// A transport protocol or IPv6 extension header that roughlink does not support.
    #[error("unsupported IP protocol {0}")]
    Protocol(u8),
    /// An IPv6 routing header with segments left: the datagram has not reached its final destination yet.
    #[error("unsupported routing header with segments left")]
    Routed,
    /// The length field of this header contradicts the others.
    #[error("the length in the {0} is wrong")]
    Length(&'static str),
    /// A fragment that cannot be part of any datagram.
    #[error("invalid fragment")]
    Fragment,
    /// TCP options that exceed the header.
    #[error("TCP options exceed their header")]
    Options,
    /// An SCTP chunk that must be the only one of its packet, and is not.
    #[error("invalid bundle: this SCTP chunk must be the only one of its packet")]
    Bundle,
    /// Parameters that do not fit their SCTP chunk, or a foreign state cookie.
    #[error("invalid SCTP parameters")]
    Parameters,
    /// The payload is longer than [`Packet::size`] can express.
    #[error("the datagram exceeds 65535 bytes")]
    TooLong,
    /// The checksum of this part is wrong.
    #[error("the {0} checksum is wrong")]
    Checksum(&'static str),
}

/// Reason why a packet has no wire form.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// An SCTP chunk that is unknown, or that roughlink reads but never writes.
    #[error("unsupported SCTP chunk")]
    Chunk,
    /// Side data that do not match the packet, such as missing options of a SYN, SACK blocks or chunk content.
    #[error("the packet lacks the options, SACK blocks or chunk that it needs")]
    Side,
    /// More than 40 bytes of TCP options.
    #[error("TCP options exceed 40 bytes")]
    Options,
    /// Offset or size of the fragment cannot be written.
    #[error("invalid fragment")]
    Fragment,
    /// [`Packet::size`] does not agree with headers and payload.
    #[error("the size of the packet does not match its payload")]
    Size,
    /// The datagram exceeds 65535 bytes.
    #[error("the datagram exceeds 65535 bytes")]
    TooLong,
    /// The packet has an IPv6 header, but the addresses are IPv4.
    #[error("an IPv6 packet has IPv4 addresses")]
    Family,
}

/// A decoded datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decoded {
    /// Addresses and ports; ports are 0 in a fragment after the first.
    pub addresses: Addresses,
    /// Hop limit, flow label and DF.
    pub fields: IpFields,
    /// The packet, of flow 0 and without side slot: see [`Decoded::into_packet`]. A fragment after the first has only
    /// its protocol, size, offset, identification and traffic class.
    pub packet: Packet,
    /// SACK blocks, the options of a SYN, or the rest of an SCTP chunk.
    pub side: Option<SideContent>,
    /// Offset of the next SCTP chunk to process, if any: see [`Decoded::following`].
    pub next: Option<usize>,
    /// Offset of the transport header, or of the data of a later fragment.
    pub transport: usize,
    /// Range of the payload or carried content ([`Sides::carried`]); in a later fragment it may begin with TCP options.
    pub payload: Range<usize>,
    /// End of the IP datagram; bytes after it are padding of the link.
    pub end: usize,
    /// TCP-MD5 (RFC 2385) or TCP-AO (RFC 5925): the header is signed and must not be rewritten.
    pub signed: bool,
    /// Multipath TCP (RFC 8684): the window belongs to the whole connection.
    pub multipath: bool,
}

/// Appends the bytes of `packet`, a datagram or a fragment, to `out`; appends nothing on failure. For a fragment,
/// `payload` is that of the whole datagram. Every fragment keeps the option bits, which give the header length.
pub fn encode(
    packet: &Packet,
    side: Option<&SideContent>,
    addresses: &Addresses,
    payload: &(impl Payload + ?Sized),
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    encode_with(IpFields::default(), packet, side, addresses, payload, out)
}

/// Like [`encode`], with the hop limit, flow label and DF of `fields`.
pub fn encode_with(
    fields: IpFields,
    packet: &Packet,
    side: Option<&SideContent>,
    addresses: &Addresses,
    payload: &(impl Payload + ?Sized),
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let (protocol, header) = match packet.protocol() {
        Protocol::Tcp => (protocol::TCP, tcp::header_length(packet, side)?),
        Protocol::Udp => (protocol::UDP, udp::HEADER),
        Protocol::Sctp => (protocol::SCTP, sctp::header_length(packet, side)?),
    };
    let fragment = packet.fragment();
    let offset = match fragment {
        Fragment::Whole | Fragment::First => 0,
        Fragment::Middle | Fragment::Last => usize::from(u16::try_from(packet.ack).unwrap_or(u16::MAX)),
    };
    let padding = if protocol == protocol::SCTP { payload.bytes().wrapping_neg() & 3 } else { 0 };
    let whole = header + payload.bytes() + padding; // of the datagram, without IP header
    let here = packet.size.checked_sub(packet.ip_header_bytes()).map(usize::from).ok_or(EncodeError::Size)?;
    if packet.is_ipv6() && matches!(addresses.ip, IpPair::V4 { .. }) {
        return Err(EncodeError::Family);
    }
    if whole > addresses.ip.longest() {
        return Err(EncodeError::TooLong);
    }
    let fits = match fragment {
        Fragment::Whole => here == whole,
        Fragment::First => (header..=whole).contains(&here),
        Fragment::Middle => offset >= header && offset + here <= whole,
        Fragment::Last => offset >= header && offset + here == whole,
    };
    if !fits {
        return Err(EncodeError::Size);
    }
    let pair = addresses.ip;
    let class = packet.traffic_class();
    Head { pair, class, fields, protocol, ident: packet.ident, fragment, offset }.write(here, out)?;
    let start = out.len();
    if offset > 0 {
        out.resize(start + here, 0);
        let from = offset - header;
        let bytes = here.min(payload.bytes().saturating_sub(from)); // the rest is padding
        payload.fill(from, &mut out[start..start + bytes]);
        return Ok(());
    }
    // The first fragment's checksum covers the whole datagram: write the whole datagram, then truncate it.
    out.resize(start + whole, 0);
    let bytes = &mut out[start..];
    payload.fill(0, &mut bytes[header..header + payload.bytes()]);
    let ports = (addresses.src_port, addresses.dst_port);
    match packet.protocol() {
        Protocol::Tcp => tcp::write(packet, side, &pair, ports, header, bytes),
        Protocol::Udp => udp::write(&pair, ports, bytes),
        Protocol::Sctp => sctp::write(packet, side, ports, payload.bytes(), bytes),
    }
    out.truncate(start + here);
    Ok(())
}

/// Fields of an IP datagram that do not depend on the transport protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// Source and destination.
    pub pair: IpPair,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// IP protocol number of the content.
    pub protocol: u8,
    /// Set unless it is a fragment.
    pub whole: bool,
    /// Offset of the content.
    pub transport: usize,
    /// End of the datagram.
    pub end: usize,
}

impl Envelope {
    fn new(ip: &Ip) -> Self {
        Envelope {
            pair: ip.pair,
            traffic_class: ip.class,
            protocol: ip.protocol,
            whole: ip.fragment == Fragment::Whole,
            transport: ip.transport,
            end: ip.end,
        }
    }
}

/// Verifies the checksum of an IPv4 header; `header` ends where the content begins. IPv6 has none.
pub(crate) fn verify_header(pair: &IpPair, header: &[u8]) -> Result<(), WireError> {
    match pair {
        IpPair::V4 { .. } if checksum::fold(checksum::add(0, header)) != 0xffff => {
            Err(WireError::Checksum("IPv4 header"))
        }
        _ => Ok(()),
    }
}

/// Reads the IP datagram at the start of `bytes` and checks its checksums.
pub fn decode(bytes: &[u8]) -> Result<Decoded, WireError> {
    let decoded = parse(bytes)?;
    decoded.verify(bytes)?;
    Ok(decoded)
}

/// Like [`decode`], for a whole datagram of `protocol` with these `addresses`; `None` for any other.
pub(crate) fn decode_of(bytes: &[u8], protocol: Protocol, addresses: &Addresses) -> Option<Decoded> {
    let ours = |d: &Decoded| {
        d.packet.protocol() == protocol && d.packet.fragment() == Fragment::Whole && d.addresses == *addresses
    };
    decode(bytes).ok().filter(ours)
}

/// Like [`decode`], without verifying checksums: for bytes whose checksum the network card will fill in.
pub fn parse(bytes: &[u8]) -> Result<Decoded, WireError> {
    parse_transport(Ip::envelope(bytes)?.checked()?, bytes)
}

/// Parses the transport header of `bytes`, whose IP header is `ip`.
fn parse_transport(ip: Ip, bytes: &[u8]) -> Result<Decoded, WireError> {
    let here = &bytes[ip.transport..ip.end];
    let mut d = Decoded {
        addresses: Addresses { ip: ip.pair, src_port: 0, dst_port: 0 },
        fields: ip.fields,
        packet: Packet::tcp(FlowId::new(0, false)),
        side: None,
        next: None,
        transport: ip.transport,
        payload: ip.transport..ip.end,
        end: ip.end,
        signed: false,
        multipath: false,
    };
    match ip.protocol {
        protocol::UDP => d.packet = Packet::udp(d.packet.flow, 0, 0, Time::ZERO),
        protocol::SCTP => d.packet = Packet::sctp_data(d.packet.flow, 0, 0, (0, 0), 0),
        _ => {}
    }
    d.packet.ident = ip.ident as u16;
    d.packet.set_traffic_class(ip.class);
    d.packet.set_fragment(ip.fragment);
    let header = if ip.offset > 0 {
        d.packet.ack = ip.offset as u32;
        ip::V4_HEADER
    } else if ip.protocol == protocol::UDP {
        let udp = udp::Udp::parse(here, ip.fragment)?;
        (d.addresses.src_port, d.addresses.dst_port) = udp.ports;
        d.payload = ip.transport + udp::HEADER..ip.transport + udp.length;
        usize::from(d.packet.header_bytes(0))
    } else if ip.protocol == protocol::SCTP {
        d.read_sctp(sctp::ChunkPacket::parse(here, d.packet)?);
        return Ok(d);
    } else {
        usize::from(d.read_tcp(&tcp::TcpHeader::parse(here)?))
    };
    d.packet.size = u16::try_from(header + d.payload.len()).map_err(|_| WireError::TooLong)?;
    Ok(d)
}

impl Decoded {
    /// Applies the TCP header. Returns the length of the TCP and IPv4 headers as roughlink writes them.
    fn read_tcp(&mut self, tcp: &tcp::TcpHeader) -> u16 {
        (self.addresses.src_port, self.addresses.dst_port) = tcp.ports;
        self.payload.start += tcp.header;
        self.signed = tcp.options.signed;
        self.multipath = tcp.options.multipath;
        let p = &mut self.packet;
        (p.seq, p.ack, p.flags, p.window) = (tcp.seq, tcp.ack, tcp.flags, tcp.window);
        if let Some((tsval, tsecr)) = tcp.options.timestamps {
            p.set_timestamps(tsval, tsecr);
        }
        if p.is(flags::SYN) {
            // Absent MSS option: RFC 9293 section 3.7.1. The other options count only on SYNs: RFC 2018, 7323.
            let absent = if matches!(self.addresses.ip, IpPair::V4 { .. }) { 536 } else { 1220 };
            let options = SynOptions {
                mss: tcp.options.mss.filter(|&mss| mss > 0).unwrap_or(absent),
                window_scale: tcp.options.window_scale,
                sack_permitted: tcp.options.sack_permitted,
                timestamps: tcp.options.timestamps.is_some(),
            };
            self.side = Some(SideContent::Syn(options));
            return p.header_bytes(options.header_bytes());
        }
        if tcp.options.sacks > 0 {
            p.set_sacks(tcp.options.sacks, p.side());
            self.side = Some(SideContent::Sacks(tcp.options.blocks));
        }
        p.header_bytes(0)
    }

    fn read_sctp(&mut self, sctp: sctp::ChunkPacket) {
        (self.addresses.src_port, self.addresses.dst_port) = sctp.ports;
        (self.packet, self.side) = (sctp.packet, sctp.side);
        self.next = sctp.next.map(|next| self.transport + next);
        self.payload = match sctp.payload {
            Some(payload) => self.transport + payload.start..self.transport + payload.end,
            None => self.end..self.end,
        };
    }

    /// Returns the SCTP chunk after this one (RFC 9260 section 6.10) in `bytes`, from which `self` was parsed. `None`
    /// after the last one, or after an unknown type that requires the rest to be discarded (section 3.2).
    ///
    /// # Errors
    /// Returns an error if the chunk cannot be parsed, so that later chunks cannot be found.
    pub fn following(&self, bytes: &[u8]) -> Result<Option<Decoded>, WireError> {
        let Some(next) = self.next else { return Ok(None) };
        let chunk = sctp::ChunkPacket::parse_at(&bytes[self.transport..self.end], next - self.transport, self.packet)?;
        let mut d = self.clone();
        d.read_sctp(chunk);
        Ok(Some(d))
    }

    /// Verifies the checksums of `bytes`, from which `self` was parsed: IPv4 and, unless it is a fragment, transport.
    pub fn verify(&self, bytes: &[u8]) -> Result<(), WireError> {
        verify_header(&self.addresses.ip, &bytes[..self.transport])?;
        if self.packet.fragment() != Fragment::Whole {
            return Ok(());
        }
        let transport = &bytes[self.transport..self.payload.end];
        let (right, what) = match self.packet.protocol() {
            Protocol::Tcp => (tcp::verify(&self.addresses.ip, transport), "TCP"),
            Protocol::Udp => (udp::verify(&self.addresses.ip, transport), "UDP"),
            Protocol::Sctp => (sctp::verify(&bytes[self.transport..self.end]), "SCTP"), // padding included
        };
        if right { Ok(()) } else { Err(WireError::Checksum(what)) }
    }

    /// Converts to a packet of `flow` and stores its side data in `sides`; `self` was parsed from `bytes`.
    pub fn into_packet(self, bytes: &[u8], flow: FlowId, sides: &mut Sides) -> Packet {
        let mut packet = self.packet;
        packet.flow = flow;
        if let Some(mut side) = self.side {
            let carried = match &mut side {
                SideContent::Heartbeat(number) => Some(number),
                SideContent::Init(Init { cookie: Some(Cookie::Other { number, .. }), .. }) => Some(number),
                _ => None,
            };
            if let Some(number) = carried {
                *number = sides.store_bytes(&bytes[self.payload]);
            }
            packet.set_side(sides.store(side));
        }
        packet
    }

    /// Returns the TCP header within `bytes`, from which `self` was parsed, for rewriting; `None` without a TCP header.
    pub fn tcp_header<'a>(&self, bytes: &'a mut [u8]) -> Option<TcpHeaderMut<'a>> {
        if self.packet.protocol() != Protocol::Tcp || self.is_later_fragment() {
            return None;
        }
        TcpHeaderMut::new(bytes.get_mut(self.transport..)?)
    }

    /// Returns the SACK blocks of a TCP segment.
    pub fn sacks(&self) -> &[SackBlock] {
        match &self.side {
            Some(SideContent::Sacks(blocks)) => &blocks[..self.packet.sacks()],
            _ => &[],
        }
    }

    /// Returns true for a fragment without transport header.
    pub fn is_later_fragment(&self) -> bool {
        matches!(self.packet.fragment(), Fragment::Middle | Fragment::Last)
    }
}

#[cfg(test)]
mod tests;
