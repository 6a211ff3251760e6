//! The grid of an experiment: its cells, the runs behind them, and the result read from the store.

use super::result::{AxisResult, AxisValue, Cell, Curve, ExperimentResult, Rank, real_stack};
use super::{Experiment, Point, StackChoice, quantity};
use crate::error::LabError;
use crate::library::{Overrides, Parsed};
use crate::metric::{self, Metric, known};
use crate::runner::Job;
use crate::statistics::{spearman, summary, wilson};
use crate::store::{Record, Store};
use crate::watch::{CURVES, FLOW_CURVES, TOTAL};
use roughlink_core::net::{NetworkError, routing};
use roughlink_core::scenario::{Scenario, Warning};
use roughlink_core::units::Time;
use siphasher::sip128::{Hasher128 as _, SipHasher13};
use std::collections::BTreeMap;
use std::hash::Hasher as _;
use std::sync::Arc;

/// An experiment and its grid.
#[derive(Debug)]
pub struct Plan {
    /// The experiment.
    pub experiment: Experiment,
    /// The warnings about the scenarios, each once, with the text that their positions refer to.
    pub warnings: Vec<(String, String, Warning)>,
    pub(super) cells: Vec<Planned>,
}

/// Runs of a grid, unless more are asked for: each needs a record in memory.
pub const MOST_RUNS: u64 = 1_000_000;

/// A combination of axis values on a stack.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) stack: String,
    /// As in [`Cell::ran_on`].
    ran_on: String,
    pub(super) at: Vec<String>,
    labels: Vec<String>,
    scenario: Arc<Scenario>,
    fingerprint: u128,
}

impl Planned {
    /// As [`Cell::real_stack`].
    pub(super) fn real_stack(&self) -> &str {
        real_stack(&self.stack, &self.ran_on)
    }
}

impl Plan {
    /// Reads the scenario of every cell of a grid of at most [`MOST_RUNS`].
    pub fn new(experiment: Experiment) -> Result<Plan, LabError> {
        Plan::with_limit(experiment, MOST_RUNS)
    }

    /// As [`Plan::new`], of a grid of at most `most` runs.
    pub fn with_limit(experiment: Experiment, most: u64) -> Result<Plan, LabError> {
        let runs = (experiment.axes.iter().map(|a| a.points.len() as u128))
            .chain([experiment.stacks.len() as u128, u128::from(experiment.replicas)])
            .fold(1, u128::saturating_mul);
        if runs > u128::from(most) && experiment.function.is_none() {
            return Err(LabError::Usage {
                message: format!("the grid has {runs} runs, more than {most}"),
                help: format!("vary less, or --max-runs {runs} if you mean it"),
            });
        }
        let mut plan = Plan { experiment, warnings: Vec::new(), cells: Vec::new() };
        if plan.experiment.function.is_some() {
            return Ok(plan);
        }
        for stack in plan.experiment.stacks.clone() {
            let counts: Vec<usize> = plan.experiment.axes.iter().map(|a| a.points.len()).collect();
            for i in 0..counts.iter().product() {
                plan.add(&stack, &unravel(i, &counts))?;
            }
        }
        Ok(plan)
    }

