//! Measurements during a run: values on a time grid, and numbers that results do not have.

mod covered;
mod recovery;
mod series;
pub mod windows;

pub use series::{CURVES as FLOW_CURVES, TOTAL};

use crate::quantity::{COVERED, Quantity, named};
use covered::CoverageCounters;
use recovery::{OutageRecovery, Wait};
use roughlink_core::metrics::RunResult;
use roughlink_core::net::{NetworkEvent, Observer};
use roughlink_core::scenario::Scenario;
use roughlink_core::units::Time;
use serde::{Deserialize, Serialize};
use series::RunSeries;
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::Hasher as _;

/// Quantities to watch. A watch is part of a run's key: the same run watched differently is another run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Grid of the curves, ns; no curves if zero.
    pub every_ns: u64,
    /// Names of [`CURVES`].
    pub curves: Vec<String>,
    /// The flow of the curves by its name; the mean over all flows if absent.
    pub flow: Option<String>,
    /// Flows that have a curve each ([`series::CURVES`]); `total` is their sum.
    #[serde(default)]
    pub flows: Vec<String>,
    /// Metrics of a window of time, by their names ([`windows`]).
    #[serde(default)]
    pub windows: Vec<String>,
}

impl Watch {
    /// Watches only the means.
    pub fn means() -> Self {
        Watch { every_ns: 0, curves: Vec::new(), flow: None, flows: Vec::new(), windows: Vec::new() }
    }

    /// Returns the part of a run's key that depends on flows and windows; empty if there are none.
    pub fn windows_key(&self) -> String {
        if self.flows.is_empty() && self.windows.is_empty() {
            return String::new();
        }
        let mut hash = SipHasher13::new();
        for text in self.flows.iter().chain(&self.windows) {
            hash.write_u64(text.len() as u64);
            hash.write(text.as_bytes());
        }
        format!("-{:016x}", hash.finish())
    }
}

/// Recorded quantities of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// Curves by name, with a value per grid point from time 0 until the last change.
    pub curves: BTreeMap<String, Vec<f64>>,
    /// [`MEANS`] by name, averaged over the flows.
    pub means: BTreeMap<String, f64>,
    /// Lower bounds of those [`MEANS`] that some flow did not reach within the run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at_least: BTreeMap<String, f64>,
    /// Metrics of windows by name; those without a value are absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub windows: BTreeMap<String, f64>,
}

/// Curves.
pub const CURVES: &[Quantity] = &[
    named("sequence_mb"),
    named("cwnd_kb"),
    named("in_flight_kb"),
    named("srtt_ms"),
    named("sent_mbps"),
    named("goodput_mbps"),
];

/// Those of [`CURVES`] that are computed from differences of samples.
const RATES: std::ops::Range<usize> = 4..6;

/// Metrics of watched runs: means over time, and recovery times of flows.
pub const MEANS: &[Quantity] = &[
    named("cwnd_mean_pkt"),
    named("cwnd_10_share"),
    named("recovery_s"),
    named("sender_recovery_s"),
    named("resume_s"),
    named(COVERED),
];

/// Watches a run.
#[derive(Debug)]
pub struct Watcher {
    every: Time,
    points: usize,
    flows: Vec<FlowWatch>,
    covered: CoverageCounters,
    /// Present only if a metric needs it.
    seen: Option<RunSeries>,
}

#[derive(Clone, Debug, Default)]
struct FlowWatch {
    wanted: bool,
    /// Values of [`CURVES`] at the grid points passed so far.
    grid: Vec<[f64; CURVES.len()]>,
    last: [f64; CURVES.len()],
    since: Option<Time>,
    cwnd_segments: f64,
    time: f64,
    area: f64,
    wide_time: f64,
    recovery: Option<OutageRecovery>,
}

impl Watcher {
    /// Creates a watcher for a run of `scenario`.
    pub fn new(watch: &Watch, scenario: &Scenario) -> Self {
        let points = scenario.duration.0.checked_div(watch.every_ns).map_or(0, |n| n as usize + 1);
        let wanted = |name: &String| watch.flow.as_ref().is_none_or(|flow| flow == name);
        let flow = |(i, name)| FlowWatch {
            wanted: wanted(name),
            recovery: OutageRecovery::after_outage(scenario, i),
            ..Default::default()
        };
        let flows = scenario.flows.iter().map(|f| &f.name).enumerate().map(flow).collect();
        let seen = !watch.windows.is_empty() || !watch.flows.is_empty();
        let covered = CoverageCounters::new(scenario);
        Watcher { every: Time(watch.every_ns), points, flows, covered, seen: seen.then(|| RunSeries::new(scenario)) }
    }

