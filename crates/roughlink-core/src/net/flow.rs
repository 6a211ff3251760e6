//! A flow in a running component: two ends, and the collector of their reports. End 0 is at the flow's `from`, end 1 at
//! its `to`; packets from end 0 travel forward. An end is a TCP or SCTP endpoint or an application over datagrams, or
//! outside the network. No end has access to the other: the flow computes values that need both, such as the age of
//! arriving data. Results of an end outside come from the packets at its port, or from the counters of the kernels if
//! they carry both ends ([`Network::set_report`](super::Network::set_report)).
//!
//! Both ends of a flow are adjacent in memory. One branch separates TCP transfers inside the network from all other
//! flows, because the packets of these transfers are the hot path.

mod bulk;
mod call;
mod cbr;
mod dialogue;
mod messages;

use super::end::Sending;
use super::reassembly::Reassembly;
use crate::app::Traffic;
use crate::app::onoff::OnOff;
use crate::app::request::v2gtp::OutgoingMessages;
use crate::app::request::{Session, SessionConfig};
use crate::app::web::Web;
use crate::cc::LinkEvent;
use crate::metrics::{FlowReport, RttResult};
use crate::packet::{FlowId, Packet, Protocol, Sides};
use crate::quantiles::Histogram;
use crate::rng::Seed;
use crate::scenario::FlowSpec;
use crate::tcp::{TcpEndpoint, TransmittedRun};
use crate::units::Time;
use crate::wire::{Addresses, Decoded};
use bulk::BulkFlow;
use call::Call;
use cbr::CbrFlow;
use dialogue::DialogueFlow;
use messages::MessageFlow;

pub(super) struct NetworkFlow {
    /// Number in the scenario.
    pub global: usize,
    /// Start of the forward path and of the reverse path in the component's list, and the end of the latter.
    pub path: [u32; 3],
    pub nodes: [usize; 2],
    pub reassembly: [Option<Box<Reassembly>>; 2],
    /// Marks ends outside the network, at ports.
    pub open: [bool; 2],
    protocols: &'static [Protocol],
    kind: FlowTraffic,
    /// Set if the flow carries datagrams between two ends outside and is not in the scenario.
    passes: bool,
    index: u32,
    ip: IpHeader,
    start: Time,
    collector: FlowCollector,
}

/// IP header fields in which flows differ.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct IpHeader {
    ipv6: bool,
    dscp: u8,
}

impl IpHeader {
    #[cold]
    fn put(self, mut p: Packet) -> Packet {
        if self.ipv6 {
            p.set_ipv6();
        }
        p.set_dscp(self.dscp);
        p
    }
}

enum FlowTraffic {
    Bulk(Box<BulkFlow<TcpEndpoint>>),
    Other(Box<dyn Application + Send>),
}

/// Evaluates a call for either variant, without a virtual call for `Bulk`.
macro_rules! either {
    ($kind:expr, $k:ident => $call:expr) => {
        match $kind {
            FlowTraffic::Bulk($k) => $call,
            FlowTraffic::Other($k) => $call,
        }
    };
}

/// Collector of the reports of both ends.
pub(super) struct FlowCollector {
    end: Option<Time>,
    last_delivery: Time,
    /// One-way delays of packets with data.
    delay: Histogram,
}

impl FlowCollector {
    #[inline(always)]
    fn note_delay(&mut self, delay: Option<Time>) {
        if let Some(delay) = delay {
            self.delay.record(delay.0);
        }
    }
}

/// An application: behavior of a kind of flow at its two ends.
pub(super) trait Application {
    /// Handles a whole datagram at `end`. Returns true if either end may now have something to send.
    fn receive(&mut self, now: Time, end: usize, p: &Packet, sides: &Sides, collector: &mut FlowCollector) -> bool;
    /// Handles a datagram with these bytes that enters from `end`, outside the network. Returns its packet's number.
    fn enter(&mut self, _now: Time, _end: usize, _d: &Decoded, _bytes: &[u8]) -> u32 {
        0
    }
    /// Parses the payload of a packet from outside for `end`, before `receive`. Returns false if it is not understood.
    fn read(&mut self, _now: Time, _end: usize, _p: &Packet, _payload: &[u8]) -> bool {
        true
    }
    /// Returns the payload of a packet from an end inside that leaves with these addresses; `None` for implied bytes.
    fn payload(&self, _p: &Packet, _addresses: &Addresses) -> Option<Vec<u8>> {
        None
    }
    /// Handles a whole datagram that left the network for an end outside.
    fn on_exit(&mut self, _now: Time, _p: &Packet, _collector: &mut FlowCollector) {}
    /// Returns true if end 1 is inside the network and waits for the first packet of an end 0 outside.
    fn is_listening(&self) -> bool {
        false
    }
    fn transmit(&mut self, now: Time, end: usize, id: FlowId, sides: &mut Sides) -> Option<Packet>;
    /// Wakes `end` if its time has come; otherwise returns that time.
    fn wake(&mut self, now: Time, end: usize, collector: &mut FlowCollector) -> Option<Time>;
    /// Returns when `end` must be woken; [`Time::MAX`] = never.
    fn next_wake(&self, now: Time, end: usize) -> Time;
    fn on_link(&mut self, _now: Time, _event: &LinkEvent) {}
    /// Returns the sender of a transfer, once it exists, and the bytes delivered.
    fn sender(&self) -> Option<(Sending<'_>, u64)> {
        None
    }
    /// Returns the messages that each end has written and its peer has not read, if messages have content.
    fn messages(&self) -> Option<[Option<&OutgoingMessages>; 2]> {
        None
    }
    /// Returns the memory of its records, bytes.
    fn bytes(&self) -> usize {
        0
    }
    /// Adds this application's results to those common to all flows.
    fn report(&self, end: Time, out: &mut FlowReport);
}

