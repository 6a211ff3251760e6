//! Links: two-port elements that queue, serialise, lose and delay packets.

use crate::rng::Seed;
use crate::units::{QueueLimit, Rate, Time};
use std::sync::Arc;

pub mod greenphy;
pub mod hdplc;
pub mod jitter;
pub mod medium;
pub mod noise;
pub mod pipe;
pub mod queue;
pub mod timeline;

use greenphy::{Class, GreenPhy, GreenPhyConfig};
use hdplc::{Duplex, FullDuplex, Hdplc, HdplcConfig};
use jitter::JitterShape;
pub use medium::{Backlog, Medium};
pub use noise::Noise;
pub use queue::Discipline;
use timeline::{State, States, Timeline};

/// The model of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// Two directions of their own.
    Pipe(Box<PipeConfig>),
    /// A medium that the directions share, and with them other links of the same cable.
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
    /// The pipe, if it is one.
    pub fn as_pipe(&self) -> Option<&PipeConfig> {
        match self {
            Model::Pipe(pipe) => Some(pipe),
            Model::Shared(_) => None,
        }
    }
    /// Largest IP packet, bytes.
    pub fn mtu(&self) -> u16 {
        match self {
            Model::Pipe(pipe) => pipe.mtu,
            Model::Shared(SharedConfig::Hdplc(c)) => c.mtu,
            Model::Shared(SharedConfig::GreenPhy(c)) => c.mtu,
        }
    }
    /// Propagation delay, forward and reverse, which determines routes.
    pub fn delay(&self) -> (Time, Time) {
        match self {
            Model::Pipe(pipe) => (pipe.forward.delay, pipe.reverse.delay),
            Model::Shared(_) => (Time::ZERO, Time::ZERO),
        }
    }
    /// What its noises draw a second on average, however much there is to carry.
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
    /// Nominal rate of the forward direction.
    pub fn rate(&self) -> Rate {
        match self {
            Model::Pipe(pipe) => pipe.forward.rate,
            Model::Shared(SharedConfig::Hdplc(c)) => c.rate,
            Model::Shared(SharedConfig::GreenPhy(c)) => c.mode.rate(),
        }
    }
}

impl SharedConfig {
    /// The medium that joins `pairs` pairs of nodes; `name` names its random streams. `priorities` has for each flow
    /// the priority class that it has of its own; only Green PHY has classes.
    pub fn build(&self, pairs: usize, priorities: &[Option<Class>], name: &str, seed: &Seed) -> Box<dyn Medium> {
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
    /// Serialisation rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Time,
    /// What may wait before the serialiser.
    pub queue: QueueLimit,
    /// Who leaves the queue next, and who is marked or dropped; `None`: first in, first out, drop-tail.
    pub discipline: Option<Discipline>,
    /// Losses, judged when a packet arrives at the far end.
    pub noise: Noise,
    /// Size of the random part of each packet's delay.
    pub jitter: Time,
    /// Its distribution and correlation.
    pub jitter_shape: JitterShape,
    /// Let jitter change the order of packets.
    pub reorder: bool,
    /// What changes while the network runs.
    pub timeline: Option<Arc<Timeline>>,
}

impl Direction {
    /// What its timeline makes of it, and when; nothing if it does not change.
    pub fn states(&self) -> impl Iterator<Item = (Time, State)> + use<> {
        let base = State::of(self);
        self.timeline.clone().into_iter().flat_map(move |timeline| States::new(timeline, base))
    }
}

/// A pipe: two independent directions, one MTU.
#[derive(Clone, Debug, PartialEq)]
pub struct PipeConfig {
    /// From the first node of `between` to the second.
    pub forward: Direction,
    /// Back.
    pub reverse: Direction,
    /// Largest IP packet; larger datagrams are sent as fragments (RFC 791).
    pub mtu: u16,
    /// Bytes that framing adds to each packet on the wire (PPP in ns-3: 2; Ethernet with gaps: 38).
    pub overhead: u16,
}
