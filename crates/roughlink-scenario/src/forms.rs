//! Facts about the schema that the check of each table needs, gathered once: a large file has a million tables of the
//! same form. [`TableForm::nest`] turns a table as written into one that serde can read; [`super::kinds`] explains why.

use super::examine::examine;
use super::kinds::{IN, alternatives, given_by, keys, name, name_of, required, resolve};
use serde_json::Value as Schema;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::ptr;
use std::rc::Rc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The schema `root`, and the facts about its parts that were asked for.
pub(super) struct Forms<'s> {
    pub root: &'s Schema,
    values: RefCell<BTreeMap<*const Schema, ValueForm<'s>>>,
    tables: RefCell<BTreeMap<[*const Schema; 2], Rc<TableForm<'s>>>>,
}

/// Forms that the value of a key may have.
#[derive(Clone, Copy)]
pub(super) struct ValueForm<'s> {
    pub as_table: Option<&'s Schema>,
    pub as_list: Option<&'s Schema>,
    pub as_text: bool,
    /// True if all alternatives are forms of a single value, and none is a table of this file format.
    pub choice: bool,
    pub single: bool,
    pub is_noise: bool,
    /// Name of the definition, if the value has one.
    pub definition: Option<&'s str>,
    pub bounds: Bounds<'s>,
}

/// Keys of a table of one kind.
pub(super) struct TableForm<'s> {
    /// Schemas of the keys of the table and of its kind.
    pub keys: BTreeMap<&'s str, &'s Schema>,
    /// Required keys, each with the key that may provide its value.
    pub required: Vec<(&'s str, Option<&'s str>)>,
    /// Keys of the kind; `None` for a kind without keys.
    of_kind: Option<BTreeSet<&'s str>>,
    /// Keys common to all kinds that a field contains, with the field.
    fields: BTreeMap<&'s str, &'s str>,
    /// Keys of the kind that a field contains, with the field.
    fields_of_kind: BTreeMap<&'s str, &'s str>,
}

impl<'s> Forms<'s> {
    pub(super) fn new(root: &'s Schema) -> Self {
        Forms { root, values: RefCell::default(), tables: RefCell::default() }
    }

    /// Returns the forms of a value with this schema.
    pub(super) fn value(&self, schema: &'s Schema) -> ValueForm<'s> {
        *self.values.borrow_mut().entry(ptr::from_ref(schema)).or_insert_with(|| ValueForm::new(schema, self.root))
    }

    /// Returns the keys of a table with this schema and kind.
    pub(super) fn table(&self, table: &'s Schema, kind: Option<&'s Schema>) -> Rc<TableForm<'s>> {
        let place = [ptr::from_ref(table), kind.map_or(ptr::null(), ptr::from_ref)];
        let mut known = self.tables.borrow_mut();
        Rc::clone(known.entry(place).or_insert_with(|| Rc::new(TableForm::new(table, kind))))
    }
}

impl<'s> ValueForm<'s> {
    fn new(schema: &'s Schema, root: &'s Schema) -> Self {
        let all = alternatives(schema);
        let is = |kind: &str| all.iter().find(|s| resolve(s, root)["type"] == kind).copied();
        let (as_table, as_list) = (is("object"), is("array"));
        let choice = all.len() > 1 && all.iter().all(|s| name_of(s).is_none() && name_of(&s["items"]).is_none());
        ValueForm {
            as_table,
            as_list,
            as_text: all.iter().any(|s| s["type"] == "string"),
            choice,
            single: choice || (as_table.is_none() && as_list.is_none()),
            is_noise: as_table.is_some_and(|s| name_of(s) == Some("Noise")),
            definition: name_of(schema),
            bounds: Bounds::new(schema),
        }
    }
}

