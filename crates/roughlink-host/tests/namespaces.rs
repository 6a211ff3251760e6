//! Network namespaces among files that other users control.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};
use roughlink_host::Namespace;
use std::collections::HashSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Runs `work` in a separate thread. Panics if it takes too long, as at a FIFO that nobody writes to.
fn within_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    result.recv_timeout(Duration::from_secs(60)).expect("no file blocks")
}

#[test]
fn only_namespaces_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    mkfifo(&*at("fifo"), Mode::S_IRWXU).unwrap();
    fs::write(at("file"), "").unwrap();
    for path in [at("fifo"), at("file"), at("."), "/dev/null".into()] {
        let error = within_time(move || Namespace::named(&path).unwrap_err());
        assert!(error.with_cause().ends_with(": not a network namespace"), "{}", error.with_cause());
    }
    assert!(Namespace::named("/proc/self/ns/net").is_ok());
    // Another kind of namespace cannot be joined.
    assert!(Namespace::named("/proc/self/ns/uts").unwrap().within(|| ()).is_err());
}

/// Hides the mount of a namespace below a file system, where `script` puts something else at the namespace's path.
fn hide(folder: &Path, script: &str) -> Option<Child> {
    if !geteuid().is_root() {
        eprintln!("skipped: acting as another user needs root");
        return None;
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
    let all = format!(
        "mkdir m && mount -t tmpfs none m && mkdir m/d && touch m/d/ns && mount --bind /proc/self/ns/net m/d/ns && \
         mount -t tmpfs none m/d && {script} && echo ready && read line"
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "--net", "sh", "-c", &all]);
    command.uid(NOBODY).gid(NOBODY).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("util-linux has unshare");
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line != "ready\n" {
        eprintln!("skipped: no user namespaces here");
        let _ = child.wait();
        return None;
    }
    Some(child)
}

#[test]
fn mounts_of_other_users_are_not_followed() {
    for script in ["mkfifo m/d/ns", "ln -s /proc/$$/ns/net m/d/ns", "mkdir m/d/ns"] {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut child) = hide(folder.path(), script) else { return };
        let names = within_time(|| {
            let mut names = Vec::new();
            Namespace::visit(|name, _| names.push(name)).map(|()| names)
        });
        let hidden = folder.path().join("m/d/ns");
        let names = names.expect("descriptors suffice");
        assert!(names.iter().all(|name| Path::new(name) != hidden), "{script}: {names:?}");
        // The namespace itself is found at its process.
        assert!(names.contains(&format!("process {}", child.id())), "{script}: {names:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

/// Descriptors suffice for any number of namespaces, because only one is open at a time.
#[test]
fn more_namespaces_than_descriptors_are_visited() {
    let Ok(held) = (0..100).map(|_| Namespace::new()).collect::<Result<Vec<_>, _>>() else {
        eprintln!("skipped: creating namespaces needs root");
        return;
    };
    let numbers: HashSet<u64> = held.iter().map(|namespace| namespace.inode().unwrap()).collect();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 150, hard).unwrap();
    let mut visited = HashSet::new();
    let outcome = Namespace::visit(|_, namespace| {
        visited.insert(namespace.inode().unwrap());
    });
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    outcome.expect("one more descriptor at a time suffices");
    assert!(numbers.is_subset(&visited));
}

/// The path of one namespace leads through a FUSE file system whose server does not answer.
#[test]
fn silent_file_system_does_not_block_a_visit() {
    if !geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: this needs root and FUSE");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut server = Command::new("unshare");
    server.args(["--mount", "--net", "python3", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuse.py")]);
    let mut server = server.arg(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("unshare");
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line.is_empty() {
        eprintln!("skipped: FUSE is not permitted here");
        server.wait().unwrap();
        return;
    }
    let names = within_time(|| {
        let mut names = Vec::new();
        Namespace::visit(|name, _| names.push(name)).map(|()| names)
    });
    let names = names.expect("descriptors suffice");
    assert!(names.contains(&format!("process {}", server.id())), "{names:?}");
    drop(server.stdin.take());
    server.wait().unwrap();
}

const NOBODY: u32 = 65534;
