//! Grids divided into parts that run in separate processes, on any machine. [`GridPart`] selects the runs of a part,
//! [`merge`] combines the stores.
//!
//! A part's folder is a run store like the folder of the whole grid, and its `plan.json` describes the whole grid.
//! Merging parts and reading unfinished sweeps therefore needs neither the scenario nor the command line.

use crate::disk;
use crate::drawing::Plain;
use crate::error::LabError;
use crate::experiment::ExperimentPlan;
use crate::experiment::order::{Order, engine_of};
use crate::store::{Damage, RUNS, Records, RunLine, RunRecord, Store, identity_of, key_hash};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A part of a grid: `3/20` is the third of twenty and has every twentieth run, so all parts take about the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridPart {
    number: usize,
    of: usize,
}

impl GridPart {
    /// Returns the numbers of the part's runs in a plan of `runs` runs.
    pub fn numbers(self, runs: usize) -> impl ExactSizeIterator<Item = usize> {
        (self.number - 1..runs.max(self.number - 1)).step_by(self.of)
    }

    /// Returns the suffix of the part's default folder name.
    pub fn suffix(self) -> String {
        format!("part-{}-of-{}", self.number, self.of)
    }

    /// Writes the description of the whole grid into the folder of the part.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn describe(self, plan: &ExperimentPlan, store: &Store) -> Result<Description, LabError> {
        Description::new(plan, store, Some(self.of))
    }
}

/// Opens the run store of a sweep or comparison. The folder may have the runs of an earlier plan with other values of
/// the same keys, other metrics or other replicas. These runs are reused, and the statistics are recomputed for `plan`.
///
/// # Errors
/// Returns an error if the folder has other results, is in use, or cannot be read or written.
pub fn open(plan: &ExperimentPlan, folder: &Path) -> Result<Store, LabError> {
    let is_extension = || match (&plan.order, read(folder)) {
        (Some(order), Ok(Some(known))) => order.extends(&known.order),
        _ => false,
    };
    Store::open_or_create(folder, &plan.identity(), &is_extension)
}

/// Writes the description of a sweep or comparison into its folder.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn describe(plan: &ExperimentPlan, store: &Store) -> Result<Description, LabError> {
    Description::new(plan, store, None)
}

/// Description of the whole grid in a folder.
#[derive(Debug)]
pub struct Description {
    parts: Option<usize>,
    /// Number of files whose text is in the description.
    files: usize,
}

impl Description {
    fn new(plan: &ExperimentPlan, store: &Store, parts: Option<usize>) -> Result<Description, LabError> {
        let description = Description { parts, files: plan.files() };
        description.write(plan, store)?;
        Ok(description)
    }

    /// Rewrites the description if scenarios have read further files. In large grids, most scenarios are read just
    /// before they run. Finished runs cannot be identified without these files, so call this even after an error.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn renew(&mut self, plan: &ExperimentPlan, store: &Store) -> Result<(), LabError> {
        if plan.files() > self.files {
            self.write(plan, store)?;
            self.files = plan.files();
        }
        Ok(())
    }

    fn write(&self, plan: &ExperimentPlan, store: &Store) -> Result<(), LabError> {
        let Some(order) = plan.portable() else { return Ok(()) };
        keep(store, &PlanFile { parts: self.parts.and_then(NonZeroUsize::new), order })
    }
}

/// Returns the plan of the whole grid to which the finished runs of a folder belong.
///
/// # Errors
/// Returns an error if the folder does not describe all its runs, if another engine executed them, or if the plan has
/// more than `most` runs.
pub fn plan_of(folder: &Path, runs: &Records, most: u64) -> Result<ExperimentPlan, LabError> {
    let Some(plan) = described(folder, most)? else {
        let (name, n) = (folder.display(), runs.len());
        return Err(LabError::Usage {
            message: format!("`{name}` is not finished: it has {n} runs and no {DESCRIPTION}"),
            help: "repeat the command that began it".into(),
        });
    };
    match plan.unknown(runs)? {
        0 => Ok(plan),
        n => Err(LabError::Usage {
            message: format!(
                "{n} of {} finished runs of `{}` use files that {DESCRIPTION} lacks",
                runs.len(),
                folder.display()
            ),
            help: "repeat the command that began it, which rewrites that file when it ends".into(),
        }),
    }
}

/// Returns the plan that a folder describes, without its runs. None if it has no description.
///
/// # Errors
/// Returns an error if the description does not match the folder, if another engine executed the runs, or if the plan
/// has more than `most` runs.
pub fn described(folder: &Path, most: u64) -> Result<Option<ExperimentPlan>, LabError> {
    let Some(PlanFile { order, .. }) = read(folder)? else { return Ok(None) };
    same_engine(folder, &order, "use the version of roughlink that began it, or begin it again")?;
    planned(folder, &order, identity_of(folder).as_deref(), most).map(Some)
}

