//! Differentiated services codepoints by name or number.

use super::{Read, describe, fault};
use roughlink_core::units::UnitError;
use schemars::{Schema, json_schema};
use toml::Value;

/// A DSCP, 0 to 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dscp(pub u8);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DscpList(pub Vec<Dscp>);

impl Read for Dscp {
    const NAME: &'static str = "Dscp";
    fn read(value: &Value) -> Result<Self, UnitError> {
        let number = match value {
            Value::Integer(n) => u8::try_from(*n).ok().filter(|n| *n < 64),
            Value::String(name) => named(name),
            _ => None,
        };
        let help = Some("write a name, cs0 to cs7, af11 to af43 or ef, or a number from 0 to 63".into());
        number.map(Dscp).ok_or_else(|| fault(format!("expected a DSCP, found {}", describe(value)), help))
    }
    fn schema() -> Schema {
        json_schema!({
            "description": "A differentiated services codepoint: a name (RFC 2474, 2597, 3246) or a number.",
            "examples": ["ef"],
            "anyOf": [
                { "type": "string", "pattern": "^(cs[0-7]|af[1-4][1-3]|ef)$" },
                { "type": "integer", "minimum": 0, "maximum": 63 },
            ],
        })
    }
}

impl Read for DscpList {
    fn read(value: &Value) -> Result<Self, UnitError> {
        match value {
            Value::Array(all) => all.iter().map(Dscp::read).collect::<Result<_, _>>().map(DscpList),
            other => {
                let help = Some("write them in brackets: [\"ef\", \"cs6\"]".into());
                Err(fault(format!("expected a list of DSCPs, found {}", describe(other)), help))
            }
        }
    }
    fn schema() -> Schema {
        json_schema!({ "type": "array", "items": Dscp::schema() })
    }
}

/// Returns a DSCP by name: class selector (RFC 2474 section 4.2.2), AF (RFC 2597 section 6) or EF (RFC 3246).
fn named(name: &str) -> Option<u8> {
    let digit = |c: u8, most: u8| Some(c.wrapping_sub(b'0')).filter(|d| *d <= most);
    match name.to_ascii_lowercase().as_bytes() {
        b"ef" => Some(46),
        [b'c', b's', class] => Some(8 * digit(*class, 7)?),
        [b'a', b'f', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => Some(8 * digit(*class, 4)? + 2 * digit(*drop, 3)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dscp_names_match_the_rfcs() {
        for (name, number) in
            [("cs0", 0), ("cs1", 8), ("cs7", 56), ("af11", 10), ("AF23", 22), ("af43", 38), ("ef", 46)]
        {
            assert_eq!(named(name), Some(number), "{name}");
        }
        for name in ["", "cs8", "af10", "af51", "af1", "e", "be"] {
            assert_eq!(named(name), None, "{name}");
        }
        assert_eq!(Dscp::read(&Value::Integer(63)), Ok(Dscp(63)));
        assert!(Dscp::read(&Value::Integer(64)).is_err() && Dscp::read(&Value::Integer(-1)).is_err());
    }
}
