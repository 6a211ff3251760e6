//! Unnamed network namespaces: a descriptor of this process holds each, and the namespace ends with it. Only separate
//! threads join namespaces; the process and its other threads stay in theirs.

use crate::error::{HostError, Operation};
use crate::ip::ip;
use crate::nodes::path_of;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getgid, getuid};
use roughlink_core::text::visible;
use rustix::fs::{self as posix, AtFlags, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread;

/// Network namespace.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// Creates a namespace with only a loopback device.
    ///
    /// # Errors
    /// Returns an error if the permission or `ip` is missing.
    pub fn new() -> Result<Self, HostError> {
        in_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(HostError::errno("create a network namespace"))?;
            ip(&["link set lo up".into()])?;
            Self::here()
        })
    }

    /// Opens the namespace of the calling thread.
    ///
    /// # Errors
    /// Returns an error if /proc is missing.
    pub fn here() -> Result<Self, HostError> {
        Self::own().map(Namespace).map_err(HostError::io(format!("open {OWN}")))
    }

    fn own() -> io::Result<File> {
        File::open(OWN)
    }

    /// Returns the number of the namespace's descriptor in this process.
    pub(crate) fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Opens the namespace with a name of `ip netns`, or at a path. Files other than network namespaces are not opened.
    ///
    /// ```
    /// use roughlink_host::Namespace;
    ///
    /// let error = Namespace::named("no-such-namespace").unwrap_err();
    /// assert_eq!(error.to_string(), "cannot open the network namespace /run/netns/no-such-namespace");
    /// assert_eq!(error.help(), Some("list the network namespaces with `ip netns`"));
    /// ```
    ///
    /// # Errors
    /// Returns an error if there is no such namespace.
    pub fn named(name: &str) -> Result<Self, HostError> {
        let path = if name.contains('/') { name.to_owned() } else { format!("/run/netns/{name}") };
        Candidate::at(&path).open().map(Namespace).map_err(HostError::io(Operation::OpenNamespace(path)))
    }

    /// Visits all namespaces that can be found from here, each once, with a description. Sources are processes,
    /// descriptors that processes hold, and mounts in any mount namespace, such as the mounts of `ip netns` and
    /// containers. The caller's namespace comes first. Only one namespace is held at a time.
    ///
    /// # Errors
    /// Returns an error if descriptors or memory run out.
    pub fn visit(mut visitor: impl FnMut(String, Self)) -> Result<(), HostError> {
        let mut seen = HashSet::new();
        for (words, candidate) in candidates() {
            match candidate.open() {
                Ok(file) => {
                    if file.metadata().is_ok_and(|m| seen.insert((m.dev(), m.ino()))) {
                        visitor(words, Namespace(file));
                    }
                }
                Err(e) if matches!(Errno::from_io_error(&e), Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => {
                    return Err(HostError::io(Operation::OpenNamespace(candidate.path.display().to_string()))(e));
                }
                // The process has ended since, hides its namespaces, or has something else there by now.
                Err(_) => {}
            }
        }
        Ok(())
    }

    pub(crate) fn try_clone(&self) -> Result<Self, HostError> {
        self.0.try_clone().map(Namespace).map_err(HostError::io("keep a network namespace open"))
    }

    pub(crate) fn into_file(self) -> File {
        self.0
    }

    /// Returns the inode number of the namespace, as `ls -iL /proc/self/ns/net` shows it.
    ///
    /// # Errors
    /// Returns an error if the kernel does not report it.
    pub fn inode(&self) -> Result<u64, HostError> {
        self.0.metadata().map(|m| m.ino()).map_err(HostError::io("inspect a network namespace"))
    }

    /// Returns the path at which other processes find the namespace while it is held.
    pub fn path(&self) -> PathBuf {
        path_of(&self.0)
    }

    /// Returns whether the namespace forwards IPv4 packets and IPv6 packets.
    ///
    /// # Errors
    /// Returns an error if the namespace cannot be joined.
    pub(crate) fn forwards(&self) -> Result<[bool; 2], HostError> {
        self.within(|| FORWARDING.map(|file| fs::read_to_string(file).is_ok_and(|text| text.trim() != "0")))
    }

    /// Turns on forwarding; existing and later devices do not announce themselves as routers.
    ///
    /// # Errors
    /// Returns an error if the namespace cannot be joined.
    pub(crate) fn forward(&self) -> Result<(), HostError> {
        // Ignore errors: a kernel without IPv6 has no such files.
        let set = |file: &str, value: &str| drop(fs::write(file, value));
        self.within(|| {
            FORWARDING.iter().for_each(|file| set(file, "1"));
            set("/proc/sys/net/ipv6/conf/default/forwarding", "0");
        })
    }

    /// Runs `work` in the namespace, in a temporary thread. `work` may return descriptors that it opens.
    ///
    /// # Errors
    /// Returns an error if the namespace cannot be joined.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, HostError> {
        in_thread(|| {
            setns(&self.0, CloneFlags::CLONE_NEWNET).map_err(HostError::errno("join a network namespace"))?;
            Ok(work())
        })
    }
}

/// Path where a network namespace may be found.
struct Candidate {
    /// Folder of /proc whose root the path starts from; `None` is this process's own root.
    process: Option<String>,
    path: PathBuf,
}

impl Candidate {
    fn at(path: impl Into<PathBuf>) -> Self {
        Candidate { process: None, path: path.into() }
    }

