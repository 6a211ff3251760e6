//! A custom congestion control with a constant window, added to the registry. `cargo run --example own_algorithm`

use roughlink_core::cc::{
    Ack, Algorithm, AlgorithmTrace, BuildAlgorithm, Congestion, CongestionControl, Flow, Permit, REGISTRY,
};
use roughlink_core::net::{Network, RunOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A constant number of bytes in flight.
#[derive(Debug)]
struct Fixed(u64);

/// Parameters of [`Fixed`].
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// Window in full segments.
    segments: u32,
}

impl Default for Params {
    fn default() -> Self {
        Params { segments: 10 }
    }
}

impl BuildAlgorithm for Fixed {
    type Params = Params;
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        Fixed(u64::from(params.segments) * u64::from(flow.mss))
    }
}

impl CongestionControl for Fixed {
    fn on_ack(&mut self, _: &Flow, _: &Ack) {}
    fn on_congestion(&mut self, _: &Flow, _: Congestion) {}
    fn permit(&self, _: &Flow) -> Permit {
        Permit::window(self.0)
    }
    fn trace(&self) -> AlgorithmTrace {
        AlgorithmTrace { cwnd: self.0, ssthresh: u64::MAX, rate: None, phase: "fixed" }
    }
}

const TRANSFER: &str = r#"
duration = "60 s"
node = [{ name = "a" }, { name = "b" }]
[tcp]
cc = "fixed"
[[link]]
name = "link"
between = ["a", "b"]
rate = "10 Mbit/s"
delay = "20 ms"
noise = { kind = "random", loss = "1 %" }
[[flow]]
name = "transfer"
kind = "bulk"
from = "a"
to = "b"
bytes = "5 MB"
"#;

fn main() {
    REGISTRY.add(Algorithm::new::<Fixed>("fixed", "a window that never changes", "no paper")).expect("a new name");
    for segments in [5, 10, 20, 40] {
        let window = ("tcp.cc_params.segments".to_owned(), segments.to_string());
        let (scenario, _) = roughlink_scenario::parse(TRANSFER, "transfer", &[window], &|_| Err("no files".into()))
            .expect("a valid scenario");
        let result = Network::new(scenario, RunOptions::default()).expect("there is a path").run().unwrap();
        let flow = &result.flows[0];
        println!("{segments:2} segments: {:.2} Mbit/s", flow.throughput_mbps.expect("it delivered something"));
    }
}

#[test]
fn example_runs() {
    main();
}
