//! Faults of a scenario file, each with a place for a program to underline.

use super::absent::absent;
use roughlink_core::text::{is_hidden, visible};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

/// A fault of a scenario file, or a warning about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Message without the place.
    pub message: String,
    /// Places; the first is the fault itself. Empty if it is not in the file (an override that names nothing).
    pub labels: Vec<Label>,
    /// Advice on the fix.
    pub help: Option<String>,
    /// Key of the override that cannot be applied.
    pub key: Option<String>,
}

/// A place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Bytes of the text; on character boundaries.
    pub span: Range<usize>,
    /// The text at this place; may be empty.
    pub text: String,
}

/// Valid but probably unintended input.
pub type Warning = Problem;

/// An invalid scenario, with all faults found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Name of the file, as given.
    pub name: String,
    /// The text that the labels point into: the file's, after overrides.
    pub text: String,
    /// In the order of the text; at least one.
    pub problems: Vec<Problem>,
}

impl Problem {
    /// Creates a problem without a place.
    pub fn new(message: impl Into<String>) -> Self {
        Problem { message: clipped(message.into()), labels: Vec::new(), help: None, key: None }
    }

    /// Adds a place.
    #[must_use]
    pub fn at(mut self, span: Range<usize>, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: clipped(text.into()) });
        self
    }

    /// Adds advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(clipped(help.into()));
        self
    }

    /// Renders as plain text: `name:line:column: message`, the lines underlined, the help. `name` and `text` must be
    /// those passed to the parser. Shows the part of a long line around the place, and escapes control characters.
    ///
    /// ```
    /// use roughlink_scenario::Problem;
    ///
    /// let problem = Problem::new("10 has no unit").at(7..9, "").help("write \"10 Mbit/s\"");
    /// let shown = problem.render("link.toml", "rate = 10\n");
    /// assert!(shown.starts_with("link.toml:1:8: 10 has no unit\n    1 | rate = 10\n      |        ^^\n"));
    /// assert!(shown.ends_with("= help: write \"10 Mbit/s\"\n"));
    /// ```
    pub fn render(&self, name: &str, text: &str) -> String {
        let (name, message) = (visible(name), visible(&self.message));
        let mut out = String::new();
        match self.labels.first() {
            Some(label) => {
                let at = SpanStart::new(text, &label.span);
                out += &format!("{name}:{}:{}: {message}\n", at.line, at.column);
            }
            None => out += &format!("{name}: {message}\n"),
        }
        for label in &self.labels {
            let at = SpanStart::new(text, &label.span);
            let [before, marked, after] = at.excerpt();
            let width = |text: &str| text.chars().count();
            let (margin, line) = (" ".repeat(width(&before)), "^".repeat(width(&marked).max(1)));
            out += &format!("{:5} | {before}{marked}{after}\n      | {margin}{line}", at.line);
            if !label.text.is_empty() {
                out += &format!(" {}", visible(&label.text));
            }
            out += "\n";
        }
        if let Some(help) = &self.help {
            out += &format!("      = help: {}\n", visible(help));
        }
        out
    }

    /// Returns true if the lines of the places are short and consist of characters that a terminal shows.
    pub fn has_plain_lines(&self, text: &str) -> bool {
        self.labels.iter().all(|label| {
            // The lines before and after the place are shown, too, and one more if the place is within a line's end.
            let start = text.floor_char_boundary(label.span.start);
            let end = text.floor_char_boundary(label.span.end.max(start));
            let from = text[..start].rmatch_indices('\n').nth(2).map_or(0, |(i, _)| i);
            let to = text[end..].match_indices('\n').nth(2).map_or(text.len(), |(i, _)| end + i + 1);
            text[from..to].lines().all(|line| line.len() <= MAX_LINE_LEN && !line.contains(is_hidden))
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().take(MAX_SHOWN).enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&problem.render(&self.name, &self.text))?;
        }
        match self.problems.len() {
            n if n > MAX_SHOWN => writeln!(f, "\nand {} more", n - MAX_SHOWN),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for ScenarioError {}

/// Returns a message without the middle of a long quotation.
pub fn clipped(text: String) -> String {
    if text.len() <= MAX_MESSAGE_LEN {
        return text;
    }
    let (start, end) =
        (text.floor_char_boundary(MAX_MESSAGE_LEN / 2), text.ceil_char_boundary(text.len() - MAX_MESSAGE_LEN / 4));
    format!("{} [...] {}", &text[..start], &text[end..])
}

/// Most problems of a file that are shown.
pub const MAX_SHOWN: usize = 20;
/// Bytes of a message that can be shown whole; the list of a table's keys has fewer.
const MAX_MESSAGE_LEN: usize = 4000;
/// Bytes of a line that can be shown whole.
const MAX_LINE_LEN: usize = 1000;
/// Characters of a longer line that are shown before the place, and from it on.
const SHOWN_BEFORE: usize = 60;
const SHOWN_AFTER: usize = 120;

/// The first line of a span, in characters from 1.
struct SpanStart<'t> {
    line: usize,
    column: usize,
    width: usize,
    text: &'t str,
}

impl<'t> SpanStart<'t> {
    fn new(text: &'t str, span: &Range<usize>) -> Self {
        let start = text.floor_char_boundary(span.start);
        let begin = text[..start].rfind('\n').map_or(0, |i| i + 1);
        let end = text[start..].find('\n').map_or(text.len(), |i| start + i);
        let stop = text.floor_char_boundary(span.end).clamp(start, end);
        SpanStart {
            line: 1 + text[..start].matches('\n').count(),
            column: 1 + text[begin..start].chars().count(),
            width: text[start..stop].chars().count().max(1),
            text: text[begin..end].trim_end_matches('\r'),
        }
    }

    /// Returns the text before the span, in it and after it, as far as it is shown.
    fn excerpt(&self) -> [String; 3] {
        let long = self.text.len() > MAX_LINE_LEN;
        let (start, width) = (self.column - 1, if long { self.width.min(SHOWN_AFTER) } else { self.width });
        let (skipped, last) =
            if long { (start.saturating_sub(SHOWN_BEFORE), start + SHOWN_AFTER) } else { (0, usize::MAX) };
        let mut parts = [String::new(), String::new(), String::new()];
        let mut rest = false;
        for (i, c) in self.text.chars().enumerate().skip(skipped) {
            if i >= last {
                rest = true;
                break;
            }
            let part = if i < start { 0 } else { 1 + usize::from(i >= start + width) };
            parts[part] += &visible(&if c == '\t' { ' ' } else { c }.to_string());
        }
        if skipped > 0 {
            parts[0].insert_str(0, "...");
        }
        if rest {
            parts[2] += "...";
        }
        parts
    }
}

#[derive(Debug, Default)]
pub(super) struct Problems {
    pub problems: Vec<Problem>,
    pub warnings: Vec<Warning>,
}

impl Problems {
    pub(crate) fn error(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    pub(crate) fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }

    /// Returns true if there are neither faults nor warnings.
    pub(crate) fn is_empty(&self) -> bool {
        self.problems.is_empty() && self.warnings.is_empty()
    }

    /// Returns the warnings in the order of the text, each once, or the faults.
    pub(crate) fn finish(self, name: &str, text: &str) -> Result<Vec<Warning>, ScenarioError> {
        if self.problems.is_empty() { Ok(in_order(self.warnings)) } else { Err(self.fail(name, text)) }
    }

    /// Returns the faults in the order of the text, each once.
    pub(crate) fn fail(self, name: &str, text: &str) -> ScenarioError {
        ScenarioError { name: name.to_owned(), text: text.to_owned(), problems: in_order(self.problems) }
    }

    /// Returns true if there are so many faults that advice on another is not worth a search through all names.
    pub(crate) fn is_crowded(&self) -> bool {
        self.problems.len() > MAX_ADVICE
    }
}

/// Sorts by the order of the text and removes duplicates.
fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    let mut seen = BTreeSet::new();
    problems.retain(|p| {
        let places: Vec<_> = p.labels.iter().map(|l| (l.span.start, l.span.end, l.text.clone())).collect();
        seen.insert((places, p.message.clone(), p.help.clone()))
    });
    problems.sort_by_key(|p| p.labels.first().map_or(0, |label| label.span.start));
    problems
}

