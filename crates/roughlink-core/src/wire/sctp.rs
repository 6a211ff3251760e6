//! SCTP packets (RFC 9260 section 3, RFC 3758 section 3): common header, one chunk, CRC32c.
//!
//! Only what roughlink itself would write is read. Several chunks in a packet are refused, and so are chunks that
//! [`Chunk`] does not have. Unknown parameters and error causes are skipped; gap ack blocks and duplicates that
//! [`Gaps`] has no room for are left out.

use super::crc32c::crc32c;
use super::ip::{long, put, put_long, word};
use super::{EncodeError, WireError};
use crate::packet::{COOKIE_BYTES, Chunk, Cookie, Fragment, Gap, Gaps, Init, Packet, Side, Skipped};

/// Bytes of the common header and the header of a DATA chunk: what precedes the payload.
pub(super) const DATA_HEADER: usize = COMMON + 16;
const COMMON: usize = 12;
const CHECKSUM: usize = 8;
const CHUNK_HEADER: usize = 4;

// Parameters and causes: RFC 9260 sections 3.3.3 and 3.3.10.3, RFC 3758 section 3.1.
const STATE_COOKIE: u16 = 7;
const FORWARD_TSN_SUPPORTED: u16 = 0xc000;
const STALE_COOKIE: u16 = 3;

/// The content of an SCTP packet: the packet but for its size, and its payload.
pub(super) struct Sctp {
    pub(super) ports: (u16, u16),
    pub(super) packet: Packet,
    pub(super) side: Option<Side>,
    /// Bytes of payload that are here, after the header of the DATA chunk; none of other chunks.
    pub(super) payload: Option<usize>,
}

impl Sctp {
    /// Reads the packet at the start of `bytes`, which end where the IP datagram ends, into `packet`.
    pub(super) fn parse(bytes: &[u8], mut packet: Packet) -> Result<Sctp, WireError> {
        let h: &[u8; COMMON + CHUNK_HEADER] = bytes.first_chunk().ok_or(WireError::Truncated("SCTP header"))?;
        let chunk = Chunk::from_code(h[COMMON]).ok_or(WireError::Chunk(h[COMMON]))?;
        let length = usize::from(word(h, COMMON + 2));
        let here = bytes.len() - COMMON;
        let fragment = packet.fragment();
        if length < CHUNK_HEADER {
            return Err(WireError::Length("SCTP chunk"));
        }
        if fragment == Fragment::First {
            // The rest of the chunk is in other fragments, of which only DATA has a use.
            if chunk != Chunk::Data || length < here {
                return Err(WireError::Fragment);
            }
        } else if length > here {
            return Err(WireError::Truncated("SCTP chunk"));
        } else if here > length.next_multiple_of(4) {
            return Err(WireError::Bundle);
        } else if here < length.next_multiple_of(4) {
            return Err(WireError::Truncated("SCTP chunk"));
        }
        let body = &bytes[COMMON + CHUNK_HEADER..COMMON + length.min(here)];
        let tag = long(h, 4);
        let read = match chunk {
            Chunk::Data => Packet::sctp_data(packet.flow, tag, 0, (0, 0), 0),
            _ => Packet::sctp(packet.flow, tag, chunk),
        };
        let (ident, class, flags) = (packet.ident, packet.traffic_class(), u16::from(h[COMMON + 1]));
        packet = read;
        (packet.ident, packet.window) = (ident, flags);
        packet.set_traffic_class(class);
        packet.set_fragment(fragment);
        let mut sctp = Sctp { ports: (word(h, 0), word(h, 2)), packet, side: None, payload: None };
        sctp.read(chunk, body)?;
        Ok(sctp)
    }

