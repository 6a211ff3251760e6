//! A flow in a running component: its application, what carries it, and its two ends under the verbs of every element.
//!
//! End 0 is at the flow's `from`, end 1 at its `to`; what end 0 sends travels forward.

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
    kind: Kind,
    index: u32,
    start: Time,
    end: Option<Time>,
    last_delivery: Time,
}

enum Kind {
    Bulk(Box<Bulk>),
    Cbr(Box<Cbr>),
    Voip(Box<Call>),
    Request(Box<Requests>),
}

/// A transfer from end 0 to end 1.
struct Bulk {
    ends: [End; 2],
    bytes: Option<u64>,
    delivered: u64,
    started: bool,
}

struct Cbr {
    sender: cbr::Sender,
    bytes: Option<u64>,
    delivered: u64,
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

/// A charging session: end 0 is the vehicle.
struct Requests {
    ends: [Endpoint; 2],
    session: Session,
    datagrams: [VecDeque<u16>; 2],
    sent: [u32; 2],
    connected: bool,
}

impl Flow {
    /// Flow `index` of a component, `global` of the scenario, which lasts `duration`.
    pub fn new(spec: &FlowSpec, (index, global): (u32, usize), path: [u32; 3], duration: Time, seed: &Seed) -> Self {
        let kind = match &spec.traffic {
            Traffic::Bulk { bytes } => {
                Kind::Bulk(Box::new(Bulk { ends: End::pair(spec, index), bytes: *bytes, delivered: 0, started: false }))
            }
            Traffic::Cbr { rate, packet, bytes, stop } => {
                let stop = stop.unwrap_or(duration).min(duration);
                let sender = cbr::Sender::new(*rate, *packet, *bytes, (spec.start, stop));
                Kind::Cbr(Box::new(Cbr { sender, bytes: *bytes, delivered: 0 }))
            }
            Traffic::Voip { config, stop } => {
                let stop = stop.unwrap_or(duration).min(duration);
                let talker =
                    |way: &str| voip::Sender::new(config, (spec.start, stop), seed, &format!("{}.{way}", spec.name));
                let talkers = ["forward", "reverse"].map(talker);
                let listeners = Default::default();
                Kind::Voip(Box::new(Call { cfg: *config, talkers, listeners, delivered: 0, stop }))
            }
            Traffic::Request { session } => Kind::Request(Box::new(Requests {
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
        Flow {
            global,
            path,
            nodes: [spec.from, spec.to],
            reassembly: [None, None],
            kind,
            index,
            start: spec.start,
            end: None,
            last_delivery: spec.start,
        }
    }

    /// When it first wants to be woken.
    pub fn start(&self) -> Time {
        self.start
    }

    /// A whole datagram reached `end`. Returns whether either end may now have something to send.
    #[inline(always)]
    pub fn receive(&mut self, now: Time, end: usize, p: &Packet, sides: &Sides) -> bool {
        match &mut self.kind {
            Kind::Bulk(b) => {
                b.ends[end].receive(now, p, sides);
                if end == 0 {
                    return true;
                }
                let sink = &mut b.ends[1];
                let delivered = sink.delivered();
                if delivered > b.delivered {
                    b.delivered = delivered;
                    self.last_delivery = now;
                }
                if self.end.is_none() && b.bytes.is_some_and(|all| all == delivered + sink.skipped()) {
                    self.end = Some(now);
                }
                if sink.peer_closed() {
                    sink.close();
                }
                !sink.is_quiet()
            }
            Kind::Cbr(c) => {
                c.delivered += u64::from(p.payload());
                self.last_delivery = now;
                false
            }
            Kind::Voip(call) => {
                call.listeners[end].receive(now, p.udp_sent_at(), p.seq);
                call.delivered += u64::from(p.payload());
                self.last_delivery = now;
                false
            }
            Kind::Request(r) => {
                if p.protocol() == Protocol::Udp {
                    r.session.receive_datagram(now, SIDES[end]);
                } else {
                    r.ends[end].receive(now, p, sides);
                }
                if p.payload() > 0 {
                    self.last_delivery = now;
                }
                r.act(now);
                if r.session.is_done() {
                    self.end.get_or_insert(now);
                }
                true
            }
        }
    }

    /// What `end` wants to send now.
    #[inline]
    pub fn transmit(&mut self, now: Time, end: usize, sides: &mut Sides) -> Option<Packet> {
        let id = FlowId::new(self.index, end == 1);
        match &mut self.kind {
            Kind::Bulk(b) => b.ends[end].transmit(now, sides),
            Kind::Cbr(c) if end == 0 => c.sender.transmit(now).map(|(n, payload)| datagram(id, n, payload, now)),
            Kind::Cbr(_) => None,
            Kind::Voip(call) => call.talkers[end].transmit(now).map(|n| datagram(id, n, call.cfg.datagram(), now)),
            Kind::Request(r) => match r.datagrams[end].pop_front() {
                Some(payload) => {
                    r.sent[end] += 1;
                    Some(datagram(id, r.sent[end] - 1, payload, now))
                }
                None => r.ends[end].transmit(now, sides),
            },
        }
    }

    /// Wakes `end` if its time has come; whether it had.
    pub fn wake(&mut self, now: Time, end: usize) -> bool {
        // What was due at `now` and is not done yet, not what is due because of what happened at `now`.
        let just_before = Time(now.0.saturating_sub(1));
        match &mut self.kind {
            Kind::Bulk(b) if !b.started => {
                b.started = true;
                let [source, sink] = &mut b.ends;
                sink.listen();
                source.offer(b.bytes.unwrap_or(u64::MAX), b.bytes.is_some());
                source.connect();
                true
            }
            Kind::Bulk(b) => {
                let due = b.ends[end].next_wake(just_before) <= now;
                if due {
                    b.ends[end].wake(now);
                }
                due
            }
            Kind::Cbr(c) => end == 0 && c.sender.next_wake() <= now,
            Kind::Voip(call) => call.talkers[end].next_wake() <= now,
            Kind::Request(r) => {
                if end == 0 && r.session.next_wake() <= now {
                    r.session.wake(now);
                }
                if r.ends[end].next_wake(just_before) <= now {
                    r.ends[end].wake(now);
                }
                r.act(now);
                if r.session.is_done() {
                    self.end.get_or_insert(now);
                }
                true
            }
        }
    }

    /// When `end` must be woken; [`Time::MAX`] = never.
    #[inline]
    pub fn next_wake(&self, now: Time, end: usize) -> Time {
        match &self.kind {
            Kind::Bulk(b) => b.ends[end].next_wake(now),
            Kind::Cbr(c) if end == 0 => c.sender.next_wake(),
            Kind::Cbr(_) => Time::MAX,
            Kind::Voip(call) => call.talkers[end].next_wake(),
            Kind::Request(r) => r.ends[end].next_wake(now).min(r.session.next_wake()),
        }
    }

    /// Both ends hear of a link.
    pub fn on_link(&mut self, now: Time, event: &LinkEvent) {
        match &mut self.kind {
            Kind::Bulk(b) => b.ends.iter_mut().for_each(|e| e.on_link(now, event)),
            Kind::Request(r) => r.ends.iter_mut().for_each(|e| e.on_link(now, event)),
            Kind::Cbr(_) | Kind::Voip(_) => {}
        }
    }

    /// The sender of a transfer, once there is one, and what has been delivered of its data.
    pub fn sender(&self) -> Option<(Sending<'_>, u64)> {
        match &self.kind {
            Kind::Bulk(b) => Some((b.ends[0].sender()?, b.delivered)),
            Kind::Request(r) => Some((Sending::Tcp(r.ends[0].sender()?), r.ends[1].delivered())),
            Kind::Cbr(_) | Kind::Voip(_) => None,
        }
    }

    /// What there is to report.
    pub fn outcome(&self, end: Time) -> FlowOutcome {
        let mut out =
            FlowOutcome { start: self.start, end: self.end, last_delivery: self.last_delivery, ..Default::default() };
        match &self.kind {
            Kind::Bulk(b) => {
                out.delivered = b.delivered;
                out.sized = b.bytes.is_some();
                out.failed = b.ends.iter().any(End::failed);
                out.skipped = b.ends[1].skipped();
            }
            Kind::Cbr(c) => {
                out.delivered = c.delivered;
                out.sized = c.bytes.is_some();
                if c.sender.is_done() {
                    out.end = Some(self.last_delivery);
                }
                out.datagrams = u64::from(c.sender.sent());
            }
            Kind::Voip(call) => {
                out.delivered = call.delivered;
                out.datagrams = call.talkers.iter().map(|t| u64::from(t.sent())).sum();
                let result = |i: usize| call.listeners[1 - i].result(&call.cfg, &call.talkers[i], end.min(call.stop));
                out.voip = Some(Box::new([result(0), result(1)]));
            }
            Kind::Request(r) => {
                out.delivered = r.ends.iter().map(Endpoint::delivered).sum();
                out.sized = true;
                out.failed = r.ends.iter().any(Endpoint::failed);
                out.datagrams = r.sent.iter().map(|n| u64::from(*n)).sum();
                out.session = Some(Box::new(r.session.result()));
            }
        }
        if let Some((s, _)) = self.sender() {
            out.sender = s.stats().into();
        }
        out
    }
}

impl Requests {
    /// Carries news between the session and its connection until neither has any.
    fn act(&mut self, now: Time) {
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
                return;
            }
        }
    }
}

fn datagram(id: FlowId, number: u32, payload: u16, now: Time) -> Packet {
    let mut p = Packet::udp(id, number, payload, now);
    p.ident = number as u16; // fragments of two datagrams must not mix
    p
}

const SIDES: [Side; 2] = [Side::Evcc, Side::Secc];
