//! The network of a scenario. It has the four methods of every element and no clock, borrows nothing and is `Send`.
//! [`Network::wake`] replays every event that is due, each at its own time. A simulation ([`Network::run`]) is
//! therefore one call with the end of the scenario, and a late caller in real time does not change results.
//!
//! A network is cut into components: two links are in the same one if a flow uses both or if they share a cable.
//! Components share no state and run one after the other, so the memory of each stays in the cache, or on several
//! threads ([`Network::run_on`]). Ties are broken by position (see [`calendar`]) and every random stream is named, so
//! neither partition nor threads can change a result.
//!
//! Each link direction has one event in the calendar of its component, the next arrival, and each flow one, its next
//! timer. Timers are lazy: an event may fire too early and be rescheduled, but never too late. Two links form a cascade
//! if all packets of the first continue to the second and no other link feeds the second. Queueing and departure at the
//! second are then computed on entry to the first; the arrival in between counts as an event but is not scheduled.

pub mod addresses;
pub mod avln;
mod budget;
pub mod calendar;
mod component;
mod end;
mod flow;
mod observer;
mod parallel;
mod partition;
mod reading;
pub mod reassembly;
pub mod routing;

use crate::link::{Direction, Model, Noise};
use crate::metrics::{FlowReport, NetworkReports, RunResult};
use crate::rng::Seed;
use crate::scenario::{FlowSpec, ProxySpec, Scenario};
use crate::units::{Rate, Time};
use crate::wire::Datagram;
use addresses::Prefix;
use budget::Budget;
pub use budget::{Exceeded, MAX_BYTES, RunLimits};
use component::Component;
pub use end::Sending;
pub use observer::{Crossing, InterfaceDirection, LinkState, NetworkEvent, NoObserver, Observer};
use partition::ComponentPlan;
pub use reading::LinkReading;
use routing::FlowPath;
pub use routing::{Hop, NoPath};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Options of a run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Replica number: the same scenario with other random numbers.
    pub replica: u32,
    /// Run all components in one event queue: slower, with the same result, but observers see events in order of time.
    pub one_component: bool,
    /// Nodes whose hosts are outside the network. Each has a port, numbered by its position in this list. Pass the
    /// host's packets to [`Network::receive`] or [`Network::forward`] and fetch packets for it from
    /// [`Network::transmit`].
    pub ports: Vec<usize>,
    /// Flows of the scenario that keep both ends in the network, even with ports at their nodes.
    pub inside: BTreeSet<usize>,
    /// Prefixes of hosts behind a node, routed to it by longest match; link-local and group addresses are not routed.
    pub beyond: Vec<(Prefix, usize)>,
    /// Allows [`Network::change`]. Affects speed only, not results.
    pub changes: bool,
    /// Limits on events and memory.
    pub limits: RunLimits,
    /// Flag that another thread sets to end the run soon, with [`Exceeded::Stopped`].
    pub stop: Option<Arc<AtomicBool>>,
}

/// Change of a link from outside; `None` leaves a property unchanged.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LinkChange {
    /// Set if packets pass.
    pub up: Option<bool>,
    /// Serialization rate.
    pub rate: Option<Rate>,
    /// Propagation delay.
    pub delay: Option<Time>,
    /// Signal strength in dBm. Packets do not depend on it, but hosts are notified.
    pub signal: Option<f64>,
    /// Losses.
    pub noise: Option<Noise>,
}

/// Reasons why a link cannot be changed from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The network was created without [`RunOptions::changes`].
    #[error("the network does not accept changes from outside")]
    Closed,
    /// A medium: its rate follows from its own keys.
    #[error("cannot change a power-line medium from outside; only pipes can change")]
    Medium,
    /// A rate of 0: set `up` to false instead.
    #[error("the rate must be greater than zero; set the link down instead")]
    NoRate,
    /// A rate for a link that follows a recorded trace.
    #[error("cannot set the rate of this link: it follows a recorded trace")]
    Recorded,
}

impl LinkChange {
    /// Checks that this change applies to a link of `model` in these directions.
    ///
    /// # Errors
    /// Returns the reason if it does not apply.
    pub fn check(&self, model: &Model, directions: [bool; 2]) -> Result<(), ChangeError> {
        let pipe = model.as_pipe().ok_or(ChangeError::Medium)?;
        if self.rate.is_some_and(|rate| rate.0 == 0) {
            return Err(ChangeError::NoRate);
        }
        let recorded = |way: &Direction| way.timeline.as_ref().is_some_and(|t| t.opportunities.is_some());
        let ways = [&pipe.forward, &pipe.reverse];
        if self.rate.is_some() && ways.into_iter().zip(directions).any(|(way, changes)| changes && recorded(way)) {
            return Err(ChangeError::Recorded);
        }
        Ok(())
    }
}

