//! The keys of a TCP flow, resolved: the preset of its `stack`, over it the keys of its algorithm's registry entry,
//! over them the keys of `[tcp]`, over them those of the flow's own `tcp` table.
//!
//! `cc_params` in `[tcp]` belong to the algorithm that `[tcp]` names: a flow with another algorithm does not take
//! them, a flow with the same one does, and its own `cc_params` win key by key.

use super::file::{Flow, Hystart, Params, Tcp};
use super::leaf::{At, Leaf};
use super::problem::{Problem, Report, suggest};
use roughlink_core::cc::{self, Algorithm, BuildError};
use roughlink_core::packet::IPV6_EXTRA;
use roughlink_core::tcp::{Amount, Buffer, FrOffUntil, Recovery, RtoFloor, Stack, TcpConfig};
use roughlink_core::units::{Bytes, Time};
use serde_json::{Value, json};
use std::ops::Range;

/// The congestion control of a flow without `cc` when `[tcp]` has none either: Linux's default.
pub(super) const DEFAULT_CC: &str = "cubic";

/// Keys of `[tcp]` that a flow has outside of its `tcp` table.
pub(super) const ON_THE_FLOW: &[&str] = &["cc", "cc_params"];

/// A flow's transport.
pub(super) struct Resolved {
    pub config: TcpConfig,
    pub cc: &'static Algorithm,
    pub factory: cc::Factory,
}

/// The keys of `[tcp]` that are keys of [`TcpConfig`] under the same name: those of the same type, then the sizes.
macro_rules! keys {
    ([$($key:ident),* $(,)?], [$($size:ident),*]) => {
        /// The values of the keys in the preset of `stack`, as a scenario file writes them.
        pub(super) fn preset(stack: Stack) -> Vec<(&'static str, Value)> {
            let config = TcpConfig::preset(stack);
            vec![
                $((stringify!($key), config.$key.written()),)*
                $((stringify!($size), Bytes(u64::from(config.$size)).written()),)*
            ]
        }
        impl Tcp {
            /// Sets what is given.
            fn apply(&self, config: &mut TcpConfig) {
                $(if let Some(value) = good(&self.$key) { config.$key = value; })*
                $(if let Some(size) = good(&self.$size) {
                    config.$size = u32::try_from(size.0).unwrap_or(u32::MAX);
                })*
            }
            /// Where `key` is given.
            pub(super) fn span(&self, key: &str) -> Option<Range<usize>> {
                match key {
                    $(stringify!($key) => self.$key.as_ref().map(|leaf| leaf.span.clone()),)*
                    $(stringify!($size) => self.$size.as_ref().map(|leaf| leaf.span.clone()),)*
                    _ => None,
                }
            }
            /// Reports every value that cannot be read.
            pub(super) fn faults(&self, report: &mut Report) {
                $(report.read(&self.$key);)*
                $(report.read(&self.$size);)*
                report.read(&self.stack);
                report.read(&self.cc);
                report.read(&self.hystart);
            }
        }
    };
}
keys!(
    [
        recovery,
        sack,
        timestamps,
        window_scaling,
        initial_window,
        initial_ssthresh,
        delayed_ack,
        delayed_ack_timeout,
        ecn,
        quick_ack,
        min_rto,
        rto_floor,
        initial_rto,
        max_rto,
        syn_rto,
        clock_granularity,
        data_retries,
        limited_transmit,
        impatient,
        fr_off_until,
        tlp,
        undo,
        nagle,
        fill_window,
        timestamp_rtt,
        grow_when_limited,
        prr_wraps,
        snd_buf,
        rcv_buf,
        mss_option,
        mss_includes_options,
    ],
    [mss, write_size]
);

fn good<T: Clone>(leaf: &Option<Leaf<T>>) -> Option<T> {
    leaf.as_ref()?.value.as_ref().ok().cloned()
}

/// A value as a scenario file writes it.
trait Written {
    fn written(&self) -> Value;
}

