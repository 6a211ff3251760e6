//! Request and response over TCP: a charging session between a vehicle (EVCC) and a charger (SECC).
//!
//! ISO 15118-2 with external payment, and DIN 70121, which has the same messages: SECC discovery over UDP, then one
//! connection of requests by the vehicle and responses by the charger, one message at a time, under the standard's timers.
//! A session is pure state: it writes lengths into two byte streams and receives how many bytes of each arrived; the
//! content is implied and kept beside the streams. Deviations: no TLS, no contract payment, no renegotiation; the
//! charger's own Ongoing limit and the vehicle's sequence performance time are not watched.

mod evcc;
pub mod message;
mod record;
mod secc;

pub use message::{Message, MessageSpec, PORT, SDP_REQUEST, SDP_RESPONSE, V2GTP_HEADER};
pub use record::{Cause, MessageResult, Outcome, SessionResult};

use crate::units::Time;
use evcc::Evcc;
use record::Record;
use schemars::JsonSchema;
use secc::{Response, Secc};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Charging mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// CurrentDemand loop, after CableCheck and PreCharge.
    #[default]
    Dc,
    /// ChargingStatus loop.
    Ac,
}

/// What follows when a limit is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// It is counted and the session goes on, as captured sessions did.
    #[default]
    Report,
    /// The side that noticed closes the connection, as the standard demands.
    Abort,
}

/// The keys of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionConfig {
    /// Charging mode.
    pub mode: Mode,
    /// Begin with SECC discovery (SDP); else with the connection.
    pub discovery: bool,
    /// Ask for ServiceDetail.
    pub service_detail: bool,
    /// Sizes and times of each message, in the order of [`Message::ALL`].
    pub messages: [MessageSpec; Message::ALL.len()],
    /// From one request of the charging loop to the next; a late response makes the next one leave at once. Captured: 90 to
    /// 250 ms with DC, 100 ms taken; AC 1 s (assumption).
    pub period: Time,
    /// From a response to the next request outside the charging loop. Captured: 80 to 100 ms.
    pub pause: Time,
    /// From a request to its response at the charger. Captured medians: 7 to 211 ms.
    pub turnaround: Time,
    /// How long the charger is busy.
    pub processing: Processing,
    /// How long the charging loop lasts; `None` = until the scenario ends.
    pub charge: Option<Time>,
    /// The session's limits.
    pub limits: Limits,
    /// What follows when a limit is passed.
    pub policy: Policy,
}

/// Time during which the charger answers that it is not done yet.
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
// ISO 15118-2 tables 108 to 111; those of single messages are in [`MessageSpec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct Limits {
    /// Limit from the start of the session to SessionSetupRes, at the vehicle.
    #[schemars(example = "20 s")]
    pub communication_setup: Time,
    /// The same limit, at the charger.
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

impl Default for Limits {
    fn default() -> Self {
        Limits {
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
    /// The defaults with direct current.
    pub fn dc() -> Self {
        SessionConfig {
            mode: Mode::Dc,
            discovery: true,
            service_detail: false,
            messages: Message::ALL.map(Message::spec),
            period: Time::from_millis(100),
            pause: Time::from_millis(90),
            turnaround: Time::from_millis(10),
            processing: Processing::default(),
            charge: None,
            limits: Limits::default(),
            policy: Policy::Report,
        }
    }
    /// The defaults with alternating current.
    pub fn ac() -> Self {
        SessionConfig { mode: Mode::Ac, period: Time::from_secs(1), ..SessionConfig::dc() }
    }
    /// Sizes and times of a message.
    pub fn message(&self, m: Message) -> &MessageSpec {
        &self.messages[m as usize]
    }
    /// The same, to be changed.
    pub fn message_mut(&mut self, m: Message) -> &mut MessageSpec {
        &mut self.messages[m as usize]
    }
    /// How long the charger answers `m` with "ongoing".
    fn processing(&self, m: Message) -> Time {
        match m {
            Message::Authorization => self.processing.authorization,
            Message::ChargeParameterDiscovery => self.processing.charge_parameter_discovery,
            Message::CableCheck => self.processing.cable_check,
            Message::PreCharge => self.processing.precharge,
            Message::WeldingDetection => self.processing.welding_detection,
            _ => Time::ZERO,
        }
    }
}

/// One of the two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The vehicle: it connects.
    Evcc,
    /// The charger: it listens.
    Secc,
}

/// What a side requests of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send a datagram with this many bytes of UDP payload to the peer.
    Datagram(u16),
    /// Open the connection.
    Connect,
    /// Write this many bytes to the connection: one message.
    Write(u32),
    /// Close the connection after what was written.
    Close,
}

