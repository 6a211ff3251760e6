//! Reports: self-contained HTML files, which include the chart library (plotly.js, `vendor/`) and load nothing from the
//! network. The same input gives the same bytes.

mod answer;
mod claims;
pub mod csv;
mod curve;
mod figure;
mod html;
pub mod index;
mod page;
mod panel;
mod run;
mod slots;
mod subset;
mod table;
pub(crate) mod thin;
mod verdict;
mod view;

pub use page::STYLE;
pub use verdict::verdict;

use crate::disk;
use crate::experiment::result::{ExperimentResult, ReportInput};
use crate::folder::run::SingleRun;
use figure::MEASURED;
use html::{escape, json, paragraphs, slug};
use page::page;
use panel::Drawing;
use slots::{SeriesStyle, Slots, sample};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

/// Writes a report; replaces an existing file only when the new one is complete.
pub fn write(path: &Path, input: &ReportInput) -> io::Result<()> {
    disk::replace(path, render(input).as_bytes())
}

/// Writes the report of a single run in the same way.
pub fn write_run(path: &Path, run: &SingleRun) -> io::Result<()> {
    disk::replace(path, run::render(run).as_bytes())
}

/// Renders the report. The report of a paper begins with its verdict, a picture and the recommendation for Linux; the
/// claims follow, then its description and all its figures.
pub fn render(input: &ReportInput) -> String {
    let slots = Slots::new(input);
    let ids = ids(&input.experiments);
    let title = if input.title.is_empty() { "roughlink report" } else { &input.title };
    let about = paragraphs(&input.intro, "lead") + &facts(input);
    let mut main = String::new();
    let heading = if input.summary.is_some() {
        main += &picture(input, &slots, "picture", "");
        main += &verdict::linux(input);
        main += &claims::section(input);
        main += &format!("<section id=\"about\">\n<h2>The paper and this run</h2>\n{about}");
        for sentence in claims::agreement(input) {
            let _ = writeln!(main, "<p>{}</p>", escape(&sentence));
        }
        main += &contents(input, &ids);
        main += "</section>\n";
        paragraphs(&verdict(input), "lead answer")
    } else {
        main += &contents(input, &ids);
        main += &claims::section(input);
        answer::answer(input) + &about
    };
    for (experiment, id) in input.experiments.iter().zip(&ids) {
        main += &section(&subset::shown(experiment), id, &slots);
    }
    page(title, &heading, &main)
}

/// Renders the first figure of a paper's report: the charts of its first metric, with a link into that `report`.
fn picture(input: &ReportInput, slots: &Slots, id: &str, report: &str) -> String {
    let wanted = |e: &&ExperimentResult| input.summary.as_ref().is_some_and(|s| s.picture == e.experiment);
    let drawing = |e| figure::drawings(e, slots).into_iter().next();
    // Without runs of the picture's experiment, use the first experiment that has runs.
    let mut shown = input.experiments.iter().filter(wanted).chain(&input.experiments);
    let Some((experiment, mut drawing)) = shown.find_map(|e| Some((e, drawing(e)?))) else { return String::new() };
    let group = drawing.panels.first().map(|p| p.group.clone());
    drawing.panels.retain(|p| Some(&p.group) == group.as_ref());
    drawing.note.clear(); // the note is about the other panels
    let place = if experiment.place.is_empty() { String::new() } else { format!("{}: ", experiment.place) };
    format!(
        "<div class=\"picture\">\n<p class=\"where\">{}{} · <a href=\"{}#{}\">more</a></p>\n{}</div>\n",
        escape(&place),
        escape(heading(experiment)),
        escape(report),
        slug(&experiment.experiment),
        figure_html(&drawing, id)
    )
}

/// Returns an identifier for each experiment, unique on the page.
fn ids(experiments: &[ExperimentResult]) -> Vec<String> {
    let mut taken: BTreeSet<String> = ["main", "about", "claims", "linux", "picture", "theme"].map(String::from).into();
    let mut out = Vec::new();
    for experiment in experiments {
        let stem = slug(&experiment.experiment);
        let free = (1..).map(|n| if n == 1 { stem.clone() } else { format!("{stem}-{n}") });
        let id = free.into_iter().find(|id| !taken.contains(id)).unwrap_or(stem);
        taken.insert(id.clone());
        out.push(id);
    }
    out
}

