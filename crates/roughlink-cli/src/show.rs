//! Results as tables for people.

pub(crate) use crate::table::table;

use crate::table::{Table, width};
use roughlink_core::app::request::SessionResult;
use roughlink_core::metrics::{RttResult, RunResult};
use roughlink_core::quantiles::DelayResult;
use roughlink_lab::experiment::claims::tally;
use roughlink_lab::experiment::result::{AxisResult, Cell, ClaimResult, ExperimentResult, MetricResult, Verdict};
use std::fmt::Write as _;

/// One run.
pub(crate) fn run(r: &RunResult) -> String {
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
        let end = match (f.end_s, f.failed_s) {
            (Some(end), _) => format!("{} s", digits(end - f.start_s)),
            (None, Some(failed)) => format!("gave up at {} s", digits(failed)),
            (None, None) if f.failed => "gave up".into(),
            (None, None) => "not done".into(),
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
    flows.numbers(2);
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
    links.numbers(2);
    links.less_important(&[3]);
    if !r.flows.is_empty() {
        let _ = writeln!(out, "{flows}\n");
    }
    let _ = writeln!(out, "{links}\n");
    for (name, result) in r.flows.iter().filter_map(|f| Some((&f.name, f.session.as_ref()?))) {
        out += &session(name, result);
    }
    for table in [disciplines(r), calls(r), gateways(r)].into_iter().flatten() {
        let _ = writeln!(out, "{table}\n");
    }
    let transfers = r.flows.iter().filter(|f| f.is_transfer()).count();
    let jain = r.jain.filter(|_| transfers > 1);
    let jain = jain.map_or(String::new(), |j| format!("; Jain's index of the {transfers} transfers {j:.3}"));
    let wall = if r.wall_s < 0.01 { format!("{:.1} ms", r.wall_s * 1e3) } else { format!("{:.2} s", r.wall_s) };
    out + &wrapped(&format!("{} s simulated in {wall}, {} events{jain}", digits(r.sim_s), r.events), "", "  ")
}

/// The outcome of a charging session and the latency of its messages.
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
    let _ = write!(out, "; survived: {}", if s.survived { "yes" } else { "no" });
    out = wrapped(&out, "", "  ") + &wrapped(&format!("limits passed: {passed}{first}"), "  ", "    ");
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
    table.numbers(1);
    out + &format!("{table}\n\n")
}

/// A word of the results, for people.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(|v| v.replace('_', " "))).unwrap_or_default()
}

/// What queue disciplines did, if there are any.
fn disciplines(r: &RunResult) -> Option<Table> {
    let mut queues = table(&["queue", "direction", "marked", "dropped early", "wait p50", "p95", "p99", "max"]);
    for l in &r.links {
        for (direction, d) in [("forward", &l.forward), ("reverse", &l.reverse)] {
            let Some(q) = &d.qdisc else { continue };
            let wait = |value: fn(&RttResult) -> f64| {
                q.delay_ms.as_ref().map_or("-".into(), |w| format!("{:.1} ms", value(w)))
            };
            let (marked, dropped) = (q.marked.to_string(), q.dropped.to_string());
            let waits = [wait(|w| w.p50), wait(|w| w.p95), wait(|w| w.p99), wait(|w| w.max)];
            queues.add_row([l.name.clone(), direction.into(), marked, dropped].into_iter().chain(waits));
        }
    }
    queues.numbers(2);
    (queues.row_count() > 0).then_some(queues)
}

/// The quality of voice calls, if there are any.
fn calls(r: &RunResult) -> Option<Table> {
    let mut calls = table(&["call", "receiver", "R", "MOS", "delay p50", "p95", "p99", "above 150 ms", "lost or late"]);
    for f in &r.flows {
        for (place, quality) in f.voip.iter().flat_map(|both| ["the far end", "the near end"].into_iter().zip(&**both))
        {
            let share = |x: Option<f64>| x.map_or("-".into(), |x| format!("{:.2} %", x * 100.0));
            let delay = |value: fn(&DelayResult) -> f64| {
                quality.delay_ms.as_ref().map_or("-".into(), |d| format!("{:.1} ms", value(d)))
            };
            calls.add_row([
                f.name.clone(),
                place.into(),
                quality.r.map_or("-".into(), |r| format!("{:.1}", r.max(0.0))), // the scale ends at 0
                quality.mos.map_or("-".into(), |mos| format!("{mos:.2}")),
                delay(|d| d.p50),
                delay(|d| d.p95),
                delay(|d| d.p99),
                share(quality.over_150ms),
                share(quality.loss),
            ]);
        }
    }
    calls.numbers(2);
    calls.less_important(&[5]);
    (calls.row_count() > 0).then_some(calls)
}

