//! Results as tables for users.

mod run;

pub(crate) use crate::table::table;
pub(crate) use run::run;

use crate::table::{TextTable, width};
use roughlink_lab::experiment::claims::tally;
use roughlink_lab::experiment::result::{
    AxisResult, CUT_NOTE, Cell, ClaimResult, Compared, ExperimentResult, MetricResult, Verdict,
};
use roughlink_lab::store::RESULTS;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// Formats the TCP stacks as `; TCP stack linux`; empty if TCP carries nothing.
fn on_stacks<'a>(stacks: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = stacks.into_iter().collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!("; TCP stack {one}"),
        more => format!("; TCP stacks {}", more.join(", ")),
    }
}

/// Returns the first line of a sweep or comparison: the scenario, its TCP stacks, the replicas.
fn head(e: &ExperimentResult) -> String {
    let stacks = on_stacks(e.scenario_stacks.iter().map(String::as_str));
    let replicas = e.cells.iter().map(|c| c.replicas).max().unwrap_or(0);
    let runs = if replicas == 1 { "run" } else { "runs" };
    format!("{} ({replicas} {runs} each{stacks})", e.title)
}

/// Formats an experiment: published, measured and their ratio, with a column for each stack.
pub(crate) fn experiment(e: &ExperimentResult) -> String {
    let place = if e.place.is_empty() { String::new() } else { format!(" ({})", e.place) };
    let stacks = on_stacks(e.scenario_stacks.iter().map(String::as_str));
    let title = format!("{}: {}{place}{stacks}", e.experiment, e.title);
    let mut out = "\n".to_owned() + &wrapped(&title, "", "  ");
    out += &cells(e);
    for rank in &e.ranks {
        let at: Vec<String> = rank.at.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        let at = if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) };
        let stack = if rank.stack.is_empty() { String::new() } else { format!("{}: ", rank.stack) };
        let text =
            format!("{stack}ranking of the {} values of {}{at}: Spearman {:.3}", rank.n, rank.over, rank.spearman);
        out += &wrapped(&text, "", "  ");
    }
    if !e.curves.is_empty() {
        let _ = writeln!(out, "{}", curves(e));
    }
    out
}

/// Returns a table for each metric.
fn cells(e: &ExperimentResult) -> String {
    let mut out = String::new();
    for metric in metrics(e) {
        let _ = writeln!(out, "{}\n{}\n", caption(&metric), metric_table(e, &metric));
        out += &left_out(e, &metric);
    }
    out + &notes(&e.cells)
}

/// Returns the metrics that have cells.
fn metrics(e: &ExperimentResult) -> Vec<MetricResult> {
    let has = |m: &&MetricResult| e.cells.iter().any(|c| c.metric == m.name);
    e.metrics.iter().filter(has).cloned().collect()
}

fn caption(metric: &MetricResult) -> String {
    if metric.unit.is_empty() { metric.label.clone() } else { format!("{}, {}", metric.label, metric.unit) }
}

/// Says how many rows of a metric are not printed.
fn left_out(e: &ExperimentResult, metric: &MetricResult) -> String {
    let rows = on_first_stack(e, metric).count();
    match rows.saturating_sub(MAX_ROWS) {
        0 => String::new(),
        n => {
            wrapped(
                &format!("and {n} more rows: {RESULTS} in the result folder has all, and --json prints all"),
                "",
                "",
            ) + "\n"
        }
    }
}

fn on_first_stack<'e>(e: &'e ExperimentResult, metric: &MetricResult) -> impl Iterator<Item = &'e Cell> {
    let (first, metric) = (e.stacks.first(), metric.name.clone());
    e.cells.iter().filter(move |c| c.metric == metric && Some(&c.stack) == first)
}

fn metric_table(e: &ExperimentResult, metric: &MetricResult) -> TextTable {
    let here: Vec<&Cell> = e.cells.iter().filter(|c| c.metric == metric.name).collect();
    let by_place: HashMap<_, &Cell> = here.iter().map(|c| ((c.stack.as_str(), &c.axes), *c)).collect();
    let labels: Vec<HashMap<&str, &str>> =
        e.axes.iter().map(|a| a.values.iter().map(|v| (v.value.as_str(), v.label.as_str())).collect()).collect();
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
    let mut table = table(&heading.iter().map(String::as_str).collect::<Vec<_>>());
    for cell in on_first_stack(e, metric).take(MAX_ROWS) {
        let label = |(a, labels): (&AxisResult, &HashMap<&str, &str>)| {
            let value = cell.axes.get(&a.name).unwrap_or_default();
            labels.get(value).map_or(value, |label| label).to_owned()
        };
        let mut row: Vec<String> = e.axes.iter().zip(&labels).map(label).collect();
        if published {
            row.push(cell.published.map_or(String::new(), |p| p.to_string()));
        }
        for stack in &e.stacks {
            let same = by_place.get(&(stack.as_str(), &cell.axes)).copied().unwrap_or(cell);
            row.push(counted(same));
            if published {
                row.push(same.ratio().map_or(String::new(), |r| format!("{r:.2}")));
            }
        }
        table.add_row(row);
    }
    table.numbers(names);
    table
}

