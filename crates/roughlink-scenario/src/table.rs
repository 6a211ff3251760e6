//! Tables of measurements in CSV files, in the usual dialects, for coverage logs and timelines.
//!
//! The heading names the columns. Empty lines and lines that begin with `#` are ignored. Fields may be quoted. The
//! delimiter is a comma, a semicolon or a tab; by default the one most frequent in the heading. Unless it is the comma,
//! numbers may have a decimal comma. Times are seconds from the start of the run or absolute times, which count from
//! the first line: Unix seconds, RFC 3339, or a date and time of day without offset from UTC.

use super::leaf::{Dbm, FASTEST, LONGEST, words};
use super::problem::suggest;
use csv::{ReaderBuilder, StringRecord, Trim};
use jiff::{Timestamp, civil, tz::TimeZone};
use roughlink_core::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// Reads a file by its name as written in the scenario.
pub(super) type FileLoader<'l> = &'l dyn Fn(&str) -> Result<String, String>;

/// Deviations of a file from the usual form.
#[derive(Clone, Debug, Default)]
pub(super) struct Dialect {
    /// Detected if `None`.
    pub delimiter: Option<Delimiter>,
    /// Names of columns in the file where they differ from the known ones.
    pub names: BTreeMap<String, String>,
    /// Ignores columns other than the known ones.
    pub extra: bool,
}

/// Separator between the fields of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(super) enum Delimiter {
    /// A comma.
    #[serde(rename = ",")]
    Comma,
    /// A semicolon; numbers may have a decimal comma.
    #[serde(rename = ";")]
    Semicolon,
    /// A tab; numbers may have a decimal comma.
    #[serde(rename = "\t")]
    Tab,
}

words!(Delimiter);

/// The lines of a file, as far as its columns are known.
#[derive(Debug)]
pub(super) struct TraceTable<'k> {
    columns: Vec<KnownColumn<'k>>,
    lines: Vec<(u64, StringRecord)>,
    decimal_comma: bool,
}

#[derive(Clone, Debug)]
struct KnownColumn<'k> {
    known: &'k str,
    /// Name in the file.
    name: String,
    place: usize,
}

#[derive(Clone, Copy, Debug, Default)]
enum TimeOrigin {
    /// No line has been read.
    #[default]
    Unset,
    /// The start of the run.
    Start,
    /// The first line, in Unix seconds.
    Unix(f64),
    /// The first line, and whether its date has a time zone.
    Date(Timestamp, bool),
}

/// A field that is not empty.
pub(super) struct TextField<'t> {
    pub known: &'t str,
    name: &'t str,
    text: &'t str,
    decimal_comma: bool,
}

