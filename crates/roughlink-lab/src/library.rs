//! Scenario and experiment files, found on disk or in the binary.
//!
//! ```
//! use roughlink_core::units::Time;
//! use roughlink_lab::library::ScenarioText;
//!
//! let shorter = [("duration".to_owned(), "5 s".to_owned())];
//! let parsed = ScenarioText::scenario("hello")?.parse(&shorter)?;
//! assert_eq!((&*parsed.scenario.name, parsed.scenario.duration), ("Hello", Time::from_secs(5)));
//! assert!(ScenarioText::scenario("helo").is_err());
//! # Ok::<(), roughlink_lab::error::LabError>(())
//! ```

use crate::disk::{self, read_at_most};
use crate::error::LabError;
use crate::nearest;
use roughlink_core::scenario::Scenario;
use roughlink_scenario::{ScenarioTemplate, Warning};
use siphasher::sip128::{Hasher128 as _, SipHasher13};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::hash::Hasher as _;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Text of a file and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioText {
    /// Name in messages: the path as given, or `scenarios/hello.toml` for an embedded file.
    pub name: String,
    /// Text of the file.
    pub text: String,
    /// Folder of the files that it refers to; `None` for an embedded file.
    pub folder: Option<ScenarioFolder>,
}

/// Folder of a scenario file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScenarioFolder {
    /// Path; with `None` nothing is read from disk.
    pub path: Option<PathBuf>,
    /// True if the scenario may read files outside the folder.
    pub allow_outside: bool,
    /// Names and texts of files that came with the scenario, to be used instead of files on disk.
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
    /// Settings that are valid but probably unintended.
    pub warnings: Vec<Warning>,
    /// Names and texts of the files that it reads.
    pub files: Texts,
    /// Hash of its text after overrides and of the texts of its files.
    pub fingerprint: u128,
}

impl ScenarioText {
    /// Finds the scenario `name`: a path, or the name of an embedded one (`hello`).
    pub fn scenario(name: &str) -> Result<ScenarioText, LabError> {
        let path = Path::new(name);
        let is_path = || name.ends_with(".toml") || name.contains(['/', '\\']) || path.exists();
        match ScenarioText::find(name, "scenarios", "scenario", MAX_SCENARIO_SIZE) {
            Err(LabError::NotFound { .. }) if is_path() => {
                let reason = if path.exists() { "not a file" } else { "no such file" };
                Err(LabError::NoFile { name: name.into(), reason })
            }
            found => found,
        }
    }

    /// Finds a file of at most `most` bytes on disk, or embedded below `folder`.
    pub(crate) fn find(name: &str, folder: &str, what: &'static str, most: u64) -> Result<ScenarioText, LabError> {
        let path = Path::new(name);
        if path.is_file() {
            let text = read_text(path, most).map_err(|source| LabError::Read { path: path.to_path_buf(), source })?;
            return Ok(ScenarioText { name: name.into(), text, folder: path.parent().map(ScenarioFolder::new) });
        }
        let stem = name.strip_suffix(".toml").unwrap_or(name);
        let stem = stem.strip_prefix(&format!("{folder}/")).unwrap_or(stem);
        let full = format!("{folder}/{stem}.toml");
        if let Some((name, text)) = FILES.iter().find(|(name, _)| *name == full) {
            return Ok(ScenarioText { name: (*name).into(), text: (*text).into(), folder: None });
        }
        let known = names(folder);
        Err(LabError::NotFound {
            what,
            name: name.into(),
            help: nearest::suggest(stem, "expected", known.iter().map(String::as_str)),
        })
    }

    /// Sets whether the scenario may read files outside its folder.
    #[must_use]
    pub fn allow_outside(mut self, allow: bool) -> Self {
        if let Some(folder) = &mut self.folder {
            folder.allow_outside = allow;
        }
        self
    }

    /// Returns the file name without folder and extension.
    pub fn stem(&self) -> &str {
        roughlink_scenario::stem(&self.name)
    }

    /// Parses the text as a scenario.
    pub fn parse(&self, overrides: &[(String, String)]) -> Result<Parsed, LabError> {
        Ok(self.parse_by(|load| roughlink_scenario::parse(&self.text, &self.name, overrides, load))?)
    }

