//! Networks with open ports: regardless of driver and traffic, packets have the same fate as in the simulation.

#[path = "common/join.rs"]
mod join;

use join::join;
use proptest::prelude::*;
use roughlink_core::cc;
use roughlink_core::conversations::MAX_CONVERSATIONS;
use roughlink_core::link::Noise;
use roughlink_core::net::addresses::{Prefix, addresses, assigned};
use roughlink_core::net::{
    ChangeError, InterfaceDirection, LinkChange, LinkReading, Network, NetworkEvent, NetworkOutput, Observer,
    RunOptions,
};
use roughlink_core::packet::{FlowId, Packet, SideContent, SynOptions, flags};
use roughlink_core::scenario::{NodeAddresses, Scenario};
use roughlink_core::tcp::{Stack, Stream, TcpConfig};
use roughlink_core::trace::capture::Capture;
use roughlink_core::units::{Rate, Time};
use roughlink_core::wire::{self, Addresses, Datagram, IpPair};
use std::net::Ipv4Addr;

fn parse(text: &str) -> Scenario {
    roughlink_scenario::parse(text, "ports", &[], &|_| Err("no files".into())).unwrap_or_else(|e| panic!("{e}")).0
}

/// Creates nodes `a`, `m` and `b`, links with the keys `link`, and the tables `more`.
fn chain(link: &str, more: &str) -> Scenario {
    chain_of([link, link], more)
}

/// Creates the same network with different keys for each link.
fn chain_of([first, second]: [&str; 2], more: &str) -> Scenario {
    parse(&format!(
        r#"
duration = "60 s"
node = [{{ name = "a" }}, {{ name = "m" }}, {{ name = "b" }}]
[[link]]
name = "first"
between = ["a", "m"]
{first}
[[link]]
name = "second"
between = ["m", "b"]
{second}
{more}
"#
    ))
}

const PLAIN: &str = "rate = \"50 Mbit/s\"\ndelay = \"5 ms\"";
const ROUGH: &str = "rate = \"1 Mbit/s\"\ndelay = \"7 ms\"\njitter = \"3 ms\"\nqueue = \"20 pkt\"\n\
                     noise = { kind = \"burst\", start = \"2 %\", length = [1, 4] }";
const BETWEEN: Addresses = Addresses {
    ip: IpPair::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 3) },
    src_port: 7,
    dst_port: 9,
};

/// Returns a UDP datagram of `size` bytes (IP length) whose payload ends with `number`.
fn datagram(number: u32, size: usize) -> Vec<u8> {
    datagram_between(BETWEEN.ip, number, size)
}

fn datagram_between(ip: IpPair, number: u32, size: usize) -> Vec<u8> {
    let mut payload = vec![0; size - 28];
    let at = payload.len() - 4;
    payload[at..].copy_from_slice(&number.to_be_bytes());
    let mut out = Vec::new();
    let p = Packet::udp(FlowId::new(0, false), 0, payload.len() as u16, Time::ZERO);
    wire::encode(&p, None, &Addresses { ip, ..BETWEEN }, &payload, &mut out).unwrap();
    out
}

fn number(datagram: &[u8]) -> u32 {
    u32::from_be_bytes(*datagram.last_chunk().unwrap())
}

/// Arrival and departure times of the datagrams of a flow.
#[derive(Default)]
struct Recorded {
    sent: Vec<(Time, u32, u16)>,
    arrived: Vec<(Time, u32)>,
}