/// Returns the plan that a folder describes. The description is untrusted, so its size and identity are checked.
fn planned(folder: &Path, order: &Order, identity: Option<&str>, most: u64) -> Result<ExperimentPlan, LabError> {
    let path = folder.join(DESCRIPTION);
    let wrong = |message: String, help: String| Err(LabError::Usage { message, help });
    let runs = order.runs();
    if runs > u128::from(most) {
        return wrong(
            format!("`{}` describes {runs} runs, more than {most}", path.display()),
            format!("allow all with --max-runs {runs}"),
        );
    }
    let plan = order.plan_within(most).map_err(|e| LabError::Usage {
        message: format!("`{}` does not describe a sweep or comparison: {}", path.display(), Plain::new(&e, None)),
        help: "repeat the command that began it, which rewrites that file".into(),
    })?;
    if identity != Some(&*plan.identity().to_string()) {
        return wrong(
            format!("`{}` does not match the runs in its folder", path.display()),
            "repeat the command that began it, which rewrites that file".into(),
        );
    }
    Ok(plan)
}

fn same_engine(folder: &Path, order: &Order, help: &str) -> Result<(), LabError> {
    let engine = engine_of(order.grid.on_kernel);
    if order.engine == engine {
        return Ok(());
    }
    let message = format!("`{}` was made by roughlink {}, but this is {engine}", folder.display(), order.engine);
    Err(LabError::Usage { message, help: help.into() })
}

impl FromStr for GridPart {
    type Err = LabError;

    fn from_str(text: &str) -> Result<GridPart, LabError> {
        let read = |n: &str| n.trim().parse::<usize>().ok();
        let wrong = |message: String, help: String| Err(LabError::Usage { message, help });
        match text.split_once('/').map(|(number, of)| (read(number), read(of))) {
            Some((Some(number), Some(of))) if (1..=of).contains(&number) => Ok(GridPart { number, of }),
            Some((Some(_), Some(0))) => {
                wrong(format!("`--part {text}`: no parts"), "write --part 1/20, for example".into())
            }
            Some((Some(_), Some(of))) => {
                wrong(format!("unknown part `{text}`"), format!("expected 1/{of} to {of}/{of}"))
            }
            _ => wrong(format!("`{text}` is not a part"), "write --part 3/20 for the third of twenty parts".into()),
        }
    }
}

/// Contents of `plan.json`.
#[derive(Debug, Serialize, Deserialize)]
struct PlanFile {
    /// Number of parts, if the folder has one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parts: Option<NonZeroUsize>,
    #[serde(flatten)]
    order: Order,
}

/// Result of merging parts.
#[derive(Debug)]
pub struct Merged {
    /// Plan of the whole grid.
    pub plan: ExperimentPlan,
    /// Run store of the whole grid.
    pub store: Store,
    /// Damage found in the parts.
    pub damage: Vec<Damage>,
    /// Titles of the runs that no part has.
    pub missing: Vec<String>,
    /// Numbers of the parts with missing runs, and the number of all parts; `None` if the folders come from different
    /// divisions.
    pub parts: Option<(Vec<usize>, usize)>,
}

impl Merged {
    /// Checks that no run is missing.
    ///
    /// # Errors
    /// Returns an error that lists the missing runs.
    pub fn complete(&self) -> Result<(), LabError> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let (shown, all) = (self.missing.iter().take(MAX_SHOWN), self.missing.len());
        let mut list = shown.map(|title| format!("\n  {title}")).collect::<String>();
        if all > MAX_SHOWN {
            list += &format!("\n  and {} more", all - MAX_SHOWN);
        }
        let whose = match &self.parts {
            None => String::new(),
            Some((parts, of)) => {
                let named: Vec<String> = parts.iter().map(usize::to_string).collect();
                format!(", in part{} {} of {of}", if parts.len() == 1 { "" } else { "s" }, named.join(","))
            }
        };
        Err(LabError::Usage {
            message: format!("{all} of {} runs are missing{whose}:{list}", self.plan.runs()),
            help: "run these parts again, which resumes them, then merge again".into(),
        })
    }
}

