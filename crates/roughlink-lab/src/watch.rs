//! What is measured while a run goes on: values on a grid of times, and means over time.

use roughlink_core::cc::CongestionState;
use roughlink_core::net::Observer;
use roughlink_core::tcp::Endpoint;
use roughlink_core::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What to watch. It is part of a run's key: the same run watched differently is another run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Grid of the curves, ns; no curves if zero.
    pub every_ns: u64,
    /// Names of [`CURVES`].
    pub curves: Vec<String>,
    /// The flow of the curves by its name; the mean over all flows if absent.
    pub flow: Option<String>,
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// Curves by name, a value per point of the grid, from time 0 until nothing changes any more.
    pub curves: BTreeMap<String, Vec<f64>>,
    /// Means over time of each flow's life by name, averaged over the flows.
    pub means: BTreeMap<String, f64>,
}

/// Curves: name, label, unit.
pub const CURVES: &[(&str, &str, &str)] = &[
    ("sequence_mb", "Sequence number", "MB"),
    ("cwnd_kb", "Congestion window", "kB"),
    ("in_flight_kb", "In flight", "kB"),
    ("srtt_ms", "Smoothed RTT", "ms"),
];

/// Means over time, available as metrics of watched runs: name, label, unit.
pub const MEANS: &[(&str, &str, &str)] = &[
    ("cwnd_mean_pkt", "Mean congestion window", "segments"),
    // Of the time outside of slow start and of the repair of a time-out.
    ("cwnd_10_share", "Share of the steady time at 10 segments or more", ""),
];

/// Watches a run.
#[derive(Debug)]
pub struct Watcher {
    every: Time,
    points: usize,
    flows: Vec<FlowWatch>,
}

#[derive(Clone, Debug, Default)]
struct FlowWatch {
    wanted: bool,
    /// Values of [`CURVES`] at the points of the grid passed so far.
    grid: Vec<[f64; CURVES.len()]>,
    last: [f64; CURVES.len()],
    since: Option<Time>,
    cwnd_segments: f64,
    /// Congestion avoidance or fast recovery, not the slow start after a time-out.
    steady: bool,
    time: f64,
    area: f64,
    steady_time: f64,
    wide_time: f64,
}

impl Watcher {
    /// For a scenario of `duration` whose flows are called `names`.
    pub fn new(watch: &Watch, duration: Time, names: &[String]) -> Self {
        let points = duration.0.checked_div(watch.every_ns).map_or(0, |n| n as usize + 1);
        let wanted = |name: &String| watch.flow.as_ref().is_none_or(|flow| flow == name);
        let flows = names.iter().map(|name| FlowWatch { wanted: wanted(name), ..Default::default() }).collect();
        Watcher { every: Time(watch.every_ns), points, flows }
    }

    /// What was seen, the run being over.
    pub fn finish(mut self, watch: &Watch) -> Watched {
        // The curves end when nothing changes any more: one point after the last event.
        let points = self.flows.iter().map(|f| f.grid.len() + 1).max().unwrap_or(0).min(self.points);
        for flow in &mut self.flows {
            let last = flow.last;
            flow.grid.resize(points, last);
        }
        let chosen: Vec<&FlowWatch> = self.flows.iter().filter(|f| f.wanted).collect();
        let mut seen = Watched::default();
        for (i, (name, ..)) in CURVES.iter().enumerate() {
            if watch.curves.iter().any(|c| c == name) && !chosen.is_empty() {
                let at = |k: usize| chosen.iter().map(|f| f.grid[k][i]).sum::<f64>() / chosen.len() as f64;
                seen.curves.insert((*name).into(), (0..points).map(at).collect());
            }
        }
        let mut mean = |name: &str, value: fn(&FlowWatch) -> Option<f64>| {
            let values: Vec<f64> = self.flows.iter().filter_map(value).collect();
            if !values.is_empty() {
                seen.means.insert(name.into(), values.iter().sum::<f64>() / values.len() as f64);
            }
        };
        mean("cwnd_mean_pkt", |f| (f.time > 0.0).then(|| f.area / f.time));
        mean("cwnd_10_share", |f| (f.steady_time > 0.0).then(|| f.wide_time / f.steady_time));
        seen
    }
}

impl Observer for Watcher {
    fn flow(&mut self, now: Time, index: usize, endpoint: &Endpoint, delivered: u64) {
        let watch = &mut self.flows[index];
        // What held until now is the value of all points before it.
        while watch.grid.len() < self.points && self.every.0 * (watch.grid.len() as u64) < now.0 {
            watch.grid.push(watch.last);
        }
        let Some(sender) = endpoint.sender() else { return };
        let (flow, vitals) = (sender.flow(), sender.cc().vitals());
        if let Some(since) = watch.since {
            let spent = now.saturating_sub(since).as_secs_f64();
            watch.time += spent;
            watch.area += spent * watch.cwnd_segments;
            if watch.steady {
                watch.steady_time += spent;
                if watch.cwnd_segments >= TEN_SEGMENTS {
                    watch.wide_time += spent;
                }
            }
        }
        watch.since = Some(now);
        watch.cwnd_segments = vitals.cwnd as f64 / f64::from(flow.mss.max(1));
        watch.steady = flow.state != CongestionState::Loss && vitals.cwnd >= vitals.ssthresh;
        watch.last = [
            delivered as f64 / 1e6,
            vitals.cwnd as f64 / 1e3,
            flow.in_flight as f64 / 1e3,
            flow.srtt.as_secs_f64() * 1e3,
        ];
    }
}

/// Ten segments, less the fraction that congestion avoidance may be short of after rounding to bytes.
const TEN_SEGMENTS: f64 = 9.99;