impl Observer for Recorded {
    fn observe(&mut self, now: Time, event: NetworkEvent<'_>) {
        let NetworkEvent::Packet { at, packet: p, .. } = event else { return };
        match at.direction {
            InterfaceDirection::Out => self.sent.push((now, p.seq, p.size)),
            InterfaceDirection::In => self.arrived.push((now, p.seq)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Simulated datagrams compared with datagrams from outside under a clock that is up to 5 ms late. The same ones
    /// are lost, the others arrive in the same order, and each is due at its arrival time in the simulation.
    #[test]
    fn late_wakeups_lose_the_same_datagrams(
        late in prop::collection::vec(0u64..5_000_000, 1..50),
        seed in 0u64..1000,
        (size, rate) in (60u16..1500, 300u32..1400),
    ) {
        let flow = format!(
            "[[flow]]\nname = \"f\"\nkind = \"cbr\"\nfrom = \"a\"\nto = \"b\"\nrate = \"{rate} kbit/s\"\n\
             packet = \"{size} B\"\nstop = \"5 s\""
        );
        let mut simulated = chain(ROUGH, &flow);
        simulated.seed = seed;
        let mut seen = Recorded::default();
        Network::new(simulated.clone(), RunOptions::default()).unwrap().observed_by(&mut seen).run().unwrap();
        prop_assert!(seen.arrived.len() > 100 && seen.arrived.len() < seen.sent.len());

        let open = Scenario { flows: Vec::new(), ..simulated };
        let mut network = Network::new(open, RunOptions { ports: vec![0, 2], ..RunOptions::default() }).unwrap();
        let mut late = late.into_iter().cycle();
        let mut out: Vec<NetworkOutput> = Vec::new();
        let mut wall = Time::ZERO;
        for (at, seq, size) in seen.sent {
            // The driver sleeps until something is due, wakes late, and enters datagrams with their arrival times.
            while network.next_wake().max(wall) < at {
                wall = (network.next_wake() + Time(late.next().expect("it never ends"))).min(at);
                out.extend(std::iter::from_fn(|| network.transmit(wall)));
            }
            network.receive(at, 0, &Datagram::from_ip(&datagram(seq, usize::from(size))));
        }
        out.extend(std::iter::from_fn(|| network.transmit(Time::from_secs(60))));
        prop_assert!(out.iter().all(|o| o.port == 1));
        let arrived: Vec<_> = out.iter().map(|o| (o.due, number(o.datagram.bytes()))).collect();
        prop_assert_eq!(arrived, seen.arrived);
        prop_assert_eq!(network.port_stats().sent as usize, out.len());
    }

    /// Any content leaves unchanged: other protocols, options, DSCP and ECN, fragments, and what a link fragments.
    #[test]
    fn bytes_pass_unchanged(
        protocol in any::<u8>(),
        (dscp_ecn, ident, cut) in (any::<u8>(), any::<u16>(), any::<u16>()),
        body in prop::collection::vec(any::<u8>(), 0..4000),
    ) {
        let options = RunOptions { ports: vec![0, 2], ..RunOptions::default() };
        let mut network = Network::new(chain(&format!("{PLAIN}\nmtu = \"576 B\""), ""), options).unwrap();
        let length = (20 + body.len()) as u16;
        let mut bytes = vec![0x45, dscp_ecn];
        for word in [length, ident, cut & 0xbfff, 0x4000 | u16::from(protocol), 0] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        bytes.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 3]);
        bytes.extend_from_slice(&body);
        let mut padded = bytes.clone();
        padded.extend_from_slice(&[0xee; 7]); // padding of the link
        network.receive(Time::ZERO, 0, &Datagram::from_ip(&padded));
        let out = network.transmit(Time::from_secs(1)).expect("nothing is lost");
        prop_assert_eq!(out.datagram.into_bytes(), bytes);
    }

    /// Any input is allowed; only IP datagrams to another node pass.
    #[test]
    fn only_ip_datagrams_pass(bytes in prop::collection::vec(any::<u8>(), 0..200), v6 in any::<bool>()) {
        let options = RunOptions { ports: vec![0, 2], ..RunOptions::default() };
        let mut network = Network::new(chain(PLAIN, ""), options).unwrap();
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = if v6 { 0x60 } else { 0x45 };
        }
        network.receive(Time::ZERO, 0, &Datagram::from_ip(&bytes));
        network.receive(Time::ZERO, 1, &Datagram::from_ip(&bytes));
        let stats = network.port_stats();
        prop_assert_eq!(stats.received + stats.unreachable + stats.unreadable, 2);
    }
}

