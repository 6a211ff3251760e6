//! Check of a scenario file's form against its schema: unknown keys, missing keys, keys of another kind, and tables in
//! place of lists. Faults are reported and removed, so that the rest can be read. The rest is then nested as the
//! structs require.

use super::examine::examine;
use super::forms::{Bounds, Forms, ValueForm, keyword};
use super::kinds::{
    GIVEN, WITHIN, alternatives, chosen, given_by, has, keys, kinds, meanings, name, name_of, required, resolve,
};
use super::leaf::{Read, unknown_word};
use super::noise::{named, noise_names};
use super::problem::{Problem, Problems, list, nearest, suggest};
use serde::Deserialize as _;
use serde_json::Value as Schema;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

struct Position<'s> {
    /// Name of the table in messages.
    noun: String,
    /// Name of the table's definition, empty without one.
    definition: &'s str,
    schema: &'s Schema,
    /// Place to underline when something is missing; `None` for the document.
    span: Option<Range<usize>>,
    /// Set if required keys may be elsewhere.
    partial: bool,
}

/// Checks a document and leaves the parts that can be deserialized.
pub(super) fn check(document: &mut Spanned<DeTable<'_>>, forms: &Forms<'_>, report: &mut Problems) {
    check_part(document, false, forms, report);
}

/// Checks a further part of a document, which need not have its required keys.
pub(super) fn check_rest(document: &mut Spanned<DeTable<'_>>, forms: &Forms<'_>, report: &mut Problems) {
    check_part(document, true, forms, report);
}

fn check_part(document: &mut Spanned<DeTable<'_>>, partial: bool, forms: &Forms<'_>, report: &mut Problems) {
    let here = Position { noun: "the scenario".into(), definition: "", schema: forms.root, span: None, partial };
    table(document.get_mut(), &here, forms, report);
}

/// Checks a value and its bounds; returns true if it can be kept. Skips values without bounds that are read later.
fn single_value(
    item: &Spanned<DeValue<'_>>,
    at: SchemaKey<'_>,
    (schema, form): (&Schema, &ValueForm<'_>),
    report: &mut Problems,
) -> bool {
    if let Some(problem) = form.definition.and_then(|name| missing_unit(item.get_ref(), name, schema)) {
        report.error(problem.at(item.span(), ""));
        return false;
    }
    if !at.given && form.bounds.is_empty() {
        return true;
    }
    let Ok(value) = toml::Value::deserialize(ValueDeserializer::from(item.clone())) else { return true };
    let problem = match examine(schema, &value) {
        Ok(amount) => amount.and_then(|amount| out_of_bounds(amount, at.name, &value, schema, &form.bounds)),
        Err(_) if !at.given => return true, // its reader reports the fault
        Err(e) => Some(Problem { help: e.help, ..Problem::new(e.message) }),
    };
    let good = problem.is_none();
    if let Some(problem) = problem {
        report.error(problem.at(item.span(), ""));
    }
    good
}

/// Reports a number without a unit if the key's default or example has one. `name` is that of the value's definition.
fn missing_unit(item: &DeValue<'_>, name: &str, schema: &Schema) -> Option<Problem> {
    let number = match item {
        DeValue::Integer(n) => n.to_string().into(),
        DeValue::Float(x) => x.to_string().into(),
        DeValue::String(text) => Cow::Borrowed(text.trim()),
        _ => return None,
    };
    number.parse::<f64>().ok().filter(|x| x.is_finite() && *x >= 0.0)?;
    let usual = schema["default"].as_str().filter(|default| !default.starts_with("0 "));
    let (_, unit) = schema["examples"][0].as_str().or(usual)?.split_once(' ').filter(|_| name != "Share")?;
    let written = format!("{number} {unit}");
    examine(schema, &toml::Value::String(written.clone())).ok()?;
    let fault = examine(schema, &toml::Value::String(number.into_owned())).err()?;
    let help = fault.help.as_deref().and_then(|help| help.rsplit_once(": ")).map_or("add the unit", |(units, _)| units);
    Some(Problem::new(fault.message).help(format!("{help}: \"{written}\"")))
}

fn out_of_bounds(amount: f64, key: &str, value: &toml::Value, schema: &Schema, bounds: &Bounds<'_>) -> Option<Problem> {
    let Bounds { least, most, above, below } = *bounds;
    let text = |value: &Schema| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let small = least.is_some_and(|(n, _)| amount < n) || above.is_some_and(|(n, _)| amount <= n);
    let large = most.is_some_and(|(n, _)| amount > n) || below.is_some_and(|(n, _)| amount >= n);
    if !small && !large {
        return None;
    }
    let text_of = |bound: Option<(f64, &Schema)>| bound.map(|(_, n)| text(n));
    let range = match (text_of(least), text_of(most), text_of(above), text_of(below)) {
        (Some(low), Some(high), ..) => format!("between {low} and {high}"),
        (low, high, above, below) => {
            let low = low.map(|n| format!("at least {n}")).or(above.map(|n| format!("greater than {n}")));
            let high = high.map(|n| format!("at most {n}")).or(below.map(|n| format!("less than {n}")));
            [low, high].into_iter().flatten().collect::<Vec<_>>().join(" and ")
        }
    };
    let usual = keyword(schema, "default").filter(|default| !default.is_array());
    let usual = usual.map(|default| format!("; the default is {}", text(default)));
    let written = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let size = if small { "larger" } else { "smaller" };
    let problem = Problem::new(format!("`{key}` must be {range}, found {written}"));
    Some(problem.help(format!("write a {size} value{}", usual.unwrap_or_default())))
}

#[derive(Clone, Copy)]
struct SchemaKey<'k> {
    name: &'k str,
    /// Kind of the table that contains the key.
    within: Option<&'k str>,
    /// Set if the table overrides a plain struct, so that the value is not read again.
    given: bool,
}

