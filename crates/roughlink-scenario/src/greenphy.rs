//! `[[link]] kind = "greenphy"`: a charging cable, on its own or as one of several pairs of modems on the same medium.

use super::leaf::{At, Decibel, Leaf, span, words};
use super::link_keys::TomlMedium;
use super::noise::{Noises, air};
use super::problem::{Problem, Problems};
use super::struct_keys::StructKeys;
use super::table::FileLoader;
use roughlink_core::link::greenphy::{GreenPhyConfig, PriorityClass};
use roughlink_core::units::{QueueLimit, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// The keys of a Green PHY cable.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlGreenPhy {
    /// ROBO mode, which sets the defaults of `mac`.
    #[schemars(extend("default" = "hpgp-hs"))]
    pub profile: Option<Leaf<Profile>>,
    /// Priority class of both directions, or `["ca1", "ca3"]` for forward and reverse; `ca1` if absent.
    pub class: Option<Leaf<[PriorityClass; 2]>>,
    /// Drop-tail queue of the operating system before the modem, per direction, in packets.
    #[schemars(extend("default" = QueueLimit::Packets(GreenPhyConfig::default().host_queue)))]
    pub queue: Option<Leaf<QueueLimit>>,
    /// Attenuation between the two modems, from 0 dB to 100 dB. If set, modems in emulations answer management messages
    /// (SLAC), and other frames pass only between modems with the same key.
    pub attenuation: Option<Leaf<Decibel>>,
    /// Changes of the cable, in order of time; plugged in before the first. Modems with keys leave their network when
    /// the cable is unplugged, and join again `mac.join` after it is plugged in.
    pub timeline: Option<Vec<At<TomlPlug>>>,
    /// Parameters of medium access.
    pub mac: Option<Box<At<StructKeys<GreenPhyConfig>>>>,
    /// Keys of the shared medium.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub medium: TomlMedium,
}

/// Change of a charging cable.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlPlug {
    /// Time of the change.
    #[schemars(with = "Leaf<Time>", example = "30 s")]
    pub at: Option<Leaf<Time>>,
    /// Duration, after which the cable is plugged in again; until the next change if absent. Only with `up = false`.
    #[serde(rename = "for")]
    pub lasts: Option<Leaf<Time>>,
    /// `false` if the cable is unplugged, `true` if it is plugged in.
    #[schemars(with = "Leaf<bool>")]
    pub up: Option<Leaf<bool>>,
}

/// A set of values for a shared medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(super) enum Profile {
    /// Green PHY, ROBO mode HS: 9.8 Mbit/s on the wire, at best 7.3 Mbit/s of payload.
    #[serde(rename = "hpgp-hs")]
    Hs,
    /// Green PHY, ROBO mode STD: 4.9 Mbit/s on the wire, at best 3.4 Mbit/s of payload.
    #[serde(rename = "hpgp-std")]
    Std,
    /// Green PHY, ROBO mode MINI: 3.8 Mbit/s on the wire, at best 1.1 Mbit/s of payload.
    #[serde(rename = "hpgp-mini")]
    Mini,
}

words!(Profile);

impl TomlGreenPhy {
    /// Returns true if the link sets keys of its medium. Classes do not count because they belong to the link.
    pub(crate) fn describes(&self) -> bool {
        self.profile.is_some() || self.queue.is_some() || self.mac.is_some()
    }

    pub(crate) fn resolve(
        &self,
        mtu: u16,
        noise: Option<&At<Noises>>,
        load: FileLoader<'_>,
        report: &mut Problems,
    ) -> GreenPhyConfig {
        let mut c = match report.read(&self.profile) {
            None | Some(Profile::Hs) => GreenPhyConfig::hpgp_hs(),
            Some(Profile::Std) => GreenPhyConfig::hpgp_std(),
            Some(Profile::Mini) => GreenPhyConfig::hpgp_mini(),
        };
        if let Some(mac) = &self.mac {
            apply(mac, &mut c, report);
        }
        c.mtu = mtu;
        c.attenuation_db = report.read(&self.attenuation).map(|Decibel(db)| db.round() as u8);
        match report.read(&self.queue) {
            Some(QueueLimit::Packets(n)) => c.host_queue = n,
            Some(QueueLimit::Bytes(_)) => {
                let problem = Problem::new("`queue` of a Green PHY link must be in packets").at(span(&self.queue), "");
                report.error(problem.help("write queue = \"100 pkt\""));
            }
            None => {}
        }
        c.unplugged = self.timeline.iter().map(|changes| unplugged(changes, report)).collect();
        c.classes = report.read(&self.class).map_or(Vec::new(), Vec::from);
        if c.host_queue == 0 && c.modem_ring == 0 {
            let problem = Problem::new("`queue` and `modem_ring` must not both be 0: stations would send nothing");
            report.error(
                problem.at(span(&self.queue), "").help("write queue = \"100 pkt\", or mac = { modem_ring = 10 }"),
            );
        }
        c.noise = air(noise, c.noise.clone(), c.payload_air(1), load, report);
        c
    }
}

