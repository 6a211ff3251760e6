//! A paper's claims as data, and the verdicts on them. The comments on the fields are the reference of the format.
//!
//! A claim compares cells of one experiment. With lists of algorithms or of axis values it applies to each of them: all
//! figures, or the given `share` of them, must meet the criterion. Among the required figures, the least favorable one
//! decides and is displayed. Each figure is judged by its 95 % confidence interval ([`ClaimOutcome`]); the intervals
//! are not widened for multiple comparisons.

mod figures;

use super::KERNEL;
use super::file::{fault, read};
use super::result::{ClaimOutcome, ClaimResult, ExperimentResult, Origin, Verdict};
use crate::error::LabError;
use crate::library::ScenarioText;
use crate::nearest;
use figures::{ClaimFigure, format_distinct, short, words};
use roughlink_scenario::Problem;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

/// `experiments/<paper>/claims.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimsFile {
    /// The statistic of a cell's replicas.
    #[serde(default)]
    statistic: Statistic,
    claim: Vec<Claim>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Statistic {
    /// The mean; ratios and differences are computed from two means.
    #[default]
    Mean,
    /// The median; ratios and differences are computed in each replica, and their median is used.
    Median,
}

/// `[[claim]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    /// A short name.
    id: String,
    /// The statement of the paper.
    text: String,
    /// Place in the paper: a section, figure or table.
    place: String,
    /// Origin of the claim; the paper if absent.
    #[serde(default)]
    origin: Origin,
    /// The paper's figure.
    published: Option<f64>,
    /// The experiment whose cells are compared.
    experiment: Spanned<String>,
    /// The metric; the experiment's first if absent.
    metric: Option<String>,
    /// How `a` and `b` are compared.
    kind: ComparisonKind,
    /// The axis of `a` and `b`.
    #[serde(default = "cc")]
    axis: String,
    /// Subject of the claim: one or several values of the axis.
    a: Spanned<OneOrMore>,
    /// The value with which `a` is compared.
    b: Option<String>,
    /// The experiment that measured `b`, if different; it must have the axes in `at` and `over`.
    b_experiment: Option<String>,
    /// The metric of `b`, if different.
    b_metric: Option<String>,
    /// For `ratio`: the metric that divides both. Each quotient is one of totals over all replicas, so replicas
    /// without events count, too.
    per: Option<String>,
    /// For `rank`: compare only with these values.
    among: Option<Vec<String>>,
    /// For `rank`: values that differ by at most this share of `a` are equal, and the rank is a range.
    margin: Option<f64>,
    /// Values of the other axes.
    #[serde(default)]
    at: BTreeMap<String, String>,
    /// Values of other axes for each of which the claim must hold; all values if the list is empty.
    #[serde(default)]
    over: BTreeMap<String, Vec<String>>,
    /// The axis in `over` along which the `share` of `confirmed` counts: the claim must hold for each value of the
    /// other axes. All combinations count alike if absent.
    share_over: Option<String>,
    /// The criterion for a confirmed claim.
    confirmed: Spanned<Criterion>,
    /// Reason why the claim is not confirmed, by stack; only shown then. Placeholders: `{measured}`, the figure of the
    /// run; `{range}`, the smallest and largest of several figures; `{published}` and `{criterion}`, as in the claim.
    #[serde(default)]
    reason: BTreeMap<String, Spanned<String>>,
    /// Overrides the file's `statistic`.
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

/// Figure computed from the cells of `a` and `b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ComparisonKind {
    /// a
    Value,
    /// a / b
    Ratio,
    /// (a / b - 1) in percent
    Gain,
    /// a / b - 1, as a multiple
    More,
    /// a - b
    Difference,
    /// Rank of a; 1 is the largest value.
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
    /// Within this share of the published figure.
    within: Option<f64>,
    /// Required share of the combinations, where the paper says "virtually always"; all if absent.
    share: Option<f64>,
}

