//! Folders of results on disk.
//!
//! Users with write access to a result folder can create symbolic links to files of other users, FIFOs or devices under
//! the program's file names. Therefore a folder is kept open, and its files are accessed through this handle by plain
//! names. Links are never followed, only regular files are opened, and renaming a complete file replaces an existing
//! one. The user chooses the path of the folder, which may contain links. All changes on disk are made here, so tests
//! can make each of them fail (`faults`).

#[cfg(test)]
pub(crate) mod faults;
#[cfg(not(unix))]
mod other;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
use other as system;
#[cfg(unix)]
use unix as system;

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Component, Path, PathBuf};
use system::Handle;

#[cfg(not(test))]
mod faults {
    use std::fs::File;
    use std::io::{self, Write as _};

    pub(super) const SYNC: bool = true;

    pub(super) fn step() -> io::Result<()> {
        Ok(())
    }
    pub(super) fn write(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Folder,
    /// A link, FIFO, device or anything else.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    /// A new file, for appending.
    New,
    /// A new or an existing file, for reading and appending.
    Append,
}

#[derive(Debug)]
pub(crate) struct OpenFolder {
    path: PathBuf,
    handle: Handle,
}

impl OpenFolder {
    /// Opens the folder at `path`, which may contain links.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(OpenFolder { path: path.to_owned(), handle: system::open(path)? })
    }

    /// Opens the folder at `path`, creating it and its parents if necessary.
    pub(crate) fn make(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        OpenFolder::open(path)
    }

    /// Opens the parent folder of the file at `path`, and returns it with the name of the file.
    pub(crate) fn open_parent(path: &Path) -> io::Result<(Self, String)> {
        let name = path.file_name().and_then(OsStr::to_str).ok_or_else(|| refused("it is not a file name"))?;
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok((OpenFolder::open(parent)?, name.to_owned()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn inside(&self, name: &str) -> io::Result<Self> {
        Ok(OpenFolder { path: self.path.join(name), handle: system::inside(&self.handle, plain(name)?)? })
    }

    pub(crate) fn make_inside(&self, name: &str) -> io::Result<Self> {
        faults::step()?;
        system::make(&self.handle, plain(name)?)?;
        self.inside(name)
    }

    /// Returns the sorted names of the folder's entries.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = system::names(&self.handle)?;
        names.sort();
        Ok(names)
    }

    pub(crate) fn kind(&self, name: &str) -> io::Result<Option<EntryKind>> {
        match system::kind(&self.handle, plain(name)?) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            kind => kind.map(Some),
        }
    }

    fn file(&self, name: &str, access: Access) -> io::Result<OutputFile> {
        if access != Access::Read {
            faults::step()?;
        }
        let name = plain(name)?;
        let file = match system::file(&self.handle, name, access) {
            Err(_) if matches!(system::kind(&self.handle, name), Ok(EntryKind::Other)) => {
                return Err(refused("it is a link or a device, not a regular file"));
            }
            file => file?,
        };
        regular(&file.metadata()?)?;
        Ok(OutputFile(file))
    }

    pub(crate) fn reader(&self, name: &str) -> io::Result<fs::File> {
        self.file(name, Access::Read).map(|f| f.0)
    }

    /// Returns the content of the file `name`, at most [`MAX_WHOLE_SIZE`] bytes.
    pub(crate) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let larger = || io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {MAX_WHOLE_SIZE} bytes"));
        read_at_most(self.reader(name)?, MAX_WHOLE_SIZE)?.ok_or_else(larger)
    }

    /// Creates the file `name`, which must not exist.
    pub(crate) fn create(&self, name: &str) -> io::Result<OutputFile> {
        self.file(name, Access::New)
    }

    /// Opens the file `name` for reading and appending, creating it if necessary.
    pub(crate) fn append(&self, name: &str) -> io::Result<OutputFile> {
        self.file(name, Access::Append)
    }

    /// Creates the file `name`, which must not exist. The name appears once the file is complete; without hard links,
    /// the file is written in place.
    pub(crate) fn create_whole(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let draft = draft(name);
        let written = self.write_draft(&draft, |file| file.write_all(bytes));
        let named = written.and_then(|_| match fs::hard_link(self.path.join(&draft), self.path.join(name)) {
            // Some file systems have no hard links.
            Err(e) if e.kind() != ErrorKind::AlreadyExists => self.create(name)?.write_all(bytes),
            linked => linked,
        });
        let _ = self.remove(&draft);
        named
    }