#[test]
fn transfer_spans_two_networks() {
    for (transport, version) in [("", ""), ("transport = \"sctp\"", ""), ("", "ip = 6")] {
        for link in [PLAIN, ROUGH] {
            let flow = format!(
                "[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\nbytes = \"100 kB\"\n{transport}\n\
                 {version}"
            );
            let source = chain(link, &flow);
            let sink = Scenario { seed: 7, ..source.clone() };
            let open =
                |s: Scenario, node| Network::new(s, RunOptions { ports: vec![node], ..RunOptions::default() }).unwrap();
            let mut networks = [open(source, 2), open(sink, 0)];
            join(&mut networks, Time::from_secs(60));
            let [sent, received] = networks.map(|n| n.result().flows.remove(0));
            let what = format!("{transport}{version} over {link}: {sent:?} {received:?}");
            assert!(sent.completed && received.completed, "{what}");
            assert_eq!((sent.delivered_bytes, received.delivered_bytes), (100_000, 100_000), "{what}");
            assert!(sent.end_s > received.end_s, "{what}");
            assert_eq!(link == ROUGH, sent.retransmits > 0, "{what}");
        }
    }
}

/// A gateway between a port and a host controls connections that enter at the port.
#[test]
fn gateway_rewrites_segments_from_outside() {
    let flow = "[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"";
    let plain = chain(PLAIN, flow);
    let gateway = "[[gateway]]\nnode = \"m\"\nkind = \"muniz\"\n";
    let home = chain_of([PLAIN, "kind = \"hdplc\""], &format!("{gateway}{flow}"));
    // First, only the source is outside the network with the gateway; then both ends are.
    for passing in [false, true] {
        let mut with_gateway = home.clone();
        let ports = if passing {
            with_gateway.flows.clear();
            vec![0, 2]
        } else {
            vec![0]
        };
        let mut source = Network::new(plain.clone(), RunOptions { ports: vec![2], ..RunOptions::default() }).unwrap();
        let mut between = Network::new(with_gateway, RunOptions { ports, ..RunOptions::default() }).unwrap();
        let mut sink = Network::new(plain.clone(), RunOptions { ports: vec![0], ..RunOptions::default() }).unwrap();
        let end = Time::from_secs(4);
        loop {
            let now = [&source, &between, &sink].into_iter().map(Network::next_wake).min().unwrap();
            if now > end {
                break;
            }
            loop {
                let mut idle = true;
                while let Some(out) = source.transmit(now) {
                    idle = false;
                    between.receive(now, 0, &out.datagram);
                }
                while let Some(out) = between.transmit(now) {
                    idle = false;
                    wire::decode(out.datagram.bytes()).expect("checksums are right");
                    if out.port == 0 { &mut source } else { &mut sink }.receive(now, 0, &out.datagram);
                }
                while let Some(out) = sink.transmit(now) {
                    idle = false;
                    between.receive(now, 1, &out.datagram);
                }
                if idle {
                    break;
                }
            }
        }
        let gateway = between.result().gateways.remove(0);
        assert!(source.result().flows[0].delivered_bytes > 1_000_000, "{:?}", source.result().flows);
        assert_eq!(gateway.flows.len(), 1);
        assert!(gateway.flows[0].rewritten > 100, "{gateway:?}");
        let name = if passing { "10.0.0.1:50000 > 10.0.0.3:42000" } else { "f" };
        assert_eq!(gateway.flows[0].flow, name);
    }
}

