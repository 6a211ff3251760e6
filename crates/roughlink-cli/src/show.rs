//! Results as tables for people.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use roughlink_core::app::request::SessionResult;
use roughlink_core::metrics::{DelayResult, RunResult};
use roughlink_lab::experiment::claims::tally;
use roughlink_lab::experiment::result::{Cell, ClaimResult, ExperimentResult};
use roughlink_lab::statistics::difference;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::IsTerminal as _;

/// An empty table with a heading.
pub fn table(heading: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(PLAIN).set_content_arrangement(ContentArrangement::Dynamic);
    if !std::io::stdout().is_terminal() {
        table.set_width(WIDTH);
    }
    table.set_header(heading);
    table
}

/// Width of tables that go into a file or a pipe.
const WIDTH: u16 = 180;

/// A rule below the heading and nothing else.
const PLAIN: TableStyle = TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));

/// Aligns all columns but the first `text` to the right.
fn numbers(table: &mut Table, text: usize) {
    for column in table.column_iter_mut().skip(text) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// One run.
pub fn run(r: &RunResult) -> String {
    let mut out = format!("{} (seed {}, replica {})\n", r.name, r.seed, r.replica);
    let mut flows = table(&[
        "flow",
        "cc",
        "Mbit/s",
        "delivered",
        "time",
        "retransmits",
        "fast rec.",
        "time-outs",
        "RTT mean",
        "p95",
        "p99",
    ]);
    for f in &r.flows {
        let rtt = |value: fn(&roughlink_core::metrics::RttResult) -> f64| {
            f.rtt_ms.as_ref().map_or("-".into(), |r| format!("{:.1} ms", value(r)))
        };
        let end = match (f.end_s, f.failed) {
            (Some(end), _) => format!("{} s", digits(end - f.start_s)),
            (None, true) => "gave up".into(),
            (None, false) => "not done".into(),
        };
        flows.add_row([
            f.name.clone(),
            f.cc.clone().unwrap_or_else(|| f.kind.clone()),
            f.throughput_mbps.map_or("-".into(), digits),
            size(f.delivered_bytes),
            end,
            f.retransmits.to_string(),
            f.fast_recoveries.to_string(),
            f.timeouts.to_string(),
            rtt(|r| r.mean),
            rtt(|r| r.p95),
            rtt(|r| r.p99),
        ]);
    }
    numbers(&mut flows, 2);
    let mut links = table(&["link", "direction", "packets", "bytes", "lost", "loss", "dropped", "queue mean", "max"]);
    for l in &r.links {
        for (direction, d) in [("forward", &l.forward), ("reverse", &l.reverse)] {
            links.add_row([
                l.name.clone(),
                direction.into(),
                d.packets.to_string(),
                size(d.bytes),
                d.lost.to_string(),
                d.loss.map_or("-".into(), |loss| format!("{:.2} %", loss * 100.0)),
                d.dropped.to_string(),
                format!("{:.1}", d.queue_mean_pkt),
                d.queue_max_pkt.to_string(),
            ]);
        }
    }
    numbers(&mut links, 2);
    let _ = writeln!(out, "{flows}\n{links}");
    for (name, result) in r.flows.iter().filter_map(|f| Some((&f.name, f.session.as_ref()?))) {
        out += &session(name, result);
    }
    for table in [calls(r), gateways(r)].into_iter().flatten() {
        let _ = writeln!(out, "{table}");
    }
    let jain = r.jain.filter(|_| r.flows.len() > 1).map_or(String::new(), |j| format!(", Jain's index {j:.3}"));
    let wall = if r.wall_s < 0.01 { format!("{:.1} ms", r.wall_s * 1e3) } else { format!("{:.2} s", r.wall_s) };
    let _ = writeln!(out, "{} s simulated in {wall}, {} events{jain}", digits(r.sim_s), r.events);
    out
}

/// How a charging session went, and how long its messages took.
fn session(name: &str, s: &SessionResult) -> String {
    let mut out = format!("session {name}: {}", word(&s.outcome));
    if let Some(end) = s.end_s {
        let _ = write!(out, " at {} s", digits(end));
    }
    if let Some(cause) = s.cause {
        let _ = write!(out, " because of {}", word(&cause));
    }
    if let Some(setup) = s.setup_ms {
        let _ = write!(out, ", set up in {setup:.0} ms");
    }
    let passed: Vec<String> = s.violations.iter().map(|(limit, n)| format!("{} {n}", word(limit))).collect();
    let first = s.first_violation_s.map_or(String::new(), |at| format!(", the first at {} s", digits(at)));
    let passed = if passed.is_empty() { "none".into() } else { passed.join(", ") };
    let _ = writeln!(out, "; limits passed: {passed}{first}; survived: {}", if s.survived { "yes" } else { "no" });
    let mut table = table(&["message", "requests", "answered", "median", "p95", "p99", "longest", "too late"]);
    for m in &s.messages {
        let latency = |value: fn(&DelayResult) -> f64| {
            m.latency_ms.as_ref().map_or("-".into(), |l| format!("{:.1} ms", value(l)))
        };
        table.add_row([
            word(&m.message),
            m.requests.to_string(),
            m.count.to_string(),
            latency(|l| l.p50),
            latency(|l| l.p95),
            latency(|l| l.p99),
            latency(|l| l.max),
            m.violations.to_string(),
        ]);
    }
    numbers(&mut table, 1);
    out + &format!("{table}\n")
}

/// A word of the results, for people.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(|v| v.replace('_', " "))).unwrap_or_default()
}

