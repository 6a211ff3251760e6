//! Pages of docs/reference that are generated from the schema and the registries, so that keys, defaults and ranges are
//! written only once. `make docs` writes the pages, and the test checks that those in the tree are current.

use crate::args::Roughlink;
use crate::commands::gateway::{kinds, meaning, rows};
use clap::CommandFactory as _;
use roughlink_core::cc::{self, Algorithm};
use roughlink_core::tcp::Stack;
use roughlink_core::text::one_line;
use roughlink_lab::metric;
use roughlink_scenario::{definition, schema};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

#[test]
fn pages_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let update = env::var("INSTA_UPDATE").is_ok_and(|how| how == "always");
    let pages = [
        ("keys.md", keys()),
        ("algorithms.md", algorithms()),
        ("gateways.md", gateways()),
        ("metrics.md", metrics()),
        ("commands.md", commands()),
    ];
    let mut outdated = Vec::new();
    for (name, page) in pages {
        let (path, page) = (folder.join(name), wrapped(&page));
        assert!(page.lines().count() > 20, "{name} is empty");
        if fs::read_to_string(&path).unwrap_or_default() == page {
            continue;
        }
        if update {
            fs::write(&path, page).unwrap();
        } else {
            outdated.push(name);
        }
    }
    assert!(outdated.is_empty(), "pages of docs/reference are out of date: {outdated:?}; run `make docs`");
}

/// Wraps the prose of a page. Tables, headings and blocks of code keep their lines.
fn wrapped(page: &str) -> String {
    let mut in_code = false;
    let mut out = String::new();
    for line in page.lines() {
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        if in_code || is_fence || line.starts_with(['|', '#', '<']) {
            out += line;
        } else {
            let indent = if line.starts_with("- ") { "  " } else { "" };
            out += &textwrap::fill(line, options().subsequent_indent(indent));
        }
        out.push('\n');
    }
    out
}

/// Returns the options for prose, which breaks only at spaces.
fn options() -> textwrap::Options<'static> {
    textwrap::Options::new(WIDTH)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit)
        .break_words(false)
}

const WIDTH: usize = 120;
const MADE: &str = "<!-- Made by `make docs`; do not edit. -->\n";

/// Returns the page of all keys of scenario files.
fn keys() -> String {
    let root = schema();
    let mut page =
        ReferencePage { root: &root, anchors: BTreeMap::new(), next: VecDeque::new(), sections: BTreeMap::new() };
    page.section(&PendingSection { heading: "Top level".into(), table: &root, path: String::new() });
    while let Some(job) = page.next.pop_front() {
        page.section(&job);
    }
    let intro = format!(
        "# Keys of scenario files\n\n{MADE}\nAll tables and keys, with types, defaults and ranges. \
         [scenario.md](scenario.md) explains how they work together. `roughlink schema` prints the same as a JSON \
         Schema. A quantity is a text with its unit, such as `\"10 ms\"`. Keys that are not required may be left out. \
         `link(pipe).timeline` is the key `timeline` of a link of kind `pipe`.\n\n"
    );
    intro + &page.sections.into_values().collect::<String>()
}

/// A table that needs a section.
struct PendingSection<'s> {
    heading: String,
    table: &'s Value,
    /// Path of keys that leads to the table, joined by dots, with kinds in brackets.
    path: String,
}

/// Page under construction. Tables are visited level by level, so a shared table has its section at the shortest path.
struct ReferencePage<'s> {
    root: &'s Value,
    /// Anchors of the sections of definitions.
    anchors: BTreeMap<String, String>,
    next: VecDeque<PendingSection<'s>>,
    sections: BTreeMap<String, String>,
}

