//! Two endpoints whose applications both write, over a channel of constant delay that can lose and mark data segments.

use super::*;
use crate::cc::algorithm;
use crate::channel::EndpointPair;
use crate::packet::SynOptions;
use crate::rng::Seed;

pub(crate) type Pair = EndpointPair<TcpEndpoint>;

/// Creates two ends; the second listens.
pub(crate) fn pair(cfg: &TcpConfig, delay: Time) -> Pair {
    pair_of(cfg, "newreno", delay)
}

pub(crate) fn pair_of(cfg: &TcpConfig, cc: &str, delay: Time) -> Pair {
    let algorithm = algorithm(cc).expect("it is in the registry");
    let factory = algorithm.default_factory(cfg.stack.name());
    let end = |reverse| TcpEndpoint::new(FlowId::new(0, reverse), Arc::new(cfg.clone()), factory.clone(), 77);
    let mut ends = [end(false), end(true)];
    ends[1].listen();
    EndpointPair::new(ends, delay, Seed { seed: 1, replica: 0 }.stream("dialogue", "channel"))
}

impl Pair {
    fn sizes(&self, from: usize) -> Vec<u32> {
        self.data().iter().filter(|d| d.1 == from).map(|d| d.2.payload()).collect()
    }
}

const MS: fn(u64) -> Time = Time::from_millis;

fn connected(stack: Stack) -> Pair {
    let mut p = pair(&TcpConfig::preset(stack), MS(3));
    p.ends[0].connect();
    p.run(Time::ZERO, MS(50));
    assert!(p.ends.iter().all(|e| e.state() == ConnectionState::Established && e.room() > 10_000));
    p
}

#[test]
fn small_messages_of_both_ends_take_one_segment_each() {
    for stack in [Stack::Linux, Stack::Rfc, Stack::Ns3, Stack::Ns2] {
        let mut p = connected(stack);
        for (i, (request, response)) in [(42, 12), (29, 31), (57, 52), (21, 27)].into_iter().enumerate() {
            let now = MS(100 + 100 * i as u64);
            p.ends[0].write(request);
            p.run(now, now + MS(40));
            p.ends[1].write(response);
            p.run(now + MS(40), now + MS(100));
        }
        p.run(MS(500), MS(800)); // the last response's ACK may be delayed
        assert_eq!((p.sizes(0), p.sizes(1)), (vec![42, 29, 57, 21], vec![12, 31, 52, 27]), "{stack:?}");
        assert!(p.data().iter().all(|d| d.2.is(flags::PSH)), "{stack:?}");
        assert_eq!(p.ends.each_ref().map(TcpEndpoint::delivered), [122, 149]);
        assert!(
            p.ends.iter().all(|e| e.sender().unwrap().core().stats().retransmits == 0 && e.sender().unwrap().idle())
        );
    }
}

#[test]
fn a_long_message_is_pushed_at_its_end() {
    let mut p = connected(Stack::Rfc); // 1448 B of payload per segment
    p.ends[1].write(4252);
    p.run(MS(100), MS(200));
    assert_eq!(p.sizes(1), [1448, 1448, 1356]);
    let pushed: Vec<bool> = p.data().iter().map(|d| d.2.is(flags::PSH)).collect();
    assert_eq!(pushed, [false, false, true]);
}

#[test]
fn lost_message_is_retransmitted_unchanged() {
    let mut p = connected(Stack::Rfc);
    p.lost = vec![0];
    p.ends[0].write(57);
    p.run(MS(100), MS(3000));
    assert_eq!(p.sizes(0), [57, 57]);
    assert!(p.data()[1].2.is(flags::PSH) && p.data()[1].2.seq == p.data()[0].2.seq);
    assert_eq!(p.data()[1].0 - p.data()[0].0, MS(1000)); // the RTO's lower bound: a lone segment has no duplicate ACKs
    assert_eq!(p.ends[1].delivered(), 57);
}

#[test]
fn nagle_joins_small_writes() {
    for (nagle, sizes) in [(true, vec![10, 50]), (false, vec![10, 20, 30])] {
        let mut p = pair(&TcpConfig { nagle, ..TcpConfig::preset(Stack::Rfc) }, MS(3));
        p.ends[0].connect();
        p.run(Time::ZERO, MS(50));
        for bytes in [10, 20, 30] {
            p.ends[0].write(bytes);
            p.step(MS(100));
        }
        p.run(MS(100), MS(1000));
        assert_eq!(p.sizes(0), sizes);
        assert!(p.data().iter().all(|d| d.2.is(flags::PSH)));
    }
}