impl Criterion {
    /// Returns the smallest and the largest figure that meet the criterion.
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
                let (low, high) = format_distinct(low, high);
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

    /// Returns message and help if no figure, or every figure, would meet the criterion.
    fn fault(self, published: Option<f64>) -> Option<(&'static str, &'static str)> {
        let given = [self.min, self.max, self.above, self.below, self.within, self.share];
        let (low, high) = self.bounds(published);
        let both = |bounds: [Option<f64>; 3]| bounds.into_iter().flatten().count() > 1;
        if given.into_iter().flatten().any(|x| !x.is_finite()) {
            Some(("`confirmed` has a bound that is not finite", "leave out the bound"))
        } else if self.within.is_some() && published.is_none() {
            Some(("`within` needs a published figure", "give `published`, or `min` and `max`"))
        } else if both([self.min, self.above, self.within]) || both([self.max, self.below, self.within]) {
            Some(("`confirmed` has two bounds on the same side", "leave out one of them"))
        } else if low == f64::NEG_INFINITY && high == f64::INFINITY {
            Some(("`confirmed` has no bound: any figure meets it", "give `min`, `max`, `above`, `below` or `within`"))
        } else if low > high {
            Some(("no figure meets `confirmed`", "set the lower bound below the upper one"))
        } else if self.share.is_some_and(|share| share <= 0.0 || share > 1.0) {
            Some((
                "`share` must be above 0 and at most 1",
                "write the share of combinations that must confirm the claim",
            ))
        } else {
            None
        }
    }
}

/// Judges the claims in `source` by the results; claims whose experiment was not run are left out.
pub fn judge(source: &ScenarioText, paper: &str, results: &[ExperimentResult]) -> Result<Vec<ClaimResult>, LabError> {
    let file = ClaimsFile::parse(source)?;
    let paper = paper.rsplit('/').next().unwrap_or(paper);
    let mut judged = Vec::new();
    for mut claim in file.claim {
        claim.statistic = file.statistic;
        let measured = |name: &str| results.iter().find(|r| r.experiment == format!("{paper}/{name}"));
        let Some(result) = measured(claim.experiment.get_ref()) else { continue };
        let Some(other) = measured(claim.b_experiment.as_ref().unwrap_or(claim.experiment.get_ref())) else { continue };
        claim.check(source, result, claim.metric.as_ref())?;
        claim.check(source, other, claim.b_metric.as_ref().or(claim.metric.as_ref()))?;
        claim.check(source, result, claim.per.as_ref())?;
        claim.check(source, other, claim.per.as_ref())?;
        judged.push(ClaimResult {
            claim: format!("{paper}/{}", claim.id),
            text: claim.text.clone(),
            place: claim.place.clone(),
            origin: claim.origin,
            published: claim.published,
            unit: claim.unit(result),
            criterion: claim.confirmed.get_ref().words(claim.published),
            experiments: BTreeSet::from([&result.experiment, &other.experiment]).into_iter().cloned().collect(),
            verdicts: result.stacks.iter().map(|stack| claim.verdict(stack, [result, other])).collect(),
        });
    }
    Ok(judged)
}

impl ClaimsFile {
    fn parse(source: &ScenarioText) -> Result<ClaimsFile, LabError> {
        let file: ClaimsFile = read(source)?;
        let mut problems: Vec<Problem> = file.claim.iter().flat_map(Claim::problems).collect();
        for claim in file.claim.iter().filter(|claim| claim.per.is_some() && file.statistic == Statistic::Median) {
            let problem = Problem::new(format!("claim `{}`: `per` has no median", claim.id));
            problems.push(problem.at(claim.experiment.span(), "").help("leave out `per`, or `statistic`"));
        }
        if problems.is_empty() { Ok(file) } else { Err(fault(source, problems)) }
    }
}