/// What was heard, if somebody called.
fn calls(r: &RunResult) -> Option<Table> {
    let mut calls = table(&["call", "heard at", "R", "MOS", "delay p50", "p95", "p99", "above 150 ms", "lost or late"]);
    for f in &r.flows {
        for (place, heard) in f.voip.iter().flat_map(|both| ["the far end", "the near end"].into_iter().zip(&**both)) {
            let share = |x: Option<f64>| x.map_or("-".into(), |x| format!("{:.2} %", x * 100.0));
            let delay = |value: fn(&DelayResult) -> f64| {
                heard.delay_ms.as_ref().map_or("-".into(), |d| format!("{:.1} ms", value(d)))
            };
            calls.add_row([
                f.name.clone(),
                place.into(),
                heard.r.map_or("-".into(), |r| format!("{:.1}", r.max(0.0))), // the scale ends at 0
                heard.mos.map_or("-".into(), |mos| format!("{mos:.2}")),
                delay(|d| d.p50),
                delay(|d| d.p95),
                delay(|d| d.p99),
                share(heard.over_150ms),
                share(heard.loss),
            ]);
        }
    }
    numbers(&mut calls, 2);
    (calls.row_count() > 0).then_some(calls)
}

/// What gateways allowed at the end, if there are any.
fn gateways(r: &RunResult) -> Option<Table> {
    let mut gateways = table(&["gateway", "flow", "RTT", "window", "of at most", "rho", "rewritten"]);
    for g in &r.gateways {
        for f in &g.flows {
            let number = |x: Option<f64>, unit: &str| x.map_or("-".into(), |x| format!("{x:.1}{unit}"));
            gateways.add_row([
                g.name.clone(),
                f.flow.clone(),
                number(f.rtt_ms, " ms"),
                number(f.awnd_sdu, " pkt"),
                number(f.sample_sdu, " pkt"),
                number(f.rho, ""),
                f.rewritten.to_string(),
            ]);
        }
    }
    numbers(&mut gateways, 2);
    (gateways.row_count() > 0).then_some(gateways)
}

/// An experiment: published, measured and their ratio, a column for each stack.
pub fn experiment(e: &ExperimentResult) -> String {
    let place = if e.place.is_empty() { String::new() } else { format!(" ({})", e.place) };
    let mut out = format!("\n{}: {}{place}\n", e.experiment, e.title);
    if !e.cells.is_empty() {
        let _ = writeln!(out, "{}", cells(e));
    }
    for rank in &e.ranks {
        let at: Vec<String> = rank.at.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        let at = if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) };
        let stack = if rank.stack.is_empty() { String::new() } else { format!("{}: ", rank.stack) };
        let _ =
            writeln!(out, "{stack}order of the {} values of {}{at}: Spearman {:.3}", rank.n, rank.over, rank.spearman);
    }
    if !e.curves.is_empty() {
        let _ = writeln!(out, "{}", curves(e));
    }
    out
}