/// The windows that gateways allowed at the end, if there are any.
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
    gateways.numbers(2);
    (gateways.row_count() > 0).then_some(gateways)
}

/// An experiment: published, measured and their ratio, a column for each stack.
pub(crate) fn experiment(e: &ExperimentResult) -> String {
    let place = if e.place.is_empty() { String::new() } else { format!(" ({})", e.place) };
    let mut out = "\n".to_owned() + &wrapped(&format!("{}: {}{place}", e.experiment, e.title), "", "  ");
    out += &cells(e);
    for rank in &e.ranks {
        let at: Vec<String> = rank.at.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        let at = if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) };
        let stack = if rank.stack.is_empty() { String::new() } else { format!("{}: ", rank.stack) };
        let text = format!("{stack}order of the {} values of {}{at}: Spearman {:.3}", rank.n, rank.over, rank.spearman);
        out += &wrapped(&text, "", "  ");
    }
    if !e.curves.is_empty() {
        let _ = writeln!(out, "{}", curves(e));
    }
    out
}

/// A table for each metric.
fn cells(e: &ExperimentResult) -> String {
    let mut out = String::new();
    for metric in metrics(e) {
        if metrics(e).len() > 1 {
            let _ = writeln!(out, "{}", caption(&metric));
        }
        let _ = writeln!(out, "{}", of_metric(e, &metric));
        if metrics(e).len() > 1 {
            out.push('\n');
        }
    }
    out + &notes(&e.cells)
}

/// The metrics that have cells.
fn metrics(e: &ExperimentResult) -> Vec<MetricResult> {
    let has = |m: &&MetricResult| e.cells.iter().any(|c| c.metric == m.name);
    e.metrics.iter().filter(has).cloned().collect()
}

fn caption(metric: &MetricResult) -> String {
    if metric.unit.is_empty() { metric.label.clone() } else { format!("{}, {}", metric.label, metric.unit) }
}

fn of_metric(e: &ExperimentResult, metric: &MetricResult) -> Table {
    let here: Vec<&Cell> = e.cells.iter().filter(|c| c.metric == metric.name).collect();
    let published = here.iter().any(|c| c.published.is_some());
    let mut heading: Vec<String> = e.axes.iter().map(|a| a.label.clone()).collect();
    let names = heading.len();
    if published {
        heading.push("published".into());
    }
    for stack in &e.stacks {
        heading.push(if stack.is_empty() { "measured ± 95 %".into() } else { format!("{stack} ± 95 %") });
        if published {
            heading.push("ratio".into());
        }
    }
    if !metric.unit.is_empty() && metrics(e).len() == 1 {
        heading[names..].iter_mut().filter(|h| *h != "ratio").for_each(|h| *h += &format!("\n{}", metric.unit));
    }
    let mut table = table(&heading.iter().map(String::as_str).collect::<Vec<_>>());
    for cell in here.iter().filter(|c| Some(&c.stack) == e.stacks.first()) {
        let label = |a: &AxisResult| {
            let value = cell.axes.get(&a.name);
            let known = a.values.iter().find(|v| Some(&v.value) == value);
            known.map(|v| v.label.clone()).or(value.cloned()).unwrap_or_default()
        };
        let mut row: Vec<String> = e.axes.iter().map(label).collect();
        if published {
            row.push(cell.published.map_or(String::new(), |p| p.to_string()));
        }
        for stack in &e.stacks {
            let same = here.iter().find(|c| c.stack == *stack && c.axes == cell.axes).unwrap_or(cell);
            row.push(measured(same));
            if published {
                row.push(same.ratio().map_or(String::new(), |r| format!("{r:.2}")));
            }
        }
        table.add_row(row);
    }
    table.numbers(names);
    table
}

/// `0.431 ± 0.012`; an exact value has no interval.
fn measured(cell: &Cell) -> String {
    if let Some(bound) = cell.lower_bound() {
        return format!("> {}", digits(bound));
    }
    match (cell.measured, cell.interval, cell.ci95) {
        (None, ..) => "-".into(),
        (Some(m), Some([from, to]), _) => format!("{} ({} to {})", digits(m), digits(from), digits(to)),
        (Some(m), None, None) if cell.all_equal() => format!("{} (all)", digits(m)),
        (Some(m), None, None) => digits(m),
        (Some(m), None, Some(ci)) => format!("{} ± {}", digits(m), digits(ci)),
    }
}

