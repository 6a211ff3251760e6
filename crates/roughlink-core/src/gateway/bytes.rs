//! A gateway on a real interface: Ethernet frames or IP datagrams, rewritten in place.
//!
//! A window change rewrites only the window field and the checksum of the segment (RFC 1624). Bytes that cannot be
//! parsed (other protocols, fragments without a TCP header, truncated packets) pass unchanged and are counted.
//! Checksums must be complete, not left for the network card. The adapter does not verify them: a wrong one stays
//! wrong. The adapter refuses two requests of a gateway: larger windows, and any change of signed and multipath
//! segments.
//!
//! A table of conversations numbers the flows for the gateway. Of each phase it has at most [`MAX_CONVERSATIONS`]; the
//! gateway knows a conversation that was forgotten and returns as a new flow.
//!
//! A segment that the gateway originates gets the link header of the last frame of its flow in the same direction,
//! which is kept while the flow is in the table ([`Segment::link`]).

use super::packets::packet;
use super::{FlowKey, Gateway, Heading, Modem, Segment, SegmentVerdict};
use crate::conversations::{ConversationId, ConversationKey, ConversationTable, MAX_CONVERSATIONS};
use crate::packet::{FlowId, Protocol, SideContent};
use crate::units::Time;
use crate::wire::{self, Addresses, Datagram, Decoded, Headers, Implied, ethernet, protocol};
use serde::{Deserialize, Serialize};

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
    conversations: ConversationTable,
    dry_run: bool,
    /// Counters.
    pub counters: FrameCounters,
}

/// Counters of frames and segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FrameCounters {
    /// TCP segments that the gateway received.
    pub segments: u64,
    /// Segments whose window the gateway changed, or would have changed in a dry run.
    pub rewritten: u64,
    /// Segments that the gateway dropped, or would have dropped.
    pub dropped: u64,
    /// Segments that the gateway sent, or would have sent.
    pub originated: u64,
    /// Changes that the gateway requested and that this adapter never makes: larger windows, and windows of signed and
    /// multipath segments.
    pub forbidden: u64,
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
    /// Returns the header of frames in the opposite direction: both addresses exchanged.
    pub fn reversed(&self) -> Self {
        let mut reversed = *self;
        if let Some((destination, rest)) = reversed.bytes.split_first_chunk_mut::<6>()
            && let Some(source) = rest.first_chunk_mut::<6>()
        {
            std::mem::swap(destination, source);
        }
        reversed
    }
    /// Inserts the header before the IP datagram in `datagram`, and sets the length in a PPPoE header.
    pub fn prepend_to(&self, datagram: &mut Vec<u8>) {
        let (length, at) = (datagram.len(), usize::from(self.length));
        datagram.splice(..0, self.bytes().iter().copied());
        set_pppoe_length(&mut datagram[..at], length);
    }
}

/// Sets the length in the PPPoE header, if any, at the end of the link header of a datagram of `length` bytes. The
/// length includes the PPP protocol field (RFC 2516 section 4).
fn set_pppoe_length(link: &mut [u8], length: usize) {
    if ethernet::has_pppoe(link) {
        let at = link.len() - 4;
        link[at..at + 2].copy_from_slice(&((length + 2) as u16).to_be_bytes());
    }
}

impl FrameGateway {
    /// Creates the adapter for frames of kind `framing`.
    pub fn new(framing: Framing) -> Self {
        FrameGateway {
            framing,
            conversations: ConversationTable::default(),
            dry_run: false,
            counters: FrameCounters::default(),
        }
    }

    /// Makes the adapter count the decisions of the gateway without following them.
    #[must_use]
    pub fn dry_run(self) -> Self {
        FrameGateway { dry_run: true, ..self }
    }

    /// Returns true if the decisions of the gateway are only counted.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Parses bytes of this kind.
    pub fn parse<B: AsRef<[u8]>>(&self, bytes: B) -> Datagram<B> {
        match self.framing {
            Framing::Ethernet => Datagram::from_frame(bytes),
            Framing::Ip => Datagram::from_ip(bytes),
        }
    }

    /// Passes `datagram` through `gateway`, which may rewrite it.
    pub fn receive(
        &mut self,
        gateway: &mut dyn Gateway,
        now: Time,
        heading: Heading,
        datagram: &mut Datagram<&mut [u8]>,
        modem: Option<&dyn Modem>,
    ) -> SegmentVerdict {
        let Some(decoded) = datagram.decoded() else {
            self.counters.opaque += 1;
            return SegmentVerdict::Accept;
        };
        if !has_tcp_header(decoded) {
            self.counters.other += 1;
            return SegmentVerdict::Accept;
        }
        self.counters.segments += 1;
        let key = self.key(now, decoded);
        let link = LinkHeader::detect(datagram.link_header());
        let (verdict, change) = decide(gateway, now, heading, (key, link), decoded, modem);
        self.counters.dropped += u64::from(verdict == SegmentVerdict::Drop);
        self.counters.rewritten += u64::from(matches!(change, WindowChange::To(_)));
        self.counters.forbidden += u64::from(change == WindowChange::Forbidden);
        if self.dry_run {
            return SegmentVerdict::Accept;
        }
        if let WindowChange::To(window) = change {
            let (headers, bytes) = datagram.parts_mut();
            headers.set_window(bytes, window);
        }
        verdict
    }

