//! Loading: an algorithm with its parameters becomes a congestion control of the running kernel.

use crate::catalogue::{Entry, NAME_MAX};
use crate::check::Interface;
use crate::defaults;
use crate::error::KernelError;
use crate::parameters;
use crate::pinned::{self, Former, Pinned, What};
use libbpf_rs::{Link, MapCore as _, Object, ObjectBuilder, OpenObject, PrintLevel, set_print};
use roughlink_host::Namespace;
use std::cell::RefCell;
use toml::Table;

/// The compiled programs by name.
static PROGRAMS: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// What to load.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The algorithm.
    pub entry: &'static Entry,
    /// Its name in the kernel.
    pub name: String,
    /// Parameters over the algorithm's defaults.
    pub parameters: Table,
    /// Of the namespaces whose default it is to become, what they get back when it is unloaded.
    pub former: Former,
}

/// The longest description that a program has room for, bytes.
const DESCRIPTION: usize = 4095;
/// Where the name stands in `struct tcp_congestion_ops` of `bpf/kernel.h`.
const NAME_AT: usize = 72;

impl Wish {
    /// The algorithm `name` with its defaults, under its own name.
    ///
    /// # Errors
    /// [`KernelError::UnknownAlgorithm`].
    pub fn new(name: &str) -> Result<Self, KernelError> {
        let entry = Entry::find(name).ok_or_else(|| KernelError::UnknownAlgorithm(name.to_owned()))?;
        Ok(Wish { entry, name: entry.name_in_kernel(), parameters: Table::new(), former: Former::new() })
    }

    /// Whether it makes sense, without the kernel.
    ///
    /// # Errors
    /// The name or a parameter is wrong.
    pub fn check(&self) -> Result<(), KernelError> {
        self.open().map(drop)
    }

    /// All parameters that the program has, with their values.
    ///
    /// # Errors
    /// A parameter is wrong.
    pub fn all_parameters(&self) -> Result<Table, KernelError> {
        let open = self.read()?;
        let list = initial(&open, ".rodata.slots");
        parameters::checked(self.entry, &self.parameters, &parameters::slots(&list))
    }

    /// The program as it was compiled.
    fn read(&self) -> Result<OpenObject, KernelError> {
        let bytes = PROGRAMS.iter().find(|(name, _)| *name == self.entry.program).expect("the catalogue's test").1;
        ObjectBuilder::default()
            .name("roughlink")
            .and_then(|builder| builder.open_memory(bytes))
            .map_err(KernelError::bpf(format!("read the program `{}`", self.entry.program)))
    }

    /// The program with its parameters written, not yet in the kernel.
    pub(crate) fn open(&self) -> Result<OpenObject, KernelError> {
        check_name(&self.name)?;
        let mut open = self.read()?;
        let list = initial(&open, ".rodata.slots");
        let slots = parameters::slots(&list);
        let all = parameters::checked(self.entry, &self.parameters, &slots)?;
        let description = self.description(&all);
        for mut map in open.maps_mut() {
            let name = map.name().to_owned();
            let Some(data) = map.initial_value_mut() else { continue };
            match name.to_str() {
                Some("entry") => put_text(&mut data[NAME_AT..=NAME_AT + NAME_MAX], &self.name),
                Some(".rodata.name") => put_text(data, &self.name),
                Some(".rodata.what") => put_text(data, &description),
                Some(".rodata.parameters") => parameters::write(&all, &slots, data)?,
                _ => {}
            }
        }
        Ok(open)
    }

    /// Puts it into the kernel. It can be selected from now on, until what is returned is dropped.
    ///
    /// # Errors
    /// A parameter is wrong, the kernel refuses the program, or there is an algorithm of this name already.
    pub fn load(&self) -> Result<Loaded, KernelError> {
        self.load_into(Interface::running)
    }

