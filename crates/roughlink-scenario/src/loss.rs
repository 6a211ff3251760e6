//! `noise` of a pipe: the kinds that lose packets, by packet count or by time.

use super::air::MIN_GAP;
use super::leaf::{At, Leaf, span};
use super::problem::{Problem, Problems};
use super::table::{Dialect, FileLoader, TIME, TraceTable};
use roughlink_core::link::noise::{self, BurstLength, Noise};
use roughlink_core::units::{Share, Time};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::ops::Range;

/// Independent losses.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-within" = "pipe"))]
pub(super) struct Random {
    /// Probability that a packet is lost.
    #[schemars(with = "Leaf<Share>")] // required, by its definition
    pub loss: Option<Leaf<Share>>,
}

/// Independent bit errors.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-within" = "pipe"))]
pub(super) struct TomlBitErrors {
    /// Bit error rate, such as 1e-6. A packet of n bytes (IP length) is lost with probability 1 - (1 - ber)^(8 n). For
    /// a byte error rate, divide by 8.
    #[schemars(required, extend("minimum" = 0, "maximum" = 1))]
    pub ber: Option<Leaf<f64>>,
}

/// Bursts of losses.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-within" = "pipe"))]
pub(super) struct TomlBurst {
    /// Length of a burst in packets: `[1, 4]` uniform, `{ geometric = 2.5 }` with this mean.
    #[schemars(with = "Leaf<BurstLength>")] // required, by its definition
    pub length: Option<Leaf<BurstLength>>,
    /// Probability that a packet starts a burst; excludes `mean`.
    #[schemars(extend("x-excludes" = ["mean"]))]
    pub start: Option<Leaf<Share>>,
    /// Approximate average loss; sets `start` to `mean` divided by the mean length.
    pub mean: Option<Leaf<Share>>,
}

/// A Markov chain of two states.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-within" = "pipe"))]
pub(super) struct TomlGilbertElliott {
    /// Probability per packet of a transition from the good to the bad state (Gilbert's p).
    #[schemars(with = "Leaf<Share>")] // required, by its definition
    pub to_bad: Option<Leaf<Share>>,
    /// Probability per packet of a transition from the bad to the good state (Gilbert's r).
    #[schemars(with = "Leaf<Share>")] // required, by its definition
    pub to_good: Option<Leaf<Share>>,
    /// Loss in the good state (Elliott's 1 - k).
    #[schemars(extend("default" = "0 %"))]
    pub loss_good: Option<Leaf<Share>>,
    /// Loss in the bad state (Gilbert's 1 - h).
    #[schemars(extend("default" = "100 %"))]
    pub loss_bad: Option<Leaf<Share>>,
}

/// Losses during pulses.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-within" = "pipe", "x-needs-one" = true))]
pub(super) struct TomlImpulse {
    /// Evenly spaced pulses, as from the mains (10 ms at 50 Hz).
    pub cyclic: Option<At<TomlPulses>>,
    /// Pulses at random times.
    pub asynchronous: Option<At<TomlPulses>>,
    /// Probability that a packet overlapped by a pulse is lost.
    #[schemars(extend("default" = "100 %"))]
    pub kill: Option<Leaf<Share>>,
}

/// Losses of stated packets.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-within" = "pipe"))]
pub(super) struct LossList {
    /// Numbers of the packets that are lost, counted from 0 per direction in order of arrival. Every fragment counts.
    /// With a single TCP flow, the SYN is packet 0.
    #[schemars(required)]
    pub drop: Option<Leaf<Vec<u64>>>,
}

/// Recorded noise of a pipe or of a shared medium.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-needs-one" = true))]
pub(super) struct TomlRecorded {
    /// A CSV file with a heading: the columns `time_s` and `loss` (0 to 1). Excludes `steps`.
    #[schemars(extend("x-excludes" = ["steps"]))]
    pub file: Option<Leaf<String>>,
    /// Loss probability over time, as `[{ at, loss }]`; excludes `file`.
    pub steps: Option<At<Vec<At<RecordedStep>>>>,
}

/// A train of noise pulses.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlPulses {
    /// Time from one pulse start to the next; the mean for random pulses.
    #[schemars(with = "Leaf<Time>")] // required, by its definition
    pub every: Option<Leaf<Time>>,
    /// Length of a pulse; the mean for random pulses.
    #[schemars(with = "Leaf<Time>")] // required, by its definition
    pub length: Option<Leaf<Time>>,
}

/// A step of recorded noise.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedStep {
    /// Start time.
    #[schemars(with = "Leaf<Time>")] // required, by its definition
    pub at: Option<Leaf<Time>>,
    /// Probability that a packet is lost or, on a shared medium, that a block is bad.
    #[schemars(with = "Leaf<Share>")] // required, by its definition
    pub loss: Option<Leaf<Share>>,
}

