//! Effect of a [`Permit::Hold`](crate::cc::Permit::Hold) on the sender: frozen, then started without back-off. During
//! the `Hold` nothing leaves and no timer runs. At its end, the head of the outstanding segments is sent again if its
//! answer is overdue, or as soon as it becomes overdue. All other outstanding segments wait for the answer. The answer
//! covers the segments that had arrived, so only lost segments are sent again. Uncovered segments count as lost if they
//! left too long ago. No loss is reported to the algorithm: the algorithm caused the pause, not the network.

use super::scoreboard::{LOST, RETRANS};
use super::send::{Force, TcpSender};
use crate::cc::CongestionState;
use crate::units::Time;

impl TcpSender {
    /// Returns true if the algorithm holds the connection: nothing may leave.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.core.held
    }

    /// Freezes or releases the sender if the algorithm's permit changed.
    pub(super) fn hold_or_release(&mut self, now: Time) {
        if let (true, false) = self.core.hold() {
            self.release(now);
        }
    }

    fn release(&mut self, now: Time) {
        let answer_timeout = self.core.end_hold(self.cfg.rtt_estimator());
        self.forced = None;
        self.rack.on_release();
        if self.persist_at != Time::MAX {
            self.persist_interval = self.core.rtt.rto();
            self.persist_at = now + self.persist_interval;
            self.probe_window = true;
            (self.window_probes, self.probing_since) = (0, None);
        }
        if self.board.is_empty() {
            return;
        }
        self.board.invalidate_samples();
        self.reset_recovery();
        // If the head was the only segment to arrive, its acknowledgment may be delayed.
        let delay = if self.cfg.delayed_ack > 1 { self.cfg.delayed_ack_timeout } else { Time::ZERO };
        let head = self.board.segment(0);
        let due = (head.flags & (LOST | RETRANS) != LOST).then(|| head.sent_at + answer_timeout + delay);
        if self.core.release(now, self.board.nxt(), answer_timeout, due) {
            self.forced = Some(Force::Head);
        }
    }

    /// Sends lost segments again, the first one at once: the network lost them, but not for congestion (Linux
    /// `tcp_simple_retransmit`).
    pub(super) fn begin_repair(&mut self) {
        self.rack.on_release();
        self.reset_recovery();
        self.core.flow.state = CongestionState::Loss;
        self.forced = Some(Force::Head);
    }

    fn reset_recovery(&mut self) {
        if !self.sack {
            self.board.reset_reno_sack();
        }
        self.duplicates = 0;
        self.recover = self.board.nxt();
        self.recover_active = true;
        self.first_partial = true;
        self.core.flow.recovery_window = None;
    }

    /// Handles the first acknowledgment after a `Hold`: segments that it should cover but does not are lost. The offset
    /// from `SenderCore::overdue` is not needed: every segment sent before the returned time was outstanding at the end
    /// of the `Hold`.
    #[inline(always)]
    pub(super) fn settle_release(&mut self, now: Time) {
        if self.core.released.is_some()
            && let Some((_, overdue)) = self.core.overdue(now, self.board.una())
        {
            self.board.mark_lost_while(|sent_at, _| sent_at < overdue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Stack, TcpConfig, TcpEndpoint};
    use super::*;
    use crate::cc::{LinkEvent, algorithm};
    use crate::channel::{EndpointPair, Peer};
    use crate::packet::{FlowId, Packet, SackBlock, SideContent, Sides, SynOptions, flags};
    use crate::rng::Seed;
    use proptest::prelude::*;
    use std::sync::Arc;

    impl Peer for TcpEndpoint {
        fn receive(&mut self, now: Time, p: &Packet, sides: &Sides) {
            TcpEndpoint::receive(self, now, p, sides);
        }
        fn transmit(&mut self, now: Time, sides: &mut Sides) -> Option<Packet> {
            let p = TcpEndpoint::transmit(self, now, sides);
            if let Some(s) = self.snd.get() {
                s.check();
            }
            p
        }
        fn wake(&mut self, now: Time) {
            TcpEndpoint::wake(self, now);
        }
        fn next_wake(&self, now: Time) -> Time {
            TcpEndpoint::next_wake(self, now)
        }
        fn on_link(&mut self, now: Time, event: &LinkEvent) {
            TcpEndpoint::on_link(self, now, event);
        }
    }

    fn sender(stack: Stack, params: &str, bytes: u64) -> TcpEndpoint {
        let factory = algorithm("avoca").unwrap().factory(stack.name(), &params.parse().unwrap()).unwrap();
        let mut e = TcpEndpoint::new(FlowId::new(0, false), Arc::new(TcpConfig::preset(stack)), factory, 0);
        e.offer(bytes, true);
        e
    }

    /// Creates a transfer of `bytes` from end 0, with AVOCA, to end 1, 20 ms away.
    fn pair(stack: Stack, params: &str, bytes: u64, seed: u64) -> EndpointPair<TcpEndpoint> {
        let factory = algorithm("newreno").unwrap().default_factory(stack.name());
        let mut sink = TcpEndpoint::new(FlowId::new(0, true), Arc::new(TcpConfig::preset(stack)), factory, 0);
        sink.listen();
        let mut source = sender(stack, params, bytes);
        source.connect();
        let random = Seed { seed, replica: 0 }.stream("hold", "channel");
        EndpointPair::new([source, sink], Time::from_millis(20), random)
    }

    fn ms(t: u64) -> Time {
        Time::from_millis(t)
    }

    #[test]
    fn hold_sends_nothing_and_does_not_time_out() {
        for stack in Stack::ALL {
            // An outage of two hours: without the hold, time-outs would have ended the connection.
            let mut c = pair(stack, "", u64::MAX, 1);
            c.run_until(ms(500));
            let sent = c.sent_between(0, Time::ZERO, Time::MAX).count();
            c.set_link(0, false);
            let rto = c.ends[0].sender().unwrap().core().flow().rto;
            let outstanding = c.ends[0].sender().unwrap().core().flow().outstanding;
            assert!(outstanding > 0);
            c.run_until(ms(7_200_000));
            assert_eq!(c.sent_between(0, Time::ZERO, Time::MAX).count(), sent, "{stack:?}");
            let s = c.ends[0].sender().unwrap();
            assert_eq!(
                (s.core().flow().rto, s.core().flow().outstanding, s.core().stats().timeouts),
                (rto, outstanding, 0)
            );
            let delivered = c.ends[1].delivered();
            c.set_link(0, true);
            let first = c.sent_between(0, c.now, Time::MAX).next().expect("at once").2;
            assert_eq!(u64::from(first.seq), c.ends[0].sender().unwrap().una(), "the head: {stack:?}");
            c.run_until(ms(7_201_000));
            let s = c.ends[0].sender().unwrap();
            assert!(c.ends[1].delivered() > delivered + 200_000, "{stack:?}: {}", c.ends[1].delivered() - delivered);
            assert_eq!((s.core().stats().timeouts, c.ends[0].failed()), (0, false), "{stack:?}");
        }
    }

    #[test]
    fn rto_resets_to_initial_by_default() {
        for (params, initial) in [("", true), ("reset = false", false)] {
            let mut c = pair(Stack::Ns2, params, u64::MAX, 1);
            c.run_until(ms(2_000));
            c.up = false; // the host is notified late: time-outs back off
            c.run_until(ms(10_000));
            let s = c.ends[0].sender().unwrap();
            assert!(s.core().stats().timeouts >= 2 && s.core().flow().rto >= ms(4_000));
            let retries = s.core.retries;
            assert!(retries >= 2);
            c.set_link(0, false);
            c.run_until(ms(60_000));
            c.set_link(0, true);
            let s = c.ends[0].sender().unwrap();
            assert_eq!((s.core.retries, s.core().flow().srtt.is_zero()), (0, initial));
            assert_eq!(s.core().flow().rto, if initial { ms(3_000) } else { ms(200) });
        }
    }

    struct ScriptedReceiver {
        e: TcpEndpoint,
        sides: Sides,
        now: Time,
    }

    impl ScriptedReceiver {
        /// Loses coverage with a flight of at least four segments out.
        fn outage(stack: Stack) -> (Self, Vec<Packet>) {
            let mut s = ScriptedReceiver { e: sender(stack, "", u64::MAX), sides: Sides::default(), now: Time::ZERO };
            s.e.connect();
            s.sent();
            s.now = ms(40);
            let mut answer = Packet::tcp(FlowId::new(0, true));
            (answer.flags, answer.ack, answer.window) = (flags::SYN | flags::ACK, 1, 60_000);
            let options = SynOptions { mss: 1460, sack_permitted: true, ..SynOptions::default() };
            answer.set_side(s.sides.store(SideContent::Syn(options)));
            s.e.receive(s.now, &answer, &s.sides);
            let mut flight = s.sent();
            for _ in 0..3 {
                s.now += ms(40);
                let end = flight.last().unwrap();
                s.ack(end.seq + end.payload(), &[]);
                flight = s.sent();
            }
            assert!(flight.len() >= 4, "{stack:?}");
            s.now += ms(1);
            s.e.on_link(s.now, &LinkEvent::Down);
            assert!(s.e.next_wake(s.now) == Time::MAX && s.sent().is_empty());
            s.now = ms(50_000);
            [LinkEvent::Up, LinkEvent::Configured].iter().for_each(|e| s.e.on_link(s.now, e));
            (s, flight)
        }
        fn sent(&mut self) -> Vec<Packet> {
            let all = std::iter::from_fn(|| Peer::transmit(&mut self.e, self.now, &mut self.sides));
            all.filter(|p| p.payload() > 0).collect()
        }
        fn ack(&mut self, ack: u32, block: &[(u32, u32)]) {
            let mut p = Packet::tcp(FlowId::new(0, true));
            (p.flags, p.seq, p.ack, p.window) = (flags::ACK, 1, ack, 60_000);
            if let &[(left, right)] = block {
                let blocks = [SackBlock { left, right }; 4];
                p.set_sacks(1, self.sides.store(SideContent::Sacks(blocks)));
                p.set_payload(0);
            }
            self.e.receive(self.now, &p, &self.sides);
        }
    }

    #[test]
    fn delivered_data_is_not_retransmitted_after_a_hold() {
        for stack in Stack::ALL {
            // The whole flight had arrived; its ACKs were lost.
            let (mut s, flight) = ScriptedReceiver::outage(stack);
            let (una, last) = (flight[0].seq, flight.last().unwrap());
            let again = s.sent();
            assert_eq!((again[0].seq, again.iter().filter(|p| p.seq <= last.seq).count()), (una, 1), "{stack:?}");
            s.now += ms(40);
            s.ack(last.seq + last.payload(), &[]);
            let next = s.sent();
            assert!(!next.is_empty() && next.iter().all(|p| p.seq > last.seq), "{stack:?}");
            let s = s.e.sender().unwrap();
            assert_eq!((s.core().stats().retransmits, s.core().stats().timeouts), (1, 0), "{stack:?}");
            assert_eq!(s.core().flow().state, CongestionState::Open);
        }
    }

    #[test]
    fn only_holes_are_retransmitted() {
        for stack in [Stack::Linux, Stack::Ns3, Stack::Rfc] {
            // The second and the third segment were lost; all later ones had arrived.
            let (mut s, flight) = ScriptedReceiver::outage(stack);
            let last = flight.last().unwrap();
            s.sent();
            s.now += ms(40);
            let window = s.e.sender().unwrap().core().cc().trace().cwnd;
            s.ack(flight[1].seq, &[(flight[3].seq, last.seq + last.payload())]);
            let again: Vec<u32> = s.sent().iter().map(|p| p.seq).filter(|seq| *seq <= last.seq).collect();
            assert_eq!(again, [flight[1].seq, flight[2].seq], "{stack:?}");
            let s = s.e.sender().unwrap();
            assert!(s.core().cc().trace().cwnd >= window, "no loss was reported");
            assert!(
                s.core().flow().latest_rtt < ms(100),
                "{stack:?}: no sample spans the outage: {}",
                s.core().flow().latest_rtt
            );
            assert_eq!(
                (s.core().stats().retransmits, s.core().stats().fast_recoveries, s.core().stats().timeouts),
                (3, 0, 0),
                "{stack:?}"
            );
        }
    }

    #[test]
    fn a_closed_window_is_probed_when_coverage_is_back() {
        let (mut s, flight) = ScriptedReceiver::outage(Stack::Linux);
        let last = flight.last().unwrap();
        s.sent();
        let mut p = Packet::tcp(FlowId::new(0, true));
        (p.flags, p.seq, p.ack) = (flags::ACK, 1, last.seq + last.payload());
        s.e.receive(s.now, &p, &s.sides);
        assert!(s.sent().is_empty() && s.e.next_wake(s.now) < Time::MAX);
        s.e.on_link(s.now, &LinkEvent::Down);
        assert_eq!(s.e.next_wake(s.now), Time::MAX);
        s.now = ms(90_000);
        [LinkEvent::Up, LinkEvent::Configured].iter().for_each(|e| s.e.on_link(s.now, e));
        let probe = s.e.transmit(s.now, &mut s.sides).expect("a probe at once");
        assert_eq!((probe.payload(), probe.seq), (0, p.ack - 1));
        assert!(s.e.next_wake(s.now) > s.now);
    }

    #[test]
    fn lost_data_is_repaired_without_a_timeout() {
        for stack in Stack::ALL {
            let mut c = pair(stack, "", 3_000_000, 1);
            c.run_until(ms(200));
            c.up = false; // 30 ms of data are lost before the sender is notified
            c.run_until(ms(230));
            c.set_link(0, false);
            c.run_until(ms(30_000));
            let before = c.ends[1].delivered();
            c.set_link(0, true);
            c.run_until(ms(31_000));
            let s = c.ends[0].sender().unwrap();
            assert!(c.ends[1].delivered() > before + 100_000, "{stack:?}: {}", c.ends[1].delivered() - before);
            assert_eq!((s.core().stats().timeouts, s.core().stats().fast_recoveries), (0, 0), "{stack:?}");
            c.run_until(ms(60_000));
            assert_eq!(c.ends[1].delivered(), 3_000_000);
        }
    }

    #[test]
    fn the_handshake_keeps_link_events() {
        for stack in Stack::ALL {
            let mut c = pair(stack, "", 10_000, 1);
            c.notify(0, LinkEvent::Signal(-95.0)); // too weak for coverage, but strong enough for a SYN
            c.notify(1, LinkEvent::Signal(-95.0));
            c.run_until(ms(300_000));
            assert!(c.sent.is_empty() && !c.ends[0].failed());
            c.notify(1, LinkEvent::Signal(-60.0));
            c.notify(0, LinkEvent::Signal(-60.0));
            assert_eq!((c.sent.len(), c.sent[0].0), (1, ms(300_000)), "at once");
            c.run_until(ms(301_000));
            assert_eq!(c.ends[1].delivered(), 10_000);
        }
    }

    /// A hold that depends on earlier events, such as one with hysteresis, continues after the handshake.
    #[test]
    fn link_events_during_the_handshake_are_kept() {
        for stack in Stack::ALL {
            let mut c = pair(stack, "hysteresis = 10.0", 10_000, 1);
            c.run_until(ms(5));
            for dbm in [-95.0, -75.0] {
                c.notify(0, LinkEvent::Signal(dbm));
            }
            c.run_until(ms(100_000));
            assert_eq!((c.sent_between(0, ms(0), c.now).count(), c.ends[1].delivered()), (1, 0), "{stack:?}: the SYN");
            c.notify(0, LinkEvent::Signal(-69.0));
            c.run_until(ms(104_000));
            assert_eq!(c.ends[1].delivered(), 10_000, "{stack:?}");
        }
    }

    #[test]
    fn handshake_sends_nothing_outside_coverage() {
        for stack in Stack::ALL {
            // Before the SYN-ACK arrives, and after a repetition of the SYN without an answer.
            for (lost, down, left) in [(0, 5, 1), (0, 25, 2), (5_000, 5_000, 2)] {
                let mut c = pair(stack, "", 10_000, 1);
                let factory = algorithm("avoca").unwrap().default_factory(stack.name());
                c.ends[1] = TcpEndpoint::new(FlowId::new(0, true), Arc::new(TcpConfig::preset(stack)), factory, 0);
                c.ends[1].listen();
                c.lose = Box::new(move |t, _, _| t < ms(lost));
                c.run_until(ms(down));
                c.up = false;
                (0..2).for_each(|i| c.notify_link(i, false));
                let before = c.sent.len();
                c.run_until(ms(900_000));
                assert_eq!((c.sent.len(), c.ends[0].next_wake(c.now)), (before, Time::MAX), "{stack:?}");
                assert!(before >= left && !c.ends[0].failed());
                c.up = true;
                (0..2).rev().for_each(|i| c.notify_link(i, true));
                let syn = c.sent_between(0, c.now, Time::MAX).next().expect("at once").2;
                assert!(syn.is(flags::SYN));
                assert_eq!(c.ends[0].next_wake(c.now), c.now + c.ends[0].cfg.syn_rto, "not backed off");
                c.run_until(c.now + ms(1_000));
                assert_eq!(c.ends[1].delivered(), 10_000, "{stack:?} {down}");
                let rtt = c.ends[0].sender().unwrap().core().stats().rtt.max();
                assert!(rtt < Some(ms(400).0), "{stack:?}: no sample spans the outage: {rtt:?}");
            }
        }
    }

    #[test]
    fn recent_syn_is_not_retransmitted() {
        for stack in Stack::ALL {
            for (held, sampled) in [(0, true), (10, false), (100, true)] {
                let mut c = pair(stack, "", 10_000, 1);
                c.run_until(ms(0));
                c.notify_link(0, false);
                c.run_until(ms(held));
                c.notify_link(0, true);
                let rto = c.ends[0].cfg.syn_rto;
                assert!(held > 40 || c.ends[0].next_wake(c.now) == rto, "{stack:?}");
                c.run_until(ms(held.max(40)));
                let syns = c.sent_between(0, ms(0), c.now).filter(|s| s.2.is(flags::SYN)).count();
                assert_eq!(
                    (syns, c.ends[0].sender().unwrap().core().stats().rtt.count()),
                    (1, u64::from(sampled)),
                    "{stack:?}"
                );
                c.run_until(ms(1_000));
                assert_eq!(c.ends[1].delivered(), 10_000, "{stack:?} {held}");
            }
        }
    }

    /// A head that left just before a `Hold` was lost: it leaves again when its answer is overdue.
    #[test]
    fn lost_recent_head_is_repaired_without_a_timeout() {
        for stack in Stack::ALL {
            let mut c = pair(stack, "", u64::MAX, 1);
            c.run_until(ms(500));
            c.up = false;
            c.notify_link(0, false);
            c.run_until(ms(530));
            c.up = true;
            c.notify_link(0, true);
            let before = c.ends[1].delivered();
            c.run_until(ms(1_400));
            let s = c.ends[0].sender().unwrap();
            assert!(
                s.core().stats().retransmits > 0 && c.ends[1].delivered() > before + 100_000,
                "{stack:?} {:?}",
                s.core().stats()
            );
            assert_eq!((s.core().stats().timeouts, s.core().stats().fast_recoveries), (0, 0), "{stack:?}");
        }
    }

    proptest! {
           #[test]
           fn flapping_coverage_causes_no_duplicates(
               stack in 0_usize..4,
               reset in any::<bool>(),
               flaps in prop::collection::vec((1_u64..300, 1_u64..300), 0..30),
           ) {
               let mut c = pair(Stack::ALL[stack], &format!("reset = {reset}"), 1_000_000, 1);
               for (covered, not) in flaps {
                   c.run_until(c.now + ms(covered));
                   c.notify_link(0, false);
                   c.run_until(c.now + ms(not));
                   c.notify_link(0, true);
               }
               c.run_until(c.now + Time::from_secs(60));
               let s = c.ends[0].sender().unwrap();
               let stats = s.core().stats();
    prop_assert_eq!((c.ends[1].delivered(), stats.retransmits, stats.timeouts), (1_000_000, 0, 0));
           }

           #[test]
           fn transfer_completes_after_any_link_changes(
               stack in 0_usize..4,
               reset in any::<bool>(),
               seed in any::<u64>(),
               loss in 0.0..0.05_f64,
               flaps in prop::collection::vec((1_u64..400, 0_u64..60, prop::bool::weighted(0.9)), 0..20),
           ) {
               let mut c = pair(Stack::ALL[stack], &format!("reset = {reset}"), 400_000, seed);
               c.impairments.loss = loss;
               let mut up = true;
               for (after, notice, real) in flaps {
                   c.run_until(c.now + ms(after));
                   up = !up;
                   if real {
                       c.up = up; // else only the signal fades
                   }
                   c.run_until(c.now + ms(notice));
                   if !c.ends[0].is_done() {
                       c.notify_link(0, up);
                   }
               }
               c.up = true;
               c.impairments.loss = 0.0;
               c.notify_link(0, true);
               c.run_until(c.now + Time::from_secs(180));
               prop_assert_eq!(c.ends[1].delivered(), 400_000);
               prop_assert!(!c.ends[0].failed());
               prop_assert_eq!(c.sides.in_use(), 0);
           }
       }
}
