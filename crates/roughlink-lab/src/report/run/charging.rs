//! The parts of a report about charging dialogues in the capture of an emulation: sentences, tables, and charts of the
//! response times beside their limits.

use super::charts::{Chart, Section, over_time};
use super::tables::{HtmlTable, breakable, headed, late_answers};
use super::{three, total};
use crate::charging::{Deadline, DialogueKind, JudgedDialogue};
use crate::folder::run::SingleRun;
use crate::report::html::{escape, number};
use crate::report::thin::CurvePoint;
use roughlink_core::app::request::Side;
use roughlink_core::units::Time;

/// Maximum number of dialogues in sentences and tables.
const DESCRIBED: usize = 16;

fn ms(time: Time) -> f64 {
    time.as_secs_f64() * 1e3
}

const fn side(side: Side) -> &'static str {
    match side {
        Side::Evcc => "vehicle",
        Side::Secc => "charger",
    }
}

fn title(dialogue: &JudgedDialogue) -> String {
    match dialogue.kind {
        DialogueKind::Slac => format!("SLAC of {}", dialogue.vehicle),
        DialogueKind::Session => format!("Session of {}", dialogue.vehicle),
    }
}

/// Returns the limits that were exceeded in sentences.
pub(super) fn sentences(all: &[JudgedDialogue]) -> Vec<String> {
    all.iter().take(DESCRIBED).map(sentence).collect()
}

fn sentence(dialogue: &JudgedDialogue) -> String {
    let count = |of: fn(&Deadline) -> u64| total(dialogue.deadlines.iter().map(of));
    let (late, silent) = (count(Deadline::late), count(|d| d.unanswered));
    let answers = count(|d| d.answers.len() as u64);
    let exceeded = dialogue.deadlines.iter().filter(|d| d.late() > 0).map(|d| {
        let number = format!("{} of {}", d.late(), d.answers.len());
        format!("{} at the {} {number} above {} ms ({})", d.message, side(d.side), three(ms(d.limit)), d.timer)
    });
    let exceeded: Vec<String> = exceeded.collect();
    let mut text = match late {
        0 => format!("{}: all {answers} times are within the limits", title(dialogue)),
        _ => format!("{}: {late} of {answers} times exceed a limit: {}", title(dialogue), exceeded.join("; ")),
    };
    if silent > 0 {
        text += &format!("; {silent} requests have no response");
    }
    if dialogue.unknown > 0 {
        text += &format!("; {} messages of unknown kind are not judged", dialogue.unknown);
    }
    text + "."
}

/// Renders a table of limits for each dialogue.
pub(super) fn tables(all: &[JudgedDialogue]) -> String {
    let head = ["Message", "Side", "Limit", "ms", "p50, ms", "p99", "max", "Late", "Times"];
    let one = |dialogue: &JudgedDialogue| {
        let mut table = HtmlTable::new("Limits", 3, &head);
        for d in &dialogue.deadlines {
            let time = |q| d.quantile(q).map(|time| number(ms(time))).unwrap_or_default();
            let unanswered = match d.unanswered {
                0 => String::new(),
                n => format!(" <span class=\"unit\">and {n} without</span>"),
            };
            table.rows.push(vec![
                breakable(d.message),
                side(d.side).to_owned(),
                d.timer.replace('_', "_<wbr>"),
                number(ms(d.limit)),
                time(0.5),
                time(0.99),
                time(1.0),
                late_answers(d.late()),
                format!("{}{unanswered}", d.answers.len()),
            ]);
        }
        headed(&escape(&title(dialogue)), &table.html())
    };
    all.iter().take(DESCRIBED).map(one).collect()
}

/// Returns the charts of the first session and of the first run of SLAC.
pub(super) fn section(run: &SingleRun, all: &[JudgedDialogue]) -> Option<Section> {
    let first = |kind| all.iter().find(|d| d.kind == kind).into_iter().flat_map(|d| &d.deadlines);
    let is_loop = |d: &&Deadline| ["CurrentDemand", "ChargingStatus"].contains(&d.message);
    let panels = [
        ("Charging loop", curves(first(DialogueKind::Session).filter(is_loop))),
        ("Other messages of the session", curves(first(DialogueKind::Session).filter(|d| !is_loop(d)))),
        ("SLAC", curves(first(DialogueKind::Slac))),
    ];
    let charts = panels.iter().map(|(caption, curves)| {
        Chart::new(caption, "ms", curves.iter().map(|(name, points)| ((*name).to_owned(), &points[..])))
    });
    let both = [DialogueKind::Session, DialogueKind::Slac];
    let several = both.into_iter().any(|kind| all.iter().filter(|d| d.kind == kind).count() > 1);
    let which = if several { " The first vehicle; the tables have all." } else { "" };
    let about = format!("From the capture: times of responses at either end of the cable, and their limits.{which}");
    over_time(run, "limits", "Responses and their limits", &about, charts.collect())
}

/// Returns times and limits of each side over time.
fn curves<'a>(deadlines: impl Iterator<Item = &'a Deadline> + Clone) -> [(&'static str, Vec<CurvePoint>); 4] {
    let points = |side: Side, value: fn(&Deadline, Time) -> Time| {
        let of_side = deadlines.clone().filter(move |d| d.side == side);
        let mut points: Vec<CurvePoint> = of_side
            .flat_map(|d| d.answers.iter().map(move |a| (a.at.as_secs_f64(), Some(ms(value(d, a.took))))))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    [
        ("vehicle", points(Side::Evcc, |_, took| took)),
        ("limit of the vehicle", points(Side::Evcc, |d, _| d.limit)),
        ("charger", points(Side::Secc, |_, took| took)),
        ("limit of the charger", points(Side::Secc, |d, _| d.limit)),
    ]
}
