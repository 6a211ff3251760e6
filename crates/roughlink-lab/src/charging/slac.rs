//! Time limits of SLAC (ISO 15118-3 table A.1).

use super::capture::CapturedPacket;
use super::{AnswerTime, Deadline, DialogueKind, JudgedDialogue};
use roughlink_core::app::request::Side;
use roughlink_core::units::Time;
use roughlink_core::wire::ethernet::{address_text, is_group};
use roughlink_core::wire::homeplug::types::*;
use roughlink_core::wire::homeplug::{MacAddress, ManagementMessage};

/// Limit between two messages.
struct Rule {
    message: &'static str,
    /// Side at which the timer runs.
    side: Side,
    timer: &'static str,
    limit: Time,
    /// Messages that start the time.
    from: &'static [u16],
    /// Messages that end it.
    to: &'static [u16],
    pairing: Pairing,
}

/// Relation of two messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pairing {
    /// A response, which may be missing. Repetitions of the request do not restart the time before the limit.
    Response,
    /// The next message of the same side, if it goes on. The latest start counts.
    Sequence,
}

use Pairing::{Response, Sequence};

const fn rule(
    (message, side, pairing): (&'static str, Side, Pairing),
    (timer, limit_ms): (&'static str, u64),
    from: &'static [u16],
    to: &'static [u16],
) -> Rule {
    Rule { message, side, timer, limit: Time::from_millis(limit_ms), from, to, pairing }
}

const RESPONSE: (&str, u64) = ("TT_match_response", 200);
const PERFORMANCE: (&str, u64) = ("TP_match_response", 100);
const SEQUENCE: (&str, u64) = ("TT_match_sequence", 400);
const SOUND_INTERVAL: (&str, u64) = ("TP_EV_batch_msg_interval", 50);
const RESULTS: (&str, u64) = ("TT_EV_atten_results", 1200);
const MATCH_SESSION: (&str, u64) = ("TT_EVSE_match_session", 10_000);

const PARM: [&[u16]; 2] = [&[CM_SLAC_PARM], &[CM_SLAC_PARM | CNF]];
const START: &[u16] = &[CM_START_ATTEN_CHAR | IND];
const SOUNDS: [&[u16]; 2] = [&[CM_START_ATTEN_CHAR | IND, CM_MNBC_SOUND | IND], &[CM_MNBC_SOUND | IND]];
const ATTEN: [&[u16]; 2] = [&[CM_ATTEN_CHAR | IND], &[CM_ATTEN_CHAR | RSP]];
const VALIDATE: [&[u16]; 2] = [&[CM_VALIDATE], &[CM_VALIDATE | CNF]];
const CHOICE: &[u16] = &[CM_VALIDATE, CM_SLAC_MATCH];
const MATCH: [&[u16]; 2] = [&[CM_SLAC_MATCH], &[CM_SLAC_MATCH | CNF]];

/// The limits in the order of a run.
#[rustfmt::skip]
const RULES: [Rule; 12] = [
    rule(("CM_SLAC_PARM", Side::Evcc, Response), RESPONSE, PARM[0], PARM[1]),
    rule(("CM_SLAC_PARM", Side::Secc, Response), PERFORMANCE, PARM[0], PARM[1]),
    rule(("CM_START_ATTEN_CHAR", Side::Secc, Sequence), SEQUENCE, PARM[1], START),
    rule(("CM_MNBC_SOUND", Side::Evcc, Sequence), SOUND_INTERVAL, SOUNDS[0], SOUNDS[1]),
    rule(("CM_ATTEN_CHAR", Side::Evcc, Response), RESULTS, START, ATTEN[0]),
    rule(("CM_ATTEN_CHAR", Side::Evcc, Response), PERFORMANCE, ATTEN[0], ATTEN[1]),
    rule(("CM_ATTEN_CHAR", Side::Secc, Response), RESPONSE, ATTEN[0], ATTEN[1]),
    rule(("CM_VALIDATE", Side::Evcc, Response), RESPONSE, VALIDATE[0], VALIDATE[1]),
    rule(("CM_VALIDATE", Side::Secc, Response), PERFORMANCE, VALIDATE[0], VALIDATE[1]),
    rule(("CM_SLAC_MATCH", Side::Secc, Sequence), MATCH_SESSION, ATTEN[1], CHOICE),
    rule(("CM_SLAC_MATCH", Side::Evcc, Response), RESPONSE, MATCH[0], MATCH[1]),
    rule(("CM_SLAC_MATCH", Side::Secc, Response), PERFORMANCE, MATCH[0], MATCH[1]),
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
        let frame = Some(packet.datagram.bytes()).filter(|_| packet.datagram.is_frame());
        let Some(m) = frame.and_then(ManagementMessage::read) else { return false };
        // The second validation lasts as long as its field Timer says, so this limit does not apply to it.
        let is_timed = m.kind == CM_VALIDATE && m.entry.get(1).is_some_and(|timer| *timer != 0);
        let seen = SlacFrame { at: packet.at, place: packet.place, from: m.from, to: m.to, kind: m.kind };
        // A node with several cables sends a frame on all of them at once.
        if self.0.len() < MAX_FRAMES && self.0.last() != Some(&seen) && !is_timed {
            self.0.push(seen);
        }
        true
    }

    /// Returns the runs of all vehicles, each with the time of its first message. The capture ends at `end`.
    pub(super) fn judged(&self, end: Time) -> Vec<(Time, JudgedDialogue)> {
        let mut vehicles: Vec<(Time, MacAddress)> = Vec::new();
        for frame in self.0.iter().filter(|frame| frame.kind == CM_SLAC_PARM) {
            if vehicles.len() < MAX_VEHICLES && vehicles.iter().all(|(_, known)| *known != frame.from) {
                vehicles.push((frame.at, frame.from));
            }
        }
        vehicles.into_iter().map(|(first, vehicle)| (first, self.run(vehicle, end))).collect()
    }

    fn run(&self, vehicle: MacAddress, end: Time) -> JudgedDialogue {
        let frames: Vec<&SlacFrame> = self.0.iter().filter(|f| [f.from, f.to].contains(&vehicle)).collect();
        // The first place that shows a frame of a host is the host's own.
        let home = |host: MacAddress| frames.iter().find(|frame| frame.from == host).map(|frame| frame.place);
        let mut chargers: Vec<(MacAddress, Option<usize>)> = Vec::new();
        for frame in frames.iter().filter(|frame| frame.to == vehicle && frame.kind == CM_SLAC_PARM | CNF) {
            if chargers.len() < MAX_CHARGERS && chargers.iter().all(|(known, _)| *known != frame.from) {
                chargers.push((frame.from, home(frame.from)));
            }
        }
        let at_vehicle = |f: &&&SlacFrame| Some(f.place) == home(vehicle);
        let at_vehicle: Vec<&SlacFrame> = frames.iter().filter(at_vehicle).copied().collect();
        let deadlines = RULES.iter().map(|rule| {
            let mut deadline = Deadline::new(rule.message, rule.side, rule.timer, rule.limit);
            // Sounds are for all chargers, and so are the requests of a vehicle that no charger answers.
            if rule.side == Side::Evcc && (rule.pairing == Sequence || chargers.is_empty()) {
                rule.apply(at_vehicle.iter().copied(), &mut deadline, end);
                return deadline;
            }
            for &(charger, place) in &chargers {
                let between = |f: &&SlacFrame| f.from == charger || f.to == charger || is_group(f.to);
                match rule.side {
                    Side::Evcc => rule.apply(at_vehicle.iter().copied().filter(between), &mut deadline, end),
                    Side::Secc => {
                        let here = frames.iter().copied().filter(|f| Some(f.place) == place);
                        rule.apply(here.filter(between), &mut deadline, end);
                    }
                }
            }
            deadline.answers.sort_by_key(|answer| answer.at);
            deadline
        });
        JudgedDialogue {
            kind: DialogueKind::Slac,
            vehicle: address_text(vehicle),
            deadlines: deadlines.filter(|d| !d.answers.is_empty() || d.unanswered > 0).collect(),
            unknown: 0,
            gaps: 0,
        }
    }
}

impl Rule {
    fn apply<'a>(&self, frames: impl Iterator<Item = &'a SlacFrame>, deadline: &mut Deadline, end: Time) {
        // A missing response counts at the side that waits for it.
        let counts = self.pairing == Response && self.timer != PERFORMANCE.0;
        let mut since: Option<Time> = None;
        for frame in frames {
            if self.to.contains(&frame.kind)
                && let Some(start) = since.take()
            {
                deadline.answers.push(AnswerTime { at: frame.at, took: frame.at.saturating_sub(start) });
            }
            if self.from.contains(&frame.kind) {
                let passed = since.is_some_and(|start| frame.at.saturating_sub(start) > self.limit);
                deadline.unanswered += u64::from(passed && counts);
                if passed || self.pairing == Sequence || since.is_none() {
                    since = Some(frame.at);
                }
            }
        }
        let passed = since.is_some_and(|start| end.saturating_sub(start) > self.limit);
        deadline.unanswered += u64::from(passed && counts);
    }
}

/// Most messages, vehicles, and chargers of a vehicle to keep; a capture of strangers may have any number.
const MAX_FRAMES: usize = 100_000;
const MAX_VEHICLES: usize = 16;
const MAX_CHARGERS: usize = 16;
