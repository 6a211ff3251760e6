//! Texts of the cells of a sweep: the overrides are written once, with blanks for the values that vary. Filling the
//! blanks takes much less time than writing all overrides into the scenario, and gives the same text. Pieces of the text
//! without blanks are read once for all cells.

use super::file::ScenarioFile;
use super::pieces::{self, MAX_AT_ONCE};
use super::problem::Problems;
use super::resolve;
use super::schema::FORM;
use super::set::{self, Blank, CLOSE, MARK, OPEN, Setting};
use super::syntax;
use super::{read_piece, stem};
use roughlink_core::scenario::Scenario;
use toml::de::DeTable;

/// Text of a scenario with overrides, some of which have no values yet.
#[derive(Clone, Debug)]
pub struct ScenarioTemplate {
    pieces: Vec<TemplatePiece>,
}

/// Piece of a template ([`super::pieces`]).
#[derive(Clone, Debug)]
struct TemplatePiece {
    /// Text before each blank.
    before: Vec<(String, Blank)>,
    /// Text after the last blank.
    rest: String,
    /// Tables of a piece without blanks.
    known: Option<ScenarioFile>,
}

impl ScenarioTemplate {
    /// Creates a template of the scenario `text`. `overrides` are paths and values; a value of `None` varies. Returns
    /// `None` if a varying value could change anything but itself: other keys, or the files that the scenario reads.
    ///
    /// ```
    /// use roughlink_scenario::ScenarioTemplate;
    ///
    /// let template = ScenarioTemplate::new("duration = \"10 s\"\n", &[("seed", None)]).unwrap();
    /// assert_eq!(template.fill(&["7"]).unwrap(), "duration = \"10 s\"\nseed = 7\n");
    /// assert!(ScenarioTemplate::new("duration = \"10 s\"\n", &[("name", None)]).is_none());
    /// ```
    pub fn new(text: &str, overrides: &[(&str, Option<&str>)]) -> Option<ScenarioTemplate> {
        let is_marked =
            |(path, value): &(&str, Option<&str>)| path.contains(MARK) || value.is_some_and(|v| v.contains(MARK));
        if text.len() > MAX_AT_ONCE || text.contains(MARK) || overrides.iter().any(is_marked) {
            return None;
        }
        let mut report = Problems::default();
        syntax::read(text, &mut report);
        if !report.problems.is_empty() {
            return None;
        }
        let settings = overrides.iter().enumerate();
        let settings = settings.map(|(i, (path, value))| (*path, value.map_or(Setting::Blank(i), Setting::Value)));
        let text = set::apply(text, "", settings, &FORM, &mut report);
        if !report.problems.is_empty() {
            return None;
        }
        let pieces = TemplatePiece::read(&text).or_else(|| Some(vec![TemplatePiece::new(&text)?]))?;
        // A value that another override replaces may still have changed other keys.
        let is_left = |i: usize| pieces.iter().flat_map(|piece| &piece.before).any(|(_, blank)| blank.number == i);
        let all_are_left = overrides.iter().enumerate().all(|(i, (_, value))| value.is_some() || is_left(i));
        all_are_left.then_some(ScenarioTemplate { pieces })
    }

    /// Returns the text with these values of the overrides, of which only the varying ones are used. Returns `None` for
    /// a value that is not written as it is, such as an algorithm with parameters.
    pub fn fill(&self, values: &[&str]) -> Option<String> {
        let mut text = String::with_capacity(self.pieces.iter().map(TemplatePiece::len).sum());
        self.pieces.iter().try_for_each(|piece| piece.fill(values, &mut text))?;
        Some(text)
    }

    /// Reads the text with these values like [`super::parse`], but only its pieces with varying values. Returns `None`
    /// if the text must be parsed: after a fault or warning, or if it cannot be read in pieces.
    pub fn parse(
        &self,
        values: &[&str],
        name: &str,
        load: &dyn Fn(&str) -> Result<String, String>,
    ) -> Option<Scenario> {
        let (mut file, mut text, mut report) = (ScenarioFile::default(), String::new(), Problems::default());
        if self.pieces.iter().all(|piece| piece.known.is_none()) {
            return None;
        }
        for (i, piece) in self.pieces.iter().enumerate() {
            let start = text.len();
            piece.fill(values, &mut text)?;
            file.append(match &piece.known {
                Some(known) => known.clone(),
                None => read_piece(DeTable::parse(&text[start..]).ok()?, i == 0, &mut report)?,
            });
        }
        if !report.is_empty() {
            return None;
        }
        let scenario = resolve::resolve(file, stem(name), load, &mut report);
        report.is_empty().then_some(Scenario { source: text, ..scenario })
    }
}

impl TemplatePiece {
    /// Divides a text with blanks; returns `None` if it must be read at once.
    fn read(text: &str) -> Option<Vec<TemplatePiece>> {
        let (mut all, mut places): (Vec<TemplatePiece>, _) = (Vec::new(), pieces::places(text, 0));
        let mut report = Problems::default();
        pieces::read(text, 0, |document| {
            let mut piece = TemplatePiece::new(&text[places.next()?])?;
            if piece.before.is_empty() {
                let known = read_piece(document, all.is_empty(), &mut report)?;
                if let Some(TemplatePiece { known: Some(before), rest, .. }) = all.last_mut() {
                    before.append(known);
                    *rest += &piece.rest;
                    return Some(());
                }
                piece.known = Some(known);
            }
            all.push(piece);
            Some(())
        })
        .ok()?;
        report.is_empty().then_some(all)
    }

