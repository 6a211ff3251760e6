//! The network made from a scenario, as an element: owned, `Send`, with the four verbs and no clock of its own.
//!
//! [`Network::wake`] replays every event that is due, each at its own time, so a simulation ([`Network::run`]) is
//! one call with the end of the scenario, and a caller with a clock of its own may be late without changing what happens.
//!
//! A network is cut into components: groups of links joined by flows that use both. Components share nothing, so they run
//! one after the other, each in memory that stays in the cache, each built when it first has something to do. Ties are
//! broken by position (see [`calendar`]) and every random stream is named, so the partition cannot change a result.
//!
//! Within a component there is one event per link direction - its next arrival - and one per flow - its next timer.
//! Timers are lazy: a leaf may wake too early and check again, never too late. Where all packets of one link go on to
//! another that has no other feeder, the second link's queue and departure are computed at once and the arrival between is
//! no event (but counts as one): the results are the same.

pub mod addresses;
mod budget;
pub mod calendar;
mod component;
mod end;
mod flow;
mod observer;
mod partition;
mod reading;
pub mod reassembly;
pub mod routing;

use crate::link::{Direction, Model, Noise};
use crate::metrics::{Outcomes, RunResult};
use crate::rng::Seed;
use crate::scenario::Scenario;
use crate::units::{Rate, Time};
use crate::wire;
use addresses::Prefix;
use budget::Budget;
pub use budget::{Exceeded, Limits, MOST_BYTES};
use component::Component;
pub use end::Sending;
pub use observer::{Crossing, LinkState, NoObserver, Observer, Way};
pub use reading::Reading;
use routing::Hop;
pub use routing::NoPath;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Replica number: the same scenario with other random numbers.
    pub replica: u32,
    /// Run everything in one event queue instead of component by component: slower, with the same result, and observers
    /// receive everything in order of time.
    pub one_component: bool,
    /// Nodes whose hosts are outside the network. Each has a port, which has the number of its place in this list: what
    /// comes from the host is handed to [`Network::receive`] or [`Network::forward`], what is for it is had from
    /// [`Network::transmit`].
    pub ports: Vec<usize>,
    /// Flows of the scenario whose ends stay in the network although there are ports at their nodes.
    pub inside: BTreeSet<usize>,
    /// Where hosts are that are none of the nodes: what comes in for one of these addresses goes to the node, as by a route
    /// there. Of several prefixes the longest counts; those of links' own networks and of groups are not routed.
    pub beyond: Vec<(Prefix, usize)>,
    /// Links are to be changed from outside by [`Network::change`]. Results do not depend on it, only speed does.
    pub changes: bool,
    /// What the run may use.
    pub limits: Limits,
    /// The run ends with [`Exceeded::Stopped`] soon after another thread has set it.
    pub stop: Option<Arc<AtomicBool>>,
}

/// What changes in a link, from outside; `None` leaves a property as it is.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Change {
    /// Packets get through.
    pub up: Option<bool>,
    /// Serialisation rate.
    pub rate: Option<Rate>,
    /// Propagation delay.
    pub delay: Option<Time>,
    /// Signal strength, dBm: packets do not depend on it, but hosts are told of it.
    pub signal: Option<f64>,
    /// Losses.
    pub noise: Option<Noise>,
}

/// A link cannot be changed from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChangeError {
    /// The network was made without [`Options::changes`].
    #[error("the network was not made for changes from outside")]
    Closed,
    /// A medium, whose rate follows from its own keys.
    #[error("a power-line medium cannot be changed from outside; only pipes can")]
    Medium,
    /// A rate of nothing: `up` is there for that.
    #[error("a rate of 0 bit/s; a link that carries nothing is down")]
    NoRate,
    /// A rate for a link that follows a recorded trace.
    #[error("the rate of this link is that of its recorded trace")]
    Recorded,
}

