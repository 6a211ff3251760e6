//! Grids of runs: [`sweep`] varies keys of a scenario, [`compare`] runs scenarios and algorithms side by side.
//!
//! Both return an [`ExperimentPlan`]; [`runner::run`](crate::runner::run) executes its runs:
//!
//! ```
//! use roughlink_lab::experiment::grid::{Grid, sweep};
//! use roughlink_lab::library::ScenarioText;
//! use roughlink_lab::{part, runner};
//! use std::sync::atomic::AtomicBool;
//!
//! let vary: [(String, Vec<String>); 2] = [
//!     ("tcp.cc".into(), vec!["newreno".into(), "cubic".into()]),
//!     ("flow.*.bytes".into(), vec!["100 kB".into()]), // a single value is fixed
//! ];
//! let plan = sweep(ScenarioText::scenario("hello")?, &vary, &Grid { replicas: 2, ..Grid::default() })?;
//! assert_eq!(plan.runs(), 4);
//!
//! let folder = tempfile::tempdir().unwrap();
//! let mut store = part::open(&plan, folder.path())?;
//! runner::run(plan.jobs(), &mut store, 2, &AtomicBool::new(false), &mut |_| {})?;
//! let result = plan.result(&store)?;
//! assert_eq!(result.cells[1].axes.get("tcp.cc"), Some("cubic"));
//! assert!(result.cells[1].measured.is_some_and(|mbit_s| mbit_s > 0.0));
//! # Ok::<(), roughlink_lab::error::LabError>(())
//! ```

use super::order::engine_of;
use super::order::{GridKind, Order};
use super::plan::{ExperimentPlan, locked};
use super::result::{Figure, FigureKind};
use super::{Axis, Experiment, KERNEL, Point, StackChoice, assignment, file, quantity, split};
use crate::disk;
use crate::error::LabError;
use crate::library::{Overrides, ScenarioText};
use crate::metric::Metric;
use crate::store::Records;
use crate::watch::Watch;
use roughlink_core::units::Time;
use roughlink_scenario::split_list;
use std::collections::HashSet;
use std::io;
use std::path::Path;

pub use super::order::{Grid, SWEEP_REPLICAS};

/// Plans a scenario for all combinations of the values of keys. A key with several values is an axis. Keys separated by
/// commas vary together: each value is a list with one value for each key, such as `["5 Mbit/s", "50 pkt"]`. A key with
/// a single value is fixed and applied after `grid.set`. The numeric axis with the most values is the x axis of the
/// figure, and the first other axis its series.
///
/// # Errors
/// Returns an error for a key that is varied twice, zero replicas, an unknown metric or too many runs. The error of an
/// invalid scenario has the position in its file.
pub fn sweep(scenario: ScenarioText, vary: &[(String, Vec<String>)], grid: &Grid) -> Result<ExperimentPlan, LabError> {
    Order::new(GridKind::Sweep { vary: vary.to_vec() }, vec![scenario], grid).plan()
}

fn sweep_by(
    make: Make,
    scenario: ScenarioText,
    vary: &[(String, Vec<String>)],
    grid: &Grid,
) -> Result<ExperimentPlan, LabError> {
    let mut set = grid.set.clone();
    let axes = keys(vary, &mut set)?;
    let numeric = |a: &&Axis| a.points.iter().all(|p| quantity(&p.value).is_some());
    let x = axes.iter().filter(numeric).max_by_key(|a| a.points.len());
    let kind = if x.is_some() { FigureKind::Line } else { FigureKind::Bar };
    let x = x.or(axes.first()).map(|a| a.name.clone()).unwrap_or_default();
    let series = axes.iter().map(|a| a.name.clone()).find(|name| *name != x).unwrap_or_default();
    let stem = scenario.stem();
    let words = (format!("sweep-{stem}"), format!("Sweep of {stem}"));
    let figure = Figure { kind, x, series, ..Figure::default() };
    let mut plan = plan(make, words, scenario, set, axes, figure, grid, &["throughput_mbps"])?;
    if plan.experiment.metrics.len() > 1 {
        plan.experiment.figure.panels = "metric".into();
    }
    Ok(plan)
}

