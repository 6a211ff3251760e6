//! The network made from a scenario, and the loop that runs it.
//!
//! A run is cut into components: groups of links joined by flows that use both. Components share nothing, so they run
//! one after the other, each in memory that stays in the cache, each built when it starts. Ties are broken by position
//! (see [`calendar`]) and every random stream is named, so the partition cannot change a result.
//!
//! Within a component there is one event per link direction - its next arrival - and one per flow - its next timer.
//! Timers are lazy: a leaf may wake too early and check again, never too late. Where all packets of one link go on to
//! another that has no other feeder, the second link's queue and departure are computed at once and the arrival between is
//! no event (but counts as one): the results are the same.

mod budget;
pub mod calendar;
mod component;
mod end;
mod flow;
pub mod reassembly;
pub mod routing;

use crate::app::request::Session;
use crate::gateway;
use crate::metrics::RunResult;
use crate::packet::{Packet, Sides};
use crate::rng::Seed;
use crate::scenario::{FlowSpec, LinkSpec, Scenario};
use crate::units::Time;
use budget::Budget;
pub use budget::{Exceeded, Limits, MOST_BYTES};
use component::Component;
pub use end::Sending;
use routing::{Edge, Hop, Routes};
use std::collections::BTreeMap;

/// Which way a packet crosses a host's interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// It leaves the host.
    Out,
    /// It reaches the host.
    In,
}

/// Where a packet crosses a host's interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crossing {
    /// The host.
    pub node: usize,
    /// The link direction beside the interface.
    pub hop: Hop,
    /// Out to the link, or in from it.
    pub way: Way,
    /// The packet's flow as the scenario counts them; [`Packet::flow`] counts within its component.
    pub flow: usize,
}

/// The state of a link direction at an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkState {
    /// Packets get through.
    pub up: bool,
    /// Packets that wait.
    pub waiting: usize,
    /// Packets that have found the queue full so far.
    pub drops: u64,
}

