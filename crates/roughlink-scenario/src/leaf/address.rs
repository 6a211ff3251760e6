//! Addresses of hosts.

use super::{Read, fault};
use roughlink_core::net::addresses::is_of_a_host;
use roughlink_core::units::UnitError;
use schemars::{Schema, json_schema};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use toml::Value;

impl Read for Ipv4Addr {
    const NAME: &'static str = "Ipv4Address";
    fn read(value: &Value) -> Result<Self, UnitError> {
        address(value, "IPv4", "192.168.7.2")
    }
    fn schema() -> Schema {
        json_schema!({
            "description": "The IPv4 address of one host.", "examples": ["192.168.7.2"],
            "type": "string", "format": "ipv4",
        })
    }
}

impl Read for Ipv6Addr {
    const NAME: &'static str = "Ipv6Address";
    fn read(value: &Value) -> Result<Self, UnitError> {
        address(value, "IPv6", "fd12::2")
    }
    fn schema() -> Schema {
        json_schema!({
            "description": "The IPv6 address of one host, not link-local.", "examples": ["fd12::2"],
            "type": "string", "format": "ipv6",
        })
    }
}

fn address<T: FromStr + Copy + Into<IpAddr>>(value: &Value, what: &str, example: &str) -> Result<T, UnitError> {
    let text = String::read(value)?;
    let Ok(address) = text.trim().parse::<T>() else {
        let help = match text.split_once('/') {
            Some((address, _)) if address.parse::<T>().is_ok() => {
                format!("write \"{address}\", without the prefix length")
            }
            _ => format!("write an address such as \"{example}\""),
        };
        return Err(fault(format!("invalid {what} address `{text}`"), Some(help)));
    };
    if is_of_a_host(address.into()) {
        return Ok(address);
    }
    let help = format!("write an address such as \"{example}\", not multicast, loopback or link-local");
    Err(fault(format!("`{text}` is not the address of a host"), Some(help)))
}
