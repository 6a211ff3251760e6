//! `roughlink emulate`, `link` and `shell`: programs in namespaces that the command creates and removes. Without
//! namespaces or TUN devices, the tests are skipped with a message.

#![cfg(target_os = "linux")]

mod common;

use common::emulated::{PAIR, assert_gone, emulate, folder, marked};
use common::{code, json, output, roughlink, roughlink_in, stderr, stdout, with_default_signals};
use roughlink_core::rng::Seed;
use roughlink_host::Namespace;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Returns a command line that runs one part of [`as_program`].
fn part(name: &str) -> Vec<String> {
    let own = std::env::current_exe().unwrap();
    let words =
        ["env", &format!("PART={name}"), own.to_str().unwrap(), "as_program", "--exact", "--ignored", "--nocapture"];
    words.map(str::to_owned).to_vec()
}

/// Programs that other tests run at nodes; `PART` selects one.
#[test]
#[ignore = "it is a program that other tests run"]
fn as_program() {
    match std::env::var("PART").as_deref() {
        Ok("server") => {
            let listener = TcpListener::bind("10.0.0.1:7000").unwrap();
            let mut all = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut all).unwrap();
            assert!(all == content());
            println!("received {} bytes", all.len());
        }
        Ok("client") => {
            assert_eq!(std::env::var("ROUGHLINK_NODE").unwrap(), "car");
            let to = std::env::var("ROUGHLINK_SERVER").unwrap() + ":7000";
            let connect = || TcpStream::connect(&to).map_err(|_| sleep(Duration::from_millis(20)));
            let mut stream = (0..500).find_map(|_| connect().ok()).expect("the server listens");
            stream.write_all(&content()).unwrap();
        }
        Ok("greets") => {
            let at = std::env::var("AT").unwrap_or("0.0.0.0:7001".into());
            TcpListener::bind(at).unwrap().accept().unwrap().0.write_all(b"patience").unwrap();
        }
        Ok("gives") => {
            let to = std::env::var("ROUGHLINK_HOST").unwrap() + ":7001";
            TcpStream::connect(to).unwrap().write_all(&content()[..KEPT]).unwrap();
        }
        Ok("greeted") => {
            let to = std::env::var("ROUGHLINK_HOST").unwrap() + ":7001";
            let mut greeting = String::new();
            TcpStream::connect(to).unwrap().read_to_string(&mut greeting).unwrap();
            println!("greeted with {greeting}");
        }
        _ => {}
    }
}

/// Bytes that a program writes before it ends; a kernel can buffer all of them.
const KEPT: usize = 50_000;
/// Read timeout of connections.
const PATIENCE: Duration = Duration::from_secs(60);

