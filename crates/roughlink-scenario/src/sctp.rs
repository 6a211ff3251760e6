//! The keys of an SCTP flow, resolved: RFC 9260's values, over them the keys of `[sctp]`, over them those of the flow's own
//! `sctp` table.

use super::file::{Flow, Sctp};
use super::leaf::{At, Leaf};
use super::problem::{Problem, Report};
use super::tcp::factory;
use roughlink_core::cc::{self, Algorithm};
use roughlink_core::sctp::SctpConfig;
use roughlink_core::tcp::Stack;
use roughlink_core::units::Time;
use std::ops::Range;

/// A flow's association.
pub(super) struct Resolved {
    pub config: SctpConfig,
    pub cc: &'static Algorithm,
    pub factory: cc::Factory,
    /// What decides about the size of its packets.
    pub place: Range<usize>,
}

/// The congestion control of an SCTP flow without `cc`.
const DEFAULT_CC: &str = "sctp";
/// SACK.Delay is at most this (RFC 9260 section 6.2).
const LONGEST_SACK_DELAY: Time = Time::from_millis(500);

/// The association of `flow`, whose keys may be in `global`; `span` is what to underline when a fault has no key of its
/// own. `None` after a fault, which is reported.
pub(super) fn resolve(global: Option<&Sctp>, flow: &Flow, span: Range<usize>, report: &mut Report) -> Option<Resolved> {
    if let Some(tcp) = &flow.tcp {
        let problem = Problem::new("`tcp` has no effect on a flow over SCTP").at(tcp.span.clone(), "");
        report.error(problem.help("write the keys of the association in `sctp`"));
    }
    let own = flow.sctp.as_ref().map(|s| &s.value);
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
        place = keys.payload.as_ref().map_or(place, |leaf| leaf.span.clone());
    }
    let common = global.and_then(|s| s.cc.as_ref()).and_then(|leaf| leaf.value.as_ref().ok()).map(|cc| cc.0);
    let cc = match &flow.cc {
        Some(_) => report.read(&flow.cc)?.0,
        None => common.or_else(|| cc::algorithm(DEFAULT_CC).ok())?,
    };
    let shared = global.and_then(|s| s.cc_params.as_ref()).filter(|_| common.map_or(DEFAULT_CC, |a| a.name) == cc.name);
    let sources: Vec<&At<_>> = shared.into_iter().chain(&flow.cc_params).collect();
    let factory = factory(Stack::Rfc, cc, toml::Table::new(), &sources, &span, report)?;
    Some(Resolved { config, cc, factory, place })
}