/// Counts the confirmed claims among those tested on `stack`, by origin: "2 of the paper's 3 tested claims are
/// confirmed (1 undecided), 1 of 1 of ours". Claims that hold by
/// construction do not count. Empty if none was tested.
pub fn tally(claims: &[ClaimResult], stack: &str) -> String {
    let mut said = String::new();
    for origin in [Origin::Paper, Origin::Derived, Origin::Ours] {
        let own = claims.iter().filter(|c| c.origin == origin);
        let verdicts = own.filter_map(|c| Some(c.verdicts.iter().find(|v| v.stack == stack)?.verdict));
        let tested: Vec<ClaimOutcome> = verdicts.filter(|v| *v != ClaimOutcome::NotRun).collect();
        let count = |outcome: ClaimOutcome| tested.iter().filter(|v| **v == outcome).count();
        let whose = match (origin, tested.len()) {
            (_, 0) => continue,
            (Origin::Paper, 1) => "the paper's 1 tested claim".into(),
            (Origin::Paper, n) => format!("the paper's {n} tested claims"),
            (Origin::Derived, n) => format!("{n} derived from it"),
            (Origin::Ours | Origin::Construction, n) => format!("{n} of ours"),
        };
        let confirmed = count(ClaimOutcome::Confirmed);
        said += &match said.as_str() {
            "" => {
                let are = if confirmed == 1 { "is" } else { "are" };
                format!("{confirmed} of {whose} {are} confirmed")
            }
            _ => format!(", {confirmed} of {whose}"),
        };
        match count(ClaimOutcome::Undecided) {
            0 => {}
            n => said += &format!(" ({n} undecided)"),
        }
    }
    said
}

/// Returns the experiments that a claims file refers to, so that the caller can check that they exist.
pub fn experiments_needed(source: &ScenarioText) -> Result<Vec<String>, LabError> {
    let file = ClaimsFile::parse(source)?;
    Ok(file.claim.into_iter().flat_map(|c| [c.experiment.into_inner()].into_iter().chain(c.b_experiment)).collect())
}

impl Claim {
    /// Returns errors in the file that do not depend on results.
    fn problems(&self) -> Vec<Problem> {
        let about = |message: &str, at: std::ops::Range<usize>| {
            Problem::new(format!("claim `{}`: {message}", self.id)).at(at, "")
        };
        let several = matches!(self.kind, ComparisonKind::Spread | ComparisonKind::Largest);
        let shared = self.share_over.as_ref();
        let refused = [
            (
                self.per.is_some() && self.kind != ComparisonKind::Ratio,
                "`per` needs `kind = \"ratio\"`",
                "leave out `per`",
            ),
            (
                shared.is_some_and(|axis| !self.over.contains_key(axis)),
                "`share_over` names an axis that `over` does not have",
                "add the axis to `over`",
            ),
            (
                shared.is_some() && (several || self.confirmed.get_ref().share.is_none()),
                "`share_over` needs a `share`, and a `kind` with a figure for each combination",
                "leave out `share_over`",
            ),
            (
                self.margin.is_some_and(|m| self.kind != ComparisonKind::Rank || !(0.0..1.0).contains(&m)),
                "`margin` needs `kind = \"rank\"`, and must be at least 0 and below 1",
                "leave out `margin`, or write the share of a value below which a difference is a tie",
            ),
        ];
        let refused = refused.into_iter().filter(|(is, ..)| *is);
        let mut problems: Vec<Problem> =
            refused.map(|(_, message, help)| about(message, self.experiment.span()).help(help)).collect();
        if matches!(
            self.kind,
            ComparisonKind::Ratio | ComparisonKind::Gain | ComparisonKind::More | ComparisonKind::Difference
        ) && self.b.is_none()
        {
            problems.push(about("missing key `b`", self.experiment.span()).help("name the value to compare with"));
        }
        if let Some((message, help)) = self.confirmed.get_ref().fault(self.published) {
            problems.push(about(message, self.confirmed.span()).help(help));
        }
        for reason in self.reason.values() {
            if let Some(word) = placeholders(reason.get_ref()).find(|word| !PLACEHOLDERS.contains(word)) {
                let help = nearest::suggest(word, "expected", PLACEHOLDERS.iter().copied());
                problems.push(about(&format!("unknown placeholder `{{{word}}}`"), reason.span()).help(help));
            }
        }
        problems
    }

