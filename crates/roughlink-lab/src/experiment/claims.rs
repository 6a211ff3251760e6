//! A paper's claims as data, and the verdicts on them. The comments on the fields are the reference of the format.
//!
//! A claim compares cells of one experiment. With lists of algorithms or of axis values it is a claim about each of
//! them: all must meet the criterion (or the given `share`), and the figure shown is the deciding one, which meets it
//! least. Each figure is judged by its 95 % confidence interval ([`Outcome`]); the intervals are not widened for
//! multiple comparisons.

use super::file::{fault, read};
use super::result::{Cell, ClaimResult, ExperimentResult, Origin, Outcome, Verdict};
use crate::error::LabError;
use crate::library::Source;
use crate::nearest;
use crate::statistics::{Interval, difference, difference_of_shares, median, ratio, summary};
use roughlink_core::scenario::Problem;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

/// `experiments/<paper>/claims.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The statistic of a cell's replicas.
    #[serde(default)]
    statistic: Statistic,
    claim: Vec<Claim>,
}

/// The statistic of a cell's replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Statistic {
    /// The mean; a ratio or difference is that of two means.
    #[default]
    Mean,
    /// The median; a ratio or difference is the median of those of the single replicas.
    Median,
}

/// `[[claim]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    /// A short name.
    id: String,
    /// What the paper says.
    text: String,
    /// Where: a section, figure or table of the paper.
    place: String,
    /// Whose claim it is; the paper's if absent.
    #[serde(default)]
    origin: Origin,
    /// The paper's figure.
    published: Option<f64>,
    /// The experiment whose cells are compared.
    experiment: Spanned<String>,
    /// The metric; the experiment's first if absent.
    metric: Option<String>,
    /// How they are compared.
    kind: Kind,
    /// The axis on which `a` and `b` are.
    #[serde(default = "cc")]
    axis: String,
    /// What the claim is about: a value of the axis or several.
    a: Spanned<OneOrMore>,
    /// What it is compared with.
    b: Option<String>,
    /// The experiment that measured `b`, if it is another; it must have the axes that `at` and `over` name.
    b_experiment: Option<String>,
    /// The metric of `b`, if it is another.
    b_metric: Option<String>,
    /// For `rank`: compared with these only.
    among: Option<Vec<String>>,
    /// Values of the other axes.
    #[serde(default)]
    at: BTreeMap<String, String>,
    /// Values of other axes, for each of which the claim is to hold; all values if the list is empty.
    #[serde(default)]
    over: BTreeMap<String, Vec<String>>,
    /// The criterion for being confirmed.
    confirmed: Criterion,
    /// Why it is not confirmed, by stack; shown only then. `{measured}` is replaced by the figure of the run, `{range}`
    /// by the smallest and the largest of several, `{published}` and `{criterion}` by what they are compared with.
    #[serde(default)]
    reason: BTreeMap<String, Spanned<String>>,
    /// Instead of the file's `statistic`.
    #[serde(skip)]
    statistic: Statistic,
}

pub(super) fn cc() -> String {
    "cc".into()
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// What is computed from the cells of `a` and `b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// a
    Value,
    /// a / b
    Ratio,
    /// (a / b - 1) in percent
    Gain,
    /// a / b - 1: how many times more
    More,
    /// a - b
    Difference,
    /// The place of a, 1 being the largest value.
    Rank,
    /// Largest over smallest a along the axes in `over`.
    Spread,
    /// The largest a along the axes in `over`.
    Largest,
}

/// The bounds between which a figure confirms the claim.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Criterion {
    /// At least this.
    min: Option<f64>,
    /// At most this.
    max: Option<f64>,
    /// More than this, where equality would refute the claim.
    above: Option<f64>,
    /// Less than this.
    below: Option<f64>,
    /// The published figure up to this share of it.
    within: Option<f64>,
    /// In at least this share of the combinations, where the paper says "virtually always"; in all if absent.
    share: Option<f64>,
}

impl Criterion {
    /// The smallest and the largest figure that meet it.
    fn bounds(self, published: Option<f64>) -> (f64, f64) {
        let share = self.within.zip(published).map(|(w, p)| (p - w * p.abs(), p + w * p.abs()));
        let (low, high) = share.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        let least = self.min.into_iter().chain(self.above.map(f64::next_up));
        let most = self.max.into_iter().chain(self.below.map(f64::next_down));
        (least.fold(low, f64::max), most.fold(high, f64::min))
    }

