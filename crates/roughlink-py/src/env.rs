//! Networks that stop for decisions: the environments of `roughlink.gym`.
//!
//! A network runs for one interval at a time. Between two intervals, the caller reads the counters of one flow for the
//! interval and sets its window and pacing rate, which take effect a nanosecond later. Networks of a batch share
//! nothing, so the number of threads does not change results.

use crate::error::{FailureReason, guarded, usage};
use crate::scenario::PyScenario;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use roughlink_core::app::Traffic;
use roughlink_core::cc::{
    Ack, AlgorithmTrace, Congestion, CongestionControl, CongestionState, Flow, OptionalEvents, Permit, Sent,
};
use roughlink_core::net::{Network, RunOptions};
use roughlink_core::scenario::{FlowSpec, Scenario};
use roughlink_core::units::{Rate, Time};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const OBSERVATION_LENGTH: usize = 9;
/// Shortest and longest interval if given in round trips; the shortest applies before the first RTT sample.
const INTERVALS: [Time; 2] = [Time::from_millis(10), Time::from_secs(1)];
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
    /// Counters of the interval: bytes delivered, lost and sent; sum and number of RTT samples.
    delivered: u64,
    lost: u64,
    sent: u64,
    rtt: (Time, u64),
    /// State of the connection after the last event.
    flow: Flow,
    /// True once the instance at the sending end is known. The other end of the connection has one, too.
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

/// A network, and the shared state of its controlled flow.
struct World {
    scenario: Arc<Scenario>,
    flow: usize,
    shared: SharedControl,
    network: Option<Network>,
    now: Time,
    took: Time,
}

/// Outcomes of a step.
const GOES_ON: u8 = 0;
const TERMINATED: u8 = 1;
const TRUNCATED: u8 = 2;

impl World {
    fn new(scenario: &Scenario, flow: usize) -> Self {
        let shared = SharedControl(Arc::default());
        let mut scenario = scenario.clone();
        let state = shared.clone();
        let cc = scenario.flows[flow].cc_mut().expect("a transfer has a congestion control");
        cc.factory = Arc::new(move |flow| {
            Box::new(ExternalControl { shared: state.clone(), mss: flow.mss, sends: false, at: None })
        });
        World { scenario: Arc::new(scenario), flow, shared, network: None, now: Time::ZERO, took: Time::ZERO }
    }

    /// Restarts the network and runs it until the first data is sent: before that, an agent has nothing to decide.
    fn reset(&mut self, replica: u32) -> Result<(), FailureReason> {
        *self.shared.lock() = ControlState { window: FIRST_WINDOW, ..ControlState::default() };
        let mut network = Network::new(Arc::clone(&self.scenario), RunOptions { replica, ..RunOptions::default() })?;
        self.now = self.scenario.flows[self.flow].start.min(self.scenario.duration);
        network.wake(self.now);
        while !self.shared.lock().claimed && self.now < self.scenario.duration {
            self.now = network.next_wake().min(self.scenario.duration);
            network.wake(self.now);
            if let Some(exceeded) = network.exceeded() {
                return Err(exceeded.into());
            }
        }
        (self.took, self.network) = (Time::ZERO, Some(network));
        Ok(())
    }

    fn step(&mut self, interval: StepLength, window: f64, rate: f64) -> Result<u8, FailureReason> {
        let Some(network) = &mut self.network else {
            return Err(usage(&"cannot step before the first reset", "call reset() first").into());
        };
        let mut state = self.shared.lock();
        let length = match interval {
            StepLength::Fixed(length) => length,
            StepLength::RoundTrips(n) => {
                let rtt = Time::from_secs_f64(state.flow.srtt.as_secs_f64() * n);
                rtt.clamp(INTERVALS[0], INTERVALS[1])
            }
        };
        let end = self.scenario.duration;
        let until = self.now.saturating_add(length).min(end);
        (state.window, state.rate) = (window, (rate > 0.0).then(|| Rate((rate * 1e6).max(1.0) as u64)));
        (state.delivered, state.lost, state.sent, state.rtt) = (0, 0, 0, (Time::ZERO, 0));
        state.due = until.saturating_add(Time(1));
        drop(state);
        network.wake(until);
        if let Some(exceeded) = network.exceeded() {
            return Err(exceeded.into());
        }
        self.took = until - self.now;
        self.now = until;
        let all = match self.scenario.flows[self.flow].traffic {
            Traffic::Bulk { bytes } => bytes.unwrap_or(u64::MAX),
            _ => u64::MAX,
        };
        // A connection that gave up has no further events, so the flow is over as well.
        let over = self.shared.lock().flow.snd_una >= all || network.next_wake() == Time::MAX && until < end;
        Ok(if over {
            TERMINATED
        } else if until >= end {
            TRUNCATED
        } else {
            GOES_ON
        })
    }

