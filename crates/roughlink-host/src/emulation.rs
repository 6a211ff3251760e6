//! An emulation: a scenario of which some nodes are real.

use crate::device::{Device, Setup, name_at};
use crate::error::HostError;
use crate::namespace::Namespace;
use crate::nodes::list;
use crate::realtime::{Clock, Effort};
use crate::relay::{Counts, Ending, Lateness, carry};
use roughlink_core::metrics::RunResult;
use roughlink_core::net::addresses::{node_address, node_address_v6};
use roughlink_core::net::{Limits, Network, Observer, Options, PortStats};
use roughlink_core::scenario::Scenario;
use roughlink_core::units::Time;
use std::fs::File;
use std::net::IpAddr;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A node that is real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// The node, by its number in the scenario.
    pub node: usize,
    /// Where it is.
    pub place: Place,
}

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a network namespace of its own.
    Own,
    /// In the namespace of the thread that opens the emulation: it is the machine itself.
    Here,
}

/// How to emulate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Replica number: the same scenario with other random numbers.
    pub replica: u32,
    /// What the network may use.
    pub limits: Limits,
}

/// A real node, ready.
struct Node {
    name: String,
    namespace: Namespace,
    addresses: Vec<IpAddr>,
}

/// An emulation that is set up and has not begun.
pub struct Emulation {
    network: Network,
    nodes: Vec<Node>,
    devices: Vec<Device>,
    end: Time,
    listed: File,
}

impl Emulation {
    /// Makes namespaces, devices, addresses and routes for the nodes of a scenario that are real. Nothing else of the machine
    /// changes, and everything is gone with the emulation.
    ///
    /// # Errors
    /// A right is missing, or what this machine needs for it.
    pub fn open(scenario: impl Into<Arc<Scenario>>, hosts: &[Host], settings: &Settings) -> Result<Self, HostError> {
        let scenario = scenario.into();
        let options = Options {
            replica: settings.replica,
            limits: settings.limits,
            ports: hosts.iter().map(|host| host.node).collect(),
            ..Options::default()
        };
        let network = Network::new(Arc::clone(&scenario), options)?;
        let (mut nodes, mut devices) = (Vec::new(), Vec::new());
        for host in hosts {
            let namespace = match host.place {
                Place::Own => Namespace::new()?,
                Place::Here => Namespace::here()?,
            };
            let setup = setup(&scenario, *host);
            devices.push(Device::new(&namespace, &setup)?);
            nodes.push(Node { name: scenario.nodes[host.node].clone(), namespace, addresses: setup.addresses });
        }
        let listed = list(nodes.iter().map(|node| (&*node.name, node.namespace.path())))?;
        Ok(Emulation { network, nodes, devices, end: scenario.duration, listed })
    }

    /// The namespace of the host at this place of the list.
    pub fn namespace(&self, host: usize) -> &Namespace {
        &self.nodes[host].namespace
    }

    /// Where other processes find the namespace of a node.
    pub fn place_of(&self, node: &str) -> Option<PathBuf> {
        self.nodes.iter().find(|n| n.name == node).map(|n| n.namespace.path())
    }

    /// The real nodes: name, device, addresses.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, &str, &[IpAddr])> {
        self.nodes.iter().zip(&self.devices).map(|(node, device)| (&*node.name, &*device.name, &*node.addresses))
    }

    /// Starts the clock, and with it the network.
    pub fn start<O: Observer + Send + 'static>(self, mut observer: O) -> Running<O> {
        let Emulation { mut network, nodes, devices, end, listed } = self;
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let clock = Clock::start();
        let thread = thread::spawn(move || {
            let (ending, counts) = carry(&mut network, &mut observer, &devices, (clock, end), &told);
            Carried { network, observer, devices, ending, counts }
        });
        Running { thread, stop, nodes, listed }
    }
}

/// What the loop leaves.
struct Carried<O> {
    network: Network,
    observer: O,
    devices: Vec<Device>,
    ending: Ending,
    counts: Counts,
}

/// An emulation at work, in a thread of its own.
pub struct Running<O> {
    thread: JoinHandle<Carried<O>>,
    stop: Arc<AtomicBool>,
    nodes: Vec<Node>,
    /// Kept open: [`crate::directories`] finds it.
    #[expect(dead_code, reason = "it is found by its name")]
    listed: File,
}

/// What an emulation achieved.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What a run has.
    pub result: RunResult,
    /// How late datagrams left; nothing if none did.
    pub lateness: Option<Lateness>,
    /// Datagrams that a kernel dropped because the loop did not take them in time.
    pub overruns: u64,
    /// Datagrams that a kernel did not take, because its device was down.
    pub refused: u64,
    /// What the ports counted.
    pub ports: PortStats,
    /// Why it ended.
    pub ending: Ending,
    /// Why the loop had no real-time priority, if it had none.
    pub unhurried: Option<String>,
    /// What the loop used of the processors.
    pub effort: Effort,
}

impl<O> Running<O> {
    /// Whether the loop has ended by itself.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// The namespace of the host at this place of the list.
    pub fn namespace(&self, host: usize) -> &Namespace {
        &self.nodes[host].namespace
    }

    /// Ends it; the observer comes back.
    pub fn finish(self) -> (Outcome, O) {
        self.stop.store(true, Ordering::Relaxed);
        let carried = self.thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        let Carried { network, observer, devices, ending, counts } = carried;
        let dropped = |(node, device): (&Node, &Device)| device.dropped(&node.namespace);
        let overruns = self.nodes.iter().zip(&devices).filter_map(dropped).sum();
        let mut result = network.result();
        result.wall_s = Duration::from_nanos(counts.elapsed.0).as_secs_f64();
        let outcome = Outcome {
            result,
            lateness: counts.lateness(),
            overruns,
            refused: counts.refused,
            ports: network.port_stats(),
            ending,
            unhurried: counts.unhurried.as_ref().map(HostError::whole),
            effort: counts.effort,
        };
        (outcome, observer)
    }
}

/// How the device of a node is set up: named after its link, with its MTU; of several links, the smallest.
fn setup(scenario: &Scenario, host: Host) -> Setup {
    let at = |l: &&roughlink_core::scenario::LinkSpec| [l.between.0, l.between.1].contains(&host.node);
    let links: Vec<_> = scenario.links.iter().filter(at).collect();
    let both = |node| [IpAddr::V4(node_address(node)), IpAddr::V6(node_address_v6(node, false))];
    let others = (0..scenario.nodes.len()).filter(|node| *node != host.node).flat_map(both);
    Setup {
        name: name_at(match &links[..] {
            [link] => &link.name,
            _ => "net",
        }),
        mtu: links.iter().map(|link| link.model.mtu()).min().unwrap_or(1500),
        addresses: both(host.node).to_vec(),
        link_local: Some(IpAddr::V6(node_address_v6(host.node, true))),
        others: others.collect(),
        shared: host.place == Place::Here,
    }
}