    fn words(self, published: Option<f64>) -> String {
        let share = self.share.map_or(String::new(), |s| format!(", in {:.0} % of the cases", 100.0 * s));
        let (low, high) = self.bounds(published);
        let words = match (self.within, self.min, self.max) {
            (Some(w), ..) => {
                let (low, high) = apart(low, high);
                format!("within {} % of the published figure: {low} to {high}", (w * 1e6).round() / 1e4)
            }
            (None, Some(a), Some(b)) => format!("from {} to {}", short(a), short(b)),
            _ => {
                let one = |word: &str, bound: Option<f64>| bound.map(|x| format!("{word} {}", short(x)));
                let low = one("at least", self.min).or(one("above", self.above));
                let high = one("at most", self.max).or(one("below", self.below));
                low.into_iter().chain(high).collect::<Vec<_>>().join(" and ")
            }
        };
        words + &share
    }
}

/// The figure of one combination.
struct Figure {
    at: String,
    value: f64,
    /// Its 95 % confidence interval, if there is one.
    interval: Option<Interval>,
    /// `value` is only a lower bound.
    lower_bound: bool,
    from: String,
}

impl Figure {
    /// Half the width of its interval, where it has two ends that differ.
    fn ci95(&self) -> Option<f64> {
        self.interval.map(|[from, to]| (to - from) / 2.0).filter(|c| *c > 0.0 && c.is_finite())
    }

    /// The figure without its unit, for people.
    fn words(&self) -> String {
        if self.lower_bound { format!("> {}", short(self.value)) } else { short(self.value) }
    }

    fn outcome(&self, (low, high): (f64, f64)) -> Outcome {
        match self.interval {
            Some([from, to]) if low <= from && to <= high => Outcome::Confirmed,
            Some([from, to]) if to < low || high < from => Outcome::NotConfirmed,
            _ => Outcome::Undecided,
        }
    }
}

/// Judges the claims in `source` by the results; claims whose experiment was not run are left out.
pub fn judge(source: &Source, paper: &str, results: &[ExperimentResult]) -> Result<Vec<ClaimResult>, LabError> {
    let file: File = read(source)?;
    let paper = paper.rsplit('/').next().unwrap_or(paper);
    let mut judged = Vec::new();
    for mut claim in file.claim {
        claim.statistic = file.statistic;
        let measured = |name: &str| results.iter().find(|r| r.experiment == format!("{paper}/{name}"));
        let Some(result) = measured(claim.experiment.get_ref()) else { continue };
        let Some(other) = measured(claim.b_experiment.as_ref().unwrap_or(claim.experiment.get_ref())) else { continue };
        claim.check(source, result, claim.metric.as_ref())?;
        claim.check(source, other, claim.b_metric.as_ref().or(claim.metric.as_ref()))?;
        judged.push(ClaimResult {
            claim: format!("{paper}/{}", claim.id),
            text: claim.text.clone(),
            place: claim.place.clone(),
            origin: claim.origin,
            published: claim.published,
            unit: claim.unit(result),
            criterion: claim.confirmed.words(claim.published),
            experiments: BTreeSet::from([&result.experiment, &other.experiment]).into_iter().cloned().collect(),
            verdicts: result.stacks.iter().map(|stack| claim.verdict(stack, [result, other])).collect(),
        });
    }
    Ok(judged)
}