impl TomlBurst {
    pub(crate) fn resolve(&self, here: &Range<usize>, report: &mut Problems) -> Noise {
        let length = report.read(&self.length);
        let sane = match length {
            Some(BurstLength::Uniform(a, b)) => a >= 1 && a <= b && b <= MAX_BURST,
            Some(BurstLength::Geometric(mean)) => (1.0..=MAX_BURST as f64).contains(&mean),
            None => true,
        };
        if !sane {
            let problem = Problem::new("invalid burst length").at(span(&self.length), "");
            report.error(problem.help("write at least 1 packet, and a range in ascending order, such as [1, 4]"));
        }
        let length = length.filter(|_| sane).unwrap_or(BurstLength::Uniform(1, 1));
        let start = match (&self.start, &self.mean) {
            (Some(start), Some(mean)) => {
                let problem = Problem::new("`start` and `mean` cannot be used together");
                let problem = problem.at(mean.span.clone(), "the mean loss").at(start.span.clone(), "per packet");
                report.error(problem.help("keep one of them"));
                0.0
            }
            (None, None) => {
                let problem =
                    Problem::new("missing key `start` or `mean` in noise of kind `burst`").at(here.clone(), "");
                report.error(problem.help(
                "add start = \"2 %\", the probability that a packet starts a burst, or mean = \"5 %\", the mean loss",
            ));
                0.0
            }
            (start, None) => report.read(start).map_or(0.0, |s| s.0),
            (None, mean) => report.read(mean).map_or(0.0, |m| m.0 / length.mean()),
        };
        Noise::Burst { start, length }
    }
}

impl TomlImpulse {
    pub(crate) fn resolve(&self, kill: f64, here: &Range<usize>, report: &mut Problems) -> Noise {
        let mut pulses = |table: &Option<At<TomlPulses>>, cyclic: bool| {
            let table = table.as_ref()?;
            let (every, length) = (report.read(&table.value.every)?, report.read(&table.value.length)?);
            if every < MIN_GAP {
                let problem =
                    Problem::new(format!("pulses every {every} are too frequent")).at(span(&table.value.every), "");
                report.error(
                    problem.help(format!("write at least {MIN_GAP}; every = \"10 ms\" gives 100 pulses per second")),
                );
            } else if cyclic && length >= every {
                let problem = Problem::new(format!("pulses of {length} every {every} leave no pause"));
                report.error(problem.at(span(&table.value.length), "").help("make `length` shorter than `every`"));
            } else if length > every * MAX_OVERLAPS {
                let problem = Problem::new(format!("pulses of {length} every {every} overlap too much"));
                let help = format!("make `length` at most {MAX_OVERLAPS} times `every`");
                report.error(problem.at(span(&table.value.length), "").help(help));
            }
            Some(noise::Pulses { every, length })
        };
        let impulse = noise::Impulse {
            cyclic: pulses(&self.cyclic, true),
            asynchronous: pulses(&self.asynchronous, false),
            kill,
        };
        if self.cyclic.is_none() && self.asynchronous.is_none() {
            let problem =
                Problem::new("missing key `cyclic` or `asynchronous` in noise of kind `impulse`").at(here.clone(), "");
            report.error(
                problem.help("add cyclic = { every = \"10 ms\", length = \"300 us\" }, or `asynchronous`, or both"),
            );
        }
        Noise::Impulse(impulse)
    }
}

impl TomlRecorded {
    /// Returns the steps of a record in ascending order; empty after a fault.
    pub(crate) fn resolve(&self, here: &Range<usize>, load: FileLoader<'_>, report: &mut Problems) -> Vec<(Time, f64)> {
        let mut steps: Vec<(Time, f64)> = Vec::new();
        let place = match (&self.file, &self.steps) {
            (Some(file), Some(own)) => {
                let problem = Problem::new("`file` and `steps` cannot be used together").at(file.span.clone(), "");
                report.error(problem.at(own.span.clone(), "").help("keep one of them"));
                return steps;
            }
            (Some(file), None) => {
                if let Some(name) = report.read(&self.file) {
                    match load(&name).and_then(|text| read_steps(&text)) {
                        Ok(read) => steps = read,
                        Err(reason) => {
                            let problem = Problem::new(format!("cannot use `{name}`: {reason}"));
                            report.error(problem.at(file.span.clone(), "").help(STEPS_HELP));
                            return steps;
                        }
                    }
                }
                file.span.clone()
            }
            (None, Some(own)) => {
                for step in &own.value {
                    let (at, loss) = (report.read(&step.value.at), report.read(&step.value.loss));
                    steps.push((at.unwrap_or_default(), loss.map_or(0.0, |s| s.0)));
                }
                own.span.clone()
            }
            (None, None) => {
                let problem =
                    Problem::new("missing key `steps` or `file` in noise of kind `recorded`").at(here.clone(), "");
                report.error(problem.help(NO_STEPS_HELP));
                return steps;
            }
        };
        if steps.is_empty() {
            let help = if self.file.is_some() { STEPS_HELP } else { NO_STEPS_HELP };
            report.error(Problem::new("recorded noise has no steps").at(place, "").help(help));
        } else if let Some(pair) = steps.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            let problem = Problem::new("the times of recorded noise must increase").at(place, "");
            report.error(problem.help(format!("sort the steps by time: {} follows {}", pair[1].0, pair[0].0)));
        }
        steps
    }
}

