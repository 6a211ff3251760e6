//! Captures of real runs, checked with tshark if it exists. docs/how-to/captures.md explains the counts.

mod common;

use common::{Run, run, skip};
use roughlink_lab::output::CaptureSettings;
use std::path::Path;
use std::process::Command;

/// Returns a line of `fields` for each packet that passes `filter`, as tshark prints it; `None` without tshark.
fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Option<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-Y", filter, "-T", "fields", "-r"]).arg(file);
    for port in ["tcp.port==42000", "udp.port==42000"] {
        command.args(["-d", &format!("{port},data")]); // do not guess the payload's protocol
    }
    command.args(["-o", "sctp.checksum:CRC 32c", "-o", "sctp.relative_tsns:FALSE"]);
    for on in ["ip.check_checksum", "tcp.check_checksum", "udp.check_checksum", "ip.defragment"] {
        command.args(["-o", &format!("{on}:TRUE")]);
    }
    command.args(fields.iter().flat_map(|f| ["-e", f]));
    let output = match command.output() {
        Ok(output) => output,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            skip("no tshark on this machine to judge captures");
            return None;
        }
        Err(e) => panic!("tshark: {e}"),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

fn count(file: &Path, filter: &str) -> usize {
    tshark(file, filter, &["frame.number"]).unwrap().len()
}

fn whole_packets(hosts: Option<&str>) -> Option<CaptureSettings> {
    // One file, unless hosts are selected.
    let one_file = hosts.is_none();
    Some(CaptureSettings { snaplen: Some(0), hosts: hosts.map(|h| vec![h.to_owned()]), one_file })
}

const WRONG: &str = "_ws.malformed || ip.checksum.status == 0 || tcp.checksum.status == 0 || udp.checksum.status == 0 \
                     || ip.fragment.error || ip.fragment.overlap || tcp.option.len.invalid";

/// Filter for packets that repeat sequence numbers; tshark has four kinds, by time and packets in the other direction.
const AGAIN: &str = "tcp.analysis.retransmission || tcp.analysis.fast_retransmission \
                     || tcp.analysis.spurious_retransmission || tcp.analysis.out_of_order";

/// Runs whose packets differ on the wire.
const RUNS: [(&str, &[(&str, &str)]); 10] = [
    ("linux", &[("tcp.stack", "linux")]),
    (
        "linux, no loss, full queue",
        &[("tcp.stack", "linux"), ("link.plc.noise.start", "0 %"), ("link.plc.queue", "20 pkt")],
    ),
    ("linux, every segment acknowledged", &[("tcp.stack", "linux"), ("tcp.delayed_ack", "1")]),
    ("linux, no SACK", &[("tcp.stack", "linux"), ("tcp.sack", "false")]),
    ("linux, no timestamps", &[("tcp.stack", "linux"), ("tcp.timestamps", "false")]),
    ("ns3, fragments", &[("tcp.stack", "ns3")]),
    ("ns3, fragments, no SACK", &[("tcp.stack", "ns3"), ("tcp.sack", "false")]),
    ("rfc", &[("tcp.stack", "rfc")]),
    ("ns2", &[("tcp.stack", "ns2")]),
    ("linux, noise both ways", &[("tcp.stack", "linux"), ("link.plc.noise.direction", "both")]),
];

