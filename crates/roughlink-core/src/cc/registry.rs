//! Registry of algorithms, and construction of an algorithm from its name and parameters.

use super::{
    CongestionControl, Flow, avoca, bbr, bic, cubic, dctcp, highspeed, htcp, hybla, illinois, newreno, scalable, sctp,
    vegas, veno, wave, westwood, yeah,
};
use crate::registry::{Registry, RegistryEntry};
use crate::units::plain_message;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt;
use std::sync::Arc;

/// All algorithms. To add one to roughlink, add a line here. To add one in your own program, call [`Registry::add`].
///
/// ```
/// use roughlink_core::cc::REGISTRY;
///
/// let names: Vec<_> = REGISTRY.iter().map(|algorithm| algorithm.name).collect();
/// assert!(names.contains(&"bbr") && names.contains(&"illinois"));
/// assert_eq!(REGISTRY.find("cubic").unwrap().source, "RFC 9438, RFC 9406");
/// assert!(REGISTRY.find("cubik").is_none());
/// ```
pub static REGISTRY: Registry<Algorithm> = Registry::new(&[
    Algorithm::new::<newreno::NewReno>("newreno", "adds 1 segment per RTT, halves at a loss", "RFC 5681, RFC 6582")
        .preset("ns3", newreno::NS3)
        .preset("ns2", newreno::NS2)
        .preset("rfc", newreno::RFC),
    Algorithm::new::<newreno::NewReno>(
        "newreno-sc",
        "NewReno, ssthresh at least 10 segments",
        "V2G paper, Algorithm 1",
    )
    .defaults("min_ssthresh = 10")
    .preset("ns3", newreno::NS3)
    .preset("ns2", newreno::NS2)
    .preset("rfc", newreno::RFC),
    Algorithm::new::<newreno::NewReno>("reno", "adds 1 segment per RTT, halves like Linux", "Linux tcp_reno; RFC 5681")
        .preset("ns3", newreno::NS3_RENO)
        .preset("ns2", newreno::NS2)
        .preset("rfc", newreno::RFC),
    Algorithm::new::<newreno::NewReno>("tahoe", "adds 1 segment per RTT, losses restart slow start", "Jacobson 1988")
        .defaults("restart = true")
        .tcp("recovery = \"tahoe\"")
        .preset("ns3", newreno::PER_ACK)
        .preset("ns2", newreno::PER_ACK)
        .preset("rfc", newreno::RFC_GROWTH),
    Algorithm::new::<newreno::NewReno>("newreno-nd", "NewReno without delayed ACKs", "V2G paper, section 5")
        .tcp("delayed_ack = 1")
        .preset("ns3", newreno::NS3)
        .preset("ns2", newreno::NS2)
        .preset("rfc", newreno::RFC),
    Algorithm::new::<hybla::Hybla>("hybla", "window growth independent of the RTT", "Caini and Firrincieli 2004")
        .preset("ns3", hybla::NS3),
    Algorithm::new::<highspeed::HighSpeed>("highspeed", "AIMD whose factors follow the window", "RFC 3649")
        .preset("ns3", highspeed::NS3),
    Algorithm::new::<htcp::Htcp>("htcp", "increase that grows with time, adaptive decrease", "Shorten and Leith 2004")
        .preset("ns3", htcp::NS3),
    Algorithm::new::<scalable::Scalable>("scalable", "adds 1 % of ACKed data, removes 1/8 at a loss", "Kelly 2003")
        .preset("ns3", scalable::NS3),
    Algorithm::new::<bic::Bic>("bic", "binary search for the last maximum", "Xu, Harfoush, Rhee 2004")
        .preset("ns3", bic::NS3),
    Algorithm::new::<cubic::Cubic>(
        "cubic",
        "window as a cubic function of the time since a loss",
        "RFC 9438, RFC 9406",
    )
    .preset("ns3", cubic::NS3)
    .preset("rfc", cubic::RFC),
    Algorithm::new::<dctcp::Dctcp>("dctcp", "reduces the window by the share of marked bytes", "RFC 8257")
        .tcp(dctcp::TCP)
        .preset("ns3", dctcp::NS3)
        .preset("ns2", dctcp::RFC)
        .preset("rfc", dctcp::RFC),
    Algorithm::new::<yeah::Yeah>("yeah", "Scalable while the queue is short, else Reno", "Baiocchi et al. 2007")
        .preset("ns3", yeah::NS3),
    Algorithm::new::<vegas::Vegas>("vegas", "window follows the backlog in the network", "Brakmo et al. 1994")
        .preset("ns3", vegas::NS3)
        .preset("ns2", vegas::PER_ACK)
        .preset("rfc", newreno::RFC_GROWTH),
    Algorithm::new::<veno::Veno>("veno", "NewReno with a smaller decrease at a small backlog", "Fu, Liew 2003")
        .preset("ns3", veno::NS3)
        .preset("ns2", newreno::NS2)
        .preset("rfc", newreno::RFC),
    Algorithm::new::<illinois::Illinois>("illinois", "AIMD whose factors follow the queueing delay", "Liu et al. 2008")
        .preset("ns3", illinois::NS3)
        .preset("ns2", newreno::NS2)
        .preset("rfc", newreno::RFC),
    Algorithm::new::<illinois::Illinois>("illinois-aa", "Illinois with added aggressiveness", "V2G paper, figure 10")
        .defaults(illinois::ADDED_AGGRESSIVENESS)
        .preset("ns3", illinois::NS3)
        .preset("ns2", newreno::NS2)
        .preset("rfc", newreno::RFC),
    Algorithm::new::<westwood::Westwood>(
        "westwood",
        "Westwood+: bandwidth per RTT sets the window after a loss",
        "Grieco, Mascolo 2004",
    )
    .preset("ns3", westwood::NS3)
    .preset("ns2", westwood::PAPER)
    .preset("rfc", westwood::RFC),
    Algorithm::new::<westwood::Westwood>(
        "westwood-classic",
        "Westwood: bandwidth per ACK sets the window after a loss",
        "Mascolo et al. 2001",
    )
    .defaults(westwood::CLASSIC)
    .preset("ns3", westwood::CLASSIC_NS3)
    .preset("ns2", westwood::PER_ACK)
    .preset("rfc", newreno::RFC_GROWTH),
    Algorithm::new::<bbr::Bbr>("bbr", "BBR version 1: paced by a model of the path", "Cardwell et al. 2016")
        .preset("ns3", bbr::NS3),
    Algorithm::new::<wave::Wave>("wave", "timed bursts at an interval derived from ACK trains", "Wave paper")
        .tcp(wave::TCP),
    Algorithm::new::<wave::Wave>(
        "wave-fr",
        "Wave that retransmits every hole within its bursts",
        "Wave paper, with our own extension",
    )
    .defaults(wave::FR)
    .tcp(wave::FR_TCP),
    Algorithm::new::<sctp::SctpAlgorithm>("sctp", "SCTP's own: AIMD in bytes, up to a packet per SACK", "RFC 9260"),
    Algorithm::new::<avoca::Avoca>("avoca", "another algorithm, paused outside coverage", "AVOCA paper, section IV")
        .preset("ns3", avoca::NS3)
        .preset("ns2", avoca::NS2)
        .preset("rfc", avoca::RFC),
]);

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
    /// Creates the algorithm at the start of a connection. `flow.mss`, `initial_window` and `initial_ssthresh` are set.
    fn new(params: &Self::Params, flow: &Flow) -> Self;
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
    pub const fn defaults(mut self, toml: &'static str) -> Self {
        self.defaults = toml;
        self
    }
    /// Sets the `[tcp]` keys, in TOML, that this name implies unless the scenario sets them.
    pub const fn tcp(mut self, toml: &'static str) -> Self {
        self.tcp = toml;
        self
    }
    /// Sets the parameters, in TOML, that apply under a stack. Call it for up to three stacks.
    pub const fn preset(mut self, stack: &'static str, toml: &'static str) -> Self {
        let mut i = 0;
        while !self.presets[i].0.is_empty() {
            i += 1;
        }
        self.presets[i] = (stack, toml);
        self
    }

    /// Returns the parameters in effect under `stack` before the scenario's parameters apply. Parameters of this
    /// name override the defaults, and parameters of the stack override both.
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
        for (name, toml) in self.presets {
            if name == stack {
                all.extend(parse(toml));
            }
        }
        all
    }

    /// Returns the JSON Schema of the parameters.
    pub fn schema(&self) -> schemars::Schema {
        (self.schema)()
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
        self.factory("linux", &toml::Table::new()).map(drop).map_err(|e| e.to_string())
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Algorithm").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Reasons why an algorithm cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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

/// Returns the registry's entry for `name`.
pub fn algorithm(name: &str) -> Result<&'static Algorithm, AlgorithmError> {
    REGISTRY.find(name).ok_or_else(|| AlgorithmError::UnknownAlgorithm(name.to_owned()))
}

