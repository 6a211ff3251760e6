//! A gateway on a real interface: Ethernet frames or IP datagrams, rewritten in place.
//!
//! A window change rewrites only the window field and the checksum of the segment (RFC 1624). Bytes that cannot be
//! parsed (other protocols, fragments without a TCP header, truncated packets) pass unchanged and are counted.
//! Checksums must be complete, not left for the network card. They are not verified: a wrong one stays wrong.
//!
//! A segment that the gateway originates gets the link header of the last frame of its flow in the same direction,
//! which is kept while the flow is in the table ([`Segment::link`]).

use super::packets::packet;
use super::{FlowKey, Gateway, Heading, Modem, Segment};
use crate::packet::{FlowId, Protocol, SideContent};
use crate::units::Time;
use crate::wire::{self, Decoded, Implied, ethernet};

/// First header of the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// Ethernet header, with up to two VLAN tags and PPPoE.
    Ethernet,
    /// IP header.
    Ip,
}

/// Passes frames through a gateway, and builds the frames that the gateway sends.
#[derive(Clone, Debug)]
pub struct FrameGateway {
    framing: Framing,
    /// Counters.
    pub counters: FrameCounters,
}

/// Counters of frames and segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameCounters {
    /// TCP segments that the gateway received.
    pub segments: u64,
    /// Segments whose window the gateway changed.
    pub rewritten: u64,
    /// UDP, and fragments without a TCP header.
    pub other: u64,
    /// Frames without an IP datagram, or with one that cannot be parsed.
    pub opaque: u64,
    /// Segments of the gateway that could not be sent because their link header is unknown.
    pub unsent: u64,
}

/// Bytes of a frame before the IP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkHeader {
    bytes: [u8; LONGEST],
    length: u8,
}

