//! Proxies in a network: flows between ends inside, with counted data, and between hosts outside, with bytes.

#[path = "common/air.rs"]
#[allow(dead_code, reason = "used by `chain`")]
mod air;
#[path = "common/chain.rs"]
#[allow(dead_code, reason = "only its hosts are used here")]
mod chain;

use chain::{host, text};
use roughlink_core::metrics::RunResult;
use roughlink_core::net::{Network, NetworkError, NetworkEvent, Observer, RunOptions};
use roughlink_core::scenario::Scenario;
use roughlink_core::tcp::{Host, TcpConfig};
use roughlink_core::units::Time;
use roughlink_core::wire::Datagram;
use std::net::SocketAddr;

/// Returns a scenario: server, hub, terminal and client in a row, with a rough link in the middle. Kernels may be at
/// server and client.
fn network(rough: &str, rest: &str) -> Scenario {
    match read(rough, rest) {
        Ok((scenario, warnings)) => {
            assert!(warnings.is_empty(), "{warnings:?}");
            scenario
        }
        Err(e) => panic!("{e}"),
    }
}

/// Reads the scenario; returns it with the messages of its warnings, except those about fragments.
fn read(rough: &str, rest: &str) -> Result<(Scenario, Vec<String>), String> {
    let text = format!(
        "duration = '120 s'\nnode = [{{ name = 'server', kernel = true }}, {{ name = 'hub' }},\n\
         {{ name = 'terminal' }},          {{ name = 'client', kernel = true }}]\n\
         [[link]]\nname = 'internet'\nbetween = ['server', 'hub']\nrate = '100 Mbit/s'\ndelay = '5 ms'\n\
         [[link]]\nname = 'rough'\nbetween = ['hub', 'terminal']\nrate = '10 Mbit/s'\ndelay = '100 ms'\n{rough}\n\
         [[link]]\nname = 'lan'\nbetween = ['terminal', 'client']\nrate = '100 Mbit/s'\ndelay = '1 ms'\n{rest}"
    );
    let none = |name: &str| Err(format!("no {name}"));
    let (scenario, warnings) = roughlink_scenario::parse(&text, "test", &[], &none).map_err(|e| format!("{e:?}"))?;
    let messages = warnings.into_iter().map(|w| w.message).filter(|message| !message.contains("fragments"));
    Ok((scenario, messages.collect()))
}

const BULK: &str = "[[flow]]\nname = 'f'\nkind = 'bulk'\nfrom = 'server'\nto = 'client'\nbytes = '5 MB'\n";
const PEP: &str = "[[gateway]]\nkind = 'pep'\nnode = 'hub'\nlink = 'rough'\nparams = { cc = 'cubic' }\n";
const PAIR: &str = "[[gateway]]\nkind = 'pep'\nnode = 'hub'\nlink = 'rough'\nparams = { cc = 'cubic' }\n\
                    [[gateway]]\nname = 'second'\nkind = 'pep'\nnode = 'terminal'\nlink = 'rough'\n\
                    params = { cc = 'cubic' }\n";

fn run(scenario: Scenario) -> RunResult {
    Network::new(scenario, RunOptions::default()).expect("paths").run().expect("no limit is near")
}

/// Side slots in use at the end, and packets that hold one.
#[derive(Default)]
struct Slots(usize, usize);

impl Observer for Slots {
    fn observe(&mut self, _: Time, event: NetworkEvent<'_>) {
        if let NetworkEvent::End { slots, held } = event {
            (self.0, self.1) = (self.0 + slots, self.1 + held);
        }
    }
}

/// Losses, fragments at the rough link, outages; every algorithm that the proxy may use.
#[test]
fn transfers_complete_through_one_proxy_and_a_pair() {
    for rough in [
        "",
        "mtu = '600 B'",
        "noise = { kind = 'random', loss = '2 %' }",
        "timeline = [{ at = '3 s', for = '4 s', up = false }]",
    ] {
        for proxies in [PEP, PAIR] {
            for cc in ["wave", "wave-fr", "bbr", "hybla"] {
                let scenario = network(rough, &format!("{BULK}{}", proxies.replace("cubic", cc)));
                let mut slots = Slots::default();
                let network = Network::new(scenario, RunOptions::default()).expect("paths");
                let result = network.observed_by(&mut slots).run().expect("no limit is near");
                let flow = &result.flows[0];
                assert!(flow.completed && flow.delivered_bytes == 5_000_000, "{rough} {cc}: {flow:?}");
                assert_eq!(slots.0, slots.1, "side slots leak");
            }
        }
    }
}

