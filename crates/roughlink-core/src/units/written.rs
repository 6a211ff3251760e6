//! Quantities as text in files and in JSON Schema, as [`super::parse`] reads and `Display` writes them.

use super::{Bytes, QueueLimit, Rate, Share, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;

macro_rules! written {
    ($($type:ty: $name:literal, $description:literal, $units:expr, $example:literal;)*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Cow::<str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                quantity($description, &$units, $example)
            }
        }
    )*};
}
written! {
    Time: "Time", "A time with its unit: ns, us, ms, s, min, h.", ["ns", "us", "µs", "ms", "s", "min", "h"], "10 ms";
    Rate: "Rate", "A rate with its unit: bit/s, kbit/s, Mbit/s, Gbit/s.", ["[kMG]?bit/s", "[KMG]bps", "Kbit/s"],
        "10 Mbit/s";
    Bytes: "Size", "A size with its unit: B, kB, KiB, MB, MiB, GB, GiB.", SIZES,
        "1500 B";
    QueueLimit: "PacketsOrBytes", "Packets (pkt) or a size with its unit.",
        PACKETS_OR_SIZES, "100 pkt";
    Share: "Share", "A probability in percent.", ["%"], "2 %";
}

/// Units of sizes.
pub const SIZES: [&str; 7] = ["B", "kB", "KiB", "MB", "MiB", "GB", "GiB"];
/// Units of packets and sizes.
pub const PACKETS_OR_SIZES: [&str; 8] = ["pkt", "B", "kB", "KiB", "MB", "MiB", "GB", "GiB"];

/// Returns the schema of a number with one of `units`, which are regular expressions.
pub fn quantity(description: &str, units: &[&str], example: &str) -> Schema {
    let pattern = format!(r"^\s*\+?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?\s*({})\s*$", units.join("|"));
    json_schema!({ "description": description, "type": "string", "pattern": pattern, "examples": [example] })
}

/// Plain numbers written as a size: `#[serde(with = "units::bytes")]`, `#[schemars(with = "Bytes")]`.
pub mod bytes {
    use super::*;

    /// Writes a size.
    pub fn serialize<S: Serializer, T: Copy + Into<u64>>(n: &T, serializer: S) -> Result<S::Ok, S::Error> {
        Bytes((*n).into()).serialize(serializer)
    }

    /// Reads a size; larger sizes become the largest value that fits.
    pub fn deserialize<'de, D: Deserializer<'de>, T: TryFrom<u64>>(deserializer: D) -> Result<T, D::Error> {
        let bytes = Bytes::deserialize(deserializer)?;
        [bytes.0, u64::from(u32::MAX), u64::from(u16::MAX)]
            .into_iter()
            .find_map(|n| T::try_from(n).ok())
            .ok_or_else(|| de::Error::custom(format!("{bytes} is too large")))
    }
}

/// Plain numbers written in percent: `#[serde(with = "units::share")]`, `#[schemars(with = "Share")]`.
pub mod share {
    use super::*;

    /// Writes a percentage.
    pub fn serialize<S: Serializer>(x: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        Share(*x).serialize(serializer)
    }

    /// Reads a percentage.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Share::deserialize(deserializer).map(|share| share.0)
    }
}

/// Plain numbers as a frequency: `#[serde(with = "units::hertz")]`, `#[schemars(with = "units::hertz::HertzSchema")]`.
pub mod hertz {
    use super::*;

    /// Schema of a frequency.
    pub struct HertzSchema;

    impl JsonSchema for HertzSchema {
        fn schema_name() -> Cow<'static, str> {
            "Hertz".into()
        }
        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            let pattern = r"^\s*[+-]?[0-9]+(\.[0-9]*)?\s*(Hz)\s*$";
            json_schema!({ "description": "A frequency of the mains with its unit.", "type": "string",
                "pattern": pattern, "examples": ["50 Hz"] })
        }
    }

    /// Writes a number and `Hz`.
    pub fn serialize<S: Serializer>(x: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{x} Hz"))
    }

    /// Reads a number and `Hz`.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let number = text.trim().strip_suffix("Hz").and_then(|number| number.trim().parse().ok());
        number.ok_or_else(|| de::Error::custom(format!("expected a frequency such as \"50 Hz\", found \"{text}\"")))
    }
}
