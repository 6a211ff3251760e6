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

/// Maximum number of dialogues in sentences and tables, and of points of a curve.
const DESCRIBED: usize = 16;
const DRAWN: usize = 400;

const fn side(side: Side) -> &'static str {
    match side {
        Side::Evcc => "vehicle",
        Side::Secc => "charger",
    }
}

fn title(dialogue: &JudgedDialogue) -> String {
    match dialogue.kind {
        DialogueKind::Slac => format!("SLAC of {}", dialogue.vehicle),
        DialogueKind::Discovery => format!("Discovery by {} without a session", dialogue.vehicle),
        DialogueKind::Session => format!("Session of {}", dialogue.vehicle),
    }
}

/// Returns the limits that were exceeded in sentences.
pub(super) fn sentences(all: &[JudgedDialogue]) -> Vec<String> {
    let mut out: Vec<String> = all.iter().take(DESCRIBED).map(sentence).collect();
    let more = all.get(DESCRIBED..).unwrap_or_default();
    if !more.is_empty() {
        let late = total(more.iter().flat_map(|dialogue| &dialogue.deadlines).map(Deadline::late));
        out.push(format!("{} more charging dialogues are not listed; {late} of their times are late.", more.len()));
    }
    out
}

fn sentence(dialogue: &JudgedDialogue) -> String {
    let count = |of: fn(&Deadline) -> u64| total(dialogue.deadlines.iter().map(of));
    let (late, silent) = (count(Deadline::late), count(|d| d.unanswered));
    let answers = count(|d| d.answers.len() as u64);
    let exceeded = dialogue.deadlines.iter().filter(|d| d.late() > 0).map(|d| {
        let number = format!("{} of {}", d.late(), d.answers.len());
        format!(
            "{} at the {} {number} above {} ms ({})",
            d.message,
            side(d.side),
            three(d.limit.as_millis_f64()),
            d.timer
        )
    });
    let exceeded: Vec<String> = exceeded.collect();
    let mut text = match (answers, late) {
        (0, _) => format!("{}: no time was measured", title(dialogue)),
        (_, 0) => format!("{}: all {answers} times are within the limits", title(dialogue)),
        _ => format!("{}: {late} of {answers} times exceed a limit: {}", title(dialogue), exceeded.join("; ")),
    };
    if silent > 0 {
        text += &format!("; requests without a response: {silent}");
    }
    if dialogue.gaps > 0 {
        text += &format!("; the capture lacks segments at {} places, so messages may be missing", dialogue.gaps);
    }
    if dialogue.unknown > 0 {
        text += &format!("; {} messages of unknown kind are not judged", dialogue.unknown);
    }
    text + "."
}

/// Renders a table of limits for each dialogue.
pub(super) fn tables(all: &[JudgedDialogue]) -> String {
    let head = ["Message", "Side", "Timer", "Limit, ms", "p50, ms", "p99", "max", "Late", "Times"];
    let one = |dialogue: &JudgedDialogue| {
        let mut table = HtmlTable::new("Limits", 3, &head);
        for d in &dialogue.deadlines {
            let time = |q| d.quantile(q).map(|time| number(time.as_millis_f64())).unwrap_or_default();
            let unanswered = match d.unanswered {
                0 => String::new(),
                n => format!(" <span class=\"unit\">and {n} without</span>"),
            };
            table.rows.push(vec![
                if d.message.contains('_') { broken(d.message) } else { breakable(d.message) },
                side(d.side).to_owned(),
                broken(d.timer),
                number(d.limit.as_millis_f64()),
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

/// Allows a line break after each underscore, for narrow screens.
fn broken(name: &str) -> String {
    name.replace('_', "_<wbr>")
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
        let named = curves.iter().map(|(name, points)| ((*name).to_owned(), &points[..]));
        Chart::new(caption, "% of the limit", named).close_up()
    });
    let about = "From the capture: the time of each response as a share of its limit, at either end of the cable, in \
                 the first session and the first run of SLAC.";
    over_time(run, "limits", "Responses and their limits", about, charts.collect())
}

/// Returns the shares of the limits at both sides, %, and the limit. Of many, those nearest to the limit or above it.
fn curves<'a>(deadlines: impl Iterator<Item = &'a Deadline> + Clone) -> [(&'static str, Vec<CurvePoint>); 3] {
    let [vehicle, charger] = Side::BY_END.map(|side| {
        let of_side = deadlines.clone().filter(move |d| d.side == side);
        let mut shares: Vec<(Time, f64)> = of_side
            .flat_map(|d| {
                d.answers.iter().map(|a| (a.at, 100.0 * a.took.as_millis_f64() / d.limit.as_millis_f64().max(1e-6)))
            })
            .collect();
        shares.sort_by_key(|share| share.0);
        let chunks = shares.chunks(shares.len().div_ceil(DRAWN).max(1));
        let worst = chunks.filter_map(|chunk| chunk.iter().max_by(|a, b| a.1.total_cmp(&b.1)));
        worst.map(|(at, share)| (at.as_secs_f64(), Some(*share))).collect::<Vec<CurvePoint>>()
    });
    let limit = [&vehicle, &charger].into_iter().flatten().map(|point| (point.0, Some(100.0))).collect();
    let mut all = [("vehicle", vehicle), ("charger", charger), ("limit", limit)];
    all[2].1.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}
