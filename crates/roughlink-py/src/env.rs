//! Networks that stop for decisions: the environments of `roughlink.gym`.
//!
//! A network runs for one interval at a time. Between two intervals, the caller reads the counters of the controlled
//! flows for the interval and sets their windows and pacing rates, which take effect a nanosecond later. Networks of a
//! batch share nothing, so the number of threads does not change results.

use crate::cc::{ExceptionObserver, bind};
use crate::error::{FailureReason, guarded, usage};
use crate::scenario::PyScenario;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use roughlink_core::app::Traffic;
use roughlink_core::cc::{
    Ack, AlgorithmTrace, Congestion, CongestionControl, CongestionState, Flow, OptionalEvents, Permit, Sent,
};
use roughlink_core::net::{Network, RunOptions};
use roughlink_core::scenario::{FlowSpec, Scenario};
use roughlink_core::units::{Rate, Time};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

const OBSERVATION_LENGTH: usize = 9;
const PATH_STATE_LENGTH: usize = 3;
/// Shortest and longest interval if given in round trips; the shortest applies before the first RTT sample.
const INTERVALS: [Time; 2] = [Time::from_millis(10), Time::from_secs(1)];
/// Time without an acknowledgment after which a connection may have given up.
const SILENCE: Time = Time::from_secs(1);
/// Segments in the window before the first decision (RFC 6928).
const FIRST_WINDOW: f64 = 10.0;
/// Minimum number of networks per thread: with fewer, another thread does not pay off.
const MIN_PER_THREAD: usize = 16;

/// State shared by the algorithm inside a network and the caller outside.
#[derive(Debug, Default)]
struct ControlState {
    /// Window in segments, and pacing rate.
    window: f64,
    rate: Option<Rate>,
    /// Time at which the next decision takes effect.
    due: Time,
    /// Time of the last acknowledgment. Before the first acknowledgment: time of the first data segment.
    acked_at: Time,
    /// Counters of the interval: bytes delivered, lost and sent; sum and number of RTT samples.
    delivered: u64,
    lost: u64,
    sent: u64,
    rtt: (Time, u64),
    /// State of the connection after the last event.
    flow: Flow,
    /// True once the instance at the sending end is known. Both ends of a connection may have an instance.
    claimed: bool,
}

#[derive(Clone, Debug)]
struct SharedControl(Arc<Mutex<ControlState>>);

impl SharedControl {
    fn lock(&self) -> MutexGuard<'_, ControlState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Algorithm controlled from outside. Recovery repairs losses and does not change the window.
#[derive(Debug)]
struct ExternalControl {
    shared: SharedControl,
    mss: u32,
    sends: bool,
    /// Time of the next update of the window: just after the first data is sent, and after each decision.
    at: Option<Time>,
}

impl CongestionControl for ExternalControl {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        if !self.sends {
            return;
        }
        let mut state = self.shared.lock();
        state.acked_at = flow.now;
        state.delivered += ack.delivered;
        state.lost += ack.rate.map_or(0, |rate| rate.losses);
        if let Some(rtt) = ack.rtt {
            state.rtt = (state.rtt.0 + rtt, state.rtt.1 + 1);
        }
        state.flow.clone_from(flow);
    }
    fn on_congestion(&mut self, _: &Flow, _: Congestion) {}
    fn permit(&self, flow: &Flow) -> Permit {
        let state = self.shared.lock();
        let window = (state.window * f64::from(flow.mss)) as u64;
        Permit::Send { window: window.max(u64::from(flow.mss)), rate: state.rate }
    }
    fn trace(&self) -> AlgorithmTrace {
        let state = self.shared.lock();
        let cwnd = (state.window * f64::from(self.mss)) as u64;
        AlgorithmTrace { cwnd, ssthresh: u64::MAX, rate: state.rate, phase: "controlled" }
    }
    fn optional_events(&self) -> OptionalEvents {
        let mut events = OptionalEvents::ALL;
        events.rto_sample = false;
        events
    }
    fn on_sent(&mut self, flow: &Flow, sent: &Sent) {
        let mut state = self.shared.lock();
        if !self.sends && sent.len > 0 && !state.claimed {
            self.sends = true;
            state.claimed = true;
            state.acked_at = flow.now;
            self.at = Some(flow.now.saturating_add(Time(1)));
        }
        if self.sends {
            state.sent += u64::from(sent.len);
            state.flow.clone_from(flow);
        }
    }
    fn on_timer(&mut self, _: &Flow) {
        self.at = Some(self.shared.lock().due);
    }
    fn timer(&self) -> Option<Time> {
        self.at
    }
}

