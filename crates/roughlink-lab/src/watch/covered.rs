//! Bytes delivered while a train is in stations, by the stations' class.

use roughlink_core::scenario::Scenario;
use roughlink_core::units::Time;
use std::collections::BTreeMap;

/// Counters for the first link that has coverage.
#[derive(Debug)]
pub(super) struct CoverageCounters {
    /// Start and class of each stay. Bytes counted between two stays belong to the first: they are counted at the
    /// sender's next event.
    stays: Vec<(Time, String)>,
    /// Bytes delivered so far, by flow.
    last: Vec<u64>,
    bytes: BTreeMap<String, u64>,
}

impl CoverageCounters {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let stays = scenario.links.iter().map(|l| &l.stays).find(|s| !s.is_empty());
        let stays: Vec<_> = stays.into_iter().flatten().map(|s| (s.from, s.class.clone())).collect();
        let classes = stays.iter().map(|(_, class)| (class.clone(), 0));
        let bytes = classes.chain((!stays.is_empty()).then(|| (String::new(), 0))).collect();
        CoverageCounters { stays, last: vec![0; scenario.flows.len()], bytes }
    }

    /// Records that flow `index` has delivered `bytes` in total by `now`.
    pub(super) fn delivered(&mut self, now: Time, index: usize, bytes: u64) {
        let more = bytes - std::mem::replace(&mut self.last[index], bytes);
        let begun = self.stays.partition_point(|(from, _)| *from < now);
        let Some((_, class)) = begun.checked_sub(1).map(|i| &self.stays[i]) else { return };
        for name in [class.as_str(), ""].iter().take(1 + usize::from(!class.is_empty())) {
            *self.bytes.get_mut(*name).expect("every class has an entry") += more;
        }
    }

    /// Returns bytes by class; the total of all classes is under the empty name.
    pub(super) fn bytes(self) -> BTreeMap<String, u64> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(stays: &[(u64, &str)]) -> CoverageCounters {
        let stays: Vec<_> = stays.iter().map(|(s, class)| (Time::from_secs(*s), (*class).to_owned())).collect();
        let bytes = stays.iter().map(|(_, class)| (class.clone(), 0)).chain([(String::new(), 0)]).collect();
        CoverageCounters { stays, last: vec![0; 2], bytes }
    }

    #[test]
    fn bytes_count_for_the_class_of_the_current_stay() {
        let mut c = covered(&[(10, "low"), (50, "high"), (90, "low"), (95, "")]);
        for (now, flow, bytes) in [(20, 0, 100), (40, 0, 130), (50, 0, 131), (60, 1, 7), (91, 0, 200), (99, 0, 202)] {
            c.delivered(Time::from_secs(now), flow, bytes);
        }
        let bytes: Vec<_> = c.bytes().into_iter().collect();
        let expected = [("", 209), ("high", 7), ("low", 200)];
        assert_eq!(bytes, expected.map(|(class, bytes)| (class.to_owned(), bytes)));
    }
}
