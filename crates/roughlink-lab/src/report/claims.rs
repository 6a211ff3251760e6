//! The paper's claims and what became of them, and what a hurried reader should take home.

use super::html::{escape, exact, number, slug, with_interval};
use super::table::{FACTOR, factor};
use super::view::stack_caption;
use crate::experiment::claims::tally;
use crate::experiment::result::{ClaimResult, ReportInput, Verdict};

/// The table of claims; nothing if there are none.
pub(super) fn table(input: &ReportInput) -> String {
    if input.claims.is_empty() {
        return String::new();
    }
    let stacks = stacks(input);
    let mut out = String::from(
        "<section id=\"claims\">\n<h2>The paper's claims</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Claims\">\n\
         <table class=\"claims\">\n<thead><tr><th scope=\"col\">Claim</th><th scope=\"col\">Where</th>\
         <th scope=\"col\" class=\"num first\">Published</th>",
    );
    for stack in &stacks {
        out += &format!("<th scope=\"col\" class=\"first\">{}</th>", escape(&stack_caption(stack)));
    }
    out += "<th scope=\"col\" class=\"first\">What it rests on, and why</th></tr></thead>\n<tbody>\n";
    for claim in &input.claims {
        out += &row(claim, &stacks, input);
    }
    out + "</tbody>\n</table>\n</div>\n</section>\n"
}

fn row(claim: &ClaimResult, stacks: &[&str], input: &ReportInput) -> String {
    let mut out = format!("<tr><th scope=\"row\">{}", escape(&claim.text));
    if !claim.criterion.is_empty() {
        out += &format!("<div class=\"note\">Confirmed if {}</div>", escape(claim.criterion.trim_start_matches("if ")));
    }
    out += "</th><td data-label=\"Where\">";
    out += &escape(&claim.place);
    if !claim.origin.mark().is_empty() {
        out += &format!("<div class=\"note\"><b>{}</b></div>", claim.origin.mark());
    }
    let links: Vec<String> = claim
        .experiments
        .iter()
        .filter(|e| input.experiments.iter().any(|known| known.experiment == **e))
        .map(|e| format!("<a href=\"#{}\">{}</a>", slug(e), escape(e)))
        .collect();
    if !links.is_empty() {
        out += &format!("<div class=\"note\">{}</div>", links.join(", "));
    }
    let published = claim.published.map(|p| with_unit(exact(p), &claim.unit)).unwrap_or_default();
    let label = if published.is_empty() { "" } else { " data-label=\"Published\"" };
    out += &format!("</td><td class=\"num first\"{label}>{published}</td>");
    for stack in stacks {
        let verdict = claim.verdicts.iter().find(|v| v.stack == *stack);
        out += &format!("<td class=\"first\" data-label=\"{}\">", escape(&stack_caption(stack)));
        out += &verdict.map(|v| outcome(v, &claim.unit)).unwrap_or_else(|| word(None).into());
        out += "</td>";
    }
    out += "<td class=\"reason first\">";
    for verdict in &claim.verdicts {
        let parts = [&verdict.evidence, &verdict.reason].map(|p| p.trim());
        let said: Vec<String> = parts.into_iter().filter(|p| !p.is_empty()).map(sentence).collect();
        if !said.is_empty() {
            let stack =
                if verdict.stack.is_empty() { String::new() } else { format!("<b>{}</b>: ", escape(&verdict.stack)) };
            out += &format!("<div>{stack}{}</div>", escape(&said.join(" ")));
        }
    }
    out + "</td></tr>\n"
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

fn outcome(verdict: &Verdict, unit: &str) -> String {
    let mut out = word(verdict.confirmed).to_string();
    if let Some(mean) = verdict.measured {
        let (mean, ci) = with_interval(mean, verdict.ci95);
        let ci = ci.map(|c| format!(" <span class=\"ci\">± {c}</span>")).unwrap_or_default();
        out += &format!("<div class=\"measured\">{}</div>", with_unit(mean + &ci, unit));
    }
    out
}

fn word(confirmed: Option<bool>) -> &'static str {
    match confirmed {
        Some(true) => "<span class=\"verdict yes\">confirmed</span>",
        Some(false) => "<span class=\"verdict no\">not confirmed</span>",
        None => "<span class=\"verdict unknown\">not run</span>",
    }
}

/// The stacks of all verdicts and experiments, in order of appearance.
fn stacks(input: &ReportInput) -> Vec<&str> {
    let of_experiments = input.experiments.iter().flat_map(|e| e.stacks.iter());
    let of_claims = input.claims.iter().flat_map(|c| c.verdicts.iter().map(|v| &v.stack));
    let mut out: Vec<&str> = Vec::new();
    for stack in of_experiments.chain(of_claims) {
        if !out.contains(&stack.as_str()) {
            out.push(stack);
        }
    }
    out
}

/// The headline findings, in sentences made from the numbers.
pub(super) fn findings(input: &ReportInput) -> Vec<String> {
    let mut out = Vec::new();
    let stacks = stacks(input);
    let mut compared = Vec::new();
    for stack in &stacks {
        let cells = input.experiments.iter().flat_map(|e| &e.cells).filter(|c| c.stack == *stack);
        let mut ratios: Vec<f64> = cells.filter_map(|c| c.ratio()).filter(|r| r.is_finite()).collect();
        if ratios.is_empty() {
            continue;
        }
        ratios.sort_by(f64::total_cmp);
        let near = ratios.iter().filter(|r| factor(**r) <= FACTOR).count();
        let middle = (ratios[(ratios.len() - 1) / 2] + ratios[ratios.len() / 2]) / 2.0;
        compared.push(format!(
            "{}: {near} of {} published numbers met within a factor of {FACTOR}; the median ratio of measured to published is {middle:.2}.",
            stack_caption(stack),
            ratios.len(),
        ));
    }
    out.extend(compared);
    for stack in &stacks {
        let ranks = input.experiments.iter().flat_map(|e| &e.ranks).filter(|r| r.stack == *stack && r.n > 2);
        let mut rho: Vec<f64> = ranks.map(|r| r.spearman).filter(|r| r.is_finite()).collect();
        rho.sort_by(f64::total_cmp);
        if let (Some(low), Some(high)) = (rho.first(), rho.last()) {
            let range = if rho.len() == 1 { number(*low) } else { format!("{} to {}", number(*low), number(*high)) };
            out.push(format!(
                "{}: the order agrees with the published one with Spearman's rho {range}.",
                stack_caption(stack)
            ));
        }
    }
    let verdict = |c: &ClaimResult, stack: &str| c.verdicts.iter().find(|v| v.stack == stack).and_then(|v| v.confirmed);
    for stack in &stacks {
        let tally = tally(&input.claims, stack);
        if !tally.is_empty() {
            out.push(format!("{}: {tally}.", stack_caption(stack)));
        }
    }
    if let [first, others @ ..] = stacks.as_slice() {
        for other in others {
            let changed: Vec<&str> = input
                .claims
                .iter()
                .filter(|c| verdict(c, first) == Some(true) && verdict(c, other) == Some(false))
                .map(|c| c.text.trim_end_matches('.'))
                .collect();
            if !changed.is_empty() {
                out.push(format!("Confirmed on {first} but not on {other}: {}.", changed.join("; ")));
            }
        }
    }
    out
}
