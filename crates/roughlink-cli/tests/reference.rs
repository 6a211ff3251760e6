//! Pages of docs name files and constants that exist.

use std::path::Path;

/// Returns the parts of a line between backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Tables of pages name files, and constants or tests in them.
#[test]
fn files_and_names_in_tables_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut names = 0;
    for page in ["docs/reference/limits.md", "SECURITY.md"] {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        for line in text.lines().filter(|line| line.starts_with('|')) {
            let is_file =
                |word: &&str| word.contains('/') && [".rs", ".py", ".h"].iter().any(|end| word.ends_with(end));
            let paths = quoted(line).filter(is_file);
            let source = |path: &str| {
                let file = [root.join("crates").join(path), root.join(path)].into_iter().find(|path| path.exists());
                let file = file.unwrap_or_else(|| panic!("{page} names {path}"));
                std::fs::read_to_string(file).unwrap()
            };
            let sources: Vec<String> = paths.map(source).collect();
            // Other pages also quote keys and options.
            let is_name = |word: &&str| {
                let is_test = |c: char| page == "SECURITY.md" && c.is_ascii_lowercase();
                let allowed = |c: char| c == '_' || c.is_ascii_digit() || c.is_ascii_uppercase() || is_test(c);
                word.contains('_') && word.chars().all(allowed) && !sources.is_empty()
            };
            for name in quoted(line).filter(is_name) {
                let known = sources.iter().any(|text| text.contains(name));
                assert!(known, "{page}: no file in its row has `{name}`");
                names += 1;
            }
        }
    }
    assert!(names > 100, "{names}");
}
