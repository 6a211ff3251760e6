//! Voice calls. An end in the network has a talker and a listener. For an end outside, the network measures both
//! directions with its own clock: packets depart when they enter at the port and arrive when they leave there.

use super::{Application, FlowCollector, datagram};
use crate::app::ApplicationResult;
use crate::app::voip::rtp::{Header, ObservedStream, RtpSource};
use crate::app::voip::{VoipConfig, VoipReceiver, VoipSender};
use crate::metrics::FlowReport;
use crate::packet::{FlowId, Packet, Sides};
use crate::rng::Seed;
use crate::scenario::FlowSpec;
use crate::units::Time;
use crate::wire::{Addresses, Decoded};

pub(super) struct Call {
    cfg: VoipConfig,
    talkers: [Talker; 2],
    listeners: [VoipReceiver; 2],
    /// Payload bytes that reached either end.
    delivered: u64,
    span: (Time, Time),
}

enum Talker {
    /// Talker in the network, and the RTP source of its packets that leave the network.
    Simulated(VoipSender, RtpSource),
    Outside(ObservedStream),
}

impl Call {
    pub(super) fn new(spec: &FlowSpec, cfg: &VoipConfig, stop: Time, open: [bool; 2], seed: &Seed) -> Self {
        let span = (spec.start, stop);
        let talker = |i: usize| {
            if open[i] {
                return Talker::Outside(ObservedStream::default());
            }
            let name = format!("{}.{}", spec.name, ["forward", "reverse"][i]);
            let source = if open[1 - i] { seed.stream(&name, "rtp").bits() } else { 0 };
            Talker::Simulated(VoipSender::new(cfg, span, seed, &name), RtpSource::new(source))
        };
        Call { cfg: *cfg, talkers: [0, 1].map(talker), listeners: Default::default(), delivered: 0, span }
    }

    /// Records a packet that reached `end` or left the network for it.
    fn receive(&mut self, now: Time, end: usize, p: &Packet, collector: &mut FlowCollector) {
        self.listeners[end].receive(now, p.udp_sent_at(), p.seq);
        self.delivered += u64::from(p.payload());
        collector.last_delivery = now;
    }
}

impl Application for Call {
    fn receive(&mut self, now: Time, end: usize, p: &Packet, _: &Sides, collector: &mut FlowCollector) -> bool {
        self.receive(now, end, p, collector);
        false
    }
    fn enter(&mut self, now: Time, end: usize, d: &Decoded, bytes: &[u8]) -> u32 {
        let Talker::Outside(heard) = &mut self.talkers[end] else { return STRAY };
        let rtp = (self.span.0..self.span.1).contains(&now) && d.verify(bytes).is_ok();
        let header = Header::read(&bytes[d.payload.clone()]).filter(|_| rtp);
        header.and_then(|h| heard.receive(now, &h)).unwrap_or(STRAY)
    }
    fn read(&mut self, _: Time, _: usize, p: &Packet, _: &[u8]) -> bool {
        p.seq != STRAY
    }
    fn payload(&self, p: &Packet, _: &Addresses) -> Option<Vec<u8>> {
        match &self.talkers[usize::from(p.flow.reverse())] {
            Talker::Simulated(_, source) => Some(source.packet(&self.cfg, p.seq)),
            Talker::Outside(_) => None,
        }
    }
    fn on_exit(&mut self, now: Time, p: &Packet, collector: &mut FlowCollector) {
        if p.seq != STRAY {
            self.receive(now, usize::from(!p.flow.reverse()), p, collector);
        }
    }
    fn is_listening(&self) -> bool {
        matches!(&self.talkers, [Talker::Outside(heard), _] if heard.is_silent())
    }
    fn transmit(&mut self, now: Time, end: usize, id: FlowId, _: &mut Sides) -> Option<Packet> {
        match &mut self.talkers[end] {
            Talker::Simulated(talker, _) => talker.transmit(now).map(|n| datagram(id, n, self.cfg.datagram(), now)),
            Talker::Outside(_) => None,
        }
    }
    fn wake(&mut self, now: Time, end: usize, _: &mut FlowCollector) -> Option<Time> {
        Some(self.next_wake(now, end)).filter(|next| *next > now)
    }
    fn next_wake(&self, _: Time, end: usize) -> Time {
        match &self.talkers[end] {
            Talker::Simulated(talker, _) => talker.next_wake(),
            Talker::Outside(_) => Time::MAX,
        }
    }
    fn bytes(&self) -> usize {
        self.listeners.iter().map(VoipReceiver::bytes).sum()
    }
    fn report(&self, end: Time, out: &mut FlowReport) {
        let talkers = self.talkers.each_ref().map(|talker| match talker {
            Talker::Simulated(talker, _) => talker.clone(),
            Talker::Outside(heard) => heard.sender(&self.cfg),
        });
        out.delivered = self.delivered;
        out.datagrams = talkers.iter().map(|t| u64::from(t.sent())).sum();
        let result = |i: usize| self.listeners[1 - i].result(&self.cfg, &talkers[i], end.min(self.span.1));
        out.application = Some(ApplicationResult::Voip(Box::new([result(0), result(1)])));
    }
}

/// Number of a packet from outside that is not part of the call.
const STRAY: u32 = u32::MAX;