#[derive(Clone, Copy)]
enum StepLength {
    Fixed(Time),
    RoundTrips(f64),
}

/// Controlled flow of a network.
struct Agent {
    flow: usize,
    /// Bytes to transfer; `u64::MAX` without an end.
    bytes: u64,
    shared: SharedControl,
    is_over: bool,
}

/// A network with its controlled flows.
struct World {
    scenario: Arc<Scenario>,
    agents: Vec<Agent>,
    /// Keeps the exception of a Python algorithm at another flow.
    ends: ExceptionObserver,
    network: Option<Network>,
    /// States of the paths at the end of the scenario.
    last_states: Option<Vec<[f64; PATH_STATE_LENGTH]>>,
    now: Time,
    took: Time,
}

/// Outcomes of a step for a controlled flow.
const GOES_ON: u8 = 0;
const TERMINATED: u8 = 1;
const TRUNCATED: u8 = 2;

impl World {
    fn new(scenario: &Scenario, flows: Vec<usize>, classes: PythonClasses) -> Self {
        let mut scenario = scenario.clone();
        let ends = bind(&mut scenario, classes);
        let agent = |flow: usize| {
            let shared = SharedControl(Arc::default());
            let state = shared.clone();
            let cc = scenario.flows[flow].cc_mut().expect("a transfer has a congestion control");
            cc.factory = Arc::new(move |flow| {
                Box::new(ExternalControl { shared: state.clone(), mss: flow.mss, sends: false, at: None })
            });
            let bytes = match scenario.flows[flow].traffic {
                Traffic::Bulk { bytes: Some(bytes) } => bytes,
                _ => u64::MAX,
            };
            Agent { flow, bytes, shared, is_over: false }
        };
        let agents = flows.into_iter().map(agent).collect();
        let (now, took) = (Time::ZERO, Time::ZERO);
        World { scenario: Arc::new(scenario), agents, ends, network: None, last_states: None, now, took }
    }

    /// Restarts the network and runs it until a controlled flow sends its first data: before that, an agent has nothing
    /// to decide.
    fn reset(&mut self, replica: u32) -> Result<(), FailureReason> {
        self.ends.clear();
        self.last_states = None;
        for agent in &mut self.agents {
            *agent.shared.lock() = ControlState { window: FIRST_WINDOW, ..ControlState::default() };
            agent.is_over = false;
        }
        let mut network = Network::new(Arc::clone(&self.scenario), RunOptions { replica, ..RunOptions::default() })?;
        let starts = self.agents.iter().map(|agent| self.scenario.flows[agent.flow].start);
        self.now = starts.min().unwrap_or(Time::ZERO).min(self.scenario.duration);
        self.wake(&mut network, self.now)?;
        while !self.agents.iter().any(|agent| agent.shared.lock().claimed) && self.now < self.scenario.duration {
            self.now = network.next_wake().min(self.scenario.duration);
            self.wake(&mut network, self.now)?;
        }
        (self.took, self.network) = (Time::ZERO, Some(network));
        Ok(())
    }

    fn wake(&self, network: &mut Network, until: Time) -> Result<(), FailureReason> {
        network.wake(until);
        match (self.ends.raised(), network.exceeded()) {
            (Some(e), _) => Err(FailureReason::Python(e)),
            (None, Some(exceeded)) => Err(exceeded.into()),
            (None, None) => Ok(()),
        }
    }

