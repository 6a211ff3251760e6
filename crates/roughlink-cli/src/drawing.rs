//! Faults of a file as a terminal shows them. Depends on nothing else of the command, so that it can be fuzzed by itself.

use miette::{Diagnostic, LabeledSpan, NamedSource, Report, Severity, SourceCode};
use roughlink_core::text::visible;
use roughlink_scenario::{MOST_SHOWN, Problem};
use std::fmt;
use std::sync::Arc;

/// The first problems of a file, and how many more there are; in colour if standard error is a terminal.
pub(crate) fn drawn(name: &str, text: &str, problems: &[Problem], severity: Severity) -> String {
    let source = Arc::new(text.to_owned());
    let mut out = String::new();
    for problem in problems.iter().take(MOST_SHOWN) {
        // miette draws whole lines, and cannot count beyond column 65535.
        if problem.has_plain_lines(text) {
            let source = NamedSource::new(visible(name), Arc::clone(&source)).with_language("TOML");
            out += &format!("{:?}\n", Report::new(Fault { problem: problem.clone(), source, severity }));
        } else {
            out += &format!("{}\n", problem.render(name, text).trim_end());
        }
    }
    if problems.len() > MOST_SHOWN {
        out += &format!("and {} more\n", problems.len() - MOST_SHOWN);
    }
    out
}

/// A problem of a file, as miette draws it.
#[derive(Debug)]
struct Fault {
    problem: Problem,
    source: NamedSource<Arc<String>>,
    severity: Severity,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.problem.labels.is_empty() {
            write!(f, "{}: ", self.source.name())?; // without an excerpt nothing else names the file
        }
        f.write_str(&visible(&self.problem.message))
    }
}

impl std::error::Error for Fault {}

impl Diagnostic for Fault {
    fn severity(&self) -> Option<Severity> {
        Some(self.severity)
    }
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.problem.help.as_ref().filter(|h| !h.is_empty()).map(|h| Box::new(visible(h)) as Box<dyn fmt::Display>)
    }
    fn source_code(&self) -> Option<&dyn SourceCode> {
        (!self.problem.labels.is_empty()).then_some(&self.source)
    }
    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.problem.labels.iter().map(|label| {
            let text = (!label.text.is_empty()).then(|| visible(&label.text).into_owned());
            LabeledSpan::new_with_span(text, label.span.clone())
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roughlink_core::text::is_hidden;

    /// Also one at the end of a line, where it looks like a space.
    #[test]
    fn no_character_is_drawn_that_a_terminal_acts_on() {
        for hidden in ["\u{b}", "\u{c}", "\u{85}", "\u{1b}[2J", "\r", "\u{202e}"] {
            for [before, after, end] in [["", "", hidden], ["", hidden, ""], [hidden, "", ""]] {
                let text = format!("a{before}\r\nb c{after}\r\nd{end}");
                let at = text.find('c').expect("there is one");
                let problems = [Problem::new(format!("wrong {hidden}")).at(at..at + 1, hidden).help(hidden)];
                let drawn = drawn(hidden, &text, &problems, Severity::Error);
                assert!(!drawn.contains(is_hidden), "{drawn:?}");
            }
        }
    }
}
