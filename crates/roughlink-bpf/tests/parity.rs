//! Every program computes what its algorithm in Rust does: one stream of events through both.
#![cfg(feature = "kernel")]

mod common;

use common::Recorded;
use roughlink_bpf::catalogue::ENTRIES;
use roughlink_bpf::event::{Event, Kind};
use roughlink_bpf::load::Wish;
use roughlink_bpf::replay::{InKernel, InRust, agree};
use roughlink_core::net::{Network, Options};

/// Rough links of many kinds: a satellite, a power line with bursts of noise, a short queue, an application that pauses.
const LINKS: &[(&str, &str, &str)] = &[
    ("20 Mbit/s", "10 ms", "{ kind = \"burst\", start = \"0.05 %\", length = [1, 4] }"),
    ("50 Mbit/s", "300 ms", "{ kind = \"random\", loss = \"0.01 %\" }"),
    ("5 Mbit/s", "40 ms", "{ kind = \"burst\", start = \"1 %\", length = [1, 4] }"),
    ("100 Mbit/s", "40 ms", "{ kind = \"none\" }"),
];

fn scenario(name: &str, (rate, delay, noise): (&str, &str, &str), queue: u32, seed: u64) -> String {
    format!(
        r#"
seed = {seed}
duration = "120 s"
node = [{{ name = "a" }}, {{ name = "b" }}]
[tcp]
stack = "linux"
cc = "recorded"
[tcp.cc_params]
inner = "{name}"
[[link]]
name = "line"
between = ["a", "b"]
rate = "{rate}"
delay = "{delay}"
queue = "{queue} pkt"
noise = {noise}
[[flow]]
name = "bulk"
kind = "bulk"
from = "a"
to = "b"
"#
    )
}

/// Events of `name` in simulation, one connection after the other, `n` at least.
fn simulated(name: &str, n: usize) -> Vec<Event> {
    Recorded::register();
    let mut all = Vec::new();
    for seed in 1.. {
        for (i, link) in LINKS.iter().enumerate() {
            let text = scenario(name, *link, [20, 100, 400][(i + seed as usize) % 3], seed);
            let (scenario, _) = roughlink_scenario::parse(&text, "line", &[], &|_| Err("no files".into()))
                .unwrap_or_else(|e| panic!("{e:?}"));
            let end = scenario.duration;
            Network::new(scenario, Options::default()).expect("a path").wake(end);
            let stream = Recorded::take();
            // The receiving end has an algorithm of its own, which sends nothing.
            let sender = stream.iter().find(|e| e.kind == Kind::Ack).expect("it sends").connection;
            all.extend(stream.into_iter().filter(|e| e.connection == sender).take(n / 8));
            if all.len() >= n {
                return all;
            }
        }
    }
    unreachable!("seeds do not end")
}

/// Plays `stream` through both; the number of events whose windows do not agree, and the first of them.
fn differences(name: &str, stream: &[Event]) -> (usize, Option<String>) {
    let wish = Wish::new(name).expect("a name");
    let mut kernel = InKernel::new(&wish).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let mut rust = None;
    let (mut wrong, mut first) = (0, None);
    for (i, event) in stream.iter().enumerate() {
        if event.kind == Kind::Opened {
            rust = Some(InRust::new(&wish, event).expect("defaults"));
        }
        let there = kernel.take(event).expect("it runs");
        let here = rust.as_mut().expect("the stream begins with a connection").take(event);
        if !agree(here.0, there.0) || !agree(here.1, there.1) {
            wrong += 1;
            first.get_or_insert_with(|| format!("event {i}, {event:?}: {here:?} in Rust, {there:?} in the kernel"));
        }
    }
    (wrong, first)
}

#[test]
fn programs_compute_what_the_algorithms_do_in_simulation() {
    let n = 100_000;
    for entry in ENTRIES {
        let stream = simulated(entry.name, n);
        let count = |kind| stream.iter().filter(|e| e.kind == kind).count();
        let of = [Kind::Ack, Kind::Congestion, Kind::Timeout, Kind::Recovered, Kind::Undone, Kind::Started].map(count);
        let (wrong, first) = differences(entry.name, &stream);
        println!("{}: {} events, {of:?}, {wrong} differ", entry.name, stream.len());
        assert_eq!(wrong, 0, "{}: {}", entry.name, first.unwrap_or_default());
    }
}
