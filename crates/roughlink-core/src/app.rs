//! Applications: the traffic of flows. They are pure state, like the endpoints beneath them: callers pass arrivals and
//! the time, and get packets to send now and the time of the next wake-up.

pub mod cbr;
pub mod dialogue;
pub mod messages;
pub mod onoff;
pub mod request;
pub mod voip;
pub mod web;

use crate::units::{Rate, Time};
use serde::{Deserialize, Deserializer, Serialize};

/// The traffic of a flow.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// A transfer over TCP at full speed; `None` = until the scenario ends.
    Bulk {
        /// Bytes to transfer.
        bytes: Option<u64>,
    },
    /// Datagrams of `packet` bytes (IP length) at a constant rate.
    Cbr {
        /// IP bit rate.
        rate: Rate,
        /// IP length of each datagram, bytes.
        packet: u16,
        /// Payload bytes after which the flow ends; `None` = until `stop`.
        bytes: Option<u64>,
        /// End of the flow; `None` = with the scenario.
        stop: Option<Time>,
    },
    /// A voice call both ways.
    Voip {
        /// Codec, jitter buffer and rating.
        config: Box<voip::VoipConfig>,
        /// End of the call; `None` = with the scenario.
        stop: Option<Time>,
    },
    /// Writes over TCP at a rate, with pauses.
    OnOff(onoff::OnOffConfig),
    /// Requests and responses with think time over TCP: the flow's source is the client.
    Web(web::WebConfig),
    /// Messages over SCTP at an interval.
    Messages(messages::MessagesConfig),
    /// A charging session: requests of the vehicle (the flow's source) and the charger's answers.
    Request {
        /// Messages and timers.
        session: Box<request::SessionConfig>,
    },
}

impl Traffic {
    /// Returns the name of the kind in scenario files and results.
    pub const fn name(&self) -> &'static str {
        match self {
            Traffic::Bulk { .. } => "bulk",
            Traffic::Cbr { .. } => "cbr",
            Traffic::Voip { .. } => "voip",
            Traffic::OnOff(_) => "onoff",
            Traffic::Web(_) => "web",
            Traffic::Messages(_) => "messages",
            Traffic::Request { .. } => "request",
        }
    }

    /// Returns true if the traffic consists of UDP datagrams only.
    pub const fn is_datagrams(&self) -> bool {
        match self {
            Traffic::Cbr { .. } | Traffic::Voip { .. } => true,
            Traffic::Bulk { .. } | Traffic::OnOff(_) | Traffic::Web(_) => false,
            Traffic::Messages(_) | Traffic::Request { .. } => false,
        }
    }

    /// Returns true if both ends send data of the application, not only the flow's source.
    pub const fn is_two_way(&self) -> bool {
        match self {
            Traffic::Voip { .. } | Traffic::Web(_) | Traffic::Request { .. } => true,
            Traffic::Bulk { .. } | Traffic::Cbr { .. } | Traffic::OnOff(_) | Traffic::Messages(_) => false,
        }
    }

    /// Returns true if the application draws random numbers.
    pub fn is_random(&self) -> bool {
        match self {
            Traffic::Voip { .. } => true, // the phase of its packets
            Traffic::Request { session } => session.is_random(),
            Traffic::Bulk { .. } | Traffic::Cbr { .. } | Traffic::OnOff(_) | Traffic::Web(_) => false,
            Traffic::Messages(_) => false,
        }
    }

    /// Estimates the bytes that the flow carries within `duration` over links of at most `rate`; 0 for applications
    /// that mostly wait.
    pub fn estimate_bytes(&self, duration: Time, rate: Rate) -> f64 {
        let (seconds, fastest) = (duration.as_secs_f64(), rate.0 as f64);
        match self {
            Traffic::Bulk { bytes: Some(bytes) } => (*bytes as f64).min(seconds * fastest / 8.0),
            Traffic::Bulk { bytes: None } => seconds * fastest / 8.0,
            Traffic::Cbr { rate, .. } => seconds * rate.0 as f64 / 8.0,
            Traffic::Voip { config, .. } => {
                2.0 * seconds / config.speech.interval.as_secs_f64() * f64::from(config.datagram())
            }
            Traffic::OnOff(c) => {
                let share = c.on.as_secs_f64() / (c.on + c.off).as_secs_f64().max(1e-9);
                seconds * (c.rate.0 as f64).min(fastest) / 8.0 * share
            }
            Traffic::Messages(c) => {
                let count = seconds / c.interval.as_secs_f64().max(1e-9);
                count.min(c.count.unwrap_or(u64::MAX) as f64) * f64::from(c.size)
            }
            Traffic::Web(_) | Traffic::Request { .. } => 0.0,
        }
    }
}

/// Application-specific result of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApplicationResult {
    /// Quality of a voice call, first at `to`, then at `from`.
    Voip(Box<[voip::VoipResult; 2]>),
    /// Requests and responses.
    Web(Box<web::WebResult>),
    /// Messages.
    Messages(Box<messages::MessagesResult>),
    /// A charging session.
    Session(Box<request::SessionResult>),
}

/// Reads a flattened result, with a field for each variant of [`ApplicationResult`].
///
/// Unlike a flattened `Option` of that enum, this function reports a result that has another form.
pub(crate) fn read_result<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ApplicationResult>, D::Error> {
    #[derive(Deserialize)]
    struct Results {
        voip: Option<Box<[voip::VoipResult; 2]>>,
        web: Option<Box<web::WebResult>>,
        messages: Option<Box<messages::MessagesResult>>,
        session: Option<Box<request::SessionResult>>,
    }
    let Results { voip, web, messages, session } = Results::deserialize(from)?;
    let all = [
        voip.map(ApplicationResult::Voip),
        web.map(ApplicationResult::Web),
        messages.map(ApplicationResult::Messages),
        session.map(ApplicationResult::Session),
    ];
    Ok(all.into_iter().flatten().next())
}
