//! Queue disciplines and ECN in whole networks, from the keys of a scenario to the counters.

use roughlink_core::metrics::RunResult;
use roughlink_core::net::{Network, Observer, RunOptions};
use roughlink_core::packet::{Ecn, FlowId, Packet};
use roughlink_core::units::Time;
use roughlink_core::wire::{self, Addresses, Datagram, IpPair};
use std::fmt::Write as _;

/// Returns a scenario with two nodes and a link with `keys`, `flows` of (name, keys), and `[tcp]`.
fn text(tcp: &str, link: &str, flows: &[(&str, &str)]) -> String {
    let mut text = format!(
        "duration = \"20 s\"\nseed = 3\n[tcp]\n{tcp}\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n\
         [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n{link}\n"
    );
    for (name, keys) in flows {
        let _ = writeln!(text, "[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\n{keys}");
    }
    text
}

const PIPE: &str = "rate = \"10 Mbit/s\"\ndelay = \"20 ms\"\nqueue = \"500 pkt\"\n";
const BULK: &str = "kind = \"bulk\"";

fn network(text: &str) -> Network {
    let (s, _) =
        roughlink_scenario::parse(text, "t", &[], &|_| Err("no files".into())).unwrap_or_else(|e| panic!("{e}"));
    Network::new(s, RunOptions::default()).unwrap()
}

fn run(text: &str) -> RunResult {
    network(text).run().unwrap()
}

fn refused(text: &str) -> String {
    let refused = roughlink_scenario::parse(text, "t", &[], &|_| Err("no files".into()));
    refused.map(|_| ()).expect_err("is refused").to_string()
}

