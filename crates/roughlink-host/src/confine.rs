//! Least rights for a program that processes packets of strangers for a long time: another user, only the needed
//! capabilities, no files, and few system calls. Everything that needs more rights must be open before.

use crate::error::HostError;
use caps::{CapSet, Capability, CapsHashSet};
use landlock::{ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _};
use landlock::{RulesetStatus, path_beneath_rules};
use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl::{set_keepcaps, set_no_new_privs};
use nix::unistd::{Group, User, getuid, initgroups, setresgid, setresuid};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::unix::fs::chown;
use std::path::Path;

/// Capability that a confined program keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeptRight {
    /// None: open packet sockets need no capability.
    Nothing,
    /// CAP_NET_ADMIN, without which the kernel accepts no verdicts about queued packets.
    NetworkAdministration,
}

/// Gives up all rights of the calling thread, and of threads that it starts later, except `kept`. If this process runs
/// as root, `user` becomes its user. Returns descriptions of restrictions that this kernel or processor does not offer.
///
/// # Errors
/// Returns an error if the user does not exist or a right cannot be given up.
pub fn confine(user: &str, kept: KeptRight) -> Result<Vec<String>, HostError> {
    let caps: CapsHashSet = match kept {
        KeptRight::Nothing => CapsHashSet::new(),
        KeptRight::NetworkAdministration => [Capability::CAP_NET_ADMIN].into(),
    };
    let failed = |e: caps::errors::CapsError| HostError::io("give up capabilities")(io::Error::other(e));
    if getuid().is_root() {
        become_user(user, &caps)?;
    }
    caps::clear(None, CapSet::Ambient).map_err(failed)?;
    caps::clear(None, CapSet::Inheritable).map_err(failed)?;
    let held = &caps::read(None, CapSet::Permitted).map_err(failed)? & &caps;
    caps::set(None, CapSet::Effective, &held).map_err(failed)?;
    caps::set(None, CapSet::Permitted, &held).map_err(failed)?;
    set_no_new_privs().map_err(HostError::errno("forbid new privileges"))?;
    Ok([without_files()?, with_few_calls()?].into_iter().flatten().collect())
}

/// Gives a file to a group, whose members then have the file's group permissions.
///
/// # Errors
/// Returns an error if there is no such group, or if this user may not give it the file.
pub fn share_with_group(file: &Path, group: &str) -> io::Result<()> {
    let group = Group::from_name(group)?
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("unknown group `{group}`")))?;
    chown(file, None, Some(group.gid.as_raw()))
}

fn become_user(name: &str, keep: &CapsHashSet) -> Result<(), HostError> {
    let change = || -> Result<(), Errno> {
        let user = User::from_name(name)?.ok_or(Errno::ENOENT)?;
        for capability in caps::all().difference(keep) {
            // Without CAP_SETPCAP the set stays, but no program is executed anymore.
            let _ = caps::drop(None, CapSet::Bounding, *capability);
        }
        set_keepcaps(true)?;
        initgroups(&CString::new(name).map_err(|_| Errno::EINVAL)?, user.gid)?;
        setresgid(user.gid, user.gid, user.gid)?;
        setresuid(user.uid, user.uid, user.uid)
    };
    change().map_err(HostError::errno(format!("become the user `{name}`")))
}

/// Forbids access to files, except for reading /proc, and to TCP ports (landlock(7)).
fn without_files() -> Result<Option<String>, HostError> {
    let restrict = || {
        let rules = Ruleset::default()
            .handle_access(AccessFs::from_all(FILES))?
            .handle_access(AccessNet::from_all(FILES))?
            .create()?
            .add_rules(path_beneath_rules(["/proc"], AccessFs::from_read(FILES)))?;
        rules.restrict_self()
    };
    let status = restrict().map_err(|e| HostError::io("restrict the access to files")(io::Error::other(e)))?;
    Ok((status.ruleset == RulesetStatus::NotEnforced).then(|| "Landlock, against access to files".into()))
}

/// Forbids system calls that the loop, its servers and the end of the program do not need (seccomp(2)).
fn with_few_calls() -> Result<Option<String>, HostError> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(Some("seccomp, against other system calls".into()));
    };
    let restrict = || -> Result<(), seccompiler::Error> {
        let is_local = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, libc::AF_UNIX as u64)?;
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> = CALLS.iter().map(|call| (*call, Vec::new())).collect();
        rules.insert(libc::SYS_socket, vec![SeccompRule::new(vec![is_local])?]);
        let refuse = SeccompAction::Errno(Errno::EPERM as u32);
        let filter: BpfProgram = SeccompFilter::new(rules, refuse, SeccompAction::Allow, arch)?.try_into()?;
        seccompiler::apply_filter(&filter)
    };
    restrict().map_err(|e| HostError::io("restrict the system calls")(io::Error::other(e)))?;
    Ok(None)
}

/// Version of Landlock whose restrictions apply; older kernels apply those that they know.
const FILES: ABI = ABI::V5;

/// Permitted system calls: packets, time, threads, memory, and the end of the process.
const CALLS: &[i64] = &[
    libc::SYS_accept4,
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_close,
    libc::SYS_connect,
    libc::SYS_dup,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getpeername,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_ppoll,
    libc::SYS_prctl,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_yield,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_sigaltstack,
    libc::SYS_statx,
    libc::SYS_tgkill,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_write,
    libc::SYS_writev,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];
