//! A grid in parts, each done by a process of its own, on any machine: [`Part`] says which runs, [`merge`] puts their stores together.
//!
//! The folder of a part, as that of the whole, is a run store with what the whole was made of in `plan.json`. So parts are merged, and
//! what is not finished is read, without the scenario and without the command line of the sweep, and on a machine that has neither.

use crate::disk;
use crate::error::LabError;
use crate::experiment::Plan;
use crate::experiment::order::Order;
use crate::runner::ENGINE;
use crate::store::{Damage, Record, Records, Store, identity_of};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A part of a grid: `3/20` is the third of twenty. It has every twentieth run, so that parts take about as long as each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    number: usize,
    of: usize,
}

impl Part {
    /// The numbers of its runs in a plan of so many.
    pub fn numbers(self, runs: usize) -> impl ExactSizeIterator<Item = usize> {
        (self.number - 1..runs.max(self.number - 1)).step_by(self.of)
    }

    /// The last word of the name of its folder, if none is given.
    pub fn suffix(self) -> String {
        format!("part-{}-of-{}", self.number, self.of)
    }

    /// Writes into the folder of the part what the whole was made of.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn describe(self, plan: &Plan, store: &Store) -> Result<Description, LabError> {
        Description::new(plan, store, Some(self.of))
    }
}

/// Writes into the folder of a sweep or comparison what it was made of.
///
/// # Errors
/// It cannot be written.
pub fn describe(plan: &Plan, store: &Store) -> Result<Description, LabError> {
    Description::new(plan, store, None)
}

/// What a folder says of the whole.
#[derive(Debug)]
pub struct Description {
    parts: Option<usize>,
    /// How many files it has the texts of.
    files: usize,
}

impl Description {
    fn new(plan: &Plan, store: &Store, parts: Option<usize>) -> Result<Description, LabError> {
        let description = Description { parts, files: plan.files() };
        description.write(plan, store)?;
        Ok(description)
    }

    /// Writes it anew if scenarios have read further files since, as those of a large grid are read when their turn comes. Without them,
    /// nobody else knows which runs are finished: it is to be called however the runs ended.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn renew(&mut self, plan: &Plan, store: &Store) -> Result<(), LabError> {
        if plan.files() > self.files {
            self.write(plan, store)?;
            self.files = plan.files();
        }
        Ok(())
    }

    fn write(&self, plan: &Plan, store: &Store) -> Result<(), LabError> {
        let Some(order) = plan.portable() else { return Ok(()) };
        keep(store, &Described { parts: self.parts, order })
    }
}

/// The plan of the whole to which the finished runs of a folder belong, if it is of at most so many.
///
/// # Errors
/// The folder does not say it, or not of all runs, or another engine did them.
pub fn plan_of(folder: &Path, runs: &Records, most: u64) -> Result<Plan, LabError> {
    let Some(Described { order, .. }) = read(folder)? else {
        let (name, n) = (folder.display(), runs.len());
        return Err(LabError::Usage {
            message: format!("{name} is not finished: it has {n} runs, and no {DESCRIPTION} that says of what"),
            help: "the command that began it goes on from there".into(),
        });
    };
    same_engine(folder, &order, "read it with the program that began it, or begin it again")?;
    let plan = planned(folder, &order, identity_of(folder).as_deref(), most)?;
    match plan.unknown(runs) {
        0 => Ok(plan),
        n => Err(LabError::Usage {
            message: format!(
                "of {} finished runs of {}, {n} have scenarios with files that {DESCRIPTION} lacks",
                runs.len(),
                folder.display()
            ),
            help: "the command that began it goes on from there, and writes that file anew when it ends".into(),
        }),
    }
}

/// The plan that a folder describes. Whoever wrote it may have meant harm: it has at most so many runs, and this identity.
fn planned(folder: &Path, order: &Order, identity: Option<&str>, most: u64) -> Result<Plan, LabError> {
    let path = folder.join(DESCRIPTION);
    let wrong = |message: String, help: String| Err(LabError::Usage { message, help });
    let runs = order.runs();
    if runs > u128::from(most) {
        return wrong(
            format!("{} is of {runs} runs, more than {most}", path.display()),
            format!("--max-runs {runs} if it is to be"),
        );
    }
    let plan = order.plan_within(most)?;
    if identity != Some(&*plan.identity().to_string()) {
        return wrong(
            format!("{} does not describe the runs beside it", path.display()),
            "the command that began it, run again, writes that file anew".into(),
        );
    }
    Ok(plan)
}

