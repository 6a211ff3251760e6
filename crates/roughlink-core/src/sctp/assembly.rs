//! Messages in several chunks (RFC 9260 section 6.9): parts with consecutive TSNs, from beginning to end.

use super::part::MessagePart;
use std::collections::BTreeMap;

/// A message, or a run of its parts received without a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PartRun {
    pub first: u64,
    pub last: u64,
    /// Stream, number and flags of the run; `len` is the length of the first part only.
    pub part: MessagePart,
    /// Bytes of the received parts not yet delivered.
    pub bytes: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Assembly {
    /// Runs by their first TSN.
    runs: BTreeMap<u64, PartRun>,
}

impl Assembly {
    /// Adds the part with a new TSN. Returns the run that contains it and removes the run if it is complete.
    pub(super) fn add(&mut self, tsn: u64, part: MessagePart) -> PartRun {
        let mut run = PartRun { first: tsn, last: tsn, part, bytes: u64::from(part.len) };
        let before = self.runs.range(..tsn).next_back().map(|(_, run)| *run);
        if let Some(before) = before.filter(|b| b.last + 1 == tsn && b.goes_on_with(&run)) {
            self.runs.remove(&before.first);
            run = before.and(&run);
        }
        let after = self.runs.get(&(tsn + 1)).copied();
        if let Some(after) = after.filter(|a| run.goes_on_with(a)) {
            self.runs.remove(&after.first);
            run = run.and(&after);
        }
        if !run.is_whole() {
            self.runs.insert(run.first, run);
        }
        run
    }

    /// Marks the received parts of a run as delivered: they no longer occupy the buffer.
    pub(super) fn mark_delivered(&mut self, first: u64) {
        if let Some(run) = self.runs.get_mut(&first) {
            run.bytes = 0;
        }
    }

    /// Removes a run that can never be complete, since all TSNs up to `cumulative` have arrived or were skipped.
    pub(super) fn broken(&mut self, cumulative: u64) -> Option<PartRun> {
        let is_broken = |run: &PartRun| run.last < cumulative || (!run.part.begins && run.first <= cumulative);
        let (&first, _) = self.runs.first_key_value().filter(|(_, run)| is_broken(run))?;
        self.runs.remove(&first)
    }

    /// Removes a run that begins at `tsn` or before: it will never be complete.
    pub(super) fn abandon(&mut self, tsn: u64) -> Option<PartRun> {
        let (&first, _) = self.runs.first_key_value().filter(|(first, _)| **first <= tsn)?;
        self.runs.remove(&first)
    }
}

impl PartRun {
    pub(super) fn is_whole(&self) -> bool {
        self.part.begins && self.part.ends
    }

    fn goes_on_with(&self, next: &PartRun) -> bool {
        let key = |run: &PartRun| (run.part.stream, run.part.ssn, run.part.ordered);
        !self.part.ends && !next.part.begins && key(self) == key(next)
    }

    fn and(&self, next: &PartRun) -> PartRun {
        let part = MessagePart { ends: next.part.ends, ..self.part };
        PartRun { first: self.first, last: next.last, part, bytes: self.bytes + next.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(begins: bool, ends: bool) -> MessagePart {
        MessagePart { stream: 1, ssn: 7, len: 10, ordered: true, begins, ends }
    }

    #[test]
    fn parts_assemble_in_any_order() {
        let parts = [part(true, false), part(false, false), part(false, false), part(false, true)];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [1, 3, 0, 2], [0, 3, 2, 1]] {
            let mut assembly = Assembly::default();
            let runs = order.map(|i| assembly.add(5 + i as u64, parts[i]));
            assert!(runs[..3].iter().all(|run| !run.is_whole()), "{runs:?}");
            assert_eq!((runs[3].is_whole(), runs[3].first, runs[3].last, runs[3].bytes), (true, 5, 8, 40));
            assert!(assembly.runs.is_empty());
        }
    }

    #[test]
    fn parts_of_different_messages_are_not_joined() {
        let mut assembly = Assembly::default();
        assembly.add(5, part(true, false));
        assert!(!assembly.add(6, MessagePart { ssn: 8, ..part(false, true) }).is_whole());
        assert!(!assembly.add(7, part(true, false)).is_whole());
        assert!(!assembly.add(8, MessagePart { ordered: false, ..part(false, true) }).is_whole());
        assert_eq!(assembly.runs.len(), 4);
        assert_eq!(assembly.abandon(4), None);
        assert_eq!(assembly.abandon(6).map(|run| run.first), Some(5));
        assert_eq!(assembly.abandon(6).map(|run| run.first), Some(6));
        assert_eq!((assembly.abandon(6), assembly.runs.len()), (None, 2));
    }
}
