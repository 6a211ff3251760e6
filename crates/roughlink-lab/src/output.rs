//! Result folders, as written by `run -o DIR`.
//!
//! | file | content |
//! |---|---|
//! | `config.toml` | the scenario, including its overrides |
//! | `summary.json` | the object that `--json` prints |
//! | `flows.parquet`, `links.parquet`, `segments.parquet` | time series ([`Series`]) |
//! | `gateways.parquet` | another series, if the scenario has gateways |
//! | `segments.csv` | the data segments for tools without Parquet; `flow` is the flow's number |
//! | `capture-HOST.pcapng` | a [`capture`] per host, or one for all: `capture.pcapng` |
//! | `manifest.json` | what ran, when and in which version; size and SHA-256 of every file; units of columns |
//!
//! A folder is complete when it has a manifest, which is written last. [`Manifest::read`] rejects the folder of an
//! interrupted run, and [`Manifest::verify`] detects later changes. [`EmulationFolder`] is the folder of `emulate -o`.

pub(crate) mod emulation;
mod folder;
mod growing;
mod manifest;
mod table;
#[cfg(test)]
mod tests;

pub use emulation::EmulationFolder;
pub use growing::{GrowingFile, GrowingFiles};
pub use manifest::{CaptureEntry, ColumnEntry, FileEntry, HostEntry, Manifest, StayEntry};

use crate::store::REPORT;
use folder::Draft;
pub(crate) use folder::recover;
use roughlink_core::metrics::RunResult;
use roughlink_core::net::{Exceeded, Network, NetworkError, RunOptions};
use roughlink_core::scenario::Scenario;
use roughlink_core::trace::capture::{self, Capture};
use roughlink_core::trace::columns::{Column, ColumnSink, Recorder, Series};
use roughlink_core::units::Time;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use table::{Csv, ParquetTable};

/// Options of a result folder: its content, and permission to replace results.
#[derive(Clone, Debug)]
pub struct OutputSettings {
    /// Minimum interval between rows of a flow or link direction, apart from changes of state; zero keeps all rows.
    pub sample: Time,
    /// Write `segments.csv`.
    pub csv: bool,
    /// Write captures.
    pub capture: Option<CaptureSettings>,
    /// Replace existing results in the folder.
    pub force: bool,
    /// Command line, for the manifest.
    pub command: Vec<String>,
    /// Revision of the program's source, for the manifest.
    pub revision: Option<String>,
}

impl Default for OutputSettings {
    fn default() -> Self {
        OutputSettings {
            sample: Time::ZERO,
            csv: true,
            capture: Some(CaptureSettings::default()),
            force: false,
            command: Vec::new(),
            revision: None,
        }
    }
}

/// Options of captures.
#[derive(Clone, Debug, Default)]
pub struct CaptureSettings {
    /// Bytes kept of each packet; 0 keeps all, and `None` uses [`capture::snaplen`].
    pub snaplen: Option<u32>,
    /// Names of the hosts at which to capture; `None` for all.
    pub hosts: Option<Vec<String>>,
    /// Write one file for all hosts, as always with more than [`MAX_CAPTURES`] hosts.
    pub one_file: bool,
}

/// Reason why no result folder was written. The previous content of the folder is untouched.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The scenario cannot be built as a network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The folder is not empty.
    #[error("`{}` is not empty: choose another folder, or replace its results", .0.display())]
    Exists(PathBuf),
    /// The folder contains a file that is not one of roughlink's results and must not be replaced.
    #[error("cannot replace `{}`: `{found}` in it is not a result of roughlink", .dir.display())]
    Foreign {
        /// Path of the folder.
        dir: PathBuf,
        /// Name of that file.
        found: String,
    },
    /// Another run is writing into the folder.
    #[error("another run is writing into `{}`", .0.display())]
    Busy(PathBuf),
    /// A capture was requested at a host that does not exist.
    #[error("cannot capture at unknown host `{host}`; expected {}", .hosts.join(", "))]
    Host {
        /// The requested host.
        host: String,
        /// The hosts that exist.
        hosts: Vec<String>,
    },
    /// The run needs more than its limits allow.
    #[error("{0}")]
    Exceeded(Exceeded),
    /// A file could not be written.
    #[error("cannot write `{}`, so this run leaves no results", .path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read `{}`", .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The folder has no manifest: its run did not finish.
    #[error("`{}` is not a finished result folder: it has no manifest.json", .0.display())]
    Unfinished(PathBuf),
    /// A file differs from the manifest.
    #[error("`{}` differs from the manifest: {found}", .path.display())]
    Changed {
        /// Path of the file.
        path: PathBuf,
        /// Difference found.
        found: String,
    },
}