/// Plans a comparison of scenarios, algorithms (with parameters: `avoca{hysteresis=6}`), values of keys, or their
/// combinations. The first is the baseline of the comparison. A key with a single value is fixed.
///
/// # Errors
/// Returns an error for fewer than two things to compare, and the errors of [`sweep`].
pub fn compare(
    scenarios: Vec<ScenarioText>,
    algorithms: &[String],
    vary: &[(String, Vec<String>)],
    grid: &Grid,
) -> Result<ExperimentPlan, LabError> {
    let kind = GridKind::Compare { algorithms: algorithms.to_vec(), vary: vary.to_vec() };
    Order::new(kind, scenarios, grid).plan()
}

fn compare_by(
    make: Make,
    scenarios: Vec<ScenarioText>,
    algorithms: &[String],
    vary: &[(String, Vec<String>)],
    grid: &Grid,
) -> Result<ExperimentPlan, LabError> {
    let mut set = grid.set.clone();
    let varied = keys(vary, &mut set)?;
    if scenarios.is_empty() || scenarios.len() < 2 && algorithms.len() < 2 && varied.is_empty() {
        return Err(LabError::Usage {
            message: "nothing to compare".into(),
            help: "name two scenarios, algorithms (--cc newreno,cubic), or values of a key (--set KEY=A,B)".into(),
        });
    }
    let mut axes = Vec::new();
    if scenarios.len() > 1 {
        let point = |source: &ScenarioText| Point {
            value: source.name.clone(),
            label: source.stem().to_owned(),
            scenario: Some(source.clone()),
            set: Vec::new(),
        };
        axes.push(axis("scenario", "Scenario", &[], scenarios.iter().map(point).collect()));
    }
    if !algorithms.is_empty() {
        axes.push(axis("cc", "Congestion control", &["tcp.cc"], algorithms.iter().map(|v| point(v)).collect()));
    }
    axes.extend(varied);
    let figure = Figure {
        kind: FigureKind::Bar,
        x: axes.last().map(|a| a.name.clone()).unwrap_or_default(),
        series: axes.iter().rev().nth(1).map(|a| a.name.clone()).unwrap_or_default(),
        panels: "metric".into(),
        ..Figure::default()
    };
    let words = ("compare".into(), "Comparison".into());
    let first = scenarios.into_iter().next().expect("there is one");
    plan(make, words, first, set, axes, figure, grid, &["throughput_mbps", "timeouts", "rtt_mean_ms"])
}

/// Creates an axis for each key with several values. A single value is added to `set`.
fn keys(vary: &[(String, Vec<String>)], set: &mut Overrides) -> Result<Vec<Axis>, LabError> {
    let mut axes: Vec<Axis> = Vec::new();
    let (mut varied, mut fixed) = (HashSet::new(), HashSet::new());
    for (key, values) in vary {
        let parts: Vec<&str> = split_list(key).0.into_iter().map(str::trim).collect();
        let twice = match values.len() {
            0 => None,
            1 if parts.len() == 1 => {
                fixed.insert(parts[0]);
                parts.iter().find(|part| varied.contains(**part))
            }
            _ => parts.iter().find(|part| fixed.contains(**part) || !varied.insert(**part)),
        };
        if let Some(twice) = twice {
            return Err(LabError::Usage {
                message: format!("`{twice}` is varied twice"),
                help: "put all values into one --set".into(),
            });
        }
        match values.as_slice() {
            [] => {}
            [value] => set.extend(joint(key, &parts, value)?),
            values if parts.len() > 1 => {
                let point = |value: &String| {
                    let set = joint(key, &parts, value)?;
                    let label = set.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ");
                    Ok(Point { value: label.clone(), label, scenario: None, set })
                };
                axes.push(axis(key, key, &[], values.iter().map(point).collect::<Result<_, LabError>>()?));
            }
            values => axes.push(axis(key, key, &[key], values.iter().map(|v| point(v)).collect())),
        }
    }
    for axis in &axes {
        let mut seen = HashSet::new();
        if let Some(twice) = axis.points.iter().find(|point| !seen.insert(&point.value)) {
            return Err(LabError::Usage {
                message: format!("`{}` has the value `{}` twice", axis.name, twice.value),
                help: "leave out one of them".into(),
            });
        }
    }
    Ok(axes)
}

