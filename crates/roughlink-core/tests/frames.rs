//! Ethernet frames between two ports of a network leave unchanged, and links treat them like the datagrams inside.

use proptest::prelude::*;
use roughlink_core::net::{InterfaceDirection, Network, NetworkEvent, NetworkOutput, Observer, RunOptions};
use roughlink_core::packet::{FlowId, Packet};
use roughlink_core::scenario::Scenario;
use roughlink_core::trace::capture::Capture;
use roughlink_core::units::Time;
use roughlink_core::wire::{self, Addresses, Datagram, IpPair, ethernet};

fn parse(text: &str) -> Scenario {
    roughlink_scenario::parse(text, "frames", &[], &|_| Err("no files".into())).unwrap_or_else(|e| panic!("{e}")).0
}

/// Creates nodes `a`, `m` and `b` and two links with these keys.
fn chain([first, second]: [&str; 2], more: &str) -> Scenario {
    parse(&format!(
        "duration = \"60 s\"\nnode = [{{ name = \"a\", kernel = true }}, {{ name = \"m\" }}, {{ name = \"b\" }}]\n\
         [[link]]\nname = \"first\"\nbetween = [\"a\", \"m\"]\n{first}\n\
         [[link]]\nname = \"second\"\nbetween = [\"m\", \"b\"]\n{second}\n{more}"
    ))
}

fn open(scenario: Scenario) -> Network {
    Network::new(scenario, RunOptions { ports: vec![0, 2], ..RunOptions::default() }).unwrap()
}

const PLAIN: &str = "rate = \"50 Mbit/s\"\ndelay = \"5 ms\"";
const ROUGH: &str = "rate = \"1 Mbit/s\"\ndelay = \"7 ms\"\njitter = \"3 ms\"\nqueue = \"20 pkt\"\n\
                     noise = { kind = \"burst\", start = \"9 %\", length = [1, 4] }";
const HEADER: &[u8] = &[2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 1, 8, 0];
const TAGGED: &[u8] = &[2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 1, 0x81, 0, 0x20, 5, 8, 0];

/// Creates a UDP datagram of `size` bytes (IP length) between addresses outside or inside the scenario.
fn datagram(strange: bool, number: u32, size: usize) -> Vec<u8> {
    let third = if strange { 168 } else { 0 };
    let [src, dst] = [1, 3].map(|low| std::net::Ipv4Addr::new(10, third, 0, low));
    let addresses = Addresses { ip: IpPair::V4 { src, dst }, src_port: 7, dst_port: 9 };
    let mut payload = vec![0; size - 28];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    let mut out = Vec::new();
    let p = Packet::udp(FlowId::new(0, false), 0, payload.len() as u16, Time::ZERO);
    wire::encode(&p, None, &addresses, &payload, &mut out).unwrap();
    out
}

