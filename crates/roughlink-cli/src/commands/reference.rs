//! `roughlink reference`: generates pages of docs/reference from the schema and the registries, so that a key, its
//! default and its range are written only once. A test checks that the pages in the tree are current.

use crate::args::{Reference, Roughlink};
use crate::failure::{Failure, print};
use clap::CommandFactory as _;
use roughlink_core::cc::{self, Algorithm};
use roughlink_core::gateway;
use roughlink_core::scenario::schema;
use roughlink_core::tcp::Stack;
use roughlink_lab::error::LabError;
use roughlink_lab::metric;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Writes the pages into a folder.
pub fn reference(args: &Reference) -> Result<(), Failure> {
    let pages = [
        ("keys.md", keys()),
        ("algorithms.md", algorithms()),
        ("gateways.md", gateways()),
        ("metrics.md", metrics()),
        ("commands.md", commands()),
    ];
    for (name, page) in pages {
        let path = args.folder.join(name);
        std::fs::write(&path, page).map_err(|source| LabError::Write { path: path.clone(), source })?;
        print(&format!("{}\n", path.display()))?;
    }
    Ok(())
}

const MADE: &str = "<!-- Made by `make docs`; do not edit. -->\n";

/// All keys of scenario files.
fn keys() -> String {
    let root = schema();
    let mut page = Page { root: &root, seen: BTreeSet::new(), out: String::new() };
    let _ = write!(
        page.out,
        "# Keys of scenario files\n\n{MADE}\nEvery table and key, with type, default and range. [scenario.md](scenario.md) explains how \
         they work together; `roughlink schema` prints the same as a JSON Schema. A quantity is a text with its unit, such as \
         `\"10 ms\"`. A key without a default may be left out.\n\n"
    );
    page.table("Top level", &root, "");
    page.out
}

/// A page under construction.
struct Page<'s> {
    root: &'s Value,
    /// Definitions that already have a section.
    seen: BTreeSet<String>,
    out: String,
}

impl<'s> Page<'s> {
    /// The section of a table, followed by those of the tables in it.
    fn table(&mut self, heading: &str, table: &'s Value, path: &str) {
        let depth = if path.is_empty() { 1 } else { path.matches('.').count() + 1 };
        let _ = writeln!(self.out, "{} {heading}\n", "#".repeat((depth + 1).min(4)));
        if let Some(text) = table["description"].as_str() {
            let _ = writeln!(self.out, "{}\n", one_line(text));
        }
        let kinds: Vec<&'s Value> = table["oneOf"].as_array().into_iter().flatten().collect();
        // A table that can be given by its name alone also has a form without keys.
        let kinds: Vec<&'s Value> = kinds.into_iter().filter(|kind| kind["properties"].is_object()).collect();
        let [first, ..] = kinds.as_slice() else {
            let all: Vec<_> = properties(table).collect();
            self.rows(&all, table);
            return self.inner(path, &all);
        };
        // The keys that all kinds share come first, then those of each kind.
        let alike = |key: &String, value: &Value| kinds.iter().all(|kind| kind["properties"].get(key) == Some(value));
        let common: Vec<_> = properties(first).filter(|(key, value)| alike(key, value)).collect();
        if !common.is_empty() {
            self.rows(&common, first);
        }
        self.inner(path, &common);
        for kind in &kinds {
            let own: Vec<_> = properties(kind).filter(|(key, value)| *key != "kind" && !alike(key, value)).collect();
            let name = kind["title"].as_str().unwrap_or_default();
            let what = self.word(&kinds, name);
            let _ = writeln!(self.out, "{} `kind = \"{name}\"`\n\n{what}", "#".repeat((depth + 2).min(5)));
            if own.is_empty() {
                self.out += "No further keys.\n\n";
            } else {
                self.rows(&own, kind);
            }
            self.inner(&format!("{path}({name})"), &own);
        }
    }

