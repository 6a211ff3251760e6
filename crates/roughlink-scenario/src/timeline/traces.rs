//! Recorded traces: delivery opportunities in Mahimahi's format, and delays and losses at even intervals. Delays are in
//! LeoReplayer's format (Lai et al., LeoCC, SIGCOMM 2025).

use super::{TomlStep, TomlTimeline, read_file, rows};
use crate::leaf::{LONGEST, Leaf, span};
use crate::problem::{Problem, Problems};
use crate::table::{FileLoader, number_in};
use roughlink_core::link::noise::Noise;
use roughlink_core::link::timeline::Opportunities;
use roughlink_core::units::Time;

/// Reads a trace of delivery opportunities: a time in ms per line (Mahimahi, `mm-link`).
pub(super) fn read_mahimahi(text: &str) -> Result<Opportunities, String> {
    let mut times: Vec<Time> = Vec::new();
    for (number, line) in rows(text) {
        let ms: i64 = line.parse().map_err(|_| format!("line {number}: expected a whole number of ms"))?;
        let ms = u64::try_from(ms).map_err(|_| format!("line {number}: {ms} ms is a negative time"))?;
        if ms > MAX_TRACE_MS {
            return Err(format!("line {number}: {ms} ms is more than thirty years"));
        }
        let time = Time::from_millis(ms);
        if let Some(last) = times.last().filter(|last| **last > time) {
            return Err(format!("line {number}: time goes back from {last} to {time}"));
        }
        times.push(time);
    }
    match times.last() {
        None => Err("the file is empty".into()),
        Some(&Time::ZERO) => Err("all opportunities are at 0 ms".into()),
        Some(&period) => Ok(Opportunities { times, period }),
    }
}

/// Returns the steps of the traces with a value per interval; `None` if the timeline names no such trace.
pub(super) fn evenly_spaced(t: &TomlTimeline, load: FileLoader<'_>, report: &mut Problems) -> Option<Vec<TomlStep>> {
    let given = report.read(&t.interval);
    if t.delay_file.is_none() && t.loss_file.is_none() {
        if let Some(interval) = &t.interval {
            let problem = Problem::new("`interval` has no effect without a trace").at(interval.span.clone(), "");
            report.error(problem.help("add a `delay_file` or a `loss_file`, or remove it"));
        }
        return None;
    }
    if given.is_some_and(Time::is_zero) {
        let problem = Problem::new("`interval` must be greater than zero").at(span(&t.interval), "");
        report.error(problem.help("write interval = \"10 ms\" for traces of LeoReplayer"));
    }
    let interval = given.filter(|t| !t.is_zero()).unwrap_or(USUAL_INTERVAL);
    let mut steps = Vec::new();
    let delay = |ms| TomlStep { delay: Some(Time::from_secs_f64(ms / 1e3)), ..TomlStep::default() };
    steps.extend(trace(&t.delay_file, "delay_ms", interval, delay, load, report));
    let loss = |p| TomlStep { noise: Some(Box::new(Noise::random(p))), ..TomlStep::default() };
    steps.extend(trace(&t.loss_file, "loss", interval, loss, load, report));
    Some(steps)
}

/// Returns the steps of one trace, which repeats.
fn trace(
    file: &Option<Leaf<String>>,
    column: &str,
    interval: Time,
    step: impl Fn(f64) -> TomlStep,
    load: FileLoader<'_>,
    report: &mut Problems,
) -> Vec<TomlStep> {
    let Some(name) = report.read(file) else { return Vec::new() };
    let help = format!("write one {column} per line, for each interval of {interval}");
    let read = |text: &str| {
        let values = read_values(text, column)?;
        let period = interval.0.checked_mul(values.len() as u64).filter(|period| *period <= LONGEST.0);
        Ok((
            values,
            Time(period.ok_or_else(|| format!("with {interval} per line, the trace is longer than thirty years"))?),
        ))
    };
    let read = |text: &str| read(text).map_err(|reason| (reason, help.as_str()));
    let Some((values, period)) = read_file(&name, span(file), read, load, report) else { return Vec::new() };
    let differs = |i: &usize| *i == 0 || values[*i] != values[i - 1];
    let at = |i: usize| TomlStep { at: interval * i as u64, every: Some(period), ..step(values[i]) };
    (0..values.len()).filter(differs).map(at).collect()
}

/// Reads a number per line. Rejects blank lines, which would shift all later values.
fn read_values(text: &str, column: &str) -> Result<Vec<f64>, String> {
    let lines = text.trim_end().lines().enumerate();
    let value =
        |(i, line): (usize, &str)| number_in(column, line.trim()).map_err(|reason| format!("line {}: {reason}", i + 1));
    let values: Vec<f64> = lines.map(value).collect::<Result<_, _>>()?;
    if values.is_empty() { Err("the file is empty".into()) } else { Ok(values) }
}

pub(super) const MAHIMAHI_HELP: &str =
    "write a time in ms per line, in ascending order, for each opportunity to send 1500 bytes";
const MAX_TRACE_MS: u64 = 1_000_000_000_000;
/// Interval of LeoReplayer's published traces.
const USUAL_INTERVAL: Time = Time::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mahimahi_traces_are_read() {
        let trace = read_mahimahi("0\n5\n5\n10\n").unwrap();
        assert_eq!(trace.times, [0, 5, 5, 10].map(Time::from_millis));
        assert_eq!(trace.period, Time::from_millis(10));
        for (bad, reason) in
            [("", "empty"), ("0\n0", "0 ms"), ("5\n-1", "line 2"), ("5\n4", "line 2"), ("1\nx", "line 2")]
        {
            assert!(read_mahimahi(bad).unwrap_err().contains(reason), "{bad:?}");
        }
    }

    #[test]
    fn values_are_read_line_by_line() {
        assert_eq!(read_values("24\n18.5\n18\n", "delay_ms"), Ok(vec![24.0, 18.5, 18.0]));
        assert_eq!(read_values("0\r\n0.01\r\n", "loss"), Ok(vec![0.0, 0.01]));
        for (bad, reason) in [("", "empty"), ("24\n\n18", "line 2"), ("24\n-1", "line 2"), ("x", "line 1")] {
            assert!(read_values(bad, "delay_ms").unwrap_err().contains(reason), "{bad:?}");
        }
        assert!(read_values("1.5", "loss").unwrap_err().contains("out of range: 0 to 1"));
    }
}
