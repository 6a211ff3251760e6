//! The run store: `runs.jsonl` in a result folder, one JSON line per finished run, appended and never rewritten.
//!
//! A killed process loses only the runs under way: an incomplete last line is cut off when the store is opened again.
//! The lock is the operating system's, so it ends with its process; the lock file holds the process number only for the
//! message to the user.

use crate::error::LabError;
use crate::watch::Watched;
use roughlink_core::metrics::RunResult;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// A finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What was run: [`crate::runner::Job::key`].
    pub key: String,
    /// What came out.
    pub result: RunResult,
    /// What was recorded during the run, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<Watched>,
}

/// An open run store, locked against other processes.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    records: HashMap<String, Record>,
    /// Lines that could not be read, not counting an incomplete last one.
    pub damaged: usize,
    _lock: File,
}

impl Store {
    /// Opens the store in `folder`, creating both if necessary. A folder that holds files but no store is refused.
    pub fn open(folder: &Path) -> Result<Store, LabError> {
        let failed = |path: &Path, source| LabError::Write { path: path.to_path_buf(), source };
        if folder.exists() {
            check_ours(folder)?;
        }
        fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
        let lock = lock(folder)?;
        let path = folder.join(RUNS);
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).open(&path).map_err(|e| failed(&path, e))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(|source| LabError::Read { path: path.clone(), source })?;
        let whole = text.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(|e| failed(&path, e))?;
            file.seek(SeekFrom::End(0)).map_err(|e| failed(&path, e))?;
        }
        let mut records = HashMap::new();
        let mut damaged = 0;
        for line in text[..whole].split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Record>(line) {
                Ok(record) => {
                    records.insert(record.key.clone(), record);
                }
                Err(_) => damaged += 1,
            }
        }
        Ok(Store { folder: folder.to_path_buf(), path, file, records, damaged, _lock: lock })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A finished run.
    pub fn get(&self, key: &str) -> Option<&Record> {
        self.records.get(key)
    }

    /// How many runs it has.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Adds a finished run. If the disk is full, the store is left as it was.
    pub fn append(&mut self, record: Record) -> Result<(), LabError> {
        let failed = |source| LabError::Write { path: self.path.clone(), source };
        let before = self.file.metadata().map_err(failed)?.len();
        let mut line = serde_json::to_vec(&record).map_err(|e| failed(io::Error::other(e)))?;
        line.push(b'\n');
        if let Err(e) = self.file.write_all(&line) {
            // Cut off the incomplete line now and not at the next opening.
            let _ = self.file.set_len(before);
            return Err(failed(e));
        }
        self.records.insert(record.key.clone(), record);
        Ok(())
    }

    /// Makes sure that what was appended is on the disk.
    pub fn sync(&self) -> Result<(), LabError> {
        self.file.sync_all().map_err(|source| LabError::Write { path: self.path.clone(), source })
    }

    /// Writes another file of the result folder, whole or not at all.
    pub fn write(&self, name: &str, text: &[u8]) -> Result<PathBuf, LabError> {
        let path = self.folder.join(name);
        let new = self.folder.join(format!("{name}.new"));
        let write = |to: &Path| {
            let mut file = File::create(to)?;
            file.write_all(text)?;
            file.sync_all()
        };
        let done = write(&new).and_then(|()| fs::rename(&new, &path));
        done.map_err(|source| {
            let _ = fs::remove_file(&new);
            LabError::Write { path: path.clone(), source }
        })?;
        Ok(path)
    }
}

/// The folder for the results of the experiment with this `identity`: `base`, or, where that holds other results or
/// anything else, `base-2`, `base-3` and so on. The same experiment gets the same folder again.
pub fn folder_of(base: &Path, identity: &str) -> PathBuf {
    let numbered = |n: u32| {
        let mut name = base.as_os_str().to_owned();
        name.push(format!("-{n}"));
        PathBuf::from(name)
    };
    let mut folders = std::iter::once(base.to_path_buf()).chain((2..).map(numbered));
    let free = |folder: &PathBuf| match fs::read_to_string(folder.join(IDENTITY)) {
        Ok(text) => text.trim() == identity,
        Err(_) => !folder.exists() || fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none()),
    };
    folders.find(free).expect("there is always another number")
}

/// A folder is ours if it has a run store or is empty.
fn check_ours(folder: &Path) -> Result<(), LabError> {
    let entries = fs::read_dir(folder).map_err(|source| match source.kind() {
        io::ErrorKind::NotADirectory => LabError::Foreign { path: folder.to_path_buf(), example: "a file".into() },
        _ => LabError::Write { path: folder.to_path_buf(), source },
    })?;
    let mut names: Vec<String> = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    if names.iter().any(|n| n == RUNS) {
        return Ok(());
    }
    match names.into_iter().find(|n| n != LOCK) {
        None => Ok(()),
        Some(example) => Err(LabError::Foreign { path: folder.to_path_buf(), example }),
    }
}

