//! Emulations in tests, and a check for their remains.

use super::{json, roughlink, roughlink_in};
use std::fs;
use std::path::Path;
use std::process::Output;
use std::thread::sleep;
use std::time::Duration;

pub const PAIR: &str = "duration = \"60 s\"\nnode = [{ name = \"server\" }, { name = \"car\" }]\n\
                        [[link]]\nname = \"plc\"\nbetween = [\"server\", \"car\"]\n\
                        rate = \"20 Mbit/s\"\ndelay = \"5 ms\"\n\
                        noise = { kind = \"random\", loss = \"1 %\" }\n";

/// Creates a folder with [`PAIR`]; see [`folder_of`].
pub fn folder() -> Option<tempfile::TempDir> {
    folder_of(PAIR)
}

/// Creates a folder with a scenario, `pair.toml`; `None` if emulation is not possible.
pub fn folder_of(scenario: &str) -> Option<tempfile::TempDir> {
    can_emulate().then(|| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("pair.toml"), scenario).unwrap();
        folder
    })
}

/// Returns true if emulation is possible; otherwise prints the reason on standard error.
pub fn can_emulate() -> bool {
    let here = json(&roughlink(&["doctor", "--json"]));
    let able = |what: &str| here[what] == true;
    let can = able("namespaces") && able("tun") || able("rootless");
    if !can {
        eprintln!("skipped: namespaces: {}; tun: {}; rootless: {}", here["namespaces"], here["tun"], here["rootless"]);
    }
    can
}

/// Emulates the pair. Late packets do not count, because the machine may be busy with other tests.
pub fn emulate(args: &[&str], folder: &Path) -> Output {
    roughlink_in(&[&["emulate", "pair.toml", "--max-lateness", "10 s"], args].concat(), folder)
}

/// Returns all processes whose environment has the marker.
pub fn marked(marker: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let has = |path: &Path| fs::read(path.join("environ")).is_ok_and(|e| String::from_utf8_lossy(&e).contains(marker));
    all.map(|entry| entry.path()).filter(|p| has(p)).map(|p| p.display().to_string()).collect()
}

/// Asserts that all processes with the marker end within a few seconds.
pub fn assert_gone(marker: &str) {
    for _ in 0..500 {
        if marked(marker).is_empty() {
            return;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("still there: {:?}", marked(marker));
}
