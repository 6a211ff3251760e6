//! Reader of the folder of `run -o`: the result, and its series thinned for drawing. Series are read and thinned one
//! row group at a time, so a long run needs no more memory than a short one. A row is valid until the next one, so
//! curves are steps, and thinning keeps the extremes of the rows.

use super::emulation::{self, EmulationFolderContent};
use super::table::{ColumnValues, FolderTable};
use super::{SUMMARY, json};
use crate::error::LabError;
use crate::output::{Manifest, StayEntry};
use crate::report::thin::{CurvePoint, Thinner};
use hdrhistogram::Histogram;
use roughlink_core::metrics::{FlowResult, RunResult};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::Path;

/// A single run.
#[derive(Debug)]
pub struct SingleRun {
    /// Result of the run.
    pub result: RunResult,
    /// Manifest of the folder; `None` if the run did not finish.
    pub manifest: Option<Manifest>,
    /// Curves of the senders, in the order of the result's flows.
    pub flows: Vec<FlowCurves>,
    /// Queue lengths of the link directions in which packets waited.
    pub queues: Vec<(LinkDirection, Vec<CurvePoint>)>,
    /// Periods in which links were down, s: by name, in either direction.
    pub outages: Vec<(String, Vec<(f64, f64)>)>,
    /// Windows that gateways allowed, in the order of their first values.
    pub allowed: Vec<AllowedCurves>,
    /// Part that only emulations have.
    pub emulation: Option<EmulationFolderContent>,
    /// Number of equal stretches of time; curves keep the first, lowest, highest and last point of each.
    pub stretches: usize,
}

/// Direction of a link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkDirection {
    /// Name of the link.
    pub link: String,
    /// True for the direction from the second node of `between` to the first.
    pub reverse: bool,
}

/// Curves of a sender.
#[derive(Debug)]
pub struct FlowCurves {
    /// Name of the flow.
    pub flow: String,
    /// Congestion window, kB.
    pub cwnd_kb: Vec<CurvePoint>,
    /// Slow-start threshold, kB; none while unlimited.
    pub ssthresh_kb: Vec<CurvePoint>,
    /// In flight, kB.
    pub in_flight_kb: Vec<CurvePoint>,
    /// Smoothed RTT, ms.
    pub srtt_ms: Vec<CurvePoint>,
    /// Mean rate of delivery to the application, Mbit/s; each point starts an interval.
    pub throughput_mbps: Vec<CurvePoint>,
    /// Distribution of the measured RTTs: ms, and the share of samples up to it.
    pub rtt_cdf: Vec<(f64, f64)>,
    /// Deliveries in the stays in coverage that the flow used, by their number in the manifest.
    pub stays: BTreeMap<usize, StayDeliveries>,
}

/// Deliveries in a stay in coverage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StayDeliveries {
    /// Bytes.
    pub bytes: f64,
    /// Time of the first delivery, s since packets began to get through.
    pub first_s: Option<f64>,
}

/// Windows that a gateway allowed a flow.
#[derive(Debug)]
pub struct AllowedCurves {
    /// Name of the gateway.
    pub gateway: String,
    /// Name of the flow.
    pub flow: String,
    /// Window, SDUs.
    pub awnd_sdu: Vec<CurvePoint>,
}

