//! Files depend on one another in one direction. Modules of core keep the order given in docs/architecture.md.

#![expect(clippy::disallowed_methods, reason = "the test reads the sources of all crates")]

#[path = "common/sources.rs"]
mod sources;

use sources::{Crate, Uses};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns the folder of all crates: those of another tree if `TREE` names one.
fn crates() -> PathBuf {
    let tree = std::env::var_os("TREE").map_or(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), PathBuf::from);
    tree.join("crates")
}

/// Returns the order on the page, from the first module, which uses no other, to the last.
fn order() -> Vec<String> {
    let page = include_str!("../../../docs/architecture.md");
    let list = page.split("```").find(|block| block.trim_start().starts_with("units, "));
    list.expect("the page has the order of modules").split(',').map(|module| module.trim().to_owned()).collect()
}

#[test]
fn modules_depend_only_on_earlier_ones() {
    let order = order();
    let place = |module: &str| order.iter().position(|m| m == module);
    let core = Crate::read(&crates().join("roughlink-core"));
    let top = |file: &str| file.split(['/', '.']).next().expect("a name").to_owned();
    let mut seen = BTreeSet::new();
    for (name, uses) in core.files.iter().filter(|(name, _)| *name != "lib.rs") {
        let module = top(name);
        let here = place(&module).unwrap_or_else(|| panic!("docs/architecture.md does not place `{module}`"));
        for used in uses.iter().map(|used| top(used)).filter(|used| *used != module) {
            let earlier = place(&used).is_some_and(|there| there < here);
            assert!(earlier, "{name} uses `{used}`, which comes after `{module}`");
        }
        seen.insert(module);
    }
    assert_eq!(seen.len(), order.len(), "docs/architecture.md places modules that there are not");
}

/// `validation/structure.py` reads the lines that this test prints.
#[test]
fn no_files_depend_on_one_another_in_a_circle() {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> =
        crates().read_dir().expect("the folder of all crates").map(|entry| entry.expect("readable").path()).collect();
    folders.sort();
    for folder in folders {
        let name = folder.file_name().expect("a folder").to_string_lossy().into_owned();
        let circles = Crate::read(&folder).files_in_circles();
        println!("circles in {name}: {}", circles.len());
        if !circles.is_empty() {
            found.push(format!("{name} has {} files in circles:\n{}", circles.len(), listed(&circles)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Returns a line for each file: those that it uses.
fn listed(circles: &Uses) -> String {
    let line = |(file, uses): (&String, &BTreeSet<String>)| {
        format!("  {file} uses {}\n", uses.iter().map(|used| &**used).collect::<Vec<_>>().join(", "))
    };
    circles.iter().map(line).collect()
}

/// Writes files of a crate, and returns it.
fn sample(name: &str, files: &[(&str, &str)]) -> Crate {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    for (file, text) in files {
        let path = folder.join("src").join(file);
        std::fs::create_dir_all(path.parent().expect("it has a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    Crate::read(&folder)
}

#[test]
fn uses_are_found_in_all_forms() {
    let lib = "#[cfg(test)]\nmod tests;\n#[cfg(test)] mod only;\n
        mod a; mod b; mod c; mod d; mod e; mod f; mod g; mod h; mod i; mod user;
        pub mod inline { pub fn here() { super::a::f() } }
        #[cfg(not(unix))] #[path = \"other.rs\"] mod c;";
    let user = "#[cfg(test)]\nmod tests;\n
        use crate::{a::{self as first, X}, b::Y};   // crate::h::Z
        use super::{self::user::child, c::*};
        mod child;
        mod within { use super::super::d::D; fn text() -> &'static str { \"crate::h::Z {\" } }
        fn inline(x: crate::e::E) { assert_eq!(vec![crate::f::f(); 3], child::deep::f(\"{\")); }
        #[cfg(all(test, unix))]
        fn only() -> crate::h::Z { if true { crate::h::f() } else { todo!() } }
        impl X { #[cfg(test)] fn z(&self) -> crate::h::Z { todo!() } fn i(&self) -> crate::i::I { todo!() } }
        #[cfg(test)]
        mod more { use crate::h::Z; }
        fn after() { use crate::g; g::f() }";
    let mut files = vec![("lib.rs", lib), ("user.rs", user), ("user/child.rs", "pub mod deep;")];
    files.extend([
        ("tests.rs", "use crate::h::H;"),
        ("only.rs", "use crate::h::H;"),
        ("user/tests.rs", "use crate::h::H;"),
    ]);
    files.extend([("user/child/deep.rs", "use super::super::X;"), ("other.rs", "use crate::a::A;")]);
    let empty = ["a.rs", "b.rs", "c.rs", "d.rs", "e.rs", "f.rs", "g.rs", "h.rs", "i.rs"];
    files.extend(empty.map(|name| (name, "")));
    let found = sample("forms", &files);
    let uses = |file: &str| found.files[file].iter().map(|used| &**used).collect::<Vec<_>>();
    assert_eq!(uses("user.rs"), ["a.rs", "b.rs", "c.rs", "d.rs", "e.rs", "f.rs", "g.rs", "i.rs", "user/child/deep.rs"]);
    assert_eq!(
        (uses("lib.rs"), uses("user/child/deep.rs"), uses("other.rs")),
        (vec!["a.rs"], vec!["user.rs"], vec!["a.rs"])
    );
    assert_eq!(found.files.len(), 4 + empty.len() + 1, "files of tests are left out");
}

#[test]
fn circles_are_found() {
    let lib = "mod a; mod b; mod c; mod d;";
    let files = [
        ("lib.rs", lib),
        ("a.rs", "use crate::b::B; mod e;"),
        ("b.rs", "use crate::c::C;"),
        ("a/e.rs", "use super::A;"),
    ];
    let circle = [&files[..], &[("c.rs", "use crate::a::A;"), ("d.rs", "use crate::a::A;")]].concat();
    let found = sample("circle", &circle).files_in_circles();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["a.rs", "b.rs", "c.rs"]);
    assert_eq!(found["a.rs"].iter().collect::<Vec<_>>(), ["b.rs"]);
    let line = [&files[..], &[("c.rs", "use crate::d::D;"), ("d.rs", "")]].concat();
    assert!(sample("line", &line).files_in_circles().is_empty());
}
