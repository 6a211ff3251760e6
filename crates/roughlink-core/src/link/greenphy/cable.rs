//! Stations on a shared medium: contention, transmission and its outcome. When the medium is free and a station has
//! something to send, two priority slots select the streams of the highest class. These count down their back-off. The
//! first to reach 0 sends; several at once collide. A station that becomes ready after the priority slots began waits
//! for the next round. An exchange that would extend into the beacon region is shortened or starts after it.

use super::csma::Csma;
use super::station::{ClassQueue, PortStation};
use super::{GreenPhyConfig, PriorityClass};
use crate::link::fragments::Fragments;
use crate::link::medium::{Backlog, Medium};
use crate::link::noise::air::NoiseProcess;
use crate::link::pipe::PipeStats;
use crate::packet::{FlowId, Packet};
use crate::rng::Seed;
use crate::units::Time;
use std::collections::VecDeque;

/// Green PHY network. Port `2 k` sends from the first station of pair `k` to the second, port `2 k + 1` back.
#[derive(Debug)]
pub struct GreenPhy {
    config: GreenPhyConfig,
    stations: Vec<PortStation>,
    /// Streams with something to send, and those that send now: station and number there, in this order.
    pending: Vec<(usize, usize)>,
    senders: Vec<(usize, usize)>,
    /// Class of each flow, if it differs from its port's.
    classes: Vec<Option<PriorityClass>>,
    noise: NoiseProcess,
    phase: MediumPhase,
    /// End of the phase.
    next: Time,
    /// Start of the current or next beacon region, and the beacon period.
    beacon_at: Time,
    beacon_period: Time,
    /// Time that an MPDU keeps the medium busy, by its number of PBs.
    busy: Vec<Time>,
    /// Packets in propagation or arrived: arrival time, port whose far end they reach, packet.
    arrivals: VecDeque<(Time, usize, Packet)>,
}

#[derive(Clone, Copy, Debug)]
enum MediumPhase {
    /// No station has anything to send.
    Idle,
    Beacon,
    /// Priority slots from a time on, followed by a number of back-off slots.
    Backoff(Time, u32),
    /// The contenders with a counter of 0 send; true if a SACK follows.
    Exchange(bool),
}

impl GreenPhy {
    /// Creates the network `name` of `pairs` pairs; `classes` has the class of each flow that differs from its port's.
    pub fn new(
        config: &GreenPhyConfig,
        pairs: usize,
        classes: &[Option<PriorityClass>],
        name: &str,
        seed: &Seed,
    ) -> Self {
        let station = |port: usize| {
            let name = format!("{name}.{}.{}", port / 2, ["forward", "reverse"][port % 2]);
            let stream = |class, name: &str| {
                ClassQueue::new(class, Csma::new(config.backoff(class), seed.stream(name, "access")))
            };
            let own = config.class(port);
            let others = PriorityClass::ALL.into_iter().filter(|c| *c != own && classes.contains(&Some(*c)));
            let others = others.map(|class| stream(class, &format!("{name}.{}", class.name())));
            PortStation::new(std::iter::once(stream(own, &name)).chain(others).collect())
        };
        let beacon_period = config.beacon_period();
        GreenPhy {
            stations: (0..2 * pairs).map(station).collect(),
            pending: Vec::new(),
            senders: Vec::new(),
            classes: classes.to_vec(),
            noise: NoiseProcess::new(&config.noise, name, seed),
            phase: MediumPhase::Idle,
            next: Time::MAX,
            beacon_at: Time(seed.stream(name, "beacon").range(0, beacon_period.0 - 1)),
            beacon_period,
            busy: (0..=config.max_pbs.max(1)).map(|n| config.busy(n)).collect(),
            config: config.clone(),
            arrivals: VecDeque::new(),
        }
    }

