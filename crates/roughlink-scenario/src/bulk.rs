//! `[[flow]] kind = "bulk"`: a transfer over TCP or SCTP.

use super::context::{Context, FlowPosition, bytes, ipv6};
use super::leaf::{At, Leaf, TransferSize, words};
use super::problem::{Problem, Problems};
use super::sctp::TomlSctp;
use super::tcp::TomlConnection;
use roughlink_core::app::Traffic;
use roughlink_core::scenario::FlowSpec;
use schemars::JsonSchema;
use serde::Deserialize;

/// The keys of a transfer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlBulk {
    /// Payload to transfer; unlimited if absent, and the flow then sends until the end of the run.
    pub bytes: Option<Leaf<TransferSize>>,
    /// Transport protocol.
    #[schemars(extend("default" = "tcp"))]
    pub transport: Option<Leaf<Transport>>,
    /// Any other `[sctp]` key, for this flow.
    pub sctp: Option<Box<At<TomlSctp>>>,
    /// Connection of the transfer.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub connection: TomlConnection,
}

/// Transport protocol of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Transport {
    /// RFC 9293.
    Tcp,
    /// RFC 9260.
    Sctp,
}

words!(Transport);

impl TomlBulk {
    pub(crate) fn resolve(
        &self,
        spec: &mut FlowSpec,
        place: &FlowPosition<'_>,
        context: &mut Context<'_>,
        report: &mut Problems,
    ) {
        spec.traffic = Traffic::Bulk { bytes: bytes(&self.bytes, &spec.name, report) };
        if report.read(&self.transport) == Some(Transport::Sctp) {
            context.over_sctp(spec, (self.sctp.as_deref(), &self.connection), place, report);
            return;
        }
        if let Some(sctp) = &self.sctp {
            let problem = Problem::new("`sctp` has no effect on a flow over TCP").at(sctp.span.clone(), "");
            report.error(problem.help("add transport = \"sctp\", or remove `sctp`"));
        }
        spec.ipv6 = ipv6(&self.connection, false, report);
        context.over_tcp(spec, &self.connection, place, report);
    }
}
