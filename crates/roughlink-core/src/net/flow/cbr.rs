//! Datagrams at a constant rate, from end 0 to end 1.

use super::{Application, FlowCollector, datagram};
use crate::app::cbr::CbrSender;
use crate::metrics::FlowReport;
use crate::packet::{FlowId, Packet, Sides};
use crate::units::{Rate, Time};

pub(super) struct CbrFlow {
    sender: CbrSender,
    bytes: Option<u64>,
    delivered: u64,
}

impl CbrFlow {
    /// Creates a flow of `packet` bytes per datagram at `rate`, up to `bytes` in total if given, from start to stop.
    pub(super) fn new((rate, packet, bytes): (Rate, u16, Option<u64>), span: (Time, Time)) -> Self {
        CbrFlow { sender: CbrSender::new(rate, packet, bytes, span), bytes, delivered: 0 }
    }
}

impl Application for CbrFlow {
    fn receive(&mut self, now: Time, end: usize, p: &Packet, _: &Sides, collector: &mut FlowCollector) -> bool {
        if end == 1 {
            self.on_exit(now, p, collector);
        }
        false
    }
    fn on_exit(&mut self, now: Time, p: &Packet, collector: &mut FlowCollector) {
        if p.flow.reverse() {
            return; // a program's reply: both ends are outside
        }
        collector.note_delay(Some(now - p.udp_sent_at()));
        self.delivered += u64::from(p.payload());
        collector.last_delivery = now;
    }
    fn transmit(&mut self, now: Time, end: usize, id: FlowId, _: &mut Sides) -> Option<Packet> {
        let (n, payload) = (end == 0).then(|| self.sender.transmit(now)).flatten()?;
        Some(datagram(id, n, payload, now))
    }
    fn wake(&mut self, now: Time, end: usize, _: &mut FlowCollector) -> Option<Time> {
        Some(self.next_wake(now, end)).filter(|next| *next > now)
    }
    fn next_wake(&self, _: Time, end: usize) -> Time {
        if end == 0 { self.sender.next_wake() } else { Time::MAX }
    }
    fn report(&self, _: Time, out: &mut FlowReport) {
        out.delivered = self.delivered;
        out.sized = self.bytes.is_some();
        if self.sender.is_done() {
            out.end = Some(out.last_delivery);
        }
        out.datagrams = u64::from(self.sender.sent());
    }
}