impl LossList {
    pub(crate) fn resolve(&self, report: &mut Problems) -> Noise {
        let drop = report.read(&self.drop).unwrap_or_default();
        if drop.windows(2).any(|pair| pair[0] >= pair[1]) {
            let problem = Problem::new("the numbers in `drop` must increase").at(span(&self.drop), "");
            report.error(problem.help(format!("write drop = {}", ascending(&drop))));
        }
        Noise::List { drop }
    }
}

/// Returns the distinct numbers in ascending order, in file syntax; truncates long lists.
fn ascending(numbers: &[u64]) -> String {
    let sorted: BTreeSet<u64> = numbers.iter().copied().collect();
    let shown: Vec<String> = sorted.iter().take(MAX_SHOWN).map(u64::to_string).collect();
    format!("[{}{}]", shown.join(", "), if sorted.len() > MAX_SHOWN { ", ..." } else { "" })
}

/// Reads a table with the columns `time_s` and `loss`.
fn read_steps(text: &str) -> Result<Vec<(Time, f64)>, String> {
    let table = TraceTable::read(text, &COLUMNS, &Dialect::default())?;
    if let Some(missing) = COLUMNS.into_iter().find(|column| !table.has(column)) {
        return Err(format!("missing column `{missing}`"));
    }
    let lines = table.lines(|step: &mut (Time, Option<f64>), field, at| {
        match at {
            Some(at) => step.0 = at,
            None => step.1 = Some(field.number()?),
        }
        Ok(())
    })?;
    let step =
        |(line, (at, loss)): (u64, (Time, Option<f64>))| Ok((at, loss.ok_or(format!("line {line}: loss is empty"))?));
    lines.into_iter().map(step).collect()
}

const COLUMNS: [&str; 2] = [TIME, "loss"];
/// Most pulses at one instant, on average; each packet checks all of them.
const MAX_OVERLAPS: u64 = 100;
const STEPS_HELP: &str = "name the columns in the first line: time_s and loss";
const NO_STEPS_HELP: &str =
    "add steps = [{ at = \"0 s\", loss = \"1 %\" }, { at = \"10 s\", loss = \"5 %\" }], or a `file`";
const MAX_BURST: u64 = 1_000_000_000;
/// Most numbers of a list that a message shows.
const MAX_SHOWN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_noise_is_read_by_its_heading() {
        let steps = Ok(vec![(Time::ZERO, 0.001), (Time::from_millis(12_500), 0.03)]);
        assert_eq!(read_steps("time_s,loss\n# quiet\n0,0.001\n\n12.5, 0.03\r\n"), steps);
        assert_eq!(read_steps("loss;time_s\n0,001;0\n0,03;12,5\n"), steps, "columns have names, not places");
    }

    #[test]
    fn invalid_records_of_noise_are_refused_with_their_line() {
        for (bad, reason) in [
            ("", "the file is empty"),
            ("0,0.1\n1,0.2\n", "no known column; expected any of time_s, loss"),
            ("time,loss\n0,0.1\n", "unknown column `time`"),
            ("time_s,loss,up\n0,0.1,1\n", "unknown column `up`"),
            ("time_s\n0\n", "missing column `loss`"),
            ("loss\n0.1\n", "missing column `time_s`"),
            ("time_s,loss\n", "no data"),
            ("time_s,loss\n0,0.1\n1\n", "line 3: expected 2 fields, found 1"),
            ("time_s,loss\n0,0.1\n\n1,2\n", "line 4: loss = 2 is out of range: 0 to 1"),
            ("time_s,loss\n0,0.1\n1,\n", "line 3: loss is empty"),
            ("time_s,loss\n0,nan\n", "line 2: loss = nan is out of range"),
            ("time_s,loss\n-1,0.5\n", "line 2: time_s = -1 is a negative time"),
        ] {
            let found = read_steps(bad).unwrap_err();
            assert!(found.contains(reason), "{bad:?}: {found}");
        }
    }
}
