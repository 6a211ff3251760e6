//! Scenario files with a charging cable: resulting values and faults.

use roughlink_core::link::greenphy::{GreenPhyConfig, PriorityClass, Robo};
use roughlink_core::link::noise::AirNoise;
use roughlink_core::link::noise::air::Fading;
use roughlink_core::link::noise::impulses::{Impulses, LengthDistribution, MeasuredClass, TrainForm};
use roughlink_core::link::{Model, SharedConfig};
use roughlink_core::scenario::Scenario;
use roughlink_core::units::Time;
use std::fmt::Write as _;

/// One car, a cable and a transfer; `LINK` is replaced by keys of the cable.
const CABLE: &str = r#"duration = "10 s"
node = [{ name = "secc" }, { name = "evcc" }]

[[link]]
name = "plc"
kind = "greenphy"
between = ["secc", "evcc"]
LINK

[[flow]]
name = "f"
kind = "bulk"
from = "secc"
to = "evcc"
"#;

fn load(name: &str) -> Result<String, String> {
    match name {
        "charger.csv" => Ok("time_s,loss\n0,0.01\n2.5,0.2\n".into()),
        _ => Err("there is no such file".into()),
    }
}

fn read(text: &str) -> Scenario {
    let (s, warnings) = roughlink_scenario::parse(text, "cable.toml", &[], &load).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(warnings, []);
    s
}

fn config(s: &Scenario, link: usize) -> GreenPhyConfig {
    match &s.links[link].model {
        Model::Shared(SharedConfig::GreenPhy(c)) => (**c).clone(),
        other => panic!("{other:?}"),
    }
}

fn cable(link: &str) -> GreenPhyConfig {
    config(&read(&CABLE.replace("LINK", link)), 0)
}

fn noise(layers: &str) -> AirNoise {
    cable(&format!("noise = {layers}")).noise
}

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

#[test]
fn profiles_select_their_robo_mode() {
    assert_eq!(cable(""), GreenPhyConfig::hpgp_hs());
    assert_eq!(cable("profile = \"hpgp-hs\""), GreenPhyConfig::hpgp_hs());
    assert_eq!(cable("profile = \"hpgp-std\""), GreenPhyConfig::hpgp_std());
    assert_eq!(cable("profile = \"hpgp-mini\""), GreenPhyConfig::hpgp_mini());
}

