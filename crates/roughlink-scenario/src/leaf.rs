//! Values of a scenario file with their places. A value that cannot be read does not stop the reading: it keeps
//! the reason, so that all faults of a file are found in one pass.

mod address;
mod dscp;
mod measured;
mod words;

pub(super) use dscp::{Dscp, DscpList};
pub(super) use measured::{Dbm, Decibel, Hertz, Length, Speed};
pub(super) use words::{WORDS, names_of, unknown_word, word, words};

use super::problem::{Problem, Problems, suggest};
use roughlink_core::cc;
use roughlink_core::gateway::{self, NO_GATEWAY};
use roughlink_core::link::greenphy::PriorityClass;
use roughlink_core::link::noise::BurstLength;
use roughlink_core::link::noise::impulses::LengthDistribution;
use roughlink_core::pep;
use roughlink_core::tcp::{Amount, Buffer, InitialSsthresh, threshold};
use roughlink_core::units::{self, Bytes, Packets, QueueLimit, Rate, Share, Time, UnitError};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::ops::Range;
use std::str::FromStr;
use toml::Value;

/// A table or array with its place.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub span: Range<usize>,
    pub value: T,
}

/// A single value with its place, or why it cannot be read; boxed, as a table has many keys and few faults.
#[derive(Clone, Debug)]
pub(super) struct Leaf<T> {
    pub span: Range<usize>,
    pub value: Result<T, Box<UnitError>>,
}

/// Notation of a value.
pub(super) trait Read: Sized {
    /// Name in the JSON Schema, if the form has one.
    const NAME: &'static str = "";
    fn read(value: &Value) -> Result<Self, UnitError>;
    fn schema() -> Schema;
    /// Returns the value to compare with bounds, if any.
    fn amount(&self) -> Option<f64> {
        None
    }
}

/// Reads a value and returns its fault, or its amount to compare with bounds.
pub(super) type Check = fn(&Value) -> Result<Option<f64>, UnitError>;

pub(super) fn check<T: Read>(value: &Value) -> Result<Option<f64>, UnitError> {
    T::read(value).map(|read| read.amount())
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = toml::Spanned::<T>::deserialize(deserializer)?;
        Ok(At { span: spanned.span(), value: spanned.into_inner() })
    }
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl<'de, T: Read> Deserialize<'de> for Leaf<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = toml::Spanned::<Value>::deserialize(deserializer)?;
        Ok(Leaf { span: spanned.span(), value: T::read(spanned.get_ref()).map_err(Box::new) })
    }
}

impl<T: Read> JsonSchema for Leaf<T> {
    fn inline_schema() -> bool {
        T::NAME.is_empty()
    }
    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        T::schema()
    }
}

/// Returns the place of a value; empty if it is absent.
pub(super) fn span<T>(leaf: &Option<Leaf<T>>) -> Range<usize> {
    leaf.as_ref().map_or(0..0, |leaf| leaf.span.clone())
}

