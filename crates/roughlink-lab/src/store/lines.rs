//! The lines of `runs.jsonl`: a header, then a finished run with its checksum on each line. A line is the JSON object
//! of a [`RunRecord`] with a last member `"check"`: SipHash-1-3 (64 bits, key 0) of all before its comma, in
//! hexadecimal. It covers every bit of a line, which other programs can still read as JSON.

use super::RunRecord;
use crate::disk::{self, MAX_WHOLE_SIZE};
use crate::error::LabError;
use siphasher::sip::SipHasher13;
use siphasher::sip128;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;

pub(super) const HEADER: &[u8] = b"{\"roughlink\":\"runs\",\"format\":1}\n";

/// Line of a finished run.
#[derive(Clone, Debug)]
pub struct RunLine {
    /// Hash of the key of the run.
    pub(super) key: u128,
    pub(super) text: Vec<u8>,
}

impl RunLine {
    /// Formats the line of a record.
    ///
    /// # Errors
    /// Returns an error if the record cannot be written as JSON, or is too long to be read again.
    pub fn new(record: &RunRecord) -> io::Result<RunLine> {
        let text = line(record)?;
        if text.len() as u64 >= MAX_WHOLE_SIZE {
            let reason = format!("the result of a run has more than {MAX_WHOLE_SIZE} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
        }
        Ok(RunLine { key: key_hash(&record.key), text })
    }
}

/// Returns the hash by which a run is found: SipHash-1-3 (128 bits, key 0) of its key.
pub(crate) fn key_hash(key: &str) -> u128 {
    sip128::SipHasher13::new().hash(key.as_bytes()).as_u128()
}

/// Places of the lines of a store, by the hashes of their keys.
pub(super) type LinePlaces = HashMap<u128, LinePlace>;

/// Place of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinePlace {
    start: u64,
    length: u32,
}

impl LinePlace {
    pub(super) fn new(start: u64, length: usize) -> Self {
        LinePlace { start, length: length as u32 } // at most `MAX_WHOLE_SIZE`
    }
}

/// Reads the record of the line at `place`.
///
/// # Errors
/// Returns an error if the line cannot be read, or is damaged.
pub(super) fn record_at(file: &File, place: LinePlace) -> io::Result<RunRecord> {
    serde_json::from_slice(&line_at(file, place)?).map_err(io::Error::other)
}

/// Reads the key of the line at `place`.
///
/// # Errors
/// Returns an error if the line cannot be read, or is damaged.
pub(super) fn key_at(file: &File, place: LinePlace) -> io::Result<String> {
    let line = line_at(file, place)?;
    key_of(&line).map(Cow::into_owned).ok_or_else(|| changed(place))
}

fn line_at(file: &File, place: LinePlace) -> io::Result<Vec<u8>> {
    let mut line = vec![0; place.length as usize];
    disk::read_at(file, &mut line, place.start)?;
    if is_intact(&line) { Ok(line) } else { Err(changed(place)) }
}

fn changed(place: LinePlace) -> io::Error {
    io::Error::other(format!("the line at byte {} was changed by another program", place.start))
}

/// Formats the line of a record, including the line feed.
///
/// # Errors
/// Returns an error if the record cannot be written as JSON.
pub fn line(record: &RunRecord) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(record).map_err(io::Error::other)?;
    line.pop(); // the closing brace
    let check = check(&line);
    line.extend_from_slice(check.as_bytes());
    Ok(line)
}

/// Returns the end of a line after the `text` of its record.
fn check(text: &[u8]) -> String {
    format!("{CHECK}{:016x}\"}}\n", SipHasher13::new().hash(text))
}

const CHECK: &str = ",\"check\":\"";

/// Content of a store, read line by line.
#[derive(Debug, Default)]
pub(super) struct StoreContent {
    pub(super) lines: LinePlaces,
    /// Bytes of the header; 0 if it is missing.
    pub(super) header: u64,
    /// Positions of damaged lines; consecutive damaged lines share a range.
    pub(super) damaged: Vec<Range<u64>>,
    /// Numbers of the first damaged lines, from one.
    damaged_numbers: Vec<usize>,
    damaged_lines: usize,
    /// End of the last complete line.
    pub(super) end: u64,
    /// True if no line has a valid checksum, as in the store of an earlier version.
    unchecked: bool,
}

