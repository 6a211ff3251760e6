//! Which algorithms there are for the kernel, and which program each one is.

use roughlink_core::cc::{Algorithm, REGISTRY};

/// An algorithm of the registry whose arithmetic is a program in `bpf/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in scenario files.
    pub name: &'static str,
    /// The file in `bpf/`, without `.bpf.c`: names that differ in parameters only share one.
    pub program: &'static str,
}

/// All of them.
pub const ENTRIES: &[Entry] = &[
    entry("newreno", "newreno"),
    entry("newreno-sc", "newreno"),
    entry("illinois", "illinois"),
    entry("illinois-aa", "illinois"),
    entry("hybla", "hybla"),
    entry("scalable", "scalable"),
    entry("highspeed", "highspeed"),
    entry("bic", "bic"),
    entry("wave", "wave"),
    entry("avoca", "avoca"),
    entry("westwood", "westwood"),
    entry("veno", "veno"),
    entry("vegas", "vegas"),
    entry("htcp", "htcp"),
    entry("yeah", "yeah"),
];

/// The longest name that the kernel takes, bytes (TCP_CA_NAME_MAX less the zero).
pub const NAME_MAX: usize = 15;

const fn entry(name: &'static str, program: &'static str) -> Entry {
    Entry { name, program }
}

impl Entry {
    /// The entry for `name`.
    pub fn find(name: &str) -> Option<&'static Entry> {
        ENTRIES.iter().find(|e| e.name == name)
    }

    /// Its name in the kernel, unless another is asked for: the kernel takes no hyphens.
    pub fn name_in_kernel(&self) -> String {
        self.name.replace('-', "_")
    }

    /// The algorithm in Rust: summary, source, parameters.
    pub fn algorithm(&self) -> &'static Algorithm {
        REGISTRY.find(self.name).expect("the tests hold the two lists together")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_an_algorithm_and_a_file() {
        for e in ENTRIES {
            assert!(REGISTRY.find(e.name).is_some(), "{}", e.name);
            assert!(e.name.len() <= NAME_MAX, "{}", e.name);
            let file = format!("{}/bpf/{}.bpf.c", env!("CARGO_MANIFEST_DIR"), e.program);
            assert!(std::path::Path::new(&file).exists(), "{file}");
        }
    }
}
