//! Processes between the emulation and a program at a node. Both are further instances of this program:
//!
//! ```text
//! roughlink emulate ── join ── init ── the program
//! ```
//!
//! `join` joins the network namespace and creates a PID namespace with `init` as its first process. When `init` ends,
//! the kernel kills all other processes in the PID namespace, including daemons. Both `join` and `init` request a
//! signal that kills them when their parent dies. So no process remains, however the emulation ends. This design needs
//! no code between `fork` and `exec`, where few operations are safe.
//!
//! A program with the terminal (`roughlink link -- bash`) gets a separate process group, as under a shell, and handles
//! the keys typed there. The program can be ended but not suspended (Ctrl-Z), because the link would continue. If
//! Ctrl-C ends the program, the process group that had the terminal before gets the same signal, so that a script ends,
//! too. Within a pipeline (`| less`) the program stays in the group, because other members may need the terminal.

use crate::abilities::{PROBE, probe};
use crate::cleanup::{self, CLEANUP};
use crate::nodes::{ListedNode, OWN_NODE, hosts, place, read, variable};
use crate::program::{JOIN, code};
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

const INIT: &str = "init";

/// Runs the hidden command with its arguments; the first of them selects the stage.
pub fn main(hidden: &OsStr, words: &[OsString]) -> ExitCode {
    let [stage, words @ ..] = words else { return ExitCode::from(2) };
    let done = match (stage.to_str(), words) {
        (Some(JOIN), [parent, list, node, words @ ..]) => join(hidden, parent, (list, node), words),
        (Some(INIT), [parent, note, list, node, words @ ..]) => init(parent, note, (Path::new(list), node), words),
        (Some(CLEANUP), []) => return cleanup::work().map_or(ExitCode::FAILURE, ExitCode::from),
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

/// Joins the network namespace of a node in a list and starts `init` in a new PID namespace.
fn join(hidden: &OsStr, parent: &OsStr, (list, node): (&OsStr, &OsStr), words: &[OsString]) -> io::Result<u8> {
    let (namespace, users) = place(Path::new(list), &node.to_string_lossy())?;
    let network = File::open(namespace)?;
    // Without root, the namespace belongs to the emulation's user namespace.
    if fs::read_link(&users)? != fs::read_link("/proc/self/ns/user")? {
        setns(File::open(users)?, CloneFlags::CLONE_NEWUSER)?;
    }
    end_with_parent(parent, || Ok(getppid().to_string()))?;
    setns(network, CloneFlags::CLONE_NEWNET)?;
    // Read the PID from /proc, which may show the numbers of another PID namespace.
    let own = fs::read_link("/proc/self")?;
    unshare(CloneFlags::CLONE_NEWPID)?;
    let has_terminal =
        stdin().is_terminal() && stdout().is_terminal() && tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp());
    // The exit code does not reveal whether Ctrl-C ended the program: a shell returns 130 if it ended the last command.
    let interrupted = File::from(memfd_create("roughlink interrupted", MFdFlags::MFD_CLOEXEC)?);
    let note = format!("/proc/{}/fd/{}", own.display(), interrupted.as_raw_fd());
    let mut init = Command::new("/proc/self/exe");
    init.arg0("roughlink").arg(hidden).arg(INIT).arg(own).arg(note).args([list, node]).args(words);
    if has_terminal {
        init.process_group(0);
    }
    let mut child = init.spawn()?;
    // Block signals only now: a child inherits the mask.
    let watched = watched();
    watched.thread_block()?;
    // The child has not been waited for yet, so its number is still valid.
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
            // Signal our process group as 0: within a link its number may be 1, which `killpg` treats as all processes.
            let _ = kill(Pid::from_raw(0), Signal::SIGINT);
        }
    }
    Ok(code(status))
}

/// Runs as the first process of the PID namespace, which adopts orphans. Writes a note if Ctrl-C ended the program.
fn init(parent: &OsStr, note: &OsStr, (list, node): (&Path, &OsStr), words: &[OsString]) -> io::Result<u8> {
    // The parent has no number in this PID namespace, but /proc still belongs to the parent's.
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
                // No shell could continue the program.
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

/// Ends this process when its parent ends, or at once if another process has already adopted it.
fn end_with_parent(expected: &OsStr, parent: impl FnOnce() -> io::Result<String>) -> io::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    if *expected != *parent()? {
        exit(1);
    }
    Ok(())
}

/// Mounts /proc, /sys and /etc/hosts of the program's namespaces, so that it sees their processes and devices and the
/// names of nodes. Without the permission the program sees the machine's files, which does no harm.
fn show_namespaces(nodes: &[ListedNode]) {
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let none = None::<&str>;
    let private = unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none));
    if private.is_err() {
        return;
    }
    let cgroups = File::open("/sys/fs/cgroup");
    // A bind mount needs a mounted source file, so mount a temporary file system for it.
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

/// Returns the signals to wait for: the end of a child, and signals from a terminal or the emulation. A terminal also
/// signals the program, which decides how to react. SIGHUP may have been ignored from the start (`nohup`).
fn watched() -> SigSet {
    use Signal::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTTOU};
    let mut all = SigSet::from_iter([SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGTTOU]);
    if !is_ignored(SIGHUP as i32) {
        all.add(SIGHUP);
    }
    all
}

/// Returns true if this process ignores the signal with this number.
pub fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    ignored >> (signal - 1) & 1 == 1
}
