//! Captures of real runs, judged by tshark. Skipped, with a line that says so, where there is none. docs/how-to/captures.md
//! explains what is counted and why.

mod common;

use common::{Run, run, skip};
use roughlink_lab::output::CaptureSettings;
use std::path::Path;
use std::process::Command;

/// What tshark makes of a capture: a line of `fields` for each packet that passes `filter`; `None` without tshark.
fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Option<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-Y", filter, "-T", "fields", "-r"]).arg(file);
    for port in ["tcp.port==42000", "udp.port==42000"] {
        command.args(["-d", &format!("{port},data")]); // no guessing what the payload may be
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

/// The number of packets that pass `filter`.
fn count(file: &Path, filter: &str) -> usize {
    tshark(file, filter, &["frame.number"]).unwrap().len()
}

fn whole_packets(hosts: Option<&str>) -> Option<CaptureSettings> {
    Some(CaptureSettings { snaplen: Some(0), hosts: hosts.map(|h| vec![h.to_owned()]) })
}

/// What must not be found.
const WRONG: &str = "_ws.malformed || ip.checksum.status == 0 || tcp.checksum.status == 0 || udp.checksum.status == 0 \
                     || ip.fragment.error || ip.fragment.overlap || tcp.option.len.invalid";

/// What tshark calls a packet that repeats sequence numbers: which of these depends on time and on what came back.
const AGAIN: &str = "tcp.analysis.retransmission || tcp.analysis.fast_retransmission \
                     || tcp.analysis.spurious_retransmission || tcp.analysis.out_of_order";

/// Runs that differ in what is on the wire.
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
fn tshark_finds_nothing_wrong() {
    for (what, overrides) in RUNS {
        let Run { dir, .. } = run(overrides, |s| s.capture = whole_packets(None));
        let file = dir.path().join("trace.pcapng");
        let fields = ["frame.number", "_ws.col.Info", "_ws.expert.message"];
        let Some(wrong) = tshark(&file, WRONG, &fields) else { return };
        assert_eq!(wrong, Vec::<String>::new(), "{what}");
        // What a run must show for this test to mean something.
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
            // With fragments, the checksum is that of the whole datagram and is checked with its last fragment.
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

/// At the sender, tshark sees what leaves and what comes back, as the sender does. It must find the same number of
/// retransmissions, whatever it calls them.
#[test]
fn tshark_counts_the_same_retransmissions_at_the_sender() {
    let mut compared = 0;
    for (what, overrides) in RUNS {
        for seed in ["1", "2"] {
            let overrides: Vec<_> = overrides.iter().copied().chain([("seed", seed)]).collect();
            let Run { dir, result } = run(&overrides, |s| s.capture = whole_packets(Some("sa")));
            let file = dir.path().join("trace.pcapng");
            // A repeated SYN is no segment of the sender's, and so not among its retransmits.
            let filter = format!("({AGAIN}) && tcp.flags.syn == 0 && ip.src == 10.0.0.1");
            let Some(theirs) = tshark(&file, &filter, &["frame.number"]) else { return };
            assert_eq!(theirs.len() as u64, result.flows[0].retransmits, "{what}, seed {seed}");
            compared += result.flows[0].retransmits;
        }
    }
    assert!(compared > 700, "{compared} retransmissions compared");
}

/// The one exception: a repeated SYN, which is a retransmission to tshark.
#[test]
fn a_repeated_syn_is_counted_by_tshark_alone() {
    let noise = "{ kind = \"list\", drop = [0, 100], direction = \"forward\" }";
    let overrides = [("tcp.stack", "linux"), ("link.plc.noise", noise)];
    let Run { dir, result } = run(&overrides, |s| s.capture = whole_packets(Some("sa")));
    let file = dir.path().join("trace.pcapng");
    let Some(theirs) = tshark(&file, AGAIN, &["tcp.flags.syn"]) else { return };
    assert_eq!((theirs.len(), result.flows[0].retransmits), (2, 1), "{theirs:?}");
    assert_eq!(theirs[0], "1");
}

/// Over SCTP, whose packets are kept whole by default: every chunk is decoded, every CRC32c right, and tshark finds the
/// retransmissions that we count.
#[test]
fn tshark_reads_sctp() {
    let mut compared = 0;
    for (what, more) in [("one stream", None), ("three streams", Some(("sctp.streams", "3")))] {
        let mut overrides = vec![("flow.download.transport", "sctp")];
        overrides.extend(more);
        let Run { dir, result } = run(&overrides, |_| {});
        let file = dir.path().join("trace.pcapng");
        let Some(data) =
            tshark(&file, "sctp.chunk_type == 0 && frame.interface_name == \"sa:internet\"", &["frame.len"])
        else {
            return;
        };
        assert_eq!(data.len() as u64, result.flows[0].segments, "{what}");
        let wrong =
            "_ws.malformed || sctp.checksum.status == 0 || sctp.checksum.status == 2 || ip.checksum.status == 0";
        assert_eq!(tshark(&file, wrong, &["frame.number", "_ws.col.Info"]).unwrap(), Vec::<String>::new(), "{what}");
        let again = "sctp.retransmission && sctp.chunk_type == 0 && frame.interface_name == \"sa:internet\"";
        // As docs/how-to/captures.md has it, one interface is taken out first: tshark sees each packet twice.
        let Run { dir, result } = run(&overrides, |s| {
            s.capture = Some(CaptureSettings { hosts: Some(vec!["sa".into()]), ..CaptureSettings::default() });
        });
        let theirs = tshark(&dir.path().join("trace.pcapng"), again, &["frame.number"]).unwrap();
        assert_eq!(theirs.len() as u64, result.flows[0].retransmits, "{what}");
        compared += theirs.len();
    }
    assert!(compared > 20, "{compared} retransmissions compared");
}

/// With the default snap length the headers are whole, and nothing is called malformed.
#[test]
fn a_short_capture_keeps_the_headers() {
    let Run { dir, .. } = run(&[("tcp.stack", "ns3")], |_| {});
    let file = dir.path().join("trace.pcapng");
    let Some(longest) = tshark(&file, "frame", &["frame.cap_len"]) else { return };
    assert_eq!(longest.iter().map(|l| l.parse::<u32>().unwrap()).max(), Some(128));
    assert_eq!(count(&file, WRONG), 0);
    assert!(count(&file, "tcp.options.sack.count >= 1") > 0);
}

/// Datagrams, cut and lost, beside a TCP flow that is cut too; and several flows that share a host.
#[test]
fn datagrams_and_several_flows_are_told_apart() {
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
    let file = dir.path().join("trace.pcapng");
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
