use super::super::{Datagram, Envelope};
use super::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const V4: IpPair = IpPair::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2) };
const V6: IpPair =
    IpPair::V6 { src: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1), dst: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2) };
const UDP: u8 = 17;

/// Returns a fragment of protocol UDP with identification `ident` and these bytes.
fn fragment(pair: IpPair, ident: u16, kind: Fragment, offset: usize, bytes: &[u8]) -> Vec<u8> {
    fragment_of(UDP, 0, pair, ident, kind, offset, bytes)
}

fn fragment_of(
    protocol: u8,
    class: u8,
    pair: IpPair,
    ident: u16,
    fragment: Fragment,
    offset: usize,
    bytes: &[u8],
) -> Vec<u8> {
    let fields = super::super::IpFields::default();
    let mut out = Vec::new();
    let head = super::super::ip::Head { pair, class, fields, protocol, ident, fragment, offset };
    head.write(bytes.len(), &mut out).unwrap();
    out.extend(bytes);
    out
}

fn content(datagram: &[u8]) -> (Envelope, &[u8]) {
    let envelope = *Datagram::from_ip(datagram).envelope().unwrap();
    assert!(envelope.whole && envelope.end == datagram.len());
    verify_header(&envelope.pair, &datagram[..envelope.transport]).unwrap();
    (envelope, &datagram[envelope.transport..])
}

const A: &[u8] = b"first fragment, ";
const B: &[u8] = b"middle of datagr";
const C: &[u8] = b"last";

fn parts(pair: IpPair, ident: u16) -> [Vec<u8>; 3] {
    [
        fragment(pair, ident, Fragment::First, 0, A),
        fragment(pair, ident, Fragment::Middle, 16, B),
        fragment(pair, ident, Fragment::Last, 32, C),
    ]
}

/// RFC 791 section 3.2, RFC 8200 section 4.5: the order does not matter, and copies are dropped.
#[test]
fn fragments_in_any_order_make_the_datagram() {
    for pair in [V4, V6] {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut r = IpReassembly::new(10_000);
            let parts = parts(pair, 9);
            for i in &order[..2] {
                assert_eq!(r.receive(Time::ZERO, &parts[*i]), Ok(None));
                assert_eq!(r.receive(Time::ZERO, &parts[*i]), Ok(None), "a copy");
            }
            assert!(r.memory() > 2 * DATAGRAM_OVERHEAD / 2);
            let whole = r.receive(Time::ZERO, &parts[order[2]]).unwrap().unwrap();
            let (envelope, bytes) = content(&whole);
            assert_eq!((envelope.pair, envelope.protocol, bytes), (pair, UDP, &[A, B, C].concat()[..]));
            assert_eq!((r.memory(), r.next_wake(), r.incomplete()), (0, Time::MAX, 0));
        }
    }
}

/// The unfragmentable part stays before the data, and its last header names the protocol (RFC 8200 section 4.5).
#[test]
fn extension_headers_are_kept() {
    let with_options = |bytes: &[u8]| {
        let mut out = bytes[..40].to_vec();
        out[6] = 0; // hop-by-hop options, which name the fragment header
        out.extend([44, 0, 1, 4, 0, 0, 0, 0]);
        out.extend(&bytes[40..]);
        let length = out.len() as u16 - 40;
        out[4..6].copy_from_slice(&length.to_be_bytes());
        out
    };
    let mut r = IpReassembly::new(10_000);
    let parts = parts(V6, 9).map(|part| with_options(&part));
    assert_eq!(r.receive(Time::ZERO, &parts[2]), Ok(None));
    assert_eq!(r.receive(Time::ZERO, &parts[1]), Ok(None));
    let whole = r.receive(Time::ZERO, &parts[0]).unwrap().unwrap();
    let (envelope, bytes) = content(&whole);
    assert_eq!((envelope.protocol, envelope.transport, bytes), (UDP, 48, &[A, B, C].concat()[..]));
}

/// Datagrams differ by addresses, protocol (IPv4 only) and identification.
#[test]
fn datagrams_do_not_mix() {
    let mut r = IpReassembly::new(10_000);
    let [first, middle, last] = parts(V4, 9);
    assert_eq!(r.receive(Time::ZERO, &first), Ok(None));
    assert_eq!(r.receive(Time::ZERO, &middle), Ok(None));
    for other in [
        fragment(V4, 10, Fragment::Last, 32, C),
        fragment(V4.reversed(), 9, Fragment::Last, 32, C),
        fragment_of(1, 0, V4, 9, Fragment::Last, 32, C),
        fragment(V6, 9, Fragment::Last, 32, C),
    ] {
        assert_eq!(r.receive(Time::ZERO, &other), Ok(None));
    }
    assert!(r.receive(Time::ZERO, &last).unwrap().is_some());
}