    /// The description of a kind, from the type of the key `kind`.
    fn word(&self, kinds: &[&Value], name: &str) -> String {
        let definitions = self.root["$defs"].as_object();
        let words = |d: &&Value| {
            d["oneOf"]
                .as_array()
                .is_some_and(|words| kinds.iter().all(|kind| words.iter().any(|w| w["const"] == kind["title"])))
        };
        let found = definitions.into_iter().flat_map(Map::values).find(words);
        let word = found.and_then(|d| d["oneOf"].as_array()?.iter().find(|w| w["const"] == name));
        word.and_then(|w| w["description"].as_str()).map_or_else(String::new, |text| one_line(text) + "\n\n")
    }

    fn rows(&mut self, keys: &[(&'s String, &'s Value)], table: &Value) {
        let stacks = keys.iter().any(|(_, key)| key["x-default"].is_object());
        self.out += if stacks {
            "| key | type | range | meaning |\n|---|---|---|---|\n"
        } else {
            "| key | type | default | range | meaning |\n|---|---|---|---|---|\n"
        };
        for (name, key) in keys {
            let required = table["required"].as_array().is_some_and(|all| all.iter().any(|k| k == name.as_str()));
            let default = match &key["default"] {
                Value::Null if required => "required".into(),
                Value::Null => String::new(),
                value => code(value),
            };
            let default = if stacks { String::new() } else { format!("{default} | ") };
            let _ = writeln!(
                self.out,
                "| `{name}` | {} | {default}{} | {} |",
                self.kind_of(key),
                range(key),
                self.meaning(key)
            );
        }
        self.out.push('\n');
        if stacks {
            self.stacks(keys);
        }
    }

    /// The values per stack of the keys whose default depends on the stack.
    fn stacks(&mut self, keys: &[(&String, &Value)]) {
        let names: Vec<&str> = Stack::ALL.iter().map(|s| s.name()).collect();
        let head: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
        let _ = writeln!(self.out, "Values per stack:\n\n| key | {} |\n|---|{}", head.join(" | "), "---|".repeat(4));
        for (name, key) in keys {
            let values = |stack: &&str| key["x-default"].get(*stack).or(key.get("default")).map_or(String::new(), code);
            if key["x-default"].is_object() {
                let row: Vec<String> = names.iter().map(values).collect();
                let _ = writeln!(self.out, "| `{name}` | {} |", row.join(" | "));
            }
        }
        self.out.push('\n');
    }

    /// The sections of the tables that keys hold.
    fn inner(&mut self, path: &str, keys: &[(&'s String, &'s Value)]) {
        for (name, key) in keys {
            let below = if path.is_empty() { (*name).clone() } else { format!("{path}.{name}") };
            let lists = key["type"] == "array";
            let inside: Vec<&'s Value> = match key["anyOf"].as_array() {
                Some(any) => any.iter().collect(),
                None => vec![key],
            };
            for form in inside {
                let form = if form["items"].is_object() { &form["items"] } else { form };
                let definition = form["$ref"].as_str().unwrap_or_default().to_owned();
                let table = self.resolve(form);
                let has_keys = table["properties"].is_object() || table["oneOf"][0]["properties"].is_object();
                if !has_keys || (!definition.is_empty() && !self.seen.insert(definition)) {
                    continue;
                }
                let heading = match (path.is_empty(), lists) {
                    (true, true) => format!("`[[{name}]]`"),
                    (true, false) => format!("`[{name}]`"),
                    _ => format!("`{below}`"),
                };
                self.table(&heading, table, &below);
            }
        }
    }

    fn resolve(&self, schema: &'s Value) -> &'s Value {
        match schema["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/")) {
            Some(name) => &self.root["$defs"][name],
            None => schema,
        }
    }

    /// The type of a value, for people.
    fn kind_of(&self, key: &'s Value) -> String {
        if let Some(any) = key["anyOf"].as_array() {
            let mut forms: Vec<String> = any.iter().map(|form| self.kind_of(form)).collect();
            forms.dedup();
            return forms.join(" or ");
        }
        let (name, of) = (key["$ref"].as_str().and_then(|r| r.rsplit('/').next()), self.resolve(key));
        let words: Vec<String> = words(of).map(|w| code(&w["const"])).collect();
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
            (Some("object"), _) => "table".into(),
            (Some("string"), Some(name)) => spaced(name),
            (Some("string"), None) => "text".into(),
            (Some(other), _) => other.into(),
            (None, _) if of["oneOf"].is_array() => "table".into(),
            (None, _) => name.map_or_else(|| "value".into(), spaced),
        }
    }

    /// The description of a key and of its allowed words.
    fn meaning(&self, key: &'s Value) -> String {
        let of = self.resolve(key);
        let mut out = one_line(key["description"].as_str().or(of["description"].as_str()).unwrap_or_default());
        for word in words(of) {
            if let Some(text) = word["description"].as_str() {
                let _ = write!(out, " `{}`: {}", word["const"].as_str().unwrap_or_default(), one_line(text));
            }
        }
        out.trim().replace('|', "\\|")
    }
}