    /// Parses `text`, which is this text with overrides.
    fn parse_overridden(&self, text: String) -> Result<Parsed, LabError> {
        Ok(self.parse_by(|load| roughlink_scenario::parse_overridden(text, &self.name, load))?)
    }

    fn parse_by<E>(
        &self,
        parse: impl FnOnce(&dyn Fn(&str) -> Result<String, String>) -> Result<(Scenario, Vec<Warning>), E>,
    ) -> Result<Parsed, E> {
        let read_too: RefCell<Texts> = RefCell::default();
        let read_file = |name: &str| match &self.folder {
            Some(folder) => folder.read(name),
            None => {
                let full = format!("scenarios/{name}");
                let found = FILES.iter().find(|(n, _)| *n == full);
                found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "no such file".to_owned())
            }
        };
        let repeated = Cell::new(0);
        let load = |name: &str| {
            let known = read_too.borrow().iter().find(|(known, _)| known == name).map(|(_, text)| text.clone());
            let (text, again) = match known {
                Some(text) => (text, true),
                None => {
                    let text = read_file(name)?;
                    // The same text may have several names, such as links.
                    let again = read_too.borrow().iter().any(|(_, known)| *known == text);
                    read_too.borrow_mut().push((name.to_owned(), text.clone()));
                    (text, again)
                }
            };
            if again {
                repeated.set(repeated.get() + text.len() as u64);
            }
            if repeated.get() > MAX_REPEATED_SIZE {
                return Err(format!(
                    "further uses of the same files need more than {MAX_REPEATED_SIZE} bytes; use fewer or shorter \
                     files"
                ));
            }
            Ok(text)
        };
        let (scenario, warnings) = parse(&load)?;
        let files = read_too.into_inner();
        let fingerprint = fingerprint(&scenario.source, hash_of(&scenario, &files));
        Ok(Parsed { scenario, warnings, files, fingerprint })
    }
}

/// Returns the hash of the name of a scenario, which is in its results and defaults to the file name, and of the texts
/// of its files.
fn hash_of(scenario: &Scenario, files: &Texts) -> u128 {
    let mut hash = SipHasher13::new();
    for text in std::iter::once(&scenario.name).chain(files.iter().map(|(_, text)| text)) {
        hash.write_u64(text.len() as u64);
        hash.write(text.as_bytes());
    }
    hash.finish128().as_u128()
}

fn fingerprint(source: &str, files: u128) -> u128 {
    let mut hash = SipHasher13::new();
    hash.write_u128(files);
    hash.write(source.as_bytes());
    hash.finish128().as_u128()
}

/// A scenario of a sweep, whose fingerprint is known without parsing it for each cell.
#[derive(Debug)]
pub(crate) struct CellTemplate {
    text: ScenarioTemplate,
    files: u128,
    /// Set once a scenario had to be read whole, because others with the same fault or warning follow.
    is_whole: AtomicBool,
}

impl CellTemplate {
    /// Returns the text of the scenarios that differ in the values of the overrides after the first `fixed`. Returns
    /// `None` if there are no such overrides, or if other things may differ, too.
    pub(crate) fn text(
        source: &ScenarioText,
        overrides: &[(String, String)],
        fixed: usize,
    ) -> Option<ScenarioTemplate> {
        let values = overrides.iter().enumerate();
        let values = values.map(|(i, (path, value))| (path.as_str(), (i < fixed).then_some(value.as_str())));
        if fixed < overrides.len() { ScenarioTemplate::new(&source.text, &values.collect::<Vec<_>>()) } else { None }
    }

    /// Creates the template with this text, of which `parsed` is one of the scenarios.
    pub(crate) fn new(text: ScenarioTemplate, parsed: &Parsed) -> Self {
        CellTemplate { text, files: hash_of(&parsed.scenario, &parsed.files), is_whole: AtomicBool::new(false) }
    }

    /// Returns the fingerprint of the scenario with these values; `None` if it must be parsed.
    pub(crate) fn fingerprint(&self, overrides: &[(String, String)]) -> Option<u128> {
        Some(fingerprint(&self.text.fill(&values_of(overrides))?, self.files))
    }

