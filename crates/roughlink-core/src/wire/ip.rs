//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers, fragments included.

use super::protocol::{SCTP, SCTP_DATA_HEADER, TCP, UDP};
use super::{EncodeError, WireError, checksum};
use crate::packet::{Ecn, Fragment};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of an IPv4 header without options.
pub(super) const V4_HEADER: usize = 20;
pub(super) const V4_CHECKSUM: usize = 10;
pub(super) const V6_HEADER: usize = 40;
/// Bytes of an IPv6 fragment header.
pub(super) const V6_FRAGMENT: usize = 8;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;
const HOP_LIMIT: u8 = 64;
const FLOW_LABEL: u32 = 0x000f_ffff;

// IPv6 extension headers (RFC 8200 section 4).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// Source and destination of an IP datagram, of one family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum IpPair {
    /// IPv4.
    V4 {
        /// Source.
        src: Ipv4Addr,
        /// Destination.
        dst: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// Source.
        src: Ipv6Addr,
        /// Destination.
        dst: Ipv6Addr,
    },
}

impl IpPair {
    /// Creates the pair; `None` if the addresses are of different families.
    pub const fn new(src: IpAddr, dst: IpAddr) -> Option<Self> {
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Some(IpPair::V4 { src, dst }),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Some(IpPair::V6 { src, dst }),
            _ => None,
        }
    }

    /// Returns the pair in the opposite direction.
    pub const fn reversed(self) -> Self {
        match self {
            IpPair::V4 { src, dst } => IpPair::V4 { src: dst, dst: src },
            IpPair::V6 { src, dst } => IpPair::V6 { src: dst, dst: src },
        }
    }

    /// Returns true for IPv4.
    pub(crate) const fn is_v4(&self) -> bool {
        matches!(self, IpPair::V4 { .. })
    }

    /// Returns source and destination.
    pub fn addresses(&self) -> [IpAddr; 2] {
        match *self {
            IpPair::V4 { src, dst } => [src, dst].map(IpAddr::from),
            IpPair::V6 { src, dst } => [src, dst].map(IpAddr::from),
        }
    }

    /// Returns the maximum length of a reassembled payload: the length field includes the header in IPv4 only.
    pub(super) const fn longest(&self) -> usize {
        match self {
            IpPair::V4 { .. } => u16::MAX as usize - V4_HEADER,
            IpPair::V6 { .. } => u16::MAX as usize,
        }
    }

    /// Returns the sum of the pseudo-header for `length` bytes of transport header and payload (RFC 9293 section 3.1;
    /// RFC 8200 section 8.1 has the same numbers in another order).
    pub(super) fn pseudo_header(&self, protocol: u8, length: usize) -> u64 {
        let sum = u64::from(protocol) + length as u64;
        match self {
            IpPair::V4 { src, dst } => checksum::add(checksum::add(sum, &src.octets()), &dst.octets()),
            IpPair::V6 { src, dst } => checksum::add(checksum::add(sum, &src.octets()), &dst.octets()),
        }
    }
}

/// IP header fields that `Packet` does not hold, kept so that a decoded datagram encodes to the same bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpFields {
    /// Hop limit, or time to live.
    pub hop_limit: u8,
    /// Flow label of IPv6 (RFC 6437), 20 bits; 0 for IPv4.
    pub flow_label: u32,
    /// IPv4: no link may fragment the datagram (DF).
    pub dont_fragment: bool,
}

/// Fields of simulated packets. DF is clear, because simulated links fragment packets above their MTU.
impl Default for IpFields {
    fn default() -> Self {
        IpFields { hop_limit: HOP_LIMIT, flow_label: 0, dont_fragment: false }
    }
}

pub(super) struct Ip {
    pub(super) pair: IpPair,
    /// DSCP and ECN.
    pub(super) class: u8,
    pub(super) fields: IpFields,
    pub(super) protocol: u8,
    /// 16 bits in IPv4, 32 in IPv6.
    pub(super) ident: u32,
    /// Place of the IPv6 fragment header, if there is one.
    pub(super) extension: Option<FragmentHeader>,
    pub(super) fragment: Fragment,
    /// Fragment offset in bytes; the wire has units of 8.
    pub(super) offset: usize,
    /// Offset of the transport header, or of the data of a later fragment.
    pub(super) transport: usize,
    /// End of the datagram; bytes after it are padding of the link.
    pub(super) end: usize,
}