    /// Checks that the experiment has the cells of the claim.
    fn check(&self, source: &ScenarioText, result: &ExperimentResult, metric: Option<&String>) -> Result<(), LabError> {
        let wrong = |message: String, help: String| {
            let problem = Problem::new(message).at(self.experiment.span(), "").help(help);
            Err(fault(source, vec![problem]))
        };
        let axes: Vec<&str> = result.axes.iter().map(|a| a.name.as_str()).collect();
        for name in self.at.keys().chain(self.over.keys()).chain([&self.axis]) {
            if !axes.contains(&name.as_str()) {
                let message = format!("claim `{}`: unknown axis `{name}` of {}", self.id, result.experiment);
                return wrong(message, nearest::suggest(name, "expected", axes));
            }
        }
        let metrics = result.metrics.iter().map(|m| m.name.as_str());
        if let Some(name) = metric.filter(|name| !metrics.clone().any(|m| m == name.as_str())) {
            let message = format!("claim `{}`: unknown metric `{name}` of {}", self.id, result.experiment);
            return wrong(message, nearest::suggest(name, "expected", metrics));
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
            ComparisonKind::Gain => "%".into(),
            ComparisonKind::More => "times more".into(),
            ComparisonKind::Ratio | ComparisonKind::Spread => "times".into(),
            ComparisonKind::Rank => "(rank)".into(),
            ComparisonKind::Value | ComparisonKind::Difference | ComparisonKind::Largest => own.unwrap_or_default(),
        }
    }

    fn subjects(&self) -> Vec<&str> {
        match self.a.get_ref() {
            OneOrMore::One(a) => vec![a],
            OneOrMore::More(all) => all.iter().map(String::as_str).collect(),
        }
    }

    fn verdict(&self, stack: &str, results: [&ExperimentResult; 2]) -> Verdict {
        let figures = self.figures(stack, results);
        let criterion = self.confirmed.get_ref();
        let bounds = criterion.bounds(self.published);
        // Distance from the nearest bound; among equal outcomes, the figure with the smallest distance is shown.
        let margin =
            |f: &ClaimFigure| f.range.map_or(f64::NEG_INFINITY, |[from, to]| (from - bounds.0).min(bounds.1 - to));
        let mut order: Vec<&ClaimFigure> = figures.iter().collect();
        order.sort_by(|a, b| a.outcome(bounds).cmp(&b.outcome(bounds)).then(margin(a).total_cmp(&margin(b))));
        // In each group this many figures may miss the criterion; the next one decides. Of these the worst decides.
        let mut groups: BTreeMap<&str, Vec<&ClaimFigure>> = BTreeMap::new();
        order.iter().for_each(|f| groups.entry(&f.group).or_default().push(f));
        let allowed = |group: &[&ClaimFigure]| group.len() as f64 * (1.0 - criterion.share.unwrap_or(1.0)) + 1e-9;
        let decide: Vec<&ClaimFigure> = groups.values().filter_map(|g| g.get(allowed(g) as usize).copied()).collect();
        let Some(deciding) = order.iter().copied().find(|f| decide.iter().any(|d| std::ptr::eq(*d, *f))) else {
            return Verdict { stack: stack.into(), ..Verdict::default() };
        };
        let mut evidence: Vec<&ClaimFigure> = figures.iter().collect();
        evidence.sort_by_key(|f| !std::ptr::eq(*f, deciding)); // the figure that decides comes first
        let words = |f: &ClaimFigure| match (figures.len() > 1, f.from.as_str()) {
            (false, from) => from.to_owned(),
            (true, "") => format!("{}: {}", f.at, f.words()),
            (true, from) => format!("{}: {} ({from})", f.at, f.words()),
        };
        let verdict = deciding.outcome(bounds);
        let [from, to] = deciding.range.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
        Verdict {
            stack: stack.into(),
            verdict,
            measured: [from, to].into_iter().find(|end| end.is_finite()),
            lower_bound: from.is_finite() && to == f64::INFINITY,
            upper_bound: from == f64::NEG_INFINITY && to.is_finite(),
            interval: deciding.interval(),
            evidence: evidence.iter().map(|f| words(f)).collect::<Vec<_>>().join("; "),
            reason: match verdict {
                ClaimOutcome::NotConfirmed => self.reason_missed(stack, results[0], deciding, &figures),
                ClaimOutcome::Undecided => self.reason_undecided(stack, results[0], deciding),
                ClaimOutcome::Confirmed | ClaimOutcome::NotRun => String::new(),
            },
        }
    }