    /// Parses the scenario with these values.
    pub(crate) fn parse(&self, source: &ScenarioText, overrides: &[(String, String)]) -> Result<Parsed, LabError> {
        let values = values_of(overrides);
        if !self.is_whole.load(Ordering::Relaxed) {
            let parsed = source.parse_by(|load| match self.text.parse(&values, &source.name, load) {
                Some(scenario) => Ok((scenario, Vec::new())),
                None => Err(()),
            });
            if let Ok(parsed) = parsed {
                return Ok(parsed);
            }
        }
        match self.text.fill(&values) {
            Some(text) => {
                self.is_whole.store(true, Ordering::Relaxed);
                source.parse_overridden(text)
            }
            None => source.parse(overrides),
        }
    }
}

fn values_of(overrides: &[(String, String)]) -> Vec<&str> {
    overrides.iter().map(|(_, value)| value.as_str()).collect()
}

/// Returns the names of the embedded files below `folder`, without it and without `.toml`.
pub fn names(folder: &str) -> Vec<String> {
    let prefix = format!("{folder}/");
    let stem = |name: &str| Some(name.strip_prefix(&prefix)?.strip_suffix(".toml")?.to_owned());
    FILES.iter().filter_map(|(name, _)| stem(name)).collect()
}

impl ScenarioFolder {
    /// Creates a folder whose scenario may not read files outside.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        ScenarioFolder { path: Some(path.into()), ..ScenarioFolder::default() }
    }

    /// Returns the text of the file `name`, or the reason why it cannot be read.
    fn read(&self, name: &str) -> Result<String, String> {
        if let Some((_, text)) = self.given.iter().find(|(given, _)| given == name) {
            return Ok(text.clone());
        }
        let folder = self.path.as_ref().ok_or("it did not come with the scenario")?;
        let path = folder.join(name);
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let reason = |e: io::Error| match e.kind() {
            io::ErrorKind::NotFound => "no such file".to_owned(),
            _ => e.to_string(),
        };
        if self.allow_outside {
            return read_text(&path, MAX_TRACE_SIZE).map_err(reason);
        }
        let resolved = |path: &Path| path.canonicalize().map_err(reason);
        let (path, folder) = (resolved(&path)?, resolved(folder)?);
        let Ok(inside) = path.strip_prefix(&folder) else {
            return Err("it is outside the folder of the scenario; allow this with --allow-outside".into());
        };
        // The path is resolved. Follow no further links, which another user could have inserted since.
        disk::reader_below(&folder, inside).and_then(|file| text_of(file, MAX_TRACE_SIZE)).map_err(reason)
    }
}

/// Writes a text file. With `force`, writes to what exists at `path`, and keeps the permissions of a file. A file is
/// complete or unchanged, even if the process is killed meanwhile.
///
/// # Errors
/// Returns an error if the file cannot be written or, without `force`, if something exists at `path`.
pub fn write_text(path: &Path, text: &str, force: bool) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if force && found.is_file() => {
            let target = path.canonicalize()?;
            disk::replace(&target, text.as_bytes())?;
            std::fs::set_permissions(&target, found.permissions())
        }
        Ok(_) if force => std::fs::write(path, text),
        _ => disk::create(path, text.as_bytes()),
    }
}

/// Reads a text file from disk. Fails if it is not a regular file, and with the errors of [`text_of`].
fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let found = std::fs::metadata(path)?;
    disk::regular(&found)?; // before it is opened: a FIFO would wait for a writer
    if found.len() > most {
        return Err(too_large(most));
    }
    text_of(File::open(path)?, most)
}

/// Reads `file` as text.
///
/// ```
/// use roughlink_lab::library::text_of;
///
/// assert_eq!(text_of(&b"seed = 1\n"[..], 100)?, "seed = 1\n");
/// let error = text_of(&b"seed = 1\n\xff"[..], 100).unwrap_err();
/// assert_eq!(error.to_string(), "line 2: it is not UTF-8 text");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Returns an error if it has more than `most` bytes or is not UTF-8.
pub fn text_of(file: impl Read, most: u64) -> io::Result<String> {
    let Some(bytes) = read_at_most(file, most)? else { return Err(too_large(most)) };
    String::from_utf8(bytes).map_err(|e| {
        let good = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        invalid(format!("line {}: it is not UTF-8 text", 1 + good.iter().filter(|b| **b == b'\n').count()))
    })
}