/// A datagram or frame that leaves the network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkOutput {
    /// Arrival time at the port, at which the caller should deliver it outside.
    pub due: Time,
    /// Time of entry into the network; `None` if an end inside or a gateway sent the datagram.
    pub since: Option<Time>,
    /// Number of the port.
    pub port: usize,
    /// IP datagram, or frame accepted by [`Network::forward`].
    pub datagram: Datagram,
}

/// Counters of a network's ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortStats {
    /// Datagrams and frames accepted and sent on.
    pub received: u64,
    /// Datagrams and frames that left or wait for [`Network::transmit`].
    pub sent: u64,
    /// Datagrams for an unknown address, or that no end can receive; datagrams and frames without a path.
    pub unreachable: u64,
    /// Bytes that are neither an IP datagram nor a frame, or that the receiving end cannot parse. A call expects RTP
    /// from its talker, and a charging session expects discovery datagrams.
    pub unreadable: u64,
}

/// Reasons why a network cannot be created from a scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// A flow has no path.
    #[error(transparent)]
    NoPath(#[from] NoPath),
    /// The paths of the flows are too long together.
    #[error("the paths of all flows together have more than {} hops", routing::MAX_HOPS)]
    TooManyHops,
    /// Too many sources need a search through a network that is too large.
    #[error("the search for the paths of all flows examines more than {} hops", routing::MAX_SEARCHED)]
    TooManySearches,
    /// A proxy cannot split the connection of a flow with only one end outside the network.
    #[error("proxy `{proxy}` cannot split flow `{flow}`, which has only one end outside the network")]
    HalfOutside {
        /// The proxy.
        proxy: String,
        /// The flow.
        flow: String,
    },
    /// Two ports are at one node.
    #[error("node `{node}` has two ports")]
    Ports {
        /// The node.
        node: String,
    },
}

/// A network in operation, and its observer.
pub struct Network<O = NoObserver> {
    scenario: Arc<Scenario>,
    options: RunOptions,
    paths: Vec<FlowPath>,
    parts: Vec<ComponentSlot>,
    /// Time up to which all events have been processed.
    now: Time,
    budget: Budget,
    /// Set if an observer ended the run.
    stopped: bool,
    reports: NetworkReports,
    /// Reports on flows that kernels carry from end to end, by flow number.
    kernel_reports: BTreeMap<usize, FlowReport>,
    observer: O,
}

/// A component or, until its first event is due, the scenario's numbers of its flows and links.
enum ComponentSlot {
    Planned(ComponentPlan),
    Running(Box<Component>),
    Over,
}

impl ComponentSlot {
    /// Returns the component, created on first use; `None` if it is over.
    fn start(&mut self, s: &Scenario, paths: &[FlowPath], options: &RunOptions) -> Option<&mut Component> {
        if let ComponentSlot::Planned(plan) = self {
            let seed = Seed { seed: s.seed, replica: options.replica };
            *self = ComponentSlot::Running(Box::new(Component::new(s, &seed, paths, plan, options)));
        }
        match self {
            ComponentSlot::Running(component) => Some(component),
            _ => None,
        }
    }
}

impl Network {
    /// Routes the flows of a scenario and finds its components. Processes no events yet.
    ///
    /// # Errors
    /// Returns an error if a flow has no path or a node has two ports.
    ///
    /// # Panics
    /// Panics if a port is at a node that the scenario does not have, or if the transport of a flow cannot carry its
    /// traffic.
    pub fn new(scenario: impl Into<Arc<Scenario>>, options: RunOptions) -> Result<Self, NetworkError> {
        let scenario = scenario.into();
        let s = &*scenario;
        let paths = routing::paths(s)?;
        assert!(options.ports.iter().all(|node| *node < s.nodes.len()), "a port is at a node of the scenario");
        assert!(s.flows.iter().all(FlowSpec::is_consistent), "each flow has a transport that can carry its traffic");
        for (i, &node) in options.ports.iter().enumerate() {
            if options.ports[..i].contains(&node) {
                return Err(NetworkError::Ports { node: s.nodes[node].name.clone() });
            }
        }
        splits_whole_flows(s, &paths, &options)?;
        // A datagram may go from any port to any node.
        let components = if options.one_component || !options.ports.is_empty() {
            vec![ComponentPlan::of_all(s)]
        } else {
            partition::components(&paths, s)
        };
        let parts = components.into_iter().map(ComponentSlot::Planned).collect();
        let reports = NetworkReports::new(s);
        let budget = Budget::new(&options);
        let (now, stopped, kernel_reports) = (Time::ZERO, false, BTreeMap::new());
        let observer = NoObserver;
        Ok(Network { scenario, options, paths, parts, now, budget, stopped, reports, kernel_reports, observer })
    }

