//! Experiment files. The comments on the fields are the reference of the format.

use super::functions::{self, Function};
use super::result::{Figure, FigureKind};
use super::{Axis, Experiment, KERNEL, Point, Published, StackChoice};
use crate::error::LabError;
use crate::library::ScenarioText;
use crate::metric::{self, Metric};
use crate::nearest;
use crate::watch::{CURVES, FLOW_CURVES, Watch};
use roughlink_core::cc::REGISTRY;
use roughlink_core::units::{Time, UnitError};
use roughlink_scenario::{Problem, ScenarioError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;

/// `experiments/<paper>/<figure>.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentFile {
    /// Title, in one line.
    title: String,
    /// Place in the paper: `Table 2`.
    place: String,
    /// Remarks for the reader.
    #[serde(default)]
    about: String,
    /// Name of a scenario in `scenarios/`; absent only with `function`.
    scenario: Option<Spanned<String>>,
    /// Overrides of the scenario, in the syntax of `--set`.
    #[serde(default)]
    set: BTreeMap<String, String>,
    /// Axes; the last one varies fastest.
    #[serde(default)]
    axis: Vec<AxisTable>,
    /// Runs of each cell.
    #[serde(default = "one")]
    replicas: Spanned<u32>,
    /// Metrics ([`crate::metric`]).
    #[serde(default)]
    metrics: Vec<Spanned<String>>,
    /// Stacks and their overrides except `tcp.stack`; `ns3` and `linux` if absent.
    stack: Option<BTreeMap<String, StackTable>>,
    /// The paper's values.
    #[serde(default)]
    published: Vec<PublishedTable>,
    /// The axis whose order is compared with the published one.
    rank: Option<Spanned<String>>,
    /// Reduction for `--quick`.
    quick: Option<Reduction>,
    /// Reduction for `--stack kernel`, in addition to `--quick`'s; without it the kernel does not run the experiment.
    kernel: Option<Reduction>,
    /// How to draw the results.
    #[serde(default)]
    figure: FigureTable,
    /// Curves over time.
    curves: Option<Curves>,
    /// Record means over time (metrics such as `cwnd_mean_pkt`) although there are no curves.
    #[serde(default)]
    watch: bool,
    /// A function to draw instead of runs.
    function: Option<FunctionTable>,
}

fn one() -> Spanned<u32> {
    Spanned::new(0..0, 1)
}

/// `[[axis]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AxisTable {
    /// Name in cells.
    name: String,
    /// Label for users; the name if absent.
    label: Option<String>,
    /// The key that receives the values.
    key: Option<String>,
    /// Several keys instead of one.
    #[serde(default)]
    keys: Vec<String>,
    /// Overrides for a value, in addition to the key or instead of it.
    #[serde(default)]
    set: BTreeMap<Spanned<String>, BTreeMap<String, String>>,
    /// The values, in the syntax of `--set`.
    values: Spanned<Vec<String>>,
    /// Labels for users; the values if absent.
    labels: Option<Spanned<Vec<String>>>,
}

/// `[stack.linux]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StackTable {
    /// Overrides for this stack only.
    #[serde(default)]
    set: BTreeMap<String, String>,
}

/// `[[published]]`: values of one metric.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedTable {
    /// The metric; the first if absent.
    metric: Option<Spanned<String>>,
    /// Place in the paper, if not the experiment's.
    #[serde(default)]
    place: String,
    /// True if another experiment has the same numbers and counts them.
    #[serde(default)]
    again: bool,
    /// Values of the other axis, in the order of the columns; for experiments with two axes.
    columns: Option<Spanned<Vec<String>>>,
    /// A row of values for each value of one axis.
    #[serde(default)]
    rows: BTreeMap<Spanned<String>, Vec<f64>>,
    /// Single values: a value for each axis, then the number.
    #[serde(default)]
    points: Vec<Spanned<Vec<toml::Value>>>,
}

