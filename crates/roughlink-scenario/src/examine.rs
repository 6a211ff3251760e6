//! Single values in the check of a file's form: finds faults, and returns amounts to compare with bounds.

use super::bulk::Transport;
use super::greenphy::Profile;
use super::kinds::name_of;
use super::leaf::{
    CcName, Check, Dbm, Decibel, Dscp, DscpList, GatewayKind, Hertz, Length, Name, Read, Speed, TransferSize, WORDS,
    check,
};
use super::link_keys::LinkDirections;
use super::node::Layer;
use super::table::Delimiter;
use super::tcp::HystartWord;
use super::timeline::{OutageWord, TimelineFormat};
use roughlink_core::link::greenphy::PriorityClass;
use roughlink_core::link::noise::BurstLength;
use roughlink_core::link::noise::impulses::LengthDistribution;
use roughlink_core::tcp::{Amount, Buffer, InitialSsthresh};
use roughlink_core::units::{Bytes, QueueLimit, Rate, Share, Time, UnitError};
use std::net::{Ipv4Addr, Ipv6Addr};
use toml::Value;

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
        LengthDistribution,
        [PriorityClass; 2],
        Profile,
        LinkDirections,
        Layer,
        HystartWord,
        OutageWord,
        TimelineFormat,
        Delimiter,
        Transport,
    );
    WORDS.iter().chain(others).find(|(name, _)| *name == definition).map(|(_, check)| *check)
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