    /// Returns the file's reason for a stack. A reason for the stack that behaves like Linux also applies to the
    /// kernel, unless the file has another.
    fn reason_of(&self, stack: &str) -> Option<&String> {
        let of_linux = || self.reason.get("linux").filter(|_| stack == KERNEL);
        self.reason.get(stack).or_else(of_linux).map(Spanned::get_ref)
    }

    fn reason_missed(
        &self,
        stack: &str,
        result: &ExperimentResult,
        deciding: &ClaimFigure,
        all: &[ClaimFigure],
    ) -> String {
        let Some(reason) = self.reason_of(stack) else { return String::new() };
        let unit = self.unit(result);
        let with_unit = |text: String| format!("{text} {unit}").trim_end().to_owned();
        let interval = deciding.interval().map_or(String::new(), |ends| format!(" ({})", words(ends)));
        let measured = with_unit(deciding.words() + &interval);
        let known = || all.iter().filter_map(|f| f.range);
        let low = known().map(|[from, _]| from).fold(f64::INFINITY, f64::min);
        let high = known().map(|[_, to]| to).fold(f64::NEG_INFINITY, f64::max);
        let range = words([low, high]);
        let criterion = self.confirmed.get_ref().words(self.published);
        let published = self.published.map(|p| with_unit(short(p))).unwrap_or_default();
        let figures = [&measured, &with_unit(range), &published, &criterion];
        let filled = PLACEHOLDERS
            .iter()
            .zip(figures)
            .fold(reason.clone(), |text, (word, figure)| text.replace(&format!("{{{word}}}"), figure));
        if filled == *reason { format!("{measured}, not {criterion}. {reason}") } else { filled }
    }

    fn reason_undecided(&self, stack: &str, result: &ExperimentResult, deciding: &ClaimFigure) -> String {
        if let (ComparisonKind::Rank, Ok(ranks)) = (self.kind, deciding.interval) {
            let ties = self.margin.map_or("", |_| " and near ties");
            let why = self.reason_of(stack).filter(|_| self.margin.is_some());
            let why = why.map_or(String::new(), |why| format!(". {why}"));
            return format!("The intervals of the differences{ties} allow the ranks {}{why}", words(ranks));
        }
        match deciding.interval {
            Ok([f64::NEG_INFINITY, f64::INFINITY]) => "The figure has no known bound".into(),
            Ok([from, to]) => {
                let interval = match (from.is_finite(), to.is_finite()) {
                    (_, false) => format!("{} and more", short(from)),
                    (false, _) => format!("{} and less", short(to)),
                    _ => format!("{} to {}", short(from), short(to)),
                };
                let (unit, criterion) = (self.unit(result), self.confirmed.get_ref().words(self.published));
                format!(
                    "The 95 % interval, {}, contains a bound of the criterion ({criterion})",
                    format!("{interval} {unit}").trim_end()
                )
            }
            Err(why) => why.into(),
        }
    }
}

const PLACEHOLDERS: [&str; 4] = ["measured", "range", "published", "criterion"];

/// Returns the single words between braces.
fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    words.filter(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
}
