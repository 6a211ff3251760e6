//! Features of this machine, found by trying them in a short-lived process.

use crate::device::{Device, Setup};
use crate::error::{HostError, Operation};
use crate::namespace::{Namespace, become_root};
use crate::program::Launcher;
use crate::realtime::raise_priority;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::process::Stdio;

/// Feature that this machine has or lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ability {
    /// Name of the feature.
    pub name: &'static str,
    /// Purpose of the feature.
    pub what_for: &'static str,
    /// Error that shows that the feature is missing, if it is.
    pub missing: Option<String>,
}

/// Tries the features that emulation needs.
pub fn abilities(launcher: &Launcher) -> Vec<Ability> {
    let try_in = |arguments: &[&str]| {
        let mut command = launcher.command();
        let out = command.arg(PROBE).args(arguments).stdin(Stdio::null()).output();
        out.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default()
    };
    let (plain, rootless) = (try_in(&[]), try_in(&["rootless"]));
    let of = |said: &str, name| match said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')) {
        Some("") => None,
        Some(reason) => Some(reason.to_owned()),
        None => Some("the check did not run".to_owned()),
    };
    let ability = |name, what_for, missing| Ability { name, what_for, missing };
    vec![
        ability("namespaces", "emulate: kernel nodes", of(&plain, NAMESPACE)),
        ability("tun", "emulate: packets between kernel nodes and links", of(&plain, DEVICE)),
        ability("rootless", "emulate without root", of(&rootless, NAMESPACE).or_else(|| of(&rootless, DEVICE))),
        ability("real_time", "emulate: SCHED_FIFO, keeps links on time under load", of(&plain, FIFO)),
    ]
}

/// Tries the features and prints the error of each missing one.
pub(crate) fn probe(rootless: bool) {
    let user = if rootless { become_root() } else { Ok(()) };
    let namespace = user.and_then(|()| Namespace::new());
    let setup = Setup { name: "probe%d".into(), mtu: 1500, ..Setup::default() };
    let device = match &namespace {
        // Root may open files that other users may not.
        Ok(_) if rootless && !is_open_to_all() => Err(HostError::io(Operation::Tun(format!(
            "open {DRIVER} without root"
        )))(io::ErrorKind::PermissionDenied.into())),
        Ok(namespace) => Device::new(namespace, &setup).map(drop),
        Err(_) => open_driver(),
    };
    let namespace = namespace.map(drop);
    for (name, tried) in [(NAMESPACE, namespace), (DEVICE, device), (FIFO, raise_priority())] {
        println!("{name}={}", tried.err().map(|e| e.with_cause()).unwrap_or_default().replace('\n', " "));
    }
}

/// Opens the driver: the part of a device's creation that needs no namespace.
fn open_driver() -> Result<(), HostError> {
    let opened = OpenOptions::new().read(true).write(true).open(DRIVER);
    opened.map(drop).map_err(HostError::io(Operation::Tun(format!("open {DRIVER}"))))
}

fn is_open_to_all() -> bool {
    fs::metadata(DRIVER).is_ok_and(|m| m.mode() & 0o006 == 0o006)
}

/// Stage of [`crate::inside::main`] that tries the features.
pub(crate) const PROBE: &str = "probe";
const DRIVER: &str = "/dev/net/tun";

const NAMESPACE: &str = "namespace";
const DEVICE: &str = "device";
const FIFO: &str = "fifo";
