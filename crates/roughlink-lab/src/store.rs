//! The run store: `runs.jsonl` in a result folder, one JSON line per finished run, appended.
//!
//! A killed process loses only the runs in progress: an incomplete last line is removed when the store is opened again.
//! Each line has a checksum (`lines`). A damaged line is moved to `runs.damaged.jsonl`, and its run is repeated. A
//! folder is accepted if it is empty or has a store, which is checked before any change.
//!
//! While a store is open, its folder and `runs.jsonl` are locked. The folder's lock holds even if files in it are
//! deleted, but some systems cannot lock folders. Both locks are the operating system's, so they end with their
//! process; `runs.lock` holds the process number only for the message to the user.

#[cfg(test)]
mod faults;
mod lines;
#[cfg(test)]
mod tests;

pub(crate) use lines::key_hash;
pub use lines::{Damage, RunLine, line, records};

use crate::disk::{self, EntryKind, OpenFolder, OutputFile};
use crate::error::LabError;
use crate::experiment::identity::Identity;
use crate::watch::Watched;
use lines::{HEADER, LinePlace, LinePlaces, StoreContent, foreign};
use roughlink_core::metrics::RunResult;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Key of the run: [`crate::runner::Job::key`].
    pub key: String,
    /// Result of the run.
    pub result: RunResult,
    /// True if nothing in the scenario is random.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deterministic: bool,
    /// Quantities recorded during the run, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<Watched>,
}

/// Finished runs in a file. Only their places are in memory: a run has some kilobytes, and a sweep may have a million
/// runs.
#[derive(Debug)]
pub struct Records {
    /// The open file; `None` to open it for each run.
    file: Option<fs::File>,
    path: PathBuf,
    lines: LinePlaces,
}

impl Records {
    /// Reads the store in `folder` without locking or changing it. Another process may be using it.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read or the folder has none.
    pub fn read(folder: &Path) -> Result<Records, LabError> {
        let path = folder.join(RUNS);
        let found = disk::reader(&path).and_then(|file| Ok((StoreContent::read(&file)?, file)));
        match found {
            Err(source) => Err(LabError::Read { path, source }),
            Ok((None, _)) => Err(foreign(folder, RUNS)),
            Ok((Some(found), file)) => Ok(Records { file: Some(file), path, lines: found.lines }),
        }
    }

    /// Returns true if the run with this key is finished.
    pub fn contains(&self, key: &str) -> bool {
        self.lines.contains_key(&key_hash(key))
    }

    /// Reads the run with this key; `None` if it is not finished.
    ///
    /// # Errors
    /// Returns an error if its line cannot be read or has changed.
    pub fn get(&self, key: &str) -> Result<Option<RunRecord>, LabError> {
        let Some(place) = self.lines.get(&key_hash(key)) else { return Ok(None) };
        let record = match &self.file {
            Some(file) => lines::record_at(file, *place),
            None => disk::reader(&self.path).and_then(|file| lines::record_at(&file, *place)),
        };
        let record = record.map_err(|source| LabError::Read { path: self.path.clone(), source })?;
        Ok(Some(record).filter(|record| record.key == key))
    }

    /// Closes the file and unlocks it. From then on, the file is opened for each run.
    pub(crate) fn close(&mut self) {
        self.file = None;
    }

    /// Reads the keys of the runs, in any order.
    ///
    /// # Errors
    /// Returns an error if a line cannot be read or has changed.
    pub fn keys(&self) -> Result<Vec<String>, LabError> {
        let failed = |source| LabError::Read { path: self.path.clone(), source };
        let file = disk::reader(&self.path).map_err(failed)?;
        self.lines.values().map(|place| lines::key_at(&file, *place)).collect::<io::Result<_>>().map_err(failed)
    }

    /// Returns the number of runs.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns true if there are no runs.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl AsRef<Records> for Records {
    fn as_ref(&self) -> &Records {
        self
    }
}

/// An open run store, locked against other processes.
#[derive(Debug)]
pub struct Store {
    folder: OpenFolder,
    file: OutputFile,
    /// Size of the header and the complete lines.
    end: u64,
    /// Lines that could not be written yet.
    unwritten: Vec<u8>,
    records: Records,
    damage: Option<Damage>,
}