    /// Runs the network for an interval. `actions` has the window and the pacing rate of each controlled flow. Returns
    /// the outcome of each of these flows.
    fn step(&mut self, interval: StepLength, actions: &[[f64; 2]]) -> Result<Vec<u8>, FailureReason> {
        let Some(mut network) = self.network.take() else {
            return Err(usage(&"cannot step before a reset, or after an error", "call reset() first").into());
        };
        let length = match interval {
            StepLength::Fixed(length) => length,
            StepLength::RoundTrips(n) => {
                let active = self.agents.iter().filter(|agent| !agent.is_over);
                let rtt = active.map(|agent| agent.shared.lock().flow.srtt).max().unwrap_or_default();
                Time::from_secs_f64(rtt.as_secs_f64() * n).clamp(INTERVALS[0], INTERVALS[1])
            }
        };
        let end = self.scenario.duration;
        let until = self.now.saturating_add(length).min(end);
        for (agent, [window, rate]) in self.agents.iter().zip(actions) {
            let mut state = agent.shared.lock();
            (state.window, state.rate) = (*window, (*rate > 0.0).then(|| Rate((rate * 1e6).max(1.0) as u64)));
            (state.delivered, state.lost, state.sent, state.rtt) = (0, 0, 0, (Time::ZERO, 0));
            state.due = until.saturating_add(Time(1));
        }
        if until == end {
            // The network forgets the state of its links when it is over.
            self.wake(&mut network, Time(until.0 - 1))?;
            self.last_states = Some(path_states(&mut network, &self.agents));
        }
        self.wake(&mut network, until)?;
        self.took = until - self.now;
        self.now = until;
        // Results take long compared with a step, so read them only if a connection has had no acknowledgment for long.
        let is_silent = |agent: &Agent| {
            let state = agent.shared.lock();
            !agent.is_over && state.claimed && until.saturating_sub(state.acked_at) > SILENCE
        };
        let result = self.agents.iter().any(is_silent).then(|| network.result());
        let gave_up = |flow: usize| result.as_ref().is_some_and(|result| result.flows[flow].failed);
        self.network = Some(network);
        let outcome = |agent: &mut Agent| {
            agent.is_over |= agent.shared.lock().flow.snd_una >= agent.bytes || gave_up(agent.flow);
            match agent.is_over {
                true => TERMINATED,
                false if until >= end => TRUNCATED,
                false => GOES_ON,
            }
        };
        Ok(self.agents.iter_mut().map(outcome).collect())
    }

    /// Returns the observation of each controlled flow for the last interval; `roughlink.gym` documents its values.
    fn observations(&self) -> impl Iterator<Item = [f32; OBSERVATION_LENGTH]> {
        let took = self.took.as_secs_f64();
        let mbps = move |bytes: u64| if took > 0.0 { bytes as f64 * 8e-6 / took } else { 0.0 };
        self.agents.iter().map(move |agent| {
            let state = agent.shared.lock();
            let rtt = if state.rtt.1 > 0 { state.rtt.0.as_secs_f64() / state.rtt.1 as f64 } else { 0.0 };
            let least = if state.flow.min_rtt.is_max() { 0.0 } else { state.flow.min_rtt.as_secs_f64() };
            let lost = state.lost as f64 / (state.lost + state.delivered).max(1) as f64;
            let in_flight = state.flow.in_flight as f64 / f64::from(state.flow.mss.max(1));
            let repairs = !matches!(state.flow.state, CongestionState::Open | CongestionState::Disorder);
            let (delivered, sent) = (mbps(state.delivered), mbps(state.sent));
            [delivered, sent, rtt, least, lost, state.window, in_flight, f64::from(repairs), took].map(|n| n as f32)
        })
    }

    /// Returns the seconds since the last acknowledgment of each controlled flow; 0 before its first data.
    fn silences(&self) -> impl Iterator<Item = f64> {
        self.agents.iter().map(|agent| {
            let state = agent.shared.lock();
            if state.claimed { self.now.saturating_sub(state.acked_at).as_secs_f64() } else { 0.0 }
        })
    }

    /// Returns the state of each controlled flow's path from source to destination: lowest rate in Mbit/s, waiting
    /// packets, and 1 if all links are up.
    fn path_states(&mut self) -> Vec<[f64; PATH_STATE_LENGTH]> {
        match (&self.last_states, &mut self.network) {
            (Some(states), _) => states.clone(),
            (None, Some(network)) => path_states(network, &self.agents),
            (None, None) => vec![[0.0; PATH_STATE_LENGTH]; self.agents.len()],
        }
    }
}

/// Returns the present state of the path of each controlled flow.
fn path_states(network: &mut Network, agents: &[Agent]) -> Vec<[f64; PATH_STATE_LENGTH]> {
    let readings = network.readings();
    let state = |agent: &Agent| {
        let hops = network.path(agent.flow).iter().map(|&hop| readings[hop as usize / 2][hop as usize % 2]);
        let (rate, waiting, up) = hops.fold((Rate(u64::MAX), 0, true), |(rate, waiting, up), link| {
            (rate.min(link.rate), waiting + link.waiting, up && link.up)
        });
        [rate.0 as f64 / 1e6, waiting as f64, f64::from(up)]
    };
    agents.iter().map(state).collect()
}