impl<'s> ReferencePage<'s> {
    /// Writes the section of a table and the sections of its kinds.
    fn section(&mut self, job: &PendingSection<'s>) {
        let PendingSection { heading, table, path } = job;
        let mut out = head(heading, path, table);
        let kinds: Vec<&'s Value> = table["oneOf"].as_array().into_iter().flatten().collect();
        // Tables that accept a plain name have a form without keys, which is left out here.
        let kinds: Vec<&'s Value> = kinds.into_iter().filter(|kind| kind["properties"].is_object()).collect();
        let [first, ..] = kinds.as_slice() else {
            let all: Vec<_> = properties(table).collect();
            self.inner(path, &all);
            out += &self.rows(&all, table);
            self.sections.insert(path.clone(), out);
            return;
        };
        // Write the keys that all kinds share first, then the others by kind.
        let alike = |key: &String, value: &Value| kinds.iter().all(|kind| kind["properties"].get(key) == Some(value));
        let common: Vec<_> = properties(first).filter(|(key, value)| alike(key, value)).collect();
        self.inner(path, &common);
        out += &self.rows(&common, first);
        let mut links = Vec::new();
        for kind in &kinds {
            let own: Vec<_> = properties(kind).filter(|(key, value)| *key != "kind" && !alike(key, value)).collect();
            let name = kind["title"].as_str().unwrap_or_default();
            let (heading, path) = (format!("`kind = \"{name}\"`"), format!("{path}({name})"));
            let default = if kind["properties"]["kind"]["default"].is_string() { " (default)" } else { "" };
            links.push(format!("[`{name}`](#{}){default}", anchor(&heading)));
            self.inner(&path, &own);
            let rows = if own.is_empty() { "No further keys.\n\n".to_owned() } else { self.rows(&own, kind) };
            self.sections.insert(path.clone(), head(&heading, &path, kind) + &rows);
        }
        if kinds.iter().all(|kind| kind["properties"]["kind"].is_object()) {
            let _ = writeln!(out, "Values of `kind`, each with its own keys: {}.\n", links.join(", "));
        }
        self.sections.insert(path.clone(), out);
    }

    fn rows(&self, keys: &[(&'s String, &'s Value)], table: &Value) -> String {
        if keys.is_empty() {
            return String::new();
        }
        let mut out = "| key | type | default | range | meaning |\n|---|---|---|---|---|\n".to_owned();
        let has =
            |form: &Value, name: &str| form["required"].as_array().is_some_and(|all| all.iter().any(|k| k == name));
        let forms: Vec<&Value> = table["anyOf"].as_array().into_iter().flatten().collect();
        for (name, key) in keys {
            let unless = || forms.iter().find(|form| !has(form, name)).map(|form| &form["required"][0]);
            let default = match &key["default"] {
                _ if key["x-default"].is_object() => "per stack".into(),
                Value::Null if has(table, name) => "required".into(),
                Value::Null if forms.first().is_some_and(|form| has(form, name)) => {
                    let other = unless().and_then(Value::as_str).unwrap_or_default();
                    format!("required without `{other}`")
                }
                Value::Null => String::new(),
                value => code(value),
            };
            let (kind, meaning) = (self.kind_of(key), self.meaning(key));
            let _ = writeln!(out, "| `{name}` | {kind} | {default} | {} | {meaning} |", range(key));
        }
        out.push('\n');
        if keys.iter().any(|(_, key)| key["x-default"].is_object()) {
            out += &stacks(keys);
        }
        out
    }