macro_rules! written {
    ($($type:ty: $value:ident => $json:expr,)*) => {
        $(impl Written for $type {
            fn written(&self) -> Value {
                let $value = self;
                $json
            }
        })*
    };
}
written!(
    bool: flag => json!(flag),
    u32: number => json!(number),
    Recovery: word => json!(word),
    RtoFloor: word => json!(word),
    FrOffUntil: word => json!(word),
    Time: time => json!(time.to_string()),
    Bytes: bytes => json!(bytes.to_string()),
    Buffer: buffer => match buffer {
        Buffer::Auto => json!("auto"),
        Buffer::Bytes(bytes) => Bytes(*bytes).written(),
    },
    Option<Amount>: amount => match amount {
        None => json!("unlimited"),
        Some(Amount::Bytes(bytes)) => Bytes(*bytes).written(),
        Some(Amount::Segments(n)) => json!(format!("{n} pkt")),
    },
);

/// The tables that decide about one flow.
pub(super) struct Sources<'f> {
    /// `[tcp]`.
    pub global: &'f Tcp,
    /// The flow's own.
    pub flow: &'f Flow,
    /// The flow is over IPv6.
    pub ipv6: bool,
    /// What to underline when the fault has no key of its own.
    pub span: Range<usize>,
}

impl Sources<'_> {
    fn own(&self) -> Option<&Tcp> {
        self.flow.tcp.as_ref().map(|t| &t.value)
    }

    /// Where `key` is given: in the flow's table, in `[tcp]`, else the flow itself.
    pub(super) fn span(&self, key: &str) -> Range<usize> {
        self.own().and_then(|t| t.span(key)).or_else(|| self.global.span(key)).unwrap_or_else(|| self.span.clone())
    }

    fn given(&self, key: &str) -> bool {
        self.global.span(key).is_some() || self.own().is_some_and(|t| t.span(key).is_some())
    }

    /// Resolves the flow's transport; `None` after a fault, which is reported.
    pub(super) fn resolve(&self, report: &mut Report) -> Option<Resolved> {
        if let Some(own) = self.own() {
            own.faults(report);
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
        let stack = self.own().and_then(|t| good(&t.stack)).or(good(&self.global.stack)).unwrap_or_default();
        let cc = self.algorithm(report)?;
        let config = self.config(stack, cc, report);
        let factory = self.factory(stack, cc, report)?;
        Some(Resolved { config, cc, factory })
    }

    fn algorithm(&self, report: &mut Report) -> Option<&'static Algorithm> {
        let leaf = if self.flow.cc.is_some() { &self.flow.cc } else { &self.global.cc };
        if leaf.is_some() {
            return report.read(leaf).map(|cc| cc.0);
        }
        cc::algorithm(DEFAULT_CC)
            .map_err(|e| report.error(Problem::new(e.to_string()).at(self.span.clone(), "").help("name one with `cc`")))
            .ok()
    }

    fn config(&self, stack: Stack, cc: &'static Algorithm, report: &mut Report) -> TcpConfig {
        let mut config = TcpConfig::preset(stack);
        if self.ipv6 {
            config.mss -= u32::from(IPV6_EXTRA); // the packets stay as large as they are
        }
        // Reno's recovery is NewReno's without partial ACKs; where a better one is built in, it stays.
        if cc.name == "reno" && config.recovery == Recovery::NewReno {
            config.recovery = Recovery::Reno;
        }
        let entry: Tcp = toml::from_str(cc.tcp).expect("the registry's own TOML");
        entry.apply(&mut config);
        let asked = config.clone();
        self.global.apply(&mut config);
        if let Some(own) = self.own() {
            own.apply(&mut config);
        }
        // Keys that the algorithm's name sets and the scenario overrides.
        for key in toml::Table::keys(&cc.tcp.parse().expect("the registry's own TOML")) {
            let mut would = config.clone();
            entry.apply(&mut would);
            if self.given(key) && would != config && asked != config {
                let message = format!("`{}` sets {}, but `{key}` is set to something else", cc.name, cc.tcp.trim());
                let problem = Problem::new(message).at(self.span(key), "this wins");
                report.warn(problem.help(format!("leave `{key}` out to let the algorithm decide")));
            }
        }
        self.check(&config, report);
        config
    }

    fn factory(&self, stack: Stack, cc: &'static Algorithm, report: &mut Report) -> Option<cc::Factory> {
        let global = good(&self.global.cc).map_or(DEFAULT_CC, |cc| cc.0.name) == cc.name;
        let sources: Vec<&At<Params>> =
            self.global.cc_params.iter().filter(|_| global).chain(&self.flow.cc_params).collect();
        let mut params = toml::Table::new();
        if let Some(hystart) = self.hystart(stack, cc, report) {
            params.insert("hystart".into(), hystart.into());
        }
        factory(stack, cc, params, &sources, &self.span, report)
    }
    /// The value of the parameter `hystart`. In a flow's own table it requires an algorithm that has it; in `[tcp]` it
    /// applies to the algorithms that do.
    fn hystart(&self, stack: Stack, cc: &'static Algorithm, report: &mut Report) -> Option<&'static str> {
        let has = cc.parameters(stack.name()).contains_key("hystart");
        let own = self.own().and_then(|t| t.hystart.as_ref());
        if let Some(leaf) = own.filter(|_| !has) {
            let problem = Problem::new(format!("`{}` has no HyStart to choose", cc.name));
            report.error(problem.at(leaf.span.clone(), "").help("leave `hystart` out"));
        }
        let leaf = own.or(self.global.hystart.as_ref()).filter(|_| has)?;
        leaf.value.as_ref().ok().map(|choice| match choice {
            Hystart::Off => "off",
            Hystart::Classic => "classic",
            Hystart::Plusplus => "plusplus",
        })
    }

    /// Refuses combinations that make no sense.
    fn check(&self, config: &TcpConfig, report: &mut Report) {
        let mut wrong = |key: &str, message: String, help: &str| {
            report.error(Problem::new(message).at(self.span(key), "").help(help));
        };
        if config.delayed_ack == 0 {
            wrong("delayed_ack", "`delayed_ack` counts the segments per ACK".into(), "1 turns delaying off");
        }
        if config.initial_window == 0 {
            wrong("initial_window", "a window of no segments sends nothing".into(), "`initial_window` is at least 1");
        }
        for (key, time) in [
            ("delayed_ack_timeout", config.delayed_ack_timeout),
            ("initial_rto", config.initial_rto),
            ("max_rto", config.max_rto),
            ("syn_rto", config.syn_rto),
        ] {
            if time.is_zero() {
                wrong(key, format!("`{key}` is zero"), "a timer that runs out at once never lets an ACK arrive");
            }
        }
        if config.write_size == 0 {
            wrong("write_size", "an application that writes nothing".into(), "ns-3 writes 512 B at a time");
        }
        if config.min_rto > config.max_rto {
            let message = format!("`min_rto` ({}) is above `max_rto` ({})", config.min_rto, config.max_rto);
            let key = if self.given("min_rto") { "min_rto" } else { "max_rto" };
            wrong(key, message, "lower the one or raise the other");
        }
        // A packet has at most 65535 B: jumbograms (RFC 2675) are not supported. Options may take 40 B (RFC 9293 section 3.1).
        let options = if config.mss_includes_options { 0 } else { 40 };
        let most = u32::from(u16::MAX) - 40 - options - if self.ipv6 { u32::from(IPV6_EXTRA) } else { 0 };
        if !(LEAST_MSS..=most).contains(&config.mss) {
            let message = format!("an `mss` of {} B is not possible", config.mss);
            wrong("mss", message, &format!("it lies between {LEAST_MSS} B and {most} B; Ethernet gives 1460 B"));
        }
        for (key, buffer) in [("snd_buf", config.snd_buf), ("rcv_buf", config.rcv_buf)] {
            if let Buffer::Bytes(bytes) = buffer
                && bytes < u64::from(config.mss)
            {
                let message = format!("`{key}` of {bytes} B does not hold one segment of {} B", config.mss);
                wrong(key, message, "128 KiB is what the papers use, \"auto\" what Linux does");
            }
        }
        let mut odd = |key: &str, message: String, help: &str| {
            report.warn(Problem::new(message).at(self.span(key), "").help(help));
        };
        for (key, set) in [("tlp", config.tlp), ("undo", config.undo)] {
            if set && self.given(key) && config.recovery != Recovery::Rack {
                odd(key, format!("`{key}` has no effect"), "it works with recovery = \"rack\" only");
            }
        }
        if self.given("fr_off_until") && config.recovery == Recovery::Rack {
            odd(
                "fr_off_until",
                "`fr_off_until` has no effect".into(),
                "recovery = \"rack\" does not count duplicate ACKs",
            );
        }
        if let (Buffer::Bytes(bytes), false) = (config.rcv_buf, config.window_scaling)
            && bytes > 65_535
            && (self.given("rcv_buf") || self.given("window_scaling"))
        {
            let message = "without `window_scaling` only 65535 B of `rcv_buf` can be used".into();
            let key = if self.given("rcv_buf") { "rcv_buf" } else { "window_scaling" };
            odd(key, message, "set window_scaling = true, or a smaller buffer");
        }
    }
}

