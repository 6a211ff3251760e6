//! Listings of the program: scenarios, metrics, completions, manual pages, revision.

mod common;

use common::{code, json, roughlink, stderr, stdout};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the program and returns its output; it must succeed.
fn said(args: &[&str]) -> String {
    let out = roughlink(args);
    assert_eq!(code(&out), 0, "{args:?}: {}", stderr(&out));
    stdout(&out)
}

/// Runs a checker on a file with `text` and returns its verdict and output; `None` if the checker is not installed.
fn check(program: &str, args: &[&str], text: &str) -> Option<(bool, String)> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    match Command::new(program).args(args).arg(file.path()).stdin(Stdio::null()).output() {
        Ok(out) => Some((out.status.success(), stdout(&out) + &stderr(&out))),
        Err(e) => {
            eprintln!("skipped: {program}: {e}");
            None
        }
    }
}

#[test]
fn every_scenario_is_listed_shown_and_copied() {
    let list = said(&["scenario", "list"]);
    let all = json(&roughlink(&["scenario", "list", "--json"]));
    let all = all.as_array().unwrap();
    assert!(all.len() > 10);
    for one in all {
        let name = one["name"].as_str().unwrap();
        assert!(list.contains(name), "{name}");
        for key in ["title", "about"] {
            assert!(one[key].as_str().is_some_and(|text| text.len() > 3), "{one}");
        }
    }
    let shown = said(&["scenario", "show", "hello"]);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/hello.toml");
    assert_eq!(shown, fs::read_to_string(file).unwrap());
    let out = roughlink(&["scenario", "show", "helo"]);
    assert_eq!(code(&out), 2);
    assert!(stderr(&out).contains("did you mean `hello`?"));

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    assert_eq!(said(&["scenario", "copy", "hello", &path("mine.toml")]).trim(), path("mine.toml"));
    assert_eq!(fs::read_to_string(path("mine.toml")).unwrap(), shown);
    said(&["scenario", "copy", "hello", &path("")]);
    assert_eq!(fs::read_to_string(path("hello.toml")).unwrap(), shown);
    said(&["run", &path("hello.toml")]);
}

#[test]
fn scenarios_are_checked_without_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let text = said(&["scenario", "show", "hello"]);
    fs::write(path("good.toml"), &text).unwrap();
    fs::write(path("bad.toml"), text.replace("rate = ", "raet = ")).unwrap();
    let shown = said(&["scenario", "check", &path("good.toml"), "v2g-one-car"]);
    for part in ["good.toml is valid", "v2g-one-car is valid", "stack, "] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // All files are checked, even if one is invalid or missing.
    let out = roughlink(&["scenario", "check", &path("bad.toml"), &path("good.toml"), &path("none.toml"), "--json"]);
    assert_eq!(code(&out), 2);
    assert!(stderr(&out).contains("did you mean `rate`?") && stderr(&out).contains("no such file"), "{}", stderr(&out));
    let valid: Vec<bool> = json(&out).as_array().unwrap().iter().map(|one| one["valid"].as_bool().unwrap()).collect();
    assert_eq!(valid, [false, true, false]);
}

#[test]
fn algorithms_are_listed_one_per_line() {
    let list = said(&["cc", "list"]);
    assert!(list.lines().count() < 80, "{}", list.lines().count());
    assert!(list.contains("illinois-aa") && !list.contains("alpha_max"));
    assert!(said(&["cc", "list", "illinois"]).contains("alpha_max"));
    let out = roughlink(&["cc", "list", "ilinois"]);
    assert!(code(&out) == 2 && stderr(&out).contains("did you mean `illinois`?"), "{}", stderr(&out));
}

#[test]
fn help_fits_80_columns() {
    let commands: [&[&str]; 5] = [&[], &["emulate"], &["link"], &["sweep"], &["cc", "load"]];
    for command in commands.map(|command| [command, &["--help"]].concat()) {
        let help = said(&command);
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{command:?}: {help}");
    }
}

