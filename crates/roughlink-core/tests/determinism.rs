//! The same seed gives the same result, bit for bit, and a change to the scenario affects only what depends on it.

#[path = "common/networks.rs"]
mod networks;

use proptest::prelude::*;
use roughlink_core::app::Traffic;
use roughlink_core::cc::algorithm;
use roughlink_core::link::jitter::JitterShape;
use roughlink_core::link::noise::{BurstLength, Noise};
use roughlink_core::link::{Direction, Model, PipeConfig};
use roughlink_core::metrics::RunResult;
use roughlink_core::net::{Exceeded, Network, Observer, RunLimits, RunOptions};
use roughlink_core::scenario::{CongestionSpec, FlowSpec, FlowTransport, LinkSpec, NodeSpec, Notices, Scenario};
use roughlink_core::tcp::{Stack, TcpConfig};
use roughlink_core::units::{QueueLimit, Rate, Time};
use std::fmt::Write as _;
use std::sync::Arc;

fn cases(n: u32) -> ProptestConfig {
    ProptestConfig { cases: n, max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default() }
}

fn network(s: &Scenario, options: RunOptions) -> Network {
    Network::new(s.clone(), options).expect("there is a path")
}

fn run(s: &Scenario, options: RunOptions) -> RunResult {
    network(s, options).run().expect("no limit is near")
}

#[allow(clippy::disallowed_methods, reason = "core has no threads; its caller has")]
fn on_threads(threads: usize, work: &(dyn Fn() + Sync)) {
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
}

/// Returns a result to the last bit: JSON writes floating point so that it reads back the same.
fn text(r: &RunResult) -> String {
    serde_json::to_string(r).expect("a result is JSON")
}

/// Observes everything and keeps nothing.
struct Curious;
impl Observer for Curious {}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn division_into_components_changes_nothing(scenario in networks::networks(60_000)) {
        let cut = run(&scenario, RunOptions::default());
        let whole = run(&scenario, RunOptions { one_component: true, ..RunOptions::default() });
        prop_assert_eq!(text(&cut), text(&whole));
        prop_assert_eq!(text(&cut), text(&run(&scenario, RunOptions::default())));
    }

    #[test]
    fn threads_change_neither_results_nor_errors(
        scenario in networks::networks(60_000),
        threads in 0usize..4,
        bytes in prop::option::of(1_000u64..200_000),
    ) {
        let limits = RunLimits { bytes: bytes.unwrap_or(u64::MAX), ..RunLimits::default() };
        let network = || network(&scenario, RunOptions { limits, ..RunOptions::default() });
        let parallel = network().run_on(|work| on_threads(threads, work));
        let serial = network().run();
        prop_assert_eq!(parallel.as_ref().map(text), serial.as_ref().map(text));
    }

    #[test]
    fn observing_changes_nothing(scenario in networks::networks(60_000)) {
        let blind = run(&scenario, RunOptions::default());
        let watched = network(&scenario, RunOptions::default()).observed_by(&mut Curious).run().unwrap();
        prop_assert_eq!(text(&blind), text(&watched));
    }

    /// The caller may wake a network late, read results in between, and begin to observe at any time.
    #[test]
    fn late_wakeups_change_nothing(
        scenario in networks::networks(60_000),
        late in prop::collection::vec((0u64..5_000_000, 0u8..16), 1..200),
    ) {
        let simulated = run(&scenario, RunOptions::default());
        let mut driven = network(&scenario, RunOptions::default());
        let mut late = late.into_iter().cycle();
        let mut before = driven.result();
        while driven.next_wake() <= scenario.duration {
            let (by, what) = late.next().expect("it never ends");
            let now = driven.next_wake() + Time(by);
            if what == 0 {
                let mut watched = driven.observed_by(Curious);
                watched.wake(now);
                driven = watched.detach_observer().0;
            } else {
                driven.wake(now);
            }
            prop_assert!(driven.next_wake() > now.min(scenario.duration));
            if what == 1 {
                let after = driven.result();
                prop_assert!(after.events >= before.events && after.sim_s <= simulated.sim_s.max(now.as_secs_f64()));
                before = after;
            }
        }
        driven.wake(scenario.duration);
        prop_assert_eq!(text(&driven.result()), text(&simulated));
    }

    #[test]
    fn event_limit_changes_nothing_until_it_ends_the_run(scenario in networks::networks(60_000)) {
        let whole = run(&scenario, RunOptions::default());
        let within = |events| {
            let limits = RunLimits { events, ..RunLimits::default() };
            network(&scenario, RunOptions { limits, ..RunOptions::default() })
        };
        let enough = 2 * whole.events + whole.flows.iter().map(|f| 2 * f.segments).sum::<u64>() + 100_000;
        prop_assert_eq!(text(&whole), text(&within(enough).run().unwrap()));
        let mut few = within(10).observed_by(Curious);
        let stopped = matches!(few.run(), Err(Exceeded::Events { most: 10, .. }));
        prop_assert!(few.result().events <= whole.events.min(10));
        prop_assert!(stopped || whole.events <= 10);
        prop_assert!(!stopped || few.next_wake() == Time::MAX);
    }

    #[test]
    fn unrelated_additions_change_nothing(
        (mut scenario, more) in (networks::networks(60_000), networks::networks(60_000)),
    ) {
        let alone = run(&scenario, RunOptions::default());
        let (flows, links) = (scenario.flows.len(), scenario.links.len());
        let base = scenario.nodes.len();
        scenario.nodes.extend(more.nodes.iter().map(|n| NodeSpec::new(format!("more {}", n.name))));
        // Insert the additions in front, so that the numbers of all links and flows change.
        scenario.links.splice(0..0, more.links.into_iter().map(|mut l| {
            l.name = format!("more {}", l.name);
            l.between = (base + l.between.0, base + l.between.1);
            l
        }));
        scenario.flows.splice(0..0, more.flows.into_iter().map(|mut f| {
            f.name = format!("more {}", f.name);
            (f.from, f.to) = (base + f.from, base + f.to);
            f
        }));
        let mut together = run(&scenario, RunOptions::default());
        let flows = together.flows.split_off(together.flows.len() - flows);
        prop_assert_eq!(&alone.flows, &flows);
        // A link's time average runs over the whole simulated time, which has changed.
        let links = together.links.split_off(together.links.len() - links);
        for (a, b) in alone.links.iter().zip(&links) {
            for (a, b) in [(&a.forward, &b.forward), (&a.reverse, &b.reverse)] {
                prop_assert_eq!((a.packets, a.bytes, a.dropped, a.lost), (b.packets, b.bytes, b.dropped, b.lost));
                prop_assert_eq!(a.queue_max_pkt, b.queue_max_pkt);
            }
        }
    }
}

