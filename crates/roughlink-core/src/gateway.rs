//! Gateways: elements between the ends of a TCP connection that observe its segments, and may rewrite the advertised
//! window or send segments of their own.
//!
//! A gateway is pure logic: it receives [`Segment`]s, never bytes, and has the verbs of every element. The same
//! object stands in a scenario ([`packets`]) and on a real interface ([`bytes`]).
//!
//! | name | where it stands | what it does |
//! |---|---|---|
//! | `muniz`, `mizutani` | in the modem that sends over the power line | keeps the modem's queue short, with `muniz` equal parts: [`window`] |
//! | `avoca-rx` | on the train | closes windows before coverage ends and opens them when it is back: [`avoca_rx`] |
//!
//! To add a gateway: one file, one line in [`REGISTRY`].

use crate::cc::LinkEvent;
use crate::packet::{FlowId, SynOptions, flags};
use crate::units::Time;
use crate::wire::Addresses;
use std::fmt::Debug;

pub mod avoca_rx;
pub mod bytes;
pub mod flows;
pub mod packets;
mod registry;
pub mod rewrite;
#[cfg(test)]
mod tests;
pub mod window;

pub use registry::{BuildError, Construct, Kind, NO_GATEWAY, REGISTRY, build, kind};

/// Which way a segment travels past the gateway.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Heading {
    /// Toward the hosts that the gateway serves: into the house, to the passengers.
    Inward,
    /// Toward the Internet.
    Outward,
}

impl Heading {
    /// The other way.
    pub const fn opposite(self) -> Self {
        match self {
            Heading::Inward => Heading::Outward,
            Heading::Outward => Heading::Inward,
        }
    }
}

/// A flow and its direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// Addresses and ports of a real segment.
    Real(Addresses),
    /// A flow of the simulation.
    Simulated(FlowId),
}

impl Key {
    /// The opposite direction.
    pub const fn reversed(self) -> Self {
        match self {
            Key::Real(addresses) => Key::Real(addresses.reversed()),
            Key::Simulated(flow) => Key::Simulated(flow.flipped()),
        }
    }
}

/// A TCP segment, as far as gateways receive it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its flow, in the direction in which it travels.
    pub key: Key,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// TCP flags ([`flags`]).
    pub flags: u8,
    /// The window field, unscaled: the one thing that a gateway may change.
    pub window: u16,
    /// Bytes of payload; of a first fragment, those in the fragment.
    pub payload: u32,
    /// The options of a SYN.
    pub syn: Option<SynOptions>,
    /// TSval and TSecr (RFC 7323).
    pub timestamps: Option<(u32, u32)>,
    /// TCP-MD5 (RFC 2385) or TCP-AO (RFC 5925): the window is covered by a signature.
    pub signed: bool,
    /// Multipath TCP (RFC 8684): the window belongs to the whole connection.
    pub multipath: bool,
    /// What the frame that it came in began with.
    pub link: Option<bytes::LinkHeader>,
}

impl Segment {
    /// A segment of `key` with nothing set.
    pub const fn new(key: Key) -> Self {
        Segment {
            key,
            seq: 0,
            ack: 0,
            flags: 0,
            window: 0,
            payload: 0,
            syn: None,
            timestamps: None,
            signed: false,
            multipath: false,
            link: None,
        }
    }
    /// Whether flag `f` is set.
    #[inline]
    pub const fn is(&self, f: u8) -> bool {
        self.flags & f != 0
    }
    /// The sequence number after the segment: SYN and FIN count as one (RFC 9293 section 3.4).
    #[inline]
    pub const fn end(&self) -> u32 {
        let n = self.payload.wrapping_add(self.is(flags::SYN) as u32).wrapping_add(self.is(flags::FIN) as u32);
        self.seq.wrapping_add(n)
    }
}

/// What a gateway may ask the modem that sends over the rough link. An SDU is one IP packet in its transmit queue, a
/// PDU the frame that carries up to [`Modem::limit`] of them.
pub trait Modem {
    /// SDUs of flow `key` that wait.
    fn waiting(&self, key: &Key) -> u32;
    /// SDUs of flow `key` that wait or were sent and are not acknowledged by the other modem.
    fn backlog(&self, key: &Key) -> u32;
    /// As [`Modem::backlog`], of everything in the queue, whatever its flow or protocol.
    fn occupied(&self) -> u32;
    /// How long it takes to send a PDU of `sdus` full-sized SDUs, from one access to the medium to the next. It grows
    /// with `sdus`.
    fn cycle_time(&self, sdus: u32) -> Time;
    /// The most SDUs in a PDU in the current condition (L of the PLC paper).
    fn limit(&self) -> u32;
    /// Moving average of the share of SDUs that the other modem rejected; 0 from a modem that does not report it.
    fn rejected(&self) -> f64 {
        0.0
    }
}

/// An element on the path of TCP. After each call, [`Gateway::transmit`] must be called until it returns nothing.
pub trait Gateway: Debug + Send {
    /// `segment` passes, and goes on as it is afterwards. `modem` is the modem at this node, if there is one.
    fn receive(&mut self, now: Time, heading: Heading, segment: &mut Segment, modem: Option<&dyn Modem>);
    /// A segment that the gateway itself sends, and its direction.
    fn transmit(&mut self, _now: Time) -> Option<(Heading, Segment)> {
        None
    }
    /// Processes what is due.
    fn wake(&mut self, now: Time);
    /// When the gateway must be woken; [`Time::MAX`] = never. A late call, or none, costs accuracy, not correctness.
    fn next_wake(&self) -> Time;
    /// A link event reached this node.
    fn on_link(&mut self, _now: Time, _event: &LinkEvent) {}
    /// Numbers for traces.
    fn stats(&self, modem: Option<&dyn Modem>) -> Stats;
}

/// A gateway's numbers.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stats {
    /// The flows in its table, in the order of their keys.
    pub flows: Vec<FlowStats>,
    /// What happened since the start.
    pub counters: flows::Counters,
    /// Segments that the gateway originated.
    pub originated: u64,
}

/// The numbers of one flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowStats {
    /// The flow, in the inward direction.
    pub key: Key,
    /// Its phase in the flow table.
    pub phase: flows::Phase,
    /// It counts among the flows that share the rough link now.
    pub active: bool,
    /// RTT estimate of the handshake.
    pub rtt: Option<Time>,
    /// A segment of the handshake was repeated, so that the estimate may be of another one.
    pub ambiguous: bool,
    /// Its share of all SDUs in the modem, 0 to 1; 0 when that is empty or there is none.
    pub queue_share: f64,
    /// Segments of it whose window was changed.
    pub rewritten: u64,
    /// The state of its rate control, if it has any.
    pub control: Option<Control>,
}

/// Rate control of one flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Control {
    /// The window it is allowed, SDUs (Awnd of the PLC paper).
    pub awnd: f64,
    /// The most SDUs that the link can carry within its RTT (Sample_Awnd).
    pub sample: f64,
    /// RTT over the smallest RTT (rho) at the last update.
    pub rho: f64,
}

/// `a < b` in the sequence space (RFC 9293 section 3.4).
#[inline]
const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