/// Formats a cell as [`measured`] does. Appends the number of runs with a value, unless all have one, and a mark if a
/// time window ended early.
fn counted(cell: &Cell) -> String {
    let count = match cell.values() {
        0 if !cell.is_censored() => String::new(),
        n if n < cell.replicas as usize && !cell.deterministic => format!(" ({n}/{})", cell.replicas),
        _ => String::new(),
    };
    measured(cell) + &count + if cell.cut > 0 { " *" } else { "" }
}

/// Formats a value as `0.431 ± 0.012`; an exact value has no interval.
fn measured(cell: &Cell) -> String {
    match (cell.measured, cell.bound, cell.interval, cell.ci95) {
        (None, Some(bound), ..) => format!("> {}", digits(bound)),
        (None, None, ..) => "no value".into(),
        (Some(m), _, interval, _) if cell.is_censored() && cell.quantile == Some(0.5) => {
            format!("median {}{}", digits(m), interval.map_or(String::new(), |ends| format!(" ({})", range(ends))))
        }
        (Some(m), _, Some(ends), _) => format!("{} ({})", digits(m), range(ends)),
        (Some(m), _, None, None) if cell.all_equal() => format!("{} (all)", digits(m)),
        (Some(m), _, None, None) => digits(m),
        (Some(m), _, None, Some(ci)) => format!("{} ± {}", digits(m), digits(ci)),
    }
}

/// Formats a range as `1.2 to 3.4`, or `> 1.2` or `< 3.4` if only one end is known.
fn range([from, to]: [f64; 2]) -> String {
    match (from.is_finite(), to.is_finite()) {
        (_, false) => format!("> {}", digits(from)),
        (false, _) => format!("< {}", digits(to)),
        _ => format!("{} to {}", digits(from), digits(to)),
    }
}

/// Explains the signs in a table of these cells.
fn notes(cells: &[Cell]) -> String {
    let any = |what: fn(&Cell) -> bool| cells.iter().any(what);
    let mut notes = Vec::new();
    if any(|c| c.replicas > 0) && !any(|c| c.replicas > 0 && !c.deterministic) {
        notes.push("The scenario uses no random numbers: all runs are equal, and the values are exact.");
    } else if any(|c| c.deterministic) && !any(Cell::is_single) {
        notes.push("A value without ± is exact: its scenario uses no random numbers.");
    }
    if any(Cell::is_single) {
        notes.push("A single run of a random scenario has no confidence interval and cannot tell values apart.");
    }
    if any(Cell::all_equal) {
        notes.push("(all): all runs gave this value, so its spread is unknown.");
    }
    if any(|c| c.interval.is_some() && c.quantile.is_none()) {
        notes.push("Parentheses after a share of runs hold its 95 % confidence interval (Wilson).");
    }
    if any(|c| c.interval.is_some() && c.quantile.is_some() && c.measured.is_some()) {
        notes.push("Parentheses after a median or percentile hold its 95 % confidence interval (order statistics).");
    }
    if any(Cell::is_censored) {
        notes.push(
            "If runs ended before they reached their value, the median of all runs is shown; > marks a lower bound.",
        );
    }
    if any(|c| c.values() < c.replicas as usize && !c.deterministic) {
        notes.push("(n/N): n of N runs have a value.");
    }
    if any(|c| c.values() < c.replicas as usize && !c.is_censored() && c.measured.is_some()) {
        notes.push("The mean is over these n runs only.");
    }
    if any(|c| c.cut > 0) {
        notes.push(CUT_NOTE);
    }
    notes.iter().map(|note| wrapped(note, "", "")).collect()
}

