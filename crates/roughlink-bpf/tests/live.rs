//! Algorithms in the running kernel, with real connections between two network namespaces that the test creates.
#![cfg(feature = "kernel")]

use nix::sys::socket::{setsockopt, sockopt};
use roughlink_bpf::catalogue::ENTRIES;
use roughlink_bpf::check::needs;
use roughlink_bpf::defaults::{default_of, holders, registered, set_default};
use roughlink_bpf::event::{EventKind, EventRecord};
use roughlink_bpf::load::LoadRequest;
use roughlink_bpf::pinned::{LoadedAlgorithm, Pinned, unload};
use roughlink_bpf::replay::{InKernel, InRust, agree, for_replay};
use roughlink_host::Namespace;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// Two namespaces with a link between them, removed on drop.
struct Pair {
    names: [String; 2],
}

/// Address of the second namespace of a pair.
const FAR: &str = "10.77.0.2";

impl Pair {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::SeqCst);
        let pair = Pair { names: ["a", "b"].map(|side| format!("rlcc{}-{n}{side}", std::process::id())) };
        let [a, b] = &pair.names;
        for words in [
            format!("netns add {a}"),
            format!("netns add {b}"),
            format!("-n {a} link add v0 type veth peer name v0 netns {b}"),
            format!("-n {a} addr add 10.77.0.1/24 dev v0"),
            format!("-n {b} addr add {FAR}/24 dev v0"),
            format!("-n {a} link set v0 up"),
            format!("-n {b} link set v0 up"),
            format!("-n {a} link set lo up"),
        ] {
            let done = Command::new("ip").args(words.split(' ')).status().expect("ip runs");
            assert!(done.success(), "ip {words}");
        }
        pair
    }

    fn place(&self, side: usize) -> (String, Namespace) {
        let name = &self.names[side];
        (name.clone(), Namespace::named(name).expect("it was made"))
    }

    fn within<T: Send>(&self, side: usize, work: impl FnOnce() -> T + Send) -> T {
        self.place(side).1.within(work).expect("it can be joined")
    }

    fn command(&self, side: usize, words: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[side]]).args(words.split(' ')).stdin(Stdio::null());
        command
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

/// Returns the reason if the kernel cannot be tested here.
fn unable() -> Option<String> {
    let lacks = needs().into_iter().find(|need| need.name != "load" && need.fix.is_some());
    let no_ip = || Command::new("ip").arg("-V").stdout(Stdio::null()).status().is_err().then(|| "no `ip`".to_owned());
    lacks.map(|need| format!("{}: {}", need.name, need.found)).or_else(no_ip)
}

macro_rules! or_skip {
    () => {
        if let Some(reason) = unable() {
            println!("skipped: {reason}");
            return;
        }
    };
}

/// A loaded algorithm, removed on drop even if the test fails.
struct LoadGuard(String, Option<LoadedAlgorithm>);

impl LoadGuard {
    fn pin(&mut self, persist: bool) {
        let pinned = self.1.as_mut().expect("it is loaded").pin(&self.0, persist);
        pinned.expect("the BPF file system");
    }

    fn end(&mut self) {
        self.1 = None;
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.end();
        let _ = unload(&self.0);
    }
}

/// Loads `algorithm` under a name that no other test uses.
fn loaded(algorithm: &str, name: &str) -> (LoadRequest, LoadGuard) {
    let mut request = LoadRequest::new(algorithm).expect("a name");
    request.name = name.to_owned();
    let guard = guarded(&request);
    (request, guard)
}

fn guarded(request: &LoadRequest) -> LoadGuard {
    let loaded = request.load().unwrap_or_else(|e| panic!("{}: {e}", request.entry.name));
    LoadGuard(request.name.clone(), Some(loaded))
}

fn connect(name: &str) -> TcpStream {
    let stream = TcpStream::connect((FAR, 7777)).expect("somebody listens");
    stream.set_write_timeout(Some(Duration::from_secs(20))).expect("a socket");
    setsockopt(&stream, sockopt::TcpCongestion, &name.into()).expect("the kernel has it");
    stream
}

/// Reads until the other end closes and returns the number of bytes.
fn drain(mut stream: TcpStream) -> usize {
    let mut buffer = vec![0; 1 << 16];
    let mut sum = 0;
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        sum += n;
    }
    sum
}

