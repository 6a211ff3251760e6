//! An ordered set of values that come and go near its ends, as offsets and send times of a stream do: a sorted queue. A
//! tree would cost more for few values and hardly less for many, because changes near the ends move few values.

use std::collections::VecDeque;

/// Values in order, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sorted<T> {
    values: VecDeque<T>,
}

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Sorted { values: VecDeque::new() }
    }
}

impl<T: Copy + Ord> Sorted<T> {
    pub(super) fn insert(&mut self, value: T) {
        if self.values.back().is_none_or(|last| *last < value) {
            self.values.push_back(value);
        } else if let Err(place) = self.values.binary_search(&value) {
            self.values.insert(place, value);
        }
    }
    pub(super) fn remove(&mut self, value: &T) {
        if let Ok(place) = self.values.binary_search(value) {
            self.values.remove(place);
        }
    }
    /// Replaces the last value if it is `value`; the new value must not be less. Returns true if it did.
    #[inline]
    pub(super) fn replace_last(&mut self, value: &T, new: T) -> bool {
        let last = self.values.back_mut().filter(|last| *last == value);
        last.map(|last| *last = new).is_some()
    }
    pub(super) fn first(&self) -> Option<&T> {
        self.values.front()
    }
    pub(super) fn last_below(&self, limit: &T) -> Option<&T> {
        self.values.partition_point(|value| value < limit).checked_sub(1).map(|place| &self.values[place])
    }
    pub(super) fn descending(&self) -> impl Iterator<Item = &T> {
        self.values.iter().rev()
    }
}

impl<T: Copy + Ord> FromIterator<T> for Sorted<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut sorted = Sorted::default();
        values.into_iter().for_each(|value| sorted.insert(value));
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn sorted_matches_an_ordered_set(steps in prop::collection::vec((any::<bool>(), 0u32..40), 0..100)) {
            let (mut sorted, mut set) = (Sorted::default(), BTreeSet::new());
            for (add, value) in steps {
                if add {
                    sorted.insert(value);
                    set.insert(value);
                } else {
                    sorted.remove(&value);
                    set.remove(&value);
                }
                prop_assert!(sorted.descending().eq(set.iter().rev()));
                prop_assert_eq!(sorted.first(), set.first());
                prop_assert_eq!(sorted.last_below(&value), set.range(..value).next_back());
            }
        }
    }
}
