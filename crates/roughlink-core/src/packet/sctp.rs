//! SCTP packets (RFC 9260 section 3): a common header and one chunk. [`Packet::ack`] holds the verification tag,
//! [`Packet::flags`] the chunk type, and [`Packet::window`] the chunk flags. The other fields depend on the chunk:
//!
//! | chunk | `seq` | `tsval` | `tsecr` | side slot |
//! |---|---|---|---|---|
//! | DATA | TSN | stream, stream sequence number | payload protocol identifier | |
//! | SACK | cumulative TSN | a_rwnd | | [`Gaps`], if any |
//! | INIT, INIT ACK | | | | [`Init`] |
//! | COOKIE ECHO | | | | [`Cookie`] |
//! | HEARTBEAT, HEARTBEAT ACK | | | | content, [`super::Sides::carried`] |
//! | ERROR | staleness of a cookie, us | first cause | | |
//! | SHUTDOWN | cumulative TSN | | | |
//! | FORWARD TSN | new cumulative TSN | | | [`Skipped`], if any |
//!
//! Each chunk of an external packet becomes a packet (section 6.10). Unknown chunk types have no [`Packet::chunk`].

use super::{FlowId, INFO_SACKS, INFO_SCTP, Packet};

/// Chunk types (RFC 9260 section 3.2, RFC 3758 section 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are RFC 9260's")]
#[repr(u8)]
pub enum Chunk {
    Data = 0,
    Init = 1,
    InitAck = 2,
    Sack = 3,
    Heartbeat = 4,
    HeartbeatAck = 5,
    Abort = 6,
    Shutdown = 7,
    ShutdownAck = 8,
    Error = 9,
    CookieEcho = 10,
    CookieAck = 11,
    ShutdownComplete = 14,
    ForwardTsn = 192,
}

impl Chunk {
    const ALL: [Chunk; 14] = [
        Chunk::Data,
        Chunk::Init,
        Chunk::InitAck,
        Chunk::Sack,
        Chunk::Heartbeat,
        Chunk::HeartbeatAck,
        Chunk::Abort,
        Chunk::Shutdown,
        Chunk::ShutdownAck,
        Chunk::Error,
        Chunk::CookieEcho,
        Chunk::CookieAck,
        Chunk::ShutdownComplete,
        Chunk::ForwardTsn,
    ];

    /// Returns the chunk with this type number.
    pub fn from_code(code: u8) -> Option<Chunk> {
        Chunk::ALL.into_iter().find(|c| *c as u8 == code)
    }
}

/// Chunk flags (RFC 9260 sections 3.3.1 and 8.5.1).
pub mod chunk_flags {
    /// DATA: the last part of a user message.
    pub const END: u8 = 0x01;
    /// DATA: the first part of a user message.
    pub const BEGIN: u8 = 0x02;
    /// DATA: delivered regardless of the order within the stream.
    pub const UNORDERED: u8 = 0x04;
    /// ABORT, SHUTDOWN COMPLETE: the verification tag is copied from the packet that this chunk answers.
    pub const REFLECTED: u8 = 0x01;
}

/// A gap ack block: TSNs that have arrived, as offsets from the cumulative TSN (RFC 9260 section 3.3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gap {
    /// Offset of the first TSN, at least 2.
    pub start: u16,
    /// Offset of the last TSN.
    pub end: u16,
}

/// The variable part of a SACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gaps {
    gaps: [Gap; Gaps::MAX_GAPS],
    duplicates: [u32; Gaps::MAX_DUPLICATES],
    gap_count: u8,
    duplicate_count: u8,
}

impl Gaps {
    /// Maximum number of gap ack blocks in a SACK; lower blocks go first (16 in Linux too: `SCTP_MAX_GABS`).
    pub const MAX_GAPS: usize = 16;
    /// Maximum number of duplicate TSNs in a SACK.
    pub const MAX_DUPLICATES: usize = 4;

    /// Creates a SACK with the first `gaps` and `duplicates`, up to the maximum.
    pub fn new(gaps: impl IntoIterator<Item = Gap>, duplicates: impl IntoIterator<Item = u32>) -> Self {
        let mut all = Gaps::default();
        for (place, gap) in all.gaps.iter_mut().zip(gaps) {
            *place = gap;
            all.gap_count += 1;
        }
        for (place, tsn) in all.duplicates.iter_mut().zip(duplicates) {
            *place = tsn;
            all.duplicate_count += 1;
        }
        all
    }
    /// Returns the gap ack blocks.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps[..usize::from(self.gap_count)]
    }
    /// Returns the TSNs that arrived more than once.
    pub fn duplicates(&self) -> &[u32] {
        &self.duplicates[..usize::from(self.duplicate_count)]
    }
    const fn bytes(&self) -> u16 {
        4 * (self.gap_count as u16 + self.duplicate_count as u16)
    }
}

