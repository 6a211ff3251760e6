//! Request and response over TCP: a charging session between a vehicle (EVCC) and a charger (SECC).
//!
//! Implements ISO 15118-2 with external payment, and DIN 70121, with the same messages. After SECC discovery over UDP,
//! one connection carries the vehicle's requests and the charger's responses, one at a time, under the standard's
//! timers.
//!
//! Each side is separate, pure state. A side writes message lengths into a byte stream, keeps the messages themselves
//! in [`OutgoingMessages`], and records its events; the result combines both records. If both sides are in the network,
//! the number of bytes received identifies the messages. A side outside exchanges real bytes ([`v2gtp`]).
//!
//! Deviations: no TLS, contract payment, renegotiation, charger's Ongoing limit or vehicle's sequence performance time.

mod evcc;
pub mod exi;
pub mod message;
mod record;
mod secc;
pub mod v2gtp;

pub use message::{Document, MessageSpec, PORT, Response, SDP_REQUEST, SDP_RESPONSE, V2GTP_HEADER, V2gMessage};
pub use record::{EndCause, MessageResult, SessionOutcome, SessionResult};

use super::ApplicationResult;
use super::dialogue::{Action, Dialogue};
use crate::link::jitter::Distribution;
use crate::rng::RandomStream;
use crate::units::Time;
use crate::wire::Addresses;
use evcc::Evcc;
use schemars::JsonSchema;
use secc::Secc;
use serde::{Deserialize, Serialize};
use v2gtp::OutgoingMessages;

/// Charging mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChargingMode {
    /// CurrentDemand loop, after CableCheck and PreCharge.
    #[default]
    Dc,
    /// ChargingStatus loop.
    Ac,
}

/// Reaction to an exceeded limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LimitPolicy {
    /// Counts the violation and continues the session, as captured sessions did.
    #[default]
    Report,
    /// Closes the connection from the side that detects the violation, as the standard requires.
    Abort,
}

/// Keys of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionConfig {
    /// Charging mode.
    pub mode: ChargingMode,
    /// Begin with SECC discovery (SDP); otherwise connect immediately.
    pub discovery: bool,
    /// Request ServiceDetail.
    pub service_detail: bool,
    /// Sizes and times of each message, in the order of [`V2gMessage::ALL`].
    pub messages: [MessageSpec; V2gMessage::ALL.len()],
    /// Time between requests of the charging loop; after a late response, the next request leaves at once. DC: 90 to
    /// 250 ms in captures, default 100 ms. AC: default 1 s (assumption).
    pub period: Time,
    /// Time from a response to the next request outside the charging loop. Captured: 80 to 100 ms.
    pub pause: Time,
    /// Time from a request to its response at the charger. Captured medians: 7 to 211 ms.
    pub turnaround: Time,
    /// Random part of the turnaround: the maximum if uniform, otherwise the standard deviation.
    pub turnaround_jitter: Time,
    /// Distribution of the random part of the turnaround.
    pub turnaround_distribution: Distribution,
    /// Processing time of the charger.
    pub processing: Processing,
    /// Duration of the charging loop; `None` = until the scenario ends.
    pub charge: Option<Time>,
    /// Limits of the session.
    pub limits: SessionLimits,
    /// Reaction to an exceeded limit.
    pub policy: LimitPolicy,
}

/// Time for which the charger reports ongoing processing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct Processing {
    /// Authorization.
    #[schemars(example = "18 s")]
    pub authorization: Time,
    /// ChargeParameterDiscovery.
    pub charge_parameter_discovery: Time,
    /// CableCheck.
    pub cable_check: Time,
    /// PreCharge.
    pub precharge: Time,
    /// WeldingDetection.
    pub welding_detection: Time,
}

impl Default for Processing {
    fn default() -> Self {
        Processing {
            authorization: Time::ZERO,              // a card took 18 s in a capture
            charge_parameter_discovery: Time::ZERO, // 4 s in a capture
            cable_check: Time::from_secs(5),        // assumption: the insulation test
            precharge: Time::from_millis(2500),     // in a capture
            welding_detection: Time::ZERO,
        }
    }
}

/// Limits of a session, and of the discovery before it.
// ISO 15118-2 tables 108 to 111; [`MessageSpec`] has the values of single messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct SessionLimits {
    /// Limit from the start of the session to SessionSetupRes, at the vehicle.
    #[schemars(example = "20 s")]
    pub communication_setup: Time,
    /// Limit from the start of the session to SessionSetupRes, at the charger.
    pub secc_communication_setup: Time,
    /// Limit of Authorization and of ChargeParameterDiscovery, until the charger is done.
    pub ongoing: Time,
    /// Limit of CableCheck.
    pub cable_check: Time,
    /// Limit of PreCharge.
    pub precharge: Time,
    /// Limit from a response to the next request, at the charger.
    pub sequence: Time,
    /// Time between discovery requests.
    #[schemars(extend("x-minimum" = "1 ms"))]
    pub discovery_period: Time,
    /// Discovery requests before the vehicle gives up.
    #[schemars(extend("minimum" = 1, "maximum" = 10_000))]
    pub discovery_tries: u32,
}

