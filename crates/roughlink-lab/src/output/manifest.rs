//! Manifest of a result folder.

use super::folder::measure;
use super::{MANIFEST, OutputError, OutputSettings, SEGMENTS_CSV, table_name};
use roughlink_core::app::Traffic;
use roughlink_core::app::request::V2gMessage;
use roughlink_core::metrics::RunResult;
use roughlink_core::net::Network;
use roughlink_core::net::addresses::node_addresses;
use roughlink_core::scenario::{CoverageStay, FlowSpec, Scenario};
use roughlink_core::trace::columns::Series;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// `manifest.json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of roughlink.
    pub roughlink: String,
    /// Revision of the source, if known.
    pub revision: Option<String>,
    /// Command line.
    pub command: Vec<String>,
    /// Title of the scenario.
    pub scenario: String,
    /// Seed of the scenario.
    pub seed: u64,
    /// Replica number.
    pub replica: u32,
    /// Start of the run, RFC 3339 in UTC.
    pub started: String,
    /// Duration of the run in real time, s.
    pub wall_s: f64,
    /// Shortest interval between rows of a series, ms; 0 if every instant was kept.
    pub sample_ms: f64,
    /// The other files of the folder.
    pub files: Vec<FileEntry>,
    /// Columns of the tables, by file.
    pub columns: BTreeMap<String, Vec<ColumnEntry>>,
    /// Capture, if there is one.
    pub capture: Option<CaptureEntry>,
    /// Response timeout of each message, ms, by charging session.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub message_timeouts_ms: BTreeMap<String, BTreeMap<V2gMessage, f64>>,
    /// Periods in which links with coverage carry packets, by link and in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coverage: Vec<StayEntry>,
}

/// Stay in coverage, e.g. of a train in a station.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StayEntry {
    /// Name of the link.
    pub link: String,
    /// Name of the station.
    pub station: String,
    /// Class of the station; empty without a class.
    pub class: String,
    /// Time at which packets begin to get through, s.
    pub from_s: f64,
    /// End of coverage, s.
    pub until_s: f64,
    /// Flows that cross the link from their source to their destination.
    #[serde(default)]
    pub flows: Vec<String>,
}

/// File of a result folder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileEntry {
    /// File name.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256, hexadecimal.
    pub sha256: String,
}

/// Column of a table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ColumnEntry {
    /// Column name.
    pub name: String,
    /// Unit of the values; null for values without a unit.
    pub unit: Option<String>,
    /// Meaning of the values.
    pub meaning: String,
}

/// Settings and hosts of a capture.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CaptureEntry {
    /// Bytes kept of each packet; 0 for all; null for the default of each kind of flow.
    pub snaplen: Option<u32>,
    /// Hosts at which it was taken.
    pub hosts: BTreeMap<String, HostEntry>,
    /// Packets left out because they have no wire form.
    pub skipped: u64,
}

/// Host at which packets were captured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostEntry {
    /// File name of the capture.
    pub file: String,
    /// Addresses of the host.
    pub addresses: Vec<IpAddr>,
}

