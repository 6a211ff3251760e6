//! Conversion of logs of a vehicle's measurements to stays in coverage.

use super::{Levels, Presence, TomlCoverage};
use crate::leaf::{LONGEST, span};
use crate::problem::{Problem, Problems, suggest};
use crate::table::{Dialect, FileLoader, POSITION, TIME, TraceTable};
use roughlink_core::units::{Rate, Time};

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LogRow {
    pub at: Time,
    pub signal: Option<f64>,
    pub rate: Option<Rate>,
    pub delay: Option<Time>,
    pub loss: Option<f64>,
}

/// Returns the stays in coverage in a log, in order of time; reports an error and returns `None` if it cannot be read.
pub(super) fn from_log(
    c: &TomlCoverage,
    levels: &Levels,
    load: FileLoader<'_>,
    report: &mut Problems,
) -> Option<Vec<Presence>> {
    let file = report.read(&c.log)?;
    let speed = report.read(&c.speed).map(|s| s.0);
    let dialect = dialect(c, report)?;
    let rows = match load(&file).and_then(|text| read_log(&text, speed, &dialect)) {
        Ok(rows) => rows,
        Err(reason) => {
            let problem = Problem::new(format!("cannot use `{file}`: {reason}")).at(span(&c.log), "");
            report.error(problem.help(LOG_HELP));
            return None;
        }
    };
    let mut gaps: Vec<Time> = rows.windows(2).map(|w| w[1].at - w[0].at).collect();
    gaps.sort_unstable();
    let usual = gaps.get(gaps.len() / 2).copied();
    let last_line = rows.last().map_or(Time::ZERO, |row| row.at);
    if let (Some(usual), Some(&longest)) = (usual, gaps.last())
        && longest > usual * GAP
    {
        let after = rows.windows(2).find(|w| w[1].at - w[0].at == longest).map_or(Time::ZERO, |w| w[0].at);
        let warning = Problem::new(format!("`{file}` has a gap of {longest} after {after}")).at(span(&c.log), "");
        report.warn(warning.help("check the log: the last measurement holds until the next line"));
    }
    let mut out: Vec<Presence> = Vec::new();
    // Without any signal the link counts as strong enough. A line without a value keeps the last measurement.
    let mut strong = rows.iter().all(|row| row.signal.is_none());
    let mut covered = false;
    for row in rows {
        strong = match row.signal {
            Some(dbm) if covered => dbm > levels.threshold,
            Some(dbm) => dbm > levels.threshold + levels.hysteresis,
            None => strong,
        };
        let was = std::mem::replace(&mut covered, strong && row.rate != Some(Rate(0)));
        match (was, covered) {
            (false, true) => out.push(Presence {
                name: format!("{}", row.at),
                arrive: row.at,
                depart: Time::MAX,
                class: None,
                rows: vec![row],
            }),
            (true, true) => out.last_mut()?.rows.push(row),
            (true, false) => out.last_mut()?.depart = row.at,
            (false, false) => {}
        }
    }
    if let Some(last) = out.last_mut().filter(|s| s.depart == Time::MAX) {
        // The last measurement holds until the log repeats or, without `repeat`, for the usual time between lines.
        let until = last_line + usual.unwrap_or(Time::from_secs(1));
        last.depart = report.read(&c.repeat).filter(|repeat| *repeat > last_line).unwrap_or(until);
        let warning = Problem::new(format!("`{file}` ends within coverage at {last_line}")).at(span(&c.log), "");
        report.warn(warning.help(format!("extend the log; without further lines coverage ends at {}", last.depart)));
    }
    Some(out)
}

/// Returns the file's format, as far as the scenario states it.
fn dialect(c: &TomlCoverage, report: &mut Problems) -> Option<Dialect> {
    let mut dialect = Dialect { delimiter: report.read(&c.delimiter), extra: true, ..Dialect::default() };
    for (known, name) in c.columns.iter().flat_map(|columns| &columns.value) {
        if !COLUMNS.contains(&known.as_str()) {
            let problem = Problem::new(format!("unknown column `{known}`")).at(name.span.clone(), "");
            report.error(problem.help(suggest(known, "map one of", COLUMNS)));
            return None;
        }
        dialect.names.insert(known.clone(), report.read(&Some(name.clone()))?);
    }
    Some(dialect)
}

