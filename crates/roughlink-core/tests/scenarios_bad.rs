//! Faulty scenario files: each fault is reported with its place and a suggestion. One snapshot contains them all.

use proptest::prelude::*;
use roughlink_scenario::Problem;
use std::fmt::Write as _;

const GOOD: &str = r#"name = "good"
duration = "10 s"

[tcp]
stack = "ns3"
cc = "newreno"
mss = "1448 B"

[[node]]
name = "server"
[[node]]
name = "router"
[[node]]
name = "car"

[[link]]
name = "internet"
between = ["server", "router"]
rate = "500 Mbit/s"
delay = "9.1 ms"

[[link]]
name = "plc"
between = ["router", "car"]
rate = "10 Mbit/s"
delay = "0.9 ms"
noise = { kind = "burst", mean = "5 %", length = [1, 4] }

[[flow]]
name = "download"
kind = "bulk"
from = "server"
to = "car"
bytes = "10 MB"
"#;

const NOISE: &str = r#"{ kind = "burst", mean = "5 %", length = [1, 4] }"#;

/// Title, and replacements in the good scenario; a replacement of an empty text is appended at the end.
const CASES: &[(&str, &[(&str, &str)])] = &[
    ("an address that is none", &[("name = \"car\"", "name = \"car\"\nipv4 = \"192.168.7.256\"\nipv6 = \"10.0.0.9\"")]),
    ("an address with a prefix", &[("name = \"car\"", "name = \"car\"\nipv4 = \"192.168.7.2/24\"")]),
    ("an address of a group", &[("name = \"car\"", "name = \"car\"\nipv4 = \"224.0.0.5\"\nipv6 = \"fe80::1\"")]),
    (
        "an address of two nodes",
        &[
            ("name = \"server\"", "name = \"server\"\nipv4 = \"192.168.7.2\"\nipv6 = \"fd00::3\""),
            ("name = \"car\"", "name = \"car\"\nipv4 = \"192.168.7.2\""),
        ],
    ),
    ("not TOML", &[("rate = \"10 Mbit/s\"", "rate = 10 Mbit/s")]),
    ("an open string", &[("name = \"plc\"", "name = \"plc")]),
    ("a key twice", &[("delay = \"0.9 ms\"", "delay = \"0.9 ms\"\ndelay = \"1 ms\"")]),
    ("an unknown key", &[("delay = \"0.9 ms\"", "dealy = \"0.9 ms\"")]),
    ("an unknown key far from all", &[("bytes = \"10 MB\"", "bytes = \"10 MB\"\ncolour = \"red\"")]),
    ("a key that belongs elsewhere", &[("duration = \"10 s\"", "duration = \"10 s\"\ndelayed_ack = 1")]),
    ("an unknown table", &[("[[flow]]", "[[flows]]")]),
    ("an attached interface by IP", &[("name = \"car\"", "name = \"car\"\nlayer = \"ip\"\ninterface = \"eth1\"")]),
    ("a table for a list", &[("[[flow]]", "[flow]")]),
    ("a value for a table", &[(NOISE, "\"5 %\"")]),
    (
        "a value for the table of all flows",
        &[("[tcp]\nstack = \"ns3\"\ncc = \"newreno\"\nmss = \"1448 B\"", "tcp = \"ns3\"")],
    ),
    ("values for tables in noise", &[(NOISE, "{ kind = \"impulse\", cyclic = \"10 ms\" }\nasymmetric = 1")]),
    ("a value for a list of tables", &[(NOISE, "{ kind = \"recorded\", steps = \"1 %\" }")]),
    ("a value for a list", &[("[\"router\", \"car\"]", "\"router\"")]),
    ("a table for a value", &[("delay = \"0.9 ms\"", "delay = { ms = 0.9 }")]),
    ("keys are missing", &[("rate = \"10 Mbit/s\"\ndelay = \"0.9 ms\"\n", ""), ("kind = \"bulk\"\n", "")]),
    ("no duration", &[("duration = \"10 s\"\n", "")]),
    ("no duration at all", &[("duration = \"10 s\"", "duration = \"0 s\"")]),
    ("a duration beyond reason", &[("duration = \"10 s\"", "duration = \"99999999 min\"")]),
    ("no unit", &[("rate = \"10 Mbit/s\"", "rate = 10")]),
    ("no unit of a duration", &[("duration = \"10 s\"", "duration = 180")]),
    ("an algorithm that is known and absent", &[("cc = \"newreno\"", "cc = \"prague\"")]),
    ("a discipline that is known and absent", &[(NOISE, "\"none\"\nqdisc = { kind = \"red\" }")]),
    ("a kind of flow that is known and absent", &[("kind = \"bulk\"", "kind = \"quic\"")]),
    ("a key of noise in a link", &[("delay = \"0.9 ms\"", "delay = \"0.9 ms\"\nloss = \"1 %\"")]),
    ("a policer without a rate", &[(NOISE, "\"none\"\nqdisc = { kind = \"police\", rate = \"0 bit/s\" }")]),
    ("a bit error rate in percent", &[(NOISE, "{ kind = \"ber\", ber = \"1 %\" }")]),
    ("jitter that is all correlated", &[(NOISE, "\"none\"\njitter = \"1 ms\"\ncorrelation = \"100 %\"")]),
    ("no unit, in quotes", &[("delay = \"0.9 ms\"", "delay = \"0.9\"")]),
    ("a unit of something else", &[("delay = \"0.9 ms\"", "delay = \"0.9 Mbit/s\"")]),
    ("tc's or everybody's", &[("rate = \"10 Mbit/s\"", "rate = \"10 mbps\"")]),
    ("bytes per second", &[("rate = \"10 Mbit/s\"", "rate = \"10 MB/s\"")]),
    ("a misspelt unit", &[("delay = \"0.9 ms\"", "delay = \"0.9 msec\"")]),
    ("a negative time", &[("delay = \"0.9 ms\"", "delay = \"-0.9 ms\"")]),
    ("not a number", &[("mean = \"5 %\"", "mean = nan")]),
    ("a share without a percent sign", &[("mean = \"5 %\"", "mean = 0.05")]),
    ("more than all", &[("mean = \"5 %\"", "mean = \"105 %\"")]),
    ("a rate of zero", &[("rate = \"10 Mbit/s\"", "rate = \"0 bit/s\"")]),
    ("a rate beyond reason", &[("rate = \"10 Mbit/s\"", "rate = \"1e9 Gbit/s\"")]),
    ("a delay beyond reason", &[("delay = \"0.9 ms\"", "delay = \"2000 min\"")]),
    ("less than the least", &[("delay = \"0.9 ms\"", "delay = \"0.1 ns\"")]),
    ("too many digits", &[("delay = \"0.9 ms\"", "delay = \"0.99999999999999999999999999999 ms\"")]),
    ("part of a byte", &[("bytes = \"10 MB\"", "bytes = \"1.3 KiB\"")]),
    ("half a packet", &[("delay = \"0.9 ms\"", "delay = \"0.9 ms\"\nqueue = \"1.5 pkt\"")]),
    ("an integer of more than 64 bits", &[("name = \"good\"", "seed = 99999999999999999999")]),
    ("a fraction of more than 64 bits", &[("mean = \"5 %\"", "mean = 1e999")]),
    ("a negative seed", &[("name = \"good\"", "seed = -1")]),
    ("an empty name", &[("name = \"router\"", "name = \"\"")]),
    ("a name twice", &[("name = \"plc\"", "name = \"internet\"")]),
    ("an unknown node", &[("between = [\"router\", \"car\"]", "between = [\"rooter\", \"car\"]")]),
    (
        "no such node, no nodes",
        &[("[[node]]\nname = \"server\"\n[[node]]\nname = \"router\"\n[[node]]\nname = \"car\"\n", "")],
    ),
    ("three ends", &[("[\"router\", \"car\"]", "[\"router\", \"car\", \"server\"]")]),
    ("a link to itself", &[("[\"router\", \"car\"]", "[\"car\", \"car\"]")]),
    ("no way", &[("[\"router\", \"car\"]", "[\"router\", \"server\"]")]),
    ("from here to here", &[("from = \"server\"", "from = \"car\"")]),
    ("nothing to carry", &[("bytes = \"10 MB\"", "bytes = \"0 B\"")]),
    ("an unknown kind of flow", &[("kind = \"bulk\"", "kind = \"bluk\"")]),
    ("a rate for a bulk flow", &[("bytes = \"10 MB\"", "bytes = \"10 MB\"\nrate = \"1 Mbit/s\"")]),
    ("a cbr flow without a rate, with cc", &[("kind = \"bulk\"", "kind = \"cbr\"\ncc = \"newreno\"")]),
    (
        "a cbr flow that cannot be",
        &[(
            "kind = \"bulk\"",
            "kind = \"cbr\"\nrate = \"0 bit/s\"\npacket = \"28 B\"\nstart = \"5 s\"\nstop = \"5 s\"",
        )],
    ),
    ("an unknown stack", &[("stack = \"ns3\"", "stack = \"ns-3\"")]),
    ("an unknown algorithm", &[("cc = \"newreno\"", "cc = \"new-reno\"")]),
    ("an unknown parameter", &[("bytes = \"10 MB\"", "cc_params = { min_sthresh = 3 }")]),
    ("a parameter of the wrong type", &[("bytes = \"10 MB\"", "cc_params = { abc = \"yes\" }")]),
    ("a parameter that makes no sense", &[("bytes = \"10 MB\"", "cc_params = { min_ssthresh = 0 }")]),
    ("cc in the flow's tcp", &[("bytes = \"10 MB\"", "tcp = { cc = \"newreno\" }")]),
    ("HyStart for an algorithm without", &[("bytes = \"10 MB\"", "tcp = { hystart = \"plusplus\" }")]),
    ("HyStart for nobody", &[("mss = \"1448 B\"", "hystart = \"classic\"")]),
    ("no ACKs", &[("mss = \"1448 B\"", "delayed_ack = 0\ninitial_window = 0")]),
    ("a buffer below a segment", &[("mss = \"1448 B\"", "snd_buf = \"1 kB\"")]),
    ("a segment beyond IP", &[("mss = \"1448 B\"", "mss = \"64 KiB\"\nwrite_size = \"0 B\"")]),
    (
        "a segment beyond IPv6",
        &[("mss = \"1448 B\"", "mss = \"65495 B\""), ("kind = \"bulk\"", "kind = \"bulk\"\nip = 6")],
    ),
    ("a floor above the ceiling", &[("mss = \"1448 B\"", "min_rto = \"2 min\"\nsyn_rto = \"0 s\"")]),
    ("a string for a switch", &[("mss = \"1448 B\"", "sack = \"off\"")]),
    ("a number for a switch, a word for a number", &[("mss = \"1448 B\"", "sack = 3\ndelayed_ack = \"two\"")]),
    ("a fraction, a number too large", &[("mss = \"1448 B\"", "delayed_ack = 2.5\ndata_retries = 5000000000")]),
    ("a number for a name", &[("name = \"good\"", "name = 5")]),
    ("a list for a name", &[("name = \"good\"", "name = [\"good\"]")]),
    ("a number in quotes", &[("mss = \"1448 B\"", "delayed_ack = \"2\"")]),
    (
        "an mtu too small, too much framing",
        &[("delay = \"0.9 ms\"", "delay = \"0.9 ms\"\nmtu = \"60 B\"\noverhead = \"2 kB\"")],
    ),
    ("an unknown kind of noise", &[(NOISE, "{ kind = \"brust\", mean = \"5 %\", length = [1, 4] }")]),
    ("a key of other noise", &[(NOISE, "{ kind = \"random\", mean = \"5 %\" }")]),
    ("start and mean", &[(NOISE, "{ kind = \"burst\", mean = \"5 %\", start = \"2 %\", length = [1, 4] }")]),
    ("neither start nor mean", &[(NOISE, "{ kind = \"burst\", length = [1, 4] }")]),
    ("a burst backwards", &[("length = [1, 4]", "length = [4, 1]")]),
    ("a burst of less than one", &[("length = [1, 4]", "length = { geometric = 0.5 }")]),
    ("a burst of something", &[("length = [1, 4]", "length = \"4 pkt\"")]),
    ("a list that falls", &[(NOISE, "{ kind = \"list\", drop = [17, 17] }")]),
    ("a list out of order", &[(NOISE, "{ kind = \"list\", drop = [19, 17, 18, 17] }")]),
    ("a number for a list", &[(NOISE, "{ kind = \"list\", drop = 17 }")]),
    ("a list of something", &[(NOISE, "{ kind = \"list\", drop = [\"first\"] }")]),
    ("an impulse without pulses", &[(NOISE, "{ kind = \"impulse\" }")]),
    (
        "a pulse without end",
        &[(
            NOISE,
            "{ kind = \"impulse\", cyclic = { every = \"10 ms\", length = \"10 ms\" }, \
             asynchronous = { every = \"0 s\" } }",
        )],
    ),
    ("a recording of nothing", &[(NOISE, "{ kind = \"recorded\" }")]),
    ("a recording that is not there", &[(NOISE, "{ kind = \"recorded\", file = \"lamp.csv\" }")]),
    ("a recording of rubbish", &[(NOISE, "{ kind = \"recorded\", file = \"rubbish.csv\" }")]),
    (
        "a recording backwards",
        &[(
            NOISE,
            "{ kind = \"recorded\", steps = [{ at = \"1 s\", loss = \"1 %\" }, { at = \"1 s\", loss = \"2 %\" }] }",
        )],
    ),
    ("a recording without steps", &[(NOISE, "{ kind = \"recorded\", steps = [] }")]),
    ("a step with a hole", &[(NOISE, "{ kind = \"recorded\", steps = [{ at = \"1 s\" }] }")]),
    ("a direction twice", &[(NOISE, TWICE)]),
    (
        "a direction in asymmetric",
        &[(NOISE, "{ kind = \"none\" }\nasymmetric = { noise = { kind = \"none\", direction = \"forward\" } }")],
    ),
    (
        "many at once",
        &[
            ("duration = \"10 s\"", "duration = 10"),
            ("rate = \"500 Mbit/s\"", "rat = \"500 Mbit/s\""),
            ("delay = \"0.9 ms\"", "delay = \"0.9 mms\""),
            ("to = \"car\"", "to = \"cart\""),
            ("cc = \"newreno\"", "cc = \"newreno\"\nsack = 1"),
        ],
    ),
];

