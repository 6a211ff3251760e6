//! A paper's claims as data, and what becomes of them. The comments on the fields are the format's reference.
//!
//! A claim compares cells of one experiment. With lists of algorithms or of axis values it is a claim about each of
//! them: all must meet the criterion (unless it says which `share`), and the figure shown is the one that decides: the one
//! that meets it least.

use super::file::{fault, read};
use super::result::{Cell, ClaimResult, ExperimentResult, Origin, Verdict};
use crate::error::LabError;
use crate::library::Source;
use crate::nearest;
use crate::statistics::{difference, median, ratio};
use roughlink_core::scenario::Problem;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

/// `experiments/<paper>/claims.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// What stands for the replicas of a cell.
    #[serde(default)]
    statistic: Statistic,
    claim: Vec<Claim>,
}

/// What stands for the replicas of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Statistic {
    /// Their mean; a ratio is that of two means, a difference as well.
    #[default]
    Mean,
    /// Their median; a ratio is the median of the ratios replica by replica, a difference as well.
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
    /// Where: a section, figure or table that the paper has.
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
    /// The experiment that measured `b`, if it is another; it has the same axes as far as `at` and `over` name them.
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
    /// When it counts as confirmed.
    confirmed: Criterion,
    /// Why it comes out as it does, by stack.
    #[serde(default)]
    reason: BTreeMap<String, String>,
    /// That of the file.
    #[serde(skip)]
    statistic: Statistic,
}

fn cc() -> String {
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
}

/// The bounds between which a figure confirms the claim.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Criterion {
    /// At least this.
    min: Option<f64>,
    /// At most this.
    max: Option<f64>,
    /// The published figure up to this share of it.
    within: Option<f64>,
    /// In at least this share of the combinations, where the paper says "virtually always"; in all if absent.
    share: Option<f64>,
}

impl Criterion {
    fn bounds(self, published: Option<f64>) -> (f64, f64) {
        let share = self.within.zip(published).map(|(w, p)| (p - w * p.abs(), p + w * p.abs()));
        let (low, high) = share.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        (low.max(self.min.unwrap_or(f64::NEG_INFINITY)), high.min(self.max.unwrap_or(f64::INFINITY)))
    }

    fn words(self, published: Option<f64>) -> String {
        let share = self.share.map_or(String::new(), |s| format!(", in {:.0} % of the cases", 100.0 * s));
        let words = match (self.within, self.min, self.max) {
            (Some(w), ..) => {
                let (low, high) = self.bounds(published);
                format!("within {:.0} % of the published figure: {} to {}", w * 100.0, short(low), short(high))
            }
            (None, Some(a), Some(b)) => format!("from {} to {}", short(a), short(b)),
            (None, Some(a), None) => format!("at least {}", short(a)),
            (None, None, Some(b)) => format!("at most {}", short(b)),
            (None, None, None) => String::new(),
        };
        words + &share
    }
}

/// The figure of one combination.
struct Figure {
    at: String,
    value: f64,
    ci95: Option<f64>,
    from: String,
}

/// Judges the claims in `source` by what was run; claims whose experiment was not are left out.
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
/// tested 2 are confirmed, of 1 of ours 1". Empty if none was tested.
pub fn tally(claims: &[ClaimResult], stack: &str) -> String {
    let of = |origin: Origin| {
        let own = claims.iter().filter(|c| c.origin == origin);
        let tested: Vec<bool> = own.filter_map(|c| c.verdicts.iter().find(|v| v.stack == stack)?.confirmed).collect();
        (tested.len(), tested.iter().filter(|yes| **yes).count())
    };
    let counts = [Origin::Paper, Origin::Derived, Origin::Ours].map(|origin| (origin, of(origin)));
    let mut said = String::new();
    for (origin, (tested, confirmed)) in counts.into_iter().filter(|(_, (tested, _))| *tested > 0) {
        let whose = match origin {
            Origin::Paper => format!("the paper's {tested} claims"),
            Origin::Derived => format!("{tested} derived from it"),
            Origin::Ours => format!("{tested} of ours"),
        };
        said += &match said.as_str() {
            "" => format!("of {whose} that were tested {confirmed} are confirmed"),
            _ => format!(", of {whose} {confirmed}"),
        };
    }
    said
}

