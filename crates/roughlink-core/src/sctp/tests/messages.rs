//! Tests of messages of any length, ordered or not, reliable or not.

use super::*;
use crate::sctp::config::SctpConfig;

/// Connects two ends; the application of end 1 reads whole messages.
fn connected(cfg: &SctpConfig, seed: u64) -> EndpointPair<SctpEndpoint> {
    let (mut source, mut sink) = (endpoint(false, cfg, "sctp", ""), endpoint(true, cfg, "sctp", ""));
    sink.read_messages();
    source.connect();
    sink.listen();
    let mut c = EndpointPair::new([source, sink], ms(20), Seed { seed, replica: 0 }.stream("sctp", "channel"));
    c.run_until(ms(200));
    assert_eq!(c.ends[0].streams(), cfg.streams);
    c
}

/// Writes a message now; end 0 sends as many packets as it may.
fn write(c: &mut EndpointPair<SctpEndpoint>, stream: u16, bytes: u32) {
    let now = c.now;
    c.ends[0].write(stream, bytes, now);
    c.pump(0);
}

/// Returns TSN and bytes of the messages that arrived.
fn read(c: &mut EndpointPair<SctpEndpoint>) -> Vec<(u64, u64)> {
    std::iter::from_fn(|| c.ends[1].read_message()).collect()
}

fn abandoned(c: &EndpointPair<SctpEndpoint>) -> (u64, u64) {
    c.ends[0].sender().unwrap().abandoned()
}

#[test]
fn a_message_longer_than_a_packet_arrives_whole() {
    let mut c = connected(&SctpConfig { payload: 1_000, ..silent() }, 1);
    lose_first(&mut c, Chunk::Data, 1);
    write(&mut c, 0, 3_500);
    write(&mut c, 0, 10);
    c.run_until(ms(240));
    assert_eq!(read(&mut c), [], "its first part is lost, and the next message waits");
    c.run_until(ms(5_000));
    assert_eq!(read(&mut c), [(4, 3_500), (5, 10)]);
    assert_eq!(c.ends[0].written_at(5), None, "it is acknowledged");
}

/// RFC 9260 section 6.6: an unordered message does not wait for those before it.
#[test]
fn an_unordered_message_overtakes_a_lost_one() {
    let mut c = connected(&SctpConfig { ordered: false, ..silent() }, 1);
    lose_first(&mut c, Chunk::Data, 1);
    write(&mut c, 0, 100);
    write(&mut c, 0, 200);
    c.run_until(ms(240));
    assert_eq!(read(&mut c), [(2, 200)]);
    c.run_until(ms(5_000));
    assert_eq!(read(&mut c), [(1, 100)]);
}

/// RFC 3758 section 3.5: a message whose lifetime is over is not sent again, and the receiver continues without it.
#[test]
fn a_lost_message_is_abandoned_after_its_lifetime() {
    for ordered in [true, false] {
        let cfg = SctpConfig { partial_reliability: true, lifetime: Some(ms(500)), ordered, ..silent() };
        let mut c = connected(&cfg, 1);
        lose_first(&mut c, Chunk::Data, 1);
        write(&mut c, 0, 100);
        c.run_until(ms(1_100)); // before T3-rtx, of 1 s
        assert_eq!(abandoned(&c), (0, 0), "it may still arrive");
        c.run_until(ms(1_300));
        assert_eq!(abandoned(&c), (1, 100));
        write(&mut c, 0, 200);
        c.run_until(ms(1_400));
        assert_eq!(read(&mut c), [(2, 200)], "a FORWARD TSN came before it");
        assert_eq!(c.ends[0].sender().unwrap().core().stats().retransmits, 0);
        c.ends[0].close();
        c.pump(0);
        c.run_until(ms(9_000));
        assert!(c.ends.iter().all(|e| e.is_done() && !e.failed()));
    }
}

/// RFC 7496 section 3.1: the limit counts retransmissions, so that with 2 of them a message leaves three times.
#[test]
fn a_message_is_abandoned_after_its_retransmissions() {
    for most in [0, 2] {
        let cfg = SctpConfig { partial_reliability: true, max_retransmissions: Some(most), ..silent() };
        let mut c = connected(&cfg, 1);
        lose_first(&mut c, Chunk::Data, 9);
        write(&mut c, 0, 100);
        c.run_until(ms(30_000));
        let sent = c.sent.iter().filter(|(_, _, p)| p.chunk() == Some(Chunk::Data)).count() as u32;
        assert_eq!((sent, abandoned(&c)), (most + 1, (1, 100)));
    }
}

