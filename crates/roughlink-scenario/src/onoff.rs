//! `[[flow]] kind = "onoff"`: an application that writes at a rate, with pauses, over TCP.

use super::context::{Context, FlowPosition, bytes, ipv6, stop};
use super::leaf::{Leaf, TransferSize, span};
use super::problem::{Problem, Problems};
use super::tcp::TomlConnection;
use roughlink_core::app::Traffic;
use roughlink_core::app::onoff::OnOffConfig;
use roughlink_core::scenario::FlowSpec;
use roughlink_core::units::{Bytes, Rate, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// The keys of on-off traffic.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlOnOff {
    /// Rate at which the application writes during on periods. Data that the connection cannot accept waits and is
    /// written as soon as there is room.
    #[schemars(with = "Leaf<Rate>")] // required, by its definition
    pub rate: Option<Leaf<Rate>>,
    /// Size of a write.
    #[schemars(extend("default" = WRITE, "x-minimum" = "1 B", "x-maximum" = "1 MB"))]
    pub write: Option<Leaf<Bytes>>,
    /// Length of an on period.
    #[schemars(extend("default" = Time::from_secs(1), "x-exclusiveMinimum" = "0 s"))]
    pub on: Option<Leaf<Time>>,
    /// Length of an off period; zero for an application that never pauses.
    #[schemars(extend("default" = Time::ZERO))]
    pub off: Option<Leaf<Time>>,
    /// Payload to write; unlimited if absent, and the flow then lasts until the end of the run.
    pub bytes: Option<Leaf<TransferSize>>,
    /// End of the writes; the end of the run if absent.
    pub stop: Option<Leaf<Time>>,
    /// Connection of the traffic.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub connection: TomlConnection,
}

impl TomlOnOff {
    pub(crate) fn resolve(
        &self,
        spec: &mut FlowSpec,
        place: &FlowPosition<'_>,
        context: &mut Context<'_>,
        report: &mut Problems,
    ) {
        let rate = report.read(&self.rate).unwrap_or(Rate::from_mbps(1));
        if rate == Rate(0) {
            let problem = Problem::new("`rate` must be greater than zero").at(span(&self.rate), "");
            report.error(problem.help("write a rate such as \"1 Mbit/s\", or remove the flow"));
        }
        let onoff = OnOffConfig {
            rate,
            write: report.read(&self.write).unwrap_or(WRITE).0 as u32,
            on: report.read(&self.on).unwrap_or(Time::from_secs(1)),
            off: report.read(&self.off).unwrap_or_default(),
            bytes: bytes(&self.bytes, &spec.name, report),
            stop: stop(&self.stop, spec.start, report).unwrap_or(context.duration),
        };
        spec.traffic = Traffic::OnOff(onoff);
        spec.ipv6 = ipv6(&self.connection, false, report);
        context.over_tcp(spec, &self.connection, place, report);
    }
}

/// Payload of a segment with timestamps over Ethernet.
const WRITE: Bytes = Bytes(1448);
