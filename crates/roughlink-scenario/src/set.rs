//! Overrides: `link.plc.noise.start` = `1 %` written into the text of a scenario file; comments and order are kept.
//!
//! A path is keys joined by dots. Elements of `[[node]]`, `[[link]]` and `[[flow]]` are addressed by their name or by
//! their number from 0. In a name `*` stands for any characters: `flow.*.cc` means all flows and `link.segment*.rate`
//! some links. A name with a dot is quoted. In a list of elements without names, such as `noise`, a key alone means the
//! only element, or the only one that has or accepts the key. A path may create a key or table that the schema has and
//! the file does not.
//!
//! The value is TOML if it parses as TOML, otherwise text, so units need no quotes. Setting one of two mutually
//! exclusive keys removes the other; setting `kind` removes keys that only other kinds have. `cc` accepts parameters,
//! `avoca{rss_threshold=-110}`, which replace any `cc_params`.

use super::kinds::{alternatives, chosen, excluded, has, keys, kinds, meanings, name_of, resolve};
use super::noise::named;
use super::pieces::MAX_AT_ONCE;
use super::problem::{Problem, Problems, suggest};
use super::shape::{too_large, unknown};
use super::syntax;
use serde_json::Value as Schema;
use std::collections::BTreeSet;
use std::num::{IntErrorKind, ParseIntError};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// Returns the text with all overrides; reports those that cannot be applied. The elements of lists in `rest`, which
/// follows the text, cannot be set.
pub(super) fn apply<'o>(
    text: &str,
    rest: &str,
    overrides: impl IntoIterator<Item = (&'o str, Setting<'o>)>,
    root: &Schema,
    report: &mut Problems,
) -> String {
    let mut document: DocumentMut = match text.parse() {
        Ok(document) => document,
        Err(e) => {
            report.error(syntax::problem(e.message(), e.span().unwrap_or(0..0), text));
            return text.to_owned() + rest;
        }
    };
    for (path, value) in overrides {
        let place = TableSchema { schema: root, noun: "the scenario".into(), root, top: true };
        let done = segments(path).and_then(|path| {
            if !rest.is_empty() && root["properties"][&path[0]]["type"] == "array" {
                let large = format!("in a scenario larger than {} MB", MAX_AT_ONCE / 1_000_000);
                let problem = Problem::new(format!("cannot set keys of `{}` {large}", path[0]));
                return Err(problem.help("write the value into the file"));
            }
            set(document.as_table_mut(), &place, &path, value)
        });
        if let Err(problem) = done {
            let message = format!("override `{path}`: {}", problem.message);
            report.error(Problem { message, key: Some(path.to_owned()), ..problem });
        }
    }
    document.to_string() + rest
}

/// Setting of a key.
#[derive(Clone, Copy)]
pub(super) enum Setting<'v> {
    /// Value as written by the user.
    Value(&'v str),
    /// Blank in a template, with the number of the override.
    Blank(usize),
}

impl Setting<'_> {
    fn read(self, text_only: bool) -> Result<Value, Problem> {
        match self {
            Setting::Value(text) => read(text, text_only),
            Setting::Blank(number) => Ok(Blank { number, text_only }.mark().into()),
        }
    }
}

/// Blank for a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blank {
    /// Number of the override.
    pub number: usize,
    /// True if the value can only be text.
    pub text_only: bool,
}

impl Blank {
    /// Returns the text that marks the blank.
    fn mark(self) -> String {
        format!("{MARK}{}{}{MARK}", self.number, if self.text_only { "t" } else { "" })
    }

    /// Reads the text between two marks.
    pub(super) fn parse(mark: &str) -> Option<Blank> {
        let number = mark.strip_suffix('t');
        Some(Blank { number: number.unwrap_or(mark).parse().ok()?, text_only: number.is_some() })
    }
}

/// A character for private use, which no scenario needs.
pub(super) const MARK: char = '\u{e000}';
/// Start and end of a blank in the text.
pub(super) const OPEN: &str = "\"\u{e000}";
pub(super) const CLOSE: &str = "\u{e000}\"";

/// The schema of a table on the path.
struct TableSchema<'s> {
    schema: &'s Schema,
    noun: String,
    root: &'s Schema,
    top: bool,
}

impl<'s> TableSchema<'s> {
    fn new(schema: &'s Schema, noun: String, root: &'s Schema) -> Self {
        TableSchema { schema: resolve(schema, root), noun, root, top: false }
    }
}

