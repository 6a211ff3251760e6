//! Malicious or broken input files: errors have a position and a bounded length, and no forbidden file is read.

mod common;

use common::{code, roughlink, roughlink_in, stderr, stdout};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const HELLO: &str = "name = \"h\"\nduration = \"1 s\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n\
                     [[link]]\nname = \"l\"\n\
    between = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n";

fn run(folder: &Path, text: &[u8], more: &[&str]) -> Output {
    fs::write(folder.join("s.toml"), text).unwrap();
    roughlink_in(&[&["run", "s.toml"], more].concat(), folder)
}

fn refused(out: &Output, reason: &str) -> String {
    assert_eq!(code(out), 2, "{}", stderr(out));
    // The message is wrapped, with a bar before each continuation line.
    let said: Vec<_> = stderr(out).split_whitespace().filter(|word| *word != "│").map(str::to_owned).collect();
    let said = said.join(" ");
    assert!(said.contains(reason), "{reason:?} is not in {said}");
    said
}

#[test]
fn long_lines_are_clipped_and_do_not_panic() {
    let folder = tempfile::tempdir().unwrap();
    let long = "a".repeat(70_000);
    let said = refused(&run(folder.path(), format!("x = \"{long}\" !\n").as_bytes(), &[]), "s.toml:1:70008:");
    assert!(said.len() < 2_000, "{} bytes", said.len());
    // A long value within the message.
    let said = refused(
        &run(folder.path(), format!("duration = \"{long}\"\n").as_bytes(), &[]),
        "expected a number and a unit",
    );
    assert!(said.len() < 10_000, "{} bytes", said.len());
    // A warning about a long line, and about a short line beside a long one.
    let far = format!("{HELLO}noise = {{ kind = \"none\" }} # {long}\ncolour = 1\n");
    let said = refused(&run(folder.path(), far.as_bytes(), &[]), "unknown key `colour`");
    assert!(said.len() < 2_000, "{} bytes", said.len());
}

#[test]
fn twenty_problems_are_shown_and_the_others_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::from("duration = \"1 s\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n");
    for i in 0..3_000 {
        text += &format!("[[link]]\nname = \"l{i}\"\nbetween = [\"a\", \"b\"]\nrate = \"fast\"\ndelay = \"1 ms\"\n");
    }
    let out = run(folder.path(), text.as_bytes(), &[]);
    let said = refused(&out, "and 2980 more");
    assert_eq!(said.matches("fast").count(), 2 * 20, "each with its excerpt");
}

#[test]
fn control_characters_are_shown_as_escapes() {
    let folder = tempfile::tempdir().unwrap();
    let hidden = |text: &str| text.contains(['\u{1b}', '\u{7}', '\u{202e}']);
    let title = HELLO.replacen("\"h\"", "\"\\u001b]0;owned\\u0007 \\u202egnp\"", 1);
    let out = run(folder.path(), title.as_bytes(), &[]);
    assert_eq!(code(&out), 0);
    assert!(!hidden(&stdout(&out)) && !hidden(&stderr(&out)), "{}", stdout(&out));
    assert!(stdout(&out).contains("\\u{1b}]0;owned\\u{7} \\u{202e}gnp"), "{}", stdout(&out));
    let raw = format!("{HELLO}colour = 'a\u{202e}b'\n");
    let out = run(folder.path(), raw.as_bytes(), &[]);
    refused(&out, "a\\u{202e}b");
    assert!(!hidden(&stderr(&out)));
    // A control character that is also white space, at the end of a line.
    let out = run(folder.path(), format!("{HELLO}colour = 1\u{b}\n").as_bytes(), &[]);
    assert!(code(&out) == 2 && !stderr(&out).contains('\u{b}'), "{}", stderr(&out));
}

#[test]
fn text_that_is_not_utf8_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    refused(&run(folder.path(), b"duration = \"1 s\"\nname = \"\xff\"\n", &[]), "line 2: it is not UTF-8 text");
}

#[cfg(unix)]
#[test]
fn only_regular_files_beneath_the_scenario_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("in");
    fs::create_dir(&inner).unwrap();
    fs::write(folder.path().join("out.csv"), "time_s,rate_mbps\n0,1\n").unwrap();
    fs::write(inner.join("secret"), "root:x:0:0\nhunter2\n").unwrap();
    fs::write(inner.join("secret.csv"), "root:x:0:0,hunter2\n0,1\n").unwrap();
    std::os::unix::fs::symlink("../out.csv", inner.join("link.csv")).unwrap();
    assert!(Command::new("mkfifo").arg(inner.join("pipe.csv")).status().unwrap().success());
    let reading = |name: &str| format!("{HELLO}timeline = \"{name}\"\n");
    for (name, reason) in [
        ("pipe.csv", "it is not a regular file"),
        ("/dev/zero", "it is outside the folder of the scenario"),
        ("../out.csv", "it is outside the folder of the scenario"),
        ("link.csv", "it is outside the folder of the scenario"),
        ("secret", "line 1: expected a whole number of ms"),
        ("secret.csv", "no known column"),
    ] {
        let said = refused(&run(&inner, reading(name).as_bytes(), &[]), reason);
        assert!(!said.contains("root:x") && !said.contains("hunter2"), "{said}");
    }
    refused(&run(&inner, reading("/dev/zero").as_bytes(), &["--allow-outside"]), "it is not a regular file");
    for name in ["../out.csv", "link.csv"] {
        let out = run(&inner, reading(name).as_bytes(), &["--allow-outside"]);
        assert_eq!(code(&out), 0, "{}", stderr(&out));
    }
}

