//! Payload of a charging session in captures and outside the network: V2GTP, the framing of its messages, and SDP, the
//! discovery of the charger (ISO 15118-2 sections 7.8 and 7.10.1).
//!
//! Headers, lengths, addresses and ports are real. EXI documents are not: a session has only the kind and the length of
//! a message. One byte replaces the document: the message number, and flags for a response, continued processing and
//! a refused request ([`MESSAGE`], [`RESPONSE`], [`ONGOING`], [`REFUSED`]). For readers of a capture, the message's
//! name in ASCII follows, truncated if there is no room, then zeros. Two roughlink networks can thus communicate over
//! any path.
//!
//! Real vehicles and chargers cannot communicate with roughlink. Both formats are distinguishable: an EXI header begins
//! with the bits 10 (W3C EXI 1.0 section 5.2), unlike any of these bytes.

use super::Side;
use super::message::{Document, MAX_MESSAGE_LEN, PORT, Response, SDP_REQUEST, SDP_RESPONSE, V2GTP_HEADER, V2gMessage};
use crate::wire::{Addresses, IpPair, Payload};
use std::collections::VecDeque;
use std::net::Ipv6Addr;

/// Address of discovery requests: all nodes of the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

const VERSION: u8 = 1;
/// An EXI document.
const EXI: u16 = 0x8001;
/// SDP request and response.
const SDP: [u16; 2] = [0x9000, 0x9001];
/// Bits of the byte that represents a message: its number in [`V2gMessage::ALL`].
pub const MESSAGE: u8 = 0x0f;
/// Bit of that byte: the message is a response.
pub const RESPONSE: u8 = 0x10;
/// Bit of that byte: the charger's processing is not finished.
pub const ONGOING: u8 = 0x20;
/// Bit of that byte: the request was not allowed.
pub const REFUSED: u8 = 0x40;
/// Bytes of a message needed to identify it.
const HEAD: usize = V2GTP_HEADER as usize + 1;
/// No transport layer security.
const NO_TLS: u8 = 0x10;
const TCP: u8 = 0;

fn header(payload: u16, length: u32) -> [u8; V2GTP_HEADER as usize] {
    let mut h = [VERSION, !VERSION, 0, 0, 0, 0, 0, 0];
    h[2..4].copy_from_slice(&payload.to_be_bytes());
    h[4..].copy_from_slice(&length.to_be_bytes());
    h
}

/// Returns the length of the document after this header; `None` if no EXI document can follow.
pub fn document_length(h: &[u8; V2GTP_HEADER as usize]) -> Option<u32> {
    let length = u32::from_be_bytes([h[4], h[5], h[6], h[7]]);
    (*h == header(EXI, length) && (1..=MAX_MESSAGE_LEN).contains(&length)).then_some(length)
}

/// Returns type and length of a discovery datagram.
fn of_sdp(from: Side) -> (u16, u16) {
    match from {
        Side::Evcc => (SDP[0], SDP_REQUEST),
        Side::Secc => (SDP[1], SDP_RESPONSE),
    }
}

/// Returns the payload of a discovery datagram between `addresses`, from the vehicle or the charger.
pub fn sdp(from: Side, addresses: &Addresses) -> Vec<u8> {
    let (kind, bytes) = of_sdp(from);
    let mut out = header(kind, u32::from(bytes) - V2GTP_HEADER).to_vec();
    if from == Side::Secc {
        let charger = match addresses.ip {
            IpPair::V4 { src, .. } => src.to_ipv6_mapped(),
            IpPair::V6 { src, .. } => src,
        };
        out.extend_from_slice(&charger.octets());
        out.extend_from_slice(&PORT.to_be_bytes());
    }
    out.extend_from_slice(&[NO_TLS, TCP]);
    out
}

/// Returns true if a datagram from `from` contains a complete discovery request or response. Ignores address and port
/// in a response: the path may translate addresses, and the flow already has its own.
pub fn is_sdp(from: Side, bytes: &[u8]) -> bool {
    let (kind, length) = of_sdp(from);
    bytes.len() == usize::from(length)
        && bytes.starts_with(&header(kind, u32::from(length) - V2GTP_HEADER))
        && bytes.last() == Some(&TCP)
}