/// Explains the signs in a table of these cells.
fn notes(cells: &[Cell]) -> String {
    let any = |what: fn(&Cell) -> bool| cells.iter().any(what);
    let mut notes = Vec::new();
    if !cells.is_empty() && cells.iter().all(|c| c.deterministic) {
        notes.push("Nothing in the scenario is random: all runs are the same, and the values are exact.");
    } else if any(|c| c.deterministic) {
        notes.push("A value without ± is exact: nothing in its scenario is random.");
    }
    if any(Cell::all_equal) {
        notes.push("(all) marks what all random runs gave: how it spreads is not known.");
    }
    if any(|c| c.interval.is_some()) {
        notes.push("In brackets is the 95 % interval of a share of runs (Wilson).");
    }
    if any(|c| !c.at_least.is_empty()) {
        notes.push("A value after > is a lower bound: in some run the event did not happen before the end.");
    }
    notes.iter().map(|note| wrapped(note, "", "")).collect()
}

/// First, middle and last value of each curve; the report has the rest.
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
    table.numbers(3);
    table
}

/// The verdicts on a paper's claims.
pub(crate) fn claims(claims: &[ClaimResult]) -> String {
    let mut out = String::from("\nThe paper's claims\n");
    for claim in claims {
        let published =
            claim.published.map_or(String::new(), |p| format!("; published: {}", with_unit(&plain(p), claim)));
        let criterion =
            if claim.criterion.is_empty() { String::new() } else { format!("; asked for: {}", claim.criterion) };
        let mark = claim.origin.mark();
        let place = if mark.is_empty() { claim.place.clone() } else { format!("{} ({mark})", claim.place) };
        let head = format!("{} ({place}{published}{criterion})", claim.text);
        out += &wrapped(&head, "", "    ");
        for verdict in &claim.verdicts {
            let stack = if verdict.stack.is_empty() { String::new() } else { format!("{}: ", verdict.stack) };
            let mut line = format!("{stack}{}{}", verdict.verdict.words(), figure(verdict, claim));
            let mut evidence = verdict.evidence.split("; ");
            if let Some(decides) = evidence.next().filter(|e| !e.is_empty()) {
                let more = evidence.count();
                line += &format!(". {decides}");
                line += &if more > 0 { format!("; and {more} more") } else { String::new() };
            }
            if !verdict.reason.is_empty() {
                line += &format!(". {}", verdict.reason);
            }
            out += &wrapped(&line, "  ", "    ");
        }
    }
    // The stack that published values compare with comes first, as it does in the verdicts.
    let mut stacks: Vec<&str> = Vec::new();
    for verdict in claims.iter().flat_map(|c| &c.verdicts) {
        if !stacks.contains(&verdict.stack.as_str()) {
            stacks.push(&verdict.stack);
        }
    }
    for stack in stacks {
        let whose = if stack.is_empty() { String::new() } else { format!("{stack}: ") };
        out += &wrapped(&format!("{whose}{}", tally(claims, stack)), "", "    ");
    }
    out
}

/// Our figure, shown after the verdict: `, 27.1 ± 3.0 %`.
fn figure(verdict: &Verdict, claim: &ClaimResult) -> String {
    let Some(measured) = verdict.measured else { return String::new() };
    let bound = match (verdict.lower_bound, verdict.upper_bound) {
        (true, _) => "> ",
        (_, true) => "< ",
        _ => "",
    };
    let ci = verdict.ci95.map_or(String::new(), |ci| format!(" ± {}", digits(ci)));
    format!(", {bound}{}", with_unit(&(plain(measured) + &ci), claim))
}

fn with_unit(number: &str, claim: &ClaimResult) -> String {
    format!("{number} {}", claim.unit).trim().to_owned()
}

fn plain(x: f64) -> String {
    if x == x.round() { format!("{x:.0}") } else { digits(x) }
}

/// A paragraph wrapped to the width; the first line is indented by `first`, all others by `others`.
pub(crate) fn wrapped(text: &str, first: &str, others: &str) -> String {
    let options = textwrap::Options::new(width()).initial_indent(first).subsequent_indent(others);
    textwrap::fill(text, options.break_words(false)) + "\n"
}

