//! Reader of the folder of `emulate -o`: the results that a run does not have, and the CSV files thinned for drawing.

use super::curves::{Delivery, LinkDirection, LinkRows, Links, TimeAxis, bin};
use super::json;
use crate::charging::{JudgedDialogue, judge};
use crate::disk;
use crate::error::LabError;
use crate::output::emulation::{ABOUT, CONVERSATIONS, LATENESS, LINKS, SampleFile};
use crate::output::{CAPTURE, SUMMARY};
use crate::report::thin::{CurvePoint, Thinner};
use csv::{ReaderBuilder, StringRecord};
use roughlink_core::metrics::RunResult;
use roughlink_core::metrics::conversation::ConversationResult;
use roughlink_core::metrics::frames::FrameCount;
use serde::Deserialize;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

/// An emulation.
#[derive(Debug)]
pub struct EmulationFolderContent {
    /// Description, written at the start.
    pub about: About,
    /// Results that a run does not have.
    pub outcome: EmulationSummary,
    /// Curves of the directions of conversations, in the order of their first rows.
    pub conversations: Vec<ConversationCurves>,
    /// Mean rates at which link directions sent, Mbit/s; each point starts an interval.
    pub sent_mbps: Vec<(LinkDirection, Vec<CurvePoint>)>,
    /// Lateness, us: the median and the 99th percentile of each interval.
    pub lateness_us: [Vec<CurvePoint>; 2],
    /// Charging dialogues in the capture, or the reason why it cannot be read.
    pub charging: Result<Vec<JudgedDialogue>, String>,
}

/// `emulation.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct About {
    /// Version of roughlink.
    pub version: String,
    /// Revision of the source, if known.
    pub revision: Option<String>,
    /// Command line.
    pub command: String,
    /// Release of the Linux kernel.
    pub kernel: String,
}

/// Fields of `summary.json` that only emulations have.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct EmulationSummary {
    /// Reason of the end.
    pub ended: String,
    /// Allowed lateness, ms.
    pub max_lateness_ms: Option<f64>,
    /// Violations of it; absent in folders of earlier versions.
    pub faults: Option<Vec<String>>,
    /// Lateness of packets, us.
    pub lateness_us: Option<Times>,
    /// Time that packets waited before they entered the network, us.
    pub waited_us: Option<Times>,
    /// Time that programs waited for a processor, us.
    pub run_delay_us: Option<Times>,
    /// Conversations of the programs, in order of their start.
    pub conversations: Vec<ConversationResult>,
    /// Frames without an IP datagram, by protocol, sender and receiver.
    pub frames: Vec<FrameCount>,
    /// Changes of links from outside, in order of time.
    pub changes: Vec<RecordedChange>,
}

/// Distribution of times, us.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Times {
    /// Median, us.
    pub p50: f64,
    /// 99th percentile, us.
    pub p99: f64,
    /// Maximum, us.
    pub max: f64,
    /// Share of times above 1 ms, from 0 to 1.
    pub over_1ms: f64,
}

/// Change of a link, with the keys of a step of a timeline.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RecordedChange {
    /// Name of the link.
    pub link: String,
    /// Time since the start, with its unit.
    pub at: String,
    /// Changed direction, `forward` or `reverse`; both if absent.
    pub direction: Option<String>,
    /// New state: false if the link is down.
    pub up: Option<bool>,
    /// New rate, with its unit.
    pub rate: Option<String>,
    /// New one-way delay, with its unit.
    pub delay: Option<String>,
    /// New noise.
    pub noise: Option<ChangedNoise>,
}

/// Noise after a change.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChangedNoise {
    /// Kind.
    pub kind: String,
    /// Share of packets lost.
    pub loss: Option<String>,
}

/// Curves of one direction of a conversation.
#[derive(Debug)]
pub struct ConversationCurves {
    /// Protocol and addresses.
    pub name: String,
    /// Mean rate of delivery, Mbit/s; each point starts an interval.
    pub throughput_mbps: Vec<CurvePoint>,
    /// Smoothed RTT, ms.
    pub srtt_ms: Vec<CurvePoint>,
}

