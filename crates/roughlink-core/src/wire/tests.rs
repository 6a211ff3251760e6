//! Round trips, comparison with another implementation, and decoding of arbitrary bytes.

use super::*;
use crate::packet::{Chunk, Cookie, Ecn, Gap, Gaps, Init, SackBlock, Skipped};
use etherparse::{NetSlice, SlicedPacket, TcpOptionElement, TransportSlice};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

fn addresses() -> impl Strategy<Value = Addresses> {
    let ip = prop_oneof![
        any::<(u32, u32)>().prop_map(|(s, d)| IpPair::V4 { src: Ipv4Addr::from(s), dst: Ipv4Addr::from(d) }),
        any::<(u128, u128)>().prop_map(|(s, d)| IpPair::V6 { src: Ipv6Addr::from(s), dst: Ipv6Addr::from(d) }),
    ];
    (ip, any::<u16>(), any::<u16>()).prop_map(|(ip, src_port, dst_port)| Addresses { ip, src_port, dst_port })
}

fn segment() -> impl Strategy<Value = (Packet, Option<SideContent>)> {
    let fields = any::<(u32, u32, u16, u16, u8)>();
    let blocks = prop::collection::vec(any::<(u32, u32)>(), 0..=4);
    (fields, prop::option::of(any::<(u32, u32)>()), blocks, 0_u16..3000).prop_map(|(f, ts, blocks, payload)| {
        let mut p = Packet::tcp(FlowId::new(0, false));
        (p.seq, p.ack, p.window, p.ident) = (f.0, f.1, f.2, f.3);
        p.flags = f.4 & !flags::SYN;
        if let Some((tsval, tsecr)) = ts {
            p.set_timestamps(tsval, tsecr);
        }
        let n = blocks.len().min(if ts.is_some() { 3 } else { 4 });
        let mut side = [SackBlock::default(); 4];
        for (b, &(left, right)) in side.iter_mut().zip(&blocks[..n]) {
            *b = SackBlock { left, right };
        }
        p.set_sacks(n, p.side());
        p.set_payload(payload);
        (p, (n > 0).then_some(SideContent::Sacks(side)))
    })
}

fn syn() -> impl Strategy<Value = (Packet, Option<SideContent>)> {
    let options = (1_u16.., prop::option::of(0_u8..=14), any::<bool>(), prop::option::of(any::<(u32, u32)>()));
    (any::<(u32, u32, u16, u8)>(), options).prop_map(|(f, (mss, window_scale, sack_permitted, ts))| {
        let mut p = Packet::tcp(FlowId::new(0, false));
        (p.seq, p.ack, p.window, p.flags) = (f.0, f.1, f.2, f.3 | flags::SYN);
        if let Some((tsval, tsecr)) = ts {
            p.set_timestamps(tsval, tsecr);
        }
        let options = SynOptions { mss, window_scale, sack_permitted, timestamps: ts.is_some() };
        p.size = p.header_bytes(options.header_bytes());
        (p, Some(SideContent::Syn(options)))
    })
}

fn datagram() -> impl Strategy<Value = (Packet, Option<SideContent>)> {
    (any::<u32>(), 12_u16..3000, any::<u64>(), any::<u16>()).prop_map(|(number, payload, sent, ident)| {
        let mut p = Packet::udp(FlowId::new(0, false), number, payload, Time(sent));
        p.ident = ident;
        (p, None)
    })
}

fn data_chunk() -> impl Strategy<Value = (Packet, Option<SideContent>)> {
    let fields = any::<(u32, u32, u16, u16, u8, u16)>();
    (fields, 1_u16..3000).prop_map(|((tag, tsn, stream, ssn, flags, ident), bytes)| {
        let mut p = Packet::sctp_data(FlowId::new(0, false), tag, tsn, (stream, ssn), bytes);
        (p.window, p.tsecr, p.ident) = (u16::from(flags), tsn ^ tag, ident);
        (p, None)
    })
}