/// Noise for both directions, and again for one.
const TWICE: &str = r#"[{ kind = "none" }, { kind = "random", loss = "1 %", direction = "reverse" }]"#;

const NOT_TOML: &[&str] = &[
    "rate = 10 Mbit/s",
    "rate = 10Mbit/s # fast",
    "sack = yes",
    "sack = Off",
    "name = “plc”",
    "name = \"plc",
    "name = 'plc",
    "name = plc\"",
    "name = \"\"\"plc",
    "name = '''plc",
    "name = \"plc\u{1}\"",
    "name = \"C:\\queue\"",
    "name = \"a\"b\"",
    "name \"plc\"",
    "name: \"plc\"",
    "name == \"plc\"",
    "name",
    "name =",
    "= \"plc\"",
    "my key = 1",
    "prénom = 1",
    "[tcp",
    "[[node]",
    "[node]]",
    "[]",
    "[tcp]\n[tcp]",
    "[[node]]\n[node]",
    "seed = 1\nseed = 2",
    "tcp = 1\ntcp.sack = true",
    "seed = 1 name = \"plc\"",
    "seed = 1,",
    "seed = 1;",
    "seed = 1,5",
    "seed = .5",
    "seed = 1.",
    "seed = 01",
    "seed = +-1",
    "sack = True",
    "drop = [1, 2",
    "drop = [1, 2\nseed = 1",
    "drop = [1 2]",
    "drop = [1,, 2]",
    "drop = 1, 2]",
    "noise = { kind = \"none\"",
    "noise = { kind = \"none\" loss = \"1 %\" }",
    "noise = { kind \"none\" }",
    "noise = { kind = }",
    "noise = }",
    "drop = ]",
    "// comment",
    "; comment",
];

