//! Charging sessions in scenario files: resulting values, faults, and a session over a cable.

use roughlink_core::app::Traffic;
use roughlink_core::app::request::{
    ChargingMode, EndCause, LimitPolicy, Processing, SessionConfig, SessionLimits, SessionOutcome, SessionResult,
    V2gMessage,
};
use roughlink_core::link::jitter::Distribution;
use roughlink_core::net::{Network, RunOptions};
use roughlink_core::scenario::{FlowTransport, Scenario};
use roughlink_core::units::Time;

/// A car at a charger; `FLOW` is replaced by keys of the session.
const SESSION: &str = r#"duration = "60 s"
node = [{ name = "secc" }, { name = "evcc" }]

[[link]]
name = "plc"
kind = "greenphy"
between = ["secc", "evcc"]

[[flow]]
name = "session"
kind = "request"
from = "evcc"
to = "secc"
FLOW
"#;

fn parse(flow: &str) -> Scenario {
    let text = SESSION.replace("FLOW", flow);
    let (s, warnings) =
        roughlink_scenario::parse(&text, "session.toml", &[], &|_| Err("no".into())).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(warnings, []);
    s
}

fn session(flow: &str) -> SessionConfig {
    match parse(flow).flows.remove(0).traffic {
        Traffic::Request { session } => *session,
        other => panic!("{other:?}"),
    }
}

fn run(s: &Scenario) -> SessionResult {
    let mut result = Network::new(s.clone(), RunOptions::default()).expect("there is a path").run().unwrap();
    result.flows.remove(0).session().expect("a session has a result").clone()
}

#[test]
fn absent_keys_have_defaults() {
    assert_eq!(session(""), SessionConfig::dc());
    assert_eq!(session("mode = \"dc\"\npolicy = \"report\""), SessionConfig::dc());
    assert_eq!(session("mode = \"ac\""), SessionConfig::ac());
    assert_eq!(session("mode = \"ac\"\nperiod = \"2 s\"").period, Time::from_secs(2));
}

#[test]
fn every_key_of_a_session_is_accepted() {
    let (ms, s) = (Time::from_millis, Time::from_secs);
    let read = session(
        r#"
        mode = "ac"
        charge = "30 s"
        period = "250 ms"
        pause = "80 ms"
        turnaround = "7 ms"
        turnaround_jitter = "2 ms"
        turnaround_distribution = "normal"
        discovery = false
        service_detail = true
        policy = "abort"
        processing = { authorization = "18 s", charge_parameter_discovery = "4 s", cable_check = "6 s",
                       precharge = "3 s", welding_detection = "1 s" }
        limits = { communication_setup = "21 s", secc_communication_setup = "19 s", ongoing = "61 s",
                   cable_check = "41 s", precharge = "10 s", sequence = "59 s",
                   discovery_period = "200 ms", discovery_tries = 40 }
        messages.current_demand = { request = "100 B", response = "4252 B", timeout = "500 ms", performance = "30 ms" }
        messages.session_stop = { timeout = "3 s", turnaround = "1 s", turnaround_jitter = "0 s",
                                  turnaround_distribution = "pareto" }
        "#,
    );
    let mut expected = SessionConfig {
        mode: ChargingMode::Ac,
        discovery: false,
        service_detail: true,
        period: ms(250),
        pause: ms(80),
        turnaround: ms(7),
        turnaround_jitter: ms(2),
        turnaround_distribution: Distribution::Normal,
        processing: Processing {
            authorization: s(18),
            charge_parameter_discovery: s(4),
            cable_check: s(6),
            precharge: s(3),
            welding_detection: s(1),
        },
        charge: Some(s(30)),
        limits: SessionLimits {
            communication_setup: s(21),
            secc_communication_setup: s(19),
            ongoing: s(61),
            cable_check: s(41),
            precharge: s(10),
            sequence: s(59),
            discovery_period: ms(200),
            discovery_tries: 40,
        },
        policy: LimitPolicy::Abort,
        ..SessionConfig::dc()
    };
    let demand = expected.message_mut(V2gMessage::CurrentDemand);
    (demand.request, demand.response, demand.timeout, demand.performance) = (100, 4252, ms(500), ms(30));
    let stop = expected.message_mut(V2gMessage::SessionStop);
    (stop.timeout, stop.turnaround, stop.turnaround_jitter) = (s(3), Some(s(1)), Some(s(0)));
    stop.turnaround_distribution = Some(Distribution::Pareto);
    assert_eq!(read, expected);
}