    /// Appends to `frame` the next frame that `gateway` originates, and returns its direction.
    pub fn transmit(&mut self, gateway: &mut dyn Gateway, now: Time, frame: &mut Vec<u8>) -> Option<Heading> {
        loop {
            let (heading, s) = gateway.transmit(now)?;
            self.counters.originated += 1;
            if self.dry_run {
                continue;
            }
            let Some(addresses) = s.addresses.filter(|_| self.framing == Framing::Ip || s.link.is_some()) else {
                self.counters.unsent += 1;
                continue;
            };
            let start = frame.len();
            frame.extend_from_slice(s.link.as_ref().map_or(&[], LinkHeader::bytes));
            let at = frame.len();
            let p = packet(FlowId::new(0, false), &s);
            wire::encode(&p, None, &addresses, &Implied::from_packet(&p), frame)
                .expect("an acknowledgment can be written");
            let length = frame.len() - at;
            set_pppoe_length(&mut frame[start..at], length);
            return Some(heading);
        }
    }

    /// Returns the key by which the gateway knows the flow with these addresses, in their direction.
    pub fn flow_key(&self, addresses: &Addresses) -> Option<FlowKey> {
        self.conversations.get(&tcp_key(addresses)).map(flow_key)
    }

    /// Returns the key of a segment, also of a first fragment.
    fn key(&mut self, now: Time, decoded: &Decoded) -> FlowKey {
        let key = tcp_key(&decoded.addresses);
        let tcp_flags = Some(decoded.packet.flags);
        let id = self.conversations.find(now, &key, tcp_flags).unwrap_or_else(|| {
            while self.conversations.expire(now).is_some() {}
            let id = self.conversations.insert(now, &key, tcp_flags);
            while self.conversations.evict(MAX_CONVERSATIONS).is_some() {}
            id
        });
        flow_key(id)
    }
}

fn tcp_key(addresses: &Addresses) -> ConversationKey {
    ConversationKey { addresses: *addresses, protocol: protocol::TCP, fragments: false, nodes: [0, 0] }
}

fn flow_key(id: ConversationId) -> FlowKey {
    FlowKey { flow: FlowId::new(id.place, id.reverse), generation: id.generation }
}

/// Passes the TCP segment of a datagram from outside, if any, through `gateway` as a segment of flow `key`.
pub(crate) fn receive(
    gateway: &mut dyn Gateway,
    now: Time,
    heading: Heading,
    (key, link): (FlowKey, Option<LinkHeader>),
    (headers, bytes): (&mut Headers, &mut [u8]),
    modem: Option<&dyn Modem>,
) -> SegmentVerdict {
    let Some(decoded) = headers.decoded().filter(|decoded| has_tcp_header(decoded)) else {
        return SegmentVerdict::Accept;
    };
    let (verdict, change) = decide(gateway, now, heading, (key, link), decoded, modem);
    if let WindowChange::To(window) = change {
        headers.set_window(bytes, window);
    }
    verdict
}

/// Change of a window that a gateway requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WindowChange {
    None,
    To(u16),
    Forbidden,
}

fn decide(
    gateway: &mut dyn Gateway,
    now: Time,
    heading: Heading,
    (key, link): (FlowKey, Option<LinkHeader>),
    decoded: &Decoded,
    modem: Option<&dyn Modem>,
) -> (SegmentVerdict, WindowChange) {
    let original = Segment { link, ..segment(key, decoded) };
    let mut segment = original;
    let verdict = gateway.receive(now, heading, &mut segment, modem);
    let change = match segment.window {
        window if window == original.window => WindowChange::None,
        window if window > original.window || original.signed || original.multipath => WindowChange::Forbidden,
        window => WindowChange::To(window),
    };
    (verdict, change)
}

fn has_tcp_header(decoded: &Decoded) -> bool {
    decoded.packet.protocol() == Protocol::Tcp && !decoded.is_later_fragment()
}

fn segment(key: FlowKey, d: &Decoded) -> Segment {
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
        addresses: Some(d.addresses),
        ..Segment::new(key)
    }
}

