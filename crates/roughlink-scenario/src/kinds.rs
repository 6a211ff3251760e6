//! Tables that are flat in the file but nested in structs: keys of one kind next to keys of all kinds, and keys that
//! several tables share.
//!
//! In the structs of a file, the kinds of a table are the variants of an enum, each a struct with the keys of its kind.
//! Keys that several tables share are a struct. The field that holds such an enum or struct is marked with [`FLAT`].
//! [`as_written`] converts the schema of these structs into the schema of the tables as written. The conversion merges
//! the keys of the inner struct into the outer one, and lists the keys of each kind under [`KINDS`]. After the schema
//! check, `forms` reverses this in a table, so that serde can read it as derived. Serde's `tag` and `flatten` would
//! lose the places of the values.

use serde_json::{Map, Value as Schema, json};
use std::collections::BTreeSet;

/// Marks a field whose keys are written directly in the enclosing table.
const FLAT: &str = "x-flat";
/// Kinds of a table, each with name, description and keys. The first is the default of tables that may omit their kind.
const KINDS: &str = "x-kinds";
/// Field that contains a key.
pub(super) const IN: &str = "x-in";
/// Keys that exclude the key which stores this list.
const EXCLUDES: &str = "x-excludes";
/// Key that may provide the value of an absent required key; the resolver checks it.
const GIVEN_BY: &str = "x-given-by";
/// Marks a kind that needs at least one of its keys; the resolver checks it.
const NEEDS_ONE: &str = "x-needs-one";
/// Kind that the enclosing table must have for this kind; the resolver checks it, and examples use it.
pub(super) const WITHIN: &str = "x-within";

/// Marks definitions of tables whose keys are set over a plain struct.
pub(super) const GIVEN: &str = "x-given";

/// Keywords that only the schema check needs.
pub(super) const INTERNAL: [&str; 4] = [IN, EXCLUDES, GIVEN_BY, GIVEN];

/// Returns the definition in `root` that a schema refers to, or the schema itself.
pub fn resolve<'s>(schema: &'s Schema, root: &'s Schema) -> &'s Schema {
    match name_of(schema) {
        Some(name) => &root["$defs"][name],
        None => schema,
    }
}

/// Returns the name of the definition that a schema refers to.
pub(super) fn name_of(schema: &Schema) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/")
}

pub(super) fn kinds(table: &Schema) -> &[Schema] {
    table[KINDS].as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn name(kind: &Schema) -> &str {
    kind["name"].as_str().unwrap_or_default()
}

/// Returns the keys common to all kinds of a table, or the keys of one kind.
pub(super) fn keys(of: &Schema) -> impl Iterator<Item = (&str, &Schema)> {
    of["properties"].as_object().into_iter().flatten().map(|(key, says)| (key.as_str(), says))
}

/// Returns true if a table or kind directly has a key.
pub(super) fn has(of: &Schema, key: &str) -> bool {
    of["properties"].get(key).is_some()
}

pub(super) fn required(of: &Schema) -> impl Iterator<Item = &str> {
    of["required"].as_array().into_iter().flatten().filter_map(Schema::as_str)
}

/// Returns the key that may give the value of a required one.
pub(super) fn given_by(key: &Schema) -> Option<&str> {
    key[GIVEN_BY].as_str()
}

/// Returns true if a table of this kind needs no further keys.
pub(super) fn is_complete(kind: &Schema) -> bool {
    required(kind).next().is_none() && kind.get(NEEDS_ONE).is_none()
}

/// Returns the kind of a table that states kind `word` or no kind.
pub(super) fn chosen<'s>(table: &'s Schema, word: Option<&str>) -> Option<&'s Schema> {
    match word {
        Some(word) => kinds(table).iter().find(|kind| name(kind) == word),
        None => kinds(table).first().filter(|_| required(table).all(|key| key != "kind")),
    }
}

/// Returns the schemas of `key` in the table's kind, or else in all kinds.
pub(super) fn meanings<'s>(table: &'s Schema, kind: Option<&'s Schema>, key: &str) -> Vec<&'s Schema> {
    let own = [Some(table), kind].into_iter().flatten().find_map(|of| of["properties"].get(key));
    own.map_or_else(|| kinds(table).iter().filter_map(|kind| kind["properties"].get(key)).collect(), |own| vec![own])
}