fn control_chunk() -> impl Strategy<Value = (Packet, Option<SideContent>)> {
    let flow = FlowId::new(0, false);
    let sack = (
        any::<(u32, u32)>(),
        prop::collection::vec(any::<(u16, u16)>(), 0..20),
        prop::collection::vec(any::<u32>(), 0..6),
    )
        .prop_map(move |((tsn, a_rwnd), gaps, duplicates)| {
            let gaps = Gaps::new(gaps.into_iter().map(|(start, end)| Gap { start, end }), duplicates);
            let side = (gaps != Gaps::default()).then_some(SideContent::Gaps(gaps));
            (Packet::sctp_sack(flow, 7, tsn, a_rwnd, &gaps), side)
        });
    let cookie = prop::collection::vec(any::<u8>(), 48).prop_map(|c| Cookie::Own(c.try_into().unwrap()));
    let init =
        (any::<(u32, u32, u16, u16, u32, bool)>(), prop::option::of(cookie.clone())).prop_map(move |(f, cookie)| {
            let (tag, a_rwnd, outbound, inbound, tsn, forward_tsn) = f;
            let init = Init { tag, a_rwnd, outbound, inbound, tsn, forward_tsn, cookie };
            (Packet::sctp_init(flow, 0, &init), Some(SideContent::Init(init)))
        });
    let echo = cookie.prop_map(move |c| (Packet::sctp_cookie_echo(flow, 8, &c), Some(SideContent::Cookie(c))));
    let forward = (any::<u32>(), prop::collection::vec(any::<(u16, u16)>(), 0..16)).prop_map(move |(tsn, streams)| {
        let mut skipped = Skipped::default();
        streams.into_iter().for_each(|(stream, ssn)| assert!(skipped.note(stream, ssn)));
        let side = (skipped != Skipped::default()).then_some(SideContent::Skipped(skipped));
        (Packet::sctp_forward_tsn(flow, 9, tsn, &skipped), side)
    });
    let plain = prop_oneof![
        any::<u32>().prop_map(move |tsn| Packet::sctp_shutdown(flow, 1, tsn)),
        any::<u32>().prop_map(move |us| Packet::sctp_stale_cookie(flow, 1, us)),
        prop::sample::select(vec![Chunk::Abort, Chunk::ShutdownAck, Chunk::CookieAck, Chunk::ShutdownComplete])
            .prop_map(move |chunk| Packet::sctp(flow, 1, chunk)),
    ];
    let plain = plain.prop_map(|p| (p, None));
    (prop_oneof![2 => sack, 1 => init, 1 => echo, 1 => forward, 1 => plain], any::<u16>()).prop_map(
        |((mut p, s), ident)| {
            p.ident = ident;
            (p, s)
        },
    )
}

fn packet() -> impl Strategy<Value = (Packet, Option<SideContent>)> {
    prop_oneof![3 => divisible(), 1 => control_chunk()]
}

/// Packets whose headers are never cut by a fragment of 64 bytes.
fn divisible() -> impl Strategy<Value = (Packet, Option<SideContent>)> {
    prop_oneof![3 => segment(), 1 => syn(), 1 => datagram(), 2 => data_chunk()]
}

/// Returns the next word boundary at or after `at` for SCTP, whose chunks are padded; `at` for other protocols.
fn padded(packet: &Packet, at: usize) -> usize {
    if packet.protocol() == Protocol::Sctp { at.next_multiple_of(4) } else { at }
}

fn bytes_of(packet: &Packet, side: &Option<SideContent>, addresses: &Addresses, payload: &impl Payload) -> Vec<u8> {
    let mut out = vec![0xaa; 3]; // existing content must stay
    encode(packet, side.as_ref(), addresses, payload, &mut out).unwrap();
    assert_eq!(out[..3], [0xaa; 3]);
    out.split_off(3)
}

/// Cuts `p` at multiples of 8 bytes after the IP header, as a link with a small MTU would.
fn fragments(p: &Packet, part: u16) -> Vec<Packet> {
    let total = p.size - 20;
    (0..total)
        .step_by(usize::from(part))
        .map(|offset| {
            let mut f = *p;
            let length = part.min(total - offset);
            let last = offset + length == total;
            f.size = 20 + length;
            f.set_fragment(match (offset, last) {
                (0, false) => Fragment::First,
                (0, true) => Fragment::Whole,
                (_, false) => Fragment::Middle,
                (_, true) => Fragment::Last,
            });
            if offset > 0 {
                f.ack = u32::from(offset);
            }
            f
        })
        .collect()
}

