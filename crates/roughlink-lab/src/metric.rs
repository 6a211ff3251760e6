//! Metrics by name, computed from the result of a run.
//!
//! A name is a quantity, optionally of one flow or link (`throughput_mbps@download`, `loss@plc.reverse`), optionally
//! the `min`, `max`, `sum` or `mean` over all of them (`throughput_mbps:min`). If transfers have the quantity, "all
//! flows" are the transfers. Without either, a quantity of flows is the mean over the flows, and a quantity of links is
//! the bottleneck's value. The bottleneck is the link direction that lost and dropped the most packets; among equals,
//! the one with the longest queue. `covered_mb@high` is the volume delivered while the train was in stations of that
//! class.
//!
//! A window, as in `throughput_mbps[10..60]@download`, limits the metric to the time from 10 s to 60 s
//! ([`crate::watch::windows`]). A percentile at the end (`throughput_mbps:p50`) replaces the mean over the replicas.
//!
//! ```
//! use roughlink_core::units::Time;
//! use roughlink_lab::metric::Metric;
//!
//! let metric = Metric::new("throughput_mbps[10..60]@download")?;
//! assert_eq!(metric.window_end(), Some(Time::from_secs(60)));
//! assert_eq!(metric.describe().label, "Throughput per flow, download, 10 s to 60 s");
//!
//! let median = Metric::new("throughput_mbps:p50")?;
//! assert_eq!((median.name_per_run(), median.quantile()), ("throughput_mbps", Some(0.5)));
//!
//! let error = Metric::new("throughput_mpbs").unwrap_err();
//! assert_eq!(error.help().as_deref(), Some("did you mean `throughput_mbps`?"));
//! # Ok::<(), roughlink_lab::error::LabError>(())
//! ```

use crate::error::LabError;
use crate::experiment::result::MetricResult;
use crate::nearest;
use crate::quantity::{self, COVERED, Quantity};
use crate::statistics::ConfidenceInterval;
use crate::store::RunRecord;
use crate::watch::MEANS;
use crate::watch::windows::{self, WINDOWED, Windowed};
use roughlink_core::app::request::MessageResult;
use roughlink_core::metrics::{DirectionResult, FlowResult, RttResult, RunResult};
use roughlink_core::quantiles::DelayResult;
use roughlink_core::scenario::Scenario;
use roughlink_core::units::Time;
use serde::Serialize;
use std::collections::BTreeSet;

/// A metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    name: String,
    /// Name without `quantile`: the name in the results of a single run.
    per_run: String,
    of: Element,
    which: Selection,
    /// Quantile over the replicas, instead of their mean.
    quantile: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
