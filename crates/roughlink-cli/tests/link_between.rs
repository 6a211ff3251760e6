//! `roughlink link --between`: traffic of two hosts through a machine to which both are connected. All three are
//! namespaces; without the right to create them the tests are skipped, with a message.

#![cfg(target_os = "linux")]

mod common;

use common::emulated::can_emulate;
use common::{code, output, roughlink, roughlink_in, stderr, stdout, with_default_signals};
use roughlink_host::Namespace;
use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A machine with devices `eth1` and `eth2`, and the hosts behind them.
struct Bench {
    machine: Namespace,
    car: Host,
    charger: Host,
}

/// Socket of a host, and the last byte of its address.
struct Host(UdpSocket, u8);

impl Host {
    /// Broadcasts to the sockets of all other hosts. The kernel also delivers broadcasts to their sender.
    fn broadcast(&self, content: &[u8]) {
        self.0.send_to(content, "192.168.7.255:7000").unwrap();
    }

    /// Returns the next datagram of the other host; `None` if none arrives in time.
    fn receive(&self) -> Option<Vec<u8>> {
        let mut buffer = [0; 8];
        loop {
            let (n, from) = self.0.recv_from(&mut buffer).ok()?;
            if from.ip() != IpAddr::from([192, 168, 7, self.1]) {
                return Some(buffer[..n].to_vec());
            }
        }
    }
}

impl Bench {
    /// Creates the namespaces, whose kernels send nothing unless asked; `None` if that is not possible.
    fn new() -> Option<Self> {
        if !can_emulate() {
            return None;
        }
        let new = || Namespace::new().inspect_err(|e| eprintln!("skipped: {e}")).ok();
        let machine = new()?;
        let host = |n: u8| {
            let host = new()?;
            let peer = host.path();
            ip(&machine, &format!("link add eth{n} type veth peer name eth0 netns {}", peer.display()));
            ip(&machine, &format!("link set dev eth{n} addrgenmode none up"));
            ip(&host, "link set dev eth0 addrgenmode none up");
            ip(&host, &format!("address add 192.168.7.{n}/24 broadcast 192.168.7.255 dev eth0"));
            let socket = host.within(|| UdpSocket::bind("0.0.0.0:7000")).unwrap().unwrap();
            socket.set_broadcast(true).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            // The socket keeps its namespace alive.
            Some(Host(socket, n))
        };
        let (car, charger) = (host(1)?, host(2)?);
        Some(Bench { machine, car, charger })
    }

