//! Faults of TOML syntax, with suggestions. The intention is guessed from the parser's message and the line.

use super::pieces::{MAX_AT_ONCE, Obstacle};
use super::problem::{Problem, Problems};
use std::ops::Range;
use toml::Spanned;
use toml::de::DeTable;

/// Reads TOML; faults are reported.
pub(super) fn read<'t>(text: &'t str, report: &mut Problems) -> Spanned<DeTable<'t>> {
    let (document, faults) = DeTable::parse_recoverable(text);
    for fault in faults.iter().take(MAX_FAULTS) {
        report.error(problem(fault.message(), fault.span().unwrap_or(0..0), text));
    }
    document
}

/// Reports why a text that is too large to be read at once cannot be read in pieces.
pub(super) fn report_obstacle(obstacle: &Obstacle, text: &str, report: &mut Problems) {
    let large = format!("a scenario larger than {} MB", MAX_AT_ONCE / 1_000_000);
    let (message, place, help) = match obstacle {
        Obstacle::Fault(piece) => {
            for fault in DeTable::parse_recoverable(&text[piece.clone()]).1.iter().take(MAX_FAULTS) {
                let span = fault.span().unwrap_or(0..0);
                report.error(problem(fault.message(), piece.start + span.start..piece.start + span.end, text));
            }
            return;
        }
        Obstacle::Long(piece) => (
            format!("this part of {large} is too long"),
            piece.start..piece.start,
            "begin each table of nodes, links and flows with a line [[node]], [[link]] or [[flow]]".to_owned(),
        ),
        Obstacle::NotTaken(piece) => {
            (format!("the rest of {large} is not read"), piece.end..piece.end, "fix the faults before it".to_owned())
        }
        Obstacle::Shared(key) => (
            format!("`{}` is in several parts of {large}", &text[key.clone()]),
            key.clone(),
            "write its tables next to each other, before the first [[list]]".to_owned(),
        ),
    };
    report.error(Problem::new(message).at(place, "").help(help));
}

/// Creates the problem for a fault found by the TOML reader.
pub(super) fn problem(message: &str, span: Range<usize>, text: &str) -> Problem {
    let help = advice(message, &Line::around(&span, text));
    Problem::new(format!("invalid TOML: {message}")).at(span, "").help(help)
}

/// The line of a fault.
struct Line<'t> {
    all: &'t str,
    before: &'t str,
    /// Text that the reader rejected, and the rest of the line without a comment.
    bad: &'t str,
    after: &'t str,
}

impl<'t> Line<'t> {
    fn around(span: &Range<usize>, text: &'t str) -> Self {
        let at = text.floor_char_boundary(span.start);
        let begin = text[..at].rfind('\n').map_or(0, |i| i + 1);
        let end = text[at..].find('\n').map_or(text.len(), |i| at + i);
        let stop = text.floor_char_boundary(span.end).clamp(at, end);
        let after = &text[at..end];
        Line {
            all: text[begin..end].trim(),
            before: text[begin..at].trim(),
            bad: text[at..stop].trim(),
            after: after.split('#').next().unwrap_or(after).trim(),
        }
    }

    /// Returns the name of the table if this line is its heading.
    fn heading(&self) -> Option<&'t str> {
        self.all.strip_prefix('[').map(|rest| rest.trim_matches(['[', ']', ' ']))
    }
}

fn advice(message: &str, line: &Line<'_>) -> String {
    if line.all.starts_with("//") || line.all.starts_with(';') {
        return "begin a comment with #".into();
    }
    if let Some((key, value)) = line.all.split_once(':').filter(|_| !line.all.contains('=')) {
        return format!("write {} = {}", key.trim(), value.trim());
    }
    let known = FORMS.iter().find(|(part, _)| message.contains(part));
    match known.map_or(Mistake::Other, |(_, form)| *form) {
        Mistake::Say(help) => help.into(),
        Mistake::Twice => match line.heading() {
            Some(name) => {
                format!("write [{name}] once, with all its keys, or [[{name}]] for each table of a list")
            }
            None => format!("remove one of the two lines with `{}`", line.bad),
        },
        Mistake::Heading => {
            let name = line.heading().unwrap_or("node");
            if line.all.starts_with("[[") { format!("write [[{name}]]") } else { format!("write [{name}]") }
        }
        Mistake::Unquoted => unquoted(line),
        Mistake::Open(quote) => match line.before.split_once(quote) {
            Some((_, inner)) => format!("end the string with the quote that it begins with: {quote}{inner}{quote}"),
            None if quote.len() > 1 => format!("end the string with {quote}"),
            None => NO_VALUE.into(),
        },
        Mistake::NotOpen => format!("write \"{}\"", bare(line.after)),
        Mistake::NoValue => match (line.before, line.after) {
            (key, "") => format!("write a value: {key} = ..."),
            (key, value) if value.contains('=') => format!("write the key as one word, such as {key}_{value}"),
            (key, value) => format!("write {key} = {value}"),
        },
        Mistake::Surplus => match (line.heading(), line.after.strip_prefix(',')) {
            (Some(name), _) => format!("write [{name}] for a table, [[{name}]] for each table of a list"),
            (None, Some("")) => "remove the comma at the end of the line".into(),
            (None, Some(rest)) if rest.starts_with(|c: char| c.is_ascii_digit()) => {
                "write the number with a decimal point".into()
            }
            _ if line.before.ends_with("==") => "write one `=`".into(),
            _ if line.before.ends_with('"') && line.after.ends_with('"') => {
                "write a quote within a string as \\\"".into()
            }
            _ => format!("{ONE_KEY}; move `{}` to its own line, or put it after a #", line.after),
        },
        Mistake::Other => OTHER.into(),
    }
}

