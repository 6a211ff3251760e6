//! Ethernet between kernels: TAP devices, and attached ends of veth pairs, in namespaces that each test creates. Tests
//! are skipped with a message if namespaces or TUN devices are unavailable.

#![cfg(target_os = "linux")]

#[path = "common/machine.rs"]
mod machine;

use machine::possible;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;
use roughlink_core::net::addresses::addresses;
use roughlink_core::net::{InterfaceDirection, Network, NetworkEvent, NoObserver, Observer, RunOptions};
use roughlink_core::scenario::Scenario;
use roughlink_core::units::Time;
use roughlink_core::wire;
use roughlink_host::{
    EmulatedHost, Emulation, EmulationResults, EmulationSettings, HostError, LoopEnd, Namespace, NodeLocation, Running,
};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv6Addr, Shutdown, SocketAddr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

fn parse(text: &str) -> Scenario {
    roughlink_scenario::parse(text, "test", &[], &|_| Err("no files".into())).unwrap_or_else(|e| panic!("{e}")).0
}

/// Returns a scenario with nodes `a` and `b` with these keys, a link with the keys `link`, and the tables `more`.
fn pair([a, b]: [&str; 2], link: &str, more: &str) -> Scenario {
    parse(&format!(
        "duration = \"60 s\"\nnode = [{{ name = \"a\", {a} }}, {{ name = \"b\", {b} }}]\n\
         [[link]]\nname = \"wire\"\nbetween = [\"a\", \"b\"]\n{link}\n{more}"
    ))
}

const TAP: &str = "kernel = true, layer = \"ethernet\"";
const LINK: &str = "rate = \"50 Mbit/s\"\ndelay = \"2 ms\"";

fn open(scenario: Scenario, settings: EmulationSettings) -> Result<Emulation, HostError> {
    let hosts: Vec<EmulatedHost> =
        scenario.kernels().map(|node| EmulatedHost { node, place: NodeLocation::Own }).collect();
    Emulation::open(scenario, &hosts, &settings)
}

fn start(scenario: Scenario) -> Option<Running<NoObserver>> {
    Some(possible(open(scenario, EmulationSettings::default()))?.start(NoObserver))
}

fn finish(running: Running<NoObserver>) -> EmulationResults {
    let outcome = running.finish().0;
    eprintln!("{:?} {:?}", outcome.lateness, outcome.ports);
    assert_eq!((outcome.overruns, outcome.refused, outcome.oversized), (Some(0), 0, 0), "{outcome:?}");
    outcome
}

fn run(at: &Namespace, line: &str) -> String {
    machine::run(at, line).unwrap_or_else(|e| panic!("{e}"))
}

/// Sends a datagram from `a` to the address `to` at `b`, and an answer back.
fn exchange([a, b]: [&Namespace; 2], to: SocketAddr) {
    let bind = |address| {
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    };
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let (near, far) = (a.within(|| bind(any.parse().unwrap())).unwrap(), b.within(|| bind(to)).unwrap());
    near.send_to(b"question", to).unwrap();
    let mut buffer = [0; 100];
    let (n, from) = far.recv_from(&mut buffer).expect("a question");
    assert_eq!(buffer[..n], *b"question");
    far.send_to(b"answer", from).unwrap();
    let (n, from) = near.recv_from(&mut buffer).expect("an answer");
    assert_eq!((&buffer[..n], from.ip()), (&b"answer"[..], to.ip()));
}

/// Sends `bytes` from `a` to `to` at `b` and checks that they arrive.
fn transfer([a, b]: [&Namespace; 2], to: SocketAddr, bytes: &[u8]) {
    let listener = b.within(|| TcpListener::bind(to).unwrap()).unwrap();
    setsockopt(&listener, sockopt::ReceiveTimeout, &TimeVal::new(30, 0)).unwrap();
    thread::scope(|scope| {
        let got = scope.spawn(move || {
            let mut all = Vec::new();
            let mut stream = listener.accept().unwrap().0;
            stream.set_read_timeout(Some(Duration::from_secs(50))).unwrap();
            stream.read_to_end(&mut all).unwrap();
            all
        });
        let connect = || TcpStream::connect_timeout(&to, Duration::from_secs(20));
        let mut stream = a.within(connect).unwrap().unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert!(got.join().unwrap() == bytes);
    });
}

