//! Valid scenario files, and the scenarios they become.

#[path = "common/one_link.rs"]
mod one_link;

use one_link::one_link;
use roughlink_core::app::Traffic;
use roughlink_core::link::noise::{BurstLength, Noise};
use roughlink_core::scenario::{FlowTransport, HostInterface, NodeSpec, Scenario};
use roughlink_core::tcp::{Amount, Buffer, InitialSsthresh, LossRecovery, Stack};
use roughlink_core::units::{QueueLimit, Rate, Time};
use roughlink_scenario::{Warning, schema};

/// The example of the design, without the timeline.
const DESIGN: &str = r#"
name = "One car at a noisy charging cable"
seed = 1
duration = "600 s"                 # hard stop; a run also ends when every sized flow is done

[tcp]                              # defaults for every TCP flow
stack = "ns3"
cc = "newreno"
mss = "1460 B"
snd_buf = "128 KiB"
rcv_buf = "128 KiB"
delayed_ack = 2                    # segments per ACK, 1 = off

[[node]]
name = "sa"
[[node]]
name = "secc"
[[node]]
name = "evcc"

[[link]]
name = "internet"
between = ["sa", "secc"]
rate = "500 Mbit/s"
delay = "0.9 ms"

[[link]]
name = "plc"
between = ["secc", "evcc"]
rate = "10 Mbit/s"
delay = "0.9 ms"
queue = "100 pkt"
noise = { kind = "burst", start = "2 %", length = [1, 4], direction = "forward" }   # or mean = "5 %"

[[flow]]
name = "download"
kind = "bulk"
from = "sa"
to = "evcc"
bytes = "100 MB"
start = "0 s"
cc = "newreno-sc"                  # overrides [tcp].cc
cc_params = { min_ssthresh = 12 }  # parameters of the algorithm
tcp = { delayed_ack = 1 }          # any other [tcp] key, for this flow
"#;

