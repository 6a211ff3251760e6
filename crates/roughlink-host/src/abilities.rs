//! Features of this machine, found by trying them in a short-lived process.

use crate::confine::{KeptRight, confine};
use crate::device::{Device, Setup};
use crate::error::{HostError, Operation};
use crate::namespace::{Namespace, become_root};
use crate::program::Launcher;
use crate::realtime::raise_priority;
use crate::rules::QueueRules;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::process::Stdio;

/// Feature that this machine has or lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ability {
    /// Name of the feature.
    pub name: &'static str,
    /// Commands that use the feature.
    pub commands: &'static [&'static str],
    /// Purpose of the feature.
    pub what_for: &'static str,
    /// Error that shows that the feature is missing, if it is.
    pub missing: Option<String>,
}

/// Tries the features that emulations, and gateways on real packets, need.
pub fn abilities(launcher: &Launcher) -> Vec<Ability> {
    let (plain, rootless) = (tried(launcher, &[]), tried(launcher, &["rootless"]));
    let ability = |name, commands, what_for, missing| Ability { name, commands, what_for, missing };
    let (emulate, gateway): (&[_], &[_]) = (&["emulate"], &["gateway"]);
    vec![
        ability("namespaces", emulate, "kernel nodes", missing_in(&plain, NAMESPACE)),
        ability("tun", emulate, "packets between kernel nodes and links", missing_in(&plain, DEVICE)),
        ability(
            "rootless",
            emulate,
            "kernel nodes without root",
            missing_in(&rootless, NAMESPACE).or_else(|| missing_in(&rootless, DEVICE)),
        ),
        ability("real_time", &["emulate", "gateway"], "SCHED_FIFO, on time under load", missing_in(&plain, FIFO)),
        ability("packet_socket", gateway, "run --between", missing_in(&plain, PACKET_SOCKET)),
        ability("netfilter_queue", gateway, "run --queue", missing_in(&plain, QUEUE)),
        ability("queue_rules", gateway, "run --queue --install", missing_in(&plain, RULES)),
        ability("confinement", gateway, "no files, few system calls", missing_in(&plain, CONFINEMENT)),
    ]
}

/// Returns the output of a process that tries the features.
fn tried(launcher: &Launcher, arguments: &[&str]) -> String {
    let mut command = launcher.command();
    let out = command.arg(PROBE).args(arguments).stdin(Stdio::null()).output();
    out.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default()
}

/// Returns the error of a feature in such an output.
fn missing_in(said: &str, name: &str) -> Option<String> {
    match said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')) {
        Some("") => None,
        Some(reason) => Some(reason.to_owned()),
        None => Some("the check did not run".to_owned()),
    }
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
    let here = namespace.as_ref().map_or_else(|_| Namespace::here(), Namespace::try_clone);
    let is_own = namespace.is_ok();
    print_result(NAMESPACE, namespace.map(drop));
    print_result(DEVICE, device);
    if rootless {
        return;
    }
    print_result(FIFO, raise_priority());
    let Ok(here) = here else { return };
    print_result(PACKET_SOCKET, here.within(open_packet_socket).and_then(|opened| opened));
    print_result(QUEUE, Device::queue(&here, UNUSED_QUEUE).map(drop));
    // Rules of the machine itself must not change.
    let rules = match is_own {
        true => QueueRules { queue: UNUSED_QUEUE, inside: None, icmp: false }.install(&here).map(drop),
        false => Err(HostError::io(Operation::QueueRules)(io::ErrorKind::PermissionDenied.into())),
    };
    print_result(RULES, rules);
    // Last, because it cannot be undone.
    let missing = confine("nobody", KeptRight::Nothing).unwrap_or_else(|e| vec![e.with_cause()]);
    println!("{CONFINEMENT}={}", missing.join("; ").replace('\n', " "));
}

/// Prints the error of a feature, or nothing after its name.
fn print_result(name: &str, tried: Result<(), HostError>) {
    println!("{name}={}", tried.err().map(|e| e.with_cause()).unwrap_or_default().replace('\n', " "));
}

fn open_packet_socket() -> Result<(), HostError> {
    let opened = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None);
    opened.map(drop).map_err(HostError::errno("open a packet socket"))
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
const PACKET_SOCKET: &str = "packet_socket";
const QUEUE: &str = "queue";
const RULES: &str = "rules";
const CONFINEMENT: &str = "confinement";
/// Number of a netfilter queue that hardly anyone uses.
const UNUSED_QUEUE: u16 = 64_999;
