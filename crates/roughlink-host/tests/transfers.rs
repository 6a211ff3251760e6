//! Flows of a scenario carried by the machine's kernels, in namespaces that each test creates and that end with it.
//! Tests are skipped with a message if namespaces or TUN devices are unavailable. No test asserts speed.

#![cfg(target_os = "linux")]

#[path = "common/machine.rs"]
mod machine;

use machine::possible;
use roughlink_core::app::Traffic;
use roughlink_core::net::RunLimits;
use roughlink_core::scenario::Scenario;
use roughlink_core::units::Time;
use roughlink_host::{LoopEnd, Transferred, Transfers};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const LINK: &str = "duration = \"60 s\"\nnode = [{ name = \"a\" }, { name = \"b\" }]\n[tcp]\nstack = \"linux\"\n\
    cc = \"reno\"\n[[link]]\nname = \"wire\"\nbetween = [\"a\", \"b\"]\nrate = \"20 Mbit/s\"\ndelay = \"5 ms\"\n";

fn parse(text: &str) -> Scenario {
    roughlink_scenario::parse(text, "test", &[], &|_| Err("no files".into())).unwrap_or_else(|e| panic!("{e}")).0
}

fn flow(name: &str, more: &str) -> String {
    format!("[[flow]]\nname = \"{name}\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n{more}\n")
}

/// Carries the scenario by kernels. Returns `None` and prints the reason to standard error if that is impossible.
fn carry(scenario: &Scenario) -> Option<Transferred> {
    let names = vec!["reno".to_owned(); scenario.flows.len()];
    let every = Time::from_millis(10);
    let scenario = Arc::new(scenario.clone());
    let transfers = Transfers { scenario, replica: 0, limits: RunLimits::default(), names: &names, every };
    possible(transfers.carry(&AtomicBool::new(false))).map(|done| done.expect("nobody stopped it"))
}

#[test]
fn kernel_transfers_fill_the_flow_results() {
    let noise = "noise = { kind = \"burst\", mean = \"3 %\", length = [1, 4], direction = \"forward\" }\n";
    let two = flow("one", "bytes = \"1 MB\"") + &flow("two", "bytes = \"500 kB\"\nstart = \"300 ms\"");
    let Some(done) = carry(&parse(&(LINK.to_owned() + noise + &two))) else { return };
    let result = &done.outcome.result;
    let wire = &result.links[0].forward;
    assert!(wire.lost > 0, "{wire:?}");
    for (flow, bytes) in result.flows.iter().zip([1_000_000, 500_000]) {
        assert_eq!((flow.delivered_bytes, flow.completed, flow.failed), (bytes, true, false), "{flow:?}");
        assert!(flow.segments >= bytes / 1448 + flow.retransmits, "{flow:?}");
        let (end, rate) = (flow.end_s.unwrap(), flow.throughput_mbps.unwrap());
        assert!((rate - bytes as f64 * 8e-6 / (end - flow.start_s)).abs() < 1e-9 && rate < 20.0, "{flow:?}");
        assert!(flow.rtt_ms.unwrap().min >= 10.0, "{flow:?}");
    }
    assert_eq!(result.flows[1].start_s, 0.3);
    let sum = |of: fn(&roughlink_core::metrics::FlowResult) -> u64| result.flows.iter().map(of).sum::<u64>();
    assert!(sum(|f| f.retransmits) > 0 && sum(|f| f.fast_recoveries + f.timeouts) > 0, "{:?}", result.flows);
    // The link also carries a SYN, a FIN and pure acknowledgments.
    assert!(wire.packets + wire.dropped >= sum(|f| f.segments), "{wire:?} {:?}", result.flows);
    for flow in [0, 1] {
        let mine: Vec<_> = done.vitals.iter().filter(|v| v.flow == flow).collect();
        assert!(mine.len() > 5 && mine.iter().all(|v| v.mss == 1448 && v.cwnd > 0), "{mine:?}");
        assert!(mine.windows(2).all(|w| w[0].at < w[1].at && w[0].delivered <= w[1].delivered), "{mine:?}");
    }
}