fn same_engine(folder: &Path, order: &Order, help: &str) -> Result<(), LabError> {
    if order.engine == ENGINE {
        return Ok(());
    }
    let message = format!("{} is of roughlink {}, this is {ENGINE}", folder.display(), order.engine);
    Err(LabError::Usage { message, help: help.into() })
}

impl FromStr for Part {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Part, LabError> {
        let read = |n: &str| n.trim().parse::<usize>().ok();
        let wrong = |message: String, help: String| Err(LabError::Usage { message, help });
        match text.split_once('/').map(|(number, of)| (read(number), read(of))) {
            Some((Some(number), Some(of))) if (1..=of).contains(&number) => Ok(Part { number, of }),
            Some((Some(_), Some(0))) => wrong(format!("`--part {text}`: no parts"), "--part 1/20 or so".into()),
            Some((Some(_), Some(of))) => {
                wrong(format!("there is no part {text}"), format!("parts are numbered from 1/{of} to {of}/{of}"))
            }
            _ => wrong(format!("`{text}` is not a part"), "the third of twenty parts is --part 3/20".into()),
        }
    }
}

/// What is written into a folder.
#[derive(Debug, Serialize, Deserialize)]
struct Described {
    /// Into how many parts the whole is divided, if the folder has one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parts: Option<usize>,
    #[serde(flatten)]
    order: Order,
}

/// What came of merging parts.
#[derive(Debug)]
pub struct Merged {
    /// The plan of the whole.
    pub plan: Plan,
    /// Its run store.
    pub store: Store,
    /// The damage that was found in the parts.
    pub damage: Vec<Damage>,
    /// Titles of the runs that no part has.
    pub missing: Vec<String>,
    /// The numbers of the parts to which they belong, and how many parts there are; none if the folders are parts of different divisions.
    pub parts: Option<(Vec<usize>, usize)>,
}

impl Merged {
    /// That runs are missing, if any are.
    ///
    /// # Errors
    /// They are.
    pub fn complete(&self) -> Result<(), LabError> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let (shown, all) = (self.missing.iter().take(MOST_SHOWN), self.missing.len());
        let mut list = shown.map(|title| format!("\n  {title}")).collect::<String>();
        if all > MOST_SHOWN {
            list += &format!("\n  and {} more", all - MOST_SHOWN);
        }
        let whose = match &self.parts {
            None => String::new(),
            Some((parts, of)) => {
                let named: Vec<String> = parts.iter().map(usize::to_string).collect();
                format!(", of part{} {} of {of}", if parts.len() == 1 { "" } else { "s" }, named.join(","))
            }
        };
        Err(LabError::Usage {
            message: format!("{all} of {} runs are missing{whose}:{list}", self.plan.runs()),
            help: "run these parts again, which goes on from what they have, and then merge again".into(),
        })
    }
}

/// Puts the runs of folders of the same experiment into one run store at `output`, in the order of the plan. Runs that several of them
/// have must be equal, apart from the time that they took. All together they are at most so many.
///
/// # Errors
/// A folder has no runs, those of another experiment or engine, or is in use; a run has different results; `output` has something else
/// or cannot be written.
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
                help: "a folder that `sweep --part` or `compare --part` has begun is expected".into(),
            });
        };
        if same(folder, output) {
            return wrong(format!("{} is one of the parts", output.display()), "name another folder with -o");
        }
        let (other, known) = first.get_or_insert((folder, identity.clone()));
        if *known != identity {
            return wrong(
                format!("{} and {} have runs of different experiments", other.display(), folder.display()),
                "parts are made by the same command, but for --part and -o, from the same scenario",
            );
        }
        let Some(Described { parts, order }) = read(folder)? else { continue };
        same_engine(folder, &order, "merge with the program that made the parts, or make all parts with this one")?;
        divisions.extend(parts);
        match &mut described {
            None => described = Some((folder, order)),
            Some((_, all)) => all.complete(&order),
        }
    }
    let (Some((_, identity)), Some((folder, order))) = (first, described) else {
        return wrong(
            format!("none of the folders has {DESCRIPTION}"),
            "at least one must have been made by `sweep --part` or `compare --part`",
        );
    };
    let plan = planned(folder, &order, Some(&identity), most)?;
    let mut found = Found::default();
    let mut damage = Vec::new();
    for folder in folders {
        let part = Store::open(folder)?;
        damage.extend(part.damage().cloned());
        found.take(folder, part, &plan)?;
    }
    let mut store = Store::of(output, &plan.identity())?;
    let one = (divisions.len() == 1).then(|| divisions.first().copied()).flatten();
    keep(&store, &Described { parts: None, order })?;
    let (missing, parts) = found.put(&plan, &mut store, one)?;
    store.sync()?;
    let parts = one.map(|of| (parts.into_iter().collect(), of));
    Ok(Merged { plan, store, damage, missing, parts })
}