/// The keys of a table.
fn properties(table: &Value) -> impl Iterator<Item = (&String, &Value)> {
    table["properties"].as_object().into_iter().flatten()
}

/// The allowed words of a value, if it takes words.
fn words(schema: &Value) -> impl Iterator<Item = &Value> {
    schema["oneOf"].as_array().into_iter().flatten().filter(|w| w["const"].is_string())
}

/// The bounds of a value: those of JSON Schema for a number, our own for a quantity.
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

/// A value in TOML notation.
fn code(value: &Value) -> String {
    format!("`{value}`")
}

/// `CongestionControl` as `congestion control`.
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

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// All algorithms with their parameters.
fn algorithms() -> String {
    let mut out = format!(
        "# Congestion control algorithms\n\n{MADE}\nThe names that `cc` takes, and what `cc_params` can set; `roughlink cc list` prints \
         the same. A parameter with one value has it on all stacks.\n\n"
    );
    for algorithm in cc::REGISTRY {
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
        for (stack, all) in of_stack.iter().skip(1).filter(|(_, all)| all.get(key) != Some(value)) {
            let _ = write!(default, ", {stack} `{}`", all.get(key).map_or_else(String::new, ToString::to_string));
        }
        let meaning = super::gateway::meaning(&schema["properties"][key], &schema).replace('\n', " ");
        let _ = writeln!(out, "| `{key}` | {default} | {} |", meaning.replace('|', "\\|"));
    }
    out.push('\n');
}

/// All gateways with their parameters.
fn gateways() -> String {
    let mut out = format!(
        "# Gateways\n\n{MADE}\nThe names that `kind` of a `[[gateway]]` takes, and what `params` can set; `roughlink gateway list` prints \
         the same.\n\n"
    );
    for kind in gateway::REGISTRY {
        let _ = writeln!(
            out,
            "## `{}`\n\n{}. Source: {}.\n\n| parameter | default | meaning |\n|---|---|---|",
            kind.name, kind.summary, kind.source
        );
        for [key, default, meaning] in super::gateway::rows(kind) {
            let _ = writeln!(out, "| `{key}` | `{default}` | {} |", meaning.replace('\n', " ").replace('|', "\\|"));
        }
        out.push('\n');
    }
    out.trim_end().to_owned() + "\n"
}

/// All metrics.
fn metrics() -> String {
    let mut out = format!(
        "# Metrics\n\n{MADE}\nThe names that `--metric` and the `metrics` of an experiment take; `roughlink metric list` prints the \
         same.\n\n| name | of | unit | meaning |\n|---|---|---|---|\n"
    );
    for m in metric::list() {
        let _ = writeln!(out, "| `{}` | {} | {} | {} |", m.name, m.of, m.unit, one_line(m.meaning));
    }
    let _ = write!(out, "\n{}", super::metric::FORMS.lines().map(|line| format!("- {line}\n")).collect::<String>());
    out
}

/// All commands with their help.
fn commands() -> String {
    let mut out = format!("# Commands\n\n{MADE}\nWhat `roughlink COMMAND --help` prints.\n\n");
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
    for inner in command.get_subcommands_mut().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        help(out, inner);
    }
}