impl Manifest {
    pub(super) fn new(
        (scenario, network): (&Scenario, &Network),
        result: &RunResult,
        settings: &OutputSettings,
        started: SystemTime,
        (captures, skipped): (Vec<(String, Vec<usize>)>, u64),
        files: Vec<FileEntry>,
    ) -> Self {
        let written = |s: &Series| *s != Series::Gateways || !scenario.gateways.is_empty();
        let mut columns: BTreeMap<_, _> =
            Series::ALL.into_iter().filter(written).map(|s| (table_name(s).to_owned(), columns(s))).collect();
        if settings.csv {
            let mut segments = self::columns(Series::Segments);
            for c in segments.iter_mut().filter(|c| c.name == "flow") {
                c.meaning = "number of the flow in the scenario, from 0".to_owned();
            }
            columns.insert(SEGMENTS_CSV.to_owned(), segments);
        }
        let addresses = node_addresses(scenario);
        let host = |file: &str, n: usize| {
            let entry = HostEntry { file: file.to_owned(), addresses: addresses[n].iter().copied().collect() };
            (scenario.nodes[n].name.clone(), entry)
        };
        let hosts = captures.iter().flat_map(|(file, nodes)| nodes.iter().map(|n| host(file, *n)));
        Manifest {
            roughlink: env!("CARGO_PKG_VERSION").to_owned(),
            revision: settings.revision.clone(),
            command: settings.command.clone(),
            scenario: scenario.name.clone(),
            seed: scenario.seed,
            replica: result.replica,
            started: rfc3339(started.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())),
            wall_s: result.wall_s,
            sample_ms: settings.sample.as_millis_f64(),
            files,
            columns,
            capture: settings.capture.as_ref().map(|c| CaptureEntry {
                snaplen: c.snaplen,
                hosts: hosts.collect(),
                skipped,
            }),
            message_timeouts_ms: scenario.flows.iter().filter_map(message_timeouts).collect(),
            coverage: (0..scenario.links.len()).flat_map(|link| stays(scenario, network, link)).collect(),
        }
    }

    /// Reads the manifest of the result folder `dir`.
    ///
    /// # Errors
    /// Returns [`OutputError::Unfinished`] without a manifest, as after an interrupted run.
    pub fn read(dir: &Path) -> Result<Self, OutputError> {
        let path = dir.join(MANIFEST);
        match crate::disk::read(&path).and_then(|text| serde_json::from_slice(&text).map_err(Into::into)) {
            Err(e) if e.kind() == ErrorKind::NotFound => Err(OutputError::Unfinished(dir.to_owned())),
            read => read.map_err(|source| OutputError::Read { path, source }),
        }
    }

    /// Checks that the files of `dir` are unchanged.
    ///
    /// # Errors
    /// Returns the first file that differs.
    pub fn verify(&self, dir: &Path) -> Result<(), OutputError> {
        for file in &self.files {
            let path = dir.join(&file.name);
            match measure(&path) {
                Err(source) => return Err(OutputError::Read { path, source }),
                Ok((bytes, _)) if bytes != file.bytes => {
                    let found = format!("{bytes} bytes instead of {}", file.bytes);
                    return Err(OutputError::Changed { path, found });
                }
                Ok((_, sha256)) if sha256 != file.sha256 => {
                    return Err(OutputError::Changed { path, found: "another SHA-256".to_owned() });
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

fn message_timeouts(flow: &FlowSpec) -> Option<(String, BTreeMap<V2gMessage, f64>)> {
    let Traffic::Request { session } = &flow.traffic else { return None };
    let timeouts =
        V2gMessage::ALL.into_iter().zip(&session.messages).map(|(m, spec)| (m, spec.timeout.as_millis_f64()));
    Some((flow.name.clone(), timeouts.collect()))
}

fn stays(scenario: &Scenario, network: &Network, number: usize) -> Vec<StayEntry> {
    let link = &scenario.links[number];
    if link.stays.is_empty() {
        return Vec::new();
    }
    let crosses = |flow: &usize| network.path(*flow).iter().any(|hop| *hop as usize / 2 == number);
    let flows: Vec<String> =
        (0..scenario.flows.len()).filter(crosses).map(|f| scenario.flows[f].name.clone()).collect();
    let entry = |stay: &CoverageStay| StayEntry {
        link: link.name.clone(),
        station: stay.name.clone(),
        class: stay.class.clone(),
        from_s: stay.from.as_secs_f64(),
        until_s: stay.until.as_secs_f64(),
        flows: flows.clone(),
    };
    link.stays.iter().map(entry).collect()
}

fn columns(series: Series) -> Vec<ColumnEntry> {
    let entry = |f: &roughlink_core::trace::columns::ColumnHeading| ColumnEntry {
        name: f.name.to_owned(),
        unit: (!f.unit.is_empty()).then(|| f.unit.to_owned()),
        meaning: f.meaning.to_owned(),
    };
    series.fields().iter().map(entry).collect()
}

/// Formats seconds since 1970 as date and time in UTC.
fn rfc3339(seconds: u64) -> String {
    let leap = |y: u64| y.is_multiple_of(4) && !y.is_multiple_of(100) || y.is_multiple_of(400);
    let mut days = seconds / 86_400;
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{:02}T{h:02}:{m:02}:{s:02}Z", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(rfc3339(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(rfc3339(4_107_542_400), "2100-03-01T00:00:00Z"); // no leap year
    }
}
