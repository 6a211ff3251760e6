//! The functions behind [`super::OpenFolder`] on systems other than Unix: they use paths and check an entry before use.

use super::{Access, EntryKind, refused};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pub(super) type Handle = PathBuf;

pub(super) fn open(path: &Path) -> io::Result<Handle> {
    if fs::metadata(path)?.is_dir() { Ok(path.to_owned()) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

pub(super) fn inside(folder: &Handle, name: &str) -> io::Result<Handle> {
    match kind(folder, name)? {
        EntryKind::Folder => Ok(folder.join(name)),
        _ => Err(io::ErrorKind::NotADirectory.into()),
    }
}

pub(super) fn make(folder: &Handle, name: &str) -> io::Result<()> {
    fs::create_dir(folder.join(name))
}

pub(super) fn names(folder: &Handle) -> io::Result<Vec<String>> {
    fs::read_dir(folder)?.map(|e| Ok(e?.file_name().to_string_lossy().into_owned())).collect()
}

pub(super) fn kind(folder: &Handle, name: &str) -> io::Result<EntryKind> {
    let found = fs::symlink_metadata(folder.join(name))?.file_type();
    Ok(if found.is_file() {
        EntryKind::File
    } else if found.is_dir() {
        EntryKind::Folder
    } else {
        EntryKind::Other
    })
}

pub(super) fn file(folder: &Handle, name: &str, access: Access) -> io::Result<File> {
    let path = folder.join(name);
    match kind(folder, name) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        found => {
            if found? != EntryKind::File {
                return Err(refused("it is not a regular file"));
            }
        }
    }
    let mut how = OpenOptions::new();
    how.read(true).append(access != Access::Read);
    how.create(access == Access::Append).create_new(access == Access::New).open(path)
}

pub(super) fn read_at(file: &File, bytes: &mut [u8], start: u64) -> io::Result<()> {
    // Threads share the position of a file.
    static READING: Mutex<()> = Mutex::new(());
    let _reading = READING.lock();
    let mut file = file;
    file.seek(SeekFrom::Start(start))?;
    file.read_exact(bytes)
}

pub(super) fn rename(folder: &Handle, from: &str, there: &Handle, to: &str) -> io::Result<()> {
    fs::rename(folder.join(from), there.join(to))
}

pub(super) fn exchange(_: &Handle, _: &str, _: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn remove(folder: &Handle, name: &str) -> io::Result<()> {
    fs::remove_file(folder.join(name))
}

pub(super) fn remove_folder(folder: &Handle, name: &str) -> io::Result<()> {
    fs::remove_dir(folder.join(name))
}

pub(super) fn sync(_: &Handle) -> io::Result<()> {
    Ok(())
}

pub(super) fn lock(_: &Handle) -> io::Result<bool> {
    Ok(true)
}

/// Open files cannot be replaced on these systems.
pub(super) fn has(folder: &Handle, name: &str, _: &File) -> io::Result<bool> {
    kind(folder, name).map(|found| found == EntryKind::File)
}

/// All open files count as the same, because they cannot be replaced.
pub(super) fn id(_: &fs::Metadata) {}

pub(super) fn same(a: &Handle, b: &Handle) -> io::Result<bool> {
    Ok(a.canonicalize()? == b.canonicalize()?)
}

pub(super) fn share_permissions(_: &Handle, _: &Handle) -> io::Result<()> {
    Ok(())
}