/// Impossible and outdated input does no harm.
#[test]
fn outdated_input_counts_as_of_now() {
    let flow = "[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"";
    let options = RunOptions { ports: vec![2], changes: true, ..RunOptions::default() };
    let mut network = Network::new(chain(PLAIN, flow), options).unwrap();
    network.wake(Time::from_secs(30));
    let from = |network: &mut Network, at| {
        network.receive(Time::from_secs(at), 0, &Datagram::from_ip(&reply(1_000)));
        let slower = LinkChange { rate: Some(Rate::from_mbps(1)), ..LinkChange::default() };
        network.change(Time::from_secs(at), 0, [true; 2], &slower).unwrap();
        network.result()
    };
    // The datagram is older than the network's time: it counts as of now.
    from(&mut network, 10);
    assert_eq!((network.port_stats().received, network.result().sim_s), (1, 30.0));
    // After the end, all input is ignored.
    let end = from(&mut network, 60);
    for at in [61, 1_000_000] {
        assert_eq!(from(&mut network, at), end);
    }
    assert_eq!(network.next_wake(), Time::MAX);
    let none = LinkChange { rate: Some(Rate(0)), ..LinkChange::default() };
    assert_eq!(network.change(Time::ZERO, 0, [true; 2], &none), Err(ChangeError::NoRate));
}

/// Creates a datagram of `size` bytes in the reverse direction.
fn reply(size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let p = Packet::udp(FlowId::new(0, false), 0, size as u16 - 28, Time::ZERO);
    wire::encode(&p, None, &BETWEEN.reversed(), &vec![0; size - 28], &mut out).unwrap();
    out
}

/// Results may be read while a packet is between two links.
#[test]
fn results_exclude_future_events() {
    let [fast, slow] = ["100 Mbit/s", "1 Mbit/s"].map(|rate| format!("rate = \"{rate}\"\ndelay = \"20 ms\""));
    let flow = "[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"";
    let slow_second = chain_of([&fast, &slow], flow);
    let mut network = Network::new(slow_second, RunOptions::default()).unwrap();
    for ms in 1..400 {
        network.wake(Time::from_millis(ms));
        let result = network.result();
        let [first, second] = [0, 1].map(|l| result.links[l].forward);
        assert!(second.packets <= first.packets && second.queue_mean_pkt < 1e3, "{ms} ms: {result:?}");
        if ms < 20 {
            assert_eq!(second.packets, 0);
        }
    }
}

/// A capture contains each datagram that crosses a port once on its way out of the host and once on its way in.
#[test]
fn captures_contain_datagrams_that_cross_ports() {
    let scenario = chain(PLAIN, "");
    let files = vec![(Vec::new(), vec![0, 2])];
    let capture = Capture::new(&scenario, files, None).map_err(|e| e.1).unwrap();
    let options = RunOptions { ports: vec![0, 2], ..RunOptions::default() };
    let mut network = Network::new(scenario, options).unwrap().observed_by(capture);
    let sent = datagram(77, 500);
    network.receive(Time::ZERO, 0, &Datagram::from_ip(&sent));
    assert_eq!(network.transmit(Time::from_secs(1)).unwrap().datagram.into_bytes(), sent);
    let file = network.detach_observer().1.finish().map_err(|e| e.1).unwrap().remove(0);
    assert_eq!(file.windows(sent.len()).filter(|part| *part == sent).count(), 2);
}

#[test]
fn captures_show_fragments_at_a_simulated_host() {
    let scenario = chain_of([PLAIN, &format!("{PLAIN}\nmtu = \"600 B\"")], "");
    let capture = Capture::new(&scenario, vec![(Vec::new(), vec![0, 2])], None).map_err(|e| e.1).unwrap();
    let options = RunOptions { ports: vec![0], ..RunOptions::default() };
    let mut network = Network::new(scenario, options).unwrap().observed_by(capture);
    network.receive(Time::ZERO, 0, &Datagram::from_ip(datagram(77, 1500)));
    network.wake(Time::from_secs(1));
    assert_eq!((network.port_stats().received, network.port_stats().unreachable), (1, 1));
    assert!(network.detach_observer().1.finish().is_ok());
}