/// Splits a list such as `["5 Mbit/s", "50 pkt"]` into the values of keys that vary together.
///
/// # Errors
/// Returns an error if the list does not have a value for each key.
pub fn values(key: &str, value: &str) -> Result<Vec<String>, LabError> {
    let parts: Vec<&str> = split_list(key).0.into_iter().map(str::trim).collect();
    Ok(joint(key, &parts, value)?.into_iter().map(|(_, value)| value).collect())
}

/// Returns each of the `keys` in `key` with its value: for several keys, `value` is a list.
fn joint(key: &str, keys: &[&str], value: &str) -> Result<Overrides, LabError> {
    if keys.len() == 1 {
        return Ok(vec![(key.to_owned(), value.to_owned())]);
    }
    let list = format!("x = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("x"));
    let values = list.as_ref().and_then(toml::Value::as_array).filter(|values| values.len() == keys.len());
    let text = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let pairs = values.map(|values| keys.iter().map(|key| (*key).to_owned()).zip(values.iter().map(text)).collect());
    pairs.ok_or_else(|| LabError::Usage {
        message: format!("`{key}` are {} keys, and `{value}` does not have a value for each", keys.len()),
        help: "write a list for each combination, such as [\"5 Mbit/s\", \"50 pkt\"]".into(),
    })
}

impl Order {
    /// Creates the plan.
    ///
    /// # Errors
    /// Returns the errors of [`sweep`] and [`compare`].
    pub fn plan(&self) -> Result<ExperimentPlan, LabError> {
        self.made_by(ExperimentPlan::with_limit, self.grid.most_runs)
    }

    /// Creates the plan of an untrusted order, with at most `most` runs regardless of the order's limit.
    ///
    /// # Errors
    /// Returns the errors of [`Order::plan`].
    pub fn plan_within(&self, most: u64) -> Result<ExperimentPlan, LabError> {
        self.made_by(ExperimentPlan::with_limit, most)
    }

    /// Creates the plan for a worker that executes some runs. Reads cells when needed; default metrics are unknown.
    ///
    /// # Errors
    /// Returns the errors of [`Order::plan`] that can be found without reading a scenario.
    pub fn plan_unread(&self) -> Result<ExperimentPlan, LabError> {
        self.made_by(ExperimentPlan::unread, self.grid.most_runs)
    }

    fn made_by(&self, make: Make, most_runs: u64) -> Result<ExperimentPlan, LabError> {
        let mut scenarios = self.scenarios.clone();
        let grid = &Grid { most_runs, ..self.grid.clone() };
        let mut plan = match &self.kind {
            GridKind::Sweep { vary } if scenarios.len() == 1 => sweep_by(make, scenarios.remove(0), vary, grid)?,
            GridKind::Sweep { .. } => {
                return Err(LabError::Usage {
                    message: format!("a sweep needs one scenario, not {}", scenarios.len()),
                    help: "name one scenario".into(),
                });
            }
            GridKind::Compare { algorithms, vary } => compare_by(make, scenarios, algorithms, vary, grid)?,
        };
        plan.order = Some(self.clone());
        Ok(plan)
    }
}

impl ExperimentPlan {
    /// Returns the order with the texts of all files read so far; `None` unless the plan is a sweep or comparison.
    pub fn portable(&self) -> Option<Order> {
        let mut order = self.order.clone()?;
        let files = locked(&self.files);
        order.give(files.iter().map(|((of, name), text)| (&**of, &**name, &**text)));
        Some(order)
    }

    /// Returns the number of files that the plan's scenarios have read so far.
    pub fn files(&self) -> usize {
        locked(&self.files).len()
    }

    /// Returns the number of `runs` in cells of this plan that cannot be read because files are missing. Runs of other
    /// engines belong to no cell and are not counted.
    pub(crate) fn unknown(&self, runs: &Records) -> Result<usize, LabError> {
        if self.all().count() == self.cells() {
            return Ok(0);
        }
        let engine = engine_of(self.is_on_kernel());
        let keys = runs.keys()?;
        let mut own: HashSet<&str> = keys.iter().map(String::as_str).filter(|key| key.ends_with(&engine)).collect();
        for cell in self.all() {
            for replica in 0..self.experiment.replicas {
                own.remove(&*self.key(&cell, replica));
            }
        }
        Ok(own.len())
    }
}

/// Parses a key with its values from a command line, `key=a,b,c`. A single value is kept as it is written.
pub fn choices(text: &str) -> Result<(String, Vec<String>), LabError> {
    let (key, value) = assignment(text)?;
    let values = split(&value);
    Ok((key, if values.len() > 1 { values } else { vec![value] }))
}

/// Reads keys that vary together from a CSV file: the heading names the keys, and each line has a value for each key.
///
/// # Errors
/// Returns an error if the file cannot be read or has no lines below the heading, or if a line does not have a value
/// for each key.
pub fn rows(path: &Path) -> Result<(String, Vec<String>), LabError> {
    let failed = |e: io::Error| LabError::Read { path: path.to_path_buf(), source: e };
    let text = disk::read(path).map_err(failed)?;
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(&*text);
    let keys: Vec<String> = reader.headers().map_err(|e| failed(e.into()))?.iter().map(str::to_owned).collect();
    let mut values = Vec::new();
    for line in reader.records() {
        let line: Vec<String> = line.map_err(|e| failed(e.into()))?.iter().map(str::to_owned).collect();
        values.push(match &line[..] {
            [value] => value.clone(),
            _ => serde_json::to_string(&line).expect("a list of texts"),
        });
    }
    if values.is_empty() {
        return Err(LabError::Usage {
            message: format!("`{}` has no lines below its heading", path.display()),
            help: "write a line with a value for each key, such as 5 Mbit/s,50 pkt".into(),
        });
    }
    Ok((keys.join(","), values))
}

/// Checks that there is at least one replica.
pub fn replicas(n: u32) -> Result<u32, LabError> {
    if n > 0 {
        return Ok(n);
    }
    Err(LabError::Usage { message: "no replicas".into(), help: "use --replicas 1 or more".into() })
}

/// Default number of runs of each cell of a comparison.
pub const COMPARE_REPLICAS: u32 = 6;

fn axis(name: &str, label: &str, keys: &[&str], points: Vec<Point>) -> Axis {
    let keys = keys.iter().map(|&key| key.to_owned()).collect();
    Axis { name: name.into(), label: label.into(), keys, points, narrowed: false }
}

fn point(value: &str) -> Point {
    Point { value: value.into(), label: value.into(), scenario: None, set: Vec::new() }
}

/// Constructor of a plan: [`ExperimentPlan::with_limit`] or [`ExperimentPlan::unread`].
type Make = fn(Experiment, u64) -> Result<ExperimentPlan, LabError>;

/// Creates the plan of a grid. `transfers` is the default metric of transfers.
#[expect(clippy::too_many_arguments, reason = "the differences between the two kinds of grids")]
fn plan(
    make: Make,
    (id, title): (String, String),
    scenario: ScenarioText,
    mut set: Overrides,
    axes: Vec<Axis>,
    figure: Figure,
    grid: &Grid,
    transfers: &[&'static str],
) -> Result<ExperimentPlan, LabError> {
    set.extend(grid.seed.map(|n| ("seed".to_owned(), n.to_string())));
    let metrics: Vec<Metric> = grid.metrics.iter().map(|name| Metric::new(name)).collect::<Result<_, _>>()?;
    if let Some(other) = metrics.iter().find(|m| grid.on_kernel && !m.is_of_kernels()) {
        let message = format!("`{}` is not measured on a kernel", other.name());
        return Err(LabError::Usage { message, help: "leave out the metric".into() });
    }
    let watched = metrics.iter().any(Metric::needs_watching);
    let experiment = Experiment {
        id,
        title,
        place: String::new(),
        about: String::new(),
        command: grid.command.clone(),
        scenario: Some(scenario),
        set,
        stacks: vec![match grid.on_kernel {
            // The preset `linux` stands for the kernel's own settings; `Transfers::check` refuses most deviations.
            true => StackChoice { name: KERNEL.into(), set: vec![("tcp.stack".into(), "linux".into())] },
            false => StackChoice { name: String::new(), set: Vec::new() },
        }],
        axes,
        replicas: replicas(grid.replicas)?,
        watch: watched.then(|| Watch { windows: file::windows(&metrics), ..Watch::means() }),
        metrics,
        published: Vec::new(),
        rank: None,
        figure,
        single: false,
        span: (Time::ZERO, Time::MAX),
        function: None,
        quick: false,
        on_kernel: None,
    };
    let mut plan = make(experiment, grid.most_runs)?;
    if grid.metrics.is_empty() {
        plan.measure_usual(transfers);
    }
    Ok(plan)
}
