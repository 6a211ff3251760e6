//! A segment, its state, and the data that an acknowledgment delivers.

use crate::sender::{Newest, RateStamp};
use crate::units::Time;

/// A segment sent. Offsets are 64-bit sequence offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentSegment {
    pub start: u64,
    /// Payload bytes; a FIN is a segment of one.
    pub len: u32,
    pub flags: u8,
    /// Number of transmissions, saturating.
    pub transmissions: u8,
    /// Time of the last transmission.
    pub sent_at: Time,
    pub stamp: RateStamp,
}

pub(crate) const SACKED: u8 = 1;
pub(crate) const LOST: u8 = 2;
/// Retransmitted since it was last declared lost, with that copy assumed to be in flight.
pub(crate) const RETRANS: u8 = 4;
pub(crate) const EVER_RETRANS: u8 = 8;
/// Sent before a time-out: gives no RTT sample in ns-3.
pub(crate) const NO_SAMPLE: u8 = 16;
/// Ends a write, so that it carries PSH whenever it is sent.
pub(crate) const PUSHED: u8 = 32;

impl SentSegment {
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }
    /// Returns true if any of `flags` is set.
    #[inline]
    pub(crate) fn is(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }
    /// Returns true if lost and not retransmitted since.
    #[inline]
    pub(super) fn needs_repair(&self) -> bool {
        self.flags & (LOST | RETRANS | SACKED) == LOST
    }
    /// Returns true if assumed to be in flight.
    #[inline]
    pub(super) fn is_awaited(&self) -> bool {
        !self.is(SACKED) && self.flags & (LOST | RETRANS) != LOST
    }
    /// Returns the segment in the form of [`NewlyDelivered::newest`].
    #[inline]
    pub(crate) fn as_newest(&self, retransmitted: bool) -> Newest {
        Newest { end: self.end(), sent_at: self.sent_at, retransmitted, stamp: self.stamp }
    }
    /// Returns the position in the order of sending: the time of the last transmission, then the end offset.
    #[inline]
    pub(super) fn sent_order(&self) -> (Time, u64) {
        (self.sent_at, self.end())
    }
}

/// Data newly covered by an acknowledgment, cumulatively or selectively.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NewlyDelivered {
    pub bytes: u64,
    pub segments: u32,
    /// Delivered segment sent last, for RACK and rate samples; with `Scoreboard::by_stamp`, the one that ns-3 samples.
    pub newest: Option<Newest>,
    /// Send time of the first never-retransmitted segment.
    pub first_sent: Option<Time>,
    /// Send time of the last never-retransmitted segment.
    pub last_sent: Option<Time>,
    pub retransmitted: bool,
    /// Highest end of a delivered segment never retransmitted.
    pub original_end: u64,
    /// Lowest start of a delivered segment never retransmitted (for reordering), otherwise `u64::MAX`.
    pub lowest_original: u64,
}

impl NewlyDelivered {
    /// Adds the `n` segments from `first` to `last`, sent once each and the first that the acknowledgment delivers.
    #[inline(always)]
    pub(super) fn take_run(&mut self, first: &SentSegment, last: &SentSegment, newest: &SentSegment, n: u32) {
        debug_assert_eq!(self.segments, 0);
        *self = NewlyDelivered {
            bytes: last.end() - first.start,
            segments: n,
            newest: Some(newest.as_newest(false)),
            first_sent: Some(first.sent_at),
            last_sent: Some(last.sent_at),
            retransmitted: false,
            original_end: last.end(),
            lowest_original: first.start,
        };
    }

    #[inline]
    pub(super) fn take(&mut self, s: &SentSegment, by_stamp: bool) {
        self.bytes += u64::from(s.len);
        self.segments += 1;
        let retransmitted = s.is(EVER_RETRANS);
        let replaces = |n: Newest| match by_stamp {
            false => (s.sent_at, s.end()) > (n.sent_at, n.end),
            true => s.stamp.replaces(&n.stamp),
        };
        if self.newest.is_none_or(replaces) {
            self.newest = Some(s.as_newest(retransmitted));
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