/// Checks the value of a key; returns true if it can be kept.
fn value<'s>(
    item: &mut Spanned<DeValue<'_>>,
    at: SchemaKey<'_>,
    schema: &'s Schema,
    forms: &Forms<'s>,
    report: &mut Problems,
) -> bool {
    let SchemaKey { name: key, within, .. } = at;
    let (span, root) = (item.span(), forms.root);
    let form = forms.value(schema);
    let ValueForm { as_table, as_list, as_text, choice, single, is_noise, .. } = form;
    if is_noise && let Some(name) = item.get_ref().as_str() {
        let names = noise_names(root);
        if !names.iter().any(|known| known == name) {
            let problem = Problem::new(format!("unknown noise `{name}`")).at(span, "");
            let else_write = format!("write {key} = {}, or one of the names", example(schema, within, root));
            report.error(problem.help(suggest(name, &else_write, names.iter().map(String::as_str))));
            return false;
        }
        let keys = named(name).into_iter().map(|(key, value)| {
            let value = Spanned::new(span.clone(), DeValue::String(Cow::Owned(value)));
            (Spanned::new(span.clone(), Cow::Borrowed(key)), value)
        });
        *item.get_mut() = DeValue::Table(keys.collect());
    }
    match item.get_mut() {
        DeValue::Table(inner) => {
            if let Some(schema) = as_table.filter(|_| !choice) {
                let definition = name_of(schema).unwrap_or("");
                let noun = noun(definition, key, inner);
                let span = Some(name_span(inner).unwrap_or(span));
                let schema = resolve(schema, root);
                table(inner, &Position { noun, definition, schema, span, partial: false }, forms, report);
                return true;
            }
            if !single && as_list.is_some_and(|s| name_of(&s["items"]).is_some()) {
                let problem =
                    Problem::new(format!("expected a list of tables for `{key}`, found a table")).at(span, "");
                report.error(problem.help(format!("write [[{key}]] before each table")));
                return false;
            }
        }
        DeValue::Array(items) => {
            if let Some(schema) = as_list.filter(|_| !choice) {
                let bad = |item: &mut Spanned<_>| {
                    schema.get("items").is_some_and(|inner| !value(item, at, inner, forms, report))
                };
                // Check every element, even after a fault.
                return items.iter_mut().map(bad).filter(|bad| *bad).count() == 0;
            }
        }
        DeValue::Integer(n) if i64::from_str_radix(n.as_str(), n.radix()).is_err() => {
            report.error(too_large(&n.to_string()).at(span, ""));
            return false;
        }
        DeValue::Float(x)
            if !x.as_str().contains("inf") && !x.as_str().parse().is_ok_and(|x: f64| !x.is_infinite()) =>
        {
            let problem = Problem::new(format!("{x} is too large")).at(span, "");
            report.error(problem.help(format!("write at most {:e}", f64::MAX)));
            return false;
        }
        _ => {}
    }
    if single {
        return single_value(item, at, (schema, &form), report);
    }
    if as_text && matches!(item.get_ref(), DeValue::String(_)) {
        return true;
    }
    let wanted = match (as_table, as_list) {
        (Some(_), Some(_)) if as_text => "a table, a list of tables, or the name of a file",
        (Some(_), Some(_)) if is_noise => "a name, a table or a list of them",
        (Some(_), Some(_)) => "a table or a list of tables",
        (Some(_), None) if is_noise => "a name or a table",
        (Some(_), None) => "a table",
        _ => "a list",
    };
    let found = match item.get_ref() {
        DeValue::Table(_) => "a table",
        DeValue::Array(_) => "a list",
        _ => "a single value",
    };
    let problem = Problem::new(format!("expected {wanted} for `{key}`, found {found}")).at(span, "");
    report.error(problem.help(format!("write {key} = {}", example(schema, within, root))));
    false
}

