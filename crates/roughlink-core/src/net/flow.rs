//! A flow in a running component: its application, what carries it, and its two ends under the verbs of every element.
//!
//! End 0 is at the flow's `from`, end 1 at its `to`; what end 0 sends travels forward. Transfers are distinguished from all
//! other kinds by one branch: their packets are the hot path.

mod bulk;
mod call;
mod cbr;
mod session;
mod writes;

use super::end::Sending;
use super::reassembly::Reassembly;
use crate::app::Traffic;
use crate::app::onoff::OnOff;
use crate::app::request::Session;
use crate::app::web::Web;
use crate::cc::LinkEvent;
use crate::metrics::FlowOutcome;
use crate::packet::{FlowId, Packet, Protocol, Sides};
use crate::rng::Seed;
use crate::scenario::FlowSpec;
use crate::units::Time;
use crate::wire::{Addresses, Decoded};
use bulk::Bulk;
use call::Call;
use cbr::Cbr;
use session::Requests;
use writes::{Writer, Writes};

pub(super) struct Flow {
    /// Its number in the scenario.
    pub global: usize,
    /// Where its two paths begin in the component's list: forward, reverse; and their end.
    pub path: [u32; 3],
    pub nodes: [usize; 2],
    pub reassembly: [Option<Box<Reassembly>>; 2],
    /// Its ends that are outside the network, at ports.
    pub open: [bool; 2],
    protocol: Protocol,
    kind: Kind,
    index: u32,
    ip: IpHeader,
    start: Time,
    progress: Progress,
}

/// How the IP header of a flow's packets differs from that of others.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct IpHeader {
    ipv6: bool,
    dscp: u8,
}

impl IpHeader {
    #[cold]
    fn put(self, p: &mut Packet) {
        if self.ipv6 {
            p.set_ipv6();
        }
        p.set_dscp(self.dscp);
    }
}

enum Kind {
    Bulk(Box<Bulk>),
    Other(Box<dyn Application + Send>),
    /// Datagrams from outside, for an end that is not here either.
    Passing,
}

/// The progress of a flow.
struct Progress {
    end: Option<Time>,
    last_delivery: Time,
}

/// An application: what a kind of flow does at its two ends.
trait Application {
    /// A whole datagram reached `end`. Returns whether either end may now have something to send.
    fn receive(&mut self, now: Time, end: usize, p: &Packet, sides: &Sides, progress: &mut Progress) -> bool;
    /// A datagram of `end`, which is outside, enters the network with these bytes. The number that its packet is to have.
    fn enter(&mut self, _now: Time, _end: usize, _d: &Decoded, _bytes: &[u8]) -> u32 {
        0
    }
    /// `end` is about to receive a packet from outside with this payload. Whether it is one that it understands.
    fn read(&mut self, _end: usize, _p: &Packet, _payload: &[u8]) -> bool {
        true
    }
    /// The payload of a packet from here that leaves the network with these addresses; else what it implies.
    fn payload(&self, _p: &Packet, _addresses: &Addresses) -> Option<Vec<u8>> {
        None
    }
    /// A whole datagram left the network for an end that is outside.
    fn left(&mut self, _now: Time, _p: &Packet, _progress: &mut Progress) {}
    /// End 1 is here and waits for the first packet of an end 0 outside.
    fn listens(&self) -> bool {
        false
    }
    /// What `end` has to send now, as packets `id`.
    fn transmit(&mut self, now: Time, end: usize, id: FlowId, sides: &mut Sides) -> Option<Packet>;
    /// Wakes `end` if its time has come; else returns when it comes.
    fn wake(&mut self, now: Time, end: usize, progress: &mut Progress) -> Option<Time>;
    /// When `end` must be woken; [`Time::MAX`] = never.
    fn next_wake(&self, now: Time, end: usize) -> Time;
    /// Notifies both ends of a link event.
    fn on_link(&mut self, _now: Time, _event: &LinkEvent) {}
    /// The sender of a transfer, once there is one, and what has been delivered of its data.
    fn sender(&self) -> Option<(Sending<'_>, u64)> {
        None
    }
    /// The charging session, if it is one.
    fn session(&self) -> Option<&Session> {
        None
    }
    /// Memory of what it records.
    fn bytes(&self) -> usize {
        0
    }
    /// Adds the results at `end` to those that every flow has.
    fn report(&self, end: Time, out: &mut FlowOutcome);
}

