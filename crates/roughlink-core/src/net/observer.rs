//! Observation of a running network: packets at hosts, senders, queues, links, gateways.

use super::end::Sending;
use super::routing::Hop;
use crate::app::request::Session;
use crate::gateway;
use crate::link::pipe::Pipe;
use crate::packet::{Packet, Sides};
use crate::units::Time;

/// Direction of a packet at a host's interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InterfaceDirection {
    /// Leaves the host.
    Out,
    /// Reaches the host.
    In,
}

/// Point at which a packet crosses a host's interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crossing {
    /// Node of the host.
    pub node: usize,
    /// Link direction next to the interface.
    pub hop: Hop,
    /// Out to the link, or in from it.
    pub direction: InterfaceDirection,
    /// Scenario number of the packet's flow ([`Packet::flow`] is local to a component); flows between ports come after.
    pub flow: usize,
}

/// State of a link direction at an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkState {
    /// Set if packets pass.
    pub up: bool,
    /// Waiting packets.
    pub waiting: usize,
    /// Packets dropped so far because the queue was full.
    pub drops: u64,
}

impl LinkState {
    pub(super) fn new(pipe: &mut Pipe, now: Time) -> Self {
        LinkState { up: pipe.is_up(), waiting: pipe.waiting(now), drops: pipe.stats.dropped }
    }
}

