//! Advice on command lines that cannot be parsed.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

/// Options that users may try, and the corresponding keys of the scenario.
const KEYS: &[(&str, &str)] = &[
    ("--cc", "tcp.cc"),
    ("--stack", "tcp.stack"),
    ("--mss", "tcp.mss"),
    ("--ecn", "tcp.ecn"),
    ("--duration", "duration"),
    ("--bytes", "flow.*.bytes"),
    ("--rate", "link.*.rate"),
    ("--delay", "link.*.delay"),
    ("--queue", "link.*.queue"),
    ("--loss", "link.*.noise.loss"),
];

pub(crate) fn advise(mut error: clap::Error, words: &[String]) -> clap::Error {
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) => word.clone(),
        _ => return error,
    };
    if let Some(advice) = without_dashes(words).or_else(|| override_of(&unknown, words)) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(advice)]));
    }
    error
}

/// Detects `--exec NODE COMMAND` without the two dashes before the command.
fn without_dashes(words: &[String]) -> Option<String> {
    let at = words.iter().position(|word| word == "--exec" || word.starts_with("--exec="))?;
    let (node, command) = match words[at].split_once('=') {
        Some((_, node)) => (node, &words[at + 1..]),
        None => (words.get(at + 1)?.as_str(), words.get(at + 2..)?),
    };
    let first = command.first().filter(|word| !word.starts_with('-'))?;
    Some(format!("put two dashes before the command: '--exec {node} -- {first} ...'"))
}

/// Returns the override with the same effect as an option that the command does not have.
fn override_of(unknown: &str, words: &[String]) -> Option<String> {
    let takes_keys =
        ["run", "sweep", "compare", "emulate"].iter().any(|command| words.get(1).is_some_and(|w| w == command));
    let (option, key) = KEYS.iter().find(|(option, _)| takes_keys && *option == unknown)?;
    let value = words.iter().enumerate().find_map(|(i, word)| match word.strip_prefix(option)? {
        "" => words.get(i + 1).map(String::as_str),
        rest => rest.strip_prefix('='),
    });
    Some(format!("override the key of the scenario: '--set {key}={}'", value.unwrap_or("VALUE")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Roughlink;
    use clap::Parser as _;

    fn advice_for(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let error = Roughlink::try_parse_from(&words).unwrap_err();
        advise(error, &words).to_string()
    }

    #[test]
    fn options_that_are_scenario_keys_suggest_set() {
        assert!(advice_for("roughlink run hello --cc bbr").contains("--set tcp.cc=bbr"));
        assert!(advice_for("roughlink sweep hello --cc=bbr,cubic").contains("--set tcp.cc=bbr,cubic"));
        assert!(advice_for("roughlink run hello --loss").contains("--set link.*.noise.loss=VALUE"));
        assert!(!advice_for("roughlink doctor --cc bbr").contains("--set"));
    }

    #[test]
    fn missing_dashes_after_exec_are_suggested() {
        for line in ["roughlink emulate a.toml --exec car iperf3 -s", "roughlink emulate a.toml --exec=car iperf3"] {
            assert!(advice_for(line).contains("'--exec car -- iperf3 ...'"), "{}", advice_for(line));
        }
    }
}
