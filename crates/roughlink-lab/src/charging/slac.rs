//! Time limits of SLAC (ISO 15118-3 table A.1).

use super::capture::CapturedPacket;
use super::{AnswerTime, Deadline, DialogueKind, JudgedDialogue};
use roughlink_core::app::request::Side;
use roughlink_core::units::Time;
use roughlink_core::wire::ethernet;
use roughlink_core::wire::homeplug::types::*;
use roughlink_core::wire::homeplug::{ETHERTYPE, MacAddress, ManagementMessage};

/// Limit between two messages.
struct Rule {
    message: &'static str,
    /// Side that must keep the limit.
    side: Side,
    timer: &'static str,
    limit: Time,
    /// Messages that start the time.
    from: &'static [u16],
    /// Message that ends it.
    to: u16,
    wait: Wait,
}

/// Relation of two messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// A response, which may be missing. Repetitions of the request do not restart the time before the limit.
    Response,
    /// The next message of the same side, if it goes on. The latest start counts.
    Sequence,
}

use Wait::{Response, Sequence};

const fn rule(
    (message, side, wait): (&'static str, Side, Wait),
    (timer, limit_ms): (&'static str, u64),
    from: &'static [u16],
    to: u16,
) -> Rule {
    Rule { message, side, timer, limit: Time::from_millis(limit_ms), from, to, wait }
}

const RESPONSE: (&str, u64) = ("TT_match_response", 200);
const PERFORMANCE: (&str, u64) = ("TP_match_response", 100);
const MATCH_SESSION: (&str, u64) = ("TT_EVSE_match_session", 10_000);
const BEGIN: &[u16] = &[CM_START_ATTEN_CHAR | IND];
const SOUNDS: &[u16] = &[CM_START_ATTEN_CHAR | IND, CM_MNBC_SOUND | IND];

/// The limits in the order of a run.
#[rustfmt::skip]
const RULES: [Rule; 12] = [
    rule(("CM_SLAC_PARM", Side::Evcc, Response), RESPONSE, &[CM_SLAC_PARM], CM_SLAC_PARM | CNF),
    rule(("CM_SLAC_PARM", Side::Secc, Response), PERFORMANCE, &[CM_SLAC_PARM], CM_SLAC_PARM | CNF),
    rule(("CM_START_ATTEN_CHAR", Side::Secc, Sequence), ("TT_match_sequence", 400), &[CM_SLAC_PARM | CNF], BEGIN[0]),
    rule(("CM_MNBC_SOUND", Side::Evcc, Sequence), ("TP_EV_batch_msg_interval", 50), SOUNDS, SOUNDS[1]),
    rule(("CM_ATTEN_CHAR", Side::Evcc, Response), ("TT_EV_atten_results", 1200), BEGIN, CM_ATTEN_CHAR | IND),
    rule(("CM_ATTEN_CHAR", Side::Evcc, Response), PERFORMANCE, &[CM_ATTEN_CHAR | IND], CM_ATTEN_CHAR | RSP),
    rule(("CM_ATTEN_CHAR", Side::Secc, Response), RESPONSE, &[CM_ATTEN_CHAR | IND], CM_ATTEN_CHAR | RSP),
    rule(("CM_VALIDATE", Side::Evcc, Response), RESPONSE, &[CM_VALIDATE], CM_VALIDATE | CNF),
    rule(("CM_VALIDATE", Side::Secc, Response), PERFORMANCE, &[CM_VALIDATE], CM_VALIDATE | CNF),
    rule(("CM_SLAC_MATCH", Side::Secc, Sequence), MATCH_SESSION, &[CM_ATTEN_CHAR | RSP], CM_SLAC_MATCH),
    rule(("CM_SLAC_MATCH", Side::Evcc, Response), RESPONSE, &[CM_SLAC_MATCH], CM_SLAC_MATCH | CNF),
    rule(("CM_SLAC_MATCH", Side::Secc, Response), PERFORMANCE, &[CM_SLAC_MATCH], CM_SLAC_MATCH | CNF),
];

/// Message of SLAC at a place.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SlacFrame {
    at: Time,
    place: usize,
    from: MacAddress,
    to: MacAddress,
    kind: u16,
}

/// Messages of SLAC in a capture.
#[derive(Default)]
pub(super) struct SlacFrames(Vec<SlacFrame>);

impl SlacFrames {
    /// Keeps a message. Returns true for a frame of this protocol.
    pub(super) fn see(&mut self, packet: &CapturedPacket<'_>) -> bool {
        let frame = packet.datagram.bytes();
        if !packet.datagram.is_frame() || ethernet::ethertype(frame) != Ok(ETHERTYPE) {
            return false;
        }
        if let Some(m) = ManagementMessage::read(frame).filter(|_| self.0.len() < MAX_FRAMES) {
            let (at, place) = (packet.at, packet.place);
            let seen = SlacFrame { at, place, from: m.from, to: m.to, kind: m.kind };
            // A node with several cables sends a frame on all of them at once.
            if self.0.last() != Some(&seen) {
                self.0.push(seen);
            }
        }
        true
    }

    /// Returns the runs of all vehicles, each with the time of its first message.
    pub(super) fn judged(&self) -> Vec<(Time, JudgedDialogue)> {
        let mut vehicles: Vec<(Time, MacAddress)> = Vec::new();
        for frame in self.0.iter().filter(|frame| frame.kind == CM_SLAC_PARM) {
            if vehicles.len() < MAX_VEHICLES && vehicles.iter().all(|(_, known)| *known != frame.from) {
                vehicles.push((frame.at, frame.from));
            }
        }
        vehicles.into_iter().map(|(first, vehicle)| (first, self.run(vehicle))).collect()
    }

    fn run(&self, vehicle: MacAddress) -> JudgedDialogue {
        // The first place that shows a frame of a host is the host's own.
        let home = |host: MacAddress| self.0.iter().find(|frame| frame.from == host).map(|frame| frame.place);
        let vehicle_home = home(vehicle);
        let mut chargers: Vec<(MacAddress, Option<usize>)> = Vec::new();
        for frame in self.0.iter().filter(|frame| frame.to == vehicle && frame.kind == CM_SLAC_PARM | CNF) {
            if chargers.len() < MAX_VEHICLES && chargers.iter().all(|(known, _)| *known != frame.from) {
                chargers.push((frame.from, home(frame.from)));
            }
        }
        let deadlines = RULES.iter().map(|rule| {
            let mut deadline = Deadline::new(rule.message, rule.side, rule.timer, rule.limit);
            match rule.side {
                Side::Evcc => {
                    let ours = |f: &&SlacFrame| Some(f.place) == vehicle_home && [f.from, f.to].contains(&vehicle);
                    rule.apply(self.0.iter().filter(ours), &mut deadline);
                }
                Side::Secc => chargers.iter().for_each(|&(charger, home)| {
                    let both = |f: &&SlacFrame| {
                        let to_charger = f.from == vehicle && (f.to == charger || is_group(f.to));
                        Some(f.place) == home && (to_charger || (f.from == charger && f.to == vehicle))
                    };
                    rule.apply(self.0.iter().filter(both), &mut deadline);
                }),
            }
            deadline
        });
        JudgedDialogue {
            kind: DialogueKind::Slac,
            vehicle: vehicle.map(|byte| format!("{byte:02x}")).join(":"),
            deadlines: deadlines.filter(|d| !d.answers.is_empty() || d.unanswered > 0).collect(),
            unknown: 0,
        }
    }
}

impl Rule {
    fn apply<'a>(&self, frames: impl Iterator<Item = &'a SlacFrame>, deadline: &mut Deadline) {
        let mut since: Option<Time> = None;
        for frame in frames {
            if frame.kind == self.to
                && let Some(start) = since.take()
            {
                deadline.answers.push(AnswerTime { at: frame.at, took: frame.at.saturating_sub(start) });
            }
            if self.from.contains(&frame.kind) {
                let passed = since.is_some_and(|start| frame.at.saturating_sub(start) > self.limit);
                if passed && self.wait == Response {
                    deadline.unanswered += 1;
                }
                if passed || self.wait == Sequence || since.is_none() {
                    since = Some(frame.at);
                }
            }
        }
        if since.is_some() && self.wait == Response {
            deadline.unanswered += 1;
        }
    }
}

/// Returns true for an address of several hosts (IEEE 802.3 section 3.2.3).
fn is_group(address: MacAddress) -> bool {
    address[0] & 1 == 1
}

/// Most messages and vehicles to keep; a capture of strangers may have any number.
const MAX_FRAMES: usize = 1_000_000;
const MAX_VEHICLES: usize = 64;
