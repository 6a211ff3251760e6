//! Observation of a running network: packets at hosts, senders, queues, links, gateways.

use super::end::Sending;
use super::routing::Hop;
use crate::app::request::v2gtp::OutgoingMessages;
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

/// An event of a network.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum NetworkEvent<'e> {
    /// A packet at a host's interface: outgoing before queueing and fragmentation, incoming before reassembly.
    Packet {
        /// Place of the packet.
        at: Crossing,
        /// The packet.
        packet: &'e Packet,
        /// Options and bytes of packets.
        sides: &'e Sides,
    },
    /// A datagram at a host's interface that comes from outside or leaves the network.
    Datagram {
        /// Place of the datagram.
        at: Crossing,
        /// The datagram.
        bytes: &'e [u8],
    },
    /// A frame without an IP datagram that enters or leaves the network at a port.
    Frame {
        /// Place of the frame.
        at: Crossing,
        /// Node at the other end.
        peer: usize,
        /// The frame.
        bytes: &'e [u8],
    },
    /// An end of a flow whose messages have content is about to send a packet.
    Messages {
        /// Scenario number of the flow.
        flow: usize,
        /// Messages that each end has written and its peer has not read; `None` outside the network.
        written: [Option<&'e OutgoingMessages>; 2],
    },
    /// The sender of a flow processed an event.
    Sender {
        /// Scenario number of the flow.
        flow: usize,
        /// The sender.
        sender: Sending<'e>,
        /// Bytes that have reached the application.
        delivered: u64,
    },
    /// The queue of a link direction changed.
    Queue {
        /// Link direction.
        hop: Hop,
        /// Waiting packets.
        waiting: usize,
        /// Packets dropped so far because the queue was full.
        drops: u64,
    },
    /// A packet left a pipe direction, or its link changed.
    Link {
        /// Link direction.
        hop: Hop,
        /// State, including the waiting and dropped packets as in [`NetworkEvent::Queue`].
        state: LinkState,
    },
    /// The queue of a shared medium's port changed. Follows [`NetworkEvent::Queue`].
    Backlog {
        /// Link direction.
        hop: Hop,
        /// Returns the number of packets that a flow (scenario number) has in the queue or sent and not acknowledged.
        of: &'e dyn Fn(usize) -> u32,
    },
    /// Traffic passed a gateway.
    Gateway {
        /// Scenario number of the gateway.
        gateway: usize,
        /// Returns the gateway's counters, with the scenario's flow numbers.
        stats: &'e dyn Fn() -> gateway::Stats,
    },
    /// A component of the network ended. The two counts are equal unless slots leak.
    End {
        /// Side slots in use.
        slots: usize,
        /// Packets on links or in reassembly that hold a side slot.
        held: usize,
    },
}

/// Observes a network ([`Network::observed_by`](super::Network::observed_by)).
pub trait Observer {
    /// Set if events are reported. Without reports, the network needs no time for them.
    const ACTIVE: bool = true;
    /// Handles an event.
    fn observe(&mut self, _now: Time, _event: NetworkEvent<'_>) {}
    /// Returns true to end the run with incomplete results. Called before every event.
    fn stop(&self) -> bool {
        false
    }
}

impl<O: Observer> Observer for &mut O {
    const ACTIVE: bool = O::ACTIVE;
    fn observe(&mut self, now: Time, event: NetworkEvent<'_>) {
        (**self).observe(now, event);
    }
    fn stop(&self) -> bool {
        (**self).stop()
    }
}

impl<A: Observer, B: Observer> Observer for (A, B) {
    const ACTIVE: bool = A::ACTIVE || B::ACTIVE;
    fn observe(&mut self, now: Time, event: NetworkEvent<'_>) {
        self.0.observe(now, event);
        self.1.observe(now, event);
    }
    fn stop(&self) -> bool {
        self.0.stop() || self.1.stop()
    }
}

impl<O: Observer> Observer for Option<O> {
    const ACTIVE: bool = O::ACTIVE;
    fn observe(&mut self, now: Time, event: NetworkEvent<'_>) {
        if let Some(o) = self {
            o.observe(now, event);
        }
    }
    fn stop(&self) -> bool {
        self.as_ref().is_some_and(O::stop)
    }
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    const ACTIVE: bool = false;
}