impl Document {
    fn code(self) -> u8 {
        match self {
            Document::Request(m) => m as u8,
            Document::Response(r) => {
                let ongoing = if r.finished { 0 } else { ONGOING };
                RESPONSE | r.message as u8 | ongoing | if r.in_sequence { 0 } else { REFUSED }
            }
        }
    }

    pub(super) fn from_code(code: u8) -> Option<Document> {
        let message = *V2gMessage::ALL.get(usize::from(code & MESSAGE))?;
        match code & !MESSAGE {
            0 => Some(Document::Request(message)),
            kind if kind & !(ONGOING | REFUSED) == RESPONSE => Some(Document::Response(Response {
                message,
                finished: kind & ONGOING == 0,
                in_sequence: kind & REFUSED == 0,
            })),
            _ => None,
        }
    }

    fn name(self) -> String {
        match self {
            Document::Request(m) => format!("{m:?}Req"),
            Document::Response(r) => format!("{:?}Res", r.message),
        }
    }
}

/// Messages at the end of one side's stream, each with the offset at which it ends. Earlier ones may have been removed.
#[derive(Clone, Debug, Default)]
pub struct OutgoingMessages {
    /// Offset at which the first message starts.
    begin: u64,
    /// Offset at which the last message ends.
    end: u64,
    pub(super) messages: VecDeque<(u64, Document)>,
}

impl OutgoingMessages {
    pub(super) fn write(&mut self, bytes: u32, document: Document) {
        self.end += u64::from(bytes);
        self.messages.push_back((self.end, document));
    }
    /// Removes and returns the first message if it ends within the first `delivered` bytes of the stream.
    pub(super) fn read(&mut self, delivered: u64) -> Option<Document> {
        let (end, document) = self.messages.pop_front_if(|m| m.0 <= delivered)?;
        self.begin = end;
        Some(document)
    }
    /// Appends the messages that `other`, a later state of the same stream, has and `self` lacks.
    pub fn extend(&mut self, other: &OutgoingMessages) {
        let known = self.end;
        self.messages.extend(other.messages.iter().filter(|m| m.0 > known));
        self.end = known.max(other.end);
    }
    /// Returns the end of the last message.
    pub fn end(&self) -> u64 {
        self.end
    }
    /// Returns the `bytes` bytes of the stream that start at `offset`.
    pub fn part(&self, offset: u64, bytes: usize) -> StreamPart<'_> {
        StreamPart { written: self, offset, bytes }
    }
    pub(super) fn bytes(&self) -> usize {
        self.messages.capacity() * size_of::<(u64, Document)>()
    }
}

/// Part of the stream of one side: the payload of a segment. Bytes that the peer has already read are zero.
#[derive(Clone, Copy, Debug)]
pub struct StreamPart<'w> {
    written: &'w OutgoingMessages,
    offset: u64,
    bytes: usize,
}

impl Payload for StreamPart<'_> {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn fill(&self, from: usize, out: &mut [u8]) {
        out.fill(0);
        let (begin, messages) = (self.offset + from as u64, &self.written.messages);
        let end = begin + out.len() as u64;
        let first = messages.partition_point(|m| m.0 <= begin);
        let mut start = first.checked_sub(1).map_or(self.written.begin, |before| messages[before].0);
        for &(stop, document) in messages.range(first..) {
            if start >= end {
                break;
            }
            let header = header(EXI, (stop - start).saturating_sub(u64::from(V2GTP_HEADER)) as u32);
            let bytes = header.into_iter().chain([document.code()]).chain(document.name().into_bytes());
            for (at, byte) in (start..stop.min(end)).zip(bytes) {
                if let Some(i) = at.checked_sub(begin) {
                    out[i as usize] = byte;
                }
            }
            start = stop;
        }
    }
}

