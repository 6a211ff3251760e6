//! The figures of a claim, computed from the cells of an experiment. A combination that ran has a figure even if its
//! cells have no value; such a figure leaves the claim undecided.

use super::{Claim, ComparisonKind, Statistic};
use crate::experiment::result::{Cell, ClaimOutcome, ExperimentResult};
use crate::statistics::{ConfidenceInterval, LEVEL, interval, median, ratio};
use std::collections::BTreeMap;

/// A value for each axis except the one with `a` and `b`.
type FixedAxes = BTreeMap<String, String>;

pub(super) struct ClaimFigure {
    pub at: String,
    /// Figures with the same values of everything but `share_over`; empty without that key.
    pub group: String,
    /// Bounds of the figure; they are equal if all runs reached a value. None without a value.
    pub range: Option<ConfidenceInterval>,
    /// The 95 % interval, or the reason for its absence.
    pub interval: Result<ConfidenceInterval, &'static str>,
    pub from: String,
}

impl ClaimFigure {
    fn new(at: String, estimate: Option<Estimate>, from: String) -> ClaimFigure {
        let (range, interval) = estimate.map_or((None, Err(NO_VALUE)), |e| (Some(e.range), e.interval));
        ClaimFigure { at, group: String::new(), range, interval, from }
    }

    /// Returns the interval, unless it is the figure itself or a mere bound.
    pub(crate) fn interval(&self) -> Option<ConfidenceInterval> {
        self.interval.ok().filter(|ends| ends[0] < ends[1] && Some(*ends) != self.range)
    }

    /// Formats the figure without its unit.
    pub(crate) fn words(&self) -> String {
        self.range.map_or("no value".into(), words)
    }

    pub(crate) fn outcome(&self, (low, high): (f64, f64)) -> ClaimOutcome {
        match self.interval {
            Ok([from, to]) if low <= from && to <= high => ClaimOutcome::Confirmed,
            Ok([from, to]) if to < low || high < from => ClaimOutcome::NotConfirmed,
            _ => ClaimOutcome::Undecided,
        }
    }
}

/// A figure and its interval, with the same meaning as in [`ClaimFigure`].
struct Estimate {
    range: ConfidenceInterval,
    interval: Result<ConfidenceInterval, &'static str>,
}

impl Estimate {
    /// Creates an estimate from means. If a run of `a` did not reach its value, the upper end is open; if a run of `b`
    /// did not, the lower one.
    fn from_means(value: f64, interval: Option<ConfidenceInterval>, a: &Cell, b: Option<&Cell>) -> Estimate {
        let bounded = |c: &Cell| !c.at_least.is_empty();
        let open = |[from, to]: ConfidenceInterval| {
            let from = if b.is_some_and(bounded) { f64::NEG_INFINITY } else { from };
            [from, if bounded(a) { f64::INFINITY } else { to }]
        };
        let interval = interval.map(open).ok_or_else(|| reason_without_interval(a, b));
        Estimate { range: open([value; 2]), interval }
    }

    /// Returns the median of values that lie between these bounds.
    fn from_median(values: &[ConfidenceInterval], deterministic: bool) -> Option<Estimate> {
        let (range, interval) = median(values, LEVEL)?;
        let interval = if deterministic { Ok(range) } else { interval.ok_or(FEW_FOR_A_MEDIAN) };
        Some(Estimate { range, interval })
    }

    fn map(self, of: impl Fn(f64) -> f64) -> Estimate {
        Estimate { range: self.range.map(&of), interval: self.interval.map(|ends| ends.map(&of)) }
    }
}

fn reason_without_interval(a: &Cell, b: Option<&Cell>) -> &'static str {
    let runs = [Some(a), b].into_iter().flatten().filter(|c| !c.has_spread(LEVEL)).map(|c| c.by_replica().len()).min();
    match runs.unwrap_or_else(|| b.map_or(usize::MAX, |b| a.pairs(b).len())) {
        0 => NO_VALUE,
        1 => ONE_RUN,
        2..6 => FEW_EQUAL,
        _ => BY_ZERO,
    }
}