fn content() -> Vec<u8> {
    (0..1_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn programs_run_at_both_ends_of_a_link() {
    let Some(folder) = folder() else { return };
    let (server, client) = (part("server"), part("client"));
    let mut args = vec!["--json", "--capture", "both.pcapng", "--until", "server", "--exec", "server", "--"];
    args.extend(server.iter().map(String::as_str));
    args.extend(["--exec", "car", "--"]);
    args.extend(client.iter().map(String::as_str));
    let out = emulate(&args, folder.path());
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(stderr(&out).contains("server| received 1000000 bytes"), "{}", stderr(&out));
    let result = json(&out);
    assert!(result["links"][0]["reverse"]["lost"].as_u64() > Some(0), "{result}");
    assert_eq!((&result["ended"], &result["ports"]["unreadable"]), (&"programs".into(), &0.into()));
    for key in ["p50", "p99", "max", "over_1ms"] {
        assert!(result["lateness_us"][key].is_number(), "{result}");
    }
    assert_eq!((&result["overruns"], &result["programs"][0]["node"]), (&0.into(), &"server".into()));
    // Each packet is captured when it leaves its host and when it arrives at the other one.
    let capture = fs::read(folder.path().join("both.pcapng")).unwrap();
    let records = capture_records(&capture);
    let (ports, links) = (&result["ports"], &result["links"][0]);
    let lost: u64 = ["forward", "reverse"].iter().map(|way| links[way]["lost"].as_u64().unwrap()).sum();
    assert_eq!(Some(records), ports["received"].as_u64().zip(ports["sent"].as_u64()).map(|(out, back)| out + back));
    assert!(ports["received"].as_u64() >= ports["sent"].as_u64().map(|sent| sent + lost), "{result}");
    let out = emulate(&["--capture", "both.pcapng", "--exec", "car", "--", "true"], folder.path());
    assert_eq!(code(&out), 3, "{}", stderr(&out));
    assert!(stderr(&out).contains("both.pcapng") && fs::read(folder.path().join("both.pcapng")).unwrap() == capture);
    // Without `--json`, standard output has a table and the output of the programs.
    let out = emulate(&["--for", "3s", "--exec", "car", "--", "sh", "-c", "echo here; sleep 60"], folder.path());
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(
        stdout(&out).contains("car| here\n") && stdout(&out).contains("packets from kernel nodes"),
        "{}",
        stdout(&out)
    );
}

/// Returns the number of packets in a capture: enhanced packet blocks of pcapng.
fn capture_records(file: &[u8]) -> u64 {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut records) = (0, 0);
    while at < file.len() {
        records += u64::from(word(at) == 6);
        at += word(at + 4) as usize;
    }
    records
}

#[test]
fn exit_code_is_that_of_the_program() {
    let Some(folder) = folder() else { return };
    let at = |script| emulate(&["--quiet", "--exec", "car", "--", "sh", "-c", script], folder.path());
    assert_eq!(code(&at("exit 0")), 0);
    let out = at("exit 7");
    assert_eq!(code(&out), 7);
    assert!(stderr(&out).contains("`sh -c exit 7` at `car` failed: exit code 7"), "{}", stderr(&out));
    assert_eq!(code(&at("kill -9 $$")), 137);
    // If one program fails, the others are stopped.
    let args = ["--exec", "server", "--", "sleep", "1000", "--exec", "car", "--", "/nowhere/at/all"];
    let out = emulate(&args, folder.path());
    assert_eq!(code(&out), 127, "{}", stderr(&out));
    assert!(
        stdout(&out).contains("packets from kernel nodes") && stderr(&out).contains("cannot start `/nowhere/at/all`"),
        "{}",
        stderr(&out)
    );
    assert!(stderr(&out).contains("the others were stopped"), "{}", stderr(&out));
    // The link exceeds an allowed lateness of 1 ns.
    let ask = "for i in 1 2 3 4 5; do (echo > /dev/udp/10.0.0.1/9) 2>/dev/null; done; sleep 0.2";
    let args = ["emulate", "pair.toml", "--max-lateness", "1 ns", "--kernel", "server", "--exec", "car", "--"];
    let out = roughlink_in(&[&args[..], &["bash", "-c", ask]].concat(), folder.path());
    assert_eq!(code(&out), 4, "{}", stderr(&out));
    assert!(stderr(&out).contains("the link was late"), "{}", stderr(&out));
}

#[test]
fn invalid_usage_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("pair.toml"), PAIR).unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&[], "kernel = true"),
        (&["--exec", "cra", "--", "true"], "did you mean `car`"),
        (&["--until", "server", "--exec", "car", "--", "true"], "expected `car`"),
        (&["--exec", "car"], "COMMAND"),
        (&["--interface", "car"], "such as --interface car=eth1"),
        (&["--interface", "cra=eth1"], "did you mean `car`"),
        (&["--layer", "ethernett", "--kernel", "car"], "did you mean `ethernet`"),
        (&["--layer", "ip", "--interface", "car=eth1"], "carries Ethernet"),
        (&["--interface", "car=eth1", "--exec", "car", "--", "true"], "not on this machine"),
        (&["--max-lateness", "soon", "--exec", "car", "--", "true"], "write a time"),
    ];
    for (args, said) in cases {
        let out = roughlink_in(&[&["emulate", "pair.toml"], *args].concat(), folder.path());
        assert_eq!(code(&out), 2, "{args:?}: {}", stderr(&out));
        assert!(stderr(&out).contains(said), "{args:?}: {}", stderr(&out));
    }
    let out = roughlink(&["shell", "nobody"]);
    assert_eq!(code(&out), 2, "{}", stderr(&out));
    // `__inside`, which connects the emulation and its programs, is internal.
    for shown in [&["--help"][..], &["completions", "bash"], &["man"]] {
        assert!(!stdout(&roughlink(shown)).contains("__inside"), "{shown:?}");
    }
}