#[test]
fn tshark_reports_no_errors() {
    for (what, overrides) in RUNS {
        let Run { dir, .. } = run(overrides, |s| s.capture = whole_packets(None));
        let file = dir.path().join("capture.pcapng");
        let fields = ["frame.number", "_ws.col.Info", "_ws.expert.message"];
        let Some(wrong) = tshark(&file, WRONG, &fields) else { return };
        assert_eq!(wrong, Vec::<String>::new(), "{what}");
        // Without such packets the test would be meaningless.
        let fields = [
            "frame.interface_name",
            "tcp.checksum.status",
            "tcp.options.sack.count",
            "ip.flags.mf",
            "tcp.flags.fin",
            "tcp.flags.syn",
            "ip.src",
            "ip.dst",
            "tcp.dstport",
        ];
        let packets = tshark(&file, "frame", &fields).unwrap();
        let packets: Vec<Vec<&str>> = packets.iter().map(|p| p.split('\t').collect()).collect();
        let count = |test: &dyn Fn(&[&str]) -> bool| packets.iter().filter(|p| test(p)).count();
        for interface in ["sa:internet", "evcc:plc"] {
            // The checksum of a fragmented datagram covers all fragments and is checked with the last one.
            assert!(count(&|p| p[0] == interface && p[1] == "1") > 400, "{what}: {interface}");
        }
        let sack = !overrides.contains(&("tcp.sack", "false")) && what != "ns2";
        assert_eq!(count(&|p| !p[2].is_empty()) > 0, sack, "{what}");
        assert_eq!(count(&|p| p[3] == "1") > 0, what.contains("fragments"), "{what}");
        assert!(count(&|p| p[4] == "1") >= 4, "{what}");
        let first_syn = packets.iter().find(|p| p[5] == "1").unwrap();
        assert_eq!(first_syn[6..], ["10.0.0.1", "10.0.0.3", "42000"], "{what}");
    }
}

/// A capture at the sender has exactly its packets, so tshark must count the same retransmissions, of any kind.
#[test]
fn tshark_counts_the_same_retransmissions_at_the_sender() {
    let mut compared = 0;
    for (what, overrides) in RUNS {
        for seed in ["1", "2"] {
            let overrides: Vec<_> = overrides.iter().copied().chain([("seed", seed)]).collect();
            let Run { dir, result } = run(&overrides, |s| s.capture = whole_packets(Some("sa")));
            let file = dir.path().join("capture-sa.pcapng");
            // A repeated SYN is not a data segment, so the sender does not count it as a retransmission.
            let filter = format!("({AGAIN}) && tcp.flags.syn == 0 && ip.src == 10.0.0.1");
            let Some(theirs) = tshark(&file, &filter, &["frame.number"]) else { return };
            assert_eq!(theirs.len() as u64, result.flows[0].retransmits, "{what}, seed {seed}");
            compared += result.flows[0].retransmits;
        }
    }
    assert!(compared > 700, "{compared} retransmissions compared");
}

#[test]
fn repeated_syn_is_counted_only_by_tshark() {
    let noise = "{ kind = \"list\", drop = [0, 100], direction = \"forward\" }";
    let overrides = [("tcp.stack", "linux"), ("link.plc.noise", noise)];
    let Run { dir, result } = run(&overrides, |s| s.capture = whole_packets(Some("sa")));
    let file = dir.path().join("capture-sa.pcapng");
    let Some(theirs) = tshark(&file, AGAIN, &["tcp.flags.syn"]) else { return };
    assert_eq!((theirs.len(), result.flows[0].retransmits), (2, 1), "{theirs:?}");
    assert_eq!(theirs[0], "1");
}

/// SCTP packets are captured whole by default. tshark must decode every chunk, find every CRC32c correct, and count the
/// same retransmissions.
#[test]
fn tshark_reads_sctp() {
    let mut compared = 0;
    for (what, more) in [("one stream", None), ("three streams", Some(("sctp.streams", "3")))] {
        let mut overrides = vec![("flow.download.transport", "sctp")];
        overrides.extend(more);
        let Run { dir, result } = run(&overrides, |_| {});
        let file = dir.path().join("capture-sa.pcapng");
        let Some(data) = tshark(&file, "sctp.chunk_type == 0", &["frame.len"]) else {
            return;
        };
        assert_eq!(data.len() as u64, result.flows[0].segments, "{what}");
        let wrong =
            "_ws.malformed || sctp.checksum.status == 0 || sctp.checksum.status == 2 || ip.checksum.status == 0";
        assert_eq!(tshark(&file, wrong, &["frame.number", "_ws.col.Info"]).unwrap(), Vec::<String>::new(), "{what}");
        let again = "sctp.retransmission && sctp.chunk_type == 0";
        let theirs = tshark(&file, again, &["frame.number"]).unwrap();
        assert_eq!(theirs.len() as u64, result.flows[0].retransmits, "{what}");
        compared += theirs.len();
    }
    assert!(compared > 20, "{compared} retransmissions compared");
}

