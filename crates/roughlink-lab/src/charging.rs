//! Judgment of charging from a capture: each response and the limit of its time, in SLAC (ISO 15118-3 table A.1) and in
//! the session (ISO 15118-2 table 109, DIN 70121 table 75).
//!
//! A capture may show a packet at several nodes. The node that shows the first message of a vehicle first is the
//! vehicle's end, and the node that shows it last is the charger's end. A limit counts at the end where its timer runs.
//! If the capture was made at one place, both sides are judged there. A request counts as unanswered if the capture
//! continues for longer than the limit.

mod capture;
mod session;
mod slac;

use crate::disk;
use crate::error::LabError;
use capture::CapturedPacket;
use roughlink_core::app::request::Side;
use roughlink_core::units::Time;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// A matching run of SLAC, a session, or a discovery without one.
#[derive(Clone, PartialEq, Debug)]
pub struct JudgedDialogue {
    /// Kind of dialogue.
    pub kind: DialogueKind,
    /// Address of the vehicle.
    pub vehicle: String,
    /// Limits, with the times that count against them.
    pub deadlines: Vec<Deadline>,
    /// Responses of unknown kind, such as those to signed requests.
    pub unknown: u64,
    /// Gaps in the capture: messages may be missing.
    pub gaps: u64,
}

/// Kind of a dialogue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DialogueKind {
    /// Matching of a vehicle with a charger.
    Slac,
    /// Discovery that no session followed.
    Discovery,
    /// Charging session, with the discovery before it.
    Session,
}

/// A limit, with the times that count against it.
#[derive(Clone, PartialEq, Debug)]
pub struct Deadline {
    /// Name of the messages.
    pub message: &'static str,
    /// Side at which the timer runs.
    pub side: Side,
    /// Name of the limit in the standard.
    pub timer: &'static str,
    /// Limit.
    pub limit: Time,
    /// Times of the responses, in order.
    pub answers: Vec<AnswerTime>,
    /// Requests without a response, at the side that waits for it.
    pub unanswered: u64,
}

/// Time of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnswerTime {
    /// When the response arrived, or left the charger.
    pub at: Time,
    /// Time since the request.
    pub took: Time,
}

impl Deadline {
    fn new(message: &'static str, side: Side, timer: &'static str, limit: Time) -> Self {
        Deadline { message, side, timer, limit, answers: Vec::new(), unanswered: 0 }
    }

    /// Returns the number of responses above the limit.
    pub fn late(&self) -> u64 {
        self.answers.iter().filter(|answer| answer.took > self.limit).count() as u64
    }

    /// Returns the `q` quantile of the times by nearest rank; `None` without responses.
    pub fn quantile(&self, q: f64) -> Option<Time> {
        let mut times: Vec<Time> = self.answers.iter().map(|answer| answer.took).collect();
        times.sort_unstable();
        let rank = libm::ceil(q * times.len() as f64) as usize;
        times.get(rank.max(1) - 1).copied()
    }
}

/// Reads a capture in the format pcapng or pcap. Returns SLAC and sessions by the time of their first messages. A
/// capture that ends within a packet is read up to there.
///
/// # Errors
/// Returns an error if the file cannot be read or is no capture.
pub fn judge(path: &Path) -> Result<Vec<JudgedDialogue>, LabError> {
    let failed = |source: io::Error| LabError::Read { path: path.to_owned(), source };
    let file = disk::reader(path).map_err(failed)?;
    let (mut slac, mut sessions) = (slac::SlacFrames::default(), session::SessionMessages::default());
    let mut end = Time::ZERO;
    capture::read(file, |packet: &CapturedPacket<'_>| {
        end = end.max(packet.at);
        if !slac.see(packet) {
            sessions.see(packet);
        }
    })
    .map_err(failed)?;
    let mut all = slac.judged(end);
    all.extend(sessions.judged(end));
    all.sort_by_key(|(first, dialogue)| (*first, dialogue.kind));
    Ok(all.into_iter().map(|(_, dialogue)| dialogue).collect())
}

/// Returns the places that saw a message of a vehicle, each with the time of its first one: the vehicle's end and the
/// charger's end. `None` if no place saw any.
fn ends(seen: impl Iterator<Item = (Time, usize)>) -> Option<[usize; 2]> {
    let mut first: BTreeMap<usize, Time> = BTreeMap::new();
    for (at, place) in seen {
        first.entry(place).or_insert(at);
    }
    let by_time = || first.iter().map(|(place, at)| (*at, *place));
    Some([by_time().min()?.1, by_time().max()?.1])
}

#[cfg(test)]
mod tests;
