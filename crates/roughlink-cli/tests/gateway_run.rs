//! `roughlink gateway run` on real packets, between the kernels of three namespaces. Skipped with a message where the
//! machine cannot run gateways.

#![cfg(target_os = "linux")]

mod common;

use common::path::{Bench, signal, socket, unique, wait_until};
use common::{code, json, output, roughlink, stderr, stdout};
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const BYTES: usize = 3_000_000;

fn pattern() -> Vec<u8> {
    (0..BYTES).map(|i| (i * 7 % 251) as u8).collect()
}

#[test]
fn queues_are_ruled_watched_and_cleaned_up() {
    let Some(bench) = Bench::new(&["netfilter_queue", "queue_rules"], true) else { return };
    let name = unique("queue");
    let args = ["muniz", "--queue", "7", "--install", "--inside", "inner", "--as", &name, "--metrics", "0"];
    let gateway = bench.start(&args);
    assert!(bench.rules().contains("roughlink-queue-7"), "{}", bench.rules());
    let bytes = pattern();
    let received = bench.download(&bytes);
    assert!(received == bytes, "{} of {} bytes", received.len(), bytes.len());
    let status = json(&roughlink(&["gateway", "stat", &name, "--json"]));
    assert!(status["packets"]["segments"].as_u64().unwrap() as usize > BYTES / 1448, "{status}");
    assert_eq!((&status["packets"]["dropped"], &status["packets"]["refused"]), (&0.into(), &0.into()), "{status}");
    assert_eq!(status["about"]["backlog"], "estimated from forwarded and acknowledged bytes");
    assert_eq!(status["table"]["established"], 1, "{status}");
    let text = stdout(&roughlink(&["gateway", "stat", &name]));
    assert!(text.contains("at the netfilter queues 7 and 8 for the hosts behind inner"), "{text}");
    let mut http = UnixStream::connect(socket(&name)).unwrap();
    http.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut metrics = String::new();
    http.read_to_string(&mut metrics).unwrap();
    let line = format!("roughlink_gateway_connections_established_total{{gateway=\"muniz\",name=\"{name}\"}} 1");
    assert!(metrics.contains(&line), "{metrics}");
    // Another instance with this name, or at these queues, is refused.
    let again = bench.run(&["gateway", "run", "muniz", "--queue", "17", "--as", &name]);
    assert_eq!(code(&again), 3);
    assert!(stderr(&again).contains("already runs"), "{}", stderr(&again));
    let again = bench.run(&["gateway", "run", "muniz", "--queue", "7"]);
    assert_eq!(code(&again), 3);
    assert!(stderr(&again).contains("netfilter queue 7"), "{}", stderr(&again));
    // The program has only the right to decide about packets left.
    let facts = fs::read_to_string(format!("/proc/{}/status", gateway.id())).unwrap();
    let fact = |key: &str| facts.lines().find_map(|l| l.strip_prefix(key)).unwrap().trim().to_owned();
    assert_eq!((fact("CapPrm:").as_str(), fact("NoNewPrivs:").as_str()), ("0000000000001000", "1"));
    assert!(!fact("Uid:").starts_with('0') && fact("Seccomp:") == "2", "{facts}");
    // Only the loop of packets has a real-time priority, if this machine permits one. Field 41 is then 1, SCHED_FIFO.
    let threads = fs::read_dir(format!("/proc/{}/task", gateway.id())).unwrap().map(|task| {
        let stat = fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        stat.rsplit(") ").next().unwrap().split(' ').nth(38).unwrap() == "1"
    });
    let threads: Vec<bool> = threads.collect();
    let permitted = bench.has("real_time");
    assert!(threads.len() > 1 && threads.iter().filter(|fifo| **fifo).count() == usize::from(permitted), "{threads:?}");
    signal(&gateway, "-INT");
    let out = output(gateway);
    assert_eq!(out.status.signal(), Some(2), "{}", stderr(&out));
    assert!(stderr(&out).contains("ended after"), "{}", stderr(&out));
    assert!(bench.rules().is_empty() && !Path::new(&socket(&name)).exists(), "{}", bench.rules());
}

