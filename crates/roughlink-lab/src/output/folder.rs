//! Writing of a result folder.
//!
//! All files are first written into `.unfinished` within the folder, the manifest last. Then the folder is published:
//! - In an empty folder the files move up one by one, the manifest last.
//! - Existing results are replaced in a single step: `.unfinished` moves beside the folder and is exchanged with it;
//!   then the old files are removed. At any moment the folder contains the old or the new results.
//! - An exchange may be impossible: without support by the system, without permission to write beside the folder, at a
//!   mount point, or in the working directory. Then the old manifest moves into `.unfinished`, and the new files move
//!   up one by one, the manifest last. Meanwhile the folder has no manifest, and each new file is in one of the two
//!   places.
//!
//! The next writer cleans up after a killed process. An `.unfinished` with a manifest is complete and is published. An
//! incomplete one is removed, and so are old results left beside the folder.
//!
//! Before anything is removed or replaced, its ownership is checked: a marker or manifest proves it for `.unfinished`,
//! and an entry in a manifest for results. Links are not followed ([`crate::disk`]).
//!
//! The folder is locked, and so is the marker for systems that cannot lock folders. Locks end with their process.

use super::{FileEntry, MANIFEST, OutputError, is_result};
use crate::disk::{self, EntryKind, OpenFolder};
use crate::store::REPORT;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Result folder while it is written. Removes `.unfinished` when dropped, unless it is complete.
#[derive(Debug)]
pub(super) struct Draft {
    dir: OpenFolder,
    unfinished: OpenFolder,
    /// True if this run created the folder.
    made: bool,
    complete: bool,
    files: Vec<FileEntry>,
    _marker: Option<disk::OutputFile>,
}

impl Draft {
    /// Starts to write into `path`, which must be absent or empty; with `force` it may contain results only.
    pub(super) fn begin(path: &Path, force: bool) -> Result<Self, OutputError> {
        let made = !path.exists();
        let open = || -> Result<OpenFolder, OutputError> {
            let dir = OpenFolder::make(path).map_err(write_error(path))?;
            locked(&dir, dir.lock())?;
            Ok(dir)
        };
        let mut dir = open()?;
        if settle(&dir)? {
            drop(dir); // also releases its lock
            dir = open()?; // an exchange replaced the folder
        }
        let entries = held(&dir)?;
        if !entries.is_empty() {
            if !force {
                return Err(OutputError::Exists(path.to_owned()));
            }
            check_results(&dir, &entries, &[listed(&dir, MANIFEST)])?;
        }
        let unfinished = dir.make_inside(UNFINISHED).map_err(write_error(&path.join(UNFINISHED)))?;
        let failed = write_error(&unfinished.path().join(MARKER));
        // After an exchange, this is the published folder, which must stay locked.
        locked(&dir, unfinished.lock())?;
        let marker = || {
            let mut marker = unfinished.create(MARKER)?;
            marker.write_all(format!("{MARK}process {}\n", std::process::id()).as_bytes())?;
            marker.lock()?;
            Ok(marker)
        };
        let marker = marker();
        let draft = |marker| Draft { dir, unfinished, made, complete: false, files: Vec::new(), _marker: marker };
        match marker {
            Ok(marker) => Ok(draft(Some(marker))),
            Err(source) => {
                drop(draft(None)); // cleans up
                Err(failed(source))
            }
        }
    }

    pub(super) fn create(&self, name: &str) -> Result<HashedFile, OutputError> {
        let path = self.unfinished.path().join(name);
        let file = self.unfinished.create(name).map_err(write_error(&path))?;
        let out = BufWriter::with_capacity(1 << 16, file);
        Ok(HashedFile { name: name.to_owned(), path, out, hash: Sha256::new(), bytes: 0 })
    }

    pub(super) fn keep(&mut self, file: HashedFile) -> Result<(), OutputError> {
        self.files.push(file.close()?);
        Ok(())
    }