impl Claim {
    pub(super) fn figures(&self, stack: &str, [result, other]: [&ExperimentResult; 2]) -> Vec<ClaimFigure> {
        let mut places = vec![self.at.clone()];
        for (axis, values) in &self.over {
            let known = result.axes.iter().find(|a| a.name == *axis).map(|a| a.values.as_slice()).unwrap_or_default();
            let wanted = known.iter().filter(|v| values.is_empty() || values.contains(&v.value));
            let wanted: Vec<&str> = wanted.map(|v| v.value.as_str()).collect();
            let with = |place: &FixedAxes, value: &str| {
                let mut place = place.clone();
                place.insert(axis.clone(), value.into());
                place
            };
            places =
                places.iter().flat_map(|place| wanted.iter().map(|v| with(place, v)).collect::<Vec<_>>()).collect();
        }
        let mut figures = Vec::new();
        for subject in self.subjects() {
            let named = self.subjects().len() > 1;
            if matches!(self.kind, ComparisonKind::Spread | ComparisonKind::Largest) {
                let metric = (result, self.metric(result));
                let cell = |place| Some((self.cell(stack, metric, subject, place)?, place));
                let cells: Vec<(&Cell, &FixedAxes)> = places.iter().filter_map(cell).collect();
                figures.extend(match self.kind {
                    ComparisonKind::Spread => self.spread(result, subject, &cells),
                    _ => self.largest(result, subject, &cells),
                });
                continue;
            }
            for place in &places {
                let over: Vec<&str> = self.over.keys().filter_map(|axis| place.get(axis)).map(String::as_str).collect();
                let at =
                    named.then(|| self.label(result, subject)).into_iter().chain(over.iter().map(|o| (*o).to_owned()));
                let at = at.collect::<Vec<_>>().join(", ");
                let others: Vec<_> = place.iter().filter(|(axis, _)| Some(*axis) != self.share_over.as_ref()).collect();
                let group = self.share_over.as_ref().map(|_| format!("{subject} {others:?}")).unwrap_or_default();
                let figure = self.figure(stack, [result, other], subject, place, at);
                figures.extend(figure.map(|f| ClaimFigure { group, ..f }));
            }
        }
        figures
    }

    /// Returns None if the cells were not run.
    fn figure(
        &self,
        stack: &str,
        [result, other]: [&ExperimentResult; 2],
        subject: &str,
        place: &FixedAxes,
        at: String,
    ) -> Option<ClaimFigure> {
        let a = self.cell(stack, (result, self.metric(result)), subject, place)?;
        if self.kind == ComparisonKind::Rank {
            let cells: Vec<&Cell> = self.all(stack, (result, self.metric(result)), place);
            let narrowed = result.axes.iter().any(|axis| axis.name == self.axis && axis.narrowed);
            if self.among.as_ref().map_or(narrowed, |among| cells.len() < among.len()) {
                return None; // a rank among only some of the cells is meaningless
            }
            return Some(self.place(result, a, cells, at));
        }
        let Some(b) = self.b.as_ref() else {
            return Some(ClaimFigure::new(at, self.value(a), self.describe_cell(result, a)));
        };
        let divisor = |r, value| self.per.as_ref().map(|per| self.cell(stack, (r, per), value, place));
        let divisors = divisor(result, subject).zip(divisor(other, b));
        let b = self.cell(stack, (other, self.b_metric(other)), b, place)?;
        let part = |cell: &Cell, divisor: Option<&Cell>| {
            self.describe_cell(result, cell) + &divisor.map_or(String::new(), |d| format!(" / {}", self.shown(d)))
        };
        let [of_a, of_b] = divisors.map_or([None; 2], |(a, b)| [a, b]);
        let from = format!("{}, {}", part(a, of_a), part(b, of_b));
        let estimate = match self.kind {
            ComparisonKind::Difference => self.difference(a, b),
            ComparisonKind::Value => self.value(a),
            _ => match divisors {
                None => self.ratio(a, b),
                Some((of_a, of_b)) => ratio_of_totals([a, of_a?, b, of_b?]),
            },
        };
        let scaled = |x: f64| match self.kind {
            ComparisonKind::Gain => 100.0 * (x - 1.0),
            ComparisonKind::More => x - 1.0,
            _ => x,
        };
        Some(ClaimFigure::new(at, estimate.map(|e| e.map(scaled)), from))
    }