/// `[quick]`, `[kernel]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reduction {
    /// Fewer runs of each cell.
    replicas: Option<u32>,
    /// Fewer values of an axis.
    #[serde(default)]
    only: BTreeMap<String, Spanned<Vec<String>>>,
    /// Smaller values.
    #[serde(default)]
    set: BTreeMap<String, String>,
}

/// `[figure]`; see [`Figure`].
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FigureTable {
    kind: FigureKind,
    x: String,
    series: String,
    log_x: bool,
    log_y: bool,
    x_label: String,
    y_label: String,
    panels: String,
}

/// `[curves]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Curves {
    /// Names of [`CURVES`].
    values: Spanned<Vec<String>>,
    /// Interval between points: `0.5 s`.
    every: Spanned<String>,
    /// Time of the first point: `28 s`; the start of the run if absent.
    from: Option<Spanned<String>>,
    /// Time of the last point; the end of the run if absent.
    to: Option<Spanned<String>>,
    /// The flow; the mean over the flows if absent.
    flow: Option<String>,
    /// Flows with a curve each, instead of `flow`; `total` is their sum.
    #[serde(default)]
    flows: Vec<String>,
    /// Draw only replica 0, not the mean over the replicas.
    #[serde(default)]
    single: bool,
}

/// `[function]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FunctionTable {
    /// Name of the function.
    name: Spanned<String>,
    /// Algorithms that supply the parameters.
    variants: Spanned<Vec<String>>,
    /// Labels for users; the names if absent.
    labels: Option<Vec<String>>,
}

/// Parses TOML into `T`. An unknown key is an error that names the nearest known one.
pub(super) fn read<T: DeserializeOwned>(source: &ScenarioText) -> Result<T, LabError> {
    toml::from_str(&source.text).map_err(|e| {
        let message = e.message().trim().to_owned();
        let span = e.span().unwrap_or(0..0);
        // Message of serde: unknown field `x`, expected one of `a`, `b`
        let mut quoted = message.split('`').skip(1).step_by(2);
        let problem = match (message.starts_with("unknown "), quoted.next()) {
            (true, Some(key)) => {
                let kind = if message.starts_with("unknown variant") { "value" } else { "key" };
                Problem::new(format!("unknown {kind} `{key}`")).help(nearest::suggest(key, "expected", quoted))
            }
            _ => Problem::new(message.lines().next().unwrap_or_default()),
        };
        fault(source, vec![problem.at(span, "")])
    })
}

pub(super) fn fault(source: &ScenarioText, problems: Vec<Problem>) -> LabError {
    ScenarioError { name: source.name.clone(), text: source.text.clone(), problems }.into()
}

/// Reads the experiment in `source` and names it `id`.
pub fn experiment(source: &ScenarioText, id: &str, quick: bool) -> Result<Experiment, LabError> {
    let file: ExperimentFile = read(source)?;
    let mut reader = ProblemList { problems: Vec::new() };
    let experiment = reader.experiment(file, id, quick);
    match experiment {
        Some(experiment) if reader.problems.is_empty() => Ok(experiment),
        _ => Err(fault(source, reader.problems)),
    }
}

struct ProblemList {
    problems: Vec<Problem>,
}

impl ProblemList {
    fn report(&mut self, message: impl Into<String>, at: Range<usize>, help: impl Into<String>) {
        self.problems.push(Problem::new(message).at(at, "").help(help));
    }

    /// Returns the value of `result`, or records its error at this position.
    fn check<T>(&mut self, result: Result<T, LabError>, at: Range<usize>) -> Option<T> {
        result.map_err(|e| self.report(e.to_string(), at, e.help().unwrap_or_default())).ok()
    }

