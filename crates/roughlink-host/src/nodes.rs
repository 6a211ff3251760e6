//! Which nodes of which running emulation are where, for programs that are started later (`roughlink shell`).
//!
//! The list is a file in memory that only its process holds, found by its name among the descriptors of all processes: it ends with the
//! emulation, however that ends.

use crate::error::HostError;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The nodes of a running emulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Its process.
    pub process: u32,
    /// Its real nodes.
    pub nodes: Vec<Listed>,
}

/// A node of a running emulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: PathBuf,
}

/// Lists nodes until the file is dropped.
pub(crate) fn list<'n>(nodes: impl Iterator<Item = (&'n str, PathBuf)>) -> Result<File, HostError> {
    let file = memfd_create(NAME, MFdFlags::MFD_CLOEXEC).map_err(HostError::errno("make a file in memory"))?;
    let mut file = File::from(file);
    for (name, namespace) in nodes {
        writeln!(file, "{}\t{name}", namespace.display()).map_err(HostError::of("write a file in memory"))?;
    }
    Ok(file)
}

/// The emulations that run here and may be looked at by this user.
pub fn directories() -> Vec<Directory> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut all: Vec<Directory> = processes.filter_map(|entry| of(&entry.path())).collect();
    all.sort_by_key(|directory| directory.process);
    all
}

fn of(process: &Path) -> Option<Directory> {
    let number = process.file_name()?.to_str()?.parse().ok()?;
    let files = fs::read_dir(process.join("fd")).ok()?.flatten().map(|entry| entry.path());
    let ours = |file: &PathBuf| fs::read_link(file).is_ok_and(|to| to.to_str().is_some_and(|to| to.starts_with(LINK)));
    let text = fs::read_to_string(files.into_iter().find(ours)?).ok()?;
    let node = |line: &str| {
        let (namespace, name) = line.split_once('\t')?;
        Some(Listed { name: name.to_owned(), namespace: namespace.into() })
    };
    Some(Directory { process: number, nodes: text.lines().filter_map(node).collect() })
}

const NAME: &str = "roughlink-nodes";
/// How /proc shows it.
const LINK: &str = "/memfd:roughlink-nodes";
