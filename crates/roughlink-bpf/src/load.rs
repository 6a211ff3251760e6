//! Loading: makes an algorithm with its parameters a congestion control of the running kernel.

use crate::catalogue::{CatalogueEntry, NAME_MAX};
use crate::defaults;
use crate::error::KernelError;
use crate::interface::CongestionOps;
use crate::parameters;
use crate::pinned::{self, LoadRecord, LoadedAlgorithm, Pinned, PreviousDefaults};
use libbpf_rs::{MapCore as _, ObjectBuilder, OpenObject, PrintLevel, set_print};
use roughlink_host::Namespace;
use std::cell::RefCell;
use toml::Table;

static PROGRAMS: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// An algorithm to load: its name in the kernel and its parameters.
#[derive(Clone, Debug)]
pub struct LoadRequest {
    /// The algorithm.
    pub entry: &'static CatalogueEntry,
    /// Name in the kernel.
    pub name: String,
    /// Parameters that differ from the algorithm's defaults.
    pub parameters: Table,
    /// Defaults that namespaces get back when the algorithm is unloaded.
    pub previous_defaults: PreviousDefaults,
}

/// Longest load record that fits into a program, bytes.
const RECORD_MAX: usize = 4095;
/// Offset of the name in `struct tcp_congestion_ops` of `bpf/kernel.h`, bytes.
const NAME_AT: usize = 72;

impl LoadRequest {
    /// Creates a request for the algorithm `name` with its default parameters.
    ///
    /// # Errors
    /// Returns [`KernelError::UnknownAlgorithm`] if no program exists for `name`.
    pub fn new(name: &str) -> Result<Self, KernelError> {
        let entry = CatalogueEntry::find(name).ok_or_else(|| KernelError::UnknownAlgorithm(name.to_owned()))?;
        Ok(LoadRequest {
            entry,
            name: entry.name_in_kernel(),
            parameters: Table::new(),
            previous_defaults: PreviousDefaults::new(),
        })
    }

    /// Checks the name and the parameters without loading anything.
    ///
    /// # Errors
    /// Returns an error if the name or a parameter is invalid.
    pub fn check(&self) -> Result<(), KernelError> {
        self.open().map(drop)
    }

    /// Returns all parameters of the program with their values.
    ///
    /// # Errors
    /// Returns an error if a parameter is invalid.
    pub fn all_parameters(&self) -> Result<Table, KernelError> {
        let open = self.read()?;
        let list = initial(&open, ".rodata.slots");
        parameters::checked(self.entry, &self.parameters, &parameters::slots(&list))
    }

    /// Opens the compiled program.
    fn read(&self) -> Result<OpenObject, KernelError> {
        let bytes = PROGRAMS.iter().find(|(name, _)| *name == self.entry.program).expect("the catalogue's test").1;
        ObjectBuilder::default()
            .name("roughlink")
            .and_then(|builder| builder.open_memory(bytes))
            .map_err(KernelError::bpf(format!("read the program `{}`", self.entry.program)))
    }

    /// Opens the program and writes its parameters, without loading it.
    pub(crate) fn open(&self) -> Result<OpenObject, KernelError> {
        check_name(&self.name)?;
        let mut open = self.read()?;
        let list = initial(&open, ".rodata.slots");
        let slots = parameters::slots(&list);
        let all = parameters::checked(self.entry, &self.parameters, &slots)?;
        let record = self.record(&all);
        for mut map in open.maps_mut() {
            let name = map.name().to_owned();
            let Some(data) = map.initial_value_mut() else { continue };
            match name.to_str() {
                Some("entry") => put_text(&mut data[NAME_AT..=NAME_AT + NAME_MAX], &self.name),
                Some(".rodata.name") => put_text(data, &self.name),
                Some(".rodata.what") => put_text(data, &record),
                Some(".rodata.parameters") => parameters::write(&all, &slots, data)?,
                _ => {}
            }
        }
        Ok(open)
    }

    /// Loads the algorithm into the kernel, where sockets can select it until the result is dropped.
    ///
    /// # Errors
    /// Returns an error if a parameter is invalid, the kernel rejects the program, or the name is taken.
    pub fn load(&self) -> Result<LoadedAlgorithm, KernelError> {
        self.load_into(CongestionOps::running)
    }

