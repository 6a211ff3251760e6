//! Leftover processes of emulations that have ended. The kernel normally removes everything. Namespaces, devices and
//! lists of nodes are tied to descriptors of the emulation's process, mounts to the namespace of a program, and
//! programs to their parents. A namespace outlives its emulation if `roughlink shell` runs a program in it. A process
//! that joined a namespace would also be left if the kernel did not kill it with its parent. Both kinds have the
//! arguments of [`crate::inside`] in their command line: the parent, and the path of the emulation's list of nodes.

use crate::error::HostError;
use crate::nodes::LINK;
use crate::program::JOIN;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Process of an emulation that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Process number.
    pub process: u32,
    /// Command line of the program that it runs.
    pub command: String,
    /// Network namespace that it holds, as /proc names it.
    pub namespace: String,
    /// Start time, which identifies the process together with its number.
    began: String,
}

/// Returns the leftovers that this user may inspect. `hidden` is the command that calls [`crate::inside::main`].
pub fn leftovers(hidden: &OsStr) -> Vec<Leftover> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut all: Vec<Leftover> = processes.filter_map(|entry| leftover(&entry.path(), hidden)).collect();
    all.sort_by_key(|left| left.process);
    all
}

fn leftover(place: &Path, hidden: &OsStr) -> Option<Leftover> {
    let process: u32 = place.file_name()?.to_str()?.parse().ok()?;
    let line = fs::read(place.join("cmdline")).ok()?;
    let words: Vec<&[u8]> = line.strip_suffix(b"\0").unwrap_or(&line).split(|byte| *byte == 0).collect();
    let [_, inside, stage, expected, list, _, command @ ..] = &words[..] else { return None };
    // In another PID namespace, such as a container's, processes have other numbers than in their command lines.
    let is_here = || Some(fs::read_link(place.join("ns/pid")).ok()? == fs::read_link("/proc/self/ns/pid").ok()?);
    if *inside != hidden.as_bytes() || *stage != JOIN.as_bytes() || !is_here()? {
        return None;
    }
    let (parent, began) = parent_and_start(place)?;
    let orphaned = parent.as_bytes() != *expected;
    let gone = is_gone(Path::new(OsStr::from_bytes(list)));
    let words: Vec<_> = command.iter().map(|word| String::from_utf8_lossy(word)).collect();
    (orphaned || gone).then(|| Leftover { process, command: words.join(" "), namespace: namespace_of(place), began })
}

/// Returns true if no process holds a list of nodes at this path any more.
fn is_gone(list: &Path) -> bool {
    match fs::read_link(list) {
        Ok(to) => !to.as_os_str().as_bytes().starts_with(LINK.as_bytes()),
        // Without permission to look, assume that the list is still there.
        Err(e) => e.kind() == ErrorKind::NotFound,
    }
}

fn namespace_of(place: &Path) -> String {
    fs::read_link(place.join("ns/net")).map_or_else(|_| "an unknown one".into(), |to: PathBuf| to.display().to_string())
}

/// Reads fields 4 and 22 of proc_pid_stat(5); field 2, in parentheses, may contain spaces. `None` for a zombie.
fn parent_and_start(place: &Path) -> Option<(String, String)> {
    let stat = fs::read_to_string(place.join("stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let alive = fields.first().is_some_and(|state| !matches!(*state, "Z" | "X"));
    alive.then_some(())?;
    Some(((*fields.get(1)?).to_owned(), (*fields.get(19)?).to_owned()))
}

impl Leftover {
    /// Kills the process and with it all processes in its PID namespace, which releases their namespaces.
    ///
    /// # Errors
    /// Returns an error if this user may not kill the process, or if it does not end.
    pub fn end(&self) -> Result<(), HostError> {
        let end = || -> io::Result<()> {
            if !self.is_there() {
                return Ok(());
            }
            kill(Pid::from_raw(self.process as i32), Signal::SIGKILL)?;
            for _ in 0..PATIENCE {
                if !self.is_there() {
                    return Ok(());
                }
                thread::sleep(TICK);
            }
            Err(io::Error::other("it did not end after SIGKILL"))
        };
        end().map_err(HostError::io(format!("end process {}", self.process)))
    }

    fn is_there(&self) -> bool {
        let place = PathBuf::from(format!("/proc/{}", self.process));
        parent_and_start(&place).is_some_and(|(_, began)| began == self.began)
    }
}

const TICK: Duration = Duration::from_millis(10);
/// Number of ticks to wait for the end of a killed process.
const PATIENCE: u32 = 200;