/// Runs `scenario` and writes its results into the folder `dir`, which is created if necessary.
///
/// # Errors
/// `dir` is unchanged after an error: earlier results are still there, and an incomplete result never looks complete.
pub fn run_to_folder(
    scenario: &Arc<Scenario>,
    options: RunOptions,
    dir: &Path,
    settings: &OutputSettings,
) -> Result<RunResult, OutputError> {
    // One event queue, so that the capture is ordered by time across components.
    let stop = options.stop.clone();
    let network = Network::new(Arc::clone(scenario), RunOptions { one_component: true, ..options })?;
    let captures = captures(scenario, settings)?;
    let mut draft = Draft::begin(dir, settings.force)?;
    let started = now();
    draft.write(CONFIG, scenario.source.as_bytes())?;

    let gateways = !scenario.gateways.is_empty();
    let sink = Tables::new(&draft, settings.csv, gateways)?;
    let recorder = Recorder::new(scenario, settings.sample, sink);
    let mut files = Vec::new();
    for (name, hosts) in &captures {
        files.push((draft.create(name)?, hosts.clone()));
    }
    let paths: Vec<PathBuf> = files.iter().map(|(file, _)| file.path().to_owned()).collect();
    let failed = |(i, source): (usize, io::Error)| OutputError::Write { path: paths[i].clone(), source };
    let capture = match &settings.capture {
        None => None,
        Some(c) => Some(Capture::new(scenario, files, c.snaplen).map_err(failed)?),
    };
    let clock = clock();
    let mut network = network.observed_by((recorder, capture));
    let mut result = network.run().map_err(OutputError::Exceeded)?;
    // The network looks for the request only now and then.
    if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
        let (at, duration) = (Time::from_secs_f64(result.sim_s), scenario.duration);
        return Err(OutputError::Exceeded(Exceeded::Stopped { at, duration }));
    }
    result.wall_s = clock.elapsed().as_secs_f64();

    let (network, (recorder, capture)) = network.detach_observer();
    recorder.finish()?.finish(&mut draft)?;
    let mut skipped = 0;
    if let Some(capture) = capture {
        skipped = capture.skipped();
        for file in capture.finish().map_err(failed)? {
            draft.keep(file)?;
        }
    }
    draft.write(SUMMARY, &pretty(&result))?;

    let manifest = Manifest::new((scenario, &network), &result, settings, started, (captures, skipped), draft.files());
    draft.finish(&pretty(&manifest))?;
    Ok(result)
}

fn pretty(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("plain data");
    text.push(b'\n');
    text
}

/// Returns the captures to write: file names, each with the nodes of its hosts.
fn captures(scenario: &Scenario, settings: &OutputSettings) -> Result<Vec<(String, Vec<usize>)>, OutputError> {
    let Some(wanted) = &settings.capture else { return Ok(Vec::new()) };
    let mut hosts = capture::hosts(scenario);
    if let Some(asked) = &wanted.hosts {
        let name = |n: &usize| scenario.nodes[*n].name.clone();
        if let Some(host) = asked.iter().find(|host| !hosts.iter().any(|n| scenario.nodes[*n].name == **host)) {
            return Err(OutputError::Host { host: host.clone(), hosts: hosts.iter().map(name).collect() });
        }
        hosts.retain(|n| asked.contains(&scenario.nodes[*n].name));
    }
    if wanted.one_file || hosts.len() > MAX_CAPTURES {
        return Ok(vec![(format!("{CAPTURE}.pcapng"), hosts)]);
    }
    let mut captures: Vec<(String, Vec<usize>)> = Vec::new();
    for node in hosts {
        // Names that differ only in case would collide on some file systems.
        let taken = |name: &str| captures.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        captures.push((node_file(CAPTURE, &scenario.nodes[node].name, "pcapng", taken), vec![node]));
    }
    Ok(captures)
}