/// Several flows of the scenario may wait for connections at one address; strangers do not take them.
#[test]
fn connections_from_outside_find_their_flows() {
    let flow = |name: &str| {
        format!("[[flow]]\nname = \"{name}\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\nbytes = \"50 kB\"\n")
    };
    let scenario = chain(PLAIN, &(flow("f") + &flow("g")));
    let to = |port| Addresses { src_port: port, ..addresses(&scenario, 0) };
    let options = RunOptions { ports: vec![0, 1], ..RunOptions::default() };
    let mut network = Network::new(scenario.clone(), options).unwrap();
    // A reset, a segment in the middle of a connection, and a SYN at the wrong port start nothing.
    for (flags, port) in [(flags::RST, 0), (flags::ACK, 0), (flags::SYN, 1)] {
        let mut p = Packet::tcp(FlowId::new(0, false));
        p.flags = flags;
        let side = (flags == flags::SYN).then(|| SideContent::Syn(SynOptions::default()));
        let mut bytes = Vec::new();
        wire::encode(&p, side.as_ref(), &to(9), &[][..], &mut bytes).unwrap();
        network.receive(Time::ZERO, port, &Datagram::from_ip(&bytes));
    }
    let factory = || cc::algorithm("cubic").unwrap().default_factory("linux");
    let mut clients =
        [1000, 2000].map(|port| Stream::new(to(port), TcpConfig::preset(Stack::Linux), factory(), u32::from(port)));
    let (mut now, mut bytes, mut left) = (Time::ZERO, Vec::new(), [vec![7; 50_000], vec![8; 50_000]]);
    clients.iter_mut().for_each(Stream::connect);
    while now < Time::from_secs(20) {
        for (client, left) in clients.iter_mut().zip(&mut left) {
            client.wake(now);
            let n = client.write(left);
            left.drain(..n);
            if left.is_empty() {
                client.close();
            }
            while client.transmit(now, &mut bytes) {
                network.receive(now, 0, &Datagram::from_ip(&bytes));
            }
        }
        now += Time::from_millis(1);
        while let Some(out) = network.transmit(now) {
            let taken =
                clients.iter_mut().filter_map(|client| client.receive(now, out.datagram.bytes()).then_some(())).count();
            assert_eq!(taken, 1);
        }
    }
    let result = network.result();
    assert!(result.flows.iter().all(|f| f.completed && f.delivered_bytes == 50_000), "{:?}", result.flows);
}

/// A change from outside equals the same step of a timeline, even if the timeline keeps changing the link.
#[test]
fn external_change_equals_timeline_step() {
    let flow = "[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"";
    let steps = [
        "{ at = \"10 s\", rate = \"500 kbit/s\", delay = \"90 ms\" }",
        "{ at = \"20 s\", delay = \"1 ms\" }",
        "{ at = \"30 s\", rate = \"7 Mbit/s\" }",
        "{ at = \"40 s\", up = false }",
        "{ at = \"50 s\", up = true }",
    ];
    let with = |steps: &[&str]| chain(&format!("{ROUGH}\ntimeline = [{}]", steps.join(", ")), flow);
    let rest = [steps[1], steps[2], steps[4]];
    let planned = Network::new(with(&steps), RunOptions::default()).unwrap().run().unwrap();
    let options = RunOptions { changes: true, ..RunOptions::default() };
    let mut network = Network::new(with(&rest), options).unwrap();
    for link in [0, 1] {
        let slower = LinkChange {
            rate: Some(Rate::from_bps(500_000)),
            delay: Some(Time::from_millis(90)),
            ..LinkChange::default()
        };
        network.change(Time::from_secs(10), link, [true; 2], &slower).unwrap();
    }
    for link in [0, 1] {
        let down = LinkChange { up: Some(false), ..LinkChange::default() };
        network.change(Time::from_secs(40), link, [true; 2], &down).unwrap();
    }
    let changed = network.run().unwrap();
    assert_eq!(changed, planned);
    let plain = Network::new(with(&rest), RunOptions::default()).unwrap().run().unwrap();
    assert_ne!(plain, planned);

    let mut closed = Network::new(with(&rest), RunOptions::default()).unwrap();
    assert_eq!(closed.change(Time::ZERO, 0, [true; 2], &LinkChange::default()), Err(ChangeError::Closed));
}

