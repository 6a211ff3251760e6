//! Amounts of data and their notation.

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
    /// Converts to bytes, for segments of `mss` bytes.
    pub const fn bytes(self, mss: u32) -> u64 {
        match self {
            Amount::Bytes(b) => b,
            Amount::Segments(n) => n.saturating_mul(mss as u64),
        }
    }
}

/// The slow-start threshold of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialSsthresh {
    /// No threshold: slow start lasts until the first loss (RFC 5681 section 3.1: "arbitrarily high").
    Unlimited,
    /// The receive buffer, unlimited if that is `"auto"` (ns-2.35 tcp.cc, `TcpAgent::reset`: `window_`).
    Window,
    /// This amount.
    Amount(Amount),
}

impl InitialSsthresh {
    /// Returns the threshold in bytes for segments of `mss` bytes and a receive buffer of `rcv_buf`.
    pub const fn bytes(self, mss: u32, rcv_buf: Buffer) -> u64 {
        match (self, rcv_buf) {
            (InitialSsthresh::Amount(amount), _) => amount.bytes(mss),
            (InitialSsthresh::Window, Buffer::Bytes(bytes)) => bytes,
            (InitialSsthresh::Window, Buffer::Auto) | (InitialSsthresh::Unlimited, _) => u64::MAX,
        }
    }
}

impl Serialize for InitialSsthresh {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            InitialSsthresh::Unlimited => threshold::serialize(&None, serializer),
            InitialSsthresh::Window => serializer.serialize_str(WINDOW),
            InitialSsthresh::Amount(amount) => threshold::serialize(&Some(*amount), serializer),
        }
    }
}

impl<'de> Deserialize<'de> for InitialSsthresh {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        if text == WINDOW {
            return Ok(InitialSsthresh::Window);
        }
        let amount = threshold::deserialize(de::value::CowStrDeserializer::<D::Error>::new(text))?;
        Ok(amount.map_or(InitialSsthresh::Unlimited, InitialSsthresh::Amount))
    }
}

impl JsonSchema for InitialSsthresh {
    fn schema_name() -> Cow<'static, str> {
        "InitialSsthresh".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        word_or(&[UNLIMITED, WINDOW], quantity("Full segments (pkt) or a size.", &PACKETS_OR_SIZES, "20 pkt"))
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
        word_or(&[AUTO], quantity("A size.", &SIZES, "128 KiB"))
    }
}

/// Serialization of thresholds and windows of type [`Option<Amount>`], with `"unlimited"` for `None`. Use it with
/// `#[serde(with = "threshold")]` and `#[schemars(with = "threshold::Threshold")]`.
pub mod threshold {
    use super::*;

    /// Schema of a threshold or window.
    pub struct Threshold;

    impl JsonSchema for Threshold {
        fn schema_name() -> Cow<'static, str> {
            "Threshold".into()
        }
        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            word_or(&[UNLIMITED], quantity("Full segments (pkt) or a size.", &PACKETS_OR_SIZES, "20 pkt"))
        }
    }

    /// Serializes full segments or bytes.
    pub fn serialize<S: Serializer>(amount: &Option<Amount>, serializer: S) -> Result<S::Ok, S::Error> {
        match amount {
            None => serializer.serialize_str(UNLIMITED),
            Some(Amount::Bytes(bytes)) => Bytes(*bytes).serialize(serializer),
            Some(Amount::Segments(n)) => serializer.collect_str(&Packets(*n)),
        }
    }

    /// Deserializes full segments or bytes.
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

fn word_or(words: &[&str], other: Schema) -> Schema {
    let words = words.iter().map(|word| json_schema!({ "type": "string", "const": word }));
    json_schema!({ "anyOf": words.chain([other]).collect::<Vec<_>>() })
}

const AUTO: &str = "auto";
const UNLIMITED: &str = "unlimited";
const WINDOW: &str = "window";
const PACKETS: &str = "pkt";
