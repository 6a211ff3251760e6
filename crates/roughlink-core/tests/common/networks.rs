//! Random networks for property tests: a chain of routers with hosts at its ends and in between. Links have any
//! quality, flows any stack and algorithm, in both directions.

use proptest::prelude::*;
use proptest::sample::select;
use roughlink_core::app::Traffic;
use roughlink_core::cc::{Algorithm, REGISTRY};
use roughlink_core::link::jitter::{Distribution, JitterShape};
use roughlink_core::link::noise::{BurstLength, Noise};
use roughlink_core::link::queue::{BucketConfig, CodelConfig};
use roughlink_core::link::timeline::{Opportunities, OutagePolicy, Step, Timeline};
use roughlink_core::link::{Direction, Discipline, Model, PipeConfig};
use roughlink_core::scenario::{CongestionSpec, FlowSpec, FlowTransport, LinkSpec, NodeSpec, Notices, Scenario};
use roughlink_core::tcp::{Amount, Buffer, InitialSsthresh, LossRecovery, Stack, TcpConfig};
use roughlink_core::units::{QueueLimit, Rate, Time};
use std::sync::Arc;

/// Generates any TCP configuration that a scenario file may state.
pub fn tcp() -> impl Strategy<Value = TcpConfig> {
    use LossRecovery::{NewReno, Prr, Rack, Reno, Sack, Tahoe};
    let stack = select(vec![Stack::Linux, Stack::Ns3, Stack::Ns2, Stack::Rfc]);
    // Half of the connections run a preset in which only SACK and ECN may differ; the others use any values.
    let recovery = prop_oneof![Just(None), select(vec![Tahoe, Reno, NewReno, Sack, Prr, Rack]).prop_map(Some)];
    let features = (any::<[bool; 2]>(), any::<[Option<bool>; 8]>(), 1u32..=10, 1u32..=4);
    let sizes = (200u32..=1460, 1u64..=64, 1u64..=64, proptest::option::of(2u64..20));
    (stack, recovery, features, sizes).prop_map(|(stack, recovery, features, sizes)| {
        let mut c = TcpConfig::preset(stack);
        let ([sack, ecn], f, initial_window, delayed_ack) = features;
        let (mss, snd, rcv, ssthresh) = sizes;
        (c.sack, c.ecn) = (sack, ecn);
        c.mss = mss;
        if let Some(recovery) = recovery {
            c.recovery = recovery;
            let set = |to: &mut bool, from: Option<bool>| *to = from.unwrap_or(*to);
            set(&mut c.timestamps, f[0]);
            set(&mut c.window_scaling, f[1]);
            set(&mut c.quick_ack, f[2]);
            set(&mut c.limited_transmit, f[3]);
            set(&mut c.tlp, f[4]);
            set(&mut c.undo, f[5]);
            set(&mut c.nagle, f[6]);
            set(&mut c.fill_window, f[7]);
            c.initial_window = initial_window;
            c.delayed_ack = delayed_ack;
            c.initial_ssthresh =
                ssthresh.map_or(InitialSsthresh::Unlimited, |n| InitialSsthresh::Amount(Amount::Segments(n)));
            c.snd_buf = Buffer::Bytes(snd * u64::from(mss));
            c.rcv_buf = Buffer::Bytes(rcv * u64::from(mss));
        }
        c
    })
}

fn noise() -> impl Strategy<Value = Noise> {
    prop_oneof![
        3 => Just(Noise::None),
        2 => (0.0..0.06).prop_map(|loss| Noise::Random { loss }),
        2 => (0.0..0.03, 1u64..4).prop_map(|(start, n)| Noise::Burst { start, length: BurstLength::Uniform(1, n) }),
        1 => (0.0..0.02, 0.2..1.0).prop_map(|(to_bad, to_good)| {
            Noise::GilbertElliott { to_bad, to_good, loss_good: 0.001, loss_bad: 0.4 }
        }),
        1 => proptest::collection::btree_set(0u64..200, 0..12)
            .prop_map(|drop| Noise::List { drop: drop.into_iter().collect() }),
    ]
}