#[test]
fn joined_retransmissions_carry_psh_at_their_end() {
    let mut p = connected(Stack::Rfc);
    p.lost = vec![0, 1, 2];
    for bytes in [10, 20, 30] {
        p.ends[0].write(bytes);
        p.step(MS(100));
    }
    p.run(MS(100), MS(3000));
    assert_eq!(p.sizes(0), [10, 20, 30, 30, 30]); // two at a time
    assert!(p.data().iter().all(|d| d.2.is(flags::PSH)));
    assert_eq!(p.ends[1].delivered(), 60);
}

#[test]
fn either_end_may_close_after_its_last_message() {
    let mut p = connected(Stack::Linux);
    p.ends[0].write(21);
    p.ends[0].close();
    p.run(MS(100), MS(200));
    assert!(p.ends[1].peer_closed() && p.ends[1].delivered() == 21);
    p.ends[1].write(22); // half closed: the other direction continues
    p.ends[1].close();
    p.run(MS(200), MS(400));
    assert_eq!(p.ends[0].delivered(), 22);
    assert!(p.ends.iter().all(TcpEndpoint::is_done));
}

/// Both ends send at the same time, and segments of both are lost. SACK blocks never make a segment too long.
#[test]
fn sack_blocks_leave_room_for_full_segments() {
    for stack in Stack::ALL {
        let cfg = TcpConfig { sack: true, recovery: LossRecovery::Sack, ..TcpConfig::preset(stack) };
        let mut p = pair(&cfg, MS(20));
        p.ends[0].connect();
        p.run(Time::ZERO, MS(100));
        let first = p.data().len();
        p.lost = (12..120).step_by(7).map(|n| first + n).collect();
        p.ends.iter_mut().for_each(|e| e.write(200_000));
        p.run(MS(100), MS(20_000));
        assert_eq!(p.ends.each_ref().map(TcpEndpoint::delivered), [200_000; 2], "{stack:?}");
        let longest =
            |sacks: bool| p.sent.iter().filter(|s| (s.2.sacks() > 0) == sacks).map(|s| s.2.size).max().unwrap();
        assert!(longest(true) <= longest(false), "{stack:?}");
        let reported = |i: usize| p.sent.iter().any(|s| s.1 == i && s.2.sacks() > 0);
        assert!(reported(0) && reported(1), "{stack:?}");
        let again: u64 = p.ends.iter().map(|e| e.sender().unwrap().core().stats().retransmits).sum();
        assert!(again < 2 * p.lost.len() as u64, "{stack:?}: {again} for {} that were lost", p.lost.len());
    }
}

/// Creates a packet from end 0 to end 1 with these flags, `ahead` bytes beyond the next byte expected.
fn stray(p: &Pair, flags: u8, ahead: u32) -> Packet {
    let mut stray = Packet::tcp(FlowId::new(0, false));
    (stray.flags, stray.seq) = (flags, (77 + 1 + p.ends[1].delivered() as u32).wrapping_add(ahead));
    stray
}

#[test]
fn only_a_reset_at_the_next_byte_is_accepted() {
    let listening = || pair(&TcpConfig::preset(Stack::Rfc), MS(3));
    let mut p = listening();
    let reset = stray(&p, flags::RST, 0);
    p.ends[1].receive(Time::ZERO, &reset, &Sides::default());
    assert_eq!((p.ends[1].state(), p.ends[1].failed()), (ConnectionState::Listen, false));
    p.ends[0].connect();
    p.step(Time::ZERO);
    p.ends[0].receive(MS(1), &reset, &Sides::default()); // it acknowledges nothing
    assert_eq!(p.ends[0].state(), ConnectionState::SynSent);
    p.run(MS(1), MS(50));
    p.ends[0].write(100);
    p.run(MS(50), MS(500));
    for (ahead, answer, believed) in
        [(u32::MAX, false, false), (1_000_000, false, false), (1, true, false), (0, false, true)]
    {
        let reset = stray(&p, flags::RST, ahead);
        p.ends[1].receive(MS(500), &reset, &Sides::default());
        assert_eq!((!p.ends[1].is_quiet(), p.ends[1].failed()), (answer, believed), "{ahead}");
        p.step(MS(500));
    }
}