/// RFC 5722 section 4: any overlap rejects the datagram, with the fragments still to come.
#[test]
fn overlaps_reject_the_datagram() {
    for pair in [V4, V6] {
        for (kind, offset, bytes) in [
            (Fragment::First, 0, &A[..8]),
            (Fragment::First, 0, b"First fragment, "),
            (Fragment::Middle, 8, A),
            (Fragment::Middle, 24, A),
            (Fragment::Last, 32, b"longer"),
            (Fragment::Middle, 40, A),
            (Fragment::Last, 24, b"x"),
        ] {
            let mut r = IpReassembly::new(10_000);
            let [first, middle, last] = parts(pair, 9);
            assert_eq!(r.receive(Time::ZERO, &first), Ok(None));
            assert_eq!(r.receive(Time::ZERO, &last), Ok(None));
            let overlapping = fragment(pair, 9, kind, offset, bytes);
            let outcome = r.receive(Time::ZERO, &overlapping);
            if kind == Fragment::Middle && offset == 8 || outcome.is_err() {
                assert_eq!(outcome, Err(WireError::Fragment), "{offset}");
                assert_eq!(r.receive(Time::ZERO, &middle), Err(WireError::Fragment));
                assert_eq!(r.memory(), DATAGRAM_OVERHEAD, "the bytes are freed");
            } else {
                assert_eq!((offset, outcome), (24, Ok(None)), "it fits into the gap");
                assert_eq!(r.receive(Time::ZERO, &middle), Err(WireError::Fragment));
            }
            r.wake(TIMEOUT);
            assert_eq!((r.memory(), r.incomplete()), (0, 1));
        }
    }
}

/// RFC 1858, RFC 3128, RFC 7112: the first fragment holds the whole transport header.
#[test]
fn tiny_first_fragments_are_rejected() {
    let mut r = IpReassembly::new(10_000);
    let mut tcp = [0; 32];
    tcp[12] = 8 << 4; // 12 bytes of options
    for (length, taken) in [(8, false), (16, false), (24, false), (32, true)] {
        for pair in [V4, V6] {
            let first = fragment_of(TCP, 0, pair, length, Fragment::First, 0, &tcp[..usize::from(length)]);
            assert_eq!(r.receive(Time::ZERO, &first).is_ok(), taken, "{length}");
        }
    }
    // A header chain that continues in the second fragment.
    let mut chain = fragment_of(60, 0, V6, 9, Fragment::First, 0, &[6, 5, 1, 4, 0, 0, 0, 0]);
    assert!(r.receive(Time::ZERO, &chain).is_err());
    chain.truncate(44);
    assert!(r.receive(Time::ZERO, &chain).is_err());
}

/// Lengths that no datagram has: parts not of 8 bytes, none, and beyond 65535 bytes ("ping of death").
#[test]
fn impossible_fragments_are_rejected() {
    let mut r = IpReassembly::new(1_000_000);
    let mut odd = fragment(V4, 1, Fragment::Last, 16, &[7; 20]);
    odd[6] |= 0x20;
    odd[10..12].fill(0);
    let sum = checksum::finish(checksum::add(0, &odd[..20]));
    odd[10..12].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(r.receive(Time::ZERO, &odd), Err(WireError::Fragment));
    odd[10] ^= 1;
    assert_eq!(r.receive(Time::ZERO, &odd), Err(WireError::Checksum("IPv4 header")));
    let mut far = fragment(V4, 2, Fragment::Last, 64_000, &[7; 1_400]);
    far[6..8].copy_from_slice(&0x1fff_u16.to_be_bytes());
    far[10..12].fill(0);
    let sum = checksum::finish(checksum::add(0, &far[..20]));
    far[10..12].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(r.receive(Time::ZERO, &far), Err(WireError::Fragment));
    assert_eq!(r.memory(), 0);
    // The largest datagram of IPv4, in two parts.
    let most = 65_535 - V4_HEADER_BYTES;
    assert_eq!(r.receive(Time::ZERO, &fragment(V4, 3, Fragment::First, 0, &vec![1; 65_512])), Ok(None));
    let whole = r.receive(Time::ZERO, &fragment(V4, 3, Fragment::Last, 65_512, &vec![2; most - 65_512]));
    assert_eq!(whole.unwrap().unwrap().len(), 65_535);
}

const V4_HEADER_BYTES: usize = 20;

#[test]
fn memory_and_time_are_bounded() {
    let mut r = IpReassembly::new(10_000);
    for ident in 0..1_000 {
        let now = Time::from_millis(u64::from(ident));
        assert_eq!(r.receive(now, &fragment(V4, ident, Fragment::First, 0, &[1; 1_000])), Ok(None));
        assert!(r.memory() <= 10_000 && r.partial.len() <= MAX_DATAGRAMS);
    }
    assert_eq!((r.partial.len(), r.incomplete()), (7, 993));
    assert_eq!(r.next_wake(), Time::from_millis(993) + TIMEOUT);
    r.wake(r.next_wake());
    assert_eq!((r.partial.len(), r.incomplete()), (6, 994));
    // Small fragments are bounded by number.
    let mut r = IpReassembly::new(1_000_000);
    for ident in 0..1_000 {
        assert_eq!(r.receive(Time::ZERO, &fragment(V6, ident, Fragment::First, 0, &[1; 8])), Ok(None));
    }
    assert_eq!(r.partial.len(), MAX_DATAGRAMS);
}

/// RFC 3168 section 5.3.
#[test]
fn marks_combine() {
    for (classes, class) in
        [([2, 2, 2], Some(2)), ([2, 3, 2], Some(3)), ([1, 1, 3], Some(3)), ([0, 0, 0], Some(0)), ([0, 3, 0], None)]
    {
        for pair in [V4, V6] {
            let mut r = IpReassembly::new(10_000);
            let part = |i: usize, kind, bytes| fragment_of(UDP, classes[i], pair, 1, kind, 16 * i, bytes);
            assert_eq!(r.receive(Time::ZERO, &part(0, Fragment::First, A)), Ok(None));
            assert_eq!(r.receive(Time::ZERO, &part(1, Fragment::Middle, B)), Ok(None));
            let whole = r.receive(Time::ZERO, &part(2, Fragment::Last, C));
            assert_eq!(whole.ok().flatten().map(|whole| content(&whole).0.traffic_class), class);
        }
    }
}
