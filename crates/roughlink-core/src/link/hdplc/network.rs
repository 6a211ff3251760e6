//! Modems on a shared medium: contention, transmission and its outcome. A modem with a PDU to send waits until the
//! medium is free, then for a gap and a random number of slots. The first modem to start keeps the medium for the whole
//! exchange, including the PLC-ACK; the others draw again afterwards. If several would start at once, the next one
//! after the last sender, in order of ports, goes first. A sender detects a missing PLC-ACK one slot after it was due,
//! and repeats all SDUs of the PDU. The receiver recognizes repeated SDUs by their numbers.

use super::HdplcConfig;
use super::modem::HdplcModem;
use crate::link::fragments::Fragments;
use crate::link::medium::{Backlog, Medium};
use crate::link::noise::air::NoiseProcess;
use crate::link::pipe::PipeStats;
use crate::packet::{FlowId, Packet};
use crate::rng::Seed;
use crate::units::Time;
use std::collections::VecDeque;

/// Half-duplex HD-PLC network. Port `2 k` sends from the first modem of pair `k` to the second, port `2 k + 1` back.
#[derive(Debug)]
pub struct Hdplc {
    /// Configurations by pair; they differ only in their channels.
    configs: Vec<HdplcConfig>,
    modems: Vec<HdplcModem>,
    /// Ports with something to send, in ascending order.
    pending: Vec<usize>,
    /// Noise processes, and the one of each pair. Pairs with the same noise have the same process.
    noises: Vec<NoiseProcess>,
    noise_of: Vec<usize>,
    exchange: Option<PduExchange>,
    /// Time since which the medium is free, if it is.
    free: Time,
    /// Port of the last sender.
    last: usize,
    /// Next start or end of an exchange.
    next: Time,
    /// Packets in propagation or arrived: arrival time, port whose far end they reach, packet.
    arrivals: VecDeque<(Time, usize, Packet)>,
}

/// A PDU, or several that collided, until the end of the PLC-ACK or its timeout.
#[derive(Clone, Copy, Debug)]
struct PduExchange {
    end: Time,
    /// Sending port; `None` in a collision.
    port: Option<usize>,
    acknowledged: bool,
}

impl Hdplc {
    /// Creates the network `name` of `pairs` pairs.
    pub fn new(config: &HdplcConfig, pairs: usize, name: &str, seed: &Seed) -> Self {
        let modem = |port: usize| {
            let direction = ["forward", "reverse"][port % 2];
            HdplcModem::new(
                &match port / 2 {
                    0 => format!("{name}.{direction}"),
                    pair => format!("{name}.{pair}.{direction}"),
                },
                seed,
            )
        };
        let configs: Vec<HdplcConfig> = (0..pairs).map(|pair| config.pair_config(pair)).collect();
        let (mut noises, mut noise_of): (Vec<NoiseProcess>, Vec<usize>) = Default::default();
        for (pair, own) in configs.iter().enumerate() {
            let same = configs[..pair].iter().position(|other| other.noise == own.noise);
            noise_of.push(same.map_or(noises.len(), |other| noise_of[other]));
            if same.is_none() {
                let name = if pair == 0 { name.to_owned() } else { format!("{name}.{pair}") };
                noises.push(NoiseProcess::new(&own.noise, &name, seed));
            }
        }
        Hdplc {
            modems: (0..2 * pairs).map(modem).collect(),
            pending: Vec::new(),
            noises,
            noise_of,
            configs,
            exchange: None,
            free: Time::ZERO,
            last: 2 * pairs - 1,
            next: Time::MAX,
            arrivals: VecDeque::new(),
        }
    }

    fn config(&self, port: usize) -> &HdplcConfig {
        &self.configs[port / 2]
    }

    /// Computes the next event of a free medium.
    fn contend(&mut self, now: Time) {
        self.next = (0..self.pending.len()).map(|i| self.start(now, i)).min().unwrap_or(Time::MAX);
    }

    /// Returns when pending modem `i` starts if no other does. If the rate fell, its PDU may long have been full.
    fn start(&mut self, now: Time, i: usize) -> Time {
        let port = self.pending[i];
        self.modems[port].start(now, self.free, &self.configs[port / 2]).map_or(Time::MAX, |start| start.max(now))
    }

    fn begin(&mut self, now: Time) {
        let pending = self.pending.len();
        let after_last = self.pending.partition_point(|port| *port <= self.last);
        let (mut first, mut sender) = (Time::MAX, 0);
        for candidate in (after_last..pending).chain(0..after_last) {
            let start = self.start(now, candidate);
            if start < first {
                (first, sender) = (start, candidate);
            }
        }
        let c = &self.configs[0];
        let (slot, timeout) = (c.slot, c.rifs + c.ack + c.slot);
        let near = |medium: &mut Self, other| medium.start(now, other) - first < slot;
        let collide = c.collisions && (0..pending).any(|other| other != sender && near(self, other));
        self.exchange = Some(if collide {
            self.collide(now, first, timeout)
        } else {
            self.last = self.pending[sender];
            self.send(now, self.last, timeout)
        });
        for &port in &self.pending {
            self.modems[port].redraw();
        }
        self.next = self.exchange.map_or(Time::MAX, |e| e.end);
    }