/// A session under way, both sides of it. After every call of another verb, [`Session::transmit`] is to be called for both
/// sides until it gives nothing.
#[derive(Clone, Debug)]
pub struct Session {
    cfg: SessionConfig,
    start: Time,
    evcc: Evcc,
    secc: Secc,
    requests: Content<Message>,
    responses: Content<Response>,
    record: Record,
}

impl Session {
    /// A session that begins at `start`.
    pub fn new(cfg: SessionConfig, start: Time) -> Self {
        Session {
            evcc: Evcc::new(&cfg, start),
            secc: Secc::new(&cfg, start),
            cfg,
            start,
            requests: Content::default(),
            responses: Content::default(),
            record: Record::default(),
        }
    }
    /// When the session must be woken; [`Time::MAX`] = never.
    pub fn next_wake(&self) -> Time {
        self.evcc.next_wake().min(self.secc.next_wake())
    }
    /// Processes what is due.
    pub fn wake(&mut self, now: Time) {
        self.evcc.wake(now, &self.cfg, &mut self.record);
        self.secc.wake(now, &self.cfg, &mut self.record);
    }
    /// What `side` requests now.
    pub fn transmit(&mut self, now: Time, side: Side) -> Option<Action> {
        match side {
            Side::Evcc => {
                let action = self.evcc.transmit(now, &self.cfg, &mut self.record);
                if let Some(Action::Write(bytes)) = action {
                    self.requests.write(bytes, self.evcc.request());
                }
                action
            }
            Side::Secc => {
                let (action, response) = self.secc.transmit(now, &self.cfg)?;
                if let (Action::Write(bytes), Some(r)) = (action, response) {
                    self.responses.write(bytes, r);
                }
                Some(action)
            }
        }
    }
    /// A datagram of the peer reached `side`.
    pub fn receive_datagram(&mut self, now: Time, side: Side) {
        match side {
            Side::Evcc => self.evcc.on_datagram(now),
            Side::Secc => self.secc.on_datagram(now, &self.cfg),
        }
    }
    /// The vehicle's connection is established.
    pub fn connected(&mut self, now: Time) {
        self.evcc.on_connected(now);
    }
    /// `side` has been delivered `bytes` in order since the connection began.
    pub fn received(&mut self, now: Time, side: Side, bytes: u64) {
        match side {
            Side::Evcc => {
                while let Some(r) = self.responses.read(bytes) {
                    self.evcc.on_response(now, r, &self.cfg, &mut self.record);
                }
            }
            Side::Secc => {
                while let Some(m) = self.requests.read(bytes) {
                    self.secc.on_request(now, m, &self.cfg, &mut self.record);
                }
            }
        }
    }
    /// The connection of `side` ended: its peer closed, or TCP gave up.
    pub fn closed(&mut self, now: Time, side: Side) {
        match side {
            Side::Evcc => self.evcc.on_closed(now, &mut self.record),
            Side::Secc => self.secc.on_closed(now, &mut self.record),
        }
    }
    /// The messages that `side` has written and its peer has not read: where in the stream each ends.
    pub fn unread(&self, side: Side) -> Box<dyn Iterator<Item = (u64, Message)> + '_> {
        match side {
            Side::Evcc => Box::new(self.requests.messages.iter().copied()),
            Side::Secc => Box::new(self.responses.messages.iter().map(|(end, r)| (*end, r.message))),
        }
    }
    /// The session has ended, successfully or not.
    pub fn is_done(&self) -> bool {
        self.record.end.is_some()
    }
    /// Memory of what it records.
    pub fn bytes(&self) -> usize {
        self.record.bytes()
    }
    /// What happened so far.
    pub fn result(&self) -> SessionResult {
        self.record.result(self.start)
    }
}

/// The content of a stream: messages, and the offset at which each ends.
#[derive(Clone, Debug)]
struct Content<T> {
    written: u64,
    messages: VecDeque<(u64, T)>,
}

impl<T> Default for Content<T> {
    fn default() -> Self {
        Content { written: 0, messages: VecDeque::new() }
    }
}

impl<T> Content<T> {
    fn write(&mut self, bytes: u32, message: T) {
        self.written += u64::from(bytes);
        self.messages.push_back((self.written, message));
    }
    /// The next message that is complete when `delivered` bytes have arrived.
    fn read(&mut self, delivered: u64) -> Option<T> {
        self.messages.pop_front_if(|m| m.0 <= delivered).map(|m| m.1)
    }
}

#[cfg(test)]
mod tests;
