//! Tables that fit the width. If possible, only the least important columns are left out. Otherwise the columns that do
//! not fit go into further tables below, which repeat the names. Only prose is broken, between words.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, TableStyle, Width};
use std::fmt;
use std::io::IsTerminal as _;

#[derive(Debug, Default)]
pub(crate) struct TextTable {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Number of leading columns, which name the row; later columns are aligned to the right.
    names: Option<usize>,
    dispensable: Vec<usize>,
}

pub(crate) fn table(heading: &[&str]) -> TextTable {
    TextTable { heading: heading.iter().map(|h| (*h).to_owned()).collect(), ..TextTable::default() }
}

impl TextTable {
    pub(crate) fn add_row<T: Into<String>>(&mut self, row: impl IntoIterator<Item = T>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    /// Declares that all columns except the first `names` hold numbers.
    pub(crate) fn numbers(&mut self, names: usize) {
        self.names = Some(names);
    }

    /// Marks columns that may be left out, the least important first, to make the others fit side by side.
    pub(crate) fn less_important(&mut self, columns: &[usize]) {
        self.dispensable = columns.to_vec();
    }

    pub(crate) fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Renders the table in lines of at most `width`, unless a single word is longer.
    fn render(&self, width: usize) -> String {
        let parts: Vec<String> = self.parts(width).iter().map(|columns| self.part(columns, width)).collect();
        parts.join("\n")
    }

    /// Returns groups of columns that fit side by side.
    fn parts(&self, width: usize) -> Vec<Vec<usize>> {
        let names: Vec<usize> = (0..self.names.unwrap_or(1)).collect();
        // Columns without values are left out.
        let empty = |i: &usize| self.rows.iter().all(|row| matches!(row[*i].as_str(), "" | "-"));
        let others = (names.len()..self.heading.len()).filter(|i| self.rows.is_empty() || !empty(i));
        let others: Vec<usize> = others.collect();
        let taken = |columns: &[usize]| columns.iter().map(|i| self.least(*i) + PADDING).sum::<usize>() + 1;
        for n in 0..=self.dispensable.len() {
            let kept = others.iter().filter(|i| !self.dispensable[..n].contains(i));
            let all: Vec<usize> = names.iter().chain(kept).copied().collect();
            if taken(&all) <= width {
                return vec![all];
            }
        }
        let mut parts = vec![names.clone()];
        for i in others {
            let part = parts.last_mut().expect("never empty");
            part.push(i);
            if part.len() > names.len() + 1 && taken(part) > width {
                part.pop();
                parts.push([&names[..], &[i]].concat());
            }
        }
        parts
    }

    fn cells(&self, i: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().map(move |row| row[i].as_str())
    }

    /// Returns the minimum width of a column: the longest word of prose, otherwise the longest line.
    fn least(&self, i: usize) -> usize {
        let longest = |parts: &mut dyn Iterator<Item = &str>| parts.map(|p| p.chars().count()).max().unwrap_or(0);
        let lines = longest(&mut self.cells(i).flat_map(str::lines));
        let words = longest(&mut self.cells(i).flat_map(str::split_whitespace));
        let heading = longest(&mut self.heading[i].split_whitespace());
        heading.max(if lines > PROSE { words } else { lines })
    }

    fn part(&self, columns: &[usize], width: usize) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(PLAIN).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        table.set_header(columns.iter().map(|i| &self.heading[*i]));
        for row in &self.rows {
            table.add_row(columns.iter().map(|i| &row[*i]));
        }
        for (column, i) in table.column_iter_mut().zip(columns) {
            let least = u16::try_from(self.least(*i) + 2).unwrap_or(u16::MAX); // a space on either side
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
            if self.names.is_some_and(|names| *i >= names) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.trim_fmt()
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(width()))
    }
}

/// Returns the width of the terminal, or `PAGE` without one.
pub(crate) fn width() -> usize {
    let terminal = std::io::stdout().is_terminal().then(|| comfy_table::Table::new().width()).flatten();
    terminal.map_or(PAGE, usize::from)
}

/// Width of output to a file or a pipe.
const PAGE: usize = 80;
/// Width between two columns: a space on either side and one for the rule.
const PADDING: usize = 3;
/// Longer cells are prose.
const PROSE: usize = 30;
/// Style with only a rule below the heading.
const PLAIN: TableStyle = TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));

#[cfg(test)]
mod tests {
    use super::*;

    fn wide() -> TextTable {
        let mut t = table(&["name of the flow", "a", "b", "nothing", "c", "d"]);
        t.add_row(["the first of both", "1234.5 ± 0.001", "2345.6 Mbit/s", "-", "34567.8 packets", "1"]);
        t.add_row(["the second", "1.5 ± 1000.001", "2.6 Mbit/s", "", "3.8 packets", "22"]);
        t.numbers(1);
        t
    }

    #[test]
    fn wide_tables_wrap_between_columns() {
        for width in [40, 60, 80, 200] {
            let text = wide().render(width);
            assert!(text.lines().all(|l| l.chars().count() <= width), "{width}:\n{text}");
            for whole in ["the first of both", "1.5 ± 1000.001", "2345.6 Mbit/s", "34567.8 packets"] {
                assert!(text.contains(whole), "{width}: {whole}\n{text}");
            }
            assert!(!text.contains("nothing"), "{text}");
            let parts = text.lines().filter(|l| l.contains("the second")).count();
            assert_eq!(parts > 1, width < 80, "{width}:\n{text}");
        }
    }

    #[test]
    fn least_important_columns_are_dropped_if_the_rest_fits() {
        let mut t = wide();
        t.less_important(&[4, 5]);
        let fits = |width| (t.parts(width).len() > 1, t.render(width).contains("packets"));
        assert_eq!([fits(40), fits(66), fits(80)], [(true, true), (false, false), (false, true)], "{}", t.render(66));
    }

    #[test]
    fn prose_wraps_between_words() {
        let mut t = table(&["key", "what"]);
        let text = "a sentence of some length about cwnd_mean_pkt that no line of a terminal can hold at once";
        t.add_row(["k", text]);
        let shown = t.render(40);
        assert!(shown.lines().all(|l| l.chars().count() <= 40), "{shown}");
        let words: Vec<&str> = shown.split_whitespace().collect();
        assert!(text.split(' ').all(|w| words.contains(&w)), "{shown}");
    }
}
