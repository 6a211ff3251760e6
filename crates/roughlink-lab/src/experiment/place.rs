//! Places of cells in a grid. A large grid has a million of them, with few different texts.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Values of the axes at a cell, by name, in the order of the names. Cells share the texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellPlace(Box<[(Arc<str>, Arc<str>)]>);

impl CellPlace {
    /// Returns the value of an axis.
    pub fn get(&self, axis: &str) -> Option<&str> {
        self.iter().find(|(name, _)| *name == axis).map(|(_, value)| value)
    }

    /// Returns true if the place has a value of an axis.
    pub fn contains_key(&self, axis: &str) -> bool {
        self.get(axis).is_some()
    }

    /// Returns the axes with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Returns the names of the axes.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    /// Returns the values.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(_, value)| value)
    }

    /// Returns the place with the value of another axis.
    #[must_use]
    pub fn with(&self, axis: &str, value: &str) -> Self {
        self.0.iter().cloned().chain([(axis.into(), value.into())]).collect()
    }

    /// Returns the place without an axis.
    #[must_use]
    pub fn without(&self, axis: &str) -> Self {
        CellPlace(self.0.iter().filter(|(name, _)| **name != *axis).cloned().collect())
    }
}

/// Texts that places share.
#[derive(Debug, Default)]
pub(super) struct SharedTexts(HashSet<Arc<str>>);

impl SharedTexts {
    /// Returns a shared copy of `text`.
    pub(super) fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.0.insert(Arc::clone(&new));
        new
    }
}

impl<N: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(N, V)> for CellPlace {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(values: I) -> Self {
        // The last value of an axis applies.
        let all: BTreeMap<Arc<str>, Arc<str>> = values.into_iter().map(|(n, v)| (n.into(), v.into())).collect();
        CellPlace(all.into_iter().collect())
    }
}

impl<N: Into<Arc<str>>, V: Into<Arc<str>>, const COUNT: usize> From<[(N, V); COUNT]> for CellPlace {
    fn from(values: [(N, V); COUNT]) -> Self {
        values.into_iter().collect()
    }
}

impl Serialize for CellPlace {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for CellPlace {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(BTreeMap::<String, String>::deserialize(from)?.into_iter().collect())
    }
}

impl JsonSchema for CellPlace {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "CellPlace".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, String>::json_schema(generator)
    }
}
