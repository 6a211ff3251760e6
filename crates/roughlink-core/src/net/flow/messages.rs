//! Messages over SCTP.

use super::{Application, FlowProgress, just_before};
use crate::app::ApplicationResult;
use crate::app::messages::{MessageClock, MessagesConfig, MessagesResult};
use crate::cc::LinkEvent;
use crate::metrics::{FlowOutcome, RttResult};
use crate::net::end::{Sending, association};
use crate::packet::{FlowId, Packet, Sides};
use crate::quantiles::Histogram;
use crate::rng::Seed;
use crate::scenario::FlowSpec;
use crate::sctp::{AssociationState, SctpConfig, SctpEndpoint};
use crate::units::Time;
use std::sync::Arc;

/// An association: end 0 writes messages, and end 1 reads each at once. An end outside remains closed.
pub(super) struct MessageFlow {
    ends: [SctpEndpoint; 2],
    open: [bool; 2],
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
    pub(super) fn new(
        spec: &FlowSpec,
        sctp: &Arc<SctpConfig>,
        index: u32,
        open: [bool; 2],
        cfg: MessagesConfig,
        seed: &Seed,
    ) -> Self {
        let mut ends = [false, true].map(|reverse| association(spec, sctp, FlowId::new(index, reverse), seed));
        ends[1].read_messages();
        if !open[1] {
            ends[1].listen();
        }
        MessageFlow {
            ends,
            open,
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
    fn read(&mut self, now: Time, progress: &mut FlowProgress) {
        let [source, sink] = &mut self.ends;
        while let Some((tsn, bytes)) = sink.read_message() {
            if let Some(written) = source.written_at(tsn) {
                self.latency.record((now - written).0);
            }
            (self.delivered, self.bytes) = (self.delivered + 1, self.bytes + bytes);
            progress.last_delivery = now;
        }
        if sink.peer_closed() {
            sink.close();
        }
    }

    /// Derives the messages delivered to a sink outside from its acknowledgments.
    fn acknowledged(&mut self, now: Time, progress: &mut FlowProgress) {
        let delivered = self.ends[0].sender().map_or(0, |s| s.messages());
        if delivered > self.delivered {
            (self.delivered, self.bytes) = (delivered, delivered * u64::from(self.cfg.size));
            progress.last_delivery = now;
        }
    }

    /// Writes messages that are due as long as the send buffer has room, and closes after the last.
    fn write(&mut self, now: Time) {
        let source = &mut self.ends[0];
        while source.has_room(now, self.cfg.size)
            && let Some((number, due)) = self.clock.take_due(now)
        {
            source.write((number % u64::from(source.streams())) as u16, self.cfg.size, due);
        }
        if source.streams() > 0 && self.has_written_all() {
            self.ends[0].close();
        }
    }

    fn has_written_all(&self) -> bool {
        self.cfg.count.is_some() && self.clock.next_due() == Time::MAX
    }

    /// Returns true if each message of a finite flow was delivered or abandoned.
    fn is_over(&self) -> bool {
        let [source, sink] = &self.ends;
        match self.open {
            [true, _] => self.cfg.count == Some(self.delivered) || sink.peer_closed(),
            [false, true] => self.has_written_all() && source.sender().is_some_and(|s| s.is_done()),
            [false, false] => self.has_written_all() && sink.has_all_of(source),
        }
    }

    fn act(&mut self, now: Time, end: usize, progress: &mut FlowProgress) {
        match end {
            0 if self.open[0] => {}
            0 => {
                if self.open[1] {
                    self.acknowledged(now, progress);
                }
                self.write(now);
            }
            _ => self.read(now, progress),
        }
        if progress.end.is_none() && self.is_over() {
            progress.end = Some(now);
        }
    }

    fn app_wake(&self, now: Time) -> Time {
        match (self.open[0], self.started) {
            (true, _) => Time::MAX,
            (false, false) => self.start,
            // An overdue message needs no timer: each event of the association tries to write it again.
            (false, true) => Some(self.clock.next_due()).filter(|due| *due > now).unwrap_or(Time::MAX),
        }
    }
}

impl Application for MessageFlow {
    fn receive(&mut self, now: Time, end: usize, p: &Packet, sides: &Sides, progress: &mut FlowProgress) -> bool {
        if end == 1 && p.payload() > 0 {
            progress.note_delay(self.ends[0].age_of(now, p));
        }
        self.ends[end].receive(now, p, sides);
        self.act(now, end, progress);
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
        self.act(now, end, progress);
        None
    }
    fn next_wake(&self, now: Time, end: usize) -> Time {
        let app = if end == 0 { self.app_wake(now) } else { Time::MAX };
        self.ends[end].next_wake(now).min(app)
    }
    fn is_listening(&self) -> bool {
        self.open == [true, false] && self.ends[1].state() == AssociationState::Listen
    }
    fn on_link(&mut self, now: Time, event: &LinkEvent) {
        self.ends.iter_mut().for_each(|e| e.on_link(now, event));
        if !self.open[0] {
            self.write(now); // data abandoned after a `Hold` leaves room for overdue messages
        }
    }
    fn sender(&self) -> Option<(Sending<'_>, u64)> {
        Some((Sending::Sctp(self.ends[0].sender()?), self.bytes))
    }
    fn report(&self, end: Time, out: &mut FlowOutcome) {
        let [source, sink] = &self.ends;
        out.delivered = self.bytes;
        out.sized = self.cfg.count.is_some();
        out.failed = self.ends.iter().filter_map(SctpEndpoint::failed_at).min();
        out.skipped = sink.skipped_bytes(source);
        out.application = Some(ApplicationResult::Messages(Box::new(MessagesResult {
            sent: if self.open[0] { self.delivered } else { self.clock.due_by(end) },
            delivered: self.delivered,
            abandoned: source.sender().map_or(0, |s| s.abandoned().0),
            latency_ms: RttResult::from_histogram(&self.latency),
        })));
    }
}