pub(super) fn read(folder: &Path) -> Result<SingleRun, LabError> {
    let result: RunResult = json(&folder.join(SUMMARY))?;
    let manifest = Manifest::read(folder).ok();
    let senders = result.flows.iter().filter(|f| f.cc.is_some()).count();
    let queues = result.links.iter().flat_map(|l| [&l.forward, &l.reverse]).filter(|d| d.queue_max_pkt > 0).count();
    let curves = 4 * senders + queues + result.gateways.iter().map(|g| g.flows.len()).sum::<usize>();
    let stretches = (MAX_STRETCHES / curves.max(1)).clamp(50, 400);
    let stays = manifest.as_ref().map_or(&[][..], |m| &m.coverage);
    let row_s = manifest.as_ref().map_or(0.0, |m| m.sample_ms * 1e-3);
    let axis = TimeAxis { end: result.sim_s, stretches, row_s };
    check(&result).map_err(|why| LabError::Read { path: folder.join(SUMMARY), source: io::Error::other(why) })?;
    let (emulation, (queues, outages)) = match emulation::read(folder, &result, axis)? {
        Some((emulation, links)) => (Some(emulation), links),
        None => (None, links(&folder.join("links.parquet"), &result, axis)?),
    };
    Ok(SingleRun {
        flows: flows(&folder.join("flows.parquet"), &result, stays, axis)?,
        allowed: gateways(&folder.join("gateways.parquet"), &result, axis)?,
        queues,
        outages,
        emulation,
        manifest,
        result,
        stretches,
    })
}