/// How many claims of each origin are confirmed on `stack`, of those that were tested: "of the paper's 3 claims that were
/// tested 2 are confirmed (1 undecided), of 1 of ours 1". Empty if none was tested.
pub fn tally(claims: &[ClaimResult], stack: &str) -> String {
    let mut said = String::new();
    for origin in [Origin::Paper, Origin::Derived, Origin::Ours] {
        let own = claims.iter().filter(|c| c.origin == origin);
        let verdicts = own.filter_map(|c| Some(c.verdicts.iter().find(|v| v.stack == stack)?.verdict));
        let tested: Vec<Outcome> = verdicts.filter(|v| *v != Outcome::NotRun).collect();
        let count = |outcome: Outcome| tested.iter().filter(|v| **v == outcome).count();
        let whose = match (origin, tested.len()) {
            (_, 0) => continue,
            (Origin::Paper, n) => format!("the paper's {n} claims"),
            (Origin::Derived, n) => format!("{n} derived from it"),
            (Origin::Ours, n) => format!("{n} of ours"),
        };
        let confirmed = count(Outcome::Confirmed);
        said += &match said.as_str() {
            "" => format!("of {whose} that were tested {confirmed} are confirmed"),
            _ => format!(", of {whose} {confirmed}"),
        };
        match count(Outcome::Undecided) {
            0 => {}
            n => said += &format!(" ({n} undecided)"),
        }
    }
    said
}

/// Names of the experiments that a claims file refers to, to be checked against those that exist.
pub fn experiments_needed(source: &Source) -> Result<Vec<String>, LabError> {
    let file: File = read(source)?;
    Ok(file.claim.into_iter().flat_map(|c| [c.experiment.into_inner()].into_iter().chain(c.b_experiment)).collect())
}

impl Claim {
    fn check(&self, source: &Source, result: &ExperimentResult, metric: Option<&String>) -> Result<(), LabError> {
        let wrong = |message: String, help: String| {
            let problem = Problem::new(message).at(self.experiment.span(), "").help(help);
            Err(fault(source, vec![problem]))
        };
        let axes: Vec<&str> = result.axes.iter().map(|a| a.name.as_str()).collect();
        for name in self.at.keys().chain(self.over.keys()).chain([&self.axis]) {
            if !axes.contains(&name.as_str()) {
                let message = format!("claim `{}`: {} has no axis `{name}`", self.id, result.experiment);
                return wrong(message, nearest::suggest(name, "it has", axes));
            }
        }
        let metrics = result.metrics.iter().map(|m| m.name.as_str());
        if let Some(name) = metric.filter(|name| !metrics.clone().any(|m| m == name.as_str())) {
            let message = format!("claim `{}`: {} does not measure `{name}`", self.id, result.experiment);
            return wrong(message, nearest::suggest(name, "it measures", metrics));
        }
        if matches!(self.kind, Kind::Ratio | Kind::Gain | Kind::More | Kind::Difference) && self.b.is_none() {
            return wrong(format!("claim `{}` compares with nothing", self.id), "give `b`".into());
        }
        for reason in self.reason.values() {
            if let Some(word) = placeholders(reason.get_ref()).find(|word| !PLACEHOLDERS.contains(word)) {
                let message = format!("claim `{}`: `{{{word}}}` stands for nothing", self.id);
                let problem = Problem::new(message).at(reason.span(), "");
                let help = nearest::suggest(word, "between braces there can be", PLACEHOLDERS.iter().copied());
                return Err(fault(source, vec![problem.help(help)]));
            }
        }
        Ok(())
    }

    fn metric<'r>(&'r self, result: &'r ExperimentResult) -> &'r str {
        self.metric.as_deref().or(result.metrics.first().map(|m| m.name.as_str())).unwrap_or_default()
    }

    fn b_metric<'r>(&'r self, result: &'r ExperimentResult) -> &'r str {
        self.b_metric.as_deref().unwrap_or_else(|| self.metric(result))
    }

    fn unit(&self, result: &ExperimentResult) -> String {
        let own = result.metrics.iter().find(|m| m.name == self.metric(result)).map(|m| m.unit.clone());
        match self.kind {
            Kind::Gain => "%".into(),
            Kind::More => "times more".into(),
            Kind::Ratio | Kind::Spread => "times".into(),
            Kind::Rank => "(rank)".into(),
            Kind::Value | Kind::Difference | Kind::Largest => own.unwrap_or_default(),
        }
    }

    fn subjects(&self) -> Vec<&str> {
        match self.a.get_ref() {
            OneOrMore::One(a) => vec![a],
            OneOrMore::More(all) => all.iter().map(String::as_str).collect(),
        }
    }