#[test]
fn a_short_capture_keeps_the_headers() {
    let Run { dir, .. } = run(&[("tcp.stack", "ns3")], |_| {});
    for host in ["sa", "evcc"] {
        let file = dir.path().join(format!("capture-{host}.pcapng"));
        let Some(longest) = tshark(&file, "frame", &["frame.cap_len"]) else { return };
        assert_eq!(longest.iter().map(|l| l.parse::<u32>().unwrap()).max(), Some(128));
        assert_eq!(count(&file, WRONG), 0);
        assert!(count(&file, "tcp.options.sack.count >= 1") > 0);
    }
}

/// A charging session beside a download. Captures keep only the headers of the download's packets.
const SESSION: &str = r#"
duration = "20 s"
[[node]]
name = "secc"
[[node]]
name = "evcc"
[[link]]
name = "plc"
kind = "greenphy"
between = ["secc", "evcc"]
noise = [{ kind = "cable" }, { kind = "events", events = [{ at = "12 s", for = "60 ms" }] }]
[[flow]]
name = "session"
kind = "request"
from = "evcc"
to = "secc"
charge = "8 s"
messages = { charge_parameter_discovery = { response = "4000 B" } }
[[flow]]
name = "firmware"
kind = "bulk"
from = "secc"
to = "evcc"
start = "10 s"
bytes = "500 kB"
"#;

/// Dissectors of V2G, such as Wireshark's plugins for port 15118, need IPv6 between link-local addresses, and discovery
/// by multicast with an answer. The stream must consist only of V2GTP messages.
#[test]
fn session_decodes_as_v2gtp_over_ipv6() {
    let Run { dir, result } = common::run_text(SESSION, &[("flow.session.ip", "6")], |_| {});
    let session = result.flows[0].session().unwrap();
    let [evcc, secc] = ["evcc", "secc"].map(|host| dir.path().join(format!("capture-{host}.pcapng")));
    for file in [&evcc, &secc] {
        let Some(wrong) = tshark(file, &format!("{WRONG} || tcp.analysis.lost_segment"), &["_ws.col.Info"]) else {
            return;
        };
        assert_eq!(wrong, Vec::<String>::new());
        let cut = tshark(file, "frame.cap_len < frame.len", &["frame.cap_len", "ip.version", "tcp.srcport"]).unwrap();
        assert!(cut.len() > 300 && cut.iter().all(|p| *p == "128\t4\t50001"), "{:?}", &cut[..3]);
    }
    let sdp = tshark(&evcc, "udp", &["ipv6.src", "udp.srcport", "ipv6.dst", "udp.dstport", "udp.payload"]).unwrap();
    assert_eq!(
        sdp,
        [
            "fe80::2\t50000\tff02::1\t15118\t01fe9000000000021000",
            "fe80::1\t15118\tfe80::2\t50000\t01fe900100000014fe8000000000000000000000000000013b0e1000",
        ]
    );
    let ends = tshark(&evcc, "tcp && ipv6", &["ipv6.addr", "tcp.port"]).unwrap();
    assert!(
        ends.iter().all(|e| ["fe80::2,fe80::1\t50000,15118", "fe80::1,fe80::2\t15118,50000"].contains(&e.as_str()))
    );

    // The stream of each side as the other side captured it: sorted by sequence number, without repetitions.
    let requests: u64 = session.messages.iter().map(|m| m.requests).sum();
    let answers: u64 = session.messages.iter().map(|m| m.count).sum();
    for (file, from, expected, first, suffix) in
        [(&secc, "fe80::2", requests, 34, "Req"), (&evcc, "fe80::1", answers, 4, "Res")]
    {
        let filter = format!("tcp.len > 0 && ipv6.src == {from}");
        let segments = tshark(file, &filter, &["tcp.seq_raw", "tcp.payload"]).unwrap();
        let segments: std::collections::BTreeMap<u32, Vec<u8>> = segments
            .iter()
            .map(|s| {
                let (seq, hex) = s.split_once('\t').unwrap();
                let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
                (seq.parse().unwrap(), (0..hex.len()).step_by(2).map(byte).collect())
            })
            .collect();
        let mut stream = Vec::new();
        for (seq, bytes) in segments {
            assert_eq!(seq as usize, 1 + stream.len(), "nothing is missing, nothing overlaps");
            stream.extend(bytes);
        }
        let (mut messages, mut rest) = (Vec::new(), &stream[..]);
        while !rest.is_empty() {
            assert_eq!(rest[..4], [0x01, 0xfe, 0x80, 0x01]);
            let length = u32::from_be_bytes(rest[4..8].try_into().unwrap()) as usize;
            messages.push(&rest[8..8 + length]);
            rest = &rest[8 + length..];
        }
        assert_eq!(messages.len() as u64, expected);
        assert_eq!(messages[0].len(), first);
        assert!(messages.iter().any(|m| m[1..].starts_with(format!("CurrentDemand{suffix}").as_bytes())));
        assert_eq!(messages.iter().filter(|m| m.len() == 3992).count(), usize::from(suffix == "Res"));
    }
}

