//! Conversations and frames of an emulation, compared with the kernel's counters and tshark's view of the capture.

#![cfg(target_os = "linux")]

mod common;

use common::emulated::{PAIR, emulate, folder, folder_of};
use common::{code, json, roughlink_in, stderr, stdout};
use std::fs;
use std::process::Command;

/// Receives the data of one connection.
const SERVER: &str = "
import socket, time
s = socket.create_server(('10.0.0.1', 7000))
c = s.accept()[0]
n = 0
while b := c.recv(1 << 16):
    n += len(b)
c.close()
time.sleep(0.5)
print('received', n)
";

/// Sends a megabyte and prints the kernel's counters: struct tcp_info of linux/tcp.h.
const CLIENT: &str = "
import json, os, socket, struct, time
for _ in range(500):
    try:
        s = socket.socket()
        s.setsockopt(socket.IPPROTO_TCP, 13, b'reno')
        s.connect((os.environ['ROUGHLINK_SERVER'], 7000))
        break
    except ConnectionRefusedError:
        time.sleep(0.02)
s.sendall(bytes(1000000))
s.shutdown(socket.SHUT_WR)
s.recv(1)
i = s.getsockopt(socket.IPPROTO_TCP, 11, 192)
u = lambda at, form='I': struct.unpack_from(form, i, at)[0]
print('info', json.dumps(dict(rtt=u(68), retrans=u(100), acked=u(120, 'Q'), least=u(148))))
";

#[test]
fn kernel_and_tshark_agree_with_the_report() {
    let Some(folder) = folder() else { return };
    let tool = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if !tool("python3") {
        eprintln!("skipped: Python is missing");
        return;
    }
    let at = |node, program| ["--exec", node, "--", "python3", "-c", program];
    let before = ["--json", "--capture", "both.pcapng", "--until", "server"];
    let out = emulate(&[&before[..], &at("server", SERVER), &at("car", CLIENT)].concat(), folder.path());
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    let said = stderr(&out);
    let info = said.lines().find_map(|line| line.strip_prefix("car| info ")).unwrap_or_else(|| panic!("{said}"));
    let info: serde_json::Value = serde_json::from_str(info).unwrap();
    let result = json(&out);
    let is_tcp = |c: &&serde_json::Value| c["forward"]["delivered_bytes"] == 1_000_000;
    let all = result["conversations"].as_array().unwrap();
    let c = all.iter().find(is_tcp).unwrap_or_else(|| panic!("{result:#}"));
    eprintln!("the kernel: {info}\nours: {c:#}");
    assert_eq!((&c["protocol"], &c["to"]), (&"TCP".into(), &"10.0.0.1:7000".into()));
    let (ours, back) = (&c["forward"], &c["reverse"]);
    // Linux counts the SYN and the FIN as acknowledged bytes.
    assert!((1_000_000..=1_000_002).contains(&info["acked"].as_u64().unwrap()), "{info}");
    assert!(ours["retransmits"].as_u64() > Some(0));
    assert_eq!(ours["retransmits"], info["retrans"]);
    // The kernel's times include the lateness of the machine.
    let least = info["least"].as_f64().unwrap() / 1e3;
    let rtt = |name: &str| ours["rtt_ms"][name].as_f64().unwrap();
    // After a retransmission the RTT comes from the timestamps, whose unit is a millisecond.
    assert!(rtt("min") >= 10.0 && rtt("min") <= least + 1.0, "{} ms, the kernel {least}", rtt("min"));
    assert!(rtt("min") <= rtt("p50") && rtt("p50") <= rtt("p99"));
    // All traffic on this link belongs to conversations, so their losses are the link's losses.
    let sum = |name: &str| {
        all.iter().flat_map(|c| [&c["forward"][name], &c["reverse"][name]]).filter_map(|n| n.as_u64()).sum::<u64>()
    };
    let of_link = |name: &str| ["forward", "reverse"].map(|way| result["links"][0][way][name].as_u64().unwrap());
    assert_eq!(sum("lost"), of_link("lost").into_iter().chain(of_link("dropped")).sum::<u64>());
    assert_eq!(back["retransmits"], 0);
    // The kernel's algorithm as sock_diag reports it; expected values are in JSON only.
    assert_eq!((&ours["cc"], &ours["paced"]), (&"reno".into(), &false.into()), "{c:#}");
    assert!(!said.contains("does not pace"), "{said}");
    let sent: u64 =
        all.iter().flat_map(|c| [&c["forward"], &c["reverse"]]).filter_map(|d| d["sent"]["packets"].as_u64()).sum();
    assert_eq!(Some(sent), result["ports"]["received"].as_u64());

    if !tool("tshark") {
        eprintln!("tshark is missing");
        return;
    }
    // Use only the client's interface, because the whole capture contains each packet twice.
    let read = |args: &[&str]| {
        let out = Command::new("tshark").args(args).current_dir(folder.path()).output().unwrap();
        assert!(out.status.success(), "{}", stderr(&out));
        stdout(&out)
    };
    read(&["-r", "both.pcapng", "-Y", "frame.interface_id == 1", "-w", "client.pcapng"]);
    let again = "tcp.dstport == 7000 && (tcp.analysis.retransmission || tcp.analysis.fast_retransmission || \
                 tcp.analysis.spurious_retransmission || tcp.analysis.out_of_order)";
    let port = c["from"].as_str().unwrap().rsplit_once(':').unwrap().1;
    let lines = read(&["-r", "client.pcapng", "-Y", &format!("tcp.port == {port} && {again}")]);
    assert_eq!(Some(lines.lines().count() as u64), ours["retransmits"].as_u64(), "{lines}");
    // The table, in 80 columns.
    let programs = [&at("server", SERVER)[..], &at("car", CLIENT)].concat();
    let out = emulate(&[&["--until", "server"][..], &programs].concat(), folder.path());
    let text = stdout(&out);
    let line = text.lines().find(|line| line.contains(" 10.0.0.1:7000 ")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.trim_start().starts_with("TCP 10.0.0.2:") && line.contains(" ms"), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80 || line.contains("packets from kernel nodes")),
        "{text}"
    );
}