    /// The verdict from the results of the experiments of `a` and `b`.
    fn verdict(&self, stack: &str, results: [&ExperimentResult; 2]) -> Verdict {
        let figures = self.figures(stack, results);
        let bounds = self.confirmed.bounds(self.published);
        // Distance from the nearest bound: of the figures with the same outcome, the one with the smallest is shown.
        let margin = |f: &Figure| (f.value - bounds.0).min(bounds.1 - f.value);
        let mut order: Vec<&Figure> = figures.iter().collect();
        order.sort_by(|a, b| a.outcome(bounds).cmp(&b.outcome(bounds)).then(margin(a).total_cmp(&margin(b))));
        // So many figures may miss the criterion; the next one decides.
        let allowed = figures.len() as f64 * (1.0 - self.confirmed.share.unwrap_or(1.0)) + 1e-9;
        let Some(deciding) = order.get(allowed as usize).copied() else {
            return Verdict { stack: stack.into(), ..Verdict::default() };
        };
        let mut evidence: Vec<&Figure> = figures.iter().collect();
        evidence.sort_by_key(|f| !std::ptr::eq(*f, deciding)); // the figure that decides comes first
        let words = |f: &Figure| match (figures.len() > 1, f.from.as_str()) {
            (false, from) => from.to_owned(),
            (true, "") => format!("{}: {}", f.at, f.words()),
            (true, from) => format!("{}: {} ({from})", f.at, f.words()),
        };
        let verdict = deciding.outcome(bounds);
        Verdict {
            stack: stack.into(),
            verdict,
            measured: Some(deciding.value),
            lower_bound: deciding.lower_bound,
            ci95: deciding.ci95().filter(|_| self.kind != Kind::Rank),
            evidence: evidence.iter().map(|f| words(f)).collect::<Vec<_>>().join("; "),
            reason: match verdict {
                Outcome::NotConfirmed => self.why_missed(stack, results[0], deciding, &figures),
                Outcome::Undecided => self.why_undecided(results[0], deciding),
                Outcome::Confirmed | Outcome::NotRun => String::new(),
            },
        }
    }

    /// The written reason with the figures of this run.
    fn why_missed(&self, stack: &str, result: &ExperimentResult, deciding: &Figure, all: &[Figure]) -> String {
        let Some(reason) = self.reason.get(stack).map(Spanned::get_ref) else { return String::new() };
        let unit = self.unit(result);
        let with_unit = |text: String| format!("{text} {unit}").trim_end().to_owned();
        let half = deciding.ci95().filter(|_| self.kind != Kind::Rank);
        let measured = with_unit(deciding.words() + &half.map_or(String::new(), |c| format!(" ± {}", short(c))));
        let low = all.iter().map(|f| f.value).fold(f64::INFINITY, f64::min);
        let high = all.iter().map(|f| f.value).fold(f64::NEG_INFINITY, f64::max);
        let range = if low == high { short(low) } else { format!("{} to {}", short(low), short(high)) };
        let criterion = self.confirmed.words(self.published);
        let published = self.published.map(|p| with_unit(short(p))).unwrap_or_default();
        let figures = [&measured, &with_unit(range), &published, &criterion];
        let filled = PLACEHOLDERS
            .iter()
            .zip(figures)
            .fold(reason.clone(), |text, (word, figure)| text.replace(&format!("{{{word}}}"), figure));
        if filled == *reason { format!("{measured}, and not {criterion}. {reason}") } else { filled }
    }

    fn why_undecided(&self, result: &ExperimentResult, deciding: &Figure) -> String {
        match (deciding.interval, self.statistic) {
            (Some([from, to]), _) => {
                let interval = match (from.is_finite(), to.is_finite()) {
                    (true, true) => format!("{} to {}", short(from), short(to)),
                    (true, false) => format!("{} and more", short(from)),
                    (false, true) => format!("{} and less", short(to)),
                    (false, false) => "which is open".into(),
                };
                let (unit, criterion) = (self.unit(result), self.confirmed.words(self.published));
                format!(
                    "The 95 % interval, {}, has a bound inside ({criterion})",
                    format!("{interval} {unit}").trim_end()
                )
            }
            (None, Statistic::Mean) => "A single run of a random scenario has no interval".into(),
            (None, Statistic::Median) => "The median of fewer than six random runs has no interval".into(),
        }
    }