/// State cookie: opaque to every host except its creator (RFC 9260 section 5.1.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cookie {
    /// A cookie as long as roughlink's own.
    Own([u8; COOKIE_BYTES as usize]),
    /// A cookie of another length.
    Other {
        /// Number under which its bytes are stored: see [`super::Sides::carried`].
        number: u32,
        /// Length in bytes.
        bytes: u16,
    },
}

impl Cookie {
    const fn bytes(&self) -> u16 {
        match self {
            Cookie::Own(_) => COOKIE_BYTES,
            Cookie::Other { bytes, .. } => *bytes,
        }
    }
}

/// The content of an INIT or INIT ACK (RFC 9260 sections 3.3.2 and 3.3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Init {
    /// Verification tag that the other side must use.
    pub tag: u32,
    /// Advertised receiver window, bytes.
    pub a_rwnd: u32,
    /// Outbound streams requested.
    pub outbound: u16,
    /// Maximum inbound streams accepted.
    pub inbound: u16,
    /// Initial TSN.
    pub tsn: u32,
    /// Forward-TSN-supported (RFC 3758 section 3.1).
    pub forward_tsn: bool,
    /// Cookie of an INIT ACK.
    pub cookie: Option<Cookie>,
}

impl Init {
    const fn bytes(&self) -> u16 {
        let cookie = if let Some(cookie) = &self.cookie { 4 + cookie.bytes().next_multiple_of(4) } else { 0 };
        16 + if self.forward_tsn { 4 } else { 0 } + cookie
    }
}

/// Streams in which a FORWARD TSN skips messages, with the last sequence number skipped in each (RFC 3758 section 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Skipped {
    streams: [(u16, u16); Skipped::MOST],
    count: u8,
}

impl Skipped {
    /// Maximum number of streams in a FORWARD TSN; a sender that skips more uses several.
    pub const MOST: usize = 16;

    /// Records that `stream` skips all messages up to `ssn`, which must be later than any `ssn` recorded for it before.
    /// Returns false if there is no room.
    pub fn note(&mut self, stream: u16, ssn: u16) -> bool {
        let count = usize::from(self.count);
        if let Some(known) = self.streams[..count].iter_mut().find(|s| s.0 == stream) {
            known.1 = ssn;
            return true;
        }
        let Some(place) = self.streams.get_mut(count) else { return false };
        *place = (stream, ssn);
        self.count += 1;
        true
    }
    /// Returns the streams, each with its last skipped sequence number.
    pub fn streams(&self) -> &[(u16, u16)] {
        &self.streams[..usize::from(self.count)]
    }
}

impl Packet {
    /// Creates a packet with a chunk that has no content after its header.
    pub const fn sctp(flow: FlowId, tag: u32, chunk: Chunk) -> Self {
        let mut p = Packet::tcp(flow);
        p.info = INFO_SCTP;
        p.ack = tag;
        p.flags = chunk as u8;
        p.size = SCTP_HEADERS + 4;
        p
    }

    /// Creates a DATA chunk: message `ssn` of stream `stream`, whole, with `bytes` of payload.
    pub const fn sctp_data(flow: FlowId, tag: u32, tsn: u32, (stream, ssn): (u16, u16), bytes: u16) -> Self {
        let mut p = Packet::sctp(flow, tag, Chunk::Data);
        p.seq = tsn;
        p.tsval = (stream as u32) << 16 | ssn as u32;
        p.window = (chunk_flags::BEGIN | chunk_flags::END) as u16;
        p.set_sctp_payload(bytes);
        p
    }

    /// Creates a SACK. If `gaps` is not empty, set [`Packet::side`] to it.
    pub const fn sctp_sack(flow: FlowId, tag: u32, cumulative: u32, a_rwnd: u32, gaps: &Gaps) -> Self {
        let mut p = Packet::sctp(flow, tag, Chunk::Sack);
        p.seq = cumulative;
        p.tsval = a_rwnd;
        p.size = SCTP_HEADERS + 16 + gaps.bytes();
        p
    }

    /// Creates an INIT, or an INIT ACK if `init` has a cookie. Set [`Packet::side`] to `init`.
    pub const fn sctp_init(flow: FlowId, tag: u32, init: &Init) -> Self {
        let mut p = Packet::sctp(flow, tag, if init.cookie.is_some() { Chunk::InitAck } else { Chunk::Init });
        p.size = SCTP_HEADERS + 4 + init.bytes();
        p
    }

    /// Creates a COOKIE ECHO. Set [`Packet::side`] to the cookie.
    pub const fn sctp_cookie_echo(flow: FlowId, tag: u32, cookie: &Cookie) -> Self {
        let mut p = Packet::sctp(flow, tag, Chunk::CookieEcho);
        p.size += cookie.bytes().next_multiple_of(4);
        p
    }

    /// Creates a HEARTBEAT or HEARTBEAT ACK with `bytes` of content. Set [`Packet::side`] to the content.
    pub const fn sctp_heartbeat(flow: FlowId, tag: u32, chunk: Chunk, bytes: u16) -> Self {
        let mut p = Packet::sctp(flow, tag, chunk);
        p.size += bytes.next_multiple_of(4);
        p
    }

