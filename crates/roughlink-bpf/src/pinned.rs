//! Loaded algorithms, pinned in the BPF file system and found through it.
//!
//! Each algorithm has a folder with the maps that other processes may read, and the link if it outlives its loader.

use crate::defaults::{self, NamedNamespace};
use crate::error::KernelError;
use crate::event::{EventRecord, SIZE};
use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle, Object, RingBufferBuilder};
use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use roughlink_host::Namespace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, iter, thread};

/// Mount point of the BPF file system, as systemd uses it.
const BPFFS: &str = "/sys/fs/bpf";
/// Folder of the algorithms that roughlink has loaded.
pub const ROOT: &str = "/sys/fs/bpf/roughlink";
/// Maps of a program that are pinned, with their file names.
const MAPS: [(&str, &str); 5] = [
    (".rodata.what", "what"),
    (".data.counters", "counters"),
    (".data.recording", "recording"),
    ("ring", "ring"),
    (".data.coverage", COVERAGE),
];
const LINK: &str = "link";
/// Iterator over the connections of an algorithm.
const CONNECTIONS: &str = "connections";
/// Map with the coverage state, for algorithms that use it.
const COVERAGE: &str = "coverage";
/// Iterator that makes every connection read the coverage state.
const LOOK_AGAIN: &str = "look_again";
const ITERATORS: [&str; 2] = [CONNECTIONS, LOOK_AGAIN];
/// Number of checks, 10 ms apart, for an algorithm to disappear from the kernel.
const TRIES: u32 = 300;

/// An algorithm that roughlink has loaded.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// Name in the kernel.
    pub name: String,
    /// Description written by the loader.
    pub record: LoadRecord,
    /// True if the algorithm stays when its loader ends.
    pub persists: bool,
    /// True if the kernel has the algorithm. If not, its loader was killed and left only its folder.
    pub registered: bool,
}

/// Description of a loaded algorithm, written by its loader.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadRecord {
    /// Name of the algorithm in scenario files.
    pub algorithm: String,
    /// Version of roughlink.
    pub version: String,
    /// Process ID of the loader.
    pub process: u32,
    /// Default of the loader's namespace before loading.
    pub before: String,
    /// Previous defaults of the namespaces in which the algorithm became the default.
    #[serde(rename = "former")]
    pub previous_defaults: PreviousDefaults,
    /// All parameters of the program.
    pub parameters: toml::Table,
}

/// Previous defaults of namespaces by inode number, the latest first. A list ends at the first algorithm that roughlink
/// had not loaded: only load records name the default that was replaced.
pub type PreviousDefaults = BTreeMap<String, Vec<String>>;

/// Returns the current defaults of these namespaces, in the form of [`LoadRecord::previous_defaults`].
///
/// # Errors
/// Returns an error if a namespace cannot be joined.
pub fn current_defaults(places: &[NamedNamespace]) -> Result<PreviousDefaults, KernelError> {
    places.iter().map(|place| Ok((number(place)?, chain(place)?))).collect()
}

/// Returns the default of a namespace, followed by the defaults that it replaced.
pub(crate) fn chain(place: &NamedNamespace) -> Result<Vec<String>, KernelError> {
    let now = defaults::default_of(place)?;
    let record = Pinned::find(&now).map(|p| p.record);
    let mut chain = vec![now];
    chain.extend(record.iter().flat_map(|record| record.restored_default(place)).filter(|name| !name.is_empty()));
    Ok(chain)
}

fn number(place: &NamedNamespace) -> Result<String, KernelError> {
    place.1.inode().map(|inode| inode.to_string()).map_err(|e| KernelError::State(e.with_cause()))
}

impl LoadRecord {
    /// Candidates for the default of a namespace after unloading: its previous ones, then the loader's.
    fn restored_default(&self, place: &NamedNamespace) -> Vec<String> {
        let recorded = number(place).ok().and_then(|number| self.previous_defaults.get(&number));
        recorded.into_iter().flatten().chain([&self.before]).cloned().collect()
    }
}

/// Counters of a program over all connections since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProgramCounters {
    /// Connections that started with the algorithm or switched to it.
    pub opened: u64,
    /// Connections that ended or switched to another algorithm.
    pub closed: u64,
    /// Episodes: losses, time-outs and marks that reduced the window.
    pub congestions: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Spurious episodes that were undone.
    pub undone: u64,
    /// Records lost because the ring was full.
    pub not_recorded: u64,
    /// Part of `congestions` that began without a call of `ssthresh`; the program reduced the window at the next ACK.
    pub not_asked: u64,
}

/// Result of [`unload`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unloaded {
    /// Names of the namespaces whose default changed, with the new default.
    pub namespaces: Vec<(String, String)>,
    /// Open connections that keep the algorithm until they end.
    pub connections: u64,
}