#[test]
fn closed_connection_needs_no_wakeup() {
    let mut p = connected(Stack::Linux);
    p.ends[1].write(100);
    p.step(MS(100));
    assert!(p.ends[1].next_wake(MS(100)) < Time::MAX, "data are outstanding");
    let reset = stray(&p, flags::RST, 0);
    p.ends[1].receive(MS(101), &reset, &Sides::default());
    assert_eq!(p.ends[1].next_wake(MS(101)), Time::MAX);
    assert_eq!(p.ends[1].sender().unwrap().core().stats().timeouts, 0);
}

#[test]
fn the_passive_end_may_close_before_it_is_open() {
    let mut p = pair(&TcpConfig::preset(Stack::Rfc), MS(3));
    p.ends[0].connect();
    p.run(Time::ZERO, MS(4));
    assert_eq!(p.ends[1].state(), ConnectionState::SynReceived);
    p.ends[1].close();
    p.run(MS(4), MS(500));
    assert!(p.ends[0].peer_closed());
}

#[test]
fn tiny_announced_mss_is_accepted() {
    for announced in [1, 11, 12, 13, 47] {
        let p = pair(&TcpConfig::preset(Stack::Linux), MS(3));
        let [mut end, _] = p.ends;
        let mut sides = Sides::default();
        end.connect();
        assert!(end.transmit(Time::ZERO, &mut sides).is_some_and(|p| p.is(flags::SYN)));
        let mut answer = Packet::tcp(FlowId::new(0, true));
        (answer.flags, answer.ack, answer.window) = (flags::SYN | flags::ACK, 78, 60_000);
        let options = SynOptions { mss: announced, timestamps: true, ..SynOptions::default() };
        answer.set_side(sides.store(SideContent::Syn(options)));
        end.receive(MS(1), &answer, &sides);
        end.write(100);
        let sizes: Vec<u32> = std::iter::from_fn(|| end.transmit(MS(1), &mut sides)).map(|p| p.payload()).collect();
        assert_eq!(sizes, [0, 36, 36, 28], "{announced}"); // the handshake's ACK, then 48 B less 12 B of timestamps
    }
}

/// The passive end creates its sender when it first needs it. Nothing that it sends shows when that was.
#[test]
fn late_sender_sends_what_an_early_one_does() {
    for stack in Stack::ALL {
        let run = |early: bool| {
            // Data of both ends is lost, and the path needs smaller segments.
            let cfg = TcpConfig { rcv_buf: Buffer::Bytes(40_000), ..TcpConfig::preset(stack) };
            let mut p = pair_of(&cfg, "cubic", MS(20));
            p.lost = vec![3, 17, 80, 91];
            p.ends[0].connect();
            p.run(Time::ZERO, MS(30));
            assert_eq!(p.ends[1].state(), ConnectionState::SynReceived);
            let created = |p: &Pair| p.ends[1].snd.get().is_some();
            assert!(!created(&p), "{stack:?}");
            if early {
                assert!(p.ends[1].sender().is_some() && created(&p));
            }
            p.run(MS(30), MS(70));
            p.ends[0].write(100_000);
            p.run(MS(70), MS(4_000));
            assert_eq!((p.ends[1].delivered(), created(&p)), (100_000, early), "{stack:?}");
            p.ends[1].set_path_mss(1000, false);
            p.ends[1].write(60_000);
            p.run(MS(4_000), MS(12_000));
            p.ends.iter_mut().for_each(TcpEndpoint::close);
            p.run(MS(12_000), MS(20_000));
            assert_eq!(p.ends.each_ref().map(TcpEndpoint::delivered), [60_000, 100_000], "{stack:?}");
            let flow = p.ends[1].sender().unwrap().core().flow().clone();
            (p.sent, format!("{flow:?}"))
        };
        assert_eq!(run(true), run(false), "{stack:?}");
    }
}

/// The sender begins with the latest window, and remembers the largest one for the check of old acknowledgments.
#[test]
fn late_sender_obeys_the_latest_window() {
    let mut p = connected(Stack::Linux);
    let mut small = p.ends[0].header(p.now, 1, 10, flags::PSH);
    for (window, seq) in [(60_000, 1), (2, 11)] {
        small.window = window;
        small.seq = p.ends[0].iss.wrapping_add(seq);
        p.ends[1].receive(p.now, &small, &p.sides);
    }
    assert!(p.ends[1].snd.get().is_none());
    let largest = 60_000 << p.ends[1].peer_shift;
    assert_eq!(p.ends[1].max_window(), largest);
    let sender = p.ends[1].sender().unwrap();
    assert_eq!((sender.core().flow().send_window, sender.max_window()), (2 << p.ends[1].peer_shift, largest));
}
