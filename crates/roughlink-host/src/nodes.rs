//! Lists of nodes of running emulations, for their programs and for programs started later (`roughlink shell`). The
//! list is a memory file that only the emulation's process holds, and it ends with the process. Programs find the list
//! by its name among the descriptors of all processes. Only a list of a process of the same user is trusted: a program
//! in a namespace of another user's choice would be under that user's control.

use crate::error::HostError;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::geteuid;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::IpAddr;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// List of the nodes of a running emulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Process of the emulation.
    pub process: u32,
    /// Path of the list.
    pub file: PathBuf,
    /// Nodes of the emulation.
    pub nodes: Vec<ListedNode>,
}

/// Node of a running emulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedNode {
    /// Name of the node.
    pub name: String,
    /// Addresses of the node.
    pub addresses: Vec<IpAddr>,
    /// Descriptor of the namespace in the emulation's process, if the node is real.
    namespace: Option<RawFd>,
}

impl ListedNode {
    pub(crate) fn new(name: &str, addresses: Vec<IpAddr>, namespace: Option<RawFd>) -> Self {
        ListedNode { name: name.to_owned(), addresses, namespace }
    }

    /// Returns true if programs can run at the node.
    pub fn is_real(&self) -> bool {
        self.namespace.is_some()
    }
}

/// Lists nodes until the file is dropped.
pub(crate) fn list(nodes: &[ListedNode]) -> Result<File, HostError> {
    let file = memfd_create(NAME, MFdFlags::MFD_CLOEXEC).map_err(HostError::errno("create a file in memory"))?;
    let mut text = String::new();
    for ListedNode { name, addresses, namespace } in nodes {
        let namespace = namespace.map_or_else(String::new, |fd| fd.to_string());
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "{namespace}\t{}\t{name}", addresses.join(","));
    }
    let mut file = File::from(file);
    file.write_all(text.as_bytes()).map_err(HostError::io("write a file in memory"))?;
    Ok(file)
}

pub(crate) fn read(list: &Path) -> io::Result<Vec<ListedNode>> {
    let mut text = String::new();
    File::open(list)?.take(LONGEST).read_to_string(&mut text)?;
    let node = |line: &str| {
        let mut columns = line.splitn(3, '\t');
        let namespace = columns.next()?.parse().ok();
        let addresses = columns.next()?.split(',').filter_map(|a| a.parse().ok()).collect();
        Some(ListedNode { name: columns.next()?.to_owned(), addresses, namespace })
    };
    Ok(text.lines().filter_map(node).collect())
}

/// Returns the paths of the namespace of a real node in a list and of the user namespace that owns it.
///
/// # Errors
/// Returns an error if there is no such node or if the process belongs to another user.
pub(crate) fn place(list: &Path, node: &str) -> io::Result<(PathBuf, PathBuf)> {
    let process = list.ancestors().nth(2).unwrap_or(Path::new("/"));
    if !is_of_this_user(process) || !is_of_this_user(list) {
        let message = "the emulation belongs to another user: run `roughlink shell` as that user (sudo -u USER)";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    let namespace = read(list)?.into_iter().find(|n| n.name == node).and_then(|n| n.namespace);
    let namespace =
        namespace.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("unknown kernel node `{node}`")))?;
    Ok((process.join(format!("fd/{namespace}")), process.join("ns/user")))
}

/// Returns the running emulations of this user.
pub fn directories() -> Vec<Directory> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut all: Vec<Directory> = processes.filter_map(|entry| node_directory(&entry.path())).collect();
    all.sort_by_key(|directory| directory.process);
    all
}

fn node_directory(process: &Path) -> Option<Directory> {
    let number = process.file_name()?.to_str()?.parse().ok()?;
    if !is_of_this_user(process) {
        return None;
    }
    let mut files = fs::read_dir(process.join("fd")).ok()?.flatten().map(|entry| entry.path());
    let file =
        files.find(|file| fs::read_link(file).is_ok_and(|to| to.to_str().is_some_and(|to| to.starts_with(LINK))))?;
    // A set-uid program may have inherited the file from another user.
    if !is_of_this_user(&file) {
        return None;
    }
    Some(Directory { process: number, nodes: read(&file).ok()?, file })
}