/// Batch of networks, each with a separate scenario and random numbers, and the same number of controlled flows.
#[pyclass(frozen, module = "roughlink._native")]
pub(crate) struct Batch {
    flows: Vec<String>,
    interval: StepLength,
    threads: usize,
    worlds: Mutex<Vec<World>>,
}

/// Classes of algorithms in Python, by name.
type PythonClasses = Vec<(String, Py<PyAny>)>;

#[pymethods]
impl Batch {
    /// Creates a network for each scenario, with the Python classes of the flows that are not controlled. The caller
    /// controls `flows` in each network, by default the first transfer. A step takes `seconds`, or else `round_trips`.
    #[new]
    fn new(
        scenarios: Vec<(Bound<'_, PyScenario>, PythonClasses)>,
        flows: Vec<String>,
        seconds: Option<f64>,
        round_trips: f64,
        threads: usize,
    ) -> PyResult<Self> {
        let interval = match seconds {
            Some(s) if s >= 1e-6 && s.is_finite() => StepLength::Fixed(Time::from_secs_f64(s)),
            None if round_trips > 0.0 && round_trips.is_finite() => StepLength::RoundTrips(round_trips),
            _ => {
                return Err(PyValueError::new_err(
                    "a step must take at least a microsecond, or a positive number of round trips",
                ));
            }
        };
        let world = |(scenario, classes): (Bound<'_, PyScenario>, _)| world(scenario.get(), &flows, classes);
        let worlds = scenarios.into_iter().map(world).collect::<PyResult<Vec<_>>>()?;
        Ok(Batch { flows, interval, threads: threads.max(1), worlds: Mutex::new(worlds) })
    }

    /// Gives network `i` another scenario, which its next reset uses.
    fn replace(&self, i: usize, scenario: &PyScenario, classes: PythonClasses) -> PyResult<()> {
        let new = world(scenario, &self.flows, classes)?;
        let mut worlds = self.worlds()?;
        let count = worlds.len();
        let unknown = || PyValueError::new_err(format!("unknown network {i} of {count}: count networks from 0"));
        *worlds.get_mut(i).ok_or_else(unknown)? = new;
        Ok(())
    }

    /// Restarts networks. `which` has a pair for each: the index of the network, and the number of the replica to
    /// simulate next.
    fn reset(&self, py: Python<'_>, which: Vec<(usize, u32)>) -> PyResult<()> {
        py.detach(|| {
            guarded(|| {
                let mut worlds = self.worlds()?;
                for (i, replica) in which {
                    let count = worlds.len();
                    let world = worlds
                        .get_mut(i)
                        .ok_or_else(|| usage(&format!("unknown network {i} of {count}"), "count networks from 0"))?;
                    world.reset(replica)?;
                }
                Ok(())
            })
        })
    }

    /// Steps all networks. `actions` has two numbers (float64) for each controlled flow: window in segments, and pacing
    /// rate in Mbit/s (0 for none). A network whose first window is negative is skipped. Returns an outcome for each
    /// controlled flow: 0 = continues, 1 = the flow is over, 2 = the scenario is over.
    fn step<'py>(&self, py: Python<'py>, actions: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let number = |bytes: &[u8]| f64::from_ne_bytes(bytes.try_into().expect("8 bytes"));
        let actions: Vec<[f64; 2]> =
            actions.chunks_exact(16).map(|pair| [number(&pair[..8]), number(&pair[8..])]).collect();
        let ends = py.detach(|| {
            guarded(|| {
                let mut worlds = self.worlds()?;
                let controlled = self.flows.len().max(1);
                if actions.len() != worlds.len() * controlled {
                    return Err(usage(&"expected two numbers for each flow", "pass an array of float64").into());
                }
                let work = |worlds: &mut [World], actions: &[[f64; 2]]| -> Result<Vec<u8>, FailureReason> {
                    let mut ends = Vec::with_capacity(actions.len());
                    for (world, actions) in worlds.iter_mut().zip(actions.chunks_exact(controlled)) {
                        match actions[0][0] >= 0.0 {
                            true => ends.extend(world.step(self.interval, actions)?),
                            false => ends.resize(ends.len() + controlled, GOES_ON),
                        }
                    }
                    Ok(ends)
                };
                let threads = self.threads.min(worlds.len() / MIN_PER_THREAD).max(1);
                if threads == 1 {
                    return work(&mut worlds, &actions);
                }
                let share = worlds.len().div_ceil(threads);
                let parts: Vec<Result<Vec<u8>, FailureReason>> = std::thread::scope(|scope| {
                    let chunks = worlds.chunks_mut(share).zip(actions.chunks(share * controlled));
                    let running: Vec<_> =
                        chunks.map(|(worlds, actions)| scope.spawn(move || work(worlds, actions))).collect();
                    let over = running.into_iter().map(|thread| thread.join());
                    over.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
                });
                let mut ends = Vec::with_capacity(actions.len());
                for part in parts {
                    ends.extend(part?);
                }
                Ok(ends)
            })
        })?;
        Ok(PyBytes::new(py, &ends))
    }

    /// Returns the observations of all controlled flows as float32.
    fn observations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let worlds = self.worlds()?;
        let values = worlds.iter().flat_map(World::observations).flatten().flat_map(f32::to_ne_bytes);
        Ok(PyBytes::new(py, &values.collect::<Vec<u8>>()))
    }