/// Observes a run. Every method is a no-op unless implemented, and then costs nothing.
pub trait Observer {
    /// Whether flows and queues are to be reported at all.
    const ACTIVE: bool = true;
    /// A packet crosses a host's interface: on its way out before it is queued or cut into fragments, on its way in
    /// before it is reassembled.
    fn packet(&mut self, _now: Time, _at: Crossing, _packet: &Packet, _sides: &Sides) {}
    /// An end of flow `index`, a charging session, is about to send a packet.
    fn session(&mut self, _now: Time, _index: usize, _session: &Session) {}
    /// The sender of flow `index` has taken in an event; `delivered` bytes have reached the application.
    fn flow(&mut self, _now: Time, _index: usize, _sender: Sending<'_>, _delivered: u64) {}
    /// A link direction's queue now holds `waiting` packets; `drops` so far.
    fn queue(&mut self, _now: Time, _hop: Hop, _waiting: usize, _drops: u64) {}
    /// A pipe direction has given out a packet, or its link has changed: whether packets get through now, and what
    /// [`Observer::queue`] would report.
    fn link(&mut self, _now: Time, _hop: Hop, _state: &mut dyn FnMut() -> LinkState) {}
    /// The queue of a shared medium's port has changed, too: `of` returns how many packets of a flow of the scenario are in it,
    /// those sent and not acknowledged included.
    fn backlog(&mut self, _now: Time, _hop: Hop, _of: &dyn Fn(usize) -> u32) {}
    /// Gateway `index` of the scenario has seen something pass; its flows are numbered as the scenario counts them.
    fn gateway(&mut self, _now: Time, _index: usize, _stats: &dyn Fn() -> gateway::Stats) {}
    /// Called before every event: an observer that cannot continue ends the run, whose result is then incomplete.
    fn stop(&self) -> bool {
        false
    }
    /// A part of the network has come to its end: side slots in use, and packets on links or in reassembly that hold one.
    /// The two are equal unless slots leak.
    fn end(&mut self, _slots: usize, _held: usize) {}
}

/// Two observers of the same run.
impl<A: Observer, B: Observer> Observer for (A, B) {
    const ACTIVE: bool = A::ACTIVE || B::ACTIVE;
    fn packet(&mut self, now: Time, at: Crossing, packet: &Packet, sides: &Sides) {
        self.0.packet(now, at, packet, sides);
        self.1.packet(now, at, packet, sides);
    }
    fn session(&mut self, now: Time, index: usize, session: &Session) {
        self.0.session(now, index, session);
        self.1.session(now, index, session);
    }
    fn flow(&mut self, now: Time, index: usize, sender: Sending<'_>, delivered: u64) {
        self.0.flow(now, index, sender, delivered);
        self.1.flow(now, index, sender, delivered);
    }
    fn queue(&mut self, now: Time, hop: Hop, waiting: usize, drops: u64) {
        self.0.queue(now, hop, waiting, drops);
        self.1.queue(now, hop, waiting, drops);
    }
    fn link(&mut self, now: Time, hop: Hop, state: &mut dyn FnMut() -> LinkState) {
        self.0.link(now, hop, state);
        self.1.link(now, hop, state);
    }
    fn backlog(&mut self, now: Time, hop: Hop, of: &dyn Fn(usize) -> u32) {
        self.0.backlog(now, hop, of);
        self.1.backlog(now, hop, of);
    }
    fn gateway(&mut self, now: Time, index: usize, stats: &dyn Fn() -> gateway::Stats) {
        self.0.gateway(now, index, stats);
        self.1.gateway(now, index, stats);
    }
    fn stop(&self) -> bool {
        self.0.stop() || self.1.stop()
    }
    fn end(&mut self, slots: usize, held: usize) {
        self.0.end(slots, held);
        self.1.end(slots, held);
    }
}

/// An observer that may be absent.
impl<O: Observer> Observer for Option<O> {
    const ACTIVE: bool = O::ACTIVE;
    fn packet(&mut self, now: Time, at: Crossing, packet: &Packet, sides: &Sides) {
        if let Some(o) = self {
            o.packet(now, at, packet, sides);
        }
    }
    fn session(&mut self, now: Time, index: usize, session: &Session) {
        if let Some(o) = self {
            o.session(now, index, session);
        }
    }
    fn flow(&mut self, now: Time, index: usize, sender: Sending<'_>, delivered: u64) {
        if let Some(o) = self {
            o.flow(now, index, sender, delivered);
        }
    }
    fn queue(&mut self, now: Time, hop: Hop, waiting: usize, drops: u64) {
        if let Some(o) = self {
            o.queue(now, hop, waiting, drops);
        }
    }
    fn link(&mut self, now: Time, hop: Hop, state: &mut dyn FnMut() -> LinkState) {
        if let Some(o) = self {
            o.link(now, hop, state);
        }
    }
    fn backlog(&mut self, now: Time, hop: Hop, of: &dyn Fn(usize) -> u32) {
        if let Some(o) = self {
            o.backlog(now, hop, of);
        }
    }
    fn gateway(&mut self, now: Time, index: usize, stats: &dyn Fn() -> gateway::Stats) {
        if let Some(o) = self {
            o.gateway(now, index, stats);
        }
    }
    fn stop(&self) -> bool {
        self.as_ref().is_some_and(O::stop)
    }
    fn end(&mut self, slots: usize, held: usize) {
        if let Some(o) = self {
            o.end(slots, held);
        }
    }
}

/// Observes nothing.
#[derive(Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    const ACTIVE: bool = false;
}

/// How to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Replica number: the same scenario with other random numbers.
    pub replica: u32,
    /// Run everything in one event queue instead of component by component: slower, with the same result, and observers
    /// receive everything in order of time.
    pub one_component: bool,
}

/// A scenario made ready: paths and components known.
#[derive(Debug)]
pub struct Network<'a> {
    scenario: &'a Scenario,
    paths: Vec<[Vec<Hop>; 2]>,
    /// Flows and links of each component.
    components: Vec<(Vec<usize>, Vec<usize>)>,
}

/// A flow has no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("flow `{flow}` has no path from `{from}` to `{to}`")]
pub struct NoPath {
    /// The flow.
    pub flow: String,
    /// Where it starts.
    pub from: String,
    /// Where it should go.
    pub to: String,
}