/// Kills the gateway again and again under traffic, which goes on: the kernel forwards without it.
#[test]
fn killed_gateway_lets_traffic_pass_and_leaves_nothing() {
    let Some(bench) = Bench::new(&["netfilter_queue", "queue_rules"], true) else { return };
    let name = unique("kill");
    let listener = bench.listener();
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut server = listener.accept().unwrap().0;
            while !stop.load(Ordering::Relaxed) && server.write_all(&[7; 10_000]).is_ok() {
                thread::sleep(Duration::from_millis(1));
            }
        });
        scope.spawn(|| {
            let (mut client, mut buffer) = (bench.connect(), [0; 65536]);
            while let Ok(n @ 1..) = client.read(&mut buffer) {
                received.fetch_add(n as u64, Ordering::Relaxed);
            }
        });
        let flows = |what: &str| {
            let before = received.load(Ordering::Relaxed);
            wait_until(what, || received.load(Ordering::Relaxed) > before + 50_000);
        };
        for _ in 0..5 {
            flows("without the gateway");
            let gateway = bench.start(&["mizutani", "--queue", "9", "--install", "--inside", "inner", "--as", &name]);
            flows("with it");
            signal(&gateway, "-KILL");
            output(gateway);
            flows("after its end");
            wait_until("rules are removed", || bench.rules().is_empty());
            wait_until("the socket is removed", || !Path::new(&socket(&name)).exists());
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// If the process that cleans up is killed, too, rules remain without harm; `doctor --clean` removes them.
#[test]
fn doctor_removes_rules_without_a_gateway() {
    let Some(bench) = Bench::new(&["netfilter_queue", "queue_rules"], true) else { return };
    let name = unique("doctor");
    let gateway = bench.start(&["muniz", "--queue", "11", "--install", "--inside", "inner", "--as", &name]);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", gateway.id())).unwrap();
    for process in children.split_whitespace() {
        assert!(Command::new("kill").args(["-KILL", process]).status().unwrap().success());
    }
    let kept = stdout(&bench.run(&["doctor", "--clean"]));
    assert!(!kept.contains("queue 11"), "it runs: {kept}");
    signal(&gateway, "-KILL");
    output(gateway);
    assert_eq!(bench.download(&[5; 20_000]), [5; 20_000], "the rules let packets pass");
    assert!(bench.rules().contains("roughlink-queue-11"));
    let cleaned = stdout(&bench.run(&["doctor", "--clean"]));
    assert!(cleaned.contains("rules for the netfilter queue 11: removed"), "{cleaned}");
    assert!(bench.rules().is_empty());
    let _ = fs::remove_file(socket(&name));
}

/// An agent reports the end of coverage: the gateway closes the window of a server, which stops, and opens it again.
#[test]
fn bridge_follows_the_coverage_agent() {
    let Some(bench) = Bench::new(&["packet_socket"], false) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let agent = UnixListener::bind(&path).unwrap();
    let name = unique("bridge");
    let place = ["avoca-rx", "--between", "inner", "outer", "--as", &name];
    let gateway = bench.start(&[&place[..], &["--coverage", path.to_str().unwrap()]].concat());
    let (mut agent, _) = agent.accept().unwrap();
    let listener = bench.listener();
    let received = AtomicU64::new(0);
    let bytes = pattern();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut server = listener.accept().unwrap().0;
            for piece in bytes.chunks(10_000) {
                server.write_all(piece).unwrap();
                thread::sleep(Duration::from_millis(5));
            }
        });
        let client = scope.spawn(|| {
            let (mut client, mut all, mut buffer) = (bench.connect(), Vec::new(), [0; 65536]);
            while let Ok(n @ 1..) = client.read(&mut buffer) {
                all.extend_from_slice(&buffer[..n]);
                received.fetch_add(n as u64, Ordering::Relaxed);
            }
            all
        });
        let now = || received.load(Ordering::Relaxed);
        wait_until("the transfer has begun", || now() > 100_000);
        writeln!(agent, "{{\"event\":\"down\"}}").unwrap();
        // The server stops soon: at some time 200 ms pass without a byte, which takes it 5 ms otherwise.
        wait_until("the transfer stands still", || {
            let before = now();
            thread::sleep(Duration::from_millis(200));
            now() == before && before < BYTES as u64
        });
        let closed = json(&roughlink(&["gateway", "stat", &name, "--json"]));
        assert!(closed["packets"]["originated"].as_u64().unwrap() >= 1, "{closed}");
        assert_eq!(closed["agent"], "connected");
        writeln!(agent, "{{\"event\":\"up\"}}\n{{\"event\":\"configured\"}}").unwrap();
        assert!(client.join().unwrap() == bytes);
    });
    drop(agent);
    wait_until("the loss of the agent is reported", || {
        json(&roughlink(&["gateway", "stat", &name, "--json"]))["agent"] == "lost"
    });
    signal(&gateway, "-TERM");
    assert_eq!(output(gateway).status.signal(), Some(15));
}

