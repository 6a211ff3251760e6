//! Index of the scoreboard: results of searches over all segments, updated as segments change. An acknowledgment then
//! costs time for the segments it covers, not for all outstanding ones. Sets hold the few exceptions: segments that are
//! SACKed, to be repaired, or retransmitted. Segments sent once are in order of sending, so each search needs only a
//! position below which it finds nothing. The search moves the position up. [`Index::account`] moves it back if a
//! segment below it becomes a result.

use super::segment::{LOST, RETRANS, SACKED, SentSegment};
use crate::ring::Ring;
use crate::tcp::ranges::Ranges;
use crate::tcp::sorted::Sorted;
use crate::units::Time;

#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    pub sacked: Ranges,
    /// Lost and not retransmitted.
    pub repairs: Ranges,
    /// Segments sent again and awaited, by the time of their last transmission.
    pub resent: Sorted<(Time, u64)>,
    /// Position below which no segment sent once is awaited.
    pub judged: u64,
    /// Position below which all segments are lost or SACKed.
    pub counted: u64,
    /// Position below which all segments are retransmitted or SACKed.
    pub passed: u64,
    /// Position that divides the segments sent once: those below it left before the `mark` of the last search, the
    /// others later.
    pub reached: u64,
}

impl Index {
    /// Records that a segment changed its state or was sent again.
    pub(super) fn account(&mut self, before: &SentSegment, after: &SentSegment) {
        let (start, end) = (after.start, after.end());
        match (before.is(SACKED), after.is(SACKED)) {
            (false, true) => self.sacked.insert(start, end),
            (true, false) => self.sacked.remove(start, end),
            _ => {}
        }
        match (before.needs_repair(), after.needs_repair()) {
            (false, true) => self.repairs.insert(start, end),
            (true, false) => self.repairs.remove(start, end),
            _ => {}
        }
        self.rank(before, Some(after));
        if after.is_awaited() && after.transmissions == 1 {
            self.judged = self.judged.min(start);
        }
        if !after.is(LOST | SACKED) {
            self.counted = self.counted.min(start);
        }
        if !after.is(RETRANS | SACKED) {
            self.passed = self.passed.min(start);
        }
    }

    /// Updates the place of a segment among retransmitted ones; `after` is `None` if it is gone.
    pub(super) fn rank(&mut self, before: &SentSegment, after: Option<&SentSegment>) {
        let place = |s: &SentSegment| (s.transmissions > 1 && s.is_awaited()).then(|| s.sent_order());
        let (before, after) = (place(before), after.and_then(place));
        if before != after {
            before.iter().for_each(|place| self.resent.remove(place));
            after.into_iter().for_each(|place| self.resent.insert(place));
        }
    }

    /// Ranks a segment that is new to the scoreboard.
    pub(super) fn enter(&mut self, s: &SentSegment) {
        if s.transmissions > 1 && s.is_awaited() {
            self.resent.insert(s.sent_order());
        }
    }

    #[inline]
    pub(super) fn forget_below(&mut self, ack: u64) {
        if !self.sacked.is_empty() {
            self.sacked.remove_below(ack);
        }
        if !self.repairs.is_empty() {
            self.repairs.remove_below(ack);
        }
    }

    /// Panics unless the index agrees with the segments: for tests.
    pub(super) fn check(&self, segments: &Ring<SentSegment>) {
        let covered = |ranges: &Ranges, of: &dyn Fn(&SentSegment) -> bool| {
            assert!(segments.iter().all(|s| of(s) == ranges.covering(s.start).is_some_and(|r| s.end() <= r.1)));
            let bytes: u64 = segments.iter().filter(|s| of(s)).map(|s| u64::from(s.len)).sum();
            assert_eq!(bytes, ranges.iter().map(|(start, end)| end - start).sum::<u64>());
        };
        covered(&self.sacked, &|s| s.is(SACKED));
        covered(&self.repairs, &|s| s.needs_repair());
        let again = segments.iter().filter(|s| s.transmissions > 1 && s.is_awaited());
        assert_eq!(self.resent, again.map(SentSegment::sent_order).collect());
        let below = |position: u64| segments.iter().take_while(move |s| s.start < position);
        assert!(below(self.judged).all(|s| !s.is_awaited() || s.transmissions > 1));
        assert!(below(self.counted).all(|s| s.is(LOST | SACKED)));
        assert!(below(self.passed).all(|s| s.is(RETRANS | SACKED)));
    }
}