fn too_large(most: u64) -> io::Error {
    invalid(format!("it is larger than {} MB", most / 1_000_000))
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Largest scenario file, bytes: 2,500,000 flows, each with a node and a link.
pub const MAX_SCENARIO_SIZE: u64 = 512_000_000;
/// Largest experiment file, bytes. Parsing takes up to 80 times the memory.
pub(crate) const MAX_EXPERIMENT_SIZE: u64 = 32_000_000;
/// Largest trace or log, bytes: 10^7 lines.
const MAX_TRACE_SIZE: u64 = 256_000_000;
/// Maximum total size of the repeated uses of traces and logs, bytes: each use after the first counts in full.
const MAX_REPEATED_SIZE: u64 = if cfg!(test) { 5_000 } else { 100_000_000 };

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a scenario of `links` links that all name the trace `t.csv` in `folder`.
    fn with_traces(links: usize, folder: &Path) -> ScenarioText {
        let mut text = String::from("duration = \"1 s\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n");
        for i in 0..links {
            text += &format!(
                "[[link]]\nname = \"l{i}\"\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n\
                 timeline = \"{}t.csv\"\n",
                "./".repeat(i % 2)
            );
        }
        text += "[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n";
        ScenarioText { name: "s.toml".into(), text, folder: Some(ScenarioFolder::new(folder)) }
    }

    #[test]
    fn a_file_used_again_is_kept_once_and_limited() {
        let folder = tempfile::tempdir().unwrap();
        let rows: String = (0..100).map(|i| format!("{i},1\n")).collect();
        let trace = format!("time_s,rate_mbps\n{rows}");
        std::fs::write(folder.path().join("t.csv"), &trace).unwrap();
        let fit = 1 + MAX_REPEATED_SIZE as usize / trace.len();
        let files = with_traces(fit, folder.path()).parse(&[]).unwrap().files;
        assert_eq!(files, [("t.csv".to_owned(), trace.clone()), ("./t.csv".to_owned(), trace)]);
        let error = with_traces(fit + 1, folder.path()).parse(&[]).err().unwrap().to_string();
        assert!(error.contains("further uses of the same files need more than 5000 bytes"), "{error}");
    }

    #[test]
    fn existing_files_are_replaced_only_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.toml");
        write_text(&path, "first", false).unwrap();
        assert_eq!(write_text(&path, "second", false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first");
        write_text(&path, "third", true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "third");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }

    #[cfg(unix)]
    #[test]
    fn links_and_devices_keep_their_names() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "old").unwrap();
        std::fs::set_permissions(at("file"), std::fs::Permissions::from_mode(0o600)).unwrap();
        symlink("file", at("link")).unwrap();
        symlink("/dev/null", at("null")).unwrap();
        symlink("absent", at("dangling")).unwrap();
        ["link", "null"].iter().for_each(|name| write_text(&at(name), "new", true).unwrap());
        assert!(write_text(&at("dangling"), "new", false).is_err() && !at("absent").exists());
        assert!(["link", "null", "dangling"].iter().all(|name| at(name).is_symlink()));
        assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "new");
        assert_eq!(std::fs::metadata(at("file")).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[cfg(unix)]
    #[test]
    fn links_inside_the_folder_are_followed_and_others_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("s/inner");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("t.csv"), "inside").unwrap();
        std::fs::write(root.path().join("other.csv"), "outside").unwrap();
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, root.path().join("s").join(name)).unwrap();
        link("inner/t.csv", "near.csv");
        link("../other.csv", "far.csv");
        let read = |name: &str| ScenarioFolder::new(root.path().join("s")).read(name);
        assert_eq!([read("inner/t.csv"), read("near.csv")], [Ok("inside".into()), Ok("inside".into())]);
        assert!(read("far.csv").unwrap_err().contains("outside the folder"));
        // A link that replaces a folder after it was resolved is not followed.
        let found = disk::reader_below(root.path(), Path::new("s/far.csv"));
        assert!(found.is_err() && disk::reader_below(root.path(), Path::new("s/inner/t.csv")).is_ok());
    }
}
