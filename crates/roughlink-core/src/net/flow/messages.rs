//! Messages over SCTP.

use super::{Application, FlowCollector, just_before};
use crate::app::ApplicationResult;
use crate::app::messages::{MessageClock, MessagesConfig, MessagesResult};
use crate::cc::LinkEvent;
use crate::metrics::{FlowReport, RttResult};
use crate::net::end::{Sending, association};
use crate::packet::{FlowId, Packet, Sides};
use crate::quantiles::Histogram;
use crate::rng::Seed;
use crate::scenario::FlowSpec;
use crate::sctp::{AssociationState, SctpEndpoint};
use crate::units::Time;

/// An association: end 0 writes messages, and end 1 reads each at once. An end outside is `None`.
pub(super) struct MessageFlow {
    ends: [Option<SctpEndpoint>; 2],
    start: Time,
    cfg: MessagesConfig,
    clock: MessageClock,
    started: bool,
    delivered: u64,
    bytes: u64,
    /// Times from when a message was due until its delivery.
    latency: Histogram,
}

impl MessageFlow {
    pub(super) fn new(spec: &FlowSpec, index: u32, open: [bool; 2], cfg: MessagesConfig, seed: &Seed) -> Self {
        let mut ends = [0, 1].map(|end| (!open[end]).then(|| association(spec, FlowId::new(index, end == 1), seed)));
        if let Some(sink) = &mut ends[1] {
            sink.read_messages();
            sink.listen();
        }
        MessageFlow {
            ends,
            start: spec.start,
            cfg,
            clock: MessageClock::new(cfg, spec.start),
            started: false,
            delivered: 0,
            bytes: 0,
            latency: Histogram::default(),
        }
    }

    /// Reads messages that arrived at end 1.
    fn read(&mut self, now: Time, collector: &mut FlowCollector) {
        let [source, Some(sink)] = &mut self.ends else { return };
        while let Some((tsn, bytes)) = sink.read_message() {
            if let Some(written) = source.as_ref().and_then(|source| source.written_at(tsn)) {
                self.latency.record((now - written).0);
            }
            (self.delivered, self.bytes) = (self.delivered + 1, self.bytes + bytes);
            collector.last_delivery = now;
        }
        if sink.peer_closed() {
            sink.close();
        }
    }

    /// Derives the messages delivered to a sink outside from its acknowledgments.
    fn acknowledged(&mut self, now: Time, collector: &mut FlowCollector) {
        let delivered = self.ends[0].as_ref().and_then(SctpEndpoint::sender).map_or(0, |s| s.messages());
        if delivered > self.delivered {
            (self.delivered, self.bytes) = (delivered, delivered * u64::from(self.cfg.size));
            collector.last_delivery = now;
        }
    }

    /// Writes messages that are due as long as the send buffer has room, and closes after the last.
    fn write(&mut self, now: Time) {
        let Some(source) = &mut self.ends[0] else { return };
        while source.has_room(now, self.cfg.size)
            && let Some((number, due)) = self.clock.take_due(now)
        {
            source.write((number % u64::from(source.streams())) as u16, self.cfg.size, due);
        }
        if source.streams() > 0 && self.clock.is_done() {
            source.close();
        }
    }

    /// Returns true if each message of a finite flow was delivered or abandoned.
    fn is_over(&self) -> bool {
        match &self.ends {
            [Some(source), Some(sink)] => self.clock.is_done() && sink.has_all_of(source),
            [Some(source), None] => self.clock.is_done() && source.sender().is_some_and(|s| s.is_done()),
            [None, sink] => {
                self.cfg.count == Some(self.delivered) || sink.as_ref().is_some_and(SctpEndpoint::peer_closed)
            }
        }
    }

    fn act(&mut self, now: Time, end: usize, collector: &mut FlowCollector) {
        if end == 1 {
            self.read(now, collector);
        } else {
            if self.ends[1].is_none() {
                self.acknowledged(now, collector);
            }
            self.write(now);
        }
        if collector.end.is_none() && self.is_over() {
            collector.end = Some(now);
        }
    }

    fn app_wake(&self, now: Time) -> Time {
        match (&self.ends[0], self.started) {
            (None, _) => Time::MAX,
            (Some(_), false) => self.start,
            // An overdue message needs no timer: each event of the association tries to write it again.
            (Some(_), true) => Some(self.clock.next_due()).filter(|due| *due > now).unwrap_or(Time::MAX),
        }
    }
}

impl Application for MessageFlow {
    fn receive(&mut self, now: Time, end: usize, p: &Packet, sides: &Sides, collector: &mut FlowCollector) -> bool {
        if now < self.start {
            return false;
        }
        if end == 1 && p.payload() > 0 {
            collector.note_delay(self.ends[0].as_ref().and_then(|source| source.age_of(now, p)));
        }
        if let Some(own) = &mut self.ends[end] {
            own.receive(now, p, sides);
        }
        self.act(now, end, collector);
        true
    }
    fn transmit(&mut self, now: Time, end: usize, _: FlowId, sides: &mut Sides) -> Option<Packet> {
        self.ends[end].as_mut()?.transmit(now, sides)
    }
    fn wake(&mut self, now: Time, end: usize, collector: &mut FlowCollector) -> Option<Time> {
        if let (Some(source), false) = (&mut self.ends[0], self.started || self.start > now) {
            self.started = true;
            source.connect();
        }
        if let Some(own) = &mut self.ends[end]
            && own.next_wake(just_before(now)) <= now
        {
            own.wake(now);
        }
        self.act(now, end, collector);
        None
    }
    fn next_wake(&self, now: Time, end: usize) -> Time {
        let app = if end == 0 { self.app_wake(now) } else { Time::MAX };
        self.ends[end].as_ref().map_or(Time::MAX, |own| own.next_wake(now)).min(app)
    }
    fn is_listening(&self) -> bool {
        matches!(&self.ends, [None, Some(sink)] if sink.state() == AssociationState::Listen)
    }
    fn on_link(&mut self, now: Time, event: &LinkEvent) {
        self.ends.iter_mut().flatten().for_each(|e| e.on_link(now, event));
        self.write(now); // data abandoned after a `Hold` leaves room for overdue messages
    }
    fn sender(&self) -> Option<(Sending<'_>, u64)> {
        Some((Sending::Sctp(self.ends[0].as_ref()?.sender()?), self.bytes))
    }
    fn report(&self, end: Time, out: &mut FlowReport) {
        out.delivered = self.bytes;
        out.sized = self.cfg.count.is_some();
        out.failed = self.ends.iter().flatten().filter_map(SctpEndpoint::failed_at).min();
        if let [Some(source), Some(sink)] = &self.ends {
            out.skipped = sink.skipped_bytes(source);
        }
        if self.ends.iter().all(Option::is_none) {
            return; // the results are unknown
        }
        out.application = Some(ApplicationResult::Messages(Box::new(MessagesResult {
            sent: if self.ends[0].is_some() { self.clock.due_by(end) } else { self.delivered },
            delivered: self.delivered,
            abandoned: self.ends[0].as_ref().and_then(SctpEndpoint::sender).map_or(0, |s| s.abandoned().0),
            latency_ms: RttResult::from_histogram(&self.latency),
        })));
    }
}
