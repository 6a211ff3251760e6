//! Messages as people see them: faults of a file with the lines that they are in, other errors with their causes and advice.
//! The command line shows them on standard error, Python as the text of an exception. Depends on nothing else of the lab, so that it
//! can be fuzzed by itself.

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, Report, Severity, SourceCode,
};
use roughlink_core::text::visible;
use roughlink_scenario::{MOST_SHOWN, Problem, ScenarioError};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// For whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As suits standard error: in colour and as wide as the terminal, if it is one.
    Terminal,
    /// Without colours, 80 columns wide.
    Plain,
}

/// The faults of a file.
pub fn errors(e: &ScenarioError, form: Form) -> String {
    drawn((&e.name, &e.text), &e.problems, Severity::Error, form)
}

/// Warnings about a file with this name and text.
pub fn warnings(file: (&str, &str), warnings: &[Problem], form: Form) -> String {
    drawn(file, warnings, Severity::Warning, form)
}

/// Anything that is not about a place in a file.
pub fn plain(message: &Plain, form: Form) -> String {
    draw(message.clone(), form)
}

fn draw(what: impl Diagnostic + Send + Sync + 'static, form: Form) -> String {
    let mut out = String::new();
    match form {
        Form::Terminal => out = format!("{:?}", Report::new(what)),
        Form::Plain => {
            let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()).with_width(80);
            handler.render_report(&mut out, &what).expect("a text takes all");
        }
    }
    out.push('\n');
    out
}

/// The first problems of a file, and how many more there are.
fn drawn((name, text): (&str, &str), problems: &[Problem], severity: Severity, form: Form) -> String {
    let source = Arc::new(text.to_owned());
    let mut out = String::new();
    for problem in problems.iter().take(MOST_SHOWN) {
        // miette draws whole lines, and cannot count beyond column 65535.
        if problem.has_plain_lines(text) {
            let source = NamedSource::new(visible(name), Arc::clone(&source)).with_language("TOML");
            out += &draw(Fault { problem: problem.clone(), source, severity }, form);
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

/// A message that is not about a place in a file.
#[derive(Clone, Debug)]
pub struct Plain {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl Plain {
    /// An error with its causes.
    pub fn new(e: &dyn Error, help: Option<String>) -> Self {
        let mut message = e.to_string();
        let mut source = e.source();
        while let Some(cause) = source {
            message += &format!(": {cause}");
            source = cause.source();
        }
        Plain { message: visible(&message).into_owned(), help: help.map(|h| visible(&h).into_owned()) }
    }
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Plain {}

impl Diagnostic for Plain {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|h| Box::new(h) as Box<dyn fmt::Display>)
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
                for form in [Form::Terminal, Form::Plain] {
                    let drawn = drawn((hidden, &text), &problems, Severity::Error, form);
                    assert!(!drawn.contains(is_hidden), "{drawn:?}");
                }
            }
        }
    }
}