impl Change {
    /// Whether a link of this model can be changed so, in these directions.
    ///
    /// # Errors
    /// It cannot.
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
pub struct Outgoing {
    /// When it reached the port: the time at which it should be there outside, too.
    pub due: Time,
    /// When it came into the network; nothing if an end inside or a gateway sent it.
    pub since: Option<Time>,
    /// The port, by its number.
    pub port: usize,
    /// The IP datagram, or the frame.
    pub datagram: Vec<u8>,
    /// It is a frame, as [`Network::forward`] took it in.
    pub is_frame: bool,
}

impl Outgoing {
    /// Returns the IP datagram, `None` for a frame without one.
    pub fn ip_datagram(&self) -> Option<&[u8]> {
        if !self.is_frame {
            return Some(&self.datagram);
        }
        let (at, envelope) = wire::ethernet::envelope(&self.datagram).ok()?;
        Some(&self.datagram[at..at + envelope.end])
    }
}

/// What the ports of a network counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortStats {
    /// Datagrams and frames that came in and were sent on.
    pub received: u64,
    /// Datagrams and frames that left, or wait to be had.
    pub sent: u64,
    /// Datagrams for an address that no node has, or for an end that does not exist; frames for a port to which there is no path.
    pub unreachable: u64,
    /// Bytes that are no IP datagram and no frame, or that the end they reached does not understand: for a call what is no RTP of its
    /// talker, for a charging session datagrams that are no discovery.
    pub unreadable: u64,
}

/// A network cannot be made from a scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// A flow has no path.
    #[error(transparent)]
    NoPath(#[from] NoPath),
    /// Two ports are at one node.
    #[error("node `{node}` has two ports")]
    Ports {
        /// The node.
        node: String,
    },
}

/// A network at work.
pub struct Network {
    scenario: Arc<Scenario>,
    options: Options,
    /// The path of each flow: forward, reverse.
    paths: Vec<[Vec<Hop>; 2]>,
    parts: Vec<Part>,
    /// Until when everything has happened.
    now: Time,
    budget: Budget,
    /// An observer ended the run.
    stopped: bool,
    /// What the parts that are over achieved.
    outcomes: Outcomes,
}

/// A component: the flows and links of which it is made, as the scenario counts them, until it is built.
enum Part {
    Planned { flows: Vec<usize>, links: Vec<usize> },
    Running(Box<Component>),
    Over,
}

impl Network {
    /// Routes the flows of a scenario and finds its components. Nothing has happened yet.
    ///
    /// # Errors
    /// A flow has no path, or a node two ports.
    ///
    /// # Panics
    /// A port is at a node that the scenario does not have.
    pub fn new(scenario: impl Into<Arc<Scenario>>, options: Options) -> Result<Self, NetworkError> {
        let scenario = scenario.into();
        let s = &*scenario;
        let paths = routing::paths(s)?;
        assert!(options.ports.iter().all(|node| *node < s.nodes.len()), "a port is at a node of the scenario");
        for (i, &node) in options.ports.iter().enumerate() {
            if options.ports[..i].contains(&node) {
                return Err(NetworkError::Ports { node: s.nodes[node].clone() });
            }
        }
        // A datagram may go from any port to any node.
        let components = if options.one_component || !options.ports.is_empty() {
            vec![((0..s.flows.len()).collect(), (0..s.links.len()).collect())]
        } else {
            partition::components(&paths, &s.links)
        };
        let parts = components.into_iter().map(|(flows, links)| Part::Planned { flows, links }).collect();
        let outcomes = Outcomes::new(s);
        let budget = Budget::new(&options);
        Ok(Network { scenario, options, paths, parts, now: Time::ZERO, budget, stopped: false, outcomes })
    }

    /// The links that packets of flow `flow` cross from its source to its destination, by number.
    pub fn links(&self, flow: usize) -> impl Iterator<Item = usize> {
        self.paths[flow][0].iter().map(|hop| *hop as usize / 2)
    }

    /// Runs the scenario to its end.
    ///
    /// # Errors
    /// The first of [`Options::limits`] that the run exceeds; it ends there.
    pub fn run(&mut self) -> Result<RunResult, Exceeded> {
        self.run_observed(&mut NoObserver)
    }

