//! Charging sessions. An end in the network is a side of the session and the endpoint of its connection. Sides write
//! lengths only. The bytes of a segment are created where it leaves the network for an end outside. Bytes from outside
//! are put in order, as an application at a socket receives them.

use super::{Application, FlowProgress, datagram, just_before};
use crate::app::request::{Action, Session, SessionConfig, Side, v2gtp};
use crate::cc::LinkEvent;
use crate::metrics::FlowOutcome;
use crate::net::end::Sending;
use crate::packet::{FlowId, Packet, Protocol, Sides};
use crate::rng::Seed;
use crate::scenario::FlowSpec;
use crate::tcp::{ConnectionState, TcpEndpoint, Unread, unwrap};
use crate::units::Time;
use crate::wire::{Addresses, Payload};
use std::collections::VecDeque;
use std::sync::Arc;

/// A charging session: end 0 is the vehicle.
pub(super) struct ChargingFlow {
    /// Endpoints; one that is outside remains closed.
    ends: [TcpEndpoint; 2],
    open: [bool; 2],
    /// Start of the session; neither side acts before.
    start: Time,
    session: Session,
    datagrams: [VecDeque<u16>; 2],
    sent: [u32; 2],
    connected: bool,
    /// Bytes from the end outside that the end here has not read.
    unread: Unread,
}

impl Application for ChargingFlow {
    fn receive(&mut self, now: Time, end: usize, p: &Packet, sides: &Sides, progress: &mut FlowProgress) -> bool {
        if now < self.start {
            return false;
        }
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
    fn read(&mut self, now: Time, end: usize, p: &Packet, payload: &[u8]) -> bool {
        if p.protocol() == Protocol::Udp {
            return v2gtp::is_sdp(SIDES[1 - end], payload);
        }
        self.unread.keep(now, &self.ends[end], p, payload);
        true
    }
    fn payload(&self, p: &Packet, addresses: &Addresses) -> Option<Vec<u8>> {
        let end = usize::from(p.flow.reverse());
        if p.protocol() == Protocol::Udp {
            return Some(v2gtp::sdp(SIDES[end], addresses));
        }
        let written = self.session.written(SIDES[end])?;
        let mut out = vec![0; p.payload() as usize];
        // Streams begin after the SYN, which has sequence number 0.
        written.part(unwrap(written.end(), p.seq, 1), out.len()).fill(0, &mut out);
        Some(out)
    }
    fn is_listening(&self) -> bool {
        self.open == [true, false] && self.ends[1].state() == ConnectionState::Listen
    }
    fn transmit(&mut self, now: Time, end: usize, id: FlowId, sides: &mut Sides) -> Option<Packet> {
        let Some(payload) = self.datagrams[end].pop_front() else { return self.ends[end].transmit(now, sides) };
        self.sent[end] += 1;
        Some(datagram(id, self.sent[end] - 1, payload, now))
    }
    fn wake(&mut self, now: Time, end: usize, progress: &mut FlowProgress) -> Option<Time> {
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
        let end = usize::from(self.open[0]);
        Some((Sending::Tcp(self.ends[end].sender()?), self.delivered(1 - end)))
    }
    fn session(&self) -> Option<&Session> {
        Some(&self.session)
    }
    fn bytes(&self) -> usize {
        self.session.bytes() + self.unread.bytes()
    }
    fn report(&self, _: Time, out: &mut FlowOutcome) {
        out.delivered = self.delivered(0) + self.delivered(1);
        out.sized = true;
        out.failed = self.ends.iter().filter_map(TcpEndpoint::failed_at).min();
        out.rejected = self.ends.iter().map(TcpEndpoint::rejected).sum();
        out.datagrams = self.sent.iter().map(|n| u64::from(*n)).sum();
        // A session that only passes through has no known results.
        out.session = (self.open != [true; 2]).then(|| Box::new(self.session.result()));
    }
}

impl ChargingFlow {
    pub(super) fn new(spec: &FlowSpec, index: u32, open: [bool; 2], session: &SessionConfig, seed: &Seed) -> Self {
        let mut ends = [false, true].map(|reverse| {
            let factory = spec.factory.clone().expect("a session over TCP has a congestion control");
            TcpEndpoint::new(FlowId::new(index, reverse), Arc::clone(&spec.tcp), factory, 0)
        });
        if !open[1] {
            ends[1].listen();
        }
        ChargingFlow {
            ends,
            open,
            start: spec.start,
            session: Session::new(session.clone(), spec.start, open, seed.stream(&spec.name, "turnaround")),
            datagrams: Default::default(),
            sent: [0; 2],
            connected: false,
            unread: Unread::default(),
        }
    }

    /// Returns the bytes that reached an end; for an end outside, the bytes that it acknowledged.
    fn delivered(&self, end: usize) -> u64 {
        let acknowledged =
            |e: &TcpEndpoint| e.sender().map_or(0, |s| s.una().saturating_sub(1 + u64::from(s.fin_acked())));
        if self.open[end] { acknowledged(&self.ends[1 - end]) } else { self.ends[end].delivered() }
    }

    /// Passes events between the sides that are here and their connection until neither has any left.
    fn act(&mut self, now: Time, progress: &mut FlowProgress) {
        loop {
            if !self.connected && self.ends[0].state() == ConnectionState::Established {
                self.connected = true;
                self.session.connected(now);
            }
            for (i, side) in SIDES.into_iter().enumerate() {
                if self.open[1 - i] && !self.open[i] {
                    self.exchange(now, i);
                }
                let end = &self.ends[i];
                self.session.received(now, side, end.delivered());
                if end.peer_closed() || end.failed() {
                    self.session.closed(now, side, !end.failed());
                }
            }
            let mut idle = true;
            for (i, side) in SIDES.into_iter().enumerate() {
                while let Some(action) = self.session.transmit(now, side) {
                    idle = false;
                    match action {
                        Action::Datagram(payload) => self.datagrams[i].push_back(payload),
                        Action::Connect => self.ends[i].connect(),
                        // If a peer outside reads nothing, close the session instead of storing writes.
                        Action::Write(bytes) if self.open[1 - i] && self.ends[i].room() < u64::from(bytes) => {
                            self.session.closed(now, side, false);
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

    /// Reads bytes from the end outside and handles its acknowledgments.
    #[cold]
    fn exchange(&mut self, now: Time, end: usize) {
        let mut bytes = vec![0; (self.ends[end].delivered() - self.unread.from()) as usize];
        self.unread.read(&mut bytes);
        self.session.read(now, SIDES[end], &bytes);
        self.session.acknowledged(SIDES[end], self.delivered(1 - end));
    }
}

const SIDES: [Side; 2] = [Side::Evcc, Side::Secc];