#[test]
fn each_message_has_its_own_keys() {
    let names = [
        "supported_app_protocol",
        "session_setup",
        "service_discovery",
        "service_detail",
        "payment_service_selection",
        "authorization",
        "charge_parameter_discovery",
        "cable_check",
        "precharge",
        "power_delivery",
        "current_demand",
        "charging_status",
        "welding_detection",
        "session_stop",
    ];
    for (name, message) in names.into_iter().zip(V2gMessage::ALL) {
        let mut expected = SessionConfig::dc();
        expected.message_mut(message).request = 999;
        assert_eq!(session(&format!("messages.{name}.request = \"999 B\"")), expected, "{name}");
    }
}

#[test]
fn session_accepts_the_tcp_keys_of_a_transfer() {
    // Options offered by a real car: MSS 350, window 1500, no others.
    let flow = parse(
        "cc = \"newreno\"\ntcp = { stack = \"rfc\", mss = \"350 B\", rcv_buf = \"1500 B\", window_scaling = false, \
         sack = false, timestamps = false }",
    )
    .flows
    .remove(0);
    assert_eq!((&*flow.cc().unwrap().name, flow.tcp().unwrap().mss, flow.tcp().unwrap().sack), ("newreno", 350, false));
}

#[test]
fn session_over_a_quiet_cable_meets_its_limits() {
    let mut s = parse("charge = \"10 s\"");
    let result = run(&s);
    assert_eq!((result.outcome, result.survived), (SessionOutcome::Completed, true));
    assert!(result.violations.is_empty(), "{result:?}");
    let demand = result.messages.iter().find(|m| m.message == V2gMessage::CurrentDemand).unwrap();
    assert!((100..=101).contains(&demand.count), "{demand:?}");
    // Two crossings of about 2.5 ms, and 10 ms at the charger.
    let latency = demand.latency_ms.unwrap();
    assert!((14.0..17.0).contains(&latency.p50), "{latency:?}");

    // Half a second of noise: a request is retransmitted after it, too late.
    let noisy = "noise = [{ kind = \"cable\" }, { kind = \"events\", events = [{ at = \"12 s\", for = \"510 ms\" }] }]";
    let text = SESSION
        .replace("FLOW", "charge = \"10 s\"")
        .replace("kind = \"greenphy\"", &format!("kind = \"greenphy\"\n{noisy}"));
    s = roughlink_scenario::parse(&text, "t", &[], &|_| Err(String::new())).unwrap().0;
    let result = run(&s);
    assert!(result.survived);
    assert_eq!(result.violations.keys().collect::<Vec<_>>(), [&EndCause::Message]);
    let policy = [("flow.session.policy".to_owned(), "abort".to_owned())];
    s = roughlink_scenario::parse(&text, "t", &policy, &|_| Err(String::new())).unwrap().0;
    let aborted = run(&s);
    assert_eq!((aborted.outcome, aborted.cause), (SessionOutcome::Aborted, Some(EndCause::Message)));
    assert_eq!(aborted.end_s, result.first_violation_s);
}

/// A message larger than the send buffer waits for room.
#[test]
fn messages_may_exceed_the_send_buffer() {
    let small = "charge = \"1 s\"\ntcp = { stack = \"rfc\", snd_buf = \"4 kB\" }\n\
                 messages.session_setup.response = \"9 kB\"";
    let result = run(&parse(small));
    assert_eq!((result.outcome, result.survived), (SessionOutcome::Completed, true), "{result:?}");
}

/// Each flow needs a transport that can carry its traffic.
#[test]
#[should_panic(expected = "a transport that can carry its traffic")]
fn sessions_need_tcp() {
    let mut s = parse("");
    s.flows[0].transport = FlowTransport::Udp;
    let _ = Network::new(s, RunOptions::default());
}