fn direction() -> impl Strategy<Value = Direction> {
    let queue = prop_oneof![(0u32..40).prop_map(QueueLimit::Packets), (1_500u64..40_000).prop_map(QueueLimit::Bytes)];
    let jitter = prop_oneof![2 => Just(0), 1 => 0u64..20_000];
    let timeline = prop_oneof![3 => Just(None), 2 => timeline().prop_map(|t| Some(Arc::new(t)))];
    let discipline = proptest::option::weighted(0.4, discipline());
    (
        100_000u64..50_000_000,
        0u64..80_000,
        queue,
        noise(),
        (jitter, jitter_shape()),
        any::<bool>(),
        timeline,
        discipline,
    )
        .prop_map(|(rate, delay, queue, noise, (jitter, jitter_shape), reorder, timeline, discipline)| Direction {
            rate: Rate(rate),
            delay: Time::from_micros(delay),
            queue,
            noise,
            jitter: Time::from_micros(jitter),
            jitter_shape,
            reorder,
            discipline,
            timeline,
        })
}

fn jitter_shape() -> impl Strategy<Value = JitterShape> {
    let distribution = select(vec![Distribution::Uniform, Distribution::Normal, Distribution::Pareto]);
    (distribution, select(vec![0.0, 0.25, 0.9]))
        .prop_map(|(distribution, correlation)| JitterShape { distribution, correlation })
}

fn discipline() -> impl Strategy<Value = Discipline> {
    let codel = (1u64..50, 1u64..300, any::<bool>()).prop_map(|(target, interval, ecn)| CodelConfig {
        target: Time::from_millis(target),
        interval: Time::from_millis(interval),
        ecn,
    });
    prop_oneof![
        (1u32..40).prop_map(|n| Discipline::Threshold { at: QueueLimit::Packets(n) }),
        codel.clone().prop_map(Discipline::Codel),
        (codel, 1u32..8, 100u32..3000).prop_map(|(codel, flows, quantum)| Discipline::FqCodel {
            codel,
            flows,
            quantum
        }),
        (1u8..5).prop_map(|bands| Discipline::Prio { bands, first: 1 << 46 }),
        (100_000u64..20_000_000, 1500u64..20_000)
            .prop_map(|(rate, burst)| Discipline::Tbf(BucketConfig { rate: Rate(rate), burst })),
        (100_000u64..20_000_000, 1500u64..20_000)
            .prop_map(|(rate, burst)| Discipline::Police(BucketConfig { rate: Rate(rate), burst })),
    ]
}

/// Steps of rate and delay, outages, and other noise for a while; in the end the link is up.
fn timeline() -> impl Strategy<Value = Timeline> {
    let state = (any::<bool>(), 100_000u64..50_000_000, 0u64..300_000, proptest::option::weighted(0.3, Just(0u32)));
    let states = proptest::collection::vec((0u64..20_000_000, state), 1..8);
    let policy = select(vec![OutagePolicy::Drop, OutagePolicy::Keep]);
    let trace = proptest::collection::btree_set(1u64..400, 1..60).prop_map(|times| {
        let times: Vec<Time> = times.into_iter().map(Time::from_millis).collect();
        Opportunities { period: *times.last().expect("at least one"), times }
    });
    (states, policy, noise(), proptest::option::weighted(0.2, trace)).prop_map(
        |(mut states, policy, noise, opportunities)| {
            states.sort_by_key(|s| s.0);
            let last = states.len() - 1;
            let ends: Vec<Option<u64>> = states.iter().skip(1).map(|s| Some(s.0)).chain([None]).collect();
            let step = |i: usize, at, (up, rate, delay, noise): (bool, u64, u64, Option<u32>)| Step {
                at: Time::from_micros(at),
                until: ends[i].map(Time::from_micros),
                up: Some(up || i == last),
                rate: Some(Rate(rate)),
                delay: Some(Time::from_micros(delay)),
                noise,
                ..Step::default()
            };
            let steps = states.into_iter().enumerate().map(|(i, (at, state))| step(i, at, state)).collect();
            Timeline::new(steps, vec![noise], Time::MAX).with(policy, opportunities)
        },
    )
}