/// Makes `cc` with `params` and over them those of `sources`, the later ones winning; `span` is what to underline when the
/// fault has no key of its own.
pub(super) fn factory(
    stack: Stack,
    cc: &'static Algorithm,
    mut params: toml::Table,
    sources: &[&At<Params>],
    span: &Range<usize>,
    report: &mut Report,
) -> Option<cc::Factory> {
    for source in sources {
        for (key, value) in &source.value.0 {
            params.insert(key.get_ref().clone(), value.get_ref().clone());
        }
    }
    // The last table that has the key is the one that counts.
    let place = |key: &str| {
        let all = sources.iter().rev().flat_map(|s| s.value.0.keys());
        all.into_iter().find(|k| k.get_ref() == key).map(toml::Spanned::span)
    };
    let whole = || sources.last().map_or_else(|| span.clone(), |s| s.span.clone());
    cc.factory(stack.name(), &params)
        .map_err(|e| {
            let problem = Problem::new(e.to_string());
            report.error(match e {
                BuildError::UnknownParameter { key, known, .. } => {
                    let help = suggest(&key, "its parameters are", known.iter().map(String::as_str));
                    problem.at(place(&key).unwrap_or_else(whole), "").help(help)
                }
                _ => problem.at(whole(), "").help(defaults(cc, stack, &params)),
            });
        })
        .ok()
}

