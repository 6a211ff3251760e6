//! The page that links to the reports of all papers, with a verdict and a picture of each.

use super::html::{escape, paragraphs};
use super::page::{is_page, page};
use super::slots::Slots;
use super::{picture, verdict};
use crate::disk;
use crate::experiment::result::ReportInput;
use std::io;
use std::path::Path;

/// A paper on the page.
#[derive(Debug)]
pub struct PaperEntry {
    /// Title of the paper.
    pub title: String,
    /// Address of the report, relative to the page: `v2g/report.html`.
    pub link: String,
    /// Results; None before they are computed.
    pub input: Option<ReportInput>,
}

/// Writes the page. Replaces an existing file only if it is such a page, and only when the new page is complete.
pub fn write(path: &Path, entries: &[PaperEntry], command: &str) -> io::Result<()> {
    let page = |old: Vec<u8>| is_page(&String::from_utf8_lossy(&old));
    let ours = disk::read(path).map_or_else(|e| e.kind() == io::ErrorKind::NotFound, page);
    if !ours {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is another page; name another folder with -o"));
    }
    disk::replace(path, render(entries, command).as_bytes())
}

/// Renders the page with papers in the order of `entries`.
pub fn render(entries: &[PaperEntry], command: &str) -> String {
    let done = entries.iter().filter(|e| e.input.is_some()).count();
    let so_far =
        if done < entries.len() { format!("{done} of {} papers so far. ", entries.len()) } else { String::new() };
    let heading = paragraphs(&format!("{so_far}Recomputed by `{command}`."), "lead");
    let mut main = String::new();
    for (i, entry) in entries.iter().enumerate() {
        main += &format!("<section id=\"paper-{}\">\n", i + 1);
        main += &match &entry.input {
            Some(input) => paper(entry, input, i + 1),
            None => format!("<h2>{}</h2>\n<p class=\"note\">Not computed yet.</p>\n", escape(&entry.title)),
        };
        main += "</section>\n";
    }
    page("Published studies, recomputed", &heading, &main)
}

fn paper(entry: &PaperEntry, input: &ReportInput, number: usize) -> String {
    let link = escape(&entry.link);
    format!(
        "<h2><a href=\"{link}\">{}</a></h2>\n{}{}<p><a class=\"button\" href=\"{link}\">The report</a></p>\n",
        escape(&entry.title),
        paragraphs(&verdict(input), "lead answer"),
        picture(input, &Slots::new(input), &format!("picture-{number}"), &entry.link),
    )
}