/// Accepts and reads connections at the far side until `stop`, and returns the bytes of each.
fn listen(pair: &Pair, stop: &AtomicBool) -> Vec<usize> {
    let listener = pair.within(1, || TcpListener::bind((FAR, 7777)).expect("the address is there"));
    listener.set_nonblocking(true).expect("a socket");
    let mut readers = Vec::new();
    loop {
        // Read `stop` first, so that connections made before it was set are still served.
        let stopped = stop.load(Ordering::SeqCst);
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).expect("a socket");
                stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
                readers.push(thread::spawn(move || drain(stream)));
            }
            Err(_) if stopped => break,
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
    readers.into_iter().map(|r| r.join().expect("it reads")).collect()
}

/// Runs `work` in the near namespace while the far one reads, and returns the bytes of each connection.
fn with_listener(pair: &Pair, work: impl FnOnce() + Send) -> Vec<usize> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| listen(pair, &stop));
        thread::sleep(Duration::from_millis(50));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pair.within(0, work)));
        stop.store(true, Ordering::SeqCst);
        let read = reader.join().expect("it listens");
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
        read
    })
}

#[test]
fn each_algorithm_passes_the_verifier_and_carries_data() {
    or_skip!();
    let pair = Pair::new();
    for (i, entry) in ENTRIES.iter().enumerate() {
        let (request, _loaded) = loaded(entry.name, &format!("carry{i}"));
        let arrived = with_listener(&pair, || {
            let mut stream = connect(&request.name);
            stream.write_all(&vec![7; 5_000_000]).expect("the connection lives");
        });
        assert_eq!(arrived, [5_000_000], "{}", entry.name);
    }
}

#[test]
fn each_algorithm_carries_iperf3_both_ways() {
    or_skip!();
    if Command::new("iperf3").arg("-v").stdout(Stdio::null()).status().is_err() {
        println!("skipped: no iperf3");
        return;
    }
    let pair = Pair::new();
    for (i, entry) in ENTRIES.iter().enumerate() {
        let (request, _loaded) = loaded(entry.name, &format!("iperf{i}"));
        for direction in ["", " -R"] {
            let mut server = pair.command(1, "timeout 20 iperf3 -s -1").stdout(Stdio::null()).spawn().expect("iperf3");
            thread::sleep(Duration::from_millis(200));
            let words = format!("timeout 20 iperf3 -c {FAR} -n 20M -J -C {}{direction}", request.name);
            let out = pair.command(0, &words).output().expect("iperf3");
            let text = String::from_utf8_lossy(&out.stdout);
            assert!(out.status.success(), "{}{direction}: {text}", entry.name);
            assert!(text.contains(&format!("\"sender_tcp_congestion\":\t\"{}\"", request.name)), "{direction}: {text}");
            server.wait().expect("it ends");
        }
    }
}

#[test]
fn a_thousand_connections_are_opened_and_killed() {
    or_skip!();
    let pair = Pair::new();
    let (request, mut held) = loaded("illinois", "thousand");
    held.pin(false);
    with_listener(&pair, || {
        for i in 0..1000 {
            let mut stream = connect(&request.name);
            stream.write_all(&[1; 3000]).expect("the connection lives");
            if i % 2 == 0 {
                // Reset instead of FIN.
                let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
                setsockopt(&stream, sockopt::Linger, &linger).expect("a socket");
            }
        }
    });
    let counters = Pinned::find(&request.name).and_then(|p| p.counters()).expect("it is there");
    assert_eq!(counters.opened, 1000, "{counters:?}");
    assert!(counters.closed >= 990 && counters.closed <= 1000, "{counters:?}");
    held.end();
    assert!(unload(&request.name).is_ok());
    assert!(Pinned::find(&request.name).is_err());
}

#[test]
fn loading_and_unloading_works_a_hundred_times_under_traffic() {
    or_skip!();
    let pair = Pair::new();
    let arrived = with_listener(&pair, || {
        let mut streams = Vec::new();
        for i in 0..100 {
            let (request, mut held) = loaded(ENTRIES[i % ENTRIES.len()].name, "again");
            let mut stream = connect(&request.name);
            stream.write_all(&[5; 200_000]).expect("the connection lives");
            held.end();
            // The connection keeps the unregistered algorithm.
            stream.write_all(&[5; 100_000]).expect("the connection lives");
            streams.push(stream);
            let is_there = || registered().expect("/proc").contains(&request.name);
            let gone = (0..5000).any(|_| {
                thread::sleep(Duration::from_millis(1));
                !is_there()
            });
            assert!(gone, "round {i}");
        }
    });
    assert_eq!(arrived.len(), 100);
    assert!(arrived.iter().all(|n| *n == 300_000), "{arrived:?}");
}