impl LinkHeader {
    /// Creates the header from its bytes; `None` if there are no bytes or too many.
    pub fn detect(link: &[u8]) -> Option<Self> {
        let mut bytes = [0; LONGEST];
        bytes.get_mut(..link.len())?.copy_from_slice(link);
        (!link.is_empty()).then_some(LinkHeader { bytes, length: link.len() as u8 })
    }
    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl FrameGateway {
    /// Creates the adapter for frames of kind `framing`.
    pub fn new(framing: Framing) -> Self {
        FrameGateway { framing, counters: FrameCounters::default() }
    }

    /// Passes `frame` through `gateway`, which may rewrite it.
    pub fn receive(
        &mut self,
        gateway: &mut dyn Gateway,
        now: Time,
        heading: Heading,
        frame: &mut [u8],
        modem: Option<&dyn Modem>,
    ) {
        let offset = match self.framing {
            Framing::Ethernet => ethernet::ip_offset(frame),
            Framing::Ip => Ok(0),
        };
        let parsed = offset.and_then(|at| Ok((at, wire::parse(frame.get(at..).unwrap_or_default())?)));
        let Ok((at, decoded)) = parsed else {
            self.counters.opaque += 1;
            return;
        };
        if decoded.packet.protocol() != Protocol::Tcp || decoded.is_later_fragment() {
            self.counters.other += 1;
            return;
        }
        self.counters.segments += 1;
        let mut segment = segment(&decoded);
        segment.link = LinkHeader::detect(&frame[..at]);
        gateway.receive(now, heading, &mut segment, modem);
        if rewrite(&decoded, &segment, &mut frame[at..]) {
            self.counters.rewritten += 1;
        }
    }

    /// Appends to `frame` the next frame that `gateway` originates, and returns its direction.
    pub fn transmit(&mut self, gateway: &mut dyn Gateway, now: Time, frame: &mut Vec<u8>) -> Option<Heading> {
        loop {
            let (heading, s) = gateway.transmit(now)?;
            let FlowKey::Real(addresses) = s.key else { continue };
            let start = frame.len();
            if self.framing == Framing::Ethernet {
                let Some(link) = s.link else {
                    self.counters.unsent += 1;
                    continue;
                };
                frame.extend_from_slice(link.bytes());
            }
            let at = frame.len();
            let p = packet(FlowId::new(0, false), &s);
            wire::encode(&p, None, &addresses, &Implied::from_packet(&p), frame)
                .expect("an acknowledgment can be written");
            if ethernet::has_pppoe(&frame[start..at]) {
                let length = (frame.len() - at + 2) as u16; // including the PPP protocol field (RFC 2516 section 4)
                frame[at - 4..at - 2].copy_from_slice(&length.to_be_bytes());
            }
            return Some(heading);
        }
    }
}

/// Passes the TCP segment of `datagram`, if any, through `gateway` as a segment of flow `key`.
pub(super) fn receive(
    gateway: &mut dyn Gateway,
    now: Time,
    heading: Heading,
    key: FlowKey,
    datagram: &mut [u8],
    modem: Option<&dyn Modem>,
) {
    let tcp = |d: &Decoded| d.packet.protocol() == Protocol::Tcp && !d.is_later_fragment();
    let Some(decoded) = wire::parse(datagram).ok().filter(tcp) else { return };
    let mut segment = Segment { key, ..segment(&decoded) };
    gateway.receive(now, heading, &mut segment, modem);
    rewrite(&decoded, &segment, datagram);
}

/// Writes the window of `segment` into `datagram`, from which `decoded` was parsed. Returns true if the window differs.
fn rewrite(decoded: &Decoded, segment: &Segment, datagram: &mut [u8]) -> bool {
    let other = segment.window != decoded.packet.window;
    if other {
        let header = decoded.tcp_header(datagram);
        header.expect("a TCP segment has a header").set_window(segment.window);
    }
    other
}

fn segment(d: &Decoded) -> Segment {
    let p = &d.packet;
    Segment {
        seq: p.seq,
        ack: p.ack,
        flags: p.flags,
        window: p.window,
        payload: d.payload.len() as u32,
        syn: match d.side {
            Some(SideContent::Syn(options)) => Some(options),
            _ => None,
        },
        timestamps: p.has_timestamps().then_some((p.tsval, p.tsecr)),
        signed: d.signed,
        multipath: d.multipath,
        ..Segment::new(FlowKey::Real(d.addresses))
    }
}

/// Length of the longest link header: addresses, two tags and PPPoE, with their EtherTypes.
const LONGEST: usize = 12 + 4 + 4 + 2 + 6 + 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::LinkEvent;
    use crate::gateway::build;
    use crate::packet::{Packet, flags};
    use crate::wire::{Addresses, IpPair, WireError};
    use std::net::Ipv6Addr;

