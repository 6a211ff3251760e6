//! The DATA chunks sent and not yet cumulatively acknowledged, each with its state.

use super::part::MessagePart;
use crate::packet::{Gap, Skipped};
use crate::sender::{Losses, RateStamp};
use crate::units::Time;
use std::collections::VecDeque;
use std::ops::Range;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChunkState {
    InFlight,
    /// A gap ack block covers it.
    Acked,
    /// Marked for retransmission.
    Marked,
    /// Abandoned (RFC 3758).
    Abandoned,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SentChunk {
    pub part: MessagePart,
    /// Time at which the chunk's message was written.
    pub written: Time,
    /// Bytes of user data sent before the chunk.
    pub offset: u64,
    pub fate: ChunkState,
    /// Miss indications.
    pub missing: u8,
    /// Set after a fast retransmission; no other follows.
    pub fast: bool,
    /// Set if the chunk left more than once or was frozen in flight, and therefore gives no RTT sample.
    pub resent: bool,
    /// Number of retransmissions.
    pub repeats: u32,
    /// Set if the chunk's message was abandoned. The chunk does not leave again, even if others of the message arrived.
    pub abandoned: bool,
    /// Set if the chunk was counted as delivered.
    pub counted: bool,
    /// Time of the last transmission.
    pub at: Time,
    /// State of delivery-rate sampling at this time.
    pub stamp: RateStamp,
}

/// Data newly covered by a SACK.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NewlyCovered {
    /// Bytes below the cumulative TSN that were outstanding.
    pub acked: u64,
    /// Bytes and chunks delivered for the first time.
    pub delivered: u64,
    pub chunks: u32,
    /// The highest TSN newly covered.
    pub highest: u64,
    /// Delivered chunk that was sent last.
    pub newest: Option<SentChunk>,
    /// Send time of the timed chunk, if it is now covered.
    pub timed: Option<Time>,
}

/// Outstanding chunks. TSNs are 64-bit; a chunk's index is its TSN minus the first TSN.
#[derive(Clone, Debug)]
pub(super) struct Outstanding {
    chunks: VecDeque<SentChunk>,
    /// TSN of the first chunk, or of the next to be sent.
    first: u64,
    bytes: u64,
    acked: u64,
    /// Messages cumulatively acknowledged and not abandoned.
    messages: u64,
    in_flight: u64,
    marked: usize,
    /// TSN of the chunk whose round trip is being timed.
    timed: Option<u64>,
    pub(super) losses: Losses,
}