#[test]
fn readings_agree_with_link_state_and_counters() {
    let flow = "[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"";
    for changes in [false, true] {
        let options = RunOptions { changes, ..RunOptions::default() };
        let mut network = Network::new(chain(ROUGH, flow), options).unwrap();
        let before = network.readings();
        network.wake(Time::from_secs(10));
        let (result, readings) = (network.result(), network.readings());
        for (link, [forward, reverse]) in result.links.iter().zip(&readings) {
            for (counted, read) in [(link.forward, forward), (link.reverse, reverse)] {
                let all = (read.packets, read.bytes, read.dropped, read.lost);
                assert_eq!(all, (counted.packets, counted.bytes, counted.dropped, counted.lost));
                assert!(read.packets > 0 && read.waiting <= counted.queue_max_pkt as usize);
            }
        }
        let state = |r: &LinkReading| (r.up, r.rate, r.delay, r.loss);
        assert!(before.iter().zip(&readings).all(|(b, r)| state(&b[0]) == state(&r[0]) && b[0].packets == 0));
        if changes {
            let change = LinkChange {
                up: Some(false),
                rate: Some(Rate::from_mbps(3)),
                delay: Some(Time::from_millis(7)),
                noise: Some(Noise::random(0.25)),
                ..LinkChange::default()
            };
            network.change(Time::from_secs(10), 1, [true, false], &change).unwrap();
            let after = network.readings();
            assert_eq!(state(&after[1][0]), (false, Rate::from_mbps(3), Time::from_millis(7), Some(0.25)));
            assert_eq!((after[0], after[1][1]), (readings[0], readings[1][1]));
        }
    }
}

#[test]
fn allowing_changes_has_no_effect() {
    let flow = "[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"";
    for link in [PLAIN, ROUGH] {
        let run = |changes| {
            Network::new(chain(link, flow), RunOptions { changes, ..RunOptions::default() }).unwrap().run().unwrap()
        };
        assert_eq!(run(true), run(false));
    }
}

#[test]
fn datagram_flow_can_start_or_end_outside() {
    let flow = |kind: &str| format!("[[flow]]\nname = \"f\"\n{kind}\nfrom = \"a\"\nto = \"b\"");
    let cbr = chain(PLAIN, &flow("kind = \"cbr\"\nrate = \"80 kbit/s\"\npacket = \"100 B\"\nstop = \"6 s\""));
    let mut from = Network::new(cbr.clone(), RunOptions { ports: vec![2], ..RunOptions::default() }).unwrap();
    let sent: Vec<_> = std::iter::from_fn(|| from.transmit(Time::from_secs(60))).collect();
    assert_eq!((sent.len(), from.result().flows[0].delivered_bytes), (600, 600 * 72));
    let decoded = wire::decode(sent[0].datagram.bytes()).unwrap();
    assert_eq!(decoded.addresses, addresses(&cbr, 0));
    assert_eq!(decoded.addresses.ip, IpPair::V4 { src: assigned(0), dst: assigned(2) });
    let mut to = Network::new(cbr, RunOptions { ports: vec![0], ..RunOptions::default() }).unwrap();
    sent.iter().take(10).for_each(|out| to.receive(out.due, 0, &out.datagram));
    to.wake(Time::from_secs(60));
    let result = to.result();
    assert_eq!((result.flows[0].delivered_bytes, result.flows[0].segments), (10 * 72, 0));
}

fn from_to(src: &str, dst: &str) -> Vec<u8> {
    let [src, dst] = [src, dst].map(|a| a.parse().unwrap());
    datagram_between(IpPair::V4 { src, dst }, 7, 100)
}