impl<'s> TableForm<'s> {
    fn new(table: &'s Schema, kind: Option<&'s Schema>) -> Self {
        let own = |of: &'s Schema| required(of).map(|key| (key, given_by(&of["properties"][key])));
        let fields = |of: &'s Schema| keys(of).filter_map(|(key, says)| Some((key, says[IN].as_str()?))).collect();
        TableForm {
            keys: kind.into_iter().chain([table]).flat_map(keys).collect(),
            required: [table].into_iter().chain(kind).flat_map(own).collect(),
            of_kind: kind
                .filter(|kind| kind.get("properties").is_some())
                .map(|of| keys(of).map(|(key, _)| key).collect()),
            fields: fields(table),
            fields_of_kind: kind.map(fields).unwrap_or_default(),
        }
    }

    /// Nests the keys of a table as in its struct. `here` is the place of the table.
    pub(super) fn nest(&self, written: &mut DeTable<'_>, kind: Option<&Schema>, here: Range<usize>) {
        gather(written, &self.fields);
        let (Some(kind), Some(keys)) = (kind, &self.of_kind) else { return };
        let place = written.get("kind").map_or(here, Spanned::span);
        let mut own = DeTable::new();
        for key in find_keys(written, |key| keys.get(key).copied()) {
            own.extend(written.remove_entry(key));
        }
        gather(&mut own, &self.fields_of_kind);
        let named = DeTable::from_iter([entry(name(kind), own, place.clone())]);
        written.remove("kind");
        written.extend([entry("kind", named, place)]);
    }
}

/// Moves keys into tables with the names of their fields.
fn gather(written: &mut DeTable<'_>, fields: &BTreeMap<&str, &str>) {
    for (key, field) in find_keys(written, |key| fields.get_key_value(key)) {
        let Some(taken) = written.remove_entry(*key) else { continue };
        if written.get(*field).is_none() {
            written.extend([entry(field, DeTable::new(), taken.1.span())]);
        }
        if let Some(DeValue::Table(inner)) = written.get_mut(*field).map(Spanned::get_mut) {
            inner.extend([taken]);
        }
    }
}

/// Applies `find` to the keys of a table, of which there are far fewer than in its form.
fn find_keys<T>(written: &DeTable<'_>, find: impl Fn(&str) -> Option<T>) -> Vec<T> {
    written.keys().filter_map(|key| find(key.get_ref())).collect()
}

type TableEntry<'t> = (Spanned<Cow<'t, str>>, Spanned<DeValue<'t>>);

fn entry<'t>(key: &str, table: DeTable<'t>, place: Range<usize>) -> TableEntry<'t> {
    (Spanned::new(place.clone(), Cow::Owned(key.to_owned())), Spanned::new(place, DeValue::Table(table)))
}

/// Bounds of a number or quantity, each with its amount.
#[derive(Clone, Copy)]
pub(super) struct Bounds<'s> {
    pub least: Option<(f64, &'s Schema)>,
    pub most: Option<(f64, &'s Schema)>,
    pub above: Option<(f64, &'s Schema)>,
    pub below: Option<(f64, &'s Schema)>,
}

impl<'s> Bounds<'s> {
    fn new(schema: &'s Schema) -> Self {
        let bound = |name: &str| {
            let bound = keyword(schema, name)?;
            let value = toml::Value::try_from(bound).ok()?;
            Some((examine(schema, &value).ok()??, bound))
        };
        Bounds {
            least: bound("minimum"),
            most: bound("maximum"),
            above: bound("exclusiveMinimum"),
            below: bound("exclusiveMaximum"),
        }
    }

    /// Returns true if the schema has no bounds.
    pub(super) fn is_empty(&self) -> bool {
        [self.least, self.most, self.above, self.below].iter().all(Option::is_none)
    }
}

/// Returns the value of a keyword of numbers, or of its form for quantities with a unit.
pub(super) fn keyword<'s>(schema: &'s Schema, name: &str) -> Option<&'s Schema> {
    schema.get(name).or_else(|| schema.get(format!("x-{name}")))
}
