//! Links: two-port elements that queue, serialize, lose and delay packets.

use crate::rng::Seed;
use crate::units::{QueueLimit, Rate, Time};
use std::sync::Arc;

pub(crate) mod fragments;
pub mod greenphy;
pub mod hdplc;
pub mod jitter;
pub mod medium;
pub mod noise;
pub mod pipe;
pub mod queue;
pub mod timeline;

use greenphy::{GreenPhy, GreenPhyConfig, PriorityClass};
use hdplc::{Duplex, FullDuplex, Hdplc, HdplcConfig};
use jitter::JitterShape;
pub use medium::{Backlog, Medium};
pub use noise::Noise;
pub use queue::Discipline;
use timeline::{DirectionState, DirectionStates, Timeline};

/// The model of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// Two independent directions.
    Pipe(Box<PipeConfig>),
    /// A medium shared by both directions, and by other links of the same cable.
    Shared(SharedConfig),
}

/// A medium that directions share.
#[derive(Clone, Debug, PartialEq)]
pub enum SharedConfig {
    /// An HD-PLC home link.
    Hdplc(Box<HdplcConfig>),
    /// A Green PHY charging cable.
    GreenPhy(Box<GreenPhyConfig>),
}

impl Model {
    /// Returns the pipe, if it is one.
    pub fn as_pipe(&self) -> Option<&PipeConfig> {
        match self {
            Model::Pipe(pipe) => Some(pipe),
            Model::Shared(_) => None,
        }
    }
    /// Returns the largest IP packet, bytes.
    pub fn mtu(&self) -> u16 {
        match self {
            Model::Pipe(pipe) => pipe.mtu,
            Model::Shared(SharedConfig::Hdplc(c)) => c.mtu,
            Model::Shared(SharedConfig::GreenPhy(c)) => c.mtu,
        }
    }
    /// Returns the propagation delay, forward and reverse, which determines routes.
    pub fn delay(&self) -> (Time, Time) {
        match self {
            Model::Pipe(pipe) => (pipe.forward.delay, pipe.reverse.delay),
            Model::Shared(_) => (Time::ZERO, Time::ZERO),
        }
    }
    /// Returns the mean number of random numbers that the link's noise draws per second without any traffic.
    pub fn draws(&self) -> f64 {
        match self {
            Model::Pipe(pipe) => {
                let later =
                    |d: &Direction| d.timeline.as_ref().map_or(0.0, |t| t.noises.iter().map(Noise::draws).sum());
                [&pipe.forward, &pipe.reverse].into_iter().map(|d| d.noise.draws() + later(d)).sum()
            }
            Model::Shared(SharedConfig::Hdplc(c)) => c.noise.draws(),
            Model::Shared(SharedConfig::GreenPhy(c)) => c.noise.draws(),
        }
    }
    /// Returns the nominal rate of the forward direction.
    pub fn rate(&self) -> Rate {
        match self {
            Model::Pipe(pipe) => pipe.forward.rate,
            Model::Shared(SharedConfig::Hdplc(c)) => c.rate,
            Model::Shared(SharedConfig::GreenPhy(c)) => c.mode.rate(),
        }
    }
}

impl SharedConfig {
    /// Creates the medium that joins `pairs` pairs of nodes; `name` names its random streams. `priorities` holds the
    /// priority class of each flow that sets one; only Green PHY has classes.
    pub fn build(
        &self,
        pairs: usize,
        priorities: &[Option<PriorityClass>],
        name: &str,
        seed: &Seed,
    ) -> Box<dyn Medium> {
        match self {
            SharedConfig::Hdplc(c) => match c.duplex {
                Duplex::Half => Box::new(Hdplc::new(c, pairs, name, seed)),
                Duplex::Full => Box::new(FullDuplex::new(c, pairs, name, seed)),
            },
            SharedConfig::GreenPhy(c) => Box::new(GreenPhy::new(c, pairs, priorities, name, seed)),
        }
    }
}

/// One direction of a pipe.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// Serialization rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Time,
    /// Limit of packets waiting before the serializer.
    pub queue: QueueLimit,
    /// Queue discipline; `None`: first in, first out, drop-tail.
    pub discipline: Option<Discipline>,
    /// Loss model, applied when a packet arrives at the far end.
    pub noise: Noise,
    /// Size of the random part of each packet's delay.
    pub jitter: Time,
    /// Distribution and correlation of the jitter.
    pub jitter_shape: JitterShape,
    /// Let jitter change the order of packets.
    pub reorder: bool,
    /// Changes while the network runs.
    pub timeline: Option<Arc<Timeline>>,
}

impl Direction {
    /// Returns the states that the timeline produces, with their times; none if the direction does not change.
    pub fn states(&self) -> impl Iterator<Item = (Time, DirectionState)> + use<> {
        let base = DirectionState::from_direction(self);
        self.timeline.clone().into_iter().flat_map(move |timeline| DirectionStates::new(timeline, base))
    }
}

/// A pipe: two independent directions, one MTU.
#[derive(Clone, Debug, PartialEq)]
pub struct PipeConfig {
    /// From the first node of `between` to the second.
    pub forward: Direction,
    /// From the second node to the first.
    pub reverse: Direction,
    /// Largest IP packet; larger datagrams are sent as fragments (RFC 791).
    pub mtu: u16,
    /// Bytes that framing adds to each packet on the wire (PPP in ns-3: 2; Ethernet with gaps: 38).
    pub overhead: u16,
}
