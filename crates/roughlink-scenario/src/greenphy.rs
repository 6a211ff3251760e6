//! `[[link]] kind = "greenphy"`: a charging cable, on its own or as one of several pairs of modems on the same medium.

use super::air::air;
use super::file::{Link, Mac, Profile};
use super::leaf::At;
use super::link::{Load, mtu, span};
use super::problem::{Problem, Report};
use roughlink_core::link::greenphy::GreenPhyConfig;
use roughlink_core::units::{QueueLimit, Time};

/// Resolves the model of a link.
pub(super) fn greenphy(link: &Link, load: Load<'_>, report: &mut Report) -> GreenPhyConfig {
    let mut c = match report.read(&link.profile) {
        None | Some(Profile::Hs) => GreenPhyConfig::hpgp_hs(),
        Some(Profile::Std) => GreenPhyConfig::hpgp_std(),
        Some(Profile::Mini) => GreenPhyConfig::hpgp_mini(),
    };
    c.mtu = mtu(link, report);
    match report.read(&link.queue) {
        Some(QueueLimit::Packets(n)) => c.host_queue = n,
        Some(QueueLimit::Bytes(_)) => {
            let problem = Problem::new("the queue before a Green PHY modem counts packets").at(span(&link.queue), "");
            report.error(problem.help("write queue = \"100 pkt\""));
        }
        None => {}
    }
    c.classes = report.read(&link.class).map_or(Vec::new(), Vec::from);
    if let Some(mac) = &link.mac {
        apply(mac, &mut c, report);
    }
    if c.host_queue == 0 && c.modem_ring == 0 {
        let problem = Problem::new("a station without a queue and without a ring sends nothing");
        report.error(problem.at(span(&link.queue), "").help("write queue = \"100 pkt\", or mac = { modem_ring = 10 }"));
    }
    c.noise = air(link, c.noise.clone(), c.payload_air(1), load, report);
    c
}

/// The keys of `mac` over what the profile has.
fn apply(At { span: here, value: mac }: &At<Mac>, c: &mut GreenPhyConfig, report: &mut Report) {
    let before = report.problems.len();
    if let Some(n) = report.read(&mac.max_pbs) {
        c.max_pbs = n as usize;
        let most = (1..=MOST_PBS).rev().find(|&n| c.payload_air(n) <= MAX_FL).unwrap_or(1);
        if !(1..=most).contains(&c.max_pbs) {
            let problem = Problem::new(format!("an MPDU of {n} PBs is not possible in this mode"));
            let help = format!("from 1 to {most}: what fits into {MAX_FL} on the air");
            report.error(problem.at(span(&mac.max_pbs), "").help(help));
            c.max_pbs = 1;
        }
    }
    for (leaf, key, value, least) in [
        (&mac.latency, "latency", &mut c.latency, Time::ZERO),
        (&mac.slot, "slot", &mut c.slot, Time(1)),
        (&mac.cifs, "cifs", &mut c.cifs, Time::ZERO),
        (&mac.rifs, "rifs", &mut c.rifs, Time::ZERO),
        (&mac.delimiter, "delimiter", &mut c.delimiter, Time(1)),
        (&mac.eifs, "eifs", &mut c.eifs, Time::ZERO),
        (&mac.beacon, "beacon", &mut c.beacon, Time::ZERO),
        (&mac.lifetime, "lifetime", &mut c.lifetime, Time(1)),
    ] {
        *value = report.read(leaf).unwrap_or(*value);
        if *value < least || *value > LONGEST {
            let problem = Problem::new(format!("a `{key}` of {value} is not possible")).at(span(leaf), "");
            report.error(problem.help(format!("from {least} to {LONGEST}")));
        }
    }
    c.mains_hz = report.read(&mac.mains).map_or(c.mains_hz, |hz| hz.0);
    c.modem_ring = report.read(&mac.modem_ring).unwrap_or(c.modem_ring);
    c.eifs_after_collision = report.read(&mac.eifs_after_collision).unwrap_or(c.eifs_after_collision);
    c.robust_share = report.read(&mac.robust_share).map_or(c.robust_share, |share| share.0);
    if let Some(n) = report.read(&mac.transmissions) {
        c.transmissions = u8::try_from(n).ok().filter(|n| *n > 0).unwrap_or_else(|| {
            let problem = Problem::new(format!("a block cannot be sent {n} times")).at(span(&mac.transmissions), "");
            report.error(problem.help("`transmissions` is from 1 to 255; 1 = never again"));
            1
        });
    }
    if let Some(bytes) = report.read(&mac.frame_overhead) {
        c.frame_overhead = u16::try_from(bytes.0).ok().filter(|n| *n <= 1024).unwrap_or_else(|| {
            let problem = Problem::new(format!("framing of {} B is not credible", bytes.0));
            report
                .error(problem.at(span(&mac.frame_overhead), "").help("Ethernet's header and check sequence are 18 B"));
            18
        });
    }
    // The standard keeps a region for contention; and an exchange must fit into it, or nothing would ever be sent.
    let slots = c.backoff_low.windows.into_iter().max().unwrap_or(1);
    let least = (c.exchange_time(1) + c.slot * u64::from(slots)).max(LEAST_REGION);
    let left = Time::from_secs_f64(2.0 / c.mains_hz).saturating_sub(c.beacon);
    if left < least && report.problems.len() == before {
        let problem = Problem::new(format!("beacon regions of {} leave too little for contention", c.beacon));
        let place = if mac.beacon.is_some() { span(&mac.beacon) } else { here.clone() };
        report.error(problem.at(place, "").help(format!("two cycles of the mains must leave {least}")));
    }
}

/// Region for contention in each beacon period (Zarikoff and Malone on IEEE 1901).
const LEAST_REGION: Time = Time::from_millis(4);
/// Longest payload of an MPDU (HomePlug AV: MaxFL).
const MAX_FL: Time = Time::from_nanos(2_501_120);
const MOST_PBS: usize = 16;
/// Longer times can only be mistakes.
const LONGEST: Time = Time::from_secs(60);
