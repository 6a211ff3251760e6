//! Attacks: floods, peers that lie, random and mutated datagrams. Established connections and memory stay unharmed.

use super::icmp::{fragments, icmp, too_big};
use super::*;
use crate::rng::Seed;
use proptest::prelude::*;

/// RFC 4987: SYNs from random sources evict only half-open connections.
#[test]
fn syn_flood_harms_no_connection() {
    let mut config = config(&[HOST], rfc());
    config.limits.half_open = 64;
    let mut host = listening(config);
    let id = open(&mut host, MS(1), 40_000);
    let mut random = Seed { seed: 1, replica: 0 }.stream("flood", "test");
    for i in 0..20_000_u64 {
        let now = MS(1 + i / 10);
        let source = IpAddr::from((10 << 24 | random.range(1 << 16, (1 << 24) - 1) as u32).to_be_bytes());
        let ip = IpPair::new(source, address(HOST)).unwrap();
        let addresses = Addresses { ip, src_port: random.bits() as u16, dst_port: PORT };
        let syn = SeenSegment { flags: flags::SYN, seq: random.bits() as u32, ..SeenSegment::default() };
        assert_eq!(host.receive_bytes(now, &syn.bytes_between(&addresses)), Received::Consumed);
        host.wake(now);
        sent(&mut host, now);
        assert!(
            host.connections().count() <= 65 && host.schedule.ready.len() <= 65 && host.schedule.timers.len() <= 65
        );
    }
    assert_eq!(host.counters().half_open_evicted, 20_000 - 64);
    let now = S(3);
    answers(&mut host, now, SeenSegment { payload: b"still here", ..next() });
    let mut out = [0; 20];
    assert_eq!((host.read(id, &mut out), &out[..10]), (10, &b"still here"[..]));
    // A handshake that is quicker than its eviction succeeds.
    open(&mut host, now, 9);
}

/// Resets, challenge ACKs and their answers never make two hosts send without end.
#[test]
fn confused_hosts_fall_silent() {
    let mut pair = HostPair::new(rfc());
    let ids = pair.open();
    // Each end believes that the other has sent more than it has.
    let (to, from) = (pair.hosts[0].remote_address(ids[0]).unwrap(), pair.hosts[0].local_address(ids[0]).unwrap());
    let ip = IpPair::new(from.ip(), to.ip()).unwrap();
    let forward = Addresses { ip, src_port: from.port(), dst_port: to.port() };
    for (to, addresses) in [(1, forward), (0, forward.reversed())] {
        let stream = pair.hosts[to].stream(ids[to]).unwrap();
        let (snd_nxt, rcv_nxt, recent) = stream.endpoint().final_numbers();
        let timestamps = recent.map(|recent| (recent, 0));
        let segment = SeenSegment { seq: rcv_nxt, ack: snd_nxt + 9, timestamps, ..SeenSegment::default() };
        let _ = pair.hosts[to].receive_bytes(pair.now, &segment.bytes_between(&addresses));
    }
    pair.log.clear();
    pair.run(S(30));
    assert!(pair.log.len() < 10, "{}", pair.log.len());
    assert_eq!(pair.state(0, ids[0]), Some(ConnectionState::Established));
}

/// A window that stays closed is probed without end while the peer answers (RFC 9293 section 3.8.6.1), with back-off.
#[test]
fn closed_window_costs_little() {
    let mut host = server();
    let id = open(&mut host, MS(1), 40_000);
    answers(&mut host, MS(1), SeenSegment { window: 0, ..next() });
    assert_eq!(host.write(id, &text(1 << 20)), 131_072, "as much as `snd_buf`");
    let mut probes = 0;
    while host.next_wake() < S(3_600) {
        let now = host.next_wake();
        host.wake(now);
        for (_, _, _) in headers(&mut host, now) {
            probes += 1;
            answers(&mut host, now, SeenSegment { window: 0, ..next() });
        }
    }
    assert!((50..100).contains(&probes), "{probes}");
    assert_eq!(host.stream(id).unwrap().endpoint().state(), ConnectionState::Established);
}

