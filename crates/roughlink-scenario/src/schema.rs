//! The JSON Schema of scenario files, for editors and reference pages, and the form of a file for [`super::shape`].
//!
//! The form is what of the schema is needed to check a file: tables, keys, which of them are tables and lists, bounds and
//! defaults. To make the schema takes longer than to read a file, so the form is kept in `form.json`, and a test holds it to the schema.

use super::file::{File, GIVEN_BY, KINDS, Kind, kinds, noise_names};
use super::shape::resolve;
use roughlink_core::tcp::{Stack, TcpConfig};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// The form of a scenario file.
pub(super) static FORM: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("form.json")).expect("a test reads it"));

/// The schema as the structs of [`super::file`] give it: tables with kinds list the keys of all of them.
fn flat() -> Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<File>().to_value();
    strip_null(&mut schema);
    // It depends on the profile.
    schema["$defs"]["GreenPhyMac"]["properties"]["max_pbs"].as_object_mut().and_then(|says| says.remove("default"));
    // They depend on the stack.
    for (key, says) in schema["$defs"]["Tcp"]["properties"].as_object_mut().into_iter().flatten() {
        if !["stack", "cc"].contains(&key.as_str()) {
            says.as_object_mut().and_then(|says| says.remove("default"));
        }
    }
    schema
}

/// JSON Schema (draft 2020-12) of scenario files. Beside the keywords of the standard it has `x-default` for defaults that
/// depend on the stack, and `x-minimum`, `x-exclusiveMinimum` and `x-maximum` for quantities with a unit.
pub fn schema() -> Value {
    let mut schema = flat();
    for (table, kinds) in KINDS {
        schema["$defs"][*table] = split(table, &schema, kinds);
    }
    // A noise that needs no further keys may be its name alone.
    if let Some(all) = schema["$defs"]["Noise"]["oneOf"].as_array_mut() {
        let complete = |name: &String| kinds("Noise").iter().find(|k| k.name == name).is_none_or(Kind::is_complete);
        let names: Vec<String> = noise_names().into_iter().filter(complete).collect();
        all.push(json!({ "title": "by name", "type": "string", "enum": names }));
    }
    // They stand in the links of their kinds.
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
    remove_internal(&mut schema);
    schema["title"] = "roughlink scenario".into();
    schema
}

/// One alternative per kind, each with its keys only.
fn split(name: &str, root: &Value, kinds: &[Kind]) -> Value {
    let table = &root["$defs"][name];
    let words = table["properties"].get("kind").map(|kind| resolve(kind, root)["oneOf"].clone());
    let words = words.unwrap_or_default();
    let keys = table["properties"].as_object().cloned().unwrap_or_default();
    let required = table["required"].as_array().cloned().unwrap_or_default();
    let says_kind = keys.contains_key("kind");
    let must_say = required.contains(&json!("kind"));
    let alternatives: Vec<Value> = kinds
        .iter()
        .enumerate()
        .map(|(i, kind)| {
            let shared = |key: &str| !kinds.iter().any(|k| k.has(key));
            let mut own: Map<String, Value> = keys
                .iter()
                .filter(|(key, _)| kind.has(key) || shared(key))
                .map(|(k, v)| (k.clone(), annotated(v, kind.name, root)))
                .collect();
            if says_kind {
                let mut word = json!({ "const": kind.name });
                if i == 0 && !must_say {
                    word["default"] = kind.name.into();
                }
                own.insert("kind".into(), word);
            }
            let kind_too = (says_kind && !must_say && i > 0).then_some(&"kind"); // the first may leave it out
            let more = kind.required.iter().chain(kind_too).map(|key| json!(key));
            let given_by = |key: &Value| GIVEN_BY.iter().find(|(t, k, _)| *t == name && key == k).map(|given| given.2);
            let (always, unless): (Vec<Value>, Vec<Value>) =
                required.iter().cloned().chain(more).partition(|key| given_by(key).is_none());
            let mut one = json!({ "title": kind.name, "type": "object", "properties": own, "required": always,
                "additionalProperties": false });
            let word = words.as_array().into_iter().flatten().find(|word| word["const"] == kind.name);
            if let Some(description) = word.map(|word| &word["description"]).filter(|text| text.is_string()) {
                one["description"] = description.clone();
            }
            if let Some(by) = unless.iter().find_map(given_by).filter(|by| kind.has(by)) {
                one["anyOf"] = json!([{ "required": unless }, { "required": [by] }]);
            }
            one
        })
        .collect();
    json!({ "description": table["description"], "oneOf": alternatives })
}