/// Combines the runs of folders of the same experiment in one run store at `output`, in the order of the plan. Runs in
/// several folders must have equal results, apart from their wall-clock time.
///
/// # Errors
/// Returns an error if a folder is in use, has no runs, or has runs of another experiment or engine. Also returns an
/// error if results of a run differ, if the plan has more than `most` runs, or if `output` has other contents or cannot
/// be written.
pub fn merge(folders: &[PathBuf], output: &Path, most: u64) -> Result<Merged, LabError> {
    let wrong = |message: String, help: &str| Err(LabError::Usage { message, help: help.into() });
    let mut first: Option<(&Path, String)> = None;
    let mut described: Option<(&Path, Order)> = None;
    let mut divisions = BTreeSet::new();
    for folder in folders {
        let Some(identity) = identity_of(folder) else {
            return Err(LabError::NotFound {
                what: "part of a sweep",
                name: folder.display().to_string(),
                help: "name a folder that `sweep --part` or `compare --part` has begun".into(),
            });
        };
        if same(folder, output) {
            return wrong(
                format!("the output folder `{}` is one of the parts", output.display()),
                "name another folder with -o",
            );
        }
        let (other, known) = first.get_or_insert((folder, identity.clone()));
        if *known != identity {
            return wrong(
                format!("`{}` and `{}` have runs of different experiments", other.display(), folder.display()),
                "make all parts of the same scenario with the same command, except for --part and -o",
            );
        }
        let Some(PlanFile { parts, order }) = read(folder)? else { continue };
        same_engine(folder, &order, "merge with the program that made the parts, or make all parts with this one")?;
        divisions.extend(parts.map(NonZeroUsize::get));
        match &mut described {
            None => described = Some((folder, order)),
            Some((_, all)) => all.complete(&order),
        }
    }
    let (Some((_, identity)), Some((folder, order))) = (first, described) else {
        return wrong(
            format!("none of the folders has {DESCRIPTION}"),
            "add a folder made by `sweep --part` or `compare --part`",
        );
    };
    let plan = planned(folder, &order, Some(&identity), most)?;
    let mut damage = Vec::new();
    let mut parts = Vec::new();
    for folder in folders {
        let part = Store::open(folder)?;
        damage.extend(part.damage().cloned());
        let mut runs = part.into_records();
        runs.close(); // there may be more parts than files may be open
        parts.push(Part { folder, runs });
    }
    let mut store = open(&plan, output)?;
    let one = (divisions.len() == 1).then(|| divisions.first().copied()).flatten();
    keep(&store, &PlanFile { parts: None, order })?;
    let (missing, parts) = put(&plan, &parts, &mut store, one)?;
    store.sync()?;
    let parts = one.map(|of| (parts.into_iter().collect(), of));
    Ok(Merged { plan, store, damage, missing, parts })
}

struct Part<'f> {
    folder: &'f Path,
    runs: Records,
}

/// Writes the runs of the parts to a store. Returns the titles of the missing runs and the numbers of their parts, if
/// the grid was divided into `of` parts.
fn put(
    plan: &ExperimentPlan,
    parts: &[Part<'_>],
    store: &mut Store,
    of: Option<usize>,
) -> Result<(Vec<String>, BTreeSet<usize>), LabError> {
    let (mut missing, mut belong, mut batch) = (Vec::new(), BTreeSet::new(), Vec::new());
    // A plan may have the same run more than once.
    let mut seen = HashSet::new();
    for (number, job) in plan.planned_jobs().enumerate() {
        let job = job?;
        if !seen.insert(key_hash(&job.key)) {
            continue;
        }
        let mut known: Option<(RunRecord, &Path)> = None;
        for part in parts {
            let Some(record) = part.runs.get(&job.key)? else { continue };
            match &known {
                Some((first, other)) if !equal(first, &record) => {
                    return Err(differ(&job.read()?.title, other, part.folder));
                }
                Some(_) => {}
                None => known = Some((record, part.folder)),
            }
        }
        match (known, store.get(&job.key)?) {
            (Some((record, folder)), Some(kept)) if !equal(&record, &kept) => {
                return Err(differ(&job.read()?.title, folder, store.folder()));
            }
            (_, Some(_)) => {}
            (Some((record, _)), None) => batch.push(
                RunLine::new(&record).map_err(|source| LabError::Write { path: store.folder().join(RUNS), source })?,
            ),
            (None, None) => {
                missing.push(job.read()?.title);
                belong.extend(of.map(|of| number % of + 1));
            }
        }
        if batch.len() >= BATCH {
            store.extend(batch.drain(..))?;
        }
    }
    store.extend(batch)?;
    Ok((missing, belong))
}

/// Returns true if two records are equal apart from their wall-clock time.
pub fn equal(one: &RunRecord, other: &RunRecord) -> bool {
    // Compare the text, in which NaN equals itself.
    let text = |record: &RunRecord| {
        let mut record = record.clone();
        record.result.wall_s = 0.0;
        serde_json::to_string(&record).ok()
    };
    text(one) == text(other)
}

fn differ(title: &str, one: &Path, other: &Path) -> LabError {
    LabError::Usage {
        message: format!("`{}` and `{}` have different results of {title}", one.display(), other.display()),
        help: "make both again, and report it if they differ again".into(),
    }
}

fn same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

fn read(folder: &Path) -> Result<Option<PlanFile>, LabError> {
    let path = folder.join(DESCRIPTION);
    match disk::read(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LabError::Read { path, source }),
        Ok(text) => match serde_json::from_slice(&text) {
            Ok(described) => Ok(Some(described)),
            Err(e) => Err(LabError::Read { path, source: io::Error::other(e) }),
        },
    }
}

fn keep(store: &Store, described: &PlanFile) -> Result<(), LabError> {
    let text = serde_json::to_string_pretty(described).expect("plain data") + "\n";
    if text.len() as u64 > disk::MAX_WHOLE_SIZE {
        return Err(LabError::Usage {
            message: format!("the scenarios and their files have more than {} bytes together", disk::MAX_WHOLE_SIZE),
            help: "use shorter traces, or fewer scenarios".into(),
        });
    }
    store.write(DESCRIPTION, text.as_bytes()).map(drop)
}

/// File with the description of the whole grid.
pub const DESCRIPTION: &str = "plan.json";
const MAX_SHOWN: usize = 10;
const BATCH: usize = 256;