#[test]
fn grids_and_impulses_have_limits() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = |more: &[&str]| roughlink_in(&[&["sweep", "hello", "-o", "out"], more].concat(), folder.path());
    refused(&sweep(&["--replicas", "4294967295"]), "the grid has 4294967295 runs, more than 1000000");
    let many = (1..=1_100).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
    let axis = |key: &str| format!("{key}={many}");
    let axes = [axis("seed"), axis("tcp.initial_window"), axis("tcp.delayed_ack")];
    let set: Vec<&str> = axes.iter().flat_map(|a| ["--set", a]).collect();
    refused(&sweep(&[&set[..], &["--replicas", "1"]].concat()), "the grid has 1331000000 runs");
    refused(&sweep(&["--max-runs", "5", "--replicas", "6"]), "the grid has 6 runs, more than 5");
    assert!(!folder.path().join("out").exists());
    let dense =
        format!("{HELLO}noise = {{ kind = \"impulse\", asynchronous = {{ every = \"1 ns\", length = \"1 ns\" }} }}\n");
    refused(&run(folder.path(), dense.as_bytes(), &[]), "pulses every 1 ns are too frequent");
}

#[test]
fn a_seed_is_a_positive_integer_of_63_bits() {
    let out = roughlink(&["run", "hello", "--seed", "9223372036854775808"]);
    refused(&out, "9223372036854775808 is not in 0..=9223372036854775807");
    let out = roughlink(&["run", "hello", "--seed", "9223372036854775807", "--set", "duration=1 s"]);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
}

/// Exceeding a limit is an error with exit code 2. Memory matters most: a run can fill it within a moment.
#[test]
fn runs_have_limits_of_events_and_memory() {
    let folder = tempfile::tempdir().unwrap();
    let flow = "[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n";
    let out = run(folder.path(), format!("{HELLO}{flow}").as_bytes(), &["--max-events", "100"]);
    refused(&out, "the run has more than 100 events; it ended at");
    // All segments in one burst, and paths that hold any number of packets.
    let tcp = "[tcp]\ninitial_window = 4000000000\nrcv_buf = \"9000 GB\"\nsnd_buf = \"9000 GB\"\n";
    let long = HELLO.replace("\"1 s\"", "\"100 s\"").replace("1 Mbit/s", "1000 Gbit/s");
    let long = long.replace("delay = \"1 ms\"", "delay = \"1 s\"");
    for text in [
        format!("{HELLO}{flow}{tcp}"),
        format!("{long}{tcp}{flow}"),
        format!("{long}{flow}", flow = flow.replace("bulk", "cbr").replace("to =", "rate = \"1000 Gbit/s\"\nto =")),
    ] {
        refused(
            &run(folder.path(), text.as_bytes(), &["--max-memory", "20"]),
            "more than 20 MB of packets and records",
        );
    }
    let out = folder.path().join("out");
    refused(
        &run(folder.path(), format!("{HELLO}{flow}{tcp}").as_bytes(), &["--max-memory", "20", "-o", "out"]),
        "more than 20 MB of packets and records",
    );
    assert!(!out.join("manifest.json").exists());
    fs::write(folder.path().join("s.toml"), format!("{HELLO}{flow}{tcp}")).unwrap();
    let out =
        roughlink_in(&["sweep", "s.toml", "--set", "seed=1,2", "--max-memory", "20", "-o", "swept"], folder.path());
    refused(&out, "the same in 5 other runs");
}

#[test]
fn too_large_segment_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let more = "[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n[tcp]\nmss = \"4294967295 B\"\n";
    refused(
        &run(folder.path(), format!("{HELLO}{more}").as_bytes(), &[]),
        "`mss` must be between 64 B and 65495 B, found 4294967295 B",
    );
}

/// After a long pause, the next packet would require drawing all impulses since the last one.
#[test]
fn noise_with_too_many_impulses_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let noise =
        "delay = \"1 ms\"\nnoise = { kind = \"impulse\", asynchronous = { every = \"10 us\", length = \"1 us\" } }";
    let text = HELLO.replace("delay = \"1 ms\"", noise).replace("\"1 s\"", "\"2000 s\"");
    assert!(text.contains("impulse") && text.contains("2000 s"));
    refused(&run(folder.path(), text.as_bytes(), &[]), "has more than 100000000 impulses");
    let out = run(folder.path(), text.replace("2000 s", "2 s").as_bytes(), &[]);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
}

#[test]
fn a_scenario_larger_than_its_limit_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = fs::File::create(folder.path().join("s.toml")).unwrap();
    file.set_len(1 << 33).unwrap();
    refused(&roughlink_in(&["run", "s.toml"], folder.path()), "it is larger than 512 MB");
}