/// Invalid overrides of the good scenario.
const OVERRIDES: &[(&str, &str)] = &[
    ("link.plx.rate", "1 Mbit/s"),
    ("link.7.rate", "1 Mbit/s"),
    ("link.plc.raet", "1 Mbit/s"),
    ("lnik.plc.rate", "1 Mbit/s"),
    ("link.plc", "1 Mbit/s"),
    ("link", "1 Mbit/s"),
    ("link.plc.rate.forward", "1 Mbit/s"),
    ("link.plc..rate", "1 Mbit/s"),
    ("", "1"),
    ("link.\"plc.rate", "1"),
    ("gateway.modem.kind", "muniz"),
    ("link.plc.rate", "1 mbps"),
    ("link.plc.rate", "fast"),
    ("flow.download.cc_params.abcd", "1"),
    ("flow.download.kind", "video"),
    ("node.*.colour", "red"),
    ("link.plc.noise.0.start", "1 %"),
    ("link.plc.noise.kind", "random"),
    ("tcp.cc", "newren"),
    ("tcp.stack", "3"),
    ("link.plc.noise", "[{kind=\"random\", loss=\"1 %\"}, {kind=\"none\"}]"),
];

/// Allowed, but probably a mistake.
const WARNINGS: &[(&str, &[(&str, &str)])] = &[
    ("fragments", &[("mss = \"1448 B\"", "mss = \"1460 B\"")]),
    ("datagrams in fragments", &[("kind = \"bulk\"", "kind = \"cbr\"\nrate = \"1 Mbit/s\"\npacket = \"4000 B\"")]),
    ("a node without a link", &[("name = \"car\"", "name = \"car\"\n[[node]]\nname = \"train\"")]),
    (
        "no flow",
        &[("[[flow]]\nname = \"download\"\nkind = \"bulk\"\nfrom = \"server\"\nto = \"car\"\nbytes = \"10 MB\"\n", "")],
    ),
    ("a flow that is late", &[("bytes = \"10 MB\"", "start = \"10 s\"")]),
    ("an algorithm overruled", &[("cc = \"newreno\"", "cc = \"newreno-nd\"\ndelayed_ack = 2")]),
    ("tail loss probes without RACK", &[("cc = \"newreno\"", "cc = \"newreno\"\ntlp = true")]),
    ("no scaling, large buffer", &[("cc = \"newreno\"", "cc = \"newreno\"\nwindow_scaling = false")]),
    ("reorder without jitter", &[("delay = \"0.9 ms\"", "delay = \"0.9 ms\"\nreorder = true")]),
    ("a queue below a packet", &[("delay = \"0.9 ms\"", "delay = \"0.9 ms\"\nqueue = \"1 kB\"")]),
];