    fn experiment(&mut self, file: ExperimentFile, id: &str, quick: bool) -> Option<Experiment> {
        let function = file.function.and_then(|f| self.function(f));
        let scenario = match (&file.scenario, &function) {
            (Some(name), _) => self.check(ScenarioText::scenario(name.get_ref()), name.span()),
            (None, Some(_)) => None,
            (None, None) => {
                self.report("missing key `scenario`", 0..0, "name a scenario in scenarios/");
                None
            }
        };
        let axes: Vec<Axis> = file.axis.into_iter().filter_map(|a| self.axis(a)).collect();
        let metrics: Vec<Metric> =
            file.metrics.iter().filter_map(|m| self.check(Metric::new(m.get_ref()), m.span())).collect();
        if metrics.is_empty() && file.curves.is_none() && function.is_none() {
            self.report("no metrics", 0..0, format!("metrics = [\"{}\"]", metric::names()[0]));
        }
        let replicas = *file.replicas.get_ref();
        if replicas == 0 {
            self.report("`replicas` must be at least 1", file.replicas.span(), "write 1 or more");
        }
        let watched = file.watch || metrics.iter().any(Metric::needs_watching);
        let single = file.curves.as_ref().is_some_and(|c| c.single);
        let span = file.curves.as_ref().map_or((Time::ZERO, Time::MAX), |c| self.span(c));
        let mut watch = match file.curves {
            Some(curves) => self.curves(curves),
            None => watched.then(Watch::means),
        };
        if let Some(watch) = &mut watch {
            watch.windows = windows(&metrics);
        }
        let stacks = file.stack.unwrap_or_else(|| ["ns3", "linux"].map(|n| (n.into(), StackTable::default())).into());
        let mut stacks: Vec<StackChoice> = stacks.into_iter().map(|(name, table)| stack(name, table)).collect();
        stacks.sort_by_key(|s| s.name == "linux"); // published values are compared with the simulator's stack
        let rank = file.rank.and_then(|rank| {
            let known: Vec<&str> = axes.iter().map(|a| a.name.as_str()).collect();
            if known.contains(&rank.get_ref().as_str()) {
                return Some(rank.into_inner());
            }
            let help = nearest::suggest(rank.get_ref(), "expected", known);
            self.report(format!("unknown axis `{}`", rank.get_ref()), rank.span(), help);
            None
        });
        let mut published = Vec::new();
        for table in file.published {
            self.published(table, &axes, &metrics, &mut published);
        }
        let f = file.figure;
        let mut experiment = Experiment {
            id: id.into(),
            title: file.title,
            place: file.place,
            about: file.about.trim().into(),
            command: format!("roughlink reproduce {}", id.replacen('/', " ", 1)),
            scenario,
            set: file.set.into_iter().collect(),
            stacks,
            axes,
            replicas,
            metrics,
            published,
            rank,
            figure: Figure {
                kind: f.kind,
                x: f.x,
                series: f.series,
                log_x: f.log_x,
                log_y: f.log_y,
                x_label: f.x_label,
                y_label: f.y_label,
                panels: f.panels,
            },
            watch,
            single,
            span,
            function,
            quick: false,
            on_kernel: None,
        };
        let whole = experiment.axes.clone();
        if let Some(q) = file.quick.filter(|_| quick) {
            experiment.quick = true;
            experiment.command += " --quick";
            self.reduce(&mut experiment, q, None);
        }
        if let Some(k) = file.kernel {
            let not = file.metrics.iter().zip(&experiment.metrics).find(|(_, metric)| !metric.is_of_kernels());
            if let Some((text, _)) = not {
                let message = format!("`{}` is not measured on a kernel", text.get_ref());
                self.report(message, text.span(), "leave out the metric or `[kernel]`");
            }
            let linux = experiment.stacks.iter().find(|s| s.name == "linux");
            let set = linux.map_or_else(|| stack("linux".into(), StackTable::default()).set, |s| s.set.clone());
            let stacks = vec![StackChoice { name: KERNEL.into(), set }];
            let mut own = Experiment { stacks, ..experiment.clone() };
            self.reduce(&mut own, k, Some(&whole));
            experiment.on_kernel = Some(Box::new(own));
        }
        Some(experiment)
    }

