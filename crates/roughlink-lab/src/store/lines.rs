//! The lines of `runs.jsonl`: a header, then a finished run with its checksum on each line. A line is the JSON object
//! of a [`RunRecord`] with a last member `"check"`: SipHash-1-3 (64 bits, key 0) of all before its comma, in
//! hexadecimal. It covers every bit of a line, which other programs can still read as JSON.

use super::RunRecord;
use crate::error::LabError;
use siphasher::sip::SipHasher13;
use std::fmt;
use std::io;
use std::path::PathBuf;

pub(super) const HEADER: &[u8] = b"{\"roughlink\":\"runs\",\"format\":1}\n";

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

#[derive(Debug, Default)]
pub(super) struct StoreContent {
    pub(super) records: Vec<RunRecord>,
    /// The header and the intact lines.
    pub(super) sound: Vec<u8>,
    pub(super) damaged: Vec<u8>,
    /// Numbers of the damaged lines, from one.
    pub(super) lines: Vec<usize>,
    /// True if no line has a valid checksum, as in the store of an earlier version.
    pub(super) unchecked: bool,
}

impl StoreContent {
    /// Parses a store; `None` for another text. Ignores an incomplete last line, which a killed process leaves.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let mut found = StoreContent { sound: HEADER.to_vec(), unchecked: true, ..StoreContent::default() };
        let whole = text.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        let mut ours = HEADER.starts_with(text);
        for (i, line) in text[..whole].split_inclusive(|b| *b == b'\n').enumerate() {
            if i == 0 && line == HEADER {
                (ours, found.unchecked) = (true, false);
            } else if let Some(record) = parse_line(line) {
                (ours, found.unchecked) = (true, false);
                found.sound.extend_from_slice(line);
                found.records.push(record);
            } else {
                ours |= serde_json::from_slice::<RunRecord>(line).is_ok();
                found.damaged.extend_from_slice(line);
                found.lines.push(i + 1);
            }
        }
        ours.then_some(found)
    }
}

/// Parses lines. Returns `None` if a line is damaged.
pub fn records(lines: &[u8]) -> Option<Vec<RunRecord>> {
    lines.split_inclusive(|b| *b == b'\n').map(parse_line).collect()
}

/// Parses a line. Returns `None` if it is damaged.
fn parse_line(line: &[u8]) -> Option<RunRecord> {
    let text = &line[..line.len().checked_sub(check(b"").len())?];
    if line[text.len()..] != *check(text).as_bytes() {
        return None;
    }
    serde_json::from_slice(line).ok()
}

/// Damaged lines of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub(super) path: PathBuf,
    /// Line numbers, from one.
    pub lines: Vec<usize>,
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
        let shown: Vec<String> = self.lines.iter().take(MAX_SHOWN).map(ToString::to_string).collect();
        let shown = shown.join(", ");
        let s = if self.lines.len() == 1 { "" } else { "s" };
        let more = match self.lines.len().saturating_sub(MAX_SHOWN) {
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
