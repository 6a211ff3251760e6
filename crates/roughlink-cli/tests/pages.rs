//! Checks that the outputs shown on pages are current. The comment `<!-- output of: roughlink ARGUMENTS -->` before a
//! code block gives the command. A line `...` in the block stands for any lines. Files that the page defines ("Save as
//! `NAME`:") are in the command's folder.

mod common;

use common::{code, roughlink_in, stderr, stdout};
use std::fs;
use std::path::{Path, PathBuf};

/// A block of code, with the last line of text before it.
struct Block<'p> {
    before: &'p str,
    text: String,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let (mut all, mut before, mut lines) = (Vec::new(), "", page.lines());
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            let text = lines.by_ref().take_while(|l| *l != "```").map(|l| format!("{l}\n")).collect();
            all.push(Block { before, text });
            before = "";
        } else if !line.is_empty() {
            before = line;
        }
    }
    all
}

/// Returns true if `printed` contains `shown`, whose lines `...` stand for any lines.
fn contains(printed: &str, shown: &str) -> bool {
    let mut rest = printed;
    shown.split("  ...\n").all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        if entry.is_dir() {
            pages(&entry, found);
        } else if entry.extension().is_some_and(|e| e == "md") {
            found.push(entry);
        }
    }
}

#[test]
fn outputs_on_pages_are_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = vec![root.join("README.md")];
    pages(&root.join("docs"), &mut all);
    let mut checked = 0;
    for path in all {
        let page = fs::read_to_string(&path).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for Block { before, text } in blocks(&page) {
            if let Some(name) = before.strip_prefix("Save as `").and_then(|b| b.strip_suffix("`:")) {
                fs::write(folder.path().join(name), text).unwrap();
            } else if let Some(command) = before.strip_prefix("<!-- output of: roughlink ") {
                let arguments = command.strip_suffix(" -->").expect("the comment ends on its line");
                let out = roughlink_in(&arguments.split(' ').collect::<Vec<_>>(), folder.path());
                assert_eq!(code(&out), 0, "{}: {}", path.display(), stderr(&out));
                let printed = stdout(&out);
                assert!(contains(&printed, &text), "{} shows\n{text}\nand {command} prints\n{printed}", path.display());
                checked += 1;
            }
        }
    }
    assert!(checked >= 2, "{checked}");
}

#[test]
fn changed_output_is_detected() {
    assert!(contains("a\nb\nc\nd\n", "b\n  ...\nd\n") && contains("a\nb\n", "a\nb\n"));
    assert!(!contains("a\nb\nc\n", "c\n  ...\na\n") && !contains("a\nb\n", "a\nc\n"));
}
