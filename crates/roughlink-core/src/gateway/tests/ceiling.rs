//! Ceiling: an upper limit of the segments in flight of each flow.
//!
//! The simplest window rewriting there is, after no paper: a yardstick for schemes that adapt.

use crate::gateway::flows::{self, Flows, Phase};
use crate::gateway::rewrite::{Edge, WindowLimit};
use crate::gateway::{Construct, Gateway, Heading, Modem, Segment, Stats};
use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of [`Ceiling`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// The most full segments that a flow may have in flight.
    pub segments: u32,
    /// The flow table.
    pub table: flows::Params,
}

impl Default for Params {
    fn default() -> Self {
        Params { segments: 40, table: flows::Params::default() }
    }
}

/// The gateway.
#[derive(Debug)]
pub struct Ceiling {
    segments: u32,
    flows: Flows<Edge>,
}

impl Construct for Ceiling {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if p.segments < 2 {
            Err("segments must be at least 2: with one, every delayed acknowledgement waits for its timer".into())
        } else {
            p.table.check()
        }
    }
    fn new(params: &Params) -> Self {
        Ceiling { segments: params.segments, flows: Flows::new(params.table.clone()) }
    }
}

impl Gateway for Ceiling {
    fn receive(&mut self, now: Time, heading: Heading, segment: &mut Segment, _modem: Option<&dyn Modem>) {
        let seen = self.flows.observe(now, heading, segment);
        if heading == Heading::Inward || !seen.credible {
            return;
        }
        let Some(id) = seen.flow else { return };
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let (shift, mss) = (flow.shift(Heading::Outward), flow.mss(&id.key));
        let limited = matches!(flow.phase(), Phase::Handshake | Phase::Established);
        let want =
            limited.then(|| WindowLimit { window: u64::from(self.segments) * u64::from(mss), mss, retract: false });
        let window = flow.state.advertise(segment, shift, want);
        if window != segment.window {
            segment.window = window;
            flow.rewritten += 1;
        }
    }

    fn wake(&mut self, now: Time) {
        self.flows.expire(now);
    }

    fn next_wake(&self) -> Time {
        self.flows.next_expiry()
    }

    fn stats(&self, modem: Option<&dyn Modem>) -> Stats {
        self.flows.stats(modem, |_| None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::tests::Bench;

    #[test]
    fn no_window_is_above_the_ceiling() {
        let mut b = Bench::new(Ceiling::new(&Params { segments: 10, ..Params::default() }));
        b.open(0, 66);
        for _ in 0..50 {
            b.data(0, 1);
            b.ack(0, 60_000);
        }
        assert_eq!(b.ack(0, 60_000), 14_600);
        assert_eq!(b.ack(0, 5_000), 5_000, "a window that is smaller already stays what it is");
    }
}
