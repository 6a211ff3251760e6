//! The link events of a connection that has no sending half yet.

use super::{CongestionControl, Flow, LinkEvent, Permit};
use crate::units::Time;

/// The link events before the end of the handshake, kept for the sending half, and the permit of an algorithm that
/// receives only these: no packet of the handshake may leave when the connection would be held. All events are kept,
/// since an algorithm may depend on their order, as one with hysteresis does.
#[derive(Debug, Default)]
pub struct LinkHistory {
    events: Vec<LinkEvent>,
    /// From the first event on: the connection before its handshake, and an algorithm for it.
    listener: Option<Box<(Flow, Box<dyn CongestionControl>)>>,
}

impl LinkHistory {
    /// Records an event; `begin` makes the connection as it is before its handshake, and an algorithm for it.
    pub fn note(&mut self, now: Time, event: &LinkEvent, begin: impl FnOnce() -> (Flow, Box<dyn CongestionControl>)) {
        self.events.push(*event);
        let (flow, cc) = &mut **self.listener.get_or_insert_with(|| Box::new(begin()));
        flow.now = now;
        cc.on_link(flow, event);
    }
    /// The recorded events, in order.
    pub fn events(&self) -> &[LinkEvent] {
        &self.events
    }
    /// Whether nothing may leave, not even a handshake.
    pub fn holds(&self) -> bool {
        self.listener.as_ref().is_some_and(|l| l.1.permit(&l.0) == Permit::Hold)
    }
}
