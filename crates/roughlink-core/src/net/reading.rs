//! State of links at an instant, for observers outside the network.

use super::{ComponentSlot, Network};
use crate::link::pipe::{Pipe, PipeStats};
use crate::link::timeline::DirectionState;
use crate::link::{Direction, Model, Noise};
use crate::units::{Rate, Time};

/// State and counters of a link direction at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkReading {
    /// Set if packets pass.
    pub up: bool,
    /// Serialization rate; the mean for a recorded trace, the nominal rate for a shared medium.
    pub rate: Rate,
    /// Propagation delay; zero for a shared medium.
    pub delay: Time,
    /// Loss probability of each packet; `None` if it differs between packets.
    pub loss: Option<f64>,
    /// Waiting packets.
    pub waiting: usize,
    /// IP packets serialized, each fragment counted.
    pub packets: u64,
    /// Bytes serialized.
    pub bytes: u64,
    /// Packets dropped by a full queue or by its discipline.
    pub dropped: u64,
    /// Packets lost to noise.
    pub lost: u64,
}

impl LinkReading {
    fn new(state: &DirectionState, loss: Option<f64>, waiting: usize, stats: &PipeStats) -> Self {
        let &PipeStats { packets, bytes, dropped, lost, .. } = stats;
        LinkReading { up: state.up, rate: state.rate, delay: state.delay, loss, waiting, packets, bytes, dropped, lost }
    }

    /// Reads a pipe made from `direction`.
    pub(super) fn from_pipe(pipe: &mut Pipe, direction: &Direction, now: Time) -> Self {
        let (state, noise) = pipe.state(direction);
        let loss = loss(noise.unwrap_or(&direction.noise));
        LinkReading::new(&state, loss, pipe.waiting(now), &pipe.stats_at(now))
    }

    /// Reads a port of a shared medium.
    pub(super) fn shared(rate: Rate, waiting: usize, stats: &PipeStats) -> Self {
        let state = DirectionState { up: true, rate, delay: Time::ZERO, signal: None, noise: None };
        LinkReading::new(&state, None, waiting, stats)
    }
}

/// Returns the loss probability of each packet, if it is the same for all.
fn loss(noise: &Noise) -> Option<f64> {
    match noise {
        Noise::None => Some(0.0),
        Noise::Random { loss } => Some(*loss),
        _ => None,
    }
}

impl<O> Network<O> {
    /// Returns both directions of each link, forward first, as of the last wake. Counters are zero before the first
    /// event, and for links that no path uses.
    pub fn readings(&mut self) -> Vec<[LinkReading; 2]> {
        let none = PipeStats::default();
        let before = |model: &Model| match model {
            Model::Pipe(pipe) => [&pipe.forward, &pipe.reverse]
                .map(|d| LinkReading::new(&DirectionState::from_direction(d), loss(&d.noise), 0, &none)),
            Model::Shared(_) => [LinkReading::shared(model.rate(), 0, &none); 2],
        };
        let mut all: Vec<_> = self.scenario.links.iter().map(|link| before(&link.model)).collect();
        for part in &mut self.parts {
            if let ComponentSlot::Running(component) = part {
                component.read(self.now, &self.scenario, &mut all);
            }
        }
        all
    }
}