fn set(text: &str, overrides: &[(&str, &str)]) -> (Scenario, Vec<Warning>) {
    let overrides: Vec<_> = overrides.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    roughlink_scenario::parse(text, "test.toml", &overrides, &|name| Err(format!("{name} is not there")))
        .unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn design_example_is_read() {
    let (s, warnings) = set(DESIGN, &[]);
    assert_eq!(s.name, "One car at a noisy charging cable");
    assert_eq!((s.seed, s.duration), (1, Time::from_secs(600)));
    assert_eq!(s.nodes, ["sa", "secc", "evcc"].map(NodeSpec::new));
    assert_eq!(s.links[1].between, (1, 2));
    let plc = &s.links[1].model.as_pipe().unwrap();
    assert_eq!((plc.forward.rate, plc.forward.delay), (Rate::from_mbps(10), Time::from_micros(900)));
    assert_eq!((plc.forward.queue, plc.mtu), (QueueLimit::Packets(100), 1500));
    assert_eq!(plc.forward.noise, Noise::Burst { start: 0.02, length: BurstLength::Uniform(1, 4) });
    assert_eq!(plc.reverse.noise, Noise::None);
    assert_eq!(s.links[0].model.as_pipe().unwrap().forward.queue, QueueLimit::Packets(100));
    let flow = &s.flows[0];
    assert_eq!((flow.from, flow.to, flow.start), (0, 2, Time::ZERO));
    assert_eq!(flow.traffic, Traffic::Bulk { bytes: Some(100_000_000) });
    assert_eq!(
        (flow.tcp().unwrap().stack, flow.tcp().unwrap().delayed_ack, flow.tcp().unwrap().mss),
        (Stack::Ns3, 1, 1460)
    );
    assert_eq!(flow.tcp().unwrap().snd_buf, Buffer::Bytes(131_072));
    assert_eq!(flow.cc().unwrap().name, "newreno-sc");
    assert_eq!(s.source, DESIGN);
    let messages: Vec<String> = warnings.iter().map(|w| w.render("test.toml", DESIGN)).collect();
    insta::assert_snapshot!(messages.join("\n"));
}

fn parse(text: &str) -> Scenario {
    set(text, &[]).0
}

fn small(tcp: &str, link: &str, flow: &str) -> String {
    one_link(tcp, &format!("rate = \"10Mbps\"\ndelay = \"1 ms\"\n{link}"), flow)
}

fn bulk(tcp: &str, flow: &str) -> Scenario {
    parse(&small(tcp, "", &format!("kind = \"bulk\"\n{flow}")))
}

fn link(link: &str) -> roughlink_core::link::PipeConfig {
    let text = small("", link, "kind = \"cbr\"\nrate = \"1 Mbit/s\"");
    parse(&text).links.remove(0).model.as_pipe().unwrap().clone()
}

/// Any node of a scenario can be made a kernel node. A scenario with a kernel node needs no flow.
#[test]
fn nodes_can_be_linux_hosts() {
    let (plain, before) = set(DESIGN, &[]);
    let (hosts, warnings) = set(DESIGN, &[("node.s*.kernel", "true")]);
    let kernels = |s: &Scenario| s.kernels().collect::<Vec<_>>();
    assert_eq!((kernels(&plain), kernels(&hosts), warnings.len()), (vec![], vec![0, 1], before.len()));
    let joined = |overrides| set(DESIGN, overrides).0;
    let ethernet = joined(&[("node.s*.layer", "ethernet"), ("node.secc.kernel", "true")]);
    let interfaces = |s: &Scenario| s.nodes.iter().map(|node| node.interface.clone()).collect::<Vec<_>>();
    assert_eq!(interfaces(&ethernet), [HostInterface::Ethernet, HostInterface::Ethernet, HostInterface::Ip]);
    assert_eq!(kernels(&ethernet).len(), 1, "`layer` alone does not make a kernel node");
    let attached = joined(&[("node.evcc.interface", "eth1")]);
    let node = kernels(&attached)[0];
    assert_eq!(attached.nodes[node].interface, HostInterface::Attached("eth1".into()));
    let unused = DESIGN.split("[[flow]]").next().expect("a beginning");
    assert!(set(unused, &[]).1[0].to_string().contains("the scenario has no flow"));
    assert!(set(unused, &[("node.evcc.kernel", "true")]).1.is_empty());
}

#[test]
fn absent_keys_have_defaults() {
    let s = bulk("cc = \"newreno\"", "");
    assert_eq!((s.name.as_str(), s.seed), ("test", 1));
    assert_eq!(s.flows[0].traffic, Traffic::Bulk { bytes: None });
    assert_eq!((s.flows[0].tcp().unwrap().stack, s.flows[0].tcp().unwrap().snd_buf), (Stack::Linux, Buffer::Auto));
    let pipe = &s.links[0].model.as_pipe().unwrap();
    assert_eq!((pipe.mtu, pipe.forward.queue, pipe.forward.jitter), (1500, QueueLimit::Packets(100), Time::ZERO));
    assert_eq!(pipe.forward, pipe.reverse);
}

#[test]
fn every_tcp_key_is_accepted() {
    let t = bulk(
        r#"
        stack = "rfc"
        cc = "newreno"
        recovery = "prr"
        sack = false
        dsack = true
        compress_sacks = true
        ecn = true
        ecn_echo = "each"
        timestamps = false
        paws = "linux"
        window_scaling = false
        initial_window = 3
        initial_ssthresh = "20 pkt"
        delayed_ack = 4
        delayed_ack_timeout = "100 ms"
        quick_ack = true
        min_rto = "0.3 s"
        rto_floor = "variance"
        rttvar = "linux"
        initial_rto = "2 s"
        max_rto = "1 min"
        syn_rto = "4 s"
        syn_linear_timeouts = 2
        cautious_start = true
        fallback_rto = "5 s"
        reset_back_off = true
        clock_granularity = "10 ms"
        data_retries = 7
        retries_as_time = true
        endless_probes = true
        limited_transmit = false
        impatient = false
        fr_off_until = "last_acked"
        rescue = false
        tlp = true
        undo = true
        nagle = true
        fill_window = true
        fill_retransmissions = true
        timestamp_rtt = true
        smoothed_min_rtt = true
        report_srtt = true
        window_validation = true
        grow_when_limited = true
        cwnd_limited = "last_segment"
        reduce_every_timeout = true
        keep_duplicates = true
        less_careful = true
        count_repaired = true
        sacked_in_flight = true
        write_on_ack = true
        prr_wraps = true
        prr_counts_duplicates = true
        pacing = true
        write_size = "1 KiB"
        partial_writes = true
        snd_buf = "auto"
        rcv_buf = "64 kB"
        mss = "536 B"
        mss_includes_options = false
        "#,
        "",
    )
    .flows
    .remove(0)
    .tcp()
    .unwrap()
    .clone();
    insta::assert_debug_snapshot!(t);
    let unlimited = bulk("cc = \"newreno\"\ninitial_ssthresh = \"64 KiB\"", "tcp.initial_ssthresh = \"unlimited\"");
    assert_eq!(unlimited.flows[0].tcp().unwrap().initial_ssthresh, InitialSsthresh::Unlimited);
    let bytes = bulk("cc = \"newreno\"\ninitial_ssthresh = \"64 KiB\"", "");
    assert_eq!(bytes.flows[0].tcp().unwrap().initial_ssthresh, InitialSsthresh::Amount(Amount::Bytes(65_536)));
    let window = bulk("cc = \"newreno\"\ninitial_ssthresh = \"window\"", "");
    assert_eq!(window.flows[0].tcp().unwrap().initial_ssthresh, InitialSsthresh::Window);
}

#[test]
fn tcp_keys_merge_from_stack_to_algorithm_to_tcp_to_flow() {
    let ack = |tcp: &str, flow: &str| bulk(tcp, flow).flows[0].tcp().unwrap().delayed_ack;
    assert_eq!(ack("cc = \"newreno\"", ""), 2);
    assert_eq!(ack("cc = \"newreno\"\nstack = \"ns2\"", ""), 1);
    assert_eq!(ack("cc = \"newreno-nd\"", ""), 1);
    assert_eq!(ack("cc = \"newreno-nd\"\ndelayed_ack = 3", ""), 3);
    assert_eq!(ack("cc = \"newreno\"\ndelayed_ack = 3", "cc = \"newreno-nd\""), 3);
    assert_eq!(ack("delayed_ack = 3", "cc = \"newreno-nd\"\ntcp = { delayed_ack = 4 }"), 4);
    let stack = bulk("cc = \"newreno\"\nstack = \"ns3\"\nmss = \"1000 B\"", "tcp.stack = \"rfc\"")
        .flows
        .remove(0)
        .tcp()
        .unwrap()
        .clone();
    assert_eq!((stack.stack, stack.recovery, stack.mss), (Stack::Rfc, LossRecovery::Sack, 1000));
}

#[test]
fn reno_uses_reno_recovery_if_newreno_is_built_in() {
    let recovery = |tcp: &str| bulk(tcp, "").flows[0].tcp().unwrap().recovery;
    assert_eq!(recovery("stack = \"ns2\"\ncc = \"newreno\""), LossRecovery::NewReno);
    assert_eq!(recovery("stack = \"ns2\"\ncc = \"reno\""), LossRecovery::Reno);
    assert_eq!(recovery("stack = \"ns2\"\ncc = \"reno\"\nrecovery = \"newreno\""), LossRecovery::NewReno);
    assert_eq!(recovery("stack = \"ns2\"\ncc = \"tahoe\""), LossRecovery::Tahoe);
    assert_eq!(recovery("stack = \"linux\"\ncc = \"reno\""), LossRecovery::Rack);
}

#[test]
fn hystart_applies_to_algorithms_that_have_it() {
    assert_eq!(bulk("", "").flows[0].cc().unwrap().name, "cubic");
    bulk("hystart = \"off\"", "");
    bulk("cc = \"newreno\"", "cc = \"cubic\"\ntcp = { hystart = \"plusplus\" }");
    let text = small("hystart = \"classic\"", "", "kind = \"bulk\"\ncc = \"newreno\"");
    assert!(roughlink_scenario::parse(&text, "t", &[], &|_| Err(String::new())).is_err());
}

#[test]
fn parameters_in_tcp_belong_to_the_algorithm_in_tcp() {
    // The algorithm rejects `min_ssthresh = 0`, so an error shows that it received the parameter.
    let tcp = "cc = \"newreno\"\ncc_params = { min_ssthresh = 0 }";
    let takes = |flow: &str| {
        let text = small(tcp, "", &format!("kind = \"bulk\"\n{flow}"));
        roughlink_scenario::parse(&text, "t", &[], &|_| Err(String::new())).is_err()
    };
    assert!(takes(""));
    assert!(takes("cc = \"newreno\""));
    assert!(!takes("cc = \"newreno-sc\""));
    assert!(!takes("cc_params = { min_ssthresh = 3 }"));
}

#[test]
fn noise_of_every_kind_is_read() {
    let noise = |text: &str| link(&format!("noise = {{ {text} }}")).forward.noise;
    assert_eq!(noise(r#"kind = "none""#), Noise::None);
    assert_eq!(noise(r#"kind = "random", loss = "0.1 %""#), Noise::Random { loss: 0.001 });
    let length = BurstLength::Uniform(1, 4);
    assert_eq!(noise(r#"kind = "burst", mean = "5 %", length = [1, 4]"#), Noise::Burst { start: 0.02, length });
    let length = BurstLength::Geometric(2.5);
    let geometric = r#"kind = "burst", start = "5 %", length = { geometric = 2.5 }"#;
    assert_eq!(noise(geometric), Noise::Burst { start: 0.05, length });
    insta::assert_debug_snapshot!([
        noise(r#"kind = "gilbert-elliott", to_bad = "1 %", to_good = "25 %""#),
        noise(r#"kind = "gilbert-elliott", to_bad = "1 %", to_good = "25 %", loss_good = "0.1 %", loss_bad = "50 %""#),
        noise(r#"kind = "impulse", cyclic = { every = "10 ms", length = "300 us" }, kill = "50 %""#),
        noise(r#"kind = "impulse", asynchronous = { every = "1 s", length = "1 ms" }"#),
        noise(r#"kind = "list", drop = [0, 17, 18]"#),
        noise(r#"kind = "recorded", steps = [{ at = "0 s", loss = "1 %" }, { at = "1.5 s", loss = "100 %" }]"#),
    ]);
    let text = small("", r#"noise = { kind = "recorded", file = "lamp.csv" }"#, "kind = \"cbr\"\nrate = \"1 Mbit/s\"");
    let load =
        |name: &str| if name == "lamp.csv" { Ok("time_s,loss\n0,0.01\n2.5,0.2\n".into()) } else { Err(String::new()) };
    let (recorded, _) = roughlink_scenario::parse(&text, "t", &[], &load).unwrap();
    let steps = vec![(Time::ZERO, 0.01), (Time::from_millis(2500), 0.2)];
    assert_eq!(recorded.links[0].model.as_pipe().unwrap().forward.noise, Noise::Recorded { steps });
}

#[test]
fn noise_affects_both_directions_by_default() {
    let random = |loss| Noise::Random { loss };
    let both = link(r#"noise = { kind = "random", loss = "1 %" }"#);
    assert_eq!((both.forward.noise, both.reverse.noise), (random(0.01), random(0.01)));
    let reverse = link(r#"noise = { kind = "random", loss = "1 %", direction = "reverse" }"#);
    assert_eq!((reverse.forward.noise, reverse.reverse.noise), (Noise::None, random(0.01)));
    let each = link(
        r#"noise = [{ kind = "random", loss = "1 %", direction = "forward" },
                    { kind = "random", loss = "2 %", direction = "reverse" }]"#,
    );
    assert_eq!((each.forward.noise, each.reverse.noise), (random(0.01), random(0.02)));
    let asymmetric =
        link("noise = { kind = \"random\", loss = \"1 %\" }\nasymmetric = { noise = { kind = \"none\" } }");
    assert_eq!((asymmetric.forward.noise, asymmetric.reverse.noise), (random(0.01), Noise::None));
}

#[test]
fn reverse_direction_can_differ() {
    let pipe = link(
        "queue = \"64 KiB\"\njitter = \"1 ms\"\nreorder = true\nmtu = \"1600 B\"\noverhead = \"38 B\"\n\
         asymmetric = { rate = \"1 Mbit/s\", delay = \"30 ms\", queue = \"10 pkt\" }",
    );
    assert_eq!((pipe.forward.rate, pipe.reverse.rate), (Rate::from_mbps(10), Rate::from_mbps(1)));
    assert_eq!((pipe.forward.delay, pipe.reverse.delay), (Time::from_millis(1), Time::from_millis(30)));
    assert_eq!((pipe.forward.queue, pipe.reverse.queue), (QueueLimit::Bytes(65_536), QueueLimit::Packets(10)));
    assert_eq!((pipe.reverse.jitter, pipe.reverse.reorder), (Time::from_millis(1), true));
    assert_eq!((pipe.mtu, pipe.overhead), (1600, 38));
}

#[test]
fn constant_rate_flow_is_read() {
    let text =
        small("", "", "kind = \"cbr\"\nrate = \"64 kbit/s\"\npacket = \"200 B\"\nstart = \"1 s\"\nstop = \"2 s\"");
    let flow = parse(&text).flows.remove(0);
    let (rate, stop) = (Rate(64_000), Some(Time::from_secs(2)));
    assert_eq!(flow.traffic, Traffic::Cbr { rate, packet: 200, bytes: None, stop });
    assert_eq!((flow.cc().is_none(), flow.start), (true, Time::from_secs(1)));
}

#[test]
fn overrides_are_applied() {
    let (s, _) = set(
        DESIGN,
        &[
            ("seed", "7"),
            ("name", "42"),
            ("link.plc.noise.mean", "5 %"),
            ("link.0.delay", "9.1 ms"),
            ("flow.*.cc", "newreno"),
            ("flow.download.cc_params.min_ssthresh", "3"),
            ("flow.download.tcp.delayed_ack", "2"),
            ("tcp.stack", "linux"),
            ("link.internet.noise.kind", "random"),
            ("link.internet.noise.loss", "1 %"),
            ("link.plc.asymmetric.rate", "\"1 Mbit/s\""),
            ("flow.download.bytes", "unlimited"),
        ],
    );
    insta::assert_snapshot!(s.source);
    assert_eq!((s.name.as_str(), s.seed), ("42", 7));
    assert_eq!(s.flows[0].tcp().unwrap().stack, Stack::Linux);
    assert_eq!(
        s.links[1].model.as_pipe().unwrap().forward.noise,
        Noise::Burst { start: 0.02, length: BurstLength::Uniform(1, 4) }
    );
    assert_eq!(s.links[0].model.as_pipe().unwrap().reverse.noise, Noise::Random { loss: 0.01 });
    assert_eq!(format!("{:?}", parse(&s.source)), format!("{s:?}"));
}

#[test]
fn override_of_algorithm_can_include_its_parameters() {
    // The flow's parameters belonged to the other algorithm.
    let (s, _) = set(DESIGN, &[("flow.download.cc", "avoca{rss_threshold=-110, reset = true}")]);
    assert_eq!(s.flows[0].cc().unwrap().name, "avoca");
    assert!(s.source.contains("cc_params = { rss_threshold = -110, reset = true }"), "{}", s.source);
    let (s, _) = set(DESIGN, &[("flow.*.cc", "cubic{}")]);
    assert!(s.flows[0].cc().unwrap().name == "cubic" && !s.source.contains("cc_params"), "{}", s.source);
    let (s, _) = set(DESIGN, &[("tcp.cc", "newreno{min_ssthresh=3}"), ("flow.*.cc", "newreno{}")]);
    assert!(s.source.contains("[tcp]") && s.source.contains("min_ssthresh = 3"), "{}", s.source);
    let wrong = |value: &str| {
        let set = [("flow.*.cc".to_owned(), value.to_owned())];
        roughlink_scenario::parse(DESIGN, "t", &set, &|_| Err("no files".into())).map(|_| ()).unwrap_err().to_string()
    };
    let misspelt = wrong("avoca{rss_treshold=-110}");
    assert!(misspelt.contains("did you mean `rss_threshold`?"), "{misspelt}");
    let open = wrong("avoca{rss_threshold=-110");
    assert!(open.contains("name{key=value,...}"), "{open}");
}

#[test]
fn override_of_kind_drops_keys_of_the_old_kind() {
    let (s, _) = set(DESIGN, &[("link.plc.noise.kind", "random"), ("link.plc.noise.loss", "1 %")]);
    assert_eq!(s.links[1].model.as_pipe().unwrap().forward.noise, Noise::Random { loss: 0.01 });
    assert_eq!(s.links[1].model.as_pipe().unwrap().reverse.noise, Noise::None);
    let (s, _) =
        set(DESIGN, &[("link.plc.noise.kind", "none"), ("flow.download.kind", "cbr"), ("flow.download.rate", "1Mbps")]);
    assert_eq!(s.links[1].model.as_pipe().unwrap().forward.noise, Noise::None);
    assert!(matches!(s.flows[0].traffic, Traffic::Cbr { .. }));
}

#[test]
fn overrides_work_in_either_notation() {
    let text = small("cc = \"newreno\"", "", "kind = \"bulk\"").replace("[tcp]\ncc = \"newreno\"", "");
    let noises = r#"[{ kind = "none", direction = "forward" }, { kind = "none", direction = "reverse" }]"#;
    let (s, _) = set(&text, &[("tcp.cc", "newreno-sc"), ("link.l.noise", noises)]);
    assert_eq!(s.flows[0].cc().unwrap().name, "newreno-sc");
    let (s, _) = set(
        &s.source,
        &[
            ("link.l.noise.1.kind", "random"),
            ("link.l.noise.1.loss", "3 %"),
            ("node.b.name", "c"),
            ("link.l.between", "[\"a\", \"c\"]"),
            ("flow.f.to", "c"),
        ],
    );
    assert_eq!(s.nodes, ["a", "c"].map(NodeSpec::new));
    assert_eq!(s.links[0].model.as_pipe().unwrap().reverse.noise, Noise::Random { loss: 0.03 });
}

#[test]
fn scenario_schema_is_pinned() {
    let mut schema = schema();
    schema["$defs"]["CongestionControl"]["enum"] = "the registry".into();
    insta::assert_json_snapshot!(schema);
}

#[test]
fn valid_scenario_has_no_warnings() {
    let (_, warnings) = set(&small("cc = \"newreno\"", "", "kind = \"bulk\""), &[]);
    assert_eq!(warnings, []);
}

#[expect(clippy::disallowed_methods, reason = "the test reads the shipped files")]
#[test]
fn shipped_scenarios_are_valid() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let mut all = String::new();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "toml")) {
        let name = file.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.starts_with("# "), "{name} does not say what it is");
        let (s, warnings) =
            roughlink_scenario::parse(&text, name, &[], &|f| Err(f.into())).unwrap_or_else(|e| panic!("{e}"));
        all +=
            &format!("{name}: {}, {} nodes, {} links, {} flows\n", s.name, s.nodes.len(), s.links.len(), s.flows.len());
        warnings.iter().for_each(|w| all += &w.render(name, &text));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn single_car_matches_the_v2g_paper() {
    let text = include_str!("../../../scenarios/v2g-one-car.toml");
    let (s, _) = set(text, &[]);
    assert_eq!(
        s.links[0].model.as_pipe().unwrap().forward.delay + s.links[1].model.as_pipe().unwrap().forward.delay,
        Time::from_millis(10)
    );
    assert_eq!(
        s.links[1].model.as_pipe().unwrap().forward.noise,
        Noise::Burst { start: 0.02, length: BurstLength::Uniform(1, 4) }
    );
    assert_eq!(s.links[1].model.as_pipe().unwrap().reverse.noise, Noise::None);
    let tcp = s.flows[0].tcp().unwrap();
    assert_eq!((tcp.stack, tcp.mss, tcp.mss_includes_options, tcp.timestamps), (Stack::Ns3R27, 1460, false, true));
    assert_eq!((tcp.delayed_ack, tcp.snd_buf), (2, Buffer::Bytes(131_072)));
    let (nd, warnings) = set(text, &[("tcp.cc", "newreno-nd"), ("tcp.mss_includes_options", "true")]);
    assert_eq!((nd.flows[0].tcp().unwrap().delayed_ack, warnings), (1, vec![]));
    let cars = include_str!("../../../scenarios/v2g-21-cars.toml");
    let (cars, _) = set(cars, &[("link.segment*.noise.mean", "0.25 %"), ("flow.*.bytes", "1 MB")]);
    assert_eq!(cars.flows.len(), 21);
    for (i, flow) in cars.flows.iter().enumerate() {
        assert_eq!(flow.name, format!("car{}", i + 1));
        assert_eq!(flow.traffic, Traffic::Bulk { bytes: Some(1_000_000) });
    }
    let burst = Noise::Burst { start: 0.001, length: BurstLength::Uniform(1, 4) };
    assert_eq!(cars.links.iter().filter(|l| l.model.as_pipe().unwrap().forward.noise == burst).count(), 7);
}

#[test]
fn sctp_transfer_is_read() {
    let text = |flow: &str| {
        format!(
            "duration = \"60 s\"\nsctp = {{ initial_rto = \"3 s\", payload = \"1400 B\" }}\n\
             node = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
             [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nrate = \"2 Mbit/s\"\ndelay = \"10 ms\"\n\
             noise = {{ kind = \"random\", loss = \"1 %\" }}\n\
             [[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\nbytes = \"2 MB\"\n{flow}"
        )
    };
    let s = parse(&text("transport = \"sctp\"\nsctp = { streams = 4 }"));
    let FlowTransport::Sctp(sctp, _) = &s.flows[0].transport else { panic!("messages use SCTP") };
    assert_eq!((sctp.payload, sctp.streams, sctp.initial_rto), (1400, 4, Time::from_secs(3)));
    assert_eq!(s.flows[0].cc().unwrap().name, "sctp");
    for cc in ["", "cc = \"cubic\"", "cc = \"avoca\"\ncc_params = { inner = \"sctp\" }"] {
        let s = parse(&text(&format!("transport = \"sctp\"\n{cc}")));
        let result = roughlink_core::net::Network::new(s.clone(), Default::default()).unwrap().run().unwrap();
        assert!(result.flows[0].completed, "{cc}: {result:?}");
        assert_eq!(result.flows[0].delivered_bytes, 2_000_000);
        assert_eq!(result.flows[0].skipped_bytes, Some(0));
        assert!(result.flows[0].retransmits > 0 && result.flows[0].rtt_ms.is_some());
    }
    for (flow, said) in [
        ("transport = \"sctp\"\ntcp = { sack = true }", "`tcp` has no effect on a flow over SCTP"),
        ("sctp = { streams = 4 }", "`sctp` has no effect on a flow over TCP"),
        ("transport = \"sctp\"\nsctp = { streams = 0 }", "`streams` must be between 1 and 65535, found 0"),
        ("transport = \"sctp\"\nsctp = { cc = \"cubic\" }", "does not belong in a flow's `sctp` table"),
        ("transport = \"sctp\"\nsctp = { strems = 4 }", "unknown key `strems` in [sctp]"),
        ("transport = \"stcp\"", "unknown value `stcp`"),
        ("transport = \"sctp\"\nsctp = { min_rto = \"90 s\" }", "must not exceed `max_rto`"),
    ] {
        let error = roughlink_scenario::parse(&text(flow), "x", &[], &|_| Err(String::new())).expect_err(flow);
        let problem = &error.problems[0];
        assert!(problem.message.contains(said), "{flow}: {}", problem.message);
        assert!(problem.help.is_some() && !problem.labels.is_empty(), "{flow}");
    }
}

#[test]
fn unused_tcp_keys_are_checked() {
    for (tcp, said) in [
        ("cc = \"cubik\"", "unknown congestion control `cubik`"),
        ("hystart = \"of\"", "unknown value `of`"),
        ("initial_window = 0", "`initial_window` must be at least 1, found 0"),
    ] {
        let text = small(tcp, "", "kind = \"bulk\"\ncc = \"newreno\"\ntcp = { initial_window = 4 }");
        let error = roughlink_scenario::parse(&text, "x", &[], &|_| Err(String::new())).expect_err(tcp);
        let messages: Vec<&str> = error.problems.iter().map(|p| p.message.as_str()).collect();
        assert!(messages.len() == 1 && messages[0].contains(said), "{messages:?}");
    }
}