/// Error: the received bytes are not a stream of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Malformed;

/// Reads the messages in the stream of a side outside the network. Keeps at most the beginning of one message.
#[derive(Clone, Debug, Default)]
pub(super) struct V2gtpReader {
    /// Header and first byte of the current message, and the number of these bytes received.
    head: [u8; HEAD],
    have: usize,
    /// Remaining bytes of the current message, and its kind.
    rest: u32,
    document: Option<Document>,
    malformed: bool,
}

impl V2gtpReader {
    /// Consumes bytes up to the end of the next message, and returns it if complete; `None` after malformed bytes.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Option<Result<Document, Malformed>> {
        while !self.malformed {
            if let Some(document) = self.document {
                let taken = bytes.len().min(self.rest as usize);
                *bytes = &bytes[taken..];
                self.rest -= taken as u32;
                if self.rest > 0 {
                    return None;
                }
                (self.document, self.have) = (None, 0);
                return Some(Ok(document));
            }
            let (first, rest) = bytes.split_first()?;
            *bytes = rest;
            self.head[self.have] = *first;
            self.have += 1;
            let header_alone = self.head.first_chunk().filter(|_| self.have == HEAD - 1);
            if let Some(h) = header_alone {
                match document_length(h) {
                    Some(length) => self.rest = length - 1,
                    None => self.malformed = true,
                }
            } else if self.have == HEAD {
                self.document = Document::from_code(*first);
                self.malformed = self.document.is_none();
            }
            if self.malformed {
                return Some(Err(Malformed));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn discovery_datagrams_have_the_standard_layout() {
        let (car, charger) = (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2), Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
        let ip = IpPair::V6 { src: charger, dst: car };
        let addresses = Addresses { ip, src_port: PORT, dst_port: 50_000 };
        let request = sdp(Side::Evcc, &addresses.reversed());
        assert_eq!(request, [1, 0xfe, 0x90, 0, 0, 0, 0, 2, 0x10, 0]);
        assert_eq!(request.len(), usize::from(SDP_REQUEST));
        let response = sdp(Side::Secc, &addresses);
        assert_eq!(response[..8], [1, 0xfe, 0x90, 1, 0, 0, 0, 20]);
        assert_eq!(response[8..24], charger.octets());
        assert_eq!(response[24..], [0x3b, 0x0e, 0x10, 0]);
        assert_eq!(response.len(), usize::from(SDP_RESPONSE));
        let ip = IpPair::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2) };
        assert_eq!(sdp(Side::Secc, &Addresses { ip, ..addresses })[18..24], [0xff, 0xff, 10, 0, 0, 1]);
    }

    fn stream(sizes: &[(u32, Document)]) -> OutgoingMessages {
        let mut written = OutgoingMessages::default();
        sizes.iter().for_each(|(bytes, document)| written.write(*bytes, *document));
        written
    }

    const ASKED: Document = Document::Request(V2gMessage::CurrentDemand);

    #[test]
    fn stream_bytes_are_independent_of_segmentation() {
        let stop = Document::Request(V2gMessage::SessionStop);
        let mut written = OutgoingMessages::default();
        written.extend(&stream(&[(21, stop), (29, ASKED)]));
        written.extend(&stream(&[(50, ASKED), (9000, ASKED)]));
        assert_eq!(written.end(), 9050);
        let mut all = vec![1; 9060];
        written.part(0, 9060).fill(0, &mut all);
        assert_eq!(all[..8], [1, 0xfe, 0x80, 1, 0, 0, 0, 13]);
        assert_eq!(&all[8..29], b"\x0dSessionStopR\x01\xfe\x80\x01\x00\x00\x00\x15");
        assert_eq!(&all[29..50], b"\x0aCurrentDemandReq\0\0\0\0");
        assert_eq!(all[50..58], [1, 0xfe, 0x80, 1, 0, 0, 0x23, 0x20]);
        assert!(all[75..].iter().all(|b| *b == 0));
        for offset in 0..60 {
            for (from, n) in [(0, 1), (3, 30), (7, 200)] {
                let mut some = vec![2; n];
                written.part(offset as u64, 900).fill(from, &mut some);
                assert_eq!(some, all[offset + from..offset + from + n], "{offset} {from} {n}");
            }
        }
        // Only unread messages are kept.
        assert_eq!(written.read(30), Some(stop));
        let mut late = vec![3; 60];
        written.part(0, 60).fill(0, &mut late);
        assert_eq!((&late[..21], &late[21..]), (&[0; 21][..], &all[21..60]));
    }

