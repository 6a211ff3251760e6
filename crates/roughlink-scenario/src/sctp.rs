//! Resolved keys of an SCTP flow: RFC 9260's values, overridden by `[sctp]`, then by the flow's own `sctp` table.

use super::leaf::{At, CcName, Leaf};
use super::problem::{Problem, Problems};
use super::struct_keys::{Params, StructKeys};
use super::tcp::{TomlConnection, congestion};
use roughlink_core::cc;
use roughlink_core::scenario::CongestionSpec;
use roughlink_core::sctp::SctpConfig;
use roughlink_core::tcp::Stack;
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::Range;
use std::sync::Arc;

/// The keys of an SCTP association; defaults are the protocol parameters of RFC 9260.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlSctp {
    /// Congestion control: `sctp` (RFC 9260), any other algorithm, or `avoca` around one.
    #[schemars(extend("default" = "sctp"))]
    pub cc: Option<Leaf<CcName>>,
    /// Parameters of `cc`; flows with another algorithm ignore them.
    pub cc_params: Option<At<Params>>,
    /// Keys of the endpoint.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub keys: StructKeys<SctpConfig>,
}

pub(super) struct ResolvedSctp {
    pub config: SctpConfig,
    pub congestion: Arc<CongestionSpec>,
    /// Place of the key that determines the size of packets.
    pub place: Range<usize>,
}

const DEFAULT_CC: &str = "sctp";

/// Resolves the association of `flow`, whose keys may be in `global`. A fault without a key underlines `span`. Reports
/// faults and returns `None` after one.
pub(super) fn resolve(
    global: Option<&TomlSctp>,
    own: Option<&TomlSctp>,
    flow: &TomlConnection,
    span: Range<usize>,
    report: &mut Problems,
) -> Option<ResolvedSctp> {
    if let Some(ip) = &flow.ip {
        let problem = Problem::new("`ip` has no effect on a flow over SCTP").at(ip.span.clone(), "");
        report.error(problem.help("remove `ip`: SCTP flows use IPv4"));
    }
    if let Some(tcp) = &flow.tcp {
        let problem = Problem::new("`tcp` has no effect on a flow over SCTP").at(tcp.span.clone(), "");
        report.error(problem.help("write the keys of the association in `sctp`"));
    }
    for (key, place) in [
        ("cc", own.and_then(|s| s.cc.as_ref()).map(|l| l.span.clone())),
        ("cc_params", own.and_then(|s| s.cc_params.as_ref()).map(|p| p.span.clone())),
    ] {
        if let Some(place) = place {
            let problem = Problem::new(format!("`{key}` does not belong in a flow's `sctp` table"));
            report.error(problem.at(place, "").help(format!("write `{key}` in the flow itself")));
        }
    }
    let mut config = SctpConfig::default();
    let mut place = span.clone();
    for keys in global.into_iter().chain(own) {
        apply(keys, &mut config, report);
        place = keys.keys.span("payload").unwrap_or(place);
    }
    for key in ["lifetime", "max_retransmissions"].into_iter().filter(|_| !config.partial_reliability) {
        if let Some(place) = own.into_iter().chain(global).find_map(|keys| keys.keys.span(key)) {
            let problem = Problem::new(format!("`{key}` has no effect: all messages are reliable")).at(place, "");
            report.error(problem.help("add partial_reliability = true, or remove it"));
        }
    }
    let common = global.and_then(|s| s.cc.as_ref()).and_then(|leaf| leaf.value.as_ref().ok()).map(|cc| cc.0);
    let cc = match &flow.cc {
        Some(_) => report.read(&flow.cc)?.0,
        None => common.or_else(|| cc::algorithm(DEFAULT_CC).ok())?,
    };
    let shared = global.and_then(|s| s.cc_params.as_ref()).filter(|_| common.map_or(DEFAULT_CC, |a| a.name) == cc.name);
    let sources: Vec<&At<_>> = shared.into_iter().chain(&flow.cc_params).collect();
    let congestion = congestion(Stack::Rfc, cc, toml::Table::new(), &sources, &span, report)?;
    Some(ResolvedSctp { config, congestion, place })
}

/// Applies the written keys, and reports invalid combinations.
fn apply(keys: &TomlSctp, config: &mut SctpConfig, report: &mut Problems) {
    report.read(&keys.cc);
    keys.keys.apply(config, report);
    let place = |keys_: &[&str]| keys_.iter().find_map(|key| keys.keys.span(key)).unwrap_or(0..0);
    for (low, low_key) in [(config.min_rto, "min_rto"), (config.initial_rto, "initial_rto")] {
        if low > config.max_rto {
            let message = format!("`{low_key}` ({low}) must not exceed `max_rto` ({})", config.max_rto);
            let problem = Problem::new(message).at(place(&[low_key, "max_rto"]), "");
            report.error(problem.help(format!("lower `{low_key}` or raise `max_rto`")));
        }
    }
    if let Some(place) = keys.keys.span("initial_window").filter(|_| config.initial_window() == 0) {
        let problem = Problem::new("`initial_window` must be greater than zero").at(place, "");
        report.error(problem.help("remove it to use the value of RFC 9260"));
    }
}
