//! Messages over real datagrams: on any channel, each stream's messages are read whole, once and in order.

#[path = "common/air.rs"]
mod air;

use air::{Air, air};
use proptest::prelude::*;
use roughlink_core::cc::{self, Algorithm, LinkEvent, REGISTRY};
use roughlink_core::event::Event;
use roughlink_core::packet::{Chunk, FlowId, Gaps, Packet, Skipped, chunk_flags};
use roughlink_core::sctp::{Association, Message, SEND_BUFFER, SctpConfig, WriteError};
use roughlink_core::units::Time;
use roughlink_core::wire::{self, Addresses, IpPair};

/// Returns message `i` of end `end`; both numbers determine its length and every byte.
fn message(end: usize, i: usize, most: u16) -> Vec<u8> {
    let length = 1 + i.wrapping_mul(2_654_435_761) % usize::from(most);
    (0..length).map(|at| ((i * 31 + at) >> 2) as u8 ^ end as u8).collect()
}

#[derive(Clone, Debug)]
struct End {
    sctp: SctpConfig,
    algorithm: &'static Algorithm,
    messages: usize,
    /// Wait before the next read, ms, and number of messages read then.
    pause: u64,
    reads: usize,
    tsn: u32,
}

fn end() -> impl Strategy<Value = End> {
    let payload = prop::sample::select(vec![10u16, 500, 1452]);
    let algorithm = prop::sample::select(REGISTRY.iter().collect::<Vec<_>>());
    let buffer = prop_oneof![1_500u32..6_000, Just(128 * 1024)];
    let reading = (prop_oneof![Just(0u64), 1..300u64], prop::sample::select(vec![1usize, 7, 1000]));
    ((payload, 1u16..5, buffer), algorithm, 0..60usize, reading, any::<u32>()).prop_map(
        |((payload, streams, rcv_buf), algorithm, messages, (pause, reads), tsn)| {
            let sctp = SctpConfig { payload, streams, rcv_buf, max_streams: 3, ..SctpConfig::default() };
            End { sctp, algorithm, messages, pause, reads, tsn }
        },
    )
}

