//! A sender with a scripted peer: tests which packets leave on which SACK, and when.

use super::*;

/// A scripted peer, after the handshake.
struct ScriptedPeer {
    e: SctpEndpoint,
    sides: Sides,
    now: Time,
}

impl ScriptedPeer {
    fn new(cfg: &SctpConfig, a_rwnd: u32, bytes: u64) -> Self {
        let mut s = ScriptedPeer { e: endpoint(false, cfg, "sctp", ""), sides: Sides::default(), now: Time::ZERO };
        s.e.offer(bytes, false);
        s.e.connect();
        assert_eq!(s.sent().len(), 1);
        let init = Init {
            tag: 7,
            a_rwnd,
            outbound: 1,
            inbound: 1,
            tsn: 100,
            forward_tsn: true,
            cookie: Some(Cookie::Own([0; 48])),
        };
        s.get(Packet::sctp_init(FlowId::new(0, true), s.e.tag, &init), Some(SideContent::Init(init)));
        assert_eq!(s.sent()[0].chunk(), Some(Chunk::CookieEcho));
        s.get(Packet::sctp(FlowId::new(0, true), s.e.tag, Chunk::CookieAck), None);
        s
    }
    fn get(&mut self, mut p: Packet, side: Option<SideContent>) {
        if let Some(side) = side {
            p.set_side(self.sides.store(side));
        }
        self.e.receive(self.now, &p, &self.sides);
    }
    fn sack(&mut self, n: u32, a_rwnd: u32, blocks: &[(u16, u16)]) {
        let gaps = Gaps::new(blocks.iter().map(|&(start, end)| Gap { start, end }), []);
        let p = Packet::sctp_sack(FlowId::new(0, true), self.e.tag, (u32::MAX - 6).wrapping_add(n), a_rwnd, &gaps);
        self.get(p, (!blocks.is_empty()).then_some(SideContent::Gaps(gaps)));
    }
    fn sent(&mut self) -> Vec<Packet> {
        std::iter::from_fn(|| Peer::transmit(&mut self.e, self.now, &mut self.sides)).collect()
    }
    /// Wakes the endpoint at its next time-out. Returns the time and the packets that leave.
    fn wake(&mut self) -> (u64, Vec<Packet>) {
        self.now = self.e.next_wake(self.now);
        assert_ne!(self.now, Time::MAX);
        self.e.wake(self.now);
        (self.now.as_millis(), self.sent())
    }
}

#[test]
fn closed_window_is_probed_without_failure() {
    let cfg = SctpConfig { data_retries: 3, ..silent() };
    let mut s = ScriptedPeer::new(&cfg, 2 * 1452, u64::MAX);
    assert_eq!(s.sent().len(), 2); // a_rwnd, not cwnd
    s.now = ms(40);
    s.sack(2, 0, &[]);
    assert_eq!(s.sent().len(), 0);
    // The first probe leaves after an RTO, the others as T3 doubles. All are answered, but none is accepted.
    let mut at = Vec::new();
    for _ in 0..9 {
        let (t, sent) = s.wake();
        assert_eq!(sent.len(), 1);
        at.push(t);
        s.sack(2, 0, &[]);
    }
    let gaps: Vec<u64> = at.windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!((at[0], &gaps[..]), (1_040, &[1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000][..]));
    let snd = s.e.sender().unwrap();
    let core = snd.core();
    assert_eq!((core.stats().timeouts, snd.gave_up(), core.cc().trace().cwnd), (0, false, 4404)); // cwnd was never full
    s.sack(2, 100_000, &[]);
    let sent = s.sent();
    assert_eq!((sent[0].seq, sent.len() > 2), (u32::MAX - 3, true), "the probe again, and more");
    s.sack(3, 0, &[]);
    // If the probes of a closed window are not answered, the association fails.
    s.sack(2 + sent.len() as u32, 0, &[]);
    assert_eq!(s.sent().len(), 0);
    for _ in 0..5 {
        s.wake();
    }
    assert!(!s.e.failed());
    s.wake();
    assert!(s.e.failed());
}