impl<'a> Network<'a> {
    /// Routes the flows of a scenario and finds its components.
    pub fn new(scenario: &'a Scenario) -> Result<Self, NoPath> {
        let edges: Vec<Edge> =
            scenario.links.iter().map(|l| Edge { between: l.between, delay: l.model.delay() }).collect();
        let nodes = scenario.nodes.len();
        let mut routes = Routes::new(nodes, edges);
        let mut route = |f: &FlowSpec, from: usize, to: usize| {
            routes.path(from, to).ok_or_else(|| NoPath {
                flow: f.name.clone(),
                from: scenario.nodes[f.from].clone(),
                to: scenario.nodes[f.to].clone(),
            })
        };
        let paths = scenario
            .flows
            .iter()
            .map(|f| Ok([route(f, f.from, f.to)?, route(f, f.to, f.from)?]))
            .collect::<Result<Vec<_>, NoPath>>()?;
        let components = components(&paths, &scenario.links);
        Ok(Network { scenario, paths, components })
    }

    /// The links that packets of flow `flow` cross from its source to its destination, by number.
    pub fn links(&self, flow: usize) -> impl Iterator<Item = usize> {
        self.paths[flow][0].iter().map(|hop| *hop as usize / 2)
    }

    /// Runs the scenario.
    pub fn run(&self, options: Options) -> RunResult {
        self.run_observed(options, &mut NoObserver)
    }

    /// Runs the scenario while `observer` watches.
    pub fn run_observed<O: Observer>(&self, options: Options, observer: &mut O) -> RunResult {
        self.run_within(Limits::NONE, options, observer).expect("no limits")
    }

    /// Runs the scenario within `limits` while `observer` watches.
    ///
    /// # Errors
    /// The first limit that the run exceeds; it ends there.
    pub fn run_within<O: Observer>(
        &self,
        limits: Limits,
        options: Options,
        observer: &mut O,
    ) -> Result<RunResult, Exceeded> {
        let mut budget = Budget::new(limits);
        let s = self.scenario;
        let seed = Seed { seed: s.seed, replica: options.replica };
        let mut flows: Vec<_> = s.flows.iter().map(|_| None).collect();
        let mut links: Vec<_> = s.links.iter().map(|_| Default::default()).collect();
        let mut gateways: Vec<_> = s.gateways.iter().map(|_| None).collect();
        let mut events = 0;
        let whole;
        let components = if options.one_component {
            whole = [((0..s.flows.len()).collect(), (0..s.links.len()).collect())];
            &whole[..]
        } else {
            &self.components[..]
        };
        for (members, used) in components {
            let mut c = Component::new(s, &seed, &self.paths, (members, used), budget, observer);
            events += c.run();
            budget = c.budget;
            if let Some(exceeded) = budget.exceeded() {
                return Err(exceeded);
            }
            if O::ACTIVE {
                c.report_end();
            }
            c.collect(&mut flows, &mut links, &mut gateways);
        }
        let flows: Vec<_> = flows.into_iter().flatten().collect();
        Ok(RunResult::new(s, options.replica, flows, links, &gateways, events))
    }
}

/// Groups of flows and links: two links belong together if a flow uses both, or if they share a cable.
fn components(paths: &[[Vec<Hop>; 2]], specs: &[LinkSpec]) -> Vec<(Vec<usize>, Vec<usize>)> {
    let links = specs.len();
    let mut parent: Vec<usize> = (0..links).collect();
    fn root(parent: &mut [usize], mut i: usize) -> usize {
        while parent[i] != i {
            parent[i] = parent[parent[i]];
            i = parent[i];
        }
        i
    }
    let used = |p: &[Vec<Hop>; 2]| p.iter().flatten().map(|h| (h / 2) as usize).collect::<Vec<_>>();
    for p in paths {
        let p = used(p);
        for &l in &p[1..] {
            let (a, b) = (root(&mut parent, p[0]), root(&mut parent, l));
            parent[a.max(b)] = a.min(b);
        }
    }
    let mut cables: BTreeMap<&str, usize> = BTreeMap::new();
    for (l, cable) in specs.iter().enumerate().filter_map(|(l, spec)| Some((l, spec.cable.as_deref()?))) {
        let first = *cables.entry(cable).or_insert(l);
        let (a, b) = (root(&mut parent, first), root(&mut parent, l));
        parent[a.max(b)] = a.min(b);
    }
    let mut number = vec![usize::MAX; links];
    let mut out: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for (f, p) in paths.iter().enumerate() {
        let r = root(&mut parent, used(p)[0]);
        if number[r] == usize::MAX {
            number[r] = out.len();
            out.push(Default::default());
        }
        out[number[r]].0.push(f);
    }
    for l in 0..links {
        let r = root(&mut parent, l);
        if number[r] != usize::MAX {
            out[number[r]].1.push(l);
        }
    }
    out
}