/// Place of an IPv6 fragment header, and of the byte before it that names it as the next header.
#[derive(Clone, Copy)]
pub(super) struct FragmentHeader {
    pub(super) at: usize,
    pub(super) named_at: usize,
}

#[cfg(test)]
thread_local! {
    /// IP headers that this thread has parsed.
    pub(crate) static PARSES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Ip {
    /// Reads the headers of any transport protocol and any fragment.
    pub(super) fn envelope(bytes: &[u8]) -> Result<Ip, WireError> {
        #[cfg(test)]
        PARSES.set(PARSES.get() + 1);
        match bytes.first().map(|b| b >> 4) {
            None => Err(WireError::Truncated("IP header")),
            Some(4) => Ip::parse_v4(bytes),
            Some(6) => Ip::parse_v6(bytes),
            Some(version) => Err(WireError::Version(version)),
        }
    }

    fn parse_v4(bytes: &[u8]) -> Result<Ip, WireError> {
        let h: &[u8; V4_HEADER] = bytes.first_chunk().ok_or(WireError::Truncated("IPv4 header"))?;
        let transport = usize::from(h[0] & 0x0f) * 4;
        let end = usize::from(word(h, 2));
        if transport < V4_HEADER || end < transport {
            return Err(WireError::Length("IPv4 header"));
        }
        if end > bytes.len() {
            return Err(WireError::Truncated("IPv4 datagram"));
        }
        let flags = word(h, 6);
        let offset = usize::from(flags & OFFSET) * 8;
        let octets = |at: usize| Ipv4Addr::new(h[at], h[at + 1], h[at + 2], h[at + 3]);
        Ok(Ip {
            pair: IpPair::V4 { src: octets(12), dst: octets(16) },
            class: h[1],
            fields: IpFields { hop_limit: h[8], flow_label: 0, dont_fragment: flags & DONT_FRAGMENT != 0 },
            protocol: h[9],
            ident: u32::from(word(h, 4)),
            extension: None,
            fragment: part(flags & MORE_FRAGMENTS != 0, offset),
            offset,
            transport,
            end,
        })
    }

    fn parse_v6(bytes: &[u8]) -> Result<Ip, WireError> {
        let h: &[u8; V6_HEADER] = bytes.first_chunk().ok_or(WireError::Truncated("IPv6 header"))?;
        // A length of 0 would be a jumbogram (RFC 2675) or an empty datagram.
        let end = V6_HEADER + usize::from(word(h, 4));
        if end == V6_HEADER {
            return Err(WireError::Length("IPv6 header"));
        }
        if end > bytes.len() {
            return Err(WireError::Truncated("IPv6 datagram"));
        }
        let octets = |at: usize| {
            let mut a = [0; 16];
            a.copy_from_slice(&h[at..at + 16]);
            Ipv6Addr::from(a)
        };
        let mut ip = Ip {
            pair: IpPair::V6 { src: octets(8), dst: octets(24) },
            class: (word(h, 0) >> 4) as u8,
            fields: IpFields { hop_limit: h[7], flow_label: long(h, 0) & FLOW_LABEL, dont_fragment: false },
            protocol: h[6],
            ident: 0,
            extension: None,
            fragment: Fragment::Whole,
            offset: 0,
            transport: V6_HEADER,
            end,
        };
        let mut named_at = 6;
        while matches!(ip.protocol, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION) {
            let x: &[u8; 8] =
                bytes[ip.transport..end].first_chunk().ok_or(WireError::Truncated("IPv6 extension header"))?;
            let length = match ip.protocol {
                FRAGMENT if ip.extension.is_some() => return Err(WireError::Fragment),
                FRAGMENT => {
                    // RFC 8200 section 4.5. An atomic fragment, alone in its datagram, counts as whole (RFC 6946).
                    ip.extension = Some(FragmentHeader { at: ip.transport, named_at });
                    ip.offset = usize::from(word(x, 2) & !7);
                    ip.fragment = part(x[3] & 1 != 0, ip.offset);
                    if ip.fragment != Fragment::Whole {
                        ip.ident = long(x, 4);
                    }
                    V6_FRAGMENT
                }
                // Not at its final destination, whose address the transport checksum covers (section 8.1).
                ROUTING if x[3] != 0 => return Err(WireError::Routed),
                _ => 8 + usize::from(x[1]) * 8,
            };
            ip.protocol = x[0];
            named_at = ip.transport;
            ip.transport += length;
            if ip.transport > end {
                return Err(WireError::Truncated("IPv6 extension header"));
            }
            if matches!(ip.fragment, Fragment::Middle | Fragment::Last) {
                break; // the rest is the middle of a datagram
            }
        }
        Ok(ip)
    }

    /// Checks that the content can be a transport header, or a part of a datagram with one.
    pub(super) fn checked(self) -> Result<Self, WireError> {
        let least = match self.protocol {
            TCP => 20,
            UDP => 8,
            SCTP => SCTP_DATA_HEADER,
            other => return Err(WireError::Protocol(other)),
        };
        let length = self.end - self.transport;
        let more = matches!(self.fragment, Fragment::First | Fragment::Middle);
        let empty = length == 0 && self.fragment != Fragment::Whole;
        let unpadded = self.protocol == SCTP && self.fragment == Fragment::Last && !length.is_multiple_of(4);
        if empty || unpadded || more && !length.is_multiple_of(8) || self.offset + length > self.pair.longest() {
            return Err(WireError::Fragment);
        }
        // Only attackers split the transport header, to overwrite fields that a filter has checked (RFC 3128).
        if self.offset != 0 && self.offset < least {
            return Err(WireError::Fragment);
        }
        Ok(self)
    }
}

/// Returns true if an address may be the source of a datagram (RFC 1122 sections 3.2.1.3 and 4.2.3.10): not reserved,
/// unspecified, loopback or multicast.
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    let special = address.is_unspecified() || address.is_multicast() || address.is_loopback();
    !special
        && match address {
            IpAddr::V4(a) => (1..224).contains(&a.octets()[0]),
            IpAddr::V6(a) => a.to_ipv4_mapped().is_none(), // RFC 4291 section 2.5.5.2
        }
}