/// A peer that acknowledges all data before it can have arrived gets no more than the data written (Savage 1999).
#[test]
fn optimistic_acknowledgments_do_no_harm() {
    let mut host = server();
    let id = open(&mut host, MS(1), 40_000);
    let all = text(500_000);
    let (mut written, mut acked, mut now) = (0, HOST_ISS + 1, MS(1));
    while written < all.len() || acked < HOST_ISS + 1 + all.len() as u32 {
        written += host.write(id, &all[written..]);
        let ends = segments(&mut host, now).into_iter().map(|d| d.packet.seq + d.payload.len() as u32);
        acked = ends.max().unwrap_or(acked).max(acked);
        now += MS(1);
        host.wake(now);
        for ack in [acked, acked + 1, acked + 100_000] {
            let _ = host.receive_bytes(now, &SeenSegment { ack, ..next() }.bytes()); // only the first is valid
        }
        host.stream(id).unwrap().endpoint().sender().unwrap().check();
        assert!(now < S(100));
    }
    assert_eq!(host.stream(id).unwrap().endpoint().sender().unwrap().una(), 1 + all.len() as u64);
}

/// Tiny segments with gaps between them take bounded memory.
#[test]
fn gaps_are_bounded() {
    let mut host = listening(config(&[HOST], TcpConfig { rcv_buf: crate::tcp::Buffer::Bytes(60_000), ..rfc() }));
    open(&mut host, MS(1), 40_000);
    for i in 0..29_000 {
        let _ = host.receive_bytes(MS(2), &SeenSegment { seq: ISS + 3 + 2 * i, payload: b"x", ..next() }.bytes());
    }
    let answer = segments(&mut host, MS(2)).pop().unwrap().packet;
    assert_eq!(answer.ack, ISS + 1);
    let all = text(60_000);
    for (i, part) in all.chunks(1_000).enumerate() {
        let _ = host
            .receive_bytes(MS(3), &SeenSegment { seq: ISS + 1 + 1_000 * i as u32, payload: part, ..next() }.bytes());
    }
    assert_eq!(segments(&mut host, MS(3)).pop().unwrap().packet.ack, ISS + 60_001);
}

/// A forged segment in the window, with an acknowledgment that is not acceptable, changes no bytes already received.
#[test]
fn forged_data_does_not_overwrite() {
    let mut host = server();
    let id = open(&mut host, MS(1), 40_000);
    answers(&mut host, MS(2), SeenSegment { seq: ISS + 5, payload: b"data", ..next() });
    answers(&mut host, MS(2), SeenSegment { seq: ISS + 5, ack: HOST_ISS + 999, payload: b"evil", ..next() });
    answers(&mut host, MS(2), SeenSegment { payload: b"good", ..next() });
    let mut out = [0; 8];
    assert_eq!((host.read(id, &mut out), &out), (8, b"gooddata"));
}

/// Change of a datagram.
#[derive(Clone, Debug)]
enum Mutation {
    Set { at: usize, byte: u8 },
    Add { at: usize, by: i32 },
    Cut { bytes: usize },
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let by = prop_oneof![-5_i32..6, -3_000..3_001, any::<i32>()];
    let at = prop_oneof![Just(4_usize), Just(8), Just(12), 0..60_usize];
    prop_oneof![
        4 => (0..80_usize, any::<u8>()).prop_map(|(at, byte)| Mutation::Set { at, byte }),
        4 => (at, by).prop_map(|(at, by)| Mutation::Add { at, by }),
        1 => (1..600_usize).prop_map(|bytes| Mutation::Cut { bytes }),
    ]
}