/// The proxy repairs losses of the rough link, so that the server's connection has none.
#[test]
fn losses_stay_on_the_rough_link() {
    let noise = "noise = { kind = 'random', loss = '1 %', direction = 'forward' }";
    let plain = run(network(noise, BULK));
    let split = run(network(noise, &format!("{BULK}{}", PEP.replace("cubic", "bbr"))));
    let [plain, split] = [plain, split].map(|result| result.flows[0].clone());
    assert!(plain.retransmits > 0 && split.retransmits == 0, "{} {}", plain.retransmits, split.retransmits);
    assert!(split.throughput_mbps > plain.throughput_mbps, "{:?} {:?}", split.throughput_mbps, plain.throughput_mbps);
}

/// The server may not send faster than the rough link for longer than the proxy has room.
#[test]
fn back_pressure_reaches_the_server() {
    let proxy = PEP.replace("'cubic'", "'cubic', buffer = '300 kB', lan_buffer = '100 kB'");
    let endless = BULK.replace("bytes = '5 MB'\n", "");
    let result = run(network("", &format!("{endless}{proxy}")));
    let (sent, delivered) = (result.links[0].forward.packets * 1_448, result.flows[0].delivered_bytes);
    assert!(sent < delivered + 500_000 && delivered > 80_000_000, "{sent} {delivered}");
}

#[test]
fn dialogues_of_several_flows_pass_the_proxy() {
    let flows = "[[flow]]\nname = 'w'\nkind = 'web'\nfrom = 'client'\nto = 'server'\n\
                 [[flow]]\nname = 'o'\nkind = 'onoff'\nfrom = 'server'\nto = 'client'\non = '1 s'\noff = '2 s'\n\
                 rate = '1 Mbit/s'\n[[flow]]\nname = 'u'\nkind = 'cbr'\nfrom = 'server'\nto = 'client'\n\
                 rate = '100 kbit/s'\n";
    let result = run(network("", &format!("{flows}{BULK}{PEP}")));
    for flow in &result.flows {
        assert!(flow.delivered_bytes > 100_000 && !flow.failed, "{flow:?}");
    }
}

#[test]
fn results_with_a_proxy_are_deterministic() {
    let scenario = network("noise = { kind = 'random', loss = '2 %' }", &format!("{BULK}{PAIR}"));
    let whole = run(scenario.clone());
    let mut stepped = Network::new(scenario, RunOptions::default()).expect("paths");
    (0..=1_200).for_each(|i| stepped.wake(Time::from_millis(100 * i)));
    let json = |result: &RunResult| serde_json::to_string(result).expect("plain values");
    assert_eq!(json(&whole), json(&stepped.result()));
}

