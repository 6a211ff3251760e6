//! A congestion control of one's own in a scenario, without a line in the registry: a window that never changes.
//!
//! `cargo run --example own_algorithm`

use roughlink_core::cc::{Ack, Congestion, CongestionControl, Flow, Permit, Vitals};
use roughlink_core::net::{Network, Options};
use roughlink_core::scenario::Scenario;
use std::sync::Arc;

/// So many bytes in flight, whatever happens.
#[derive(Debug)]
struct Fixed(u64);

impl CongestionControl for Fixed {
    fn on_ack(&mut self, _: &Flow, _: &Ack) {}
    fn on_congestion(&mut self, _: &Flow, _: Congestion) {}
    fn permit(&self, _: &Flow) -> Permit {
        Permit::window(self.0)
    }
    fn vitals(&self) -> Vitals {
        Vitals { cwnd: self.0, ssthresh: u64::MAX, rate: None, phase: "fixed" }
    }
}

const TRANSFER: &str = r#"
duration = "60 s"
node = [{ name = "a" }, { name = "b" }]
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
    let (scenario, _) =
        Scenario::parse(TRANSFER, "transfer", &[], &|_| Err("no files".into())).expect("a valid scenario");
    for segments in [5, 10, 20, 40] {
        let mut scenario = scenario.clone();
        scenario.flows[0].cc = "fixed".into();
        scenario.flows[0].factory = Some(Arc::new(move |flow| Box::new(Fixed(segments * u64::from(flow.mss)))));
        let result = Network::new(scenario, Options::default()).expect("there is a path").run().unwrap();
        let flow = &result.flows[0];
        println!("{segments:2} segments: {:.2} Mbit/s", flow.throughput_mbps.expect("it delivered something"));
    }
}

#[test]
fn runs() {
    main();
}
