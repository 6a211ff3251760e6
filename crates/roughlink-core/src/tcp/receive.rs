//! Receiving half: reassembly and the advertised window. RFC 9293 section 3.10.7.4, RFC 2018 and 2883 (SACK, D-SACK),
//! RFC 7323 (timestamps, window scaling). By default the application reads at once, so that only bytes beyond a gap
//! occupy the buffer. With [`TcpReceiver::read_by_hand`] it reports its reads.

mod space;

use super::arrived::OutOfOrderRanges;
use super::config::{EcnEcho, TcpConfig};
use super::delayed::DelayedAck;
use super::paws::PeerTimestamps;
use crate::units::Time;
use space::Space;

/// The receiving half of a connection. Offsets are 64-bit sequence offsets (SYN = 0).
#[derive(Clone, Debug)]
pub(super) struct TcpReceiver {
    /// Next byte expected.
    nxt: u64,
    /// Ranges received beyond `nxt`.
    ranges: OutOfOrderRanges,
    /// A duplicate to report first (RFC 2883).
    dsack: Option<(u64, u64)>,
    /// Offset of the peer's FIN.
    fin: Option<u64>,
    pub(super) peer: PeerTimestamps,
    last_ack_sent: u64,
    /// Right edge advertised.
    edge: u64,
    /// Offset up to which the application has read; `None` if it reads at once.
    read: Option<u64>,
    /// With explicit reads: smallest advance of the right edge that is advertised (RFC 9293 section 3.8.6.2.2).
    least_update: u64,
    /// Our window scale shift, once both sides offered one.
    pub(super) shift: u8,
    pub(super) sack: bool,
    mss: u32,
    ack_now: bool,
    delayed: DelayedAck,
    space: Space,
    send_dsack: bool,
    quick_ack: bool,
    /// Set if outgoing segments carry ECE.
    echo: bool,
    /// With `EcnEcho::Each`: offset and ECE of a delayed acknowledgment that must leave first.
    earlier: Option<Box<(u64, bool)>>,
}

impl TcpReceiver {
    pub(super) fn new(cfg: &TcpConfig) -> Self {
        let space = Space::new(cfg);
        TcpReceiver {
            nxt: 0,
            ranges: OutOfOrderRanges::default(),
            dsack: None,
            fin: None,
            peer: PeerTimestamps::new(cfg.paws),
            last_ack_sent: 0,
            edge: 0,
            read: None,
            least_update: u64::from(cfg.mss).min(space.window / 2).max(1),
            shift: 0,
            ack_now: false,
            delayed: DelayedAck::new(cfg),
            space,
            sack: cfg.sack,
            mss: cfg.mss,
            send_dsack: cfg.dsack,
            quick_ack: cfg.quick_ack,
            echo: false,
            earlier: None,
        }
    }

    pub(super) fn offered_shift(&self) -> u8 {
        self.space.shift()
    }

    /// Switches to explicit reads; call before the handshake.
    pub(super) fn read_by_hand(&mut self) {
        self.read = Some(1);
    }
    /// Frees `bytes` that the application read. A window that opened far enough is advertised at once.
    pub(super) fn on_read(&mut self, bytes: u64) {
        let Some(read) = self.read.as_mut().filter(|_| bytes > 0) else { return };
        *read += bytes;
        debug_assert!(*read <= self.nxt);
        self.ack_now |= *read + self.space.window >= self.edge + self.least_update;
    }
    /// Returns true with explicit reads, as on connections with real bytes.
    pub(super) fn reads_by_hand(&self) -> bool {
        self.read.is_some()
    }
    /// Returns true if the segment `[start, end)` is acceptable (RFC 9293 section 3.10.7.4). Acknowledgments at the
    /// right edge are, because a sender that filled the window sends them there (Linux `tcp_sequence`). So is a segment
    /// at the next byte expected, even into a closed window, but not its data. With immediate reads, all segments are:
    /// [`TcpReceiver::on_segment`] recognizes duplicates and data beyond the window.
    #[inline]
    pub(super) fn accepts(&self, start: u64, end: u64) -> bool {
        let overlaps = || match end > start {
            true => end > self.nxt && start < self.edge,
            false => start > self.nxt && start <= self.edge,
        };
        self.read.is_none() || start == self.nxt || overlaps()
    }
    pub(super) fn unread(&self) -> u64 {
        self.read.map_or(0, |read| 1 + self.delivered() - read)
    }
    /// Returns the right edge advertised, or the end of the peer's stream if that is nearer: no bytes are accepted from
    /// there on. With immediate reads, a segment that begins within the window is not cut at the edge.
    pub(super) fn edge(&self) -> u64 {
        let edge = if self.read.is_some() { self.edge } else { u64::MAX };
        self.fin.map_or(edge, |last| last.min(edge))
    }

