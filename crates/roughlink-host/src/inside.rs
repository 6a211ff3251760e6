//! What runs between this program and a program at a node: this program again, twice.
//!
//! ```text
//! roughlink emulate ── join ── init ── the program
//! ```
//!
//! `join` joins the network namespace and makes a process namespace, of which `init` is the first process: with it all others in it end,
//! whatever they have become. Each of the two asks the kernel for a signal that ends it with its parent. So however the emulation
//! ends, no process of it remains. Nothing of this needs code between `fork` and `exec`, which could not be safe.

use crate::abilities::probe;
use crate::program::code;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getppid};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, exit};

pub(crate) const JOIN: &str = "join";
pub(crate) const INIT: &str = "init";
pub(crate) const PROBE: &str = "probe";

/// Does what the hidden command was called for, with the words after it, of which the first is the hidden command itself.
pub fn main(hidden: &OsStr, words: &[OsString]) -> ExitCode {
    let [stage, words @ ..] = words else { return ExitCode::from(2) };
    let done = match (stage.to_str(), words) {
        (Some(JOIN), [parent, namespace, words @ ..]) => join(hidden, parent, Path::new(namespace), words),
        (Some(INIT), [parent, words @ ..]) => init(parent, words),
        (Some(PROBE), words) => {
            probe(!words.is_empty());
            Ok(0)
        }
        _ => return ExitCode::from(2),
    };
    done.map_or_else(
        |e| {
            eprintln!("roughlink: cannot start a program at the node: {e}");
            ExitCode::from(126)
        },
        ExitCode::from,
    )
}

/// In the network namespace at `namespace`, with a process namespace for the program.
fn join(hidden: &OsStr, parent: &OsStr, namespace: &Path, words: &[OsString]) -> io::Result<u8> {
    let network = File::open(namespace)?;
    // The namespace of an emulation without root belongs to the emulation's user namespace.
    let users = namespace.ancestors().nth(2).unwrap_or(Path::new("/proc/self")).join("ns/user");
    if fs::read_link(&users)? != fs::read_link("/proc/self/ns/user")? {
        setns(File::open(users)?, CloneFlags::CLONE_NEWUSER)?;
    }
    end_with_parent(parent, || Ok(getppid().to_string()))?;
    setns(network, CloneFlags::CLONE_NEWNET)?;
    unshare(CloneFlags::CLONE_NEWPID)?;
    let mut init = Command::new("/proc/self/exe");
    init.arg0("roughlink").arg(hidden).arg(INIT).arg(std::process::id().to_string()).args(words);
    let mut child = init.spawn()?;
    let watched = watched();
    watched.thread_block()?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(code(status));
        }
        // It has not been waited for, so the number is still its own.
        if let Signal::SIGTERM | Signal::SIGHUP = watched.wait()? {
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
        }
    }
}

/// The first process of the process namespace, which also gets those whose parents have ended.
fn init(parent: &OsStr, words: &[OsString]) -> io::Result<u8> {
    // From within the namespace the parent has no number; /proc is still that of the parent's.
    end_with_parent(parent, || {
        let status = fs::read_to_string("/proc/self/status")?;
        let above = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        Ok(above.unwrap_or_default().trim().to_owned())
    })?;
    show_namespaces();
    let [program, rest @ ..] = words else { return Ok(2) };
    let child = match Command::new(program).args(rest).spawn() {
        Ok(child) => Pid::from_raw(child.id() as i32),
        Err(e) => {
            eprintln!("roughlink: cannot start `{}`: {e}", program.display());
            return Ok(if e.kind() == io::ErrorKind::NotFound { 127 } else { 126 });
        }
    };
    let watched = watched();
    watched.thread_block()?;
    loop {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == child => return Ok(code as u8),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => return Ok(128 + signal as u8),
                Ok(WaitStatus::StillAlive) | Err(_) => break,
                Ok(_) => {}
            }
        }
        if let Signal::SIGTERM | Signal::SIGHUP = watched.wait()? {
            let _ = kill(child, Signal::SIGTERM);
        }
    }
}

/// This process ends when its parent does. If that has already ended, the parent is not the one it was.
fn end_with_parent(expected: &OsStr, parent: impl FnOnce() -> io::Result<String>) -> io::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    if *expected != *parent()? {
        exit(1);
    }
    Ok(())
}

/// In /proc and /sys a program sees the processes and devices among which it is. Where that is not allowed, it sees those of the
/// machine, which does no harm.
fn show_namespaces() {
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let none = None::<&str>;
    let _ = unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none))
        .and_then(|()| mount(Some("proc"), "/proc", Some("proc"), safe, none))
        .and_then(|()| mount(Some("sysfs"), "/sys", Some("sysfs"), safe, none));
}

/// The end of a child, and what a terminal or the emulation says. A terminal says it to the program, too, which decides
/// what to do.
fn watched() -> SigSet {
    use Signal::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    SigSet::from_iter([SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM])
}
