//! Segments sent and not yet cumulatively acknowledged, each with its state. The counters give the bytes in the network
//! as Linux and RFC 6675 (Errata 1610 and later practice) count them: outstanding, minus SACKed or lost, plus
//! retransmitted ones.
//!
//! A path of 10 Gbit/s has 10,000 segments outstanding. For each acknowledgment, recovery must find the lost segments
//! and the next one to repair. `index` makes both fast; every change of a segment's state goes through
//! `Scoreboard::update`, which maintains the counters and the index.

mod index;
mod segment;
#[cfg(test)]
mod tests;

use crate::ring::Ring;
use crate::sender::{Losses, RateStamp};
use crate::units::Time;
use index::Index;
pub(super) use segment::{EVER_RETRANS, LOST, NO_SAMPLE, NewlyDelivered, PUSHED, RETRANS, SACKED, SentSegment};

#[derive(Clone, Debug)]
pub(super) struct Scoreboard {
    segments: Ring<SentSegment>,
    una: u64,
    nxt: u64,
    sacked: u64,
    lost: u64,
    retrans: u64,
    index: Index,
    /// Start of the highest segment SACKed, 0 = none.
    highest_sacked: u64,
    /// Offset from which data was not sent again since a time-out, in go-back-N; `u64::MAX` = none.
    unsent: u64,
    /// Number of the segment, counted from the first ever sent, after the one that [`Scoreboard::arriving_at`] found.
    arriving: usize,
    /// Set if a SACKed retransmission no longer counts as in flight; in ns-3, it counts until `una` passes it.
    sack_ends_retrans: bool,
    /// Set if SACKs are guesses from duplicate ACKs: such segments count as delivered only when acknowledged.
    guessing: bool,
    pub(super) losses: Losses,
    /// Rate sampling takes the segment that ns-3 samples ([`RateStamp::replaces`]) instead of the one sent last.
    pub(super) by_stamp: bool,
}