/// Checks that times of a result are possible.
fn check(result: &RunResult) -> Result<(), String> {
    let possible = |what: String, time: f64| match (0.0..=MAX_TIME).contains(&time) {
        true => Ok(()),
        false => Err(format!("{what} must be between 0 and {MAX_TIME}, found {time}")),
    };
    possible("`sim_s`".into(), result.sim_s)?;
    for f in &result.flows {
        let times = [("start_s", Some(f.start_s)), ("end_s", f.end_s), ("failed_s", f.failed_s)];
        for (key, time) in times.into_iter().filter_map(|(key, time)| Some((key, time?))) {
            possible(format!("`{key}` of the flow `{}`", f.name), time)?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
pub(super) struct TimeAxis {
    pub(super) end: f64,
    pub(super) stretches: usize,
    /// Time between two rows, s; 0 if every change has a row.
    pub(super) row_s: f64,
}

impl TimeAxis {
    /// Moves a time of a file, s, into the run. Memory for curves depends on the distance between times.
    pub(super) fn within(self, time: f64) -> f64 {
        time.clamp(0.0, self.end)
    }
    pub(super) fn thinner(self) -> Thinner {
        Thinner::new((0.0, self.end), self.stretches)
    }
    /// Returns the thinned steps, the last one drawn to `end`.
    pub(super) fn steps(self, thinner: Thinner, end: f64) -> Vec<CurvePoint> {
        let mut points = thinner.finish();
        if let Some(last) = points.last().copied()
            && last.0 < end
        {
            points.push((end, last.1));
        }
        points
    }
}

/// Returns the time of a row, s, within the run.
fn seconds(time: &ColumnValues, row: usize, axis: TimeAxis) -> f64 {
    axis.within(time.number(row).unwrap_or_default() * 1e-9)
}

struct FlowReader<'s> {
    thinners: [Thinner; 4],
    delivered: Delivery,
    stays: StayReader<'s>,
    /// RTTs, of the first flows only.
    rtts: Option<Histogram<u64>>,
    samples: f64,
    any: bool,
}

/// Deliveries of a flow in the stays in coverage that list it. Keeps nothing for other stays, so that memory grows with
/// the file and not with stays times flows.
struct StayReader<'s> {
    /// Stays and their numbers in the manifest, by their start.
    stays: Vec<(usize, &'s StayEntry)>,
    /// Number of stays that ended before the last row.
    past: usize,
    delivered: BTreeMap<usize, StayDeliveries>,
}

impl<'s> StayReader<'s> {
    fn new(mut stays: Vec<(usize, &'s StayEntry)>) -> Self {
        stays.sort_by(|a, b| a.1.from_s.total_cmp(&b.1.from_s));
        StayReader { stays, past: 0, delivered: BTreeMap::new() }
    }

    /// Adds `bytes` delivered at `now`. Times must not fall.
    fn add(&mut self, now: f64, bytes: f64) {
        while self.stays.get(self.past).is_some_and(|(_, stay)| stay.until_s < now) {
            self.past += 1;
        }
        let begun = self.stays[self.past..].iter().take_while(|(_, stay)| stay.from_s <= now);
        for &(number, stay) in begun.filter(|(_, stay)| now <= stay.until_s) {
            let here = self.delivered.entry(number).or_default();
            here.bytes += bytes;
            here.first_s.get_or_insert(now - stay.from_s);
        }
    }
}

fn flows(path: &Path, result: &RunResult, stays: &[StayEntry], axis: TimeAxis) -> Result<Vec<FlowCurves>, LabError> {
    let Some(table) = FolderTable::open(path)? else { return Ok(Vec::new()) };
    let bin = bin(axis.end.max(200.0 * axis.row_s));
    let mut listed: BTreeMap<&str, Vec<(usize, &StayEntry)>> = BTreeMap::new();
    for (number, stay) in stays.iter().enumerate() {
        stay.flows.iter().for_each(|flow| listed.entry(flow.as_str()).or_default().push((number, stay)));
    }
    let mut reader = |f: &FlowResult| FlowReader {
        thinners: std::array::from_fn(|_| axis.thinner()),
        delivered: Delivery::new(bin, axis.within(f.start_s)),
        stays: StayReader::new(listed.remove(f.name.as_str()).unwrap_or_default()),
        rtts: None,
        samples: 0.0,
        any: false,
    };
    let mut readers: Vec<FlowReader> = result.flows.iter().map(&mut reader).collect();
    let mut distributions = 0;
    let ends: Vec<f64> = result.flows.iter().map(|f| axis.within(f.end_s.unwrap_or(axis.end))).collect();
    let index = numbers(result.flows.iter().map(|f| &*f.name));
    let names = [
        "time_ns",
        "flow",
        "cwnd_bytes",
        "ssthresh_bytes",
        "in_flight_bytes",
        "srtt_ms",
        "delivered_bytes",
        "rtt_ms",
        "rtt_samples",
    ];
    table.read(names, |rows, [time, flow, cwnd, ssthresh, in_flight, srtt, delivered, rtt, samples]| {
        for row in 0..rows {
            let Some(&i) = index.get(flow.word(row)) else { continue };
            let r = &mut readers[i];
            let now = seconds(time, row, axis);
            r.any = true;
            for (thinner, (values, factor)) in
                r.thinners.iter_mut().zip([(cwnd, 1e-3), (ssthresh, 1e-3), (in_flight, 1e-3), (srtt, 1.0)])
            {
                thinner.step(now, values.number(row).map(|v| v * factor));
            }
            let bytes = delivered.number(row).unwrap_or_default();
            let more = r.delivered.at(now.min(ends[i]), bytes);
            if more > 0.0 {
                r.stays.add(now, more);
            }
            let so_far = samples.number(row).unwrap_or_default();
            if let Some(ms) = rtt.number(row).filter(|_| so_far > r.samples) {
                // Microseconds resolve three digits of any realistic RTT. The memory grows with the largest RTT.
                if r.rtts.is_none() && distributions < MAX_CURVES {
                    r.rtts = Some(Histogram::new(3).expect("three digits are possible"));
                    distributions += 1;
                }
                if let Some(rtts) = &mut r.rtts {
                    let _ = rtts.record_n((ms * 1e3).min(MAX_RTT_US) as u64, (so_far - r.samples) as u64);
                }
                r.samples = so_far;
            }
        }
    })?;
    let read = readers.into_iter().zip(result.flows.iter().zip(ends)).filter(|(r, _)| r.any);
    Ok(read
        .map(|(mut r, (f, end))| {
            let [cwnd_kb, ssthresh_kb, in_flight_kb, srtt_ms] = r.thinners.map(|t| axis.steps(t, end));
            r.delivered.at(end, f.delivered_bytes as f64);
            FlowCurves {
                flow: f.name.clone(),
                cwnd_kb,
                ssthresh_kb,
                in_flight_kb,
                srtt_ms,
                throughput_mbps: r.delivered.rates(),
                rtt_cdf: if axis.row_s > 0.0 { Vec::new() } else { r.rtts.as_ref().map_or(Vec::new(), cdf) },
                stays: r.stays.delivered,
            }
        })
        .collect())
}

/// Returns the interval over which throughput is averaged: 1, 2 or 5 times a power of ten, about two hundred in a run.
pub(super) fn bin(end: f64) -> f64 {
    let wanted = (end / 200.0).max(1e-3);
    let decade = libm::pow(10.0, libm::floor(libm::log10(wanted)));
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|s| s * decade >= wanted * 0.999).unwrap_or(10.0);
    step * decade
}

/// Payload that reached the application over time. Rows are written when the sender acts; between two rows the payload
/// is assumed to arrive evenly. Payload behind a loss reaches the application all at once when the loss is repaired, so
/// the rate may then exceed the link's.
pub(super) struct Delivery {
    bin: f64,
    start: f64,
    last: (f64, f64),
    /// Bytes that had arrived by the end of each bin; the first bin contains `start`.
    ends: Vec<f64>,
}

impl Delivery {
    pub(super) fn new(bin: f64, start: f64) -> Self {
        Delivery { bin, start, last: (start, 0.0), ends: Vec::new() }
    }

    /// Returns the time of the last record, s.
    pub(super) fn end(&self) -> f64 {
        self.last.0
    }

    fn edge(&self, i: usize) -> f64 {
        (libm::floor(self.start / self.bin) + i as f64 + 1.0) * self.bin
    }

    /// Records that `bytes` had arrived by `now`, and returns the increase.
    pub(super) fn at(&mut self, now: f64, bytes: f64) -> f64 {
        let (then, before) = self.last;
        while self.edge(self.ends.len()) <= now {
            let part = if now > then { (self.edge(self.ends.len()) - then) / (now - then) } else { 1.0 };
            self.ends.push(before + (bytes - before).max(0.0) * part);
        }
        self.last = (now.max(then), bytes.max(before));
        self.last.1 - before
    }

    /// Returns the rate of each bin in Mbit/s; the last bin ends with the last row.
    pub(super) fn rates(&self) -> Vec<CurvePoint> {
        let (end, total) = self.last;
        let edges = (0..self.ends.len()).map(|i| (self.edge(i), self.ends[i])).chain([(end, total)]);
        let mut points: Vec<CurvePoint> = Vec::new();
        let (mut from, mut before) = (self.start, 0.0);
        for (to, bytes) in edges.filter(|(to, _)| *to > self.start) {
            if to > from {
                points.push((from, Some((bytes - before) * 8e-6 / (to - from))));
            }
            (from, before) = (to, bytes);
        }
        points.extend(points.last().map(|last| (end, last.1)).into_iter().collect::<Vec<_>>());
        points
    }
}

fn cdf(values: &Histogram<u64>) -> Vec<(f64, f64)> {
    if values.is_empty() {
        return Vec::new();
    }
    // Lower ends of the histogram's buckets, 0.1 % wide.
    let at = |q| values.lowest_equivalent(values.value_at_quantile(q)) as f64 * 1e-3;
    let points: Vec<(f64, f64)> =
        (0..=QUANTILES).map(|k| f64::from(k) / f64::from(QUANTILES)).map(|q| (at(q), q)).collect();
    // Keep the first and the last of equal quantiles.
    let inner =
        |i: usize| i > 0 && i + 1 < points.len() && points[i - 1].0 == points[i].0 && points[i].0 == points[i + 1].0;
    (0..points.len()).filter(|&i| !inner(i)).map(|i| points[i]).collect()
}

pub(super) type Links = (Vec<(LinkDirection, Vec<CurvePoint>)>, Vec<(String, Vec<(f64, f64)>)>);

fn links(path: &Path, result: &RunResult, axis: TimeAxis) -> Result<Links, LabError> {
    let Some(table) = FolderTable::open(path)? else { return Ok(Links::default()) };
    let mut links = LinkRows::new(result, axis);
    table.read(["time_ns", "link", "direction", "up", "queue_pkt"], |rows, [time, link, direction, up, queue]| {
        for row in 0..rows {
            let place = (link.word(row), direction.word(row) == "reverse");
            links.add(seconds(time, row, axis), place, up.number(row) != Some(0.0), queue.number(row));
        }
    })?;
    Ok(links.finish())
}

pub(super) struct LinkRows<'r> {
    result: &'r RunResult,
    axis: TimeAxis,
    names: BTreeSet<&'r str>,
    key: LinkDirection,
    queues: BTreeMap<LinkDirection, Thinner>,
    down: BTreeMap<LinkDirection, Vec<(f64, f64)>>,
}

impl<'r> LinkRows<'r> {
    pub(super) fn new(result: &'r RunResult, axis: TimeAxis) -> Self {
        LinkRows {
            result,
            axis,
            names: result.links.iter().map(|l| l.name.as_str()).collect(),
            key: LinkDirection { link: String::new(), reverse: false },
            queues: BTreeMap::new(),
            down: BTreeMap::new(),
        }
    }

    /// Adds a row and returns its direction; `None` if the run has no such link.
    pub(super) fn add(
        &mut self,
        now: f64,
        (name, reverse): (&str, bool),
        is_up: bool,
        queue: Option<f64>,
    ) -> Option<&LinkDirection> {
        if !self.names.contains(name) {
            return None;
        }
        if self.key.link != name {
            self.key.link = name.to_owned();
        }
        self.key.reverse = reverse;
        if !self.queues.contains_key(&self.key) {
            self.queues.insert(self.key.clone(), self.axis.thinner());
            self.down.insert(self.key.clone(), Vec::new());
        }
        if let Some(thinner) = self.queues.get_mut(&self.key) {
            thinner.step(now, queue);
        }
        if let Some(outages) = self.down.get_mut(&self.key) {
            match outages.last_mut() {
                Some(last) if last.1.is_infinite() && is_up => last.1 = now,
                Some(last) if last.1.is_infinite() => {}
                _ if !is_up => outages.push((now, f64::INFINITY)),
                _ => {}
            }
        }
        Some(&self.key)
    }

    pub(super) fn finish(self) -> Links {
        let LinkRows { result, axis, queues, mut down, .. } = self;
        let place = |name: &str| result.links.iter().position(|l| l.name == name);
        let mut queues: Vec<(LinkDirection, Vec<CurvePoint>)> =
            queues.into_iter().map(|(d, t)| (d, axis.steps(t, axis.end))).collect();
        queues.retain(|(_, points)| points.iter().any(|p| p.1.is_some_and(|v| v > 0.0)));
        queues.sort_by_key(|(d, _)| (place(&d.link), d.reverse));
        let mut outages: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for link in &result.links {
            let ways = [false, true].map(|reverse| down.remove(&LinkDirection { link: link.name.clone(), reverse }));
            let all = ways.into_iter().flatten().flatten().map(|(from, to)| (from, to.min(axis.end)));
            let all = united(all.filter(|(from, to)| from < to).collect());
            if !all.is_empty() {
                outages.push((link.name.clone(), all));
            }
        }
        (queues, outages)
    }
}

pub(crate) fn united(mut spans: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut out: Vec<(f64, f64)> = Vec::new();
    for span in spans {
        match out.last_mut() {
            Some(last) if span.0 <= last.1 => last.1 = last.1.max(span.1),
            _ => out.push(span),
        }
    }
    out
}

/// Maps each name to its position.
fn numbers<'n>(names: impl Iterator<Item = &'n str>) -> BTreeMap<&'n str, usize> {
    names.enumerate().map(|(i, name)| (name, i)).collect()
}