fn pipe() -> impl Strategy<Value = PipeConfig> {
    let mtu = prop_oneof![3 => Just(1500u16), 1 => 296u16..1500];
    (direction(), direction(), mtu, 0u16..40).prop_map(|(forward, reverse, mtu, overhead)| PipeConfig {
        forward,
        reverse,
        mtu,
        overhead,
    })
}

pub fn algorithm() -> impl Strategy<Value = &'static Algorithm> {
    prop::sample::select(REGISTRY.iter().collect::<Vec<_>>())
}

fn flow(index: usize, nodes: usize, bytes: u64) -> impl Strategy<Value = FlowSpec> {
    let ends = (0..nodes, 1..nodes).prop_map(move |(from, step)| (from, (from + step) % nodes));
    (ends, algorithm(), tcp(), 1..bytes, 0u64..2_000, 0u32..5).prop_map(
        move |((from, to), algorithm, tcp, bytes, start, kind)| {
            let start = Time::from_millis(start);
            let (transport, traffic) = if kind == 0 {
                let traffic = Traffic::Cbr { rate: Rate(200_000), packet: 400, bytes: Some(bytes), stop: None };
                (FlowTransport::Udp, traffic)
            } else {
                let factory = algorithm.default_factory(tcp.stack.name());
                let cc = CongestionSpec { name: algorithm.name.into(), params: toml::Table::new(), factory };
                (FlowTransport::Tcp(Arc::new(tcp), Arc::new(cc)), Traffic::Bulk { bytes: Some(bytes) })
            };
            FlowSpec {
                name: format!("flow {index}"),
                from,
                to,
                start,
                traffic,
                transport,
                ipv6: false,
                dscp: 0,
                priority: None,
            }
        },
    )
}

/// Networks of up to two separate chains, whose flows carry up to `bytes` each.
pub fn networks(bytes: u64) -> impl Strategy<Value = Scenario> {
    let chain = |bytes| {
        (2usize..=4).prop_flat_map(move |nodes| {
            let links = proptest::collection::vec(pipe(), nodes - 1);
            let flows = (1usize..=3).prop_flat_map(move |n| (0..n).map(|i| flow(i, nodes, bytes)).collect::<Vec<_>>());
            (Just(nodes), links, flows)
        })
    };
    (any::<u64>(), proptest::collection::vec(chain(bytes), 1..=2)).prop_map(|(seed, chains)| {
        let mut s = Scenario {
            name: "random".into(),
            seed,
            duration: Time::from_secs(7200),
            nodes: Vec::new(),
            links: Vec::new(),
            flows: Vec::new(),
            gateways: Vec::new(),
            proxies: Vec::new(),
            source: String::new(),
        };
        for (k, (nodes, links, flows)) in chains.into_iter().enumerate() {
            let base = s.nodes.len();
            s.nodes.extend((0..nodes).map(|i| NodeSpec::new(format!("node {k}.{i}"))));
            for (i, pipe) in links.into_iter().enumerate() {
                s.links.push(LinkSpec {
                    name: format!("link {k}.{i}"),
                    between: (base + i, base + i + 1),
                    model: Model::Pipe(Box::new(pipe)),
                    cable: None,
                    notices: Notices::default(),
                    stays: Vec::new(),
                });
            }
            for mut f in flows {
                f.name = format!("{k} {}", f.name);
                (f.from, f.to) = (base + f.from, base + f.to);
                s.flows.push(f);
            }
        }
        s
    })
}