#[test]
fn window_smaller_than_a_chunk_allows_one_chunk() {
    let mut s = ScriptedPeer::new(&SctpConfig::default(), 1_000, u64::MAX);
    for n in 1..5 {
        assert_eq!(s.sent().len(), 1, "nothing else is in flight");
        s.now += ms(40);
        s.sack(n, 1_000, &[]);
    }
    assert_eq!(s.sent().len(), 1);
    s.sack(5, 0, &[]);
    assert_eq!(s.sent().len(), 0);
}

#[test]
fn max_burst_limits_packets_sent_at_once() {
    let window = Some(crate::tcp::Amount::Segments(10));
    for (max_burst, at_once) in [(Some(4), 4), (None, 10)] {
        let cfg = SctpConfig { initial_window: window, max_burst, ..SctpConfig::default() };
        let mut s = ScriptedPeer::new(&cfg, 100_000, u64::MAX);
        assert_eq!(s.sent().len(), at_once as usize);
        s.now = ms(40);
        s.sack(at_once, 100_000, &[]);
        let second = s.sent().len();
        assert!(if max_burst.is_some() { second == 4 } else { second > 10 }, "{second}");
    }
}

#[test]
fn a_sack_ends_the_count_of_errors() {
    let mut s = ScriptedPeer::new(&SctpConfig { data_retries: 3, ..silent() }, 100_000, 10 * 1452);
    s.sent();
    (0..3).for_each(|_| drop(s.wake()));
    s.sack(1, 100_000, &[]);
    s.sent();
    (0..3).for_each(|_| drop(s.wake()));
    assert!(!s.e.failed(), "three in a row, twice");
    s.wake();
    assert!(s.e.failed());
}

#[test]
fn fast_retransmission_of_the_head_restarts_t3_and_obeys_karn() {
    let window = Some(crate::tcp::Amount::Segments(8));
    let cfg = SctpConfig { initial_window: window, max_burst: None, ..SctpConfig::default() };
    let mut s = ScriptedPeer::new(&cfg, 100_000, 8 * 1452);
    assert_eq!((s.sent().len(), s.e.next_wake(s.now)), (8, ms(1_000)));
    s.now = ms(900);
    (2..5).for_each(|end| s.sack(0, 100_000, &[(2, end)]));
    assert_eq!((s.sent()[0].seq, s.e.next_wake(s.now)), (u32::MAX - 5, ms(1_900))); // section 7.2.4 step 4
    s.now = ms(940);
    s.sack(8, 100_000, &[]);
    assert_eq!(s.e.sender().unwrap().core().flow().srtt, Time::ZERO, "the only packet that was timed left twice");
}

#[test]
fn miss_indications_need_a_newly_acked_higher_tsn() {
    let cfg =
        SctpConfig { initial_window: Some(crate::tcp::Amount::Segments(8)), max_burst: None, ..SctpConfig::default() };
    let mut s = ScriptedPeer::new(&cfg, 100_000, 8 * 1452);
    assert_eq!(s.sent().len(), 8);
    s.sack(0, 100_000, &[(5, 5)]);
    s.sack(0, 100_000, &[(5, 5)]); // reports nothing new
    s.sack(0, 100_000, &[(2, 2), (5, 5)]); // TSN 2 is new, but below 3 and 4: a miss indication for 1 only
    s.sack(0, 100_000, &[(2, 2), (5, 5)]);
    assert!(s.sent().iter().all(|p| p.seq != u32::MAX - 5));
    assert_eq!(s.e.sender().unwrap().core().stats().fast_recoveries, 0);
    s.sack(0, 100_000, &[(2, 2), (5, 6)]); // the third for 1, the second for 3 and 4
    let first = s.sent()[0];
    assert_eq!((first.seq, s.e.sender().unwrap().core().stats().fast_recoveries), (u32::MAX - 5, 1));
    // In fast recovery, a SACK that advances is a miss indication even if no higher TSN is newly acknowledged.
    s.sack(2, 100_000, &[(3, 4)]);
    assert_eq!(s.sent()[0].seq, u32::MAX - 3);
    let snd = s.e.sender().unwrap();
    assert_eq!((snd.core().stats().fast_recoveries, snd.core().stats().retransmits), (1, 3), "one reduction");
}