/// Returns true if this user owns `place`: a process's directory in /proc, or a file, which belongs to its creator.
fn is_of_this_user(place: &Path) -> bool {
    fs::metadata(place).is_ok_and(|of| of.uid() == geteuid().as_raw())
}

/// Returns the path of an open file for this process and its children; /proc may belong to another PID namespace.
pub(crate) fn path_of(file: &File) -> PathBuf {
    let own = fs::read_link("/proc/self").unwrap_or_else(|_| std::process::id().to_string().into());
    Path::new("/proc").join(own).join("fd").join(file.as_raw_fd().to_string())
}

/// Environment variable with the name of the node at which a program runs.
pub const OWN_NODE: &str = "ROUGHLINK_NODE";

/// Returns the environment variable with the address of a node.
pub fn variable(node: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("ROUGHLINK_{}", node.chars().map(plain).collect::<String>())
}

/// Returns the contents of /etc/hosts with the names of nodes. The machine's own names keep their meaning.
pub(crate) fn hosts(nodes: &[ListedNode], machine: &str) -> String {
    let is_name = |name: &str| {
        name.len() <= MAX_HOST_NAME_LEN
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.')
            && name.contains(|c: char| c.is_ascii_alphabetic())
    };
    let known = |name: &str| machine.lines().any(|line| line.split_whitespace().skip(1).any(|word| word == name));
    let mut text = machine.trim_end().to_owned();
    text.push('\n');
    for node in nodes.iter().filter(|node| is_name(&node.name) && !known(&node.name)) {
        for address in &node.addresses {
            let _ = writeln!(text, "{address}\t{}", node.name);
        }
    }
    text
}

const NAME: &str = "roughlink-nodes";
/// Prefix of the link in /proc/PID/fd.
pub(crate) const LINK: &str = "/memfd:roughlink-nodes";
/// Maximum size of a list, bytes: more than 100,000 nodes.
const LONGEST: u64 = 1 << 24;
/// Maximum length of a host name (RFC 1035 section 2.3.4).
const MAX_HOST_NAME_LEN: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, address: &str, namespace: Option<RawFd>) -> ListedNode {
        ListedNode::new(name, vec![address.parse().unwrap(), "fd00::1".parse().unwrap()], namespace)
    }

    #[test]
    fn node_list_reads_back_as_written() {
        let nodes = [node("car", "10.0.0.1", Some(7)), node("the charger", "10.0.0.2", None)];
        let file = list(&nodes).unwrap();
        assert_eq!(read(&path_of(&file)).unwrap(), nodes);
        assert_eq!(place(&path_of(&file), "the charger").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(place(&path_of(&file), "car").unwrap().0.ends_with("fd/7"));
        assert!(directories().iter().any(|d| d.process == std::process::id() && d.nodes == nodes));
    }

    #[test]
    fn only_processes_of_the_same_user_are_trusted() {
        assert!(is_of_this_user(Path::new("/proc/self")));
        // In CI and in containers, tests run as root, but then there are no processes of other users.
        let other = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .map(|e| e.path())
            .find(|p| p.join("fd").exists() && fs::metadata(p).is_ok_and(|m| m.uid() != geteuid().as_raw()));
        assert!(other.is_none_or(|p| !is_of_this_user(&p)));
    }

    #[test]
    fn hosts_file_keeps_names_of_the_machine() {
        let nodes = ["car", "localhost", "a b", "-x", "7"].map(|name| node(name, "10.0.0.1", None));
        let text = hosts(&nodes, "127.0.0.1 localhost me\n");
        assert_eq!(text, "127.0.0.1 localhost me\n10.0.0.1\tcar\nfd00::1\tcar\n");
    }

    #[test]
    fn variable_names_have_only_letters_digits_and_underscores() {
        assert_eq!(variable("car-7.b"), "ROUGHLINK_CAR_7_B");
    }
}
