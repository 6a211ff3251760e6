//! The segments sent and not yet cumulatively acknowledged, each with its state.
//!
//! The counters give the bytes in the network as Linux and RFC 6675 (Errata 1610 and later practice) count them:
//! outstanding, less what is SACKed or lost, plus what was retransmitted.

use super::rate::Stamp;
use crate::units::Time;
use std::collections::VecDeque;

/// A segment sent. Offsets are 64-bit sequence offsets.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// First byte.
    pub start: u64,
    /// Payload bytes; a FIN is a segment of one.
    pub len: u32,
    /// Its state.
    pub flags: u8,
    /// Times it was sent, saturating.
    pub transmissions: u8,
    /// When it last left.
    pub sent_at: Time,
    /// State of delivery-rate sampling when it left.
    pub stamp: Stamp,
}

/// Selectively acknowledged.
pub const SACKED: u8 = 1;
/// Declared lost.
pub const LOST: u8 = 2;
/// Retransmitted since it was last declared lost, with that copy assumed to be in flight.
pub const RETRANS: u8 = 4;
/// Retransmitted at any time.
pub const EVER_RETRANS: u8 = 8;
/// Sent before a time-out: gives no RTT sample in ns-3.
pub const NO_SAMPLE: u8 = 16;
/// Ends what the application wrote, so that it carries PSH whenever it is sent.
pub const PUSHED: u8 = 32;

impl Segment {
    /// The byte after the last.
    #[inline]
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }
    /// Whether any of `flags` is set.
    #[inline]
    pub fn is(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }
}

/// What an acknowledgement newly covers, cumulatively or selectively.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delivered {
    /// Bytes delivered for the first time.
    pub bytes: u64,
    /// Segments of those.
    pub segments: u32,
    /// Among them the one sent last, with its end, for RACK and rate sampling.
    pub newest: Option<Newest>,
    /// When the first never-retransmitted segment left.
    pub first_sent: Option<Time>,
    /// When the last never-retransmitted segment left.
    pub last_sent: Option<Time>,
    /// A retransmitted segment was among them.
    pub retransmitted: bool,
    /// Highest end of a segment never retransmitted among them.
    pub original_end: u64,
    /// Lowest start of a segment never retransmitted among them (for reordering), else `u64::MAX`.
    pub lowest_original: u64,
}

/// The most recently sent of the delivered segments.
#[derive(Clone, Copy, Debug)]
pub struct Newest {
    /// Its end.
    pub end: u64,
    /// When it left.
    pub sent_at: Time,
    /// It was a retransmission.
    pub retransmitted: bool,
    /// Its stamp.
    pub stamp: Stamp,
}

impl Delivered {
    #[inline]
    fn take(&mut self, s: &Segment) {
        self.bytes += u64::from(s.len);
        self.segments += 1;
        let retransmitted = s.is(EVER_RETRANS);
        if self.newest.is_none_or(|n| (s.sent_at, s.end()) > (n.sent_at, n.end)) {
            self.newest = Some(Newest { end: s.end(), sent_at: s.sent_at, retransmitted, stamp: s.stamp });
        }
        if retransmitted {
            self.retransmitted = true;
        } else {
            self.first_sent.get_or_insert(s.sent_at);
            self.last_sent = Some(s.sent_at);
            self.original_end = self.original_end.max(s.end());
            self.lowest_original = self.lowest_original.min(s.start);
        }
    }
}

/// The scoreboard.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    segments: VecDeque<Segment>,
    una: u64,
    nxt: u64,
    sacked: u64,
    lost: u64,
    retrans: u64,
    /// Segments lost and not retransmitted since.
    to_repair: u32,
    /// Start of the highest segment SACKed, 0 = none.
    highest_sacked: u64,
    /// SACKing a retransmitted segment ends its retransmission (ns-3 keeps counting it until it is acknowledged).
    sack_ends_retrans: bool,
    /// SACKs are guesses from duplicate ACKs: what they cover is delivered when it is acknowledged.
    guessing: bool,
}