enum Element {
    Flow(&'static Measure<FlowResult>),
    Link(&'static Measure<DirectionResult>),
    Run(&'static Measure<RunResult>),
    Mean(&'static Quantity),
    Window(&'static Windowed),
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.quantity() == other.quantity()
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Selection {
    Usual,
    Named(String),
    Fold(Fold),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fold {
    Mean,
    Min,
    Max,
    Sum,
}

/// A quantity and its computation from a result.
struct Measure<T: 'static> {
    quantity: Quantity,
    value: fn(&T) -> Option<f64>,
    /// Lower bound, if the run ended before there was a value.
    at_least: fn(&T, &RunResult) -> Option<f64>,
    /// True if a flow either has the property or not, so that the mean over runs is a share of runs.
    share: bool,
}

impl<T> std::fmt::Debug for Measure<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.quantity.name)
    }
}

const fn measure<T>(name: &str, value: fn(&T) -> Option<f64>) -> Measure<T> {
    Measure { quantity: quantity::named(name), value, at_least: |_, _| None, share: false }
}

const fn measure_until<T>(
    name: &str,
    value: fn(&T) -> Option<f64>,
    at_least: fn(&T, &RunResult) -> Option<f64>,
) -> Measure<T> {
    Measure { quantity: quantity::named(name), value, at_least, share: false }
}

const fn share_of_runs<T>(name: &str, value: fn(&T) -> Option<f64>) -> Measure<T> {
    Measure { quantity: quantity::named(name), value, at_least: |_, _| None, share: true }
}

static FLOW: &[Measure<FlowResult>] = &[
    // A transfer that delivered nothing has a rate of 0; leaving it out would raise the mean.
    measure("throughput_mbps", |f| f.throughput_mbps.or((f.is_transfer() && f.delivered_bytes == 0).then_some(0.0))),
    measure("delivered_bytes", |f| Some(f.delivered_bytes as f64)),
    measure_until(
        "duration_s",
        |f| f.end_s.map(|end| end - f.start_s),
        |f, run| (!f.unlimited).then(|| (run.sim_s - f.start_s).max(0.0)),
    ),
    measure("failed_s", |f| f.failed_s),
    measure("segments", |f| Some(f.segments as f64)),
    measure("retransmits", |f| Some(f.retransmits as f64)),
    measure("retransmit_share", |f| share(f.retransmits, f.segments)),
    measure("fast_recoveries", |f| Some(f.fast_recoveries as f64)),
    measure("timeouts", |f| Some(f.timeouts as f64)),
    measure("loss_events", |f| Some(f.fast_recoveries as f64 + f.timeouts as f64)),
    measure("recoveries_per_timeout", |f| share(f.fast_recoveries, f.timeouts)),
    measure("timeout_share", |f| share(f.timeouts, f.fast_recoveries.saturating_add(f.timeouts))),
    measure("undos", |f| Some(f.undos as f64)),
    measure("rtt_min_ms", |f| f.rtt_ms.map(|r| r.min)),
    measure("rtt_mean_ms", |f| f.rtt_ms.map(|r| r.mean)),
    measure("rtt_p50_ms", |f| f.rtt_ms.map(|r| r.p50)),
    measure("rtt_p95_ms", |f| f.rtt_ms.map(|r| r.p95)),
    measure("rtt_p99_ms", |f| f.rtt_ms.map(|r| r.p99)),
    measure("delay_p50_ms", |f| delay(f, |d| d.p50, |d| d.p50)),
    measure("delay_p95_ms", |f| delay(f, |d| d.p95, |d| d.p95)),
    measure("delay_p99_ms", |f| delay(f, |d| d.p99, |d| d.p99)),
    measure("voice_r", |f| f.voip()?[0].r),
    measure("voice_mos", |f| f.voip()?[0].mos),
    measure("responses", |f| f.web().map(|w| w.responses as f64)),
    measure("response_mean_ms", |f| f.web()?.response_ms.map(|r| r.mean)),
    measure("response_p50_ms", |f| f.web()?.response_ms.map(|r| r.p50)),
    measure("response_p95_ms", |f| f.web()?.response_ms.map(|r| r.p95)),
    measure("messages_delivered", |f| f.messages().map(|m| m.delivered as f64)),
    measure("message_share", |f| f.messages().and_then(|m| share(m.delivered, m.sent))),
    measure("latency_mean_ms", |f| f.messages()?.latency_ms.map(|l| l.mean)),
    measure("latency_p50_ms", |f| f.messages()?.latency_ms.map(|l| l.p50)),
    measure("latency_p95_ms", |f| f.messages()?.latency_ms.map(|l| l.p95)),
    measure("latency_p99_ms", |f| f.messages()?.latency_ms.map(|l| l.p99)),
    share_of_runs("completed", |f| Some(f64::from(u8::from(f.completed)))),
    measure("loop_messages", |f| charging_loop(f).map(|m| m.count as f64)),
    measure("loop_p50_ms", |f| charging_loop(f)?.latency_ms.map(|l| l.p50)),
    measure("loop_p95_ms", |f| charging_loop(f)?.latency_ms.map(|l| l.p95)),
    measure("loop_p99_ms", |f| charging_loop(f)?.latency_ms.map(|l| l.p99)),
    measure("loop_max_ms", |f| charging_loop(f)?.latency_ms.map(|l| l.max)),
    measure("loop_late", |f| charging_loop(f).map(|m| m.violations as f64)),
    measure("violations", |f| f.session().map(|s| s.violations() as f64)),
    // A session that was never set up did not survive.
    share_of_runs("survived", |f| f.session().map(|s| f64::from(u8::from(s.survived)))),
    measure_until(
        "session_setup_ms",
        |f| f.session()?.setup_ms,
        |f, run| Some((f.session()?.end_s.unwrap_or(run.sim_s) - f.start_s).max(0.0) * 1e3),
    ),
];

/// Returns a one-way delay of a flow; of a call, to the far end.
fn delay(f: &FlowResult, of: fn(&RttResult) -> f64, of_call: fn(&DelayResult) -> f64) -> Option<f64> {
    let call = || f.voip()?[0].delay_ms.as_ref().map(of_call);
    f.delay_ms.as_ref().map(of).or_else(call)
}

fn charging_loop(f: &FlowResult) -> Option<&MessageResult> {
    f.session()?.charging_loop()
}

static LINK: &[Measure<DirectionResult>] = &[
    measure("loss", |d| d.loss),
    measure("lost", |d| Some(d.lost as f64)),
    measure("dropped", |d| Some(d.dropped as f64)),
    measure("packets", |d| Some(d.packets as f64)),
    measure("queue_mean_pkt", |d| Some(d.queue_mean_pkt)),
    measure("queue_max_pkt", |d| Some(f64::from(d.queue_max_pkt))),
    measure("queue_delay_p50_ms", |d| d.queue_delay_ms.map(|q| q.p50)),
    measure("queue_delay_p95_ms", |d| d.queue_delay_ms.map(|q| q.p95)),
    measure("queue_delay_p99_ms", |d| d.queue_delay_ms.map(|q| q.p99)),
    measure("block_error", |d| d.arq.and_then(|a| share(a.errors, a.blocks))),
];

static RUN: &[Measure<RunResult>] =
    &[measure("jain", |r| r.jain), measure("sim_s", |r| Some(r.sim_s)), measure("events", |r| Some(r.events as f64))];

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Element {
    fn quantity(&self) -> Quantity {
        match self {
            Element::Flow(m) => m.quantity,
            Element::Link(m) => m.quantity,
            Element::Run(m) => m.quantity,
            Element::Mean(q) => **q,
            Element::Window(w) => w.quantity,
        }
    }
}

/// Returns the names of all quantities.
pub fn names() -> Vec<&'static str> {
    all().iter().map(|of| of.quantity().name).collect()
}

/// A metric in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MetricDescription {
    /// Name, with `[A..B]` if the metric needs a window.
    pub name: String,
    /// Element: a `flow`, a `link` or the `run`.
    pub of: &'static str,
    /// Unit; empty for a plain number.
    pub unit: &'static str,
    /// Meaning.
    pub meaning: String,
}

/// Lists all metrics, those with windows last.
pub fn list() -> Vec<MetricDescription> {
    let listed = |of: Element| {
        let quantity = of.quantity();
        let name = quantity.name.to_owned() + if matches!(of, Element::Window(_)) { "[A..B]" } else { "" };
        let element = match of {
            Element::Flow(_) => "flow",
            Element::Link(_) => "link",
            Element::Run(_) | Element::Mean(..) => "run",
            Element::Window(w) if w.is_of_run() => "run",
            Element::Window(w) if w.is_of_link() => "link",
            Element::Window(_) => "flow",
        };
        MetricDescription { name, of: element, unit: quantity.unit, meaning: quantity.meaning() }
    };
    all().into_iter().chain(WINDOWED.iter().map(Element::Window)).map(listed).collect()
}

fn all() -> Vec<Element> {
    let flows = FLOW.iter().map(Element::Flow);
    let links = LINK.iter().map(Element::Link);
    let runs = RUN.iter().map(Element::Run);
    flows.chain(links).chain(runs).chain(MEANS.iter().map(Element::Mean)).collect()
}

impl Metric {
    /// Parses the metric `name`.
    pub fn new(name: &str) -> Result<Metric, LabError> {
        let unknown = |help| LabError::NotFound { what: "metric", name: name.into(), help };
        if let Some((per_run, percent)) = name.rsplit_once(":p")
            && let Ok(percent) = percent.parse::<f64>()
        {
            if !(percent > 0.0 && percent < 100.0) {
                return Err(unknown(
                    "a percentile must be between 0 and 100; `:p50` is the median over the runs".into(),
                ));
            }
            let of_run = Metric::new(per_run)?;
            if of_run.quantile.is_some() {
                return Err(unknown("give one percentile over the runs".into()));
            }
            return Ok(Metric { name: name.into(), quantile: Some(percent / 100.0), ..of_run });
        }
        if let Some((base, window, rest)) = windows::parse(name) {
            let Some(of) = WINDOWED.iter().find(|w| w.quantity.name == base) else {
                return Err(unknown(nearest::suggest(
                    base,
                    "expected with a window:",
                    WINDOWED.iter().map(|w| w.quantity.name),
                )));
            };
            if let Err(reason) = window {
                return Err(unknown(format!("{reason}: write {base}[10..60] for the time from 10 s to 60 s")));
            }
            let parse_selection = which(base, rest, !of.is_of_run()).map_err(unknown)?;
            return Ok(Metric {
                name: name.into(),
                per_run: name.into(),
                of: Element::Window(of),
                which: parse_selection,
                quantile: None,
            });
        }
        let at = name.find(['@', ':']).unwrap_or(name.len());
        let (base, rest) = name.split_at(at);
        let Some(of) = all().into_iter().find(|of| of.quantity().name == base) else {
            if WINDOWED.iter().any(|w| w.quantity.name == base) {
                return Err(unknown(format!("add a window: {base}[10..60] for the time from 10 s to 60 s")));
            }
            return Err(unknown(nearest::suggest(base, "expected", names())));
        };
        let per_element = matches!(of, Element::Flow(_) | Element::Link(_)) || base == COVERED && rest.starts_with('@');
        let which = which(base, rest, per_element).map_err(unknown)?;
        Ok(Metric { name: name.into(), per_run: name.into(), of, which, quantile: None })
    }

