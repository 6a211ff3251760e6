//! ICMP (RFC 792) and ICMPv6 (RFC 4443): error messages about TCP segments, and echo.

use super::ip::{Head, IpFields, IpPair, V4_HEADER, V6_HEADER, long, put, word};
use super::protocol::{ICMP, ICMPV6, TCP};
use super::{Addresses, EncodeError, Envelope, WireError, checksum};
use crate::packet::Fragment;
use std::net::{Ipv4Addr, Ipv6Addr};

/// ICMP message, as far as a TCP host uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IcmpMessage {
    EchoRequest,
    /// Destination unreachable, for any reason except the size.
    Unreachable(QuotedSegment),
    /// A segment exceeded the MTU of a link (RFC 1191, RFC 8201). Old IPv4 routers report an MTU of 0.
    TooBig {
        segment: QuotedSegment,
        mtu: u32,
    },
    Other,
}

/// Start of a TCP segment that an ICMP error quotes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QuotedSegment {
    pub(crate) addresses: Addresses,
    pub(crate) seq: u32,
    /// Length of the IP datagram, by its header.
    pub(crate) length: u32,
}

/// Reads the ICMP message in `datagram`, a whole datagram with a correct IP header checksum.
pub(crate) fn parse(envelope: &Envelope, datagram: &[u8]) -> Result<IcmpMessage, WireError> {
    let message = &datagram[envelope.transport..envelope.end];
    let v4 = envelope.pair.is_v4();
    if envelope.protocol != if v4 { ICMP } else { ICMPV6 } {
        return Err(WireError::Protocol(envelope.protocol));
    }
    let header: &[u8; HEADER] = message.first_chunk().ok_or(WireError::Truncated("ICMP header"))?;
    let pseudo_header = if v4 { 0 } else { envelope.pair.pseudo_header(ICMPV6, message.len()) };
    if checksum::fold(checksum::add(pseudo_header, message)) != 0xffff {
        return Err(WireError::Checksum("ICMP"));
    }
    let quoted = quoted_segment(&message[HEADER..]);
    let error = |message: fn(QuotedSegment) -> IcmpMessage| quoted.map_or(IcmpMessage::Other, message);
    Ok(match (v4, header[0], header[1]) {
        (true, 8, 0) | (false, 128, 0) => IcmpMessage::EchoRequest,
        (true, 3, 4) => too_big(quoted, u32::from(word(header, 6))),
        (false, 2, _) => too_big(quoted, long(header, 4)),
        (true, 3, _) | (false, 1, _) => error(IcmpMessage::Unreachable),
        _ => IcmpMessage::Other,
    })
}

fn too_big(quoted: Option<QuotedSegment>, mtu: u32) -> IcmpMessage {
    quoted.map_or(IcmpMessage::Other, |segment| IcmpMessage::TooBig { segment, mtu })
}

/// Reads addresses and sequence number of the quoted segment; the quotation may end 8 bytes after the IP header.
/// `None` for other protocols, later fragments, and IPv6 extension headers, which hosts do not add to TCP.
fn quoted_segment(quoted: &[u8]) -> Option<QuotedSegment> {
    let (ip, length, header) = match quoted.first()? >> 4 {
        4 => {
            let h: &[u8; V4_HEADER] = quoted.first_chunk()?;
            let header = usize::from(h[0] & 0x0f) * 4;
            if h[9] != TCP || word(h, 6) & 0x1fff != 0 || header < V4_HEADER {
                return None;
            }
            let address = |at: usize| Ipv4Addr::from(long(h, at));
            (IpPair::V4 { src: address(12), dst: address(16) }, u32::from(word(h, 2)), header)
        }
        6 => {
            let h: &[u8; V6_HEADER] = quoted.first_chunk()?;
            if h[6] != TCP {
                return None;
            }
            let address = |at: usize| h[at..at + 16].first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets));
            let ip = IpPair::V6 { src: address(8)?, dst: address(24)? };
            (ip, V6_HEADER as u32 + u32::from(word(h, 4)), V6_HEADER)
        }
        _ => return None,
    };
    let tcp: &[u8; 8] = quoted.get(header..)?.first_chunk()?;
    let addresses = Addresses { ip, src_port: word(tcp, 0), dst_port: word(tcp, 2) };
    Some(QuotedSegment { addresses, seq: long(tcp, 4), length })
}

/// Replaces the sequence number in the segment that the ICMP error in `datagram` quotes, and updates the checksum of
/// the message. [`parse`] must have returned the quoted segment.
pub(crate) fn set_quoted_seq(envelope: &Envelope, datagram: &mut [u8], seq: u32) {
    let message = &mut datagram[envelope.transport..envelope.end];
    let header = if message[HEADER] >> 4 == 4 { usize::from(message[HEADER] & 0x0f) * 4 } else { V6_HEADER };
    let mut sum = word(message, 2);
    for (at, half) in [(HEADER + header + 4, (seq >> 16) as u16), (HEADER + header + 6, seq as u16)] {
        sum = checksum::update_checksum(sum, word(message, at), half);
        put(message, at, half);
    }
    put(message, 2, sum);
}

/// Appends the reply to the echo request in `datagram` to `out`.
pub(crate) fn write_echo_reply(
    envelope: &Envelope,
    datagram: &[u8],
    ident: u16,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let message = &datagram[envelope.transport..envelope.end];
    let pair = envelope.pair.reversed();
    let v4 = pair.is_v4();
    let (fields, protocol) = (IpFields::default(), envelope.protocol);
    let head = Head { pair, class: 0, fields, protocol, ident, fragment: Fragment::Whole, offset: 0 };
    head.write(message.len(), out)?;
    let start = out.len();
    out.extend_from_slice(message);
    let reply = &mut out[start..];
    reply[0] = if v4 { 0 } else { 129 };
    put(reply, 2, 0);
    let pseudo_header = if v4 { 0 } else { pair.pseudo_header(ICMPV6, message.len()) };
    let sum = checksum::finish(checksum::add(pseudo_header, reply));
    put(reply, 2, sum);
    Ok(())
}

const HEADER: usize = 8;