    /// Returns the best and the worst possible rank of `a` among all cells, given their values and differences.
    fn place(&self, result: &ExperimentResult, a: &Cell, mut all: Vec<&Cell>, at: String) -> ClaimFigure {
        let unknown = [f64::NEG_INFINITY, f64::INFINITY];
        let value = |c: &Cell| self.value(c).map(|estimate| estimate.range);
        let others: Vec<&Cell> = all.iter().copied().filter(|c| !std::ptr::eq(*c, a)).collect();
        let margin = self.margin.unwrap_or(0.0) * value(a).map_or(0.0, |[from, _]| from.abs());
        // Returns the best and worst rank if the others are ahead by these amounts. Differences up to `tie` are ties.
        let place = |tie: f64, ahead: &dyn Fn(&Cell) -> ConfidenceInterval| {
            let ahead: Vec<ConfidenceInterval> = others.iter().map(|c| ahead(c)).collect();
            let surely = ahead.iter().filter(|[from, _]| *from > tie).count();
            let perhaps = ahead.iter().filter(|[_, to]| *to > 0.0 || tie > 0.0 && *to >= -tie).count();
            [surely, perhaps].map(|better| better as f64 + 1.0)
        };
        let estimate = value(a).map(|own| Estimate {
            range: place(0.0, &|c| value(c).map_or(unknown, |[from, to]| [from - own[1], to - own[0]])),
            interval: Ok(place(margin, &|c| self.difference(c, a).and_then(|d| d.interval.ok()).unwrap_or(unknown))),
        });
        let first = |c: &Cell| value(c).map_or(f64::NEG_INFINITY, |[from, _]| from);
        all.sort_by(|x, y| first(y).total_cmp(&first(x)));
        let shown: Vec<String> = all.iter().take(3).map(|c| self.describe_cell(result, c)).collect();
        ClaimFigure::new(at, estimate, shown.join(", "))
    }

    fn spread(&self, result: &ExperimentResult, subject: &str, cells: &[(&Cell, &FixedAxes)]) -> Option<ClaimFigure> {
        let cells: Vec<&Cell> = cells.iter().map(|(cell, _)| *cell).collect();
        if cells.len() < 2 {
            return None;
        }
        let pairs = cells.iter().flat_map(|a| cells.iter().map(move |b| (a, b))).filter(|(a, b)| !std::ptr::eq(*a, *b));
        let ratios: Option<Vec<Estimate>> = pairs.map(|(a, b)| self.ratio(a, b)).collect();
        // The spread is at least the largest certain ratio of two cells, and at most the largest possible one.
        let widest = |[x, y]: ConfidenceInterval, [from, to]: ConfidenceInterval| [x.max(from), y.max(to)];
        let estimate = ratios.map(|ratios| Estimate {
            range: ratios.iter().map(|r| r.range).fold([1.0; 2], widest),
            interval: ratios.iter().try_fold([1.0; 2], |ends, r| Ok(widest(ends, r.interval?))),
        });
        let mut ranges: Vec<ConfidenceInterval> = cells.iter().filter_map(|c| Some(self.value(c)?.range)).collect();
        ranges.sort_by(|x, y| x[0].total_cmp(&y[0]));
        let ends = [ranges.first(), ranges.last()].map(|end| end.copied().map_or("no value".into(), words));
        Some(ClaimFigure::new(self.label(result, subject), estimate, ends.join(" to ")))
    }

    fn largest(&self, result: &ExperimentResult, subject: &str, cells: &[(&Cell, &FixedAxes)]) -> Option<ClaimFigure> {
        let values: Option<Vec<Estimate>> = cells.iter().map(|(cell, _)| self.value(cell)).collect();
        // The largest value lies between the largest lower end and the largest upper end.
        let larger = |[x, y]: ConfidenceInterval, [from, to]: ConfidenceInterval| [x.max(from), y.max(to)];
        let estimate = values.map(|values| Estimate {
            range: values.iter().map(|v| v.range).fold([f64::NEG_INFINITY; 2], larger),
            interval: values.iter().try_fold([f64::NEG_INFINITY; 2], |ends, v| Ok(larger(ends, v.interval?))),
        });
        let least = |cell: &Cell| self.value(cell).map_or(f64::NEG_INFINITY, |v| v.range[0]);
        let (_, place) = cells.iter().max_by(|x, y| least(x.0).total_cmp(&least(y.0)))?;
        let axes = result.axes.iter().filter(|axis| self.over.contains_key(&axis.name));
        let labels = axes.filter_map(|axis| axis.values.iter().find(|v| place.get(&axis.name) == Some(&v.value)));
        let labels: Vec<&str> = labels.map(|v| v.label.as_str()).collect();
        Some(ClaimFigure::new(self.label(result, subject), estimate, format!("at {}", labels.join(", "))))
    }

