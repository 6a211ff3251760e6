//! The codec between [`Packet`] and real bytes: IPv4 or IPv6, TCP or UDP, with checksums.
//!
//! Everything that leaves or enters the simulator as bytes - captures, a TUN device, the gateway - passes here.
//! [`encode`] writes what a packet stands for, its payload implied or real; [`decode`] reads what came.
//!
//! [`Packet::size`] is the IPv4 length whatever the family, and counts headers as roughlink itself would write them:
//! an IPv6 datagram is 20 bytes longer on the wire (28 as a fragment), and a decoded packet whose sender laid out its
//! options differently gets the size that makes [`Packet::payload`] right. [`Decoded::end`] is the length on the wire.
//!
//! The headers have no room for, and so a round trip loses: the flow, which the receiver looks up by address; the
//! identification of an unfragmented IPv6 datagram (0 when decoded); number and time of a UDP datagram, which travel
//! as a [`Stamp`] in the payload. Fields that a packet does not have (DSCP and ECN, DF, hop limit, flow label, urgent
//! pointer) are written as constants and not read.

pub mod checksum;
pub mod ethernet;
mod ip;
mod payload;
mod tcp;
mod udp;

pub use ip::IpPair;
pub use payload::{Implied, Payload, Stamp, pattern};
pub use tcp::TcpHeader;

use crate::packet::{FlowId, Fragment, Packet, Protocol, Side, Sides, SynOptions, flags};
use crate::units::Time;
use ip::{Head, Ip};
use std::ops::Range;

/// Who talks to whom.
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
    /// The opposite direction.
    pub const fn reversed(self) -> Self {
        Addresses { ip: self.ip.reversed(), src_port: self.dst_port, dst_port: self.src_port }
    }
}

/// Why bytes from the network are not a datagram that roughlink understands. To be counted, not reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    /// The bytes end within this.
    #[error("the {0} is cut off")]
    Truncated(&'static str),
    /// Neither IPv4 nor IPv6.
    #[error("IP version {0}")]
    Version(u8),
    /// A frame that carries no IP.
    #[error("EtherType {0:#06x}")]
    EtherType(u16),
    /// A transport protocol, or an IPv6 extension header, other than those known.
    #[error("IP protocol {0}")]
    Protocol(u8),
    /// An IPv6 routing header with segments left: not at its destination yet.
    #[error("a routing header with segments left")]
    Routed,
    /// The length field of this header contradicts the others.
    #[error("the length in the {0} is wrong")]
    Length(&'static str),
    /// A fragment that cannot be part of any datagram.
    #[error("an impossible fragment")]
    Fragment,
    /// TCP options that run out of the header.
    #[error("TCP options that do not fit their header")]
    Options,
    /// The payload is longer than [`Packet::size`] can tell.
    #[error("a datagram of more than 65535 bytes")]
    TooLong,
    /// The checksum of this is wrong.
    #[error("the {0} checksum is wrong")]
    Checksum(&'static str),
}

/// Why a packet has no wire form.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EncodeError {
    /// SCTP is simulated, never sent.
    #[error("SCTP has no wire form here")]
    Protocol,
    /// The side data are not those of this packet: a SYN needs its options, SACK blocks must be there.
    #[error("the side data do not belong to the packet")]
    Side,
    /// More than 40 bytes of TCP options.
    #[error("more than 40 bytes of TCP options")]
    Options,
    /// Offset or size of the fragment cannot be written.
    #[error("an impossible fragment")]
    Fragment,
    /// [`Packet::size`] does not agree with headers and payload.
    #[error("the size of the packet contradicts its payload")]
    Size,
    /// The datagram exceeds 65535 bytes.
    #[error("a datagram of more than 65535 bytes")]
    TooLong,
}

/// A datagram that was understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decoded {
    /// Who talks to whom; ports are 0 in a fragment after the first.
    pub addresses: Addresses,
    /// The packet, of flow 0 and without side slot: see [`Decoded::into_packet`]. A fragment after the first knows
    /// only its protocol, size, offset and identification.
    pub packet: Packet,
    /// SACK blocks, or the options of a SYN.
    pub side: Option<Side>,
    /// Where the transport header, or what a later fragment carries, begins.
    pub transport: usize,
    /// Where the payload lies; in a later fragment this may begin with TCP options.
    pub payload: Range<usize>,
    /// Where the IP datagram ends: bytes after it are padding of the link.
    pub end: usize,
    /// TCP-MD5 (RFC 2385) or TCP-AO (RFC 5925): the header is signed and must not be rewritten.
    pub signed: bool,
    /// Multipath TCP (RFC 8684): the window belongs to the whole connection.
    pub multipath: bool,
}

