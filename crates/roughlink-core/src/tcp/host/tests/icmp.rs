//! ICMP: path MTU discovery (RFC 1191, RFC 8201) with checks against forgery (RFC 5927), other errors (RFC 5461), echo;
//! and fragments.

use super::*;
use crate::wire::Datagram;
use crate::wire::checksum::{add, finish};

/// Builds an ICMP message from `from` to `to` over IPv4 or IPv6.
pub(super) fn icmp(from: &str, to: &str, kind: u8, code: u8, field: u32, content: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend(field.to_be_bytes());
    message.extend(content);
    let length = message.len() as u16;
    let mut pair = Vec::new();
    let mut datagram = match (address(from), address(to)) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            pair.extend([from.octets(), to.octets()].concat());
            let mut header = vec![0x45, 0];
            header.extend((20 + length).to_be_bytes());
            header.extend([0, 0, 0, 0, 64, 1, 0, 0]);
            header.extend(&pair);
            let sum = finish(add(0, &header));
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            header
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            pair.extend([from.octets(), to.octets()].concat());
            let mut header = vec![0x60, 0, 0, 0];
            header.extend(length.to_be_bytes());
            header.extend([58, 64]);
            header.extend(&pair);
            header
        }
        _ => panic!("two families"),
    };
    let pseudo = if pair.len() == 8 { 0 } else { add(58 + u64::from(length), &pair) };
    let sum = finish(add(pseudo, &message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    datagram.extend(message);
    datagram
}

/// Returns the message of a router that `datagram` exceeds the MTU of a link.
pub(super) fn too_big(datagram: &[u8], mtu: u32) -> Vec<u8> {
    let source = Datagram::from_ip(datagram).envelope().unwrap().pair.addresses()[0].to_string();
    let quoted = &datagram[..datagram.len().min(548)];
    match source.contains(':') {
        false => icmp("10.0.9.9", &source, 3, 4, mtu, &quoted[..28]),
        true => icmp("fd00:9::9", &source, 2, 0, mtu, quoted),
    }
}

/// Divides a datagram into fragments for links with this MTU, as a router or, with IPv6, the source does.
pub(super) fn fragments(datagram: &[u8], mtu: usize, ident: u16) -> Vec<Vec<u8>> {
    if datagram.len() <= mtu {
        return vec![datagram.to_vec()];
    }
    let v4 = datagram[0] >> 4 == 4;
    let (header, extra) = if v4 { (20, 0) } else { (40, 8) };
    let most = (mtu - header - extra) / 8 * 8;
    let data = &datagram[header..];
    let parts = data.chunks(most).enumerate().map(|(i, part)| {
        let more = u16::from((i + 1) * most < data.len());
        let mut out = datagram[..header].to_vec();
        if v4 {
            out[2..4].copy_from_slice(&((header + part.len()) as u16).to_be_bytes());
            out[4..6].copy_from_slice(&ident.to_be_bytes());
            out[6..8].copy_from_slice(&((more << 13) | (i * most / 8) as u16).to_be_bytes());
            out[10..12].fill(0);
            let sum = finish(add(0, &out));
            out[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            out[4..6].copy_from_slice(&((8 + part.len()) as u16).to_be_bytes());
            out[6] = 44;
            out.extend([datagram[6], 0]);
            out.extend(((i * most) as u16 | more).to_be_bytes());
            out.extend(u32::from(ident).to_be_bytes());
        }
        out.extend(part);
        out
    });
    parts.collect()
}

/// Opens a connection over IPv4 or IPv6 and sends a window of full segments, which the caller loses.
fn sending(v6: bool) -> (HostPair, [ConnectionId; 2], Vec<Vec<u8>>) {
    let mut pair = HostPair::new(TcpConfig::default());
    let (from, to) = if v6 { ("fd00::1", "fd00::2") } else { (PEER, HOST) };
    let to = SocketAddr::new(address(to), PORT);
    let id = pair.hosts[0].connect(Time::ZERO, SocketAddr::new(address(from), 0), to).unwrap();
    pair.run(MS(50));
    let accepted = pair.hosts[1].accept(PORT).unwrap();
    pair.hosts[0].write(id, &text(100_000));
    let lost = sent(&mut pair.hosts[0], pair.now);
    assert!(lost.len() >= 8 && lost.iter().all(|bytes| bytes.len() == 1500), "{}", lost.len());
    (pair, [id, accepted], lost)
}

/// RFC 1191 section 6.4, RFC 8201: lost segments leave again at once, divided; later ones fit.
#[test]
fn path_mtu_divides_segments_in_flight() {
    for (v6, mtu) in [(false, 576), (false, 1_006), (true, 1_280), (true, 1_499)] {
        let (mut pair, ids, lost) = sending(v6);
        let now = pair.now + MS(5);
        assert_eq!(pair.hosts[0].receive_bytes(now, &too_big(&lost[0], mtu)), Received::Consumed);
        pair.now = now;
        // The messages about the other segments have no effect (RFC 1191 section 6.4).
        let _ = pair.hosts[0].receive_bytes(now, &too_big(&lost[1], mtu));
        assert_eq!((pair.hosts[0].counters().icmp_errors, pair.hosts[0].counters().icmp_ignored), (1, 1));
        let again = sent(&mut pair.hosts[0], now);
        assert!(!again.is_empty(), "no retransmission time-out is needed");
        assert_eq!(wire::decode(&again[0]).unwrap().packet.seq, wire::decode(&lost[0]).unwrap().packet.seq);
        pair.link.extend(again.iter().map(|bytes| (now + pair.delay, 1, bytes.clone())));
        pair.log.clear();
        let mut got = Vec::new();
        for _ in 0..100 {
            pair.run(MS(20));
            got.extend(pair.read(1, ids[1]));
        }
        assert_eq!(got, text(100_000));
        let longest = pair.log.iter().map(|(_, bytes)| bytes).chain(&again).map(Vec::len).max();
        assert!(longest.is_some_and(|length| length <= mtu as usize && length > mtu as usize - 8), "{longest:?}");
        let sender = pair.hosts[0].stream(ids[0]).unwrap().endpoint().sender().unwrap();
        assert_eq!((sender.core().stats().timeouts, sender.core().stats().fast_recoveries), (0, 0));
        sender.check();
        // DF is set on every datagram.
        assert!(v6 || pair.log.iter().all(|(_, bytes)| bytes[6] & 0x40 != 0));
        // After ten minutes, full segments leave again (RFC 8201 section 4).
        pair.run(S(601));
        pair.log.clear();
        pair.hosts[0].write(ids[0], &text(3_000));
        pair.run(S(1));
        assert!(pair.log.iter().any(|(_, bytes)| bytes.len() == 1500));
    }
}

/// A new connection to the destination begins with the known path MTU.
#[test]
fn path_mtu_applies_to_later_connections() {
    let (mut pair, _, lost) = sending(false);
    let _ = pair.hosts[0].receive_bytes(pair.now, &too_big(&lost[0], 600));
    pair.run(MS(100));
    let id = pair.connect();
    pair.run(MS(50));
    pair.hosts[0].write(id, &text(5_000));
    let sizes: Vec<usize> = sent(&mut pair.hosts[0], pair.now).iter().map(Vec::len).collect();
    assert!(!sizes.is_empty() && sizes.iter().all(|size| *size <= 600), "{sizes:?}");
}

/// Below an MTU of 552 bytes, the segments keep that size and routers may fragment them, as in Linux.
#[test]
fn tiny_path_mtu_clears_df() {
    let (mut pair, _, lost) = sending(false);
    let _ = pair.hosts[0].receive_bytes(pair.now, &too_big(&lost[0], 68));
    let again = sent(&mut pair.hosts[0], pair.now);
    assert!(!again.is_empty() && again.iter().all(|bytes| bytes.len() <= 552 && bytes[6] & 0x40 == 0));
    let idents: BTreeSet<&[u8]> = again.iter().map(|bytes| &bytes[4..6]).collect();
    assert_eq!(idents.len(), again.len());
    assert!(again.iter().all(|bytes| wire::decode(bytes).is_ok()));
    let _ = pair.hosts[0].receive_bytes(pair.now, &too_big(&again[0], 0));
    assert_eq!(pair.hosts[0].counters().icmp_errors, 1, "it cannot fall further");
}

/// RFC 5927 section 7.2 and RFC 8201 section 4: only reports that fit a segment in flight are believed.
#[test]
fn forged_path_mtus_are_ignored() {
    let (mut pair, _, lost) = sending(true);
    let host = &mut pair.hosts[0];
    let now = pair.now;
    let mut forged = vec![
        too_big(&lost[0], 1_279), // no IPv6 link has it
        too_big(&lost[0], 1_500), // the segment fits
        too_big(&lost[0], u32::MAX),
    ];
    for (at, by) in [(40, 1), (42, 1), (44, 0x40), (45, 0x80)] {
        let mut other = lost[0].clone();
        other[at] ^= by; // ports, or a sequence number that is not in flight
        forged.push(too_big(&other, 1_280));
    }
    let mut quoted = lost[0].clone();
    quoted[6] = 17;
    forged.push(icmp("fd00:9::9", "fd00::1", 2, 0, 1_280, &quoted));
    forged.push(icmp("fd00:9::9", "fd00::1", 2, 0, 1_280, &lost[0][..47]));
    for message in &forged {
        assert_eq!(host.receive_bytes(now, message), Received::Consumed);
    }
    assert_eq!((host.counters().icmp_errors, host.paths.next_wake()), (0, Time::MAX));
    assert!(host.counters().icmp_ignored >= 7);
    let mut wrong = too_big(&lost[0], 1_280);
    wrong[42] ^= 1;
    assert_eq!(host.receive_bytes(now, &wrong), Received::Invalid);
    let _ = host.receive_bytes(now, &too_big(&lost[0], 1_280));
    assert_eq!(host.counters().icmp_errors, 1);
}

#[test]
fn table_of_path_mtus_is_bounded() {
    let mut paths = PathMtus::new(1500, 2);
    for i in 0..5 {
        assert!(paths.lower(S(i), IpAddr::from([10, 0, 1, i as u8]), 1_000));
    }
    let known = |i| paths.get(IpAddr::from([10, 0, 1, i])).mtu;
    assert_eq!([0, 1, 2, 3, 4].map(known), [1500, 1500, 1500, 1000, 1000]);
}

/// RFC 5461: "port unreachable" ends an attempt to connect, but no connection. The quoted SYN must be ours.
#[test]
fn unreachable_ends_only_attempts_to_connect() {
    for code in [0, 1, 2, 3, 13] {
        let mut pair = HostPair::new(rfc());
        let ids = pair.open();
        pair.hosts[0].write(ids[0], b"text");
        let data = sent(&mut pair.hosts[0], pair.now).remove(0);
        let id = pair.connect();
        let syn = sent(&mut pair.hosts[0], pair.now).remove(0);
        let mut other = syn.clone();
        other[27] ^= 1;
        events(&mut pair.hosts[0]);
        for quoted in [&data, &other] {
            let _ = pair.hosts[0].receive_bytes(pair.now, &icmp("10.0.9.9", PEER, 3, code, 0, &quoted[..28]));
        }
        assert_eq!((events(&mut pair.hosts[0]), pair.hosts[0].counters().icmp_ignored), (vec![], 2));
        let _ = pair.hosts[0].receive_bytes(pair.now, &icmp("10.0.9.9", PEER, 3, code, 0, &syn[..28]));
        assert_eq!(events(&mut pair.hosts[0]), [(id, Event::Failed)]);
    }
}

/// RFC 792 and RFC 4443 section 4.2: the reply has the request's content.
#[test]
fn echo_requests_are_answered() {
    for (from, to, request, reply) in [(PEER, HOST, 8, 0), ("fd00::1", "fd00::2", 128, 129)] {
        let mut host = server();
        let ping = icmp(from, to, request, 0, 0x0001_0002, b"twelve bytes");
        assert_eq!(host.receive_bytes(MS(1), &ping), Received::Consumed);
        let expected = icmp(to, from, reply, 0, 0x0001_0002, b"twelve bytes");
        let header = expected.len() - 20;
        assert_eq!(sent(&mut host, MS(1))[0][header..], expected[header..]);
        // Replies to more requests than the limit, and larger than the MTU, do not leave.
        let large = icmp(from, to, request, 0, 1, &text(2_000));
        for part in fragments(&large, 1500, 1) {
            assert_eq!(host.receive_bytes(MS(1), &part), Received::Consumed);
        }
        assert_eq!(sent(&mut host, MS(1)).len(), 0);
        for _ in 0..300 {
            let _ = host.receive_bytes(MS(1), &ping);
        }
        assert_eq!(sent(&mut host, MS(1)).len(), 199);
    }
}

/// Fragments of a segment reach the connection; overlapping ones do not (RFC 5722).
#[test]
fn fragments_reach_their_connection() {
    let mut host = server();
    let id = open(&mut host, MS(1), 40_000);
    let segment = SeenSegment { payload: &text(1_400), ..next() }.bytes();
    let parts = fragments(&segment, 576, 7);
    for part in parts.iter().rev() {
        assert_eq!(host.receive_bytes(MS(2), part), Received::Consumed);
    }
    let mut out = [0; 2_000];
    assert_eq!((host.read(id, &mut out), &out[..1_400]), (1_400, &text(1_400)[..]));
    let segment = SeenSegment { seq: ISS + 1_401, payload: b"evil, and long enough for parts", ..next() }.bytes();
    let parts = fragments(&segment, 48, 8);
    let _ = host.receive_bytes(MS(3), &parts[0]);
    let mut overlapping = fragments(&segment, 56, 8).remove(0);
    overlapping[6] |= 0x20;
    assert_eq!(host.receive_bytes(MS(3), &overlapping), Received::Invalid);
    for part in &parts[1..] {
        assert_eq!(host.receive_bytes(MS(3), part), Received::Invalid, "parts still to come are rejected");
    }
    assert_eq!((host.read(id, &mut out), host.counters().fragments_dropped), (0, parts.len() as u64));
    host.wake(S(64));
    assert_eq!(host.counters().reassemblies_failed, 1);
}