    /// Sends the PDUs of all modems that start less than a slot after `first`; all are lost.
    fn collide(&mut self, now: Time, first: Time, timeout: Time) -> PduExchange {
        let mut end = first;
        for i in 0..self.pending.len() {
            let (port, start) = (self.pending[i], self.start(now, i));
            if start - first < self.config(port).slot {
                let bytes = self.modems[port].load(start, &self.configs[port / 2]);
                self.modems[port].stats.arq.collisions += 1;
                end = end.max(start + self.pdu_air(start, port, bytes));
            }
        }
        PduExchange { end: end + timeout, port: None, acknowledged: false }
    }

    fn send(&mut self, now: Time, port: usize, timeout: Time) -> PduExchange {
        let Hdplc { configs, modems, noises, noise_of, arrivals, .. } = self;
        let (config, noise) = (&configs[port / 2], &mut noises[noise_of[port / 2]]);
        let bytes = modems[port].load(now, config);
        let rate = config.rate_at(now);
        let data = now + config.header;
        let end = data + config.in_symbols(rate.time_for(bytes));
        let mut acknowledged = !noise.corrupts(now, data, config.robust_share);
        if acknowledged {
            let mut edge = data;
            let bad = |bytes| {
                let start = std::mem::replace(&mut edge, data + rate.time_for(bytes));
                noise.corrupts(start, edge, 1.0)
            };
            modems[port].pass(config, bad, &mut |p| arrivals.push_back((end, port, p)));
            let ack = end + config.rifs;
            acknowledged = !noise.corrupts(ack, ack + config.ack, config.robust_share);
        }
        modems[port].stats.arq.unacknowledged += u64::from(!acknowledged);
        let end = end + if acknowledged { config.rifs + config.ack } else { timeout };
        PduExchange { end, port: Some(port), acknowledged }
    }

    fn finish(&mut self, exchange: PduExchange, dropped: &mut dyn FnMut(Packet)) {
        let PduExchange { end, port, acknowledged } = exchange;
        let Hdplc { configs, modems, arrivals, .. } = self;
        self.pending.retain(|&i| {
            let m = &mut modems[i];
            if port.is_none_or(|port| port == i) {
                m.settle(end, acknowledged, &configs[i / 2], dropped, &mut |p| arrivals.push_back((end, i, p)));
            }
            !m.is_idle()
        });
        self.exchange = None;
        self.free = end;
        self.contend(end);
    }

    /// Returns the arrival time of the next packet, which may have passed.
    pub(super) fn next_arrival(&self) -> Time {
        self.arrivals.front().map_or(Time::MAX, |a| a.0)
    }

    /// Returns the air time of header and SDUs of a PDU.
    fn pdu_air(&self, now: Time, port: usize, bytes: u64) -> Time {
        let config = self.config(port);
        config.header + config.in_symbols(config.rate_at(now).time_for(bytes))
    }
}

impl Medium for Hdplc {
    fn receive(&mut self, now: Time, port: usize, p: Packet, dropped: &mut dyn FnMut(Packet)) {
        let (modem, config) = (&mut self.modems[port], &self.configs[port / 2]);
        if p.size > config.mtu {
            let mut fragments = Fragments::new(p, config.mtu);
            while let Some(f) = fragments.next() {
                modem.enqueue(now, f, config).into_iter().for_each(&mut *dropped);
            }
        } else if let Some(p) = modem.enqueue(now, p, config) {
            dropped(p);
        }
        if let Err(at) = self.pending.binary_search(&port)
            && !self.modems[port].is_idle()
        {
            self.pending.insert(at, port);
        }
        if self.exchange.is_none() {
            self.contend(now);
        }
    }

    fn transmit(&mut self, now: Time) -> Option<(usize, Packet)> {
        let (_, port, p) = self.arrivals.pop_front_if(|a| a.0 <= now)?;
        Some((port, p))
    }

    fn wake(&mut self, now: Time, dropped: &mut dyn FnMut(Packet)) {
        while self.next <= now {
            match self.exchange {
                Some(e) => self.finish(e, dropped),
                None => self.begin(self.next),
            }
        }
    }

    fn next_wake(&self) -> Time {
        self.next_arrival().min(self.next)
    }

    fn backlog(&self, port: usize, flow: FlowId) -> Backlog {
        self.modems[port].backlogs.get(flow)
    }

    fn waiting(&self, port: usize) -> usize {
        self.modems[port].queued(self.config(port))
    }

    fn cycle_time(&self, now: Time, port: usize, sdus: u32) -> Time {
        let config = self.config(port);
        config.cycle_time(sdus as usize, config.rate_at(now))
    }

    fn limit(&self, now: Time, port: usize) -> u32 {
        let config = self.config(port);
        config.sdus_per_pdu(config.rate_at(now)) as u32
    }

    fn rejected(&self, port: usize) -> f64 {
        self.modems[port].rejected
    }

    fn stats(&self, port: usize) -> &PipeStats {
        &self.modems[port].stats
    }

    fn in_transit(&self) -> Box<dyn Iterator<Item = &Packet> + '_> {
        let queued = self.modems.iter().flat_map(HdplcModem::packets);
        Box::new(queued.chain(self.arrivals.iter().map(|a| &a.2)))
    }
}

#[cfg(test)]
mod tests;