fn load(name: &str) -> Result<String, String> {
    match name {
        "rubbish.csv" => Ok("time_s,loss\n0,0.1\n1,2\n".into()),
        _ => Err("there is no such file".into()),
    }
}

fn edited(edits: &[(&str, &str)]) -> String {
    edits.iter().fold(GOOD.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from} is not in the good scenario");
        text.replacen(from, to, 1)
    })
}

/// Asserts that every problem has a suggestion.
fn assert_helpful(problems: &[Problem], of: &str) {
    for p in problems {
        assert!(p.help.as_ref().is_some_and(|help| !help.is_empty()), "no help with `{}` in {of}", p.message);
    }
}

#[test]
fn unmodified_scenario_is_valid() {
    let (_, warnings) = roughlink_scenario::parse(GOOD, "good.toml", &[], &load).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(warnings, [], "{}", warnings[0].render("good.toml", GOOD));
}

#[test]
fn faults_are_explained() {
    let mut all = String::new();
    for (title, edits) in CASES {
        let text = edited(edits);
        let Err(e) = roughlink_scenario::parse(&text, "bad.toml", &[], &load) else { panic!("accepted: {title}") };
        assert!(!e.problems.is_empty(), "{title}");
        assert_helpful(&e.problems, title);
        writeln!(all, "=== {title}\n{e}").unwrap();
    }
    assert!(CASES.len() >= 40);
    insta::assert_snapshot!(all);
}