    fn add(&mut self, stack: &StackChoice, at: &[usize]) -> Result<(), LabError> {
        let e = &self.experiment;
        let points: Vec<_> = e.axes.iter().zip(at).map(|(axis, i)| (axis, &axis.points[*i])).collect();
        let own = points.iter().find_map(|(_, point)| point.scenario.as_ref());
        let source = own
            .or(e.scenario.as_ref())
            .ok_or_else(|| LabError::Usage { message: format!("{} has no scenario", e.id), help: "name one".into() })?;
        let mut overrides: Overrides = stack.set.clone();
        overrides.extend(e.set.iter().cloned());
        for (axis, point) in &points {
            overrides.extend(axis.keys.iter().map(|key| (key.clone(), point.value.clone())));
            overrides.extend(point.set.iter().cloned());
        }
        let Parsed { scenario, warnings, fingerprint, .. } = source.parse(&overrides)?;
        routing::paths(&scenario).map_err(NetworkError::from)?;
        e.metrics.iter().try_for_each(|m| m.check(&scenario))?;
        for flow in e.watch.iter().flat_map(|w| w.flow.iter().chain(&w.flows)).filter(|flow| *flow != TOTAL) {
            known("flow", flow, scenario.flows.iter().map(|f| f.name.as_str()))?;
        }
        for (_, point) in points.iter().filter(|(axis, _)| axis.keys.iter().any(|key| key == "tcp.cc")) {
            let algorithm = point.value.split('{').next().unwrap_or_default().trim();
            if scenario.flows.iter().all(|f| f.cc != algorithm) {
                return Err(LabError::Usage {
                    message: format!("`tcp.cc = {algorithm}` decides nothing: every flow has a `cc` of its own"),
                    help: "leave `cc` out of the flows, or vary it there: sweep --set flow.NAME.cc=...".into(),
                });
            }
        }
        let at = points.iter().map(|(_, p)| p.value.clone()).collect();
        let labels = points.iter().map(|(_, p)| label(p)).collect();
        let ran_on = points.iter().rev().find_map(|(_, p)| own_stack(p)).filter(|own| *own != stack.name);
        let ran_on = ran_on.unwrap_or_default().to_owned();
        for warning in warnings {
            if self.warnings.iter().all(|(_, _, known)| known.message != warning.message) {
                self.warnings.push((source.name.clone(), scenario.source.clone(), warning));
            }
        }
        let scenario = Arc::new(scenario);
        self.cells.push(Planned { stack: stack.name.clone(), ran_on, at, labels, scenario, fingerprint });
        Ok(())
    }

    /// The runs that it needs.
    pub fn jobs(&self) -> Vec<Job> {
        self.cells.iter().flat_map(|cell| (0..self.experiment.replicas).map(|r| self.job(cell, r))).collect()
    }

