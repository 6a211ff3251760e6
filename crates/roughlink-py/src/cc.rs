//! Congestion controls that are Python classes.
//!
//! A name is added to the registry once, so that scenarios can use it; the start of a run binds it to a class. An
//! exception ends the run: no Python code is called after it, and the observer stops the network before its next event.

use crate::error::Misuse;
use crate::view::{AckView, CongestionCause, FlowView, LinkEventView, SentView};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use roughlink_core::cc::{
    Ack, Algorithm, AlgorithmTrace, BuildAlgorithm, Congestion, CongestionControl, Flow, LinkEvent, OptionalEvents,
    Permit, REGISTRY, Sent,
};
use roughlink_core::net::{Exceeded, Observer};
use roughlink_core::scenario::{FlowSpec, Scenario};
use roughlink_core::units::{Rate, Time};
use roughlink_lab::runner::{Failed, Job};
use roughlink_lab::store::RunRecord;
use std::collections::{BTreeMap, HashSet};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Returns the algorithms as JSON.
#[pyfunction]
pub(crate) fn algorithms() -> String {
    serde_json::to_string(&roughlink_lab::algorithms::list()).expect("a list has a JSON form")
}

/// Adds a name to the registry. Scenarios that are read after this call can use it.
#[pyfunction]
pub(crate) fn register(name: &str, summary: &str) -> PyResult<()> {
    let kept = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    // Entries stay for the lifetime of the process.
    let entry = Algorithm::new::<Unbound>(kept(name), kept(summary), PYTHON);
    REGISTRY.add(entry).map_err(|e| PyValueError::new_err(e.to_string()))
}

const PYTHON: &str = "a Python class";

/// Returns the algorithms of the flows that use Python classes.
pub(crate) fn in_python(scenario: &Scenario) -> impl Iterator<Item = &str> {
    let names = scenario.flows.iter().filter_map(|flow| Some(&*flow.cc()?.name));
    names.filter(|name| REGISTRY.find(name).is_some_and(|entry| entry.source == PYTHON))
}

/// Makes the flows of a scenario use these classes, or other callables that create an algorithm from a flow's state.
pub(crate) fn bind(scenario: &mut Scenario, classes: Vec<(String, Py<PyAny>)>) -> ExceptionObserver {
    let ends = ExceptionObserver::default();
    bind_to(scenario, classes, &ends);
    ends
}

/// Makes the flows of a scenario use these classes. `ends` keeps an exception.
pub(crate) fn bind_to(scenario: &mut Scenario, classes: Vec<(String, Py<PyAny>)>, ends: &ExceptionObserver) {
    for (name, class) in classes {
        let class = Arc::new(class);
        for cc in scenario.flows.iter_mut().filter_map(FlowSpec::cc_mut).filter(|cc| cc.name == name) {
            let (class, ends, name) = (Arc::clone(&class), ends.clone(), name.clone());
            cc.factory = Arc::new(move |flow| Box::new(PythonAlgorithm::new(&class, &name, &ends, flow)));
        }
    }
}

/// Executes a run of a sweep whose flows use these classes. `ends` keeps an exception.
pub(crate) fn execute(
    job: &Job,
    stop: Option<Arc<AtomicBool>>,
    classes: &[(String, Py<PyAny>)],
    ends: &ExceptionObserver,
) -> Result<RunRecord, Failed> {
    let mut scenario = Scenario::clone(&job.scenario);
    let own = Python::attach(|py| classes.iter().map(|(name, class)| (name.clone(), class.clone_ref(py))).collect());
    bind_to(&mut scenario, own, ends);
    let done = Job { scenario: Arc::new(scenario), ..job.clone() }.simulate(stop)?;
    if ends.is_raised() {
        Err(Exceeded::Stopped { at: Time::ZERO, duration: job.scenario.duration }.into())
    } else {
        Ok(done)
    }
}

/// Observer that keeps an exception and ends the run after it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExceptionObserver(Arc<ExceptionState>);

#[derive(Debug, Default)]
struct ExceptionState {
    first: Mutex<Option<PyErr>>,
    /// Set after an exception; a sweep shares it with all its runs.
    raised: Arc<AtomicBool>,
}

