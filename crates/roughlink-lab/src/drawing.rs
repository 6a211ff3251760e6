//! Rendering of messages: errors in a file with the lines concerned, other errors with causes and advice. The command
//! line shows them on standard error, Python as the text of an exception. This module depends on no other part of the
//! crate, so that it can be fuzzed separately.

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, Report, Severity, SourceCode,
};
use roughlink_core::text::visible;
use roughlink_scenario::{MAX_SHOWN, Problem, ScenarioError, clipped};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Output form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageStyle {
    /// For standard error: with color and terminal width if it is a terminal.
    Terminal,
    /// Without color, 80 columns wide.
    Plain,
}

/// Renders the errors of a file.
pub fn errors(e: &ScenarioError, form: MessageStyle) -> String {
    drawn((&e.name, &e.text), &e.problems, Severity::Error, form)
}

/// Renders warnings about a file with this name and text.
pub fn warnings(file: (&str, &str), warnings: &[Problem], form: MessageStyle) -> String {
    drawn(file, warnings, Severity::Warning, form)
}

/// Renders a message that is not about a place in a file.
pub fn plain(message: &Plain, form: MessageStyle) -> String {
    draw(message.clone(), form)
}

fn draw(what: impl Diagnostic + Send + Sync + 'static, form: MessageStyle) -> String {
    let mut out = String::new();
    match form {
        MessageStyle::Terminal => out = format!("{:?}", Report::new(what)),
        MessageStyle::Plain => {
            let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()).with_width(80);
            handler.render_report(&mut out, &what).expect("a text takes all");
        }
    }
    out.push('\n');
    out
}

fn drawn((name, text): (&str, &str), problems: &[Problem], severity: Severity, form: MessageStyle) -> String {
    let source = Arc::new(text.to_owned());
    let mut out = String::new();
    for problem in problems.iter().take(MAX_SHOWN) {
        // miette draws whole lines, and cannot count beyond column 65535.
        if problem.has_plain_lines(text) {
            let source = NamedSource::new(visible(name), Arc::clone(&source)).with_language("TOML");
            out += &draw(Fault { problem: problem.clone(), source, severity }, form);
        } else {
            out += &format!("{}\n", problem.render(name, text).trim_end());
        }
    }
    if problems.len() > MAX_SHOWN {
        out += &format!("and {} more\n", problems.len() - MAX_SHOWN);
    }
    out
}

/// Problem of a file as a diagnostic of miette.
#[derive(Debug)]
struct Fault {
    problem: Problem,
    source: NamedSource<Arc<String>>,
    severity: Severity,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.problem.labels.is_empty() {
            write!(f, "{}: ", self.source.name())?; // without an excerpt, only this names the file
        }
        f.write_str(&visible(&self.problem.message))
    }
}

impl Error for Fault {}

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

/// Message that is not about a place in a file.
#[derive(Clone, Debug)]
pub struct Plain {
    /// Description of the error.
    pub message: String,
    /// Advice.
    pub help: Option<String>,
}

impl Plain {
    /// Creates the message of an error with its causes. Cuts the middle out of long texts.
    pub fn new(e: &dyn Error, help: Option<String>) -> Self {
        let mut message = e.to_string();
        let mut source = e.source();
        while let Some(cause) = source {
            message += &format!(": {cause}");
            source = cause.source();
        }
        Plain { message: clipped(message), help: help.map(clipped) }
    }
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&visible(&self.message))
    }
}

impl Error for Plain {}

impl Diagnostic for Plain {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|h| Box::new(visible(h)) as Box<dyn fmt::Display>)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roughlink_core::text::is_hidden;

    /// A place may be between the two characters that end a line.
    #[test]
    fn control_characters_near_a_place_are_not_drawn() {
        let text = "\0\r\na\r\nb = \"c\r\nd\r\n\0\r\n";
        for at in 0..=text.len() {
            for end in at..=text.len() {
                let drawn =
                    drawn(("x", text), &[Problem::new("wrong").at(at..end, "")], Severity::Error, MessageStyle::Plain);
                assert!(!drawn.contains(is_hidden), "{at}..{end}: {drawn:?}");
            }
        }
    }

    #[test]
    fn long_causes_are_cut() {
        let error = std::io::Error::other(format!("unknown variant `{}`, expected one of three", "x".repeat(100_000)));
        let shown = Plain::new(&error, Some("y".repeat(100_000))).to_string();
        assert!(shown.len() < 5_000 && shown.ends_with("expected one of three"), "{shown}");
    }

    /// Includes characters at the end of a line that count as white space.
    #[test]
    fn terminal_control_characters_are_not_drawn() {
        for hidden in ["\u{b}", "\u{c}", "\u{85}", "\u{1b}[2J", "\r", "\u{202e}"] {
            for [before, after, end] in [["", "", hidden], ["", hidden, ""], [hidden, "", ""]] {
                let text = format!("a{before}\r\nb c{after}\r\nd{end}");
                let at = text.find('c').expect("there is one");
                let problems = [Problem::new(format!("wrong {hidden}")).at(at..at + 1, hidden).help(hidden)];
                for form in [MessageStyle::Terminal, MessageStyle::Plain] {
                    let drawn = drawn((hidden, &text), &problems, Severity::Error, form);
                    assert!(!drawn.contains(is_hidden), "{drawn:?}");
                    let drawn = plain(&Plain { message: text.clone(), help: Some(hidden.to_owned()) }, form);
                    assert!(!drawn.contains(is_hidden), "{drawn:?}");
                }
            }
        }
    }
}
