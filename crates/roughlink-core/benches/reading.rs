//! Cost of scenarios of several sizes, per element: tables of changes, recorded traces, repetitions, chains, stars, and
//! files with many faults; `make bench`. If the time per element grows with the size, something is quadratic.

use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime,
};
use roughlink_core::net::{Network, RunOptions};
use roughlink_core::scenario::Scenario;
use roughlink_scenario::ScenarioError;
use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

fn one_link(seconds: u32, link: &str) -> String {
    format!(
        "duration = \"{seconds} s\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nname = \"l\"\n\
         between = [\"a\", \"b\"]\n{link}\n"
    )
}

/// A flow over that link that leaves the queue empty most of the time.
const FLOW: &str = "[[flow]]\nname = \"f\"\nkind = \"cbr\"\nfrom = \"a\"\nto = \"b\"\nrate = \"6 Mbit/s\"";

fn read(text: &str, file: &str) -> Result<Scenario, Box<ScenarioError>> {
    let read = roughlink_scenario::parse(text, "bench", &[], &|_| Ok(file.to_owned()));
    read.map(|(scenario, _)| scenario).map_err(Box::new)
}

fn network(scenario: impl Into<Arc<Scenario>>) -> Network {
    Network::new(scenario, RunOptions::default()).expect("every flow has a path")
}

fn sized<'c>(c: &'c mut Criterion, name: &str) -> BenchmarkGroup<'c, WallTime> {
    let mut group = c.benchmark_group(name);
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    group
}

fn measure<O>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, size: u32, mut of: impl FnMut() -> O) {
    group.throughput(Throughput::Elements(u64::from(size)));
    group.bench_function(BenchmarkId::new(name, size), |b| b.iter(|| black_box(of())));
}

fn tables(c: &mut Criterion) {
    let mut group = sized(c, "table");
    for lines in [10_000, 100_000, 1_000_000] {
        let row = |i: u32| format!("{},{},\n", f64::from(i) / 1e4, 1 + i % 7);
        let table = format!("time_s,rate_mbps,delay_ms\n0,8,20\n{}", (1..lines).map(row).collect::<String>());
        let text = one_link(100, "timeline = \"t.csv\"");
        measure(&mut group, "lines", lines, || {
            let scenario = read(&text, &table).expect("a valid scenario");
            scenario.links[0].model.as_pipe().map(|pipe| pipe.forward.states().count())
        });
    }
    group.finish();
}

/// Measures a run over a link that changes every other millisecond, per repetition.
fn repetitions(c: &mut Criterion) {
    let mut group = sized(c, "repeat");
    for seconds in [10, 20, 40] {
        let steps = "timeline = { steps = [{ at = \"0 s\", rate = \"8 Mbit/s\", delay = \"9 ms\" }, \
                     { at = \"1 ms\", rate = \"9 Mbit/s\" }], repeat = \"2 ms\" }";
        let text = one_link(seconds, steps) + FLOW;
        measure(&mut group, "times", 500 * seconds, || network(read(&text, "").expect("a valid scenario")).run());
    }
    group.finish();
}

/// Measures a run over a recorded trace in which each packet needs a search for its opportunity, per second of it.
fn traces(c: &mut Criterion) {
    let mut group = sized(c, "mahimahi");
    for seconds in [30, 60, 120, 240] {
        let trace: String = (1..=1000 * seconds).map(|ms| format!("{ms}\n")).collect();
        let text = one_link(seconds, "delay = \"10 ms\"\ntimeline = \"t.up\"") + FLOW;
        let scenario = Arc::new(read(&text, &trace).expect("a valid scenario"));
        measure(&mut group, "seconds", seconds, || network(Arc::clone(&scenario)).run());
    }
    group.finish();
}

fn nodes(names: impl Iterator<Item = u32>) -> String {
    names.fold("duration = \"1 s\"\n".to_owned(), |text, n| text + &format!("[[node]]\nname = \"n{n}\"\n"))
}

fn topology(nodes: u32, links: impl Iterator<Item = (u32, u32)>, flows: impl Iterator<Item = (u32, u32)>) -> String {
    let mut text = self::nodes(0..nodes);
    for (i, (a, b)) in links.enumerate() {
        let between = format!("between = [\"n{a}\", \"n{b}\"]");
        let _ = write!(text, "[[link]]\nname = \"l{i}\"\n{between}\nrate = \"9 Mbit/s\"\ndelay = \"1 ms\"\n");
    }
    for (i, (a, b)) in flows.enumerate() {
        let _ = write!(
            text,
            "[[flow]]\nname = \"f{i}\"\nkind = \"bulk\"\nfrom = \"n{a}\"\nto = \"n{b}\"\nbytes = \"1 kB\"\n"
        );
    }
    text
}

fn networks(c: &mut Criterion) {
    let mut group = sized(c, "network");
    for size in [10_000, 100_000] {
        let chain = topology(size, (1..size).map(|n| (n - 1, n)), [(0, size - 1)].into_iter());
        measure(&mut group, "chain, nodes", size, || drop(network(read(&chain, "").expect("a valid scenario"))));
        let star = topology(size + 1, (1..=size).map(|n| (0, n)), (1..=size).map(|n| (n, 1 + n % size)));
        measure(&mut group, "star, flows", size, || drop(network(read(&star, "").expect("a valid scenario"))));
    }
    for size in [1_000, 10_000] {
        let twice = nodes((0..size).chain(0..size));
        measure(&mut group, "names twice", size, || read(&twice, "").expect_err("names stand twice"));
    }
    for flows in [50, 200] {
        let lonely = topology(2_000, (1..1_000).map(|n| (n - 1, n)), (0..flows).map(|n| (n, 1_000 + n)));
        measure(&mut group, "unreachable among 2000 nodes, flows", flows, || read(&lonely, "").expect_err("no path"));
    }
    group.finish();
}

criterion_group!(benches, tables, repetitions, traces, networks);
criterion_main!(benches);
