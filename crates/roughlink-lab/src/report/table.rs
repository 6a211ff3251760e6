//! The numbers behind a figure: published value, measured value with interval, and ratio, in columns per stack.

use super::html::{escape, exact, number, range, with_interval};
use super::view::{METRIC, STACK, dimensions, metric_caption, stack_heading};
use crate::experiment::place::CellPlace;
use crate::experiment::result::{CUT_NOTE, Cell, ExperimentResult, FACTOR, factor};
use std::collections::BTreeMap;

/// Rows beyond which a table scrolls inside its frame.
const TALL: usize = 16;

/// Renders the table of an experiment's cells; empty without cells.
pub(super) fn cells(experiment: &ExperimentResult) -> String {
    if experiment.cells.is_empty() {
        return String::new();
    }
    let all = dimensions(experiment);
    let axes: Vec<_> = all.iter().filter(|d| d.name != METRIC && d.name != STACK).collect();
    let stacks: Vec<&str> =
        all.iter().filter(|d| d.name == STACK).flat_map(|d| d.values.iter().map(|v| v.value.as_str())).collect();
    let stacks = if stacks.is_empty() { vec![""] } else { stacks };
    let metrics = experiment.cells.iter().map(|c| &c.metric).collect::<std::collections::BTreeSet<_>>().len();
    let published = experiment.cells.iter().any(|c| c.published.is_some());
    let replicas: Option<u32> = {
        let mut counts = experiment.cells.iter().map(|c| c.replicas);
        let first = counts.next();
        first.filter(|f| counts.all(|c| c == *f))
    };

    // One row per combination of axis values and metric, in the order in which their first cells appear.
    let mut rows: Vec<Vec<&Cell>> = Vec::new();
    let mut index: BTreeMap<(&CellPlace, &str), usize> = BTreeMap::new();
    for cell in &experiment.cells {
        let row = *index.entry((&cell.axes, &cell.metric)).or_insert_with(|| {
            rows.push(Vec::new());
            rows.len() - 1
        });
        rows[row].push(cell);
    }

    let tall = if rows.len() > TALL { " tall" } else { "" };
    let mut out = format!(
        "<div class=\"scroll{tall}\" tabindex=\"0\" role=\"region\" aria-label=\"Numbers\">\n<table>\n<thead>\n<tr>"
    );
    let span = 1 + usize::from(published) + usize::from(replicas.is_none());
    for axis in &axes {
        out += &format!("<th scope=\"col\" rowspan=\"2\">{}</th>", escape(&axis.label));
    }
    if metrics > 1 {
        out += "<th scope=\"col\" rowspan=\"2\">Metric</th>";
    }
    if published {
        out += "<th scope=\"col\" rowspan=\"2\" class=\"num first\">Published</th>";
    }
    for stack in &stacks {
        out += &format!(
            "<th scope=\"colgroup\" colspan=\"{span}\" class=\"first\">{}</th>",
            escape(&stack_heading(experiment, stack))
        );
    }
    out += "</tr>\n<tr>";
    let unit = match metrics {
        1 => experiment.metrics.iter().find(|m| m.name == experiment.cells[0].metric).map_or("", |m| m.unit.as_str()),
        _ => "",
    };
    for _ in &stacks {
        let unit =
            if unit.is_empty() { String::new() } else { format!(" <span class=\"unit\">{}</span>", escape(unit)) };
        out += &format!("<th scope=\"col\" class=\"num first\">measured{unit}</th>");
        if replicas.is_none() {
            out += "<th scope=\"col\" class=\"num\">runs</th>";
        }
        if published {
            out += "<th scope=\"col\" class=\"num\">ratio</th>";
        }
    }
    out += "</tr>\n</thead>\n<tbody>\n";
    for row in rows {
        out += "<tr>";
        for (i, axis) in axes.iter().enumerate() {
            let value = row[0].axes.get(&axis.name).unwrap_or_default();
            let (open, close) = if i == 0 { ("<th scope=\"row\">", "</th>") } else { ("<td>", "</td>") };
            out += &format!("{open}{}{close}", escape(axis.label_of(value)));
        }
        if metrics > 1 {
            out += &format!("<td>{}</td>", escape(&metric_caption(experiment, &row[0].metric)));
        }
        let quoted = row.iter().find(|c| c.published.is_some());
        if published {
            let value = quoted.and_then(|c| c.published).map(exact).unwrap_or_default();
            let at = quoted.filter(|c| !c.published_at.is_empty());
            let at =
                at.map(|c| format!(" <span class=\"unit\">{}</span>", escape(&c.published_at))).unwrap_or_default();
            out += &format!("<td class=\"num first\">{value}{at}</td>");
        }
        for stack in &stacks {
            let cell = row.iter().find(|c| c.stack == *stack);
            out += &format!("<td class=\"num first\">{}</td>", measured(cell.copied()));
            if replicas.is_none() {
                out += &format!("<td class=\"num\">{}</td>", cell.map(|c| c.replicas.to_string()).unwrap_or_default());
            }
            if published {
                let ratio = cell.and_then(|c| {
                    let published = quoted.and_then(|q| q.published);
                    Cell { published, ..(*c).clone() }.ratio()
                });
                out += &ratio_cell(ratio);
            }
        }
        out += "</tr>\n";
    }
    out += "</tbody>\n</table>\n</div>\n";
    let mut notes = Vec::new();
    let any = |what: fn(&Cell) -> bool| experiment.cells.iter().any(what);
    if any(|c| c.ci95.is_some()) {
        notes.push("± is the half width of the 95 % confidence interval of the mean.".to_string());
    }
    if any(|c| c.interval.is_some() && c.quantile.is_none()) {
        notes.push("A share of runs has its 95 % interval beside it (Wilson).".to_string());
    }
    if any(|c| c.interval.is_some() && c.quantile.is_some()) {
        notes.push("A median or percentile has its 95 % interval beside it (order statistics).".to_string());
    }
    if any(Cell::all_equal) {
        notes.push("A value that all random runs gave has no interval: its spread is unknown.".to_string());
    }
    match (any(|c| c.deterministic), any(Cell::is_single)) {
        (true, false) => {
            notes.push("Without ±: nothing in the scenario is random, and the value is exact.".to_string())
        }
        (_, true) => notes.push("A single run of a random scenario cannot tell values apart.".to_string()),
        (false, false) => {}
    }
    if any(Cell::is_censored) {
        let note =
            "If runs ended before they reached the value, the median of all runs is shown; > marks a lower bound.";
        notes.push(note.to_string());
    }
    if any(|c| counted(c).is_some()) {
        notes.push("n of N runs: only n runs have a value, and the mean is over these.".to_string());
    }
    if any(|c| c.cut > 0) {
        notes.push(CUT_NOTE.to_string());
    }
    if let Some(n) = replicas {
        notes.push(format!("Each number comes from {n} {}.", if n == 1 { "run" } else { "runs" }));
    }
    if published {
        notes.push(format!("Ratio: measured / published, marked above or below if it exceeds a factor of {FACTOR}."));
    }
    out + &format!("<p class=\"note\">{}</p>\n", escape(&notes.join(" ")))
}

