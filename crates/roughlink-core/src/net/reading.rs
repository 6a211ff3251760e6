//! What links are like at an instant, for whoever watches a network at work from outside.

use super::{Network, Part};
use crate::link::pipe::{Pipe, PipeStats};
use crate::link::timeline::State;
use crate::link::{Direction, Model, Noise};
use crate::units::{Rate, Time};

/// A direction of a link at an instant: its state, and what it has counted so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Packets get through.
    pub up: bool,
    /// Serialisation rate; of a recorded trace the mean, of a shared medium the nominal one.
    pub rate: Rate,
    /// Propagation delay; zero for a shared medium.
    pub delay: Time,
    /// Probability with which each packet is lost; `None` where it is not the same for all packets.
    pub loss: Option<f64>,
    /// Packets that wait.
    pub waiting: usize,
    /// IP packets serialised, fragments each.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that found the queue full, or that its discipline dropped.
    pub dropped: u64,
    /// Packets lost to noise.
    pub lost: u64,
}

impl Reading {
    fn new(state: &State, loss: Option<f64>, waiting: usize, stats: &PipeStats) -> Self {
        let &PipeStats { packets, bytes, dropped, lost, .. } = stats;
        Reading { up: state.up, rate: state.rate, delay: state.delay, loss, waiting, packets, bytes, dropped, lost }
    }

    /// Of a pipe, made from `direction`.
    pub(super) fn of(pipe: &mut Pipe, direction: &Direction, now: Time) -> Self {
        let (state, noise) = pipe.state(direction);
        let loss = loss(noise.unwrap_or(&direction.noise));
        Reading::new(&state, loss, pipe.waiting(now), &pipe.stats_at(now))
    }

    /// Of a port of a shared medium.
    pub(super) fn shared(rate: Rate, waiting: usize, stats: &PipeStats) -> Self {
        let state = State { up: true, rate, delay: Time::ZERO, signal: None, noise: None };
        Reading::new(&state, None, waiting, stats)
    }
}

/// Probability with which each packet is lost, if it is the same for all.
fn loss(noise: &Noise) -> Option<f64> {
    match noise {
        Noise::None => Some(0.0),
        Noise::Random { loss } => Some(*loss),
        _ => None,
    }
}

impl Network {
    /// Both directions of each link, forward first, as of the last time for which the network was woken. Without a path that uses
    /// it, and before anything has happened, a link has counted nothing.
    pub fn readings(&mut self) -> Vec<[Reading; 2]> {
        let none = PipeStats::default();
        let before = |model: &Model| match model {
            Model::Pipe(pipe) => {
                [&pipe.forward, &pipe.reverse].map(|d| Reading::new(&State::of(d), loss(&d.noise), 0, &none))
            }
            Model::Shared(_) => [Reading::shared(model.rate(), 0, &none); 2],
        };
        let mut all: Vec<_> = self.scenario.links.iter().map(|link| before(&link.model)).collect();
        for part in &mut self.parts {
            if let Part::Running(component) = part {
                component.read(self.now, &self.scenario, &mut all);
            }
        }
        all
    }
}
