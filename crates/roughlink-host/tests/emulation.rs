//! Emulated links with a kernel at each end, in namespaces that each test creates and that end with it. Tests are
//! skipped with a message if namespaces or TUN devices are unavailable. No test asserts speed.

#![cfg(target_os = "linux")]

#[path = "common/machine.rs"]
mod machine;

use machine::possible;
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use roughlink_core::net::addresses::addresses;
use roughlink_core::net::{
    InterfaceDirection, LinkChange, LinkReading, Network, NetworkEvent, NoObserver, Observer, RunOptions,
};
use roughlink_core::scenario::Scenario;
use roughlink_core::units::{Rate, Time};
use roughlink_core::wire;
use roughlink_core::wire::IpPair;
use roughlink_host::{
    ChangeRequest, ChangeRequestError, EmulatedHost, Emulation, EmulationResults, EmulationSample, EmulationSettings,
    Live, LoopEnd, Namespace, NodeLocation, Running,
};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

fn parse(text: &str) -> Scenario {
    roughlink_scenario::parse(text, "test", &[], &|_| Err("no files".into())).unwrap_or_else(|e| panic!("{e}")).0
}

/// Returns a scenario with kernel nodes `a` and `b`, a link with the keys `link`, and the tables `more`.
fn pair(link: &str, more: &str) -> Scenario {
    parse(&format!(
        "duration = \"60 s\"\nnode = [{{ name = \"a\", kernel = true }}, {{ name = \"b\", kernel = true }}]\n\
         [[link]]\nname = \"wire\"\nbetween = [\"a\", \"b\"]\n{link}\n{more}"
    ))
}

/// Starts an emulation with all kernel nodes, or prints to standard error why that is impossible.
fn start(scenario: Scenario) -> Option<Running<NoObserver>> {
    start_with(scenario, &EmulationSettings::default())
}

fn start_with(scenario: Scenario, settings: &EmulationSettings) -> Option<Running<NoObserver>> {
    let hosts: Vec<EmulatedHost> =
        scenario.kernels().map(|node| EmulatedHost { node, place: NodeLocation::Own }).collect();
    Some(possible(Emulation::open(scenario, &hosts, settings))?.start(NoObserver))
}

fn finish(running: Running<NoObserver>) -> EmulationResults {
    let outcome = running.finish().0;
    eprintln!("{:?} {:?} {:?}", outcome.lateness, outcome.unhurried, outcome.effort);
    assert_eq!((outcome.overruns, outcome.refused), (Some(0), 0), "{outcome:?}");
    assert_eq!(outcome.ports.unreadable, 0);
    outcome
}

#[expect(clippy::disallowed_methods, reason = "round-trip times are measured")]
fn now() -> Instant {
    Instant::now()
}

/// Returns the time until a host answers an echo request.
fn ping(to: SocketAddr) -> Duration {
    let (family, protocol, request) = match to.ip() {
        IpAddr::V4(_) => (AddressFamily::Inet, SockProtocol::Icmp, 8),
        IpAddr::V6(_) => (AddressFamily::Inet6, SockProtocol::IcmpV6, 128),
    };
    let raw = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol).expect("root of its namespace");
    let socket = UdpSocket::from(raw);
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.connect(to).unwrap();
    let mut message = [request, 0, 0, 0, 0x52, 0x4c, 0, 1];
    let sum: u32 = message.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    // The kernel computes the checksum of ICMPv6.
    message[2..4].copy_from_slice(&(!(sum as u16 + (sum >> 16) as u16)).to_be_bytes());
    let start = now();
    socket.send(&message).unwrap();
    let mut answer = [0; 200];
    loop {
        let n = socket.recv(&mut answer).expect("an answer");
        let icmp = if to.is_ipv4() { &answer[20..n] } else { &answer[..n] };
        if matches!(icmp[0], 0 | 129) && icmp[4..8] == message[4..8] {
            return start.elapsed();
        }
    }
}