impl Pinned {
    /// Lists all loaded algorithms by name.
    ///
    /// # Errors
    /// Returns an error if /proc or the folder cannot be read.
    pub fn all() -> Result<Vec<Self>, KernelError> {
        let registered = defaults::registered()?;
        if !has_root()? {
            return Ok(Vec::new());
        }
        let entries = fs::read_dir(ROOT).map_err(KernelError::file(format!("read {ROOT}")))?;
        let mut names: Vec<String> = entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        let read = |name: String| Pinned {
            record: read_record(&name).unwrap_or_default(),
            persists: folder(&name).join(LINK).exists(),
            registered: registered.contains(&name),
            name,
        };
        Ok(names.into_iter().map(read).collect())
    }

    /// Finds the loaded algorithm `name`.
    ///
    /// # Errors
    /// Returns [`KernelError::NotLoaded`] if `name` is not loaded, and the errors of [`Pinned::all`].
    pub fn find(name: &str) -> Result<Self, KernelError> {
        let mut all = Self::all()?;
        match all.iter().position(|p| p.name == name) {
            Some(at) => Ok(all.swap_remove(at)),
            None => {
                Err(KernelError::NotLoaded { name: name.to_owned(), loaded: all.into_iter().map(|p| p.name).collect() })
            }
        }
    }

    /// Reads the counters.
    ///
    /// # Errors
    /// Returns an error if the map cannot be read.
    pub fn counters(&self) -> Result<ProgramCounters, KernelError> {
        let bytes = first_value(&self.map("counters")?)?;
        let mut numbers = bytes.chunks_exact(8).map(|c| u64::from_ne_bytes(c.try_into().expect("eight bytes")));
        let mut next = || numbers.next().unwrap_or(0);
        Ok(ProgramCounters {
            opened: next(),
            closed: next(),
            congestions: next(),
            timeouts: next(),
            undone: next(),
            not_recorded: next(),
            not_asked: next(),
        })
    }

    /// Records events and passes them to `on_events`, at least every 100 ms, until it returns false. ACK events are
    /// included only with `acknowledgments`.
    ///
    /// # Errors
    /// Returns an error if a map cannot be read or written, or if the algorithm is unloaded meanwhile.
    pub fn follow(
        &self,
        acknowledgments: bool,
        mut on_events: impl FnMut(&[EventRecord]) -> bool,
    ) -> Result<(), KernelError> {
        let (ring, recording) = (self.map("ring")?, self.map("recording")?);
        let events = std::cell::RefCell::new(Vec::new());
        let mut builder = RingBufferBuilder::new();
        let take = |bytes: &[u8]| {
            events.borrow_mut().extend(EventRecord::decode(bytes));
            0
        };
        builder.add(&ring, take).map_err(KernelError::bpf("read the event ring"))?;
        let ring = builder.build().map_err(KernelError::bpf("read the event ring"))?;
        let record = |level: u32| {
            let written = recording.update(&[0; 4], &level.to_ne_bytes(), MapFlags::ANY);
            written.map_err(KernelError::bpf("switch recording"))
        };
        let ring_inode = || fs::metadata(folder(&self.name).join("ring")).map(|m| m.ino()).ok();
        let first_inode = ring_inode();
        record(if acknowledgments { 2 } else { 1 })?;
        loop {
            let polled = ring.poll(Duration::from_millis(100));
            let go_on = on_events(&events.take());
            match polled {
                Err(e) if e.kind() != libbpf_rs::ErrorKind::Interrupted => {
                    record(0)?;
                    return Err(KernelError::bpf("wait for events")(e));
                }
                _ if go_on && ring_inode() != first_inode => {
                    return Err(KernelError::State(format!("`{}` was unloaded", self.name)));
                }
                _ if go_on => {}
                _ => return record(0),
            }
        }
    }

    /// Sets the coverage state and makes every connection of every namespace read it at once.
    ///
    /// # Errors
    /// Returns an error if the algorithm does not use coverage, or if one of its files cannot be read or written.
    pub fn set_coverage(&self, is_covered: bool) -> Result<(), KernelError> {
        if !self.registered {
            return Err(KernelError::State(format!(
                "`{}` is no longer in the kernel: its loader was killed",
                self.name
            )));
        }
        if !folder(&self.name).join(LOOK_AGAIN).exists() {
            return Err(KernelError::State(format!("`{}` does not use coverage; only `avoca` does", self.name)));
        }
        let written = self.map(COVERAGE)?.update(&[0; 4], &u32::from(is_covered).to_ne_bytes(), MapFlags::ANY);
        written.map_err(KernelError::bpf("set the coverage"))?;
        // Connections that the iterator misses read the state at their next ACK. A connection that has
        // the state is not restarted, so the command can be repeated after a kill.
        self.read_everywhere(LOOK_AGAIN, |_, _| ())
    }