fn set(table: &mut dyn TableLike, place: &TableSchema<'_>, path: &[String], value: Setting<'_>) -> Result<(), Problem> {
    let [key, rest @ ..] = path else { return Err(no_path()) };
    if place.schema.get("properties").is_none() {
        // The file format does not define the keys of this table: they are parameters (`cc_params`) or names that the
        // user chooses.
        if !rest.is_empty() {
            let noun = format!("`{key}`");
            let inner = match place.schema.get("additionalProperties").filter(|each| each.is_object()) {
                Some(each) => TableSchema::new(each, noun, place.root),
                None => TableSchema { noun, top: false, ..*place },
            };
            return set(make(table, key, false)?, &inner, rest, value);
        }
        put(table, key, value.read(false)?);
        return Ok(());
    }
    let kind = chosen(place.schema, table.get("kind").and_then(Item::as_str));
    // If the kind has no such key, use any meaning: the schema check reports the key.
    let meanings = meanings(place.schema, kind, key);
    let leads = |says: &&&Schema| rest.first().is_some_and(|next| has(resolve(says, place.root), next));
    let Some(schema) = meanings.iter().find(leads).or(meanings.first()).copied() else {
        let of: Vec<&Schema> = kind.map_or_else(|| kinds(place.schema).iter().collect(), |kind| vec![kind]);
        let all: BTreeSet<&str> = [place.schema].into_iter().chain(of).flat_map(keys).map(|(key, _)| key).collect();
        let help = unknown(key, &all.into_iter().collect::<Vec<_>>(), place.root);
        return Err(Problem::new(format!("unknown key `{key}` in {}", place.noun)).help(help));
    };
    let all = alternatives(schema);
    let is = |kind: &str| all.iter().copied().find(|s| resolve(s, place.root)["type"] == kind);
    if rest.is_empty() {
        if is("array").is_some_and(|s| name_of(&s["items"]).is_some()) && is("object").is_none() {
            let named =
                is("array").is_some_and(|s| resolve(&s["items"], place.root)["properties"].get("name").is_some());
            let help = if named {
                format!("name the element and the key: {key}.<name>.<key>")
            } else {
                format!("name the element by its number from 0, and the key: {key}.0.<key>")
            };
            return Err(Problem::new(format!("cannot set `{key}`: it is a list of tables")).help(help));
        }
        let (value, params) = match value {
            Setting::Value(text) if key == "cc" => {
                let (name, params) = with_parameters(text)?;
                (Setting::Value(name), params)
            }
            Setting::Blank(_) if key == "name" || !is_plain(&all, place.root) => return Err(no_blank(key)),
            value => (value, None),
        };
        put(table, key, value.read(all.iter().all(|s| text_only(resolve(s, place.root))))?);
        remove_excluded(table, place.schema, key);
        if let Some(params) = params {
            remove(table, "cc_params");
            for (name, value) in params {
                set(table, place, &["cc_params".to_owned(), name], Setting::Value(value))?;
            }
        }
        return Ok(());
    }
    if is("object").and_then(name_of) == Some("Noise")
        && let Some(item) = table.get_mut(key)
    {
        spell_out(item);
    }
    let present = table.get(key).filter(|item| !item.is_none());
    let listed = present.map_or(is("object").is_none(), |item| item.is_array() || item.is_array_of_tables());
    match (is("array").filter(|s| name_of(&s["items"]).is_some()), is("object")) {
        (Some(schema), _) if listed => {
            let elements = elements(table.get_mut(key));
            select(elements, key, schema, place.root, rest, value)
        }
        (_, Some(schema)) if present.is_none_or(Item::is_table_like) => {
            let inner = TableSchema::new(schema, format!("`{key}`"), place.root);
            set(make(table, key, place.top)?, &inner, rest, value)
        }
        _ => Err(no_keys(key)),
    }
}

type Parameters<'v> = Vec<(String, &'v str)>;

/// Splits an algorithm from the parameters in braces after its name, if any.
fn with_parameters(value: &str) -> Result<(&str, Option<Parameters<'_>>), Problem> {
    let Some((name, rest)) = value.split_once('{') else { return Ok((value, None)) };
    let wrong = || {
        Problem::new(format!("expected an algorithm with parameters, found `{value}`"))
            .help("write name{key=value,...}")
    };
    let inner = rest.trim_end().strip_suffix('}').ok_or_else(wrong)?;
    let (parts, true) = split_list(inner) else { return Err(wrong()) };
    let params = parts.into_iter().filter(|part| !part.trim().is_empty()).map(|part| {
        let (key, value) = part.split_once('=').filter(|(key, _)| !key.trim().is_empty()).ok_or_else(wrong)?;
        Ok((key.trim().to_owned(), value.trim()))
    });
    Ok((name.trim(), Some(params.collect::<Result<_, Problem>>()?)))
}

