//! Texts of the cells of a sweep: the overrides are written once, with blanks for the values that vary. Filling the
//! blanks takes much less time than writing all overrides into the scenario, and gives the same text.

use super::pieces::MAX_AT_ONCE;
use super::problem::Problems;
use super::schema::FORM;
use super::set::{self, Blank, CLOSE, MARK, OPEN, Setting};
use super::syntax;

/// Text of a scenario with overrides, some of which have no values yet.
#[derive(Clone, Debug)]
pub struct ScenarioTemplate {
    /// Text before each blank.
    before: Vec<(String, Blank)>,
    /// Text after the last blank.
    rest: String,
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
        let (mut before, mut rest) = (Vec::new(), &*text);
        while let Some((part, tail)) = rest.split_once(OPEN) {
            let (mark, tail) = tail.split_once(CLOSE)?;
            before.push((part.to_owned(), Blank::parse(mark)?));
            rest = tail;
        }
        // A value that another override replaces may still have changed other keys.
        let is_left = |i: usize| before.iter().any(|(_, blank)| blank.number == i);
        let all_are_left = overrides.iter().enumerate().all(|(i, (_, value))| value.is_some() || is_left(i));
        all_are_left.then(|| ScenarioTemplate { before, rest: rest.to_owned() })
    }

    /// Returns the text with these values of the overrides, of which only the varying ones are used. Returns `None` for
    /// a value that is not written as it is, such as an algorithm with parameters.
    pub fn fill(&self, values: &[&str]) -> Option<String> {
        let mut text =
            String::with_capacity(self.rest.len() + self.before.iter().map(|(s, _)| s.len() + 16).sum::<usize>());
        for (part, blank) in &self.before {
            let value = values.get(blank.number).filter(|value| !value.contains('{'))?;
            text += part;
            text += &set::read(value, blank.text_only).ok()?.to_string();
        }
        Some(text + &self.rest)
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
        let mut compared = 0;
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
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
                        assert_eq!(Some(filled), applied(&text, &overrides), "{} {overrides:?}", path.display());
                    }
                }
            }
        }
        assert!(compared > 1000, "{compared} texts were compared");
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