/// Returns the word of `known` that `word` misspells: one edit in a short word, a third of the letters in longer ones.
///
/// ```
/// use roughlink_scenario::nearest;
///
/// assert_eq!(nearest("cubik", ["bbr", "cubic"]), Some("cubic"));
/// assert_eq!(nearest("prague", ["bbr", "cubic"]), None);
/// ```
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let far = word.chars().count().max(3) / 3;
    known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(&word.to_lowercase(), &k.to_lowercase()), k))
        .filter(|(distance, _)| *distance <= far)
        .min()
        .map(|(_, k)| k)
}

/// Returns "did you mean `x`?", the alternative to a well-known unavailable name, or all names after `introduction`.
pub(super) fn suggest<'k>(word: &str, introduction: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match (absent(word), nearest(word, known.iter().copied())) {
        (Some(absent), _) => absent,
        (None, Some(k)) => format!("did you mean `{k}`?"),
        (None, None) => format!("{introduction} {}", list(&known)),
    }
}

/// Returns `a`, `b`, `c`; for many words the first ones and the number of the others.
pub fn list(words: &[&str]) -> String {
    let shown = if words.len() > MAX_LISTED { MAX_LISTED - 1 } else { words.len() };
    let text = words[..shown].iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ");
    if shown == words.len() { text } else { format!("{text} and {} more", words.len() - shown) }
}

/// Words of a list in a message; the longest list of keys has fewer.
const MAX_LISTED: usize = 80;
/// Number of faults above which advice is omitted; more than are shown.
const MAX_ADVICE: usize = 100;
