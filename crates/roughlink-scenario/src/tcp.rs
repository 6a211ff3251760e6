//! Resolved keys of a TCP flow. The preset of its `stack` is overridden by the keys of its algorithm's registry entry,
//! then by `[tcp]`, then by the flow's own `tcp` table.
//!
//! `cc_params` in `[tcp]` belong to the algorithm named there. A flow with another algorithm ignores them. A flow with
//! the same algorithm uses them, and overrides them key by key with its own `cc_params`.

use super::leaf::{At, CcName, Leaf, words};
use super::problem::{Problem, Problems, suggest};
use super::struct_keys::{Params, StructKeys, over};
use roughlink_core::cc::{self, Algorithm, AlgorithmError};
use roughlink_core::packet::IPV6_EXTRA;
use roughlink_core::scenario::CongestionSpec;
use roughlink_core::tcp::{Buffer, LossRecovery, Stack, TcpConfig};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::Arc;

/// The keys of TCP connections. An absent key defaults to the value that the algorithm requires, or else to the stack's
/// value.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlTcp {
    /// Congestion control; `roughlink cc list` describes all.
    #[schemars(extend("default" = "cubic"))]
    pub cc: Option<Leaf<CcName>>,
    /// Parameters of `cc`; flows with another algorithm ignore them.
    pub cc_params: Option<At<Params>>,
    /// Method to end slow start before a loss, for algorithms that offer a choice; the algorithm's default if absent.
    pub hystart: Option<Leaf<HystartWord>>,
    /// Keys of the endpoint.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub keys: StructKeys<TcpConfig>,
}

/// The keys of a flow with a connection.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlConnection {
    /// Congestion control; overrides `cc` in `[tcp]` or, over SCTP, in `[sctp]`.
    pub cc: Option<Leaf<CcName>>,
    /// Parameters of the algorithm.
    pub cc_params: Option<At<Params>>,
    /// Any other `[tcp]` key, for this flow.
    pub tcp: Option<Box<At<TomlTcp>>>,
    /// IP version of a flow over TCP; 6 for a charging session and 4 for other flows if absent. An IPv6 header is 20 B
    /// longer, and the default `mss` is 20 B smaller. Links fragment packets above their `mtu` as with IPv4, although
    /// in IPv6 only the source may.
    #[schemars(extend("enum" = [4, 6]))]
    pub ip: Option<Leaf<u32>>,
}

/// Method to end slow start before a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum HystartWord {
    /// No method: slow start ends only on congestion.
    Off,
    /// HyStart as in Linux and ns-3.
    Classic,
    /// HyStart++ (RFC 9406).
    Plusplus,
}

words!(HystartWord);

/// Congestion control of flows if neither the flow nor `[tcp]` has `cc`: Linux's default.
pub(super) const DEFAULT_CC: &str = cc::DEFAULT;

/// Keys of `[tcp]` that a flow has outside of its `tcp` table.
pub(super) const ON_THE_FLOW: &[&str] = &["cc", "cc_params"];

pub(super) struct ResolvedTcp {
    pub config: Arc<TcpConfig>,
    pub cc: &'static Algorithm,
    pub congestion: Arc<CongestionSpec>,
}

fn good<T: Clone>(leaf: &Option<Leaf<T>>) -> Option<T> {
    leaf.as_ref()?.value.as_ref().ok().cloned()
}

/// Transports of flows without faults and warnings, by algorithm, IPv6, and the flow's own table: a million flows
/// usually share a few.
pub(super) type Common = BTreeMap<(&'static str, bool, String), SharedTcp>;

/// Parts of a transport that flows share.
pub(super) struct SharedTcp {
    config: Arc<TcpConfig>,
    /// Congestion control of flows that set no parameters.
    congestion: Option<Arc<CongestionSpec>>,
}

/// Tables that determine one flow.
pub(super) struct Sources<'f> {
    /// `[tcp]`.
    pub global: &'f TomlTcp,
    pub flow: &'f TomlConnection,
    pub ipv6: bool,
    /// Place to underline when a fault has no key.
    pub span: Range<usize>,
}