/// Each combination compared with the first.
pub(crate) fn comparison(e: &ExperimentResult) -> String {
    let mut out = String::new();
    for metric in metrics(e) {
        let all: Vec<&Cell> = e.cells.iter().filter(|c| c.metric == metric.name).collect();
        let mut table = table(&["", "mean ± 95 %", "n", "difference ± 95 %", "%", "differs"]);
        for cell in &all {
            let name = cell.axes.values().cloned().collect::<Vec<_>>().join(", ");
            let n = (cell.samples.len() + cell.at_least.len()).to_string();
            let mut row = vec![name, measured(cell), n];
            row.extend(if std::ptr::eq(*cell, all[0]) { Default::default() } else { compared(all[0], cell) });
            table.add_row(row);
        }
        table.numbers(1);
        table.less_important(&[4]);
        let _ = writeln!(out, "{}\n{table}\n", caption(&metric));
    }
    out + &notes(&e.cells)
}

/// The difference of a cell from the first, in its unit and in percent, and whether it is significant.
fn compared(first: &Cell, cell: &Cell) -> [String; 3] {
    let bounded = |c: &Cell| !c.at_least.is_empty();
    if bounded(first) || bounded(cell) {
        return Default::default();
    }
    let percent =
        |d: f64| first.measured.filter(|m| *m != 0.0).map_or(String::new(), |m| format!("{:+.1}", 100.0 * d / m));
    let Some((d, interval)) = cell.difference(first) else { return Default::default() };
    if first.deterministic && cell.deterministic {
        let differs = if d == 0.0 { "no" } else { "deterministic" };
        return [signed(d), percent(d), differs.into()];
    }
    let differs = interval.map_or("", |[from, to]| if from > 0.0 || to < 0.0 { "yes" } else { "not shown" });
    let shown = match interval {
        Some([from, to]) if first.interval.or(cell.interval).is_some() => {
            format!("{} ({} to {})", signed(d), signed(from), signed(to))
        }
        Some([from, to]) if from < to => format!("{} ± {}", signed(d), digits((to - from) / 2.0)),
        _ => signed(d),
    };
    [shown, percent(d), differs.into()]
}

fn signed(x: f64) -> String {
    if x >= 0.0 { format!("+{}", digits(x)) } else { digits(x) }
}

/// At least four significant digits, and at most three decimals.
pub(crate) fn digits(x: f64) -> String {
    match x.abs() {
        a if a < 1e-9 => "0".into(),
        a if a >= 10_000.0 => format!("{x:.0}"),
        a if a >= 100.0 => format!("{x:.1}"),
        a if a >= 10.0 => format!("{x:.2}"),
        a if a >= 0.01 => format!("{x:.3}"),
        _ => format!("{x:.5}"),
    }
}

/// Bytes, for people.
pub(crate) fn size(bytes: u64) -> String {
    let b = bytes as f64;
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.1} kB", b / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", b / 1e6),
        _ => format!("{:.1} GB", b / 1e9),
    }
}

/// Plain rows without a rule between them.
pub(crate) fn listing(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let line = |(name, text): &(String, String)| format!("  {name:width$}  {text}\n");
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use roughlink_lab::experiment::result::Outcome;

    #[test]
    fn the_stack_that_is_compared_comes_first() {
        let verdict = |stack: &str| Verdict { stack: stack.into(), verdict: Outcome::Confirmed, ..Verdict::default() };
        let claim = ClaimResult { verdicts: vec![verdict("ns3"), verdict("linux")], ..ClaimResult::default() };
        let text = claims(&[claim]);
        let ends = ["ns3: of the paper's 1 claim ", "linux: of the paper's 1 claim "].map(|of| text.find(of).unwrap());
        assert!(ends.is_sorted(), "{text}");
    }

    #[test]
    fn bounds_and_equal_values_are_marked() {
        let claim = ClaimResult::default();
        let bounded = |lower_bound, upper_bound| {
            figure(&Verdict { measured: Some(2.0), lower_bound, upper_bound, ..Verdict::default() }, &claim)
        };
        assert_eq!([bounded(true, false), bounded(false, true), bounded(false, false)], [", > 2", ", < 2", ", 2"]);
        let cell = |n: usize, deterministic| Cell {
            measured: Some(3.0),
            samples: vec![3.0; n],
            deterministic,
            ..Cell::default()
        };
        assert_eq!(
            [cell(6, false), cell(6, true), cell(1, false)].map(|c| measured(&c)),
            ["3.000 (all)", "3.000", "3.000"]
        );
        // Five equal values do not tell two cells apart, six do.
        let of = |n: usize, x: f64| Cell { measured: Some(x), samples: vec![x; n], ..Cell::default() };
        assert_eq!(compared(&of(5, 1.0), &of(5, 3.0))[2], "");
        assert_eq!(compared(&of(6, 1.0), &of(6, 3.0)), ["+2.000", "+200.0", "yes"]);
    }
}