/// Returns the periods in which a cable is unplugged.
fn unplugged(changes: &[At<TomlPlug>], report: &mut Problems) -> Vec<[Time; 2]> {
    let mut periods: Vec<[Time; 2]> = Vec::new();
    let mut before: Option<Time> = None;
    for At { span: here, value: c } in changes {
        let (at, lasts) = (report.read(&c.at).unwrap_or_default(), report.read(&c.lasts));
        let Some(up) = report.read(&c.up) else {
            let problem = Problem::new("this change of the cable has no `up`").at(here.clone(), "");
            report.error(problem.help("write up = false to unplug the cable, or up = true to plug it in"));
            continue;
        };
        if let Some(last) = before.filter(|last| *last > at) {
            let problem = Problem::new(format!("the timeline goes back in time, from {last} to {at}"));
            report.error(problem.at(span(&c.at), "").help("sort the changes, and let each end before the next begins"));
        }
        if up && lasts.is_some() {
            let problem = Problem::new("`for` needs `up = false`").at(span(&c.lasts), "");
            report.error(problem.help("remove it: the cable stays plugged in until the next change"));
        }
        let until = lasts.map_or(Time::MAX, |lasts| at + lasts);
        let open = periods.last_mut().filter(|period| period[1] == Time::MAX);
        match (up, open) {
            (true, Some(period)) => period[1] = at,
            (true, None) => {}
            (false, Some(period)) => period[1] = until,
            (false, None) => periods.push([at, until]),
        }
        before = Some(at + lasts.unwrap_or_default());
    }
    periods
}

/// Overrides the profile's values with the keys of `mac`.
fn apply(
    At { span: here, value: mac }: &At<StructKeys<GreenPhyConfig>>,
    c: &mut GreenPhyConfig,
    report: &mut Problems,
) {
    let before = report.problems.len();
    let mode = c.mode;
    mac.apply(c, report);
    c.mode = mode; // set by the profile, not by `mac`
    let most = (1..=MAX_PBS).rev().find(|&n| c.payload_air(n) <= MAX_FL).unwrap_or(1);
    if let Some(place) = mac.span("max_pbs").filter(|_| !(1..=most).contains(&c.max_pbs)) {
        let problem = Problem::new(format!("`max_pbs` must be between 1 and {most} in this mode, found {}", c.max_pbs));
        report.error(problem.at(place, "").help(format!("write at most {most}, which fits into {MAX_FL} on the air")));
        c.max_pbs = 1;
    }
    // The standard reserves a region for contention. An exchange must fit into it, or no station could ever send.
    let slots = c.backoff_low.windows.into_iter().max().unwrap_or(1);
    let least = (c.exchange_time(1) + c.slot * u64::from(slots)).max(MIN_REGION);
    let left = Time::from_secs_f64(2.0 / c.mains_hz).saturating_sub(c.beacon);
    if left < least && report.problems.len() == before {
        let problem = Problem::new(format!("beacon regions of {} leave too little time for contention", c.beacon));
        let place = mac.span("beacon").unwrap_or_else(|| here.clone());
        report.error(
            problem.at(place, "").help(format!("decrease `beacon`: two cycles of the mains must leave {least}")),
        );
    }
}

/// Region for contention in each beacon period (Zarikoff and Malone on IEEE 1901).
const MIN_REGION: Time = Time::from_millis(4);
/// Longest payload of an MPDU (HomePlug AV: MaxFL).
const MAX_FL: Time = Time::from_nanos(2_501_120);
const MAX_PBS: usize = 16;
