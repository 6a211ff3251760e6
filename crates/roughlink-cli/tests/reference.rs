//! The generated pages of docs/reference are current.

mod common;

use common::{code, roughlink, stderr, stdout};
use std::path::Path;

#[test]
fn the_reference_is_current() {
    let made = tempfile::tempdir().unwrap();
    let output = roughlink(&["reference", made.path().to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let mut pages = 0;
    for entry in std::fs::read_dir(made.path()).unwrap() {
        let name = entry.unwrap().file_name();
        let page = |folder: &Path| std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
        let (new, old) = (page(made.path()), page(&docs));
        assert!(new.lines().count() > 20, "{name:?} is empty");
        assert!(new == old, "docs/reference/{} is out of date: run `make docs`", name.display());
        pages += 1;
    }
    assert_eq!(pages, 5);
}