/// Returns the fault of a whole number beyond the range of a file.
pub(super) fn too_large(n: &str) -> Problem {
    let (most, bound) = if n.starts_with('-') { ("at least", i64::MIN) } else { ("at most", i64::MAX) };
    Problem::new(format!("{n} does not fit into 64 bits")).help(format!("write {most} {bound}"))
}

/// Returns the example of a key, or of its quantity.
fn shown<'s>(says: &'s Schema, root: &'s Schema) -> Option<&'s str> {
    [says, resolve(says, root)].into_iter().find_map(|of| of["examples"][0].as_str())
}

/// Returns an example that a schema allows. Uses the first of several forms, and for a table the required keys, or its
/// first key with an example if none is required.
fn example(schema: &Schema, within: Option<&str>, root: &Schema) -> String {
    let schema = alternatives(schema)[0];
    if let Some(text) = shown(schema, root) {
        return format!("\"{text}\"");
    }
    let schema = resolve(schema, root);
    if schema["type"] == "array" {
        let least = schema["minItems"].as_u64().unwrap_or(1).max(1) as usize;
        return format!("[{}]", vec![example(&schema["items"], within, root); least].join(", "));
    }
    match schema["type"].as_str() {
        Some("object") => {}
        Some("integer") => return "1".into(),
        _ => return "\"...\"".into(),
    }
    // Prefer a kind with required keys, which shows more.
    let here = |kind: &&Schema| kind[WITHIN].as_str().is_none_or(|only| within.is_none_or(|around| around == only));
    let kind = kinds(schema).iter().filter(here).find(|kind| required(kind).next().is_some()).or(kinds(schema).first());
    let mut wanted: Vec<&str> = [Some(schema), kind].into_iter().flatten().flat_map(required).collect();
    if wanted.is_empty() {
        let shown = keys(schema).find(|(_, says)| shown(says, root).is_some());
        wanted.extend(shown.map(|(key, _)| key));
    }
    let line = |key: &&str| match kind.filter(|_| *key == "kind") {
        Some(kind) => format!("kind = \"{}\"", name(kind)),
        None => format!(
            "{key} = {}",
            meanings(schema, kind, key).first().map_or(String::new(), |s| example(s, within, root))
        ),
    };
    format!("{{ {} }}", wanted.iter().map(line).collect::<Vec<_>>().join(", "))
}