#[test]
fn invalid_toml_is_explained() {
    let mut all = String::new();
    for line in NOT_TOML {
        let text = format!("duration = \"10 s\"\n{line}\n");
        let Err(e) = roughlink_scenario::parse(&text, "bad.toml", &[], &load) else { panic!("accepted: {line}") };
        assert!(e.problems.iter().all(|p| p.message.starts_with("invalid TOML")), "{line} is TOML");
        assert_helpful(&e.problems, line);
        writeln!(all, "{e}").unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn invalid_overrides_are_explained() {
    let mut all = String::new();
    for (path, value) in OVERRIDES {
        let set = [((*path).to_owned(), (*value).to_owned())];
        let Err(e) = roughlink_scenario::parse(GOOD, "good.toml", &set, &load) else {
            panic!("accepted: {path}={value}")
        };
        assert_helpful(&e.problems, path);
        writeln!(all, "=== {path}={value}\n{e}").unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn warnings_are_pinned() {
    let mut all = String::new();
    for (title, edits) in WARNINGS {
        let text = edited(edits);
        let (_, warnings) =
            roughlink_scenario::parse(&text, "odd.toml", &[], &load).unwrap_or_else(|e| panic!("{title}: {e}"));
        assert!(!warnings.is_empty(), "{title}");
        assert_helpful(&warnings, title);
        writeln!(all, "=== {title}").unwrap();
        for w in &warnings {
            writeln!(all, "{}", w.render("odd.toml", &text)).unwrap();
        }
    }
    insta::assert_snapshot!(all);
}

/// Pieces of scenarios and other texts.
const PIECES: &[&str] = &[
    "[[link]]",
    "[tcp]",
    "[[flow]]",
    "[[node]]",
    "name = ",
    "kind = ",
    "noise = ",
    "\"10 ms\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    "=",
    "\n",
    "\"",
    "'''",
    "\"burst\"",
    "\"cbr\"",
    "1",
    "-1",
    "0.5",
    "nan",
    "inf",
    "true",
    "1979-05-27",
    "a.b.c = ",
    "#",
    "99999999999999999999",
    "\\u0000",
    "é",
    "\u{feff}",
    "\r",
    "[a.b]",
    "cc_params = ",
    "asymmetric = ",
    "\"*\"",
    "0x",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Cuts the good scenario, inserts another piece, and sets a key.
    #[test]
    fn no_text_panics(
        cuts in prop::collection::vec((0..GOOD.len(), 0..40usize, 0..PIECES.len() * 2), 1..4),
        path in "(link|flow|node|tcp)(\\.(plc|download|\\*|0|noise|rate|cc|kind|cc_params|x)){0,3}",
        value in "10 ms|1|\\[\\]|\\{\\}|random|\\PC{0,8}",
        override_it in any::<bool>(),
    ) {
        let mut text = GOOD.to_owned();
        for (at, length, piece) in cuts {
            let start = text.floor_char_boundary(at.min(text.len()));
            let end = text.floor_char_boundary((start + length).min(text.len()));
            text.replace_range(start..end, PIECES.get(piece).unwrap_or(&""));
        }
        let overrides = if override_it { vec![(path, value)] } else { Vec::new() };
        match roughlink_scenario::parse(&text, "mutant.toml", &overrides, &load) {
            Ok((scenario, warnings)) => {
                warnings.iter().for_each(|w| { w.render("mutant.toml", &scenario.source); });
            }
            Err(e) => assert_helpful(&e.problems, &text),
        }
    }

    #[test]
    fn random_text_does_not_panic(text in "\\PC*") {
        if let Err(e) = roughlink_scenario::parse(&text, "noise.toml", &[], &load) {
            assert_helpful(&e.problems, &text);
        }
    }
}

/// The largest integers plus headers must not overflow.
#[test]
fn segment_size_overflow_is_rejected() {
    for size in ["4294967295 B", "18446744073709551615 B"] {
        let error = roughlink_scenario::parse(&edited(&[("1448 B", size)]), "large.toml", &[], &load).unwrap_err();
        assert_helpful(&error.problems, size);
    }
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    const DEEP: usize = 100_000;
    for text in [
        "x = ".to_owned() + &"[".repeat(DEEP),
        "x = ".to_owned() + &"{a=".repeat(DEEP),
        "a.".repeat(DEEP) + "a = 1",
        format!("[{}a]", "a.".repeat(DEEP)),
        format!("[tcp]\ncc_params.{}a = 1", "a.".repeat(DEEP)),
        format!("[tcp.cc_params.{}a]", "a.".repeat(DEEP)),
    ] {
        assert!(roughlink_scenario::parse(&text, "deep.toml", &[], &load).is_err());
        assert!(roughlink_scenario::parse(&text, "deep.toml", &[("seed".into(), "1".into())], &load).is_err());
    }
    for path in ["a.".repeat(DEEP) + "a", "tcp.cc_params.".to_owned() + &"a.".repeat(DEEP) + "a"] {
        assert!(roughlink_scenario::parse(GOOD, "deep.toml", &[(path, "1".into())], &load).is_err());
    }
    let value = "[".repeat(DEEP) + &"]".repeat(DEEP);
    assert!(roughlink_scenario::parse(GOOD, "deep.toml", &[("seed".into(), value)], &load).is_err());
}
