//! Flows of messages over SCTP: latency, streams and partial reliability.

use roughlink_core::app::messages::MessagesResult;
use roughlink_core::metrics::{FlowResult, RttResult, RunResult};
use roughlink_core::net::{Network, RunOptions};
use roughlink_scenario::parse;
use std::sync::Arc;

/// Runs a flow of messages over 20 Mbit/s and 50 ms, with `loss` in percent from vehicle to control center.
fn run(loss: f64, flow: &str) -> RunResult {
    let text = format!(
        "duration = \"60 s\"\nnode = [{{ name = \"train\" }}, {{ name = \"center\" }}]\n\
         [[link]]\nname = \"l\"\nbetween = [\"train\", \"center\"]\nrate = \"20 Mbit/s\"\ndelay = \"50 ms\"\n\
         noise = {{ kind = \"random\", loss = \"{loss} %\" }}\nasymmetric = {{ noise = {{ kind = \"none\" }} }}\n\
         [[flow]]\nname = \"f\"\nkind = \"messages\"\nfrom = \"train\"\nto = \"center\"\n{flow}"
    );
    let none = |_: &str| Err(String::new());
    let scenario = match parse(&text, "one.toml", &[], &none) {
        Ok((scenario, _)) => scenario,
        Err(e) => panic!("{e}"),
    };
    Network::new(Arc::new(scenario), RunOptions::default()).unwrap().run().unwrap()
}

fn messages(r: &RunResult) -> (&FlowResult, &MessagesResult, RttResult) {
    let f = &r.flows[0];
    let m = f.messages().unwrap();
    (f, m, m.latency_ms.unwrap())
}

#[test]
fn a_message_takes_the_delay_of_the_path() {
    let r = run(0.0, "size = \"200 B\"\ninterval = \"100 ms\"\nstart = \"1 s\"\ncount = 50\n");
    let (f, m, latency) = messages(&r);
    assert_eq!((m.sent, m.delivered, m.abandoned, f.delivered_bytes), (50, 50, 0, 10_000));
    // 248 B at 20 Mbit/s and 50 ms; the messages of the handshake's two round trips wait for its end.
    assert!((latency.min - 50.0992).abs() < 1e-6 && (250.0..251.0).contains(&latency.max), "{latency:?}");
    assert!((latency.p50 / 50.0992 - 1.0).abs() < 0.01);
    assert!(f.completed && (f.end_s.unwrap() - 5.9501).abs() < 0.001, "{:?}", f.end_s);
}

/// A lost message delays only later messages of its stream, and never an unordered message.
#[test]
fn streams_limit_head_of_line_blocking() {
    let latency = |sctp: &str| {
        let flow = format!("size = \"200 B\"\ninterval = \"10 ms\"\ncount = 5000\nsctp = {{ {sctp} }}\n");
        let r = run(2.0, &flow);
        let (_, m, latency) = messages(&r);
        assert_eq!((m.sent, m.delivered), (5000, 5000), "{sctp}");
        latency
    };
    let [one, four, many, unordered] = ["streams = 1", "streams = 4", "streams = 64", "ordered = false"].map(latency);
    assert!(one.mean > 1.1 * four.mean && four.mean > 1.02 * many.mean, "{one:?} {four:?} {many:?}");
    assert!(many.mean < 1.1 * unordered.mean && unordered.p95 < 51.0 && one.p95 > 100.0, "{unordered:?}");
}

/// A message is not sent after its lifetime, so an unordered one arrives at most one one-way delay later.
#[test]
fn a_lifetime_bounds_the_latency() {
    let sctp = "ordered = false, partial_reliability = true, lifetime = \"300 ms\"";
    let flow = format!("size = \"200 B\"\ninterval = \"10 ms\"\ncount = 5000\nsctp = {{ {sctp} }}\n");
    let r = run(10.0, &flow);
    let (f, m, latency) = messages(&r);
    assert!(f.completed && m.abandoned > 0 && m.delivered > 4_500, "{m:?}");
    assert!(m.delivered + m.abandoned >= m.sent && m.delivered <= m.sent, "{m:?}");
    assert!(latency.max < 300.0 + 51.0, "{latency:?}");
    assert!(f.skipped_bytes.unwrap() > 0 && f.skipped_bytes.unwrap() <= 200 * m.abandoned);
}