    /// Measures what is usual for the flows of its scenarios ([`metric::usual`]).
    pub fn measure_usual(&mut self, transfers: &[&'static str]) {
        let scenarios: Vec<&Scenario> = self.cells.iter().map(|c| &*c.scenario).collect();
        let names = metric::usual(&scenarios, transfers);
        self.experiment.metrics = names.iter().map(|n| Metric::new(n).expect("a metric that there is")).collect();
    }

    /// What distinguishes it from other experiments: scenarios, axes, replicas and metrics, but not the engine.
    pub fn identity(&self) -> String {
        let e = &self.experiment;
        let mut hash = SipHasher13::new();
        let mut add = |text: &str| {
            hash.write_u64(text.len() as u64);
            hash.write(text.as_bytes());
        };
        e.axes.iter().for_each(|a| add(&a.name));
        e.metrics.iter().for_each(|m| add(m.name()));
        for cell in &self.cells {
            add(&cell.stack);
            cell.at.iter().for_each(|value| add(value));
            add(&format!("{:032x}", cell.fingerprint));
        }
        add(&e.replicas.to_string());
        format!("{:032x}", hash.finish128().as_u128())
    }

    pub(super) fn job(&self, cell: &Planned, replica: u32) -> Job {
        let title = format!("{} {} replica {replica}", self.experiment.id, cell.at.join(" "));
        let watch = self.experiment.watch.clone();
        Job::new(cell.scenario.clone(), cell.fingerprint, replica, watch, title)
    }

    /// Cells and statistics from the store; runs that it lacks are missing from the replicas.
    pub fn result(&self, store: &Store) -> ExperimentResult {
        let e = &self.experiment;
        let mut result = ExperimentResult {
            experiment: e.id.clone(),
            title: e.title.clone(),
            place: e.place.clone(),
            about: e.about.clone(),
            command: e.command.clone(),
            scenario: e.scenario.as_ref().map(|s| s.stem().to_owned()).unwrap_or_default(),
            quick: e.quick,
            stacks: e.stacks.iter().map(|s| s.name.clone()).collect(),
            axes: e.axes.iter().map(axis).collect(),
            metrics: e.metrics.iter().map(|m| m.describe()).collect(),
            figure: e.figure.clone(),
            ..Default::default()
        };
        if let Some(function) = &e.function {
            (result.curves, result.metrics) = function.curves();
            return result;
        }
        for cell in &self.cells {
            let records: Vec<&Record> = (0..e.replicas).filter_map(|r| store.get(&self.job(cell, r).key)).collect();
            self.measure(cell, &records, &mut result);
        }
        if let Some(watch) = &e.watch {
            let all = if watch.flows.is_empty() { CURVES } else { FLOW_CURVES };
            let known = all.iter().filter(|(name, ..)| watch.curves.iter().any(|c| c == name));
            for (name, label, unit) in known {
                let (name, label, unit) = ((*name).into(), (*label).into(), (*unit).into());
                result.metrics.push(super::result::MetricResult { name, label, unit });
            }
        }
        result.ranks = self.ranks(&result);
        result
    }

    fn axes(&self, cell: &Planned) -> BTreeMap<String, String> {
        self.experiment.axes.iter().map(|a| a.name.clone()).zip(cell.at.iter().cloned()).collect()
    }

    fn measure(&self, cell: &Planned, records: &[&Record], result: &mut ExperimentResult) {
        let e = &self.experiment;
        let axes = self.axes(cell);
        for metric in &e.metrics {
            let numbered = |of: fn(&Metric, &Record) -> Option<f64>| -> (Vec<u32>, Vec<f64>) {
                records.iter().filter_map(|r| Some((r.result.replica, of(metric, r)?))).unzip()
            };
            let (numbers, samples) = numbered(Metric::value);
            let (bounded, at_least) = numbered(Metric::at_least);
            let numbers = [numbers, bounded].concat();
            let in_order = numbers.iter().zip(0..).all(|(number, i)| *number == i);
            // A lower bound is no value to average.
            let statistics = summary(&samples).filter(|_| at_least.is_empty());
            let deterministic = !cell.scenario.is_random();
            let spread = statistics.and_then(|s| s.ci95).filter(|half| *half > 0.0 && !deterministic);
            let share = metric.is_share_of_runs() && !deterministic;
            let published = e.published.iter().find(|p| p.metric == metric.name() && p.at == cell.at);
            result.cells.push(Cell {
                stack: cell.stack.clone(),
                ran_on: cell.ran_on.clone(),
                axes: axes.clone(),
                metric: metric.name().into(),
                published: published.map(|p| p.value),
                published_at: published.map(|p| p.place.clone()).unwrap_or_default(),
                published_again: published.is_some_and(|p| p.again),
                measured: statistics.map(|s| s.mean),
                ci95: spread.filter(|_| !share),
                interval: statistics.filter(|_| share).map(|s| wilson(s.mean, s.n)),
                replicas: records.len() as u32,
                samples,
                at_least,
                numbers: if in_order { Vec::new() } else { numbers },
                deterministic,
            });
        }
        let Some(watch) = e.watch.as_ref().filter(|w| w.every_ns > 0) else { return };
        // Each flow has its own curves, or there is one set for all.
        let own = watch.flows.iter().flat_map(|flow| watch.curves.iter().map(move |name| (name, Some(flow))));
        let common = watch.curves.iter().map(|name| (name, None)).filter(|_| watch.flows.is_empty());
        for (name, flow) in own.chain(common) {
            let kept = flow.map_or_else(|| name.clone(), |flow| format!("{name}@{flow}"));
            let labels = cell.labels.iter().chain(flow).map(String::as_str).collect::<Vec<_>>();
            let mut axes = axes.clone();
            axes.extend(flow.map(|flow| ("flow".to_owned(), flow.clone())));
            let used = if e.single { &records[..records.len().min(1)] } else { records };
            let all: Vec<&Vec<f64>> = used.iter().filter_map(|r| r.watched.as_ref()?.curves.get(&kept)).collect();
            if all.is_empty() {
                continue;
            }
            // A curve that ended earlier than the longest keeps its last value.
            let index = |t: Time| usize::try_from(t.0 / watch.every_ns).unwrap_or(usize::MAX);
            let points = all.iter().map(|c| c.len()).max().unwrap_or(0).min(index(e.span.1).saturating_add(1));
            let first = index(e.span.0).min(points);
            let at = |c: &[f64], k: usize| c.get(k).or(c.last()).copied().unwrap_or(0.0);
            let mean = |k: usize| all.iter().map(|c| at(c, k)).sum::<f64>() / all.len() as f64;
            // Progress is counted from the start of the drawn span.
            let base = if name == "sequence_mb" && first < points { mean(first) } else { 0.0 };
            result.curves.push(Curve {
                stack: cell.stack.clone(),
                ran_on: cell.ran_on.clone(),
                axes,
                label: labels.join(", "),
                metric: name.clone(),
                replica: e.single.then_some(0),
                x: (first..points).map(|k| watch.every_ns as f64 * 1e-9 * k as f64).collect(),
                y: (first..points).map(|k| Some(mean(k) - base)).collect(),
            });
        }
    }

    /// Rank correlation with the published order along the ranked axis, wherever all of it is published.
    fn ranks(&self, result: &ExperimentResult) -> Vec<Rank> {
        let Some(over) = &self.experiment.rank else { return Vec::new() };
        let mut groups: Vec<(Rank, Vec<(f64, f64)>)> = Vec::new();
        for cell in &result.cells {
            let (Some(published), Some(measured)) = (cell.published, cell.measured) else { continue };
            let mut at = cell.axes.clone();
            at.remove(over);
            let found = groups.iter().position(|(r, _)| r.stack == cell.stack && r.at == at && r.metric == cell.metric);
            let i = found.unwrap_or_else(|| {
                let rank = Rank {
                    stack: cell.stack.clone(),
                    at,
                    over: over.clone(),
                    metric: cell.metric.clone(),
                    spearman: 0.0,
                    n: 0,
                };
                groups.push((rank, Vec::new()));
                groups.len() - 1
            });
            groups[i].1.push((published, measured));
        }
        let ranked = |(rank, pairs): (Rank, Vec<(f64, f64)>)| {
            let n = pairs.len() as u32;
            (n > 2).then(|| spearman(&pairs)).flatten().map(|spearman| Rank { spearman, n, ..rank })
        };
        groups.into_iter().filter_map(ranked).collect()
    }
}

fn axis(axis: &super::Axis) -> AxisResult {
    let read: Vec<Option<(f64, &str)>> = axis.points.iter().map(|p| quantity(&p.value)).collect();
    let unit = read.first().copied().flatten().map(|(_, unit)| unit);
    let one_unit = unit.is_some() && read.iter().all(|r| r.map(|(_, u)| u) == unit);
    let values = axis.points.iter().zip(read).map(|(point, read)| AxisValue {
        value: point.value.clone(),
        label: label(point),
        number: read.filter(|_| one_unit).map(|(n, _)| n),
    });
    AxisResult { name: axis.name.clone(), label: axis.label.clone(), values: values.collect(), narrowed: axis.narrowed }
}

/// The stack that a value sets in addition to its keys.
fn own_stack(point: &Point) -> Option<&str> {
    point.set.iter().rev().find(|(key, _)| key == "tcp.stack").map(|(_, stack)| stack.as_str())
}

/// A value for people, with the stack if it sets one.
fn label(point: &Point) -> String {
    own_stack(point).map_or_else(|| point.label.clone(), |stack| format!("{} ({stack})", point.label))
}

/// The `i`-th combination; the last axis varies fastest.
fn unravel(mut i: usize, counts: &[usize]) -> Vec<usize> {
    let mut at = vec![0; counts.len()];
    for (slot, count) in at.iter_mut().zip(counts).rev() {
        *slot = i % count;
        i /= count;
    }
    at
}
