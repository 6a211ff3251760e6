//! Bytes over real datagrams: on any channel, readers get the written bytes, and no end exceeds the offered window.

#[path = "common/air.rs"]
mod air;
#[path = "common/networks.rs"]
#[allow(dead_code, reason = "only its TCP configurations are used here")]
mod networks;

use air::{Air, air};
use proptest::prelude::*;
use roughlink_core::cc::{self, Algorithm, REGISTRY};
use roughlink_core::event::Event;
use roughlink_core::packet::{FlowId, Packet, SideContent, flags};
use roughlink_core::tcp::{Buffer, Stack, Stream, TcpConfig, TcpSender};
use roughlink_core::units::Time;
use roughlink_core::wire::{self, Addresses, IpPair};

/// Returns byte `i` written by end `end`.
fn byte(end: usize, i: usize) -> u8 {
    (i.wrapping_mul(2_654_435_761) >> 13) as u8 ^ (end as u8)
}

#[derive(Clone, Debug)]
struct End {
    tcp: TcpConfig,
    algorithm: &'static Algorithm,
    bytes: usize,
    /// Bytes written and read at a time; wait before the next read, ms.
    chunk: (usize, usize),
    pause: u64,
    iss: u32,
}

fn end() -> impl Strategy<Value = End> {
    let buffer = prop_oneof![Just(Buffer::Auto), (100u64..6_000).prop_map(Buffer::Bytes)];
    let preset = prop::sample::select(Stack::ALL.to_vec()).prop_map(TcpConfig::preset);
    let mss = prop::sample::select(vec![100u32, 536, 1460]);
    let plain = (preset, buffer.clone(), buffer, mss).prop_map(|(mut tcp, send, receive, mss)| {
        (tcp.snd_buf, tcp.rcv_buf, tcp.mss) = (send, receive, mss);
        tcp
    });
    // Initial sequence numbers on both sides of the wraparound.
    let iss = prop_oneof![Just(0u32), (0u32..20_000).prop_map(|n| u32::MAX - n), any::<u32>()];
    let chunk =
        (prop::sample::select(vec![1usize, 100, 5_000, 40_000]), prop::sample::select(vec![100usize, 700, 1 << 16]));
    let algorithm = prop::sample::select(REGISTRY.iter().collect::<Vec<_>>());
    let bytes = prop_oneof![Just(0usize), 0..20_000usize];
    let parts = (chunk, prop_oneof![Just(0u64), 1..300u64], iss);
    (prop_oneof![plain, networks::tcp()], algorithm, bytes, parts)
        .prop_map(|(tcp, algorithm, bytes, (chunk, pause, iss))| End { tcp, algorithm, bytes, chunk, pause, iss })
}

/// One end's record of its peer's window: the edge beyond which it must not send.
#[derive(Default)]
struct Offered {
    shift: Option<u8>,
    scaled: bool,
    edge: Option<u32>,
}

impl Offered {
    fn take(&mut self, datagram: &[u8], both_scale: bool) {
        let d = wire::decode(datagram).expect("checksums are right");
        let p = d.packet;
        if let Some(SideContent::Syn(options)) = d.side {
            self.shift = options.window_scale;
        }
        if !p.is(flags::ACK) {
            return;
        }
        self.scaled |= both_scale;
        let shift = if p.is(flags::SYN) || !self.scaled { 0 } else { self.shift.unwrap_or(0) };
        let edge = p.ack.wrapping_add(u32::from(p.window) << shift);
        if self.edge.is_none_or(|old| edge.wrapping_sub(old) < 1 << 31) {
            self.edge = Some(edge);
        }
    }
}