/// Returns first, middle and last value of each curve; the report has the rest.
fn curves(e: &ExperimentResult) -> TextTable {
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

/// Formats the verdicts on a paper's claims.
pub(crate) fn claims(claims: &[ClaimResult]) -> String {
    let mut out = String::from("\nThe paper's claims\n");
    for claim in claims {
        let published =
            claim.published.map_or(String::new(), |p| format!("; published: {}", with_unit(&plain(p), claim)));
        let criterion =
            if claim.criterion.is_empty() { String::new() } else { format!("; criterion: {}", claim.criterion) };
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
    // First the stack for which values are published, as in the verdicts.
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

/// Formats our figure, shown after the verdict: `, 27.1 (24.0 to 30.3) %`.
fn figure(verdict: &Verdict, claim: &ClaimResult) -> String {
    let Some(measured) = verdict.measured else { return String::new() };
    let bound = match (verdict.lower_bound, verdict.upper_bound) {
        (true, _) => "> ",
        (_, true) => "< ",
        _ => "",
    };
    let interval = verdict.interval.map_or(String::new(), |ends| format!(" ({})", range(ends)));
    format!(", {bound}{}", with_unit(&(plain(measured) + &interval), claim))
}

fn with_unit(number: &str, claim: &ClaimResult) -> String {
    format!("{number} {}", claim.unit).trim().to_owned()
}

fn plain(x: f64) -> String {
    if x == x.round() { format!("{x:.0}") } else { digits(x) }
}

/// Wraps a paragraph to the width; the first line is indented by `first`, all others by `others`.
pub(crate) fn wrapped(text: &str, first: &str, others: &str) -> String {
    let options = textwrap::Options::new(width()).initial_indent(first).subsequent_indent(others);
    textwrap::fill(text, options.break_words(false)) + "\n"
}

/// Maximum number of rows of a printed table.
const MAX_ROWS: usize = 1000;

/// Formats a comparison of each combination with the first.
pub(crate) fn comparison(e: &ExperimentResult) -> String {
    let mut out = wrapped(&head(e), "", "  ");
    for metric in metrics(e) {
        let all: Vec<&Cell> = e.cells.iter().filter(|c| c.metric == metric.name).collect();
        let mut table = table(&["", "mean ± 95 %", "n", "difference, 95 %", "%", "differs"]);
        if all.iter().any(|c| c.quantile.is_some()) {
            table = crate::table::table(&["", "measured, 95 %", "n", "difference, 95 %", "%", "differs"]);
        }
        let here = e.compared.iter().filter(|c| c.metric == metric.name);
        let known: BTreeMap<_, &Compared> = here.map(|c| (&c.axes, c)).collect();
        for cell in all.iter().take(MAX_ROWS) {
            let name = cell.axes.values().collect::<Vec<_>>().join(", ");
            let (n, all_runs) = (cell.values(), cell.replicas as usize);
            let n = if n < all_runs { format!("{n}/{all_runs}") } else { n.to_string() };
            let mut row = vec![name, measured(cell), n];
            let beside = known.get(&cell.axes).copied();
            let beside = beside.filter(|_| !std::ptr::eq(*cell, all[0]));
            row.extend(beside.map_or_else(Default::default, |beside| compared(all[0], cell, beside)));
            table.add_row(row);
        }
        table.numbers(1);
        table.less_important(&[4]);
        let _ = writeln!(out, "{}\n{table}\n", caption(&metric));
        out += &left_out(e, &metric);
    }
    let shown = |[from, to]: [f64; 2]| from < to && (from.is_finite() || to.is_finite());
    if e.compared.iter().any(|c| c.interval.is_some_and(shown)) {
        let note = "Differences are computed within replicas, which share their random numbers. Parentheses hold their \
                    95 % confidence interval.";
        out += &wrapped(note, "", "");
    }
    out + &notes(&e.cells)
}

/// Returns the difference of a cell from the first in its unit and in percent, and its significance.
fn compared(first: &Cell, cell: &Cell, beside: &Compared) -> [String; 3] {
    let percent =
        |d: f64| first.measured.filter(|m| *m != 0.0).map_or(String::new(), |m| format!("{:+.1}", 100.0 * d / m));
    let exact = first.deterministic && cell.deterministic;
    let differs = match (beside.is_significant(), beside.difference) {
        (_, Some(0.0)) if exact => "no",
        _ if exact => "deterministic",
        (Some(true), _) => "yes",
        (Some(false), _) => "uncertain",
        (None, _) if beside.pairs == 1 => "one run",
        (None, _) => "",
    };
    let ends = beside.interval.filter(|[from, to]| from < to && !exact);
    let ends = ends.map(|[from, to]| match (from.is_finite(), to.is_finite()) {
        (true, true) => format!("({} to {})", signed(from), signed(to)),
        (true, false) => format!("(> {})", signed(from)),
        (false, true) => format!("(< {})", signed(to)),
        (false, false) => String::new(),
    });
    let median = if beside.median { "median " } else { "" };
    let difference = beside.difference.map(|d| format!("{median}{}", signed(d)));
    let shown: Vec<String> = difference.into_iter().chain(ends).filter(|part| !part.is_empty()).collect();
    [shown.join(" "), beside.difference.map_or(String::new(), percent), differs.into()]
}

fn signed(x: f64) -> String {
    if x >= 0.0 { format!("+{}", digits(x)) } else { digits(x) }
}

/// Formats a number with at least four significant digits and at most three decimals.
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

pub(crate) fn size(bytes: u64) -> String {
    let b = bytes as f64;
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.1} kB", b / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", b / 1e6),
        _ => format!("{:.1} GB", b / 1e9),
    }
}