/// Returns the port at which a datagram entered at `port` leaves unchanged; `None` if it does not leave.
fn way(network: &mut Network, port: usize, datagram: &[u8]) -> Option<usize> {
    let now = network.next_wake().min(Time::from_millis(1));
    network.receive(now, port, &Datagram::from_ip(datagram));
    let out = network.transmit(Time::from_secs(1 + network.port_stats().received))?;
    assert_eq!(out.datagram.bytes(), datagram);
    Some(out.port)
}

/// Nodes have the given addresses instead of assigned ones, without other effects.
#[test]
fn given_addresses_replace_assigned_addresses() {
    let flow = "[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\nbytes = \"1 MB\"\n";
    let plain = chain(ROUGH, flow);
    let v4 = Ipv4Addr::new(192, 168, 7, 2);
    let mut given = plain.clone();
    given.nodes[2].addresses = NodeAddresses { v4: Some(v4), v6: "fd12::2".parse().ok() };
    assert_eq!(addresses(&given, 0).ip, IpPair::V4 { src: assigned(0), dst: v4 });
    let [plain, simulated] = [plain, given.clone()].map(|s| {
        let mut result = Network::new(s, RunOptions::default()).unwrap().run().unwrap();
        result.wall_s = 0.0;
        format!("{result:?}")
    });
    assert_eq!(plain, simulated);
    let open = Scenario { flows: Vec::new(), ..given };
    let mut network = Network::new(open, RunOptions { ports: vec![0, 2], ..RunOptions::default() }).unwrap();
    assert_eq!(way(&mut network, 0, &from_to("10.0.0.1", "10.0.0.3")), None);
    assert_eq!(way(&mut network, 0, &from_to("10.0.0.1", "192.168.7.2")), Some(1));
    assert_eq!(way(&mut network, 1, &from_to("192.168.7.2", "10.0.0.1")), Some(0));
    assert_eq!((network.port_stats().unreachable, network.port_stats().received), (1, 2));
}

#[test]
fn nodes_route_to_hosts_beyond_them() {
    let prefix = |text: &str, length| Prefix { address: text.parse().unwrap(), length };
    let beyond = vec![(prefix("0.0.0.0", 0), 2), (prefix("10.0.0.0", 20), 0), (prefix("10.0.1.0", 24), 2)];
    let open = chain(PLAIN, "");
    let mut network = Network::new(open, RunOptions { ports: vec![0, 2], beyond, ..RunOptions::default() }).unwrap();
    for (port, src, dst, out) in [
        (0, "10.0.0.1", "203.0.113.9", Some(1)),
        (1, "203.0.113.9", "10.0.0.1", Some(0)),
        (1, "203.0.113.9", "10.0.4.2", Some(0)),
        (0, "10.0.4.2", "203.0.113.9", Some(1)),
        (0, "10.0.4.2", "10.0.1.9", Some(1)), // the longest prefix
        (1, "10.0.0.3", "203.0.113.9", None), // the route leads back to this port
        (0, "10.0.0.1", "224.0.0.251", None),
        (0, "10.0.0.1", "255.255.255.255", None),
        (0, "10.0.0.1", "169.254.0.1", None),
    ] {
        assert_eq!(way(&mut network, port, &from_to(src, dst)), out, "{src} to {dst}");
    }
}

