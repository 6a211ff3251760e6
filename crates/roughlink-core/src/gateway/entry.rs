//! Entries of the registry of gateways: a gateway with a name, and its parameters.

use super::{Gateway, Heading, kind};
use crate::registry::RegistryEntry;
use crate::units::plain_message;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt;

/// Name in scenario files that stands for no gateway, so that an experiment can switch a gateway off.
pub const NO_GATEWAY: &str = "none";

/// Gateway that can be built from parameters.
pub trait BuildGateway: Gateway + Sized + 'static {
    /// Parameters with their defaults. Must reject unknown keys (`#[serde(default, deny_unknown_fields)]`).
    type Params: DeserializeOwned + Serialize + JsonSchema + Default;
    /// Checks the parameters; returns the reason if they are invalid.
    fn check(params: &Self::Params) -> Result<(), String>;
    /// Creates the gateway at the start of a run.
    fn new(params: &Self::Params) -> Self;
}

/// Entry of the registry.
#[derive(Clone, Copy)]
pub struct RegisteredGateway {
    /// Name in scenario files.
    pub name: &'static str,
    /// Summary in one line for lists.
    pub summary: &'static str,
    /// Publication or specification that defines it.
    pub source: &'static str,
    /// Parameters (TOML) that override the gateway's defaults under this name.
    pub defaults: &'static str,
    /// Heading of segments that leave over the rough link: inward if the served hosts are beyond it, else outward.
    pub over: Heading,
    /// True if the gateway uses the state of a modem, so its link must have one.
    pub needs_modem: bool,
    /// True if the gateway reacts to link events, so a real interface needs an agent that reports them.
    pub needs_coverage: bool,
    make: fn(toml::Table) -> Result<Box<dyn Gateway>, String>,
    parameters: fn() -> toml::Table,
    schema: fn() -> schemars::Schema,
}

impl RegisteredGateway {
    /// Creates the entry of gateway `G` under `name`, with a summary and its source.
    pub const fn new<G: BuildGateway>(name: &'static str, summary: &'static str, source: &'static str) -> Self {
        RegisteredGateway {
            name,
            summary,
            source,
            defaults: "",
            over: Heading::Inward,
            needs_modem: false,
            needs_coverage: false,
            make: make::<G>,
            parameters: || toml::Table::try_from(G::Params::default()).expect("parameters are plain values"),
            schema: || schemars::schema_for!(G::Params),
        }
    }
    /// Declares that the served hosts are on this side of the link, as on a train, instead of beyond it.
    #[must_use]
    pub const fn on_this_side(mut self) -> Self {
        self.over = Heading::Outward;
        self
    }
    /// Declares that the gateway needs a modem; scenarios with it on another link are rejected.
    #[must_use]
    pub const fn in_a_modem(mut self) -> Self {
        self.needs_modem = true;
        self
    }
    /// Declares that the gateway reacts to link events.
    #[must_use]
    pub const fn with_coverage(mut self) -> Self {
        self.needs_coverage = true;
        self
    }
    /// Sets parameters (TOML) that override the gateway's defaults.
    #[must_use]
    pub const fn defaults(mut self, toml: &'static str) -> Self {
        self.defaults = toml;
        self
    }

    /// Returns the default parameters of this kind.
    pub fn parameters(&self) -> toml::Table {
        let mut all = (self.parameters)();
        all.extend(self.defaults.parse::<toml::Table>().expect("the registry's own TOML"));
        all
    }

    /// Returns the JSON Schema of the parameters.
    pub fn schema(&self) -> schemars::Schema {
        (self.schema)()
    }

    /// Builds a gateway of this kind with `params`.
    pub fn build(&self, params: &toml::Table) -> Result<Box<dyn Gateway>, GatewayError> {
        let mut all = self.parameters();
        if let Some(key) = params.keys().find(|&key| !all.contains_key(key)) {
            return Err(GatewayError::UnknownParameter {
                kind: self.name,
                key: key.clone(),
                known: all.keys().cloned().collect(),
            });
        }
        let scheme = params.get("scheme").and_then(toml::Value::as_str);
        if let Some(other) = scheme.and_then(|s| kind(s).ok()).filter(|other| other.name != self.name) {
            let reason = format!("scheme = \"{0}\" belongs to another gateway; write kind = \"{0}\"", other.name);
            return Err(GatewayError::Parameter { kind: self.name, reason });
        }
        all.extend(params.clone());
        (self.make)(all).map_err(|reason| GatewayError::Parameter { kind: self.name, reason })
    }
}

impl RegistryEntry for RegisteredGateway {
    fn name(&self) -> &'static str {
        self.name
    }
    fn check(&self) -> Result<(), String> {
        if self.name == NO_GATEWAY {
            return Err("this name is reserved: in a scenario it stands for no gateway".into());
        }
        self.defaults.parse::<toml::Table>().map_err(|e| e.message().to_owned())?;
        self.build(&toml::Table::new()).map(drop).map_err(|e| e.to_string())
    }
}

impl fmt::Debug for RegisteredGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Reason why a gateway could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// Unknown gateway.
    #[error("unknown gateway `{0}`")]
    UnknownKind(String),
    /// Unknown parameter.
    #[error("unknown parameter `{key}` of `{kind}`")]
    UnknownParameter {
        /// Name of the gateway.
        kind: &'static str,
        /// The unknown key.
        key: String,
        /// The known keys.
        known: Vec<String>,
    },
    /// A parameter with a wrong type or value.
    #[error("invalid parameters of `{kind}`: {reason}")]
    Parameter {
        /// Name of the gateway.
        kind: &'static str,
        /// Description of the error.
        reason: String,
    },
}

fn make<G: BuildGateway>(params: toml::Table) -> Result<Box<dyn Gateway>, String> {
    let params: G::Params = params.try_into().map_err(|e: toml::de::Error| plain_message(&e))?;
    G::check(&params)?;
    Ok(Box::new(G::new(&params)))
}