impl ExceptionObserver {
    /// Creates an observer that sets `stop` after an exception.
    pub(crate) fn of_sweep(stop: Arc<AtomicBool>) -> Self {
        ExceptionObserver(Arc::new(ExceptionState { first: Mutex::default(), raised: stop }))
    }
    fn raise(&self, e: PyErr) {
        self.0.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
        self.0.raised.store(true, Ordering::Relaxed);
    }
    /// Forgets an exception.
    pub(crate) fn clear(&self) {
        self.raised();
        self.0.raised.store(false, Ordering::Relaxed);
    }
    fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::Relaxed)
    }
    pub(crate) fn raised(&self) -> Option<PyErr> {
        self.0.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Observer for ExceptionObserver {
    fn stop(&self) -> bool {
        self.is_raised()
    }
}

/// Registry entry for a name whose class is still unknown. The reader of scenarios passes link events to an instance of
/// this type to detect an algorithm that would never send. A run uses an instance of the class instead.
#[derive(Debug)]
struct Unbound(u64);

impl BuildAlgorithm for Unbound {
    type Params = BTreeMap<String, bool>;
    fn new(_: &Arc<Self::Params>, flow: &Flow) -> Self {
        Unbound(flow.initial_window)
    }
}

impl CongestionControl for Unbound {
    fn on_ack(&mut self, _: &Flow, _: &Ack) {
        resume_unwind(Box::new(Misuse("an algorithm in Python cannot be part of another, such as `avoca`")))
    }
    fn on_congestion(&mut self, _: &Flow, _: Congestion) {}
    fn permit(&self, _: &Flow) -> Permit {
        Permit::window(self.0)
    }
    fn trace(&self) -> AlgorithmTrace {
        NOTHING
    }
}

const NOTHING: AlgorithmTrace = AlgorithmTrace { cwnd: 0, ssthresh: u64::MAX, rate: None, phase: "python" };

/// Python class in use by a connection.
#[derive(Debug)]
struct PythonAlgorithm {
    name: String,
    ends: ExceptionObserver,
    /// `None` if the instance could not be created; the run ends.
    methods: Option<Methods>,
    state: InstanceState,
}

/// Attributes of an instance after the last event, and the results of `timer` and `starts_anew` at that time.
#[derive(Debug)]
struct InstanceState {
    vitals: AlgorithmTrace,
    timer: Option<Time>,
    starts_anew: bool,
}

/// Instance, with those methods that override the base class.
#[derive(Debug)]
struct Methods {
    instance: Py<PyAny>,
    on_ack: Py<PyAny>,
    on_congestion: Py<PyAny>,
    permit: Option<Py<PyAny>>,
    on_sent: Option<Py<PyAny>>,
    on_recovered: Option<Py<PyAny>>,
    lower_window: Py<PyAny>,
    on_undo: Option<Py<PyAny>>,
    on_link: Option<Py<PyAny>>,
    on_timer: Option<Py<PyAny>>,
    timer: Option<Py<PyAny>>,
    rto_sample: Option<Py<PyAny>>,
    starts_anew: Option<Py<PyAny>>,
}

impl Methods {
    fn new(class: &Py<PyAny>, flow: &Flow, py: Python<'_>) -> PyResult<Self> {
        let instance = class.bind(py).call1((FlowView::new(flow),))?;
        let base = py.import("roughlink")?.getattr("CongestionControl")?;
        if !instance.is_instance(&base)? {
            let what = instance.get_type().name()?;
            return Err(PyTypeError::new_err(format!("expected a roughlink.CongestionControl, found {what}")));
        }
        let own = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            let inherited = instance.get_type().getattr(name)?.is(&base.getattr(name)?);
            if inherited { Ok(None) } else { instance.getattr(name).map(|m| Some(m.unbind())) }
        };
        Ok(Methods {
            on_ack: instance.getattr("on_ack")?.unbind(),
            on_congestion: instance.getattr("on_congestion")?.unbind(),
            lower_window: instance.getattr("lower_window")?.unbind(),
            permit: own("permit")?,
            on_sent: own("on_sent")?,
            on_recovered: own("on_recovered")?,
            on_undo: own("on_undo")?,
            on_link: own("on_link")?,
            on_timer: own("on_timer")?,
            timer: own("timer")?,
            rto_sample: own("rto_sample")?,
            starts_anew: own("starts_anew")?,
            instance: instance.unbind(),
        })
    }

    /// Reads the attributes and the results of `timer` and `starts_anew`. `phase` is the previous phase.
    fn state(&self, phase: &'static str, py: Python<'_>) -> PyResult<InstanceState> {
        let instance = self.instance.bind(py);
        let cwnd = integer(&instance.getattr(intern!(py, "cwnd"))?, "cwnd", "bytes")?;
        let ssthresh = integer(&instance.getattr(intern!(py, "ssthresh"))?, "ssthresh", "bytes")?;
        let rate = rate(&instance.getattr(intern!(py, "rate_bps"))?)?;
        let named = instance.getattr(intern!(py, "phase"))?;
        let named = named.extract::<std::borrow::Cow<'_, str>>()?;
        let phase = if named == phase { phase } else { interned(&named) };
        let timer = match &self.timer {
            Some(timer) => seconds(&timer.bind(py).call0()?, "timer")?,
            None => None,
        };
        let starts_anew = match &self.starts_anew {
            Some(starts_anew) => starts_anew.bind(py).call0()?.extract()?,
            None => false,
        };
        Ok(InstanceState { vitals: AlgorithmTrace { cwnd, ssthresh, rate, phase }, timer, starts_anew })
    }
}