    /// Computes the statistic of a cell's replicas.
    fn value(&self, cell: &Cell) -> Option<Estimate> {
        if self.statistic == Statistic::Median {
            let values: Vec<ConfidenceInterval> = cell.by_replica().into_values().collect();
            return Estimate::from_median(&values, cell.deterministic);
        }
        let s = cell.summary()?;
        let interval =
            cell.interval.filter(|_| cell.quantile.is_none()).or(s.ci95.map(|half| [s.mean - half, s.mean + half]));
        Some(Estimate::from_means(s.mean, interval, cell, None))
    }

    fn difference(&self, a: &Cell, b: &Cell) -> Option<Estimate> {
        if self.statistic == Statistic::Median {
            return paired_estimate(a, b, |a, b| [a[0] - b[1], a[1] - b[0]]);
        }
        let d = a.difference(b, LEVEL)?;
        Some(Estimate { range: d.value, interval: d.interval.ok_or_else(|| reason_without_interval(a, Some(b))) })
    }

    /// `a / b`, infinite if only `b` is zero.
    fn ratio(&self, a: &Cell, b: &Cell) -> Option<Estimate> {
        if self.statistic == Statistic::Median {
            let least = |a: ConfidenceInterval, b: ConfidenceInterval| {
                if b[1].is_finite() { a[0] / b[1] } else { f64::NEG_INFINITY }
            };
            return paired_estimate(a, b, |a, b| [least(a, b), a[1] / b[0]]);
        }
        let pairs: Vec<(f64, f64)> = a.pairs(b).iter().map(|(a, b)| (a[0], b[0])).collect();
        let (r, interval) = ratio(&pairs);
        let interval = interval.filter(|_| a.has_spread(LEVEL) && b.has_spread(LEVEL));
        let exact = (a.deterministic && b.deterministic).then_some([r; 2]);
        (!r.is_nan()).then(|| Estimate::from_means(r, exact.or(interval), a, Some(b)))
    }

    /// Formats a cell for users: `NewReno 0.46`.
    fn describe_cell(&self, result: &ExperimentResult, cell: &Cell) -> String {
        format!("{} {}", self.label(result, cell.axes.get(&self.axis).unwrap_or_default()), self.shown(cell))
    }

    fn shown(&self, cell: &Cell) -> String {
        self.value(cell).map_or("no value".into(), |v| words(v.range))
    }

    fn label(&self, result: &ExperimentResult, value: &str) -> String {
        let axis = result.axes.iter().find(|a| a.name == self.axis);
        let known = axis.and_then(|a| a.values.iter().find(|v| v.value == value));
        known.map_or_else(|| value.to_owned(), |v| v.label.clone())
    }

    /// Returns the cells of a metric along the axis at a place that were run, with or without a value.
    fn all<'r>(&self, stack: &str, (r, metric): (&'r ExperimentResult, &str), place: &FixedAxes) -> Vec<&'r Cell> {
        let here = |c: &&Cell| {
            let value = c.axes.get(&self.axis);
            c.stack == stack
                && c.metric == metric
                && c.replicas > 0
                && place.iter().all(|(axis, value)| c.axes.get(axis) == Some(value.as_str()))
                && self.among.as_ref().is_none_or(|among| value.is_some_and(|v| among.iter().any(|name| name == v)))
        };
        r.cells.iter().filter(here).collect()
    }

    fn cell<'r>(
        &self,
        stack: &str,
        measured: (&'r ExperimentResult, &str),
        value: &str,
        place: &FixedAxes,
    ) -> Option<&'r Cell> {
        let all = self.all(stack, measured, place);
        all.into_iter().find(|c| c.axes.get(&self.axis).is_some_and(|v| v == value))
    }
}

