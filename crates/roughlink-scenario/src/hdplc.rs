//! `[[link]] kind = "hdplc"`: the keys of a home power line.

use super::air::air;
use super::file::{Link, RateTrace};
use super::link::{Load, mtu, rate, span};
use super::problem::{Problem, Report};
use roughlink_core::link::hdplc::{Duplex, HdplcConfig};
use roughlink_core::units::{QueueLimit, Rate, Time};

/// Resolves an HD-PLC link. A value that is missing or cannot be read is reported and replaced by the default, so that the
/// rest can be checked.
pub(super) fn hdplc(link: &Link, load: Load<'_>, report: &mut Report) -> HdplcConfig {
    let mut c = HdplcConfig::default();
    if let Some(mac) = &link.mac {
        mac.value.of().apply(&mut c, report);
        if let Some(place) = mac.value.span("collisions").filter(|_| c.collisions && c.duplex == Duplex::Full) {
            let problem = Problem::new("directions that do not contend do not collide").at(place, "");
            report.error(problem.help("leave `collisions` out, or write duplex = \"half\""));
        }
    }
    c.mtu = mtu(link, report);
    c.rate = rate(&link.rate, report).unwrap_or(c.rate);
    c.rate_trace = link.rate_trace.as_ref().map(|t| rate_trace(t, report)).unwrap_or_default();
    match report.read(&link.queue) {
        None => {}
        Some(QueueLimit::Packets(n)) => c.queue = n,
        Some(QueueLimit::Bytes(_)) => {
            let problem = Problem::new("a modem's queue counts packets").at(span(&link.queue), "");
            report.error(problem.help("write queue = \"256 pkt\""));
        }
    }
    c.noise = air(link, c.noise.clone(), c.sdu_air(c.mtu), load, report);
    c
}

fn rate_trace(trace: &RateTrace, report: &mut Report) -> Vec<(Time, Rate)> {
    let steps: Vec<(Time, Rate)> = trace
        .value
        .iter()
        .filter_map(|step| Some((report.read(&step.value.at)?, rate(&step.value.rate, report)?)))
        .collect();
    if let Some(pair) = steps.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        let problem = Problem::new("the times of a rate trace must ascend, each once").at(trace.span.clone(), "");
        report.error(problem.help(format!("{} follows {}: sort the steps by time", pair[1].0, pair[0].0)));
    }
    steps
}
