//! Cost of loss recovery with thousands of segments outstanding, per packet through the bottleneck. The cost of an
//! acknowledgment must not grow with the window. `cargo bench -p roughlink-core --bench recovery`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use roughlink_core::net::{Network, RunOptions};
use roughlink_core::scenario::Scenario;
use std::hint::black_box;
use std::sync::Arc;

struct Path {
    name: &'static str,
    tcp: &'static str,
    rate: &'static str,
    delay: &'static str,
    queue: &'static str,
    link: &'static str,
    seconds: u32,
}

const RANDOM_LOSS: &str = "noise = { kind = \"random\", loss = \"0.1 %\", direction = \"forward\" }";
const REORDERING: &str = "jitter = \"20 ms\"\nreorder = true";

const PATHS: [Path; 7] = [
    Path {
        name: "linux bbr, 0.1 % loss",
        tcp: "stack = \"linux\"\ncc = \"bbr\"",
        rate: "1 Gbit/s",
        delay: "50 ms",
        queue: "10000 pkt",
        link: RANDOM_LOSS,
        seconds: 4,
    },
    Path {
        name: "linux cubic, overshoot at 10 Gbit/s",
        tcp: "stack = \"linux\"\ncc = \"cubic\"",
        rate: "10 Gbit/s",
        delay: "10 ms",
        queue: "20000 pkt",
        link: "",
        seconds: 3,
    },
    Path {
        name: "ns3 newreno, overshoot",
        tcp: "stack = \"ns3\"\ncc = \"newreno\"",
        rate: "1 Gbit/s",
        delay: "50 ms",
        queue: "2000 pkt",
        link: "",
        seconds: 10,
    },
    Path {
        name: "RFC 6675, overshoot",
        tcp: "stack = \"rfc\"\ncc = \"newreno\"\nrecovery = \"sack\"",
        rate: "1 Gbit/s",
        delay: "50 ms",
        queue: "2000 pkt",
        link: "",
        seconds: 10,
    },
    Path {
        name: "linux cubic without SACK, overshoot",
        tcp: "stack = \"linux\"\ncc = \"cubic\"\nsack = false",
        rate: "1 Gbit/s",
        delay: "50 ms",
        queue: "2000 pkt",
        link: "",
        seconds: 10,
    },
    Path {
        name: "linux bbr, reordering",
        tcp: "stack = \"linux\"\ncc = \"bbr\"",
        rate: "1 Gbit/s",
        delay: "20 ms",
        queue: "2000 pkt",
        link: REORDERING,
        seconds: 4,
    },
    Path {
        name: "ns3 newreno, reordering",
        tcp: "stack = \"ns3\"\ncc = \"newreno\"",
        rate: "1 Gbit/s",
        delay: "20 ms",
        queue: "2000 pkt",
        link: REORDERING,
        seconds: 4,
    },
];

fn scenario(path: &Path) -> Scenario {
    let Path { tcp, rate, delay, queue, link, seconds, .. } = path;
    let text = format!(
        "duration = \"{seconds} s\"\nnode = [{{ name = \"a\" }}, {{ name = \"b\" }}, {{ name = \"c\" }}]\n\
         [tcp]\n{tcp}\n\
         write_size = \"1448 B\"\nsnd_buf = \"64 MiB\"\nrcv_buf = \"64 MiB\"\n\
         [[link]]\nname = \"in\"\nbetween = [\"a\", \"b\"]\nrate = \"40 Gbit/s\"\ndelay = \"1 us\"\n\
         [[link]]\nname = \"out\"\nbetween = [\"b\", \"c\"]\n\
         rate = \"{rate}\"\ndelay = \"{delay}\"\nqueue = \"{queue}\"\n\
         {link}\n[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"c\""
    );
    let (scenario, _) =
        roughlink_scenario::parse(&text, "bench", &[], &|_| Err("no files".into())).expect("a valid scenario");
    scenario
}

fn recovery(c: &mut Criterion) {
    let mut group = c.benchmark_group("recovery");
    group.sample_size(10);
    for path in &PATHS {
        let scenario = Arc::new(scenario(path));
        let run = || Network::new(Arc::clone(&scenario), RunOptions::default()).expect("the flow has a path").run();
        let packets: u64 =
            run().expect("no limit is near").links.iter().filter(|l| l.name == "out").map(|l| l.forward.packets).sum();
        group.throughput(Throughput::Elements(packets));
        group.bench_function(BenchmarkId::from_parameter(path.name), |b| {
            b.iter(|| black_box(run()));
        });
    }
    group.finish();
}

criterion_group!(benches, recovery);
criterion_main!(benches);