    pub(super) fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), OutputError> {
        let mut file = self.create(name)?;
        file.write_all(bytes).map_err(write_error(&file.path))?;
        self.keep(file)
    }

    pub(super) fn files(&self) -> Vec<FileEntry> {
        self.files.clone()
    }

    /// Writes the manifest and publishes the folder.
    pub(super) fn finish(mut self, manifest: &[u8]) -> Result<(), OutputError> {
        // Write under a temporary name first, so that an existing manifest is always complete.
        self.write(MANIFEST_PART, manifest)?;
        let failed = |source| OutputError::Write { path: self.unfinished.path().join(MANIFEST), source };
        self.unfinished.sync().map_err(failed)?;
        self.unfinished.rename(MANIFEST_PART, &self.unfinished, MANIFEST).map_err(failed)?;
        self.complete = true;
        self.unfinished.sync().map_err(failed)?;
        publish(&self.dir, &self.unfinished)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Files that cannot be removed stay in `.unfinished` and do no harm. A complete set is never removed.
        if !self.complete && clear(&self.unfinished, in_draft, &self.dir, UNFINISHED).is_ok() && self.made {
            let _ = std::fs::remove_dir(self.dir.path()); // fails if the folder is not empty
        }
    }
}

/// Completes or removes results of a killed process in `dir`; returns true if results were published.
fn settle(dir: &OpenFolder) -> Result<bool, OutputError> {
    let failed = |source| OutputError::Write { path: dir.path().join(UNFINISHED), source };
    let foreign = |found: &str| OutputError::Foreign { dir: dir.path().to_owned(), found: found.to_owned() };
    match dir.kind(UNFINISHED).map_err(failed)? {
        None => {}
        Some(EntryKind::Folder) => {
            let unfinished = dir.inside(UNFINISHED).map_err(failed)?;
            locked(dir, unfinished.lock())?;
            if !is_draft(&unfinished)? {
                return Err(foreign(UNFINISHED));
            }
            let marker = unfinished.kind(MARKER).map_err(failed)?.map(|_| unfinished.append(MARKER));
            let marker = marker.transpose().map_err(failed)?;
            locked(dir, marker.as_ref().map_or(Ok(true), disk::OutputFile::lock))?;
            if listed(&unfinished, MANIFEST).is_some() {
                publish(dir, &unfinished)?;
                return Ok(true);
            }
            clear(&unfinished, in_draft, dir, UNFINISHED).map_err(failed)?;
        }
        Some(_) => return Err(foreign(UNFINISHED)),
    }
    let Some((parent, name)) = dir.place() else { return Ok(false) };
    let beside = beside(&name);
    let Ok(old) = parent.inside(&beside) else { return Ok(false) };
    let held = held(&old)?;
    if held.is_empty() || check_results(&old, &held, &[listed(&old, MANIFEST)]).is_ok() {
        clear(&old, |n| replaced(&held, n), &parent, &beside).map_err(write_error(old.path()))?;
    }
    Ok(false)
}

/// Completes an interrupted replacement in the folder at `path`, unless another process is working there.
pub(crate) fn recover(path: &Path) {
    let complete = |dir: &OpenFolder| dir.inside(UNFINISHED).is_ok_and(|u| listed(&u, MANIFEST).is_some());
    if let Ok(dir) = OpenFolder::open(path)
        && complete(&dir)
        && dir.lock().unwrap_or(false)
    {
        let _ = settle(&dir); // on failure the reader reports the missing results
    }
}

/// Replaces the results in `dir` with those in `unfinished`.
fn publish(dir: &OpenFolder, unfinished: &OpenFolder) -> Result<(), OutputError> {
    let held = held(dir)?;
    let new = listed(unfinished, MANIFEST).unwrap_or_default();
    let left = names(unfinished)?;
    // Files were already moved, so the folder may contain files of both runs.
    let moving = left.iter().any(|n| n == REPLACED) || new.iter().any(|n| !left.contains(n));
    if !held.is_empty() {
        let new = if moving { Some(new.clone()) } else { None };
        check_results(dir, &held, &[listed(dir, MANIFEST), listed(unfinished, REPLACED), new])?;
        if !moving && exchange(dir, unfinished, &held)? {
            return Ok(());
        }
    }
    move_up(dir, unfinished, &held, &new)
}