impl Problems {
    /// Returns the value if it is present and readable; reports the fault otherwise.
    pub(crate) fn read<T: Clone>(&mut self, leaf: &Option<Leaf<T>>) -> Option<T> {
        let leaf = leaf.as_ref()?;
        match &leaf.value {
            Ok(value) => Some(value.clone()),
            Err(e) => {
                let problem = Problem::new(e.message.clone()).at(leaf.span.clone(), "");
                self.error(Problem { help: e.help.clone(), ..problem });
                None
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(pub String);

/// A congestion control, by its name in the registry.
#[derive(Clone, Copy, Debug)]
pub(super) struct CcName(pub &'static cc::Algorithm);

/// A kind of gateway.
#[derive(Clone, Copy, Debug)]
pub(super) enum GatewayKind {
    /// `none`.
    None,
    /// A gateway in the registry.
    Registered(&'static gateway::RegisteredGateway),
    /// A split-TCP proxy.
    Pep,
}

impl GatewayKind {
    /// Returns all names.
    fn names() -> impl Iterator<Item = &'static str> {
        gateway::REGISTRY.iter().map(|k| k.name).chain([pep::NAME, NO_GATEWAY])
    }
}

/// Amount that a flow transfers; `None` = endless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TransferSize(pub Option<u64>);

impl Read for Name {
    const NAME: &'static str = "Name";
    fn read(value: &Value) -> Result<Self, UnitError> {
        let name = String::read(value)?;
        if name.trim() != name || name.is_empty() || name.contains('*') || name.chars().any(char::is_control) {
            let help = "use letters, digits, spaces and signs other than `*`, without spaces at the ends";
            return Err(fault("invalid name", Some(help.into())));
        }
        if name.len() > MAX_NAME_LEN {
            return Err(fault(
                format!("a name of {} bytes is too long", name.len()),
                Some(format!("write at most {MAX_NAME_LEN} bytes")),
            ));
        }
        Ok(Name(name))
    }
    fn schema() -> Schema {
        json_schema!({ "type": "string", "minLength": 1 })
    }
}

impl Read for CcName {
    const NAME: &'static str = "CongestionControl";
    fn read(value: &Value) -> Result<Self, UnitError> {
        let name = String::read(value)?;
        cc::algorithm(&name).map(CcName).map_err(|e| {
            let known = cc::REGISTRY.iter().map(|a| a.name);
            fault(e.to_string(), Some(suggest(&name, "use one of", known)))
        })
    }
    fn schema() -> Schema {
        let names: Vec<&str> = cc::REGISTRY.iter().map(|a| a.name).collect();
        json_schema!({ "type": "string", "enum": names })
    }
}

impl Read for GatewayKind {
    const NAME: &'static str = "GatewayKind";
    fn read(value: &Value) -> Result<Self, UnitError> {
        let name = String::read(value)?;
        match name.as_str() {
            NO_GATEWAY => Ok(GatewayKind::None),
            pep::NAME => Ok(GatewayKind::Pep),
            name => gateway::kind(name)
                .map(GatewayKind::Registered)
                .map_err(|e| fault(e.to_string(), Some(suggest(name, "use one of", GatewayKind::names())))),
        }
    }
    fn schema() -> Schema {
        let names: Vec<&str> = GatewayKind::names().collect();
        json_schema!({ "type": "string", "enum": names })
    }
}

impl Read for String {
    fn read(value: &Value) -> Result<Self, UnitError> {
        match value {
            Value::String(s) => Ok(s.clone()),
            Value::Array(_) | Value::Table(_) => Err(fault(
                format!("expected a string, found {}", describe(value)),
                Some("write one string in quotes".into()),
            )),
            other => {
                let help = format!("write \"{other}\"");
                Err(fault(format!("expected a string, found {}", describe(other)), Some(help)))
            }
        }
    }
    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }
}

impl Read for bool {
    fn read(value: &Value) -> Result<Self, UnitError> {
        match value {
            Value::Boolean(b) => Ok(*b),
            other => {
                let help = match other.to_string().trim_matches('"').to_lowercase().as_str() {
                    "true" | "on" | "yes" | "1" => "write true",
                    "false" | "off" | "no" | "0" => "write false",
                    _ => "write true or false, without quotes",
                };
                Err(fault(format!("expected true or false, found {}", describe(other)), Some(help.into())))
            }
        }
    }
    fn schema() -> Schema {
        json_schema!({ "type": "boolean" })
    }
}

impl Read for u64 {
    fn read(value: &Value) -> Result<Self, UnitError> {
        match value {
            Value::Integer(n) => {
                let help = || Some(format!("write a number of at least 0, such as {}", n.unsigned_abs()));
                u64::try_from(*n).map_err(|_| fault(format!("{n} is negative"), help()))
            }
            other => {
                let help = match other {
                    Value::String(s) if s.trim().parse::<u64>().is_ok() => format!("write {} without quotes", s.trim()),
                    Value::Float(x) if *x >= 1.0 && *x < 1e9 => format!("write {x:.0}"),
                    _ => "write a whole number, such as 2, without a unit or quotes".into(),
                };
                Err(fault(format!("expected a whole number, found {}", describe(other)), Some(help)))
            }
        }
    }
    fn schema() -> Schema {
        json_schema!({ "type": "integer", "format": "uint64", "minimum": 0 })
    }
    fn amount(&self) -> Option<f64> {
        Some(*self as f64)
    }
}

impl Read for u32 {
    fn read(value: &Value) -> Result<Self, UnitError> {
        let n = u64::read(value)?;
        u32::try_from(n).map_err(|_| fault(format!("{n} is too large"), Some(format!("write at most {}", u32::MAX))))
    }
    fn schema() -> Schema {
        json_schema!({ "type": "integer", "format": "uint32", "minimum": 0 })
    }
    fn amount(&self) -> Option<f64> {
        Some(f64::from(*self))
    }
}

impl Read for f64 {
    fn read(value: &Value) -> Result<Self, UnitError> {
        match value {
            Value::Integer(n) => Ok(*n as f64),
            Value::Float(x) if x.is_finite() => Ok(*x),
            other => {
                let help = Some("write a number, such as 0.1, without a unit or quotes".into());
                Err(fault(format!("expected a number, found {}", describe(other)), help))
            }
        }
    }
    fn schema() -> Schema {
        json_schema!({ "type": "number" })
    }
    fn amount(&self) -> Option<f64> {
        Some(*self)
    }
}

impl Read for Vec<u64> {
    fn read(value: &Value) -> Result<Self, UnitError> {
        match value {
            Value::Array(all) => all.iter().map(u64::read).collect(),
            other => {
                let help = Some("write them in brackets: [17, 42]".into());
                Err(fault(format!("expected a list of whole numbers, found {}", describe(other)), help))
            }
        }
    }
    fn schema() -> Schema {
        json_schema!({ "type": "array", "items": u64::schema() })
    }
}

/// Implements `Read` for quantities of core: the largest value that can be simulated, and the amount for bounds.
macro_rules! quantities {
    ($($name:ty: $schema:literal, $most:expr, $amount:expr;)*) => {$(
        impl Read for $name {
            const NAME: &'static str = $schema;
            fn read(value: &Value) -> Result<Self, UnitError> {
                let read: $name = quantity(value)?;
                let most: Option<$name> = $most;
                match most.filter(|most| $amount(&read) > $amount(most)) {
                    Some(most) => {
                        let help = Some(format!("write at most \"{most}\""));
                        Err(fault(format!("{read} is too large to simulate"), help))
                    }
                    None => Ok(read),
                }
            }
            fn schema() -> Schema {
                alone::<$name>()
            }
            fn amount(&self) -> Option<f64> {
                $amount(self)
            }
        }
    )*};
}
quantities! {
    Time: "Time", Some(LONGEST), |time: &Time| Some(time.0 as f64);
    Rate: "Rate", Some(FASTEST), |rate: &Rate| Some(rate.0 as f64);
    Bytes: "Size", None, |bytes: &Bytes| Some(bytes.0 as f64);
    Share: "Share", None, |share: &Share| Some(share.0);
    QueueLimit: "PacketsOrBytes", None, |limit: &QueueLimit| match limit {
        QueueLimit::Packets(n) => Some(f64::from(*n)),
        QueueLimit::Bytes(_) => None,
    };
}

impl Read for [Share; 2] {
    fn read(value: &Value) -> Result<Self, UnitError> {
        match value.as_array().map(Vec::as_slice) {
            Some([a, b]) => Ok([Share::read(a)?, Share::read(b)?]),
            _ => {
                let help = Some("write them in brackets: [\"10 %\", \"90 %\"]".into());
                Err(fault(format!("expected two shares, found {}", describe(value)), help))
            }
        }
    }
    fn schema() -> Schema {
        json_schema!({ "type": "array", "items": Share::schema(), "minItems": 2, "maxItems": 2 })
    }
}

/// The priority classes of the two directions of a link.
impl Read for [PriorityClass; 2] {
    const NAME: &'static str = "Classes";
    fn read(value: &Value) -> Result<Self, UnitError> {
        match value {
            Value::Array(both) => match both.as_slice() {
                [forward, reverse] => Ok([PriorityClass::read(forward)?, PriorityClass::read(reverse)?]),
                _ => {
                    let help = Some("write [\"ca1\", \"ca3\"] for forward and reverse".into());
                    Err(fault("expected two classes, one per direction", help))
                }
            },
            one => PriorityClass::read(one).map(|class| [class; 2]),
        }
    }
    fn schema() -> Schema {
        let class = PriorityClass::schema();
        json_schema!({ "anyOf": [class, { "type": "array", "items": class, "minItems": 2, "maxItems": 2,
            "description": "Forward and reverse." }] })
    }
}

impl Read for TransferSize {
    const NAME: &'static str = "Transfer";
    fn read(value: &Value) -> Result<Self, UnitError> {
        match value.as_str() {
            Some("unlimited") => Ok(TransferSize(None)),
            _ => Bytes::read(value).map(|b| TransferSize(Some(b.0))),
        }
    }
    fn schema() -> Schema {
        word_or("unlimited", &units::quantity("A size.", &units::SIZES, "100 MB"))
    }
}

impl Read for Buffer {
    const NAME: &'static str = "Buffer";
    fn read(value: &Value) -> Result<Self, UnitError> {
        match value.as_str() {
            Some("auto") => Ok(Buffer::Auto),
            _ => Bytes::read(value).map(|b| Buffer::Bytes(b.0)),
        }
    }
    fn schema() -> Schema {
        alone::<Buffer>()
    }
}

/// The slow-start threshold: `None` = unlimited.
impl Read for Option<Amount> {
    const NAME: &'static str = "Threshold";
    fn read(value: &Value) -> Result<Self, UnitError> {
        match value.as_str() {
            Some("unlimited") => Ok(None),
            Some(text) if text.trim_end().ends_with("pkt") => Ok(Some(Amount::Segments(quantity::<Packets>(value)?.0))),
            _ => Ok(Some(Amount::Bytes(Bytes::read(value)?.0))),
        }
    }
    fn schema() -> Schema {
        alone::<threshold::Threshold>()
    }
}

impl Read for InitialSsthresh {
    const NAME: &'static str = "InitialSsthresh";
    fn read(value: &Value) -> Result<Self, UnitError> {
        if value.as_str() == Some("window") {
            return Ok(InitialSsthresh::Window);
        }
        Ok(Option::<Amount>::read(value)?.map_or(InitialSsthresh::Unlimited, InitialSsthresh::Amount))
    }
    fn schema() -> Schema {
        alone::<InitialSsthresh>()
    }
}

impl Read for BurstLength {
    const NAME: &'static str = "BurstLength";
    fn read(value: &Value) -> Result<Self, UnitError> {
        let wanted = || {
            let help = "write length = [1, 4] for 1 to 4 packets, length = { geometric = 2.5 } for a mean of 2.5";
            fault(format!("expected a burst length, found {}", describe(value)), Some(help.into()))
        };
        match value {
            Value::Array(ends) => match ends.as_slice() {
                [a, b] => Ok(BurstLength::Uniform(u64::read(a)?, u64::read(b)?)),
                _ => Err(wanted()),
            },
            Value::Table(table) if table.len() == 1 => match table.get("geometric") {
                Some(Value::Float(mean)) => Ok(BurstLength::Geometric(*mean)),
                Some(Value::Integer(mean)) => Ok(BurstLength::Geometric(*mean as f64)),
                _ => Err(wanted()),
            },
            _ => Err(wanted()),
        }
    }
    fn schema() -> Schema {
        json_schema!({ "anyOf": [
            { "type": "array", "items": { "type": "integer", "minimum": 1 }, "minItems": 2, "maxItems": 2,
              "description": "Uniform between these two numbers of packets." },
            { "type": "object", "properties": { "geometric": { "type": "number", "minimum": 1,
              "description": "Geometric with this mean number of packets." } },
              "required": ["geometric"], "additionalProperties": false },
        ] })
    }
}

impl Read for LengthDistribution {
    const NAME: &'static str = "ImpulseLength";
    fn read(value: &Value) -> Result<Self, UnitError> {
        match value {
            Value::Array(ends) => match ends.as_slice() {
                [a, b] => Ok(LengthDistribution::Uniform(Time::read(a)?, Time::read(b)?)),
                _ => {
                    let help = Some("write width = [\"20 us\", \"100 us\"]".into());
                    Err(fault("expected two times, the shortest and the longest", help))
                }
            },
            one => Time::read(one).map(LengthDistribution::Exponential),
        }
    }
    fn schema() -> Schema {
        let time = Time::schema();
        json_schema!({ "anyOf": [time, { "type": "array", "items": time, "minItems": 2, "maxItems": 2,
            "description": "Uniform between these two." }] })
    }
}

/// Returns the schema of a type that refers to no other.
pub(super) fn alone<T: JsonSchema>() -> Schema {
    let mut schema = SchemaGenerator::default().into_root_schema_for::<T>();
    schema.remove("$schema");
    schema.remove("title");
    schema
}

fn quantity<T: FromStr<Err = UnitError>>(value: &Value) -> Result<T, UnitError> {
    match value {
        Value::String(text) => text.parse(),
        // Parse the number as text: the parser then reports the missing unit, and its advice has the quotes.
        Value::Integer(n) => n.to_string().parse(),
        Value::Float(x) => x.to_string().parse(),
        other => {
            let example = "".parse::<T>().err().and_then(|e| e.help);
            Err(fault(format!("expected a quantity with its unit, found {}", describe(other)), example))
        }
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::String(s) => format!("the string \"{}\"", s.escape_debug()),
        Value::Integer(n) => format!("the number {n}"),
        Value::Float(x) => format!("the number {x}"),
        Value::Boolean(b) => b.to_string(),
        Value::Datetime(_) => "a date".into(),
        Value::Array(_) => "a list".into(),
        Value::Table(_) => "a table".into(),
    }
}

fn fault(message: impl Into<String>, help: Option<String>) -> UnitError {
    UnitError { message: message.into(), help }
}

fn word_or(word: &str, other: &Schema) -> Schema {
    json_schema!({ "anyOf": [{ "type": "string", "const": word }, other] })
}

/// Maximum length of a name, bytes: series repeat the name in each row.
const MAX_NAME_LEN: usize = 1000;
/// Longest time, thirty years: sums of times stay far below the clock's maximum.
pub(super) const LONGEST: Time = Time::from_secs(1_000_000_000);
/// Ten Tbit/s.
pub(super) const FASTEST: Rate = Rate(10_000_000_000_000);