/// Returns the keys that exclude `key` in a table of `kind`.
pub(super) fn excluded<'s>(table: &'s Schema, kind: Option<&'s Schema>, key: &str) -> Vec<&'s str> {
    let lists =
        |says: &Schema, other: &str| says[EXCLUDES].as_array().is_some_and(|all| all.iter().any(|k| k == other));
    // The kind may be about to change if the key belongs to another kind.
    let kind = kind.filter(|kind| has(table, key) || has(kind, key));
    let all = || {
        let of = kind.map_or_else(|| kinds(table).iter().collect(), |kind| vec![kind]);
        [table].into_iter().chain(of).flat_map(keys)
    };
    let own = all().find(|(name, _)| *name == key).map(|(_, says)| says);
    let either = |(name, says): &(&str, &Schema)| lists(says, key) || own.is_some_and(|own| lists(own, name));
    all().filter(either).map(|(name, _)| name).collect()
}

pub(super) fn as_written(schema: &mut Schema) {
    let mut inner = BTreeSet::new();
    let names: Vec<String> = schema["$defs"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    for name in names {
        schema["$defs"][&name] = unfolded(&schema["$defs"][&name], schema, &mut inner);
    }
    if let Some(definitions) = schema["$defs"].as_object_mut() {
        definitions.retain(|name, _| !inner.contains(name));
    }
}

/// Returns a table with the keys of fields marked with [`FLAT`]; adds the names of merged definitions to `inner`.
fn unfolded(table: &Schema, root: &Schema, inner: &mut BTreeSet<String>) -> Schema {
    let mut out = table.clone();
    for (field, says) in keys(table).filter(|(_, says)| says.get(FLAT).is_some()) {
        let held = resolve(says, root);
        inner.extend(name_of(says).map(str::to_owned));
        if let Some(words) = held["oneOf"].as_array() {
            let mut word = json!({ "type": "string", "description": says["description"] });
            if let Some(default) = says.get("default") {
                word["default"] = default.clone();
            }
            out["properties"][field] = word;
            out[KINDS] = words.iter().map(|word| kind(word, root, inner)).collect();
            continue;
        }
        let held = unfolded(held, root, inner);
        let mut all: Map<String, Schema> = out["properties"].as_object().cloned().unwrap_or_default();
        all.remove(field);
        for (key, says) in keys(&held) {
            let mut says = says.clone();
            says[IN] = field.into();
            all.insert(key.to_owned(), says);
        }
        out["properties"] = all.into();
        let wanted: Vec<String> =
            required(&out).filter(|key| *key != field).chain(required(&held)).map(str::to_owned).collect();
        if !wanted.is_empty() {
            out["required"] = wanted.into();
        }
        if held.get(GIVEN).is_some() {
            out[GIVEN] = true.into();
        }
    }
    out
}

/// Returns an entry of [`KINDS`], from the variant of an enum.
fn kind(word: &Schema, root: &Schema, inner: &mut BTreeSet<String>) -> Schema {
    let mut out = json!({ "name": word["const"], "description": word["description"] });
    if let Some((name, held)) = keys(word).next() {
        inner.extend(name_of(held).map(str::to_owned));
        let held = unfolded(resolve(held, root), root, inner);
        out["name"] = name.into();
        for keyword in ["properties", "required", NEEDS_ONE, WITHIN] {
            if let Some(value) = held.get(keyword) {
                out[keyword] = value.clone();
            }
        }
    }
    out
}

/// Returns the alternatives of a schema, or the schema itself.
pub(super) fn alternatives(schema: &Schema) -> Vec<&Schema> {
    match schema["anyOf"].as_array() {
        Some(any) => any.iter().collect(),
        None => vec![schema],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forms::Forms;
    use crate::leaf::{At, Leaf};
    use crate::problem::Problems;
    use crate::schema::FORM;
    use crate::shape;
    use schemars::JsonSchema;
    use serde::Deserialize;
    use toml::de::Deserializer;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct File {
        table: At<Table>,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Table {
        name: Option<Leaf<String>>,
        #[schemars(required, extend("x-flat" = true))]
        kind: Option<At<Kind>>,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        /// Nothing.
        None,
        /// One thing.
        One(One),
        /// Another.
        #[allow(dead_code, reason = "it is only written wrongly")]
        Other(Other),
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct One {
        #[schemars(required, extend("x-excludes" = ["b"]))]
        a: Option<Leaf<u64>>,
        b: Option<Leaf<bool>>,
        #[serde(default)]
        #[schemars(extend("x-flat" = true))]
        shared: Shared,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "it is only written wrongly")]
    struct Other {
        #[schemars(required)]
        c: Option<Leaf<u64>>,
        #[serde(default)]
        #[schemars(extend("x-flat" = true))]
        shared: Shared,
    }

    #[derive(Debug, Default, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Shared {
        d: Option<Leaf<u64>>,
    }

    fn form() -> Schema {
        let mut schema = schemars::SchemaGenerator::default().into_root_schema_for::<File>().to_value();
        as_written(&mut schema);
        schema
    }

    /// Returns the value read, and the messages.
    fn read(text: &str) -> (Option<Kind>, Vec<String>) {
        let mut report = Problems::default();
        let mut document = toml::de::DeTable::parse(text).unwrap();
        shape::check(&mut document, &Forms::new(&form()), &mut report);
        let file = File::deserialize(Deserializer::from(document)).unwrap();
        assert_eq!(file.table.value.name.unwrap().value.as_deref(), Ok("n"));
        let said = report.problems.iter().map(|p| format!("{}; {}", p.message, p.help.clone().unwrap_or_default()));
        (file.table.value.kind.map(|kind| kind.value), said.collect())
    }

    #[test]
    fn keys_of_a_kind_mix_with_shared_keys() {
        let text = "[table]\nd = 4\nkind = \"one\"\nname = \"n\"\na = 1\n";
        let (Some(Kind::One(one)), said) = read(text) else { panic!("it is of kind `one`") };
        assert_eq!((said, one.a.as_ref().unwrap().value.clone()), (vec![], Ok(1)));
        let d = one.shared.d.unwrap();
        assert_eq!((d.value, &text[d.span]), (Ok(4), "4"), "its place is that in the file");
        assert!(one.b.is_none());
        assert!(
            matches!(read("table = { name = \"n\", kind = \"none\" }"), (Some(Kind::None), said) if said.is_empty())
        );
    }

    #[test]
    fn keys_of_other_kinds_are_refused() {
        for (keys, wanted) in [
            ("kind = \"other\", c = 1, a = 1", "`a` is a key of `one`; `other` has `c`, `d`; every kind has `name`"),
            (
                "kind = \"none\", d = 1",
                "`d` is a key of `one`, `other`; `none` has no keys of its own; every kind has `name`",
            ),
            ("kind = \"one\"", "missing key `a` in `table` of kind `one`"),
            ("kind = \"one\", a = 1, e = 1", "unknown key `e` in `table`; did you mean `a`?"),
            (
                "kind = \"ohter\", c = 1",
                "unknown value `ohter`; expected one of `none`, `one`, `other`; did you mean `other`?",
            ),
            ("kind = 3", "expected a string, found the number 3; write \"3\""),
            ("kind = \"ohter\", c = \"x\"", "expected a whole number"),
            ("c = 1", "missing key `kind` in `table`"),
        ] {
            let (_, said) = read(&format!("table = {{ name = \"n\", {keys} }}"));
            assert!(said.iter().any(|said| said.contains(wanted)), "{keys}: {said:#?}");
        }
    }

    #[test]
    fn keys_exclude_each_other_in_both_directions() {
        let form = form();
        let table = &form["$defs"]["Table"];
        let one = chosen(table, Some("one"));
        assert_eq!((excluded(table, one, "a"), excluded(table, one, "b")), (vec!["b"], vec!["a"]));
        assert_eq!(excluded(table, one, "d"), Vec::<&str>::new());
    }

    #[test]
    fn keys_are_unique_in_a_table() {
        for (name, table) in FORM["$defs"].as_object().unwrap() {
            for kind in kinds(table) {
                let twice: Vec<&str> = keys(kind).map(|(key, _)| key).filter(|key| has(table, key)).collect();
                assert!(twice.is_empty(), "{name} of kind {}: {twice:?}", super::name(kind));
                let fields: BTreeSet<&str> = keys(kind).filter_map(|(_, says)| says[IN].as_str()).collect();
                assert!(fields.iter().all(|field| !has(kind, field) && !has(table, field)), "{name}: {fields:?}");
            }
        }
    }
}