/// Splits `a,b,c` at commas outside brackets, braces and quotes; also returns true if all of these are closed in order.
///
/// ```
/// use roughlink_scenario::split_list;
///
/// let (parts, balanced) = split_list("cubic,bic{beta=0.8,abc=true},'a,b'");
/// assert_eq!(parts, ["cubic", "bic{beta=0.8,abc=true}", "'a,b'"]);
/// assert!(balanced);
/// assert!(!split_list("[1, 2").1); // open bracket
/// ```
pub fn split_list(text: &str) -> (Vec<&str>, bool) {
    let (mut depth, mut quote, mut balanced) = (0_i32, None, true);
    let parts = text.split(|c: char| {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(q), _) if q == c => quote = None,
            (None, '[' | '{' | '(') => depth += 1,
            (None, ']' | '}' | ')') => depth -= 1,
            _ => {}
        }
        balanced &= depth >= 0;
        quote.is_none() && c == ',' && depth <= 0
    });
    let parts = parts.collect();
    (parts, balanced && depth == 0 && quote.is_none())
}

/// Selects the elements of the list `key` that the next part of the path names.
fn select(
    mut elements: Vec<&mut dyn TableLike>,
    key: &str,
    schema: &Schema,
    root: &Schema,
    path: &[String],
    value: Setting<'_>,
) -> Result<(), Problem> {
    let [which, rest @ ..] = path else { return Err(no_path()) };
    let names: Vec<String> =
        elements.iter().map(|e| e.get("name").and_then(Item::as_str).unwrap_or_default().to_owned()).collect();
    let mut chosen: Vec<usize> = (0..names.len()).filter(|i| matches(which, &names[*i])).collect();
    if chosen.is_empty() {
        chosen.extend(which.parse::<usize>().ok().filter(|i| *i < elements.len()));
    }
    let element = resolve(&schema["items"], root);
    if chosen.is_empty() && !has(element, "name") && !meanings(element, None, which).is_empty() {
        let i = only(&elements, element, which).ok_or_else(|| {
            let help = format!("select a table by its number from 0, as in {key}.0.{which}, or all with `*`");
            Problem::new(format!("`{which}` does not identify one table of the list `{key}`")).help(help)
        })?;
        let inner = TableSchema::new(&schema["items"], format!("`{key}`"), root);
        return set(elements[i], &inner, path, value);
    }
    if chosen.is_empty() {
        let known: Vec<&str> = names.iter().map(String::as_str).filter(|n| !n.is_empty()).collect();
        let help = match (known.is_empty(), elements.len()) {
            (_, 0) => format!("add a [[{key}]] to the scenario"),
            (true, n) => format!("select one by its number, 0 to {}, or all with `*`", n - 1),
            (false, _) => suggest(which, "use one of", known),
        };
        return Err(Problem::new(format!("unknown {key} `{which}`")).help(help));
    }
    if rest.is_empty() {
        let help = format!("name the key: {key}.{which}.<key>");
        return Err(Problem::new(format!("cannot set {key} `{which}`: it is a table")).help(help));
    }
    for i in chosen {
        let inner = TableSchema::new(&schema["items"], format!("{key} `{which}`"), root);
        set(elements[i], &inner, rest, value)?;
    }
    Ok(())
}

/// Returns the only element, or the only one that has `key`, or the only one whose kind accepts it.
fn only(elements: &[&mut dyn TableLike], schema: &Schema, key: &str) -> Option<usize> {
    let takes = |e: &dyn TableLike| {
        let kind = e.get("kind").and_then(Item::as_str);
        kind.and_then(|kind| chosen(schema, Some(kind))).is_some_and(|kind| has(kind, key))
    };
    let all = || (0..elements.len()).collect::<Vec<_>>();
    let having = || (0..elements.len()).filter(|i| elements[*i].contains_key(key)).collect();
    let taking = || (0..elements.len()).filter(|i| takes(&*elements[*i])).collect();
    [all(), having(), taking()].into_iter().find_map(|found| match found[..] {
        [i] => Some(i),
        _ => None,
    })
}

/// Expands a noise given only by name into the table that it stands for.
fn spell_out(item: &mut Item) {
    match item {
        Item::Value(Value::Array(all)) => all.iter_mut().for_each(spell_out_value),
        Item::Value(one) => spell_out_value(one),
        _ => {}
    }
}