/// Calls the same method of whichever application a flow has; a flow without any has a default instead.
macro_rules! of_kind {
    ($kind:expr, $k:ident => $call:expr, $none:expr) => {
        match $kind {
            Kind::Bulk($k) => $call,
            Kind::Other($k) => $call,
            Kind::Passing => $none,
        }
    };
}

impl Flow {
    /// Flow `index` of a component, `global` of the scenario, which lasts `duration`.
    pub(super) fn new(
        spec: &FlowSpec,
        (index, global): (u32, usize),
        path: [u32; 3],
        open: [bool; 2],
        duration: Time,
        seed: &Seed,
    ) -> Self {
        let until = |stop: &Option<Time>| stop.unwrap_or(duration).min(duration);
        let kind = match &spec.traffic {
            Traffic::Bulk { bytes } => Kind::Bulk(Box::new(Bulk::new(spec, index, open, *bytes, seed))),
            Traffic::Cbr { rate, packet, bytes, stop } => {
                let stop = if open[0] { spec.start } else { until(stop) };
                Kind::Other(Box::new(Cbr::new((*rate, *packet, *bytes), (spec.start, stop))))
            }
            Traffic::Voip { config, stop } => Kind::Other(Box::new(Call::new(spec, config, until(stop), open, seed))),
            Traffic::OnOff(cfg) => {
                let writer = Writer::OnOff(OnOff::new(*cfg, spec.start), cfg.bytes);
                Kind::Other(Box::new(Writes::new(spec, index, open, writer)))
            }
            Traffic::Web(cfg) => Kind::Other(Box::new(Writes::new(spec, index, open, Writer::Web(Web::new(*cfg))))),
            Traffic::Request { session } => Kind::Other(Box::new(Requests::new(spec, index, open, session))),
        };
        let (nodes, start) = ([spec.from, spec.to], spec.start);
        let progress = Progress { end: None, last_delivery: start };
        let protocol = spec.protocol();
        let reassembly = [None, None];
        let ip = IpHeader { ipv6: spec.ipv6, dscp: spec.dscp };
        Flow { global, path, nodes, reassembly, open, protocol, kind, index, ip, start, progress }
    }