impl<'k> TraceTable<'k> {
    /// Reads the columns of `text` that are in `known`.
    pub(crate) fn read(text: &str, known: &[&'k str], dialect: &Dialect) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut rows = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let delimiter = dialect.delimiter.unwrap_or_else(|| rows.next().map_or(Delimiter::Comma, likely)).byte();
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .comment(Some(b'#'))
            .trim(Trim::All)
            .delimiter(delimiter)
            .from_reader(text.as_bytes());
        let mut lines = Vec::new();
        let mut counter = LineCounter { text, at: 0, line: 1 };
        for record in reader.records() {
            let record = record.map_err(|e| format!("invalid CSV: {e}"))?;
            // The reader recognizes a comment only if `#` is the very first character of the line.
            let is_comment = record.get(0).is_some_and(|field| field.starts_with('#'));
            if !is_comment && record.iter().any(|field| !field.is_empty()) {
                let at = record.position().map_or(0, |p| p.byte() as usize);
                lines.push((counter.line_of(at), record));
            }
        }
        let Some((_, mut heading)) = lines.first().cloned() else { return Err("the file is empty".into()) };
        lines.remove(0);
        // Any line may end with a delimiter, even the heading: do not count an empty last column.
        let width = (1..=heading.len()).rev().find(|&n| !heading[n - 1].is_empty()).unwrap_or(0);
        heading.truncate(width);
        let columns = columns(&heading, known, dialect)?;
        for (line, record) in &lines {
            if record.len() < width || record.iter().skip(width).any(|field| !field.is_empty()) {
                return Err(format!("line {line}: expected {width} fields, found {}", record.len()));
            }
        }
        if lines.is_empty() {
            return Err("the file has a heading but no data".into());
        }
        Ok(TraceTable { columns, lines, decimal_comma: delimiter != b',' })
    }

    pub(crate) fn has(&self, known: &str) -> bool {
        self.columns.iter().any(|c| c.known == known)
    }

    pub(crate) fn width(&self) -> usize {
        self.columns.len()
    }

    /// Converts each line to a `T`. Calls `make` for each field that is not empty, with the line's `T`, the field, and
    /// its time if the field is one. An error names the line.
    pub(crate) fn lines<T: Default>(
        &self,
        mut make: impl FnMut(&mut T, &TextField<'_>, Option<Time>) -> Result<(), String>,
    ) -> Result<Vec<(u64, T)>, String> {
        let mut clock = TimeOrigin::default();
        let mut out = Vec::with_capacity(self.lines.len());
        for (line, record) in &self.lines {
            let mut one = T::default();
            for c in &self.columns {
                let text = record.get(c.place).unwrap_or_default();
                let field = TextField { known: c.known, name: &c.name, text, decimal_comma: self.decimal_comma };
                let read = match (c.known, text.is_empty()) {
                    (TIME, false) => clock.read(&field).and_then(|at| make(&mut one, &field, Some(at))),
                    (_, false) => make(&mut one, &field, None),
                    (TIME | POSITION, true) => Err(format!("{} is empty", c.name)),
                    (_, true) => Ok(()),
                };
                read.map_err(|reason| format!("line {line}: {reason}"))?;
            }
            out.push((*line, one));
        }
        Ok(out)
    }
}

impl TextField<'_> {
    /// Returns the number in the field, within a scenario's bounds for such a value.
    pub(crate) fn number(&self) -> Result<f64, String> {
        let known = self.known;
        let (least, most) = match known {
            TIME => (0.0, LONGEST.as_secs_f64()),
            "delay_ms" => (0.0, LONGEST.as_secs_f64() * 1e3),
            "rate_mbps" => (0.0, FASTEST.0 as f64 / 1e6),
            "signal_dbm" => (Dbm::LEAST, Dbm::MOST),
            POSITION => (0.0, 1e9),
            _ => (0.0, 1.0),
        };
        let x = self.plain().ok_or_else(|| format!("{self} is not a number"))?;
        match x {
            x if (least..=most).contains(&x) => Ok(x),
            x if x < 0.0 && known == TIME => Err(format!("{self} is a negative time")),
            _ => Err(format!("{self} is out of range: {least} to {most}")),
        }
    }

    /// Parses 0, 1, true or false.
    pub(crate) fn boolean(&self) -> Result<bool, String> {
        match self.text.to_ascii_lowercase().as_str() {
            "1" | "true" => Ok(true),
            "0" | "false" => Ok(false),
            _ => Err(format!("{self} is invalid; expected 0, 1, true or false")),
        }
    }

    fn plain(&self) -> Option<f64> {
        let comma = self.decimal_comma && self.text.contains(',');
        if comma { self.text.replacen(',', ".", 1).parse().ok() } else { self.text.parse().ok() }
    }

    /// Returns the date, and true if it has a time zone; one without is read as UTC.
    fn date(&self) -> Option<(Timestamp, bool)> {
        let civil = || self.text.parse::<civil::DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|z| z.timestamp());
        let zoned = self.text.parse::<Timestamp>().ok().map(|date| (date, true));
        zoned.or_else(|| civil().map(|date| (date, false)))
    }
}

/// Formats a field for messages. Text that does not look like a value may be from some other file; messages omit it.
impl fmt::Display for TextField<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let like_a_number = self.text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
        let like_a_value = like_a_number || ["true", "false", "nan", "inf"].contains(&&*self.text.to_ascii_lowercase());
        match like_a_value && self.text.len() <= MAX_SHOWN_LEN {
            true => write!(f, "{} = {}", self.name, self.text),
            false => f.write_str(self.name),
        }
    }
}

