//! Words out of a fixed list: the variants of an enum as serde names them.

use super::{Check, Read, check, fault};
use crate::absent::absent;
use crate::problem::{list, nearest};
use roughlink_core::app::request::{ChargingMode, LimitPolicy};
use roughlink_core::app::voip::{Codec, EModel, ReferencePacket};
use roughlink_core::link::greenphy::PriorityClass;
use roughlink_core::link::hdplc::Duplex;
use roughlink_core::link::jitter::Distribution;
use roughlink_core::link::noise::impulses::MeasuredClass;
use roughlink_core::tcp::{CwndLimited, FrOffUntil, LossRecovery, RecoveryGrowth, ResendHead, RtoFloor, Stack};
use roughlink_core::units::UnitError;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use toml::Value;

/// Implements `Read` for words.
macro_rules! words {
    ($($name:ident),* $(,)?) => {
        $(impl $crate::leaf::Read for $name {
            const NAME: &'static str = stringify!($name);
            fn read(value: &toml::Value) -> Result<Self, roughlink_core::units::UnitError> {
                $crate::leaf::word(value)
            }
            fn schema() -> schemars::Schema {
                $crate::leaf::alone::<$name>()
            }
        })*
    };
}
pub(crate) use words;

/// Implements `Read` for words of core, and lists their readers.
macro_rules! words_of_core {
    ($($name:ident),* $(,)?) => {
        words!($($name),*);
        /// Readers of core's words, by their names in the schema.
        pub(crate) const WORDS: &[(&str, Check)] = &[$((<$name as Read>::NAME, check::<$name> as Check)),*];
    };
}
words_of_core!(
    Stack,
    LossRecovery,
    RtoFloor,
    FrOffUntil,
    CwndLimited,
    ResendHead,
    RecoveryGrowth,
    MeasuredClass,
    PriorityClass,
    Duplex,
    Distribution,
    Codec,
    EModel,
    ReferencePacket,
    ChargingMode,
    LimitPolicy,
);

pub(crate) fn word<T: DeserializeOwned + JsonSchema>(value: &Value) -> Result<T, UnitError> {
    let text = String::read(value)?;
    value.clone().try_into().map_err(|_| {
        let names = names_of::<T>();
        unknown_word(&text, &names.iter().map(String::as_str).collect::<Vec<_>>())
    })
}

/// Returns the fault of a word that is not in `known`.
pub(crate) fn unknown_word(text: &str, known: &[&str]) -> UnitError {
    let help = match (absent(text), nearest(text, known.iter().copied())) {
        (Some(absent), _) => absent,
        (None, Some(k)) => format!("did you mean `{k}`?"),
        (None, None) => format!("write one of them, such as \"{}\"", known.first().unwrap_or(&"")),
    };
    fault(format!("unknown value `{text}`; expected one of {}", list(known)), Some(help))
}

/// Returns the words of an enum, from its schema.
pub(crate) fn names_of<T: JsonSchema>() -> Vec<String> {
    let schema = SchemaGenerator::default().into_root_schema_for::<T>().to_value();
    let list = |key: &str| schema.get(key).and_then(|v| v.as_array()).cloned().unwrap_or_default();
    let plain = list("enum");
    let documented = list("oneOf").into_iter().flat_map(|one| match (one.get("const"), one.get("enum")) {
        (Some(word), _) => vec![word.clone()],
        (None, Some(words)) => words.as_array().cloned().unwrap_or_default(),
        (None, None) => Vec::new(),
    });
    plain.into_iter().chain(documented).filter_map(|w| w.as_str().map(str::to_owned)).collect()
}