fn all(network: &mut Network) -> Vec<NetworkOutput> {
    std::iter::from_fn(|| network.transmit(Time::from_secs(60))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any frames leave unchanged, even if a link fragments them. Links count the bytes after Ethernet header and tags.
    #[test]
    fn frames_leave_unchanged(
        kind in prop::sample::select(vec![0x0806_u16, 0x88e1, 0x8100, 0x8864, 0x0800, 0x86dd, 0x1234]),
        body in prop::collection::vec(any::<u8>(), 1..1450),
    ) {
        let small = format!("{PLAIN}\nmtu = \"576 B\"");
        let mut network = open(chain([PLAIN, &small], ""));
        let mut frame = HEADER[..12].to_vec();
        frame.extend_from_slice(&kind.to_be_bytes());
        frame.extend_from_slice(&body);
        network.forward(Time::ZERO, [0, 1], &Datagram::from_frame(&frame));
        let stats = network.port_stats();
        let Some(length) = ethernet::payload_offset(&frame).ok().map(|at| frame.len() - at).filter(|n| *n > 0) else {
            prop_assert_eq!(stats.unreadable, 1);
            return Ok(());
        };
        prop_assert_eq!(stats.received, 1);
        let out = all(&mut network);
        prop_assert_eq!(out.len(), 1);
        prop_assert_eq!((out[0].datagram.bytes(), out[0].port, out[0].datagram.is_frame()), (&*frame, 1, true));
        let carried = network.result().links[0].forward;
        prop_assert!(carried.bytes <= length as u64, "{carried:?}");
    }

    /// Addresses, tags and padding have no effect.
    #[test]
    fn frames_are_lost_and_delayed_like_their_datagrams(
        seed in 0u64..1000,
        tagged in any::<bool>(),
        strange in any::<bool>(),
        sizes in prop::collection::vec(32usize..1500, 100..150),
    ) {
        let scenario = Scenario { seed, ..chain([ROUGH, ROUGH], "") };
        let (mut plain, mut framed) = (open(scenario.clone()), open(scenario));
        for (i, size) in sizes.iter().enumerate() {
            let now = Time::from_millis(10 * i as u64);
            plain.receive(now, 0, &Datagram::from_ip(datagram(false, i as u32, *size)));
            let mut frame = if tagged { TAGGED } else { HEADER }.to_vec();
            frame.extend(datagram(strange, i as u32, *size));
            frame.resize(frame.len().max(60), 0);
            framed.forward(now, [0, 1], &Datagram::from_frame(frame));
        }
        let number =
            |out: &NetworkOutput, at: usize| u32::from_be_bytes(*out.datagram.bytes()[at + 28..].first_chunk().unwrap());
        let head = if tagged { TAGGED.len() } else { HEADER.len() };
        let expected: Vec<_> = all(&mut plain).iter().map(|out| (out.due, number(out, 0))).collect();
        let got: Vec<_> = all(&mut framed).iter().map(|out| (out.due, number(out, head))).collect();
        prop_assert!(expected.len() < sizes.len(), "some are lost");
        prop_assert_eq!(got, expected);
        prop_assert_eq!(framed.result().links, plain.result().links);
    }
}

/// Two hosts with foreign addresses on a power line: its gateway finds conversations and reduces windows in frames.
#[test]
fn gateway_rewrites_segments_in_frames() {
    let flow = "[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"";
    let plain = chain([PLAIN, PLAIN], flow);
    let gateway = "[[gateway]]\nnode = \"m\"\nkind = \"muniz\"\n";
    let mut between = open(chain([PLAIN, "kind = \"hdplc\""], gateway));
    let one = |node| Network::new(plain.clone(), RunOptions { ports: vec![node], ..RunOptions::default() }).unwrap();
    let (mut source, mut sink) = (one(2), one(0));
    // Between the two ends, the addresses of the conversation are translated to ones that no node there has.
    let moved = |datagram: &[u8], back: bool| {
        let mut bytes = datagram.to_vec();
        let transport = wire::decode(&bytes).unwrap().transport;
        [13, 17].into_iter().for_each(|at| bytes[at] = if back { 0 } else { 7 });
        // RFC 1624: the checksums of IP and TCP decrease by as much as the two addresses increase.
        let gain = if back { 0xffff - 14 } else { 14 };
        for at in [10, transport + 16] {
            let sum = u32::from(!u16::from_be_bytes([bytes[at], bytes[at + 1]])) + gain;
            let sum = (sum & 0xffff) + (sum >> 16);
            bytes[at..at + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
        wire::decode(&bytes).expect("checksums are right");
        bytes
    };
    let framed = |datagram: &[u8]| [TAGGED, &moved(datagram, false)].concat();
    let (mut frames, mut own) = (0, 0);
    loop {
        let now = [&source, &between, &sink].into_iter().map(Network::next_wake).min().unwrap();
        if now > Time::from_secs(4) {
            break;
        }
        loop {
            let mut idle = true;
            while let Some(out) = source.transmit(now) {
                idle = false;
                between.forward(now, [0, 1], &Datagram::from_frame(&framed(out.datagram.bytes())));
            }
            while let Some(out) = between.transmit(now) {
                idle = false;
                let datagram = if out.datagram.is_frame() {
                    frames += 1;
                    assert_eq!(out.datagram.bytes()[..TAGGED.len()], *TAGGED);
                    &out.datagram.bytes()[TAGGED.len()..]
                } else {
                    own += 1;
                    out.datagram.bytes()
                };
                if out.port == 0 { &mut source } else { &mut sink }.receive(
                    now,
                    0,
                    &Datagram::from_ip(moved(datagram, true)),
                );
            }
            while let Some(out) = sink.transmit(now) {
                idle = false;
                between.forward(now, [1, 0], &Datagram::from_frame(&framed(out.datagram.bytes())));
            }
            if idle {
                break;
            }
        }
    }
    let gateway = between.result().gateways.remove(0);
    assert!(source.result().flows[0].delivered_bytes > 1_000_000, "{:?}", source.result().flows);
    assert_eq!(gateway.flows.len(), 1);
    assert!(gateway.flows[0].rewritten > 100, "{gateway:?}");
    assert_eq!(gateway.flows[0].flow, "10.7.0.1:50000 > 10.7.0.3:42000");
    assert!(frames > 1000, "{frames} frames, {own} of the gateway's own");
}

#[test]
fn undeliverable_frames_are_counted() {
    let mut network = open(chain([PLAIN, PLAIN], ""));
    network.forward(Time::ZERO, [0, 1], &Datagram::from_frame(&HEADER[..13]));
    network.forward(Time::ZERO, [0, 1], &Datagram::from_frame(HEADER));
    network.forward(Time::ZERO, [0, 1], &Datagram::from_frame(&[HEADER, &[0; 70_000]].concat()));
    network.forward(Time::ZERO, [1, 1], &Datagram::from_frame(&[HEADER, &[0; 46]].concat()));
    let stats = network.port_stats();
    assert_eq!((stats.unreadable, stats.unreachable, stats.received), (3, 1, 0));
}

/// Returns a frame with a SLAC message, CM_SLAC_PARM.REQ of HomePlug AV, with this run identifier.
fn slac(run: u8) -> Vec<u8> {
    let message = [0x01, 0x64, 0x60, 0, 0, 0, 0, run, 0, 0, 0, 0, 0, 0, 0];
    let mut frame = [&[0xff; 6], &HEADER[6..12], &[0x88, 0xe1], &message[..]].concat();
    frame.resize(60, 0);
    frame
}

/// Frames and datagrams that an observer is notified of.
#[derive(Default)]
struct FrameLog {
    frames: Vec<(Time, InterfaceDirection, [usize; 2], Vec<u8>)>,
    datagrams: usize,
}

impl Observer for FrameLog {
    fn observe(&mut self, now: Time, event: NetworkEvent<'_>) {
        match event {
            NetworkEvent::Frame { at, peer, bytes } => {
                assert_eq!(at.hop / 2, if at.node == 0 { 0 } else { 1 });
                self.frames.push((now, at.direction, [at.node, peer], bytes.to_vec()));
            }
            NetworkEvent::Datagram { .. } => {
                self.datagrams += 1;
            }
            _ => {}
        }
    }
}

/// Frames without an IP datagram are observed at both ports, lost ones only at the first.
#[test]
fn frames_without_datagram_are_observed() {
    let lossy = format!("{PLAIN}\nnoise = {{ kind = \"list\", drop = [1], direction = \"forward\" }}");
    let mut network = open(chain([PLAIN, &lossy], "")).observed_by(FrameLog::default());
    let frames = [slac(1), slac(2), [HEADER, &datagram(false, 3, 100)[..]].concat(), slac(4)];
    for (frame, between) in frames.iter().zip([[0, 1], [0, 1], [0, 1], [1, 0]]) {
        network.forward(Time::ZERO, between, &Datagram::from_frame(frame));
    }
    let out = std::iter::from_fn(|| network.transmit(Time::from_secs(1))).count();
    let log = network.observer();
    assert_eq!((out, log.datagrams), (3, 2));
    let at = |way: InterfaceDirection| -> Vec<_> {
        log.frames.iter().filter(|f| f.1 == way).map(|(_, _, nodes, bytes)| (*nodes, &bytes[..])).collect()
    };
    assert_eq!(at(InterfaceDirection::Out), [([0, 2], &frames[0][..]), ([0, 2], &frames[1]), ([2, 0], &frames[3])]);
    assert_eq!(at(InterfaceDirection::In), [([0, 2], &frames[3][..]), ([2, 0], &frames[0])]);
    let is_late = |(now, way, ..): &(Time, InterfaceDirection, [usize; 2], Vec<u8>)| {
        (*now > Time::from_millis(10)) == (*way == InterfaceDirection::In)
    };
    assert!(log.frames.iter().all(is_late), "{:?}", log.frames);
}

/// A capture has one more interface for each end at which there was a frame without an IP datagram.
#[test]
fn captures_include_frames_without_datagram() {
    let scenario = chain([PLAIN, PLAIN], "");
    let files = vec![(Vec::new(), vec![0, 2])];
    let capture = Capture::new(&scenario, files, None).map_err(|e| e.1).unwrap();
    let mut network = open(scenario).observed_by(capture);
    let datagram = datagram(false, 7, 100);
    for frame in [[HEADER, &datagram].concat(), slac(1), slac(2)] {
        network.forward(Time::ZERO, [0, 1], &Datagram::from_frame(&frame));
    }
    let out = std::iter::from_fn(|| network.transmit(Time::from_secs(1))).count();
    let file = network.detach_observer().1.finish().map_err(|e| e.1).unwrap().remove(0);
    let word = |block: &[u8], at: usize| u32::from_le_bytes(*block[at..].first_chunk().unwrap());
    let (mut interfaces, mut packets, mut rest) = (Vec::new(), Vec::new(), &file[..]);
    while !rest.is_empty() {
        let (block, after) = rest.split_at(word(rest, 4) as usize);
        rest = after;
        match word(block, 0) {
            1 => {
                let name = &block[20..][..usize::from(block[18])];
                interfaces.push((word(block, 8), String::from_utf8_lossy(name).into_owned()));
            }
            6 => packets.push((word(block, 8), &block[28..][..word(block, 20) as usize])),
            _ => {}
        }
    }
    const ETHERNET: u32 = 1;
    const RAW: u32 = 101;
    let named = |kind, name: &str| (kind, name.to_owned());
    let expected = [
        named(RAW, "a:first"),
        named(RAW, "b:second"),
        named(ETHERNET, "a:first (Ethernet)"),
        named(ETHERNET, "b:second (Ethernet)"),
    ];
    assert_eq!((out, interfaces), (3, expected.to_vec()));
    let [first, second, datagram] = [&slac(1)[..], &slac(2), &datagram];
    let expected = [(0, datagram), (2, first), (2, second), (1, datagram), (3, first), (3, second)];
    assert_eq!(packets, expected);
}