fn facts(input: &ReportInput) -> String {
    let mut out = String::new();
    for (label, value) in &input.facts {
        let _ = write!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escape(label), escape(value));
    }
    if !out.is_empty() {
        out = format!("<dl class=\"facts\">{out}</dl>\n");
    }
    if !input.command.is_empty() {
        out += &command(&input.command, "whole");
    }
    out
}

fn command(text: &str, id: &str) -> String {
    format!(
        "<div class=\"command\"><code id=\"command-{id}\">{}</code>\
         <button type=\"button\" class=\"noprint\" data-copy=\"command-{id}\">Copy</button></div>\n",
        escape(text)
    )
}

fn contents(input: &ReportInput, ids: &[String]) -> String {
    if input.experiments.len() + usize::from(!input.claims.is_empty()) < 2 {
        return String::new();
    }
    let mut out = String::from("<nav aria-label=\"Contents\" class=\"noprint\">\n<h3>Contents</h3>\n<ol>\n");
    if !input.claims.is_empty() {
        out += "<li><a href=\"#claims\">The paper's claims</a></li>\n";
    }
    for (experiment, id) in input.experiments.iter().zip(ids) {
        let name = if experiment.place.is_empty() { heading(experiment) } else { &experiment.place };
        let _ = writeln!(out, "<li><a href=\"#{id}\">{}</a></li>", escape(name));
    }
    out + "</ol>\n</nav>\n"
}

fn heading(experiment: &ExperimentResult) -> &str {
    if experiment.title.is_empty() { &experiment.experiment } else { &experiment.title }
}

fn section(experiment: &ExperimentResult, id: &str, slots: &Slots) -> String {
    let mut out = format!("<section id=\"{id}\">\n<h2>{}</h2>\n", escape(heading(experiment)));
    let place =
        if experiment.place.is_empty() || experiment.place.starts_with("beyond") { "" } else { "in the paper: " };
    let scenario =
        if experiment.scenario.is_empty() { String::new() } else { format!("scenario {}", experiment.scenario) };
    let quick = if experiment.quick { "quick: fewer and smaller cells than in the paper" } else { "" };
    let parts = [experiment.experiment.clone(), format!("{place}{}", experiment.place), scenario, quick.into()];
    let parts: Vec<String> = parts.into_iter().filter(|p| !p.is_empty()).collect();
    let _ = writeln!(out, "<p class=\"where\">{}</p>", escape(&parts.join(" · ")));
    out += &paragraphs(&experiment.about, "about");

    let drawings = figure::drawings(experiment, slots);
    for (i, drawing) in drawings.iter().enumerate() {
        out += &figure_html(drawing, &format!("{id}-{}", i + 1));
    }
    if experiment.cells.is_empty() && experiment.curves.is_empty() {
        out += "<p class=\"note\">No run of this experiment has finished.</p>\n";
    }
    out += "<div class=\"tools\">\n";
    if !experiment.command.is_empty() {
        out += &command(&experiment.command, id);
    }
    let mut data = String::new();
    if !experiment.cells.is_empty() {
        let name = format!("{id}-cells");
        let _ = writeln!(
            out,
            "<a class=\"button noprint\" href=\"#{id}\" download=\"{name}.csv\" data-csv=\"csv-{name}\">\
             Numbers (CSV)</a>"
        );
        let _ = writeln!(data, "<template id=\"csv-{name}\">{}</template>", escape(&csv::cells(experiment)));
    }
    if !experiment.curves.is_empty() {
        out += &points_as_drawn(id);
    }
    out += "</div>\n";
    let table = table::cells(experiment);
    if !table.is_empty() {
        let open = if drawings.is_empty() || experiment.cells.len() <= 200 { " open" } else { "" };
        let _ = write!(out, "<details{open}>\n<summary>The numbers</summary>\n{table}</details>\n");
    }
    out += &table::ranks(experiment);
    out + &data + "</section>\n"
}