/// Returns the ratio of two quotients of totals, `(a / of_a) / (b / of_b)`, and its interval by linearization of its
/// logarithm. If a total is zero the ratio is not known. None without a replica in which all four are known.
fn ratio_of_totals(cells: [&Cell; 4]) -> Option<Estimate> {
    if cells.iter().any(|cell| !cell.at_least.is_empty()) {
        return None;
    }
    let values = cells.map(Cell::by_replica);
    let everywhere = values[0].keys().filter(|n| values.iter().all(|cell| cell.contains_key(n)));
    let rows: Vec<[f64; 4]> = everywhere.map(|n| values.each_ref().map(|cell| cell[n][0])).collect();
    let means: [f64; 4] = std::array::from_fn(|i| rows.iter().map(|row| row[i]).sum::<f64>() / rows.len() as f64);
    if rows.is_empty() {
        return None;
    }
    if !means.iter().all(|mean| *mean > 0.0) {
        return Some(Estimate { range: [f64::NEG_INFINITY, f64::INFINITY], interval: Err(ZERO_TOTAL) });
    }
    let relative = |row: &[f64; 4]| (0..4).map(|i| [1.0, -1.0, -1.0, 1.0][i] * row[i] / means[i]).sum();
    let logarithm = interval(&rows.iter().map(relative).collect::<Vec<f64>>(), LEVEL);
    let r = means[0] / means[1] / (means[2] / means[3]);
    let exact = cells.iter().all(|cell| cell.deterministic).then_some([r; 2]);
    let ends = exact.or(logarithm.map(|ends| ends.map(|end| r * libm::exp(end))));
    Some(Estimate { range: [r; 2], interval: ends.ok_or_else(|| reason_without_interval(cells[0], Some(cells[2]))) })
}

/// Returns the median over the replicas in which both cells have a value; replicas share their seeds. A cell that is
/// not random has the same value in all replicas.
fn paired_estimate(
    a: &Cell,
    b: &Cell,
    of: impl Fn(ConfidenceInterval, ConfidenceInterval) -> ConfidenceInterval,
) -> Option<Estimate> {
    let pairs = a.pairs(b).into_iter().map(|(a, b)| of(a, b));
    let pairs: Vec<ConfidenceInterval> = pairs.filter(|ends| ends.iter().all(|end| !end.is_nan())).collect();
    Estimate::from_median(&pairs, a.deterministic && b.deterministic)
}

pub(super) fn words([from, to]: ConfidenceInterval) -> String {
    match (from.is_finite(), to.is_finite()) {
        (true, true) if from == to => short(from),
        (true, true) => format!("{} to {}", short(from), short(to)),
        (true, false) => format!("> {}", short(from)),
        (false, true) => format!("< {}", short(to)),
        (false, false) if from == to => "infinite".into(),
        (false, false) => "without a known bound".into(),
    }
}

/// Formats a number with three significant digits.
pub(super) fn short(x: f64) -> String {
    match x.abs() {
        a if a >= 1e6 => format!("{:.2} M", x / 1e6),
        a if a >= 100.0 || a == a.round() => format!("{x:.0}"),
        a if a >= 10.0 => format!("{x:.1}"),
        a if a >= 1.0 => format!("{x:.2}"),
        _ => format!("{x:.3}"),
    }
}

/// Formats both numbers with as many digits as needed to distinguish them.
pub(super) fn format_distinct(low: f64, high: f64) -> (String, String) {
    match (short(low), short(high)) {
        (a, b) if a == b && low < high => {
            let digits = (1.0 - libm::log10(high - low).floor()) as usize;
            (format!("{low:.digits$}"), format!("{high:.digits$}"))
        }
        words => words,
    }
}

const NO_VALUE: &str = "No run has a value";
const ONE_RUN: &str = "A single run of a random scenario has no interval";
const FEW_EQUAL: &str = "Fewer than six random runs with equal values have no interval";
const FEW_FOR_A_MEDIAN: &str = "The median of fewer than six random runs has no interval";
const ZERO_TOTAL: &str = "A total over all runs is zero";
const BY_ZERO: &str = "A ratio of random runs to a mean of zero has no interval";
