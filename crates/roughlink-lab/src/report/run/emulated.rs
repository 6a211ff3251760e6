//! The parts of a report that only emulations have: conversations, lateness and run delay, changes by hand.

use super::charging;
use super::charts::{Chart, Section, over_time};
use super::tables::{HtmlTable, headed};
use super::{percent, seconds, size, three};
use crate::folder::emulation::{EmulationFolderContent, RecordedChange, Times};
use crate::folder::run::SingleRun;
use crate::report::html::{escape, number};
use roughlink_core::metrics::RttResult;
use roughlink_core::metrics::conversation::{ConversationCounters, ConversationResult};
use roughlink_core::metrics::frames::FrameCount;

/// Maximum numbers of conversations described in sentences, and of link directions drawn.
const DESCRIBED: usize = 3;
const MAX_LINKS: usize = 6;
const MAX_ROWS: usize = 200;

/// Returns the results in sentences: limits of charging, conversations, timing, end, changes.
pub(super) fn sentences(e: &EmulationFolderContent) -> Vec<String> {
    let mut out = match &e.charging {
        Ok(dialogues) => charging::sentences(dialogues),
        Err(reason) => vec![format!("Limits of charging are not judged: {reason}.")],
    };
    out.extend(describe_conversations(&e.outcome.conversations));
    out.extend(describe_timing(e));
    out.extend(describe_end(&e.outcome.ended).map(str::to_owned));
    out.extend(match e.outcome.changes.len() {
        0 => None,
        1 => Some("One link was changed by hand.".to_owned()),
        n => Some(format!("Links were changed by hand {n} times.")),
    });
    out
}

/// Returns the directions of conversations, those with the most data first.
fn directions(all: &[ConversationResult]) -> Vec<(&ConversationResult, [&str; 2], &ConversationCounters)> {
    let mut ways: Vec<_> = all.iter().flat_map(|c| c.directions().map(move |(ends, d)| (c, ends, d))).collect();
    ways.sort_by_key(|(.., d)| std::cmp::Reverse(d.carried()));
    ways
}

fn describe_conversations(all: &[ConversationResult]) -> Vec<String> {
    let ways = directions(all);
    let one = |(c, [from, to], half): &(&ConversationResult, [&str; 2], &ConversationCounters)| {
        let mut text = format!("{} from {from} to {to} delivered {}", c.protocol, size(half.carried() as f64));
        text += &half.throughput_mbps.map_or(String::new(), |rate| format!(" at {} Mbit/s", three(rate)));
        let times = [("RTT", half.rtt_ms), ("delay", half.delay_ms.filter(|_| half.retransmits.is_none()))];
        if let Some((what, t)) = times.into_iter().find_map(|(what, times)| Some((what, times?))) {
            text += &format!("; {what}: median {} ms, 99th percentile {} ms", three(t.p50), three(t.p99));
        }
        text += &half.lost.map_or(String::new(), |lost| format!("; {lost} packets lost"));
        text += &half.retransmits.map_or(String::new(), |again| format!(", {again} segments retransmitted"));
        text + "."
    };
    let mut out: Vec<String> = ways.iter().take(DESCRIBED).map(one).collect();
    let more = ways.len().saturating_sub(DESCRIBED);
    if more > 0 {
        out.push(format!("The table lists {more} more."));
    }
    out
}

fn describe_timing(e: &EmulationFolderContent) -> Option<String> {
    let within =
        |times: Option<Times>, what: &str| Some(format!("99 % of {what} at most {} us late", three(times?.p99)));
    let o = &e.outcome;
    Some(match &o.faults {
        Some(faults) if !faults.is_empty() => format!("Not in real time: {}.", faults.join("; ")),
        faults => {
            let parts = [
                within(o.lateness_us, "the packets left the network"),
                within(o.waited_us, "the packets from the nodes were read"),
                within(o.run_delay_us, "the programs' time slices began"),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            let allowed = o.max_lateness_ms.map_or(String::new(), |ms| format!(" (allowed: {} ms)", three(ms)));
            match (faults, parts.is_empty()) {
                (_, true) => return None,
                (Some(_), _) => format!("On time: {}{allowed}.", parts.join(", ")),
                (None, _) => format!("Lateness: {}.", parts.join(", ")),
            }
        }
    })
}

fn describe_end(ended: &str) -> Option<&'static str> {
    Some(match ended {
        "failed" => "The emulation ended because a program failed.",
        "interrupted" => "The emulation was interrupted.",
        "vanished" => "The emulation ended because a device vanished.",
        "exceeded" => "The emulation ended because it exceeded a limit.",
        "unwritten" => "The emulation ended because a file could not be written.",
        _ => return None,
    })
}