#[test]
fn kernel_transfers_use_windows_acks_and_priorities_of_the_scenario() {
    // 20 Mbit/s x 10 ms is 25 kB, so the window of 16 KiB is the limit.
    let text = LINK.to_owned() + &flow("narrow", "bytes = \"1 MB\"\ntcp = { rcv_buf = \"16 KiB\" }");
    let Some(narrow) = carry(&parse(&text)) else { return };
    // The kernel allows a wider window in the first round trips.
    let later = narrow.vitals.iter().filter(|v| v.at > Time::from_millis(150));
    let most = later.map(|v| v.in_flight * v.mss).max().unwrap();
    assert!((8_000..=16_384).contains(&most), "{most}");
    let acknowledgments = |more: &str| {
        let done = carry(&parse(&(LINK.to_owned() + &flow("it", &format!("bytes = \"2 MB\"\n{more}"))))).unwrap();
        let link = &done.outcome.result.links[0];
        link.reverse.packets as f64 / link.forward.packets as f64
    };
    let (each, delayed) = (acknowledgments("tcp = { delayed_ack = 1 }"), acknowledgments(""));
    // The kernel also acknowledges many other segments at once: at the start, and after PSH from the sender's kernel.
    assert!(each > 0.95 && delayed < each - 0.1, "{each} {delayed}");
}

#[test]
fn other_flows_stay_simulated_at_the_same_nodes() {
    let cbr = "[[flow]]\nname = \"cbr\"\nkind = \"cbr\"\nfrom = \"a\"\nto = \"b\"\nrate = \"100 kbit/s\"\n\
               packet = \"500 B\"\n";
    let text = LINK.replace("60 s", "2 s") + cbr + &flow("real", "bytes = \"1 MB\"");
    let scenario = parse(&text);
    let Some(done) = carry(&scenario) else { return };
    let [cbr, real] = &done.outcome.result.flows[..] else { panic!() };
    assert_eq!((real.delivered_bytes, real.completed), (1_000_000, true));
    // The flow continues after the transfer: 25 packets a second.
    assert!((45..=50).contains(&cbr.segments), "{cbr:?}");
    let kinds: BTreeSet<bool> = scenario.flows.iter().map(|f| matches!(f.traffic, Traffic::Bulk { .. })).collect();
    assert_eq!(kinds.len(), 2, "one of each");
}

#[test]
fn settings_that_the_kernel_decides_are_refused() {
    let refused = |text: &str| Transfers::check(&parse(text)).unwrap_err().with_cause();
    let one = |more: &str| LINK.to_owned() + &flow("f", more);
    assert_eq!(
        refused(&one("tcp = { initial_window = 3 }")),
        "flow `f`: `tcp.initial_window` is decided by the kernel"
    );
    assert_eq!(refused(&one("tcp = { stack = \"ns3\" }")).split(" is ").nth(1), Some("decided by the kernel"));
    assert_eq!(refused(&one("dscp = \"EF\"")), "flow `f`: `dscp` cannot be set on the kernel");
    let sctp = LINK.replace("[tcp]\nstack = \"linux\"\ncc = \"reno\"\n", "") + &flow("f", "transport = \"sctp\"");
    assert_eq!(refused(&sctp), "flow `f`: SCTP cannot run on the kernel; only TCP can");
    let none =
        LINK.to_owned() + "[[flow]]\nname = \"c\"\nkind = \"cbr\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1 Mbit/s\"\n";
    assert_eq!(refused(&none), "the scenario has no `bulk` flow");
    assert!(Transfers::check(&parse(&one("tcp = { rcv_buf = \"64 KiB\", delayed_ack = 1 }"))).is_ok());
}

#[test]
fn stop_request_ends_a_transfer() {
    let short_scenario = || Arc::new(parse(&(LINK.to_owned() + &flow("endless", ""))));
    let scenario = short_scenario();
    let names = vec!["reno".to_owned()];
    let transfers =
        Transfers { scenario, replica: 0, limits: RunLimits::default(), names: &names, every: Time::from_millis(10) };
    let stop = AtomicBool::new(false);
    let done = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(200));
            stop.store(true, Ordering::Relaxed);
        });
        transfers.carry(&stop)
    });
    match done {
        Ok(done) => assert!(done.is_none(), "it was told to stop"),
        Err(e) => return eprintln!("skipped: {}", e.with_cause()),
    }
    let small = RunLimits { events: 100, ..RunLimits::default() };
    let scenario = Arc::clone(&transfers.scenario);
    let short = Transfers { scenario, limits: small, ..transfers }.carry(&AtomicBool::new(false)).unwrap().unwrap();
    assert!(matches!(short.outcome.ending, LoopEnd::Exceeded(_)), "{:?}", short.outcome.ending);
    let names = vec!["nonesuch".to_owned()];
    let scenario = short_scenario();
    let transfers =
        Transfers { scenario, replica: 0, limits: RunLimits::default(), names: &names, every: Time::from_millis(10) };
    let refused = transfers.carry(&AtomicBool::new(false)).unwrap_err().with_cause();
    assert!(
        refused.contains("select the kernel's congestion control `nonesuch`") || refused.contains("cannot"),
        "{refused}"
    );
}
