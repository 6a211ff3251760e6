//! Files that grow during an emulation, so that a crash does not lose earlier data. The first write error ends the
//! emulation, which would otherwise run to its end without complete results; earlier data stays.

use super::OutputError;
use super::folder::write_error;
use crate::disk::OutputFile;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// All growing files of an emulation, and their first write error.
#[derive(Debug, Default)]
pub struct GrowingFiles {
    failed: OnceLock<(PathBuf, io::Error)>,
    created: Mutex<Vec<Arc<(PathBuf, OutputFile)>>>,
}

/// Unbuffered writer of a file. Clones append at the same position.
#[derive(Clone, Debug)]
pub struct GrowingFile {
    file: Arc<(PathBuf, OutputFile)>,
    files: Arc<GrowingFiles>,
}

impl GrowingFiles {
    /// Creates a file, which must not exist.
    ///
    /// # Errors
    /// Returns [`OutputError::Write`] if the file exists or cannot be created.
    pub fn create(self: &Arc<Self>, path: &Path) -> Result<GrowingFile, OutputError> {
        self.add(path.to_owned(), OutputFile::create_new(path))
    }

    pub(super) fn add(
        self: &Arc<Self>,
        path: PathBuf,
        file: io::Result<OutputFile>,
    ) -> Result<GrowingFile, OutputError> {
        let file = file.map_err(write_error(&path))?;
        let file = Arc::new((path, file));
        self.created().push(Arc::clone(&file));
        Ok(GrowingFile { file, files: Arc::clone(self) })
    }

    /// Returns true after a write error.
    pub fn have_failed(&self) -> bool {
        self.failed.get().is_some()
    }

    /// Returns the first write error, or else an error if a file was removed or replaced.
    pub fn failure(&self) -> Option<OutputError> {
        if let Some((path, e)) = self.failed.get() {
            return Some(write_error(path)(copy(e)));
        }
        self.for_each(OutputFile::check_path).err()
    }

    /// Syncs the files in `folder` to disk.
    pub(super) fn sync(&self, folder: &Path) -> Result<(), OutputError> {
        self.for_each(|file, path| if path.starts_with(folder) { file.sync() } else { Ok(()) })
    }

    fn for_each(&self, check: impl Fn(&OutputFile, &Path) -> io::Result<()>) -> Result<(), OutputError> {
        self.created().iter().try_for_each(|file| check(&file.1, &file.0).map_err(write_error(&file.0)))
    }

    fn created(&self) -> MutexGuard<'_, Vec<Arc<(PathBuf, OutputFile)>>> {
        self.created.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GrowingFile {
    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.file.0
    }
}

impl Write for GrowingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (path, file) = &*self.file;
        file.append(bytes).inspect_err(|e| {
            if e.kind() != ErrorKind::Interrupted {
                let _ = self.files.failed.set((path.clone(), copy(e)));
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn copy(e: &io::Error) -> io::Error {
    e.raw_os_error().map_or_else(|| e.kind().into(), io::Error::from_raw_os_error)
}
