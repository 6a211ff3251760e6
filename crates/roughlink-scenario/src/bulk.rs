//! `[[flow]] kind = "bulk"`: a transfer over TCP or SCTP.

use super::flow::{Connection, Context, Place, bytes, ipv6};
use super::leaf::{At, Leaf, Transfer};
use super::problem::{Problem, Report};
use super::sctp::{self, Sctp};
use roughlink_core::app::Traffic;
use roughlink_core::scenario::FlowSpec;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// The keys of a transfer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Bulk {
    /// Payload to transfer; unlimited if absent, and the flow then sends until the end of the run.
    pub bytes: Option<Leaf<Transfer>>,
    /// Transport protocol.
    #[schemars(extend("default" = "tcp"))]
    pub transport: Option<Leaf<Transport>>,
    /// Any other `[sctp]` key, for this flow.
    pub sctp: Option<Box<At<Sctp>>>,
    /// Its connection.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub connection: Connection,
}

/// What carries a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Transport {
    /// RFC 9293.
    Tcp,
    /// RFC 9260.
    Sctp,
}

impl Bulk {
    /// Resolves the amount of data and the transport.
    pub(crate) fn resolve(
        &self,
        spec: &mut FlowSpec,
        place: &Place<'_>,
        context: &mut Context<'_>,
        report: &mut Report,
    ) {
        spec.traffic = Traffic::Bulk { bytes: bytes(&self.bytes, &spec.name, report) };
        if report.read(&self.transport) == Some(Transport::Sctp) {
            if let Some(ip) = &self.connection.ip {
                let problem = Problem::new("`ip` has no effect on a flow over SCTP").at(ip.span.clone(), "");
                report.error(problem.help("SCTP runs over IPv4 here: leave `ip` out"));
            }
            let own = self.sctp.as_ref().map(|own| &own.value);
            if let Some(sctp) = sctp::resolve(context.sctp, own, &self.connection, place.name.clone(), report) {
                context.note_fragments((u64::from(sctp.config.payload) + 48, false), sctp.place, place.path);
                spec.sctp = Some(Arc::new(sctp.config));
                spec.cc = sctp.cc.name.to_owned();
                (spec.factory, spec.cc_params) = (Some(sctp.factory), sctp.params);
            }
            return;
        }
        if let Some(sctp) = &self.sctp {
            let problem = Problem::new("`sctp` has no effect on a flow over TCP").at(sctp.span.clone(), "");
            report.error(problem.help("add transport = \"sctp\", or leave `sctp` out"));
        }
        spec.ipv6 = ipv6(&self.connection, false, report);
        context.over_tcp(spec, &self.connection, place, report);
    }
}