    /// Refuses a metric of a flow or link that `scenario` does not have, and a window beyond its end.
    pub fn check(&self, scenario: &Scenario) -> Result<(), LabError> {
        if let Some(end) = self.window_end().filter(|end| *end > scenario.duration) {
            let (end, duration) = (end.as_secs_f64(), scenario.duration.as_secs_f64());
            return Err(LabError::Usage {
                message: format!("the window of `{}` ends at {end} s, but the scenario lasts {duration} s", self.name),
                help: format!("end the window by {duration}, or set a longer duration: --set duration='{end} s'"),
            });
        }
        let Selection::Named(name) = &self.which else { return Ok(()) };
        let flows = scenario.flows.iter().map(|f| f.name.as_str());
        match self.of {
            Element::Flow(_) => return known("flow", name, flows),
            Element::Window(of) if !of.is_of_link() => return known("flow", &windows::direction(name).0, flows),
            Element::Mean(..) => {
                let stays = scenario.links.iter().flat_map(|l| &l.stays);
                return known("station class", name, stays.map(|s| s.class.as_str()));
            }
            _ => {}
        }
        let links = || scenario.links.iter().map(|l| l.name.as_str());
        let link = name.strip_suffix(".forward").or(name.strip_suffix(".reverse")).unwrap_or(name);
        if links().any(|l| l == name) { Ok(()) } else { known("link", link, links()) }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the value in a single run, without the percentile over the runs.
    pub fn name_per_run(&self) -> &str {
        &self.per_run
    }

    /// Returns the quantile over the replicas; `None` for their mean.
    pub fn quantile(&self) -> Option<f64> {
        self.quantile
    }

    /// Returns the end of the time window.
    pub fn window_end(&self) -> Option<Time> {
        windows::parse(&self.per_run)?.1.ok().map(|(_, end)| end)
    }

    /// Returns true if the metric needs a watched run.
    pub fn needs_watching(&self) -> bool {
        matches!(self.of, Element::Mean(..) | Element::Window(_))
    }

    /// Returns true if runs on a kernel can have the metric. Only senders are watched there: no time windows, recovery
    /// from outages or coverage.
    pub fn is_of_kernels(&self) -> bool {
        match self.of {
            Element::Window(_) => false,
            Element::Mean(quantity) => quantity.name.starts_with("cwnd_"),
            Element::Flow(_) | Element::Link(_) | Element::Run(_) => true,
        }
    }

    /// Returns true if the mean over runs is a share of runs.
    pub fn is_share_of_runs(&self) -> bool {
        matches!(self.of, Element::Flow(q) if q.share)
            && self.which != Selection::Fold(Fold::Sum)
            && self.quantile.is_none()
    }

    /// Returns true if the metric has a time window.
    pub fn has_window(&self) -> bool {
        matches!(self.of, Element::Window(_))
    }

    /// Returns name, label and unit.
    pub fn describe(&self) -> MetricResult {
        let Quantity { label, unit, .. } = self.of.quantity();
        let which = match &self.which {
            Selection::Usual => String::new(),
            Selection::Named(name) => format!(", {name}"),
            Selection::Fold(Fold::Mean) => ", mean".into(),
            Selection::Fold(Fold::Min) => ", smallest".into(),
            Selection::Fold(Fold::Max) => ", largest".into(),
            Selection::Fold(Fold::Sum) => ", sum".into(),
        };
        let over_runs = match self.quantile {
            None => String::new(),
            Some(0.5) => ", median of the runs".into(),
            Some(q) => format!(", percentile {} of the runs", (q * 1e8).round() / 1e6),
        };
        let window = match windows::parse(&self.per_run) {
            Some((_, Ok((a, b)), _)) => format!(", {} s to {} s", a.as_secs_f64(), b.as_secs_f64()),
            _ => String::new(),
        };
        MetricResult { name: self.name.clone(), label: format!("{label}{which}{window}{over_runs}"), unit: unit.into() }
    }

    /// Returns true if the time window of the value ended early in a run, with the run or with a flow that it covers.
    pub fn is_cut(&self, record: &RunRecord) -> bool {
        let (Element::Window(window), Some(end)) = (self.of, self.window_end()) else { return false };
        let run = &record.result;
        let covers = |f: &FlowResult| match &self.which {
            Selection::Named(name) => window.covers(f) && f.name == windows::direction(name).0,
            Selection::Usual | Selection::Fold(_) => window.covers(f),
        };
        let ends = run.flows.iter().filter(|f| covers(f)).filter_map(|f| f.end_s);
        self.value(record).is_some() && ends.chain([run.sim_s]).any(|end_s| end_s < end.as_secs_f64())
    }

    /// Returns the value in a run, if there is one.
    pub fn value(&self, record: &RunRecord) -> Option<f64> {
        self.bounds(record).and_then(|[from, to]| (from == to).then_some(from))
    }

    /// Returns the bounds of the value in a run. Equal bounds mean a known value; the upper one is infinite if the run
    /// ended too early.
    pub(crate) fn bounds(&self, record: &RunRecord) -> Option<ConfidenceInterval> {
        let run = &record.result;
        let exactly = |value: f64| [value; 2];
        match self.of {
            Element::Run(q) => (q.value)(run).map(exactly),
            Element::Mean(..) => {
                let watched = record.watched.as_ref()?;
                let bound = || watched.at_least.get(&self.per_run).map(|bound| [*bound, f64::INFINITY]);
                watched.means.get(&self.per_run).copied().map(exactly).or_else(bound)
            }
            Element::Window(_) => record.watched.as_ref()?.windows.get(&self.per_run).copied().map(exactly),
            Element::Flow(q) => {
                let of = |f: &FlowResult| {
                    let bound = || (q.at_least)(f, run).map(|bound| [bound, f64::INFINITY]);
                    (q.value)(f).map(exactly).or_else(bound)
                };
                let alike = || {
                    let among = run.flows.iter().any(|f| f.is_transfer() && of(f).is_some());
                    run.flows.iter().filter(move |f| !among || f.is_transfer()).filter_map(of)
                };
                match &self.which {
                    Selection::Usual => Fold::Mean.apply_bounds(alike()),
                    Selection::Fold(fold) => fold.apply_bounds(alike()),
                    Selection::Named(name) => run.flows.iter().find(|f| f.name == *name).and_then(of),
                }
            }
            Element::Link(q) => self.link_value(q, run).map(exactly),
        }
    }

    fn link_value(&self, q: &Measure<DirectionResult>, run: &RunResult) -> Option<f64> {
        let all = || run.links.iter().flat_map(|l| [&l.forward, &l.reverse]);
        match &self.which {
            Selection::Usual => {
                let bottleneck = |a: &&DirectionResult, b: &&DirectionResult| {
                    let missing = |d: &DirectionResult| d.lost.saturating_add(d.dropped);
                    missing(a).cmp(&missing(b)).then(a.queue_mean_pkt.total_cmp(&b.queue_mean_pkt))
                };
                all().max_by(bottleneck).and_then(q.value)
            }
            Selection::Fold(fold) => fold.apply(all().filter_map(q.value)),
            Selection::Named(name) => {
                let link = |name: &str| run.links.iter().find(|l| l.name == name);
                let direction = match (link(name), name.rsplit_once('.')) {
                    (Some(l), _) => Some(&l.forward),
                    (None, Some((name, "forward"))) => link(name).map(|l| &l.forward),
                    (None, Some((name, "reverse"))) => link(name).map(|l| &l.reverse),
                    _ => None,
                };
                direction.and_then(q.value)
            }
        }
    }
}

/// Returns the default metrics for scenarios with these kinds of flows: `transfers` for bulk transfers, delays for
/// on-off flows, response times for web pages, latencies for messages and charging sessions, speech quality for calls.
/// If there are only other flows, such as datagrams at a constant rate, the defaults are throughput and loss.
pub fn default_metrics(kinds: &BTreeSet<&str>, transfers: &[&'static str]) -> Vec<&'static str> {
    let mut names = Vec::new();
    let kinds_and_metrics: [(&str, &[&'static str]); 6] = [
        ("bulk", transfers),
        ("onoff", &["delay_p95_ms"]),
        ("web", &["response_p50_ms", "response_p95_ms"]),
        ("messages", &["message_share", "latency_p50_ms", "latency_p99_ms"]),
        ("request", SESSION),
        ("voip", &["voice_mos"]),
    ];
    for (kind, metrics) in kinds_and_metrics {
        if kinds.contains(kind) {
            names.extend(metrics);
        }
    }
    if names.is_empty() { vec!["throughput_mbps", "loss"] } else { names }
}

const SESSION: &[&str] = &["loop_p50_ms", "loop_p99_ms", "loop_late", "survived"];

/// Forms of metric names, one per line.
pub const FORMS: &str = "\
NAME[10..60] covers the time from 10 s to 60 s; A..B stands for such a window.
NAME@x is the value of flow, link or station class x (loss@plc.reverse: one direction).
NAME:min, :max, :sum and :mean combine the values of all flows or links.
NAME:p50 at the end is the median over the runs instead of the mean, NAME:p95 the 95th percentile.
";

/// Parses the suffix of a quantity's name.
fn which(base: &str, rest: &str, per_element: bool) -> Result<Selection, String> {
    Ok(match rest.split_at_checked(1) {
        None => Selection::Usual,
        Some(_) if !per_element => return Err(format!("`{base}` is one number for the whole run")),
        Some(("@", which)) => Selection::Named(which.into()),
        Some((_, fold)) => Selection::Fold(match fold {
            "mean" => Fold::Mean,
            "min" => Fold::Min,
            "max" => Fold::Max,
            "sum" => Fold::Sum,
            _ => return Err(nearest::suggest(fold, "expected after `:`:", ["mean", "min", "max", "sum", "p50"])),
        }),
    })
}

/// Fails if `name` is not one of `names`.
pub(crate) fn known<'n>(
    what: &'static str,
    name: &str,
    names: impl Iterator<Item = &'n str> + Clone,
) -> Result<(), LabError> {
    if names.clone().any(|n| n == name) {
        return Ok(());
    }
    Err(LabError::NotFound { what, name: name.into(), help: nearest::suggest(name, "expected", names) })
}

impl Fold {
    /// Combines values given by their bounds.
    fn apply_bounds(self, values: impl Iterator<Item = ConfidenceInterval>) -> Option<ConfidenceInterval> {
        let (mut count, mut all) = (0_u32, [self.start(); 2]);
        for [low, high] in values {
            count += 1;
            all = [self.add(all[0], low), self.add(all[1], high)];
        }
        (count > 0).then(|| all.map(|value| if self == Fold::Mean { value / f64::from(count) } else { value }))
    }

    fn apply(self, values: impl Iterator<Item = f64>) -> Option<f64> {
        self.apply_bounds(values.map(|value| [value; 2])).map(|[value, _]| value)
    }

    fn start(self) -> f64 {
        match self {
            Fold::Mean | Fold::Sum => 0.0,
            Fold::Min => f64::INFINITY,
            Fold::Max => f64::NEG_INFINITY,
        }
    }

    fn add(self, all: f64, value: f64) -> f64 {
        match self {
            Fold::Mean | Fold::Sum => all + value,
            Fold::Min => all.min(value),
            Fold::Max => all.max(value),
        }
    }
}
