//! Unnamed network namespaces. A descriptor of this process holds each of them, and the namespace ends with it.
//!
//! Only separate threads join namespaces; the process and its other threads stay in theirs.

use crate::error::{HostError, Operation};
use crate::ip::ip;
use crate::nodes::path_of;
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getgid, getuid};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd as _, RawFd};
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
        let path = "/proc/thread-self/ns/net";
        File::open(path).map(Namespace).map_err(HostError::io(format!("open {path}")))
    }

    /// Returns the number of the namespace's descriptor in this process.
    pub(crate) fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Opens the namespace with a name of `ip netns`, or at a path.
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
        File::open(&path).map(Namespace).map_err(HostError::io(Operation::OpenNamespace(path)))
    }

    /// Visits all namespaces that can be found from here, each once, with a description. Sources are processes,
    /// descriptors that processes hold, and mounts in any mount namespace, such as the mounts of `ip netns` and
    /// containers. The caller's namespace comes first. Only one namespace is held at a time.
    ///
    /// # Errors
    /// Returns an error if an existing namespace cannot be opened, for example for lack of descriptors.
    pub fn visit(mut visitor: impl FnMut(String, Self)) -> Result<(), HostError> {
        let mut seen = HashSet::new();
        for (words, path) in paths() {
            let file = match File::open(&path) {
                Ok(file) => file,
                // The process has ended since, or is hidden from ordinary users.
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => continue,
                Err(e) if e.raw_os_error() == Some(Errno::ESRCH as i32) => continue,
                Err(e) => return Err(HostError::io(Operation::OpenNamespace(path))(e)),
            };
            if file.metadata().is_ok_and(|m| seen.insert((m.dev(), m.ino()))) {
                visitor(words, Namespace(file));
            }
        }
        Ok(())
    }

    /// Duplicates the handle.
    pub(crate) fn try_clone(&self) -> Result<Self, HostError> {
        self.0.try_clone().map(Namespace).map_err(HostError::io("keep a network namespace open"))
    }

    /// Returns the descriptor that holds the namespace.
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

    /// Turns on forwarding. Existing and later devices of the namespace do not announce themselves as routers.
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

/// Returns paths where namespaces may be found, each with a description; processes of other users hide theirs.
fn paths() -> Vec<(String, String)> {
    let mut all = vec![("this namespace".to_owned(), "/proc/thread-self/ns/net".to_owned())];
    all.extend(mounts("self", ""));
    let entries = |folder: &str| -> Vec<String> {
        let read = fs::read_dir(folder).into_iter().flatten();
        read.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect()
    };
    let mount_namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let mut looked_at: HashSet<PathBuf> = mount_namespace("self").into_iter().collect();
    for process in entries("/proc").into_iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit())) {
        let words = format!("process {process}");
        if mount_namespace(&process).is_some_and(|namespace| looked_at.insert(namespace)) {
            all.extend(mounts(&process, &format!("/proc/{process}/root")));
        }
        all.push((words.clone(), format!("/proc/{process}/ns/net")));
        let folder = format!("/proc/{process}/fd");
        let is_net = |path: &String| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("net:["));
        let held = entries(&folder).into_iter().map(|fd| format!("{folder}/{fd}")).filter(is_net);
        all.extend(held.map(|path| (words.clone(), path)));
    }
    all
}

/// Returns the network namespaces that are mounted in the view of a process, with paths below `root`.
fn mounts(process: &str, root: &str) -> Vec<(String, String)> {
    let table = fs::read_to_string(format!("/proc/{process}/mountinfo")).unwrap_or_default();
    let mounted = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let path = fields.get(4).filter(|_| fields[3].starts_with("net:["))?.replace("\\040", " ");
        Some((path.strip_prefix("/run/netns/").unwrap_or(&path).to_owned(), format!("{root}{path}")))
    };
    table.lines().filter_map(mounted).collect()
}

/// Runs `work` in a separate thread.
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

/// Moves this process into a new user namespace as its root, where it may create network namespaces. Outside of it the
/// process keeps its previous permissions.
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

/// Files that turn on forwarding in the namespace of the thread that opens them.
const FORWARDING: [&str; 2] = ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"];
/// Bit numbers in capability sets, capabilities(7).
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
