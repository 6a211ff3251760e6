//! Reader of the folder of `run -o`: the result, and its series thinned for drawing. Series are read and thinned one
//! row group at a time, so a long run needs no more memory than a short one. A row is valid until the next one, so
//! curves are steps, and thinning keeps the extremes of the rows.

use super::curves::{Delivery, LinkDirection, LinkRows, Links, TimeAxis, bin};
use super::emulation::{self, EmulationFolderContent};
use super::json;
use super::table::{ColumnValues, FolderTable};
use crate::error::LabError;
use crate::output::{Manifest, SUMMARY, StayEntry};
use crate::report::thin::{CurvePoint, Thinner};
use hdrhistogram::Histogram;
use roughlink_core::metrics::{FlowResult, RunResult};
use std::collections::{BTreeMap, HashMap};
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
}