/// Returns the TCP options of a packet in the order on the wire, without padding.
fn options(packet: &Packet, side: Option<&SideContent>) -> Vec<TcpOptionElement> {
    use TcpOptionElement::{
        MaximumSegmentSize, SelectiveAcknowledgement, SelectiveAcknowledgementPermitted, Timestamp, WindowScale,
    };
    let timestamps = packet.has_timestamps().then_some(Timestamp(packet.tsval, packet.tsecr));
    match side {
        Some(SideContent::Syn(syn)) => [
            Some(MaximumSegmentSize(syn.mss)),
            syn.sack_permitted.then_some(SelectiveAcknowledgementPermitted),
            timestamps,
            syn.window_scale.map(WindowScale),
        ]
        .into_iter()
        .flatten()
        .collect(),
        Some(SideContent::Sacks(blocks)) => {
            let mut blocks = blocks[..packet.sacks()].iter().map(|block| (block.left, block.right));
            let sack =
                blocks.next().map(|first| SelectiveAcknowledgement(first, std::array::from_fn(|_| blocks.next())));
            timestamps.into_iter().chain(sack).collect()
        }
        _ => timestamps.into_iter().collect(),
    }
}

proptest! {
    #[test]
    fn packets_survive_the_round_trip((packet, side) in packet(), addresses in addresses(), flow in any::<u32>()) {
        let implied = Implied::from_packet(&packet);
        let bytes = bytes_of(&packet, &side, &addresses, &implied);
        let v6 = matches!(addresses.ip, IpPair::V6 { .. });
        prop_assert_eq!(bytes.len(), usize::from(packet.size) + if v6 { 20 } else { 0 });

        let d = decode(&bytes).unwrap();
        prop_assert_eq!(d.addresses, addresses);
        prop_assert_eq!((d.end, padded(&packet, d.payload.end)), (bytes.len(), bytes.len()));
        prop_assert!(!d.signed && !d.multipath);
        let mut payload = vec![0; packet.payload() as usize];
        implied.fill(0, &mut payload);
        prop_assert_eq!(&bytes[d.payload.clone()], &payload[..]);

        let stamp = UdpStamp::read(&bytes[d.payload.clone()]);
        let mut sides = Sides::default();
        let mut q = d.into_packet(&bytes, FlowId(flow), &mut sides);
        prop_assert_eq!(sides.get(&q), side.as_ref());
        if packet.protocol() == Protocol::Udp {
            stamp.unwrap().apply(&mut q);
        }
        let mut expected = packet;
        expected.flow = FlowId(flow);
        expected.set_side(q.side());
        if v6 {
            expected.ident = 0;
        }
        prop_assert_eq!(q, expected);
    }

    /// Another implementation reads the fields that were written, and computes the same checksums.
    #[test]
    fn etherparse_reads_the_same_headers(
        (mut packet, side) in prop_oneof![segment(), syn(), datagram()], addresses in addresses(),
        (class, hop_limit, flow_label, dont_fragment) in any::<(u8, u8, u32, bool)>(),
    ) {
        packet.set_traffic_class(class);
        let fields = IpFields { hop_limit, flow_label: flow_label & 0xf_ffff, dont_fragment };
        let implied = Implied::from_packet(&packet);
        let mut bytes = Vec::new();
        encode_with(fields, &packet, side.as_ref(), &addresses, &implied, &mut bytes).unwrap();
        let mut payload = vec![0; packet.payload() as usize];
        implied.fill(0, &mut payload);

        let read = SlicedPacket::from_ip(&bytes).unwrap();
        match (read.net.as_ref().unwrap(), addresses.ip) {
            (NetSlice::Ipv4(ip), IpPair::V4 { src, dst }) => {
                let h = ip.header();
                prop_assert_eq!((h.source_addr(), h.destination_addr()), (src, dst));
                prop_assert_eq!(usize::from(h.total_len()), bytes.len());
                prop_assert_eq!((h.ttl(), h.identification()), (hop_limit, packet.ident));
                prop_assert_eq!(h.dont_fragment(), dont_fragment);
                prop_assert_eq!(h.dcp().value() << 2 | h.ecn().value(), class);
                prop_assert_eq!(h.header_checksum(), h.to_header().calc_header_checksum());
            }
            (NetSlice::Ipv6(ip), IpPair::V6 { src, dst }) => {
                let h = ip.header();
                prop_assert_eq!((h.source_addr(), h.destination_addr()), (src, dst));
                prop_assert_eq!(usize::from(h.payload_length()), bytes.len() - 40);
                prop_assert_eq!((h.hop_limit(), h.traffic_class()), (hop_limit, class));
                prop_assert_eq!(h.flow_label().value(), fields.flow_label);
            }
            (net, _) => prop_assert!(false, "{:?}", net),
        }
        let ports = (addresses.src_port, addresses.dst_port);
        match (read.transport.unwrap(), packet.protocol()) {
            (TransportSlice::Tcp(tcp), Protocol::Tcp) => {
                prop_assert_eq!((tcp.source_port(), tcp.destination_port()), ports);
                prop_assert_eq!((tcp.sequence_number(), tcp.acknowledgment_number()), (packet.seq, packet.ack));
                prop_assert_eq!(tcp.window_size(), packet.window);
                let bits =
                    [tcp.fin(), tcp.syn(), tcp.rst(), tcp.psh(), tcp.ack(), tcp.urg(), tcp.ece(), tcp.cwr(), tcp.ns()];
                prop_assert_eq!(bits.map(u16::from), std::array::from_fn(|i| u16::from(packet.flags) >> i & 1));
                let found = tcp.options_iterator().collect::<Result<Vec<_>, _>>().unwrap();
                let found = found.into_iter().filter(|option| *option != TcpOptionElement::Noop).collect::<Vec<_>>();
                prop_assert_eq!(found, options(&packet, side.as_ref()));
                prop_assert_eq!(tcp.payload(), &payload[..]);
                let sum = match addresses.ip {
                    IpPair::V4 { src, dst } => tcp.calc_checksum_ipv4(src.octets(), dst.octets()),
                    IpPair::V6 { src, dst } => tcp.calc_checksum_ipv6(src.octets(), dst.octets()),
                };
                prop_assert_eq!(tcp.checksum(), sum.unwrap());
            }
            (TransportSlice::Udp(udp), Protocol::Udp) => {
                prop_assert_eq!((udp.source_port(), udp.destination_port()), ports);
                prop_assert_eq!(usize::from(udp.length()), 8 + payload.len());
                prop_assert_eq!(udp.payload(), &payload[..]);
                let header = udp.to_header();
                let sum = match addresses.ip {
                    IpPair::V4 { src, dst } => header.calc_checksum_ipv4_raw(src.octets(), dst.octets(), &payload),
                    IpPair::V6 { src, dst } => header.calc_checksum_ipv6_raw(src.octets(), dst.octets(), &payload),
                };
                prop_assert_eq!(udp.checksum(), sum.unwrap());
            }
            (transport, _) => prop_assert!(false, "{:?}", transport),
        }
    }

    #[test]
    fn real_payload_is_carried((mut packet, side) in segment(), addresses in addresses(),
                               data in prop::collection::vec(any::<u8>(), 0..2000)) {
        packet.set_payload(data.len() as u16);
        let mut bytes = Vec::new();
        encode(&packet, side.as_ref(), &addresses, &data[..], &mut bytes).unwrap();
        let d = decode(&bytes).unwrap();
        prop_assert_eq!(&bytes[d.payload], &data[..]);
    }

    /// A decoded packet encodes to the same bytes, including DSCP, ECN, hop limit, flow label, DF and fragments.
    #[test]
    fn bytes_survive_the_round_trip((packet, side) in divisible(), addresses in addresses(), part in 8_u16..100,
                                    (class, hop_limit, flow_label, dont_fragment) in any::<(u8, u8, u32, bool)>()) {
        let implied = Implied::from_packet(&packet);
        let v4 = matches!(addresses.ip, IpPair::V4 { .. });
        let fields = IpFields {
            hop_limit,
            flow_label: if v4 { 0 } else { flow_label & 0xf_ffff },
            dont_fragment: v4 && dont_fragment,
        };
        for (i, mut f) in [packet].into_iter().chain(fragments(&packet, part * 8)).enumerate() {
            f.set_traffic_class(class);
            let side = if i <= 1 || packet.protocol() == Protocol::Tcp && packet.is(flags::SYN) { side } else { None };
            let mut bytes = Vec::new();
            encode_with(fields, &f, side.as_ref(), &addresses, &implied, &mut bytes).unwrap();
            prop_assert_eq!(Datagram::from_ip(&bytes).envelope().map(|e| e.traffic_class), Ok(class));
            let d = decode(&bytes).unwrap();
            prop_assert_eq!((d.packet.traffic_class(), d.fields), (class, fields));
            if i > 0 && f.fragment() != Fragment::Whole {
                continue; // its payload is unknown
            }
            let mut again = Vec::new();
            let payload = &bytes[d.payload.clone()];
            encode_with(d.fields, &d.packet, d.side.as_ref(), &d.addresses, payload, &mut again).unwrap();
            prop_assert_eq!(&again, &bytes);
        }
    }

    /// For IPv4, marking also updates the header checksum to the one computed over the new header.
    #[test]
    fn ecn_mark_changes_two_bits(
        (packet, side) in packet(), addresses in addresses(), (class, ecn) in any::<(u8, u8)>(),
    ) {
        let write = |class: u8| {
            let mut p = packet;
            p.set_traffic_class(class);
            bytes_of(&p, &side, &addresses, &Implied::from_packet(&p))
        };
        let mut bytes = write(class);
        set_ecn(&mut bytes, Ecn::from_bits(ecn));
        prop_assert_eq!(bytes, write(class & !0b11 | ecn & 0b11));
    }

    #[test]
    fn fragments_make_up_the_datagram((packet, side) in divisible(), addresses in addresses(), part in 8_u16..100) {
        let implied = Implied::from_packet(&packet);
        let whole = bytes_of(&packet, &side, &addresses, &implied);
        let whole = &whole[decode(&whole).unwrap().transport..];
        let part = part * 8; // from 64: the first fragment holds all of the header
        let fragments = fragments(&packet, part);
        let count = fragments.len();
        let mut joined = Vec::new();
        for (i, f) in fragments.iter().enumerate() {
            // Only the first fragment keeps the side data.
            let side = if i == 0 || packet.protocol() == Protocol::Tcp && packet.is(flags::SYN) { side } else { None };
            let bytes = bytes_of(f, &side, &addresses, &implied);
            let d = decode(&bytes).unwrap();
            prop_assert_eq!((d.packet.fragment(), d.packet.size), (f.fragment(), f.size));
            prop_assert_eq!(d.addresses.ip, addresses.ip);
            if i > 0 {
                prop_assert_eq!((d.packet.ack, d.addresses.dst_port), (f.ack, 0));
                prop_assert!(d.is_later_fragment());
            }
            if count > 1 {
                prop_assert_eq!(d.packet.ident, packet.ident);
            }
            joined.extend_from_slice(&bytes[d.transport..]);
        }
        prop_assert_eq!(&joined[..], whole);
    }

    #[test]
    fn the_window_is_rewritten_in_place((mut packet, side) in prop_oneof![segment(), syn()],
                                        addresses in addresses(), window in any::<u16>()) {
        let implied = Implied::from_packet(&packet);
        let mut bytes = bytes_of(&packet, &side, &addresses, &implied);
        let d = decode(&bytes).unwrap();
        let mut header = d.tcp_header(&mut bytes).unwrap();
        prop_assert_eq!(header.window(), packet.window);
        header.set_window(window);
        packet.window = window;
        prop_assert_eq!(bytes, bytes_of(&packet, &side, &addresses, &implied));
    }

    #[test]
    fn length_fields_are_honored((packet, side) in packet(), addresses in addresses(),
                                  padding in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut bytes = bytes_of(&packet, &side, &addresses, &Implied::from_packet(&packet));
        let d = decode(&bytes).unwrap();
        for n in [0, 1, 19, 20, 39.min(bytes.len() - 1), d.transport + 7, d.payload.start - 1, bytes.len() - 1] {
            prop_assert!(matches!(decode(&bytes[..n]), Err(WireError::Truncated(_))), "{}", n);
        }
        bytes.extend_from_slice(&padding);
        prop_assert_eq!(decode(&bytes), Ok(d));
    }

    #[test]
    fn flipped_bit_is_detected(
        (packet, side) in prop_oneof![segment(), syn(), data_chunk(), control_chunk()],
        at in any::<prop::sample::Index>(),
    ) {
        let addresses = fixed();
        let mut bytes = bytes_of(&packet, &side, &addresses, &Implied::from_packet(&packet));
        let bit = at.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), version in 0_u8..3) {
        if let (Some(first), 1..) = (bytes.first_mut(), version) {
            *first = [0, 0x45, 0x60][usize::from(version)];
        }
        let _ = (decode(&bytes), ethernet::ip_offset(&bytes));
    }

    #[test]
    fn decoded_datagrams_can_be_encoded(
        (packet, side) in packet(), addresses in addresses(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        // Property of the fuzz target, from starting points that a fuzzer takes long to reach.
        let mut bytes = bytes_of(&packet, &side, &addresses, &Implied::from_packet(&packet));
        for (at, value) in changes {
            let i = at.index(bytes.len().min(80));
            bytes[i] = value;
        }
        let Ok(first) = parse(&bytes) else { return Ok(()) };
        let mut payload = Vec::new();
        if first.is_later_fragment() {
            let header = match first.packet.protocol() {
                Protocol::Tcp => 20,
                Protocol::Udp => 8,
                Protocol::Sctp => 28,
            };
            payload.resize(first.packet.ack as usize - header, 0);
        }
        payload.extend_from_slice(&bytes[first.payload.clone()]);
        let mut written = Vec::new();
        match encode(&first.packet, first.side.as_ref(), &first.addresses, &payload[..], &mut written) {
            Ok(()) => {}
            Err(EncodeError::Fragment) if first.packet.fragment() == Fragment::First => return Ok(()),
            Err(EncodeError::Chunk) => return Ok(()), // SCTP chunks that are decoded but never encoded
            Err(e) => panic!("{e}: {first:?}"),
        }
        let second = decode(&written).unwrap();
        prop_assert_eq!((second.packet, second.side, second.addresses), (first.packet, first.side, first.addresses));
        prop_assert_eq!(&written[second.payload.clone()], &bytes[first.payload.clone()]);
        prop_assert_eq!(second.end, written.len());
    }

    #[test]
    fn mutated_bytes_do_not_panic((packet, side) in packet(), addresses in addresses(),
                                  changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
                                  cut in any::<prop::sample::Index>()) {
        let mut bytes = bytes_of(&packet, &side, &addresses, &Implied::from_packet(&packet));
        for (at, value) in changes {
            let i = at.index(bytes.len().min(80)); // mostly headers
            bytes[i] = value;
        }
        let _ = (decode(&bytes), decode(&bytes[..cut.index(bytes.len())]));
        if let Ok(d) = parse(&bytes) {
            prop_assert!(d.transport <= d.payload.start && d.payload.start <= d.payload.end);
            prop_assert!(d.payload.end <= d.end && d.end <= bytes.len());
            prop_assert_eq!(d.tcp_header(&mut bytes).is_some(),
                            d.packet.protocol() == Protocol::Tcp && !d.is_later_fragment());
        }
    }
}