    /// Attaches an observer.
    pub fn observed_by<O: Observer>(self, observer: O) -> Network<O> {
        self.replace_observer(observer).0
    }
}

/// Checks that no proxy is on the path of a connection with only one end outside: it would have bytes at one side only.
fn splits_whole_flows(s: &Scenario, paths: &[FlowPath], options: &RunOptions) -> Result<(), NetworkError> {
    for (index, (flow, path)) in s.flows.iter().zip(paths).enumerate() {
        let [from, to] = [flow.from, flow.to].map(|node| options.ports.contains(&node));
        if from == to || options.inside.contains(&index) || flow.tcp().is_none() {
            continue;
        }
        let over = |link: usize| path[0].iter().any(|hop| *hop as usize / 2 == link);
        let within = |proxy: &&ProxySpec| over(proxy.link) && ![flow.from, flow.to].contains(&proxy.node);
        if let Some(proxy) = s.proxies.iter().find(within) {
            return Err(NetworkError::HalfOutside { proxy: proxy.name.clone(), flow: flow.name.clone() });
        }
    }
    Ok(())
}

impl<O> Network<O> {
    /// Returns the observer.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// Returns the network without its observer, and the observer.
    pub fn detach_observer(self) -> (Network, O) {
        self.replace_observer(NoObserver)
    }

    fn replace_observer<P>(self, observer: P) -> (Network<P>, O) {
        let Network { scenario, options, paths, parts, now, budget, stopped, reports, kernel_reports, observer: old } =
            self;
        (Network { scenario, options, paths, parts, now, budget, stopped, reports, kernel_reports, observer }, old)
    }

    /// Returns the hops that packets of flow `flow` take from source to destination.
    pub fn path(&self, flow: usize) -> &[Hop] {
        &self.paths[flow][0]
    }

    /// Returns the exceeded limit, if any. No events are processed after that.
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.budget.exceeded()
    }

    /// Returns when to wake the network next; [`Time::MAX`] if no event is left before the scenario's end.
    pub fn next_wake(&self) -> Time {
        if self.is_stopped() {
            return Time::MAX;
        }
        let of = |part: &ComponentSlot| match part {
            ComponentSlot::Planned(_) => self.now,
            ComponentSlot::Running(component) => component.next_wake(),
            ComponentSlot::Over => Time::MAX,
        };
        self.parts.iter().map(of).min().unwrap_or(Time::MAX)
    }

    fn is_stopped(&self) -> bool {
        self.stopped || self.exceeded().is_some()
    }

    /// Returns true if packets pass link `link` both ways, as of the last wake. A power-line medium is always up.
    pub fn is_up(&self, link: usize) -> bool {
        self.parts.iter().all(|part| match part {
            ComponentSlot::Running(component) => component.is_up(link),
            _ => true,
        })
    }

    /// Returns the counters of the ports so far.
    pub fn port_stats(&self) -> PortStats {
        match self.parts.first() {
            Some(ComponentSlot::Running(component)) => component.port_stats(),
            _ => PortStats::default(),
        }
    }

    /// Iterates over IP datagrams from outside that have neither left the network nor been lost, in no particular
    /// order. A fragmented datagram is included until the first fragment is lost or all have arrived.
    pub fn in_flight(&self) -> impl Iterator<Item = &[u8]> {
        self.parts
            .iter()
            .flat_map(|part| match part {
                ComponentSlot::Running(component) => Some(component.in_flight()),
                _ => None,
            })
            .flatten()
    }

    /// Sets the report on a flow with both ends outside, carried by kernels.
    ///
    /// # Panics
    /// Panics if the scenario has no such flow.
    pub fn set_report(&mut self, flow: usize, report: FlowReport) {
        assert!(flow < self.scenario.flows.len(), "there is no flow {flow}");
        self.kernel_reports.insert(flow, report);
    }

    /// Returns the results so far.
    pub fn result(&self) -> RunResult {
        let mut reports = Cow::Borrowed(&self.reports);
        for part in &self.parts {
            if let ComponentSlot::Running(component) = part {
                reports.to_mut().add(component.reports(self.now));
            }
        }
        for (flow, report) in &self.kernel_reports {
            reports.to_mut().flows[*flow] = Some(Box::new(report.clone()));
        }
        let open = !self.options.ports.is_empty();
        RunResult::new(&self.scenario, self.options.replica, (self.now, open), &reports)
    }
}

