//! The JSON Schema of scenario files, for editors and reference pages, and the form of a file for [`super::shape`].
//!
//! The form is what of the schema is needed to check a file: tables, keys, and which of them are tables and lists. To make the
//! schema takes longer than to read a file, so the form is kept in `form.json`, and a test holds it to the schema.

use super::file::{File, GIVEN_BY, KINDS, Kind, kinds, noise_names};
use super::shape::resolve;
use roughlink_core::tcp::Stack;
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
    // A link's `mac` is the one of its kind.
    let macs = schema["$defs"].as_object_mut().and_then(|all| all.remove("Mac")).unwrap_or_default();
    for link in schema["$defs"]["Link"]["oneOf"].as_array_mut().into_iter().flatten() {
        let title = link["title"].clone();
        if let Some(mac) = link["properties"].get_mut("mac")
            && let Some(own) = macs["oneOf"].as_array().into_iter().flatten().find(|one| one["title"] == title)
        {
            let description = mac["description"].take();
            *mac = own.clone();
            mac["description"] = description;
        }
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
        for (key, value) in super::tcp::preset(stack) {
            schema["$defs"]["Tcp"]["properties"][key]["x-default"][stack.name()] = value;
        }
    }
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
                .map(|(k, v)| (k.clone(), of_kind(v, kind.name)))
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

/// A key as `kind` has it: an annotation that is a table has a value per kind.
fn of_kind(key: &Value, kind: &str) -> Value {
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
                "$ref" | "type" | "required" | "minItems" | "const" => value.clone(),
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