/// Returns the name of the file of a node. A number distinguishes names that differ only in replaced characters.
fn node_file(prefix: &str, node: &str, suffix: &str, taken: impl Fn(&str) -> bool) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let node: String = node.chars().map(plain).take(MAX_NODE_LEN).collect();
    let numbered = (2..).map(|n| format!("{prefix}-{node}-{n}.{suffix}"));
    let mut names = std::iter::once(format!("{prefix}-{node}.{suffix}")).chain(numbered);
    names.find(|name| !taken(name)).expect("there are enough numbers")
}

struct Tables {
    tables: Vec<(Series, ParquetTable)>,
    csv: Option<Csv>,
}

impl Tables {
    fn new(draft: &Draft, csv: bool, gateways: bool) -> Result<Self, OutputError> {
        let table = |series: Series| Ok((series, ParquetTable::new(series, draft.create(table_name(series))?)?));
        let wanted = Series::ALL.into_iter().filter(|s| gateways || *s != Series::Gateways);
        Ok(Tables {
            tables: wanted.map(table).collect::<Result<_, OutputError>>()?,
            csv: if csv { Some(Csv::new(Series::Segments, draft.create(SEGMENTS_CSV)?)?) } else { None },
        })
    }

    fn finish(self, draft: &mut Draft) -> Result<(), OutputError> {
        for (_, table) in self.tables {
            draft.keep(table.finish()?)?;
        }
        match self.csv {
            Some(csv) => draft.keep(csv.finish()),
            None => Ok(()),
        }
    }
}

impl ColumnSink for Tables {
    type Error = OutputError;
    fn batch(&mut self, series: Series, columns: &[Column<'_>]) -> Result<(), OutputError> {
        if let Some((_, table)) = self.tables.iter_mut().find(|(s, _)| *s == series) {
            table.batch(columns)?;
        }
        match &mut self.csv {
            Some(csv) if series == csv.series() => csv.batch(columns),
            _ => Ok(()),
        }
    }
}

pub(crate) fn table_name(series: Series) -> &'static str {
    match series {
        Series::Flows => "flows.parquet",
        Series::Links => "links.parquet",
        Series::Segments => "segments.parquet",
        Series::Gateways => "gateways.parquet",
    }
}

#[allow(clippy::disallowed_methods, reason = "the manifest says when a run was started")]
fn now() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

#[allow(clippy::disallowed_methods, reason = "the summary says how long a run took")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

const CONFIG: &str = "config.toml";
pub(crate) const SUMMARY: &str = "summary.json";
const MANIFEST: &str = "manifest.json";
const SEGMENTS_CSV: &str = "segments.csv";
pub(crate) const CAPTURE: &str = "capture";
/// Maximum number of hosts with one file each: a run with a thousand hosts must not need a thousand open files.
pub const MAX_CAPTURES: usize = 64;
/// Maximum length of a node's name in a file name, characters.
const MAX_NODE_LEN: usize = 100;
/// Files that a run may write, apart from captures.
const RESULTS: [&str; 9] = [
    REPORT, // written from the others by `roughlink report`
    CONFIG,
    SUMMARY,
    "flows.parquet",
    "links.parquet",
    "segments.parquet",
    "gateways.parquet",
    SEGMENTS_CSV,
    MANIFEST, // last: it makes the folder complete
];

fn is_result(name: &str) -> bool {
    let capture = name.starts_with(CAPTURE) && name.ends_with(".pcapng") && !name.contains(['/', '\\']);
    RESULTS.contains(&name) || capture
}