/// The car is a host behind a network device of the machine; both are namespaces of the test.
#[test]
fn host_behind_a_network_device_is_reached_over_the_link() {
    let Some(folder) = folder() else { return };
    let new = || Namespace::new().inspect_err(|e| eprintln!("skipped: {e}")).ok();
    let (Some(machine), Some(car)) = (new(), new()) else { return };
    let ip = |at: &Namespace, line: &str| {
        let done = at.within(|| Command::new("ip").args(line.split(' ')).status()).unwrap().unwrap();
        assert!(done.success(), "ip {line}");
    };
    ip(&machine, &format!("link add eth1 type veth peer name eth0 netns {}", car.path().display()));
    ip(&machine, "link set dev eth1 addrgenmode none up");
    ip(&car, "link set dev eth0 up");
    ip(&car, "address add 192.168.7.2/24 dev eth0");
    let socket = car.within(|| UdpSocket::bind("192.168.7.2:7000").unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let answer = std::thread::spawn(move || {
        let mut buffer = [0; 100];
        let (n, from) = socket.recv_from(&mut buffer).unwrap();
        socket.send_to(&buffer[..n], from).unwrap();
    });
    let ask = "cat /sys/class/net/plc0/address; ip address add 192.168.7.1/24 dev plc0; \
               exec 3<>/dev/udp/192.168.7.2/7000; \
               echo hello >&3; echo said $(timeout 20 dd bs=100 count=1 <&3 2>/dev/null)";
    let args = [
        "emulate",
        "pair.toml",
        "--max-lateness",
        "10 s",
        "--interface",
        "car=eth1",
        "--layer",
        "ethernet",
        "--set",
        "link.plc.noise.loss=0 %",
    ];
    let words = [&args[..], &["--exec", "server", "--", "bash", "-c", ask]].concat();
    let out = machine.within(|| roughlink_in(&words, folder.path())).unwrap();
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(stdout(&out).contains("server| 02:00:00:00:00:01\nserver| said hello\n"), "{}", stdout(&out));
    assert!(stderr(&out).contains("car: attached to eth1"), "{}", stderr(&out));
    answer.join().unwrap();
    let args = ["emulate", "pair.toml", "--interface", "car=eth2"];
    let out = machine.within(|| roughlink_in(&args, folder.path())).unwrap();
    assert_eq!(code(&out), 2, "{}", stderr(&out));
    assert!(
        stderr(&out).contains("network device") && stderr(&out).contains("did you mean `eth1`"),
        "{}",
        stderr(&out)
    );
}

/// Returns the network devices and the named namespaces of the machine, which an emulation could leave behind.
fn machine() -> (Vec<String>, Vec<String>) {
    let devices = fs::read_to_string("/proc/self/net/dev").unwrap();
    let devices = devices.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    (devices, mounts.lines().filter(|line| line.contains("nsfs")).map(str::to_owned).collect())
}

/// Starts an emulation whose programs are hard to stop: in the background, in a new session, or ignoring signals.
fn start(marker: &str, folder: &Path) -> Child {
    let stubborn = "sleep 1000 & setsid sleep 1000 & (trap '' INT TERM HUP; sleep 1000 & wait) & wait";
    let args = ["emulate", "pair.toml", "--json", "--exec", "car", "--", "sh", "-c", stubborn];
    let others = ["--exec", "server", "--", "sh", "-c", stubborn];
    with_default_signals(env!("CARGO_BIN_EXE_roughlink"))
        .args(args.iter().chain(&others))
        .current_dir(folder)
        .env("MARKER", marker)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Processes of an emulation: the command, and for each of two nodes two intermediaries, two shells and three `sleep`.
const PROCESSES: usize = 1 + 2 * 7;

fn until_programs_run(marker: &str) {
    for _ in 0..1000 {
        if marked(marker).len() >= PROCESSES {
            return;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("programs were not started: {:?}", marked(marker));
}

#[test]
fn kill_at_any_time_leaves_nothing_behind() {
    let Some(folder) = folder() else { return };
    let before = machine();
    let mut moments = Seed { seed: 17, replica: 0 }.stream("emulation", "kills");
    let mut most = 0;
    for i in 0..10 {
        let marker = format!("roughlink-kill-{}-{i}", std::process::id());
        let mut child = start(&marker, folder.path());
        sleep(Duration::from_millis((moments.unit() * 300.0) as u64));
        if i == 9 {
            until_programs_run(&marker);
        }
        most = most.max(marked(&marker).len());
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        assert_gone(&marker);
    }
    assert!(most >= PROCESSES, "one was killed at work: {most} processes");
    assert_eq!(machine(), before);
}

/// Sends a signal, such as `-INT`, to a process.
fn tell(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn signals_end_an_emulation_with_a_result() {
    let Some(folder) = folder() else { return };
    let before = machine();
    for (signal, number) in [("-INT", 2), ("-TERM", 15), ("-HUP", 1)] {
        let marker = format!("roughlink-interrupt{signal}-{}", std::process::id());
        let child = start(&marker, folder.path());
        until_programs_run(&marker);
        tell(&child, signal);
        let out = output(child);
        // The process ends by the signal, so a calling shell can detect it.
        assert_eq!(out.status.signal(), Some(number), "{signal}");
        let result = json(&out);
        assert_eq!((&result["ended"], &result["programs"][1]["stopped"]), (&"interrupted".into(), &true.into()));
        assert_gone(&marker);
    }
    assert_eq!(machine(), before);
}

#[test]
fn stalled_link_exits_with_code_4() {
    let Some(folder) = folder() else { return };
    let mut child = with_default_signals(env!("CARGO_BIN_EXE_roughlink"));
    let args = ["emulate", "pair.toml", "--json", "--max-lateness", "2 ms", "--exec", "car", "--", "sleep", "1.5"];
    let child = child.args(args).current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    sleep(Duration::from_millis(700));
    tell(&child, "-STOP");
    sleep(Duration::from_millis(400));
    tell(&child, "-CONT");
    let out = output(child);
    assert_eq!(code(&out), 4, "{}", stderr(&out));
    assert!(stderr(&out).contains("the link stalled for"), "{}", stderr(&out));
    assert!(json(&out)["stall_us"].as_f64().unwrap() > 300e3, "{}", stdout(&out));
}

/// IPv6 requires a larger MTU, so the device has no IPv6 address.
#[test]
fn links_of_small_packets_are_emulated() {
    let Some(folder) = folder() else { return };
    let set = ["--set", "link.plc.mtu=600 B", "--exec", "car", "--", "ip", "-o", "address"];
    let out = emulate(&set, folder.path());
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(stdout(&out).contains("inet 10.0.0.2/32") && !stdout(&out).contains("fd00"), "{}", stdout(&out));
}

/// Joining a namespace that another user controls is unsafe.
#[test]
fn shell_refuses_emulations_of_other_users() {
    let Some(folder) = folder() else { return };
    let program = env!("CARGO_BIN_EXE_roughlink");
    let as_nobody = || {
        let mut command = Command::new(program);
        command.uid(NOBODY).gid(NOBODY).current_dir("/").stdin(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let theirs = folder.path().join("pair.toml");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let args = ["emulate", theirs.to_str().unwrap(), "--exec", "car", "--", "sleep", "1000"];
    let Ok(mut child) = as_nobody().args(args).stdout(Stdio::null()).spawn() else {
        eprintln!("skipped: this is not root, or nobody may not run the program");
        return;
    };
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    if !said.any(|line| line.starts_with("car: 10.0.0.2")) {
        eprintln!("skipped: nobody cannot emulate here");
        child.wait().unwrap();
        return;
    }
    let process = child.id().to_string();
    let shell = ["shell", "car", "--process", &process, "--", "true"];
    let (ours, own) = (roughlink(&shell), as_nobody().args(shell).output().unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(code(&own), 0, "{}", stderr(&own));
    assert_eq!(code(&ours), 2, "{}", stderr(&ours));
    assert!(stderr(&ours).contains("sudo -u USER"), "{}", stderr(&ours));
}

const NOBODY: u32 = 65534;

/// Processes that a program leaves behind, and programs that ignore SIGTERM, end with the emulation.
#[test]
fn programs_do_not_outlive_their_emulation() {
    let Some(folder) = folder() else { return };
    let marker = format!("roughlink-outlive-{}", std::process::id());
    for script in ["setsid sleep 1000 & exit 0", "trap '' TERM; while :; do sleep 1; done"] {
        let marker = format!("MARKER={marker}");
        let args = ["--for", "200 ms", "--exec", "car", "--", "env", &marker, "sh", "-c", script];
        let out = emulate(&args, folder.path());
        assert_eq!(code(&out), 0, "{}", stderr(&out));
        assert_gone(&marker);
    }
    let out = emulate(&["--json", "--kernel", "*", "--for", "20 ms"], folder.path());
    let result = json(&out);
    assert_eq!((code(&out), &result["ended"], &result["sim_s"]), (0, &"duration".into(), &0.02.into()), "{result}");
    assert_eq!(stderr(&out).lines().count(), 4, "{}", stderr(&out));
}

#[test]
fn a_shell_joins_a_running_emulation() {
    let Some(folder) = folder() else { return };
    let marker = format!("roughlink-shell-{}", std::process::id());
    let mut child = start(&marker, folder.path());
    until_programs_run(&marker);
    let process = child.id().to_string();
    let out = roughlink(&["shell", "car", "--process", &process, "--", "cat", "/proc/self/net/dev"]);
    let failed = roughlink(&["shell", "car", "--process", &process, "--", "sh", "-c", "exit 9"]);
    let told = roughlink(&["shell", "car", "--process", &process, "--", "sh", "-c", "env; cat /etc/hosts"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(stdout(&out).contains("plc0:") && !stdout(&out).contains("eth"), "{}", stdout(&out));
    assert_eq!(code(&failed), 9);
    for line in ["ROUGHLINK_NODE=car\n", "ROUGHLINK_SERVER=10.0.0.1\n", "10.0.0.1\tserver\n", "fd00::2\tcar\n"] {
        assert!(stdout(&told).contains(line), "{line}: {}", stdout(&told));
    }
    assert_gone(&marker);
}

/// Runs in a namespace of the test, to which `link` may add devices.
#[test]
fn link_connects_a_program_to_this_machine() {
    let text = stdout(&roughlink(&["link", "--rate", "10Mbit/s", "--delay", "40ms", "--loss", "5 %", "--generate"]));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("link.toml"), &text).unwrap();
    let out = roughlink_in(&["run", "link.toml", "--quiet", "--set", "duration=1 s"], folder.path());
    assert_eq!(code(&out), 0, "{text}{}", stderr(&out));
    let of = |rates: &[&str]| stdout(&roughlink(&[&["link", "--generate"], rates].concat()));
    let one_up = of(&["--rate", "10Mbit/s", "--rate-up", "1Mbit/s"]);
    for line in ["rate = \"10Mbit/s\"\n", "asymmetric = { rate = \"1Mbit/s\" }\n", "between = [\"host\", \"inside\"]\n"]
    {
        assert!(one_up.contains(line), "{one_up}");
    }
    assert_eq!(of(&["--rate-down", "10Mbit/s", "--rate-up", "1Mbit/s"]), one_up, "both directions have their own");
    assert!(!of(&["--rate", "1Mbit/s", "--rate-down", "1Mbit/s"]).contains("asymmetric"), "they are the same");
    assert_eq!(code(&roughlink(&["link", "--generate", "--rate-up", "1Mbit/s"])), 2, "the other direction has none");

    let machine = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(e) => {
            eprintln!("skipped: {e}");
            return;
        }
    };
    // If an IPv6 address of the link is in use, the machine's side has no IPv6.
    let add = |address: &str| Command::new("ip").args(["address", "add", address, "dev", "lo"]).status().unwrap();
    assert!(machine.within(|| add("fd00::9/64")).unwrap().success());
    let listener = machine.within(|| TcpListener::bind("0.0.0.0:7001").unwrap()).unwrap();
    let greeter = std::thread::spawn(move || listener.accept().unwrap().0.write_all(b"patience"));
    let link = ["link", "--rate", "10Mbit/s", "--delay", "20ms", "--max-lateness", "10 s", "--"].map(str::to_owned);
    let words = link.into_iter().chain(part("greeted")).collect::<Vec<_>>();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let out = machine.within(|| roughlink(&words)).unwrap();
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(stdout(&out).contains("greeted with patience"), "{}", stdout(&out));
    assert!(stderr(&out).contains("lateness"), "{}", stderr(&out));
    greeter.join().unwrap().unwrap();
    // If IPv4 addresses are in use, `link` chooses others. If the machine forwards, the program gets a default route.
    let route = "echo $ROUGHLINK_HOST $ROUGHLINK_INSIDE; ip -4 route show default";
    let link = ["link", "--rate", "10Mbit/s", "--max-lateness", "10 s", "--", "sh", "-c", route];
    assert!(machine.within(|| add("10.0.9.9/24")).unwrap().success());
    let out = machine.within(|| roughlink(&link)).unwrap();
    assert_eq!((code(&out), &*stdout(&out)), (0, "10.0.16.1 10.0.16.2\n"), "{}", stderr(&out));
    machine.within(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap().unwrap();
    let out = machine.within(|| roughlink(&link)).unwrap();
    assert!(stdout(&out).contains("default dev link0 scope link src 10.0.16.2"), "{}{}", stdout(&out), stderr(&out));
    fs::write(folder.path().join("link.toml"), &text).unwrap();
    let args = ["emulate", "link.toml", "--here", "host", "--exec", "inside", "--", "true"];
    assert!(machine.within(|| add("10.0.0.9/24")).unwrap().success());
    let out = machine.within(|| roughlink_in(&args, folder.path())).unwrap();
    assert_eq!(code(&out), 3, "{}", stderr(&out));
    assert!(stderr(&out).contains("in use on this machine"), "{}", stderr(&out));
}

#[test]
fn data_sent_before_exit_is_delivered() {
    let machine = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(e) => {
            eprintln!("skipped: {e}");
            return;
        }
    };
    let listener = machine.within(|| TcpListener::bind("0.0.0.0:7001").unwrap()).unwrap();
    listener.set_nonblocking(true).unwrap();
    let gives = |options: &[&str]| {
        let link = ["link", "--delay", "20ms", "--max-lateness", "10 s"];
        let words = link.iter().chain(options).chain(&["--"]).map(|word| (*word).to_owned()).chain(part("gives"));
        let words = words.collect::<Vec<_>>();
        machine.within(|| roughlink(&words.iter().map(String::as_str).collect::<Vec<_>>())).unwrap()
    };
    std::thread::scope(|scope| {
        let taken = scope.spawn(|| {
            let accept = || listener.accept().map_err(|_| sleep(Duration::from_millis(20)));
            let (mut stream, _) = (0..3000).find_map(|_| accept().ok()).expect("it connects");
            stream.set_nonblocking(false).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).map(|_| all)
        });
        let out = gives(&["--rate", "8Mbit/s", "--linger", "30 s"]);
        assert_eq!(code(&out), 0, "{}", stderr(&out));
        assert!(taken.join().unwrap().unwrap() == content()[..KEPT]);
    });
    // At this rate 100 ms are too short: the data is lost, with a message.
    let out = gives(&["--rate", "100kbit/s", "--linger", "100 ms"]);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(stderr(&out).contains("are lost: they were not acknowledged within 100 ms"), "{}", stderr(&out));
}

/// Returns a command line with three nested links with a delay of `delay` ms each, and a program behind them.
fn links(delay: u32, program: Vec<String>) -> Vec<String> {
    let delay = format!("{delay} ms");
    let link = [
        env!("CARGO_BIN_EXE_roughlink"),
        "link",
        "--quiet",
        "--max-lateness",
        "10 s",
        "--rate",
        "10Mbit/s",
        "--delay",
        &delay,
        "--",
    ];
    link.iter().cycle().take(3 * link.len()).map(|word| (*word).to_owned()).chain(program).collect()
}

#[test]
fn nested_links_connect_both_ways() {
    let machine = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(e) => {
            eprintln!("skipped: {e}");
            return;
        }
    };
    let listener = machine.within(|| TcpListener::bind("0.0.0.0:7001").unwrap()).unwrap();
    let greeter = std::thread::spawn(move || listener.accept().unwrap().0.write_all(b"patience"));
    let run = |words: Vec<String>| {
        let spawned = machine.within(|| Command::new(&words[0]).args(&words[1..]).stdout(Stdio::piped()).spawn());
        spawned.unwrap().unwrap()
    };
    let out = output(run(links(5, part("greeted"))));
    assert!(stdout(&out).contains("greeted with patience"), "{}{}", stdout(&out), stderr(&out));
    greeter.join().unwrap().unwrap();
    // The outermost link has 10.0.0.0/20, the others have 10.0.4.0/22 and 10.0.5.0/24.
    let child = run(links(5, part("greets")));
    let mut greeting = String::new();
    let connect = || TcpStream::connect("10.0.5.2:7001").map_err(|_| sleep(Duration::from_millis(20)));
    let connected = machine.within(|| (0..500).find_map(|_| connect().ok())).unwrap();
    let mut connected = connected.expect("it listens");
    connected.set_read_timeout(Some(PATIENCE)).unwrap();
    connected.read_to_string(&mut greeting).unwrap();
    assert_eq!((greeting.as_str(), output(child).status.code()), ("patience", Some(0)));
    // At most six links can be nested.
    let out = output(run(links(0, links(0, links(0, vec!["true".into()])))));
    assert_eq!(code(&out), 3);
}

/// Like [`nested_links_connect_both_ways`], without root in a user namespace.
#[test]
fn nested_links_work_without_root() {
    if json(&roughlink(&["doctor", "--json"]))["rootless"] != true {
        eprintln!("skipped: nothing can be emulated without root");
        return;
    }
    let quoted = |words: Vec<String>| words.iter().map(|w| format!("'{w}'")).collect::<Vec<_>>().join(" ");
    let script = format!("ip link set lo up; {} & {}", quoted(part("greets")), quoted(links(5, part("greeted"))));
    let drop = ["--bounding-set", "-sys_admin,-net_admin,-sys_nice,-net_raw", "--inh-caps", "-all"];
    let words = ["unshare", "-r", "-n", "bash", "-c", &script];
    match Command::new("setpriv").args(drop).args(words).output() {
        Ok(out) => assert!(stdout(&out).contains("greeted with patience"), "{}{}", stdout(&out), stderr(&out)),
        Err(e) => eprintln!("skipped: setpriv: {e}"),
    }
}

#[test]
fn unprivileged_emulation_uses_a_user_namespace() {
    let Some(folder) = folder() else { return };
    let able = json(&roughlink(&["doctor", "--json"]))["rootless"].clone();
    let drop = ["--bounding-set", "-sys_admin,-net_admin,-sys_nice,-net_raw", "--inh-caps", "-all"];
    let mut command = Command::new("setpriv");
    command.args(drop).arg(env!("CARGO_BIN_EXE_roughlink")).current_dir(folder.path());
    let args = ["emulate", "pair.toml", "--max-lateness", "10 s", "--json", "--exec", "car", "--"];
    let script = "read -r u _ < /proc/self/uid_map; echo user $u; ip -o address show dev plc0";
    let out = match command.args(args).args(["sh", "-c", script]).output() {
        Ok(out) if able == true => out,
        _ => {
            eprintln!("skipped: setpriv is not here, or nothing can be emulated without root: {able}");
            return;
        }
    };
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(stderr(&out).contains("car| user 0") && stderr(&out).contains("10.0.0.2"), "{}", stderr(&out));
    // A user namespace cannot grant real-time priority.
    assert_eq!(json(&out)["real_time"], false);
}
