//! What is loaded, found by what it has in the BPF file system: a folder per algorithm with the maps that others may read, and
//! the link, if the algorithm is to outlive its loader.

use crate::defaults::{self, Place};
use crate::error::KernelError;
use crate::event::{Event, SIZE};
use crate::load::Loaded;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, RingBufferBuilder};
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

/// The BPF file system, where systemd mounts it.
const BPFFS: &str = "/sys/fs/bpf";
/// The folder of what roughlink has loaded.
pub const ROOT: &str = "/sys/fs/bpf/roughlink";
/// The maps of a program that are pinned, and under what names.
const MAPS: [(&str, &str); 5] = [
    (".rodata.what", "what"),
    (".data.counters", "counters"),
    (".data.recording", "recording"),
    ("ring", "ring"),
    (".data.coverage", COVERAGE),
];
const LINK: &str = "link";
/// The iterator over its connections.
const CONNECTIONS: &str = "connections";
/// The map, and the iterator, of an algorithm that is told of coverage.
const COVERAGE: &str = "coverage";
const LOOK_AGAIN: &str = "look_again";
const ITERATORS: [&str; 2] = [CONNECTIONS, LOOK_AGAIN];
/// How often, 10 ms apart, the kernel is asked whether an algorithm has gone.
const TRIES: u32 = 300;

/// An algorithm that roughlink has loaded.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// Its name in the kernel.
    pub name: String,
    /// What its loader wrote down.
    pub what: What,
    /// It stays when its loader ends.
    pub persists: bool,
    /// The kernel has it; else its loader was killed, and this is what is left.
    pub registered: bool,
}

/// What a loader writes down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct What {
    /// The algorithm.
    pub algorithm: String,
    /// The version of roughlink.
    pub version: String,
    /// Its process.
    pub process: u32,
    /// The default of the loader's namespace before.
    pub before: String,
    /// What the namespaces had whose default it was made.
    pub former: Former,
    /// All parameters that the program has.
    pub parameters: toml::Table,
}

/// The defaults that namespaces had, by their numbers: the last first, behind it what that had replaced if roughlink had loaded it.
pub type Former = BTreeMap<String, Vec<String>>;

/// What these namespaces have as their default now.
///
/// # Errors
/// One cannot be joined.
pub fn former(places: &[Place]) -> Result<Former, KernelError> {
    places.iter().map(|place| Ok((number(place)?, chain(place)?))).collect()
}

/// The default of a namespace, and behind it what that replaced there.
pub(crate) fn chain(place: &Place) -> Result<Vec<String>, KernelError> {
    let now = defaults::default_of(place)?;
    let what = Pinned::find(&now).map(|p| p.what);
    let mut chain = vec![now];
    chain.extend(what.iter().flat_map(|what| what.instead(place)).filter(|name| !name.is_empty()));
    Ok(chain)
}

fn number(place: &Place) -> Result<String, KernelError> {
    place.1.inode().map(|inode| inode.to_string()).map_err(|e| KernelError::State(e.whole()))
}

impl What {
    /// What a namespace gets whose default it was: what that had, or the loader's own.
    fn instead(&self, place: &Place) -> Vec<String> {
        let recorded = number(place).ok().and_then(|number| self.former.get(&number));
        recorded.into_iter().flatten().chain([&self.before]).cloned().collect()
    }
}

/// What a program counts, of all connections since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Connections that began with the algorithm or were given it.
    pub opened: u64,
    /// Those of them that ended, or were given another.
    pub closed: u64,
    /// Episodes: losses, time-outs and marks that reduced the window.
    pub congestions: u64,
    /// Time-outs.
    pub timeouts: u64,
    /// Episodes that were spurious and undone.
    pub undone: u64,
    /// Records for which there was no room.
    pub not_recorded: u64,
    /// Of `congestions`, those that the kernel began without asking the program, which made up for it at the next acknowledgement.
    pub not_asked: u64,
}

/// What `unload` did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unloaded {
    /// Words for the namespaces that were given another default, and which.
    pub namespaces: Vec<(String, String)>,
    /// Connections that go on with it until they end.
    pub connections: u64,
}