/// Datagrams between two ends outside, without a flow in the scenario.
struct Passing;

impl Application for Passing {
    fn receive(&mut self, _: Time, _: usize, _: &Packet, _: &Sides, _: &mut FlowCollector) -> bool {
        false
    }
    fn transmit(&mut self, _: Time, _: usize, _: FlowId, _: &mut Sides) -> Option<Packet> {
        None
    }
    fn wake(&mut self, _: Time, _: usize, _: &mut FlowCollector) -> Option<Time> {
        Some(Time::MAX)
    }
    fn next_wake(&self, _: Time, _: usize) -> Time {
        Time::MAX
    }
    fn report(&self, _: Time, _: &mut FlowReport) {}
}

impl NetworkFlow {
    /// Creates flow `index` of a component, `global` of the scenario, which lasts `duration`.
    pub(super) fn new(
        spec: &FlowSpec,
        (index, global): (u32, usize),
        path: [u32; 3],
        open: [bool; 2],
        duration: Time,
        seed: &Seed,
    ) -> Self {
        let until = |stop: &Option<Time>| stop.unwrap_or(duration).min(duration);
        let connects = if open[0] { Time::MAX } else { spec.start };
        let kind = match &spec.traffic {
            Traffic::Bulk { bytes } if open == [false; 2] && spec.tcp().is_some() => {
                FlowTraffic::Bulk(Box::new(BulkFlow::over_tcp(spec, index, *bytes)))
            }
            Traffic::Bulk { bytes } => FlowTraffic::Other(Box::new(BulkFlow::new(spec, index, open, *bytes, seed))),
            Traffic::Cbr { rate, packet, bytes, stop } => {
                let stop = if open[0] { spec.start } else { until(stop) };
                FlowTraffic::Other(Box::new(CbrFlow::new((*rate, *packet, *bytes), (spec.start, stop))))
            }
            Traffic::Voip { config, stop } => {
                FlowTraffic::Other(Box::new(Call::new(spec, config, until(stop), open, seed)))
            }
            Traffic::OnOff(cfg) => {
                FlowTraffic::Other(Box::new(DialogueFlow::new(spec, index, open, OnOff::new(*cfg, connects))))
            }
            Traffic::Web(cfg) => {
                FlowTraffic::Other(Box::new(DialogueFlow::new(spec, index, open, Web::new(*cfg, connects))))
            }
            Traffic::Messages(cfg) => FlowTraffic::Other(Box::new(MessageFlow::new(spec, index, open, *cfg, seed))),
            Traffic::Request { session } => {
                let turnaround = seed.stream(&spec.name, "turnaround");
                let session = Session::new(SessionConfig::clone(session), spec.start, open, turnaround);
                FlowTraffic::Other(Box::new(DialogueFlow::new(spec, index, open, session)))
            }
        };
        let (nodes, start) = ([spec.from, spec.to], spec.start);
        let collector = FlowCollector { end: None, last_delivery: start, delay: Histogram::default() };
        let protocols = spec.protocols();
        let reassembly = [None, None];
        let ip = IpHeader { ipv6: spec.ipv6, dscp: spec.dscp };
        NetworkFlow {
            global,
            path,
            nodes,
            reassembly,
            open,
            protocols,
            kind,
            passes: false,
            index,
            ip,
            start,
            collector,
        }
    }