    /// Returns true for each controlled flow that has sent data.
    fn started(&self) -> PyResult<Vec<bool>> {
        let worlds = self.worlds()?;
        Ok(worlds.iter().flat_map(|world| &world.agents).map(|agent| agent.shared.lock().claimed).collect())
    }

    /// Returns the seconds since the last acknowledgment of each controlled flow.
    fn silences(&self) -> PyResult<Vec<f64>> {
        Ok(self.worlds()?.iter().flat_map(World::silences).collect())
    }

    /// Returns the state of each controlled flow's path as three numbers (float64): lowest rate in Mbit/s, waiting
    /// packets, and 1 if all links are up.
    fn path_states<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut worlds = self.worlds()?;
        let values = worlds.iter_mut().flat_map(World::path_states).flatten().flat_map(f64::to_ne_bytes);
        Ok(PyBytes::new(py, &values.collect::<Vec<u8>>()))
    }

    /// Returns the time in each network, s.
    fn times(&self) -> PyResult<Vec<f64>> {
        Ok(self.worlds()?.iter().map(|world| world.now.as_secs_f64()).collect())
    }
}

/// Creates the network of a scenario, in which the caller controls the transfers with these names, or else the first
/// transfer.
fn world(scenario: &PyScenario, names: &[String], classes: PythonClasses) -> PyResult<World> {
    let plain = &scenario.scenario;
    let find = |name: Option<&String>| {
        let is = |f: &FlowSpec| matches!(f.traffic, Traffic::Bulk { .. }) && name.is_none_or(|name| f.name == *name);
        plain.flows.iter().position(is).ok_or_else(|| {
            let named = name.map_or_else(String::new, |name| format!(" `{name}`"));
            PyValueError::new_err(format!("the scenario has no transfer (kind = \"bulk\"){named}"))
        })
    };
    let flows = match names {
        [] => vec![find(None)?],
        names => names.iter().map(|name| find(Some(name))).collect::<PyResult<_>>()?,
    };
    Ok(World::new(plain, flows, classes))
}

/// Returns 2 to the power of each number (float64), with the same bits on every machine.
#[pyfunction]
pub(crate) fn exp2<'py>(py: Python<'py>, logs: &[u8]) -> Bound<'py, PyBytes> {
    let number = |bytes: &[u8]| f64::from_ne_bytes(bytes.try_into().expect("8 bytes"));
    let powers: Vec<u8> = logs.chunks_exact(8).flat_map(|bytes| libm::exp2(number(bytes)).to_ne_bytes()).collect();
    PyBytes::new(py, &powers)
}

impl Batch {
    /// Returns the networks. Waiting for another thread could last forever: that thread may need the interpreter.
    fn worlds(&self) -> PyResult<MutexGuard<'_, Vec<World>>> {
        match self.worlds.try_lock() {
            Ok(worlds) => Ok(worlds),
            Err(TryLockError::Poisoned(worlds)) => Ok(worlds.into_inner()),
            Err(TryLockError::WouldBlock) => Err(PyRuntimeError::new_err("another thread uses these environments")),
        }
    }
}