#[test]
fn faults_of_a_proxy_are_reported() {
    let fault = |params: &str| {
        let gateway = PEP.replace("{ cc = 'cubic' }", params);
        read("", &format!("{BULK}{gateway}")).expect_err("it is faulty")
    };
    for (params, message) in [
        ("{ cc = 'wafe' }", "unknown congestion control `wafe`"),
        ("{ lan_cc_params = { beta = 3 } }", "invalid parameters of `cubic`"),
        ("{ bufer = '1 MB' }", "unknown parameter `bufer` of `pep`"),
        ("{ buffer = 5 }", "invalid parameters of `pep`"),
        ("{ buffer = '1 kB' }", "`buffer` must be at least 4 kB"),
        ("{ connections = 0 }", "`connections` must be at least 1"),
    ] {
        let text = fault(params);
        assert!(text.contains(message), "{params}: {text}");
    }
    let twice = read("", &format!("{BULK}{PEP}{}", PEP.replace("kind", "name = 'again'\nkind"))).unwrap_err();
    assert!(twice.contains("two proxies at one end of a link: `pep` and `again`"), "{twice}");
    // Without kernel nodes, only the scenario's flows can pass the proxy.
    let text = "duration = '1 s'\nnode = [{ name = 'a' }, { name = 'b' }]\n[[link]]\nname = 'l'\n\
                between = ['a', 'b']\nrate = '1 Mbit/s'\ndelay = '1 ms'\n[[flow]]\nname = 'f'\nkind = 'bulk'\n\
                from = 'a'\nto = 'b'\n[[gateway]]\nkind = 'pep'\nnode = 'a'\nlink = 'l'\n";
    let (_, warnings) = roughlink_scenario::parse(text, "test", &[], &|_| Err(String::new())).expect("it is valid");
    assert_eq!(warnings[0].message, "proxy `pep` has no effect: no TCP flow passes `a` between link `l` and another");
}

/// One end of a connection would have bytes and the other none.
#[test]
fn flow_with_one_end_outside_is_rejected() {
    let options = RunOptions { ports: vec![0], ..RunOptions::default() };
    let error = Network::new(network("", &format!("{BULK}{PEP}")), options).err();
    let expected = NetworkError::HalfOutside { proxy: "pep".into(), flow: "f".into() };
    assert_eq!(error, Some(expected));
}

/// Hosts outside exchange bytes, over links that lose, reorder and fragment.
#[test]
fn hosts_outside_exchange_bytes_through_the_proxy() {
    for (proxies, rough) in [
        (PEP, ""),
        (PAIR, "noise = { kind = 'random', loss = '3 %' }\njitter = '20 ms'\nreorder = true"),
        (PEP, "mtu = '1280 B'\nnoise = { kind = 'random', loss = '1 %' }"),
    ] {
        let scenario = network(rough, proxies);
        let options = RunOptions { ports: vec![0, 3], ..RunOptions::default() };
        let mut network = Network::new(scenario, options).expect("paths");
        let tcp = TcpConfig::default;
        let mut hosts = [host(&["10.0.0.1", "fd00::1"], tcp(), 1), host(&["10.0.0.4", "fd00::4"], tcp(), 2)];
        hosts[0].listen(80, 8);
        let socket = |address: &str, port| SocketAddr::new(address.parse().expect("an address"), port);
        let id = hosts[1].connect(Time::ZERO, socket("10.0.0.4", 0), socket("10.0.0.1", 80)).expect("free");
        let bytes = [text(0, 0..400_000), text(1, 0..300_000)];
        let (mut accepted, mut written, mut read) = (None, [0; 2], [Vec::new(), Vec::new()]);
        let mut now = Time::ZERO;
        while now < Time::from_secs(100) && (read[0].len() < bytes[1].len() || read[1].len() < bytes[0].len()) {
            accepted = accepted.or_else(|| hosts[0].accept(80));
            for (i, id) in [accepted, Some(id)].into_iter().enumerate() {
                let Some(id) = id else { continue };
                written[i] += hosts[i].write(id, &bytes[i][written[i]..]);
                let mut part = [0; 10_000];
                let n = hosts[i].read(id, &mut part);
                read[i].extend_from_slice(&part[..n]);
            }
            now = step(&mut network, &mut hosts, now);
        }
        assert!(read[0] == bytes[1] && read[1] == bytes[0], "{:?}", read.each_ref().map(Vec::len));
    }
}

/// Carries datagrams between hosts and network for a millisecond.
fn step(network: &mut Network, hosts: &mut [Host; 2], now: Time) -> Time {
    let mut out = Vec::new();
    for (port, host) in hosts.iter_mut().enumerate() {
        host.wake(now);
        while host.transmit(now, &mut out) {
            network.receive(now, port, &Datagram::from_ip(&*out));
        }
    }
    while let Some(out) = network.transmit(now) {
        let _ = hosts[out.port].receive(now, &out.datagram);
    }
    now + Time::from_millis(1)
}
