//! HD-PLC links, gateways and calls in scenario files: accepted and rejected input, and results.

use roughlink_core::app::Traffic;
use roughlink_core::app::voip::{Codec, EModel, ReferencePacket, Speech, VoipConfig};
use roughlink_core::link::hdplc::{Channel, Duplex, HdplcConfig};
use roughlink_core::link::noise::AirNoise;
use roughlink_core::link::{Model, SharedConfig};
use roughlink_core::metrics::RunResult;
use roughlink_core::net::{Network, RunOptions};
use roughlink_core::scenario::Scenario;
use roughlink_core::units::{Rate, Time};
use std::fmt::Write as _;

const HOME: &str = r#"duration = "8 s"

[tcp]
stack = "rfc"
cc = "newreno"
snd_buf = "1 MiB"
rcv_buf = "1 MiB"

[[node]]
name = "server"
[[node]]
name = "modem"
[[node]]
name = "house"

[[link]]
name = "internet"
between = ["server", "modem"]
rate = "100 Mbit/s"
delay = "20 ms"

[[link]]
name = "plc"
kind = "hdplc"
between = ["modem", "house"]

[[gateway]]
node = "modem"
kind = "muniz"

[[flow]]
name = "download"
kind = "bulk"
from = "server"
to = "house"

[[flow]]
name = "call"
kind = "voip"
from = "server"
to = "house"
"#;

fn edited(old: &str, new: &str) -> String {
    assert!(HOME.contains(old), "{old}");
    HOME.replacen(old, new, 1)
}

fn parse(text: &str) -> Result<Scenario, String> {
    let load = |name: &str| Err(format!("there is no `{name}`"));
    roughlink_scenario::parse(text, "home.toml", &[], &load).map(|(s, _)| s).map_err(|e| e.to_string())
}

fn run(text: &str) -> RunResult {
    let scenario = parse(text).unwrap();
    Network::new(scenario.clone(), RunOptions::default()).unwrap().run().unwrap()
}