    /// Handles the peer's SYN, which occupies offset 0.
    pub(super) fn on_syn(&mut self, now: Time, tsval: u32) {
        self.nxt = 1;
        self.peer.record(now, tsval);
        self.last_ack_sent = 1;
        self.delayed.on_syn();
    }

    #[inline]
    pub(super) fn nxt(&self) -> u64 {
        self.nxt
    }
    /// Returns the payload bytes delivered in order to the application.
    pub(super) fn delivered(&self) -> u64 {
        self.nxt.saturating_sub(1 + u64::from(self.finished()))
    }
    /// Returns true if the peer's FIN and all data before it have arrived.
    #[inline]
    pub(super) fn finished(&self) -> bool {
        self.fin.is_some_and(|f| self.nxt > f)
    }
    #[inline]
    pub(super) fn next_wake(&self) -> Time {
        self.delayed.due()
    }
    #[inline]
    pub(super) fn is_ack_due(&self) -> bool {
        self.ack_now
    }
    /// Returns true if offset `start` lies beyond the window.
    #[inline]
    pub(super) fn is_beyond(&self, start: u64) -> bool {
        match self.read {
            None => start >= self.edge.max(self.nxt + self.space.window.max(1)),
            Some(_) => start >= self.edge.max(self.nxt + 1),
        }
    }
    #[inline]
    pub(super) fn acknowledge_now(&mut self) {
        self.ack_now = true;
    }
    /// Makes the delayed ACK due if its time has come.
    #[inline]
    pub(super) fn wake(&mut self, now: Time) {
        self.ack_now |= self.delayed.expires(now);
    }

    /// Handles a segment with `len` bytes at `start`, with a FIN after them if `fin` is set.
    #[inline(always)]
    pub(super) fn on_segment(&mut self, now: Time, start: u64, len: u64, fin: bool, tsval: Option<u32>) {
        // Duplicates do not update TS.Recent (RFC 7323 section 5.3, rules R2 and R3; ns-3 `ProcessOptionTimestamp`).
        let end = start + len + u64::from(fin);
        let counts = start == self.nxt || end > self.nxt || self.peer.counts_duplicate(end, self.last_ack_sent);
        if let Some(ts) = tsval
            && start <= self.last_ack_sent
            && counts
        {
            self.peer.advance(now, ts);
        }
        if start == self.nxt && len > 0 && !fin && self.expects_data() {
            self.nxt += len;
            self.on_in_order(now, len, false);
        } else if len > 0 || fin {
            self.on_other(now, start, len, fin);
        }
    }

    /// Returns true if the next data in order would be taken by [`TcpReceiver::on_next_data`].
    #[inline(always)]
    pub(super) fn expects_data(&self) -> bool {
        self.ranges.is_empty() && self.fin.is_none() && self.read.is_none()
    }

    /// Handles the next `len` bytes: [`TcpReceiver::on_arrival`] and [`TcpReceiver::on_segment`] at once.
    #[inline(always)]
    pub(super) fn on_next_data(&mut self, now: Time, len: u64, tsval: Option<u32>, (rto, srtt): (Time, Time)) {
        self.delayed.on_arrival(now, rto, srtt);
        self.on_timestamp(now, tsval);
        self.nxt += len;
        self.on_in_order(now, len, false);
    }

    /// Handles the timestamp of a segment that begins at the next byte expected.
    #[inline(always)]
    pub(super) fn on_timestamp(&mut self, now: Time, tsval: Option<u32>) {
        if let Some(ts) = tsval
            && self.nxt <= self.last_ack_sent
        {
            self.peer.advance(now, ts);
        }
    }

    /// Passes RTO and smoothed RTT to the delayed-ACK timer. Call it before [`TcpReceiver::on_segment`].
    #[inline(always)]
    pub(super) fn on_arrival(&mut self, now: Time, (start, end): (u64, u64), (rto, srtt): (Time, Time)) {
        if start <= self.nxt && end > self.nxt {
            self.delayed.on_arrival(now, rto, srtt);
        }
    }

