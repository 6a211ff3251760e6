//! Two TCP endpoints over a lossy pipe, driven by direct calls of the four methods that every element has: `receive`,
//! `transmit`, `wake` and `next_wake`. Run it with `cargo run --example two_endpoints`.

use roughlink_core::cc;
use roughlink_core::link::jitter::JitterShape;
use roughlink_core::link::pipe::Pipe;
use roughlink_core::link::{Direction, Noise};
use roughlink_core::packet::{FlowId, Sides};
use roughlink_core::rng::Seed;
use roughlink_core::tcp::{Stack, TcpConfig, TcpEndpoint};
use roughlink_core::units::{QueueLimit, Rate, Time};
use std::sync::Arc;

fn main() {
    let tcp = Arc::new(TcpConfig::preset(Stack::Linux));
    let end = |reverse| TcpEndpoint::new(FlowId::new(0, reverse), Arc::clone(&tcp), cc::default_factory(), 0);
    let direction = Direction {
        rate: Rate::from_mbps(10),
        delay: Time::from_millis(20),
        queue: QueueLimit::Packets(100),
        noise: Noise::Random { loss: 0.01 },
        jitter: Time::ZERO,
        jitter_shape: JitterShape::default(),
        reorder: false,
        discipline: None,
        timeline: None,
    };
    let pipe = |name| Pipe::new(&direction, (1500, 0), name, &Seed { seed: 1, replica: 0 });
    let (mut ends, mut pipes) = ([end(false), end(true)], [pipe("there"), pipe("back")]);
    let (mut sides, mut now, bytes) = (Sides::default(), Time::ZERO, 1_000_000);
    ends[0].offer(bytes, true);
    ends[0].connect();
    ends[1].listen();
    while ends[1].delivered() < bytes {
        for i in [0, 1] {
            ends[i].wake(now);
            while let Some(packet) = ends[i].transmit(now, &mut sides) {
                pipes[i].receive(now, packet, &mut |dropped| sides.free(&dropped));
            }
        }
        now = (0..2).map(|i| pipes[i].next_wake().min(ends[i].next_wake(now))).min().expect("two of each");
        for i in [0, 1] {
            while pipes[i].next_wake() <= now {
                let Some((packet, lost)) = pipes[i].transmit(now, &mut |_| {}) else { break };
                if !lost {
                    ends[1 - i].receive(now, &packet, &sides);
                }
                sides.free(&packet);
            }
        }
    }
    let lost = pipes[0].stats.lost;
    println!("{bytes} bytes in {:.3} s; {lost} packets were lost", now.as_secs_f64());
}

#[test]
fn example_runs() {
    main();
}