/// Sessions use IPv6 by default, transfers IPv4; packets differ by 20 bytes.
#[test]
fn ip_version_determines_the_packet_size() {
    let of = |kind: &str, keys: &str| {
        let text = SESSION.replace("request", kind).replace("FLOW", keys);
        let s = roughlink_scenario::parse(&text, "t", &[], &|_| Err(String::new())).unwrap_or_else(|e| panic!("{e}")).0;
        let result = Network::new(s.clone(), RunOptions::default()).unwrap().run().unwrap();
        assert!(result.flows[0].delivered_bytes > 3000);
        // The charger's answers, or the ACKs of a transfer.
        let d = &result.links[0].forward;
        (s.flows[0].ipv6, s.flows[0].tcp().unwrap().mss, d.packets, d.bytes)
    };
    let (six, four) = (of("request", "charge = \"5 s\""), of("request", "charge = \"5 s\"\nip = 4"));
    assert_eq!((six.0, six.1, four.0, four.1), (true, 1440, false, 1460));
    assert_eq!(of("request", "charge = \"5 s\"\nip = 6"), six);
    assert_eq!((six.2, six.3), (four.2, four.3 + 20 * four.2));
    let (six, four) = (of("bulk", "bytes = \"30 kB\"\nip = 6"), of("bulk", "bytes = \"30 kB\""));
    assert_eq!((six.0, six.1, four.0, four.1), (true, 1440, false, 1460));
    let four = of("bulk", "bytes = \"30 kB\"\ntcp.mss = \"1440 B\""); // as many segments
    assert_eq!((six.2, six.3), (four.2, four.3 + 20 * four.2));
    // A long answer takes one segment of three fragments and one short segment. IPv6 packets have 40 bytes of header,
    // and 8 more in each fragment (RFC 8200 section 4.5); IPv4 packets have 20.
    let long = "charge = \"5 s\"\ntcp.mss = \"3000 B\"\nmessages.session_setup.response = \"3900 B\"\n";
    let (six, four) = (of("request", long), of("request", &format!("{long}ip = 4")));
    assert_eq!((six.1, six.2, six.3), (3000, four.2, four.3 + 20 * four.2 + 8 * 3));
}

/// A download fills the charger's queue, where the charger's answers wait. A higher priority for the answers lets them
/// pass, and so does a lower one for the download. The flow's priority overrides the link's.
#[test]
fn priority_protects_messages_from_a_download() {
    let download = "
        [[flow]]
        name = \"firmware\"
        kind = \"bulk\"
        from = \"secc\"
        to = \"evcc\"";
    let text = SESSION.replace("FLOW", "charge = \"10 s\"") + download;
    let p99 = |overrides: &[(&str, &str)]| {
        let overrides: Vec<_> = overrides.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let s = roughlink_scenario::parse(&text, "t", &overrides, &|_| Err(String::new()))
            .unwrap_or_else(|e| panic!("{e}"))
            .0;
        let mut result = Network::new(s.clone(), RunOptions::default()).unwrap().run().unwrap();
        assert!(result.flows[1].throughput_mbps > Some(5.0), "{:?}", result.flows[1]);
        let demand = result.flows.remove(0).session().unwrap().charging_loop().copied().unwrap();
        demand.latency_ms.unwrap().p99
    };
    let (without, alone) = (p99(&[]), 17.0);
    assert!(without > 100.0, "{without}");
    for priority in [("flow.session.priority", "ca2"), ("flow.firmware.priority", "ca0")] {
        let protected = p99(&[priority]);
        assert!(protected < alone + 10.0, "{protected} with {priority:?}"); // one or two exchanges in progress
        assert_eq!(p99(&[priority, ("link.plc.class", "ca1")]), protected);
    }
    assert!(p99(&[("flow.session.priority", "ca3"), ("flow.firmware.priority", "ca3")]) > 100.0);
    assert!(p99(&[("link.plc.class", "ca3")]) > 100.0);
}

const FAULTS: &[(&str, &str)] = &[
    ("keys of a transfer", "bytes = \"1 MB\"\ntransport = \"sctp\""),
    ("a mode of neither", "mode = \"wireless\""),
    ("a policy of neither", "policy = \"retry\""),
    ("nobody asks", "limits = { discovery_tries = 0 }"),
    ("somebody asks without end", "limits = { discovery_period = \"0 s\", discovery_tries = 4000000000 }"),
    ("a message that is none", "messages = { current_demands = { request = \"10 B\" } }"),
    (
        "messages of nothing and of everything",
        "messages = { current_demand = { request = \"0 B\", response = \"1 GB\" } }",
    ),
    ("limits as a time", "limits = \"20 s\""),
    ("an IP version of the past", "ip = 5"),
    ("processing of something", "processing = { session_setup = \"1 s\" }"),
];

#[test]
fn faults_are_explained() {
    let mut all = String::new();
    for (title, flow) in FAULTS {
        let text = SESSION.replace("FLOW", flow);
        let Err(e) = roughlink_scenario::parse(&text, "bad.toml", &[], &|_| Err(String::new())) else {
            panic!("accepted: {title}")
        };
        assert!(e.problems.iter().all(|p| p.help.as_ref().is_some_and(|help| !help.is_empty())), "no help: {title}");
        all += &format!("=== {title}\n{e}\n");
    }
    insta::assert_snapshot!(all);
}