    /// Reduces an experiment. If an axis has been reduced before, `whole` has all its values. Values that the earlier
    /// reduction removed are then ignored in `to`.
    fn reduce(&mut self, experiment: &mut Experiment, to: Reduction, whole: Option<&[Axis]>) {
        experiment.replicas = to.replicas.unwrap_or(experiment.replicas).max(1);
        experiment.set.extend(to.set);
        for (name, values) in to.only {
            let axis = |axes: &[Axis]| axes.iter().find(|a| a.name == name).cloned();
            let (all, left) = (whole.and_then(axis), axis(&experiment.axes));
            let gone = |v: &&String| {
                let has = |a: &Option<Axis>| a.as_ref().is_some_and(|a| a.points.iter().any(|p| p.value == **v));
                has(&all) && !has(&left)
            };
            let kept: Vec<String> = values.get_ref().iter().filter(|v| !gone(v)).cloned().collect();
            self.check(experiment.only(&name, &kept), values.span());
        }
    }

    fn function(&mut self, table: FunctionTable) -> Option<Function> {
        let name = table.name.get_ref();
        if functions::NAMES.contains(&name.as_str()) {
            let known: Vec<&str> = REGISTRY.iter().map(|a| a.name).collect();
            for variant in table.variants.get_ref().iter().filter(|v| !known.contains(&v.as_str())) {
                let help = nearest::suggest(variant, "expected", known.iter().copied());
                self.report(format!("unknown congestion control `{variant}`"), table.variants.span(), help);
            }
            let variants = table.variants.into_inner();
            let labels = table.labels.unwrap_or_else(|| variants.clone());
            return Some(Function { name: name.clone(), variants: variants.into_iter().zip(labels).collect() });
        }
        let help = nearest::suggest(name, "expected", functions::NAMES.iter().copied());
        self.report(format!("unknown function `{name}`"), table.name.span(), help);
        None
    }

    fn axis(&mut self, table: AxisTable) -> Option<Axis> {
        let at = table.values.span();
        let values = table.values.into_inner();
        let keys: Vec<String> = table.key.into_iter().chain(table.keys).collect();
        for value in table.set.keys().filter(|v| !values.contains(v.get_ref())) {
            let help = nearest::suggest(value.get_ref(), "expected", values.iter().map(String::as_str));
            self.report(format!("unknown value `{}` of axis `{}`", value.get_ref(), table.name), value.span(), help);
        }
        if values.is_empty() || keys.is_empty() && table.set.is_empty() {
            self.report(format!("axis `{}` needs a `key` and `values`", table.name), at, "values = [\"1 %\", \"2 %\"]");
            return None;
        }
        let labels = match table.labels {
            Some(labels) if labels.get_ref().len() != values.len() => {
                let (l, v) = (labels.get_ref().len(), values.len());
                self.report(format!("{l} labels for {v} values"), labels.span(), "write one label per value");
                return None;
            }
            Some(labels) => labels.into_inner(),
            None => values.clone(),
        };
        let point = |(value, label): (String, String)| {
            let set = table.set.iter().find(|(v, _)| *v.get_ref() == value).map(|(_, set)| set.clone());
            Point { value, label, scenario: None, set: set.unwrap_or_default().into_iter().collect() }
        };
        let points = values.into_iter().zip(labels).map(point).collect();
        Some(Axis {
            label: table.label.unwrap_or_else(|| table.name.clone()),
            name: table.name,
            keys,
            points,
            narrowed: false,
        })
    }

    fn curves(&mut self, table: Curves) -> Option<Watch> {
        let curves = if table.flows.is_empty() { CURVES } else { FLOW_CURVES };
        let known: Vec<&str> = curves.iter().map(|q| q.name).collect();
        for name in table.values.get_ref() {
            if !known.contains(&name.as_str()) {
                let help = nearest::suggest(name, "expected", known.iter().copied());
                self.report(format!("unknown curve `{name}`"), table.values.span(), help);
            }
        }
        match table.every.get_ref().parse::<Time>() {
            Ok(every) if !every.is_zero() => {
                let (curves, flow, flows) = (table.values.into_inner(), table.flow, table.flows);
                Some(Watch { every_ns: every.0, curves, flow, flows, windows: Vec::new() })
            }
            Ok(_) => {
                self.report("`every` must be more than 0", table.every.span(), "every = \"0.5 s\"");
                None
            }
            Err(e) => {
                self.report(e.to_string(), table.every.span(), "every = \"0.5 s\"");
                None
            }
        }
    }