#[test]
fn echo_takes_the_delay_of_the_link() {
    let Some(running) = start(pair("rate = \"10 Mbit/s\"\ndelay = \"20 ms\"", "")) else { return };
    let times = running.namespace(0).within(|| {
        // Device 1 is the loopback device, so 2 is the TUN device.
        let all = ["10.0.0.2:0", "[fd00::2]:0", "[fe80::2%2]:0"].map(|to| to.parse().unwrap());
        all.map(|to| [(); 5].map(|()| ping(to)))
    });
    let times = times.unwrap();
    assert!(times.as_flattened().iter().all(|t| *t >= Duration::from_millis(40)), "{times:?}");
    let outcome = finish(running);
    assert_eq!((outcome.ports.received, outcome.ports.sent, outcome.ports.unreachable), (30, 30, 0));
    assert_eq!(outcome.ending, LoopEnd::Stopped);
}

fn await_sample((live, seen): (&Live, &mut u64), is: impl Fn(&EmulationSample) -> bool) -> Arc<EmulationSample> {
    for _ in 0..1000 {
        if let Some(sample) = live.samples(seen).into_iter().find(|s| is(s)) {
            return sample;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("there is no such sample");
}

#[test]
fn running_links_can_be_observed_and_changed() {
    let settings = EmulationSettings { live: true, ..EmulationSettings::default() };
    let Some(running) = start_with(pair("rate = \"10 Mbit/s\"\ndelay = \"20 ms\"", ""), &settings) else { return };
    let live = running.live().expect("it was asked for");
    let mut at = 0;
    let echo = || running.namespace(0).within(|| ping("10.0.0.2:0".parse().unwrap())).unwrap();
    assert!(echo() >= Duration::from_millis(40));
    let sample = await_sample((&live, &mut at), |s| s.links[0][1].packets > 0 && s.lateness.is_some());
    let state = |r: &LinkReading| (r.up, r.rate, r.delay, r.loss);
    let before = (true, Rate::from_mbps(10), Time::from_millis(20), Some(0.0));
    assert_eq!(sample.links[0].each_ref().map(state), [before; 2]);
    assert!(sample.achieved.conversations.iter().any(|c| c.protocol == "ICMP"));

    let ask = |change, directions, outage| live.request(ChangeRequest { link: 0, directions, change, outage });
    let slower = LinkChange { delay: Some(Time::from_millis(70)), ..LinkChange::default() };
    ask(slower.clone(), [true, false], None).unwrap();
    let sample = await_sample((&live, &mut at), |s| s.links[0][0].delay == Time::from_millis(70));
    assert_eq!(state(&sample.links[0][1]), before);
    assert!(echo() >= Duration::from_millis(90));

    // An outage ends after its time or with the next change of `up`.
    let down = LinkChange { up: Some(false), ..LinkChange::default() };
    let up = LinkChange { up: Some(true), ..LinkChange::default() };
    let is = |up: bool| move |s: &EmulationSample| s.links[0].iter().all(|r| r.up == up);
    ask(down.clone(), [true; 2], Some(Time::from_millis(300))).unwrap();
    await_sample((&live, &mut at), is(false));
    await_sample((&live, &mut at), is(true));
    ask(down.clone(), [true; 2], Some(Time::from_secs(3600))).unwrap();
    await_sample((&live, &mut at), is(false));
    ask(up.clone(), [true; 2], None).unwrap();
    await_sample((&live, &mut at), is(true));

    let none = LinkChange { rate: Some(Rate(0)), ..LinkChange::default() };
    assert!(matches!(ask(none, [true; 2], None), Err(ChangeRequestError::Change(_))));
    let outcome = finish(running);
    assert_eq!(ask(slower.clone(), [true; 2], None), Err(ChangeRequestError::Over));
    assert!(live.is_over() && outcome.changes.is_sorted_by_key(|c| c.at));
    let made: Vec<_> = outcome.changes.iter().map(|c| (&c.change, c.directions)).collect();
    let both = [true; 2];
    assert_eq!(made, [(&slower, [true, false]), (&down, both), (&up, both), (&down, both), (&up, both)]);
    assert!(outcome.changes[2].at >= outcome.changes[1].at + Time::from_millis(300));
}

fn transfer(from: &Namespace, to: SocketAddr, bytes: &[u8]) -> std::io::Result<()> {
    from.within(|| {
        let mut stream = TcpStream::connect(to)?;
        stream.set_write_timeout(Some(Duration::from_secs(50)))?;
        stream.write_all(bytes)?;
        stream.shutdown(Shutdown::Write)?;
        stream.read_to_end(&mut Vec::new()).map(drop)
    })
    .unwrap()
}

/// Returns all data of the first connection to `address`.
fn receive(at: &Namespace, address: SocketAddr, ready: impl FnOnce() + Send) -> Vec<u8> {
    at.within(|| {
        let listener = TcpListener::bind(address).unwrap();
        ready();
        let mut stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(Duration::from_secs(50))).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all
    })
    .unwrap()
}

/// Selects Reno: the default of the machine may be any algorithm and may not be allowed here.
fn reno(namespace: &Namespace) {
    let set = || fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno");
    namespace.within(set).unwrap().expect("reno is always there");
}

/// Transfers 3 MB from the first to the second host over IPv4 and over IPv6. All of it must arrive intact.
fn transfer_over_both_ip_versions<O>(running: &Running<O>) {
    let [a, b] = [0, 1].map(|host| running.namespace(host));
    [a, b].into_iter().for_each(reno);
    let sent: Vec<u8> = (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for to in ["10.0.0.2:7000", "[fd00::2]:7000"] {
        let to = to.parse().unwrap();
        let (ready, wait) = std::sync::mpsc::channel();
        let got = thread::scope(|scope| {
            let got = scope.spawn(move || receive(b, to, move || ready.send(()).unwrap()));
            wait.recv().unwrap();
            transfer(a, to, &sent).unwrap();
            got.join().unwrap()
        });
        assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    }
}

#[test]
fn a_transfer_over_a_lossy_link_arrives_intact() {
    let link = "rate = \"50 Mbit/s\"\ndelay = \"3 ms\"\nnoise = { kind = \"burst\", start = \"1 %\", length = [1, 3] }";
    let Some(running) = start(pair(link, "")) else { return };
    transfer_over_both_ip_versions(&running);
    let outcome = finish(running);
    let forward = outcome.result.links[0].forward;
    assert!(forward.lost > 10 && forward.bytes > 6_000_000, "{forward:?}");
    assert_eq!(outcome.ports.unreachable, 0);
}

/// Length of the longest datagram, bytes.
#[derive(Default)]
struct LongestDatagram(usize);

impl Observer for LongestDatagram {
    fn observe(&mut self, _: Time, event: NetworkEvent<'_>) {
        if let NetworkEvent::Datagram { bytes, .. } = event {
            self.0 = self.0.max(bytes.len());
        }
    }
}

/// Kernels exchange long segments with devices; the network has packets of at most the MTU.
#[test]
fn joined_segments_cross_the_network_one_by_one() {
    for layer in ["ip", "ethernet"] {
        let node = |name| format!("{{ name = \"{name}\", kernel = true, layer = \"{layer}\" }}");
        let scenario = parse(&format!(
            "duration = \"60 s\"\nnode = [{}, {}]\n[[link]]\nname = \"wire\"\nbetween = [\"a\", \"b\"]\n\
             rate = \"100 Gbit/s\"\ndelay = \"0 ms\"\nqueue = \"10000 pkt\"",
            node("a"),
            node("b")
        ));
        let hosts = [0, 1].map(|node| EmulatedHost { node, place: NodeLocation::Own });
        let Some(emulation) = possible(Emulation::open(scenario, &hosts, &EmulationSettings::default())) else {
            return;
        };
        let running = emulation.start(LongestDatagram::default());
        transfer_over_both_ip_versions(&running);
        let (outcome, longest) = running.finish();
        assert_eq!((longest.0, outcome.oversized, outcome.refused, outcome.overruns), (1500, 0, 0, Some(0)));
        let conversations = &outcome.achieved.conversations;
        assert_eq!(conversations.len(), 2, "{conversations:?}");
        for forward in conversations.iter().map(|c| &c.forward) {
            assert_eq!((forward.sent, forward.lost), (forward.received, Some(0)));
            assert!(forward.sent.unwrap().packets >= 3_000_000 / 1448, "{forward:?}");
        }
    }
}

/// Datagrams of a flow that arrive.
#[derive(Default)]
struct Arrived(BTreeSet<u32>);

impl Observer for Arrived {
    fn observe(&mut self, _: Time, event: NetworkEvent<'_>) {
        let NetworkEvent::Packet { at, packet: p, .. } = event else { return };
        if at.direction == InterfaceDirection::In {
            self.0.insert(p.seq);
        }
    }
}

#[test]
fn emulation_loses_the_same_datagrams_as_simulation() {
    const COUNT: u32 = 150;
    const SIZE: usize = 400; // with headers
    let link = "rate = \"20 Mbit/s\"\ndelay = \"4 ms\"\nqueue = \"1000 pkt\"\n\
                noise = { kind = \"burst\", start = \"8 %\", length = [1, 4] }";
    let flow = format!(
        "[[flow]]\nname = \"f\"\nkind = \"cbr\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1 Mbit/s\"\npacket = \"{SIZE} B\"\n\
         bytes = \"{} B\"",
        COUNT as usize * (SIZE - 28)
    );
    let mut lists = BTreeSet::new();
    for seed in 1..=5 {
        let simulated = Scenario { seed, ..pair(link, &flow) };
        let mut arrived = Arrived::default();
        Network::new(simulated.clone(), RunOptions::default()).unwrap().observed_by(&mut arrived).run().unwrap();
        assert!((20..COUNT as usize - 10).contains(&arrived.0.len()), "{}", arrived.0.len());

        let Some(running) = start(Scenario { flows: Vec::new(), ..simulated }) else { return };
        let receiver = running.namespace(1).within(|| UdpSocket::bind("10.0.0.2:7000").unwrap()).unwrap();
        let sender = running.namespace(0).within(|| UdpSocket::bind("10.0.0.1:0").unwrap()).unwrap();
        for number in 0..COUNT {
            let mut payload = [0; SIZE - 28];
            payload[..4].copy_from_slice(&number.to_be_bytes());
            sender.send_to(&payload, "10.0.0.2:7000").unwrap();
        }
        receiver.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut got = BTreeSet::new();
        let mut payload = [0; SIZE];
        while receiver.recv(&mut payload).is_ok() {
            got.insert(u32::from_be_bytes(*payload.first_chunk().unwrap()));
        }
        let outcome = finish(running);
        assert_eq!(outcome.ports.received, u64::from(COUNT), "nothing else is sent");
        assert_eq!(got, arrived.0, "seed {seed}");
        lists.insert(got);
    }
    assert_eq!(lists.len(), 5, "another seed, another list");
}

#[test]
fn simulated_and_kernel_traffic_share_a_link() {
    let text = "duration = \"60 s\"\nnode = [{ name = \"a\", kernel = true }, { name = \"m\" }, { name = \"n\" },\n\
                { name = \"b\", kernel = true }]\n\
                [[link]]\nname = \"first\"\nbetween = [\"a\", \"m\"]\nrate = \"100 Mbit/s\"\ndelay = \"1 ms\"\n\
                [[link]]\nname = \"shared\"\nbetween = [\"m\", \"n\"]\nrate = \"8 Mbit/s\"\ndelay = \"2 ms\"\n\
                [[link]]\nname = \"last\"\nbetween = [\"n\", \"b\"]\nrate = \"100 Mbit/s\"\ndelay = \"1 ms\"\n\
                [[flow]]\nname = \"cross\"\nkind = \"cbr\"\nfrom = \"m\"\nto = \"n\"\nrate = \"4 Mbit/s\"\n";
    let Some(running) = start(parse(text)) else { return };
    let [a, b] = [0, 1].map(|host| running.namespace(host));
    [a, b].into_iter().for_each(reno);
    let to = "10.0.0.4:7000".parse().unwrap();
    let sent = vec![7; 1_000_000];
    let (ready, wait) = std::sync::mpsc::channel();
    let got = thread::scope(|scope| {
        let got = scope.spawn(move || receive(b, to, move || ready.send(()).unwrap()));
        wait.recv().unwrap();
        transfer(a, to, &sent).unwrap();
        got.join().unwrap()
    });
    assert_eq!(got, sent);
    let outcome = finish(running);
    let result = &outcome.result;
    let (shared, cross) = (result.links[1].forward, &result.flows[0]);
    // Both figures use the network's time, not the machine's.
    let offered = 4e6 / 8.0 * result.sim_s;
    assert!(cross.delivered_bytes as f64 > offered / 2.0, "{cross:?}");
    assert!(shared.bytes >= 1_000_000 + cross.delivered_bytes, "{shared:?}");
    assert!(shared.bytes as f64 <= 8e6 / 8.0 * result.sim_s + 3000.0, "the link carries no more than its rate");
}

/// Returns the address and port at which a flow of a scenario ends.
fn destination(scenario: &Scenario) -> SocketAddr {
    let a = addresses(scenario, 0);
    match a.ip {
        IpPair::V4 { dst, .. } => (dst, a.dst_port).into(),
        IpPair::V6 { dst, .. } => (dst, a.dst_port).into(),
    }
}

/// Roughlink's TCP and the kernel's each take the role of the sender.
#[test]
fn simulated_tcp_interoperates_with_the_kernel() {
    const BYTES: usize = 400_000;
    for ip in [4, 6] {
        let text = |sender: &str, receiver: &str, loses: &str| {
            format!(
                "duration = \"60 s\"\nnode = [{{ name = \"ours\" }}, {{ name = \"linux\", kernel = true }}]\n\
                 [[link]]\nname = \"wire\"\nbetween = [\"ours\", \"linux\"]\nrate = \"20 Mbit/s\"\ndelay = \"5 ms\"\n\
                 noise = {{ kind = \"random\", loss = \"1 %\", direction = \"{loses}\" }}\n\
                 [[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"{sender}\"\nto = \"{receiver}\"\n\
                 bytes = \"{BYTES} B\"\n\
                 start = \"1 s\"\nip = {ip}"
            )
        };
        let scenario = parse(&text("ours", "linux", "forward"));
        let here = destination(&scenario);
        let Some(running) = start(scenario) else { return };
        let got = receive(running.namespace(0), here, || ());
        thread::sleep(Duration::from_millis(500)); // time for its acknowledgments, so that all arrive
        let outcome = finish(running);
        let mut expected = vec![0; BYTES];
        wire::pattern(1, &mut expected);
        assert!(got == expected, "{} of {BYTES} bytes: {:?}", got.len(), outcome.result.flows);
        assert_eq!(outcome.result.flows[0].delivered_bytes, BYTES as u64);

        let scenario = parse(&text("linux", "ours", "reverse"));
        let there = destination(&scenario);
        let Some(running) = start(scenario) else { return };
        reno(running.namespace(0));
        transfer(running.namespace(0), there, &vec![1; BYTES]).unwrap();
        let outcome = finish(running);
        assert_eq!(outcome.result.flows[0].delivered_bytes, BYTES as u64, "{:?}", outcome.result.flows);
    }
}

/// The emulation ends with the name of the removed device.
#[test]
fn vanished_device_is_detected() {
    let Some(running) = start(pair("rate = \"1 Mbit/s\"\ndelay = \"1 ms\"", "")) else { return };
    let deleted = running.namespace(1).within(|| Command::new("ip").args(["link", "delete", "wire0"]).status());
    assert!(deleted.unwrap().unwrap().success());
    while !running.is_over() {
        thread::sleep(Duration::from_millis(5));
    }
    let EmulationResults { ending, overruns, .. } = running.finish().0;
    assert!(matches!(&ending, LoopEnd::Lost(lost) if lost.device == "wire0"), "{ending:?}");
    assert_eq!(overruns, None, "the count is gone, too");
}

#[test]
fn emulation_ends_with_the_scenario() {
    let mut scenario = pair("rate = \"1 Mbit/s\"\ndelay = \"1 ms\"", "");
    scenario.duration = roughlink_core::units::Time::from_millis(50);
    let Some(running) = start(scenario) else { return };
    while !running.is_over() {
        thread::sleep(Duration::from_millis(5));
    }
    let outcome = running.finish().0;
    assert_eq!((outcome.ending, outcome.result.sim_s), (LoopEnd::Over, 0.05));
    assert!(outcome.lateness.is_none());
}