    /// Atomically replaces or creates the file `name` and returns it open.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<OutputFile> {
        self.replace_with(name, |file| file.write_all(bytes))
    }

    /// Like [`OpenFolder::replace`], with the content that `write` writes.
    pub(crate) fn replace_with(
        &self,
        name: &str,
        write: impl FnOnce(&mut OutputFile) -> io::Result<()>,
    ) -> io::Result<OutputFile> {
        let new = draft(name);
        let done = self.write_draft(&new, write).and_then(|file| self.rename(&new, self, name).map(|()| file));
        match done {
            Ok(file) => self.sync().map(|()| file),
            Err(e) => {
                let _ = self.remove(&new);
                Err(e)
            }
        }
    }

    /// Writes a draft, and first removes one that a killed process left.
    fn write_draft(&self, name: &str, write: impl FnOnce(&mut OutputFile) -> io::Result<()>) -> io::Result<OutputFile> {
        if self.kind(name)?.is_some() {
            self.remove(name)?;
        }
        let mut file = self.create(name)?;
        write(&mut file)?;
        file.sync()?;
        Ok(file)
    }

    /// Renames `from` to `to` in the folder `there`, replacing an existing file.
    pub(crate) fn rename(&self, from: &str, there: &OpenFolder, to: &str) -> io::Result<()> {
        faults::step()?;
        system::rename(&self.handle, plain(from)?, &there.handle, plain(to)?)
    }

    /// Exchanges the entries `a` and `b` atomically.
    pub(crate) fn exchange(&self, a: &str, b: &str) -> io::Result<()> {
        faults::step()?;
        system::exchange(&self.handle, plain(a)?, plain(b)?)
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        faults::step()?;
        system::remove(&self.handle, plain(name)?)
    }

    /// Removes the empty folder `name`.
    pub(crate) fn remove_folder(&self, name: &str) -> io::Result<()> {
        faults::step()?;
        system::remove_folder(&self.handle, plain(name)?)
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        faults::step()?;
        if faults::SYNC { system::sync(&self.handle) } else { Ok(()) }
    }

    /// Locks the folder while it is open; returns false if another process holds the lock. Unlike the lock of a file,
    /// it cannot be evaded by deleting and recreating the file. Does nothing on systems that cannot lock folders.
    pub(crate) fn lock(&self) -> io::Result<bool> {
        system::lock(&self.handle)
    }

    /// Returns true if `name` still refers to `file`.
    pub(crate) fn has(&self, name: &str, file: &OutputFile) -> io::Result<bool> {
        match system::has(&self.handle, plain(name)?, &file.0) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            has => has,
        }
    }

    /// Gives the folder `inside` the permissions of this one.
    pub(crate) fn share_permissions(&self, inside: &OpenFolder) -> io::Result<()> {
        system::share_permissions(&self.handle, &inside.handle)
    }

    /// Returns the parent folder and the name of this folder in it. Returns `None` if they cannot be determined, or for
    /// the working directory, which must stay the same folder for the user's shell.
    pub(crate) fn place(&self) -> Option<(OpenFolder, String)> {
        let (parent, name) = OpenFolder::open_parent(&self.path.canonicalize().ok()?).ok()?;
        let here = system::same(&parent.inside(&name).ok()?.handle, &self.handle).ok()?;
        let works_here = system::same(&OpenFolder::open(Path::new(".")).ok()?.handle, &self.handle).ok()?;
        (here && !works_here).then_some((parent, name))
    }
}

#[derive(Debug)]
pub(crate) struct OutputFile(fs::File);

impl OutputFile {
    /// Creates the file at `path`, which must not exist.
    pub(crate) fn create_new(path: &Path) -> io::Result<Self> {
        faults::step()?;
        fs::File::options().append(true).create_new(true).open(path).map(OutputFile)
    }

    /// Appends bytes and returns how many were written. All files are open for appending.
    pub(crate) fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        faults::write(&self.0, bytes)
    }

    /// Fails if `path` no longer refers to this file.
    pub(crate) fn check_path(&self, path: &Path) -> io::Result<()> {
        match fs::symlink_metadata(path) {
            Ok(found) if system::id(&found) == system::id(&self.0.metadata()?) => Ok(()),
            Ok(_) => Err(io::Error::other("another file has replaced it")),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(io::Error::other("the file was removed")),
            Err(e) => Err(e),
        }
    }

    /// Returns the file for reading.
    pub(crate) fn reader(&self) -> &fs::File {
        &self.0
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> io::Result<u64> {
        self.0.metadata().map(|m| m.len())
    }

    /// Truncates the file to `size` bytes.
    pub(crate) fn cut(&self, size: u64) -> io::Result<()> {
        faults::step()?;
        self.0.set_len(size)
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        faults::step()?;
        if faults::SYNC { self.0.sync_all() } else { Ok(()) }
    }

    /// Locks the file while it is open; returns false if another process holds the lock.
    pub(crate) fn lock(&self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(e)) => Err(e),
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Opens the regular file at `path` for reading.
pub(crate) fn reader(path: &Path) -> io::Result<fs::File> {
    let (folder, name) = OpenFolder::open_parent(path)?;
    folder.reader(&name)
}

/// Creates the file at `path` like [`OpenFolder::create_whole`].
pub(crate) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (folder, name) = OpenFolder::open_parent(path)?;
    folder.create_whole(&name, bytes)
}