fn gateways(path: &Path, result: &RunResult, axis: TimeAxis) -> Result<Vec<AllowedCurves>, LabError> {
    let Some(table) = FolderTable::open(path)? else { return Ok(Vec::new()) };
    let gateways: BTreeMap<&str, usize> = numbers(result.gateways.iter().map(|g| &*g.name));
    let flows: BTreeMap<&str, usize> = numbers(result.flows.iter().map(|f| &*f.name));
    let mut all: Vec<(String, String, Thinner)> = Vec::new();
    let mut places: HashMap<(usize, usize), usize> = HashMap::new();
    table.read(["time_ns", "gateway", "flow", "awnd_sdu"], |rows, [time, gateway, flow, awnd]| {
        for row in 0..rows {
            let (gateway, flow) = (gateway.word(row), flow.word(row));
            let (Some(&g), Some(&f)) = (gateways.get(gateway), flows.get(flow)) else { continue };
            let next = all.len();
            let i = *places.entry((g, f)).or_insert(next);
            if i == next && next < MAX_CURVES {
                all.push((gateway.to_owned(), flow.to_owned(), axis.thinner()));
            }
            if let Some((_, _, windows)) = all.get_mut(i) {
                windows.step(seconds(time, row, axis), awnd.number(row));
            }
        }
    })?;
    let done = |(gateway, flow, thinner)| AllowedCurves { gateway, flow, awnd_sdu: axis.steps(thinner, axis.end) };
    Ok(all.into_iter().map(done).collect())
}