    /// Returns the coverage state, or `None` if the algorithm does not use it.
    ///
    /// # Errors
    /// Returns an error if the map cannot be read.
    pub fn coverage(&self) -> Result<Option<bool>, KernelError> {
        if !folder(&self.name).join(LOOK_AGAIN).exists() {
            return Ok(None);
        }
        Ok(Some(first_value(&self.map(COVERAGE)?)?.iter().any(|byte| *byte != 0)))
    }

    /// Lists the connections that use the algorithm in every namespace that can be found, with the namespaces' names.
    /// Each is an event of the kind [`EventKind::Opened`](crate::event::EventKind::Opened) with current values.
    ///
    /// # Errors
    /// Returns an error if the iterator cannot be read.
    pub fn connections(&self) -> Result<Vec<(String, EventRecord)>, KernelError> {
        let mut all = Vec::new();
        self.read_everywhere(CONNECTIONS, |namespace, bytes| {
            all.extend(bytes.chunks_exact(SIZE).filter_map(EventRecord::decode).map(|e| (namespace.to_owned(), e)));
        })?;
        all.sort_by_key(|(_, e)| e.connection);
        Ok(all)
    }

    /// Reads `iterator` in each namespace, which runs it for the connections of that namespace.
    fn read_everywhere(&self, iterator: &str, mut on_read: impl FnMut(&str, &[u8])) -> Result<(), KernelError> {
        let path = folder(&self.name).join(iterator);
        let mut outcome = Ok(());
        let visited = Namespace::visit(|name, namespace| match namespace.within(|| fs::read(&path)) {
            Ok(Ok(bytes)) => on_read(&name, &bytes),
            Ok(Err(e)) => outcome = Err(KernelError::file(format!("list the connections of {name}"))(e)),
            Err(_) => {} // The namespace ended meanwhile, and its connections with it.
        });
        visited.map_err(|e| KernelError::State(e.with_cause()))?;
        outcome
    }

    fn map(&self, name: &str) -> Result<MapHandle, KernelError> {
        let path = folder(&self.name).join(name);
        MapHandle::from_pinned_path(&path).map_err(KernelError::bpf(format!("open {}", path.display())))
    }
}

/// A loaded algorithm. Dropping it unregisters the algorithm unless its link is pinned.
#[derive(Debug)]
pub struct LoadedAlgorithm {
    /// Programs and maps.
    pub object: Object,
    /// Link that keeps the algorithm registered.
    pub link: Link,
}

impl LoadedAlgorithm {
    /// Pins the maps, and the link with `persist`, for other processes. Mounts the BPF file system if necessary.
    ///
    /// # Errors
    /// Returns an error if the file system cannot be mounted or written, or if `name` exists there.
    pub fn pin(&mut self, name: &str, persist: bool) -> Result<(), KernelError> {
        mount_bpffs()?;
        let folder = folder(name);
        if !has_root()? {
            match fs::DirBuilder::new().mode(0o755).create(ROOT) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {} // Another loader created it first.
                made => made.map_err(KernelError::file(format!("create {ROOT}")))?,
            }
            has_root()?;
        }
        // Deny other users access: a link held open would let the algorithm outlive its removal.
        fs::DirBuilder::new().mode(0o700).create(&folder).map_err(|e| {
            let there = e.kind() == ErrorKind::AlreadyExists;
            let help = if there {
                format!("; run `roughlink cc unload {name}` to remove what a killed loader left")
            } else {
                String::new()
            };
            KernelError::file(format!("create {}{help}", folder.display()))(e)
        })?;
        let pinned = self.pin_in(&folder, persist);
        if pinned.is_err() {
            remove(&folder);
        }
        pinned
    }

    fn pin_in(&mut self, folder: &Path, persist: bool) -> Result<(), KernelError> {
        for mut map in self.object.maps_mut() {
            if let Some((_, name)) = MAPS.iter().find(|(map_name, _)| map.name() == *map_name) {
                let path = folder.join(name);
                map.pin(&path).map_err(KernelError::bpf(format!("pin {}", path.display())))?;
            }
        }
        for program in self.object.progs_mut().filter(|p| ITERATORS.iter().any(|name| p.name() == *name)) {
            let path = folder.join(program.name());
            let pinned = program.attach().and_then(|mut link| link.pin(&path));
            pinned.map_err(KernelError::bpf(format!("pin {}", path.display())))?;
        }
        if persist {
            let path = folder.join(LINK);
            self.link.pin(&path).map_err(KernelError::bpf(format!("pin {}", path.display())))?;
        }
        Ok(())
    }
}

