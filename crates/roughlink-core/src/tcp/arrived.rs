//! What arrived beyond the next byte expected: by offset, to join it, and by age, to report the most recent first (RFC 2018
//! section 4).

use std::collections::BTreeMap;

/// Ranges `[start, end)` that neither overlap nor touch.
#[derive(Clone, Debug, Default)]
pub struct Arrived {
    /// The end of each by its start, and the number of the arrival that last joined it.
    ranges: BTreeMap<u64, (u64, u64)>,
    /// The start of each by that number.
    recent: BTreeMap<u64, u64>,
    arrivals: u64,
}

impl Arrived {
    /// Whether nothing is kept.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Keeps `[start, end)`, joined with what it touches. Whether all of it was kept before.
    pub fn insert(&mut self, start: u64, end: u64) -> bool {
        let (mut lo, mut hi) = (start, end);
        let mut seen = false;
        while let Some((&a, &(b, arrival))) = self.ranges.range(..=hi).next_back()
            && b >= lo
        {
            seen |= a <= start && end <= b;
            (lo, hi) = (lo.min(a), hi.max(b));
            self.ranges.remove(&a);
            self.recent.remove(&arrival);
        }
        self.arrivals += 1;
        self.ranges.insert(lo, (hi, self.arrivals));
        self.recent.insert(self.arrivals, lo);
        seen
    }

    /// The next byte expected is `next` or, as what is kept reaches from there, a later one, which is returned; what lies below
    /// it is kept no more.
    pub fn take_from(&mut self, mut next: u64) -> u64 {
        while let Some(first) = self.ranges.first_entry()
            && *first.key() <= next
        {
            let (end, arrival) = first.remove();
            self.recent.remove(&arrival);
            next = next.max(end);
        }
        next
    }

    /// Keeps nothing from offset `last` on.
    pub fn cut(&mut self, last: u64) {
        for (_, (_, arrival)) in self.ranges.split_off(&last) {
            self.recent.remove(&arrival);
        }
        if let Some(mut range) = self.ranges.last_entry() {
            let (end, arrival) = *range.get();
            range.insert((end.min(last), arrival));
        }
    }

    /// The ranges, that of the latest arrival first.
    pub fn most_recent(&self) -> impl Iterator<Item = (u64, u64)> {
        self.recent.values().rev().map(|&start| (start, self.ranges[&start].0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_are_those_of_a_list_by_age(steps in proptest::collection::vec((0..8, 0_u64..200, 1_u64..20), 0..100)) {
            let mut arrived = Arrived::default();
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
            }
        }
    }
}