    /// Returns the observation of the last interval; `roughlink.gym` documents its values.
    fn observation(&self) -> [f32; OBSERVATION_LENGTH] {
        let state = self.shared.lock();
        let took = self.took.as_secs_f64();
        let mbps = |bytes: u64| if took > 0.0 { bytes as f64 * 8e-6 / took } else { 0.0 };
        let rtt = if state.rtt.1 > 0 { state.rtt.0.as_secs_f64() / state.rtt.1 as f64 } else { 0.0 };
        let least = if state.flow.min_rtt.is_max() { 0.0 } else { state.flow.min_rtt.as_secs_f64() };
        let lost = state.lost as f64 / (state.lost + state.delivered).max(1) as f64;
        let in_flight = state.flow.in_flight as f64 / f64::from(state.flow.mss.max(1));
        let repairs = !matches!(state.flow.state, CongestionState::Open | CongestionState::Disorder);
        [mbps(state.delivered), mbps(state.sent), rtt, least, lost, state.window, in_flight, f64::from(repairs), took]
            .map(|n| n as f32)
    }
}

/// Batch of networks, each with a separate scenario and random numbers.
#[pyclass(frozen, module = "roughlink._native")]
pub(crate) struct Batch {
    flow: Option<String>,
    interval: StepLength,
    threads: usize,
    worlds: Mutex<Vec<World>>,
}

#[pymethods]
impl Batch {
    /// Creates a network for each scenario. In each, the caller controls `flow`, by default the first transfer. A step
    /// takes `seconds`, or else `round_trips`.
    #[new]
    fn new(
        py: Python<'_>,
        scenarios: Vec<Bound<'_, PyScenario>>,
        flow: Option<String>,
        seconds: Option<f64>,
        round_trips: f64,
        threads: usize,
    ) -> PyResult<Self> {
        let of = |scenario: &Bound<'_, PyScenario>| controlled(scenario.get(), flow.as_deref());
        let plans = scenarios.iter().map(of).collect::<PyResult<Vec<_>>>()?;
        let interval = match seconds {
            Some(s) if s >= 1e-6 && s.is_finite() => StepLength::Fixed(Time::from_secs_f64(s)),
            None if round_trips > 0.0 && round_trips.is_finite() => StepLength::RoundTrips(round_trips),
            _ => {
                return Err(PyValueError::new_err(
                    "a step must take at least a microsecond, or a positive number of round trips",
                ));
            }
        };
        let worlds = py.detach(|| plans.iter().map(|(plain, flow)| World::new(plain, *flow)).collect());
        Ok(Batch { flow, interval, threads: threads.max(1), worlds: Mutex::new(worlds) })
    }

    /// Gives network `i` another scenario, which its next reset uses.
    fn replace(&self, i: usize, scenario: &PyScenario) -> PyResult<()> {
        let (plain, flow) = controlled(scenario, self.flow.as_deref())?;
        let mut worlds = self.worlds();
        let count = worlds.len();
        let unknown = || PyValueError::new_err(format!("unknown network {i} of {count}: count networks from 0"));
        *worlds.get_mut(i).ok_or_else(unknown)? = World::new(&plain, flow);
        Ok(())
    }

