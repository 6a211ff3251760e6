//! Scenario files: the network, its flows and the seed, written as TOML, become plain values for the engine.
//!
//! A file is processed in four steps:
//!
//! - Overrides (`--set`) are written into its text (`syntax`, `set`).
//! - The form is checked against the schema (`shape`, `examine`, `kinds`).
//! - Values are read, each with its place (`leaf`, `file`).
//! - Names, defaults and stacks are resolved (`resolve`, and a module for each table and each of its kinds).
//!
//! A module uses only modules above it in this list:
//!
//! - Faults and the form of tables: `absent`, `problem`, `syntax`, `kinds`.
//! - Values: `leaf`, `table` for values in files, `struct_keys` for tables that core defines, `names`.
//! - Links: `link_keys`; the kinds of noise `air` and `loss`, then `noise`; `qdisc`, `timeline`; the kinds of links
//!   `pipe`, `hdplc` and `greenphy`, then `link`; `cable`, `coverage`.
//! - Hosts and gateways: `node`, `addresses`, `gateway`.
//! - Flows: `tcp`, `sctp`, `silence`, `context`; the kinds of flows `bulk`, `onoff`, `web`, `messages`, `cbr`, `voip`
//!   and `request`, then `flow`.
//! - The file: `file`, `schema`, `examine`, `shape`, `set`, `resolve`.
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
mod pipe;
mod problem;
mod qdisc;
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
mod timeline;
mod voip;
mod web;

pub use get::value;
pub use kinds::resolve as definition;
pub use problem::{Label, MAX_SHOWN, Problem, ScenarioError, Warning, clipped, list, nearest};
pub use schema::schema;
pub use set::split_list;

use file::ScenarioFile;
use problem::Problems;
use roughlink_core::scenario::Scenario;
use serde::Deserialize as _;
use toml::de::Deserializer;

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
    let mut called = name.to_owned();
    let changed;
    let mut text = text;
    let mut document = syntax::read(text, &mut report);
    if report.problems.is_empty() && !overrides.is_empty() {
        drop(document); // one tree in memory at a time
        changed = set::apply(text, overrides, &schema::FORM, &mut report);
        text = &changed;
        called += " with overrides";
        document = syntax::read(text, &mut report);
    }
    if !report.problems.is_empty() {
        return Err(report.fail(&called, text));
    }
    shape::check(&mut document, &schema::FORM, &mut report);
    let file = match ScenarioFile::deserialize(Deserializer::from(document)) {
        Ok(file) => file,
        Err(e) => {
            // Only faults that the check of the form misses get here.
            let problem = Problem::new(e.message()).at(e.span().unwrap_or(0..0), "");
            report.error(problem.help("write a value that the schema of scenario files allows"));
            return Err(report.fail(&called, text));
        }
    };
    let stem = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let stem = stem.strip_suffix(".toml").unwrap_or(stem);
    let mut scenario = resolve::resolve(&file, stem, load, &mut report);
    let warnings = report.finish(&called, text)?;
    scenario.source = text.to_owned();
    Ok((scenario, warnings))
}