impl Sources<'_> {
    fn own(&self) -> Option<&TomlTcp> {
        self.flow.tcp.as_ref().map(|t| &t.value)
    }

    /// Returns the place of `key`: in the flow's table, in `[tcp]`, or else the flow itself.
    pub(super) fn span(&self, key: &str) -> Range<usize> {
        self.own()
            .and_then(|t| t.keys.span(key))
            .or_else(|| self.global.keys.span(key))
            .unwrap_or_else(|| self.span.clone())
    }

    fn is_set(&self, key: &str) -> bool {
        self.global.keys.span(key).is_some() || self.own().is_some_and(|t| t.keys.span(key).is_some())
    }

    /// Resolves the flow's transport; reports faults and returns `None` after one. Flows with equal sources share the
    /// entry in `common`.
    pub(super) fn resolve(&self, common: &mut Common, report: &mut Problems) -> Option<ResolvedTcp> {
        if let Some(own) = self.own() {
            let misplaced = [
                ("cc", own.cc.as_ref().map(|l| l.span.clone())),
                ("cc_params", own.cc_params.as_ref().map(|p| p.span.clone())),
            ];
            for (key, span) in misplaced {
                if let Some(span) = span {
                    let problem = Problem::new(format!("`{key}` does not belong in a flow's `tcp` table"));
                    report.error(problem.at(span, "").help(format!("write `{key}` in the flow itself")));
                }
            }
        }
        let stack = self.own().and_then(|t| t.keys.get("stack")).or(self.global.keys.get("stack")).unwrap_or_default();
        let cc = self.algorithm(report)?;
        let own = self.own().map(|table| table.keys.to_string()).unwrap_or_default();
        let said = (report.problems.len(), report.warnings.len());
        let shared = match common.entry((cc.name, self.ipv6, own)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let config = Arc::new(self.config(stack, cc, report));
                if said != (report.problems.len(), report.warnings.len()) {
                    let congestion = self.congestion(stack, cc, report)?;
                    return Some(ResolvedTcp { config, cc, congestion });
                }
                unknown.insert(SharedTcp { config, congestion: None })
            }
        };
        let has_own = self.flow.cc_params.is_some() || self.own().is_some_and(|table| table.hystart.is_some());
        let congestion = match &shared.congestion {
            Some(known) if !has_own => Arc::clone(known),
            _ => self.congestion(stack, cc, report)?,
        };
        if !has_own {
            shared.congestion.get_or_insert_with(|| Arc::clone(&congestion));
        }
        Some(ResolvedTcp { config: Arc::clone(&shared.config), cc, congestion })
    }

    fn algorithm(&self, report: &mut Problems) -> Option<&'static Algorithm> {
        let leaf = if self.flow.cc.is_some() { &self.flow.cc } else { &self.global.cc };
        if leaf.is_some() {
            return report.read(leaf).map(|cc| cc.0);
        }
        cc::algorithm(DEFAULT_CC)
            .map_err(|e| {
                report
                    .error(Problem::new(e.to_string()).at(self.span.clone(), "").help("select an algorithm with `cc`"))
            })
            .ok()
    }

    fn config(&self, stack: Stack, cc: &'static Algorithm, report: &mut Problems) -> TcpConfig {
        let mut config = TcpConfig::preset(stack);
        if self.ipv6 {
            config.mss -= u32::from(IPV6_EXTRA); // packets keep their size
        }
        // Reno recovers like NewReno without partial ACKs. Do not replace a better recovery of the stack.
        if cc.name == "reno" && config.recovery == LossRecovery::NewReno {
            config.recovery = LossRecovery::Reno;
        }
        let entry: toml::Table = cc.tcp.parse().expect("checked when it was added to the registry");
        if let Err(reason) = over(&mut config, entry.clone()) {
            let problem = Problem::new(format!("`{}` sets invalid keys of [tcp]: {reason}", cc.name));
            report.error(problem.at(self.span.clone(), "").help("fix the algorithm's entry in the registry"));
        }
        let asked = config.clone();
        self.global.keys.apply_to_defaults(&mut config, report);
        if let Some(own) = self.own() {
            own.keys.apply_to_defaults(&mut config, report);
        }
        // Warn of keys that the algorithm requires and the scenario overrides.
        for key in entry.keys().filter(|key| self.is_set(key)) {
            let mut would = config.clone();
            if over(&mut would, entry.clone()).is_ok() && would != config && asked != config {
                let message = format!("`{}` sets {}, but the scenario overrides `{key}`", cc.name, cc.tcp.trim());
                let problem = Problem::new(message).at(self.span(key), "this value applies");
                report.warn(problem.help(format!("remove `{key}` to use the algorithm's value")));
            }
        }
        self.check(&config, report);
        config
    }

    fn congestion(&self, stack: Stack, cc: &'static Algorithm, report: &mut Problems) -> Option<Arc<CongestionSpec>> {
        let global = good(&self.global.cc).map_or(DEFAULT_CC, |cc| cc.0.name) == cc.name;
        let sources: Vec<&At<Params>> =
            self.global.cc_params.iter().filter(|_| global).chain(&self.flow.cc_params).collect();
        let mut params = toml::Table::new();
        if let Some(hystart) = self.hystart(stack, cc, report) {
            params.insert("hystart".into(), hystart.into());
        }
        congestion(stack, cc, params, &sources, &self.span, report)
    }

    /// Returns the value of the parameter `hystart`. In a flow's own table it requires an algorithm with this
    /// parameter; in `[tcp]` it applies to all algorithms that have it.
    fn hystart(&self, stack: Stack, cc: &'static Algorithm, report: &mut Problems) -> Option<&'static str> {
        let own = self.own().and_then(|t| t.hystart.as_ref());
        let leaf = own.or(self.global.hystart.as_ref())?;
        if !cc.parameters(stack.name()).contains_key("hystart") {
            if let Some(leaf) = own {
                let problem = Problem::new(format!("`hystart` has no effect on `{}`", cc.name));
                report.error(problem.at(leaf.span.clone(), "").help("remove `hystart`"));
            }
            return None;
        }
        leaf.value.as_ref().ok().map(|choice| match choice {
            HystartWord::Off => "off",
            HystartWord::Classic => "classic",
            HystartWord::Plusplus => "plusplus",
        })
    }

    /// Rejects combinations that make no sense.
    fn check(&self, config: &TcpConfig, report: &mut Problems) {
        let mut wrong = |key: &str, message: String, help: &str| {
            report.error(Problem::new(message).at(self.span(key), "").help(help));
        };
        if config.min_rto > config.max_rto {
            let message = format!("`min_rto` ({}) must not exceed `max_rto` ({})", config.min_rto, config.max_rto);
            let key = if self.is_set("min_rto") { "min_rto" } else { "max_rto" };
            wrong(key, message, "lower `min_rto` or raise `max_rto`");
        }
        // A packet has at most 65535 B, without jumbograms (RFC 2675). Options may take 40 B (RFC 9293 section 3.1).
        let options = if config.mss_includes_options { 0 } else { 40 };
        let most = u32::from(u16::MAX) - 40 - options - if self.ipv6 { u32::from(IPV6_EXTRA) } else { 0 };
        if !(MIN_MSS..=most).contains(&config.mss) {
            let message = format!("`mss` must be between {MIN_MSS} B and {most} B, found {} B", config.mss);
            wrong("mss", message, "write mss = \"1460 B\" for Ethernet");
        }
        for (key, buffer) in [("snd_buf", config.snd_buf), ("rcv_buf", config.rcv_buf)] {
            if let Buffer::Bytes(bytes) = buffer
                && bytes < u64::from(config.mss)
            {
                let message = format!("`{key}` of {bytes} B cannot hold a segment of {} B", config.mss);
                wrong(key, message, "write \"128 KiB\" as in the papers, or \"auto\" as in Linux");
            }
        }
        let mut odd = |key: &str, message: String, help: &str| {
            report.warn(Problem::new(message).at(self.span(key), "").help(help));
        };
        for (key, set) in [("tlp", config.tlp), ("undo", config.undo)] {
            if set && self.is_set(key) && config.recovery != LossRecovery::Rack {
                odd(key, format!("`{key}` has no effect without RACK"), "set recovery = \"rack\"");
            }
        }
        if self.is_set("fr_off_until") && config.recovery == LossRecovery::Rack {
            odd(
                "fr_off_until",
                "`fr_off_until` has no effect: RACK does not count duplicate ACKs".into(),
                "remove `fr_off_until`",
            );
        }
        if let (Buffer::Bytes(bytes), false) = (config.rcv_buf, config.window_scaling)
            && bytes > 65_535
            && (self.is_set("rcv_buf") || self.is_set("window_scaling"))
        {
            let message = "without `window_scaling` only 65535 B of `rcv_buf` can be used".into();
            let key = if self.is_set("rcv_buf") { "rcv_buf" } else { "window_scaling" };
            odd(key, message, "set window_scaling = true, or lower `rcv_buf`");
        }
    }
}

