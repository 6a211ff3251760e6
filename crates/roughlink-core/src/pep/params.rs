//! Parameters of a proxy.

use crate::cc::{self, AlgorithmError};
use crate::gateway::Heading;
use crate::tcp::{Buffer, MIN_V6, Stack, TcpConfig};
use crate::units::{self, Bytes, plain_message};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Treatment of segments that belong to no connection of the proxy and do not open one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnknownSegments {
    /// Reset both hosts: the connection was lost with an earlier proxy, whose sequence numbers are unknown.
    #[default]
    Reset,
    /// Forward the segments unchanged: the connection began before the proxy was installed.
    Forward,
}

/// Parameters of a proxy. Connections toward the rough link and toward the other side have separate keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProxyParams {
    /// Congestion control toward the rough link: any name of `roughlink cc list`, with the keys of `[tcp]` that it
    /// requires.
    pub cc: String,
    /// Parameters of `cc`.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub cc_params: toml::Table,
    /// Congestion control toward the other side.
    pub lan_cc: String,
    /// Parameters of `lan_cc`.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub lan_cc_params: toml::Table,
    /// Size of the send buffer and of the receive buffer toward the rough link. A connection carries at most one buffer
    /// per round trip: 4 MiB are 67 Mbit/s over 500 ms.
    #[serde(with = "units::bytes")]
    #[schemars(with = "Bytes", extend("x-minimum" = "4 kB"))]
    pub buffer: u32,
    /// Size of the send buffer and of the receive buffer toward the other side.
    #[serde(with = "units::bytes")]
    #[schemars(with = "Bytes", extend("x-minimum" = "4 kB"))]
    pub lan_buffer: u32,
    /// Connections that the proxy splits at a time. Further ones pass unchanged.
    #[schemars(extend("minimum" = 1))]
    pub connections: u32,
    /// Connections whose server has not answered. A further one evicts the oldest.
    #[schemars(extend("minimum" = 1))]
    pub half_open: u32,
    /// Connections in TIME-WAIT. A further one evicts the one that would expire first.
    #[schemars(extend("minimum" = 1))]
    pub time_waits: u32,
    /// Treatment of segments that belong to no connection of the proxy and do not open one.
    pub unknown: UnknownSegments,
}

impl Default for ProxyParams {
    fn default() -> Self {
        ProxyParams {
            cc: "wave".into(),
            cc_params: toml::Table::new(),
            lan_cc: "cubic".into(),
            lan_cc_params: toml::Table::new(),
            buffer: 4 << 20,
            lan_buffer: 256 << 10,
            connections: 20_000,
            half_open: 4_096,
            time_waits: 16_384,
            unknown: UnknownSegments::default(),
        }
    }
}

/// Configuration of a [`Proxy`](super::Proxy).
#[derive(Clone, Debug)]
pub struct ProxyConfig {
    /// Parameters.
    pub params: ProxyParams,
    /// Heading of datagrams that leave over the rough link.
    pub over: Heading,
    /// Smaller MTU of both interfaces in bytes, at least 1280.
    pub mtu: u16,
    /// Key of initial sequence numbers; must be random and unknown to hosts.
    pub secret: u128,
}

/// Reason why a proxy cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PepError {
    /// The congestion control is unknown, or its parameters are invalid.
    #[error(transparent)]
    Algorithm(#[from] AlgorithmError),
    /// The registry entry of a congestion control sets invalid keys of `[tcp]`.
    #[error("`{algorithm}` sets invalid keys of [tcp]: {reason}")]
    Keys {
        /// The algorithm.
        algorithm: &'static str,
        /// Description of the error.
        reason: String,
    },
    /// Unknown parameter.
    #[error("unknown parameter `{key}` of `{NAME}`")]
    UnknownParameter {
        /// The unknown key.
        key: String,
        /// The known keys.
        known: Vec<String>,
    },
    /// A parameter with a wrong type.
    #[error("invalid parameters of `{NAME}`: {0}")]
    Parameter(String),
    /// A number is out of range.
    #[error("`{key}` must be at least {least}")]
    TooSmall {
        /// The parameter.
        key: &'static str,
        /// The smallest valid value, with its unit.
        least: &'static str,
    },
}

/// Keys and congestion control of the connections toward one side.
#[derive(Clone)]
pub(crate) struct EndConfig {
    pub(crate) tcp: Arc<TcpConfig>,
    pub(crate) congestion_control: cc::Factory,
}

