//! Arbitrary frames, made-up segments, link events and pauses into each gateway. Windows only become smaller, what was
//! valid stays valid, what the gateway says itself is valid, and its table stays bounded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roughlink_core::cc::LinkEvent;
use roughlink_core::gateway::bytes::{Bytes, Framing};
use roughlink_core::gateway::{Gateway, Heading, Key, Modem, REGISTRY, build};
use roughlink_core::packet::{FlowId, Packet, Side, SynOptions, flags};
use roughlink_core::units::Time;
use roughlink_core::wire::{self, Addresses, Implied, IpPair};
use std::net::Ipv4Addr;

const CAPACITY: usize = 3;

/// A modem that is busy as the input says.
struct Line(u32);

impl Modem for Line {
    fn waiting(&self, _key: &Key) -> u32 {
        self.0
    }
    fn backlog(&self, _key: &Key) -> u32 {
        self.0
    }
    fn occupied(&self) -> u32 {
        self.0
    }
    fn cycle_time(&self, sdus: u32) -> Time {
        Time::from_micros(750 + 652 * u64::from(sdus))
    }
    fn limit(&self) -> u32 {
        31
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&kind, mut rest)) = input.split_first() else { return };
    let name = REGISTRY[usize::from(kind) % REGISTRY.len()].name;
    let retract = if name != "avoca-rx" && kind & 0x80 != 0 { "allow_retract = true\n" } else { "" };
    let mut gateway = build(name, &format!("{retract}table = {{ capacity = {CAPACITY} }}")).expect("valid parameters");
    let g = gateway.as_mut();
    let mut bytes = Bytes::new(Framing::Ip, CAPACITY);
    let mut now = Time::ZERO;
    let mut line = Line(0);
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
            2 => line.0 = u32::from(op[1]),
            3 => {
                let (frame, tail) = rest.split_at(rest.len().min(usize::from(op[1])));
                rest = tail;
                pass(&mut bytes, g, now, heading(op[0]), &mut frame.to_vec(), &line);
            }
            _ => {
                let Some((fields, tail)) = rest.split_first_chunk::<6>() else { return };
                rest = tail;
                let mut frame = segment(heading(op[0]), op[1], fields);
                pass(&mut bytes, g, now, heading(op[0]), &mut frame, &line);
            }
        }
        let mut frame = Vec::new();
        while bytes.transmit(g, now, &mut frame) == Some(Heading::Outward) {
            let d = wire::decode(&frame).expect("what the gateway says is valid");
            assert_eq!((d.packet.flags, d.payload.len(), d.end), (flags::ACK, 0, frame.len()));
            frame.clear();
        }
        let stats = g.stats(Some(&line));
        assert!(stats.flows.len() <= CAPACITY);
        assert!(stats.flows.iter().all(|f| f.control.is_none_or(|c| c.awnd.is_finite() && c.awnd >= 2.0)));
    }
});

fn heading(op: u8) -> Heading {
    if op & 8 == 0 { Heading::Inward } else { Heading::Outward }
}

/// A valid segment of one of four flows, with numbers so few that many fit together.
fn segment(heading: Heading, flow: u8, fields: &[u8; 6]) -> Vec<u8> {
    let ip = IpPair::V4 { src: Ipv4Addr::new(192, 0, 2, 1), dst: Ipv4Addr::new(10, 0, 0, 2) };
    let mut a = Addresses { ip, src_port: 443, dst_port: 40_000 + u16::from(flow % 4) };
    if heading == Heading::Outward {
        a = a.reversed();
    }
    let mut p = Packet::tcp(FlowId::new(0, false));
    let usual = [flags::ACK, flags::SYN, flags::SYN | flags::ACK, flags::FIN | flags::ACK, flags::RST];
    p.flags = usual.get(usize::from(flow >> 4)).copied().unwrap_or(flags::ACK);
    p.seq = u32::from(fields[0]) << 8;
    p.ack = (u32::from(fields[1]) << 8).wrapping_add(1);
    p.window = u16::from_be_bytes([fields[2], fields[3]]);
    if fields[4] & 1 != 0 {
        p.set_timestamps(fields[0].into(), fields[1].into());
    }
    let mut side = None;
    if p.is(flags::SYN) {
        let window_scale = (fields[4] & 2 != 0).then_some(fields[4] >> 4);
        let o =
            SynOptions { mss: fields[5].into(), window_scale, sack_permitted: true, timestamps: p.has_timestamps() };
        p.size = p.header_bytes(o.header_bytes());
        side = Some(Side::Syn(o));
    } else {
        p.set_payload(u16::from(fields[5]) << 3);
    }
    let mut frame = Vec::new();
    wire::encode(&p, side.as_ref(), &a, &Implied::of(&p), &mut frame).expect("a valid packet");
    frame
}

fn pass(bytes: &mut Bytes, g: &mut dyn Gateway, now: Time, heading: Heading, frame: &mut [u8], line: &Line) {
    let before = frame.to_vec();
    bytes.receive(g, now, heading, frame, Some(line));
    if *frame == before[..] {
        return;
    }
    assert_eq!(heading, Heading::Outward);
    let (old, new) =
        (wire::parse(&before).expect("it was changed"), wire::parse(frame).expect("no length has changed"));
    assert!(new.packet.window < old.packet.window && !old.signed && !old.multipath);
    assert_eq!(new.verify(frame).is_ok(), old.verify(&before).is_ok());
    let mut expected = old;
    expected.packet.window = new.packet.window;
    assert_eq!(new, expected);
}
