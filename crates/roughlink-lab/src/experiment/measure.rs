//! The results of an experiment: the statistics of its cells and the table of its runs, computed from the finished runs
//! of a store. Each run is read once, by threads on all cores. Memory holds a few thousand runs at a time.

use super::order::{GridKind, Order};
use super::place::{CellPlace, SharedTexts};
use super::plan::{Planned, label};
use super::result::{AxisResult, AxisValue, Cell, Compared, Curve, ExperimentResult, MetricResult, Rank};
use super::table::{TableColumn, TableRows};
use super::{ExperimentPlan, KERNEL, quantity};
use crate::error::LabError;
use crate::library::Overrides;
use crate::metric::Metric;
use crate::runner::{cores, kernel_release};
use crate::statistics::{ConfidenceInterval, LEVEL, bounds, quantile, spearman, summary, wilson};
use crate::store::{Records, RunRecord};
use crate::watch::{CURVES, FLOW_CURVES, Watched};
use roughlink_core::units::Time;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

impl ExperimentPlan {
    /// Computes cells and statistics of finished runs; missing runs reduce the number of replicas.
    ///
    /// # Errors
    /// Returns an error if a run cannot be read.
    pub fn result(&self, runs: &impl AsRef<Records>) -> Result<ExperimentResult, LabError> {
        Ok(self.measured(runs.as_ref(), None)?.0)
    }

    /// Returns the columns of the table of finished runs.
    ///
    /// # Errors
    /// Returns an error if a run cannot be read.
    pub fn columns(&self, runs: &impl AsRef<Records>) -> Result<Vec<TableColumn>, LabError> {
        Ok(self.result_and_columns(runs)?.1)
    }

    /// Returns both [`ExperimentPlan::result`] and [`ExperimentPlan::columns`], and reads each run once.
    ///
    /// # Errors
    /// Returns an error if a run cannot be read.
    pub fn result_and_columns(
        &self,
        runs: &impl AsRef<Records>,
    ) -> Result<(ExperimentResult, Vec<TableColumn>), LabError> {
        let metrics = self.table_metrics();
        let (result, rows) = self.measured(runs.as_ref(), Some(&metrics))?;
        Ok((result, self.table_of(rows)))
    }