    /// The same, into a kernel of which `interface` is known.
    fn load_into(&self, interface: impl FnOnce() -> Result<Interface, KernelError>) -> Result<Loaded, KernelError> {
        if defaults::registered()?.contains(&self.name) {
            let ours = Pinned::find(&self.name).is_ok();
            let remedy = if ours { format!("`roughlink cc unload {}`, or ", self.name) } else { String::new() };
            let message = format!("the kernel has a `{}` already: {remedy}another name with --as", self.name);
            return Err(KernelError::State(message));
        }
        let mut open = self.open()?;
        // The programs of the others are the same for all kernels.
        if open.progs().any(|program| program.name() == "controlled") {
            let found = interface()?;
            if !found.paces() {
                return Err(KernelError::State(format!(
                    "`{}` needs the interface of Linux 6.10 to 7.0, and here {found}",
                    self.entry.name
                )));
            }
        }
        for mut program in open.progs_mut() {
            if program.name() == "replay" {
                program.set_autoload(false);
            }
        }
        let (loaded, said) = listen(|| open.load());
        let action = format!("load `{}` into the kernel{said}", self.name);
        let mut object = loaded.map_err(KernelError::bpf(action))?;
        let mut entry = object.maps_mut().find(|m| m.name() == "entry").expect("hooks.h has it");
        let (link, said) = listen(|| entry.attach_struct_ops());
        let link = link.map_err(KernelError::bpf(format!("register `{}`{said}", self.name)))?;
        Ok(Loaded { object, link })
    }

    /// What is loaded, in TOML; a text that is too long loses what namespaces had, then the parameters.
    fn description(&self, parameters: &Table) -> String {
        let here = Namespace::here().ok().map(|namespace| (String::new(), namespace));
        let before = here.and_then(|here| pinned::chain(&here).ok()?.pop()).unwrap_or_default();
        let mut what = What {
            algorithm: self.entry.name.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            process: std::process::id(),
            before,
            former: self.former.clone(),
            parameters: parameters.clone(),
        };
        let text = |what: &What| toml::to_string(what).expect("plain values");
        if text(&what).len() > DESCRIPTION {
            what.former.clear();
        }
        if text(&what).len() > DESCRIPTION {
            what.parameters.clear();
        }
        text(&what)
    }
}

/// An algorithm that the kernel has as long as this lives.
#[derive(Debug)]
pub struct Loaded {
    /// Its programs and maps.
    pub object: Object,
    /// What keeps it registered.
    pub link: Link,
}

/// What libbpf says while `work` is done, the last words of it, to be put behind what was tried: the kernel's reasons are among them.
fn listen<T>(work: impl FnOnce() -> T) -> (T, String) {
    thread_local!(static SAID: RefCell<String> = const { RefCell::new(String::new()) });
    fn hear(_: PrintLevel, text: String) {
        SAID.with_borrow_mut(|said| said.push_str(&text));
    }
    set_print(Some((PrintLevel::Warn, hear)));
    let done = work();
    let said = SAID.take();
    let lines: Vec<&str> = said.lines().filter(|l| !l.starts_with("processed ") && !l.contains("--")).collect();
    let last = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("; ");
    (done, if last.is_empty() { last } else { format!(" ({last})") })
}

/// How many lines of a verifier's log a message has room for.
const LINES_SHOWN: usize = 4;

/// The text that a map of the program begins with.
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
        "the kernel takes letters, digits and `_`"
    } else {
        return Ok(());
    };
    Err(KernelError::Name { name: name.to_owned(), reason })
}

/// `text` with zeros behind it; the caller has made sure that it fits.
fn put_text(to: &mut [u8], text: &str) {
    to.fill(0);
    to[..text.len()].copy_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_paces_is_not_loaded_into_a_kernel_with_another_interface() {
        let other = || Ok(Interface { arguments: 2, min_tso_segs: true });
        let refused = Wish::new("wave").unwrap().load_into(other).unwrap_err().to_string();
        assert_eq!(
            refused,
            "`wave` needs the interface of Linux 6.10 to 7.0, and here cong_control has 2 arguments; min_tso_segs is there"
        );
        let asked = || -> Result<Interface, KernelError> { panic!("nothing that depends on it is loaded") };
        let wish = Wish { name: format!("u{}", std::process::id()), ..Wish::new("newreno").unwrap() };
        // Without root the kernel refuses it, after that.
        if let Err(e) = wish.load_into(asked) {
            assert!(!e.to_string().contains("interface"), "{e}");
        }
    }
}
