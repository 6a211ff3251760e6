//! Disjoint ranges of sequence offsets, in order: which bytes of a connection have some property.

use std::collections::BTreeMap;

/// Ranges `[start, end)` that neither overlap nor touch.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
    /// In order; also from the end.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        self.ends.iter().map(|(&start, &end)| (start, end))
    }
    /// The lowest.
    #[inline]
    pub fn first(&self) -> Option<(u64, u64)> {
        self.ends.first_key_value().map(|(&start, &end)| (start, end))
    }
    /// The highest.
    pub fn last(&self) -> Option<(u64, u64)> {
        self.ends.last_key_value().map(|(&start, &end)| (start, end))
    }
    /// The one that covers `offset`.
    pub fn covering(&self, offset: u64) -> Option<(u64, u64)> {
        self.ends.range(..=offset).next_back().map(|(&start, &end)| (start, end)).filter(|r| offset < r.1)
    }
    /// The first part of `[from, to)` that no range covers.
    pub fn gap(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let from = self.covering(from).map_or(from, |r| r.1);
        if from >= to {
            return None;
        }
        let next = self.ends.range(from..to).next();
        Some((from, next.map_or(to, |(&start, _)| start)))
    }
    /// `[start, end)` belongs to them.
    pub fn insert(&mut self, start: u64, end: u64) {
        let (mut lo, mut hi) = (start, end);
        while let Some((&a, &b)) = self.ends.range(..=hi).next_back()
            && b >= lo
        {
            if a <= start {
                // The usual case: the range below grows.
                hi = hi.max(b);
                self.ends.insert(a, hi);
                return;
            }
            self.ends.remove(&a);
            (lo, hi) = (lo.min(a), hi.max(b));
        }
        self.ends.insert(lo, hi);
    }
    /// `[start, end)`, which one range covers, does not belong to them any more.
    pub fn remove(&mut self, start: u64, end: u64) {
        let Some((a, b)) = self.covering(start) else { return };
        debug_assert!(end <= b);
        if a < start {
            self.ends.insert(a, start);
        } else {
            self.ends.remove(&a);
        }
        if end < b {
            self.ends.insert(end, b);
        }
    }
    /// Nothing below `offset` belongs to them any more.
    pub fn remove_below(&mut self, offset: u64) {
        while let Some(first) = self.ends.first_entry()
            && *first.key() < offset
        {
            let end = first.remove();
            if end > offset {
                self.ends.insert(offset, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The ranges of the bytes that are set.
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
        fn they_are_those_of_a_table_of_bytes(steps in proptest::collection::vec((0..4, 0_u64..80, 1_u64..12), 0..100)) {
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