/// Reads an emulation's part of a folder, with queues and outages of its links; `None` for other folders.
pub(super) fn read(
    folder: &Path,
    result: &RunResult,
    axis: TimeAxis,
) -> Result<Option<(EmulationFolderContent, Links)>, LabError> {
    let about = match json(&folder.join(ABOUT)) {
        Err(LabError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        about => about?,
    };
    let axis = TimeAxis { row_s: INTERVAL_S, ..axis };
    let (sent_mbps, links) = links(folder, result, axis)?;
    let emulation = EmulationFolderContent {
        about,
        outcome: json(&folder.join(SUMMARY))?,
        conversations: conversations(folder, axis)?,
        sent_mbps,
        lateness_us: lateness(folder, axis)?,
        charging: charging(folder),
    };
    Ok(Some((emulation, links)))
}

/// Reads columns of a file of samples, if it exists, row by row.
fn samples<const N: usize>(
    folder: &Path,
    file: &SampleFile,
    columns: [&str; N],
    row: impl FnMut([&str; N]),
) -> Result<(), LabError> {
    debug_assert!(columns.iter().all(|column| file.heading().split(',').any(|c| c == *column)), "{columns:?}");
    rows(&folder.join(file.name), columns, row)
}

/// Reads columns of a CSV file, if it exists, row by row. A column that the file does not have is empty.
fn rows<const N: usize>(path: &Path, columns: [&str; N], mut row: impl FnMut([&str; N])) -> Result<(), LabError> {
    let failed = |source| LabError::Read { path: path.to_owned(), source };
    let file = match disk::reader(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file.map_err(failed)?,
    };
    let bad = |e: csv::Error| failed(io::Error::other(e));
    let since = Rc::new(Cell::new(0));
    let mut reader = ReaderBuilder::new().from_reader(ShortRecords { file, since: Rc::clone(&since) });
    let headings = reader.headers().map_err(bad)?.clone();
    let places = columns.map(|column| headings.iter().position(|heading| heading == column));
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(bad)? {
        since.set(0);
        row(places.map(|place| place.and_then(|place| record.get(place)).unwrap_or_default()));
    }
    Ok(())
}

/// Reader of CSV that fails at a record of more than [`MAX_RECORD_LEN`] bytes, which the parser would keep in memory.
struct ShortRecords<R> {
    file: R,
    /// Bytes read since the parser began the record.
    since: Rc<Cell<usize>>,
}

impl<R: Read> Read for ShortRecords<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.since.get() > MAX_RECORD_LEN {
            return Err(io::Error::other(format!("a row has more than {MAX_RECORD_LEN} bytes")));
        }
        let read = self.file.read(buffer)?;
        self.since.set(self.since.get() + read);
        Ok(read)
    }
}

