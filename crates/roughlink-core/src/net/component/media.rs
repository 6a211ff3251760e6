//! The media of a component: links whose directions are not separate pipes.

use super::{Component, Local, NetworkEvent, Observer};
use crate::link::pipe::PipeStats;
use crate::link::{Medium, Model};
use crate::net::routing::Hop;
use crate::packet::{FlowId, Packet};
use crate::rng::Seed;
use crate::scenario::Scenario;
use crate::units::Time;
use std::collections::BTreeMap;

/// The media, and the medium and port at each place after the pipes.
pub(super) struct Media {
    all: Vec<Box<dyn Medium>>,
    ports: Vec<(usize, usize)>,
    /// Places of each medium's ports.
    at: Vec<Vec<usize>>,
}

impl Media {
    /// Creates the media among `links` for `flows`; adds their ports to `places` and their places to `local`.
    pub(super) fn new(
        s: &Scenario,
        seed: &Seed,
        (flows, links): (&[usize], &[usize]),
        places: &mut Vec<(Hop, usize)>,
        local: &mut Local<'_>,
    ) -> Self {
        let priorities: Vec<_> = flows.iter().map(|&f| s.flows[f].priority).collect();
        // Links of each medium in the scenario's order; links of one cable together.
        let mut members: Vec<(&str, Vec<usize>)> = Vec::new();
        let mut cables: BTreeMap<&str, usize> = BTreeMap::new();
        for &l in links {
            let spec = &s.links[l];
            if matches!(spec.model, Model::Pipe(_)) {
                continue;
            }
            let name = spec.cable.as_deref();
            match name.and_then(|cable| cables.get(cable)) {
                Some(&m) => members[m].1.push(l),
                None => {
                    cables.extend(name.map(|cable| (cable, members.len())));
                    members.push((name.unwrap_or(&spec.name), vec![l]));
                }
            }
        }
        let mut media = Media { all: Vec::new(), ports: Vec::new(), at: Vec::new() };
        for (m, (name, links)) in members.into_iter().enumerate() {
            let Model::Shared(config) = &s.links[links[0]].model else { unreachable!("chosen so") };
            media.all.push(config.build(links.len(), &priorities, name, seed));
            media.at.push(Vec::new());
            for (pair, l) in links.into_iter().enumerate() {
                let between = s.links[l].between;
                for (direction, to) in [(0, between.1), (1, between.0)] {
                    let hop = (2 * l + direction) as Hop;
                    local.set(hop, places.len());
                    media.at[m].push(places.len());
                    media.ports.push((m, 2 * pair + direction));
                    places.push((hop, to));
                }
            }
        }
        media
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the medium and port `index` places after the pipes.
    pub(super) fn port(&self, index: usize) -> (&dyn Medium, usize) {
        let (m, port) = self.ports[index];
        (&*self.all[m], port)
    }

    pub(super) fn in_transit(&self) -> impl Iterator<Item = &Packet> {
        self.all.iter().flat_map(|m| m.in_transit())
    }

    /// Returns the memory of the packets inside, bytes; each counts twice, as it also has a place in a queue.
    pub(super) fn bytes(&self) -> usize {
        2 * size_of::<Packet>() * self.in_transit().count()
    }

    /// Returns the counters of each place after the pipes.
    pub(super) fn stats(&self) -> impl Iterator<Item = PipeStats> {
        self.ports.iter().map(|&(m, port)| self.all[m].stats(port).clone())
    }
}

impl Component {
    pub(super) fn send_shared<O: Observer>(&mut self, now: Time, place: usize, p: Packet, observer: &mut O) {
        let (m, port) = self.media.ports[place - self.pipes.len()];
        let (medium, sides) = (&mut self.media.all[m], &mut self.sides);
        medium.receive(now, port, p, &mut |dropped| sides.free(&dropped));
        self.calendar.set(self.leaves.media + m, medium.next_wake());
        self.report_queue(now, place, observer);
    }

    #[inline]
    pub(super) fn wake_medium<O: Observer>(&mut self, now: Time, m: usize, observer: &mut O) {
        let sides = &mut self.sides;
        self.media.all[m].wake(now, &mut |dropped| sides.free(&dropped));
        if O::ACTIVE {
            // Acknowledged or abandoned packets have left their queue, even if no packet arrives now.
            for i in 0..self.media.at[m].len() {
                self.report_queue(now, self.media.at[m][i], observer);
            }
        }
        while let Some((port, p)) = self.media.all[m].transmit(now) {
            self.events += 1;
            self.forward(now, self.media.at[m][port], &p, observer);
        }
        self.calendar.set(self.leaves.media + m, self.media.all[m].next_wake());
    }

    fn report_queue<O: Observer>(&mut self, now: Time, place: usize, observer: &mut O) {
        if O::ACTIVE {
            let (medium, port) = self.media.port(place - self.pipes.len());
            let (waiting, drops) = (medium.waiting(port), medium.stats(port).dropped);
            let hop = self.places[place].0;
            observer.observe(now, NetworkEvent::Queue { hop, waiting, drops });
            let flows = &self.flows;
            let of = |global| {
                let index = flows.iter().position(|f| f.global == global);
                index.map_or(0, |i| {
                    let ways = [false, true].map(|reverse| medium.backlog(port, FlowId::new(i as u32, reverse)));
                    ways.iter().map(|b| b.waiting + b.unacknowledged).sum()
                })
            };
            observer.observe(now, NetworkEvent::Backlog { hop, of: &of });
        }
    }
}