/// Length of the longest link header: addresses, two tags and PPPoE, with their EtherTypes.
const LONGEST: usize = 12 + 4 + 4 + 2 + 6 + 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::LinkEvent;
    use crate::gateway::{Stats, build};
    use crate::packet::{Packet, flags};
    use crate::wire::{IpPair, WireError};
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

    /// Passes bytes through a gateway, which must not drop them.
    fn pass(b: &mut FrameGateway, gateway: &mut dyn Gateway, now: Time, heading: Heading, bytes: &mut [u8]) {
        let mut datagram = b.parse(bytes);
        assert_eq!(b.receive(gateway, now, heading, &mut datagram, None), SegmentVerdict::Accept);
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
            pass(&mut b, g, now, Heading::Inward, &mut frame(link, &a, 100, 7, b"data"));
            let ack = frame(link, &a.reversed(), 7, 104, b"");
            let mut passed = ack.clone();
            pass(&mut b, g, now, Heading::Outward, &mut passed);
            assert_eq!(passed, ack);
            g.on_link(now, &LinkEvent::Down);
            pass(&mut b, g, now, Heading::Outward, &mut passed);
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
            let counted = FrameCounters { segments: 3, rewritten: 1, originated: 4, ..FrameCounters::default() };
            assert_eq!(b.counters, counted);
            // An attacker with other link headers forges segments of this flow and of flows that do not exist.
            g.on_link(now, &LinkEvent::Down);
            let mut foreign = link.to_vec();
            foreign.iter_mut().take(12).for_each(|byte| *byte = 0xee);
            for dst_port in 0..2_000 {
                let other = Addresses { dst_port, ..a };
                pass(&mut b, g, now, Heading::Outward, &mut frame(&foreign, &other.reversed(), 7, 104, b""));
            }
            pass(&mut b, g, now, Heading::Outward, &mut frame(&foreign, &a.reversed(), 1 << 30, 104, b""));
            sent.clear();
            assert_eq!(b.transmit(g, now, &mut sent), Some(Heading::Outward));
            assert_eq!((sent, b.counters.unsent), (passed, 0));
        }
    }

    /// Requests this window for each segment.
    #[derive(Debug)]
    struct FixedWindow(u16);

    impl Gateway for FixedWindow {
        fn receive(&mut self, _: Time, _: Heading, s: &mut Segment, _: Option<&dyn Modem>) -> SegmentVerdict {
            s.window = self.0;
            SegmentVerdict::Accept
        }
        fn wake(&mut self, _: Time) {}
        fn next_wake(&self) -> Time {
            Time::MAX
        }
        fn stats(&self, _: Option<&dyn Modem>) -> Stats {
            Stats::default()
        }
    }

    #[test]
    fn windows_never_grow_and_signed_segments_stay_as_they_are() {
        let plain = frame(&[], &addresses(), 1, 2, b"");
        // The option TCP-MD5 (kind 19, 18 bytes) with padding takes the place of the timestamps.
        let mut signed = plain.clone();
        signed.splice(60.., [19, 18].into_iter().chain([0; 16]).chain([1, 1]));
        signed[52] = 10 << 4;
        signed[4..6].copy_from_slice(&40_u16.to_be_bytes());
        let mut multipath = signed.clone();
        multipath[60..62].copy_from_slice(&[30, 18]);
        for (mut bytes, window, rewritten, forbidden) in [
            (plain.clone(), 0x1233, 1, 0),
            (plain.clone(), 0x1234, 0, 0),
            (plain, 0x1235, 0, 1),
            (signed, 1, 0, 1),
            (multipath, 1, 0, 1),
        ] {
            let mut b = FrameGateway::new(Framing::Ip);
            let before = bytes.clone();
            pass(&mut b, &mut FixedWindow(window), Time::ZERO, Heading::Outward, &mut bytes);
            assert_eq!((b.counters.rewritten, b.counters.forbidden), (rewritten, forbidden), "{window}");
            assert_eq!(bytes == before, rewritten == 0);
        }
    }

    #[test]
    fn dry_run_changes_and_sends_nothing() {
        let mut gateway = build("avoca-rx", "").unwrap();
        let (a, now) = (addresses(), Time::from_secs(1));
        let mut b = FrameGateway::new(Framing::Ip).dry_run();
        pass(&mut b, &mut *gateway, now, Heading::Inward, &mut frame(&[], &a, 100, 7, b"data"));
        let ack = frame(&[], &a.reversed(), 7, 104, b"");
        pass(&mut b, &mut *gateway, now, Heading::Outward, &mut ack.clone());
        gateway.on_link(now, &LinkEvent::Down);
        let mut passed = ack.clone();
        pass(&mut b, &mut *gateway, now, Heading::Outward, &mut passed);
        assert_eq!(passed, ack);
        assert_eq!(b.transmit(&mut *gateway, now, &mut Vec::new()), None);
        assert_eq!(b.counters, FrameCounters { segments: 3, rewritten: 1, originated: 1, ..FrameCounters::default() });
    }

    #[test]
    fn frames_that_cannot_be_parsed_pass() {
        let mut gateway = build("muniz", "").unwrap();
        let mut b = FrameGateway::new(Framing::Ethernet);
        let mut pass = |mut f: Vec<u8>| {
            let before = f.clone();
            pass(&mut b, gateway.as_mut(), Time::ZERO, Heading::Outward, &mut f);
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
