//! Applications that write to a TCP connection at any time: on-off traffic, and requests with responses.

use super::{Application, FlowProgress, just_before};
use crate::app::onoff::OnOff;
use crate::app::web::Web;
use crate::cc::LinkEvent;
use crate::metrics::{FlowOutcome, RttResult, WebResult};
use crate::net::end::Sending;
use crate::packet::{FlowId, Packet, Sides};
use crate::scenario::FlowSpec;
use crate::tcp::{ConnectionState, TcpEndpoint};
use crate::units::Time;
use std::sync::Arc;

pub(super) enum WritingApplication {
    /// End 0 writes; the second value is the total, if limited.
    OnOff(OnOff, Option<u64>),
    /// End 0 requests, end 1 responds.
    Web(Web),
}

/// A connection and its applications. An end outside remains closed.
pub(super) struct WriteFlow {
    ends: [TcpEndpoint; 2],
    open: [bool; 2],
    start: Time,
    writer: WritingApplication,
    started: bool,
    connected: bool,
    /// Bytes that each end's application cannot write yet because the send buffer is full.
    waiting: [u64; 2],
    received: u64,
}

impl WriteFlow {
    pub(super) fn new(spec: &FlowSpec, index: u32, open: [bool; 2], writer: WritingApplication) -> Self {
        let mut ends = [false, true].map(|reverse| {
            let factory = spec.factory.clone().expect("a flow over TCP has a congestion control");
            TcpEndpoint::new(FlowId::new(index, reverse), Arc::clone(&spec.tcp), factory, 0)
        });
        if !open[1] {
            ends[1].listen();
        }
        let (started, connected) = (false, false);
        WriteFlow { ends, open, start: spec.start, writer, started, connected, waiting: [0; 2], received: 0 }
    }

    /// Returns the end that receives most.
    fn receiver(&self) -> usize {
        usize::from(matches!(self.writer, WritingApplication::OnOff(..)))
    }

    /// Returns the bytes that reached an end; for an end outside, the bytes that it acknowledged.
    fn delivered(&self, end: usize) -> u64 {
        let acknowledged =
            |e: &TcpEndpoint| e.sender().map_or(0, |s| s.una().saturating_sub(1 + u64::from(s.fin_acked())));
        if self.open[end] { acknowledged(&self.ends[1 - end]) } else { self.ends[end].delivered() }
    }

    /// Lets the applications write and close.
    fn act(&mut self, now: Time, progress: &mut FlowProgress) {
        if !self.connected && self.ends[0].state() == ConnectionState::Established {
            self.connected = true;
            if let WritingApplication::Web(web) = &mut self.writer {
                web.connected(now);
            }
        }
        let received = self.delivered(self.receiver());
        if received > self.received {
            self.received = received;
            progress.last_delivery = now;
        }
        let done = match &mut self.writer {
            WritingApplication::OnOff(onoff, all) => {
                self.waiting[0] += onoff.take_due(now);
                if *all == Some(received) {
                    progress.end.get_or_insert(now);
                }
                onoff.is_done()
            }
            WritingApplication::Web(web) => {
                self.waiting[1] += web.respond(self.ends[1].delivered());
                web.on_response(now, self.ends[0].delivered());
                self.waiting[0] += web.request(now);
                if web.is_done() {
                    progress.end.get_or_insert(now);
                }
                web.is_done()
            }
        };
        for (end, waiting) in self.ends.iter_mut().zip(&mut self.waiting) {
            let bytes = end.room().min(*waiting);
            if bytes > 0 {
                end.write(bytes);
                *waiting -= bytes;
            }
        }
        if done && self.connected && self.waiting[0] == 0 {
            self.ends[0].close();
        }
        if self.ends[1].peer_closed() && self.waiting[1] == 0 {
            self.ends[1].close();
        }
    }

    fn app_wake(&self) -> Time {
        match &self.writer {
            _ if self.open[0] => Time::MAX,
            _ if !self.started => self.start,
            WritingApplication::OnOff(onoff, _) => onoff.next_wake(),
            WritingApplication::Web(web) => web.next_wake(),
        }
    }
}

impl Application for WriteFlow {
    fn receive(&mut self, now: Time, end: usize, p: &Packet, sides: &Sides, progress: &mut FlowProgress) -> bool {
        if end == self.receiver() && p.payload() > 0 {
            progress.note_delay(self.ends[1 - end].age_of(now, p));
        }
        self.ends[end].receive(now, p, sides);
        self.act(now, progress);
        true
    }
    fn transmit(&mut self, now: Time, end: usize, _: FlowId, sides: &mut Sides) -> Option<Packet> {
        self.ends[end].transmit(now, sides)
    }
    fn wake(&mut self, now: Time, end: usize, progress: &mut FlowProgress) -> Option<Time> {
        if !self.started && !self.open[0] && self.start <= now {
            self.started = true;
            self.ends[0].connect();
        }
        if self.ends[end].next_wake(just_before(now)) <= now {
            self.ends[end].wake(now);
        }
        self.act(now, progress);
        None
    }
    fn next_wake(&self, now: Time, end: usize) -> Time {
        let app = if end == 0 { self.app_wake() } else { Time::MAX };
        self.ends[end].next_wake(now).min(app)
    }
    fn is_listening(&self) -> bool {
        self.open == [true, false] && self.ends[1].state() == ConnectionState::Listen
    }
    fn on_link(&mut self, now: Time, event: &LinkEvent) {
        self.ends.iter_mut().for_each(|e| e.on_link(now, event));
    }
    fn sender(&self) -> Option<(Sending<'_>, u64)> {
        let sends = 1 - self.receiver();
        let end = if self.open[sends] { 1 - sends } else { sends };
        Some((Sending::Tcp(self.ends[end].sender()?), self.received))
    }
    fn report(&self, _: Time, out: &mut FlowOutcome) {
        out.delivered = self.received;
        out.failed = self.ends.iter().filter_map(TcpEndpoint::failed_at).min();
        out.rejected = self.ends.iter().map(TcpEndpoint::rejected).sum();
        match &self.writer {
            WritingApplication::OnOff(_, all) => out.sized = all.is_some(),
            WritingApplication::Web(web) => {
                let (requests, responses, took) = web.result();
                out.sized = web.has_end();
                out.web =
                    Some(Box::new(WebResult { requests, responses, response_ms: RttResult::from_histogram(took) }));
            }
        }
    }
}