    /// The figures of all combinations that were run.
    fn figures(&self, stack: &str, [result, other]: [&ExperimentResult; 2]) -> Vec<Figure> {
        let mut places = vec![self.at.clone()];
        for (axis, values) in &self.over {
            let known = result.axes.iter().find(|a| a.name == *axis).map(|a| a.values.as_slice()).unwrap_or_default();
            let wanted = known.iter().filter(|v| values.is_empty() || values.contains(&v.value));
            let wanted: Vec<&str> = wanted.map(|v| v.value.as_str()).collect();
            let with = |place: &BTreeMap<String, String>, value: &str| {
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
            if self.kind == Kind::Spread {
                figures.extend(self.spread(stack, result, subject, &places));
                continue;
            }
            if self.kind == Kind::Largest {
                figures.extend(self.largest(stack, result, subject, &places));
                continue;
            }
            for place in &places {
                let over: Vec<&str> = self.over.keys().filter_map(|axis| place.get(axis)).map(String::as_str).collect();
                let at =
                    named.then(|| self.label(result, subject)).into_iter().chain(over.iter().map(|o| (*o).to_owned()));
                let at = at.collect::<Vec<_>>().join(", ");
                if let Some(figure) = self.figure(stack, [result, other], subject, place, at) {
                    figures.push(figure);
                }
            }
        }
        figures
    }

    fn figure(
        &self,
        stack: &str,
        [result, other]: [&ExperimentResult; 2],
        subject: &str,
        place: &BTreeMap<String, String>,
        at: String,
    ) -> Option<Figure> {
        let a = self.cell(stack, (result, self.metric(result)), subject, place)?;
        if self.kind == Kind::Rank {
            let cells: Vec<&Cell> = self.all(stack, (result, self.metric(result)), place);
            let narrowed = result.axes.iter().any(|axis| axis.name == self.axis && axis.narrowed);
            if self.among.as_ref().map_or(narrowed, |among| cells.len() < among.len()) {
                return None; // a rank among only some of them is meaningless
            }
            return Some(self.place(result, a, cells, at));
        }
        let (value, interval) = self.value(a)?;
        let lower_bound = !a.at_least.is_empty();
        let Some(b) = self.b.as_ref() else {
            let from = self.said(result, a);
            return Some(Figure { at, value, interval, lower_bound, from });
        };
        let b = self.cell(stack, (other, self.b_metric(other)), b, place)?;
        let from = format!("{}, {}", self.said(result, a), self.said(result, b));
        let (value, interval) = match self.kind {
            Kind::Difference => self.difference(a, b)?,
            _ => self.ratio(a, b)?,
        };
        let scaled = |x: f64| match self.kind {
            Kind::Gain => 100.0 * (x - 1.0),
            Kind::More => x - 1.0,
            _ => x,
        };
        Some(Figure { at, value: scaled(value), interval: interval.map(|ends| ends.map(scaled)), lower_bound, from })
    }

    /// The rank of `a` among all cells, from the best to the worst that the intervals of the differences allow.
    fn place(&self, result: &ExperimentResult, a: &Cell, mut all: Vec<&Cell>, at: String) -> Figure {
        let value = |c: &Cell| self.value(c).map_or(f64::NAN, |v| v.0);
        let better = all.iter().filter(|c| value(c) > value(a)).count();
        // The lead of the others; unknown where there is no interval.
        let unknown = [f64::NEG_INFINITY, f64::INFINITY];
        let ahead = |c: &&&Cell| self.difference(c, a).and_then(|(_, interval)| interval).unwrap_or(unknown);
        let others: Vec<Interval> = all.iter().filter(|c| !std::ptr::eq(**c, a)).map(|c| ahead(&c)).collect();
        let surely = others.iter().filter(|[from, _]| *from > 0.0).count();
        let perhaps = others.iter().filter(|[_, to]| *to > 0.0).count();
        all.sort_by(|x, y| value(y).partial_cmp(&value(x)).unwrap_or(std::cmp::Ordering::Equal));
        let shown: Vec<String> = all.iter().take(3).map(|c| self.said(result, c)).collect();
        let place = |better: usize| better as f64 + 1.0;
        let interval = Some([place(surely), place(perhaps)]);
        Figure { at, value: place(better), interval, lower_bound: false, from: shown.join(", ") }
    }

    fn spread(
        &self,
        stack: &str,
        result: &ExperimentResult,
        subject: &str,
        places: &[BTreeMap<String, String>],
    ) -> Option<Figure> {
        let measured = (result, self.metric(result));
        let cells: Vec<&Cell> = places.iter().filter_map(|p| self.cell(stack, measured, subject, p)).collect();
        let values: Vec<f64> = cells.iter().filter_map(|c| Some(self.value(c)?.0)).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Two of them certainly differ by the lower end; no two can differ by more than the upper end.
        let pairs = cells.iter().flat_map(|a| cells.iter().map(move |b| (a, b))).filter(|(a, b)| !std::ptr::eq(*a, *b));
        let ratios: Option<Vec<Interval>> = pairs.map(|(a, b)| self.ratio(a, b)?.1).collect();
        let interval = ratios.map(|r| r.iter().fold([1.0_f64; 2], |[x, y], [from, to]| [x.max(*from), y.max(*to)]));
        (values.len() > 1 && low > 0.0).then(|| Figure {
            at: self.label(result, subject),
            value: high / low,
            interval,
            lower_bound: false,
            from: format!("{} to {}", short(low), short(high)),
        })
    }

    fn largest(
        &self,
        stack: &str,
        result: &ExperimentResult,
        subject: &str,
        places: &[BTreeMap<String, String>],
    ) -> Option<Figure> {
        let measured = (result, self.metric(result));
        let cell = |place| self.cell(stack, measured, subject, place).and_then(|c| Some((c, self.value(c)?, place)));
        let all: Vec<_> = places.iter().filter_map(cell).collect();
        let (cell, (value, _), place) = all.iter().max_by(|x, y| x.1.0.total_cmp(&y.1.0))?;
        // It is at least what one of them surely is, and at most what one of them can be.
        let intervals: Option<Vec<Interval>> = all.iter().map(|(_, (_, interval), _)| *interval).collect();
        let ends = |[x, y]: Interval, [from, to]: &Interval| [x.max(*from), y.max(*to)];
        let axes = result.axes.iter().filter(|axis| self.over.contains_key(&axis.name));
        let labels = axes.filter_map(|axis| axis.values.iter().find(|v| place.get(&axis.name) == Some(&v.value)));
        let labels: Vec<&str> = labels.map(|v| v.label.as_str()).collect();
        Some(Figure {
            at: self.label(result, subject),
            value: *value,
            interval: intervals.map(|all| all.iter().fold([f64::NEG_INFINITY; 2], ends)),
            lower_bound: !cell.at_least.is_empty(),
            from: format!("at {}", labels.join(", ")),
        })
    }

    /// The statistic of a cell's replicas, and its interval.
    fn value(&self, cell: &Cell) -> Option<Estimate> {
        let known = cell.known();
        let estimate = match (self.statistic, cell.interval) {
            (Statistic::Mean, Some(interval)) => (cell.measured?, Some(interval)),
            (Statistic::Mean, None) => summary(&known).map(|s| around((s.mean, s.ci95)))?,
            (Statistic::Median, _) => median(&known)?,
        };
        Some(open(exact_if(cell.deterministic, estimate), cell, None))
    }

    /// `a - b`
    fn difference(&self, a: &Cell, b: &Cell) -> Option<Estimate> {
        let estimate = match (self.statistic, a.interval.zip(b.interval)) {
            (Statistic::Mean, Some((at_a, at_b))) => {
                let (d, interval) = difference_of_shares((b.measured?, at_b), (a.measured?, at_a));
                (d, Some(interval))
            }
            (Statistic::Mean, None) => around(difference(&b.known(), &a.known())?),
            (Statistic::Median, _) => median(&paired(a, b, |a, b| a - b))?,
        };
        Some(open(exact_if(a.deterministic && b.deterministic, estimate), a, Some(b)))
    }

    /// `a / b`
    fn ratio(&self, a: &Cell, b: &Cell) -> Option<Estimate> {
        let estimate = match self.statistic {
            Statistic::Mean => around(ratio(&a.known(), &b.known())?),
            Statistic::Median => median(&paired(a, b, |a, b| a / b))?,
        };
        Some(open(exact_if(a.deterministic && b.deterministic, estimate), a, Some(b)))
    }

    /// A cell for people: `NewReno 0.46`.
    fn said(&self, result: &ExperimentResult, cell: &Cell) -> String {
        let value = self.value(cell).map_or(f64::NAN, |v| v.0);
        let longer = if cell.at_least.is_empty() { "" } else { "> " };
        format!("{} {longer}{}", self.label(result, &cell.axes[&self.axis]), short(value))
    }

    fn label(&self, result: &ExperimentResult, value: &str) -> String {
        let axis = result.axes.iter().find(|a| a.name == self.axis);
        let known = axis.and_then(|a| a.values.iter().find(|v| v.value == value));
        known.map_or_else(|| value.to_owned(), |v| v.label.clone())
    }

    /// The cells of a metric along the axis at a place, measured ones only.
    fn all<'r>(
        &self,
        stack: &str,
        (r, metric): (&'r ExperimentResult, &str),
        place: &BTreeMap<String, String>,
    ) -> Vec<&'r Cell> {
        let here = |c: &&Cell| {
            let value = c.axes.get(&self.axis);
            c.stack == stack
                && c.metric == metric
                && (c.measured.is_some() || !c.at_least.is_empty())
                && place.iter().all(|(axis, value)| c.axes.get(axis) == Some(value))
                && self.among.as_ref().is_none_or(|among| value.is_some_and(|v| among.contains(v)))
        };
        r.cells.iter().filter(here).collect()
    }