#[test]
fn copy_replaces_files_only_with_force() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("mine.toml"), "years of work").unwrap();
    let out = roughlink(&["scenario", "copy", "hello", &path("mine.toml")]);
    assert_eq!(code(&out), 2);
    assert!(stderr(&out).contains("--force"), "{}", stderr(&out));
    assert_eq!(fs::read_to_string(path("mine.toml")).unwrap(), "years of work");
    said(&["scenario", "copy", "hello", &path("mine.toml"), "--force"]);
    assert!(fs::read_to_string(path("mine.toml")).unwrap().contains("duration"));
    let out = roughlink(&["scenario", "copy", "hello", &path("nowhere/mine.toml")]);
    assert_eq!(code(&out), 3, "{}", stderr(&out));
}

#[test]
fn copy_includes_files_that_the_scenario_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let text = said(&["scenario", "show", "hello"]);
    let link = text.find("rate = ").unwrap();
    fs::write(path("a.toml"), format!("{}timeline = \"a.csv\"\n{}", &text[..link], &text[link..])).unwrap();
    fs::write(path("a.csv"), "time_s,rate_mbps\n1,3\n").unwrap();
    fs::create_dir(path("b")).unwrap();
    said(&["scenario", "copy", &path("a.toml"), &path("b/c.toml")]);
    assert_eq!(fs::read(path("b/a.csv")).unwrap(), fs::read(path("a.csv")).unwrap());
    said(&["run", &path("b/c.toml")]);
    fs::remove_file(path("b/c.toml")).unwrap();
    assert_eq!(code(&roughlink(&["scenario", "copy", &path("a.toml"), &path("b/c.toml")])), 2, "b/a.csv is there");
}

#[test]
fn copy_stays_inside_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let text = said(&["scenario", "show", "hello"]);
    let reading = |file: &str| text.replacen("rate = ", &format!("timeline = \"{file}\"\nrate = "), 1);
    for (made, inner) in [("in/data", "data/a.csv"), ("in", "a.csv")] {
        fs::create_dir_all(path(made)).unwrap();
        fs::write(path(&format!("in/{inner}")), "time_s,rate_mbps\n1,3\n").unwrap();
    }
    fs::create_dir(path("to")).unwrap();
    fs::write(path("in/deep.toml"), reading("data/a.csv")).unwrap();
    said(&["scenario", "copy", &path("in/deep.toml"), &path("to/deep.toml")]);
    assert_eq!(fs::read(path("to/data/a.csv")).unwrap(), fs::read(path("in/data/a.csv")).unwrap());
    fs::write(path("in/data/up.toml"), reading("../a.csv")).unwrap();
    fs::write(path("in/same.toml"), reading("a.csv")).unwrap();
    for (from, to, reason) in [
        ("in/data/up.toml", "to/inner.toml", "it is outside the folder of the scenario"),
        ("in/same.toml", "to/a.csv", "the scenario reads a file of this name"),
    ] {
        let out = roughlink(&["scenario", "copy", &path(from), &path(to)]);
        assert_eq!(code(&out), 2);
        // The message is wrapped, with a bar before each continuation line.
        let said: Vec<_> = stderr(&out).split_whitespace().filter(|word| *word != "│").map(str::to_owned).collect();
        assert!(said.join(" ").contains(reason), "{said:?}");
    }
    let mut left: Vec<_> = fs::read_dir(path("to")).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["data", "deep.toml"], "a refusal leaves nothing behind");
}

#[test]
fn every_metric_has_unit_and_meaning() {
    let list = said(&["metric", "list"]);
    let all = json(&roughlink(&["metric", "list", "--json"]));
    for one in all.as_array().unwrap() {
        let name = one["name"].as_str().unwrap();
        assert!(list.contains(name.split('[').next().unwrap()), "{name}");
        assert!(one["unit"].is_string() && ["flow", "link", "run"].contains(&one["of"].as_str().unwrap()), "{one}");
        assert!(!one["meaning"].as_str().unwrap().is_empty());
    }
    // `--metric` accepts each of them.
    let metrics: Vec<String> = (all.as_array().unwrap().iter())
        .map(|one| one["name"].as_str().unwrap().replace("[A..B]", "[0..1]"))
        .filter(|name| !name.starts_with("covered"))
        .collect();
    let mut args = vec!["sweep", "hello", "--set", "flow.*.bytes=10 kB", "--replicas", "1", "--json", "--quiet"];
    metrics.iter().for_each(|name| args.extend(["--metric", name]));
    let cells = json(&roughlink(&args))["metrics"].as_array().unwrap().len();
    assert_eq!(cells, metrics.len());
}

