//! The paper's claims and the verdicts on them: one line each, which unfolds to figures and reasons.

use super::html::{escape, exact, number, range, slug};
use super::view::{stack_caption, stacks};
use crate::experiment::claims::tally;
use crate::experiment::result::{Cell, ClaimOutcome, ClaimResult, Origin, ReportInput, Verdict};

/// Renders the section of claims; empty without claims.
pub(super) fn section(input: &ReportInput) -> String {
    if input.claims.is_empty() {
        return String::new();
    }
    let mut out = String::from("<section id=\"claims\">\n<h2>The paper's claims</h2>\n");
    for stack in stacks(input) {
        let tally = tally(&input.claims, stack);
        if !tally.is_empty() {
            out += &format!("<p class=\"note\">{}: {}.</p>\n", escape(&stack_caption(stack)), escape(&tally));
        }
    }
    out += "<div class=\"claims\">\n";
    for claim in &input.claims {
        out += &line(claim, input);
    }
    out + "</div>\n</section>\n"
}

fn line(claim: &ClaimResult, input: &ReportInput) -> String {
    let mut out =
        format!("<details class=\"claim\"><summary><span>{}</span> <span class=\"verdicts\">", escape(&claim.text));
    let judged: Vec<&Verdict> = claim.verdicts.iter().filter(|v| v.verdict != ClaimOutcome::NotRun).collect();
    for verdict in &judged {
        out += &badge(verdict);
    }
    if judged.is_empty() {
        out += "<span class=\"verdict unknown\">not run</span>";
    }
    out += "</span></summary>\n<dl>";
    let mut row = |label: &str, text: &str| out += &format!("<dt>{}</dt><dd>{text}</dd>", escape(label));
    let links = claim
        .experiments
        .iter()
        .filter(|e| input.experiments.iter().any(|known| known.experiment == **e))
        .map(|e| format!("<a href=\"#{}\">{}</a>", slug(e), escape(e)));
    let mark = Some(claim.origin.mark()).filter(|m| !m.is_empty()).map(|m| format!("<b>{m}</b>"));
    let places: Vec<String> =
        std::iter::once(escape(&claim.place)).chain(mark).chain(links).filter(|p| !p.is_empty()).collect();
    row("Where", &places.join(" · "));
    if let Some(published) = claim.published {
        row("Published", &with_unit(exact(published), &claim.unit));
    }
    if !claim.criterion.is_empty() {
        row("Confirmed if", &escape(claim.criterion.trim_start_matches("if ")));
    }
    for verdict in judged {
        let parts = [&verdict.evidence, &verdict.reason].map(|p| p.trim());
        let said = parts.into_iter().filter(|p| !p.is_empty()).map(|p| format!("<div>{}</div>", escape(&sentence(p))));
        row(&stack_caption(&verdict.stack), &(figure(verdict, &claim.unit) + &said.collect::<String>()));
    }
    out + "</dl></details>\n"
}

fn sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.into() } else { format!("{text}.") }
}

fn with_unit(number: String, unit: &str) -> String {
    match unit {
        "" => number,
        "ratio" => format!("{number} <span class=\"unit\">times</span>"),
        unit => format!("{number} <span class=\"unit\">{}</span>", escape(unit)),
    }
}

fn figure(verdict: &Verdict, unit: &str) -> String {
    let Some(measured) = verdict.measured else { return String::new() };
    let interval =
        verdict.interval.map(|ends| format!(" <span class=\"ci\">{}</span>", range(ends))).unwrap_or_default();
    let bound = match (verdict.lower_bound, verdict.upper_bound) {
        (true, _) => "&gt; ",
        (_, true) => "&lt; ",
        _ => "",
    };
    bound.to_owned() + &with_unit(number(measured) + &interval, unit)
}

fn badge(verdict: &Verdict) -> String {
    let class = match verdict.verdict {
        ClaimOutcome::Confirmed => "yes",
        ClaimOutcome::NotConfirmed => "no",
        ClaimOutcome::Undecided | ClaimOutcome::NotRun => "unknown",
    };
    let stack = if verdict.stack.is_empty() { String::new() } else { format!("{}: ", escape(&verdict.stack)) };
    format!("<span class=\"verdict {class}\">{stack}{}</span>", verdict.verdict.words())
}

/// Counts the paper's own claims that a stack confirms, and those that were tested there; None without tests.
pub(super) fn confirmed(input: &ReportInput, stack: &str) -> Option<(usize, usize)> {
    let own = input.claims.iter().filter(|c| c.origin == Origin::Paper);
    let verdicts = own.flat_map(|c| &c.verdicts).filter(|v| v.stack == stack);
    let known: Vec<ClaimOutcome> = verdicts.map(|v| v.verdict).filter(|v| *v != ClaimOutcome::NotRun).collect();
    (!known.is_empty()).then(|| (known.iter().filter(|v| **v == ClaimOutcome::Confirmed).count(), known.len()))
}

/// Describes in sentences how well the figures agree with the published ones.
pub(super) fn agreement(input: &ReportInput) -> Vec<String> {
    let mut out = Vec::new();
    for stack in stacks(input) {
        let mut parts = Vec::new();
        let ratios = ratios(input, stack);
        if !ratios.is_empty() {
            let middle = (ratios[(ratios.len() - 1) / 2] + ratios[ratios.len() / 2]) / 2.0;
            parts.push(format!("the median ratio of measured to published is {middle:.2}"));
        }
        let ranks = input.experiments.iter().flat_map(|e| &e.ranks).filter(|r| r.stack == *stack && r.n > 2);
        let mut rho: Vec<f64> = ranks.map(|r| r.spearman).filter(|r| r.is_finite()).collect();
        rho.sort_by(f64::total_cmp);
        if let (Some(low), Some(high)) = (rho.first(), rho.last()) {
            let range = if low == high { number(*low) } else { format!("{} to {}", number(*low), number(*high)) };
            parts.push(format!("Spearman's rho of measured and published order is {range}"));
        }
        if !parts.is_empty() {
            out.push(format!("{}: {}.", stack_caption(stack), parts.join("; ")));
        }
    }
    out
}

fn cells<'a>(input: &'a ReportInput, stack: &str) -> impl Iterator<Item = &'a Cell> {
    input.experiments.iter().flat_map(|e| &e.cells).filter(move |c| c.stack == stack)
}

/// Returns measured / published for all cells of a stack that have both, each published value once, sorted.
fn ratios(input: &ReportInput, stack: &str) -> Vec<f64> {
    let mut ratios: Vec<f64> =
        cells(input, stack).filter(|c| !c.published_again).filter_map(Cell::ratio).filter(|r| r.is_finite()).collect();
    ratios.sort_by(f64::total_cmp);
    ratios
}

/// Counts the published values that a stack meets within a factor, and all of them; None without published values.
pub(super) fn met(input: &ReportInput, stack: &str) -> Option<(usize, usize)> {
    let met: Vec<bool> = cells(input, stack).filter_map(Cell::as_published).collect();
    (!met.is_empty()).then(|| (met.iter().filter(|met| **met).count(), met.len()))
}
