//! Programs compute the same as their Rust algorithms: each stream of events is replayed through both.
#![cfg(feature = "kernel")]

mod common;

use common::{Recorded, numbered};
use roughlink_bpf::catalogue::ENTRIES;
use roughlink_bpf::event::{EventKind, EventRecord};
use roughlink_bpf::load::LoadRequest;
use roughlink_bpf::replay::{InKernel, InRust, agree};
use roughlink_core::cc::CongestionState;
use roughlink_core::net::{Network, RunOptions};
use roughlink_core::units::Time;
use toml::Table;

/// Links and settings that together cause every kind of event.
const NETWORKS: &[Rough] = &[
    // A power line with bursts of noise.
    bulk(r#"rate = "20 Mbit/s", delay = "10 ms", noise = { kind = "burst", start = "0.05 %", length = [1, 4] }"#),
    // A satellite.
    bulk(r#"rate = "50 Mbit/s", delay = "300 ms", noise = { kind = "random", loss = "0.01 %" }"#),
    // A queue that overflows.
    bulk(r#"rate = "100 Mbit/s", delay = "40 ms""#),
    // Windows of thousands of segments.
    Rough {
        link: r#"rate = "10 Gbit/s", delay = "50 ms", noise = { kind = "random", loss = "0.01 %" }"#,
        tcp: r#"initial_window = 20000
initial_ssthresh = "40000 pkt"
rcv_buf = "1 GiB"
snd_buf = "1 GiB""#,
        flow: r#"kind = "bulk""#,
    },
    // Heavy noise: repeated time-outs.
    bulk(r#"rate = "5 Mbit/s", delay = "40 ms", noise = { kind = "burst", mean = "5 %", length = [1, 4] }"#),
    bulk(r#"rate = "2 Mbit/s", delay = "15 ms", noise = { kind = "burst", mean = "8 %", length = { geometric = 6 } }"#),
    // Intermittent coverage: time-outs that back off.
    bulk(
        r#"rate = "4 Mbit/s", delay = "20 ms", noise = { kind = "random", loss = "0.1 %" },
timeline = { steps = [{ at = "1 s", for = "1.2 s", up = false },
  { at = "4 s", for = "400 ms", up = false }], repeat = "6 s" }"#,
    ),
    // A modem that delays packets: spurious time-outs.
    bulk(
        r#"rate = "6 Mbit/s", delay = "20 ms", noise = { kind = "random", loss = "0.05 %" },
timeline = { steps = [{ at = "1 s", for = "900 ms", up = false }], repeat = "3 s", policy = "keep" }"#,
    ),
    // Paths of different lengths, one after the other.
    bulk(
        r#"rate = "6 Mbit/s", delay = "15 ms", noise = { kind = "random", loss = "0.02 %" },
timeline = { steps = [{ at = "2 s", for = "2 s", delay = "500 ms" }], repeat = "4 s" }"#,
    ),
    // Paths of different lengths at once: reordering, and fast retransmits that prove to be spurious.
    bulk(
        r#"rate = "20 Mbit/s", delay = "20 ms", jitter = "12 ms", reorder = true,
noise = { kind = "random", loss = "0.02 %" }"#,
    ),
    // An application that sends 256 KiB and waits.
    Rough {
        link: r#"rate = "20 Mbit/s", delay = "30 ms", noise = { kind = "burst", start = "0.1 %", length = [1, 4] }"#,
        tcp: "",
        flow: r#"kind = "request", discovery = false, period = "1.5 s", pause = "10 ms",
processing = { cable_check = "0 s", precharge = "0 s" },
messages = { current_demand = { request = "256 KiB", timeout = "5 s" } }"#,
    },
    // Marks instead of losses.
    Rough {
        link: r#"rate = "30 Mbit/s", delay = "15 ms", qdisc = { kind = "threshold", at = "20 pkt" }"#,
        tcp: "ecn = true",
        flow: r#"kind = "bulk""#,
    },
];

/// Source of a stream of events: keys of the link, of `[tcp]` and of the flow.
struct Rough {
    link: &'static str,
    tcp: &'static str,
    flow: &'static str,
}

const fn bulk(link: &'static str) -> Rough {
    Rough { link, tcp: "", flow: r#"kind = "bulk""# }
}

/// Algorithms whose programs compute exactly the same windows, without the tolerance of `agree`.
const EXACT: &[&str] = &[
    "newreno",
    "newreno-sc",
    "hybla",
    "scalable",
    "highspeed",
    "bic",
    "vegas",
    "veno",
    "yeah",
    "westwood",
    "htcp",
    "avoca",
    "rough",
];

/// Parameters far from the defaults, with shorter streams.
const VARIANTS: &[(&str, &str)] = &[
    ("newreno", "min_ssthresh = 40"),
    ("illinois", "alpha_max = 60000.0\nalpha_min = 0.001\nbeta_max = 1.0\nd1 = 0.9\nd2 = 1.0\nd3 = 60000.0"),
    ("illinois", "win_thresh = 0\ntheta = 1\nbeta_min = 0.0\nd1 = 0.0\nrtt_limit_ms = 0.0"),
    ("hybla", "rrtt_ms = 1"),
    ("hybla", "rrtt_ms = 4000000\nstart_at_rho = false\nmax_window = 50"),
    ("hybla", "rrtt_ms = 10\nmax_window = 4294967295"),
    ("scalable", "a = 1.0\nb = 0.0"),
    ("scalable", "a = 0.0003\nb = 0.999"),
    ("scalable", "a = 1e-12\nb = 0.3"),
    ("bic", "beta = 0.0001\nmax_increment = 4294967295\nfast_convergence = false"),
    ("bic", "beta = 0.9999\nlow_window = 200\nsearch = 2\nsmooth_part = 4294967295\nfirst_count = 4294967295"),
    ("bic", "low_window = 0\nsearch = 4294967295\nsmooth_part = 1\nfirst_count = 1"),
    ("vegas", "alpha = 0\nbeta = 0\nmin_samples = 0"),
    ("vegas", "alpha = 10\nbeta = 20\ngamma = 5\nforget_when_idle = false"),
    ("veno", "beta = 1\nresolution = 1\nrandom_loss = 0.9\nmin_samples = 0"),
    ("veno", "resolution = 4000000000\nbeta = 4000000000\nrandom_loss = 1.0"),
    ("veno", "resolution = 1000003\nbeta = 5\nrandom_loss = 0.0\nforget_when_idle = false"),
    ("yeah", "alpha = 3\ngamma = 2\ndelta = 1\nepsilon = 2\nphi = 0\nrho = 2\nzeta = 3\na = 1.0"),
    ("yeah", "alpha = 0\ndelta = 63\nepsilon = 63\nrho = 0\nzeta = 0\na = 1e-12"),
    ("yeah", "a = 0.003\nphi = 3"),
    ("westwood", "memory = 0.0\nmin_sample_ms = 0.0\njiffy_ms = 0.0\nforget_rtt = false"),
    ("westwood", "jiffy_ms = 4000000.0"),
    ("westwood", "min_sample_ms = 4000000.0"),
    (
        "htcp",
        "delta_l_ms = 0\nbeta_min = 0.01\nbeta_max = 0.99\nthroughput_ratio = 1.0\nadaptive_above_ms = 0\n\
         rtt_step_ms = 1000",
    ),
    ("htcp", "rtt_scaling = false\nbandwidth_switch = false\nadaptive_above_ms = 1"),
    ("htcp", "beta_min = 0.000001\nbeta_max = 0.9999999999\nthroughput_ratio = 0.0"),
    ("htcp", "delta_l_ms = 4000000000\nrtt_step_ms = 4000000000"),
    ("rough", "queue_quarters = 1\njump_packets = 1\npatience = 1\nprobe_rounds = 1\nsilence_ms = 0"),
    ("rough", "queue_quarters = 4000\npacing_percent = 1000\nrtt_window_ms = 1\nstartup_percent = 100000"),
    ("rough", "max_loss_permille = 1\nfilled_percent = 1\nempty_percent = 0\nloss_percent = 0\nattempt = false"),
    ("rough", "compete = false\nrestart = false\nnoise_percent = 0\ntrain_segments = 1\ntrain_percent = 1000"),
];

/// Least number of occurrences of each event in the streams of all algorithms together.
const WANTED: &[(Occurrence, usize)] = &[
    (Occurrence::Event(EventKind::Ack), 100_000),
    (Occurrence::Event(EventKind::Congestion), 1000),
    (Occurrence::Event(EventKind::Timeout), 100),
    (Occurrence::Event(EventKind::TimeoutAgain), 100),
    (Occurrence::Event(EventKind::Recovered), 1000),
    (Occurrence::Event(EventKind::Undone), 100),
    (Occurrence::Event(EventKind::Started), 500),
    (Occurrence::AckIn(CongestionState::Open), 100_000),
    (Occurrence::AckIn(CongestionState::Disorder), 1000),
    (Occurrence::AckIn(CongestionState::Cwr), 1000),
    (Occurrence::AckIn(CongestionState::Recovery), 1000),
    (Occurrence::AckIn(CongestionState::Loss), 1000),
    (Occurrence::Echo, 1000),
];

/// An event, an ACK in a state of the connection, or an ACK with ECE.
#[derive(Clone, Copy, Debug)]
enum Occurrence {
    Event(EventKind),
    AckIn(CongestionState),
    Echo,
}

impl Occurrence {
    fn is(self, event: &EventRecord) -> bool {
        match self {
            Occurrence::Event(kind) => event.kind == kind,
            Occurrence::Echo => event.ecn_echo,
            Occurrence::AckIn(state) => event.kind == EventKind::Ack && event.state == numbered(state),
        }
    }
}

fn scenario(name: &str, parameters: &Table, rough: &Rough, queue: u32, seed: u64) -> String {
    let Rough { link, tcp, flow } = rough;
    let parameters = toml::Value::Table(parameters.clone());
    format!(
        r#"
seed = {seed}
duration = "120 s"
node = [{{ name = "a" }}, {{ name = "b" }}]
link = [{{ name = "line", between = ["a", "b"], queue = "{queue} pkt", {link} }}]
flow = [{{ name = "flow", from = "a", to = "b", {flow} }}]
[tcp]
stack = "linux"
cc = "recorded"
cc_params = {{ inner = "{name}", params = {parameters} }}
{tcp}
"#
    )
}

/// Simulates `name` in every network and returns at least `n` events, about the same number from each.
fn simulated(name: &str, parameters: &Table, n: usize) -> Vec<EventRecord> {
    let share = n.div_ceil(NETWORKS.len());
    let mut all = Vec::new();
    for (i, rough) in NETWORKS.iter().enumerate() {
        let mut left = share;
        for seed in 1.. {
            let text = scenario(name, parameters, rough, [20, 400, 100][(i + seed as usize) % 3], seed);
            let stream = connection(&text, left.min(share / 2 + 1));
            left -= stream.len();
            all.extend(stream);
            if left == 0 {
                break;
            }
        }
    }
    all
}

/// Returns the first `most` events of the sending end.
fn connection(scenario: &str, most: usize) -> Vec<EventRecord> {
    Recorded::register();
    let (scenario, _) = roughlink_scenario::parse(scenario, "rough", &[], &|_| Err("no files".into()))
        .unwrap_or_else(|e| panic!("{e:?}"));
    let end = scenario.duration;
    let mut network = Network::new(scenario, RunOptions::default()).expect("a path");
    let (mut now, mut events) = (Time::ZERO, Vec::new());
    let mut sender = 0;
    while now < end && events.len() < most {
        now += Time::from_secs(1);
        network.wake(now);
        let more = Recorded::take();
        if now == Time::from_secs(1) {
            // Skip the algorithms of the other end and of an end before its handshake.
            let acks = |connection| more.iter().filter(|e| e.connection == connection && e.acked > 0).count();
            sender = more.iter().map(|e| e.connection).max_by_key(|c| acks(*c)).expect("it begins at once");
        }
        events.extend(more.into_iter().filter(|e| e.connection == sender));
    }
    events.truncate(most);
    events
}

#[derive(Default)]
struct Differences {
    /// Events after which the windows differ by more than the tolerance.
    wrong: usize,
    /// Events after which the windows differ.
    unequal: usize,
    first: String,
    /// Largest difference, and the window in Rust there, segments.
    largest: (u64, u64),
}

fn differences(request: &LoadRequest, stream: &[EventRecord]) -> Differences {
    let mut kernel = InKernel::new(request).unwrap_or_else(|e| panic!("{}: {e:?}", request.name));
    let mut rust = None;
    let mut d = Differences::default();
    for (i, event) in stream.iter().enumerate() {
        if event.kind == EventKind::Opened {
            rust = Some(InRust::new(request, event).expect("the parameters are valid"));
        }
        let after = kernel.play(event).expect("it runs");
        let rust = rust.as_mut().expect("the stream begins with a connection");
        let (there, here) = (after.windows(), rust.take(event));
        // A program that does not pace sets no rate.
        let rate_here = rust.pacing_rate();
        let rate_there = if after.pacing_rate == 0 { rate_here } else { after.pacing_rate };
        if (here, rate_here) != (there, rate_there) {
            if d.unequal == 0 {
                d.first = format!(
                    "event {i}, {event:?}: {here:?} and {rate_here} in Rust, {there:?} and {rate_there} in the kernel"
                );
            }
            d.unequal += 1;
        }
        for (a, b) in [(here.0, there.0), (here.1, there.1)] {
            if a.abs_diff(b) > d.largest.0 {
                d.largest = (a.abs_diff(b), a);
            }
        }
        let pairs = [(here.0, there.0), (here.1, there.1), (rate_here, rate_there)];
        d.wrong += usize::from(!pairs.into_iter().all(|(here, there)| agree(here, there)));
    }
    d
}

/// Compares both implementations on `n` events and returns the counts of the occurrences in `WANTED`.
fn check(name: &str, parameters: &str, n: usize) -> Vec<usize> {
    let request =
        LoadRequest { parameters: parameters.parse().expect("TOML"), ..LoadRequest::new(name).expect("a name") };
    let stream = simulated(name, &request.parameters, n);
    let counts: Vec<_> = WANTED.iter().map(|(what, _)| stream.iter().filter(|e| what.is(e)).count()).collect();
    let d = differences(&request, &stream);
    let (by, of) = d.largest;
    println!("{name} {parameters:?}: {counts:?}, {} windows not the same, at most {by} of {of}", d.unequal);
    assert_eq!(d.wrong, 0, "{name} {parameters:?}: {}", d.first);
    assert!(
        d.unequal == 0 || !EXACT.contains(&name),
        "{name} {parameters:?}: {} windows differ: {}",
        d.unequal,
        d.first
    );
    counts
}

#[test]
fn programs_match_the_simulated_algorithms() {
    println!("{:?}", WANTED.iter().map(|(what, _)| what).collect::<Vec<_>>());
    let mut all = [0; WANTED.len()];
    // Wave has a clock instead of a window: see the next test.
    for entry in ENTRIES.iter().filter(|e| e.program != "wave") {
        for (total, n) in all.iter_mut().zip(check(entry.name, "", 100_000)) {
            *total += n;
        }
    }
    for ((what, least), n) in WANTED.iter().zip(all) {
        assert!(n >= *least, "{what:?} only {n} times: the streams do not show what happens then");
    }
}

/// Wave has a clock instead of a window, so this test compares the interval between bursts. The kernel gives a program
/// only the send time of an ACK's last segment, and none for retransmissions. Simulation has the time of every segment.
/// The difference is largest during a recovery, when the receiver compresses SACKs and one ACK reports several bursts.
#[test]
fn wave_pace_matches_simulation() {
    for rough in NETWORKS.iter().take(3) {
        let text = scenario("wave-fr", &Table::new(), rough, 400, 1);
        let stream = connection(&text, 20_000);
        let mut kernel = InKernel::new(&LoadRequest::new("wave").expect("a name")).expect("it loads");
        let (mut within, mut acks, mut worst, mut worst_in_recovery) = (0, 0, 0.0_f64, 0.0_f64);
        for event in &stream {
            let there = kernel.play(event).expect("it runs").pacing_rate;
            if event.kind == EventKind::Ack {
                acks += 1;
                let ratio = event.pacing_rate as f64 / there as f64;
                let recovery = event.state == numbered(CongestionState::Recovery);
                let worst = if recovery { &mut worst_in_recovery } else { &mut worst };
                *worst = worst.max((ratio - 1.0).abs());
                within += usize::from((ratio - 1.0).abs() < 0.01);
            }
        }
        let found = format!(
            "{}: {within} of {acks} intervals within 1 %, at most {worst:.3}, in recovery {worst_in_recovery:.3}",
            rough.link
        );
        println!("{found}");
        assert!(within * 4 >= acks * 3 && worst < 0.3 && worst_in_recovery < 0.6, "{found}");
    }
}

#[test]
fn programs_follow_their_parameters() {
    for (name, parameters) in VARIANTS {
        check(name, parameters, 20_000);
    }
}
