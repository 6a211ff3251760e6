//! A stack is a set of values: the engines ask for rules, not for the name of a stack, and each rule acts alone.

#![expect(clippy::disallowed_methods, reason = "the test reads the sources of core")]

#[path = "common/one_link.rs"]
mod one_link;

use one_link::one_link;
use roughlink_core::net::{Network, RunOptions};
use std::fs;
use std::path::{Path, PathBuf};

/// Ways to ask for a stack, or for the recovery of one.
const NAMES_OF_STACKS: [&str; 6] =
    ["Stack::", ".stack", "LossRecovery::Prr", "LossRecovery::*", "LossRecovery::{", "Stack::*"];

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of sources").map(|entry| entry.expect("readable").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Returns the lines of `text` that are neither comments nor in an item under `#[cfg(test)]`.
fn code(text: &str) -> Vec<&str> {
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut code = Vec::new();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            code.push(line);
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
        let item = lines.find(|line| !line.trim_start().starts_with("#["));
        if item.is_some_and(|item| item.ends_with('{')) {
            lines.find(|line| *line == end);
        }
    }
    code
}

/// Returns the lines of `text` that ask for a stack.
fn questions(text: &str) -> Vec<&str> {
    code(text).into_iter().filter(|line| NAMES_OF_STACKS.iter().any(|name| line.contains(name))).collect()
}

#[test]
fn engines_ask_for_no_stack() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut read = 0;
    for engine in ["tcp", "sender", "sctp"] {
        for file in files(&sources.join(engine)).into_iter().chain([sources.join(format!("{engine}.rs"))]) {
            let name = file.strip_prefix(&sources).expect("below the sources").to_str().expect("UTF-8").to_owned();
            // The presets, and what is compiled for tests only.
            if name == "tcp/config.rs" || name == "tcp/dialogue.rs" || name.contains("tests") {
                continue;
            }
            let text = fs::read_to_string(&file).expect("readable");
            assert_eq!(questions(&text), [""; 0], "{name}: use a key of `TcpConfig` with a value per preset");
            read += 1;
        }
    }
    assert!(read > 30, "only {read} files");
    let presets = fs::read_to_string(sources.join("tcp/config.rs")).expect("readable");
    let (rules, _) = presets.split_once("pub fn preset(").expect("the presets are the last function");
    let (_, keys) = rules.split_once("impl TcpConfig {").expect("rules that several keys determine");
    assert_eq!(questions(keys), [""; 0], "tcp/config.rs: only `preset` depends on the stack");
}

#[test]
fn questions_for_a_stack_are_found() {
    let text = "#[cfg(test)]\nmod tests;\n// Stack::Linux\nfn f() {\n    if cfg.stack == Stack::Ns3 {}\n}\n\
                #[cfg(test)]\n#[rustfmt::skip]\nmod inline {\n    use super::Stack::*;\n}\n\
                fn g() { matches!(r, LossRecovery::Prr) }\n";
    assert_eq!(questions(text), ["    if cfg.stack == Stack::Ns3 {}", "fn g() { matches!(r, LossRecovery::Prr) }"]);
}

/// Returns the results of a flow over a link with these additional lines, as text.
fn results(tcp: &str, link: &str, flow: &str) -> String {
    let link = format!("rate = \"5 Mbit/s\"\ndelay = \"20 ms\"\nqueue = \"30 pkt\"\n{link}");
    let text = one_link(tcp, &link, flow);
    let (s, _) = roughlink_scenario::parse(&text, "rules", &[], &|_| Err("no files".into()))
        .unwrap_or_else(|e| panic!("{e}\n{text}"));
    let result = Network::new(s, RunOptions::default()).expect("a valid scenario").run().expect("runs");
    assert!(result.flows[0].delivered_bytes > 0 || tcp.contains("retries"), "{tcp}");
    format!("{:?}", result.flows[0])
}

const BULK: &str = "kind = \"bulk\"\nbytes = \"1 MB\"";
const LOSS: &str = "noise = { kind = \"random\", loss = \"4 %\" }";

/// Each rule that one of the stacks follows changes a transfer of the `rfc` stack by itself.
#[test]
fn each_rule_acts_alone() {
    let heavy = "noise = { kind = \"random\", loss = \"15 %\" }";
    let no_syn = "noise = { kind = \"list\", drop = [0, 1, 2] }";
    let no_flight = "noise = { kind = \"list\", drop = [0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] }";
    let burst = "noise = { kind = \"list\", drop = [30, 31, 32] }";
    let reordering = "jitter = \"30 ms\"\nreorder = true";
    let short_segments = "kind = \"onoff\"\nrate = \"1 Mbit/s\"\nwrite = \"1000 B\"\nstop = \"10 s\"";
    let pages = "kind = \"web\"\nresponse = \"200 kB\"\nthink = \"2 s\"";
    // rule, other keys of [tcp], keys of the link, keys of the flow
    let rules = [
        ("dsack = true", "recovery = \"rack\"\nundo = true\ntimestamps = false", reordering, BULK),
        ("compress_sacks = true", "", LOSS, BULK),
        ("rttvar = \"linux\"", "", heavy, BULK),
        ("syn_linear_timeouts = 4", "", no_syn, BULK),
        ("cautious_start = true", "", no_syn, BULK),
        ("fallback_rto = \"0 s\"", "timestamps = false", no_flight, BULK),
        ("reset_back_off = true", "timestamps = false", heavy, BULK),
        ("retries_as_time = true", "data_retries = 2", heavy, BULK),
        ("rescue = false", "", heavy, pages),
        ("resend_head = \"if_lost\"", "", heavy, BULK),
        ("resend_head = \"always\"", "", heavy, BULK),
        ("repair_before_recovery = true", "restart_duplicates = true", LOSS, BULK),
        ("restart_duplicates = true", "repair_before_recovery = true", LOSS, BULK),
        ("count_repeated_sacks = true", "", reordering, BULK),
        ("go_back_n = true", "", heavy, BULK),
        ("repair_below_sack = true", "", heavy, BULK),
        ("fill_retransmissions = true", "", burst, short_segments),
        ("timestamp_rtt = true", "", LOSS, BULK),
        ("smoothed_min_rtt = true", "recovery = \"rack\"", reordering, BULK),
        ("report_srtt = true", "cc = \"vegas\"", LOSS, BULK),
        ("grow_on_duplicates = true", "", LOSS, BULK),
        ("recovery_growth = \"new_data\"", "", LOSS, BULK),
        ("recovery_growth = \"none\"", "", LOSS, BULK),
        ("count_sacked_again = true", "cc = \"bic\"\ngrow_on_duplicates = true", heavy, BULK),
        ("window_in_flight = true", "rcv_buf = \"20 kB\"", LOSS, BULK),
        ("window_validation = true", "", "", pages),
        ("prr_counts_duplicates = true", "recovery = \"prr\"", LOSS, BULK),
    ];
    let without_effect = |&&(rule, tcp, link, flow): &&(&str, &str, &str, &str)| {
        let cc = if tcp.contains("cc =") { "" } else { "cc = \"newreno\"" };
        let tcp = format!("stack = \"rfc\"\n{cc}\n{tcp}");
        results(&tcp, link, flow) == results(&format!("{tcp}\n{rule}"), link, flow)
    };
    let idle: Vec<&str> = rules.iter().filter(without_effect).map(|rule| rule.0).collect();
    assert_eq!(idle, [""; 0]);
}