fn fixed() -> Addresses {
    let ip = IpPair::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2) };
    Addresses { ip, src_port: 40_000, dst_port: 40_001 }
}

#[test]
fn a_linux_syn_takes_60_bytes() {
    let mut p = Packet::tcp(FlowId::new(0, false));
    p.flags = flags::SYN;
    p.set_timestamps(1, 0);
    let options = SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true, timestamps: true };
    p.size = p.header_bytes(options.header_bytes());
    let bytes = bytes_of(&p, &Some(SideContent::Syn(options)), &fixed(), &Implied::from_packet(&p));
    assert_eq!(bytes.len(), 60);
}

#[test]
fn syn_without_mss_means_the_default_mss() {
    let mut p = Packet::tcp(FlowId::new(0, false));
    p.flags = flags::SYN;
    let options = SynOptions { mss: 0, ..SynOptions::default() };
    p.size = p.header_bytes(options.header_bytes());
    let ip = IpPair::V6 { src: Ipv6Addr::LOCALHOST, dst: Ipv6Addr::LOCALHOST };
    for (addresses, mss) in [(fixed(), 536), (Addresses { ip, ..fixed() }, 1220)] {
        let bytes = bytes_of(&p, &Some(SideContent::Syn(options)), &addresses, &Implied::from_packet(&p));
        assert_eq!(decode(&bytes).unwrap().side, Some(SideContent::Syn(SynOptions { mss, ..options })));
    }
}

