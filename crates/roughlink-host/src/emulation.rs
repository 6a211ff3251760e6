//! Emulations: scenarios with kernel nodes or attached devices, run in real time.

use crate::block::AddressBlock;
use crate::carrier::Carrier;
use crate::congestion::{DefaultCongestionControl, RENO};
use crate::conversations::{ConversationResults, Conversations};
use crate::device::{Device, Setup, name_at};
use crate::error::{HostError, UnfitReason};
use crate::ethernet::Switch;
use crate::event_loop::{Lateness, Loop, LoopCounters};
use crate::frames::Frames;
use crate::live::{AppliedChange, Live, LiveWatch};
use crate::mac::node_mac;
use crate::namespace::Namespace;
use crate::nodes::{ListedNode, list, path_of};
use crate::realtime::{Effort, MonotonicClock};
use crate::relay::{LoopEnd, NetworkEdge, carry};
use crate::routes::full;
use crate::scheduling::{RunDelay, RunDelayMonitor};
use crate::senders::{SenderMonitor, SocketTable};
use crate::undelivered::undelivered;
use roughlink_core::metrics::frames::FrameCount;
use roughlink_core::metrics::{FlowReport, RunResult};
use roughlink_core::net::addresses::{Prefix, link_local, node_address, node_address_v6};
use roughlink_core::net::avln::ModemReport;
use roughlink_core::net::{Network, Observer, PortStats, RunLimits, RunOptions};
use roughlink_core::scenario::{HostInterface, LinkSpec, Scenario};
use roughlink_core::units::Time;
use std::collections::BTreeSet;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Real node: a kernel node or a node behind an attached device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmulatedHost {
    /// Index of the node in the scenario.
    pub node: usize,
    /// Location of the node.
    pub place: NodeLocation,
}

/// Location of a real node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeLocation {
    /// Separate network namespace for the node.
    Own,
    /// Namespace of the thread that opens the emulation: the node is the machine itself. Attached devices are in it,
    /// too, unless their names contain a namespace.
    Here,
}

/// Settings of an emulation.
#[derive(Clone, Debug, Default)]
pub struct EmulationSettings {
    /// Replica number: selects other random numbers for the same scenario.
    pub replica: u32,
    /// Limits on the network's resources.
    pub limits: RunLimits,
    /// True if other threads watch the emulation or change its links: [`Running::live`].
    pub live: bool,
    /// True if devices lose their carrier while the links at their nodes are down.
    pub carrier: bool,
    /// Kernel's name of the default congestion control in separate namespaces; Reno if absent.
    pub congestion_control: Option<String>,
    /// Flows that stay simulated although their nodes are real.
    pub inside: BTreeSet<usize>,
    /// Node that forwards packets, and addresses routed to it for links that begin there.
    pub behind: Option<(usize, AddressBlock)>,
}

struct RealNode {
    name: String,
    namespace: Namespace,
    addresses: Vec<IpAddr>,
    /// True if the namespace existed before, so that its other contents do not belong to the emulation.
    shared: bool,
    /// Default congestion control; `None` behind an attached device.
    congestion_control: Option<DefaultCongestionControl>,
}

impl RealNode {
    /// Returns true if programs run in the node's namespace, and false behind an attached device.
    fn is_ours(&self) -> bool {
        !self.addresses.is_empty()
    }
}

/// Emulation that is set up and has not started.
pub struct Emulation {
    network: Network,
    nodes: Vec<RealNode>,
    devices: Vec<Device>,
    switch: Switch,
    carrier: Option<Carrier>,
    scenario: Arc<Scenario>,
    listed: File,
    live: Option<Arc<Live>>,
}