/// Observes a run. Methods that are not implemented do nothing and cost nothing.
pub trait Observer {
    /// Enables reports on flows and queues.
    const ACTIVE: bool = true;
    /// Reports a packet at a host's interface: outgoing before queueing and fragmentation, incoming before reassembly.
    fn packet(&mut self, _now: Time, _at: Crossing, _packet: &Packet, _sides: &Sides) {}
    /// Reports a datagram from or for outside at its port's interface.
    fn datagram(&mut self, _now: Time, _at: Crossing, _bytes: &[u8]) {}
    /// Reports a frame without an IP datagram, from or for outside, at its port. `_peer` is the node at the other end.
    fn frame(&mut self, _now: Time, _at: Crossing, _peer: usize, _bytes: &[u8]) {}
    /// Reports that an end of flow `index`, a charging session, is about to send a packet.
    fn session(&mut self, _now: Time, _index: usize, _session: &Session) {}
    /// Reports that the sender of flow `index` processed an event; `delivered` bytes have reached the application.
    fn flow(&mut self, _now: Time, _index: usize, _sender: Sending<'_>, _delivered: u64) {}
    /// Reports that a link direction's queue now holds `waiting` packets, with `drops` so far.
    fn queue(&mut self, _now: Time, _hop: Hop, _waiting: usize, _drops: u64) {}
    /// Reports that a packet left a pipe direction or that its link changed. `_state` returns the current state,
    /// including the values that [`Observer::queue`] would report.
    fn link(&mut self, _now: Time, _hop: Hop, _state: &mut dyn FnMut() -> LinkState) {}
    /// Reports that the queue of a shared medium's port changed, after [`Observer::queue`]. `_of` returns the number of
    /// packets of a scenario's flow in it, including those sent and not acknowledged.
    fn backlog(&mut self, _now: Time, _hop: Hop, _of: &dyn Fn(usize) -> u32) {}
    /// Reports that traffic passed gateway `index` of the scenario; `_stats` uses the scenario's flow numbers.
    fn gateway(&mut self, _now: Time, _index: usize, _stats: &dyn Fn() -> gateway::Stats) {}
    /// Returns true to end the run with incomplete results. Called before every event.
    fn stop(&self) -> bool {
        false
    }
    /// Reports the end of a component of the network: side slots in use, and packets on links or in reassembly that
    /// hold one. The two are equal unless slots leak.
    fn end(&mut self, _slots: usize, _held: usize) {}
}

impl<A: Observer, B: Observer> Observer for (A, B) {
    const ACTIVE: bool = A::ACTIVE || B::ACTIVE;
    fn packet(&mut self, now: Time, at: Crossing, packet: &Packet, sides: &Sides) {
        self.0.packet(now, at, packet, sides);
        self.1.packet(now, at, packet, sides);
    }
    fn datagram(&mut self, now: Time, at: Crossing, bytes: &[u8]) {
        self.0.datagram(now, at, bytes);
        self.1.datagram(now, at, bytes);
    }
    fn frame(&mut self, now: Time, at: Crossing, peer: usize, bytes: &[u8]) {
        self.0.frame(now, at, peer, bytes);
        self.1.frame(now, at, peer, bytes);
    }
    fn session(&mut self, now: Time, index: usize, session: &Session) {
        self.0.session(now, index, session);
        self.1.session(now, index, session);
    }
    fn flow(&mut self, now: Time, index: usize, sender: Sending<'_>, delivered: u64) {
        self.0.flow(now, index, sender, delivered);
        self.1.flow(now, index, sender, delivered);
    }
    fn queue(&mut self, now: Time, hop: Hop, waiting: usize, drops: u64) {
        self.0.queue(now, hop, waiting, drops);
        self.1.queue(now, hop, waiting, drops);
    }
    fn link(&mut self, now: Time, hop: Hop, state: &mut dyn FnMut() -> LinkState) {
        self.0.link(now, hop, state);
        self.1.link(now, hop, state);
    }
    fn backlog(&mut self, now: Time, hop: Hop, of: &dyn Fn(usize) -> u32) {
        self.0.backlog(now, hop, of);
        self.1.backlog(now, hop, of);
    }
    fn gateway(&mut self, now: Time, index: usize, stats: &dyn Fn() -> gateway::Stats) {
        self.0.gateway(now, index, stats);
        self.1.gateway(now, index, stats);
    }
    fn stop(&self) -> bool {
        self.0.stop() || self.1.stop()
    }
    fn end(&mut self, slots: usize, held: usize) {
        self.0.end(slots, held);
        self.1.end(slots, held);
    }
}

impl<O: Observer> Observer for Option<O> {
    const ACTIVE: bool = O::ACTIVE;
    fn packet(&mut self, now: Time, at: Crossing, packet: &Packet, sides: &Sides) {
        if let Some(o) = self {
            o.packet(now, at, packet, sides);
        }
    }
    fn datagram(&mut self, now: Time, at: Crossing, bytes: &[u8]) {
        if let Some(o) = self {
            o.datagram(now, at, bytes);
        }
    }
    fn frame(&mut self, now: Time, at: Crossing, peer: usize, bytes: &[u8]) {
        if let Some(o) = self {
            o.frame(now, at, peer, bytes);
        }
    }
    fn session(&mut self, now: Time, index: usize, session: &Session) {
        if let Some(o) = self {
            o.session(now, index, session);
        }
    }
    fn flow(&mut self, now: Time, index: usize, sender: Sending<'_>, delivered: u64) {
        if let Some(o) = self {
            o.flow(now, index, sender, delivered);
        }
    }
    fn queue(&mut self, now: Time, hop: Hop, waiting: usize, drops: u64) {
        if let Some(o) = self {
            o.queue(now, hop, waiting, drops);
        }
    }
    fn link(&mut self, now: Time, hop: Hop, state: &mut dyn FnMut() -> LinkState) {
        if let Some(o) = self {
            o.link(now, hop, state);
        }
    }
    fn backlog(&mut self, now: Time, hop: Hop, of: &dyn Fn(usize) -> u32) {
        if let Some(o) = self {
            o.backlog(now, hop, of);
        }
    }
    fn gateway(&mut self, now: Time, index: usize, stats: &dyn Fn() -> gateway::Stats) {
        if let Some(o) = self {
            o.gateway(now, index, stats);
        }
    }
    fn stop(&self) -> bool {
        self.as_ref().is_some_and(O::stop)
    }
    fn end(&mut self, slots: usize, held: usize) {
        if let Some(o) = self {
            o.end(slots, held);
        }
    }
}

/// Observes nothing.
#[derive(Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    const ACTIVE: bool = false;
}