impl Store {
    /// Opens the store in `folder`, and creates both if necessary. A folder with files but no store is rejected.
    pub fn open(folder: &Path) -> Result<Store, LabError> {
        let dir = OpenFolder::make(folder).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => foreign(folder, "a file"),
            _ => LabError::Write { path: folder.to_path_buf(), source },
        })?;
        let failed = |name: &str| {
            let path = folder.join(name);
            move |source| LabError::Write { path, source }
        };
        if !dir.lock().map_err(failed(""))? {
            return Err(in_use(&dir));
        }
        check_ours(&dir)?;
        let mut file = dir.append(RUNS).map_err(failed(RUNS))?;
        if !file.lock().and_then(|free| Ok(free && dir.has(RUNS, &file)?)).map_err(failed(RUNS))? {
            return Err(in_use(&dir));
        }
        let unreadable = |source| LabError::Read { path: folder.join(RUNS), source };
        let content = StoreContent::read(file.reader()).map_err(unreadable)?;
        let Some(mut found) = content else { return Err(foreign(folder, RUNS)) };
        name_process(&dir).map_err(failed(LOCK))?;
        let damage = found.damage(folder.join(RUNS), folder.join(DAMAGED));
        if damage.is_some() {
            set_aside(&dir, &file, &found.damaged).map_err(failed(DAMAGED))?;
        }
        if damage.is_some() || found.header == 0 {
            let whole = dir.replace_with(RUNS, |new| {
                new.write_all(HEADER)?;
                lines::copy(file.reader(), found.intact(), new)
            });
            file = whole.map_err(failed(RUNS))?;
            if !file.lock().map_err(failed(RUNS))? {
                return Err(in_use(&dir));
            }
            found.lines = StoreContent::read(file.reader()).map_err(unreadable)?.unwrap_or_default().lines;
        } else if found.end < file.size().map_err(unreadable)? {
            file.cut(found.end).map_err(failed(RUNS))?;
        }
        let end = file.size().map_err(unreadable)?;
        let copy = file.reader().try_clone().map_err(unreadable)?;
        let records = Records { file: Some(copy), path: folder.join(RUNS), lines: found.lines };
        Ok(Store { folder: dir, file, end, unwritten: Vec::new(), records, damage })
    }

    /// Opens the store of the experiment with this [identity](crate::experiment::ExperimentPlan::identity) and writes
    /// the identity into the folder. Rejects a folder with results of a paper, and one with results of another
    /// experiment or with more runs per cell unless `is_extension` permits it. Removes the statistics of the previous
    /// experiment, because the folder is unfinished until all runs are done.
    pub(crate) fn open_or_create(
        folder: &Path,
        identity: &Identity,
        is_extension: &dyn Fn() -> bool,
    ) -> Result<Store, LabError> {
        let others = || LabError::Usage {
            message: format!("`{}` has the results of another experiment", folder.display()),
            help:
                "name another folder with -o, or remove this one; only values of the same keys, metrics and replicas \
                   may differ"
                    .into(),
        };
        let known = || match identity_of(folder) {
            Some(known) if !identity.continues(&known) && !is_extension() => Err(others()),
            known => Ok(known),
        };
        known()?;
        let store = Store::open(folder)?;
        // Check again, now that no other process can write.
        match known()? {
            Some(known) if known == identity.to_string() => return Ok(store),
            Some(_) => store.forget_results()?,
            // Results of a paper.
            None if matches!(store.folder.kind(RESULTS), Ok(Some(_))) => return Err(others()),
            None => {}
        }
        store.write(IDENTITY, format!("{identity}\n").as_bytes())?;
        Ok(store)
    }

    /// Removes statistics and report, first the file that marks a folder as finished.
    fn forget_results(&self) -> Result<(), LabError> {
        for name in [RESULTS, RUNS_TABLE, REPORT] {
            match self.folder.remove(name) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                removed => removed.map_err(|source| LabError::Write { path: self.folder().join(name), source })?,
            }
        }
        self.folder.sync().map_err(|source| LabError::Write { path: self.folder().to_path_buf(), source })
    }

    /// Returns the path of the folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the damage found when the store was opened.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// Returns true if the run with this key is finished.
    pub fn contains(&self, key: &str) -> bool {
        self.records.contains(key)
    }

    /// Reads the run with this key; `None` if it is not finished.
    ///
    /// # Errors
    /// Returns the errors of [`Records::get`].
    pub fn get(&self, key: &str) -> Result<Option<RunRecord>, LabError> {
        self.records.get(key)
    }

    /// Returns the finished runs. Their file stays locked while it is open.
    pub fn into_records(self) -> Records {
        self.records
    }

    /// Returns the number of finished runs.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns true if the store has no runs.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Adds a finished run. If it cannot be written, the file is left as it was, and the write is repeated by the next
    /// call and by [`Store::sync`].
    pub fn append(&mut self, record: &RunRecord) -> Result<(), LabError> {
        let line = RunLine::new(record).map_err(|source| LabError::Write { path: self.path(), source })?;
        self.extend([line])
    }

    /// Adds finished runs with one write.
    ///
    /// # Errors
    /// Returns the errors of [`Store::append`].
    pub fn extend(&mut self, lines: impl IntoIterator<Item = RunLine>) -> Result<(), LabError> {
        for line in lines {
            let place = LinePlace::new(self.end + self.unwritten.len() as u64, line.text.len());
            self.unwritten.extend_from_slice(&line.text);
            self.records.lines.insert(line.key, place);
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), LabError> {
        let failed = |source| LabError::Write { path: self.folder.path().join(RUNS), source };
        let size = self.file.size().map_err(failed)?;
        if size < self.end || !self.folder.has(RUNS, &self.file).map_err(failed)? {
            return Err(failed(io::Error::other(
                "it was removed, replaced or shortened while this command was running",
            )));
        }
        if size > self.end {
            self.file.cut(self.end).map_err(failed)?; // an incomplete line of a failed write
        }
        if let Err(e) = self.file.write_all(&self.unwritten) {
            // Keep the complete lines, and cut off the incomplete one now and not at the next opening.
            let written = self.file.size().map_or(0, |size| size.saturating_sub(self.end) as usize);
            let written = &self.unwritten[..written.min(self.unwritten.len())];
            let complete = written.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
            self.end += complete as u64;
            self.unwritten.drain(..complete);
            let _ = self.file.cut(self.end);
            return Err(failed(e));
        }
        self.end += self.unwritten.len() as u64;
        self.unwritten.clear();
        Ok(())
    }

    /// Flushes all appended runs to disk.
    pub fn sync(&mut self) -> Result<(), LabError> {
        self.flush()?;
        self.file.sync().map_err(|source| LabError::Write { path: self.path(), source })
    }

    /// Writes another file of the result folder atomically.
    pub fn write(&self, name: &str, text: &[u8]) -> Result<PathBuf, LabError> {
        self.write_with(name, |file| file.write_all(text))
    }

    /// Writes another file of the result folder atomically, with the content that `write` writes.
    pub(crate) fn write_with(
        &self,
        name: &str,
        write: impl FnOnce(&mut OutputFile) -> io::Result<()>,
    ) -> Result<PathBuf, LabError> {
        let path = self.folder().join(name);
        match self.folder.replace_with(name, write) {
            Ok(_) => Ok(path),
            Err(source) => Err(LabError::Write { path, source }),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder().join(RUNS)
    }
}

impl AsRef<Records> for Store {
    fn as_ref(&self) -> &Records {
        &self.records
    }
}

/// Returns the folder for the results of the experiment with this `identity`: `base`, or `base-2`, `base-3` and so on
/// if `base` has other contents. The same experiment gets the same folder again, even with more runs.
pub fn folder_of(base: &Path, identity: &Identity) -> PathBuf {
    let numbered = |n: u32| {
        let mut name = base.as_os_str().to_owned();
        name.push(format!("-{n}"));
        PathBuf::from(name)
    };
    let mut folders = std::iter::once(base.to_path_buf()).chain((2..).map(numbered));
    let free = |folder: &PathBuf| match identity_of(folder) {
        Some(known) => identity.continues(&known),
        None => !folder.exists() || fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none()),
    };
    folders.find(free).expect("there is always another number")
}