fn spell_out_value(value: &mut Value) {
    let Some(name) = value.as_str() else { return };
    let mut table: Value = named(name).into_iter().collect::<InlineTable>().into();
    *table.decor_mut() = value.decor().clone();
    *value = table;
}

/// Returns true if `name` matches `pattern`, in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name && !name.is_empty() };
    let Some(mut name) = name.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or("");
    for part in parts {
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(tail)
}

/// Returns the tables of a list, in either notation.
fn elements(item: Option<&mut Item>) -> Vec<&mut dyn TableLike> {
    match item {
        Some(Item::ArrayOfTables(tables)) => tables.iter_mut().map(|t| t as &mut dyn TableLike).collect(),
        Some(Item::Value(Value::Array(values))) => inline(values),
        _ => Vec::new(),
    }
}

fn inline(values: &mut Array) -> Vec<&mut dyn TableLike> {
    values.iter_mut().filter_map(Value::as_inline_table_mut).map(|t| t as &mut dyn TableLike).collect()
}

/// Returns the table at `key`; creates it if missing.
fn make<'t>(table: &'t mut dyn TableLike, key: &str, top: bool) -> Result<&'t mut dyn TableLike, Problem> {
    if table.get(key).is_none_or(Item::is_none) {
        let empty = if top { Item::Table(Table::new()) } else { Item::Value(Value::InlineTable(InlineTable::new())) };
        table.insert(key, empty);
    }
    let item = table.get_mut(key).and_then(Item::as_table_like_mut);
    item.ok_or_else(|| no_keys(key))
}

/// Writes a value, with the spaces and comments of the one it replaces.
fn put(table: &mut dyn TableLike, key: &str, mut value: Value) {
    if let Some(Item::Value(old)) = table.get_mut(key) {
        *value.decor_mut() = old.decor().clone();
        *old = value;
        return;
    }
    if let Some(last) = last_value(table)
        && let Some(space) = last.decor().suffix().and_then(|s| s.as_str()).filter(|s| s.trim().is_empty())
    {
        value.decor_mut().set_suffix(space);
        last.decor_mut().set_suffix("");
    }
    table.insert(key, Item::Value(value));
}

/// Returns the last value. In an inline table, the space before the closing brace belongs to it.
fn last_value(table: &mut dyn TableLike) -> Option<&mut Value> {
    let (_, item) = table.iter_mut().last()?;
    item.as_value_mut()
}

fn remove_excluded(table: &mut dyn TableLike, schema: &Schema, key: &str) {
    let kind = chosen(schema, table.get("kind").and_then(Item::as_str));
    for other in excluded(schema, kind, key) {
        remove(table, other);
    }
    let Some(kind) = kind.filter(|_| key == "kind") else { return };
    let foreign = |key: &&str| !has(schema, key) && !has(kind, key);
    let of_others: BTreeSet<&str> = kinds(schema).iter().flat_map(keys).map(|(key, _)| key).filter(foreign).collect();
    for key in of_others {
        remove(table, key);
    }
}

fn remove(table: &mut dyn TableLike, key: &str) {
    let last = table.iter().last().is_some_and(|(last, _)| last == key);
    let old = table.remove(key);
    if last
        && let Some(old) = old.as_ref().and_then(Item::as_value)
        && let Some(space) = old.decor().suffix().and_then(|s| s.as_str()).filter(|s| s.trim().is_empty())
        && let Some(value) = last_value(table)
    {
        value.decor_mut().set_suffix(space);
    }
}

/// Returns true if a value can only be text, so that a number or a word needs no quotes.
fn text_only(schema: &Schema) -> bool {
    schema["type"] == "string" || schema.get("oneOf").is_some() || schema.get("const").is_some()
}

/// Returns true if a value is a number, a quantity or a word of the file format. Such a value changes neither the place
/// of another override, as a table may, nor the files that the scenario reads, as a text may.
fn is_plain(all: &[&Schema], root: &Schema) -> bool {
    let [schema] = all else { return false };
    let definition = resolve(schema, root);
    let is_number = ["integer", "number", "boolean"].iter().any(|kind| definition["type"] == *kind);
    is_number || name_of(schema).is_some() && definition["type"] != "object" && definition["type"] != "array"
}

fn no_blank(key: &str) -> Problem {
    Problem::new(format!("the values of `{key}` change more than themselves"))
}