/// Returns the number in `text` as a value of the known column `column`.
pub(super) fn number_in(column: &str, text: &str) -> Result<f64, String> {
    TextField { known: column, name: column, text, decimal_comma: false }.number()
}

impl TimeOrigin {
    fn read(&mut self, field: &TextField<'_>) -> Result<Time, String> {
        if let TimeOrigin::Unset = self {
            *self = match (field.plain(), field.date()) {
                (Some(x), _) if x >= FIRST_UNIX_S => TimeOrigin::Unix(x),
                (Some(_), _) => TimeOrigin::Start,
                (None, Some((date, zoned))) => TimeOrigin::Date(date, zoned),
                (None, None) => return Err(format!("{field} is neither a number of seconds nor a date")),
            };
        }
        let since = match *self {
            TimeOrigin::Start | TimeOrigin::Unset => return field.number().map(Time::from_secs_f64),
            TimeOrigin::Unix(_) if field.plain().is_some_and(|x| x >= LAST_UNIX_S) => {
                return Err(format!("{field} is out of range: absolute times are in seconds"));
            }
            TimeOrigin::Unix(first) => field.plain().map(|x| x - first),
            TimeOrigin::Date(first, zoned) => {
                let alike = field.date().filter(|(_, other)| *other == zoned);
                alike.map(|(date, _)| date.duration_since(first).as_secs_f64())
            }
        };
        match since {
            None => Err(format!("{field} differs in format from the time in the first line")),
            Some(s) if !s.is_finite() => Err(format!("{field} is not a time")),
            Some(s) if s < 0.0 => Err(format!("{field} is before the first line")),
            Some(s) if s > LONGEST.as_secs_f64() => {
                Err(format!("{field} is more than thirty years after the first line"))
            }
            // An `f64` represents dates of this century to less than a microsecond.
            Some(s) => Ok(Time::from_micros(libm::round(s * 1e6) as u64)),
        }
    }
}

impl Delimiter {
    fn byte(self) -> u8 {
        match self {
            Delimiter::Comma => b',',
            Delimiter::Semicolon => b';',
            Delimiter::Tab => b'\t',
        }
    }
}

/// Returns the delimiter most frequent in a heading, outside quotes.
fn likely(heading: &str) -> Delimiter {
    let count = |delimiter: Delimiter| {
        let mut quoted = false;
        heading
            .bytes()
            .filter(|b| {
                quoted ^= *b == b'"';
                !quoted && *b == delimiter.byte()
            })
            .count()
    };
    let candidates = [Delimiter::Tab, Delimiter::Semicolon, Delimiter::Comma];
    candidates.into_iter().max_by_key(|d| count(*d)).unwrap_or(Delimiter::Comma)
}

fn columns<'k>(heading: &StringRecord, known: &[&'k str], dialect: &Dialect) -> Result<Vec<KnownColumn<'k>>, String> {
    let mut out = Vec::new();
    for &known in known {
        let given = dialect.names.get(known);
        let name = given.map_or(known, String::as_str);
        let mut places = heading.iter().enumerate().filter(|(_, h)| *h == name).map(|(i, _)| i);
        match (places.next(), places.next()) {
            (Some(_), Some(_)) => return Err(format!("two columns have the name `{name}`")),
            (Some(place), None) => out.push(KnownColumn { known, name: name.to_owned(), place }),
            (None, _) if given.is_some() => {
                let there = suggest(name, "its columns are", heading.iter());
                // A heading without any known column may be the first line of some other file.
                let there = if out.is_empty() { String::new() } else { format!("; {there}") };
                return Err(format!("missing column `{name}`, which `columns` maps to `{known}`{there}"));
            }
            (None, _) => {}
        }
    }
    if !dialect.extra
        && let Some(unknown) = heading.iter().find(|h| out.iter().all(|c| c.name != *h))
    {
        let found =
            if out.is_empty() { String::from("no known column") } else { format!("unknown column `{unknown}`") };
        return Err(format!("{found}; expected any of {}", known.join(", ")));
    }
    Ok(out)
}