/// Resolves `cc` with `params`, overridden by `sources` in order. A fault without a key underlines `span`.
pub(super) fn congestion(
    stack: Stack,
    cc: &'static Algorithm,
    mut params: toml::Table,
    sources: &[&At<Params>],
    span: &Range<usize>,
    report: &mut Problems,
) -> Option<Arc<CongestionSpec>> {
    for source in sources {
        for (key, value) in &source.value.0 {
            params.insert(key.get_ref().clone(), value.get_ref().clone());
        }
    }
    // The last table with the key takes precedence.
    let place = |key: &str| {
        let all = sources.iter().rev().flat_map(|s| s.value.0.keys());
        all.into_iter().find(|k| k.get_ref() == key).map(toml::Spanned::span)
    };
    let whole = || sources.last().map_or_else(|| span.clone(), |s| s.span.clone());
    let made = cc.factory(stack.name(), &params).map_err(|e| {
        let problem = Problem::new(e.to_string());
        report.error(match e {
            AlgorithmError::UnknownParameter { key, known, .. } => {
                let help = suggest(&key, "use one of", known.iter().map(String::as_str));
                problem.at(place(&key).unwrap_or_else(whole), "").help(help)
            }
            _ => problem.at(whole(), "").help(defaults(cc, stack, &params)),
        });
    });
    Some(Arc::new(CongestionSpec { name: cc.name.into(), params, factory: made.ok()? }))
}