pub(super) fn sections(run: &SingleRun, e: &EmulationFolderContent) -> Vec<Section> {
    let talks = || e.conversations.iter();
    let throughput = Chart::new("Delivered", "Mbit/s", talks().map(|c| (c.name.clone(), &c.throughput_mbps[..])));
    let rtt = Chart::new("Smoothed RTT", "ms", talks().map(|c| (c.name.clone(), &c.srtt_ms[..])));
    let about = "The eight largest conversations at each time, by direction.";
    let talks = over_time(run, "conversations", "Conversations over time", about, vec![throughput, rtt]);
    let name = |link: &str, reverse: bool| format!("{link}{}", if reverse { ", reverse" } else { "" });
    let sent = e.sent_mbps.iter().take(MAX_LINKS);
    let sent = Chart::new("", "Mbit/s", sent.map(|(d, points)| (name(&d.link, d.reverse), &points[..])));
    let sent = over_time(run, "sent", "Rates of the links", "Rate of sent IP packets, by direction.", vec![sent]);
    let late = ["median", "99th percentile"].into_iter().zip(&e.lateness_us);
    let late = Chart::new("", "us", late.map(|(name, points)| (name.to_owned(), &points[..])));
    let about = "Lateness of packets that left the network, per 0.1 s.";
    let late = over_time(run, "lateness", "Lateness", about, vec![late]);
    let limits = e.charging.as_ref().ok().and_then(|dialogues| charging::section(run, dialogues));
    [limits, talks, sent, late].into_iter().flatten().map(wide).collect()
}

fn wide(mut section: Section) -> Section {
    section.drawing.wide = section.drawing.panels.len() == 1;
    section
}

pub(super) fn tables(e: &EmulationFolderContent) -> String {
    let tables = [
        ("Conversations", conversations(e)),
        ("Frames without IP", frames(&e.outcome.frames)),
        ("Timing", timing(e)),
        ("Changes by hand", changes(&e.outcome.changes)),
    ];
    let rest = tables.into_iter().map(|(title, table)| headed(title, &table.html()));
    let limits = e.charging.as_ref().map(|dialogues| charging::tables(dialogues)).unwrap_or_default();
    [limits].into_iter().chain(rest).collect()
}

fn conversations(e: &EmulationFolderContent) -> HtmlTable {
    let head = [
        "From",
        "To",
        "Start, s",
        "End, s",
        "Delivered, B",
        "Throughput, Mbit/s",
        "Sent, pkt",
        "In flight, pkt",
        "Lost, pkt",
        "Retransmitted",
        "RTT p50, ms",
        "p99",
        "Delay p50, ms",
        "p99",
        "Congestion control",
    ];
    let mut table = HtmlTable::new("Conversations", 2, &head);
    for (c, [from, to], half) in directions(&e.outcome.conversations).into_iter().take(MAX_ROWS) {
        let count = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
        let time = |t: Option<RttResult>, of: fn(&RttResult) -> f64| t.map(|t| number(of(&t))).unwrap_or_default();
        table.rows.push(vec![
            escape(&format!("{} {from}", c.protocol)),
            escape(to),
            seconds(c.start_s),
            seconds(c.end_s),
            count(half.delivered_bytes),
            half.throughput_mbps.map(number).unwrap_or_default(),
            count(half.sent.map(|sent| sent.packets)),
            count(half.in_flight),
            count(half.lost),
            count(half.retransmits),
            time(half.rtt_ms, |t| t.p50),
            time(half.rtt_ms, |t| t.p99),
            time(half.delay_ms, |t| t.p50),
            time(half.delay_ms, |t| t.p99),
            half.cc_and_pacing().map(|cc| escape(&cc)).unwrap_or_default(),
        ]);
    }
    table
}

fn frames(all: &[FrameCount]) -> HtmlTable {
    let mut table = HtmlTable::new("Frames without IP", 3, &["Protocol", "From", "To", "Sent", "Delivered"]);
    for c in all.iter().take(MAX_ROWS) {
        let [from, to] = [&c.from, &c.to].map(|node| node.as_deref().map(escape).unwrap_or_default());
        table.rows.push(vec![escape(&c.protocol), from, to, c.sent.to_string(), c.delivered.to_string()]);
    }
    table
}

fn changes(all: &[RecordedChange]) -> HtmlTable {
    let mut table = HtmlTable::new("Changes by hand", 7, &["At", "Link", "Direction", "Up", "Rate", "Delay", "Noise"]);
    for c in all.iter().take(MAX_ROWS) {
        let text = |text: &Option<String>| text.as_deref().map(escape).unwrap_or_default();
        let noise = |noise: &crate::folder::emulation::ChangedNoise| match &noise.loss {
            Some(loss) => escape(&format!("{} {loss}", noise.kind)),
            None => escape(&noise.kind),
        };
        table.rows.push(vec![
            escape(&c.at),
            escape(&c.link),
            c.direction.as_deref().map_or_else(|| "both".into(), escape),
            c.up.map(|up| if up { "yes" } else { "no" }.to_owned()).unwrap_or_default(),
            text(&c.rate),
            text(&c.delay),
            c.noise.as_ref().map(noise).unwrap_or_default(),
        ]);
    }
    table
}

pub(super) fn facts(run: &SingleRun, e: &EmulationFolderContent) -> Vec<String> {
    let mut facts = vec![format!("{} s emulated in real time", seconds(run.result.sim_s))];
    if !e.about.kernel.is_empty() {
        facts.push(format!("Linux {}", e.about.kernel));
    }
    facts
}

fn timing(e: &EmulationFolderContent) -> HtmlTable {
    let mut table = HtmlTable::new("Timing", 1, &["", "p50, us", "p99, us", "max, us", "Over 1 ms"]);
    let o = &e.outcome;
    let all =
        [("Lateness", o.lateness_us), ("Wait before reading", o.waited_us), ("Run delay of programs", o.run_delay_us)];
    for (name, times) in all.into_iter().filter_map(|(name, times)| Some((name, times?))) {
        let row = [times.p50, times.p99, times.max].map(number);
        table.rows.push([vec![name.to_owned()], row.into(), vec![percent(times.over_1ms)]].concat());
    }
    table
}
