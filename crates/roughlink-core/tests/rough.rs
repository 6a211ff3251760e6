//! Our own algorithm in a network: loss, fairness, outages, jitter. `validation/rough.py` measures its goals.

use roughlink_core::metrics::{FlowResult, RunResult};
use roughlink_core::net::{Network, RunOptions};

/// Runs flows for 30 s over 10 Mbit/s, with further keys of the link.
fn run(algorithms: &[&str], ms: f64, queue: u32, keys: &str) -> RunResult {
    run_for(30, algorithms, ms, queue, keys)
}

fn run_for(seconds: u32, algorithms: &[&str], ms: f64, queue: u32, keys: &str) -> RunResult {
    let mut text = format!(
        "seed = 2\nduration = \"{seconds} s\"\n\
         tcp = {{ mss_includes_options = true, snd_buf = \"16 MiB\", rcv_buf = \"16 MiB\", ecn = true }}\n\
         node = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n\
         rate = \"10 Mbit/s\"\ndelay = \"{} ms\"\nqueue = \"{queue} pkt\"\n{keys}\n",
        ms / 2.0
    );
    for (i, cc) in algorithms.iter().enumerate() {
        text += &format!(
            "[[flow]]\nname = \"{i}\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\ncc = \"{cc}\"\nstart = \"{} ms\"\n",
            i * 100
        );
    }
    let (s, _) = roughlink_scenario::parse(&text, "rough", &[], &|_| Err("no files".into())).unwrap();
    Network::new(s, RunOptions::default()).unwrap().run().unwrap()
}

fn mbps(r: &RunResult) -> Vec<f64> {
    r.flows.iter().map(|f| f.delivered_bytes as f64 * 8e-6 / (r.sim_s - f.start_s)).collect()
}

const BURSTS: &str = "noise = { kind = \"burst\", mean = \"5 %\", length = [1, 4], direction = \"forward\" }";

/// 5 % of loss leave 9.17 Mbit/s of payload. CUBIC gets a third of it.
#[test]
fn random_loss_hardly_matters() {
    for ms in [22.0, 80.0] {
        let ours = run(&["rough"], ms, 100, BURSTS);
        assert!(mbps(&ours)[0] > 0.95 * 9.17, "{ms}: {:?}", mbps(&ours));
        assert!(mbps(&run(&["cubic"], ms, 100, BURSTS))[0] < 0.4 * 9.17);
        let rtt = ours.flows[0].rtt_ms.unwrap();
        assert!(rtt.p95 < 1.3 * (ms + 1.2), "{rtt:?}");
    }
}

#[test]
fn flows_of_its_kind_share_equally() {
    for (ms, flows) in [(22.0, 2), (22.0, 4), (80.0, 4)] {
        let r = run(&vec!["rough"; flows], ms, 100, "");
        assert!(r.jain.unwrap() > 0.97, "{ms}, {flows}: {:?}", mbps(&r));
        assert!(mbps(&r).iter().sum::<f64>() > 9.0);
    }
}

/// A flow alone keeps the queue short, even if its own data is most of the RTT. CUBIC fills the queue.
#[test]
fn a_lone_flow_keeps_the_queue_short() {
    let queue = |cc: &str, ms, rate: &str| {
        let keys = format!("timeline = [{{ at = \"0 s\", rate = \"{rate}\" }}]");
        let r = run_for(60, &[cc], ms, 200, &keys);
        r.links[0].forward.queue_mean_pkt
    };
    for (ms, rate) in [(10.0, "1 Mbit/s"), (40.0, "300 kbit/s"), (40.0, "2 Mbit/s"), (150.0, "1 Mbit/s")] {
        assert!(queue("rough", ms, rate) < 8.0, "{ms} ms, {rate}: {}", queue("rough", ms, rate));
        assert!(queue("cubic", ms, rate) > 80.0, "{ms} ms, {rate}");
    }
}

/// Packets that a stall kept say nothing about the path: the queue is short soon after it. Nor does one late packet.
#[test]
fn stalls_and_late_packets_are_not_the_path() {
    for steps in [
        "{ at = \"10 s\", for = \"2 s\", up = false }",
        "{ at = \"10 s\", for = \"5 s\", up = false }",
        "{ at = \"10 s\", for = \"20 ms\", delay = \"300 ms\" }",
    ] {
        let keys = format!("timeline = {{ steps = [{steps}], policy = \"keep\" }}");
        let r = run(&["rough"], 40.0, 1000, &keys);
        assert!(r.links[0].forward.queue_mean_pkt < 10.0, "{steps}: {}", r.links[0].forward.queue_mean_pkt);
        assert!(mbps(&r)[0] > 0.8 * 9.65, "{steps}: {:?}", mbps(&r));
    }
}