/// Line counter that continues from its last position, so that it reads a long table only once.
struct LineCounter<'t> {
    text: &'t str,
    at: usize,
    line: u64,
}

impl LineCounter<'_> {
    /// Returns the line number of the first character of a record at or after byte `at`, which must never decrease.
    fn line_of(&mut self, at: usize) -> u64 {
        let mut start = at;
        for line in self.text[at..].split_inclusive('\n') {
            if !line.trim().is_empty() && !line.trim_start().starts_with('#') {
                break;
            }
            start += line.len();
        }
        if start > self.at {
            self.line += self.text.as_bytes()[self.at..start].iter().filter(|b| **b == b'\n').count() as u64;
            self.at = start;
        }
        self.line
    }
}

/// Characters of a field that messages show.
const MAX_SHOWN_LEN: usize = 24;
/// Columns that this module treats specially: the time, and the position.
pub(super) const TIME: &str = "time_s";
pub(super) const POSITION: &str = "position_m";
/// September 2001 in Unix seconds. Numbers from here on are dates, smaller ones are times of the run.
const FIRST_UNIX_S: f64 = 1e9;
/// The year 5138 in Unix seconds. Numbers from here on are milliseconds, which are refused.
const LAST_UNIX_S: f64 = 1e11;

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 3] = [TIME, "signal_dbm", "loss"];

    /// Returns line, time in ms, signal and loss of all lines.
    fn read(text: &str, dialect: &Dialect) -> Result<Vec<(u64, u64, f64, f64)>, String> {
        let table = TraceTable::read(text, &KNOWN, dialect)?;
        let lines = table.lines(|one: &mut (u64, f64, f64), field, at| {
            match field.known {
                TIME => one.0 = at.unwrap().as_millis(),
                "signal_dbm" => one.1 = field.number()?,
                _ => one.2 = field.number()?,
            }
            Ok(())
        })?;
        Ok(lines.into_iter().map(|(line, (at, signal, loss))| (line, at, signal, loss)).collect())
    }

    fn named(names: &[(&str, &str)]) -> Dialect {
        let names = names.iter().map(|(k, n)| ((*k).to_owned(), (*n).to_owned())).collect();
        Dialect { names, extra: true, delimiter: None }
    }

    #[test]
    fn indented_comments_and_trailing_delimiters_are_skipped() {
        let plain = Dialect::default();
        let wanted = Ok(vec![(3, 0, -90.0, 0.5), (5, 1_000, -80.0, 0.0)]);
        let text = "time_s,signal_dbm,loss,\n  # \"a\" comment, indented\n0,-90,0.5,\n\t# b\n1,-80,0\n";
        assert_eq!(read(text, &plain), wanted);
        for (text, reason) in [
            ("time_s,loss\n1746352800,0\nnan,0\n1746352805,0\n", "line 3: time_s = nan is not a time"),
            ("time_s,loss\nnan,0\n", "line 2: time_s = nan is out of range"),
        ] {
            let said = read(text, &plain).unwrap_err();
            assert!(said.contains(reason), "{said}");
        }
    }

    #[test]
    fn common_csv_dialects_are_read() {
        let wanted = [(2, 0, -90.5, 0.01), (3, 1_500, -80.0, 0.25)];
        let field = named(&[(TIME, "time stamp"), ("signal_dbm", "RSRP")]);
        for text in [
            "time stamp,cell,RSRP,loss\n0,17,-90.5,0.01\n1.5,17,-80,0.25\n",
            "\u{feff}\"time stamp\",\"cell, id\",RSRP,loss\r\n0,\"17, 4\",-90.5,0.01\r\n1.5,,\"-80\",0.25\r\n",
            "time stamp;cell;RSRP;loss;\n0;17;-90,5;0,01;\n1,5;17;-80;0,25\n",
            "time stamp\tcell\tRSRP\tloss\n0\t17\t-90,5\t0.01\n1.5\t17\t-80\t0.25\n",
            "time stamp,RSRP,loss\n1746352800.25,-90.5,0.01\n1746352801.75,-80,0.25\n",
            "time stamp,RSRP,loss\n2025-05-04T10:00:00.25Z,-90.5,0.01\n2025-05-04T12:00:01.75+02:00,-80,0.25\n",
            "time stamp;RSRP;loss\n2025-05-04 10:00:00;-90,5;0,01\n2025-05-04 10:00:01,5;-80;0,25\n",
        ] {
            assert_eq!(read(text, &field).unwrap(), wanted, "{text}");
        }
        let semicolon = Dialect { delimiter: Some(Delimiter::Semicolon), ..Dialect::default() };
        assert_eq!(read("time_s\n3\n", &semicolon).unwrap(), [(2, 3_000, 0.0, 0.0)]);
    }

    #[test]
    fn line_numbers_match_an_editor() {
        let text = "# of a\n\ntime_s,loss\n\n# b\n0,0.1\n   \n1,0.2\n2,x\n";
        assert_eq!(read(text, &Dialect::default()).unwrap_err(), "line 9: loss is not a number");
        let lines = read(&text.replace('x', "0"), &Dialect::default()).unwrap();
        assert_eq!(lines.iter().map(|l| l.0).collect::<Vec<_>>(), [6, 8, 9]);
    }

    #[test]
    fn invalid_values_are_refused_with_line_and_column() {
        let plain = Dialect::default();
        let renamed = named(&[("signal_dbm", "RSRP")]);
        for (bad, dialect, said) in [
            ("", &plain, "empty"),
            ("time_s,loss\n", &plain, "a heading but no data"),
            ("time_s,RSRP\n0,1\n", &plain, "unknown column `RSRP`; expected any of time_s"),
            ("time_s,rsrp\n0,1\n", &renamed, "missing column `RSRP`, which `columns` maps to `signal_dbm`"),
            ("time_s,loss,loss\n1,0,0\n", &plain, "two columns have the name `loss`"),
            ("time_s,loss\n2\n", &plain, "line 2: expected 2 fields, found 1"),
            ("time_s,loss\n2,0,1\n", &plain, "line 2: expected 2 fields, found 3"),
            ("time_s,loss\n,0.5\n", &plain, "line 2: time_s is empty"),
            ("time_s,loss\n2,1.5\n", &plain, "line 2: loss = 1.5 is out of range: 0 to 1"),
            ("time_s,RSRP\n2,-1000\n", &renamed, "line 2: RSRP = -1000 is out of range: -200 to 100"),
            ("time_s,RSRP\n2,NaN\n", &renamed, "line 2: RSRP = NaN is out of range"),
            ("time_s,RSRP\n2,-80,5\n", &renamed, "line 2: expected 2 fields, found 3"),
            ("time_s,loss\n-1,0\n", &plain, "line 2: time_s = -1 is a negative time"),
            ("time_s,loss\n0,0\n2e9,0\n", &plain, "line 3: time_s = 2e9 is out of range"),
            ("time_s,loss\n10:00,0\n", &plain, "line 2: time_s = 10:00 is neither"),
            ("time_s,loss\n1746352800,0\n17,0\n", &plain, "line 3: time_s = 17 is before the first line"),
            ("time_s,loss\n1746352800000,0\n", &plain, "line 2: time_s = 1746352800000 is out of range: absolute"),
            ("time_s,loss\n2025-05-04T10:00:00Z,0\n5,0\n", &plain, "line 3: time_s = 5 differs in format"),
            // Only one of two lines has a time zone, so the other time could be hours off.
            (
                "time_s,loss\n2025-05-04T12:00:00+02:00,0\n2025-05-04T12:00:01,0\n",
                &plain,
                "line 3: time_s = 2025-05-04T12:00:01 differs in format",
            ),
            ("time_s,loss\n2025-05-04 12:00:00,0\n2025-05-04T12:00:01Z,0\n", &plain, "differs in format"),
        ] {
            let reason = read(bad, dialect).unwrap_err();
            assert!(reason.contains(said), "{bad:?}: {reason}");
        }
    }
}
