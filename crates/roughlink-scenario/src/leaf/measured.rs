//! Quantities that only scenarios use, and their special units.

use super::{Read, fault};
use roughlink_core::units::UnitError;
use schemars::{Schema, json_schema};
use toml::Value;

/// A signal strength in dBm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dbm(pub f64);

impl Dbm {
    pub(crate) const LEAST: f64 = -200.0;
    pub(crate) const MOST: f64 = 100.0;
}

/// A difference of levels in dB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Decibel(pub f64);

/// A speed in m/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Speed(pub f64);

/// A length in m.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Length(pub f64);

/// A frequency in Hz.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hertz(pub f64);

/// Quantities that only scenarios have: a range, and units with their factors.
macro_rules! measured {
    ($($name:ident $what:literal $range:expr, $example:literal, [$($unit:literal $factor:expr),*];)*) => {$(
        impl Read for $name {
            const NAME: &'static str = stringify!($name);
            fn read(value: &Value) -> Result<Self, UnitError> {
                measure(value, ($what, $example), &$range, &[$(($unit, $factor)),*]).map($name)
            }
            fn amount(&self) -> Option<f64> {
                Some(self.0)
            }
            fn schema() -> Schema {
                let units = [$($unit),*].join("|");
                json_schema!({ "description": concat!($what, " with its unit."), "type": "string",
                    "pattern": format!(r"^\s*[+-]?[0-9]+(\.[0-9]*)?\s*({units})\s*$"), "examples": [$example] })
            }
        }
    )*};
}
measured! {
    Dbm "A signal strength in dBm" Dbm::LEAST..=Dbm::MOST, "-70 dBm", ["dBm" 1.0];
    Decibel "A difference of levels" 0.0..=100.0, "3 dB", ["dB" 1.0];
    Speed "A speed" 0.001..=100_000.0, "34.2 km/h", ["m/s" 1.0, "km/h" 1.0 / 3.6];
    Hertz "A frequency of the mains" 1.0..=1000.0, "50 Hz", ["Hz" 1.0];
    Length "A length" 0.0..=1e9, "1164 m", ["m" 1.0, "km" 1000.0];
}

/// Reads a number with one of `units`, multiplied by the unit's factor.
fn measure(
    value: &Value,
    (what, example): (&str, &str),
    range: &std::ops::RangeInclusive<f64>,
    units: &[(&str, f64)],
) -> Result<f64, UnitError> {
    let text = match value {
        Value::Integer(n) => n.to_string(),
        Value::Float(x) => x.to_string(),
        _ => String::read(value)?,
    };
    let help = || Some(format!("write a value such as \"{example}\""));
    let what = what.strip_prefix("A ").unwrap_or(what);
    let number =
        text.trim().find(|c: char| c.is_ascii_alphabetic()).map_or(text.trim(), |i| text.trim()[..i].trim_end());
    let unit = text.trim()[number.len()..].trim();
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(fault(format!("expected a {what}, found `{text}`"), help()));
    };
    match number.parse::<f64>() {
        Ok(x) if range.contains(&(x * factor)) => Ok(x * factor),
        Ok(_) => Err(fault(format!("{what} out of range: `{text}`"), help())),
        Err(_) => Err(fault(format!("expected a number, found `{number}`"), help())),
    }
}
