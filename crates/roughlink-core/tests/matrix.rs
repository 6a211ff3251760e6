//! One table of every algorithm's throughput by loss and queue: a change in the stacks shows in the affected cells.

#[path = "common/one_link.rs"]
mod one_link;

use one_link::one_link;
use roughlink_core::cc::REGISTRY;
use roughlink_core::net::{Network, RunOptions};
use roughlink_core::tcp::Stack;
use std::fmt::Write as _;
use std::sync::Arc;

/// Loss probabilities per packet; queues in packets. The bandwidth-delay product is 10 Mbit/s x 40 ms = 33 packets.
const LOSSES: [f64; 4] = [0.0, 0.001, 0.01, 0.05];
const QUEUES: [u32; 3] = [8, 33, 200];

#[test]
fn throughput_is_pinned() {
    let mut table = String::from("Mbit/s of 10 over 40 ms RTT, two replicas, 4 MB and window enough for any queue\n");
    for stack in [Stack::Linux, Stack::Ns3] {
        let _ = write!(table, "\n{:18}", stack.name());
        for loss in LOSSES {
            let _ = write!(table, "|{:^20}", format!("loss {} %", loss * 100.0));
        }
        let _ = write!(table, "\n{:18}", "queue, packets");
        for _ in LOSSES {
            let _ = write!(table, "|{:6}{:7}{:7}", QUEUES[0], QUEUES[1], QUEUES[2]);
        }
        table.push('\n');
        for a in REGISTRY.iter() {
            let _ = write!(table, "{:18}", a.name);
            for loss in LOSSES {
                let cell = |q| format!("{:.2}", throughput_of(stack, a.name, loss, q));
                let _ = write!(table, "|{:>6}{:>7}{:>7}", cell(QUEUES[0]), cell(QUEUES[1]), cell(QUEUES[2]));
            }
            table.push('\n');
        }
    }
    insta::assert_snapshot!(table);
}

/// Uses a scenario file, so that an algorithm's name sets the `[tcp]` keys that it requires.
fn throughput_of(stack: Stack, cc: &str, loss: f64, queue: u32) -> f64 {
    let noise = match loss {
        0.0 => String::new(),
        _ => format!("noise = {{ kind = \"random\", loss = \"{} %\", direction = \"forward\" }}", loss * 100.0),
    };
    let tcp = format!("stack = \"{}\"\nsnd_buf = \"1 MiB\"\nrcv_buf = \"1 MiB\"", stack.name());
    let link = format!("rate = \"10 Mbit/s\"\ndelay = \"20 ms\"\nqueue = \"{queue} pkt\"\n{noise}");
    let flow = format!("kind = \"bulk\"\nbytes = \"4 MB\"\ncc = \"{cc}\"");
    let text = one_link(&tcp, &link, &flow);
    let (s, _) =
        roughlink_scenario::parse(&text, "matrix", &[], &|_| Err("no files".into())).unwrap_or_else(|e| panic!("{e}"));
    let s = Arc::new(s);
    let of = |replica| {
        let flow = Network::new(Arc::clone(&s), RunOptions { replica, ..RunOptions::default() })
            .expect("there is a link")
            .run()
            .unwrap()
            .flows
            .remove(0);
        if flow.completed { flow.throughput_mbps.unwrap_or(0.0) } else { 0.0 }
    };
    (of(0) + of(1)) / 2.0
}

/// A path of 0.2 ms is shorter than a tick of the timestamps; after losses only timestamps give RTT samples.
#[test]
fn no_round_trip_is_shorter_than_the_path() {
    for stack in Stack::ALL {
        let tcp = format!("stack = \"{}\"\nmss_includes_options = true", stack.name());
        let link = "rate = \"100 Mbit/s\"\ndelay = \"0.1 ms\"\nnoise = { kind = \"random\", loss = \"5 %\" }";
        let text = one_link(&tcp, link, "kind = \"bulk\"\nbytes = \"1 MB\"");
        let (s, _) = roughlink_scenario::parse(&text, "short", &[], &|_| Err("no files".into())).unwrap();
        let s = Arc::new(s);
        for replica in 0..20 {
            let flow = Network::new(Arc::clone(&s), RunOptions { replica, ..RunOptions::default() })
                .expect("there is a link")
                .run()
                .unwrap()
                .flows
                .remove(0);
            let rtt = flow.rtt_ms.unwrap();
            assert!(flow.retransmits > 0 && rtt.min >= 0.2, "{}: {rtt:?}", stack.name());
        }
    }
}
