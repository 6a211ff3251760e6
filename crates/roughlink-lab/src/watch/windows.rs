//! Metrics of a time window: `queue_p95_pkt[10..60]@plc` is the 95th percentile of the queue from 10 s to 60 s.
//! Quantities with a duration are weighted by time; events count once. A window ends with the run, and a window of a
//! flow ends with the flow. If that end is before the start of the window, there is no value.

use super::series::{FlowSeries, QueueSeries, RunSeries, Steps, mean, within};
use crate::quantity::{self, Quantity};
use roughlink_core::metrics::{FlowResult, jain};
use roughlink_core::units::Time;
use std::collections::BTreeMap;

/// A quantity of a window.
#[derive(Clone, Copy, Debug)]
pub struct Windowed {
    /// Quantity.
    pub quantity: Quantity,
    pub(crate) of: WindowedElement,
}

impl Windowed {
    /// Returns true if there is one number for all flows and links.
    pub(crate) fn is_of_run(&self) -> bool {
        matches!(self.of, WindowedElement::Run(_))
    }
    /// Returns true if the window of a flow can end with the flow.
    pub(crate) fn covers(&self, flow: &FlowResult) -> bool {
        match self.of {
            WindowedElement::Flow(_) => flow.is_transfer(),
            WindowedElement::Call(_) => flow.kind == "voip",
            WindowedElement::Link(_) | WindowedElement::Run(_) => false,
        }
    }
    /// Returns true if each link direction has a value.
    pub(crate) fn is_of_link(&self) -> bool {
        matches!(self.of, WindowedElement::Link(_))
    }
}

/// Element of a quantity, with the function that computes it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WindowedElement {
    Flow(fn(&FlowSeries, &RunSeries, Time, Time) -> Option<f64>),
    /// A direction of a call.
    Call(fn(&[f64]) -> Option<f64>),
    Link(fn(&QueueSeries, Time, Time) -> Option<f64>),
    Run(fn(&RunSeries, Time, Time) -> Option<f64>),
}

const fn flow(name: &str, of: fn(&FlowSeries, &RunSeries, Time, Time) -> Option<f64>) -> Windowed {
    Windowed { quantity: quantity::named(name), of: WindowedElement::Flow(of) }
}
const fn call(name: &str, of: fn(&[f64]) -> Option<f64>) -> Windowed {
    Windowed { quantity: quantity::named(name), of: WindowedElement::Call(of) }
}
const fn link(name: &str, of: fn(&QueueSeries, Time, Time) -> Option<f64>) -> Windowed {
    Windowed { quantity: quantity::named(name), of: WindowedElement::Link(of) }
}
const fn run(name: &str, of: fn(&RunSeries, Time, Time) -> Option<f64>) -> Windowed {
    Windowed { quantity: quantity::named(name), of: WindowedElement::Run(of) }
}

/// All quantities of windows.
pub const WINDOWED: &[Windowed] = &[
    flow("throughput_mbps", |f, _, a, b| f.bulk.then(|| throughput(f, a, b))),
    flow("segments", |f, _, a, b| f.bulk.then(|| f.segments.increase(a, b))),
    flow("retransmits", |f, _, a, b| f.bulk.then(|| f.retransmits.increase(a, b))),
    flow("fast_recoveries", |f, _, a, b| f.bulk.then(|| f.fast_recoveries.increase(a, b))),
    flow("timeouts", |f, _, a, b| f.bulk.then(|| f.timeouts.increase(a, b))),
    flow("cwnd_mean_pkt", |f, _, a, b| Weighted::from_steps(&f.cwnd, a, b)?.mean()),
    flow("awnd_mean_sdu", |f, _, a, b| Weighted::from_steps(&f.awnd, a, b)?.mean()),
    flow("awnd_max_sdu", |f, _, a, b| Weighted::from_steps(&f.awnd, a, b)?.max()),
    flow("awnd_cv", |f, _, a, b| Weighted::from_steps(&f.awnd, a, b)?.variation()),
    flow("awnd_over_sample", |f, _, a, b| {
        let sample = f.sample.at(b);
        (sample > 0.0).then_some(Weighted::from_steps(&f.awnd, a, b)?.max()? / sample)
    }),
    flow("queue_share", |f, seen, a, b| {
        let mean = |steps: &Steps| Weighted::from_steps(steps, a, b).and_then(|w| w.mean()).unwrap_or(0.0);
        let all: f64 = seen.flows.iter().map(|f| mean(&f.backlog)).sum();
        (f.bulk && all > 0.0).then(|| mean(&f.backlog) / all)
    }),
    call("delay_p50_ms", |d| quantile(d, 0.5)),
    call("delay_p95_ms", |d| quantile(d, 0.95)),
    call("delay_p99_ms", |d| quantile(d, 0.99)),
    call("delay_max_ms", |d| quantile(d, 1.0)),
    call("over_100ms", |d| above(d, 100.0)),
    call("over_150ms", |d| above(d, 150.0)),
    link("queue_mean_pkt", |q, a, b| Weighted::from_steps(&q.waiting, a, b)?.mean()),
    link("queue_p95_pkt", |q, a, b| Weighted::from_steps(&q.waiting, a, b)?.quantile(0.95)),
    link("queue_max_pkt", |q, a, b| Weighted::from_steps(&q.waiting, a, b)?.max()),
    link("dropped", |q, a, b| Some(q.dropped.increase(a, b))),
    run("jain", fairness),
    run("jain_min_10s", |seen, a, b| {
        let length = Time::from_secs(10);
        let starts = (0..).map(|k| a + Time::from_secs(k)).take_while(|start| *start + length <= b);
        starts.filter_map(|start| fairness(seen, start, start + length)).reduce(f64::min)
    }),
];