    /// Slow path of [`TcpReceiver::on_segment`]: any segment other than the next one.
    #[inline(never)]
    fn on_other(&mut self, now: Time, start: u64, len: u64, fin: bool) {
        let (mut len, mut fin) = (len, fin);
        if self.read.is_some() && start + len > self.edge && len > 0 {
            // Trim to the window offered (RFC 9293 section 3.10.7.4); the rest is answered as not acceptable.
            (len, fin) = (self.edge.saturating_sub(start), false);
            self.ack_now = true;
        }
        let end = start + len + u64::from(fin);
        if end == start {
            return;
        }
        if let Some(last) = self.fin {
            // Ignore data after a FIN.
            if start + len > last {
                (len, self.ack_now) = (last.saturating_sub(start), true);
            }
            fin &= start + len == last;
        } else if fin && end > self.nxt && !self.is_beyond(start) {
            let last = start + len;
            self.fin = Some(last);
            self.ranges.cut(last);
        }
        let end = start + len + u64::from(fin);
        if end == start {
            return;
        }
        if start == self.nxt && self.ranges.is_empty() {
            self.nxt = end;
            self.on_in_order(now, len, fin);
            return;
        }
        if end <= self.nxt || self.is_beyond(start) {
            // Duplicate or beyond the window: report the current state (RFC 9293: an unacceptable segment is answered).
            if end <= self.nxt && self.send_dsack {
                self.dsack = Some((start, end));
            }
            self.delayed.on_duplicate();
            self.ack_now = true;
            return;
        }
        if start <= self.nxt {
            if start < self.nxt && self.send_dsack {
                self.dsack = Some((start, self.nxt));
            }
            self.nxt = self.ranges.take_from(end);
            self.space.fit(self.ranges.held());
            self.tune(now, len);
        } else if self.read.is_some() && self.ranges.len() >= MAX_RANGES {
            self.ack_now = true; // the peer must fill gaps first
        } else {
            let seen = self.ranges.insert(start, end);
            if seen && self.send_dsack {
                self.dsack = Some((start, end));
            }
            // Without SACK, a duplicate ACK must repeat the previous window.
            if self.sack && !seen && self.space.on_segment(len, self.ranges.held()) {
                self.delayed.on_window_growth();
            }
            self.space.on_gap(self.ranges.held(), self.span());
        }
        // There is a gap, or this segment closed the last one (RFC 5681 section 4.2).
        self.ack_now |= !self.sack
            || self.ranges.is_empty()
            || self.nxt > self.last_ack_sent + u64::from(self.mss)
            || self.delayed.on_gap(now, self.nxt, self.space.rtt());
    }

    /// Answers a segment dropped for its timestamp; reports delivered data as a duplicate (Linux `tcp_send_dupack`).
    pub(super) fn report_rejected(&mut self, start: u64, end: u64) {
        if start < self.nxt {
            if self.send_dsack {
                self.dsack = Some((start, end.min(self.nxt)));
            }
            self.delayed.on_duplicate();
        }
        self.ack_now = true;
    }

    /// Fast path: the next segment, without a gap.
    #[inline(always)]
    fn on_in_order(&mut self, now: Time, len: u64, fin: bool) {
        if self.space.is_tuned() {
            self.tune(now, len);
        }
        self.ack_now |= self.delayed.on_in_order(now) || fin;
    }

    #[inline(never)]
    fn tune(&mut self, now: Time, len: u64) {
        if self.space.on_segment(len, self.ranges.held()) {
            self.delayed.on_window_growth();
        }
        self.space.on_read(now, self.nxt, self.span());
    }
    /// Returns the bytes from the next one expected to the last received, 0 without a gap.
    #[inline]
    fn span(&self) -> u64 {
        self.ranges.end().map_or(0, |end| end - self.nxt)
    }