/// Upper limit of RTTs in the distribution, us.
const MAX_RTT_US: f64 = 1e9;
/// Upper limit of all times, s: the largest time of a run in nanoseconds.
const MAX_TIME: f64 = 1.9e10;
/// Maximum number of stretches of all curves of a page, which limits its size.
const MAX_STRETCHES: usize = 8_000;
/// Maximum number of flows with a distribution of RTTs, and of windows of gateways. A page draws fewer.
const MAX_CURVES: usize = 1_000;
/// Number of steps in a drawn distribution.
const QUANTILES: u32 = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_is_the_mean_of_each_bin() {
        assert_eq!([bin(8.3), bin(60.0), bin(900.0), bin(0.01)], [0.05, 0.5, 5.0, 0.001]);
        // 1 MB in the first second, nothing in the second, 2 MB in the third; the flow lasts from 0.5 s to 2.5 s.
        let mut delivered = Delivery::new(1.0, 0.5);
        let more: Vec<f64> =
            [(0.7, 4e5), (1.0, 1e6), (2.0, 1e6), (2.5, 3e6)].map(|(now, bytes)| delivered.at(now, bytes)).into();
        assert_eq!(more, [4e5, 6e5, 0.0, 2e6]);
        assert_eq!(delivered.rates(), [(0.5, Some(16.0)), (1.0, Some(0.0)), (2.0, Some(32.0)), (2.5, Some(32.0))]);
        // Rows two seconds apart have no information about each second: both get the mean.
        let mut sparse = Delivery::new(1.0, 0.0);
        sparse.at(2.0, 5e5);
        assert_eq!(sparse.rates(), [(0.0, Some(2.0)), (1.0, Some(2.0)), (2.0, Some(2.0))]);
    }

    #[test]
    fn cdf_runs_from_the_smallest_to_the_largest_value() {
        let mut values = Histogram::new(3).unwrap();
        assert_eq!(cdf(&values), []);
        values.record_n(20_000, 300).unwrap();
        values.record_n(40_000, 100).unwrap();
        let points = cdf(&values);
        assert_eq!((points[0], points[points.len() - 1].1), ((20.0, 0.0), 1.0));
        assert_eq!(points.len(), 4);
        assert!((points[1].1, points[2].0.round()) == (0.75, 40.0), "{points:?}");
    }

    #[test]
    fn adjacent_spans_are_joined() {
        assert_eq!(united(vec![(5.0, 6.0), (0.0, 1.0), (1.0, 2.0), (1.5, 3.0)]), [(0.0, 3.0), (5.0, 6.0)]);
    }
}
