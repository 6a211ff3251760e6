//! `[[link]] kind = "hdplc"`: the keys of a home power line.

use super::air::air;
use super::file::{Link, Mac, RateTrace};
use super::leaf::Leaf;
use super::link::{Load, mtu, rate, span};
use super::problem::{Problem, Report};
use roughlink_core::link::hdplc::{Duplex, HdplcConfig};
use roughlink_core::units::{QueueLimit, Rate, Time};

/// Resolves an HD-PLC link. A value that is missing or cannot be read is reported and replaced by the default, so that the
/// rest can be checked.
pub(super) fn hdplc(link: &Link, load: Load<'_>, report: &mut Report) -> HdplcConfig {
    let mut c = HdplcConfig { mtu: mtu(link, report), ..HdplcConfig::default() };
    c.rate = rate(&link.rate, report).unwrap_or(c.rate);
    c.rate_trace = link.rate_trace.as_ref().map(|t| rate_trace(t, report)).unwrap_or_default();
    match report.read(&link.queue) {
        None => {}
        Some(QueueLimit::Packets(n)) if n > 0 => c.queue = n,
        Some(QueueLimit::Packets(_)) => {
            let problem = Problem::new("a modem without a queue sends nothing").at(span(&link.queue), "");
            report.error(problem.help("at least 1 pkt; the paper's modem holds 256"));
        }
        Some(QueueLimit::Bytes(_)) => {
            let problem = Problem::new("a modem's queue counts packets").at(span(&link.queue), "");
            report.error(problem.help("write queue = \"256 pkt\""));
        }
    }
    if let Some(own) = &link.mac {
        mac(&own.value, &mut c, report);
    }
    c.noise = air(link, c.noise.clone(), c.sdu_air(c.mtu), load, report);
    c
}

fn mac(mac: &Mac, c: &mut HdplcConfig, report: &mut Report) {
    for (leaf, field) in [
        (&mac.header, &mut c.header),
        (&mac.rifs, &mut c.rifs),
        (&mac.ack, &mut c.ack),
        (&mac.access_gap, &mut c.access_gap),
        (&mac.slot, &mut c.slot),
        (&mac.symbol, &mut c.symbol),
    ] {
        let Some(time) = report.read(leaf) else { continue };
        if time > LONGEST_PART {
            let problem = Problem::new(format!("no part of a frame takes {time}")).at(span(leaf), "");
            report.error(problem.help(format!("at most {LONGEST_PART}; the default is {field}")));
        }
        *field = time;
    }
    c.aggregation = report.read(&mac.aggregation).unwrap_or(c.aggregation);
    c.max_air = report.read(&mac.max_air).unwrap_or(c.max_air);
    c.lifetime = report.read(&mac.lifetime).unwrap_or(c.lifetime);
    if c.lifetime.is_zero() {
        let problem = Problem::new("packets that live no time are never sent again").at(span(&mac.lifetime), "");
        report.error(problem.help("write a time such as \"500 ms\"; transmissions = 1 is a line without repeats"));
    }
    c.in_order = report.read(&mac.in_order).unwrap_or(c.in_order);
    c.duplex = report.read(&mac.duplex).unwrap_or(c.duplex);
    c.collisions = report.read(&mac.collisions).unwrap_or(c.collisions);
    if c.collisions && c.duplex == Duplex::Full {
        let problem = Problem::new("directions that do not contend do not collide").at(span(&mac.collisions), "");
        report.error(problem.help("leave `collisions` out, or write duplex = \"half\""));
    }
    c.queue_counts_unacknowledged =
        report.read(&mac.queue_counts_unacknowledged).unwrap_or(c.queue_counts_unacknowledged);
    c.robust_share = report.read(&mac.robust_share).map_or(c.robust_share, |s| s.0);
    c.error_weight = report.read(&mac.error_weight).map_or(c.error_weight, |s| s.0);
    if let Some(n) = counted(&mac.max_sdus, "a frame of no packets carries nothing", MOST_SDUS, report) {
        c.max_sdus = n as usize;
    }
    if let Some(n) = counted(&mac.access_slots, "an access within no slots", MOST_SLOTS, report) {
        c.access_slots = n;
    }
    if let Some(n) = counted(&mac.transmissions, "a packet that is never sent", 255, report) {
        c.transmissions = n as u8;
    }
    if let Some(bytes) = report.read(&mac.sdu_overhead) {
        match u16::try_from(bytes.0) {
            Ok(n) if n <= MOST_OVERHEAD => c.sdu_overhead = n,
            _ => {
                let problem = Problem::new(format!("an `sdu_overhead` of {bytes} per packet is not credible"));
                report.error(problem.at(span(&mac.sdu_overhead), "").help(format!("it is at most {MOST_OVERHEAD} B")));
            }
        }
    }
}

/// A number from 1 to `most`; `zero` describes the meaning of zero.
fn counted(leaf: &Option<Leaf<u32>>, zero: &str, most: u32, report: &mut Report) -> Option<u32> {
    let n = report.read(leaf)?;
    if (1..=most).contains(&n) {
        return Some(n);
    }
    let message = if n == 0 { zero.to_owned() } else { format!("{n} is too large") };
    let help = if n == 0 { "at least 1".to_owned() } else { format!("at most {most}") };
    report.error(Problem::new(message).at(span(leaf), "").help(help));
    None
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

/// The longest header, gap or acknowledgement.
const LONGEST_PART: Time = Time::from_secs(1);
/// Packets in a frame: as many bits must fit into an acknowledgement; the paper's modem has 31.
const MOST_SDUS: u32 = 1024;
/// Access slots: no contention window of any standard comes near.
const MOST_SLOTS: u32 = 65_536;
/// As for the framing of pipes.
const MOST_OVERHEAD: u16 = 1024;