pub(super) fn read(value: &str, text_only: bool) -> Result<Value, Problem> {
    // The parser takes long for the whole numbers that most sweeps consist of.
    if let Ok(n) = value.parse::<i64>()
        && !text_only
        && n.to_string() == value
    {
        return Ok(n.into());
    }
    let large = |e: &ParseIntError| matches!(e.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow);
    let mut read = match value.trim().parse::<Value>() {
        Ok(value) if value.is_str() || !text_only => value,
        _ if !text_only && value.trim().parse::<i64>().as_ref().is_err_and(large) => {
            return Err(too_large(value.trim()));
        }
        _ => Value::from(value),
    };
    read.decor_mut().clear();
    Ok(read)
}

/// Returns the parts of a path; a quoted part may contain dots.
pub(super) fn segments(path: &str) -> Result<Vec<String>, Problem> {
    let mut all = vec![String::new()];
    let mut quote = None;
    for c in path.chars() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            (None, '.') => all.push(String::new()),
            (_, c) => all.last_mut().expect("never empty").push(c),
        }
    }
    if quote.is_some() || all.len() > DEEPEST || all.iter().any(String::is_empty) {
        return Err(no_path());
    }
    Ok(all.iter().map(|s| s.trim().to_owned()).collect())
}

fn no_path() -> Problem {
    Problem::new("invalid path").help("join keys by dots, as in `link.plc.noise.start`")
}

fn no_keys(key: &str) -> Problem {
    Problem::new(format!("`{key}` is not a table")).help(format!("set the whole value: {key} = ..."))
}

/// Limit on the parts of a path, above any path of the schema.
const DEEPEST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_characters() {
        for (pattern, yes, no) in [
            ("plc", &["plc"][..], &["plc2", ""][..]),
            ("*", &["", "x"], &[]),
            ("segment*", &["segment", "segment1"], &["internet1", "seg"]),
            ("*1", &["segment1", "1"], &["segment12", ""]),
            ("a*b*a", &["aba", "axbxa"], &["aa", "ab", "aab"]),
            ("a*a", &["aa", "aba"], &["a"]),
        ] {
            yes.iter().for_each(|name| assert!(matches(pattern, name), "{pattern} {name}"));
            no.iter().for_each(|name| assert!(!matches(pattern, name), "{pattern} {name}"));
        }
    }

    #[test]
    fn algorithm_can_include_parameters() {
        let read = |text| with_parameters(text).map(|(name, params)| (name.to_owned(), params));
        assert_eq!(read("cubic").unwrap(), ("cubic".into(), None));
        assert_eq!(read("cubic{}").unwrap(), ("cubic".into(), Some(vec![])));
        let params = vec![("a".to_owned(), "-1"), ("b".to_owned(), "[1, 2]"), ("c".to_owned(), "5 ms")];
        assert_eq!(read("x { a=-1, b = [1, 2],c=5 ms }").unwrap(), ("x".into(), Some(params)));
        let quoted = vec![("a".to_owned(), "\"1,2}\""), ("b".to_owned(), "2")];
        assert_eq!(read("x{a=\"1,2}\",b=2}").unwrap(), ("x".into(), Some(quoted)));
        for wrong in ["x{a=1", "x{a}", "x{=1}", "x{a=1},b=2}", "x{a=[1}", "x{a=\"1}"] {
            assert!(read(wrong).unwrap_err().help.unwrap().contains("name{key=value"), "{wrong}");
        }
    }

    #[test]
    fn override_values_are_typed_by_their_text() {
        let kind = |value: &str, text_only| read(value, text_only).map(|v| v.type_name());
        assert_eq!(kind("9223372036854775807", false), Ok("integer"));
        assert_eq!(kind("1e30", false), Ok("float"));
        for text in ["007", "5 ms", "+", "1_", "v2"] {
            assert_eq!(kind(text, false), Ok("string"), "{text}");
        }
        for (large, most, limit) in
            [("9223372036854775808", "at most", i64::MAX), (" -9223372036854775809", "at least", i64::MIN)]
        {
            let problem = kind(large, false).unwrap_err();
            assert_eq!(problem.message, format!("{} does not fit into 64 bits", large.trim()));
            assert_eq!(problem.help, Some(format!("write {most} {limit}")));
            assert_eq!(kind(large, true), Ok("string"), "a name may have any digits");
        }
    }

    #[test]
    fn paths_split_into_segments() {
        assert_eq!(segments("link.\"a.b\".rate").unwrap(), ["link", "a.b", "rate"]);
        assert_eq!(segments("seed").unwrap(), ["seed"]);
        assert!(segments("a.").is_err());
    }
}
