//! Gateways: elements on the path of TCP that observe segments, change the advertised window, and may send segments.
//!
//! A gateway is pure logic on [`Segment`]s, never bytes, with the four methods of every element. The same object works
//! in a scenario ([`packets`]) and on a real interface ([`bytes`]). To add a gateway, write one file, and add its
//! module and an entry of [`REGISTRY`] here.
//!
//! | name | place | effect |
//! |---|---|---|
//! | `muniz`, `mizutani` | modem before the power line | short modem queue, shared equally by `muniz`: [`window`] |
//! | `avoca-rx` | train | closes windows before coverage ends and opens them afterwards: [`avoca_rx`] |
//!
//! ```
//! use roughlink_core::gateway::{REGISTRY, build};
//!
//! let names: Vec<_> = REGISTRY.iter().map(|kind| kind.name).collect();
//! assert_eq!(names, ["muniz", "mizutani", "avoca-rx"]);
//!
//! assert!(build("muniz", "floor = 3").is_ok());
//! let error = build("muniz", "flor = 3").unwrap_err();
//! assert_eq!(error.to_string(), "unknown parameter `flor` of `muniz`");
//! ```

use crate::cc::LinkEvent;
use crate::packet::{FlowId, SynOptions, flags};
use crate::registry::Registry;
use crate::units::Time;
use crate::wire::Addresses;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

pub mod avoca_rx;
pub mod bytes;
mod entry;
pub mod flows;
pub mod packets;
pub mod rewrite;
#[cfg(test)]
mod tests;
pub mod window;

pub use entry::{BuildGateway, GatewayError, NO_GATEWAY, RegisteredGateway};

/// All gateways. To add one to roughlink, add its module and a line here; a program adds one with [`Registry::add`].
pub static REGISTRY: Registry<RegisteredGateway> = Registry::new(&[
    RegisteredGateway::new::<window::RateControl>(
        "muniz",
        "sets windows for equal backlogs, with an upper bound",
        "PLC paper, figure 20",
    )
    .in_a_modem(),
    RegisteredGateway::new::<window::RateControl>(
        "mizutani",
        "sets windows for a short queue of all flows together",
        "PLC paper, figure 12, but with the queue that figure 8(a) implies",
    )
    .defaults(window::MIZUTANI)
    .in_a_modem(),
    RegisteredGateway::new::<avoca_rx::AvocaRx>(
        "avoca-rx",
        "closes windows before coverage ends and reopens them when it returns",
        "Goff et al. 2000 (Freeze-TCP); AVOCA paper, section IV",
    )
    .on_this_side()
    .with_coverage(),
]);

/// Returns the registry's entry for `name`.
pub fn kind(name: &str) -> Result<&'static RegisteredGateway, GatewayError> {
    REGISTRY.find(name).ok_or_else(|| GatewayError::UnknownKind(name.to_owned()))
}

/// Builds the gateway `name` with `params` in TOML; for tests.
pub fn build(name: &str, params: &str) -> Result<Box<dyn Gateway>, GatewayError> {
    let entry = kind(name)?;
    let params = params
        .parse()
        .map_err(|e: toml::de::Error| GatewayError::Parameter { kind: entry.name, reason: e.message().to_owned() })?;
    entry.build(&params)
}

/// Direction in which a segment passes the gateway.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Heading {
    /// Toward the hosts that the gateway serves: into the house, to the passengers.
    Inward,
    /// Toward the Internet.
    Outward,
}

impl Heading {
    /// Returns the opposite direction.
    pub const fn opposite(self) -> Self {
        match self {
            Heading::Inward => Heading::Outward,
            Heading::Outward => Heading::Inward,
        }
    }
}

/// A flow and its direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowKey {
    /// Number of the flow in the simulation, or of the conversation on a real interface, with the direction.
    pub flow: FlowId,
    /// Number of conversations that had this number before.
    pub generation: u32,
}

impl FlowKey {
    /// Returns the key of a flow whose number was not used before.
    pub const fn new(flow: FlowId) -> Self {
        FlowKey { flow, generation: 0 }
    }
    /// Returns the opposite direction.
    pub const fn reversed(self) -> Self {
        FlowKey { flow: self.flow.flipped(), ..self }
    }
}

/// Decision of a gateway about a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum SegmentVerdict {
    /// Forward the segment.
    Accept,
    /// Drop the segment.
    Drop,
}

/// The fields of a TCP segment that gateways use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Flow and direction of the segment.
    pub key: FlowKey,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// TCP flags ([`flags`]).
    pub flags: u8,
    /// Window field, unscaled: the only field that a gateway may change.
    pub window: u16,
    /// Bytes of payload; in a first fragment, payload bytes of the fragment.
    pub payload: u32,
    /// The options of a SYN.
    pub syn: Option<SynOptions>,
    /// TSval and TSecr (RFC 7323).
    pub timestamps: Option<(u32, u32)>,
    /// TCP-MD5 (RFC 2385) or TCP-AO (RFC 5925): the window is covered by a signature.
    pub signed: bool,
    /// Multipath TCP (RFC 8684): the window belongs to the whole connection.
    pub multipath: bool,
    /// Addresses and ports of a segment from outside the simulation.
    pub addresses: Option<Addresses>,
    /// Link header of the segment's frame.
    pub link: Option<bytes::LinkHeader>,
}

