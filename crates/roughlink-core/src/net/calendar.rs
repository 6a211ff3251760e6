//! What happens next: a winner tree with one leaf per source of events.
//!
//! Every link direction and every flow owns a leaf that holds the time of its next event. The winner is the earliest
//! leaf, and among equal times the lowest: an order fixed by the scenario, whatever else happens, so that running parts
//! of a network apart cannot change a result.

use crate::units::Time;

/// The tree.
#[derive(Debug)]
pub struct Calendar {
    times: Vec<Time>,
    /// Winner of each inner node; node 1 is the root.
    winners: Vec<u32>,
    base: usize,
}

impl Calendar {
    /// `leaves` leaves, all at "never".
    pub fn new(leaves: usize) -> Self {
        let base = leaves.max(2).next_power_of_two();
        let mut winners = vec![0; base];
        for node in (1..base).rev() {
            winners[node] = if 2 * node >= base { (2 * node - base) as u32 } else { winners[2 * node] };
        }
        Calendar { times: vec![Time::MAX; base], winners, base }
    }

    /// The earliest leaf and its time.
    #[inline]
    pub fn next(&self) -> (Time, usize) {
        let leaf = self.winners[1] as usize;
        (self.times[leaf], leaf)
    }

    /// The time of `leaf`.
    #[inline]
    pub fn time(&self, leaf: usize) -> Time {
        self.times[leaf]
    }

    /// Sets the time of `leaf`.
    #[inline]
    pub fn set(&mut self, leaf: usize, time: Time) {
        self.times[leaf] = time;
        let mut node = (self.base + leaf) / 2;
        // The lowest level compares leaves, the others winners.
        let pair = leaf & !1;
        let mut winner = if self.times[pair + 1] < self.times[pair] { pair + 1 } else { pair };
        self.winners[node] = winner as u32;
        while node > 1 {
            let sibling = self.winners[node ^ 1] as usize;
            let (left, right) = if node & 1 == 0 { (winner, sibling) } else { (sibling, winner) };
            winner = if self.times[right] < self.times[left] { right } else { left };
            node /= 2;
            self.winners[node] = winner as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_winner_is_the_earliest_then_the_lowest(
            leaves in 1usize..40,
            sets in prop::collection::vec((0usize..40, 0u64..20), 1..200),
        ) {
            let mut c = Calendar::new(leaves);
            let mut times = vec![u64::MAX; leaves];
            for (leaf, t) in sets {
                let leaf = leaf % leaves;
                c.set(leaf, Time(t));
                times[leaf] = t;
                let best = (0..leaves).min_by_key(|&i| (times[i], i)).unwrap();
                prop_assert_eq!(c.next(), (Time(times[best]), best));
            }
        }
    }
}
