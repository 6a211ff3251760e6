//! Interoperation of roughlink's SCTP and libusrsctp (usrsctp.c), an independent implementation, over emulated links.
//! Skipped with a reason without a C compiler, libusrsctp or emulation.

#![cfg(target_os = "linux")]

mod common;

use common::emulated::can_emulate;
use common::{code, json, roughlink_in, stderr};
use roughlink_core::wire::pattern;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Creates a folder with the program `peer`; `None`, with the reason on standard error, if it cannot be used.
fn folder() -> Option<tempfile::TempDir> {
    if !can_emulate() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/usrsctp.c");
    let built = Command::new("cc").arg("-o").arg(folder.path().join("peer")).args([source, "-lusrsctp"]).output();
    match built {
        Ok(out) if out.status.success() => Some(folder),
        Ok(out) => {
            eprintln!("skipped: libusrsctp is not here: {}", stderr(&out));
            None
        }
        Err(e) => {
            eprintln!("skipped: cc: {e}");
            None
        }
    }
}

const PLAIN: &str = "rate = \"20 Mbit/s\"\ndelay = \"5 ms\"\n";
/// Losses in both directions, reordering, and an MTU that fragments all but the shortest messages.
const ROUGH: &str = "rate = \"5 Mbit/s\"\ndelay = \"5 ms\"\njitter = \"6 ms\"\nreorder = true\nmtu = \"576 B\"\n\
                     noise = { kind = \"burst\", start = \"1 %\", length = [1, 3], direction = \"both\" }\n";

/// Emulates a transfer of `bytes` between the nodes `ours` and `linux`, where `script` runs, and returns the result.
fn transfer(folder: &Path, link: &str, (from, to): (&str, &str), bytes: usize, script: &str) -> Value {
    let payload = if link == ROUGH { 500 } else { 1452 };
    let text = format!(
        "duration = \"60 s\"\nnode = [{{ name = \"ours\" }}, {{ name = \"linux\", kernel = true }}]\n\
         [[link]]\nname = \"wire\"\nbetween = [\"ours\", \"linux\"]\n{link}\
         [[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"{from}\"\nto = \"{to}\"\nbytes = \"{bytes} B\"\n\
         transport = \"sctp\"\nsctp = {{ payload = \"{payload} B\" }}\nstart = \"1 s\"\n"
    );
    fs::write(folder.join("one.toml"), text).unwrap();
    let _ = fs::remove_file(folder.join("one.pcapng"));
    let args = ["emulate", "one.toml", "--max-lateness", "10 s", "--capture", "one.pcapng", "--json"];
    let out = roughlink_in(&[&args[..], &["--exec", "linux", "--", "sh", "-c", script]].concat(), folder);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    // Signs of protocol errors that neither end reports.
    let wrong = "_ws.malformed || ip.checksum.status == 0 || sctp.checksum.status == 0 || sctp.chunk_type == 6 \
                 || sctp.chunk_type == 9 || icmp";
    let tshark = ["-n", "-o", "sctp.checksum:CRC 32c", "-o", "ip.check_checksum:TRUE", "-Y", wrong, "-r", "one.pcapng"];
    match Command::new("tshark").args(tshark).current_dir(folder).output() {
        Ok(found) => assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout)),
        Err(e) => eprintln!("the capture is not judged: tshark: {e}"),
    }
    let result = json(&out);
    assert_eq!(result["ports"]["unreadable"], 0, "{result}");
    assert_eq!(link == ROUGH, result["links"][0]["forward"]["lost"].as_u64() > Some(0), "{result}");
    result
}

#[test]
fn usrsctp_receives_what_our_sctp_sends() {
    const BYTES: usize = 200_000;
    let Some(folder) = folder() else { return };
    for (link, payload) in [(PLAIN, 1452), (ROUGH, 500)] {
        let script = "./peer receive 10.0.0.2 42000 > got";
        let result = transfer(folder.path(), link, ("ours", "linux"), BYTES, script);
        let got = fs::read(folder.path().join("got")).unwrap();
        let mut expected = vec![0; BYTES];
        // The pattern of each message starts with its TSN.
        for (message, tsn) in expected.chunks_mut(payload).zip(1..) {
            pattern(tsn, message);
        }
        assert!(got == expected, "{} of {BYTES} bytes: {result}", got.len());
        let flow = &result["flows"][0];
        assert_eq!((&flow["delivered_bytes"], &flow["completed"]), (&BYTES.into(), &true.into()), "{result}");
        assert_eq!(link == ROUGH, flow["retransmits"].as_u64() > Some(0), "{result}");
    }
}

/// Messages that are bundled, fill a packet, fill several, or are longer than roughlink's buffer.
#[test]
fn our_sctp_receives_what_usrsctp_sends() {
    const BYTES: usize = 300_000;
    let Some(folder) = folder() else { return };
    let sent: Vec<u8> = (0..BYTES as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(folder.path().join("sent"), sent).unwrap();
    for (link, message) in [(PLAIN, 100), (PLAIN, 1452), (PLAIN, 150_000), (ROUGH, 100), (ROUGH, 5_000)] {
        let mtu = if link == ROUGH { 576 } else { 1500 };
        let script = format!("./peer send 10.0.0.1 42000 {message} {mtu} < sent");
        let result = transfer(folder.path(), link, ("linux", "ours"), BYTES, &script);
        let flow = &result["flows"][0];
        assert_eq!(
            (&flow["delivered_bytes"], &flow["completed"]),
            (&BYTES.into(), &true.into()),
            "{message}: {result}"
        );
    }
}