/// A datagram counts as in flight on a link, in reassembly and at a port, until it leaves or is lost or dropped.
#[test]
fn datagrams_are_in_flight_until_they_leave_or_are_lost() {
    let ms = Time::from_millis;
    let open = |link: &str| {
        let link = format!("rate = \"12 Mbit/s\"\ndelay = \"5 ms\"\n{link}");
        Network::new(chain_of([&link, PLAIN], ""), RunOptions { ports: vec![0, 2], ..RunOptions::default() }).unwrap()
    };
    let numbers = |network: &Network| {
        let mut all: Vec<u32> = network.in_flight().map(number).collect();
        all.sort_unstable();
        all
    };
    let send = |network: &mut Network| {
        (0..4).for_each(|i| network.receive(Time::ZERO, 0, &Datagram::from_ip(&datagram(i, 1500))))
    };

    let mut network = open("");
    send(&mut network);
    assert_eq!(numbers(&network), [0, 1, 2, 3]);
    network.wake(ms(20));
    assert_eq!(numbers(&network), [0, 1, 2, 3], "at the port");
    let left = network.transmit(ms(20)).map(|out| number(out.datagram.bytes()));
    assert_eq!((left, numbers(&network)), (Some(0), vec![1, 2, 3]));

    let mut network = open("noise = { kind = \"list\", drop = [1, 3] }");
    send(&mut network);
    network.wake(ms(8));
    assert_eq!(numbers(&network), [0, 2, 3], "the last is still to be lost");
    network.wake(ms(20));
    assert_eq!(numbers(&network), [0, 2]);

    let mut network = open("queue = \"1 pkt\"");
    send(&mut network);
    assert_eq!(numbers(&network), [0, 1], "the others found the queue full");

    // Each datagram has three fragments. The second fragment of datagram 0 and the first of datagram 1 are lost.
    let mut network = open("mtu = \"600 B\"\nnoise = { kind = \"list\", drop = [1, 3] }");
    send(&mut network);
    network.wake(ms(30));
    assert_eq!(numbers(&network), [0, 2, 3], "the first still waits for its fragment");
    let left: Vec<_> =
        std::iter::from_fn(|| network.transmit(ms(30))).map(|out| number(out.datagram.bytes())).collect();
    assert_eq!((left, numbers(&network)), (vec![2, 3], vec![0]));
}

/// Records the largest number of a flow.
#[derive(Default)]
struct LargestFlow(usize);

impl Observer for LargestFlow {
    fn observe(&mut self, _: Time, event: NetworkEvent<'_>) {
        let NetworkEvent::Datagram { at, .. } = event else { return };
        self.0 = self.0.max(at.flow);
    }
}

/// The network forgets conversations: their flows are used again, and every segment still passes.
#[test]
fn a_million_conversations_use_few_flows() {
    let gateway = "[[gateway]]\nname = \"g\"\nkind = \"avoca-rx\"\nnode = \"m\"\nlink = \"second\"";
    let options = RunOptions { ports: vec![0, 2], ..RunOptions::default() };
    let mut network = Network::new(chain(PLAIN, gateway), options).unwrap().observed_by(LargestFlow::default());
    let (mut sent, mut left) = (0, 0);
    let mut p = Packet::tcp(FlowId::new(0, false));
    p.flags = flags::SYN;
    let syn = SynOptions::default();
    p.size = p.header_bytes(syn.header_bytes());
    for i in 0..1_000_000_u32 {
        let [a, b, c, d] = i.to_be_bytes();
        let ip = IpPair::V4 { src: [100, a, b, c].into(), dst: [10, 0, 0, 3].into() };
        let mut bytes = Vec::new();
        let addresses = Addresses { ip, src_port: u16::from(d), dst_port: 80 };
        wire::encode(&p, Some(&SideContent::Syn(syn)), &addresses, &[][..], &mut bytes).unwrap();
        let now = Time::from_micros(10 * u64::from(i));
        network.receive(now, 0, &Datagram::from_ip(&bytes));
        sent += 1;
        left += std::iter::from_fn(|| network.transmit(now)).count();
    }
    left += std::iter::from_fn(|| network.transmit(Time::from_secs(59))).count();
    let stats = network.port_stats();
    assert_eq!((stats.received, stats.sent, stats.unreadable + stats.unreachable), (sent, left as u64, 0));
    assert_eq!(left, 1_000_000);
    assert_eq!(
        network.observer().0,
        MAX_CONVERSATIONS,
        "numbers from 0, and one for the conversation that displaces another"
    );
}