/// Returns advice for a value that is neither text, number nor anything else.
fn unquoted(line: &Line<'_>) -> String {
    let value = bare(line.bad);
    if line.after.strip_prefix(line.bad).is_some_and(|rest| rest.trim_start().starts_with('=')) {
        return ONE_KEY.into();
    }
    match value.to_ascii_lowercase().as_str() {
        "" => NO_VALUE.into(),
        "true" | "yes" | "on" => "write true".into(),
        "false" | "no" | "off" => "write false".into(),
        number if number.parse::<f64>().is_ok() => format!("write {number}"),
        _ if line.before.contains(['[', '{']) && value.contains(' ') => {
            format!("write \"{value}\", or separate its parts with commas")
        }
        _ => format!("write \"{value}\""),
    }
}

/// Strips quotes added by a word processor or by mistake.
fn bare(value: &str) -> &str {
    value.trim_matches(['"', '\'', '“', '”', '„', ';', ' '])
}

#[derive(Clone, Copy)]
enum Mistake {
    /// Mistake with fixed advice.
    Say(&'static str),
    /// A key or a table for the second time.
    Twice,
    /// A heading without its end.
    Heading,
    /// A text without quotes.
    Unquoted,
    /// A text without its last quote.
    Open(&'static str),
    /// A text without its first quote.
    NotOpen,
    /// A key and no `=`.
    NoValue,
    /// Text after the value or the heading.
    Surplus,
    Other,
}

/// A single mistake in TOML tends to cause a series of errors.
const MAX_FAULTS: usize = 3;

/// Mistakes by text in the message; the first match applies. The parser has no kinds of errors, only texts. The test
/// `invalid_toml_is_explained` provokes each of these and pins the messages, so a reworded one is noticed.
const FORMS: &[(&str, Mistake)] = &[
    ("duplicate key", Mistake::Twice),
    ("cannot extend", Mistake::Say("remove either the value or the keys: a key with a value is not a table")),
    ("string values must be quoted", Mistake::Unquoted),
    ("visible characters", Mistake::Say("write special characters as \\t, \\n, \\u0001")),
    ("escaped value", Mistake::Say("write \\\\ for a backslash, or put the string in single quotes")),
    ("invalid multi-line basic string", Mistake::Open("\"\"\"")),
    ("invalid multi-line literal string", Mistake::Open("'''")),
    ("invalid basic string", Mistake::Open("\"")),
    ("invalid literal string", Mistake::Open("'")),
    ("missing opening quote", Mistake::NotOpen),
    ("key with no value", Mistake::NoValue),
    ("extra `=`", Mistake::Say("write one `=`")),
    ("unclosed table", Mistake::Heading),
    ("unclosed array table", Mistake::Heading),
    ("unclosed array", Mistake::Say("close the list with `]`")),
    ("unclosed inline table", Mistake::Say("close the table with `}`")),
    ("array opening", Mistake::Say("begin the list with `[`")),
    ("inline table opening", Mistake::Say("begin the table with `{`")),
    ("extra comma", Mistake::Say("remove one comma")),
    ("missing assignment", Mistake::Say("write `=` between the key and its value")),
    ("in array", Mistake::Say("close the list with `]` before the next key")),
    ("between array elements", Mistake::Say("separate the elements of a list with commas, and close it with `]`")),
    ("between key-value pairs", Mistake::Say("separate the keys of a table with commas, and close it with `}`")),
    ("unexpected key or value", Mistake::Surplus),
    ("key", Mistake::Say("write keys with letters, digits, `-` and `_`, as in delay = \"10 ms\"")),
    ("mantissa", Mistake::Say("write a digit before the decimal point, as in 0.5")),
    ("fraction", Mistake::Say("write a digit after the decimal point, as in 0.5")),
    ("numeric sign", Mistake::Say("write one sign")),
    ("leading zero", Mistake::Say("write the number without the leading zero")),
    ("boolean", Mistake::Say("write true or false, in lower case")),
];

const ONE_KEY: &str = "write one key and its value per line";
const NO_VALUE: &str = "write a value after the `=`";
const OTHER: &str = "write key = value, a [heading] or a # comment; put strings and quantities in quotes: \"10 ms\"";