impl Default for SessionLimits {
    fn default() -> Self {
        SessionLimits {
            communication_setup: Time::from_secs(20),
            secc_communication_setup: Time::from_secs(18),
            ongoing: Time::from_secs(60),
            cable_check: Time::from_secs(40),
            precharge: Time::from_secs(7), // ISO 15118-20: 10 s
            sequence: Time::from_secs(60),
            discovery_period: Time::from_millis(250),
            discovery_tries: 50,
        }
    }
}

impl SessionConfig {
    /// Returns the defaults for direct current.
    pub fn dc() -> Self {
        SessionConfig {
            mode: ChargingMode::Dc,
            discovery: true,
            service_detail: false,
            messages: V2gMessage::ALL.map(V2gMessage::spec),
            period: Time::from_millis(100),
            pause: Time::from_millis(90),
            turnaround: Time::from_millis(10),
            turnaround_jitter: Time::ZERO,
            turnaround_distribution: Distribution::Uniform,
            processing: Processing::default(),
            charge: None,
            limits: SessionLimits::default(),
            policy: LimitPolicy::Report,
        }
    }
    /// Returns the defaults for alternating current.
    pub fn ac() -> Self {
        SessionConfig { mode: ChargingMode::Ac, period: Time::from_secs(1), ..SessionConfig::dc() }
    }
    /// Returns true if the turnaround of a message has a random part.
    pub fn is_random(&self) -> bool {
        V2gMessage::ALL.iter().any(|m| !self.turnaround(*m).1.is_zero())
    }
    /// Returns the turnaround of a message, the size of its random part, and the distribution of this part.
    fn turnaround(&self, m: V2gMessage) -> (Time, Time, Distribution) {
        let own = self.message(m);
        (
            own.turnaround.unwrap_or(self.turnaround),
            own.turnaround_jitter.unwrap_or(self.turnaround_jitter),
            own.turnaround_distribution.unwrap_or(self.turnaround_distribution),
        )
    }
    /// Sizes and times of a message.
    pub fn message(&self, m: V2gMessage) -> &MessageSpec {
        &self.messages[m as usize]
    }
    /// Returns the spec of a message, for changes.
    pub fn message_mut(&mut self, m: V2gMessage) -> &mut MessageSpec {
        &mut self.messages[m as usize]
    }
    /// Returns the time for which the charger answers `m` with "ongoing".
    fn processing(&self, m: V2gMessage) -> Time {
        match m {
            V2gMessage::Authorization => self.processing.authorization,
            V2gMessage::ChargeParameterDiscovery => self.processing.charge_parameter_discovery,
            V2gMessage::CableCheck => self.processing.cable_check,
            V2gMessage::PreCharge => self.processing.precharge,
            V2gMessage::WeldingDetection => self.processing.welding_detection,
            _ => Time::ZERO,
        }
    }
}

/// One of the two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The vehicle, which connects.
    Evcc,
    /// The charger, which listens.
    Secc,
}

impl Side {
    /// The side at each end of a flow.
    pub const BY_END: [Side; 2] = [Side::Evcc, Side::Secc];
}

/// Sides of a session that are inside the network: the vehicle, the charger or both.
#[derive(Clone, Debug)]
pub struct Session {
    cfg: SessionConfig,
    start: Time,
    evcc: Option<Evcc>,
    secc: Option<Secc>,
}

impl Session {
    /// Creates a session from `start` on; `outside` marks sides outside the network. The charger draws from `stream`.
    pub fn new(cfg: SessionConfig, start: Time, outside: [bool; 2], stream: RandomStream) -> Self {
        Session {
            evcc: (!outside[0]).then(|| Evcc::new(&cfg, start)),
            secc: (!outside[1]).then(|| Secc::new(&cfg, start, stream)),
            cfg,
            start,
        }
    }

    /// Returns the results so far, from the records of the sides inside the network.
    fn joined(&self) -> SessionResult {
        let evcc = self.evcc.as_ref().map(|evcc| &evcc.record);
        record::join(self.start, [evcc, self.secc.as_ref().map(|secc| &secc.record)])
    }
}

