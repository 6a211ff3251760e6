//! Amounts of data, and how they are written.

use crate::units::{Bytes, PACKETS_OR_SIZES, Packets, SIZES, quantity};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;

/// The size of a socket buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Grows with the connection as in Linux (`tcp_rmem` 131072 to 6 MiB, `tcp_wmem` to 4 MiB).
    Auto,
    /// This many bytes.
    Bytes(u64),
}

/// An amount of data given in bytes or in full segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Full segments.
    Segments(u64),
}

impl Amount {
    /// In bytes, for segments of `mss` bytes.
    pub const fn bytes(self, mss: u32) -> u64 {
        match self {
            Amount::Bytes(b) => b,
            Amount::Segments(n) => n.saturating_mul(mss as u64),
        }
    }
}

impl Serialize for Buffer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Buffer::Auto => serializer.serialize_str(AUTO),
            Buffer::Bytes(bytes) => Bytes(*bytes).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Buffer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match &*Cow::<str>::deserialize(deserializer)? {
            AUTO => Ok(Buffer::Auto),
            size => size.parse().map(|bytes: Bytes| Buffer::Bytes(bytes.0)).map_err(de::Error::custom),
        }
    }
}

impl JsonSchema for Buffer {
    fn schema_name() -> Cow<'static, str> {
        "Buffer".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        either(AUTO, quantity("A size.", &SIZES, "128 KiB"))
    }
}

/// Thresholds and windows of [`Option<Amount>`], of which `None` is `"unlimited"`: `#[serde(with = "threshold")]`,
/// `#[schemars(with = "threshold::Threshold")]`.
pub mod threshold {
    use super::*;

    /// Its schema.
    pub struct Threshold;

    impl JsonSchema for Threshold {
        fn schema_name() -> Cow<'static, str> {
            "Threshold".into()
        }
        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            either(UNLIMITED, quantity("Full segments (pkt) or a size.", &PACKETS_OR_SIZES, "20 pkt"))
        }
    }

    /// In full segments or bytes.
    pub fn serialize<S: Serializer>(amount: &Option<Amount>, serializer: S) -> Result<S::Ok, S::Error> {
        match amount {
            None => serializer.serialize_str(UNLIMITED),
            Some(Amount::Bytes(bytes)) => Bytes(*bytes).serialize(serializer),
            Some(Amount::Segments(n)) => serializer.collect_str(&Packets(*n)),
        }
    }

    /// From full segments or bytes.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Amount>, D::Error> {
        match &*Cow::<str>::deserialize(deserializer)? {
            UNLIMITED => Ok(None),
            text if text.trim_end().ends_with(PACKETS) => {
                text.parse().map(|n: Packets| Some(Amount::Segments(n.0))).map_err(de::Error::custom)
            }
            text => text.parse().map(|bytes: Bytes| Some(Amount::Bytes(bytes.0))).map_err(de::Error::custom),
        }
    }
}

fn either(word: &str, other: Schema) -> Schema {
    json_schema!({ "anyOf": [{ "type": "string", "const": word }, other] })
}

const AUTO: &str = "auto";
const UNLIMITED: &str = "unlimited";
const PACKETS: &str = "pkt";