pub(super) struct Head {
    pub(super) pair: IpPair,
    pub(super) class: u8,
    pub(super) fields: IpFields,
    pub(super) protocol: u8,
    pub(super) ident: u16,
    pub(super) fragment: Fragment,
    /// Fragment offset in bytes.
    pub(super) offset: usize,
}

impl Head {
    /// Appends the header for `length` bytes of transport header and payload.
    pub(super) fn write(&self, length: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let more = matches!(self.fragment, Fragment::First | Fragment::Middle);
        let later = matches!(self.fragment, Fragment::Middle | Fragment::Last);
        let misplaced = !self.offset.is_multiple_of(8) || (self.offset != 0) != later;
        if self.offset + length > self.pair.longest() {
            return Err(EncodeError::TooLong);
        }
        let empty = length == 0 && self.fragment != Fragment::Whole;
        if misplaced || empty || more && !length.is_multiple_of(8) {
            return Err(EncodeError::Fragment);
        }
        match self.pair {
            IpPair::V4 { src, dst } => {
                let total = u16::try_from(V4_HEADER + length).map_err(|_| EncodeError::TooLong)?;
                let flag = |set: bool, bit: u16| if set { bit } else { 0 };
                let flags = flag(more, MORE_FRAGMENTS) | flag(self.fields.dont_fragment, DONT_FRAGMENT);
                let mut h = [0; V4_HEADER];
                (h[0], h[1]) = (0x45, self.class);
                put(&mut h, 2, total);
                put(&mut h, 4, self.ident);
                put(&mut h, 6, flags | (self.offset / 8) as u16);
                h[8] = self.fields.hop_limit;
                h[9] = self.protocol;
                h[12..16].copy_from_slice(&src.octets());
                h[16..20].copy_from_slice(&dst.octets());
                let sum = checksum::finish(checksum::add(0, &h));
                put(&mut h, V4_CHECKSUM, sum);
                out.extend_from_slice(&h);
            }
            IpPair::V6 { src, dst } => {
                let whole = self.fragment == Fragment::Whole;
                let extension = if whole { 0 } else { V6_FRAGMENT };
                let payload = u16::try_from(extension + length).map_err(|_| EncodeError::TooLong)?;
                let mut h = [0; V6_HEADER];
                put_long(&mut h, 0, 6 << 28 | u32::from(self.class) << 20 | self.fields.flow_label & FLOW_LABEL);
                put(&mut h, 4, payload);
                h[6] = if whole { self.protocol } else { FRAGMENT };
                h[7] = self.fields.hop_limit;
                h[8..24].copy_from_slice(&src.octets());
                h[24..40].copy_from_slice(&dst.octets());
                out.extend_from_slice(&h);
                if !whole {
                    let mut x = [0; V6_FRAGMENT];
                    x[0] = self.protocol;
                    put(&mut x, 2, self.offset as u16 | u16::from(more));
                    put(&mut x, 6, self.ident);
                    out.extend_from_slice(&x);
                }
            }
        }
        Ok(())
    }
}