impl Emulation {
    /// Creates namespaces, devices, addresses and routes for the real nodes of a scenario. Leaves the rest of the
    /// machine unchanged. Dropping the emulation removes everything.
    ///
    /// # Errors
    /// Returns an error if a permission, a feature of this machine or a device to attach is missing.
    pub fn open(
        scenario: impl Into<Arc<Scenario>>,
        hosts: &[EmulatedHost],
        settings: &EmulationSettings,
    ) -> Result<Self, HostError> {
        let scenario = scenario.into();
        // Route addresses outside the scenario through the machine if it is one of the nodes.
        let here = hosts.iter().find(|host| host.place == NodeLocation::Here).map(|host| host.node);
        let beyond = here.into_iter().flat_map(|node| everything().map(|prefix| (prefix, node)));
        let behind =
            settings.behind.into_iter().flat_map(|(node, block)| block.prefixes().map(|prefix| (prefix, node)));
        let options = RunOptions {
            beyond: beyond.chain(behind).collect(),
            replica: settings.replica,
            limits: settings.limits,
            changes: settings.live,
            ports: hosts.iter().map(|host| host.node).collect(),
            inside: settings.inside.clone(),
            ..RunOptions::default()
        };
        let network = Network::new(Arc::clone(&scenario), options)?;
        // Route to other networks only if the machine forwards packets.
        let forwards = if here.is_some() { Namespace::here()?.forwards()? } else { [false; 2] };
        let (mut nodes, mut devices) = (Vec::new(), Vec::new());
        for host in hosts {
            let name = scenario.nodes[host.node].name.clone();
            if let HostInterface::Attached(interface) = &scenario.nodes[host.node].interface {
                let (namespace, device) = match interface.rsplit_once('/') {
                    Some((namespace, device)) => (Namespace::named(namespace)?, device),
                    None => (Namespace::here()?, &**interface),
                };
                if is_attached((&nodes, &devices), &namespace, device)? {
                    let reason =
                        UnfitReason("is already attached to another node", "attach each device to one node only");
                    return Err(HostError::Unfit { name: device.to_owned(), reason });
                }
                devices.push(Device::attach(&namespace, device, mtu(&scenario, host.node))?);
                nodes.push(RealNode { name, namespace, addresses: Vec::new(), shared: true, congestion_control: None });
                continue;
            }
            let namespace = match host.place {
                NodeLocation::Own => Namespace::new()?,
                NodeLocation::Here => Namespace::here()?,
            };
            let congestion_control = Some(match host.place {
                NodeLocation::Own => {
                    DefaultCongestionControl::set(&namespace, settings.congestion_control.as_deref().unwrap_or(RENO))?
                }
                NodeLocation::Here => DefaultCongestionControl::read(&namespace)?,
            });
            let mut setup = setup(&scenario, *host);
            match settings.behind {
                Some((node, block)) if node == host.node => setup.behind.extend(block.prefixes()),
                Some((node, block)) => {
                    setup.beyond.extend(block.prefixes().into_iter().flat_map(|p| through(&scenario, node, p)))
                }
                None => {}
            }
            if let Some(node) = here.filter(|_| host.place != NodeLocation::Here) {
                let forwarded = everything().into_iter().zip(forwards).filter(|(_, does)| *does);
                setup.beyond.extend(forwarded.flat_map(|(prefix, _)| through(&scenario, node, prefix)));
            }
            devices.push(Device::new(&namespace, &setup)?);
            if !setup.behind.is_empty() {
                namespace.forward()?;
            }
            nodes.push(RealNode {
                name,
                namespace,
                addresses: setup.addresses,
                shared: setup.shared,
                congestion_control,
            });
        }
        let namespace = |name: &str| {
            let ours = nodes.iter().find(|n| n.name == name && n.is_ours());
            ours.map(|n| n.namespace.number())
        };
        // Programs behind nested links reach the machine's services at the outermost end.
        let addresses = |node| match settings.behind {
            Some((_, block)) if here == Some(node) => vec![IpAddr::V4(block.outermost())],
            _ => both_addresses(&scenario, node).to_vec(),
        };
        let listed = scenario.nodes.iter().enumerate();
        let listed = listed.map(|(i, node)| ListedNode::new(&node.name, addresses(i), namespace(&node.name)));
        let listed = list(&listed.collect::<Vec<_>>())?;
        let switch = Switch::new(&scenario, &hosts.iter().map(|host| host.node).collect::<Vec<_>>());
        let carrier = if settings.carrier { Some(carrier(&scenario, hosts, (&nodes, &devices))?) } else { None };
        let live = settings.live.then(|| Live::new(Arc::clone(&scenario)));
        Ok(Emulation { network, nodes, devices, switch, carrier, scenario, listed, live })
    }

    /// Returns warnings to print before the start.
    pub fn warnings(&self) -> Vec<String> {
        let of = |node: &RealNode| {
            let (name, control) = (&node.name, node.congestion_control.as_ref()?);
            let refused = control.refused.as_ref().map(|wanted| {
                format!(
                    "{name}: the kernel has no `{wanted}` for network namespaces; the default is `{}`",
                    control.name
                )
            });
            // A separate namespace needs no warning: the scenario requested the algorithm.
            let paced = (control.paced && node.shared).then(|| {
                format!(
                    "{name}: the default congestion control of this machine is `{}`, so the kernel paces every sender \
                     here, even one that selects another algorithm after connect or accept",
                    control.name
                )
            });
            refused.or(paced)
        };
        self.devices.iter().flat_map(Device::warnings).chain(self.nodes.iter().filter_map(of)).collect()
    }