fn measured(cell: Option<&Cell>) -> String {
    let Some(cell) = cell else { return "<span class=\"unit\">not run</span>".into() };
    let mut count = counted(cell).map_or(String::new(), |count| format!(" <span class=\"ci\">{count}</span>"));
    if cell.cut > 0 {
        count += " *";
    }
    if let Some(bound) = cell.bound {
        return format!("&gt; {}{count}", number(bound));
    }
    let Some(mean) = cell.measured else { return "<span class=\"unit\">no value</span>".into() };
    let median = if cell.is_censored() && cell.quantile == Some(0.5) { "median " } else { "" };
    let (shown, ci) = with_interval(mean, cell.ci95);
    let beside = match (cell.interval, ci) {
        (Some(ends), _) => range(ends),
        (None, Some(ci)) => format!("± {ci}"),
        (None, None) if cell.all_equal() => format!("in all {}", cell.samples.len()),
        (None, None) => return format!("{median}{shown}{count}"),
    };
    let shown = if cell.interval.is_some() { number(mean) } else { shown };
    format!("{median}{shown} <span class=\"ci\">{beside}</span>{count}")
}

/// Returns `7 of 10 runs` if not all runs have a value.
fn counted(cell: &Cell) -> Option<String> {
    let (values, all) = (cell.values(), cell.replicas as usize);
    (values < all && !cell.deterministic && (values > 0 || cell.is_censored()))
        .then(|| format!("{values} of {all} runs"))
}

fn ratio_cell(ratio: Option<f64>) -> String {
    let Some(ratio) = ratio.filter(|r| r.is_finite()) else { return "<td class=\"num\"></td>".into() };
    let far = factor(ratio);
    let side = if ratio < 1.0 { "low" } else { "high" };
    // Full color at a factor of four, none at one.
    let strength = (libm::log(far) / libm::log(4.0)).min(1.0);
    let mark = if far > FACTOR {
        format!("<span class=\"off\">{}</span>", if ratio < 1.0 { "below" } else { "above" })
    } else {
        String::new()
    };
    format!("<td class=\"num ratio {side}\" style=\"--k:{strength:.2}\">{mark}{ratio:.2}</td>")
}

/// Renders how well the order of the measured values agrees with the published one.
pub(super) fn ranks(experiment: &ExperimentResult) -> String {
    if experiment.ranks.is_empty() {
        return String::new();
    }
    let all = dimensions(experiment);
    let dimension = |name: &str| all.iter().find(|d| d.name == name);
    let mut out = String::from(
        "<details>\n<summary>Rank correlation with the published order</summary>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Rank correlations\">\n<table>\n\
         <thead><tr><th scope=\"col\">At</th><th scope=\"col\">Stack</th><th scope=\"col\">Ranked</th>\
         <th scope=\"col\" class=\"num\">Spearman's rho</th>\
         <th scope=\"col\" class=\"num\">values</th></tr></thead>\n<tbody>\n",
    );
    for rank in &experiment.ranks {
        let at: Vec<String> = rank
            .at
            .iter()
            .map(|(name, value)| match dimension(name) {
                Some(d) => format!("{} {}", d.label, d.label_of(value)),
                None => format!("{name} {value}"),
            })
            .collect();
        let over = dimension(&rank.over).map_or(rank.over.as_str(), |d| &d.label);
        out += &format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}, by {}</td>\
             <td class=\"num\">{}</td><td class=\"num\">{}</td></tr>\n",
            escape(&at.join(", ")),
            escape(&rank.stack),
            escape(over),
            escape(&metric_caption(experiment, &rank.metric)),
            number(rank.spearman),
            rank.n
        );
    }
    out + "</tbody>\n</table>\n</div>\n</details>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviating_cell_says_above_or_below() {
        assert!(!ratio_cell(Some(1.49)).contains("off"));
        assert!(!ratio_cell(Some(0.67)).contains("off"));
        assert!(ratio_cell(Some(1.6)).contains(">above</span>1.60"));
        assert!(ratio_cell(Some(0.5)).contains(">below</span>0.50"));
        assert!(ratio_cell(Some(0.0)).contains(">below</span>0.00"));
        assert_eq!(ratio_cell(None), "<td class=\"num\"></td>");
    }
}