    /// Every message, in pieces of any size, is decoded unchanged when its last byte arrives.
    #[test]
    fn written_messages_are_decoded() {
        let mut documents: Vec<Document> = V2gMessage::ALL.map(Document::Request).to_vec();
        for message in V2gMessage::ALL {
            for (finished, in_sequence) in [(false, false), (false, true), (true, false), (true, true)] {
                documents.push(Document::Response(Response { message, finished, in_sequence }));
            }
        }
        let sizes: Vec<_> = documents.iter().enumerate().map(|(i, d)| (9 + 7 * i as u32, *d)).collect();
        let written = stream(&sizes);
        let mut all = vec![0; written.end() as usize];
        written.part(0, all.len()).fill(0, &mut all);
        for piece in [1, 2, 8, 9, 10, 57, 5000] {
            let (mut reader, mut whole, mut arrived) = (V2gtpReader::default(), written.clone(), 0);
            for part in all.chunks(piece) {
                let mut part = part;
                arrived += part.len() as u64;
                while let Some(document) = reader.next(&mut part) {
                    assert_eq!(document.ok(), whole.read(arrived));
                }
                assert!(whole.read(arrived).is_none() && part.is_empty());
            }
        }
    }

    #[test]
    fn invalid_header_ends_decoding() {
        let head = |at: usize, byte| {
            let mut h = header(EXI, 5).to_vec();
            h.extend([0, 0, 0, 0, 0, 1, 0xfe]);
            h[at] = byte;
            h
        };
        let broken = [
            head(0, 2),
            head(1, 0),
            head(3, 2),
            head(7, 0),
            head(4, 1),
            head(5, 0x11),
            head(8, 14),
            head(8, 0x20),
            head(8, 0x80),
        ];
        for bytes in broken {
            let (mut reader, mut rest) = (V2gtpReader::default(), &bytes[..]);
            assert_eq!(reader.next(&mut rest), Some(Err(Malformed)), "{bytes:?}");
            assert_eq!(reader.next(&mut rest), None);
        }
        let (mut reader, bytes) = (V2gtpReader::default(), head(8, 0));
        let mut rest = &bytes[..];
        assert_eq!(reader.next(&mut rest), Some(Ok(Document::Request(V2gMessage::SupportedAppProtocol))));
        assert_eq!(reader.next(&mut rest), None, "a header that is cut off may go on");
        // A length of zero is rejected immediately.
        let mut rest = &header(EXI, 0)[..];
        assert_eq!(V2gtpReader::default().next(&mut rest), Some(Err(Malformed)));
    }

    #[test]
    fn only_valid_discovery_datagrams_are_recognized() {
        let ip = IpPair::V4 { src: Ipv4Addr::LOCALHOST, dst: Ipv4Addr::LOCALHOST };
        let addresses = Addresses { ip, src_port: 1, dst_port: 2 };
        for (side, other) in [(Side::Evcc, Side::Secc), (Side::Secc, Side::Evcc)] {
            let right = sdp(side, &addresses);
            assert!(is_sdp(side, &right) && !is_sdp(other, &right));
            for n in 0..right.len() {
                assert!(!is_sdp(side, &right[..n]));
            }
            for i in [0, 1, 2, 3, 4, 7, right.len() - 1] {
                let mut wrong = right.clone();
                wrong[i] ^= 1;
                assert!(!is_sdp(side, &wrong), "{i}");
            }
        }
    }
}