impl Dialogue for Session {
    fn next_wake(&self) -> Time {
        let evcc = self.evcc.as_ref().map_or(Time::MAX, Evcc::next_wake);
        evcc.min(self.secc.as_ref().map_or(Time::MAX, Secc::next_wake))
    }
    fn wake(&mut self, now: Time) {
        if let Some(evcc) = &mut self.evcc {
            evcc.wake(now, &self.cfg);
        }
        if let Some(secc) = &mut self.secc {
            secc.wake(now, &self.cfg);
        }
    }
    fn transmit(&mut self, now: Time, end: usize) -> Option<Action> {
        match Side::BY_END[end] {
            Side::Evcc => self.evcc.as_mut()?.transmit(now, &self.cfg),
            Side::Secc => self.secc.as_mut()?.transmit(now, &self.cfg),
        }
    }
    fn connected(&mut self, now: Time) {
        if let Some(evcc) = &mut self.evcc {
            evcc.on_connected(now);
        }
    }
    fn received(&mut self, now: Time, end: usize, bytes: u64) {
        // The number of bytes identifies the messages of a peer inside the network.
        let (Some(evcc), Some(secc)) = (&mut self.evcc, &mut self.secc) else { return };
        loop {
            let theirs = if Side::BY_END[end] == Side::Evcc { &mut secc.written } else { &mut evcc.written };
            match theirs.read(bytes) {
                Some(Document::Request(m)) => secc.on_request(now, m, &self.cfg),
                Some(Document::Response(r)) => evcc.on_response(now, r, &self.cfg),
                None => return,
            }
        }
    }
    fn closed(&mut self, now: Time, end: usize, by_peer: bool) {
        match (Side::BY_END[end], &mut self.evcc, &mut self.secc) {
            (Side::Evcc, Some(evcc), _) => evcc.fail(now, EndCause::Connection),
            (Side::Secc, _, Some(secc)) if by_peer => secc.on_closed(now),
            (Side::Secc, _, Some(secc)) => secc.fail(now, EndCause::Connection),
            _ => {}
        }
    }
    fn overflowed(&mut self, now: Time, end: usize) -> bool {
        self.closed(now, end, false); // instead of storing messages that nobody reads
        false
    }
    fn sink(&self) -> Option<usize> {
        None
    }
    fn is_over(&self, _: u64) -> bool {
        self.evcc.as_ref().is_some_and(|evcc| evcc.record.is_over())
            || self.secc.as_ref().is_some_and(|secc| secc.record.is_over())
    }
    fn result(&self) -> Option<ApplicationResult> {
        Some(ApplicationResult::Session(Box::new(self.joined())))
    }
    fn bytes(&self) -> usize {
        let evcc = self.evcc.as_ref().map_or(0, |evcc| evcc.record.bytes() + evcc.written.bytes());
        evcc + self.secc.as_ref().map_or(0, |secc| secc.record.bytes() + secc.written.bytes())
    }
    fn messages(&self, end: usize) -> Option<&OutgoingMessages> {
        match Side::BY_END[end] {
            Side::Evcc => self.evcc.as_ref().map(|evcc| &evcc.written),
            Side::Secc => self.secc.as_ref().map(|secc| &secc.written),
        }
    }
    fn read(&mut self, now: Time, end: usize, bytes: &[u8]) {
        let mut rest = bytes;
        match Side::BY_END[end] {
            Side::Evcc => {
                let Some(evcc) = &mut self.evcc else { return };
                while let Some(message) = evcc.reader.next(&mut rest) {
                    match message {
                        Ok(Document::Response(r)) => evcc.on_response(now, r, &self.cfg),
                        _ => evcc.fail(now, EndCause::Protocol),
                    }
                }
            }
            Side::Secc => {
                let Some(secc) = &mut self.secc else { return };
                while let Some(message) = secc.reader.next(&mut rest) {
                    match message {
                        Ok(Document::Request(m)) => secc.on_request(now, m, &self.cfg),
                        _ => secc.fail(now, EndCause::Protocol),
                    }
                }
            }
        }
    }
    fn acknowledged(&mut self, end: usize, bytes: u64) {
        let written = match Side::BY_END[end] {
            Side::Evcc => self.evcc.as_mut().map(|evcc| &mut evcc.written),
            Side::Secc => self.secc.as_mut().map(|secc| &mut secc.written),
        };
        if let Some(written) = written {
            while written.read(bytes).is_some() {}
        }
    }
    fn datagram(&self, end: usize, addresses: &Addresses) -> Option<Vec<u8>> {
        Some(v2gtp::sdp(Side::BY_END[end], addresses))
    }
    fn accepts_datagram(&self, end: usize, payload: &[u8]) -> bool {
        v2gtp::is_sdp(Side::BY_END[1 - end], payload)
    }
    fn receive_datagram(&mut self, now: Time, end: usize) {
        match (Side::BY_END[end], &mut self.evcc, &mut self.secc) {
            (Side::Evcc, Some(evcc), _) => evcc.on_datagram(now),
            (Side::Secc, _, Some(secc)) => secc.on_datagram(now, &self.cfg),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
