//! From text to the tables of a file: parsing, the check of the form, and reading of the values.

use super::file::ScenarioFile;
use super::forms::Forms;
use super::kinds;
use super::pieces::{self, MAX_AT_ONCE, Obstacle};
use super::problem::{Problem, Problems};
use super::schema::FORM;
use super::shape;
use super::syntax;
use serde::Deserialize as _;
use std::mem;
use toml::Spanned;
use toml::de::{DeTable, Deserializer};

/// Reads the tables of a file and checks their form; returns `None` after a fault that leaves nothing to resolve.
pub(super) fn read(text: &str, report: &mut Problems) -> Option<ScenarioFile> {
    if report.problems.is_empty() && text.len() > LEAST_PIECE {
        let mut found = Problems::default();
        match read_in_pieces(text, LEAST_PIECE, &mut found) {
            Ok(file) => {
                *report = found;
                return Some(file);
            }
            Err(obstacle) if text.len() > MAX_AT_ONCE => {
                *report = found;
                syntax::report_obstacle(&obstacle, text, report);
                return None;
            }
            Err(_) => {}
        }
    }
    let mut document = syntax::read(text, report);
    if !report.problems.is_empty() {
        return None;
    }
    FORMS.with(|forms| shape::check(&mut document, forms, report));
    deserialize(document, report)
}

/// Reads the tables of a text in pieces of at least `least` bytes.
fn read_in_pieces(text: &str, least: usize, report: &mut Problems) -> Result<ScenarioFile, Obstacle> {
    let mut file = ScenarioFile::default();
    let mut is_first = true;
    pieces::read(text, least, |_, piece| {
        file.append(read_piece(piece, mem::take(&mut is_first), report)?);
        (text.len() <= MAX_AT_ONCE || report.problems.len() < MAX_FAULTS).then_some(())
    })?;
    Ok(file)
}

/// Reads a piece of a document and reports its faults. Returns `None` if the document must be read at once, as after an
/// unknown key in a later piece.
pub(super) fn read_piece(
    mut piece: Spanned<DeTable<'_>>,
    is_first: bool,
    report: &mut Problems,
) -> Option<ScenarioFile> {
    if is_first {
        FORMS.with(|forms| shape::check(&mut piece, forms, report));
    } else {
        // An unknown key is reported once for all pieces, and a required one belongs into the first.
        let fits = |key: &str| kinds::has(&FORM, key) && kinds::required(&FORM).all(|k| k != key);
        let all_fit = piece.get_ref().keys().all(|key| fits(key.get_ref()));
        FORMS.with(|forms| shape::check_rest(&mut piece, forms, report));
        all_fit.then_some(())?;
    }
    deserialize(piece, report)
}

fn deserialize(document: Spanned<DeTable<'_>>, report: &mut Problems) -> Option<ScenarioFile> {
    let file = ScenarioFile::deserialize(Deserializer::from(document));
    // Only faults that the check of the form misses get here.
    file.map_err(|e| {
        let problem = Problem::new(e.message()).at(e.span().unwrap_or(0..0), "");
        report.error(problem.help("write a value that the schema of scenario files allows"));
    })
    .ok()
}

thread_local! {
    // Facts about the form of scenario files.
    static FORMS: Forms<'static> = Forms::new(&FORM);
}

/// Number of faults after which the rest of a file larger than [`MAX_AT_ONCE`] is not read.
pub(super) const MAX_FAULTS: usize = 1000;
/// Bytes of a piece of a large file: enough that the cost of a piece does not matter, and little memory.
pub(super) const LEAST_PIECE: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Returns the file as text, with the places of all values, and the faults.
    fn read_with(text: &str, read: impl FnOnce(&str, &mut Problems) -> Option<ScenarioFile>) -> Option<String> {
        let mut report = Problems::default();
        let file = read(text, &mut report)?;
        Some(format!("{file:#?} {:#?}", report.fail("", text).problems))
    }

    #[test]
    fn pieces_of_a_file_are_read_like_the_whole() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let mut compared = 0;
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = text.split_inclusive('\n').take(150).collect();
            // Leave out each line in turn, or repeat it: most of these texts have faults.
            for (i, line) in lines.iter().enumerate() {
                for instead in [String::new(), line.repeat(2)] {
                    let changed = lines[..i].concat() + &instead + &lines[i + 1..].concat();
                    let pieces = read_with(&changed, |text, report| read_in_pieces(text, 0, report).ok());
                    if pieces.is_some() {
                        compared += 1;
                        assert_eq!(pieces, read_with(&changed, read), "line {} of {}", i + 1, path.display());
                    }
                }
            }
        }
        assert!(compared > 1000, "{compared} files were read in pieces");
    }
}
