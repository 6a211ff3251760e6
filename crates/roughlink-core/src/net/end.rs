//! One end of a transfer over any transport.

use crate::cc::{self, CongestionControl, LinkEvent};
use crate::packet::{FlowId, Packet, Sides};
use crate::rng::Seed;
use crate::scenario::{FlowSpec, FlowTransport};
use crate::sctp;
use crate::sender::{SenderCore, SenderStats};
use crate::tcp;
use crate::units::Time;
use std::sync::Arc;

pub(super) enum TransportEndpoint {
    Tcp(Box<tcp::TcpEndpoint>),
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

/// Creates an end of a TCP connection.
pub(super) fn connection(spec: &FlowSpec, id: FlowId) -> tcp::TcpEndpoint {
    let FlowTransport::Tcp(cfg, cc) = &spec.transport else { panic!("flow `{}` does not use TCP", spec.name) };
    tcp::TcpEndpoint::new(id, Arc::clone(cfg), Arc::clone(&cc.factory), 0)
}

/// Creates an end of an SCTP association.
pub(super) fn association(spec: &FlowSpec, id: FlowId, seed: &Seed) -> sctp::SctpEndpoint {
    let FlowTransport::Sctp(cfg, cc) = &spec.transport else { panic!("flow `{}` does not use SCTP", spec.name) };
    let mut endpoint = sctp::SctpEndpoint::new(id, Arc::clone(cfg), Arc::clone(&cc.factory), 1);
    let name = format!("{}.{}", spec.name, if id.reverse() { "reverse" } else { "forward" });
    endpoint.set_jitter(seed.stream(&name, "heartbeat"));
    endpoint
}

impl TransportEndpoint {
    pub(super) fn new(spec: &FlowSpec, id: FlowId, seed: &Seed) -> Self {
        match &spec.transport {
            FlowTransport::Sctp(..) => TransportEndpoint::Sctp(Box::new(association(spec, id, seed))),
            _ => TransportEndpoint::Tcp(Box::new(connection(spec, id))),
        }
    }
}

/// Declares the methods of all endpoints. For an end outside, each method returns the value after `=`.
macro_rules! endpoint {
    ($([$($mut:tt)?] $name:ident($($arg:ident: $type:ty),*) -> $result:ty = $outside:expr;)*) => {
        // Endpoint, as a trait so that generic code is compiled twice: for TCP alone and for any transport.
        pub(super) trait Endpoint {
            $(fn $name(&$($mut)? self, $($arg: $type),*) -> $result;)*
        }
        impl Endpoint for tcp::TcpEndpoint {
            $(#[inline(always)] fn $name(&$($mut)? self, $($arg: $type),*) -> $result { self.$name($($arg),*) })*
        }
        impl Endpoint for TransportEndpoint {
            $(fn $name(&$($mut)? self, $($arg: $type),*) -> $result {
                match self {
                    TransportEndpoint::Tcp(e) => e.$name($($arg),*),
                    TransportEndpoint::Sctp(e) => e.$name($($arg),*),
                    TransportEndpoint::Outside => $outside,
                }
            })*
        }
    };
}

endpoint! {
    [mut] connect() -> () = ();
    [mut] listen() -> () = ();
    [mut] offer(bytes: u64, close_after: bool) -> () = ();
    [mut] close() -> () = ();
    [mut] receive(now: Time, p: &Packet, sides: &Sides) -> () = ();
    [mut] transmit(now: Time, sides: &mut Sides) -> Option<Packet> = None;
    [mut] wake(now: Time) -> () = ();
    [] next_wake(now: Time) -> Time = Time::MAX;
    [mut] on_link(now: Time, event: &LinkEvent) -> () = ();
    // Returns the time since data packet `p` left this end; `None` if that is unknown.
    [mut] age_of(now: Time, p: &Packet) -> Option<Time> = None;
    [] delivered() -> u64 = 0;
    [] peer_closed() -> bool = false;
    [] is_quiet() -> bool = true;
    [] is_done() -> bool = false;
    [] failed_at() -> Option<Time> = None;
}

/// An end of a transfer.
pub(super) trait TransferEnd: Endpoint {
    fn is_outside(&self) -> bool {
        false
    }
    fn sender(&self) -> Option<Sending<'_>>;
    /// Returns the segments that this end dropped for an old timestamp.
    fn rejected(&self) -> u64;
    fn sctp(&self) -> Option<&sctp::SctpEndpoint> {
        None
    }
    /// Returns true if the end was or will be opened passively and has no peer yet.
    fn is_listening(&self) -> bool {
        self.failed_at().is_none() && self.is_done() && self.sender().is_none()
    }
}

impl TransferEnd for tcp::TcpEndpoint {
    fn sender(&self) -> Option<Sending<'_>> {
        self.sender().map(Sending::Tcp)
    }
    fn rejected(&self) -> u64 {
        self.rejected()
    }
}

impl TransferEnd for TransportEndpoint {
    fn is_outside(&self) -> bool {
        matches!(self, TransportEndpoint::Outside)
    }
    fn sender(&self) -> Option<Sending<'_>> {
        match self {
            TransportEndpoint::Tcp(e) => e.sender().map(Sending::Tcp),
            TransportEndpoint::Sctp(e) => e.sender().map(Sending::Sctp),
            TransportEndpoint::Outside => None,
        }
    }
    fn rejected(&self) -> u64 {
        if let TransportEndpoint::Tcp(e) = self { e.rejected() } else { 0 }
    }
    fn sctp(&self) -> Option<&sctp::SctpEndpoint> {
        if let TransportEndpoint::Sctp(e) = self { Some(e) } else { None }
    }
}
