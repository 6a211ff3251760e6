//! Result folder of `emulate -o`.
//!
//! | file | content | time of writing |
//! |---|---|---|
//! | `emulation.json` | command, versions of program and kernel, start time, seed, replica, nodes | start |
//! | `emulation.json` | the same and the TCP senders | end |
//! | `config.toml` | scenario with all overrides applied | start |
//! | `capture.pcapng` | packets of kernel nodes and attached devices | during the emulation |
//! | `links.csv`, `conversations.csv`, `lateness.csv` | samples: [`super::series`] | during the emulation |
//! | `output-NODE.txt` | output of the programs at a node | line by line |
//! | `summary.json` | output of `--json` | end |
//!
//! Files with the same content as those of `run -o` have the same names, so `roughlink report` can read the folder.

use super::files::{Files, TrackedFile, unwritten};
use super::result::{EmulationOutput, SenderResult};
use super::series::SeriesFiles;
use crate::command_line::command_line;
use crate::commands::REVISION;
use crate::failure::Failure;
use roughlink_core::scenario::Scenario;
use roughlink_host::Emulation;
use roughlink_lab::error::LabError;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) struct EmulationFolder {
    path: PathBuf,
    files: Arc<Files>,
    outputs: BTreeMap<String, TrackedFile>,
    /// Content of `emulation.json`.
    about: Value,
}

impl EmulationFolder {
    /// Creates a folder, which must be absent or empty.
    pub(super) fn begin(path: &Path, files: &Arc<Files>) -> Result<Self, Failure> {
        let holds = fs::create_dir_all(path).and_then(|()| fs::read_dir(path)?.next().transpose());
        match holds {
            Err(e) => Err(unwritten(path, &e)),
            Ok(Some(_)) => Err(LabError::Usage {
                message: format!("cannot write results to `{}`: the folder is not empty", path.display()),
                help: "name a new or empty folder; an emulation never replaces results".into(),
            }
            .into()),
            Ok(None) => Ok(EmulationFolder {
                path: path.to_owned(),
                files: Arc::clone(files),
                outputs: BTreeMap::new(),
                about: Value::Null,
            }),
        }
    }

    pub(super) fn capture(&self) -> PathBuf {
        self.path.join("capture.pcapng")
    }

    /// Writes the scenario, and `emulation.json` as known before the start.
    pub(super) fn describe(&mut self, scenario: &Scenario, emulation: &Emulation, replica: u32) -> Result<(), Failure> {
        let node = |(name, device, addresses): (&str, &str, &[_])| {
            json!({ "node": name, "device": device,
                "addresses": addresses })
        };
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let about = json!({
            "command": command_line(),
            "version": env!("CARGO_PKG_VERSION"),
            "revision": REVISION,
            "kernel": kernel.trim(),
            "started_unix_s": now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            "scenario": scenario.name,
            "seed": scenario.seed,
            "replica": replica,
            "congestion_control": emulation.congestion_controls().collect::<BTreeMap<_, _>>(),
            "hosts": emulation.hosts().map(node).collect::<Vec<_>>(),
        });
        self.write("config.toml", scenario.source.as_bytes())?;
        self.write(ABOUT, &pretty(&about))?;
        self.about = about;
        Ok(())
    }

    pub(super) fn series(&self, scenario: &Scenario) -> Result<SeriesFiles, Failure> {
        SeriesFiles::begin(&self.path, &self.files, scenario)
    }

    /// Returns a writer for the output of a program at a node. Programs at the same node share a file.
    pub(super) fn output(&mut self, node: &str) -> Result<TrackedFile, Failure> {
        if let Some(kept) = self.outputs.get(node) {
            return kept.try_clone();
        }
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let name: String = node.chars().map(plain).take(MAX_NAME_LEN).collect();
        // A number distinguishes names that differ only in replaced characters.
        let taken = |path: &PathBuf| path.exists();
        let names =
            std::iter::once(format!("output-{name}.txt")).chain((2..).map(|n| format!("output-{name}-{n}.txt")));
        let path = names.map(|name| self.path.join(name)).find(|path| !taken(path)).expect("there are enough numbers");
        let kept = self.files.create(&path)?;
        self.outputs.entry(node.to_owned()).or_insert(kept).try_clone()
    }

    /// Writes the result, and adds the TCP senders to `emulation.json`.
    pub(super) fn finish(mut self, result: &EmulationOutput<'_>, senders: &[SenderResult<'_>]) -> Result<(), Failure> {
        self.about["senders"] = json!(senders);
        self.replace(ABOUT, &pretty(&self.about))?;
        self.replace("summary.json", &pretty(result))
    }

    /// Writes a file under another name first, so that a file of this name is always complete.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        self.write(PART, bytes).inspect_err(|_| {
            let _ = fs::remove_file(self.path.join(PART));
        })?;
        let path = self.path.join(name);
        fs::rename(self.path.join(PART), &path).map_err(|e| unwritten(&path, &e))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let path = self.path.join(name);
        let failed = |e| unwritten(&path, &e);
        let mut file = fs::File::create_new(&path).map_err(failed)?;
        file.write_all(bytes).map_err(failed)
    }
}

fn pretty(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("plain data");
    text.push(b'\n');
    text
}

#[expect(clippy::disallowed_methods, reason = "the folder says when the emulation was started")]
fn now() -> SystemTime {
    SystemTime::now()
}

const ABOUT: &str = "emulation.json";
/// Name of a file that is being written.
const PART: &str = "part";
/// Maximum number of characters of a node's name in a file name.
const MAX_NAME_LEN: usize = 100;