impl PythonAlgorithm {
    fn new(class: &Py<PyAny>, name: &str, ends: &ExceptionObserver, flow: &Flow) -> Self {
        let mut mine = PythonAlgorithm {
            name: name.to_owned(),
            ends: ends.clone(),
            methods: None,
            state: InstanceState { vitals: NOTHING, timer: None, starts_anew: false },
        };
        if !ends.is_raised() {
            let made = Python::attach(|py| {
                let methods = Methods::new(class, flow, py)?;
                let state = methods.state(NOTHING.phase, py)?;
                Ok((methods, state))
            });
            match made {
                Ok((methods, state)) => (mine.methods, mine.state) = (Some(methods), state),
                Err(e) => ends.raise(e),
            }
        }
        mine
    }

    /// Calls an event method, if the class has it, and reads the new state.
    fn call_event<A>(&mut self, method: fn(&Methods) -> Option<&Py<PyAny>>, arguments: impl FnOnce() -> A)
    where
        A: for<'py> pyo3::call::PyCallArgs<'py>,
    {
        if self.ends.is_raised() {
            return;
        }
        let Some(methods) = &self.methods else { return };
        let Some(method) = method(methods) else { return };
        let state = Python::attach(|py| {
            method.bind(py).call1(arguments())?;
            methods.state(self.state.vitals.phase, py)
        });
        match state {
            Ok(state) => self.state = state,
            Err(e) => self.ends.raise(e),
        }
    }