fn table<'s>(inner: &mut DeTable<'_>, here: &Position<'s>, forms: &Forms<'s>, report: &mut Problems) {
    let root = forms.root;
    let given = here.schema.get(GIVEN).is_some();
    if let Some(each) = here.schema.get("additionalProperties").filter(|each| each.is_object()) {
        // The keys are names of the user's choice.
        let mut bad = Vec::new();
        for (key, item) in inner.iter_mut() {
            if value(item, SchemaKey { name: key.get_ref(), within: None, given }, each, forms, report) {
                continue;
            }
            if resolve(each, root)["type"] == "object" {
                *item.get_mut() = DeValue::Table(DeTable::default()); // other tables may refer to its name
            } else {
                bad.push(key.get_ref().to_string());
            }
        }
        bad.iter().for_each(|key| drop(inner.remove(key.as_str())));
        return;
    }
    if here.schema["properties"].as_object().is_none() {
        return;
    }
    let (word, all) = (inner.get("kind"), kinds(here.schema));
    let kind = chosen(here.schema, word.map(|word| word.get_ref().as_str().unwrap_or_default()));
    if let (Some(word), None, [_, ..]) = (word, kind, all) {
        report.error(no_kind(word, &all.iter().map(name).collect::<Vec<_>>()));
    }
    let form = forms.table(here.schema, kind);
    let says_kind = word.is_some();
    let within = kind.map(name);
    // Returns the kinds that have a key, unless all do.
    let owners = |key: &str| all.iter().filter(|kind| has(kind, key)).map(name).collect::<Vec<_>>();
    let shared = || keys(here.schema).map(|(key, _)| key);
    // The keys that are not another kind's.
    let own = || {
        let of: Vec<&Schema> = kind.map_or_else(|| all.iter().collect(), |kind| vec![kind]);
        let names = shared().chain(of.into_iter().flat_map(keys).map(|(key, _)| key));
        names.collect::<BTreeSet<_>>()
    };
    let mut bad: Vec<String> = Vec::new();
    let mut meant: Vec<&str> = Vec::new();
    for (key, item) in inner.iter_mut() {
        let word: &str = key.get_ref();
        let keep = if word == "kind" && kind.is_none() && !all.is_empty() {
            false
        } else if let Some(schema) = form.keys.get(word) {
            value(item, SchemaKey { name: word, within, given }, schema, forms, report)
        } else {
            match (meanings(here.schema, kind, word).as_slice(), kind) {
                ([schema, others @ ..], None) => {
                    // Keys without a valid kind are not read. Check those that have the same meaning in all kinds.
                    if others.iter().all(|other| name_of(other) == name_of(schema)) {
                        value(item, SchemaKey { name: word, within, given: true }, schema, forms, report);
                    }
                }
                ([_, ..], Some(kind)) => {
                    let problem = Problem::new(format!("unknown key `{word}` in {}", article(name(kind), here)));
                    let help =
                        format!("`{word}` is a key of {}; {}", list(&owners(word)), list_keys(kind, here.schema));
                    report.error(problem.at(key.span(), "").help(help));
                }
                _ => {
                    let problem = Problem::new(format!("unknown key `{word}` in {}", here.noun)).at(key.span(), "");
                    if report.is_crowded() {
                        report.error(problem);
                    } else {
                        let own: Vec<&str> = own().into_iter().collect();
                        report.error(problem.help(unknown(word, &own, root)));
                        meant.extend(nearest(word, own));
                    }
                }
            }
            false
        };
        if !keep {
            bad.push(word.to_owned());
        }
    }
    let has_key = |key: &str| inner.contains_key(key);
    let complete = form.required.iter().all(|(key, given_by)| has_key(key) || given_by.is_some_and(has_key));
    for of in [Some(here.schema), kind].into_iter().flatten().filter(|_| !complete && !here.partial) {
        for key in required(of) {
            let says = &of["properties"][key];
            let given = given_by(says).is_some_and(has_key);
            if has_key(key) || meant.contains(&key) || given {
                continue;
            }
            let what = kind.filter(|kind| has(kind, key) && says_kind);
            let what = what.map_or_else(|| here.noun.clone(), |kind| article(name(kind), here));
            let mut problem = Problem::new(format!("missing key `{key}` in {what}"));
            if let Some(span) = &here.span {
                problem = problem.at(span.clone(), format!("`{key}` is missing here"));
            }
            report.error(match shown(says, root) {
                Some(example) => problem.help(format!("add a line such as {key} = \"{example}\"")),
                None => match says["description"].as_str() {
                    Some(_) if key == "kind" => problem.help(format!(
                        "add `kind`: {}",
                        list(&kinds(here.schema).iter().map(name).collect::<Vec<_>>())
                    )),
                    Some(description) => problem.help(format!("add `{key}`: {}", description.trim_end_matches('.'))),
                    None => problem.help(format!("add a line such as {key} = {}", example(says, within, root))),
                },
            });
        }
    }
    for key in bad {
        inner.remove(key.as_str());
    }
    form.nest(inner, kind, here.span.clone().unwrap_or(0..0));
}

