//! SCTP packets (RFC 9260 section 3, RFC 3758 section 3): common header, chunks, CRC32c. Roughlink writes one chunk per
//! packet. A received packet may have several, each read as a separate packet ([`super::Decoded::following`]). Chunk
//! types that [`Chunk`] lacks and unknown parameters are skipped; the highest bit of their type decides whether the
//! rest is processed (sections 3.2, 3.2.1). Of an ERROR chunk, only the first cause is read. Errors are not reported to
//! the sender. Gap ack blocks and duplicates beyond the room of [`Gaps`] are dropped.

use super::crc32c::crc32c;
use super::ip::{long, put, put_long, word};
use super::protocol::SCTP_DATA_HEADER as DATA_HEADER;
use super::{EncodeError, WireError};
use crate::packet::{
    COOKIE_BYTES, Chunk, Cookie, Fragment, Gap, Gaps, Init, Packet, STALE_COOKIE, SideContent, Skipped,
};
use std::ops::Range;

const COMMON: usize = 12;
const CHECKSUM: usize = 8;
const CHUNK_HEADER: usize = 4;
/// Type of an I-DATA chunk, which roughlink only counts, and bytes before its user data.
const I_DATA: u8 = 64;
const I_DATA_HEADER: usize = 20;

// Parameters: RFC 9260 sections 3.3.2 and 3.3.3, RFC 3758 section 3.1.
const STATE_COOKIE: u16 = 7;
const FORWARD_TSN_SUPPORTED: u16 = 0xc000;
/// Ignored parameters of RFC 9260: addresses, unrecognized parameters, cookie lifetime, host name, address types.
const KNOWN: [u16; 6] = [5, 6, 8, 9, 11, 12];
/// Bit in an unknown type: skip it and process the rest.
const SKIP_CHUNK: u8 = 0x80;
const SKIP_PARAMETER: u16 = 0x8000;

pub(super) struct ChunkPacket {
    pub(super) ports: (u16, u16),
    pub(super) packet: Packet,
    pub(super) side: Option<SideContent>,
    /// Range of a DATA chunk's user data, or of bytes for [`crate::packet::Sides::carried`]; `None` in other chunks.
    pub(super) payload: Option<Range<usize>>,
    pub(super) next: Option<usize>,
}

impl ChunkPacket {
    /// Reads the first chunk of the SCTP packet `bytes`, which ends with the IP datagram, into `packet`.
    pub(super) fn parse(bytes: &[u8], packet: Packet) -> Result<ChunkPacket, WireError> {
        ChunkPacket::parse_at(bytes, COMMON, packet)
    }

    pub(super) fn parse_at(bytes: &[u8], at: usize, mut packet: Packet) -> Result<ChunkPacket, WireError> {
        let h: &[u8; COMMON] = bytes.first_chunk().ok_or(WireError::Truncated("SCTP header"))?;
        let here = bytes.len().saturating_sub(at);
        let &[code, flags, ..] = bytes.get(at..at + CHUNK_HEADER).ok_or(WireError::Truncated("SCTP chunk"))? else {
            return Err(WireError::Truncated("SCTP chunk"));
        };
        let chunk = Chunk::from_code(code);
        let length = usize::from(word(bytes, at + 2));
        let fragment = packet.fragment();
        let mut next = None;
        if length < CHUNK_HEADER {
            return Err(WireError::Length("SCTP chunk"));
        }
        if fragment == Fragment::First {
            // The rest of the chunk is in other fragments. Only a DATA chunk can be used without it.
            if chunk != Some(Chunk::Data) || length < here {
                return Err(WireError::Fragment);
            }
        } else if length.next_multiple_of(4) > here {
            return Err(WireError::Truncated("SCTP chunk"));
        } else if here > length.next_multiple_of(4) {
            next = Some(at + length.next_multiple_of(4)).filter(|_| chunk.is_some() || code & SKIP_CHUNK != 0);
        }
        // Section 6.10: these come alone.
        let alone = matches!(chunk, Some(Chunk::Init | Chunk::InitAck | Chunk::ShutdownComplete));
        if alone && (at != COMMON || next.is_some()) {
            return Err(WireError::Bundle);
        }
        let body = at + CHUNK_HEADER;
        let tag = long(h, 4);
        let read = match chunk {
            Some(Chunk::Data) => Packet::sctp_data(packet.flow, tag, 0, (0, 0), 0),
            _ => Packet::sctp(packet.flow, tag, Chunk::Abort),
        };
        let (ident, class) = (packet.ident, packet.traffic_class());
        packet = read;
        (packet.ident, packet.flags, packet.window) = (ident, code, u16::from(flags));
        packet.set_traffic_class(class);
        packet.set_fragment(fragment);
        let mut sctp = ChunkPacket { ports: (word(h, 0), word(h, 2)), packet, side: None, payload: None, next };
        if let Some(chunk) = chunk {
            sctp.read(chunk, &bytes[body..at + length.min(here)], body)?;
        }
        Ok(sctp)
    }

