//! The tables of a run: the answer for each kind of flow, and all numbers.

use super::answer::{flows_of_kind, outcome, satisfaction, timeout};
use super::{percent, seconds, size, three, total};
use crate::folder::run::{SingleRun, StayDeliveries};
use crate::report::html::{escape, number};
use roughlink_core::app::request::SessionResult;
use roughlink_core::metrics::{DirectionResult, FlowResult, RttResult};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of sessions whose message tables are unfolded.
const OPEN: usize = 2;

pub(super) struct HtmlTable {
    label: &'static str,
    head: Vec<&'static str>,
    /// Number of leading columns with text.
    text: usize,
    pub(super) rows: Vec<Vec<String>>,
}

impl HtmlTable {
    pub(super) fn new(label: &'static str, text: usize, head: &[&'static str]) -> Self {
        HtmlTable { label, head: head.to_vec(), text, rows: Vec::new() }
    }

    /// Renders the table. Cells are markup; the first one names the row.
    pub(super) fn html(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let tall = if self.rows.len() > 16 { " tall" } else { "" };
        let class = |i: usize| if i < self.text { "" } else { " class=\"num\"" };
        let mut out = format!(
            "<div class=\"scroll{tall}\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n\
             <table class=\"run\">\n<thead><tr>",
            self.label
        );
        for (i, head) in self.head.iter().enumerate() {
            out += &format!("<th scope=\"col\"{}>{head}</th>", class(i));
        }
        out += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            out += "<tr>";
            for (i, cell) in row.iter().enumerate() {
                out += &match i {
                    0 => format!("<th scope=\"row\">{cell}</th>"),
                    _ => format!("<td{}>{cell}</td>", class(i)),
                };
            }
            out += "</tr>\n";
        }
        out + "</tbody>\n</table>\n</div>\n"
    }
}

/// Renders the results, with a table for each kind of flow in the run.
pub(super) fn kind_tables(run: &SingleRun) -> String {
    let tables = [sessions(run), calls(run), exchanges(run), transfers(run), stays(run)];
    tables.into_iter().map(|(title, table)| headed(title, &table)).collect()
}

pub(super) fn headed(title: &str, table: &str) -> String {
    if table.is_empty() { String::new() } else { format!("<h3>{title}</h3>\n{table}") }
}

fn sessions(run: &SingleRun) -> (&'static str, String) {
    let all: Vec<(&FlowResult, &SessionResult)> =
        flows_of_kind(run, "request").into_iter().filter_map(|f| Some((f, f.session()?))).collect();
    let one = |(f, s): &(&FlowResult, &SessionResult)| messages(run, f, s);
    match all.as_slice() {
        [] => ("", String::new()),
        [only] => ("Answer times and limits, ms", one(only)),
        _ => {
            let mut table = HtmlTable::new(
                "Charging sessions",
                2,
                &["Session", "Outcome", "Loop p50, ms", "p99", "max", "Time-out", "Too late", "Answers"],
            );
            for (f, s) in &all {
                let answers = total(s.messages.iter().map(|m| m.count));
                let mut row = vec![escape(&f.name), outcome(s).to_owned()];
                match s.charging_loop().and_then(|m| Some((m, m.latency_ms?))) {
                    Some((m, l)) => row.extend([l.p50, l.p99, l.max, timeout(run, &f.name, m.message)].map(number)),
                    None => row.extend([const { String::new() }; 4]),
                }
                row.extend([late_answers(total(s.messages.iter().map(|m| m.violations))), answers.to_string()]);
                table.rows.push(row);
            }
            let mut out = table.html();
            for (i, (f, s)) in all.iter().enumerate() {
                let open = if all.len() <= OPEN && i == 0 { " open" } else { "" };
                out += &format!(
                    "<details{open}>\n<summary>Answers of {}</summary>\n{}</details>\n",
                    escape(&f.name),
                    messages(run, f, s)
                );
            }
            ("Charging sessions", out)
        }
    }
}

fn messages(run: &SingleRun, f: &FlowResult, s: &SessionResult) -> String {
    let head = ["Message", "p50", "p99", "max", "Time-out", "Too late", "Answers"];
    let mut table = HtmlTable::new("Messages", 1, &head);
    for m in &s.messages {
        let limit = timeout(run, &f.name, m.message);
        let unanswered = if m.requests > m.count {
            format!(" <span class=\"unit\">of {}</span>", m.requests)
        } else {
            String::new()
        };
        let mut row = vec![breakable(&format!("{:?}", m.message))];
        match m.latency_ms {
            Some(l) => row.extend([l.p50, l.p99, l.max].map(number)),
            None => row.extend([const { String::new() }; 3]),
        }
        row.extend([number(limit), late_answers(m.violations), format!("{}{unanswered}", m.count)]);
        table.rows.push(row);
    }
    table.html()
}

