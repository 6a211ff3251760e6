//! What the packets of a charging session carry in a capture: V2GTP, the framing of its messages, and SDP, the discovery of
//! the charger (ISO 15118-2 sections 7.8 and 7.10.1).
//!
//! Headers, lengths, addresses and ports are real. EXI documents are not, since a session has only the kind and the
//! length of a message: in place of the document there is the message's name in ASCII, padded with zeros. An EXI header
//! begins with the bits 10 (W3C EXI 1.0 section 5.2), no ASCII letter does, so no decoder takes it for a document.

use crate::app::request::{Message, PORT, SDP_REQUEST, SDP_RESPONSE, Side, V2GTP_HEADER};
use crate::wire::{Addresses, IpPair, Payload};
use std::net::Ipv6Addr;

/// Where discovery requests go: all nodes of the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Version of V2GTP.
const VERSION: u8 = 1;
/// An EXI document.
const EXI: u16 = 0x8001;
/// An SDP request, and its response.
const SDP: [u16; 2] = [0x9000, 0x9001];
/// No transport layer security.
const NO_TLS: u8 = 0x10;
/// Transport: TCP.
const TCP: u8 = 0;

fn header(payload: u16, length: u32) -> [u8; V2GTP_HEADER as usize] {
    let mut h = [VERSION, !VERSION, 0, 0, 0, 0, 0, 0];
    h[2..4].copy_from_slice(&payload.to_be_bytes());
    h[4..].copy_from_slice(&length.to_be_bytes());
    h
}

/// The payload of a discovery datagram between `addresses`, from the vehicle or from the charger.
pub fn sdp(from: Side, addresses: &Addresses) -> Vec<u8> {
    let (kind, bytes) = match from {
        Side::Evcc => (SDP[0], SDP_REQUEST),
        Side::Secc => (SDP[1], SDP_RESPONSE),
    };
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

/// The messages that one side has written so far: where in its stream each ends.
#[derive(Clone, Debug, Default)]
pub struct Written(Vec<(u64, Message)>);

impl Written {
    /// Takes in the messages that the peer has not read yet; those that are known are skipped.
    pub fn extend(&mut self, unread: impl Iterator<Item = (u64, Message)>) {
        let known = self.end();
        self.0.extend(unread.filter(|m| m.0 > known));
    }

    /// Where the last one ends.
    pub fn end(&self) -> u64 {
        self.0.last().map_or(0, |m| m.0)
    }
}

/// A part of the stream of one side: the payload of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Part<'w> {
    /// Whose stream it is.
    pub side: Side,
    /// The messages in it.
    pub written: &'w Written,
    /// Where in the stream the part begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: usize,
}

impl Payload for Part<'_> {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn fill(&self, from: usize, mut out: &mut [u8]) {
        let messages = &self.written.0;
        let mut at = self.offset + from as u64;
        let mut i = messages.partition_point(|m| m.0 <= at);
        while let Some(&(end, message)) = messages.get(i) {
            let start = i.checked_sub(1).map_or(0, |before| messages[before].0);
            let (here, rest) = out.split_at_mut(out.len().min((end - at) as usize));
            let name = format!("{message:?}{}", if self.side == Side::Evcc { "Req" } else { "Res" });
            let document = (end - start).saturating_sub(u64::from(V2GTP_HEADER)) as u32;
            let bytes = header(EXI, document).into_iter().chain(name.into_bytes()).chain(std::iter::repeat(0));
            for (to, byte) in here.iter_mut().zip(bytes.skip((at - start) as usize)) {
                *to = byte;
            }
            at += here.len() as u64;
            out = rest;
            if out.is_empty() {
                return;
            }
            i += 1;
        }
        out.fill(0); // nothing that the session wrote
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn discovery_datagrams() {
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

    #[test]
    fn a_stream_is_the_same_however_it_is_cut() {
        let mut written = Written::default();
        written.extend([(21, Message::SessionStop), (50, Message::CurrentDemand)].into_iter());
        written.extend([(50, Message::CurrentDemand), (9050, Message::CurrentDemand)].into_iter());
        assert_eq!(written.end(), 9050);
        let part = |offset, bytes| Part { side: Side::Evcc, written: &written, offset, bytes };
        let mut all = vec![1; 9060];
        part(0, 9060).fill(0, &mut all);
        assert_eq!(all[..8], [1, 0xfe, 0x80, 1, 0, 0, 0, 13]);
        assert_eq!(&all[8..29], b"SessionStopRe\x01\xfe\x80\x01\x00\x00\x00\x15");
        assert_eq!(&all[29..50], b"CurrentDemandReq\0\0\0\0\0");
        assert_eq!(all[50..58], [1, 0xfe, 0x80, 1, 0, 0, 0x23, 0x20]);
        assert!(all[74..].iter().all(|b| *b == 0));
        for offset in 0..60 {
            for (from, n) in [(0, 1), (3, 30), (7, 200)] {
                let mut some = vec![2; n];
                part(offset as u64, 900).fill(from, &mut some);
                assert_eq!(some, all[offset + from..offset + from + n], "{offset} {from} {n}");
            }
        }
    }
}
