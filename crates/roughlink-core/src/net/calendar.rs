//! The event calendar: a winner tree, eight children to a node, one leaf per source of events.
//!
//! Every link direction and every flow owns a leaf that holds the time of its next event. The winner is the earliest
//! leaf, and the lowest among equal times. The scenario alone fixes this order, so running parts of a network
//! separately cannot change a result. Up to eight leaves are scanned without a tree.

use crate::units::Time;

const ARITY: usize = 8;

/// The calendar.
#[derive(Debug)]
pub struct Calendar {
    /// Level 0 holds the leaves; level n the earliest time of each eight of level n - 1. The last level has one block.
    top: [Time; ARITY],
    /// The other levels, one after the other.
    blocks: Vec<[Time; ARITY]>,
    /// First block of each level in `blocks`.
    lower: Vec<usize>,
}

impl Calendar {
    /// Creates `leaves` leaves, all set to "never".
    pub fn new(leaves: usize) -> Self {
        let (mut lower, mut blocks) = (Vec::new(), 0);
        let mut n = leaves.div_ceil(ARITY);
        while n > 1 {
            lower.push(blocks);
            blocks += n;
            n = n.div_ceil(ARITY);
        }
        Calendar { top: [Time::MAX; ARITY], blocks: vec![[Time::MAX; ARITY]; blocks], lower }
    }

    /// Returns the earliest leaf and its time.
    #[inline(always)]
    pub fn next(&self) -> (Time, usize) {
        let (time, mut index) = earliest(&self.top);
        for first in self.lower.iter().rev() {
            index = index * ARITY + earliest(&self.blocks[first + index]).1;
        }
        (time, index)
    }

    /// Returns the time of `leaf`.
    #[inline(always)]
    pub fn time(&self, leaf: usize) -> Time {
        let block = self.blocks.get(leaf / ARITY).unwrap_or(&self.top);
        block[leaf % ARITY]
    }

    /// Sets the time of `leaf`.
    #[inline(always)]
    pub fn set(&mut self, leaf: usize, time: Time) {
        let mut index = leaf;
        let mut time = time;
        for first in &self.lower {
            let block = &mut self.blocks[first + index / ARITY];
            let before = earliest(block).0;
            block[index % ARITY] = time;
            time = earliest(block).0;
            if time == before {
                return; // nothing above changes
            }
            index /= ARITY;
        }
        self.top[index % ARITY] = time;
    }
}

/// Returns the earliest entry of a block, the lowest among equals.
#[inline(always)]
fn earliest(block: &[Time; ARITY]) -> (Time, usize) {
    // Pairwise, so that the comparisons are independent of each other.
    let pick = |a: (Time, usize), b: (Time, usize)| if b.0 < a.0 { b } else { a };
    let pair = |i: usize| pick((block[i], i), (block[i + 1], i + 1));
    pick(pick(pair(0), pair(2)), pick(pair(4), pair(6)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn earliest_then_lowest_leaf_wins(
            leaves in 1usize..700,
            sets in prop::collection::vec((0usize..700, 0u64..20), 1..200),
        ) {
            let mut c = Calendar::new(leaves);
            let mut times = vec![u64::MAX; leaves];
            for (leaf, t) in sets {
                let leaf = leaf % leaves;
                c.set(leaf, Time(t));
                times[leaf] = t;
                let best = (0..leaves).min_by_key(|&i| (times[i], i)).unwrap();
                prop_assert_eq!(c.next(), (Time(times[best]), best));
                prop_assert_eq!(c.time(leaf), Time(t));
            }
        }
    }
}
