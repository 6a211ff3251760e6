//! Scenario files: the network, its flows and the seed, written as TOML, become plain values for the engine.
//!
//! A file is processed in five steps:
//!
//! - Overrides (`--set`) are written into its text (`syntax`, `set`).
//! - The text is parsed, a large one in pieces that take the next two steps one by one (`syntax`, `pieces`, `read`).
//! - The form is checked against the schema (`shape`, `forms`, `examine`, `kinds`).
//! - Values are read, each with its place (`leaf`, `file`).
//! - Names, defaults and stacks are resolved (`resolve`, and a module for each table and each of its kinds).
//!
//! A module uses only modules above it in this list:
//!
//! - Faults and the form of tables: `absent`, `problem`, `pieces`, `syntax`, `kinds`.
//! - Values: `leaf`, `table` for values in files, `struct_keys` for tables that core defines, `names`.
//! - Links: `link_keys`; the kinds of noise `air` and `loss`, then `noise`; `qdisc`, `timeline`; the kinds of links
//!   `pipe`, `hdplc` and `greenphy`, then `link`; `cable`, `coverage`.
//! - Hosts and gateways: `node`, `addresses`, `gateway`.
//! - Flows: `tcp`, `sctp`, `silence`, `context`; the kinds of flows `bulk`, `onoff`, `web`, `messages`, `cbr`, `voip`
//!   and `request`, then `flow`.
//! - The file: `file`, `schema`, `examine`, `forms`, `shape`, `set`, `get`, `read`, `resolve`, `template`.
//!
//! The cells of a sweep repeat these steps only for the pieces of the text that differ (`template`).
//!
//! No step stops at the first fault, so that all faults are shown at once, each with a suggestion. No text makes
//! [`parse`] panic.
//!
//! ```
//! let text = r#"
//!     duration = "10 s"
//!     node = [{ name = "a" }, { name = "b" }]
//!     link = [{ name = "cable", between = ["a", "b"], rate = "10 Mbit/s", delay = "2 msec" }]
//!     flow = [{ name = "f", kind = "bulk", from = "a", to = "b" }]
//! "#;
//! let error = roughlink_scenario::parse(text, "cable.toml", &[], &|_| Err("no files".into())).unwrap_err();
//! assert_eq!(error.problems[0].message, "unknown unit `msec`");
//! assert_eq!(error.problems[0].help.as_deref(), Some("did you mean \"2 ms\"?"));
//! ```

#![warn(unreachable_pub)]

mod absent;
mod addresses;
mod air;
mod bulk;
mod cable;
mod cbr;
mod context;
mod coverage;
mod examine;
mod file;
mod flow;
mod forms;
mod gateway;
mod get;
mod greenphy;
mod hdplc;
mod kinds;
mod leaf;
mod link;
mod link_keys;
mod loss;
mod messages;
mod names;
mod node;
mod noise;
mod onoff;
mod pieces;
mod pipe;
mod problem;
mod qdisc;
mod read;
mod request;
mod resolve;
mod schema;
mod sctp;
mod set;
mod shape;
mod silence;
mod struct_keys;
mod syntax;
mod table;
mod tcp;
mod template;
mod timeline;
mod voip;
mod web;

pub use get::value;
pub use kinds::resolve as definition;
pub use problem::{Label, MAX_SHOWN, Problem, ScenarioError, Warning, clipped, list, nearest};
pub use resolve::stem;
pub use schema::schema;
pub use set::split_list;
pub use template::ScenarioTemplate;

use pieces::{MAX_AT_ONCE, Obstacle};
use problem::Problems;
use roughlink_core::scenario::Scenario;
use set::Setting;
use std::borrow::Cow;