/// A split-TCP proxy with Wave toward the server: bytes and addresses stay, also of several connections at once. The
/// end resets open connections.
#[test]
fn proxy_splits_connections() {
    for routes in [false, true] {
        let Some(bench) = Bench::new(&["packet_socket", "netfilter_queue", "queue_rules"], routes) else { return };
        let name = unique(if routes { "pep-queue" } else { "pep-bridge" });
        let place: &[&str] = if routes {
            &["--queue", "21", "--install", "--inside", "inner"]
        } else {
            &["--between", "inner", "outer"]
        };
        let set = ["--set", "cc=wave-fr", "--set", "buffer=1 MiB", "--as", &name];
        let proxy = bench.start(&[&["pep"], place, &set].concat());
        let bytes = pattern();
        assert!(bench.download(&bytes) == bytes);
        let listener = bench.listener();
        let client = bench.connect();
        let (mut server, from) = listener.accept().unwrap();
        assert_eq!(from, client.local_addr().unwrap(), "the server sees the client");
        server.write_all(b"hello").unwrap();
        let mut text = [0; 5];
        (&client).read_exact(&mut text).unwrap();
        assert_eq!(&text, b"hello");
        let status = json(&roughlink(&["gateway", "stat", &name, "--json"]));
        assert_eq!(status["proxy"]["opened"], 2, "{status}");
        assert_eq!(status["about"]["parameters"]["cc"], "wave-fr");
        assert_eq!(status["connections"][0]["inner"], from.to_string(), "{status}");
        signal(&proxy, "-INT");
        let out = output(proxy);
        assert!(stderr(&out).contains("ended after 2 connections"), "{}", stderr(&out));
        server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let reset = |stream: &mut dyn std::io::Read| stream.read(&mut [0; 1]).map_err(|e| e.kind());
        assert_eq!(reset(&mut &client), Err(ErrorKind::ConnectionReset));
        assert_eq!(reset(&mut server), Err(ErrorKind::ConnectionReset));
    }
}

