//! Dialogues over TCP. The bytes of a segment are created where it leaves the network for an end outside. Bytes from
//! outside are put in order, as an application at a socket receives them.

use super::{Application, FlowCollector, datagram, just_before};
use crate::app::dialogue::{Action, Dialogue};
use crate::app::request::v2gtp::OutgoingMessages;
use crate::cc::LinkEvent;
use crate::metrics::FlowReport;
use crate::net::end::{Sending, connection};
use crate::packet::{FlowId, Packet, Protocol, Sides};
use crate::scenario::FlowSpec;
use crate::tcp::{ConnectionState, TcpEndpoint, Unread, unwrap};
use crate::units::Time;
use crate::wire::{Addresses, Payload};
use std::collections::VecDeque;

/// A connection and its dialogue.
pub(super) struct DialogueFlow<D> {
    /// Endpoints; `None` outside the network.
    ends: [Option<TcpEndpoint>; 2],
    /// Start of the dialogue; neither end acts before.
    start: Time,
    dialogue: D,
    datagrams: [VecDeque<u16>; 2],
    sent: [u32; 2],
    connected: bool,
    /// Ends whose connection has ended.
    closed: [bool; 2],
    /// Bytes that each end cannot write yet because the send buffer is full.
    waiting: [u64; 2],
    /// Ends that close after these bytes.
    closing: [bool; 2],
    /// Bytes delivered to the sink.
    received: u64,
    /// Bytes from the end outside that the end here has not read.
    unread: Unread,
}

impl<D: Dialogue> DialogueFlow<D> {
    pub(super) fn new(spec: &FlowSpec, index: u32, open: [bool; 2], dialogue: D) -> Self {
        let mut ends = [0, 1].map(|end| (!open[end]).then(|| connection(spec, FlowId::new(index, end == 1))));
        if let Some(end) = &mut ends[1] {
            end.listen();
        }
        DialogueFlow {
            ends,
            start: spec.start,
            dialogue,
            datagrams: Default::default(),
            sent: [0; 2],
            connected: false,
            closed: [false; 2],
            waiting: [0; 2],
            closing: [false; 2],
            received: 0,
            unread: Unread::default(),
        }
    }

    /// Returns the bytes that reached an end; for an end outside, the bytes that it acknowledged.
    fn delivered(&self, end: usize) -> u64 {
        let acknowledged =
            |e: &TcpEndpoint| e.sender().map_or(0, |s| s.una().saturating_sub(1 + u64::from(s.fin_acked())));
        match &self.ends[end] {
            Some(own) => own.delivered(),
            None => self.ends[1 - end].as_ref().map_or(0, acknowledged),
        }
    }

    /// Passes events between the dialogue and the connection until neither has any left.
    fn act(&mut self, now: Time, collector: &mut FlowCollector) {
        loop {
            let established = |e: &TcpEndpoint| e.state() == ConnectionState::Established;
            if !self.connected && self.ends[0].as_ref().is_some_and(established) {
                self.connected = true;
                self.dialogue.connected(now);
            }
            for i in [0, 1] {
                if self.ends[1 - i].is_none() && self.dialogue.messages(i).is_some() {
                    self.exchange(now, i);
                }
                let Some(end) = &self.ends[i] else { continue };
                self.dialogue.received(now, i, end.delivered());
                if !self.closed[i] && (end.peer_closed() || end.failed()) {
                    self.closed[i] = true;
                    self.dialogue.closed(now, i, !end.failed());
                }
            }
            if !self.transmit_actions(now) {
                break;
            }
        }
        if let Some(sink) = self.dialogue.sink() {
            let received = self.delivered(sink);
            if received > self.received {
                self.received = received;
                collector.last_delivery = now;
            }
        }
        if self.dialogue.is_over(self.received) {
            collector.end.get_or_insert(now);
        }
        self.flush(0);
        self.flush(1);
    }

    /// Carries out the actions of the ends inside. Returns false if there are none.
    fn transmit_actions(&mut self, now: Time) -> bool {
        let mut any = false;
        for i in [0, 1] {
            while let Some(end) = &mut self.ends[i]
                && let Some(action) = self.dialogue.transmit(now, i)
            {
                any = true;
                match action {
                    Action::Datagram(payload) => self.datagrams[i].push_back(payload),
                    Action::Connect => end.connect(),
                    Action::Write(bytes) => {
                        let waiting = self.waiting[i].saturating_add(bytes);
                        let fits = waiting <= end.room();
                        if fits || self.ends[1 - i].is_some() || self.dialogue.overflowed(now, i) {
                            self.waiting[i] = waiting;
                            self.flush(i);
                        }
                    }
                    Action::Close => self.closing[i] = true,
                }
            }
        }
        any
    }

    /// Writes waiting bytes as long as there is room. Once all are written, closes the connection if [`Action::Close`]
    /// is pending.
    fn flush(&mut self, i: usize) {
        let (Some(end), waiting) = (&mut self.ends[i], &mut self.waiting[i]) else { return };
        let bytes = end.room().min(*waiting);
        if bytes > 0 {
            end.write(bytes);
            *waiting -= bytes;
        }
        if *waiting == 0 && std::mem::take(&mut self.closing[i]) {
            end.close();
        }
    }

