//! `roughlink doctor`: lists the features that this machine supports.

use super::REVISION;
use super::leftovers::{LeftProcess, clean};
use crate::args::Doctor;
use crate::failure::{Failure, print, print_json};
use crate::show;
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

struct Fact {
    name: &'static str,
    what_for: String,
    value: serde_json::Value,
}

/// Prints facts about this machine, without an assessment.
pub(crate) fn doctor(args: &Doctor) -> Result<(), Failure> {
    if args.clean {
        return report_cleanup(args.json);
    }
    let facts = facts();
    if args.json {
        let all: serde_json::Map<String, serde_json::Value> =
            facts.into_iter().map(|f| (f.name.replace(' ', "_"), f.value)).collect();
        return print_json(&all);
    }
    let mut table = show::table(&["feature", "on this machine", "used for"]);
    for f in facts {
        let value = match &f.value {
            serde_json::Value::Bool(true) => "yes".into(),
            serde_json::Value::Bool(false) | serde_json::Value::Null => "no".into(),
            serde_json::Value::String(s) => s.clone(),
            other => other.to_string(),
        };
        table.add_row([f.name, &value, &f.what_for]);
    }
    print(&format!("{table}\n"))
}

fn report_cleanup(json: bool) -> Result<(), Failure> {
    let cleaned = clean();
    if json {
        print_json(&cleaned)?;
    } else {
        let mut text = String::new();
        for found in &cleaned.found {
            let LeftProcess { process, command, namespace, error } = found;
            let became = error.as_ref().map_or("ended".into(), |e| format!("not ended: {e}"));
            let _ = writeln!(text, "process {process} (`{command}`, network namespace {namespace}): {became}");
        }
        for (queue, error) in &cleaned.rules {
            let became = error.as_ref().map_or("removed".into(), |e| format!("not removed: {e}"));
            let _ = writeln!(text, "rules for the netfilter queue {queue}: {became}");
        }
        for (process, nodes) in &cleaned.running {
            let _ = writeln!(text, "process {process}: kept, a running emulation of {}", nodes.join(", "));
        }
        if cleaned.found.is_empty() && cleaned.rules.is_empty() {
            text += NOTHING_LEFT;
        }
        print(&text)?;
    }
    let rules = cleaned.rules.into_values().flatten();
    match cleaned.found.into_iter().filter_map(|found| found.error).chain(rules).next() {
        Some(error) => Err(Failure::Machine(error, Some("run the command as root or as the owner of the process"))),
        None => Ok(()),
    }
}

/// Namespaces and devices have no names, so only processes and rules can remain.
const NOTHING_LEFT: &str = "No leftovers: no process of an ended emulation remains, and no rule of an\n\
    ended gateway in this network namespace. The kernel removed network namespaces,\n\
    devices and mounts together with the processes.\n";

fn facts() -> Vec<Fact> {
    let fact = |name, value, what_for: &str| Fact { name, what_for: what_for.to_owned(), value };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|s| s.trim().to_owned());
    let memory = read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?.trim().to_owned();
        line.strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kb| kb / 1024)
    });
    let mut facts = vec![
        fact("version", json!(env!("CARGO_PKG_VERSION")), "this program"),
        fact("revision", json!(REVISION), "its source code"),
        fact("engine", json!(roughlink_lab::runner::ENGINE), "stored runs of other engines are not reused"),
        fact("cores", json!(cores), "number of parallel runs"),
        fact("memory_mib", json!(memory), "available now; runs are limited by --max-memory"),
        fact("tshark", json!(version("tshark", &["--version"])), "tests that read captures"),
        fact("chromium", json!(version("chromium", &["--version"])), "tests that open reports"),
        fact("python", json!(version("python3", &["--version"])), "make validate"),
        fact("ns-3", json!(ns3()), "make validate: runs side by side"),
        fact("ip", json!(version("ip", &["-V"])), "emulate: addresses and routes"),
    ];
    facts.extend(super::emulate::abilities().into_iter().map(|(name, missing, what_for)| {
        let value = missing.map_or(json!(true), |reason| json!(format!("no: {reason}")));
        fact(name, value, &what_for)
    }));
    facts
}

/// First line of a program's version output; `None` if the program is not installed.
fn version(program: &str, args: &[&str]) -> Option<String> {
    on_path(program)?;
    let out = Command::new(program).args(args).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(if out.stdout.is_empty() { &out.stderr } else { &out.stdout }).into_owned();
    Some(text.lines().next().unwrap_or("yes").trim().to_owned())
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|p| p.is_file())
}

/// Version of the ns-3 wheel, without loading it.
fn ns3() -> Option<String> {
    on_path("python3")?;
    let code = "from importlib.metadata import version; print(version('ns3'))";
    let out = Command::new("python3").args(["-c", code]).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}