/// The rest of a message whose first part was abandoned does not leave, and its number is not used again.
#[test]
fn a_message_is_abandoned_as_a_whole() {
    let cfg = SctpConfig { partial_reliability: true, max_retransmissions: Some(0), payload: 1_000, ..silent() };
    let mut c = connected(&cfg, 1);
    lose_first(&mut c, Chunk::Data, 1);
    write(&mut c, 0, 100_000);
    write(&mut c, 0, 10);
    c.run_until(ms(5_000));
    assert_eq!((read(&mut c).iter().map(|m| m.1).collect::<Vec<_>>(), abandoned(&c).0), (vec![10], 1));
    assert!(c.ends[0].sender().unwrap().core().stats().segments < 50, "most of it never left");
    assert_eq!((c.ends[1].skipped(), c.sides.in_use()), (1, 0));
}

/// A message that waits longer than its lifetime never leaves and needs no FORWARD TSN.
#[test]
fn message_past_its_lifetime_does_not_leave() {
    let cfg = SctpConfig { partial_reliability: true, lifetime: Some(ms(100)), ..silent() };
    let mut c = connected(&cfg, 1);
    (0..100).for_each(|_| write(&mut c, 0, 1_452));
    c.run_until(ms(2_000));
    let arrived = read(&mut c).len() as u64;
    assert!((15..80).contains(&arrived), "slow start in 100 ms: {arrived}");
    assert_eq!(abandoned(&c), (100 - arrived, (100 - arrived) * 1_452));
    assert!(c.sent.iter().all(|(_, _, p)| p.chunk() != Some(Chunk::ForwardTsn)));
}

/// The end of a message whose beginning was skipped does not occupy the receiver's buffer.
#[test]
fn the_rest_of_a_skipped_message_is_dropped() {
    let cfg = SctpConfig { partial_reliability: true, max_retransmissions: Some(0), payload: 1_000, ..silent() };
    let mut c = connected(&cfg, 1);
    lose_first(&mut c, Chunk::Data, 1);
    write(&mut c, 0, 3_000);
    c.run_until(ms(5_000));
    assert_eq!((abandoned(&c), read(&mut c)), ((1, 1_000), vec![]));
    let last = c.sent.iter().rfind(|(_, end, p)| *end == 1 && p.chunk() == Some(Chunk::Sack)).unwrap().2;
    assert_eq!(last.tsval, cfg.rcv_buf);
}

proptest! {
    /// On any channel each message arrives whole and once, in order if it is ordered, unless the sender abandoned it.
    #[test]
    fn each_message_arrives_or_is_abandoned(
        sizes in prop::collection::vec((1_u32..6_000, 0_u64..200), 1..60),
        seed in any::<u64>(), ordered in any::<bool>(),
        (loss, repeat, jitter) in (0.0..0.3_f64, 0.0..0.1_f64, 0_u64..40),
        streams in 1_u16..4, payload in 100_u16..1500,
        lifetime in prop::option::of(1_u64..2_000), max_retransmissions in prop::option::of(0_u32..3),
    ) {
        let partial_reliability = lifetime.is_some() || max_retransmissions.is_some();
        let cfg = SctpConfig {
            streams, payload, ordered, partial_reliability, max_retransmissions,
            lifetime: lifetime.map(ms), data_retries: 1000, ..SctpConfig::default()
        };
        let mut c = connected(&cfg, seed);
        c.impairments = Impairments { loss, repeat, jitter: ms(jitter) };
        let mut delivered = Vec::new();
        for (i, (bytes, pause)) in sizes.iter().enumerate() {
            write(&mut c, i as u16 % streams, *bytes);
            c.run_until(c.now + ms(*pause));
            delivered.extend(read(&mut c));
        }
        for second in 0..1_200 {
            if second == 600 {
                c.impairments = Impairments::default();
                c.ends[0].close();
                c.pump(0);
            }
            c.run_until(c.now + Time::from_secs(1));
            delivered.extend(read(&mut c)); // otherwise the window closes
        }
        prop_assert!(c.ends.iter().all(|e| e.is_done() && !e.failed()), "{:?}", c.ends.each_ref().map(|e| e.state));
        prop_assert!(c.ends[1].has_all_of(&c.ends[0]));
        if ordered {
            check_log(&c.ends[1], streams);
        }
        let (sent, (lost, _)) = (sizes.len() as u64, abandoned(&c));
        let bytes: u64 = sizes.iter().map(|s| u64::from(s.0)).sum();
        let got: u64 = delivered.iter().map(|m| m.1).sum();
        let mut left: Vec<u64> = sizes.iter().map(|s| u64::from(s.0)).collect();
        for (_, length) in &delivered {
            let i = left.iter().position(|l| l == length);
            prop_assert!(i.is_some(), "no message of {} was left", length);
            left.remove(i.unwrap_or_default());
        }
        prop_assert!(delivered.len() as u64 + lost >= sent && lost <= sent);
        if !partial_reliability {
            prop_assert_eq!((delivered.len() as u64, got, lost), (sent, bytes, 0));
        }
        let s = c.ends[0].sender().unwrap();
        prop_assert_eq!((s.core().flow().in_flight, s.core().flow().outstanding, c.sides.in_use()), (0, 0, 0));
    }
}