    const PLAIN: &[u8] = &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd];
    const TAGGED: &[u8] = &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0x20, 5, 0x86, 0xdd];
    const PPPOE: &[u8] =
        &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 5, 0x88, 0x64, 0x11, 0, 0, 9, 0, 74, 0, 0x57];

    fn addresses() -> Addresses {
        let ip = IpPair::V6 { src: Ipv6Addr::LOCALHOST, dst: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9) };
        Addresses { ip, src_port: 443, dst_port: 40_000 }
    }

    fn frame(link: &[u8], addresses: &Addresses, seq: u32, ack: u32, payload: &[u8]) -> Vec<u8> {
        let mut p = Packet::tcp(FlowId::new(0, false));
        (p.seq, p.ack, p.flags, p.window) = (seq, ack, flags::ACK, 0x1234);
        p.set_timestamps(seq, ack);
        p.set_payload(payload.len() as u16);
        let mut out = link.to_vec();
        wire::encode(&p, None, addresses, payload, &mut out).unwrap();
        out
    }

    /// Closes and opens a flow whose SYN was not seen: only window field and checksum change.
    #[test]
    fn frames_are_rewritten_and_sent() {
        let a = addresses();
        for (framing, link) in [
            (Framing::Ip, &[][..]),
            (Framing::Ethernet, PLAIN),
            (Framing::Ethernet, TAGGED),
            (Framing::Ethernet, PPPOE),
        ] {
            let mut gateway = build("avoca-rx", "").unwrap();
            let g = gateway.as_mut();
            let mut b = FrameGateway::new(framing);
            let now = Time::from_secs(1);
            b.receive(g, now, Heading::Inward, &mut frame(link, &a, 100, 7, b"data"), None);
            let ack = frame(link, &a.reversed(), 7, 104, b"");
            let mut passed = ack.clone();
            b.receive(g, now, Heading::Outward, &mut passed, None);
            assert_eq!(passed, ack);
            g.on_link(now, &LinkEvent::Down);
            b.receive(g, now, Heading::Outward, &mut passed, None);
            let window = link.len() + 40 + 14;
            assert_eq!(passed[window..window + 2], [0, 0]);
            assert!(wire::decode(&passed[link.len()..]).is_ok());
            let differ: Vec<_> = (0..ack.len()).filter(|&i| passed[i] != ack[i]).map(|i| i - window).collect();
            assert_eq!(differ, [0, 1, 2, 3]);
            let mut sent = Vec::new();
            assert_eq!(b.transmit(g, now, &mut sent), Some(Heading::Outward));
            assert_eq!(sent, passed, "the same, said by the gateway");
            [LinkEvent::Up, LinkEvent::Configured].iter().for_each(|e| g.on_link(now, e));
            for _ in 0..3 {
                sent.clear();
                assert_eq!(b.transmit(g, now, &mut sent), Some(Heading::Outward));
                assert_eq!(sent, ack);
            }
            assert_eq!(b.transmit(g, now, &mut sent), None);
            let counted = FrameCounters { segments: 3, rewritten: 1, ..FrameCounters::default() };
            assert_eq!(b.counters, counted);
            // An attacker with other link headers forges segments of this flow and of flows that do not exist.
            g.on_link(now, &LinkEvent::Down);
            let mut foreign = link.to_vec();
            foreign.iter_mut().take(12).for_each(|byte| *byte = 0xee);
            for dst_port in 0..2_000 {
                let other = Addresses { dst_port, ..a };
                b.receive(g, now, Heading::Outward, &mut frame(&foreign, &other.reversed(), 7, 104, b""), None);
            }
            b.receive(g, now, Heading::Outward, &mut frame(&foreign, &a.reversed(), 1 << 30, 104, b""), None);
            sent.clear();
            assert_eq!(b.transmit(g, now, &mut sent), Some(Heading::Outward));
            assert_eq!((sent, b.counters.unsent), (passed, 0));
        }
    }

    #[test]
    fn frames_that_cannot_be_parsed_pass() {
        let mut gateway = build("muniz", "").unwrap();
        let mut b = FrameGateway::new(Framing::Ethernet);
        let mut pass = |mut f: Vec<u8>| {
            let before = f.clone();
            b.receive(gateway.as_mut(), Time::ZERO, Heading::Outward, &mut f, None);
            assert_eq!(f, before);
            b.counters
        };
        let whole = frame(PLAIN, &addresses(), 1, 2, b"x");
        assert_eq!(pass(whole.clone()).segments, 1);
        assert_eq!(pass(whole[..40].to_vec()).opaque, 1);
        assert_eq!(pass(Vec::new()).opaque, 2);
        let mut arp = whole.clone();
        arp[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(wire::ethernet::ip_offset(&arp), Err(WireError::EtherType(0x0806)));
        assert_eq!(pass(arp).opaque, 3);
        let mut udp = PLAIN.to_vec();
        let p = Packet::udp(FlowId::new(0, false), 0, 20, Time::ZERO);
        wire::encode(&p, None, &addresses(), &[0; 20][..], &mut udp).unwrap();
        assert_eq!(pass(udp), FrameCounters { segments: 1, opaque: 3, other: 1, ..FrameCounters::default() });
    }
}
