//! Passes arbitrary frames, generated segments, link events and pauses to each gateway, as IP datagrams and in Ethernet
//! frames with and without tags. Gateways never enlarge a window, rate controls never move a right edge back, valid
//! frames stay valid, the gateway's frames are valid, and its table stays bounded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roughlink_core::cc::LinkEvent;
use roughlink_core::gateway::bytes::{FrameGateway, Framing};
use roughlink_core::gateway::flows::FlowPhase;
use roughlink_core::gateway::{FlowKey, Gateway, Heading, Modem, REGISTRY, SegmentVerdict, build};
use roughlink_core::packet::{FlowId, Packet, SideContent, SynOptions, flags};
use roughlink_core::units::Time;
use roughlink_core::wire::{self, Addresses, Implied, IpPair, ethernet};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

const CAPACITY: usize = 3;

/// A modem with a load taken from the input.
struct Line(u32);

impl Modem for Line {
    fn waiting(&self, _key: &FlowKey) -> u32 {
        self.0
    }
    fn backlog(&self, _key: &FlowKey) -> u32 {
        self.0
    }
    fn total_backlog(&self) -> u32 {
        self.0
    }
    fn cycle_time(&self, sdus: u32) -> Time {
        Time::from_micros(750 + 652 * u64::from(sdus))
    }
    fn max_sdus(&self) -> u32 {
        31
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&kind, mut rest)) = input.split_first() else { return };
    let Some(entry) = REGISTRY.iter().cycle().nth(usize::from(kind & 0x0f)) else { return };
    let name = entry.name;
    let literal = entry.needs_modem && kind & 0x80 != 0;
    let retract = if literal { "allow_retract = true\n" } else { "" };
    let link = LINKS[usize::from(kind >> 4 & 7) % LINKS.len()];
    let mut gateway = build(name, &format!("{retract}table = {{ capacity = {CAPACITY} }}")).expect("valid parameters");
    let g = gateway.as_mut();
    let framing = if link.is_some() { Framing::Ethernet } else { Framing::Ip };
    let mut port = Port {
        bytes: FrameGateway::new(framing),
        framing,
        line: Line(0),
        // avoca-rx closes windows by moving edges back.
        senders: (entry.needs_modem && !literal).then(Senders::default),
    };
    let mut now = Time::ZERO;
    while let Some((op, tail)) = rest.split_first_chunk::<2>() {
        rest = tail;
        match op[0] % 8 {
            0 => {
                now += Time::from_millis(1 << (op[1] % 20));
                g.wake(now);
                assert!(g.next_wake() > now);
            }
            1 => {
                let signal = LinkEvent::Signal(-f64::from(op[1]));
                let all = [&LinkEvent::Down, &LinkEvent::Up, &LinkEvent::Configured, &signal];
                g.on_link(now, all[usize::from(op[1] % 4)]);
            }
            2 => port.line.0 = u32::from(op[1]),
            3 => {
                let (frame, tail) = rest.split_at(rest.len().min(usize::from(op[1])));
                rest = tail;
                port.pass(g, now, heading(op[0]), &mut frame.to_vec());
            }
            4 => {
                // A handshake, which may repeat for a known flow.
                let a = addresses(op[1]);
                let known = |g: &dyn Gateway| {
                    g.stats(None).flows.iter().any(|f| f.addresses == Some(a) && f.phase == FlowPhase::Established)
                };
                let (known, before) = (known(g), port.senders.as_ref().and_then(|s| s.edges.get(&a)).copied());
                let (mut window, mut offered) = (0, 0);
                for (heading, flag) in [
                    (Heading::Outward, flags::SYN),
                    (Heading::Inward, flags::SYN | flags::ACK),
                    (Heading::Outward, flags::ACK),
                ] {
                    let mut frame = segment(link, heading, op[1], flag, &[0, 0, op[0], op[1], 0, 180]);
                    port.pass(g, now, heading, &mut frame);
                    offered = window;
                    window = wire::parse(&frame[port.at(&frame)..]).expect("a segment").packet.window;
                }
                if let Some(senders) = &mut port.senders {
                    senders.edges.remove(&a);
                    let edge = 1 + (u32::from(window) << scale(&a).unwrap_or(0));
                    let edge = Sender { una: 1, edge, acked: 1, offered: 1 + u32::from(offered) };
                    senders.edges.extend(if known { before } else { Some(edge) }.map(|edge| (a, edge)));
                }
            }
            _ => {
                let Some((fields, tail)) = rest.split_first_chunk::<6>() else { return };
                rest = tail;
                let usual = [flags::ACK, flags::SYN, flags::SYN | flags::ACK, flags::FIN | flags::ACK, flags::RST];
                let flag = usual.get(usize::from(op[1] >> 4)).copied().unwrap_or(flags::ACK);
                let mut frame = segment(link, heading(op[0]), op[1], flag, fields);
                port.pass(g, now, heading(op[0]), &mut frame);
            }
        }
        let mut frame = Vec::new();
        while port.bytes.transmit(g, now, &mut frame) == Some(Heading::Outward) {
            let at = port.at(&frame);
            let d = wire::decode(&frame[at..]).expect("what the gateway says is valid");
            assert_eq!((d.packet.flags, d.payload.len(), at + d.end), (flags::ACK, 0, frame.len()));
            frame.clear();
        }
        let stats = g.stats(Some(&port.line));
        assert!(stats.flows.len() <= 3 * CAPACITY); // flows, handshakes and unanswered flows
        assert!(stats.flows.iter().all(|f| f.control.is_none_or(|c| c.awnd.is_finite() && c.awnd >= 2.0)));
    }
});

