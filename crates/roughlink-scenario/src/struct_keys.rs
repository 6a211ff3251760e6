//! Tables whose keys are the fields of a plain struct in core, which defines help, bounds and defaults. The written
//! values keep their places in the file; [`super::shape`] has checked them against the struct's schema. They then
//! override the values of a stack, or the defaults.

use super::kinds::GIVEN;
use super::problem::{Problem, Problems};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use toml::{Spanned, Table, Value};

/// The keys of `T` that a table has.
#[derive(Clone, Debug)]
pub(super) struct StructKeys<T> {
    keys: Vec<(Spanned<String>, Spanned<Value>)>,
    of: PhantomData<T>,
}

impl<T> Default for StructKeys<T> {
    fn default() -> Self {
        StructKeys { keys: Vec::new(), of: PhantomData }
    }
}

impl<T> StructKeys<T> {
    pub(crate) fn span(&self, key: &str) -> Option<Range<usize>> {
        self.keys.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value.span())
    }

    pub(crate) fn get<V: DeserializeOwned>(&self, key: &str) -> Option<V> {
        let (_, value) = self.keys.iter().find(|(name, _)| name.get_ref() == key)?;
        value.get_ref().clone().try_into().ok()
    }
}

impl<T> fmt::Display for StructKeys<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.keys.iter().try_for_each(|(key, value)| writeln!(f, "{} = {}", key.get_ref(), value.get_ref()))
    }
}

impl<T: Serialize + DeserializeOwned> StructKeys<T> {
    /// Overrides `values` with the written ones.
    pub(crate) fn apply(&self, values: &mut T, report: &mut Problems) {
        if let Err(reason) = over(values, self.written()) {
            self.report(reason, report);
        }
    }

    /// Overrides `values` with the written ones by [`over_defaults`].
    pub(crate) fn apply_to_defaults(&self, values: &mut T, report: &mut Problems)
    where
        T: Default + PartialEq,
    {
        if let Err(reason) = over_defaults(values, self.written()) {
            self.report(reason, report);
        }
    }

    fn written(&self) -> impl Iterator<Item = (String, Value)> {
        self.keys.iter().map(|(key, value)| (key.get_ref().clone(), value.get_ref().clone()))
    }

    /// Reports a fault that the schema check misses.
    fn report(&self, reason: String, report: &mut Problems) {
        let place = self.keys.first().map_or(0..0, |(_, value)| value.span());
        report.error(Problem::new(reason).at(place, ""));
    }
}

/// Parameters of an algorithm, which defines their names.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Params(pub BTreeMap<Spanned<String>, Spanned<Value>>);

impl JsonSchema for Params {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Params".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

pub(super) fn over<T: Serialize + DeserializeOwned>(
    values: &mut T,
    keys: impl IntoIterator<Item = (String, Value)>,
) -> Result<(), String> {
    let keys: Table = keys.into_iter().collect();
    if keys.is_empty() {
        return Ok(());
    }
    let mut all = Table::try_from(&*values).map_err(|e| e.to_string())?;
    all.extend(keys);
    *values = read(all)?;
    Ok(())
}

/// Like [`over`], for a struct whose absent fields have their defaults when it is read. If `values` are the defaults,
/// their fields are neither written nor read, which takes most of the time.
pub(super) fn over_defaults<T: Default + PartialEq + Serialize + DeserializeOwned>(
    values: &mut T,
    keys: impl IntoIterator<Item = (String, Value)>,
) -> Result<(), String> {
    if *values != T::default() {
        return over(values, keys);
    }
    *values = read(keys.into_iter().collect())?;
    Ok(())
}

fn read<T: DeserializeOwned>(keys: Table) -> Result<T, String> {
    keys.try_into().map_err(|e: toml::de::Error| e.message().to_owned())
}

impl<'de, T> Deserialize<'de> for StructKeys<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys<T>(PhantomData<T>);
        impl<'de, T> Visitor<'de> for Keys<T> {
            type Value = StructKeys<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StructKeys<T>, A::Error> {
                let mut keys = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    keys.push(entry);
                }
                Ok(StructKeys { keys, of: PhantomData })
            }
        }
        deserializer.deserialize_map(Keys(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for StructKeys<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = T::json_schema(generator);
        schema.insert(GIVEN.into(), true.into());
        schema
    }
}
