//! Single values in the check of a file's form: finds faults, and returns amounts to compare with bounds.

use super::words::WORDS;
use super::*;
use crate::shape::name_of;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Reads a value and returns its fault, or its amount to compare with bounds.
pub(super) type Check = fn(&Value) -> Result<Option<f64>, UnitError>;

pub(super) fn check<T: Read>(value: &Value) -> Result<Option<f64>, UnitError> {
    T::read(value).map(|read| read.amount())
}

/// Returns the reader of values of a schema definition.
fn named(definition: &str) -> Option<Check> {
    macro_rules! by_name {
        ($($name:ty),* $(,)?) => {
            &[$((<$name as Read>::NAME, check::<$name> as Check)),*]
        };
    }
    let others: &[(&str, Check)] = by_name!(
        Time,
        Rate,
        Bytes,
        QueueLimit,
        Share,
        Hertz,
        Dbm,
        Decibel,
        Speed,
        Length,
        Buffer,
        Option<Amount>,
        InitialSsthresh,
        Name,
        TransferSize,
        CcName,
        GatewayKind,
        Dscp,
        DscpList,
        Ipv4Addr,
        Ipv6Addr,
        BurstLength,
        impulses::LengthDistribution,
        [PriorityClass; 2],
    );
    let mut all = WORDS.iter().chain(others);
    all.find(|(name, _)| *name == definition).map(|(_, check)| *check)
}

/// Returns the fault of a single value described by `schema`, or its amount to compare with bounds.
pub(crate) fn examine(schema: &serde_json::Value, value: &Value) -> Result<Option<f64>, UnitError> {
    let check = match (name_of(schema), schema["type"].as_str()) {
        (Some(definition), _) => named(definition),
        (None, Some("boolean")) => Some(check::<bool> as Check),
        (None, Some("integer")) if schema["format"] == "uint64" => Some(check::<u64> as Check),
        (None, Some("integer")) => Some(check::<u32> as Check),
        (None, Some("number")) => Some(check::<f64> as Check),
        (None, Some("string")) => Some(check::<String> as Check),
        _ => None,
    };
    check.map_or(Ok(None), |check| check(value))
}