/// Sets the ECN field of the validated IP datagram at the start of `bytes` and updates the checksum that covers it.
pub fn set_ecn(bytes: &mut [u8], ecn: Ecn) {
    let before = word(bytes, 0);
    if before >> 12 == 4 {
        let after = before & !0b11 | ecn as u16;
        if after == before {
            return; // a checksum of 0xffff would become 0
        }
        put(bytes, 0, after);
        let sum = checksum::update_checksum(word(bytes, V4_CHECKSUM), before, after);
        put(bytes, V4_CHECKSUM, sum);
    } else {
        put(bytes, 0, before & !0x30 | (ecn as u16) << 4); // no checksum covers it
    }
}

/// Sets the identification of the validated IPv4 datagram at the start of `bytes` and updates its checksum.
pub(crate) fn set_ident(bytes: &mut [u8], ident: u16) {
    let sum = checksum::update_checksum(word(bytes, V4_CHECKSUM), word(bytes, 4), ident);
    put(bytes, 4, ident);
    put(bytes, V4_CHECKSUM, sum);
}

pub(super) fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn put(bytes: &mut [u8], at: usize, word: u16) {
    bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

pub(super) fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(super) fn put_long(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn part(more: bool, offset: usize) -> Fragment {
    match (more, offset) {
        (false, 0) => Fragment::Whole,
        (true, 0) => Fragment::First,
        (true, _) => Fragment::Middle,
        (false, _) => Fragment::Last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: IpPair = IpPair::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2) };
    const V6: IpPair = IpPair::V6 { src: Ipv6Addr::LOCALHOST, dst: Ipv6Addr::UNSPECIFIED };

    fn datagram(pair: IpPair, fragment: Fragment, offset: usize, length: usize) -> Vec<u8> {
        let mut out = Vec::new();
        Head { pair, class: 0, fields: IpFields::default(), protocol: UDP, ident: 9, fragment, offset }
            .write(length, &mut out)
            .unwrap();
        out.resize(out.len() + length, 0);
        out
    }

    fn parse(bytes: &[u8]) -> Result<Ip, WireError> {
        Ip::envelope(bytes)?.checked()
    }

    #[test]
    fn header_matches_a_known_datagram() {
        // A UDP datagram of 8 bytes; checksum computed by hand: 4500+001c+0009+4011+0a00+0001+0a00+0002.
        let bytes = datagram(V4, Fragment::Whole, 0, 8);
        assert_eq!(bytes[..V4_HEADER], [0x45, 0, 0, 28, 0, 9, 0, 0, 64, 17, 0x66, 0xc6, 10, 0, 0, 1, 10, 0, 0, 2]);
    }

    #[test]
    fn fragments_of_different_datagrams_do_not_mix() {
        for pair in [V4, V6] {
            for (fragment, offset) in [(Fragment::First, 0), (Fragment::Middle, 1480), (Fragment::Last, 2960)] {
                let ip = parse(&datagram(pair, fragment, offset, 16)).unwrap();
                assert_eq!((ip.pair, ip.fragment, ip.offset, ip.ident), (pair, fragment, offset, 9));
                assert_eq!(ip.end - ip.transport, 16);
            }
        }
    }

    #[test]
    fn impossible_fragments_are_refused() {
        let fields = IpFields::default();
        let head = |fragment, offset| Head { pair: V4, class: 0, fields, protocol: TCP, ident: 0, fragment, offset };
        for (fragment, offset, length) in [
            (Fragment::First, 0, 20),  // not a multiple of 8
            (Fragment::First, 8, 24),  // a first fragment with an offset
            (Fragment::Last, 0, 8),    // a last fragment without an offset
            (Fragment::Middle, 12, 8), // an offset that does not fit the field
            (Fragment::Last, 64, 0),   // empty
        ] {
            assert_eq!(head(fragment, offset).write(length, &mut Vec::new()), Err(EncodeError::Fragment));
        }
        assert_eq!(head(Fragment::Last, 65_512).write(4, &mut Vec::new()), Err(EncodeError::TooLong));
        let mut b = datagram(V4, Fragment::Last, 8, 8);
        b[9] = TCP; // within the TCP header
        assert_eq!(parse(&b).err(), Some(WireError::Fragment));
        put(&mut b, 6, OFFSET);
        assert_eq!(parse(&b).err(), Some(WireError::Fragment));
    }

    #[test]
    fn extension_headers_are_skipped() {
        let plain = datagram(V6, Fragment::Whole, 0, 8);
        let with = |chain: &[(u8, &[u8])]| {
            let mut b = plain.clone();
            let mut at = V6_HEADER;
            let mut next = 6; // offset of the preceding "next header" field
            for (kind, body) in chain {
                b[next] = *kind;
                let mut x = vec![UDP];
                x.extend_from_slice(body);
                b.splice(at..at, x.iter().copied());
                next = at;
                at += x.len();
            }
            let length = (b.len() - V6_HEADER) as u16;
            put(&mut b, 4, length);
            b
        };
        let pad = [0, 1, 4, 0, 0, 0, 0];
        let long = [1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let b = with(&[(HOP_BY_HOP, &pad), (ROUTING, &[0, 0, 0, 0, 0, 0, 0]), (DESTINATION, &long)]);
        let ip = parse(&b).unwrap();
        assert_eq!((ip.protocol, ip.transport, ip.end), (UDP, V6_HEADER + 8 + 8 + 16, b.len()));
        let b = with(&[(ROUTING, &[0, 0, 1, 0, 0, 0, 0])]);
        assert_eq!(parse(&b).err(), Some(WireError::Routed));
        let b = with(&[(DESTINATION, &[1, 1, 12, 0, 0, 0, 0])]);
        assert_eq!(parse(&b).unwrap().transport, b.len(), "its length takes in what follows");
        let b = with(&[(DESTINATION, &[9, 1, 12, 0, 0, 0, 0])]);
        assert_eq!(parse(&b).err(), Some(WireError::Truncated("IPv6 extension header")));
        let b = with(&[(51, &pad)]);
        assert_eq!(parse(&b).err(), Some(WireError::Protocol(51)));
        // An atomic fragment is whole; a second fragment header is invalid.
        let atomic = [0, 0, 0, 0, 0, 0, 7];
        let ip = parse(&with(&[(FRAGMENT, &atomic)])).unwrap();
        assert_eq!((ip.fragment, ip.ident), (Fragment::Whole, 0));
        assert_eq!(parse(&with(&[(FRAGMENT, &atomic), (FRAGMENT, &atomic)])).err(), Some(WireError::Fragment));
    }
}
