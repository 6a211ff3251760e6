//! Explicit Congestion Notification (RFC 3168 section 6.1). The handshake negotiates ECN: ECE and CWR on the SYN, ECE
//! on its answer. A repeated SYN offers nothing, in case the offer caused the loss (Linux `tcp_ecn_fallback`).
//! Afterwards new data leaves as ECT(0); pure acknowledgments, retransmissions and probes do not (sections 6.1.4 to
//! 6.1.6).
//!
//! The receiver of a marked segment sets ECE on every segment until one with CWR arrives. With `quick_ack`, it also
//! acknowledges at once, like Linux. The receiver of ECE reduces its window as for a loss
//! ([`crate::cc::Congestion::Ecn`]) and sets CWR on the next new segment. The window falls once per window of data,
//! regardless of whether packets were marked, lost, or both. With `recovery = "rack"`, this is Linux's CWR state: PRR
//! reduces the window step by step, and reductions for marks are not undone. With other values of `recovery`, the
//! window falls at once.
//!
//! With `ecn_echo = "each"` (DCTCP), the receiver instead sets ECE only on acknowledgments of marked segments. When
//! marking begins or ends, a delayed acknowledgment of earlier segments leaves first, and the new segment is
//! acknowledged at once (RFC 8257 section 3.2, Linux `dctcp_ece_ack_update`).
//!
//! Two behaviors follow Linux, not RFC 3168. If a SYN was repeated without the offer, a SYN-ACK with ECE is still
//! accepted (section 6.1.1). With `rack`, a mark reported with the ACK that ends a recovery reduces the window again.

use super::config::EcnEcho;
use super::{ConnectionState, TcpEndpoint};
use crate::packet::{Ecn, Packet, flags};
use crate::units::Time;

impl TcpEndpoint {
    /// Returns the flags with which a SYN offers or accepts ECN.
    pub(super) fn ecn_setup(&self) -> u8 {
        match self.state {
            ConnectionState::SynReceived if self.ecn => flags::ECE,
            ConnectionState::SynSent if self.cfg.ecn && self.handshake.as_ref().is_some_and(|h| h.tries == 0) => {
                flags::ECE | flags::CWR
            }
            _ => 0,
        }
    }

    /// Returns true if `p`, a SYN or its answer, completes the agreement on ECN.
    pub(super) fn agrees_on_ecn(&self, p: &Packet) -> bool {
        let asked = if p.is(flags::ACK) { flags::ECE } else { flags::ECE | flags::CWR };
        self.cfg.ecn && p.flags & (flags::ECE | flags::CWR) == asked
    }

    #[cold]
    pub(super) fn put_ecn(&mut self, p: &mut Packet, start: u64, len: u32) {
        if self.rcv.echoes() {
            p.flags |= flags::ECE;
        }
        if self.cfg.ecn_echo == EcnEcho::Each {
            p.set_ecn(Ecn::Ect0);
        }
        let Some(snd) = self.snd.get_mut().filter(|_| len > 0) else { return };
        if start >= snd.ecn.sent {
            snd.ecn.sent = start + u64::from(len);
            p.set_ecn(Ecn::Ect0);
            if std::mem::take(&mut snd.ecn.announce) {
                p.flags |= flags::CWR;
            }
        }
    }

    /// Processes ECN fields of data received between `start` and `end`.
    #[cold]
    pub(super) fn take_ecn(&mut self, p: &Packet, start: u64, end: u64) {
        // Section 6.1.5: ignore marks on data outside the window.
        let taken = end > self.rcv.nxt() && !self.rcv.is_beyond(start);
        let marked = p.ecn() == Ecn::Ce;
        if p.is(flags::CWR) {
            self.rcv.on_cwr(self.cfg.ecn_echo);
        }
        match self.cfg.ecn_echo {
            EcnEcho::UntilCwr => {
                if marked && taken {
                    self.rcv.on_marked();
                }
            }
            EcnEcho::Each if taken => self.ack_first |= self.rcv.on_mark(marked),
            EcnEcho::Each => {}
        }
    }

    /// Returns the delayed acknowledgment of data that arrived before marking began or ended.
    pub(super) fn earlier_acknowledgment(&mut self, now: Time) -> Option<Packet> {
        let (nxt, marked) = self.rcv.take_earlier()?;
        let mut p = self.header(now, self.snd_nxt(), 0, 0);
        p.ack = self.irs.wrapping_add(nxt as u32);
        p.set_ecn(Ecn::Ect0);
        if marked {
            p.flags |= flags::ECE;
        }
        p.window = self.rcv.window_field();
        p.ident = self.next_ident();
        Some(p)
    }
}

#[cfg(test)]
mod tests {
    use super::super::dialogue::{Pair, pair};
    use super::super::{Stack, TcpConfig};
    use super::*;
    use crate::units::Time;
    use proptest::prelude::*;

