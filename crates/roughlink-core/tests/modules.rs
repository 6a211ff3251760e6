//! Modules depend on one another only in the order given in docs/architecture.md.

#![expect(clippy::disallowed_methods, reason = "the test reads the sources of all crates")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the order on the page, from the first module, which uses no other, to the last.
fn order() -> Vec<String> {
    let page = include_str!("../../../docs/architecture.md");
    let list = page.split("```").find(|block| block.trim_start().starts_with("units, "));
    list.expect("the page has the order of modules").split(',').map(|module| module.trim().to_owned()).collect()
}

const TEST_ONLY: &[&str] = &["channel.rs", "tcp/dialogue.rs"];

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of sources").map(|entry| entry.expect("readable").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Returns the modules of the crate that a text names outside comments and tests.
fn uses(text: &str) -> BTreeSet<&str> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let named = lines.flat_map(|line| line.split("crate::").skip(1));
    named.filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()).collect()
}

#[test]
fn modules_depend_only_on_earlier_ones() {
    let order = order();
    let place = |module: &str| order.iter().position(|m| m == module);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = BTreeSet::new();
    for file in files(&sources) {
        let name = file.strip_prefix(&sources).expect("it lies there").to_str().expect("a plain name").to_owned();
        let module = name.split(['/', '.']).next().expect("a name");
        if module == "lib" || name.contains("tests") || TEST_ONLY.contains(&&*name) {
            continue;
        }
        let here = place(module).unwrap_or_else(|| panic!("docs/architecture.md does not place `{module}`"));
        seen.insert(module.to_owned());
        let text = fs::read_to_string(&file).expect("readable");
        assert!(!text.contains("crate::{"), "{name}: one use for each module");
        for used in uses(&text).into_iter().filter(|used| *used != module) {
            assert!(
                place(used).is_some_and(|there| there < here),
                "{name} uses `{used}`, which comes after `{module}`"
            );
        }
    }
    assert_eq!(seen.len(), order.len(), "docs/architecture.md places modules that there are not");
}

#[test]
fn uses_of_modules_are_found() {
    let text = "use crate::net::Network;\n// crate::app\nfn f(x: &crate::metrics::RunResult) {}\n\
                #[cfg(test)]\nmod tests { use crate::cc; }";
    assert_eq!(uses(text).into_iter().collect::<Vec<_>>(), ["metrics", "net"]);
}