#[test]
fn shells_accept_the_completions() {
    for (shell, word) in [("bash", "_roughlink()"), ("zsh", "#compdef roughlink"), ("fish", "complete -c roughlink")] {
        let text = said(&["completions", shell]);
        assert!(text.contains(word) && text.contains("reproduce"), "{text}");
        if let Some((good, complaint)) = check(shell, &["-n"], &text) {
            assert!(good && complaint.is_empty(), "{shell}: {complaint}");
        }
    }
    assert_eq!(code(&roughlink(&["completions", "csh"])), 2);
}

#[test]
fn man_accepts_the_manual_pages() {
    let pages: &[(&[&str], &str)] = &[
        (&["man"], ".SH \"EXIT CODES\"\n.RS 2\n.nf\n0    success\n2    invalid input\n"),
        (&["man", "run"], "no\\-capture"),
        (&["man", "metric", "list"], ".nf\nroughlink metric list\nroughlink metric list \\-\\-json\n.fi\n"),
        (&["man", "sweep"], ".RE\nRun the same command again"),
        (&["man", "scenario", "copy"], "Replace existing files"),
    ];
    for (args, text) in pages {
        let page = said(args);
        assert!(page.starts_with(".ie") && page.contains(".TH roughlink") && page.contains(text), "{page}");
        if let Some((_, complaints)) = check("mandoc", &["-Tlint", "-Wwarning"], &page) {
            // The page has no date: the date of the build would change the page every day.
            let others: Vec<&str> = complaints.lines().filter(|line| !line.contains(" date")).collect();
            assert!(others.is_empty(), "{args:?}: {others:#?}");
        }
    }
    let out = roughlink(&["man", "sceanrio"]);
    assert_eq!(code(&out), 2);
    assert!(stderr(&out).contains("did you mean `scenario`?"), "{}", stderr(&out));
}

#[test]
fn results_name_the_revision() {
    let version = said(&["--version"]);
    let revision = version.trim().strip_suffix(')').unwrap().split("(revision ").nth(1).unwrap().to_owned();
    let hash = revision.trim_end_matches("+dirty");
    assert!(revision == "unknown" || (hash.len() >= 7 && hash.chars().all(|c| c.is_ascii_hexdigit())), "{version}");
    assert!(!said(&["-V"]).contains('('), "the short form is the version alone");

    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("run");
    let dir = dir.to_str().unwrap();
    said(&["run", "hello", "--no-capture", "-o", dir]);
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(Path::new(dir).join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["revision"], revision);
    said(&["report", dir]);
    assert!(fs::read_to_string(Path::new(dir).join("report.html")).unwrap().contains(&revision));
    let dir = folder.path().join("sweep");
    said(&["sweep", "hello", "--replicas", "1", "--quiet", "-o", dir.to_str().unwrap()]);
    assert!(fs::read_to_string(dir.join("report.html")).unwrap().contains(&revision));
    assert!(fs::read_to_string(dir.join("results.json")).unwrap().contains(&revision));
}

#[test]
fn doctor_lists_only_existing_features() {
    let facts = json(&roughlink(&["doctor", "--json"]));
    let names: Vec<&String> = facts.as_object().unwrap().keys().collect();
    let mut exist =
        vec!["chromium", "cores", "engine", "ip", "memory_mib", "ns-3", "python", "revision", "tshark", "version"];
    if cfg!(target_os = "linux") {
        exist.extend(["namespaces", "real_time", "rootless", "tun"]);
        exist.extend(["confinement", "netfilter_queue", "packet_socket", "queue_rules"]);
    }
    exist.sort_unstable();
    assert_eq!(names, exist);
    let text = said(&["doctor"]);
    assert!(exist.iter().all(|name| text.contains(name)), "{text}");
}