#[test]
fn unloading_resets_the_default_of_every_namespace() {
    or_skip!();
    let pair = Pair::new();
    let (request, mut held) = loaded("newreno-sc", "default1");
    held.pin(true);
    held.end();
    let place = pair.place(0);
    let before = default_of(&place).expect("a default");
    set_default(&place, &request.name).expect("it may be a default");
    assert_eq!(holders(&request.name).expect("they can be looked at").len(), 1);
    let arrived = with_listener(&pair, || {
        // The socket gets the algorithm because it is the default; it does not select it.
        let mut stream = TcpStream::connect((FAR, 7777)).expect("somebody listens");
        stream.write_all(&[1; 100_000]).expect("the connection lives");
    });
    assert_eq!(arrived, [100_000]);
    assert!(Pinned::find(&request.name).and_then(|p| p.counters()).expect("pinned").opened >= 1);
    let done = unload(&request.name).expect("it was loaded");
    assert_eq!(done.namespaces.len(), 1);
    assert_eq!(default_of(&place).expect("a default"), before);
    assert!(holders(&request.name).expect("they can be looked at").is_empty());
    assert!(!registered().expect("/proc").contains(&request.name));
    assert!(unload(&request.name).is_err(), "it is gone");
}

/// Any user may create a namespace and set its default, as often as they like.
#[test]
fn unload_does_not_race_with_other_users() {
    or_skip!();
    let pair = Pair::new();
    let (request, mut held) = loaded("newreno-sc", "race");
    held.pin(true);
    held.end();
    // No other user may hold the link open.
    let folder = format!("/sys/fs/bpf/roughlink/{}", request.name);
    assert_eq!(std::fs::metadata(folder).expect("pinned").permissions().mode() & 0o777, 0o700);
    let place = pair.place(0);
    let set = AtomicU32::new(0);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                set.fetch_add(set_default(&place, &request.name).is_ok().into(), Ordering::Relaxed);
            }
        });
        while set.load(Ordering::Relaxed) < 10 {
            thread::yield_now();
        }
        let done = unload(&request.name);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(done.expect("it was loaded").namespaces.len(), 1);
    });
    assert!(holders(&request.name).expect("they can be looked at").is_empty());
    assert!(set_default(&place, &request.name).is_err());
}

#[test]
fn unload_resets_namespace_that_outlives_the_loader() {
    or_skip!();
    let pair = Pair::new();
    let (request, mut held) = loaded("newreno", "outlived");
    let place = pair.place(0);
    set_default(&place, &request.name).expect("it may be a default");
    held.end();
    assert_eq!(default_of(&place).expect("a default"), request.name, "the kernel keeps it");
    assert_eq!(unload(&request.name).expect("something is left").namespaces.len(), 1);
    assert!(holders(&request.name).expect("they can be looked at").is_empty());
}

#[test]
fn names_load_once_and_kernel_algorithms_cannot_be_unloaded() {
    or_skip!();
    let (request, _held) = loaded("newreno", "twice");
    assert!(request.load().unwrap_err().to_string().contains("already"));
    assert!(unload("cubic").is_err(), "it is the kernel's own");
    assert!(registered().expect("/proc").contains(&"cubic".to_owned()));
}

/// Writes pieces of these sizes over a connection of the pinned algorithm `name`, 0.3 s apart, and returns its events.
fn recorded(pair: &Pair, name: &str, pieces: &[usize]) -> Vec<EventRecord> {
    let pinned = Pinned::find(name).expect("it is pinned");
    let mut recorded = Vec::new();
    thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            thread::sleep(Duration::from_millis(200));
            with_listener(pair, || {
                let mut stream = connect(name);
                stream.set_nodelay(true).expect("a socket");
                for (i, &piece) in pieces.iter().enumerate() {
                    thread::sleep(Duration::from_millis(if i == 0 { 0 } else { 300 }));
                    stream.write_all(&vec![1; piece]).expect("the connection lives");
                }
            })
        });
        let mut rounds = 0;
        let follow = pinned.follow(true, |events| {
            recorded.extend_from_slice(events);
            rounds += 1;
            rounds < 2000 && !recorded.iter().any(|e: &EventRecord| e.kind == EventKind::Closed)
        });
        follow.expect("it can be followed");
        assert_eq!(traffic.join().expect("it runs"), [pieces.iter().sum::<usize>()]);
    });
    assert_eq!(pinned.counters().expect("pinned").not_recorded, 0);
    recorded
}