fn config(link: &str) -> HdplcConfig {
    let s =
        parse(&edited("kind = \"hdplc\"\n", &format!("kind = \"hdplc\"\n{link}\n"))).unwrap_or_else(|e| panic!("{e}"));
    match &s.links[1].model {
        Model::Shared(SharedConfig::Hdplc(c)) => (**c).clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_key_of_a_home_power_line_is_accepted() {
    assert_eq!(config(""), HdplcConfig::default());
    let us = Time::from_micros;
    let all = config(
        r#"rate = "20 Mbit/s"
rate_trace = [{ at = "1 s", rate = "10 Mbit/s" }, { at = "2 s", rate = "5 Mbit/s" }]
queue = "100 pkt"
mtu = "1400 B"
noise = { kind = "clean" }
mac = { aggregation = "1 ms", max_sdus = 10, max_air = "5 ms", header = "100 us", rifs = "30 us", ack = "120 us",
        access_gap = "50 us", access_slots = 4, slot = "20 us", sdu_overhead = "14 B", symbol = "0 s",
        transmissions = 3, lifetime = "200 ms", in_order = false, duplex = "half", collisions = true,
        queue_counts_unacknowledged = false, robust_share = "50 %", error_weight = "10 %" }"#,
    );
    let expected = HdplcConfig {
        rate: Rate::from_mbps(20),
        rate_trace: vec![(Time::from_secs(1), Rate::from_mbps(10)), (Time::from_secs(2), Rate::from_mbps(5))],
        mtu: 1400,
        queue: 100,
        queue_counts_unacknowledged: false,
        max_sdus: 10,
        max_air: Time::from_millis(5),
        aggregation: Time::from_millis(1),
        sdu_overhead: 14,
        symbol: Time::ZERO,
        header: us(100),
        rifs: us(30),
        ack: us(120),
        access_gap: us(50),
        access_slots: 4,
        slot: us(20),
        duplex: Duplex::Half,
        collisions: true,
        transmissions: 3,
        lifetime: Time::from_millis(200),
        in_order: false,
        noise: AirNoise::clean(),
        channels: Vec::new(),
        robust_share: 0.5,
        error_weight: 0.1,
    };
    assert_eq!(all, expected);
    assert_eq!(config("mac = { duplex = \"full\" }").duplex, Duplex::Full);
}

#[test]
fn noise_is_scaled_to_the_error_of_the_largest_packets() {
    for (percent, target) in [("1 %", 0.01), ("7 %", 0.07), ("14 %", 0.14)] {
        let c = config(&format!("noise = {{ kind = \"inverter45\", mean = \"{percent}\" }}"));
        assert!((c.sdu_error(1500) - target).abs() < 1e-6, "{}", c.sdu_error(1500));
        assert_eq!(c.noise.impulses.len(), 1);
    }
    for (kind, at_50, at_60) in [
        ("inverter45", AirNoise::inverter45_at(50.0), AirNoise::inverter45()),
        ("stress", AirNoise::stress_at(50.0), AirNoise::stress()),
    ] {
        assert_eq!(config(&format!("noise = {{ kind = \"{kind}\", mains = \"50 Hz\" }}")).noise, at_50);
        assert_eq!(config(&format!("noise = {{ kind = \"{kind}\" }}")).noise, at_60);
    }
}

#[test]
fn calls_accept_their_keys() {
    let voip = |keys: &str| {
        let s = parse(&edited("kind = \"voip\"\n", &format!("kind = \"voip\"\n{keys}\n"))).unwrap();
        match &s.flows[1].traffic {
            Traffic::Voip { config, stop } => (**config, *stop),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(voip(""), (VoipConfig::default(), None));
    let keys = "stop = \"5 s\"\npayload = \"80 B\"\ninterval = \"10 ms\"\njitter_buffer = \"40 ms\"\n\
        reference = \"first\"\nemodel = \"simple\"\nconcealment = true\nwindow = \"2 s\"";
    let speech = Speech { payload: 80, interval: Time::from_millis(10), bpl: 25.1, ..Codec::G711.speech() };
    let expected = VoipConfig {
        speech,
        jitter_buffer: Time::from_millis(40),
        reference: ReferencePacket::First,
        emodel: EModel::Simple,
        window: Time::from_secs(2),
    };
    assert_eq!(voip(keys), (expected, Some(Time::from_secs(5))));
    for (name, codec) in
        [("g711", Codec::G711), ("g729", Codec::G729), ("g723.1", Codec::G7231), ("gsm-efr", Codec::GsmEfr)]
    {
        assert_eq!(voip(&format!("codec = \"{name}\"")).0.speech, codec.speech());
    }
    let own = Speech { payload: 40, ie: 7.0, bpl: 20.5, ..Codec::G729.speech() };
    assert_eq!(voip("codec = \"g729\"\npayload = \"40 B\"\nie = 7\nbpl = 20.5").0.speech, own);
}

#[test]
fn gateway_uses_the_power_line_of_its_node() {
    let s = parse(HOME).unwrap();
    let [g] = &s.gateways[..] else { panic!("{:?}", s.gateways) };
    assert_eq!((g.name.as_str(), g.kind.name, g.node, g.link), ("muniz", "muniz", 1, 1));
    assert!(parse(&edited("kind = \"muniz\"", "kind = \"none\"")).unwrap().gateways.is_empty());
    let named =
        parse(&edited("kind = \"muniz\"", "kind = \"mizutani\"\nname = \"m\"\nparams = { floor = 4 }")).unwrap();
    assert_eq!((named.gateways[0].name.as_str(), named.gateways[0].kind.name), ("m", "mizutani"));
    assert_eq!(named.gateways[0].params["floor"].as_integer(), Some(4));
}

/// Old text, new text, and the expected message.
const BAD: &[(&str, &str)] = &[
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nrate = \"0 bit/s\"\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nmtu = \"67 B\"\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nqueue = \"0 pkt\"\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nqueue = \"100 kB\"\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\ndelay = \"1 ms\"\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\ntimeline = [{ at = \"1 s\", up = false }]\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nmac = { max_sdus = 0 }\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nmac = { max_sdus = 4000000000 }\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nmac = { lifetime = \"0 s\" }\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nprofile = \"hpgp-hs\"\n"),
    ("kind = \"hdplc\"\n", "kind = \"greenphy\"\nnoise = [\"cabel\"]\n"),
    ("kind = \"hdplc\"\n", "kind = \"greenphy\"\nqueue = \"0 pkt\"\nmac = { modem_ring = 0 }\n"),
    ("kind = \"hdplc\"\n", "kind = \"greenphy\"\nmac = { beacon = \"36.5 ms\" }\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nmac = { access_slots = 0 }\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nmac = { access_slots = 70000 }\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nmac = { transmissions = 0 }\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nmac = { transmissions = 256 }\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nmac = { header = \"2 s\" }\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nmac = { sdu_overhead = \"2 kB\" }\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nmac = { cifs = \"1 us\" }\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nmac = { duplex = \"both\" }\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nmac = { duplex = \"full\", collisions = true }\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nmac = { agregation = \"1 ms\" }\n"),
    (
        "kind = \"hdplc\"\n",
        "kind = \"hdplc\"\n\
         rate_trace = [{ at = \"2 s\", rate = \"1 Mbit/s\" }, { at = \"1 s\", rate = \"2 Mbit/s\" }]\n",
    ),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nrate_trace = [{ at = \"2 s\", rate = \"0 bit/s\" }]\n"),
    ("kind = \"hdplc\"\n", "kind = \"hdplc\"\nnoise = { kind = \"random\", loss = \"1 %\" }\n"),
    ("delay = \"20 ms\"\n", "delay = \"20 ms\"\nmac = { max_sdus = 3 }\n"),
    ("kind = \"voip\"\n", "kind = \"voip\"\ncodec = \"g.729\"\n"),
    ("kind = \"voip\"\n", "kind = \"voip\"\ncodec = \"g729\"\nconcealment = true\n"),
    ("kind = \"voip\"\n", "kind = \"voip\"\nconcealment = true\nbpl = 10\n"),
    ("kind = \"voip\"\n", "kind = \"voip\"\nie = 96\nbpl = 0\n"),
    ("kind = \"muniz\"", "kind = \"munitz\""),
    ("kind = \"muniz\"", "kind = \"muniz\"\nparams = { flor = 3 }"),
    ("kind = \"muniz\"", "kind = \"muniz\"\nparams = { floor = 0.5 }"),
    ("kind = \"muniz\"", "kind = \"muniz\"\nparams = { floor = \"2\" }"),
    ("kind = \"muniz\"", "kind = \"muniz\"\nparams = { table = { capacity = -1 } }"),
    ("kind = \"muniz\"", "kind = \"muniz\"\nparams = { table = { capacity = 0 } }"),
    ("kind = \"muniz\"", "kind = \"mizutani\"\nparams = { scheme = \"muniz\" }"),
    ("kind = \"muniz\"", "kind = \"none\"\nparams = { flor = 4 }"),
    ("kind = \"muniz\"", "kind = \"muniz\"\n[[gateway]]\nname = \"second\"\nnode = \"modem\"\nkind = \"mizutani\""),
    ("kind = \"muniz\"", "kind = \"muniz\"\nlink = \"plcc\""),
    ("kind = \"muniz\"", "kind = \"muniz\"\nlink = \"internet\""),
    ("node = \"modem\"\nkind", "node = \"server\"\nkind"),
    ("node = \"modem\"\nkind", "node = \"house\"\nlink = \"internet\"\nkind"),
    ("node = \"modem\"\nkind", "node = \"modm\"\nkind"),
    ("kind = \"muniz\"\n", ""),
    ("kind = \"voip\"\n", "kind = \"voip\"\ninterval = \"0 s\"\n"),
    ("kind = \"voip\"\n", "kind = \"voip\"\ninterval = \"1 ns\"\n"),
    ("kind = \"voip\"\n", "kind = \"voip\"\npayload = \"70 kB\"\n"),
    ("kind = \"voip\"\n", "kind = \"voip\"\nemodel = \"g711\"\n"),
    ("kind = \"voip\"\n", "kind = \"voip\"\nstart = \"2 s\"\nstop = \"1 s\"\n"),
    ("kind = \"voip\"\n", "kind = \"voip\"\nbytes = \"1 MB\"\n"),
];

#[test]
fn faults_are_explained_with_help() {
    let mut shown = String::new();
    for (old, new) in BAD {
        let error = parse(&edited(old, new)).map(|_| ()).expect_err(new);
        assert!(error.contains("= help:"), "{new}\n{error}");
        let _ = writeln!(shown, "=== {}\n{error}", new.replace('\n', " ").trim());
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn lists_without_names_are_addressed_by_number() {
    let load = |name: &str| Err(format!("there is no `{name}`"));
    let set = |path: &str, value: &str| {
        let text =
            edited("kind = \"hdplc\"\n", "kind = \"hdplc\"\nrate_trace = [{ at = \"1 s\", rate = \"9 Mbit/s\" }]\n");
        let overrides = [(path.to_owned(), value.to_owned())];
        roughlink_scenario::parse(&text, "home.toml", &overrides, &load).map(|(s, _)| s).map_err(|e| e.to_string())
    };
    let error = set("link.plc.rate_trace", "[{ at = \"2 s\", rate = \"1 Mbit/s\" }]").map(|_| ()).unwrap_err();
    assert!(error.contains("rate_trace.0.<key>"), "{error}");
    let s = set("link.plc.rate_trace.0.rate", "4 Mbit/s").unwrap();
    let Model::Shared(SharedConfig::Hdplc(c)) = &s.links[1].model else { panic!() };
    assert_eq!(c.rate_at(Time::from_secs(2)), Rate::from_mbps(4));
}

#[test]
fn idle_gateways_are_reported() {
    let load = |name: &str| Err(format!("there is no `{name}`"));
    let warned = |old: &str, new: &str| {
        let text = edited(old, new);
        let (_, warnings) = roughlink_scenario::parse(&text, "home.toml", &[], &load).unwrap_or_else(|e| panic!("{e}"));
        warnings.iter().map(|w| w.render("home.toml", &text)).collect::<String>()
    };
    assert_eq!(warned("kind = \"muniz\"", "kind = \"mizutani\""), "");
    let far = warned("node = \"modem\"\nkind", "node = \"house\"\nkind");
    assert!(far.contains("no TCP flow carries data from `house` over link `plc`"), "{far}");
    assert!(far.contains("node = \"modem\""), "{far}");
    let call = "[[flow]]\nname = \"download\"\nkind = \"bulk\"\nfrom = \"server\"\nto = \"house\"\n";
    let none = warned(call, "");
    assert!(none.contains("has no effect") && none.contains("remove the gateway"), "{none}");
}

/// Downloads compete; a call uses only the bandwidth it needs.
#[test]
fn fairness_counts_only_transfers() {
    let two = HOME.to_owned()
        + "\n[[flow]]\nname = \"second\"\nkind = \"bulk\"\nfrom = \"server\"\nto = \"house\"\nstart = \"4 s\"\n";
    let r = run(&two);
    let [a, call, b] = [0, 1, 2].map(|i| r.flows[i].throughput_mbps.unwrap());
    assert!(call < 0.1 * a && a != b, "{a} {call} {b}");
    assert_eq!(r.jain, Some((a + b) * (a + b) / (2.0 * (a * a + b * b))));
    let one = run(HOME);
    assert_eq!(one.jain, Some(1.0), "one transfer and a call");
    let none = run(&edited("name = \"download\"\nkind = \"bulk\"", "name = \"download\"\nkind = \"voip\""));
    assert_eq!(none.jain, None, "two calls");
}

#[test]
fn results_include_medium_and_gateway() {
    let r = run(HOME);
    let [internet, plc] = &r.links[..] else { panic!("{:?}", r.links) };
    assert_eq!(internet.forward.arq, None);
    let arq = plc.forward.arq.unwrap();
    assert_eq!(arq.blocks, plc.forward.packets + arq.repeats);
    let share = arq.errors as f64 / arq.blocks as f64;
    assert!((0.05..0.1).contains(&share), "inverter45 spoils about 7 %: {share}");
    let [g] = &r.gateways[..] else { panic!("{:?}", r.gateways) };
    assert_eq!((g.kind.as_str(), g.node.as_str(), g.counters.established), ("muniz", "modem", 1));
    let [flow] = &g.flows[..] else { panic!("{:?}", g.flows) };
    let (awnd, sample) = (flow.awnd_sdu.unwrap(), flow.sample_sdu.unwrap());
    assert_eq!((flow.flow.as_str(), flow.rho), ("download", Some(1.0)));
    assert!(flow.rewritten > 1000 && awnd <= sample + 1.0, "{flow:?}");
    let json = serde_json::to_string(&r).unwrap();
    assert_eq!(serde_json::from_str::<RunResult>(&json).unwrap(), r);
    let plain = run(&edited("kind = \"muniz\"", "kind = \"none\""));
    assert!(plain.gateways.is_empty() && !serde_json::to_string(&plain).unwrap().contains("gateways"));
    // The gateway keeps the queue short, which improves the call.
    assert!(plc.forward.queue_max_pkt < plain.links[1].forward.queue_max_pkt / 2);
    let delay = |r: &RunResult| r.flows[1].voip().unwrap()[0].delay_ms.unwrap().p95;
    assert!(delay(&r) < delay(&plain), "{} for {}", delay(&r), delay(&plain));
}

/// The PHY rate halves, and so do the packets that the link carries within an RTT and the bound of the window.
#[test]
fn gateways_follow_rate_changes() {
    let sample = |link: &str| {
        let text = edited("kind = \"hdplc\"\n", &format!("kind = \"hdplc\"\n{link}\n"));
        let r = run(&text.replace("kind = \"muniz\"", "kind = \"muniz\"\nparams = { sample = \"whole\" }"));
        r.gateways[0].flows[0].sample_sdu.unwrap()
    };
    let (full, half) = (sample(""), sample("rate_trace = [{ at = \"4 s\", rate = \"9.31 Mbit/s\" }]"));
    assert!((0.45..0.55).contains(&(half / full)), "{half} of {full}");
    // Frames limited in time carry half as many packets.
    let bounded = "mac = { max_air = \"10 ms\" }\nrate_trace = [{ at = \"4 s\", rate = \"9.31 Mbit/s\" }]";
    let shorter = sample(bounded);
    assert!(shorter < half, "{shorter} of {half}");
}

#[test]
fn components_do_not_change_what_a_gateway_receives() {
    // Another network shifts the numbers of the flows.
    let beside = "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n\
        rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n";
    let flow = "[[flow]]\nname = \"other\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n";
    let text = HOME.replacen("[[gateway]]", &format!("{beside}[[gateway]]"), 1);
    let text = text.replacen("[[flow]]", &format!("{flow}[[flow]]"), 1);
    let scenario = parse(&text).unwrap();
    let [apart, together] = [false, true].map(|one_component| {
        Network::new(scenario.clone(), RunOptions { one_component, ..RunOptions::default() }).unwrap().run().unwrap()
    });
    assert_eq!(apart, together);
    assert_eq!(apart.gateways[0].flows[0].flow, "download");
}

/// Two links share one line, and each carries less than it does alone. A single download does not fill the line, so
/// together they carry more than one link, but less than twice as much. Shares depend on TCP; see the medium's tests.
#[test]
fn links_of_a_home_line_share_it() {
    let line = |cable: &str| {
        let plc = format!("kind = \"hdplc\"\n{cable}");
        let more = format!(
            "\n[[node]]\nname = \"attic\"\n\n[[link]]\nname = \"plc 2\"\n{plc}\nbetween = [\"modem\", \"attic\"]\n\n\
             [[flow]]\nname = \"download 2\"\nkind = \"bulk\"\nfrom = \"server\"\nto = \"attic\"\n"
        );
        let text = edited("kind = \"hdplc\"\n", &format!("{plc}\n"));
        let text = text.replace("[[gateway]]\nnode = \"modem\"\nkind = \"muniz\"\n", "") + &more;
        let r = run(&text);
        ["download", "download 2"].map(|name| r.flows.iter().find(|f| f.name == name).unwrap().throughput_mbps.unwrap())
    };
    let [first, second] = line("cable = \"house\"");
    let [alone, _] = line("");
    assert!(first < 0.8 * alone && second < 0.8 * alone, "{first} and {second}, alone {alone}");
    assert!(first + second > alone && first + second < 1.4 * alone, "{first} and {second}, alone {alone}");
}

#[test]
fn power_line_is_described_once_and_has_one_kind() {
    let two = |second: &str| {
        let more = format!(
            "\n[[node]]\nname = \"attic\"\n\n[[link]]\nname = \"plc 2\"\n{second}\ncable = \"house\"\n\
             between = [\"modem\", \"attic\"]\n"
        );
        parse(
            &(edited("kind = \"hdplc\"\n", "kind = \"hdplc\"\ncable = \"house\"\nqueue = \"100 pkt\"\n")
                .replace("kind = \"muniz\"", "kind = \"muniz\"\nlink = \"plc\"")
                + &more),
        )
    };
    let s = two("kind = \"hdplc\"").unwrap();
    assert!(s.links[1].model == s.links[2].model, "the first describes the medium");
    assert!(two("kind = \"hdplc\"\nqueue = \"50 pkt\"").unwrap_err().contains("two links describe cable"));
    let own = two("kind = \"hdplc\"\nrate = \"6 Mbit/s\"\nnoise = \"none\"").unwrap();
    let Model::Shared(SharedConfig::Hdplc(first)) = &own.links[1].model else { panic!("{:?}", own.links[1].model) };
    let channel = Channel { rate: Rate::from_mbps(6), rate_trace: Vec::new(), noise: AirNoise::default() };
    assert_eq!(first.channels, [first.channel(), channel], "each pair has its own rate and noise");
    assert!(two("kind = \"greenphy\"").unwrap_err().contains("links of two kinds"));
}