fn addresses() -> Addresses {
    let ip = IpPair::V4 { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
    Addresses { ip, src_port: 40_000, dst_port: 7 }
}

/// Runs both ends until both have closed; returns the messages read by each.
fn run(ends: &[End; 2], mut air: Air) -> Result<[Vec<Message>; 2], String> {
    let mut made = [addresses(), addresses().reversed()].into_iter().zip(ends).map(|(addresses, end)| {
        let factory = end.algorithm.default_factory("rfc");
        Association::new(addresses, end.sctp.clone(), factory, end.tsn)
    });
    let mut pair = [made.next().expect("two"), made.next().expect("two")];
    pair[0].connect();
    pair[1].listen();
    let (mut written, mut read, mut read_at) = ([0; 2], [Vec::new(), Vec::new()], [Time::ZERO; 2]);
    let (mut now, mut datagram) = (Time::ZERO, Vec::new());
    for _ in 0..300_000 {
        for i in [0, 1] {
            while written[i] < ends[i].messages && pair[i].streams() > 0 {
                let next = message(i, written[i], ends[i].sctp.payload);
                let stream = written[i] as u16 % pair[i].streams();
                if !pair[i].write(stream, &next).expect("open") {
                    break;
                }
                written[i] += 1;
            }
            while now >= read_at[i] {
                let before = read[i].len();
                while read[i].len() < before + ends[i].reads
                    && let Some(m) = pair[i].read()
                {
                    read[i].push(m);
                }
                read_at[i] = now + Time::from_millis(ends[i].pause);
                if read[i].len() == before {
                    break;
                }
            }
            // A shutdown ends both directions, so an end closes after it has read everything.
            if written[i] == ends[i].messages && read[i].len() == ends[1 - i].messages && pair[i].streams() > 0 {
                pair[i].close();
            }
            while pair[i].transmit(now, &mut datagram) {
                air.send(now, 1 - i, &datagram);
            }
        }
        if pair.iter().any(|p| p.endpoint().failed()) {
            return Err("failed".into());
        }
        if pair.iter().all(Association::is_done) && (0..2).all(|i| read[i].len() == ends[1 - i].messages) {
            return Ok(read);
        }
        let reads = [0, 1].map(|i| if read_at[i] > now { read_at[i] } else { Time::MAX });
        let wakes = [0, 1].map(|i| pair[i].next_wake(now));
        let next = air.next().min(reads[0]).min(reads[1]).min(wakes[0]).min(wakes[1]);
        if next == Time::MAX {
            let states = pair.each_ref().map(|p| p.endpoint().state());
            return Err(format!("nothing is left to happen at {now}: {states:?}"));
        }
        now = now.max(next.min(now + Time::from_secs(200)));
        while let Some((to, bytes)) = air.take(now) {
            assert!(pair[to].receive(now, &bytes));
        }
        for end in &mut pair {
            if end.next_wake(now) <= now {
                end.wake(now);
            }
        }
    }
    Err(format!("it does not end: {now}, read {:?} of {ends:?}", read.each_ref().map(Vec::len)))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 10_000, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Loss, reordering, duplication, outages, small windows, slow readers, several streams, all algorithms.
    #[test]
    fn messages_arrive_once_complete_and_in_order(ends in [end(), end()], air in air()) {
        let lossy = air.loses();
        match run(&ends, air) {
            Ok(read) => {
                for (i, read) in read.iter().enumerate() {
                    let from = &ends[1 - i];
                    let streams = from.sctp.streams.min(3);
                    for stream in 0..streams {
                        let got: Vec<&Vec<u8>> = read.iter().filter(|m| m.stream == stream).map(|m| &m.bytes).collect();
                        let of_stream = (0..from.messages).filter(|n| *n as u16 % streams == stream);
                        let sent: Vec<Vec<u8>> = of_stream.map(|n| message(1 - i, n, from.sctp.payload)).collect();
                        prop_assert!(got.into_iter().eq(&sent), "stream {stream}");
                    }
                }
            }
            Err(why) => prop_assert!(why == "failed" && lossy, "{}", why),
        }
    }
}

/// Creates two open ends that are connected directly.
fn open(sctp: &SctpConfig) -> [Association; 2] {
    let factory = || cc::algorithm("sctp").unwrap().default_factory("rfc");
    let mut a = Association::new(addresses(), sctp.clone(), factory(), 5);
    let mut b = Association::new(addresses().reversed(), sctp.clone(), factory(), u32::MAX);
    a.connect();
    b.listen();
    let mut pair = [a, b];
    exchange(&mut pair, Time::ZERO);
    assert_eq!(pair.each_mut().map(|p| p.poll_event()), [Some(Event::Connected); 2]);
    pair
}

fn exchange([a, b]: &mut [Association; 2], now: Time) {
    let mut datagram = Vec::new();
    a.wake(now);
    b.wake(now);
    for _ in 0..300 {
        while a.transmit(now, &mut datagram) {
            b.receive(now, &datagram);
        }
        while b.transmit(now, &mut datagram) {
            a.receive(now, &datagram);
        }
    }
}

/// A reader that stops closes the window; writes fail until an event reports that the writer may continue.
#[test]
fn stopped_reader_blocks_the_writer() {
    let mut pair = open(&SctpConfig { rcv_buf: 4_000, ..SctpConfig::default() });
    let text = [7; 1_000];
    let mut taken = 0;
    while pair[0].write(0, &text).unwrap() {
        taken += 1;
    }
    assert_eq!(taken, SEND_BUFFER / 1_000);
    for second in 1..20 {
        exchange(&mut pair, Time::from_secs(second));
    }
    assert_eq!(pair[1].poll_event(), Some(Event::Readable));
    assert_eq!(pair[0].endpoint().sender().unwrap().core().flow().send_window, 0);
    assert_eq!(pair[0].poll_event(), None, "nothing has become of the closed window");
    let mut read = 0;
    for second in 20..2_000 {
        while pair[1].read().is_some() {
            read += 1;
        }
        if read == taken {
            break;
        }
        exchange(&mut pair, Time::from_secs(second));
    }
    assert_eq!(read, taken);
    assert_eq!((pair[0].poll_event(), pair[0].poll_event()), (Some(Event::Writable), None));
}

#[test]
fn impossible_writes_return_errors() {
    let mut pair = open(&SctpConfig { streams: 2, payload: 100, ..SctpConfig::default() });
    assert_eq!(pair[0].write(2, b"x"), Err(WriteError::Stream { stream: 2, agreed: 2 }));
    assert_eq!(pair[0].write(0, b""), Err(WriteError::Length { bytes: 0, most: 100 }));
    let long = [0; 70_000];
    assert_eq!(pair[0].write(0, &long[..101]), Err(WriteError::Length { bytes: 101, most: 100 }));
    assert_eq!(pair[0].write(0, &long), Err(WriteError::Length { bytes: 70_000, most: 100 }));
    assert_eq!(pair[0].write(1, b"good bye"), Ok(true));
    pair[0].close();
    assert_eq!(pair[0].write(0, b"x"), Err(WriteError::NotOpen));
    for second in 1..3 {
        exchange(&mut pair, Time::from_secs(second)); // the SACK is delayed
    }
    assert_eq!(pair[1].read(), Some(Message { stream: 1, bytes: b"good bye".to_vec() }));
    assert_eq!(pair[1].write(0, b"x"), Err(WriteError::NotOpen));
    assert!(pair.iter().all(Association::is_done));
    let factory = cc::algorithm("sctp").unwrap().default_factory("rfc");
    let mut closed = Association::new(addresses(), SctpConfig::default(), factory, 1);
    assert_eq!(closed.write(0, b"early"), Err(WriteError::NotOpen));
}

/// Source of chunks that honest peers never send.
struct Forger {
    tag: u32,
    first: u32,
    now: Time,
}

impl Forger {
    /// Takes the tag and the TSNs of end 0, which sends one message.
    fn new(pair: &mut [Association; 2]) -> Self {
        assert_eq!(pair[0].write(0, b"first"), Ok(true));
        let (now, mut datagram) = (Time::from_secs(1), Vec::new());
        assert!(pair[0].transmit(now, &mut datagram) && pair[1].receive(now, &datagram));
        let first = wire::decode(&datagram).unwrap().packet;
        assert_eq!(first.chunk(), Some(Chunk::Data));
        Forger { tag: first.ack, first: first.seq, now }
    }
    fn send(&self, to: &mut Association, p: Packet, text: &[u8]) {
        let mut bytes = Vec::new();
        wire::encode(&p, None, &addresses(), text, &mut bytes).unwrap();
        assert!(to.receive(self.now, &bytes));
    }
    /// Delivers a message whose TSN is `tsn` after the first.
    fn data(&self, to: &mut Association, tsn: u32, stream: (u16, u16), text: &[u8]) {
        let tsn = self.first.wrapping_add(tsn);
        self.send(to, Packet::sctp_data(FlowId::new(0, false), self.tag, tsn, stream, text.len() as u16), text);
    }
}

fn read_all(a: &mut Association) -> Vec<String> {
    std::iter::from_fn(|| a.read()).map(|m| String::from_utf8_lossy(&m.bytes).into_owned()).collect()
}

/// Returns the a_rwnd of the SACK that leaves now.
fn window(a: &mut Association) -> u32 {
    let mut datagram = Vec::new();
    assert!(a.transmit(Time::from_secs(1), &mut datagram));
    let sack = wire::decode(&datagram).unwrap().packet;
    assert_eq!(sack.chunk(), Some(Chunk::Sack));
    sack.tsval
}

/// A peer that reuses a message number, streams that were not negotiated, wrong TSNs, fragments, unordered messages.
#[test]
fn strange_chunks_do_no_harm() {
    const WHOLE: u8 = chunk_flags::BEGIN | chunk_flags::END;
    let mut pair = open(&SctpConfig { rcv_buf: 20_000, streams: 1, max_streams: 1, ..SctpConfig::default() });
    let f = Forger::new(&mut pair);
    let b = &mut pair[1];
    f.data(b, 2, (0, 2), b"third, once");
    f.data(b, 3, (0, 2), b"third, twice");
    f.data(b, 4, (9, 0), b"no such stream");
    f.data(b, 70_000, (0, 3), b"too far ahead");
    for k in 1..4 {
        f.data(b, 0u32.wrapping_sub(k), (0, 1), b"before the beginning");
        let skipped =
            Packet::sctp_forward_tsn(FlowId::new(0, false), f.tag, f.first.wrapping_sub(k), &Skipped::default());
        f.send(b, skipped, b"");
        let sack = Packet::sctp_sack(FlowId::new(0, false), f.tag, u32::MAX - k, 9, &Gaps::default());
        f.send(b, sack, b"");
    }
    // The first chunk is an unordered message, which is delivered at once; the others have its TSN: duplicates.
    for flags in [WHOLE | chunk_flags::UNORDERED, chunk_flags::BEGIN, chunk_flags::END] {
        let mut p = Packet::sctp_data(FlowId::new(0, false), f.tag, f.first.wrapping_add(5), (0, 1), 9);
        p.window = u16::from(flags);
        f.send(b, p, b"unordered");
    }
    f.data(b, 1, (0, 1), b"second");
    assert_eq!(read_all(b), ["first", "unordered", "second", "third, twice"]);
    assert_eq!(window(b), 20_000, "everything is free again");
}

#[test]
fn open_gap_does_not_exceed_the_buffer() {
    let mut pair = open(&SctpConfig { rcv_buf: 20_000, ..SctpConfig::default() });
    let f = Forger::new(&mut pair);
    assert_eq!(read_all(&mut pair[1]), ["first"]);
    for tsn in 1..2_000 {
        f.data(&mut pair[1], tsn, (0, tsn as u16 + 1), &[1; 900]); // number 1 never arrives
    }
    assert!((1..=900).contains(&window(&mut pair[1])), "{}", window(&mut pair[1]));
    assert_eq!(read_all(&mut pair[1]), [""; 0]);
}

/// AVOCA with partial reliability abandons messages in flight when coverage ends; the peer reads the rest in order.
#[test]
fn skipped_messages_are_never_read() {
    let sctp = SctpConfig { partial_reliability: true, ..SctpConfig::default() };
    let factory = |cc: &str| cc::algorithm(cc).unwrap().default_factory("rfc");
    let mut pair = [
        Association::new(addresses(), sctp.clone(), factory("avoca"), 5),
        Association::new(addresses().reversed(), sctp, factory("sctp"), 6),
    ];
    pair[0].connect();
    pair[1].listen();
    exchange(&mut pair, Time::ZERO);
    for n in 0..100u8 {
        assert_eq!(pair[0].write(0, &[n; 1_000]), Ok(true));
    }
    let (now, mut datagram, mut lost) = (Time::from_secs(1), Vec::new(), 0);
    while pair[0].transmit(now, &mut datagram) {
        lost += 1;
    }
    assert!(lost > 1, "the first flight");
    pair[0].on_link(now, &LinkEvent::Down);
    for event in [LinkEvent::Up, LinkEvent::Configured] {
        pair[0].on_link(Time::from_secs(100), &event);
    }
    for second in 100..200 {
        exchange(&mut pair, Time::from_secs(second));
    }
    let read: Vec<u8> = std::iter::from_fn(|| pair[1].read()).map(|m| m.bytes[0]).collect();
    assert_eq!(read, (lost..100).collect::<Vec<u8>>());
}