    /// Reads bytes from the end outside and handles its acknowledgments.
    #[cold]
    fn exchange(&mut self, now: Time, end: usize) {
        let Some(own) = &self.ends[end] else { return };
        let mut bytes = vec![0; (own.delivered() - self.unread.from()) as usize];
        self.unread.read(&mut bytes);
        self.dialogue.read(now, end, &bytes);
        self.dialogue.acknowledged(end, self.delivered(1 - end));
    }
}

impl<D: Dialogue> Application for DialogueFlow<D> {
    fn receive(&mut self, now: Time, end: usize, p: &Packet, sides: &Sides, collector: &mut FlowCollector) -> bool {
        if now < self.start {
            return false;
        }
        let sink = self.dialogue.sink();
        if p.payload() > 0 && sink == Some(end) {
            collector.note_delay(self.ends[1 - end].as_mut().and_then(|peer| peer.age_of(now, p)));
        } else if p.payload() > 0 && sink.is_none() {
            collector.last_delivery = now;
        }
        if p.protocol() == Protocol::Udp {
            self.dialogue.receive_datagram(now, end);
        } else if let Some(own) = &mut self.ends[end] {
            own.receive(now, p, sides);
        }
        self.act(now, collector);
        true
    }
    fn read(&mut self, now: Time, end: usize, p: &Packet, payload: &[u8]) -> bool {
        if p.protocol() == Protocol::Udp {
            return self.dialogue.accepts_datagram(end, payload);
        }
        if let (Some(own), Some(_)) = (&self.ends[end], self.dialogue.messages(end)) {
            self.unread.keep(now, own, p, payload);
        }
        true
    }
    fn payload(&self, p: &Packet, addresses: &Addresses) -> Option<Vec<u8>> {
        let end = usize::from(p.flow.reverse());
        if p.protocol() == Protocol::Udp {
            return self.dialogue.datagram(end, addresses);
        }
        let written = self.dialogue.messages(end)?;
        let mut out = vec![0; p.payload() as usize];
        // Streams begin after the SYN, which has sequence number 0.
        written.part(unwrap(written.end(), p.seq, 1), out.len()).fill(0, &mut out);
        Some(out)
    }
    fn is_listening(&self) -> bool {
        matches!(&self.ends, [None, Some(end)] if end.state() == ConnectionState::Listen)
    }
    fn transmit(&mut self, now: Time, end: usize, id: FlowId, sides: &mut Sides) -> Option<Packet> {
        let Some(payload) = self.datagrams[end].pop_front() else {
            return self.ends[end].as_mut()?.transmit(now, sides);
        };
        self.sent[end] += 1;
        Some(datagram(id, self.sent[end] - 1, payload, now))
    }
    fn wake(&mut self, now: Time, end: usize, collector: &mut FlowCollector) -> Option<Time> {
        if end == 0 && self.dialogue.next_wake() <= now {
            self.dialogue.wake(now);
        }
        if let Some(own) = &mut self.ends[end]
            && own.next_wake(just_before(now)) <= now
        {
            own.wake(now);
        }
        self.act(now, collector);
        None
    }
    fn next_wake(&self, now: Time, end: usize) -> Time {
        self.ends[end].as_ref().map_or(Time::MAX, |own| own.next_wake(now)).min(self.dialogue.next_wake())
    }
    fn on_link(&mut self, now: Time, event: &LinkEvent) {
        self.ends.iter_mut().flatten().for_each(|end| end.on_link(now, event));
    }
    fn sender(&self) -> Option<(Sending<'_>, u64)> {
        let sink = self.dialogue.sink();
        let source = 1 - sink.unwrap_or(1);
        let end = if self.ends[source].is_some() { source } else { 1 - source };
        let delivered = sink.map_or_else(|| self.delivered(1 - end), |_| self.received);
        Some((Sending::Tcp(self.ends[end].as_ref()?.sender()?), delivered))
    }
    fn messages(&self) -> Option<[Option<&OutgoingMessages>; 2]> {
        let messages = [0, 1].map(|end| self.dialogue.messages(end));
        messages.iter().any(Option::is_some).then_some(messages)
    }
    fn bytes(&self) -> usize {
        self.dialogue.bytes() + self.unread.bytes()
    }
    fn report(&self, _: Time, out: &mut FlowReport) {
        let inside = || self.ends.iter().flatten();
        out.delivered = self.dialogue.sink().map_or_else(|| self.delivered(0) + self.delivered(1), |_| self.received);
        out.sized = self.dialogue.has_end();
        out.failed = inside().filter_map(TcpEndpoint::failed_at).min();
        out.rejected = out.rejected.map(|_| inside().map(TcpEndpoint::rejected).sum());
        out.datagrams = self.sent.iter().map(|n| u64::from(*n)).sum();
        // Results are unknown if both ends are outside.
        out.application = inside().next().and_then(|_| self.dialogue.result());
    }
}