    /// Returns the results, and the rows of the table if it has `columns`.
    fn measured<'m>(
        &self,
        runs: &Records,
        columns: Option<&'m [Metric]>,
    ) -> Result<(ExperimentResult, TableRows<'m>), LabError> {
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
            scenario_stacks: self.scenario_stacks(),
            axes: e.axes.iter().map(axis).collect(),
            metrics: e.metrics.iter().map(|m| m.describe()).collect(),
            figure: e.figure.clone(),
            ..Default::default()
        };
        let mut rows = TableRows::new(columns);
        if let Some(function) = &e.function {
            (result.curves, result.metrics) = function.curves();
            return Ok((result, rows));
        }
        self.in_parts(runs, columns, &mut |part| {
            result.cells.extend(part.cells);
            result.curves.extend(part.curves);
            rows.append(part.rows);
        })?;
        if let Some(watch) = &e.watch {
            let all = if watch.flows.is_empty() { CURVES } else { FLOW_CURVES };
            let known = all.iter().filter(|q| watch.curves.iter().any(|c| c == q.name));
            result.metrics.extend(known.map(|q| MetricResult {
                name: q.name.into(),
                label: q.label.into(),
                unit: q.unit.into(),
            }));
        }
        result.ranks = self.ranks(&result);
        if matches!(&self.order, Some(Order { kind: GridKind::Compare { .. }, .. })) {
            let first = |cell: &Cell| result.cells.iter().find(|c| c.metric == cell.metric);
            let others = result.cells.iter().filter_map(|cell| Some((cell, first(cell)?)));
            let others = others.filter(|(cell, first)| !std::ptr::eq(*cell, *first));
            result.compared = others.filter_map(|(cell, first)| Compared::new(cell, first)).collect();
        }
        Ok((result, rows))
    }

    /// Measures the cells on all cores, and passes the parts to `take` in the order of the plan.
    fn in_parts<'m>(
        &self,
        runs: &Records,
        columns: Option<&'m [Metric]>,
        take: &mut dyn FnMut(MeasuredPart<'m>),
    ) -> Result<(), LabError> {
        let length = RUNS_AT_ONCE.div_ceil(self.experiment.replicas.max(1) as usize);
        let parts = self.cells().div_ceil(length);
        let next = AtomicUsize::new(0);
        let work = &|sender: mpsc::SyncSender<_>| loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let cells = number * length..((number + 1) * length).min(self.cells());
            if number >= parts || sender.send((number, self.part(cells, runs, columns))).is_err() {
                return;
            }
        };
        std::thread::scope(|scope| {
            let (sender, measured) = mpsc::sync_channel(PARTS_AHEAD);
            let mut workers = Vec::new();
            for _ in 0..cores().min(parts) {
                let sender = sender.clone();
                workers.push(scope.spawn(move || work(sender)));
            }
            drop(sender);
            let (mut early, mut taken) = (BTreeMap::new(), 0);
            for (number, part) in measured {
                early.insert(number, part?);
                while let Some(part) = early.remove(&taken) {
                    take(part);
                    taken += 1;
                }
            }
            for worker in workers {
                worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
            Ok(())
        })
    }

    fn part<'m>(
        &self,
        cells: Range<usize>,
        runs: &Records,
        columns: Option<&'m [Metric]>,
    ) -> Result<MeasuredPart<'m>, LabError> {
        let e = &self.experiment;
        let mut part = MeasuredPart { cells: Vec::new(), curves: Vec::new(), rows: TableRows::new(columns) };
        let mut texts = SharedTexts::default();
        let has_curves = e.watch.as_ref().is_some_and(|watch| watch.every_ns > 0);
        for number in cells {
            let Some(cell) = self.planned(number) else { continue };
            let metrics = e.metrics.iter().map(|_| MetricValues::default()).collect();
            let mut found = CellRuns { metrics, ..CellRuns::default() };
            for replica in 0..e.replicas {
                let Some(record) = runs.get(&self.key(&cell, replica))? else { continue };
                found.add(&record, &e.metrics);
                part.rows.add(number, &record);
                found.watched.extend(record.watched.filter(|_| has_curves));
            }
            let place = e.axes.iter().zip(&cell.at);
            let place = place.map(|(axis, value)| (texts.share(&axis.name), texts.share(value))).collect();
            part.curves.extend(self.curves(number, &cell, &place, &found.watched));
            part.cells.extend(self.measure(&cell, &place, found));
        }
        Ok(part)
    }

    /// Returns the TCP stacks of a user's scenarios; empty if the experiment names its stacks.
    fn scenario_stacks(&self) -> Vec<String> {
        let named = self.experiment.stacks.iter().any(|s| !s.name.is_empty());
        if named { Vec::new() } else { self.stacks.iter().map(|s| (*s).to_owned()).collect() }
    }

    /// Like [`ExperimentPlan::result`], with `kernel`, the plan of [`super::Experiment::on_kernel`], as one more stack.
    ///
    /// # Errors
    /// Returns an error if a run cannot be read.
    pub fn result_beside(
        &self,
        kernel: &ExperimentPlan,
        runs: &impl AsRef<Records>,
    ) -> Result<ExperimentResult, LabError> {
        let (e, own) = (&self.experiment, &kernel.experiment);
        let mut how = vec![match own.replicas {
            1 => "one run of each cell".to_owned(),
            n => format!("{n} runs of each cell"),
        }];
        // The last value of a key applies.
        let last = |set: &Overrides| set.iter().cloned().collect::<BTreeMap<String, String>>();
        let others = last(&e.set);
        let differ = last(&own.set).into_iter().filter(|(key, value)| others.get(key) != Some(value));
        how.extend(differ.map(|(key, value)| format!("{key} = {value}")));
        for (axis, all) in own.axes.iter().zip(&e.axes).filter(|(axis, all)| axis.points.len() < all.points.len()) {
            let labels: Vec<&str> = axis.points.iter().map(|p| p.label.as_str()).collect();
            how.push(format!(
                "{} of {} values of `{}`: {}",
                labels.len(),
                all.points.len(),
                all.label,
                labels.join(", ")
            ));
        }
        let remarks = format!(
            "On `{KERNEL}`, TCP of Linux {} carried the transfers in real time: {}.",
            kernel_release(),
            how.join("; ")
        );
        let mut result = self.result(runs)?;
        result.add(kernel.result(runs)?, &remarks);
        Ok(result)
    }

    /// Returns the cell of each metric.
    fn measure(&self, cell: &Planned, place: &CellPlace, found: CellRuns) -> Vec<Cell> {
        let e = &self.experiment;
        let deterministic = found.runs > 0 && found.runs == found.deterministic;
        let mut cells = Vec::with_capacity(e.metrics.len());
        for (metric, values) in e.metrics.iter().zip(found.metrics) {
            let MetricValues { numbers, samples, bounded, at_least, cut } = values;
            let numbers = [numbers, bounded].concat();
            let in_order = numbers.iter().zip(0..).all(|(number, i)| *number == i);
            // The mean of the runs that reached a value is too small, so use the median of all.
            let statistic = metric.quantile().or((!at_least.is_empty()).then_some(0.5));
            let mean = summary(&samples).filter(|_| statistic.is_none());
            let spread = mean.and_then(|s| s.ci95).filter(|half| *half > 0.0 && !deterministic);
            let share = metric.is_share_of_runs() && !deterministic;
            let own = statistic.and_then(|q| {
                let each: Vec<ConfidenceInterval> = bounds(&samples, &at_least).collect();
                quantile(&each, q, LEVEL)
            });
            let known = own.and_then(|([from, to], _)| (from == to).then_some(from));
            let bound = own.map(|([from, _], _)| from).filter(|_| known.is_none());
            let own_interval = own.and_then(|(_, interval)| interval).filter(|_| !deterministic);
            let published = e.published.iter().find(|p| p.metric == metric.name() && p.at == cell.at);
            cells.push(Cell {
                stack: cell.stack.clone(),
                ran_on: cell.ran_on.clone(),
                axes: place.clone(),
                metric: metric.name().into(),
                published: published.map(|p| p.value),
                published_at: published.map(|p| p.place.clone()).unwrap_or_default(),
                published_again: published.is_some_and(|p| p.again),
                measured: mean.map(|s| s.mean).or(known),
                quantile: statistic,
                bound,
                ci95: spread.filter(|_| !share),
                interval: mean.filter(|_| share).map(|s| wilson(s.mean, s.n, LEVEL)).or(own_interval),
                replicas: found.runs,
                cut,
                samples,
                at_least,
                numbers: if in_order { Vec::new() } else { numbers },
                deterministic,
            });
        }
        cells
    }

    /// Returns the curves of cell `number`, whose runs recorded `watched`.
    fn curves(&self, number: usize, cell: &Planned, place: &CellPlace, watched: &[Watched]) -> Vec<Curve> {
        let e = &self.experiment;
        let mut curves = Vec::new();
        let Some(watch) = e.watch.as_ref().filter(|w| w.every_ns > 0) else { return curves };
        let values = self.labels(number);
        // Either each flow has its curves, or one set is shared by all.
        let own = watch.flows.iter().flat_map(|flow| watch.curves.iter().map(move |name| (name, Some(flow))));
        let common = watch.curves.iter().map(|name| (name, None)).filter(|_| watch.flows.is_empty());
        for (name, flow) in own.chain(common) {
            let kept = flow.map_or_else(|| name.clone(), |flow| format!("{name}@{flow}"));
            let labels = values.iter().chain(flow).map(String::as_str).collect::<Vec<_>>();
            let axes = flow.map_or_else(|| place.clone(), |flow| place.with("flow", flow));
            let used = if e.single { &watched[..watched.len().min(1)] } else { watched };
            let all: Vec<&Vec<f64>> = used.iter().filter_map(|w| w.curves.get(&kept)).collect();
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
            curves.push(Curve {
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
        curves
    }

    /// Returns the rank correlations with the published order along the ranked axis, wherever all of it is published.
    fn ranks(&self, result: &ExperimentResult) -> Vec<Rank> {
        let Some(over) = &self.experiment.rank else { return Vec::new() };
        let mut groups: Vec<(Rank, Vec<(f64, f64)>)> = Vec::new();
        for cell in &result.cells {
            let (Some(published), Some(measured)) = (cell.published, cell.measured) else { continue };
            let at = cell.axes.without(over);
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

/// The results of some cells.
struct MeasuredPart<'m> {
    cells: Vec<Cell>,
    curves: Vec<Curve>,
    rows: TableRows<'m>,
}

/// Values of the runs of a cell.
#[derive(Default)]
struct CellRuns {
    metrics: Vec<MetricValues>,
    runs: u32,
    /// Number of runs in which nothing is random.
    deterministic: u32,
    /// Recorded quantities, if there are curves.
    watched: Vec<Watched>,
}

impl CellRuns {
    fn add(&mut self, record: &RunRecord, metrics: &[Metric]) {
        self.runs += 1;
        self.deterministic += u32::from(record.deterministic);
        for (metric, values) in metrics.iter().zip(&mut self.metrics) {
            values.cut += u32::from(metric.is_cut(record));
            match metric.bounds(record) {
                Some([from, to]) if from == to => {
                    values.numbers.push(record.result.replica);
                    values.samples.push(from);
                }
                Some([from, _]) => {
                    values.bounded.push(record.result.replica);
                    values.at_least.push(from);
                }
                None => {}
            }
        }
    }
}

/// Values of a metric in the runs of a cell.
#[derive(Default)]
struct MetricValues {
    /// Replicas with a value.
    numbers: Vec<u32>,
    samples: Vec<f64>,
    /// Replicas of which only a lower bound is known.
    bounded: Vec<u32>,
    at_least: Vec<f64>,
    /// Number of runs whose time window ended early.
    cut: u32,
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

/// Runs of a part of the cells.
const RUNS_AT_ONCE: usize = 4096;
/// Parts that the threads may have ready.
const PARTS_AHEAD: usize = 4;