/// Names of the experiments that a claims file rests on, to be checked against those that there are.
pub fn rests_on(source: &Source) -> Result<Vec<String>, LabError> {
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
            Kind::Value | Kind::Difference => own.unwrap_or_default(),
        }
    }

    fn subjects(&self) -> Vec<&str> {
        match self.a.get_ref() {
            OneOrMore::One(a) => vec![a],
            OneOrMore::More(all) => all.iter().map(String::as_str).collect(),
        }
    }

    /// Judged by what the experiment of `a` and that of `b` measured.
    fn verdict(&self, stack: &str, results: [&ExperimentResult; 2]) -> Verdict {
        let figures = self.figures(stack, results);
        let (low, high) = self.confirmed.bounds(self.published);
        // How far inside of the bounds; the least is the figure to show.
        let margin = |f: &Figure| (f.value - low).min(high - f.value);
        let mut order: Vec<&Figure> = figures.iter().collect();
        order.sort_by(|a, b| margin(a).total_cmp(&margin(b)));
        let allowed = figures.len() as f64 * (1.0 - self.confirmed.share.unwrap_or(1.0)) + 1e-9;
        let worst = order.get(allowed as usize).copied();
        let several = figures.len() > 1;
        let deciding = |f: &Figure| worst.is_some_and(|w| std::ptr::eq(w, f));
        let mut evidence: Vec<&Figure> = figures.iter().collect();
        evidence.sort_by_key(|f| !deciding(f)); // the figure that decides comes first
        let words = |f: &Figure| match (several, f.from.as_str()) {
            (false, from) => from.to_owned(),
            (true, "") => format!("{}: {}", f.at, short(f.value)),
            (true, from) => format!("{}: {} ({from})", f.at, short(f.value)),
        };
        Verdict {
            stack: stack.into(),
            confirmed: worst.map(|f| margin(f) >= 0.0),
            measured: worst.map(|f| f.value),
            ci95: worst.and_then(|f| f.ci95),
            evidence: evidence.iter().map(|f| words(f)).collect::<Vec<_>>().join("; "),
            reason: self.reason.get(stack).cloned().unwrap_or_default(),
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
        let name = |cell: &Cell| self.label(result, &cell.axes[&self.axis]);
        if self.kind == Kind::Rank {
            let others: Vec<&Cell> = self.all(stack, (result, self.metric(result)), place);
            let narrowed = result.axes.iter().any(|axis| axis.name == self.axis && axis.narrowed);
            if self.among.as_ref().map_or(narrowed, |among| others.len() < among.len()) {
                return None; // a place among some of them says nothing
            }
            let value = |c: &Cell| self.value(c).map_or(f64::NAN, |v| v.0);
            let better = others.iter().filter(|c| value(c) > value(a)).count();
            let mut order: Vec<&Cell> = others;
            order.sort_by(|x, y| value(y).partial_cmp(&value(x)).unwrap_or(std::cmp::Ordering::Equal));
            let shown = order.iter().take(3).map(|c| format!("{} {}", name(c), short(value(c))));
            let from = shown.collect::<Vec<_>>().join(", ");
            return Some(Figure { at, value: better as f64 + 1.0, ci95: None, from });
        }
        let (value, ci95) = self.value(a)?;
        let Some(b) = self.b.as_ref() else {
            let from = format!("{} {}", name(a), short(value));
            return Some(Figure { at, value, ci95, from });
        };
        let b = self.cell(stack, (other, self.b_metric(other)), b, place)?;
        let from = format!("{} {}, {} {}", name(a), short(value), name(b), short(self.value(b)?.0));
        let paired = || a.samples.iter().zip(&b.samples).filter(|_| a.samples.len() == b.samples.len());
        let (value, ci95) = match (self.kind, self.statistic) {
            (Kind::Difference, Statistic::Mean) => difference(&b.samples, &a.samples)?,
            (Kind::Difference, Statistic::Median) => median(&paired().map(|(a, b)| a - b).collect::<Vec<_>>())?,
            (_, Statistic::Mean) => ratio(&a.samples, &b.samples)?,
            (_, Statistic::Median) => median(&paired().map(|(a, b)| a / b).collect::<Vec<_>>())?,
        };
        let (value, ci95) = match self.kind {
            Kind::Gain => (100.0 * (value - 1.0), ci95.map(|c| 100.0 * c)),
            Kind::More => (value - 1.0, ci95),
            _ => (value, ci95),
        };
        Some(Figure { at, value, ci95, from })
    }

    fn spread(
        &self,
        stack: &str,
        result: &ExperimentResult,
        subject: &str,
        places: &[BTreeMap<String, String>],
    ) -> Option<Figure> {
        let measured = (result, self.metric(result));
        let values: Vec<f64> =
            places.iter().filter_map(|p| Some(self.value(self.cell(stack, measured, subject, p)?)?.0)).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (values.len() > 1 && low > 0.0).then(|| Figure {
            at: self.label(result, subject),
            value: high / low,
            ci95: None,
            from: format!("{} to {}", short(low), short(high)),
        })
    }

    /// What stands for the replicas of a cell, and its interval.
    fn value(&self, cell: &Cell) -> Option<(f64, Option<f64>)> {
        match self.statistic {
            Statistic::Mean => Some((cell.measured?, cell.ci95)),
            Statistic::Median => median(&cell.samples),
        }
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
                && c.measured.is_some()
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