/// One emulation ends before any datagram arrives, another after all have arrived.
#[test]
fn packets_in_flight_at_the_end_are_not_lost() {
    let Some(folder) = folder_of(&PAIR.replace("5 ms", "3 s").replace("1 %", "0 %")) else { return };
    let script =
        |wait: &str| format!("for i in 1 2 3 4 5; do echo > /dev/udp/10.0.0.1/9; done 2>/dev/null; sleep {wait}");
    let run = |folder_name: &str, wait: &str| {
        let program = ["--kernel", "server", "--exec", "car", "--", "bash", "-c", &script(wait)];
        let out = emulate(&[&["--json", "--no-capture", "-o", folder_name][..], &program].concat(), folder.path());
        assert_eq!(code(&out), 0, "{}", stderr(&out));
        let result = json(&out);
        let all = result["conversations"].as_array().unwrap();
        let datagrams = all.iter().filter(|c| c["protocol"] == "UDP" && c["to"] == "10.0.0.1:9");
        let counts = ["in_flight", "lost"].map(|name| {
            datagrams.clone().map(|c| c["forward"][name].as_u64().expect("both ends are kernels")).sum::<u64>()
        });
        assert_eq!((&result["links"][0]["reverse"]["lost"], datagrams.count()), (&0.into(), 5));
        counts
    };
    assert_eq!(run("early", "0"), [5, 0]);
    let text = std::fs::read_to_string(folder.path().join("early/conversations.csv")).unwrap();
    let heading: Vec<_> = text.lines().next().unwrap().split(',').collect();
    assert_eq!(heading[4..7], ["delivered_bytes", "in_flight_pkt", "lost_pkt"]);
    for row in text.lines().map(|row| row.split(',').collect::<Vec<_>>()).filter(|row| row[3] == "10.0.0.1:9") {
        assert_eq!(row[5..7], ["1", "0"], "{row:?}");
    }
    assert_eq!(run("late", "4"), [0, 0]);
}

/// Connects with the default algorithm, which paces, and selects Reno after the connection has sent for a while.
const CHANGES: &str = "
import os, socket, time
for _ in range(500):
    try:
        s = socket.create_connection((os.environ['ROUGHLINK_SERVER'], 7000))
        break
    except ConnectionRefusedError:
        time.sleep(0.02)
s.sendall(bytes(50000))
time.sleep(1)
s.setsockopt(socket.IPPROTO_TCP, 13, b'reno')
s.sendall(bytes(50000))
time.sleep(1)
s.shutdown(socket.SHUT_WR)
s.recv(1)
";