/// A mark reduces the window of `rough` to 70 %. A loss keeps it, also one that a tail loss probe repairs: the kernel
/// then enters TCP_CA_CWR, as after a mark.
#[test]
fn rough_tells_marks_from_repaired_losses() {
    or_skip!();
    if Command::new("iptables").arg("-V").stdout(Stdio::null()).status().is_err() {
        println!("skipped: no `iptables`");
        return;
    }
    // A queue of up to 100 segments, so that 70 % of the window differ clearly from all of it.
    let mut request = LoadRequest::new("rough").expect("a name");
    request.name = "marks".into();
    request.parameters.insert("queue_quarters".into(), 400.into());
    request.parameters.insert("compete".into(), false.into());
    let mut held = guarded(&request);
    held.pin(false);
    let tails = [14 * 1448 + 100; 8];
    for (what, rule, pieces, state) in [
        (
            "marks",
            "-t mangle -A PREROUTING -p tcp -m statistic --mode nth --every 600 --packet 99 -j TOS --set-tos 3/3",
            &[15_000_000][..],
            2,
        ),
        ("losses", "-A INPUT -p tcp -m statistic --mode nth --every 600 --packet 99 -j DROP", &[9_000_000][..], 3),
        (
            "losses at the end",
            "-A INPUT -p tcp -m length --length 152 -m statistic --mode nth --every 2 --packet 0 -j DROP",
            &tails,
            2,
        ),
    ] {
        let pair = Pair::new();
        for side in [0, 1] {
            for words in [
                "sysctl -qw net.ipv4.tcp_ecn=1",
                "ip link set v0 gso_max_segs 1",
                "tc qdisc add dev v0 root tbf rate 100mbit burst 4kb limit 1mb", // windows of 40 segments
            ] {
                assert!(pair.command(side, words).status().is_ok_and(|s| s.success()), "{words}");
            }
        }
        let rule = format!("iptables {rule}");
        if !pair.command(1, &rule).status().is_ok_and(|s| s.success()) {
            println!("skipped: the kernel lacks a part of `{rule}`");
            return;
        }
        let events = recorded(&pair, &request.name, pieces);
        // An ACK reports the window before it.
        let acks = |from: usize| events[from..].iter().filter(|e| e.kind == EventKind::Ack);
        let mut episodes = 0;
        for (i, _) in events.iter().enumerate().filter(|(_, e)| e.kind == EventKind::Congestion) {
            let entered = events[i..].iter().find(|e| e.kind == EventKind::State).expect("a state");
            let mut after = acks(i);
            let (Some(first), Some(second)) = (after.next(), after.next()) else { break };
            if entered.state != state || first.cwnd < 17 {
                continue; // the link itself may lose packets; 70 % of a small window are close to all of it
            }
            assert_eq!(first.ecn_echo, what == "marks", "{what}: {first:?}");
            // The ACK itself also changes the window a little.
            let reduced = second.cwnd <= first.cwnd * 7 / 10 + 3;
            let kept = second.cwnd + 2 >= first.cwnd;
            assert!(if what == "marks" { reduced } else { kept }, "{what}: {} to {}", first.cwnd, second.cwnd);
            episodes += 1;
        }
        println!("{what}: {episodes} episodes");
        assert!(episodes >= 3, "{what}: {episodes}");
    }
}