    fn call<T>(&self, method: Option<&Py<PyAny>>, ask: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Option<T> {
        let method = method.filter(|_| !self.ends.is_raised())?;
        match Python::attach(|py| ask(method.bind(py))) {
            Ok(answer) => Some(answer),
            Err(e) => {
                self.ends.raise(e);
                None
            }
        }
    }
}

impl CongestionControl for PythonAlgorithm {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        self.call_event(|m| Some(&m.on_ack), || (FlowView::new(flow), AckView(*ack)));
    }
    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        self.call_event(|m| Some(&m.on_congestion), || (FlowView::new(flow), CongestionCause::from(cause)));
    }
    fn permit(&self, flow: &Flow) -> Permit {
        let usual = Permit::Send { window: flow.window(self.state.vitals.cwnd), rate: self.state.vitals.rate };
        let permit = self.methods.as_ref().and_then(|m| m.permit.as_ref());
        self.call(permit, |method| permitted(&method.call1((FlowView::new(flow),))?)).unwrap_or(usual)
    }
    fn trace(&self) -> AlgorithmTrace {
        self.state.vitals
    }
    fn optional_events(&self) -> OptionalEvents {
        let has =
            |method: fn(&Methods) -> &Option<Py<PyAny>>| self.methods.as_ref().is_some_and(|m| method(m).is_some());
        let mut events = OptionalEvents::ALL;
        (events.sent, events.timer) = (has(|m| &m.on_sent), has(|m| &m.timer));
        events.rto_sample = has(|m| &m.rto_sample);
        events
    }
    fn on_sent(&mut self, flow: &Flow, sent: &Sent) {
        self.call_event(|m| m.on_sent.as_ref(), || (FlowView::new(flow), SentView(*sent)));
    }
    fn on_recovered(&mut self, flow: &Flow) {
        self.call_event(|m| m.on_recovered.as_ref(), || (FlowView::new(flow),));
    }
    fn lower_window(&mut self, flow: &Flow, cwnd: u64, ssthresh: u64) {
        self.call_event(|m| Some(&m.lower_window), || (FlowView::new(flow), cwnd, ssthresh));
    }
    fn on_undo(&mut self, flow: &Flow) {
        self.call_event(|m| m.on_undo.as_ref(), || (FlowView::new(flow),));
    }
    fn on_link(&mut self, flow: &Flow, event: &LinkEvent) {
        self.call_event(|m| m.on_link.as_ref(), || (FlowView::new(flow), LinkEventView(*event)));
    }
    fn starts_anew(&self) -> bool {
        self.state.starts_anew
    }
    fn on_timer(&mut self, flow: &Flow) {
        let due = self.state.timer;
        self.call_event(|m| m.on_timer.as_ref(), || (FlowView::new(flow),));
        if due == self.state.timer && !self.ends.is_raised() {
            let e = format!("`{}`: after on_timer, timer() must return a later time or None", self.name);
            self.ends.raise(PyValueError::new_err(e));
        }
    }
    fn timer(&self) -> Option<Time> {
        self.state.timer
    }
    fn rto_sample(&self, flow: &Flow, ack: u64, measured: Option<Time>) -> Option<Time> {
        let method = self.methods.as_ref().and_then(|m| m.rto_sample.as_ref());
        let given = measured.map(Time::as_secs_f64);
        let answer =
            self.call(method, |method| seconds(&method.call1((FlowView::new(flow), ack, given))?, "rto_sample"));
        answer.unwrap_or(measured)
    }
}

/// Converts a number of bytes, truncating its fraction.
fn integer(value: &Bound<'_, PyAny>, name: &str, unit: &str) -> PyResult<u64> {
    if let Ok(n) = value.extract::<u64>() {
        return Ok(n);
    }
    let wrong = || PyValueError::new_err(format!("{name} is {value}: expected {unit} from 0 to {}", u64::MAX));
    let n: f64 = value.extract().map_err(|_| wrong())?;
    // Users write infinity for no threshold.
    if n >= 0.0 { Ok(n as u64) } else { Err(wrong()) }
}

fn rate(value: &Bound<'_, PyAny>) -> PyResult<Option<Rate>> {
    if value.is_none() {
        return Ok(None);
    }
    match integer(value, "rate_bps", "bit/s")? {
        0 => Err(PyValueError::new_err("rate_bps is 0: return None from permit() if nothing may be sent")),
        n => Ok(Some(Rate(n))),
    }
}

fn seconds(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<Time>> {
    if value.is_none() {
        return Ok(None);
    }
    let s: f64 = value.extract()?;
    if s >= 0.0 {
        Ok(Some(Time::from_secs_f64(s)))
    } else {
        Err(PyValueError::new_err(format!("{name}() returned {s}: expected 0 or more seconds")))
    }
}

/// Converts the result of `permit`: a window in bytes, a window and a rate in bit/s, or `None`.
fn permitted(value: &Bound<'_, PyAny>) -> PyResult<Permit> {
    if value.is_none() {
        return Ok(Permit::Hold);
    }
    if let Ok(pair) = value.cast::<PyTuple>() {
        let (window, pace) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        return Ok(Permit::Send { window: integer(&window, "the window", "bytes")?, rate: rate(&pace)? });
    }
    Ok(Permit::window(integer(value, "the window", "bytes")?))
}

/// Returns a copy of a phase's name that lives as long as the process; "other" if it is long or beyond `MAX_PHASES`.
fn interned(phase: &str) -> &'static str {
    static ALL: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    if let Some(known) = all.get(phase) {
        return known;
    }
    if all.len() == MAX_PHASES || phase.len() > MAX_PHASE_LEN {
        return "other";
    }
    let kept: &'static str = Box::leak(phase.to_owned().into_boxed_str());
    all.insert(kept);
    kept
}

const MAX_PHASES: usize = 1000;
/// Maximum length of a phase's name, bytes.
const MAX_PHASE_LEN: usize = 100;