impl StoreContent {
    /// Reads a store; `None` for another text. Ignores an incomplete last line, which a killed process leaves. Fails at
    /// a line of more than [`MAX_WHOLE_SIZE`].
    pub(super) fn read(mut file: &File) -> io::Result<Option<Self>> {
        file.rewind()?;
        let mut found = StoreContent { unchecked: true, ..StoreContent::default() };
        let (mut file, mut line, mut ours) = (BufReader::new(file), Vec::new(), false);
        for number in 1.. {
            line.clear();
            let size = file.by_ref().take(MAX_WHOLE_SIZE).read_until(b'\n', &mut line)? as u64;
            if !line.ends_with(b"\n") {
                if size == MAX_WHOLE_SIZE {
                    let reason = format!("line {number} has more than {MAX_WHOLE_SIZE} bytes");
                    return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
                }
                ours |= number == 1 && HEADER.starts_with(&line);
                break;
            }
            let place = found.end..found.end + size;
            found.end = place.end;
            if number == 1 && line == HEADER {
                (ours, found.unchecked, found.header) = (true, false, size);
            } else if let Some(key) = key_of(&line) {
                (ours, found.unchecked) = (true, false);
                found.lines.insert(key_hash(&key), LinePlace::new(place.start, line.len()));
            } else {
                ours |= serde_json::from_slice::<RunRecord>(&line).is_ok();
                found.add_damaged(number, place);
            }
        }
        Ok(ours.then_some(found))
    }

    fn add_damaged(&mut self, number: usize, place: Range<u64>) {
        match self.damaged.last_mut().filter(|last| last.end == place.start) {
            Some(last) => last.end = place.end,
            None => self.damaged.push(place),
        }
        self.damaged_lines += 1;
        if self.damaged_numbers.len() < MAX_SHOWN {
            self.damaged_numbers.push(number);
        }
    }

    /// Returns the positions of the intact lines after the header.
    pub(super) fn intact(&self) -> impl Iterator<Item = Range<u64>> {
        let starts = std::iter::once(self.header).chain(self.damaged.iter().map(|range| range.end));
        let ends = self.damaged.iter().map(|range| range.start).chain([self.end]);
        starts.zip(ends).map(|(start, end)| start..end)
    }

    /// Returns the damage in the store at `path`, whose damaged lines go to `aside`.
    pub(super) fn damage(&self, path: PathBuf, aside: PathBuf) -> Option<Damage> {
        let (lines, unchecked) = (self.damaged_numbers.clone(), self.unchecked);
        (self.damaged_lines > 0).then_some(Damage { path, lines, count: self.damaged_lines, unchecked, aside })
    }
}

/// Copies parts of a file.
pub(super) fn copy(
    mut from: &File,
    parts: impl IntoIterator<Item = Range<u64>>,
    to: &mut impl io::Write,
) -> io::Result<()> {
    for part in parts {
        from.seek(SeekFrom::Start(part.start))?;
        io::copy(&mut from.take(part.end - part.start), to)?;
    }
    Ok(())
}

/// Parses lines. Returns `None` if a line is damaged.
pub fn records(lines: &[u8]) -> Option<Vec<RunRecord>> {
    lines.split_inclusive(|b| *b == b'\n').map(parse_line).collect()
}

/// Parses a line. Returns `None` if it is damaged.
fn parse_line(line: &[u8]) -> Option<RunRecord> {
    is_intact(line).then(|| serde_json::from_slice(line).ok())?
}

/// Returns true if a line has the right checksum.
fn is_intact(line: &[u8]) -> bool {
    let text = line.len().checked_sub(check(b"").len()).map(|end| &line[..end]);
    text.is_some_and(|text| line[text.len()..] == *check(text).as_bytes())
}

/// Returns the key of a line, which is its first member. Returns `None` if the line is damaged.
fn key_of(line: &[u8]) -> Option<Cow<'_, str>> {
    if !is_intact(line) {
        return None;
    }
    let rest = line.strip_prefix(KEY);
    let key = rest.and_then(|rest| Some(&rest[..rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?]));
    match key {
        Some(key) if line.get(KEY.len() + key.len()) == Some(&b'"') => std::str::from_utf8(key).ok().map(Cow::Borrowed),
        _ => serde_json::from_slice::<RunRecord>(line).ok().map(|record| record.key.into()),
    }
}

/// Start of a line.
const KEY: &[u8] = br#"{"key":""#;

/// Damaged lines of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub(super) path: PathBuf,
    /// Numbers of the first lines, from one, and the number of all.
    lines: Vec<usize>,
    count: usize,
    /// True if the lines have no checksums because an earlier version wrote them.
    pub unchecked: bool,
    pub(super) aside: PathBuf,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, aside) = (self.path.display(), self.aside.display());
        if self.unchecked {
            return write!(
                f,
                "{path} has no checksums because an earlier version wrote it: its lines were moved to {aside}, and its \
                 runs are repeated"
            );
        }
        let shown = self.lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let s = if self.count == 1 { "" } else { "s" };
        let more = match self.count - self.lines.len() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        write!(f, "{path}: wrong checksum in line{s} {shown}{more}: moved to {aside}; missing runs are repeated")
    }
}

const MAX_SHOWN: usize = 10;

pub(super) fn foreign(folder: &std::path::Path, example: &str) -> LabError {
    LabError::Foreign { path: folder.to_path_buf(), example: example.to_owned() }
}