/// Atomically exchanges `dir` and `unfinished` and removes the old folder; returns false if this is not possible.
fn exchange(dir: &OpenFolder, unfinished: &OpenFolder, held: &[String]) -> Result<bool, OutputError> {
    let Some((parent, name)) = dir.place() else { return Ok(false) };
    let beside = beside(&name);
    let marker = unfinished.kind(MARKER).and_then(|m| m.map_or(Ok(()), |_| unfinished.remove(MARKER)));
    let moved = marker.and_then(|()| {
        dir.share_permissions(unfinished)?;
        dir.rename(UNFINISHED, &parent, &beside)
    });
    if moved.is_err() {
        return Ok(false);
    }
    if parent.exchange(&beside, &name).is_err() {
        parent.rename(&beside, dir, UNFINISHED).map_err(write_error(dir.path()))?;
        return Ok(false);
    }
    // The new results are published. Old ones that cannot be removed are left to the next run.
    let _ = parent.sync();
    let _ = clear(dir, |n| replaced(held, n), &parent, &beside);
    Ok(true)
}

fn move_up(dir: &OpenFolder, unfinished: &OpenFolder, held: &[String], new: &FileNames) -> Result<(), OutputError> {
    let at = |name: &str| write_error(&dir.path().join(name));
    if held.iter().any(|n| n == MANIFEST) {
        dir.rename(MANIFEST, unfinished, REPLACED).map_err(at(MANIFEST))?;
    }
    for name in held.iter().filter(|n| *n != MANIFEST && !new.contains(*n)) {
        dir.remove(name).map_err(at(name))?;
    }
    for name in names(unfinished)?.iter().filter(|n| new.contains(*n)) {
        unfinished.rename(name, dir, name).map_err(at(name))?;
    }
    dir.sync().map_err(at(""))?;
    unfinished.rename(MANIFEST, dir, MANIFEST).map_err(at(MANIFEST))?;
    let _ = dir.sync();
    let _ = clear(unfinished, in_draft, dir, UNFINISHED);
    Ok(())
}

/// Removes the files of `folder` that are `mine`, those that prove ownership last. Then removes `folder`, the entry
/// `name` of `parent`, which fails if it contains anything else.
fn clear(folder: &OpenFolder, mine: impl Fn(&str) -> bool, parent: &OpenFolder, name: &str) -> io::Result<()> {
    let (last, first): (Vec<_>, Vec<_>) =
        folder.names()?.into_iter().filter(|n| mine(n)).partition(|n| [MANIFEST, MARKER].contains(&n.as_str()));
    first.iter().chain(&last).try_for_each(|n| folder.remove(n))?;
    parent.remove_folder(name)
}

/// Returns true if a file of this name belongs to the replaced results `held`.
fn replaced(held: &[String], name: &str) -> bool {
    disk::is_leftover(name) || held.iter().any(|n| n == name)
}

fn in_draft(name: &str) -> bool {
    is_result(name) || [MARKER, MANIFEST_PART, REPLACED].contains(&name)
}

/// Returns true if `folder` is a draft of roughlink's: it has a marker or, once the marker is removed, a manifest.
fn is_draft(folder: &OpenFolder) -> Result<bool, OutputError> {
    let names = names(folder)?;
    let marker = match folder.read(MARKER) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => None,
        marker => Some(marker.unwrap_or_default()),
    };
    // The process may have been killed before it wrote the marker.
    let begun = |m: &Vec<u8>| MARK.as_bytes().starts_with(m) && names.iter().all(|n| n == MARKER);
    let ours = marker.is_some_and(|m| begun(&m) || m.starts_with(MARK.as_bytes()));
    if !ours && [MANIFEST, REPLACED].iter().all(|n| listed(folder, n).is_none()) {
        return Ok(false);
    }
    let file = |n: &str| matches!(folder.kind(n), Ok(Some(EntryKind::File)));
    match names.into_iter().find(|n| !in_draft(n) || !file(n)) {
        Some(found) => Err(OutputError::Foreign { dir: folder.path().to_owned(), found }),
        None => Ok(true),
    }
}

