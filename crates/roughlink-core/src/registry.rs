//! Entries that scenario files refer to by name: [`crate::cc::REGISTRY`] and [`crate::gateway::REGISTRY`].

use std::sync::RwLock;

/// An entry with a name.
pub trait RegistryEntry {
    /// Returns the name in scenario files.
    fn name(&self) -> &'static str;
    /// Checks that the entry is valid.
    ///
    /// # Errors
    /// Returns the reason why the entry is invalid.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Entries of one kind, one registry per process. Entries are never removed, so callers may keep references to them.
pub struct Registry<T: 'static> {
    built_in: &'static [T],
    added: RwLock<Vec<&'static T>>,
}

/// Error of [`Registry::add`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Another entry has the name.
    #[error("name `{0}` is already in use")]
    Taken(&'static str),
    /// The entry is invalid.
    #[error("`{0}`: {1}")]
    Invalid(&'static str, String),
}

impl<T: RegistryEntry + 'static> Registry<T> {
    pub(crate) const fn new(built_in: &'static [T]) -> Self {
        Registry { built_in, added: RwLock::new(Vec::new()) }
    }

    /// Iterates over all entries: the built-in ones in their order, then the added ones.
    pub fn iter(&self) -> impl Iterator<Item = &'static T> + Clone + use<T> {
        let added = self.added.read().unwrap_or_else(|e| e.into_inner()).clone();
        self.built_in.iter().chain(added)
    }

    /// Returns the entry `name`.
    pub fn find(&self, name: &str) -> Option<&'static T> {
        self.iter().find(|entry| entry.name() == name)
    }

    /// Adds an entry for the lifetime of the process. Files read later can refer to it.
    ///
    /// # Errors
    /// Fails if the name is taken or the entry is invalid.
    pub fn add(&self, entry: T) -> Result<(), RegistryError> {
        entry.check().map_err(|reason| RegistryError::Invalid(entry.name(), reason))?;
        let mut added = self.added.write().unwrap_or_else(|e| e.into_inner());
        if self.built_in.iter().chain(added.iter().copied()).any(|other| other.name() == entry.name()) {
            return Err(RegistryError::Taken(entry.name()));
        }
        added.push(Box::leak(Box::new(entry)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestEntry(&'static str);

    impl RegistryEntry for TestEntry {
        fn name(&self) -> &'static str {
            self.0
        }
        fn check(&self) -> Result<(), String> {
            if self.0.is_empty() { Err("no name".into()) } else { Ok(()) }
        }
    }

    #[test]
    fn entries_are_added_once_and_found_by_name() {
        static ALL: Registry<TestEntry> = Registry::new(&[TestEntry("a")]);
        assert_eq!(ALL.add(TestEntry("a")), Err(RegistryError::Taken("a")));
        assert!(ALL.find("b").is_none());
        assert_eq!(ALL.add(TestEntry("b")), Ok(()));
        assert_eq!(ALL.add(TestEntry("b")), Err(RegistryError::Taken("b")));
        assert_eq!(ALL.add(TestEntry("")), Err(RegistryError::Invalid("", "no name".into())));
        assert_eq!(ALL.find("b").map(RegistryEntry::name), Some("b"));
        assert_eq!(ALL.iter().map(RegistryEntry::name).collect::<Vec<_>>(), ["a", "b"]);
    }
}