    fn read(&mut self, chunk: Chunk, body: &[u8]) -> Result<(), WireError> {
        let p = &mut self.packet;
        let fixed = |n: usize| body.get(..n).ok_or(WireError::Length("SCTP chunk"));
        match chunk {
            Chunk::Data => {
                let h = fixed(12)?;
                p.seq = long(h, 0);
                p.tsval = long(h, 4);
                p.tsecr = long(h, 8);
                let bytes = body.len() - 12;
                if bytes == 0 {
                    return Err(WireError::Length("SCTP chunk")); // section 6.2: no user data
                }
                let most = usize::from(u16::MAX) - 48 - 3; // what a size can express, padding included
                if bytes > most {
                    return Err(WireError::TooLong);
                }
                p.set_sctp_payload(bytes as u16);
                self.payload = Some(bytes);
            }
            Chunk::Sack => {
                let h = fixed(12)?;
                let gaps = read_gaps(h, &body[12..])?;
                (p.seq, p.tsval) = (long(h, 0), long(h, 4));
                p.size = Packet::sctp_sack(p.flow, 0, 0, 0, &gaps).size;
                self.side = (gaps != Gaps::default()).then_some(Side::Gaps(gaps));
            }
            Chunk::Init | Chunk::InitAck => {
                let init = read_init(fixed(16)?, &body[16..], chunk == Chunk::InitAck)?;
                p.size = Packet::sctp_init(p.flow, 0, &init).size;
                self.side = Some(Side::Init(init));
            }
            Chunk::CookieEcho => {
                p.size = Packet::sctp_cookie_echo(p.flow, 0).size;
                self.side = Some(Side::Cookie(read_cookie(body)?));
            }
            Chunk::Error => {
                let h = fixed(8)?;
                if (word(h, 0), word(h, 2)) != (STALE_COOKIE, 8) {
                    return Err(WireError::Chunk(chunk as u8));
                }
                p.seq = long(h, 4);
                p.size = Packet::sctp_stale_cookie(p.flow, 0, 0).size;
            }
            Chunk::Shutdown => {
                p.seq = long(fixed(4)?, 0);
                p.size = Packet::sctp_shutdown(p.flow, 0, 0).size;
            }
            Chunk::ForwardTsn => {
                p.seq = long(fixed(4)?, 0);
                let mut skipped = Skipped::default();
                for s in body[4..].chunks_exact(4) {
                    if !skipped.note(word(s, 0), word(s, 2)) {
                        return Err(WireError::Length("SCTP chunk"));
                    }
                }
                p.size = Packet::sctp_forward_tsn(p.flow, 0, 0, &skipped).size;
                self.side = (skipped != Skipped::default()).then_some(Side::Skipped(skipped));
            }
            Chunk::Abort | Chunk::ShutdownAck | Chunk::CookieAck | Chunk::ShutdownComplete => {}
        }
        Ok(())
    }
}

/// Section 3.3.4: the counts, then blocks, then duplicates.
fn read_gaps(fixed: &[u8], rest: &[u8]) -> Result<Gaps, WireError> {
    let count = usize::from(word(fixed, 8));
    let twice = usize::from(word(fixed, 10));
    if rest.len() != 4 * (count + twice) {
        return Err(WireError::Length("SCTP chunk"));
    }
    let (gaps, duplicates) = rest.split_at(4 * count);
    let gaps = gaps.chunks_exact(4).map(|g| Gap { start: word(g, 0), end: word(g, 2) });
    Ok(Gaps::new(gaps, duplicates.chunks_exact(4).map(|d| long(d, 0))))
}

