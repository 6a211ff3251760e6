//! Arbitrary text as a scenario file with overrides: its faults and warnings have places in it, and are drawn in a bounded number
//! of characters that all can be seen. A line at the beginning such as `#set tcp.cc=reno` is an override.

#![no_main]

use libfuzzer_sys::fuzz_target;
use miette::{MietteHandlerOpts, Severity};
use roughlink_core::text::is_hidden;

#[path = "../../crates/roughlink-cli/src/drawing.rs"]
mod drawing;

/// Twenty excerpts of a file of some kilobytes.
const LONGEST: usize = 1_000_000;

fuzz_target!(
    init: {
        // The same on every terminal.
        let options = || MietteHandlerOpts::new().color(false).unicode(true).width(80);
        miette::set_hook(Box::new(move |_| Box::new(options().build()))).expect("the first hook");
    },
    |text: &str| {
        let load = |name: &str| Ok(name.to_owned());
        let set = text.lines().map_while(|line| line.strip_prefix("#set ")?.split_once('='));
        let set: Vec<_> = set.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let (text, problems, severity) = match roughlink_scenario::parse(text, "fuzz\u{1b}.toml", &set, &load) {
            Ok((scenario, warnings)) => (scenario.source, warnings, Severity::Warning),
            Err(e) => {
                check(&e.to_string());
                (e.text, e.problems, Severity::Error)
            }
        };
        for problem in &problems {
            assert!(!problem.message.is_empty());
            assert!(problem.labels.iter().all(|label| text.get(label.span.clone()).is_some()), "{problem:?}");
        }
        check(&drawing::drawn("fuzz\u{1b}.toml", &text, &problems, severity));
    }
);

fn check(drawn: &str) {
    assert!(drawn.len() <= LONGEST);
    assert!(!drawn.contains(is_hidden), "{drawn:?}");
}