/// Creates the V2G paper's network with `flows` downloads over a noisy power line.
fn v2g(stack: Stack, cc: &str, flows: usize, bytes: u64) -> Scenario {
    let direction = |rate, noise| Direction {
        rate,
        delay: Time::from_micros(900),
        queue: QueueLimit::Packets(100),
        noise,
        jitter: Time::ZERO,
        jitter_shape: JitterShape::default(),
        reorder: false,
        discipline: None,
        timeline: None,
    };
    let pipe = |rate, noise| PipeConfig {
        forward: direction(rate, noise),
        reverse: direction(rate, Noise::None),
        mtu: 1500,
        overhead: 2,
    };
    let noise = Noise::Burst { start: 0.01, length: BurstLength::Uniform(1, 4) };
    let tcp = Arc::new(TcpConfig::preset(stack));
    let factory = algorithm(cc).expect("it is there").default_factory(stack.name());
    Scenario {
        name: "v2g".into(),
        seed: 7,
        duration: Time::from_secs(600),
        nodes: ["sa", "secc", "evcc"].map(NodeSpec::new).to_vec(),
        links: vec![
            LinkSpec {
                name: "internet".into(),
                between: (0, 1),
                model: Model::Pipe(Box::new(pipe(Rate::from_mbps(500), Noise::None))),
                cable: None,
                notices: Notices::default(),
                stays: vec![],
            },
            LinkSpec {
                name: "plc".into(),
                between: (1, 2),
                model: Model::Pipe(Box::new(pipe(Rate::from_mbps(10), noise))),
                cable: None,
                notices: Notices::default(),
                stays: vec![],
            },
        ],
        flows: (0..flows)
            .map(|i| FlowSpec {
                name: format!("download {i}"),
                from: 0,
                to: 2,
                start: Time::from_millis(10 * i as u64),
                traffic: Traffic::Bulk { bytes: Some(bytes) },
                transport: FlowTransport::Tcp(
                    Arc::clone(&tcp),
                    Arc::new(CongestionSpec { name: cc.into(), params: toml::Table::new(), factory: factory.clone() }),
                ),
                ipv6: false,
                dscp: 0,
                priority: None,
            })
            .collect(),
        gateways: Vec::new(),
        proxies: Vec::new(),
        source: String::new(),
    }
}

#[test]
fn replicas_differ() {
    let s = v2g(Stack::Ns3, "newreno", 1, 500_000);
    let times: Vec<_> =
        (0..20).map(|replica| run(&s, RunOptions { replica, ..RunOptions::default() }).flows[0].end_s).collect();
    let mut different = times.clone();
    different.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    different.dedup();
    assert!(different.len() >= 19, "{times:?}");
    let mut other = s.clone();
    other.seed += 1;
    assert_ne!(run(&s, RunOptions::default()).flows, run(&other, RunOptions::default()).flows);
}

/// The order of links in a scenario, and their numbers, do not affect random streams.
#[test]
fn adding_a_flow_does_not_change_the_noise() {
    // The two flows share no link, so the first one's packets meet the same noise.
    let one = v2g(Stack::Linux, "cubic", 1, 300_000);
    let mut two = one.clone();
    two.nodes.extend(["x", "y"].map(NodeSpec::new));
    two.links.insert(
        0,
        LinkSpec {
            name: "aside".into(),
            between: (3, 4),
            model: two.links[1].model.clone(),
            cable: None,
            notices: Notices::default(),
            stays: vec![],
        },
    );
    two.flows.insert(0, FlowSpec { name: "aside".into(), from: 3, to: 4, ..two.flows[0].clone() });
    assert_eq!(run(&one, RunOptions::default()).flows[0], run(&two, RunOptions::default()).flows[1]);
}

/// Any change of behavior shows here; an intended one is accepted with `cargo insta review`.
#[test]
fn golden_results_are_pinned() {
    let mut table = String::new();
    for stack in [Stack::Linux, Stack::Ns3, Stack::Ns2, Stack::Rfc] {
        for cc in ["newreno", "cubic", "bbr", "illinois"] {
            for (flows, bytes) in [(1, 1_000_000), (5, 200_000)] {
                let r = run(&v2g(stack, cc, flows, bytes), RunOptions::default());
                let f = &r.flows[0];
                let _ = writeln!(
                    table,
                    "{:5} {cc:8} {flows} x {bytes:7}  {:016x}  {:8.3} s  {:4} retransmits {:3} time-outs {:6} events",
                    stack.name(),
                    hash(&text(&r)),
                    f.end_s.unwrap_or(f64::NAN),
                    f.retransmits,
                    f.timeouts,
                    r.events,
                );
            }
        }
    }
    insta::assert_snapshot!(table);
}

/// Returns FNV-1a, 64 bits: stable on every machine and in every version.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}
