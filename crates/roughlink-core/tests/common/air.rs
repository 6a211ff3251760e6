//! Datagrams between two ends, some of which are lost, late or duplicated.

use proptest::prelude::*;
use roughlink_core::units::Time;
use std::collections::BTreeMap;

/// Path between two ends, in both directions.
#[derive(Clone, Debug)]
pub struct Air {
    /// Delay, us.
    delay: u64,
    jitter: u64,
    /// Loss, percent.
    loss: u64,
    repeat: u64,
    /// Outages: in each period of `outage.1` ms, nothing passes in the first `outage.0` ms.
    outage: (u64, u64),
    /// State of a separate generator, so that one number describes a case.
    dice: u64,
    sent: u64,
    datagrams: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
}

/// Generates paths with loss, reordering, duplication and outages.
pub fn air() -> impl Strategy<Value = Air> {
    let times = (0u64..60_000, prop_oneof![Just(0), 0u64..40_000]);
    let chances = (prop_oneof![Just(0), 0u64..12], prop_oneof![Just(0), 0u64..10]);
    let outage = prop_oneof![Just((0, 1)), (0u64..1_500, 3_000u64..9_000)];
    (times, chances, outage, any::<u64>()).prop_map(|((delay, jitter), (loss, repeat), outage, dice)| Air {
        delay: delay + 1,
        jitter,
        loss,
        repeat,
        outage,
        dice,
        sent: 0,
        datagrams: BTreeMap::new(),
    })
}

impl Air {
    /// Creates a path with a constant delay in us, without impairments.
    #[allow(dead_code, reason = "some tests use only random paths")]
    pub fn undisturbed(delay: u64) -> Self {
        Air { delay, jitter: 0, loss: 0, repeat: 0, outage: (0, 1), dice: 1, sent: 0, datagrams: BTreeMap::new() }
    }
    pub fn loses(&self) -> bool {
        self.loss > 0 || self.outage.0 > 0
    }
    pub fn send(&mut self, now: Time, to: usize, datagram: &[u8]) {
        self.sent += 1;
        let lost = self.hit(self.loss) || now.as_millis() % self.outage.1 < self.outage.0;
        for copy in 0..1 + u64::from(self.hit(self.repeat)) {
            let at = now + Time::from_micros(self.delay + self.below(self.jitter + 1));
            if !lost {
                self.datagrams.insert((at, 2 * self.sent + copy), (to, datagram.to_vec()));
            }
        }
    }
    /// Returns the time of the next arrival; [`Time::MAX`] = no datagram is in flight.
    pub fn next(&self) -> Time {
        self.datagrams.first_key_value().map_or(Time::MAX, |(k, _)| k.0)
    }
    /// Returns the next datagram that has arrived by `now`, with its receiver.
    pub fn take(&mut self, now: Time) -> Option<(usize, Vec<u8>)> {
        self.datagrams.first_entry().filter(|e| e.key().0 <= now).map(|e| e.remove())
    }
    fn below(&mut self, n: u64) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % n.max(1)
    }
    fn hit(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