fn defaults(cc: &Algorithm, stack: Stack, given: &toml::Table) -> String {
    let all = cc.parameters(stack.name());
    let defaults: Vec<String> = given.keys().filter_map(|key| Some(format!("{key} = {}", all.get(key)?))).collect();
    format!("for the defaults of the `{}` stack, write {}", stack.name(), defaults.join(", "))
}

/// Reports `[tcp].hystart` as a fault if no flow can use it.
pub(super) fn check_hystart(global: &TomlTcp, used: &[(Stack, &'static Algorithm)], report: &mut Problems) {
    let Some(leaf) = &global.hystart else { return };
    if !used.is_empty() && !used.iter().any(|(stack, cc)| cc.parameters(stack.name()).contains_key("hystart")) {
        let mut names: Vec<&str> = used.iter().map(|(_, cc)| cc.name).collect();
        names.dedup();
        let problem = Problem::new("`hystart` has no effect on any flow").at(leaf.span.clone(), "");
        report.error(
            problem.help(format!("remove `hystart`, which is not a parameter of {}", super::problem::list(&names))),
        );
    }
}

/// Returns the bytes of a full segment's packet in addition to the `mss`.
pub(super) fn headers(tcp: &TcpConfig, ipv6: bool) -> u32 {
    let options = if tcp.timestamps && !tcp.mss_includes_options { 12 } else { 0 };
    40 + options + if ipv6 { u32::from(IPV6_EXTRA) } else { 0 }
}

/// Least `mss`: room for the options and some data.
const MIN_MSS: u32 = 64;
