//! Ceiling: a limit on the segments that each flow has in flight.
//!
//! This is the simplest possible window rewriting, a baseline for adaptive schemes; it is not from a paper. The program
//! adds the gateway to the registry, so the scenario can refer to it by name.
//!
//! `cargo run --example own_gateway`

use roughlink_core::gateway::flows::{self, FlowPhase, Flows};
use roughlink_core::gateway::rewrite::{AdvertisedEdge, WindowLimit};
use roughlink_core::gateway::{
    BuildGateway, Gateway, Heading, Modem, REGISTRY, RegisteredGateway, Segment, SegmentVerdict, Stats,
};
use roughlink_core::net::{Network, RunOptions};
use roughlink_core::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of [`Ceiling`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Maximum number of full segments that a flow may have in flight.
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
    flows: Flows<AdvertisedEdge>,
}

impl BuildGateway for Ceiling {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if p.segments < 2 {
            Err("segments must be at least 2: with one, every delayed acknowledgment waits for its timer".into())
        } else {
            p.table.check()
        }
    }
    fn new(params: &Params) -> Self {
        Ceiling { segments: params.segments, flows: Flows::new(params.table.clone()) }
    }
}

impl Gateway for Ceiling {
    fn receive(
        &mut self,
        now: Time,
        heading: Heading,
        segment: &mut Segment,
        _modem: Option<&dyn Modem>,
    ) -> SegmentVerdict {
        let seen = self.flows.observe(now, heading, segment);
        if heading == Heading::Inward || !seen.credible {
            return SegmentVerdict::Accept;
        }
        let Some(flow) = seen.flow.and_then(|id| self.flows.get_mut(&id)) else { return SegmentVerdict::Accept };
        let (shift, mss) = (flow.shift(Heading::Outward), flow.mss());
        let limited = matches!(flow.phase(), FlowPhase::Handshake | FlowPhase::Established);
        let want =
            limited.then(|| WindowLimit { window: u64::from(self.segments) * u64::from(mss), mss, retract: false });
        let window = flow.state.advertise(segment, shift, want);
        if window != segment.window {
            segment.window = window;
            flow.rewritten += 1;
        }
        SegmentVerdict::Accept
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

const HOME: &str = r#"
duration = "10 s"
node = [{ name = "server" }, { name = "modem" }, { name = "house" }]
link = [
    { name = "internet", between = ["server", "modem"], rate = "100 Mbit/s", delay = "20 ms", queue = "1000 pkt" },
    { name = "plc", kind = "hdplc", between = ["modem", "house"], noise = { kind = "none" } },
]
gateway = [{ node = "modem", kind = "ceiling" }]
flow = [{ name = "f", kind = "bulk", from = "server", to = "house" }]
"#;

/// Returns the throughput in Mbit/s and the longest queue before the power line in packets, with a ceiling of
/// `segments`.
fn run(segments: u32) -> (f64, u32) {
    let limit = ("gateway.*.params.segments".to_owned(), segments.to_string());
    let (scenario, _) =
        roughlink_scenario::parse(HOME, "home", &[limit], &|_| Err("no files".into())).expect("a valid scenario");
    let result = Network::new(scenario, RunOptions::default()).expect("there is a path").run().unwrap();
    (result.flows[0].throughput_mbps.expect("it delivered something"), result.links[1].forward.queue_max_pkt)
}

fn main() {
    REGISTRY
        .add(RegisteredGateway::new::<Ceiling>("ceiling", "limits the window of each flow", "no paper"))
        .expect("a new name");
    for segments in [10, 40, 90] {
        let (mbps, queue) = run(segments);
        println!("{segments:2} segments: {mbps:.2} Mbit/s, at most {queue} packets queued");
    }
}

#[test]
fn ceiling_bounds_the_queue() {
    main();
    assert!(run(40).1 <= 40);
    assert!((41..=90).contains(&run(90).1));
}
