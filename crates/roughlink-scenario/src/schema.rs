//! JSON Schema of scenario files, for editors and reference pages, and the form of a file for [`super::shape`].
//!
//! The form is the part of the schema that checks a file: tables, keys, their tables and lists, bounds and defaults.
//! Generating the schema takes longer than reading a file, so `form.json` stores the form; a test compares the two.

use super::file::ScenarioFile;
use super::kinds::{INTERNAL, as_written, given_by, has, is_complete, keys, kinds, name, name_of, required, resolve};
use super::noise::noise_names;
use roughlink_core::tcp::{Stack, TcpConfig};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::mem;
use std::sync::LazyLock;

pub(super) static FORM: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("form.json")).expect("a test reads it"));

/// Returns the schema of the tables as written: tables with kinds list them next to the keys common to all kinds.
fn flat() -> Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<ScenarioFile>().to_value();
    for_each_object(&mut schema, strip_null);
    for_each_object(&mut schema, strip_prefix);
    as_written(&mut schema);
    // The default depends on the profile.
    schema["$defs"]["GreenPhyMac"]["properties"]["max_pbs"].as_object_mut().and_then(|says| says.remove("default"));
    // The defaults depend on the stack.
    for (key, says) in schema["$defs"]["Tcp"]["properties"].as_object_mut().into_iter().flatten() {
        if !["stack", "cc"].contains(&key.as_str()) {
            says.as_object_mut().and_then(|says| says.remove("default"));
        }
    }
    schema
}

/// Returns the JSON Schema (draft 2020-12) of scenario files. In addition to standard keywords it has `x-default` for
/// defaults that depend on the stack, and `x-minimum`, `x-exclusiveMinimum` and `x-maximum` for quantities with a unit.
///
/// ```
/// let schema = roughlink_scenario::schema();
/// assert_eq!(schema["title"], "roughlink scenario");
///
/// let min_rto = &schema["$defs"]["Tcp"]["properties"]["min_rto"];
/// assert_eq!(min_rto["x-default"]["linux"], "200 ms");
/// assert_eq!(min_rto["x-default"]["rfc"], "1 s");
/// ```
pub fn schema() -> Value {
    let mut schema = flat();
    let names = noise_names(&schema);
    let complete =
        |name: &String| kinds(&schema["$defs"]["Noise"]).iter().find(|k| self::name(k) == name).is_none_or(is_complete);
    let complete: Vec<String> = names.into_iter().filter(complete).collect();
    let with_kinds: Vec<String> =
        keys_of(&schema["$defs"]).filter(|(_, table)| !kinds(table).is_empty()).map(|(name, _)| name.clone()).collect();
    for table in with_kinds {
        schema["$defs"][&table] = split(&schema["$defs"][&table], &schema);
    }
    // A noise that needs no further keys may be its name alone.
    if let Some(all) = schema["$defs"]["Noise"]["oneOf"].as_array_mut() {
        all.push(json!({ "title": "by name", "type": "string", "enum": complete }));
    }
    // The kinds that use these definitions already contain them (`in_place`).
    if let Some(definitions) = schema["$defs"].as_object_mut() {
        definitions.retain(|name, _| !OF_ONE_KIND.contains(&name.as_str()));
    }
    // A flow's `tcp` is the [tcp] table without the keys that stand on the flow itself.
    if let Some(tcp) = schema["$defs"]["Tcp"]["properties"].as_object().cloned() {
        let own: Map<_, _> = tcp.into_iter().filter(|(key, _)| !super::tcp::ON_THE_FLOW.contains(&&**key)).collect();
        schema["$defs"]["FlowTcp"] = json!({ "type": "object", "properties": own, "additionalProperties": false });
        for flow in schema["$defs"]["Flow"]["oneOf"].as_array_mut().into_iter().flatten() {
            if let Some(tcp) = flow["properties"].get_mut("tcp") {
                tcp["$ref"] = "#/$defs/FlowTcp".into();
            }
        }
    }
    for stack in Stack::ALL {
        let preset = serde_json::to_value(TcpConfig::preset(stack)).expect("plain values");
        for (key, value) in preset.as_object().into_iter().flatten().filter(|(key, _)| *key != "stack") {
            schema["$defs"]["Tcp"]["properties"][key]["x-default"][stack.name()] = value.clone();
        }
    }
    for_each_object(&mut schema, remove_internal);
    schema["title"] = "roughlink scenario".into();
    schema
}

/// Returns one alternative per kind, each with its own keys only.
fn split(table: &Value, root: &Value) -> Value {
    let must_say = required(table).any(|key| key == "kind");
    let alternatives: Vec<Value> = kinds(table)
        .iter()
        .enumerate()
        .map(|(i, kind)| {
            let all = keys(table).chain(keys(kind)).filter(|(key, _)| *key != "kind");
            let mut own: Map<String, Value> = all.map(|(key, says)| (key.to_owned(), in_place(says, root))).collect();
            let mut word = json!({ "const": name(kind) });
            if i == 0 && !must_say {
                word["default"] = name(kind).into();
            }
            own.insert("kind".into(), word);
            let kind_too = (!must_say && i > 0).then_some("kind"); // the first may leave it out
            let wanted = required(table).chain(required(kind)).chain(kind_too);
            let by = |key: &str| given_by(&kind["properties"][key]);
            let (always, unless): (Vec<&str>, Vec<&str>) = wanted.partition(|key| by(key).is_none());
            let mut one = json!({ "title": name(kind), "type": "object", "properties": own, "required": always,
                "additionalProperties": false });
            if kind["description"].is_string() {
                one["description"] = kind["description"].clone();
            }
            if let Some(by) = unless.iter().find_map(|key| by(key)).filter(|by| has(kind, by)) {
                one["anyOf"] = json!([{ "required": unless }, { "required": [by] }]);
            }
            one
        })
        .collect();
    json!({ "description": table["description"], "oneOf": alternatives })
}

