//! List of the algorithms for the kernel, with the program of each.

use roughlink_core::cc::{Algorithm, REGISTRY};

/// An algorithm of the registry whose arithmetic is a program in `bpf/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// Name in scenario files.
    pub name: &'static str,
    /// File in `bpf/`, without `.bpf.c`. Names that differ only in parameters share a file.
    pub program: &'static str,
}

/// All algorithms for the kernel.
pub const ENTRIES: &[CatalogueEntry] = &[
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
    entry("rough", "rough"),
];

/// Longest name that the kernel accepts, bytes (TCP_CA_NAME_MAX without the terminating zero).
pub const NAME_MAX: usize = 15;

const fn entry(name: &'static str, program: &'static str) -> CatalogueEntry {
    CatalogueEntry { name, program }
}

impl CatalogueEntry {
    /// Finds the entry for `name`.
    ///
    /// ```
    /// use roughlink_bpf::catalogue::CatalogueEntry;
    ///
    /// let entry = CatalogueEntry::find("illinois-aa").unwrap();
    /// assert_eq!((entry.program, &*entry.name_in_kernel()), ("illinois", "illinois_aa"));
    /// assert!(CatalogueEntry::find("cubic").is_none()); // Linux has its own
    /// ```
    pub fn find(name: &str) -> Option<&'static CatalogueEntry> {
        ENTRIES.iter().find(|e| e.name == name)
    }

    /// Default name in the kernel, where hyphens are not allowed.
    pub fn name_in_kernel(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Returns the algorithm in Rust, with its summary, source and parameters.
    pub fn algorithm(&self) -> &'static Algorithm {
        REGISTRY.find(self.name).expect("the tests hold the two lists together")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_names_an_algorithm_and_a_source_file() {
        for e in ENTRIES {
            assert!(REGISTRY.find(e.name).is_some(), "{}", e.name);
            assert!(e.name.len() <= NAME_MAX, "{}", e.name);
            let file = format!("{}/bpf/{}.bpf.c", env!("CARGO_MANIFEST_DIR"), e.program);
            assert!(std::path::Path::new(&file).exists(), "{file}");
        }
    }
}