    /// A flow of datagrams from outside, number `index` of a component and, after those of the scenario, `global`.
    pub(super) fn passing(
        (index, global): (u32, usize),
        path: [u32; 3],
        nodes: [usize; 2],
        open: [bool; 2],
        ipv6: bool,
    ) -> Self {
        Flow {
            global,
            path,
            nodes,
            reassembly: [None, None],
            open,
            protocol: Protocol::Tcp, // what gateways send into it
            kind: Kind::Passing,
            index,
            ip: IpHeader { ipv6, dscp: 0 },
            start: Time::MAX,
            progress: Progress { end: None, last_delivery: Time::MAX },
        }
    }
    /// A datagram of `end`, which is outside, enters the network with these bytes. The number that its packet is to have.
    pub(super) fn enter(&mut self, now: Time, end: usize, d: &Decoded, bytes: &[u8]) -> u32 {
        of_kind!(&mut self.kind, k => k.enter(now, end, d, bytes), 0)
    }
    /// `end` is about to receive a packet from outside with this payload. Whether it is one that it understands.
    pub(super) fn read(&mut self, end: usize, p: &Packet, payload: &[u8]) -> bool {
        of_kind!(&mut self.kind, k => k.read(end, p, payload), false)
    }
    /// The payload of a packet from here that leaves the network with these addresses; else what it implies.
    pub(super) fn payload(&self, p: &Packet, addresses: &Addresses) -> Option<Vec<u8>> {
        of_kind!(&self.kind, k => k.payload(p, addresses), None)
    }
    /// A whole datagram left the network for an end that is outside.
    pub(super) fn left(&mut self, now: Time, p: &Packet) {
        of_kind!(&mut self.kind, k => k.left(now, p, &mut self.progress), ());
    }
    /// End 1 is here and waits for the first packet of an end 0 outside.
    pub(super) fn listens(&self) -> bool {
        of_kind!(&self.kind, k => k.listens(), false)
    }
    /// The protocols of its packets.
    pub(super) fn protocols(&self) -> impl Iterator<Item = Protocol> {
        let discovery = self.session().map(|_| Protocol::Udp);
        [self.protocol].into_iter().chain(discovery)
    }
    /// Neither end is here.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self.kind, Kind::Passing)
    }

    /// When it must first be woken.
    pub(super) fn start(&self) -> Time {
        self.start
    }
    #[inline(always)]
    pub(super) fn receive(&mut self, now: Time, end: usize, p: &Packet, sides: &Sides) -> bool {
        of_kind!(&mut self.kind, k => k.receive(now, end, p, sides, &mut self.progress), false)
    }
    #[inline(always)]
    pub(super) fn transmit(&mut self, now: Time, end: usize, sides: &mut Sides) -> Option<Packet> {
        let id = FlowId::new(self.index, end == 1);
        let p = of_kind!(&mut self.kind, k => k.transmit(now, end, id, sides), None)?;
        Some(self.with_ip_header(p))
    }
    /// A packet of the flow, made as one of IPv4, with the IP header that the flow has.
    #[inline(always)]
    pub(super) fn with_ip_header(&self, mut p: Packet) -> Packet {
        if self.ip != IpHeader::default() {
            self.ip.put(&mut p);
        }
        p
    }
    /// The charging session, if it is one.
    pub(super) fn session(&self) -> Option<&Session> {
        of_kind!(&self.kind, k => k.session(), None)
    }
    #[inline(always)]
    pub(super) fn wake(&mut self, now: Time, end: usize) -> Option<Time> {
        of_kind!(&mut self.kind, k => k.wake(now, end, &mut self.progress), Some(Time::MAX))
    }
    #[inline(always)]
    pub(super) fn next_wake(&self, now: Time, end: usize) -> Time {
        of_kind!(&self.kind, k => k.next_wake(now, end), Time::MAX)
    }
    pub(super) fn on_link(&mut self, now: Time, event: &LinkEvent) {
        of_kind!(&mut self.kind, k => k.on_link(now, event), ());
    }
    pub(super) fn sender(&self) -> Option<(Sending<'_>, u64)> {
        of_kind!(&self.kind, k => k.sender(), None)
    }

    /// Memory of what is unacknowledged, in reassembly, or recorded.
    pub(super) fn bytes(&self) -> usize {
        let sender = self.sender().map_or(0, |(sender, _)| sender.bytes());
        let reassembly = self.reassembly.iter().flatten().map(|r| r.bytes()).sum::<usize>();
        sender + reassembly + of_kind!(&self.kind, k => k.bytes(), 0)
    }

    /// The results of the flow.
    pub(super) fn outcome(&self, end: Time) -> FlowOutcome {
        let Progress { end: ended, last_delivery } = self.progress;
        let mut out = FlowOutcome { start: self.start, end: ended, last_delivery, ..Default::default() };
        of_kind!(&self.kind, k => k.report(end, &mut out), ());
        if let Some((s, _)) = self.sender() {
            out.sender = s.stats().into();
        }
        out
    }
}

/// The instant before `now`: as of then, `next_wake` includes what was already due at `now`, but not what follows from
/// events at `now`.
fn just_before(now: Time) -> Time {
    Time(now.0.saturating_sub(1))
}

fn datagram(id: FlowId, number: u32, payload: u16, now: Time) -> Packet {
    let mut p = Packet::udp(id, number, payload, now);
    p.ident = number as u16; // fragments of two datagrams must not mix
    p
}
