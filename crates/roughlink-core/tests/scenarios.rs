//! Scenario files that are right: what they become.

use roughlink_core::app::Traffic;
use roughlink_core::link::noise::{BurstLength, Noise};
use roughlink_core::scenario::{Scenario, Warning};
use roughlink_core::tcp::{Buffer, Stack};
use roughlink_core::units::{QueueLimit, Rate, Time};

/// The example of the design, without the timeline.
const DESIGN: &str = r#"
name = "One car at a noisy charging cable"
seed = 1
duration = "600 s"                 # hard stop; a run also ends when every sized flow is done

[tcp]                              # defaults for every TCP flow
stack = "ns3"
cc = "newreno"
mss = "1460 B"
snd_buf = "128 KiB"
rcv_buf = "128 KiB"
delayed_ack = 2                    # segments per ACK, 1 = off

[[node]]
name = "sa"
[[node]]
name = "secc"
[[node]]
name = "evcc"

[[link]]
name = "internet"
between = ["sa", "secc"]
rate = "500 Mbit/s"
delay = "0.9 ms"

[[link]]
name = "plc"
between = ["secc", "evcc"]
rate = "10 Mbit/s"
delay = "0.9 ms"
queue = "100 pkt"
noise = { kind = "burst", start = "2 %", length = [1, 4], direction = "forward" }   # or mean = "5 %"

[[flow]]
name = "download"
kind = "bulk"
from = "sa"
to = "evcc"
bytes = "100 MB"
start = "0 s"
cc = "newreno-sc"                  # overrides [tcp].cc
cc_params = { min_ssthresh = 12 }  # parameters of the algorithm
tcp = { delayed_ack = 1 }          # any other [tcp] key, for this flow
"#;

fn set(text: &str, overrides: &[(&str, &str)]) -> (Scenario, Vec<Warning>) {
    let overrides: Vec<_> = overrides.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Scenario::parse(text, "test.toml", &overrides, &|name| Err(format!("{name} is not there")))
        .unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn the_design_example() {
    let (s, warnings) = set(DESIGN, &[]);
    assert_eq!(s.name, "One car at a noisy charging cable");
    assert_eq!((s.seed, s.duration), (1, Time::from_secs(600)));
    assert_eq!(s.nodes, ["sa", "secc", "evcc"]);
    assert_eq!(s.links[1].between, (1, 2));
    let plc = &s.links[1].pipe;
    assert_eq!((plc.forward.rate, plc.forward.delay), (Rate::from_mbps(10), Time::from_micros(900)));
    assert_eq!((plc.forward.queue, plc.mtu), (QueueLimit::Packets(100), 1500));
    assert_eq!(plc.forward.noise, Noise::Burst { start: 0.02, length: BurstLength::Uniform(1, 4) });
    assert_eq!(plc.reverse.noise, Noise::None);
    assert_eq!(s.links[0].pipe.forward.queue, QueueLimit::Packets(100));
    let flow = &s.flows[0];
    assert_eq!((flow.from, flow.to, flow.start), (0, 2, Time::ZERO));
    assert_eq!(flow.traffic, Traffic::Bulk { bytes: Some(100_000_000) });
    assert_eq!((flow.tcp.stack, flow.tcp.delayed_ack, flow.tcp.mss), (Stack::Ns3, 1, 1460));
    assert_eq!(flow.tcp.snd_buf, Buffer::Bytes(131_072));
    assert_eq!(flow.cc, "newreno-sc");
    assert!(flow.factory.is_some());
    assert_eq!(s.source, DESIGN);
    let messages: Vec<String> = warnings.iter().map(|w| w.render("test.toml", DESIGN)).collect();
    insta::assert_snapshot!(messages.join("\n"));
}