    fn cell<'r>(
        &self,
        stack: &str,
        measured: (&'r ExperimentResult, &str),
        value: &str,
        place: &BTreeMap<String, String>,
    ) -> Option<&'r Cell> {
        let all = self.all(stack, measured, place);
        all.into_iter().find(|c| c.axes.get(&self.axis).is_some_and(|v| v == value))
    }
}

/// The placeholders of written reasons.
const PLACEHOLDERS: [&str; 4] = ["measured", "range", "published", "criterion"];

/// The single words between braces.
fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    words.filter(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
}

/// A figure and its 95 % confidence interval, if there is one.
type Estimate = (f64, Option<Interval>);

/// From a half width.
fn around((value, half): (f64, Option<f64>)) -> Estimate {
    (value, half.map(|h| [value - h, value + h]))
}

/// A value without any randomness is exact, however few the runs.
fn exact_if(deterministic: bool, (value, interval): Estimate) -> Estimate {
    (value, if deterministic { Some([value, value]) } else { interval })
}

/// A lower bound leaves the interval open above; subtracted or as a divisor, below.
fn open((value, interval): Estimate, a: &Cell, b: Option<&Cell>) -> Estimate {
    let interval = interval.map(|[from, to]| {
        let from = if b.is_some_and(|b| !b.at_least.is_empty()) { f64::NEG_INFINITY } else { from };
        [from, if a.at_least.is_empty() { to } else { f64::INFINITY }]
    });
    (value, interval)
}

/// Replica by replica, because replicas share their seeds.
fn paired(a: &Cell, b: &Cell, of: fn(f64, f64) -> f64) -> Vec<f64> {
    let all = |c: &Cell| c.at_least.is_empty();
    let pairs = a.samples.iter().zip(&b.samples).filter(|_| a.samples.len() == b.samples.len() && all(a) && all(b));
    pairs.map(|(a, b)| of(*a, *b)).collect()
}

/// Three significant digits.
fn short(x: f64) -> String {
    match x.abs() {
        a if a >= 1e6 => format!("{:.2} M", x / 1e6),
        a if a >= 100.0 || a == a.round() => format!("{x:.0}"),
        a if a >= 10.0 => format!("{x:.1}"),
        a if a >= 1.0 => format!("{x:.2}"),
        _ => format!("{x:.3}"),
    }
}

/// Both with as many digits as it takes to tell them apart.
fn apart(low: f64, high: f64) -> (String, String) {
    match (short(low), short(high)) {
        (a, b) if a == b && low < high => {
            let digits = (1.0 - (high - low).log10().floor()) as usize;
            (format!("{low:.digits$}"), format!("{high:.digits$}"))
        }
        words => words,
    }
}