impl Outstanding {
    /// Creates an empty queue; the next chunk has TSN `next`.
    pub(super) fn new(next: u64) -> Self {
        Outstanding {
            chunks: VecDeque::new(),
            first: next,
            bytes: 0,
            acked: 0,
            messages: 0,
            in_flight: 0,
            marked: 0,
            timed: None,
            losses: Losses::default(),
        }
    }
    /// Returns the lowest TSN not cumulatively acknowledged.
    pub(super) fn first(&self) -> u64 {
        self.first
    }
    pub(super) fn next(&self) -> u64 {
        self.first + self.chunks.len() as u64
    }
    /// Returns the departure time of an outstanding chunk; `None` if it was retransmitted.
    pub(super) fn sent_at(&self, tsn: u64) -> Option<Time> {
        self.get(tsn).filter(|chunk| !chunk.resent).map(|chunk| chunk.at)
    }
    /// Returns when the message of an outstanding chunk was written.
    pub(super) fn written_at(&self, tsn: u64) -> Option<Time> {
        self.get(tsn).map(|chunk| chunk.written)
    }
    fn get(&self, tsn: u64) -> Option<&SentChunk> {
        self.chunks.get(usize::try_from(tsn.checked_sub(self.first)?).ok()?)
    }
    /// Returns the memory of the chunks, bytes.
    pub(super) fn memory(&self) -> usize {
        self.chunks.capacity() * size_of::<SentChunk>()
    }
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
    /// Returns the bytes not cumulatively acknowledged.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Returns the bytes cumulatively acknowledged, including skipped ones.
    pub(super) fn acked(&self) -> u64 {
        self.acked
    }
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }
    /// Returns the bytes sent with TSNs up to `last`, which is at least the last one cumulatively acknowledged.
    pub(super) fn bytes_through(&self, last: u64) -> u64 {
        let chunks = (last + 1).saturating_sub(self.first) as usize;
        self.acked + self.chunks.iter().take(chunks).map(|c| u64::from(c.part.len)).sum::<u64>()
    }
    /// Returns the bytes in flight: flightsize of RFC 9260.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }
    pub(super) fn has_marked(&self) -> bool {
        self.marked > 0
    }
    /// Returns true if a chunk is in flight or marked for retransmission.
    pub(super) fn is_waiting(&self) -> bool {
        self.marked > 0 || self.in_flight > 0
    }
    pub(super) fn chunks(&self) -> impl Iterator<Item = &SentChunk> {
        self.chunks.iter()
    }

    /// Records that a new chunk, of a message written at `written`, leaves.
    pub(super) fn send(&mut self, (part, written): (MessagePart, Time), at: Time, stamp: RateStamp) {
        self.timed.get_or_insert(self.next()); // one round trip is timed at a time (section 6.3.1 rule C4)
        self.chunks.push_back(SentChunk {
            part,
            written,
            offset: self.acked + self.bytes,
            fate: ChunkState::InFlight,
            missing: 0,
            fast: false,
            resent: false,
            repeats: 0,
            abandoned: false,
            counted: false,
            at,
            stamp,
        });
        self.bytes += u64::from(part.len);
        self.in_flight += u64::from(part.len);
    }

    /// Returns the lowest marked chunk and its TSN.
    pub(super) fn lowest_marked(&self) -> Option<(u64, &SentChunk)> {
        (self.first..).zip(&self.chunks).find(|(_, c)| c.fate == ChunkState::Marked)
    }

    /// Records that chunk `tsn`, which is marked, leaves again; returns its state.
    pub(super) fn resend(&mut self, tsn: u64, at: Time, stamp: RateStamp) -> SentChunk {
        let i = (tsn - self.first) as usize;
        self.set(i, ChunkState::InFlight);
        if self.timed == Some(tsn) {
            self.timed = None; // Karn
        }
        let c = &mut self.chunks[i];
        (c.at, c.stamp, c.resent, c.missing) = (at, stamp, true, 0);
        c.repeats += 1;
        *c
    }

    /// Applies a SACK: all TSNs up to `cumulative`, and the blocks above.
    pub(super) fn cover(&mut self, cumulative: u64, gaps: &[Gap]) -> NewlyCovered {
        let mut covered = NewlyCovered::default();
        while self.first <= cumulative && !self.chunks.is_empty() {
            self.take(0, &mut covered);
            self.set(0, ChunkState::Acked);
            let c = self.chunks.pop_front().expect("it is not empty");
            let len = u64::from(c.part.len);
            covered.acked += len;
            self.bytes -= len;
            self.acked += len;
            self.messages += u64::from(c.part.ends && !c.abandoned);
            self.first += 1;
        }
        for gap in gaps {
            let end = (cumulative + u64::from(gap.end)).min(self.next() - 1);
            for tsn in cumulative + u64::from(gap.start)..=end {
                let Some(i) = tsn.checked_sub(self.first).map(|i| i as usize).filter(|i| *i < self.chunks.len()) else {
                    continue;
                };
                self.take(i, &mut covered);
                self.set(i, ChunkState::Acked);
            }
        }
        covered
    }

    fn take(&mut self, i: usize, covered: &mut NewlyCovered) {
        let tsn = self.first + i as u64;
        let c = &mut self.chunks[i];
        if c.fate == ChunkState::Acked {
            return;
        }
        covered.highest = covered.highest.max(tsn);
        if self.timed == Some(tsn) {
            self.timed = None;
            if !c.resent {
                covered.timed = Some(c.at);
            }
        }
        if c.counted || c.fate == ChunkState::Abandoned {
            return;
        }
        c.counted = true;
        covered.delivered += u64::from(c.part.len);
        covered.chunks += 1;
        if covered.newest.is_none_or(|n| c.at >= n.at) {
            covered.newest = Some(*c);
        }
    }

    /// Adds a miss indication to chunks in flight below `below` and marks those with `threshold` of them for fast
    /// retransmission. Returns true if any was marked.
    pub(super) fn miss(&mut self, below: u64, threshold: u8) -> bool {
        let mut any = false;
        for i in 0..below.saturating_sub(self.first).min(self.chunks.len() as u64) as usize {
            let c = &mut self.chunks[i];
            if c.fate != ChunkState::InFlight || c.fast {
                continue;
            }
            c.missing += 1;
            if c.missing >= threshold {
                c.fast = true;
                self.set(i, ChunkState::Marked);
                any = true;
            }
        }
        any
    }

    /// Returns the highest TSN that `gaps` cover.
    pub(super) fn highest_reported(&self, cumulative: u64, gaps: &[Gap]) -> u64 {
        gaps.iter().map(|g| cumulative + u64::from(g.end)).max().unwrap_or(0).min(self.next())
    }

    /// Marks all chunks for retransmission after a time-out. Includes those in gap ack blocks, in case the receiver
    /// revoked them; the next SACK shows whether it did.
    pub(super) fn mark_all(&mut self) {
        for i in 0..self.chunks.len() {
            self.set(i, if self.chunks[i].abandoned { ChunkState::Abandoned } else { ChunkState::Marked });
            let c = &mut self.chunks[i];
            (c.missing, c.fast) = (0, false);
        }
        self.timed = None;
    }

    /// Marks chunks in flight below `end` that left before `before` for retransmission.
    pub(super) fn mark_sent_before(&mut self, end: u64, before: Time) {
        for i in 0..end.saturating_sub(self.first).min(self.chunks.len() as u64) as usize {
            if self.chunks[i].fate == ChunkState::InFlight && self.chunks[i].at < before {
                self.set(i, ChunkState::Marked);
            }
        }
    }

    pub(super) fn mark_head(&mut self) {
        if self.chunks.front().is_some_and(|c| c.fate != ChunkState::Abandoned) {
            self.set(0, ChunkState::Marked);
        }
    }

    /// Excludes the chunks in flight from RTT sampling, because a `Hold` stopped time for them.
    pub(super) fn invalidate_samples(&mut self) {
        self.timed = None;
        self.chunks.iter_mut().for_each(|c| c.resent = true);
    }

    /// Abandons each message in `range` unless SACKs cover all its chunks. `range` must contain all outstanding chunks
    /// of each message. Returns the numbers of messages and bytes that are not known to have arrived.
    pub(super) fn abandon(&mut self, range: Range<usize>) -> (u64, u64) {
        let (mut messages, mut bytes, mut from) = (0, 0, range.start);
        for i in range.clone() {
            if self.chunks[i].part.ends || i + 1 == range.end {
                let lost = self.abandon_message(from..i + 1);
                messages += u64::from(lost.is_some());
                bytes += lost.unwrap_or(0);
                from = i + 1;
            }
        }
        (messages, bytes)
    }

    /// Abandons one message. Returns its bytes that are not known to have arrived; `None` if all have.
    fn abandon_message(&mut self, range: Range<usize>) -> Option<u64> {
        let waits = |c: &SentChunk| matches!(c.fate, ChunkState::InFlight | ChunkState::Marked);
        if !self.chunks.range(range.clone()).any(waits) {
            return None;
        }
        let mut lost = None;
        for i in range {
            let c = &mut self.chunks[i];
            c.abandoned = true;
            if waits(c) {
                if !c.counted {
                    lost = Some(lost.unwrap_or(0) + u64::from(c.part.len));
                }
                if self.timed == Some(self.first + i as u64) {
                    self.timed = None;
                }
                self.set(i, ChunkState::Abandoned);
            }
        }
        lost
    }

    pub(super) fn all(&self) -> Range<usize> {
        0..self.chunks.len()
    }

    /// Returns the positions of all chunks of the next overdue message. A message is overdue if a chunk at position
    /// `from` or later is marked for retransmission and `is_overdue` returns true for it.
    pub(super) fn overdue(&self, from: usize, is_overdue: impl Fn(&SentChunk) -> bool) -> Option<Range<usize>> {
        if self.marked == 0 {
            return None;
        }
        let is_lost = |c: &SentChunk| c.fate == ChunkState::Marked && is_overdue(c);
        let lost = from + self.chunks.range(from..).position(is_lost)?;
        let from = self.chunks.range(..=lost).rposition(|c| c.part.begins).unwrap_or(0);
        let to = self.chunks.range(lost..).position(|c| c.part.ends).map_or(self.chunks.len(), |n| lost + n + 1);
        Some(from..to)
    }

    /// Returns true if a part of the last message has not left.
    pub(super) fn is_cut_short(&self) -> bool {
        self.chunks.back().is_some_and(|c| !c.part.ends)
    }

    /// Ends the last message with an empty chunk for the caller to abandon. The receiver may already have all other
    /// chunks of the message. The receiver would wait for the rest unless a FORWARD TSN covers this chunk.
    pub(super) fn cut_short(&mut self) {
        if let Some(&last) = self.chunks.back() {
            let part = MessagePart { len: 0, begins: false, ends: true, ..last.part };
            let offset = self.acked + self.bytes;
            self.chunks.push_back(SentChunk { part, offset, fate: ChunkState::InFlight, counted: false, ..last });
        }
    }

    /// Returns the TSN up to which all chunks are acknowledged or abandoned (Advanced.Peer.Ack.Point, RFC 3758 section
    /// 3.5), and the streams that skip messages when the receiver advances to it. `None` if no FORWARD TSN is needed.
    pub(super) fn forward_point(&self) -> Option<(u64, Skipped)> {
        let mut skipped = Skipped::default();
        let mut point = None;
        for (tsn, c) in (self.first..).zip(&self.chunks) {
            match c.fate {
                ChunkState::Abandoned if !c.part.ordered || skipped.note(c.part.stream, c.part.ssn) => {
                    point = Some(tsn)
                }
                ChunkState::Acked => {}
                _ => break,
            }
        }
        point.map(|tsn| (tsn, skipped))
    }

    fn set(&mut self, i: usize, fate: ChunkState) {
        let c = &mut self.chunks[i];
        match c.fate {
            ChunkState::InFlight => {
                self.in_flight -= u64::from(c.part.len);
                if fate == ChunkState::Marked {
                    self.losses.add(c.offset, u32::from(c.part.len), &c.stamp);
                }
            }
            ChunkState::Marked => self.marked -= 1,
            ChunkState::Acked | ChunkState::Abandoned => {}
        }
        c.fate = fate;
        match fate {
            ChunkState::InFlight => self.in_flight += u64::from(c.part.len),
            ChunkState::Marked => self.marked += 1,
            ChunkState::Acked | ChunkState::Abandoned => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(n: u64) -> Outstanding {
        let mut o = Outstanding::new(1);
        (0..n).for_each(|i| o.send(message(i), Time(i), RateStamp::default()));
        o
    }

    fn message(number: u64) -> (MessagePart, Time) {
        let part = MessagePart { stream: 0, ssn: number as u16, len: 100, ordered: true, begins: true, ends: true };
        (part, Time(number))
    }

    #[test]
    fn three_miss_indications_mark_a_chunk_once() {
        let mut o = sent(8);
        let gap = |start, end| [Gap { start, end }];
        for (end, marks) in [(2, false), (3, false), (4, true), (5, false)] {
            let c = o.cover(0, &gap(2, end)); // TSN 1 is missing
            assert_eq!((c.delivered, c.highest), (100, u64::from(end)));
            assert_eq!(o.miss(c.highest, 3), marks, "{end}");
        }
        assert_eq!((o.in_flight(), o.has_marked()), (300, true));
        let tsn = o.lowest_marked().unwrap().0;
        let c = o.resend(tsn, Time(9), RateStamp::default());
        assert_eq!((tsn, c.fast, c.resent, o.has_marked()), (1, true, true, false));
        for _ in 0..9 {
            assert!(!o.miss(6, 3), "not eligible again");
        }
        let c = o.cover(5, &[]);
        assert_eq!((c.acked, c.delivered, o.first(), o.bytes(), o.in_flight()), (500, 100, 6, 300, 300));
    }

    #[test]
    fn one_round_trip_is_timed_at_a_time() {
        let mut o = sent(3);
        assert_eq!(o.cover(2, &[]).timed, Some(Time(0))); // TSN 1 was timed, 2 and 3 were not
        o.send(message(3), Time(50), RateStamp::default());
        o.mark_all();
        for tsn in [3, 4] {
            o.resend(tsn, Time(60), RateStamp::default());
        }
        assert_eq!(o.cover(4, &[]).timed, None); // Karn
    }

    #[test]
    fn abandoned_messages_are_skipped() {
        let mut o = sent(6);
        o.cover(0, &[Gap { start: 3, end: 3 }]);
        assert_eq!(o.forward_point(), None);
        assert_eq!(o.abandon(o.all()), (5, 500));
        assert_eq!((o.in_flight(), o.bytes()), (0, 600));
        let (point, skipped) = o.forward_point().unwrap();
        assert_eq!((point, skipped.streams()), (6, &[(0, 5)][..]));
        assert_eq!(o.cover(6, &[]).delivered, 0);
        assert!(o.is_empty() && o.forward_point().is_none());
    }

    #[test]
    fn timeout_revokes_gap_acks_but_bytes_count_once() {
        let mut o = sent(3);
        assert_eq!(o.cover(0, &[Gap { start: 2, end: 3 }]).delivered, 200);
        o.mark_all();
        assert_eq!(o.in_flight(), 0);
        o.resend(1, Time(5), RateStamp::default());
        let c = o.cover(3, &[]);
        assert_eq!((c.acked, c.delivered), (300, 100));
        assert!(o.is_empty() && !o.has_marked() && o.in_flight() == 0);
    }
}