/// Definitions that each belong to a single kind of a table.
const OF_ONE_KIND: [&str; 2] = ["HdplcMac", "GreenPhyMac"];

/// Returns the schema of a key; a definition that only its kind refers to is inserted.
fn in_place(key: &Value, root: &Value) -> Value {
    if name_of(key).is_none_or(|name| !OF_ONE_KIND.contains(&name)) {
        return key.clone();
    }
    let mut own = resolve(key, root).clone();
    own["description"] = key["description"].clone();
    own
}

fn keys_of(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

/// Removes keywords for the check of the form only: Rust's names of integers, whose bounds are given, and [`INTERNAL`].
fn remove_internal(object: &mut Map<String, Value>) {
    // `format` is a keyword if its value is a text. Otherwise it is the schema of a key of this name.
    object.retain(|key, value| key != "format" || !value.is_string());
    INTERNAL.iter().for_each(|keyword| drop(object.remove(*keyword)));
}

/// Names each definition after its table: `Pipe`, not `TomlPipe`.
fn strip_prefix(object: &mut Map<String, Value>) {
    if let Some(Value::String(name)) = object.get_mut("$ref") {
        *name = name.replacen("/Toml", "/", 1);
    }
    if let Some(Value::Object(definitions)) = object.get_mut("$defs") {
        let named = mem::take(definitions).into_iter();
        *definitions = named.map(|(name, says)| (name.trim_start_matches("Toml").to_owned(), says)).collect();
    }
}

/// Removes null, which TOML does not have: an optional key may be absent.
fn strip_null(object: &mut Map<String, Value>) {
    if let Some(Value::Array(words)) = object.get_mut("enum") {
        words.retain(|w| !w.is_null());
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|t| t != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(any)) = object.get_mut("anyOf") {
        any.retain(|one| one["type"] != "null");
        if any.len() == 1
            && let Some(Value::Object(only)) = any.pop()
        {
            object.remove("anyOf");
            object.extend(only);
        }
    }
}

/// Applies `change` to every object of a schema, the inner ones first.
fn for_each_object(schema: &mut Value, change: fn(&mut Map<String, Value>)) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(|inner| for_each_object(inner, change)),
        Value::Object(object) => {
            object.values_mut().for_each(|inner| for_each_object(inner, change));
            change(object);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    /// Returns the part of a schema that [`super::super::shape`] and [`super::super::set`] read.
    fn form(schema: &Value) -> Value {
        let Some(object) = schema.as_object() else { return schema.clone() };
        let all = |of: &Value| of.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), form(v))).collect();
        let keep = |(keyword, value): (&String, &Value)| {
            let value = match keyword.as_str() {
                "$ref" | "type" | "required" | "minItems" | "const" | "default" => value.clone(),
                "format" | "x-given" if !value.is_object() => value.clone(),
                "name" | "x-in" | "x-excludes" | "x-given-by" | "x-needs-one" | "x-within" if !value.is_object() => {
                    value.clone()
                }
                "x-kinds" => value.as_array()?.iter().map(form).collect(),
                bound if bound.to_lowercase().ends_with("minimum") || bound.to_lowercase().ends_with("maximum") => {
                    value.clone()
                }
                "oneOf" => json!([]), // only marks that there is a choice
                "examples" => json!(value.as_array()?.get(..1)?),
                "anyOf" => value.as_array()?.iter().map(form).collect(),
                "items" => form(value),
                "additionalProperties" if value.is_object() => form(value),
                "properties" | "$defs" => Value::Object(all(value)),
                _ => return None,
            };
            Some((keyword.clone(), value))
        };
        let mut kept: Map<_, _> = object.iter().filter_map(keep).collect();
        // Keep the descriptions of required keys for the message about a missing key.
        let demanded = |key: &str| required(schema).any(|wanted| wanted == key);
        for (key, own) in kept.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            let description = &object["properties"][key]["description"];
            if demanded(key) && description.is_string() {
                own["description"] = description.clone();
            }
        }
        Value::Object(kept)
    }

    /// Writes JSON with a line for each definition.
    fn lines(form: &Value) -> String {
        let mut text = String::from("{\n");
        for (keyword, value) in form.as_object().unwrap().iter().filter(|(keyword, _)| *keyword != "$defs") {
            writeln!(text, "\"{keyword}\":{value},").unwrap();
        }
        let definitions = form["$defs"].as_object().unwrap().iter().map(|(name, one)| format!("\"{name}\":{one}"));
        text + "\"$defs\":{\n" + &definitions.collect::<Vec<_>>().join(",\n") + "\n}}\n"
    }

    #[test]
    fn form_matches_the_schema() {
        let made = lines(&form(&flat()));
        if made == include_str!("form.json") {
            assert_eq!(*FORM, form(&flat()));
            return;
        }
        if std::env::var("INSTA_UPDATE").is_ok_and(|how| how == "always") {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/form.json"), made).unwrap();
        }
        panic!("form.json was out of date; INSTA_UPDATE=always cargo test rewrites it");
    }
}