/// Selects Reno: the default of the machine may be any algorithm and may not be allowed here.
fn reno(namespace: &Namespace) {
    let set = || fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno");
    namespace.within(set).unwrap().expect("reno is always there");
}

fn content(bytes: u32) -> Vec<u8> {
    (0..bytes).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Performs SECC discovery (ISO 15118-2 section 7.10.1): a request to all nodes of the link, answered to the sender.
fn discover([vehicle, charger]: [&Namespace; 2]) {
    let socket = |at: &Namespace, port| {
        let socket = at.within(|| UdpSocket::bind(("::", port)).unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    };
    let (evcc, secc) = (socket(vehicle, 0), socket(charger, 15118));
    let request = [1, 0xfe, 0x90, 0, 0, 0, 0, 2, 0, 0];
    // Device 1 is the loopback.
    let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    evcc.send_to(&request, SocketAddrV6::new(all_nodes, 15118, 0, 2)).unwrap();
    let mut buffer = [0; 100];
    let (n, from) = secc.recv_from(&mut buffer).expect("a request");
    assert_eq!(buffer[..n], request);
    secc.send_to(b"here", from).unwrap();
    assert_eq!(evcc.recv_from(&mut buffer).expect("an answer").0, 4);
}

#[test]
fn hosts_on_an_ethernet_find_each_other() {
    let Some(running) = start(pair([TAP, TAP], LINK, "")) else { return };
    let ends @ [a, b] = [0, 1].map(|host| running.namespace(host));
    // The scenario's addresses need no requests.
    exchange(ends, "10.0.0.2:7000".parse().unwrap());
    exchange(ends, "[fd00::2]:7000".parse().unwrap());
    // ARP and neighbor discovery resolve other addresses.
    for (at, n) in [(a, 1), (b, 2)] {
        run(at, &format!("ip address add 192.168.7.{n}/24 dev wire0"));
        run(at, &format!("ip address add fe80::aa{n}/64 dev wire0 nodad"));
    }
    exchange(ends, "192.168.7.2:7000".parse().unwrap());
    exchange(ends, "[fe80::aa2%2]:7000".parse().unwrap());
    let neighbors = run(a, "ip neighbor show dev wire0");
    for address in ["192.168.7.2", "fe80::aa2"] {
        let line = neighbors.lines().find(|line| line.split(' ').next() == Some(address));
        let found = line.is_some_and(|line| line.contains("02:00:00:00:00:02") && !line.contains("PERMANENT"));
        assert!(found, "{address}: {neighbors}");
    }
    discover(ends);
    finish(running);
}

/// Sends frames of EtherType 0x88e1 from a Python program, the last with a VLAN tag, and checks that another program
/// receives them unchanged. The receiving kernel reports the tag that it has removed.
fn other_frames([a, b]: [&Namespace; 2], device: &str) {
    let python = |at: &Namespace, program: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", program]).stdin(Stdio::null()).stdout(Stdio::piped());
        at.within(|| command.spawn()).unwrap()
    };
    let opened = format!(
        "import socket\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))\n\
         s.bind(('{device}', 3))\n"
    );
    // PACKET_AUXDATA; TP_STATUS_VLAN_VALID
    let receive = "s.setsockopt(263, 8, 1)\ns.settimeout(20)\nprint('ready', flush=True)\nn = 0\nwhile n < 4:\n  \
                   f, c, _, _ = s.recvmsg(3000, 200)\n  if f[12:14] != bytes([0x88, 0xe1]): continue\n  n += 1\n  \
                   a = c[0][2]\n  t = a[18:20][::-1] + a[16:18][::-1] if a[0] & 16 else b''\n  \
                   print((f[:12] + t + f[12:]).hex(), flush=True)";
    let Ok(mut receiver) = python(b, &format!("{opened}{receive}")) else {
        eprintln!("not tried without python3");
        return;
    };
    let mut lines = BufReader::new(receiver.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    let kinds: [(u8, usize, &[u8]); 4] =
        [(0xff, 46, &[]), (0x33, 400, &[]), (0xff, 1500, &[]), (0x33, 1500, &[0x81, 0, 0x20, 5])];
    let frames = kinds.map(|(first, length, tag)| {
        let body: Vec<u8> = (0..length).map(|i| (i * 37) as u8).collect();
        let frame = [&[first; 6][..], &[2, 0, 0, 0, 7, 7], tag, &[0x88, 0xe1], &body[..]].concat();
        frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    });
    let send = frames.iter().map(|frame| format!("s.send(bytes.fromhex('{frame}'))\n")).collect::<String>();
    assert!(python(a, &format!("{opened}{send}")).unwrap().wait().unwrap().success());
    assert_eq!(lines.collect::<Vec<_>>(), frames);
    assert!(receiver.wait().unwrap().success());
}

#[test]
fn any_frame_passes_unchanged() {
    let Some(running) = start(pair([TAP, TAP], LINK, "")) else { return };
    other_frames([0, 1].map(|host| running.namespace(host)), "wire0");
    finish(running);
}

/// Packets of each direction, in order.
#[derive(Default)]
struct Fates {
    entered: Vec<Vec<u8>>,
    left: BTreeSet<Vec<u8>>,
    simulated: BTreeSet<u32>,
}

impl Observer for Fates {
    fn observe(&mut self, _: Time, event: NetworkEvent<'_>) {
        match event {
            NetworkEvent::Packet { at, packet: p, .. } if at.direction == InterfaceDirection::In => {
                self.simulated.insert(p.seq);
            }
            NetworkEvent::Datagram { at, bytes } => match (at.node, at.direction) {
                (0, InterfaceDirection::Out) => self.entered.push(bytes.to_vec()),
                (1, InterfaceDirection::In) => {
                    self.left.insert(bytes.to_vec());
                }
                _ => {}
            },
            _ => {}
        }
    }
}

/// The kernel's reports of multicast groups may be among the packets.
#[test]
fn ethernet_loses_the_same_packets_as_simulation() {
    const COUNT: usize = 150;
    let link = "rate = \"20 Mbit/s\"\ndelay = \"4 ms\"\nqueue = \"1000 pkt\"\n\
                noise = { kind = \"burst\", start = \"8 %\", length = [1, 4] }";
    let flow = "[[flow]]\nname = \"f\"\nkind = \"cbr\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1 Mbit/s\"\n\
                packet = \"400 B\"\nbytes = \"100 kB\"";
    for seed in 1..=3 {
        let simulated = Scenario { seed, ..pair([TAP, TAP], link, flow) };
        let mut fates = Fates::default();
        Network::new(simulated.clone(), RunOptions::default()).unwrap().observed_by(&mut fates).run().unwrap();
        let expected = fates.simulated;
        let scenario = Scenario { flows: Vec::new(), ..simulated };
        let Some(emulation) = possible(open(scenario, EmulationSettings::default())) else { return };
        let running = emulation.start(Fates::default());
        let bind =
            |host: usize, address: &str| running.namespace(host).within(|| UdpSocket::bind(address).unwrap()).unwrap();
        let (sender, receiver) = (bind(0, "10.0.0.1:0"), bind(1, "10.0.0.2:7000"));
        receiver.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        for number in 0..COUNT {
            let mut payload = [0; 372];
            payload[..8].copy_from_slice(&number.to_be_bytes());
            sender.send_to(&payload, "10.0.0.2:7000").unwrap();
        }
        let mut got = 0;
        while receiver.recv(&mut [0; 400]).is_ok() {
            got += 1;
        }
        let (outcome, fates) = running.finish();
        assert_eq!((outcome.overruns, outcome.refused), (Some(0), 0), "{outcome:?}");
        assert!(fates.entered.len() >= COUNT && (40..COUNT - 10).contains(&got), "{} {got}", fates.entered.len());
        for (number, bytes) in fates.entered.iter().enumerate() {
            // Identical packets are indistinguishable.
            if fates.entered.iter().filter(|other| *other == bytes).count() == 1 {
                assert_eq!(fates.left.contains(bytes), expected.contains(&(number as u32)), "seed {seed}: {number}");
            }
        }
    }
}

/// A kernel reports its groups (MLD, RFC 3810), in varying number, when it gets an address or a program joins one.
#[test]
fn kernels_send_only_packets_of_programs() {
    const COUNT: u64 = 6;
    let link = format!("{LINK}\nnoise = {{ kind = \"list\", drop = [3] }}");
    let Some(running) = start(pair([TAP, TAP], &link, "")) else { return };
    let ends = [0, 1].map(|host| running.namespace(host));
    for [here, there] in [[0, 1], [1, 0]] {
        let bind = |host: usize| {
            let socket = ends[host].within(|| UdpSocket::bind(format!("[fd00::{}]:7000", host + 1)).unwrap()).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            socket
        };
        let (sender, receiver) = (bind(here), bind(there));
        let member = ends[there].within(|| UdpSocket::bind("[::]:0").unwrap()).unwrap();
        member.join_multicast_v6(&"ff02::1234".parse().unwrap(), 2).unwrap();
        for number in 0..COUNT {
            sender.send_to(&[number as u8], format!("[fd00::{}]:7000", there + 1)).unwrap();
            // Kernels repeat reports for a second (RFC 3810 section 9.11).
            thread::sleep(Duration::from_millis(200));
        }
        let mut byte = [0];
        let arrived: Vec<u8> = std::iter::from_fn(|| receiver.recv(&mut byte).ok().map(|_| byte[0])).collect();
        assert_eq!(arrived, [0, 1, 2, 4, 5], "number 3 from host {here}, counted from 0");
    }
    assert_eq!(finish(running).ports.received, 2 * COUNT);
}

/// Roughlink's TCP and the kernel's communicate; only the kernel's node is on the Ethernet.
#[test]
fn simulated_tcp_interoperates_with_the_kernel_on_ethernet() {
    const BYTES: usize = 300_000;
    for (ip, sender, receiver) in [(4, "a", "b"), (6, "b", "a")] {
        let flow = format!(
            "[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"{sender}\"\nto = \"{receiver}\"\nbytes = \"{BYTES} B\"\n\
             start = \"500 ms\"\nip = {ip}"
        );
        let scenario = pair(["kernel = false", TAP], LINK, &flow);
        let there = addresses(&scenario, 0).sockets()[1];
        let Some(running) = start(scenario) else { return };
        let kernel = running.namespace(0);
        reno(kernel);
        if sender == "a" {
            let mut got = Vec::new();
            let listener = kernel.within(|| TcpListener::bind(there).unwrap()).unwrap();
            listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
            let mut expected = vec![0; BYTES];
            wire::pattern(1, &mut expected);
            assert!(got == expected, "{} bytes", got.len());
            thread::sleep(Duration::from_millis(300)); // time for its last acknowledgment
        } else {
            let mut stream = kernel.within(|| TcpStream::connect(there)).unwrap().unwrap();
            stream.write_all(&vec![1; BYTES]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
        }
        let outcome = finish(running);
        assert_eq!(outcome.result.flows[0].delivered_bytes, BYTES as u64, "{:?}", outcome.result.flows);
    }
}

#[test]
fn ethernet_and_ip_hosts_communicate() {
    let Some(running) = start(pair([TAP, "kernel = true"], LINK, "")) else { return };
    let ends = [0, 1].map(|host| running.namespace(host));
    ends.into_iter().for_each(reno);
    exchange(ends, "10.0.0.2:7000".parse().unwrap());
    exchange([ends[1], ends[0]], "[fd00::1]:7000".parse().unwrap());
    transfer(ends, "10.0.0.2:7001".parse().unwrap(), &content(200_000));
    running.finish();
}

/// The machine forwards to a host that no station on the Ethernet announces.
#[test]
fn machine_forwards_beyond_the_ethernet() {
    let new = || possible(Namespace::new());
    let (Some(machine), Some(world)) = (new(), new()) else { return };
    run(&machine, &format!("ip link add out type veth peer name eth0 netns {}", world.path().display()));
    for (at, device, n) in [(&machine, "out", 1), (&world, "eth0", 2)] {
        run(at, &format!("ip link set dev {device} up"));
        run(at, &format!("ip address add 192.168.9.{n}/24 dev {device}"));
        run(at, &format!("ip address add fd99::{n}/64 dev {device} nodad"));
    }
    run(&world, "ip route add 10.0.0.0/24 via 192.168.9.1");
    run(&world, "ip route add fd00::/64 via fd99::1");
    let files = ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"];
    machine.within(|| files.map(|file| fs::write(file, "1").unwrap())).unwrap();
    for keys in [[TAP, TAP], ["kernel = true", TAP], [TAP, "kernel = true"]] {
        let hosts =
            [EmulatedHost { node: 0, place: NodeLocation::Here }, EmulatedHost { node: 1, place: NodeLocation::Own }];
        let open = || Emulation::open(pair(keys, LINK, ""), &hosts, &EmulationSettings::default());
        // A program started by another test may hold the previous case's descriptor, and the device, for a while.
        let mut opened = machine.within(open).unwrap();
        for _ in 0..500 {
            if !matches!(opened, Err(HostError::Taken { .. })) {
                break;
            }
            thread::sleep(Duration::from_millis(10));
            opened = machine.within(open).unwrap();
        }
        let Some(emulation) = possible(opened) else { return };
        let running = emulation.start(NoObserver);
        for to in ["192.168.9.2:7000", "[fd99::2]:7000"] {
            exchange([running.namespace(1), &world], to.parse().unwrap());
        }
        finish(running);
    }
}

/// Machine with two network devices, `one` and `two`, each connected to another machine with a device `eth0`.
struct Machines {
    bridge: Namespace,
    hosts: [Namespace; 2],
}

impl Machines {
    fn new() -> Option<Self> {
        let new = || possible(Namespace::new());
        let machines = Machines { bridge: new()?, hosts: [new()?, new()?] };
        for (i, (name, host)) in ["one", "two"].into_iter().zip(&machines.hosts).enumerate() {
            let there = host.path();
            run(&machines.bridge, &format!("ip link add {name} type veth peer name eth0 netns {}", there.display()));
            run(&machines.bridge, &format!("ip link set dev {name} addrgenmode none up"));
            run(host, "ip link set dev eth0 up");
            run(host, &format!("ip address add 192.168.9.{}/24 dev eth0", i + 1));
            run(host, &format!("ip address add fe80::bb{}/64 dev eth0 nodad", i + 1));
            reno(host);
        }
        Some(machines)
    }

    /// Returns the key that attaches a device.
    fn interface(&self, name: &str) -> String {
        format!("interface = \"{}/{name}\"", self.bridge.path().display())
    }

    /// Opens an emulation on the machine between the two others.
    fn open(&self, link: &str) -> Result<Emulation, HostError> {
        let keys = ["one", "two"].map(|name| self.interface(name));
        open(pair([&keys[0], &keys[1]], link, ""), EmulationSettings::default())
    }
}

#[test]
fn two_attached_devices_form_a_bridge() {
    let Some(machines) = Machines::new() else { return };
    let ends = [&machines.hosts[0], &machines.hosts[1]];
    let noisy = format!("{LINK}\nnoise = {{ kind = \"random\", loss = \"1 %\" }}");
    let Some(emulation) = possible(machines.open(&noisy)) else { return };
    assert!(emulation.warnings().is_empty());
    assert_eq!(
        emulation.hosts().map(|(node, device, all)| (node, device, all.len())).collect::<Vec<_>>(),
        [("a", "one", 0), ("b", "two", 0)]
    );
    assert!(run(&machines.bridge, "ip -d link show dev one").contains("promiscuity 1"));
    let running = emulation.start(NoObserver);
    // Offloads of these devices are on: segments arrive joined and without their checksums.
    transfer(ends, "192.168.9.2:7000".parse().unwrap(), &content(3_000_000));
    let outcome = running.finish().0;
    assert_eq!((outcome.overruns, outcome.oversized), (Some(0), 0), "{outcome:?}");
    let forward = outcome.result.links[0].forward;
    assert!(forward.lost > 5 && forward.packets > 2000, "{forward:?}");
    assert!(run(&machines.bridge, "ip -d link show dev one").contains("promiscuity 0"), "as it was");

    let Some(running) = possible(machines.open(LINK)).map(|emulation| emulation.start(NoObserver)) else { return };
    exchange(ends, "192.168.9.2:7000".parse().unwrap());
    exchange(ends, "[fe80::bb2%2]:7000".parse().unwrap());
    discover(ends);
    other_frames(ends, "eth0");
    assert_eq!(running.finish().0.oversized, 0);
}

/// A kernel node with layer `ip` and a silent attached host reach each other without static neighbor entries.
#[test]
fn a_silent_host_is_found() {
    let Some(machines) = Machines::new() else { return };
    let host = &machines.hosts[0];
    run(host, "ip address add 10.0.0.2/24 dev eth0");
    run(host, "ip address add fd00::2/64 dev eth0 nodad");
    let scenario = || pair(["kernel = true", &machines.interface("one")], LINK, "");
    for version in [4, 6] {
        let [near, far] =
            if version == 4 { ["10.0.0.1:7000", "10.0.0.2:7000"] } else { ["[fd00::1]:7000", "[fd00::2]:7000"] };
        let Some(running) = start(scenario()) else { return };
        let kernel = running.namespace(0);
        reno(kernel);
        transfer([kernel, host], far.parse().unwrap(), &content(100_000));
        // Flush the host's neighbor table, so that it sends a request.
        run(host, &format!("ip -{version} neighbor flush dev eth0"));
        exchange([host, kernel], near.parse().unwrap());
        assert_eq!(finish(running).unanswered, 0);
    }
    // A missing host does not answer.
    run(host, "ip address delete 10.0.0.2/24 dev eth0");
    let Some(running) = start(scenario()) else { return };
    let socket = running.namespace(0).within(|| UdpSocket::bind("10.0.0.1:0").unwrap()).unwrap();
    socket.send_to(b"question", "10.0.0.2:7000").unwrap();
    thread::sleep(Duration::from_millis(500));
    assert_eq!(finish(running).unanswered, 1);
}

/// The datagrams are passed to the kernel in one call with `UDP_SEGMENT`, as in QUIC implementations.
#[test]
fn segmented_datagrams_cross_the_link_one_by_one() {
    let Some(machines) = Machines::new() else { return };
    let [a, b] = [&machines.hosts[0], &machines.hosts[1]];
    let Some(running) = possible(machines.open(LINK)).map(|emulation| emulation.start(NoObserver)) else { return };
    for (to, any) in [("192.168.9.2:7000", "0.0.0.0:0"), ("[fe80::bb2%2]:7000", "[::]:0")] {
        let to: SocketAddr = to.parse().unwrap();
        let (near, far) = (a.within(|| UdpSocket::bind(any).unwrap()), b.within(|| UdpSocket::bind(to).unwrap()));
        let (near, far) = (near.unwrap(), far.unwrap());
        far.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        setsockopt(&near, sockopt::UdpGsoSegment, &1200).expect("Linux has it since 4.18");
        let sent = content(10 * 1200 + 500);
        near.send_to(&sent, to).unwrap();
        let mut buffer = [0; 3000];
        for (number, part) in sent.chunks(1200).enumerate() {
            let n = match far.recv(&mut buffer) {
                Err(_) if kernel() < (6, 2) => {
                    eprintln!("skipped: before Linux 6.2 a packet socket is not given what is joined");
                    assert!(finish(running).oversized > 0);
                    return;
                }
                n => n.unwrap_or_else(|e| panic!("datagram {number}: {e}")),
            };
            assert!(buffer[..n] == *part, "datagram {number} of {n} bytes");
        }
    }
    let outcome = finish(running);
    assert!(outcome.result.links[0].forward.packets >= 22, "{:?}", outcome.result.links[0].forward);
}

fn kernel() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = text.split(['.', '-']).map(|n| n.trim().parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn loss_of_an_attached_device_ends_the_emulation() {
    let Some(machines) = Machines::new() else { return };
    for (how, name) in [("ip link set dev two down", "two"), ("ip link delete dev one", "one")] {
        let Some(emulation) = possible(machines.open(LINK)) else { return };
        let running = emulation.start(NoObserver);
        run(&machines.bridge, how);
        while !running.is_over() {
            thread::sleep(Duration::from_millis(5));
        }
        let ending = running.finish().0.ending;
        assert!(matches!(&ending, LoopEnd::Lost(lost) if lost.device == name), "{how}: {ending:?}");
        run(&machines.bridge, "ip link set dev two up");
    }
}

#[test]
fn unsuitable_devices_are_refused() {
    let Some(machines) = Machines::new() else { return };
    let attach =
        |name: &str| open(pair([&machines.interface(name), "kernel = true"], LINK, ""), EmulationSettings::default());
    run(&machines.bridge, "ip address add 10.9.9.9/24 dev one");
    run(&machines.bridge, "ip link set dev two down");
    let Some(emulation) = possible(attach("one")) else { return };
    let warnings = emulation.warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("`one` has the address 10.9.9.9"), "{warnings:?}");
    let refused = |name| attach(name).err().expect("it is refused");
    match refused("too") {
        HostError::NoInterface { name, there } => assert!(name == "too" && there.contains(&"two".into()), "{there:?}"),
        e => panic!("{e}"),
    }
    for (name, said) in [("lo", "is not an Ethernet device"), ("two", "is down")] {
        assert!(refused(name).to_string().contains(said), "{name}");
    }
    let e =
        open(pair(["interface = \"no-such-namespace/eth0\"", "kernel = true"], LINK, ""), EmulationSettings::default());
    assert!(e.err().expect("there is none").to_string().contains("no-such-namespace"));
}

#[test]
fn carrier_follows_the_link() {
    let link = format!("{LINK}\ntimeline = [{{ at = \"500 ms\", up = false }}, {{ at = \"3 s\", up = true }}]");
    for keys in ["kernel = true", TAP] {
        let settings = EmulationSettings { carrier: true, ..EmulationSettings::default() };
        let Some(emulation) = possible(open(pair([keys, keys], &link, ""), settings)) else { return };
        let has = |at: &Namespace| !run(at, "ip -o link show dev wire0").contains("NO-CARRIER");
        assert!(has(emulation.namespace(0)) && has(emulation.namespace(1)));
        let running = emulation.start(NoObserver);
        for up in [false, true] {
            for host in [0, 1] {
                while has(running.namespace(host)) != up {
                    assert!(!running.is_over(), "{keys}: carrier {up}");
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
        exchange([0, 1].map(|host| running.namespace(host)), "10.0.0.2:7000".parse().unwrap());
        running.finish();
    }
}
