//! Charging sessions.

use super::{Application, Progress, datagram, just_before};
use crate::app::request::{Action, Session, SessionConfig, Side};
use crate::cc::LinkEvent;
use crate::metrics::FlowOutcome;
use crate::net::end::Sending;
use crate::packet::{FlowId, Packet, Protocol, Sides};
use crate::scenario::FlowSpec;
use crate::tcp::{Endpoint, State};
use crate::units::Time;
use std::collections::VecDeque;
use std::sync::Arc;

/// A charging session: end 0 is the vehicle.
pub(super) struct Requests {
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
    /// Of flow `index` of a component.
    pub(super) fn new(spec: &FlowSpec, index: u32, session: &SessionConfig) -> Self {
        Requests {
            ends: [false, true].map(|reverse| {
                let factory = spec.factory.clone().expect("a session over TCP has a congestion control");
                Endpoint::new(FlowId::new(index, reverse), Arc::clone(&spec.tcp), factory, 0)
            }),
            session: Session::new(session.clone(), spec.start, [false; 2]),
            datagrams: Default::default(),
            sent: [0; 2],
            connected: false,
        }
    }

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
                    self.session.closed(now, side, !end.failed());
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

const SIDES: [Side; 2] = [Side::Evcc, Side::Secc];
