//! Result folder of `emulate -o`.
//!
//! | file | content | time of writing |
//! |---|---|---|
//! | `emulation.json` | command, versions of program and kernel, start time, seed, replica, nodes | start |
//! | `emulation.json` | the same and the TCP senders | end |
//! | `config.toml` | scenario with all overrides applied | start |
//! | `capture.pcapng` | packets of kernel nodes and attached devices | during the emulation |
//! | `links.csv`, `conversations.csv`, `lateness.csv` | samples ([`SampleFile`]) | during the emulation |
//! | `output-NODE.txt` | output of the programs at a node | line by line |
//! | `summary.json` | output of `--json` | end |
//!
//! Files have the names that `run -o` gives to files with such content, so `roughlink report` can read the folder.
//! Unlike the files of [`super::folder`], these are in this folder from the start, so that a crash does not lose them.
//! A file written in one piece gets its name when it is complete ([`OpenFolder::create_whole`]). `summary.json` comes
//! last, once all other files are on disk (`config.toml` only if the file system has hard links). A lock keeps other
//! processes from writing into the folder.

use super::folder::{locked, write_error};
use super::growing::{GrowingFile, GrowingFiles};
use super::{CAPTURE, CONFIG, OutputError, SUMMARY, node_file, pretty};
use crate::disk::OpenFolder;
use roughlink_core::trace::columns::Series;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

/// Result folder of an emulation. Methods return [`OutputError::Write`] if a file exists or cannot be written.
#[derive(Debug)]
pub struct EmulationFolder {
    dir: OpenFolder,
    files: Arc<GrowingFiles>,
    outputs: BTreeMap<String, GrowingFile>,
    /// Content of `emulation.json`.
    about: Value,
}

impl EmulationFolder {
    /// Creates a folder, which must be absent or empty. The folder adds its growing files to `files`.
    ///
    /// # Errors
    /// Returns [`OutputError::Exists`] if the folder is not empty, and [`OutputError::Busy`] if another process writes
    /// into it.
    pub fn begin(path: &Path, files: &Arc<GrowingFiles>) -> Result<Self, OutputError> {
        let dir = OpenFolder::make(path).map_err(write_error(path))?;
        let free = dir.lock(); // before the check, so that no file appears after it
        if !dir.names().map_err(write_error(path))?.is_empty() {
            return Err(OutputError::Exists(path.to_owned()));
        }
        locked(&dir, free)?;
        Ok(EmulationFolder { dir, files: Arc::clone(files), outputs: BTreeMap::new(), about: Value::Null })
    }

    /// Creates the capture.
    pub fn capture(&self) -> Result<GrowingFile, OutputError> {
        self.create(&format!("{CAPTURE}.pcapng"))
    }

    /// Writes `config.toml`, and `emulation.json` without the senders.
    pub fn describe(&mut self, scenario: &str, about: Value) -> Result<(), OutputError> {
        let write = |name: &str, bytes: &[u8]| {
            self.dir.create_whole(name, bytes).map_err(write_error(&self.dir.path().join(name)))
        };
        write(CONFIG, scenario.as_bytes())?;
        write(ABOUT, &pretty(&about))?;
        self.about = about;
        Ok(())
    }

    /// Creates the files `links.csv`, `conversations.csv` and `lateness.csv` with their headings.
    pub fn samples(&self) -> Result<[GrowingFile; 3], OutputError> {
        let create = |samples: &SampleFile| -> Result<_, OutputError> {
            let mut file = self.create(samples.name)?;
            // A write error ends the emulation soon.
            let _ = writeln!(file, "{}", samples.heading());
            Ok(file)
        };
        Ok([create(&LINKS)?, create(&CONVERSATIONS)?, create(&LATENESS)?])
    }

    /// Returns a writer for the output of a program at a node. Programs at the same node share a file.
    pub fn output(&mut self, node: &str) -> Result<GrowingFile, OutputError> {
        if let Some(file) = self.outputs.get(node) {
            return Ok(file.clone());
        }
        let file = self.create(&node_file("output", node, "txt", |name| self.dir.path().join(name).exists()))?;
        self.outputs.insert(node.to_owned(), file.clone());
        Ok(file)
    }

    /// Writes the result, and adds the TCP senders to `emulation.json`.
    pub fn finish(mut self, result: &impl Serialize, senders: &impl Serialize) -> Result<(), OutputError> {
        self.about["senders"] = json!(senders);
        self.files.sync(self.dir.path())?;
        for (name, bytes) in [(ABOUT, pretty(&self.about)), (SUMMARY, pretty(result))] {
            self.dir.replace(name, &bytes).map_err(write_error(&self.dir.path().join(name)))?;
        }
        Ok(())
    }

    fn create(&self, name: &str) -> Result<GrowingFile, OutputError> {
        self.files.add(self.dir.path().join(name), self.dir.create(name))
    }
}

/// CSV file of samples (RFC 4180, but lines end with a line feed). Flags are 0 or 1, and null is an empty field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleFile {
    pub(crate) name: &'static str,
    /// Series of `run -o` whose columns come first.
    series: Option<Series>,
    columns: &'static str,
}

impl SampleFile {
    pub(crate) fn heading(&self) -> String {
        let shared = self.series.map_or(&[][..], Series::fields);
        shared.iter().map(|field| field.name).chain([self.columns]).collect::<Vec<_>>().join(",")
    }
}

pub(crate) const ABOUT: &str = "emulation.json";
pub(crate) const LINKS: SampleFile = SampleFile {
    name: "links.csv",
    series: Some(Series::Links),
    columns: "lost_pkt,sent_pkt,sent_bytes,rate_mbps,delay_ms,loss",
};
pub(crate) const CONVERSATIONS: SampleFile = SampleFile {
    name: "conversations.csv",
    series: None,
    columns: "time_ns,protocol,from,to,delivered_bytes,in_flight_pkt,lost_pkt,retransmits,srtt_ms",
};
pub(crate) const LATENESS: SampleFile =
    SampleFile { name: "lateness.csv", series: None, columns: "time_ns,p50_us,p99_us,max_us,over_1ms" };