impl Scoreboard {
    pub(super) fn new(una: u64, sack_ends_retrans: bool, guessing: bool) -> Self {
        Scoreboard {
            segments: Ring::default(),
            una,
            nxt: una,
            sacked: 0,
            lost: 0,
            retrans: 0,
            index: Index::default(),
            highest_sacked: 0,
            unsent: u64::MAX,
            arriving: 0,
            sack_ends_retrans,
            guessing,
            losses: Losses::default(),
            by_stamp: false,
        }
    }
    /// Returns the offset of the first unacknowledged byte.
    #[inline]
    pub(super) fn una(&self) -> u64 {
        self.una
    }
    /// Returns the offset after the last byte sent.
    #[inline]
    pub(super) fn nxt(&self) -> u64 {
        self.nxt
    }
    /// Returns the bytes sent and not cumulatively acknowledged.
    #[inline]
    pub(super) fn outstanding(&self) -> u64 {
        self.nxt - self.una
    }
    /// Returns the bytes assumed to be in the network.
    #[inline(always)]
    pub(super) fn in_flight(&self) -> u64 {
        (self.nxt - self.una + self.retrans).saturating_sub(self.sacked + self.lost)
    }
    /// Returns the bytes SACKed above `una`.
    pub(super) fn sacked(&self) -> u64 {
        self.sacked
    }
    /// Returns the bytes declared lost and not SACKed or acknowledged since.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
    /// Returns the bytes of retransmissions in flight.
    pub(super) fn retrans(&self) -> u64 {
        self.retrans
    }
    /// Returns true if a lost segment waits for its retransmission.
    #[inline]
    pub(super) fn has_repairs(&self) -> bool {
        !self.index.repairs.is_empty()
    }
    pub(super) fn segments(&self) -> impl Iterator<Item = &SentSegment> {
        self.segments.iter()
    }
    pub(super) fn len(&self) -> usize {
        self.segments.len()
    }
    /// Returns the memory of the outstanding segments, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.segments.capacity() * size_of::<SentSegment>()
    }
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
    #[inline]
    pub(super) fn segment(&self, index: usize) -> &SentSegment {
        &self.segments[index]
    }
    #[inline]
    pub(super) fn head(&self) -> Option<&SentSegment> {
        self.segments.front()
    }
    /// Returns the start of the highest SACKed segment, 0 = none.
    pub(super) fn highest_sacked(&self) -> u64 {
        self.highest_sacked
    }

    /// Records that a new segment of `len` bytes leaves at `now`.
    #[inline(always)]
    pub(super) fn send(&mut self, len: u32, now: Time, stamp: RateStamp) {
        self.segments.push_back(SentSegment { start: self.nxt, len, flags: 0, transmissions: 1, sent_at: now, stamp });
        self.nxt += u64::from(len);
    }

    /// Marks the segment just sent as the end of a write.
    pub(super) fn mark_pushed(&mut self) {
        if let Some(s) = self.segments.back_mut() {
            s.flags |= PUSHED;
        }
    }

    /// Fills the segment at `index` up to `mss` from the next one in the same state, whole or, with `cut`, in part.
    pub(super) fn coalesce(&mut self, index: usize, mss: u32, cut: bool) {
        let (s, Some(next)) = (self.segments[index], self.segments.get(index + 1).copied()) else { return };
        let state = |s: &SentSegment| s.flags & (SACKED | LOST);
        let take = (mss.saturating_sub(s.len)).min(next.len);
        if take == 0 || next.is(SACKED) || state(&s) != state(&next) || (take < next.len && !cut) {
            return;
        }
        if s.is(RETRANS) || next.is(RETRANS) {
            return; // one of the two is on its way
        }
        let filled = &mut self.segments[index];
        filled.len += take;
        self.index.rank(&s, Some(filled));
        if take == next.len {
            filled.flags |= next.flags & PUSHED;
            self.segments.remove(index + 1);
            self.index.rank(&next, None);
        } else {
            let n = &mut self.segments[index + 1];
            n.start += u64::from(take);
            n.len -= take;
        }
    }

    pub(super) fn resend(&mut self, index: usize, now: Time, stamp: RateStamp) -> SentSegment {
        let unsent = self.unsent;
        let s = self.update(index, |s| {
            // Data that go-back-N sends again counts as sent for the first time.
            s.flags = if s.start >= unsent { s.flags & !LOST } else { s.flags | RETRANS } | EVER_RETRANS;
            s.transmissions = s.transmissions.saturating_add(1);
            s.sent_at = now;
            s.stamp = stamp;
        });
        if s.start >= unsent {
            self.unsent = if s.end() < self.nxt { s.end() } else { u64::MAX };
        }
        s
    }

    /// Changes the state of the segment at `index`; updates counters and index. Returns the changed segment.
    #[inline]
    fn update(&mut self, index: usize, change: impl FnOnce(&mut SentSegment)) -> SentSegment {
        let s = &mut self.segments[index];
        let before = *s;
        change(s);
        let after = *s;
        let bytes = |s: &SentSegment, flag: u8| if s.is(flag) { u64::from(s.len) } else { 0 };
        self.sacked = self.sacked + bytes(&after, SACKED) - bytes(&before, SACKED);
        self.lost = self.lost + bytes(&after, LOST) - bytes(&before, LOST);
        self.retrans = self.retrans + bytes(&after, RETRANS) - bytes(&before, RETRANS);
        self.index.account(&before, &after);
        if after.needs_repair() && !before.needs_repair() {
            self.losses.add(after.start, after.len, &after.stamp);
        }
        after
    }

    /// Returns the index of the first segment that begins at `offset` or above.
    #[inline]
    fn index_of(&self, offset: u64) -> usize {
        let Some(head) = self.segments.front().filter(|head| head.start < offset) else { return 0 };
        if offset >= self.nxt {
            return self.segments.len();
        }
        // Nearly all segments are as long as the first.
        let guess = ((offset - head.start) / u64::from(head.len.max(1))) as usize;
        if self.segments.get(guess).is_some_and(|s| s.start == offset) {
            return guess;
        }
        self.segments.partition_point(|s| s.start < offset)
    }

    #[inline]
    pub(super) fn beginning_at(&self, offset: u64) -> Option<&SentSegment> {
        self.segments.get(self.index_of(offset)).filter(|s| s.start == offset)
    }

    /// Like [`Scoreboard::beginning_at`], for offsets that are nearly always asked for in order: the segment after the
    /// one of the last call is tried first.
    #[inline(always)]
    pub(super) fn arriving_at(&mut self, offset: u64) -> Option<&SentSegment> {
        let departed = self.segments.departed();
        let expected = self.arriving.wrapping_sub(departed);
        let found = match self.segments.get(expected) {
            Some(s) if s.start == offset => expected,
            _ => self.index_of(offset),
        };
        self.arriving = departed.wrapping_add(found + 1);
        self.segments.get(found).filter(|s| s.start == offset)
    }

    /// Returns the start of the segment at `index`, or of the next one to send.
    #[inline]
    fn start_of(&self, index: usize) -> u64 {
        self.segments.get(index).map_or(self.nxt, |s| s.start)
    }

    #[inline(always)]
    pub(super) fn acknowledge(&mut self, ack: u64, d: &mut NewlyDelivered) {
        if ack == self.una {
            return; // a duplicate
        }
        let Some(run) = self.run_before(ack) else { return self.acknowledge_any(ack, d) };
        let n = run.segments as usize;
        let newest = if self.by_stamp { self.sampled_of(n) } else { self.segment(n - 1) };
        d.take_run(self.segment(0), self.segment(n - 1), newest, run.segments);
        self.acknowledge_run(&run);
    }

    /// Returns the segments before `ack` if each was sent once and is neither SACKed nor lost, and `ack` is the end of
    /// one. Segments were sent in the order of their offsets, so the first and the last represent all.
    #[inline(always)]
    pub(super) fn run_before(&self, ack: u64) -> Option<SentRun> {
        if self.sacked | self.lost | self.retrans != 0 {
            return None;
        }
        let first = self.segments.front()?;
        let (mut last, mut flags, mut n) = (first, first.flags, 1);
        while last.end() < ack
            && let Some(next) = self.segments.get(n)
        {
            (last, flags, n) = (next, flags | next.flags, n + 1);
        }
        let run = SentRun { first: *first, last: *last, segments: n as u32 };
        (last.end() == ack && flags & EVER_RETRANS == 0).then_some(run)
    }

    /// Removes the segments of a run that was just returned.
    #[inline(always)]
    pub(super) fn acknowledge_run(&mut self, run: &SentRun) {
        self.segments.drop_front(run.segments as usize);
        self.una = run.last.end();
        if self.highest_sacked < self.una {
            self.highest_sacked = 0;
        }
    }

    /// Returns the one of the first `n` segments that ns-3 samples.
    #[inline(never)]
    fn sampled_of(&self, n: usize) -> &SentSegment {
        let mut best = &self.segments[0];
        for s in self.segments.iter().take(n).skip(1) {
            if s.stamp.replaces(&best.stamp) {
                best = s;
            }
        }
        best
    }

    #[inline(never)]
    fn acknowledge_any(&mut self, ack: u64, d: &mut NewlyDelivered) {
        let mut whole = 0;
        let mut left = (0, 0, 0); // SACKED, LOST, RETRANS bytes that leave the counters
        for s in self.segments.iter() {
            if s.end() > ack {
                break;
            }
            whole += 1;
            if s.flags & (SACKED | LOST | RETRANS | EVER_RETRANS) != 0 {
                let len = u64::from(s.len);
                left.0 += if s.is(SACKED) { len } else { 0 };
                left.1 += if s.is(LOST) { len } else { 0 };
                left.2 += if s.is(RETRANS) { len } else { 0 };
                self.index.rank(s, None);
            }
            if self.guessing || !s.is(SACKED) {
                d.take(s, self.by_stamp);
            }
        }
        self.segments.drop_front(whole);
        self.sacked -= left.0;
        self.lost -= left.1;
        self.retrans -= left.2;
        if let Some(s) = self.segments.front_mut()
            && s.start < ack
        {
            // Part of a segment: cut it. The remainder is still one segment to repair.
            let cut = (ack - s.start) as u32;
            let part = SentSegment { len: cut, ..*s };
            s.start = ack;
            s.len -= cut;
            let cut = u64::from(cut);
            self.sacked -= if part.is(SACKED) { cut } else { 0 };
            self.lost -= if part.is(LOST) { cut } else { 0 };
            self.retrans -= if part.is(RETRANS) { cut } else { 0 };
            if self.guessing || !part.is(SACKED) {
                d.take(&part, self.by_stamp);
            }
        }
        self.index.forget_below(ack);
        self.una = self.una.max(ack);
        self.nxt = self.nxt.max(ack);
        if self.una == self.nxt {
            self.unsent = u64::MAX;
        }
        if self.highest_sacked < self.una {
            self.highest_sacked = 0;
        }
    }

    /// Marks the block `[left, right)` as received (RFC 2018). Only whole segments count.
    #[inline]
    pub(super) fn sack(&mut self, left: u64, right: u64, d: &mut NewlyDelivered) {
        let right = right.min(self.unsent);
        // Most blocks repeat blocks of the previous acknowledgment.
        let mut at = left;
        while let Some((from, to)) = self.index.sacked.gap(at, right) {
            self.sack_gap(from, to, d);
            at = to;
        }
    }

    /// Like [`Scoreboard::sack`], for bytes none of which was SACKed.
    fn sack_gap(&mut self, from: u64, to: u64, d: &mut NewlyDelivered) {
        let mut i = self.index_of(from);
        while self.segments.get(i).is_some_and(|s| s.end() <= to) {
            let ended = if self.sack_ends_retrans { LOST | RETRANS } else { LOST };
            let s = self.update(i, |s| s.flags = s.flags & !ended | SACKED);
            self.highest_sacked = self.highest_sacked.max(s.start);
            d.take(&s, self.by_stamp);
            i += 1;
        }
    }

    /// Declares lost every segment with at least `threshold` SACKed segments above it (RFC 6675 IsLost, counted in
    /// segments). Returns the bytes newly lost.
    pub(super) fn mark_lost_by_count(&mut self, threshold: u32) -> u64 {
        let before = self.lost;
        let Some(edge) = self.highest_sacked_segments().nth(threshold.saturating_sub(1) as usize) else { return 0 };
        let mut i = self.index_of(self.index.counted);
        while self.start_of(i) < edge {
            self.mark_lost(i);
            i += 1;
        }
        self.index.counted = self.index.counted.max(edge);
        self.lost - before
    }

    /// Returns the starts of the SACKed segments, highest first.
    fn highest_sacked_segments(&self) -> impl Iterator<Item = u64> {
        self.index.sacked.iter().rev().flat_map(|(left, right)| {
            let top = self.index_of(right);
            (0..top).rev().map(|i| self.segments[i].start).take_while(move |&start| start >= left)
        })
    }

    /// Declares segment `index` lost unless it already is, or is SACKed.
    #[inline]
    pub(super) fn mark_lost(&mut self, index: usize) {
        if !self.segments[index].is(LOST | SACKED) {
            self.update(index, |s| s.flags |= LOST);
        }
    }

    pub(super) fn mark_retransmission_lost(&mut self, index: usize) {
        self.update(index, |s| {
            s.flags &= !RETRANS;
            s.flags |= if s.is(SACKED) { 0 } else { LOST };
        });
    }

    /// Declares awaited segments lost if `overdue` is true for their send time and end. If it is true for a segment, it
    /// must be true for all segments sent earlier.
    pub(super) fn mark_lost_while(&mut self, overdue: impl Fn(Time, u64) -> bool) {
        let mut i = self.index_of(self.index.judged);
        while let Some(s) = self.segments.get(i) {
            if s.is_awaited() && s.transmissions == 1 {
                if !overdue(s.sent_at, s.end()) {
                    break;
                }
                self.mark_retransmission_lost(i);
            }
            i += 1;
        }
        self.index.judged = self.start_of(i);
        while let Some(&(sent_at, end)) = self.index.resent.first()
            && overdue(sent_at, end)
        {
            self.mark_retransmission_lost(self.index_of(end) - 1);
        }
    }

    /// Returns the send time of the last awaited segment that precedes `mark`, a send time and an end offset, in the
    /// order of sending. `mark` must never decrease from call to call. Call it after [`Scoreboard::mark_lost_while`].
    pub(super) fn last_awaited_before(&mut self, mark: (Time, u64)) -> Option<Time> {
        let again = self.index.resent.last_below(&mark).map(|place| place.0);
        // The first segment sent once and awaited left before all others.
        let first = self.segments.get(self.index_of(self.index.judged));
        if first.is_none_or(|s| s.sent_order() >= mark) {
            return again;
        }
        let mut i = self.index_of(self.index.reached);
        while self.segments.get(i).is_some_and(|s| s.transmissions > 1 || s.sent_order() < mark) {
            i += 1;
        }
        self.index.reached = self.start_of(i);
        let mut once = None;
        while let Some(s) = i.checked_sub(1).map(|i| &self.segments[i])
            && s.start >= self.index.judged
        {
            if let Some((left, _)) = self.index.sacked.covering(s.start) {
                i = self.index_of(left);
                continue;
            }
            if s.is_awaited() && s.transmissions == 1 {
                once = Some(s.sent_at);
                break;
            }
            i -= 1;
        }
        again.max(once)
    }

    /// Declares the lowest segment lost, including its retransmission, and drops any guessed SACK.
    pub(super) fn mark_head_lost(&mut self) {
        if self.segments.is_empty() {
            return;
        }
        self.update(0, |s| s.flags &= !SACKED);
        self.mark_retransmission_lost(0);
    }

    /// Makes the lowest segment eligible for another retransmission.
    pub(super) fn forget_retransmission_of_head(&mut self) {
        if !self.segments.is_empty() {
            self.update(0, |s| s.flags &= !RETRANS);
        }
    }

    /// Excludes the segments in flight from RTT sampling, because a `Hold` stopped time for them.
    pub(super) fn invalidate_samples(&mut self) {
        self.segments.for_each_mut(|s| s.flags |= EVER_RETRANS | NO_SAMPLE);
    }

    /// Divides outstanding segments longer than `mss`, which the path no longer carries. With `lost`, declares these
    /// lost unless SACKed. Returns true if there were any.
    pub(super) fn divide(&mut self, mss: u32, lost: bool) -> bool {
        if self.segments.iter().all(|s| s.len <= mss) {
            return false;
        }
        let whole = std::mem::take(&mut self.segments);
        let mut highest_sacked = self.highest_sacked;
        let mut now_lost = Vec::new();
        for s in whole.iter() {
            self.index.rank(s, None);
            let mut rest = *s;
            while rest.len > 0 {
                let mut part = SentSegment { len: rest.len.min(mss), ..rest };
                rest.start += u64::from(part.len);
                rest.len -= part.len;
                if rest.len > 0 {
                    part.flags &= !PUSHED;
                }
                self.index.enter(&part);
                if self.highest_sacked == s.start {
                    highest_sacked = part.start;
                }
                if lost && s.len > mss && !s.is(SACKED) {
                    now_lost.push(self.segments.len());
                }
                self.segments.push_back(part);
            }
        }
        self.highest_sacked = highest_sacked;
        now_lost.into_iter().for_each(|i| self.mark_retransmission_lost(i));
        true
    }

    /// Declares all segments lost that are not SACKed, after a time-out; no retransmission remains in flight. Without
    /// SACK (`forget_sacks`) the guesses are dropped (RFC 6675 section 5.1).
    pub(super) fn mark_all_lost(&mut self, forget_sacks: bool) {
        // A SACKed head that is not acknowledged was revoked (RFC 2018 section 8).
        let forget_sacks = forget_sacks || self.segments.front().is_some_and(|s| s.is(SACKED));
        if forget_sacks {
            self.highest_sacked = 0;
        }
        let ended = if forget_sacks { RETRANS | SACKED } else { RETRANS };
        for i in 0..self.segments.len() {
            self.update(i, |s| {
                s.flags = s.flags & !ended | NO_SAMPLE;
                s.flags |= if s.is(SACKED) { 0 } else { LOST };
            });
        }
    }

    /// Makes all segments but the first unsent (go-back-N). Call it after [`Scoreboard::mark_all_lost`].
    pub(super) fn go_back(&mut self) {
        self.unsent = if self.segments.len() > 1 { self.start_of(1) } else { u64::MAX };
    }

    /// Marks the lowest unmarked segment above the head as received, as a duplicate ACK without SACK suggests.
    pub(super) fn add_reno_sack(&mut self) {
        let lowest = self.index.sacked.gap(self.start_of(1), self.nxt);
        if let Some((start, _)) = lowest {
            self.update(self.index_of(start), |s| s.flags = s.flags & !LOST | SACKED);
            self.highest_sacked = self.highest_sacked.max(start);
        }
    }

    /// Moves a guessed SACK of the new head to a higher segment and declares the head, which must be missing, lost.
    pub(super) fn settle_reno_sack(&mut self) {
        if self.segments.front().is_some_and(|s| s.is(SACKED)) {
            self.update(0, |s| s.flags &= !SACKED);
            self.add_reno_sack();
            self.mark_head_lost();
        }
    }

    /// Discards all guesses from duplicate ACKs.
    pub(super) fn reset_reno_sack(&mut self) {
        while let Some((left, right)) = self.index.sacked.last() {
            for i in (self.index_of(left)..self.index_of(right)).rev() {
                self.update(i, |s| s.flags &= !SACKED);
            }
        }
        self.highest_sacked = 0;
    }

    /// Withdraws all loss declarations: the segments count as in flight again.
    pub(super) fn forget_losses(&mut self) {
        if self.lost == 0 {
            return;
        }
        for i in 0..self.segments.len() {
            self.update(i, |s| s.flags &= !LOST);
        }
    }

    /// Returns the lowest segment lost and not retransmitted.
    #[inline]
    pub(super) fn next_repair(&self) -> Option<usize> {
        if self.index.repairs.is_empty() {
            return None;
        }
        self.index.repairs.first().map(|(start, _)| self.index_of(start))
    }

    /// Returns the lowest segment below `limit` that is neither SACKed nor retransmitted (RFC 6675 NextSeg rule 3).
    pub(super) fn next_unsacked(&mut self, limit: u64) -> Option<usize> {
        let mut i = self.index_of(self.index.passed);
        while self.segments.get(i).is_some_and(|s| s.start < limit && s.is(RETRANS | SACKED)) {
            i += 1;
        }
        let start = self.start_of(i);
        self.index.passed = self.index.passed.max(start);
        (start < limit && i < self.segments.len()).then_some(i)
    }

    /// Returns the highest segment not SACKed (RFC 6675 NextSeg rule 4).
    pub(super) fn last_unsacked(&self) -> Option<usize> {
        let above = match self.index.sacked.last() {
            Some((left, right)) if right == self.nxt => self.index_of(left),
            _ => self.segments.len(),
        };
        above.checked_sub(1)
    }

    /// Returns true if the lowest segment that is lost or SACKed is lost: the head's loss has been detected.
    pub(super) fn head_is_lost(&self) -> bool {
        // Losses usually begin with the head.
        self.lost > 0
            && self
                .segments
                .iter()
                .take_while(|s| s.start < self.highest_sacked)
                .find(|s| s.is(LOST | SACKED))
                .is_some_and(|s| s.is(LOST))
    }

    /// Returns true if the second segment is lost.
    pub(super) fn second_is_lost(&self) -> bool {
        self.lost > 0 && self.segments.get(1).is_some_and(|s| s.is(LOST) && s.start < self.highest_sacked)
    }

    /// Panics unless the counters and the index agree with the segments: for tests.
    pub(super) fn check(&self) {
        let sum = |f: u8| self.segments().filter(|s| s.is(f)).map(|s| u64::from(s.len)).sum::<u64>();
        assert_eq!((self.sacked, self.lost, self.retrans), (sum(SACKED), sum(LOST), sum(RETRANS)));
        assert_eq!(self.nxt - self.una, self.segments().map(|s| u64::from(s.len)).sum::<u64>());
        self.index.check(&self.segments);
    }
}

/// Segments that follow each other, from [`Scoreboard::run_before`].
#[derive(Clone, Copy, Debug)]
pub(super) struct SentRun {
    pub(super) first: SentSegment,
    pub(super) last: SentSegment,
    pub(super) segments: u32,
}

/// Number of duplicate ACKs, or of SACKed segments above a segment, that indicates a loss (RFC 5681, RFC 6675).
pub(super) const DUP_THRESH: u32 = 3;