impl Scoreboard {
    /// Empty, the first byte to send being `una`.
    pub fn new(una: u64, sack_ends_retrans: bool, guessing: bool) -> Self {
        Scoreboard {
            segments: VecDeque::new(),
            una,
            nxt: una,
            sacked: 0,
            lost: 0,
            retrans: 0,
            to_repair: 0,
            highest_sacked: 0,
            sack_ends_retrans,
            guessing,
        }
    }
    /// First unacknowledged byte.
    #[inline]
    pub fn una(&self) -> u64 {
        self.una
    }
    /// The byte after the last one sent.
    #[inline]
    pub fn nxt(&self) -> u64 {
        self.nxt
    }
    /// Bytes sent and not cumulatively acknowledged.
    #[inline]
    pub fn outstanding(&self) -> u64 {
        self.nxt - self.una
    }
    /// Bytes assumed to be in the network.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        (self.nxt - self.una + self.retrans).saturating_sub(self.sacked + self.lost)
    }
    /// Bytes SACKed above `una`.
    pub fn sacked(&self) -> u64 {
        self.sacked
    }
    /// Bytes declared lost and neither SACKed nor acknowledged since.
    pub fn lost(&self) -> u64 {
        self.lost
    }
    /// Whether a lost segment waits for its retransmission.
    #[inline]
    pub fn has_repairs(&self) -> bool {
        self.to_repair > 0
    }
    /// The segments, lowest first.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter()
    }
    /// Number of segments.
    pub fn len(&self) -> usize {
        self.segments.len()
    }
    /// Memory of the outstanding segments.
    pub fn bytes(&self) -> usize {
        self.segments.capacity() * size_of::<Segment>()
    }
    /// Whether nothing is outstanding.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
    /// The segment at `index`.
    #[inline]
    pub fn segment(&self, index: usize) -> &Segment {
        &self.segments[index]
    }
    /// The lowest outstanding segment.
    #[inline]
    pub fn head(&self) -> Option<&Segment> {
        self.segments.front()
    }
    /// Start of the highest SACKed segment, 0 = none.
    pub fn highest_sacked(&self) -> u64 {
        self.highest_sacked
    }

    /// A new segment of `len` bytes leaves at `now`.
    #[inline]
    pub fn send(&mut self, len: u32, now: Time, stamp: Stamp) {
        self.segments.push_back(Segment { start: self.nxt, len, flags: 0, transmissions: 1, sent_at: now, stamp });
        self.nxt += u64::from(len);
    }

    /// The segment that was just sent ends what the application wrote.
    pub fn mark_pushed(&mut self) {
        if let Some(s) = self.segments.back_mut() {
            s.flags |= PUSHED;
        }
    }

    /// Fills the segment at `index` up to `mss` from the next one, if that is in the same state: whole, or as far as it
    /// goes when `cut`.
    pub fn coalesce(&mut self, index: usize, mss: u32, cut: bool) {
        let (s, Some(next)) = (self.segments[index], self.segments.get(index + 1).copied()) else { return };
        let state = |s: &Segment| s.flags & (SACKED | LOST);
        let take = (mss.saturating_sub(s.len)).min(next.len);
        if take == 0 || next.is(SACKED) || state(&s) != state(&next) || (take < next.len && !cut) {
            return;
        }
        if s.is(RETRANS) || next.is(RETRANS) {
            return; // one of the two is on its way
        }
        self.segments[index].len += take;
        if take == next.len {
            self.segments[index].flags |= next.flags & PUSHED;
            self.segments.remove(index + 1);
            self.to_repair -= u32::from(next.is(LOST));
        } else {
            let n = &mut self.segments[index + 1];
            n.start += u64::from(take);
            n.len -= take;
        }
    }

    /// The segment at `index` leaves again.
    pub fn resend(&mut self, index: usize, now: Time, stamp: Stamp) -> Segment {
        let s = &mut self.segments[index];
        if s.is(LOST) && !s.is(RETRANS) {
            self.to_repair -= 1;
        }
        if !s.is(RETRANS) {
            self.retrans += u64::from(s.len);
        }
        s.flags |= RETRANS | EVER_RETRANS;
        s.transmissions = s.transmissions.saturating_add(1);
        s.sent_at = now;
        s.stamp = stamp;
        *s
    }

    /// Everything below `ack` has arrived.
    #[inline]
    pub fn acknowledge(&mut self, ack: u64, d: &mut Delivered) {
        let mut whole = 0;
        let mut left = (0, 0, 0, 0); // SACKED, LOST, RETRANS bytes and repairs that leave the counters
        for s in &self.segments {
            if s.end() > ack {
                break;
            }
            whole += 1;
            if s.flags & (SACKED | LOST | RETRANS) != 0 {
                let len = u64::from(s.len);
                left.0 += if s.is(SACKED) { len } else { 0 };
                left.1 += if s.is(LOST) { len } else { 0 };
                left.2 += if s.is(RETRANS) { len } else { 0 };
                left.3 += u32::from(s.flags & (LOST | RETRANS) == LOST);
            }
            if self.guessing || !s.is(SACKED) {
                d.take(s);
            }
        }
        self.segments.drain(..whole);
        self.sacked -= left.0;
        self.lost -= left.1;
        self.retrans -= left.2;
        self.to_repair -= left.3;
        if let Some(s) = self.segments.front_mut()
            && s.start < ack
        {
            // Part of a segment: cut it. The remainder is still one segment to repair.
            let cut = (ack - s.start) as u32;
            let part = Segment { len: cut, ..*s };
            s.start = ack;
            s.len -= cut;
            let cut = u64::from(cut);
            self.sacked -= if part.is(SACKED) { cut } else { 0 };
            self.lost -= if part.is(LOST) { cut } else { 0 };
            self.retrans -= if part.is(RETRANS) { cut } else { 0 };
            if self.guessing || !part.is(SACKED) {
                d.take(&part);
            }
        }
        self.una = self.una.max(ack);
        self.nxt = self.nxt.max(ack);
        if self.highest_sacked < self.una {
            self.highest_sacked = 0;
        }
    }

    /// The block `[left, right)` has arrived (RFC 2018). Only whole segments count.
    pub fn sack(&mut self, left: u64, right: u64, d: &mut Delivered) {
        let from = self.segments.partition_point(|s| s.start < left);
        for i in from..self.segments.len() {
            let s = &mut self.segments[i];
            if s.end() > right {
                break;
            }
            if s.is(SACKED) {
                continue;
            }
            let len = u64::from(s.len);
            if s.is(LOST) {
                self.lost -= len;
                if !s.is(RETRANS) {
                    self.to_repair -= 1;
                }
                s.flags &= !LOST;
            }
            if self.sack_ends_retrans && s.is(RETRANS) {
                self.retrans -= len;
                s.flags &= !RETRANS;
            }
            s.flags |= SACKED;
            self.sacked += len;
            self.highest_sacked = self.highest_sacked.max(s.start);
            let s = *s;
            d.take(&s);
        }
    }

    /// Declares lost every segment with at least `threshold` SACKed segments above it (RFC 6675 IsLost, counted in
    /// segments). Returns the bytes newly lost.
    pub fn mark_lost_by_count(&mut self, threshold: u32) -> u64 {
        let before = self.lost;
        let mut above = 0;
        let top = self.segments.partition_point(|s| s.start <= self.highest_sacked);
        for i in (0..top).rev() {
            if self.segments[i].is(SACKED) {
                above += 1;
            } else if above >= threshold {
                self.mark_lost(i);
            }
        }
        self.lost - before
    }

    /// Declares segment `index` lost unless it is already or SACKed.
    #[inline]
    pub fn mark_lost(&mut self, index: usize) {
        let s = &mut self.segments[index];
        if !s.is(LOST | SACKED) {
            s.flags |= LOST;
            self.lost += u64::from(s.len);
            if !s.is(RETRANS) {
                self.to_repair += 1;
            }
        }
    }

    /// Declares the retransmission of segment `index` lost too.
    pub fn mark_retransmission_lost(&mut self, index: usize) {
        let s = &mut self.segments[index];
        if s.is(RETRANS) {
            s.flags &= !RETRANS;
            self.retrans -= u64::from(s.len);
            if s.is(LOST) {
                self.to_repair += 1;
            }
        }
        self.mark_lost(index);
    }

    /// Declares the lowest segment lost, its retransmission included, and not SACKed whatever was guessed.
    pub fn mark_head_lost(&mut self) {
        if self.segments.is_empty() {
            return;
        }
        self.clear_sack(0);
        self.mark_retransmission_lost(0);
    }

    fn clear_sack(&mut self, index: usize) {
        let s = &mut self.segments[index];
        if s.is(SACKED) {
            s.flags &= !SACKED;
            self.sacked -= u64::from(s.len);
        }
    }

    /// Declares lost what lies below `end`, left before `before`, and is not SACKed.
    pub fn mark_lost_sent_before(&mut self, end: u64, before: Time) {
        for i in 0..self.segments.partition_point(|s| s.start < end) {
            let s = &self.segments[i];
            if s.sent_at < before && !s.is(SACKED) && s.flags & (LOST | RETRANS) != LOST {
                self.mark_retransmission_lost(i);
            }
        }
    }

    /// Time stood still while the segments were on their way: what is acknowledged of them gives no RTT sample.
    pub fn invalidate_samples(&mut self) {
        for s in &mut self.segments {
            s.flags |= EVER_RETRANS | NO_SAMPLE;
        }
    }

    /// After a time-out everything not SACKed is lost and nothing is retransmitted; without SACK (`forget_sacks`) the
    /// guesses are dropped (RFC 6675 section 5.1).
    pub fn mark_all_lost(&mut self, forget_sacks: bool) {
        // A SACKed head that is not acknowledged was taken back (RFC 2018 section 8).
        let forget_sacks = forget_sacks || self.segments.front().is_some_and(|s| s.is(SACKED));
        if forget_sacks {
            self.highest_sacked = 0;
            self.sacked = 0;
        }
        self.retrans = 0;
        self.lost = 0;
        self.to_repair = 0;
        for s in &mut self.segments {
            if forget_sacks {
                s.flags &= !SACKED;
            }
            s.flags &= !RETRANS;
            s.flags |= NO_SAMPLE;
            if !s.is(SACKED) {
                s.flags |= LOST;
                self.lost += u64::from(s.len);
                self.to_repair += 1;
            }
        }
    }

    /// Without SACK a duplicate ACK shows that one segment above the head arrived: mark the lowest one not yet marked.
    pub fn add_reno_sack(&mut self) {
        for i in 1..self.segments.len() {
            let s = &mut self.segments[i];
            if s.is(SACKED) {
                continue;
            }
            let (start, len, flags) = (s.start, u64::from(s.len), s.flags);
            s.flags |= SACKED;
            s.flags &= !LOST;
            if flags & LOST != 0 {
                self.lost -= len;
                if flags & RETRANS == 0 {
                    self.to_repair -= 1;
                }
            }
            self.sacked += len;
            self.highest_sacked = self.highest_sacked.max(start);
            return;
        }
    }

    /// Without SACK a guess may have landed on what is now the head: move it up, the head being the hole.
    pub fn settle_reno_sack(&mut self) {
        if self.segments.front().is_some_and(|s| s.is(SACKED)) {
            self.clear_sack(0);
            self.add_reno_sack();
            self.mark_head_lost();
        }
    }

    /// Discard all guesses made from duplicate ACKs.
    pub fn reset_reno_sack(&mut self) {
        for s in &mut self.segments {
            s.flags &= !SACKED;
        }
        self.sacked = 0;
        self.highest_sacked = 0;
    }

    /// Nothing is lost after all.
    pub fn forget_losses(&mut self) {
        for s in &mut self.segments {
            s.flags &= !LOST;
        }
        self.lost = 0;
        self.to_repair = 0;
    }

    /// The lowest segment lost and not retransmitted.
    #[inline]
    pub fn next_repair(&self) -> Option<usize> {
        if self.to_repair == 0 {
            return None;
        }
        self.segments.iter().position(|s| s.flags & (LOST | RETRANS | SACKED) == LOST)
    }

    /// The lowest segment neither SACKed nor retransmitted, starting below `limit` (RFC 6675 NextSeg rule 3).
    pub fn next_unsacked(&self, limit: u64) -> Option<usize> {
        self.segments.iter().take_while(|s| s.start < limit).position(|s| !s.is(RETRANS | SACKED))
    }

    /// The highest segment not SACKed (RFC 6675 NextSeg rule 4).
    pub fn last_unsacked(&self) -> Option<usize> {
        self.segments.iter().rposition(|s| !s.is(SACKED))
    }

    /// Whether the lowest of the flagged segments is lost rather than SACKed: the head is missing and known to be.
    pub fn head_is_lost(&self) -> bool {
        self.segments
            .iter()
            .take_while(|s| s.start < self.highest_sacked)
            .find(|s| s.is(LOST | SACKED))
            .is_some_and(|s| s.is(LOST))
    }

    /// Panics unless the counters agree with the segments: for tests.
    pub fn check(&self) {
        let sum = |f: u8| self.segments().filter(|s| s.is(f)).map(|s| u64::from(s.len)).sum::<u64>();
        assert_eq!((self.sacked, self.lost, self.retrans), (sum(SACKED), sum(LOST), sum(RETRANS)));
        let repairs = self.segments().filter(|s| s.flags & (LOST | RETRANS) == LOST).count();
        assert_eq!(self.to_repair as usize, repairs);
        assert_eq!(self.nxt - self.una, self.segments().map(|s| u64::from(s.len)).sum::<u64>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(n: u64) -> Scoreboard {
        let mut b = Scoreboard::new(1, true, false);
        for i in 0..n {
            b.send(100, Time(i), Stamp::default());
        }
        b
    }

    fn check(b: &Scoreboard) {
        b.check();
    }

    #[test]
    fn three_sacked_segments_above_make_a_loss() {
        let mut b = board(6);
        let mut d = Delivered { lowest_original: u64::MAX, ..Delivered::default() };
        b.sack(101, 301, &mut d);
        assert_eq!(b.mark_lost_by_count(3), 0);
        b.sack(301, 401, &mut d);
        assert_eq!(b.mark_lost_by_count(3), 100);
        assert_eq!((d.bytes, d.segments), (300, 3));
        assert_eq!(b.next_repair(), Some(0));
        assert_eq!(b.in_flight(), 200);
        b.resend(0, Time(50), Stamp::default());
        assert_eq!((b.next_repair(), b.in_flight()), (None, 300));
        check(&b);
        let mut d = Delivered::default();
        b.acknowledge(401, &mut d);
        assert_eq!((d.bytes, d.retransmitted, b.in_flight()), (100, true, 200));
        check(&b);
    }

    #[test]
    fn a_partly_acknowledged_segment_is_cut() {
        let mut b = board(2);
        b.mark_all_lost(true);
        check(&b);
        let mut d = Delivered::default();
        b.acknowledge(151, &mut d);
        assert_eq!((d.bytes, b.una(), b.head().unwrap().len), (150, 151, 50));
        check(&b);
    }

    #[test]
    fn reno_guesses_move_off_the_head() {
        let mut b = board(5);
        for _ in 0..3 {
            b.add_reno_sack();
        }
        b.mark_head_lost();
        b.resend(0, Time(9), Stamp::default());
        check(&b);
        assert_eq!(b.in_flight(), 200);
        let mut d = Delivered::default();
        b.acknowledge(101, &mut d);
        b.settle_reno_sack();
        check(&b);
        assert!(b.head().unwrap().is(LOST) && !b.head().unwrap().is(SACKED));
        assert_eq!(b.sacked(), 300);
    }
}