fn lock(folder: &Path) -> Result<File, LabError> {
    let path = folder.join(LOCK);
    let failed = |source| LabError::Write { path: path.clone(), source };
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            let owner = if owner.trim().is_empty() { "unknown".into() } else { owner.trim().to_owned() };
            return Err(LabError::InUse { path: folder.to_path_buf(), owner });
        }
        Err(TryLockError::Error(e)) => return Err(failed(e)),
    }
    file.set_len(0).and_then(|()| file.write_all(format!("{}\n", std::process::id()).as_bytes())).map_err(failed)?;
    Ok(file)
}

/// The file that identifies the experiment.
pub const IDENTITY: &str = "experiment.id";
/// The file of finished runs.
pub const RUNS: &str = "runs.jsonl";
const LOCK: &str = "runs.lock";

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, replica: u32) -> Record {
        let result = RunResult {
            name: "test".into(),
            seed: 1,
            replica,
            sim_s: 1.0,
            wall_s: 0.1,
            events: 7,
            flows: Vec::new(),
            gateways: Vec::new(),
            links: Vec::new(),
            jain: None,
        };
        Record { key: key.into(), result, watched: None }
    }

    #[test]
    fn another_experiment_gets_another_folder() {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().join("sweep-x.y");
        let numbered = |n: u32| root.path().join(format!("sweep-x.y-{n}"));
        let take = |identity: &str| {
            let folder = folder_of(&base, identity);
            let store = Store::open(&folder).unwrap();
            store.write(IDENTITY, format!("{identity}\n").as_bytes()).unwrap();
            folder
        };
        assert_eq!(take("one"), base);
        assert_eq!(take("two"), numbered(2));
        assert_eq!([take("one"), take("two"), take("three")], [base.clone(), numbered(2), numbered(3)]);
        // Folders that are not ours are left alone, as are results without an identity.
        fs::remove_file(numbered(2).join(IDENTITY)).unwrap();
        assert_eq!(take("two"), numbered(4));
        fs::create_dir(numbered(5)).unwrap();
        assert_eq!(take("four"), numbered(5), "nothing is in it");
    }

    #[test]
    fn an_incomplete_last_line_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        for (i, key) in ["a", "b", "c"].into_iter().enumerate() {
            store.append(record(key, i as u32)).unwrap();
        }
        drop(store);
        let path = folder.path().join(RUNS);
        let text = fs::read(&path).unwrap();
        for cut in 1..=text.len() {
            fs::write(&path, &text[..cut]).unwrap();
            let complete = text[..cut].iter().filter(|b| **b == b'\n').count();
            let mut store = Store::open(folder.path()).unwrap();
            assert_eq!((store.len(), store.damaged), (complete, 0), "cut at {cut}");
            store.append(record("d", 9)).unwrap();
            drop(store);
            let store = Store::open(folder.path()).unwrap();
            assert_eq!(store.len(), complete + 1);
            assert_eq!(store.get("d"), Some(&record("d", 9)));
        }
    }

    #[test]
    fn a_damaged_line_is_counted_and_run_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        store.append(record("a", 0)).unwrap();
        store.append(record("b", 1)).unwrap();
        drop(store);
        let path = folder.path().join(RUNS);
        let text = fs::read_to_string(&path).unwrap().replacen("{\"key\":\"a\"", "{\"key\":a", 1);
        fs::write(&path, text).unwrap();
        let store = Store::open(folder.path()).unwrap();
        assert_eq!((store.len(), store.damaged), (1, 1));
        assert!(store.get("a").is_none());
    }

    #[test]
    fn a_second_process_learns_the_owner() {
        let folder = tempfile::tempdir().unwrap();
        let first = Store::open(folder.path()).unwrap();
        match Store::open(folder.path()) {
            Err(LabError::InUse { owner, .. }) => assert_eq!(owner, std::process::id().to_string()),
            other => panic!("{other:?}"),
        }
        drop(first);
        Store::open(folder.path()).unwrap();
    }

    #[test]
    fn foreign_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.tex"), "years of work").unwrap();
        match Store::open(folder.path()) {
            Err(LabError::Foreign { example, .. }) => assert_eq!(example, "thesis.tex"),
            other => panic!("{other:?}"),
        }
        let file = folder.path().join("thesis.tex");
        assert!(matches!(Store::open(&file), Err(LabError::Foreign { .. })));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
