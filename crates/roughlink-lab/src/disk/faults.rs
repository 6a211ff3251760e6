//! Fault injection for tests: the n-th change on disk by this thread fails, alone or with all later ones. The latter
//! leaves the same state as a kill, because clean-up fails, too.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write as _};

thread_local! {
    static DONE: Cell<u32> = const { Cell::new(0) };
    static FAILING: Cell<Option<(u32, bool)>> = const { Cell::new(None) };
}

/// Makes the `n`-th change from now on fail, counted from one, and all later ones if `killed`.
pub(crate) fn at(n: u32, killed: bool) {
    DONE.set(0);
    FAILING.set(Some((n, killed)));
}

/// Ends the injection; returns the number of changes.
pub(crate) fn end() -> u32 {
    FAILING.set(None);
    DONE.replace(0)
}

pub(crate) fn killed() -> bool {
    FAILING.get().is_some_and(|(n, killed)| killed && DONE.get() >= n)
}

/// Counts a change, and returns an error if the change must fail. Called before each change.
pub(super) fn step() -> io::Result<()> {
    DONE.set(DONE.get() + 1);
    match FAILING.get() {
        Some((n, killed)) if DONE.get() == n || (killed && DONE.get() > n) => Err(io::Error::other(FAULT)),
        _ => Ok(()),
    }
}

/// Writes bytes; a failing write keeps its first half, as on a full disk.
pub(super) fn write(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
    if let Err(e) = step() {
        if FAILING.get().is_some_and(|(n, _)| DONE.get() == n) {
            file.write_all(&bytes[..bytes.len() / 2])?;
        }
        return Err(e);
    }
    file.write(bytes)
}

/// Files are not synced to disk: these tests simulate no power failure, and would spend most of their time waiting.
pub(super) const SYNC: bool = false;

pub(crate) const FAULT: &str = "injected by a test";