#[test]
fn a_paced_sender_of_another_algorithm_is_reported() {
    let Some(folder) = folder() else { return };
    let at = |node, program| ["--exec", node, "--", "python3", "-c", program];
    let programs = [&at("server", SERVER)[..], &at("car", CHANGES)].concat();
    let before = ["--set", "tcp.cc=bbr", "--no-capture", "--until", "server", "-o", "out"];
    let out = emulate(&[&before[..], &programs].concat(), folder.path());
    let file = |name: &str| std::fs::read(folder.path().join("out").join(name)).unwrap();
    let about: serde_json::Value = serde_json::from_slice(&file("emulation.json")).unwrap();
    if about["congestion_control"]["car"]["name"] != "bbr" {
        eprintln!("skipped: this kernel has no BBR for namespaces");
        return;
    }
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    let senders = about["senders"].as_array().unwrap();
    let sender = senders.iter().find(|s| s["to"] == "10.0.0.1:7000").unwrap_or_else(|| panic!("{about:#}"));
    assert_eq!((&sender["cc"], &sender["paced"]), (&"reno".into(), &true.into()));
    let result: serde_json::Value = serde_json::from_slice(&file("summary.json")).unwrap();
    // Connections before the server listened were refused.
    let is_accepted = |c: &&serde_json::Value| c["forward"]["delivered_bytes"] == 100_000;
    let c = result["conversations"].as_array().unwrap().iter().find(is_accepted).unwrap();
    assert_eq!((&c["forward"]["cc"], &c["forward"]["paced"]), (&"reno".into(), &true.into()));
    assert_eq!((&c["reverse"]["cc"], &c["reverse"]["paced"]), (&"bbr".into(), &true.into()));
    let (said, text) = (stderr(&out), stdout(&out));
    assert!(said.contains("warning: TCP from 10.0.0.2:") && said.contains("`reno` does not pace"), "{said}");
    assert!(text.contains("reno, paced"), "{text}");
}

/// Sends three frames with a SLAC message, CM_SLAC_PARM.REQ of HomePlug AV, and waits until they have arrived.
const SLAC: &str = "
import socket, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(('plc0', 0))
for run in (1, 2, 3):
    message = bytes([1, 0x64, 0x60, 0, 0, 0, 0, run]) + bytes(38)
    s.send(bytes([255] * 6 + [2, 0, 0, 0, 0, 2, 0x88, 0xe1]) + message)
time.sleep(0.5)
";

#[test]
fn frames_without_ip_are_counted_and_captured() {
    let lossy =
        PAIR.replace("kind = \"random\", loss = \"1 %\"", "kind = \"list\", drop = [1], direction = \"reverse\"");
    let Some(folder) = folder_of(&lossy) else { return };
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: Python is missing");
        return;
    }
    let args = ["--layer", "ethernet", "-o", "out", "--kernel", "server", "--exec", "car", "--", "python3", "-c", SLAC];
    let out = emulate(&args, folder.path());
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    let table = stdout(&out);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(table.lines().any(|line| words(line) == "HomePlug AV car server 3 2"), "{table}");
    let read = |name: &str| fs::read(folder.path().join("out").join(name)).unwrap();
    let result: serde_json::Value = serde_json::from_slice(&read("summary.json")).unwrap();
    let row = serde_json::json!({
        "protocol": "HomePlug AV", "from": "car", "to": "server", "sent": 3, "delivered": 2
    });
    assert_eq!(result["frames"], serde_json::json!([row]));
    let capture = read("capture.pcapng");
    let count = |wanted: &[u8]| capture.windows(wanted.len()).filter(|part| *part == wanted).count();
    let message = |run| count(&[0x88, 0xe1, 1, 0x64, 0x60, 0, 0, 0, 0, run]);
    assert_eq!([1, 2, 3].map(message), [2, 1, 2], "at both ends, but the second was lost");
    assert_eq!([b"car:plc (Ethernet)" as &[u8], b"server:plc (Ethernet)"].map(count), [1, 1]);
    let report = roughlink_in(&["report", "out"], folder.path());
    assert_eq!(code(&report), 0, "{}", stderr(&report));
    let html = String::from_utf8(read("report.html")).unwrap();
    let row = "<tr><th scope=\"row\">HomePlug AV</th><td>car</td><td>server</td>";
    for wanted in ["<h3>Frames without IP</h3>", row] {
        assert!(html.contains(wanted), "{wanted}: {}", html.find("<main").map_or("", |at| &html[at..]));
    }
}