/// A time of a row, s, within the axis.
fn seconds(time_ns: &str, axis: TimeAxis) -> Option<f64> {
    time_ns.parse::<u64>().ok().map(|ns| axis.within(ns as f64 * 1e-9))
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Rates of a total that grows over time.
struct RateSeries(Delivery);

impl RateSeries {
    /// Creates the rates of a total first sampled at `now`; it is assumed to grow from one sampling interval earlier.
    fn new(now: f64, axis: TimeAxis) -> Self {
        RateSeries(Delivery::new(bin(axis.end.max(200.0 * axis.row_s)), (now - axis.row_s).max(0.0)))
    }

    fn add(&mut self, now: f64, bytes: &str) {
        if let Some(bytes) = number(bytes) {
            self.0.at(now, bytes);
        }
    }
}

type SentRates = Vec<(LinkDirection, Vec<CurvePoint>)>;

fn links(folder: &Path, result: &RunResult, axis: TimeAxis) -> Result<(SentRates, Links), LabError> {
    let mut links = LinkRows::new(result, axis);
    let mut sent: BTreeMap<LinkDirection, RateSeries> = BTreeMap::new();
    let columns = ["time_ns", "link", "direction", "up", "queue_pkt", "sent_bytes"];
    samples(folder, &LINKS, columns, |[time, link, direction, up, queue, bytes]| {
        let Some(now) = seconds(time, axis) else { return };
        if let Some(key) = links.add(now, (link, direction == "reverse"), up != "0", number(queue)) {
            sent.entry(key.clone()).or_insert_with(|| RateSeries::new(now, axis)).add(now, bytes);
        }
    })?;
    let place = |name: &str| result.links.iter().position(|link| link.name == name);
    let mut sent: SentRates = sent.into_iter().map(|(direction, growth)| (direction, growth.0.rates())).collect();
    sent.sort_by_key(|(direction, _)| (place(&direction.link), direction.reverse));
    Ok((sent, links.finish()))
}

fn conversations(folder: &Path, axis: TimeAxis) -> Result<Vec<ConversationCurves>, LabError> {
    let mut order: BTreeMap<String, usize> = BTreeMap::new();
    let mut all: Vec<(String, RateSeries, Thinner)> = Vec::new();
    let columns = ["time_ns", "protocol", "from", "to", "delivered_bytes", "srtt_ms"];
    samples(folder, &CONVERSATIONS, columns, |[time, protocol, from, to, bytes, srtt]| {
        let Some(now) = seconds(time, axis) else { return };
        let name = format!("{protocol} {from} to {to}");
        let place = order.get(&name).copied().or_else(|| {
            let new = (all.len() < MAX_CURVES).then_some(all.len())?;
            all.push((name.clone(), RateSeries::new(now, axis), axis.thinner()));
            order.insert(name, new);
            Some(new)
        });
        let Some((_, growth, thinner)) = place.and_then(|place| all.get_mut(place)) else { return };
        growth.add(now, bytes);
        thinner.step(now, number(srtt));
    })?;
    let curves = |(name, growth, thinner): (String, RateSeries, Thinner)| {
        let end = growth.0.end();
        ConversationCurves { name, throughput_mbps: growth.0.rates(), srtt_ms: axis.steps(thinner, end) }
    };
    Ok(all.into_iter().map(curves).collect())
}

fn lateness(folder: &Path, axis: TimeAxis) -> Result<[Vec<CurvePoint>; 2], LabError> {
    let mut thinners = [axis.thinner(), axis.thinner()];
    samples(folder, &LATENESS, ["time_ns", "p50_us", "p99_us"], |[time, p50, p99]| {
        let Some(now) = seconds(time, axis) else { return };
        for (thinner, value) in thinners.iter_mut().zip([p50, p99]) {
            thinner.step(now, number(value));
        }
    })?;
    Ok(thinners.map(|thinner| axis.steps(thinner, axis.end)))
}

/// Judges the charging dialogues in the capture, if there is one. Returns the reason if it cannot be read.
fn charging(folder: &Path) -> Result<Vec<JudgedDialogue>, String> {
    match judge(&folder.join(format!("{CAPTURE}.pcapng"))) {
        Ok(judged) => Ok(judged),
        Err(LabError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(LabError::Read { source, .. }) => Err(source.to_string()),
        Err(e) => Err(e.to_string()),
    }
}

/// Maximum length of a row, bytes, including what the parser reads ahead. The names in a row have at most 1,000 bytes
/// each.
const MAX_RECORD_LEN: usize = 20_000;
/// Time between two rows, s.
const INTERVAL_S: f64 = 0.1;
/// Maximum number of conversation directions with curves. A file has eight conversations at a time, and these change.
const MAX_CURVES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const AXIS: TimeAxis = TimeAxis { end: 0.4, stretches: 100, row_s: INTERVAL_S };

    #[test]
    fn long_row_is_refused() {
        use crate::drawing::Plain;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lateness.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let mut seen = Vec::new();
            rows(&path, ["a", "b"], |[a, b]| seen.push(format!("{a} {b}")))
                .map(|()| seen)
                .map_err(|e| Plain::new(&e, None).to_string())
        };
        let long = "x".repeat(5_000);
        let quoted = format!("a,b\n1,\"2\n{long}\"\n{}", format!("3,{long}\n").repeat(100));
        let seen = read(&quoted).unwrap();
        assert_eq!((seen[0].as_str(), seen.len()), (&*format!("1 2\n{long}"), 101));
        let lines = "5,6\n".repeat(20_000);
        for row in ["x".repeat(50_000), format!("1,\"{lines}\""), format!("1,x\"y,\"{lines}"), "\0".repeat(50_000)] {
            let refused = read(&format!("a,b\n1,2\n{row}\n")).unwrap_err();
            assert!(refused.ends_with("a row has more than 20000 bytes"), "{refused}");
        }
    }

    #[test]
    fn csv_rows_become_curves() {
        let folder = tempfile::tempdir().unwrap();
        let text = "time_ns,protocol,from,to,srtt_ms,delivered_bytes\n\
                    100000000,TCP,a:1,b:2,,12500\n100000000,TCP,b:2,a:1,5,0\n\
                    200000000,TCP,a:1,b:2,7.5,37500\n300000000,TCP,a:1,b:2,7.5,37500\n";
        std::fs::write(folder.path().join("conversations.csv"), text).unwrap();
        let curves = conversations(folder.path(), AXIS).unwrap();
        let names: Vec<_> = curves.iter().map(|c| &*c.name).collect();
        assert_eq!(names, ["TCP a:1 to b:2", "TCP b:2 to a:1"]);
        let rates: Vec<f64> = curves[0].throughput_mbps.iter().filter_map(|point| point.1).collect();
        // 12.5 kB and 25 kB in a tenth of a second each, then nothing.
        assert!(rates.iter().zip([1.0, 2.0, 0.0]).all(|(rate, expected)| (rate - expected).abs() < 1e-6), "{rates:?}");
        let srtt: Vec<_> = curves[0].srtt_ms.iter().map(|&(s, ms)| (libm::round(s * 10.0), ms)).collect();
        assert_eq!(srtt, [(1.0, None), (2.0, Some(7.5)), (3.0, Some(7.5))]);
    }

    #[test]
    fn strange_files_do_not_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lateness.csv");
        let heading = "time_ns,p50_us,p99_us\n";
        for text in ["", "x\n1\n", heading, "time_ns,p50_us,p99_us\n-1,inf,NaN\n99999999999999999999,1,1\n5,1,inf\n"] {
            std::fs::write(&path, text).unwrap();
            let points = lateness(folder.path(), AXIS).unwrap();
            assert!(
                points.iter().flatten().all(|point| point.0 <= 0.4 && point.1.is_none_or(f64::is_finite)),
                "{text}"
            );
        }
        std::fs::write(&path, format!("{heading}1\n")).unwrap();
        assert!(lateness(folder.path(), AXIS).is_err(), "a row is cut off");
    }
}
