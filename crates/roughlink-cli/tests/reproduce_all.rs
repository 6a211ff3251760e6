//! `reproduce all`: every paper has a report, and one page links to all reports.

mod common;

use common::{code, roughlink, stderr, stdout};
use std::fs;

/// A very short experiment of each paper.
const SMALL: [&str; 4] = ["fig5", "fig9-10", "table4", "--quick"];

#[test]
fn index_links_to_four_reports() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("results");
    let dir = root.to_str().unwrap();
    let args = [&["reproduce", "all"], &SMALL[..], &["--replicas", "1", "-o", dir]].concat();
    let out = roughlink(&args);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(stdout(&out).trim_end().ends_with("results/index.html"), "{}", stdout(&out));

    let index = fs::read_to_string(root.join("index.html")).unwrap();
    assert!(!index.contains("Not computed yet") && !index.contains("so far"));
    let mut places = Vec::new();
    for paper in ["plc", "wave", "avoca", "v2g"] {
        let link = format!("<h2><a href=\"{paper}/report.html\">");
        places.push(index.find(&link).unwrap_or_else(|| panic!("no {link}")));
        assert!(root.join(paper).join("report.html").is_file());
    }
    assert!(places.is_sorted(), "quick papers first: {places:?}");
    assert_eq!(index.matches("class=\"picture\"").count(), 4);
    assert!(index.len() < 2 << 20, "{} bytes", index.len());

    // The same command again computes nothing and keeps the results.
    let out = roughlink(&args);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(!stderr(&out).contains("runs in"), "{}", stderr(&out));
    assert_eq!(fs::read_to_string(root.join("index.html")).unwrap(), index);
}

#[test]
fn options_that_fit_no_paper_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("out");
    for (args, said) in [
        (vec!["fig99"], "unknown experiment `fig99`"),
        (vec!["--only", "colour=red"], "--only colour=red: no experiment has this axis"),
    ] {
        let args = [&["reproduce", "all", "-o", dir.to_str().unwrap()], &args[..]].concat();
        let out = roughlink(&args);
        assert_eq!(code(&out), 2, "{}", stderr(&out));
        assert!(stderr(&out).contains(said), "{}", stderr(&out));
    }
    assert!(!dir.exists(), "nothing was begun");
}

#[test]
fn foreign_index_page_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "my home page").unwrap();
    let out = roughlink(&["reproduce", "all", "fig9-10", "-o", folder.path().to_str().unwrap()]);
    assert_eq!(code(&out), 3, "{}", stderr(&out));
    assert!(stderr(&out).contains("it is another page"), "{}", stderr(&out));
    assert_eq!(fs::read_to_string(folder.path().join("index.html")).unwrap(), "my home page");
}
