//! Reads arbitrary text as a scenario file with overrides. All faults and warnings have places in the text. Their
//! drawings have bounded length and only visible characters. An initial line such as `#set tcp.cc=reno` is an override.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roughlink_core::text::is_hidden;

#[path = "../../crates/roughlink-lab/src/drawing.rs"]
#[allow(dead_code, reason = "other messages have no place in a file")]
mod drawing;

use drawing::MessageStyle;

const NAME: &str = "fuzz\u{1b}.toml";
/// Longest drawing in bytes: twenty excerpts of a file of some kilobytes.
const LONGEST: usize = 1_000_000;

fuzz_target!(|text: &str| {
    let load = |name: &str| Ok(name.to_owned());
    let set = text.lines().map_while(|line| line.strip_prefix("#set ")?.split_once('='));
    let set: Vec<_> = set.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let (text, problems, drawn) = match roughlink_scenario::parse(text, NAME, &set, &load) {
        Ok((scenario, warnings)) => {
            let drawn = drawing::warnings((NAME, &scenario.source), &warnings, MessageStyle::Plain);
            (scenario.source, warnings, drawn)
        }
        Err(e) => {
            check(&e.to_string());
            let drawn = drawing::errors(&e, MessageStyle::Plain);
            (e.text, e.problems, drawn)
        }
    };
    for problem in &problems {
        assert!(!problem.message.is_empty());
        assert!(problem.labels.iter().all(|label| text.get(label.span.clone()).is_some()), "{problem:?}");
    }
    check(&drawn);
});

fn check(drawn: &str) {
    assert!(drawn.len() <= LONGEST);
    assert!(!drawn.contains(is_hidden), "{drawn:?}");
}
