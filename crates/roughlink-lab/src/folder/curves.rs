//! Curves of a folder's series, thinned for drawing: the time axis, rates of delivery, queues and outages of links.

use crate::report::thin::{CurvePoint, Thinner};
use roughlink_core::metrics::RunResult;
use std::collections::{BTreeMap, BTreeSet};

/// Direction of a link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkDirection {
    /// Name of the link.
    pub link: String,
    /// True for the direction from the second node of `between` to the first.
    pub reverse: bool,
}

/// Time axis of the curves.
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

/// Queue lengths of link directions, and the periods in which links were down, by name, s.
pub(super) type Links = (Vec<(LinkDirection, Vec<CurvePoint>)>, Vec<(String, Vec<(f64, f64)>)>);

/// Rows of links, from which queues and outages are drawn.
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

/// Joins spans that overlap or touch.
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
    fn adjacent_spans_are_joined() {
        assert_eq!(united(vec![(5.0, 6.0), (0.0, 1.0), (1.0, 2.0), (1.5, 3.0)]), [(0.0, 3.0), (5.0, 6.0)]);
    }
}