    /// Starts contention on the free medium if a station has something to send.
    fn contend(&mut self, now: Time) {
        let GreenPhy { stations, pending, .. } = self;
        let Some(class) = pending.iter().map(|&(port, i)| stations[port].streams[i].class).max() else {
            (self.phase, self.next) = (MediumPhase::Idle, Time::MAX);
            return;
        };
        let mut least = u32::MAX;
        for &(port, i) in &*pending {
            let s = &mut stations[port].streams[i];
            s.contends = s.class == class;
            if s.contends {
                least = least.min(s.csma.slots());
            }
        }
        let start = now + self.config.slot * u64::from(2 + least);
        let region = self.beacon_after(now);
        (self.phase, self.next) = if start + self.busy[1] <= region {
            (MediumPhase::Backoff(now, least), start)
        } else {
            (MediumPhase::Beacon, region + self.config.beacon)
        };
    }

    /// Returns the start of the current or next beacon region at `now`.
    fn beacon_after(&mut self, now: Time) -> Time {
        let length = self.config.beacon;
        if length.is_zero() {
            return Time::MAX;
        }
        let end = self.beacon_at + length;
        if now >= end {
            let periods = (now - end).0 / self.beacon_period.0 + 1;
            self.beacon_at += self.beacon_period * periods;
        }
        self.beacon_at
    }

    /// Ends the back-off: one or several stations send.
    fn begin(&mut self, now: Time, slots: u32) {
        let room = self.beacon_after(now) - now;
        let c = &self.config;
        let most = (1..=c.max_pbs).rev().find(|&n| self.busy[n] <= room).unwrap_or(1);
        let mut longest = 0;
        for &(port, i) in &self.pending {
            let PortStation { streams, tally } = &mut self.stations[port];
            let s = &mut streams[i];
            if !std::mem::take(&mut s.contends) {
                continue;
            }
            if s.csma.idle(slots) {
                longest = s.load(now, most, c.mode.body_bytes(), tally).max(longest);
                self.senders.push((port, i));
            } else {
                s.csma.busy();
            }
        }
        if let [sender] = self.senders[..] {
            self.send(now, sender, longest);
        } else {
            for one in self.senders.chunk_by(|a, b| a.0 == b.0) {
                self.stations[one[0].0].tally.stats.arq.collisions += 1;
            }
            let rest = if c.eifs_after_collision { c.delimiter + c.eifs } else { self.busy[longest] };
            (self.phase, self.next) = (MediumPhase::Exchange(false), now + rest);
        }
    }

    /// Sends `n` PBs of a stream without a collision.
    fn send(&mut self, now: Time, (port, stream): (usize, usize), n: usize) {
        let GreenPhy { config, stations, noise, arrivals, busy, .. } = self;
        let PortStation { streams, tally } = &mut stations[port];
        let data = now + config.delimiter;
        let air = busy[n] - busy[0];
        let mut acknowledged = false;
        self.next = data + config.eifs;
        // Nothing reaches the far end of an unplugged cable.
        let unplugged = config.is_unplugged(port / 2, now, now + busy[n]);
        if !noise.corrupts(now, data, config.robust_share) && !unplugged {
            let arrival = data + air + config.latency;
            let mut edge = data;
            let bad = |i| {
                let start = std::mem::replace(&mut edge, data + air * (i as u64 + 1) / n as u64);
                noise.corrupts(start, edge, 1.0)
            };
            streams[stream].pass(bad, tally, &mut |p| arrivals.push_back((arrival, port, p)));
            let sack = data + air + config.rifs;
            acknowledged = !noise.corrupts(sack, sack + config.delimiter, config.robust_share);
            self.next = now + busy[n];
        }
        tally.stats.arq.unacknowledged += u64::from(!acknowledged);
        self.phase = MediumPhase::Exchange(acknowledged);
    }