/// Runs of several folders.
#[derive(Default)]
struct Found {
    records: HashMap<String, (Record, PathBuf)>,
}

impl Found {
    /// Adds the runs of a folder.
    fn take(&mut self, folder: &Path, part: Store, plan: &Plan) -> Result<(), LabError> {
        for record in part.into_records() {
            match self.records.get(&record.key) {
                None => drop(self.records.insert(record.key.clone(), (record, folder.to_path_buf()))),
                Some((known, other)) if !equal(known, &record) => return Err(differ(plan, &record.key, other, folder)),
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Puts them into a store, and says which are missing: their titles, and of so many parts those that they belong to.
    fn put(
        mut self,
        plan: &Plan,
        store: &mut Store,
        parts: Option<usize>,
    ) -> Result<(Vec<String>, BTreeSet<usize>), LabError> {
        let (mut missing, mut belong, mut batch) = (Vec::new(), BTreeSet::new(), Vec::new());
        let mut lacked = BTreeSet::new();
        for (number, job) in plan.jobs().enumerate() {
            let job = job?;
            match (self.records.remove(&job.key), store.get(&job.key)) {
                (Some((record, folder)), Some(known)) if !equal(&record, known) => {
                    return Err(differ(plan, &job.key, &folder, store.folder()));
                }
                (_, Some(_)) => {}
                (Some((record, _)), None) => batch.push(record),
                // The same run may occur again in a plan.
                (None, None) if batch.iter().any(|r: &Record| r.key == job.key) || !lacked.insert(job.key) => {}
                (None, None) => {
                    missing.push(job.title);
                    belong.extend(parts.map(|of| number % of + 1));
                }
            }
            if batch.len() >= BATCH {
                store.extend(batch.drain(..))?;
            }
        }
        store.extend(batch)?;
        Ok((missing, belong))
    }
}

/// Whether they are the same but for the time that they took.
pub fn equal(one: &Record, other: &Record) -> bool {
    // As they are written: what is no number equals itself there.
    let text = |record: &Record| {
        let mut record = record.clone();
        record.result.wall_s = 0.0;
        serde_json::to_string(&record).ok()
    };
    text(one) == text(other)
}

fn differ(plan: &Plan, key: &str, one: &Path, other: &Path) -> LabError {
    let title = plan.jobs().flatten().find(|job| job.key == key).map_or_else(|| key.to_owned(), |job| job.title);
    LabError::Usage {
        message: format!("{} and {} have different results of {title}", one.display(), other.display()),
        help: "one of them is wrong: make both again, and report it if they differ again".into(),
    }
}

/// Whether these are the same folder.
fn same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

fn read(folder: &Path) -> Result<Option<Described>, LabError> {
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

fn keep(store: &Store, described: &Described) -> Result<(), LabError> {
    let text = serde_json::to_string_pretty(described).expect("plain data") + "\n";
    store.write(DESCRIPTION, text.as_bytes()).map(drop)
}

/// What the whole was made of.
pub const DESCRIPTION: &str = "plan.json";
/// Runs that are named if they are missing.
const MOST_SHOWN: usize = 10;
/// Runs that are written at a time.
const BATCH: usize = 256;