impl ProxyParams {
    /// Reads parameters, and checks them. Absent ones have their defaults.
    ///
    /// # Errors
    /// Returns an error if a parameter is unknown or invalid.
    ///
    /// ```
    /// use roughlink_core::pep::ProxyParams;
    ///
    /// let params = ProxyParams::from_table(&"cc = \"wave-fr\"\nbuffer = \"1 MiB\"".parse().unwrap())?;
    /// assert_eq!((params.cc.as_str(), params.buffer, params.lan_cc.as_str()), ("wave-fr", 1 << 20, "cubic"));
    /// let error = ProxyParams::from_table(&"bufer = \"1 MiB\"".parse().unwrap()).unwrap_err();
    /// assert_eq!(error.to_string(), "unknown parameter `bufer` of `pep`");
    /// # Ok::<(), roughlink_core::pep::PepError>(())
    /// ```
    pub fn from_table(table: &toml::Table) -> Result<Self, PepError> {
        let known = ProxyParams::default().to_table();
        if let Some(key) = table.keys().find(|&key| !known.contains_key(key)) {
            return Err(PepError::UnknownParameter { key: key.clone(), known: known.keys().cloned().collect() });
        }
        let params = ProxyParams::deserialize(table.clone()).map_err(|e| PepError::Parameter(plain_message(&e)))?;
        params.check()?;
        Ok(params)
    }

    /// Returns all parameters.
    pub fn to_table(&self) -> toml::Table {
        toml::Table::try_from(self).expect("parameters are plain values")
    }

    /// Returns the JSON Schema of the parameters.
    pub fn schema() -> schemars::Schema {
        schemars::schema_for!(ProxyParams)
    }

    /// Returns the configuration toward the rough link, and toward the other side.
    ///
    /// # Errors
    /// Returns an error if an algorithm is unknown or a parameter is invalid.
    pub(crate) fn resolve(&self) -> Result<[EndConfig; 2], PepError> {
        let counts =
            [("connections", self.connections), ("half_open", self.half_open), ("time_waits", self.time_waits)];
        if let Some((key, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(PepError::TooSmall { key, least: "1" });
        }
        for (key, buffer) in [("buffer", self.buffer), ("lan_buffer", self.lan_buffer)] {
            if buffer < MIN_BUFFER {
                return Err(PepError::TooSmall { key, least: "4 kB" });
            }
        }
        Ok([
            end_config(&self.cc, &self.cc_params, self.buffer)?,
            end_config(&self.lan_cc, &self.lan_cc_params, self.lan_buffer)?,
        ])
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// Returns an error if an algorithm is unknown or a parameter is invalid.
    pub fn check(&self) -> Result<(), PepError> {
        self.resolve().map(drop)
    }
}

fn end_config(cc: &str, params: &toml::Table, buffer: u32) -> Result<EndConfig, PepError> {
    let algorithm = cc::algorithm(cc)?;
    let congestion_control = algorithm.factory(Stack::Linux.name(), params)?;
    let invalid = |reason| PepError::Keys { algorithm: algorithm.name, reason };
    let preset = TcpConfig {
        nagle: false, // the host has decided already when its data leaves
        keepalive: true,
        snd_buf: Buffer::Bytes(buffer.into()),
        rcv_buf: Buffer::Bytes(buffer.into()),
        ..TcpConfig::preset(Stack::Linux)
    };
    let mut keys = toml::Table::try_from(preset).expect("keys are plain values");
    keys.extend(algorithm.tcp.parse::<toml::Table>().map_err(|e| invalid(plain_message(&e)))?);
    let tcp: TcpConfig = keys.try_into().map_err(|e| invalid(plain_message(&e)))?;
    Ok(EndConfig { tcp: tcp.into(), congestion_control })
}

/// Name of the proxy as a kind of gateway in scenario files.
pub const NAME: &str = "pep";
/// Summary in one line for lists.
pub const SUMMARY: &str = "splits TCP connections before a rough link, with an algorithm for the link";
/// Specification that defines it.
pub const SOURCE: &str = "RFC 3135";
/// Smallest buffer, bytes: room for two full segments.
const MIN_BUFFER: u32 = 4_000;
/// Smallest MTU, bytes: an IPv6 link has no smaller one.
pub(super) const MIN_MTU: u16 = MIN_V6;
