//! Entries of the registry of algorithms: an algorithm with a name, its parameters, and their presets.

use super::{CongestionControl, Flow, STACKS};
use crate::registry::RegistryEntry;
use crate::units::plain_message;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt;
use std::sync::Arc;

/// Makes a fresh instance for a connection.
pub type Factory = Arc<dyn Fn(&Flow) -> Box<dyn CongestionControl> + Send + Sync>;

/// An algorithm that can be built from parameters.
pub trait BuildAlgorithm: CongestionControl + Sized + 'static {
    /// Parameters with Linux's defaults; must reject unknown keys (`#[serde(default, deny_unknown_fields)]`).
    type Params: DeserializeOwned + Serialize + JsonSchema + Default + Clone + Send + Sync + 'static;
    /// Rejects parameters that make no sense, with the reason.
    fn check(_params: &Self::Params) -> Result<(), String> {
        Ok(())
    }
    /// Creates the algorithm of an end of a connection before that end sends data. `flow.mss`, `initial_window` and
    /// `initial_ssthresh` are set.
    fn new(params: &Arc<Self::Params>, flow: &Flow) -> Self;
}

/// An entry of the registry.
#[derive(Clone, Copy)]
pub struct Algorithm {
    /// Name in scenario files.
    pub name: &'static str,
    /// Summary in one line for `roughlink cc list`.
    pub summary: &'static str,
    /// Source of its definition.
    pub source: &'static str,
    /// Parameters (TOML) that this name changes from the algorithm's defaults.
    pub defaults: &'static str,
    /// `[tcp]` keys (TOML) that this name implies unless the scenario sets them.
    pub tcp: &'static str,
    presets: [(&'static str, &'static str); 3],
    make: fn(toml::Table) -> Result<Factory, String>,
    parameters: fn() -> toml::Table,
    schema: fn() -> schemars::Schema,
}

impl Algorithm {
    /// Registers `A` under `name`, with a one-line summary and the source of its definition.
    pub const fn new<A: BuildAlgorithm>(name: &'static str, summary: &'static str, source: &'static str) -> Self {
        Algorithm {
            name,
            summary,
            source,
            defaults: "",
            tcp: "",
            presets: [("", ""); 3],
            make: make::<A>,
            parameters: || toml::Table::try_from(A::Params::default()).expect("parameters are plain values"),
            schema: || schemars::schema_for!(A::Params),
        }
    }
    /// Sets the parameters, in TOML, that this name changes from the algorithm's defaults.
    #[must_use]
    pub const fn defaults(mut self, toml: &'static str) -> Self {
        self.defaults = toml;
        self
    }
    /// Sets the `[tcp]` keys, in TOML, that this name implies unless the scenario sets them.
    #[must_use]
    pub const fn tcp(mut self, toml: &'static str) -> Self {
        self.tcp = toml;
        self
    }
    /// Sets the parameters, in TOML, that apply under a stack. Call it for up to three stacks.
    #[must_use]
    pub const fn preset(mut self, stack: &'static str, toml: &'static str) -> Self {
        let mut i = 0;
        while !self.presets[i].0.is_empty() {
            i += 1;
        }
        self.presets[i] = (stack, toml);
        self
    }

    /// Returns the parameters in effect under `stack` before the scenario's parameters apply. Parameters of this
    /// name override the defaults, and parameters of the stack override both. The presets of `ns3` also apply under
    /// `ns3-3.27` and `ns3-3.29`.
    ///
    /// ```
    /// use roughlink_core::cc::algorithm;
    ///
    /// let newreno = algorithm("newreno")?;
    /// assert_eq!(newreno.parameters("linux")["halve"].as_str(), Some("cwnd"));
    /// assert_eq!(newreno.parameters("ns3")["halve"].as_str(), Some("flight"));
    /// # Ok::<(), roughlink_core::cc::AlgorithmError>(())
    /// ```
    pub fn parameters(&self, stack: &str) -> toml::Table {
        let mut all = (self.parameters)();
        all.extend(parse(self.defaults));
        let family = stack.split('-').next();
        for (name, toml) in self.presets {
            if Some(name) == family {
                all.extend(parse(toml));
            }
        }
        all
    }

    /// Returns the JSON Schema of the parameters.
    pub fn schema(&self) -> schemars::Schema {
        (self.schema)()
    }

    /// Returns a factory for this algorithm with its own parameters under `stack`.
    pub fn default_factory(&self, stack: &str) -> Factory {
        self.factory(stack, &toml::Table::new()).expect("checked when the entry was registered")
    }

    /// Returns a factory for this algorithm under `stack` with the scenario's `params` on top.
    pub fn factory(&self, stack: &str, params: &toml::Table) -> Result<Factory, AlgorithmError> {
        let known = self.parameters(stack);
        for key in params.keys() {
            if !known.contains_key(key) {
                return Err(AlgorithmError::UnknownParameter {
                    algorithm: self.name,
                    key: key.clone(),
                    known: known.keys().cloned().collect(),
                });
            }
        }
        let mut all = known;
        all.extend(params.clone());
        (self.make)(all).map_err(|reason| AlgorithmError::Parameter { algorithm: self.name, reason })
    }
}

impl RegistryEntry for Algorithm {
    fn name(&self) -> &'static str {
        self.name
    }
    fn check(&self) -> Result<(), String> {
        for toml in [self.defaults, self.tcp].into_iter().chain(self.presets.map(|preset| preset.1)) {
            toml.parse::<toml::Table>().map_err(|e| e.message().to_owned())?;
        }
        STACKS
            .iter()
            .try_for_each(|stack| self.factory(stack, &toml::Table::new()).map(drop))
            .map_err(|e| e.to_string())
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Algorithm").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Reasons why an algorithm cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AlgorithmError {
    /// No such algorithm.
    #[error("unknown congestion control `{0}`")]
    UnknownAlgorithm(String),
    /// No such parameter.
    #[error("unknown parameter `{key}` of `{algorithm}`")]
    UnknownParameter {
        /// The algorithm.
        algorithm: &'static str,
        /// The unknown key.
        key: String,
        /// The known keys.
        known: Vec<String>,
    },
    /// A parameter with a wrong type or value.
    #[error("invalid parameters of `{algorithm}`: {reason}")]
    Parameter {
        /// The algorithm.
        algorithm: &'static str,
        /// Reason.
        reason: String,
    },
}

fn make<A: BuildAlgorithm>(params: toml::Table) -> Result<Factory, String> {
    let params: A::Params = params.try_into().map_err(|e: toml::de::Error| plain_message(&e))?;
    A::check(&params)?;
    let params = Arc::new(params);
    Ok(Arc::new(move |flow| Box::new(A::new(&params, flow))))
}

fn parse(toml: &str) -> toml::Table {
    toml.parse().expect("the registry's own TOML")
}
