//! `[[flow]] kind = "messages"`: messages at an interval over SCTP.

use super::context::{Context, FlowPosition, stop};
use super::leaf::{At, Leaf, span};
use super::problem::{Problem, Problems};
use super::sctp::TomlSctp;
use super::tcp::TomlConnection;
use roughlink_core::app::Traffic;
use roughlink_core::app::messages::MessagesConfig;
use roughlink_core::scenario::{FlowSpec, FlowTransport};
use roughlink_core::units::{Bytes, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// The keys of messages.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlMessages {
    /// Size of a message, at most the `rcv_buf` of the association. A message larger than `payload` leaves in several
    /// packets; each packet holds one message or part of one.
    #[schemars(with = "Leaf<Bytes>", extend("x-minimum" = "1 B", "x-maximum" = "100 MB"))]
    // required, by its definition
    pub size: Option<Leaf<Bytes>>,
    /// Time from one message to the next. A message waits until the association can accept it.
    #[schemars(with = "Leaf<Time>", extend("x-minimum" = "1 us"))] // required, by its definition
    pub interval: Option<Leaf<Time>>,
    /// Number of messages; unlimited if absent, and the flow then lasts until the end of the run.
    #[schemars(extend("minimum" = 1))]
    pub count: Option<Leaf<u64>>,
    /// End of the messages; the end of the run if absent.
    pub stop: Option<Leaf<Time>>,
    /// Any other `[sctp]` key, for this flow, such as `streams`, `ordered`, or `partial_reliability` with `lifetime` or
    /// `max_retransmissions`.
    pub sctp: Option<Box<At<TomlSctp>>>,
    /// Congestion control of the association.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub connection: TomlConnection,
}

impl TomlMessages {
    pub(crate) fn resolve(
        &self,
        spec: &mut FlowSpec,
        place: &FlowPosition<'_>,
        context: &mut Context<'_>,
        report: &mut Problems,
    ) {
        let cfg = MessagesConfig {
            size: report.read(&self.size).map_or(1, |size| size.0 as u32),
            interval: report.read(&self.interval).unwrap_or(Time::from_secs(1)),
            count: report.read(&self.count),
            stop: stop(&self.stop, spec.start, report).unwrap_or(context.duration),
        };
        spec.traffic = Traffic::Messages(cfg);
        context.over_sctp(spec, (self.sctp.as_deref(), &self.connection), place, report);
        if let FlowTransport::Sctp(sctp, _) = &spec.transport
            && cfg.size > sctp.rcv_buf
        {
            let message = format!("a message of {} is never delivered", Bytes(u64::from(cfg.size)));
            let receiver = format!("the receiver's buffer holds {}", Bytes(u64::from(sctp.rcv_buf)));
            let problem = Problem::new(message).at(span(&self.size), receiver);
            report.error(problem.help("write a smaller `size`, or a larger `rcv_buf` in `sctp`"));
        }
    }
}
