//! Scenario and experiment files, found on disk or in the binary.

use crate::disk;
use crate::error::LabError;
use crate::nearest;
use roughlink_core::scenario::Scenario;
use roughlink_scenario::Warning;
use siphasher::sip128::{Hasher128 as _, SipHasher13};
use std::cell::RefCell;
use std::fs::File;
use std::hash::Hasher as _;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// The text of a file and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name in messages: the path as given, or `scenarios/hello.toml` for an embedded file.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The folder of the files that it refers to; none for an embedded file.
    pub folder: Option<Folder>,
}

/// The folder of a scenario file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folder {
    /// Where it is; nothing is read from this machine's disk if it is nowhere.
    pub path: Option<PathBuf>,
    /// The scenario may read files outside it.
    pub allow_outside: bool,
    /// Names and texts of files that came with the scenario, from another machine perhaps. They are taken instead of those on the disk.
    pub given: Texts,
}

/// Names and texts of files.
pub type Texts = Vec<(String, String)>;

/// `key = value` overrides, applied in order.
pub type Overrides = Vec<(String, String)>;

/// A scenario ready to run.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The scenario.
    pub scenario: Scenario,
    /// What is allowed but probably not meant.
    pub warnings: Vec<Warning>,
    /// Names and texts of the files that it reads.
    pub files: Texts,
    /// What identifies it: its text after overrides and the texts of the files it reads.
    pub fingerprint: u128,
}

impl Source {
    /// The scenario called `name`: a path, or the name of an embedded one (`hello`).
    pub fn scenario(name: &str) -> Result<Source, LabError> {
        let path = Path::new(name);
        let is_path = || name.ends_with(".toml") || name.contains(['/', '\\']) || path.exists();
        match Source::find(name, "scenarios", "scenario") {
            Err(LabError::NotFound { .. }) if is_path() => {
                let reason = if path.exists() { "not a file" } else { "no such file" };
                Err(LabError::NoFile { name: name.into(), reason })
            }
            found => found,
        }
    }

    /// A file on disk, or embedded below `folder`.
    pub(crate) fn find(name: &str, folder: &str, what: &'static str) -> Result<Source, LabError> {
        let path = Path::new(name);
        if path.is_file() {
            let text = read_text(path, LARGEST_SCENARIO)
                .map_err(|source| LabError::Read { path: path.to_path_buf(), source })?;
            return Ok(Source { name: name.into(), text, folder: path.parent().map(Folder::new) });
        }
        let stem = name.strip_suffix(".toml").unwrap_or(name);
        let stem = stem.strip_prefix(&format!("{folder}/")).unwrap_or(stem);
        let full = format!("{folder}/{stem}.toml");
        if let Some((name, text)) = FILES.iter().find(|(name, _)| *name == full) {
            return Ok(Source { name: (*name).into(), text: (*text).into(), folder: None });
        }
        let known = names(folder);
        Err(LabError::NotFound {
            what,
            name: name.into(),
            help: nearest::suggest(stem, "built in are", known.iter().map(String::as_str)),
        })
    }

    /// Lets the scenario read files outside its folder, or not.
    #[must_use]
    pub fn allow_outside(mut self, allow: bool) -> Self {
        if let Some(folder) = &mut self.folder {
            folder.allow_outside = allow;
        }
        self
    }

    /// The file's name without folder and extension.
    pub fn stem(&self) -> &str {
        let name = self.name.rsplit(['/', '\\']).next().unwrap_or(&self.name);
        name.strip_suffix(".toml").unwrap_or(name)
    }

    /// Reads it as a scenario.
    pub fn parse(&self, overrides: &[(String, String)]) -> Result<Parsed, LabError> {
        let read_too: RefCell<Texts> = RefCell::default();
        let load = |name: &str| {
            let text = match &self.folder {
                Some(folder) => folder.read(name),
                None => {
                    let full = format!("scenarios/{name}");
                    let found = FILES.iter().find(|(n, _)| *n == full);
                    found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "no such file".to_owned())
                }
            }?;
            read_too.borrow_mut().push((name.to_owned(), text.clone()));
            Ok(text)
        };
        let (scenario, warnings) = roughlink_scenario::parse(&self.text, &self.name, overrides, &load)?;
        let files = read_too.into_inner();
        let mut hash = SipHasher13::new();
        for text in std::iter::once(&scenario.source).chain(files.iter().map(|(_, text)| text)) {
            hash.write_u64(text.len() as u64);
            hash.write(text.as_bytes());
        }
        // A scenario without a name is named after its file, and the result contains the name.
        hash.write(scenario.name.as_bytes());
        Ok(Parsed { scenario, warnings, files, fingerprint: hash.finish128().as_u128() })
    }
}

/// Names of the embedded files below `folder`, without it and without `.toml`.
pub fn names(folder: &str) -> Vec<String> {
    let prefix = format!("{folder}/");
    let stem = |name: &str| Some(name.strip_prefix(&prefix)?.strip_suffix(".toml")?.to_owned());
    FILES.iter().filter_map(|(name, _)| stem(name)).collect()
}

impl Folder {
    /// The folder at `path`; files outside it may not be read.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Folder { path: Some(path.into()), ..Folder::default() }
    }

    /// The text of the file `name`, or why it cannot be had.
    fn read(&self, name: &str) -> Result<String, String> {
        if let Some((_, text)) = self.given.iter().find(|(given, _)| given == name) {
            return Ok(text.clone());
        }
        let folder = self.path.as_ref().ok_or("it did not come with the scenario")?;
        let path = folder.join(name);
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let inside = || Ok::<bool, io::Error>(path.canonicalize()?.starts_with(folder.canonicalize()?));
        let reason = |e: io::Error| match e.kind() {
            io::ErrorKind::NotFound => "no such file".to_owned(),
            _ => e.to_string(),
        };
        if !self.allow_outside && !inside().map_err(reason)? {
            return Err("it is outside the folder of the scenario, which --allow-outside permits".into());
        }
        read_text(&path, LARGEST_TRACE).map_err(reason)
    }
}

/// The text of a file on disk.
///
/// # Errors
/// What is no regular file, and what [`text_of`] refuses.
fn read_text(path: &Path, most: u64) -> io::Result<String> {
    disk::regular(&std::fs::metadata(path)?)?; // before it is opened: a FIFO would wait for a writer
    text_of(File::open(path)?, most)
}

/// What `file` has, as text.
///
/// # Errors
/// What has more than `most` bytes, and what is not UTF-8.
pub fn text_of(file: impl Read, most: u64) -> io::Result<String> {
    let refuse = |reason: String| Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return refuse(format!("it is larger than {} MB", most / 1_000_000));
    }
    String::from_utf8(bytes).or_else(|e| {
        let good = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        refuse(format!("line {}: it is not UTF-8 text", 1 + good.iter().filter(|b| **b == b'\n').count()))
    })
}

/// Bytes of a scenario: 150,000 flows, each with its node and link. In memory it is up to eighty times as large.
pub const LARGEST_SCENARIO: u64 = 32_000_000;
/// Bytes of a trace or log: 10^7 lines.
const LARGEST_TRACE: u64 = 256_000_000;
