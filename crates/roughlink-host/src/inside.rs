//! What runs between this program and a program at a node: this program again, twice.
//!
//! ```text
//! roughlink emulate ── join ── init ── the program
//! ```
//!
//! `join` joins the network namespace and makes a process namespace, of which `init` is the first process: with it all others in it end,
//! whatever they have become. Each of the two asks the kernel for a signal that ends it with its parent. So however the emulation
//! ends, no process of it remains. Nothing of this needs code between `fork` and `exec`, which could not be safe.
//!
//! A program that has the terminal (`roughlink link -- bash`) is in a process group of its own, as a shell would put it: what is typed
//! is its business. It cannot be stopped, only ended, because the link does not stop either. If Ctrl-C ends it, all of the group that had the
//! terminal before get the same signal, as if it had been theirs: a script is to end, too. Within a pipeline (`| less`) the program stays in the
//! group, since others of it may want the terminal.

use crate::abilities::probe;
use crate::nodes::{Listed, OWN_NODE, hosts, place, read, variable};
use crate::program::code;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgrp, getpid, getppid, tcgetpgrp, tcsetpgrp};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write as _, stdin, stdout};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
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
        (Some(JOIN), [parent, list, node, words @ ..]) => join(hidden, parent, (list, node), words),
        (Some(INIT), [parent, note, list, node, words @ ..]) => init(parent, note, (Path::new(list), node), words),
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

/// In the network namespace of a node of a list, with a process namespace for the program.
fn join(hidden: &OsStr, parent: &OsStr, (list, node): (&OsStr, &OsStr), words: &[OsString]) -> io::Result<u8> {
    let (namespace, users) = place(Path::new(list), &node.to_string_lossy())?;
    let network = File::open(namespace)?;
    // The namespace of an emulation without root belongs to the emulation's user namespace.
    if fs::read_link(&users)? != fs::read_link("/proc/self/ns/user")? {
        setns(File::open(users)?, CloneFlags::CLONE_NEWUSER)?;
    }
    end_with_parent(parent, || Ok(getppid().to_string()))?;
    setns(network, CloneFlags::CLONE_NEWNET)?;
    // Of another process namespace, /proc has other numbers.
    let own = fs::read_link("/proc/self")?;
    unshare(CloneFlags::CLONE_NEWPID)?;
    let has_terminal =
        stdin().is_terminal() && stdout().is_terminal() && tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp());
    // An exit code does not tell whether Ctrl-C ended the program: a shell has 130, too, if it ended the last of its commands.
    let interrupted = File::from(memfd_create("roughlink interrupted", MFdFlags::MFD_CLOEXEC)?);
    let note = format!("/proc/{}/fd/{}", own.display(), interrupted.as_raw_fd());
    let mut init = Command::new("/proc/self/exe");
    init.arg0("roughlink").arg(hidden).arg(INIT).arg(own).arg(note).args([list, node]).args(words);
    if has_terminal {
        init.process_group(0);
    }
    let mut child = init.spawn()?;
    // Only now: a child inherits what is blocked.
    let watched = watched();
    watched.thread_block()?;
    // It has not been waited for as long as this is used, so the number is still its own.
    let number = Pid::from_raw(child.id() as i32);
    if has_terminal {
        let _ = tcsetpgrp(stdin(), number).and_then(|()| killpg(number, Signal::SIGCONT));
    }
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if let Signal::SIGTERM | Signal::SIGHUP = watched.wait()? {
            let _ = kill(number, Signal::SIGTERM);
        }
    };
    if has_terminal {
        let _ = tcsetpgrp(stdin(), getpgrp());
        if interrupted.metadata()?.len() > 0 {
            // All of our group; within a link its number may be 1, which to `killpg` is everybody.
            let _ = kill(Pid::from_raw(0), Signal::SIGINT);
        }
    }
    Ok(code(status))
}

/// The first process of the process namespace, which also gets those whose parents have ended. It notes that Ctrl-C ended the program.
fn init(parent: &OsStr, note: &OsStr, (list, node): (&Path, &OsStr), words: &[OsString]) -> io::Result<u8> {
    // From within the namespace the parent has no number; /proc is still that of the parent's.
    end_with_parent(parent, || {
        let status = fs::read_to_string("/proc/self/status")?;
        let above = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        Ok(above.unwrap_or_default().trim().to_owned())
    })?;
    let nodes = read(list)?;
    let note = File::options().write(true).open(note);
    show_namespaces(&nodes);
    let [program, rest @ ..] = words else { return Ok(2) };
    let addresses = nodes.iter().filter_map(|n| Some((variable(&n.name), n.addresses.first()?.to_string())));
    let mut command = Command::new(program);
    command.args(rest).envs(addresses).env(OWN_NODE, node);
    let child = match command.spawn() {
        Ok(child) => Pid::from_raw(child.id() as i32),
        Err(e) => {
            eprintln!("roughlink: cannot start `{}`: {e}", program.display());
            return Ok(if e.kind() == io::ErrorKind::NotFound { 127 } else { 126 });
        }
    };
    let watched = watched();
    watched.thread_block()?;
    let has_group = getpgrp() == getpid();
    loop {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == child => return Ok(code as u8),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                    if signal == Signal::SIGINT
                        && let Ok(mut note) = note
                    {
                        note.write_all(b".")?;
                    }
                    return Ok(128 + signal as u8);
                }
                // Nobody else could continue it.
                Ok(WaitStatus::Stopped(pid, _)) if pid == child && has_group => {
                    let _ = killpg(getpgrp(), Signal::SIGCONT);
                }
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

/// In /proc and /sys a program sees the processes and devices among which it is, and in /etc/hosts the nodes. Where that is not
/// allowed, it sees those of the machine, which does no harm.
fn show_namespaces(nodes: &[Listed]) {
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let none = None::<&str>;
    let private = unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none));
    if private.is_err() {
        return;
    }
    let cgroups = File::open("/sys/fs/cgroup");
    // A file can be put in another's place only where it is mounted itself, so it gets a file system for a moment.
    let _ = mount(Some("tmpfs"), "/sys", Some("tmpfs"), safe, none).map_err(io::Error::from).and_then(|()| {
        let written = fs::read_to_string("/etc/hosts")
            .and_then(|machine| fs::write("/sys/hosts", hosts(nodes, &machine)))
            .and_then(|()| fs::set_permissions("/sys/hosts", fs::Permissions::from_mode(0o644)))
            .and_then(|()| Ok(mount(Some("/sys/hosts"), "/etc/hosts", none, MsFlags::MS_BIND, none)?));
        umount2("/sys", MntFlags::MNT_DETACH)?;
        written
    });
    let _ = mount(Some("proc"), "/proc", Some("proc"), safe, none)
        .and_then(|()| mount(Some("sysfs"), "/sys", Some("sysfs"), safe, none));
    if let Ok(cgroups) = cgroups {
        let here = format!("/proc/self/fd/{}", cgroups.as_raw_fd());
        let _ = mount(Some(&*here), "/sys/fs/cgroup", none, MsFlags::MS_BIND | MsFlags::MS_REC, none);
    }
}

/// The end of a child, and what a terminal or the emulation says. A terminal says it to the program, too, which decides
/// what to do. Whoever started us may have had signals ignored (`nohup`).
fn watched() -> SigSet {
    use Signal::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTTOU};
    let mut all = SigSet::from_iter([SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGTTOU]);
    if !is_ignored(SIGHUP as i32) {
        all.add(SIGHUP);
    }
    all
}

/// Whether this process ignores a signal, by its number.
pub fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    ignored >> (signal - 1) & 1 == 1
}