/// The defaults of the given parameters.
fn defaults(cc: &Algorithm, stack: Stack, given: &toml::Table) -> String {
    let all = cc.parameters(stack.name());
    let defaults: Vec<String> = given.keys().filter_map(|key| Some(format!("{key} = {}", all.get(key)?))).collect();
    format!("the `{}` stack has {}", stack.name(), defaults.join(", "))
}

/// Whether some flow can make use of `[tcp].hystart`; else it is a fault.
pub(super) fn check_hystart(global: &Tcp, used: &[(Stack, &'static Algorithm)], report: &mut Report) {
    let Some(leaf) = &global.hystart else { return };
    if !used.is_empty() && !used.iter().any(|(stack, cc)| cc.parameters(stack.name()).contains_key("hystart")) {
        let mut names: Vec<&str> = used.iter().map(|(_, cc)| cc.name).collect();
        names.dedup();
        let problem = Problem::new("no flow has a HyStart to choose").at(leaf.span.clone(), "");
        report.error(problem.help(format!("{} does without; leave `hystart` out", super::problem::list(&names))));
    }
}

/// Bytes of a full segment's packet beside the `mss`.
pub(super) fn headers(tcp: &TcpConfig, ipv6: bool) -> u32 {
    let options = if tcp.timestamps && !tcp.mss_includes_options { 12 } else { 0 };
    40 + options + if ipv6 { u32::from(IPV6_EXTRA) } else { 0 }
}

/// Room for the options and some data.
const LEAST_MSS: u32 = 64;
