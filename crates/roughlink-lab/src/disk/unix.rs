//! The system calls behind [`super::OpenFolder`] on Unix: `openat` and related functions of POSIX.

use super::{Access, EntryKind};
use rustix::fs::{self as posix, AtFlags, FileType, Mode, OFlags};
use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

pub(super) type Handle = File;

pub(super) fn open(path: &Path) -> io::Result<Handle> {
    Ok(posix::open(path, FOLDER, Mode::empty())?.into())
}

pub(super) fn inside(folder: &Handle, name: &str) -> io::Result<Handle> {
    Ok(posix::openat(folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?.into())
}

pub(super) fn make(folder: &Handle, name: &str) -> io::Result<()> {
    Ok(posix::mkdirat(folder, name, Mode::from_raw_mode(0o777))?)
}

pub(super) fn names(folder: &Handle) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in posix::Dir::read_from(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

pub(super) fn kind(folder: &Handle, name: &str) -> io::Result<EntryKind> {
    let stat = posix::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Folder,
        _ => EntryKind::Other,
    })
}

pub(super) fn file(folder: &Handle, name: &str, access: Access) -> io::Result<File> {
    let how = match access {
        Access::Read => OFlags::RDONLY,
        Access::New => OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL,
        Access::Append => OFlags::RDWR | OFlags::APPEND | OFlags::CREATE,
    };
    // Non-blocking, because opening a FIFO would wait for its other end.
    let how = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(posix::openat(folder, name, how, Mode::from_raw_mode(0o666))?.into())
}

pub(super) fn read_at(file: &File, bytes: &mut [u8], start: u64) -> io::Result<()> {
    file.read_exact_at(bytes, start)
}

pub(super) fn rename(folder: &Handle, from: &str, there: &Handle, to: &str) -> io::Result<()> {
    Ok(posix::renameat(folder, from, there, to)?)
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(super) fn exchange(folder: &Handle, a: &str, b: &str) -> io::Result<()> {
    Ok(posix::renameat_with(folder, a, folder, b, posix::RenameFlags::EXCHANGE)?)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(super) fn exchange(_: &Handle, _: &str, _: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn remove(folder: &Handle, name: &str) -> io::Result<()> {
    Ok(posix::unlinkat(folder, name, AtFlags::empty())?)
}

pub(super) fn remove_folder(folder: &Handle, name: &str) -> io::Result<()> {
    Ok(posix::unlinkat(folder, name, AtFlags::REMOVEDIR)?)
}

pub(super) fn sync(folder: &Handle) -> io::Result<()> {
    match folder.sync_all() {
        // Some file systems do not support this.
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        done => done,
    }
}

pub(super) fn lock(folder: &Handle) -> io::Result<bool> {
    match folder.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        // NFS, for example, only locks files that are open for writing.
        Err(TryLockError::Error(_)) => Ok(true),
    }
}

pub(super) fn has(folder: &Handle, name: &str, file: &File) -> io::Result<bool> {
    let (there, here) = (posix::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?, posix::fstat(file)?);
    Ok((there.st_dev, there.st_ino) == (here.st_dev, here.st_ino))
}

/// Returns the device and inode number.
pub(super) fn id(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

pub(super) fn same(a: &Handle, b: &Handle) -> io::Result<bool> {
    let (a, b) = (posix::fstat(a)?, posix::fstat(b)?);
    Ok((a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
}

pub(super) fn share_permissions(from: &Handle, to: &Handle) -> io::Result<()> {
    to.set_permissions(from.metadata()?.permissions())
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
