//! Ranges beyond the next byte expected: by offset to merge, by age to report the latest first (RFC 2018 section 4).

use super::sorted::Sorted;
use std::collections::VecDeque;

/// `[start, end)`, and the number of the arrival that last extended it.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    arrival: u64,
}

/// Ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default)]
pub(super) struct OutOfOrderRanges {
    ranges: VecDeque<Range>,
    /// By age: the number of the last arrival, and the start of the range.
    recent: Sorted<(u64, u64)>,
    arrivals: u64,
    held: u64,
}

impl OutOfOrderRanges {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    #[inline(always)]
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    #[inline(always)]
    pub(super) fn end(&self) -> Option<u64> {
        self.ranges.back().map(|r| r.end)
    }

    /// Adds `[start, end)` and merges it with ranges that it touches. Returns true if all of it was already held.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> bool {
        self.arrivals += 1;
        // The usual case: data in order, above the last gap.
        if let Some(last) = self.ranges.back_mut().filter(|last| last.end == start)
            && self.recent.replace_last(&(last.arrival, last.start), (self.arrivals, last.start))
        {
            (last.end, last.arrival) = (end, self.arrivals);
            self.held += end - start;
            return false;
        }
        let mut joined = Range { start, end, arrival: self.arrivals };
        let mut seen = false;
        let above = self.ranges.partition_point(|r| r.start <= end);
        let mut first = above;
        while let Some(below) = first.checked_sub(1)
            && let r = self.ranges[below]
            && r.end >= start
        {
            seen |= r.start <= start && end <= r.end;
            (joined.start, joined.end) = (joined.start.min(r.start), joined.end.max(r.end));
            self.held -= r.end - r.start;
            self.recent.remove(&(r.arrival, r.start));
            first = below;
        }
        self.recent.insert((joined.arrival, joined.start));
        self.held += joined.end - joined.start;
        if first == above {
            self.ranges.insert(above, joined);
        } else {
            self.ranges[first] = joined;
            self.ranges.drain(first + 1..above);
        }
        seen
    }

    /// Removes the ranges contiguous with `next`, the next byte expected. Returns the next byte expected after them.
    pub(super) fn take_from(&mut self, mut next: u64) -> u64 {
        while let Some(r) = self.ranges.pop_front_if(|r| r.start <= next) {
            self.recent.remove(&(r.arrival, r.start));
            self.held -= r.end - r.start;
            next = next.max(r.end);
        }
        next
    }

    /// Discards all bytes from offset `last` on.
    pub(super) fn cut(&mut self, last: u64) {
        while let Some(r) = self.ranges.pop_back_if(|r| r.start >= last) {
            self.recent.remove(&(r.arrival, r.start));
            self.held -= r.end - r.start;
        }
        if let Some(r) = self.ranges.back_mut() {
            self.held -= r.end.saturating_sub(last);
            r.end = r.end.min(last);
        }
    }

    pub(super) fn most_recent(&self) -> impl Iterator<Item = (u64, u64)> {
        self.recent.descending().map(|&(_, start)| {
            let end = match self.ranges.back() {
                Some(last) if last.start == start => last.end,
                _ => self.ranges[self.ranges.partition_point(|r| r.start < start)].end,
            };
            (start, end)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arrived_ranges_match_a_list_by_age(
            steps in proptest::collection::vec((0..8, 0_u64..200, 1_u64..20), 0..100),
        ) {
            let mut arrived = OutOfOrderRanges::default();
            let mut list: Vec<(u64, u64)> = Vec::new();
            let mut next = 0;
            for (kind, start, len) in steps {
                let (start, end) = (next + start, next + start + len);
                if kind == 1 {
                    arrived.cut(end);
                    list.retain(|r| r.0 < end);
                    list.iter_mut().for_each(|r| r.1 = r.1.min(end));
                } else if kind == 0 {
                    next = end.min(next + 30);
                    let mut reach = next;
                    while let Some(i) = list.iter().position(|r| r.0 <= reach) {
                        reach = reach.max(list.remove(i).1);
                    }
                    prop_assert_eq!(arrived.take_from(next), reach);
                    next = reach;
                } else {
                    let (mut lo, mut hi) = (start, end);
                    let seen = list.iter().any(|&(a, b)| a <= start && end <= b);
                    list.retain(|&(a, b)| {
                        let apart = b < start || a > end;
                        if !apart {
                            (lo, hi) = (lo.min(a), hi.max(b));
                        }
                        apart
                    });
                    list.insert(0, (lo, hi));
                    prop_assert_eq!(arrived.insert(start, end), seen);
                }
                prop_assert_eq!(arrived.most_recent().collect::<Vec<_>>(), &list[..]);
                prop_assert_eq!(arrived.is_empty(), list.is_empty());
                prop_assert_eq!(arrived.held(), list.iter().map(|r| r.1 - r.0).sum::<u64>());
                prop_assert_eq!(arrived.end(), list.iter().map(|r| r.1).max());
            }
        }
    }
}