    fn load_into(
        &self,
        interface: impl FnOnce() -> Result<CongestionOps, KernelError>,
    ) -> Result<LoadedAlgorithm, KernelError> {
        if defaults::registered()?.contains(&self.name) {
            let ours = Pinned::find(&self.name).is_ok();
            let remedy = if ours { format!("run `roughlink cc unload {}`, or ", self.name) } else { String::new() };
            let message = format!("the kernel already has `{}`: {remedy}choose another name with --as", self.name);
            return Err(KernelError::State(message));
        }
        let mut open = self.open()?;
        // Programs without pacing run on all kernels.
        if open.progs().any(|program| program.name() == "controlled") {
            let found = interface()?;
            if !found.paces() {
                return Err(KernelError::State(format!(
                    "`{}` needs the interface of Linux 6.10 to 7.0: in this kernel {found}",
                    self.entry.name
                )));
            }
        }
        for mut program in open.progs_mut() {
            if program.name() == "replay" {
                program.set_autoload(false);
            }
        }
        let (loaded, log) = capture_log(|| open.load());
        let action = format!("load `{}` into the kernel{log}", self.name);
        let mut object = loaded.map_err(KernelError::bpf(action))?;
        let mut entry = object.maps_mut().find(|m| m.name() == "entry").expect("hooks.h has it");
        let (link, log) = capture_log(|| entry.attach_struct_ops());
        let link = link.map_err(KernelError::bpf(format!("register `{}`{log}", self.name)))?;
        Ok(LoadedAlgorithm { object, link })
    }

    /// Load record in TOML. If it is too long, previous defaults are left out first, then parameters.
    fn record(&self, parameters: &Table) -> String {
        let here = Namespace::here().ok().map(|namespace| (String::new(), namespace));
        let before = here.and_then(|here| pinned::chain(&here).ok()?.pop()).unwrap_or_default();
        let mut record = LoadRecord {
            algorithm: self.entry.name.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            process: std::process::id(),
            before,
            previous_defaults: self.previous_defaults.clone(),
            parameters: parameters.clone(),
        };
        let text = |record: &LoadRecord| toml::to_string(record).expect("plain values");
        if text(&record).len() > RECORD_MAX {
            record.previous_defaults.clear();
        }
        if text(&record).len() > RECORD_MAX {
            record.parameters.clear();
        }
        text(&record)
    }
}

/// Runs `work` and returns the last log lines of libbpf in parentheses, among them the verifier's reasons.
fn capture_log<T>(work: impl FnOnce() -> T) -> (T, String) {
    thread_local!(static LOG: RefCell<String> = const { RefCell::new(String::new()) });
    fn append(_: PrintLevel, text: String) {
        LOG.with_borrow_mut(|log| log.push_str(&text));
    }
    set_print(Some((PrintLevel::Warn, append)));
    let done = work();
    let log = LOG.take();
    let lines: Vec<&str> = log.lines().filter(|l| !l.starts_with("processed ") && !l.contains("--")).collect();
    let last = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("; ");
    (done, if last.is_empty() { last } else { format!(" ({last})") })
}

const LINES_SHOWN: usize = 4;

/// Returns the initial text of a map of the program.
fn initial(open: &OpenObject, map: &str) -> String {
    let value = open.maps().find(|m| m.name() == map).and_then(|m| m.initial_value().map(<[u8]>::to_vec));
    let text = String::from_utf8(value.unwrap_or_default()).expect("algorithm.h has ASCII only");
    text.trim_end_matches('\0').to_owned()
}

fn check_name(name: &str) -> Result<(), KernelError> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.len() > NAME_MAX {
        "it is longer than 15 characters"
    } else if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        "only letters, digits and `_` are allowed"
    } else {
        return Ok(());
    };
    Err(KernelError::Name { name: name.to_owned(), reason })
}

/// Writes `text`, which must fit, padded with zeros.
fn put_text(to: &mut [u8], text: &str) {
    to.fill(0);
    to[..text.len()].copy_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pacing_programs_need_their_kernel_interface() {
        let other = || Ok(CongestionOps { arguments: 2, min_tso_segs: true });
        let refused = LoadRequest::new("wave").unwrap().load_into(other).unwrap_err().to_string();
        assert_eq!(
            refused,
            "`wave` needs the interface of Linux 6.10 to 7.0: in this kernel cong_control has 2 arguments and \
             min_tso_segs exists"
        );
        let unused = || -> Result<CongestionOps, KernelError> { panic!("NewReno does not depend on the interface") };
        let request = LoadRequest { name: format!("u{}", std::process::id()), ..LoadRequest::new("newreno").unwrap() };
        // Without root, loading fails later, in the kernel.
        if let Err(e) = request.load_into(unused) {
            assert!(!e.to_string().contains("interface"), "{e}");
        }
    }
}