impl Pinned {
    /// All of them, by name.
    ///
    /// # Errors
    /// /proc or the folder cannot be read.
    pub fn all() -> Result<Vec<Self>, KernelError> {
        let registered = defaults::registered()?;
        if !has_root()? {
            return Ok(Vec::new());
        }
        let entries = fs::read_dir(ROOT).map_err(KernelError::file(format!("read {ROOT}")))?;
        let mut names: Vec<String> = entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        let read = |name: String| Pinned {
            what: read_what(&name).unwrap_or_default(),
            persists: folder(&name).join(LINK).exists(),
            registered: registered.contains(&name),
            name,
        };
        Ok(names.into_iter().map(read).collect())
    }

    /// That of this name.
    ///
    /// # Errors
    /// There is none, or as [`Pinned::all`].
    pub fn find(name: &str) -> Result<Self, KernelError> {
        let mut all = Self::all()?;
        match all.iter().position(|p| p.name == name) {
            Some(at) => Ok(all.swap_remove(at)),
            None => {
                Err(KernelError::NotLoaded { name: name.to_owned(), loaded: all.into_iter().map(|p| p.name).collect() })
            }
        }
    }

    /// What it has counted.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn counters(&self) -> Result<Counters, KernelError> {
        let bytes = first_value(&self.map("counters")?)?;
        let mut numbers = bytes.chunks_exact(8).map(|c| u64::from_ne_bytes(c.try_into().expect("eight bytes")));
        let mut next = || numbers.next().unwrap_or(0);
        Ok(Counters {
            opened: next(),
            closed: next(),
            congestions: next(),
            timeouts: next(),
            undone: next(),
            not_recorded: next(),
            not_asked: next(),
        })
    }

    /// Has events recorded and passes them on until `on_events`, which is called at least every 100 ms, returns false.
    /// `acknowledgements` too, or only what is rarer.
    ///
    /// # Errors
    /// A map cannot be read or written, or the algorithm is unloaded meanwhile.
    pub fn follow(
        &self,
        acknowledgements: bool,
        mut on_events: impl FnMut(&[Event]) -> bool,
    ) -> Result<(), KernelError> {
        let (ring, recording) = (self.map("ring")?, self.map("recording")?);
        let events = std::cell::RefCell::new(Vec::new());
        let mut builder = RingBufferBuilder::new();
        let take = |bytes: &[u8]| {
            events.borrow_mut().extend(Event::decode(bytes));
            0
        };
        builder.add(&ring, take).map_err(KernelError::bpf("read the ring of events"))?;
        let ring = builder.build().map_err(KernelError::bpf("read the ring of events"))?;
        let record = |level: u32| {
            let written = recording.update(&[0; 4], &level.to_ne_bytes(), MapFlags::ANY);
            written.map_err(KernelError::bpf("turn recording on or off"))
        };
        let there = || fs::metadata(folder(&self.name).join("ring")).map(|m| m.ino()).ok();
        let found = there();
        record(if acknowledgements { 2 } else { 1 })?;
        loop {
            let polled = ring.poll(Duration::from_millis(100));
            let go_on = on_events(&events.take());
            match polled {
                Err(e) if e.kind() != libbpf_rs::ErrorKind::Interrupted => {
                    record(0)?;
                    return Err(KernelError::bpf("wait for events")(e));
                }
                _ if go_on && there() != found => {
                    return Err(KernelError::State(format!("`{}` was unloaded", self.name)));
                }
                _ if go_on => {}
                _ => return record(0),
            }
        }
    }

    /// Tells an algorithm that listens to it whether there is coverage, and has every connection of every namespace look at once.
    ///
    /// # Errors
    /// The algorithm does not listen, or a file of it cannot be read or written.
    pub fn set_coverage(&self, there: bool) -> Result<(), KernelError> {
        if !self.registered {
            return Err(KernelError::State(format!(
                "`{}` is not in the kernel any more: its loader was killed",
                self.name
            )));
        }
        if !folder(&self.name).join(LOOK_AGAIN).exists() {
            return Err(KernelError::State(format!("`{}` does not listen to coverage; `avoca` does", self.name)));
        }
        if self.coverage()? == Some(there) {
            return Ok(()); // else connections would start afresh once more
        }
        let written = self.map(COVERAGE)?.update(&[0; 4], &u32::from(there).to_ne_bytes(), MapFlags::ANY);
        written.map_err(KernelError::bpf("write down the coverage"))?;
        // Connections that could not be told look at their next acknowledgement.
        self.read_everywhere(LOOK_AGAIN, |_, _| ())
    }

    /// Whether there is coverage, of an algorithm that listens to it.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn coverage(&self) -> Result<Option<bool>, KernelError> {
        if !folder(&self.name).join(LOOK_AGAIN).exists() {
            return Ok(None);
        }
        Ok(Some(first_value(&self.map(COVERAGE)?)?.iter().any(|byte| *byte != 0)))
    }

    /// The connections that have it, as events of the kind [`Kind::Opened`](crate::event::Kind::Opened) with what they have now, of every namespace that can be
    /// found, with words for the namespace.
    ///
    /// # Errors
    /// The iterator cannot be read.
    pub fn connections(&self) -> Result<Vec<(String, Event)>, KernelError> {
        let mut all = Vec::new();
        self.read_everywhere(CONNECTIONS, |words, bytes| {
            all.extend(bytes.chunks_exact(SIZE).filter_map(Event::decode).map(|e| (words.to_owned(), e)));
        })?;
        all.sort_by_key(|(_, e)| e.connection);
        Ok(all)
    }

    /// Reads one of the iterators in each namespace, which runs it for that namespace's connections.
    fn read_everywhere(&self, iterator: &str, mut on_read: impl FnMut(&str, &[u8])) -> Result<(), KernelError> {
        let path = folder(&self.name).join(iterator);
        let mut outcome = Ok(());
        let visited = Namespace::visit(|words, namespace| match namespace.within(|| fs::read(&path)) {
            Ok(Ok(bytes)) => on_read(&words, &bytes),
            Ok(Err(e)) => outcome = Err(KernelError::file(format!("look at the connections of {words}"))(e)),
            Err(_) => {} // it has gone since, with its connections
        });
        visited.map_err(|e| KernelError::State(e.whole()))?;
        outcome
    }

    fn map(&self, name: &str) -> Result<MapHandle, KernelError> {
        let path = folder(&self.name).join(name);
        MapHandle::from_pinned_path(&path).map_err(KernelError::bpf(format!("open {}", path.display())))
    }
}

