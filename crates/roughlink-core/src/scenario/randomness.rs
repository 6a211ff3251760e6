//! Test whether a scenario uses random numbers.

use super::{FlowSpec, FlowTransport, Scenario};
use crate::link::noise::Noise;
use crate::link::{Direction, Discipline, Model, PipeConfig};
use crate::units::Time;

impl Scenario {
    /// Returns true if a run can depend on its seed and its replica; otherwise all replicas give the same result.
    /// Shared media always count as random, because their stations draw slots and phases.
    pub fn is_random(&self) -> bool {
        let link = |model: &Model| match model {
            Model::Pipe(pipe) => {
                let PipeConfig { forward, reverse, mtu: _, overhead: _ } = &**pipe;
                forward.is_random() || reverse.is_random()
            }
            Model::Shared(_) => true,
        };
        // The receiver of data sends HEARTBEATs, with jitter, once the association is older than the interval.
        let heartbeat = |f: &FlowSpec| {
            let interval =
                if let FlowTransport::Sctp(sctp, _) = &f.transport { sctp.heartbeat_interval } else { Time::ZERO };
            !interval.is_zero() && f.start + interval < self.duration
        };
        self.links.iter().any(|l| link(&l.model)) || self.flows.iter().any(|f| f.traffic.is_random() || heartbeat(f))
    }
}

impl Direction {
    fn is_random(&self) -> bool {
        let Self { rate: _, delay: _, queue: _, noise, jitter, jitter_shape: _, reorder: _, discipline, timeline } =
            self;
        let later = timeline.iter().flat_map(|t| &t.noises);
        discipline.as_ref().is_some_and(Discipline::is_random)
            || !jitter.is_zero()
            || std::iter::once(noise).chain(later).any(Noise::is_random)
    }
}

impl Noise {
    /// Returns true if the losses depend on a random stream. Losses with probability 0 or 1 do not.
    fn is_random(&self) -> bool {
        let open = |p: f64| p > 0.0 && p < 1.0;
        match self {
            Noise::None | Noise::List { .. } => false,
            Noise::Random { loss } => open(*loss),
            Noise::BitErrors { ber } => open(*ber),
            Noise::Burst { start, .. } => open(*start),
            Noise::GilbertElliott { loss_good, loss_bad, .. } => {
                open(*loss_good) || open(*loss_bad) || loss_good != loss_bad
            }
            Noise::Impulse(pulses) => pulses.kill > 0.0,
            Noise::Recorded { steps } => steps.iter().any(|(_, p)| open(*p)),
        }
    }
}