    /// Returns names and default congestion controls of the nodes whose kernels are on this machine.
    pub fn congestion_controls(&self) -> impl Iterator<Item = (&str, &DefaultCongestionControl)> {
        self.nodes.iter().filter_map(|node| Some((&*node.name, node.congestion_control.as_ref()?)))
    }

    /// Returns the namespace of the host at index `host` of the list.
    pub fn namespace(&self, host: usize) -> &Namespace {
        &self.nodes[host].namespace
    }

    /// Returns the path of the list of nodes, in which programs look up their node.
    pub fn directory(&self) -> PathBuf {
        path_of(&self.listed)
    }

    /// Returns name, device and addresses of each real node; a host behind an attached device has no addresses.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, &str, &[IpAddr])> {
        self.nodes.iter().zip(&self.devices).map(|(node, device)| (&*node.name, &*device.name, &*node.addresses))
    }

    /// Starts the clock and the network.
    pub fn start<O: Observer + Send + 'static>(self, observer: O) -> Running<O> {
        let Emulation { network, nodes, devices, switch, carrier, scenario, listed, live } = self;
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let nodes = Arc::new(nodes);
        let theirs = Arc::clone(&nodes);
        let conversations = Conversations::new(nodes.iter().flat_map(|node| node.addresses.iter().copied()));
        let mut edge = NetworkEdge { switch, carrier, conversations, watch: LiveWatch::new(live.clone()) };
        let socket_table = |node: &RealNode| {
            SocketTable::open(&node.namespace, &node.addresses, node.congestion_control.as_ref()?).ok()
        };
        let senders = SenderMonitor::start(nodes.iter().filter_map(socket_table).collect());
        // A device drops packets that its kernel sends before it is fully up: do not count them.
        let before = dropped(&nodes, &devices);
        let clock = MonotonicClock::start();
        let run_delay = RunDelayMonitor::start(clock);
        let thread = thread::spawn(move || {
            let mut packets = Loop::with_clock(devices, clock);
            let mut network = network.observed_by((observer, Frames::default()));
            let ending = carry(&mut network, &mut packets, &mut edge, scenario.duration, &told);
            // Read the counters now: later datagrams would be counted as overruns.
            let after = dropped(&theirs, packets.devices());
            let overruns = after.zip(before).map(|(after, before)| after.saturating_sub(before));
            let NetworkEdge { switch, conversations, mut watch, .. } = edge;
            let achieved = conversations.results(usize::MAX, network.in_flight().chain(switch.waiting()));
            LoopResult {
                frames: network.observer().1.counts(|node| scenario.nodes[node].name.clone()),
                network,
                achieved,
                ending,
                counters: packets.counters(),
                overruns,
                unanswered: switch.unanswered(),
                modems: switch.modems(packets.now(), |port| theirs[port].name.clone()),
                changes: watch.changed(),
            }
        });
        Running { thread, stop, nodes, listed, live, clock, run_delay, senders }
    }
}