    fn span(&mut self, table: &Curves) -> (Time, Time) {
        let mut read = |text: &Option<Spanned<String>>, default: Time| {
            let Some(text) = text else { return default };
            text.get_ref().parse().unwrap_or_else(|e: UnitError| {
                self.report(e.to_string(), text.span(), "from = \"28 s\"");
                default
            })
        };
        (read(&table.from, Time::ZERO), read(&table.to, Time::MAX))
    }

    fn published(&mut self, table: PublishedTable, axes: &[Axis], metrics: &[Metric], out: &mut Vec<Published>) {
        let metric = match &table.metric {
            None => metrics.first().map(Metric::name).unwrap_or_default(),
            Some(name) if metrics.iter().any(|m| m.name() == name.get_ref()) => name.get_ref(),
            Some(name) => {
                let help = nearest::suggest(name.get_ref(), "expected", metrics.iter().map(Metric::name));
                self.report(format!("unknown metric `{}`", name.get_ref()), name.span(), help);
                return;
            }
        };
        let mut add = |reader: &mut ProblemList, at: Vec<String>, value: f64, span: Range<usize>| {
            for (axis, v) in axes.iter().zip(&at) {
                if axis.points.iter().all(|p| p.value != *v) {
                    let known = axis.points.iter().map(|p| p.value.as_str());
                    let help = nearest::suggest(v, "expected", known);
                    reader.report(format!("unknown value `{v}` of axis `{}`", axis.name), span, help);
                    return;
                }
            }
            let (place, again) = (table.place.clone(), table.again);
            out.push(Published { at, metric: metric.into(), value, place, again });
        };
        if !table.rows.is_empty() {
            let columns = table.columns.as_ref().map(|c| (c.get_ref().clone(), c.span()));
            let (Some((columns, span)), [_, _]) = (columns, axes) else {
                self.report("`rows` needs `columns` and two axes", 0..0, "write `points` instead");
                return;
            };
            let first = axes.iter().position(|a| columns.iter().all(|c| a.points.iter().any(|p| p.value == *c)));
            let Some(column_axis) = first else {
                self.report("no axis has all these values", span, "name values of one axis");
                return;
            };
            for (row, values) in &table.rows {
                if values.len() != columns.len() {
                    let message = format!("{} values for {} columns", values.len(), columns.len());
                    self.report(message, row.span(), "write one value per column");
                    continue;
                }
                for (column, value) in columns.iter().zip(values) {
                    let mut at = vec![row.get_ref().clone(), column.clone()];
                    if column_axis == 0 {
                        at.reverse();
                    }
                    add(self, at, *value, row.span());
                }
            }
        }
        for point in &table.points {
            let (at, value) = match point.get_ref().split_last() {
                Some((value, at)) if at.len() == axes.len() => (at, value),
                _ => {
                    self.report(
                        "invalid published value",
                        point.span(),
                        "write a value of every axis, then the number",
                    );
                    continue;
                }
            };
            let at: Option<Vec<String>> = at.iter().map(|v| v.as_str().map(str::to_owned)).collect();
            let number = value.as_float().or(value.as_integer().map(|i| i as f64));
            match (at, number) {
                (Some(at), Some(number)) => add(self, at, number, point.span()),
                _ => {
                    self.report("invalid published value", point.span(), "write a value of every axis, then the number")
                }
            }
        }
    }
}

/// Returns the names of metrics that have a window.
pub fn windows(metrics: &[Metric]) -> Vec<String> {
    let names = metrics.iter().filter(|m| m.has_window()).map(|m| m.name_per_run().to_owned());
    names.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

fn stack(name: String, table: StackTable) -> StackChoice {
    let mut set = vec![("tcp.stack".to_owned(), name.clone())];
    set.extend(table.set);
    StackChoice { name, set }
}