    /// Ends an exchange, including its gaps.
    fn finish(&mut self, now: Time, acknowledged: bool, dropped: &mut dyn FnMut(Packet)) {
        let GreenPhy { config, stations, pending, arrivals, .. } = self;
        let arrival = now + config.latency;
        for sender @ (port, i) in self.senders.drain(..) {
            let PortStation { streams, tally } = &mut stations[port];
            let s = &mut streams[i];
            s.csma.sent(acknowledged);
            let deliver = &mut |p| arrivals.push_back((arrival, port, p));
            s.finish_exchange(now, acknowledged, config, tally, dropped, deliver);
            if !s.is_pending()
                && let Ok(at) = pending.binary_search(&sender)
            {
                pending.remove(at);
            }
        }
        self.contend(now);
    }
}

impl Medium for GreenPhy {
    fn receive(&mut self, now: Time, port: usize, p: Packet, dropped: &mut dyn FnMut(Packet)) {
        let station = &mut self.stations[port];
        let class = self.classes.get(p.flow.index()).copied().flatten();
        let stream = station.stream_of(class);
        if p.size > self.config.mtu {
            let mut fragments = Fragments::new(p, self.config.mtu);
            while let Some(f) = fragments.next() {
                station.enqueue(now, f, stream, &self.config).into_iter().for_each(&mut *dropped);
            }
        } else if let Some(p) = station.enqueue(now, p, stream, &self.config) {
            dropped(p);
        }
        if let Err(at) = self.pending.binary_search(&(port, stream))
            && self.stations[port].streams[stream].is_pending()
        {
            self.pending.insert(at, (port, stream));
        }
        match self.phase {
            MediumPhase::Idle => self.contend(now),
            // Stations that become ready at the same time take part.
            MediumPhase::Backoff(since, _) if since == now => self.contend(now),
            _ => {}
        }
    }

    fn transmit(&mut self, now: Time) -> Option<(usize, Packet)> {
        let (_, port, p) = self.arrivals.pop_front_if(|a| a.0 <= now)?;
        Some((port, p))
    }

    fn wake(&mut self, now: Time, dropped: &mut dyn FnMut(Packet)) {
        while self.next <= now {
            match self.phase {
                MediumPhase::Idle => unreachable!("an idle medium has nothing before it"),
                MediumPhase::Beacon => self.contend(self.next),
                MediumPhase::Backoff(_, slots) => self.begin(self.next, slots),
                MediumPhase::Exchange(acknowledged) => self.finish(self.next, acknowledged, dropped),
            }
        }
    }

    fn next_wake(&self) -> Time {
        self.arrivals.front().map_or(self.next, |a| a.0.min(self.next))
    }

    fn backlog(&self, port: usize, flow: FlowId) -> Backlog {
        self.stations[port].tally.backlogs.get(flow)
    }

    fn waiting(&self, port: usize) -> usize {
        self.stations[port].waiting()
    }

    fn cycle_time(&self, _now: Time, _port: usize, sdus: u32) -> Time {
        let bytes = sdus as usize * (usize::from(self.config.mtu) + usize::from(self.config.frame_overhead));
        let pbs = bytes.div_ceil(self.config.mode.body_bytes() as usize);
        let rest = pbs % self.config.max_pbs;
        let full = self.config.exchange_time(self.config.max_pbs) * (pbs / self.config.max_pbs) as u64;
        if rest == 0 { full } else { full + self.config.exchange_time(rest) }
    }

    fn limit(&self, _now: Time, _port: usize) -> u32 {
        let frame = usize::from(self.config.mtu) + usize::from(self.config.frame_overhead);
        (self.config.max_pbs * self.config.mode.body_bytes() as usize / frame).max(1) as u32
    }

    fn stats(&self, port: usize) -> &PipeStats {
        &self.stations[port].tally.stats
    }

    fn in_transit(&self) -> Box<dyn Iterator<Item = &Packet> + '_> {
        let queued = self.stations.iter().flat_map(PortStation::packets);
        Box::new(queued.chain(self.arrivals.iter().map(|a| &a.2)))
    }
}

#[cfg(test)]
mod tests;