    /// Reads the `body` of a chunk, which begins at `at`.
    fn read(&mut self, chunk: Chunk, body: &[u8], at: usize) -> Result<(), WireError> {
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
                let most = usize::from(u16::MAX) - 48 - 3; // the largest that a size can express, with padding
                if bytes > most {
                    return Err(WireError::TooLong);
                }
                p.set_sctp_payload(bytes as u16);
                self.payload = Some(at + 12..at + body.len());
            }
            Chunk::Sack => {
                let h = fixed(12)?;
                let gaps = read_gaps(h, &body[12..])?;
                (p.seq, p.tsval) = (long(h, 0), long(h, 4));
                p.size = Packet::sctp_sack(p.flow, 0, 0, 0, &gaps).size;
                self.side = (gaps != Gaps::default()).then_some(SideContent::Gaps(gaps));
            }
            Chunk::Init | Chunk::InitAck => {
                let (init, cookie) = read_init(fixed(16)?, &body[16..], chunk == Chunk::InitAck)?;
                self.payload = cookie.map(|cookie| at + 16 + cookie.start..at + 16 + cookie.end);
                p.size = Packet::sctp_init(p.flow, 0, &init).size;
                self.side = Some(SideContent::Init(init));
            }
            Chunk::CookieEcho => {
                // A cookie of another length is not from this end.
                let cookie = Cookie::Own(body.try_into().map_err(|_| WireError::Parameters)?);
                p.size = Packet::sctp_cookie_echo(p.flow, 0, &cookie).size;
                self.side = Some(SideContent::Cookie(cookie));
            }
            Chunk::Heartbeat | Chunk::HeartbeatAck => {
                fixed(CHUNK_HEADER)?; // section 3.3.5: a parameter
                p.size = Packet::sctp_heartbeat(p.flow, 0, chunk, short(body.len())?).size;
                self.payload = Some(at..at + body.len());
                self.side = Some(SideContent::Heartbeat(0));
            }
            Chunk::Error => {
                let cause = word(fixed(CHUNK_HEADER)?, 0);
                p.tsval = u32::from(cause);
                p.seq = if cause == STALE_COOKIE { long(fixed(8)?, 4) } else { 0 };
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
                self.side = (skipped != Skipped::default()).then_some(SideContent::Skipped(skipped));
            }
            Chunk::Abort | Chunk::ShutdownAck | Chunk::CookieAck | Chunk::ShutdownComplete => {}
        }
        Ok(())
    }
}

