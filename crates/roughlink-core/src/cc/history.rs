//! Link events of a connection without a sending half.

use super::{CongestionControl, Flow, LinkEvent, Permit};
use crate::units::Time;

/// Link events before the end of the handshake, kept for the sending half, and the permit of an algorithm that receives
/// only these events. No packet of the handshake may leave while the algorithm holds the connection. All events are
/// kept, because an algorithm may depend on their order, e.g. one with hysteresis.
#[derive(Debug, Default)]
pub struct LinkHistory {
    events: Vec<LinkEvent>,
    /// Created at the first event: the connection before its handshake, and an algorithm for it.
    listener: Option<Box<(Flow, Box<dyn CongestionControl>)>>,
}

impl LinkHistory {
    /// Records an event; `begin` creates the connection in its state before the handshake, and an algorithm for it.
    pub fn note(&mut self, now: Time, event: &LinkEvent, begin: impl FnOnce() -> (Flow, Box<dyn CongestionControl>)) {
        self.events.push(*event);
        let (flow, cc) = &mut **self.listener.get_or_insert_with(|| Box::new(begin()));
        flow.now = now;
        cc.on_link(flow, event);
    }
    /// Returns the recorded events, in order.
    pub fn events(&self) -> &[LinkEvent] {
        &self.events
    }
    /// Returns true if no packet may leave, not even of the handshake.
    pub fn holds(&self) -> bool {
        self.listener.as_ref().is_some_and(|l| l.1.permit(&l.0) == Permit::Hold)
    }
}