#[test]
fn recorded_kernel_events_replay_identically_in_bpf_and_rust() {
    or_skip!();
    let pair = Pair::new();
    for words in [
        // A queue of 20 packets that overflows.
        "tc qdisc add dev v0 root tbf rate 30mbit burst 4kb limit 30kb",
        // Only the algorithm sets the window, also if another program interrupts the sender.
        "sysctl -qw net.ipv4.tcp_slow_start_after_idle=0",
    ] {
        assert!(pair.command(0, words).status().is_ok_and(|s| s.success()), "{words}");
    }
    let mut losses = 0;
    for (i, entry) in ENTRIES.iter().filter(|e| e.program != "wave").enumerate() {
        let (request, mut held) = loaded(entry.name, &format!("record{i}"));
        held.pin(false);
        let recorded = recorded(&pair, &request.name, &[3_000_000]);
        let stream = for_replay(&recorded);
        let count = |kind| stream.iter().filter(|e| e.kind == kind).count();
        let reductions = count(EventKind::Congestion);
        println!(
            "{}: {} events, {} losses, {} time-outs",
            entry.name,
            stream.len(),
            reductions,
            count(EventKind::Timeout)
        );
        assert!(count(EventKind::Ack) > 300, "{}: {}", entry.name, stream.len());
        losses += reductions;
        assert_eq!(count(EventKind::Opened), 1);
        let mut kernel = InKernel::new(&request).expect("it loads");
        let mut rust = InRust::new(&request, &stream[0]).expect("the parameters are valid");
        let mut same = 0;
        let mut before = None;
        for event in &stream {
            // Count the ACKs at which the window agrees with the replay, while only the algorithm sets it.
            if event.kind == EventKind::Ack
                && event.state == 0
                && before.is_some_and(|w: u64| w.abs_diff(u64::from(event.cwnd)) <= 1)
            {
                same += 1;
            }
            let (there, here) = (kernel.take(event).expect("it runs"), rust.take(event));
            assert!(agree(here.0, there.0) && agree(here.1, there.1), "{}: {event:?}: {here:?}, {there:?}", entry.name);
            before = Some(there.0);
        }
        let open = stream.iter().filter(|e| e.kind == EventKind::Ack && e.state == 0).count();
        println!("  {same} of {open} ACKs in the Open state found the window that the replay has");
        assert!(same * 50 >= open * 49, "{}: {same} of {open}", entry.name);
    }
    assert!(losses > 20, "{losses}"); // Vegas may have none
}

#[test]
fn avoca_is_silent_outside_coverage() {
    or_skip!();
    let pair = Pair::new();
    let (request, mut held) = loaded("avoca", "coverage");
    held.pin(false);
    let pinned = Pinned::find(&request.name).expect("it is pinned");
    let sent = AtomicU32::new(0);
    let arrived = with_listener(&pair, || {
        // Slow enough to be interrupted, with a queue that holds the whole send buffer: without losses, only restarts
        // reduce the window.
        let words = "qdisc add dev v0 root tbf rate 20mbit burst 20kb limit 2mb";
        assert!(Command::new("tc").args(words.split(' ')).status().is_ok_and(|s| s.success()), "tc {words}");
        let mut stream = connect(&request.name);
        setsockopt(&stream, sockopt::SndBuf, &150_000).expect("a socket");
        let window = || -> u32 {
            let out = Command::new("ss").args(["-Htin", "dport", "=", ":7777"]).output().expect("ss, beside ip");
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            let cwnd = text.split_whitespace().find_map(|word| word.strip_prefix("cwnd:"));
            cwnd.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no window in {text}"))
        };
        thread::scope(|scope| {
            let mut writer = stream.try_clone().expect("a socket");
            let sent = &sent;
            scope.spawn(move || {
                while sent.load(Ordering::SeqCst) < 8_000_000 {
                    writer.write_all(&[1; 50_000]).expect("the connection lives");
                    sent.fetch_add(50_000, Ordering::SeqCst);
                }
            });
            thread::sleep(Duration::from_millis(300));
            let until = |wanted: &dyn Fn(u32) -> bool| {
                let mut now = window();
                for _ in 0..100 {
                    if wanted(now) {
                        break;
                    }
                    thread::sleep(Duration::from_millis(10));
                    now = window();
                }
                now
            };
            let before = until(&|window| window >= 10);
            pinned.set_coverage(false).expect("it listens");
            let without = until(&|window| window == 1);
            thread::sleep(Duration::from_millis(100));
            let later = window();
            pinned.set_coverage(true).expect("it listens");
            let after = until(&|window| window >= 10);
            thread::sleep(Duration::from_millis(100));
            // A second notice does not restart the connection: a restart would reset the window to 10.
            let grown = until(&|window| window > 30);
            pinned.set_coverage(true).expect("it listens");
            let again = window();
            assert!(grown > 30 && again > 20, "{grown}, {again}");
            assert!(before >= 10 && after >= 10, "{before}, {without}, {later}, {after}");
            assert!(!stream.nodelay().expect("a socket"), "it is as the application had it");
            assert_eq!((without, later), (1, 1));
        });
        stream.flush().expect("a socket");
    });
    assert_eq!(arrived, [sent.load(Ordering::SeqCst) as usize]);
    held.end();
    unload(&request.name).expect("the pins are left");
    let (request, mut held) = loaded("newreno", "nocoverage");
    held.pin(false);
    let pinned = Pinned::find(&request.name).expect("it is pinned");
    assert!(pinned.set_coverage(true).unwrap_err().to_string().contains("does not use coverage"));
}

