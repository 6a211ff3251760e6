//! The engine in its reference scenario (groups of up to three bulk flows through 500 Mbit/s and a 10 Mbit/s
//! bottleneck), per delivered packet; `make bench`. The comparison with ns-3 is `validation/speed.py`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use roughlink_core::net::{Network, RunOptions};
use roughlink_core::scenario::Scenario;
use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;

/// Creates `flows` unlimited flows in groups of three, over links whose loss bursts start with probability `start`.
fn scenario(flows: usize, seconds: u32, start: f64, stack: &str, cc: &str) -> Scenario {
    let mut text = format!(
        "name = \"bench\"\nduration = \"{seconds} s\"\n[tcp]\nstack = \"{stack}\"\ncc = \"{cc}\"\nmss = \"1448 B\"\n\
         write_size = \"1448 B\"\nsnd_buf = \"128 KiB\"\nrcv_buf = \"128 KiB\"\n"
    );
    for g in 0..flows.div_ceil(3) {
        for node in ["s", "r", "c"] {
            writeln!(text, "[[node]]\nname = \"{node}{g}\"").unwrap();
        }
        writeln!(
            text,
            "[[link]]\nname = \"in{g}\"\nbetween = [\"s{g}\", \"r{g}\"]\nrate = \"500 Mbit/s\"\ndelay = \"10 ms\"\n\
             [[link]]\nname = \"out{g}\"\nbetween = [\"r{g}\", \"c{g}\"]\nrate = \"10 Mbit/s\"\ndelay = \"0.9 ms\""
        )
        .unwrap();
        if start > 0.0 {
            let percent = start * 100.0;
            writeln!(
                text,
                "noise = {{ kind = \"burst\", start = \"{percent} %\", length = [1, 4], direction = \"forward\" }}"
            )
            .unwrap();
        }
        for f in 0..3.min(flows - 3 * g) {
            writeln!(text, "[[flow]]\nname = \"f{g}-{f}\"\nkind = \"bulk\"\nfrom = \"s{g}\"\nto = \"c{g}\"").unwrap();
        }
    }
    let (scenario, _) =
        roughlink_scenario::parse(&text, "bench", &[], &|_| Err("no files".into())).expect("a valid scenario");
    scenario
}

fn engine(c: &mut Criterion) {
    let mut group = c.benchmark_group("engine");
    group.sample_size(10);
    for (name, flows, seconds, start, stack, cc) in [
        ("1 flow", 1, 60, 0.0, "ns3", "newreno"),
        ("21 flows", 21, 20, 0.0, "ns3", "newreno"),
        ("21 flows, 2 % burst start", 21, 60, 0.02, "ns3", "newreno"),
        ("999 flows", 999, 2, 0.0, "ns3", "newreno"),
        ("21 flows, linux cubic", 21, 20, 0.0, "linux", "cubic"),
        ("21 flows, linux bbr", 21, 20, 0.0, "linux", "bbr"),
    ] {
        let scenario = scenario(flows, seconds, start, stack, cc);
        let scenario = Arc::new(scenario);
        let run = || {
            Network::new(Arc::clone(&scenario), RunOptions::default()).expect("every flow has a path").run().unwrap()
        };
        let result = run();
        let packets: u64 = result.links.iter().filter(|l| l.name.starts_with("out")).map(|l| l.forward.packets).sum();
        group.throughput(Throughput::Elements(packets));
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| black_box(run()));
        });
    }
    group.finish();
}

criterion_group!(benches, engine);
criterion_main!(benches);