    /// Starts a link between the devices. Late packets do not count, because the machine may be busy with other tests.
    fn start(&self, args: &[&str]) -> Child {
        let mut command = with_default_signals(env!("CARGO_BIN_EXE_roughlink"));
        command.args(["link", "--between", "eth1,eth2", "--rate", "10Mbit/s", "--max-lateness", "10 s"]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.machine.within(|| command.spawn()).unwrap().unwrap()
    }

    fn run(&self, args: &[&str]) -> Output {
        self.machine.within(|| roughlink(args)).unwrap()
    }
}

fn ip(at: &Namespace, line: &str) {
    let done = at.within(|| Command::new("ip").args(line.split(' ')).status()).unwrap().unwrap();
    assert!(done.success(), "ip {line}");
}

/// Sends until the other host receives a datagram; returns the time since the last attempt.
fn send([from, to]: [&Host; 2]) -> Duration {
    for attempt in 0..100_u8 {
        let begin = now();
        from.broadcast(&[attempt]);
        while let Some(received) = to.receive() {
            if received == [attempt] {
                return begin.elapsed();
            }
        }
    }
    panic!("nothing arrived");
}

#[expect(clippy::disallowed_methods, reason = "the link delays datagrams in real time")]
fn now() -> Instant {
    Instant::now()
}

fn interrupt(link: Child) -> Output {
    assert!(Command::new("kill").args(["-INT", &link.id().to_string()]).status().unwrap().success());
    let out = output(link);
    assert_eq!(out.status.signal(), Some(2), "{}", stderr(&out));
    out
}

#[test]
fn both_directions_have_the_delay() {
    let Some(bench) = Bench::new() else { return };
    let link = bench.start(&["--delay", "60 ms"]);
    for ends in [[&bench.car, &bench.charger], [&bench.charger, &bench.car]] {
        let delay = send(ends);
        assert!(delay >= Duration::from_millis(60), "{delay:?}");
    }
    // ARP also crosses the link: 2 delays for request and reply, 2 for the datagrams.
    for host in [&bench.car, &bench.charger] {
        host.0.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    }
    let begin = now();
    bench.car.0.send_to(b"question", "192.168.7.2:7000").unwrap();
    assert_eq!(bench.charger.receive().unwrap(), b"question");
    bench.charger.0.send_to(b"answer", "192.168.7.1:7000").unwrap();
    assert_eq!(bench.car.receive().unwrap(), b"answer");
    let round_trip = begin.elapsed();
    assert!(round_trip >= Duration::from_millis(240), "{round_trip:?}");
    let out = interrupt(link);
    assert!(stderr(&out).starts_with("eth1: attached\neth2: attached\n"), "{}", stderr(&out));
    let arp = |from: &str| stdout(&out).lines().any(|line| line.contains("ARP") && line.contains(from));
    assert!(arp("eth1") && arp("eth2") && stdout(&out).contains("lateness"), "{}", stdout(&out));
}

#[test]
fn full_forward_loss_stops_packets_of_the_first_device() {
    let Some(bench) = Bench::new() else { return };
    let link = bench.start(&["--loss", "100 %", "--set", "link.link.noise.direction=forward"]);
    send([&bench.charger, &bench.car]);
    for _ in 0..10 {
        bench.car.broadcast(b"lost");
    }
    assert_eq!(bench.charger.receive(), None);
    let out = interrupt(link);
    let share = |direction| stdout(&out).lines().any(|line| line.contains(direction) && line.contains("100.00 %"));
    assert!(share("forward") && !share("reverse"), "{}", stdout(&out));
}

#[test]
fn link_ends_after_the_given_duration() {
    let Some(bench) = Bench::new() else { return };
    let link = |args: &[&str]| output(bench.start(&[&["--for", "300 ms"], args].concat()));
    let out = link(&[]);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(stdout(&out).contains("0.300 s simulated"), "{}", stdout(&out));
    let out = link(&["--quiet"]);
    assert_eq!((code(&out), &*stdout(&out), &*stderr(&out)), (0, "", ""));
}

#[test]
fn devices_that_this_machine_also_uses_are_reported() {
    let Some(bench) = Bench::new() else { return };
    ip(&bench.machine, "address add 192.168.7.9/24 dev eth1");
    ip(&bench.machine, "link add br0 type bridge");
    ip(&bench.machine, "link set dev eth2 master br0");
    let out = output(bench.start(&["--for", "100 ms"]));
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    for warning in ["warning: `eth1` has the address 192.168.7.9", "warning: `eth2` belongs to `br0`"] {
        assert!(stderr(&out).contains(warning), "{}", stderr(&out));
    }
}

#[test]
fn generated_scenarios_are_valid() {
    let generate = |args: &[&str]| {
        let out = roughlink(&[&["link", "--generate", "--between"], args].concat());
        assert_eq!(code(&out), 0, "{}", stderr(&out));
        stdout(&out)
    };
    let rates = ["eth1,lab/eth1.5", "--rate-up", "1Mbit/s", "--rate-down", "9Mbit/s"];
    let more = ["--loss", "1 %", "--queue", "20pkt", "--for", "8 h", "--seed", "7", "--set", "link.link.mtu=1400 B"];
    let text = generate(&[&rates[..], &more].concat());
    for line in [
        "duration = \"8 h\"",
        "seed = 7",
        "interface = \"eth1\"",
        "interface = \"lab/eth1.5\"",
        "between = [\"eth1\", \"lab/eth1.5\"]",
        "rate = \"1Mbit/s\"",
        "asymmetric = { rate = \"9Mbit/s\" }",
        "mtu = \"1400 B\"",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("link.toml"), &text).unwrap();
    let out = roughlink_in(&["scenario", "check", "link.toml"], folder.path());
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    let Some(bench) = Bench::new() else { return };
    fs::write(folder.path().join("link.toml"), generate(&["eth1,eth2", "--rate", "1Mbit/s"])).unwrap();
    let args = ["emulate", "link.toml", "--for", "100 ms", "--max-lateness", "10 s"];
    let out = bench.machine.within(|| roughlink_in(&args, folder.path())).unwrap();
    assert_eq!(code(&out), 0, "{}", stderr(&out));
}

#[test]
fn errors_in_devices_are_explained() {
    let explains = |out: &Output, expected: i32, message: &str| {
        assert_eq!(code(out), expected, "{}", stderr(out));
        assert!(stderr(out).contains(message), "{message}: {}", stderr(out));
        assert!(stderr(out).lines().all(|line| line.chars().count() <= 80), "{}", stderr(out));
    };
    let rate = ["--rate", "1Mbit/s"];
    for (args, message) in [
        (&["eth1"][..], "--between eth1: expected two devices"),
        (&["eth1,"], "name two devices, such as --between eth1,eth2"),
        (&["eth1,eth2,eth3"], "expected two devices"),
        (&["eth1,eth1"], "both ends are the same device"),
        (&["eth1,eth2", "--linger", "1 s"], "cannot be used with '--linger"),
        (&["eth1,eth2", "--", "true"], "a link between devices runs no program"),
    ] {
        let out = roughlink(&[&["link"], &rate[..], &["--between"], args].concat());
        explains(&out, 2, message);
    }
    let Some(bench) = Bench::new() else { return };
    let link = |pair: &str| bench.run(&[&["link", "--between", pair], &rate[..]].concat());
    explains(&link("eth1,eht2"), 2, "did you mean `eth2`?");
    explains(&link("eth1,roughlink-nowhere/eth2"), 3, "cannot open the network namespace");
    explains(&link("eth1,lo"), 3, "it is not an Ethernet device");
    explains(&link("eth1,/proc/self/ns/net/eth1"), 3, "already attached to another");
    ip(&bench.machine, "link set dev eth2 down");
    explains(&link("eth1,eth2"), 3, "ip link set up dev");
}
