//! Delayed acknowledgments: every second segment, or after a time (RFC 1122 section 4.2.3.2, RFC 5681 section 4.2).
//! Linux (`quick_ack`) does not delay 16 acknowledgments at the beginning, after a duplicate, and after a silence
//! longer than the RTO. In these cases, the peer probably begins with a small window. Segments that make the offered
//! window grow are also acknowledged at once. Neither rule applies to an interactive connection, which answers received
//! data within the delay (`pingpong`). The delay adapts: it follows the gaps between arrivals, doubles after a wait
//! without data to send, and stays between `timeout` and the RTT (`tcp_event_data_recv`, `tcp_send_delayed_ack`,
//! `tcp_delack_timer_handler`, `tcp_event_data_sent`).
//!
//! `compress_sacks` concerns the time while a gap remains. Acknowledgments after the third are held back until 44 have
//! accumulated, or for the shorter of a millisecond and a twentieth of the RTT (`__tcp_ack_snd_check`). An
//! acknowledgment has room for few blocks, so under strong reordering the sender does not receive all of them.

use super::config::TcpConfig;
use super::scoreboard::DUP_THRESH;
use crate::units::Time;

#[derive(Clone, Debug)]
pub(super) struct DelayedAck {
    /// Number of segments after which an acknowledgment leaves at once.
    every: u32,
    /// Delay; on Linux its lower bound (`TCP_DELACK_MIN`, `TCP_ATO_MIN`).
    timeout: Time,
    quick_ack: bool,
    compress_sacks: bool,
    /// Number of segments not yet acknowledged.
    pending: u32,
    due: Time,
    /// Number of further acknowledgments without delay.
    quick: u32,
    /// Set if the application answers data.
    interactive: bool,
    /// Time when data last arrived in order.
    fed_at: Time,
    /// Delay before its bounds apply (`ato`); zero before the first data.
    wait: Time,
    rto: Time,
    srtt: Time,
    /// Next byte expected at the last gap, and the number of acknowledgments sent at once for that gap.
    gap_at: u64,
    duplicates: u32,
    /// Number of acknowledgments held back while a gap remains.
    compressed: u32,
}

impl DelayedAck {
    pub(super) fn new(cfg: &TcpConfig) -> Self {
        DelayedAck {
            every: cfg.delayed_ack,
            timeout: cfg.delayed_ack_timeout,
            quick_ack: cfg.quick_ack,
            compress_sacks: cfg.compress_sacks,
            pending: 0,
            due: Time::MAX,
            quick: 0,
            interactive: false,
            fed_at: Time::ZERO,
            wait: Time::ZERO,
            rto: Time::ZERO,
            srtt: Time::ZERO,
            gap_at: 0,
            duplicates: 0,
            compressed: 0,
        }
    }

    /// Answers the first data segment at once, as ns-3 and Linux do.
    pub(super) fn on_syn(&mut self) {
        self.pending = self.every.saturating_sub(1);
    }

    #[inline]
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// Returns true if the acknowledgment is due now because no data carried it.
    #[inline(always)]
    pub(super) fn expires(&mut self, now: Time) -> bool {
        self.due <= now && self.expired()
    }

    #[inline(never)]
    fn expired(&mut self) -> bool {
        self.due = Time::MAX;
        if self.compressed > 0 {
            return true;
        }
        self.wait = if self.interactive { self.timeout } else { (self.wait * 2).min(self.rto) };
        self.interactive = false;
        true
    }

    /// Handles data that continues the stream; `rto` and `srtt` are the connection's values.
    #[inline(always)]
    pub(super) fn on_arrival(&mut self, now: Time, rto: Time, srtt: Time) {
        if !self.quick_ack {
            return;
        }
        let gap = now - self.fed_at;
        if self.wait.is_zero() {
            (self.wait, self.quick) = (self.timeout, QUICK_ACKS);
        } else if gap <= self.timeout / 2 {
            self.wait = self.wait / 2 + self.timeout / 2;
        } else if gap < self.wait {
            self.wait = (self.wait / 2 + gap).min(rto);
        } else if gap > rto {
            self.quick = QUICK_ACKS;
        }
        (self.fed_at, self.rto, self.srtt) = (now, rto, srtt);
    }