/// Without retransmissions, each message gets one chance, like a datagram.
#[test]
fn loss_without_retransmissions_equals_that_of_the_link() {
    let sctp = "partial_reliability = true, max_retransmissions = 0, streams = 8";
    let flow = format!("size = \"200 B\"\ninterval = \"10 ms\"\ncount = 5000\nsctp = {{ {sctp} }}\n");
    let r = run(5.0, &flow);
    let (f, m, _) = messages(&r);
    assert!(f.completed && f.retransmits == 0);
    let share = m.delivered as f64 / m.sent as f64;
    assert!((0.94..0.96).contains(&share), "{share}");
}

/// Above the rate of the path, messages with a lifetime are dropped before they leave, and the rest stays fresh.
#[test]
fn stale_messages_are_dropped_for_fresh_ones() {
    let flow = |sctp: &str| format!("size = \"10 kB\"\ninterval = \"2 ms\"\nsctp = {{ rcv_buf = \"1 MB\"{sctp} }}\n");
    let reliable = run(0.0, &flow(""));
    let fresh = run(0.0, &flow(", partial_reliability = true, lifetime = \"500 ms\""));
    let ((late, _, late_ms), (f, m, latency)) = (messages(&reliable), messages(&fresh));
    assert!(late.throughput_mbps.unwrap() > 10.0 && late_ms.p50 > 5_000.0, "{late:?}");
    assert!(f.throughput_mbps.unwrap() > 10.0 && latency.p99 < 900.0, "{f:?}");
    assert_eq!(m.sent, 30_000);
    assert!(m.abandoned > 10_000 && m.delivered + m.abandoned <= m.sent);
}

#[test]
fn a_message_may_be_longer_than_a_packet() {
    let r = run(2.0, "size = \"20 kB\"\ninterval = \"100 ms\"\ncount = 200\nsctp = { streams = 4 }\n");
    let (f, m, _) = messages(&r);
    assert_eq!((m.delivered, f.delivered_bytes, f.completed), (200, 4_000_000, true));
}

/// Messages that waited during an outage are stale afterwards: the next one leaves as soon as coverage is back.
#[test]
fn fresh_messages_leave_when_coverage_returns() {
    let text = "duration = \"200 s\"\nnode = [{ name = \"train\" }, { name = \"center\" }]\n\
                [[link]]\nname = \"l\"\nbetween = [\"train\", \"center\"]\nrate = \"20 Mbit/s\"\ndelay = \"50 ms\"\n\
                timeline = [{ at = \"20 s\", up = false }, { at = \"120 s\", up = true }]\n\
                [[flow]]\nname = \"f\"\nkind = \"messages\"\nfrom = \"train\"\nto = \"center\"\ncc = \"avoca\"\n\
                size = \"10 kB\"\ninterval = \"100 ms\"\n\
                sctp = { partial_reliability = true, lifetime = \"500 ms\", heartbeat_interval = \"0 s\" }\n";
    let (scenario, _) = parse(text, "one.toml", &[], &|_| Err(String::new())).unwrap_or_else(|e| panic!("{e}"));
    let r = Network::new(Arc::new(scenario), RunOptions::default()).unwrap().run().unwrap();
    let (f, m, latency) = messages(&r);
    // 100 s of 200 without coverage.
    assert_eq!(m.sent, 2_000);
    assert!((990..=1_010).contains(&m.delivered) && m.delivered + m.abandoned >= 1_990, "{m:?}");
    assert!(latency.max < 1_500.0 && f.timeouts <= 1, "{latency:?} {f:?}");
}

#[test]
fn lifetime_needs_partial_reliability() {
    let of = |sctp: &str| {
        let text = format!(
            "duration = \"9 s\"\nnode = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[sctp]\nlifetime = \"1 s\"\n\
             [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n\
             [[flow]]\nname = \"f\"\nkind = \"messages\"\nfrom = \"a\"\nto = \"b\"\n\
             size = \"1 B\"\ninterval = \"1 s\"\n{sctp}"
        );
        parse(&text, "one.toml", &[], &|_| Err(String::new())).map(drop).map_err(|e| e.to_string())
    };
    assert_eq!(of("sctp = { partial_reliability = true }\n"), Ok(()));
    assert!(of("").unwrap_err().contains("`lifetime` has no effect"));
}