    /// Creates a piece that is read each time.
    fn new(text: &str) -> Option<TemplatePiece> {
        let (mut before, mut rest) = (Vec::new(), text);
        while let Some((part, tail)) = rest.split_once(OPEN) {
            let (mark, tail) = tail.split_once(CLOSE)?;
            before.push((part.to_owned(), Blank::parse(mark)?));
            rest = tail;
        }
        Some(TemplatePiece { before, rest: rest.to_owned(), known: None })
    }

    /// Returns about the bytes of the text.
    fn len(&self) -> usize {
        self.rest.len() + self.before.iter().map(|(text, _)| text.len() + 16).sum::<usize>()
    }

    /// Appends the text with these values.
    fn fill(&self, values: &[&str], text: &mut String) -> Option<()> {
        for (part, blank) in &self.before {
            let value = values.get(blank.number).filter(|value| !value.contains('{'))?;
            *text += part;
            *text += &set::read(value, blank.text_only).ok()?.to_string();
        }
        *text += &self.rest;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    const PATHS: [(&str, [&str; 3]); 16] = [
        ("seed", ["7", "08", "-1"]),
        ("duration", ["5 s", "5", "\"5 s\""]),
        ("tcp.cc", ["bic", "'bic'", "avoca"]),
        ("tcp.cc_params.beta", ["0.5", "[1, 2]", "fast"]),
        ("tcp.stack", ["rfc", "7", "ns3"]),
        ("tcp.min_rto", ["200 ms", "1e3", "ä\\"]),
        ("tcp.sack", ["true", "false", "no"]),
        ("link.*.rate", ["1 Mbit/s", "5", "x"]),
        ("link.*.delay", ["1 ms", "1979-05-27", "\"1 ms\""]),
        ("link.*.queue", ["10 pkt", "10", "10.5"]),
        ("link.*.noise.mean", ["1 %", "1", "0.01"]),
        ("link.*.mac.transmissions", ["3", "3.0", "three"]),
        ("flow.*.start", ["1 s", "0", "now"]),
        ("flow.*.cc", ["wave", "cubic", "7"]),
        ("flow.0.tcp.initial_window", ["1", "0x10", "1_000"]),
        ("flow.*.bytes", ["1 MB", "unlimited", "1"]),
    ];

    fn applied(text: &str, overrides: &[(&str, &str)]) -> Option<String> {
        let mut report = Problems::default();
        let settings = overrides.iter().map(|(path, value)| (*path, Setting::Value(value)));
        let text = set::apply(text, "", settings, &FORM, &mut report);
        report.problems.is_empty().then_some(text)
    }

    #[test]
    fn filled_templates_are_texts_with_overrides() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let (mut compared, mut in_pieces) = (0, 0);
        let load = |name: &str| fs::read_to_string(folder.join(name)).map_err(|e| e.to_string());
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            for (i, (one, values)) in PATHS.iter().enumerate() {
                let (other, fixed) = (PATHS[(i + 5) % PATHS.len()].0, PATHS[(i + 5) % PATHS.len()].1);
                // Once with one blank, and once with two.
                for varies in [false, true] {
                    let template = ScenarioTemplate::new(&text, &[(one, None), (other, (!varies).then_some(fixed[0]))]);
                    for (value, other_value) in values.iter().zip(fixed) {
                        let second = if varies { other_value } else { fixed[0] };
                        let Some(filled) = template.as_ref().and_then(|t| t.fill(&[value, second])) else { continue };
                        compared += 1;
                        let overrides = [(*one, *value), (other, second)];
                        assert_eq!(
                            Some(&filled),
                            applied(&text, &overrides).as_ref(),
                            "{} {overrides:?}",
                            path.display()
                        );
                        let template = template.as_ref().unwrap();
                        if let Some(scenario) = template.parse(&[value, second], "s.toml", &load) {
                            in_pieces += 1;
                            let (whole, warnings) = crate::parse(&filled, "s.toml", &[], &load).unwrap();
                            assert_eq!(warnings, []);
                            assert_eq!(
                                format!("{scenario:?}"),
                                format!("{whole:?}"),
                                "{} {overrides:?}",
                                path.display()
                            );
                        }
                    }
                }
            }
        }
        assert!(compared > 1000, "{compared} texts were compared");
        assert!(in_pieces > 200, "{in_pieces} scenarios were read in pieces");
    }

    #[test]
    fn values_that_change_more_than_themselves_have_no_template() {
        let text = "duration = \"1 s\"\n[[node]]\nname = \"a\"\n\
            [[link]]\nname = \"l\"\nnoise = { kind = \"recorded\" }\n\
            [[flow]]\nname = \"f\"\nkind = \"bulk\"\n[[coverage]]\nname = \"c\"\n";
        for path in [
            "name",
            "node.a.name",
            "flow.f.kind",
            "flow.f.from",
            "link.l.kind",
            "link.l.noise",
            "link.l.noise.file",
            "link.l.timeline",
            "link.l.timeline.file",
            "link.l.between",
            "coverage.c.log",
            "no.such.key",
        ] {
            assert!(ScenarioTemplate::new(text, &[(path, None)]).is_none(), "{path}");
        }
        let replaced = [("flow.*.cc", None), ("flow.f.cc", None)];
        assert!(ScenarioTemplate::new(text, &replaced).is_none(), "`cc_params` of the first value would remain");
        assert!(ScenarioTemplate::new(text, &[("seed", None), ("title", Some("\u{e000}0\u{e000}"))]).is_none());
        let template = ScenarioTemplate::new(text, &[("flow.f.cc", None)]).unwrap();
        assert!(template.fill(&["cubic"]).is_some() && template.fill(&["cubic{beta=0.8}"]).is_none());
        let template = ScenarioTemplate::new(text, &[("seed", None)]).unwrap();
        assert!(template.fill(&["9223372036854775808"]).is_none(), "the error belongs to the override");
    }
}