/// A proxy is killed, and its successor resets the connections of its predecessor, so that nothing hangs.
#[test]
fn next_proxy_resets_connections_of_a_killed_one() {
    let Some(bench) = Bench::new(&["netfilter_queue", "queue_rules"], true) else { return };
    let name = unique("pep-kill");
    let args = ["pep", "--queue", "23", "--install", "--inside", "inner", "--as", &name];
    let proxy = bench.start(&args);
    let listener = bench.listener();
    let client = bench.connect();
    let (mut server, _) = listener.accept().unwrap();
    server.write_all(b"hello").unwrap();
    (&client).read_exact(&mut [0; 5]).unwrap();
    signal(&proxy, "-KILL");
    output(proxy);
    wait_until("rules are removed", || bench.rules().is_empty());
    // New connections work without a proxy.
    let fresh = bench.connect();
    let (mut other, _) = listener.accept().unwrap();
    other.write_all(b"again").unwrap();
    (&fresh).read_exact(&mut [0; 5]).unwrap();
    let proxy = bench.start(&args);
    (&client).write_all(b"anyone there?").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let kind = |result: std::io::Result<usize>| result.map_err(|e| e.kind());
    assert_eq!(kind((&client).read(&mut [0; 1])), Err(ErrorKind::ConnectionReset));
    assert_eq!(kind(server.read(&mut [0; 1])), Err(ErrorKind::ConnectionReset));
    signal(&proxy, "-INT");
    output(proxy);
}

#[test]
fn dry_run_counts_only() {
    let Some(bench) = Bench::new(&["packet_socket"], false) else { return };
    let name = unique("dry");
    let place = ["muniz", "--between", "inner", "outer", "--as", &name, "--dry-run"];
    let gateway = bench.start(&[&place[..], &["--set", "estimate.rate_mbps=10", "--set", "floor=3"]].concat());
    let bytes = pattern();
    assert!(bench.download(&bytes) == bytes);
    let status = json(&roughlink(&["gateway", "stat", &name, "--json"]));
    assert_eq!((&status["about"]["dry_run"], &status["packets"]["forbidden"]), (&true.into(), &0.into()));
    assert_eq!(status["about"]["parameters"]["estimate"]["rate_mbps"], 10);
    assert!(status["packets"]["rewritten"].as_u64().unwrap() > 0, "{status}");
    signal(&gateway, "-INT");
    output(gateway);
}

#[test]
fn wrong_commands_say_how_to_go_on() {
    for (args, expected) in [
        (&["muniz", "--queue", "5", "--set", "flor=3"][..], "did you mean `floor`?"),
        (&["muniz", "--queue", "5", "--set", "floor=0"], "`floor` must be"),
        (&["muni", "--queue", "5"], "did you mean `muniz`?"),
        (&["avoca-rx", "--queue", "5"], "--coverage"),
        (&["muniz"], "--between"),
        (&["pep", "--queue", "5", "--set", "cc=wav"], "unknown"),
        (&["pep", "--queue", "5", "--set", "bufer=1 MiB"], "did you mean `buffer`?"),
        (&["pep", "--between", "a", "b", "--dry-run"], "cannot only watch"),
        (&["pep", "--queue", "5", "--install"], "--inside"),
        (&["muniz", "--queue", "65535"], "65535"),
        (&["muniz", "--between", "eth0", "eth1", "--install"], "cannot be used with"),
    ] {
        let out = roughlink(&[&["gateway", "run"], args].concat());
        assert_eq!(code(&out), 2, "{args:?}: {}", stderr(&out));
        assert!(stderr(&out).contains(expected), "{args:?}: {}", stderr(&out));
    }
    let out = roughlink(&["gateway", "stat", "no-such-gateway"]);
    assert_eq!(code(&out), 3, "{}", stderr(&out));
}

/// systemd, where it is installed, accepts the unit.
#[test]
fn unit_is_valid() {
    let args =
        ["gateway", "run", "avoca-rx", "--queue", "5", "--install", "--coverage", "/run/roughlink/coverage.sock"];
    let out = roughlink(&[&args[..], &["--unit"]].concat());
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    let unit = stdout(&out);
    assert!(unit.contains("gateway run avoca-rx --queue 5 --install") && !unit.contains("--unit"), "{unit}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roughlink-avoca-rx.service");
    fs::write(&file, unit).unwrap();
    match Command::new("systemd-analyze").arg("verify").arg(&file).output() {
        Ok(out) => assert!(out.status.success() && stderr(&out).is_empty(), "{}", stderr(&out)),
        Err(e) => eprintln!("skipped: systemd-analyze: {e}"),
    }
}
