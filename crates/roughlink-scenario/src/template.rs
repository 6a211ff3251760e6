//! Texts of the cells of a sweep: the overrides are written once, with blanks for the values that vary. Filling the
//! blanks takes much less time than writing all overrides into the scenario, and gives the same text. Pieces of the
//! text without blanks are read once for all cells.

use super::file::ScenarioFile;
use super::pieces::{self, MAX_AT_ONCE};
use super::problem::Problems;
use super::read::{LEAST_PIECE, read_piece};
use super::resolve;
use super::schema::FORM;
use super::set::{self, Blank, CLOSE, MARK, OPEN, Setting};
use super::syntax;
use roughlink_core::scenario::Scenario;
use std::ops::Range;
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
    /// Tables of a piece without blanks. Their places are those in the text with blanks.
    tables: Option<ScenarioFile>,
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
        let pieces = TemplatePiece::divide(&text).or_else(|| Some(vec![TemplatePiece::new(&text, None)?]))?;
        // A value that another override replaces may still have changed other keys.
        let is_left = |i: usize| pieces.iter().flat_map(|piece| &piece.before).any(|(_, blank)| blank.number == i);
        let all_are_left = overrides.iter().enumerate().all(|(i, (_, value))| value.is_some() || is_left(i));
        all_are_left.then_some(ScenarioTemplate { pieces })
    }

    /// Returns the text with these values of the overrides, of which only the varying ones are used. Returns `None` for
    /// a value that is not written as it is, such as an algorithm with parameters.
    pub fn fill(&self, values: &[&str]) -> Option<String> {
        let mut text = String::with_capacity(self.length());
        self.pieces.iter().try_for_each(|piece| piece.fill(values, &mut text))?;
        Some(text)
    }

    /// Reads the text with these values like [`super::parse`], but only its pieces with varying values. Returns `None`
    /// if the whole text must be read: after a fault or warning, whose place may be wrong, or without other pieces.
    pub fn parse(
        &self,
        values: &[&str],
        name: &str,
        load: &dyn Fn(&str) -> Result<String, String>,
    ) -> Option<Scenario> {
        if self.pieces.iter().all(|piece| piece.tables.is_none()) {
            return None;
        }
        let (mut file, mut report) = (ScenarioFile::default(), Problems::default());
        let mut text = String::with_capacity(self.length());
        for (i, piece) in self.pieces.iter().enumerate() {
            let start = text.len();
            piece.fill(values, &mut text)?;
            file.append(match &piece.tables {
                Some(tables) => tables.clone(),
                None => read_piece(DeTable::parse(&text[start..]).ok()?, i == 0, &mut report)?,
            });
        }
        if !report.is_empty() {
            return None;
        }
        let scenario = resolve::resolve(file, name, load, &mut report);
        report.is_empty().then_some(Scenario { source: text, ..scenario })
    }

    /// Returns the approximate length of the filled text.
    fn length(&self) -> usize {
        let of = |piece: &TemplatePiece| piece.before.iter().map(|(text, _)| text.len() + 16).sum::<usize>();
        self.pieces.iter().map(|piece| of(piece) + piece.rest.len()).sum()
    }
}

impl TemplatePiece {
    /// Divides a text with blanks; returns `None` if it must be read at once.
    fn divide(text: &str) -> Option<Vec<TemplatePiece>> {
        if text.len() > MAX_KEPT {
            return None;
        }
        let mut all: Vec<(Range<usize>, Option<ScenarioFile>)> = Vec::new();
        let mut report = Problems::default();
        pieces::read(text, 0, |place, document| {
            let is_varying = text[place.clone()].contains(OPEN);
            let tables = if is_varying { None } else { Some(read_piece(document, all.is_empty(), &mut report)?) };
            // Join neighbors of the same kind.
            match (all.last_mut(), tables) {
                (Some((last, Some(before))), Some(tables)) => {
                    last.end = place.end;
                    before.append(tables);
                }
                (Some((last, None)), None) if last.len() < LEAST_PIECE => last.end = place.end,
                (_, tables) => all.push((place, tables)),
            }
            Some(())
        })
        .ok()?;
        let all = all.into_iter().map(|(place, tables)| TemplatePiece::new(&text[place], tables));
        all.collect::<Option<_>>().filter(|_| report.is_empty())
    }

    fn new(text: &str, tables: Option<ScenarioFile>) -> Option<TemplatePiece> {
        let (mut before, mut rest) = (Vec::new(), text);
        while let Some((part, tail)) = rest.split_once(OPEN) {
            let (mark, tail) = tail.split_once(CLOSE)?;
            before.push((part.to_owned(), Blank::parse(mark)?));
            rest = tail;
        }
        Some(TemplatePiece { before, rest: rest.to_owned(), tables })
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

/// Bytes of the largest text whose tables are kept. Tables take ten times the memory of their text.
const MAX_KEPT: usize = 4_000_000;

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
    fn pieces_are_read_like_the_whole_text() {
        let load = |_: &str| Err("no files".to_owned());
        let parse = |text: &str, path: &str, value: &str| {
            let template = ScenarioTemplate::new(text, &[(path, None)]).unwrap();
            let whole = crate::parse(&template.fill(&[value]).unwrap(), "s", &[], &load);
            (template.parse(&[value], "s", &load), whole)
        };
        let lists = "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n\
            [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n\
            [[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n";
        let plain = format!("duration = \"1 s\"\n{lists}");
        for (text, in_pieces) in [
            (plain.clone(), true),
            (plain.replace('\n', "\r\n"), true),
            (format!("name = '''\n[[link]]\n'''\n{plain}"), false),
        ] {
            for (path, value) in
                [("seed", "7"), ("link.l.delay", "3 ms"), ("flow.f.bytes", "1 MB"), ("duration", "2 s")]
            {
                let (pieces, whole) = parse(&text, path, value);
                let (whole, warnings) = whole.unwrap();
                assert_eq!(warnings, [], "{path}");
                let pieces = pieces.map(|scenario| format!("{scenario:?}"));
                assert_eq!(pieces, in_pieces.then(|| format!("{whole:?}")), "{path}: {text}");
            }
            for (path, value) in [("seed", "-1"), ("link.l.delay", "3"), ("flow.f.bytes", "ten"), ("duration", "0 s")] {
                let (pieces, whole) = parse(&text, path, value);
                assert!(pieces.is_none() && whole.is_err(), "{path} = {value}");
            }
        }
        let (pieces, whole) = parse(&format!("{plain}[[node]]\nname = \"c\"\n"), "seed", "7");
        assert!(pieces.is_none() && !whole.unwrap().1.is_empty(), "a warning has a place in the whole text");
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
