//! Tests of HEARTBEATs: departure times, and the effects of answer and loss.

use super::*;

fn times(c: &EndpointPair<SctpEndpoint>, i: usize, chunk: Chunk) -> Vec<u64> {
    c.sent.iter().filter(|s| s.1 == i && s.2.chunk() == Some(chunk)).map(|s| s.0.as_millis()).collect()
}

/// Sends one message from end 0 to end 1 over an association that stays open.
fn idle(cfg: &SctpConfig) -> EndpointPair<SctpEndpoint> {
    let mut source = endpoint(false, cfg, "sctp", "");
    source.offer(1_000, false);
    source.connect();
    let mut sink = endpoint(true, cfg, "sctp", "");
    sink.listen();
    EndpointPair::new([source, sink], ms(20), Seed { seed: 1, replica: 0 }.stream("sctp", "channel"))
}

/// RFC 9260 section 8.3: a HEARTBEAT leaves every HB.interval (30 s) plus RTO (1 s), with a jitter of +- RTO / 2.
#[test]
fn both_ends_monitor_an_idle_path() {
    let mut c = idle(&SctpConfig::default());
    c.run_until(ms(200_000));
    for end in 0..2 {
        let left = times(&c, end, Chunk::Heartbeat);
        assert_eq!(left.len(), 6 - usize::from(end == 0), "{left:?}"); // end 0 sent DATA in the first period
        assert!(left.windows(2).all(|w| (30_500..=31_500).contains(&(w[1] - w[0]))), "{left:?}");
        assert_eq!(times(&c, 1 - end, Chunk::HeartbeatAck), left.iter().map(|t| t + 20).collect::<Vec<_>>());
        assert_eq!(c.ends[end].sender().unwrap().rto(), ms(1_000));
    }
    let left = [0, 1].map(|end| times(&c, end, Chunk::Heartbeat));
    assert_ne!(left[0][1] - left[0][0], left[1][1] - left[1][0], "each end has its own jitter");
    let mut silent = idle(&SctpConfig { heartbeat_interval: Time::ZERO, ..SctpConfig::default() });
    silent.run_until(ms(200_000));
    assert!(times(&silent, 0, Chunk::Heartbeat).is_empty() && times(&silent, 1, Chunk::Heartbeat).is_empty());
}

/// Sections 8.1 and 8.3: each unanswered HEARTBEAT doubles the RTO; one more than Association.Max.Retrans is fatal.
#[test]
fn idle_association_fails_without_heartbeat_acks() {
    let mut c = idle(&SctpConfig::default());
    c.run_until(ms(1_000));
    c.up = false;
    c.run_until(ms(2_000_000));
    let left = times(&c, 1, Chunk::Heartbeat);
    assert_eq!(left.len(), 11);
    for (w, rto) in left.windows(2).zip([2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]) {
        let (least, most) = (30_000 + rto / 2, 30_000 + rto * 3 / 2);
        assert!((least.max(rto / 2)..=most).contains(&(w[1] - w[0])), "{left:?}");
    }
    assert!(c.ends.iter().all(|e| e.failed() && e.is_done()));
}

/// Section 8.1: the answer clears the count, so that an association outlives any number of single losses.
#[test]
fn heartbeat_ack_clears_the_error_count() {
    let mut c = idle(&SctpConfig::default());
    let mut n = [0u32; 2];
    c.lose = Box::new(move |_, i, p| {
        n[i] += u32::from(p.chunk() == Some(Chunk::Heartbeat));
        p.chunk() == Some(Chunk::Heartbeat) && !n[i].is_multiple_of(8)
    });
    c.run_until(ms(8_000_000));
    assert!(c.ends.iter().all(|e| !e.failed()));
    assert!(times(&c, 0, Chunk::Heartbeat).len() > 50);
}

/// An outage of 40 s, from 10 s on. T3-rtx would expire after 73 s. In three runs over AF_CONN at 50 ms and 2 Mbit/s
/// (2024 revision), usrsctp resumed after 63.4 to 64.2 s, when the receiver's HEARTBEAT arrived.
#[test]
fn heartbeat_of_the_peer_ends_the_wait_for_t3() {
    let mut c = pair(&SctpConfig::default(), "sctp", u64::MAX);
    c.lose = Box::new(|now, _, _| (ms(10_000)..ms(50_000)).contains(&now));
    c.run_until(ms(70_000));
    let resumed = c.sent_between(0, ms(50_000), ms(70_000)).next().unwrap();
    assert_eq!(resumed.2.chunk(), Some(Chunk::HeartbeatAck));
    assert!((ms(61_500)..=ms(64_700)).contains(&resumed.0), "{:?}", resumed.0);
    let data: Vec<_> = c.sent_between(0, ms(50_000), ms(70_000)).filter(|s| s.2.payload() > 0).collect();
    assert_eq!(data[0].0, resumed.0);
    assert!(data.len() > 500, "{}", data.len());
}

/// The answer to a HEARTBEAT in a back-off gives an RTT sample: the RTO collapses (section 6.3.3), the head leaves.
#[test]
fn heartbeat_ack_ends_the_backoff() {
    let mut c = pair(&SctpConfig::default(), "sctp", u64::MAX);
    // After 40 s, the path carries HEARTBEATs of end 0 and their answers again; all other packets pass throughout.
    c.lose = Box::new(|now, i, p| match p.chunk() {
        Some(Chunk::Heartbeat) if i == 1 => true,
        Some(Chunk::Heartbeat | Chunk::HeartbeatAck) => now < ms(40_000),
        _ => now > ms(10_000) && now < ms(300_000) && p.payload() > 0,
    });
    c.run_until(ms(150_000));
    let answered: Vec<u64> = times(&c, 1, Chunk::HeartbeatAck);
    assert!(!answered.is_empty());
    let data: Vec<u64> = c.data().iter().map(|d| d.0.as_millis()).collect();
    let at = answered[0] + 20;
    assert!(data.contains(&at), "{at}: {data:?}");
    assert!(data.contains(&(at + 1_000)), "T3-rtx began anew with the RTO of the sample");
}