    pub(super) fn echoes(&self) -> bool {
        self.echo
    }
    /// Handles a segment with CE. Linux then delays no acknowledgments for a while: the sender's window may be small.
    pub(super) fn on_marked(&mut self) {
        if !std::mem::replace(&mut self.echo, true) {
            self.delayed.on_marked();
        }
    }
    /// Handles data whose marks are echoed exactly (RFC 8257 section 3.2). Returns true if a delayed acknowledgment of
    /// earlier data must leave first.
    pub(super) fn on_mark(&mut self, marked: bool) -> bool {
        if marked == self.echo {
            return false;
        }
        let waits = self.delayed.due() != Time::MAX && self.ranges.is_empty();
        if waits {
            self.earlier = Some(Box::new((self.nxt, self.echo)));
        }
        (self.echo, self.ack_now) = (marked, true);
        waits
    }
    pub(super) fn take_earlier(&mut self) -> Option<(u64, bool)> {
        self.earlier.take().map(|earlier| *earlier)
    }
    /// Handles data with CWR: the peer has reduced its window. Linux acknowledges it at once.
    pub(super) fn on_cwr(&mut self, echo: EcnEcho) {
        self.echo &= echo == EcnEcho::Each; // with `Each`, CWR changes nothing: ECE follows the marks
        self.ack_now |= self.quick_ack;
    }

    #[inline]
    pub(super) fn on_data_sent(&mut self, now: Time) {
        self.delayed.on_data_sent(now);
    }

    #[inline]
    pub(super) fn on_ack_sent(&mut self) {
        self.delayed.on_ack_sent(std::mem::take(&mut self.ack_now));
        self.last_ack_sent = self.nxt;
        self.dsack = None;
    }

    #[inline]
    pub(super) fn has_sacks(&self) -> bool {
        !self.ranges.is_empty() || self.dsack.is_some()
    }

    /// Iterates over the SACK blocks to send: the duplicate, then the most recent ranges.
    pub(super) fn sacks(&self) -> impl Iterator<Item = (u64, u64)> {
        self.dsack.into_iter().chain(self.ranges.most_recent())
    }

    /// Returns the window field of a segment that leaves now. The right edge never moves back (RFC 9293 section 3.8.6).
    #[inline]
    pub(super) fn window_field(&mut self) -> u16 {
        let edge = self.read.unwrap_or(self.nxt) + self.space.window;
        if self.read.is_none() || edge >= self.edge + self.least_update {
            self.edge = self.edge.max(edge);
        }
        // A window edge may fall between two multiples of the scale: round down.
        (self.edge.saturating_sub(self.nxt) >> self.shift).min(65_535) as u16
    }

    /// Returns the window field of a SYN, never scaled (RFC 7323 section 2.2).
    pub(super) fn syn_window_field(&mut self) -> u16 {
        let window = self.space.window.min(65_535);
        self.edge = self.edge.max(self.nxt + window);
        window as u16
    }

    /// Adds an RTT sample of the receiver, from the handshake or the timestamp echoed by a data segment.
    #[inline]
    pub(super) fn measure_rtt(&mut self, rtt: Time) {
        self.space.measure_rtt(rtt);
    }
    /// Returns true if `echo` gives an RTT sample: Linux takes one per timestamp (`tcp_rcv_rtt_measure_ts`).
    #[inline]
    pub(super) fn can_sample_rtt(&mut self, echo: u32) -> bool {
        self.space.is_new_echo(echo)
    }
}