    /// Handles a segment in order; returns true if it is acknowledged at once.
    #[inline(always)]
    pub(super) fn on_in_order(&mut self, now: Time) -> bool {
        self.pending += 1;
        if self.pending >= self.every || self.quick > 0 && !self.interactive {
            return true;
        }
        if self.due == Time::MAX {
            self.due = now + self.time();
        }
        false
    }

    /// Handles a segment that leaves a gap at `nxt`; returns true if the SACK leaves at once.
    pub(super) fn on_gap(&mut self, now: Time, nxt: u64, rtt: Time) -> bool {
        if !self.compress_sacks || self.quick > 0 && !self.interactive || self.compressed >= COMPRESSED_SACKS {
            return true;
        }
        if self.gap_at != nxt {
            (self.gap_at, self.duplicates) = (nxt, 0);
        }
        if self.duplicates < DUP_THRESH {
            self.duplicates += 1;
            return true;
        }
        self.compressed += 1;
        if self.compressed == 1 {
            self.due = self.due.min(now + (rtt / 20).min(MAX_COMPRESSION));
        }
        false
    }

    fn time(&self) -> Time {
        let longest = if self.srtt.is_zero() { LONGEST } else { self.srtt.min(LONGEST) };
        if self.quick_ack { self.wait.min(longest).max(self.timeout) } else { self.timeout }
    }

    /// Handles a duplicate: acknowledgments may have been lost.
    pub(super) fn on_duplicate(&mut self) {
        if self.quick_ack {
            (self.quick, self.wait, self.interactive) = (QUICK_ACKS, self.timeout, false);
        }
    }

    /// Handles growth of the offered window: the peer can use it at once (`tcp_grow_window`).
    #[inline]
    pub(super) fn on_window_growth(&mut self) {
        if self.quick_ack {
            self.quick |= 1;
        }
    }

    /// Handles a mark: the peer's window may be small.
    pub(super) fn on_marked(&mut self) {
        if self.quick_ack {
            (self.quick, self.wait, self.interactive) = (self.quick.max(QUICK_ECHOES), self.timeout, false);
        }
    }

    #[inline]
    pub(super) fn on_data_sent(&mut self, now: Time) {
        if self.quick_ack && !self.interactive {
            self.interactive = now - self.fed_at < self.wait;
        }
    }

    /// Records that an acknowledgment leaves, alone or on data. `wanted` is set if it was due at once.
    #[inline]
    pub(super) fn on_ack_sent(&mut self, wanted: bool) {
        if self.quick > 0 && (wanted || self.pending > 0) {
            self.quick -= 1;
            if self.quick == 0 {
                self.wait = self.timeout;
            }
        }
        (self.pending, self.compressed, self.due) = (0, 0, Time::MAX);
    }
}

/// Linux `tcp_data_ecn_check`.
const QUICK_ECHOES: u32 = 2;
/// Linux `TCP_MAX_QUICKACKS`.
const QUICK_ACKS: u32 = 16;
/// Linux `tcp_comp_sack_nr`, `tcp_comp_sack_delay_ns`.
const COMPRESSED_SACKS: u32 = 44;
const MAX_COMPRESSION: Time = Time::from_millis(1);
/// Linux `TCP_DELACK_MAX`.
const LONGEST: Time = Time::from_millis(200);

#[cfg(test)]
mod tests {
    use super::super::config::Stack;
    use super::*;

    const RTO: Time = Time::from_millis(280);

    /// A receiver of small segments, with an RTT of 80 ms.
    struct Fed {
        delayed: DelayedAck,
        now: Time,
    }

    impl Fed {
        /// Creates a receiver past its first acknowledgments.
        fn new(stack: Stack) -> Self {
            let mut fed = Fed { delayed: DelayedAck::new(&TcpConfig::preset(stack)), now: Time::from_secs(1) };
            fed.delayed.on_syn();
            for _ in 0..40 {
                fed.arrives(Time::ZERO);
            }
            fed.delayed.on_ack_sent(false);
            fed
        }