/// Sets what is given, and reports what makes no sense.
fn apply(keys: &Sctp, config: &mut SctpConfig, report: &mut Report) {
    fn set<T: Clone>(to: &mut T, leaf: &Option<Leaf<T>>, report: &mut Report) {
        if let Some(value) = report.read(leaf) {
            *to = value;
        }
    }
    report.read(&keys.cc);
    set(&mut config.initial_rto, &keys.initial_rto, report);
    set(&mut config.min_rto, &keys.min_rto, report);
    set(&mut config.max_rto, &keys.max_rto, report);
    set(&mut config.clock_granularity, &keys.clock_granularity, report);
    set(&mut config.data_retries, &keys.data_retries, report);
    set(&mut config.init_retries, &keys.init_retries, report);
    set(&mut config.cookie_life, &keys.cookie_life, report);
    set(&mut config.delayed_ack, &keys.delayed_ack, report);
    set(&mut config.delayed_ack_timeout, &keys.delayed_ack_timeout, report);
    set(&mut config.initial_window, &keys.initial_window, report);
    set(&mut config.initial_ssthresh, &keys.initial_ssthresh, report);
    set(&mut config.partial_reliability, &keys.partial_reliability, report);
    if let Some(burst) = report.read(&keys.max_burst) {
        config.max_burst = Some(burst);
    }
    let mut number = |leaf: &Option<Leaf<u32>>, key: &str, most: u32, help: &str| {
        let n = report.read(leaf)?;
        if (1..=most).contains(&n) {
            return Some(n);
        }
        let problem = Problem::new(format!("`{key}` of {n} is not possible"));
        report.error(problem.at(leaf.as_ref()?.span.clone(), "").help(format!("it lies between 1 and {most}; {help}")));
        None
    };
    if let Some(n) = number(&keys.streams, "streams", 65_535, "1 is usual") {
        config.streams = n as u16;
    }
    if let Some(n) = number(&keys.missing_reports, "missing_reports", 255, "RFC 9260 has 3") {
        config.missing_reports = n as u8;
    }
    for (leaf, key) in [(&keys.delayed_ack, "delayed_ack"), (&keys.max_burst, "max_burst")] {
        number(leaf, key, u32::MAX, "leave it out for RFC 9260's value");
    }
    if let Some(bytes) = report.read(&keys.payload) {
        match u16::try_from(bytes.0).ok().filter(|n| (4..=SctpConfig::MAX_PAYLOAD).contains(n)) {
            Some(payload) => config.payload = payload,
            None => {
                let problem = Problem::new(format!("a `payload` of {} B is not possible", bytes.0));
                let place = keys.payload.as_ref().map_or(0..0, |l| l.span.clone());
                report.error(
                    problem.at(place, "").help("it lies between 4 B and 65484 B; 1452 B fills an Ethernet frame"),
                );
            }
        }
    }
    if let Some(bytes) = report.read(&keys.rcv_buf) {
        config.rcv_buf = u32::try_from(bytes.0).unwrap_or(u32::MAX);
        if config.rcv_buf < 1500 {
            let problem = Problem::new(format!("`rcv_buf` of {} B is below the minimum of RFC 9260", bytes.0));
            let place = keys.rcv_buf.as_ref().map_or(0..0, |l| l.span.clone());
            report.error(problem.at(place, "").help("it is at least 1500 B; 128 KiB is the default"));
        }
    }
    if config.min_rto > config.max_rto {
        let message = format!("`min_rto` ({}) is above `max_rto` ({})", config.min_rto, config.max_rto);
        let place = keys.min_rto.as_ref().or(keys.max_rto.as_ref()).map_or(0..0, |l| l.span.clone());
        report.error(Problem::new(message).at(place, "").help("lower the one or raise the other"));
    }
    let place_of = |leaf: &Option<Leaf<Time>>| leaf.as_ref().map(|l| l.span.clone());
    if config.initial_rto > config.max_rto {
        let message = format!("`initial_rto` ({}) is above `max_rto` ({})", config.initial_rto, config.max_rto);
        let place = place_of(&keys.initial_rto).or(place_of(&keys.max_rto)).unwrap_or(0..0);
        report.error(Problem::new(message).at(place, "").help("lower the one or raise the other"));
    }
    if config.delayed_ack_timeout > LONGEST_SACK_DELAY {
        let message = format!("a SACK must not wait for {}", config.delayed_ack_timeout);
        let place = place_of(&keys.delayed_ack_timeout).unwrap_or(0..0);
        report.error(Problem::new(message).at(place, "").help(format!("at most {LONGEST_SACK_DELAY} (RFC 9260)")));
    }
    if let Some(leaf) = keys.initial_window.as_ref().filter(|_| config.initial_window() == 0) {
        let problem = Problem::new("an initial window of nothing lets nothing leave").at(leaf.span.clone(), "");
        report.error(problem.help("leave it out for RFC 9260's"));
    }
    for (leaf, key) in [
        (&keys.initial_rto, "initial_rto"),
        (&keys.max_rto, "max_rto"),
        (&keys.delayed_ack_timeout, "delayed_ack_timeout"),
    ] {
        if let Some(zero) = leaf.as_ref().filter(|l| l.value.as_ref().is_ok_and(|t| t.is_zero())) {
            let problem = Problem::new(format!("`{key}` is zero")).at(zero.span.clone(), "");
            report.error(problem.help("a timer that runs out at once never lets a SACK arrive"));
        }
    }
}