/// Start and end, or the parse error.
type TimeWindow = Result<(Time, Time), String>;

/// Splits a name into quantity, window and suffix (`@plc`, `:sum`).
pub(crate) fn parse(name: &str) -> Option<(&str, TimeWindow, &str)> {
    let (base, rest) = name.split_once('[')?;
    let (window, rest) = rest.split_once(']').unwrap_or((rest, ""));
    let seconds = |text: &str| format!("{} s", text.trim()).parse::<Time>().map_err(|e| e.message);
    let window = match window.split_once("..") {
        Some((a, b)) => seconds(a).and_then(|a| Ok((a, seconds(b)?))),
        None => Err("a window has two ends".into()),
    };
    Some((
        base,
        window.and_then(|(a, b)| if a < b { Ok((a, b)) } else { Err("it ends before it begins".into()) }),
        rest,
    ))
}

pub(crate) fn measure(names: &[String], seen: &RunSeries) -> BTreeMap<String, f64> {
    names.iter().filter_map(|name| Some((name.clone(), value(name, seen)?))).collect()
}

fn value(name: &str, seen: &RunSeries) -> Option<f64> {
    let (base, window, rest) = parse(name)?;
    let (a, b) = window.ok()?;
    let quantity = WINDOWED.iter().find(|w| w.quantity.name == base)?;
    let named = rest.strip_prefix('@');
    let b = b.min(seen.end);
    if a >= b {
        return None;
    }
    let values: Vec<f64> = match quantity.of {
        WindowedElement::Run(of) => return of(seen, a, b),
        WindowedElement::Flow(of) => {
            let chosen = seen.flows.iter().filter(|f| named.is_none_or(|n| f.name == n));
            chosen.filter_map(|f| of(f, seen, a, f.until(a, b)?)).collect()
        }
        WindowedElement::Call(of) => {
            let named = named.map(direction);
            let chosen = seen.flows.iter().filter(|f| f.voip && named.as_ref().is_none_or(|(n, _)| f.name == *n));
            let way = named.as_ref().map_or(0, |n| n.1);
            chosen.filter_map(|f| of(&within(&f.delays[way], a, b))).collect()
        }
        WindowedElement::Link(of) => {
            let named = named.map(direction);
            let hop = |(name, way): &(String, usize)| Some(2 * seen.links.iter().position(|l| l == name)? + way);
            match named {
                Some(named) => vec![of(&seen.queues[hop(&named)?], a, b)?],
                None => seen.queues.iter().filter_map(|q| of(q, a, b)).collect(),
            }
        }
    };
    let fold = rest.strip_prefix(':').unwrap_or("mean");
    match fold {
        "sum" => (!values.is_empty()).then(|| values.iter().sum()),
        "min" => values.into_iter().reduce(f64::min),
        "max" => values.into_iter().reduce(f64::max),
        _ => mean(&values),
    }
}

fn throughput(f: &FlowSeries, from: Time, to: Time) -> f64 {
    f.delivered.increase(from, to) * 8e-6 / (to - from).as_secs_f64()
}

/// Splits a name into the name without direction and the direction: 1 is reverse.
pub(crate) fn direction(name: &str) -> (String, usize) {
    match name.rsplit_once('.') {
        Some((name, "reverse")) => (name.to_owned(), 1),
        Some((name, "forward")) => (name.to_owned(), 0),
        _ => (name.to_owned(), 0),
    }
}

/// Computes Jain's index over the throughputs of the transfers that had not ended before the window.
fn fairness(seen: &RunSeries, from: Time, to: Time) -> Option<f64> {
    jain(seen.flows.iter().filter(|f| f.bulk).filter_map(|f| Some(throughput(f, from, f.until(from, to)?))))
}

impl FlowSeries {
    /// Returns the end of this flow's window; None if the flow ended before the window began.
    fn until(&self, from: Time, to: Time) -> Option<Time> {
        Some(self.end.map_or(to, |end| end.min(to))).filter(|end| from < *end)
    }
}

struct Weighted(Vec<(f64, f64)>);

impl Weighted {
    /// Returns the values between the times; `None` if there are none.
    fn from_steps(steps: &Steps, from: Time, to: Time) -> Option<Self> {
        let pieces = steps.pieces(from, to);
        (!pieces.is_empty()).then_some(Weighted(pieces))
    }
    fn time(&self) -> f64 {
        self.0.iter().map(|p| p.1).sum()
    }
    fn mean(&self) -> Option<f64> {
        Some(self.0.iter().map(|p| p.0 * p.1).sum::<f64>() / self.time())
    }
    fn max(&self) -> Option<f64> {
        self.0.iter().map(|p| p.0).reduce(f64::max)
    }
    /// Returns standard deviation over mean.
    fn variation(&self) -> Option<f64> {
        let mean = self.mean().filter(|m| *m > 0.0)?;
        let square = self.0.iter().map(|p| (p.0 - mean) * (p.0 - mean) * p.1).sum::<f64>() / self.time();
        Some(libm::sqrt(square) / mean)
    }
    /// Returns the value that is not exceeded for the share `q` of the time.
    fn quantile(&self, q: f64) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(|x, y| x.0.total_cmp(&y.0));
        let wanted = q * self.time();
        let mut passed = 0.0;
        for (value, held) in &sorted {
            passed += held;
            if passed >= wanted {
                return Some(*value);
            }
        }
        sorted.last().map(|p| p.0)
    }
}

fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (q * sorted.len() as f64) as usize;
    sorted.get(rank.min(sorted.len().checked_sub(1)?)).copied()
}

fn above(values: &[f64], limit: f64) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().filter(|v| **v > limit).count() as f64 / values.len() as f64)
}
