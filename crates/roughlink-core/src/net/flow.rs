//! A flow in a running component: its application, what carries it, and its two ends under the verbs of every element.
//!
//! End 0 is at the flow's `from`, end 1 at its `to`; what end 0 sends travels forward. Transfers are distinguished from all
//! other kinds by one branch: their packets are the hot path.

use super::end::{End, Sending};
use super::reassembly::Reassembly;
use crate::app::request::{Action, Session, Side};
use crate::app::{Traffic, cbr, voip};
use crate::cc::LinkEvent;
use crate::metrics::FlowOutcome;
use crate::packet::{FlowId, Packet, Protocol, Sides};
use crate::rng::Seed;
use crate::scenario::FlowSpec;
use crate::tcp::{Endpoint, State};
use crate::units::Time;
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) struct Flow {
    /// Its number in the scenario.
    pub global: usize,
    /// Where its two paths begin in the component's list: forward, reverse; and their end.
    pub path: [u32; 3],
    pub nodes: [usize; 2],
    pub reassembly: [Option<Box<Reassembly>>; 2],
    /// Its ends that are outside the network, at ports.
    pub open: [bool; 2],
    pub protocol: Protocol,
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
    /// A whole datagram left the network for an end that is outside.
    fn left(&mut self, _now: Time, _p: &Packet, _progress: &mut Progress) {}
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
    pub fn new(
        spec: &FlowSpec,
        (index, global): (u32, usize),
        path: [u32; 3],
        open: [bool; 2],
        duration: Time,
        seed: &Seed,
    ) -> Self {
        let until = |stop: &Option<Time>| stop.unwrap_or(duration).min(duration);
        let kind = match &spec.traffic {
            Traffic::Bulk { bytes } => {
                let ends = End::pair(spec, index);
                Kind::Bulk(Box::new(Bulk { ends, open, bytes: *bytes, delivered: 0, started: false }))
            }
            Traffic::Cbr { rate, packet, bytes, stop } => {
                let stop = if open[0] { spec.start } else { until(stop) };
                let sender = cbr::Sender::new(*rate, *packet, *bytes, (spec.start, stop));
                Kind::Other(Box::new(Cbr { sender, bytes: *bytes, delivered: 0 }))
            }
            Traffic::Voip { config, stop } => {
                let stop = until(stop);
                let talker =
                    |way: &str| voip::Sender::new(config, (spec.start, stop), seed, &format!("{}.{way}", spec.name));
                let talkers = ["forward", "reverse"].map(talker);
                let listeners = Default::default();
                Kind::Other(Box::new(Call { cfg: *config, talkers, listeners, delivered: 0, stop }))
            }
            Traffic::Request { session } => Kind::Other(Box::new(Requests {
                ends: [false, true].map(|reverse| {
                    let factory = spec.factory.clone().expect("a session over TCP has a congestion control");
                    Endpoint::new(FlowId::new(index, reverse), Arc::clone(&spec.tcp), factory, 0)
                }),
                session: Session::new((**session).clone(), spec.start),
                datagrams: Default::default(),
                sent: [0; 2],
                connected: false,
            })),
        };
        let (nodes, start) = ([spec.from, spec.to], spec.start);
        let progress = Progress { end: None, last_delivery: start };
        let protocol = match (&spec.traffic, &spec.sctp) {
            (Traffic::Cbr { .. } | Traffic::Voip { .. }, _) => Protocol::Udp,
            (_, Some(_)) => Protocol::Sctp,
            (_, None) => Protocol::Tcp,
        };
        let reassembly = [None, None];
        let ip = IpHeader { ipv6: spec.ipv6, dscp: spec.dscp };
        Flow { global, path, nodes, reassembly, open, protocol, kind, index, ip, start, progress }
    }

    /// A flow of datagrams from outside, number `index` of a component and, after those of the scenario, `global`.
    pub fn passing(
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
    /// A whole datagram of an end that is here left the network.
    pub fn left(&mut self, now: Time, p: &Packet) {
        of_kind!(&mut self.kind, k => k.left(now, p, &mut self.progress), ());
    }
    /// Its end here waits for a connection from outside.
    pub fn listens(&self) -> bool {
        matches!(&self.kind, Kind::Bulk(bulk) if bulk.open[0] && bulk.ends[1].is_listening())
    }
    /// Neither end is here.
    pub fn is_passing(&self) -> bool {
        matches!(self.kind, Kind::Passing)
    }

    /// When it must first be woken.
    pub fn start(&self) -> Time {
        self.start
    }
    #[inline(always)]
    pub fn receive(&mut self, now: Time, end: usize, p: &Packet, sides: &Sides) -> bool {
        of_kind!(&mut self.kind, k => k.receive(now, end, p, sides, &mut self.progress), false)
    }
    #[inline(always)]
    pub fn transmit(&mut self, now: Time, end: usize, sides: &mut Sides) -> Option<Packet> {
        let id = FlowId::new(self.index, end == 1);
        let p = of_kind!(&mut self.kind, k => k.transmit(now, end, id, sides), None)?;
        Some(self.with_ip_header(p))
    }
    /// A packet of the flow, made as one of IPv4, with the IP header that the flow has.
    #[inline(always)]
    pub fn with_ip_header(&self, mut p: Packet) -> Packet {
        if self.ip != IpHeader::default() {
            self.ip.put(&mut p);
        }
        p
    }
    /// The charging session, if it is one.
    pub fn session(&self) -> Option<&Session> {
        of_kind!(&self.kind, k => k.session(), None)
    }
    #[inline(always)]
    pub fn wake(&mut self, now: Time, end: usize) -> Option<Time> {
        of_kind!(&mut self.kind, k => k.wake(now, end, &mut self.progress), Some(Time::MAX))
    }
    #[inline(always)]
    pub fn next_wake(&self, now: Time, end: usize) -> Time {
        of_kind!(&self.kind, k => k.next_wake(now, end), Time::MAX)
    }
    pub fn on_link(&mut self, now: Time, event: &LinkEvent) {
        of_kind!(&mut self.kind, k => k.on_link(now, event), ());
    }
    pub fn sender(&self) -> Option<(Sending<'_>, u64)> {
        of_kind!(&self.kind, k => k.sender(), None)
    }

    /// Memory of what is unacknowledged, in reassembly, or recorded.
    pub fn bytes(&self) -> usize {
        let sender = self.sender().map_or(0, |(sender, _)| sender.bytes());
        let reassembly = self.reassembly.iter().flatten().map(|r| r.bytes()).sum::<usize>();
        sender + reassembly + of_kind!(&self.kind, k => k.bytes(), 0)
    }

    /// The results of the flow.
    pub fn outcome(&self, end: Time) -> FlowOutcome {
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

/// A transfer from end 0 to end 1, of which one may be outside.
struct Bulk {
    ends: [End; 2],
    open: [bool; 2],
    bytes: Option<u64>,
    delivered: u64,
    started: bool,
}

impl Bulk {
    #[cold]
    fn start(&mut self) {
        self.started = true;
        let [source, sink] = &mut self.ends;
        if !self.open[1] {
            sink.listen();
        }
        if !self.open[0] {
            source.offer(self.bytes.unwrap_or(u64::MAX), self.bytes.is_some());
            source.connect();
        }
    }

    /// What reached a sink outside is known from its acknowledgements.
    #[cold]
    fn acknowledged(&mut self, now: Time, progress: &mut Progress) {
        let acknowledged = self.ends[0].sender().map_or(0, |s| s.flow().delivered);
        let delivered = acknowledged.min(self.bytes.unwrap_or(u64::MAX)); // without the FIN
        if delivered > self.delivered {
            self.delivered = delivered;
            progress.last_delivery = now;
        }
        if progress.end.is_none() && self.bytes == Some(delivered) {
            progress.end = Some(now);
        }
    }
}

impl Application for Bulk {
    #[inline(always)]
    fn receive(&mut self, now: Time, end: usize, p: &Packet, sides: &Sides, progress: &mut Progress) -> bool {
        self.ends[end].receive(now, p, sides);
        if end == 0 {
            if self.open[1] {
                self.acknowledged(now, progress);
            }
            return true;
        }
        let [source, sink] = &mut self.ends;
        let delivered = sink.delivered();
        if delivered > self.delivered {
            self.delivered = delivered;
            progress.last_delivery = now;
        }
        if progress.end.is_none() && self.bytes.is_some_and(|all| all == delivered || sink.has_the_rest_of(source)) {
            progress.end = Some(now);
        }
        if sink.peer_closed() {
            sink.close();
        }
        !sink.is_quiet()
    }
    #[inline(always)]
    fn transmit(&mut self, now: Time, end: usize, _: FlowId, sides: &mut Sides) -> Option<Packet> {
        self.ends[end].transmit(now, sides)
    }
    #[inline(always)]
    fn wake(&mut self, now: Time, end: usize, _: &mut Progress) -> Option<Time> {
        if !self.started {
            self.start();
            return None;
        }
        let next = self.ends[end].next_wake(just_before(now));
        if next > now {
            return Some(next);
        }
        self.ends[end].wake(now);
        None
    }
    #[inline(always)]
    fn next_wake(&self, now: Time, end: usize) -> Time {
        self.ends[end].next_wake(now)
    }
    fn on_link(&mut self, now: Time, event: &LinkEvent) {
        self.ends.iter_mut().for_each(|e| e.on_link(now, event));
    }
    fn sender(&self) -> Option<(Sending<'_>, u64)> {
        Some((self.ends[0].sender()?, self.delivered))
    }
    fn report(&self, _: Time, out: &mut FlowOutcome) {
        out.delivered = self.delivered;
        out.sized = self.bytes.is_some();
        out.failed = self.ends.iter().any(End::failed);
        out.skipped = self.ends[1].skipped_bytes(&self.ends[0]);
    }
}

/// Datagrams at a constant rate, from end 0 to end 1.
struct Cbr {
    sender: cbr::Sender,
    bytes: Option<u64>,
    delivered: u64,
}

impl Application for Cbr {
    fn receive(&mut self, now: Time, end: usize, p: &Packet, _: &Sides, progress: &mut Progress) -> bool {
        if end == 1 {
            self.left(now, p, progress);
        }
        false
    }
    fn left(&mut self, now: Time, p: &Packet, progress: &mut Progress) {
        self.delivered += u64::from(p.payload());
        progress.last_delivery = now;
    }
    fn transmit(&mut self, now: Time, end: usize, id: FlowId, _: &mut Sides) -> Option<Packet> {
        let (n, payload) = (end == 0).then(|| self.sender.transmit(now)).flatten()?;
        Some(datagram(id, n, payload, now))
    }
    fn wake(&mut self, now: Time, end: usize, _: &mut Progress) -> Option<Time> {
        Some(self.next_wake(now, end)).filter(|next| *next > now)
    }
    fn next_wake(&self, _: Time, end: usize) -> Time {
        if end == 0 { self.sender.next_wake() } else { Time::MAX }
    }
    fn report(&self, _: Time, out: &mut FlowOutcome) {
        out.delivered = self.delivered;
        out.sized = self.bytes.is_some();
        if self.sender.is_done() {
            out.end = Some(out.last_delivery);
        }
        out.datagrams = u64::from(self.sender.sent());
    }
}

/// A voice call, both ways.
struct Call {
    cfg: voip::VoipConfig,
    talkers: [voip::Sender; 2],
    listeners: [voip::Receiver; 2],
    /// Payload bytes that reached either end.
    delivered: u64,
    stop: Time,
}

impl Application for Call {
    fn receive(&mut self, now: Time, end: usize, p: &Packet, _: &Sides, progress: &mut Progress) -> bool {
        self.listeners[end].receive(now, p.udp_sent_at(), p.seq);
        self.delivered += u64::from(p.payload());
        progress.last_delivery = now;
        false
    }
    fn transmit(&mut self, now: Time, end: usize, id: FlowId, _: &mut Sides) -> Option<Packet> {
        self.talkers[end].transmit(now).map(|n| datagram(id, n, self.cfg.datagram(), now))
    }
    fn wake(&mut self, now: Time, end: usize, _: &mut Progress) -> Option<Time> {
        Some(self.next_wake(now, end)).filter(|next| *next > now)
    }
    fn next_wake(&self, _: Time, end: usize) -> Time {
        self.talkers[end].next_wake()
    }
    fn bytes(&self) -> usize {
        self.listeners.iter().map(voip::Receiver::bytes).sum()
    }
    fn report(&self, end: Time, out: &mut FlowOutcome) {
        out.delivered = self.delivered;
        out.datagrams = self.talkers.iter().map(|t| u64::from(t.sent())).sum();
        let result = |i: usize| self.listeners[1 - i].result(&self.cfg, &self.talkers[i], end.min(self.stop));
        out.voip = Some(Box::new([result(0), result(1)]));
    }
}

/// A charging session: end 0 is the vehicle.
struct Requests {
    ends: [Endpoint; 2],
    session: Session,
    datagrams: [VecDeque<u16>; 2],
    sent: [u32; 2],
    connected: bool,
}

impl Application for Requests {
    fn receive(&mut self, now: Time, end: usize, p: &Packet, sides: &Sides, progress: &mut Progress) -> bool {
        if p.protocol() == Protocol::Udp {
            self.session.receive_datagram(now, SIDES[end]);
        } else {
            self.ends[end].receive(now, p, sides);
        }
        if p.payload() > 0 {
            progress.last_delivery = now;
        }
        self.act(now, progress);
        true
    }
    fn transmit(&mut self, now: Time, end: usize, id: FlowId, sides: &mut Sides) -> Option<Packet> {
        let Some(payload) = self.datagrams[end].pop_front() else { return self.ends[end].transmit(now, sides) };
        self.sent[end] += 1;
        Some(datagram(id, self.sent[end] - 1, payload, now))
    }
    fn wake(&mut self, now: Time, end: usize, progress: &mut Progress) -> Option<Time> {
        if end == 0 && self.session.next_wake() <= now {
            self.session.wake(now);
        }
        if self.ends[end].next_wake(just_before(now)) <= now {
            self.ends[end].wake(now);
        }
        self.act(now, progress);
        None
    }
    fn next_wake(&self, now: Time, end: usize) -> Time {
        self.ends[end].next_wake(now).min(self.session.next_wake())
    }
    fn on_link(&mut self, now: Time, event: &LinkEvent) {
        self.ends.iter_mut().for_each(|e| e.on_link(now, event));
    }
    fn sender(&self) -> Option<(Sending<'_>, u64)> {
        Some((Sending::Tcp(self.ends[0].sender()?), self.ends[1].delivered()))
    }
    fn session(&self) -> Option<&Session> {
        Some(&self.session)
    }
    fn bytes(&self) -> usize {
        self.session.bytes()
    }
    fn report(&self, _: Time, out: &mut FlowOutcome) {
        out.delivered = self.ends.iter().map(Endpoint::delivered).sum();
        out.sized = true;
        out.failed = self.ends.iter().any(Endpoint::failed);
        out.datagrams = self.sent.iter().map(|n| u64::from(*n)).sum();
        out.session = Some(Box::new(self.session.result()));
    }
}

impl Requests {
    /// Passes events between the session and its connection until neither has any.
    fn act(&mut self, now: Time, progress: &mut Progress) {
        loop {
            if !self.connected && self.ends[0].state() == State::Established {
                self.connected = true;
                self.session.connected(now);
            }
            for (end, side) in self.ends.iter().zip(SIDES) {
                self.session.received(now, side, end.delivered());
                if end.peer_closed() || end.failed() {
                    self.session.closed(now, side);
                }
            }
            let mut idle = true;
            for (i, side) in SIDES.into_iter().enumerate() {
                while let Some(action) = self.session.transmit(now, side) {
                    idle = false;
                    match action {
                        Action::Datagram(payload) => self.datagrams[i].push_back(payload),
                        Action::Connect => {
                            self.ends[1 - i].listen();
                            self.ends[i].connect();
                        }
                        Action::Write(bytes) => self.ends[i].write(u64::from(bytes)),
                        Action::Close => self.ends[i].close(),
                    }
                }
            }
            if idle {
                break;
            }
        }
        if self.session.is_done() {
            progress.end.get_or_insert(now);
        }
    }
}

fn datagram(id: FlowId, number: u32, payload: u16, now: Time) -> Packet {
    let mut p = Packet::udp(id, number, payload, now);
    p.ident = number as u16; // fragments of two datagrams must not mix
    p
}

const SIDES: [Side; 2] = [Side::Evcc, Side::Secc];