#[test]
fn foreign_options_do_not_shift_the_payload() {
    // A segment of 2 bytes with MD5 option and timestamps in a different position: 20 + 18 + 10 bytes.
    let mut segment = vec![0; 48];
    segment[12] = 0xc0;
    segment[13] = flags::ACK;
    segment[20..22].copy_from_slice(&[19, 18]);
    segment[38..40].copy_from_slice(&[8, 10]);
    segment.extend_from_slice(b"hi");
    let mut bytes = Vec::new();
    let fields = IpFields::default();
    Head {
        pair: fixed().ip,
        class: 0,
        fields,
        protocol: protocol::TCP,
        ident: 0,
        fragment: Fragment::Whole,
        offset: 0,
    }
    .write(segment.len(), &mut bytes)
    .unwrap();
    bytes.extend_from_slice(&segment);
    assert_eq!(decode(&bytes), Err(WireError::Checksum("TCP")));
    let d = parse(&bytes).unwrap();
    assert!(d.signed && d.packet.has_timestamps());
    assert_eq!((d.packet.payload(), d.packet.size, d.end), (2, 40 + 12 + 2, 70));
    assert_eq!(&bytes[d.payload], b"hi");
}

/// A packet marked as IPv6 has its length on the wire; encoding it between IPv4 addresses fails.
#[test]
fn ipv6_packet_has_its_length_on_the_wire() {
    let ip = IpPair::V6 { src: Ipv6Addr::LOCALHOST, dst: Ipv6Addr::UNSPECIFIED };
    let v6 = Addresses { ip, ..fixed() };
    let mut tcp = Packet::tcp(FlowId::new(0, false));
    tcp.set_timestamps(1, 2);
    tcp.set_payload(100);
    for plain in [tcp, Packet::udp(FlowId::new(0, false), 0, 100, Time::ZERO)] {
        let mut p = plain;
        p.set_ipv6();
        let mut out = Vec::new();
        encode(&p, None, &v6, &Implied::from_packet(&p), &mut out).unwrap();
        assert_eq!(out.len(), usize::from(p.size));
        let d = decode(&out).unwrap();
        assert_eq!((d.packet.size, d.payload.len(), d.end), (plain.size, 100, out.len()));
        assert_eq!(encode(&p, None, &fixed(), &Implied::from_packet(&p), &mut Vec::new()), Err(EncodeError::Family));
    }
}

#[test]
fn packets_without_wire_form_are_refused() {
    let encode = |p: &Packet, bytes: usize| {
        let mut out = Vec::new();
        let e = encode(p, None, &fixed(), &Implied::new(p, bytes), &mut out);
        assert!(e.is_ok() || out.is_empty());
        e
    };
    let mut p = Packet::tcp(FlowId::new(0, false));
    p.set_payload(100);
    assert_eq!(encode(&p, 100), Ok(()));
    assert_eq!(encode(&p, 99), Err(EncodeError::Size));
    p.size = 10;
    assert_eq!(encode(&p, 0), Err(EncodeError::Size));
    p.size = 52;
    p.set_fragment(Fragment::First);
    assert_eq!(encode(&p, 70_000), Err(EncodeError::TooLong));
    p.set_fragment(Fragment::Middle);
    p.ack = 8; // within the header
    assert_eq!(encode(&p, 500), Err(EncodeError::Size));
    p.ack = 70_000;
    assert_eq!(encode(&p, 500), Err(EncodeError::Size));
    p.ack = 36;
    assert_eq!(encode(&p, 500), Err(EncodeError::Fragment));
    p.ack = 40;
    assert_eq!(encode(&p, 500), Ok(()));
}