/// Reads a log; by position it needs the `speed`.
fn read_log(text: &str, speed: Option<f64>, dialect: &Dialect) -> Result<Vec<LogRow>, String> {
    let table = TraceTable::read(text, &COLUMNS, dialect)?;
    match (table.has(TIME), table.has(POSITION), speed) {
        (true, false, _) | (false, true, Some(_)) => {}
        (false, true, None) => return Err("a log by position needs a `speed`".into()),
        _ => return Err("it must have either a column `time_s` or a column `position_m`".into()),
    }
    let lines = table.lines(|row: &mut LogRow, field, at| {
        match field.known {
            TIME => row.at = at.unwrap_or_default(),
            POSITION => {
                row.at = Time::from_secs_f64(field.number()? / speed.unwrap_or(1.0));
                if row.at > LONGEST {
                    return Err(format!("{field} is reached after more than {LONGEST}"));
                }
            }
            "signal_dbm" => row.signal = Some(field.number()?),
            "rate_mbps" => row.rate = Some(Rate((field.number()? * 1e6) as u64)),
            "delay_ms" => row.delay = Some(Time::from_secs_f64(field.number()? / 1e3)),
            _ => row.loss = Some(field.number()?),
        }
        Ok(())
    })?;
    let mut out: Vec<LogRow> = Vec::with_capacity(lines.len());
    for (number, row) in lines {
        match out.last_mut() {
            Some(last) if last.at > row.at => {
                return Err(format!("line {number}: time goes back from {} to {}", last.at, row.at));
            }
            // The clock has whole seconds: the last of several lines in a second applies.
            Some(last) if last.at == row.at => {
                *last = LogRow {
                    at: row.at,
                    signal: row.signal.or(last.signal),
                    rate: row.rate.or(last.rate),
                    delay: row.delay.or(last.delay),
                    loss: row.loss.or(last.loss),
                }
            }
            _ => out.push(row),
        }
    }
    Ok(out)
}

const COLUMNS: [&str; 6] = [TIME, POSITION, "signal_dbm", "rate_mbps", "delay_ms", "loss"];
const LOG_HELP: &str = "name the columns in the first line: time_s or position_m, and any of signal_dbm, rate_mbps, \
                        delay_ms, loss; map other names with `columns`";
/// Multiple of the usual distance between lines that counts as a gap.
const GAP: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, speed: Option<f64>) -> Result<Vec<LogRow>, String> {
        read_log(text, speed, &Dialect { extra: true, ..Dialect::default() })
    }

    #[test]
    fn positions_in_a_log_become_times_by_speed() {
        let rows = read("\u{feff}position_m,signal_dbm,loss\n0,-60,0.01\n95,-90,0.5\n", Some(9.5)).unwrap();
        assert_eq!((rows[1].at, rows[1].signal, rows[1].loss), (Time::from_secs(10), Some(-90.0), Some(0.5)));
    }

    #[test]
    fn lines_of_the_same_time_are_merged() {
        let rows = read("time_s,signal_dbm,loss\n3,-60,0.01\n3,-70,\n4,,0.5\n", None).unwrap();
        let wanted = [
            LogRow { at: Time::from_secs(3), signal: Some(-70.0), loss: Some(0.01), ..LogRow::default() },
            LogRow { at: Time::from_secs(4), loss: Some(0.5), ..LogRow::default() },
        ];
        assert_eq!(rows, wanted);
    }

    #[test]
    fn position_beyond_the_largest_time_is_refused() {
        let reason = read("position_m,signal_dbm\n0,-60\n1000000000,-60\n", Some(0.001)).unwrap_err();
        assert_eq!(reason, "line 3: position_m = 1000000000 is reached after more than 1000000000 s");
    }

    #[test]
    fn invalid_logs_are_refused() {
        for (bad, said) in [
            ("signal_dbm\n-60\n", "either a column"),
            ("position_m\n5\n", "needs a `speed`"),
            ("time_s,position_m\n5,5\n", "either a column"),
            ("time_s,signal_dbm\n5,-60\n4,-60\n", "line 3: time goes back from 5 s to 4 s"),
            ("time_s,signal_dbm\n0,5000\n", "line 2: signal_dbm = 5000 is out of range"),
        ] {
            let reason = read(bad, None).unwrap_err();
            assert!(reason.contains(said), "{bad:?}: {reason}");
        }
    }
}