/// Removes `name` from the kernel and from the defaults of namespaces. Connections keep the algorithm until they end.
///
/// # Errors
/// Returns an error if roughlink has not loaded `name`, a process holds it, or a namespace accepts no other default.
pub fn unload(name: &str) -> Result<Unloaded, KernelError> {
    let found = Pinned::find(name);
    let pinned = match found {
        Ok(pinned) => Some(pinned),
        // After a loader ends, the kernel takes a moment to remove its algorithm.
        Err(e) if defaults::holders(name)?.is_empty() || !is_gone(name)? => return Err(e),
        Err(_) => None,
    };
    let record = pinned.as_ref().map(|p| p.record.clone()).unwrap_or_default();
    // A running loader holds the link, so the algorithm would stay registered without its folder.
    let loader = format!("/proc/{}", record.process);
    let belongs_to_loader = pinned.as_ref().is_some_and(|p| p.registered && !p.persists);
    if belongs_to_loader && record.process != std::process::id() && Path::new(&loader).exists() {
        return Err(KernelError::State(format!(
            "process {0} holds `{name}` and unloads it when it ends: press Ctrl-C there, or run `kill {0}`",
            record.process
        )));
    }
    let counters = pinned.as_ref().and_then(|p| p.counters().ok()).unwrap_or_default();
    let candidates = |place: &NamedNamespace| {
        let last_resort = ["cubic", "reno"].map(str::to_owned);
        record.restored_default(place).into_iter().chain(last_resort).collect()
    };
    // Remove the algorithm first, so that no namespace can choose it. Its record stays until all defaults are replaced.
    let _ = fs::remove_file(folder(name).join(LINK));
    let is_gone = is_gone(name)?;
    let namespaces = defaults::replace(name, candidates)?;
    remove(&folder(name));
    if is_gone {
        let connections = counters.opened.saturating_sub(counters.closed);
        return Ok(Unloaded { namespaces, connections });
    }
    Err(KernelError::State(format!("`{name}` is still in the kernel: another program holds it")))
}

/// Waits until the kernel has no algorithm `name`. Returns false if it is still there after the longest wait.
fn is_gone(name: &str) -> Result<bool, KernelError> {
    for _ in 0..TRIES {
        if !defaults::registered()?.iter().any(|n| n == name) {
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(false)
}

/// Mounts the BPF file system, writable by root only, unless it is mounted.
fn mount_bpffs() -> Result<(), KernelError> {
    if statfs(BPFFS).is_ok_and(|s| s.filesystem_type() == BPF_FS_MAGIC) {
        return Ok(());
    }
    if in_temporary_mount_namespace() {
        return Err(KernelError::State(format!(
            "{BPFFS} is not mounted in this temporary mount namespace (`ip netns exec` creates one): load the \
             algorithm outside, with --netns NAME"
        )));
    }
    let mounted = mount(Some("bpf"), BPFFS, Some("bpf"), MsFlags::empty(), Some("mode=0755"));
    mounted.map_err(|e| KernelError::file(format!("mount the BPF file system at {BPFFS}"))(e.into()))
}

/// Returns true if an ancestor of this process is in another mount namespace, so mounts made here may end early.
/// Ancestors that hide their namespace, as the first process may, are ignored.
fn in_temporary_mount_namespace() -> bool {
    let mounts_of = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let above = |process: &String| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().to_owned();
        (parent != "0").then_some(parent)
    };
    let own = mounts_of("self");
    let mut ancestors = iter::successors(above(&"self".to_owned()), above);
    ancestors.any(|process| mounts_of(&process).is_some_and(|mounts| Some(mounts) != own))
}

/// Returns true if the folder [`ROOT`] exists.
///
/// # Errors
/// Returns an error if other users than root may write to it.
fn has_root() -> Result<bool, KernelError> {
    let found = match fs::symlink_metadata(ROOT) {
        Ok(found) => found,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(KernelError::file(format!("read {ROOT}"))(e)),
    };
    match found.is_dir() && found.uid() == 0 && found.mode() & 0o022 == 0 {
        true => Ok(true),
        false => Err(KernelError::State(format!("users other than root may write to {ROOT}: remove it"))),
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

/// Removes a folder of pins, or as much of it as exists.
fn remove(folder: &Path) {
    for name in MAPS.iter().map(|m| m.1).chain(ITERATORS).chain([LINK]) {
        let _ = fs::remove_file(folder.join(name));
    }
    let _ = fs::remove_dir(folder);
}

fn read_record(name: &str) -> Option<LoadRecord> {
    let map = MapHandle::from_pinned_path(folder(name).join("what")).ok()?;
    let text = String::from_utf8(first_value(&map).ok()?).ok()?;
    toml::from_str(text.trim_end_matches('\0')).ok()
}

/// Reads the single value of a map with one variable.
fn first_value(map: &MapHandle) -> Result<Vec<u8>, KernelError> {
    let value = map.lookup(&[0; 4], MapFlags::ANY).map_err(KernelError::bpf("read a map of the program"))?;
    value.ok_or_else(|| KernelError::State("a map of the program is empty".into()))
}
