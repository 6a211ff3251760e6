//! A result folder while it is written.
//!
//! Everything is first written into `.unfinished` within the folder. When all of it is on disk, the
//! manifest as the last, the files move up one by one, the manifest again as the last. So at any instant
//! - a folder with a manifest is complete, and holds the results of one run;
//! - a folder whose `.unfinished` has a manifest was interrupted while files moved: the next writer moves the rest, so
//!   that no complete result is lost;
//! - any other `.unfinished` is left from an interrupted run, and the next writer removes it.
//!
//! A lock that ends with its process distinguishes an interrupted run from one in progress.

use super::{FileEntry, MANIFEST, Manifest, OutputError, is_result};
use sha2::{Digest as _, Sha256};
use std::fs::{self, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A result folder being written; removed again unless it is finished.
#[derive(Debug)]
pub(super) struct Draft {
    dir: PathBuf,
    unfinished: PathBuf,
    /// The folder itself was created for this run.
    made: bool,
    files: Vec<FileEntry>,
    _lock: fs::File,
}

impl Draft {
    /// Begins to write into `dir`, which must be absent or empty, or hold nothing but results if `force`.
    pub(super) fn begin(dir: &Path, force: bool) -> Result<Self, OutputError> {
        let made = !dir.exists();
        let unfinished = dir.join(UNFINISHED);
        fs::create_dir_all(&unfinished).map_err(write_error(dir))?;
        let path = unfinished.join(LOCK);
        let lock = fs::File::create(&path).map_err(write_error(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OutputError::Busy(dir.to_owned())),
            Err(TryLockError::Error(source)) => return Err(OutputError::Write { path, source }),
        }
        let draft = Draft { dir: dir.to_owned(), unfinished, made, files: Vec::new(), _lock: lock };
        if draft.unfinished.join(MANIFEST).exists() {
            draft.move_up()?;
        }
        for stale in names(&draft.unfinished)?.iter().filter(|n| *n != LOCK) {
            let path = draft.unfinished.join(stale);
            fs::remove_file(&path).map_err(write_error(&path))?;
        }
        let held: Vec<_> = names(dir)?.into_iter().filter(|n| n != UNFINISHED).collect();
        if !held.is_empty() && !force {
            return Err(OutputError::Exists(dir.to_owned()));
        }
        match held.into_iter().find(|n| !is_result(n)) {
            Some(found) => Err(OutputError::Foreign { dir: dir.to_owned(), found }),
            None => Ok(draft),
        }
    }

    /// Begins the file `name`.
    pub(super) fn create(&self, name: &str) -> Result<File, OutputError> {
        let path = self.unfinished.join(name);
        let file = fs::File::create_new(&path).map_err(write_error(&path))?;
        let out = BufWriter::with_capacity(1 << 16, file);
        Ok(File { name: name.to_owned(), path, out, hash: Sha256::new(), bytes: 0 })
    }

    /// Adds a complete file.
    pub(super) fn keep(&mut self, file: File) -> Result<(), OutputError> {
        self.files.push(file.close()?);
        Ok(())
    }

    /// Writes a whole file.
    pub(super) fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), OutputError> {
        let mut file = self.create(name)?;
        file.write_all(bytes).map_err(write_error(&file.path))?;
        self.keep(file)
    }

    /// The files added so far.
    pub(super) fn files(&self) -> Vec<FileEntry> {
        self.files.clone()
    }

    /// Writes the manifest and moves all files into place.
    pub(super) fn finish(mut self, manifest: &[u8]) -> Result<(), OutputError> {
        // Under another name first, so that an existing manifest is always complete.
        self.write(MANIFEST_PART, manifest)?;
        let (part, path) = (self.unfinished.join(MANIFEST_PART), self.unfinished.join(MANIFEST));
        sync(&self.unfinished);
        fs::rename(part, &path).map_err(write_error(&path))?;
        sync(&self.unfinished);
        self.move_up()
    }

    /// Moves the complete files of `.unfinished` into the folder, where they replace those of the same name.
    fn move_up(&self) -> Result<(), OutputError> {
        let absent = |e: &io::Error| e.kind() == ErrorKind::NotFound;
        let manifest = Manifest::load(&self.unfinished.join(MANIFEST))?;
        // The old manifest goes first and the new one comes last: in between nothing looks complete. Files that this
        // run did not write are removed.
        let written = |name: &str| manifest.files.iter().any(|f| f.name == name);
        let outdated = names(&self.dir)?.into_iter().filter(|n| n != MANIFEST && is_result(n) && !written(n));
        for name in std::iter::once(MANIFEST.to_owned()).chain(outdated) {
            let path = self.dir.join(name);
            if let Err(source) = fs::remove_file(&path)
                && !absent(&source)
            {
                return Err(OutputError::Write { path, source });
            }
        }
        // Missing files were moved before an interruption.
        for name in manifest.files.iter().map(|f| f.name.as_str()).filter(|n| is_result(n)).chain([MANIFEST]) {
            let (from, to) = (self.unfinished.join(name), self.dir.join(name));
            if let Err(source) = fs::rename(from, &to)
                && !absent(&source)
            {
                return Err(OutputError::Write { path: to, source });
            }
        }
        sync(&self.dir);
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // What cannot be removed stays in `.unfinished` and does no harm. A complete set is never removed.
        if !self.unfinished.join(MANIFEST).exists() && fs::remove_dir_all(&self.unfinished).is_ok() && self.made {
            let _ = fs::remove_dir(&self.dir); // fails if the folder is not empty
        }
    }
}

/// A file being written, with its hash.
#[derive(Debug)]
pub(super) struct File {
    name: String,
    path: PathBuf,
    out: BufWriter<fs::File>,
    hash: Sha256,
    bytes: u64,
}

impl File {
    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the file to disk.
    fn close(mut self) -> Result<FileEntry, OutputError> {
        let done = self.out.flush().and_then(|()| self.out.get_ref().sync_all());
        done.map_err(write_error(&self.path))?;
        Ok(FileEntry { name: self.name, bytes: self.bytes, sha256: hex(&self.hash.finalize()) })
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.hash.update(&bytes[..n]);
        self.bytes += n as u64;
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Size and SHA-256 of the file at `path`.
pub(super) fn measure(path: &Path) -> io::Result<(u64, String)> {
    let mut hash = Sha256::new();
    let bytes = io::copy(&mut fs::File::open(path)?, &mut Hashing(&mut hash))?;
    Ok((bytes, hex(&hash.finalize())))
}

struct Hashing<'a>(&'a mut Sha256);

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Names of what is in the folder `dir`, sorted.
fn names(dir: &Path) -> Result<Vec<String>, OutputError> {
    let read = || -> io::Result<Vec<String>> {
        fs::read_dir(dir)?.map(|e| Ok(e?.file_name().to_string_lossy().into_owned())).collect()
    };
    let mut names = read().map_err(|source| OutputError::Read { path: dir.to_owned(), source })?;
    names.sort();
    Ok(names)
}

/// Syncs renames within `dir` to disk, where the system supports it.
fn sync(dir: &Path) {
    if let Ok(dir) = fs::File::open(dir) {
        let _ = dir.sync_all();
    }
}

pub(super) fn write_error(path: &Path) -> impl FnOnce(io::Error) -> OutputError {
    let path = path.to_owned();
    move |source| OutputError::Write { path, source }
}

const UNFINISHED: &str = ".unfinished";
const LOCK: &str = ".lock";
const MANIFEST_PART: &str = "manifest.part";
