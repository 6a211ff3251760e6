//! First-in-first-out queue with access by position, for the hot path: packets on a pipe and segments at a sender.

use std::ops::{Index, IndexMut};

#[derive(Clone, Debug)]
pub(crate) struct Ring<T> {
    /// Slots: none, or a power of two, so that a mask finds a position. Unused ones hold earlier values.
    slots: Vec<T>,
    /// Number of elements that have left at the front. The mask maps it to the slot of the first element.
    head: usize,
    len: usize,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Ring { slots: Vec::new(), head: 0, len: 0 }
    }
}

impl<T: Copy> Ring<T> {
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }
    #[inline(always)]
    fn slot(&self, position: usize) -> usize {
        self.head.wrapping_add(position) & self.slots.len().wrapping_sub(1)
    }
    #[inline(always)]
    pub(crate) fn get(&self, position: usize) -> Option<&T> {
        if position < self.len { self.slots.get(self.slot(position)) } else { None }
    }
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, position: usize) -> Option<&mut T> {
        let slot = self.slot(position);
        if position < self.len { self.slots.get_mut(slot) } else { None }
    }
    /// Returns the number of elements that have left at the front.
    #[inline(always)]
    pub(crate) fn departed(&self) -> usize {
        self.head
    }
    #[inline(always)]
    pub(crate) fn front(&self) -> Option<&T> {
        self.get(0)
    }
    #[inline(always)]
    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        self.get_mut(0)
    }
    pub(crate) fn back(&self) -> Option<&T> {
        self.get(self.len.wrapping_sub(1))
    }
    pub(crate) fn back_mut(&mut self) -> Option<&mut T> {
        self.get_mut(self.len.wrapping_sub(1))
    }
    #[inline(always)]
    pub(crate) fn push_back(&mut self, value: T) {
        if self.len == self.slots.len() {
            self.grow(value);
        }
        let slot = self.slot(self.len);
        self.slots[slot] = value;
        self.len += 1;
    }
    #[inline(always)]
    pub(crate) fn drop_front(&mut self, n: usize) {
        debug_assert!(n <= self.len);
        self.head = self.head.wrapping_add(n);
        self.len -= n;
    }
    /// Doubles the number of slots; `filler` initializes the new ones.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, filler: T) {
        let mut larger = vec![filler; (2 * self.slots.len()).max(MIN_SLOTS)];
        let mask = larger.len() - 1;
        for i in 0..self.len {
            larger[self.head.wrapping_add(i) & mask] = self[i];
        }
        self.slots = larger;
    }
    pub(crate) fn remove(&mut self, position: usize) {
        for i in position + 1..self.len {
            self[i - 1] = self[i];
        }
        self.len -= 1;
    }
    /// Returns the number of leading elements that satisfy `before`, as `slice::partition_point` does.
    pub(crate) fn partition_point(&self, before: impl Fn(&T) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = (low + high) / 2;
            if before(&self[middle]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        (0..self.len).map(|i| &self[i])
    }
    pub(crate) fn for_each_mut(&mut self, mut change: impl FnMut(&mut T)) {
        for i in 0..self.len {
            change(&mut self[i]);
        }
    }
}

impl<T: Copy> Index<usize> for Ring<T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, position: usize) -> &T {
        debug_assert!(position < self.len);
        &self.slots[self.slot(position)]
    }
}

impl<T: Copy> IndexMut<usize> for Ring<T> {
    #[inline(always)]
    fn index_mut(&mut self, position: usize) -> &mut T {
        debug_assert!(position < self.len);
        let slot = self.slot(position);
        &mut self.slots[slot]
    }
}

/// Number of slots for a queue that is hardly used.
const MIN_SLOTS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn ring_matches_a_deque(steps in prop::collection::vec((0..7, 0usize..40), 0..200)) {
            let mut ring = Ring::default();
            let mut deque = VecDeque::new();
            for (i, (kind, place)) in steps.into_iter().enumerate() {
                let within = place.min(deque.len());
                match kind {
                    0 if !deque.is_empty() => {
                        ring.drop_front(1);
                        deque.pop_front();
                    }
                    1 if within < deque.len() => {
                        ring.remove(within);
                        deque.remove(within);
                    }
                    2 => {
                        ring.drop_front(within / 2);
                        deque.drain(..within / 2);
                    }
                    3 => {
                        ring.for_each_mut(|e| *e += 1);
                        deque.iter_mut().for_each(|e| *e += 1);
                    }
                    _ => {
                        ring.push_back(i);
                        deque.push_back(i);
                    }
                }
                prop_assert_eq!(ring.iter().collect::<Vec<_>>(), deque.iter().collect::<Vec<_>>());
                prop_assert_eq!((ring.front(), ring.back()), (deque.front(), deque.back()));
                prop_assert_eq!((ring.get(place), ring.len()), (deque.get(place), deque.len()));
                prop_assert!(ring.capacity() >= ring.len());
            }
        }

        #[test]
        fn partition_point_matches_a_slice(sizes in prop::collection::vec(0u32..50, 0..40), limit in 0u32..50) {
            let mut sizes = sizes;
            sizes.sort_unstable();
            let mut ring = Ring::default();
            sizes.iter().for_each(|s| ring.push_back(*s));
            prop_assert_eq!(ring.partition_point(|s| *s < limit), sizes.partition_point(|s| *s < limit));
        }
    }
}