fn cells(e: &ExperimentResult) -> Table {
    let published = e.cells.iter().any(|c| c.published.is_some());
    let several = e.cells.iter().any(|c| c.metric != e.cells[0].metric);
    let mut heading: Vec<String> = e.axes.iter().map(|a| a.label.clone()).collect();
    if several {
        heading.push("metric".into());
    }
    let text = heading.len();
    if published {
        heading.push("published".into());
    }
    for stack in &e.stacks {
        heading.push(if stack.is_empty() { "measured ± 95 %".into() } else { format!("{stack} ± 95 %") });
        if published {
            heading.push("ratio".into());
        }
    }
    if let [only] = e.metrics.as_slice()
        && !only.unit.is_empty()
    {
        heading[text..].iter_mut().filter(|h| *h != "ratio").for_each(|h| *h += &format!("\n{}", only.unit));
    }
    let mut table = table(&heading.iter().map(String::as_str).collect::<Vec<_>>());
    for cell in e.cells.iter().filter(|c| Some(&c.stack) == e.stacks.first()) {
        let label = |a: &roughlink_lab::experiment::result::AxisResult| {
            let value = cell.axes.get(&a.name);
            let known = a.values.iter().find(|v| Some(&v.value) == value);
            known.map(|v| v.label.clone()).or(value.cloned()).unwrap_or_default()
        };
        let mut row: Vec<String> = e.axes.iter().map(label).collect();
        if several {
            let metric = e.metrics.iter().find(|m| m.name == cell.metric);
            row.push(metric.map_or(cell.metric.clone(), |m| match m.unit.as_str() {
                "" => m.label.clone(),
                unit => format!("{}, {unit}", m.label),
            }));
        }
        if published {
            row.push(cell.published.map_or(String::new(), |p| p.to_string()));
        }
        for stack in &e.stacks {
            let here = e
                .cells
                .iter()
                .find(|c| c.stack == *stack && c.axes == cell.axes && c.metric == cell.metric)
                .unwrap_or(cell);
            row.push(measured(here));
            if published {
                row.push(here.ratio().map_or(String::new(), |r| format!("{r:.2}")));
            }
        }
        table.add_row(row);
    }
    numbers(&mut table, text);
    table
}

/// `0.431 ± 0.012`
fn measured(cell: &Cell) -> String {
    match (cell.measured, cell.ci95) {
        (None, _) => "-".into(),
        (Some(m), None) => digits(m),
        (Some(m), Some(ci)) => format!("{} ± {}", digits(m), digits(ci)),
    }
}

/// First, middle and last value of each curve: the rest is for the report.
fn curves(e: &ExperimentResult) -> Table {
    let mut table = table(&["curve", "stack", "of", "points", "first", "middle", "last"]);
    for c in &e.curves {
        let at = |i: usize| {
            let value = c.y.get(i).copied().flatten().map_or("-".into(), digits);
            c.x.get(i).map_or("-".into(), |x| format!("{value} at {}", digits(*x)))
        };
        let n = c.x.len();
        let metric = e.metrics.iter().find(|m| m.name == c.metric);
        let what = metric.map_or(c.metric.clone(), |m| format!("{} {}", m.label, m.unit));
        table.add_row([
            c.label.clone(),
            c.stack.clone(),
            what,
            n.to_string(),
            at(0),
            at(n / 2),
            at(n.saturating_sub(1)),
        ]);
    }
    numbers(&mut table, 3);
    table
}