/// Opens the regular file at `path` below `folder` for reading. Follows no links below `folder`.
pub(crate) fn reader_below(folder: &Path, path: &Path) -> io::Result<fs::File> {
    let mut folder = OpenFolder::open(folder)?;
    let names: Option<Vec<&str>> = path.iter().map(OsStr::to_str).collect();
    let names = names.ok_or_else(|| refused("its name is not UTF-8"))?;
    let (last, parents) = names.split_last().ok_or_else(|| refused("it is a folder"))?;
    for name in parents {
        folder = folder.inside(name)?;
    }
    folder.reader(last)
}

/// Fills `bytes` from the place `start` of a file.
pub(crate) fn read_at(file: &fs::File, bytes: &mut [u8], start: u64) -> io::Result<()> {
    system::read_at(file, bytes, start)
}

/// Returns the content of the file at `path`, at most [`MAX_WHOLE_SIZE`] bytes.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let (folder, name) = OpenFolder::open_parent(path)?;
    folder.read(&name)
}

/// Returns the content of `file`; `None` if it has more than `most` bytes.
pub(crate) fn read_at_most(file: impl Read, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= most))
}

/// Maximum size of a file of a result folder, or of a line in one, that is read into memory, bytes.
pub(crate) const MAX_WHOLE_SIZE: u64 = 256_000_000;

/// Atomically replaces or creates the file at `path`.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (folder, name) = OpenFolder::open_parent(path)?;
    folder.replace(&name, bytes).map(drop)
}

/// Returns the name of the file `name` while it is incomplete.
fn draft(name: &str) -> String {
    format!(".{name}{NEW}")
}

/// Returns true if a killed process may have left a draft of this name.
pub(crate) fn is_leftover(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(NEW)
}

/// Returns `name` if it is a plain name, which cannot refer to another folder.
fn plain(name: &str) -> io::Result<&str> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) if part == name => Ok(name),
        _ => Err(refused("it is not a file name")),
    }
}

/// Fails if a file is not regular, e.g. a FIFO or a device, which might never end.
pub(crate) fn regular(found: &fs::Metadata) -> io::Result<()> {
    if found.is_file() { Ok(()) } else { Err(refused("it is not a regular file")) }
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, why)
}

/// Suffix of the name of a file before it replaces another.
const NEW: &str = ".roughlink-new";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_accepted() {
        let root = tempfile::tempdir().unwrap();
        let folder = OpenFolder::open(root.path()).unwrap();
        for name in ["", ".", "..", "a/b", "../a", "/etc/passwd", "a/"] {
            assert!(folder.create(name).is_err() && folder.read(name).is_err(), "{name}");
        }
        assert_eq!(folder.names().unwrap(), [""; 0]);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_fifos_are_refused_and_left_alone() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let (docs, results) = (root.path().join("docs"), root.path().join("results"));
        fs::create_dir(&docs).unwrap();
        fs::write(docs.join("thesis.tex"), "years of work").unwrap();
        let folder = OpenFolder::make(&results).unwrap();
        symlink(docs.join("thesis.tex"), results.join("file")).unwrap();
        symlink(&docs, results.join("folder")).unwrap();
        symlink(docs.join("new"), results.join("dangling")).unwrap();
        rustix::fs::mknodat(&folder.handle, "fifo", rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for name in ["file", "folder", "dangling", "fifo"] {
            assert_eq!(folder.kind(name).unwrap(), Some(EntryKind::Other), "{name}");
            assert!(folder.read(name).is_err() && folder.append(name).is_err(), "{name}");
            assert!(folder.create(name).is_err() && folder.inside(name).is_err(), "{name}");
        }
        // The link is replaced, not its target.
        folder.replace("file", b"ours").unwrap();
        folder.remove("folder").unwrap();
        assert_eq!(folder.read("file").unwrap(), b"ours");
        assert_eq!(fs::read_to_string(docs.join("thesis.tex")).unwrap(), "years of work");
        assert_eq!(fs::read_dir(&docs).unwrap().count(), 1);
    }

    #[test]
    fn a_replacement_is_complete_or_absent() {
        let root = tempfile::tempdir().unwrap();
        let folder = OpenFolder::open(root.path()).unwrap();
        for killed in [false, true] {
            for n in 1.. {
                folder.replace("file", b"old").unwrap();
                faults::at(n, killed);
                let outcome = folder.replace("file", b"new");
                let all = faults::end() < n;
                let found = folder.read("file").unwrap();
                assert!(found == b"old" || found == b"new", "{n}");
                assert!(outcome.is_err() || found == b"new", "{n}");
                let left: Vec<String> = folder.names().unwrap().into_iter().filter(|n| n != "file").collect();
                assert!(left.iter().all(|n| is_leftover(n)) && (killed || left.is_empty()), "{n}: {left:?}");
                if all {
                    break;
                }
            }
        }
    }
}