    /// Restarts networks. `which` has a pair for each: the index of the network, and the number of the replica to
    /// simulate next.
    fn reset(&self, py: Python<'_>, which: Vec<(usize, u32)>) -> PyResult<()> {
        py.detach(|| {
            guarded(|| {
                let mut worlds = self.worlds();
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

    /// Steps all networks. `actions` has two numbers (float64) for each: window in segments, and pacing rate in Mbit/s
    /// (0 for none). A negative window skips the network. Returns an outcome per network: 0 = continues, 1 = the flow
    /// is over, 2 = the scenario is over.
    fn step<'py>(&self, py: Python<'py>, actions: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let ends = py.detach(|| {
            guarded(|| {
                let mut worlds = self.worlds();
                if actions.len() != worlds.len() * ACTION {
                    return Err(usage(&"expected two numbers for each network", "pass an array of float64").into());
                }
                let work = |worlds: &mut [World], actions: &[u8]| -> Result<Vec<u8>, FailureReason> {
                    let each = worlds.iter_mut().zip(actions.chunks_exact(ACTION));
                    each.map(|(world, action)| {
                        let number = |at: usize| f64::from_ne_bytes(action[at..at + 8].try_into().expect("8 bytes"));
                        let (window, rate) = (number(0), number(8));
                        if window >= 0.0 { world.step(self.interval, window, rate) } else { Ok(GOES_ON) }
                    })
                    .collect()
                };
                let threads = self.threads.min(worlds.len() / MIN_PER_THREAD).max(1);
                if threads == 1 {
                    return work(&mut worlds, actions);
                }
                let share = worlds.len().div_ceil(threads);
                let parts: Vec<Result<Vec<u8>, FailureReason>> = std::thread::scope(|scope| {
                    let chunks = worlds.chunks_mut(share).zip(actions.chunks(share * ACTION));
                    let running: Vec<_> =
                        chunks.map(|(worlds, actions)| scope.spawn(move || work(worlds, actions))).collect();
                    let over = running.into_iter().map(|thread| thread.join());
                    over.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
                });
                let mut ends = Vec::with_capacity(worlds.len());
                for part in parts {
                    ends.extend(part?);
                }
                Ok(ends)
            })
        })?;
        Ok(PyBytes::new(py, &ends))
    }

    /// Returns the observations of all networks as float32.
    fn observations<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let values: Vec<u8> = py.detach(|| {
            let worlds = self.worlds();
            worlds.iter().flat_map(World::observation).flat_map(f32::to_ne_bytes).collect()
        });
        PyBytes::new(py, &values)
    }

    /// Returns the time in each network, s.
    fn times(&self) -> Vec<f64> {
        self.worlds().iter().map(|world| world.now.as_secs_f64()).collect()
    }
}

/// Returns a scenario and the position of its controlled flow: the one with this name, or else the first transfer.
fn controlled(scenario: &PyScenario, flow: Option<&str>) -> PyResult<(Arc<Scenario>, usize)> {
    let plain = Arc::clone(&scenario.scenario);
    let is = |f: &FlowSpec| matches!(f.traffic, Traffic::Bulk { .. }) && flow.is_none_or(|name| f.name == name);
    let Some(at) = plain.flows.iter().position(is) else {
        let named = flow.map_or_else(String::new, |name| format!(" `{name}`"));
        return Err(PyValueError::new_err(format!("the scenario has no transfer (kind = \"bulk\"){named}")));
    };
    Ok((plain, at))
}

/// Returns 2 to the power of each number (float64), with the same bits on every machine.
#[pyfunction]
pub(crate) fn exp2<'py>(py: Python<'py>, logs: &[u8]) -> Bound<'py, PyBytes> {
    let number = |bytes: &[u8]| f64::from_ne_bytes(bytes.try_into().expect("8 bytes"));
    let powers: Vec<u8> = logs.chunks_exact(8).flat_map(|bytes| libm::exp2(number(bytes)).to_ne_bytes()).collect();
    PyBytes::new(py, &powers)
}

/// Size of an action in bytes.
const ACTION: usize = 16;

impl Batch {
    fn worlds(&self) -> MutexGuard<'_, Vec<World>> {
        self.worlds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