impl<O: Observer> Network<O> {
    /// Runs the scenario to its end.
    ///
    /// # Errors
    /// Returns the first of [`RunOptions::limits`] that the run exceeds; the run ends there.
    pub fn run(&mut self) -> Result<RunResult, Exceeded> {
        self.wake(self.scenario.duration);
        self.exceeded().map_or_else(|| Ok(self.result()), Err)
    }

    /// Processes all events due by `now`, each at its own time, but none after the scenario's end.
    pub fn wake(&mut self, now: Time) {
        let now = now.max(self.now);
        let s = &*self.scenario;
        for part in &mut self.parts {
            if self.stopped || self.budget.exceeded().is_some() {
                return;
            }
            if let ComponentSlot::Planned(_) = part {
                self.budget.begin_component();
            }
            let Some(component) = part.start(s, &self.paths, &self.options) else { continue };
            self.stopped = component.run(now, &mut self.budget, &mut self.observer);
            // Keep the component while packets may wait at ports.
            if now >= s.duration && self.options.ports.is_empty() {
                if O::ACTIVE {
                    component.report_end(s.duration, &mut self.observer);
                }
                if let ComponentSlot::Running(component) = std::mem::replace(part, ComponentSlot::Over) {
                    self.reports.add(component.finish(s.duration));
                }
            }
        }
        self.now = self.now.max(now.min(s.duration));
    }

    /// Processes all events due by `now`. Returns when input from outside takes effect, `None` after the run's end.
    fn advance(&mut self, now: Time) -> Option<Time> {
        let now = now.max(self.now);
        self.wake(now);
        (now <= self.scenario.duration && !self.is_stopped()).then_some(now)
    }

    /// Accepts an IP datagram that arrives at `port` at `now`, after all events due by then. If the network was woken
    /// for a later time, that time applies. Ignored after the scenario's end.
    ///
    /// # Panics
    /// Panics if there is no such port.
    pub fn receive<B: AsRef<[u8]>>(&mut self, now: Time, port: usize, datagram: &Datagram<B>) {
        assert!(port < self.options.ports.len(), "there is no port {port}");
        let Some(now) = self.advance(now) else { return };
        if let Some(ComponentSlot::Running(component)) = self.parts.first_mut() {
            component.receive(now, port, datagram, &mut self.observer);
        }
    }

    /// Accepts an Ethernet frame that arrives at the first of two ports at `now` and leaves at the second.
    ///
    /// Links treat the frame as a packet with the length of its IP datagram or, without one, of its payload, which
    /// begins at [`crate::wire::ethernet::payload_offset`]. A frame with a datagram belongs to the flow of its
    /// conversation, any other to a flow of the two ports. The frame leaves byte for byte as it came unless a gateway
    /// between the ports reduced its window or a queue marked it. For times see [`Network::receive`].
    ///
    /// # Panics
    /// Panics if there is no such port.
    pub fn forward<B: AsRef<[u8]>>(&mut self, now: Time, ports: [usize; 2], frame: &Datagram<B>) {
        assert!(ports.iter().all(|port| *port < self.options.ports.len()), "there are no ports {ports:?}");
        let Some(now) = self.advance(now) else { return };
        if let Some(ComponentSlot::Running(component)) = self.parts.first_mut() {
            component.forward_frame(now, ports, frame, &mut self.observer);
        }
    }

    /// Returns the next datagram or frame that has left by `now`, in order of departure.
    #[must_use = "the datagram has left the network"]
    pub fn transmit(&mut self, now: Time) -> Option<NetworkOutput> {
        self.wake(now);
        match self.parts.first_mut()? {
            ComponentSlot::Running(component) => component.transmit(),
            _ => None,
        }
    }

    /// Changes link `link` at `now`, after all events due by then, in the `directions` forward, reverse or both.
    ///
    /// Like a timeline's step, the change applies to packets not yet serialized, until the same property changes again.
    /// Hosts whose flows use the link are notified at once; the timeline's notifications still arrive as planned.
    ///
    /// # Errors
    /// Returns an error if the link cannot be changed.
    ///
    /// # Panics
    /// Panics if the scenario has no such link.
    pub fn change(
        &mut self,
        now: Time,
        link: usize,
        directions: [bool; 2],
        change: &LinkChange,
    ) -> Result<(), ChangeError> {
        if !self.options.changes {
            return Err(ChangeError::Closed);
        }
        change.check(&self.scenario.links[link].model, directions)?;
        let Some(now) = self.advance(now) else { return Ok(()) };
        for part in &mut self.parts {
            // A link without flows is in no component; changing it has no effect.
            if let ComponentSlot::Running(component) = part
                && component.change(now, link, directions, change, &mut self.observer)
            {
                break;
            }
        }
        Ok(())
    }
}
