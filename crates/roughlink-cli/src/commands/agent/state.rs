//! State of the link, derived from its events.

use roughlink_core::cc::LinkEvent;
use roughlink_core::cc::coverage::{Coverage, Level, Rules};
use roughlink_host::{CoverageMessage, DeviceState};

/// State of the link: what programs that connect now must know.
#[derive(Debug)]
pub(super) struct KnownLink {
    device: DeviceState,
    signal: Option<f64>,
    threshold: Option<(f64, f64)>,
    coverage: Coverage,
}

impl KnownLink {
    /// Creates the state of a link that is up and configured, with a threshold and a hysteresis if they are known.
    pub(super) fn new(threshold: Option<(f64, f64)>) -> Self {
        let rules = Rules { threshold: Level::ANNOUNCED, hysteresis: Level::ANNOUNCED, needs_l3: true };
        let device = DeviceState { up: true, configured: true };
        let mut state = KnownLink { device, signal: None, threshold: None, coverage: Coverage::new(rules) };
        if let Some((dbm, hysteresis)) = threshold {
            state.apply(&LinkEvent::Threshold { dbm, hysteresis });
        }
        state
    }

    /// Returns true if there is coverage.
    pub(super) fn has_coverage(&self) -> bool {
        self.coverage.has_coverage()
    }

    /// Returns the events that lead to a state of the device.
    pub(super) fn events_to(&self, new: DeviceState) -> Vec<LinkEvent> {
        let old = self.device;
        let mut events = Vec::new();
        // No event says that addresses are gone, so the link goes down and up.
        if old.up && (!new.up || old.configured && !new.configured) {
            events.push(LinkEvent::Down);
        }
        if new.up && (!old.up || !events.is_empty()) {
            events.push(LinkEvent::Up);
        }
        if new.configured && (!old.configured || !events.is_empty()) {
            events.push(LinkEvent::Configured);
        }
        events
    }

    /// Processes an event and returns its message; `None` for events that say nothing new, or that have no message.
    pub(super) fn apply(&mut self, event: &LinkEvent) -> Option<CoverageMessage> {
        let before = (self.device, self.signal, self.threshold);
        let message = match *event {
            LinkEvent::Down => {
                (self.device, self.signal) = (DeviceState::default(), None);
                CoverageMessage::Down
            }
            LinkEvent::Up => {
                self.device.up = true;
                CoverageMessage::Up
            }
            LinkEvent::Configured => {
                self.device.configured = true;
                CoverageMessage::Configured
            }
            LinkEvent::Signal(dbm) => {
                self.signal = Some(dbm);
                CoverageMessage::Signal { dbm }
            }
            LinkEvent::Threshold { dbm, hysteresis } => {
                self.threshold = Some((dbm, hysteresis));
                CoverageMessage::Threshold { dbm, hysteresis_db: hysteresis }
            }
            _ => return None,
        };
        self.coverage.on_link(event);
        ((self.device, self.signal, self.threshold) != before).then_some(message)
    }

    /// Returns the messages that describe the present state to a program that assumes a link that is up and configured.
    pub(super) fn greeting(&self) -> Vec<CoverageMessage> {
        let threshold = self.threshold.map(|(dbm, hysteresis_db)| CoverageMessage::Threshold { dbm, hysteresis_db });
        let layers = match self.device {
            DeviceState { up: false, .. } => &[CoverageMessage::Down][..],
            DeviceState { configured: false, .. } => &[CoverageMessage::Down, CoverageMessage::Up],
            _ => &[CoverageMessage::Up, CoverageMessage::Configured],
        };
        let signal = self.signal.map(|dbm| CoverageMessage::Signal { dbm });
        threshold.into_iter().chain(layers.iter().copied()).chain(signal).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(up: bool, configured: bool) -> DeviceState {
        DeviceState { up, configured }
    }

    #[test]
    fn device_changes_become_events() {
        use LinkEvent::{Configured, Down, Up};
        let mut state = KnownLink::new(None);
        for (new, events) in [
            (device(true, true), &[][..]),
            (device(true, false), &[Down, Up]),
            (device(true, true), &[Configured]),
            (device(false, false), &[Down]),
            (device(false, false), &[]),
            (device(true, true), &[Up, Configured]),
        ] {
            let found = state.events_to(new);
            assert_eq!(found, events, "{new:?}");
            assert!(found.iter().all(|event| state.apply(event).is_some()));
            assert_eq!((state.device, state.has_coverage()), (new, new.configured));
        }
    }

    #[test]
    fn newcomers_reach_the_same_state() {
        let mut state = KnownLink::new(Some((-95.0, 5.0)));
        let events = [LinkEvent::Signal(-96.0), LinkEvent::Signal(-92.0), LinkEvent::Down, LinkEvent::Up];
        let more = [LinkEvent::Configured, LinkEvent::Signal(-92.0), LinkEvent::Signal(-89.0)];
        for event in events.iter().chain(&more) {
            state.apply(event);
            let rules = Rules { threshold: Level::ANNOUNCED, hysteresis: Level::ANNOUNCED, needs_l3: true };
            let mut newcomer = Coverage::new(rules);
            state.greeting().iter().for_each(|message| newcomer.on_link(&message.event().unwrap()));
            // Within the hysteresis, the past decides; a newcomer assumes the better.
            assert!(newcomer.has_coverage() >= state.has_coverage(), "{event:?}");
        }
        assert!(state.has_coverage());
        assert_eq!(state.apply(&LinkEvent::Signal(-89.0)), None, "nothing new");
    }
}