/// Applies a mutation; `fix` corrects the lengths and checksums of TCP over IPv4.
fn mutate(datagram: &mut Vec<u8>, mutation: &Mutation, fix: bool) {
    use crate::wire::checksum::{add, finish};
    match mutation {
        Mutation::Set { at, byte } => {
            if let Some(old) = datagram.get_mut(*at) {
                *old = *byte;
            }
        }
        Mutation::Add { at, by } => {
            if let Some(field) = datagram.get_mut(20 + at..24 + at) {
                let number = u32::from_be_bytes([field[0], field[1], field[2], field[3]]).wrapping_add_signed(*by);
                field.copy_from_slice(&number.to_be_bytes());
            }
        }
        Mutation::Cut { bytes } => datagram.truncate(datagram.len().saturating_sub(*bytes)),
    }
    if fix && datagram.len() >= 40 && datagram[0] == 0x45 {
        let size = datagram.len() as u16;
        datagram[2..4].copy_from_slice(&size.to_be_bytes());
        datagram[10..12].fill(0);
        let sum = finish(add(0, &datagram[..20]));
        datagram[10..12].copy_from_slice(&sum.to_be_bytes());
        datagram[36..38].fill(0);
        let sum = finish(add(add(6 + u64::from(size - 20), &datagram[12..20]), &datagram[20..]));
        datagram[36..38].copy_from_slice(&sum.to_be_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random bytes, with the start of an IP header to this host.
    #[test]
    fn random_bytes_do_no_harm(
        datagrams in prop::collection::vec((0..6_u8, prop::collection::vec(any::<u8>(), 0..120)), 1..30),
    ) {
        let mut host = server();
        let template = SeenSegment { flags: flags::SYN, seq: ISS, ..SeenSegment::default() }.bytes();
        let others = [
            icmp("fd00::1", "fd00::2", 2, 0, 1_280, &[0; 60]),
            icmp(PEER, HOST, 3, 4, 600, &template),
            fragments(&template, 28, 1).remove(1),
            fragments(&icmp("fd00::1", "fd00::2", 128, 0, 0, &[1; 2_000]), 1_280, 1).remove(0),
        ];
        for (i, (kind, bytes)) in datagrams.into_iter().enumerate() {
            let now = MS(i as u64 * 700);
            let mut datagram = match kind {
                0 => Vec::new(),
                1 => template.clone(),
                other => others[usize::from(other - 2)].clone(),
            };
            let keep = if kind == 0 { 0 } else { datagram.len().min(10 + bytes.len()) };
            datagram.truncate(keep);
            datagram.extend(&bytes);
            if kind == 1 {
                mutate(&mut datagram, &Mutation::Cut { bytes: 0 }, true);
            }
            let _ = host.receive_bytes(now, &datagram);
            host.wake(now);
            sent(&mut host, now);
        }
        prop_assert!(host.connections().count() <= 30);
    }

    /// Some datagrams of an exchange are changed, most with correct checksums. Hosts neither panic nor fall into loops.
    #[test]
    fn mutated_datagrams_do_no_harm(
        linux in any::<bool>(),
        mutations in prop::collection::vec((0..200_usize, mutation(), prop::bool::weighted(0.8)), 1..40),
        quotes in prop::collection::vec((0..200_usize, 0..2_000_u32), 0..4),
        close in any::<bool>(),
    ) {
        let mut pair = HostPair::new(if linux { TcpConfig::default() } else { rfc() });
        let id = pair.connect();
        pair.hosts[0].write(id, &text(60_000));
        let (mut crossing, mut accepted, mut written) = (0, None, 0);
        let mut buffer = [0; 4_096];
        while pair.now < S(400) {
            accepted = accepted.or_else(|| pair.hosts[1].accept(PORT));
            if let Some(id) = accepted {
                while pair.hosts[1].read(id, &mut buffer) > 0 {}
                written += pair.hosts[1].write(id, &text(30_000)[written..]);
                if close && written == 30_000 {
                    pair.hosts[1].close(id);
                }
            }
            while pair.hosts[0].read(id, &mut buffer) > 0 {}
            if close {
                pair.hosts[0].close(id);
            }
            for i in [0, 1] {
                for mut bytes in sent(&mut pair.hosts[i], pair.now) {
                    for (_, mtu) in quotes.iter().filter(|(at, _)| *at == crossing) {
                        let _ = pair.hosts[i].receive_bytes(pair.now, &too_big(&bytes, *mtu));
                    }
                    for (_, mutation, fix) in mutations.iter().filter(|(at, ..)| *at == crossing) {
                        mutate(&mut bytes, mutation, *fix);
                    }
                    crossing += 1;
                    let _ = pair.hosts[1 - i].receive_bytes(pair.now + MS(1), &bytes);
                }
            }
            let next = pair.hosts.iter().map(Host::next_wake).min().unwrap();
            pair.now = next.clamp(pair.now + MS(1), pair.now + S(10));
            pair.hosts.iter_mut().for_each(|host| host.wake(pair.now));
            for host in &pair.hosts {
                host.connections().filter_map(|(_, stream)| stream.endpoint().sender()).for_each(|s| s.check());
                prop_assert!(host.connections().count() < 20);
            }
        }
        prop_assert!(crossing < 20_000, "{crossing}");
    }
}
