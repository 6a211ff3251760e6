//! `timeline`: changes of a link, from a list, a table of numbers or recorded traces. The changes become the states of
//! its two directions and the notifications for hosts. Every source becomes a list of [`TomlStep`]s. Unlike the steps
//! of [`roughlink_core::link::timeline`], these may apply to one direction only, and they contain their noise.

mod traces;

use super::leaf::{At, Dbm, Leaf, span, words};
use super::link_keys::LinkDirections;
use super::noise::{TomlNoise, undirected};
use super::problem::{Problem, Problems};
use super::table::{self, Dialect, FileLoader, TIME};
use roughlink_core::link::PipeConfig;
use roughlink_core::link::noise::Noise;
use roughlink_core::link::timeline::{self, Opportunities};
use roughlink_core::units::{Rate, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Changes of a link over time.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlTimeline {
    /// Changes in order of time; excludes `file`.
    #[schemars(extend("x-excludes" = ["file"]))]
    pub steps: Option<At<Vec<At<TomlChange>>>>,
    /// A file with a table of changes (`.csv`), or with a Mahimahi trace of delivery opportunities; excludes `steps`.
    pub file: Option<Leaf<String>>,
    /// A file with one-way delays in ms in LeoReplayer's format, one line per `interval`. The file repeats after its
    /// last line, and replaces `delay`.
    pub delay_file: Option<Leaf<String>>,
    /// A file with loss probabilities (0 to 1), one line per `interval`. The file repeats after its last line, and
    /// replaces `noise`.
    pub loss_file: Option<Leaf<String>>,
    /// Duration of a line of `delay_file` and `loss_file`.
    #[schemars(extend("default" = "10 ms"))]
    pub interval: Option<Leaf<Time>>,
    /// Format of `file`; if absent, `csv` if the name ends in `.csv` or the first line has `time_s`, otherwise
    /// `mahimahi`.
    pub format: Option<Leaf<TimelineFormat>>,
    /// Period with which all changes recur; longer than the time from the first change to the last.
    pub repeat: Option<Leaf<Time>>,
    /// Treatment of packets while the link is down.
    #[schemars(extend("default" = "drop"))]
    pub policy: Option<Leaf<OutageWord>>,
    /// Delay after which hosts and gateways are notified of a change.
    #[schemars(extend("default" = "0 s"))]
    pub notice: Option<Leaf<Time>>,
    /// Time before the link goes down at which hosts and gateways are notified, instead of afterwards.
    pub warning: Option<Leaf<Time>>,
}

/// A change of a pipe. Applies until it ends or a later change of the same property begins.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlChange {
    /// Start time.
    #[schemars(with = "Leaf<Time>", example = "30 s")] // required, by its definition
    pub at: Option<Leaf<Time>>,
    /// Duration of the change; until another change of the same property if absent.
    #[serde(rename = "for")]
    pub lasts: Option<Leaf<Time>>,
    /// Period with which the change recurs.
    pub repeat: Option<Leaf<Time>>,
    /// State of the link: `true` if packets pass, `false` if it is down.
    pub up: Option<Leaf<bool>>,
    /// Serialization rate.
    pub rate: Option<Leaf<Rate>>,
    /// Propagation delay, one way.
    pub delay: Option<Leaf<Time>>,
    /// Signal strength such as `"-70 dBm"`. Hosts and gateways are notified; packets are not affected.
    pub signal: Option<Leaf<Dbm>>,
    /// Losses.
    pub noise: Option<At<TomlNoise>>,
    /// Direction that changes. If absent, both change, but the reverse one keeps the values from `asymmetric`; `"both"`
    /// changes these too.
    pub direction: Option<Leaf<LinkDirections>>,
}

/// Format of a file with a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum TimelineFormat {
    /// CSV with a heading: the column `time_s` and any of `up` (0, 1, true or false), `rate_mbps`, `delay_ms`, `loss`
    /// (0 to 1) and `signal_dbm`. Each line applies until the next.
    Csv,
    /// Trace of `mm-link`: one line with the time in ms for each opportunity to send 1500 B. The trace repeats, and
    /// replaces `rate`.
    Mahimahi,
}

/// Treatment of packets while a link is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum OutageWord {
    /// The serializer continues; packets that arrive at the far end while the link is down are lost.
    Drop,
    /// The link sends nothing and loses nothing.
    Keep,
}

words!(TimelineFormat, OutageWord);

