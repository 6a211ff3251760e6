//! The first screen of a paper's report: the verdict in two sentences, and a recommendation for Linux.

use super::claims::{confirmed, met};
use super::html::{escape, paragraphs, slug, with_interval};
use super::view::{ViewDimension, dimensions, stacks};
use crate::experiment::KERNEL;
use crate::experiment::place::CellPlace;
use crate::experiment::result::{Cell, Choice, ExperimentResult, FACTOR, ReportInput};
use crate::statistics::LEVEL;

/// Returns the verdict: a sentence made from the figures of this run, and the paper's conclusion.
pub fn verdict(input: &ReportInput) -> String {
    let conclusion = input.summary.as_ref().map_or("", |s| s.conclusion.as_str());
    let both: Vec<String> = [figures(input), conclusion.into()].into_iter().filter(|s| !s.is_empty()).collect();
    both.join(" ")
}

/// Describes how much of the published results each stack reproduces. Empty if nothing was compared.
fn figures(input: &ReportInput) -> String {
    let mut parts: Vec<String> = Vec::new();
    for stack in stacks(input) {
        let first = parts.is_empty();
        let counts = |(n, of): (usize, usize), what: &str| {
            if first { format!("{n} of {of} {what}") } else { format!("{n} of {of}") }
        };
        let values = met(input, stack)
            .map(|c| counts(c, &format!("published values are reproduced within a factor of {FACTOR}")));
        let claims = confirmed(input, stack).map(|c| counts(c, "claims of the paper are confirmed"));
        let said: Vec<String> = values.into_iter().chain(claims).collect();
        if !said.is_empty() {
            let place = match (first, stack) {
                (_, "") => String::new(),
                (true, stack) => format!("On the {stack} stack, "),
                (false, stack) => format!("on {stack}, "),
            };
            parts.push(place + &said.join(" and "));
        }
    }
    if parts.is_empty() {
        return String::new();
    }
    let quick = if input.experiments.iter().any(|e| e.quick) { " (a quick run: fewer and smaller cells)" } else { "" };
    format!("{}{quick}.", parts.join("; "))
}

/// Renders the recommendation for Linux, from cells of the kernel or, without these, of the `linux` stack.
pub(super) fn linux(input: &ReportInput) -> String {
    let Some(choice) = input.summary.as_ref().and_then(|s| s.linux.as_ref()) else { return String::new() };
    let Some(experiment) = input.experiments.iter().find(|e| e.experiment == choice.experiment) else {
        return String::new();
    };
    let all = dimensions(experiment);
    let best: Vec<BestCandidate> =
        places(experiment, choice).into_iter().filter_map(|(at, cells)| best(choice, at, &cells)).collect();
    if best.is_empty() {
        return String::new();
    }
    let name = |cell: &Cell| {
        let value = cell.axes.get(&choice.axis).unwrap_or_default();
        let label = all.iter().find(|d| d.name == choice.axis).map_or(value, |d| d.label_of(value));
        label.trim_end_matches(" (linux)").to_owned()
    };
    let metric = metric(experiment, choice);
    let label = experiment.metrics.iter().find(|m| m.name == metric).map_or(metric, |m| m.label.as_str());
    let others: Vec<String> = all
        .iter()
        .filter(|d| d.name != choice.axis && experiment.axes.iter().any(|a| a.name == d.name))
        .map(|d| d.label.to_lowercase())
        .collect();
    // Number of times that each candidate is the best, the most frequent first.
    let mut winners: Vec<(String, usize)> = Vec::new();
    for winner in best.iter().map(|b| name(b.best)) {
        match winners.iter_mut().find(|(known, _)| *known == winner) {
            Some((_, n)) => *n += 1,
            None => winners.push((winner, 1)),
        }
    }
    winners.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let said: Vec<String> = winners
        .iter()
        .map(|(winner, n)| match (best.len(), winners.len()) {
            (1, _) => format!("<b>{}</b>", escape(winner)),
            (all, 1) => format!("<b>{}</b> in all {all} cases", escape(winner)),
            (all, _) => format!("<b>{}</b> in {n} of {all} cases", escape(winner)),
        })
        .collect();
    let which = if choice.lowest { "lowest" } else { "highest" };
    let shipped = if choice.shipped.is_empty() { "" } else { " among the algorithms that Linux ships" };
    let by = if others.is_empty() { String::new() } else { format!(" By {}:", escape(&others.join(" and "))) };
    let rows: String = best.iter().map(|b| row(b, experiment, &all, name)).collect();
    let single = best.iter().all(|b| b.best.samples.len() == 1 && !b.best.deterministic);
    let (once, intervals) = if single {
        (", in one run of each", "A single run does not tell the best from the others.")
    } else {
        (
            "",
            "Means with their 95 % confidence intervals; \"not told apart\" means no significant difference from the \
             best in these runs.",
        )
    };
    format!(
        "<section id=\"linux\">\n<h2>What to use on Linux</h2>\n\
         <p>{}: the {which} value of \"{}\"{shipped}{once}.</p>\n{}\
         <p class=\"note\">{intervals} <a href=\"#{}\">All figures</a>.{by}</p>\n\
         <ul class=\"choices\">\n{rows}</ul>\n</section>\n",
        said.join(", "),
        escape(label),
        paragraphs(&choice.note, ""),
        slug(&experiment.experiment),
    )
}