#[test]
fn a_session_is_captured_as_it_was_simulated() {
    for (ip, header) in [("4", 20), ("6", 40)] {
        let Run { dir, result } = common::run_text(SESSION, &[("flow.session.ip", ip)], |_| {});
        let file = dir.path().join("capture-secc.pcapng");
        let Some(lengths) = tshark(&file, "tcp.srcport == 15118 || udp.srcport == 15118", &["frame.len"]) else {
            return;
        };
        let smallest = lengths.iter().map(|l| l.parse::<u64>().unwrap()).min();
        assert_eq!(smallest, Some(header + 32), "ip = {ip}"); // an ACK with timestamps
        let all: u64 = tshark(&file, "frame.interface_name == \"secc:plc\"", &["frame.len", "ip.src", "ipv6.src"])
            .unwrap()
            .iter()
            .filter(|p| p.contains("10.0.0.1") || p.contains("fe80::1"))
            .map(|p| p.split('\t').next().unwrap().parse::<u64>().unwrap())
            .sum();
        let d = &result.links[0].forward;
        assert_eq!(all, d.bytes, "ip = {ip}: nothing was dropped by the queue, so what left is what was sent");
    }
}

/// Fragmented and lost datagrams beside a fragmented TCP flow, and several flows at one host.
#[test]
fn datagrams_and_several_flows_are_distinguished() {
    let more = "
        [[flow]]
        name = \"pictures\"
        kind = \"cbr\"
        from = \"sa\"
        to = \"evcc\"
        rate = \"1 Mbit/s\"
        packet = \"4000 B\"
        bytes = \"400 kB\"
        [[flow]]
        name = \"upload\"
        kind = \"bulk\"
        from = \"evcc\"
        to = \"sa\"
        bytes = \"500 kB\"";
    let Run { dir, .. } = common::run_text(&(common::SCENARIO.to_owned() + more), &[("tcp.stack", "ns3")], |s| {
        s.capture = whole_packets(None);
    });
    let file = dir.path().join("capture.pcapng");
    let Some(wrong) = tshark(&file, WRONG, &["frame.number", "_ws.col.Info"]) else { return };
    assert_eq!(wrong, Vec::<String>::new());
    assert!(count(&file, "udp.checksum.status == 1 && frame.interface_name == \"sa:internet\"") == 101);
    assert!(count(&file, "udp && frame.interface_name == \"evcc:plc\"") > 50);
    let mut streams = tshark(&file, "tcp || udp", &["ip.src", "udp.srcport", "tcp.srcport"]).unwrap();
    streams.sort();
    streams.dedup();
    let expected =
        ["10.0.0.1\t\t42000", "10.0.0.1\t\t50000", "10.0.0.1\t50001\t", "10.0.0.3\t\t42000", "10.0.0.3\t\t50002"];
    assert_eq!(streams, expected);
}