/// Runs both ends until both have closed; returns the bytes read by each.
fn run(ends: &[End; 2], mut air: Air) -> Result<[Vec<u8>; 2], String> {
    let ip = IpPair::V4 { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
    let addresses = Addresses { ip, src_port: 40_000, dst_port: 7 };
    let mut streams = [addresses, addresses.reversed()].into_iter().zip(ends).map(|(addresses, end)| {
        let factory = end.algorithm.default_factory(end.tcp.stack.name());
        Stream::new(addresses, end.tcp.clone(), factory, end.iss)
    });
    let mut streams = [streams.next().expect("two"), streams.next().expect("two")];
    streams[0].connect();
    streams[1].listen();
    let (mut written, mut read, mut read_at) = ([0; 2], [Vec::new(), Vec::new()], [Time::ZERO; 2]);
    let mut offered = [Offered::default(), Offered::default()];
    let both_scale = ends.iter().all(|e| e.tcp.window_scaling);
    let (mut now, mut datagram) = (Time::ZERO, Vec::new());
    let mut buffer = vec![0; 1 << 16];
    for step in 0..300_000 {
        for i in [0, 1] {
            let End { bytes, chunk, .. } = ends[i];
            let more: Vec<u8> = (written[i]..bytes.min(written[i] + chunk.0)).map(|at| byte(i, at)).collect();
            written[i] += streams[i].write(&more);
            if written[i] == bytes {
                streams[i].close();
            }
            while now >= read_at[i] {
                let n = streams[i].read(&mut buffer[..chunk.1]);
                read[i].extend_from_slice(&buffer[..n]);
                read_at[i] = now + Time::from_millis(ends[i].pause);
                if n == 0 {
                    break;
                }
            }
            while streams[i].transmit(now, &mut datagram) {
                let p = wire::decode(&datagram).expect("checksums are right").packet;
                if let Some(edge) = offered[i].edge
                    && !p.is(flags::SYN)
                    && !ends[i].tcp.window_in_flight
                {
                    let end = p.seq.wrapping_add(p.payload());
                    if (edge.wrapping_sub(end) as i32) < 0 {
                        return Err(format!("end {i} sent {} beyond {edge}", end));
                    }
                }
                air.send(now, 1 - i, &datagram);
            }
        }
        if step % 64 == 0 {
            streams.iter().filter_map(|s| s.endpoint().sender()).for_each(TcpSender::check);
        }
        if streams.iter().any(|s| s.endpoint().failed()) {
            return Err("failed".into());
        }
        let over = |i: usize| streams[i].is_done() && read[i].len() == ends[1 - i].bytes;
        if over(0) && over(1) {
            return Ok(read);
        }
        let reads = [0, 1].map(|i| if read_at[i] > now { read_at[i] } else { Time::MAX });
        let wakes = [0, 1].map(|i| streams[i].next_wake(now));
        let next = air.next().min(reads[0]).min(reads[1]).min(wakes[0]).min(wakes[1]);
        let writable = (0..2).any(|i| written[i] < ends[i].bytes);
        if next == Time::MAX && !writable {
            return Err(format!(
                "nothing is left to happen at {now}: {:?} {:?}",
                streams[0].endpoint().state(),
                streams[1].endpoint().state()
            ));
        }
        now = now.max(next.min(now + Time::from_secs(200)));
        while let Some((to, bytes)) = air.take(now) {
            offered[to].take(&bytes, both_scale);
            assert!(streams[to].receive(now, &bytes));
        }
        for i in [0, 1] {
            if streams[i].next_wake(now) <= now {
                streams[i].wake(now);
            }
        }
    }
    let states =
        streams.each_ref().map(|s| (s.endpoint().state(), s.endpoint().sender().map(|s| s.core().flow().clone())));
    Err(format!("it does not end: {now}, read {:?}, {states:?}", read.each_ref().map(Vec::len)))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 10_000, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Loss, reordering, duplication, outages, small windows, slow readers, in all stacks with all algorithms.
    #[test]
    fn reader_gets_the_bytes_of_the_writer(
        ends in [end(), end()],
        air in air(),
    ) {
        let lossy = air.loses();
        match run(&ends, air) {
            Ok(read) => {
                for (i, read) in read.iter().enumerate() {
                    prop_assert_eq!(read.len(), ends[1 - i].bytes);
                    prop_assert!(read.iter().enumerate().all(|(at, b)| *b == byte(1 - i, at)), "other bytes");
                }
            }
            Err(why) => prop_assert!(why == "failed" && lossy, "{}", why),
        }
    }
}

/// A reader that stops closes the window; the writer gets an event when it may continue; no bytes are lost.
#[test]
fn stopped_reader_blocks_the_writer() {
    let ip = IpPair::V6 { src: "fd00::1".parse().unwrap(), dst: "fd00::2".parse().unwrap() };
    let addresses = Addresses { ip, src_port: 1, dst_port: 2 };
    let mut tcp = TcpConfig::preset(Stack::Linux);
    (tcp.snd_buf, tcp.rcv_buf) = (Buffer::Bytes(10_000), Buffer::Bytes(4_000));
    let factory = || cc::algorithm("newreno").unwrap().default_factory("linux");
    let mut a = Stream::new(addresses, tcp.clone(), factory(), 5);
    let mut b = Stream::new(addresses.reversed(), tcp, factory(), u32::MAX);
    a.connect();
    b.listen();
    let (mut now, mut datagram) = (Time::ZERO, Vec::new());
    let mut exchange = |a: &mut Stream, b: &mut Stream, until: Time| {
        while now < until {
            for _ in 0..8 {
                while a.transmit(now, &mut datagram) {
                    b.receive(now, &datagram);
                }
                while b.transmit(now, &mut datagram) {
                    a.receive(now, &datagram);
                }
            }
            now += Time::from_millis(10);
            a.wake(now);
            b.wake(now);
        }
    };
    exchange(&mut a, &mut b, Time::from_secs(1));
    assert_eq!((a.poll_event(), b.poll_event()), (Some(Event::Connected), Some(Event::Connected)));
    let bytes: Vec<u8> = (0..30_000).map(|i| byte(0, i)).collect();
    assert_eq!(a.write(&bytes), 10_000);
    assert_eq!(a.write(&bytes[10_000..]), 0);
    exchange(&mut a, &mut b, Time::from_secs(20));
    // The receiver holds 4,000 bytes, the sender the rest.
    assert_eq!((b.poll_event(), b.poll_event()), (Some(Event::Readable), None));
    assert_eq!((a.poll_event(), a.poll_event()), (Some(Event::Writable), None));
    assert_eq!(a.write(&bytes[10_000..]), 4_000);
    assert_eq!(a.endpoint().sender().unwrap().core().flow().send_window, 0);
    let mut got = Vec::new();
    let mut written = 14_000;
    let mut part = [0; 1_000];
    for second in 21..2_000 {
        let n = b.read(&mut part);
        got.extend_from_slice(&part[..n]);
        written += a.write(&bytes[written..]);
        if written == bytes.len() {
            a.close();
        }
        exchange(&mut a, &mut b, Time::from_secs(second));
        if b.endpoint().peer_closed() && n == 0 {
            break;
        }
    }
    assert_eq!(got, bytes);
    assert_eq!(std::iter::from_fn(|| b.poll_event()).last(), Some(Event::PeerClosed));
}

/// Segments that honest peers never send: text after a FIN, text without an ACK, text before the stream began, and an
/// acknowledgment of bytes that were never sent.
#[test]
fn strange_segments_do_no_harm() {
    let ip = IpPair::V4 { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
    let addresses = Addresses { ip, src_port: 1, dst_port: 2 };
    let factory = || cc::algorithm("newreno").unwrap().default_factory("rfc");
    let tcp = TcpConfig { timestamps: false, ..TcpConfig::preset(Stack::Rfc) };
    let mut a = Stream::new(addresses, tcp.clone(), factory(), 100);
    let mut b = Stream::new(addresses.reversed(), tcp, factory(), 5_000);
    a.connect();
    b.listen();
    let (now, mut datagram) = (Time::from_millis(1), Vec::new());
    for _ in 0..3 {
        while a.transmit(now, &mut datagram) {
            b.receive(now, &datagram);
        }
        while b.transmit(now, &mut datagram) {
            a.receive(now, &datagram);
        }
    }
    let send = |b: &mut Stream, seq: u32, ack: u32, flags: u8, text: &[u8]| {
        let mut p = Packet::tcp(FlowId::new(0, false));
        (p.seq, p.ack, p.flags, p.window) = (seq, ack, flags, 1000);
        p.set_payload(text.len() as u16);
        let mut bytes = Vec::new();
        wire::encode(&p, None, &addresses, text, &mut bytes).unwrap();
        assert!(b.receive(now, &bytes));
    };
    send(&mut b, 101, 5_001, 0, b"no ACK");
    send(&mut b, 101, 9_000, flags::ACK, b"of nothing sent");
    send(&mut b, 90, 5_001, flags::ACK, b"0123456789before");
    send(&mut b, 103, 5_001, flags::ACK, b"later, and beyond the end");
    send(&mut b, 103, 5_001, flags::ACK | flags::FIN, b"c");
    send(&mut b, 105, 5_001, flags::ACK, b"after the end");
    send(&mut b, 101, 5_001, flags::ACK, b"ab");
    send(&mut b, 106, 5_001, flags::ACK | flags::FIN, b"another end");
    let mut text = [0; 100];
    assert_eq!(b.read(&mut text), 3);
    assert_eq!(&text[..3], b"abc");
    assert!(b.endpoint().peer_closed());
    assert_eq!(b.read(&mut text), 0);
}
