//! Disjoint ranges of sequence offsets, in order: the bytes of a connection that have some property.

use std::collections::VecDeque;

/// Ranges `[start, end)` that neither overlap nor touch, so that both their starts and their ends are in order. Changes
/// happen near the ends of a window, where a sorted queue moves few entries.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    ranges: VecDeque<(u64, u64)>,
}

impl Ranges {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        self.ranges.iter().copied()
    }
    #[inline]
    pub(super) fn first(&self) -> Option<(u64, u64)> {
        self.ranges.front().copied()
    }
    #[inline]
    pub(super) fn last(&self) -> Option<(u64, u64)> {
        self.ranges.back().copied()
    }
    /// Returns the number of ranges that begin at `offset` or below.
    #[inline]
    fn up_to(&self, offset: u64) -> usize {
        match self.ranges.back() {
            // The usual case is an offset at the end of the window.
            Some(last) if last.0 > offset => self.ranges.partition_point(|r| r.0 <= offset),
            _ => self.ranges.len(),
        }
    }
    pub(super) fn covering(&self, offset: u64) -> Option<(u64, u64)> {
        let below = self.up_to(offset).checked_sub(1)?;
        Some(self.ranges[below]).filter(|r| offset < r.1)
    }
    /// Returns the first part of `[from, to)` that no range covers.
    #[inline]
    pub(super) fn gap(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let above = self.up_to(from);
        let from = above.checked_sub(1).map_or(from, |below| from.max(self.ranges[below].1));
        if from >= to {
            return None;
        }
        Some((from, self.ranges.get(above).map_or(to, |next| next.0.min(to))))
    }
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        if let Some(last) = self.ranges.back_mut().filter(|last| last.1 == start) {
            last.1 = end; // the usual case
            return;
        }
        let above = self.up_to(end);
        let mut first = above;
        while let Some(below) = first.checked_sub(1)
            && self.ranges[below].1 >= start
        {
            first = below;
        }
        if first == above {
            self.ranges.insert(above, (start, end));
            return;
        }
        self.ranges[first] = (start.min(self.ranges[first].0), end.max(self.ranges[above - 1].1));
        self.ranges.drain(first + 1..above);
    }
    /// Removes `[start, end)`, which one range covers.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        let Some(place) = self.up_to(start).checked_sub(1) else { return };
        let (a, b) = self.ranges[place];
        if start >= b {
            return;
        }
        debug_assert!(end <= b);
        match (a < start, end < b) {
            (true, true) => {
                self.ranges[place] = (end, b);
                self.ranges.insert(place, (a, start));
            }
            (true, false) => self.ranges[place] = (a, start),
            (false, true) => self.ranges[place] = (end, b),
            (false, false) => drop(self.ranges.remove(place)),
        }
    }
    pub(super) fn remove_below(&mut self, offset: u64) {
        while let Some(first) = self.ranges.front_mut()
            && first.0 < offset
        {
            if first.1 > offset {
                first.0 = offset;
                return;
            }
            self.ranges.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn runs(bytes: &[bool]) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for i in (0..bytes.len() as u64).filter(|&i| bytes[i as usize]) {
            match runs.last_mut().filter(|r| r.1 == i) {
                Some(run) => run.1 += 1,
                None => runs.push((i, i + 1)),
            }
        }
        runs
    }

    proptest! {
        #[test]
        fn ranges_match_a_table_of_bytes(
            steps in proptest::collection::vec((0..4, 0_u64..80, 1_u64..12), 0..100),
        ) {
            let mut ranges = Ranges::default();
            let mut bytes = [false; 100];
            for (kind, start, len) in steps {
                let end = start + len;
                match kind {
                    0 | 1 => {
                        ranges.insert(start, end);
                        bytes[start as usize..end as usize].fill(true);
                    }
                    2 if bytes[start as usize..end as usize].iter().all(|b| *b) => {
                        ranges.remove(start, end);
                        bytes[start as usize..end as usize].fill(false);
                    }
                    3 if len == 1 => {
                        ranges.remove_below(start);
                        bytes[..start as usize].fill(false);
                    }
                    _ => {}
                }
                let runs = runs(&bytes);
                prop_assert_eq!(ranges.iter().collect::<Vec<_>>(), &runs[..]);
                prop_assert_eq!((ranges.first(), ranges.last()), (runs.first().copied(), runs.last().copied()));
                prop_assert_eq!(ranges.is_empty(), runs.is_empty());
                prop_assert_eq!(ranges.covering(start), runs.iter().copied().find(|r| r.0 <= start && start < r.1));
                let free = (start..end).find(|&i| !bytes[i as usize]);
                let gap = free.map(|a| (a, (a..end).find(|&i| bytes[i as usize]).unwrap_or(end)));
                prop_assert_eq!(ranges.gap(start, end), gap);
            }
        }
    }
}