/// Creates the algorithm `name` with `params` under `stack`, for one connection; for tests.
///
/// ```
/// use roughlink_core::cc::{Flow, build};
///
/// let error = build("newreno", "linux", "min_sthresh = 3", &Flow::default()).unwrap_err();
/// assert_eq!(error.to_string(), "unknown parameter `min_sthresh` of `newreno`");
/// assert!(build("newreno", "linux", "min_ssthresh = 3", &Flow::default()).is_ok());
/// ```
pub fn build(name: &str, stack: &str, params: &str, flow: &Flow) -> Result<Box<dyn CongestionControl>, AlgorithmError> {
    let entry = algorithm(name)?;
    let params = params.parse().map_err(|e: toml::de::Error| AlgorithmError::Parameter {
        algorithm: entry.name,
        reason: e.message().to_owned(),
    })?;
    Ok(entry.factory(stack, &params)?(flow))
}

fn make<A: BuildAlgorithm>(params: toml::Table) -> Result<Factory, String> {
    let params: A::Params = params.try_into().map_err(|e: toml::de::Error| plain_message(&e))?;
    A::check(&params)?;
    Ok(Arc::new(move |flow| Box::new(A::new(&params, flow))))
}

fn parse(toml: &str) -> toml::Table {
    toml.parse().expect("the registry's own TOML")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_builds_under_every_stack() {
        let flow = Flow { mss: 1460, initial_window: 14_600, initial_ssthresh: u64::MAX, ..Flow::default() };
        for entry in REGISTRY.iter() {
            for stack in ["linux", "ns3", "ns2", "rfc"] {
                let cc =
                    entry.factory(stack, &toml::Table::new()).unwrap_or_else(|e| panic!("{}: {e}", entry.name))(&flow);
                assert!(!cc.trace().phase.is_empty());
            }
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = REGISTRY.iter().map(|a| a.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), REGISTRY.iter().count());
    }

    #[test]
    fn unknown_parameters_are_refused() {
        let flow = Flow::default();
        let e = build("newreno", "linux", "min_sthresh = 3", &flow).unwrap_err();
        assert!(matches!(e, AlgorithmError::UnknownParameter { ref key, .. } if key == "min_sthresh"), "{e}");
    }
}