/// What became of a paper's claims.
pub fn claims(claims: &[ClaimResult]) -> String {
    let mut table = table(&["claim", "where", "published", "stack", "measured", "confirmed", "evidence"]);
    for claim in claims {
        let mark = claim.origin.mark();
        let place = if mark.is_empty() { claim.place.clone() } else { format!("{} ({mark})", claim.place) };
        for (i, verdict) in claim.verdicts.iter().enumerate() {
            let first = |text: &str| if i == 0 { text.to_owned() } else { String::new() };
            let plain = |x: f64| if x == x.round() { format!("{x:.0}") } else { digits(x) };
            let unit = |x: f64| format!("{} {}", plain(x), claim.unit).trim().to_owned();
            let ci = verdict.ci95.map_or(String::new(), |ci| format!(" ± {}", digits(ci)));
            let ours = |x: f64| format!("{}{ci} {}", plain(x), claim.unit).trim().to_owned();
            let mut evidence = verdict.evidence.split("; ");
            let decides = evidence.next().unwrap_or_default().to_owned();
            let more = evidence.count();
            table.add_row([
                first(&claim.text),
                first(&place),
                first(&claim.published.map_or(String::new(), unit)),
                verdict.stack.clone(),
                verdict.measured.map_or("-".into(), ours),
                match verdict.confirmed {
                    Some(true) => "yes".into(),
                    Some(false) => "no".into(),
                    None => "no figures".into(),
                },
                if more > 0 { format!("{decides}; and {more} more") } else { decides },
            ]);
        }
    }
    let mut out = format!("\nThe paper's claims\n{table}\n");
    let stacks: BTreeSet<&str> = claims.iter().flat_map(|c| &c.verdicts).map(|v| v.stack.as_str()).collect();
    for stack in stacks {
        let _ = writeln!(out, "{stack}: {}", tally(claims, stack));
    }
    out
}

/// Each combination compared with the first.
pub fn comparison(e: &ExperimentResult) -> String {
    let mut out = String::new();
    for metric in &e.metrics {
        let all: Vec<&Cell> = e.cells.iter().filter(|c| c.metric == metric.name).collect();
        let Some(first) = all.first() else { continue };
        let unit = if metric.unit.is_empty() { String::new() } else { format!(", {}", metric.unit) };
        let mut table = table(&["", "mean ± 95 %", "n", "difference ± 95 %", "%", "differs"]);
        for cell in &all {
            let name = cell.axes.values().cloned().collect::<Vec<_>>().join(", ");
            let mut row = vec![name, measured(cell), cell.replicas.to_string()];
            if let Some((d, ci)) = difference(&first.samples, &cell.samples).filter(|_| !std::ptr::eq(*cell, *first)) {
                let percent = first.measured.filter(|m| *m != 0.0).map(|m| format!("{:+.1}", 100.0 * d / m));
                row.push(ci.map_or(signed(d), |ci| format!("{} ± {}", signed(d), digits(ci))));
                row.push(percent.unwrap_or_default());
                row.push(match ci {
                    Some(ci) if d.abs() > ci => "yes".into(),
                    Some(_) => "not shown".into(),
                    None => String::new(),
                });
            } else {
                row.extend([String::new(), String::new(), String::new()]);
            }
            table.add_row(row);
        }
        numbers(&mut table, 1);
        let _ = writeln!(out, "{}{unit}\n{table}", metric.label);
    }
    out
}

fn signed(x: f64) -> String {
    if x >= 0.0 { format!("+{}", digits(x)) } else { digits(x) }
}

/// Four significant digits, at least, and no more than three behind the point.
pub fn digits(x: f64) -> String {
    match x.abs() {
        a if a < 1e-9 => "0".into(),
        a if a >= 10_000.0 => format!("{x:.0}"),
        a if a >= 100.0 => format!("{x:.1}"),
        a if a >= 10.0 => format!("{x:.2}"),
        a if a >= 0.01 => format!("{x:.3}"),
        _ => format!("{x:.5}"),
    }
}

fn size(bytes: u64) -> String {
    let b = bytes as f64;
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.1} kB", b / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", b / 1e6),
        _ => format!("{:.1} GB", b / 1e9),
    }
}

/// Plain rows without a rule between them.
pub fn listing(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let line = |(name, text): &(String, String)| format!("  {name:width$}  {text}\n");
    rows.iter().map(line).collect()
}