/// A transfer completes just before the link goes down. Retransmissions and acknowledgments wait until it is up again.
#[test]
fn mean_queue_covers_packets_that_wait_after_the_last_completion() {
    for qdisc in ["", "qdisc = { kind = \"codel\" }\n"] {
        let link = "rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
                    timeline = { policy = \"keep\", steps = [{ at = \"25 ms\", for = \"15 s\", up = false }] }\n";
        let result = run(&text("", &format!("{link}{qdisc}"), &[("f", "kind = \"bulk\"\nbytes = \"1 kB\"")]));
        assert!(result.sim_s < 0.04, "{}", result.sim_s);
        for d in [&result.links[0].forward, &result.links[0].reverse] {
            let waited_s = d.queue_delay_ms.as_ref().unwrap().mean * 1e-3 * d.packets as f64;
            // The last packet leaves the queue milliseconds after the outage.
            assert!((d.queue_mean_pkt / (waited_s / 15.025) - 1.0).abs() < 0.002, "{d:?}");
            assert!(d.queue_mean_pkt > 1.0 && d.queue_mean_pkt <= f64::from(d.queue_max_pkt), "{d:?}");
        }
    }
}

#[test]
fn ecn_packets_are_marked_instead_of_dropped() {
    for stack in ["linux", "rfc", "ns3"] {
        for (kind, ecn) in [("codel", ", ecn = true"), ("fq_codel", ""), ("threshold", ", at = \"30 pkt\"")] {
            let link = format!("{PIPE}qdisc = {{ kind = \"{kind}\"{ecn} }}");
            let tcp = |ecn: bool| {
                format!("stack = \"{stack}\"\ncc = \"newreno\"\necn = {ecn}\nrcv_buf = \"4 MiB\"\nsnd_buf = \"4 MiB\"")
            };
            let with = run(&text(&tcp(true), &link, &[("f", BULK)]));
            let forward = &with.links[0].forward;
            let queue = forward.qdisc.expect("there is one");
            assert!(queue.marked > 0, "{stack} {kind}");
            assert_eq!((forward.dropped, queue.dropped, with.flows[0].retransmits), (0, 0, 0), "{stack} {kind}");
            assert!(with.flows[0].throughput_mbps.unwrap() > 7.0, "{stack} {kind}");
            let without = run(&text(&tcp(false), &link, &[("f", BULK)]));
            let queue = without.links[0].forward.qdisc.expect("there is one");
            assert_eq!((queue.marked, without.links[0].forward.dropped), (0, queue.dropped), "{stack} {kind}");
            assert!(queue.dropped > 0 && without.flows[0].retransmits > 0, "{stack} {kind}");
        }
    }
}

/// Only the first segment after a reduction carries CWR. Observed segments leave one by one, others together.
#[test]
fn marks_of_segments_that_leave_together_differ() {
    struct Blind;
    impl Observer for Blind {}
    for stack in ["linux", "rfc", "ns3"] {
        let tcp = format!("stack = \"{stack}\"\ncc = \"newreno\"\necn = true");
        let text = text(&tcp, &format!("{PIPE}qdisc = {{ kind = \"codel\", ecn = true }}"), &[("f", BULK)]);
        let json = |result: RunResult| serde_json::to_string(&result).unwrap();
        let observed = network(&text).observed_by(Blind).run().unwrap();
        assert_eq!(json(run(&text)), json(observed), "{stack}");
    }
}

#[test]
fn a_call_does_not_wait_behind_downloads() {
    let delay = |qdisc: &str, call: &str| {
        let link = format!("{PIPE}{qdisc}");
        let call = format!("kind = \"voip\"\n{call}");
        let r = run(&text("stack = \"linux\"", &link, &[("f", BULK), ("g", BULK), ("call", &call)]));
        r.flows[2].voip().unwrap()[0].delay_ms.unwrap().p95
    };
    let plain = delay("", "");
    let fair = delay("qdisc = { kind = \"fq_codel\" }", "");
    assert!(fair < plain / 3.0, "{fair} {plain}");
    let prio = "qdisc = { kind = \"prio\", first = [\"ef\"] }";
    let (marked, unmarked) = (delay(prio, "dscp = \"ef\""), delay(prio, ""));
    assert!(marked < plain / 3.0 && unmarked > plain / 2.0, "{marked} {unmarked} {plain}");
}

#[test]
fn results_without_a_discipline_omit_it() {
    let r = run(&text("", PIPE, &[("f", BULK)]));
    assert!(r.links[0].forward.qdisc.is_none());
}

#[test]
fn keys_without_effect_are_refused() {
    for (link, part) in [
        ("kind = \"hdplc\"\nqdisc = { kind = \"codel\" }".to_owned(), "qdisc"),
        ("kind = \"greenphy\"\nqdisc = { kind = \"codel\" }".to_owned(), "qdisc"),
        (format!("{PIPE}qdisc = {{ kind = \"codel\", bands = 3 }}"), "bands"),
        (format!("{PIPE}qdisc = {{ kind = \"threshold\" }}"), "at"),
        (format!("{PIPE}qdisc = {{ kind = \"prio\", bands = 17 }}"), "bands"),
        (format!("{PIPE}qdisc = {{ kind = \"fq_codel\", quantum = \"10 B\" }}"), "quantum"),
        (format!("{PIPE}qdisc = {{ kind = \"codel\", target = \"0 s\" }}"), "target"),
        (format!("{PIPE}qdisc = {{ kind = \"prio\", first = [\"best\"] }}"), "DSCP"),
        (format!("{PIPE}qdisc = {{ kind = \"fair\" }}"), "fq_codel"),
    ] {
        let said = refused(&text("", &link, &[("f", BULK)]));
        assert!(said.contains(part), "{link}: {said}");
    }
    assert!(refused(&text("", PIPE, &[("f", "kind = \"bulk\"\ndscp = 64")])).contains("DSCP"));
}

/// Marking a datagram from a port changes only its ECN field and the checksum that covers it.
#[test]
fn a_datagram_from_outside_is_marked_in_place() {
    let link =
        "rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\nmtu = \"576 B\"\nqdisc = { kind = \"threshold\", at = \"1 pkt\" }";
    let ip = IpPair::V4 { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
    let addresses = Addresses { ip, src_port: 7, dst_port: 9 };
    let (s, _) = roughlink_scenario::parse(&text("", link, &[]), "t", &[], &|_| Err("no files".into())).unwrap();
    for (ecn, size) in [(Ecn::Ect0, 100), (Ecn::Ect1, 1500), (Ecn::NotEct, 100)] {
        let mut network = Network::new(s.clone(), RunOptions { ports: vec![0, 1], ..RunOptions::default() }).unwrap();
        let mut p = Packet::udp(FlowId::new(0, false), 0, size, Time::ZERO);
        p.set_dscp(46);
        let write = |p: &Packet| {
            let mut bytes = Vec::new();
            wire::encode(p, None, &addresses, &vec![5; usize::from(size)], &mut bytes).unwrap();
            bytes
        };
        p.set_ecn(ecn);
        // The first is served immediately, the second waits alone; each further one finds one waiting.
        (0..4).for_each(|_| network.receive(Time::ZERO, 0, &Datagram::from_ip(&write(&p))));
        let out: Vec<Vec<u8>> =
            std::iter::from_fn(|| network.transmit(Time::from_secs(5))).map(|o| o.datagram.into_bytes()).collect();
        let before = write(&p);
        p.mark();
        let after = write(&p);
        if ecn == Ecn::NotEct {
            assert_eq!(out, [before.clone(), before], "others are dropped");
        } else {
            assert_eq!(out.len(), 4);
            assert_eq!(out[3], after);
            assert!(out.iter().all(|o| *o == before || *o == after));
            assert_eq!(out[0] == before, size == 100, "of a datagram that is cut, a part is marked");
        }
    }
}