fn read_init(fixed: &[u8], parameters: &[u8], answer: bool) -> Result<Init, WireError> {
    let mut init = Init {
        tag: long(fixed, 0),
        a_rwnd: long(fixed, 4),
        outbound: word(fixed, 8),
        inbound: word(fixed, 10),
        tsn: long(fixed, 12),
        forward_tsn: false,
        cookie: None,
    };
    let mut rest = parameters;
    while !rest.is_empty() {
        let head: &[u8; 4] = rest.first_chunk().ok_or(WireError::Parameters)?;
        let length = usize::from(word(head, 2));
        let value = rest.get(4..length).ok_or(WireError::Parameters)?;
        match word(head, 0) {
            FORWARD_TSN_SUPPORTED => init.forward_tsn = true,
            STATE_COOKIE if answer => init.cookie = Some(read_cookie(value)?),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    if answer && init.cookie.is_none() {
        return Err(WireError::Parameters);
    }
    Ok(init)
}

fn read_cookie(bytes: &[u8]) -> Result<Cookie, WireError> {
    bytes.try_into().map_err(|_| WireError::Parameters)
}

/// Bytes before the payload, or of the whole packet if it has none; refuses side data that are not the chunk's.
pub(super) fn header_length(packet: &Packet, side: Option<&Side>) -> Result<usize, EncodeError> {
    let size = match (packet.chunk().ok_or(EncodeError::Chunk)?, side) {
        (Chunk::Data, None) => return Ok(DATA_HEADER),
        (Chunk::Data, _) => return Err(EncodeError::Side),
        (Chunk::Sack, Some(Side::Gaps(gaps))) => Packet::sctp_sack(packet.flow, 0, 0, 0, gaps).size,
        (Chunk::Sack, None) => Packet::sctp_sack(packet.flow, 0, 0, 0, &Gaps::default()).size,
        (Chunk::Init | Chunk::InitAck, Some(Side::Init(init))) => {
            let p = Packet::sctp_init(packet.flow, 0, init);
            if p.flags != packet.flags {
                return Err(EncodeError::Side);
            }
            p.size
        }
        (Chunk::CookieEcho, Some(Side::Cookie(_))) => Packet::sctp_cookie_echo(packet.flow, 0).size,
        (Chunk::ForwardTsn, Some(Side::Skipped(s))) => Packet::sctp_forward_tsn(packet.flow, 0, 0, s).size,
        (Chunk::ForwardTsn, None) => Packet::sctp_forward_tsn(packet.flow, 0, 0, &Skipped::default()).size,
        (Chunk::Error, None) => Packet::sctp_stale_cookie(packet.flow, 0, 0).size,
        (Chunk::Shutdown, None) => Packet::sctp_shutdown(packet.flow, 0, 0).size,
        (Chunk::Abort | Chunk::ShutdownAck | Chunk::CookieAck | Chunk::ShutdownComplete, None) => {
            Packet::sctp(packet.flow, 0, Chunk::Abort).size
        }
        _ => return Err(EncodeError::Side),
    };
    Ok(usize::from(size) - super::ip::V4_HEADER)
}

/// Writes headers, chunk and checksum into `bytes`, which hold the payload of a DATA chunk of `payload` bytes already
/// and are zero elsewhere.
pub(super) fn write(packet: &Packet, side: Option<&Side>, ports: (u16, u16), payload: usize, bytes: &mut [u8]) {
    let chunk = packet.chunk().expect("header_length knew it");
    let end = bytes.len();
    put(bytes, 0, ports.0);
    put(bytes, 2, ports.1);
    put_long(bytes, 4, packet.ack);
    bytes[COMMON] = packet.flags;
    bytes[COMMON + 1] = packet.window as u8;
    let length = if chunk == Chunk::Data { DATA_HEADER - COMMON + payload } else { end - COMMON };
    put(bytes, COMMON + 2, length as u16);
    let body = &mut bytes[COMMON + CHUNK_HEADER..];
    match chunk {
        Chunk::Data => {
            put_long(body, 0, packet.seq);
            put_long(body, 4, packet.tsval);
            put_long(body, 8, packet.tsecr);
        }
        Chunk::Sack => {
            put_long(body, 0, packet.seq);
            put_long(body, 4, packet.tsval);
            if let Some(Side::Gaps(gaps)) = side {
                write_gaps(gaps, &mut body[8..]);
            }
        }
        Chunk::Shutdown => put_long(body, 0, packet.seq),
        Chunk::ForwardTsn => {
            put_long(body, 0, packet.seq);
            if let Some(Side::Skipped(skipped)) = side {
                for (place, (stream, ssn)) in body[4..].chunks_exact_mut(4).zip(skipped.streams()) {
                    put(place, 0, *stream);
                    put(place, 2, *ssn);
                }
            }
        }
        Chunk::Error => {
            put(body, 0, STALE_COOKIE);
            put(body, 2, 8);
            put_long(body, 4, packet.seq);
        }
        Chunk::Init | Chunk::InitAck => {
            if let Some(Side::Init(init)) = side {
                write_init(init, body);
            }
        }
        Chunk::CookieEcho => {
            if let Some(Side::Cookie(cookie)) = side {
                body.copy_from_slice(cookie);
            }
        }
        Chunk::Abort | Chunk::ShutdownAck | Chunk::CookieAck | Chunk::ShutdownComplete => {}
    }
    let sum = crc32c(&*bytes);
    bytes[CHECKSUM..CHECKSUM + 4].copy_from_slice(&sum.to_le_bytes()); // appendix A: the low byte first
}

fn write_gaps(gaps: &Gaps, out: &mut [u8]) {
    put(out, 0, gaps.gaps().len() as u16);
    put(out, 2, gaps.duplicates().len() as u16);
    let (blocks, duplicates) = out[4..].split_at_mut(4 * gaps.gaps().len());
    for (place, gap) in blocks.chunks_exact_mut(4).zip(gaps.gaps()) {
        put(place, 0, gap.start);
        put(place, 2, gap.end);
    }
    for (place, tsn) in duplicates.chunks_exact_mut(4).zip(gaps.duplicates()) {
        put_long(place, 0, *tsn);
    }
}

fn write_init(init: &Init, out: &mut [u8]) {
    put_long(out, 0, init.tag);
    put_long(out, 4, init.a_rwnd);
    put(out, 8, init.outbound);
    put(out, 10, init.inbound);
    put_long(out, 12, init.tsn);
    let mut rest = &mut out[16..];
    if let Some(cookie) = &init.cookie {
        let (parameter, after) = rest.split_at_mut(4 + cookie.len());
        put(parameter, 0, STATE_COOKIE);
        put(parameter, 2, 4 + COOKIE_BYTES);
        parameter[4..].copy_from_slice(cookie);
        rest = after;
    }
    if init.forward_tsn {
        put(rest, 0, FORWARD_TSN_SUPPORTED);
        put(rest, 2, 4);
    }
}

/// Whether the checksum of the whole packet `bytes` is right.
pub(super) fn verify(bytes: &[u8]) -> bool {
    let (before, rest) = bytes.split_at(CHECKSUM);
    let (sum, after) = rest.split_at(4);
    crc32c(before.iter().chain(&[0; 4]).chain(after)).to_le_bytes() == *sum
}

#[cfg(test)]
mod tests {
    use super::super::{Addresses, Implied, IpPair, decode, encode, parse};
    use super::*;
    use crate::packet::FlowId;
    use std::net::Ipv4Addr;

    const ADDRESSES: Addresses = Addresses {
        ip: IpPair::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2) },
        src_port: 50_000,
        dst_port: 42_000,
    };

    fn bytes_of(p: &Packet, side: Option<Side>) -> Vec<u8> {
        let mut out = Vec::new();
        encode(p, side.as_ref(), &ADDRESSES, &Implied::of(p), &mut out).unwrap();
        out
    }

    #[test]
    fn a_data_chunk_byte_by_byte() {
        let p = Packet::sctp_data(FlowId::new(0, false), 0x0102_0304, 0x0a0b_0c0d, (3, 9), 5);
        let bytes = bytes_of(&p, None);
        assert_eq!(bytes.len(), usize::from(p.size));
        assert_eq!(bytes[9], 132);
        let sctp = &bytes[20..];
        assert_eq!(sctp[..8], [0xc3, 0x50, 0xa4, 0x10, 1, 2, 3, 4]);
        assert_eq!(sctp[12..28], [0, 3, 0, 21, 10, 11, 12, 13, 0, 3, 0, 9, 0, 0, 0, 0]);
        assert_eq!(sctp[33..], [0, 0, 0], "padding to a word");
        let d = decode(&bytes).unwrap();
        assert_eq!((d.packet.payload(), d.payload), (5, 48..53));
    }

    #[test]
    fn the_checksum_covers_padding() {
        let p = Packet::sctp_data(FlowId::new(0, false), 1, 1, (0, 0), 5);
        let mut bytes = bytes_of(&p, None);
        *bytes.last_mut().unwrap() ^= 1;
        assert_eq!(decode(&bytes), Err(WireError::Checksum("SCTP")));
    }

    #[test]
    fn unknown_chunks_are_refused() {
        let shutdown = bytes_of(&Packet::sctp_shutdown(FlowId::new(0, false), 1, 1), None);
        let with = |at: usize, value: u8| {
            let mut b = shutdown.clone();
            b[at] = value;
            parse(&b).map(|d| d.packet.chunk())
        };
        assert_eq!(with(20, 0), Ok(Some(Chunk::Shutdown)));
        assert_eq!(with(32, 4), Err(WireError::Chunk(4))); // HEARTBEAT
        assert_eq!(with(35, 4), Err(WireError::Bundle)); // a chunk of 4 bytes, and 4 more
        assert_eq!(with(35, 9), Err(WireError::Truncated("SCTP chunk")));
        assert_eq!(with(35, 3), Err(WireError::Length("SCTP chunk")));
        assert_eq!(with(32, 3), Err(WireError::Length("SCTP chunk"))); // a SACK is longer
    }

    #[test]
    fn unknown_parameters_are_skipped() {
        let init = Init { tag: 1, a_rwnd: 2, outbound: 3, inbound: 4, tsn: 5, forward_tsn: true, cookie: None };
        let mut bytes = bytes_of(&Packet::sctp_init(FlowId::new(0, false), 0, &init), Some(Side::Init(init)));
        bytes[52..56].copy_from_slice(&[0x80, 0x08, 0, 4]); // supported extensions, none
        let plain = Init { forward_tsn: false, ..init };
        assert_eq!(parse(&bytes).unwrap().side, Some(Side::Init(plain)));
        bytes[55] = 5;
        assert_eq!(parse(&bytes), Err(WireError::Parameters));
    }
}
