//! The report of a single run: the results in sentences and in a table for each kind of flow, then charts over time.

mod answer;
mod charging;
mod charts;
mod emulated;
mod tables;

use super::html::escape;
use super::page::page;
use super::{command, figure_html, points_as_drawn};
use crate::folder::run::SingleRun;
use charts::Section;
use std::collections::BTreeSet;
use std::fmt::Write as _;

pub(super) fn render(run: &SingleRun) -> String {
    let result = &run.result;
    let title = if result.name.is_empty() { "roughlink run" } else { &result.name };
    let emulation = run.emulation.as_ref();
    let mut facts =
        emulation.map_or_else(|| vec![format!("{} s simulated", seconds(result.sim_s))], |e| emulated::facts(run, e));
    facts.push(format!("seed {}, replica {}", result.seed, result.replica));
    let stacks: BTreeSet<&str> =
        result.flows.iter().filter(|f| !f.not_run).filter_map(|f| f.stack.as_deref()).collect();
    if !stacks.is_empty() {
        facts.push(format!("TCP stack {}", stacks.into_iter().collect::<Vec<_>>().join(", ")));
    }
    facts.extend(run.manifest.as_ref().map(|m| {
        let revision = m.revision.as_ref().map_or(String::new(), |r| format!(" (revision {r})"));
        format!("roughlink {}{revision}", m.roughlink)
    }));
    let mut heading = format!("<p class=\"where\">{}</p>\n", escape(&facts.join(" · ")));
    heading += "<ul class=\"findings\" id=\"answer\">\n";
    let conversations = emulation.map(emulated::sentences).unwrap_or_default();
    for sentence in conversations.into_iter().chain(answer::sentences(run)) {
        let _ = writeln!(heading, "<li>{}</li>", escape(&sentence));
    }
    heading += "</ul>\n";
    let mut sections = emulation.map(|e| emulated::sections(run, e)).unwrap_or_default();
    sections.extend(charts::sections(run));
    let mut main = emulation.map(emulated::tables).unwrap_or_default();
    main += &tables::kind_tables(run);
    main += &contents(&sections);
    for section in &sections {
        main += &section_html(section);
    }
    main += "<section id=\"numbers\">\n<h2>All numbers</h2>\n";
    main += &tables::all(run);
    let words = run.manifest.as_ref().map(|m| m.command.join(" ")).or_else(|| Some(emulation?.about.command.clone()));
    if let Some(words) = words.filter(|words| !words.is_empty()) {
        let _ = writeln!(main, "<div class=\"tools\">{}</div>", command(&words, "whole"));
    }
    main += "</section>\n";
    page(title, &heading, &main)
}

fn contents(sections: &[Section]) -> String {
    let mut out = String::from("<nav aria-label=\"Contents\" class=\"noprint\">\n<ol>\n");
    for section in sections {
        let _ = writeln!(out, "<li><a href=\"#{}\">{}</a></li>", section.id, escape(&section.title));
    }
    out + "<li><a href=\"#numbers\">All numbers</a></li>\n</ol>\n</nav>\n"
}

fn section_html(section: &Section) -> String {
    let mut out = format!("<section id=\"{}\">\n<h2>{}</h2>\n", section.id, escape(&section.title));
    if !section.about.is_empty() {
        let _ = writeln!(out, "<p class=\"about\">{}</p>", escape(&section.about));
    }
    if !section.shaded.is_empty() {
        let _ = writeln!(
            out,
            "<div class=\"key\"><span><i class=\"shade\" aria-hidden=\"true\"></i>{}</span></div>",
            escape(&section.shaded)
        );
    }
    out += &figure_html(&section.drawing, section.id);
    out + &format!("<div class=\"tools\">{}</div>\n</section>\n", points_as_drawn(section.id))
}

/// Returns the sum of counts, saturating because they may come from a hostile file.
fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Formats a time in a run, with at most a millisecond of resolution.
fn seconds(s: f64) -> String {
    let text = format!("{s:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats an amount of payload with three digits.
fn size(bytes: f64) -> String {
    let (value, unit) = match bytes {
        b if b < 1e4 => return format!("{b:.0} B"),
        b if b < 1e6 => (b * 1e-3, "kB"),
        b if b < 1e9 => (b * 1e-6, "MB"),
        b => (b * 1e-9, "GB"),
    };
    format!("{} {unit}", three(value))
}

/// Formats a number with three significant digits, without trailing zeros.
fn three(x: f64) -> String {
    let places = match x.abs() {
        a if a >= 100.0 => 0,
        a if a >= 10.0 => 1,
        a if a >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{x:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Formats a share as a percentage: `0`, `under 0.1`, `1.75`.
fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p > 0.0 && p < 0.1 => "under 0.1 %".into(),
        p if p < 1.0 => format!("{} %", three((p * 100.0).round() / 100.0)),
        p => format!("{} %", three(p)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_briefly() {
        assert_eq!([seconds(900.0), seconds(8.326_710_4)], ["900", "8.327"]);
        assert_eq!([size(512.0), size(69_874.0), size(1e7), size(2.041e8)], ["512 B", "69.9 kB", "10 MB", "204 MB"]);
        assert_eq!([three(0.0), three(0.008_09), three(9.607), three(1234.5)], ["0", "0.008", "9.61", "1234"]);
        assert_eq!([0.0, 0.0003, 0.001_91, 0.25].map(percent), ["0 %", "under 0.1 %", "0.19 %", "25 %"]);
    }
}