    /// Creates flow `index` of a component for datagrams from outside; `global` continues the scenario's flow numbers.
    pub(super) fn passing((index, global): (u32, usize), path: [u32; 3], nodes: [usize; 2], open: [bool; 2]) -> Self {
        NetworkFlow {
            global,
            path,
            nodes,
            reassembly: [None, None],
            open,
            protocols: &[Protocol::Tcp], // for packets sent by gateways
            kind: FlowTraffic::Other(Box::new(Passing)),
            passes: true,
            index,
            ip: IpHeader::default(),
            start: Time::MAX,
            collector: FlowCollector { end: None, last_delivery: Time::MAX, delay: Histogram::default() },
        }
    }
    pub(super) fn set_ipv6(&mut self, ipv6: bool) {
        self.ip.ipv6 = ipv6;
    }
    pub(super) fn application(&self) -> &dyn Application {
        either!(&self.kind, k => &**k)
    }
    pub(super) fn application_mut(&mut self) -> &mut dyn Application {
        either!(&mut self.kind, k => &mut **k)
    }
    pub(super) fn on_exit(&mut self, now: Time, p: &Packet) {
        either!(&mut self.kind, k => k.on_exit(now, p, &mut self.collector));
    }
    pub(super) fn protocols(&self) -> &[Protocol] {
        self.protocols
    }
    pub(super) fn is_passing(&self) -> bool {
        self.passes
    }

    pub(super) fn start(&self) -> Time {
        self.start
    }
    #[inline(always)]
    pub(super) fn receive(&mut self, now: Time, end: usize, p: &Packet, sides: &Sides) -> bool {
        either!(&mut self.kind, k => k.receive(now, end, p, sides, &mut self.collector))
    }
    /// Sends up to `most` packets of `end`, at least one if any may leave now, and writes the first to `p`.
    #[inline(always)]
    pub(super) fn transmit(
        &mut self,
        now: Time,
        end: usize,
        sides: &mut Sides,
        most: u32,
        p: &mut Packet,
    ) -> TransmittedRun {
        let run = match &mut self.kind {
            FlowTraffic::Bulk(k) => k.transmit_run(now, end, sides, most, p),
            FlowTraffic::Other(k) => {
                let next = k.transmit(now, end, FlowId::new(self.index, end == 1), sides);
                next.inspect(|next| *p = *next).map_or(TransmittedRun::NONE, |_| TransmittedRun::ONE)
            }
        };
        if run.packets > 0 && self.ip != IpHeader::default() {
            *p = self.ip.put(*p);
        }
        run
    }
    /// Applies the flow's IP header to a packet created as IPv4.
    pub(super) fn with_ip_header(&self, p: Packet) -> Packet {
        if self.ip == IpHeader::default() { p } else { self.ip.put(p) }
    }
    #[inline(always)]
    pub(super) fn wake(&mut self, now: Time, end: usize) -> Option<Time> {
        either!(&mut self.kind, k => k.wake(now, end, &mut self.collector))
    }
    #[inline(always)]
    pub(super) fn next_wake(&self, now: Time, end: usize) -> Time {
        either!(&self.kind, k => k.next_wake(now, end))
    }
    /// Returns the memory of unacknowledged segments, reassembly and records, bytes.
    pub(super) fn bytes(&self) -> usize {
        let sender = self.application().sender().map_or(0, |(sender, _)| sender.bytes());
        let reassembly = self.reassembly.iter().flatten().map(|r| r.bytes()).sum::<usize>();
        sender + reassembly + self.application().bytes()
    }

    /// Returns the results until `end`, with the scenario's number of the flow.
    pub(super) fn numbered_report(&self, end: Time) -> (usize, Box<FlowReport>) {
        (self.global, Box::new(self.report(end)))
    }

    fn report(&self, end: Time) -> FlowReport {
        let FlowCollector { end: ended, last_delivery, delay } = &self.collector;
        let mut out = FlowReport {
            start: self.start,
            end: *ended,
            last_delivery: *last_delivery,
            delay: RttResult::from_histogram(delay),
            rejected: (self.protocols.contains(&Protocol::Tcp) && self.open != [true; 2]).then_some(0),
            // Datagrams of programs are part of the flow; a connection between programs is not.
            not_run: self.open == [true; 2] && self.protocols[0] != Protocol::Udp,
            ..Default::default()
        };
        self.application().report(end, &mut out);
        if let Some((s, _)) = self.application().sender() {
            out.sender = s.stats().into();
        }
        out
    }
}

/// Returns the instant before `now`, as of which `next_wake` includes timers due at `now` but no effects of its events.
fn just_before(now: Time) -> Time {
    Time(now.0.saturating_sub(1))
}

fn datagram(id: FlowId, number: u32, payload: u16, now: Time) -> Packet {
    let mut p = Packet::udp(id, number, payload, now);
    p.ident = number as u16; // fragments of two datagrams must not mix
    p
}
