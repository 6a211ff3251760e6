//! Bursts: segments that leave together. Linux sends socket buffers of several segments, even over a device that does
//! not segment them. A burst has as many segments as the pacing rate sends in a millisecond, at least two, and more if
//! the round trip is short (`tcp_tso_autosize`). If the window has no room for a whole burst and the next
//! acknowledgment is near, Linux waits for it (`tcp_tso_should_defer`). Pacing pauses after bursts, not segments.

use super::{MAX_SKB, TcpSender};
use crate::cc::CongestionState;
use crate::units::{Rate, Time};

#[derive(Debug, Default)]
pub(super) struct Burst {
    /// Departure time, and offset of the next segment.
    at: Time,
    next: u64,
    /// Number of segments that may still join the burst.
    left: u64,
    /// Previous departure of the segments, if they are retransmissions.
    before: Option<Time>,
    /// Set if the congestion window has room, but not for a whole burst.
    pub(super) deferred: bool,
    /// Set if pacing let no segment leave.
    pub(super) paced_out: bool,
}

impl TcpSender {
    /// Returns true if the segment at `start` may leave now, as part of the current burst or as the first of a new one.
    /// `before` is the previous send time of a lost segment, the same for all of a burst; `None` for new data.
    #[inline(always)]
    pub(super) fn may_leave(&mut self, now: Time, start: u64, before: Option<Time>, rate: Option<Rate>) -> bool {
        if !self.cfg.tso_autosizing {
            self.begin_burst(now, 1);
            return true; // `poll` has checked pacing
        }
        let b = &mut self.burst;
        if b.left > 0 && (b.at, b.next, b.before) == (now, start, before) {
            b.left -= 1;
            b.next += u64::from(self.core.flow.mss);
            return true;
        }
        b.left = 0;
        if self.core.is_paced_out(now, rate) {
            b.paced_out = true;
            return false;
        }
        let mss = u64::from(self.core.flow.mss);
        let most = self.most_at_once(rate);
        let room = (self.permitted.saturating_sub(self.core.flow.in_flight) / mss).max(1);
        let quota = match before {
            // A burst takes at most half of the window (`tcp_cwnd_test`).
            None => room.min((self.permitted / mss / 2).max(1)).min(most),
            Some(_) => room.min(most),
        };
        if before.is_none() && self.core.cc.is_ack_clocked() && self.waits_for_room(now, most) {
            return false;
        }
        self.begin_burst(now, quota);
        self.burst = Burst { at: now, next: start + mss, left: quota - 1, before, ..Burst::default() };
        true
    }

    /// Prepares pacing for a burst of `segments`. Linux does not pace the first ten segments of a connection.
    pub(super) fn begin_burst(&mut self, now: Time, segments: u64) {
        if self.cfg.internal_pacing {
            self.paced = self.core.stats.segments + segments >= UNPACED;
            self.core.pacing_credit = now.saturating_sub(self.core.pacing_next);
        }
        if self.cfg.internal_pacing || self.cfg.tso_autosizing {
            self.core.pacing_next = self.core.pacing_next.max(now);
        }
    }

    /// Returns the size of a full burst, in segments.
    fn most_at_once(&self, rate: Option<Rate>) -> u64 {
        let rate = rate.unwrap_or_else(|| self.window_rate(self.permitted));
        let mut bytes = rate.bytes_per_sec() >> PACING_SHIFT;
        let halvings = self.core.flow.min_rtt.as_micros() >> RTT_SHIFT;
        if halvings < 32 {
            bytes += GSO_MAX >> halvings;
        }
        (bytes.min(GSO_MAX) / u64::from(self.core.flow.mss)).max(u64::from(self.core.cc.least_burst()))
    }

    /// Returns the pacing rate for an algorithm that sets none (`tcp_update_pacing_rate`). The rate per round trip is
    /// 1.2 times (in slow start 2 times) the larger of `window` and the outstanding data.
    pub(super) fn window_rate(&self, window: u64) -> Rate {
        let v = self.core.cc.trace();
        let percent = if v.cwnd < v.ssthresh / 2 { 200 } else { 120 };
        let window = window.max(self.board.outstanding());
        let srtt = self.core.flow.srtt.as_micros().max(1);
        if window < 1 << 32 {
            return Rate(window * percent * 80_000 / srtt);
        }
        let bits = u128::from(window) * u128::from(percent) * 80_000;
        Rate((bits / u128::from(srtt)).min(u128::from(u64::MAX)) as u64)
    }

    /// Returns true if new data waits because the window has no room for a burst of `most` segments.
    fn waits_for_room(&mut self, now: Time, most: u64) -> bool {
        let flow = &self.core.flow;
        let mss = u64::from(flow.mss);
        let unsent = self.written - self.board.nxt();
        if unsent <= mss {
            return false; // Nagle decides
        }
        let repairs = matches!(flow.state, CongestionState::Recovery | CongestionState::Loss);
        if repairs || now > self.core.pacing_next + MAX_WAIT {
            return false;
        }
        let by_window = self.permitted.saturating_sub(flow.in_flight);
        let by_peer = flow.send_window.saturating_sub(self.board.outstanding());
        let room = by_window.min(by_peer);
        if room >= most * mss || room >= flow.send_window.min(self.permitted) / WINDOW_DIVISOR {
            return false;
        }
        let Some(head) = self.board.head() else { return false };
        // A distant acknowledgment does not clock the next burst.
        let expected = head.sent_at + flow.srtt;
        if expected > now + (flow.srtt / 2).min(MAX_WAIT) {
            return false;
        }
        if room > unsent && self.fin.is_some() {
            return false;
        }
        self.burst.deferred = by_window < by_peer && by_window <= unsent;
        true
    }
}

