//! Voice calls.

use super::{Application, Progress, datagram};
use crate::app::voip::{Receiver, Sender, VoipConfig};
use crate::metrics::FlowOutcome;
use crate::packet::{FlowId, Packet, Sides};
use crate::rng::Seed;
use crate::scenario::FlowSpec;
use crate::units::Time;

/// A voice call, both ways.
pub(super) struct Call {
    cfg: VoipConfig,
    talkers: [Sender; 2],
    listeners: [Receiver; 2],
    /// Payload bytes that reached either end.
    delivered: u64,
    stop: Time,
}

impl Call {
    /// A call until `stop`.
    pub(super) fn new(spec: &FlowSpec, cfg: &VoipConfig, stop: Time, seed: &Seed) -> Self {
        let talker = |way: &str| Sender::new(cfg, (spec.start, stop), seed, &format!("{}.{way}", spec.name));
        let talkers = ["forward", "reverse"].map(talker);
        Call { cfg: *cfg, talkers, listeners: Default::default(), delivered: 0, stop }
    }
}

impl Application for Call {
    fn receive(&mut self, now: Time, end: usize, p: &Packet, _: &Sides, progress: &mut Progress) -> bool {
        self.listeners[end].receive(now, p.udp_sent_at(), p.seq);
        self.delivered += u64::from(p.payload());
        progress.last_delivery = now;
        false
    }
    fn transmit(&mut self, now: Time, end: usize, id: FlowId, _: &mut Sides) -> Option<Packet> {
        self.talkers[end].transmit(now).map(|n| datagram(id, n, self.cfg.datagram(), now))
    }
    fn wake(&mut self, now: Time, end: usize, _: &mut Progress) -> Option<Time> {
        Some(self.next_wake(now, end)).filter(|next| *next > now)
    }
    fn next_wake(&self, _: Time, end: usize) -> Time {
        self.talkers[end].next_wake()
    }
    fn bytes(&self) -> usize {
        self.listeners.iter().map(Receiver::bytes).sum()
    }
    fn report(&self, end: Time, out: &mut FlowOutcome) {
        out.delivered = self.delivered;
        out.datagrams = self.talkers.iter().map(|t| u64::from(t.sent())).sum();
        let result = |i: usize| self.listeners[1 - i].result(&self.cfg, &self.talkers[i], end.min(self.stop));
        out.voip = Some(Box::new([result(0), result(1)]));
    }
}
