//! `[[flow]] kind = "web"`: requests and responses with think time, over TCP.

use super::context::{Context, FlowPosition, ipv6};
use super::leaf::Leaf;
use super::problem::Problems;
use super::tcp::TomlConnection;
use roughlink_core::app::Traffic;
use roughlink_core::app::web::WebConfig;
use roughlink_core::scenario::FlowSpec;
use roughlink_core::units::{Bytes, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// The keys of requests and responses.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlWeb {
    /// Size of a request, including headers.
    #[schemars(extend("default" = REQUEST, "x-minimum" = "1 B", "x-maximum" = "1 GB"))]
    pub request: Option<Leaf<Bytes>>,
    /// Size of a response, including headers.
    #[schemars(extend("default" = RESPONSE, "x-minimum" = "1 B", "x-maximum" = "1 GB"))]
    pub response: Option<Leaf<Bytes>>,
    /// Think time: from the end of a response to the next request.
    #[schemars(extend("default" = Time::from_secs(2)))]
    pub think: Option<Leaf<Time>>,
    /// Number of requests; unlimited until the end of the run if absent.
    #[schemars(extend("minimum" = 1))]
    pub requests: Option<Leaf<u32>>,
    /// Connection of the requests and responses.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub connection: TomlConnection,
}

impl TomlWeb {
    pub(crate) fn resolve(
        &self,
        spec: &mut FlowSpec,
        place: &FlowPosition<'_>,
        context: &mut Context<'_>,
        report: &mut Problems,
    ) {
        spec.traffic = Traffic::Web(WebConfig {
            request: report.read(&self.request).unwrap_or(REQUEST).0.max(1),
            response: report.read(&self.response).unwrap_or(RESPONSE).0.max(1),
            think: report.read(&self.think).unwrap_or(Time::from_secs(2)),
            requests: report.read(&self.requests).map(u64::from),
        });
        spec.ipv6 = ipv6(&self.connection, false, report);
        context.over_tcp(spec, &self.connection, place, report);
    }
}

const REQUEST: Bytes = Bytes(400);
const RESPONSE: Bytes = Bytes(100_000);
