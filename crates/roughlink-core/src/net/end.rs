//! One end of a transfer over any transport.

use crate::cc::{self, CongestionControl, LinkEvent};
use crate::packet::{FlowId, Packet, Sides};
use crate::rng::Seed;
use crate::scenario::{FlowSpec, Transport};
use crate::sctp;
use crate::sender::{SenderCore, SenderStats};
use crate::tcp;
use crate::units::Time;
use std::sync::Arc;

#[expect(clippy::large_enum_variant, reason = "nearly all are TCP's, and lie beside each other")]
pub(super) enum TransportEndpoint {
    Tcp(tcp::TcpEndpoint),
    Sctp(Box<sctp::SctpEndpoint>),
    /// The end is outside the network.
    Outside,
}

/// The sending half of an endpoint.
#[derive(Clone, Copy)]
pub enum Sending<'e> {
    /// Sender of a TCP connection.
    Tcp(&'e tcp::TcpSender),
    /// Sender of an SCTP association.
    Sctp(&'e sctp::SctpSender),
}

impl<'e> Sending<'e> {
    /// Returns the part common to all transports.
    fn core(self) -> &'e SenderCore {
        match self {
            Sending::Tcp(s) => s.core(),
            Sending::Sctp(s) => s.core(),
        }
    }
    /// Returns the state of the connection.
    pub fn flow(self) -> &'e cc::Flow {
        self.core().flow()
    }
    /// Returns the congestion control.
    pub fn cc(self) -> &'e dyn CongestionControl {
        self.core().cc()
    }
    /// Returns the counters.
    pub fn stats(self) -> &'e SenderStats {
        self.core().stats()
    }
    /// Returns the memory of unacknowledged data, bytes.
    pub fn bytes(self) -> usize {
        match self {
            Sending::Tcp(s) => s.bytes(),
            Sending::Sctp(s) => s.bytes(),
        }
    }
}

/// Calls the same method of either endpoint; an end outside has a value instead.
macro_rules! either {
    ($self:expr, $e:ident => $call:expr, $outside:expr) => {
        match $self {
            TransportEndpoint::Tcp($e) => $call,
            TransportEndpoint::Sctp($e) => $call,
            TransportEndpoint::Outside => $outside,
        }
    };
}

/// Creates an end of a TCP connection.
pub(super) fn connection(spec: &FlowSpec, id: FlowId) -> tcp::TcpEndpoint {
    let Transport::Tcp(cfg, cc) = &spec.transport else { panic!("`{}` has a connection over TCP", spec.name) };
    tcp::TcpEndpoint::new(id, Arc::clone(cfg), Arc::clone(&cc.factory), 0)
}

/// Creates an end of an SCTP association.
pub(super) fn association(spec: &FlowSpec, id: FlowId, seed: &Seed) -> sctp::SctpEndpoint {
    let Transport::Sctp(cfg, cc) = &spec.transport else { panic!("`{}` has an association", spec.name) };
    let mut endpoint = sctp::SctpEndpoint::new(id, Arc::clone(cfg), Arc::clone(&cc.factory), 1);
    let name = format!("{}.{}", spec.name, if id.reverse() { "reverse" } else { "forward" });
    endpoint.set_jitter(seed.stream(&name, "heartbeat"));
    endpoint
}

impl TransportEndpoint {
    pub(super) fn new(spec: &FlowSpec, id: FlowId, seed: &Seed) -> Self {
        match &spec.transport {
            Transport::Sctp(..) => TransportEndpoint::Sctp(Box::new(association(spec, id, seed))),
            _ => TransportEndpoint::Tcp(connection(spec, id)),
        }
    }
    pub(super) fn connect(&mut self) {
        either!(self, e => e.connect(), ());
    }
    pub(super) fn listen(&mut self) {
        either!(self, e => e.listen(), ());
    }
    pub(super) fn offer(&mut self, bytes: u64, close_after: bool) {
        either!(self, e => e.offer(bytes, close_after), ());
    }
    pub(super) fn close(&mut self) {
        either!(self, e => e.close(), ());
    }
    #[inline(always)]
    pub(super) fn receive(&mut self, now: Time, p: &Packet, sides: &Sides) {
        either!(self, e => e.receive(now, p, sides), ());
    }
    #[inline(always)]
    pub(super) fn transmit(&mut self, now: Time, sides: &mut Sides) -> Option<Packet> {
        either!(self, e => e.transmit(now, sides), None)
    }
    pub(super) fn wake(&mut self, now: Time) {
        either!(self, e => e.wake(now), ());
    }
    #[inline(always)]
    pub(super) fn next_wake(&self, now: Time) -> Time {
        either!(self, e => e.next_wake(now), Time::MAX)
    }
    pub(super) fn on_link(&mut self, now: Time, event: &LinkEvent) {
        either!(self, e => e.on_link(now, event), ());
    }
    /// Returns the time since data packet `p` left this end; `None` if that is unknown.
    #[inline(always)]
    pub(super) fn age_of(&self, now: Time, p: &Packet) -> Option<Time> {
        either!(self, e => e.age_of(now, p), None)
    }
    #[inline]
    pub(super) fn delivered(&self) -> u64 {
        either!(self, e => e.delivered(), 0)
    }
    #[inline]
    pub(super) fn peer_closed(&self) -> bool {
        either!(self, e => e.peer_closed(), false)
    }
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        either!(self, e => e.is_quiet(), true)
    }
    pub(super) fn is_outside(&self) -> bool {
        matches!(self, TransportEndpoint::Outside)
    }
    /// Returns true if the end was or will be opened passively and has no peer yet.
    pub(super) fn is_listening(&self) -> bool {
        self.failed_at().is_none() && either!(self, e => e.is_done(), false) && self.sender().is_none()
    }
    pub(super) fn failed_at(&self) -> Option<Time> {
        either!(self, e => e.failed_at(), None)
    }
    /// Returns the segments that this end dropped for an old timestamp.
    pub(super) fn rejected(&self) -> u64 {
        match self {
            TransportEndpoint::Tcp(e) => e.rejected(),
            TransportEndpoint::Sctp(_) | TransportEndpoint::Outside => 0,
        }
    }
    /// Returns the bytes sent by `peer`, the other end, that FORWARD TSNs skipped.
    pub(super) fn skipped_bytes(&self, peer: &TransportEndpoint) -> u64 {
        match (self, peer) {
            (TransportEndpoint::Sctp(e), TransportEndpoint::Sctp(peer)) => e.skipped_bytes(peer),
            _ => 0,
        }
    }
    /// Returns true if some data of `peer`, the other end, was abandoned and all the rest delivered.
    pub(super) fn has_the_rest_of(&self, peer: &TransportEndpoint) -> bool {
        let abandoned = |e: &sctp::SctpEndpoint| e.sender().is_some_and(|s| s.abandoned().0 > 0);
        let (TransportEndpoint::Sctp(e), TransportEndpoint::Sctp(peer)) = (self, peer) else { return false };
        abandoned(peer) && e.has_all_of(peer)
    }
    pub(super) fn sender(&self) -> Option<Sending<'_>> {
        match self {
            TransportEndpoint::Tcp(e) => e.sender().map(Sending::Tcp),
            TransportEndpoint::Sctp(e) => e.sender().map(Sending::Sctp),
            TransportEndpoint::Outside => None,
        }
    }
}