/// Marks at a queue of 20 packets keep it short, and flows that halve their windows get their share.
#[test]
fn marks_reduce_the_window() {
    for other in ["cubic", "newreno"] {
        let r = run(&["rough", other], 40.0, 1000, "qdisc = { kind = \"threshold\", at = \"20 pkt\" }");
        assert!(r.jain.unwrap() > 0.9, "{other}: {:?}", mbps(&r));
        assert!(r.links[0].forward.queue_mean_pkt < 20.0 && r.flows[0].retransmits == 0);
    }
}

/// In a queue of a second, the smallest RTT is older than ten seconds. The flow keeps it for 30 to 60 round trips.
#[test]
fn long_queues_are_shared() {
    let keys = "timeline = [{ at = \"0 s\", rate = \"2 Mbit/s\" }]";
    let r = run_for(120, &["rough", "cubic"], 40.0, 200, keys);
    assert!(r.jain.unwrap() > 0.9, "{:?}", mbps(&r));
}

/// Without competition, delay alone would leave the link to CUBIC.
#[test]
fn cubic_and_newreno_get_their_share_and_no_more() {
    for other in ["cubic", "newreno"] {
        for queue in [20, 100] {
            let r = run_for(60, &["rough", other], 22.0, queue, "");
            assert!(r.jain.unwrap() > 0.85, "{other}, {queue}: {:?}", mbps(&r));
        }
    }
}

/// The largest RTO is a second: outages of 0.5 and 5 s cost at most two seconds more than their duration.
#[test]
fn outages_cost_little_more_than_their_duration() {
    let whole = mbps(&run(&["rough"], 22.0, 100, ""))[0];
    for seconds in [0.5, 5.0] {
        let keys = format!("timeline = [{{ at = \"10 s\", for = \"{seconds} s\", up = false }}]");
        let rest = mbps(&run(&["rough"], 22.0, 100, &keys))[0];
        let cost = (whole - rest) / whole * 30.0;
        assert!(cost < seconds + 2.0, "{seconds}: {cost}");
    }
}

/// With 15 retries, a largest RTO of a second would end a connection after 15 s.
#[test]
fn connections_survive_a_tunnel() {
    let r = run(&["rough"], 22.0, 100, "timeline = [{ at = \"5 s\", for = \"20 s\", up = false }]");
    assert!(!r.flows[0].failed && mbps(&r)[0] > 2.5, "{:?}", r.flows[0]);
}

/// A capacity that grows to ten times is used without a time-out or a loss as a sign.
#[test]
fn a_larger_capacity_is_found() {
    let r = run(&["rough"], 40.0, 100, "timeline = [{ at = \"0 s\", for = \"10 s\", rate = \"1 Mbit/s\" }]");
    assert!(mbps(&r)[0] > 0.85 * 9.65 * 20.0 / 30.0, "{:?}", mbps(&r));
}

/// Jitter of 20 ms must not look like a queue, whether it reorders or not.
#[test]
fn jitter_is_not_a_queue() {
    for keys in ["jitter = \"20 ms\"", "jitter = \"20 ms\"\nreorder = true"] {
        let r = run(&["rough"], 60.0, 100, keys);
        assert!(mbps(&r)[0] > 0.8 * 9.65, "{keys}: {:?}", mbps(&r));
    }
}

/// Short queues and a policer show congestion by loss alone: the link stays full, although much is sent twice.
#[test]
fn loss_without_delay_is_limited() {
    let sent_again = |r: &RunResult| {
        let sum = |of: fn(&FlowResult) -> u64| r.flows.iter().map(of).sum::<u64>() as f64;
        sum(|flow| flow.retransmits) / sum(|flow| flow.segments)
    };
    for (flows, ms, queue, keys, limit, most) in [
        (4, 6.0, 4, "", 9.65, 0.4),
        (1, 40.0, 2, "", 9.65, 0.3),
        (1, 40.0, 100, "qdisc = { kind = \"police\", rate = \"4 Mbit/s\", burst = \"15 kB\" }", 3.86, 0.3),
    ] {
        let r = run(&vec!["rough"; flows], ms, queue, keys);
        assert!(mbps(&r).iter().sum::<f64>() > 0.9 * limit, "{queue} {keys}: {:?}", mbps(&r));
        assert!(sent_again(&r) < most, "{queue} {keys}: {}", sent_again(&r));
    }
}
