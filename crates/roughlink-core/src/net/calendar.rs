//! The event calendar: a winner tree, eight children to a node, one leaf per source of events.
//!
//! Every link direction and every flow owns a leaf that holds the time of its next event. The winner is the earliest
//! leaf, and the lowest among equal times. The scenario alone fixes this order, so running parts of a network
//! separately cannot change a result. Up to eight leaves are scanned without a tree.

use crate::units::Time;

const ARITY: usize = 8;

/// A time, and in the lowest bits the place within its block: the least key is the earliest time, and among equal times
/// the lowest place.
type CalendarKey = u64;

const PLACE_BITS: u32 = ARITY.trailing_zeros();
/// Time of leaves without an event, after 73 years. Events from there on never happen.
pub const NEVER: Time = Time(u64::MAX >> PLACE_BITS);

/// The calendar.
#[derive(Debug)]
pub struct Calendar {
    /// Level 0 holds the leaves; level n the earliest time of each eight of level n - 1. The last level has one block.
    top: [CalendarKey; ARITY],
    /// The other levels, one after the other.
    blocks: Vec<[CalendarKey; ARITY]>,
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
        let empty = std::array::from_fn(|place| key(NEVER.0, place));
        Calendar { top: empty, blocks: vec![empty; blocks], lower }
    }

    /// Returns the earliest leaf and its time, at most [`NEVER`].
    #[inline(always)]
    pub fn next(&self) -> (Time, usize) {
        let key = earliest(&self.top);
        let mut index = key as usize % ARITY;
        for first in self.lower.iter().rev() {
            index = index * ARITY + earliest(&self.blocks[first + index]) as usize % ARITY;
        }
        (time_of(key), index)
    }

    /// Returns the time of `leaf`, at most [`NEVER`].
    #[inline(always)]
    pub fn time(&self, leaf: usize) -> Time {
        let block = self.blocks.get(leaf / ARITY).unwrap_or(&self.top);
        time_of(block[leaf % ARITY])
    }

    /// Sets the time of `leaf`.
    #[inline(always)]
    pub fn set(&mut self, leaf: usize, time: Time) {
        let mut index = leaf;
        let mut time = time.0.min(NEVER.0);
        for first in &self.lower {
            let block = &mut self.blocks[first + index / ARITY];
            let before = earliest(block) >> PLACE_BITS;
            block[index % ARITY] = key(time, index % ARITY);
            time = earliest(block) >> PLACE_BITS;
            if time == before {
                return; // nothing above changes
            }
            index /= ARITY;
        }
        self.top[index % ARITY] = key(time, index % ARITY);
    }
}

#[inline(always)]
const fn key(time: u64, place: usize) -> CalendarKey {
    time << PLACE_BITS | place as u64
}

#[inline(always)]
const fn time_of(key: CalendarKey) -> Time {
    Time(key >> PLACE_BITS)
}

/// Returns the least key of a block.
#[inline(always)]
fn earliest(block: &[CalendarKey; ARITY]) -> CalendarKey {
    // Pairwise, so that the comparisons are independent of each other.
    let pair = |i: usize| block[i].min(block[i + 1]);
    pair(0).min(pair(2)).min(pair(4).min(pair(6)))
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
            let mut times = vec![NEVER.0; leaves];
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