/// A list of changes, the name of a file, or a table.
#[derive(Clone, Debug)]
pub(super) enum Timelines {
    Steps(Vec<At<TomlChange>>),
    File(String),
    Table(Box<TomlTimeline>),
}

impl<'de> Deserialize<'de> for Timelines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Timelines;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of changes, the name of a file, or a table")
            }
            fn visit_str<E>(self, name: &str) -> Result<Timelines, E> {
                Ok(Timelines::File(name.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Timelines, A::Error> {
                TomlTimeline::deserialize(MapAccessDeserializer::new(map)).map(|t| Timelines::Table(Box::new(t)))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Timelines, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(seq)).map(Timelines::Steps)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl JsonSchema for Timelines {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Timelines".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (table, step) = (generator.subschema_for::<TomlTimeline>(), generator.subschema_for::<TomlChange>());
        json_schema!({ "anyOf": [table, { "type": "array", "items": step }, { "type": "string" }] })
    }
}

/// Sets some properties of a link for a while.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TomlStep {
    pub at: Time,
    /// End; never if `None`.
    pub until: Option<Time>,
    /// Period of repetition.
    pub every: Option<Time>,
    pub up: Option<bool>,
    pub rate: Option<Rate>,
    pub delay: Option<Time>,
    pub signal: Option<f64>,
    pub noise: Option<Box<Noise>>,
    pub heading: Option<LinkDirections>,
}

/// Part of a timeline that does not depend on the link.
#[derive(Default)]
pub(super) struct TimelineSource {
    pub steps: Vec<TomlStep>,
    pub opportunities: Option<Opportunities>,
    policy: timeline::OutagePolicy,
    pub notice: Time,
    pub warning: Option<Time>,
}

/// Properties that `asymmetric` sets; changes without a direction do not affect them in the reverse direction.
#[derive(Clone, Copy, Default)]
pub(super) struct Fixed {
    pub rate: bool,
    pub delay: bool,
    pub noise: bool,
}

impl TimelineSource {
    /// Creates the timeline of the direction `heading`. Steps without a direction do not change the properties in
    /// `fixed`. Underlines `place` if there are too many changes.
    pub(super) fn timeline(
        &self,
        (heading, fixed): (LinkDirections, Fixed),
        duration: Time,
        place: Range<usize>,
        report: &mut Problems,
    ) -> Arc<timeline::Timeline> {
        let here =
            |s: &&TomlStep| s.heading.is_none_or(|h| h == heading || h == LinkDirections::Both) && s.at <= duration;
        let mut steps: Vec<&TomlStep> = self.steps.iter().filter(here).collect();
        steps.sort_by_key(|s| s.at);
        let mut noises = Vec::new();
        let mut made = Vec::with_capacity(steps.len());
        for &TomlStep { at, until, every, up, rate, delay, signal, ref noise, heading } in steps {
            let fixed = if heading.is_some() { Fixed::default() } else { fixed };
            let (rate, delay) = (rate.filter(|_| !fixed.rate), delay.filter(|_| !fixed.delay));
            let noise = noise.as_ref().filter(|_| !fixed.noise).map(|noise| {
                noises.push((**noise).clone());
                noises.len() as u32 - 1
            });
            made.push(timeline::Step { at, until, every, up, rate, delay, signal, noise });
        }
        let mut timeline = timeline::Timeline::new(made, noises, duration);
        if timeline.changes() > MAX_CHANGES {
            let problem = Problem::new(format!("the link changes more than {MAX_CHANGES} times")).at(place, "");
            report.error(problem.help("make `repeat` or `interval` longer, or `duration` shorter"));
            timeline = timeline::Timeline::new(Vec::new(), Vec::new(), duration);
        }
        let opportunities = self.opportunities.clone().filter(|_| !fixed.rate);
        Arc::new(timeline.with(self.policy, opportunities))
    }
}

/// Sets `steps` as the timeline of both directions of a link; the reverse one keeps the `fixed` properties. Underlines
/// `place` if there are too many changes.
pub(super) fn set_timelines(
    steps: Vec<TomlStep>,
    (pipe, fixed): (&mut PipeConfig, Fixed),
    duration: Time,
    place: Range<usize>,
    report: &mut Problems,
) {
    let source = TimelineSource { steps, ..TimelineSource::default() };
    pipe.forward.timeline =
        Some(source.timeline((LinkDirections::Forward, Fixed::default()), duration, place.clone(), report));
    pipe.reverse.timeline = Some(source.timeline((LinkDirections::Reverse, fixed), duration, place, report));
}

/// Reads a timeline; reports faults.
pub(super) fn source(
    timeline: &At<Timelines>,
    duration: Time,
    load: FileLoader<'_>,
    report: &mut Problems,
) -> TimelineSource {
    let place = timeline.span.clone();
    match &timeline.value {
        Timelines::Steps(steps) if steps.is_empty() => report_no_changes(place, report),
        Timelines::Steps(steps) => {
            TimelineSource { steps: steps_of(steps, None, duration, load, report), ..TimelineSource::default() }
        }
        Timelines::File(name) => from_file(name, None, place, load, report),
        Timelines::Table(table) => {
            let t: &TomlTimeline = table;
            let repeat = report.read(&t.repeat);
            if repeat.is_some_and(Time::is_zero) {
                let problem = Problem::new("`repeat` must be greater than zero");
                report.error(problem.at(span(&t.repeat), "").help("write repeat = \"60 s\" to repeat it every minute"));
            }
            let repeat = repeat.filter(|r| !r.is_zero());
            let traces = traces::evenly_spaced(t, load, report);
            let mut source = match (&t.steps, &t.file) {
                (Some(steps), None) if steps.value.is_empty() => report_no_changes(steps.span.clone(), report),
                (Some(steps), None) => TimelineSource {
                    steps: steps_of(&steps.value, repeat, duration, load, report),
                    ..TimelineSource::default()
                },
                (None, Some(file)) => match report.read(&t.file) {
                    Some(name) => {
                        let format = report.read(&t.format);
                        let mut source = from_file(&name, format, file.span.clone(), load, report);
                        source.steps.iter_mut().for_each(|s| s.every = repeat);
                        source
                    }
                    None => TimelineSource::default(),
                },
                (Some(steps), Some(file)) => {
                    let problem = Problem::new("`file` and `steps` cannot be used together").at(file.span.clone(), "");
                    report.error(problem.at(steps.span.clone(), "").help("keep one of them"));
                    TimelineSource::default()
                }
                (None, None) if traces.is_some() => TimelineSource::default(),
                (None, None) => report_no_changes(place, report),
            };
            let only_traces = source.opportunities.is_some() || (t.steps.is_none() && t.file.is_none());
            if let Some(repeat) = repeat.filter(|_| only_traces) {
                let problem = Problem::new(format!("`repeat` of {repeat} has no effect: a trace repeats by itself"));
                report.error(problem.at(span(&t.repeat), "").help("remove `repeat`"));
            }
            let recurring = |s: &&TomlStep| repeat.is_some() && s.every == repeat;
            let first = source.steps.iter().find(recurring).map(|s| s.at);
            let last = source.steps.iter().rfind(recurring).map(|s| s.at);
            if let (Some(repeat), Some(first), Some(last)) = (repeat, first, last)
                && last.saturating_sub(first) >= repeat
            {
                let changes = format!("changes from {first} to {last} do not fit into a `repeat` of {repeat}");
                let help = format!("make it longer than {}, or remove some changes", last - first);
                report.error(Problem::new(changes).at(span(&t.repeat), "").help(help));
            }
            source.steps.extend(traces.into_iter().flatten());
            source.policy = match report.read(&t.policy) {
                Some(OutageWord::Keep) => timeline::OutagePolicy::Keep,
                Some(OutageWord::Drop) | None => timeline::OutagePolicy::Drop,
            };
            source.notice = report.read(&t.notice).unwrap_or_default();
            source.warning = report.read(&t.warning);
            source
        }
    }
}

fn report_no_changes(place: Range<usize>, report: &mut Problems) -> TimelineSource {
    let problem = Problem::new("the timeline has no changes").at(place, "");
    report.error(problem.help("add steps = [{ at = \"30 s\", for = \"2 s\", up = false }], or a `file`"));
    TimelineSource::default()
}

fn steps_of(
    changes: &[At<TomlChange>],
    repeat: Option<Time>,
    duration: Time,
    load: FileLoader<'_>,
    report: &mut Problems,
) -> Vec<TomlStep> {
    let mut steps: Vec<TomlStep> = Vec::with_capacity(changes.len());
    let mut before: Option<(Time, Range<usize>)> = None;
    for change in changes {
        let c = &change.value;
        let at = report.read(&c.at).unwrap_or_default();
        if let Some((last, place)) = before.take().filter(|(last, _)| *last > at) {
            let problem = Problem::new(format!("the timeline goes back in time, from {last} to {at}"));
            let problem = problem.at(span(&c.at), "this time is earlier").at(place, "than this one");
            report.error(problem.help("sort the changes by `at`"));
        }
        before = Some((at, span(&c.at)));
        if at > duration {
            let warning = Problem::new(format!("a change at {at} is after the end of the scenario at {duration}"));
            report.warn(warning.at(span(&c.at), "").help("make `duration` longer, or remove the change"));
        }
        let up = report.read(&c.up);
        let mut rate = report.read(&c.rate);
        if rate == Some(Rate(0)) {
            if up != Some(false) {
                let problem = Problem::new("`rate` must be greater than zero unless up = false").at(span(&c.rate), "");
                report.error(problem.help("write up = false for an outage"));
            }
            rate = None;
        }
        let lasts = report.read(&c.lasts);
        if lasts.is_some_and(Time::is_zero) {
            let problem = Problem::new("`for` must be greater than zero").at(span(&c.lasts), "");
            report.error(problem.help("remove `for` if the change lasts until another one"));
        }
        let every = report.read(&c.repeat).or(repeat);
        if let (Some(every), Some(lasts)) = (every, lasts)
            && every <= lasts
        {
            let problem = Problem::new(format!("`for` ({lasts}) must be shorter than `repeat` ({every})"));
            report.error(problem.at(span(&c.lasts), "").help("make `for` shorter than `repeat`, or remove it"));
        }
        if c.repeat.is_some() && every.is_some_and(Time::is_zero) {
            let problem = Problem::new("`repeat` must be greater than zero").at(span(&c.repeat), "");
            report.error(problem.help("write repeat = \"60 s\" to repeat it every minute"));
        }
        let step = TomlStep {
            at,
            until: lasts.map(|d| at + d),
            every: every.filter(|e| !e.is_zero()),
            up,
            rate,
            delay: report.read(&c.delay),
            signal: report.read(&c.signal).map(|s| s.0),
            noise: (c.noise.as_ref())
                .map(|n| Box::new(undirected(n, "write `direction` in the change itself", load, report))),
            heading: report.read(&c.direction),
        };
        if step == (TomlStep { at, until: step.until, every: step.every, heading: step.heading, ..TomlStep::default() })
            && rate.is_none()
            && c.rate.is_none()
        {
            let warning = Problem::new("this change has no effect").at(change.span.clone(), "");
            report.warn(warning.help("add `up`, `rate`, `delay`, `signal` or `noise`"));
        }
        steps.push(step);
    }
    steps
}

/// Returns the content of a file of changes or opportunities.
fn from_file(
    name: &str,
    format: Option<TimelineFormat>,
    place: Range<usize>,
    load: FileLoader<'_>,
    report: &mut Problems,
) -> TimelineSource {
    let read = |text: &str| {
        let is_table = name.ends_with(".csv") || has_heading(text);
        match format.unwrap_or(if is_table { TimelineFormat::Csv } else { TimelineFormat::Mahimahi }) {
            TimelineFormat::Csv => match read_csv(text) {
                Ok(steps) => Ok(TimelineSource { steps, ..TimelineSource::default() }),
                Err(reason) => Err((reason, CSV_HELP)),
            },
            TimelineFormat::Mahimahi => match traces::read_mahimahi(text) {
                Ok(opportunities) => {
                    Ok(TimelineSource { opportunities: Some(opportunities), ..TimelineSource::default() })
                }
                Err(reason) => Err((reason, traces::MAHIMAHI_HELP)),
            },
        }
    };
    read_file(name, place, read, load, report).unwrap_or_default()
}

/// Returns true if the first line names the column of times, which marks a table.
fn has_heading(text: &str) -> bool {
    rows(text.trim_start_matches('\u{feff}')).next().is_some_and(|(_, heading)| heading.contains(TIME))
}

/// Returns the result of `read` for a file; reports a fault with its help.
fn read_file<'h, T>(
    name: &str,
    place: Range<usize>,
    read: impl Fn(&str) -> Result<T, (String, &'h str)>,
    load: FileLoader<'_>,
    report: &mut Problems,
) -> Option<T> {
    let text = load(name).map_err(|reason| (reason, FILE_HELP));
    match text.and_then(|text| read(&text)) {
        Ok(read) => Some(read),
        Err((reason, help)) => {
            report.error(Problem::new(format!("cannot use `{name}`: {reason}")).at(place, "").help(help));
            None
        }
    }
}

fn read_csv(text: &str) -> Result<Vec<TomlStep>, String> {
    let table = table::TraceTable::read(text, &COLUMNS, &Dialect::default())?;
    if !table.has(TIME) {
        return Err("missing column `time_s`".into());
    }
    if table.width() == 1 {
        return Err("the file has no column besides `time_s`".into());
    }
    let lines = table.lines(|step: &mut TomlStep, field, at| {
        match field.known {
            TIME => step.at = at.unwrap_or_default(),
            "up" => step.up = Some(field.boolean()?),
            "rate_mbps" => step.rate = Some(Rate((field.number()? * 1e6) as u64)),
            "delay_ms" => step.delay = Some(Time::from_secs_f64(field.number()? / 1e3)),
            "signal_dbm" => step.signal = Some(field.number()?),
            _ => step.noise = Some(Box::new(Noise::random(field.number()?))),
        }
        Ok(())
    })?;
    let mut steps: Vec<TomlStep> = Vec::with_capacity(lines.len());
    for (number, mut step) in lines {
        if step.rate == Some(Rate(0)) {
            if step.up != Some(false) {
                return Err(format!("line {number}: the rate must be greater than zero unless up = 0"));
            }
            step.rate = None;
        }
        if let Some(last) = steps.last().filter(|last| last.at >= step.at) {
            return Err(format!("line {number}: time must increase, found {} and then {}", last.at, step.at));
        }
        steps.push(step);
    }
    Ok(steps)
}

/// Returns the lines that are neither blank nor comments, with their numbers.
fn rows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Maximum number of changes; each is an event of the run.
const MAX_CHANGES: u64 = 10_000_000;
const COLUMNS: [&str; 6] = [TIME, "up", "rate_mbps", "delay_ms", "loss", "signal_dbm"];
const CSV_HELP: &str =
    "name the columns in the first line: time_s and any of up, rate_mbps, delay_ms, loss, signal_dbm";
const FILE_HELP: &str = "write the name relative to the folder of the scenario";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_changes_is_read() {
        let steps = read_csv("time_s, rate_mbps,loss,up\n# tunnel\n0,8,0,1\n1.5,,0.25,\n2,0,,0\n").unwrap();
        assert_eq!(steps.len(), 3);
        assert_eq!(steps[0].rate, Some(Rate::from_mbps(8)));
        assert_eq!((steps[1].at, steps[1].rate), (Time::from_millis(1500), None));
        assert_eq!(steps[1].noise, Some(Box::new(Noise::Random { loss: 0.25 })));
        assert_eq!((steps[2].up, steps[2].rate), (Some(false), None));
        let steps = read_csv("\u{feff}time_s,up\n0,TRUE\n1,False\n2,1\n").unwrap();
        assert_eq!(steps.iter().map(|s| s.up).collect::<Vec<_>>(), [Some(true), Some(false), Some(true)]);
    }

    #[test]
    fn invalid_tables_are_refused_with_their_line() {
        for (bad, line) in [
            ("time,rate_mbps\n0,1\n", "`time`"),
            ("rate_mbps\n1\n", "time_s"),
            ("time_s,rate_mbps\n2,1\n1,1\n", "line 3: time must increase, found 2 s and then 1 s"),
            ("time_s,rate_mbps\n2,0\n", "line 2: the rate must be greater than zero"),
            ("time_s\n1\n", "no column besides"),
            ("time_s,up\n1,7\n", "line 2: up = 7"),
            ("time_s,up\n1,0.5\n", "line 2: up = 0.5"),
            ("time_s,rate_mbps\n1,true\n", "line 2: rate_mbps = true is not a number"),
            ("time_s,delay_ms\n0,1e300\n", "line 2: delay_ms = 1e300 is out of range"),
            ("time_s,rate_mbps\n0,1e8\n", "line 2: rate_mbps = 1e8 is out of range"),
            ("time_s,delay_ms\n0,inf\n", "line 2: delay_ms = inf is out of range"),
        ] {
            let reason = read_csv(bad).unwrap_err();
            assert!(reason.contains(line), "{bad:?}: {reason}");
        }
    }
}