    fn connected(stack: Stack, ecn: [bool; 2]) -> Pair {
        let mut p = pair(&TcpConfig::preset(stack), Time::from_millis(10));
        for (end, ecn) in p.ends.iter_mut().zip(ecn) {
            end.cfg = TcpConfig { ecn, ..(*end.cfg).clone() }.into();
        }
        p.ends[0].connect();
        p.run(Time::ZERO, Time::from_millis(50));
        p
    }

    #[test]
    fn ecn_needs_both_ends() {
        for stack in Stack::ALL {
            for ecn in [[true, true], [true, false], [false, true], [false, false]] {
                let mut p = connected(stack, ecn);
                p.ends[0].write(5000);
                p.marked = (0..100).collect();
                p.run(Time::from_millis(50), Time::from_secs(2));
                let both = ecn == [true, true];
                let reductions = p.ends[0].sender().unwrap().core().stats().ecn_reductions;
                assert_eq!((p.ends[1].delivered(), reductions > 0), (5000, both), "{stack:?} {ecn:?}");
                assert!(p.data().iter().all(|d| (d.2.ecn() == Ecn::Ect0) == both));
            }
        }
    }

    /// RFC 8257 section 3.2; the fourth and the fifth of nine segments are marked.
    #[test]
    fn exact_echo_reports_each_change_at_once() {
        let cfg = TcpConfig { ecn: true, ecn_echo: EcnEcho::Each, delayed_ack: 4, ..TcpConfig::preset(Stack::Rfc) };
        let mut p = pair(&cfg, Time::from_millis(10));
        p.ends[0].connect();
        p.run(Time::ZERO, Time::from_millis(50));
        p.marked = vec![3, 4];
        p.ends[0].write(9 * 1448);
        p.run(Time::from_millis(50), Time::from_millis(79));
        let answers = p.sent.iter().filter(|s| s.1 == 1 && s.0 >= Time::from_millis(60));
        let read = |q: &Packet| ((q.ack.wrapping_sub(78)) / 1448, q.is(flags::ECE), q.ecn() == Ecn::Ect0);
        let seen: Vec<_> = answers.map(|s| read(&s.2)).collect();
        // The first segment is acknowledged at once; the ACK of the second and the third is delayed.
        let expected = [(1, false, true), (3, false, true), (4, true, true), (5, true, true), (6, false, true)];
        assert_eq!(seen[..5], expected, "{seen:?}");
        assert!(p.data().iter().all(|d| d.2.ecn() == Ecn::Ect0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        /// All data arrives regardless of marks and losses. Only new data is ECN-capable. Marks reduce a window at most
        /// once per round trip. Each reduction announces CWR once.
        #[test]
        fn marks_reduce_the_window_once_per_round_trip(
            stack in prop::sample::select(Stack::ALL.to_vec()),
            marked in prop::collection::btree_set(0usize..300, 0..40),
            lost in prop::collection::btree_set(0usize..300, 0..6),
        ) {
            let mut p = connected(stack, [true, true]);
            p.marked = marked.iter().copied().collect();
            p.lost = lost.iter().copied().collect();
            for n in 0..10 {
                p.ends[0].write(30_000);
                let from = Time::from_millis(50 + 400 * n);
                p.run(from, from + Time::from_millis(400));
            }
            p.run(Time::from_secs(5), Time::from_secs(300));
            prop_assert_eq!(p.ends[1].delivered(), 300_000);
            let mut sent = 0;
            let mut rounds = 0;
            let mut round_ends = Time::ZERO;
            for (at, _, d) in p.data() {
                let end = d.seq.wrapping_sub(77) + d.payload();
                prop_assert_eq!(d.ecn() == Ecn::Ect0, end > sent, "retransmissions are not ECN-capable");
                prop_assert!(!d.is(flags::CWR) || end > sent);
                sent = sent.max(end);
                if at >= round_ends {
                    (rounds, round_ends) = (rounds + 1, at + Time::from_millis(20));
                }
            }
            let stats = p.ends[0].sender().unwrap().core().stats();
            let seen = p.data().iter().enumerate().any(|(i, d)| {
                marked.contains(&i) && !lost.contains(&i) && d.2.ecn() == Ecn::Ect0
            });
            prop_assert!(stats.ecn_reductions <= rounds);
            prop_assert!(seen || stats.ecn_reductions == 0);
            let announced = p.data().iter().filter(|d| d.2.is(flags::CWR)).count() as u64;
            prop_assert!(announced <= stats.ecn_reductions + stats.fast_recoveries + stats.timeouts + stats.probes);
            prop_assert!(announced > 0 || stats.ecn_reductions == 0 || p.data().len() < 3);
        }
    }
}