fn heading(op: u8) -> Heading {
    if op & 8 == 0 { Heading::Inward } else { Heading::Outward }
}

/// A link header after the addresses, and the EtherType or PPP protocol for IPv4 and IPv6.
type Link = (&'static [u8], [[u8; 2]; 2]);

/// No link header, then Ethernet without a tag, with one tag, with two tags, and with PPPoE.
const LINKS: [Option<Link>; 5] = [
    None,
    Some((&[], [[0x08, 0], [0x86, 0xdd]])),
    Some((&[0x81, 0, 0, 5], [[0x08, 0], [0x86, 0xdd]])),
    Some((&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], [[0x08, 0], [0x86, 0xdd]])),
    Some((&[0x88, 0x64, 0x11, 0, 0, 9, 0, 42], [[0, 0x21], [0, 0x57]])),
];

/// Returns the addresses of one of four flows in its inward direction, two of each IP version.
fn addresses(flow: u8) -> Addresses {
    let ip = if flow & 1 == 0 {
        IpPair::V4 { src: Ipv4Addr::new(192, 0, 2, 1), dst: Ipv4Addr::new(10, 0, 0, 2) }
    } else {
        IpPair::V6 { src: Ipv6Addr::LOCALHOST, dst: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9) }
    };
    Addresses { ip, src_port: 443, dst_port: 40_000 + u16::from(flow % 4) }
}

/// Returns the window scale of both ends of a flow.
fn scale(a: &Addresses) -> Option<u8> {
    [None, Some(7), Some(14), Some(2)][usize::from(a.dst_port % 4)]
}

/// Creates a valid segment of one of four flows, with sequence numbers from so few values that segments often match.
fn segment(link: Option<Link>, heading: Heading, flow: u8, flag: u8, fields: &[u8; 6]) -> Vec<u8> {
    let inward = addresses(flow);
    let a = if heading == Heading::Outward { inward.reversed() } else { inward };
    let mut p = Packet::tcp(FlowId::new(0, false));
    p.flags = flag;
    p.seq = (u32::from(fields[0]) << 8) + u32::from(!p.is(flags::SYN)); // follows a SYN
    p.ack = (u32::from(fields[1]) << 8).wrapping_add(1);
    p.window = u16::from_be_bytes([fields[2], fields[3]]);
    if fields[4] & 1 != 0 {
        p.set_timestamps(fields[0].into(), fields[1].into());
    }
    let mut side = None;
    if p.is(flags::SYN) {
        let window_scale = scale(&inward);
        let o =
            SynOptions { mss: fields[5].into(), window_scale, sack_permitted: true, timestamps: p.has_timestamps() };
        p.size = p.header_bytes(o.header_bytes());
        side = Some(SideContent::Syn(o));
    } else {
        p.set_payload(u16::from(fields[5]) << 3);
    }
    let mut frame = Vec::new();
    if let Some((header, kinds)) = link {
        frame.extend([2; 12]);
        frame.extend_from_slice(header);
        frame.extend(kinds[usize::from(flow & 1)]);
    }
    wire::encode(&p, side.as_ref(), &a, &Implied::from_packet(&p), &mut frame).expect("a valid packet");
    frame
}