/// Reads the identity of the experiment whose results are in `folder`, if it has one.
pub fn identity_of(folder: &Path) -> Option<String> {
    let text = disk::read(&folder.join(IDENTITY)).ok()?;
    Some(String::from_utf8(text).ok()?.trim().to_owned())
}

/// Checks that a folder is empty or has a run store, which is recognized by the contents of the file.
fn check_ours(folder: &OpenFolder) -> Result<(), LabError> {
    let unreadable = |source| LabError::Read { path: folder.path().to_path_buf(), source };
    match folder.kind(RUNS).map_err(unreadable)? {
        Some(EntryKind::File) => return Ok(()),
        Some(_) => return Err(foreign(folder.path(), &format!("{RUNS}, which is not a regular file"))),
        None => {}
    }
    let ours = |name: &String| name == LOCK && process(folder).is_some() || disk::is_leftover(name);
    let names = folder.names().map_err(unreadable)?;
    match names.iter().find(|name| !ours(name)) {
        None => Ok(()),
        Some(example) => Err(foreign(folder.path(), example)),
    }
}

fn process(folder: &OpenFolder) -> Option<u32> {
    String::from_utf8(folder.read(LOCK).ok()?).ok()?.trim().parse().ok()
}

/// Writes the process ID into a new `runs.lock`.
fn name_process(folder: &OpenFolder) -> io::Result<()> {
    if folder.kind(LOCK)?.is_some() {
        folder.remove(LOCK)?;
    }
    folder.create(LOCK)?.write_all(format!("{}\n", std::process::id()).as_bytes())
}

fn in_use(folder: &OpenFolder) -> LabError {
    let owner = process(folder).map_or_else(|| "unknown".to_owned(), |n| n.to_string());
    LabError::InUse { path: folder.path().to_path_buf(), owner }
}

/// Appends damaged lines to those that were set aside before.
fn set_aside(folder: &OpenFolder, file: &OutputFile, lines: &[Range<u64>]) -> io::Result<()> {
    let before = match folder.reader(DAMAGED) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        before => Some(before?),
    };
    let write = |new: &mut OutputFile| {
        before.map_or(Ok(0), |mut before| io::copy(&mut before, new))?;
        lines::copy(file.reader(), lines.iter().cloned(), new)
    };
    folder.replace_with(DAMAGED, write).map(drop)
}

/// File with the identity of the experiment.
pub const IDENTITY: &str = "experiment.id";
/// File of finished runs.
pub const RUNS: &str = "runs.jsonl";
/// Table of all runs, written when they are done.
pub const RUNS_TABLE: &str = "runs.parquet";
/// File with the statistics of a grid of runs. Marks its folder as finished.
pub const RESULTS: &str = "results.json";
/// File with the report.
pub const REPORT: &str = "report.html";
/// File of damaged lines.
pub const DAMAGED: &str = "runs.damaged.jsonl";
const LOCK: &str = "runs.lock";