/// Appends to `out` the bytes of `packet` (one datagram, or one fragment), whose side data are `side`. Nothing is
/// appended if that fails. For a fragment, `payload` is that of the whole datagram, and its header length is told
/// from the option bits of `packet`, which every fragment therefore keeps.
pub fn encode(
    packet: &Packet,
    side: Option<&Side>,
    addresses: &Addresses,
    payload: &(impl Payload + ?Sized),
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let (protocol, header) = match packet.protocol() {
        Protocol::Tcp => (ip::TCP, tcp::header_length(packet, side)?),
        Protocol::Udp => (ip::UDP, udp::HEADER),
        Protocol::Sctp => return Err(EncodeError::Protocol),
    };
    let fragment = packet.fragment();
    let offset = match fragment {
        Fragment::Whole | Fragment::First => 0,
        Fragment::Middle | Fragment::Last => usize::from(u16::try_from(packet.ack).unwrap_or(u16::MAX)),
    };
    let whole = header + payload.bytes(); // of the datagram, without IP header
    let here = usize::from(packet.size).checked_sub(ip::V4_HEADER).ok_or(EncodeError::Size)?;
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
    Head { pair, protocol, ident: packet.ident, fragment, offset }.write(here, out)?;
    let start = out.len();
    if offset > 0 {
        out.resize(start + here, 0);
        payload.fill(offset - header, &mut out[start..]);
        return Ok(());
    }
    // The first fragment's checksum covers the whole datagram: write that, then cut it.
    out.resize(start + whole, 0);
    let bytes = &mut out[start..];
    payload.fill(0, &mut bytes[header..]);
    let ports = (addresses.src_port, addresses.dst_port);
    match packet.protocol() {
        Protocol::Tcp => tcp::write(packet, side, &pair, ports, header, bytes),
        _ => udp::write(&pair, ports, bytes),
    }
    out.truncate(start + here);
    Ok(())
}

/// Reads the IP datagram at the start of `bytes` and checks its checksums.
pub fn decode(bytes: &[u8]) -> Result<Decoded, WireError> {
    let decoded = parse(bytes)?;
    decoded.verify(bytes)?;
    Ok(decoded)
}

/// As [`decode`], but leaves the checksums unchecked: for bytes whose checksum the network card is to fill in.
pub fn parse(bytes: &[u8]) -> Result<Decoded, WireError> {
    let ip = Ip::parse(bytes)?;
    let here = &bytes[ip.transport..ip.end];
    let mut d = Decoded {
        addresses: Addresses { ip: ip.pair, src_port: 0, dst_port: 0 },
        packet: Packet::tcp(FlowId::new(0, false)),
        side: None,
        transport: ip.transport,
        payload: ip.transport..ip.end,
        end: ip.end,
        signed: false,
        multipath: false,
    };
    if ip.protocol == ip::UDP {
        d.packet = Packet::udp(d.packet.flow, 0, 0, Time::ZERO);
    }
    d.packet.ident = ip.ident;
    d.packet.set_fragment(ip.fragment);
    let header = if ip.offset > 0 {
        d.packet.ack = ip.offset as u32;
        ip::V4_HEADER
    } else if ip.protocol == ip::UDP {
        let udp = udp::Udp::parse(here, ip.fragment)?;
        (d.addresses.src_port, d.addresses.dst_port) = udp.ports;
        d.payload = ip.transport + udp::HEADER..ip.transport + udp.length;
        usize::from(d.packet.header_bytes(0))
    } else {
        usize::from(d.read_tcp(&tcp::Tcp::parse(here)?))
    };
    d.packet.size = u16::try_from(header + d.payload.len()).map_err(|_| WireError::TooLong)?;
    Ok(d)
}