/// Formats plain rows without a rule between them.
pub(crate) fn listing(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let line = |(name, text): &(String, String)| format!("  {name:width$}  {text}\n");
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use roughlink_lab::experiment::result::ClaimOutcome;

    #[test]
    fn compared_stack_is_shown_first() {
        let verdict =
            |stack: &str| Verdict { stack: stack.into(), verdict: ClaimOutcome::Confirmed, ..Verdict::default() };
        let claim = ClaimResult { verdicts: vec![verdict("ns3"), verdict("linux")], ..ClaimResult::default() };
        let text = claims(&[claim]);
        let ends = ["ns3: 1 of the paper's 1 tested claim ", "linux: 1 of the paper's 1 tested claim "]
            .map(|of| text.find(of).unwrap());
        assert!(ends.is_sorted(), "{text}");
    }

    #[test]
    fn bounds_and_equal_values_are_marked() {
        let claim = ClaimResult::default();
        let bounded = |lower_bound, upper_bound| {
            figure(&Verdict { measured: Some(2.0), lower_bound, upper_bound, ..Verdict::default() }, &claim)
        };
        assert_eq!([bounded(true, false), bounded(false, true), bounded(false, false)], [", > 2", ", < 2", ", 2"]);
        let ends = [[1.0, 3.0], [1.0, f64::INFINITY], [f64::NEG_INFINITY, 3.0]];
        assert_eq!(ends.map(range), ["1.000 to 3.000", "> 1.000", "< 3.000"]);
        let cell = |n: usize, deterministic| Cell {
            measured: Some(3.0),
            samples: vec![3.0; n],
            replicas: n as u32,
            deterministic,
            ..Cell::default()
        };
        assert_eq!(
            [cell(6, false), cell(6, true), cell(1, false)].map(|c| measured(&c)),
            ["3.000 (all)", "3.000", "3.000"]
        );
        // Five equal values are not enough to distinguish two cells; six are.
        let of =
            |n: usize, x: f64| Cell { measured: Some(x), samples: vec![x; n], replicas: n as u32, ..Cell::default() };
        let beside = |n: usize| {
            let (first, cell) = (of(n, 1.0), of(n, 3.0));
            compared(&first, &cell, &Compared::new(&cell, &first).unwrap())
        };
        assert_eq!(beside(1)[2], "one run");
        assert_eq!(beside(5)[2], "");
        assert_eq!(beside(6), ["+2.000", "+200.0", "yes"]);
    }

    #[test]
    fn long_tables_end_with_the_number_of_rows_left_out() {
        let cell = |i: usize| Cell {
            axes: [("seed", i.to_string())].into(),
            metric: "throughput_mbps".into(),
            measured: Some(i as f64),
            samples: vec![i as f64],
            replicas: 1,
            ..Cell::default()
        };
        let of = |n: usize| {
            let mut e = ExperimentResult { stacks: vec![String::new()], ..ExperimentResult::default() };
            e.axes = vec![AxisResult { name: "seed".into(), label: "seed".into(), ..AxisResult::default() }];
            e.metrics = vec![MetricResult { name: "throughput_mbps".into(), ..MetricResult::default() }];
            e.cells = (0..n).map(cell).collect();
            [cells(&e), comparison(&e)]
        };
        for (long, whole) in of(MAX_ROWS + 200).iter().zip(of(MAX_ROWS)) {
            assert!(long.contains("\nand 200 more rows: results.json in the result folder has all"), "{long}");
            assert!(!whole.contains("more rows"));
            assert_eq!(long.lines().filter(|line| line.starts_with("  1")).count(), 111, "1, 10 to 19, 100 to 199");
        }
    }

    #[test]
    fn runs_without_a_value_are_counted() {
        let cell = |samples: &[f64], at_least: &[f64]| Cell {
            samples: samples.to_vec(),
            at_least: at_least.to_vec(),
            replicas: 10,
            ..Cell::default()
        };
        let late = Cell { quantile: Some(0.5), bound: Some(600.0), ..cell(&[270.0; 3], &[600.0; 7]) };
        assert_eq!(counted(&late), "> 600.0 (3/10)");
        let median = Cell {
            quantile: Some(0.5),
            measured: Some(270.0),
            interval: Some([200.0, f64::INFINITY]),
            ..cell(&[270.0; 7], &[600.0; 3])
        };
        assert_eq!(counted(&median), "median 270.0 (> 200.0) (7/10)");
        let some = Cell { measured: Some(2.0), ci95: Some(0.5), ..cell(&[2.0; 9], &[]) };
        assert_eq!(counted(&some), "2.000 ± 0.500 (9/10)");
    }
}