/// Reads the counts, then blocks, then duplicates (section 3.3.4).
/// Counts the user data of DATA (RFC 9260 section 3.3.1) and I-DATA chunks (RFC 8260 section 2.1) in an SCTP packet.
pub(super) fn user_bytes(packet: &[u8]) -> usize {
    let mut bytes = 0;
    let mut rest = packet.get(COMMON..).unwrap_or_default();
    while let &[code, _, high, low, ..] = rest {
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length < CHUNK_HEADER {
            break;
        }
        let header = match code {
            I_DATA => Some(I_DATA_HEADER),
            code => (Chunk::from_code(code) == Some(Chunk::Data)).then_some(DATA_HEADER - COMMON),
        };
        bytes += header.map_or(0, |header| length.min(rest.len()).saturating_sub(header));
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    bytes
}

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

/// Reads an INIT or INIT ACK. Also returns the range of a cookie whose length shows that it was made elsewhere.
fn read_init(fixed: &[u8], parameters: &[u8], answer: bool) -> Result<(Init, Option<Range<usize>>), WireError> {
    let mut init = Init {
        tag: long(fixed, 0),
        a_rwnd: long(fixed, 4),
        outbound: word(fixed, 8),
        inbound: word(fixed, 10),
        tsn: long(fixed, 12),
        forward_tsn: false,
        cookie: None,
    };
    let (mut rest, mut other) = (parameters, None);
    while !rest.is_empty() {
        let head: &[u8; 4] = rest.first_chunk().ok_or(WireError::Parameters)?;
        let length = usize::from(word(head, 2));
        let value = rest.get(4..length).ok_or(WireError::Parameters)?;
        match word(head, 0) {
            FORWARD_TSN_SUPPORTED => init.forward_tsn = true,
            STATE_COOKIE if answer && !value.is_empty() => {
                let at = parameters.len() - rest.len() + CHUNK_HEADER;
                let own = value.try_into().map(Cookie::Own);
                other = own.is_err().then_some(at..at + value.len());
                init.cookie = Some(own.unwrap_or(Cookie::Other { number: 0, bytes: short(value.len())? }));
            }
            unknown if unknown & SKIP_PARAMETER == 0 && !KNOWN.contains(&unknown) => break,
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    if answer && init.cookie.is_none() {
        return Err(WireError::Parameters);
    }
    Ok((init, other))
}

/// Returns the length of carried bytes if it fits into the size of a packet.
fn short(bytes: usize) -> Result<u16, WireError> {
    u16::try_from(bytes).ok().filter(|n| *n <= MAX_CARRIED_LEN).ok_or(WireError::TooLong)
}

/// Room in a packet's size after the headers of the longest INIT ACK.
const MAX_CARRIED_LEN: u16 = u16::MAX - 128;

/// Returns the bytes before the payload, or of the whole packet without one; fails if the side data do not match.
pub(super) fn header_length(packet: &Packet, side: Option<&SideContent>) -> Result<usize, EncodeError> {
    let size = match (packet.chunk().ok_or(EncodeError::Chunk)?, side) {
        (Chunk::Data, None) => return Ok(DATA_HEADER),
        (Chunk::CookieEcho, Some(SideContent::Cookie(Cookie::Other { .. })))
        | (Chunk::Heartbeat | Chunk::HeartbeatAck, Some(SideContent::Heartbeat(_))) => return Ok(COMMON + CHUNK_HEADER),
        // Read, and never written.
        (Chunk::InitAck, Some(SideContent::Init(Init { cookie: Some(Cookie::Other { .. }), .. }))) => {
            return Err(EncodeError::Chunk);
        }
        (Chunk::Error, None) if packet.tsval != u32::from(STALE_COOKIE) => return Err(EncodeError::Chunk),
        (Chunk::Data, _) => return Err(EncodeError::Side),
        (Chunk::Sack, Some(SideContent::Gaps(gaps))) => Packet::sctp_sack(packet.flow, 0, 0, 0, gaps).size,
        (Chunk::Sack, None) => Packet::sctp_sack(packet.flow, 0, 0, 0, &Gaps::default()).size,
        (Chunk::Init | Chunk::InitAck, Some(SideContent::Init(init))) => {
            let p = Packet::sctp_init(packet.flow, 0, init);
            if p.flags != packet.flags {
                return Err(EncodeError::Side);
            }
            p.size
        }
        (Chunk::CookieEcho, Some(SideContent::Cookie(cookie))) => Packet::sctp_cookie_echo(packet.flow, 0, cookie).size,
        (Chunk::ForwardTsn, Some(SideContent::Skipped(s))) => Packet::sctp_forward_tsn(packet.flow, 0, 0, s).size,
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

/// Writes headers, chunk and checksum into `bytes`, which already hold `payload` bytes and are zero elsewhere.
pub(super) fn write(packet: &Packet, side: Option<&SideContent>, ports: (u16, u16), payload: usize, bytes: &mut [u8]) {
    let chunk = packet.chunk().expect("header_length knew it");
    let end = bytes.len();
    put(bytes, 0, ports.0);
    put(bytes, 2, ports.1);
    put_long(bytes, 4, packet.ack);
    bytes[COMMON] = packet.flags;
    bytes[COMMON + 1] = packet.window as u8;
    let padding = payload.wrapping_neg() & 3;
    let length = end - COMMON - padding;
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
            if let Some(SideContent::Gaps(gaps)) = side {
                write_gaps(gaps, &mut body[8..]);
            }
        }
        Chunk::Shutdown => put_long(body, 0, packet.seq),
        Chunk::ForwardTsn => {
            put_long(body, 0, packet.seq);
            if let Some(SideContent::Skipped(skipped)) = side {
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
            if let Some(SideContent::Init(init)) = side {
                write_init(init, body);
            }
        }
        Chunk::CookieEcho => {
            if let Some(SideContent::Cookie(Cookie::Own(cookie))) = side {
                body.copy_from_slice(cookie);
            }
        }
        Chunk::Heartbeat | Chunk::HeartbeatAck => {} // it is payload
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
    if let Some(Cookie::Own(cookie)) = &init.cookie {
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

pub(super) fn verify(bytes: &[u8]) -> bool {
    let (before, rest) = bytes.split_at(CHECKSUM);
    let (sum, after) = rest.split_at(4);
    crc32c(before.iter().chain(&[0; 4]).chain(after)).to_le_bytes() == *sum
}

#[cfg(test)]
mod tests {
    use super::super::{Addresses, Implied, IpPair, decode, encode, parse};
    use super::*;
    use crate::packet::{FlowId, Sides};
    use std::net::Ipv4Addr;

    const ADDRESSES: Addresses = Addresses {
        ip: IpPair::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2) },
        src_port: 50_000,
        dst_port: 42_000,
    };

    fn bytes_of(p: &Packet, side: Option<SideContent>) -> Vec<u8> {
        let mut out = Vec::new();
        encode(p, side.as_ref(), &ADDRESSES, &Implied::from_packet(p), &mut out).unwrap();
        out
    }

    #[test]
    fn data_chunk_has_the_expected_bytes() {
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

    fn chunk(code: u8, flags: u8, body: &[u8]) -> Vec<u8> {
        let mut out = vec![code, flags];
        out.extend((body.len() as u16 + 4).to_be_bytes());
        out.extend(body);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    fn bundle(chunks: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = bytes_of(&Packet::sctp(FlowId::new(0, false), 9, Chunk::CookieAck), None)[..32].to_vec();
        bytes.extend(chunks.concat());
        let length = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        bytes
    }

    /// Returns the types of the chunks read, and the error that ended reading.
    fn read(bytes: &[u8]) -> (Vec<u8>, Option<WireError>) {
        let (mut codes, mut next) = (Vec::new(), parse(bytes).map(Some));
        loop {
            match next {
                Ok(Some(d)) => {
                    codes.push(d.packet.flags);
                    assert_eq!(d.packet.ack, 9);
                    next = d.following(bytes);
                }
                Ok(None) => return (codes, None),
                Err(e) => return (codes, Some(e)),
            }
        }
    }

    #[test]
    fn chunks_of_a_bundle_are_read_in_order() {
        let data =
            |tsn: u8, flags, text: &[u8]| chunk(0, flags, &[&[0, 0, 0, tsn, 0, 1, 0, 2, 0, 0, 0, 0], text].concat());
        let sack = chunk(3, 0, &[0, 0, 0, 5, 0, 0, 4, 0, 0, 0, 0, 0]);
        let bytes = bundle(&[sack.clone(), data(7, 2, b"abc"), data(8, 1, b"defgh")]);
        let first = parse(&bytes).unwrap();
        let second = first.following(&bytes).unwrap().unwrap();
        let third = second.following(&bytes).unwrap().unwrap();
        assert_eq!(third.following(&bytes), Ok(None));
        assert_eq!((first.packet.chunk(), first.packet.tsval), (Some(Chunk::Sack), 1024));
        assert_eq!((second.packet.seq, second.packet.window, &bytes[second.payload]), (7, 2, &b"abc"[..]));
        assert_eq!((third.packet.seq, third.packet.window, &bytes[third.payload]), (8, 1, &b"defgh"[..]));
        assert_eq!(third.packet.stream(), (1, 2));
        // Nothing is read after an invalid chunk or beyond the datagram.
        assert_eq!(read(&bundle(&[sack.clone(), vec![0, 3, 0, 3]])), (vec![3], Some(WireError::Length("SCTP chunk"))));
        let cut = bundle(&[sack.clone(), vec![0, 3, 0, 20, 1, 2, 3, 4]]);
        assert_eq!(read(&cut), (vec![3], Some(WireError::Truncated("SCTP chunk"))));
        assert_eq!(read(&bundle(&[sack.clone(), vec![11, 0]])).1, Some(WireError::Truncated("SCTP chunk")));
        let many: Vec<_> = (0..15_000).map(|_| chunk(0xbf, 0, &[])).collect();
        assert_eq!(read(&bundle(&many)).0.len(), 15_000);
        // Chunks that must be alone in a packet.
        let complete = chunk(14, 0, &[]);
        assert_eq!(read(&bundle(&[complete.clone(), sack.clone()])), (vec![], Some(WireError::Bundle)));
        assert_eq!(read(&bundle(&[sack, complete])), (vec![3], Some(WireError::Bundle)));
    }

    #[test]
    fn type_of_an_unknown_chunk_decides_whether_parsing_continues() {
        let ack = chunk(11, 0, &[]);
        for (code, goes_on) in [(0x3f, false), (0x7f, false), (0x80, true), (0xc1, true)] {
            let bytes = bundle(&[chunk(code, 0, b"?"), ack.clone()]);
            let expected = if goes_on { vec![code, 11] } else { vec![code] };
            assert_eq!(read(&bytes), (expected, None));
            assert_eq!(parse(&bytes).unwrap().packet.chunk(), None);
        }
    }

    #[test]
    fn opaque_chunk_contents_of_the_peer_are_carried() {
        let bytes = bundle(&[chunk(4, 0, &[0, 1, 0, 9, 1, 2, 3, 4, 5])]);
        let d = parse(&bytes).unwrap();
        assert_eq!(
            (d.packet.chunk(), &bytes[d.payload.clone()]),
            (Some(Chunk::Heartbeat), &[0, 1, 0, 9, 1, 2, 3, 4, 5][..])
        );
        let mut sides = Sides::default();
        let p = d.into_packet(&bytes, FlowId::new(0, false), &mut sides);
        let mut ack = p;
        ack.flags = Chunk::HeartbeatAck as u8;
        let mut answer = Vec::new();
        encode(&ack, sides.get(&p), &ADDRESSES, sides.carried(&p).unwrap(), &mut answer).unwrap();
        assert_eq!((answer[32], &answer[33..]), (5, &bytes[33..]));
        assert!(decode(&answer).is_ok());
        sides.free(&p);
        assert_eq!((sides.in_use(), sides.outside_bytes()), (0, 0));
        // A cookie as another implementation makes it.
        let init = [
            &[0, 0, 0, 1, 0, 0, 8, 0, 0, 1, 0, 1, 0, 0, 0, 7][..],
            &[0, 7, 0, 10, 9, 8, 7, 6, 5, 4, 0, 0],
            &[0xc0, 0, 0, 4],
        ];
        let bytes = bundle(&[chunk(2, 0, &init.concat())]);
        let p = parse(&bytes).unwrap().into_packet(&bytes, FlowId::new(0, false), &mut sides);
        let Some(SideContent::Init(Init { cookie: Some(cookie), forward_tsn: true, .. })) = sides.get(&p).copied()
        else {
            panic!()
        };
        assert_eq!(sides.carried(&p), Some(&[9, 8, 7, 6, 5, 4][..]));
        let echo = Packet::sctp_cookie_echo(FlowId::new(0, false), 1, &cookie);
        answer.clear();
        encode(&echo, Some(&SideContent::Cookie(cookie)), &ADDRESSES, sides.carried(&p).unwrap(), &mut answer).unwrap();
        assert_eq!(answer[32..], [10, 0, 0, 10, 9, 8, 7, 6, 5, 4, 0, 0]);
        assert_eq!(decode(&answer), Err(WireError::Parameters), "none of ours");
    }

    #[test]
    fn malformed_chunks_are_rejected() {
        let shutdown = bytes_of(&Packet::sctp_shutdown(FlowId::new(0, false), 1, 1), None);
        let with = |at: usize, value: u8| {
            let mut b = shutdown.clone();
            b[at] = value;
            parse(&b).map(|d| d.packet.chunk())
        };
        assert_eq!(with(20, 0), Ok(Some(Chunk::Shutdown)));
        assert_eq!(with(32, 0x3f), Ok(None));
        assert_eq!(with(35, 4), Err(WireError::Length("SCTP chunk"))); // a chunk of 4 bytes is too short
        assert_eq!(with(35, 9), Err(WireError::Truncated("SCTP chunk")));
        assert_eq!(with(35, 3), Err(WireError::Length("SCTP chunk")));
        assert_eq!(with(32, 3), Err(WireError::Length("SCTP chunk"))); // a SACK is longer
    }

    #[test]
    fn unknown_parameters_are_skipped() {
        let init = Init { tag: 1, a_rwnd: 2, outbound: 3, inbound: 4, tsn: 5, forward_tsn: true, cookie: None };
        let mut bytes = bytes_of(&Packet::sctp_init(FlowId::new(0, false), 0, &init), Some(SideContent::Init(init)));
        bytes[52..56].copy_from_slice(&[0x80, 0x08, 0, 4]); // supported extensions, none
        let plain = Init { forward_tsn: false, ..init };
        assert_eq!(parse(&bytes).unwrap().side, Some(SideContent::Init(plain)));
        bytes[55] = 5;
        assert_eq!(parse(&bytes), Err(WireError::Parameters));
        // An unknown parameter ends processing if the highest bit of its type is 0 (section 3.2.1).
        let mut bytes = bundle(&[chunk(1, 0, &[&[0; 16][..], &[0x3f, 0xff, 0, 4, 0xc0, 0, 0, 4]].concat())]);
        let forward_tsn =
            |bytes: &[u8]| matches!(parse(bytes).unwrap().side, Some(SideContent::Init(i)) if i.forward_tsn);
        assert!(!forward_tsn(&bytes));
        bytes[52] = 0x80;
        assert!(forward_tsn(&bytes));
    }
}