/// Most ranges beyond a gap on a connection with real bytes: tiny segments must not take memory without bound.
const MAX_RANGES: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::super::config::Stack;
    use super::*;

    fn receiver(stack: Stack) -> TcpReceiver {
        let mut r = TcpReceiver::new(&TcpConfig::preset(stack));
        r.on_syn(Time(0), 0);
        r
    }
    fn blocks(r: &TcpReceiver) -> Vec<(u64, u64)> {
        r.sacks().take(3).collect()
    }

    #[test]
    fn first_and_every_second_segment_are_acknowledged_at_once() {
        let mut r = receiver(Stack::Rfc);
        r.on_segment(Time(0), 1, 100, false, None);
        assert!(r.is_ack_due(), "the first segment is answered at once");
        r.on_ack_sent();
        r.on_segment(Time(0), 101, 100, false, None);
        assert!(!r.is_ack_due());
        assert_eq!(r.next_wake(), Time::from_millis(200));
        r.on_segment(Time(0), 201, 100, false, None);
        assert!(r.is_ack_due());
        r.on_ack_sent();
        assert_eq!((r.next_wake(), r.delivered()), (Time::MAX, 300));
    }

    #[test]
    fn sack_blocks_are_most_recent_first() {
        // RFC 2018 section 4, case 2: every other segment lost.
        let mut r = receiver(Stack::Rfc);
        for k in [1u64, 3, 5, 7] {
            r.on_segment(Time(0), 1 + k * 500, 500, false, None);
        }
        assert_eq!(blocks(&r), [(3501, 4001), (2501, 3001), (1501, 2001)]);
        r.on_segment(Time(0), 1, 500, false, None);
        assert_eq!(r.nxt(), 1001);
        assert_eq!(blocks(&r), [(3501, 4001), (2501, 3001), (1501, 2001)]);
        r.on_segment(Time(0), 2001, 500, false, None);
        assert_eq!(blocks(&r), [(1501, 3001), (3501, 4001)]);
    }

    #[test]
    fn duplicates_are_reported_with_dsack() {
        let mut r = receiver(Stack::Linux);
        r.on_segment(Time(0), 1, 500, false, None);
        r.on_ack_sent();
        r.on_segment(Time(0), 1, 500, false, None);
        assert!(r.is_ack_due());
        assert_eq!(blocks(&r), [(1, 501)]);
        r.on_ack_sent();
        assert!(blocks(&r).is_empty());
    }

    #[test]
    fn fin_counts_once_all_earlier_data_arrived() {
        let mut r = receiver(Stack::Rfc);
        r.on_segment(Time(0), 501, 500, true, None);
        assert!(!r.finished());
        r.on_segment(Time(0), 1, 500, false, None);
        assert!(r.finished());
        assert_eq!((r.nxt(), r.delivered()), (1002, 1000));
    }

    /// Linux calls `tcp_grow_window` and `tcp_rcvbuf_grow` for segments beyond a gap too.
    #[test]
    fn the_window_opens_under_reordering() {
        for (stack, opens) in [(Stack::Linux, true), (Stack::Rfc, false)] {
            let mut r = receiver(stack);
            r.shift = r.offered_shift();
            r.measure_rtt(Time::from_millis(50));
            let window = |r: &mut TcpReceiver| u64::from(r.window_field()) << r.shift;
            let first = window(&mut r);
            let mut now = Time(0);
            for k in 0..2_000u64 {
                // 1, 0, 3, 2, ...
                now += Time::from_millis(1);
                r.on_segment(now, 1 + (k ^ 1) * 1448, 1448, false, None);
                window(&mut r);
                r.on_ack_sent();
            }
            assert_eq!(window(&mut r) > first, opens, "{stack:?}");
        }
    }

    #[test]
    fn fin_beyond_the_window_is_ignored() {
        let mut r = receiver(Stack::Rfc);
        r.on_segment(Time(0), 1 + 131_072, 500, true, None);
        assert!(r.is_ack_due());
        r.on_segment(Time(0), 1, 500, true, None);
        assert!(r.finished());
        assert_eq!((r.nxt(), r.delivered()), (502, 500));
    }

    #[test]
    fn duplicate_restarts_quick_acks() {
        for (stack, quick) in [(Stack::Linux, true), (Stack::Rfc, false)] {
            let mut r = receiver(stack);
            let mut next = 1;
            let mut arrive = |r: &mut TcpReceiver| {
                r.on_arrival(Time(0), (next, next + 100), (Time::from_secs(1), Time::ZERO));
                r.on_segment(Time(0), next, 100, false, None);
                next += 100;
                let answered = r.is_ack_due();
                if answered {
                    r.on_ack_sent();
                }
                answered
            };
            let answered = (0..100).map(|_| arrive(&mut r)).filter(|a| *a).count();
            assert!(answered < 60, "every other one, beyond the first 16: {answered}");
            r.on_segment(Time(0), 1, 100, false, None);
            r.on_ack_sent();
            let answered = (0..16).filter(|_| arrive(&mut r)).count();
            assert_eq!(answered, if quick { 15 } else { 8 }, "the answer to the duplicate is one of them");
        }
    }

    #[test]
    fn the_window_edge_never_moves_back() {
        let mut r = receiver(Stack::Rfc);
        r.shift = r.offered_shift();
        assert_eq!(r.shift, 2); // 131072 needs two halvings to be at most 65535
        assert_eq!(u64::from(r.window_field()) << 2, 131_072);
    }
}