fn metric<'a>(experiment: &'a ExperimentResult, choice: &'a Choice) -> &'a str {
    match choice.metric.as_str() {
        "" => experiment.metrics.first().map_or("", |m| m.name.as_str()),
        given => given,
    }
}

/// Returns the cells of the metric on Linux (the kernel if measured), by combination of the other axes in their order.
fn places<'a>(experiment: &'a ExperimentResult, choice: &'a Choice) -> Vec<(CellPlace, Vec<&'a Cell>)> {
    let metric = metric(experiment, choice);
    let mut out: Vec<(CellPlace, Vec<&Cell>)> = Vec::new();
    let on = |stack: &str| experiment.cells.iter().any(|c| c.real_stack() == stack && c.measured.is_some());
    let stack = if on(KERNEL) { KERNEL } else { "linux" };
    for cell in experiment.cells.iter().filter(|c| c.metric == metric && c.real_stack() == stack) {
        let at = cell.axes.without(&choice.axis);
        match out.iter_mut().find(|(known, _)| *known == at) {
            Some((_, cells)) => cells.push(cell),
            None => out.push((at, vec![cell])),
        }
    }
    out
}

struct BestCandidate<'a> {
    at: CellPlace,
    best: &'a Cell,
    /// Candidates that do not differ significantly from the best, with enough runs for a comparison.
    alike: Vec<&'a Cell>,
    /// True if no other candidate differs significantly.
    all: bool,
    /// Number of candidates with too few runs for a comparison.
    untold: usize,
    /// Better candidates that are not part of Linux.
    ahead: Vec<&'a Cell>,
}

fn best<'a>(choice: &Choice, at: CellPlace, cells: &[&'a Cell]) -> Option<BestCandidate<'a>> {
    let value = |c: &Cell| if choice.lowest { c.measured.map(|m| -m) } else { c.measured };
    let mut order: Vec<&Cell> = cells.iter().copied().filter(|c| c.measured.is_some()).collect();
    order.sort_by(|a, b| value(b).partial_cmp(&value(a)).unwrap_or(std::cmp::Ordering::Equal));
    let candidate = |c: &Cell| {
        choice.shipped.is_empty()
            || c.axes.get(&choice.axis).is_some_and(|a| choice.shipped.iter().any(|name| name == a))
    };
    let first = order.iter().position(|c| candidate(c))?;
    let best = order[first];
    let differs = |c: &Cell| best.difference(c, LEVEL).and_then(|d| d.is_significant());
    let ahead = order[..first].iter().copied().filter(|c| differs(c) == Some(true)).collect();
    let rest: Vec<&Cell> = order[first + 1..].iter().copied().filter(|c| candidate(c)).collect();
    let alike: Vec<&Cell> = rest.iter().copied().filter(|c| differs(c) == Some(false)).collect();
    let too_few_runs = rest.iter().filter(|c| differs(c).is_none()).count();
    Some(BestCandidate { at, best, all: alike.len() == rest.len(), alike, untold: too_few_runs, ahead })
}

fn row(
    b: &BestCandidate,
    experiment: &ExperimentResult,
    all: &[ViewDimension],
    name: impl Fn(&Cell) -> String,
) -> String {
    let unit = experiment.metrics.iter().find(|m| m.name == b.best.metric).map_or("", |m| m.unit.as_str());
    let figure = |c: &Cell| {
        let (mean, ci) = with_interval(c.measured.unwrap_or_default(), c.ci95);
        format!("{mean}{} {unit}", ci.map(|ci| format!(" ± {ci}")).unwrap_or_default()).trim_end().to_owned()
    };
    let names: Vec<String> = b.alike.iter().map(|c| name(c)).collect();
    let mut notes = Vec::new();
    match names.len() {
        0 => {}
        n if b.all && n > 1 => notes.push(format!("all {n} others not told apart")),
        n if n > MAX_NAMES => {
            notes.push(format!("{} and {} others not told apart", names[..MAX_NAMES].join(", "), n - MAX_NAMES))
        }
        _ => notes.push(format!("{} not told apart", names.join(", "))),
    }
    if b.untold > 0 {
        let runs = if b.best.samples.len() == 1 { "one run" } else { "so few runs" };
        notes.push(format!("{runs} cannot tell it from the other {}", b.untold));
    }
    let ahead: Vec<String> = b.ahead.iter().map(|c| format!("{} {}", name(c), figure(c))).collect();
    if !ahead.is_empty() {
        notes.push(format!("better, but not in Linux: {}", ahead.join(", ")));
    }
    let several = b.at.iter().nth(1).is_some();
    let place = b.at.iter().filter_map(|(axis, value)| {
        let d = all.iter().find(|d| d.name == *axis)?;
        Some(if several { format!("{} {}", d.label, d.label_of(value)) } else { d.label_of(value).to_owned() })
    });
    let place = place.collect::<Vec<_>>().join(", ");
    let place = if place.is_empty() { place } else { format!("<span class=\"at\">{}</span> ", escape(&place)) };
    let notes = match notes.as_slice() {
        [] => String::new(),
        notes => format!(" <span class=\"note\">{}</span>", escape(&notes.join("; "))),
    };
    format!("<li>{place}<b>{}</b> {}{notes}</li>\n", escape(&name(b.best)), escape(&figure(b.best)))
}

const MAX_NAMES: usize = 3;