/// Marks definitions of tables whose keys are set over a plain struct, see [`super::given`].
pub(super) const GIVEN: &str = "x-given";

/// Definitions of which each belongs to one kind of a table.
const OF_ONE_KIND: [&str; 2] = ["HdplcMac", "GreenPhyMac"];

/// The schema of a key in a table of `kind`, if each kind has one of its own.
pub(super) fn of_kind<'s>(key: &'s Value, kind: Option<&str>) -> &'s Value {
    kind.and_then(|kind| key.get("x-of-kind")?.get(kind)).unwrap_or(key)
}

/// A key as `kind` has it: an annotation that is a table has a value per kind.
fn annotated(key: &Value, kind: &str, root: &Value) -> Value {
    if key.get("x-of-kind").is_some() {
        let mut own = resolve(of_kind(key, Some(kind)), root).clone();
        own["description"] = key["description"].clone();
        return own;
    }
    let mut key = key.clone();
    let Some(annotations) = key.as_object_mut() else { return key };
    let by_kind = |(name, value): &(&String, &Value)| name.starts_with("x-") && value.is_object();
    let names: Vec<String> = annotations.iter().filter(by_kind).map(|(name, _)| name.clone()).collect();
    for name in names {
        if let Some(own) = annotations.remove(&name).and_then(|mut all| all.as_object_mut()?.remove(kind)) {
            annotations.insert(if name == "x-default" { "default".to_owned() } else { name }, own);
        }
    }
    key
}

/// Removes what only the check of the form needs: Rust's names of integers, whose bounds say which there are, and [`GIVEN`].
fn remove_internal(schema: &mut Value) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(remove_internal),
        Value::Object(object) => {
            // It is a keyword where its value is a text; a key of that name has a schema.
            object.retain(|key, value| key != "format" || !value.is_string());
            object.remove(GIVEN);
            object.values_mut().for_each(remove_internal);
        }
        _ => {}
    }
}

/// TOML has no null: an optional key is one that may be absent.
fn strip_null(schema: &mut Value) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(strip_null),
        Value::Object(object) => {
            object.values_mut().for_each(strip_null);
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
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    /// What [`super::super::shape`] and [`super::super::set`] read of a schema.
    fn form(schema: &Value) -> Value {
        let Some(object) = schema.as_object() else { return schema.clone() };
        let all = |of: &Value| of.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), form(v))).collect();
        let keep = |(keyword, value): (&String, &Value)| {
            let value = match keyword.as_str() {
                "$ref" | "type" | "required" | "minItems" | "const" | "default" | "x-default" => value.clone(),
                "format" | "x-given" if !value.is_object() => value.clone(),
                bound if bound.to_lowercase().ends_with("minimum") || bound.to_lowercase().ends_with("maximum") => {
                    value.clone()
                }
                "x-of-kind" => Value::Object(all(value)),
                "oneOf" => json!([]), // that there is a choice
                "examples" => json!(value.as_array()?.get(..1)?),
                "anyOf" => value.as_array()?.iter().map(form).collect(),
                "items" => form(value),
                "properties" | "$defs" => Value::Object(all(value)),
                _ => return None,
            };
            Some((keyword.clone(), value))
        };
        let mut kept: Map<_, _> = object.iter().filter_map(keep).collect();
        // A key that is missing is explained.
        let demanded = |key: &str| {
            object.get("required").and_then(Value::as_array).is_some_and(|all| all.contains(&json!(key)))
                || KINDS.iter().any(|(_, kinds)| kinds.iter().any(|kind| kind.required.contains(&key)))
        };
        for (key, own) in kept.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            let description = &object["properties"][key]["description"];
            if demanded(key) && description.is_string() {
                own["description"] = description.clone();
            }
        }
        Value::Object(kept)
    }

    /// As JSON, a line for each definition.
    fn lines(form: &Value) -> String {
        let mut text = String::from("{\n");
        for (keyword, value) in form.as_object().unwrap().iter().filter(|(keyword, _)| *keyword != "$defs") {
            writeln!(text, "\"{keyword}\":{value},").unwrap();
        }
        let definitions = form["$defs"].as_object().unwrap().iter().map(|(name, one)| format!("\"{name}\":{one}"));
        text + "\"$defs\":{\n" + &definitions.collect::<Vec<_>>().join(",\n") + "\n}}\n"
    }

    #[test]
    fn the_form_is_that_of_the_schema() {
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