#[test]
fn noise_can_be_given_by_name() {
    for name in ["none", "cable", "clean", "inverter45", "stress", "asynchronous", "mains", "switching", "partitioned"]
    {
        assert_eq!(noise(&format!("\"{name}\"")), noise(&format!("{{ kind = \"{name}\" }}")), "{name}");
    }
    for class in ["heavy", "medium", "weak"] {
        let table = format!("{{ kind = \"measured\", class = \"{class}\" }}");
        assert_eq!(noise(&format!("\"{class}\"")), noise(&table));
    }
    let layers = noise(r#"["cable", { kind = "switching", from = "1 s" }, "weak"]"#);
    assert_eq!(layers.impulses.len(), 3);
    // Without a cable, too.
    let text = CABLE.replace("kind = \"greenphy\"", "rate = \"1 Mbit/s\"\ndelay = \"1 ms\"");
    read(&text.replace("LINK", "asymmetric = { noise = \"none\" }\ntimeline = [{ at = \"1 s\", noise = \"none\" }]"));
    for (bad, message, help) in [
        ("hevy", "unknown noise `hevy`", "did you mean `heavy`?"),
        ("thunderstorm", "unknown noise `thunderstorm`", "or one of the names `none`, `random`"),
        ("fading", "missing key `good` in noise of kind `fading`", "good = \"5 s\""),
        ("recorded", "missing key `steps` or `file` in noise of kind `recorded`", "add steps"),
    ] {
        let text = CABLE.replace("LINK", &format!("noise = \"{bad}\""));
        let e = roughlink_scenario::parse(&text, "cable.toml", &[], &load).expect_err(bad);
        let problem = &e.problems[0];
        assert!(problem.message.contains(message), "{e}");
        assert!(problem.help.as_ref().is_some_and(|h| h.contains(help)), "{e}");
        assert_eq!(&text[problem.labels[0].span.clone()], format!("\"{bad}\""));
    }
}

#[test]
fn overrides_apply_to_noise_in_any_form() {
    let set = |noise: &str, path: &str, value: &str| {
        let text = CABLE.replace("LINK", &format!("noise = {noise} # as measured"));
        let set = [(format!("link.plc.{path}"), value.to_owned())];
        roughlink_scenario::parse(&text, "cable.toml", &set, &load).map(|(s, _)| config(&s, 0).noise)
    };
    let two = r#"[{ kind = "cable" }, { kind = "switching" }]"#;
    for (written, path, value, becomes) in [
        ("\"cable\"", "noise", "heavy", "\"heavy\""),
        (two, "noise", "heavy", "\"heavy\""),
        ("\"cable\"", "noise.mean", "5 %", r#"{ kind = "cable", mean = "5 %" }"#),
        ("\"heavy\"", "noise.hit", "5 %", r#"{ kind = "measured", class = "heavy", hit = "5 %" }"#),
        (r#"["stress"]"#, "noise.mean", "5 %", r#"[{ kind = "stress", mean = "5 %" }]"#),
        (two, "noise.mean", "5 %", r#"[{ kind = "cable", mean = "5 %" }, { kind = "switching" }]"#),
        (two, "noise.every", "1 s", r#"[{ kind = "cable" }, { kind = "switching", every = "1 s" }]"#),
        (r#"["cable", "weak"]"#, "noise.1.kind", "none", r#"[{ kind = "cable" }, { kind = "none" }]"#),
        (
            r#"[{ kind = "cable", mean = "1 %" }, { kind = "clean" }]"#,
            "noise.mean",
            "5 %",
            r#"[{ kind = "cable", mean = "5 %" }, { kind = "clean" }]"#,
        ),
    ] {
        let noise = set(written, path, value).unwrap_or_else(|e| panic!("{written} {path}: {e}"));
        assert_eq!(noise, self::noise(becomes), "{written} {path}");
    }
    for (written, path) in [(r#"["cable", "clean"]"#, "noise.mean"), (r#"["weak", "heavy"]"#, "noise.mean")] {
        let e = set(written, path, "5 %").expect_err(written);
        assert!(e.to_string().contains("`mean` does not identify one table of the list `noise`"), "{e}");
        assert!(e.to_string().contains("noise.0.mean"), "{e}");
    }
}

#[test]
fn every_key_of_the_mac_is_accepted() {
    let us = Time::from_micros;
    let c = cable(
        r#"
        profile = "hpgp-std"
        class = ["ca0", "ca3"]
        queue = "20 pkt"
        mtu = "1600 B"
        noise = { kind = "none" }
        mac = { max_pbs = 1, latency = "2 ms", modem_ring = 4, slot = "36 us", cifs = "101 us", rifs = "160 us",
                delimiter = "111 us", eifs = "3 ms", eifs_after_collision = true, mains = "60 Hz", beacon = "0 s",
                transmissions = 3, lifetime = "40 ms", frame_overhead = "14 B", robust_share = "100 %" }"#,
    );
    let expected = GreenPhyConfig {
        mode: Robo::Std,
        max_pbs: 1,
        mtu: 1600,
        frame_overhead: 14,
        host_queue: 20,
        modem_ring: 4,
        latency: ms(2),
        classes: vec![PriorityClass::Ca0, PriorityClass::Ca3],
        slot: us(36),
        cifs: us(101),
        rifs: us(160),
        delimiter: us(111),
        eifs: ms(3),
        eifs_after_collision: true,
        mains_hz: 60.0,
        beacon: Time::ZERO,
        transmissions: 3,
        lifetime: ms(40),
        noise: AirNoise::default(),
        robust_share: 1.0,
        ..GreenPhyConfig::hpgp_std()
    };
    assert_eq!(c, expected);
    let short = cable("profile = \"hpgp-mini\"\nmac = { max_pbs = 8 }"); // mini has short blocks
    assert_eq!(short, GreenPhyConfig { max_pbs: 8, ..GreenPhyConfig::hpgp_mini() });
}

#[test]
fn named_noise_has_its_parameters() {
    assert_eq!(noise(r#"{ kind = "cable" }"#), AirNoise::cable());
    assert_eq!(noise(r#"{ kind = "clean" }"#), AirNoise::clean());
    assert_eq!(noise(r#"[{ kind = "inverter45" }]"#), AirNoise::inverter45());
    assert_eq!(noise(r#"{ kind = "stress" }"#), AirNoise::stress());
    // A block of HS takes 465 us on air.
    let air = GreenPhyConfig::hpgp_hs().payload_air(1);
    let scaled = noise(r#"{ kind = "inverter45", mean = "2 %" }"#);
    assert!((scaled.expected_error(air, 1.0) - 0.02).abs() < 1e-9);
    for name in ["cable", "clean", "inverter45", "stress"] {
        let worst = noise(&format!("{{ kind = \"{name}\", mean = \"90 %\" }}"));
        assert!((worst.expected_error(air, 1.0) - 0.9).abs() < 1e-6, "{name}");
    }
}

#[test]
fn noise_of_every_kind_is_read() {
    let train = |layer: &str| noise(&format!("{{ {layer} }}")).impulses.remove(0);
    assert_eq!(train(r#"kind = "asynchronous""#), Impulses::asynchronous(5.0));
    assert_eq!(train(r#"kind = "asynchronous", every = "40 ms""#), Impulses::asynchronous(25.0));
    assert_eq!(train(r#"kind = "measured", class = "heavy""#), Impulses::measured(MeasuredClass::Heavy));
    assert_eq!(train(r#"kind = "measured", class = "medium""#), Impulses::measured(MeasuredClass::Medium));
    assert_eq!(train(r#"kind = "measured", class = "weak""#), Impulses::measured(MeasuredClass::Weak));
    assert_eq!(train(r#"kind = "mains""#), Impulses::charging_mains(50.0));
    assert_eq!(train(r#"kind = "mains", mains = "60 Hz""#), Impulses::charging_mains(60.0));
    assert_eq!(train(r#"kind = "partitioned""#), Impulses::partitioned());
    let current = (Time::from_secs(20), Time::from_secs(80));
    assert_eq!(
        train(r#"kind = "switching", every = "2 ms", from = "20 s", until = "80 s""#),
        Impulses::charger_switching(500.0, current)
    );
    insta::assert_debug_snapshot!([
        train(r#"kind = "asynchronous", every = "1 s", width = ["50 us", "1 ms"], harmless = "100 us", hit = "50 %""#),
        train(r#"kind = "mains", width = "1 ms", variation = "50 %", jitter = "0.3 ms", hit = "90 %""#),
        train(r#"kind = "switching", from = "1 s""#),
        train(
            r#"kind = "partitioned", gaps = [{ share = "100 %", mean = "19.6 ms" }],
               widths = [{ share = "75 %", mean = "60 us" }, { share = "25 %", mean = "300 us" }]"#
        ),
        train(r#"kind = "markov-middleton", index = 0.1, memory = 0.98, sample = "1 us""#),
        train(r#"kind = "markov-middleton", index = 1, memory = 0.9, sample = "1 us", harm = ["0 %", "50 %"]"#),
        train(r#"kind = "events", events = [{ at = "2 s", for = "20 ms" }, { at = "9 s", for = "5 ms" }]"#),
    ]);
    let fading = Fading { good: Time::from_secs(5), bad: ms(300), stationary: 0.3 };
    assert_eq!(noise(r#"{ kind = "fading", good = "5 s", bad = "300 ms", loss_bad = "30 %" }"#).fading, Some(fading));
    assert_eq!(noise(r#"{ kind = "stationary", loss = "0.1 %" }"#).stationary, 0.001);
    let recorded = vec![(Time::ZERO, 0.01), (ms(2500), 0.2)];
    assert_eq!(noise(r#"{ kind = "recorded", file = "charger.csv" }"#).recorded, recorded);
}

#[test]
fn noise_layers_combine() {
    let all = noise(
        r#"[{ kind = "cable" }, { kind = "stationary", loss = "1 %" }, { kind = "none" },
            { kind = "asynchronous", every = "1 s", width = "1 ms", harmless = "0 s" },
            { kind = "events", events = [{ at = "2 s", for = "20 ms" }] }]"#,
    );
    assert!((all.stationary - (1.0 - 0.9999 * 0.99)).abs() < 1e-12);
    assert_eq!(all.impulses.len(), 3);
    assert_eq!(all.impulses[0], AirNoise::cable().impulses[0]);
    let long = TrainForm::Poisson { rate: 1.0, length: LengthDistribution::Exponential(ms(1)), harmless: Time::ZERO };
    assert_eq!(all.impulses[1], Impulses::new(long, 1.0));
    assert_eq!(noise(r#"{ kind = "none" }"#), AirNoise::default());
    assert_eq!(noise("[]"), AirNoise::default());
}

/// Two more cars at the first car's cable.
const THREE: &str = r#"duration = "10 s"
node = [{ name = "hub" }, { name = "a" }, { name = "b" }, { name = "c" }]

[[link]]
name = "one"
kind = "greenphy"
between = ["hub", "a"]
cable = "bay"
profile = "hpgp-std"

[[link]]
name = "two"
kind = "greenphy"
between = ["hub", "b"]
cable = "bay"

[[link]]
name = "three"
kind = "greenphy"
between = ["hub", "c"]
cable = "bay"
class = "ca3"

[[flow]]
name = "f"
kind = "bulk"
from = "hub"
to = "c"
"#;

#[test]
fn links_of_a_cable_share_its_medium_but_not_its_classes() {
    let s = read(THREE);
    let classes = vec![
        PriorityClass::Ca1,
        PriorityClass::Ca1,
        PriorityClass::Ca1,
        PriorityClass::Ca1,
        PriorityClass::Ca3,
        PriorityClass::Ca3,
    ];
    assert_eq!(config(&s, 0), GreenPhyConfig { classes, ..GreenPhyConfig::hpgp_std() });
    assert_eq!(config(&s, 2).mode, Robo::Std);
    assert!(s.links.iter().all(|l| l.cable.as_deref() == Some("bay")));
}

#[test]
fn timelines_unplug_the_cable() {
    let s = Time::from_secs;
    let periods = |changes: &str| cable(&format!("timeline = [{changes}]")).unplugged;
    let [first, then] = ["{ at = \"1 s\", up = false, for = \"2 s\" }", "{ at = \"5 s\", up = false }"];
    let last = "{ at = \"9 s\", up = true }";
    assert_eq!(periods(first), [[[s(1), s(3)]]]);
    assert_eq!(periods(&format!("{first}, {then}, {last}")), [[[s(1), s(3)], [s(5), s(9)]]]);
    assert_eq!(periods(&format!("{then}, {{ at = \"6 s\", up = false }}")), [[[s(5), Time::MAX]]]);
    assert_eq!(periods(&format!("{then}, {{ at = \"6 s\", up = false, for = \"1 s\" }}")), [[[s(5), s(7)]]]);
    assert_eq!(periods(last), [[[Time::ZERO; 2]; 0]]);
    // Links of a cable are unplugged one by one.
    let three = THREE.replacen("class", "timeline = [{ at = \"1 s\", up = false }]\nclass", 1);
    let all = read(&three);
    assert_eq!(config(&all, 0).unplugged, [vec![], vec![], vec![[s(1), Time::MAX]]]);
    assert_eq!(config(&all, 2).unplugged, [[[s(1), Time::MAX]]]);
}

#[test]
fn flow_class_overrides_that_of_the_link() {
    let of = |text: &str| read(text).flows[0].priority;
    assert_eq!(of(THREE), None);
    assert_eq!(of(&format!("{THREE}priority = \"ca2\"")), Some(PriorityClass::Ca2));
}

const FAULTS: &[(&str, &str)] = &[
    ("a key of pipes", "rate = \"10 Mbit/s\""),
    ("no such profile", "profile = \"hpgp\""),
    ("a queue of bytes", "queue = \"64 KiB\""),
    ("no such class", "class = \"ca4\""),
    ("three classes", "class = [\"ca1\", \"ca1\", \"ca1\"]"),
    ("an unknown key of the mac", "mac = { latancy = \"2 ms\" }"),
    (
        "a mac that cannot be",
        "mac = { max_pbs = 6, slot = \"0 s\", cifs = \"2 min\", transmissions = 0, frame_overhead = \"2 kB\" }",
    ),
    ("more blocks than the mode of the profile has air time for", "profile = \"hpgp-std\"\nmac = { max_pbs = 5 }"),
    ("a timeline of a pipe", "timeline = [{ at = \"1 s\", rate = \"1 Mbit/s\" }]"),
    (
        "plugs out of order",
        "timeline = [{ at = \"2 s\", up = true, for = \"1 s\" }, { at = \"1 s\", up = false }, { at = \"3 s\" }]",
    ),
    ("a beacon without end", "mac = { beacon = \"39 ms\" }"),
    ("mains of bits", "mac = { mains = \"50 bit/s\" }"),
    (
        "mains as a number, mains of satellites",
        "mac = { mains = 50 }\nnoise = { kind = \"mains\", mains = \"2000 Hz\" }",
    ),
    ("noise of a pipe", "noise = { kind = \"random\", loss = \"1 %\" }"),
    ("bursts of packets", "noise = { kind = \"burst\", mean = \"1 %\", length = [1, 4] }"),
    ("a chain per packet", "noise = { kind = \"gilbert-elliott\", to_bad = \"1 %\", to_good = \"9 %\" }"),
    ("pulses", "noise = { kind = \"impulse\", cyclic = { every = \"10 ms\", length = \"1 ms\" } }"),
    ("a list of packets", "noise = { kind = \"list\", drop = [1] }"),
    ("a direction", "noise = { kind = \"cable\", direction = \"forward\" }"),
    ("a record and more", "noise = [{ kind = \"recorded\", file = \"charger.csv\" }, { kind = \"clean\" }]"),
    (
        "fading twice",
        "noise = [{ kind = \"stress\" }, { kind = \"fading\", good = \"1 s\", bad = \"1 s\", loss_bad = \"1 %\" }]",
    ),
    ("impulses all the time", "noise = { kind = \"asynchronous\", every = \"1 us\" }"),
    ("no impulses", "noise = { kind = \"asynchronous\", width = \"20 us\" }"),
    ("a width backwards", "noise = { kind = \"asynchronous\", width = [\"2 ms\", \"1 ms\"] }"),
    ("half a width", "noise = { kind = \"switching\", width = [\"2 ms\"] }"),
    ("a range at the mains", "noise = { kind = \"mains\", width = [\"1 ms\", \"2 ms\"] }"),
    ("the mains all the time", "noise = { kind = \"mains\", width = \"5 ms\" }"),
    ("measured by somebody", "noise = { kind = \"measured\" }"),
    ("more than all", "noise = { kind = \"partitioned\", gaps = [{ share = \"70 %\", mean = \"15 ms\" }] }"),
    ("no time", "noise = { kind = \"fading\", good = \"0 s\", bad = \"1 s\", loss_bad = \"1 %\" }"),
    (
        "a chain that never leaves",
        "noise = { kind = \"markov-middleton\", index = 0.0, memory = 1, sample = \"1 us\", harm = [\"10 %\"] }",
    ),
    (
        "gaps too short",
        "noise = [{ kind = \"partitioned\", gaps = [{ share = \"100 %\", mean = \"1 ns\" }], \
         widths = [{ share = \"100 %\", mean = \"1 us\" }] }, \
         { kind = \"markov-middleton\", index = 1, memory = 0, sample = \"1 us\" }]",
    ),
    ("an index in words", "noise = { kind = \"markov-middleton\", index = \"low\", memory = 0.9, sample = \"1 us\" }"),
    (
        "events that overlap",
        "noise = { kind = \"events\", events = [{ at = \"2 s\", for = \"1 s\" }, { at = \"3 s\", for = \"1 s\" }] }",
    ),
    ("over before it begins", "noise = { kind = \"switching\", from = \"2 s\", until = \"1 s\" }"),
];

fn faults_of(text: &str, title: &str) -> String {
    let Err(e) = roughlink_scenario::parse(text, "bad.toml", &[], &load) else { panic!("accepted: {title}") };
    for p in &e.problems {
        assert!(p.help.as_ref().is_some_and(|help| !help.is_empty()), "no help with `{}` in {title}", p.message);
    }
    format!("=== {title}\n{e}\n")
}

#[test]
fn faults_are_explained() {
    let mut all = String::new();
    for (title, link) in FAULTS {
        all += &faults_of(&CABLE.replace("LINK", link), title);
    }
    let twice = THREE.replace("name = \"two\"", "name = \"two\"\nprofile = \"hpgp-hs\"");
    write!(all, "{}", faults_of(&twice, "a cable described twice")).unwrap();
    let pipe = CABLE.replace("greenphy", "pipe").replace("LINK", "rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\nNOISE");
    all += &faults_of(&pipe.replace("NOISE", "noise = { kind = \"mains\" }"), "noise of a cable on a pipe");
    all += &faults_of(&pipe.replace("NOISE", "cable = \"bay\""), "a pipe that is a cable");
    let unsaid = pipe.replace("kind = \"pipe\"", "").replace("NOISE", "mac = { rifs = \"30 us\" }");
    all += &faults_of(&unsaid, "a pipe that does not say so with a mac");
    let priority = "priority = \"ca2\"";
    let unsaid = pipe.replace("NOISE", "") + priority;
    all += &faults_of(&unsaid, "a priority that no link knows");
    all += &faults_of(&(CABLE.replace("LINK", "") + "priority = \"high\""), "a priority that no cable knows");
    insta::assert_snapshot!(all);
}
