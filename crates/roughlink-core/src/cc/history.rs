//! What a connection was told of its links before it had a sending half.

use super::{CongestionControl, Flow, LinkEvent, Permit};
use crate::units::Time;

/// The events before the handshake was over, for the sending half that begins after them; and what its algorithm, told of
/// nothing else, permits meanwhile: a handshake must not leave either where the connection would be held. All events are
/// kept, since an algorithm may go by their order, as one with hysteresis does.
#[derive(Debug, Default)]
pub struct LinkHistory {
    events: Vec<LinkEvent>,
    /// Since the first event: the connection before its handshake, and an algorithm for it.
    listener: Option<Box<(Flow, Box<dyn CongestionControl>)>>,
}

impl LinkHistory {
    /// Notes an event; `begin` makes the connection as it is before its handshake, and an algorithm for it.
    pub fn note(&mut self, now: Time, event: &LinkEvent, begin: impl FnOnce() -> (Flow, Box<dyn CongestionControl>)) {
        self.events.push(*event);
        let (flow, cc) = &mut **self.listener.get_or_insert_with(|| Box::new(begin()));
        flow.now = now;
        cc.on_link(flow, event);
    }
    /// The events noted, in the order in which they came.
    pub fn events(&self) -> &[LinkEvent] {
        &self.events
    }
    /// Whether nothing may leave, a handshake neither.
    pub fn holds(&self) -> bool {
        self.listener.as_ref().is_some_and(|l| l.1.permit(&l.0) == Permit::Hold)
    }
}
