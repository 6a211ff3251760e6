//! Observing a network at work: packets at hosts, senders, queues, links, gateways.

use super::end::Sending;
use super::routing::Hop;
use crate::app::request::Session;
use crate::gateway;
use crate::link::pipe::Pipe;
use crate::packet::{Packet, Sides};
use crate::units::Time;

/// Which way a packet crosses a host's interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// It leaves the host.
    Out,
    /// It reaches the host.
    In,
}

/// Where a packet crosses a host's interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crossing {
    /// The host.
    pub node: usize,
    /// The link direction beside the interface.
    pub hop: Hop,
    /// Out to the link, or in from it.
    pub way: Way,
    /// The packet's flow as the scenario counts them; [`Packet::flow`] counts within its component. Flows from one port to
    /// another follow those of the scenario.
    pub flow: usize,
}

/// The state of a link direction at an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkState {
    /// Packets get through.
    pub up: bool,
    /// Packets that wait.
    pub waiting: usize,
    /// Packets that have found the queue full so far.
    pub drops: u64,
}

impl LinkState {
    pub(super) fn of(pipe: &mut Pipe, now: Time) -> Self {
        LinkState { up: pipe.is_up(), waiting: pipe.waiting(now), drops: pipe.stats.dropped }
    }
}

/// Observes a run. Every method is a no-op unless implemented, and then costs nothing.
pub trait Observer {
    /// Whether flows and queues are to be reported at all.
    const ACTIVE: bool = true;
    /// A packet crosses a host's interface: on its way out before it is queued or cut into fragments, on its way in
    /// before it is reassembled.
    fn packet(&mut self, _now: Time, _at: Crossing, _packet: &Packet, _sides: &Sides) {}
    /// A datagram from outside, or for outside, crosses the interface at its port.
    fn datagram(&mut self, _now: Time, _at: Crossing, _bytes: &[u8]) {}
    /// An end of flow `index`, a charging session, is about to send a packet.
    fn session(&mut self, _now: Time, _index: usize, _session: &Session) {}
    /// The sender of flow `index` has taken in an event; `delivered` bytes have reached the application.
    fn flow(&mut self, _now: Time, _index: usize, _sender: Sending<'_>, _delivered: u64) {}
    /// A link direction's queue now holds `waiting` packets; `drops` so far.
    fn queue(&mut self, _now: Time, _hop: Hop, _waiting: usize, _drops: u64) {}
    /// A pipe direction has given out a packet, or its link has changed: whether packets get through now, and what
    /// [`Observer::queue`] would report.
    fn link(&mut self, _now: Time, _hop: Hop, _state: &mut dyn FnMut() -> LinkState) {}
    /// The queue of a shared medium's port has changed, too: `of` returns how many packets of a flow of the scenario are in it,
    /// those sent and not acknowledged included.
    fn backlog(&mut self, _now: Time, _hop: Hop, _of: &dyn Fn(usize) -> u32) {}
    /// Gateway `index` of the scenario has seen something pass; its flows are numbered as the scenario counts them.
    fn gateway(&mut self, _now: Time, _index: usize, _stats: &dyn Fn() -> gateway::Stats) {}
    /// Called before every event: an observer that cannot continue ends the run, whose result is then incomplete.
    fn stop(&self) -> bool {
        false
    }
    /// A part of the network has come to its end: side slots in use, and packets on links or in reassembly that hold one.
    /// The two are equal unless slots leak.
    fn end(&mut self, _slots: usize, _held: usize) {}
}

/// Two observers of the same run.
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

/// An observer that may be absent.
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