fn is_attached(
    (nodes, devices): (&[RealNode], &[Device]),
    namespace: &Namespace,
    device: &str,
) -> Result<bool, HostError> {
    for (node, _) in nodes.iter().zip(devices).filter(|(_, other)| other.name == device) {
        if node.namespace.inode()? == namespace.inode()? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns how many packets kernels have dropped at full device queues, or `None` if a count cannot be read.
fn dropped(nodes: &[RealNode], devices: &[Device]) -> Option<u64> {
    nodes.iter().zip(devices).map(|(node, device)| device.dropped(&node.namespace)).sum()
}

struct LoopResult<O> {
    network: Network<(O, Frames)>,
    achieved: ConversationResults,
    frames: Vec<FrameCount>,
    ending: LoopEnd,
    counters: LoopCounters,
    /// Datagrams that a kernel dropped because its device's queue was full, if the count is known.
    overruns: Option<u64>,
    /// Datagrams for hosts behind attached devices that did not answer ARP or neighbor discovery.
    unanswered: u64,
    modems: Vec<ModemReport>,
    changes: Vec<AppliedChange>,
}

/// Running emulation, in a separate thread.
pub struct Running<O> {
    thread: JoinHandle<LoopResult<O>>,
    stop: Arc<AtomicBool>,
    nodes: Arc<Vec<RealNode>>,
    /// List of nodes, kept open so that [`crate::directories`] finds it.
    #[expect(dead_code, reason = "it is found by its name")]
    listed: File,
    live: Option<Arc<Live>>,
    pub(crate) clock: MonotonicClock,
    run_delay: RunDelayMonitor,
    senders: SenderMonitor,
}

/// Results of an emulation.
#[derive(Clone, Debug)]
pub struct EmulationResults {
    /// Results as for a simulated run.
    pub result: RunResult,
    /// Results of the programs' conversations.
    pub achieved: ConversationResults,
    /// Frames without an IP datagram, by protocol, sender and receiver.
    pub frames: Vec<FrameCount>,
    /// Lateness of outgoing datagrams; `None` if there were no datagrams.
    pub lateness: Option<Lateness>,
    /// Minimum waiting time of incoming datagrams at their device; `None` if there were no datagrams.
    pub waited: Option<Lateness>,
    /// Time that programs waited for a processor.
    pub run_delay: RunDelay,
    /// Longest time for which the network did not process due events.
    pub stall: Time,
    /// Datagrams and frames that a kernel dropped because the loop read them late; `None` if the count cannot be read.
    pub overruns: Option<u64>,
    /// Datagrams and frames that a kernel rejected because its device was down or full.
    pub refused: u64,
    /// Frames from attached devices above the MTU, or joined in a way that cannot be divided.
    pub oversized: u64,
    /// Datagrams dropped because no host behind the attached device answered ARP or neighbor discovery.
    pub unanswered: u64,
    /// Modems between hosts and charging cables.
    pub modems: Vec<ModemReport>,
    /// Counters of the ports.
    pub ports: PortStats,
    /// Reason for the end.
    pub ending: LoopEnd,
    /// Error that denied the loop real-time priority, if any.
    pub unhurried: Option<String>,
    /// Processor time of the loop.
    pub effort: Effort,
    /// Changes of links from outside, in order of time.
    pub changes: Vec<AppliedChange>,
}

impl EmulationResults {
    /// Returns the ways in which the link or the programs were too slow. At most 1 % of packets may be later than
    /// `most_late`.
    pub fn faults(&self, most_late: Time) -> Vec<String> {
        let late = |times: Option<Lateness>| times.map(|l| l.p99).filter(|p99| *p99 > most_late.0 as f64 / 1e3);
        let longest_stall = Time(most_late.0.saturating_mul(STALL));
        let of = |us, what| format!("1 % of {what} than {us:.0} us (limit {most_late})");
        [
            late(self.lateness).map(|us| format!("the link was late: {}", of(us, "packets left late by more"))),
            late(self.waited).map(|us| format!("the link read packets late: {}", of(us, "packets waited for more"))),
            late(self.run_delay.per_slice).map(|us| {
                format!("programs waited for a processor: {}", of(us, "their time slices began late by more"))
            }),
            (self.stall > longest_stall).then(|| format!("the link stalled for {}", self.stall)),
            (self.overruns.filter(|count| *count > 0))
                .map(|count| format!("{count} packets were dropped because the link read them too slowly")),
            (self.overruns.is_none())
                .then(|| "the kernel's counter of packets dropped before the link cannot be read".to_owned()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl<O> Running<O> {
    /// Returns true if the loop has ended without a request to stop.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Returns the namespace of the host at index `host` of the list.
    pub fn namespace(&self, host: usize) -> &Namespace {
        &self.nodes[host].namespace
    }

    /// Returns how many TCP bytes are still unsent or unacknowledged after programs closed their sockets or ended.
    pub fn undelivered(&self) -> u64 {
        let ours = self.nodes.iter().filter(|node| !node.shared);
        ours.filter_map(|node| node.namespace.within(undelivered).ok()).sum()
    }

    /// Returns the handle for watching and changing the emulation, if [`EmulationSettings`] enable it.
    pub fn live(&self) -> Option<Arc<Live>> {
        self.live.clone()
    }

    /// Stops the emulation and returns its results and the observer.
    pub fn finish(self) -> (EmulationResults, O) {
        self.finish_with(|_| Vec::new())
    }

    /// Like [`Running::finish`], but first sets the reports on flows carried by kernels. `reports` computes them, with
    /// their flow numbers, from the results of all conversations.
    pub(crate) fn finish_with(
        self,
        reports: impl FnOnce(&ConversationResults) -> Vec<(usize, FlowReport)>,
    ) -> (EmulationResults, O) {
        self.stop.store(true, Ordering::Relaxed);
        let (run_delay, senders) = (self.run_delay.finish(), self.senders.finish());
        let carried = self.thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        let LoopResult { mut network, mut achieved, frames, ending, counters, overruns, unanswered, modems, changes } =
            carried;
        let LoopCounters { lateness, waited, stall, refused, oversized, effort, elapsed, unhurried } = counters;
        achieved.add_senders(&senders);
        reports(&achieved).into_iter().for_each(|(flow, report)| network.set_report(flow, report));
        let mut result = network.result();
        result.wall_s = Duration::from_nanos(elapsed.0).as_secs_f64();
        let outcome = EmulationResults {
            result,
            achieved,
            frames,
            lateness,
            waited,
            run_delay,
            stall,
            overruns,
            refused,
            oversized,
            unanswered,
            modems,
            ports: network.port_stats(),
            ending,
            unhurried,
            effort,
            changes,
        };
        (outcome, network.detach_observer().1.0)
    }
}

/// Returns prefixes of all IPv4 and all IPv6 addresses.
fn everything() -> [Prefix; 2] {
    [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)].map(|address| Prefix { address, length: 0 })
}

fn both_addresses(scenario: &Scenario, node: usize) -> [IpAddr; 2] {
    [IpAddr::V4(node_address(scenario, node)), IpAddr::V6(node_address_v6(scenario, node))]
}

/// Returns a prefix with the address of the node that forwards to it, of the same IP version.
fn through(scenario: &Scenario, node: usize, prefix: Prefix) -> Option<(Prefix, IpAddr)> {
    let is_v4 = prefix.address.is_ipv4();
    both_addresses(scenario, node).into_iter().find(|a| a.is_ipv4() == is_v4).map(|address| (prefix, address))
}

fn links_at(scenario: &Scenario, node: usize) -> impl Iterator<Item = (usize, &LinkSpec)> {
    scenario.links.iter().enumerate().filter(move |(_, l)| [l.between.0, l.between.1].contains(&node))
}

/// Returns the MTU of a node's link, or the smallest of several links.
fn mtu(scenario: &Scenario, node: usize) -> u16 {
    links_at(scenario, node).map(|(_, link)| link.model.mtu()).min().unwrap_or(1500)
}

/// Returns the setup of a node's device, which has the name and the MTU of its link.
fn setup(scenario: &Scenario, host: EmulatedHost) -> Setup {
    let links: Vec<_> = links_at(scenario, host.node).collect();
    let others = || (0..scenario.nodes.len()).filter(|node| *node != host.node);
    let both = |node| both_addresses(scenario, node);
    let ethernet = (scenario.nodes[host.node].interface == HostInterface::Ethernet).then(|| {
        let all = |node| both(node).into_iter().chain([IpAddr::V6(link_local(node))]);
        // Addresses of hosts behind an attached device are unknown.
        let known = others().filter(|node| !matches!(scenario.nodes[*node].interface, HostInterface::Attached(_)));
        (node_mac(host.node), known.flat_map(|node| all(node).map(move |a| (a, node_mac(node)))).collect())
    });
    let longest = if ethernet.is_some() { MAX_IN_FRAME_LEN } else { u16::MAX };
    Setup {
        name: name_at(match &links[..] {
            [(_, link)] => &link.name,
            _ => "net",
        }),
        mtu: mtu(scenario, host.node).min(longest),
        addresses: both(host.node).to_vec(),
        link_local: Some(IpAddr::V6(link_local(host.node))),
        others: others().flat_map(both).map(|address| Prefix { address, length: full(&address) }).collect(),
        beyond: Vec::new(),
        behind: Vec::new(),
        ethernet,
        shared: host.place == NodeLocation::Here,
    }
}

/// Creates the carrier of all devices except attached ones.
fn carrier(
    scenario: &Scenario,
    hosts: &[EmulatedHost],
    (nodes, devices): (&[RealNode], &[Device]),
) -> Result<Carrier, HostError> {
    let (mut told, mut links) = (Vec::new(), Vec::new());
    for ((host, node), device) in hosts.iter().zip(nodes).zip(devices).filter(|((_, node), _)| node.is_ours()) {
        told.push((node.namespace.try_clone()?, device.name.clone()));
        links.push(links_at(scenario, host.node).map(|(number, _)| number).collect());
    }
    Carrier::new(told, links)
}

/// Longest stall that is not a fault, in units of the maximum lateness.
const STALL: u64 = 100;
/// Largest MTU of a TAP device, whose frames have at most 65535 bytes.
const MAX_IN_FRAME_LEN: u16 = u16::MAX - 14;
