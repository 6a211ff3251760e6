//! Tests one-way delays of flows and waiting times in queues against values computed from the link.

#[path = "common/one_link.rs"]
mod one_link;

use one_link::one_link;
use roughlink_core::metrics::{RttResult, RunResult};
use roughlink_core::net::{Network, RunOptions};

const LINK: &str = "rate = \"10 Mbit/s\"\ndelay = \"20 ms\"\nqueue = \"100 pkt\"";
/// Serialization of 1500 B and propagation, ms.
const EMPTY: f64 = 21.2;

fn run(tcp: &str, link: &str, flow: &str) -> RunResult {
    let text = one_link(tcp, link, flow).replace("duration = \"600 s\"", "duration = \"20 s\"");
    let (s, _) = roughlink_scenario::parse(&text, "t", &[], &|_| Err("no files".into())).expect("a valid scenario");
    Network::new(s, RunOptions::default()).expect("a network").run().expect("a result")
}

fn delays(r: &RunResult) -> (RttResult, RttResult) {
    let queue = r.links[0].forward.queue_delay_ms.expect("packets were served");
    (r.flows[0].delay_ms.expect("data arrived"), queue)
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

#[test]
fn datagrams_below_the_link_rate_do_not_queue() {
    let (flow, queue) = delays(&run("", LINK, "kind = \"cbr\"\nrate = \"5 Mbit/s\"\npacket = \"1500 B\""));
    assert!(near(flow.min, EMPTY) && near(flow.max, EMPTY), "{flow:?}");
    assert_eq!((queue.min, queue.max), (0.0, 0.0));
}

/// A window of 40 segments fills a path that holds 35; the rest waits. For SCTP, and TCP with and without timestamps.
#[test]
fn window_above_the_bdp_waits_in_the_queue() {
    let sctp = format!("{LINK}\n[sctp]\nrcv_buf = \"57920 B\"\ncc = \"newreno\"");
    let cases = [
        ("stack = \"rfc\"\nrcv_buf = \"57920 B\"", LINK, "kind = \"bulk\""),
        ("stack = \"rfc\"\nrcv_buf = \"57920 B\"\ntimestamps = false", LINK, "kind = \"bulk\""),
        ("", &sctp, "kind = \"bulk\"\ntransport = \"sctp\""),
    ];
    for (tcp, link, flow) in cases {
        let r = run(tcp, link, flow);
        let (delay, queue) = delays(&r);
        assert!(delay.min > 20.0 && delay.min <= EMPTY, "{delay:?}");
        assert!((delay.max - queue.max - EMPTY).abs() < 0.01, "{delay:?} {queue:?}");
        assert!(queue.p50 > 1.0 && (delay.p50 - queue.p50 - EMPTY).abs() < 0.5, "{delay:?} {queue:?}");
    }
}

#[test]
fn delay_counts_from_the_copy_that_arrived() {
    let lossy = format!("{LINK}\nnoise = {{ kind = \"list\", drop = [30, 31, 60, 200, 201, 202] }}");
    for tcp in ["stack = \"linux\"\nrcv_buf = \"64 KiB\"", "stack = \"ns3\"\nrcv_buf = \"64 KiB\""] {
        let r = run(tcp, &lossy, "kind = \"bulk\"");
        let (delay, queue) = delays(&r);
        assert!(r.flows[0].retransmits >= 4, "{} retransmissions", r.flows[0].retransmits);
        assert!(delay.max < queue.max + EMPTY + 1.0 && delay.min > 20.0, "{delay:?} {queue:?}");
    }
    // Without timestamps, only segments that left once count, even with spurious time-outs.
    let slow = LINK.replace("queue", "asymmetric = { delay = \"400 ms\" }\nqueue");
    let r = run(
        "stack = \"ns2\"\nrcv_buf = \"64 KiB\"\ninitial_rto = \"0.2 s\"\nmax_rto = \"0.3 s\"",
        &slow,
        "kind = \"bulk\"",
    );
    let (delay, _) = delays(&r);
    assert!(r.flows[0].retransmits > 0 && delay.min > 20.0, "{delay:?}");
}

/// Queues of changing links report waiting times, too: from 10 s on, the rate halves and packets wait much longer. A
/// discipline that never marks changes nothing.
#[test]
fn queue_delays_are_measured_for_changing_links_and_qdiscs() {
    let keys = "stack = \"rfc\"\nrcv_buf = \"57920 B\"\nsnd_buf = \"1 MiB\"";
    let steps = format!("{LINK}\ntimeline = {{ steps = [{{ at = \"10 s\", rate = \"5 Mbit/s\" }}] }}");
    let discipline = format!("{LINK}\nqdisc = {{ kind = \"threshold\", at = \"100 pkt\" }}");
    let plain = delays(&run(keys, LINK, "kind = \"bulk\"")).1;
    let changing = delays(&run(keys, &steps, "kind = \"bulk\"")).1;
    let with_discipline = delays(&run(keys, &discipline, "kind = \"bulk\"")).1;
    assert!(changing.max > 5.0 * plain.p50 && changing.min == 0.0, "{plain:?} {changing:?}");
    assert!((with_discipline.p50 - plain.p50).abs() < 0.02 * plain.p50 + 0.1, "{plain:?} {with_discipline:?}");
}