/// Allows a line break between the words of `CurrentDemand`, for narrow screens.
pub(super) fn breakable(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out += "<wbr>";
        }
        out.push(c);
    }
    out
}

/// Formats the number of late answers; numbers above zero are marked.
pub(super) fn late_answers(n: u64) -> String {
    if n == 0 { "0".into() } else { format!("<span class=\"verdict no\">{n}</span>") }
}

fn calls(run: &SingleRun) -> (&'static str, String) {
    let head =
        ["Call", "Receiver", "Users", "MOS", "R", "Lost or late", "Delay p50, ms", "p99, ms", "Mouth-to-ear delay, ms"];
    let mut table = HtmlTable::new("Calls", 3, &head);
    for f in flows_of_kind(run, "voip") {
        for (end, v) in ["far end", "near end"].into_iter().zip(f.voip().into_iter().flatten()) {
            let optional = |x: Option<f64>| x.map(number).unwrap_or_default();
            table.rows.push(vec![
                escape(&f.name),
                end.to_owned(),
                v.r.map_or("", satisfaction).to_owned(),
                v.mos.map_or(String::new(), |m| format!("{m:.2}")),
                v.r.map_or(String::new(), |r| format!("{r:.1}")),
                v.loss.map_or(String::new(), percent),
                optional(v.delay_ms.map(|d| d.p50)),
                optional(v.delay_ms.map(|d| d.p99)),
                optional(v.mouth_to_ear_ms),
            ]);
        }
    }
    ("Calls", table.html())
}

fn exchanges(run: &SingleRun) -> (&'static str, String) {
    let head = ["Flow", "Of", "Sent", "Arrived", "Latency p50, ms", "p95, ms", "p99, ms", "max, ms"];
    let mut table = HtmlTable::new("Requests and messages", 2, &head);
    for (f, e) in run.result.flows.iter().filter_map(|f| Some((f, f.exchange()?))) {
        let latency = |value: fn(&RttResult) -> f64| e.latency_ms.as_ref().map(value).map(number).unwrap_or_default();
        let counts = [escape(&f.name), e.unit_of.into(), e.sent.to_string(), e.arrived.to_string()];
        let latencies = [latency(|l| l.p50), latency(|l| l.p95), latency(|l| l.p99), latency(|l| l.max)];
        table.rows.push(counts.into_iter().chain(latencies).collect());
    }
    ("Requests and messages", table.html())
}

fn transfers(run: &SingleRun) -> (&'static str, String) {
    let head = [
        "Transfer",
        "Algorithm",
        "Mbit/s",
        "Delivered",
        "Time, s",
        "Retransmitted",
        "Time-outs",
        "RTT p50, ms",
        "p99, ms",
    ];
    let mut table = HtmlTable::new("Transfers", 2, &head);
    for f in flows_of_kind(run, "bulk").into_iter().chain(flows_of_kind(run, "onoff")) {
        let time = match (f.end_s, f.failed_s) {
            (Some(end), _) => seconds(end - f.start_s),
            (None, Some(failed)) => format!("gave up at {}", seconds(failed)),
            (None, None) if f.failed => "gave up".into(),
            (None, None) => "not finished".into(),
        };
        table.rows.push(vec![
            escape(&f.name),
            escape(f.cc.as_deref().unwrap_or_default()),
            f.throughput_mbps.map(number).unwrap_or_default(),
            size(f.delivered_bytes as f64),
            time,
            percent(f.retransmits as f64 / f.segments.max(1) as f64),
            f.timeouts.to_string(),
            f.rtt_ms.map(|r| number(r.p50)).unwrap_or_default(),
            f.rtt_ms.map(|r| number(r.p99)).unwrap_or_default(),
        ]);
    }
    ("Transfers", table.html())
}