    /// Returns the recorded quantities of a run that ended with this result.
    pub fn finish(mut self, watch: &Watch, result: &RunResult) -> Watched {
        // Curves end one point after the last event, when nothing changes any more.
        let points = self.flows.iter().map(|f| f.grid.len() + 1).max().unwrap_or(0).min(self.points);
        for flow in &mut self.flows {
            let last = flow.last;
            flow.grid.resize(points, last);
        }
        let mbps = 8.0 / self.every.as_secs_f64().max(1e-9);
        for flow in &mut self.flows {
            for rate in RATES {
                for k in (0..points).rev() {
                    let before = if k > 0 { flow.grid[k - 1][rate] } else { 0.0 };
                    flow.grid[k][rate] = (flow.grid[k][rate] - before) * mbps;
                }
            }
        }
        let chosen: Vec<&FlowWatch> = self.flows.iter().filter(|f| f.wanted).collect();
        let mut seen = Watched::default();
        if let Some(all) = &mut self.seen {
            all.finish(result);
            seen.windows = windows::measure(&watch.windows, all);
            for name in &watch.curves {
                seen.curves.extend(all.curves(name, &watch.flows, self.every, self.points));
            }
        }
        for (i, Quantity { name, .. }) in CURVES.iter().enumerate() {
            if watch.flows.is_empty() && watch.curves.iter().any(|c| c == name) && !chosen.is_empty() {
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
        mean("cwnd_10_share", |f| (f.time > 0.0).then(|| f.wide_time / f.time));
        // A flow is watched until it completes, at most until the run ends.
        let ends = result.flows.iter().map(|f| Time::from_secs_f64(f.end_s.unwrap_or(result.sim_s)));
        let recoveries: Vec<_> =
            self.flows.iter().zip(ends).filter_map(|(f, end)| Some((f.recovery.as_ref()?, end))).collect();
        let resumed = recoveries.iter().filter_map(|(r, end)| r.resumed(*end)).collect();
        let recovered = recoveries.iter().filter_map(|(r, end)| r.time(*end)).collect();
        let senders = recoveries.iter().filter_map(|(r, end)| r.sender_time(*end)).collect();
        for (name, waits) in [("resume_s", resumed), ("recovery_s", recovered), ("sender_recovery_s", senders)] {
            seen.wait(name, waits);
        }
        for (class, bytes) in self.covered.bytes() {
            let name = if class.is_empty() { COVERED.to_owned() } else { format!("{COVERED}@{class}") };
            seen.means.insert(name, bytes as f64 / 1e6);
        }
        seen
    }
}

impl Watched {
    /// Records the mean of the flows' waiting times, or a lower bound if a flow still waited at the end.
    fn wait(&mut self, name: &str, waits: Vec<Wait>) {
        if waits.is_empty() {
            return;
        }
        let mean = waits.iter().map(|w| w.time().as_secs_f64()).sum::<f64>() / waits.len() as f64;
        let over = waits.iter().all(|w| matches!(w, Wait::Took(_)));
        (if over { &mut self.means } else { &mut self.at_least }).insert(name.into(), mean);
    }
}

impl Observer for Watcher {
    fn observe(&mut self, now: Time, event: NetworkEvent<'_>) {
        self.seen.observe(now, event);
        let NetworkEvent::Sender { flow: index, sender, delivered } = event else { return };
        self.covered.delivered(now, index, delivered);
        let (flow, stats) = (sender.flow(), sender.stats());
        if let Some(recovery) = &mut self.flows[index].recovery {
            recovery.delivered(now, delivered);
            recovery.sent(now, stats.segments);
        }
        self.record(&SenderSample {
            flow: index,
            at: now,
            cwnd: sender.cc().trace().cwnd,
            mss: flow.mss,
            in_flight: flow.in_flight,
            srtt: flow.srtt,
            segments: stats.segments,
            delivered,
        });
    }
}

/// State of a sender at one time.
#[derive(Clone, Copy, Debug)]
pub struct SenderSample {
    /// Flow number in the scenario.
    pub flow: usize,
    /// Time of the sample.
    pub at: Time,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Payload of a full segment, bytes.
    pub mss: u32,
    /// Sent and not acknowledged, bytes.
    pub in_flight: u64,
    /// Smoothed round-trip time.
    pub srtt: Time,
    /// Data segments sent so far, retransmissions included.
    pub segments: u64,
    /// Bytes delivered so far.
    pub delivered: u64,
}

impl Watcher {
    /// Records the state of a sender, which is valid until the next call.
    pub fn record(&mut self, look: &SenderSample) {
        let (now, watch) = (look.at, &mut self.flows[look.flow]);
        // The previous value applies at all points before now.
        while watch.grid.len() < self.points && self.every.0 * (watch.grid.len() as u64) < now.0 {
            watch.grid.push(watch.last);
        }
        if let Some(since) = watch.since {
            let spent = now.saturating_sub(since).as_secs_f64();
            watch.time += spent;
            watch.area += spent * watch.cwnd_segments;
            if watch.cwnd_segments >= TEN_SEGMENTS {
                watch.wide_time += spent;
            }
        }
        watch.since = Some(now);
        watch.cwnd_segments = look.cwnd as f64 / f64::from(look.mss.max(1));
        watch.last = [
            look.delivered as f64 / 1e6,
            look.cwnd as f64 / 1e3,
            look.in_flight as f64 / 1e3,
            look.srtt.as_secs_f64() * 1e3,
            look.segments as f64 * f64::from(look.mss) / 1e6,
            look.delivered as f64 / 1e6,
        ];
    }
}

/// Ten segments, minus the fraction that congestion avoidance may lack after rounding to bytes.
const TEN_SEGMENTS: f64 = 9.99;
