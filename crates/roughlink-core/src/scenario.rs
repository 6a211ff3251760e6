//! A scenario: the network, its flows and the seed, as the engine takes it, and the files that become one.
//!
//! A file is TOML. It goes through four hands: overrides (`--set`) are written into its text; its form is checked
//! against the schema (`shape`); its values are read, each with its place (`leaf`, `file`); names, defaults and
//! stacks are resolved (`resolve`, `link`, `tcp`). None of them stops at the first fault, so that a person sees all
//! of them at once. No text makes [`Scenario::parse`] panic.

mod file;
mod leaf;
mod link;
mod problem;
mod resolve;
mod schema;
mod set;
mod shape;
mod tcp;

pub use problem::{Label, Problem, ScenarioError, Warning};
pub use schema::schema;

use crate::app::Traffic;
use crate::cc;
use crate::link::PipeConfig;
use crate::tcp::TcpConfig;
use crate::units::Time;
use file::File;
use problem::Report;
use serde::Deserialize as _;
use std::borrow::Cow;
use toml::de::{DeTable, Deserializer};

/// A validated scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Title.
    pub name: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// Hard stop.
    pub duration: Time,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Links.
    pub links: Vec<LinkSpec>,
    /// Flows.
    pub flows: Vec<FlowSpec>,
    /// The file it came from, with overrides written into it; empty if it did not come from one.
    pub source: String,
}

impl Scenario {
    /// Reads the `text` of a scenario file. `name` is what the file is called in messages; `overrides` are paths and
    /// values as `--set` takes them (`link.plc.noise.start`, `1 %`), applied in order; `load` gives the text of a file
    /// that the scenario refers to, by its name as written there.
    ///
    /// # Errors
    /// Everything that was found to be wrong, with its places.
    pub fn parse(
        text: &str,
        name: &str,
        overrides: &[(String, String)],
        load: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<(Scenario, Vec<Warning>), ScenarioError> {
        let mut report = Report::default();
        let mut called = name.to_owned();
        let mut text = Cow::Borrowed(text);
        syntax(&text, &mut report);
        if report.problems.is_empty() && !overrides.is_empty() {
            text = Cow::Owned(set::apply(&text, overrides, &schema::FLAT, &mut report));
            called += " with overrides";
            syntax(&text, &mut report);
        }
        if !report.problems.is_empty() {
            return Err(report.fail(&called, &text));
        }
        let (mut document, _) = DeTable::parse_recoverable(&text);
        shape::check(&mut document, &schema::FLAT, &mut report);
        let file = match File::deserialize(Deserializer::from(document)) {
            Ok(file) => file,
            Err(e) => {
                // The form was checked: only what it overlooks comes here.
                report.error(Problem::new(e.message()).at(e.span().unwrap_or(0..0), ""));
                return Err(report.fail(&called, &text));
            }
        };
        let stem = name.rsplit(['/', '\\']).next().unwrap_or(name);
        let stem = stem.strip_suffix(".toml").unwrap_or(stem);
        let mut scenario = resolve::resolve(&file, stem, load, &mut report);
        let warnings = report.finish(&called, &text)?;
        scenario.source = text.into_owned();
        Ok((scenario, warnings))
    }
}

/// Reports what is not TOML.
fn syntax(text: &str, report: &mut Report) {
    for fault in DeTable::parse_recoverable(text).1.iter().take(MOST_SYNTAX_ERRORS) {
        let span = fault.span().unwrap_or(0..0);
        report.error(Problem::new(format!("not TOML: {}", fault.message())).at(span, ""));
    }
}

/// One slip in TOML tends to make a train of errors.
const MOST_SYNTAX_ERRORS: usize = 3;

/// A link of a scenario.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// Name.
    pub name: String,
    /// Indices of its two nodes; `forward` is from the first to the second.
    pub between: (usize, usize),
    /// Its model.
    pub pipe: PipeConfig,
}

/// A flow of a scenario.
#[derive(Clone)]
pub struct FlowSpec {
    /// Name.
    pub name: String,
    /// Index of the sending node.
    pub from: usize,
    /// Index of the receiving node.
    pub to: usize,
    /// When it starts.
    pub start: Time,
    /// What it carries.
    pub traffic: Traffic,
    /// Keys of its TCP stack; unused by datagram flows.
    pub tcp: TcpConfig,
    /// Name of its congestion control, empty for datagram flows.
    pub cc: String,
    /// Makes its congestion control.
    pub factory: Option<cc::Factory>,
}

impl std::fmt::Debug for FlowSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowSpec")
            .field("name", &self.name)
            .field("traffic", &self.traffic)
            .field("tcp", &self.tcp)
            .field("cc", &self.cc)
            .finish_non_exhaustive()
    }
}