/// Linux `sk_pacing_shift`: a burst lasts 2^-10 s.
const PACING_SHIFT: u32 = 10;
/// Linux `tcp_tso_rtt_log`: the allowance for short paths halves with each 2^9 us of round trip.
const RTT_SHIFT: u32 = 9;
/// Largest burst, bytes: `sk_gso_max_size`, which leaves room for headers.
const GSO_MAX: u64 = MAX_SKB - 1 - 320;
/// Linux `tcp_tso_win_divisor`.
const WINDOW_DIVISOR: u64 = 3;
/// Linux waits only for an acknowledgment expected within this time, and only if the last departure is at most this
/// long ago.
const MAX_WAIT: Time = Time::from_millis(1);
/// Segments that leave before pacing begins (`tcp_update_skb_after_send`).
const UNPACED: u64 = 10;

#[cfg(test)]
mod tests {
    use super::super::super::dialogue::{Pair, pair_of};
    use super::super::super::{Stack, TcpConfig};
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;

    /// Sends for a second over a path of 40 ms.
    fn transfer(cfg: &TcpConfig, cc: &str) -> Pair {
        let mut p = pair_of(cfg, cc, MS(20));
        p.ends[0].connect();
        p.run(Time::ZERO, MS(100));
        p.ends[0].offer(u64::MAX, false);
        p.run(MS(100), MS(1_000));
        p
    }

    /// Returns the departure times, each with the number of segments that left.
    fn bursts(p: &Pair) -> Vec<(Time, usize)> {
        let mut bursts: Vec<(Time, usize)> = Vec::new();
        for (at, ..) in p.data() {
            match bursts.last_mut() {
                Some(last) if last.0 == at => last.1 += 1,
                _ => bursts.push((at, 1)),
            }
        }
        bursts
    }

    /// `tcp_update_skb_after_send`: the first ten segments leave at once, then BBR pauses after every burst. Without
    /// `tso_autosizing`, it pauses after every segment.
    #[test]
    fn paced_segments_leave_in_bursts() {
        let linux = bursts(&transfer(&TcpConfig::preset(Stack::Linux), "bbr"));
        assert_eq!(linux[0].1, 10);
        let second = &linux[1..6];
        assert!(second.iter().all(|b| b.1 == 2), "{second:?}");
        let rfc = bursts(&transfer(&TcpConfig::preset(Stack::Rfc), "bbr"));
        assert!(rfc[1..20].iter().all(|b| b.1 == 1), "{rfc:?}");
    }

    /// `tcp_tso_autosize`: bursts of the segments that the rate sends in 2^-10 s, at least two, more if RTT < 16 ms.
    #[test]
    fn burst_size_follows_rate_and_round_trip() {
        let mut p = transfer(&TcpConfig::preset(Stack::Linux), "bbr");
        let snd = p.ends[0].sender_mut().unwrap();
        for (mbps, segments) in [(2, 2), (20, 2), (36, 3), (100, 8), (10_000, 45)] {
            assert_eq!(snd.most_at_once(Some(Rate::from_mbps(mbps))), segments, "{mbps}");
        }
        snd.core.flow.min_rtt = MS(1);
        assert_eq!(snd.most_at_once(Some(Rate::from_mbps(2))), 22, "half of 65,215 bytes, and a sixth of a segment");
    }

    /// `tcp_update_skb_after_send`: a late burst shortens the pause after it by at most half.
    #[test]
    fn late_burst_shortens_the_pause() {
        let mut p = transfer(&TcpConfig::preset(Stack::Linux), "bbr");
        let snd = p.ends[0].sender_mut().unwrap();
        let (now, rate) = (MS(5_000), Rate::from_mbps(8)); // 1 B per us
        for (late, pause) in [(0, 2896), (100, 2796), (2_000, 1448)] {
            snd.core.pacing_next = now - Time::from_micros(late);
            snd.begin_burst(now, 2);
            for _ in 0..2 {
                let sent = crate::cc::Sent { seq: 1, len: 1448, retransmission: false, tx_start: false };
                snd.core.on_departed(now, sent, 0, Some(rate));
            }
            assert_eq!(snd.core.pacing_next - now, Time::from_micros(pause), "{late} us late");
        }
    }

    /// `tcp_tso_should_defer`: if the window has room for one segment only, the sender waits for an acknowledgment that
    /// is near. The window then counts as used.
    #[test]
    fn window_without_room_for_a_burst_waits() {
        let mut p = transfer(&TcpConfig::preset(Stack::Linux), "newreno");
        let snd = p.ends[0].sender_mut().unwrap();
        let (mss, srtt) = (1448, snd.core.flow.srtt);
        let head = snd.board.head().unwrap().sent_at;
        snd.core.flow.send_window = 1 << 40;
        snd.write(100_000);
        snd.permitted = snd.board.in_flight() + mss;
        snd.core.flow.in_flight = snd.board.in_flight();
        for (age, waits) in [(srtt, true), (srtt - Time::from_micros(900), true), (srtt - MS(2), false)] {
            let now = head + age;
            snd.core.pacing_next = now;
            assert_eq!(snd.waits_for_room(now, 2), waits, "{age:?}");
        }
        let now = head + srtt;
        assert!(snd.burst.deferred);
        snd.core.pacing_next = now - MS(2);
        assert!(!snd.waits_for_room(now, 2), "the last departure is long ago");
        snd.core.pacing_next = now;
        snd.permitted += mss;
        assert!(!snd.waits_for_room(now, 2), "there is room for a burst");
    }
}