/// Returns the fault of a word that is not among the kinds `all`.
fn no_kind(word: &Spanned<DeValue<'_>>, all: &[&str]) -> Problem {
    let written = toml::Value::deserialize(ValueDeserializer::from(word.clone())).unwrap_or_else(|_| "".into());
    let fault = String::read(&written).map_or_else(|fault| fault, |text| unknown_word(&text, all));
    Problem { help: fault.help, ..Problem::new(fault.message) }.at(word.span(), "")
}

fn list_keys(kind: &Schema, table: &Schema) -> String {
    let (must, may): (Vec<&str>, Vec<&str>) =
        keys(kind).map(|(key, _)| key).partition(|key| required(kind).any(|k| k == *key));
    let own = [must, may].concat();
    let own = if own.is_empty() { "has no keys of its own".into() } else { format!("has {}", list(&own)) };
    let shared = keys(table).map(|(key, _)| key).filter(|key| *key != "kind" && required(table).all(|k| k != *key));
    let shared: Vec<&str> = shared.collect();
    let own = format!("`{}` {own}", name(kind));
    if shared.is_empty() { own } else { format!("{own}; every kind has {}", list(&shared)) }
}

/// Returns the description of a table, with its name if it has one.
fn noun(definition: &str, key: &str, inner: &DeTable<'_>) -> String {
    let name = inner.get("name").and_then(|n| n.get_ref().as_str());
    match (definition, name) {
        ("Node" | "Link" | "Flow" | "Gateway" | "Coverage", Some(name)) => format!("{key} `{name}`"),
        ("Node" | "Link" | "Flow" | "Gateway" | "Coverage", None) => format!("this {key}"),
        ("Tcp", _) => "[tcp]".into(),
        ("Sctp", _) => "[sctp]".into(),
        ("Noise", _) => "noise".into(),
        ("Step", _) => "a step of `steps`".into(),
        ("Station" | "Visit", Some(name)) => format!("station `{name}`"),
        ("Station" | "Visit", None) => "this station".into(),
        ("StationClass", _) => format!("class `{key}`"),
        ("Change", _) => "a change in the timeline".into(),
        _ => format!("`{key}`"),
    }
}

fn article(kind: &str, here: &Position<'_>) -> String {
    match here.definition {
        "Noise" => format!("noise of kind `{kind}`"),
        _ => format!("{} of kind `{kind}`", here.noun),
    }
}

fn name_span(inner: &DeTable<'_>) -> Option<Range<usize>> {
    inner.get("name").or_else(|| inner.get("kind")).map(Spanned::span)
}

/// Returns advice on a key that the table with the keys `known` does not have.
pub(super) fn unknown(key: &str, known: &[&str], root: &Schema) -> String {
    let elsewhere = ELSEWHERE.iter().find(|(_, name)| !meanings(&root["$defs"][*name], None, key).is_empty());
    match (elsewhere, nearest(key, known.iter().copied())) {
        (Some((place, _)), None) => format!("`{key}` is a key of {place}"),
        (Some((place, _)), Some(near)) => format!("`{key}` is a key of {place}; did you mean `{near}`?"),
        (None, _) => suggest(key, "use one of", known.iter().copied()),
    }
}

/// Tables to which misplaced keys may belong.
const ELSEWHERE: &[(&str, &str)] = &[
    ("[tcp]", "Tcp"),
    ("[[link]]", "Link"),
    ("[[gateway]]", "Gateway"),
    ("[[flow]]", "Flow"),
    ("`noise`", "Noise"),
    ("`mac` of an HD-PLC link", "HdplcMac"),
    ("`mac` of a Green PHY link", "GreenPhyMac"),
    ("`timeline`", "Timeline"),
];