fn stays(run: &SingleRun) -> (&'static str, String) {
    let entries = run.manifest.as_ref().map_or(&[][..], |m| &m.coverage);
    let head =
        ["Station", "Class", "From, s", "Usable for, s", "Delivered", "Mean rate, Mbit/s", "First data after, s"];
    let mut table = HtmlTable::new("Coverage", 2, &head);
    let bulk: BTreeSet<&str> = flows_of_kind(run, "bulk").iter().map(|f| &*f.name).collect();
    let transfers: Vec<_> = run.flows.iter().filter(|c| bulk.contains(&*c.flow)).collect();
    let end = run.result.sim_s;
    let mut all: BTreeMap<usize, StayDeliveries> = BTreeMap::new();
    for (number, here) in transfers.iter().flat_map(|c| &c.stays) {
        let sum = all.entry(*number).or_default();
        sum.bytes += here.bytes;
        sum.first_s = sum.first_s.into_iter().chain(here.first_s).reduce(f64::min);
    }
    for (i, stay) in entries.iter().enumerate().filter(|(_, s)| s.from_s < end && !transfers.is_empty()) {
        let StayDeliveries { bytes, first_s } = all.get(&i).copied().unwrap_or_default();
        let usable = stay.until_s.min(end) - stay.from_s;
        table.rows.push(vec![
            escape(&stay.station),
            escape(&stay.class),
            seconds(stay.from_s),
            seconds(usable),
            size(bytes),
            number(bytes * 8e-6 / usable),
            first_s.map_or("none".into(), number),
        ]);
    }
    ("Transfers by stay in coverage", table.html())
}

/// Renders all numbers of flows, links and gateways.
pub(super) fn all(run: &SingleRun) -> String {
    let details = |title: &str, table: HtmlTable| match table.html() {
        table if table.is_empty() => String::new(),
        table => format!("<details>\n<summary>{title}</summary>\n{table}</details>\n"),
    };
    details("Flows", flows(run)) + &details("Links", links(run)) + &details("Gateways", gateways(run))
}

fn flows(run: &SingleRun) -> HtmlTable {
    let head = [
        "Flow",
        "Kind",
        "Start, s",
        "End, s",
        "Delivered, B",
        "Throughput, Mbit/s",
        "Segments",
        "Retransmitted",
        "Fast recoveries",
        "Time-outs",
        "Undone",
        "RTT min, ms",
        "mean",
        "p50",
        "p95",
        "p99",
        "max",
        "Delay p50, ms",
        "p95",
        "p99",
    ];
    let mut table = HtmlTable::new("Flows", 2, &head);
    for f in &run.result.flows {
        let mut row = vec![
            escape(&f.name),
            escape(&f.kind),
            seconds(f.start_s),
            f.end_s.map(seconds).unwrap_or_default(),
            f.delivered_bytes.to_string(),
            f.throughput_mbps.map(number).unwrap_or_default(),
        ];
        row.extend([f.segments, f.retransmits, f.fast_recoveries, f.timeouts, f.undos].map(|n| n.to_string()));
        let rtt = f.rtt_ms.map(|r| [r.min, r.mean, r.p50, r.p95, r.p99, r.max].map(number));
        row.extend(rtt.unwrap_or_default());
        row.extend(f.delay_ms.map(|d| [d.p50, d.p95, d.p99].map(number)).unwrap_or_default());
        table.rows.push(row);
    }
    table
}

fn links(run: &SingleRun) -> HtmlTable {
    let head = [
        "Link",
        "Direction",
        "Packets",
        "Bytes",
        "Lost",
        "Loss",
        "Dropped",
        "Queue mean, pkt",
        "max, pkt",
        "Queueing delay p50, ms",
        "p95",
        "p99",
    ];
    let mut table = HtmlTable::new("Links", 2, &head);
    for l in &run.result.links {
        for (direction, d) in [("forward", &l.forward), ("reverse", &l.reverse)] {
            let d: &DirectionResult = d;
            let mut row = vec![
                escape(&l.name),
                direction.to_owned(),
                d.packets.to_string(),
                d.bytes.to_string(),
                d.lost.to_string(),
                d.loss.map_or(String::new(), percent),
                d.dropped.to_string(),
                three(d.queue_mean_pkt),
                d.queue_max_pkt.to_string(),
            ];
            row.extend(d.queue_delay_ms.map(|q| [q.p50, q.p95, q.p99].map(number)).unwrap_or_default());
            table.rows.push(row);
        }
    }
    table
}

fn gateways(run: &SingleRun) -> HtmlTable {
    let head =
        ["Gateway", "Flow", "State", "RTT, ms", "Rewritten", "Window, SDU", "Capacity, SDU", "RTT / smallest RTT"];
    let mut table = HtmlTable::new("Gateways", 3, &head);
    for g in &run.result.gateways {
        let ended = g.ended.iter().map(|f| (f, "ended"));
        for (f, state) in g.flows.iter().map(|f| (f, "open")).chain(ended) {
            table.rows.push(vec![
                escape(&g.name),
                escape(&f.flow),
                state.to_owned(),
                f.rtt_ms.map(number).unwrap_or_default(),
                f.rewritten.to_string(),
                f.awnd_sdu.map(number).unwrap_or_default(),
                f.sample_sdu.map(number).unwrap_or_default(),
                f.rho.map(number).unwrap_or_default(),
            ]);
        }
    }
    table
}
