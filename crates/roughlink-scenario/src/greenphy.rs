//! `[[link]] kind = "greenphy"`: a charging cable, on its own or as one of several pairs of modems on the same medium.

use super::air::air;
use super::file::{Link, Profile};
use super::given::Given;
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
    if let Some(mac) = &link.mac {
        apply(mac, &mut c, report);
    }
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
    if c.host_queue == 0 && c.modem_ring == 0 {
        let problem = Problem::new("a station without a queue and without a ring sends nothing");
        report.error(problem.at(span(&link.queue), "").help("write queue = \"100 pkt\", or mac = { modem_ring = 10 }"));
    }
    c.noise = air(link, c.noise.clone(), c.payload_air(1), load, report);
    c
}

/// The keys of `mac` over what the profile has.
fn apply(At { span: here, value: mac }: &At<Given<()>>, c: &mut GreenPhyConfig, report: &mut Report) {
    let before = report.problems.len();
    let mode = c.mode;
    mac.of().apply(c, report);
    c.mode = mode; // the profile's, which is no key of `mac`
    let most = (1..=MOST_PBS).rev().find(|&n| c.payload_air(n) <= MAX_FL).unwrap_or(1);
    if let Some(place) = mac.span("max_pbs").filter(|_| !(1..=most).contains(&c.max_pbs)) {
        let problem = Problem::new(format!("an MPDU of {} PBs is not possible in this mode", c.max_pbs));
        report.error(problem.at(place, "").help(format!("from 1 to {most}: what fits into {MAX_FL} on the air")));
        c.max_pbs = 1;
    }
    // The standard keeps a region for contention; and an exchange must fit into it, or nothing would ever be sent.
    let slots = c.backoff_low.windows.into_iter().max().unwrap_or(1);
    let least = (c.exchange_time(1) + c.slot * u64::from(slots)).max(LEAST_REGION);
    let left = Time::from_secs_f64(2.0 / c.mains_hz).saturating_sub(c.beacon);
    if left < least && report.problems.len() == before {
        let problem = Problem::new(format!("beacon regions of {} leave too little for contention", c.beacon));
        let place = mac.span("beacon").unwrap_or_else(|| here.clone());
        report.error(problem.at(place, "").help(format!("two cycles of the mains must leave {least}")));
    }
}

/// Region for contention in each beacon period (Zarikoff and Malone on IEEE 1901).
const LEAST_REGION: Time = Time::from_millis(4);
/// Longest payload of an MPDU (HomePlug AV: MaxFL).
const MAX_FL: Time = Time::from_nanos(2_501_120);
const MOST_PBS: usize = 16;
