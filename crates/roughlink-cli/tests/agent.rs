//! `roughlink agent`: sources, readers, and a gateway that follows it.

#![cfg(target_os = "linux")]

mod common;

use common::path::{Bench, ip, signal, unique, wait_until};
use common::{code, json, output, roughlink, roughlink_in, stderr, stdout, with_default_signals};
use std::fs;
use std::io::{BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Starts an agent and returns it with its output.
fn start(args: &[&str], folder: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut command = with_default_signals(env!("CARGO_BIN_EXE_roughlink"));
    command.arg("agent").args(args).args(["--socket", "agent.sock", "--json"]).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    wait_until("the agent listens", || UnixStream::connect(folder.join("agent.sock")).is_ok());
    (child, out)
}

fn line(from: &mut impl std::io::BufRead) -> String {
    let mut text = String::new();
    from.read_line(&mut text).unwrap();
    text.trim().to_owned()
}

const TUNNEL: &str = "duration = \"10 s\"\nnode = [{ name = \"a\" }, { name = \"b\" }]\n[[link]]\nname = \"air\"\n\
                      between = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n\
                      timeline = [{ at = \"1500 ms\", up = false }, { at = \"1600 ms\", up = true }]\n";

/// The events of a scenario arrive in their order, also at a program that connects late, and the agent then ends.
#[test]
fn replay_plays_a_scenario() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tunnel.toml"), TUNNEL).unwrap();
    let (agent, _out) = start(&["--replay", "tunnel.toml", "--threshold", "-100", "--hysteresis", "3"], folder.path());
    let mut reader = UnixStream::connect(folder.path().join("agent.sock")).unwrap();
    reader.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    let events: Vec<&str> = text.lines().collect();
    assert_eq!(events[0], r#"{"event":"threshold","dbm":-100.0,"hysteresis_db":3.0}"#, "{text}");
    let down = events.iter().position(|line| *line == r#"{"event":"down"}"#).expect("the tunnel");
    assert_eq!(events[down + 1], r#"{"event":"up"}"#, "{text}");
    let out = output(agent);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(!folder.path().join("agent.sock").exists());
}

#[test]
fn signal_command_is_asked_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let level = folder.path().join("level");
    fs::write(&level, "signal: -80 dBm\n").unwrap();
    let command = format!("cat {}", level.display());
    let (agent, mut out) = start(&["--signal-command", &command, "--every", "20 ms"], folder.path());
    assert_eq!(line(&mut out), r#"{"event":"signal","dbm":-80.0}"#);
    // No level, and the same level again, are no news.
    fs::write(&level, "unknown\n").unwrap();
    thread::sleep(Duration::from_millis(200));
    fs::write(&level, "-90.25").unwrap();
    assert_eq!(line(&mut out), r#"{"event":"signal","dbm":-90.25}"#);
    signal(&agent, "-INT");
    let ended = output(agent);
    assert_eq!(ended.status.signal(), Some(2));
    assert_eq!(stderr(&ended).matches("it printed no level").count(), 1, "{}", stderr(&ended));
}

/// The uplink of a bridge loses its carrier: the gateway closes windows, the sender stops, and later goes on.
#[test]
fn gateway_follows_the_carrier() {
    let Some(bench) = Bench::new(&["packet_socket"], false) else { return };
    // The radio of the train, beside the bridge.
    ip(&bench.machine, "link add radio type veth peer name far");
    ip(&bench.machine, "link set radio up");
    ip(&bench.machine, "link set far up");
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent.sock");
    let path = socket.to_str().unwrap();
    let agent = bench.service(&["agent", "--interface", "radio", "--carrier-only", "--socket", path]);
    let name = unique("carrier");
    let gateway = bench.start(&["avoca-rx", "--between", "inner", "outer", "--as", &name, "--coverage", path]);
    let listener = bench.listener();
    let received = AtomicU64::new(0);
    const ALL: u64 = 3_000_000;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut server = listener.accept().unwrap().0;
            for _ in 0..ALL / 10_000 {
                server.write_all(&[1; 10_000]).unwrap();
                thread::sleep(Duration::from_millis(5));
            }
        });
        let client = scope.spawn(|| {
            let (mut client, mut buffer) = (bench.connect(), [0; 65536]);
            while let Ok(n @ 1..) = client.read(&mut buffer) {
                received.fetch_add(n as u64, Ordering::Relaxed);
            }
        });
        let now = || received.load(Ordering::Relaxed);
        wait_until("the transfer has begun", || now() > 100_000);
        ip(&bench.machine, "link set far down");
        wait_until("the transfer stands still", || {
            let before = now();
            thread::sleep(Duration::from_millis(200));
            now() == before && before < ALL
        });
        ip(&bench.machine, "link set far up");
        client.join().unwrap();
        assert_eq!(now(), ALL);
    });
    let status = json(&roughlink(&["gateway", "stat", &name, "--json"]));
    assert!(status["packets"]["originated"].as_u64().unwrap() >= 2, "{status}");
    [gateway, agent].into_iter().for_each(|child| {
        signal(&child, "-INT");
        output(child);
    });
}

#[test]
fn wrong_commands_say_how_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tunnel.toml"), TUNNEL).unwrap();
    for (args, expected, exit) in [
        (&["--replay", "hello"][..], "no link with coverage", 2),
        (&["--replay", "tunnel.toml", "--link", "ai"], "did you mean `air`?", 2),
        (&[], "--interface", 2),
        (&["--signal-command", "true", "--every", "5"], "no unit", 2),
        (&["--interface", "lo", "--threshold", "nan"], "--threshold", 2),
        (&["--interface", "lo", "--socket", "/nowhere/agent.sock"], "--socket", 3),
        (&["--interface", "lo", "--socket", "s", "--group", "no-such-group"], "no-such-group", 3),
    ] {
        let out = roughlink_in(&[&["agent"], args].concat(), folder.path());
        assert_eq!(code(&out), exit, "{args:?}: {}", stderr(&out));
        assert!(stderr(&out).contains(expected), "{args:?}: {}", stderr(&out));
    }
    // A file that is no socket stays.
    let out = roughlink_in(&["agent", "--interface", "lo", "--socket", "tunnel.toml"], folder.path());
    assert_eq!(code(&out), 3, "{}", stderr(&out));
    assert!(folder.path().join("tunnel.toml").exists());
}

#[test]
fn unit_is_valid() {
    let out = roughlink(&["agent", "--interface", "wwan0", "--signal-command", "mmcli -m any", "--unit"]);
    let unit = stdout(&out);
    assert!(unit.contains("--signal-command \"mmcli -m any\"") && unit.contains("DynamicUser=yes"), "{unit}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roughlink-agent.service");
    fs::write(&file, unit).unwrap();
    match Command::new("systemd-analyze").arg("verify").arg(&file).output() {
        Ok(out) => assert!(out.status.success() && stderr(&out).is_empty(), "{}", stderr(&out)),
        Err(e) => eprintln!("skipped: systemd-analyze: {e}"),
    }
}