/// Passes frames to a gateway and checks the result.
struct Port {
    bytes: FrameGateway,
    framing: Framing,
    line: Line,
    senders: Option<Senders>,
}

impl Port {
    /// Returns the offset of the IP header in a valid frame.
    fn at(&self, frame: &[u8]) -> usize {
        if self.framing == Framing::Ip { 0 } else { ethernet::ip_offset(frame).expect("an IP datagram") }
    }

    fn pass(&mut self, g: &mut dyn Gateway, now: Time, heading: Heading, frame: &mut [u8]) {
        let before = frame.to_vec();
        let verdict = self.bytes.receive(g, now, heading, &mut self.bytes.parse(frame), Some(&self.line));
        assert_eq!(verdict, SegmentVerdict::Accept);
        let at = match self.framing {
            Framing::Ip => 0,
            Framing::Ethernet => match ethernet::ip_offset(&before) {
                Ok(at) => at,
                Err(_) => return assert_eq!(*frame, before[..]),
            },
        };
        if let Some(senders) = &mut self.senders {
            senders.passed(heading, &before[at..], &frame[at..]);
        }
        if *frame == before[..] {
            return;
        }
        assert_eq!(heading, Heading::Outward);
        assert_eq!(frame[..at], before[..at]);
        let (before, frame) = (&before[at..], &frame[at..]);
        let (old, new) =
            (wire::parse(before).expect("it was changed"), wire::parse(frame).expect("no length has changed"));
        assert!(new.packet.window < old.packet.window && !old.signed && !old.multipath);
        assert_eq!(new.verify(frame).is_ok(), old.verify(before).is_ok());
        let mut expected = old;
        expected.packet.window = new.packet.window;
        assert_eq!(new, expected);
    }
}

/// External senders that use all of their windows; some segments bypass the gateway. Keeps the highest acknowledgment
/// and right edge that each sender has received, from a handshake until another SYN passes.
#[derive(Default)]
struct Senders {
    edges: BTreeMap<Addresses, Sender>,
    /// Flows with SYNs that announced another scale.
    odd: BTreeSet<Addresses>,
}

#[derive(Clone, Copy)]
struct Sender {
    /// Highest acknowledgment and right edge.
    una: u32,
    edge: u32,
    /// Range of segments that the sender accepts: from its acknowledgment to at least the window of its SYN-ACK.
    acked: u32,
    offered: u32,
}

impl Senders {
    /// Handles a datagram that passed the gateway, before and after it.
    fn passed(&mut self, heading: Heading, came: &[u8], went: &[u8]) {
        let Ok(old) = wire::parse(came) else { return };
        let a = if heading == Heading::Outward { old.addresses.reversed() } else { old.addresses };
        if old.packet.is(flags::SYN) {
            let told = match old.side {
                Some(SideContent::Syn(o)) => o.window_scale,
                _ => None,
            };
            if told != scale(&a) {
                self.odd.insert(a);
            }
            if !old.packet.is(flags::ACK) {
                self.edges.remove(&a);
            }
        } else if old.packet.is(flags::ACK) && !old.packet.is(flags::RST) {
            let sender = self.edges.get_mut(&a).filter(|_| !self.odd.contains(&a));
            let Some(Sender { una, edge, acked, offered }) = sender else { return };
            let (seq, ack) = (old.packet.seq, old.packet.ack);
            let before = |a: u32, b: u32| (a.wrapping_sub(b) as i32) < 0;
            if heading == Heading::Inward {
                *acked = if before(*acked, ack) { ack } else { *acked };
                return;
            }
            if before(seq, *acked) || before(*offered, seq) {
                return;
            }
            if ack.wrapping_sub(*una) > edge.wrapping_sub(*una) {
                return; // old, or it acknowledges what was not sent (RFC 9293 section 3.10.7.4)
            }
            *una = ack;
            let new = wire::parse(went).expect("no length has changed").packet.window;
            let unit = 1_u32 << scale(&a).unwrap_or(0);
            let ahead = ack.wrapping_add(u32::from(new) * unit).wrapping_sub(*edge) as i32;
            assert!(new == old.packet.window || ahead > -(unit as i32), "the edge went back");
            if ahead > 0 {
                *edge = edge.wrapping_add(ahead as u32);
            }
        }
    }
}