impl Segment {
    /// Creates a segment of `key` with all other fields zero.
    pub const fn new(key: FlowKey) -> Self {
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
            addresses: None,
            link: None,
        }
    }
    /// Returns true if flag `f` is set.
    #[inline]
    pub const fn is(&self, f: u8) -> bool {
        self.flags & f != 0
    }
    /// Returns the sequence number after the segment; SYN and FIN count as one each (RFC 9293 section 3.4).
    #[inline]
    pub const fn end(&self) -> u32 {
        let n = self.payload.wrapping_add(self.is(flags::SYN) as u32).wrapping_add(self.is(flags::FIN) as u32);
        self.seq.wrapping_add(n)
    }
}

/// State of the modem that sends over the rough link. An SDU is an IP packet in its queue; a PDU is a frame of SDUs.
pub trait Modem {
    /// Queued SDUs of flow `key`.
    fn waiting(&self, key: &FlowKey) -> u32;
    /// SDUs of flow `key` that are queued, or sent and not acknowledged by the other modem.
    fn backlog(&self, key: &FlowKey) -> u32;
    /// Backlog ([`Modem::backlog`]) of all flows and protocols together.
    fn total_backlog(&self) -> u32;
    /// Time to send a PDU of `sdus` full-sized SDUs, from one access to the medium to the next. Increases with `sdus`.
    fn cycle_time(&self, sdus: u32) -> Time;
    /// Largest number of SDUs in a PDU in the current condition (L of the PLC paper).
    fn max_sdus(&self) -> u32;
    /// Moving average of the share of SDUs that the other modem rejected; 0 if the modem does not report it.
    fn rejected(&self) -> f64 {
        0.0
    }
}

/// An element on the path of TCP. After each call, [`Gateway::transmit`] must be called until it returns nothing.
pub trait Gateway: Debug + Send {
    /// Processes `segment`, which is forwarded with any changes or dropped. `modem` is the modem at this node, if any.
    fn receive(
        &mut self,
        now: Time,
        heading: Heading,
        segment: &mut Segment,
        modem: Option<&dyn Modem>,
    ) -> SegmentVerdict;
    /// Returns the next segment that the gateway sends, with its direction.
    fn transmit(&mut self, _now: Time) -> Option<(Heading, Segment)> {
        None
    }
    /// Runs the timers that are due.
    fn wake(&mut self, now: Time);
    /// Returns when to call `wake`; [`Time::MAX`] = never. A late or missing call costs accuracy, not correctness.
    fn next_wake(&self) -> Time;
    /// Processes a link event at this node.
    fn on_link(&mut self, _now: Time, _event: &LinkEvent) {}
    /// Returns statistics for traces.
    fn stats(&self, modem: Option<&dyn Modem>) -> Stats;
    /// Returns statistics of flows that have ended, the latest last, for the result.
    fn ended(&self) -> Vec<FlowStats> {
        Vec::new()
    }
}

/// Statistics of a gateway.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stats {
    /// Flows in its table, ordered by key.
    pub flows: Vec<FlowStats>,
    /// Counters since the start.
    pub counters: flows::FlowTableCounters,
    /// Segments that the gateway originated.
    pub originated: u64,
    /// Error of the estimated backlog, if the gateway estimates it although a modem reports it.
    pub backlog_error: Option<BacklogError>,
}

/// Error of an estimated backlog against the modem's.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct BacklogError {
    /// Number of comparisons: one per acknowledgment of new data.
    pub samples: u64,
    /// Mean backlog in the modem, SDUs.
    pub backlog: f64,
    /// Mean of estimate minus backlog, SDUs.
    pub bias: f64,
    /// Mean of the absolute difference, SDUs.
    pub absolute: f64,
}

impl BacklogError {
    fn record(&mut self, estimate: f64, backlog: u32) {
        let backlog = f64::from(backlog);
        self.samples += 1;
        let n = self.samples as f64;
        self.backlog += (backlog - self.backlog) / n;
        self.bias += (estimate - backlog - self.bias) / n;
        self.absolute += ((estimate - backlog).abs() - self.absolute) / n;
    }
}

/// Statistics of one flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowStats {
    /// Flow, in the inward direction.
    pub key: FlowKey,
    /// Addresses of the flow, if its segments come from outside the simulation.
    pub addresses: Option<Addresses>,
    /// Phase in the flow table.
    pub phase: flows::FlowPhase,
    /// True if the flow shares the rough link now.
    pub active: bool,
    /// RTT estimate of the handshake.
    pub rtt: Option<Time>,
    /// True if a repeated segment of the handshake makes the estimate uncertain.
    pub ambiguous: bool,
    /// This flow's share of the SDUs in the modem, 0 to 1; 0 if the modem is empty or missing.
    pub queue_share: f64,
    /// Segments whose window was changed.
    pub rewritten: u64,
    /// State of the rate control, if any.
    pub control: Option<Control>,
}

/// Rate control of one flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Control {
    /// Allowed window, SDUs (Awnd of the PLC paper).
    pub awnd: f64,
    /// Largest number of SDUs that the link can carry within the RTT (Sample_Awnd).
    pub sample: f64,
    /// RTT over the smallest RTT (rho) at the last update.
    pub rho: f64,
}

/// Returns true if `a < b` in the sequence space (RFC 9293 section 3.4).
#[inline]
const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