impl Loaded {
    /// Lets others find it: its maps appear in the BPF file system, which is mounted if it is not, and if it is to persist,
    /// its link too.
    ///
    /// # Errors
    /// The file system cannot be mounted or written, or there is something of this name.
    pub fn pin(&mut self, name: &str, persist: bool) -> Result<(), KernelError> {
        mount_bpffs()?;
        let folder = folder(name);
        if !has_root()? {
            match fs::DirBuilder::new().mode(0o755).create(ROOT) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {} // another loader, just now
                made => made.map_err(KernelError::file(format!("make {ROOT}")))?,
            }
            has_root()?;
        }
        fs::create_dir(&folder).map_err(|e| {
            let there = e.kind() == ErrorKind::AlreadyExists;
            let help = if there {
                format!("; `roughlink cc unload {name}` removes what a killed loader left")
            } else {
                String::new()
            };
            KernelError::file(format!("make {}{help}", folder.display()))(e)
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

/// Removes `name` from the kernel: namespaces whose default it is get another first. Connections keep it until they end.
///
/// # Errors
/// roughlink has loaded no such algorithm, a process still holds it, or a namespace took no other default.
pub fn unload(name: &str) -> Result<Unloaded, KernelError> {
    let found = Pinned::find(name);
    let pinned = match found {
        Ok(pinned) => Some(pinned),
        // The kernel takes a moment to forget what a loader had that has just ended.
        Err(e) if defaults::holders(name)?.is_empty() || !is_gone(name)? => return Err(e),
        Err(_) => None,
    };
    let what = pinned.as_ref().map(|p| p.what.clone()).unwrap_or_default();
    // A loader that is still there would be left with half of it.
    let loader = format!("/proc/{}", what.process);
    let is_its = pinned.as_ref().is_some_and(|p| p.registered && !p.persists);
    if is_its && what.process != std::process::id() && Path::new(&loader).exists() {
        return Err(KernelError::State(format!(
            "`{name}` is held by process {}, which takes it out when it ends: Ctrl-C there, or kill {}",
            what.process, what.process
        )));
    }
    let counters = pinned.as_ref().and_then(|p| p.counters().ok()).unwrap_or_default();
    let instead = |place: &Place| {
        let last = ["cubic", "reno"].map(str::to_owned);
        what.instead(place).into_iter().chain(last).collect()
    };
    let mut namespaces = defaults::replace(name, instead)?;
    remove(&folder(name));
    if is_gone(name)? {
        // Who asked in between.
        namespaces.extend(defaults::replace(name, instead)?);
        let connections = counters.opened.saturating_sub(counters.closed);
        return Ok(Unloaded { namespaces, connections });
    }
    Err(KernelError::State(format!("`{name}` is no namespace's default any more, but another program still holds it")))
}

/// Waits until the kernel has no algorithm of this name; false if it keeps it.
fn is_gone(name: &str) -> Result<bool, KernelError> {
    for _ in 0..TRIES {
        if !defaults::registered()?.iter().any(|n| n == name) {
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(false)
}

/// Mounts the BPF file system unless it is there, so that nobody but root makes anything in it.
fn mount_bpffs() -> Result<(), KernelError> {
    if statfs(BPFFS).is_ok_and(|s| s.filesystem_type() == BPF_FS_MAGIC) {
        return Ok(());
    }
    if is_apart() {
        return Err(KernelError::State(format!(
            "{BPFFS} is not mounted in this mount namespace, which ends with its processes (`ip netns exec` makes one): \
             load it outside, with --netns NAME"
        )));
    }
    let mounted = mount(Some("bpf"), BPFFS, Some("bpf"), MsFlags::empty(), Some("mode=0755"));
    mounted.map_err(|e| KernelError::file(format!("mount the BPF file system at {BPFFS}"))(e.into()))
}

/// Whether a process above this one is in another mount namespace, so that this one's mounts end before it does. Those that
/// hide theirs, as the first process may, do not count.
fn is_apart() -> bool {
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

/// Whether the folder of what roughlink has loaded is there; it has to be root's.
fn has_root() -> Result<bool, KernelError> {
    let found = match fs::symlink_metadata(ROOT) {
        Ok(found) => found,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(KernelError::file(format!("look at {ROOT}"))(e)),
    };
    match found.is_dir() && found.uid() == 0 && found.mode() & 0o022 == 0 {
        true => Ok(true),
        false => {
            Err(KernelError::State(format!("{ROOT} is not a folder of root's alone, and is not trusted: remove it")))
        }
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

/// Removes a folder of pins, as far as it is there.
fn remove(folder: &Path) {
    for name in MAPS.iter().map(|m| m.1).chain(ITERATORS).chain([LINK]) {
        let _ = fs::remove_file(folder.join(name));
    }
    let _ = fs::remove_dir(folder);
}

fn read_what(name: &str) -> Option<What> {
    let map = MapHandle::from_pinned_path(folder(name).join("what")).ok()?;
    let text = String::from_utf8(first_value(&map).ok()?).ok()?;
    toml::from_str(text.trim_end_matches('\0')).ok()
}

/// The only value of a map of one variable.
fn first_value(map: &MapHandle) -> Result<Vec<u8>, KernelError> {
    let value = map.lookup(&[0; 4], MapFlags::ANY).map_err(KernelError::bpf("read a map"))?;
    value.ok_or_else(|| KernelError::State("a map of the program is empty".into()))
}