/// Checks that all files `held` in `dir` are results: a report, or listed in a manifest of any version of the program.
fn check_results(dir: &OpenFolder, held: &[String], manifests: &[Option<FileNames>]) -> Result<(), OutputError> {
    let known = manifests.iter().any(Option::is_some);
    let listed =
        |n: &String| manifests.iter().flatten().any(|m| m.contains(n)) || [MANIFEST, REPORT].contains(&n.as_str());
    let file = |n: &str| matches!(dir.kind(n), Ok(Some(EntryKind::File)));
    match held.iter().find(|n| !(known && listed(n) && file(n))) {
        Some(found) => Err(OutputError::Foreign { dir: dir.path().to_owned(), found: found.clone() }),
        None => Ok(()),
    }
}

/// Returns the files that the manifest `name` lists; `None` if it is not a manifest of roughlink's.
fn listed(folder: &OpenFolder, name: &str) -> Option<FileNames> {
    /// Members that manifests of all versions have.
    #[derive(Deserialize)]
    struct ManifestHeader {
        #[serde(rename = "roughlink")]
        _version: String,
        files: Vec<AnyFile>,
    }
    #[derive(Deserialize)]
    struct AnyFile {
        name: String,
    }
    let manifest: ManifestHeader = serde_json::from_slice(&folder.read(name).ok()?).ok()?;
    Some(manifest.files.into_iter().map(|f| f.name).collect())
}

type FileNames = BTreeSet<String>;

/// Returns the entries of `dir` except drafts.
fn held(dir: &OpenFolder) -> Result<Vec<String>, OutputError> {
    let draft = |n: &str| n == UNFINISHED || disk::is_leftover(n);
    Ok(names(dir)?.into_iter().filter(|n| !draft(n)).collect())
}

fn names(folder: &OpenFolder) -> Result<Vec<String>, OutputError> {
    folder.names().map_err(|source| OutputError::Read { path: folder.path().to_owned(), source })
}

/// Converts the outcome of locking to an error if another process holds the lock.
pub(super) fn locked(dir: &OpenFolder, free: io::Result<bool>) -> Result<(), OutputError> {
    match free {
        Ok(true) => Ok(()),
        Ok(false) => Err(OutputError::Busy(dir.path().to_owned())),
        Err(source) => Err(OutputError::Write { path: dir.path().to_owned(), source }),
    }
}

#[derive(Debug)]
pub(super) struct HashedFile {
    name: String,
    path: PathBuf,
    out: BufWriter<disk::OutputFile>,
    hash: Sha256,
    bytes: u64,
}

impl HashedFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the file to disk.
    fn close(mut self) -> Result<FileEntry, OutputError> {
        let done = self.out.flush().and_then(|()| self.out.get_ref().sync());
        done.map_err(write_error(&self.path))?;
        Ok(FileEntry { name: self.name, bytes: self.bytes, sha256: hex(&self.hash.finalize()) })
    }
}

impl Write for HashedFile {
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

/// Returns size and SHA-256 of the file at `path`.
pub(super) fn measure(path: &Path) -> io::Result<(u64, String)> {
    let mut hash = Sha256::new();
    let bytes = io::copy(&mut disk::reader(path)?, &mut Hashing(&mut hash))?;
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

pub(super) fn write_error(path: &Path) -> impl FnOnce(io::Error) -> OutputError + use<> {
    let path = path.to_owned();
    move |source| OutputError::Write { path, source }
}

/// Returns the name, beside the folder `name`, of the new folder before an exchange and of the old one after it.
fn beside(name: &str) -> String {
    format!(".{name}.replaced")
}

const UNFINISHED: &str = ".unfinished";
const MARKER: &str = ".lock";
/// Prefix of the marker's content.
const MARK: &str = "roughlink ";
const MANIFEST_PART: &str = "manifest.part";
/// Manifest of the old results while they are replaced one by one.
const REPLACED: &str = "replaced.json";