/// Renders a button that saves the points of a section's charts; the page's script reads them from the charts.
fn points_as_drawn(id: &str) -> String {
    format!("<a class=\"button noprint\" href=\"#{id}\" download=\"{id}.csv\" data-drawn>Points as drawn (CSV)</a>\n")
}

fn figure_html(drawing: &Drawing, id: &str) -> String {
    let mut out = String::from("<div class=\"drawing\">\n");
    if drawing.series.iter().any(|(name, _)| name != MEASURED) {
        out += "<div class=\"legend\" role=\"group\" aria-label=\"Series: press to hide or show\">\n";
        for (name, slot) in &drawing.series {
            let _ = writeln!(
                out,
                "<button type=\"button\" aria-pressed=\"true\" data-slot=\"{slot}\" style=\"--c:var(--s{})\">{}{}\
                 </button>",
                slot % slots::COUNT,
                sample(*slot, drawing.form),
                escape(name)
            );
        }
        let toggle = |name: &str, text: &str| {
            format!(
                "<button type=\"button\" class=\"toggle noprint\" aria-pressed=\"false\" data-toggle=\"{name}\">\
                 {text}</button>\n"
            )
        };
        if drawing.panels.iter().any(|p| p.log_span.is_some()) {
            out += &toggle("log", "Logarithmic scale");
        }
        if drawing.form == SeriesStyle::Thin {
            out += &toggle("split", "Separate charts");
        }
        out += "</div>\n";
    }
    out += &key(drawing);
    out += if drawing.wide { "<div class=\"panels wide\">\n" } else { "<div class=\"panels\">\n" };
    for (i, panel) in drawing.panels.iter().enumerate() {
        let name = format!("{id}-{}", i + 1);
        let caption = escape(&panel.caption);
        let y = panel.chart["y"]["title"].as_str().unwrap_or_default();
        let x = panel.chart["x"]["title"].as_str().unwrap_or_default();
        let said =
            escape(&format!("Chart: {}. {y} against {x}. The numbers are in the table or the CSV.", panel.caption));
        let _ = writeln!(
            out,
            "<figure>{}<div class=\"chart\" id=\"chart-{name}\" data-spec=\"spec-{name}\" role=\"img\" \
             aria-label=\"{said}\"></div>\
             <script type=\"application/json\" id=\"spec-{name}\">{}</script></figure>",
            if caption.is_empty() { String::new() } else { format!("<figcaption>{caption}</figcaption>") },
            json(&panel.chart)
        );
    }
    out += "</div>\n";
    if !drawing.note.is_empty() {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&drawing.note));
    }
    out + "</div>\n"
}

/// Renders the meaning of filled and open markers.
fn key(drawing: &Drawing) -> String {
    if !drawing.published && !drawing.intervals {
        return String::new();
    }
    let (measured, published) = match drawing.form {
        SeriesStyle::Bar => (
            "<rect x=\"4\" y=\"3\" width=\"10\" height=\"11\" fill=\"currentColor\" opacity=\".6\"/>",
            "<path d=\"M9 2L14 7L9 12L4 7Z\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.6\"/>",
        ),
        _ => (
            "<circle cx=\"9\" cy=\"7\" r=\"3.6\" fill=\"currentColor\"/>",
            "<circle cx=\"9\" cy=\"7\" r=\"4.4\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.6\"/>",
        ),
    };
    let item = |mark: &str, text: &str| {
        format!(
            "<span><svg width=\"18\" height=\"14\" viewBox=\"0 0 18 14\" aria-hidden=\"true\">{mark}</svg>{text}</span>"
        )
    };
    let interval = if drawing.intervals { "measured mean, with its 95 % confidence interval" } else { "measured" };
    let mut out = String::from("<div class=\"key\">");
    out += &item(measured, interval);
    if drawing.published {
        out += &item(published, "published");
    }
    out + "</div>\n"
}