    /// Queues the tables inside keys, unless they already have a section.
    fn inner(&mut self, path: &str, keys: &[(&'s String, &'s Value)]) {
        for (name, key) in keys {
            let Some(form) = self.held_definition(key) else { continue };
            let definition = form["$ref"].as_str().unwrap_or_default();
            // The `tcp` table of a flow has the same keys as [tcp].
            if self.anchors.contains_key(definition) || definition == FLOW_TCP {
                continue;
            }
            let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let same = |other: &'s Value| self.held_definition(other).is_some_and(|other| other["$ref"] == definition);
            let alike: Vec<String> =
                keys.iter().filter(|(_, other)| same(other)).map(|(other, _)| format!("`{}`", below(other))).collect();
            let heading = match (path.is_empty(), key["type"] == "array") {
                (true, true) => format!("`[[{name}]]`"),
                (true, false) => format!("`[{name}]`"),
                _ if key["additionalProperties"].is_object() => format!("`{}.NAME`", below(name)),
                _ if alike.len() > 3 => format!("`{}`", below("NAME")),
                _ if alike.len() > 1 => alike.join(", "),
                _ => format!("`{}`", below(name)),
            };
            if !definition.is_empty() {
                self.anchors.insert(definition.to_owned(), anchor(&heading));
            }
            let table = self.resolve(form);
            self.next.push_back(PendingSection { heading, table, path: below(name) });
        }
    }

    /// Returns the table in a key: the value, the elements of a list, or the values under names that the user chooses.
    fn held_definition(&self, key: &'s Value) -> Option<&'s Value> {
        let forms: Vec<&'s Value> = key["anyOf"].as_array().map_or_else(|| vec![key], |any| any.iter().collect());
        let inside = |form: &'s Value| {
            ["items", "additionalProperties"].iter().find_map(|of| form.get(*of)).filter(|v| v.is_object())
        };
        forms.into_iter().map(|form| inside(form).unwrap_or(form)).find(|form| {
            let table = self.resolve(form);
            table["properties"].is_object() || table["oneOf"][0]["properties"].is_object()
        })
    }