/// Reads the `text` of a scenario file. `name` is the file's name in messages. `overrides` are paths and values as for
/// `--set` (`link.plc.noise.start`, `1 %`), applied in order. `load` returns the text of a file that the scenario
/// refers to, by its name as written there.
///
/// ```
/// use roughlink_core::units::Rate;
///
/// let text = r#"
///     duration = "10 s"
///     node = [{ name = "a" }, { name = "b" }]
///     link = [{ name = "cable", between = ["a", "b"], rate = "10 Mbit/s", delay = "2 ms" }]
///     flow = [{ name = "f", kind = "bulk", from = "a", to = "b" }]
/// "#;
/// let slower = [("link.cable.rate".to_owned(), "1 Mbit/s".to_owned())];
/// let (scenario, warnings) = roughlink_scenario::parse(text, "cable.toml", &slower, &|_| Err("no files".into()))?;
/// assert_eq!(scenario.links[0].model.rate(), Rate::from_mbps(1));
/// assert!(warnings.is_empty());
/// # Ok::<(), roughlink_scenario::ScenarioError>(())
/// ```
///
/// # Errors
/// Returns all faults found, with their places.
pub fn parse(
    text: &str,
    name: &str,
    overrides: &[(String, String)],
    load: &dyn Fn(&str) -> Result<String, String>,
) -> Result<(Scenario, Vec<Warning>), ScenarioError> {
    let mut report = Problems::default();
    let mut text = Cow::Borrowed(text);
    if !overrides.is_empty() {
        let (head, rest) = text.split_at(if text.len() > MAX_AT_ONCE { pieces::head(&text) } else { text.len() });
        if head.len() > MAX_AT_ONCE {
            syntax::report_obstacle(&Obstacle::Long(0..head.len()), &text, &mut report);
        } else {
            syntax::read(head, &mut report);
        }
        if !report.problems.is_empty() {
            return Err(report.fail(name, &text));
        }
        let settings = overrides.iter().map(|(path, value)| (path.as_str(), Setting::Value(value)));
        text = set::apply(head, rest, settings, &schema::FORM, &mut report).into();
    }
    finish(text, name, !overrides.is_empty(), load, report)
}

/// Reads a text into which the overrides of [`parse`] have been written ([`ScenarioTemplate`]).
///
/// # Errors
/// Returns all faults found, with their places.
pub fn parse_overridden(
    text: String,
    name: &str,
    load: &dyn Fn(&str) -> Result<String, String>,
) -> Result<(Scenario, Vec<Warning>), ScenarioError> {
    finish(text.into(), name, true, load, Problems::default())
}

/// Reads a text whose overrides are written, with the faults found so far.
fn finish(
    text: Cow<'_, str>,
    name: &str,
    overridden: bool,
    load: &dyn Fn(&str) -> Result<String, String>,
    mut report: Problems,
) -> Result<(Scenario, Vec<Warning>), ScenarioError> {
    let called = if overridden { format!("{name} with overrides") } else { name.to_owned() };
    let Some(file) = read::read(&text, &mut report) else { return Err(report.fail(&called, &text)) };
    let mut scenario = resolve::resolve(file, name, load, &mut report);
    let warnings = report.finish(&called, &text)?;
    scenario.source = text.into_owned();
    Ok((scenario, warnings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use read::MAX_FAULTS;

    /// Returns a scenario larger than is read at once.
    fn large(rest: &str) -> String {
        let nodes = (0..45_000).map(|i| format!("[[node]]\nname = \"n{i}\"\n"));
        let text = format!("duration = \"1 s\"\n{}{rest}", nodes.collect::<String>());
        assert!(text.len() > MAX_AT_ONCE);
        text
    }

    fn parse_large(text: &str, overrides: &[(&str, &str)]) -> Result<Scenario, ScenarioError> {
        let overrides: Vec<_> = overrides.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        parse(text, "s", &overrides, &|_| Err("no files".into())).map(|(scenario, _)| scenario)
    }

    #[test]
    fn large_scenarios_are_read_only_in_pieces() {
        let scenario = parse_large(&large("[tcp]\nstack = \"rfc\"\n"), &[("seed", "7"), ("name", "large")]).unwrap();
        assert_eq!((scenario.seed, scenario.nodes.len(), &*scenario.name), (7, 45_000, "large"));
        assert!(scenario.source.starts_with("duration = \"1 s\"\nseed = 7\n"), "{}", &scenario.source[..50]);
        for (rest, fault, place) in [
            ("[[node]]\nname = \"x\"\nname = \"y\"\n", "invalid TOML: duplicate key", "name"),
            ("[duration]\n", "`duration` is in several parts of a scenario larger than 1 MB", "duration"),
            (
                &format!("[[link]]\n#{}\n", "-".repeat(MAX_AT_ONCE)),
                "this part of a scenario larger than 1 MB is too long",
                "",
            ),
        ] {
            let text = large(rest);
            let problems = parse_large(&text, &[]).unwrap_err().problems;
            assert_eq!((problems.len(), &*problems[0].message), (1, fault), "{problems:?}");
            assert_eq!(&text[problems[0].labels[0].span.clone()], place);
        }
        let fault = parse_large(&large(""), &[("node.n1.kernel", "true")]).unwrap_err().problems.remove(0);
        assert_eq!(
            fault.message,
            "override `node.n1.kernel`: cannot set keys of `node` in a scenario larger than 1 MB"
        );
        let nameless = format!("duration = \"1 s\"\n{}", "[[node]]\n".repeat(120_000));
        let problems = parse_large(&nameless, &[]).unwrap_err().problems;
        assert!((MAX_FAULTS..10_000).contains(&problems.len()), "{}", problems.len());
        assert_eq!(problems.last().unwrap().message, "the rest of a scenario larger than 1 MB is not read");
    }
}
