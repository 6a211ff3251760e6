//! A transfer from end 0 to end 1; one of them may be outside.

use super::{Application, FlowCollector, just_before};
use crate::cc::LinkEvent;
use crate::metrics::FlowReport;
use crate::net::end::{Sending, TransferEnd, TransportEndpoint, connection};
use crate::packet::{FlowId, Packet, Sides};
use crate::rng::Seed;
use crate::scenario::FlowSpec;
use crate::sctp::SctpEndpoint;
use crate::tcp::{TcpEndpoint, TransmittedRun};
use crate::units::Time;

pub(super) struct BulkFlow<E> {
    ends: [E; 2],
    bytes: Option<u64>,
    delivered: u64,
    started: bool,
}

impl BulkFlow<TcpEndpoint> {
    /// Creates a transfer over TCP with both ends inside: the hot path, without a choice of the transport.
    pub(super) fn over_tcp(spec: &FlowSpec, index: u32, bytes: Option<u64>) -> Self {
        let ends = [false, true].map(|reverse| connection(spec, FlowId::new(index, reverse)));
        BulkFlow { ends, bytes, delivered: 0, started: false }
    }

    /// Sends up to `most` packets of `end` ([`TcpEndpoint::transmit_run`]).
    #[inline(always)]
    pub(super) fn transmit_run(
        &mut self,
        now: Time,
        end: usize,
        sides: &mut Sides,
        most: u32,
        p: &mut Packet,
    ) -> TransmittedRun {
        self.ends[end].transmit_run(now, sides, most, p)
    }
}

impl BulkFlow<TransportEndpoint> {
    pub(super) fn new(spec: &FlowSpec, index: u32, open: [bool; 2], bytes: Option<u64>, seed: &Seed) -> Self {
        let end = |i: usize| match open[i] {
            true => TransportEndpoint::Outside,
            false => TransportEndpoint::new(spec, FlowId::new(index, i == 1), seed),
        };
        BulkFlow { ends: [0, 1].map(end), bytes, delivered: 0, started: false }
    }
}

impl<E: TransferEnd> BulkFlow<E> {
    #[cold]
    fn start(&mut self) {
        self.started = true;
        let [source, sink] = &mut self.ends;
        sink.listen();
        source.offer(self.bytes.unwrap_or(u64::MAX), self.bytes.is_some());
        source.connect();
    }

    /// Returns both ends of an association.
    fn association(&self) -> Option<[&SctpEndpoint; 2]> {
        Some([self.ends[0].sctp()?, self.ends[1].sctp()?])
    }

    /// Returns true if some data was abandoned and all the rest delivered.
    fn has_the_rest(&self) -> bool {
        let rest = |[source, sink]: [&SctpEndpoint; 2]| {
            source.sender().is_some_and(|s| s.abandoned().0 > 0) && sink.has_all_of(source)
        };
        self.association().is_some_and(rest)
    }

    /// Derives the bytes delivered to a sink outside from its acknowledgments.
    #[cold]
    fn acknowledged(&mut self, now: Time, collector: &mut FlowCollector) {
        let acknowledged = self.ends[0].sender().map_or(0, |s| s.flow().delivered);
        let delivered = acknowledged.min(self.bytes.unwrap_or(u64::MAX)); // without the FIN
        if delivered > self.delivered {
            self.delivered = delivered;
            collector.last_delivery = now;
        }
        if collector.end.is_none() && self.bytes == Some(delivered) {
            collector.end = Some(now);
        }
    }
}

impl<E: TransferEnd> Application for BulkFlow<E> {
    #[inline(always)]
    fn receive(&mut self, now: Time, end: usize, p: &Packet, sides: &Sides, collector: &mut FlowCollector) -> bool {
        if end == 1 && p.payload() > 0 {
            collector.note_delay(self.ends[0].age_of(now, p));
        }
        self.ends[end].receive(now, p, sides);
        if end == 0 {
            if self.ends[1].is_outside() {
                self.acknowledged(now, collector);
            }
            return true;
        }
        let sink = &mut self.ends[1];
        let delivered = sink.delivered();
        if delivered > self.delivered {
            self.delivered = delivered;
            collector.last_delivery = now;
        }
        if sink.peer_closed() {
            sink.close();
        }
        if self.bytes.is_some_and(|all| collector.end.is_none() && (all == delivered || self.has_the_rest())) {
            collector.end = Some(now);
        }
        !self.ends[1].is_quiet()
    }
    #[inline(always)]
    fn transmit(&mut self, now: Time, end: usize, _: FlowId, sides: &mut Sides) -> Option<Packet> {
        self.ends[end].transmit(now, sides)
    }
    #[inline(always)]
    fn wake(&mut self, now: Time, end: usize, _: &mut FlowCollector) -> Option<Time> {
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
    fn is_listening(&self) -> bool {
        self.ends[0].is_outside() && self.ends[1].is_listening()
    }
    fn on_link(&mut self, now: Time, event: &LinkEvent) {
        self.ends.iter_mut().for_each(|e| e.on_link(now, event));
    }
    fn sender(&self) -> Option<(Sending<'_>, u64)> {
        Some((self.ends[0].sender()?, self.delivered))
    }
    fn report(&self, _: Time, out: &mut FlowReport) {
        out.delivered = self.delivered;
        out.sized = self.bytes.is_some();
        out.failed = self.ends.iter().filter_map(E::failed_at).min();
        out.rejected = out.rejected.map(|_| self.ends.iter().map(E::rejected).sum());
        out.skipped = self.association().map_or(0, |[source, sink]| sink.skipped_bytes(source));
    }
}