impl Decoded {
    /// Takes in the TCP header; returns its length together with IPv4's as roughlink would write them.
    fn read_tcp(&mut self, tcp: &tcp::Tcp) -> u16 {
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
            // RFC 9293 section 3.7.1: what an absent MSS option means; RFC 2018, 7323: these options count here only.
            let absent = if matches!(self.addresses.ip, IpPair::V4 { .. }) { 536 } else { 1220 };
            let options = SynOptions {
                mss: tcp.options.mss.filter(|&mss| mss > 0).unwrap_or(absent),
                window_scale: tcp.options.window_scale,
                sack_permitted: tcp.options.sack_permitted,
                timestamps: tcp.options.timestamps.is_some(),
            };
            self.side = Some(Side::Syn(options));
            return p.header_bytes(options.header_bytes());
        }
        if tcp.options.sacks > 0 {
            p.set_sacks(tcp.options.sacks, p.side);
            self.side = Some(Side::Sacks(tcp.options.blocks));
        }
        p.header_bytes(0)
    }

    /// Checks the checksums of `bytes`, from which `self` was parsed: that of the IPv4 header and, unless this is a
    /// fragment, that of TCP or UDP.
    pub fn verify(&self, bytes: &[u8]) -> Result<(), WireError> {
        let v4 = matches!(self.addresses.ip, IpPair::V4 { .. });
        if v4 && checksum::fold(checksum::add(0, &bytes[..self.transport])) != 0xffff {
            return Err(WireError::Checksum("IPv4 header"));
        }
        if self.packet.fragment() != Fragment::Whole {
            return Ok(());
        }
        let bytes = &bytes[self.transport..self.payload.end];
        let (right, what) = match self.packet.protocol() {
            Protocol::Tcp => (tcp::verify(&self.addresses.ip, bytes), "TCP"),
            _ => (udp::verify(&self.addresses.ip, bytes), "UDP"),
        };
        if right { Ok(()) } else { Err(WireError::Checksum(what)) }
    }

    /// The packet as one of `flow`, its side data stored in `sides`.
    pub fn into_packet(self, flow: FlowId, sides: &mut Sides) -> Packet {
        let mut packet = self.packet;
        packet.flow = flow;
        if let Some(side) = self.side {
            packet.side = sides.store(side);
        }
        packet
    }

    /// The TCP header within `bytes`, from which `self` was parsed, to be rewritten; `None` if there is none.
    pub fn tcp_header<'a>(&self, bytes: &'a mut [u8]) -> Option<TcpHeader<'a>> {
        if self.packet.protocol() != Protocol::Tcp || self.is_later_fragment() {
            return None;
        }
        TcpHeader::new(bytes.get_mut(self.transport..)?)
    }

    /// Whether this is a fragment without transport header.
    pub fn is_later_fragment(&self) -> bool {
        matches!(self.packet.fragment(), Fragment::Middle | Fragment::Last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::SackBlock;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn addresses() -> impl Strategy<Value = Addresses> {
        let ip = prop_oneof![
            any::<(u32, u32)>().prop_map(|(s, d)| IpPair::V4 { src: Ipv4Addr::from(s), dst: Ipv4Addr::from(d) }),
            any::<(u128, u128)>().prop_map(|(s, d)| IpPair::V6 { src: Ipv6Addr::from(s), dst: Ipv6Addr::from(d) }),
        ];
        (ip, any::<u16>(), any::<u16>()).prop_map(|(ip, src_port, dst_port)| Addresses { ip, src_port, dst_port })
    }

    /// A TCP segment that is no SYN, and its SACK blocks.
    fn segment() -> impl Strategy<Value = (Packet, Option<Side>)> {
        let fields = any::<(u32, u32, u16, u16, u8)>();
        let blocks = prop::collection::vec(any::<(u32, u32)>(), 0..=4);
        (fields, prop::option::of(any::<(u32, u32)>()), blocks, 0_u16..3000).prop_map(|(f, ts, blocks, payload)| {
            let mut p = Packet::tcp(FlowId::new(0, false));
            (p.seq, p.ack, p.window, p.ident) = (f.0, f.1, f.2, f.3);
            p.flags = f.4 & !flags::SYN;
            if let Some((tsval, tsecr)) = ts {
                p.set_timestamps(tsval, tsecr);
            }
            let n = blocks.len().min(if ts.is_some() { 3 } else { 4 });
            let mut side = [SackBlock::default(); 4];
            for (b, &(left, right)) in side.iter_mut().zip(&blocks[..n]) {
                *b = SackBlock { left, right };
            }
            p.set_sacks(n, p.side);
            p.set_payload(payload);
            (p, (n > 0).then_some(Side::Sacks(side)))
        })
    }

    fn syn() -> impl Strategy<Value = (Packet, Option<Side>)> {
        let options = (1_u16.., prop::option::of(0_u8..=14), any::<bool>(), prop::option::of(any::<(u32, u32)>()));
        (any::<(u32, u32, u16, u8)>(), options).prop_map(|(f, (mss, window_scale, sack_permitted, ts))| {
            let mut p = Packet::tcp(FlowId::new(0, false));
            (p.seq, p.ack, p.window, p.flags) = (f.0, f.1, f.2, f.3 | flags::SYN);
            if let Some((tsval, tsecr)) = ts {
                p.set_timestamps(tsval, tsecr);
            }
            let options = SynOptions { mss, window_scale, sack_permitted, timestamps: ts.is_some() };
            p.size = p.header_bytes(options.header_bytes());
            (p, Some(Side::Syn(options)))
        })
    }

    fn datagram() -> impl Strategy<Value = (Packet, Option<Side>)> {
        (any::<u32>(), 12_u16..3000, any::<u64>(), any::<u16>()).prop_map(|(number, payload, sent, ident)| {
            let mut p = Packet::udp(FlowId::new(0, false), number, payload, Time(sent));
            p.ident = ident;
            (p, None)
        })
    }

    fn packet() -> impl Strategy<Value = (Packet, Option<Side>)> {
        prop_oneof![3 => segment(), 1 => syn(), 1 => datagram()]
    }

    fn bytes_of(packet: &Packet, side: &Option<Side>, addresses: &Addresses, payload: &impl Payload) -> Vec<u8> {
        let mut out = vec![0xaa; 3]; // what is there before stays
        encode(packet, side.as_ref(), addresses, payload, &mut out).unwrap();
        assert_eq!(out[..3], [0xaa; 3]);
        out.split_off(3)
    }

    /// `p` cut at multiples of 8 bytes after the IP header, as a link with a small MTU would.
    fn fragments(p: &Packet, part: u16) -> Vec<Packet> {
        let total = p.size - 20;
        (0..total)
            .step_by(usize::from(part))
            .map(|offset| {
                let mut f = *p;
                let length = part.min(total - offset);
                let last = offset + length == total;
                f.size = 20 + length;
                f.set_fragment(match (offset, last) {
                    (0, false) => Fragment::First,
                    (0, true) => Fragment::Whole,
                    (_, false) => Fragment::Middle,
                    (_, true) => Fragment::Last,
                });
                if offset > 0 {
                    f.ack = u32::from(offset);
                }
                f
            })
            .collect()
    }

    proptest! {
        #[test]
        fn packets_survive_the_round_trip((packet, side) in packet(), addresses in addresses(), flow in any::<u32>()) {
            let implied = Implied::of(&packet);
            let bytes = bytes_of(&packet, &side, &addresses, &implied);
            let v6 = matches!(addresses.ip, IpPair::V6 { .. });
            prop_assert_eq!(bytes.len(), usize::from(packet.size) + if v6 { 20 } else { 0 });

            let d = decode(&bytes).unwrap();
            prop_assert_eq!(d.addresses, addresses);
            prop_assert_eq!((d.end, d.payload.end), (bytes.len(), bytes.len()));
            prop_assert!(!d.signed && !d.multipath);
            let mut payload = vec![0; packet.payload() as usize];
            implied.fill(0, &mut payload);
            prop_assert_eq!(&bytes[d.payload.clone()], &payload[..]);

            let stamp = Stamp::read(&bytes[d.payload.clone()]);
            let mut sides = Sides::default();
            let mut q = d.into_packet(FlowId(flow), &mut sides);
            prop_assert_eq!(sides.get(&q), side.as_ref());
            if packet.protocol() == Protocol::Udp {
                stamp.unwrap().apply(&mut q);
            }
            let mut expected = packet;
            (expected.flow, expected.side) = (FlowId(flow), q.side);
            if v6 {
                expected.ident = 0;
            }
            prop_assert_eq!(q, expected);
        }

        #[test]
        fn real_payload_is_carried((mut packet, side) in segment(), addresses in addresses(),
                                   data in prop::collection::vec(any::<u8>(), 0..2000)) {
            packet.set_payload(data.len() as u16);
            let mut bytes = Vec::new();
            encode(&packet, side.as_ref(), &addresses, &data[..], &mut bytes).unwrap();
            let d = decode(&bytes).unwrap();
            prop_assert_eq!(&bytes[d.payload], &data[..]);
        }

        #[test]
        fn fragments_make_up_the_datagram((packet, side) in packet(), addresses in addresses(), part in 8_u16..100) {
            let implied = Implied::of(&packet);
            let whole = bytes_of(&packet, &side, &addresses, &implied);
            let whole = &whole[decode(&whole).unwrap().transport..];
            let part = part * 8; // from 64: the first fragment holds all of the header
            let fragments = fragments(&packet, part);
            let count = fragments.len();
            let mut joined = Vec::new();
            for (i, f) in fragments.iter().enumerate() {
                // Only the first still has the side data.
                let side = if i == 0 || packet.is(flags::SYN) { side } else { None };
                let bytes = bytes_of(f, &side, &addresses, &implied);
                let d = decode(&bytes).unwrap();
                prop_assert_eq!((d.packet.fragment(), d.packet.size), (f.fragment(), f.size));
                prop_assert_eq!(d.addresses.ip, addresses.ip);
                if i > 0 {
                    prop_assert_eq!((d.packet.ack, d.addresses.dst_port), (f.ack, 0));
                    prop_assert!(d.is_later_fragment());
                }
                if count > 1 {
                    prop_assert_eq!(d.packet.ident, packet.ident);
                }
                joined.extend_from_slice(&bytes[d.transport..]);
            }
            prop_assert_eq!(&joined[..], whole);
        }

        #[test]
        fn the_window_is_rewritten_in_place((mut packet, side) in prop_oneof![segment(), syn()],
                                            addresses in addresses(), window in any::<u16>()) {
            let implied = Implied::of(&packet);
            let mut bytes = bytes_of(&packet, &side, &addresses, &implied);
            let d = decode(&bytes).unwrap();
            let mut header = d.tcp_header(&mut bytes).unwrap();
            prop_assert_eq!(header.window(), packet.window);
            header.set_window(window);
            packet.window = window;
            prop_assert_eq!(bytes, bytes_of(&packet, &side, &addresses, &implied));
        }

        #[test]
        fn length_fields_are_honoured((packet, side) in packet(), addresses in addresses(),
                                      padding in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut bytes = bytes_of(&packet, &side, &addresses, &Implied::of(&packet));
            let d = decode(&bytes).unwrap();
            for n in [0, 1, 19, 20, 39, d.transport + 7, d.payload.start - 1, bytes.len() - 1] {
                prop_assert!(matches!(decode(&bytes[..n]), Err(WireError::Truncated(_))), "{}", n);
            }
            bytes.extend_from_slice(&padding);
            prop_assert_eq!(decode(&bytes), Ok(d));
        }

        #[test]
        fn a_flipped_bit_is_noticed((packet, side) in prop_oneof![segment(), syn()], at in any::<prop::sample::Index>()) {
            let addresses = fixed();
            let mut bytes = bytes_of(&packet, &side, &addresses, &Implied::of(&packet));
            let bit = at.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..200), version in 0_u8..3) {
            if let (Some(first), 1..) = (bytes.first_mut(), version) {
                *first = [0, 0x45, 0x60][usize::from(version)];
            }
            let _ = (decode(&bytes), ethernet::ip_offset(&bytes));
        }

        #[test]
        fn mutated_bytes_are_survived((packet, side) in packet(), addresses in addresses(),
                                      changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
                                      cut in any::<prop::sample::Index>()) {
            let mut bytes = bytes_of(&packet, &side, &addresses, &Implied::of(&packet));
            for (at, value) in changes {
                let i = at.index(bytes.len().min(80)); // mostly headers
                bytes[i] = value;
            }
            let _ = (decode(&bytes), decode(&bytes[..cut.index(bytes.len())]));
            if let Ok(d) = parse(&bytes) {
                prop_assert!(d.transport <= d.payload.start && d.payload.start <= d.payload.end);
                prop_assert!(d.payload.end <= d.end && d.end <= bytes.len());
                prop_assert_eq!(d.tcp_header(&mut bytes).is_some(),
                                d.packet.protocol() == Protocol::Tcp && !d.is_later_fragment());
            }
        }
    }

    fn fixed() -> Addresses {
        let ip = IpPair::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2) };
        Addresses { ip, src_port: 40_000, dst_port: 40_001 }
    }

    #[test]
    fn a_linux_syn_takes_60_bytes() {
        let mut p = Packet::tcp(FlowId::new(0, false));
        p.flags = flags::SYN;
        p.set_timestamps(1, 0);
        let options = SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true, timestamps: true };
        p.size = p.header_bytes(options.header_bytes());
        let bytes = bytes_of(&p, &Some(Side::Syn(options)), &fixed(), &Implied::of(&p));
        assert_eq!(bytes.len(), 60);
    }

    #[test]
    fn a_syn_without_mss_means_the_default() {
        let mut p = Packet::tcp(FlowId::new(0, false));
        p.flags = flags::SYN;
        let options = SynOptions { mss: 0, ..SynOptions::default() };
        p.size = p.header_bytes(options.header_bytes());
        let ip = IpPair::V6 { src: Ipv6Addr::LOCALHOST, dst: Ipv6Addr::LOCALHOST };
        for (addresses, mss) in [(fixed(), 536), (Addresses { ip, ..fixed() }, 1220)] {
            let bytes = bytes_of(&p, &Some(Side::Syn(options)), &addresses, &Implied::of(&p));
            assert_eq!(decode(&bytes).unwrap().side, Some(Side::Syn(SynOptions { mss, ..options })));
        }
    }

    #[test]
    fn foreign_options_leave_the_payload_right() {
        // A segment of 2 bytes with MD5 option and timestamps in another place: 20 + 18 + 10 bytes.
        let mut segment = vec![0; 48];
        segment[12] = 0xc0;
        segment[13] = flags::ACK;
        segment[20..22].copy_from_slice(&[19, 18]);
        segment[38..40].copy_from_slice(&[8, 10]);
        segment.extend_from_slice(b"hi");
        let mut bytes = Vec::new();
        Head { pair: fixed().ip, protocol: ip::TCP, ident: 0, fragment: Fragment::Whole, offset: 0 }
            .write(segment.len(), &mut bytes)
            .unwrap();
        bytes.extend_from_slice(&segment);
        assert_eq!(decode(&bytes), Err(WireError::Checksum("TCP")));
        let d = parse(&bytes).unwrap();
        assert!(d.signed && d.packet.has_timestamps());
        assert_eq!((d.packet.payload(), d.packet.size, d.end), (2, 40 + 12 + 2, 70));
        assert_eq!(&bytes[d.payload], b"hi");
    }

    #[test]
    fn what_has_no_wire_form_is_refused() {
        let encode = |p: &Packet, bytes: usize| {
            let mut out = Vec::new();
            let e = encode(p, None, &fixed(), &Implied::new(p, bytes), &mut out);
            assert!(e.is_ok() || out.is_empty());
            e
        };
        let mut p = Packet::tcp(FlowId::new(0, false));
        p.set_payload(100);
        assert_eq!(encode(&p, 100), Ok(()));
        assert_eq!(encode(&p, 99), Err(EncodeError::Size));
        p.size = 10;
        assert_eq!(encode(&p, 0), Err(EncodeError::Size));
        p.size = 52;
        p.set_fragment(Fragment::First);
        assert_eq!(encode(&p, 70_000), Err(EncodeError::TooLong));
        p.set_fragment(Fragment::Middle);
        p.ack = 8; // within the header
        assert_eq!(encode(&p, 500), Err(EncodeError::Size));
        p.ack = 70_000;
        assert_eq!(encode(&p, 500), Err(EncodeError::Size));
        p.ack = 36;
        assert_eq!(encode(&p, 500), Err(EncodeError::Fragment));
        p.ack = 40;
        assert_eq!(encode(&p, 500), Ok(()));
    }
}