    fn resolve(&self, schema: &'s Value) -> &'s Value {
        definition(schema, self.root)
    }

    fn kind_of(&self, key: &'s Value) -> String {
        if let Some(any) = key["anyOf"].as_array() {
            let mut forms: Vec<String> = any.iter().map(|form| self.kind_of(form)).collect();
            forms.dedup();
            return forms.join(" or ");
        }
        let (name, of) = (key["$ref"].as_str().and_then(|r| r.rsplit('/').next()), self.resolve(key));
        let words: Vec<String> = match of["enum"].as_array().filter(|all| all.len() <= MAX_WORDS) {
            Some(all) => all.iter().map(code).collect(),
            None => words(of).map(|w| code(&w["const"])).collect(),
        };
        if !words.is_empty() {
            return words.join(", ");
        }
        if of["const"].is_string() {
            return code(&of["const"]);
        }
        if of["anyOf"].is_array() && name.is_none_or(|_| of["properties"].is_null()) {
            return self.kind_of(of);
        }
        match (of["type"].as_str(), name) {
            (Some("boolean"), _) => "true or false".into(),
            (Some("array"), _) => match &of["items"] {
                Value::Null => "list".into(),
                items => format!("list of {}", self.kind_of(items)),
            },
            (Some("object"), _) => self.link("table", name),
            (Some("string"), Some(name)) => spaced(name),
            (Some("string"), None) => self.text(of),
            (Some(other), _) => other.into(),
            (None, _) if of["oneOf"].is_array() => self.link("table", name),
            (None, _) => name.map_or_else(|| "value".into(), spaced),
        }
    }

    /// Returns `word`, linked to the section of a definition if there is one.
    fn link(&self, word: &str, definition: Option<&str>) -> String {
        let definition = definition.map(|name| if FLOW_TCP.ends_with(name) { "Tcp" } else { name });
        match definition.and_then(|name| self.anchors.get(&format!("#/$defs/{name}"))) {
            Some(anchor) => format!("[{word}](#{anchor})"),
            None => word.to_owned(),
        }
    }

    /// Returns the type of a text: the name of the quantity, if it has a definition.
    fn text(&self, schema: &Value) -> String {
        let definitions = self.root["$defs"].as_object().into_iter().flatten();
        let mut same = definitions.filter(|(_, d)| d["pattern"].is_string() && d["pattern"] == schema["pattern"]);
        match (same.next(), schema["examples"][0].as_str()) {
            (Some((name, _)), _) => spaced(name),
            (None, Some(example)) => format!("text such as `\"{example}\"`"),
            (None, None) => "text".into(),
        }
    }

    fn meaning(&self, key: &'s Value) -> String {
        let of = self.resolve(key);
        let mut out = one_line(key["description"].as_str().or(of["description"].as_str()).unwrap_or_default());
        for word in words(of) {
            if let Some(text) = word["description"].as_str() {
                let _ =
                    write!(out, " `{}`: {}", word["const"].as_str().unwrap_or_default().escape_debug(), one_line(text));
            }
        }
        out.trim().replace('|', "\\|")
    }
}

/// Returns the heading of a section, as deep as its path, and the description of its table.
fn head(heading: &str, path: &str, table: &Value) -> String {
    let depth = path.matches(['.', '(']).count();
    let description = one_line(table["description"].as_str().unwrap_or_default());
    let description = if description.is_empty() { description } else { description + "\n\n" };
    format!("{} {heading}\n\n{description}", "#".repeat(depth.min(3) + 2))
}

/// Returns the anchor that Markdown assigns to a heading.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Returns the values per stack of the keys whose default depends on the stack.
fn stacks(keys: &[(&String, &Value)]) -> String {
    let names: Vec<&str> = Stack::ALL.iter().map(|s| s.name()).collect();
    let head: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    let mut out = format!("Values per stack:\n\n| key | {} |\n|---|{}\n", head.join(" | "), "---|".repeat(names.len()));
    for (name, key) in keys.iter().filter(|(_, key)| key["x-default"].is_object()) {
        let row: Vec<String> = names.iter().map(|stack| code(&key["x-default"][*stack])).collect();
        let _ = writeln!(out, "| `{name}` | {} |", row.join(" | "));
    }
    out + "\n"
}

const FLOW_TCP: &str = "#/$defs/FlowTcp";
/// Types with more words are shown by name.
const MAX_WORDS: usize = 8;

fn properties(table: &Value) -> impl Iterator<Item = (&String, &Value)> {
    table["properties"].as_object().into_iter().flatten()
}

/// Returns the allowed words of a value, if it accepts words.
fn words(schema: &Value) -> impl Iterator<Item = &Value> {
    schema["oneOf"].as_array().into_iter().flatten().filter(|w| w["const"].is_string())
}

/// Returns the bounds of a value: JSON Schema's for a number, our own for a quantity.
fn range(key: &Value) -> String {
    let bound = |name: &str| {
        let value = key.get(name).or_else(|| key.get(format!("x-{name}")))?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let least = bound("minimum").map(|b| (false, b)).or(bound("exclusiveMinimum").map(|b| (true, b)));
    let most = bound("maximum").map(|b| (false, b)).or(bound("exclusiveMaximum").map(|b| (true, b)));
    match (least, most) {
        (Some((false, a)), Some((false, b))) => format!("{a} to {b}"),
        (Some((above, a)), Some((below, b))) => {
            let (a, b) = (if above { format!("above {a}") } else { format!("from {a}") }, b);
            if below { format!("{a}, below {b}") } else { format!("{a}, at most {b}") }
        }
        (Some((false, a)), None) if a == "0" => String::new(),
        (Some((false, a)), None) => format!("at least {a}"),
        (Some((true, a)), None) => format!("above {a}"),
        (None, Some((false, b))) => format!("at most {b}"),
        (None, Some((true, b))) => format!("below {b}"),
        (None, None) => String::new(),
    }
}

/// Formats a value in TOML notation.
fn code(value: &Value) -> String {
    format!("`{value}`")
}

/// Formats `CongestionControl` as `congestion control`.
fn spaced(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push(' ');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// Returns the page of all algorithms with their parameters.
fn algorithms() -> String {
    let mut out = format!(
        "# Congestion control algorithms\n\n{MADE}\nValues of `cc`, and the parameters that `cc_params` sets. \
         `roughlink cc list` prints the same. A parameter with a single value has it on all stacks.\n\n"
    );
    for algorithm in cc::REGISTRY.iter() {
        let _ = writeln!(out, "## `{}`\n\n{}. Source: {}.\n", algorithm.name, algorithm.summary, algorithm.source);
        if !algorithm.tcp.is_empty() {
            let _ = writeln!(out, "Sets in `[tcp]`: `{}`.\n", algorithm.tcp.trim());
        }
        parameters(&mut out, algorithm);
    }
    out.trim_end().to_owned() + "\n"
}

fn parameters(out: &mut String, algorithm: &Algorithm) {
    let schema = Value::from(algorithm.schema());
    let of_stack: Vec<_> = Stack::ALL.iter().map(|s| (s.name(), algorithm.parameters(s.name()))).collect();
    if of_stack[0].1.is_empty() {
        *out += "No parameters.\n\n";
        return;
    }
    *out += "| parameter | default | meaning |\n|---|---|---|\n";
    for (key, value) in &of_stack[0].1 {
        let mut default = format!("`{value}`");
        let others = of_stack.iter().skip(1).filter(|(stack, _)| !stack.contains('-')); // releases have the same
        for (stack, all) in others.filter(|(_, all)| all.get(key) != Some(value)) {
            let _ = write!(default, ", {stack} `{}`", all.get(key).map_or_else(String::new, ToString::to_string));
        }
        let meaning = meaning(&schema["properties"][key], &schema).replace('\n', " ");
        let _ = writeln!(out, "| `{key}` | {default} | {} |", meaning.replace('|', "\\|"));
    }
    out.push('\n');
}

/// Returns the page of all gateways with their parameters.
fn gateways() -> String {
    let mut out = format!(
        "# Gateways\n\n{MADE}\nValues of `kind` in `[[gateway]]`, and the parameters that `params` sets. \
         `roughlink gateway list` prints the same.\n\n"
    );
    for kind in kinds() {
        let _ = writeln!(
            out,
            "## `{}`\n\n{}. Source: {}.\n\n| parameter | default | meaning |\n|---|---|---|",
            kind.name, kind.summary, kind.source
        );
        for [key, default, meaning] in rows(&kind) {
            let _ = writeln!(out, "| `{key}` | `{default}` | {} |", meaning.replace('\n', " ").replace('|', "\\|"));
        }
        out.push('\n');
    }
    out.trim_end().to_owned() + "\n"
}

/// Returns the page of all metrics.
fn metrics() -> String {
    let mut out = format!(
        "# Metrics\n\n{MADE}\nValues of `--metric` and of `metrics` in an experiment. `roughlink metric list` prints \
         the same.\n\n| name | of | unit | meaning |\n|---|---|---|---|\n"
    );
    for m in metric::list() {
        let _ = writeln!(out, "| `{}` | {} | {} | {} |", m.name, m.of, m.unit, one_line(&m.meaning));
    }
    let _ = write!(out, "\n{}", metric::FORMS.lines().map(|line| format!("- {line}\n")).collect::<String>());
    out
}

/// Returns the page of all commands with their help.
fn commands() -> String {
    let mut out = format!("# Commands\n\n{MADE}\nOutput of `roughlink COMMAND --help`.\n\n");
    let mut root = Roughlink::command().term_width(80);
    root.build();
    help(&mut out, &mut root);
    out.trim_end().to_owned() + "\n"
}

fn help(out: &mut String, command: &mut clap::Command) {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let text = command.render_long_help().to_string();
    let text: Vec<&str> = text.lines().map(str::trim_end).collect();
    let _ = writeln!(out, "## `{name}`\n\n```text\n{}\n```\n", text.join("\n").trim_end());
    for inner in command.get_subcommands_mut().filter(|c| c.get_name() != "help") {
        help(out, inner);
    }
}