    /// Creates an ERROR: the cookie was `staleness` microseconds too old (RFC 9260 section 3.3.10.3).
    pub const fn sctp_stale_cookie(flow: FlowId, tag: u32, staleness: u32) -> Self {
        let mut p = Packet::sctp(flow, tag, Chunk::Error);
        (p.seq, p.tsval) = (staleness, STALE_COOKIE as u32);
        p.size = SCTP_HEADERS + 4 + 8;
        p
    }

    /// Creates a SHUTDOWN.
    pub const fn sctp_shutdown(flow: FlowId, tag: u32, cumulative: u32) -> Self {
        let mut p = Packet::sctp(flow, tag, Chunk::Shutdown);
        p.seq = cumulative;
        p.size = SCTP_HEADERS + 4 + 4;
        p
    }

    /// Creates a FORWARD TSN. If `skipped` is not empty, set [`Packet::side`] to it.
    pub const fn sctp_forward_tsn(flow: FlowId, tag: u32, cumulative: u32, skipped: &Skipped) -> Self {
        let mut p = Packet::sctp(flow, tag, Chunk::ForwardTsn);
        p.seq = cumulative;
        p.size = SCTP_HEADERS + 4 + 4 + 4 * skipped.count as u16;
        p
    }

    /// Returns the chunk of an SCTP packet.
    #[inline]
    pub fn chunk(&self) -> Option<Chunk> {
        Chunk::from_code(self.flags)
    }

    /// Returns the stream and the stream sequence number of a DATA chunk.
    #[inline]
    pub const fn stream(&self) -> (u16, u16) {
        ((self.tsval >> 16) as u16, self.tsval as u16)
    }

    /// Sets the size for a DATA chunk of `bytes` of payload, padded to a word as on the wire.
    pub(crate) const fn set_sctp_payload(&mut self, bytes: u16) {
        let padding = bytes.wrapping_neg() & 3;
        self.info = self.info & !INFO_SACKS | (padding as u8) << 5;
        self.size = SCTP_HEADERS + DATA_HEADER + bytes + padding;
    }

    /// Returns the padding of a DATA chunk, stored in the bits that count the SACK blocks in TCP.
    #[inline]
    pub(super) const fn sctp_padding(&self) -> u16 {
        ((self.info & INFO_SACKS) >> 5) as u16
    }

    /// Returns the bytes before the payload of a DATA chunk, IPv4 header included, or the whole size of other packets.
    #[inline]
    pub(super) const fn sctp_header_bytes(&self) -> u16 {
        if self.flags == Chunk::Data as u8 { SCTP_HEADERS + DATA_HEADER } else { self.size }
    }
}

/// Error cause "stale cookie" of an ERROR chunk (RFC 9260 section 3.3.10.3).
pub const STALE_COOKIE: u16 = 3;
/// Length of roughlink's state cookie, bytes.
pub const COOKIE_BYTES: u16 = 48;

/// Bytes of IPv4 header and common header.
const SCTP_HEADERS: u16 = 20 + 12;
const DATA_HEADER: u16 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: FlowId = FlowId::new(0, false);

    #[test]
    fn sizes_match_the_wire() {
        let p = Packet::sctp_data(FLOW, 1, 5, (3, 9), 1468);
        assert_eq!((p.size, p.payload(), p.stream()), (20 + 12 + 16 + 1468, 1468, (3, 9)));
        for (bytes, padded) in [(1, 4), (2, 4), (3, 4), (4, 4), (5, 8)] {
            let p = Packet::sctp_data(FLOW, 1, 5, (0, 0), bytes);
            assert_eq!((p.size, p.payload()), (48 + padded, u32::from(bytes)));
        }
        let gaps = Gaps::new((2..40).map(|i| Gap { start: 2 * i, end: 2 * i }), [7, 8]);
        assert_eq!((gaps.gaps().len(), gaps.duplicates()), (16, &[7, 8][..]));
        let p = Packet::sctp_sack(FLOW, 1, 5, 9, &gaps);
        assert_eq!((p.size, p.payload()), (32 + 16 + 64 + 8, 0));
        let mut init = Init { tag: 1, a_rwnd: 2, outbound: 3, inbound: 4, tsn: 5, forward_tsn: false, cookie: None };
        assert_eq!(Packet::sctp_init(FLOW, 0, &init).size, 32 + 20);
        (init.forward_tsn, init.cookie) = (true, Some(Cookie::Own([0; 48])));
        let p = Packet::sctp_init(FLOW, 0, &init);
        assert_eq!((p.chunk(), p.size), (Some(Chunk::InitAck), 32 + 20 + 4 + 52));
    }

    #[test]
    fn forward_tsn_holds_some_streams() {
        let mut s = Skipped::default();
        assert!((0..16).all(|stream| s.note(stream, 1)));
        assert!(!s.note(16, 1));
        assert!(s.note(3, 2));
        assert_eq!((s.streams().len(), s.streams()[3]), (16, (3, 2)));
    }
}