    /// [`Network::run`] while `observer` watches.
    ///
    /// # Errors
    /// The first of [`Options::limits`] that the run exceeds; it ends there.
    pub fn run_observed<O: Observer>(&mut self, observer: &mut O) -> Result<RunResult, Exceeded> {
        self.wake_observed(self.scenario.duration, observer);
        self.exceeded().map_or_else(|| Ok(self.result()), Err)
    }

    /// The limit that was exceeded, if one was: nothing happens any more.
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.budget.exceeded()
    }

    /// When the network must be woken next; [`Time::MAX`] = never: nothing is left to happen before the scenario's end.
    pub fn next_wake(&self) -> Time {
        if self.is_stopped() {
            return Time::MAX;
        }
        let of = |part: &Part| match part {
            Part::Planned { .. } => self.now,
            Part::Running(component) => component.next_wake(),
            Part::Over => Time::MAX,
        };
        self.parts.iter().map(of).min().unwrap_or(Time::MAX)
    }

    /// Processes everything that is due by `now`, each event at its own time, but nothing after the scenario's end.
    pub fn wake(&mut self, now: Time) {
        self.wake_observed(now, &mut NoObserver);
    }

    /// [`Network::wake`] while `observer` watches.
    pub fn wake_observed<O: Observer>(&mut self, now: Time, observer: &mut O) {
        let now = now.max(self.now);
        let s = &self.scenario;
        let seed = Seed { seed: s.seed, replica: self.options.replica };
        for part in &mut self.parts {
            if self.stopped || self.budget.exceeded().is_some() {
                return;
            }
            if let Part::Planned { flows, links } = part {
                *part = Part::Running(Box::new(Component::new(s, &seed, &self.paths, flows, links, &self.options)));
            }
            let Part::Running(component) = part else { continue };
            self.stopped = component.run(now, &mut self.budget, observer);
            // What waits at a port is still to be had.
            if now >= s.duration && self.options.ports.is_empty() {
                component.collect(s.duration, &mut self.outcomes);
                if O::ACTIVE {
                    component.report_end(observer);
                }
                *part = Part::Over;
            }
        }
        self.now = self.now.max(now.min(s.duration));
    }

    /// Nothing happens any more, since a limit was exceeded or an observer ended the run.
    fn is_stopped(&self) -> bool {
        self.stopped || self.exceeded().is_some()
    }

    /// When something from outside takes effect that comes at `now`, after everything that was due by then; time does not go
    /// back. `None`: not any more.
    fn advance<O: Observer>(&mut self, now: Time, observer: &mut O) -> Option<Time> {
        let now = now.max(self.now);
        self.wake_observed(now, observer);
        (now <= self.scenario.duration && !self.is_stopped()).then_some(now)
    }

    /// Takes in an IP datagram that came to `port` at `now`, after everything that was due by then; or later, if the network has
    /// been woken for later. Nothing happens after the scenario's end.
    ///
    /// # Panics
    /// There is no such port.
    pub fn receive(&mut self, now: Time, port: usize, datagram: &[u8]) {
        self.receive_observed(now, port, datagram, &mut NoObserver);
    }

    /// [`Network::receive`] while `observer` watches.
    pub fn receive_observed<O: Observer>(&mut self, now: Time, port: usize, datagram: &[u8], observer: &mut O) {
        assert!(port < self.options.ports.len(), "there is no port {port}");
        let Some(now) = self.advance(now, observer) else { return };
        if let Some(Part::Running(component)) = self.parts.first_mut() {
            component.receive(now, port, datagram, observer);
        }
    }

    /// Takes in an Ethernet frame that came to the first of two ports at `now` and is to leave at the second, whatever it
    /// carries: a bridge outside decides where frames go. For links it is a packet of the length of its IP datagram, or else of its
    /// payload: [`crate::wire::ethernet::payload_offset`] says what is before it. It belongs to the flow of the conversation whose
    /// datagram it has, or else to one of the two ports; a gateway between the ports sees the datagram. It leaves byte for byte as it came
    /// unless a gateway reduced its window or a queue marked it. Times are those of [`Network::receive`].
    ///
    /// # Panics
    /// There is no such port.
    pub fn forward(&mut self, now: Time, ports: [usize; 2], frame: &[u8]) {
        self.forward_observed(now, ports, frame, &mut NoObserver);
    }

    /// [`Network::forward`] while `observer` watches: it is told of the IP datagrams in frames, and of no other frames.
    pub fn forward_observed<O: Observer>(&mut self, now: Time, ports: [usize; 2], frame: &[u8], observer: &mut O) {
        assert!(ports.iter().all(|port| *port < self.options.ports.len()), "there are no ports {ports:?}");
        let Some(now) = self.advance(now, observer) else { return };
        if let Some(Part::Running(component)) = self.parts.first_mut() {
            component.forward_frame(now, ports, frame, observer);
        }
    }

    /// The next datagram or frame that has left by `now`, in the order in which they did.
    pub fn transmit(&mut self, now: Time) -> Option<Outgoing> {
        self.transmit_observed(now, &mut NoObserver)
    }

    /// [`Network::transmit`] while `observer` watches.
    pub fn transmit_observed<O: Observer>(&mut self, now: Time, observer: &mut O) -> Option<Outgoing> {
        self.wake_observed(now, observer);
        match self.parts.first_mut()? {
            Part::Running(component) => component.transmit(),
            _ => None,
        }
    }

    /// Changes link number `link` at `now`, after everything that was due by then, `forward`, `reverse` or both. As a
    /// step of a timeline does, it applies to what is not yet serialised, and is in force until a later step or change sets the
    /// same property. Hosts whose flows use the link are told at once; of what its timeline does they are told as planned, also
    /// where a change from outside has come in between.
    ///
    /// # Errors
    /// The link cannot be changed.
    ///
    /// # Panics
    /// The scenario has no such link.
    pub fn change(
        &mut self,
        now: Time,
        link: usize,
        directions: [bool; 2],
        change: &Change,
    ) -> Result<(), ChangeError> {
        self.change_observed(now, link, directions, change, &mut NoObserver)
    }

    /// [`Network::change`] while `observer` watches.
    ///
    /// # Errors
    /// The link cannot be changed.
    pub fn change_observed<O: Observer>(
        &mut self,
        now: Time,
        link: usize,
        directions: [bool; 2],
        change: &Change,
        observer: &mut O,
    ) -> Result<(), ChangeError> {
        if !self.options.changes {
            return Err(ChangeError::Closed);
        }
        change.check(&self.scenario.links[link].model, directions)?;
        let Some(now) = self.advance(now, observer) else { return Ok(()) };
        for part in &mut self.parts {
            // A link that no flow uses has no part, and no effect.
            if let Part::Running(component) = part
                && component.change(now, link, directions, change, observer)
            {
                break;
            }
        }
        Ok(())
    }

    /// Whether packets get through link number `link` in both directions, as of the last wake; a power-line medium is always up.
    pub fn is_up(&self, link: usize) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Running(component) => component.is_up(link),
            _ => true,
        })
    }

    /// What the ports counted so far.
    pub fn port_stats(&self) -> PortStats {
        match self.parts.first() {
            Some(Part::Running(component)) => component.port_stats(),
            _ => PortStats::default(),
        }
    }

    /// IP datagrams that came from outside and have neither left the network nor been lost, in no particular order. A
    /// datagram that a link cut into fragments is among them until the first fragment is lost or all have arrived.
    pub fn in_flight(&self) -> impl Iterator<Item = &[u8]> {
        self.parts
            .iter()
            .flat_map(|part| match part {
                Part::Running(component) => Some(component.in_flight()),
                _ => None,
            })
            .flatten()
    }

    /// What was achieved so far.
    pub fn result(&self) -> RunResult {
        let mut outcomes = Cow::Borrowed(&self.outcomes);
        for part in &self.parts {
            if let Part::Running(component) = part {
                component.collect(self.now, outcomes.to_mut());
            }
        }
        let open = !self.options.ports.is_empty();
        RunResult::new(&self.scenario, self.options.replica, (self.now, open), &outcomes)
    }
}