    /// Opens the namespace. Another user may control the path and replace its file at any time, so a path in the view
    /// of another process is resolved below that process's root and without symbolic links. `O_PATH` opens nothing yet:
    /// a FIFO does not block, and a device does not notice. Then only a network namespace is opened for use.
    /// `RESOLVE_CACHED` requests nothing from file systems, since a FUSE server might never answer. The path of a mount
    /// stays cached, because the mount refers to it.
    fn open(&self) -> io::Result<File> {
        let Some(process) = &self.process else { return reopen(&posix::open(&self.path, PATH_ONLY, Mode::empty())?) };
        let root = posix::open(format!("/proc/{process}/root"), PATH_ONLY, Mode::empty())?;
        let resolve =
            ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED;
        let mut tries = (0..MAX_TRIES).map(|_| posix::openat2(&root, &self.path, PATH_ONLY, Mode::empty(), resolve));
        // While its cache changes, the kernel may fail to find a path that is cached.
        let found = tries.find(|found| !matches!(found, Err(Errno::AGAIN))).unwrap_or(Err(Errno::AGAIN));
        reopen(&found?)
    }
}

/// Opens a file that was found with `O_PATH`, if it is a namespace. The kernel refuses to join one of another kind.
fn reopen(found: &OwnedFd) -> io::Result<File> {
    // Use cached values: a request to the file system might never be answered.
    let device = |file: BorrowedFd<'_>| {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        posix::statx(file, "", flags, StatxFlags::empty()).map(|found| (found.stx_dev_major, found.stx_dev_minor))
    };
    if device(found.as_fd())? != device(Namespace::own()?.as_fd())? {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a network namespace"));
    }
    File::open(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

/// Lists where namespaces may be found, each with a description; processes of other users hide theirs.
fn candidates() -> Vec<(String, Candidate)> {
    let mut all = vec![("this namespace".to_owned(), Candidate::at(OWN))];
    all.extend(mounts(None));
    let entries = |folder: &str| -> Vec<String> {
        let read = fs::read_dir(folder).into_iter().flatten();
        read.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect()
    };
    let mount_namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let mut looked_at: HashSet<PathBuf> = mount_namespace("self").into_iter().collect();
    for process in entries("/proc").into_iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit())) {
        let words = format!("process {process}");
        if mount_namespace(&process).is_some_and(|namespace| looked_at.insert(namespace)) {
            all.extend(mounts(Some(&process)));
        }
        all.push((words.clone(), Candidate::at(format!("/proc/{process}/ns/net"))));
        let folder = format!("/proc/{process}/fd");
        let is_net = |path: &String| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("net:["));
        let held = entries(&folder).into_iter().map(|fd| format!("{folder}/{fd}")).filter(is_net);
        all.extend(held.map(|path| (words.clone(), Candidate::at(path))));
    }
    all
}

/// Returns the network namespaces that are mounted in the view of a process; `None` is this process.
fn mounts(process: Option<&str>) -> Vec<(String, Candidate)> {
    let table = fs::read(format!("/proc/{}/mountinfo", process.unwrap_or("self"))).unwrap_or_default();
    let mounted = |line: &[u8]| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let path = *fields.get(4).filter(|_| fields[3].starts_with(b"net:["))?;
        // The description keeps the escapes. Only paths in our own view are shortened: other users choose theirs.
        let words = String::from_utf8_lossy(path);
        let short = words.strip_prefix("/run/netns/").filter(|_| process.is_none()).unwrap_or(&words);
        let path = PathBuf::from(OsString::from_vec(unescaped(path)));
        Some((visible(short).into_owned(), Candidate { process: process.map(str::to_owned), path }))
    };
    table.split(|byte| *byte == b'\n').filter_map(mounted).collect()
}

/// Replaces the escapes of a path in mountinfo, such as `\040` for a space: proc(5).
fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, after @ ..] = rest {
        let digits = after.first_chunk::<3>().filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        out.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    out
}

fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

/// Returns true if this process may create network namespaces and devices with its present capabilities.
pub fn is_allowed() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let has = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    [CAP_NET_ADMIN, CAP_SYS_ADMIN].iter().all(|capability| has >> capability & 1 == 1)
}

/// Makes this process root in a new user namespace, where it may create network namespaces; nothing changes outside.
///
/// # Errors
/// Returns an error if the system does not allow it, or if the process has more than one thread.
pub fn become_root() -> Result<(), HostError> {
    let (user, group) = (getuid(), getgid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(HostError::errno(Operation::MakeUserNamespace))?;
    let maps =
        [("setgroups", "deny".to_owned()), ("uid_map", format!("0 {user} 1")), ("gid_map", format!("0 {group} 1"))];
    for (file, text) in maps {
        let path = format!("/proc/self/{file}");
        fs::write(&path, text).map_err(HostError::io(Operation::MapUsers(path)))?;
    }
    Ok(())
}

/// Flags that find a file without opening it.
const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// Maximum number of attempts to find a path in the kernel's cache.
const MAX_TRIES: usize = 4;
/// The namespace of this thread.
const OWN: &str = "/proc/thread-self/ns/net";
/// Files that turn on forwarding in the namespace of the thread that opens them.
const FORWARDING: [&str; 2] = ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"];
/// Bit numbers in capability sets, capabilities(7).
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