        /// Handles a segment after `gap`; returns true if it is acknowledged at once.
        fn arrives(&mut self, gap: Time) -> bool {
            self.now += gap;
            self.delayed.on_arrival(self.now, RTO, Time::from_millis(80));
            let at_once = self.delayed.on_in_order(self.now);
            if at_once {
                self.delayed.on_ack_sent(true);
            }
            at_once
        }

        /// Returns the delay of the acknowledgment of a lone segment that arrives after `gap`.
        fn waits(&mut self, gap: Time) -> Time {
            assert!(!self.arrives(gap));
            let due = self.delayed.due();
            let waited = due - self.now;
            self.now = due;
            assert!(self.delayed.expires(self.now));
            self.delayed.on_ack_sent(true);
            waited
        }
    }

    #[test]
    fn silence_longer_than_the_rto_restarts_quick_acks() {
        let ms = Time::from_millis;
        for (stack, silence, at_once) in
            [(Stack::Linux, ms(281), 16), (Stack::Linux, RTO, 0), (Stack::Rfc, Time::from_secs(9), 0)]
        {
            let mut fed = Fed::new(stack);
            let mut gap = silence;
            let answered = (0..40).take_while(|_| fed.arrives(std::mem::take(&mut gap))).count();
            assert_eq!(answered, at_once, "{stack:?} after {silence}");
        }
    }

    #[test]
    fn reply_within_the_delay_ends_quick_acks() {
        let mut fed = Fed::new(Stack::Linux);
        fed.now += Time::from_secs(1);
        assert!(fed.arrives(Time::ZERO), "a silence");
        fed.now += Time::from_millis(10);
        fed.delayed.on_data_sent(fed.now);
        assert!(!fed.arrives(Time::from_secs(1)), "an answer is expected");
        fed.delayed.on_duplicate();
        assert!(fed.arrives(Time::ZERO));
    }

    #[test]
    fn ack_delay_doubles_up_to_the_rtt_and_falls_with_data() {
        let ms = Time::from_millis;
        let mut fed = Fed::new(Stack::Linux);
        assert_eq!([(); 4].map(|()| fed.waits(ms(100))), [ms(40), ms(80), ms(80), ms(80)]);
        for _ in 0..10 {
            fed.arrives(ms(1));
        }
        let after = fed.waits(ms(1));
        assert!(ms(40) <= after && after < ms(41), "{after}");
        let mut fed = Fed::new(Stack::Rfc);
        let first = fed.waits(ms(100));
        assert_eq!(fed.waits(ms(100)), first);
    }

    #[test]
    fn sacks_are_compressed_while_a_gap_stays() {
        let mut fed = Fed::new(Stack::Linux);
        let mut gap = |nxt, rtt| {
            let at_once = fed.delayed.on_gap(fed.now, nxt, Time::from_millis(rtt));
            let waits = fed.delayed.due().saturating_sub(fed.now);
            if at_once {
                fed.delayed.on_ack_sent(true);
            }
            (at_once, waits)
        };
        let at_once: Vec<_> = (0..50).filter(|_| gap(1, 80).0).collect();
        assert_eq!(at_once, [0, 1, 2, 47], "three, and one for 44 that wait");
        let at_once: Vec<_> = (0..4).filter(|_| gap(2, 80).0).collect();
        assert_eq!(at_once, [0, 1, 2], "another gap");
        assert_eq!(gap(2, 80), (false, Time::from_millis(1)));
        fed.now += Time::from_millis(1);
        assert!(fed.delayed.expires(fed.now));
        fed.delayed.on_ack_sent(true);
        let waits = fed.delayed.on_gap(fed.now, 2, Time::from_millis(8));
        assert_eq!((waits, fed.delayed.due() - fed.now), (false, Time::from_micros(400)));
        assert!(Fed::new(Stack::Rfc).delayed.on_gap(fed.now, 1, Time::ZERO));
    }
}
