//! Files written during an emulation, so that a crash does not lose earlier data. The first write error ends the
//! emulation, which would otherwise run to its end without complete results; earlier data stays.

use crate::failure::Failure;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

#[derive(Debug, Default)]
pub(super) struct Files {
    failed: OnceLock<(PathBuf, io::Error)>,
    /// Path, device number and inode number of each created file.
    made: Mutex<Vec<(PathBuf, (u64, u64))>>,
}

/// Unbuffered writer of a file.
#[derive(Debug)]
pub(super) struct TrackedFile {
    path: PathBuf,
    file: File,
    files: Arc<Files>,
}

impl Files {
    /// Creates a file, which must not exist.
    pub(super) fn create(self: &Arc<Self>, path: &Path) -> Result<TrackedFile, Failure> {
        let file = File::create_new(path).and_then(|file| {
            let id = id(&file.metadata()?);
            Ok((file, id))
        });
        let (file, id) = file.map_err(|e| unwritten(path, &e))?;
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push((path.to_owned(), id));
        Ok(TrackedFile { path: path.to_owned(), file, files: Arc::clone(self) })
    }

    pub(super) fn have_failed(&self) -> bool {
        self.failed.get().is_some()
    }

    /// Returns the failure if a file could not be written, or was removed or replaced.
    pub(super) fn failure(&self) -> Option<Failure> {
        if let Some((path, e)) = self.failed.get() {
            return Some(unwritten(path, e));
        }
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.iter().find_map(|(path, was)| match fs::symlink_metadata(path) {
            Ok(is) if id(&is) == *was => None,
            Ok(_) => Some(unwritten(path, &io::Error::other("another file has replaced it"))),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                Some(unwritten(path, &io::Error::other("the file was removed")))
            }
            Err(e) => Some(unwritten(path, &e)),
        })
    }
}

impl TrackedFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns another writer for the same file. Both append at the same position.
    pub(super) fn try_clone(&self) -> Result<TrackedFile, Failure> {
        let file = self.file.try_clone().map_err(|e| unwritten(&self.path, &e))?;
        Ok(TrackedFile { path: self.path.clone(), file, files: Arc::clone(&self.files) })
    }
}

impl Write for TrackedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).inspect_err(|e| {
            if e.kind() != ErrorKind::Interrupted {
                let copy = e.raw_os_error().map_or_else(|| e.kind().into(), io::Error::from_raw_os_error);
                let _ = self.files.failed.set((self.path.clone(), copy));
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn id(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

pub(super) fn unwritten(path: &Path, e: &io::Error) -> Failure {
    let help = match e.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some disk space; data written so far is kept",
        ErrorKind::AlreadyExists => "name another path; existing files are not replaced",
        _ => "name a path that can be written to",
    };
    Failure::Machine(format!("cannot write {}: {e}", path.display()), Some(help))
}