#[test]
fn open_connections_are_listed() {
    or_skip!();
    let pair = Pair::new();
    let (request, mut held) = loaded("illinois", "listed");
    let (other, mut held_too) = loaded("newreno", "unlisted");
    [&mut held, &mut held_too].iter_mut().for_each(|held| held.pin(false));
    let list =
        |request: &LoadRequest| Pinned::find(&request.name).and_then(|p| p.connections()).expect("it can be read");
    assert_eq!(list(&request), []);
    with_listener(&pair, || {
        let mut streams = [connect(&request.name), connect(&request.name), connect(&other.name)];
        for stream in &mut streams {
            stream.write_all(&[1; 300_000]).expect("the connection lives");
        }
        let open = list(&request);
        let ports = |all: &[(String, EventRecord)]| all.iter().map(|(_, e)| e.local_port).collect::<Vec<_>>();
        let local = |s: &TcpStream| s.local_addr().expect("a socket").port();
        assert_eq!(ports(&open), [local(&streams[0]), local(&streams[1])]);
        for (words, e) in &open {
            assert_eq!(words, "this namespace");
            assert_eq!((e.remote_port, &e.remote[..4]), (7777, &[10, 77, 0, 2][..]));
            assert!(e.cwnd >= 10 && e.mss > 1000 && e.srtt_us > 0, "{e:?}");
        }
        assert_eq!(ports(&list(&other)), [local(&streams[2])]);
        // A connection that switched to another algorithm is not listed.
        setsockopt(&streams[0], sockopt::TcpCongestion, &"cubic".into()).expect("a socket");
        assert_eq!(ports(&list(&request)), [local(&streams[1])]);
    });
}

#[test]
fn pacing_algorithm_leaves_finite_window_to_its_successor() {
    or_skip!();
    let pair = Pair::new();
    let (wave, mut held) = loaded("wave", "leaves");
    let (next, mut held_too) = loaded("newreno", "takes_over");
    [&mut held, &mut held_too].iter_mut().for_each(|held| held.pin(false));
    let window = |request: &LoadRequest| {
        let open = Pinned::find(&request.name).and_then(|p| p.connections()).expect("it can be read");
        open[0].1.cwnd
    };
    with_listener(&pair, || {
        let mut stream = connect(&wave.name);
        stream.write_all(&[1; 100_000]).expect("the connection lives");
        assert!(window(&wave) > 10_000, "nothing but the pace is the limit");
        setsockopt(&stream, sockopt::TcpCongestion, &next.name.clone().into()).expect("a socket");
        assert!(window(&next) < 1000, "{}", window(&next));
    });
}

#[test]
fn connection_events_can_be_followed() {
    or_skip!();
    let pair = Pair::new();
    let (request, mut held) = loaded("newreno", "follow");
    held.pin(false);
    let pinned = Pinned::find(&request.name).expect("it is pinned");
    let mut seen = Vec::new();
    thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            with_listener(&pair, || {
                connect(&request.name).write_all(&vec![1; 1_000_000]).expect("the connection lives");
            })
        });
        let mut rounds = 0;
        let follow = pinned.follow(true, |events| {
            seen.extend_from_slice(events);
            rounds += 1;
            rounds < 200 && !seen.iter().any(|e| e.kind == EventKind::Closed)
        });
        follow.expect("it can be followed");
        assert_eq!(traffic.join().expect("it runs"), [1_000_000]);
    });
    let first = seen.first().expect("events");
    assert_eq!((first.kind, first.remote_port), (EventKind::Opened, 7777));
    assert_eq!(first.remote[..4], [10, 77, 0, 2]);
    assert!(seen.iter().any(|e| e.kind == EventKind::Ack && e.segments > 0 && e.mss > 1000));
    assert!(seen.iter().any(|e| e.kind == EventKind::Sample && e.rtt_us > 0));
    assert!(seen.iter().any(|e| e.kind == EventKind::Closed));
    held.end();
    unload(&request.name).expect("the pins are left");
}
